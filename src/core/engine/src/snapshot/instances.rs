//! Instances: templates filled with expressions, checked and compiled.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::annotations;
use super::comparisons;
use super::decode::Instance;
use super::external::{self, ExternalTable, InstanceSource};
use super::forgotten::{self, empty_parameter};
use super::model::{AttributeBinding, InstanceConfig};
use super::params::{self, ParamLeaf, Params};
use super::problems::ResourceProblems;
use super::programs::{Programs, Refusal, type_name};
use super::suspicions;
use super::unit::{Built, Located};
use crate::adapter::{BoundInstance, Leaf};
use crate::template::{self, FieldKind, TEMPLATES, TemplateInfo, Variety};
use mixer_attribute::{SlotId, ValueType};
use mixer_config::message::{decode_over, suggestion};
use mixer_config::{Diagnostic, FieldPath, Origin, RawResource};
use mixer_expr::{Language, Program};

/// The state of an instance resource.
#[derive(Debug, Clone)]
pub(super) enum InstanceState {
    /// Of a built-in template, and valid.
    Static(Arc<InstanceConfig>),
    /// Of a built-in template and type-correct, but not supported by the compiler: rules ignore it.
    Uncompilable,
    /// Of a template out of process.
    External {
        /// `None` after an error.
        config: Option<Arc<InstanceConfig>>,
        /// The full names of templates that it looked up.
        references: Box<[Arc<str>]>,
    },
    /// Invalid.
    Broken,
}

impl InstanceState {
    /// The instance, if it can be used.
    pub(super) fn config(&self) -> Option<&Arc<InstanceConfig>> {
        match self {
            InstanceState::Static(config) => Some(config),
            InstanceState::External { config, .. } => config.as_ref(),
            InstanceState::Uncompilable | InstanceState::Broken => None,
        }
    }
}

impl Located for InstanceState {
    fn relocate(&mut self, origin: &Origin) {
        if let InstanceState::Static(config) | InstanceState::External { config: Some(config), .. } = self {
            *config = Arc::new(InstanceConfig { origin: origin.clone(), ..InstanceConfig::clone(config) });
        }
    }
}

/// Builds a resource of kind `instance`.
pub(super) fn build_instance(
    resource: &RawResource,
    language: Language,
    table: &ExternalTable,
    programs: &mut Programs,
    failure: &dyn Fn(&str) -> String,
) -> Built<InstanceState> {
    let mut problems = ResourceProblems::new(resource);
    let path = FieldPath::root().field("spec");
    let mut instance = Instance::default();
    let errors = problems.spec().map_or_else(Vec::new, |spec| decode_over(&mut instance, spec, path.clone()));
    if !errors.is_empty() {
        problems.decode_errors("spec-decode", errors, failure);
        return Built::Unconvertible(problems.list);
    }
    if instance.compiled_template.is_empty() {
        let source = InstanceSource { instance, language, table, programs };
        let (config, references) = external::build_instance(resource, source, &mut problems);
        return Built::Done(InstanceState::External { config, references }, problems.list);
    }
    let Some(template) = template::built_in(&instance.compiled_template) else {
        let name = &instance.compiled_template;
        let problem = Diagnostic::error(
            "template-unknown",
            path.field("compiledTemplate"),
            "missing compiled template",
        )
        .with_legacy(format!("instance='{}': missing compiled template", resource.key))
        .with_hint(suggestion(name, TEMPLATES.iter().map(|t| &*t.name)).unwrap_or_else(|| {
            format!("one of {}", TEMPLATES.iter().map(|t| &*t.name).collect::<Vec<_>>().join(", "))
        }));
        problems.push(problem);
        return Built::Done(InstanceState::Broken, problems.list);
    };
    let node = instance.params.as_ref().map(|p| &p.0);
    let (mut params, errors) = params::decode(template, node, path.field("params"));
    if !errors.is_empty() {
        problems
            .decode_errors("params-invalid", errors, |text| format!("instance='{}': {text}", resource.key));
        return Built::Done(InstanceState::Broken, problems.list);
    }
    if !instance.attribute_bindings.is_empty() {
        if template.variety != Variety::AttributeGenerator {
            let text = format!("unknown field \"attribute_bindings\" in {}.InstanceParam", template.package);
            let legacy = format!("instance='{}': {text}", resource.key);
            let problem = Diagnostic::error("params-invalid", path.field("attributeBindings"), text);
            problems.push(problem.with_legacy(legacy));
            return Built::Done(InstanceState::Broken, problems.list);
        }
        params.bindings = instance.attribute_bindings;
    }
    if template.variety != Variety::Report {
        let null = forgotten::in_instance(problems.document());
        null.into_iter().for_each(|found| problems.push(empty_parameter(found)));
    }
    let state = check(resource, template, params, path.field("params"), language, programs, &mut problems);
    Built::Done(state, problems.list)
}

