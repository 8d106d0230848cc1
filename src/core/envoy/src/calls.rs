//! The methods that Envoy calls, on a worker.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::{HeaderMap, Method, Response};
use tokio_util::sync::CancellationToken;

use crate::{BridgeService, BridgeShared};
use mixer_api::Turns;
use mixer_api::grpc::{self, Code, GrpcError, Messages};
use mixer_api::load_shedding::LoadShedder;
use mixer_api::{ApiBody, CallInfo};
use mixer_base::metrics::{Metrics, RpcCounters};
use mixer_http2::{RequestBody, RequestHead};
use mixer_net::peer::Peer;

/// Largest message of access logs: the first of a stream lists everything that the proxy was built with.
const MAX_LOG_MESSAGE: usize = 8 << 20;

/// A method of Envoy's services.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum EnvoyMethod {
    Check,
    ShouldRateLimit,
    StreamAccessLogs,
}

impl EnvoyMethod {
    /// The method of a path.
    pub fn of(path: &str) -> Option<Self> {
        Some(match path {
            "/envoy.service.auth.v3.Authorization/Check" => Self::Check,
            "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit" => Self::ShouldRateLimit,
            "/envoy.service.accesslog.v3.AccessLogService/StreamAccessLogs" => Self::StreamAccessLogs,
            _ => return None,
        })
    }
}

/// What every worker needs for the methods of Envoy.
#[derive(Clone)]
pub struct EnvoyParts {
    pub shared: Arc<BridgeShared>,
    /// Cancelled when calls are to end: streams of access logs never end by themselves.
    pub ending: CancellationToken,
    /// For calls that must wait.
    pub turns: Turns,
    /// Wants to know how long calls take.
    pub shedder: Option<Arc<LoadShedder>>,
}

/// The methods of Envoy on one worker.
pub struct EnvoyCalls {
    bridge: BridgeService,
    ending: CancellationToken,
    turns: Turns,
    shedder: Option<Arc<LoadShedder>>,
    max_message: usize,
    check: Arc<RpcCounters>,
    limit: Arc<RpcCounters>,
    logs: Arc<RpcCounters>,
}

impl EnvoyCalls {
    pub fn new(parts: EnvoyParts, metrics: &Metrics, max_message: usize) -> Self {
        Self {
            bridge: BridgeService::new(parts.shared),
            ending: parts.ending,
            turns: parts.turns,
            shedder: parts.shedder,
            max_message,
            check: metrics.rpc("envoy.service.auth.v3.Authorization/Check"),
            limit: metrics.rpc("envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"),
            logs: metrics.rpc("envoy.service.accesslog.v3.AccessLogService/StreamAccessLogs"),
        }
    }

    /// Answers a call.
    pub async fn call(
        &self,
        method: EnvoyMethod,
        head: &RequestHead,
        body: RequestBody,
        peer: &Peer,
    ) -> Response<ApiBody> {
        let started = Instant::now();
        if head.method() != Method::POST {
            return grpc::refuse(&GrpcError::new(Code::Unimplemented, "gRPC calls are POST requests"));
        }
        let deadline = grpc::timeout(head.headers()).and_then(|timeout| started.checked_add(timeout));
        // Only those who shed load want to know.
        let caller = self.shedder.as_ref().map_or(0, |_| peer.key());
        let (principal, address) = (peer.principal(), Some(peer.address()));
        let call = CallInfo { deadline, principal, address, caller, headers: Some(head.headers()) };
        let mut received = 0;
        let (answer, counters) = match method {
            EnvoyMethod::StreamAccessLogs => (self.logs(body, call, &mut received).await, &self.logs),
            EnvoyMethod::Check => (self.unary(method, body, call, &mut received).await, &self.check),
            EnvoyMethod::ShouldRateLimit => {
                (self.unary(method, body, call, &mut received).await, &self.limit)
            }
        };
        let took = started.elapsed();
        let (code, sent) = match &answer {
            Ok(framed) => (Code::Ok, grpc::unframed(framed).len()),
            Err(error) => (error.code, 0),
        };
        counters.record(code as i32, took, received, sent);
        if method != EnvoyMethod::StreamAccessLogs {
            self.completed(took);
        }
        match answer {
            Ok(framed) => grpc::answer(framed),
            Err(error) => grpc::refuse(&error),
        }
    }

    fn completed(&self, took: std::time::Duration) {
        if let Some(shedder) = &self.shedder {
            shedder.completed(took);
        }
    }

    async fn unary(
        &self,
        method: EnvoyMethod,
        body: RequestBody,
        call: CallInfo<'_>,
        received: &mut usize,
    ) -> Result<Bytes, GrpcError> {
        let body = grpc::read_message(body, self.max_message).await?;
        *received = body.len();
        if method == EnvoyMethod::ShouldRateLimit {
            return self.turns.take(self.bridge.should_rate_limit(body, call), call.deadline).await;
        }
        let metadata = call.headers.map(attribute_metadata).unwrap_or_default();
        self.turns.take(self.bridge.check(body, &metadata, call), call.deadline).await
    }

    /// Takes messages in until the caller ends the call or the server stops.
    async fn logs(
        &self,
        body: RequestBody,
        call: CallInfo<'_>,
        received: &mut usize,
    ) -> Result<Bytes, GrpcError> {
        let mut messages = Messages::new(body, self.max_message.max(MAX_LOG_MESSAGE));
        let mut stream = self.bridge.open_log(call);
        loop {
            let message = tokio::select! {
                biased;
                message = messages.next() => message?,
                () = self.ending.cancelled() => None,
            };
            let Some(message) = message else { break };
            *received = received.saturating_add(message.len());
            let started = Instant::now();
            // The next message is read when the handlers have taken this one.
            self.turns.take(stream.report(message), None).await?;
            self.completed(started.elapsed());
        }
        let mut out = Vec::new();
        grpc::begin_message(&mut out);
        Ok(out.into())
    }
}

/// The metadata that becomes attributes: nearly always none.
fn attribute_metadata(headers: &HeaderMap) -> Vec<(&str, &[u8])> {
    headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_bytes()))
        .filter(|(name, _)| name.starts_with("x-mixer-attr.") || *name == "x-istio-attributes")
        .collect()
}
