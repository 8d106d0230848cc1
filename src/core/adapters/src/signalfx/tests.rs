use std::collections::BTreeMap;
use std::io::Read as _;
use std::time::Duration;

use mixer_attribute::{SignedDuration, StringMap, Timestamp, Value, ValueType};
use mixer_engine::adapter::{BoundInstance, Env, Handler, Instance, Leaf, Reply};
use prost::Message as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use super::span::{JsonTemplate, SpanItem};
use super::*;
use crate::testing::{TestClock, bound, test_env};
use crate::tracespan::Outcome;

const PATIENCE: Duration = Duration::from_secs(60);
const NAME: &str = "m.instance.ns";

/// SignalFx's `DataPointUploadMessage`.
#[derive(Clone, PartialEq, prost::Message)]
struct Upload {
    #[prost(message, repeated, tag = "1")]
    points: Vec<Point>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Point {
    #[prost(string, optional, tag = "2")]
    metric: Option<String>,
    #[prost(int64, optional, tag = "3")]
    timestamp: Option<i64>,
    #[prost(message, optional, tag = "4")]
    value: Option<Datum>,
    #[prost(int32, optional, tag = "5")]
    kind: Option<i32>,
    #[prost(message, repeated, tag = "6")]
    dimensions: Vec<Dimension>,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
struct Datum {
    #[prost(double, optional, tag = "2")]
    double: Option<f64>,
    #[prost(int64, optional, tag = "3")]
    int: Option<i64>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Dimension {
    #[prost(string, optional, tag = "1")]
    key: Option<String>,
    #[prost(string, optional, tag = "2")]
    value: Option<String>,
}

fn metric(value_type: ValueType) -> BoundInstance {
    let dimensions = [("svc.name/x", ValueType::String), ("svc_name_x", ValueType::String)];
    let mut instance = bound(NAME, "metric", "dimensions", &dimensions);
    let of_resource = |key: Option<&str>, field| Leaf::new(field, key, ValueType::String);
    let more = [
        Leaf::new("value", None, value_type),
        of_resource(None, "monitored_resource_type"),
        of_resource(Some("zone"), "monitored_resource_dimensions"),
    ];
    instance.leaves = instance.leaves.iter().cloned().chain(more).collect();
    instance
}

/// The leaves of the instances of these tests, in the order of [`span`].
fn tracespan() -> BoundInstance {
    let tags =
        ["code", "context.reporter.type", "destination.ip", "source.ip", "source.labels", "source.name"];
    let tags = tags.map(|tag| (tag, ValueType::String));
    let mut instance = bound("t.instance.ns", "tracespan", "span_tags", &tags);
    let leaf = |field| Leaf::new(field, None, ValueType::String);
    let fields = ["trace_id", "span_id", "span_name", "start_time", "end_time", "httpStatusCode"];
    instance.leaves = instance.leaves.iter().cloned().chain(fields.into_iter().map(leaf)).collect();
    instance
}

fn values<'v>(
    trace: &'v str,
    id: &'v str,
    name: &'v str,
    labels: &'v StringMap<'v>,
) -> [Option<Value<'v>>; 12] {
    let text = |text: &'v str| Some(Value::String(text.as_bytes()));
    let time = |seconds, nanos| Some(Value::Timestamp(Timestamp { seconds, nanos }));
    let address = Value::Bytes(&[0x20; 16]);
    [
        Some(Value::Int64(7)),
        text("x"),
        Some(address),
        Some(Value::Bytes(&[10, 0, 0, 1])),
        Some(Value::StringMap(labels)),
        text("web"),
        text(trace),
        text(id),
        text(name),
        time(1, 500),
        time(2, 0),
        Some(Value::Int64(503)),
    ]
}

const TRACE: &str = "463ac35c9f6413ad48485a3953bb6124";

#[test]
fn a_span_is_that_of_mixer() {
    let entries: &[(&[u8], &[u8])] = &[(b"app", b"x"), (b"e", b"")];
    let labels = StringMap { entries, source: None };
    let of = |trace, id, name| {
        let values = values(trace, id, name, &labels);
        let instance = Instance { bound: 1, name: "t.instance.ns", values: &values };
        JsonTemplate::new(&tracespan(), 0.5).span(&instance)
    };
    let Outcome::Span(SpanItem(json)) = of(TRACE, "A2fb4a1d1a96d312", "/a?b=1?q=2&q=3&code=9") else {
        panic!("no span")
    };
    let expected = r#"{"traceId":"463ac35c9f6413ad48485a3953bb6124","name":"/a?b=1","parentId":null,"id":"A2fb4a1d1a96d312","kind":"SERVER","timestamp":1000000.5,"duration":999999.5,"debug":null,"shared":null,"localEndpoint":{"serviceName":"web","ipv4":"10.0.0.1","ipv6":null,"port":null},"remoteEndpoint":{"serviceName":null,"ipv4":null,"ipv6":"2020:2020:2020:2020:2020:2020:2020:2020","port":null},"annotations":null,"tags":{"code":"7","destination.ip":"2020:2020:2020:2020:2020:2020:2020:2020","error":"server error","httpStatusCode":"503","q":"2; 3","source.ip":"10.0.0.1","source.labels.app":"x","source.name":"web"}}"#;
    assert_eq!(String::from_utf8(json.into()).unwrap(), expected);
    for (trace, id) in [("", "aa"), ("zz", "aa"), (TRACE, ""), ("ffffffffffffffff0000000000000001", "aa")] {
        assert_eq!(of(trace, id, "/"), Outcome::None, "{trace} {id}");
    }
    assert!(matches!(of(TRACE, "463ac35c9f6413ad48", "/"), Outcome::Impossible(_)));
}

fn params(url: String, kind: MetricType) -> Params {
    let metrics = vec![MetricConfig { name: NAME.to_owned(), kind }];
    let (ingest_url, access_token) = (url, "hunter2".to_owned());
    let datapoint_interval = SignedDuration::from_secs(1);
    Params { metrics, ingest_url, access_token, datapoint_interval, ..Params::default() }
}

async fn build(params: Params) -> Box<dyn Handler> {
    let env = Env { clock: TestClock::at(Duration::from_secs(1_551_434_407)), ..test_env("h.istio-system") };
    SignalFx::build(params, vec![metric(ValueType::Double), tracespan()], env).await.unwrap()
}

/// Reports a value. Returns the error.
fn report(handler: &dyn Handler, value: Option<Value<'_>>, service: &str) -> String {
    let text = |text: &'static str| Some(Value::String(text.as_bytes()));
    let values = [Some(Value::String(service.as_bytes())), None, value, text("UNSPEC"), text("z1")];
    outcome(handler, &[Instance { bound: 0, name: NAME, values: &values }])
}

fn outcome(handler: &dyn Handler, instances: &[Instance<'_>]) -> String {
    match handler.as_report().unwrap().report(instances) {
        Reply::Ready(result) => result.map_or_else(|error| error.message, |()| String::new()),
        Reply::Later(_) => panic!("no report waits"),
    }
}

/// The head and the body of the next request, which is answered.
async fn answer(stream: &mut TcpStream, status: &str, reply: &str) -> (String, Vec<u8>) {
    let mut bytes = Vec::new();
    loop {
        if let Some(end) = bytes.windows(4).position(|part| part == b"\r\n\r\n") {
            let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
            let body = bytes[end + 4..].to_vec();
            if body.len() >= length.parse::<usize>().unwrap() {
                let reply = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{reply}", reply.len());
                stream.write_all(reply.as_bytes()).await.unwrap();
                return (head, body);
            }
        }
        let read = tokio::time::timeout(PATIENCE, stream.read_buf(&mut bytes)).await.unwrap().unwrap();
        assert!(read > 0, "the connection ends");
    }
}

async fn connection(listener: &TcpListener) -> TcpStream {
    tokio::time::timeout(PATIENCE, listener.accept()).await.unwrap().unwrap().0
}

#[tokio::test]
async fn sums_go_on_although_signalfx_is_busy() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let handler = build(params(url, MetricType::Counter)).await;
    for value in [
        Value::Int64(5),
        Value::Double(2.9),
        Value::Bool(true),
        Value::Duration(SignedDuration { nanos: 10 }),
    ] {
        assert_eq!(report(&*handler, Some(value), "w"), "");
    }
    assert_eq!(report(&*handler, Some(Value::Int64(3)), ""), "");
    let errors = [
        (Some(Value::String(b"x")), "unsupported value type"),
        (Some(Value::Double(f64::NAN)), "unsupported value type"),
        (None, "nil value received"),
    ];
    for (value, why) in errors {
        assert_eq!(report(&*handler, value, "w"), format!("1 error occurred:\n\t* {why}\n\n"));
    }
    let mut stream = connection(&listener).await;
    let expected = |sum: i64| {
        let dimension =
            |key: &str, value: &str| Dimension { key: Some(key.to_owned()), value: Some(value.to_owned()) };
        let point = |service: Option<&str>, sum| Point {
            metric: Some(NAME.to_owned()),
            timestamp: Some(1_551_434_407_000),
            value: Some(Datum { int: Some(sum), double: None }),
            kind: Some(3),
            dimensions: [
                dimension("monitored_resource_type", "UNSPEC"),
                dimension("monitored_resource_zone", "z1"),
            ]
            .into_iter()
            .chain(service.map(|service| dimension("svc_name_x", service)))
            .collect(),
        };
        vec![point(None, 3), point(Some("w"), sum)]
    };
    // Busy, no SignalFx, and SignalFx.
    for (status, reply) in [("503 Service Unavailable", ""), ("200 OK", "<html>"), ("200 OK", "\"OK\"")] {
        let (head, body) = answer(&mut stream, status, reply).await;
        assert!(head.starts_with("POST /v2/datapoint HTTP/1.1\r\n"), "{head}");
        assert!(
            head.contains("content-type: application/x-protobuf") && head.contains("x-sf-token: hunter2"),
            "{head}"
        );
        let mut points = Upload::decode(&body[..]).unwrap().points;
        points.truncate(2);
        points.sort_by_key(|point| point.value.and_then(|value| value.int));
        assert_eq!(points, expected(18));
    }
    assert_eq!(report(&*handler, Some(Value::Int64(i64::MAX)), "w"), "");
    let close = async {
        loop {
            let (_, body) = answer(&mut stream, "200 OK", "\"OK\"").await;
            let points = Upload::decode(&body[..]).unwrap().points;
            let sums = points.iter().filter_map(|point| point.value.and_then(|value| value.int));
            if sums.max() == Some(i64::MAX) {
                return;
            }
        }
    };
    let (closed, ()) = tokio::join!(handler.close(PATIENCE), close);
    closed.unwrap();
    assert_eq!(handler.status().trouble, None);
}

#[tokio::test]
async fn histograms_have_extremes_and_quantiles_and_large_requests_are_compressed() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let handler = build(params(url, MetricType::Histogram)).await;
    for value in 1..=50 {
        assert_eq!(report(&*handler, Some(Value::Int64(value)), "w"), "");
    }
    for service in ["x", "y", "z"] {
        report(&*handler, Some(Value::Int64(1)), service);
    }
    let mut stream = connection(&listener).await;
    let (head, body) = answer(&mut stream, "200 OK", "\"OK\"").await;
    assert!(head.contains("content-encoding: gzip"), "{head}");
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(&body[..]).read_to_end(&mut bytes).unwrap();
    let points = Upload::decode(&bytes[..]).unwrap().points;
    let of_w = points
        .into_iter()
        .filter(|point| point.dimensions.iter().any(|one| one.value.as_deref() == Some("w")));
    let found: BTreeMap<String, (i32, f64)> = of_w
        .map(|point| {
            let Datum { double, int } = point.value.unwrap();
            (point.metric.unwrap(), (point.kind.unwrap(), double.or(int.map(|int| int as f64)).unwrap()))
        })
        .collect();
    let expected = [
        (".count", 3, 50.0),
        (".max", 0, 50.0),
        (".min", 0, 1.0),
        (".p25", 0, 13.0),
        (".p50", 0, 25.0),
        (".p90", 0, 45.0),
        (".p99", 0, 50.0),
        (".sum", 3, 1275.0),
        (".sumsquare", 3, 42925.0),
    ];
    assert_eq!(
        found,
        expected.map(|(suffix, kind, value)| (format!("{NAME}{suffix}"), (kind, value))).into()
    );
}

#[tokio::test]
async fn all_spans_of_a_report_wait_for_signalfx_and_those_beyond_the_buffer_fail() {
    let place = TcpSocket::new_v4().unwrap();
    place.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let url = format!("http://{}", place.local_addr().unwrap());
    let handler =
        build(Params { enable_metrics: false, tracing_buffer_size: 3, ..params(url, MetricType::Counter) })
            .await;
    let labels = StringMap { entries: &[], source: None };
    let ids = ["00000000000000aa", "00000000000000bb", "00000000000000cc", "00000000000000dd"];
    let all = ids.map(|id| values(TRACE, id, "/", &labels));
    let instances: Vec<Instance<'_>> =
        all.iter().map(|values| Instance { bound: 1, name: "t.instance.ns", values }).collect();
    let full = "dropping span because trace buffer is full -- you should increase the capacity of it";
    assert_eq!(outcome(&*handler, &instances), full);
    // Metrics are off.
    assert_eq!(report(&*handler, None, "w"), "");
    while handler.status().trouble.is_none() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let listener = place.listen(16).unwrap();
    let mut stream = connection(&listener).await;
    let (head, body) = answer(&mut stream, "200 OK", "\"OK\"").await;
    assert!(
        head.starts_with("POST /v1/trace HTTP/1.1\r\n") && head.contains("content-type: application/json"),
        "{head}"
    );
    let spans: Vec<serde_json::Value> = serde_json::from_slice(&body).unwrap();
    assert_eq!(spans.iter().map(|span| span["id"].as_str().unwrap()).collect::<Vec<_>>(), ids[..3]);
    handler.close(PATIENCE).await.unwrap();
}

#[test]
fn parameters_are_checked() {
    let of = |params: Params| crate::testing::problems::<SignalFx>(&params).join("; ");
    let base = || Params { access_token: "t".to_owned(), enable_metrics: false, ..Params::default() };
    assert_eq!(of(base()), "");
    assert_eq!(of(Params { access_token: String::new(), access_token_file: "/t".to_owned(), ..base() }), "");
    assert_eq!(
        of(Params { access_token_environment: "T".to_owned(), ..base() }),
        "the handler will not be built: there is more than one access token"
    );
    for (nanos, is_valid) in [(499_999_999, false), (500_000_000, true), (-1_000_000_000, false)] {
        let found = of(Params { datapoint_interval: SignedDuration { nanos }, ..base() });
        let text = "datapoint_interval: Interval must not be less than one second";
        assert_eq!(found, if is_valid { "" } else { text }, "{nanos}");
    }
    for url in ["ingest", "ftp://x", "http:///x"] {
        let expected = format!("the handler will not be built: `{url}` is not http://HOST or https://HOST");
        assert_eq!(of(Params { ingest_url: url.to_owned(), ..base() }), expected);
    }
    let text = "tracing_sample_probability: must be between 0.0 and 1.0 inclusive";
    assert_eq!(of(Params { tracing_sample_probability: f64::NAN, ..base() }), text);
}

/// The same series would be dropped at every interval otherwise, and never arrive.
#[tokio::test]
async fn every_series_arrives_although_the_queue_has_room_for_a_few() {
    const SERIES: usize = 300;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let handler = build(Params { queue_kilobytes: 4, ..params(url, MetricType::Counter) }).await;
    for number in 0..SERIES {
        assert_eq!(report(&*handler, Some(Value::Double(1.0)), &format!("service-{number}")), "");
    }
    let mut stream = connection(&listener).await;
    let mut seen = std::collections::BTreeSet::new();
    let all = async {
        while seen.len() < SERIES {
            let (head, mut body) = answer(&mut stream, "200 OK", "\"OK\"").await;
            if head.contains("content-encoding: gzip") {
                let mut plain = Vec::new();
                flate2::read::GzDecoder::new(&body[..]).read_to_end(&mut plain).unwrap();
                body = plain;
            }
            let upload = Upload::decode(&body[..]).unwrap();
            let service = |point: Point| {
                let mut dimensions = point.dimensions.into_iter();
                dimensions.find(|one| one.key.as_deref() == Some("svc_name_x")).unwrap().value.unwrap()
            };
            seen.extend(upload.points.into_iter().map(service));
        }
    };
    let found = tokio::time::timeout(PATIENCE, all).await;
    assert!(found.is_ok(), "{} of {SERIES} series", seen.len());
}
