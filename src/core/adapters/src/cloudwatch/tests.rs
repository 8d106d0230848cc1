use std::collections::BTreeMap;

use mixer_attribute::{SignedDuration, Timestamp, Value, ValueType};
use mixer_config::Diagnostics;
use mixer_engine::adapter::{BoundInstance, Instance, Leaf};

use super::log::LogTemplate;
use super::metric::MetricTemplate;
use super::params::{LogInfo, MetricDatum, Params, Unit};
use super::*;
use crate::testing::{bound, test_env};

const METRIC: &str = "m.instance.ns";
const LOG: &str = "l.instance.ns";

fn metric(value: ValueType, dimensions: &[(&str, ValueType)]) -> BoundInstance {
    let mut instance = bound(METRIC, "metric", "dimensions", dimensions);
    let value = Leaf::new("value", None, value);
    instance.leaves = instance.leaves.iter().cloned().chain([value]).collect();
    instance
}

fn log(variables: &[(&str, ValueType)]) -> BoundInstance {
    let mut instance = bound(LOG, "logentry", "variables", variables);
    let leaf = |field, value_type| Leaf::new(field, None, value_type);
    let fixed = [leaf("timestamp", ValueType::Timestamp), leaf("severity", ValueType::String)];
    instance.leaves = instance.leaves.iter().cloned().chain(fixed).collect();
    instance
}

fn params(unit: Unit, template: &str) -> Params {
    Params {
        namespace: "mesh".into(),
        metric_info: BTreeMap::from([(METRIC.into(), MetricDatum { unit })]),
        log_group_name: "group".into(),
        log_stream_name: "stream".into(),
        logs: BTreeMap::from([(LOG.into(), LogInfo { payload_template: template.into() })]),
        region: "eu-west-1".into(),
        ..Params::default()
    }
}

fn found(params: &Params, instances: &[BoundInstance]) -> Vec<String> {
    let mut problems = Diagnostics::new();
    CloudWatch::validate(params, instances, &mut problems);
    problems.into_iter().map(|problem| problem.message.clone()).collect()
}

#[test]
fn values_are_those_that_the_service_takes() {
    let lines = |unit: Unit, value: Value<'_>| {
        let template = MetricTemplate::new(&params(unit, ""), &metric(ValueType::Int64, &[]));
        let values = [Some(value)];
        let datum = template.datum(&Instance { bound: 0, name: METRIC, values: &values }, 7);
        datum.map(|datum| datum.lines.into_string())
    };
    let took = Value::Duration(SignedDuration::from_nanos(1_999_999_999));
    for (unit, value, unit_text, number) in [
        (Unit::None, Value::Int64(-3), "None", "-3"),
        (Unit::Count, Value::Double(0.000_000_1), "Count", "0.0000001"),
        (Unit::Percent, Value::String(b"2.50"), "Percent", "2.5"),
        (Unit::Seconds, took, "Seconds", "1"),
        (Unit::Milliseconds, took, "Milliseconds", "1999"),
        (Unit::Microseconds, took, "Microseconds", "1999999"),
        (Unit::Bytes, took, "Bytes", "1999"),
        (Unit::CountSecond, Value::Int64(1), "Count%2FSecond", "1"),
    ] {
        let expected = format!("MetricName={METRIC}\nUnit={unit_text}\nValue={number}\nDimensions=\n");
        assert_eq!(lines(unit, value), Ok(expected), "{value:?}");
    }
    for value in [
        Value::String(b"x"),
        Value::Double(f64::NAN),
        Value::Double(f64::INFINITY),
        Value::Double(1e300),
        Value::Double(-1e-300),
        Value::Bool(true),
    ] {
        assert!(lines(Unit::None, value).is_err(), "{value:?}");
    }
}

