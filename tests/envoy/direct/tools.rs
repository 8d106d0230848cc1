//! The configuration for Envoy in commands, the example, and a server without configuration.

use std::path::Path;

use serde_json::Value;

use crate::support::{DEADLINE, Server, free_port, http, programs, run};

fn mixer(arguments: &[&str]) -> String {
    let arguments: Vec<String> = arguments.iter().map(|a| (*a).to_owned()).collect();
    let finished = run(&programs().path("mixer"), &arguments, &[], None, None, DEADLINE).expect("it ends");
    assert!(finished.stderr.is_empty(), "{}", finished.stderr);
    finished.stdout
}

#[test]
fn routes_and_explanations_include_the_configuration_for_envoy() {
    let policy = format!("fs://{}/examples/envoy/policy", env!("CARGO_MANIFEST_DIR"));
    let routes = mixer(&["routes", "show", "--config", &policy, "-o", "plain"]);
    let line = |what: &str| routes.lines().find(|line| line.starts_with(what)).unwrap_or_default().to_owned();
    for part in ["request header x-user", "request.user", "mapping.yaml:"] {
        assert!(line("mapping").contains(part), "{part}\n{routes}");
    }
    for part in ["shop.plan_free", "3 per HOUR", "limits.yaml:"] {
        assert!(line("limit").contains(part), "{part}\n{routes}");
    }
    let routes: Value =
        serde_json::from_str(&mixer(&["routes", "show", "--config", &policy, "-o", "json"])).expect("JSON");
    assert_eq!(routes["envoy"][0]["to"], "request.user", "{routes}");
    let why = mixer(&["check", "--config", &policy, "--explain", "-s", "request.user=mallory"]);
    assert!(why.contains("request.user from request header x-user"), "{why}");
}

#[test]
fn the_example_runs_with_one_command() {
    the_example_runs("grpc");
}

/// Only the headers that Envoy lists reach the rules, and the service.
#[test]
fn the_example_over_http_lists_the_headers() {
    the_example_runs("http");
}

fn the_example_runs(checks: &str) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/envoy/run.sh");
    let mut environment: Vec<(String, String)> = vec![
        ("ENVOY".to_owned(), crate::support::envoy::program().display().to_string()),
        ("MIXER".to_owned(), env!("CARGO_BIN_EXE_mixer").to_owned()),
        ("CHECKS".to_owned(), checks.to_owned()),
    ];
    for name in [
        "ENVOY_PORT",
        "ADMIN_PORT",
        "UPSTREAM_PORT",
        "MIXER_PORT",
        "CHECK_PORT",
        "MONITORING_PORT",
        "METRICS_PORT",
    ] {
        environment.push((name.to_owned(), free_port().to_string()));
    }
    let finished = run(&script, &[], &environment, None, None, DEADLINE).expect("it ends");
    assert_eq!(finished.status, 0, "{}{}", finished.stdout, finished.stderr);
    for part in [
        "hello, ann",
        "PERMISSION_DENIED:deny.istio-system:mallory is not welcome",
        "x-envoy-ratelimited: true",
        r#"istio_requests{code="200",user="ann"} 1"#,
        r#"istio_requests{code="429",user="bob"} 1"#,
        r#"bridge_ratelimit_total{domain="shop",result="over"} 1"#,
    ] {
        assert!(finished.stdout.contains(part), "{part}\n{}", finished.stdout);
    }
}

#[test]
fn without_configuration_nothing_is_answered_over_http() {
    let directory = tempfile::tempdir().expect("a directory");
    let [checks, limits] = [(); 2].map(|()| format!("127.0.0.1:{}", free_port()));
    let arguments = ["--envoy-http-address", &checks, "--envoy-ratelimit-http-address", &limits];
    let server = Server::on(directory.path()).native().with(&arguments).start();
    for (address, method, path, body) in [
        (&checks, "GET", "/check/cart", ""),
        (&checks, "POST", "/cart", "{}"),
        (
            &limits,
            "POST",
            "/json",
            r#"{"domain": "shop", "descriptors": [{"entries": [{"key": "tenant", "value": "a"}]}]}"#,
        ),
        (&limits, "POST", "/json", "no JSON"),
        (&limits, "GET", "/healthcheck", ""),
        (&limits, "GET", "/rlconfig", ""),
    ] {
        let answer = http(method, &format!("http://{address}{path}"), body).expect("an answer");
        assert_eq!(answer.status, 503, "{path}: {}", answer.body);
        assert!(answer.body.starts_with("no configuration is served: "), "{path}: {}", answer.body);
    }
    // Whatever the failure mode of the proxy makes of them, they are counted.
    let metrics = http("GET", &server.monitoring_url("/metrics"), "").expect("metrics").body;
    for counted in [
        r#"bridge_check_total{code="UNAVAILABLE",result="error"} 2"#,
        r#"bridge_ratelimit_total{domain="other",result="error"} 2"#,
        r#"grpc_io_server_completed_rpcs{grpc_server_method="ext_authz.http/Check",grpc_server_status="UNAVAILABLE"} 2"#,
    ] {
        assert!(metrics.contains(counted), "{counted}: {metrics}");
    }
}
