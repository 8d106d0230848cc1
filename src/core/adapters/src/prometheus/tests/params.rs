//! Parameters: what is checked and how they decode.

use super::*;

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
