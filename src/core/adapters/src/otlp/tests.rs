use std::sync::Arc;
use std::time::Duration;

use mixer_attribute::{StringMap, Timestamp, Value, ValueType};
use mixer_base::budget::{Account, Share};
use mixer_base::metrics::{Family, Metrics};
use mixer_config::Diagnostics;
use mixer_delivery::StoredItem;
use mixer_engine::adapter::{Adapter as _, BoundInstance, Instance, Leaf};
use mixer_otlp::{AnyValueKind, HistogramPoint, KeyValue, LogRecord, NumberPoint, NumberValue, Span};
use prost::Message as _;

use super::Otlp;
use super::log::{LogTemplate, Record};
use super::metric::Metric;
use super::params::{Authentication, LogInfo, MetricInfo, MetricKind, Params, Protocol, Temporality, Tls};
use super::series::{Recorded, WallClock};
use super::span::{OtlpTemplate, SpanItem};
use crate::testing::{TestClock, bound};
use crate::tracespan::Outcome;

const NAME: &str = "hits.instance.ns";

/// A metric with a dimension `app`; its values are dimension and value.
fn hits(value_type: ValueType) -> BoundInstance {
    let mut instance = bound(NAME, "metric", "dimensions", &[("app", ValueType::String)]);
    let value = Leaf::new("value", None, value_type);
    instance.leaves = instance.leaves.iter().cloned().chain([value]).collect();
    instance
}

struct Scene {
    metric: Arc<Metric>,
    clock: Arc<TestClock>,
    account: Arc<Account>,
}

const MS: Duration = Duration::from_millis(1);

impl Scene {
    fn new(info: MetricInfo, temporality: Temporality, bytes: usize) -> Self {
        let value_type =
            if info.kind == MetricKind::Distribution { ValueType::Duration } else { ValueType::Int64 };
        let clock = TestClock::at(1000 * MS);
        let account = Arc::new(Arc::new(Share::new(bytes)).open());
        let params = Params { temporality, ..Params::default() };
        let wall = Arc::new(WallClock::new(Arc::clone(&clock) as _));
        let overflowed = Arc::new(Metrics::new()).counter(Family::OtlpOverflow, &["h", NAME]);
        let metric = Metric::new(&params, &info, &hits(value_type), Arc::clone(&account), wall, overflowed);
        Self { metric: Arc::new(metric), clock, account }
    }

    fn counter(temporality: Temporality) -> Self {
        Self::new(MetricInfo { kind: MetricKind::Counter, ..MetricInfo::default() }, temporality, 1 << 20)
    }

    fn record(&self, app: &str, value: Value<'_>) -> Result<Recorded, String> {
        let values = [Some(Value::String(app.as_bytes())), Some(value)];
        let at = mixer_engine::adapter::Clock::monotonic(&*self.clock);
        self.metric.record(&Instance { bound: 0, name: NAME, values: &values }, at)
    }

    fn add(&self, app: &str, value: i64) -> Recorded {
        self.record(app, Value::Int64(value)).unwrap()
    }

    fn encoded(&self, expiry: Option<Duration>) -> Vec<Vec<u8>> {
        let points = self.metric.series.parts().flat_map(|part| self.metric.points(part, expiry));
        points.map(|point| point.encode()).collect()
    }

    fn at(&self, millis: u32) {
        self.clock.set(millis * MS);
    }

    /// The attribute, start and time in milliseconds, and value of every point, sorted.
    fn points(&self, millis: u32, expiry: Option<Duration>) -> Vec<(String, u64, u64, i64)> {
        self.at(millis);
        let decode = |point: &Vec<u8>| {
            let point = NumberPoint::decode(&**point).unwrap();
            let Some(NumberValue::Int(value)) = point.value else { panic!("{point:?}") };
            let [attribute] = &point.attributes[..] else { panic!("{point:?}") };
            let shown = match attribute.value.as_ref().unwrap().kind.as_ref().unwrap() {
                AnyValueKind::Text(text) => text.clone(),
                other => format!("{}={other:?}", attribute.key),
            };
            (shown, point.start_time_unix_nano / 1_000_000, point.time_unix_nano / 1_000_000, value)
        };
        let mut points: Vec<_> = self.encoded(expiry).iter().map(decode).collect();
        points.sort();
        points
    }
}

