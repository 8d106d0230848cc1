//! All deliveries of the process: for metrics and ControlZ.
//!
//! The registry is that of the process, as that of tasks is.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use mixer_base::metrics::{Collect, Collected, Family};

use crate::queue::DeliveryStatus;
use crate::settings::Bounds;

/// A live delivery.
#[derive(Debug, Clone)]
pub struct DeliveryReport {
    /// The name of its task.
    pub name: &'static str,
    /// Which of several with this name, for example the name of a handler.
    pub detail: String,
    /// What became of its items.
    pub status: DeliveryStatus,
    /// What its queue holds at most.
    pub bounds: Bounds,
    /// Why the last attempt failed; `None` if it did not.
    pub trouble: Option<String>,
}

/// What is registered.
pub(crate) trait Reported: Send + Sync {
    fn report(&self) -> DeliveryReport;
}

static LIVE: Mutex<BTreeMap<u64, Weak<dyn Reported>>> = Mutex::new(BTreeMap::new());
/// The counts of deliveries that are gone, by name and detail: a counter never decreases.
static GONE: Mutex<BTreeMap<Key, Totals>> = Mutex::new(BTreeMap::new());
/// Details of deliveries that are gone whose counts are kept apart. Beyond that, they are added up without their details, so that a server
/// whose configuration names ever new handlers does not grow.
const MAX_GONE: usize = 256;

/// Name and detail.
type Key = (&'static str, String);

/// What became of the items of all deliveries with one name and detail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Totals {
    /// Handed over.
    accepted: u64,
    /// Found on disk: what an earlier delivery kept, of this process or of another.
    recovered: u64,
    delivered: u64,
    full: u64,
    failed: u64,
    closed: u64,
    /// Left on disk by deliveries that are gone.
    kept: u64,
    waiting: u64,
    queued_bytes: usize,
    spilled_bytes: u64,
    open_breakers: u32,
}

impl Totals {
    fn of(status: &DeliveryStatus) -> Self {
        Self {
            accepted: status.accepted.saturating_sub(status.recovered),
            recovered: status.recovered,
            delivered: status.delivered,
            full: status.full,
            failed: status.failed,
            closed: status.closed,
            kept: 0,
            waiting: status.waiting(),
            queued_bytes: status.queued_bytes,
            spilled_bytes: status.spilled_bytes,
            open_breakers: u32::from(status.is_breaker_open),
        }
    }

    /// Of one at the end of the process: what is on disk is kept.
    fn of_last(last: &DeliveryStatus) -> Self {
        Self { kept: last.on_disk, waiting: last.waiting().saturating_sub(last.on_disk), ..Self::of(last) }
    }

    /// Of a delivery that is dropped: items that it still had in memory are lost.
    fn of_gone(last: &DeliveryStatus) -> Self {
        let last_counts = Self::of_last(last);
        Self {
            closed: last.closed + last_counts.waiting,
            waiting: 0,
            queued_bytes: 0,
            spilled_bytes: 0,
            open_breakers: 0,
            ..last_counts
        }
    }

    /// Items that were dropped, or are lost with the process.
    fn lost(&self) -> u64 {
        self.full + self.failed + self.closed + self.waiting
    }

    fn add(&mut self, other: &Self) {
        self.accepted += other.accepted;
        self.recovered += other.recovered;
        self.delivered += other.delivered;
        self.full += other.full;
        self.failed += other.failed;
        self.closed += other.closed;
        self.kept += other.kept;
        self.waiting += other.waiting;
        self.queued_bytes += other.queued_bytes;
        self.spilled_bytes += other.spilled_bytes;
        self.open_breakers += other.open_breakers;
    }
}

/// A number for [`add`].
pub(crate) fn number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Lists a delivery until [`remove`].
pub(crate) fn add(number: u64, delivery: Weak<dyn Reported>) {
    LIVE.lock().insert(number, delivery);
}

/// Keeps the counts of a delivery that is dropped.
pub(crate) fn remove(number: u64, name: &'static str, detail: String, last: &DeliveryStatus) {
    // Both at once: a reader finds the counts in one of the two.
    let mut live = LIVE.lock();
    live.remove(&number);
    let mut gone = GONE.lock();
    gone.entry((name, detail)).or_default().add(&Totals::of_gone(last));
    drop(live);
    forget_details(&mut gone);
}

