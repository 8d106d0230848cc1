//! The messages of the kinds `envoybridge` and `attributemapping`.

use std::collections::BTreeMap;

use mixer_attribute::SignedDuration;

mixer_config::message_enum! {
    /// Whether denials are enforced.
    pub enum Mode: "mixer.envoy.v1.Check.Mode" {
        /// Denials are enforced.
        0 "enforce" Enforce;
        /// Denials are counted; the response is always OK.
        1 "shadow" Shadow;
    }
}

mixer_config::message_enum! {
    /// The response when the evaluation fails.
    pub enum ErrorMode: "mixer.envoy.v1.Check.ErrorMode" {
        /// An error, so that the failure mode of the proxy decides.
        0 "delegate" Delegate;
        /// OK.
        1 "open" Open;
        /// A denial.
        2 "closed" Closed;
    }
}

mixer_config::message_enum! {
    /// The side of the call on which the proxy runs.
    pub enum ReporterKind: "mixer.envoy.v1.ReporterKind" {
        /// In front of the server.
        0 "inbound" Inbound;
        /// At the client.
        1 "outbound" Outbound;
        /// The value of a context extension.
        2 "from_extension" FromExtension;
    }
}

impl ReporterKind {
    /// The value of `context.reporter.kind`; `None` if a context extension sets it.
    pub(crate) fn text(self) -> Option<&'static str> {
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
        /// A URI, a DNS name or a subject.
        0 "any" Any;
        /// URIs only.
        1 "uri_only" UriOnly;
    }
}

mixer_config::message_enum! {
    /// The body of denials.
    pub enum DenyBody: "mixer.envoy.v1.Check.DenyBody" {
        /// `CODE:message`.
        0 "text" Text;
        /// An object with code, status, message and request_id.
        1 "json" Json;
        /// No body.
        2 "none" None;
    }
}

mixer_config::message_enum! {
    /// The result of a descriptor without a configured limit.
    pub enum Unmatched: "mixer.envoy.v1.RateLimit.Unmatched" {
        /// It is within its limit.
        0 "ok" Ok;
        /// The call fails.
        1 "error" Error;
    }
}

mixer_config::message! {
    /// The cache of decisions.
    pub struct Cache: "mixer.envoy.v1.Check.Cache" {
        /// Maximum number of decisions; 0 disables the cache.
        1 entries: u32 = 10_000;
        /// Maximum age of a decision.
        2 max_age: SignedDuration = SignedDuration::from_secs(60);
    }
}

