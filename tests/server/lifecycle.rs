//! Graceful shutdown: calls in flight are answered, new connections are refused, deadlines bound the drain.

use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use crate::support::rpc::{Client, mixer};
use crate::support::{DEADLINE, Server, is_listening, wait_for};
use ::mixer_wire::checknothing::HandleCheckNothingRequest;
use ::mixer_wire::checknothing::handle_check_nothing_service_server::{
    HandleCheckNothingService, HandleCheckNothingServiceServer,
};
use ::mixer_wire::google::rpc::Status as RpcStatus;
use ::mixer_wire::istio::mixer::adapter::model::v1beta1::CheckResult;
use tokio::sync::Semaphore;

/// A backend of the adapter `bypass` that answers a call per permit.
struct Backend {
    runtime: tokio::runtime::Runtime,
    address: SocketAddr,
    /// One message per call that has arrived.
    arrived: mpsc::Receiver<()>,
    /// One permit per call that may be answered.
    gate: Arc<Semaphore>,
    /// Number of calls that fail before the first answer.
    failures: Arc<AtomicUsize>,
}

struct Gated {
    arrived: mpsc::SyncSender<()>,
    gate: Arc<Semaphore>,
    failures: Arc<AtomicUsize>,
}

#[tonic::async_trait]
impl HandleCheckNothingService for Gated {
    async fn handle_check_nothing(
        &self,
        _: tonic::Request<HandleCheckNothingRequest>,
    ) -> Result<tonic::Response<CheckResult>, tonic::Status> {
        self.arrived.send(()).map_err(|_| tonic::Status::aborted("the test has ended"))?;
        let permit = self.gate.acquire().await.map_err(|_| tonic::Status::aborted("the test has ended"))?;
        permit.forget();
        let fewer = |failures: usize| failures.checked_sub(1);
        if self.failures.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer).is_ok() {
            return Err(tonic::Status::internal("it fails for once"));
        }
        let status = RpcStatus { code: 7, message: "decided late".to_owned(), details: vec![] };
        Ok(tonic::Response::new(CheckResult { status: Some(status), ..CheckResult::default() }))
    }
}

impl Backend {
    fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime for the backend");
        let (sender, arrived) = mpsc::sync_channel(16);
        let gate = Arc::new(Semaphore::new(0));
        let failures = Arc::new(AtomicUsize::new(0));
        let gated = Gated { arrived: sender, gate: Arc::clone(&gate), failures: Arc::clone(&failures) };
        let service = HandleCheckNothingServiceServer::new(gated);
        let address = runtime.block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a loopback port");
            let address = listener.local_addr().expect("a bound socket has an address");
            let server = tonic::transport::Server::builder().add_service(service);
            tokio::spawn(
                server.serve_with_incoming(tokio_stream::wrappers::TcpListenerStream::new(listener)),
            );
            address
        });
        Self { runtime, address, arrived, gate, failures }
    }
}

fn configuration(backend: SocketAddr, annotations: &str) -> String {
    format!(
        "
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {{name: slow, namespace: istio-system, annotations: {{{annotations}}}}}
spec:
  compiledAdapter: bypass
  params: {{backend_address: '{backend}'}}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {{name: caller, namespace: istio-system}}
spec: {{compiledTemplate: checknothing}}
---
apiVersion: config.istio.io/v1alpha2
kind: rule
metadata: {{name: ask, namespace: istio-system}}
spec:
  actions:
  - handler: slow
    instances: [caller]
"
    )
}

fn refuses_connections(port: u16) -> bool {
    TcpStream::connect(("127.0.0.1", port)).is_err()
}

/// SIGTERM and SIGINT while a call waits for its adapter: the listener closes, the call is answered, the exit status is 0.
#[test]
fn a_call_in_flight_is_answered_before_the_server_exits() {
    for name in ["TERM", "INT"] {
        let backend = Backend::start();
        let directory = tempfile::tempdir().expect("a temporary directory");
        std::fs::write(directory.path().join("slow.yaml"), configuration(backend.address, ""))
            .expect("written");
        let mut server = Server::on(directory.path()).start();

        let address = server.address();
        let call = std::thread::spawn(move || {
            let mut client = Client::new(&address).expect("a client");
            client.check(&mixer::CheckRequest::default(), None)
        });
        backend.arrived.recv_timeout(DEADLINE).expect("the call reaches the backend");
        assert!(is_listening(server.ports.api));

        server.signal(name);
        let closed = wait_for(DEADLINE, || refuses_connections(server.ports.api).then_some(()));
        assert!(closed.is_some(), "{name}: the API port is still open\n{}", server.log());
        assert!(server.is_alive(), "{name}: the server exited with a call in flight\n{}", server.log());
        assert!(!call.is_finished(), "{name}: the call was aborted");
        assert!(!refuses_connections(server.ports.monitoring), "{name}: monitoring stopped before the calls");

        backend.gate.add_permits(1);
        let answer = call.join().expect("the caller ends").expect("the call is answered");
        let status = answer.precondition.unwrap_or_default().status.unwrap_or_default();
        assert_eq!((status.code, status.message.as_str()), (7, "slow.istio-system:decided late"), "{name}");

        assert_eq!(server.exit_code(), Ok(Some(0)), "{name}: {}", server.log());
        assert!(refuses_connections(server.ports.monitoring));
        backend.runtime.shutdown_timeout(Duration::from_millis(100));
    }
}

