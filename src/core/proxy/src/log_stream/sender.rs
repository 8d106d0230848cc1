//! The sender of a log on one worker.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mixer_base::task::Group;
use mixer_net::http::Backoff;
use mixer_wire::envoy::config::core::v3::Node;
use mixer_wire::envoy::service::accesslog::v3::stream_access_logs_message::Identifier;
use prost::Message as _;
use prost::encoding::{WireType, decode_varint, encode_key, encode_varint};
use tokio::sync::Notify;
use tokio::time::Instant;
use tonic::Status;

use super::{LogStream, entry};
use crate::grpc::{Channels, Method, Outgoing};
use crate::node::NodeIdentity;
use crate::stats::LogStreamStat;

const STREAM_ACCESS_LOGS: &str = "/envoy.service.accesslog.v3.AccessLogService/StreamAccessLogs";
/// Bytes of entries that wait and are being sent, besides those of the buffer that is configured; those beyond them are lost.
const MAX_WAITING: usize = 1 << 20;
/// Bytes of entries in a message, of those that one of gRPC has as most servers take it.
const MAX_MESSAGE: usize = 3 << 20;
/// How often a message is sent: one that ends each call is lost.
const MAX_ATTEMPTS: u32 = 5;
/// How long the entries of a log that no listener has any more are tried to be sent.
const CLOSING: Duration = Duration::from_secs(30);
/// A call that ends within this time counts as a failed one: the next one waits.
const MIN_CALL: Duration = Duration::from_secs(5);

/// Entries of a log, and the task that sends them.
#[derive(Debug)]
pub(super) struct Sender {
    log: Arc<LogStream>,
    /// Encoded: the first message of a call begins with it.
    identifier: Vec<u8>,
    waiting: RefCell<Waiting>,
    /// Entries that are being sent.
    in_flight: RefCell<Bytes>,
    changed: Notify,
    /// Since when no entry comes any more, and who waits for that.
    closed: Cell<Option<Instant>>,
    closing: Notify,
    has_ended: Cell<bool>,
}

/// Entries that wait, as fields of their message.
#[derive(Debug, Default)]
struct Waiting {
    entries: Vec<u8>,
    /// When the first of them is to be sent.
    due: Option<Instant>,
}

impl Sender {
    pub(super) fn start(log: Arc<LogStream>, node: &NodeIdentity, channels: Rc<Channels>) -> Rc<Self> {
        let node = Node {
            id: node.id.clone(),
            cluster: node.cluster.clone(),
            metadata: entry::structure(&node.metadata),
            user_agent_name: "mixer".to_owned(),
            ..Node::default()
        };
        let identifier = Identifier { node: Some(node), log_name: log.config.name.clone() };
        let sender = Rc::new(Self {
            log,
            identifier: identifier.encode_to_vec(),
            waiting: RefCell::default(),
            in_flight: RefCell::default(),
            changed: Notify::new(),
            closed: Cell::new(None),
            closing: Notify::new(),
            has_ended: Cell::new(false),
        });
        let running = Rc::clone(&sender);
        // A panic ends the task only: entries that come then are lost, and counted.
        drop(Group::new("proxy access log stream").spawn_local(async move {
            let ended = Ended(&running);
            tokio::select! {
                () = running.run(&channels) => {}
                () = running.until_late() => {}
            }
            drop(ended);
        }));
        sender
    }

    pub(super) fn is_of(&self, log: &Arc<LogStream>) -> bool {
        Arc::ptr_eq(&self.log, log)
    }

    /// Whether nothing will be added: the listener is gone.
    pub(super) fn is_abandoned(&self) -> bool {
        Arc::strong_count(&self.log) == 1
    }

