//! Chains whose root or intermediate is the reason why they are not trusted.

use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};

use super::*;
use crate::tls::context::{ClientContext, ContextOptions, Pem, ServerContext};
use crate::tls::{ClientPem, ClientTls, ClientTlsOptions, ServerIdentity, ServerTls, ServerTlsOptions};

/// Years of validity.
type Years = (i32, i32);

const ANY: Years = (2020, 2090);
/// The moment of all verifications, in the year 2030.
const NOW: UnixTime = UnixTime::since_unix_epoch(Duration::from_secs(1_900_000_000));

/// A certificate authority.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
    pem: String,
}

fn params(
    name: &str,
    years: Years,
    constraints: Option<BasicConstraints>,
    usages: &[KeyUsagePurpose],
) -> CertificateParams {
    let mut params = CertificateParams::new(vec!["a.test".to_owned()]).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = rcgen::date_time_ymd(years.0, 1, 1);
    params.not_after = rcgen::date_time_ymd(years.1, 1, 1);
    params.is_ca = constraints.map_or(IsCa::NoCa, IsCa::Ca);
    params.key_usages = usages.to_vec();
    params
}

fn any() -> Option<BasicConstraints> {
    Some(BasicConstraints::Unconstrained)
}

fn usual(name: &str, years: Years) -> CertificateParams {
    params(name, years, any(), &[KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign])
}

impl Authority {
    fn new(params: CertificateParams) -> Self {
        Self::with_key(params, KeyPair::generate().unwrap())
    }

    fn with_key(params: CertificateParams, key: KeyPair) -> Self {
        let made = params.self_signed(&key).unwrap();
        Self { issuer: Issuer::new(params, key), certificate: made.der().clone(), pem: made.pem() }
    }

    fn below(&self, params: CertificateParams) -> Self {
        let key = KeyPair::generate().unwrap();
        let made = params.signed_by(&key, &self.issuer).unwrap();
        Self { issuer: Issuer::new(params, key), certificate: made.der().clone(), pem: made.pem() }
    }

    fn leaf(&self) -> CertificateDer<'static> {
        self.below(params("leaf", ANY, None, &[])).certificate
    }

    fn pem(&self) -> String {
        self.pem.clone()
    }
}

fn roots(of: &[&Authority]) -> Roots {
    let mut roots = Roots::default();
    for authority in of {
        roots.add(authority.certificate.clone(), "in `ca.pem`", String::new).unwrap();
    }
    roots
}

/// What is said of a certificate for a client, and for a server.
fn verified(
    roots: &Roots,
    leaf: &CertificateDer<'_>,
    intermediates: &[CertificateDer<'_>],
) -> Result<(), String> {
    let algorithms = crate::tls::chain::algorithms();
    let verify =
        |usage| roots.verify(leaf, intermediates, NOW, usage, &algorithms).map_err(|error| error.to_string());
    let [server, client] = [KeyUsage::server_auth(), KeyUsage::client_auth()].map(verify);
    assert_eq!(server, client);
    server
}

fn refused(roots: &Roots, leaf: &CertificateDer<'_>, intermediates: &[CertificateDer<'_>]) -> String {
    verified(roots, leaf, intermediates).unwrap_err()
}

#[test]
fn roots_are_trusted_while_they_are_valid() {
    let usual_root = Authority::new(usual("usual", ANY));
    assert_eq!(verified(&roots(&[&usual_root]), &usual_root.leaf(), &[]), Ok(()));
    let old = Authority::new(usual("old", (2019, 2021)));
    let text = refused(&roots(&[&usual_root, &old]), &old.leaf(), &[]);
    let dates = "(valid from 2019-01-01T00:00:00.000000Z until 2021-01-01T00:00:00.000000Z)";
    assert!(text.contains(&format!("the root `CN=old` in `ca.pem` has expired {dates}")), "{text}");
    let next = Authority::new(usual("next", (2060, 2080)));
    let text = refused(&roots(&[&next]), &next.leaf(), &[]);
    let dates = "(valid from 2060-01-01T00:00:00.000000Z until 2080-01-01T00:00:00.000000Z)";
    assert!(text.contains(&format!("the root `CN=next` in `ca.pem` is not valid yet {dates}")), "{text}");
}

#[test]
fn a_renewed_root_is_trusted_beside_the_one_that_has_expired() {
    let key = KeyPair::generate().unwrap();
    let again = KeyPair::from_pem(&key.serialize_pem()).unwrap();
    let old = Authority::with_key(usual("root", (2019, 2021)), key);
    let new = Authority::with_key(usual("root", ANY), again);
    for order in [[&old, &new], [&new, &old]] {
        assert_eq!(verified(&roots(&order), &old.leaf(), &[]), Ok(()));
    }
    assert!(verified(&roots(&[&old]), &new.leaf(), &[]).is_err());
}

#[test]
fn a_root_that_has_expired_does_not_lift_the_constraints_of_the_renewed_one() {
    let key = KeyPair::generate().unwrap();
    let again = KeyPair::from_pem(&key.serialize_pem()).unwrap();
    let old = Authority::with_key(usual("root", (2019, 2021)), key);
    let mut constrained = usual("root", ANY);
    constrained.name_constraints = Some(rcgen::NameConstraints {
        permitted_subtrees: vec![rcgen::GeneralSubtree::DnsName("good.test".to_owned())],
        excluded_subtrees: Vec::new(),
    });
    let new = Authority::with_key(constrained, again);
    let mut good = params("leaf", ANY, None, &[]);
    good.subject_alt_names = vec![rcgen::SanType::DnsName("good.test".try_into().unwrap())];
    let good = new.below(good).certificate;
    for order in [vec![&new], vec![&old, &new], vec![&new, &old]] {
        // `a.test`.
        refused(&roots(&order), &new.leaf(), &[]);
        assert_eq!(verified(&roots(&order), &good, &[]), Ok(()));
    }
}

