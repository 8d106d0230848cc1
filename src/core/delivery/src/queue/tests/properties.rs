//! What holds in every schedule, and in some that were found.

use proptest::prelude::*;

use super::events::{events, settings};
use super::*;
use crate::retry::Retry;

proptest! {
    /// Random schedules of arrivals, callers that hold, slow, failing, half failing and panicking sinks, restarts, closing and its deadline.
    #[test]
    fn every_item_is_counted_once_and_the_bounds_hold(
        settings in settings(),
        restarts in any::<bool>(),
        events in events(),
    ) {
        let mut stage = Stage::new(settings, restarts);
        events.into_iter().for_each(|event| stage.happens(event));
        // Whatever waits is delivered in the end, without another event, once the sink works.
        stage.sink = (Duration::from_millis(10), Conduct::Delivers);
        stage.pass(Duration::from_secs(3600));
        prop_assert_eq!(stage.queue.status().waiting(), 0);
        stage.close();
        prop_assert!(stage.queue.is_ended());
        stage.check();
    }

    /// The same with a disk that is slow, broken, full, damaged, removed or opened late, and processes that are killed: nothing is delivered twice or out of order,
    /// what is not delivered when the delivery ends is on disk, and before the deadline nothing is dropped because that takes nothing.
    #[test]
    fn what_is_kept_on_disk_is_counted_once_and_delivered_in_its_order(
        settings in settings(),
        room in 0..60_usize,
        is_open in any::<bool>(),
        events in events(),
    ) {
        let mut stage = Stage::on_disk(settings, Disk { is_open, ..Disk::new(room) }, 0);
        events.into_iter().for_each(|event| stage.happens(event));
        stage.sink = (Duration::from_millis(10), Conduct::Delivers);
        stage.happens(Event::Disk(1, true, usize::MAX));
        stage.happens(Event::Open);
        stage.pass(Duration::from_secs(3600));
        let on_disk = |stage: &Stage| stage.disk.as_ref().map_or(0, Disk::items) as u64;
        if !stage.is_closing {
            prop_assert_eq!((stage.queue.status().waiting(), on_disk(&stage)), (0, 0));
            stage.close();
            stage.pass(Duration::from_secs(3600));
        }
        let status = stage.queue.status();
        prop_assert!(stage.queue.is_ended(), "{:?}", status);
        prop_assert!(on_disk(&stage) >= status.spilled && status.waiting() == status.spilled, "{:?}", status);
        stage.check();
        // What was on disk when the last process started was delivered, or is still there.
        let disk = stage.disk.as_ref().unwrap();
        let known: HashSet<u64> = stage.delivered.iter().chain(&stage.lost).copied().chain(disk.numbers()).collect();
        for number in &stage.promised {
            prop_assert!(known.contains(number), "{} is lost: {:?}", number, status);
        }
        if let Some(share) = &stage.settings.memory {
            prop_assert_eq!(share.used(), 0);
        }
    }

    /// At the deadline, what is left is counted, whatever the sink did with a part of the batch.
    #[test]
    fn what_is_left_at_the_deadline_is_counted(
        settings in settings(),
        arrivals in prop::collection::vec(prop::collection::vec(0..40_usize, 1..5), 0..20),
        delivered in 0..6_usize,
    ) {
        let mut stage = Stage::new(settings, false);
        stage.sink.0 = Duration::from_secs(7200);
        arrivals.iter().for_each(|sizes| stage.arrive(sizes));
        stage.pass(Duration::from_secs(3600));
        let delivered = delivered.min(stage.batch.len());
        stage.tally.delivered(delivered);
        stage.queue.close();
        stage.queue.abandon(&mut stage.batch, &mut stage.tally);
        let late = stage.queue.accept(Parcel(0, 1));
        prop_assert_eq!(late, Err(NotAccepted::Closed));
        let status = stage.queue.status();
        prop_assert!(stage.queue.is_ended());
        prop_assert_eq!(status.waiting(), 0);
        prop_assert_eq!(status.delivered, delivered as u64);
        prop_assert!(status.adds_up());
        if let Some(share) = &stage.settings.memory {
            prop_assert_eq!(share.used(), 0);
        }
    }
}