fn point(app: &str, start: u64, time: u64, value: i64) -> (String, u64, u64, i64) {
    (app.to_owned(), start, time, value)
}

#[test]
fn a_cumulative_point_counts_since_the_first_value_of_its_series() {
    let scene = Scene::counter(Temporality::Cumulative);
    assert_eq!(scene.points(1000, None), []);
    scene.add("a", 2);
    scene.at(1500);
    scene.add("b", 1);
    assert_eq!(scene.points(2000, None), [point("a", 1000, 2000, 2), point("b", 1500, 2000, 1)]);
    scene.add("a", 3);
    assert_eq!(scene.points(3000, None), [point("a", 1000, 3000, 5), point("b", 1500, 3000, 1)]);
    // A clock that is set back makes no time that was before.
    scene.clock.jump(-2);
    scene.add("c", 1);
    let back = scene.points(4000, None);
    assert_eq!(back, [point("a", 1000, 3000, 5), point("b", 1500, 3000, 1), point("c", 3000, 3000, 1)]);
    let points = scene.encoded(None);
    let starts_before = |point: &Vec<u8>| {
        let point = NumberPoint::decode(&**point).unwrap();
        point.start_time_unix_nano < point.time_unix_nano
    };
    assert!(points.iter().all(starts_before));
}

/// As after a bad answer of a time server: everything would have that time until it comes.
#[test]
fn a_time_that_was_wrong_is_corrected() {
    const YEAR: i64 = 365 * 24 * 3600;
    let wrong = 1000 + YEAR as u64 * 1000;
    let delta = Scene::counter(Temporality::Delta);
    let cumulative = Scene::counter(Temporality::Cumulative);
    for scene in [&delta, &cumulative] {
        scene.add("a", 1);
        scene.clock.jump(YEAR);
        scene.add("a", 1);
        assert_eq!(scene.points(1500, None), [point("a", 1000, wrong + 500, 2)]);
        scene.clock.jump(0);
        scene.add("a", 1);
        scene.add("b", 1);
    }
    assert_eq!(delta.points(2000, None), [point("a", 1999, 2000, 1), point("b", 1500, 2000, 1)]);
    assert_eq!(cumulative.points(2000, None), [point("a", 1000, 2000, 3), point("b", 1500, 2000, 1)]);
}

#[test]
fn delta_points_follow_each_other_without_a_gap() {
    let scene = Scene::counter(Temporality::Delta);
    scene.add("a", 2);
    scene.at(1500);
    scene.add("a", 2);
    assert_eq!(scene.points(2000, None), [point("a", 1000, 2000, 4)]);
    assert_eq!(scene.points(3000, None), []);
    scene.at(3500);
    scene.add("a", 1);
    assert_eq!(scene.points(4000, None), [point("a", 3000, 4000, 1)]);
    scene.add("a", 7);
    assert_eq!(scene.points(5000, None), [point("a", 4000, 5000, 7)]);
}

#[test]
fn a_series_ends_exactly_when_its_last_value_is_as_old_as_the_expiry_and_was_sent() {
    let expiry = Some(1000 * MS);
    for temporality in [Temporality::Cumulative, Temporality::Delta] {
        let scene = Scene::counter(temporality);
        let empty = scene.account.used();
        scene.add("a", 1);
        scene.add("b", 1);
        assert_eq!(scene.points(1100, expiry).len(), 2);
        scene.at(1500);
        scene.add("b", 1);
        let _ = scene.points(1999, expiry);
        assert_eq!(scene.metric.series.len(), 2, "{temporality:?}");
        let _ = scene.points(2000, expiry);
        assert_eq!(scene.metric.series.len(), 1, "{temporality:?}: a is a second old");
        // It begins anew, after it ended.
        scene.add("a", 5);
        let again = scene.points(2100, expiry);
        assert!(again.contains(&point("a", 2000, 2100, 5)), "{again:?}");
        // What was not sent yet does not end.
        scene.add("a", 1);
        let late = scene.points(9000, expiry);
        assert_eq!(late.iter().map(|(app, ..)| app.as_str()).collect::<Vec<_>>(), ["a"], "{temporality:?}");
        assert_eq!(scene.points(9000, expiry), []);
        assert_eq!((scene.metric.series.len(), scene.account.used()), (0, empty));
    }
}

