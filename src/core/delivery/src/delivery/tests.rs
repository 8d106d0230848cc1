use std::sync::mpsc::{Receiver, Sender, channel};

use mixer_base::budget::Share;
use parking_lot::Mutex;
use tokio::time::Instant;

mod stop;
mod told;

use super::*;
use crate::sink::Tally;
use crate::{Batching, Bounds, Retry, WhenFull};

/// An item and its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Parcel(usize, usize);

impl Item for Parcel {
    fn size(&self) -> usize {
        self.1
    }
}

/// Longest time that a test waits for a thread.
const PATIENCE: Duration = Duration::from_secs(60);

fn assert_adds_up<B: Items>(delivery: &Delivery<B>) {
    let status = delivery.status();
    assert!(status.adds_up(), "{status:?}");
}

/// Keeps what it is given; each batch waits until it is admitted.
struct Gated {
    gate: Receiver<()>,
    kept: Kept,
}

impl BlockingSink<List<Parcel>> for Gated {
    fn deliver(&mut self, batch: &mut List<Parcel>, tally: &mut Tally) {
        // Without a gate, all batches pass.
        let _ = self.gate.recv();
        self.kept.lock().extend(batch.as_slice().iter().map(|parcel| parcel.0));
        tally.delivered(batch.len());
    }
}

/// The items that a sink has kept.
type Kept = Arc<Mutex<Vec<usize>>>;

fn gated(settings: Settings) -> (Delivery<List<Parcel>>, Sender<()>, Kept) {
    let (open, gate) = channel();
    let kept = Kept::default();
    let sink = Gated { gate, kept: Arc::clone(&kept) };
    (Delivery::on_thread("test delivery", "", "delivery-test", settings, sink), open, kept)
}

#[tokio::test]
async fn a_thread_delivers_the_items_of_all_producers_in_their_order() {
    let (delivery, open, kept) = gated(Settings::default());
    drop(open);
    std::thread::scope(|scope| {
        for producer in 0..4 {
            let delivery = &delivery;
            scope.spawn(move || {
                for turn in 0..500 {
                    delivery.accept(Parcel(producer * 1000 + turn, 1)).unwrap();
                }
            });
        }
    });
    assert!(delivery.close(PATIENCE).await);
    let kept = kept.lock().clone();
    assert_eq!(kept.len(), 2000);
    for producer in 0..4 {
        let of_one: Vec<usize> = kept.iter().copied().filter(|item| item / 1000 == producer).collect();
        assert!(of_one.is_sorted() && of_one.len() == 500);
    }
    assert_eq!(delivery.status().delivered, 2000);
    assert_adds_up(&delivery);
}

#[tokio::test]
async fn a_sink_that_hangs_holds_no_more_than_the_bound_and_loses_nothing_at_the_deadline() {
    let bounds = Bounds { items: usize::MAX, bytes: 100, takes_larger: false };
    let (delivery, open, kept) = gated(Settings { bounds, ..Settings::default() });
    for item in 0..30 {
        let _ = delivery.accept(Parcel(item, 10));
        assert!(delivery.status().queued_bytes <= 100);
        assert_adds_up(&delivery);
    }
    let status = delivery.status();
    // Depending on when the sink got its batch.
    assert!((10..=20).contains(&status.waiting()), "{status:?}");
    assert!(!delivery.close(Duration::ZERO).await);
    drop(open);
    assert!(delivery.close(PATIENCE).await);
    let kept = kept.lock().clone();
    assert!(kept.len() as u64 == status.waiting() && kept.is_sorted());
    assert_adds_up(&delivery);
}

#[tokio::test]
async fn items_that_arrive_after_a_thread_has_ended_are_delivered() {
    let (delivery, open, kept) = gated(Settings::default());
    drop(open);
    assert!(delivery.close(PATIENCE).await, "nothing was started, and nothing waits");
    for item in 0..3 {
        delivery.accept(Parcel(item, 1)).unwrap();
        assert!(delivery.close(PATIENCE).await);
    }
    assert_eq!(*kept.lock(), [0, 1, 2]);
    assert_adds_up(&delivery);
}

