use std::time::Duration;

use mixer_attribute::{SignedDuration, Value};
use mixer_engine::adapter::{Instance, Leaf, Reply};
use tokio::net::UdpSocket;

use super::*;
use crate::testing::{bound, test_env};

fn metric(name: &str, value: ValueType, dimensions: &[(&str, ValueType)]) -> BoundInstance {
    let mut metric = bound(name, "metric", "dimensions", dimensions);
    let value = Leaf::new("value", None, value);
    metric.leaves = std::iter::once(value).chain(metric.leaves.iter().cloned()).collect();
    metric
}

fn info(name: &str, kind: MetricType, tags: &[(&str, &str)]) -> MetricInfo {
    let tags = tags.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    MetricInfo { name: name.to_owned(), kind, tags }
}

async fn sent(params: Params, instance: BoundInstance, values: &[Option<Value<'_>>]) -> Option<String> {
    let receiver = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let params = Params { address: receiver.local_addr().unwrap().to_string(), ..params };
    let name = instance.name.clone();
    let handler = DogStatsd::build(params, vec![instance], test_env("h.istio-system")).await.unwrap();
    let instances = [Instance { bound: 0, name: &name, values }];
    assert!(matches!(handler.as_report().unwrap().report(&instances), Reply::Ready(Ok(()))));
    handler.close(Duration::from_secs(60)).await.unwrap();
    let mut buffer = [0; 2000];
    let length = receiver.try_recv(&mut buffer).ok()?;
    Some(String::from_utf8_lossy(&buffer[..length]).into_owned())
}

#[tokio::test]
async fn values_become_lines_with_tags() {
    let dimensions = [("k", ValueType::String), ("z", ValueType::Int64)];
    let instance = metric("a.instance.ns", ValueType::Int64, &dimensions);
    let values =
        [Some(Value::Int64(7)), Some(Value::String(b"dimension\nwins,a:1|@9")), Some(Value::Int64(1))];
    let metrics = |kind| [("a.instance.ns".to_owned(), info("hits", kind, &[("k", "v"), ("t", "1")]))].into();
    let params = |kind| Params {
        metrics: metrics(kind),
        global_tags: [("env".to_owned(), "lab".to_owned())].into(),
        ..Params::default()
    };
    for (params, line) in [
        (params(MetricType::Counter), "istio.hits:7|c|#env:lab,t:1,k:dimensionwins_a:1_@9,z:1"),
        (
            Params { prefix: "foo".to_owned(), ..params(MetricType::Gauge) },
            "foo.hits:7.000000|g|#env:lab,t:1,k:dimensionwins_a:1_@9,z:1",
        ),
        (
            Params { prefix: String::new(), ..params(MetricType::Distribution) },
            ".hits:7.000000|h|#env:lab,t:1,k:dimensionwins_a:1_@9,z:1",
        ),
    ] {
        assert_eq!(sent(params, instance.clone(), &values).await.as_deref(), Some(line));
    }
}

#[tokio::test]
async fn a_timing_without_tags_and_the_rate() {
    let instance = metric("a.instance.ns", ValueType::Duration, &[]);
    let values = [Some(Value::Duration(SignedDuration::from_nanos(1_234_567)))];
    let metrics: BTreeMap<_, _> =
        [("a.instance.ns".to_owned(), info("lat", MetricType::Distribution, &[]))].into();
    let params = |sample_rate| Params { metrics: metrics.clone(), sample_rate, ..Params::default() };
    assert_eq!(sent(params(1.0), instance.clone(), &values).await.as_deref(), Some("istio.lat:1.234567|ms"));
    let almost = sent(params(0.999_999_999), instance.clone(), &values).await;
    assert_eq!(almost.as_deref(), Some("istio.lat:1.234567|ms|@0.999999999"));
    assert_eq!(sent(params(0.0), instance, &values).await, None);
}

#[tokio::test]
async fn no_text_of_the_configuration_begins_a_sample_rate_or_a_tag() {
    let info = info("hits|@0.1:9", MetricType::Counter, &[("k", "v,admin:yes|@2")]);
    let params = Params { metrics: [("a.instance.ns".to_owned(), info)].into(), ..Params::default() };
    let instance = metric("a.instance.ns", ValueType::Int64, &[("c|#d", ValueType::String)]);
    let values = [Some(Value::Int64(7)), Some(Value::String(b"x|#y"))];
    let line = "istio.hits_@0.1_9:7|c|#k:v_admin:yes_@2,c_#d:x_#y";
    assert_eq!(sent(params, instance, &values).await.as_deref(), Some(line));
}

#[test]
fn an_address_without_a_port_is_named() {
    let mut problems = Diagnostics::new();
    let params = Params { address: "agent".to_owned(), ..Params::default() };
    DogStatsd::validate(&params, &[], &mut problems);
    let found: Vec<String> = problems.into_iter().map(|problem| problem.message.clone()).collect();
    assert_eq!(found, ["address: Address is malformed: address agent: missing port in address"]);
}
