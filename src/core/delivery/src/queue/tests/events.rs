//! What happens in a schedule, at random.

use std::sync::Arc;
use std::time::Duration;

use mixer_base::budget::Share;
use proptest::prelude::*;

use crate::retry::Retry;
use crate::settings::{Batching, Bounds, Settings, WhenFull};

/// What a sink does with a batch.
#[derive(Debug, Clone, Copy)]
pub(super) enum Conduct {
    Delivers,
    /// Delivers so many of the first items, and loses the rest.
    Half(usize),
    Fails,
    /// Removes so many items, of which it delivers some, and panics.
    Panics(usize, usize),
    /// Removes so many items, of which it delivers some, and asks for another attempt for the rest.
    TriesAgain(usize, usize),
}

#[derive(Debug, Clone)]
pub(super) enum Event {
    /// Items of these sizes arrive at once.
    Arrive(Vec<usize>),
    /// So many milliseconds pass.
    Pass(u64),
    /// From now on the sink takes so long for a batch, and does this with it.
    Sink(u64, Conduct),
    /// From now on the disk takes so long for a step, works or not, and takes so many items.
    Disk(u64, bool, usize),
    /// An item of a caller that would rather wait than have it dropped.
    Hold(usize),
    /// The next record that is read is damaged.
    Damage,
    /// The directory on disk is opened, if it was not.
    Open,
    /// Somebody removes the directory.
    Remove,
    /// The process is killed, and another one goes on with what is on disk.
    Kill,
    Close,
    /// The deadline of closing, at which the task of the courier ends at once.
    Deadline,
}

fn conduct() -> impl Strategy<Value = Conduct> {
    prop_oneof![
        4 => Just(Conduct::Delivers),
        2 => (0..6_usize).prop_map(Conduct::Half),
        1 => Just(Conduct::Fails),
        2 => (0..6_usize, 0..6_usize).prop_map(|(removed, delivered)| Conduct::Panics(removed, delivered)),
        4 => (0..6_usize, 0..6_usize).prop_map(|(removed, delivered)| Conduct::TriesAgain(removed, delivered)),
    ]
}

pub(super) fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        8 => prop::collection::vec(0..40_usize, 1..5).prop_map(Event::Arrive),
        8 => (0..50_u64).prop_map(Event::Pass),
        3 => (0..80_u64, conduct()).prop_map(|(takes, conduct)| Event::Sink(takes, conduct)),
        2 => (0..30_u64, any::<bool>(), 0..60_usize).prop_map(|(takes, works, room)| Event::Disk(takes, works, room)),
        2 => (0..40_usize).prop_map(Event::Hold),
        1 => Just(Event::Damage),
        2 => Just(Event::Open),
        1 => Just(Event::Remove),
        1 => Just(Event::Kill),
        1 => Just(Event::Close),
        1 => Just(Event::Deadline),
    ];
    prop::collection::vec(event, 1..120)
}

pub(super) fn settings() -> impl Strategy<Value = Settings> {
    let bounds = (1..30_usize, 1..300_usize, any::<bool>());
    let batching = (1..10_usize, 1..120_usize, 0..60_u64);
    let retry = (1..40_u64, 1..200_u64, 0..300_u64, 0..4_u32);
    let memory = prop_oneof![Just(None), (20..400_usize).prop_map(Some)];
    let all = (bounds, batching, retry, any::<bool>(), memory);
    all.prop_map(|(bounds, batching, retry, drops_oldest, memory)| Settings {
        memory: memory.map(|bytes| Arc::new(Share::new(bytes))),
        when_full: if drops_oldest { WhenFull::DropOldest } else { WhenFull::DropNewest },
        retry: Retry {
            first_pause: Duration::from_millis(retry.0),
            longest_pause: Duration::from_millis(retry.1),
            budget: Duration::from_millis(retry.2),
            breaker_failures: retry.3,
        },
        bounds: Bounds { items: bounds.0, bytes: bounds.1, takes_larger: bounds.2 },
        batching: Batching { items: batching.0, bytes: batching.1, wait: Duration::from_millis(batching.2) },
        ..Settings::default()
    })
}
