//! Routes the calls of one worker: Mixer's and Envoy's methods directly, everything else to tonic.

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use tokio_util::sync::CancellationToken;
use tower::Service as _;

use mixer_api::grpc::{self, Code, GrpcError};
use mixer_api::{ApiBody, CallInfo, CallLimits, CallPool, DrainingBody, MixerService, UnaryMethod};
use mixer_base::metrics::Metrics;
use mixer_envoy::{EnvoyMethod, GrpcEndpoint};
use mixer_http2::{FixedResponse, RequestBody, RequestHead};
use mixer_net::peer::Peer;
use mixer_net::service::WorkerService;

/// The services of one worker.
pub(super) struct ApiService {
    mixer: MixerService,
    check: UnaryMethod,
    report: UnaryMethod,
    explain: UnaryMethod,
    envoy: Option<GrpcEndpoint>,
    tonic: tonic::service::Routes,
    stopping: CancellationToken,
    receive_timeout: Duration,
}

impl ApiService {
    /// The services over one mixer. `tonic` serves all paths but those of Mixer and Envoy; its request streams end when `stopping` is
    /// cancelled.
    pub(super) fn new(
        mixer: MixerService,
        metrics: &Metrics,
        limits: CallLimits,
        tonic: tonic::service::Routes,
        stopping: CancellationToken,
    ) -> Self {
        let method = |path| UnaryMethod::new(limits.clone(), Some(metrics.rpc(path)));
        Self {
            mixer,
            check: method("istio.mixer.v1.Mixer/Check"),
            report: method("istio.mixer.v1.Mixer/Report"),
            explain: UnaryMethod::new(
                // Not admitted by load shedding, which their latency is nothing for.
                CallLimits { pool: CallPool::unbounded(), shedder: None, ..limits.clone() },
                None,
            ),
            envoy: None,
            tonic,
            stopping,
            receive_timeout: limits.receive_timeout,
        }
    }

    /// Adds the services of Envoy.
    pub(super) fn with_envoy(mut self, envoy: Option<GrpcEndpoint>) -> Self {
        self.envoy = envoy;
        self
    }

    async fn explain(&self, body: Bytes, call: CallInfo<'_>, peer: &Peer) -> Result<Bytes, GrpcError> {
        only_local(peer)?;
        self.mixer.explain(body, call).await
    }

    async fn explain_quotas(&self, body: Bytes, call: CallInfo<'_>, peer: &Peer) -> Result<Bytes, GrpcError> {
        only_local(peer)?;
        self.mixer.explain_quotas(body, call).await
    }

    /// Passes a call to tonic.
    async fn call_tonic(&self, head: &RequestHead, body: RequestBody) -> Response<ApiBody> {
        let body = DrainingBody::new(body, self.stopping.clone(), self.receive_timeout);
        match self.tonic.clone().call(head.to_request(body)).await {
            Ok(response) => response.map(ApiBody::Stream),
            Err(never) => match never {},
        }
    }
}

fn only_local(peer: &Peer) -> Result<(), GrpcError> {
    let text = "explanations are available to local clients only";
    if peer.is_local() { Ok(()) } else { Err(GrpcError::new(Code::PermissionDenied, text)) }
}

impl WorkerService for ApiService {
    type Body = tonic::body::Body;

    fn fixed_response() -> &'static FixedResponse {
        &grpc::OK_RESPONSE
    }

    fn failed() -> Response<ApiBody> {
        grpc::response(Err(GrpcError::panicked()))
    }

    fn work_done() -> usize {
        mixer_engine::dispatch::work_done()
    }

    async fn call(
        self: Rc<Self>,
        head: Rc<RequestHead>,
        body: RequestBody,
        peer: Rc<Peer>,
    ) -> Response<ApiBody> {
        if !grpc::is_grpc(head.headers()) {
            return grpc::unsupported_media_type();
        }
        // All but Mixer's own calls are boxed, so that the futures of these stay small.
        match head.path() {
            "/istio.mixer.v1.Mixer/Check" => {
                self.check.call(&head, body, &peer, |body, call| self.mixer.check(body, call)).await
            }
            "/istio.mixer.v1.Mixer/Report" => {
                self.report.call(&head, body, &peer, |body, call| self.mixer.report(body, call)).await
            }
            "/mixer.introspect.v1.Introspect/Explain" => {
                let explain = |body, call| self.explain(body, call, &peer);
                Box::pin(self.explain.call(&head, body, &peer, explain)).await
            }
            "/mixer.introspect.v1.Introspect/Quotas" => {
                let explain = |body, call| self.explain_quotas(body, call, &peer);
                Box::pin(self.explain.call(&head, body, &peer, explain)).await
            }
            path => match (EnvoyMethod::of(path), &self.envoy) {
                (Some(method), Some(envoy)) => Box::pin(envoy.call(method, &head, body, &peer)).await,
                _ => Box::pin(self.call_tonic(&head, body)).await,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Budget of the future of a call in bytes: the connection boxes one for every request.
    const FUTURE_BYTES: usize = 1296;

    /// The size of the future that `call` returns, in bytes.
    fn future_size<F: Future>(
        _call: impl Fn(Rc<ApiService>, Rc<RequestHead>, RequestBody, Rc<Peer>) -> F,
    ) -> usize {
        size_of::<F>()
    }

    #[test]
    fn the_future_of_a_call_is_small() {
        let size = future_size(<ApiService as WorkerService>::call);
        assert!(size <= FUTURE_BYTES, "{size} bytes");
    }
}
