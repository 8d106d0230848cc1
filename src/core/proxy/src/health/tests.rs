//! Checks on a virtual clock, and checkers with hosts that answer in all ways.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::Instant;

use super::checker::has_all;
use super::session::Outcome;
use super::*;
use crate::bootstrap;
use crate::cluster::Health;
use crate::stats::{ClusterStat, Stats};
use crate::upstream::ConnectError;

/// What checks end with, and when they were made, in seconds.
pub(super) struct Script {
    began: Instant,
    outcomes: VecDeque<(Duration, Outcome)>,
    checks: Arc<Mutex<Vec<f64>>>,
}

impl Script {
    pub(super) async fn check(&mut self) -> Outcome {
        self.checks.lock().push(self.began.elapsed().as_secs_f64());
        match self.outcomes.pop_front() {
            Some((time, outcome)) => {
                tokio::time::sleep(time).await;
                outcome
            }
            None => std::future::pending().await,
        }
    }
}

/// A cluster with a host and a health check that has these fields beside those that are required.
fn cluster(check: &str, port: u16) -> Arc<Cluster> {
    let check =
        format!("{{timeout: 1s, interval: 10s, unhealthy_threshold: 3, healthy_threshold: 2, {check}}}");
    let text = format!(
        "static_resources:\n  clusters:\n  - name: c\n    health_checks: [{check}]\n    load_assignment: {{cluster_name: c, endpoints: [{{lb_endpoints: [{{endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}}}}}]}}]}}\n"
    );
    let (bootstrap, _) = bootstrap::read(&text, "b.yaml").unwrap();
    Cluster::new(bootstrap.clusters[0].clone(), &Stats::default())
}

/// The seconds at which checks with these outcomes are made, and whether the host was healthy before each.
async fn times(cluster: &Arc<Cluster>, outcomes: &[Outcome]) -> Vec<(f64, bool)> {
    let checks = Arc::new(Mutex::new(Vec::new()));
    let outcomes: VecDeque<_> = outcomes.iter().map(|outcome| (Duration::ZERO, *outcome)).collect();
    let script = Script { began: Instant::now(), outcomes, checks: Arc::clone(&checks) };
    let config = cluster.config.health_check.clone().unwrap();
    let checker = Checker::scripted(script, &config);
    let (cluster, host) = (Arc::clone(cluster), cluster.hosts()[0].clone());
    let observed = Arc::clone(&host);
    let task = tokio::spawn(async move { check_with(&cluster, &host, checker, &config, None).await });
    let mut seen = Vec::new();
    // A tenth of a second after each check, its outcome has had its effect.
    for _ in 0..3000 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let checks = checks.lock();
        for check in checks.get(seen.len()..).unwrap_or_default() {
            seen.push((*check, observed.is_healthy()));
        }
    }
    task.abort();
    seen
}

#[tokio::test(start_paused = true)]
async fn the_first_check_decides_alone_and_thresholds_count_afterwards() {
    use Outcome::{Failed, Success};
    let cluster = cluster("tcp_health_check: {}", 1);
    let host = cluster.hosts()[0].clone();
    assert_eq!(host.health_text(), "/failed_active_hc", "until the first check");
    cluster.stats.block.increment(ClusterStat::UpstreamCxTotal);
    let seen =
        times(&cluster, &[Success, Failed, Failed, Success, Failed, Failed, Failed, Success, Success]).await;
    let healthy: Vec<bool> = seen.iter().map(|(_, healthy)| *healthy).collect();
    // The check that has no outcome takes too long.
    assert_eq!(healthy[..9], [true, true, true, true, true, true, false, false, true]);
    let at: Vec<u64> = seen.iter().map(|(at, _)| *at as u64).collect();
    assert_eq!(at[..9], [0, 10, 20, 30, 40, 50, 60, 70, 80]);
    let stat = |stat| cluster.stats.health.as_ref().unwrap().get(stat);
    assert!(stat(HealthStat::Attempt) >= 9);
    assert_eq!(stat(HealthStat::Success), 4);
    assert!(stat(HealthStat::NetworkFailure) == stat(HealthStat::Failure) && stat(HealthStat::Failure) >= 5);
}

