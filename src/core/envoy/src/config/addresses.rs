//! Where the addresses of callers come from.

use http::HeaderName;

/// The source of `origin.ip`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum OriginIp {
    /// The downstream peer.
    #[default]
    Peer,
    /// The header `x-envoy-external-address`.
    ExternalAddress,
    /// The N-th address from the right of `x-forwarded-for`, from 1.
    ForwardedFor(usize),
}

impl OriginIp {
    /// How it is written.
    pub(super) const HINT: &str =
        "write peer, external_address, or xff:N with N from 1, counted from the right";

    pub(super) fn parse(text: &str) -> Option<Self> {
        match text {
            "peer" => Some(Self::Peer),
            "external_address" => Some(Self::ExternalAddress),
            other => forwarded_for(other).map(Self::ForwardedFor),
        }
    }
}

/// The source of `source.ip` of a check over HTTP, which has no field for the downstream peer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum HttpSourceIp {
    /// There is none: the attribute is absent.
    #[default]
    None,
    /// A request header, in lower case, with one address.
    Header(HeaderName),
    /// The N-th address from the right of `x-forwarded-for`, from 1. Versions of Envoy append their own address to the list.
    ForwardedFor(usize),
}

impl HttpSourceIp {
    /// How it is written.
    pub(super) const HINT: &str = "write none, header:NAME, or xff:N with N from 1, counted from the right";

    pub(super) fn parse(text: &str) -> Option<Self> {
        match (text, text.strip_prefix("header:")) {
            ("none", _) => Some(Self::None),
            (_, Some(name)) => name.parse().ok().map(Self::Header),
            (other, None) => forwarded_for(other).map(Self::ForwardedFor),
        }
    }
}

/// N of `xff:N`.
fn forwarded_for(text: &str) -> Option<usize> {
    text.strip_prefix("xff:")?.parse().ok().filter(|number| *number > 0)
}
