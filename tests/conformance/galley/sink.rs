//! A sink of the Mesh Configuration Protocol: one stream, driven by a thread of its own.

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use mixer_mcp::message::{RequestResources, Resources, SinkNode};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::transport::Endpoint;
use tonic_prost::ProstCodec;

use super::compare::{SeenCollection, SeenResource};

const STREAM: &str = "/istio.mcp.v1alpha1.ResourceSource/EstablishResourceStream";

/// What a sink hears.
#[derive(Debug)]
pub(super) enum Heard {
    /// A message.
    Message(Box<Resources>),
    /// The stream ended; no status is OK.
    Closed(Option<tonic::Status>),
}

/// One stream.
pub(super) struct Sink {
    requests: UnboundedSender<RequestResources>,
    heard: Receiver<Heard>,
    node: SinkNode,
}

impl Sink {
    /// Opens a stream to a port of this machine.
    pub(super) fn connect(port: u16) -> Result<Self, String> {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| e.to_string())?;
        let (requests, sent) = unbounded_channel::<RequestResources>();
        let (tell, heard) = channel();
        let endpoint =
            Endpoint::from_shared(format!("http://127.0.0.1:{port}")).map_err(|e| e.to_string())?;
        std::thread::spawn(move || {
            runtime.block_on(async move {
                let ended = async {
                    let channel = endpoint
                        .connect()
                        .await
                        .map_err(|error| tonic::Status::unavailable(error.to_string()))?;
                    let mut grpc = tonic::client::Grpc::new(channel).max_decoding_message_size(64 << 20);
                    grpc.ready().await.map_err(|error| tonic::Status::unavailable(error.to_string()))?;
                    let codec = ProstCodec::<RequestResources, Resources>::default();
                    let path = http::uri::PathAndQuery::from_static(STREAM);
                    let request = tonic::Request::new(UnboundedReceiverStream::new(sent));
                    let mut messages = grpc.streaming(request, path, codec).await?.into_inner();
                    while let Some(message) = messages.message().await? {
                        if tell.send(Heard::Message(Box::new(message))).is_err() {
                            break;
                        }
                    }
                    Ok::<(), tonic::Status>(())
                };
                let ended = ended.await;
                drop(tell.send(Heard::Closed(ended.err())));
            });
        });
        let node = SinkNode { id: "probe-1".to_owned(), ..SinkNode::default() };
        Ok(Self { requests, heard, node })
    }

    fn send(&self, request: RequestResources) {
        // Whoever listens learns of the end of the stream.
        drop(self.requests.send(request));
    }

    /// Asks for a collection, for the first time.
    pub(super) fn request(&self, collection: &str) {
        let node = Some(self.node.clone());
        self.send(RequestResources {
            sink_node: node,
            collection: collection.to_owned(),
            ..RequestResources::default()
        });
    }

    pub(super) fn acknowledge(&self, message: &Resources) {
        self.send(RequestResources {
            sink_node: Some(self.node.clone()),
            collection: message.collection.clone(),
            response_nonce: message.nonce.clone(),
            ..RequestResources::default()
        });
    }

    /// What comes next, if it comes within this time.
    pub(super) fn hear(&self, limit: Duration) -> Option<Heard> {
        match self.heard.recv_timeout(limit) {
            Ok(heard) => Some(heard),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Heard::Closed(None)),
        }
    }
}

/// The body of a resource as JSON.
fn body(resource: &mixer_mcp::message::Resource) -> Result<(String, serde_json::Value), String> {
    let any = resource.body.clone().unwrap_or_default();
    let body = mixer_schema::to_json(&any.type_url, &any.value).map_err(|error| error.to_string())?;
    Ok((any.type_url, body))
}

/// A message as what a sink sees.
pub(super) fn seen(message: &Resources) -> Result<SeenCollection, String> {
    let mut resources = Vec::new();
    for resource in &message.resources {
        let metadata = resource.metadata.clone().unwrap_or_default();
        let (type_url, body) = body(resource).map_err(|why| format!("{}: {why}", metadata.name))?;
        // Year 1 stands for no time.
        let time = metadata.create_time.filter(|time| time.seconds != -62_135_596_800);
        let create_time = time.and_then(|time| {
            let at = std::time::UNIX_EPOCH
                + Duration::new(u64::try_from(time.seconds).ok()?, u32::try_from(time.nanos).ok()?);
            Some(mixer_base::time::Timestamp::from_system_time(at).rfc3339().to_string())
        });
        resources.push(SeenResource {
            name: metadata.name,
            version: metadata.version,
            create_time: create_time.unwrap_or_default(),
            type_url,
            labels: metadata.labels.into_iter().collect(),
            annotations: metadata.annotations.into_iter().collect(),
            body,
        });
    }
    Ok(SeenCollection { version: message.system_version_info.clone(), resources })
}
