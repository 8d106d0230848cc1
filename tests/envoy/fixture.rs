//! Envoy, a server, two upstreams and certificates, on free loopback ports.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::support::browser::Browser;
use crate::support::{DEADLINE, Ports, Process, Server, envoy, eventually, free_port};

/// The version of HTTP of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Http {
    One,
    Two,
}

/// An HTTP response.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    /// 0 without a response.
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    /// The request headers that the upstream received, one per line; or the text of a denial.
    pub(crate) body: String,
}

impl Answer {
    /// The value of a header; empty when it is absent.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
    }
}

/// An HTTP client with a connection pool.
pub(crate) struct Client {
    one: reqwest::Client,
    two: reqwest::Client,
}

impl Client {
    fn new() -> Self {
        let builder = || {
            reqwest::Client::builder()
                .timeout(DEADLINE)
                .redirect(reqwest::redirect::Policy::none())
                .no_proxy()
        };
        Self {
            one: builder().http1_only().build().expect("a client"),
            two: builder().http2_prior_knowledge().build().expect("a client"),
        }
    }

    /// GET on a loopback port.
    pub(crate) async fn get(&self, port: u16, http: Http, path: &str, headers: &[(&str, &str)]) -> Answer {
        let client = if http == Http::One { &self.one } else { &self.two };
        send(client, &format!("http://127.0.0.1:{port}{path}"), headers).await
    }
}

async fn send(client: &reqwest::Client, url: &str, headers: &[(&str, &str)]) -> Answer {
    let request =
        headers.iter().fold(client.get(url), |request, (name, value)| request.header(*name, *value));
    match request.send().await {
        Err(error) => Answer { status: 0, headers: Vec::new(), body: format!("{error:?}") },
        Ok(response) => {
            let headers = response.headers().iter();
            let text =
                |value: &reqwest::header::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
            Answer {
                status: response.status().as_u16(),
                headers: headers.map(|(name, value)| (name.to_string(), text(value))).collect(),
                body: response.text().await.unwrap_or_default(),
            }
        }
    }
}

/// Everything that runs for one test.
pub(crate) struct Fixture {
    directory: TempDir,
    mixer: Option<Server>,
    _envoy: Process,
    client: Client,
    ports: Ports,
    /// A listener with failure_mode_allow false.
    pub(crate) closed: u16,
    /// A listener with failure_mode_allow true.
    pub(crate) open: u16,
    tls: u16,
    /// A listener with checks over HTTP and failure_mode_allow true.
    pub(crate) over_http: u16,
    /// The same without `path_prefix`.
    pub(crate) without_prefix: u16,
    /// Where the server serves checks over HTTP.
    mixer_http: u16,
    /// A TCP listener that policy allows.
    pub(crate) tcp_open: u16,
    /// A TCP listener that policy denies.
    pub(crate) tcp_closed: u16,
}

impl Fixture {
    /// Starts everything and waits until Envoy forwards requests.
    pub(crate) async fn start() -> Self {
        mixer_net::tls::install_crypto_provider();
        let directory = tempfile::tempdir().expect("a directory");
        let [closed, open, tls, over_http, without_prefix, mixer_http, tcp_open, tcp_closed, admin] =
            [(); 9].map(|()| free_port());
        let server_ports = Ports::free();
        let ports = [
            ("CLOSED", closed),
            ("OPEN", open),
            ("TLS", tls),
            ("TCP_OPEN", tcp_open),
            ("TCP_CLOSED", tcp_closed),
            ("ADMIN", admin),
            ("MIXER", server_ports.api),
            ("OVER_HTTP", over_http),
            ("WITHOUT_PREFIX", without_prefix),
            ("MIXER_HTTP", mixer_http),
            ("UPSTREAM", envoy::upstream()),
            ("ECHO", echo()),
        ];
        certificates(directory.path());
        configuration(directory.path(), &ports);
        let bootstrap = envoy::filled(include_str!("envoy.yaml"), &ports)
            .replace("$DIRECTORY", &directory.path().display().to_string());
        let envoy = envoy::start(directory.path(), &bootstrap);
        let mut fixture = Self {
            directory,
            mixer: None,
            _envoy: envoy,
            client: Client::new(),
            ports: server_ports,
            closed,
            open,
            tls,
            over_http,
            without_prefix,
            mixer_http,
            tcp_open,
            tcp_closed,
        };
        fixture.start_mixer();
        let ready = eventually(DEADLINE, || async {
            (fixture.get(Http::One, "/ready", &[]).await.status == 200).then_some(())
        });
        let log = || std::fs::read_to_string(fixture.directory.path().join("envoy.log")).unwrap_or_default();
        assert!(ready.await.is_some(), "Envoy forwards nothing: {}", log());
        fixture
    }