#[test]
fn without_room_values_go_to_the_overflow_series_and_the_total_is_exact() {
    let overflow = "otel.metric.overflow=Bool(true)";
    let total = |points: &[(String, u64, u64, i64)]| points.iter().map(|(.., value)| value).sum::<i64>();
    let of_number = MetricInfo { kind: MetricKind::Counter, max_series: 2, ..MetricInfo::default() };
    let few = Scene::new(of_number, Temporality::Cumulative, 1 << 20);
    let recorded: Vec<Recorded> = ["a", "b", "c", "d", "a"].map(|app| few.add(app, 10)).into();
    use Recorded::{Overflow, Series};
    assert_eq!(recorded, [Series, Series, Overflow, Overflow, Series]);
    let points = few.points(2000, None);
    assert_eq!(
        points,
        [point("a", 1000, 2000, 20), point("b", 1000, 2000, 10), point(overflow, 1000, 2000, 20)]
    );
    assert_eq!(few.metric.overflowed.get(), 2);
    // The same with the bound on bytes.
    let of_bytes = MetricInfo { kind: MetricKind::Counter, ..MetricInfo::default() };
    let small = Scene::new(of_bytes, Temporality::Delta, 10_000);
    for number in 0..1000 {
        small.add(&format!("{number}{}", "x".repeat(2000)), 1);
    }
    let series = small.metric.series.len();
    assert!((2..9).contains(&series), "{series} series, each with 1 KiB of text");
    assert!(small.account.used() <= 10_000);
    let points = small.points(2000, None);
    assert_eq!((points.len(), total(&points)), (series + 1, 1000));
    // Room that expiry makes is used.
    let _ = small.points(2000, Some(Duration::ZERO));
    assert_eq!(small.add("new", 1), Series);
    let account = Arc::clone(&small.account);
    drop(small);
    let share = Arc::clone(account.share());
    drop(account);
    assert_eq!(share.used(), 0);
}

#[test]
fn no_value_is_lost_or_counted_twice_between_writers_and_the_reader() {
    let info = MetricInfo { kind: MetricKind::Counter, max_series: 20, ..MetricInfo::default() };
    let scene = Scene::new(info, Temporality::Delta, 1 << 20);
    let sum = || {
        scene
            .encoded(Some(Duration::ZERO))
            .iter()
            .map(|point| {
                let point = NumberPoint::decode(&**point).unwrap();
                if let Some(NumberValue::Int(value)) = point.value { value } else { panic!("{point:?}") }
            })
            .sum::<i64>()
    };
    let mut total = 0;
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let scene = &scene;
                scope.spawn(move || {
                    for number in 0..5000 {
                        scene.add(&((number * 7 + writer) % 50).to_string(), 1);
                    }
                })
            })
            .collect();
        while !writers.iter().all(|writer| writer.is_finished()) {
            total += sum();
        }
    });
    assert_eq!(total + sum(), 20_000);
}