/// Adds counts up without their details if there are too many.
fn forget_details(gone: &mut BTreeMap<Key, Totals>) {
    if gone.len() <= MAX_GONE {
        return;
    }
    for ((name, _), totals) in std::mem::take(gone) {
        gone.entry((name, String::new())).or_default().add(&totals);
    }
}

/// The live deliveries, by name.
pub fn list() -> Vec<DeliveryReport> {
    // A delivery that is dropped here removes itself, which takes the lock.
    let live: Vec<Arc<dyn Reported>> = LIVE.lock().values().filter_map(Weak::upgrade).collect();
    let mut list: Vec<DeliveryReport> = live.iter().map(|delivery| delivery.report()).collect();
    list.sort_by(|a, b| (a.name, &a.detail).cmp(&(b.name, &b.detail)));
    list
}

/// Until a delivery that is being dropped has left its counts.
const LEAVING: Duration = Duration::from_secs(1);

/// What became of all items, past and present, by the name and detail of their delivery. `of` takes those of a live one.
fn totals(of: impl Fn(&DeliveryStatus) -> Totals) -> BTreeMap<Key, Totals> {
    let deadline = Instant::now() + LEAVING;
    let (mut totals, live) = loop {
        let live = LIVE.lock();
        let arcs: Vec<Arc<dyn Reported>> = live.values().filter_map(Weak::upgrade).collect();
        // One that is being dropped is in neither of the two: its counters would go back for a moment.
        if arcs.len() == live.len() || Instant::now() >= deadline {
            break (GONE.lock().clone(), arcs);
        }
        drop(live);
        drop(arcs);
        std::thread::yield_now();
    };
    for delivery in &live {
        let DeliveryReport { name, detail, status, .. } = delivery.report();
        totals.entry((name, detail)).or_default().add(&of(&status));
    }
    totals
}

/// Logs what became of the items of each delivery of the process that has lost some, when it ends: nobody reads the metrics after that. What waits
/// then is lost.
pub fn tell_losses() {
    for ((delivery, detail), totals) in totals(Totals::of_last) {
        let Totals { accepted, recovered, delivered, full, failed, closed, kept, waiting, .. } = totals;
        if totals.lost() > 0 {
            tracing::warn!(
                delivery,
                detail,
                accepted,
                recovered,
                delivered,
                full,
                failed,
                closed,
                kept,
                waiting,
                "not all items were delivered"
            );
        }
    }
}

/// Exports the counts of all deliveries.
#[derive(Debug, Default)]
pub struct DeliveryCollector(());

