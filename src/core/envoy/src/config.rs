//! What Envoy is answered with: the kinds `envoybridge`, `attributemapping` and `ratelimit`, checked and compiled.
//!
//! Decoding a resource needs nothing but the resource and is remembered; [`EnvoyConfig`] is put together from all of them and the
//! vocabulary. Spec: envoy-bridge.md sections 1, 4.4 and 5.

mod assemble;
pub mod descriptors;
mod manifest;
mod outline;
pub mod settings;

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use regex::bytes::Regex;
use rustc_hash::FxHashMap;

use mixer_attribute::{OwnedValue, SlotId, ValueType, Vocabulary};
use mixer_config::message::{Message, decode_over};
use mixer_config::{Diagnostic, Diagnostics, FieldPath, Node, RawResource, ResourceKey};
use mixer_engine::snapshot::{
    DecodedResource, ExtensionConfig, MappingOutline, ResourceProblems, Snapshot, SnapshotExtension,
};

use assemble::Assembly;
pub use descriptors::{DescriptorNode, DescriptorTree, Limit, Unit, glob};
use manifest::BUILT_IN;
use outline::outline;
pub use settings::{
    AttributeMapping, BridgeSettings, CertificateField, DenyBody, ErrorMode, LogName, Mode, Principal,
    ReporterKind, Unmatched,
};

/// The kinds that are read here.
pub const KINDS: [&str; 3] = ["envoybridge", "attributemapping", "ratelimit"];

/// Everything that the services for Envoy are configured with.
#[derive(Debug, Clone, Default)]
pub struct EnvoyConfig {
    /// The settings in force: those of the first `envoybridge`, else the defaults.
    pub settings: BridgeSettings,
    /// Where `origin.ip` comes from.
    pub origin_ip: OriginIp,
    /// Attributes of every check.
    pub static_attributes: Vec<StaticAttribute>,
    /// Which access-log types are reported: bit N for number N.
    pub access_log_types: u64,
    /// By log name.
    pub log_names: BTreeMap<String, LogConfig>,
    /// Quotas that checks take.
    pub check_quotas: Vec<CheckQuota>,
    /// Mapped attributes, in the order in which they are set.
    pub mappings: Vec<CompiledMapping>,
    /// Quotas of Mixer for descriptors; the first that fits counts.
    pub quotas: Vec<QuotaSelector>,
    /// Limits by domain.
    pub domains: FxHashMap<Box<[u8]>, Arc<Domain>>,
}

/// A domain with limits of its own.
#[derive(Debug, Clone, PartialEq)]
pub struct Domain {
    /// Its name.
    pub name: String,
    /// Its first entries.
    pub descriptors: DescriptorTree,
    /// `file:line` of the resource.
    pub place: String,
}

/// Where `origin.ip` comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OriginIp {
    /// The peer of the connection.
    #[default]
    Peer,
    /// The header `x-envoy-external-address`.
    ExternalAddress,
    /// This address of `x-forwarded-for`, counted from 1 at the right.
    ForwardedFor(usize),
}

/// A configured attribute.
#[derive(Debug, Clone, PartialEq)]
pub struct StaticAttribute {
    /// Its name.
    pub name: Box<str>,
    /// Its slot, if it is declared.
    pub slot: Option<SlotId>,
    /// Its value; never a map.
    pub value: OwnedValue,
}

/// What is known of one log.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LogConfig {
    /// The direction; else it is guessed.
    pub reporter_kind: Option<ReporterKind>,
    /// Attributes of every entry.
    pub static_attributes: Vec<StaticAttribute>,
}

/// Quotas for the checks that match.
#[derive(Debug, Clone)]
pub struct CheckQuota {
    /// Any of them must hold, each with all of its tests; none means every request.
    pub matches: Vec<Vec<(SlotId, TextTest)>>,
    /// Names and amounts.
    pub quotas: Vec<(String, i64)>,
}

/// A test of a text.
#[derive(Debug, Clone)]
pub enum TextTest {
    /// The whole text.
    Exact(String),
    /// How it begins.
    Prefix(String),
    /// The whole text fits.
    Regex(Regex),
}

impl TextTest {
    /// Whether it holds.
    pub fn holds(&self, text: &[u8]) -> bool {
        match self {
            TextTest::Exact(exact) => exact.as_bytes() == text,
            TextTest::Prefix(prefix) => text.starts_with(prefix.as_bytes()),
            TextTest::Regex(regex) => regex.is_match(text),
        }
    }
}