#[tokio::test]
async fn without_a_thread_the_producer_delivers() {
    let (delivery, open, kept) = gated(Settings::default());
    drop(open);
    let Courier::Thread(threads) = &delivery.courier else { unreachable!() };
    let has_no_threads = &threads.has_no_threads;
    has_no_threads.store(true, std::sync::atomic::Ordering::Relaxed);
    assert!(delivery.start().is_err());
    delivery.accept(Parcel(0, 1)).unwrap();
    assert_eq!(*kept.lock(), [0]);
    has_no_threads.store(false, std::sync::atomic::Ordering::Relaxed);
    delivery.accept(Parcel(1, 1)).unwrap();
    assert!(delivery.close(PATIENCE).await);
    assert_eq!(*kept.lock(), [0, 1]);
    has_no_threads.store(true, std::sync::atomic::Ordering::Relaxed);
    delivery.accept(Parcel(2, 1)).unwrap();
    assert!(delivery.close(PATIENCE).await);
    assert_eq!(*kept.lock(), [0, 1, 2]);
    assert_adds_up(&delivery);
}

#[tokio::test]
async fn a_sink_that_panics_in_a_producer_does_not_fail_it() {
    let kept = Kept::default();
    let sink = Clumsy(Arc::clone(&kept));
    let delivery = Delivery::on_thread("clumsy producer", "", "clumsy", Settings::default(), sink);
    let Courier::Thread(threads) = &delivery.courier else { unreachable!() };
    threads.has_no_threads.store(true, std::sync::atomic::Ordering::Relaxed);
    (2..5).for_each(|item| delivery.accept(Parcel(item, 1)).unwrap());
    assert!(delivery.close(PATIENCE).await);
    assert_eq!(*kept.lock(), [2, 4]);
    assert_eq!((delivery.status().delivered, delivery.status().failed), (2, 1));
    assert_adds_up(&delivery);
}

#[tokio::test]
async fn a_dropped_delivery_delivers_what_waits() {
    let (delivery, open, kept) = gated(Settings::default());
    delivery.start().unwrap();
    delivery.accept(Parcel(7, 1)).unwrap();
    let shared = Arc::clone(&delivery.shared);
    drop(delivery);
    drop(open);
    let mut ended = shared.has_ended.subscribe();
    tokio::time::timeout(PATIENCE, ended.wait_for(|ended| *ended)).await.unwrap().unwrap();
    assert_eq!(*kept.lock(), [7]);
}

/// Delivers items one by one and panics at the item 3.
struct Clumsy(Kept);

impl BlockingSink<List<Parcel>> for Clumsy {
    fn deliver(&mut self, batch: &mut List<Parcel>, tally: &mut Tally) {
        while let Some(parcel) = batch.pop() {
            assert_ne!(parcel.0, 3, "the item cannot be delivered");
            self.0.lock().push(parcel.0);
            tally.delivered(1);
        }
    }
}

#[tokio::test]
async fn a_sink_that_panics_loses_the_items_that_it_had_begun() {
    let kept = Kept::default();
    let settings = Settings {
        batching: Batching { items: 6, bytes: usize::MAX, wait: PATIENCE },
        ..Settings::default()
    };
    let sink = Clumsy(Arc::clone(&kept));
    let delivery = Delivery::on_thread("clumsy delivery", "", "clumsy", settings, sink);
    (0..6).for_each(|item| delivery.accept(Parcel(item, 1)).unwrap());
    assert!(delivery.close(PATIENCE).await);
    assert_eq!(*kept.lock(), [0, 1, 2, 4, 5]);
    assert_eq!((delivery.status().delivered, delivery.status().failed), (5, 1));
    assert_adds_up(&delivery);
}

