//! The messages of the kinds `envoybridge` and `attributemapping`.

use std::collections::BTreeMap;

use mixer_attribute::SignedDuration;

mixer_config::message_enum! {
    /// Whether refusals count.
    pub enum Mode: "mixer.envoy.v1.Check.Mode" {
        /// They do.
        0 "enforce" Enforce;
        /// They are computed and counted; the answer is always OK.
        1 "shadow" Shadow;
    }
}

mixer_config::message_enum! {
    /// What is answered when no decision is possible.
    pub enum ErrorMode: "mixer.envoy.v1.Check.ErrorMode" {
        /// An error, so that the failure mode of the proxy decides.
        0 "delegate" Delegate;
        /// OK.
        1 "open" Open;
        /// A refusal.
        2 "closed" Closed;
    }
}

mixer_config::message_enum! {
    /// On which side of a call the proxy stands.
    pub enum ReporterKind: "mixer.envoy.v1.ReporterKind" {
        /// Before the called service.
        0 "inbound" Inbound;
        /// Behind the calling service.
        1 "outbound" Outbound;
        /// A context extension says it.
        2 "from_extension" FromExtension;
    }
}

impl ReporterKind {
    /// The value of `context.reporter.kind`; `None` when a context extension gives it.
    pub fn text(self) -> Option<&'static str> {
        match self {
            ReporterKind::Inbound => Some("inbound"),
            ReporterKind::Outbound => Some("outbound"),
            ReporterKind::FromExtension => None,
        }
    }
}

mixer_config::message_enum! {
    /// Which names of a peer are principals.
    pub enum Principal: "mixer.envoy.v1.Check.Principal" {
        /// Whatever the proxy found: a URI, a DNS name or a subject.
        0 "any" Any;
        /// URIs alone.
        1 "uri_only" UriOnly;
    }
}

mixer_config::message_enum! {
    /// The body of refusals.
    pub enum DenyBody: "mixer.envoy.v1.Check.DenyBody" {
        /// `CODE:message`.
        0 "text" Text;
        /// An object with code, status, message and request_id.
        1 "json" Json;
        /// Nothing.
        2 "none" None;
    }
}

mixer_config::message_enum! {
    /// What becomes of a descriptor about which nothing is configured.
    pub enum Unmatched: "mixer.envoy.v1.RateLimit.Unmatched" {
        /// It is within its limit.
        0 "ok" Ok;
        /// The call fails.
        1 "error" Error;
    }
}

mixer_config::message! {
    /// Answers that are kept.
    pub struct Cache: "mixer.envoy.v1.Check.Cache" {
        /// Most answers; 0 turns the cache off.
        1 entries: u32 = 10_000;
        /// How long an answer is used at most.
        2 max_age: SignedDuration = SignedDuration::from_secs(60);
    }
}

mixer_config::message! {
    /// A test of an attribute's text.
    pub struct StringMatch: "istio.mixer.v1.config.client.StringMatch" {
        /// The whole text.
        1 exact: Option<String> = None;
        /// How it begins.
        2 prefix: Option<String> = None;
        /// A regular expression for the whole text.
        3 regex: Option<String> = None;
    }
}

mixer_config::message! {
    /// Tests that must all hold.
    pub struct AttributeMatch: "istio.mixer.v1.config.client.AttributeMatch" {
        /// By attribute.
        1 clause: BTreeMap<String, StringMatch> = BTreeMap::new();
    }
}

mixer_config::message! {
    /// A quota and how much of it a request takes.
    pub struct ChargedQuota: "istio.mixer.v1.config.client.Quota" {
        /// The short name of a quota instance.
        1 quota: String = String::new();
        /// How much.
        2 charge: i64 = 1;
    }
}

mixer_config::message! {
    /// Quotas for some requests.
    pub struct QuotaRule: "istio.mixer.v1.config.client.QuotaRule" {
        /// Any of them must match; none means every request.
        1 matches as "match": Vec<AttributeMatch> = Vec::new();
        /// What is taken.
        2 quotas: Vec<ChargedQuota> = Vec::new();
    }
}