mixer_config::message! {
    /// A test of a string attribute.
    pub struct StringMatch: "istio.mixer.v1.config.client.StringMatch" {
        /// Equality.
        1 exact: Option<String> = None;
        /// A prefix.
        2 prefix: Option<String> = None;
        /// A regular expression for the whole string.
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
    /// A quota and its charge for a request.
    pub struct ChargedQuota: "istio.mixer.v1.config.client.Quota" {
        /// The short name of a quota instance.
        1 quota: String = String::new();
        /// The charge.
        2 charge: i64 = 1;
    }
}

mixer_config::message! {
    /// Quotas for some requests.
    pub struct QuotaRule: "istio.mixer.v1.config.client.QuotaRule" {
        /// Alternatives; empty means every request.
        1 matches as "match": Vec<AttributeMatch> = Vec::new();
        /// The quotas.
        2 quotas: Vec<ChargedQuota> = Vec::new();
    }
}

mixer_config::message! {
    /// Quotas that checks take.
    pub struct QuotaSpec: "istio.mixer.v1.config.client.QuotaSpec" {
        /// Every matching rule applies.
        1 rules: Vec<QuotaRule> = Vec::new();
    } elsewhere {
        "quota" => "write `rules: [{quotas: [{quota: NAME, charge: 1}]}]`",
        "charge" => "write `rules: [{quotas: [{quota: NAME, charge: 1}]}]`",
        "quotas" => "write `rules: [{quotas: [{quota: NAME, charge: 1}]}]`",
        "match" => "write `rules: [{match: [{clause: {request.method: {exact: GET}}}], quotas: [{quota: NAME, charge: 1}]}]`",
    }
}

mixer_config::message! {
    /// The authorization service.
    pub struct Check: "mixer.envoy.v1.Check" {
        /// Whether the service is enabled.
        1 enabled: bool = true;
        /// Whether denials are enforced.
        2 mode: Mode = Mode::Enforce;
        /// The response when the evaluation fails.
        3 error_mode: ErrorMode = ErrorMode::Delegate;
        /// `context.reporter.kind`.
        4 reporter_kind: ReporterKind = ReporterKind::Inbound;
        /// Attributes of every request, as text; every other source overrides them.
        5 static_attributes: BTreeMap<String, String> = BTreeMap::new();
        /// Whether the request header `x-istio-attributes` is trusted.
        6 trust_forwarded_attributes: bool = false;
        /// Whether request bodies become attributes.
        7 include_body: bool = false;
        /// Which names of a peer are principals.
        8 principal: Principal = Principal::Any;
        /// The source of `origin.ip`: `peer`, `external_address` or `xff:N`.
        9 origin_ip: String = "peer".to_owned();
        /// Quotas that checks take.
        10 quota_spec: Vec<QuotaSpec> = Vec::new();
        /// The cache of decisions.
        11 cache: Cache = Cache::default();
        /// The body of denials.
        12 deny_body: DenyBody = DenyBody::Text;
        /// Whether responses carry dynamic metadata.
        13 response_metadata: bool = true;
        /// The path prefix of checks over HTTP.
        14 http_path_prefix: String = "/check".to_owned();
        /// The source of `source.ip` of checks over HTTP: `none`, `xff:N` or `header:NAME`.
        15 http_source_ip: String = "none".to_owned();
        /// Whether the body of a denial names handlers, rules and quotas, for every client to read.
        16 deny_body_names: bool = false;
    } elsewhere {
        "failureModeAllow" => "it is a setting of Envoy's filter, for calls without an answer; `errorMode` is the answer if an evaluation fails",
        "statusOnError" => "it is a setting of Envoy's filter ext_authz; `errorMode` is the answer if an evaluation fails",
        "withRequestBody" => "it is a setting of Envoy's filter ext_authz, which sends the body; `includeBody: true` makes attributes of it",
        "metadataContextNamespaces" => "it is a setting of Envoy's filter ext_authz",
        "grpcService" => "it is a setting of Envoy's filter ext_authz",
        "httpService" => "it is a setting of Envoy's filter ext_authz",
        "timeout" => "it is a setting of Envoy's filter ext_authz, of its `grpc_service`",
        "shadow" => "did you mean `mode: shadow`?",
        "shadowMode" => "did you mean `mode: shadow`?",
        "dryRun" => "did you mean `mode: shadow`?",
        "failOpen" => "did you mean `errorMode: open`?",
        "defaultNamespace" => "it is a field of `spec`, beside `check`: indent it less",
    }
}

mixer_config::message! {
    /// The configuration of one log.
    pub struct LogName: "mixer.envoy.v1.Report.LogName" {
        /// `context.reporter.kind`; by default derived from the cluster name.
        1 reporter_kind: Option<ReporterKind> = None;
        /// Attributes of every entry, as text.
        2 static_attributes: BTreeMap<String, String> = BTreeMap::new();
    }
}

mixer_config::message! {
    /// The access log service.
    pub struct Report: "mixer.envoy.v1.Report" {
        /// Whether the service is enabled.
        1 enabled: bool = true;
        /// The access log types that are reported.
        2 access_log_types: Vec<String> = ["DownstreamEnd", "TcpUpstreamConnected", "TcpPeriodic", "TcpConnectionEnd"]
            .map(str::to_owned).to_vec();
        /// By log name.
        3 log_names: BTreeMap<String, LogName> = BTreeMap::new();
        /// Maximum number of TCP connections with counters, of each stream.
        4 tcp_state_entries: u32 = 100_000;
        /// Counters of an idle connection expire after this time.
        5 tcp_state_idle: SignedDuration = SignedDuration::from_secs(3600);
    }
}

mixer_config::message! {
    /// A quota of Mixer for descriptors.
    pub struct DescriptorQuota: "mixer.envoy.v1.RateLimit.Quota" {
        /// Exact, or `*`.
        1 domain: String = "*".to_owned();
        /// Required keys; a value may have `*` wildcards.
        2 entries: BTreeMap<String, String> = BTreeMap::new();
        /// The short name of a quota instance.
        3 quota: String = String::new();
    }
}

mixer_config::message! {
    /// Rate limit response headers.
    pub struct LimitHeaders: "mixer.envoy.v1.RateLimit.Headers" {
        /// Whether they are sent.
        1 enabled: bool = false;
        /// Name of the header for the limit.
        2 limit: String = "RateLimit-Limit".to_owned();
        /// Name of the header for the remaining requests.
        3 remaining: String = "RateLimit-Remaining".to_owned();
        /// Name of the header for the seconds until the window ends.
        4 reset: String = "RateLimit-Reset".to_owned();
    }
}

mixer_config::message! {
    /// The rate limit service.
    pub struct RateLimit: "mixer.envoy.v1.RateLimit" {
        /// Whether the service is enabled.
        1 enabled: bool = true;
        /// Quotas of Mixer for descriptors.
        2 quotas: Vec<DescriptorQuota> = Vec::new();
        /// The result of a descriptor without a configured limit.
        3 unmatched: Unmatched = Unmatched::Ok;
        /// Response headers.
        4 headers: LimitHeaders = LimitHeaders::default();
        /// Whether the response is always OK.
        5 shadow: bool = false;
        /// Hits above this share of a limit count as near the limit.
        6 near_limit_ratio: f64 = 0.8;
        /// Whether a request charges no limit if one of them is already over.
        7 stop_increment_when_over: bool = false;
        /// Whether several files may configure one domain.
        8 merge_domains: bool = false;
        /// The status of a descriptor whose quota cannot be allocated: over its limit, within, or an error of the call.
        9 error_mode: ErrorMode = ErrorMode::Closed;
    } elsewhere {
        "failureModeDeny" => "it is a setting of Envoy's filter, for calls without an answer; `errorMode` is the answer if a quota cannot be allocated",
        "rateLimitService" => "it is a setting of Envoy's filter ratelimit",
        "timeout" => "it is a setting of Envoy's filter ratelimit",
        "shadowMode" => "did you mean `shadow: true`?",
        "mode" => "did you mean `shadow: true`?",
        "dryRun" => "did you mean `shadow: true`?",
        "domain" => "limits of a domain are a resource of the kind `ratelimit`, or a file of envoyproxy/ratelimit",
        "descriptors" => "limits of a domain are a resource of the kind `ratelimit`, or a file of envoyproxy/ratelimit",
        "defaultNamespace" => "it is a field of `spec`, beside `ratelimit`: indent it less",
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
        /// The namespace of requests, descriptors and log entries that name none.
        4 default_namespace: String = String::new();
    } elsewhere {
        "mode" => "it is a field of `check`: `check: {mode: shadow}`",
        "errorMode" => "it is a field of `check`, and of `ratelimit`",
        "originIp" => "it is a field of `check`: `check: {originIp: 'xff:1'}`",
        "includeBody" => "it is a field of `check`: `check: {includeBody: true}`",
        "quotaSpec" => "it is a field of `check`: `check: {quotaSpec: […]}`",
        "cache" => "it is a field of `check`: `check: {cache: {entries: 10000}}`",
        "denyBody" => "it is a field of `check`: `check: {denyBody: json}`",
        "staticAttributes" => "it is a field of `check`, and of `report: {logNames: {NAME: {…}}}`",
        "shadow" => "it is a field of `ratelimit`: `ratelimit: {shadow: true}`; of checks it is `check: {mode: shadow}`",
        "quotas" => "it is a field of `ratelimit`: `ratelimit: {quotas: […]}`",
    }
}

mixer_config::message! {
    /// A path in metadata.
    pub struct MetadataPath: "mixer.envoy.v1.MetadataPath" {
        /// The namespace, usually the name of a filter.
        1 namespace: String = String::new();
        /// The keys that lead to the value.
        2 path: Vec<String> = Vec::new();
    }
}

mixer_config::message_enum! {
    /// A field of the downstream peer's certificate.
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
        /// The first e-mail address of the alternative names.
        8 "emailSan" EmailSan;
        /// The beginning of the validity.
        9 "notBefore" NotBefore;
        /// The end of the validity.
        10 "notAfter" NotAfter;
    }
}

