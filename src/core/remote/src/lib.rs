//! Clients of backends, for sinks of a [delivery](mixer_delivery): what adapters that send over the network share.
//!
//! | type | subject |
//! | --- | --- |
//! | [`HttpTarget`] | requests over HTTP/1.1 and HTTP/2, most of them POST, also over a Unix socket |
//! | [`GrpcTarget`] | unary calls of gRPC |
//! | [`GrpcChannel`] | calls of gRPC to any method of one server, while a caller waits |
//! | [`Connector`] | connections of TCP, TLS and unix sockets to one server, for a protocol of the caller |
//! | [`OAuthTokens`] | access tokens of a client with a secret |
//! | [`StreamTarget`] | bytes over TCP, also with TLS |
//! | [`DatagramTarget`] | datagrams over UDP |
//! | [`AwsTarget`] | signed requests to Amazon Web Services |
//! | [`GoogleTokens`] | access tokens for Google's services |
//! | [`Answer`] | whether what was sent is delivered, to be tried again, or refused |
//! | [`Credential`] | a secret from a file, an environment variable or a configuration |
//!
//! Every wait has a limit, every answer is bounded, and no error shows a credential. A sink passes an answer on to its delivery, which
//! decides on retries:
//!
//! ```ignore
//! async fn deliver(&mut self, batch: &mut List<Span>, tally: &mut Tally) {
//!     let reply = self.target.post(&self.headers, encode(batch)).await;
//!     reply.answer.settle(batch.len(), tally);
//! }
//! ```

mod answer;
mod attempts;
mod aws;
mod channel;
mod connector;
mod credential;
mod datagram;
mod google;
mod grpc;
mod http;
mod oauth;
mod renewal;
mod stream;
#[cfg(test)]
mod tests;
mod tls;

pub use answer::{Answer, foreign};
pub use aws::{AwsAnswer, AwsOptions, AwsTarget, aws_endpoint, aws_region};
pub use channel::{
    ChannelOptions, GrpcChannel, GrpcConnection, grpc_error_text, grpc_exchange, grpc_exchange_with,
    grpc_message, http2_client, was_not_begun,
};
pub use connector::{Connector, Stream, check_address};
pub use credential::{Credential, CredentialError, Secret, is_there};
pub use datagram::DatagramTarget;
pub use google::{GoogleMetadata, GoogleOptions, GoogleTokens, MetadataFact};
pub use grpc::{GrpcDetail, GrpcFailure, GrpcTarget};
pub use http::{Authentication, Cut, HttpOptions, HttpTarget, ProxySetting, Reply, gzip};
pub use mixer_net::tls::{ClientTlsOptions, ServerIdentity, TlsError};
pub use oauth::{OAuthOptions, OAuthTokens};
pub use stream::{Handshake, HandshakeStep, StreamOptions, StreamTarget, Unanswered};
pub use tonic::Code as GrpcCode;

/// Why a target cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteError {
    /// The URL, the address, a header or the proxy is invalid.
    #[error("{0}")]
    Invalid(String),
    /// A certificate or a key.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A credential cannot be read.
    #[error(transparent)]
    Credential(#[from] CredentialError),
}
