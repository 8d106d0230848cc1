use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use mixer_attribute::{SignedDuration, Value, ValueType};
use mixer_config::Diagnostics;
use mixer_engine::adapter::{BoundInstance, Leaf};

use super::params::{
    BucketsDefinition, ExplicitBuckets, ExponentialBuckets, LinearBuckets, LogInfo, MetricInfo, MetricKind,
    MetricValue, Params, SinkInfo, Trace,
};
use super::*;
use crate::testing::{bound, instance, ready, test_env};

const METRIC: &str = "m.instance.ns";

fn metric(value_type: ValueType) -> BoundInstance {
    let mut instance = bound(METRIC, "metric", "dimensions", &[]);
    instance.leaves = [Leaf::new("value", None, value_type)].into();
    instance
}

fn params(value: MetricValue, buckets: Option<BucketsDefinition>) -> Params {
    let info = MetricInfo { kind: MetricKind::Delta, value, buckets, ..MetricInfo::default() };
    Params { metric_info: BTreeMap::from([(METRIC.into(), info)]), ..Params::default() }
}

fn found(params: &Params, instances: &[BoundInstance]) -> Vec<String> {
    let mut problems = Diagnostics::new();
    Stackdriver::validate(params, instances, &mut problems);
    problems.into_iter().map(|problem| problem.message.clone()).collect()
}

#[test]
fn a_distribution_needs_buckets() {
    let explicit = |bounds: &[f64]| {
        let explicit_buckets = Some(ExplicitBuckets { bounds: bounds.to_vec() });
        Some(BucketsDefinition { explicit_buckets, ..BucketsDefinition::default() })
    };
    let linear = |num_finite_buckets, width| {
        let linear_buckets = Some(LinearBuckets { num_finite_buckets, width, offset: 0.0 });
        Some(BucketsDefinition { linear_buckets, ..BucketsDefinition::default() })
    };
    let exponential = |growth_factor, scale| {
        let exponential_buckets = Some(ExponentialBuckets { num_finite_buckets: 3, growth_factor, scale });
        Some(BucketsDefinition { exponential_buckets, ..BucketsDefinition::default() })
    };
    let of = |buckets| found(&params(MetricValue::Distribution, buckets), &[metric(ValueType::Duration)]);
    for valid in [explicit(&[1.0]), explicit(&[-1.0, 0.0, 5.0]), linear(1, 0.1), exponential(1.1, 1e-6)] {
        assert!(of(valid.clone()).is_empty(), "{valid:?}");
    }
    let both = Some(BucketsDefinition {
        linear_buckets: Some(LinearBuckets::default()),
        ..explicit(&[1.0]).unwrap()
    });
    for invalid in [
        None,
        Some(BucketsDefinition::default()),
        both,
        explicit(&[]),
        explicit(&[1.0, 1.0]),
        explicit(&[f64::NAN]),
        linear(0, 1.0),
        linear(-1, 1.0),
        linear(i32::MAX, 1.0),
        linear(1, 0.0),
        exponential(1.0, 1.0),
        exponential(2.0, 0.0),
    ] {
        let start = "metricInfo: the buckets of the distribution m.instance.ns are none: ";
        let problems = of(invalid.clone());
        assert!(problems.len() == 1 && problems[0].starts_with(start), "{invalid:?}: {problems:?}");
    }
    let text = found(&params(MetricValue::Distribution, explicit(&[1.0])), &[metric(ValueType::String)]);
    assert_eq!(text, ["metricInfo: m.instance.ns is a distribution, and its values are of type STRING"]);
}

#[test]
fn values_that_google_refuses_are_told() {
    for (configured, instance, is_taken) in [
        (MetricValue::Int64, ValueType::Int64, true),
        (MetricValue::Int64, ValueType::Duration, true),
        (MetricValue::Int64, ValueType::Timestamp, true),
        (MetricValue::Double, ValueType::Double, true),
        (MetricValue::Double, ValueType::Int64, true),
        (MetricValue::String, ValueType::IpAddress, true),
        (MetricValue::Bool, ValueType::Bool, true),
        (MetricValue::Int64, ValueType::Double, false),
        (MetricValue::Money, ValueType::Int64, false),
        (MetricValue::Unspecified, ValueType::Int64, false),
    ] {
        let problems = found(&params(configured, None), &[metric(instance)]);
        assert_eq!(problems.is_empty(), is_taken, "{configured:?} {instance}: {problems:?}");
    }
}

