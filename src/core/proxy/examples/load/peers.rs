//! The proxies that are measured: each a process of its own with one worker.

use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use mixer_base::log::{Log, LogOptions};
use mixer_proxy::server::{self, Options};
use rustls::pki_types::CertificateDer;

use super::Outcome;
use super::client::HOST;
use super::ports::next_free_port;

/// What is proxied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Http,
    /// HTTP with an access log.
    Log,
    /// HTTP/2 of clients, HTTP/1.1 of the host.
    Http2,
    /// HTTP over TLS of clients.
    Tls,
    /// HTTP with the Mixer filter, its cache and its reports; Envoy asks the same server by external authorization and sends it its access log.
    Policy,
    Tcp,
}

impl Kind {
    /// Its name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Http => "http",
            Kind::Log => "log",
            Kind::Http2 => "http2",
            Kind::Tls => "tls",
            Kind::Policy => "policy",
            Kind::Tcp => "tcp",
        }
    }
}

/// A process that is measured; killed when dropped.
pub(crate) struct Peer {
    pub(crate) name: &'static str,
    pub(crate) port: u16,
    child: Child,
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a bootstrap in this process.
pub(crate) fn serve(path: &str) -> Outcome<()> {
    let text = std::fs::read_to_string(path)?;
    let (bootstrap, _) =
        mixer_proxy::bootstrap::read(&text, path).map_err(|problems| format!("{path}: {problems:?}"))?;
    let options = Options {
        concurrency: 1,
        config_path: path.to_owned(),
        admin_address_path: None,
        terminate_drain: Duration::ZERO,
        drain: server::DrainOptions::default(),
        exact_tcp_deltas: false,
        body_memory: server::DEFAULT_BODY_MEMORY,
    };
    server::serve(bootstrap, options, Log::new(&LogOptions::default())?)?;
    Ok(())
}

/// What the proxies have for [`Kind::Tls`]: `cert.pem`, `key.pem`, and `both.pem` for HAProxy, in the directory.
pub(crate) fn write_certificate(directory: &Path) -> Outcome<CertificateDer<'static>> {
    let made = rcgen::generate_simple_self_signed([HOST.to_owned()])?;
    let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    std::fs::write(directory.join("cert.pem"), &certificate)?;
    std::fs::write(directory.join("key.pem"), &key)?;
    std::fs::write(directory.join("both.pem"), certificate + &key)?;
    Ok(made.cert.der().clone())
}

/// Starts the host.
pub(crate) fn start_host() -> Outcome<Peer> {
    let port = next_free_port()?;
    let address = format!("127.0.0.1:{port}");
    Peer::start("host", port, Command::new(std::env::current_exe()?).args(["host", &address]))
}

/// Starts a server of policies with the sample configuration, if `MIXER` names the program.
pub(crate) fn start_server() -> Outcome<Option<Peer>> {
    let Some(program) = std::env::var_os("MIXER") else { return Ok(None) };
    let port = next_free_port()?;
    let address = format!("tcp://127.0.0.1:{port}");
    let mut command = Command::new(program);
    command.args([
        "server",
        "--address",
        &address,
        "--monitoring-port",
        "0",
        "--ctrlz-port",
        "0",
        "--metrics-address",
        "127.0.0.1:0",
    ]);
    Peer::start("server", port, &mut command).map(Some)
}