    /// Starts the server on the ports that Envoy knows.
    pub(crate) fn start_mixer(&mut self) {
        let policy = self.directory.path().join("policy");
        let http = format!("127.0.0.1:{}", self.mixer_http);
        let server = Server::on(&policy).on_ports(self.ports).with(&["--envoy-http-address", &http]);
        // Pictures show the product under its name.
        let server = if Browser::writes_pictures() { server.native() } else { server };
        self.mixer = Some(server.start());
    }

    /// Stops the server by SIGTERM; returns how long it took.
    pub(crate) fn stop_mixer(&mut self) -> Duration {
        let started = Instant::now();
        let mut mixer = self.mixer.take().expect("it runs");
        assert_eq!(mixer.terminate(), Ok(Some(0)), "{}", mixer.log());
        started.elapsed()
    }

    /// Another client.
    pub(crate) fn client(&self) -> Client {
        Client::new()
    }

    /// GET through the listener that fails closed.
    pub(crate) async fn get(&self, http: Http, path: &str, headers: &[(&str, &str)]) -> Answer {
        self.get_at(self.closed, http, path, headers).await
    }

    /// GET through a listener.
    pub(crate) async fn get_at(&self, port: u16, http: Http, path: &str, headers: &[(&str, &str)]) -> Answer {
        self.client.get(port, http, path, headers).await
    }

    /// GET over TLS with a certificate.
    pub(crate) async fn get_tls(&self, name: &str) -> Answer {
        let read = |name: String| std::fs::read(self.directory.path().join(name)).expect("it is readable");
        let identity = [read(format!("{name}.key")), read(format!("{name}.pem"))].concat();
        let client = reqwest::Client::builder()
            .timeout(DEADLINE)
            .no_proxy()
            .tls_certs_only([
                reqwest::Certificate::from_pem(&read("ca.pem".to_owned())).expect("a certificate")
            ])
            .identity(reqwest::Identity::from_pem(&identity).expect("a certificate with its key"))
            .build()
            .expect("a client");
        send(&client, &format!("https://localhost:{}/", self.tls), &[]).await
    }

    /// What a TCP listener echoes; `None` when the connection is reset or closed.
    pub(crate) async fn echo(&self, port: u16, bytes: &'static [u8]) -> Option<Vec<u8>> {
        let asked = tokio::task::spawn_blocking(move || {
            let mut socket = std::net::TcpStream::connect(("127.0.0.1", port)).ok()?;
            socket.set_read_timeout(Some(DEADLINE)).ok()?;
            socket.write_all(bytes).ok()?;
            let mut back = vec![0; bytes.len()];
            socket.read_exact(&mut back).ok()?;
            Some(back)
        });
        asked.await.expect("it does not panic")
    }

    /// Writes a rule that sets a response header to a number.
    pub(crate) fn write_marker(&self, round: u32) {
        let text = format!(
            "apiVersion: config.istio.io/v1alpha2\nkind: rule\nmetadata: {{name: marker, namespace: istio-system}}\n\
             spec:\n  match: context.protocol == \"http\"\n  responseHeaderOperations:\n  \
             - {{name: x-round, values: ['\"round-{round}\"'], operation: REPLACE}}\n"
        );
        let policy = self.directory.path().join("policy");
        std::fs::write(policy.join("marker.tmp"), text).expect("it is writable");
        std::fs::rename(policy.join("marker.tmp"), policy.join("marker.yaml")).expect("it is writable");
    }

