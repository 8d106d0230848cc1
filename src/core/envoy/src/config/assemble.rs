//! Assembles decoded resources and the vocabulary into one configuration.

mod namespaces;

use std::collections::BTreeMap;
use std::sync::Arc;

use self::namespaces::{SELECTORS, Selects};
use super::addresses::{HttpSourceIp, OriginIp};
use super::settings::{
    AttributeMapping, BridgeSettings, ErrorMode, Mapping, MappingSource, Mode, QuotaRule, StringMatch,
};
use super::{
    CheckQuota, CompiledMapping, Domain, EnvoyConfig, EnvoyResource, LimitsDocument, LogConfig, MappedFrom,
    QuotaSelector, StaticAttribute, TextTest, Wildcard, Written, pitfall,
};
use mixer_attribute::{OwnedValue, SlotId, ValueType, Vocabulary, typed_text};
use mixer_config::message::suggestion;
use mixer_config::{Diagnostic, Diagnostics, FieldPath, Positions, RawResource};
use mixer_engine::snapshot::{FailureAnswer, FailureMode, QuotaNamespaces, QuotaReference, Unenforced};
use mixer_expr::functions::Regex;

/// Names of access-log types by number.
const ACCESS_LOG_TYPES: [&str; 15] = [
    "NotSet",
    "TcpUpstreamConnected",
    "TcpPeriodic",
    "TcpConnectionEnd",
    "DownstreamStart",
    "DownstreamPeriodic",
    "DownstreamEnd",
    "UpstreamPoolReady",
    "UpstreamPeriodic",
    "UpstreamEnd",
    "DownstreamTunnelSuccessfullyEstablished",
    "UdpTunnelUpstreamConnected",
    "UdpPeriodic",
    "UdpSessionEnd",
    "TcpConnectionStart",
];

/// What follows from shadow mode of single limits.
const SHADOW_OF_LIMITS: &str =
    "limits with `shadow_mode: true` are counted, and what exceeds them is answered OK";
/// What follows from shadow mode of checks.
const SHADOW_CHECKS: &str = "`mode: shadow`: every check of Envoy is answered OK, whatever the rules say";
/// What follows from shadow mode of rate limits.
const SHADOW_LIMITS: &str =
    "`shadow: true`: every rate limit call of Envoy is answered OK, whatever the limits say";

/// The assembled configuration and its diagnostics.
#[derive(Debug, Default)]
pub(crate) struct Assembly {
    pub(crate) config: Arc<EnvoyConfig>,
    pub(crate) diagnostics: Diagnostics,
}

impl Assembly {
    /// Assembles resources, which are sorted by namespace and name. Settings and mappings are mesh-wide: only those in the default namespace
    /// are in effect, so that no other namespace can replace them.
    pub(crate) fn new(
        in_force: &[(&RawResource, &EnvoyResource)],
        vocabulary: &Vocabulary,
        default_namespace: &str,
    ) -> Self {
        let mut assembler = Assembler {
            vocabulary,
            config: EnvoyConfig::default(),
            diagnostics: Vec::new(),
            positions: Positions::default(),
            patterns: 0,
            selects: Selects::default(),
            maps_namespace: in_force.iter().any(|(resource, state)| {
                let EnvoyResource::Mapping(mapping) = state else { return false };
                let sets = |mapping: &Mapping| SELECTORS.contains(&mapping.attribute.as_str());
                *resource.key.namespace == *default_namespace && mapping.mappings.iter().any(sets)
            }),
        };
        let mut domains: BTreeMap<String, Domain> = BTreeMap::new();
        let mut settings = Vec::new();
        let mut others = Vec::new();
        for (resource, state) in in_force {
            let is_mesh_wide = *resource.key.namespace == *default_namespace;
            match state {
                EnvoyResource::Settings(_) | EnvoyResource::Mapping(_) if !is_mesh_wide => {
                    assembler.foreign(resource, default_namespace);
                }
                EnvoyResource::Settings(state) => settings.push((*resource, &**state)),
                _ => others.push((*resource, *state)),
            }
        }
        assembler.settings(&settings);
        assembler.missing_namespace(in_force);
        for (resource, state) in others {
            match state {
                EnvoyResource::Mapping(mapping) => assembler.mapping(resource, mapping),
                EnvoyResource::Domain { name, descriptors, pitfalls } => {
                    pitfalls.iter().for_each(|problem| assembler.problem(Some(resource), problem.clone()));
                    let domain = Domain {
                        name: name.clone(),
                        descriptors: descriptors.clone(),
                        written: written(resource, resource.origin.document_line()),
                        documents: vec![LimitsDocument {
                            resource: resource.key.to_string(),
                            file: Arc::clone(&resource.origin.file),
                            first_line: resource.origin.first_line,
                        }],
                    };
                    assembler.domain(resource, domain, &mut domains);
                }
                EnvoyResource::Settings(_) => {}
            }
        }
        let Assembler { mut config, diagnostics, .. } = assembler;
        config.domains =
            domains.into_iter().map(|(name, domain)| (name.into_bytes().into(), Arc::new(domain))).collect();
        Self { config: Arc::new(config), diagnostics }
    }
}

