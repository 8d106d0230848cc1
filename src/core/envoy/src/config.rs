//! The configuration of Envoy's services: the kinds `envoybridge`, `attributemapping` and `ratelimit`, validated and compiled.
//!
//! Each resource is decoded by itself, so that the result can be memoised. [`EnvoyConfig`] is assembled from all of them and the
//! vocabulary. See docs/envoy.md.

mod addresses;
mod assemble;
mod descriptors;
pub(crate) mod http_paths;
mod manifest;
mod outline;
mod pitfall;
mod replacements;
pub(crate) mod settings;
mod wildcard;
mod written;

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use foldhash::HashMap;

use mixer_attribute::{AttributeBag, OwnedValue, SlotId, ValueType, Vocabulary};
use mixer_base::secrets::is_secret;
use mixer_config::message::{Message, decode_over};
use mixer_config::{Diagnostic, Diagnostics, FieldPath, Node, NodeKind, RawResource, ResourceKey};
use mixer_engine::snapshot::{
    ChargedAttribute, ConstantDimension, DecodedResource, ExtensionConfig, FailureMode, IncompleteAttribute,
    MappingOutline, NamespaceReference, QuotaReference, RequestNamespace, ResourceProblems, Snapshot,
    SnapshotExtension, Unenforced,
};
use mixer_expr::functions::{Regex, TooCostly};

use crate::known::known_types;
pub(crate) use addresses::{HttpSourceIp, OriginIp};
use assemble::Assembly;
pub use descriptors::Unit;
pub(crate) use descriptors::{DescriptorTree, Limit};
use manifest::BUILT_IN;
use outline::outline;
pub(crate) use settings::{
    AttributeMapping, BridgeSettings, CertificateField, DenyBody, ErrorMode, Mode, Principal, ReporterKind,
    Unmatched,
};
pub(crate) use wildcard::{Exhausted, Search, Wildcard};

/// The kinds of resources.
const KINDS: [&str; 3] = ["envoybridge", "attributemapping", "ratelimit"];

/// The compiled configuration of Envoy's services.
#[derive(Debug, Clone, Default)]
pub struct EnvoyConfig {
    /// The settings of the `envoybridge` in the default namespace, or the defaults.
    pub settings: BridgeSettings,
    /// The source of `origin.ip`.
    pub(crate) origin_ip: OriginIp,
    /// The source of `source.ip` of checks over HTTP.
    pub(crate) http_source_ip: HttpSourceIp,
    /// Attributes of every check.
    pub(crate) static_attributes: Vec<StaticAttribute>,
    /// The access log types that are reported: bit N for number N.
    pub access_log_types: u64,
    /// By log name.
    pub(crate) log_names: BTreeMap<String, LogConfig>,
    /// Quotas that checks take.
    pub(crate) check_quotas: Vec<CheckQuota>,
    /// Mapped attributes, in the order in which they are set.
    pub(crate) mappings: Vec<CompiledMapping>,
    /// Quotas of Mixer for descriptors; the first match counts.
    pub(crate) quotas: Vec<QuotaSelector>,
    /// Limits by domain.
    pub(crate) domains: HashMap<Box<[u8]>, Arc<Domain>>,
    /// The quotas of `check_quotas` and `quotas`.
    quota_names: Vec<QuotaReference>,
    /// The settings by which denials and limits are not enforced.
    unenforced: Vec<Unenforced>,
    /// What checks get whose evaluation fails; `None` without settings, and while checks are disabled.
    failure_mode: Option<FailureMode>,
    /// Whether there is any resource for Envoy.
    is_configured: bool,
    /// Whether there are settings or mappings, and checks are enabled: requests of Envoy are expected to be checked.
    has_checks: bool,
    /// The problem of requests without a namespace, unless the configuration names one in another way than by `defaultNamespace`: that
    /// they are refused.
    namespace_problem: Option<Diagnostic>,
    /// The namespaces that it gives checks.
    namespaces: Vec<NamespaceReference>,
}

/// The limits of a domain.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Domain {
    /// Its name.
    pub(crate) name: String,
    /// The first level of descriptor entries.
    pub(crate) descriptors: DescriptorTree,
    /// The resource; of several with one name, the first.
    pub(crate) written: Written,
    /// The documents of all of them.
    pub(crate) documents: Vec<LimitsDocument>,
}

/// Where the document of a resource with limits is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LimitsDocument {
    /// The full name of the resource.
    pub(crate) resource: String,
    /// The file.
    pub(crate) file: Arc<str>,
    /// The line of the file at which the document begins, from 1; 0 if it has no lines.
    pub(crate) first_line: u32,
}

