//! Health checks and outlier detection: the same events at the hosts, the same hosts that get requests.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::pair::{self, Directory, Pair};
use super::proxy::{ask_admin, wait_for};

/// A host that answers checks and requests with statuses that may change; 0 for no answer.
#[derive(Clone)]
struct Host {
    port: u16,
    check: Arc<AtomicU16>,
    status: Arc<AtomicU16>,
    checks: Arc<Mutex<Vec<String>>>,
}

impl Host {
    fn start(name: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let host = Self {
            port: listener.local_addr().unwrap().port(),
            check: Arc::new(AtomicU16::new(200)),
            status: Arc::new(AtomicU16::new(200)),
            checks: Arc::default(),
        };
        let serving = host.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let host = serving.clone();
                // The client ends the connection.
                std::thread::spawn(move || host.answer(stream, name));
            }
        });
        host
    }

    fn answer(&self, mut stream: TcpStream, name: &str) -> std::io::Result<()> {
        let mut head = Vec::new();
        loop {
            let mut byte = [0];
            if stream.read(&mut byte)? == 0 {
                return Ok(());
            }
            head.push(byte[0]);
            if !head.ends_with(b"\r\n\r\n") {
                continue;
            }
            let text = String::from_utf8_lossy(&head).into_owned();
            head.clear();
            let is_check = text.starts_with("GET /hc ");
            let status = if is_check { &self.check } else { &self.status }.load(Ordering::Relaxed);
            if is_check {
                let mut checks = self.checks.lock().unwrap();
                if checks.len() < 1000 {
                    checks.push(text);
                }
            }
            if status == 0 {
                std::thread::sleep(Duration::from_secs(10));
                return Ok(());
            }
            write!(stream, "HTTP/1.1 {status} X\r\ncontent-length: {}\r\n\r\n{name}", name.len())?;
        }
    }
}

/// What `/clusters` of both says of a cluster, without what depends on how connections are used, and with names for hosts.
fn clusters(pair: &Pair, cluster: &str, hosts: &[(u16, &str)]) -> [String; 2] {
    pair.ports("$ADMIN").map(|admin| {
        let (_, text) = ask_admin(admin, "GET", "/clusters").unwrap();
        let mut lines: Vec<String> = text
            .lines()
            .filter(|line| line.starts_with(&format!("{cluster}::")) && !line.contains("::cx_"))
            .map(|line| {
                hosts.iter().fold(line.to_owned(), |line, (port, name)| {
                    line.replace(&format!("127.0.0.1:{port}"), name)
                })
            })
            .collect();
        lines.sort();
        lines.join("\n")
    })
}

/// Time after which Envoy's workers know of changes of the health of hosts, which it merges.
const MERGED: Duration = Duration::from_millis(1200);

/// Waits until both say this of a host of a cluster, and workers know.
fn wait_for_health(pair: &Pair, cluster: &str, port: u16, health: &str) {
    let line = format!("{cluster}::127.0.0.1:{port}::health_flags::{health}");
    wait_for(&line, || {
        pair.ports("$ADMIN")
            .iter()
            .all(|admin| {
                let (_, text) = ask_admin(*admin, "GET", "/clusters").unwrap();
                text.lines().any(|known| known == line)
            })
            .then_some(())
    });
    std::thread::sleep(MERGED);
}

/// The bodies or statuses that both give for so many requests, sorted.
fn answers(pair: &Pair, path: &str, count: usize) -> [Vec<String>; 2] {
    pair.ports("$HTTP").map(|port| {
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        let mut answers: Vec<String> = (0..count).map(|_| pair::ask(port, &[&request])).collect();
        answers.sort();
        answers
    })
}

/// As [`answers`], the same of both; returns them.
fn same_answers(pair: &Pair, path: &str, count: usize) -> Vec<String> {
    let [ours, envoys] = answers(pair, path, count);
    assert_eq!(ours, envoys, "{path}");
    ours
}

fn same_stats(pair: &Pair, names: &[&str]) {
    let values = names.iter().map(|name| pair.stat(name));
    let [ours, envoys] = values.fold([String::new(), String::new()], |[ours, envoys], (name, a, b)| {
        [format!("{ours}{name}: {a}\n"), format!("{envoys}{name}: {b}\n")]
    });
    assert_eq!(ours, envoys, "statistics");
}

