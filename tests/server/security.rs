//! TLS and mutual TLS on the API port, peer identities, the mode of the Unix socket, and clients in other languages.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tonic::transport::{Channel, Endpoint, Uri};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use tonic_reflection::pb::v1::{ServerReflectionRequest, ServerReflectionResponse};

use crate::certificates::{Authority, Files, Issued, put};
use crate::support::{DEADLINE, Finished, Server, free_port, python, run_mixer as mixer, wait_for};

const WEB: &str = "spiffe://cluster.local/ns/shop/sa/web";

/// A directory with an authority, a server certificate and a client certificate.
struct Pki {
    directory: tempfile::TempDir,
    authority: Authority,
    root: String,
    server: Files,
    caller: Issued,
    caller_files: Files,
}

impl Pki {
    fn new(configuration: &str) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        std::fs::create_dir(directory.path().join("config")).expect("it is writable");
        put(&directory.path().join("config"), "all.yaml", configuration);
        let authority = Authority::new();
        let root = put(directory.path(), "root.pem", &authority.certificate);
        let server = authority.issue(&["localhost", "127.0.0.1"]).put(directory.path(), "server");
        let caller = authority.issue(&[WEB, "web.shop"]);
        let caller_files = caller.put(directory.path(), "caller");
        Self { directory, authority, root, server, caller, caller_files }
    }

    /// Starts a server with the server certificate.
    fn start(&self, more: &[&str]) -> Server {
        Server::on(&self.directory.path().join("config"))
            .with(&["--tls-cert-file", &self.server.certificate, "--tls-key-file", &self.server.key])
            .with(more)
            .start()
    }

    fn start_mutual(&self, more: &[&str]) -> Server {
        let mutual = ["--tls-client-ca-file", &self.root].into_iter().chain(more.iter().copied());
        self.start(&mutual.collect::<Vec<_>>())
    }

    /// Runs `mixer check` trusting the authority.
    fn check(&self, server: &Server, more: &[&str]) -> Finished {
        let (target, root) = (format!("localhost:{}", server.ports.api), self.root.as_str());
        mixer(&[&["check", "--timeout", "60s", "-m", &target, "--ca-file", root][..], more].concat())
    }

    fn check_as(&self, server: &Server, files: &Files, more: &[&str]) -> Finished {
        let shown = ["--cert-file", &files.certificate, "--key-file", &files.key];
        self.check(server, &[&shown[..], more].concat())
    }

    /// Runs the Python client, which knows services and messages by reflection only.
    fn generic(&self, server: &Server, more: &[&str]) -> serde_json::Value {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/server/generic_client.py");
        let target = format!("localhost:{}", server.ports.api);
        // Words are bytes, which JSON writes in base64: `source.user` and `ann`.
        let message = r#"{"attributes": {"words": ["c291cmNlLnVzZXI=", "YW5u"], "strings": {"-1": -2}}}"#;
        let finished = Command::new(python())
            .args([script, &target, "istio.mixer.v1.Mixer", "Check", message, "--ca", &self.root])
            .args(more)
            .output()
            .expect("python runs");
        let (out, err) =
            (String::from_utf8_lossy(&finished.stdout), String::from_utf8_lossy(&finished.stderr));
        serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}{err}"))
    }
}

/// A channel over TLS with this configuration, connected.
async fn channel(
    server: &Server,
    config: Arc<rustls::ClientConfig>,
) -> Result<Channel, tonic::transport::Error> {
    let port = server.ports.api;
    let connector = tower::service_fn(move |_: Uri| {
        let connector = tokio_rustls::TlsConnector::from(Arc::clone(&config));
        async move {
            let stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await?;
            let name = "localhost".try_into().expect("a name");
            Ok::<_, std::io::Error>(TokioIo::new(connector.connect(name, stream).await?))
        }
    });
    let endpoint = Endpoint::from_static("http://localhost").timeout(Duration::from_secs(10));
    endpoint.connect_with_connector(connector).await
}

async fn is_serving(channel: &Channel) -> bool {
    let request = HealthCheckRequest { service: "liveness".to_owned() };
    HealthClient::new(channel.clone()).check(request).await.is_ok()
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime")
}

const ALL: &[&rustls::SupportedProtocolVersion] = &[&rustls::version::TLS13, &rustls::version::TLS12];

