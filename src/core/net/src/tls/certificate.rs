//! What the certificate of a peer says: subject and alternative names.

use std::net::IpAddr;

use super::{der, identity};

/// The tags of alternative names. Spec: RFC 5280, 4.2.1.6.
const EMAIL: u8 = 0x81;
const DNS: u8 = 0x82;
const URI: u8 = 0x86;
const ADDRESS: u8 = 0x87;
/// ASN.1 strings whose octets are UTF-8 or a part of it.
const UTF8_STRING: u8 = 0x0c;
const NUMERIC_STRING: u8 = 0x12;
const PRINTABLE_STRING: u8 = 0x13;
const TELETEX_STRING: u8 = 0x14;
const IA5_STRING: u8 = 0x16;

/// The names of attributes, with the octets of their identifiers. Spec: RFC 4514, 3.
const ATTRIBUTES: [(&[u8], &str); 15] = [
    (&[0x55, 4, 3], "CN"),
    (&[0x55, 4, 4], "SN"),
    (&[0x55, 4, 5], "serialNumber"),
    (&[0x55, 4, 6], "C"),
    (&[0x55, 4, 7], "L"),
    (&[0x55, 4, 8], "ST"),
    (&[0x55, 4, 9], "street"),
    (&[0x55, 4, 10], "O"),
    (&[0x55, 4, 11], "OU"),
    (&[0x55, 4, 12], "title"),
    (&[0x55, 4, 42], "GN"),
    (&[0x55, 4, 43], "initials"),
    (&[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 25], "DC"),
    (&[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 1], "UID"),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 1], "emailAddress"),
];

/// The certificate of a peer that was verified, or accepted without.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PeerCertificate {
    /// The subject in the form of RFC 2253; empty if it has none.
    pub subject: String,
    /// URIs among the alternative names, in order.
    pub uris: Vec<String>,
    /// DNS names.
    pub dns: Vec<String>,
    /// Mail addresses.
    pub emails: Vec<String>,
    /// IP addresses.
    pub addresses: Vec<IpAddr>,
}

impl PeerCertificate {
    /// Reads a certificate. What is not valid in it is left out, as are names with blanks and control characters, which could write lines of their
    /// own to a log.
    pub fn read(certificate: &[u8]) -> Self {
        let subject = der::names(certificate).map(|names| distinguished(names.subject));
        let mut found = Self { subject: subject.unwrap_or_default(), ..Self::default() };
        for (tag, octets) in der::elements(identity::subject_alt_names(certificate).unwrap_or_default()) {
            let text = || std::str::from_utf8(octets).ok().filter(|text| is_visible(text)).map(str::to_owned);
            match tag {
                URI => found.uris.extend(text()),
                DNS => found.dns.extend(text()),
                EMAIL => found.emails.extend(text()),
                ADDRESS => found.addresses.extend(identity::address(octets)),
                _ => {}
            }
        }
        found
    }
}

fn is_visible(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// A name in the form of RFC 2253: the last part first.
fn distinguished(name: &[u8]) -> String {
    let part = |set: &[u8]| {
        let attributes = der::elements(set).filter_map(|(_, pair)| {
            let (id, rest) = der::expect(pair, der::OBJECT_ID)?;
            let (tag, value, _) = der::element(rest)?;
            Some(attribute(id, tag, value))
        });
        attributes.collect::<Vec<_>>().join("+")
    };
    let parts: Vec<String> = der::elements(name).map(|(_, set)| part(set)).collect();
    parts.into_iter().rev().collect::<Vec<_>>().join(",")
}

/// `TYPE=value`.
fn attribute(id: &[u8], tag: u8, value: &[u8]) -> String {
    let known = ATTRIBUTES.iter().find(|(known, _)| *known == id).map(|(_, name)| *name);
    let is_text =
        matches!(tag, UTF8_STRING | NUMERIC_STRING | PRINTABLE_STRING | TELETEX_STRING | IA5_STRING);
    match known {
        Some(name) if is_text => format!("{name}={}", escaped(value)),
        // In hexadecimal digits, the element as it is encoded; lengths below 128 only have one form.
        known => {
            let mut out =
                format!("{}=#{tag:02X}{:02X}", known.map_or_else(|| dotted(id), str::to_owned), value.len());
            value.iter().for_each(|byte| out.push_str(&format!("{byte:02X}")));
            out
        }
    }
}

/// The numbers of an identifier.
fn dotted(id: &[u8]) -> String {
    let mut numbers = Vec::new();
    let mut number = 0_u64;
    for byte in id {
        number = (number << 7) | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            if numbers.is_empty() {
                let first = (number / 40).min(2);
                numbers.push(first.to_string());
                number -= first * 40;
            }
            numbers.push(number.to_string());
            number = 0;
        }
    }
    numbers.join(".")
}

