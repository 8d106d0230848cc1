//! A proxy with a Mixer filter, and a host behind it that answers with what it received.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use tempfile::TempDir;

use crate::support::{DEADLINE, HttpAnswer, Process, free_port, http, http_with, programs, wait_for};

/// The identity of the node in these tests.
const NODE: &str = "node: {id: p, metadata: {NODE_UID: POD11, NODE_NAMESPACE: XYZ11}}\n";

/// What a proxy is started with.
pub(crate) struct Setup<'s> {
    /// Where Mixer is.
    pub(crate) mixer: SocketAddr,
    /// Fields of `transport`, in braces.
    pub(crate) transport: &'s str,
    /// Further fields of the configuration of the filter, in braces.
    pub(crate) filter: &'s str,
    /// Further fields of the route to the host.
    pub(crate) route: &'s str,
    /// A further field of the connection manager; `$DIRECTORY` is that of the proxy.
    pub(crate) manager: &'s str,
    /// A further field of the cluster of Mixer.
    pub(crate) cluster: &'s str,
    /// Whether the node has an identity.
    pub(crate) has_identity: bool,
    /// Further flags of the command line.
    pub(crate) flags: &'s [&'s str],
}

impl Setup<'_> {
    /// Fails closed, with one service of which everything is checked and reported.
    pub(crate) fn to(mixer: SocketAddr) -> Self {
        Self {
            mixer,
            transport: "{network_fail_policy: {policy: FAIL_CLOSE}, report_batch_max_time: 0.05s}",
            filter: "{default_destination_service: all, service_configs: {all: {}}}",
            route: "",
            manager: "",
            cluster: "",
            has_identity: true,
            flags: &[],
        }
    }

    /// Starts an HTTP proxy.
    pub(crate) fn http(&self) -> Proxy {
        let extension = |fields: &str| match fields.strip_prefix('{').and_then(|text| text.strip_suffix('}'))
        {
            Some("") | None => String::new(),
            Some(inner) => format!(", {inner}"),
        };
        let host = Host::http();
        let (route, manager, filter) = (self.route, self.manager, extension(self.filter));
        let chain = format!(
            r#"
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          '@type': type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: in
          {manager}
          route_config:
            virtual_hosts:
            - name: all
              domains: ['*']
              routes:
              - match: {{path: /here}}
                direct_response: {{status: 200, body: {{inline_string: "from here\n"}}}}
              - match: {{prefix: /nowhere}}
                route: {{cluster: dead}}
              - match: {{prefix: /}}
                route: {{cluster: host}}
                {route}
          http_filters:
          - name: mixer
            typed_config: {{'@type': type.googleapis.com/istio.mixer.v1.config.client.HttpClientConfig, transport: {}{filter}}}
          - name: envoy.filters.http.router
            typed_config: {{'@type': type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}"#,
            self.transport
        );
        self.start(host, &chain)
    }

    /// Starts a TCP proxy to a host that says `hello` and echoes.
    pub(crate) fn tcp(&self) -> Proxy {
        let chain = format!(
            r#"
      - name: mixer
        typed_config: {{'@type': type.googleapis.com/istio.mixer.v1.config.client.TcpClientConfig, transport: {}, {}}}
      - name: envoy.filters.network.tcp_proxy
        typed_config:
          '@type': type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy
          stat_prefix: in
          cluster: host"#,
            self.transport, self.filter
        );
        self.start(Host::echo(), &chain)
    }

    fn start(&self, host: Host, chain: &str) -> Proxy {
        let directory = tempfile::Builder::new().prefix("mixer-proxy").tempdir().unwrap();
        let (log, admin) = (directory.path().join("log"), directory.path().join("admin"));
        let port = free_port();
        let mut clusters = String::new();
        for (name, address, field) in [
            ("host", host.address.port(), ""),
            ("mixer_server", self.mixer.port(), self.cluster),
            ("dead", free_port(), ""),
        ] {
            write!(
                clusters,
                r#"
  - name: {name}
    type: STATIC
    {field}
    connect_timeout: 1s
    load_assignment: {{cluster_name: {name}, endpoints: [{{lb_endpoints: [{{endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {address}}}}}}}}}]}}]}}"#
            )
            .unwrap();
        }
        let node = if self.has_identity { NODE } else { "" };
        let text = format!(
            r#"{node}admin: {{address: {{socket_address: {{address: 127.0.0.1, port_value: 0}}}}}}
static_resources:
  listeners:
  - name: web
    address: {{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}
    filter_chains:
    - filters:{chain}
  clusters:{clusters}
"#
        );
        let text = text.replace("$DIRECTORY", &directory.path().display().to_string());
        let mut command = Command::new(programs().path("mixer"));
        command.args(["proxy", "--concurrency", "1", "--config-yaml", &text]).args(self.flags);
        command.args([
            "--log-path".as_ref(),
            log.as_os_str(),
            "--admin-address-path".as_ref(),
            admin.as_os_str(),
        ]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = Process::spawn(&mut command).unwrap();
        // Not by a connection to the listener, which would be one more to report.
        let ready = wait_for(DEADLINE, || {
            if process.ended().is_some() {
                return Some(None);
            }
            let admin = std::fs::read_to_string(&admin).ok().filter(|text| !text.is_empty())?;
            let is_live =
                http("GET", &format!("http://{admin}/ready"), "").is_ok_and(|ready| ready.status == 200);
            is_live.then_some(Some(admin))
        });
        let Some(Some(admin)) = ready else {
            panic!("{}\n{text}", std::fs::read_to_string(&log).unwrap_or_default());
        };
        Proxy { port, admin, process, host, directory }
    }
}

