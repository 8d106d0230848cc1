//! HTTP/2 server protocol without I/O, for many small requests.
//!
//! A [`Session`] is the state of one connection: [`Session::receive`] takes bytes from the socket, [`Session::next_request`] returns
//! requests, the `send_*` methods queue response frames, and [`Session::output`] holds the bytes to write. A session never blocks,
//! spawns nothing and reads no clock. A request that arrives complete and is answered at once costs two look-ups and one copy of its
//! body; a repeated header block is decoded once.
//!
//! Everything that a client can make grow is bounded: streams, windows, header blocks, the dynamic table, queued output
//! ([`Session::is_congested`]) and resets (the protocol-violation budget).
//!
//! ```ignore
//! let consumed = session.receive(&input)?;
//! while let Some(request) = session.next_request() {
//!     session.send_headers(request.stream, StatusCode::NOT_FOUND, &HeaderMap::new(), true);
//! }
//! socket.write_all(session.output())?;
//! ```
//! Spec: RFC 9113, RFC 7541.

mod body;
mod flow_control;
mod frame;
#[doc(hidden)]
pub mod fuzzing;
mod head;
mod hpack;
mod screen;
mod session;
mod stream;

pub use body::{BodyError, CountedBody, RequestBody};
pub use flow_control::{MemoryAccount, UnlimitedMemory};
pub use frame::ErrorCode;
pub use head::RequestHead;
pub use hpack::FixedResponse;
pub use screen::{Broken, Screen};
pub use session::{ConnectionError, Limits, Session};

/// A request whose header section is complete; its body may still be arriving.
#[derive(Debug)]
pub struct IncomingRequest {
    /// The stream identifier.
    pub stream: u32,
    /// Method, target and headers; shared between requests with identical header blocks.
    pub head: std::rc::Rc<RequestHead>,
    /// The body.
    pub body: RequestBody,
}
