//! The handler, instances and rules of a new adapter.

use std::fmt::Write as _;

use super::new::NewAdapter;
use super::template::TemplateChoice;
use mixer_engine::template::Variety;

const ATTRIBUTES: &str = include_str!("scaffold/attributes.yaml");
const HANDLER: &str = include_str!("scaffold/handler.yaml");

/// The attributes that the expressions use.
pub(super) fn attributes(adapter: &NewAdapter<'_>) -> String {
    let mut text = adapter.named(ATTRIBUTES);
    for template in adapter.templates.iter().filter(|t| t.variety() == Variety::AttributeGenerator) {
        let _ = writeln!(text, "    source.{}: {{valueType: STRING}}", template.name());
    }
    text
}

/// The parameters of the handler, by what the adapter does.
fn params(adapter: &NewAdapter<'_>) -> String {
    let mut text = String::new();
    let has = |varieties: &[Variety]| adapter.templates.iter().any(|t| varieties.contains(&t.variety()));
    if has(&[Variety::Check, Variety::CheckWithOutput]) {
        text += "    refused: [eve]\n";
    }
    if has(&[Variety::Quota]) {
        text += "    limit: 10\n";
    }
    if has(&[Variety::Report, Variety::AttributeGenerator, Variety::CheckWithOutput]) {
        text += "    prefix: \"of \"\n";
    }
    text
}

/// The handler, and an instance and a rule for each template.
pub(super) fn policy(adapter: &NewAdapter<'_>) -> String {
    let mut text = adapter.named(HANDLER).replace("{{params}}", &params(adapter));
    for template in adapter.templates {
        text += &adapter.named(&instance(template)).replace("{{template}}", template.name());
        text += &adapter.named(&rule(template)).replace("{{template}}", template.name());
    }
    text
}

fn instance(template: &TemplateChoice) -> String {
    let mut text = String::from(
        "---\napiVersion: config.istio.io/v1alpha2\nkind: instance\n\
         metadata: {name: {{name}}-{{template}}, namespace: {{namespace}}}\nspec:\n  template: {{template}}\n",
    );
    let _ = writeln!(text, "  params: {}", template.params());
    if template.variety() == Variety::AttributeGenerator {
        let output = template.output();
        let _ = writeln!(
            text,
            "  attribute_bindings:\n    source.{}: output.{output} | \"unknown\"",
            template.name()
        );
    }
    text
}

fn rule(template: &TemplateChoice) -> String {
    let mut text = String::from(
        "---\napiVersion: config.istio.io/v1alpha2\nkind: rule\n\
         metadata: {name: {{name}}-{{template}}, namespace: {{namespace}}}\nspec:\n  actions:\n",
    );
    text += match template.variety() {
        Variety::CheckWithOutput => "  - name: answer\n    handler: {{name}}\n",
        _ => "  - handler: {{name}}\n",
    };
    text += "    instances: [{{name}}-{{template}}]\n";
    if template.variety() == Variety::CheckWithOutput {
        let _ = writeln!(
            text,
            "  requestHeaderOperations:\n  - name: x-{{{{template}}}}\n    values: [answer.output.{} | \"none\"]",
            template.output()
        );
    }
    text
}
