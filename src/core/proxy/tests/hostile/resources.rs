//! Memory and descriptors, of a proxy in a process of its own.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mixer_base::log::{Log, LogOptions};
use mixer_proxy::server::{self, DrainOptions, Options};

use crate::proxy::{ask_admin, stat, stat_if_answered, wait_for};
use crate::scene::{ask, bootstrap, connect, echo, read_exact, read_head, serve, status};

/// The proxy of another process.
struct Apart {
    child: Child,
    http: u16,
    admin: u16,
}

impl Drop for Apart {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Serves until it is killed, if a parent says what.
#[test]
fn serves_for_a_parent() {
    let Ok(text) = std::env::var("PROXY_TEST_BOOTSTRAP") else { return };
    // Each line is the name of a task that is to panic.
    std::thread::spawn(|| {
        for name in std::io::stdin().lines() {
            mixer_base::task::inject_panic(&name.unwrap());
        }
    });
    let (bootstrap, _) = mixer_proxy::bootstrap::read(&text, "bootstrap.yaml").unwrap();
    let options = Options {
        concurrency: 1,
        config_path: "bootstrap.yaml".to_owned(),
        admin_address_path: None,
        terminate_drain: std::time::Duration::ZERO,
        drain: DrainOptions::default(),
        exact_tcp_deltas: false,
        body_memory: server::DEFAULT_BODY_MEMORY,
    };
    server::serve(bootstrap, options, Log::new(&LogOptions::default()).unwrap()).unwrap();
}

impl Apart {
    /// Starts one with a limit on descriptors.
    fn start(host: u16, descriptors: u32) -> Self {
        Self::start_before(host, echo(), descriptors)
    }

    /// As [`start`](Self::start), with a host for TCP and copies of requests.
    fn start_before(host: u16, raw: u16, descriptors: u32) -> Self {
        let (text, [http, _, admin]) = bootstrap(host, raw);
        Self::start_as(text, http, admin, descriptors)
    }

    /// As [`start`](Self::start), with a bootstrap.
    fn start_as(text: String, http: u16, admin: u16, descriptors: u32) -> Self {
        let child = Command::new("prlimit")
            .arg(format!("--nofile={descriptors}"))
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "--nocapture", "resources::serves_for_a_parent"])
            .env("PROXY_TEST_BOOTSTRAP", text)
            .env("MIXER_FAULTS", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let apart = Self { child, http, admin };
        wait_for("the proxy is ready", || {
            ask_admin(admin, "GET", "/ready").filter(|(status, _)| *status == 200)
        });
        apart
    }

    /// Resident memory in bytes.
    fn resident(&self) -> u64 {
        self.memory("VmRSS:")
    }

    /// The same without code, of which this program has much more than what users run, and the system keeps as much in memory as it likes.
    fn resident_data(&self) -> u64 {
        self.memory("RssAnon:")
    }

    fn memory(&self, what: &str) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(what)).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
    }

    /// The number of its descriptors.
    fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap().count()
    }

    /// Waits until it has so many connections of clients.
    fn wait_for_connections(&self, count: u64) {
        let active = || stat_if_answered(self.admin, "http.in.downstream_cx_active");
        wait_for("connections", || (active()? == count).then_some(()));
    }
}

/// Raises the limit on descriptors of this process.
fn allow_descriptors(count: u32) {
    let own = std::process::id().to_string();
    let raised =
        Command::new("prlimit").args(["--pid", &own, &format!("--nofile={count}")]).status().unwrap();
    assert!(raised.success(), "this test needs {count} file descriptors");
}