/// Builds a resource of a legacy kind, which is the name of a template.
pub(super) fn build_legacy_instance(
    resource: &RawResource,
    template: &Arc<TemplateInfo>,
    language: Language,
    programs: &mut Programs,
    failure: &dyn Fn(&str) -> String,
) -> Built<InstanceState> {
    let mut problems = ResourceProblems::new(resource);
    let path = FieldPath::root().field("spec");
    let (params, errors) = params::decode(template, problems.spec(), path.clone());
    if !errors.is_empty() {
        problems.decode_errors("spec-decode", errors, failure);
        return Built::Unconvertible(problems.list);
    }
    if template.variety != Variety::Report {
        let null = forgotten::in_spec(problems.document());
        null.into_iter().for_each(|found| problems.push(empty_parameter(found)));
    }
    let state = check(resource, template, params, path, language, programs, &mut problems);
    Built::Done(state, problems.list)
}

/// Checks and compiles every expression of an instance.
fn check(
    resource: &RawResource,
    template: &Arc<TemplateInfo>,
    params: Params,
    path: FieldPath,
    language: Language,
    programs: &mut Programs,
    problems: &mut ResourceProblems<'_>,
) -> InstanceState {
    let is_generator = template.variety == Variety::AttributeGenerator;
    annotations::check(resource, if is_generator { annotations::OF_GENERATORS } else { &[] }, problems);
    annotations::language(resource, problems);
    let ignores_received_values = is_generator && annotations::ignores_received_values(resource, problems);
    let mut checker =
        Checker { resource, template, language, programs, problems, errors: 0, uncompilable: false };
    let bindings = checker.bindings(template, &params, &path);
    let compiled = params.leaves.iter().map(|leaf| checker.leaf(leaf, &path)).collect::<Vec<_>>();
    if checker.errors > 0 {
        return InstanceState::Broken;
    }
    if checker.uncompilable {
        return InstanceState::Uncompilable;
    }
    let vocabulary = checker.programs.vocabulary.clone();
    let prefix = template.output_prefix();
    let slots =
        template.output.iter().map(|output| vocabulary.slot(format!("{prefix}{}", output.name).as_bytes()));
    let outputs: Vec<_> = slots.collect();
    let read: BTreeSet<_> = bindings.iter().flat_map(|binding| binding.value.attributes()).collect();
    let is_read = |slot: &Option<SlotId>| slot.is_some_and(|slot| read.contains(&slot));
    let read_outputs = outputs.iter().enumerate().filter(|(_, slot)| is_read(slot)).map(|(at, _)| at);
    let leaves = params.leaves.iter().zip(&compiled).map(|(leaf, program)| Leaf {
        field: leaf.field.clone(),
        key: leaf.key.clone(),
        value_type: program.as_ref().map_or(ValueType::Unspecified, |p| p.value_type()),
    });
    InstanceState::Static(Arc::new(InstanceConfig {
        key: resource.key.clone(),
        bound: BoundInstance {
            name: resource.key.to_string().into(),
            template: Arc::clone(template),
            leaves: leaves.collect(),
            messages: params.messages.clone(),
            plan: None,
            read_outputs: read_outputs.collect(),
        },
        leaf_names: params.leaves.iter().map(|l| l.shown.clone()).collect(),
        programs: compiled,
        outputs,
        bindings,
        ignores_received_values,
        language,
        params: params.to_json(),
        external: None,
        origin: resource.origin.clone(),
    }))
}

struct Checker<'c, 'r> {
    resource: &'c RawResource,
    template: &'c TemplateInfo,
    language: Language,
    programs: &'c mut Programs,
    problems: &'c mut ResourceProblems<'r>,
    errors: usize,
    uncompilable: bool,
}

/// The text of an error of a leaf, with the field that has it.
fn leaf_text(leaf: &ParamLeaf, text: &str) -> String {
    match &leaf.outer {
        Some(outer) => format!("failed to evaluate expression for field '{outer}'; {text}"),
        None => text.to_owned(),
    }
}

impl Checker<'_, '_> {
    /// The program of a leaf; `None` for an empty text and after an error.
    fn leaf(&mut self, leaf: &ParamLeaf, path: &FieldPath) -> Option<Arc<Program>> {
        // In a map, an empty text is an expression too.
        if leaf.text.is_empty() && leaf.key.is_none() {
            return None;
        }
        let field = path.join(&leaf.path);
        match self.programs.compile(self.language, &leaf.text) {
            Ok(program) => {
                let found = program.value_type();
                match leaf.kind {
                    FieldKind::Typed(wanted) if wanted != found => {
                        let text = format!(
                            "error type checking for field '{}': Evaluated expression type {} want {}",
                            leaf.shown,
                            type_name(found),
                            type_name(wanted)
                        );
                        let problem = Diagnostic::error("expression-type", field, leaf_text(leaf, &text));
                        self.report_error(problem, None);
                        None
                    }
                    _ => {
                        let vocabulary = &self.programs.vocabulary;
                        suspicions::expression(&program, || field.clone(), None, vocabulary, self.problems);
                        // A text without a key is no dimension.
                        if self.template.variety == Variety::Quota && leaf.key.is_some() {
                            let problem = comparisons::dimension(&program, field, vocabulary);
                            problem.into_iter().for_each(|problem| self.problems.push(problem));
                        }
                        Some(program)
                    }
                }
            }
            Err(refusal) => {
                self.refused(leaf, field, &refusal);
                None
            }
        }
    }