#[test]
fn tls_is_served_and_plain_text_is_refused() {
    let pki = Pki::new("");
    let server = pki.start(&[]);
    let granted = pki.check(&server, &[]);
    assert_eq!(granted.status, 0, "{granted:?}\n{}", server.log());
    let report =
        ["report", "--tls", "--ca-file", &pki.root, "-m", &format!("localhost:{}", server.ports.api)];
    assert_eq!(mixer(&report).status, 0);
    let probe = ["probe", "--grpc", &format!("localhost:{}", server.ports.api), "--ca-file", &pki.root];
    assert!(wait_for(DEADLINE, || (mixer(&probe).status == 0).then_some(())).is_some());

    let plain = mixer(&["check", "--timeout", "5s", "-m", &server.address()]);
    assert_ne!(plain.status, 0);
    server.wait_for_log("a connection was refused: the TLS handshake failed: ");
    server.wait_for_log(" (the client does not speak TLS)");

    let stranger = Authority::new();
    let other = put(pki.directory.path(), "other.pem", &stranger.certificate);
    let target = format!("localhost:{}", server.ports.api);
    let distrusted = mixer(&["check", "--timeout", "60s", "-m", &target, "--ca-file", &other]);
    assert_eq!(distrusted.status, 4);
    assert!(distrusted.stdout.contains("UnknownIssuer"), "{distrusted:?}");
    server.wait_for_log(" (the client does not trust the certificate of this server)");
    let misnamed = pki.check(&server, &["--server-name", "elsewhere.example"]);
    assert_eq!(misnamed.status, 4);
    assert!(misnamed.stdout.contains("the TLS handshake with localhost:"), "{misnamed:?}");
    let unreadable = pki.check(&server, &["--cert-file", "/nowhere/cert.pem", "--key-file", "/nowhere/key"]);
    assert_eq!(unreadable.status, 3);
    assert!(
        unreadable.stderr.contains("cannot read the certificates in `/nowhere/cert.pem`"),
        "{unreadable:?}"
    );
}

#[test]
fn clients_without_a_valid_certificate_are_refused_and_logged() {
    let pki = Pki::new("");
    let server = pki.start_mutual(&[]);
    let granted = pki.check_as(&server, &pki.caller_files, &[]);
    assert_eq!(granted.status, 0, "{granted:?}\n{}", server.log());

    let refused = pki.check(&server, &[]);
    assert_ne!(refused.status, 0);
    let told = [refused.stdout.as_str(), &refused.stderr].concat();
    assert!(told.contains("--cert-file and --key-file say who calls"), "{told}");
    server.wait_for_log("a connection was refused: the TLS handshake failed: peer sent no certificates (--tls-client-auth=require asks \
         for one)");
    server.wait_for_log("{\"caller\": \"127.0.0.1:");

    let forged = Authority::new().issue(&[WEB]).put(pki.directory.path(), "forged");
    assert_ne!(pki.check_as(&server, &forged, &[]).status, 0);
    server.wait_for_log("a connection was refused: the TLS handshake failed: invalid peer certificate: UnknownIssuer (no root in \
         --tls-client-ca-file has signed it)");
}

#[test]
fn only_allowed_peers_are_accepted() {
    let pki = Pki::new("");
    let list = "spiffe://cluster.local/ns/shop/*,*.admin";
    let server = pki.start_mutual(&["--tls-allowed-peers", list]);
    assert_eq!(pki.check_as(&server, &pki.caller_files, &[]).status, 0, "{}", server.log());
    let other = pki.authority.issue(&["spiffe://cluster.local/ns/other/sa/x"]);
    let other = other.put(pki.directory.path(), "other");
    assert_ne!(pki.check_as(&server, &other, &[]).status, 0);
    server.wait_for_log("a connection was refused: its certificate names `spiffe://cluster.local/ns/other/sa/x`, none of which is \
         among the allowed peers");
}

/// Refuses the callers whose certificate names [`WEB`].
const REFUSES_WEB: &str = "
apiVersion: config.istio.io/v1alpha2
kind: attributemanifest
metadata: {name: m, namespace: istio-system}
spec: {attributes: {context.reporter.principal: {valueType: STRING}}}
---
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {name: deny, namespace: istio-system}
spec: {compiledAdapter: denier, params: {status: {code: 7, message: not you}}}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: caller, namespace: istio-system}
spec: {compiledTemplate: checknothing}
---
apiVersion: config.istio.io/v1alpha2
kind: rule
metadata: {name: deny, namespace: istio-system}
spec:
  match: context.reporter.principal == \"spiffe://cluster.local/ns/shop/sa/web\"
  actions: [{handler: deny, instances: [caller]}]
";

