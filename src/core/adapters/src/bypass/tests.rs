use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tonic::{Request, Response, Status};

use super::*;
use crate::testing::{bound, problems, test_env};
use checknothing::handle_check_nothing_service_server::{
    HandleCheckNothingService, HandleCheckNothingServiceServer,
};
use metric::handle_metric_service_server::{HandleMetricService, HandleMetricServiceServer};
use mixer_attribute::{SignedDuration, Value, ValueType};
use mixer_config::Severity;
use model::infrastructure_backend_server::{InfrastructureBackend, InfrastructureBackendServer};
use quota::handle_quota_service_server::{HandleQuotaService, HandleQuotaServiceServer};

/// A backend that records its calls.
#[derive(Clone, Default)]
struct Backend {
    seen: Arc<Mutex<Vec<String>>>,
    refuse: bool,
    slow: bool,
}

impl Backend {
    async fn start(self) -> SocketAddr {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tonic::transport::Server::builder()
            .add_service(HandleCheckNothingServiceServer::new(self.clone()))
            .add_service(HandleMetricServiceServer::new(self.clone()))
            .add_service(HandleQuotaServiceServer::new(self.clone()))
            .add_service(InfrastructureBackendServer::new(self));
        let incoming = tokio_stream::wrappers::TcpListenerStream::new(listener);
        tokio::spawn(server.serve_with_incoming(incoming));
        address
    }

    async fn note(&self, text: String) -> Result<(), Status> {
        self.seen.lock().unwrap().push(text);
        if self.slow {
            tokio::time::sleep(Duration::from_secs(60)).await;
        }
        if self.refuse { Err(Status::unknown("backend says no")) } else { Ok(()) }
    }
}

#[tonic::async_trait]
impl HandleCheckNothingService for Backend {
    async fn handle_check_nothing(
        &self,
        request: Request<checknothing::HandleCheckNothingRequest>,
    ) -> Result<Response<model::CheckResult>, Status> {
        let request = request.into_inner();
        let config = request.adapter_config.map(|c| c.type_url);
        self.note(format!("check {} {config:?}", request.instance.unwrap().name)).await?;
        let status = mixer_wire::google::rpc::Status { code: 7, message: "no".into(), details: vec![] };
        Ok(Response::new(model::CheckResult {
            status: Some(status),
            valid_duration: Some(prost_types::Duration { seconds: 3, nanos: 5 }),
            valid_use_count: 4,
        }))
    }
}

#[tonic::async_trait]
impl HandleMetricService for Backend {
    async fn handle_metric(
        &self,
        request: Request<metric::HandleMetricRequest>,
    ) -> Result<Response<model::ReportResult>, Status> {
        let request = request.into_inner();
        self.note(format!("metric {}", request.instances.len())).await?;
        Ok(Response::new(model::ReportResult {}))
    }
}

#[tonic::async_trait]
impl HandleQuotaService for Backend {
    async fn handle_quota(
        &self,
        request: Request<quota::HandleQuotaRequest>,
    ) -> Result<Response<model::QuotaResult>, Status> {
        let request = request.into_inner();
        self.note(format!("quota {} {:?}", request.dedup_id, request.quota_request.unwrap().quotas)).await?;
        let result = model::quota_result::Result { granted_amount: 3, ..Default::default() };
        Ok(Response::new(model::QuotaResult { quotas: [("q".to_owned(), result)].into() }))
    }
}

#[tonic::async_trait]
impl InfrastructureBackend for Backend {
    async fn validate(
        &self,
        request: Request<model::ValidateRequest>,
    ) -> Result<Response<model::ValidateResponse>, Status> {
        self.note(format!("validate {:?}", request.into_inner().inferred_types.keys())).await?;
        Ok(Response::new(model::ValidateResponse { status: None }))
    }

    async fn create_session(
        &self,
        _: Request<model::CreateSessionRequest>,
    ) -> Result<Response<model::CreateSessionResponse>, Status> {
        self.note("create".to_owned()).await?;
        Ok(Response::new(model::CreateSessionResponse { session_id: "s-1".into(), status: None }))
    }

    async fn close_session(
        &self,
        request: Request<model::CloseSessionRequest>,
    ) -> Result<Response<model::CloseSessionResponse>, Status> {
        self.note(format!("close {}", request.into_inner().session_id)).await?;
        Ok(Response::new(model::CloseSessionResponse { status: None }))
    }
}

fn instances() -> Vec<BoundInstance> {
    vec![
        bound("c", "checknothing", "", &[]),
        bound("q", "quota", "dimensions", &[("a", ValueType::String)]),
        bound("m", "metric", "dimensions", &[("a", ValueType::String)]),
    ]
}

fn params(address: impl ToString) -> Params {
    Params { backend_address: address.to_string(), ..Params::default() }
}

async fn answer<T>(reply: Reply<T>) -> Result<T, String> {
    match reply {
        Reply::Ready(result) => result,
        Reply::Later(future) => future.await,
    }
    .map_err(|e| e.message)
}

async fn check(handler: &dyn Handler) -> Result<CheckResult, String> {
    let instance = Instance { bound: 0, name: "c", values: &[] };
    answer(handler.as_check().unwrap().check(&instance)).await
}

