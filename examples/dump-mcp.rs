//! Prints what a source of the Mesh Configuration Protocol serves: a line of JSON a resource, sorted. Versions are left out unless asked for.
//!
//! `cargo run --example dump-mcp -- ADDRESS [--versions] [--normalized]`; `tools/peers-galley` compares two sources with it. Normalized, members
//! of Kubernetes' objects without a value are left out, which Istio Galley sends and which mean the same, and the annotations of service
//! entries have the names that its first processor gives them, without versions of files.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result};
use mixer_mcp::message::{RequestResources, Resource, Resources, SinkNode};
use serde_json::{Value, json};
use tokio_stream::StreamExt as _;
use tonic::transport::Endpoint;
use tonic_prost::ProstCodec;

const STREAM: &str = "/istio.mcp.v1alpha1.ResourceSource/EstablishResourceStream";
/// How long an answer may take. A source does not answer before it has read everything.
const ANSWER: Duration = Duration::from_secs(60);
/// A collection that is not published is not answered.
const SILENCE: Duration = Duration::from_secs(3);
/// Largest message, in bytes.
const MAX_MESSAGE: usize = 1 << 30;

fn main() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let dumped = runtime.map_err(Into::into).and_then(|runtime| runtime.block_on(dump()));
    match dumped {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "dump-mcp: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn dump() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let address = arguments.first().context("the address of a source is missing")?;
    let is_given = |flag: &str| arguments.iter().any(|argument| argument == flag);
    let (with_versions, is_normalized) = (is_given("--versions"), is_given("--normalized"));
    let endpoint = Endpoint::from_shared(format!("http://{address}"))?;
    let mut out = std::io::stdout().lock();
    let mut limit = ANSWER;
    for kind in mixer_schema::kinds() {
        let name = kind.collection;
        match ask(&endpoint, name, limit).await? {
            Answer::Message(message) => {
                limit = SILENCE;
                if with_versions {
                    writeln!(out, "{name} {}", json!({ "version": message.system_version_info }))?;
                }
                let mut lines = BTreeMap::new();
                for resource in &message.resources {
                    let (resource_name, mut shown) = shown(resource, with_versions)?;
                    if is_normalized {
                        normalize(name, &mut shown);
                    }
                    if name == mixer_schema::MESH_CONFIG
                        && let Some(members) = shown.as_object_mut()
                    {
                        // The start of the process.
                        members.remove("createTime");
                    }
                    lines.insert(resource_name, shown);
                }
                for (resource, shown) in lines {
                    writeln!(out, "{name} {resource} {shown}")?;
                }
            }
            Answer::Refused(why) => writeln!(out, "{name}: refused: {why}")?,
            Answer::Nothing => writeln!(out, "{name}: not answered")?,
        }
    }
    Ok(())
}

/// What comes of a request for a collection.
enum Answer {
    Message(Resources),
    Refused(String),
    Nothing,
}

async fn ask(endpoint: &Endpoint, collection: &str, limit: Duration) -> Result<Answer> {
    let mut client =
        tonic::client::Grpc::new(endpoint.connect().await?).max_decoding_message_size(MAX_MESSAGE);
    client.ready().await?;
    let request = RequestResources {
        sink_node: Some(SinkNode { id: "dump".to_owned(), ..SinkNode::default() }),
        collection: collection.to_owned(),
        ..RequestResources::default()
    };
    // The requests do not end before there is an answer.
    let requests = tokio_stream::once(request).chain(tokio_stream::pending());
    let path = http::uri::PathAndQuery::from_static(STREAM);
    let codec = ProstCodec::<RequestResources, Resources>::default();
    let answered = async {
        let mut messages = client.streaming(tonic::Request::new(requests), path, codec).await?.into_inner();
        messages.message().await
    };
    Ok(match tokio::time::timeout(limit, answered).await {
        Err(_) => Answer::Nothing,
        Ok(Ok(Some(message))) => Answer::Message(message),
        Ok(Ok(None)) => Answer::Refused("the stream has ended".to_owned()),
        Ok(Err(status)) => Answer::Refused(format!("{:?}: {}", status.code(), status.message())),
    })
}

fn shown(resource: &Resource, with_versions: bool) -> Result<(String, Value)> {
    let metadata = resource.metadata.clone().unwrap_or_default();
    let any = resource.body.clone().unwrap_or_default();
    let body = mixer_schema::to_json(&any.type_url, &any.value)
        .map_err(|error| anyhow::anyhow!("{}: {error}", metadata.name))?;
    let mut shown = json!({
        // Year 1 stands for no time.
        "createTime": metadata.create_time.map(|time| time.seconds).filter(|seconds| *seconds != -62_135_596_800),
        "labels": metadata.labels.into_iter().collect::<BTreeMap<_, _>>(),
        "annotations": metadata.annotations.into_iter().collect::<BTreeMap<_, _>>(),
        "typeUrl": any.type_url,
        "body": body,
    });
    if with_versions && let Some(members) = shown.as_object_mut() {
        members.insert("version".to_owned(), metadata.version.into());
    }
    Ok((metadata.name, shown))
}

/// Leaves out what two sources may say differently.
fn normalize(collection: &str, shown: &mut Value) {
    if collection.starts_with("k8s/")
        && let Some(body) = shown.get_mut("body")
    {
        without_nothing(body);
    }
    if collection == mixer_schema::SYNTHETIC_SERVICE_ENTRIES
        && let Some(annotations) = shown.get_mut("annotations").and_then(Value::as_object_mut)
    {
        for name in ["serviceVersion", "endpointsVersion", "notReadyEndpoints"] {
            let (second, first) =
                (format!("networking.istio.io/{name}"), format!("networking.alpha.istio.io/{name}"));
            let Some(value) = annotations.remove(&second).or_else(|| annotations.remove(&first)) else {
                continue;
            };
            // Versions of files count what the process has read.
            let number = value.as_str().and_then(|text| text.strip_prefix('v'));
            let is_counted = number.is_some_and(|number| number.parse::<u64>().is_ok());
            annotations.insert(first, if is_counted { json!("v") } else { value });
        }
        let sorted: BTreeMap<String, Value> = std::mem::take(annotations).into_iter().collect();
        annotations.extend(sorted);
    }
}

/// Removes members that have the value of a field that is not set.
fn without_nothing(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.values_mut().for_each(without_nothing);
            let is_nothing = |member: &Value| {
                matches!(member.as_str(), Some("" | "0")) || *member == json!(0) || *member == json!(false)
            };
            members.retain(|_, member| !is_nothing(member));
        }
        Value::Array(items) => items.iter_mut().for_each(without_nothing),
        _ => {}
    }
}
