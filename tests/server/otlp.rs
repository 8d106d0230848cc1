//! The otlp adapter: what collectors of OpenTelemetry receive over gRPC and HTTP, one that is strict and one that people run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

use crate::adapter_examples::{MANIFEST, example};
use crate::senders::{count, handler, report, until};
use crate::support::{Collector, DEADLINE, Server, free_port, http, python, rotel, wait_for};

const INSTANCES: &str = r#"
apiVersion: config.istio.io/v1alpha2
kind: attributemanifest
metadata: {name: words, namespace: istio-system}
spec:
  attributes:
    request.size: {valueType: INT64}
    request.path: {valueType: STRING}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: hits, namespace: istio-system}
spec: {compiledTemplate: metric, params: {value: "1", dimensions: {request_path: request.path | "/", response.code: "200"}}}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: took, namespace: istio-system}
spec: {compiledTemplate: metric, params: {value: '"20ms"', dimensions: {}}}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: level, namespace: istio-system}
spec: {compiledTemplate: metric, params: {value: request.size | 0, dimensions: {}}}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: entry, namespace: istio-system}
spec:
  compiledTemplate: logentry
  params:
    severity: '"Info"'
    timestamp: timestamp("2019-03-01T10:00:00Z")
    variables: {request.size: request.size | 0, text: request.path | "/", trace: '"463ac35c9f6413ad48485a3953bb6124"'}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: span, namespace: istio-system}
spec:
  compiledTemplate: tracespan
  params:
    traceId: '"463ac35c9f6413ad48485a3953bb6124"'
    spanId: '"a2fb4a1d1a96d312"'
    spanName: request.path | "/"
    startTime: timestamp("2019-03-01T10:00:00Z")
    endTime: timestamp("2019-03-01T10:00:01Z")
    httpStatusCode: '503'
    destinationName: '"web"'
    destinationIp: ip("10.0.0.2")
    spanTags: {request.size: request.size | 0}
"#;

fn params(protocol: &str, port: u16, more: &str) -> String {
    format!(
        "endpoint: 'http://127.0.0.1:{port}', protocol: {protocol}, exportInterval: 100ms, \
         metrics: {{hits.instance.istio-system: {{kind: COUNTER, name: http.hits, unit: '1'}}, \
         took.instance.istio-system: {{kind: DISTRIBUTION}}, level.instance.istio-system: {{kind: GAUGE}}}}, \
         logs: {{entry.instance.istio-system: {{body: text, traceId: trace}}}}{more}"
    )
}

fn start(directory: &Path, params: &str) -> Server {
    let all = handler("otel", "hits, took, level, entry, span", "otlp", params);
    std::fs::write(directory.join("config.yaml"), format!("{INSTANCES}{all}")).unwrap();
    Server::on(directory).native().start()
}

/// The strict collector: it, and its ports for gRPC and HTTP.
pub(crate) fn strict(ports: [u16; 2], options: &[&str]) -> Collector {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/otlp_receiver.py");
    Collector::start_on(ports[0], &python(), |port| {
        let fixed = [script.display().to_string(), port.to_string(), ports[1].to_string()];
        fixed.into_iter().chain(options.iter().map(|option| (*option).to_owned())).collect()
    })
}

/// The requests that the strict collector received so far, or those with an outcome.
pub(crate) fn requests(collector: &Collector, outcome: &str) -> Vec<Value> {
    let text = collector.printed();
    // The last line may be incomplete.
    let complete = text.rsplit_once('\n').map_or("", |(complete, _)| complete);
    let all = complete.lines().map(|line| {
        let request: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"));
        assert!(request["error"].is_null(), "{request}");
        request
    });
    all.filter(|request| outcome.is_empty() || request["outcome"] == outcome).collect()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Resource attributes and items of all requests of a signal.
pub(crate) fn items(requests: &[Value], signal: &str) -> Vec<(BTreeMap<String, Value>, Value)> {
    let [resources, scopes, items] = match signal {
        "metrics" => ["resource_metrics", "scope_metrics", "metrics"],
        "logs" => ["resource_logs", "scope_logs", "log_records"],
        _ => ["resource_spans", "scope_spans", "spans"],
    };
    let mut all = Vec::new();
    for request in requests.iter().filter(|request| request["signal"] == signal) {
        for of_resource in list(&request["message"][resources]) {
            let resource = attributes(&of_resource["resource"]);
            for scope in list(&of_resource[scopes]) {
                assert_eq!(scope["scope"]["name"], "mixer");
                all.extend(list(&scope[items]).iter().map(|item| (resource.clone(), item.clone())));
            }
        }
    }
    all
}

/// The attributes of an item; none is there twice.
pub(crate) fn attributes(item: &Value) -> BTreeMap<String, Value> {
    let entries = list(&item["attributes"]);
    let map: BTreeMap<String, Value> = entries
        .iter()
        .map(|entry| {
            let value = entry["value"].as_object().unwrap().values().next().unwrap().clone();
            (entry["key"].as_str().unwrap().to_owned(), value)
        })
        .collect();
    assert_eq!(map.len(), entries.len(), "{item}");
    map
}

/// A number that JSON has as text.
fn number(value: &Value) -> u64 {
    value.as_str().and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("{value}"))
}