#[test]
fn a_queue_at_its_bounds_takes_no_more() {
    let bounds = Bounds { items: 3, bytes: 10, takes_larger: false };
    for (name, sizes, next, taken) in [
        ("room for both", &[5, 4][..], 1, true),
        ("one byte too many", &[5, 4], 2, false),
        ("as many items as allowed", &[1, 1], 1, true),
        ("one item too many", &[1, 1, 1], 1, false),
        ("larger than the queue", &[], 11, false),
    ] {
        let mut queue = Queue::<List<Parcel>>::new(Settings { bounds, ..Settings::default() }, true);
        for size in sizes {
            queue.accept(Parcel(0, *size)).unwrap();
        }
        assert_eq!(queue.accept_if_room(Parcel(0, next)).is_ok(), taken, "{name}");
        assert_eq!(queue.status().full, 0, "what finds no room is not counted, as it is not dropped");
        if !taken {
            assert_eq!(queue.accept(Parcel(0, next)), Err(NotAccepted::Full), "{name}");
            assert_eq!(queue.status().full, 1, "{name}");
        }
        assert!(queue.status().adds_up());
    }
}

#[test]
fn the_batch_in_flight_takes_memory_but_no_room() {
    let bounds = Bounds { items: 1, bytes: 100, takes_larger: false };
    let share = Arc::new(Share::new(150));
    let settings = Settings { bounds, memory: Some(Arc::clone(&share)), ..Settings::default() };
    let mut queue = Queue::<List<Parcel>>::new(settings, true);
    let mut batch = List::default();
    assert_eq!(queue.accept(Parcel(0, 60)), Ok(Signal::Start));
    assert_eq!(queue.accept(Parcel(1, 60)), Err(NotAccepted::Full), "no room");
    assert_eq!(queue.next(Instant::now(), &mut batch), Step::Deliver);
    assert_eq!(queue.accept(Parcel(2, 91)), Err(NotAccepted::Full), "no memory");
    assert_eq!((queue.accept(Parcel(3, 90)), share.used()), (Ok(Signal::None), 150));
    let mut tally = Tally::default();
    tally.delivered(1);
    queue.completed(Instant::now(), &mut batch, &mut tally);
    assert_eq!(share.used(), 90);
    drop(queue);
    assert_eq!(share.used(), 0);
}

#[test]
fn a_record_that_is_read_while_the_delivery_closes_stays_on_disk() {
    let bounds = Bounds { items: 1, bytes: 1, takes_larger: true };
    let batching = Batching { items: 1, bytes: 1, wait: Duration::ZERO };
    let mut stage = Stage::with_disk(Settings { bounds, batching, ..Settings::default() }, 1);
    for event in [
        Event::Disk(16, true, 1),
        Event::Arrive(vec![0, 2]),
        // It is written, and begins to be read.
        Event::Pass(16),
        Event::Close,
        Event::Pass(1000),
    ] {
        stage.happens(event);
    }
    let status = stage.queue.status();
    assert_eq!((stage.queue.is_ended(), status.delivered, status.spilled), (true, 1, 1));
}

#[test]
fn the_oldest_items_make_room_for_new_ones_that_fit_then() {
    let share = Arc::new(Share::new(100));
    let settings = Settings {
        bounds: Bounds { items: 3, ..Bounds::default() },
        memory: Some(Arc::clone(&share)),
        when_full: WhenFull::DropOldest,
        ..Settings::default()
    };
    let mut queue = Queue::<List<Parcel>>::new(settings, true);
    (0..3).for_each(|number| _ = queue.accept(Parcel(number, 30)));
    assert_eq!(queue.accept(Parcel(3, 10)), Ok(Signal::None), "one is dropped for its place");
    assert_eq!(queue.accept(Parcel(4, 65)), Ok(Signal::None), "two more for its memory");
    assert_eq!(queue.accept(Parcel(5, 101)), Err(NotAccepted::Full), "none in vain");
    let mut batch = List::default();
    assert!(queue.next_at_once(Instant::now(), &mut batch));
    assert_eq!(batch.as_slice(), [Parcel(3, 10), Parcel(4, 65)]);
    assert_eq!((queue.status().full, share.used()), (4, 75));
}

/// The settings of a handler whose batches are tried again until they are taken.
fn patient() -> Settings {
    let retry = Retry { budget: Duration::MAX, ..Retry::default() };
    Settings { retry, batching: Batching { items: 10, ..Batching::default() }, ..Settings::default() }
}

const AWAY: Event = Event::Sink(1, Conduct::TriesAgain(0, 0));

