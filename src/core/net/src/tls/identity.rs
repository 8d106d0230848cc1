//! Identities in client certificates, and the list of allowed ones.

use rustls::pki_types::CertificateDer;

/// The identity in a certificate.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PeerIdentity {
    /// URI SANs such as `spiffe://cluster.local/ns/default/sa/web`, then DNS SANs, in certificate order.
    pub names: Vec<String>,
}

impl PeerIdentity {
    /// The identity in the leaf of a verified chain. Invalid names are omitted.
    pub(crate) fn of_chain(chain: &[CertificateDer<'_>]) -> Self {
        let Some(certificate) = chain.first().and_then(|c| webpki::EndEntityCert::try_from(c).ok()) else {
            return Self::default();
        };
        let uris = certificate.valid_uri_names();
        Self { names: uris.chain(certificate.valid_dns_names()).map(str::to_owned).collect() }
    }

    /// The first name; empty if there is none.
    pub fn principal(&self) -> &str {
        self.names.first().map_or("", String::as_str)
    }
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
    fn names_match_patterns() {
        let identity =
            PeerIdentity { names: vec!["spiffe://local/ns/shop/sa/web".to_owned(), "web.shop".to_owned()] };
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