impl Domain {
    /// Where a limit of it is written.
    pub(crate) fn written(&self, limit: &Limit) -> Written {
        let document = self.documents.iter().find(|document| *document.resource == *limit.resource);
        let Some(LimitsDocument { resource, file, first_line }) = document else {
            return self.written.clone();
        };
        let place = match (first_line, limit.line) {
            (0, _) | (_, 0) => file.to_string(),
            (first, line) => format!("{file}:{}", first.saturating_add(line - 1)),
        };
        Written { resource: resource.clone(), place }
    }
}

/// Where something is written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Written {
    /// The full name of the resource.
    pub(crate) resource: String,
    /// `file:line`.
    pub(crate) place: String,
}

/// A configured attribute.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StaticAttribute {
    /// Its name.
    pub(crate) name: Box<str>,
    /// Its slot, if it is declared.
    pub(crate) slot: Option<SlotId>,
    /// Its value; never a map.
    pub(crate) value: OwnedValue,
}

/// The configuration of one log.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct LogConfig {
    /// The direction; `None` derives it from the cluster name.
    pub(crate) reporter_kind: Option<ReporterKind>,
    /// Attributes of every entry.
    pub(crate) static_attributes: Vec<StaticAttribute>,
}

/// Quotas for the checks that match.
#[derive(Debug, Clone)]
pub(crate) struct CheckQuota {
    /// Alternatives, each with tests that must all hold; empty means every request.
    pub(crate) matches: Vec<Vec<(SlotId, TextTest)>>,
    /// Names and amounts.
    pub(crate) quotas: Vec<(String, i64)>,
    /// Its rule.
    pub(crate) written: Written,
}

/// A test of a string attribute.
#[derive(Debug, Clone)]
pub(crate) enum TextTest {
    /// Equality.
    Exact(String),
    /// A prefix.
    Prefix(String),
    /// A regular expression for the whole string, and its text.
    Regex(Regex, String),
}

impl TextTest {
    /// Whether it holds, or is not known to hold not: beyond the [limits](Regex::search) of a request nothing is searched, and what a caller sends
    /// saves nobody a charge.
    pub(crate) fn may_hold(&self, text: &[u8], bag: &AttributeBag<'_>) -> bool {
        match self {
            TextTest::Exact(exact) => exact.as_bytes() == text,
            TextTest::Prefix(prefix) => text.starts_with(prefix.as_bytes()),
            TextTest::Regex(regex, _) => regex.search(text, bag).unwrap_or_else(|TooCostly| {
                let (bytes, limit) = (text.len(), bag.search_limit());
                mixer_base::warn_limited!(
                    1,
                    bytes,
                    limit,
                    "a clause of quotaSpec is taken to match a text that is not searched"
                );
                true
            }),
        }
    }
}

/// A mapped attribute.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CompiledMapping {
    /// The attribute.
    pub(crate) attribute: Box<str>,
    /// Its slot.
    pub(crate) slot: SlotId,
    /// Its type.
    pub(crate) value_type: ValueType,
    /// The source of its value.
    pub(crate) source: MappedFrom,
    /// The value if the source has none.
    pub(crate) default: Option<OwnedValue>,
    /// The value if that of the source is none of the type; `None`: the default.
    pub(crate) malformed: Option<OwnedValue>,
    /// Whether it replaces a value that is already set.
    pub(crate) overwrite: bool,
    /// The resource with the mapping.
    pub(crate) resource: ResourceKey,
    /// `file:line` of the mapping.
    pub(crate) place: String,
}

/// The source of a mapped attribute. Names of headers are in lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum MappedFrom {
    /// A request header.
    RequestHeader(Box<str>),
    /// A response header or trailer.
    ResponseHeader(Box<str>),
    /// A query parameter.
    QueryParameter(Box<str>),
    /// A cookie.
    Cookie(Box<str>),
    /// Namespace and path of dynamic metadata.
    Metadata(Box<str>, Vec<Box<str>>),
    /// Namespace and path of route metadata.
    RouteMetadata(Box<str>, Vec<Box<str>>),
    /// A field of the downstream peer's certificate.
    Certificate(CertificateField),
    /// A context extension, custom tag or descriptor entry.
    Extension(Box<str>),
}