/// As without a disk: what waits for a backend that comes back while the delivery closes is delivered.
#[test]
fn while_the_disk_takes_nothing_a_delivery_that_closes_goes_on_until_its_deadline() {
    for (name, disk, room, is_open) in [
        ("in use", true, 1000, false),
        ("failing", false, 1000, true),
        ("full", true, 0, true),
        ("slow", true, 1000, true),
    ] {
        for comes_back in [true, false] {
            let mut stage = Stage::on_disk(patient(), Disk { is_open, ..Disk::new(room) }, 0);
            // Slower than anybody waits, or not.
            stage.happens(Event::Disk(if name == "slow" { 20_000 } else { 1 }, disk, room));
            for event in
                [AWAY, Event::Arrive(vec![1; 4]), Event::Pass(50), Event::Arrive(vec![1; 4]), Event::Close]
            {
                stage.happens(event);
            }
            stage.happens(Event::Pass(3000));
            let status = stage.queue.status();
            assert_eq!((status.closed, status.delivered, stage.queue.is_ended()), (0, 0, false), "{name}");
            if comes_back {
                stage.happens(Event::Sink(1, Conduct::Delivers));
                stage.happens(Event::Pass(3000));
                let in_hand = if name == "slow" { status.spilled as usize } else { 0 };
                let delivered = stage.queue.status().delivered;
                assert!(
                    delivered > 0 && delivered + in_hand as u64 >= 8,
                    "{name}: {:?}",
                    stage.queue.status()
                );
            }
            stage.happens(Event::Deadline);
            stage.happens(Event::Pass(60_000));
            let status = stage.queue.status();
            assert!(stage.queue.is_ended() && status.adds_up(), "{name}: {status:?}");
            assert_eq!(status.closed > 0, !comes_back && name != "slow", "{name}: {status:?}");
        }
    }
}

/// The disk has room for a part of what is left.
#[test]
fn what_finds_no_room_on_disk_at_the_end_is_delivered() {
    let mut stage = Stage::with_disk(patient(), 12);
    for event in [AWAY, Event::Disk(1, true, 12), Event::Arrive(vec![1; 5]), Event::Pass(50)] {
        stage.happens(event);
    }
    for _ in 0..6 {
        stage.happens(Event::Arrive(vec![1; 5]));
    }
    stage.happens(Event::Close);
    stage.happens(Event::Sink(1, Conduct::Delivers));
    stage.happens(Event::Pass(10_000));
    let status = stage.queue.status();
    assert!(stage.queue.is_ended(), "{status:?}");
    assert_eq!((status.closed, status.delivered + status.on_disk), (0, 35), "{status:?}");
    assert!(status.on_disk > 0, "{status:?}");
}

/// The backend is away, and the disk takes everything: the courier ends at once.
#[test]
fn what_the_disk_takes_is_left_to_it_at_the_end() {
    let mut stage = Stage::with_disk(patient(), 1000);
    for event in [AWAY, Event::Disk(1, true, 1000), Event::Arrive(vec![1; 5]), Event::Pass(50)] {
        stage.happens(event);
    }
    (0..6).for_each(|_| stage.happens(Event::Arrive(vec![1; 5])));
    stage.happens(Event::Close);
    stage.happens(Event::Pass(100));
    let status = stage.queue.status();
    assert_eq!((stage.queue.is_ended(), status.on_disk, status.closed), (true, 35, 0), "{status:?}");
}

/// What was in memory as well is delivered, once; the rest has failed, and what comes goes on.
#[test]
fn a_directory_that_is_removed_takes_only_what_was_nowhere_else() {
    let mut stage = Stage::with_disk(patient(), 1000);
    for event in [AWAY, Event::Disk(1, true, 1000), Event::Arrive(vec![1; 5]), Event::Pass(50)] {
        stage.happens(event);
    }
    (0..6).for_each(|_| stage.happens(Event::Arrive(vec![1; 5])));
    stage.happens(Event::Pass(100));
    let before = stage.queue.status();
    assert_eq!((before.in_flight, before.on_disk), (5, 30), "{before:?}");
    stage.happens(Event::Remove);
    let after = stage.queue.status();
    // One record was read already.
    assert_eq!((after.failed, after.on_disk, after.spilled, after.in_flight), (25, 0, 5, 5), "{after:?}");
    stage.happens(Event::Arrive(vec![1; 5]));
    stage.happens(Event::Pass(100));
    assert_eq!(stage.queue.status().on_disk, 5);
    stage.happens(Event::Sink(1, Conduct::Delivers));
    stage.happens(Event::Pass(60_000));
    let status = stage.queue.status();
    assert_eq!((status.delivered, status.failed, status.waiting()), (15, 25, 0), "{status:?}");
}
