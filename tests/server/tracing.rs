//! Spans as collectors receive them: an OpenTelemetry collector, and the decoders of Zipkin and Jaeger.

use std::path::Path;

use crate::support::{Collector, DEADLINE, Server, free_port, programs, python, rotel, run, wait_for};
use serde_json::Value;

/// A collector that decodes the formats of Zipkin and Jaeger.
pub(crate) fn decoding() -> Collector {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/collector.py");
    Collector::start(&python(), |port| vec![script.display().to_string(), port.to_string()])
}

const CLOSED: &str = "closed.ns.svc.cluster.local";

/// A server that exports spans by `flag`, after a check that it denies and a report.
fn calls(flag: &str, more: &[&str]) -> Server {
    let server = Server::on_store("embedded://sample").with(&[flag]).with(more).start();
    let address = server.address();
    for (method, attributes) in
        [("check", format!("destination.service={CLOSED}")), ("report", "context.protocol=http".to_owned())]
    {
        let arguments: Vec<String> = [method, "-m", &address, "-s", &attributes, flag]
            .iter()
            .chain(more)
            .map(|text| (*text).to_owned())
            .collect();
        let finished = run(&programs().path("mixc"), &arguments, &[], None, None, DEADLINE).expect("it ends");
        assert_eq!(finished.status, 0, "{}", finished.stderr);
    }
    server
}

/// The spans that the decoding collector has received so far.
pub(crate) fn decoded(collector: &Collector) -> Vec<Value> {
    // The last line may be incomplete.
    let printed = collector.printed();
    let requests = printed.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    requests
        .flat_map(|request| {
            assert!(request["error"].is_null(), "{request}");
            request["spans"].as_array().cloned().unwrap_or_default()
        })
        .collect()
}

/// The spans that the decoding collector has received, once there are `wanted` of them.
fn seen(collector: &Collector, wanted: usize) -> Vec<Value> {
    let complete = wait_for(DEADLINE, || Some(decoded(collector)).filter(|spans| spans.len() >= wanted));
    complete.unwrap_or_else(|| panic!("fewer than {wanted} spans: {}", collector.printed()))
}

fn named<'s>(spans: &'s [Value], name: &str, times: usize) -> Vec<&'s Value> {
    let found: Vec<&Value> = spans.iter().filter(|span| span["name"] == name).collect();
    assert_eq!(found.len(), times, "{name} in {spans:#?}");
    found
}

const DENIED: &str = "checknothing:turn-away.istio-system(denier)";

/// The trace of the check: `mixc Check` -> client span -> server span -> dispatch to the handler.
fn assert_one_trace(spans: &[Value], is_server: impl Fn(&Value) -> bool) {
    let [command] = named(spans, "mixc Check", 1)[..] else { return };
    let both = named(spans, "/istio.mixer.v1.Mixer/Check", 2);
    let (server, client): (Vec<&Value>, Vec<&Value>) = both.into_iter().partition(|span| is_server(span));
    let ([server], [client]) = (&server[..], &client[..]) else { panic!("{spans:#?}") };
    let [denied] = named(spans, DENIED, 1)[..] else { return };
    for span in [server, client, &denied] {
        assert_eq!(span["traceId"], command["traceId"], "{spans:#?}");
    }
    assert_eq!(client["parentId"], command["id"]);
    assert_eq!(server["parentId"], client["id"]);
    assert_eq!(denied["parentId"], server["id"]);
    let [report] = named(spans, "Report", 1)[..] else { return };
    for name in ["attribute bag 0", "metric:prometheus-http.istio-system(prometheus)"] {
        let [part] = named(spans, name, 1)[..] else { return };
        assert_eq!((&part["parentId"], &part["traceId"]), (&report["id"], &report["traceId"]), "{name}");
    }
    for span in spans {
        assert!(span["timestamp"].as_i64() > Some(1_600_000_000_000_000), "{span}");
        assert!(span["duration"].as_i64() > Some(0), "{span}");
    }
}

