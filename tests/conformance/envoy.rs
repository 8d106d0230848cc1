//! The `envoy` suite: captured messages of Envoy are mapped to the expected attributes. Its README.md states the schema.

use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bumpalo::Bump;
use mixer_attribute::{AttributeBag, OwnedAttributes, OwnedValue, SignedDuration, Timestamp, Vocabulary};
use mixer_config::store;
use mixer_engine::snapshot::{Snapshot, SnapshotBuilder, SnapshotOptions};
use mixer_envoy::{
    AttributePlan, Attributes, ConnectionCounters, EntryOutcome, EnvoyConfig, LogIdentity, LogMessage,
    RateLimitRequest, set_check_request, set_descriptor, set_entry,
};
use prost::Message as _;
use serde_json::Value as Json;

use crate::case::{Case, selected};

/// Runs the captures in `dir` whose name contains the filter.
pub(crate) fn run(dir: &Path, filter: Option<&str>) -> Vec<Case> {
    let suite = match Suite::new() {
        Ok(suite) => suite,
        Err(error) => return vec![Case::new("manifest", Err(error))],
    };
    let mut files: Vec<_> = std::fs::read_dir(dir.join("captures"))
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .collect();
    files.sort();
    let mut cases = Vec::new();
    for path in files {
        let id = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if !selected(&id, filter) {
            continue;
        }
        let capture = std::fs::read_to_string(&path)
            .map_err(|error| error.to_string())
            .and_then(|text| serde_json::from_str::<Json>(&text).map_err(|error| error.to_string()));
        cases.push(Case::new(id, capture.and_then(|capture| suite.capture(&capture))));
    }
    cases
}

/// The standard manifest and the default settings.
struct Suite {
    snapshot: std::sync::Arc<Snapshot>,
}

impl Suite {
    fn new() -> Result<Self, String> {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/config");
        let store = store::open(&format!("fs://{}", manifest.display())).map_err(|e| e.to_string())?;
        let mut builder = SnapshotBuilder::new(SnapshotOptions::new(mixer_server::REGISTRY));
        Ok(Self { snapshot: builder.build(&store.load()) })
    }

    fn vocabulary(&self) -> &Vocabulary {
        &self.snapshot.vocabulary
    }

    fn config(&self) -> &EnvoyConfig {
        mixer_envoy::config_of(&self.snapshot)
    }

    /// Every message of a capture, in order.
    fn capture(&self, capture: &Json) -> Result<(), String> {
        let mut counters = ConnectionCounters::new(100, Duration::from_secs(3600));
        for (index, message) in list(&capture["captures"]).enumerate() {
            let method = message["method"].as_str().unwrap_or_default();
            let at = |error: String| format!("message {index} ({method}): {error}");
            let body = || STANDARD.decode(text(&message["request_b64"])).map_err(|e| at(e.to_string()));
            let expected: Vec<&Json> = list(&message["expected"]).collect();
            let found = match method.rsplit('/').next().unwrap_or_default() {
                "Check" => self.check(&body()?, message),
                "StreamAccessLogs" => self.logs(&body()?, message, &mut counters),
                "ShouldRateLimit" => self.descriptors(&body()?),
                "HTTP" | "Export" if expected.is_empty() => continue,
                _ => Err("unknown method".to_owned()),
            }
            .map_err(at)?;
            if found.len() != expected.len() {
                return Err(at(format!("{} results, {} expected", found.len(), expected.len())));
            }
            for (number, (found, expected)) in found.iter().zip(expected).enumerate() {
                compare(found, expected).map_err(|error| at(format!("result {number}: {error}")))?;
            }
        }
        Ok(())
    }

