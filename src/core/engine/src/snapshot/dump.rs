//! The printable form of a snapshot.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{HeaderOperationConfig, HeaderOperationKind, RuleConfig, Snapshot};
use crate::template::TEMPLATES;
use mixer_base::scheduling::let_others_run;
use mixer_base::secrets::{mask_document, mask_text};
use mixer_config::message::Field as _;
use mixer_config::{Diagnostic, Origin, RawResource, ResourceKey};

/// Everything in a snapshot, sorted by name. Serialises to the JSON of `snapshot dump`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotDump {
    /// `mixer/v1`.
    pub api_version: String,
    /// `Snapshot`.
    pub kind: String,
    /// Id of the snapshot.
    pub id: u64,
    /// Namespace of mesh-wide rules.
    pub default_namespace: String,
    /// Built-in templates.
    pub templates: Vec<TemplateDump>,
    /// Built-in adapters.
    pub adapters: Vec<AdapterDump>,
    /// Configured handlers.
    pub handlers: Vec<HandlerDump>,
    /// Configured instances.
    pub instances: Vec<InstanceDump>,
    /// Rules in effect.
    pub rules: Vec<RuleDump>,
    /// Templates of out-of-process adapters.
    pub template_metadatas: Vec<TemplateMetadataDump>,
    /// Out-of-process adapters.
    pub adapter_metadatas: Vec<AdapterMetadataDump>,
    /// Declared attributes.
    pub attributes: Vec<AttributeDump>,
    /// Resources of other kinds in force: for Envoy, and roles of `rbac`. `None` in a dump of an earlier version.
    #[serde(default)]
    pub resources: Option<Vec<ResourceDump>>,
    /// Problems of the configuration.
    pub errors: Vec<ErrorDump>,
    /// Full names of the resources that a running server serves in their previous version.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<String>,
}

/// A template.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TemplateDump {
    /// Its name.
    pub name: String,
    /// For example `TEMPLATE_VARIETY_CHECK`.
    pub variety: String,
}

/// An adapter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AdapterDump {
    /// Its name.
    pub name: String,
    /// Supported templates.
    pub templates: Vec<String>,
}

/// A template of out-of-process adapters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TemplateMetadataDump {
    /// Full name of the resource.
    pub resource: String,
    /// Its name.
    pub name: String,
    /// The package of its messages.
    pub internal_package_derived_name: String,
    /// For example `TEMPLATE_VARIETY_CHECK`.
    pub variety: String,
    /// Number of instances of it.
    pub references: usize,
    /// Its position.
    pub source: SourceDump,
}

/// An adapter out of process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AdapterMetadataDump {
    /// Full name of the resource.
    pub name: String,
    /// Full names of its templates.
    pub templates: Vec<String>,
    /// The message of its parameters, if it takes any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub params: Option<String>,
    /// Whether it takes the parameters once, in a session.
    pub session_based: bool,
    /// Number of handlers of it.
    pub references: usize,
    /// Its position.
    pub source: SourceDump,
}

/// A handler.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HandlerDump {
    /// As shown to users.
    pub name: String,
    /// Its adapter.
    pub adapter: String,
    /// Whether it is out of process.
    pub dynamic: bool,
    /// Effective parameters, including defaults.
    pub params: Value,
    /// Its failure policy, if it has one: `deny`, `allow` or `lastKnown`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_error: Option<String>,
    /// Number of actions that use it.
    pub references: usize,
    /// Its position.
    pub source: SourceDump,
}

/// An instance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InstanceDump {
    /// Full name.
    pub name: String,
    /// Its template.
    pub template: String,
    /// Whether it is out of process.
    pub dynamic: bool,
    /// As configured.
    pub params: Value,
    /// Inferred type of every expression, by leaf.
    pub types: BTreeMap<String, String>,
    /// Whether the attributes that it binds replace received ones.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ignores_received_values: bool,
    /// Number of actions that use it.
    pub references: usize,
    /// Its position.
    pub source: SourceDump,
}

