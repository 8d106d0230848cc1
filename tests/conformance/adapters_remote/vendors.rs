//! What the cases of paid services need: their answers, their addresses, and comparing what they are sent.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use prost::Message as _;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};

use super::sinks::{Answers, Sink};

/// What sinks of HTTP answer in a case.
pub(super) fn answers(id: &str, settings: &Value) -> Answers {
    let then = match id.split('/').next().unwrap_or_default() {
        "solarwinds" => "202 Accepted\n{}",
        "circonus" => "200 OK\n{\"stats\":3}",
        "signalfx" => "200 OK\n\"OK\"",
        _ => "202 Accepted",
    };
    let responds = settings.get("responds").and_then(Value::as_str).unwrap_or_default();
    let first = if responds.starts_with("503 to the first") { "503 Service Unavailable" } else { then };
    Answers { first, then }
}

/// A certificate for `localhost`, which is its own root.
pub(super) struct Identity {
    pub(super) server: Arc<rustls::ServerConfig>,
    certificate: String,
}

impl Identity {
    pub(super) fn new() -> Result<Self, String> {
        mixer_net::tls::install_crypto_provider();
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).map_err(|e| text(&e))?;
        let certificate = made.cert.pem();
        let chain = CertificateDer::from_pem_slice(certificate.as_bytes()).map_err(|e| text(&e))?;
        let key = PrivateKeyDer::from_pem_slice(made.signing_key.serialize_pem().as_bytes());
        let config = rustls::ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![chain], key.map_err(|e| text(&e))?);
        Ok(Self { server: Arc::new(config.map_err(|e| text(&e))?), certificate })
    }
}

/// A configuration that names its sinks where it has the fixed addresses of a service.
pub(super) fn redirected(
    text: String,
    sinks: &BTreeMap<String, Sink>,
    files: &Path,
) -> Result<String, String> {
    let mut text = text;
    if let Some(sink) = sinks.get("papertrail") {
        let own = "papertrailUrl: logs1.papertrailapp.com:19320";
        text = text.replace(own, &format!("{own}\n    papertrailAddress: 127.0.0.1:{}", sink.port));
    }
    if let Some((sink, identity)) = sinks.get("appoptics").and_then(|sink| Some((sink, sink.tls.as_ref()?))) {
        let file = files.join("ca.pem");
        std::fs::write(&file, &identity.certificate).map_err(|error| error.to_string())?;
        let own = "appopticsAccessToken: tok";
        let url = format!("https://localhost:{}/v1/measurements", sink.port);
        let more = format!("{own}\n    appopticsUrl: {url}\n    caFile: {}", file.display());
        text = text.replace(own, &more);
    }
    Ok(text)
}

/// A message as the cases have it.
pub(super) fn syslog(text: &str) -> Value {
    json!({ "pri": 6, "timestamp": "$rfc3339_seconds", "hostname": "$hostname", "tag": "istio", "pid": "$pid",
        "msg": text, "trailing": "\n" })
}

/// What the spans of the case `only-first-span-of-a-report` are altogether.
pub(super) fn all_spans() -> Value {
    let endpoint = |name: Option<&str>, address: &str| json!({ "serviceName": name, "ipv4": address, "ipv6": null, "port": null });
    let span = |id: &str| {
        json!({ "traceId": "463ac35c9f6413ad48485a3953bb6124", "name": "/", "parentId": null, "id": id, "kind": "SERVER",
            "timestamp": 1_551_434_400_000_000_u64, "duration": 1_234_568, "debug": null, "shared": null,
            "localEndpoint": endpoint(Some("unknown"), "0.0.0.0"), "remoteEndpoint": endpoint(None, "9.9.9.9"),
            "annotations": null,
            "tags": { "destination.ip": "9.9.9.9", "destination.labels.ver": "2", "ratio": "0.5", "size": "7",
                "source.ip": "0.0.0.0", "source.labels.app": "x", "source.name": "unknown" } })
    };
    let spans = ["a2fb4a1d1a96d312", "00000000000000aa", "00000000000000bb"].map(span);
    let headers = json!({ "content-type": "application/json", "x-sf-token": "tok" });
    let request = json!({ "method": "POST", "path": "/v1/trace", "headers": headers, "json": spans });
    json!({ "ingest": { "requests": [request] } })
}

/// The parts of a syslog message.
fn parts(datagram: &[u8]) -> Option<Value> {
    let text = std::str::from_utf8(datagram).ok()?;
    let (priority, rest) = text.strip_prefix('<')?.split_once('>')?;
    let mut words = rest.splitn(3, ' ');
    let (timestamp, hostname, rest) = (words.next()?, words.next()?, words.next()?);
    let (tag, rest) = rest.split_once('[')?;
    let (process, rest) = rest.split_once("]: ")?;
    let trailing = if rest.ends_with('\n') { "\n" } else { "" };
    Some(
        json!({ "pri": priority.parse::<u32>().ok()?, "timestamp": timestamp, "hostname": hostname, "tag": tag,
        "pid": process, "msg": rest.strip_suffix('\n').unwrap_or(rest), "trailing": trailing }),
    )
}

/// Compares messages, in any order.
pub(super) fn same_messages(datagrams: &[Vec<u8>], expected: &[Value]) -> Result<(), String> {
    let found: Vec<Option<Value>> = datagrams.iter().map(|datagram| parts(datagram)).collect();
    let differ = || format!("received {found:?}, want {expected:?}");
    same_set(found.iter().cloned().map(Option::unwrap_or_default).collect(), expected).map_err(|()| differ())
}

