//! Transport sockets: TLS of listeners and clusters.

use std::sync::Arc;

use base64::Engine as _;

use mixer_net::tls::context::{ClientContext, ContextOptions, Pem, ServerContext};
use mixer_net::tls::{PeerCertificate, TlsError, TlsVersion};

use super::matching::{HeaderTest, TextTest, read_text};
use super::reader::{Fields, Message, Value, type_of, unknown_type};

static SOCKET: Message = Message { name: "TransportSocket", unsupported: &[] };
static RAW: Message = Message { name: "RawBuffer", unsupported: &[] };
static DOWNSTREAM: Message = Message {
    name: "DownstreamTlsContext",
    unsupported: &[
        "require_sni",
        "session_ticket_keys",
        "session_ticket_keys_sds_secret_config",
        "disable_stateless_session_resumption",
        "disable_stateful_session_resumption",
        "session_timeout",
        "ocsp_staple_policy",
        "full_scan_certs_on_sni_mismatch",
        "prefer_client_ciphers",
    ],
};
static UPSTREAM: Message = Message {
    name: "UpstreamTlsContext",
    unsupported: &[
        "auto_host_sni",
        "auto_sni_san_validation",
        "allow_renegotiation",
        "max_session_keys",
        "enforce_rsa_key_usage",
    ],
};
static COMMON: Message = Message {
    name: "CommonTlsContext",
    unsupported: &[
        "tls_certificate_sds_secret_configs",
        "tls_certificate_provider_instance",
        "custom_tls_certificate_selector",
        "tls_certificate_certificate_provider",
        "tls_certificate_certificate_provider_instance",
        "validation_context_sds_secret_config",
        "combined_validation_context",
        "validation_context_certificate_provider",
        "validation_context_certificate_provider_instance",
        "custom_handshaker",
        "key_log",
    ],
};
static PARAMETERS: Message = Message {
    name: "TlsParameters",
    unsupported: &["cipher_suites", "ecdh_curves", "signature_algorithms", "compliance_policies"],
};
static CERTIFICATE: Message = Message {
    name: "TlsCertificate",
    unsupported: &[
        "pkcs12",
        "watched_directory",
        "private_key_provider",
        "password",
        "ocsp_staple",
        "signed_certificate_timestamp",
    ],
};
static VALIDATION: Message = Message {
    name: "CertificateValidationContext",
    unsupported: &[
        "ca_certificate_provider_instance",
        "system_root_certs",
        "watched_directory",
        "verify_certificate_spki",
        "verify_certificate_hash",
        "match_subject_alt_names",
        "require_signed_certificate_timestamp",
        "crl",
        "allow_expired_certificate",
        "trust_chain_verification",
        "custom_validator_config",
        "only_verify_leaf_cert_crl",
        "max_verify_depth",
        "auto_sni_san_match",
    ],
};
static NAME: Message = Message { name: "SubjectAltNameMatcher", unsupported: &["oid"] };
static SOURCE: Message =
    Message { name: "DataSource", unsupported: &["environment_variable", "watched_directory"] };

/// A kind of alternative name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Email,
    Dns,
    Uri,
    Address,
}

/// A test of an alternative name.
#[derive(Debug, Clone)]
struct NameTest {
    kind: Kind,
    test: TextTest,
    ignores_case: bool,
}

impl NameTest {
    fn takes(&self, certificate: &PeerCertificate) -> bool {
        let any = |names: &[String]| names.iter().any(|name| self.takes_text(name));
        match self.kind {
            Kind::Email => any(&certificate.emails),
            Kind::Uri => any(&certificate.uris),
            Kind::Address => {
                certificate.addresses.iter().any(|address| self.takes_text(&address.to_string()))
            }
            Kind::Dns => certificate.dns.iter().any(|name| match &self.test {
                TextTest::Exact(wanted) => is_dns_name(wanted, name),
                _ => self.takes_text(name),
            }),
        }
    }

    fn takes_text(&self, name: &str) -> bool {
        match self.ignores_case {
            true => self.test.takes(name.to_ascii_lowercase().as_bytes()),
            false => self.test.takes(name.as_bytes()),
        }
    }
}

/// Whether a DNS name of a certificate, whose first label may be `*`, is that of a host.
fn is_dns_name(host: &str, name: &str) -> bool {
    if name.eq_ignore_ascii_case(host) {
        return true;
    }
    let (Some(suffix), Some((label, rest))) = (name.strip_prefix("*."), host.split_once('.')) else {
        return false;
    };
    !label.is_empty() && rest.eq_ignore_ascii_case(suffix)
}

/// What the field `transport_socket` is.
enum Socket<'d> {
    Plain,
    Downstream(Value<'d>),
    Upstream(Value<'d>),
}

fn read_socket<'d>(holder: &Fields<'d>) -> Option<Socket<'d>> {
    let Some(socket) = holder.get("transport_socket") else { return Some(Socket::Plain) };
    let socket = socket.message(&SOCKET)?;
    let name = socket.text("name").unwrap_or_default().to_owned();
    let typed = type_of(&socket, &name);
    socket.finish();
    let (kind, config) = typed?;
    match kind {
        "envoy.extensions.transport_sockets.raw_buffer.v3.RawBuffer" => {
            config.message(&RAW)?.finish();
            Some(Socket::Plain)
        }
        "envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext" => Some(Socket::Downstream(config)),
        "envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext" => Some(Socket::Upstream(config)),
        other => {
            unknown_type(&config, "transport socket", other);
            None
        }
    }
}

