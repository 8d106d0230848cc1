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
use prost::encoding::{WireType, encode_key, encode_varint};
use tokio::sync::Notify;
use tokio::time::Instant;
use tonic::Status;

use super::{LogStream, entry};
use crate::grpc::{Channels, Method, Outgoing};
use crate::node::NodeIdentity;
use crate::stats::LogStreamStat;

const STREAM_ACCESS_LOGS: &str = "/envoy.service.accesslog.v3.AccessLogService/StreamAccessLogs";
/// Bytes of entries that wait and are being sent; those beyond them are lost. A larger buffer may be configured.
const MAX_WAITING: usize = 1 << 20;
/// A call that ends within this time counts as a failed one: the next one waits.
const MIN_CALL: Duration = Duration::from_secs(5);

/// Entries of a log, and the task that sends them.
#[derive(Debug)]
pub(super) struct Sender {
    log: Arc<LogStream>,
    /// Encoded: the first message of a call begins with it.
    identifier: Vec<u8>,
    waiting: RefCell<Waiting>,
    /// Bytes that are being sent.
    in_flight: Cell<usize>,
    changed: Notify,
    is_closing: Cell<bool>,
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
            in_flight: Cell::new(0),
            changed: Notify::new(),
            is_closing: Cell::new(false),
            has_ended: Cell::new(false),
        });
        let running = Rc::clone(&sender);
        // A panic ends the task only: entries that come then are lost, and counted.
        drop(Group::new("proxy access log stream").spawn_local(async move {
            let ended = Ended(&running);
            running.run(&channels).await;
            drop(ended);
        }));
        sender
    }

    pub(super) fn is_of(&self, log: &Arc<LogStream>) -> bool {
        Arc::ptr_eq(&self.log, log)
    }

    /// Adds an encoded entry; it is lost if too many wait.
    pub(super) fn add(&self, entry: &[u8]) {
        let most = MAX_WAITING.max(self.log.config.buffer);
        let mut waiting = self.waiting.borrow_mut();
        let held = waiting.entries.len() + self.in_flight.get();
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
        self.is_closing.set(true);
        self.changed.notify_one();
    }

    pub(super) fn has_ended(&self) -> bool {
        self.has_ended.get()
    }

    async fn run(&self, channels: &Channels) {
        let mut call: Option<Outgoing> = None;
        let mut begun = Instant::now();
        let mut backoff = Backoff::default();
        while self.until_due(&mut call).await {
            let entries = std::mem::take(&mut *self.waiting.borrow_mut()).entries;
            self.in_flight.set(entries.len());
            let is_sent = self.send(&entries, &mut call, &mut begun, channels).await;
            self.in_flight.set(0);
            match is_sent {
                Ok(()) if begun.elapsed() >= MIN_CALL => backoff = Backoff::default(),
                Ok(()) => {}
                Err(status) => {
                    let log = self.log.config.name.as_str();
                    mixer_base::warn_limited!(1, log, %status, "access log entries wait: they cannot be sent");
                    self.put_back(entries);
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
    ) -> Result<(), Status> {
        let is_first = call.is_none();
        let current = match call {
            Some(call) => call,
            None => {
                let authority = self.log.config.service.authority.as_str();
                let method = Method { path: STREAM_ACCESS_LOGS, authority, timeout: None, header: None };
                let opened = channels.open(self.log.cluster, &method).await?;
                *begun = Instant::now();
                call.insert(opened)
            }
        };
        let mut message = Vec::with_capacity(entries.len() + self.identifier.len() + 16);
        if is_first {
            put_field(1, &self.identifier, &mut message);
        }
        put_field(if self.log.config.is_http { 2 } else { 3 }, entries, &mut message);
        let message: Bytes = mixer_remote::grpc_message(&message)?;
        if current.send(message).await.is_err() {
            *call = None;
            return Err(Status::unavailable("the server has ended the call"));
        }
        Ok(())
    }

    /// Entries that were not sent come first. They fit: what was in flight counted.
    fn put_back(&self, mut entries: Vec<u8>) {
        let mut waiting = self.waiting.borrow_mut();
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
                    None if self.is_closing.get() => return false,
                    Some(due) if is_full || self.is_closing.get() || due <= Instant::now() => return true,
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

/// Says that the task has ended, however it does.
struct Ended<'s>(&'s Sender);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.has_ended.set(true);
    }
}

/// Appends a length-delimited field.
fn put_field(number: u32, value: &[u8], out: &mut Vec<u8>) {
    encode_key(number, WireType::LengthDelimited, out);
    encode_varint(u64::try_from(value.len()).unwrap_or(0), out);
    out.extend_from_slice(value);
}