/// A rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RuleDump {
    /// Full name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// The text of the condition.
    #[serde(rename = "match")]
    pub match_text: String,
    /// Its actions.
    pub actions: Vec<ActionDump>,
    /// Operations on request headers.
    pub request_header_operations: Vec<HeaderOperationDump>,
    /// Operations on response headers.
    pub response_header_operations: Vec<HeaderOperationDump>,
    /// Dialect of its expressions.
    pub language: String,
    /// Whether it is in dry run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    /// Its failure policy, if it has one: `deny`, `allow` or `lastKnown`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_error: Option<String>,
    /// Whether it refuses what no rule allows.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub denies_by_default: bool,
    /// Whether it allows what the default of any namespace refuses, although it is for the mesh.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allows_everywhere: bool,
    /// Its position.
    pub source: SourceDump,
}

/// An action.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ActionDump {
    /// Often empty.
    pub name: String,
    /// Name of the handler.
    pub handler: String,
    /// Whether it is out of process.
    pub dynamic: bool,
    /// Full names of the instances, in order.
    pub instances: Vec<String>,
}

/// A header operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HeaderOperationDump {
    /// Header name.
    pub name: String,
    /// Expressions; none for REMOVE.
    pub values: Vec<String>,
    /// `REPLACE`, `REMOVE` or `APPEND`.
    pub operation: String,
}

/// An attribute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AttributeDump {
    /// Its name.
    pub name: String,
    /// For example `STRING`.
    #[serde(rename = "type")]
    pub value_type: String,
    /// `manifest`, or the template that outputs it.
    pub source: String,
}

/// A resource of another kind than those above.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceDump {
    /// Full name.
    pub name: String,
    /// Its document, without what identifies it.
    pub document: Value,
    /// Its source.
    pub source: SourceDump,
}

/// A problem of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ErrorDump {
    /// `error`, `warning` or `info`.
    pub severity: String,
    /// Stable code.
    pub code: String,
    /// Full name of the resource.
    pub resource: String,
    /// The message.
    pub message: String,
}

/// The position of a resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SourceDump {
    /// File, or the store's name for it.
    pub file: String,
    /// First line of its document, from 1.
    pub line: u32,
}

impl From<&Origin> for SourceDump {
    fn from(origin: &Origin) -> Self {
        Self { file: origin.file.to_string(), line: origin.document_line() }
    }
}

impl SnapshotDump {
    /// Masks parameters with secret names, and credentials in expressions.
    pub fn mask_secrets(&mut self) {
        for rule in &mut self.rules {
            mask_in_place(&mut rule.match_text);
            let operations =
                rule.request_header_operations.iter_mut().chain(&mut rule.response_header_operations);
            operations.flat_map(|operation| &mut operation.values).for_each(mask_in_place);
        }
        for instance in &mut self.instances {
            mask_texts(&mut instance.params);
        }
        for handler in &mut self.handlers {
            mask_document(&mut handler.params);
        }
        for resource in self.resources.iter_mut().flatten() {
            mask_document(&mut resource.document);
        }
    }
}

fn mask_in_place(text: &mut String) {
    if let Cow::Owned(masked) = mask_text(text) {
        *text = masked;
    }
}

/// Masks the texts of a document, whatever their names are: those of instances are expressions.
fn mask_texts(value: &mut Value) {
    match value {
        Value::String(text) => mask_in_place(text),
        Value::Array(values) => values.iter_mut().for_each(mask_texts),
        Value::Object(members) => members.values_mut().for_each(mask_texts),
        _ => {}
    }
}

/// The resources of extensions whose keys are wanted, by name.
pub fn resources_of(snapshot: &Snapshot, is_wanted: impl Fn(&ResourceKey) -> bool) -> Vec<ResourceDump> {
    let wanted = snapshot.extension_resources.iter().filter(|resource| is_wanted(&resource.key));
    let mut resources: Vec<ResourceDump> = wanted.map(|r| resource(r)).collect();
    resources.sort_by(|a, b| a.name.cmp(&b.name));
    resources
}