fn place(resource: &RawResource, line: u32) -> String {
    match line {
        0 => resource.origin.file.to_string(),
        line => format!("{}:{line}", resource.origin.file),
    }
}

fn written(resource: &RawResource, line: u32) -> Written {
    Written { resource: resource.key.to_string(), place: place(resource, line) }
}

/// Whether values of a type are texts.
fn is_text(value_type: ValueType) -> bool {
    matches!(value_type, ValueType::String | ValueType::Uri | ValueType::DnsName | ValueType::EmailAddress)
}

struct Assembler<'v> {
    vocabulary: &'v Vocabulary,
    config: EnvoyConfig,
    diagnostics: Diagnostics,
    positions: Positions,
    /// The number of patterns so far.
    patterns: usize,
    /// Whether a mapping sets the namespace that selects rules.
    maps_namespace: bool,
    /// Which attributes select the rules of checks.
    selects: Selects,
}

impl Assembler<'_> {
    /// Adds a problem of a resource, placed in its file.
    fn problem(&mut self, resource: Option<&RawResource>, problem: Diagnostic) {
        let Some(resource) = resource else { return };
        self.diagnostics.push(self.positions.place(problem, &resource.key, &resource.origin));
    }

    /// Where a field is written.
    fn written(&mut self, resource: Option<&RawResource>, field: &FieldPath) -> Written {
        let Some(resource) = resource else { return Written::default() };
        written(resource, self.positions.span(&resource.origin, field).start.line)
    }

    /// A resource that must be in the default namespace and is not.
    fn foreign(&mut self, resource: &RawResource, default_namespace: &str) {
        let text =
            format!("{} outside of the namespace `{default_namespace}` has no effect", resource.key.kind);
        let field = FieldPath::root().field("metadata").field("namespace");
        let hint = format!("it is for the whole mesh: write `namespace: {default_namespace}`");
        self.problem(Some(resource), Diagnostic::error("envoy-namespace", field, text).with_hint(hint));
    }

    /// Applies the settings. Of several the first counts; each of them is an error.
    fn settings(&mut self, found: &[(&RawResource, &BridgeSettings)]) {
        match found.first() {
            Some((resource, settings)) => self.apply(settings, Some(resource)),
            None => self.apply(&BridgeSettings::default(), None),
        }
        for (resource, _) in found.iter().filter(|_| found.len() > 1) {
            let others = found.iter().filter(|(other, _)| other.key != resource.key);
            let others: Vec<String> = others.map(|(other, _)| other.key.to_string()).collect();
            let text = format!("there is another envoybridge: {}", others.join(", "));
            let field = FieldPath::root().field("metadata").field("name");
            let problem = Diagnostic::error("envoy-settings-twice", field, text)
                .with_hint("keep one envoybridge, with the settings of both");
            self.problem(Some(resource), problem);
        }
    }

    fn apply(&mut self, settings: &BridgeSettings, resource: Option<&RawResource>) {
        let spec = FieldPath::root().field("spec");
        let (check, report, limits) = (spec.field("check"), spec.field("report"), spec.field("ratelimit"));
        self.config.settings = settings.clone();
        self.selects = Selects::of(&settings.check);
        self.settings_namespaces(settings, resource);
        self.unenforced(settings, resource);
        self.failure_mode(settings, resource);
        self.config.origin_ip = OriginIp::parse(&settings.check.origin_ip).unwrap_or_else(|| {
            let text = format!("`{}` is not a source of origin.ip", settings.check.origin_ip);
            let problem =
                Diagnostic::error("envoy-setting", check.field("originIp"), text).with_hint(OriginIp::HINT);
            self.problem(resource, problem);
            OriginIp::default()
        });
        self.config.http_source_ip =
            HttpSourceIp::parse(&settings.check.http_source_ip).unwrap_or_else(|| {
                let text =
                    format!("`{}` is not a source of source.ip over HTTP", settings.check.http_source_ip);
                let field = check.field("httpSourceIp");
                let problem = Diagnostic::error("envoy-setting", field, text).with_hint(HttpSourceIp::HINT);
                self.problem(resource, problem);
                HttpSourceIp::default()
            });
        let prefix = &settings.check.http_path_prefix;
        if !prefix.is_empty() && !prefix.starts_with('/') {
            let text =
                format!("`{prefix}` does not begin with `/`: every check over HTTP would be outside of it");
            let field = check.field("httpPathPrefix");
            let problem =
                Diagnostic::error("envoy-setting", field, text).with_hint(format!("write `/{prefix}`"));
            self.problem(resource, problem);
            self.config.settings.check.http_path_prefix = BridgeSettings::default().check.http_path_prefix;
        }
        let field = check.field("staticAttributes");
        self.config.static_attributes = self.constants(&settings.check.static_attributes, &field, resource);
        self.config.access_log_types =
            self.access_log_types(&settings.report.access_log_types, &report, resource);
        for (name, log) in &settings.report.log_names {
            let field = report.field("logNames").key(name).field("staticAttributes");
            let log = LogConfig {
                reporter_kind: log.reporter_kind,
                static_attributes: self.constants(&log.static_attributes, &field, resource),
            };
            self.config.log_names.insert(name.clone(), log);
        }
        for (index, spec) in settings.check.quota_spec.iter().enumerate() {
            for (number, rule) in spec.rules.iter().enumerate() {
                let field = check.field("quotaSpec").index(index).field("rules").index(number);
                for problem in pitfall::empty_tests(rule, &field) {
                    self.problem(resource, problem);
                }
                let compiled = self.quota_rule(rule, &field, resource);
                self.config.check_quotas.extend(compiled);
            }
        }
        for (index, quota) in settings.ratelimit.quotas.iter().enumerate() {
            let field = limits.field("quotas").index(index);
            if quota.quota.is_empty() {
                let problem = Diagnostic::error("envoy-setting", field.clone(), "the entry has no quota")
                    .with_hint("add `quota:` with the name of a quota instance");
                self.problem(resource, problem);
                continue;
            }
            let namespaces = self.namespaces_of_descriptors(&quota.entries, settings);
            let selector = Some(self.config.quotas.len());
            self.quota_name((&quota.quota, selector), namespaces, field.field("quota"), resource);
            if let Some(problem) = pitfall::domain(&quota.domain, field.field("domain")) {
                self.problem(resource, problem);
            }
            for (key, value) in &quota.entries {
                if let Some(problem) = pitfall::expression(value, field.field("entries").key(key)) {
                    self.problem(resource, problem);
                }
            }
            let written = self.written(resource, &field);
            let selector = QuotaSelector {
                domain: quota.domain.clone(),
                entries: quota.entries.iter().map(|(k, v)| (k.clone(), Wildcard::new(v))).collect(),
                quota: quota.quota.clone(),
                written,
            };
            if let Some(problem) = pitfall::shadowed(&selector, &self.config.quotas, field) {
                self.problem(resource, problem);
            }
            self.config.quotas.push(selector);
        }
    }

    /// Notes by which settings denials and limits are not enforced.
    fn unenforced(&mut self, settings: &BridgeSettings, resource: Option<&RawResource>) {
        let Some(resource) = resource else { return };
        let spec = FieldPath::root().field("spec");
        for (is_set, field, what) in [
            (
                settings.check.mode == Mode::Shadow,
                spec.field("check").field("mode"),
                ("check", SHADOW_CHECKS),
            ),
            (
                settings.ratelimit.shadow,
                spec.field("ratelimit").field("shadow"),
                ("ratelimit", SHADOW_LIMITS),
            ),
        ] {
            if is_set {
                self.config.unenforced.push(Unenforced::service(what, resource, field, &self.positions));
            }
        }
    }

    /// Notes what checks get whose evaluation fails.
    fn failure_mode(&mut self, settings: &BridgeSettings, resource: Option<&RawResource>) {
        if !settings.check.enabled {
            return;
        }
        let (answer, setting) = match settings.check.error_mode {
            ErrorMode::Delegate => (FailureAnswer::Error, "`errorMode: delegate`"),
            ErrorMode::Open => (FailureAnswer::Ok, "`errorMode: open`"),
            ErrorMode::Closed => (FailureAnswer::Refusal, "`errorMode: closed`"),
        };
        let check = FieldPath::root().field("spec").field("check");
        let field = check.field("errorMode");
        let is_there = |resource: &RawResource| {
            // For what is not there, its parent is found.
            let root = resource.document();
            !std::ptr::eq(root.at(&field), root.at(&check))
        };
        let is_written = resource.is_some_and(is_there);
        let place = self.written(resource, &field).place;
        self.config.failure_mode = Some(FailureMode { answer, setting, is_written, place });
    }

    /// Notes a quota, which must be configured by a rule.
    fn quota_name(
        &mut self,
        (name, selector): (&str, Option<usize>),
        namespaces: QuotaNamespaces,
        field: FieldPath,
        resource: Option<&RawResource>,
    ) {
        let Some(resource) = resource else { return };
        let text = format!("no rule configures the quota `{name}`: nothing would be charged to it");
        let problem = Diagnostic::error("quota-unknown", field, text);
        let problem = self.positions.place(problem, &resource.key, &resource.origin);
        self.config.quota_names.push(QuotaReference { name: name.to_owned(), namespaces, problem, selector });
    }

    fn access_log_types(
        &mut self,
        names: &[String],
        report: &FieldPath,
        resource: Option<&RawResource>,
    ) -> u64 {
        // Versions of Envoy without the field send 0 for the final entry.
        let mut mask = 1;
        for (index, name) in names.iter().enumerate() {
            match ACCESS_LOG_TYPES.iter().position(|known| known == name) {
                Some(number) => mask |= 1 << number,
                None => {
                    let field = report.field("accessLogTypes").index(index);
                    let text = format!("unknown access log type `{name}`");
                    let hint = suggestion(name, ACCESS_LOG_TYPES)
                        .unwrap_or_else(|| format!("known are {}", ACCESS_LOG_TYPES.join(", ")));
                    self.problem(resource, Diagnostic::error("envoy-setting", field, text).with_hint(hint));
                }
            }
        }
        mask
    }

    /// The slot and type of a declared attribute; a problem if there is none.
    fn declared(
        &mut self,
        name: &str,
        field: FieldPath,
        resource: Option<&RawResource>,
    ) -> Option<(SlotId, ValueType)> {
        let slot = self.vocabulary.slot(name.as_bytes());
        let found = slot.and_then(|slot| Some((slot, self.vocabulary.value_type(slot)?)));
        if found.is_none() {
            let hint = suggestion(name, self.vocabulary.typed().map(|(name, _)| name)).unwrap_or_else(|| {
                "declare it in an attributemanifest, or use one that is declared".to_owned()
            });
            let text = format!("attribute `{name}` is not declared");
            self.problem(resource, Diagnostic::error("attribute-unknown", field, text).with_hint(hint));
        }
        found
    }

    fn constants(
        &mut self,
        texts: &BTreeMap<String, String>,
        field: &FieldPath,
        resource: Option<&RawResource>,
    ) -> Vec<StaticAttribute> {
        let mut constants = Vec::new();
        for (name, text) in texts {
            let field = field.key(name);
            let Some((slot, value_type)) = self.declared(name, field.clone(), resource) else { continue };
            if let Some(value) = self.constant(name, text, value_type, field, resource) {
                constants.push(StaticAttribute { name: name.as_str().into(), slot: Some(slot), value });
            }
        }
        constants
    }

    fn constant(
        &mut self,
        name: &str,
        text: &str,
        value_type: ValueType,
        field: FieldPath,
        resource: Option<&RawResource>,
    ) -> Option<OwnedValue> {
        let arena = bumpalo::Bump::new();
        let value = typed_text(text.as_bytes(), value_type, &arena).map(OwnedValue::from);
        if value.is_none() {
            let text = format!("`{text}` is not a valid {value_type}, the type of attribute `{name}`");
            let problem = Diagnostic::error("envoy-value-type", field, text).with_hint(example(value_type));
            self.problem(resource, problem);
        }
        value
    }

    fn quota_rule(
        &mut self,
        rule: &QuotaRule,
        field: &FieldPath,
        resource: Option<&RawResource>,
    ) -> Option<CheckQuota> {
        let mut matches = Vec::new();
        for (index, clause) in rule.matches.iter().enumerate() {
            let mut tests = Vec::new();
            for (name, test) in &clause.clause {
                let field = field.field("match").index(index).field("clause").key(name);
                let (slot, value_type) = self.declared(name, field.clone(), resource)?;
                if !is_text(value_type) {
                    let text = format!(
                        "attribute `{name}` is {value_type}: a clause tests STRING attributes, and would never match"
                    );
                    let hint = "test a STRING attribute; an attributemapping can set one from a header or a part of the path";
                    self.problem(
                        resource,
                        Diagnostic::error("envoy-value-type", field, text).with_hint(hint),
                    );
                    return None;
                }
                self.patterns += usize::from(test.regex.is_some());
                let compiled = match self.patterns {
                    0..=MAX_PATTERNS => text_test(test),
                    _ => Err(format!("more than {MAX_PATTERNS} regular expressions")),
                };
                match compiled {
                    Ok(compiled) => {
                        tests.push((slot, compiled));
                        if let Some(problem) = pitfall::clause(name, test, field) {
                            self.problem(resource, problem);
                        }
                    }
                    Err(text) => {
                        let problem = Diagnostic::error("envoy-setting", field, text)
                            .with_hint("give exactly one of exact, prefix and regex");
                        self.problem(resource, problem);
                        return None;
                    }
                }
            }
            matches.push(tests);
        }
        for (index, quota) in rule.quotas.iter().enumerate() {
            let field = field.field("quotas").index(index);
            if quota.charge < 1 {
                let text = format!("the charge is {}: nothing would be charged", quota.charge);
                let problem = Diagnostic::error("envoy-setting", field.field("charge"), text)
                    .with_hint("write a whole number from 1, or leave it out for 1");
                self.problem(resource, problem);
            }
            self.quota_name((&quota.quota, None), QuotaNamespaces::Any, field.field("quota"), resource);
        }
        let quotas = rule.quotas.iter().map(|q| (q.quota.clone(), q.charge)).collect();
        Some(CheckQuota { matches, quotas, written: self.written(resource, field) })
    }

    fn mapping(&mut self, resource: &RawResource, mapping: &AttributeMapping) {
        for (index, mapping) in mapping.mappings.iter().enumerate() {
            let field = FieldPath::root().field("spec").field("mappings").index(index);
            let compiled = self.compile(mapping, &field, resource);
            self.config.mappings.extend(compiled);
        }
    }

    fn compile(
        &mut self,
        mapping: &Mapping,
        field: &FieldPath,
        resource: &RawResource,
    ) -> Option<CompiledMapping> {
        let name = &mapping.attribute;
        let (slot, value_type) = self.declared(name, field.field("attribute"), Some(resource))?;
        let source = match mapped_from(&mapping.from) {
            Ok(source) => source,
            Err(text) => {
                let problem = Diagnostic::error("mapping-source", field.field("from"), text).with_hint(
                    "give exactly one of requestHeader, responseHeader, queryParameter, cookie, metadata, \
                     routeMetadata, certificate and extension",
                );
                self.problem(Some(resource), problem);
                return None;
            }
        };
        if let Err((text, hint)) = fits(&source, value_type, name) {
            let problem = Diagnostic::error("mapping-type", field.field("attribute"), text).with_hint(hint);
            self.problem(Some(resource), problem);
            return None;
        }
        if let Some(problem) = pitfall::claimed(name, &source, field.field("from")) {
            self.problem(Some(resource), problem);
        }
        let mut constant = |text: &Option<String>, member: &str| {
            let Some(text) = text else { return Some(None) };
            if self.selects.has(name) {
                self.names_namespace(text, field.field(member), Some(resource));
            }
            self.constant(name, text, value_type, field.field(member), Some(resource)).map(Some)
        };
        let default = constant(&mapping.default, "default")?;
        let malformed = constant(&mapping.malformed, "malformed")?;
        let line = self.positions.span(&resource.origin, field).start.line;
        Some(CompiledMapping {
            attribute: name.as_str().into(),
            slot,
            value_type,
            source,
            default,
            malformed,
            overwrite: mapping.overwrite,
            resource: resource.key.clone(),
            place: place(resource, line),
        })
    }

    fn domain(&mut self, resource: &RawResource, domain: Domain, domains: &mut BTreeMap<String, Domain>) {
        let has_shadows = domain.descriptors.limits().iter().any(|limit| limit.shadow_mode);
        let is_in_force = !domains.contains_key(&domain.name) || self.config.settings.ratelimit.merge_domains;
        if has_shadows && is_in_force {
            self.config.unenforced.push(Unenforced::limits(SHADOW_OF_LIMITS, resource));
        }
        let Some(first) = domains.get_mut(&domain.name) else {
            domains.insert(domain.name.clone(), domain);
            return;
        };
        if self.config.settings.ratelimit.merge_domains {
            first.documents.extend(domain.documents);
            for key in first.descriptors.merge(domain.descriptors) {
                let text = format!("duplicate descriptor composite key '{key}'");
                let hint = format!("the limit in {} counts; remove one of them", first.written.place);
                let problem = Diagnostic::error("ratelimit-descriptor", domain_field(resource), text);
                self.problem(Some(resource), problem.with_hint(hint));
            }
            return;
        }
        let text = format!("duplicate domain '{}' in config file", domain.name);
        let hint = format!(
            "the limits in {} count; merge them, or set ratelimit.mergeDomains in the envoybridge",
            first.written.place
        );
        let problem = Diagnostic::error("ratelimit-descriptor", domain_field(resource), text);
        self.problem(Some(resource), problem.with_hint(hint));
    }
}

