//! What an attempt at a request goes out on, and how it counts.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::BufMut as _;

use super::connection::Connection;
use super::exchange::Event;
use super::forward::Request;
use super::http2::ClientStream;
use super::reply;
use super::upstream_request::UpstreamRequest;
use crate::bootstrap::RetryConfig;
use crate::buffer;
use crate::cluster::Host;
use crate::stats::ClusterStat;
use crate::upstream::{Place, Pool, Upstream};

/// What a request goes out on.
pub(super) enum Connected {
    /// A connection of HTTP/1.1.
    Http1(Upstream),
    /// A place on a connection of HTTP/2.
    Http2(Place),
}

/// A request on a host.
pub(super) struct Active<'p>(pub(super) &'p Pool, pub(super) Arc<Host>);

impl Drop for Active<'_> {
    fn drop(&mut self) {
        self.0.cluster.stats.block.decrement(ClusterStat::UpstreamRqActive);
        self.1.active_requests.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Connection<'_> {
    /// Tells the host how long the response may take.
    pub(super) fn set_expected_time(&mut self, request: &Request<'_>) {
        let forward = request.forward;
        let per_try = forward.retry.as_ref().and_then(|retry| retry.per_try_timeout);
        let left = forward.timeout.map(|limit| {
            limit.saturating_sub(match request.attempts {
                1 => Duration::ZERO,
                _ => request.body.complete.map_or(Duration::ZERO, |complete| complete.elapsed()),
            })
        });
        let expected = match (left, per_try) {
            (Some(left), Some(per_try)) => Some(left.min(per_try)),
            (left, per_try) => left.or(per_try),
        };
        if let Some(expected) = expected {
            let millis = u64::try_from(expected.as_millis()).unwrap_or(u64::MAX);
            self.request.set("x-envoy-expected-rq-timeout-ms", reply::decimal(millis, &mut [0; 20]));
        }
    }

    /// Writes the head of the request for the host.
    ///
    /// Errors: the connection has ended meanwhile, or the head cannot be written.
    pub(super) fn write_request(
        &mut self,
        request: &Request<'_>,
        connected: Connected,
    ) -> Result<UpstreamRequest, Event> {
        match connected {
            Connected::Http1(mut upstream) => {
                upstream.counted.with_request = true;
                upstream.is_reusable = false;
                buffer::acquire(&mut upstream.output);
                self.request.write_request(&mut upstream.output);
                upstream.output.put_slice(b"\r\n");
                Ok(UpstreamRequest::Http1(upstream))
            }
            Connected::Http2(place) => {
                let stream = ClientStream::open(place, &self.request, request.body.has_none())?;
                Ok(UpstreamRequest::Http2(Box::new(stream)))
            }
        }
    }
}

/// The pause before the retry that follows attempt `attempt`.
pub(super) fn back_off(retry: Option<&RetryConfig>, attempt: u32) -> Duration {
    let Some(retry) = retry else { return Duration::ZERO };
    let (base, max) = retry.back_off;
    let factor = 2_u32.saturating_pow(attempt.min(16)) - 1;
    let ceiling = base.saturating_mul(factor).min(max);
    ceiling.mul_f64(fastrand::f64())
}