/// Reads the field `transport_socket` of a filter chain, and its certificates. The outer `None` is an error that was reported; the inner
/// one plain text.
pub(super) fn read_server(holder: &Fields<'_>) -> Option<Option<Arc<ServerContext>>> {
    match read_socket(holder)? {
        Socket::Plain => Some(None),
        Socket::Downstream(config) => read_downstream(&config).map(Some),
        Socket::Upstream(config) => {
            config.invalid("an UpstreamTlsContext is for clusters; expected a DownstreamTlsContext");
            None
        }
    }
}

/// Reads the field `transport_socket` of a cluster, as [`read_server`].
pub(super) fn read_client(holder: &Fields<'_>) -> Option<Option<Arc<ClientContext>>> {
    match read_socket(holder)? {
        Socket::Plain => Some(None),
        Socket::Upstream(config) => read_upstream(&config).map(Some),
        Socket::Downstream(config) => {
            config.invalid("a DownstreamTlsContext is for listeners; expected an UpstreamTlsContext");
            None
        }
    }
}

fn read_downstream(value: &Value<'_>) -> Option<Arc<ServerContext>> {
    let context = value.message(&DOWNSTREAM)?;
    let requires = context.get("require_client_certificate");
    let requires_certificate = requires.as_ref().and_then(Value::boolean).unwrap_or(false);
    let options = match context.message("common_tls_context", &COMMON) {
        Some(common) => read_common(common, (TlsVersion::V1_2, TlsVersion::V1_3)),
        None => Some(ContextOptions::default()),
    };
    context.finish();
    let options = options?;
    // As Envoy: names can only be expected of a client that has a certificate.
    let requires_certificate = requires_certificate || options.allowed.is_some();
    let options = ContextOptions { requires_certificate, ..options };
    if options.certificates.is_empty() {
        value.invalid("No TLS certificates found for server context");
        return None;
    }
    if let (true, None, Some(requires)) = (requires_certificate, &options.roots, requires) {
        requires.unsupported("require_client_certificate without validation_context.trusted_ca");
        return None;
    }
    loaded(value, ServerContext::load(options))
}

fn read_upstream(value: &Value<'_>) -> Option<Arc<ClientContext>> {
    let context = value.message(&UPSTREAM)?;
    let server_name = context.text("sni").unwrap_or_default();
    // As Envoy: TLS 1.3 with hosts must be asked for.
    let versions = (TlsVersion::V1_2, TlsVersion::V1_2);
    let options = match context.message("common_tls_context", &COMMON) {
        Some(common) => {
            if let Some(second) = common.items("tls_certificates").get(1) {
                second.unsupported("more than one certificate of a client");
            }
            read_common(common, versions)
        }
        None => Some(ContextOptions { versions, ..ContextOptions::default() }),
    };
    context.finish();
    loaded(value, ClientContext::load(options?, server_name))
}

/// Reports what cannot be loaded.
fn loaded<T>(value: &Value<'_>, context: Result<T, TlsError>) -> Option<Arc<T>> {
    context.map(Arc::new).map_err(|error| value.invalid(error.to_string())).ok()
}

fn read_common(common: Fields<'_>, defaults: (TlsVersion, TlsVersion)) -> Option<ContextOptions> {
    let versions = match common.get("tls_params") {
        Some(parameters) => read_versions(&parameters, defaults),
        None => Some(defaults),
    };
    let written = common.items("tls_certificates");
    let certificates: Vec<_> = written.iter().filter_map(read_certificate).collect();
    let are_read = certificates.len() == written.len();
    let validation = match common.get("validation_context") {
        Some(context) => read_validation(&context),
        None => Some((None, Vec::new())),
    };
    let mut alpn = Vec::new();
    for protocol in common.items("alpn_protocols") {
        // Envoy splits each at commas.
        for name in protocol.text().unwrap_or_default().split(',') {
            match name.len() {
                1..=255 => alpn.push(name.as_bytes().to_vec()),
                _ => protocol.invalid("Invalid ALPN protocol string"),
            }
        }
    }
    common.finish();
    let (roots, names) = validation?;
    let allowed = (!names.is_empty()).then(|| {
        let test = move |certificate: &PeerCertificate| names.iter().any(|name| name.takes(certificate));
        Arc::new(test) as mixer_net::tls::context::PeerTest
    });
    let versions = versions?;
    are_read.then_some(ContextOptions {
        certificates,
        roots,
        allowed,
        alpn,
        versions,
        requires_certificate: false,
    })
}

