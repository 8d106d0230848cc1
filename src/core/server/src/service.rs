//! Routes the calls of one worker: Mixer's and Envoy's methods directly, everything else to tonic.

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, Method, Response};
use tokio_util::sync::CancellationToken;
use tower::Service as _;

use mixer_api::grpc::{self, Code, GrpcError};
use mixer_api::load_shedding::LoadShedder;
use mixer_api::{ApiBody, CallInfo, CallPool, DrainingBody, MixerService};
use mixer_base::metrics::{Metrics, RpcCounters};
use mixer_envoy::{EnvoyMethod, GrpcEndpoint};
use mixer_http2::{FixedResponse, RequestBody, RequestHead};
use mixer_net::peer::Peer;
use mixer_net::service::WorkerService;

/// The services of one worker.
pub(super) struct ApiService {
    mixer: MixerService,
    check: Arc<RpcCounters>,
    report: Arc<RpcCounters>,
    shedder: Option<Arc<LoadShedder>>,
    max_message: usize,
    envoy: Option<GrpcEndpoint>,
    tonic: tonic::service::Routes,
    stopping: CancellationToken,
    pool: CallPool,
}

/// A unary method that is served without tonic.
#[derive(Clone, Copy, PartialEq, Eq)]
enum UnaryMethod {
    Check,
    Report,
    Explain,
}

impl ApiService {
    /// The services over one mixer. Calls that wait for handlers are bounded by `pool`. `tonic` serves every other path; its request
    /// streams end when `stopping` is cancelled.
    pub(super) fn new(
        mixer: MixerService,
        metrics: &Metrics,
        shedder: Option<Arc<LoadShedder>>,
        max_message: usize,
        tonic: tonic::service::Routes,
        stopping: CancellationToken,
        pool: CallPool,
    ) -> Self {
        Self {
            mixer,
            check: metrics.rpc("istio.mixer.v1.Mixer/Check"),
            report: metrics.rpc("istio.mixer.v1.Mixer/Report"),
            shedder,
            max_message,
            envoy: None,
            tonic,
            stopping,
            pool,
        }
    }

    /// Adds the services of Envoy.
    pub(super) fn with_envoy(mut self, envoy: Option<GrpcEndpoint>) -> Self {
        self.envoy = envoy;
        self
    }

    /// Reads the request message and calls the method. Errors: as of the method.
    async fn call_method(
        &self,
        method: UnaryMethod,
        headers: &HeaderMap,
        body: RequestBody,
        deadline: Option<Instant>,
        peer: &Peer,
        received: &mut usize,
    ) -> Result<Bytes, GrpcError> {
        let body = grpc::read_message(body, self.max_message).await?;
        *received = body.len();
        // Only load shedding identifies callers.
        let caller = self.shedder.as_ref().map_or(0, |_| peer.key());
        let (principal, address) = (peer.principal(), Some(peer.address()));
        let call = CallInfo { deadline, principal, address, caller, headers: Some(headers) };
        match method {
            UnaryMethod::Check => self.pool.run(self.mixer.check(body, call), deadline).await,
            UnaryMethod::Report => self.pool.run(self.mixer.report(body, call), deadline).await,
            UnaryMethod::Explain if peer.is_local() => Box::pin(self.mixer.explain(body)).await,
            UnaryMethod::Explain => Err(GrpcError::new(
                Code::PermissionDenied,
                "decisions are explained to callers on this machine only",
            )),
        }
    }

    /// Serves a unary call and records its metrics.
    async fn unary(
        &self,
        method: UnaryMethod,
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
        let timeout: Option<Duration> = grpc::timeout(head.headers());
        let deadline = timeout.and_then(|t| started.checked_add(t));
        let mut received = 0;
        let result = self.call_method(method, head.headers(), body, deadline, peer, &mut received).await;
        let took = started.elapsed();
        let (code, sent) = match &result {
            Ok(framed) => (Code::Ok, grpc::unframed(framed).len()),
            Err(error) => (error.code, 0),
        };
        match method {
            UnaryMethod::Check => self.check.record(code as i32, took, received, sent),
            UnaryMethod::Report => self.report.record(code as i32, took, received, sent),
            UnaryMethod::Explain => {}
        }
        if let Some(shedder) = &self.shedder {
            shedder.completed(took);
        }
        match result {
            Ok(framed) => grpc::ok_response(framed),
            Err(error) => grpc::error_response(&error),
        }
    }

    /// Passes a call to tonic.
    async fn call_tonic(&self, head: &RequestHead, body: RequestBody) -> Response<ApiBody> {
        let body = DrainingBody::new(body, self.stopping.clone());
        match self.tonic.clone().call(head.to_request(body)).await {
            Ok(response) => response.map(ApiBody::Stream),
            Err(never) => match never {},
        }
    }
}

impl WorkerService for ApiService {
    type Body = tonic::body::Body;

    fn fixed_response() -> &'static FixedResponse {
        &grpc::OK_RESPONSE
    }

    async fn call(
        self: Rc<Self>,
        head: Rc<RequestHead>,
        body: RequestBody,
        peer: Rc<Peer>,
    ) -> Response<ApiBody> {
        let method = match head.path() {
            "/istio.mixer.v1.Mixer/Check" => UnaryMethod::Check,
            "/istio.mixer.v1.Mixer/Report" => UnaryMethod::Report,
            "/mixer.introspect.v1.Introspect/Explain" => UnaryMethod::Explain,
            path => {
                // Boxed, so that the futures of Mixer's calls stay small.
                return match (EnvoyMethod::of(path), &self.envoy) {
                    (Some(method), Some(envoy)) => Box::pin(envoy.call(method, &head, body, &peer)).await,
                    _ => Box::pin(self.call_tonic(&head, body)).await,
                };
            }
        };
        self.unary(method, &head, body, &peer).await
    }
}
