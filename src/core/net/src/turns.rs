//! Turns of the connections of a worker.
//!
//! A connection does a little work whenever something arrives, and more only in its turn. One connection of a worker at a time has
//! a turn, in the order in which they asked for it; the next turn begins after the event loop has looked for events. A call on a quiet
//! connection therefore waits for one turn, however many others are busy. Short turns of connections that have nothing left follow each other at
//! once, until together they are as long as half of one.
//!
//! A connection whose last work was more than a little has nothing without a turn: what hundreds of them do at once is bounded as well.
//! To be opened and closed, connections take turns of their own, so that those which are served do not wait behind a flood of new ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::PollSemaphore;

/// The work of receiving and answering a call, besides that of its service and of its bytes. The unit is that of
/// [`WorkerService::work_done`](crate::service::WorkerService::work_done), about 10 ns; a byte counts as one.
pub(crate) const CALL_WORK: usize = 300;
/// A little work: what a connection does without a turn, about a dozen calls.
const LITTLE: usize = 4 << 10;
/// The work of opening a connection. More than a little: a new connection has nothing without a turn.
pub(crate) const OPEN_WORK: usize = LITTLE + 1;
/// The work of a turn, at most; its time ends it earlier.
pub(crate) const TURN_WORK: usize = 512 << 10;

/// The work of short turns after which the event loop looks for events: about half a millisecond.
const LOOK_WORK: usize = 48 << 10;

/// The turns of one worker.
#[derive(Debug)]
pub(crate) struct Turns {
    serving: Arc<Semaphore>,
    opening: Arc<Semaphore>,
    ended: UnboundedSender<OwnedSemaphorePermit>,
    unseen: Arc<AtomicUsize>,
}

/// Ends turns once the event loop has looked for events.
#[derive(Debug)]
pub(crate) struct EndedTurns {
    ended: UnboundedReceiver<OwnedSemaphorePermit>,
    /// Work since the event loop looked for events because a turn had ended. Written by the worker only.
    unseen: Arc<AtomicUsize>,
}

impl Turns {
    /// The turns of a worker, which must run the second part.
    pub(crate) fn new() -> (Self, EndedTurns) {
        let (ended, receiver) = unbounded_channel();
        let one = || Arc::new(Semaphore::new(1));
        let unseen = Arc::new(AtomicUsize::new(0));
        let turns = Self { serving: one(), opening: one(), ended, unseen: Arc::clone(&unseen) };
        (turns, EndedTurns { ended: receiver, unseen })
    }

    /// The work of a connection, which begins with the turn in which it is opened.
    pub(crate) async fn open(&self) -> Place {
        let mut turn = Place {
            serving: PollSemaphore::new(Arc::clone(&self.serving)),
            opening: PollSemaphore::new(Arc::clone(&self.opening)),
            ended: self.ended.clone(),
            unseen: Arc::clone(&self.unseen),
            in_turn: 0,
            permit: None,
            left: 0,
            done: 0,
            without_turn: 0,
        };
        std::future::poll_fn(|cx| turn.poll_open(cx)).await;
        turn
    }
}

impl EndedTurns {
    /// Runs as long as a connection is left.
    pub(crate) async fn run(&mut self) {
        let mut ended = Vec::new();
        while self.ended.recv_many(&mut ended, 2).await > 0 {
            tokio::task::yield_now().await;
            self.unseen.store(0, Ordering::Relaxed);
            ended.clear();
        }
    }
}

/// The place of one connection in the queues for turns.
#[derive(Debug)]
pub(crate) struct Place {
    serving: PollSemaphore,
    opening: PollSemaphore,
    ended: UnboundedSender<OwnedSemaphorePermit>,
    unseen: Arc<AtomicUsize>,
    /// Work of the turn.
    in_turn: usize,
    /// Held during a turn.
    permit: Option<OwnedSemaphorePermit>,
    /// Work that it may do.
    left: usize,
    /// Work since it was last idle.
    done: usize,
    /// Work that it may do without a turn when something arrives.
    without_turn: usize,
}

impl Place {
    /// Counts work.
    pub(crate) fn count(&mut self, work: usize) {
        self.left = self.left.saturating_sub(work);
        self.done = self.done.saturating_add(work);
        self.in_turn = self.in_turn.saturating_add(work);
    }

    /// Whether more work needs a turn.
    pub(crate) fn is_over(&self) -> bool {
        self.left == 0
    }