#[test]
fn a_distribution_counts_in_the_bucket_of_the_bound_that_a_value_does_not_exceed() {
    let info = MetricInfo { kind: MetricKind::Distribution, bounds: vec![0.5, 2.0], ..MetricInfo::default() };
    let scene = Scene::new(info, Temporality::Cumulative, 1 << 20);
    let read = |values: &[i64]| {
        for millis in values {
            let duration = mixer_attribute::SignedDuration { nanos: millis * 1_000_000 };
            scene.record("a", Value::Duration(duration)).unwrap();
        }
        let [encoded] = &scene.encoded(None)[..] else { panic!("one point") };
        HistogramPoint::decode(&**encoded).unwrap()
    };
    let positive = read(&[500, 501, 2000, 2001, 0]);
    assert!((positive.sum.unwrap() - 5.002).abs() < 1e-9);
    let point = read(&[-1]);
    assert_eq!(point.attributes, [KeyValue::new("app", "a")]);
    assert_eq!(
        (point.count, &point.bucket_counts[..], &point.explicit_bounds[..]),
        (6, &[3, 2, 1][..], &[0.5, 2.0][..])
    );
    assert_eq!((point.min, point.max), (Some(-0.001), Some(2.001)));
    assert_eq!(point.sum, None, "it may decrease");
    assert_eq!(scene.metric.head.unit, "s");
}

#[test]
fn a_value_that_would_spoil_its_series_is_refused() {
    let scene = Scene::counter(Temporality::Cumulative);
    for (value, why) in [
        (Value::Int64(-1), "counter cannot decrease in value"),
        (Value::Double(-0.5), "counter cannot decrease in value"),
        (Value::Double(f64::NAN), "its value is not finite"),
        (Value::Double(f64::INFINITY), "its value is not finite"),
        (Value::String(b"7"), "could not extract numeric value for 7"),
    ] {
        assert_eq!(scene.record("a", value).unwrap_err(), format!("could not record metric {NAME}: {why}"));
    }
    assert_eq!(scene.metric.series.len(), 0);
    scene.add("a", i64::MAX);
    scene.add("a", 5);
    assert_eq!(scene.points(2000, None), [point("a", 1000, 2000, i64::MAX)]);
}

/// Texts, maps and bytes are in the key of a series, and in every point of it.
#[test]
fn long_attributes_of_a_series_are_cut() {
    let long = vec![b'x'; 5000];
    let entries = [(&long[..], &b"v"[..])];
    let map = StringMap { entries: &entries, source: None };
    for value in [Value::String(&long), Value::StringMap(&map), Value::Bytes(&long)] {
        let scene = Scene::counter(Temporality::Cumulative);
        let values = [Some(value), Some(Value::Int64(1))];
        let at = mixer_engine::adapter::Clock::monotonic(&*scene.clock);
        let recorded = scene.metric.record(&Instance { bound: 0, name: NAME, values: &values }, at);
        assert!(recorded.is_ok());
        let points = scene.points(1000, None);
        assert_eq!(points.len(), 1);
        assert!(points[0].0.len() <= 1024 && points[0].0.contains('…'), "{value:?}: {}", points[0].0.len());
    }
}

#[test]
fn a_gauge_has_its_last_value_and_no_start() {
    let info = MetricInfo { kind: MetricKind::Gauge, name: "level".to_owned(), ..MetricInfo::default() };
    let scene = Scene::new(info, Temporality::Delta, 1 << 20);
    scene.add("a", 5);
    scene.add("a", -3);
    for time in [2000, 3000] {
        assert_eq!(scene.points(time, None), [point("a", 0, time.into(), -3)]);
    }
    assert_eq!(scene.metric.head.name, "level");
}

/// An instance of the template `logentry`.
fn entry(variables: &[(&str, ValueType)]) -> BoundInstance {
    let mut instance = bound("access.instance.ns", "logentry", "variables", variables);
    let leaf = |field| Leaf::new(field, None, ValueType::String);
    instance.leaves = instance.leaves.iter().cloned().chain(["timestamp", "severity"].map(leaf)).collect();
    instance
}