/// The field of a limits file with its domain.
fn domain_field(resource: &RawResource) -> FieldPath {
    let root = FieldPath::root();
    if resource.document().get("spec").is_some() {
        root.field("spec").field("domain")
    } else {
        root.field("domain")
    }
}

/// Maximum number of patterns.
const MAX_PATTERNS: usize = 256;

fn text_test(test: &StringMatch) -> Result<TextTest, String> {
    match (&test.exact, &test.prefix, &test.regex) {
        (Some(exact), None, None) => Ok(TextTest::Exact(exact.clone())),
        (None, Some(prefix), None) => Ok(TextTest::Prefix(prefix.clone())),
        (None, None, Some(regex)) => {
            let whole = format!("^(?:{regex})$");
            // By itself, too: `a)|(b` is none.
            let compiled = Regex::compile(regex.as_bytes()).and_then(|_| Regex::compile(whole.as_bytes()));
            compiled
                .map(|compiled| TextTest::Regex(compiled, whole))
                .map_err(|why| format!("`{regex}`: {why}"))
        }
        _ => Err("a test has exactly one kind".to_owned()),
    }
}

fn mapped_from(from: &MappingSource) -> Result<MappedFrom, String> {
    let header = |name: &String| name.to_ascii_lowercase().into_boxed_str();
    let path = |steps: &[String]| steps.iter().map(|step| step.as_str().into()).collect();
    let given = [
        from.request_header.as_ref().map(|name| MappedFrom::RequestHeader(header(name))),
        from.response_header.as_ref().map(|name| MappedFrom::ResponseHeader(header(name))),
        from.query_parameter.as_ref().map(|name| MappedFrom::QueryParameter(name.as_str().into())),
        from.cookie.as_ref().map(|name| MappedFrom::Cookie(name.as_str().into())),
        from.metadata.as_ref().map(|m| MappedFrom::Metadata(m.namespace.as_str().into(), path(&m.path))),
        from.route_metadata
            .as_ref()
            .map(|m| MappedFrom::RouteMetadata(m.namespace.as_str().into(), path(&m.path))),
        from.certificate.map(MappedFrom::Certificate),
        from.extension.as_ref().map(|name| MappedFrom::Extension(name.as_str().into())),
    ];
    let mut given = given.into_iter().flatten();
    match (given.next(), given.next()) {
        (Some(source), None) => Ok(source),
        (None, _) => Err("the mapping does not say where the attribute comes from".to_owned()),
        (Some(first), Some(second)) => Err(format!("the mapping names two sources, {first} and {second}")),
    }
}

