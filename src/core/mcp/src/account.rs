//! What the peers of a port make this process keep: bytes of each connection and of all, and which connection gives way.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// A connection without streams, beside its window: socket, task, buffers of TLS and HTTP/2.
const CONNECTION: usize = 32 << 10;
/// A stream without messages: its task, its state in HTTP/2, the record of the sink. Measured: 5 KiB.
const STREAM: usize = 8 << 10;
/// An entry of the versions that a sink has.
const VERSION: usize = 160;

/// How long a connection that asked for nothing yet counts as one that did.
const MOMENT: Duration = Duration::from_secs(5);

/// The account of a port: a budget in bytes that its connections share.
///
/// Beyond it, the connection that takes most is closed. Of those that take what one stream takes, the ones give way that never asked for
/// anything, then those that never answered, the oldest first; then the newest.
#[derive(Debug)]
pub(crate) struct Account {
    budget: usize,
    /// Bytes a connection costs before it has a stream.
    connection: usize,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    total: usize,
    next: u64,
    connections: HashMap<u64, Row>,
}

#[derive(Debug)]
struct Row {
    bytes: usize,
    streams: usize,
    stage: Stage,
    /// When it was accepted, or lost its last stream.
    since: Instant,
    evicted: CancellationToken,
}

/// How far the peer of a connection has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Opened,
    Subscribed,
    Answered,
}

impl Account {
    /// Without connections. `window` is what a peer may send on a connection before it is read.
    pub(crate) fn new(budget: usize, window: usize) -> Arc<Self> {
        Arc::new(Self { budget, connection: CONNECTION + window, table: Mutex::default() })
    }

    /// The charge of a new connection, until it is dropped.
    pub(crate) fn open(self: &Arc<Self>) -> Arc<ConnectionCharge> {
        let evicted = CancellationToken::new();
        let mut table = self.table.lock();
        let id = table.next;
        table.next += 1;
        let row = Row {
            bytes: 0,
            streams: 0,
            stage: Stage::Opened,
            since: Instant::now(),
            evicted: evicted.clone(),
        };
        table.connections.insert(id, row);
        self.add(&mut table, id, self.connection);
        drop(table);
        Arc::new(ConnectionCharge { account: Arc::clone(self), id, evicted })
    }

    fn add(&self, table: &mut Table, id: u64, bytes: usize) {
        let Some(row) = table.connections.get_mut(&id) else { return };
        row.bytes += bytes;
        table.total += bytes;
        while table.total > self.budget {
            let normal = self.connection + STREAM;
            let worst = table.connections.iter().max_by_key(|(id, row)| {
                // The higher number is the newer connection.
                let age = if row.stage == Stage::Answered { **id } else { u64::MAX - **id };
                let is_new = row.stage == Stage::Opened && row.since.elapsed() < MOMENT;
                let stage = if is_new { Stage::Subscribed } else { row.stage };
                (row.bytes.max(normal), std::cmp::Reverse(stage), age)
            });
            let Some(id) = worst.map(|(id, _)| *id) else { return };
            let Some(row) = table.connections.remove(&id) else { return };
            table.total -= row.bytes;
            row.evicted.cancel();
            let budget = self.budget;
            mixer_base::warn_limited!(
                1,
                "peers make this process keep more than {budget} bytes: the connection that takes most, {} bytes, is closed",
                row.bytes
            );
        }
    }

    #[cfg(test)]
    fn total(&self) -> usize {
        self.table.lock().total
    }
}

/// What a connection takes.
#[derive(Debug)]
pub(crate) struct ConnectionCharge {
    account: Arc<Account>,
    id: u64,
    evicted: CancellationToken,
}

impl ConnectionCharge {
    /// Completes when the connection must be closed: it takes too much, or had no stream for `idle`.
    pub(crate) async fn ended(&self, idle: Duration) {
        loop {
            let since = {
                let table = self.account.table.lock();
                table.connections.get(&self.id).map(|row| (row.streams, row.since))
            };
            let due = match since {
                Some((0, since)) if since.elapsed() >= idle => return,
                Some((0, since)) => since + idle,
                _ => Instant::now() + idle,
            };
            tokio::select! {
                () = self.evicted.cancelled() => return,
                () = tokio::time::sleep_until(due) => {}
            }
        }
    }

    /// The charge of a new stream, until the last clone is dropped.
    pub(crate) fn stream(self: &Arc<Self>) -> StreamCharge {
        {
            let mut table = self.account.table.lock();
            if let Some(row) = table.connections.get_mut(&self.id) {
                row.streams += 1;
            }
            self.account.add(&mut table, self.id, STREAM);
        }
        let charged = Charged { connection: Arc::clone(self), bytes: AtomicUsize::new(STREAM) };
        StreamCharge(Some(Arc::new(charged)))
    }

    fn reach(&self, stage: Stage) {
        if let Some(row) = self.account.table.lock().connections.get_mut(&self.id) {
            row.stage = row.stage.max(stage);
        }
    }
}

impl Drop for ConnectionCharge {
    fn drop(&mut self) {
        let mut table = self.account.table.lock();
        if let Some(row) = table.connections.remove(&self.id) {
            table.total -= row.bytes;
        }
    }
}

