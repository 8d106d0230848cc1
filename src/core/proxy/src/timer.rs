//! Time limits of a connection, of which the timer is set again as rarely as possible.
//!
//! An event loop that has timers sets one of the system whenever it waits, which takes a microsecond of CPU time. Nearly all time limits are
//! far away and never pass. On a thread that is told every second ([`tick`]), those are kept apart ([`Far`]) until they are near.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

/// Time between two calls of [`tick`].
pub(crate) const TICK: Duration = Duration::from_secs(1);
/// A deadline that is nearer is a timer of the event loop. A tick may be late by some seconds.
const NEAR: Duration = Duration::from_secs(5);

thread_local! {
    /// `None` on a thread without ticks.
    static FAR: RefCell<Option<Far>> = const { RefCell::new(None) };
}

/// The far deadlines of a thread, in order.
#[derive(Debug, Default)]
struct Far {
    waiting: BTreeMap<(Instant, u64), Rc<Slot>>,
    next: u64,
}

/// Who waits for a far deadline.
#[derive(Debug, Default)]
struct Slot {
    waker: RefCell<Option<Waker>>,
    /// Whether the deadline is near.
    is_near: Cell<bool>,
}

/// A far deadline; forgotten on drop.
#[derive(Debug)]
struct Registered {
    key: (Instant, u64),
    slot: Rc<Slot>,
}

impl Registered {
    /// `None` on a thread without ticks.
    fn new(deadline: Instant) -> Option<Self> {
        FAR.with_borrow_mut(|far| {
            let far = far.as_mut()?;
            let key = (deadline, far.next);
            far.next = far.next.wrapping_add(1);
            let slot = Rc::<Slot>::default();
            far.waiting.insert(key, Rc::clone(&slot));
            Some(Self { key, slot })
        })
    }

    /// Waits for it. Returns false if it is near.
    fn waits(&self, cx: &Context<'_>) -> bool {
        let mut waker = self.slot.waker.borrow_mut();
        if !waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
        !self.slot.is_near.get()
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        // A thread that ends has none.
        let _ = FAR.try_with(|far| far.borrow_mut().as_mut().map(|far| far.waiting.remove(&self.key)));
    }
}

/// Says that this thread will be told of time by [`tick`].
pub(crate) fn expect_ticks() {
    FAR.with_borrow_mut(|far| {
        far.get_or_insert_default();
    });
}

/// Wakes those whose deadlines have come near.
pub(crate) fn tick() {
    let until = Instant::now() + NEAR;
    let near = FAR.with_borrow_mut(|far| {
        let far = far.as_mut()?;
        let later = far.waiting.split_off(&(until, 0));
        Some(std::mem::replace(&mut far.waiting, later))
    });
    for slot in near.into_iter().flatten().map(|(_, slot)| slot) {
        slot.is_near.set(true);
        if let Some(waker) = slot.waker.take() {
            waker.wake();
        }
    }
}

/// A timer whose deadline moves often and passes rarely: moving it to a later time costs nothing until the earlier one has passed.
#[derive(Debug, Default)]
pub(crate) struct Timer {
    far: Option<Registered>,
    sleep: Option<Pin<Box<Sleep>>>,
    deadline: Option<Instant>,
}

impl Timer {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Sets the deadline, or removes it.
    pub(crate) fn set(&mut self, deadline: Option<Instant>) {
        self.deadline = deadline;
    }

    /// Ready once the deadline has passed.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(deadline) = self.deadline else { return Poll::Pending };
        if let Some(far) = &self.far {
            if far.key.0 <= deadline && far.waits(cx) {
                return Poll::Pending;
            }
            self.far = None;
        }
        if deadline.saturating_duration_since(Instant::now()) > NEAR {
            self.far = Registered::new(deadline);
            if let Some(far) = &self.far {
                far.waits(cx);
                return Poll::Pending;
            }
        }
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        if sleep.is_elapsed() || sleep.deadline() > deadline {
            sleep.as_mut().reset(deadline);
        }
        loop {
            if sleep.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            if sleep.deadline() >= deadline {
                return Poll::Ready(());
            }
            sleep.as_mut().reset(deadline);
        }
    }
}

/// The earlier of two deadlines.
pub(crate) fn earlier(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_far_deadline_is_met_by_ticks_and_forgotten_on_drop() {
        expect_ticks();
        let waiting = || FAR.with_borrow(|far| far.as_ref().map(|far| far.waiting.len()));
        let start = Instant::now();
        let mut timer = Timer::new();
        let wait = async |timer: &mut Timer| {
            let ticks = async {
                loop {
                    tokio::time::sleep(TICK).await;
                    tick();
                }
            };
            tokio::select! {
                () = std::future::poll_fn(|cx| timer.poll(cx)) => {}
                () = ticks => {}
            }
            start.elapsed()
        };
        timer.set(Some(start + Duration::from_secs(60)));
        assert!(
            tokio::time::timeout(Duration::from_secs(1), std::future::poll_fn(|cx| timer.poll(cx)))
                .await
                .is_err()
        );
        assert_eq!((waiting(), timer.sleep.is_none()), (Some(1), true));
        assert_eq!(wait(&mut timer).await, Duration::from_secs(60));
        assert_eq!(waiting(), Some(0));
        // To an earlier time, which is far or near.
        for (first, second) in [(60, 30), (60, 3), (3, 60), (60, 90)] {
            let begun = Instant::now();
            let mut timer = Timer::new();
            timer.set(Some(begun + Duration::from_secs(first)));
            let polled = std::future::poll_fn(|cx| Poll::Ready(timer.poll(cx))).await;
            assert!(polled.is_pending());
            timer.set(Some(begun + Duration::from_secs(second)));
            wait(&mut timer).await;
            assert_eq!(begun.elapsed(), Duration::from_secs(second), "{first} {second}");
        }
        let mut dropped = Timer::new();
        dropped.set(Some(Instant::now() + Duration::from_secs(60)));
        assert!(std::future::poll_fn(|cx| Poll::Ready(dropped.poll(cx))).await.is_pending());
        assert_eq!(waiting(), Some(1));
        drop(dropped);
        assert_eq!(waiting(), Some(0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_deadline_that_moves_is_met() {
        let start = Instant::now();
        let seconds = |count| Some(start + Duration::from_secs(count));
        let mut timer = Timer::new();
        let poll = async |timer: &mut Timer| {
            let waited =
                tokio::time::timeout(Duration::from_secs(1), std::future::poll_fn(|cx| timer.poll(cx)));
            waited.await.is_ok()
        };
        assert!(!poll(&mut timer).await, "none is set");
        timer.set(seconds(4));
        assert!(!poll(&mut timer).await, "2 s");
        timer.set(seconds(6));
        assert!(!poll(&mut timer).await, "3 s");
        assert!(!poll(&mut timer).await, "4 s: the earlier one has passed");
        assert!(!poll(&mut timer).await, "5 s");
        assert!(poll(&mut timer).await, "6 s");
        timer.set(seconds(60));
        assert!(!poll(&mut timer).await);
        timer.set(seconds(8));
        assert!(poll(&mut timer).await, "an earlier one");
        timer.set(None);
        assert!(!poll(&mut timer).await);
    }
}