/// Whether values of a source can have a type; else why not, and what to do.
fn fits(source: &MappedFrom, value_type: ValueType, name: &str) -> Result<(), (String, String)> {
    let is_map = value_type == ValueType::StringMap;
    match source {
        MappedFrom::Metadata(..) | MappedFrom::RouteMetadata(..) => Ok(()),
        MappedFrom::Certificate(field) => {
            use super::CertificateField::{NotAfter, NotBefore};
            let is_time = matches!(field, NotAfter | NotBefore);
            if is_text(value_type) || (is_time && value_type == ValueType::Timestamp) {
                return Ok(());
            }
            let wanted = if is_time { "STRING or TIMESTAMP" } else { "STRING" };
            let text = format!("attribute `{name}` is {value_type}, but {source} is {wanted}");
            Err((text, format!("declare `{name}` as {wanted} in its attributemanifest")))
        }
        _ if is_map => {
            let text = format!("attribute `{name}` is STRING_MAP, but {source} is one text");
            Err((text, "map it from metadata, or declare the attribute with another type".to_owned()))
        }
        _ => Ok(()),
    }
}

/// How a value of a type is written.
fn example(value_type: ValueType) -> &'static str {
    match value_type {
        ValueType::Int64 => "write a whole number, for example \"42\"",
        ValueType::Double => "write a number, for example \"0.5\"",
        ValueType::Bool => "write \"true\" or \"false\"",
        ValueType::Timestamp => "write an instant, for example \"2026-01-31T12:00:00Z\"",
        ValueType::Duration => "write a number and a unit, for example \"1.5s\"",
        ValueType::IpAddress => "write an address, for example \"10.0.0.1\"",
        ValueType::StringMap => "maps cannot be written as one text",
        _ => "write a text",
    }
}