#[test]
fn idle_connections_take_little_memory() {
    const REQUEST: &[u8] = b"GET /direct HTTP/1.1\r\nHost: h\r\nUser-Agent: a client\r\nAccept: */*\r\n\r\n";
    allow_descriptors(20_000);
    let proxy = Apart::start(serve(|_, _| {}), 20_000);
    let mut clients: Vec<TcpStream> = Vec::new();
    for (count, megabytes) in [(100, 4), (10_000, 44)] {
        while clients.len() < count {
            let mut client = connect(proxy.http);
            // Each has had an answer; every tenth also sent a head of 50 KiB.
            if clients.len().is_multiple_of(10) {
                write!(client, "GET /direct HTTP/1.1\r\nHost: h\r\nX: {}\r\n\r\n", "x".repeat(50 << 10))
                    .unwrap();
            } else {
                client.write_all(REQUEST).unwrap();
            }
            assert_eq!(status(&read_head(&mut client).unwrap()), 200);
            assert_eq!(read_exact(&mut client, 6), b"direct");
            clients.push(client);
        }
        proxy.wait_for_connections(count as u64);
        let resident = proxy.resident_data();
        println!("{count} idle connections: {:.1} MB", resident as f64 / 1e6);
        assert!(resident <= megabytes * 1_000_000, "{count} idle connections: {resident} bytes");
    }
}

#[test]
fn clients_that_do_not_read_take_bounded_memory() {
    const CLIENTS: u64 = 200;
    let proxy = Apart::start(
        serve(|mut stream, _| {
            if read_head(&mut stream).is_none() || stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").is_err() {
                return;
            }
            while stream.write_all(&[b'x'; 65536]).is_ok() {}
        }),
        1024,
    );
    let before = proxy.resident();
    let clients: Vec<TcpStream> = (0..CLIENTS)
        .map(|_| {
            let mut client = connect(proxy.http);
            client.write_all(b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
            client
        })
        .collect();
    proxy.wait_for_connections(CLIENTS);
    let mut moved = 0;
    wait_for("nothing moves any more", || {
        let now = stat(proxy.admin, "cluster.host.upstream_cx_rx_bytes_total");
        let is_at_rest = now == moved && now > 0;
        moved = now;
        std::thread::sleep(std::time::Duration::from_millis(300));
        is_at_rest.then_some(())
    });
    let each = proxy.resident().saturating_sub(before) / CLIENTS;
    println!("a client that does not read: {each} bytes");
    assert!(each < 300_000, "a client that does not read: {each} bytes");
    drop(clients);
    proxy.wait_for_connections(0);
}

/// Reads a request with a length, and answers it; false at the end.
fn answer_one(stream: &mut TcpStream) -> bool {
    let Some(head) = read_head(stream) else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    read_exact(stream, length.unwrap_or(0));
    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").is_ok()
}

/// The host of the copies takes them and never answers.
#[test]
fn copies_without_answers_take_bounded_memory() {
    const BODY: usize = 900_000;
    const COUNT: u64 = 300;
    let host = serve(|mut stream, _| while answer_one(&mut stream) {});
    let arrived = Arc::<AtomicU64>::default();
    let counted = Arc::clone(&arrived);
    let mute = serve(move |mut stream, _| {
        let mut piece = vec![0; 64 << 10];
        while let Ok(count @ 1..) = stream.read(&mut piece) {
            counted.fetch_add(count as u64, Ordering::Relaxed);
        }
    });
    let proxy = Apart::start_before(host, mute, 4096);
    let head = format!("POST /copied HTTP/1.1\r\nHost: h\r\nContent-Length: {BODY}\r\n\r\n");
    let request = [head.as_bytes(), &[b'x'; BODY]].concat();
    let mut client = connect(proxy.http);
    let before = proxy.resident();
    for _ in 0..COUNT {
        client.write_all(&request).unwrap();
        assert_eq!(status(&read_head(&mut client).unwrap()), 200);
    }
    wait_for("the copies are sent", || (arrived.load(Ordering::Relaxed) > COUNT * BODY as u64).then_some(()));
    let each = proxy.resident().saturating_sub(before) / COUNT;
    println!("a copy without an answer: {each} bytes");
    assert!(each < 60_000, "a copy without an answer: {each} bytes");
    assert_eq!(stat(proxy.admin, "cluster.mute.upstream_rq_pending_overflow"), 0);
}

