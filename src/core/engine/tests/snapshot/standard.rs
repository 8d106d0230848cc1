//! Standard attributes are known without a manifest, beneath what manifests declare.

use mixer_attribute::ValueType;
use mixer_engine::snapshot::{Condition, SnapshotBuilder, SnapshotOptions};

use super::{build, build_all, log_texts, options, positions};

fn with_standard() -> SnapshotOptions {
    SnapshotOptions { standard_attributes: true, ..options() }
}

/// A rule with a condition.
fn rule(condition: &str) -> String {
    format!(
        "kind: handler\nmetadata: {{name: deny, namespace: istio-system}}\nspec: {{compiledAdapter: denier}}\n---\n\
         kind: instance\nmetadata: {{name: nothing, namespace: istio-system}}\nspec: {{compiledTemplate: checknothing}}\n---\n\
         kind: rule\nmetadata: {{name: r, namespace: istio-system}}\nspec:\n  match: '{condition}'\n  actions:\n  \
         - {{handler: deny, instances: [nothing]}}\n"
    )
}

/// A manifest that gives `api.service` a type.
fn manifest(value_type: &str) -> String {
    format!(
        "kind: attributemanifest\nmetadata: {{name: m, namespace: istio-system}}\nspec:\n  attributes:\n    \
         api.service: {{valueType: {value_type}}}\n"
    )
}

/// Without the option, as in mixs, an attribute is what a manifest declares.
#[test]
fn standard_attributes_need_no_manifest() {
    let (text, condition) = (rule("api.service == \"shop\""), "api.service == \"shop\"");
    let known = build_all(&mut SnapshotBuilder::new(with_standard()), &[("a.yaml", &text)]);
    assert_eq!(log_texts(&known), [""; 0]);
    assert!(matches!(&known.rules.iter().next().expect("a rule").condition, Condition::When(_)));
    assert_eq!(known.counts.attributes, build("").counts.attributes, "nobody declared them");
    let unknown = build(&text);
    assert_eq!(positions(&unknown), ["a.yaml:12:10 attribute-unknown"], "{condition}");
}

#[test]
fn what_a_manifest_declares_wins() {
    let text = rule("api.service == 7");
    let mut builder = SnapshotBuilder::new(with_standard());
    let of_text = build_all(&mut builder, &[("a.yaml", &text)]);
    assert_eq!(of_text.diagnostics.len(), 1, "{:?}", log_texts(&of_text));
    // The rule follows the manifest as it comes and goes, in one builder.
    let declared = build_all(&mut builder, &[("a.yaml", &text), ("m.yaml", &manifest("INT64"))]);
    assert_eq!(log_texts(&declared), [""; 0]);
    let slot = declared.vocabulary.slot(b"api.service").expect("a slot");
    assert_eq!(declared.vocabulary.value_type(slot), Some(ValueType::Int64));
    let again = build_all(&mut builder, &[("a.yaml", &text)]);
    assert_eq!(log_texts(&again), log_texts(&of_text));
}

/// Where the name of a verified caller is declared, no check is cached.
#[test]
fn the_name_of_a_verified_caller_is_declared() {
    let builder = SnapshotBuilder::new(with_standard());
    let vocabulary = &builder.empty().vocabulary;
    assert_eq!(vocabulary.caller_principal(), None);
    let names: Vec<&str> = vocabulary.typed().map(|(name, _)| name).collect();
    assert!(names.contains(&"source.services") && names.is_sorted(), "{names:?}");
}

/// In CEL, what has a type and fields below it is both.
#[test]
fn names_below_a_standard_attribute_are_known_in_cel() {
    let text = rule("has(destination.container) && destination.container.name == \"web\"").replace(
        "metadata: {name: r, namespace: istio-system}",
        "metadata: {name: r, namespace: istio-system, annotations: {policy.istio.io/lang: CEL}}",
    );
    let built = build_all(&mut SnapshotBuilder::new(with_standard()), &[("a.yaml", &text)]);
    assert_eq!(log_texts(&built), [""; 0]);
}

/// So are outputs that the templates of Istio do not have.
#[test]
fn outputs_that_istio_does_not_have_are_known_with_the_option() {
    let text = "kind: attributemanifest\nmetadata: {name: m, namespace: istio-system}\nspec:\n  attributes:\n    \
                a: {valueType: STRING}\n    b: {valueType: STRING}\n---\n\
                kind: instance\nmetadata: {name: i, namespace: istio-system}\nspec:\n  compiledTemplate: kubernetes\n  \
                attributeBindings:\n    a: $out.destination_service_host | $out.source_pod_name\n    b: a | \"\"\n";
    let known = build_all(&mut SnapshotBuilder::new(with_standard()), &[("a.yaml", text)]);
    assert_eq!(log_texts(&known), [""; 0]);
    let instance = known.instances.iter().next().expect("an instance");
    let bound = &instance.bound;
    let reads = |name: &str| bound.reads_output(name);
    assert!(reads("destination_service_host") && reads("source_pod_name"));
    assert!(!reads("source_service_host") && !reads("destination_labels") && !reads("a"));
    assert_eq!(bound.read_outputs.len(), 2);
    let unknown = build(text);
    assert!(log_texts(&unknown)[0].contains("adapter_template_kubernetes.output.destination_service_host"));
    assert_eq!(unknown.counts.attributes, known.counts.attributes, "nobody declared it");
    assert!(unknown.instances.is_empty());
}
