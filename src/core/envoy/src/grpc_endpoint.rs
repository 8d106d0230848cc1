//! The gRPC methods that Envoy calls, on one worker.

use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::{HeaderMap, Response};
use tokio_util::sync::CancellationToken;

use crate::service::{EnvoyService, EnvoyShared};
use mixer_api::grpc::{self, Code, GrpcError, Messages};
use mixer_api::unary::Unanswered;
use mixer_api::{ApiBody, CallInfo, CallLimits, UnaryMethod};
use mixer_base::budget::Share;
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
    /// Limits of the calls.
    pub limits: CallLimits,
    /// Memory of the requests of all connections.
    pub memory: Arc<Share>,
    /// Memory of large answers.
    pub pages: Arc<Share>,
}

/// Serves the methods on one worker.
pub struct GrpcEndpoint {
    service: EnvoyService,
    stopping: CancellationToken,
    limits: CallLimits,
    check: UnaryMethod,
    limit: UnaryMethod,
    logs: Arc<RpcCounters>,
}

impl GrpcEndpoint {
    /// The endpoint of a worker.
    pub fn new(context: EndpointContext, metrics: &Metrics) -> Self {
        let EndpointContext { shared, stopping, limits, .. } = context;
        let method = |path| UnaryMethod::new(limits.clone(), Some(metrics.rpc(path)));
        Self {
            service: EnvoyService::new(shared),
            stopping,
            check: method("envoy.service.auth.v3.Authorization/Check"),
            limit: method("envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"),
            logs: metrics.rpc("envoy.service.accesslog.v3.AccessLogService/StreamAccessLogs"),
            limits,
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
        let service = &self.service;
        match method {
            EnvoyMethod::Check => {
                let handle = |body, call| async move {
                    let metadata = attribute_metadata(head.headers());
                    service.check(body, &metadata, call).await
                };
                let otherwise = |error| service.denial_of(&error).ok_or(error);
                self.check.call_or(head, body, peer, handle, otherwise).await
            }
            EnvoyMethod::ShouldRateLimit => {
                let handle = |body, call| service.should_rate_limit(body, call);
                let otherwise = |error| service.over_limit_of(&error).ok_or(error);
                self.limit.call_or(head, body, peer, handle, otherwise).await
            }
            EnvoyMethod::StreamAccessLogs => self.stream_logs(head, body, peer).await,
        }
    }

    /// Serves a stream of access logs.
    async fn stream_logs(&self, head: &RequestHead, body: RequestBody, peer: &Peer) -> Response<ApiBody> {
        let started = Instant::now();
        if let Err(error) = grpc::require_post(head.method()) {
            return grpc::response(Err(error));
        }
        let call = CallInfo::of_request(head, peer, started, self.limits.shedder.is_some());
        let mut unanswered = Unanswered::new(Some(&self.logs), None, started);
        let result = self.logs(body, call, &mut unanswered.received).await;
        unanswered.end(started.elapsed(), &result);
        grpc::response(result)
    }

    /// Reports messages until the client ends the stream or the server drains.
    async fn logs(
        &self,
        body: RequestBody,
        call: CallInfo<'_>,
        received: &mut usize,
    ) -> Result<Bytes, GrpcError> {
        let max_message = self.limits.max_message.max(MAX_LOG_MESSAGE);
        let mut messages = Messages::new(body, max_message, self.limits.receive_timeout);
        let mut stream = self.service.open_log(call);
        loop {
            let message = tokio::select! {
                biased;
                message = messages.next() => message?,
                () = self.stopping.cancelled() => None,
                () = passed(call.deadline) => {
                    return Err(GrpcError::new(Code::DeadlineExceeded, "the deadline of the stream passed"));
                }
            };
            let Some(message) = message else { break };
            *received = received.saturating_add(message.len());
            let started = Instant::now();
            let mut taken = Unanswered::new(None, self.limits.shedder.as_deref(), started);
            taken.received = message.len();
            // The next message is read after the handlers have taken this one.
            let reported = self.limits.pool.run(pin!(Some(stream.report(message))), None).await;
            taken.note(&reported);
            reported?;
            stream.give_way().await;
            messages.set_kept(stream.kept());
            taken.end_with(Code::Ok, started.elapsed(), 0);
        }
        Ok(Bytes::from_static(&grpc::EMPTY_MESSAGE))
    }
}

/// Completes at a deadline; never without one.
async fn passed(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
        None => std::future::pending().await,
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