/// The server that is to see the bodies never answers, and takes little of them.
#[test]
fn bodies_that_filters_wait_for_take_their_length() {
    const BODY: usize = 20 << 20;
    const COUNT: usize = 3;
    let (host, mute) =
        (serve(|_, _| {}), serve(|mut stream, _| while stream.read(&mut [0; 1024]).is_ok() {}));
    let (text, [http, _, admin]) = bootstrap(host, mute);
    let filter = "http_filters:\n          - name: authz\n            typed_config:\n              '@type': type.googleapis.com/envoy.extensions.filters.http.ext_authz.v3.ExtAuthz\n              transport_api_version: V3\n              grpc_service: {envoy_grpc: {cluster_name: asked}, timeout: 300s}\n              with_request_body: {max_request_bytes: 33554432}\n";
    let asked = "clusters:\n  - name: asked\n    http2_protocol_options: {}\n    load_assignment: {cluster_name: asked, endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: $MUTE}}}}]}]}\n".replace("$MUTE", &mute.to_string());
    let text = text.replacen("http_filters:\n", filter, 1).replacen("clusters:\n", &asked, 1);
    let proxy = Apart::start_as(text, http, admin, 1024);
    let before = proxy.resident();
    let body = vec![b'x'; BODY];
    let clients: Vec<TcpStream> = (0..COUNT)
        .map(|index| {
            let mut client = connect(proxy.http);
            match index % 2 {
                0 => {
                    write!(client, "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: {BODY}\r\n\r\n").unwrap();
                    client.write_all(&body).unwrap();
                }
                _ => {
                    write!(client, "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n")
                        .unwrap();
                    for piece in body.chunks(1 << 20) {
                        write!(client, "{:x}\r\n", piece.len()).unwrap();
                        client.write_all(piece).unwrap();
                        client.write_all(b"\r\n").unwrap();
                    }
                    client.write_all(b"0\r\n\r\n").unwrap();
                }
            }
            client
        })
        .collect();
    wait_for("the bodies have arrived", || {
        (stat(proxy.admin, "http.in.downstream_cx_rx_bytes_total") >= (COUNT * BODY) as u64).then_some(())
    });
    let each = proxy.resident().saturating_sub(before) / COUNT as u64;
    println!("a body of {BODY} bytes: {each} bytes");
    assert!(each < (BODY + BODY / 5) as u64, "a body of {BODY} bytes: {each} bytes");
    drop(clients);
    proxy.wait_for_connections(0);
}

#[test]
#[cfg(debug_assertions)]
fn a_worker_that_panics_serves_again() {
    let host = serve(|mut stream, _| {
        while read_head(&mut stream).is_some() {
            if stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine").is_err() {
                return;
            }
        }
    });
    let mut proxy = Apart::start(host, 1024);
    for _ in 0..3 {
        let mut client = connect(proxy.http);
        client.write_all(b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
        assert_eq!(status(&read_head(&mut client).unwrap()), 200);
        assert_eq!(read_exact(&mut client, 4), b"fine");
        proxy.child.stdin.as_mut().unwrap().write_all(b"proxy worker\n").unwrap();
        // Its connections end with it.
        assert!(read_head(&mut client).is_none());
        wait_for("it serves again", || ask(proxy.http, "/a").ends_with("fine").then_some(()));
        proxy.wait_for_connections(0);
        assert_eq!(stat(proxy.admin, "cluster.host.upstream_rq_active"), 0);
    }
}

/// Descriptors of a proxy that clients use up.
const FEW: usize = 64;