/// A hanging call delays shutdown by `--shutdown-timeout` at most; the exit status is 3 and files are removed.
#[test]
fn a_shutdown_past_its_timeout_is_forced() {
    let backend = Backend::start();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let place = tempfile::tempdir().expect("a temporary directory");
    std::fs::write(directory.path().join("slow.yaml"), configuration(backend.address, "")).expect("written");
    let path = |name: &str| place.path().join(name).display().to_string();
    let (live, pid) = (path("live"), path("pid"));
    let arguments = Server::on(directory.path()).with(&[
        "--shutdown-timeout=300ms",
        &format!("--livenessProbePath={live}"),
        "--livenessProbeInterval=1s",
        &format!("--pid-file={pid}"),
    ]);
    let mut server = arguments.start();
    let address = server.address();
    let call = std::thread::spawn(move || {
        Client::new(&address).expect("a client").check(&mixer::CheckRequest::default(), None)
    });
    backend.arrived.recv_timeout(DEADLINE).expect("the call reaches the backend");
    let files = || [&live, &pid].map(|file| std::path::Path::new(file).exists());
    assert_eq!(wait_for(DEADLINE, || (files() == [true; 2]).then_some(())), Some(()));

    let signalled = std::time::Instant::now();
    assert_eq!(server.terminate(), Ok(Some(3)), "{}", server.log());
    assert!(signalled.elapsed() < Duration::from_secs(5), "it took {:?}", signalled.elapsed());
    assert_eq!(files(), [false; 2]);
    assert!(server.log().contains("\twarn\tcalls failed or did not stop in time"), "{}", server.log());
    assert!(call.join().expect("the caller ends").is_err());
    backend.runtime.shutdown_timeout(Duration::from_millis(100));
}

/// A handler with `mixer.dev/on-error: lastKnown` whose backend is gone repeats its last answer.
#[test]
fn the_last_known_answer_is_used_when_the_backend_is_gone() {
    let backend = Backend::start();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let text = configuration(backend.address, "mixer.dev/on-error: lastKnown");
    std::fs::write(directory.path().join("slow.yaml"), text).expect("written");
    let server = Server::on(directory.path()).start();
    let mut client = Client::new(&server.address()).expect("a client");
    let mut ask = || {
        let answer = client.check(&mixer::CheckRequest::default(), None).expect("the call is answered");
        let status = answer.precondition.unwrap_or_default().status.unwrap_or_default();
        (status.code, status.message)
    };

    backend.gate.add_permits(1);
    let first = ask();
    assert_eq!((first.0, first.1.as_str()), (7, "slow.istio-system:decided late"));
    backend.runtime.shutdown_timeout(Duration::from_millis(100));
    assert_eq!(ask(), first, "{}", server.log());
}

/// A failure that `mixer.dev/on-error: allow` ignores does not keep later requests from a backend that has recovered.
#[test]
fn an_ignored_failure_of_a_backend_is_over_when_the_backend_recovers() {
    let backend = Backend::start();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let text = configuration(backend.address, "mixer.dev/on-error: allow");
    std::fs::write(directory.path().join("slow.yaml"), text).expect("written");
    let server = Server::on(directory.path()).start();
    let mut client = Client::new(&server.address()).expect("a client");
    backend.failures.store(1, Ordering::Relaxed);
    backend.gate.add_permits(2);
    let answers = [(); 2].map(|()| {
        let answer = client.check(&mixer::CheckRequest::default(), None).expect("the call is answered");
        let precondition = answer.precondition.unwrap_or_default();
        (precondition.status.unwrap_or_default().code, precondition.valid_use_count)
    });
    assert_eq!(answers, [(0, 0), (7, 0)], "{}", server.log());
    assert_eq!(backend.arrived.try_iter().count(), 2);
}

/// An idle client that answers no PING does not delay shutdown.
#[test]
fn an_idle_client_does_not_delay_shutdown() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut server = Server::on(directory.path()).start();
    // Its event loop runs during calls only: afterwards it answers no PING.
    let mut client = Client::new(&server.address()).expect("a client");
    client.check(&mixer::CheckRequest::default(), None).expect("the call is answered");
    let signalled = std::time::Instant::now();
    assert_eq!(server.terminate(), Ok(Some(0)), "{}", server.log());
    assert!(signalled.elapsed() < Duration::from_secs(10), "it took {:?}", signalled.elapsed());
    drop(client);
}