mixer_config::message! {
    /// The source of a mapped attribute: exactly one of these.
    pub struct MappingSource: "mixer.envoy.v1.AttributeMapping.From" {
        /// A request header.
        1 request_header: Option<String> = None;
        /// A response header or trailer, of access logs.
        2 response_header: Option<String> = None;
        /// A query parameter.
        3 query_parameter: Option<String> = None;
        /// A cookie.
        4 cookie: Option<String> = None;
        /// A value of dynamic metadata.
        5 metadata: Option<MetadataPath> = None;
        /// A value of route metadata.
        6 route_metadata: Option<MetadataPath> = None;
        /// A field of the downstream peer's certificate.
        7 certificate: Option<CertificateField> = None;
        /// A context extension of checks, a custom tag of access logs, an entry of a rate-limit descriptor.
        8 extension: Option<String> = None;
    } elsewhere {
        "header" => "a header of the request is `requestHeader`, one of the response `responseHeader`",
        "claim" => "a claim is `metadata: {namespace: envoy.filters.http.jwt_authn, path: [jwt_payload, NAME]}`; `payload_in_metadata` of Envoy's provider names the first",
        "jwt" => "a claim is `metadata: {namespace: envoy.filters.http.jwt_authn, path: [jwt_payload, NAME]}`; `payload_in_metadata` of Envoy's provider names the first",
        "jwtClaim" => "a claim is `metadata: {namespace: envoy.filters.http.jwt_authn, path: [jwt_payload, NAME]}`; `payload_in_metadata` of Envoy's provider names the first",
    }
}

