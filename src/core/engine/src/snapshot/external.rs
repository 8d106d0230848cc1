//! Templates and adapters out of process, and the handlers and instances of them.

mod handler;
mod instance;
mod message;
mod outline;
mod params;
mod scope;

use std::sync::Arc;

use foldhash::HashMap;

use super::annotations;
use super::decode::{Info, Template};
use super::model::SnapshotCounts;
use super::names;
use super::problems::ResourceProblems;
use super::unit::{Built, Located, Unit};
use crate::template::{Descriptors, MessageId, Schema, TemplateInfo, digest};
use mixer_config::message::{decode_over, suggestion};
use mixer_config::{Diagnostic, Diagnostics, FieldPath, Origin, RawResource, ResourceKey};

pub use handler::{AdapterConfig, ExternalHandler};
pub(super) use handler::{HandlerSource, build as build_handler};
pub(super) use instance::{InstanceSource, build as build_instance};
pub use outline::{AdapterResource, ExternalOutline, TemplateResource};
pub(super) use scope::{MAX_OUTPUTS, OutputScope};

/// A decoded resource of kind `template` or `adapter`.
#[derive(Debug)]
pub(super) enum ExternalResource {
    Template(Arc<TemplateInfo>),
    Adapter(Arc<AdapterSchema>),
    /// One whose descriptors are unusable.
    Broken,
}

impl Located for ExternalResource {
    fn relocate(&mut self, _: &Origin) {}
}

/// An adapter out of process.
#[derive(Debug)]
pub(super) struct AdapterSchema {
    key: ResourceKey,
    /// References to its templates.
    templates: Vec<String>,
    params: Option<ParamsSchema>,
    session_based: bool,
    /// The digest of the descriptors of its parameters.
    digest: u128,
}

/// The type of the parameters of an adapter.
#[derive(Debug)]
struct ParamsSchema {
    schema: Schema,
    message: MessageId,
    /// For example `type.googleapis.com/lab.config.Params`.
    type_url: String,
}

impl ParamsSchema {
    /// For example `lab.config.Params`.
    fn name(&self) -> &str {
        self.type_url.rsplit('/').next().unwrap_or_default()
    }
}

/// Decodes a resource of kind `template` or `adapter`.
pub(super) fn build(resource: &RawResource, failure: &dyn Fn(&str) -> String) -> Built<ExternalResource> {
    let mut problems = ResourceProblems::new(resource);
    let path = FieldPath::root().field("spec");
    let (mut template, mut info) = (Template::default(), Info::default());
    let is_template = &*resource.key.kind == "template";
    let errors = problems.spec().map_or_else(Vec::new, |spec| match is_template {
        true => decode_over(&mut template, spec, path),
        false => decode_over(&mut info, spec, path),
    });
    if !errors.is_empty() {
        problems.decode_errors("spec-decode", errors, failure);
        return Built::Unconvertible(problems.list);
    }
    annotations::check(resource, &[], &mut problems);
    let decoded = if is_template {
        template_of(resource, &template.descriptor, &mut problems)
    } else {
        adapter_of(resource, info, &mut problems)
    };
    Built::Done(decoded.unwrap_or(ExternalResource::Broken), problems.list)
}

fn template_of(
    resource: &RawResource,
    descriptor: &str,
    problems: &mut ResourceProblems<'_>,
) -> Option<ExternalResource> {
    let name = resource.key.to_string();
    match TemplateInfo::from_descriptor(name.as_str(), descriptor) {
        Ok(template) => Some(ExternalResource::Template(Arc::new(template))),
        Err(error) => {
            let field = FieldPath::root().field("spec").field("descriptor");
            let text = format!("unable to parse descriptor: {error}");
            let legacy = format!("template='{name}': {text}");
            let problem = Diagnostic::error("template-invalid", field, text).with_legacy(legacy);
            problems.push(problem.with_hint(error.hint()));
            None
        }
    }
}

fn adapter_of(
    resource: &RawResource,
    info: Info,
    problems: &mut ResourceProblems<'_>,
) -> Option<ExternalResource> {
    let params = match info.config.as_str() {
        "" => None,
        config => {
            let parsed = Descriptors::decode_base64(config).and_then(|descriptors| {
                let package = descriptors.params_package()?;
                let name = if package.is_empty() { "Params".to_owned() } else { format!("{package}.Params") };
                let (schema, found) = descriptors.link(&[&name]);
                let message = found.first().copied().flatten();
                let message = message.ok_or(crate::template::DescriptorError::NoParams)?;
                Ok(ParamsSchema { schema, message, type_url: format!("type.googleapis.com/{name}") })
            });
            match parsed {
                Ok(params) => Some(params),
                Err(error) => {
                    let field = FieldPath::root().field("spec").field("config");
                    let text = format!("unable to parse adapter configuration: {error}");
                    let legacy = format!("adapter='{}': {text}", resource.key);
                    let problem = Diagnostic::error("adapter-invalid", field, text).with_legacy(legacy);
                    problems.push(problem.with_hint(error.hint()));
                    return None;
                }
            }
        }
    };
    Some(ExternalResource::Adapter(Arc::new(AdapterSchema {
        key: resource.key.clone(),
        templates: info.templates,
        params,
        session_based: info.session_based,
        digest: digest(&info.config),
    })))
}

