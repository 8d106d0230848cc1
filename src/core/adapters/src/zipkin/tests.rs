use std::time::Duration;

use mixer_attribute::{Timestamp, Value, ValueType};
use mixer_engine::adapter::{BoundInstance, Handler, Instance, Leaf};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

use super::span::JsonTemplate;
use super::*;
use crate::testing::{bound, problems, ready, test_env};
use crate::tracespan::Outcome;

const PATIENCE: Duration = Duration::from_secs(60);

/// The leaves of the instances of these tests, in the order of [`Values`].
fn tracespan() -> BoundInstance {
    let mut instance = bound("t.instance.ns", "tracespan", "span_tags", &[("tag", ValueType::Int64)]);
    let leaf = |field| Leaf::new(field, None, ValueType::String);
    let fields = ["trace_id", "span_id", "parent_span_id", "start_time", "end_time", "httpStatusCode"];
    let fixed = fields.into_iter().chain(["client_span", "source_ip"]).map(leaf);
    instance.leaves = instance.leaves.iter().cloned().chain(fixed).collect();
    instance
}

#[derive(Clone)]
struct Values {
    trace: &'static str,
    span: &'static str,
    parent: &'static str,
    start: (i64, u32),
    end: (i64, u32),
    status: i64,
    address: &'static [u8],
}

const PLAIN: Values = Values {
    trace: "463ac35c9f6413ad48485a3953bb6124",
    span: "a2fb4a1d1a96d312",
    parent: "",
    start: (1, 500),
    end: (2, 499),
    status: 0,
    address: &[],
};