mixer_config::message! {
    /// One attribute.
    pub struct Mapping: "mixer.envoy.v1.AttributeMapping.Mapping" {
        /// Its name, which a manifest declares.
        1 attribute: String = String::new();
        /// The source of its value.
        2 from: MappingSource = MappingSource::default();
        /// The value if the source has none, as text.
        3 default: Option<String> = None;
        /// Whether it replaces a value that is already set.
        4 overwrite: bool = true;
        /// The value if what the source has is none of the type of the attribute, as text; without it, `default`.
        5 malformed: Option<String> = None;
    }
}

mixer_config::message! {
    /// The kind `attributemapping`.
    pub struct AttributeMapping: "mixer.envoy.v1.AttributeMapping" {
        /// In order; later ones override earlier ones.
        1 mappings: Vec<Mapping> = Vec::new();
    } elsewhere {
        "attribute" => "it is a field of an item: `mappings: [{attribute: NAME, from: {…}}]`",
        "from" => "it is a field of an item: `mappings: [{attribute: NAME, from: {…}}]`",
        "default" => "it is a field of an item: `mappings: [{attribute: NAME, from: {…}, default: …}]`",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use mixer_config::message::{Field, lower_camel};
    use mixer_config::store::is_field_of_spec;

    use super::super::descriptors::DomainConfig;
    use super::*;

    /// Fields of messages that the metadata of a resource has as well.
    const OF_METADATA: [&str; 5] = ["name", "namespace", "metadata", "labels", "annotations"];

    #[test]
    fn every_field_of_a_kind_is_known_where_it_lost_its_place() {
        type Messages = fn(&mut BTreeMap<&'static str, &'static [mixer_config::message::FieldInfo]>);
        let kinds: [(&str, Messages); 3] = [
            ("envoybridge", BridgeSettings::messages),
            ("attributemapping", AttributeMapping::messages),
            ("ratelimit", DomainConfig::messages),
        ];
        for (kind, messages) in kinds {
            let mut known = BTreeMap::new();
            messages(&mut known);
            let fields = known.values().flat_map(|fields| fields.iter());
            let names: BTreeSet<String> = fields.map(|field| lower_camel(field.name)).collect();
            let missing: Vec<&String> = names
                .iter()
                .filter(|name| !OF_METADATA.contains(&name.as_str()) && !is_field_of_spec(kind, name))
                .collect();
            assert!(names.len() > 5 && missing.is_empty(), "{kind}: {missing:?}");
        }
    }
}
