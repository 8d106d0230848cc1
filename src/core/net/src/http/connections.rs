//! The bound on the connections of an endpoint, and which of them gives way.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;

/// The open connections of an endpoint.
///
/// At the bound, a new connection takes the place of the one that has waited longest for a request to arrive: half-open requests, bodies
/// that arrive slowly and idle connections keep nobody out. A body, a TLS handshake and the first request after it, and a client that reads its
/// answer have a moment before their connection gives way, and as long as that may be, a connection that waits is given the same moment. If every connection has a request, or is so new that its request may be
/// there, the new one waits for the first that ends or has none.
#[derive(Debug)]
pub(super) struct Connections {
    limit: usize,
    open: Mutex<Vec<Arc<Slot>>>,
    freed: Notify,
    /// Most bytes of unfinished heads, and how many there are.
    max_head_bytes: usize,
    head_bytes: AtomicUsize,
}

/// A connection.
#[derive(Debug)]
pub(super) struct Slot {
    phase: Mutex<Phase>,
    /// Bytes of the head that is arriving.
    head: AtomicUsize,
    is_closed: AtomicBool,
    close: Notify,
}

/// What a connection does.
#[derive(Debug, Clone, Copy)]
enum Phase {
    /// It was accepted, and nobody has looked yet whether its request is there: it does not give way.
    New,
    /// It has waited since then for a request to arrive.
    Waiting(Instant),
    /// Its TLS handshake, or the first request after it, has been on its way since then.
    Securing(Instant),
    /// A request has arrived but for its body, which has been on its way since then.
    Receiving(Instant),
    /// The answer to a request is complete since then; its last bytes may be on their way.
    Answered(Instant),
    /// A request is in progress.
    Busy,
}

/// How long a body, a handshake or the last bytes of an answer may take before its connection gives way: clients that send at once need less on any network.
pub(super) const BODY_MOMENT: Duration = Duration::from_millis(500);

/// The place of a connection, until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    connections: Arc<Connections>,
    slot: Arc<Slot>,
}

impl Connections {
    /// At most `limit` connections, at least one.
    pub(super) fn new(limit: usize, max_head_bytes: usize) -> Arc<Self> {
        Arc::new(Self {
            limit: limit.max(1),
            open: Mutex::default(),
            freed: Notify::new(),
            max_head_bytes,
            head_bytes: AtomicUsize::new(0),
        })
    }

    /// A place for a new connection.
    pub(super) async fn enter(self: &Arc<Self>) -> Place {
        loop {
            // Registered before the look, so that no end is missed.
            let freed = self.freed.notified();
            if let Some(slot) = self.try_enter() {
                return Place { connections: Arc::clone(self), slot };
            }
            // A body that is arriving may have had its moment meanwhile.
            let _ = tokio::time::timeout(BODY_MOMENT / 5, freed).await;
        }
    }

    fn try_enter(&self) -> Option<Arc<Slot>> {
        let mut open = self.open.lock();
        if open.len() >= self.limit {
            let incomplete = open.iter().enumerate().filter_map(|(at, slot)| Some((at, slot.incomplete()?)));
            let may_complete = open.iter().any(|slot| slot.may_complete());
            let oldest = incomplete.min_by_key(|(_, since)| *since);
            let (at, since) = oldest?;
            if may_complete && since.elapsed() < BODY_MOMENT {
                return None;
            }
            open.swap_remove(at).close();
        }
        let slot = Arc::new(Slot {
            phase: Mutex::new(Phase::New),
            head: AtomicUsize::new(0),
            is_closed: AtomicBool::new(false),
            close: Notify::new(),
        });
        open.push(Arc::clone(&slot));
        Some(slot)
    }

    /// Closes every connection without a request.
    pub(super) fn close_waiting(&self) {
        self.open.lock().retain(|slot| {
            let waits = slot.waits_since().is_some();
            if waits {
                slot.close();
            }
            !waits
        });
        self.freed.notify_one();
    }
}

impl Connections {
    /// Counts bytes of a head. Beyond the bound, the connections with the longest ones are closed.
    fn arrived(&self, slot: &Slot, bytes: usize) {
        slot.head.fetch_add(bytes, Ordering::Relaxed);
        let mut all = self.head_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if all <= self.max_head_bytes {
            return;
        }
        let mut open = self.open.lock();
        while all > self.max_head_bytes {
            let lengths = open.iter().map(|slot| slot.head.load(Ordering::Relaxed)).enumerate();
            let Some((at, 1..)) = lengths.max_by_key(|(_, length)| *length) else { return };
            let longest = open.swap_remove(at);
            all = all.saturating_sub(self.release(&longest));
            longest.close();
            mixer_base::warn_limited!(
                1,
                "heads of requests take too much memory: the connection with the longest one is closed"
            );
        }
    }

