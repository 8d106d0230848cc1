//! Identities in client certificates, and the list of allowed ones.

use std::net::IpAddr;

use rustls::pki_types::CertificateDer;

use super::der;

/// The identity in a certificate.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PeerIdentity {
    /// URI SANs such as `spiffe://cluster.local/ns/default/sa/web`, then DNS SANs, in certificate order.
    pub names: Vec<String>,
    /// Addresses in SANs, in certificate order.
    pub addresses: Vec<IpAddr>,
}

impl PeerIdentity {
    /// The identity in the leaf of a verified chain. Invalid names are omitted.
    pub(crate) fn of_chain(chain: &[CertificateDer<'_>]) -> Self {
        let Some(certificate) = chain.first().and_then(|c| webpki::EndEntityCert::try_from(c).ok()) else {
            return Self::default();
        };
        let uris = certificate.valid_uri_names();
        let names = uris.chain(certificate.valid_dns_names()).map(str::to_owned).collect();
        Self { names, addresses: chain.first().map(|leaf| addresses(leaf)).unwrap_or_default() }
    }

    /// The first name; empty if there is none.
    pub fn principal(&self) -> &str {
        self.names.first().map_or("", String::as_str)
    }
}

/// DER: an address in a list of names.
const IP_ADDRESS: u8 = 0x87;
/// 2.5.29.17, `subjectAltName`.
const SUBJECT_ALT_NAME: &[u8] = &[0x55, 0x1d, 0x11];

/// The addresses in the SANs of a certificate; webpki gives names only.
fn addresses(certificate: &[u8]) -> Vec<IpAddr> {
    let names = subject_alt_names(certificate).unwrap_or_default();
    let found = der::elements(names).filter(|(tag, _)| *tag == IP_ADDRESS);
    found.filter_map(|(_, octets)| address(octets)).collect()
}

/// The address of 4 or 16 octets.
pub(super) fn address(octets: &[u8]) -> Option<IpAddr> {
    match octets.len() {
        4 => <[u8; 4]>::try_from(octets).ok().map(IpAddr::from),
        16 => <[u8; 16]>::try_from(octets).ok().map(IpAddr::from),
        _ => None,
    }
}

/// The content of the extension with the names.
pub(super) fn subject_alt_names(certificate: &[u8]) -> Option<&[u8]> {
    let value = der::extension(certificate, SUBJECT_ALT_NAME)?;
    der::expect(value, der::SEQUENCE).map(|(names, _)| names)
}

/// A list of allowed names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct AllowedPeers {
    patterns: Vec<String>,
}

impl AllowedPeers {
    /// Parses names separated by commas. One `*` at the start or the end of a name matches anything.
    ///
    /// Errors: a `*` elsewhere; a text that is not empty and has no name, which would allow everybody.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let patterns: Vec<String> =
            text.split(',').map(str::trim).filter(|p| !p.is_empty()).map(str::to_owned).collect();
        if patterns.is_empty() && !text.is_empty() {
            return Err(format!("`{text}` has no name: leave the list out to allow every verified client"));
        }
        for pattern in &patterns {
            let inner = pattern.strip_prefix('*').or_else(|| pattern.strip_suffix('*')).unwrap_or(pattern);
            if inner.contains('*') {
                return Err(format!("`{pattern}`: a `*` may only be the first or the last character"));
            }
        }
        Ok(Self { patterns })
    }

    /// Whether the list is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// Whether the identity is allowed; an empty list allows all.
    pub(crate) fn admits(&self, identity: &PeerIdentity) -> bool {
        let matches = |pattern: &str, name: &str| match (pattern.strip_prefix('*'), pattern.strip_suffix('*'))
        {
            (Some(end), _) => name.ends_with(end),
            (None, Some(start)) => name.starts_with(start),
            (None, None) => name == pattern,
        };
        self.is_empty()
            || identity.names.iter().any(|name| self.patterns.iter().any(|pattern| matches(pattern, name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_found_among_other_names() {
        let key = rcgen::KeyPair::generate().unwrap();
        let named = ["10.0.0.7", "localhost", "::1"].map(str::to_owned);
        let certificate = rcgen::CertificateParams::new(named).unwrap().self_signed(&key).unwrap();
        let identity = PeerIdentity::of_chain(&[certificate.der().clone()]);
        let expected = ["10.0.0.7", "::1"].map(|address| address.parse().unwrap());
        assert_eq!((identity.names, identity.addresses), (vec!["localhost".to_owned()], expected.to_vec()));
        // No certificate, and none of a part of one.
        let whole = certificate.der().to_vec();
        for length in 0..whole.len() {
            assert!(addresses(&whole[..length]).is_empty(), "{length}");
        }
    }

    #[test]
    fn names_match_patterns() {
        let identity = PeerIdentity {
            names: vec!["spiffe://local/ns/shop/sa/web".to_owned(), "web.shop".to_owned()],
            addresses: Vec::new(),
        };
        let admits = |list: &str| AllowedPeers::parse(list).unwrap().admits(&identity);
        for list in ["", "spiffe://local/ns/shop/*", "*.shop", "x, web.shop", "*"] {
            assert!(admits(list), "{list}");
        }
        for list in ["spiffe://local/ns/other/*", "web", "*.other", "shop*"] {
            assert!(!admits(list), "{list}");
        }
        assert!(!AllowedPeers::parse("a").unwrap().admits(&PeerIdentity::default()));
        assert!(AllowedPeers::parse("a*b").is_err());
        assert!(AllowedPeers::parse("**").is_err());
        for list in [",", " ", " , ,"] {
            assert!(AllowedPeers::parse(list).is_err(), "{list}");
        }
    }
}