impl MappedFrom {
    /// Whether its values are secret: those of every cookie, and those of a source with the name of a secret.
    fn is_secret(&self) -> bool {
        match self {
            MappedFrom::Cookie(_) => true,
            MappedFrom::RequestHeader(name)
            | MappedFrom::ResponseHeader(name)
            | MappedFrom::QueryParameter(name)
            | MappedFrom::Extension(name) => is_secret(name),
            MappedFrom::Metadata(_, path) | MappedFrom::RouteMetadata(_, path) => {
                path.last().is_some_and(|step| is_secret(step))
            }
            MappedFrom::Certificate(_) => false,
        }
    }
}

impl std::fmt::Display for MappedFrom {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let path = |f: &mut std::fmt::Formatter<'_>, what: &str, namespace: &str, path: &[Box<str>]| {
            write!(f, "{what} {namespace}")?;
            path.iter().try_for_each(|step| write!(f, ".{step}"))
        };
        match self {
            MappedFrom::RequestHeader(name) => write!(f, "request header {name}"),
            MappedFrom::ResponseHeader(name) => write!(f, "response header {name}"),
            MappedFrom::QueryParameter(name) => write!(f, "query parameter {name}"),
            MappedFrom::Cookie(name) => write!(f, "cookie {name}"),
            MappedFrom::Metadata(namespace, steps) => path(f, "metadata", namespace, steps),
            MappedFrom::RouteMetadata(namespace, steps) => path(f, "route metadata", namespace, steps),
            MappedFrom::Certificate(field) => write!(f, "certificate {}", field.name()),
            MappedFrom::Extension(name) => write!(f, "extension {name}"),
        }
    }
}

/// A quota of Mixer for descriptors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct QuotaSelector {
    /// Exact, or `*`.
    pub(crate) domain: String,
    /// Required keys, and patterns of their values.
    pub(crate) entries: Vec<(String, Wildcard)>,
    /// The short name of a quota instance.
    pub(crate) quota: String,
    /// The selector.
    pub(crate) written: Written,
}

/// A decoded resource.
#[derive(Debug)]
pub(crate) enum EnvoyResource {
    Settings(Box<BridgeSettings>),
    Mapping(AttributeMapping),
    /// Limits, and warnings about them.
    Domain {
        name: String,
        descriptors: DescriptorTree,
        pitfalls: Diagnostics,
    },
}

/// The configuration of Envoy's services in a snapshot; the defaults if it has none.
pub fn config_of(snapshot: &Snapshot) -> &EnvoyConfig {
    static DEFAULT: LazyLock<EnvoyConfig> = LazyLock::new(EnvoyConfig::default);
    snapshot.extension().unwrap_or(&DEFAULT)
}

impl ExtensionConfig for EnvoyConfig {
    fn outline(&self, vocabulary: &Vocabulary) -> Vec<MappingOutline> {
        outline(self, vocabulary)
    }

    fn quotas(&self) -> &[QuotaReference] {
        &self.quota_names
    }

    fn request_namespace(&self) -> RequestNamespace<'_> {
        match &self.namespace_problem {
            None => RequestNamespace::Named,
            Some(problem) if self.settings.default_namespace.is_empty() => RequestNamespace::Missing(problem),
            Some(_) => RequestNamespace::Default(&self.settings.default_namespace),
        }
    }

    fn namespaces(&self) -> &[NamespaceReference] {
        &self.namespaces
    }

    fn unenforced(&self) -> &[Unenforced] {
        &self.unenforced
    }

    fn failure_mode(&self) -> Option<&FailureMode> {
        self.failure_mode.as_ref().filter(|_| self.is_configured)
    }

    fn attribute_types(&self) -> &[(&'static str, ValueType)] {
        known_types()
    }

    fn secret_attributes(&self) -> Vec<Box<str>> {
        let secret = self.mappings.iter().filter(|mapping| mapping.source.is_secret());
        secret.map(|mapping| mapping.attribute.clone()).collect()
    }

    fn is_configured(&self) -> bool {
        self.is_configured
    }

    fn charged_attribute(&self, quota: &QuotaReference, attribute: &str) -> ChargedAttribute<'_> {
        pitfall::charged_attribute(self, quota, attribute)
    }

    fn incomplete(&self, attribute: &str) -> Option<IncompleteAttribute> {
        pitfall::incomplete(self, attribute)
    }

    fn unmapped(&self, attribute: &str, value_type: ValueType) -> Option<IncompleteAttribute> {
        pitfall::unmapped(self, attribute, value_type)
    }

    fn constant_dimension(&self, quota: &str, attributes: &[&str]) -> Option<ConstantDimension> {
        pitfall::constant_dimension(self, quota, attributes)
    }
}

