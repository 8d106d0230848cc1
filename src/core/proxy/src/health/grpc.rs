//! Checks by a call of `grpc.health.v1.Health/Check`.

use std::net::SocketAddr;

use bytes::Bytes;
use h2::client::SendRequest;
use http::header::{CONTENT_TYPE, HeaderValue, TE};
use http::{Method, Request, Uri, Version};
use mixer_base::task::Group;
use prost::Message;
use tokio::task::JoinHandle;

use mixer_net::stream::Stream;

use super::session::Outcome;
use crate::bootstrap::GrpcCheck;
use crate::cluster::Cluster;
use crate::upstream::{ConnectError, establish};

const PATH: &str = "/grpc.health.v1.Health/Check";
/// Most bytes of an answer.
const MAX_ANSWER: usize = 64 << 10;
/// `SERVING`.
const SERVING: i32 = 1;

/// `HealthCheckRequest`.
#[derive(Clone, PartialEq, Message)]
struct Question {
    #[prost(string, tag = "1")]
    service: String,
}

/// `HealthCheckResponse`.
#[derive(Clone, PartialEq, Message)]
struct Answer {
    #[prost(int32, tag = "1")]
    status: i32,
}

/// Checks a host by a call.
pub(super) struct GrpcChecker {
    uri: Uri,
    /// With the prefix of a message.
    message: Bytes,
    connections: Group,
    connection: Option<Open>,
}

/// A connection, and its task.
type Open = (SendRequest<Bytes>, Ended);

/// Ends the task of a connection with it.
struct Ended(JoinHandle<()>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl GrpcChecker {
    pub(super) fn new(check: &GrpcCheck, cluster: &str) -> Self {
        let authority = check.authority.as_deref().unwrap_or(cluster);
        let uri =
            |authority: &str| Uri::builder().scheme("http").authority(authority).path_and_query(PATH).build();
        // The name of a cluster may be any text.
        let uri = uri(authority).or_else(|_| uri("cluster")).unwrap_or_default();
        let question = Question { service: check.service.clone() }.encode_to_vec();
        let mut message = vec![0];
        message.extend_from_slice(&u32::try_from(question.len()).unwrap_or(0).to_be_bytes());
        message.extend_from_slice(&question);
        Self {
            uri,
            message: message.into(),
            connections: Group::new("proxy health check connection"),
            connection: None,
        }
    }

    pub(super) fn disconnect(&mut self) {
        self.connection = None;
    }

    pub(super) async fn check(&mut self, cluster: &Cluster, address: SocketAddr) -> Outcome {
        match self.call(cluster, address).await {
            Ok(Some(Ok(answer))) => match Answer::decode(answer) {
                Ok(Answer { status: SERVING }) => Outcome::Success,
                Ok(_) | Err(_) => Outcome::Refused,
            },
            Ok(Some(Err(_))) => Outcome::Refused,
            Ok(None) => Outcome::Failed,
            Err(error) => error.into(),
        }
    }

    /// The answer, or the status of the server; `None` if there was neither.
    ///
    /// Errors: there is no connection.
    async fn call(
        &mut self,
        cluster: &Cluster,
        address: SocketAddr,
    ) -> Result<Option<Result<Bytes, tonic::Status>>, ConnectError> {
        let open = match self.connection.take() {
            // One that the server has closed is not ready.
            Some((sender, task)) => sender.ready().await.ok().map(|sender| (sender, task)),
            None => None,
        };
        let open = match open {
            Some(open) => Some(open),
            None => self.open(establish(cluster, address, Some(b"h2")).await?).await,
        };
        Ok(match open {
            Some(open) => self.ask(open).await,
            None => None,
        })
    }

    /// Begins HTTP/2 on a connection.
    async fn open(&self, stream: Stream) -> Option<Open> {
        let (sender, connection) = mixer_remote::http2_client().handshake::<_, Bytes>(stream).await.ok()?;
        let task = self.connections.spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection of a health check has ended");
            }
        });
        Some((sender.ready().await.ok()?, Ended(task)))
    }

    /// Asks on a connection, which is kept if there is an answer.
    async fn ask(&mut self, (sender, task): Open) -> Option<Result<Bytes, tonic::Status>> {
        let mut request = Request::new(());
        *request.method_mut() = Method::POST;
        *request.version_mut() = Version::HTTP_2;
        *request.uri_mut() = self.uri.clone();
        let headers = request.headers_mut();
        headers.insert(TE, HeaderValue::from_static("trailers"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        headers.insert("user-agent", HeaderValue::from_static("Envoy/HC"));
        let answer = mixer_remote::grpc_exchange(sender.clone(), request, self.message.clone(), MAX_ANSWER)
            .await
            .ok()?;
        self.connection = Some((sender, task));
        Some(answer)
    }
}