/// What a sink in a task does with the next batches, the last one first; it delivers those after.
type Script = Vec<Conduct>;

#[derive(Debug, Clone, Copy)]
enum Conduct {
    Fails,
    Panics,
    Hangs,
}

/// Keeps batches with the time at which they arrive, in milliseconds since the start.
struct Scripted {
    script: Script,
    started: Instant,
    batches: Arc<Mutex<Vec<(u128, usize)>>>,
}

impl AsyncSink<List<Parcel>> for Scripted {
    async fn deliver(&mut self, batch: &mut List<Parcel>, tally: &mut Tally) {
        self.batches.lock().push((self.started.elapsed().as_millis(), batch.len()));
        match self.script.pop() {
            None => tally.delivered(batch.len()),
            Some(Conduct::Fails) => {}
            Some(Conduct::Panics) => panic!("the sink fails"),
            Some(Conduct::Hangs) => std::future::pending().await,
        }
    }
}

type Batches = Arc<Mutex<Vec<(u128, usize)>>>;

fn scripted(script: Script) -> (Delivery<List<Parcel>>, Batches) {
    let batches = Batches::default();
    let sink = Scripted { script, started: Instant::now(), batches: Arc::clone(&batches) };
    let settings = Settings {
        bounds: Bounds { items: 10, ..Bounds::default() },
        batching: Batching { items: 4, bytes: 100, wait: Duration::from_secs(1) },
        ..Settings::default()
    };
    (Delivery::in_task("test delivery in a task", "", settings, sink), batches)
}

/// The clock of these tests stands still unless every task waits.
async fn pass(millis: u64) {
    tokio::time::sleep(Duration::from_millis(millis)).await;
}

