//! Clients: HTTP/2 connections with several calls in flight on each.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use bytes::{BufMut as _, Bytes, BytesMut};
use h2::client::SendRequest;
use hdrhistogram::Histogram;
use http::{HeaderMap, Method, Request};
use tokio::net::TcpStream;

use super::quotas::ID;

/// Largest recorded latency, in microseconds.
const LONGEST: u64 = 60_000_000;
/// Timeout of a call.
const PATIENCE: Duration = Duration::from_secs(120);

/// A call and its expected answer.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    /// Path of the method.
    pub(crate) path: &'static str,
    /// The framed message.
    pub(crate) framed: Bytes,
    /// Status code in the answer, for checks.
    pub(crate) code: Option<i32>,
    /// Kind of the answer.
    answer: Expected,
}

/// The kinds of answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    /// Of Mixer.
    Mixer,
    /// `envoy.service.auth.v3.CheckResponse`.
    Authorization,
    /// `envoy.service.ratelimit.v3.RateLimitResponse`, within the limit.
    WithinLimit,
    /// Of Mixer, with a quota of one.
    Quota,
}

impl Call {
    /// A Check with its expected status.
    pub(crate) fn check(body: &[u8], code: i32) -> Self {
        Self {
            path: "/istio.mixer.v1.Mixer/Check",
            framed: frame(body),
            code: Some(code),
            answer: Expected::Mixer,
        }
    }

    /// A Check with a quota of one, which is granted. Each call has a deduplication id of its own instead of [`ID`].
    pub(crate) fn quota(body: &[u8]) -> Self {
        Self { answer: Expected::Quota, ..Self::check(body, 0) }
    }