impl Peer {
    fn start(name: &'static str, port: u16, command: &mut Command) -> Outcome<Self> {
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let mut peer = Self { name, port, child };
        let begun = Instant::now();
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        while TcpStream::connect(address).is_err() {
            if let Some(status) = peer.child.try_wait()? {
                return Err(format!("{name} has ended: {status}").into());
            }
            if begun.elapsed() > Duration::from_secs(30) {
                return Err(format!("{name} does not listen").into());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(peer)
    }

    /// Starts everything that is installed.
    pub(crate) fn start_all(kind: Kind, host: u16, server: u16, directory: &Path) -> Outcome<Vec<Self>> {
        let mut peers = Vec::new();
        let write = |name: &str, text: &str, port: u16| -> Outcome<PathBuf> {
            let path = directory.join(format!("{}-{name}", kind.name()));
            let log = directory.join(format!("{name}.log"));
            let text = text
                .replace("$PORT", &port.to_string())
                .replace("$HOST", &host.to_string())
                .replace("$SERVER", &server.to_string())
                .replace("$DIRECTORY", &directory.display().to_string())
                .replace("$LOG", &log.display().to_string());
            std::fs::write(&path, text)?;
            Ok(path)
        };
        let port = next_free_port()?;
        let path = write("mixer.yaml", &bootstrap(kind, kind == Kind::Policy), port)?;
        let own = std::env::current_exe()?;
        peers.push(Self::start("mixer", port, Command::new(&own).arg("serve").arg(path))?);
        if let Some(envoy) = envoy() {
            let port = next_free_port()?;
            // It has no Mixer filter any more.
            let path = write("envoy.yaml", &bootstrap(kind, false), port)?;
            let base = (std::process::id() % 60_000).to_string();
            let mut command = Command::new(envoy);
            command.arg("-c").arg(path).args([
                "--concurrency",
                "1",
                "--base-id",
                &base,
                "--log-level",
                "error",
            ]);
            peers.push(Self::start("envoy", port, &mut command)?);
        }
        if let Some(haproxy) = installed("haproxy").filter(|_| !matches!(kind, Kind::Log | Kind::Policy)) {
            let port = next_free_port()?;
            let mode = if kind == Kind::Tcp { "tcp" } else { "http" };
            let bind = match kind {
                Kind::Tls => " ssl crt $DIRECTORY/both.pem",
                Kind::Http2 => " proto h2",
                _ => "",
            };
            let text = HAPROXY.replace("$MODE", mode).replace("$BIND", bind);
            let path = write("haproxy.cfg", &text, port)?;
            peers.push(Self::start("haproxy", port, Command::new(haproxy).arg("-db").arg("-f").arg(path))?);
        }
        if let Some(nginx) = installed("nginx").filter(|_| !matches!(kind, Kind::Tcp | Kind::Policy)) {
            let port = next_free_port()?;
            let log = if kind == Kind::Log { "$LOG combined buffer=64k flush=1s" } else { "off" };
            let listen = match kind {
                Kind::Tls => {
                    " ssl; ssl_certificate $DIRECTORY/cert.pem; ssl_certificate_key $DIRECTORY/key.pem"
                }
                Kind::Http2 => " http2",
                _ => "",
            };
            let text = NGINX.replace("$ACCESS", log).replace("$LISTEN", listen);
            let path = write("nginx.conf", &text, port)?;
            peers.push(Self::start("nginx", port, Command::new(nginx).arg("-c").arg(path))?);
        }
        if kind == Kind::Tcp {
            let port = next_free_port()?;
            let (listen, host) = (format!("127.0.0.1:{port}"), format!("127.0.0.1:{host}"));
            peers.push(Self::start("relay", port, Command::new(&own).args(["relay", &listen, &host]))?);
        }
        Ok(peers)
    }

    /// Resident memory in bytes. Errors: the process has ended.
    pub(crate) fn resident(&self) -> Outcome<u64> {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
        Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? * 1024)
    }

    /// CPU time of all threads so far, in nanoseconds of the scheduler. Errors: the process has ended.
    pub(crate) fn cpu(&self) -> Outcome<Duration> {
        let mut nanos = 0;
        for task in std::fs::read_dir(format!("/proc/{}/task", self.child.id()))? {
            // A thread may end meanwhile.
            let Ok(text) = std::fs::read_to_string(task?.path().join("schedstat")) else { continue };
            nanos += text.split(' ').next().and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
        }
        Ok(Duration::from_nanos(nanos))
    }
}

fn installed(program: &str) -> Option<PathBuf> {
    ["/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin"]
        .into_iter()
        .map(|directory| Path::new(directory).join(program))
        .find(|path| path.is_file())
}

fn envoy() -> Option<PathBuf> {
    let named = std::env::var_os("ENVOY").map(PathBuf::from);
    named.or_else(|| Some(PathBuf::from("target/python/bin/envoy"))).filter(|path| path.is_file())
}

/// The bootstrap of ours and of Envoy. With [`Kind::Policy`] the server is asked by the Mixer filter, or by the filters that Envoy has.
fn bootstrap(kind: Kind, has_mixer: bool) -> String {
    let log = match kind {
        Kind::Log => {
            r#"
          access_log:
          - name: envoy.access_loggers.file
            typed_config: {"@type": type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog, path: $LOG}"#
        }
        Kind::Policy if !has_mixer => {
            r#"
          access_log:
          - name: envoy.access_loggers.http_grpc
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.access_loggers.grpc.v3.HttpGrpcAccessLogConfig
              common_config: {log_name: load, transport_api_version: V3, grpc_service: {envoy_grpc: {cluster_name: server}}}"#
        }
        _ => "",
    };
    let policy = match kind {
        Kind::Policy if has_mixer => {
            r#"
          - name: mixer
            typed_config:
              "@type": type.googleapis.com/istio.mixer.v1.config.client.HttpClientConfig
              transport: {check_cluster: server, report_cluster: server, network_fail_policy: {policy: FAIL_CLOSE}}
              default_destination_service: shop
              service_configs: {shop: {}}"#
        }
        Kind::Policy => {
            r#"
          - name: envoy.filters.http.ext_authz
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.ext_authz.v3.ExtAuthz
              transport_api_version: V3
              grpc_service: {envoy_grpc: {cluster_name: server}}"#
        }
        _ => "",
    };
    let server = match kind {
        Kind::Policy if has_mixer => SERVER.replace("$PROTOCOL", "http2_protocol_options: {}"),
        Kind::Policy => SERVER.replace(
            "$PROTOCOL",
            r#"typed_extension_protocol_options: {envoy.extensions.upstreams.http.v3.HttpProtocolOptions: {"@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions, explicit_http_config: {http2_protocol_options: {}}}}"#,
        ),
        _ => String::new(),
    };
    let tls = match kind {
        Kind::Tls => {
            r#"
      transport_socket:
        name: envoy.transport_sockets.tls
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext
          common_tls_context: {tls_certificates: [{certificate_chain: {filename: $DIRECTORY/cert.pem}, private_key: {filename: $DIRECTORY/key.pem}}]}"#
        }
        _ => "",
    };
    let filter = match kind {
        Kind::Tcp => {
            r#"
      - name: envoy.filters.network.tcp_proxy
        typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy, stat_prefix: raw, cluster: host}"#
            .to_owned()
        }
        _ => format!(
            r#"
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: in{log}
          http_filters:{policy}
          - name: envoy.filters.http.router
            typed_config: {{"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}
          route_config:
            virtual_hosts:
            - {{name: all, domains: ["*"], routes: [{{match: {{prefix: /}}, route: {{cluster: host}}}}]}}"#
        ),
    };
    format!(
        r#"static_resources:
  listeners:
  - name: in
    address: {{socket_address: {{address: 127.0.0.1, port_value: $PORT}}}}
    filter_chains:
    - filters:{filter}{tls}
  clusters:
  - name: host
    connect_timeout: 5s
    load_assignment: {{cluster_name: host, endpoints: [{{lb_endpoints: [{{endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: $HOST}}}}}}}}]}}]}}
{server}"#
    )
}

