//! The proxies that are measured: each a process of its own with one worker.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use mixer_base::log::{Log, LogOptions};
use mixer_proxy::server::{self, Options};

use super::Outcome;

/// What is proxied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Http,
    /// HTTP with an access log.
    Log,
    /// HTTP with the Mixer filter, of ours.
    Policy,
    Tcp,
}

impl Kind {
    /// Its name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Http => "http",
            Kind::Log => "log",
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
    };
    server::serve(bootstrap, options, Log::new(&LogOptions::default())?)?;
    Ok(())
}

fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// Starts the host.
pub(crate) fn start_host() -> Outcome<Peer> {
    let port = free_port()?;
    let address = format!("127.0.0.1:{port}");
    Peer::start("host", port, Command::new(std::env::current_exe()?).args(["host", &address]))
}

/// Starts a server of policies with the sample configuration, if `MIXER` names the program.
pub(crate) fn start_server() -> Outcome<Option<Peer>> {
    let Some(program) = std::env::var_os("MIXER") else { return Ok(None) };
    let port = free_port()?;
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
        let bootstrap = bootstrap(kind);
        let port = free_port()?;
        let path = write("mixer.yaml", &bootstrap, port)?;
        let own = std::env::current_exe()?;
        peers.push(Self::start("mixer", port, Command::new(&own).arg("serve").arg(path))?);
        if let Some(envoy) = envoy() {
            let port = free_port()?;
            // It has no Mixer filter any more.
            let plain = self::bootstrap(if kind == Kind::Policy { Kind::Http } else { kind });
            let path = write("envoy.yaml", &plain, port)?;
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
        if let Some(haproxy) = installed("haproxy").filter(|_| kind != Kind::Log) {
            let port = free_port()?;
            let mode = if kind == Kind::Tcp { "tcp" } else { "http" };
            let text = HAPROXY.replace("$MODE", mode);
            let path = write("haproxy.cfg", &text, port)?;
            peers.push(Self::start("haproxy", port, Command::new(haproxy).arg("-db").arg("-f").arg(path))?);
        }
        if let Some(nginx) = installed("nginx").filter(|_| kind != Kind::Tcp) {
            let port = free_port()?;
            let log = if kind == Kind::Log { "$LOG combined buffer=64k flush=1s" } else { "off" };
            let path = write("nginx.conf", &NGINX.replace("$ACCESS", log), port)?;
            peers.push(Self::start("nginx", port, Command::new(nginx).arg("-c").arg(path))?);
        }
        if kind == Kind::Tcp {
            let port = free_port()?;
            let (listen, host) = (format!("127.0.0.1:{port}"), format!("127.0.0.1:{host}"));
            peers.push(Self::start("relay", port, Command::new(&own).args(["relay", &listen, &host]))?);
        }
        Ok(peers)
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

/// The bootstrap of ours and of Envoy.
fn bootstrap(kind: Kind) -> String {
    let log = match kind {
        Kind::Log => {
            r#"
          access_log:
          - name: envoy.access_loggers.file
            typed_config: {"@type": type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog, path: $LOG}"#
        }
        _ => "",
    };
    let mixer = match kind {
        Kind::Policy => {
            r#"
          - name: mixer
            typed_config:
              "@type": type.googleapis.com/istio.mixer.v1.config.client.HttpClientConfig
              transport: {check_cluster: server, report_cluster: server, network_fail_policy: {policy: FAIL_CLOSE}}
              default_destination_service: shop
              service_configs: {shop: {}}"#
        }
        _ => "",
    };
    let server = match kind {
        Kind::Policy => {
            r#"  - name: server
    connect_timeout: 5s
    http2_protocol_options: {}
    load_assignment: {cluster_name: server, endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: $SERVER}}}}]}]}
"#
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
          http_filters:{mixer}
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
    - filters:{filter}
  clusters:
  - name: host
    connect_timeout: 5s
    load_assignment: {{cluster_name: host, endpoints: [{{lb_endpoints: [{{endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: $HOST}}}}}}}}]}}]}}
{server}"#
    )
}

const HAPROXY: &str = "global
  nbthread 1
defaults
  mode $MODE
  timeout connect 5s
  timeout client 60s
  timeout server 60s
frontend in
  bind 127.0.0.1:$PORT
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
    listen 127.0.0.1:$PORT;
    location / { proxy_pass http://host; proxy_http_version 1.1; proxy_set_header Connection ''; proxy_set_header Host $host; }
  }
}
";