    /// Adds an encoded entry; it is lost if too many wait.
    pub(super) fn add(&self, entry: &[u8]) {
        // More than a full buffer: one that is nearly full gets the entry that fills it.
        let most = MAX_WAITING + self.log.config.buffer;
        let mut waiting = self.waiting.borrow_mut();
        let held = waiting.entries.len() + self.in_flight.borrow().len();
        if self.has_ended.get() || held + entry.len() > most {
            self.log.stats.increment(LogStreamStat::LogsDropped);
            return;
        }
        self.log.stats.increment(LogStreamStat::LogsWritten);
        put_field(1, entry, &mut waiting.entries);
        if waiting.due.is_none() {
            waiting.due = Some(Instant::now() + self.log.config.interval);
        }
        let is_full = waiting.entries.len() >= self.log.config.buffer;
        drop(waiting);
        if is_full || held == 0 {
            self.changed.notify_one();
        }
    }

    /// Sends what waits, and ends.
    pub(super) fn close(&self) {
        self.closed.set(self.closed.get().or_else(|| Some(Instant::now())));
        self.closing.notify_one();
        self.changed.notify_one();
    }

    pub(super) fn has_ended(&self) -> bool {
        self.has_ended.get()
    }

    /// Waits until entries are too late for a log that is closed.
    async fn until_late(&self) {
        loop {
            match self.closed.get() {
                Some(closed) => return tokio::time::sleep_until(closed + CLOSING).await,
                None => self.closing.notified().await,
            }
        }
    }

    async fn run(&self, channels: &Channels) {
        let mut call: Option<Outgoing> = None;
        let mut begun = Instant::now();
        let mut backoff = Backoff::default();
        // Calls that were open and ended with the first message that waits.
        let mut refusals = 0;
        while self.until_due(&mut call).await {
            let entries = Bytes::from(self.waiting.borrow_mut().take_message());
            self.in_flight.replace(entries.clone());
            let is_sent = self.send(&entries, &mut call, &mut begun, channels).await;
            self.in_flight.take();
            match is_sent {
                Ok(()) => {
                    refusals = 0;
                    if begun.elapsed() >= MIN_CALL {
                        backoff = Backoff::default();
                    }
                }
                Err(Unsent { status, was_open }) => {
                    let log = self.log.config.name.as_str();
                    refusals += u32::from(was_open);
                    if refusals >= MAX_ATTEMPTS {
                        refusals = 0;
                        let count = self.drop_all(&entries);
                        mixer_base::warn_limited!(
                            1,
                            log,
                            count,
                            "access log entries are lost: the server ends each call with them"
                        );
                    } else {
                        mixer_base::warn_limited!(1, log, %status, "access log entries wait: they cannot be sent");
                        self.put_back(entries);
                    }
                    backoff.pause().await;
                }
            }
        }
        if let Some(call) = call {
            call.finish().await;
        }
    }

    /// Sends entries in the call, or in a new one.
    async fn send(
        &self,
        entries: &[u8],
        call: &mut Option<Outgoing>,
        begun: &mut Instant,
        channels: &Channels,
    ) -> Result<(), Unsent> {
        let is_first = call.is_none();
        let current = match call {
            Some(call) => call,
            None => {
                let authority = self.log.config.service.authority.as_str();
                let path = STREAM_ACCESS_LOGS;
                let method = Method { path, authority, timeout: None, header: None, once: true };
                let opened = channels.open(self.log.cluster, &method).await;
                let opened = opened.map_err(|status| Unsent { status, was_open: false })?;
                *begun = Instant::now();
                call.insert(opened)
            }
        };
        let mut message = Vec::with_capacity(entries.len() + self.identifier.len() + 16);
        if is_first {
            put_field(1, &self.identifier, &mut message);
        }
        put_field(if self.log.config.is_http { 2 } else { 3 }, entries, &mut message);
        let unsent = |status| Unsent { status, was_open: true };
        let message: Bytes = mixer_remote::grpc_message(&message).map_err(unsent)?;
        if current.send(message).await.is_err() {
            *call = None;
            return Err(unsent(Status::unavailable("the server has ended the call")));
        }
        Ok(())
    }

