use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::testing::{TestClock, test_env};
use mixer_attribute::{Timestamp, Value, ValueType};
use mixer_base::budget::{MemoryBudget, Purpose};
use mixer_config::{Node, NodeKind};
use mixer_engine::adapter::{HandlerError, Instance, Leaf, Reply};
use mixer_engine::template;

/// An instance of the metric template with a value and dimensions; its values are the value, then those of the dimensions in
/// byte order.
fn metric(name: &str, dimensions: &[&str]) -> BoundInstance {
    let leaf =
        |field, key: Option<&str>| Leaf { field, key: key.map(Into::into), value_type: ValueType::String };
    let mut leaves = vec![leaf("value", None)];
    leaves.extend(dimensions.iter().map(|key| leaf("dimensions", Some(key))));
    BoundInstance {
        name: format!("{name}.instance.istio-system").into(),
        template: template::find("metric").unwrap(),
        leaves: leaves.into(),
        messages: Vec::new(),
    }
}

fn info(name: &str, kind: MetricKind, labels: &[&str]) -> MetricInfo {
    MetricInfo {
        name: name.to_owned(),
        instance_name: format!("{name}.instance.istio-system"),
        kind,
        label_names: labels.iter().map(|l| (*l).to_owned()).collect(),
        ..MetricInfo::default()
    }
}

fn params(metrics: Vec<MetricInfo>) -> Params {
    Params { metrics, ..Params::default() }
}

async fn build(
    params: &Params,
    instances: &[BoundInstance],
    env: &Env,
) -> Result<Box<dyn Handler>, BuildError> {
    Prometheus::build(params.clone(), instances.to_vec(), env.clone()).await
}