#[test]
fn a_log_record_has_what_its_entry_has() {
    let keys = ["body", "labels", "response.code", "span", "trace"].map(|key| (key, ValueType::String));
    let instance = entry(&keys);
    let info = LogInfo { body: "body".to_owned(), trace_id: "trace".to_owned(), span_id: "span".to_owned() };
    let logs = [("access.instance.ns".to_owned(), info)].into();
    let template = LogTemplate::new(&Params { logs, ..Params::default() }, &instance);
    let entries: [(&[u8], &[u8]); 1] = [(b"k", b"v")];
    let map = StringMap { entries: &entries, source: None };
    let at = Timestamp { seconds: 1, nanos: 5 };
    let record = |trace: &'static [u8], time| {
        let values = [
            Some(Value::String(b"GET \xff")),
            Some(Value::StringMap(&map)),
            Some(Value::Int64(404)),
            Some(Value::String(b"00000000000000ff")),
            Some(Value::String(trace)),
            time,
            Some(Value::String(b"Warning")),
        ];
        let record = template.record(&Instance { bound: 0, name: "access.instance.ns", values: &values }, 7);
        LogRecord::decode(&*record.0).unwrap()
    };
    let full = record(b"0000000000000000000000000000abcd", Some(Value::Timestamp(at)));
    assert_eq!((full.time_unix_nano, full.observed_time_unix_nano), (1_000_000_005, 7));
    assert_eq!((full.severity_number, &*full.severity_text), (13, "Warning"));
    assert_eq!(full.body.unwrap().kind, Some(AnyValueKind::Text("GET \u{fffd}".to_owned())));
    assert_eq!((full.trace_id.len(), full.span_id), (16, vec![0, 0, 0, 0, 0, 0, 0, 255]));
    assert_eq!(full.event_name, "access.instance.ns");
    let labels = AnyValueKind::Map(mixer_otlp::KeyValueList { values: vec![KeyValue::new("k", "v")] });
    let attributes =
        [KeyValue::new("labels", labels), KeyValue::new("http.response.status_code", AnyValueKind::Int(404))];
    assert_eq!(full.attributes, attributes);
    let bare = record(b"no id", None);
    assert_eq!((bare.time_unix_nano, bare.trace_id.len()), (0, 0));
}

#[test]
fn a_span_belongs_to_its_service_and_has_no_attribute_twice() {
    let mut instance =
        bound("t.instance.ns", "tracespan", "span_tags", &[("response.code", ValueType::Int64)]);
    let leaf = |field| Leaf::new(field, None, ValueType::String);
    let fields = [
        "trace_id",
        "span_id",
        "start_time",
        "end_time",
        "httpStatusCode",
        "destination_name",
        "source_ip",
        "client_span",
    ];
    instance.leaves = instance.leaves.iter().cloned().chain(fields.map(leaf)).collect();
    let time = |seconds| Some(Value::Timestamp(Timestamp { seconds, nanos: 0 }));
    let span = |trace: &'static [u8], end, status, is_client, sample_probability| {
        let values = [
            Some(Value::Int64(201)),
            Some(Value::String(trace)),
            Some(Value::String(b"a2fb4a1d1a96d312")),
            time(1),
            time(end),
            Some(Value::Int64(status)),
            Some(Value::String(b"web")),
            Some(Value::Bytes(&[10, 0, 0, 1])),
            Some(Value::Bool(is_client)),
        ];
        let params = Params { sample_probability, ..Params::default() };
        OtlpTemplate::new(&params, &instance).span(&Instance {
            bound: 0,
            name: "t.instance.ns",
            values: &values,
        })
    };
    let trace = b"463ac35c9f6413ad48485a3953bb6124";
    let Outcome::Span(item) = span(trace, 2, 404, false, 1.0) else { panic!("a span") };
    assert_eq!(&*item.service, "web");
    let decoded = Span::decode(&*item.span).unwrap();
    assert_eq!((decoded.kind, decoded.status, decoded.trace_id.len()), (2, None, 16));
    assert_eq!((decoded.start_time_unix_nano, decoded.end_time_unix_nano), (1_000_000_000, 2_000_000_000));
    let attributes = [
        KeyValue::new("http.response.status_code", AnyValueKind::Int(201)),
        KeyValue::new("source.address", "10.0.0.1"),
    ];
    assert_eq!(decoded.attributes, attributes);
    let Outcome::Span(item) = span(trace, 2, 404, true, 1.0) else { panic!("a span") };
    let decoded = Span::decode(&*item.span).unwrap();
    assert_eq!((decoded.kind, decoded.status.unwrap().code, &*item.service), (3, 2, ""));
    assert!(matches!(span(trace, 0, 0, false, 1.0), Outcome::Impossible(_)));
    assert!(matches!(span(trace, i64::MAX, 0, false, 1.0), Outcome::Impossible(_)));
    // The random bits decide.
    for (trace, sampled) in
        [(b"ffffffffffffffffff80000000000000", true), (b"ffffffffffffffffff7fffffffffffff", false)]
    {
        assert_eq!(matches!(span(trace, 2, 0, false, 0.5), Outcome::Span(_)), sampled);
        assert!(matches!(span(trace, 2, 0, false, 1.0), Outcome::Span(_)));
        assert!(matches!(span(trace, 2, 0, false, 0.0), Outcome::None));
    }
}

