//! The network filter: one call of it is one connection.

use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use mixer_attribute::{OwnedAttributes, SignedDuration};
use tokio::time::Instant;

use super::client::{Client, ClientConfig, Clients, Outcome};
use super::node::Node;
use super::peer::Peer;
use super::{http, quotas, request};
use crate::bootstrap::{QuotaRule, TcpMixerConfig};
use crate::timer::Timer;
use crate::uuid;

/// The filter of a TCP proxy.
#[derive(Debug)]
pub(crate) struct TcpFilter {
    client: Arc<ClientConfig>,
    /// Of the node and of the filter.
    attributes: OwnedAttributes,
    checks: bool,
    reports: bool,
    quotas: Vec<QuotaRule>,
    interval: Duration,
    /// Begins the ids of connections.
    id: String,
    next: AtomicU64,
    /// Whether the bytes of a report are those since the report before it, of whatever kind.
    is_exact: bool,
}

/// Bytes so far: received from the client and sent to it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Bytes {
    pub(crate) received: u64,
    pub(crate) sent: u64,
}

/// How far a connection is.
enum State {
    /// Nothing was received yet.
    Silent,
    /// The check is under way.
    Checking(Pin<Box<dyn Future<Output = Outcome>>>),
    /// Bytes pass.
    Open,
    Refused,
}

/// A connection on its way through the filter.
pub(crate) struct TcpCall<'f> {
    filter: &'f TcpFilter,
    client: Rc<Client>,
    attributes: OwnedAttributes,
    state: State,
    began: Instant,
    /// What the last periodic report said.
    last: Bytes,
    /// Of the next periodic report.
    timer: Timer,
    due: Option<Instant>,
    local: SocketAddr,
}

impl Drop for TcpFilter {
    /// The clients of workers for this filter end with it.
    fn drop(&mut self) {
        self.client.retire();
    }
}

impl TcpFilter {
    pub(crate) fn new(
        config: &TcpMixerConfig,
        node: &Node,
        client: Arc<ClientConfig>,
        is_exact: bool,
    ) -> Self {
        let (mut attributes, _) = node.attributes(&config.attributes);
        for (name, value) in config.attributes.iter() {
            attributes.insert(name, value.clone());
        }
        Self {
            client,
            attributes,
            checks: config.checks,
            reports: config.reports,
            quotas: config.quotas.clone(),
            interval: config.report_interval,
            id: uuid::text(uuid::random()),
            next: AtomicU64::new(0),
            is_exact,
        }
    }

    /// Takes a connection.
    pub(crate) fn begin(&self, peer: &Peer, local: SocketAddr, clients: &Clients) -> TcpCall<'_> {
        let mut attributes = self.attributes.clone();
        attributes.insert("source.ip", request::address(peer.address));
        peer.extract(&mut attributes);
        attributes.insert("context.protocol", "tcp");
        attributes.insert("context.time", request::now());
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        attributes.insert("connection.id", format!("{}-{number}", self.id).as_str());
        TcpCall {
            filter: self,
            client: clients.of(&self.client),
            attributes,
            state: State::Silent,
            began: Instant::now(),
            last: Bytes::default(),
            timer: Timer::new(),
            due: None,
            local,
        }
    }
}

impl TcpCall<'_> {
    /// Whether bytes of the client may be read but not passed on: none has arrived yet, or the check is under way.
    pub(crate) fn holds(&self) -> bool {
        matches!(self.state, State::Silent | State::Checking(_))
    }

    /// Whether the check is under way: nothing more is read meanwhile.
    pub(crate) fn is_checking(&self) -> bool {
        matches!(self.state, State::Checking(_))
    }

    pub(crate) fn is_refused(&self) -> bool {
        matches!(self.state, State::Refused)
    }

    /// The client has ended its side without a byte. It is checked all the same: the host may have something to say to it.
    pub(crate) fn start_silently(&mut self, bytes: Bytes, upstream: Option<SocketAddr>) {
        if !self.filter.checks && matches!(self.state, State::Silent) {
            self.state = State::Open;
        }
        self.start(bytes, upstream);
    }

    /// Begins the check, with the first bytes.
    pub(crate) fn start(&mut self, bytes: Bytes, upstream: Option<SocketAddr>) {
        if !matches!(self.state, State::Silent) {
            return;
        }
        if !self.filter.checks {
            return self.open(bytes, upstream);
        }
        let client = Rc::clone(&self.client);
        let (attributes, quotas) =
            (self.attributes.clone(), quotas::required(&self.filter.quotas, &self.attributes));
        self.state = State::Checking(Box::pin(async move { client.check(&attributes, &quotas).await }));
    }

    /// Goes on with the check, and reports when it is time. Returns whether bytes have become free to pass, or the connection is refused.
    pub(crate) fn poll(&mut self, bytes: Bytes, upstream: Option<SocketAddr>, cx: &mut Context<'_>) -> bool {
        if let State::Checking(check) = &mut self.state {
            let Poll::Ready(outcome) = check.as_mut().poll(cx) else { return false };
            if outcome.code == 0 {
                self.open(bytes, upstream);
            } else {
                self.attributes.insert("check.error_code", i64::from(outcome.code));
                self.attributes.insert("check.error_message", http::refusal(&outcome).as_str());
                self.state = State::Refused;
            }
            // The timer has to be polled once more.
            cx.waker().wake_by_ref();
            return true;
        }
        if let Some(due) = self.due {
            self.timer.set(Some(due));
            if self.timer.poll(cx).is_ready() {
                self.report("continue", bytes, upstream);
                self.last = bytes;
                self.due = Some(Instant::now() + self.filter.interval);
                cx.waker().wake_by_ref();
            }
        }
        false
    }

    fn open(&mut self, bytes: Bytes, upstream: Option<SocketAddr>) {
        self.state = State::Open;
        if self.filter.reports {
            self.report("open", bytes, upstream);
            self.due = Some(Instant::now() + self.filter.interval);
        }
    }

    /// Reports the end of the connection.
    pub(crate) fn close(mut self, bytes: Bytes, upstream: Option<SocketAddr>) {
        if !self.filter.reports {
            return;
        }
        let nanos = i64::try_from(self.began.elapsed().as_nanos()).unwrap_or(i64::MAX);
        self.attributes.insert("connection.duration", SignedDuration { nanos });
        self.report("close", bytes, upstream);
    }

    /// Reports. The bytes are those since the last periodic report, as with Istio: the first of them repeats those of the opening, unless the
    /// deltas are to be exact.
    fn report(&mut self, event: &str, bytes: Bytes, upstream: Option<SocketAddr>) {
        let amount = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
        let attributes = &mut self.attributes;
        attributes.insert("connection.event", event);
        attributes.insert("context.time", request::now());
        let received = bytes.received.saturating_sub(self.last.received);
        attributes.insert("connection.received.bytes", amount(received));
        attributes.insert("connection.received.bytes_total", amount(bytes.received));
        let sent = bytes.sent.saturating_sub(self.last.sent);
        attributes.insert("connection.sent.bytes", amount(sent));
        attributes.insert("connection.sent.bytes_total", amount(bytes.sent));
        if self.filter.is_exact {
            self.last = bytes;
        }
        let destination = upstream.unwrap_or(self.local);
        let is_configured = |name| self.filter.attributes.get(name).is_some();
        if !is_configured("destination.ip") {
            attributes.insert("destination.ip", request::address(destination.ip()));
        }
        if !is_configured("destination.port") {
            attributes.insert("destination.port", i64::from(destination.port()));
        }
        self.client.report(attributes.clone());
    }
}