#[test]
fn zipkin_decodes_v1_and_v2() {
    for path in ["api/v1/spans", "api/v2/spans"] {
        let collector = decoding();
        let flag = format!("--trace_zipkin_url=http://127.0.0.1:{}/{path}", collector.port);
        let _server = calls(&flag, &["--trace_sampling_rate=1"]);
        let spans = seen(&collector, 11);
        let says = |span: &Value, text: &str| span["annotations"].to_string().contains(text);
        assert_one_trace(&spans, |span| span["kind"] == "SERVER" || says(span, "\"sr\""));
        let [denied] = named(&spans, DENIED, 1)[..] else { return };
        assert!(says(denied, r#"\"response_code\":\"PERMISSION_DENIED\""#), "{denied}");
        assert!(says(denied, r#"{\"adapter\":\"denier\",\"error\":false,"#), "members are sorted: {denied}");
        if path.contains("v1") {
            assert_eq!(denied["tags"]["lc"], "istio-mixer");
        } else {
            assert_eq!(denied["localEndpoint"]["serviceName"], "istio-mixer");
        }
    }
}

#[test]
fn jaeger_decodes_thrift() {
    let collector = decoding();
    let flag =
        format!("--trace_jaeger_url=http://127.0.0.1:{}/api/traces?format=jaeger.thrift", collector.port);
    let _server = calls(&flag, &["--trace_sampling_rate=1"]);
    let spans = seen(&collector, 11);
    assert_one_trace(&spans, |span| span["tags"]["span.kind"] == "server");
    let [denied] = named(&spans, DENIED, 1)[..] else { return };
    let fields = &denied["logs"][0]["fields"];
    for (name, value) in [
        ("meshFunction", "checknothing"),
        ("handler", "turn-away.istio-system"),
        ("adapter", "denier"),
        ("response_code", "PERMISSION_DENIED"),
        ("response_message", "this client may not call this service"),
    ] {
        assert_eq!(fields[name], value, "{denied}");
    }
    assert_eq!(fields["error"], false);
}

#[test]
fn an_opentelemetry_collector_accepts_spans() {
    let collector = Collector::start(&rotel(), |port| {
        let http = format!("--otlp-http-endpoint=127.0.0.1:{port}");
        let grpc = format!("--otlp-grpc-endpoint=127.0.0.1:{}", free_port());
        let rest = ["--exporter=blackhole", "--debug-log=traces", "--debug-log-verbosity=detailed"];
        ["start", &http, &grpc].iter().chain(&rest).map(|text| (*text).to_owned()).collect()
    });
    let flag = format!("--trace_otlp_url=http://127.0.0.1:{}/v1/traces", collector.port);
    let server = calls(&flag, &["--trace_sampling_rate=1"]);
    let wanted = [
        "service.name: Str(istio-mixer)",
        "service.name: Str(mixer-client)",
        "Name           : /istio.mixer.v1.Mixer/Check\n    Kind           : SPAN_KIND_SERVER",
        "Name           : /istio.mixer.v1.Mixer/Check\n    Kind           : SPAN_KIND_CLIENT",
        "rpc.system: Str(grpc)",
        "rpc.service: Str(istio.mixer.v1.Mixer)",
        "rpc.method: Str(Report)",
        "Name           : checknothing:turn-away.istio-system(denier)",
        "response_code: Str(PERMISSION_DENIED)",
        "Name           : attribute bag 0",
    ];
    let all = || wanted.iter().all(|text| collector.printed().contains(text));
    assert!(wait_for(DEADLINE, || all().then_some(())).is_some(), "{}", collector.printed());
    assert!(server.metric("mixer_tracing_spans_sent_total") >= 7.0);
    assert_eq!(server.metric("mixer_tracing_spans_lost_total"), 0.0);
}

/// The sampling decision of a caller wins; without one the sampling rate, here 0, decides.
#[test]
fn the_sampling_decision_of_the_caller_is_followed() {
    let server = Server::on_store("embedded://sample").with(&["--trace_log_spans"]).start();
    let sampled = [
        "x-b3-traceid: 00000000000000a1\nx-b3-spanid: 1\nx-b3-sampled: 1",
        "b3: 00000000000000a2-0000000000000001-1",
        "traceparent: 00-000000000000000000000000000000a3-0000000000000001-01",
        "uber-trace-id: a4:1:0:1",
    ];
    let unsampled = [
        "x-b3-traceid: 00000000000000b1\nx-b3-spanid: 1\nx-b3-sampled: 0",
        "b3: 00000000000000b2-0000000000000001",
        "traceparent: 00-000000000000000000000000000000b3-0000000000000001-00",
        "uber-trace-id: b4:1:0:0",
        "traceparent: garbage",
    ];
    for headers in unsampled.iter().chain(&sampled) {
        call_with(&server, headers);
    }
    let spans = |trace: &str| server.log().lines().filter(|line| line.contains(trace)).count();
    let log = || server.log();
    for trace in ["\"a1:", "\"a2:", "\"a3:", "\"a4:"] {
        let seen = wait_for(DEADLINE, || (spans(trace) >= 2).then_some(()));
        assert!(seen.is_some(), "{trace} is not traced:\n{}", log());
    }
    for trace in ["\"b1:", "\"b2:", "\"b3:", "\"b4:"] {
        assert_eq!(spans(trace), 0, "{trace} is traced:\n{}", log());
    }
    assert!(!log().contains("garbage"));
}

/// Sends an empty check with headers, one per line.
fn call_with(server: &Server, headers: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let stream = tokio::net::TcpStream::connect(server.address()).await.expect("a connection");
        let (mut sender, connection) = h2::client::handshake(stream).await.expect("HTTP/2");
        let driving = tokio::spawn(connection);
        let mut request =
            http::Request::post(format!("http://{}/istio.mixer.v1.Mixer/Check", server.address()))
                .header("content-type", "application/grpc");
        for header in headers.lines() {
            let (name, value) = header.split_once(": ").expect("a header");
            request = request.header(name, value);
        }
        let request = request.body(()).expect("a request");
        let (response, mut body) = sender.send_request(request, false).expect("sent");
        body.send_data(bytes::Bytes::from_static(&[0; 5]), true).expect("sent");
        assert_eq!(response.await.expect("an answer").status(), 200);
        driving.abort();
    });
}

/// An unreachable collector costs spans, not calls, and does not delay shutdown.
#[test]
fn an_unreachable_collector_costs_spans_only() {
    let flag = format!("--trace_zipkin_url=http://127.0.0.1:{}/api/v2/spans", free_port());
    let mut server = calls(&flag, &["--trace_sampling_rate=1"]);
    let lost = || (server.metric("mixer_tracing_spans_lost_total") >= 7.0).then_some(());
    assert!(wait_for(DEADLINE, lost).is_some(), "{}", server.log());
    assert!(server.log().contains("spans lost: export to the collector failed"), "{}", server.log());
    assert_eq!(server.terminate(), Ok(Some(0)));
}