#[test]
fn health_checks_are_those_of_envoy() {
    let [a, b, c] = ["A", "B", "C"].map(Host::start);
    let text = include_str!("health.yaml").replace("$ADMIN", "#ADMIN");
    let text = [("$A", a.port), ("$B", b.port), ("$C", c.port)]
        .iter()
        .fold(text, |text, (name, port)| text.replace(name, &port.to_string()));
    let pair = Pair::start_alone(Directory::new(), &text.replace("#ADMIN", "$ADMIN"), 600);
    let hosts = [(a.port, "A"), (b.port, "B"), (c.port, "C"), (pair.dead, "DEAD"), (pair.echo, "ECHO")];
    // Of two of three healthy hosts, before any traffic.
    for cluster in ["checked", "strict", "tcp", "outliers"] {
        let [ours, envoys] = clusters(&pair, cluster, &hosts);
        assert_eq!(ours, envoys, "{cluster}");
        assert!(ours.contains("::health_flags::healthy"), "{ours}");
    }
    wait_for_health(&pair, "tcp", pair.dead, "/failed_active_hc");
    // The requests of checks.
    let admin = pair.ports("$ADMIN");
    let [ours, envoys] = admin.map(|admin| {
        let checks = a.checks.lock().unwrap();
        let side = format!("x-side: {admin}\r\n");
        let head = checks.iter().find(|head| head.contains(&side)).unwrap();
        let mut lines: Vec<String> = head.replace(&side, "").split("\r\n").map(str::to_owned).collect();
        lines.sort();
        lines
    });
    assert_eq!(ours, envoys, "requests of checks");
    let served = same_answers(&pair, "/checked", 6);
    assert!(served.iter().all(|answer| answer.contains("200 OK")), "{served:?}");
    // A status that is not expected, at once; two successes, to come back.
    b.check.store(404, Ordering::Relaxed);
    wait_for_health(&pair, "checked", b.port, "/failed_active_hc");
    wait_for_health(&pair, "strict", b.port, "/failed_active_hc");
    // One of three is healthy: panic, where the third refuses connections.
    let before = pair.stat("cluster.checked.lb_healthy_panic");
    assert_eq!((before.1, before.2), (0, 0));
    let panic = same_answers(&pair, "/checked", 6);
    assert_eq!(
        panic.iter().filter(|answer| answer.contains("503 Service Unavailable")).count(),
        2,
        "{panic:?}"
    );
    same_stats(&pair, &["cluster.checked.lb_healthy_panic", "cluster.checked.membership_healthy"]);
    assert_eq!(pair.stat("cluster.checked.lb_healthy_panic").1, 6);
    let none = same_answers(&pair, "/strict", 1);
    assert!(none[0].contains("no healthy upstream"), "{none:?}");
    b.check.store(203, Ordering::Relaxed);
    wait_for_health(&pair, "checked", b.port, "healthy");
    same_answers(&pair, "/checked", 4);
    b.check.store(0, Ordering::Relaxed);
    wait_for_health(&pair, "checked", b.port, "/failed_active_hc/active_hc_timeout");
    for cluster in ["checked", "strict", "tcp"] {
        let [ours, envoys] = clusters(&pair, cluster, &hosts);
        assert_eq!(ours, envoys, "{cluster}");
    }
    same_stats(
        &pair,
        &[
            "cluster.checked.membership_change",
            "cluster.checked.membership_total",
            "cluster.checked.membership_healthy",
            "cluster.checked.health_check.healthy",
            "cluster.checked.health_check.passive_failure",
            "cluster.checked.health_check.verify_cluster",
            "cluster.checked.upstream_rq_total",
            "cluster.strict.upstream_cx_none_healthy",
            "cluster.tcp.health_check.healthy",
        ],
    );
    for name in ["attempt", "success", "failure", "network_failure"] {
        let (_, ours, envoys) = pair.stat(&format!("cluster.checked.health_check.{name}"));
        assert!(ours > 0 && envoys > 0, "{name}: {ours} {envoys}");
    }
    // Outliers.
    c.status.store(500, Ordering::Relaxed);
    let mixed = same_answers(&pair, "/outliers", 4);
    assert_eq!(mixed.iter().filter(|answer| answer.contains("500 Internal")).count(), 2, "{mixed:?}");
    wait_for_health(&pair, "outliers", c.port, "/failed_outlier_check");
    let good = same_answers(&pair, "/outliers", 4);
    assert!(good.iter().all(|answer| answer.contains("200 OK")), "{good:?}");
    // No more than half of them.
    a.status.store(503, Ordering::Relaxed);
    let bad = same_answers(&pair, "/outliers", 3);
    assert!(bad.iter().all(|answer| answer.contains("503 Service Unavailable")), "{bad:?}");
    let [ours, envoys] = clusters(&pair, "outliers", &hosts);
    assert_eq!(ours, envoys);
    let kinds = [
        "consecutive_5xx",
        "success_rate",
        "overflow",
        "total",
        "active",
        "detected_consecutive_5xx",
        "detected_consecutive_gateway_failure",
        "detected_consecutive_local_origin_failure",
        "detected_success_rate",
        "detected_failure_percentage",
        "enforced_total",
        "enforced_consecutive_5xx",
        "enforced_consecutive_gateway_failure",
        "enforced_consecutive_local_origin_failure",
        "enforced_success_rate",
    ]
    .map(|kind| format!("cluster.outliers.outlier_detection.ejections_{kind}"));
    same_stats(&pair, &kinds.each_ref().map(String::as_str));
    a.status.store(200, Ordering::Relaxed);
    c.status.store(200, Ordering::Relaxed);
    wait_for_health(&pair, "outliers", c.port, "healthy");
    let back = same_answers(&pair, "/outliers", 4);
    assert_eq!(back.iter().filter(|answer| answer.contains("\nC\n")).count(), 2, "{back:?}");
    same_stats(&pair, &kinds.each_ref().map(String::as_str));
}
