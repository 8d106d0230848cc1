//! The interface between a connection and the service that answers its requests.

use std::rc::Rc;

use bytes::Bytes;
use http::Response;
use http_body::Body;

use crate::peer::Peer;
use mixer_http2::{FixedResponse, RequestBody, RequestHead};

/// The body of a response, by how it is sent.
#[derive(Debug)]
pub enum Answer<B> {
    /// The body of a [fixed response](FixedResponse). Status, header and trailer are those of [`WorkerService::fixed_response`]; those
    /// of the [`Response`] are ignored. Sent without encoding a header map.
    Fixed(Bytes),
    /// No body: HEADERS with END_STREAM.
    Empty,
    /// A streamed body, sent frame by frame under flow control; its last frame may be trailers. An error resets the stream with
    /// INTERNAL_ERROR. The call counts in the memory of its connection until the stream ends; without memory for it the stream is reset with
    /// ENHANCE_YOUR_CALM.
    Stream(B),
}

/// Answers the requests of one worker thread.
///
/// Created on its thread, so it need be neither `Send` nor `Sync`; all connections of the worker share it.
pub trait WorkerService: 'static {
    /// The type of streamed bodies.
    type Body: Body<Data = Bytes> + Unpin + 'static;

    /// The form of [`Answer::Fixed`]; the same for all connections.
    fn fixed_response() -> &'static FixedResponse;

    /// The response to a request whose answer panicked.
    fn failed() -> Response<Answer<Self::Body>>;

    /// The work of the service on this thread so far, in units of about 10 ns: what the time of its calls grows with besides their number
    /// and their bytes. It wraps. A connection leaves the worker to others after a bounded amount of work.
    fn work_done() -> usize {
        0
    }

    /// Answers one request.
    ///
    /// The connection polls the future once as soon as the request arrives; a future that completes then costs neither a task nor a
    /// wake-up. The future is dropped when the client resets the stream or disconnects.
    fn call(
        self: Rc<Self>,
        head: Rc<RequestHead>,
        body: RequestBody,
        peer: Rc<Peer>,
    ) -> impl Future<Output = Response<Answer<Self::Body>>> + 'static;
}