    /// Counts entries that are lost. Returns how many.
    fn drop_all(&self, entries: &[u8]) -> usize {
        let count = fields(entries).count();
        self.log.stats.add(LogStreamStat::LogsDropped, u64::try_from(count).unwrap_or(0));
        count
    }

    /// Entries that were not sent come first. They fit: what was in flight counted.
    fn put_back(&self, entries: Bytes) {
        let mut waiting = self.waiting.borrow_mut();
        let mut entries = Vec::from(entries);
        entries.append(&mut waiting.entries);
        *waiting = Waiting { entries, due: Some(Instant::now()) };
    }

    /// Waits until entries are to be sent. Returns false at the end.
    async fn until_due(&self, call: &mut Option<Outgoing>) -> bool {
        loop {
            let due = {
                let waiting = self.waiting.borrow();
                let is_full = waiting.entries.len() >= self.log.config.buffer.max(1);
                match waiting.due {
                    None if self.closed.get().is_some() => return false,
                    Some(due) if is_full || self.closed.get().is_some() || due <= Instant::now() => {
                        return true;
                    }
                    due => due,
                }
            };
            let pause = async {
                match due {
                    Some(due) => tokio::time::sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            let ended = async {
                match call.as_mut() {
                    Some(call) => call.ended().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.changed.notified() => {}
                () = pause => {}
                () = ended => *call = None,
            }
        }
    }
}

/// Entries that were not handed over.
struct Unsent {
    status: Status,
    /// Whether there was a call.
    was_open: bool,
}

impl Waiting {
    /// Takes entries for one message. Others stay due.
    fn take_message(&mut self) -> Vec<u8> {
        let end = fields(&self.entries).take_while(|end| *end <= MAX_MESSAGE).last();
        let rest = match end {
            Some(end) if end < self.entries.len() => self.entries.split_off(end),
            _ => Vec::new(),
        };
        self.due = self.due.filter(|_| !rest.is_empty());
        std::mem::replace(&mut self.entries, rest)
    }
}

/// The ends of the fields that [`put_field`] has written.
fn fields(mut bytes: &[u8]) -> impl Iterator<Item = usize> {
    let mut end = 0;
    std::iter::from_fn(move || {
        let before = bytes.len();
        bytes = bytes.get(1..)?;
        let length = decode_varint(&mut bytes).ok().and_then(|length| usize::try_from(length).ok())?;
        bytes = bytes.get(length..)?;
        end += before - bytes.len();
        Some(end)
    })
}

/// Says that the task has ended, however it does; what was not sent is lost.
struct Ended<'s>(&'s Sender);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.has_ended.set(true);
        let entries = self.0.waiting.take().entries;
        self.0.drop_all(&entries);
        let entries = self.0.in_flight.take();
        self.0.drop_all(&entries);
    }
}

/// Appends a length-delimited field.
fn put_field(number: u32, value: &[u8], out: &mut Vec<u8>) {
    encode_key(number, WireType::LengthDelimited, out);
    encode_varint(u64::try_from(value.len()).unwrap_or(0), out);
    out.extend_from_slice(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_end_with_an_entry_and_are_bounded() {
        let mut waiting = Waiting { entries: Vec::new(), due: Some(Instant::now()) };
        for size in [1, MAX_MESSAGE / 2, MAX_MESSAGE / 3, MAX_MESSAGE / 2, 0, 7] {
            put_field(1, &vec![b'a'; size], &mut waiting.entries);
        }
        let counts: Vec<usize> = std::iter::from_fn(|| {
            waiting.due?;
            let message = waiting.take_message();
            assert!(message.len() <= MAX_MESSAGE);
            Some(fields(&message).count())
        })
        .collect();
        assert_eq!((counts, waiting.entries.len()), (vec![3, 3], 0));
    }
}