/// An adapter with all of its templates.
#[derive(Debug, Clone)]
pub(super) struct ResolvedAdapter {
    schema: Arc<AdapterSchema>,
    templates: Vec<Arc<TemplateInfo>>,
}

/// A template and its resource.
type KnownTemplate = (ResourceKey, Arc<TemplateInfo>);

/// The templates and adapters that handlers and instances may refer to, by full name.
#[derive(Debug, Default)]
pub(super) struct ExternalTable {
    templates: HashMap<String, KnownTemplate>,
    adapters: HashMap<String, ResolvedAdapter>,
}

/// The units of templates and adapters.
pub(super) type ExternalUnits = HashMap<ResourceKey, Unit<ExternalResource>>;

impl ExternalTable {
    /// The valid ones: an adapter needs all of its templates.
    pub(super) fn new(units: &ExternalUnits) -> Self {
        let mut table = Self::default();
        for (key, unit) in units {
            if let Some(ExternalResource::Template(template)) = &unit.state {
                table.templates.insert(key.to_string(), (key.clone(), Arc::clone(template)));
            }
        }
        for (key, unit) in units {
            let Some(ExternalResource::Adapter(schema)) = &unit.state else { continue };
            let templates = schema.templates.iter();
            let found = templates.map(|name| Some(Arc::clone(&table.template(name, &key.namespace).0?.1)));
            if let Some(templates) = found.collect() {
                let adapter = ResolvedAdapter { schema: Arc::clone(schema), templates };
                table.adapters.insert(key.to_string(), adapter);
            }
        }
        table
    }

    /// The templates and adapters of this name, with all names that were looked for.
    fn template(&self, reference: &str, namespace: &str) -> (Option<&KnownTemplate>, Vec<Arc<str>>) {
        find(&self.templates, reference, "template", namespace)
    }

    fn adapter(&self, reference: &str, namespace: &str) -> (Option<&ResolvedAdapter>, Vec<Arc<str>>) {
        find(&self.adapters, reference, "adapter", namespace)
    }

    /// A hint for a reference that nothing fits.
    fn hint(&self, reference: &str, kind: &str, namespace: &str) -> Option<String> {
        let names: Vec<&str> = match kind {
            "template" => self.templates.keys().map(String::as_str).collect(),
            _ => self.adapters.keys().map(String::as_str).collect(),
        };
        names::reference_hint(reference, kind, namespace, names.iter().copied())
            .or_else(|| suggestion(reference, names.iter().copied()))
    }
}

fn find<'t, T>(
    table: &'t HashMap<String, T>,
    reference: &str,
    kind: &str,
    namespace: &str,
) -> (Option<&'t T>, Vec<Arc<str>>) {
    let (first, second) = names::candidates(reference, kind, namespace);
    let found = table.get(&first).or_else(|| table.get(second.as_ref()?));
    let asked = std::iter::once(first).chain(second).map(Arc::from).collect();
    (found, asked)
}

/// Counts templates and adapters, and diagnoses adapters without all of their templates.
pub(super) fn count(
    units: &ExternalUnits,
    table: &ExternalTable,
    counts: &mut SnapshotCounts,
    diagnostics: &mut Diagnostics,
) {
    let mut sorted = units.iter().collect::<Vec<_>>();
    sorted.sort_by_key(|(key, _)| *key);
    for (key, unit) in sorted {
        let is_template = &*key.kind == "template";
        match &unit.state {
            Some(ExternalResource::Template(_)) => counts.template_configs += 1,
            Some(ExternalResource::Broken) if is_template => counts.template_config_errors += 1,
            Some(ExternalResource::Broken) => counts.adapter_info_config_errors += 1,
            Some(ExternalResource::Adapter(adapter)) => {
                let templates = adapter.templates.iter().enumerate();
                let missing: Vec<_> =
                    templates.filter(|(_, name)| table.template(name, &key.namespace).0.is_none()).collect();
                counts.adapter_info_configs += u64::from(missing.is_empty());
                counts.adapter_info_config_errors += missing.len() as u64;
                for (i, template) in missing {
                    let field = FieldPath::root().field("spec").field("templates").index(i);
                    let text = format!("unable to find template '{template}'");
                    let legacy = format!("adapter='{key}': {text}");
                    let mut problem = Diagnostic::error("template-unknown", field, text).with_legacy(legacy);
                    problem.hint = table.hint(template, "template", &key.namespace);
                    diagnostics.push(placed(problem, unit.in_force.as_ref()));
                }
            }
            None => {}
        }
    }
}

/// The names that the last build of an adapter looked up.
pub(super) fn references_of(unit: &Unit<ExternalResource>) -> Vec<Arc<str>> {
    let Some(ExternalResource::Adapter(adapter)) = &unit.state else { return Vec::new() };
    let names = adapter.templates.iter();
    let names = names.flat_map(|name| {
        let (first, second) = names::candidates(name, "template", &adapter.key.namespace);
        std::iter::once(first).chain(second)
    });
    names.map(Arc::from).collect()
}

fn placed(mut problem: Diagnostic, resource: Option<&Arc<RawResource>>) -> Diagnostic {
    if let Some(resource) = resource {
        let span = resource.document().at(&problem.field).span;
        problem.span = Some(resource.origin.in_file(span));
        problem.file = Some(resource.origin.file.clone());
        problem.resource = resource.key.to_string();
    }
    problem
}