#[cfg(test)]
mod tests {
    use bumpalo::Bump;
    use mixer_attribute::AttributeBag;

    use super::*;

    /// What a caller sends saves nobody a charge.
    #[test]
    fn a_clause_that_takes_too_long_to_search_may_hold() {
        let (vocabulary, arena) = (Vocabulary::builder().build(), Bump::new());
        let bag = AttributeBag::empty(&vocabulary, &arena);
        let clause = |regex: &str| {
            let test = StringMatch { regex: Some(regex.to_owned()), ..StringMatch::default() };
            text_test(&test)
        };
        let noise: Vec<u8> = (0..4000_usize).map(|n| b"ab"[n.wrapping_mul(2_654_435_761) >> 7 & 1]).collect();
        let costly = clause(".*.{0,1000}a.{0,1000}b.{0,1000}z").unwrap();
        assert!(costly.may_hold(&noise, &bag), "it is not searched");
        let bag = AttributeBag::empty(&vocabulary, &arena);
        assert!(!costly.may_hold(&noise[..50], &bag));
        let bot = clause("bot/[0-9]+").unwrap();
        for (text, holds) in [("bot/7", true), ("a bot/7", false), ("bot/7 ", false), ("bot/\u{663}", false)]
        {
            assert_eq!(bot.may_hold(text.as_bytes(), &bag), holds, "{text}");
        }
        assert!(clause("a)|(b").is_err());
        let why = clause("a[").unwrap_err();
        assert!(why.starts_with("`a[`: error parsing regexp: missing closing ]"), "{why}");
    }
}
