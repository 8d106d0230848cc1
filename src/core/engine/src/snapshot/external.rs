//! Templates and adapters out of process, and references to them. They are decoded and counted, not run.

use std::sync::Arc;

use foldhash::HashMap;

use super::annotations;
use super::decode::{Info, Template};
use super::model::SnapshotCounts;
use super::names;
use super::problems::ResourceProblems;
use super::unit::{Built, Located, Unit};
use crate::adapter::Inventory;
use mixer_config::message::decode_over;
use mixer_config::{Diagnostic, Diagnostics, FieldPath, Origin, RawResource, ResourceKey};

/// A decoded resource of kind `template` or `adapter`.
#[derive(Debug)]
pub(super) enum ExternalResource {
    Template,
    /// Its references to templates.
    Adapter(Vec<String>),
}

impl Located for ExternalResource {
    fn relocate(&mut self, _: &Origin) {}
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
    let decoded =
        if is_template { ExternalResource::Template } else { ExternalResource::Adapter(info.templates) };
    Built::Done(decoded, problems.list)
}

/// All templates and adapters out of process.
pub(super) struct ExternalResources<'o> {
    units: HashMap<String, &'o Unit<ExternalResource>>,
    inventory: Inventory,
}

impl<'o> ExternalResources<'o> {
    pub(super) fn new(units: &'o HashMap<ResourceKey, Unit<ExternalResource>>, inventory: Inventory) -> Self {
        Self { units: units.iter().map(|(key, unit)| (key.to_string(), unit)).collect(), inventory }
    }

    fn find(&self, reference: &str, kind: &str, namespace: &str) -> Option<&ExternalResource> {
        let (first, second) = names::candidates(reference, kind, namespace);
        let state = |name: &str| self.units.get(name).and_then(|u| u.state.as_ref());
        let fits = |r: &&ExternalResource| {
            matches!(
                (r, kind),
                (ExternalResource::Template, "template") | (ExternalResource::Adapter(_), "adapter")
            )
        };
        state(&first).filter(fits).or_else(|| second.and_then(|s| state(&s)).filter(fits))
    }

    /// Counts templates and adapters; an adapter needs all of its templates.
    pub(super) fn diagnose(&self, counts: &mut SnapshotCounts, diagnostics: &mut Diagnostics) {
        let mut sorted = self.units.iter().collect::<Vec<_>>();
        sorted.sort_by_key(|(name, _)| *name);
        for (name, unit) in sorted {
            match &unit.state {
                Some(ExternalResource::Template) => counts.template_configs += 1,
                Some(ExternalResource::Adapter(templates)) => {
                    let namespace = &unit.latest.key.namespace;
                    let missing = templates
                        .iter()
                        .enumerate()
                        .filter(|(_, t)| self.find(t, "template", namespace).is_none());
                    let missing = missing.collect::<Vec<_>>();
                    counts.adapter_info_configs += u64::from(missing.is_empty());
                    counts.adapter_info_config_errors += missing.len() as u64;
                    for (i, template) in missing {
                        let field = FieldPath::root().field("spec").field("templates").index(i);
                        let text = format!("unable to find template '{template}'");
                        let legacy = format!("adapter='{name}': {text}");
                        let problem = Diagnostic::error("template-unknown", field, text).with_legacy(legacy);
                        diagnostics.push(placed(problem, unit.in_force.as_ref()));
                    }
                }
                None => {}
            }
        }
    }

    /// Diagnoses a handler without a built-in adapter; 1 if its adapter exists.
    pub(super) fn handler<T>(&self, unit: &Unit<T>, adapter: &str, diagnostics: &mut Diagnostics) -> u64 {
        let key = &unit.latest.key;
        let field = FieldPath::root().field("spec").field("adapter");
        if self.find(adapter, "adapter", &key.namespace).is_some() {
            return 1;
        }
        let text = format!("adapter '{adapter}' not found");
        let mut problem = Diagnostic::error("adapter-unknown", field, text.clone())
            .with_legacy(format!("handler='{key}'.adapter: {text}"));
        if adapter.is_empty() {
            problem.hint = Some("name a built-in adapter with compiledAdapter".to_owned());
        } else if self.inventory.find(adapter).is_some() {
            problem.hint = Some(format!("for the built-in adapter write compiledAdapter: {adapter}"));
        }
        diagnostics.push(placed(problem, unit.in_force.as_ref()));
        0
    }

    /// Diagnoses an instance without a built-in template; 1 if its template exists.
    pub(super) fn instance<T>(&self, unit: &Unit<T>, template: &str, diagnostics: &mut Diagnostics) -> u64 {
        let key = &unit.latest.key;
        if self.find(template, "template", &key.namespace).is_some() {
            return 1;
        }
        let field = FieldPath::root().field("spec").field("template");
        let text = format!("template '{template}' not found");
        let mut problem = Diagnostic::error("template-unknown", field, text.clone())
            .with_legacy(format!("instance='{key}'.template: {text}"));
        if template.is_empty() {
            problem.hint = Some("name a built-in template with compiledTemplate".to_owned());
        } else if crate::template::built_in(template).is_some() {
            problem.hint = Some(format!("for the built-in template write compiledTemplate: {template}"));
        }
        diagnostics.push(placed(problem, unit.in_force.as_ref()));
        0
    }
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
