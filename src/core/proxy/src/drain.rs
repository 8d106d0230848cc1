//! Draining: connections of listeners and filter chains that are replaced or removed end within the drain time.
//!
//! Until it is over, responses end their connections, at random and more and more often, or at once. At its end, connections that are left
//! are closed: each worker wakes those that wait.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::time::Instant;

/// How connections are drained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DrainOptions {
    /// The time until those that are left are closed.
    pub time: Duration,
    /// Whether responses end their connections at random, the more often the later it is; otherwise all do.
    pub is_gradual: bool,
}

impl Default for DrainOptions {
    /// As Envoy.
    fn default() -> Self {
        Self { time: Duration::from_secs(600), is_gradual: true }
    }
}

/// The draining of a filter chain.
#[derive(Debug)]
pub(crate) struct Drain {
    pub(crate) id: u64,
    options: DrainOptions,
    began: OnceLock<Instant>,
    is_over: AtomicBool,
}

impl Drain {
    pub(crate) fn new(options: DrainOptions) -> Arc<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        Arc::new(Self { id, options, began: OnceLock::new(), is_over: AtomicBool::new(false) })
    }

    /// Begins, unless it has begun.
    pub(crate) fn begin(&self) {
        let _ = self.began.get_or_init(Instant::now);
    }

    /// Ends: connections that are left are to be closed.
    pub(crate) fn end(&self) {
        self.begin();
        self.is_over.store(true, Ordering::Release);
    }

    /// Whether the response that is about to be sent ends its connection. Cost: an atomic read, unless draining has begun.
    fn closes(&self) -> bool {
        let Some(began) = self.began.get() else { return false };
        let (elapsed, time) = (began.elapsed(), self.options.time);
        !self.options.is_gradual || elapsed >= time || time.mul_f64(fastrand::f64()) < elapsed
    }
}

/// The connections of a worker that are to be woken at the end of a drain time. As many entries as there are connections.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    places: RefCell<Vec<Option<(u64, Waker)>>>,
    free: RefCell<Vec<usize>>,
}

impl Waiting {
    /// Wakes the connections of a drain.
    pub(crate) fn wake(&self, id: u64) {
        let places = self.places.borrow();
        places.iter().flatten().filter(|(known, _)| *known == id).for_each(|(_, waker)| waker.wake_by_ref());
    }

    fn add(&self, id: u64, waker: Waker) -> usize {
        let mut places = self.places.borrow_mut();
        let entry = Some((id, waker));
        match self.free.borrow_mut().pop() {
            Some(index) => {
                if let Some(place) = places.get_mut(index) {
                    *place = entry;
                }
                index
            }
            None => {
                places.push(entry);
                places.len() - 1
            }
        }
    }

    fn remove(&self, index: usize) {
        if let Some(place) = self.places.borrow_mut().get_mut(index) {
            *place = None;
        }
        self.free.borrow_mut().push(index);
    }
}

/// A connection that its filter chain drains.
#[derive(Debug)]
pub(crate) struct Drained {
    drain: Arc<Drain>,
    waiting: Rc<Waiting>,
    place: Cell<Option<usize>>,
}

impl Drained {
    pub(crate) fn new(drain: &Arc<Drain>, waiting: &Rc<Waiting>) -> Self {
        Self { drain: Arc::clone(drain), waiting: Rc::clone(waiting), place: Cell::new(None) }
    }

    /// Whether the response that is about to be sent ends the connection.
    pub(crate) fn closes(&self) -> bool {
        self.drain.closes()
    }

    /// Ready once the drain time is over. A connection is one task, whose waker is kept.
    pub(crate) fn poll_over(&self, cx: &Context<'_>) -> Poll<()> {
        if self.drain.is_over.load(Ordering::Acquire) {
            return Poll::Ready(());
        }
        if self.place.get().is_none() {
            self.place.set(Some(self.waiting.add(self.drain.id, cx.waker().clone())));
        }
        Poll::Pending
    }
}

impl Drop for Drained {
    fn drop(&mut self) {
        if let Some(index) = self.place.get() {
            self.waiting.remove(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn responses_end_connections_more_and_more_often() {
        let drain = |is_gradual| Drain::new(DrainOptions { time: Duration::from_secs(10), is_gradual });
        let share = |drain: &Drain| (0..1000).filter(|_| drain.closes()).count();
        let (gradual, immediate) = (drain(true), drain(false));
        assert_eq!((share(&gradual), share(&immediate)), (0, 0), "not begun");
        gradual.begin();
        immediate.begin();
        assert_eq!((share(&gradual), share(&immediate)), (0, 1000));
        tokio::time::sleep(Duration::from_secs(5)).await;
        gradual.begin();
        assert!((400..600).contains(&share(&gradual)), "{}", share(&gradual));
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(share(&gradual), 1000);
        let none = Drain::new(DrainOptions { time: Duration::ZERO, is_gradual: true });
        none.begin();
        assert_eq!(share(&none), 1000);
    }

    #[test]
    fn the_end_wakes_the_connections_of_one_drain() {
        struct Count(AtomicU64);
        impl std::task::Wake for Count {
            fn wake(self: Arc<Self>) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        let count = Arc::new(Count(AtomicU64::new(0)));
        let waker = Waker::from(Arc::clone(&count));
        let cx = Context::from_waker(&waker);
        let waiting = Rc::new(Waiting::default());
        let [a, b] = [(); 2].map(|()| Drain::new(DrainOptions::default()));
        let connections = [&a, &a, &b].map(|drain| Drained::new(drain, &waiting));
        for connection in &connections {
            assert!(connection.poll_over(&cx).is_pending() && connection.poll_over(&cx).is_pending());
        }
        a.end();
        waiting.wake(a.id);
        assert_eq!(count.0.load(Ordering::Relaxed), 2, "each once");
        assert!(connections[0].poll_over(&cx).is_ready() && connections[2].poll_over(&cx).is_pending());
        drop(connections);
        let again = Drained::new(&b, &waiting);
        assert!(again.poll_over(&cx).is_pending());
        assert_eq!(waiting.places.borrow().len(), 3, "places are used again");
    }
}
