//! Serves the gRPC methods with one request message, the same for every service.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Response;

use super::call::CallInfo;
use super::call_pool::CallPool;
use super::grpc::{self, ApiBody, Code, GrpcError};
use crate::load_shedding::LoadShedder;
use mixer_base::metrics::RpcCounters;
use mixer_http2::{RequestBody, RequestHead};
use mixer_net::peer::Peer;

/// Limits of the calls of a service.
#[derive(Clone)]
pub struct CallLimits {
    /// Bounds the calls that wait for handlers.
    pub pool: CallPool,
    /// Receives the latency of each call. Only load shedding identifies callers.
    pub shedder: Option<Arc<LoadShedder>>,
    /// Largest request message in bytes.
    pub max_message: usize,
    /// Time limit for receiving a message, from the head of its request or, on a stream, from its first byte.
    pub receive_timeout: Duration,
}

/// A unary method of one worker.
pub struct UnaryMethod {
    limits: CallLimits,
    counters: Option<Arc<RpcCounters>>,
}

impl UnaryMethod {
    /// A method within `limits`, recorded in `counters` if there are any.
    pub fn new(limits: CallLimits, counters: Option<Arc<RpcCounters>>) -> Self {
        Self { limits, counters }
    }

    /// Serves a call: reads the request message, passes it to `handle`, records metrics and latency, and encodes the result.
    ///
    /// `handle` returns a framed message. It is a function that returns a future, not an async closure, so that its future is not
    /// wrapped in another one.
    pub fn call<'c, F>(
        &'c self,
        head: &'c RequestHead,
        body: RequestBody,
        peer: &'c Peer,
        handle: impl FnOnce(Bytes, CallInfo<'c>) -> F,
    ) -> impl Future<Output = Response<ApiBody>>
    where
        F: Future<Output = Result<Bytes, GrpcError>>,
    {
        // Not awaited in a future of its own, which would hold the arguments a second time.
        self.call_or(head, body, peer, handle, Err)
    }

    /// As [`call`](Self::call); `otherwise` may answer a call that failed, for whatever reason.
    pub async fn call_or<'c, F>(
        &self,
        head: &'c RequestHead,
        body: RequestBody,
        peer: &'c Peer,
        handle: impl FnOnce(Bytes, CallInfo<'c>) -> F,
        otherwise: impl FnOnce(GrpcError) -> Result<Bytes, GrpcError>,
    ) -> Response<ApiBody>
    where
        F: Future<Output = Result<Bytes, GrpcError>>,
    {
        let started = Instant::now();
        let CallLimits { pool, shedder, max_message, receive_timeout } = &self.limits;
        let call = CallInfo::of_request(head, peer, started, shedder.is_some());
        if let Err(error) = grpc::require_post(head.method()) {
            return grpc::response(Err(error));
        }
        let mut unanswered = self.counters.as_deref().map(|counters| Unanswered::new(counters, started));
        let due = started + *receive_timeout;
        let due = call.deadline.map_or(due, |deadline| deadline.min(due));
        let result = match receive(body, *max_message, due).await {
            Ok(message) => {
                if let Some(unanswered) = &mut unanswered {
                    unanswered.received = message.len();
                }
                pool.run(pin!(Some(handle(message, call))), call.deadline).await
            }
            Err(error) => Err(error),
        }
        .or_else(otherwise);
        let took = started.elapsed();
        if let Some(unanswered) = unanswered {
            unanswered.end(took, &result);
        }
        if let Some(shedder) = shedder {
            shedder.completed(took);
        }
        grpc::response(result)
    }
}

/// Receives the message of a call until `due`. The stream counts its memory until the call is answered.
async fn receive(mut body: RequestBody, max_message: usize, due: Instant) -> Result<Bytes, GrpcError> {
    grpc::read_message_by(&mut body, max_message, due).await
}

/// A call that is not answered. If it is dropped, its caller has left, and it counts as CANCELLED.
pub struct Unanswered<'m> {
    counters: &'m RpcCounters,
    started: Instant,
    /// Bytes of its messages so far.
    pub received: usize,
}

impl<'m> Unanswered<'m> {
    /// A call that began at `started`.
    pub fn new(counters: &'m RpcCounters, started: Instant) -> Self {
        Self { counters, started, received: 0 }
    }

    /// Records the call with its status, latency, and the bytes of its messages.
    pub fn end(self, took: Duration, result: &Result<Bytes, GrpcError>) {
        let (code, sent) = match result {
            Ok(framed) => (Code::Ok, framed.len().saturating_sub(grpc::EMPTY_MESSAGE.len())),
            Err(error) => (error.code, 0),
        };
        self.end_with(code, took, sent);
    }

    /// Records the call with this status, its latency, and the bytes that are sent.
    pub fn end_with(self, code: Code, took: Duration, sent: usize) {
        self.counters.record(code as i32, took, self.received, sent);
        std::mem::forget(self);
    }
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        self.counters.record(Code::Cancelled as i32, self.started.elapsed(), self.received, 0);
    }
}