/// Dumps a snapshot and the built-in templates and adapters. Threads that wait for the core run now and then (see `mixer_base::scheduling`).
pub fn dump(snapshot: &Snapshot) -> SnapshotDump {
    let uses = UseCounts::of(snapshot);
    let mut handlers: Vec<HandlerDump> = snapshot.handlers.iter().map(|h| handler(&uses, h)).collect();
    handlers.sort_by(|a, b| a.name.cmp(&b.name));
    let mut instances: Vec<InstanceDump> = snapshot.instances.iter().map(|i| instance(&uses, i)).collect();
    instances.sort_by(|a, b| a.name.cmp(&b.name));
    let mut rules: Vec<RuleDump> = snapshot.rules.iter().map(|r| rule(r)).collect();
    rules.sort_by(|a, b| a.name.cmp(&b.name));
    SnapshotDump {
        api_version: "mixer/v1".to_owned(),
        kind: "Snapshot".to_owned(),
        id: snapshot.id.0,
        default_namespace: snapshot.default_namespace.to_string(),
        templates: TEMPLATES
            .iter()
            .map(|t| TemplateDump { name: t.name.to_string(), variety: t.variety.name().to_owned() })
            .collect(),
        adapters: snapshot
            .registry
            .adapters
            .iter()
            .map(|a| AdapterDump {
                name: a.info().name.to_owned(),
                templates: a.info().templates.iter().map(|t| (*t).to_owned()).collect(),
            })
            .collect(),
        handlers,
        instances,
        rules,
        template_metadatas: template_metadatas(snapshot),
        adapter_metadatas: adapter_metadatas(snapshot),
        attributes: snapshot
            .vocabulary
            .declared()
            .map(|(name, value_type)| AttributeDump {
                name: name.to_owned(),
                value_type: value_type.name().to_owned(),
                source: attribute_source(name),
            })
            .collect(),
        resources: Some(resources_of(snapshot, |_| true)),
        errors: snapshot.diagnostics.iter().map(Into::into).collect(),
        kept: Vec::new(),
    }
}

fn template_metadatas(snapshot: &Snapshot) -> Vec<TemplateMetadataDump> {
    let used = |key: &ResourceKey| {
        snapshot.instances.iter().filter(|instance| instance.external.as_ref() == Some(key)).count()
    };
    let templates = snapshot.external.templates.iter();
    templates
        .map(|resource| TemplateMetadataDump {
            resource: resource.key.to_string(),
            name: resource.key.name.to_string(),
            internal_package_derived_name: resource.template.package.to_string(),
            variety: resource.template.variety.name().to_owned(),
            references: used(&resource.key),
            source: (&resource.origin).into(),
        })
        .collect()
}

fn adapter_metadatas(snapshot: &Snapshot) -> Vec<AdapterMetadataDump> {
    let is_of = |handler: &super::HandlerConfig, key: &ResourceKey| {
        handler.external.as_ref().is_some_and(|external| external.key == *key)
    };
    let used = |key: &ResourceKey| snapshot.handlers.iter().filter(|handler| is_of(handler, key)).count();
    let adapters = snapshot.external.adapters.iter();
    adapters
        .map(|adapter| AdapterMetadataDump {
            name: adapter.key.to_string(),
            templates: adapter.templates.iter().map(|template| template.name.to_string()).collect(),
            params: adapter.params.clone(),
            session_based: adapter.session_based,
            references: used(&adapter.key),
            source: (&adapter.origin).into(),
        })
        .collect()
}

fn attribute_source(name: &str) -> String {
    let template =
        TEMPLATES.iter().filter(|t| !t.output.is_empty()).find(|t| name.starts_with(&t.output_prefix()));
    template.map_or_else(|| "manifest".to_owned(), |t| t.name.to_string())
}

/// Number of actions that use each handler and instance.
#[derive(Default)]
struct UseCounts<'s> {
    handlers: BTreeMap<&'s ResourceKey, usize>,
    instances: BTreeMap<&'s ResourceKey, usize>,
}