    /// Ready when the next turn begins in which the connection serves its client.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.left = 0;
        self.end();
        // The semaphores are never closed.
        self.permit = ready!(self.serving.poll_acquire(cx));
        self.left = TURN_WORK;
        Poll::Ready(())
    }

    /// Ready when the next turn begins in which the connection is opened or closed.
    pub(crate) fn poll_open(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.left = 0;
        self.end();
        self.permit = ready!(self.opening.poll_acquire(cx));
        self.left = TURN_WORK;
        Poll::Ready(())
    }

    /// Ends the turn: the connection waits for its client or for handlers.
    pub(crate) fn rest(&mut self) {
        if self.done > 0 {
            self.without_turn = if self.done > LITTLE { 0 } else { LITTLE };
            self.done = 0;
        }
        self.left = self.without_turn;
        let unseen = self.unseen.load(Ordering::Relaxed).saturating_add(self.in_turn);
        if unseen < LOOK_WORK && self.permit.take().is_some() {
            self.unseen.store(unseen, Ordering::Relaxed);
        }
        self.end();
    }

    /// Ends the turn; the next one begins after a look for events.
    fn end(&mut self) {
        self.in_turn = 0;
        if let Some(permit) = self.permit.take() {
            // Without a receiver the worker has ended.
            let _ = self.ended.send(permit);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use futures_util::poll;

    use super::*;

    async fn next(turn: &mut Place) {
        std::future::poll_fn(|cx| turn.poll_next(cx)).await;
    }

    /// Runs what ends before the turns of a worker do.
    async fn with_turns(work: impl AsyncFnOnce(&Turns)) {
        let (turns, mut ended) = Turns::new();
        tokio::select! {
            () = work(&turns) => {}
            () = ended.run() => panic!("connections are left"),
        }
    }

    #[tokio::test]
    async fn turns_are_taken_in_order() {
        let log = RefCell::new(Vec::new());
        let serve = async |name: &'static str, mut turn: Place, mut work: usize| {
            while work > 0 {
                if turn.is_over() {
                    next(&mut turn).await;
                    log.borrow_mut().push(name);
                }
                turn.count(CALL_WORK);
                work = work.saturating_sub(CALL_WORK);
            }
            turn.rest();
        };
        with_turns(async |turns| {
            // While the first one has its turn, the others ask for theirs.
            let wanted = [("first", LOOK_WORK), ("a", 2 * TURN_WORK), ("b", 1), ("c", 2 * TURN_WORK)];
            let mut connections = Vec::new();
            for (name, work) in wanted {
                let mut turn = turns.open().await;
                turn.count(OPEN_WORK);
                turn.rest();
                connections.push(serve(name, turn, work));
            }
            futures_util::future::join_all(connections).await;
        })
        .await;
        assert_eq!(*log.borrow(), ["first", "a", "b", "c", "a", "c"]);
    }

    #[tokio::test]
    async fn a_quiet_connection_needs_no_turn_and_a_busy_one_has_nothing_without() {
        with_turns(async |turns| {
            let mut turn = turns.open().await;
            turn.count(OPEN_WORK);
            turn.rest();
            assert!(turn.is_over(), "a new connection needs a turn");
            next(&mut turn).await;
            turn.count(LITTLE);
            turn.rest();
            let mut other = turns.open().await;
            next(&mut other).await;
            assert!(!turn.is_over(), "the other has the turn");
            turn.count(LITTLE + 1);
            assert!(turn.is_over());
            turn.rest();
            assert!(turn.is_over());
            turn.rest();
            assert!(turn.is_over(), "looking for nothing is no work");
            assert!(poll!(std::pin::pin!(next(&mut turn))).is_pending());
            drop(other);
            next(&mut turn).await;
            turn.count(1);
            turn.rest();
            assert!(!turn.is_over());
        })
        .await;
    }

    #[tokio::test]
    async fn short_turns_follow_each_other_until_they_are_long_together() {
        let (turns, mut ended) = Turns::new();
        let mut turn = turns.open().await;
        turn.count(OPEN_WORK);
        turn.rest();
        let mut turns = 0;
        while poll!(std::pin::pin!(next(&mut turn))).is_ready() {
            turns += 1;
            turn.count(LITTLE + 1);
            turn.rest();
        }
        assert_eq!(turns, LOOK_WORK / (LITTLE + 1), "the event loop has not looked");
        let mut run = std::pin::pin!(ended.run());
        assert!(poll!(run.as_mut()).is_pending());
        tokio::task::yield_now().await;
        assert!(poll!(run.as_mut()).is_pending());
        assert!(poll!(std::pin::pin!(next(&mut turn))).is_ready());
        turn.count(LITTLE + 1);
        turn.rest();
        assert!(poll!(std::pin::pin!(next(&mut turn))).is_ready(), "it has looked");
    }

    #[tokio::test]
    async fn who_is_served_does_not_wait_for_those_who_are_opened() {
        with_turns(async |turns| {
            let mut served = turns.open().await;
            next(&mut served).await;
            let opened = turns.open().await;
            assert!(poll!(std::pin::pin!(turns.open())).is_pending(), "one at a time is opened");
            assert!(poll!(std::pin::pin!(next(&mut served))).is_pending(), "its turn is over");
            next(&mut served).await;
            drop(opened);
        })
        .await;
    }

    #[tokio::test]
    async fn the_next_turn_begins_after_the_event_loop_has_looked_for_events() {
        let (turns, mut ended) = Turns::new();
        drop(turns.open().await);
        let mut next = std::pin::pin!(turns.open());
        assert!(poll!(next.as_mut()).is_pending());
        let mut run = std::pin::pin!(ended.run());
        assert!(poll!(run.as_mut()).is_pending());
        assert!(poll!(next.as_mut()).is_pending(), "the event loop has not looked");
        tokio::task::yield_now().await;
        assert!(poll!(run.as_mut()).is_pending());
        assert!(poll!(next.as_mut()).is_ready());
    }
}