/// A running proxy.
pub(crate) struct Proxy {
    pub(crate) port: u16,
    admin: String,
    process: Process,
    pub(crate) host: Host,
    directory: TempDir,
}

impl Proxy {
    /// GET of a path with header fields.
    pub(crate) fn get(&self, path: &str, headers: &[(&str, &str)]) -> HttpAnswer {
        http_with("GET", &format!("http://127.0.0.1:{}{path}", self.port), headers, "").unwrap()
    }

    /// The value of a statistic.
    pub(crate) fn stat(&self, name: &str) -> u64 {
        let stats = http("GET", &format!("http://{}/stats", self.admin), "").unwrap().body;
        let line = stats.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        line.unwrap_or_else(|| panic!("no {name} in\n{stats}")).parse().unwrap()
    }

    /// A file in its directory: `log`, and what the configuration names.
    pub(crate) fn file(&self, name: &str) -> String {
        std::fs::read_to_string(self.directory.path().join(name)).unwrap_or_default()
    }

    /// The memory of its process, in bytes.
    pub(crate) fn memory(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let kilobytes = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        kilobytes.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
    }

    /// Sends a request as it is, without waiting for the answer.
    pub(crate) fn send(&self, head: &str) -> TcpStream {
        let mut client = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        client.set_read_timeout(Some(DEADLINE)).unwrap();
        client.write_all(head.as_bytes()).unwrap();
        client
    }

    /// Checks what holds of the statistics of a filter at any time without calls in flight.
    pub(crate) fn assert_identities(&self, kind: &str) {
        let of = |name: &str| self.stat(&format!("{kind}_mixer_filter.total_{name}"));
        assert_eq!(of("check_calls"), of("check_cache_hits") + of("check_cache_misses"));
        assert_eq!(of("check_cache_hits"), of("check_cache_hit_accepts") + of("check_cache_hit_denies"));
        assert_eq!(of("remote_check_calls"), of("check_cache_misses"));
        assert_eq!(of("quota_calls"), of("quota_cache_hits") + of("quota_cache_misses"));
        assert_eq!(of("quota_cache_hits"), of("quota_cache_hit_accepts") + of("quota_cache_hit_denies"));
        let ended = ["successes", "timeouts", "send_errors", "other_errors"];
        let calls: u64 = ended.iter().map(|end| of(&format!("remote_call_{end}"))).sum();
        assert_eq!(of("remote_calls"), calls + of("remote_call_cancellations"));
    }

    /// Tells it to end, and waits.
    pub(crate) fn stop(mut self) {
        self.process.signal("TERM");
        assert_eq!(self.process.wait(DEADLINE), Some(Some(0)));
    }
}

/// A host.
pub(crate) struct Host {
    pub(crate) address: SocketAddr,
    /// The heads that it received.
    pub(crate) heads: Arc<Mutex<Vec<String>>>,
}

impl Host {
    /// Answers `200` and the body `served`.
    fn http() -> Self {
        Self::start(|mut stream, heads| {
            let mut received = Vec::new();
            let mut part = [0; 4096];
            while !received.windows(4).any(|window| window == b"\r\n\r\n") {
                match stream.read(&mut part) {
                    Ok(count @ 1..) => received.extend_from_slice(&part[..count]),
                    _ => return,
                }
            }
            heads.lock().unwrap().push(String::from_utf8_lossy(&received).into_owned());
            let answer =
                "HTTP/1.1 200 OK\r\ncontent-length: 7\r\nx-host: one\r\nconnection: close\r\n\r\nserved\n";
            let _ = stream.write_all(answer.as_bytes());
        })
    }

    /// Says `hello`, and sends back what it receives.
    fn echo() -> Self {
        Self::start(|mut stream, _| {
            let _ = stream.write_all(b"hello");
            let mut part = [0; 4096];
            while let Ok(count @ 1..) = stream.read(&mut part) {
                let _ = stream.write_all(&part[..count]);
            }
            let _ = stream.shutdown(Shutdown::Both);
        })
    }

    fn start(serve: impl Fn(TcpStream, &Mutex<Vec<String>>) + Send + Copy + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let heads = Arc::<Mutex<Vec<String>>>::default();
        let kept = Arc::clone(&heads);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let heads = Arc::clone(&heads);
                std::thread::spawn(move || serve(stream, &heads));
            }
        });
        Self { address, heads: kept }
    }

    /// The head of the last request.
    pub(crate) fn last_head(&self) -> String {
        self.heads.lock().unwrap().last().cloned().unwrap_or_default()
    }
}

/// The status and the body of the next answer, which has a length.
pub(crate) fn read_answer(client: &mut TcpStream) -> (u16, String) {
    let mut received = Vec::new();
    let mut part = [0; 4096];
    let (head, body) = loop {
        let text = String::from_utf8_lossy(&received).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap_or("0");
            if body.len() >= length.parse::<usize>().unwrap() {
                break (head.to_owned(), body.to_owned());
            }
        }
        match client.read(&mut part).unwrap() {
            0 => panic!("the connection ended after {text:?}"),
            count => received.extend_from_slice(&part[..count]),
        }
    };
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body)
}

/// The value of a header.
pub(crate) fn header<'a>(answer: &'a HttpAnswer, name: &str) -> Option<&'a str> {
    answer.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}
