//! The methods that Envoy calls, on a worker.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::{HeaderMap, Method, Response};
use tokio_util::sync::CancellationToken;

use crate::core::api::ApiBody;
use crate::core::api::envoy::{BridgeService, BridgeShared};
use crate::core::api::grpc::{self, Code, GrpcError, Messages};
use crate::core::http2::{RequestBody, RequestHead};
use crate::core::telemetry::metrics::{Metrics, RpcCounters};

/// Bytes of prefix before a gRPC message.
const FRAMING: usize = 5;
/// Largest message of access logs: the first of a stream lists everything that the proxy was built with.
const MAX_LOG_MESSAGE: usize = 8 << 20;

/// A method of Envoy's services.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum EnvoyMethod {
    Check,
    ShouldRateLimit,
    StreamAccessLogs,
}

impl EnvoyMethod {
    /// The method of a path.
    pub(super) fn of(path: &str) -> Option<Self> {
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
pub(super) struct EnvoyParts {
    pub(super) shared: Arc<BridgeShared>,
    /// Cancelled when calls are to end: streams of access logs never end by themselves.
    pub(super) ending: CancellationToken,
}

/// The methods of Envoy on one worker.
pub(super) struct EnvoyCalls {
    bridge: BridgeService,
    ending: CancellationToken,
    max_message: usize,
    check: Arc<RpcCounters>,
    limit: Arc<RpcCounters>,
    logs: Arc<RpcCounters>,
}

impl EnvoyCalls {
    pub(super) fn new(parts: EnvoyParts, metrics: &Metrics, max_message: usize) -> Self {
        Self {
            bridge: BridgeService::new(parts.shared),
            ending: parts.ending,
            max_message,
            check: metrics.rpc("envoy.service.auth.v3.Authorization/Check"),
            limit: metrics.rpc("envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"),
            logs: metrics.rpc("envoy.service.accesslog.v3.AccessLogService/StreamAccessLogs"),
        }
    }

    /// Answers a call.
    pub(super) async fn call(
        &self,
        method: EnvoyMethod,
        head: &RequestHead,
        body: RequestBody,
    ) -> Response<ApiBody> {
        let started = Instant::now();
        if head.method() != Method::POST {
            return grpc::refuse(&GrpcError::new(Code::Unimplemented, "gRPC calls are POST requests"));
        }
        let mut received = 0;
        let (answer, counters) = match method {
            EnvoyMethod::StreamAccessLogs => (self.logs(body, &mut received).await, &self.logs),
            EnvoyMethod::Check => {
                (self.unary(method, (head, body), started, &mut received).await, &self.check)
            }
            EnvoyMethod::ShouldRateLimit => {
                (self.unary(method, (head, body), started, &mut received).await, &self.limit)
            }
        };
        let (code, sent) = match &answer {
            Ok(framed) => (Code::Ok, framed.len().saturating_sub(FRAMING)),
            Err(error) => (error.code, 0),
        };
        counters.record(code as i32, started.elapsed(), received, sent);
        match answer {
            Ok(framed) => grpc::answer(framed),
            Err(error) => grpc::refuse(&error),
        }
    }

    async fn unary(
        &self,
        method: EnvoyMethod,
        (head, body): (&RequestHead, RequestBody),
        started: Instant,
        received: &mut usize,
    ) -> Result<Bytes, GrpcError> {
        let deadline = grpc::timeout(head.headers()).and_then(|timeout| started.checked_add(timeout));
        let body = grpc::read_message(body, self.max_message).await?;
        *received = body.len();
        match method {
            EnvoyMethod::ShouldRateLimit => self.bridge.should_rate_limit(body, deadline).await,
            _ => self.bridge.check(body, &attribute_metadata(head.headers()), deadline).await,
        }
    }

    /// Takes messages in until the caller ends the call or the server stops.
    async fn logs(&self, body: RequestBody, received: &mut usize) -> Result<Bytes, GrpcError> {
        let mut messages = Messages::new(body, self.max_message.max(MAX_LOG_MESSAGE));
        let mut stream = self.bridge.open_log();
        loop {
            let message = tokio::select! {
                biased;
                message = messages.next() => message?,
                () = self.ending.cancelled() => None,
            };
            let Some(message) = message else { break };
            *received = received.saturating_add(message.len());
            // The next message is read when the handlers have taken this one.
            stream.report(message).await?;
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