mixer_config::message! {
    /// Quotas that checks take.
    pub struct QuotaSpec: "istio.mixer.v1.config.client.QuotaSpec" {
        /// All that match.
        1 rules: Vec<QuotaRule> = Vec::new();
    }
}

mixer_config::message! {
    /// How checks of Envoy are answered.
    pub struct Check: "mixer.envoy.v1.Check" {
        /// Whether they are.
        1 enabled: bool = true;
        /// Whether refusals count.
        2 mode: Mode = Mode::Enforce;
        /// What is answered when no decision is possible.
        3 error_mode: ErrorMode = ErrorMode::Delegate;
        /// `context.reporter.kind`.
        4 reporter_kind: ReporterKind = ReporterKind::Inbound;
        /// Attributes of every request, as texts; all other sources go before them.
        5 static_attributes: BTreeMap<String, String> = BTreeMap::new();
        /// Whether the request header `x-istio-attributes` is believed.
        6 trust_forwarded_attributes: bool = false;
        /// Whether request bodies become attributes.
        7 include_body: bool = false;
        /// Which names of a peer are principals.
        8 principal: Principal = Principal::Any;
        /// Where `origin.ip` comes from: `peer`, `external_address` or `xff:N`.
        9 origin_ip: String = "peer".to_owned();
        /// Quotas that checks take.
        10 quota_spec: Vec<QuotaSpec> = Vec::new();
        /// Answers that are kept.
        11 cache: Cache = Cache::default();
        /// The body of refusals.
        12 deny_body: DenyBody = DenyBody::Text;
        /// Whether answers carry dynamic metadata.
        13 response_metadata: bool = true;
        /// Where the HTTP flavour expects its calls.
        14 http_path_prefix: String = "/check".to_owned();
    }
}

mixer_config::message! {
    /// What is known of the entries of one log.
    pub struct LogName: "mixer.envoy.v1.Report.LogName" {
        /// `context.reporter.kind`; else it is guessed from the cluster.
        1 reporter_kind: Option<ReporterKind> = None;
        /// Attributes of every entry, as texts.
        2 static_attributes: BTreeMap<String, String> = BTreeMap::new();
    }
}

mixer_config::message! {
    /// How access logs of Envoy are reported.
    pub struct Report: "mixer.envoy.v1.Report" {
        /// Whether they are.
        1 enabled: bool = true;
        /// Which entries are reported.
        2 access_log_types: Vec<String> = ["DownstreamEnd", "TcpUpstreamConnected", "TcpPeriodic", "TcpConnectionEnd"]
            .map(str::to_owned).to_vec();
        /// By log name.
        3 log_names: BTreeMap<String, LogName> = BTreeMap::new();
        /// Most TCP connections whose counters are kept.
        4 tcp_state_entries: u32 = 100_000;
        /// How long the counters of a silent connection are kept.
        5 tcp_state_idle: SignedDuration = SignedDuration::from_secs(3600);
    }
}

mixer_config::message! {
    /// A quota of Mixer for descriptors.
    pub struct DescriptorQuota: "mixer.envoy.v1.RateLimit.Quota" {
        /// Exact, or `*`.
        1 domain: String = "*".to_owned();
        /// Keys that must be there; a value may have `*` wildcards.
        2 entries: BTreeMap<String, String> = BTreeMap::new();
        /// The short name of a quota instance.
        3 quota: String = String::new();
    }
}

mixer_config::message! {
    /// Response headers about limits.
    pub struct LimitHeaders: "mixer.envoy.v1.RateLimit.Headers" {
        /// Whether they are sent.
        1 enabled: bool = false;
        /// Name of the header for the limit.
        2 limit: String = "RateLimit-Limit".to_owned();
        /// Name of the header for what is left.
        3 remaining: String = "RateLimit-Remaining".to_owned();
        /// Name of the header for the seconds until the window ends.
        4 reset: String = "RateLimit-Reset".to_owned();
    }
}

