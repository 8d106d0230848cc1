//! What a certificate may be used for.

use super::der::{self, BIT_STRING, BOOLEAN, INTEGER, SEQUENCE};

/// 2.5.29.15, `keyUsage`, and 2.5.29.19, `basicConstraints`.
const KEY_USAGE: &[u8] = &[0x55, 0x1d, 15];
const BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 19];
/// `digitalSignature`, bit 0 of `keyUsage`, and `keyCertSign`, bit 5.
const DIGITAL_SIGNATURE: u8 = 0x80;
const KEY_CERT_SIGN: u8 = 0x80 >> 5;

/// Whether a certificate may sign others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Usage {
    /// Its key may sign certificates, or nothing is said of its key.
    pub(super) is_signer: bool,
    /// Its key may sign other texts, such as a handshake, or nothing is said of its key.
    pub(super) is_witness: bool,
    /// It is a certificate authority: its basic constraints say so; without any, its key usage, or its version, which knows neither.
    pub(super) is_authority: bool,
    /// How many intermediates there may be below it; `None`: any number.
    pub(super) path_length: Option<usize>,
    /// It names itself as its issuer.
    pub(super) is_own_issuer: bool,
}

impl Usage {
    /// Reads it. Nothing may be done with what cannot be read.
    pub(super) fn of(certificate: &[u8]) -> Self {
        Self::read(certificate).unwrap_or_default()
    }

    fn read(certificate: &[u8]) -> Option<Self> {
        let names = der::names(certificate)?;
        let is_own_issuer = names.issuer == names.subject;
        let usage = match der::extension(certificate, KEY_USAGE) {
            None => None,
            Some(value) => {
                let (bits, _) = der::expect(value, BIT_STRING)?;
                // The first octet says how many bits of the last one are not used.
                Some(bits.get(1).copied().unwrap_or(0))
            }
        };
        let signs = usage.map(|usage| usage & KEY_CERT_SIGN != 0);
        let mut path_length = None;
        let is_authority = match der::extension(certificate, BASIC_CONSTRAINTS) {
            None => signs == Some(true) || names.is_version_1,
            Some(value) => {
                let (constraints, _) = der::expect(value, SEQUENCE)?;
                let mut is_authority = false;
                for (tag, content) in der::elements(constraints) {
                    match tag {
                        BOOLEAN => is_authority = content != [0],
                        INTEGER => {
                            let most = |length: usize, digit: &u8| length << 8 | usize::from(*digit);
                            path_length = (content.len() < 4).then(|| content.iter().fold(0, most));
                        }
                        _ => {}
                    }
                }
                is_authority
            }
        };
        let is_signer = signs != Some(false);
        let is_witness = usage.is_none_or(|usage| usage & DIGITAL_SIGNATURE != 0);
        Some(Self { is_signer, is_witness, is_authority, path_length, is_own_issuer })
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair, KeyUsagePurpose};

    use super::*;

    fn usage(is_ca: IsCa, usages: &[KeyUsagePurpose]) -> Usage {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        (params.is_ca, params.key_usages) = (is_ca, usages.to_vec());
        Usage::of(params.self_signed(&KeyPair::generate().unwrap()).unwrap().der())
    }

    #[test]
    fn authorities_say_so_and_may_sign() {
        let any = || IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = Usage {
            is_signer: true,
            is_witness: true,
            is_authority: true,
            path_length: None,
            is_own_issuer: true,
        };
        let (sign, other) = (KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature);
        let mute_signer = Usage { is_witness: false, ..authority };
        assert_eq!(usage(any(), &[]), authority);
        assert_eq!(usage(any(), &[other, sign]), authority);
        let bounded = usage(IsCa::Ca(BasicConstraints::Constrained(3)), &[sign]);
        assert_eq!(bounded, Usage { path_length: Some(3), ..mute_signer });
        let mute = Usage { is_signer: false, ..authority };
        assert_eq!(usage(any(), &[other]), mute);
        assert_eq!(usage(IsCa::NoCa, &[other]), Usage { is_authority: false, ..mute });
        assert_eq!(usage(IsCa::NoCa, &[]), Usage { is_authority: false, ..authority });
        assert_eq!(usage(IsCa::ExplicitNoCa, &[sign]), Usage { is_authority: false, ..mute_signer });
        assert_eq!(usage(IsCa::NoCa, &[sign]), mute_signer, "as OpenSSL takes it");
        assert!(!usage(IsCa::NoCa, &[KeyUsagePurpose::KeyEncipherment]).is_witness);
    }

    #[test]
    fn nothing_may_be_done_with_what_cannot_be_read() {
        let whole = rcgen::generate_simple_self_signed(["a".to_owned()]).unwrap().cert;
        for length in 0..40 {
            assert_eq!(Usage::of(&whole.der()[..length]), Usage::default(), "{length}");
        }
    }
}
