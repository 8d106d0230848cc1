//! The parameters of the adapters that are built.

use std::time::Duration;

use mixer_attribute::{Timestamp, Value, ValueType};
use mixer_engine::adapter::{Adapter, BoundInstance, Handler, Instance, Leaf};
use tokio::time::Instant;

use crate::full::*;
use crate::testing::{bound, problems, test_env};

const LIMIT: Duration = Duration::from_millis(30);
/// Nobody listens there.
const NOWHERE: &str = "http://127.0.0.1:1";

/// A value for each leaf; texts are ids of traces as well.
fn values(instance: &BoundInstance) -> Vec<Option<Value<'static>>> {
    let value = |leaf: &Leaf| match leaf.value_type {
        ValueType::Int64 => Some(Value::Int64(7)),
        ValueType::Timestamp => Some(Value::Timestamp(Timestamp { seconds: 9, nanos: 0 })),
        ValueType::String => Some(Value::String(b"463ac35c9f6413ad")),
        _ => None,
    };
    instance.leaves.iter().map(value).collect()
}

fn instance(template: &str, leaves: &[(&str, ValueType)]) -> BoundInstance {
    let mut instance = bound("i.instance.ns", template, "", &[]);
    instance.leaves = leaves.iter().map(|(field, of)| Leaf::new(field, None, *of)).collect();
    instance
}

fn logentry() -> BoundInstance {
    instance("logentry", &[("timestamp", ValueType::Timestamp), ("severity", ValueType::String)])
}

fn metric() -> BoundInstance {
    instance("metric", &[("value", ValueType::Int64)])
}

fn tracespan() -> BoundInstance {
    let (text, time) = (ValueType::String, ValueType::Timestamp);
    instance("tracespan", &[("trace_id", text), ("span_id", text), ("start_time", time), ("end_time", time)])
}

/// Reports until an item is dropped. Returns whether a report has waited, and for how long the last one took.
async fn fill(handler: &dyn Handler, instance: &BoundInstance) -> (bool, Duration) {
    let values = values(instance);
    let mut has_waited = false;
    for _ in 0..10_000 {
        let instances = [Instance { bound: 0, name: &instance.name, values: &values }];
        let started = Instant::now();
        match handler.as_report().unwrap().report(&instances) {
            // Some adapters fail reports that are dropped.
            Reply::Ready(_) => {}
            Reply::Later(later) => {
                has_waited = true;
                let _ = later.await;
            }
        }
        let queues = handler.status().queues;
        if queues.iter().any(|queue| queue.dropped > 0) {
            return (has_waited, started.elapsed());
        }
    }
    panic!("nothing is dropped: {:?}", handler.status());
}

/// `params`: with one KiB of queue, to a backend that is away.
async fn obeys<A: Adapter>(
    instance: BoundInstance,
    default: WhenFull,
    params: impl Fn(WhenFull, SignedDuration) -> A::Params,
    of_default: fn(&A::Params) -> (WhenFull, SignedDuration),
) {
    let name = A::INFO.name;
    assert_eq!(of_default(&A::Params::default()), (default, HOLD_TIMEOUT), "{name}");
    let limit = SignedDuration::from_millis(LIMIT.as_millis() as i64);
    for when_full in [WhenFull::DropNewest, WhenFull::DropOldest, WhenFull::Hold] {
        let params = params(when_full, limit);
        let handler = A::build(params, vec![instance.clone()], test_env("h.ns")).await.unwrap();
        let (has_waited, took) = fill(&*handler, &instance).await;
        let holds = when_full == WhenFull::Hold;
        assert_eq!(has_waited, holds, "{name}: {when_full:?}");
        assert!(!holds || took >= LIMIT, "{name}: {took:?}");
        // A line that waited longest may leave more room than a new one takes.
        assert!(handler.status().queues.iter().all(|queue| queue.length <= 1024), "{name}");
        // What waits is lost.
        let _ = handler.close(Duration::ZERO).await;
    }
    let wrong = problems::<A>(&params(WhenFull::Hold, SignedDuration::from_secs(-1)));
    assert!(wrong.contains(&"holdTimeout: Duration must be positive".to_owned()), "{name}: {wrong:?}");
}

macro_rules! obeys {
    ($adapter:ty, $instance:expr, $default:ident, $params:ident { $($field:ident: $value:expr),* $(,)? }) => {
        obeys::<$adapter>(
            $instance,
            WhenFull::$default,
            |when_full, hold_timeout| $params { $($field: $value,)* when_full, hold_timeout, ..Default::default() },
            |params| (params.when_full, params.hold_timeout),
        )
        .await
    };
}

const NAME: &str = "i.instance.ns";

fn named<V: Default>() -> std::collections::BTreeMap<String, V> {
    [(NAME.to_owned(), V::default())].into()
}

#[tokio::test]
#[cfg(feature = "adapter-fluentd")]
async fn fluentd() {
    use crate::fluentd::{Fluentd, Params};
    obeys!(Fluentd, logentry(), DropNewest, Params { address: "127.0.0.1:1".into(), queue_kilobytes: 1 });
}

