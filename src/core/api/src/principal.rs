//! The attribute of the caller's principal.

use mixer_attribute::{AttributeBag, Value};
use mixer_engine::runtime::Published;
use mixer_net::peer::Peer;

/// What is known of the name of a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CallerPrincipal<'c> {
    /// Nothing is known, and what the call says is believed: a call of this process, or one that is served as by Istio Mixer.
    #[default]
    AsSent,
    /// Client certificates are not requested: what the call says is a claim.
    Unverified,
    /// That of the verified client certificate of this peer, empty if there is none. A thin reference keeps the futures of calls small.
    Verified(&'c Peer),
}

impl<'c> CallerPrincipal<'c> {
    /// That of a connection, which has a name if client certificates are requested.
    pub fn of_peer(peer: &'c Peer) -> Self {
        if peer.principal().is_some() { Self::Verified(peer) } else { Self::Unverified }
    }

    /// The name, if client certificates are requested.
    pub fn name(self) -> Option<&'c str> {
        match self {
            Self::Verified(peer) => peer.principal(),
            Self::AsSent | Self::Unverified => None,
        }
    }
}

/// Sets the attribute of the caller's principal to what is verified, or removes a claim, if the vocabulary has the attribute. Returns
/// whether it was set: answers then depend on the caller and must not be cached.
pub fn set_principal(
    principal: CallerPrincipal<'_>,
    published: &Published,
    bag: &mut AttributeBag<'_>,
) -> bool {
    let Some(slot) = published.routes.snapshot().vocabulary.caller_principal() else { return false };
    match principal {
        CallerPrincipal::AsSent => false,
        CallerPrincipal::Unverified => {
            bag.unset(slot);
            false
        }
        CallerPrincipal::Verified(peer) => {
            let name = peer.principal().unwrap_or_default();
            let name = bag.arena().alloc_slice_copy(name.as_bytes());
            bag.set(slot, Value::String(name));
            true
        }
    }
}
