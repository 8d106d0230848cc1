use std::time::Duration;

use mixer_attribute::{SignedDuration, Value, ValueType};
use mixer_engine::adapter::{Adapter as _, BoundInstance, Handler, Instance, Leaf, Reply};
use tokio::net::UdpSocket;

use super::*;
use crate::testing::{bound, problems, test_env};

/// A metric with a value and dimensions.
fn metric(name: &str, value: ValueType, dimensions: &[(&str, ValueType)]) -> BoundInstance {
    let mut metric = bound(name, "metric", "dimensions", dimensions);
    let value = Leaf::new("value", None, value);
    metric.leaves = std::iter::once(value).chain(metric.leaves.iter().cloned()).collect();
    metric
}

fn info(kind: MetricType, template: &str) -> MetricInfo {
    MetricInfo { kind, name_template: template.to_owned() }
}

struct Stage {
    receiver: UdpSocket,
    handler: Box<dyn Handler>,
}

impl Stage {
    async fn start(params: Params, instances: &[BoundInstance]) -> Self {
        let receiver = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let params = Params {
            address: receiver.local_addr().unwrap().to_string(),
            flush_duration: SignedDuration::from_millis(1),
            ..params
        };
        let handler = Statsd::build(params, instances.to_vec(), test_env("h.istio-system")).await.unwrap();
        Self { receiver, handler }
    }