    fn check(&self, body: &[u8], message: &Json) -> Result<Vec<Found>, String> {
        let metadata: Vec<(&str, &[u8])> = message["grpc_metadata"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, value)| (name.as_str(), text(value).as_bytes()))
            .collect();
        let arena = Bump::new();
        let plan = AttributePlan::complete(self.vocabulary());
        let mut out = Attributes::new(&plan, &arena);
        let now = Timestamp { seconds: 1, nanos: 0 };
        set_check_request(body, &metadata, now, self.config(), &mut out).map_err(|e| e.to_string())?;
        agree(&out, self.vocabulary())?;
        let mut attributes = out.to_owned_attributes();
        if attributes.get("context.protocol") == Some(&OwnedValue::from("tcp")) {
            attributes.remove("context.time");
        }
        Ok(vec![Found { attributes: Some(attributes), charge: None }])
    }

    fn logs(
        &self,
        body: &[u8],
        message: &Json,
        counters: &mut ConnectionCounters,
    ) -> Result<Vec<Found>, String> {
        let arena = Bump::new();
        let plan = AttributePlan::complete(self.vocabulary());
        let read = LogMessage::read(body, usize::MAX).map_err(|e| e.to_string())?;
        let kept = identifier(message.pointer("/stream/identifier").unwrap_or(&Json::Null)).encode_to_vec();
        let identity =
            LogIdentity::read(read.identifier.unwrap_or(&kept)).map_err(|error| error.to_string())?;
        let mut found = Vec::new();
        for entry in read.entries() {
            let mut out = Attributes::new(&plan, &arena);
            let set = set_entry(entry, &identity, self.config(), counters, &mut out)
                .map_err(|error| error.to_string())?;
            agree(&out, self.vocabulary())?;
            let attributes = (set != EntryOutcome::Ignored).then(|| out.to_owned_attributes());
            found.push(Found { attributes, charge: None });
        }
        Ok(found)
    }

    fn descriptors(&self, body: &[u8]) -> Result<Vec<Found>, String> {
        let arena = Bump::new();
        let plan = AttributePlan::complete(self.vocabulary());
        let request = RateLimitRequest::read(body, &arena).map_err(|error| error.to_string())?;
        let mut found = Vec::new();
        for descriptor in request.descriptors {
            let mut out = Attributes::new(&plan, &arena);
            set_descriptor(request.domain, descriptor, self.config(), &mut out);
            agree(&out, self.vocabulary())?;
            let attributes = Some(out.to_owned_attributes());
            found.push(Found { attributes, charge: Some(descriptor.charge) });
        }
        Ok(found)
    }
}

/// The result of a request, entry or descriptor.
struct Found {
    /// `None` when it is not reported.
    attributes: Option<OwnedAttributes>,
    charge: Option<i64>,
}

/// Compares the bag, by name and by slot, with the attributes that were set.
fn agree(out: &Attributes<'_>, vocabulary: &Vocabulary) -> Result<(), String> {
    let owned = out.to_owned_attributes();
    let bag = out.bag();
    if OwnedAttributes::from_bag(&bag) != owned {
        return Err(format!("the bag shows {bag:?}, not {owned:?}"));
    }
    by_slot(&bag, &owned, vocabulary)
}

fn by_slot(bag: &AttributeBag<'_>, owned: &OwnedAttributes, vocabulary: &Vocabulary) -> Result<(), String> {
    for (name, wanted) in owned.iter() {
        let Some(slot) = vocabulary.slot(name) else { continue };
        let found = bag.get(slot).map(OwnedValue::from);
        if found.as_ref() != Some(wanted) {
            return Err(format!("{}: {found:?} by slot, not {wanted:?}", String::from_utf8_lossy(name)));
        }
    }
    Ok(())
}

fn compare(found: &Found, expected: &Json) -> Result<(), String> {
    if expected["ignored"] == Json::Bool(true) {
        return if found.attributes.is_none() { Ok(()) } else { Err("reported, not ignored".to_owned()) };
    }
    let attributes = found.attributes.as_ref().ok_or("ignored, not reported")?;
    if let Some(charge) = expected.get("charge") {
        let charge = charge.as_i64().or_else(|| text(charge).parse().ok());
        if charge != found.charge {
            return Err(format!("charge {:?}, expected {charge:?}", found.charge));
        }
    }
    let wanted: OwnedAttributes = expected["attributes"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, value)| {
            Ok((name.as_bytes(), value_of(value).ok_or_else(|| format!("{name}: {value}?"))?))
        })
        .collect::<Result<Vec<_>, String>>()?
        .into_iter()
        .collect();
    let mut differences = Vec::new();
    for (name, value) in wanted.iter() {
        if attributes.get(name) != Some(value) {
            let name = String::from_utf8_lossy(name);
            differences.push(format!("{name} is {:?}, expected {value:?}", attributes.get(name.as_bytes())));
        }
    }
    for (name, value) in attributes.iter() {
        if wanted.get(name).is_none() {
            differences.push(format!("{} is {value:?}, expected none", String::from_utf8_lossy(name)));
        }
    }
    if differences.is_empty() { Ok(()) } else { Err(differences.join("; ")) }
}