    fn refused(&mut self, leaf: &ParamLeaf, field: FieldPath, refusal: &Refusal) {
        let vocabulary = self.programs.vocabulary.clone();
        let Some(cause) = &refusal.check else {
            self.uncompilable = true;
            let text = |cause: &str| {
                format!("expression compilation failed at [{}]'{}': '{cause}'", self.resource.key, leaf.shown)
            };
            let legacy = format!(
                "Unable to create builder/mapper for instance: instance='{}', err='{}'",
                self.resource.key,
                text(&refusal.compile.message)
            );
            let message = text(&refusal.compile.plain());
            let problem = self.problems.expression(field, &leaf.text, refusal, message, &*vocabulary);
            self.problems.push(problem.with_legacy(legacy));
            return;
        };
        let separator = if matches!(leaf.kind, FieldKind::Typed(_)) { ':' } else { ';' };
        let text = |cause: &str| {
            leaf_text(
                leaf,
                &format!("failed to evaluate expression for field '{}'{separator} {cause}", leaf.shown),
            )
        };
        let message = text(&cause.plain());
        let problem = self.problems.expression(field, &leaf.text, refusal, message, &*vocabulary);
        self.report_error(problem, Some(text(&cause.message)));
    }

    /// Reports an error. Istio Mixer logs only the first error of an instance, in words of its own if `legacy` has them.
    fn report_error(&mut self, mut problem: Diagnostic, legacy: Option<String>) {
        if self.errors == 0 {
            let text = legacy.as_ref().unwrap_or(&problem.message);
            let legacy = format!("instance='{}': {text}", self.resource.key);
            problem = problem.with_legacy(legacy);
        }
        self.errors += 1;
        self.problems.push(problem);
    }

    /// Checks the attribute bindings of a generator.
    fn bindings(
        &mut self,
        template: &TemplateInfo,
        params: &Params,
        path: &FieldPath,
    ) -> Vec<AttributeBinding> {
        let mut bindings = Vec::new();
        for (attribute, written) in &params.bindings {
            let field = self.binding_field(path, attribute);
            let text = written.replace("$out.", &template.output_prefix());
            let value = match self.programs.compile(self.language, &text) {
                Ok(program) => program,
                Err(refusal) => {
                    let told = |cause: &str| {
                        format!(
                            "error evaluating AttributeBinding expression '{text}' for attribute '{attribute}': {cause}"
                        )
                    };
                    self.binding_refused(field, &text, &refusal, told);
                    continue;
                }
            };
            let target = match self.programs.compile(self.language, attribute) {
                Ok(program) => program,
                Err(refusal) => {
                    let told = |cause: &str| {
                        format!(
                            "error evaluating AttributeBinding expression for attribute key '{attribute}': {cause}"
                        )
                    };
                    self.binding_refused(field, attribute, &refusal, told);
                    continue;
                }
            };
            let (wanted, found) = (target.value_type(), value.value_type());
            if wanted != found {
                let message = format!(
                    "error evaluating AttributeBinding: type '{wanted}' for attribute '{attribute}' does not match \
                     type '{found}' for expression '{text}'"
                );
                self.report_error(Diagnostic::error("expression-type", field, message), None);
                continue;
            }
            match self.programs.vocabulary.slot(attribute.as_bytes()) {
                Some(target) => {
                    let vocabulary = &self.programs.vocabulary;
                    suspicions::expression(&value, || field.clone(), None, vocabulary, self.problems);
                    bindings.push(AttributeBinding { target, value });
                }
                None => {
                    let text = format!(
                        "attribute not found when mapping outputs: attr='{attribute}', expr='{text}'"
                    );
                    let problem = Diagnostic::warning("attribute-unknown", field, text.clone());
                    self.problems.push(problem.with_legacy(text).with_hint("only attributes can be set"));
                }
            }
        }
        bindings
    }

    /// Reports a binding that does not compile. `told`: the text with this cause.
    fn binding_refused(
        &mut self,
        field: FieldPath,
        text: &str,
        refusal: &Refusal,
        told: impl Fn(&str) -> String,
    ) {
        let vocabulary = self.programs.vocabulary.clone();
        let error = refusal.error();
        let problem = self.problems.expression(field, text, refusal, told(&error.plain()), &*vocabulary);
        self.report_error(problem, Some(told(&error.message)));
    }

    /// The path of a binding: bindings are configured in the spec or in its params.
    fn binding_field(&self, path: &FieldPath, attribute: &str) -> FieldPath {
        let in_params = path.field("attributeBindings").key(attribute);
        let in_spec = FieldPath::root().field("spec").field("attributeBindings").key(attribute);
        let document = self.problems.document();
        if document.at(&in_spec).span != document.at(&FieldPath::root().field("spec")).span {
            in_spec
        } else {
            in_params
        }
    }
}
