//! Pools under calls, and the control law under a simulated backend.

use super::*;

mod simulation;

fn pool(floor: usize, ceiling: usize, queue: usize) -> Arc<Pool> {
    Pool::new(PoolOptions { floor, ceiling, queue })
}

#[tokio::test(start_paused = true)]
async fn permits_are_granted_in_order_and_the_queue_is_bounded() {
    let pool = pool(1, 1, 2);
    let first = pool.enter().await.unwrap();
    let (order, mut came) = tokio::sync::mpsc::unbounded_channel();
    for number in 0..2 {
        let (pool, order) = (Arc::clone(&pool), order.clone());
        tokio::spawn(async move {
            let permit = pool.enter().await.unwrap();
            order.send(number).unwrap();
            tokio::time::sleep(Duration::from_millis(5)).await;
            drop(permit);
        });
        tokio::task::yield_now().await;
    }
    assert_eq!(pool.enter().await.unwrap_err(), PoolFull { in_flight: 1, queued: 2 });
    assert_eq!(pool.status(), PoolStatus { limit: 1, in_flight: 1, queued: 2, queue: 2, refused: 1 });
    drop(first);
    assert_eq!((came.recv().await, came.recv().await), (Some(0), Some(1)));
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(pool.status(), PoolStatus { limit: 1, in_flight: 0, queued: 0, queue: 2, refused: 1 });
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_caller_leaves_the_queue() {
    let pool = pool(1, 1, 1);
    let first = pool.enter().await.unwrap();
    let gone = tokio::time::timeout(Duration::from_millis(10), pool.enter()).await;
    assert!(gone.is_err());
    assert_eq!(pool.status().queued, 0);
    let next = tokio::spawn({
        let pool = Arc::clone(&pool);
        async move { pool.enter().await.map(drop) }
    });
    tokio::task::yield_now().await;
    drop(first);
    assert_eq!(next.await.unwrap(), Ok(()));
    assert_eq!(pool.status().in_flight, 0);
    assert_eq!(Arc::strong_count(&pool), 1, "no permit is left");
}

#[tokio::test(start_paused = true)]
async fn a_pool_grows_while_latency_stays_and_shrinks_when_it_rises() {
    let pool = pool(2, 64, 10_000);
    let rounds = async |latency: u64, rounds: usize| {
        for _ in 0..rounds {
            let work = (0..100).map(|_| async {
                let permit = pool.enter().await.unwrap();
                tokio::time::sleep(Duration::from_millis(latency)).await;
                drop(permit);
            });
            futures_util::future::join_all(work).await;
        }
    };
    rounds(10, 30).await;
    let grown = pool.status().limit;
    assert!(grown > 8, "{grown}");
    rounds(100, 10).await;
    let shrunk = pool.status().limit;
    assert!(shrunk < grown / 2, "{grown} to {shrunk}");
    assert!(shrunk >= 2);
}

#[tokio::test(start_paused = true)]
async fn a_granted_permit_is_in_flight_and_is_returned_by_a_cancelled_caller() {
    let pool = pool(1, 1, 1);
    let first = pool.enter().await.unwrap();
    let mut second = Box::pin(pool.enter());
    assert!(futures_util::poll!(second.as_mut()).is_pending());
    drop(first);
    assert_eq!(pool.status(), PoolStatus { limit: 1, in_flight: 1, queued: 0, queue: 1, refused: 0 });
    // The place in the queue is free although the second caller has not run.
    let mut third = Box::pin(pool.enter());
    assert!(futures_util::poll!(third.as_mut()).is_pending());
    assert_eq!(pool.enter().await.unwrap_err(), PoolFull { in_flight: 1, queued: 1 });
    drop(second);
    assert_eq!(pool.status().in_flight, 1);
    let third = third.await.unwrap();
    assert_eq!(pool.status(), PoolStatus { limit: 1, in_flight: 1, queued: 0, queue: 1, refused: 1 });
    drop(third);
    assert_eq!(pool.status().in_flight, 0);
    assert_eq!(pool.permits.available_permits(), 1);
}

#[tokio::test(start_paused = true)]
async fn permits_above_a_limit_that_shrank_are_withheld() {
    let pool = pool(1, 64, 10_000);
    let work = async |latency: u64, calls: usize| {
        let work = (0..calls).map(|_| async {
            let permit = pool.enter().await.unwrap();
            tokio::time::sleep(Duration::from_millis(latency)).await;
            drop(permit);
        });
        futures_util::future::join_all(work).await;
    };
    for (latency, rounds) in [(10, 50), (500, 20), (10, 50), (300, 3)] {
        for _ in 0..rounds {
            work(latency, 100).await;
            let state = pool.state.lock();
            assert_eq!((state.in_flight, state.waiting, state.surplus), (0, 0, 0));
            assert_eq!(pool.permits.available_permits(), state.limit);
        }
    }
}

#[test]
fn a_floor_at_the_ceiling_fixes_the_limit() {
    let mut law = ControlLaw::new(8, 8);
    for latency in [0.01, 1.0, 0.001] {
        let window = LatencyWindow { completed: 10, mean_latency: latency, peak: 8, queued: true };
        assert_eq!(law.step(window), 8);
    }
    assert_eq!(ControlLaw::new(10, 4).limit(), 4, "a floor above the ceiling is lowered to it");
    assert_eq!(ControlLaw::new(0, 0).limit(), 1);
}

#[test]
fn a_pool_that_is_not_full_does_not_grow() {
    let mut law = ControlLaw::new(4, 100);
    for _ in 0..100 {
        law.step(LatencyWindow { completed: 100, mean_latency: 0.01, peak: 2, queued: false });
    }
    assert_eq!(law.limit(), 4);
    for _ in 0..100 {
        law.step(LatencyWindow { completed: 100, mean_latency: 0.01, peak: 100, queued: true });
    }
    assert_eq!(law.limit(), 100);
    assert_eq!(law.step(LatencyWindow::default()), 100, "an empty window");
}