#[test]
fn no_dimension_of_a_caller_spoils_the_request_of_others() {
    let keys = [("a", ValueType::String), ("b", ValueType::IpAddress), ("c d", ValueType::String)];
    let template = MetricTemplate::new(&params(Unit::None, ""), &metric(ValueType::Int64, &keys));
    let long = "é".repeat(2000);
    let values = [
        Some(Value::String(long.as_bytes())),
        Some(Value::Bytes(&[10, 0, 0, 1])),
        None,
        Some(Value::Int64(1)),
    ];
    let datum = template.datum(&Instance { bound: 0, name: METRIC, values: &values }, 7).unwrap();
    let lines: Vec<&str> = datum.lines.lines().collect();
    let value = lines[4].strip_prefix("Dimensions.member.1.Value=").unwrap();
    assert!(value.len() <= 1024 && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'));
    assert_eq!(lines[6], "Dimensions.member.2.Value=10.0.0.1");
    assert_eq!(lines[7..], ["Dimensions.member.3.Name=c+d", "Dimensions.member.3.Value=-"]);
}

#[test]
fn messages_are_made_by_templates() {
    let variables = [
        ("method", ValueType::String),
        ("response_code", ValueType::Int64),
        ("source_ip", ValueType::IpAddress),
    ];
    let values = [
        Some(Value::String(b"<GET>")),
        Some(Value::Int64(200)),
        Some(Value::Bytes(&[10, 0, 0, 1])),
        Some(Value::Timestamp(Timestamp { seconds: 1_551_434_400, nanos: 123_999_999 })),
        Some(Value::String(b"info")),
    ];
    let event = |template: &str, html_escape: bool, values: &[Option<Value<'_>>]| {
        let params = Params { html_escape, ..params(Unit::None, template) };
        let template = LogTemplate::new(&params, &log(&variables)).unwrap();
        let now = Timestamp { seconds: 5, nanos: 0 };
        template.event(&Instance { bound: 0, name: LOG, values }, now)
    };
    let message = |template: &str, html: bool| {
        event(template, html, &values).unwrap().map(|event| event.message.into_string())
    };
    let line = "10.0.0.1 - - [2019-03-01T10:00:00Z] \"<GET> - -\" 200 -";
    assert_eq!(message("", false).as_deref(), Some(line));
    let escaped = line.replace('<', "&lt;").replace('>', "&gt;");
    assert_eq!(message(" ", true), Some(escaped));
    assert_eq!(message("{{.severity}}{{.none}}", false).as_deref(), Some("info"));
    assert_eq!(message("{{.none}}", false), None);
    assert_eq!(event("", false, &values).unwrap().unwrap().at, 1_551_434_400_123);
    let [method, code, ip, _, severity] = values;
    let early = Some(Value::Timestamp(Timestamp::YEAR_ONE));
    assert_eq!(event("x", false, &[method, code, ip, early, severity]).unwrap().unwrap().at, 0);
    assert_eq!(event("x", false, &[method, code, ip, None, severity]).unwrap().unwrap().at, 5000);
    assert!(event("{{len .response_code}}", false, &values).is_err());
    let long = "x".repeat(1 << 20);
    let message = message(&long, false).unwrap();
    assert!(message.len() < 256 << 10, "{}", message.len());
}

#[test]
fn parameters_are_checked() {
    let both = [metric(ValueType::Int64, &[]), log(&[("a", ValueType::String)])];
    assert!(found(&params(Unit::Count, "{{.a}}"), &both).is_empty());
    let metrics_only = Params {
        log_group_name: String::new(),
        log_stream_name: String::new(),
        logs: BTreeMap::new(),
        ..params(Unit::Count, "")
    };
    assert!(
        found(&metrics_only, &both[..1]).is_empty(),
        "logs need their settings, and metrics none of these"
    );
    let took = [metric(ValueType::Duration, &[]), log(&[("a", ValueType::String)])];
    let unit = "duration metric unit: value of type duration should have a unit of seconds, milliseconds or microseconds";
    assert_eq!(found(&params(Unit::Count, ""), &took), [unit]);
    let eleven: Vec<String> = (0..11).map(|number| number.to_string()).collect();
    let eleven: Vec<(&str, ValueType)> = eleven.iter().map(|name| (&**name, ValueType::String)).collect();
    let many = [metric(ValueType::Int64, &eleven), log(&[("a", ValueType::String)])];
    assert_eq!(
        found(&params(Unit::Count, ""), &many),
        ["dimensions: metrics can only contain 10 dimensions"]
    );
    for (field, params) in [
        ("a", Params { metrics_endpoint: "monitoring".into(), ..params(Unit::Count, "") }),
        ("b", Params { instance_endpoint: "ftp://x".into(), ..params(Unit::Count, "") }),
        ("c", Params { sts_endpoint: "sts".into(), ..params(Unit::Count, "") }),
    ] {
        let problems = found(&params, &both);
        assert!(problems[0].starts_with("the handler will not be built: `"), "{field}: {problems:?}");
    }
    let template = found(&params(Unit::Count, "{{"), &both);
    assert!(template[0].starts_with("logs: failed to parse template for `l.instance.ns`: "), "{template:?}");
    let unbound = found(&params(Unit::Count, ""), &both[..1]);
    assert_eq!(unbound, ["no rule sends the logentry `l.instance.ns` to this handler"]);
}

#[tokio::test]
async fn a_handler_needs_a_region() {
    let without =
        Params { region: String::new(), profile: "no such profile".into(), ..params(Unit::Count, "") };
    if std::env::var_os("AWS_REGION").is_none() && std::env::var_os("AWS_DEFAULT_REGION").is_none() {
        let refused = CloudWatch::build(without, vec![metric(ValueType::Int64, &[])], test_env("h.ns")).await;
        let text = "there is no region: set `region`, or AWS_REGION in the environment of the server";
        assert_eq!(refused.err().map(|error| error.to_string()).as_deref(), Some(text));
    }
}