/// Compares the datapoints of a request, in any order, and the rest of it.
pub(super) fn same_datapoints(found: Option<&Value>, expected: Option<&Value>) -> Result<(), String> {
    let list = |request: Option<&Value>| {
        request.and_then(|request| request.get("datapoints")?.as_array().cloned()).unwrap_or_default()
    };
    let differ = || format!("received {found:?}, want {expected:?}");
    for key in ["method", "path", "headers"] {
        if found.and_then(|found| found.get(key)) != expected.and_then(|expected| expected.get(key)) {
            return Err(differ());
        }
    }
    same_set(list(found), &list(expected)).map_err(|()| differ())
}

fn same_set(mut found: Vec<Value>, expected: &[Value]) -> Result<(), ()> {
    for one in expected {
        let at = found.iter().position(|found| is_like(found, one)).ok_or(())?;
        found.remove(at);
    }
    if found.is_empty() { Ok(()) } else { Err(()) }
}

/// Whether a value is the expected one, in which texts with `$` stand for others.
pub(super) fn is_like(found: &Value, expected: &Value) -> bool {
    match (found, expected) {
        (found, Value::String(text)) if text == "$volatile" => !found.is_null(),
        (Value::Number(millis), Value::String(text)) if text == "$now_ms" => {
            millis.as_i64().is_some_and(|millis| is_recent(millis / 1000))
        }
        (Value::String(found), Value::String(text)) => match text.as_str() {
            "$rfc3339_seconds" => is_time(found),
            "$hostname" => !found.is_empty(),
            "$pid" => found.parse::<u32>().is_ok(),
            text => match text.split_once("$now") {
                Some((before, after)) => found
                    .strip_prefix(before)
                    .and_then(|found| found.strip_suffix(after))
                    .is_some_and(is_time),
                None => found == text,
            },
        },
        (Value::Number(found), Value::Number(expected)) => found.as_f64() == expected.as_f64(),
        (Value::Array(found), Value::Array(expected)) => {
            found.len() == expected.len() && found.iter().zip(expected).all(|(a, b)| is_like(a, b))
        }
        (Value::Object(found), Value::Object(expected)) => {
            found.len() == expected.len()
                && expected.iter().all(|(key, b)| found.get(key).is_some_and(|a| is_like(a, b)))
        }
        (found, expected) => found == expected,
    }
}

fn is_recent(seconds: i64) -> bool {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    (now.as_secs() as i64 - seconds).abs() < 600
}

/// Whether a text is a time of now, in whole seconds.
fn is_time(text: &str) -> bool {
    let time = mixer_base::time::Timestamp::parse_rfc3339(text);
    text.len() == "2026-01-01T00:00:00Z".len() && time.is_ok_and(|time| is_recent(time.seconds))
}

/// `com.signalfx.metrics.protobuf.DataPointUploadMessage`, as the vendor defines it.
#[derive(Clone, PartialEq, prost::Message)]
struct Upload {
    #[prost(message, repeated, tag = "1")]
    datapoints: Vec<DataPoint>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct DataPoint {
    #[prost(string, optional, tag = "1")]
    source: Option<String>,
    #[prost(string, optional, tag = "2")]
    metric: Option<String>,
    #[prost(int64, optional, tag = "3")]
    timestamp: Option<i64>,
    #[prost(message, optional, tag = "4")]
    value: Option<Datum>,
    #[prost(int32, optional, tag = "5")]
    metric_type: Option<i32>,
    #[prost(message, repeated, tag = "6")]
    dimensions: Vec<Dimension>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Datum {
    #[prost(string, optional, tag = "1")]
    text: Option<String>,
    #[prost(double, optional, tag = "2")]
    double: Option<f64>,
    #[prost(int64, optional, tag = "3")]
    int: Option<i64>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Dimension {
    #[prost(string, optional, tag = "1")]
    key: Option<String>,
    #[prost(string, optional, tag = "2")]
    value: Option<String>,
}

/// The datapoints of a request, as the cases have them. What is none differs from what is expected.
pub(super) fn datapoints(body: &[u8], is_compressed: bool) -> Value {
    let mut bytes = Vec::new();
    if is_compressed {
        let read = flate2::read::GzDecoder::new(body).read_to_end(&mut bytes);
        if let Err(error) = read {
            return error.to_string().into();
        }
    } else {
        bytes = body.to_vec();
    }
    let upload = match Upload::decode(bytes.as_slice()) {
        Ok(upload) => upload,
        Err(error) => return error.to_string().into(),
    };
    let point = |point: DataPoint| {
        let datum = point.value.unwrap_or_default();
        let mut value = serde_json::Map::new();
        value.extend(datum.text.map(|text| ("strValue".to_owned(), text.into())));
        value.extend(datum.double.map(|double| ("doubleValue".to_owned(), double.into())));
        value.extend(datum.int.map(|int| ("intValue".to_owned(), int.into())));
        let kinds = ["GAUGE", "COUNTER", "ENUM", "CUMULATIVE_COUNTER"];
        let kind = point.metric_type.and_then(|kind| kinds.get(usize::try_from(kind).ok()?));
        let dimensions: serde_json::Map<String, Value> = point
            .dimensions
            .into_iter()
            .map(|one| (one.key.unwrap_or_default(), one.value.unwrap_or_default().into()))
            .collect();
        let mut all = json!({ "metric": point.metric, "timestamp": point.timestamp, "value": value,
            "metricType": kind, "dimensions": dimensions });
        if let (Some(source), Some(all)) = (point.source, all.as_object_mut()) {
            all.insert("source".to_owned(), source.into());
        }
        all
    };
    upload.datapoints.into_iter().map(point).collect()
}
