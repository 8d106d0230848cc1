//! The metadata of a call, the same for every service.

use std::time::{Duration, Instant};

use http::HeaderMap;

use super::principal::CallerPrincipal;
use mixer_engine::decision::Method;
use mixer_http2::RequestHead;
use mixer_net::peer::{Peer, PeerAddress};

/// A method of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    /// The corresponding method of Mixer.
    pub method: Method,
    /// The path of its requests.
    pub path: &'static str,
}

impl Operation {
    /// Mixer's check.
    pub const CHECK: Self = Self { method: Method::Check, path: "/istio.mixer.v1.Mixer/Check" };
    /// Mixer's report.
    pub const REPORT: Self = Self { method: Method::Report, path: "/istio.mixer.v1.Mixer/Report" };
}

/// The metadata of a call.
#[derive(Debug, Clone, Copy, Default)]
pub struct CallInfo<'c> {
    /// The deadline of the caller.
    pub deadline: Option<Instant>,
    /// The name in the client certificate.
    pub principal: CallerPrincipal<'c>,
    /// The peer address; `None` for a call from this process.
    pub address: Option<PeerAddress>,
    /// Identifies the caller for fair load shedding; 0 means anonymous.
    pub caller: u64,
    /// The request headers, with the trace context if there is one.
    pub headers: Option<&'c HeaderMap>,
}

impl From<Option<Instant>> for CallInfo<'_> {
    fn from(deadline: Option<Instant>) -> Self {
        Self { deadline, ..Self::default() }
    }
}

impl<'c> CallInfo<'c> {
    /// The metadata of a request that arrived at `started`. `identifies_caller` sets [`caller`](Self::caller).
    pub fn of_request(
        head: &'c RequestHead,
        peer: &'c Peer,
        started: Instant,
        identifies_caller: bool,
    ) -> Self {
        Self {
            deadline: timeout(head.headers()).and_then(|timeout| started.checked_add(timeout)),
            principal: CallerPrincipal::of_peer(peer),
            address: Some(peer.address()),
            caller: if identifies_caller { peer.key() } else { 0 },
            headers: Some(head.headers()),
        }
    }
}

/// The `grpc-timeout` header: digits and one of `H M S m u n`.
fn timeout(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get("grpc-timeout")?.to_str().ok()?;
    let (unit_at, unit) = text.char_indices().next_back()?;
    let amount: u64 = text.get(..unit_at)?.parse().ok()?;
    Some(match unit {
        'H' => Duration::from_secs(amount.saturating_mul(3600)),
        'M' => Duration::from_secs(amount.saturating_mul(60)),
        'S' => Duration::from_secs(amount),
        'm' => Duration::from_millis(amount),
        'u' => Duration::from_micros(amount),
        'n' => Duration::from_nanos(amount),
        _ => return None,
    })
}