    /// Reports values by index of the instance. Returns the error.
    fn report(&self, values: &[(usize, &[Option<Value<'_>>])]) -> String {
        let names = ["a.instance.ns", "b.instance.ns"];
        let instances: Vec<Instance<'_>> = values
            .iter()
            .map(|(bound, values)| Instance { bound: *bound, name: names[*bound], values })
            .collect();
        match self.handler.as_report().unwrap().report(&instances) {
            Reply::Ready(Ok(())) => String::new(),
            Reply::Ready(Err(error)) => error.message,
            Reply::Later(_) => panic!("no report waits"),
        }
    }

    async fn datagram(&self) -> String {
        let mut buffer = [0; 2000];
        let received = tokio::time::timeout(Duration::from_secs(60), self.receiver.recv(&mut buffer)).await;
        String::from_utf8_lossy(&buffer[..received.unwrap().unwrap()]).into_owned()
    }
}

#[tokio::test]
async fn values_become_lines_by_type() {
    let all = |kind: MetricType| [("a.instance.ns".to_owned(), info(kind, ""))].into();
    for (kind, value, line) in [
        (MetricType::Counter, Value::Int64(7), "a.instance.ns:7|c"),
        (MetricType::Gauge, Value::Int64(-5), "a.instance.ns:-5|g"),
        (MetricType::Distribution, Value::Int64(3), "a.instance.ns:3|c"),
        (
            MetricType::Distribution,
            Value::Duration(SignedDuration::from_nanos(1_500_000)),
            "a.instance.ns:1.5|ms",
        ),
        (
            MetricType::Distribution,
            Value::Duration(SignedDuration::from_nanos(1)),
            "a.instance.ns:0.000001|ms",
        ),
    ] {
        let params = Params { metrics: all(kind), ..Params::default() };
        let stage = Stage::start(params, &[metric("a.instance.ns", ValueType::Int64, &[])]).await;
        assert_eq!(stage.report(&[(0, &[Some(value)])]), "");
        assert_eq!(stage.datagram().await, line);
    }
}

#[tokio::test]
async fn values_of_other_types_are_errors_and_the_others_are_sent() {
    let metrics = [
        ("a.instance.ns".to_owned(), info(MetricType::Gauge, "")),
        ("b.instance.ns".to_owned(), info(MetricType::Unknown, "")),
    ];
    let params = Params { metrics: metrics.into(), prefix: "mesh".to_owned(), ..Params::default() };
    let instances = ["a.instance.ns", "b.instance.ns"].map(|name| metric(name, ValueType::Double, &[]));
    let stage = Stage::start(params, &instances).await;
    let error = stage.report(&[
        (0, &[Some(Value::Double(1.5))]),
        (0, &[Some(Value::Int64(1))]),
        (1, &[Some(Value::Int64(1))]),
    ]);
    let expected = "2 errors occurred:\n\t* could not record counter 'a.instance.ns' expected int value, got 1.5\n\
                    \t* unknown metric type 'UNKNOWN' for metric: b.instance.ns\n\n";
    assert_eq!(error, expected);
    assert_eq!(stage.datagram().await, "mesh.a.instance.ns:1|g");
}

#[tokio::test]
async fn a_name_is_made_from_dimensions_and_begins_no_other_line() {
    let metrics = [("a.instance.ns".to_owned(), info(MetricType::Counter, "{{.svc}}.{{or .code 0}}"))].into();
    let dimensions = [("code", ValueType::Int64), ("svc", ValueType::String)];
    let instance = metric("a.instance.ns", ValueType::Int64, &dimensions);
    let stage = Stage::start(Params { metrics, ..Params::default() }, &[instance]).await;
    let values = [Some(Value::Int64(1)), Some(Value::Int64(404)), Some(Value::String(b"web"))];
    assert_eq!(stage.report(&[(0, &values)]), "");
    assert_eq!(stage.datagram().await, "web.404:1|c");
    let forged = [Some(Value::Int64(1)), None, Some(Value::String(b"x\nforged:9|c\r"))];
    stage.report(&[(0, &forged)]);
    assert_eq!(stage.datagram().await, "x_forged_9_c_.0:1|c");
}

/// A daemon may read tags in a name: those of the template are sent, and none that a caller makes.
#[tokio::test]
async fn no_text_of_a_caller_begins_a_sample_rate_or_a_tag() {
    let template = "requests;svc={{.svc}},c={{or .code 0}}";
    let metrics = [
        ("a.instance.ns".to_owned(), info(MetricType::Counter, template)),
        ("b.instance.ns|#x:y".to_owned(), info(MetricType::Counter, "")),
    ];
    let dimensions = [("code", ValueType::Int64), ("svc", ValueType::String)];
    let instances =
        ["a.instance.ns", "b.instance.ns|#x:y"].map(|name| metric(name, ValueType::Int64, &dimensions));
    let params = Params { metrics: metrics.into(), prefix: "mesh|@0.1".to_owned(), ..Params::default() };
    let stage = Stage::start(params, &instances).await;
    for (svc, name) in [
        ("web", "web"),
        ("web|@0.01", "web_@0.01"),
        ("web:1|c|#admin:yes", "web_1_c__admin_yes"),
        ("web,admin=yes", "web_admin=yes"),
        ("web;admin=yes#a=b[c=d]", "web_admin=yes_a=b_c=d_"),
    ] {
        let values = [Some(Value::Int64(1)), None, Some(Value::String(svc.as_bytes()))];
        assert_eq!(stage.report(&[(0, &values)]), "");
        assert_eq!(stage.datagram().await, format!("mesh_@0.1.requests;svc={name},c=0:1|c"), "{svc}");
    }
    let values = [Some(Value::Int64(1)), None, None];
    let own = Instance { bound: 1, name: "b.instance.ns|#x:y", values: &values };
    assert!(matches!(stage.handler.as_report().unwrap().report(&[own]), Reply::Ready(Ok(()))));
    assert_eq!(stage.datagram().await, "mesh_@0.1.b.instance.ns__x_y:1|c");
}

#[tokio::test]
async fn a_part_of_the_values_is_sent_with_its_rate() {
    let metrics: BTreeMap<_, _> = [("a.instance.ns".to_owned(), info(MetricType::Counter, "n"))].into();
    let instance = metric("a.instance.ns", ValueType::Int64, &[]);
    let params = Params { metrics, sampling_rate: 0.5, ..Params::default() };
    let stage = Stage::start(params, &[instance]).await;
    let value = [Some(Value::Int64(1))];
    let many: Vec<(usize, &[Option<Value<'_>>])> = (0..1000).map(|_| (0, &value[..])).collect();
    assert_eq!(stage.report(&many), "");
    let mut lines = 0;
    stage.handler.close(Duration::from_secs(60)).await.unwrap();
    let mut buffer = [0; 2000];
    while let Ok(length) = stage.receiver.try_recv(&mut buffer) {
        let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
        assert!(text.len() <= 510 && text.lines().all(|line| line == "n:1|c|@0.500000"), "{text}");
        lines += text.lines().count();
    }
    assert!((300..700).contains(&lines), "{lines} of 1000");
}

#[test]
fn parameters_are_checked() {
    let invalid = Params {
        flush_duration: SignedDuration::from_secs(-1),
        flush_bytes: -1,
        sampling_rate: -0.5,
        metrics: [("a".to_owned(), info(MetricType::Counter, "{{.a"))].into(),
        address: "daemon".to_owned(),
        ..Params::default()
    };
    let expected = [
        "flushDuration: flush duration must be >= 0",
        "flushBytes: flush bytes must be >= 0",
        "samplingRate: sampling rate must be >= 0",
        "metricNameTemplateStrings: failed to parse template '{{.a' for metric 'a': template: a:1: unclosed action",
        "the handler will not be built: missing port in address",
    ];
    assert_eq!(problems::<Statsd>(&invalid), expected);
    assert!(problems::<Statsd>(&Params::default()).is_empty());
}