/// The points of a metric, with their resources.
fn points(requests: &[Value], name: &str, data: &str) -> Vec<(BTreeMap<String, Value>, Value)> {
    let named = items(requests, "metrics").into_iter().filter(|(_, metric)| metric["name"] == name);
    named
        .flat_map(|(resource, metric)| {
            let points = list(&metric[data]["data_points"]).to_vec();
            points.into_iter().map(move |point| (resource.clone(), point))
        })
        .collect()
}

/// Waits until all records and spans are delivered.
fn until_delivered(server: &Server, items: u64) {
    for sender in ["otlp log sender", "otlp span sender"] {
        until(server, sender, "all is delivered", |of| count(of, "delivered") == items);
    }
}

#[test]
fn a_strict_collector_reads_every_metric_record_and_span_over_both_protocols() {
    for (protocol, name, compression) in [
        ("GRPC", "grpc", "NONE"),
        ("HTTP_PROTOBUF", "http", "NONE"),
        ("GRPC", "grpc", "GZIP"),
        ("HTTP_PROTOBUF", "http", "GZIP"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let token = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(token.path(), "hunter2\n").unwrap();
        let ports = [free_port(), free_port()];
        let collector = strict(ports, &[]);
        let port = if protocol == "GRPC" { ports[0] } else { ports[1] };
        let more = format!(
            ", compression: {compression}, headers: {{x-tenant: mesh}}, authentication: {{tokenFile: '{}'}}, \
             resourceAttributes: {{deployment.environment.name: lab}}",
            token.path().display()
        );
        let mut server = start(directory.path(), &params(protocol, port, &more));
        report(&server, 0..100, "/a");
        until_delivered(&server, 100);
        // What was not read yet is sent at the end.
        report(&server, 100..150, "/b");
        assert_eq!(server.terminate(), Ok(Some(0)), "{}", server.log());
        let all = requests(&collector, "");
        for request in &all {
            let headers = &request["headers"];
            assert_eq!(request["protocol"], name);
            assert_eq!(
                (&headers["x-tenant"], &headers["authorization"]),
                (&"mesh".into(), &"Bearer hunter2".into())
            );
            // The library of gRPC, which decodes it, does not show the header.
            if name == "http" {
                assert_eq!(headers["content-encoding"] == "gzip", compression == "GZIP", "{headers}");
            }
            assert!(headers["user-agent"].as_str().unwrap().starts_with("mixer/"), "{headers}");
        }
        let hits = points(&all, "http.hits", "sum");
        for (resource, point) in &hits {
            assert_eq!(
                (&resource["service.name"], &resource["deployment.environment.name"]),
                (&"istio-mixer".into(), &"lab".into())
            );
            assert_eq!(resource["service.instance.id"].as_str().unwrap().len(), 36);
            assert!(number(&point["start_time_unix_nano"]) < number(&point["time_unix_nano"]), "{point}");
        }
        for (path, total) in [("/a", 100), ("/b", 50)] {
            let of = |point: &Value| attributes(point)["url.original"] == path;
            let of_path: Vec<&Value> =
                hits.iter().map(|(_, point)| point).filter(|point| of(point)).collect();
            let last = of_path.last().unwrap_or_else(|| panic!("{path}: {hits:?}"));
            assert_eq!(number(&last["as_int"]), total, "{last}");
            assert_eq!(attributes(last)["http.response.status_code"], "200");
            let starts: BTreeSet<u64> =
                of_path.iter().map(|point| number(&point["start_time_unix_nano"])).collect();
            assert_eq!(starts.len(), 1, "{hits:?}");
        }
        let of_hits =
            items(&all, "metrics").into_iter().find(|(_, metric)| metric["name"] == "http.hits").unwrap().1;
        assert_eq!((&of_hits["sum"]["is_monotonic"], &of_hits["unit"]), (&true.into(), &"1".into()));
        assert_eq!(of_hits["sum"]["aggregation_temporality"], "AGGREGATION_TEMPORALITY_CUMULATIVE");
        let took = points(&all, "took", "histogram").pop().unwrap().1;
        assert_eq!((number(&took["count"]), &took["min"]), (150, &0.02.into()));
        assert_eq!(number(&list(&took["bucket_counts"])[2]), 150);
        let level = points(&all, "level", "gauge").pop().unwrap().1;
        assert_eq!(level["as_int"], "149");
        let records = items(&all, "logs");
        let numbers: Vec<String> = records
            .iter()
            .map(|(_, record)| {
                assert_eq!(
                    (&record["severity_number"], &record["severity_text"]),
                    (&"SEVERITY_NUMBER_INFO".into(), &"Info".into())
                );
                assert!(["/a", "/b"].contains(&record["body"]["string_value"].as_str().unwrap()), "{record}");
                assert_eq!(number(&record["time_unix_nano"]), 1_551_434_400_000_000_000);
                assert_eq!(
                    (record["trace_id"].as_str().unwrap().len(), &record["event_name"]),
                    (24, &"entry.instance.istio-system".into())
                );
                let attributes = attributes(record);
                assert_eq!(attributes.len(), 1, "{record}");
                attributes["http.request.body.size"].as_str().unwrap().to_owned()
            })
            .collect();
        assert_eq!(numbers, (0..150).map(|number| number.to_string()).collect::<Vec<_>>());
        let spans = items(&all, "traces");
        assert_eq!(spans.len(), 150);
        for (resource, span) in &spans {
            let of_service = BTreeMap::from([
                ("service.name".to_owned(), "web".into()),
                ("deployment.environment.name".to_owned(), "lab".into()),
            ]);
            assert_eq!(*resource, of_service);
            assert_eq!(
                (&span["kind"], &span["status"]["code"]),
                (&"SPAN_KIND_SERVER".into(), &"STATUS_CODE_ERROR".into())
            );
            assert_eq!(attributes(span)["destination.address"], "10.0.0.2");
        }
        assert!(!server.log().contains("hunter2"));
    }
}

#[test]
fn a_busy_collector_gets_everything_once_and_what_it_rejects_is_counted() {
    for protocol in ["GRPC", "HTTP_PROTOBUF"] {
        let directory = tempfile::tempdir().unwrap();
        let ports = [free_port(), free_port()];
        let collector = strict(ports, &["busy=2", "reject=3"]);
        let port = if protocol == "GRPC" { ports[0] } else { ports[1] };
        let server = start(directory.path(), &params(protocol, port, ", temporality: DELTA"));
        report(&server, 0..50, "/");
        let settled =
            |of: &Value| count(of, "delivered") + count(&of["dropped"], "failed") == count(of, "accepted");
        until(&server, "otlp log sender", "the first are settled", |of| {
            count(of, "accepted") == 50 && settled(of)
        });
        report(&server, 50..100, "/");
        let logs = until(&server, "otlp log sender", "all is settled", |of| {
            count(of, "accepted") == 100 && settled(of)
        });
        let rejected =
            requests(&collector, "rejected").iter().filter(|request| request["signal"] == "logs").count()
                as u64;
        assert!(rejected > 0, "{}", collector.printed());
        assert_eq!(count(&logs["dropped"], "failed"), 3 * rejected, "{logs}");
        let sample = "mixer_otlp_rejected_total{handler=\"otel.istio-system\",reason=\"partial success\",signal=\"logs\"} ";
        let metrics = http("GET", &server.monitoring_url("/metrics"), "").unwrap().body;
        let counted =
            metrics.lines().find_map(|line| line.strip_prefix(sample)).unwrap_or_else(|| panic!("{metrics}"));
        assert_eq!(counted, (3 * rejected).to_string());
        server.wait_for_log("not these");
        // The busy collector has printed them as well; it took each once.
        let taken: Vec<Value> =
            requests(&collector, "").into_iter().filter(|request| request["outcome"] != "busy").collect();
        assert_eq!(items(&taken, "logs").len(), 100);
        let total = wait_for(DEADLINE, || {
            let taken: Vec<Value> =
                requests(&collector, "").into_iter().filter(|request| request["outcome"] != "busy").collect();
            let sum: u64 =
                points(&taken, "http.hits", "sum").iter().map(|(_, point)| number(&point["as_int"])).sum();
            (sum >= 100).then_some(sum)
        });
        assert_eq!(total, Some(100), "{}", collector.printed());
    }
}

#[test]
fn sums_and_records_are_complete_although_the_collector_comes_late_and_goes() {
    let directory = tempfile::tempdir().unwrap();
    let ports = [free_port(), free_port()];
    // Less than the points of all series take.
    let more = ", temporality: DELTA, timeout: 60s, queueKilobytes: 16";
    let mut server = start(directory.path(), &params("GRPC", ports[0], more));
    report(&server, 0..50, "/early");
    until(&server, "otlp metric sender", "it fails", |of| {
        of["state"] == "failing" || of["state"] == "paused"
    });
    // Each has a series of its own.
    for number in 0..200 {
        report(&server, 0..1, &format!("/{number}"));
    }
    let sums = |collectors: &[&Collector]| -> u64 {
        let all: Vec<Value> = collectors.iter().flat_map(|of| requests(of, "taken")).collect();
        points(&all, "http.hits", "sum").iter().map(|(_, point)| number(&point["as_int"])).sum()
    };
    let first = strict(ports, &[]);
    let arrived = wait_for(4 * DEADLINE, || (sums(&[&first]) == 250).then_some(()));
    assert!(arrived.is_some(), "{} of 250\n{}", sums(&[&first]), server.log());
    server.wait_for_log("the backend takes everything again");
    let of_metrics = until(&server, "otlp metric sender", "nothing waits", |of| {
        count(of, "queued") + count(of, "inFlight") == 0
    });
    assert_eq!(
        count(&of_metrics["dropped"], "full") + count(&of_metrics["dropped"], "failed"),
        0,
        "{of_metrics}"
    );
    assert_eq!(server.terminate(), Ok(Some(0)), "{}", server.log());
    assert_eq!(sums(&[&first]), 250);
}

#[test]
fn the_example_of_the_page_counts_requests() {
    let ports = [free_port(), free_port()];
    let collector = strict(ports, &[]);
    let address = format!("http://127.0.0.1:{}", ports[0]);
    let text = example("otlp").replace("http://otel-collector.observability:4317", &address);
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("config.yaml"), MANIFEST.to_owned() + &text).unwrap();
    let mut server = Server::on(directory.path()).native().start();
    report(&server, 0..7, "/");
    assert_eq!(server.terminate(), Ok(Some(0)), "{}", server.log());
    let all = points(&requests(&collector, ""), "mesh.requests", "sum");
    let [(resource, point)] = &all[..] else { panic!("{}", collector.printed()) };
    assert_eq!(
        (&point["as_int"], &resource["deployment.environment.name"]),
        (&"7".into(), &"production".into())
    );
    assert_eq!(attributes(point)["http.request.method"], "unknown");
}