#[test]
fn params_table() {
    for good in ["127.0.0.1:9", ":9", "backend.svc", "dns:///backend:80", "unix:///tmp/s"] {
        assert!(problems::<Bypass>(&params(good)).is_empty(), "{good}");
    }
    for bad in ["", "a b"] {
        let mut found = Diagnostics::new();
        Bypass::validate(&params(bad), &[], &mut found);
        assert_eq!(found.len(), 1, "{bad}");
        assert_eq!(found[0].severity, Severity::Warning);
    }
}

#[tokio::test]
async fn calls_are_forwarded() {
    let backend = Backend::default();
    let address = backend.clone().start().await;
    let handler = Bypass::build(params(address), instances(), test_env("h")).await.unwrap();
    let got = check(&*handler).await.unwrap();
    assert_eq!((got.status.code, &*got.status.message, got.valid_use_count), (7, "no", 4));
    assert_eq!(got.valid_duration, SignedDuration::from_nanos(3_000_000_005));

    let values = [Some(Value::String(b"x"))];
    let instance = Instance { bound: 1, name: "q", values: &values };
    let call = QuotaCall { amount: 5, best_effort: true, deduplication_id: "D1" };
    let got = answer(handler.as_quota().unwrap().quota(&instance, call)).await.unwrap();
    assert_eq!(got, QuotaResult { granted: 3, valid_duration: SignedDuration::ZERO });
    // An answer under another name grants nothing.
    let other = Instance { name: "other", ..instance };
    let got = answer(handler.as_quota().unwrap().quota(&other, call)).await.unwrap();
    assert_eq!(got, QuotaResult::default());

    // No value is configured: the batch cannot be sent.
    let instance = Instance { bound: 2, name: "m", values: &values };
    let error = answer(handler.as_report().unwrap().report(&[instance])).await.unwrap_err();
    assert_eq!(error, "unrecognized type for bypass conversion: <nil>");
    handler.close(Duration::from_secs(1)).await.unwrap();
    let seen = backend.seen.lock().unwrap().clone();
    assert_eq!(seen.len(), 3, "{seen:?}");
    assert_eq!(seen[0], "check c None");
    assert_eq!(seen[1], "quota D1 {\"q\": QuotaParams { amount: 5, best_effort: true }}");
}

#[tokio::test]
async fn a_session_sends_parameters_once() {
    let backend = Backend::default();
    let address = backend.clone().start().await;
    let params = Params { session_based: true, ..params(address) };
    let handler = Bypass::build(params, instances(), test_env("h")).await.unwrap();
    check(&*handler).await.unwrap();
    handler.close(Duration::from_secs(1)).await.unwrap();
    let seen = backend.seen.lock().unwrap().clone();
    assert_eq!(seen, ["validate [\"c\", \"m\", \"q\"]", "create", "check c None", "close s-1"]);
}

#[tokio::test]
async fn failures_of_the_backend_are_errors_of_the_call() {
    let refusing = Backend { refuse: true, ..Backend::default() }.start().await;
    let handler = Bypass::build(params(refusing), instances(), test_env("h")).await.unwrap();
    assert_eq!(check(&*handler).await.unwrap_err(), "rpc error: code = Unknown desc = backend says no");
    let trouble = handler.status().trouble;
    assert_eq!(trouble.as_deref(), Some("rpc error: code = Unknown desc = backend says no"));

    let session = Params { session_based: true, ..params(refusing) };
    let error = Bypass::build(session, instances(), test_env("h")).await.err().unwrap();
    let BuildError::Invalid(problems) = error else { panic!("{error}") };
    let wanted = "params: error during validation: rpc error: code = Unknown desc = backend says no";
    assert_eq!(problems, [wanted]);

    let down = Bypass::build(params("127.0.0.1:9"), instances(), test_env("h")).await.unwrap();
    let error = check(&*down).await.unwrap_err();
    assert!(error.starts_with("rpc error: code = Unavailable desc = "), "{error}");

    let nowhere = Bypass::build(Params::default(), instances(), test_env("h")).await.unwrap();
    let error = check(&*nowhere).await.unwrap_err();
    assert!(error.contains("cannot connect to ``: no address"), "{error}");
    assert_eq!(nowhere.status().trouble, Some(error));
}

#[tokio::test]
async fn a_slow_backend_times_out() {
    let slow = Backend { slow: true, ..Backend::default() }.start().await;
    let handler = Bypass::connect(params(slow), instances(), Duration::from_millis(100)).await.unwrap();
    let error = check(&handler).await.unwrap_err();
    assert_eq!(error, "rpc error: code = DeadlineExceeded desc = no answer within 100ms");
}

#[tokio::test]
async fn garbage_is_an_error() {
    use tokio::io::AsyncWriteExt as _;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.write_all(b"220 mail.example ESMTP\r\n").await;
        }
    });
    let handler = Bypass::connect(params(address), instances(), Duration::from_secs(2)).await.unwrap();
    let error = check(&handler).await.unwrap_err();
    assert!(error.starts_with("rpc error: code = "), "{error}");
}

#[test]
fn ids_are_version_4_uuids() {
    let ids = DeduplicationIds::default();
    let (a, b) = (ids.next(), ids.next());
    assert_ne!(a, b);
    let form =
        regex::Regex::new("^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$").unwrap();
    assert!(form.is_match(&a) && form.is_match(&b), "{a} {b}");
}
