//! Instances of templates out of process.

use std::sync::Arc;

use super::{ExternalTable, MAX_OUTPUTS, OutputScope, message};
use crate::adapter::BoundInstance;
use crate::snapshot::decode::Instance;
use crate::snapshot::forgotten::{self, empty_parameter};
use crate::snapshot::model::{AttributeBinding, InstanceConfig};
use crate::snapshot::problems::ResourceProblems;
use crate::snapshot::programs::Programs;
use crate::snapshot::{annotations, comparisons, suspicions};
use crate::template::{ExternalTemplate, TemplateInfo, Variety, built_in};
use mixer_attribute::SlotId;
use mixer_config::message::Field as _;
use mixer_config::{Diagnostic, FieldPath, RawResource};
use mixer_expr::Language;

/// What an instance is built from.
pub(in crate::snapshot) struct InstanceSource<'s> {
    pub(in crate::snapshot) instance: Instance,
    pub(in crate::snapshot) language: Language,
    pub(in crate::snapshot) table: &'s ExternalTable,
    pub(in crate::snapshot) programs: &'s mut Programs,
}

/// Builds an instance of a template out of process, with the names that it looked up; `None` after an error.
pub(in crate::snapshot) fn build(
    resource: &RawResource,
    source: InstanceSource<'_>,
    problems: &mut ResourceProblems<'_>,
) -> (Option<Arc<InstanceConfig>>, Box<[Arc<str>]>) {
    let InstanceSource { instance, language, table, programs } = source;
    annotations::language(resource, problems);
    let (template, references) = table.template(&instance.template, &resource.key.namespace);
    let references = references.into();
    let Some((key, template)) = template else {
        // Whether it is one of a generator is not known.
        annotations::check(resource, annotations::OF_GENERATORS, problems);
        unknown_template(resource, &instance.template, table, problems);
        return (None, references);
    };
    let is_generator = template.variety == Variety::AttributeGenerator;
    let known = if is_generator { annotations::OF_GENERATORS } else { &[] };
    annotations::check(resource, known, problems);
    let ignores_received_values = is_generator && annotations::ignores_received_values(resource, problems);
    let Some(external) = &template.external else { return (None, references) };
    if template.variety != Variety::Report {
        let null = forgotten::in_instance(problems.document());
        null.into_iter().for_each(|found| problems.push(empty_parameter(found)));
    }
    let path = FieldPath::root().field("spec");
    let given = instance.params.as_ref().map(|params| &params.0);
    let compiled = {
        let mut compile = |text: &str| programs.compile(language, text);
        message::compile(&external.schema, external.instance, given, &mut compile)
    };
    let context = Context { resource, template, external, programs, language, problems };
    if !compiled.errors.is_empty() {
        context.report(&instance.template, compiled.errors, &path);
        return (None, references);
    }
    let bindings = context.bind(&instance, &path);
    let Context { programs, problems, .. } = bindings.1;
    let bindings = bindings.0;
    for expression in &compiled.expressions {
        let field = path.field("params").join(&expression.field);
        let vocabulary = &programs.vocabulary;
        suspicions::expression(&expression.program, || field.clone(), None, vocabulary, problems);
        if template.variety == Variety::Quota {
            let problem = comparisons::dimension(&expression.program, field, vocabulary);
            problem.into_iter().for_each(|problem| problems.push(problem));
        }
    }
    let outputs = (0..template.output.len()).map(SlotId::of_output);
    let expressions = compiled.expressions;
    let config = InstanceConfig {
        key: resource.key.clone(),
        bound: BoundInstance {
            name: resource.key.to_string().into(),
            template: Arc::clone(template),
            leaves: expressions.iter().map(|expression| expression.leaf.clone()).collect(),
            messages: Vec::new(),
            plan: Some(Arc::new(compiled.plan)),
            read_outputs: Arc::default(),
        },
        leaf_names: expressions.iter().map(|expression| expression.shown.clone()).collect(),
        programs: expressions.into_iter().map(|expression| Some(expression.program)).collect(),
        outputs: outputs.collect(),
        bindings,
        ignores_received_values,
        language,
        params: given.map_or(serde_json::Value::Object(serde_json::Map::new()), mixer_config::Node::to_json),
        external: Some(key.clone()),
        origin: resource.origin.clone(),
    };
    (Some(Arc::new(config)), references)
}

fn unknown_template(
    resource: &RawResource,
    template: &str,
    table: &ExternalTable,
    problems: &mut ResourceProblems<'_>,
) {
    let field = FieldPath::root().field("spec").field("template");
    let text = format!("template '{template}' not found");
    let legacy = format!("instance='{}'.template: {text}", resource.key);
    let mut problem = Diagnostic::error("template-unknown", field, text).with_legacy(legacy);
    problem.hint = if template.is_empty() {
        Some("name a built-in template with compiledTemplate".to_owned())
    } else if built_in(template).is_some() {
        Some(format!("for the built-in template write compiledTemplate: {template}"))
    } else {
        table.hint(template, "template", &resource.key.namespace)
    };
    problems.push(problem);
}