#[test]
fn rules_match_the_identity_of_the_peer() {
    let pki = Pki::new(REFUSES_WEB);
    let optional = ["--tls-client-auth", "optional", "--numCheckCacheEntries", "1000"];
    let server = pki.start_mutual(&optional);
    let other = pki.authority.issue(&["web.other"]).put(pki.directory.path(), "other");
    for _ in 0..2 {
        let denied = pki.check_as(&server, &pki.caller_files, &[]);
        assert_eq!(denied.status, 1, "{denied:?}");
        assert!(denied.stdout.contains("not you"), "{denied:?}");
        assert_eq!(pki.check_as(&server, &other, &[]).status, 0, "a cached answer is per identity");
    }
    // The attribute is set by the server; what the client sends is ignored.
    let claim = format!("context.reporter.principal={WEB}");
    assert_eq!(pki.check_as(&server, &other, &["-s", &claim]).status, 0);
    assert_eq!(pki.check(&server, &["-s", &claim]).status, 0, "without a certificate too");
}

/// Without client certificates nobody knows who calls: what a caller says of itself is no identity, over TLS or not.
#[test]
fn an_identity_that_nobody_verified_is_ignored() {
    const READS: &str = "the condition reads context.reporter.principal, which no caller has";
    let allows_web =
        REFUSES_WEB.replace("context.reporter.principal ==", "(context.reporter.principal | \"\") !=");
    let pki = Pki::new(&allows_web);
    let claim = format!("context.reporter.principal={WEB}");
    let claimed = ["-s", claim.as_str()];
    let on = || Server::on(&pki.directory.path().join("config"));
    let check = |server: &Server, more: &[&str]| {
        let target = format!("localhost:{}", server.ports.api);
        mixer(&[&["check", "--timeout", "60s", "-m", &target][..], more].concat()).status
    };
    let open = on().native().with(&["--numCheckCacheEntries", "1000"]).start();
    for _ in 0..2 {
        assert_eq!(check(&open, &claimed), 1, "a claim is not believed");
        assert_eq!(check(&open, &[]), 1, "no claim");
    }
    open.wait_for_log(READS);

    let certificate = ["--tls-cert-file", &pki.server.certificate, "--tls-key-file", &pki.server.key];
    let tls = on().native().with(&certificate).start();
    assert_eq!(pki.check(&tls, &claimed).status, 1, "TLS without client certificates");

    let mutual = on().native().with(&certificate).with(&["--tls-client-ca-file", &pki.root]).start();
    assert_eq!(pki.check_as(&mutual, &pki.caller_files, &[]).status, 0, "{}", mutual.log());
    assert!(!mutual.log().contains(READS), "{}", mutual.log());

    // Istio Mixer has no identities of callers: the attribute is one like all others.
    let istio = on().start();
    assert_eq!(check(&istio, &claimed), 0, "{}", istio.log());
    assert_eq!(check(&istio, &[]), 1);
    assert!(!istio.log().contains(READS), "{}", istio.log());
}

#[test]
fn certificates_are_reloaded_and_connections_stay() {
    let pki = Pki::new("");
    let server = pki.start(&[]);
    let runtime = runtime();
    let old = runtime.block_on(channel(&server, pki.authority.client(None, ALL))).expect("a connection");
    assert!(runtime.block_on(is_serving(&old)));

    let next = Authority::new();
    put(pki.directory.path(), "server.pem", "half a file");
    server.signal("HUP");
    server.wait_for_log(
        "reload of certificates failed, the previous state is kept: there is no certificate in ",
    );
    assert!(
        runtime.block_on(channel(&server, pki.authority.client(None, ALL))).is_ok(),
        "the old certificate is served"
    );

    next.issue(&["localhost"]).put(pki.directory.path(), "server");
    server.signal("HUP");
    let renewed = wait_for(DEADLINE, || runtime.block_on(channel(&server, next.client(None, ALL))).ok());
    assert!(renewed.is_some(), "{}", server.log());
    assert!(runtime.block_on(channel(&server, pki.authority.client(None, ALL))).is_err());
    assert!(runtime.block_on(is_serving(&old)), "existing connections stay");
}

#[test]
fn the_expiry_of_a_certificate_is_reported() {
    let pki = Pki::new("");
    let expiry = |server: &Server| server.metric("mixer_tls_certificate_expiry_timestamp_seconds");
    let fresh = pki.start(&[]);
    assert!(expiry(&fresh) > 4e9, "{}", expiry(&fresh));
    assert!(!fresh.log().contains("is valid until"), "{}", fresh.log());

    pki.authority.issue_until(&["localhost"], (2026, 1, 2)).put(pki.directory.path(), "server");
    fresh.signal("HUP");
    fresh.wait_for_log("the certificate in `");
    let warnings =
        [" has expired at 2026-01-02T00:00:00.000000Z", " is valid until 2026-01-02T00:00:00.000000Z only"];
    assert!(warnings.iter().any(|text| fresh.log().contains(text)), "{}", fresh.log());
    assert_eq!(expiry(&fresh), 1_767_312_000.0);
}