    /// The message of a call.
    fn message(&self) -> Bytes {
        if self.answer != Expected::Quota {
            return self.framed.clone();
        }
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let id = format!("{:016x}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let mut message = BytesMut::from(&*self.framed);
        let at = message.windows(ID.len()).position(|bytes| bytes == ID.as_bytes());
        if let Some(place) = at.and_then(|at| message.get_mut(at..at + ID.len())) {
            place.copy_from_slice(id.as_bytes());
        }
        message.freeze()
    }

    /// A Report.
    pub(crate) fn report(body: &[u8]) -> Self {
        Self {
            path: "/istio.mixer.v1.Mixer/Report",
            framed: frame(body),
            code: None,
            answer: Expected::Mixer,
        }
    }

    /// An ext_authz check with its expected status.
    pub(crate) fn envoy_check((body, code): &(Vec<u8>, i32)) -> Self {
        let path = "/envoy.service.auth.v3.Authorization/Check";
        Self { path, framed: frame(body), code: Some(*code), answer: Expected::Authorization }
    }

    /// A rate-limit call, expected to be within its limit.
    pub(crate) fn envoy_limit(body: &[u8]) -> Self {
        let path = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
        Self { path, framed: frame(body), code: Some(1), answer: Expected::WithinLimit }
    }

    /// A stream of access logs with one message.
    pub(crate) fn envoy_log(body: &[u8]) -> Self {
        let path = "/envoy.service.accesslog.v3.AccessLogService/StreamAccessLogs";
        Self { path, framed: frame(body), code: None, answer: Expected::Mixer }
    }
}

fn frame(body: &[u8]) -> Bytes {
    let mut framed = BytesMut::with_capacity(body.len() + 5);
    framed.put_u8(0);
    framed.put_u32(u32::try_from(body.len()).unwrap_or(u32::MAX));
    framed.put_slice(body);
    framed.freeze()
}

/// The decoded part of `istio.mixer.v1.CheckResponse`.
#[derive(Clone, PartialEq, prost::Message)]
struct CheckResponse {
    #[prost(message, tag = "2")]
    precondition: Option<Precondition>,
    #[prost(btree_map = "string, message", tag = "3")]
    quotas: BTreeMap<String, QuotaGrant>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct QuotaGrant {
    #[prost(int64, tag = "2")]
    amount: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Precondition {
    #[prost(message, tag = "1")]
    status: Option<Status>,
    #[prost(bytes = "vec", tag = "5")]
    references: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Status {
    #[prost(int32, tag = "1")]
    code: i32,
}

/// Connections to a server.
pub(crate) struct Client {
    connections: Vec<SendRequest<Bytes>>,
    address: SocketAddr,
}

/// The result of a load.
pub(crate) struct Seen {
    /// Calls answered.
    pub(crate) calls: u64,
    /// From the first call to the last answer.
    pub(crate) took: Duration,
    /// In microseconds.
    pub(crate) latencies: Histogram<u64>,
}

/// The load to send.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    /// Calls in flight on each connection.
    pub(crate) streams: usize,
    /// Duration.
    pub(crate) duration: Duration,
    /// Maximum number of calls.
    pub(crate) calls: usize,
    /// Calls per second; 0: closed loop.
    pub(crate) rate: f64,
}

impl Client {
    /// Connects. Must run inside a `LocalSet`.
    pub(crate) async fn connect(address: SocketAddr, connections: usize) -> Result<Self> {
        let mut client = Self { connections: Vec::new(), address };
        for _ in 0..connections.max(1) {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            let (sender, connection) = h2::client::handshake(stream).await?;
            tokio::task::spawn_local(async move {
                // Errors surface in its calls.
                let _ = connection.await;
            });
            client.connections.push(sender);
        }
        Ok(client)
    }

    /// Makes one call and verifies its answer.
    pub(crate) async fn verify(&self, call: &Call) -> Result<()> {
        let connection = self.connections.first().context("no connection")?.clone();
        let message = self.exchange(connection, call).await?;
        let Some(code) = call.code else {
            ensure!(message.is_empty(), "the answer to a report is not empty");
            return Ok(());
        };
        match call.answer {
            Expected::Mixer => {}
            Expected::Quota => {
                let response: CheckResponse = prost::Message::decode(message)?;
                let granted: Vec<i64> = response.quotas.values().map(|grant| grant.amount).collect();
                ensure!(granted == [1], "quotas of {granted:?} are granted");
                return Ok(());
            }
            Expected::Authorization => {
                use mixer_wire::envoy::service::auth::v3::CheckResponse;
                let response: CheckResponse = prost::Message::decode(message)?;
                let answered = response.status.context("an answer without status")?.code;
                ensure!(answered == code, "a check is answered with status {answered}, not {code}");
                return Ok(());
            }
            Expected::WithinLimit => {
                use mixer_wire::envoy::service::ratelimit::v3::RateLimitResponse;
                let response: RateLimitResponse = prost::Message::decode(message)?;
                ensure!(response.overall_code == code, "a limit is answered with {}", response.overall_code);
                // Some servers return no limits.
                if let Some(status) = response.statuses.first() {
                    ensure!(status.current_limit.is_some(), "no limit applies");
                }
                return Ok(());
            }
        }
        let response: CheckResponse = prost::Message::decode(message)?;
        let precondition = response.precondition.context("an answer without precondition")?;
        let answered = precondition.status.map_or(0, |s| s.code);
        ensure!(answered == code, "a check is answered with status {answered}, not {code}");
        ensure!(!precondition.references.is_empty(), "an answer refers to no attributes");
        Ok(())
    }

    /// Sends calls round-robin; each must be answered.
    pub(crate) async fn drive(&self, calls: &Rc<[Call]>, plan: Plan) -> Result<Seen> {
        let started = Instant::now();
        let slots = self.connections.len() * plan.streams.max(1);
        let mut running = Vec::new();
        for slot in 0..slots {
            let connection = self.connections.get(slot % self.connections.len()).context("no connection")?;
            let (connection, calls) = (connection.clone(), Rc::clone(calls));
            let this = Self { connections: Vec::new(), address: self.address };
            let pace = Pace { slot, slots, plan, started };
            running
                .push(tokio::task::spawn_local(async move { this.repeat(connection, &calls, pace).await }));
        }
        let mut latencies = histogram()?;
        for slot in running {
            latencies.add(slot.await??)?;
        }
        Ok(Seen { calls: latencies.len(), took: started.elapsed(), latencies })
    }

    async fn repeat(
        &self,
        connection: SendRequest<Bytes>,
        calls: &[Call],
        pace: Pace,
    ) -> Result<Histogram<u64>> {
        let mut latencies = histogram()?;
        for turn in 0.. {
            let Some(begun) = pace.wait_for(turn).await else { break };
            let number = turn * pace.slots + pace.slot;
            let call = calls.get(number % calls.len().max(1)).context("nothing to call")?;
            self.exchange(connection.clone(), call).await?;
            latencies.saturating_record(u64::try_from(begun.elapsed().as_micros()).unwrap_or(LONGEST));
        }
        Ok(latencies)
    }

    /// One call; returns the message of the answer.
    async fn exchange(&self, connection: SendRequest<Bytes>, call: &Call) -> Result<Bytes> {
        tokio::time::timeout(PATIENCE, self.unary(connection, call))
            .await
            .context("a call is not answered")?
    }

    async fn unary(&self, connection: SendRequest<Bytes>, call: &Call) -> Result<Bytes> {
        let mut connection = connection.ready().await?;
        let request = Request::builder()
            .method(Method::POST)
            .uri(format!("http://{}{}", self.address, call.path))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(())?;
        let (response, mut body) = connection.send_request(request, false)?;
        body.send_data(call.message(), true)?;
        let response = response.await?;
        ensure!(response.status() == 200, "HTTP status {}", response.status());
        let (head, mut body) = response.into_parts();
        let mut message = BytesMut::new();
        while let Some(data) = body.data().await {
            let data = data?;
            body.flow_control().release_capacity(data.len())?;
            message.put(data);
        }
        let trailers = body.trailers().await?;
        succeeded(trailers.as_ref().unwrap_or(&head.headers))?;
        ensure!(message.len() >= 5, "an answer without message");
        Ok(message.split_off(5).freeze())
    }
}

/// A histogram of latencies.
pub(super) fn histogram() -> Result<Histogram<u64>> {
    Ok(Histogram::new_with_bounds(1, LONGEST, 3)?)
}

fn succeeded(headers: &HeaderMap) -> Result<()> {
    match headers.get("grpc-status") {
        Some(status) if status == "0" => Ok(()),
        status => bail!("grpc-status {status:?}, {:?}", headers.get("grpc-message")),
    }
}

/// The schedule of one of several clients.
struct Pace {
    slot: usize,
    slots: usize,
    plan: Plan,
    started: Instant,
}

impl Pace {
    /// Waits for a turn; returns the start of its latency, `None` after the last call.
    ///
    /// At a fixed rate, the latency of a call that is delayed by earlier answers starts at its scheduled time.
    async fn wait_for(&self, turn: usize) -> Option<Instant> {
        let number = turn * self.slots + self.slot;
        if number >= self.plan.calls {
            return None;
        }
        let now = Instant::now();
        if self.plan.rate <= 0.0 {
            return (now.duration_since(self.started) < self.plan.duration).then_some(now);
        }
        let after = Duration::from_secs_f64(number as f64 / self.plan.rate);
        if after >= self.plan.duration {
            return None;
        }
        let intended = self.started + after;
        if intended <= now {
            return Some(intended);
        }
        tokio::time::sleep_until(intended.into()).await;
        // Timers are up to a millisecond late, which is not latency of the server.
        Some(Instant::now())
    }
}
