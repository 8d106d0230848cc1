//! The fields of an X.509 certificate that attributes use.
//!
//! The proxy has verified the certificate; this module only parses it. A malformed field counts as absent.

use bumpalo::Bump;
use bumpalo::collections::Vec as ArenaVec;

use super::wire::concat;
use crate::config::CertificateField;
use mixer_attribute::Timestamp;

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const INTEGER: u8 = 0x02;
const OBJECT_ID: u8 = 0x06;
const OCTETS: u8 = 0x04;
const BOOLEAN: u8 = 0x01;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
/// Explicit tag of the version.
const VERSION: u8 = 0xa0;
/// Explicit tag of the extensions.
const EXTENSIONS: u8 = 0xa3;
/// Tags of alternative names.
const EMAIL: u8 = 0x81;
const DNS: u8 = 0x82;
const URI: u8 = 0x86;

/// The subject alternative name, 2.5.29.17.
const ALTERNATIVE_NAMES: &[u8] = &[0x55, 0x1d, 0x11];
/// Attribute types of names, and their abbreviations.
const NAME_TYPES: [(&[u8], &str); 7] = [
    (&[0x55, 0x04, 0x03], "CN"),
    (&[0x55, 0x04, 0x06], "C"),
    (&[0x55, 0x04, 0x07], "L"),
    (&[0x55, 0x04, 0x08], "ST"),
    (&[0x55, 0x04, 0x0a], "O"),
    (&[0x55, 0x04, 0x0b], "OU"),
    (&[0x55, 0x04, 0x05], "serialNumber"),
];

/// The fields, borrowed from the DER bytes.
#[derive(Debug, Default)]
pub(super) struct Certificate<'a> {
    serial: &'a [u8],
    issuer: &'a [u8],
    subject: &'a [u8],
    names: &'a [u8],
    pub(super) not_before: Option<Timestamp>,
    pub(super) not_after: Option<Timestamp>,
}

impl<'a> Certificate<'a> {
    /// Reads URL-encoded PEM, as Envoy sends it.
    pub(super) fn read(encoded: &[u8], arena: &'a Bump) -> Self {
        use base64::Engine as _;
        let pem = percent_decoded(encoded, arena);
        let body = between(pem, b"-----BEGIN CERTIFICATE-----", b"-----END CERTIFICATE-----");
        let mut packed = ArenaVec::new_in(arena);
        packed.extend(body.unwrap_or_default().iter().copied().filter(|byte| !byte.is_ascii_whitespace()));
        let der = base64::engine::general_purpose::STANDARD.decode(&packed).unwrap_or_default();
        Self::of_der(arena.alloc_slice_copy(&der)).unwrap_or_default()
    }

    fn of_der(der: &'a [u8]) -> Option<Self> {
        let mut outer = Der(der).expect(SEQUENCE)?;
        let mut body = outer.expect(SEQUENCE)?;
        let mut certificate = Self::default();
        let (mut tag, mut content) = body.next()?;
        if tag == VERSION {
            (tag, content) = body.next()?;
        }
        certificate.serial = (tag == INTEGER).then_some(content)?;
        body.expect(SEQUENCE)?;
        certificate.issuer = body.expect(SEQUENCE)?.0;
        let mut validity = body.expect(SEQUENCE)?;
        certificate.not_before = validity.next().and_then(time);
        certificate.not_after = validity.next().and_then(time);
        certificate.subject = body.expect(SEQUENCE)?.0;
        while let Some((tag, content)) = body.next() {
            if tag == EXTENSIONS {
                certificate.names = alternative_names(content).unwrap_or_default();
            }
        }
        Some(certificate)
    }

    /// A field as text.
    pub(super) fn text(&self, field: CertificateField, arena: &'a Bump) -> Option<&'a [u8]> {
        let text = match field {
            CertificateField::Subject => name_text(self.subject, arena),
            CertificateField::Issuer => name_text(self.issuer, arena),
            CertificateField::CommonName => part(self.subject, "CN")?,
            CertificateField::Organization => part(self.subject, "O")?,
            CertificateField::OrganizationalUnit => part(self.subject, "OU")?,
            CertificateField::Serial => hexadecimal(self.serial, arena),
            CertificateField::UriSan => self.alternative(URI)?,
            CertificateField::DnsSan => self.alternative(DNS)?,
            CertificateField::EmailSan => self.alternative(EMAIL)?,
            CertificateField::NotBefore | CertificateField::NotAfter => return None,
        };
        (!text.is_empty()).then_some(text)
    }

    fn alternative(&self, kind: u8) -> Option<&'a [u8]> {
        let mut names = Der(self.names);
        std::iter::from_fn(|| names.next()).find(|(tag, _)| *tag == kind).map(|(_, name)| name)
    }
}

