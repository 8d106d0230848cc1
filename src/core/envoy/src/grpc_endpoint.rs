//! The gRPC methods that Envoy calls, on one worker.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::{HeaderMap, Method, Response};
use tokio_util::sync::CancellationToken;

use crate::service::{EnvoyService, EnvoyShared};
use mixer_api::grpc::{self, Code, GrpcError, Messages};
use mixer_api::load_shedding::LoadShedder;
use mixer_api::{ApiBody, CallInfo, CallPool};
use mixer_base::metrics::{Metrics, RpcCounters};
use mixer_http2::{RequestBody, RequestHead};
use mixer_net::peer::Peer;

/// Largest access log message: the first of a stream lists all extensions of the proxy.
const MAX_LOG_MESSAGE: usize = 8 << 20;

/// A method of Envoy's services.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum EnvoyMethod {
    /// `envoy.service.auth.v3.Authorization/Check`.
    Check,
    /// `envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit`.
    ShouldRateLimit,
    /// `envoy.service.accesslog.v3.AccessLogService/StreamAccessLogs`.
    StreamAccessLogs,
}

impl EnvoyMethod {
    /// The method with this path; `None` if Envoy's services have none.
    pub fn of(path: &str) -> Option<Self> {
        Some(match path {
            "/envoy.service.auth.v3.Authorization/Check" => Self::Check,
            "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit" => Self::ShouldRateLimit,
            "/envoy.service.accesslog.v3.AccessLogService/StreamAccessLogs" => Self::StreamAccessLogs,
            _ => return None,
        })
    }
}

/// What the gRPC and HTTP endpoints share.
#[derive(Clone)]
pub struct EndpointContext {
    /// The state of all workers.
    pub shared: Arc<EnvoyShared>,
    /// Cancelled when the server drains: streams of access logs never end by themselves.
    pub stopping: CancellationToken,
    /// Bounds the calls that wait for handlers.
    pub pool: CallPool,
    /// Receives the latency of each call.
    pub shedder: Option<Arc<LoadShedder>>,
}

/// Serves the methods on one worker.
pub struct GrpcEndpoint {
    service: EnvoyService,
    stopping: CancellationToken,
    pool: CallPool,
    shedder: Option<Arc<LoadShedder>>,
    max_message: usize,
    check: Arc<RpcCounters>,
    limit: Arc<RpcCounters>,
    logs: Arc<RpcCounters>,
}

impl GrpcEndpoint {
    /// The endpoint of a worker. `max_message` bounds unary requests, in bytes.
    pub fn new(context: EndpointContext, metrics: &Metrics, max_message: usize) -> Self {
        Self {
            service: EnvoyService::new(context.shared),
            stopping: context.stopping,
            pool: context.pool,
            shedder: context.shedder,
            max_message,
            check: metrics.rpc("envoy.service.auth.v3.Authorization/Check"),
            limit: metrics.rpc("envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"),
            logs: metrics.rpc("envoy.service.accesslog.v3.AccessLogService/StreamAccessLogs"),
        }
    }

    /// Serves a call and records its metrics.
    pub async fn call(
        &self,
        method: EnvoyMethod,
        head: &RequestHead,
        body: RequestBody,
        peer: &Peer,
    ) -> Response<ApiBody> {
        let started = Instant::now();
        if head.method() != Method::POST {
            return grpc::error_response(&GrpcError::new(
                Code::Unimplemented,
                "gRPC calls are POST requests",
            ));
        }
        let deadline = grpc::timeout(head.headers()).and_then(|timeout| started.checked_add(timeout));
        // Only load shedding identifies callers.
        let caller = self.shedder.as_ref().map_or(0, |_| peer.key());
        let (principal, address) = (peer.principal(), Some(peer.address()));
        let call = CallInfo { deadline, principal, address, caller, headers: Some(head.headers()) };
        let mut received = 0;
        let (result, counters) = match method {
            EnvoyMethod::StreamAccessLogs => (self.logs(body, call, &mut received).await, &self.logs),
            EnvoyMethod::Check => (self.unary(method, body, call, &mut received).await, &self.check),
            EnvoyMethod::ShouldRateLimit => {
                (self.unary(method, body, call, &mut received).await, &self.limit)
            }
        };
        let took = started.elapsed();
        let (code, sent) = match &result {
            Ok(framed) => (Code::Ok, grpc::unframed(framed).len()),
            Err(error) => (error.code, 0),
        };
        counters.record(code as i32, took, received, sent);
        if method != EnvoyMethod::StreamAccessLogs {
            self.completed(took);
        }
        match result {
            Ok(framed) => grpc::ok_response(framed),
            Err(error) => grpc::error_response(&error),
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
            return self.pool.run(self.service.should_rate_limit(body, call), call.deadline).await;
        }
        let metadata = call.headers.map(attribute_metadata).unwrap_or_default();
        self.pool.run(self.service.check(body, &metadata, call), call.deadline).await
    }

    /// Reports messages until the client ends the stream or the server drains.
    async fn logs(
        &self,
        body: RequestBody,
        call: CallInfo<'_>,
        received: &mut usize,
    ) -> Result<Bytes, GrpcError> {
        let mut messages = Messages::new(body, self.max_message.max(MAX_LOG_MESSAGE));
        let mut stream = self.service.open_log(call);
        loop {
            let message = tokio::select! {
                biased;
                message = messages.next() => message?,
                () = self.stopping.cancelled() => None,
            };
            let Some(message) = message else { break };
            *received = received.saturating_add(message.len());
            let started = Instant::now();
            // The next message is read after the handlers have taken this one.
            self.pool.run(stream.report(message), None).await?;
            self.completed(started.elapsed());
        }
        let mut out = Vec::new();
        grpc::begin_message(&mut out);
        Ok(out.into())
    }
}

/// The metadata that becomes attributes; usually none.
fn attribute_metadata(headers: &HeaderMap) -> Vec<(&str, &[u8])> {
    headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_bytes()))
        .filter(|(name, _)| name.starts_with("x-mixer-attr.") || *name == "x-istio-attributes")
        .collect()
}