/// A mapped attribute.
#[derive(Debug, Clone, PartialEq)]
pub struct CompiledMapping {
    /// The attribute.
    pub attribute: Box<str>,
    /// Its slot.
    pub slot: SlotId,
    /// Its type.
    pub value_type: ValueType,
    /// Where it comes from.
    pub source: MappedFrom,
    /// Its value when there is none.
    pub default: Option<OwnedValue>,
    /// Whether it replaces what is there by other means.
    pub overwrite: bool,
    /// The resource that says so.
    pub resource: ResourceKey,
    /// `file:line` of the mapping.
    pub place: String,
}

/// Where a mapped attribute comes from. Names of headers are in lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MappedFrom {
    /// A request header.
    RequestHeader(Box<str>),
    /// A response header or trailer.
    ResponseHeader(Box<str>),
    /// A parameter of the query.
    QueryParameter(Box<str>),
    /// A cookie.
    Cookie(Box<str>),
    /// Namespace and path of dynamic metadata.
    Metadata(Box<str>, Vec<Box<str>>),
    /// Namespace and path of route metadata.
    RouteMetadata(Box<str>, Vec<Box<str>>),
    /// A field of the certificate of the caller.
    Certificate(CertificateField),
    /// A context extension, custom tag or descriptor entry.
    Extension(Box<str>),
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
pub struct QuotaSelector {
    /// Exact, or `*`.
    pub domain: String,
    /// Keys that must be there, and patterns of their values.
    pub entries: Vec<(String, String)>,
    /// The short name of a quota instance.
    pub quota: String,
    /// `file:line` of the selector.
    pub place: String,
}

/// A decoded resource.
#[derive(Debug)]
pub(crate) enum EnvoyResource {
    Settings(Box<BridgeSettings>),
    Mapping(AttributeMapping),
    Domain { name: String, descriptors: DescriptorTree },
}

/// The configuration for Envoy in a snapshot; the defaults where the snapshot was built without it.
pub fn config_of(snapshot: &Snapshot) -> &EnvoyConfig {
    static DEFAULT: LazyLock<EnvoyConfig> = LazyLock::new(EnvoyConfig::default);
    snapshot.extension().unwrap_or(&DEFAULT)
}

impl ExtensionConfig for EnvoyConfig {
    fn outline(&self, vocabulary: &Vocabulary) -> Vec<MappingOutline> {
        outline(self, vocabulary)
    }
}

/// Reads the kinds for Envoy.
#[derive(Debug, Clone, Copy)]
pub struct EnvoyKinds;

impl SnapshotExtension for EnvoyKinds {
    fn kinds(&self) -> &'static [&'static str] {
        &KINDS
    }

    fn attributes(&self) -> &'static [(&'static str, ValueType)] {
        BUILT_IN
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
    ) -> (Arc<dyn ExtensionConfig>, Diagnostics) {
        let decoded = resources.iter().filter_map(|(r, decoded)| Some((*r, decoded.downcast_ref()?)));
        let Assembly { config, diagnostics } = Assembly::new(&decoded.collect::<Vec<_>>(), vocabulary);
        (config, diagnostics)
    }
}

/// Decodes a resource of one of [`KINDS`].
fn build(resource: &RawResource, failure: &dyn Fn(&str) -> String) -> Result<EnvoyResource, Vec<Diagnostic>> {
    let mut report = ResourceProblems::new(resource);
    let (root, base) = match report.spec() {
        Some(spec) => (Some(spec.clone()), FieldPath::root().field("spec")),
        // A file of envoyproxy/ratelimit has no envelope.
        None if &*resource.key.kind == "ratelimit" => (Some(report.document().clone()), FieldPath::root()),
        None => (None, FieldPath::root().field("spec")),
    };
    let state = match &*resource.key.kind {
        "envoybridge" => decode::<BridgeSettings>(root.as_ref(), base, &mut report, failure)
            .map(|settings| EnvoyResource::Settings(Box::new(settings))),
        "attributemapping" => {
            decode::<AttributeMapping>(root.as_ref(), base, &mut report, failure).map(EnvoyResource::Mapping)
        }
        _ => decode::<descriptors::DomainConfig>(root.as_ref(), base.clone(), &mut report, failure).map(
            |config| {
                let descriptors = descriptors::tree(&config, &base, &mut report);
                EnvoyResource::Domain { name: config.domain, descriptors }
            },
        ),
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
