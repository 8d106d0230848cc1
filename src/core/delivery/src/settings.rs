//! The settings of a delivery.

use std::sync::Arc;
use std::time::Duration;

use mixer_base::budget::Share;
use mixer_base::metrics::Counter;
use tokio_util::sync::CancellationToken;

use crate::retry::Retry;

/// Bounds, batches and counters of a delivery.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// What waits at most.
    pub bounds: Bounds,
    /// The share of the memory of the server that items take, those in flight included; `None`: they are bounded by `bounds` only.
    pub memory: Option<Arc<Share>>,
    /// What is dropped when there is no room.
    pub when_full: WhenFull,
    /// When a batch is due, and its size.
    pub batching: Batching,
    /// Which batches are tried again.
    pub retry: Retry,
    /// Counters of the server's metrics.
    pub losses: LossCounters,
    /// Ends waiting for room.
    pub holds: Holds,
}

/// What waits at most. The batch in flight is beside it, so that a slow sink does not halve the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Number of items.
    pub items: usize,
    /// Bytes of all items.
    pub bytes: usize,
    /// Whether items that are larger than `bytes` all by themselves are taken while no other item waits.
    pub takes_larger: bool,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { items: usize::MAX, bytes: usize::MAX, takes_larger: false }
    }
}

/// What happens when items arrive for which there is no room, or no memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WhenFull {
    /// The items that arrive are dropped.
    #[default]
    DropNewest,
    /// The items that waited longest are dropped, if the new ones fit then. Items in flight are never dropped.
    DropOldest,
    /// [`hand_over`](crate::Delivery::hand_over) waits for room, at most so long, and then drops the items that arrived. All that does
    /// not wait drops them at once.
    Hold(Duration),
}

impl WhenFull {
    /// How long items wait for room.
    pub(crate) fn hold(self) -> Option<Duration> {
        match self {
            Self::Hold(limit) => Some(limit),
            Self::DropNewest | Self::DropOldest => None,
        }
    }
}

/// Callers that wait for room, of all deliveries with clones of it: those of a server. When it stops, nobody waits any more.
#[derive(Debug, Clone, Default)]
pub struct Holds {
    ended: CancellationToken,
    is_rehearsal: bool,
}

impl Holds {
    /// Those of a process that only tries a configuration: its deliveries use no directory on disk, which a server may use or is to use, and
    /// send nothing of what is there.
    pub fn of_rehearsal() -> Self {
        Self { is_rehearsal: true, ..Self::default() }
    }

    /// Whether the process only tries a configuration.
    pub fn is_rehearsal(&self) -> bool {
        self.is_rehearsal
    }

    /// Whoever waits for room, now or later, is refused at once: the items are dropped and counted as [closed](crate::DeliveryStatus::closed).
    pub fn end(&self) {
        self.ended.cancel();
    }

    /// Whether they have ended: the server stops.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.is_cancelled()
    }

    /// Until they end.
    pub(crate) async fn ended(&self) {
        self.ended.cancelled().await;
    }
}

/// A batch is due as soon as one of the three is reached, and when the delivery closes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batching {
    /// Items that wait; also the largest number in a batch, unless its container moves all ([`Items::move_front`](crate::Items)).
    pub items: usize,
    /// Bytes that wait; also the largest size of a batch, as above.
    pub bytes: usize,
    /// Time since the courier saw the first item that waits.
    pub wait: Duration,
}

impl Default for Batching {
    fn default() -> Self {
        Self { items: usize::MAX, bytes: usize::MAX, wait: Duration::ZERO }
    }
}

/// Metrics that count lost items as well; a delivery counts for itself in any case.
#[derive(Debug, Clone, Default)]
pub struct LossCounters {
    /// Items that did not fit.
    pub full: Option<Counter>,
    /// Items that the sink did not deliver.
    pub failed: Option<Counter>,
}