#[test]
fn records_and_spans_are_read_from_disk_as_they_were_written() {
    let written = |item: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = Vec::new();
        item(&mut bytes);
        bytes
    };
    let record = Record(b"record".as_slice().into());
    let read = Record::decode(&written(&|out| StoredItem::encode(&record, out))).unwrap();
    assert_eq!(read.0, record.0);
    for service in ["", "web"] {
        let item = SpanItem { service: service.into(), span: b"\xffspan".as_slice().into() };
        let bytes = written(&|out| StoredItem::encode(&item, out));
        assert_eq!(SpanItem::decode(&bytes), Some(item));
        for cut in 0..4 + service.len() {
            assert_eq!(SpanItem::decode(&bytes[..cut]), None);
        }
    }
}

/// What is wrong with parameters: texts and hints.
fn problems(params: &Params, instances: &[BoundInstance]) -> Vec<(String, String)> {
    let mut problems = Diagnostics::new();
    Otlp::validate(params, instances, &mut problems);
    problems
        .into_iter()
        .map(|problem| (problem.message.clone(), problem.hint.clone().unwrap_or_default()))
        .collect()
}

#[test]
fn every_wrong_parameter_is_told_with_its_cure() {
    let counter = MetricInfo { kind: MetricKind::Counter, ..MetricInfo::default() };
    let good = Params { metrics: [(NAME.to_owned(), counter.clone())].into(), ..Params::default() };
    let instance = [hits(ValueType::Int64)];
    assert_eq!(problems(&good, &instance), []);
    let with = |change: &dyn Fn(&mut Params)| {
        let mut params = good.clone();
        change(&mut params);
        problems(&params, &instance)
    };
    let info =
        |change: &dyn Fn(&mut MetricInfo)| with(&|params| params.metrics.values_mut().for_each(change));
    let duration = mixer_attribute::SignedDuration::from_secs;
    for (found, text, hint) in [
        (
            with(&|params| params.endpoint = "collector:4317".to_owned()),
            "is not http://HOST:PORT",
            "for example",
        ),
        (with(&|params| params.endpoint = "http://c:4318".to_owned()), "endpoint for HTTP", "HTTP_PROTOBUF"),
        (with(&|params| params.endpoint = "http://c:4317/x".to_owned()), "has a path", "leave the path out"),
        (
            with(&|params| {
                (params.protocol, params.endpoint) = (Protocol::HttpProtobuf, "http://c:4317".to_owned())
            }),
            "endpoint for gRPC",
            "GRPC",
        ),
        (with(&|params| params.export_interval = duration(0)), "is less than 10ms", "60s"),
        (with(&|params| params.timeout = duration(-1)), "is not more than 0", "10s"),
        (with(&|params| params.metrics_expiry = duration(-1)), "is less than 0", "keeps all"),
        (with(&|params| params.sample_probability = f64::NAN), "is not between 0 and 1", "all spans"),
        (
            with(&|params| params.headers = [("a b".to_owned(), String::new())].into()),
            "is no header",
            "ASCII",
        ),
        (
            with(&|params| params.headers = [("TE".to_owned(), String::new())].into()),
            "set by the protocol",
            "leave it out",
        ),
        (
            with(&|params| params.headers = [("Authorization".to_owned(), String::new())].into()),
            "a secret",
            "authentication",
        ),
        (
            with(&|params| params.authentication = Some(Authentication::default())),
            "one of `tokenFile`",
            "name the file",
        ),
        (with(&|params| params.tls = Some(Tls::default())), "`tls` is for https", "https://"),
        (
            with(&|params| {
                (params.endpoint, params.tls) =
                    ("https://c".to_owned(), Some(Tls { cert_file: "x".to_owned(), ..Tls::default() }))
            }),
            "belong together",
            "keyFile",
        ),
        (info(&|info| info.kind = MetricKind::Unspecified), "has no kind", "COUNTER"),
        (info(&|info| info.bounds = vec![1.0]), "only a DISTRIBUTION", "for example"),
        (
            info(&|info| (info.kind, info.bounds) = (MetricKind::Distribution, vec![1.0, 1.0])),
            "must increase",
            "for example",
        ),
        (
            info(&|info| (info.kind, info.bounds) = (MetricKind::Distribution, vec![f64::INFINITY])),
            "not finite",
            "for example",
        ),
        (problems(&Params::default(), &instance), "`metrics` has no entry", "{kind: COUNTER}"),
        (problems(&good, &[]), "no rule sends the metric", "full name"),
        (problems(&good, &[hits(ValueType::String)]), "is a STRING, and no number", "INT64"),
    ] {
        let [(message, cure)] = &found[..] else { panic!("{text}: {found:?}") };
        assert!(message.contains(text) && cure.contains(hint), "{found:?}");
    }
    let both = [("response.code", ValueType::Int64), ("response_code", ValueType::Int64)];
    let found = problems(&Params::default(), &[entry(&both)]);
    let [(message, cure)] = &found[..] else { panic!("{found:?}") };
    assert!(message.contains("are both sent as the attribute `http.response.status_code`"), "{message}");
    assert!(cure.contains("attributeNames: {response_code: NAME}"), "{cure}");
    let body = |body: &str| {
        let info = LogInfo { body: body.to_owned(), ..LogInfo::default() };
        let logs = [("access.instance.ns".to_owned(), info)].into();
        problems(&Params { logs, ..Params::default() }, &[entry(&[("message", ValueType::String)])])
    };
    assert_eq!(body("message"), []);
    let [(message, cure)] = &body("mesage")[..] else { panic!("one problem") };
    assert!(message.contains("no variable `mesage`") && cure.contains("message"), "{message}: {cure}");
}

#[test]
fn metrics_of_one_name_are_of_one_kind_and_unit() {
    let warnings = |first: MetricInfo, second: MetricInfo| {
        let metrics = [("m.instance.a", first), ("m.instance.b", second)];
        let metrics = metrics.map(|(instance, info)| (instance.to_owned(), info)).into();
        let mut problems = mixer_config::Diagnostics::new();
        super::validate::validate(&Params { metrics, ..Params::default() }, &[], &mut problems);
        problems.iter().filter(|problem| problem.message.contains("as the metric `m`")).count()
    };
    let of = |kind| MetricInfo { kind, ..MetricInfo::default() };
    let counter = of(MetricKind::Counter);
    let named = MetricInfo { name: "n".to_owned(), ..of(MetricKind::Gauge) };
    assert_eq!(warnings(counter.clone(), counter.clone()), 0);
    assert_eq!(warnings(counter.clone(), named), 0);
    assert_eq!(warnings(counter.clone(), of(MetricKind::Gauge)), 1);
    assert_eq!(warnings(counter.clone(), MetricInfo { unit: "By".to_owned(), ..counter }), 1);
}