    /// Releases the bytes of a head. Returns how many.
    fn release(&self, slot: &Slot) -> usize {
        let bytes = slot.head.swap(0, Ordering::Relaxed);
        self.head_bytes.fetch_sub(bytes, Ordering::Relaxed);
        bytes
    }
}

impl Slot {
    fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
        self.close.notify_one();
    }

    /// Whether the connection must give way.
    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    /// Completes when the connection must give way.
    pub(super) async fn closed(&self) {
        while !self.is_closed.load(Ordering::Relaxed) {
            self.close.notified().await;
        }
    }

    /// Since when it has waited for a request.
    fn waits_since(&self) -> Option<Instant> {
        match *self.phase.lock() {
            Phase::Waiting(since) => Some(since),
            Phase::Securing(since) | Phase::Answered(since) => {
                Some(since).filter(|since| since.elapsed() >= BODY_MOMENT)
            }
            Phase::New | Phase::Receiving(_) | Phase::Busy => None,
        }
    }

    /// Since when its request is incomplete.
    fn incomplete(&self) -> Option<Instant> {
        match *self.phase.lock() {
            Phase::Waiting(since)
            | Phase::Securing(since)
            | Phase::Receiving(since)
            | Phase::Answered(since) => Some(since),
            Phase::New | Phase::Busy => None,
        }
    }

    /// Whether something is on its way that has a moment.
    fn may_complete(&self) -> bool {
        matches!(*self.phase.lock(), Phase::Securing(_) | Phase::Receiving(_) | Phase::Answered(_))
    }

    /// Whether there is a request that is not answered.
    pub(super) fn has_request(&self) -> bool {
        matches!(*self.phase.lock(), Phase::Receiving(_) | Phase::Busy)
    }

    /// The body is on its way, or is complete.
    pub(super) fn body(&self, is_complete: bool) {
        let mut phase = self.phase.lock();
        match *phase {
            Phase::Busy if !is_complete => *phase = Phase::Receiving(Instant::now()),
            Phase::Receiving(_) if is_complete => *phase = Phase::Busy,
            _ => {}
        }
    }
}

impl Place {
    pub(super) fn slot(&self) -> &Arc<Slot> {
        &self.slot
    }

    /// A request has arrived. It ends with the returned value.
    pub(super) fn request(&self) -> InRequest {
        *self.slot.phase.lock() = Phase::Busy;
        self.connections.release(&self.slot);
        InRequest { connections: Arc::clone(&self.connections), slot: Arc::clone(&self.slot) }
    }

    /// A TLS handshake begins, or is complete.
    pub(super) fn securing(&self) {
        *self.slot.phase.lock() = Phase::Securing(Instant::now());
        self.connections.freed.notify_one();
    }

    /// All that has arrived was read. A new connection without a request waits for one from now on.
    pub(super) fn read_all(&self) {
        let mut phase = self.slot.phase.lock();
        if matches!(*phase, Phase::New) {
            *phase = Phase::Waiting(Instant::now());
            drop(phase);
            self.connections.freed.notify_one();
        }
    }

