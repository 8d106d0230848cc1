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
    /// Receives the latency of each call that is served. Only load shedding identifies callers.
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
        let mut unanswered = Unanswered::new(self.counters.as_deref(), shedder.as_deref(), started);
        let due = started + *receive_timeout;
        let due = call.deadline.map_or(due, |deadline| deadline.min(due));
        let result = match receive(body, *max_message, due).await {
            Ok(message) => {
                unanswered.arrived(message.len());
                pool.run(pin!(Some(handle(message, call))), call.deadline).await
            }
            Err(error) => Err(GrpcError { is_refusal: true, ..error }),
        };
        unanswered.note(&result);
        let result = result.or_else(otherwise);
        unanswered.end(started.elapsed(), &result);
        grpc::response(result)
    }
}

/// Receives the message of a call until `due`. The stream counts its memory until the call is answered.
async fn receive(mut body: RequestBody, max_message: usize, due: Instant) -> Result<Bytes, GrpcError> {
    grpc::read_message_by(&mut body, max_message, due).await
}

/// A call that is not answered. If it is dropped, its caller has left, and it counts as CANCELLED.
///
/// Its latency is a sample for load shedding either way: the callers of a slow server leave. One that left before its message was there
/// is none, since nothing was done for it, and neither is one that was refused before anything was done.
pub struct Unanswered<'m> {
    counters: Option<&'m RpcCounters>,
    shedder: Option<&'m LoadShedder>,
    started: Instant,
    /// How long its message took to arrive, which is up to its sender, in microseconds: a call lasts less than an hour.
    arrival_micros: u32,
    /// Bytes of its messages so far.
    pub received: usize,
    /// Whether it was refused before anything was done for it.
    pub is_refused: bool,
    /// If it is refused for what its caller sent: the status that says so, and whether the cause is how much that is.
    invalid: Option<(Code, bool)>,
}

impl<'m> Unanswered<'m> {
    /// A call that began at `started`, recorded in `counters`, with a sample for `shedder`.
    pub fn new(
        counters: Option<&'m RpcCounters>,
        shedder: Option<&'m LoadShedder>,
        started: Instant,
    ) -> Self {
        Self { counters, shedder, started, arrival_micros: 0, received: 0, is_refused: false, invalid: None }
    }

    /// Its message is there: what it takes from now on is a sample for load shedding.
    pub fn arrived(&mut self, bytes: usize) {
        (self.received, self.is_refused) = (bytes, false);
        if self.shedder.is_some() {
            self.arrival_micros = u32::try_from(self.started.elapsed().as_micros()).unwrap_or(u32::MAX);
        }
    }

    /// Notes whether the call was refused before anything was done for it, and whether for what its caller sent.
    pub fn note<T>(&mut self, result: &Result<T, GrpcError>) {
        self.is_refused = result.as_ref().is_err_and(|error| error.is_refusal);
        let error = result.as_ref().err().filter(|error| error.is_invalid);
        self.invalid = error.map(|error| (error.code, error.is_of_size));
    }

    /// Notes that the call is refused for what its caller sent, and that its answer is a denial.
    pub fn note_denied(&mut self) {
        self.invalid = Some((Code::Ok, false));
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
        self.record(code, took, sent);
        self.sample(took);
        std::mem::forget(self);
    }

    fn record(&self, code: Code, took: Duration, sent: usize) {
        if let Some(counters) = self.counters {
            counters.record(code as i32, took, self.received, sent);
            if let Some((status, is_of_size)) = self.invalid {
                // One of too much that is answered is a refusal, and no failed call.
                let counted = if code == Code::Ok && is_of_size { Code::Ok } else { status };
                counters.record_invalid(counted as i32);
            }
        }
    }

