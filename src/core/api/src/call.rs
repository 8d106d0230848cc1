//! The metadata of a call, the same for every service.

use std::time::Instant;

use http::HeaderMap;

use super::grpc;
use mixer_attribute::{AttributeBag, Value};
use mixer_engine::decision::{CALLER_PRINCIPAL, CallerText, Method};
use mixer_engine::runtime::Published;
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
    /// The name in the client certificate, empty if there is none; `None` if client certificates are not requested.
    pub principal: Option<&'c str>,
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
            deadline: grpc::timeout(head.headers()).and_then(|timeout| started.checked_add(timeout)),
            principal: peer.principal(),
            address: Some(peer.address()),
            caller: if identifies_caller { peer.key() } else { 0 },
            headers: Some(head.headers()),
        }
    }

    /// The caller, for the decision log.
    pub(crate) fn caller_text(&self) -> Option<CallerText> {
        let address = self.address.map(|address| address.to_string());
        let principal = self.principal.map(str::to_owned);
        (address.is_some() || principal.is_some())
            .then(|| CallerText { address: address.unwrap_or_default(), principal })
    }

    /// Sets the attribute of the caller's principal if client certificates are requested and the vocabulary has it. Returns
    /// whether it was set: answers then depend on the caller and must not be cached.
    pub fn set_principal(&self, published: &Published, bag: &mut AttributeBag<'_>) -> bool {
        let Some(principal) = self.principal else { return false };
        let vocabulary = &published.routes.snapshot().vocabulary;
        let Some(slot) = vocabulary.slot(CALLER_PRINCIPAL.as_bytes()) else { return false };
        let principal = bag.arena().alloc_slice_copy(principal.as_bytes());
        bag.set(slot, Value::String(principal));
        true
    }
}