/// What a stream takes. The default is that of a stream which nobody charges.
#[derive(Debug, Clone, Default)]
pub(crate) struct StreamCharge(Option<Arc<Charged>>);

#[derive(Debug)]
struct Charged {
    connection: Arc<ConnectionCharge>,
    bytes: AtomicUsize,
}

impl StreamCharge {
    /// Bytes that are kept until they are [given back](Self::give_back), or until the stream ends.
    pub(crate) fn keep(&self, bytes: usize) {
        let Some(charged) = &self.0 else { return };
        charged.bytes.fetch_add(bytes, Ordering::Relaxed);
        let account = &charged.connection.account;
        account.add(&mut account.table.lock(), charged.connection.id, bytes);
    }

    /// Versions of resources that a sink has, and which are kept for it.
    pub(crate) fn keep_versions(&self, count: usize, request: usize) {
        if count > 0 {
            self.keep(request.saturating_add(count.saturating_mul(VERSION)));
        }
    }

    /// Bytes that were [kept](Self::keep) are so no longer.
    pub(crate) fn give_back(&self, bytes: usize) {
        let Some(charged) = &self.0 else { return };
        charged.bytes.fetch_sub(bytes, Ordering::Relaxed);
        charged.connection.release(bytes);
    }

    /// The peer has asked for something.
    pub(crate) fn subscribed(&self) {
        if let Some(charged) = &self.0 {
            charged.connection.reach(Stage::Subscribed);
        }
    }

    /// The peer has answered a message.
    pub(crate) fn answered(&self) {
        if let Some(charged) = &self.0 {
            charged.connection.reach(Stage::Answered);
        }
    }
}

impl ConnectionCharge {
    fn release(&self, bytes: usize) {
        let mut table = self.account.table.lock();
        // What was evicted is charged no longer.
        if let Some(row) = table.connections.get_mut(&self.id) {
            row.bytes -= bytes;
            table.total -= bytes;
        }
    }
}

impl Drop for Charged {
    fn drop(&mut self) {
        let connection = &self.connection;
        if let Some(row) = connection.account.table.lock().connections.get_mut(&connection.id) {
            row.streams -= 1;
            row.since = Instant::now();
        }
        connection.release(self.bytes.load(Ordering::Relaxed));
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    const WINDOW: usize = 64 << 10;
    const ONE: usize = CONNECTION + WINDOW + STREAM;
    const IDLE: Duration = Duration::from_secs(60);

    fn is_closed(connection: &ConnectionCharge) -> bool {
        connection.evicted.is_cancelled()
    }

    #[tokio::test]
    async fn what_takes_most_gives_way_and_the_sum_is_what_is_open() {
        let account = Account::new(4 * ONE, WINDOW);
        let [good, greedy] = [account.open(), account.open()];
        let stream = good.stream();
        stream.subscribed();
        let streams: Vec<StreamCharge> = (0..9).map(|_| greedy.stream()).collect();
        streams[0].answered();
        streams[3].keep(ONE);
        assert_eq!(account.total(), 3 * ONE + 8 * STREAM);
        streams[3].give_back(STREAM);
        assert!(!is_closed(&greedy));
        streams[4].keep(ONE);
        assert!(is_closed(&greedy) && !is_closed(&good));
        assert_eq!(account.total(), ONE, "it is charged no longer");
        streams[4].keep(9 * ONE);
        streams[4].give_back(ONE);
        drop((streams, greedy));
        assert_eq!(account.total(), ONE);
        drop(stream);
        assert_eq!(account.total(), ONE - STREAM);
        drop(good);
        assert_eq!(account.total(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn of_equals_those_give_way_that_neither_asked_nor_answered() {
        let account = Account::new(4 * ONE, WINDOW);
        let open = |far: u8| {
            let connection = account.open();
            let stream = connection.stream();
            if far > 0 {
                stream.subscribed();
            }
            if far > 1 {
                stream.answered();
            }
            (connection, stream)
        };
        let (answered, silent, subscribed) = (open(2), open(0), open(1));
        let bare = account.open();
        tokio::time::advance(MOMENT).await;
        let _newer = open(2);
        assert!(is_closed(&silent.0), "it was there before the one without a stream");
        let _newest = open(2);
        assert!(is_closed(&bare) && !is_closed(&subscribed.0));
        let _another = open(2);
        assert!(is_closed(&subscribed.0) && !is_closed(&answered.0));
        let last = open(1);
        assert!(is_closed(&last.0) && !is_closed(&answered.0), "all others have answered");
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_without_a_stream_ends() {
        let account = Account::new(9 * ONE, WINDOW);
        let connection = account.open();
        let stream = connection.stream();
        let mut ended = std::pin::pin!(connection.ended(IDLE));
        tokio::select! {
            () = ended.as_mut() => panic!("it has a stream"),
            () = tokio::time::sleep(IDLE * 10) => {}
        }
        drop(stream);
        let start = Instant::now();
        ended.await;
        assert!(start.elapsed() >= IDLE && start.elapsed() <= IDLE * 2);
        assert!(account.open().ended(IDLE).now_or_never().is_none());
    }
}