#[tokio::test]
#[cfg(feature = "adapter-zipkin")]
async fn zipkin() {
    use crate::zipkin::{Params, Zipkin};
    obeys!(
        Zipkin,
        tracespan(),
        DropOldest,
        Params { url: NOWHERE.into(), sample_probability: 1.0, queue_kilobytes: 1 }
    );
}

#[tokio::test]
#[cfg(feature = "adapter-signalfx")]
async fn signalfx() {
    use crate::signalfx::{Params, SignalFx};
    obeys!(
        SignalFx,
        tracespan(),
        DropNewest,
        Params { ingest_url: NOWHERE.into(), access_token: "t".into(), queue_kilobytes: 1 }
    );
}

#[tokio::test]
#[cfg(feature = "adapter-otlp")]
async fn otlp() {
    use crate::otlp::Otlp;
    use crate::otlp::params::{Params, Protocol};
    for instance in [logentry(), tracespan()] {
        obeys!(
            Otlp,
            instance,
            DropOldest,
            Params { endpoint: NOWHERE.into(), protocol: Protocol::HttpProtobuf, queue_kilobytes: 1 }
        );
    }
}

#[tokio::test]
#[cfg(feature = "adapter-cloudwatch")]
async fn cloudwatch() {
    use crate::cloudwatch::CloudWatch;
    use crate::cloudwatch::params::Params;
    for instance in [logentry(), metric()] {
        obeys!(
            CloudWatch,
            instance,
            DropOldest,
            Params {
                region: "r".into(),
                namespace: "n".into(),
                metrics_endpoint: NOWHERE.into(),
                logs_endpoint: NOWHERE.into(),
                instance_endpoint: NOWHERE.into(),
                metric_info: named(),
                logs: named(),
                queue_kilobytes: 1,
            }
        );
    }
}

#[tokio::test]
#[cfg(feature = "adapter-solarwinds")]
async fn solarwinds() {
    use crate::solarwinds::{Params, Protocol, Solarwinds};
    for instance in [logentry(), metric()] {
        obeys!(
            Solarwinds,
            instance,
            DropOldest,
            Params {
                papertrail_address: "127.0.0.1:1".into(),
                papertrail_protocol: Protocol::Tcp,
                appoptics_access_token: "t".into(),
                appoptics_url: NOWHERE.into(),
                logs: named(),
                metrics: named(),
                queue_kilobytes: 1,
            }
        );
    }
}

#[tokio::test]
#[cfg(feature = "adapter-stackdriver")]
async fn stackdriver() {
    use crate::stackdriver::Stackdriver;
    use crate::stackdriver::params::{Params, Trace};
    for instance in [logentry(), tracespan()] {
        obeys!(
            Stackdriver,
            instance,
            DropOldest,
            Params {
                endpoint: NOWHERE.into(),
                project_id: "p".into(),
                token_endpoint: NOWHERE.into(),
                metadata_endpoint: NOWHERE.into(),
                log_info: named(),
                trace: Some(Trace { sample_probability: 1.0 }),
                queue_kilobytes: 1,
            }
        );
    }
}

#[tokio::test]
#[cfg(feature = "adapter-servicecontrol")]
async fn servicecontrol() {
    use crate::servicecontrol::{Params, ServiceConfig, ServiceControl};
    let text = ValueType::String;
    let service = ServiceConfig {
        mesh_service_name: "463ac35c9f6413ad".into(),
        google_service_name: "s".into(),
        ..ServiceConfig::default()
    };
    obeys!(
        ServiceControl,
        instance(
            "servicecontrolreport",
            &[("api_service", text), ("api_operation", text), ("api_key", text)]
        ),
        DropOldest,
        Params {
            endpoint: NOWHERE.into(),
            metadata_endpoint: NOWHERE.into(),
            service_configs: vec![service.clone()],
            queue_kilobytes: 1,
        }
    );
}

/// A name that is never resolved.
#[cfg(any(feature = "adapter-statsd", feature = "adapter-dogstatsd"))]
const UNKNOWN: &str = "no-such-host.invalid:8125";

#[tokio::test]
#[cfg(feature = "adapter-statsd")]
async fn statsd() {
    use crate::statsd::{MetricInfo, MetricType, Params, Statsd};
    let info = MetricInfo { kind: MetricType::Counter, ..MetricInfo::default() };
    obeys!(
        Statsd,
        metric(),
        DropNewest,
        Params {
            address: UNKNOWN.into(),
            metrics: [(NAME.to_owned(), info.clone())].into(),
            queue_kilobytes: 1,
        }
    );
}

#[tokio::test]
#[cfg(feature = "adapter-dogstatsd")]
async fn dogstatsd() {
    use crate::dogstatsd::{DogStatsd, MetricInfo, MetricType, Params};
    let info = MetricInfo { kind: MetricType::Counter, name: "m".into(), ..MetricInfo::default() };
    obeys!(
        DogStatsd,
        metric(),
        DropNewest,
        Params {
            address: UNKNOWN.into(),
            metrics: [(NAME.to_owned(), info.clone())].into(),
            queue_kilobytes: 1,
        }
    );
}
