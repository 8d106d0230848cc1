//! Transcripts of golden cases: one stream of a sink to a source that serves MCP.
//!
//! The interpreter is the sink. What changes the source (another configuration, a snapshot) is an [`Action`] that the caller carries out,
//! so that one interpreter serves a source in the process and the whole binary. testdata/conformance/galley/README.md has the steps.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::pin::Pin;
use std::time::Duration;

use mixer_mcp::message::google::protobuf::Any;
use mixer_mcp::message::google::rpc;
use mixer_mcp::message::{RequestResources, Resources, SinkNode};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::codec::Streaming;
use tonic::transport::Endpoint;
use tonic::{Request, Status};

/// The method of sources.
const METHOD: &str = "/istio.mcp.v1alpha1.ResourceSource/EstablishResourceStream";
/// How long a message may take, on a machine that is busy.
const DEADLINE: Duration = Duration::from_secs(30);

/// What the caller does to the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    /// The configuration is replaced by that of a step, and loaded again.
    Replace(String),
    /// A snapshot of the collection: its version, and names and versions of the resources.
    SetSnapshot(String, Vec<(String, String)>),
    /// The snapshot is dropped.
    Clear,
    /// The status of the watches is dropped.
    ClearStatus,
}

/// Carries out an action. Requests that were sent before may not have arrived yet.
pub(crate) type Act<'a> = &'a mut dyn FnMut(Action) -> Acting;

/// An action that is under way. Errors: what could not be done.
pub(crate) type Acting = Pin<Box<dyn Future<Output = Result<(), String>>>>;

/// Compares a body with the JSON that is expected of it. Errors: the difference, or what is no body.
pub(crate) type Bodies<'b> = &'b dyn Fn(&Value, &Any) -> Result<(), String>;

/// Plays a transcript against the source at `address`.
///
/// Errors: the number of the step, and the difference.
pub(crate) async fn play(
    address: SocketAddr,
    transcript: &[Value],
    bodies: Bodies<'_>,
    act: Act<'_>,
) -> Result<(), String> {
    let mut player = Player::connect(address, bodies).await?;
    for (index, step) in transcript.iter().enumerate() {
        let (kind, value) = step.as_object().and_then(|step| step.iter().next()).ok_or("an empty step")?;
        let played = player.step(kind, value, act).await;
        played.map_err(|why| format!("step {}, {kind}: {why}", index + 1))?;
    }
    Ok(())
}

struct Player<'b> {
    requests: Option<mpsc::Sender<RequestResources>>,
    headers: tonic::metadata::MetadataMap,
    messages: Streaming<Resources>,
    bodies: Bodies<'b>,
    /// What the symbols of versions stand for.
    versions: BTreeMap<String, String>,
}

impl<'b> Player<'b> {
    async fn connect(address: SocketAddr, bodies: Bodies<'b>) -> Result<Self, String> {
        let endpoint = Endpoint::from_shared(format!("http://{address}")).map_err(|e| e.to_string())?;
        let channel = endpoint.connect().await.map_err(|error| error.to_string())?;
        let mut client = tonic::client::Grpc::new(channel);
        client.ready().await.map_err(|error| error.to_string())?;
        let (requests, outgoing) = mpsc::channel(16);
        let codec = tonic_prost::ProstCodec::<RequestResources, Resources>::default();
        let path = http::uri::PathAndQuery::from_static(METHOD);
        let call = client.streaming(Request::new(ReceiverStream::new(outgoing)), path, codec);
        // The headers come before any request.
        let response = within(call).await?.map_err(|status| status.to_string())?;
        Ok(Self {
            requests: Some(requests),
            headers: response.metadata().clone(),
            messages: response.into_inner(),
            bodies,
            versions: BTreeMap::new(),
        })
    }

    async fn step(&mut self, kind: &str, value: &Value, act: Act<'_>) -> Result<(), String> {
        match kind {
            "send" => {
                let requests = self.requests.as_ref().ok_or("the requests are closed")?;
                requests.send(request(value)).await.map_err(|_| "the stream has ended".to_owned())
            }
            "expect" => {
                let message = within(self.messages.message()).await?.map_err(|status| status.to_string())?;
                self.compare(value, message.ok_or("the stream has ended")?)
            }
            "expectNothing" => {
                let pause = Duration::from_millis(value.as_u64().ok_or("no milliseconds")?);
                match tokio::time::timeout(pause, self.messages.message()).await {
                    Err(_) => Ok(()),
                    Ok(arrived) => Err(format!("arrived: {arrived:?}")),
                }
            }
            "expectClosed" => self.expect_closed(value).await,
            "expectHeader" => self.expect_headers(value),
            "closeSend" => {
                self.requests = None;
                Ok(())
            }
            "replace" => act(Action::Replace(text(value))).await,
            "setSnapshot" => {
                let named = pairs(&value["resources"]);
                act(Action::SetSnapshot(text(&value["version"]), named)).await
            }
            "clear" => act(Action::Clear).await,
            "clearstatus" => act(Action::ClearStatus).await,
            other => Err(format!("unknown step `{other}`")),
        }
    }