#[tokio::test(start_paused = true)]
async fn what_this_side_lacks_changes_nothing() {
    use Outcome::{Failed, Success, Unknown};
    let cluster = cluster("unhealthy_interval: 5s, tcp_health_check: {}", 1);
    cluster.stats.block.increment(ClusterStat::UpstreamCxTotal);
    let before = [Unknown, Success, Unknown, Unknown, Unknown, Unknown];
    let behind = [Failed, Failed, Unknown, Failed, Unknown, Success, Unknown, Success];
    let seen = times(&cluster, &[&before[..], &behind].concat()).await;
    let healthy: Vec<bool> = seen.iter().map(|(_, healthy)| *healthy).collect();
    // The first that says something decides alone, and thresholds count what does.
    assert_eq!(healthy[..6], [false, true, true, true, true, true]);
    assert_eq!(healthy[6..14], [true, true, true, false, false, false, false, true]);
    let stat = |stat| cluster.stats.health.as_ref().unwrap().get(stat);
    assert_eq!(stat(HealthStat::Success), 3);
    assert_eq!(Outcome::from(ConnectError::Exhausted), Unknown);
    assert_eq!(Outcome::from(ConnectError::Refused), Failed);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_not_expected_is_believed_at_once() {
    use Outcome::{Refused, Retriable, Success, TimedOut};
    let cluster = cluster("tcp_health_check: {}", 1);
    cluster.stats.block.increment(ClusterStat::UpstreamCxTotal);
    let seen = times(&cluster, &[Success, Refused, Success, Success, Retriable, Retriable, TimedOut]).await;
    let healthy: Vec<bool> = seen.iter().map(|(_, healthy)| *healthy).collect();
    assert_eq!(healthy[..7], [true, false, false, true, true, true, false]);
    assert_eq!(cluster.hosts()[0].health_text(), "/failed_active_hc/active_hc_timeout");
}

#[tokio::test(start_paused = true)]
async fn intervals_are_those_of_the_state() {
    use Outcome::{Failed, Success};
    let fields = "unhealthy_interval: 5s, unhealthy_edge_interval: 3s, healthy_edge_interval: 2s, no_traffic_healthy_interval: 30s, tcp_health_check: {}";
    let quiet = cluster(fields, 1);
    let at = |seen: Vec<(f64, bool)>| seen.iter().map(|(at, _)| at.round() as u64).collect::<Vec<_>>();
    assert_eq!(at(times(&quiet, &[Success, Failed, Success]).await)[..4], [0, 30, 90, 120], "no traffic");
    let busy = cluster(fields, 1);
    busy.stats.block.increment(ClusterStat::UpstreamCxTotal);
    let seen = times(&busy, &[Success, Failed, Failed, Failed, Failed, Success, Success, Success]).await;
    assert_eq!(at(seen)[..9], [0, 10, 13, 16, 21, 26, 28, 38, 48]);
}

#[tokio::test(start_paused = true)]
async fn jitter_makes_intervals_longer_within_its_bounds() {
    let cluster = cluster(
        "initial_jitter: 4s, interval_jitter: 2s, interval_jitter_percent: 50, tcp_health_check: {}",
        1,
    );
    cluster.stats.block.increment(ClusterStat::UpstreamCxTotal);
    let seen = times(&cluster, &[Outcome::Success; 15]).await;
    assert!(seen[0].0 < 4.0, "{seen:?}");
    let pauses: Vec<f64> = seen.windows(2).take(14).map(|pair| pair[1].0 - pair[0].0).collect();
    assert!(pauses.iter().all(|pause| (9.9..17.1).contains(pause)), "{pauses:?}");
    assert!(pauses.iter().any(|pause| (pause - pauses[0]).abs() > 0.05), "{pauses:?}");
}

/// A host that answers each connection with these pieces, one for each read; then it ends the connection.
async fn host(pieces: &'static [&'static [u8]]) -> u16 {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                for piece in pieces {
                    if !matches!(stream.read(&mut [0; 1024]).await, Ok(1..)) {
                        return;
                    }
                    if stream.write_all(piece).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    port
}

/// Outcomes of checks of a host, one after the other.
async fn outcomes<const N: usize>(fields: &str, port: u16) -> [Outcome; N] {
    let cluster = cluster(fields, port);
    let mut checker = Checker::new(&cluster, cluster.config.health_check.as_ref().unwrap());
    let mut found = [Outcome::Failed; N];
    for outcome in &mut found {
        *outcome = checker.check(&cluster, cluster.hosts()[0].address).await;
        checker.watch(Duration::from_millis(20)).await;
    }
    found
}

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

#[tokio::test]
async fn requests_are_answered_in_all_ways() {
    use Outcome::{Failed, Refused, Retriable, Success, TimedOut};
    let http = "http_health_check: {path: '/h?x=1', expected_statuses: [{start: 200, end: 300}], retriable_statuses: [{start: 503, end: 504}]}";
    const PIECES: &[&[u8]] = &[
        OK,
        b"HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 404 No\r\ntransfer-encoding: chunked\r\n\r\n2\r\nno\r\n0\r\n\r\n",
    ];
    let port = host(PIECES).await;
    // The fourth finds the connection closed, and opens another.
    assert_eq!(outcomes(http, port).await, [Success, Retriable, Refused, Success]);
    for (name, pieces, expected) in [
        (
            "informational",
            &[b"HTTP/1.1 103 Hints\r\n\r\nHTTP/1.1 204 No\r\n\r\n" as &[u8]] as &'static [&[u8]],
            Success,
        ),
        ("until the end", &[b"HTTP/1.1 200 OK\r\n\r\nabc"], Success),
        ("cut", &[b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc"], Failed),
        ("no HTTP", &[b"hello\r\n\r\n"], Failed),
        ("another protocol", &[b"HTTP/1.1 101 Switching\r\n\r\n"], Failed),
        ("two lengths", &[b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\nabc"], Failed),
        ("closed", &[b""], Failed),
    ] {
        assert_eq!(outcomes(http, host(pieces).await).await, [expected], "{name}");
    }
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = silent.local_addr().unwrap().port();
    assert_eq!(outcomes(http, port).await, [TimedOut]);
    drop(silent);
    assert_eq!(outcomes(http, port).await, [Failed], "refused");
}

#[tokio::test]
async fn bytes_are_answered_in_all_ways() {
    use Outcome::{Failed, Success};
    let port = host(&[b"xxPO", b"NGPONG", b"late"]).await;
    assert_eq!(outcomes("tcp_health_check: {}", port).await, [Success, Success], "connections");
    let ping = "tcp_health_check: {send: {text: '50494e47'}, receive: [{text: '504f'}, {binary: 'Tkc='}]}";
    let port = host(&[b"xxPONG", b"PONG"]).await;
    assert_eq!(outcomes(ping, port).await, [Success, Success, Success], "one connection, then another");
    assert_eq!(outcomes(ping, host(&[b"NGPO"]).await).await, [Failed], "in another order");
    assert!(has_all(b"abcabd", &[b"ab".to_vec(), b"abd".to_vec()]));
    assert!(!has_all(b"abd", &[b"ab".to_vec(), b"abd".to_vec()]));
}

#[tokio::test]
async fn hosts_that_come_and_go_are_checked_while_they_are_there() {
    let port = host(&[OK, OK, OK, OK]).await;
    let cluster = cluster("no_traffic_interval: 0.02s, http_health_check: {path: /}", port);
    let (done, mut first) = mpsc::channel(1);
    let mut done = Some(done);
    let task = {
        let cluster = Arc::clone(&cluster);
        tokio::spawn(check_hosts(cluster, done.take()))
    };
    assert_eq!(first.recv().await, None, "each host was checked");
    let checked = cluster.hosts()[0].clone();
    assert!(checked.is_healthy() && !checked.has(Health::FailedActive));
    let attempts = || cluster.stats.health.as_ref().unwrap().get(HealthStat::Attempt);
    let before = attempts();
    tokio::time::timeout(Duration::from_secs(60), async {
        while attempts() < before + 3 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
    .unwrap();
    task.abort();
    let _ = task.await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    let after = attempts();
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(attempts(), after, "the checks end with their task");
}

#[tokio::test]
async fn calls_are_answered_in_all_ways() {
    use Outcome::{Failed, Refused, Success};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    // SERVING, NOT_SERVING, a status, a reset.
    let answers = Arc::new(Mutex::new(VecDeque::from([Some(1_u8), Some(2), None, Some(0), Some(1)])));
    let connections = Arc::new(Mutex::new(0));
    let (left, counted) = (Arc::clone(&answers), Arc::clone(&connections));
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            *counted.lock() += 1;
            let left = Arc::clone(&left);
            tokio::spawn(async move {
                let mut connection = h2::server::handshake(stream).await.unwrap();
                while let Some(Ok((request, mut respond))) = connection.accept().await {
                    assert_eq!(request.uri().path(), "/grpc.health.v1.Health/Check");
                    assert_eq!(request.uri().authority().unwrap(), "c");
                    let answer = left.lock().pop_front().flatten();
                    let response = ::http::Response::builder().header("content-type", "application/grpc");
                    match answer {
                        Some(0) => respond.send_reset(h2::Reason::INTERNAL_ERROR),
                        Some(status) => {
                            let mut body = respond.send_response(response.body(()).unwrap(), false).unwrap();
                            let message = vec![0, 0, 0, 0, 2, 8, status];
                            body.send_data(message.into(), false).unwrap();
                            let mut trailers = ::http::HeaderMap::new();
                            trailers.insert("grpc-status", "0".parse().unwrap());
                            body.send_trailers(trailers).unwrap();
                        }
                        None => {
                            let response = response.header("grpc-status", "12").body(()).unwrap();
                            respond.send_response(response, true).unwrap();
                        }
                    }
                }
            });
        }
    });
    let found: [Outcome; 5] = outcomes("grpc_health_check: {service_name: s}", port).await;
    assert_eq!(found, [Success, Refused, Refused, Failed, Success]);
    assert_eq!(*connections.lock(), 2, "one is used again until it fails");
}
