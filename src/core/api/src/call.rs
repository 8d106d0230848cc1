//! A call as every service sees it: who makes it, from where, until when, and which method it is.

use std::time::Instant;

use http::HeaderMap;
use mixer_attribute::{AttributeBag, SlotId, Value};
use mixer_engine::decision::{CALLER_PRINCIPAL, CallerText, Method};
use mixer_engine::runtime::Published;
use mixer_net::peer::PeerAddress;

/// A method of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    /// What it is to Mixer.
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

/// What is known of a call beside its message.
#[derive(Debug, Clone, Copy, Default)]
pub struct CallInfo<'c> {
    /// When the caller stops waiting.
    pub deadline: Option<Instant>,
    /// The name in the certificate of the caller, empty if it has none; `None` if callers are not asked for certificates.
    pub principal: Option<&'c str>,
    /// Where it comes from; `None` if it is made in this process.
    pub address: Option<PeerAddress>,
    /// Who calls, as one number, for shares under overload; 0 for nobody in particular.
    pub caller: u64,
    /// Its headers, which may say what trace it belongs to.
    pub headers: Option<&'c HeaderMap>,
}

impl From<Option<Instant>> for CallInfo<'_> {
    fn from(deadline: Option<Instant>) -> Self {
        Self { deadline, ..Self::default() }
    }
}

impl CallInfo<'_> {
    /// Who called, for those who write it down.
    pub fn caller_text(&self) -> Option<CallerText> {
        let address = self.address.map(|address| address.to_string());
        let principal = self.principal.map(str::to_owned);
        (address.is_some() || principal.is_some())
            .then(|| CallerText { address: address.unwrap_or_default(), principal })
    }

    /// Whether answers depend on who called.
    pub fn decides(&self, published: &Published) -> bool {
        self.principal.is_some() && slot_of_caller(published).is_some()
    }

    /// Sets the attribute that tells who called.
    pub fn identify(&self, published: &Published, bag: &mut AttributeBag<'_>) {
        if let Some(principal) = self.principal
            && let Some(slot) = slot_of_caller(published)
        {
            let principal = bag.arena().alloc_slice_copy(principal.as_bytes());
            bag.set(slot, Value::String(principal));
        }
    }
}

fn slot_of_caller(published: &Published) -> Option<SlotId> {
    published.routes.snapshot().vocabulary.slot(CALLER_PRINCIPAL.as_bytes())
}
