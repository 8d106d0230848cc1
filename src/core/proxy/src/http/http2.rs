//! HTTP/2: connections of clients, and what both sides share.
//!
//! `server` serves a connection: its driver accepts streams, and each stream is a request of its own, served beside the others by the same
//! code as requests of HTTP/1.1. `server_stream` is the [`Client`](super::client::Client) of such a request; `client_stream` is a request on a
//! connection to a host, as an [`UpstreamRequest`](super::upstream_request::UpstreamRequest).
//! Frames, header compression and windows are those of the crate `h2`.

mod client_stream;
mod convert;
mod outgoing;
mod server;
mod server_stream;

pub(super) use client_stream::ClientStream;
pub(super) use convert::is_sendable;
pub(super) use server::serve;
pub(super) use server_stream::ServerStream;

/// What every connection preface begins with. Spec: RFC 9113 section 3.4.
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Bytes of a body that wait for the window of a stream before reading pauses.
const HIGH_WATERMARK: usize = 16 << 10;