impl<'s> UseCounts<'s> {
    fn of(snapshot: &'s Snapshot) -> Self {
        let mut uses = Self::default();
        for action in snapshot.rules.iter().flat_map(|r| &r.actions) {
            let_others_run();
            *uses.handlers.entry(&action.handler.key).or_default() += 1;
            for instance in &action.instances {
                *uses.instances.entry(&instance.key).or_default() += 1;
            }
        }
        uses
    }
}

fn handler(uses: &UseCounts<'_>, config: &super::HandlerConfig) -> HandlerDump {
    let_others_run();
    HandlerDump {
        name: config.name.to_string(),
        adapter: config.adapter_name().to_owned(),
        dynamic: config.external.is_some(),
        params: config.params.to_json(),
        on_error: config.on_error.map(|policy| policy.name().to_owned()),
        references: uses.handlers.get(&config.key).copied().unwrap_or(0),
        source: (&config.origin).into(),
    }
}

fn instance(uses: &UseCounts<'_>, config: &super::InstanceConfig) -> InstanceDump {
    let_others_run();
    let typed = config.leaf_names.iter().zip(&config.programs);
    InstanceDump {
        name: config.name().to_string(),
        template: config.template().name.to_string(),
        dynamic: config.external.is_some(),
        params: config.params.clone(),
        types: typed
            .filter_map(|(name, program)| {
                Some((name.to_string(), program.as_ref()?.value_type().name().to_owned()))
            })
            .collect(),
        ignores_received_values: config.ignores_received_values,
        references: uses.instances.get(&config.key).copied().unwrap_or(0),
        source: (&config.origin).into(),
    }
}

fn resource(resource: &RawResource) -> ResourceDump {
    let_others_run();
    let mut document = resource.document().to_json();
    if let Some(members) = document.as_object_mut() {
        members.retain(|name, _| !matches!(name.as_str(), "apiVersion" | "kind" | "metadata"));
    }
    ResourceDump { name: resource.key.to_string(), document, source: (&resource.origin).into() }
}

fn rule(config: &RuleConfig) -> RuleDump {
    let_others_run();
    RuleDump {
        name: config.key.to_string(),
        namespace: config.key.namespace.to_string(),
        match_text: config.match_text.to_string(),
        actions: config
            .actions
            .iter()
            .map(|action| ActionDump {
                name: action.name.to_string(),
                handler: action.handler.name.to_string(),
                dynamic: action.handler.external.is_some(),
                instances: action.instances.iter().map(|i| i.name().to_string()).collect(),
            })
            .collect(),
        request_header_operations: operations(&config.request_headers),
        response_header_operations: operations(&config.response_headers),
        language: config.language.name().to_owned(),
        dry_run: config.dry_run,
        on_error: config.on_error.map(|policy| policy.name().to_owned()),
        denies_by_default: config.denies_by_default,
        allows_everywhere: config.allows_everywhere,
        source: (&config.origin).into(),
    }
}

/// Groups the values of one operation, which the snapshot stores separately.
fn operations(list: &[HeaderOperationConfig]) -> Vec<HeaderOperationDump> {
    let mut out: Vec<HeaderOperationDump> = Vec::new();
    for config in list {
        let operation = match config.kind {
            HeaderOperationKind::Replace => "REPLACE",
            HeaderOperationKind::Remove => "REMOVE",
            HeaderOperationKind::Append => "APPEND",
        };
        let values = config.value.iter().map(|_| config.text.to_string());
        match out.last_mut() {
            Some(last) if last.name == *config.name && last.operation == operation => {
                last.values.extend(values)
            }
            _ => out.push(HeaderOperationDump {
                name: config.name.to_string(),
                values: values.collect(),
                operation: operation.to_owned(),
            }),
        }
    }
    out
}

impl From<&Diagnostic> for ErrorDump {
    fn from(diagnostic: &Diagnostic) -> Self {
        Self {
            severity: diagnostic.severity.name().to_owned(),
            code: diagnostic.code.to_owned(),
            resource: diagnostic.resource.clone(),
            message: diagnostic.message.clone(),
        }
    }
}