impl Values {
    fn with<T>(&self, use_: impl FnOnce(&Instance<'_>) -> T) -> T {
        let time = |(seconds, nanos): (i64, u32)| Some(Value::Timestamp(Timestamp { seconds, nanos }));
        let values = [
            Some(Value::Int64(7)),
            Some(Value::String(self.trace.as_bytes())),
            Some(Value::String(self.span.as_bytes())),
            Some(Value::String(self.parent.as_bytes())),
            time(self.start),
            time(self.end),
            Some(Value::Int64(self.status)),
            Some(Value::Bool(true)),
            Some(Value::Bytes(self.address)),
        ];
        use_(&Instance { bound: 0, name: "t.instance.ns", values: &values })
    }

    fn outcome(&self, sampling: f64) -> Outcome<Box<[u8]>> {
        self.with(|instance| JsonTemplate::new(&tracespan(), sampling).span(instance))
    }

    fn json(&self) -> String {
        match self.outcome(1.0) {
            Outcome::Span(json) => String::from_utf8(json.into()).unwrap(),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_span_is_that_of_mixer() {
    let expected = r#"{"timestamp":1000001,"duration":1000000,"traceId":"463ac35c9f6413ad48485a3953bb6124","id":"a2fb4a1d1a96d312","parentId":"00000000000000ab","kind":"CLIENT","localEndpoint":{"serviceName":"default","ipv4":"10.0.0.1"},"annotations":[{"timestamp":1000001,"value":"Sent 0 bytes"},{"timestamp":2000000,"value":"Received 0 bytes"}],"tags":{"error":"NOT_FOUND","http.status_code":"404","opencensus.status_description":"NOT_FOUND","tag":"7"}}"#;
    let values = Values { parent: "aB", status: 404, address: &[10, 0, 0, 1], ..PLAIN };
    assert_eq!(values.json(), expected);
}

#[test]
fn times_and_addresses_at_their_limits() {
    for (values, text) in [
        (Values { end: PLAIN.start, ..PLAIN }, r#"{"timestamp":1000001,"traceId""#),
        (Values { end: (1, 501), ..PLAIN }, r#""duration":1,"#),
        (Values { end: (1, 1999), ..PLAIN }, r#""duration":1,"#),
        (Values { end: (1, 2000), ..PLAIN }, r#""duration":2,"#),
        (Values { start: (0, 0), ..PLAIN }, r#"{"duration":2000000,"traceId""#),
        (Values { end: (i64::MAX, 0), ..PLAIN }, r#""duration":9223372036854775807,"#),
        (Values { address: &[0x20; 16], ..PLAIN }, r#""ipv6":"2020:2020:2020:2020:2020:2020:2020:2020""#),
        (Values { address: b"127.0.0.1", ..PLAIN }, r#""ipv4":"0.0.0.0""#),
        (
            Values { status: 200, ..PLAIN },
            r#"{"http.status_code":"200","opencensus.status_description":"OK","tag":"7"}"#,
        ),
        (Values { status: 600, ..PLAIN }, r#""error":"UNKNOWN""#),
    ] {
        let json = values.json();
        assert!(json.contains(text), "{text} in {json}");
    }
}

#[test]
fn what_is_no_span_is_left_out_and_what_cannot_be_one_is_dropped() {
    let none = [
        Values { trace: "", ..PLAIN },
        Values { trace: "zz", ..PLAIN },
        Values { trace: "00", ..PLAIN },
        Values { span: "1", ..PLAIN },
        Values { span: "", ..PLAIN },
    ];
    for values in none {
        assert_eq!(values.outcome(1.0), Outcome::None, "{} {}", values.trace, values.span);
    }
    let impossible = [
        Values { trace: "463ac35c9f6413ad48485a3953bb612400", ..PLAIN },
        Values { span: "463ac35c9f6413ad48", ..PLAIN },
        Values { end: (1, 499), ..PLAIN },
        Values { start: (-1, 0), ..PLAIN },
    ];
    for values in impossible {
        assert!(matches!(values.outcome(1.0), Outcome::Impossible(_)), "{} {}", values.trace, values.span);
    }
}

#[test]
fn the_high_half_of_the_trace_decides_whether_it_is_sampled() {
    let is_sampled = |trace: &'static str, sampling: f64| {
        matches!(Values { trace, ..PLAIN }.outcome(sampling), Outcome::Span(_))
    };
    for (trace, sampling, sampled) in [
        ("7fffffffffffffff0000000000000001", 0.5, true),
        ("80000000000000000000000000000001", 0.5, false),
        ("ffffffffffffffffffffffffffffffff", 1.0, true),
        ("ffffffffffffffff", 0.000_001, true),
    ] {
        assert_eq!(is_sampled(trace, sampling), sampled, "{trace} of {sampling}");
    }
}

/// The body of the next request, which is answered with a status.
async fn answer(stream: &mut TcpStream, status: &str) -> String {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
            if body.len() >= length.parse::<usize>().unwrap() {
                let reply = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
                stream.write_all(reply.as_bytes()).await.unwrap();
                return body.to_owned();
            }
        }
        let read = tokio::time::timeout(PATIENCE, stream.read_buf(&mut bytes)).await.unwrap().unwrap();
        assert!(read > 0, "the connection ends");
    }
}

fn report(handler: &dyn Handler, values: &Values) {
    values.with(|instance| ready(handler.as_report().unwrap().report(std::slice::from_ref(instance))));
}

#[tokio::test]
async fn spans_wait_for_a_collector_that_comes_later_and_one_that_is_busy() {
    let place = TcpSocket::new_v4().unwrap();
    place.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let url = format!("http://{}/api/v2/spans", place.local_addr().unwrap());
    let params = Params { url, sample_probability: 1.0, ..Params::default() };
    let handler = Zipkin::build(params, vec![tracespan()], test_env("h.istio-system")).await.unwrap();
    report(&*handler, &PLAIN);
    report(&*handler, &Values { end: (0, 0), ..PLAIN });
    while handler.status().trouble.is_none() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let listener = place.listen(16).unwrap();
    let (mut stream, _) = tokio::time::timeout(PATIENCE, listener.accept()).await.unwrap().unwrap();
    let expected = format!("[{}]", PLAIN.json());
    for status in ["503 Service Unavailable", "202 Accepted"] {
        assert_eq!(answer(&mut stream, status).await, expected);
    }
    // What waits is sent at the end.
    for _ in 0..3 {
        report(&*handler, &PLAIN);
    }
    let (closed, body) = tokio::join!(handler.close(PATIENCE), answer(&mut stream, "202 Accepted"));
    closed.unwrap();
    assert_eq!(body, format!("[{0},{0},{0}]", PLAIN.json()));
    assert_eq!(handler.status().trouble, None);
}

#[test]
fn parameters_are_checked() {
    let of = |url: &str, sample_probability| {
        problems::<Zipkin>(&Params { url: url.to_owned(), sample_probability, ..Params::default() })
    };
    assert!(of("http://zipkin:9411/api/v2/spans", 1.0).is_empty() && of("HTTPS://z", 0.5).is_empty());
    assert_eq!(of("http://z", 0.0), ["no span is sent, because `sampleProbability` is 0"]);
    for outside in [-0.1, 1.1, f64::NAN] {
        assert_eq!(of("http://z", outside), ["sample_probability: must be between 0 and 1 inclusive"]);
    }
    for url in ["", "zipkin:9411", "http://", "http:///x", "ftp://z"] {
        let text = format!("the handler will not be built: `{url}` is not http://HOST or https://HOST");
        assert_eq!(of(url, 1.0), [text]);
    }
}