#[test]
fn parameters_are_checked() {
    let none = Params::default();
    assert!(found(&none, &[]).is_empty());
    let of = |params: Params| found(&params, &[]);
    let text = "trace.sampleProbability: sampling probability must be between 0 and 1 (inclusive)";
    for sample_probability in [-0.1, 1.1, f64::NAN] {
        let trace = Some(Trace { sample_probability });
        assert_eq!(of(Params { trace, ..Params::default() }), [text]);
    }
    let endpoint = |endpoint: &str| of(Params { endpoint: endpoint.into(), ..Params::default() });
    assert!(endpoint("localhost:443").is_empty() && endpoint("http://localhost").is_empty());
    assert_eq!(endpoint("localhost"), ["the handler will not be built: `localhost` is not HOST:PORT"]);
    let unknown = params(MetricValue::Int64, None);
    assert_eq!(found(&unknown, &[]), ["no rule sends the metric `m.instance.ns` to this handler"]);
    let without = found(&none, &[metric(ValueType::Int64)]);
    assert_eq!(without, ["`metricInfo` has no entry for m.instance.ns, which is not sent"]);
    let span = bound("t.instance.ns", "tracespan", "span_tags", &[]);
    assert_eq!(found(&none, &[span]), ["no span is sent, because `trace.sampleProbability` is 0"]);
}

/// Parameters whose services are all at a port of this machine.
fn at(port: u16, directory: &Path) -> Params {
    let key_file = directory.join("user.json");
    let text = r#"{"type": "authorized_user", "client_id": "c", "client_secret": "s", "refresh_token": "r"}"#;
    std::fs::write(&key_file, text).unwrap();
    let here = format!("http://127.0.0.1:{port}");
    Params {
        endpoint: here.clone(),
        project_id: "p".to_owned(),
        service_account_path: key_file.display().to_string(),
        token_endpoint: here.clone(),
        metadata_endpoint: here,
        push_interval: SignedDuration::from_millis(10),
        ..Params::default()
    }
}

/// Other configuration waits for builds. Time passes as soon as there is nothing to do.
#[tokio::test(start_paused = true)]
async fn a_build_does_not_wait_for_sinks_and_for_the_metadata_server_only_a_second() {
    // It takes connections, and says nothing.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let sink_info = Some(SinkInfo { id: "s".to_owned(), ..SinkInfo::default() });
    let log_info =
        BTreeMap::from([("l.instance.ns".to_owned(), LogInfo { sink_info, ..LogInfo::default() })]);
    let params = Params { log_info, ..at(silent.local_addr().unwrap().port(), directory.path()) };
    let started = tokio::time::Instant::now();
    let handler = Stackdriver::build(params, Vec::new(), test_env("sinks.istio-system")).await.unwrap();
    let took = started.elapsed();
    assert!(took < Duration::from_millis(2500), "{took:?}");
    handler.close(Duration::ZERO).await.unwrap();
}

#[tokio::test]
async fn values_add_up_while_google_is_away_instead_of_waiting_one_by_one() {
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let directory = tempfile::tempdir().unwrap();
    let params =
        Params { metric_info: params(MetricValue::Int64, None).metric_info, ..at(gone, directory.path()) };
    let instances = vec![metric(ValueType::Int64)];
    let handler = Stackdriver::build(params, instances, test_env("away.istio-system")).await.unwrap();
    let sender = || {
        let all = mixer_delivery::list().into_iter();
        all.filter(|of| of.detail == "away.istio-system").map(|of| of.status).next().unwrap()
    };
    for _ in 0..20 {
        let values = [Some(Value::Int64(1))];
        ready(handler.as_report().unwrap().report(&[instance(METRIC, &values)]));
        tokio::time::sleep(Duration::from_millis(15)).await;
    }
    assert_eq!(sender().waiting(), 1, "{:?}", sender());
    let _ = handler.close(Duration::ZERO).await;
    assert!(sender().adds_up() && sender().accepted == 2, "{:?}", sender());
}