#[test]
fn only_authorities_sign_certificates() {
    let signature = [KeyUsagePurpose::DigitalSignature];
    let mute = Authority::new(params("mute", ANY, any(), &signature));
    let text = refused(&roots(&[&mute]), &mute.leaf(), &[]);
    assert!(
        text.contains("the root `CN=mute` in `ca.pem` may not sign certificates: its key usage"),
        "{text}"
    );
    let pinned = Authority::new(params("pinned", ANY, None, &[]));
    let text = refused(&roots(&[&pinned]), &pinned.leaf(), &[]);
    assert!(text.contains("the root `CN=pinned` in `ca.pem` is no certificate authority"), "{text}");
    assert_eq!(verified(&roots(&[&pinned]), &pinned.certificate, &[]), Ok(()), "the certificate itself");
    let pinned = Authority::new(params("pinned", ANY, None, &signature));
    assert_eq!(verified(&roots(&[&pinned]), &pinned.certificate, &[]), Ok(()), "the certificate itself");

    let root = Authority::new(usual("root", ANY));
    let good = root.below(usual("good", ANY));
    assert_eq!(verified(&roots(&[&root]), &good.leaf(), std::slice::from_ref(&good.certificate)), Ok(()));
    let mute = root.below(params("mute", ANY, any(), &signature));
    let text = refused(&roots(&[&root]), &mute.leaf(), std::slice::from_ref(&mute.certificate));
    assert!(text.contains("the intermediate certificate `CN=mute` may not sign certificates"), "{text}");
    let short = Authority::new(params("short", ANY, Some(BasicConstraints::Constrained(0)), &[]));
    assert_eq!(verified(&roots(&[&short]), &short.leaf(), &[]), Ok(()));
    let below = short.below(usual("below", ANY));
    let text = refused(&roots(&[&short]), &below.leaf(), std::slice::from_ref(&below.certificate));
    assert!(text.contains("the root `CN=short` in `ca.pem` does not allow as many"), "{text}");
}

/// One mechanism for servers, clients and proxies: what none of them can use is an error when it is loaded.
#[test]
fn roots_that_cannot_be_used_are_errors_everywhere() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let key = KeyPair::generate().unwrap();
    let own = params("own", ANY, None, &[]).self_signed(&key).unwrap();
    std::fs::write(path("cert.pem"), own.pem()).unwrap();
    std::fs::write(path("key.pem"), key.serialize_pem()).unwrap();
    let ca_file = path("ca.pem");
    let load = |roots: &str| -> Vec<Result<(), String>> {
        std::fs::write(&ca_file, roots).unwrap();
        let server = ServerTlsOptions {
            cert_file: path("cert.pem"),
            key_file: path("key.pem"),
            client_ca_file: ca_file.clone(),
            ..ServerTlsOptions::default()
        };
        let client = |server_identity| ClientTlsOptions {
            ca_file: ca_file.clone(),
            cert_file: path("cert.pem"),
            key_file: path("key.pem"),
            server_identity,
            ..ClientTlsOptions::default()
        };
        let context = ContextOptions {
            certificates: vec![(Pem::File(path("cert.pem")), Pem::File(path("key.pem")))],
            roots: Some(Pem::File(ca_file.clone())),
            ..ContextOptions::default()
        };
        let embedded = ClientPem { roots: Some(roots.into()), identity: None };
        vec![
            ServerTls::load(server).map(drop).map_err(|error| error.to_string()),
            ClientTls::load(&client(ServerIdentity::Name), "a").map(drop).map_err(|error| error.to_string()),
            ClientTls::load(&client(ServerIdentity::Any), "a").map(drop).map_err(|error| error.to_string()),
            ServerContext::load(context.clone()).map(drop).map_err(|error| error.to_string()),
            ClientContext::load(context, "a").map(drop).map_err(|error| error.to_string()),
            embedded.config(&[]).map(drop).map_err(|error| error.to_string()),
        ]
    };
    let old = Authority::new(usual("old", (2019, 2021))).pem();
    let next = Authority::new(usual("next", (2080, 2090))).pem();
    let mute = Authority::new(params("mute", ANY, any(), &[KeyUsagePurpose::DigitalSignature])).pem();
    for (roots, why) in [
        (
            old.clone(),
            "`CN=old` PLACE has expired (valid from 2019-01-01T00:00:00.000000Z until 2021-01-01T00:00:00.000000Z)",
        ),
        (next.clone(), "`CN=next` PLACE is not valid yet (valid from 2080"),
        (
            mute.clone(),
            "`CN=mute` PLACE may not sign certificates: its key usage is without keyCertSign (valid from",
        ),
        ([&*old, &*mute].concat(), "`CN=old` PLACE has expired"),
    ] {
        for (index, loaded) in load(&roots).into_iter().enumerate() {
            let text = loaded.unwrap_err();
            let place = if index == 5 {
                "of the certificate authority".to_owned()
            } else {
                format!("in `{}`", ca_file.display())
            };
            let expected = format!("the root {}", why.replace("PLACE", &place));
            assert!(text.starts_with(&expected) && text.contains("replace it"), "{index}: {text}");
        }
    }
    let usable = Authority::new(usual("usable", ANY)).pem();
    for loaded in load(&[&*old, &*next, &*mute, &*usable].concat()) {
        assert_eq!(loaded, Ok(()), "one of them can be used");
    }
    for loaded in load(&own.pem()) {
        assert_eq!(loaded, Ok(()), "the certificate of a peer itself");
    }
}
