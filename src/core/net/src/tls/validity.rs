//! Validity of certificates.

use std::path::Path;

use super::der::{element, names};
use super::error::TlsError;
use super::files;
use mixer_base::time::Timestamp;

/// DER: times with a two-digit and a four-digit year.
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// Expiry of the first certificate of a PEM file. Errors: none, or unreadable.
pub fn valid_until(path: &Path) -> Result<Timestamp, TlsError> {
    let certificates = files::certificates(path)?;
    let first = certificates.first().and_then(|certificate| not_after(certificate));
    first.ok_or_else(|| {
        let text = "it has no validity period";
        TlsError::unusable(format!("the certificate in `{}`", path.display()), text)
    })
}

/// When a certificate is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Validity {
    /// The first moment.
    pub(super) from: Timestamp,
    /// The last one.
    pub(super) until: Timestamp,
}

impl Validity {
    /// For the end of a message; empty if there is none.
    pub(super) fn shown(validity: Option<&Self>) -> String {
        let text = |validity: &Self| {
            format!(
                " (valid from {} until {})",
                validity.from.rfc3339_micros(),
                validity.until.rfc3339_micros()
            )
        };
        validity.map(text).unwrap_or_default()
    }
}

/// `tbsCertificate.validity`.
pub(super) fn validity(certificate: &[u8]) -> Option<Validity> {
    let (tag, from, rest) = element(names(certificate)?.validity)?;
    let from = instant(tag, std::str::from_utf8(from).ok()?)?;
    let (tag, until, _) = element(rest)?;
    let until = instant(tag, std::str::from_utf8(until).ok()?)?;
    Some(Validity { from, until })
}

/// `tbsCertificate.validity.notAfter`.
fn not_after(certificate: &[u8]) -> Option<Timestamp> {
    validity(certificate).map(|validity| validity.until)
}

/// `YYMMDDhhmmssZ` or `YYYYMMDDhhmmssZ`.
fn instant(tag: u8, text: &str) -> Option<Timestamp> {
    let text = match tag {
        // Years from 50 are of the last century. RFC 5280, 4.1.2.5.1.
        UTC_TIME => format!("{}{text}", if text.get(..2)? >= "50" { "19" } else { "20" }),
        GENERALIZED_TIME => text.to_owned(),
        _ => return None,
    };
    let part = |from: usize, to: usize| text.get(from..to);
    let (year, month, day) = (part(0, 4)?, part(4, 6)?, part(6, 8)?);
    let (hour, minute, second) = (part(8, 10)?, part(10, 12)?, part(12, 14)?);
    Timestamp::parse_rfc3339(&format!("{year}-{month}-{day}T{hour}:{minute}:{second}Z")).ok()
}

#[cfg(test)]
mod tests {
    use super::super::der::SEQUENCE;
    use super::*;

    #[test]
    fn expiry_is_parsed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("certificate.pem");
        // Years of two and of four digits in the certificate.
        for year in [2031, 2055] {
            let key = rcgen::KeyPair::generate().unwrap();
            let mut params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
            params.not_after = rcgen::date_time_ymd(year, 2, 3);
            std::fs::write(&path, params.self_signed(&key).unwrap().pem()).unwrap();
            let until = valid_until(&path).unwrap();
            assert_eq!(until.rfc3339_micros().to_string(), format!("{year}-02-03T00:00:00.000000Z"));
        }
        std::fs::write(&path, "nothing").unwrap();
        assert!(valid_until(&path).unwrap_err().to_string().starts_with("there is no certificate in "));
    }

    #[test]
    fn invalid_certificates_have_no_expiry() {
        let whole = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let whole = whole.cert.der();
        assert!(not_after(whole).is_some());
        for length in 0..whole.len().min(120) {
            assert_eq!(not_after(whole.get(..length).unwrap_or_default()), None, "{length}");
        }
        assert_eq!(not_after(&[SEQUENCE, 0x84, 0xff, 0xff, 0xff, 0xff]), None);
    }
}
