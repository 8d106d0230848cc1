//! The vocabulary: attributes of manifests and template outputs, and beneath them those that need no manifest.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::annotations;
use super::decode::AttributeManifest;
use super::extension::ExtensionConfig;
use super::forgotten::{self, empty_parameter};
use super::options::SnapshotOptions;
use super::problems::ResourceProblems;
use super::standard::ISTIO;
use super::unit::{Built, Located};
use crate::template::TEMPLATES;
use mixer_attribute::{ValueType, Vocabulary};
use mixer_config::message::decode_over;
use mixer_config::{Diagnostic, Diagnostics, FieldPath, Origin, Positions, RawResource, Severity};

/// The declarations of a manifest.
#[derive(Debug)]
pub(super) struct Manifest(pub(super) Arc<BTreeMap<String, ValueType>>);

impl Located for Manifest {
    fn relocate(&mut self, _: &Origin) {}
}

/// Decodes a manifest.
pub(super) fn build_manifest(resource: &RawResource, failure: &dyn Fn(&str) -> String) -> Built<Manifest> {
    let mut problems = ResourceProblems::new(resource);
    let mut manifest = AttributeManifest::default();
    let errors = problems
        .spec()
        .map_or_else(Vec::new, |spec| decode_over(&mut manifest, spec, FieldPath::root().field("spec")));
    if !errors.is_empty() {
        problems.decode_errors("spec-decode", errors, failure);
        return Built::Unconvertible(problems.list);
    }
    annotations::check(resource, &[], &mut problems);
    // An attribute that is not declared is an entry of `envoy.context_extensions`.
    let null = forgotten::in_spec(problems.document());
    null.into_iter().for_each(|found| problems.push(empty_parameter(found)));
    let types = manifest.attributes.into_iter().map(|(name, info)| (name, info.value_type)).collect();
    Built::Done(Manifest(Arc::new(types)), problems.list)
}

/// Merges manifests, given in order of namespace and name. The first of conflicting types wins. What manifests do not declare has the
/// types of the attributes that extensions set themselves and, if the options say so, of the standard ones.
pub(super) fn merge<'m>(
    manifests: impl Iterator<Item = (&'m Arc<RawResource>, &'m Manifest)>,
    options: &SnapshotOptions,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vocabulary {
    let positions = Positions::default();
    let mut declared: BTreeMap<&str, (ValueType, &RawResource)> = BTreeMap::new();
    for (resource, manifest) in manifests {
        for (name, value_type) in manifest.0.iter() {
            match declared.get(name.as_str()) {
                None => {
                    declared.insert(name, (*value_type, resource));
                }
                Some((winner, first)) if winner != value_type => {
                    let problem = conflict(name, *value_type, *winner, first);
                    diagnostics.push(positions.place(problem, &resource.key, &resource.origin));
                }
                Some(_) => {}
            }
        }
    }
    let mut builder = Vocabulary::builder();
    for (name, (value_type, _)) in declared {
        builder.declare(name, value_type);
    }
    for template in TEMPLATES.iter().filter(|t| !t.output.is_empty()) {
        let prefix = template.output_prefix();
        for output in template.output.iter() {
            let name = format!("{prefix}{}", output.name);
            match output.is_extension() {
                false => drop(builder.declare(&name, output.value_type)),
                true if options.standard_attributes => builder.declare_built_in(&name, output.value_type),
                true => {}
            }
        }
    }
    for (name, value_type) in built_in(options) {
        builder.declare_built_in(name, *value_type);
    }
    builder.build()
}

/// The attributes that need no manifest; the first of a name counts.
pub(super) fn built_in(
    options: &SnapshotOptions,
) -> impl Iterator<Item = &'static (&'static str, ValueType)> + '_ {
    let extensions = options.registry.extensions;
    let own = extensions.iter().flat_map(|extension| extension.attributes());
    let sent = extensions.iter().flat_map(|extension| extension.sent_attributes());
    own.chain(sent.chain(ISTIO).filter(|_| options.standard_attributes))
}

/// The problems of manifests that give attributes other types than those with which extensions set them: the attributes would be absent.
/// Errors of configured extensions; others may never be called, and are warned of.
pub(super) fn contradictions<'m>(
    manifests: impl Iterator<Item = (&'m Arc<RawResource>, &'m Manifest)>,
    extensions: &[Arc<dyn ExtensionConfig>],
    vocabulary: &Vocabulary,
) -> Diagnostics {
    let (mut problems, positions) = (Diagnostics::new(), Positions::default());
    for (resource, manifest) in manifests {
        let types = extensions.iter().flat_map(|extension| {
            extension.attribute_types().iter().map(|known| (known, extension.is_configured()))
        });
        for ((name, sent), is_configured) in types {
            // A declaration that another one overrules is a problem of its own.
            let counting = vocabulary.slot(name.as_bytes()).and_then(|slot| vocabulary.value_type(slot));
            let declared = manifest.0.get(*name).filter(|declared| counting == Some(**declared));
            let Some(declared) = declared.filter(|declared| !declared.holds(*sent)) else { continue };
            let field = FieldPath::root().field("spec").field("attributes").key(name).field("valueType");
            let message =
                format!("attribute {name} is {declared} here, but Envoy sends {sent}: it would be absent");
            let severity = if is_configured { Severity::Error } else { Severity::Warning };
            let problem = Diagnostic::new(severity, "attribute-conflict", field, message)
                .with_hint(format!("write `valueType: {sent}`"));
            problems.push(positions.place(problem.accepted_by_istio(), &resource.key, &resource.origin));
        }
    }
    problems
}

fn conflict(name: &str, value_type: ValueType, winner: ValueType, first: &RawResource) -> Diagnostic {
    let field = FieldPath::root().field("spec").field("attributes").key(name).field("valueType");
    let message =
        format!("attribute {name} is {value_type} here and {winner} in {}, which counts", first.key);
    let place = match first.origin.is_object() {
        true => first.origin.file.to_string(),
        false => format!("{}:{}", first.origin.file, first.origin.first_line),
    };
    let hint = format!("give it one type: the other declaration is in {place}");
    Diagnostic::error("attribute-conflict", field, message).with_hint(hint)
}