mixer_config::message! {
    /// How rate limits of Envoy are answered.
    pub struct RateLimit: "mixer.envoy.v1.RateLimit" {
        /// Whether they are.
        1 enabled: bool = true;
        /// Quotas of Mixer for descriptors.
        2 quotas: Vec<DescriptorQuota> = Vec::new();
        /// What becomes of a descriptor about which nothing is configured.
        3 unmatched: Unmatched = Unmatched::Ok;
        /// Response headers.
        4 headers: LimitHeaders = LimitHeaders::default();
        /// Whether everything is answered with OK.
        5 shadow: bool = false;
        /// From which share of a limit on a hit counts as near it.
        6 near_limit_ratio: f64 = 0.8;
        /// Most descriptors known to be over their limits.
        7 stop_increment_when_over: bool = false;
        /// Whether several files may configure one domain.
        8 merge_domains: bool = false;
    }
}

mixer_config::message! {
    /// The kind `envoybridge`.
    pub struct BridgeSettings: "mixer.envoy.v1.EnvoyBridge" {
        /// Checks.
        1 check: Check = Check::default();
        /// Access logs.
        2 report: Report = Report::default();
        /// Rate limits.
        3 ratelimit: RateLimit = RateLimit::default();
    }
}

mixer_config::message! {
    /// A place in metadata.
    pub struct MetadataPath: "mixer.envoy.v1.MetadataPath" {
        /// The namespace, usually the name of a filter.
        1 namespace: String = String::new();
        /// The way to the value.
        2 path: Vec<String> = Vec::new();
    }
}

mixer_config::message_enum! {
    /// A field of the certificate of the caller.
    pub enum CertificateField: "mixer.envoy.v1.CertificateField" {
        /// The whole subject.
        0 "subject" Subject;
        /// The common name of the subject.
        1 "commonName" CommonName;
        /// The organization of the subject.
        2 "organization" Organization;
        /// The organizational unit of the subject.
        3 "organizationalUnit" OrganizationalUnit;
        /// The whole issuer.
        4 "issuer" Issuer;
        /// The serial number in hexadecimal digits.
        5 "serial" Serial;
        /// The first URI of the alternative names.
        6 "uriSan" UriSan;
        /// The first DNS name of the alternative names.
        7 "dnsSan" DnsSan;
        /// The first mailbox of the alternative names.
        8 "emailSan" EmailSan;
        /// From when on it is valid.
        9 "notBefore" NotBefore;
        /// Until when it is valid.
        10 "notAfter" NotAfter;
    }
}

mixer_config::message! {
    /// Where a mapped attribute comes from: exactly one of these.
    pub struct MappingSource: "mixer.envoy.v1.AttributeMapping.From" {
        /// A request header.
        1 request_header: Option<String> = None;
        /// A response header or trailer, of access logs.
        2 response_header: Option<String> = None;
        /// A parameter of the query.
        3 query_parameter: Option<String> = None;
        /// A cookie.
        4 cookie: Option<String> = None;
        /// A value of dynamic metadata.
        5 metadata: Option<MetadataPath> = None;
        /// A value of route metadata.
        6 route_metadata: Option<MetadataPath> = None;
        /// A field of the certificate of the caller.
        7 certificate: Option<CertificateField> = None;
        /// A context extension of checks, a custom tag of access logs, an entry of a rate-limit descriptor.
        8 extension: Option<String> = None;
    }
}

mixer_config::message! {
    /// One attribute.
    pub struct Mapping: "mixer.envoy.v1.AttributeMapping.Mapping" {
        /// Its name; a manifest declares it.
        1 attribute: String = String::new();
        /// Where it comes from.
        2 from: MappingSource = MappingSource::default();
        /// Its value when there is none, as text.
        3 default: Option<String> = None;
        /// Whether it replaces what is there by other means.
        4 overwrite: bool = true;
    }
}

mixer_config::message! {
    /// The kind `attributemapping`.
    pub struct AttributeMapping: "mixer.envoy.v1.AttributeMapping" {
        /// In order; later ones go before earlier ones.
        1 mappings: Vec<Mapping> = Vec::new();
    }
}
