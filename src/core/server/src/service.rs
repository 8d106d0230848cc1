//! What a worker answers: Mixer's methods directly, everything else through tonic.

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, Method, Response};
use tokio_util::sync::CancellationToken;
use tower::Service as _;

use mixer_api::DrainingBody;
use mixer_api::Turns;
use mixer_api::grpc::{self, Code, GrpcError};
use mixer_api::load_shedding::LoadShedder;
use mixer_api::{ApiBody, CallInfo, MixerService};
use mixer_base::metrics::{Metrics, RpcCounters};
use mixer_envoy::{EnvoyCalls, EnvoyMethod};
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
    envoy: Option<EnvoyCalls>,
    others: tonic::service::Routes,
    stopping: CancellationToken,
    turns: Turns,
}

/// A method that is answered without tonic.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direct {
    Check,
    Report,
    Explain,
}

impl ApiService {
    /// The services over one mixer, whose calls wait for their turns if they must. `others` answers every other path; streams of requests to it end with `stopping`.
    pub(super) fn new(
        mixer: MixerService,
        metrics: &Metrics,
        shedder: Option<Arc<LoadShedder>>,
        max_message: usize,
        others: tonic::service::Routes,
        stopping: CancellationToken,
        turns: Turns,
    ) -> Self {
        Self {
            mixer,
            check: metrics.rpc("istio.mixer.v1.Mixer/Check"),
            report: metrics.rpc("istio.mixer.v1.Mixer/Report"),
            shedder,
            max_message,
            envoy: None,
            others,
            stopping,
            turns,
        }
    }

    /// The same services, and those of Envoy.
    pub(super) fn with_envoy(mut self, envoy: Option<EnvoyCalls>) -> Self {
        self.envoy = envoy;
        self
    }

    async fn answer(
        &self,
        method: Direct,
        headers: &HeaderMap,
        body: RequestBody,
        deadline: Option<Instant>,
        peer: &Peer,
        received: &mut usize,
    ) -> Result<Bytes, GrpcError> {
        let body = grpc::read_message(body, self.max_message).await?;
        *received = body.len();
        // Only those who shed load want to know.
        let caller = self.shedder.as_ref().map_or(0, |_| peer.key());
        let (principal, address) = (peer.principal(), Some(peer.address()));
        let call = CallInfo { deadline, principal, address, caller, headers: Some(headers) };
        match method {
            Direct::Check => self.turns.take(self.mixer.check(body, call), deadline).await,
            Direct::Report => self.turns.take(self.mixer.report(body, call), deadline).await,
            Direct::Explain if peer.is_local() => Box::pin(self.mixer.explain(body)).await,
            Direct::Explain => Err(GrpcError::new(
                Code::PermissionDenied,
                "decisions are explained to callers on this machine only",
            )),
        }
    }

    /// Reads, decides, counts.
    async fn direct(
        &self,
        method: Direct,
        head: &RequestHead,
        body: RequestBody,
        peer: &Peer,
    ) -> Response<ApiBody> {
        let started = Instant::now();
        if head.method() != Method::POST {
            return grpc::refuse(&GrpcError::new(Code::Unimplemented, "gRPC calls are POST requests"));
        }
        let timeout: Option<Duration> = grpc::timeout(head.headers());
        let deadline = timeout.and_then(|t| started.checked_add(t));
        let mut received = 0;
        let answer = self.answer(method, head.headers(), body, deadline, peer, &mut received).await;
        let took = started.elapsed();
        let (code, sent) = match &answer {
            Ok(framed) => (Code::Ok, grpc::unframed(framed).len()),
            Err(error) => (error.code, 0),
        };
        match method {
            Direct::Check => self.check.record(code as i32, took, received, sent),
            Direct::Report => self.report.record(code as i32, took, received, sent),
            Direct::Explain => {}
        }
        if let Some(shedder) = &self.shedder {
            shedder.completed(took);
        }
        match answer {
            Ok(framed) => grpc::answer(framed),
            Err(error) => grpc::refuse(&error),
        }
    }

    /// Anything that tonic serves.
    async fn other(&self, head: &RequestHead, body: RequestBody) -> Response<ApiBody> {
        let body = DrainingBody::new(body, self.stopping.clone());
        match self.others.clone().call(head.to_request(body)).await {
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
            "/istio.mixer.v1.Mixer/Check" => Direct::Check,
            "/istio.mixer.v1.Mixer/Report" => Direct::Report,
            "/mixer.introspect.v1.Introspect/Explain" => Direct::Explain,
            path => {
                // Boxed, so that the calls of Mixer stay small.
                return match (EnvoyMethod::of(path), &self.envoy) {
                    (Some(method), Some(envoy)) => Box::pin(envoy.call(method, &head, body, &peer)).await,
                    _ => Box::pin(self.other(&head, body)).await,
                };
            }
        };
        self.direct(method, &head, body, &peer).await
    }
}
