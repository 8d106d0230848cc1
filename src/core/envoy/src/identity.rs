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

/// The scheme of identities of workloads.
const SPIFFE: &[u8] = b"spiffe://";

/// A principal without the `spiffe://` scheme.
pub(super) fn without_scheme(principal: &[u8]) -> &[u8] {
    principal.strip_prefix(SPIFFE).unwrap_or(principal)
}

/// The namespace in an identity of Istio without its scheme, `TRUST-DOMAIN/ns/NAMESPACE/sa/ACCOUNT`. Other names, which a certificate may
/// have as its DNS name or subject, are in no namespace.
pub(super) fn namespace_of(identity: &[u8]) -> Option<&[u8]> {
    let mut parts = identity.split(|byte| *byte == b'/');
    let found = [(); 6].map(|()| parts.next());
    match found {
        [Some(domain), Some(b"ns"), Some(namespace), Some(b"sa"), Some(account), None]
            if ![domain, namespace, account].iter().any(|part| part.is_empty()) =>
        {
            Some(namespace)
        }
        _ => None,
    }
}

/// Sets principal and namespace of a side. For the source, `source.user` is set too.
pub(super) fn set_principal<'a>(side: Side, principal: &'a [u8], out: &mut Attributes<'a>) {
    let namespace = principal.strip_prefix(SPIFFE).and_then(namespace_of);
    let principal = without_scheme(principal);
    if principal.is_empty() {
        return;
    }
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
            if let Some(namespace) = namespace {
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

#[cfg(test)]
mod tests {
    use super::namespace_of;

    #[test]
    fn only_identities_of_workloads_have_a_namespace() {
        for (identity, namespace) in [
            ("cluster.local/ns/web/sa/productpage", Some("web")),
            ("cluster.local/ns/web/sa/productpage/more", None),
            ("cluster.local/ns/web/sa/", None),
            ("cluster.local/ns//sa/productpage", None),
            ("cluster.local/ns/web", None),
            ("/ns/web/sa/productpage", None),
            ("CN=a/b/ns/admin/sa/x", None),
            ("evil.example/x/ns/admin/sa/x", None),
            ("", None),
        ] {
            assert_eq!(namespace_of(identity.as_bytes()), namespace.map(str::as_bytes), "{identity}");
        }
    }
}