struct Context<'c, 'r> {
    resource: &'c RawResource,
    template: &'c TemplateInfo,
    external: &'c ExternalTemplate,
    programs: &'c mut Programs,
    language: Language,
    problems: &'c mut ResourceProblems<'r>,
}

impl<'c, 'r> Context<'c, 'r> {
    /// Reports what is wrong with the parameters. Istio Mixer logs the first error only.
    fn report(self, template: &str, errors: Vec<message::MessageError>, path: &FieldPath) {
        let vocabulary = Arc::clone(&self.programs.vocabulary);
        for (index, error) in errors.into_iter().enumerate() {
            let field = path.field("params").join(&error.field);
            let told =
                |text: &str| format!("config does not conform to schema of template '{template}': {text}");
            let text = told(error.plain.as_deref().unwrap_or(&error.text));
            let mut problem = match &error.refusal {
                Some((expression, refusal)) => {
                    self.problems.expression(field, expression, refusal, text, &*vocabulary)
                }
                None => Diagnostic::error("params-invalid", field, text),
            };
            if error.hint.is_some() {
                problem.hint = error.hint;
            }
            if index == 0 {
                let legacy = format!("instance='{}'.params: {}", self.resource.key, told(&error.text));
                problem = problem.with_legacy(legacy);
            }
            self.problems.push(problem);
        }
    }

    /// Compiles the attribute bindings of a generator. One with an error is left out, as by Istio Mixer.
    fn bind(mut self, instance: &Instance, path: &FieldPath) -> (Vec<AttributeBinding>, Self) {
        let field = path.field("attributeBindings");
        if instance.attribute_bindings.is_empty() {
            return (Vec::new(), self);
        }
        if self.template.variety != Variety::AttributeGenerator {
            let text = format!("template '{}' generates no attributes", instance.template);
            let problem = Diagnostic::error("params-invalid", field, text);
            self.problems.push(problem.with_hint("remove the attribute bindings").accepted_by_istio());
            return (Vec::new(), self);
        }
        debug_assert!(self.external.output.is_some());
        let vocabulary = Arc::clone(&self.programs.vocabulary);
        let mut scope = OutputScope::new(&vocabulary);
        for output in self.template.output.iter() {
            scope.add(format!("output.{}", output.name), output.value_type);
        }
        if scope.len() > MAX_OUTPUTS {
            let text = format!("template '{}' has more than {MAX_OUTPUTS} outputs", instance.template);
            self.problems.push(Diagnostic::error("params-invalid", field, text));
            return (Vec::new(), self);
        }
        let mut bindings = Vec::new();
        for (attribute, expression) in &instance.attribute_bindings {
            bindings.extend(self.binding(attribute, expression, &scope, field.key(attribute)));
        }
        (bindings, self)
    }

    fn binding(
        &mut self,
        attribute: &str,
        expression: &str,
        scope: &OutputScope<'_>,
        field: FieldPath,
    ) -> Option<AttributeBinding> {
        let vocabulary = Arc::clone(&self.programs.vocabulary);
        let target = vocabulary.slot(attribute.as_bytes());
        let declared = target.and_then(|target| Some((target, vocabulary.value_type(target)?)));
        let Some((target, wanted)) = declared else {
            let text =
                format!("attribute not found when mapping outputs: attr='{attribute}', expr='{expression}'");
            let mut problem = Diagnostic::error("attribute-unknown", field, text.clone()).with_legacy(text);
            let names = vocabulary.typed().map(|(name, _)| name);
            problem.hint = mixer_config::message::suggestion(attribute, names)
                .or_else(|| Some("declare it in an attributemanifest".to_owned()));
            self.problems.push(problem);
            return None;
        };
        let value = match self.programs.compile_with(self.language, expression, scope) {
            Ok(value) => value,
            Err(refusal) => {
                let told = |cause: &str| {
                    format!("attribute expression compilation failure: expr='{expression}', {cause}")
                };
                let message = told(&refusal.error().plain());
                let problem = self.problems.expression(field, expression, &refusal, message, scope);
                self.problems.push(problem.with_legacy(told(&refusal.error().message)));
                return None;
            }
        };
        let found = value.value_type();
        if found != wanted {
            let text = format!(
                "attribute type mismatch: attr='{attribute}', attrType='{wanted}', expr='{expression}', exprType='{found}'"
            );
            self.problems.push(Diagnostic::error("expression-type", field, text.clone()).with_legacy(text));
            return None;
        }
        Some(AttributeBinding { target, value })
    }
}