const SERVER: &str = "  - name: server
    connect_timeout: 5s
    $PROTOCOL
    load_assignment: {cluster_name: server, endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: $SERVER}}}}]}]}
";

const HAPROXY: &str = "global
  nbthread 1
defaults
  mode $MODE
  timeout connect 5s
  timeout client 60s
  timeout server 60s
frontend in
  bind 127.0.0.1:$PORT$BIND
  default_backend host
backend host
  http-reuse always
  server host 127.0.0.1:$HOST
";

const NGINX: &str = "daemon off;
master_process off;
worker_processes 1;
pid $DIRECTORY/nginx.pid;
error_log $DIRECTORY/nginx.error;
events { worker_connections 4096; }
http {
  access_log $ACCESS;
  client_body_temp_path $DIRECTORY/body; proxy_temp_path $DIRECTORY/proxy; fastcgi_temp_path $DIRECTORY/fastcgi;
  uwsgi_temp_path $DIRECTORY/uwsgi; scgi_temp_path $DIRECTORY/scgi;
  keepalive_requests 100000000;
  upstream host { server 127.0.0.1:$HOST; keepalive 64; keepalive_requests 100000000; }
  server {
    listen 127.0.0.1:$PORT$LISTEN;
    location / { proxy_pass http://host; proxy_http_version 1.1; proxy_set_header Connection ''; proxy_set_header Host $host; }
  }
}
";
