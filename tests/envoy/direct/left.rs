//! Calls whose callers leave before the answer, and clients that do not speak the protocol.

use super::{AUTHORIZATION, LIMITS, Setting, check, check_request};
use crate::support::rpc::{CHECK, Client};
use crate::support::{DEADLINE, free_port, http, wait_for};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

/// The quota that the descriptors of `direct.yaml` are charged to never answers.
const SILENT_QUOTA: &str = "---
apiVersion: config.istio.io/v1alpha2
kind: rule
metadata: {name: silent-limit, namespace: istio-system}
spec:
  match: (ratelimit.descriptor[\"tenant\"] | \"\") == \"silent\"
  actions:
  - {handler: hang, instances: [calls]}
";

fn metrics(setting: &Setting) -> String {
    http("GET", &setting.server.monitoring_url("/metrics"), "").expect("metrics").body
}

/// The value of a series; 0 if it is not there.
fn value(metrics: &str, series: &str) -> u64 {
    let line = metrics.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.map_or(0, |value| value.parse().expect("a number"))
}

fn of_calls(method: &str, status: &str) -> String {
    format!(
        "grpc_io_server_completed_rpcs{{grpc_server_method=\"{method}\",grpc_server_status=\"{status}\"}}"
    )
}

/// Waits until a series has this value, and returns all of them.
#[track_caller]
fn counted(setting: &Setting, series: &str, expected: u64) -> String {
    let found = wait_for(DEADLINE, || {
        let all = metrics(setting);
        (value(&all, series) == expected).then_some(all)
    });
    found.unwrap_or_else(|| panic!("{series} is not {expected}\n{}", metrics(setting)))
}

/// Whether so many calls are at handlers: those of their pools, which a call enters before its handler has it.
fn at_handlers(url: &str, count: u64) -> bool {
    let all = http("GET", url, "").expect("metrics").body;
    value(&all, r#"mixer_pool_in_flight{pool="adapter"}"#) == count
}

/// Calls a method, and leaves while the handler is asked. Returns whether there was no answer.
fn leave(setting: &Setting, client: &mut Client, path: &'static str, body: Vec<u8>) -> bool {
    let url = setting.server.monitoring_url("/metrics");
    client.leave(path, body, || at_handlers(&url, 1), || at_handlers(&url, 0))
}

/// The series that says whether handlers are degraded.
const DEGRADED: &str = r#"mixer_component_degraded{component="handlers"}"#;

#[test]
fn checks_whose_callers_leave_are_counted_once_logged_and_tell_of_the_handler() {
    let arguments = ["--decision-log", "$DIRECTORY/log", "--record-requests", "$DIRECTORY/recording"];
    let setting = Setting::start(&arguments);
    let mut client = setting.client();
    for _ in 0..3 {
        assert!(leave(&setting, &mut client, AUTHORIZATION, check_request("/hang", "ann")), "no answer");
    }
    let check_of_envoy = "envoy.service.auth.v3.Authorization/Check";
    counted(&setting, &of_calls(check_of_envoy, "CANCELLED"), 3);
    let latencies = format!("grpc_io_server_server_latency_count{{grpc_server_method=\"{check_of_envoy}\"}}");
    counted(&setting, &latencies, 3);
    let all = counted(&setting, r#"bridge_check_total{code="CANCELLED",result="error"}"#, 3);
    let failed = all.lines().find(|line| {
        line.starts_with("mixer_runtime_dispatches_total{")
            && [r#"error="true""#, r#"handler="hang.istio-system""#].iter().all(|label| line.contains(label))
    });
    assert!(failed.is_some_and(|line| line.ends_with(" 3")), "{failed:?}");
    let of_rule =
        all.lines().find(|line| line.starts_with("mixer_rule_errors_total{") && line.contains("\"hang."));
    assert!(of_rule.is_some_and(|line| line.ends_with(" 3")), "{of_rule:?}");
    counted(&setting, DEGRADED, 1);

    // One that is answered is counted as before.
    assert_eq!(check(&mut client, "/", "ann").expect("an answer"), 0);
    let all = counted(&setting, &of_calls(check_of_envoy, "OK"), 1);
    assert_eq!(value(&all, &of_calls(check_of_envoy, "CANCELLED")), 3, "{all}");
    let checks = all.lines().filter(|line| line.starts_with("bridge_check_total{")).count();
    assert_eq!(checks, 2, "{all}");

    let written = wait_for(DEADLINE, || Some(setting.lines("log")).filter(|lines| lines.len() == 4));
    let lines = written.unwrap_or_else(|| panic!("{:?}", setting.lines("log")));
    for line in &lines[..3] {
        assert_eq!(line["error"]["name"], "CANCELLED", "{line}");
        assert!(
            line["error"]["message"].as_str().is_some_and(|why| why.contains("the caller left")),
            "{line}"
        );
        assert_eq!(line["attributes"]["request.path"], "/hang", "{line}");
        assert_eq!(line["handlers"][0]["handler"], "hang.istio-system", "{line}");
        assert_eq!(line["handlers"][0]["error"], "no answer before the caller left", "{line}");
    }
    // What they would have been answered is not known.
    let recorded = wait_for(DEADLINE, || Some(setting.lines("recording")).filter(|lines| !lines.is_empty()));
    assert_eq!(recorded.map(|lines| lines.len()), Some(1));
}

#[test]
fn checks_of_mixer_and_rate_limits_whose_callers_leave_are_counted() {
    let text = format!("{}{SILENT_QUOTA}", include_str!("../direct.yaml"));
    let setting = Setting::on(&text, &["--decision-log", "$DIRECTORY/log"]);
    let mut client = setting.client();
    let mut attributes = mixer_attribute::OwnedAttributes::new();
    attributes.insert("request.path", mixer_attribute::OwnedValue::String("/hang".into()));
    let call = mixer_attribute::request::CheckCall {
        deduplication_id: "",
        quotas: std::collections::BTreeMap::new(),
    };
    let request = mixer_attribute::request::encode_check_request(&attributes, 0, &call);
    assert!(leave(&setting, &mut client, CHECK, request), "no answer");
    counted(&setting, &of_calls("istio.mixer.v1.Mixer/Check", "CANCELLED"), 1);

    assert!(leave(&setting, &mut client, LIMITS, super::limit_request("silent")), "no answer");
    let method = "envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
    counted(&setting, &of_calls(method, "CANCELLED"), 1);
    counted(&setting, r#"bridge_ratelimit_total{domain="shop",result="error"}"#, 1);
    let written = wait_for(DEADLINE, || Some(setting.lines("log")).filter(|lines| lines.len() == 2));
    let lines = written.unwrap_or_else(|| panic!("{:?}", setting.lines("log")));
    for (line, method) in lines.iter().zip(["check", "limit"]) {
        assert_eq!(
            (&line["method"], &line["error"]["name"]),
            (&method.into(), &"CANCELLED".into()),
            "{line}"
        );
    }
}

#[test]
fn checks_over_http_whose_callers_leave_are_counted() {
    let address = format!("127.0.0.1:{}", free_port());
    let setting = Setting::start(&["--envoy-http-address", &address]);
    let mut stream = wait_for(DEADLINE, || TcpStream::connect(&address).ok()).expect("it listens");
    stream.write_all(b"GET /check/hang HTTP/1.1\r\nhost: shop\r\n\r\n").expect("it is written");
    let url = setting.server.monitoring_url("/metrics");
    wait_for(DEADLINE, || at_handlers(&url, 1).then_some(())).expect("the handler is asked");
    stream.set_nonblocking(true).expect("a socket");
    assert!(stream.read(&mut [0; 100]).is_err(), "no answer");
    drop(stream);
    // Which of them is counted first is not said.
    counted(&setting, &of_calls("ext_authz.http/Check", "CANCELLED"), 1);
    counted(&setting, r#"bridge_check_total{code="CANCELLED",result="error"}"#, 1);
    counted(&setting, DEGRADED, 1);
}

/// Their callers are told: they are no calls whose callers left.
#[test]
fn checks_that_the_pool_refuses_are_counted_as_such() {
    let arguments = ["--apiWorkerPoolSize=1", "--api-queue-length=0", "--decision-log", "$DIRECTORY/log"];
    let setting = Setting::start(&arguments);
    let (address, url) = (setting.server.address(), setting.server.monitoring_url("/metrics"));
    let (refuses, is_refused) = std::sync::mpsc::channel();
    let of_first = url.clone();
    let first = std::thread::spawn(move || {
        let mut client = Client::new(&address).expect("a client");
        let may_leave = || is_refused.try_recv().is_ok();
        client.leave(AUTHORIZATION, check_request("/hang", "ann"), may_leave, || at_handlers(&of_first, 0))
    });
    wait_for(DEADLINE, || at_handlers(&url, 1).then_some(())).expect("the handler is asked");
    let refused = check(&mut setting.client(), "/hang", "bob").expect_err("the pool is full");
    assert_eq!(refused.code(), tonic::Code::ResourceExhausted, "{refused}");
    let all = metrics(&setting);
    assert!(!all.contains(r#"bridge_check_total{code="CANCELLED""#), "{all}");
    refuses.send(()).expect("the first waits");
    assert!(first.join().expect("it does not panic"), "no answer");
    let all = counted(&setting, r#"bridge_check_total{code="CANCELLED",result="error"}"#, 1);
    assert_eq!(value(&all, &of_calls("envoy.service.auth.v3.Authorization/Check", "RESOURCE_EXHAUSTED")), 1);
    assert_eq!(value(&all, r#"bridge_check_total{code="RESOURCE_EXHAUSTED",result="error"}"#), 1, "{all}");
    let written = wait_for(DEADLINE, || Some(setting.lines("log")).filter(|lines| lines.len() == 2));
    let lines = written.unwrap_or_else(|| panic!("{:?}", setting.lines("log")));
    let line = lines.iter().find(|line| line["error"]["name"] == "RESOURCE_EXHAUSTED");
    let line = line.unwrap_or_else(|| panic!("{lines:?}"));
    assert_eq!(line["attributes"]["request.path"], "/hang", "{line}");
    assert_eq!(line["handlers"][0]["error"], "the call was refused before it was asked", "{line}");
}

/// A check that is shed is one that the failure mode of the proxy decides, which may let it pass.
#[test]
fn calls_that_are_shed_are_counted_and_logged() {
    let address = format!("127.0.0.1:{}", free_port());
    let arguments = [
        "--loadsheddingMode=enforce",
        "--maxRequestsPerSecond=0.01",
        "--burstSize=1",
        "--decision-log=$DIRECTORY/log",
        "--envoy-http-address",
        &address,
    ];
    let setting = Setting::start(&arguments);
    let mut client = setting.client();
    assert_eq!(check(&mut client, "/", "ann").expect("an answer"), 0);
    assert!(check(&mut client, "/shed", "ann").is_err(), "it is shed");
    assert!(client.call(LIMITS, super::limit_request("a"), None).is_err(), "it is shed");
    let over_http = http("GET", &format!("http://{address}/check/shed"), "").expect("an answer");
    assert_eq!(over_http.status, 503);
    let outside = http("GET", &format!("http://{address}/elsewhere"), "").expect("an answer");
    assert_eq!(outside.status, 404);
    let all = metrics(&setting);
    assert_eq!(value(&all, r#"bridge_check_total{code="RESOURCE_EXHAUSTED",result="error"}"#), 2, "{all}");
    assert_eq!(value(&all, r#"bridge_check_total{code="NOT_FOUND",result="deny"}"#), 1, "{all}");
    assert_eq!(value(&all, &of_calls("ext_authz.http/Check", "NOT_FOUND")), 1, "{all}");
    assert_eq!(value(&all, r#"bridge_ratelimit_total{domain="shop",result="error"}"#), 1, "{all}");
    let written = wait_for(DEADLINE, || Some(setting.lines("log")).filter(|lines| lines.len() == 5));
    let lines = written.unwrap_or_else(|| panic!("{:?}", setting.lines("log")));
    let shed = lines.iter().filter(|line| line["error"]["name"] == "RESOURCE_EXHAUSTED").count();
    assert_eq!(shed, 3, "{lines:?}");
    let paths = lines.iter().filter(|line| line["attributes"]["request.path"] == "/shed").count();
    assert_eq!(paths, 2, "{lines:?}");
}

#[test]
fn a_client_that_speaks_another_protocol_is_told_in_the_log_with_the_cure() {
    let setting = Setting::start(&[]);
    for (sent, cure) in [
        (
            &b"POST /envoy.service.auth.v3.Authorization/Check HTTP/1.1\r\nhost: a\r\n\r\n"[..],
            "http2_protocol_options",
        ),
        (&[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3][..], "--tls-cert-file"),
    ] {
        let mut stream = TcpStream::connect(setting.server.address()).expect("it listens");
        stream.write_all(sent).expect("it is written");
        let local = stream.local_addr().expect("an address").to_string();
        setting.server.wait_for_log(cure);
        let log = setting.server.log();
        let line = log.lines().find(|line| line.contains(cure)).unwrap_or_default();
        assert!(
            line.contains("a connection was refused: the client speaks") && line.contains(&local),
            "{line}"
        );
    }
}

/// Its proxy makes a refusal with an empty body of the answer, and tells nobody why.
#[test]
fn a_client_that_speaks_http2_to_a_port_of_http1_is_told_in_the_log() {
    let address = format!("127.0.0.1:{}", free_port());
    let setting = Setting::start(&["--envoy-http-address", &address]);
    let mut stream = TcpStream::connect(&address).expect("it listens");
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").expect("it is written");
    let local = stream.local_addr().expect("an address").to_string();
    let cure = "the client speaks HTTP/2, and this port HTTP/1.1";
    setting.server.wait_for_log(cure);
    let log = setting.server.log();
    let line = log.lines().find(|line| line.contains(cure)).unwrap_or_default();
    assert!(line.contains(&local), "{line}");
}