    fn sample(&self, took: Duration) {
        if let Some(shedder) = self.shedder.filter(|_| !self.is_refused) {
            shedder.completed(took.saturating_sub(Duration::from_micros(self.arrival_micros.into())));
        }
    }
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        let took = self.started.elapsed();
        if self.received == 0 {
            // Nothing waited for the server.
            self.invalid = Some((Code::Cancelled, false));
        }
        self.record(Code::Cancelled, took, 0);
        if self.received > 0 {
            self.sample(took);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load_shedding::{Demand, LoadSheddingMode, LoadSheddingOptions};
    use mixer_attribute::SignedDuration;
    use mixer_base::metrics::{Family, Metrics};

    /// Who waits for a slow server and who leaves it tell its latency alike.
    #[test]
    fn the_latency_of_a_call_counts_also_if_its_caller_leaves() {
        let options = LoadSheddingOptions {
            mode: LoadSheddingMode::Enforce,
            average_latency_threshold: SignedDuration::from_millis(100),
            ..LoadSheddingOptions::default()
        };
        let is_shed = |received: usize, is_left: bool| {
            let throttled = Metrics::new().counter(Family::LoadSheddingThrottled, &[]);
            let shedder = LoadShedder::new(&options, throttled).expect("there is a limit");
            let started = Instant::now().checked_sub(Duration::from_secs(2)).expect("the machine is up");
            let mut call = Unanswered::new(None, Some(&shedder), started);
            call.received = received;
            match is_left {
                true => drop(call),
                false => call.end_with(Code::Ok, started.elapsed(), 0),
            }
            shedder.admit(Demand { cost: 1, is_report: false, caller: 0 }).is_err()
        };
        assert!(is_shed(7, false) && is_shed(7, true));
        assert!(!is_shed(0, true), "nothing was done for it");
    }

    #[test]
    fn calls_that_are_refused_for_what_they_send_are_counted_as_that() {
        let metrics = Metrics::new();
        let counters = metrics.rpc("istio.mixer.v1.Mixer/Check");
        let call = |received: usize| {
            let mut call = Unanswered::new(Some(&counters), None, Instant::now());
            call.received = received;
            call
        };
        let invalid = || counters.invalid().filter(|(_, count)| *count > 0).collect::<Vec<_>>();
        let end = |error: GrpcError, answer: Result<Bytes, GrpcError>| {
            let mut call = call(7);
            call.note::<Bytes>(&Err(error));
            call.end(Duration::ZERO, &answer);
        };
        let overloaded = GrpcError::refused(Code::Unavailable, "overloaded");
        end(overloaded.clone(), Err(overloaded));
        drop(call(7));
        assert!(invalid().is_empty(), "the server is the cause, or may be");
        drop(call(0));
        let undecodable = GrpcError::invalid(Code::Internal, "no message");
        end(undecodable.clone(), Err(undecodable.clone()));
        end(undecodable, Ok(Bytes::from_static(&grpc::EMPTY_MESSAGE)));
        assert_eq!(invalid(), [("CANCELLED", 1), ("INTERNAL", 2)]);
        let size =
            || GrpcError { is_of_size: true, ..GrpcError::invalid(Code::ResourceExhausted, "too large") };
        end(size(), Err(size()));
        end(size(), Ok(Bytes::from_static(&grpc::EMPTY_MESSAGE)));
        let mut denied = call(0);
        denied.note_denied();
        denied.end_with(Code::NotFound, Duration::ZERO, 0);
        let expected = [("OK", 2), ("CANCELLED", 1), ("RESOURCE_EXHAUSTED", 1), ("INTERNAL", 2)];
        assert_eq!(invalid(), expected, "an answer to what is too large is a denial");
    }

    #[test]
    fn the_time_that_a_sender_takes_is_none_of_the_server() {
        let options = LoadSheddingOptions {
            mode: LoadSheddingMode::Enforce,
            average_latency_threshold: SignedDuration::from_millis(100),
            ..LoadSheddingOptions::default()
        };
        let throttled = Metrics::new().counter(Family::LoadSheddingThrottled, &[]);
        let shedder = LoadShedder::new(&options, throttled).expect("there is a limit");
        let started = Instant::now().checked_sub(Duration::from_secs(2)).expect("the machine is up");
        let mut call = Unanswered::new(None, Some(&shedder), started);
        call.arrived(7);
        call.end_with(Code::Ok, started.elapsed(), 0);
        assert!(shedder.admit(Demand { cost: 1, is_report: false, caller: 0 }).is_ok());
    }

    /// Calls that are refused at once are fast whatever the server does: they must not hide that those it serves are slow, nor may
    /// slow senders of invalid calls make it look slow.
    #[test]
    fn calls_that_are_refused_tell_nothing_of_latency() {
        let options = LoadSheddingOptions {
            mode: LoadSheddingMode::Enforce,
            average_latency_threshold: SignedDuration::from_millis(100),
            sample_half_life: SignedDuration::from_secs(3600),
            ..LoadSheddingOptions::default()
        };
        let throttled = Metrics::new().counter(Family::LoadSheddingThrottled, &[]);
        let shedder = LoadShedder::new(&options, throttled).expect("there is a limit");
        let end = |took: Duration, result: Result<Bytes, GrpcError>| {
            let mut call = Unanswered::new(None, Some(&shedder), Instant::now());
            call.received = 7;
            call.note(&result);
            call.end(took, &result);
        };
        let is_shedding = || shedder.admit(Demand { cost: 1, is_report: false, caller: 0 }).is_err();
        let refused = || Err(GrpcError::refused(Code::InvalidArgument, "no such thing"));
        end(Duration::from_secs(2), refused());
        assert!(!is_shedding(), "a slow sender of what is refused");
        end(Duration::from_secs(2), Ok(Bytes::new()));
        (0..100_000).for_each(|_| end(Duration::ZERO, refused()));
        assert!(is_shedding(), "fast refusals");
        end(Duration::from_secs(2), Err(GrpcError::new(Code::Internal, "a handler failed")));
        assert!(is_shedding(), "a failure of what was tried is served");
    }
}