    /// The port of ControlZ.
    pub(crate) fn controlz(&self) -> u16 {
        self.ports.ctrlz
    }

    /// The port of the metrics of the server itself.
    pub(crate) fn monitoring_port(&self) -> u16 {
        self.ports.monitoring
    }

    /// Metrics of the prometheus handlers.
    pub(crate) async fn metrics(&self) -> String {
        self.client.get(self.ports.metrics, Http::One, "/metrics", &[]).await.body_if_ok()
    }

    /// Metrics of the server itself.
    pub(crate) async fn monitoring(&self) -> String {
        self.client.get(self.ports.monitoring, Http::One, "/metrics", &[]).await.body_if_ok()
    }
}

impl Answer {
    fn body_if_ok(self) -> String {
        if self.status == 200 { self.body } else { String::new() }
    }
}

/// The policy of the example with smaller limits, and the rules of these tests.
fn configuration(directory: &Path, ports: &[(&str, u16)]) {
    let policy = directory.join("policy");
    std::fs::create_dir(&policy).expect("it is writable");
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/envoy/policy");
    for entry in std::fs::read_dir(example).expect("the example is there") {
        let path = entry.expect("a readable entry").path();
        // These tests have settings of their own.
        if path.ends_with("settings.yaml") {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("it is readable");
        // The window must not end during a test.
        let text =
            text.replace("unit: hour", "unit: year").replace("requests_per_unit: 3", "requests_per_unit: 2");
        std::fs::write(policy.join(path.file_name().expect("a name")), text).expect("it is writable");
    }
    let more = envoy::filled(include_str!("policy.yaml"), ports);
    std::fs::write(policy.join("tests.yaml"), more).expect("it is writable");
}

/// An authority, a server certificate, one of a service of the mesh and one of another trust domain.
fn certificates(directory: &Path) {
    let openssl = |arguments: &[&str]| {
        let run = Command::new("openssl").args(arguments).current_dir(directory).output();
        let run = run.unwrap_or_else(|error| {
            panic!("there is no openssl: install the Debian package openssl ({error})")
        });
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    };
    let curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
    let authority = ["req", "-x509", "-subj", "/CN=ca", "-days", "2", "-keyout", "ca.key", "-out", "ca.pem"];
    openssl(&[&authority[..], &curve].concat());
    for (name, subject, names) in [
        ("server", "/CN=server", "DNS:localhost"),
        ("client", "/O=acme/CN=client", "URI:spiffe://cluster.local/ns/web/sa/productpage"),
        ("other", "/CN=other", "URI:spiffe://other.example/ns/batch/sa/etl"),
    ] {
        let (key, request, certificate) =
            (format!("{name}.key"), format!("{name}.csr"), format!("{name}.pem"));
        let asked = ["req", "-subj", subject, "-keyout", &key, "-out", &request];
        openssl(&[&asked[..], &curve].concat());
        let mut extensions = String::new();
        let _ = writeln!(extensions, "subjectAltName={names}");
        std::fs::write(directory.join("extensions"), extensions).expect("it is writable");
        openssl(&[
            "x509",
            "-req",
            "-in",
            &request,
            "-CA",
            "ca.pem",
            "-CAkey",
            "ca.key",
            "-CAcreateserial",
            "-days",
            "2",
            "-extfile",
            "extensions",
            "-out",
            &certificate,
        ]);
    }
}

/// A TCP echo server.
fn echo() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    std::thread::spawn(move || {
        for mut socket in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut writer = socket.try_clone()?;
                std::io::copy(&mut socket, &mut writer)
            });
        }
    });
    port
}