#[test]
fn tls_versions_below_the_minimum_are_refused() {
    let pki = Pki::new("");
    let runtime = runtime();
    let only_12 = &[&rustls::version::TLS12][..];
    let connects = |server: &Server, versions| {
        runtime.block_on(channel(server, pki.authority.client(None, versions))).is_ok()
    };
    let lenient = pki.start(&[]);
    assert!(connects(&lenient, only_12));
    assert!(connects(&lenient, ALL));
    let strict = pki.start(&["--tls-min-version", "1.3"]);
    assert!(!connects(&strict, only_12));
    assert!(connects(&strict, ALL));
    strict.wait_for_log("a connection was refused: the TLS handshake failed: ");
    strict.wait_for_log(" (see --tls-min-version)");
}

#[test]
fn inconsistent_tls_settings_are_a_startup_error() {
    let pki = Pki::new("");
    let refused = |more: &[&str]| {
        let server = Server::on(&pki.directory.path().join("config")).with(more);
        server.try_start().err().unwrap_or_default()
    };
    let reason = refused(&["--tls-cert-file", &pki.server.certificate]);
    assert!(reason.contains("unable to set up TLS: a certificate and its key belong together"), "{reason}");
    let keys = ["--tls-cert-file", &pki.server.certificate, "--tls-key-file", &pki.caller_files.key];
    let reason = refused(&keys);
    assert!(reason.contains("keys may not be consistent: KeyMismatch"), "{reason}");
}

/// Sends one request to the reflection service.
async fn reflect(channel: &Channel, question: MessageRequest) -> ServerReflectionResponse {
    let request = ServerReflectionRequest { host: String::new(), message_request: Some(question) };
    let requests = futures_util::stream::iter([request]);
    let mut client = ServerReflectionClient::new(channel.clone());
    let mut answers = client.server_reflection_info(requests).await.expect("reflection").into_inner();
    answers.message().await.expect("an answer").expect("an answer")
}

#[test]
fn reflection_describes_the_services() {
    use prost::Message as _;
    let pki = Pki::new("");
    let server = pki.start_mutual(&[]);
    let runtime = runtime();
    let config = pki.authority.client(Some(&pki.caller), ALL);
    let channel = runtime.block_on(channel(&server, config)).expect("a connection");
    let listed = runtime.block_on(reflect(&channel, MessageRequest::ListServices(String::new())));
    let Some(MessageResponse::ListServicesResponse(listed)) = listed.message_response else {
        panic!("{listed:?}")
    };
    let names: Vec<&str> = listed.service.iter().map(|s| s.name.as_str()).collect();
    for name in ["istio.mixer.v1.Mixer", "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection"] {
        assert!(names.contains(&name), "{names:?}");
    }
    let symbol = MessageRequest::FileContainingSymbol("istio.mixer.v1.Mixer".to_owned());
    let found = runtime.block_on(reflect(&channel, symbol));
    let Some(MessageResponse::FileDescriptorResponse(found)) = found.message_response else {
        panic!("{found:?}")
    };
    let files = found.file_descriptor_proto.iter();
    let files: Vec<_> =
        files.map(|f| prost_types::FileDescriptorProto::decode(&f[..]).expect("it decodes")).collect();
    let methods: Vec<_> = files.iter().flat_map(|f| &f.service).flat_map(|s| &s.method).collect();
    let check = methods.iter().find(|m| m.name() == "Check").expect("the method Check");
    assert_eq!(check.input_type(), ".istio.mixer.v1.CheckRequest");
}

#[test]
fn a_python_client_works_over_tls_and_mutual_tls() {
    let pki = Pki::new("");
    let secure = pki.start(&[]);
    let found = pki.generic(&secure, &[]);
    assert_eq!(found["answer"]["precondition"]["validUseCount"], 10000, "{found}");
    assert!(found["services"].to_string().contains("istio.mixer.v1.Mixer"), "{found}");

    let mutual = pki.start_mutual(&[]);
    let shown = ["--cert", &pki.caller_files.certificate, "--key", &pki.caller_files.key];
    let found = pki.generic(&mutual, &shown);
    assert_eq!(found["answer"]["precondition"]["validUseCount"], 10000, "{found}");
    let refused = pki.generic(&mutual, &[]);
    assert_eq!(refused["code"], "UNAVAILABLE", "{refused}");
}

