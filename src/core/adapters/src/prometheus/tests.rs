use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::testing::{TestClock, test_env};
use mixer_attribute::{Timestamp, Value, ValueType};
use mixer_base::budget::{MemoryBudget, Purpose};
use mixer_config::{Node, NodeKind};
use mixer_engine::adapter::{HandlerError, Instance, Leaf, Reply};
use mixer_engine::template;

mod bounds;
mod params;
mod registration;
mod values;

/// An instance of the metric template with a value and dimensions; its values are the value, then those of the dimensions in
/// byte order.
fn metric(name: &str, dimensions: &[&str]) -> BoundInstance {
    let leaf = |field, key: Option<&str>| Leaf::new(field, key, ValueType::String);
    let mut leaves = vec![leaf("value", None)];
    leaves.extend(dimensions.iter().map(|key| leaf("dimensions", Some(key))));
    BoundInstance {
        name: format!("{name}.instance.istio-system").into(),
        template: template::find("metric").unwrap(),
        leaves: leaves.into(),
        messages: Vec::new(),
        plan: None,
        read_outputs: Arc::default(),
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
