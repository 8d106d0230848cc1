//! Explores all interleavings of claims, closed connections and a drain.

use std::collections::VecDeque;

use shuttle::scheduler::DfsScheduler;
use shuttle::sync::atomic::{AtomicUsize, Ordering};
use shuttle::sync::{Arc, Mutex};
use shuttle::thread;

use super::{Balance, Claim, Counter};

impl Counter for AtomicUsize {
    fn get(&self) -> usize {
        self.load(Ordering::SeqCst)
    }

    fn try_increment(&self, seen: usize) -> bool {
        self.compare_exchange(seen, seen + 1, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    fn decrement(&self) {
        assert!(self.fetch_sub(1, Ordering::SeqCst) > 0, "a count underflows");
    }
}

type ModelBalance = Balance<AtomicUsize>;

/// Runs a scenario in every interleaving; returns their number.
fn orders(scenario: fn()) -> usize {
    let orders =
        shuttle::Runner::new(DfsScheduler::new(None, false), shuttle::Config::default()).run(scenario);
    eprintln!("{orders} orders");
    orders
}

#[test]
fn connections_at_the_same_time_go_to_different_workers() {
    let orders = orders(|| {
        let balance = Arc::new(ModelBalance::new(2));
        let listeners: Vec<_> = (0..2)
            .map(|_| {
                let balance = Arc::clone(&balance);
                thread::spawn(move || balance.claim())
            })
            .collect();
        let claims: Vec<_> = listeners.into_iter().map(|listener| listener.join().unwrap()).collect();
        assert_eq!(balance.counts(), [1, 1]);
        drop(claims);
        assert_eq!(balance.counts(), [0, 0]);
    });
    assert!(orders > 10, "only {orders} orders");
}

#[test]
fn counts_end_at_zero_however_connections_end() {
    /// What waits for a worker; `None` when the worker takes nothing more.
    type Queue = Mutex<Option<VecDeque<Claim<AtomicUsize>>>>;
    let orders = orders(|| {
        let balance = Arc::new(ModelBalance::new(1));
        let queue: Arc<Queue> = Arc::new(Mutex::new(Some(VecDeque::new())));
        let listener = {
            let (balance, queue) = (Arc::clone(&balance), Arc::clone(&queue));
            thread::spawn(move || {
                let claim = balance.claim();
                if let Some(waiting) = &mut *queue.lock().unwrap() {
                    waiting.push_back(claim);
                }
            })
        };
        let worker = {
            let queue = Arc::clone(&queue);
            thread::spawn(move || {
                let taken = queue.lock().unwrap().as_mut().and_then(VecDeque::pop_front);
                drop(taken);
            })
        };
        // The drain ends: queued connections are dropped.
        let left = queue.lock().unwrap().take();
        drop(left);
        listener.join().unwrap();
        worker.join().unwrap();
        assert_eq!(balance.counts(), [0]);
    });
    assert!(orders > 10, "only {orders} orders");
}
