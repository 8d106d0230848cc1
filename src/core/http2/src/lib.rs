//! The server's side of HTTP/2, made for many small calls.
//!
//! A [`Session`] is one connection without its socket: bytes go in with [`Session::receive`], requests come out of
//! [`Session::next_request`], answers go in, and bytes to send come out of [`Session::output`]. It never waits, spawns nothing and
//! reads no clock; the server's connections drive it. What it is made for: a request that arrives whole and is answered at once
//! costs two look-ups, one copy of its body and no other allocation, and a block of headers that a caller repeats is decoded once.
//!
//! Everything that a caller can make grow has a bound: streams, windows, header blocks, the dynamic table, what is queued to be
//! sent before reading stops ([`Session::is_congested`]), and streams that are taken back.
//! Spec: RFC 9113, RFC 7541.

mod body;
mod credit;
mod frame;
#[doc(hidden)]
pub mod fuzzing;
mod head;
mod hpack;
mod session;
mod stream;

pub use body::{BodyError, RequestBody};
pub use frame::Reason;
pub use head::RequestHead;
pub use hpack::FixedResponse;
pub use session::{ConnectionError, Limits, Session};

/// A request whose headers are complete; its body may still be on its way.
#[derive(Debug)]
pub struct Incoming {
    /// The stream to answer on.
    pub stream: u32,
    /// Method, target and headers; shared with other requests that have the same.
    pub head: std::rc::Rc<RequestHead>,
    /// The body.
    pub body: RequestBody,
}