#[tokio::test(start_paused = true)]
async fn a_task_sends_a_batch_when_it_is_full_or_its_time_has_passed() {
    let (delivery, batches) = scripted(Vec::new());
    pass(10).await;
    (0..4).for_each(|item| delivery.accept(Parcel(item, 1)).unwrap());
    pass(10).await;
    assert_eq!(*batches.lock(), [(10, 4)], "a full batch does not wait");
    delivery.accept(Parcel(4, 1)).unwrap();
    pass(500).await;
    delivery.accept(Parcel(5, 1)).unwrap();
    pass(1000).await;
    assert_eq!(batches.lock()[1..], [(1020, 2)], "a second after the first item");
    delivery.accept(Parcel(6, 100)).unwrap();
    pass(10).await;
    assert_eq!(batches.lock()[2..], [(1520, 1)], "enough bytes");
    (0..6).for_each(|item| delivery.accept(Parcel(item, 1)).unwrap());
    assert!(delivery.close(Duration::from_millis(1)).await, "no batch waits while the delivery closes");
    assert_eq!(batches.lock()[3..], [(1530, 4), (1530, 2)]);
    assert_eq!(delivery.accept(Parcel(9, 1)), Err(NotAccepted::Closed));
    let status = delivery.status();
    assert_eq!((status.accepted, status.delivered, status.closed), (14, 13, 1));
    assert_adds_up(&delivery);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_hangs_drops_what_is_left_at_the_deadline() {
    let (delivery, batches) = scripted(vec![Conduct::Hangs]);
    let pushed = (0..20).filter(|item| delivery.accept(Parcel(*item, 1)).is_ok()).count();
    assert_eq!(pushed, 10);
    pass(3_600_000).await;
    assert_eq!(batches.lock().len(), 1);
    let before = Instant::now();
    assert!(!delivery.close(Duration::from_secs(2)).await);
    assert_eq!(before.elapsed().as_secs(), 2);
    let status = delivery.status();
    assert_eq!((status.full, status.closed, status.waiting()), (10, 10, 0));
    assert_adds_up(&delivery);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_fails_or_panics_loses_its_batch_and_goes_on() {
    let (delivery, batches) = scripted(vec![Conduct::Panics, Conduct::Fails]);
    for _ in 0..3 {
        (0..4).for_each(|item| delivery.accept(Parcel(item, 1)).unwrap());
        pass(10_000).await;
    }
    assert_eq!(batches.lock().len(), 3);
    let status = delivery.status();
    assert_eq!((status.delivered, status.failed), (4, 8));
    assert!(delivery.close(Duration::from_secs(1)).await);
    assert_adds_up(&delivery);
}

/// Refuses the first item, delivers the second one, and hangs.
struct Picky;

impl AsyncSink<List<Parcel>> for Picky {
    async fn deliver(&mut self, batch: &mut List<Parcel>, tally: &mut Tally) {
        batch.pop();
        batch.pop();
        tally.delivered(1);
        std::future::pending().await
    }
}

#[tokio::test]
async fn what_was_refused_before_the_deadline_has_failed() {
    let delivery = Delivery::in_task("picky", "", Settings::default(), Picky);
    (0..5).for_each(|item| delivery.accept(Parcel(item, 1)).unwrap());
    assert!(!delivery.close(Duration::from_millis(50)).await);
    let status = delivery.status();
    assert_eq!((status.delivered, status.failed, status.closed), (1, 1, 3), "{status:?}");
    assert_adds_up(&delivery);
}

#[tokio::test(start_paused = true)]
async fn what_is_left_while_the_task_is_down_is_counted_at_the_deadline() {
    let (delivery, batches) = scripted(vec![Conduct::Panics]);
    (0..6).for_each(|item| delivery.accept(Parcel(item, 1)).unwrap());
    while batches.lock().is_empty() {
        tokio::task::yield_now().await;
    }
    assert!(!delivery.close(Duration::from_millis(1)).await, "it would be restarted after 100 ms");
    let status = delivery.status();
    assert_eq!((status.closed, status.waiting()), (6, 0));
    assert_adds_up(&delivery);
}

/// Removes nothing; asks for another attempt until it is told to deliver.
struct Unreachable(Arc<std::sync::atomic::AtomicBool>);

impl AsyncSink<List<Parcel>> for Unreachable {
    async fn deliver(&mut self, batch: &mut List<Parcel>, tally: &mut Tally) {
        match self.0.load(std::sync::atomic::Ordering::Relaxed) {
            true => tally.delivered(batch.len()),
            false => tally.try_again("connection refused"),
        }
    }
}

fn unreachable(when_full: WhenFull) -> (Delivery<List<Parcel>>, Arc<std::sync::atomic::AtomicBool>) {
    let works = Arc::default();
    let sink = Unreachable(Arc::clone(&works));
    let settings = Settings {
        bounds: Bounds { items: 4, ..Bounds::default() },
        when_full,
        batching: Batching { items: 2, ..Batching::default() },
        retry: Retry { budget: Duration::from_secs(3600), breaker_failures: 3, ..Retry::default() },
        ..Settings::default()
    };
    (Delivery::in_task("unreachable", "", settings, sink), works)
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_tried_again_until_the_sink_works() {
    let (delivery, works) = unreachable(WhenFull::DropNewest);
    (0..6).for_each(|item| _ = delivery.accept(Parcel(item, 1)));
    pass(10 * 3_600_000).await;
    let status = delivery.status();
    assert_eq!((status.waiting(), status.full, status.failed), (4, 2, 0));
    assert!(status.is_breaker_open && status.failures_in_a_row > 1000);
    assert_eq!(delivery.trouble().as_deref(), Some("connection refused"));
    works.store(true, std::sync::atomic::Ordering::Relaxed);
    assert!(delivery.close(Duration::from_millis(1)).await, "closing tries at once");
    let status = delivery.status();
    assert_eq!((status.delivered, status.is_breaker_open, delivery.trouble()), (4, false, None));
    assert_adds_up(&delivery);
}

#[tokio::test(start_paused = true)]
async fn the_oldest_items_are_dropped_where_the_newest_matter() {
    let (delivery, works) = unreachable(WhenFull::DropOldest);
    delivery.accept(Parcel(0, 1)).unwrap();
    pass(10).await;
    (1..10).for_each(|item| delivery.accept(Parcel(item, 1)).unwrap());
    assert_eq!((delivery.status().queued, delivery.status().in_flight, delivery.status().full), (4, 1, 5));
    works.store(true, std::sync::atomic::Ordering::Relaxed);
    assert!(delivery.close(Duration::from_secs(1)).await);
    assert_eq!(delivery.status().delivered, 5);
    assert_adds_up(&delivery);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_holds_has_its_item_delivered_once_there_is_room() {
    let (delivery, works) = unreachable(WhenFull::DropNewest);
    delivery.accept(Parcel(0, 1)).unwrap();
    pass(10).await;
    (1..5).for_each(|item| delivery.accept(Parcel(item, 1)).unwrap());
    let before = Instant::now();
    let late = delivery.accept_when_room(Parcel(5, 1), Duration::from_secs(5)).await;
    assert_eq!((late, before.elapsed().as_secs()), (Err(NotAccepted::Full), 5));
    let held = delivery.accept_when_room(Parcel(6, 1), Duration::from_secs(3600));
    let mends = async {
        pass(1000).await;
        works.store(true, std::sync::atomic::Ordering::Relaxed);
    };
    assert_eq!(tokio::join!(held, mends).0, Ok(()));
    assert!(delivery.close(Duration::from_secs(60)).await);
    let status = delivery.status();
    assert_eq!((status.accepted, status.delivered, status.full), (7, 6, 1));
    assert_adds_up(&delivery);
}

#[tokio::test(start_paused = true)]
async fn the_item_of_a_caller_that_leaves_while_it_holds_is_counted() {
    let (delivery, works) = unreachable(WhenFull::DropNewest);
    delivery.accept(Parcel(0, 1)).unwrap();
    pass(10).await;
    (1..5).for_each(|item| delivery.accept(Parcel(item, 1)).unwrap());
    let second = Duration::from_secs(1);
    let left = delivery.accept_when_room(Parcel(5, 1), Duration::from_secs(3600));
    assert!(tokio::time::timeout(second, left).await.is_err());
    assert_eq!((delivery.status().accepted, delivery.status().full), (6, 1));
    works.store(true, std::sync::atomic::Ordering::Relaxed);
    assert!(delivery.close(second).await);
    assert_adds_up(&delivery);
}

#[tokio::test(start_paused = true)]
async fn items_that_are_handed_over_together_are_accepted_one_by_one() {
    let (delivery, batches) = scripted(Vec::new());
    delivery.accept_each((0..20).map(|item| Parcel(item, 1)));
    assert_eq!((delivery.status().queued, delivery.status().full), (10, 10));
    assert!(delivery.close(Duration::from_secs(1)).await);
    assert_eq!(batches.lock().iter().map(|(_, items)| items).sum::<usize>(), 10);
    delivery.accept_each([Parcel(20, 1)]);
    assert_eq!(delivery.status().closed, 1);
    assert_adds_up(&delivery);
}

/// Asks for another attempt and panics, the first time.
struct Contradictory(bool);

impl AsyncSink<List<Parcel>> for Contradictory {
    async fn deliver(&mut self, batch: &mut List<Parcel>, tally: &mut Tally) {
        if !std::mem::replace(&mut self.0, true) {
            tally.try_again("out of reach");
            panic!("the sink fails");
        }
        tally.delivered(batch.len());
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_sink_said_before_it_panicked_does_not_concern_the_next_batch() {
    let settings = Settings {
        retry: Retry { budget: Duration::from_secs(3600), ..Retry::default() },
        ..Settings::default()
    };
    let delivery = Delivery::in_task("contradictory", "", settings, Contradictory(false));
    delivery.accept(Parcel(0, 1)).unwrap();
    pass(50).await;
    delivery.accept(Parcel(1, 1)).unwrap();
    pass(10_000).await;
    let status = delivery.status();
    assert_eq!((status.failed, status.delivered, status.failures_in_a_row), (1, 1, 0));
    assert!(delivery.close(Duration::from_secs(1)).await);
    assert_adds_up(&delivery);
}

/// Counts its attempts, none of which delivers.
struct Counted(Arc<std::sync::atomic::AtomicUsize>, Arc<std::sync::atomic::AtomicBool>);

impl AsyncSink<List<Parcel>> for Counted {
    async fn deliver(&mut self, batch: &mut List<Parcel>, tally: &mut Tally) {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        match self.1.load(std::sync::atomic::Ordering::Relaxed) {
            true => tally.delivered(batch.len()),
            false => tally.try_again("no answer"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_open_breaker_holds_the_next_batch_back_as_well() {
    let (attempts, works) = (Arc::default(), Arc::default());
    let settings = Settings {
        batching: Batching { items: 1, ..Batching::default() },
        // Every batch is given up at its first failure.
        retry: Retry { breaker_failures: 3, ..Retry::default() },
        ..Settings::default()
    };
    let sink = Counted(Arc::clone(&attempts), Arc::clone(&works));
    let delivery = Delivery::in_task("held back", "", settings, sink);
    (0..50).for_each(|item| delivery.accept(Parcel(item, 1)).unwrap());
    pass(14_000).await;
    assert_eq!(attempts.load(std::sync::atomic::Ordering::Relaxed), 3);
    assert_eq!((delivery.status().failed, delivery.status().queued), (3, 47));
    pass(10 * 30_000).await;
    let later = attempts.load(std::sync::atomic::Ordering::Relaxed);
    assert!((13..=24).contains(&later), "{later}: one attempt every 15 to 30 seconds");
    works.store(true, std::sync::atomic::Ordering::Relaxed);
    pass(30_000).await;
    let status = delivery.status();
    assert_eq!((status.waiting(), status.delivered), (0, 50 - later as u64));
    assert!(!status.is_breaker_open && delivery.close(Duration::from_secs(1)).await);
    assert_adds_up(&delivery);
}

#[tokio::test(start_paused = true)]
async fn all_items_of_a_caller_that_leaves_while_it_holds_are_counted() {
    let (delivery, works) = unreachable(WhenFull::DropNewest);
    let delivery = Arc::new(delivery);
    delivery.accept(Parcel(0, 1)).unwrap();
    pass(10).await;
    let items = |numbers: std::ops::Range<usize>| numbers.map(|item| Parcel(item, 1)).collect::<Vec<_>>();
    let second = Duration::from_secs(1);
    let left = delivery.accept_each_when_room(items(1..10), Duration::from_secs(3600));
    assert!(tokio::time::timeout(second, left).await.is_err());
    // Four of them had room; the one that was waited for and those after it had none.
    assert_eq!((delivery.status().accepted, delivery.status().full), (10, 5));
    assert_eq!(delivery.accept_each_when_room(items(10..12), second).await, 0);
    drop(delivery.accept_each_when_room(items(30..35), second));
    assert_eq!(delivery.status().full, 12, "a future that nobody waited for");
    let held = delivery.accept_each_when_room(items(12..30), Duration::from_secs(3600));
    let mends = async {
        pass(1000).await;
        works.store(true, std::sync::atomic::Ordering::Relaxed);
    };
    assert_eq!(tokio::join!(held, mends).0, 18);
    delivery.refuse(3);
    assert!(delivery.close(Duration::from_secs(60)).await);
    let status = delivery.status();
    assert_eq!((status.delivered, status.full, status.failed), (23, 12, 3));
    assert_adds_up(&delivery);
}

/// What waits for room is in memory like what is in the queue.
#[tokio::test(start_paused = true)]
async fn items_that_wait_for_room_count_in_the_share() {
    let works = Arc::default();
    let share = Arc::new(Share::new(1000));
    let settings = Settings {
        bounds: Bounds { items: 4, ..Bounds::default() },
        memory: Some(Arc::clone(&share)),
        batching: Batching { items: 2, ..Batching::default() },
        retry: Retry { budget: Duration::from_secs(3600), breaker_failures: 3, ..Retry::default() },
        ..Settings::default()
    };
    let delivery = Arc::new(Delivery::in_task("unreachable", "", settings, Unreachable(Arc::clone(&works))));
    delivery.accept(Parcel(0, 100)).unwrap();
    pass(10).await;
    let items = |numbers: std::ops::Range<usize>| numbers.map(|item| Parcel(item, 100)).collect::<Vec<_>>();
    let hour = Duration::from_secs(3600);
    // One is in flight, four are in the queue, and five wait; for two more there is no memory.
    let held = delivery.accept_each_when_room(items(1..12), hour);
    assert_eq!((share.used(), delivery.status().full), (1000, 2));
    assert_eq!(delivery.accept_when_room(Parcel(12, 100), hour).await, Err(NotAccepted::Full));
    assert_eq!((share.used(), delivery.status().full), (1000, 3));
    let mends = async {
        pass(1000).await;
        works.store(true, std::sync::atomic::Ordering::Relaxed);
    };
    assert_eq!(tokio::join!(held, mends).0, 9);
    assert!(delivery.close(Duration::from_secs(60)).await);
    let status = delivery.status();
    assert_eq!((status.delivered, status.full, share.used()), (10, 3, 0));
    assert_adds_up(&delivery);
}

/// Items one by one, and one of several at once.
#[tokio::test(start_paused = true)]
async fn what_is_handed_over_without_room_waits_as_long_as_the_settings_say() {
    let hand_over = |delivery: &Arc<Delivery<List<Parcel>>>, from: usize, at_once: bool| match at_once {
        true => delivery.hand_over_all(Parcel(from, 1), |parcel| parcel),
        false => delivery.hand_over(vec![Parcel(from, 1), Parcel(from + 1, 1)]),
    };
    for (when_full, at_once, waits, dropped) in [
        (WhenFull::DropNewest, false, false, 2),
        (WhenFull::DropOldest, false, false, 0),
        (WhenFull::Hold(Duration::from_secs(600)), false, true, 2),
        (WhenFull::DropNewest, true, false, 1),
        (WhenFull::DropOldest, true, false, 0),
        (WhenFull::Hold(Duration::from_secs(600)), true, true, 1),
    ] {
        let (delivery, works) = unreachable(when_full);
        let delivery = Arc::new(delivery);
        assert!(matches!(hand_over(&delivery, 0, at_once), HandedOver::Now { dropped: 0 }));
        pass(10).await;
        while delivery.status().queued < 4 {
            assert!(matches!(hand_over(&delivery, 1, true), HandedOver::Now { dropped: 0 }));
        }
        let before = Instant::now();
        let lost = match hand_over(&delivery, 7, at_once) {
            HandedOver::Now { dropped } => dropped,
            HandedOver::Later(later) => later.await.items,
        };
        assert_eq!(
            (lost, before.elapsed().as_secs()),
            (dropped, if waits { 600 } else { 0 }),
            "{when_full:?}"
        );
        // A caller that never waits has handed over all the same.
        let known = delivery.status().accepted;
        drop(hand_over(&delivery, 9, at_once));
        assert!(delivery.status().accepted > known);
        if let WhenFull::Hold(_) = when_full {
            let HandedOver::Later(later) = hand_over(&delivery, 11, at_once) else { panic!("there is room") };
            works.store(true, std::sync::atomic::Ordering::Relaxed);
            assert_eq!(later.await, Dropped::default());
        }
        works.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(delivery.close(Duration::from_secs(60)).await);
        assert_adds_up(&delivery);
    }
}