    /// Bytes have arrived: of a head, unless there is a request.
    pub(super) fn arrived(&self, bytes: usize) {
        if !self.slot.has_request() && !self.slot.is_closed.load(Ordering::Relaxed) {
            self.connections.arrived(&self.slot, bytes);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.connections.open.lock().retain(|slot| !Arc::ptr_eq(slot, &self.slot));
        self.connections.release(&self.slot);
        self.connections.freed.notify_one();
    }
}

/// A request in progress, from its head to the end of its response.
#[derive(Debug)]
pub(super) struct InRequest {
    connections: Arc<Connections>,
    slot: Arc<Slot>,
}

impl Drop for InRequest {
    fn drop(&mut self) {
        *self.slot.phase.lock() = Phase::Answered(Instant::now());
        self.connections.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn the_connection_that_waited_longest_gives_way() {
        let connections = Connections::new(2, 0);
        let (first, second) = (connections.enter().await, connections.enter().await);
        let busy = first.request();
        let mut third = std::pin::pin!(connections.enter());
        assert!(third.as_mut().now_or_never().is_none(), "the second one may have a request");
        second.read_all();
        let third = third.await;
        assert!(second.slot().closed().now_or_never().is_some(), "it waited for a request");
        assert!(first.slot().closed().now_or_never().is_none(), "it has a request");
        let _busy_too = third.request();
        drop(second);
        let mut fourth = std::pin::pin!(connections.enter());
        assert!(fourth.as_mut().now_or_never().is_none(), "all have requests");
        drop(busy);
        let entered = tokio::time::timeout(std::time::Duration::from_secs(5), fourth).await;
        assert!(entered.is_ok(), "the request has ended, and its connection is open");
        assert!(first.slot().closed().now_or_never().is_some());
    }

    #[tokio::test]
    async fn a_body_that_arrives_slowly_keeps_nobody_out() {
        let connections = Connections::new(2, 0);
        let [slow, quick] = [connections.enter().await, connections.enter().await];
        let _requests = [slow.request(), quick.request()];
        quick.slot().body(false);
        slow.slot().body(false);
        quick.slot().body(true);
        let mut third = std::pin::pin!(connections.enter());
        assert!(third.as_mut().now_or_never().is_none(), "the body may be there in a moment");
        let start = Instant::now();
        let third = tokio::time::timeout(Duration::from_secs(30), third).await.unwrap();
        assert!(start.elapsed() >= BODY_MOMENT / 2);
        assert!(slow.slot().closed().now_or_never().is_some());
        assert!(quick.slot().closed().now_or_never().is_none(), "its request is complete");
        drop(third);
        let busy = connections.enter().await;
        let _third = busy.request();
        let mut fourth = std::pin::pin!(connections.enter());
        let waits = tokio::time::timeout(BODY_MOMENT * 2, fourth.as_mut()).await;
        assert!(waits.is_err(), "all requests are complete");
    }

    #[tokio::test]
    async fn a_handshake_and_the_end_of_an_answer_have_a_moment() {
        let connections = Connections::new(2, 0);
        let [shakes, answers] = [connections.enter().await, connections.enter().await];
        shakes.securing();
        drop(answers.request());
        let mut third = std::pin::pin!(connections.enter());
        assert!(third.as_mut().now_or_never().is_none(), "both may go on in a moment");
        connections.close_waiting();
        assert!([&shakes, &answers].iter().all(|place| place.slot().closed().now_or_never().is_none()));
        shakes.securing();
        shakes.read_all();
        let _busy = shakes.request();
        let _third = tokio::time::timeout(Duration::from_secs(30), third).await.unwrap();
        assert!(answers.slot().closed().now_or_never().is_some(), "it has had its moment");
        assert!(shakes.slot().closed().now_or_never().is_none());
    }

    #[tokio::test]
    async fn an_end_lets_the_next_one_in() {
        let connections = Connections::new(1, 0);
        let first = connections.enter().await;
        let busy = first.request();
        let mut next = std::pin::pin!(connections.enter());
        assert!(next.as_mut().now_or_never().is_none());
        drop((busy, first));
        next.await;
    }

    #[tokio::test]
    async fn connections_without_a_request_are_closed_together() {
        let connections = Connections::new(3, 0);
        let places = [connections.enter().await, connections.enter().await];
        let _busy = places[0].request();
        connections.close_waiting();
        assert!(places[1].slot().closed().now_or_never().is_none(), "its request may be there");
        places.iter().for_each(Place::read_all);
        connections.close_waiting();
        assert!(places[1].slot().closed().now_or_never().is_some());
        assert!(places[0].slot().closed().now_or_never().is_none());
    }

    #[tokio::test]
    async fn the_longest_head_gives_way_to_others() {
        let connections = Connections::new(9, 100);
        let [long, short, new] =
            [connections.enter().await, connections.enter().await, connections.enter().await];
        long.arrived(60);
        short.arrived(40);
        assert!(long.slot().closed().now_or_never().is_none(), "all of them may have 100 bytes");
        new.arrived(1);
        assert!(long.slot().closed().now_or_never().is_some());
        assert_eq!(connections.head_bytes.load(Ordering::Relaxed), 41);
        long.arrived(60);
        assert_eq!(connections.head_bytes.load(Ordering::Relaxed), 41, "it is closed");
        let request = short.request();
        short.arrived(1000);
        assert_eq!(connections.head_bytes.load(Ordering::Relaxed), 1, "a body is no head");
        drop(request);
        short.arrived(99);
        new.arrived(1);
        assert!(short.slot().closed().now_or_never().is_some(), "and the next head is one");
        drop((long, short, new));
        assert_eq!(connections.head_bytes.load(Ordering::Relaxed), 0);
    }
}
