use std::collections::BTreeMap;

use mixer_attribute::ValueType;
use mixer_config::Diagnostics;
use mixer_engine::adapter::{BoundInstance, Leaf};

use super::params::{
    BucketsDefinition, ExplicitBuckets, ExponentialBuckets, LinearBuckets, MetricInfo, MetricKind,
    MetricValue, Params, Trace,
};
use super::*;
use crate::testing::bound;

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
    problems.into_iter().map(|problem| problem.message).collect()
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
