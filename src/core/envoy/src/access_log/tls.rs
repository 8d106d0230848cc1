//! TLS properties of the downstream connection.

use super::super::attributes::{Attributes, Known};
use super::super::identity::{Side, set_principal};
use super::super::mapping::LoggedCertificate;
use super::super::wire::{FieldValue, each_bytes, each_field, int64, wrapped};
use super::codes;
use crate::config::{EnvoyConfig, Principal};
use mixer_attribute::{DecodeError, Value};

/// Sets the attributes of `TLSProperties`. Returns the peer's certificate.
pub(super) fn set<'a>(
    body: &'a [u8],
    config: &EnvoyConfig,
    out: &mut Attributes<'a>,
) -> Result<LoggedCertificate<'a>, DecodeError> {
    let (mut version, mut cipher, mut sni) = (0, None, &[][..]);
    let (mut local, mut peer) = (&[][..], &[][..]);
    each_field(body, |number, value| match (number, value) {
        (1, FieldValue::Varint(number)) => version = number,
        (2, FieldValue::Bytes(bytes)) => cipher = Some(wrapped(bytes)),
        (3, FieldValue::Bytes(bytes)) => sni = bytes,
        (4, FieldValue::Bytes(bytes)) => local = bytes,
        (5, FieldValue::Bytes(bytes)) => peer = bytes,
        _ => {}
    })?;
    let (local, peer) = (read_certificate(local)?, read_certificate(peer)?);
    let principal = |certificate: &LoggedCertificate<'a>| {
        let names = [certificate.uri_san, certificate.dns_san, certificate.subject];
        let name = names.into_iter().find(|name| !name.is_empty()).unwrap_or_default();
        match config.settings.check.principal {
            Principal::UriOnly if !name.windows(3).any(|w| w == b"://") => &[][..],
            _ => name,
        }
    };
    set_principal(Side::Source, principal(&peer), out);
    // That of the node that logs, if it has one.
    let namespace = out.text_of(Known::DestinationNamespace);
    set_principal(Side::Destination, principal(&local), out);
    if let Some(namespace) = namespace {
        out.text(Known::DestinationNamespace, namespace);
    }
    let has_peer = [peer.uri_san, peer.dns_san, peer.subject].iter().any(|name| !name.is_empty());
    out.set(Known::ConnectionMtls, Value::Bool(has_peer));
    out.some_text(Known::RequestedServerName, sni);
    out.some_text(Known::TlsVersion, codes::tls_version(version));
    if let Some(cipher) = cipher {
        out.number(Known::TlsCipherSuite, int64(cipher));
    }
    out.some_text(Known::TlsPeerSubject, peer.subject);
    out.some_text(Known::TlsPeerIssuer, peer.issuer);
    Ok(peer)
}

/// `CertificateProperties`.
fn read_certificate(body: &[u8]) -> Result<LoggedCertificate<'_>, DecodeError> {
    let mut certificate = LoggedCertificate::default();
    let mut result = Ok(());
    each_bytes(body, |number, bytes| match number {
        1 => {
            let read = each_bytes(bytes, |number, name| {
                let san = match number {
                    1 => &mut certificate.uri_san,
                    2 => &mut certificate.dns_san,
                    _ => return,
                };
                if san.is_empty() {
                    *san = name;
                }
            });
            if read.is_err() {
                result = read;
            }
        }
        2 => certificate.subject = bytes,
        3 => certificate.issuer = bytes,
        _ => {}
    })?;
    result.map(|()| certificate)
}
