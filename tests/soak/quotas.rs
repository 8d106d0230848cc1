//! Three servers share the quotas of one Redis: together they grant exactly the limit, with leases as without, and what some of them leave
//! another one grants within a second.
//!
//! `MIXER_QUOTA_CALLS` sets the number of calls, and has the second measured.

use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use crate::support::policy::attributes;
use crate::support::rpc::{Client, mixer};
use crate::support::{DEADLINE, Process, Server, free_port, is_listening, wait_for};

/// Calls of the short form.
const CALLS: i64 = 3000;
/// Clients of a server.
const CLIENTS: usize = 2;

/// The number of calls, if it is set.
fn length() -> Option<i64> {
    std::env::var("MIXER_QUOTA_CALLS").ok().and_then(|text| text.parse().ok())
}

pub(crate) fn redis(port: u16) -> Process {
    let mut command = std::process::Command::new("redis-server");
    let port_text = port.to_string();
    command.args(["--port", &port_text, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
    command.stdout(std::process::Stdio::null());
    let process = Process::spawn(&mut command).expect("redis-server is installed: `.ci/run needs` does it");
    assert!(wait_for(DEADLINE, || is_listening(port).then_some(())).is_some(), "redis-server does not start");
    process
}

/// Three servers with one quota, in processes of their own.
pub(crate) struct Servers {
    pub(crate) all: Vec<Server>,
    calls: AtomicI64,
    granted: AtomicI64,
    /// That of Redis.
    pub(crate) port: u16,
    _redis: Process,
    _directory: tempfile::TempDir,
}

/// The parameter of a window longer than a test.
const WINDOW: &str = "validDuration: 3600s";

impl Servers {
    /// `limit` in a window with these parameters.
    pub(crate) fn start(limit: i64, window: &str) -> Self {
        let port = free_port();
        let redis = redis(port);
        let directory = tempfile::tempdir().expect("a temporary directory");
        let text = format!(
            "apiVersion: config.istio.io/v1alpha2\nkind: attributemanifest\nmetadata: {{name: words, namespace: istio-system}}\n\
             spec: {{attributes: {{source.user: {{valueType: STRING}}}}}}\n\
             ---\napiVersion: config.istio.io/v1alpha2\nkind: instance\nmetadata: {{name: calls, namespace: istio-system}}\n\
             spec: {{compiledTemplate: quota, params: {{dimensions: {{user: source.user | \"nobody\"}}}}}}\n\
             ---\napiVersion: config.istio.io/v1alpha2\nkind: handler\nmetadata: {{name: limits, namespace: istio-system}}\n\
             spec: {{compiledAdapter: redisquota, params: {{redisServerUrl: '127.0.0.1:{port}', timeout: 10s, quotas: \
             [{{name: calls.instance.istio-system, maxAmount: {limit}, {window}}}]}}}}\n\
             ---\napiVersion: config.istio.io/v1alpha2\nkind: rule\nmetadata: {{name: limits, namespace: istio-system}}\n\
             spec: {{actions: [{{handler: limits, instances: [calls]}}]}}\n"
        );
        std::fs::write(directory.path().join("config.yaml"), text).expect("it is writable");
        let place: &Path = directory.path();
        let all = (0..3).map(|_| Server::on(place).native().start()).collect();
        let (calls, granted) = (AtomicI64::new(0), AtomicI64::new(0));
        Self { all, calls, granted, port, _redis: redis, _directory: directory }
    }

    fn granted(&self) -> i64 {
        self.granted.load(Ordering::Relaxed)
    }

    /// Makes calls at some of the servers, `amount` each, from several clients of each, until `enough` have been made or there are so many
    /// in all.
    fn call(&self, servers: &[Server], amount: i64, most: i64, enough: &(dyn Fn() -> bool + Sync)) {
        let last = self.calls.load(Ordering::Relaxed) + most;
        std::thread::scope(|scope| {
            for server in servers.iter().flat_map(|server| std::iter::repeat_n(server, CLIENTS)) {
                scope.spawn(move || {
                    let mut client = Client::new(&server.address()).expect("a client");
                    loop {
                        let call = self.calls.fetch_add(1, Ordering::Relaxed);
                        if call >= last || enough() {
                            self.calls.fetch_sub(1, Ordering::Relaxed);
                            return;
                        }
                        let quota = mixer::check_request::QuotaParams { amount, best_effort: true };
                        let request = mixer::CheckRequest {
                            attributes: Some(attributes("ann")),
                            deduplication_id: format!("call-{call}"),
                            quotas: [("calls".to_owned(), quota)].into_iter().collect(),
                            ..Default::default()
                        };
                        let answer = client.check(&request, None).expect("an answer");
                        let granted = answer.quotas.get("calls").map_or(0, |quota| quota.granted_amount);
                        self.granted.fetch_add(granted, Ordering::Relaxed);
                    }
                });
            }
        });
    }
}

#[test]
fn three_servers_grant_exactly_the_limit() {
    let _alone = crate::alone();
    let calls = length().unwrap_or(CALLS);
    let limit = calls * 6 / 10;
    let servers = Servers::start(limit, WINDOW);
    let started = Instant::now();
    servers.call(&servers.all, 1, calls, &|| false);
    assert_eq!((servers.calls.load(Ordering::Relaxed), servers.granted()), (calls, limit));
    println!("{calls} calls at three servers in {:.1} s: {limit} granted", started.elapsed().as_secs_f64());
}

#[test]
fn three_servers_with_leases_grant_the_limit_to_demand_that_moves() {
    let _alone = crate::alone();
    let calls = length().unwrap_or(CALLS);
    let limit = calls;
    let servers = Servers::start(limit, &format!("{WINDOW}, leaseDuration: 1s"));
    // Two servers have all demand, and leases of as much as they need in half a second.
    servers.call(&servers.all[..2], 1, limit * 8 / 10, &|| false);
    let before = servers.granted();
    assert_eq!(before, limit * 8 / 10, "none is refused while there is something left");
    let moved = Instant::now();
    let rest = limit / 400;
    let most = if length().is_some() { Duration::from_secs(1) } else { DEADLINE };
    let is_done = || servers.granted() >= limit * 97 / 100 || moved.elapsed() >= most;
    servers.call(&servers.all[2..], rest, i64::MAX / 2, &is_done);
    let took = moved.elapsed();
    assert!(servers.granted() >= limit * 97 / 100, "{} of {limit} after {took:?}", servers.granted());
    println!(
        "{limit} are granted, {before} before demand moved; 97 % after {:.0} ms",
        took.as_secs_f64() * 1e3
    );
    // All of it in the end, and never more.
    let is_all = || servers.granted() >= limit || moved.elapsed() >= 2 * DEADLINE;
    servers.call(&servers.all[2..], 1, i64::MAX / 2, &is_all);
    servers.call(&servers.all, 1, 60, &|| false);
    assert_eq!(servers.granted(), limit);
}
