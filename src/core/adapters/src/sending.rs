//! What handlers that send have in common: the settings of their deliveries, what operators see of several, and the end of all.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;

use mixer_base::budget::{MemoryBudget, Purpose};
use mixer_delivery::{Batching, Bounds, Delivery, DeliveryStatus, Holds, Items, Retry, Settings, WhenFull};
use mixer_engine::adapter::{Env, HandlerError, HandlerStatus, QueueStatus};

/// A batch is sent until the backend takes it, or refuses it.
const RETRY: Retry = Retry {
    first_pause: Duration::from_millis(500),
    longest_pause: Duration::from_secs(30),
    budget: Duration::MAX,
    breaker_failures: 10,
};

/// The settings of a delivery whose queue has so many bytes, of which a batch has at most half. Batches are tried again until the backend
/// takes or refuses them.
pub(crate) fn settings(env: &Env, queue: usize, when_full: WhenFull, batching: Batching) -> Settings {
    Settings {
        bounds: Bounds { items: usize::MAX, bytes: queue, takes_larger: true },
        memory: Some(Arc::clone(env.commons.get::<MemoryBudget>().share(Purpose::Queues))),
        when_full,
        batching: Batching { bytes: batching.bytes.min((queue / 2).max(1)), ..batching },
        retry: RETRY,
        holds: Holds::clone(&env.commons.get::<Holds>()),
        ..Settings::default()
    }
}

/// The end of a delivery: whether everything was sent.
pub(crate) type Closing<'c> = Pin<Box<dyn Future<Output = bool> + Send + 'c>>;

/// Closes a delivery, if there is one.
pub(crate) fn closing<B: Items>(delivery: Option<&Arc<Delivery<B>>>, deadline: Duration) -> Closing<'_> {
    Box::pin(async move {
        match delivery {
            Some(delivery) => delivery.close(deadline).await,
            None => true,
        }
    })
}

/// Closes deliveries at the same time, so that the deadline of each is that of all. Errors: one of them had items left.
pub(crate) async fn close_all(deliveries: impl IntoIterator<Item = Closing<'_>>) -> Result<(), HandlerError> {
    match join_all(deliveries).await.contains(&false) {
        false => Ok(()),
        true => Err(HandlerError::new("items were not sent before the deadline")),
    }
}

/// The status of such a handler, put together delivery by delivery.
pub(crate) struct SendingStatus {
    /// The size of each queue in bytes.
    capacity: usize,
    queues: Vec<QueueStatus>,
    troubles: Vec<String>,
    /// Items on disk, of all deliveries.
    on_disk: u64,
}

impl SendingStatus {
    /// Without a delivery; the queue of each has so many bytes.
    pub(crate) fn new(capacity: usize) -> Self {
        Self { capacity, queues: Vec::new(), troubles: Vec::new(), on_disk: 0 }
    }

    /// Adds the delivery of what is called `name`, with what is wrong with its backend.
    pub(crate) fn add(&mut self, name: &str, status: DeliveryStatus, trouble: Option<String>) {
        self.queues.push(QueueStatus {
            name: format!("bytes of {name} to be sent"),
            length: status.queued_bytes,
            capacity: self.capacity,
            dropped: status.full,
        });
        self.on_disk += status.on_disk;
        self.troubles.extend(trouble.map(|trouble| format!("{name}: {trouble}")));
    }

    /// Adds the series of a metric.
    pub(crate) fn add_series(&mut self, metric: &str, length: usize, capacity: usize, dropped: u64) {
        self.queues.push(QueueStatus { name: format!("series {metric}"), length, capacity, dropped });
    }

    /// The status.
    pub(crate) fn finish(self) -> HandlerStatus {
        let trouble = (!self.troubles.is_empty()).then(|| self.troubles.join("; "));
        let notes = match self.on_disk {
            0 => Vec::new(),
            on_disk => vec![("items on disk", on_disk.to_string())],
        };
        HandlerStatus { trouble, queues: self.queues, notes, ..HandlerStatus::default() }
    }
}