/// What this side lacks says nothing of hosts.
#[test]
fn clients_that_use_up_descriptors_fail_no_host() {
    // Each request needs a descriptor: none finds a connection that another one has left.
    let host = serve(|mut stream, _| {
        let _ = read_head(&mut stream);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 4\r\n\r\nfine");
    });
    let (mut text, [http, tcp, admin]) = bootstrap(host, echo());
    let watched = "common_lb_config: {healthy_panic_threshold: {value: 0}}\n    outlier_detection: {consecutive_5xx: 1, base_ejection_time: 600s, max_ejection_percent: 100}\n";
    let checked = "health_checks: [{timeout: 60s, interval: 0.02s, no_traffic_interval: 0.02s, no_traffic_healthy_interval: 0.02s, unhealthy_threshold: 1, healthy_threshold: 1, reuse_connection: false, tcp_health_check: {}}]\n";
    for (name, fields) in [("host", [watched, "    ", checked].concat()), ("echo", watched.to_owned())] {
        let begin = format!("  - name: {name}\n    connect_timeout: 60s\n");
        assert!(text.contains(&begin));
        text = text.replacen(&begin, &format!("{begin}    {fields}"), 1);
    }
    let proxy = Apart::start_as(text, http, admin, FEW as u32);
    tcp_clients_without_a_connection_to_their_host(&proxy, tcp);
    proxy.wait_for_connections(0);
    let stat = |name: &str| stat(admin, name);
    wait_for("checks of health find no descriptor, other than the one that is in progress", || {
        requests_without_a_connection_to_their_host(&proxy);
        wait_for("it serves again", || ask(http, "/a").ends_with("fine").then_some(()));
        let count = |name: &str| stat_if_answered(admin, &format!("cluster.host.health_check.{name}"));
        (count("attempt")? > count("success")? + 1).then_some(())
    });
    for cluster in ["host", "echo"] {
        assert!(stat(&format!("cluster.{cluster}.upstream_cx_connect_fail")) > 0, "{cluster}");
        let ejected = stat(&format!("cluster.{cluster}.outlier_detection.ejections_enforced_total"));
        assert_eq!(ejected, 0, "{cluster}");
    }
    assert_eq!(stat("cluster.host.health_check.failure"), 0);
}

/// Clients of TCP take a descriptor each, and one for the host, until there is none.
fn tcp_clients_without_a_connection_to_their_host(proxy: &Apart, tcp: u16) {
    // They take one each: without them, the last one might always be that of a host.
    let mut idle: Vec<TcpStream> = (0..20).map(|_| connect(proxy.http)).collect();
    proxy.wait_for_connections(idle.len() as u64);
    let clients: Vec<TcpStream> = (0..100).map(|_| connect(tcp)).collect();
    clients.iter().for_each(|client| client.set_nonblocking(true).unwrap());
    wait_for("a client is closed that has no connection to its host", || {
        let is_closed = |client: &TcpStream| client.peek(&mut [0]).is_ok_and(|count| count == 0);
        if clients.iter().any(is_closed) {
            return Some(());
        }
        if proxy.descriptors() >= FEW
            && let Some(mut client) = idle.pop()
        {
            // The proxy has closed its side when this one has read the end.
            client.shutdown(std::net::Shutdown::Write).unwrap();
            assert_eq!(client.read(&mut [0]).unwrap(), 0);
        }
        None
    });
}

/// Idle clients of HTTP take all descriptors but those that requests of the first client use for a moment, until that finds none.
fn requests_without_a_connection_to_their_host(proxy: &Apart) {
    let mut clients: Vec<TcpStream> = (0..200).map(|_| connect(proxy.http)).collect();
    wait_for("descriptors are used up", || (proxy.descriptors() >= FEW).then_some(()));
    let client = clients.first_mut().unwrap();
    let mut refused = 0;
    wait_for("requests that find no descriptor", || {
        client.write_all(b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
        let head = read_head(client).unwrap();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
        read_exact(client, length.unwrap());
        assert!([200, 503].contains(&status(&head)), "{head}");
        refused += u32::from(status(&head) == 503);
        (refused > 3).then_some(())
    });
    drop(clients);
    proxy.wait_for_connections(0);
}

#[test]
fn descriptors_that_run_out_are_waited_for() {
    let host = serve(|mut stream, _| {
        while read_head(&mut stream).is_some() {
            if stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine").is_err() {
                return;
            }
        }
    });
    let proxy = Apart::start(host, 64);
    let mut clients: Vec<TcpStream> = (0..200).map(|_| connect(proxy.http)).collect();
    // Those that are served get an answer: of the host, or that it cannot be reached.
    let mut answered = 0;
    for client in &mut clients {
        client.set_read_timeout(Some(std::time::Duration::from_millis(50))).unwrap();
        let _ = client.write_all(b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n");
        if let Some(head) = read_head(client) {
            assert!([200, 503].contains(&status(&head)), "{head}");
            answered += 1;
        }
    }
    assert!(answered > 10, "{answered}");
    drop(clients);
    wait_for("it serves again", || ask(proxy.http, "/a").ends_with("fine").then_some(()));
}