#[test]
fn a_collector_that_people_run_accepts_all_signals_over_both_protocols() {
    for protocol in ["GRPC", "HTTP_PROTOBUF"] {
        let directory = tempfile::tempdir().unwrap();
        let grpc = free_port();
        let collector = Collector::start(&rotel(), |http| {
            let http = format!("--otlp-http-endpoint=127.0.0.1:{http}");
            let grpc = format!("--otlp-grpc-endpoint=127.0.0.1:{grpc}");
            let rest = [
                "--exporter=blackhole",
                "--debug-log=metrics",
                "--debug-log=logs",
                "--debug-log=traces",
                "--debug-log-verbosity=detailed",
            ];
            ["start", &http, &grpc].iter().chain(&rest).map(|text| (*text).to_owned()).collect()
        });
        let port = if protocol == "GRPC" { grpc } else { collector.port };
        let server = start(directory.path(), &params(protocol, port, ""));
        report(&server, 0..10, "/a");
        until_delivered(&server, 10);
        until(&server, "otlp metric sender", "points are delivered", |of| count(of, "delivered") >= 3);
        let wanted = [
            "http.hits",
            "took",
            "level",
            "service.name: Str(istio-mixer)",
            "service.name: Str(web)",
            "http.request.body.size: Int(7)",
            "SPAN_KIND_SERVER",
        ];
        let all = || wanted.iter().all(|text| collector.printed().contains(text));
        assert!(wait_for(DEADLINE, || all().then_some(())).is_some(), "{}", collector.printed());
    }
}