/// The snapshot extension that decodes the kinds of Envoy's services.
#[derive(Debug, Clone, Copy)]
pub struct EnvoyKinds;

impl SnapshotExtension for EnvoyKinds {
    fn kinds(&self) -> &'static [&'static str] {
        &KINDS
    }

    fn attributes(&self) -> &'static [(&'static str, ValueType)] {
        BUILT_IN
    }

    fn sent_attributes(&self) -> &'static [(&'static str, ValueType)] {
        known_types()
    }

    fn decode(
        &self,
        resource: &RawResource,
        failure: &dyn Fn(&str) -> String,
    ) -> Result<DecodedResource, Vec<Diagnostic>> {
        build(resource, failure).map(|decoded| Arc::new(decoded) as DecodedResource)
    }

    fn assemble(
        &self,
        resources: &[(&RawResource, &(dyn Any + Send + Sync))],
        vocabulary: &Vocabulary,
        default_namespace: &str,
    ) -> (Arc<dyn ExtensionConfig>, Diagnostics) {
        let decoded = resources.iter().filter_map(|(r, decoded)| Some((*r, decoded.downcast_ref()?)));
        let decoded: Vec<_> = decoded.collect();
        let Assembly { config, diagnostics } = Assembly::new(&decoded, vocabulary, default_namespace);
        (config, diagnostics)
    }
}

/// Decodes a resource of one of [`KINDS`].
fn build(resource: &RawResource, failure: &dyn Fn(&str) -> String) -> Result<EnvoyResource, Vec<Diagnostic>> {
    let mut report = ResourceProblems::new(resource);
    let is_empty = report.spec().is_none_or(|spec| matches!(spec.kind, NodeKind::Null));
    // Settings that lost their place are told already.
    if is_empty && report.list.is_empty() && &*resource.key.kind != "ratelimit" {
        let text = "spec is empty: every setting would have its default";
        let problem = Diagnostic::error("spec-decode", FieldPath::root().field("spec"), text);
        report.push(
            problem.with_hint("indent the settings below it; write `spec: {}` if the defaults are meant"),
        );
    }
    let (root, base) = match report.spec() {
        Some(spec) => (Some(spec.clone()), FieldPath::root().field("spec")),
        // A configuration file of envoyproxy/ratelimit has no `spec`.
        None if &*resource.key.kind == "ratelimit" => (Some(report.document().clone()), FieldPath::root()),
        None => (None, FieldPath::root().field("spec")),
    };
    let state = match &*resource.key.kind {
        "envoybridge" => {
            if let Some(root) = &root {
                pitfall::refuse_nulls(root, &base, &mut report);
            }
            decode::<BridgeSettings>(root.as_ref(), base, &mut report, failure)
                .map(|settings| EnvoyResource::Settings(Box::new(settings)))
        }
        "attributemapping" => {
            if let Some(root) = &root {
                pitfall::refuse_nulls(root, &base, &mut report);
                pitfall::refuse_no_mappings(root, &base, &mut report);
            }
            decode::<AttributeMapping>(root.as_ref(), base, &mut report, failure).map(EnvoyResource::Mapping)
        }
        _ => {
            let root = root.map(|root| {
                written::refuse_empty_limits(&root, &base, &mut report);
                written::with_texts(&root, &resource.origin.text, &base, &mut report)
            });
            decode::<descriptors::DomainConfig>(root.as_ref(), base.clone(), &mut report, failure).map(
                |config| {
                    let descriptors = descriptors::tree(&config, &base, &resource.key, &mut report);
                    written::refuse_no_limit(&config, &base, &mut report);
                    let pitfalls = pitfall::expressions(&config.descriptors, &base.field("descriptors"));
                    EnvoyResource::Domain { name: config.domain, descriptors, pitfalls }
                },
            )
        }
    };
    match state {
        Some(state) if report.list.is_empty() => Ok(state),
        _ => Err(report.list),
    }
}

fn decode<M: Message>(
    root: Option<&Node>,
    base: FieldPath,
    report: &mut ResourceProblems<'_>,
    failure: &dyn Fn(&str) -> String,
) -> Option<M> {
    let mut message = M::default();
    let errors = root.map_or_else(Vec::new, |root| decode_over(&mut message, root, base));
    if errors.is_empty() {
        return Some(message);
    }
    report.decode_errors("spec-decode", errors, failure);
    None
}