#[test]
fn the_unix_socket_has_the_mode_of_the_setting() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let socket = directory.path().join("api.sock");
    let place = format!("unix://{}", socket.display());
    let server = Server::builder().with(&["--address", &place, "--socket-mode", "0600"]).native();
    let mut server = server.start();
    let granted = mixer(&["check", "--wait-for-ready", "--timeout", "120s", "-m", &place]);
    assert_eq!(granted.status, 0, "{granted:?}");
    let mode = std::fs::metadata(&socket).expect("the socket").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let names: Vec<_> = std::fs::read_dir(directory.path()).expect("readable").flatten().collect();
    assert_eq!(names.len(), 1, "{names:?}");
    assert_eq!(server.terminate(), Ok(Some(0)), "{}", server.log());
    assert!(!socket.exists());
    let late = mixer(&["check", "--wait-for-ready", "--timeout", "200ms", "-m", &place]);
    assert_eq!(late.status, 5, "{late:?}");
    assert!(late.stderr.contains("the server cannot be reached: "), "{late:?}");
}

/// What clients get that this host does not know by name: they may be on another one.
fn as_a_stranger(server: &Server, path: &str) -> String {
    use std::io::{Read as _, Write as _};
    let mut stream =
        std::net::TcpStream::connect(("127.0.0.1", server.ports.monitoring)).expect("it listens");
    stream.set_read_timeout(Some(crate::support::DEADLINE)).expect("a timeout");
    let request = format!("GET {path} HTTP/1.1\r\nHost: mixer.example\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    answer
}

#[test]
fn texts_of_conditions_are_told_to_clients_on_this_host_only() {
    const RULE: &str = "apiVersion: config.istio.io/v1alpha2\nkind: rule\nmetadata: {name: gate, namespace: istio-system}\nspec:\n  match: request.headers[\"x-token\"] VALUE\n  actions: [{handler: deny, instances: [none]}]\n---\napiVersion: config.istio.io/v1alpha2\nkind: handler\nmetadata: {name: deny, namespace: istio-system}\nspec: {compiledAdapter: denier}\n---\napiVersion: config.istio.io/v1alpha2\nkind: instance\nmetadata: {name: none, namespace: istio-system}\nspec: {compiledTemplate: checknothing}\n";
    const BROKEN: &str = "= \"s3cr3tvalue99\"";
    // Nothing serves at first; then the previous version does.
    for first in [BROKEN, "== \"a\""] {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let file = directory.path().join("policy.yaml");
        std::fs::write(&file, RULE.replace("VALUE", first)).expect("it is writable");
        let [checks, limits] = [(); 2].map(|()| format!("127.0.0.1:{}", free_port()));
        let for_envoy = ["--envoy-http-address", &checks, "--envoy-ratelimit-http-address", &limits];
        let server = Server::on(directory.path()).native().with(&for_envoy).start();
        std::fs::write(&file, RULE.replace("VALUE", BROKEN)).expect("it is writable");
        let url = server.monitoring_url("/readyz?verbose");
        let whole = crate::support::wait_for(crate::support::DEADLINE, || {
            let answer = crate::support::http("GET", &url, "").ok()?.body;
            answer.contains("s3cr3tvalue99").then_some(answer)
        });
        assert!(whole.is_some(), "on this host the text is told: {}", server.log());
        for path in ["/readyz?verbose", "/readyz", "/healthz"] {
            let answer = as_a_stranger(&server, path);
            assert!(answer.contains("HTTP/1.1 ") && !answer.contains("s3cr3tvalue99"), "{path}: {answer}");
        }
        let answer = as_a_stranger(&server, "/readyz?verbose");
        let told =
            ["\"firstError\"", "policy.yaml", "rule.istio-system", "its text is for clients on this host"];
        for text in told {
            assert!(answer.contains(text), "{text}: {answer}");
        }
        if first != BROKEN {
            continue;
        }
        // Callers pass on what they are told, wherever they are.
        let asked =
            |method: &str, url: String| crate::support::http(method, &url, "{}").expect("an answer").body;
        let told = [
            mixer(&["check", "-m", &server.address(), "-s", "request.path=/"]).stdout,
            mixer(&["report", "-m", &server.address(), "-s", "request.path=/"]).stdout,
            asked("GET", format!("http://{checks}/check/")),
            asked("POST", format!("http://{limits}/json")),
            asked("GET", format!("http://{limits}/rlconfig")),
        ];
        for told in told {
            assert!(!told.contains("s3cr3tvalue99"), "{told}");
            let place = [
                " of gate.rule.istio-system in ",
                "policy.yaml, line ",
                "; the log of the server has its text",
            ];
            assert!(place.iter().all(|place| told.contains(place)), "{told}");
        }
    }
}