impl Collect for DeliveryCollector {
    fn collect(&self, into: &mut Collected) {
        for ((name, detail), totals) in totals(Totals::of) {
            let labels = [name, detail.as_str()];
            let outcomes = [
                ("accepted", totals.accepted),
                ("recovered", totals.recovered),
                ("delivered", totals.delivered),
                ("full", totals.full),
                ("failed", totals.failed),
                ("closed", totals.closed),
                ("kept", totals.kept),
            ];
            for (outcome, items) in outcomes {
                into.add(Family::DeliveryItems, &[name, &detail, outcome], items as f64);
            }
            into.add(Family::DeliveryWaiting, &labels, totals.waiting as f64);
            into.add(Family::DeliveryQueuedBytes, &labels, totals.queued_bytes as f64);
            into.add(Family::DeliverySpilledBytes, &labels, totals.spilled_bytes as f64);
            into.add(Family::DeliveryOpenBreakers, &labels, f64::from(totals.open_breakers));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Delivery, List, Settings, Tally};

    impl crate::AsyncSink<List<usize>> for usize {
        async fn deliver(&mut self, batch: &mut List<usize>, tally: &mut Tally) {
            while let Some(item) = batch.pop() {
                tally.delivered(usize::from(item <= *self));
            }
            tally.give_up("too large");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn counts_outlive_their_delivery_and_add_up() {
        let listed = |detail: &str| list().into_iter().find(|d| d.name == "registered" && d.detail == detail);
        let count = || {
            let mut sum = Totals::default();
            totals(Totals::of)
                .iter()
                .filter(|((name, _), _)| *name == "registered")
                .for_each(|(_, one)| sum.add(one));
            sum
        };
        let [first, second] =
            ["a", "b"].map(|of| Delivery::in_task("registered", of, Settings::default(), 5));
        first.accept(3_usize).unwrap();
        first.accept(9_usize).unwrap();
        second.accept(2_usize).unwrap();
        assert_eq!((count().accepted, count().waiting), (3, 3));
        assert!(first.close(std::time::Duration::from_secs(1)).await);
        let report = listed("a").unwrap();
        assert_eq!((report.status.delivered, report.trouble.as_deref()), (1, Some("too large")));
        drop(first);
        assert!(listed("a").is_none() && listed("b").is_some());
        assert!(second.close(std::time::Duration::from_secs(1)).await);
        drop(second);
        let counts = count();
        assert_eq!((counts.accepted, counts.delivered, counts.failed), (3, 2, 1));
        assert_eq!((counts.closed, counts.kept, counts.waiting), (0, 0, 0));
        let of_first = totals(Totals::of).get(&("registered", "a".to_owned())).copied().unwrap();
        assert_eq!((of_first.accepted, of_first.delivered, of_first.failed), (2, 1, 1));
    }

    #[test]
    fn counts_of_the_last_moment_add_up() {
        // With disk, of which 4 items have not got there.
        let last = DeliveryStatus {
            accepted: 30,
            recovered: 7,
            delivered: 5,
            full: 3,
            failed: 2,
            closed: 1,
            queued: 2,
            in_flight: 1,
            spilled: 16,
            on_disk: 12,
            ..DeliveryStatus::default()
        };
        assert!(last.adds_up());
        for totals in [Totals::of_last(&last), Totals::of_gone(&last)] {
            let Totals { accepted, recovered, delivered, full, failed, closed, kept, waiting, .. } = totals;
            assert_eq!(
                accepted + recovered,
                delivered + full + failed + closed + kept + waiting,
                "{totals:?}"
            );
            assert_eq!((accepted, kept, closed + waiting, totals.lost()), (23, 12, 8, 13));
        }
    }

    /// A handler with entries on disk that is replaced again and again.
    #[test]
    fn what_is_found_on_disk_was_handed_over_before() {
        let first = DeliveryStatus {
            accepted: 15,
            delivered: 3,
            spilled: 12,
            on_disk: 12,
            ..DeliveryStatus::default()
        };
        let next = DeliveryStatus { accepted: 12, recovered: 12, delivered: 0, ..first };
        let mut totals = Totals::of_gone(&first);
        (0..2).for_each(|_| totals.add(&Totals::of_gone(&next)));
        totals.add(&Totals::of(&next));
        assert_eq!((totals.accepted, totals.recovered), (15, 36));
        assert_eq!((totals.delivered, totals.kept, totals.waiting), (3, 36, 12), "what adds up to that");
    }

    struct Dropped;

    impl Reported for Dropped {
        fn report(&self) -> DeliveryReport {
            unreachable!("it is gone")
        }
    }

    /// Its last owner has dropped it, and it has not yet left its counts.
    #[test]
    fn a_delivery_that_is_being_dropped_is_counted() {
        let number = number();
        let delivery: Arc<dyn Reported> = Arc::new(Dropped);
        let leaving = Arc::downgrade(&delivery);
        drop(delivery);
        add(number, leaving);
        let last = DeliveryStatus { accepted: 3, delivered: 3, ..DeliveryStatus::default() };
        let leaves = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            remove(number, "leaving", "a".to_owned(), &last);
        });
        assert_eq!(
            totals(Totals::of).get(&("leaving", "a".to_owned())).map(|totals| totals.accepted),
            Some(3)
        );
        leaves.join().unwrap();
    }

    #[test]
    fn counts_of_ever_new_handlers_are_added_up() {
        let mut gone = BTreeMap::new();
        for number in 0..1000 {
            let one = Totals { accepted: 1, delivered: 1, ..Totals::default() };
            gone.insert(("named", number.to_string()), one);
            forget_details(&mut gone);
            assert!(gone.len() <= MAX_GONE);
        }
        assert_eq!(gone.values().map(|totals| totals.accepted).sum::<u64>(), 1000);
    }
}
