//! Those who wait for room when the server stops.

use super::*;

/// Answers of those who wait when the server stops, and afterwards.
#[tokio::test(start_paused = true)]
async fn nobody_waits_for_room_once_the_server_stops() {
    let holds = Holds::default();
    let settings = Settings {
        bounds: Bounds { items: 4, ..Bounds::default() },
        when_full: WhenFull::Hold(Duration::from_secs(3600)),
        batching: Batching { items: 1, ..Batching::default() },
        retry: Retry { budget: Duration::from_secs(7200), ..Retry::default() },
        holds: holds.clone(),
        ..Settings::default()
    };
    let (works, attempts) = (Arc::default(), Arc::default());
    let delivery = Arc::new(Delivery::in_task("stops", "", settings, Counted(attempts, Arc::clone(&works))));
    delivery.accept(Parcel(0, 1)).unwrap();
    pass(10).await;
    let later = |handed_over: HandedOver| match handed_over {
        HandedOver::Later(later) => later,
        HandedOver::Now { dropped } => panic!("{dropped} items are dropped at once"),
    };
    let items = |numbers: std::ops::Range<usize>| numbers.map(|item| Parcel(item, 1)).collect::<Vec<_>>();
    // Four of eight have room.
    let [first, second] = [1..9, 9..11].map(|numbers| later(delivery.hand_over(items(numbers))));
    let whole = later(delivery.hand_over_all(Parcel(11, 1), |item| item));
    let one = delivery.accept_when_room(Parcel(12, 1), Duration::from_secs(60));
    let before = Instant::now();
    let stops = async {
        pass(1000).await;
        holds.end();
    };
    let (first, second, whole, one, ()) = tokio::join!(first, second, whole, one, stops);
    assert_eq!(before.elapsed().as_secs(), 1);
    assert_eq!(first, Dropped { items: 4, is_stopping: true });
    assert_eq!(second, Dropped { items: 2, is_stopping: true });
    assert_eq!(whole, Dropped { items: 1, is_stopping: true });
    assert_eq!(one, Err(NotAccepted::Stopping));
    let late = later(delivery.hand_over(items(13..15))).await;
    assert_eq!(late, Dropped { items: 2, is_stopping: true });
    assert_eq!(before.elapsed().as_secs(), 1, "nobody waits");
    let status = delivery.status();
    assert_eq!((status.accepted, status.closed, status.full, status.waiting()), (15, 10, 0, 5));
    // What was accepted is delivered while the delivery closes.
    works.store(true, std::sync::atomic::Ordering::Relaxed);
    assert!(delivery.close(Duration::from_secs(60)).await);
    assert_eq!(delivery.status().delivered, 5);
    assert_adds_up(&delivery);
}
