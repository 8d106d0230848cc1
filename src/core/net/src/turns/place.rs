//! Whose turn it is.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::PollSemaphore;

use super::CALL_WORK;
use super::length::Length;

/// A little work: what a connection does without a turn, about a dozen calls.
const LITTLE: usize = 4 << 10;
/// The work of opening a connection. More than a little: a new connection has nothing without a turn.
const OPEN_WORK: usize = LITTLE + 1;
/// The work of a turn, at most; its time ends it earlier.
pub(crate) const TURN_WORK: usize = 512 << 10;

/// The work of short turns after which the event loop looks for events: about 0.15 ms.
const LOOK_WORK: usize = 16 << 10;
/// The time of a unit of work.
const WORK_NANOS: u128 = 10;

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

    /// The place of a new connection, once the turn begins in which it is opened.
    pub(crate) async fn open(&self) -> Place {
        let mut place = Place {
            serving: Queue::new(&self.serving),
            opening: Queue::new(&self.opening),
            ended: self.ended.clone(),
            unseen: Arc::clone(&self.unseen),
            length: Length::begin(Instant::now()),
            in_turn: 0,
            permit: None,
            left: 0,
            done: 0,
            without_turn: 0,
            waiting_since: None,
        };
        std::future::poll_fn(|cx| place.poll_open(cx)).await;
        place
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

/// A queue for turns, as one connection sees it.
#[derive(Debug)]
struct Queue {
    turn: PollSemaphore,
    is_waiting: bool,
}

impl Queue {
    fn new(turn: &Arc<Semaphore>) -> Self {
        Self { turn: PollSemaphore::new(Arc::clone(turn)), is_waiting: false }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<OwnedSemaphorePermit>> {
        self.is_waiting = true;
        let permit = ready!(self.turn.poll_acquire(cx));
        self.is_waiting = false;
        // A semaphore that is never closed always has a permit.
        Poll::Ready(permit)
    }

    /// A turn that nobody takes any more would be kept from all others.
    fn leave(&mut self) {
        if std::mem::take(&mut self.is_waiting) {
            self.turn = PollSemaphore::new(self.turn.clone_inner());
        }
    }
}

/// The place of one connection in the queues for turns; it waits in one of them at a time.
#[derive(Debug)]
pub(crate) struct Place {
    serving: Queue,
    opening: Queue,
    ended: UnboundedSender<OwnedSemaphorePermit>,
    unseen: Arc<AtomicUsize>,
    length: Length,
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
    /// Since when it waits for the turn in which it serves its client.
    waiting_since: Option<Instant>,
}

impl Place {
    /// Notes that the event loop has just looked for events.
    pub(crate) fn looked(&mut self) {
        self.length = Length::begin(Instant::now());
    }

    /// Counts bytes that arrived.
    pub(crate) fn count_input(&mut self, bytes: usize) {
        self.length.count_input(Instant::now);
        self.count(bytes);
    }

    /// Counts a request that was polled; its work counts by [`count_call`](Self::count_call).
    pub(crate) fn count_request(&mut self) {
        self.length.count_request(Instant::now);
    }

    /// Counts receiving and answering a call, for which its service did so much work.
    pub(crate) fn count_call(&mut self, work: usize) {
        self.count(CALL_WORK.saturating_add(work));
    }

    /// Counts a step of opening the connection.
    pub(crate) fn count_opening(&mut self) {
        self.count(OPEN_WORK);
    }

    fn count(&mut self, work: usize) {
        self.left = self.left.saturating_sub(work);
        self.done = self.done.saturating_add(work);
        self.in_turn = self.in_turn.saturating_add(work);
    }

    /// Whether more work needs a turn.
    pub(crate) fn is_over(&self) -> bool {
        self.left == 0 || self.length.is_over()
    }

    /// Ready when the next turn begins in which the connection serves its client, with the time that it waited.
    ///
    /// One that has done little, and only took long over it, waits until the event loop has looked for events, and goes on without a turn.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Duration> {
        if self.permit.is_none() && self.left > 0 {
            // Woken once the event loop has looked.
            let _ = pin!(tokio::task::yield_now()).poll(cx);
            return Poll::Pending;
        }
        self.end();
        self.opening.leave();
        let Poll::Ready(permit) = self.serving.poll(cx) else {
            self.waiting_since.get_or_insert_with(Instant::now);
            return Poll::Pending;
        };
        let now = Instant::now();
        self.begin(permit, Length::begin(now));
        let since = self.waiting_since.take();
        Poll::Ready(since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since)))
    }

    /// Ready when the next turn begins in which the connection is opened or closed.
    pub(crate) fn poll_open(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.end();
        self.serving.leave();
        let permit = ready!(self.opening.poll(cx));
        self.begin(permit, Length::begin_short(Instant::now()));
        Poll::Ready(())
    }

    fn begin(&mut self, permit: Option<OwnedSemaphorePermit>, length: Length) {
        self.permit = permit;
        self.left = TURN_WORK;
        self.length = length;
    }

    /// Ends the turn: the connection waits for its client or for handlers.
    pub(crate) fn rest(&mut self) {
        let took = self.permit.as_ref().map(|_| self.length.until(Instant::now()));
        self.rest_after(took.unwrap_or_default());
    }

    /// Ends a turn that took so long. Short turns of calls that take longer than their work says are as long together as others.
    fn rest_after(&mut self, took: Duration) {
        if self.done > 0 {
            self.without_turn = if self.done > LITTLE { 0 } else { LITTLE };
            self.done = 0;
        }
        self.left = self.without_turn;
        let work = self.in_turn.max(usize::try_from(took.as_nanos() / WORK_NANOS).unwrap_or(usize::MAX));
        let unseen = self.unseen.load(Ordering::Relaxed).saturating_add(work);
        if unseen < LOOK_WORK && self.permit.take().is_some() {
            self.unseen.store(unseen, Ordering::Relaxed);
        }
        self.release();
    }

    /// Ends the turn.
    fn end(&mut self) {
        self.left = 0;
        self.release();
    }

    /// Gives the turn to the next connection, after a look for events.
    fn release(&mut self) {
        self.in_turn = 0;
        if let Some(permit) = self.permit.take() {
            // Without a receiver the worker has ended.
            let _ = self.ended.send(permit);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.release();
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
    async fn who_takes_long_over_little_does_not_wait_behind_all_others() {
        with_turns(async |turns| {
            let mut quiet = turns.open().await;
            quiet.count(OPEN_WORK);
            quiet.rest();
            next(&mut quiet).await;
            quiet.count(LITTLE);
            quiet.rest();
            let mut busy = turns.open().await;
            next(&mut busy).await;
            quiet.looked();
            // The host of the machine may take the core at any time.
            quiet.length.count_request(|| Instant::now() + Duration::from_secs(1));
            assert!(quiet.is_over());
            assert!(poll!(std::pin::pin!(next(&mut quiet))).is_pending(), "the event loop looks for events");
            quiet.looked();
            assert!(!quiet.is_over(), "the other has its turn");
            drop(busy);
        })
        .await;
    }

    #[tokio::test]
    async fn short_turns_follow_each_other_until_they_are_long_together() {
        let (turns, mut ended) = Turns::new();
        let mut turn = turns.open().await;
        turn.count(OPEN_WORK);
        turn.rest_after(Duration::ZERO);
        let mut turns = 0;
        while poll!(std::pin::pin!(next(&mut turn))).is_ready() {
            turns += 1;
            turn.count(LITTLE + 1);
            turn.rest_after(Duration::ZERO);
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
    async fn short_turns_are_as_long_as_they_take() {
        const TOOK: Duration = Duration::from_micros(50);
        let (turns, mut ended) = Turns::new();
        let mut turn = turns.open().await;
        turn.count(OPEN_WORK);
        turn.rest_after(Duration::ZERO);
        let mut turns = 0;
        while poll!(std::pin::pin!(next(&mut turn))).is_ready() {
            turns += 1;
            turn.count(CALL_WORK);
            // It did more before.
            turn.done = LITTLE + 1;
            turn.rest_after(TOOK);
        }
        // By their work they would be forty.
        let took = usize::try_from(TOOK.as_nanos() / WORK_NANOS).unwrap();
        assert_eq!(turns, (LOOK_WORK - OPEN_WORK).div_ceil(took));
        let mut run = std::pin::pin!(ended.run());
        assert!(poll!(run.as_mut()).is_pending());
        tokio::task::yield_now().await;
        assert!(poll!(run.as_mut()).is_pending());
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
    async fn who_closes_while_it_waits_leaves_its_turn_to_the_others() {
        let (turns, mut ended) = Turns::new();
        let mut places = Vec::new();
        for _ in 0..3 {
            let mut place = turns.open().await;
            place.count(OPEN_WORK);
            place.rest();
            places.push(place);
        }
        let [served, closed, waiting] = &mut *places else { panic!("three places") };
        next(served).await;
        assert!(poll!(std::pin::pin!(next(closed))).is_pending());
        let mut waits = std::pin::pin!(next(waiting));
        assert!(poll!(waits.as_mut()).is_pending());
        // Another connection is being opened.
        let _opened = turns.open().await;
        let mut closes = std::pin::pin!(std::future::poll_fn(|cx| closed.poll_open(cx)));
        assert!(poll!(closes.as_mut()).is_pending());
        served.rest();
        let mut run = std::pin::pin!(ended.run());
        assert!(poll!(run.as_mut()).is_pending());
        tokio::task::yield_now().await;
        assert!(poll!(run.as_mut()).is_pending());
        assert!(poll!(waits.as_mut()).is_ready(), "the turn waits for one that does not come");
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
