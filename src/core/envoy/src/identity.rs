//! Identities of peers: principals and their namespaces, and services by cluster names.

use bumpalo::Bump;

use super::attributes::{Attributes, Known};
use super::wire::concat;

/// The side of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Source,
    Destination,
}

/// A principal without the `spiffe://` scheme.
pub(super) fn without_scheme(principal: &[u8]) -> &[u8] {
    principal.strip_prefix(b"spiffe://").unwrap_or(principal)
}

/// The namespace in a principal: the text between `/ns/` and the next `/`.
pub(super) fn namespace_of(principal: &[u8]) -> Option<&[u8]> {
    const MARK: &[u8] = b"/ns/";
    let at = principal.windows(MARK.len()).position(|window| window == MARK)?;
    let rest = principal.get(at + MARK.len()..)?;
    let end = rest.iter().position(|byte| *byte == b'/')?;
    rest.get(..end).filter(|namespace| !namespace.is_empty())
}

/// Sets principal and namespace of a side. For the source, `source.user` is set too.
pub(super) fn set_principal<'a>(side: Side, principal: &'a [u8], out: &mut Attributes<'a>) {
    let principal = without_scheme(principal);
    if principal.is_empty() {
        return;
    }
    let namespace = namespace_of(principal);
    match side {
        Side::Source => {
            out.text(Known::SourcePrincipal, principal);
            out.text(Known::SourceUser, principal);
            if let Some(namespace) = namespace {
                out.text(Known::SourceNamespace, namespace);
            }
        }
        Side::Destination => {
            out.text(Known::DestinationPrincipal, principal);
            if let Some(namespace) = namespace
                && out.get(Known::DestinationNamespace).is_none()
            {
                out.text(Known::DestinationNamespace, namespace);
            }
        }
    }
}

/// Sets the service attributes from a cluster name `direction|port|subset|host`.
pub(super) fn set_service<'a>(cluster: &'a [u8], out: &mut Attributes<'a>) {
    let mut parts = cluster.splitn(4, |byte| *byte == b'|').skip(3);
    let Some(host) = parts.next().filter(|host| !host.is_empty()) else { return };
    out.text(Known::DestinationServiceHost, host);
    let mut labels = host.split(|byte| *byte == b'.');
    if let (Some(name), Some(namespace), Some(b"svc")) = (labels.next(), labels.next(), labels.next()) {
        out.text(Known::DestinationServiceName, name);
        out.text(Known::DestinationServiceNamespace, namespace);
        out.text(Known::DestinationServiceUid, service_uid(namespace, name, out.arena()));
    }
}

fn service_uid<'a>(namespace: &[u8], name: &[u8], arena: &'a Bump) -> &'a [u8] {
    concat(&[b"istio://", namespace, b"/services/", name], arena)
}