fn read_versions(value: &Value<'_>, defaults: (TlsVersion, TlsVersion)) -> Option<(TlsVersion, TlsVersion)> {
    let parameters = value.message(&PARAMETERS)?;
    let names = [("TLS_AUTO", 0), ("TLSv1_0", 1), ("TLSv1_1", 2), ("TLSv1_2", 3), ("TLSv1_3", 4)];
    let version = |name: &str, default: TlsVersion| {
        let Some(value) = parameters.get(name) else { return Some(default) };
        match value.choice(&names)? {
            0 => Some(default),
            3 => Some(TlsVersion::V1_2),
            4 => Some(TlsVersion::V1_3),
            _ => {
                value.unsupported("a TLS version below TLSv1_2");
                None
            }
        }
    };
    let min = version("tls_minimum_protocol_version", defaults.0);
    let max = version("tls_maximum_protocol_version", defaults.1);
    parameters.finish();
    let (min, max) = (min?, max?);
    if (min, max) == (TlsVersion::V1_3, TlsVersion::V1_2) {
        value.invalid("tls_minimum_protocol_version is above tls_maximum_protocol_version");
        return None;
    }
    Some((min, max))
}

fn read_certificate(value: &Value<'_>) -> Option<(Pem, Pem)> {
    let certificate = value.message(&CERTIFICATE)?;
    let chain = certificate.get("certificate_chain").map(|source| read_source(&source));
    let key = certificate.get("private_key").map(|source| read_source(&source));
    if chain.is_none() {
        certificate.required("TlsCertificate: certificate_chain is required");
    }
    if key.is_none() {
        certificate.required("Failed to load incomplete private key: private_key is required");
    }
    certificate.finish();
    Some((chain??, key??))
}

/// The roots, and tests of names of which one must take a certificate.
fn read_validation(value: &Value<'_>) -> Option<(Option<Pem>, Vec<NameTest>)> {
    let validation = value.message(&VALIDATION)?;
    let roots = match validation.get("trusted_ca") {
        Some(source) => read_source(&source).map(Some),
        None => Some(None),
    };
    let written = validation.items("match_typed_subject_alt_names");
    let names: Vec<_> = written.iter().filter_map(read_name).collect();
    let are_read = names.len() == written.len();
    validation.finish();
    let roots = roots?;
    if roots.is_none() && !written.is_empty() {
        value.invalid(
            "SAN-based verification of peer certificates without trusted CA is insecure and not allowed",
        );
        return None;
    }
    are_read.then_some((roots, names))
}

fn read_name(value: &Value<'_>) -> Option<NameTest> {
    let matcher = value.message(&NAME)?;
    let kinds = [
        ("SAN_TYPE_UNSPECIFIED", 0),
        ("EMAIL", 1),
        ("DNS", 2),
        ("URI", 3),
        ("IP_ADDRESS", 4),
        ("OTHER_NAME", 5),
    ];
    let kind = matcher.get("san_type");
    let number = kind.as_ref().and_then(|kind| kind.choice(&kinds)).unwrap_or(0);
    let test = matcher.get("matcher").and_then(|test| read_text(&test));
    matcher.finish();
    let kind = match number {
        1 => Kind::Email,
        2 => Kind::Dns,
        3 => Kind::Uri,
        4 => Kind::Address,
        5 => {
            value.unsupported("san_type OTHER_NAME");
            return None;
        }
        _ => {
            value.invalid("SubjectAltNameMatcherValidationError.SanType: value must not be in list [SAN_TYPE_UNSPECIFIED]");
            return None;
        }
    };
    match test {
        Some(HeaderTest::Text(test, ignores_case)) => Some(NameTest { kind, test, ignores_case }),
        _ => {
            if value.node.get("matcher").is_none() {
                value.invalid("SubjectAltNameMatcherValidationError.Matcher: value is required");
            }
            None
        }
    }
}

/// A DataSource with a certificate or a key.
fn read_source(value: &Value<'_>) -> Option<Pem> {
    let source = value.message(&SOURCE)?;
    let pem = match source.one_of(&["filename", "inline_bytes", "inline_string"]) {
        Some(("filename", name)) => {
            name.nonempty("DataSource", "Filename").map(|name| Pem::File(name.into()))
        }
        Some(("inline_bytes", text)) => text.text().and_then(|encoded| {
            let bytes = base64::engine::general_purpose::STANDARD.decode(encoded).ok();
            if bytes.is_none() {
                text.invalid("expected bytes in base64");
            }
            Some(Pem::Inline(bytes?.into()))
        }),
        Some((_, text)) => text.text().map(|text| Pem::Inline(text.as_bytes().into())),
        None => {
            source.required("DataSourceValidationError: field: \"specifier\", reason: is required");
            None
        }
    };
    source.finish();
    pem
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_a_certificate_may_begin_with_a_wildcard() {
        for (host, name, is_it) in [
            ("a.test", "A.test", true),
            ("a.test", "*.test", true),
            ("a.b.test", "*.test", false),
            (".test", "*.test", false),
            ("test", "*.test", false),
            ("*.test", "a.test", false),
        ] {
            assert_eq!(is_dns_name(host, name), is_it, "{host} {name}");
        }
    }
}