fn report(
    handler: &dyn Handler,
    bound: usize,
    name: &str,
    values: &[Option<Value<'_>>],
) -> Result<(), HandlerError> {
    reports(handler, &[(bound, name, values)])
}

fn reports(handler: &dyn Handler, all: &[(usize, &str, &[Option<Value<'_>>])]) -> Result<(), HandlerError> {
    let instances: Vec<Instance<'_>> =
        all.iter().map(|(bound, name, values)| Instance { bound: *bound, name, values }).collect();
    match handler.as_report().unwrap().report(&instances) {
        Reply::Ready(result) => result,
        Reply::Later(_) => panic!("a synchronous answer is expected"),
    }
}

fn text(value: &str) -> Option<Value<'_>> {
    Some(Value::String(value.as_bytes()))
}

fn number(value: f64) -> Option<Value<'static>> {
    Some(Value::Double(value))
}

fn scrape(env: &Env) -> Vec<String> {
    let text = String::from_utf8(env.commons.get::<Endpoint>().text()).unwrap();
    text.lines().filter(|l| !l.starts_with('#')).map(str::to_owned).collect()
}

async fn get(address: std::net::SocketAddr, path: &'static str, header: &'static str) -> (String, Vec<u8>) {
    let exchange = move || {
        use std::io::{Read as _, Write as _};
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", address.port())).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\n{header}Connection: close\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let end = answer.windows(4).position(|w| w == b"\r\n\r\n").unwrap();
        (String::from_utf8(answer[..end].to_vec()).unwrap().to_lowercase(), answer[end + 4..].to_vec())
    };
    tokio::task::spawn_blocking(exchange).await.unwrap()
}

#[test]
fn params_are_checked() {
    let policy = |expiry: i64| Params {
        metrics_expiration_policy: Some(MetricsExpirationPolicy {
            metrics_expiry_duration: SignedDuration::from_secs(expiry),
            ..MetricsExpirationPolicy::default()
        }),
        ..Params::default()
    };
    let of = |info: MetricInfo| params(vec![info]);
    let renamed = |instance: &str| MetricInfo {
        instance_name: instance.to_owned(),
        ..info("m", MetricKind::Counter, &["a"])
    };
    type Found = [(&'static str, &'static str)];
    let cases: [(&str, Params, &Found); 5] = [
        ("nothing", Params::default(), &[]),
        (
            "no expiry",
            policy(0),
            &[("adapter-config", "metricsExpiryDuration: metricsExpiryDuration 0s is invalid, must be > 0")],
        ),
        (
            "negative expiry",
            policy(-1),
            &[("adapter-config", "metricsExpiryDuration: metricsExpiryDuration -1s is invalid, must be > 0")],
        ),
        ("good", of(info("m", MetricKind::Counter, &["b", "a"])), &[]),
        ("instance of another handler", of(renamed("x.instance.ns")), &[]),
    ];
    for (name, params, expected) in cases {
        let mut problems = Diagnostics::new();
        Prometheus::validate(&params, &[metric("m", &["a", "b"])], &mut problems);
        let found: Vec<(&str, &str)> = problems.iter().map(|p| (p.code, p.message.as_str())).collect();
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn params_decode_in_either_spelling() {
    let node = |kind| Node::synthetic(kind);
    let entry = |key: &str, kind| mixer_config::MappingEntry {
        key: key.into(),
        key_span: Default::default(),
        value: node(kind),
    };
    let text = |t: &str| NodeKind::String(t.into());
    let info = NodeKind::Mapping(vec![
        entry("instance_name", text("i")),
        entry("kind", text("DISTRIBUTION")),
        entry("labelNames", NodeKind::Sequence(vec![node(text("a"))])),
        entry("maxSeries", NodeKind::Int(3)),
        entry(
            "buckets",
            NodeKind::Mapping(vec![entry(
                "explicit_buckets",
                NodeKind::Mapping(vec![entry("bounds", NodeKind::Sequence(vec![node(NodeKind::Int(1))]))]),
            )]),
        ),
    ]);
    let tree = node(NodeKind::Mapping(vec![entry("metrics", NodeKind::Sequence(vec![node(info)]))]));
    let mut decoded = Params::default();
    let errors = mixer_config::message::decode_over(&mut decoded, &tree, FieldPath::root());
    assert_eq!(errors, []);
    let explicit = ExplicitBuckets { bounds: vec![1.0] };
    let expected = MetricInfo {
        instance_name: "i".to_owned(),
        kind: MetricKind::Distribution,
        label_names: vec!["a".to_owned()],
        max_series: 3,
        buckets: Some(BucketsDefinition { explicit_buckets: Some(explicit), ..BucketsDefinition::default() }),
        ..MetricInfo::default()
    };
    assert_eq!(decoded.metrics, [expected]);
}

#[tokio::test]
async fn each_kind_aggregates_as_documented() {
    let env = test_env("h.istio-system");
    let instances = [metric("g", &["l"]), metric("c", &["l"]), metric("d", &["l"])];
    let explicit = ExplicitBuckets { bounds: vec![1.0, 2.5, 100.0] };
    let buckets =
        Some(BucketsDefinition { explicit_buckets: Some(explicit), ..BucketsDefinition::default() });
    let params = params(vec![
        info("g", MetricKind::Gauge, &["l"]),
        info("c", MetricKind::Counter, &["l"]),
        MetricInfo {
            buckets,
            description: "a \"d\"\n\\".to_owned(),
            ..info("d", MetricKind::Distribution, &["l"])
        },
    ]);
    let handler = build(&params, &instances, &env).await.unwrap();
    assert_eq!(env.commons.get::<Endpoint>().text(), b"");
    for value in [1.0, 2.4, 100.5] {
        for (bound, instance) in instances.iter().enumerate() {
            report(&*handler, bound, &instance.name, &[number(value), text("q\"\\\n")]).unwrap();
        }
    }
    report(&*handler, 2, &instances[2].name, &[number(f64::NAN), text("nan")]).unwrap();
    report(&*handler, 0, &instances[0].name, &[number(-3.0), text("b")]).unwrap();
    let expected = [
        "# HELP istio_c c",
        "# TYPE istio_c counter",
        r#"istio_c{l="q\"\\\n"} 103.9"#,
        r#"# HELP istio_d a "d"\n\\"#,
        "# TYPE istio_d histogram",
        r#"istio_d_bucket{l="nan",le="1"} 0"#,
        r#"istio_d_bucket{l="nan",le="2.5"} 0"#,
        r#"istio_d_bucket{l="nan",le="100"} 0"#,
        r#"istio_d_bucket{l="nan",le="+Inf"} 1"#,
        r#"istio_d_sum{l="nan"} NaN"#,
        r#"istio_d_count{l="nan"} 1"#,
        r#"istio_d_bucket{l="q\"\\\n",le="1"} 1"#,
        r#"istio_d_bucket{l="q\"\\\n",le="2.5"} 2"#,
        r#"istio_d_bucket{l="q\"\\\n",le="100"} 2"#,
        r#"istio_d_bucket{l="q\"\\\n",le="+Inf"} 3"#,
        r#"istio_d_sum{l="q\"\\\n"} 103.9"#,
        r#"istio_d_count{l="q\"\\\n"} 3"#,
        "# HELP istio_g g",
        "# TYPE istio_g gauge",
        r#"istio_g{l="b"} -3"#,
        r#"istio_g{l="q\"\\\n"} 100.5"#,
        "",
    ];
    assert_eq!(String::from_utf8(env.commons.get::<Endpoint>().text()).unwrap(), expected.join("\n"));
}

#[tokio::test]
async fn values_are_numbers_or_errors() {
    let env = test_env("h.istio-system");
    let m = metric("m", &[]);
    let handler = build(&params(vec![info("m", MetricKind::Gauge, &[])]), std::slice::from_ref(&m), &env)
        .await
        .unwrap();
    let good = [
        (Value::Int64(5), "5"),
        (Value::Double(1e21), "1e+21"),
        (Value::Duration(SignedDuration::from_nanos(1_500_000_000)), "1.5"),
        (Value::String(b"2.25e2"), "225"),
        (Value::String(b"NaN"), "NaN"),
        (Value::String(b"-Inf"), "-Inf"),
    ];
    for (value, shown) in good {
        report(&*handler, 0, &m.name, &[Some(value)]).unwrap();
        assert_eq!(scrape(&env), [format!("istio_m {shown}")]);
    }
    let bad = [
        (None, "could not extract numeric value for <nil>"),
        (Some(Value::Bool(true)), "could not extract numeric value for true"),
        (Some(Value::String(b"/x")), "strconv.ParseFloat: parsing \"/x\": invalid syntax"),
        (Some(Value::String(b"1e400")), "strconv.ParseFloat: parsing \"1e400\": value out of range"),
        (Some(Value::String(b"\xff")), "strconv.ParseFloat: parsing \"\\xff\": invalid syntax"),
    ];
    for (value, why) in bad {
        let error = report(&*handler, 0, &m.name, &[value]).unwrap_err();
        let text = format!("could not get value for metric m.instance.istio-system: {why}");
        assert_eq!(error.message, join_errors(&[text]));
    }
    assert_eq!(scrape(&env), ["istio_m -Inf"]);
}

#[tokio::test]
async fn one_bad_instance_does_not_stop_the_others() {
    let env = test_env("h.istio-system");
    let instances = [metric("good", &["l"]), metric("other", &[]), metric("wide", &["a", "b"])];
    let metrics = vec![info("good", MetricKind::Counter, &["l"]), info("wide", MetricKind::Counter, &["a"])];
    let handler = build(&params(metrics), &instances, &env).await.unwrap();
    let one = [number(1.0), text("x")];
    let negative = [number(-1.0), text("x")];
    let invalid = [number(1.0), Some(Value::String(b"\xff"))];
    let wide = [number(1.0), text("/"), text("ann")];
    let error = reports(
        &*handler,
        &[
            (1, &instances[1].name, &[number(1.0)]),
            (0, &instances[0].name, &negative),
            (0, &instances[0].name, &one),
            (2, &instances[2].name, &wide),
            (0, &instances[0].name, &invalid),
            (9, "unknown", &one),
            (0, &instances[0].name, &one),
        ],
    )
    .unwrap_err();
    let expected = [
        "could not find metric info from adapter config for other.instance.istio-system",
        "counter cannot decrease in value",
        r#"inconsistent label cardinality: expected 1 label values but got 2 in prometheus.Labels{"a":"/", "b":"ann"}"#,
        "label value \"\\xff\" is not valid UTF-8",
        "could not find metric info from adapter config for unknown",
    ];
    assert_eq!(error.message, join_errors(&expected));
    assert_eq!(scrape(&env), [r#"istio_good{l="x"} 2"#]);
}

#[tokio::test]
async fn a_counter_that_would_decrease_exists_from_then_on() {
    let env = test_env("h.istio-system");
    let instances = [metric("c", &["l"])];
    let handler =
        build(&params(vec![info("c", MetricKind::Counter, &["l"])]), &instances, &env).await.unwrap();
    let error = report(&*handler, 0, &instances[0].name, &[number(-5.0), text("x")]).unwrap_err();
    assert_eq!(error.message, join_errors(&["counter cannot decrease in value"]));
    assert_eq!(scrape(&env), [r#"istio_c{l="x"} 0"#]);
}

#[tokio::test]
async fn an_unknown_dimension_and_a_wrong_number_of_dimensions_are_different_errors() {
    let env = test_env("h.istio-system");
    let instances = [metric("c", &["l"])];
    let handler =
        build(&params(vec![info("c", MetricKind::Gauge, &["a_b"])]), &instances, &env).await.unwrap();
    let error = report(&*handler, 0, &instances[0].name, &[number(5.0), text("x")]).unwrap_err();
    assert_eq!(error.message, join_errors(&[r#"label name "a_b" missing in label map"#]));
}

#[tokio::test]
async fn equal_dimensions_share_a_key_and_different_ones_do_not() {
    let env = test_env("h.istio-system");
    let instances = [metric("one", &["a", "b"]), metric("two", &["a", "b"]), metric("three", &["b"])];
    let metrics = vec![
        info("one", MetricKind::Counter, &["a", "b"]),
        info("two", MetricKind::Counter, &["b", "a"]),
        info("three", MetricKind::Counter, &["b"]),
    ];
    let handler = build(&params(metrics), &instances, &env).await.unwrap();
    for (a, b) in [("x", "y"), ("x", "z")] {
        let both = [number(1.0), text(a), text(b)];
        let only = [number(1.0), text(b)];
        let all: [(usize, &str, &[_]); 3] =
            [(0, &instances[0].name, &both), (1, &instances[1].name, &both), (2, &instances[2].name, &only)];
        reports(&*handler, &all).unwrap();
    }
    assert_eq!(
        scrape(&env),
        [
            r#"istio_one{a="x",b="y"} 1"#,
            r#"istio_one{a="x",b="z"} 1"#,
            r#"istio_three{b="y"} 1"#,
            r#"istio_three{b="z"} 1"#,
            r#"istio_two{a="x",b="y"} 1"#,
            r#"istio_two{a="x",b="z"} 1"#,
        ]
    );
}

#[tokio::test]
async fn values_with_one_text_are_one_series() {
    let env = test_env("h.istio-system");
    let m = metric("m", &["l"]);
    let handler =
        build(&params(vec![info("m", MetricKind::Counter, &["l"])]), std::slice::from_ref(&m), &env)
            .await
            .unwrap();
    let v4 = [10, 0, 0, 1];
    let mapped = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 10, 0, 0, 1];
    let instant = |nanos| Some(Value::Timestamp(Timestamp { seconds: 0, nanos }));
    let twins: [[Option<Value<'_>>; 2]; 4] = [
        [Some(Value::Bytes(&v4)), Some(Value::Bytes(&mapped))],
        [instant(1_000), instant(1_999)],
        [Some(Value::Int64(7)), text("7")],
        [None, text("")],
    ];
    for label in twins.iter().flatten() {
        report(&*handler, 0, &m.name, &[number(1.0), *label]).unwrap();
    }
    let expected =
        ["", "10.0.0.1", "1970-01-01T00:00:00.000001Z", "7"].map(|l| format!("istio_m{{l=\"{l}\"}} 2"));
    assert_eq!(scrape(&env), expected);
}

#[tokio::test]
async fn threads_add_up() {
    let env = test_env("h.istio-system");
    let instances = [metric("c", &["l"]), metric("g", &["l"])];
    let metrics = vec![info("c", MetricKind::Counter, &["l"]), info("g", MetricKind::Gauge, &["l"])];
    let handler: Arc<dyn Handler> = build(&params(metrics), &instances, &env).await.unwrap().into();
    let (c, g) = (&instances[0].name, &instances[1].name);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let handler = &*handler;
            scope.spawn(move || {
                mixer_base::shard::claim(thread);
                for i in 0..1000 {
                    let label = ["a", "b", "c"][i % 3];
                    let values = [number(1.0), text(label)];
                    reports(handler, &[(0, c, &values), (1, g, &values)]).unwrap();
                }
            });
        }
        for _ in 0..20 {
            env.commons.get::<Endpoint>().text();
        }
    });
    mixer_base::shard::claim(1);
    report(&*handler, 1, g, &[number(7.0), text("a")]).unwrap();
    mixer_base::shard::claim(0);
    report(&*handler, 1, g, &[number(8.0), text("b")]).unwrap();
    let expected = [
        "istio_c{l=\"a\"} 1336",
        "istio_c{l=\"b\"} 1332",
        "istio_c{l=\"c\"} 1332",
        "istio_g{l=\"a\"} 7",
        "istio_g{l=\"b\"} 8",
        "istio_g{l=\"c\"} 1",
    ];
    assert_eq!(scrape(&env), expected);
}

#[tokio::test]
async fn bad_metrics_refuse_the_handler_and_change_nothing() {
    let env = test_env("h.istio-system");
    let m = metric("m", &[]);
    let good = params(vec![info("m", MetricKind::Counter, &[])]);
    let handler = build(&good, std::slice::from_ref(&m), &env).await.unwrap();
    report(&*handler, 0, &m.name, &[number(1.0)]).unwrap();
    let same_name =
        |labels: &[&str]| MetricInfo { name: "m".to_owned(), ..info("n", MetricKind::Counter, labels) };
    let descending = ExplicitBuckets { bounds: vec![3.0, 1.0] };
    let cases = [
        (info("x", MetricKind::Unspecified, &[]), "unknown metric kind (0); could not register metric "),
        (same_name(&["b"]), "could not register metric: "),
        (MetricInfo { description: "other".to_owned(), ..same_name(&[]) }, "could not register metric: "),
        (MetricInfo { kind: MetricKind::Gauge, ..same_name(&[]) }, "could not register metric: "),
        (
            MetricInfo {
                buckets: Some(BucketsDefinition {
                    explicit_buckets: Some(descending),
                    ..BucketsDefinition::default()
                }),
                ..info("d", MetricKind::Distribution, &[])
            },
            "could not register metric: histogram buckets must be in increasing order",
        ),
    ];
    for (bad, why) in cases {
        let params = params(vec![good.metrics[0].clone(), bad]);
        let error = build(&params, std::slice::from_ref(&m), &env).await.err().unwrap().to_string();
        assert!(error.starts_with(&format!("1 error occurred:\n\t* {why}")), "{error}");
    }
    assert_eq!(scrape(&env), ["istio_m 1"]);
    // The failed builds hold no share of the listener.
    handler.close(Duration::from_secs(5)).await.unwrap();
    assert_eq!(env.commons.get::<Endpoint>().address(), None);
}

#[tokio::test]
async fn equal_metrics_are_shared() {
    let env = test_env("h.istio-system");
    let instances = [metric("a", &[]), metric("b", &[])];
    let twin = MetricInfo { name: "a".to_owned(), ..info("b", MetricKind::Counter, &[]) };
    let handler =
        build(&params(vec![info("a", MetricKind::Counter, &[]), twin]), &instances, &env).await.unwrap();
    report(&*handler, 0, &instances[0].name, &[number(1.0)]).unwrap();
    report(&*handler, 1, &instances[1].name, &[number(2.0)]).unwrap();
    assert_eq!(scrape(&env), ["istio_a 3"]);
}

#[tokio::test]
async fn values_survive_reloads_unless_a_metric_is_redefined() {
    let env = test_env("h.istio-system");
    let other_env = Env { handler_name: "other.istio-system".into(), ..env.clone() };
    let instances = [metric("m", &[]), metric("n", &[])];
    let m = info("m", MetricKind::Counter, &[]);
    let n = info("n", MetricKind::Counter, &[]);
    let other = build(&params(vec![info("o", MetricKind::Counter, &[])]), &[metric("o", &[])], &other_env)
        .await
        .unwrap();
    let first = build(&params(vec![m.clone(), n.clone()]), &instances, &env).await.unwrap();
    let add = |handler: &dyn Handler| {
        report(handler, 0, &instances[0].name, &[number(1.0)]).unwrap();
        report(handler, 1, &instances[1].name, &[number(1.0)]).unwrap();
    };
    add(&*first);
    report(&*other, 0, "o.instance.istio-system", &[number(1.0)]).unwrap();
    assert_eq!(scrape(&env), ["istio_m 1", "istio_n 1", "istio_o 1"]);

    // A metric that is no longer configured is kept, and so is one whose limit has changed.
    let limited = MetricInfo { max_series: 7, ..m.clone() };
    let second = build(&params(vec![limited]), &instances, &env).await.unwrap();
    first.close(Duration::from_secs(1)).await.unwrap();
    add(&*second);
    assert_eq!(scrape(&env), ["istio_m 2", "istio_n 2", "istio_o 1"]);

    // A redefinition empties the metrics of its handler, and leaves those of others alone.
    let described = MetricInfo { description: "now described".to_owned(), ..m };
    let third = build(&params(vec![described, n]), &instances, &env).await.unwrap();
    second.close(Duration::from_secs(1)).await.unwrap();
    assert_eq!(scrape(&env), ["istio_o 1"]);
    add(&*third);
    report(&*other, 0, "o.instance.istio-system", &[number(5.0)]).unwrap();
    assert_eq!(scrape(&env), ["istio_m 1", "istio_n 1", "istio_o 6"]);
}

#[tokio::test]
async fn a_redefinition_detaches_no_other_handler() {
    let env = test_env("h.istio-system");
    let other_env = Env { handler_name: "other.istio-system".into(), ..env.clone() };
    let instances = [metric("m", &["a", "b"]), metric("n", &["a"])];
    let m = info("m", MetricKind::Counter, &["a", "b"]);
    let n = info("n", MetricKind::Counter, &["a"]);
    let both = params(vec![m.clone(), n.clone()]);
    let first = build(&both, &instances, &env).await.unwrap();
    let other = build(&both, &instances, &other_env).await.unwrap();
    let add = |handler: &dyn Handler| {
        let both = [number(1.0), text("x"), text("y")];
        report(handler, 0, &instances[0].name, &both).unwrap();
        report(handler, 1, &instances[1].name, &both[..2]).unwrap();
    };
    add(&*first);
    add(&*other);
    assert_eq!(scrape(&env), [r#"istio_m{a="x",b="y"} 2"#, r#"istio_n{a="x"} 2"#]);
    let described = MetricInfo { description: "now described".to_owned(), ..m };
    let second = build(&params(vec![described, n]), &instances, &env).await.unwrap();
    first.close(Duration::from_secs(1)).await.unwrap();
    assert_eq!(scrape(&env), [r#"istio_n{a="x"} 2"#], "only what is redefined loses its values");
    add(&*other);
    add(&*second);
    assert_eq!(scrape(&env), [r#"istio_m{a="x",b="y"} 2"#, r#"istio_n{a="x"} 4"#]);
    assert_eq!(other.status().queues[0].length, 1, "the status shows the metric that is fed");

    // The dimensions of an instance no longer fit the labels: the handler says so.
    let narrower = params(vec![info("m", MetricKind::Counter, &["a"])]);
    let third = build(&narrower, &[metric("m", &["a"])], &env).await.unwrap();
    let error = report(&*other, 0, &instances[0].name, &[number(1.0), text("x"), text("y")]).unwrap_err();
    assert!(error.message.contains("inconsistent label cardinality"), "{}", error.message);
    report(&*third, 0, &instances[0].name, &[number(7.0), text("z")]).unwrap();
    assert_eq!(scrape(&env), [r#"istio_m{a="z"} 7"#, r#"istio_n{a="x"} 4"#]);
}

#[tokio::test]
async fn a_series_lives_for_its_whole_expiry() {
    let clock = TestClock::at(Duration::from_secs(1_000));
    let env = Env { clock: clock.clone(), ..test_env("h.istio-system") };
    let m = metric("m", &[]);
    let params = Params {
        metrics_expiration_policy: Some(MetricsExpirationPolicy {
            metrics_expiry_duration: SignedDuration::from_secs(1),
            // The test sweeps.
            expiry_check_interval_duration: SignedDuration::from_secs(-1),
        }),
        ..params(vec![info("m", MetricKind::Counter, &[])])
    };
    let handler = build(&params, std::slice::from_ref(&m), &env).await.unwrap();
    let sweep = |millis: u64| {
        let now = Duration::from_millis(1_000_000 + millis);
        clock.set(now);
        let endpoint = env.commons.get::<Endpoint>();
        endpoint.metrics().iter().for_each(|metric| metric.sweep(now.as_nanos() as u64));
        scrape(&env).len()
    };
    clock.set(Duration::from_millis(1_000_900));
    report(&*handler, 0, &m.name, &[number(1.0)]).unwrap();
    assert_eq!(sweep(1500), 1, "updated 600 ms ago");
    assert_eq!(sweep(1899), 1);
    assert_eq!(sweep(1900), 0);
}

#[tokio::test]
async fn the_listener_lives_from_the_first_handler_to_the_last() {
    let env = test_env("h.istio-system");
    let endpoint = env.commons.get::<Endpoint>();
    assert_eq!(endpoint.address(), None);
    let m = metric("m", &["l"]);
    let params = params(vec![info("m", MetricKind::Counter, &["l"])]);
    let first = build(&params, std::slice::from_ref(&m), &env).await.unwrap();
    let address = endpoint.address().unwrap();
    let second = build(&params, std::slice::from_ref(&m), &env).await.unwrap();
    assert_eq!(endpoint.address(), Some(address));
    first.close(Duration::from_secs(5)).await.unwrap();
    drop(first);
    let (head, body) = get(address, "/metrics", "").await;
    assert!(
        head.starts_with("http/1.1 200 ok") && head.contains("text/plain; version=0.0.4; charset=utf-8"),
        "{head}"
    );
    assert_eq!(body, b"");
    for label in 0..100 {
        report(&*second, 0, &m.name, &[number(1.0), text(&label.to_string())]).unwrap();
    }
    let (head, body) = get(address, "/metrics", "Accept-Encoding: gzip\r\n").await;
    assert!(head.contains("content-encoding: gzip"), "{head}");
    let mut plain = String::new();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(&body[..]), &mut plain).unwrap();
    assert_eq!(plain.as_bytes(), endpoint.text());
    assert_eq!(plain.lines().count(), 102);
    assert!(get(address, "/", "").await.0.starts_with("http/1.1 404"));

    // Another server cannot have the port.
    let taken = Env { metrics_port: address.port(), ..test_env("h.istio-system") };
    let error = build(&params, std::slice::from_ref(&m), &taken).await.err().unwrap().to_string();
    let port = address.port();
    assert_eq!(
        error,
        format!(
            "could not start prometheus metrics server: listen tcp :{port}: bind: address already in use"
        )
    );

    second.close(Duration::from_secs(5)).await.unwrap();
    assert_eq!(endpoint.address(), None);
    assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_err());
    // And again, with the values of before.
    let third = build(&params, &[m], &Env { metrics_port: port, ..env.clone() }).await.unwrap();
    assert_eq!(String::from_utf8(get(endpoint.address().unwrap(), "/metrics", "").await.1).unwrap(), plain);
    drop(third);
    assert_eq!(endpoint.address(), None);
}

#[tokio::test]
async fn the_number_of_series_is_limited() {
    let env = test_env("h.istio-system");
    let m = metric("m", &["l"]);
    let limited =
        |max_series| params(vec![MetricInfo { max_series, ..info("m", MetricKind::Counter, &["l"]) }]);
    let handler = build(&limited(2), std::slice::from_ref(&m), &env).await.unwrap();
    let add = |handler: &dyn Handler| {
        for label in ["a", "b", "c", "d"] {
            report(handler, 0, &m.name, &[number(1.0), text(label)]).unwrap();
        }
    };
    add(&*handler);
    let refused = env.metrics.counter(mixer_base::metrics::Family::PrometheusReportsRefused, &["istio_m"]);
    assert_eq!((scrape(&env).len(), refused.get()), (2, 2));
    let wider = build(&limited(-1), std::slice::from_ref(&m), &env).await.unwrap();
    add(&*wider);
    assert_eq!((scrape(&env).len(), refused.get()), (4, 2));
    assert_eq!(scrape(&env)[0], "istio_m{l=\"a\"} 2");
}

#[tokio::test]
async fn the_memory_of_series_is_limited_whatever_their_number_and_the_length_of_their_labels() {
    let env = test_env("h.istio-system");
    env.commons.insert(Arc::new(MemoryBudget::new(32 << 20)));
    let instances = [metric("m", &["l"]), metric("n", &["l"])];
    let unlimited = |name| MetricInfo { max_series: -1, ..info(name, MetricKind::Distribution, &["l"]) };
    let handler = build(&params(vec![unlimited("m"), unlimited("n")]), &instances, &env).await.unwrap();
    let long = "x".repeat(1 << 20);
    let add = |bound: usize, label: &str| {
        report(&*handler, bound, &instances[bound].name, &[number(1.0), text(label)]).unwrap();
    };
    let refused = |name: &str| {
        env.metrics.counter(mixer_base::metrics::Family::PrometheusReportsRefused, &[name]).get()
    };
    let share = Arc::clone(env.commons.get::<MemoryBudget>().share(Purpose::Series));
    let mut accepted = 0;
    while refused("istio_m") == 0 {
        add(0, &format!("{long}{accepted}"));
        accepted += 1;
        assert!(accepted < 10_000 && share.used() <= share.limit());
    }
    assert!(accepted > 1000, "{accepted} series");
    add(0, &format!("{long}0"));
    add(0, &format!("{long}new"));
    assert_eq!(refused("istio_m"), 2, "a series that exists is not refused");
    add(1, "another metric");
    assert_eq!(refused("istio_n"), 0, "each metric has its guarantee");
    assert!(scrape(&env).iter().all(|line| line.len() < 1100));
    drop(handler);
    env.commons.get::<Endpoint>().forget();
    assert_eq!(share.used(), 0);
}

#[tokio::test]
async fn long_label_values_are_cut_and_stay_apart() {
    let env = test_env("h.istio-system");
    let m = metric("m", &["l"]);
    let handler =
        build(&params(vec![info("m", MetricKind::Counter, &["l"])]), std::slice::from_ref(&m), &env)
            .await
            .unwrap();
    let fits = "a".repeat(1024);
    let long = "ä".repeat(600);
    let other = format!("{long}!");
    for label in [&fits, &long, &long, &other] {
        report(&*handler, 0, &m.name, &[number(1.0), text(label)]).unwrap();
    }
    let lines = scrape(&env);
    assert_eq!((lines.len(), &lines[0]), (3, &format!("istio_m{{l=\"{fits}\"}} 1")));
    let values: Vec<(&str, &str)> = lines[1..]
        .iter()
        .map(|l| l.strip_prefix("istio_m{l=\"").unwrap().split_once("\"} ").unwrap())
        .collect();
    let mut counts: Vec<&str> = values.iter().map(|(_, count)| *count).collect();
    counts.sort_unstable();
    assert_eq!(counts, ["1", "2"]);
    for (value, _) in values {
        let (kept, digest) = value.split_once('…').unwrap();
        assert!(value.len() <= 1024 && long.starts_with(kept) && kept.len() > 980, "{value}");
        assert!(digest.len() == 32 && digest.chars().all(|c| c.is_ascii_hexdigit()), "{digest}");
    }
    let cut = env.metrics.counter(mixer_base::metrics::Family::PrometheusLabelsCut, &["istio_m"]);
    assert_eq!(cut.get(), 2, "counted for each series");
}

#[tokio::test]
async fn unread_scrapes_share_renderings_and_are_bounded() {
    let env = test_env("h.istio-system");
    let m = metric("m", &["l"]);
    let handler =
        build(&params(vec![info("m", MetricKind::Distribution, &["l"])]), std::slice::from_ref(&m), &env)
            .await
            .unwrap();
    for label in 0..8_000 {
        let label = format!("{label}{}", "x".repeat(300));
        report(&*handler, 0, &m.name, &[number(1.0), text(&label)]).unwrap();
    }
    let endpoint = env.commons.get::<Endpoint>();
    let whole = endpoint.text();
    assert!(whole.len() > 30 << 20, "the page has {} bytes", whole.len());
    let address = endpoint.address().unwrap();
    let share = Arc::clone(env.commons.get::<MemoryBudget>().share(Purpose::Scrapes));
    let open = move || {
        use std::io::{Read as _, Write as _};
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", address.port())).unwrap();
        write!(stream, "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut head = [0; 12];
        stream.read_exact(&mut head).unwrap();
        (String::from_utf8(head.to_vec()).unwrap(), stream)
    };
    // Each client reads the first bytes only.
    let mut unread = Vec::new();
    for _ in 0..60 {
        unread.push(tokio::task::spawn_blocking(open).await.unwrap());
        assert!(share.used() <= share.limit());
    }
    let served = unread.iter().filter(|(head, _)| head == "HTTP/1.1 200").count();
    let refused = unread.iter().filter(|(head, _)| head == "HTTP/1.1 503").count();
    assert_eq!((served, refused), (16, 44));
    assert_eq!(env.metrics.counter(mixer_base::metrics::Family::PrometheusScrapesRefused, &[]).get(), 44);
    // One of them reads on; it gets the whole page, and the others can be gone at any time.
    let (_, mut reader) = unread.swap_remove(0);
    drop(unread);
    let read = move || {
        let mut rest = Vec::new();
        std::io::Read::read_to_end(&mut reader, &mut rest).unwrap();
        rest.len()
    };
    assert!(tokio::task::spawn_blocking(read).await.unwrap() > whole.len());
    while share.used() > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(
        tokio::task::spawn_blocking(open).await.unwrap().0,
        "HTTP/1.1 200",
        "scrapes are served again"
    );
}

#[tokio::test]
async fn series_are_removed_when_they_expire() {
    let clock = TestClock::at(Duration::from_secs(1_000));
    let env = Env { clock: clock.clone(), ..test_env("h.istio-system") };
    let m = metric("m", &["l"]);
    let params = Params {
        metrics_expiration_policy: Some(MetricsExpirationPolicy {
            metrics_expiry_duration: SignedDuration::from_secs(4),
            expiry_check_interval_duration: SignedDuration::from_nanos(5_000_000),
        }),
        ..params(vec![info("m", MetricKind::Counter, &["l"])])
    };
    let handler = build(&params, std::slice::from_ref(&m), &env).await.unwrap();
    let add = |label| report(&*handler, 0, &m.name, &[number(1.0), text(label)]).unwrap();
    // The clock of the values is moved by hand; the sweeper looks every few real milliseconds.
    let at = async |seconds: u64| {
        clock.set(Duration::from_secs(1_000 + seconds));
        tokio::time::sleep(Duration::from_millis(60)).await;
    };
    add("a");
    add("b");
    at(3).await;
    add("b");
    assert_eq!(scrape(&env), [r#"istio_m{l="a"} 1"#, r#"istio_m{l="b"} 2"#]);
    at(5).await;
    assert_eq!(scrape(&env), [r#"istio_m{l="b"} 2"#]);
    at(9).await;
    assert_eq!(scrape(&env), [""; 0]);
    add("b");
    assert_eq!(scrape(&env), [r#"istio_m{l="b"} 1"#]);
    env.tasks.shut_down().await;
    assert_eq!(env.tasks.live(), 0);
}