/// A value with the escapes of RFC 2253; what is not ASCII as octets.
fn escaped(value: &[u8]) -> String {
    let mut out = String::with_capacity(value.len());
    for (index, byte) in value.iter().enumerate() {
        let is_edge =
            (index == 0 && matches!(byte, b' ' | b'#')) || (index + 1 == value.len() && *byte == b' ');
        match byte {
            b',' | b'+' | b'"' | b'\\' | b'<' | b'>' | b';' => {
                out.push('\\');
                out.push(char::from(*byte));
            }
            _ if is_edge => {
                out.push('\\');
                out.push(char::from(*byte));
            }
            b' '..=b'~' => out.push(char::from(*byte)),
            _ => out.push_str(&format!("\\{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair, SanType};

    use super::*;

    #[test]
    fn subject_and_names_are_read() {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CountryName, "DE");
        params.distinguished_name.push(DnType::OrganizationName, "a, b+c");
        params.distinguished_name.push(DnType::CommonName, " ü#");
        params.subject_alt_names = vec![
            SanType::URI("spiffe://td/ns/a/sa/b".try_into().unwrap()),
            SanType::DnsName("a.test".try_into().unwrap()),
            SanType::Rfc822Name("a@b.test".try_into().unwrap()),
            SanType::IpAddress([127, 0, 0, 1].into()),
        ];
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let read = PeerCertificate::read(certificate.der());
        assert_eq!(read.subject, "CN=\\ \\C3\\BC#,O=a\\, b\\+c,C=DE");
        assert_eq!(read.uris, ["spiffe://td/ns/a/sa/b"]);
        assert_eq!(
            (read.dns.as_slice(), read.emails.as_slice()),
            (&["a.test".to_owned()][..], &["a@b.test".to_owned()][..])
        );
        assert_eq!(read.addresses, [IpAddr::from([127, 0, 0, 1])]);
        let whole = certificate.der().to_vec();
        for length in 0..whole.len() {
            assert!(PeerCertificate::read(&whole[..length]).uris.is_empty(), "{length}");
        }
    }

    #[test]
    fn names_that_are_none_are_left_out() {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.subject_alt_names = vec![
            SanType::URI("spiffe://td/x\nGET /admin 200".try_into().unwrap()),
            SanType::URI("spiffe://td/y".try_into().unwrap()),
            SanType::DnsName("a.test\x7f".try_into().unwrap()),
            SanType::DnsName("b c.test".try_into().unwrap()),
            SanType::Rfc822Name("a@b.test\r".try_into().unwrap()),
        ];
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let read = PeerCertificate::read(certificate.der());
        assert_eq!((read.uris, read.dns, read.emails), (vec!["spiffe://td/y".to_owned()], vec![], vec![]));
    }

    #[test]
    fn unknown_attributes_have_numbers() {
        assert_eq!(
            attribute(&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 2], UTF8_STRING, b"a"),
            "1.2.840.113549.1.9.2=#0C0161"
        );
    }
}