/// The JSON form of `istio.mixer.v1.Attributes.AttributeValue`.
fn value_of(json: &Json) -> Option<OwnedValue> {
    let (kind, value) = json.as_object()?.iter().next()?;
    Some(match kind.as_str() {
        "string_value" => OwnedValue::from(value.as_str()?),
        "int64_value" => OwnedValue::Int64(value.as_i64().or_else(|| value.as_str()?.parse().ok())?),
        "double_value" => OwnedValue::Double(value.as_f64()?),
        "bool_value" => OwnedValue::Bool(value.as_bool()?),
        "bytes_value" => OwnedValue::Bytes(STANDARD.decode(value.as_str()?).ok()?),
        "timestamp_value" => OwnedValue::Timestamp(Timestamp::parse_rfc3339(value.as_str()?).ok()?),
        "duration_value" => OwnedValue::Duration(SignedDuration::parse(value.as_str()?).ok()?),
        "string_map_value" => {
            let entries = value["entries"].as_object()?.iter();
            OwnedValue::StringMap(
                entries.map(|(key, value)| (key.clone().into_bytes(), text(value).into())).collect(),
            )
        }
        _ => return None,
    })
}

fn list(json: &Json) -> impl Iterator<Item = &Json> {
    json.as_array().into_iter().flatten()
}

fn text(json: &Json) -> &str {
    json.as_str().unwrap_or_default()
}

/// The used part of `StreamAccessLogsMessage.Identifier`.
#[derive(Clone, PartialEq, prost::Message)]
struct Identifier {
    #[prost(message, optional, tag = "1")]
    node: Option<Node>,
    #[prost(string, tag = "2")]
    log_name: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Node {
    #[prost(string, tag = "1")]
    id: String,
    #[prost(string, tag = "2")]
    cluster: String,
    #[prost(message, optional, tag = "3")]
    metadata: Option<prost_types::Struct>,
    #[prost(message, optional, tag = "8")]
    build: Option<Build>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Build {
    #[prost(message, optional, tag = "1")]
    version: Option<Version>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Version {
    #[prost(uint32, tag = "1")]
    major: u32,
    #[prost(uint32, tag = "2")]
    minor: u32,
    #[prost(uint32, tag = "3")]
    patch: u32,
}

/// The identifier of a stream from its JSON form.
fn identifier(json: &Json) -> Identifier {
    let node = &json["node"];
    let number = |json: &Json| json.as_u64().and_then(|n| u32::try_from(n).ok()).unwrap_or(0);
    let version = node.pointer("/user_agent_build_version/version").unwrap_or(&Json::Null);
    Identifier {
        log_name: text(&json["log_name"]).to_owned(),
        node: node.is_object().then(|| Node {
            id: text(&node["id"]).to_owned(),
            cluster: text(&node["cluster"]).to_owned(),
            metadata: node["metadata"].is_object().then(|| structure(&node["metadata"])),
            build: version.is_object().then(|| Build {
                version: Some(Version {
                    major: number(&version["major_number"]),
                    minor: number(&version["minor_number"]),
                    patch: number(&version["patch"]),
                }),
            }),
        }),
    }
}

fn structure(json: &Json) -> prost_types::Struct {
    let fields = json.as_object().into_iter().flatten();
    prost_types::Struct { fields: fields.map(|(key, value)| (key.clone(), any(value))).collect() }
}

fn any(json: &Json) -> prost_types::Value {
    use prost_types::value::Kind;
    let kind = match json {
        Json::Null => Kind::NullValue(0),
        Json::Bool(truth) => Kind::BoolValue(*truth),
        Json::Number(number) => Kind::NumberValue(number.as_f64().unwrap_or_default()),
        Json::String(text) => Kind::StringValue(text.clone()),
        Json::Array(items) => {
            Kind::ListValue(prost_types::ListValue { values: items.iter().map(any).collect() })
        }
        Json::Object(_) => Kind::StructValue(structure(json)),
    };
    prost_types::Value { kind: Some(kind) }
}
