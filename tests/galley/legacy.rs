//! Sinks of Istio 1.0 and 1.1, which call AggregatedMeshConfigService, as requests and messages on the wire.

use std::time::Duration;

use http::uri::PathAndQuery;
use mixer_mcp::message::google::rpc;
use mixer_mcp::message::{AggregatedNode, MeshConfigRequest, MeshConfigResponse};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Endpoint;
use tonic::{Code, Status, Streaming};

use crate::RULE;
use crate::support::DEADLINE;
use crate::support::galley::Galley;

const STREAM: &str = "/istio.mcp.v1alpha1.AggregatedMeshConfigService/StreamAggregatedResources";
const INCREMENTAL: &str = "/istio.mcp.v1alpha1.AggregatedMeshConfigService/IncrementalAggregatedResources";
/// As 1.0 names it.
const RULE_TYPE: &str = "type.googleapis.com/istio.policy.v1beta1.Rule";
/// As 1.1 does.
const RULES: &str = "istio/policy/v1beta1/rules";
/// How long nothing comes before it is believed that nothing will.
const SILENCE: Duration = Duration::from_millis(500);

struct OldSink {
    requests: mpsc::Sender<MeshConfigRequest>,
    messages: Streaming<MeshConfigResponse>,
}

impl OldSink {
    async fn open(galley: &Galley, path: &'static str) -> Result<Self, Status> {
        let address = format!("http://127.0.0.1:{}", galley.sinks);
        let channel = Endpoint::from_shared(address).expect("an address").connect().await.expect("a port");
        let mut client = tonic::client::Grpc::new(channel);
        client.ready().await.expect("a connection");
        let (requests, outgoing) = mpsc::channel(4);
        let outgoing = tonic::Request::new(ReceiverStream::new(outgoing));
        let codec = tonic_prost::ProstCodec::<MeshConfigRequest, MeshConfigResponse>::default();
        let answer = client.streaming(outgoing, PathAndQuery::from_static(path), codec);
        let messages = timeout(DEADLINE, answer).await.expect("an answer")?.into_inner();
        Ok(Self { requests, messages })
    }

    /// Asks, acknowledges (a nonce), or refuses (an error too).
    async fn send(&self, type_url: &str, version: &str, nonce: &str, error: Option<&str>) {
        let request = MeshConfigRequest {
            version_info: version.to_owned(),
            sink_node: Some(AggregatedNode { id: "old".to_owned() }),
            type_url: type_url.to_owned(),
            response_nonce: nonce.to_owned(),
            error_detail: error.map(|message| rpc::Status {
                code: 3,
                message: message.to_owned(),
                ..rpc::Status::default()
            }),
        };
        self.requests.send(request).await.expect("the stream is open");
    }

    async fn next(&mut self) -> Result<MeshConfigResponse, Status> {
        let message = timeout(DEADLINE, self.messages.message()).await.expect("a message in time");
        message.map(|message| message.expect("the stream does not end"))
    }

    async fn is_silent(&mut self) -> bool {
        timeout(SILENCE, self.messages.message()).await.is_err()
    }
}

fn names(message: &MeshConfigResponse) -> Vec<&str> {
    message.resources.iter().filter_map(|resource| Some(&*resource.metadata.as_ref()?.name)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sinks_of_old_releases_are_served_if_asked_for() {
    let galley = Galley::of_files(&[("rule.yaml", RULE)], &["--legacy-mcp"]);
    galley.synced();
    let mut sink = OldSink::open(&galley, STREAM).await.expect("it is served");
    for (asked, nonce) in [(RULE_TYPE, "1"), ("istio/policy/v1beta1/handlers", "2")] {
        sink.send(asked, "", "", None).await;
        let message = sink.next().await.expect("a message");
        assert_eq!((&*message.type_url, &*message.nonce), (asked, nonce));
        assert!(!message.version_info.is_empty());
        if asked == RULE_TYPE {
            assert_eq!(names(&message), ["istio-system/close"]);
            let body = message.resources[0].body.as_ref().expect("a body");
            assert_eq!(body.type_url, RULE_TYPE);
        }
        sink.send(asked, &message.version_info, nonce, None).await;
    }
    assert_eq!(galley.ask(&["wait", "rule/istio-system/close"]).stdout, "acknowledged by 1 sink\n");

    // A change is refused, and not sent again; the next one is.
    galley.write("rule.yaml", &RULE.replace("'true'", "'false'"));
    let refused = sink.next().await.expect("the change");
    assert_eq!((&*refused.type_url, &*refused.nonce), (RULE_TYPE, "3"));
    sink.send(RULE_TYPE, "1", "3", Some("not today")).await;
    let waited = galley.ask(&["wait", "latest"]);
    assert_eq!(waited.status, 1, "{}", waited.stdout);
    assert!(waited.stdout.contains("refused by old (") && waited.stdout.contains("not today"), "{waited:?}");
    assert!(sink.is_silent().await);
    std::fs::remove_file(galley.path("config/rule.yaml")).expect("a file");
    galley.write("other.yaml", &RULE.replace("close", "open"));
    let mut last = sink.next().await.expect("the next change");
    while names(&last) != ["istio-system/open"] {
        sink.send(RULE_TYPE, &last.version_info, &last.nonce, None).await;
        last = sink.next().await.expect("the next change");
    }
    // A stale nonce is ignored.
    sink.send(RULE_TYPE, &last.version_info, "1", None).await;
    sink.send(RULE_TYPE, &last.version_info, &last.nonce, None).await;
    assert_eq!(galley.ask(&["wait", "latest"]).status, 0, "{}", galley.document("/sinkj/"));

    // What is not served ends this stream, and no other.
    let mut other = OldSink::open(&galley, STREAM).await.expect("it is served");
    sink.send("type.googleapis.com/google.protobuf.Struct", "", "", None).await;
    let ended = sink.next().await.expect_err("the stream ends");
    let unsupported = "unsupported collection \"type.googleapis.com/google.protobuf.Struct\"";
    assert_eq!((ended.code(), ended.message()), (Code::InvalidArgument, unsupported));
    other.send(RULES, "", "", None).await;
    assert_eq!(names(&other.next().await.expect("a message")), ["istio-system/open"]);

    let incremental = OldSink::open(&galley, INCREMENTAL).await;
    assert_eq!(incremental.err().map(|status| status.code()), Some(Code::Unimplemented));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sinks_of_old_releases_are_told_that_they_are_not_served() {
    let galley = Galley::of_files(&[("rule.yaml", RULE)], &[]);
    let refused = OldSink::open(&galley, STREAM).await.err().expect("it is not served");
    assert_eq!(refused.code(), Code::Unimplemented);
    assert!(refused.message().contains("--legacy-mcp"), "{}", refused.message());
}