    fn compare(&mut self, expected: &Value, message: Resources) -> Result<(), String> {
        if let Some(collection) = expected.get("collection") {
            equal("collection", &text(collection), &message.collection)?;
        }
        equal("nonce", &text(&expected["nonce"]), &message.nonce)?;
        equal("incremental", &expected["incremental"], &Value::Bool(message.incremental))?;
        let removed = expected["removed"].as_array().into_iter().flatten().map(text).collect::<BTreeSet<_>>();
        equal("removed", &removed, &message.removed_resources.iter().cloned().collect())?;
        match &expected["resources"] {
            Value::Object(bodies) => {
                let mut found = BTreeMap::new();
                for resource in &message.resources {
                    let name = resource.metadata.clone().unwrap_or_default().name;
                    let body = resource.body.as_ref().ok_or_else(|| format!("`{name}` has no body"))?;
                    if found.insert(name.clone(), body).is_some() {
                        return Err(format!("`{name}` is there twice"));
                    }
                }
                let names: BTreeSet<&String> = bodies.keys().collect();
                equal("resources", &names, &found.keys().collect())?;
                for (name, expected) in bodies {
                    let body = found.get(name).ok_or("no body")?;
                    (self.bodies)(expected, body).map_err(|why| format!("`{name}`{why}"))?;
                }
                self.compare_symbol(&text(&expected["version"]), &message.system_version_info)
            }
            list => {
                let found = message.resources.iter().map(|resource| {
                    let metadata = resource.metadata.clone().unwrap_or_default();
                    (metadata.name, metadata.version)
                });
                let (mut expected_pairs, mut found) = (pairs(list), found.collect::<Vec<_>>());
                expected_pairs.sort();
                found.sort();
                equal("resources", &expected_pairs, &found)?;
                equal("version", &text(&expected["version"]), &message.system_version_info)
            }
        }
    }

    /// Equal symbols stand for equal versions, different ones for different ones.
    fn compare_symbol(&mut self, symbol: &str, version: &str) -> Result<(), String> {
        if let Some(known) = self.versions.get(symbol) {
            return equal("version", &known.as_str(), &version);
        }
        if let Some((other, _)) = self.versions.iter().find(|(_, known)| *known == version) {
            return Err(format!("version {symbol} is {version:?}, as {other} is"));
        }
        self.versions.insert(symbol.to_owned(), version.to_owned());
        Ok(())
    }

    async fn expect_closed(&mut self, expected: &Value) -> Result<(), String> {
        let ended: Result<Option<Resources>, Status> = within(self.messages.message()).await?;
        let (code, message) = match ended {
            Ok(Some(message)) => return Err(format!("arrived: {message:?}")),
            Ok(None) => ("OK".to_owned(), String::new()),
            Err(status) => (format!("{:?}", status.code()), status.message().to_owned()),
        };
        equal("code", &text(&expected["code"]), &code)?;
        equal("message", &text(&expected["message"]), &message)
    }

    fn expect_headers(&self, expected: &Value) -> Result<(), String> {
        for (name, values) in expected.as_object().ok_or("no headers")? {
            let found: BTreeSet<String> = self
                .headers
                .get_all(name.as_str())
                .iter()
                .filter_map(|value| value.to_str().ok().map(str::to_owned))
                .collect();
            if name == "config.source.version" {
                equal(name, &1, &found.len())?;
                continue;
            }
            let values = values.as_array().into_iter().flatten().map(text).collect::<BTreeSet<_>>();
            equal(name, &values, &found)?;
        }
        Ok(())
    }
}

async fn within<T>(what: impl Future<Output = T>) -> Result<T, String> {
    tokio::time::timeout(DEADLINE, what).await.map_err(|_| format!("nothing within {DEADLINE:?}"))
}

fn equal<T: PartialEq + std::fmt::Debug>(what: &str, expected: &T, found: &T) -> Result<(), String> {
    if expected == found { Ok(()) } else { Err(format!("{what}: expected {expected:?}, found {found:?}")) }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Names and versions.
fn pairs(resources: &Value) -> Vec<(String, String)> {
    let resources = resources.as_array().into_iter().flatten();
    resources.map(|resource| (text(&resource["name"]), text(&resource["version"]))).collect()
}

/// A request from its proto3 JSON.
fn request(value: &Value) -> RequestResources {
    let texts = |value: &Value| {
        let all = value.as_object().into_iter().flatten();
        all.map(|(name, value)| (name.clone(), text(value))).collect()
    };
    let node = value
        .get("sinkNode")
        .map(|node| SinkNode { id: text(&node["id"]), annotations: texts(&node["annotations"]) });
    let error = value.get("errorDetail").map(|error| rpc::Status {
        code: error["code"].as_i64().and_then(|code| i32::try_from(code).ok()).unwrap_or(0),
        message: text(&error["message"]),
        details: Vec::new(),
    });
    RequestResources {
        sink_node: node,
        collection: text(&value["collection"]),
        initial_resource_versions: texts(&value["initialResourceVersions"]),
        response_nonce: text(&value["responseNonce"]),
        error_detail: error,
        incremental: value["incremental"].as_bool().unwrap_or(false),
    }
}
