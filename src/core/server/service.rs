//! What a worker answers: Mixer's methods directly, everything else through tonic.

use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, Method, Response};
use tokio_util::sync::CancellationToken;
use tower::Service as _;

use super::connection::WorkerService;
use super::draining::DrainingBody;
use super::envoy::{EnvoyCalls, EnvoyMethod};
use super::listener::Peer;
use crate::core::api::grpc::{self, Code, GrpcError};
use crate::core::api::{ApiBody, CallInfo, MixerService};
use crate::core::http2::{RequestBody, RequestHead};
use crate::core::load_shedding::{LoadShedder, OVERLOADED};
use crate::core::pool::Pool;
use crate::core::telemetry::metrics::{Metrics, RpcCounters};

/// Bytes of prefix before a gRPC message.
const FRAMING: usize = 5;

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
    pool: Arc<Pool>,
}

/// A method that is answered without tonic.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direct {
    Check,
    Report,
    Explain,
}

impl ApiService {
    /// The services over one mixer, whose calls wait in `pool` if they must. `others` answers every other path; streams of requests to it end with `stopping`.
    pub(super) fn new(
        mixer: MixerService,
        metrics: &Metrics,
        shedder: Option<Arc<LoadShedder>>,
        max_message: usize,
        others: tonic::service::Routes,
        stopping: CancellationToken,
        pool: Arc<Pool>,
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
            pool,
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
            Direct::Check => self.pooled(self.mixer.check(body, call), deadline).await,
            Direct::Report => self.pooled(self.mixer.report(body, call), deadline).await,
            Direct::Explain if peer.is_local() => Box::pin(self.mixer.explain(body)).await,
            Direct::Explain => Err(GrpcError::new(
                Code::PermissionDenied,
                "decisions are explained to callers on this machine only",
            )),
        }
    }

    /// Carries a call out. One that must wait does so within the bounds of the pool; one that is answered at once never sees it.
    async fn pooled<F>(&self, call: F, deadline: Option<Instant>) -> Result<Bytes, GrpcError>
    where
        F: Future<Output = Result<Bytes, GrpcError>>,
    {
        let mut call = std::pin::pin!(call);
        match futures_util::poll!(call.as_mut()) {
            Poll::Ready(answer) => answer,
            Poll::Pending => Box::pin(self.in_turn(call, deadline)).await,
        }
    }

    /// Goes on with a call when its turn comes, at most until its deadline.
    async fn in_turn<F>(&self, call: Pin<&mut F>, deadline: Option<Instant>) -> Result<Bytes, GrpcError>
    where
        F: Future<Output = Result<Bytes, GrpcError>>,
    {
        let turn = self.pool.enter();
        let turn = match deadline {
            None => turn.await,
            Some(deadline) => match tokio::time::timeout_at(deadline.into(), turn).await {
                Ok(turn) => turn,
                Err(_) => {
                    let text = "the deadline of the call passed while it waited for its turn";
                    return Err(GrpcError::new(Code::DeadlineExceeded, text));
                }
            },
        };
        let _permit = turn.map_err(|_| GrpcError::new(Code::Unavailable, OVERLOADED))?;
        call.await
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
            Ok(framed) => (Code::Ok, framed.len().saturating_sub(FRAMING)),
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
            Ok(response) => response.map(ApiBody::Other),
            Err(never) => match never {},
        }
    }
}

impl WorkerService for ApiService {
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
                    (Some(method), Some(envoy)) => Box::pin(envoy.call(method, &head, body)).await,
                    _ => Box::pin(self.other(&head, body)).await,
                };
            }
        };
        self.direct(method, &head, body, &peer).await
    }
}