/// A sequence of DER values.
struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    /// Tag and content of the next value.
    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (&[tag, first], mut rest) = self.0.split_first_chunk::<2>()?;
        let length = match first {
            0..=0x7f => usize::from(first),
            // Certificates need lengths of up to 4 bytes.
            0x81..=0x84 => {
                let (bytes, tail) = rest.split_at_checked(usize::from(first & 0x7f))?;
                rest = tail;
                bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte))
            }
            _ => return None,
        };
        let (content, tail) = rest.split_at_checked(length)?;
        self.0 = tail;
        Some((tag, content))
    }

    fn expect(&mut self, wanted: u8) -> Option<Der<'a>> {
        self.next().filter(|(tag, _)| *tag == wanted).map(|(_, content)| Der(content))
    }
}

fn alternative_names(extensions: &[u8]) -> Option<&[u8]> {
    let mut all = Der(extensions).expect(SEQUENCE)?;
    while let Some((tag, extension)) = all.next() {
        let mut parts = Der(extension);
        if tag != SEQUENCE || parts.expect(OBJECT_ID)?.0 != ALTERNATIVE_NAMES {
            continue;
        }
        let (mut tag, mut content) = parts.next()?;
        if tag == BOOLEAN {
            (tag, content) = parts.next()?;
        }
        return (tag == OCTETS).then(|| Der(content).expect(SEQUENCE)).flatten().map(|names| names.0);
    }
    None
}

/// Type and text of every attribute of a name, in the order of the certificate.
fn parts(name: &[u8]) -> impl Iterator<Item = (&'static str, &[u8])> {
    let mut sets = Der(name);
    std::iter::from_fn(move || sets.next()).filter(|(tag, _)| *tag == SET).filter_map(|(_, set)| {
        let mut pair = Der(set).expect(SEQUENCE)?;
        let id = pair.expect(OBJECT_ID)?.0;
        let text = pair.next()?.1;
        NAME_TYPES.iter().find(|(known, _)| *known == id).map(|(_, short)| (*short, text))
    })
}

fn part<'a>(name: &'a [u8], wanted: &str) -> Option<&'a [u8]> {
    parts(name).filter(|(short, _)| *short == wanted).map(|(_, text)| text).last()
}

/// A name in the notation of Envoy: the last attribute first, `CN=a,O=b`.
fn name_text<'a>(name: &[u8], arena: &'a Bump) -> &'a [u8] {
    let mut all: ArenaVec<'_, (&str, &[u8])> = ArenaVec::new_in(arena);
    all.extend(parts(name));
    let mut out = ArenaVec::new_in(arena);
    for (index, (short, text)) in all.iter().rev().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        out.extend_from_slice(concat(&[short.as_bytes(), b"=", text], arena));
    }
    out.into_bump_slice()
}

fn hexadecimal<'a>(number: &[u8], arena: &'a Bump) -> &'a [u8] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |value: u8| DIGITS.get(usize::from(value)).copied().unwrap_or(b'0');
    // A leading zero byte is the sign of a positive number.
    let number = match number {
        [0, rest @ ..] if !rest.is_empty() => rest,
        all => all,
    };
    let mut out = ArenaVec::new_in(arena);
    out.extend(number.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]));
    out.into_bump_slice()
}

/// `YYMMDDhhmmssZ` or `YYYYMMDDhhmmssZ`.
fn time((tag, text): (u8, &[u8])) -> Option<Timestamp> {
    let text = std::str::from_utf8(text).ok()?.strip_suffix('Z')?;
    let (year, rest) = match tag {
        UTC_TIME => {
            let short: u32 = text.get(..2)?.parse().ok()?;
            (if short < 50 { 2000 + short } else { 1900 + short }, text.get(2..)?)
        }
        GENERALIZED_TIME => (text.get(..4)?.parse().ok()?, text.get(4..)?),
        _ => return None,
    };
    let two = |at: usize| rest.get(at..at + 2);
    let (month, day, hour, minute, second) = (two(0)?, two(2)?, two(4)?, two(6)?, two(8)?);
    Timestamp::parse_rfc3339(&format!("{year:04}-{month}-{day}T{hour}:{minute}:{second}Z")).ok()
}

fn between<'a>(text: &'a [u8], begin: &[u8], end: &[u8]) -> Option<&'a [u8]> {
    let find = |text: &[u8], wanted: &[u8]| text.windows(wanted.len()).position(|window| window == wanted);
    let body = text.get(find(text, begin)? + begin.len()..)?;
    body.get(..find(body, end)?)
}

fn percent_decoded<'a>(text: &[u8], arena: &'a Bump) -> &'a [u8] {
    let nibble = |byte: Option<&u8>| char::from(*byte?).to_digit(16);
    let mut out = ArenaVec::with_capacity_in(text.len(), arena);
    let mut rest = text;
    while let [byte, tail @ ..] = rest {
        rest = tail;
        let decoded = (*byte == b'%')
            .then(|| Some(nibble(tail.first())? << 4 | nibble(tail.get(1))?))
            .flatten()
            .and_then(|value| u8::try_from(value).ok());
        match decoded {
            Some(value) => {
                out.push(value);
                rest = tail.get(2..).unwrap_or_default();
            }
            None => out.push(*byte),
        }
    }
    out.into_bump_slice()
}
