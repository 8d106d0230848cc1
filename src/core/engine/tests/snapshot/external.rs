//! Templates and adapters out of process, and their handlers and instances.

use mixer_engine::snapshot::{Snapshot, SnapshotBuilder, check_params, dump, lint};

use super::{build, build_all, log_texts, options};

/// The descriptors of the golden cases.
fn descriptor(name: &str) -> String {
    let path = format!(
        "{}/../../../testdata/conformance/adapters-remote/descriptors/{name}.b64",
        env!("CARGO_MANIFEST_DIR")
    );
    std::fs::read_to_string(path).unwrap().trim().to_owned()
}

fn template(name: &str) -> String {
    let descriptor = descriptor(name);
    format!(
        "kind: template\nmetadata: {{name: {name}, namespace: a}}\nspec: {{descriptor: {descriptor:?}}}\n"
    )
}

const ATTRIBUTES: &str = "kind: attributemanifest
metadata: {name: m, namespace: a}
spec:
  attributes:
    request.path: {valueType: STRING}
    request.size: {valueType: INT64}
    source.labels: {valueType: STRING_MAP}
    made.text: {valueType: STRING}
";

fn adapter(templates: &str) -> String {
    let config = descriptor("labcfg");
    format!(
        "kind: adapter\nmetadata: {{name: adp, namespace: a}}\nspec: {{templates: [{templates}], config: {config:?}}}\n"
    )
}

fn handler(params: &str) -> String {
    format!(
        "kind: handler
metadata: {{name: h, namespace: a}}
spec:
  adapter: adp
  connection: {{address: 127.0.0.1:1}}
  params: {params}
"
    )
}

fn instance(template: &str, params: &str) -> String {
    format!(
        "kind: instance\nmetadata: {{name: i, namespace: a}}\nspec:\n  template: {template}\n  params: {params}\n"
    )
}

const RULE: &str = "kind: rule
metadata: {name: r, namespace: a}
spec: {actions: [{handler: h, instances: [i]}]}
";

fn joined(parts: &[&str]) -> String {
    parts.join("---\n")
}

fn kvlab(handler_params: &str, instance_params: &str) -> String {
    let parts = [&template("kvlab"), &adapter("kvlab"), &handler(handler_params)];
    let [template, adapter, handler] = parts;
    joined(&[ATTRIBUTES, template, adapter, handler, &instance("kvlab", instance_params), RULE])
}

fn rules(snapshot: &Snapshot) -> usize {
    snapshot.rules.len()
}

#[test]
fn a_handler_and_its_instances_are_bound() {
    let snapshot = build(&kvlab("{path: x}", "{s: request.path, mv: {a: request.size, b: 3}}"));
    assert_eq!(log_texts(&snapshot), Vec::<String>::new());
    assert_eq!((rules(&snapshot), check_params(&snapshot)), (1, Vec::new()));
    assert_eq!((snapshot.counts.template_configs, snapshot.counts.adapter_info_configs), (1, 1));
    let handler = snapshot.handlers.iter().next().unwrap();
    assert_eq!((&*handler.name, handler.adapter_name()), ("h.handler.a", "adp.adapter.a"));
}

#[test]
fn each_problem_of_parameters_names_its_field_and_a_cure() {
    let cases = [
        ("{pth: x}", "field 'pth' not found in message 'Params'", "did you mean `path`?"),
        ("{mode: OM}", "unrecognized enum value 'OM' for enum 'Mode'", "did you mean `ON`?"),
        ("{limit: 1.5}", "field 'limit' is of type 'float64' instead of expected type 'int'", ""),
        ("{names: a}", "field 'names' is of type 'string' instead of expected type '[]string'", ""),
        ("{inner: {b: 1}}", "/inner: 'field 'b' not found in message 'Inner''", "did you mean `a`?"),
        (
            "{table: {k: {a: 1}}}",
            "/table[k]: '/value: 'field 'a' is of type 'float64' instead of expected type 'string'''",
            "",
        ),
        (
            "{ttl: 3}",
            "/ttl: 'message type '.google.protobuf.Duration'  got:type 'float64' want 'string''",
            "",
        ),
    ];
    for (params, text, hint) in cases {
        let snapshot = build(&kvlab(params, "{s: request.path}"));
        let problem = snapshot.diagnostics.iter().find(|problem| problem.resource == "h.handler.a").unwrap();
        assert_eq!((problem.code, &*problem.message), ("params-invalid", text), "{params}");
        assert!(problem.span.is_some() && problem.file.is_some(), "{params}");
        assert!(hint.is_empty() || problem.hint.as_deref() == Some(hint), "{params}: {:?}", problem.hint);
        assert_eq!(rules(&snapshot), 0);
    }
    let schema = "config does not conform to schema of template 'kvlab': ";
    let cases = [
        ("{ss: '\"x\"'}", "fieldEncoder 'ss' not found in message 'InstanceMsg'"),
        ("{name: '\"x\"'}", "fieldEncoder 'name' not found in message 'InstanceMsg'"),
        ("{s: nosuch.attr}", "unable to encode fieldEncoder s: nosuch.attr. unknown attribute nosuch.attr"),
        (
            "{s: request.size}",
            "unable to encode fieldEncoder s: request.size. encoder string for type TYPE_STRING does not accept INT64",
        ),
        (
            "{v: source.labels}",
            "unable to build message field: v, unsupported type: STRING_MAP (.istio.policy.v1beta1.Value)",
        ),
        (
            "{dur: request.path}",
            "unable to build message field: dur, incorrect type for .istio.policy.v1beta1.Duration. got: STRING, want: DURATION",
        ),
        (
            "{color: '\"PINK\"'}",
            "unable to encode fieldEncoder color: \"PINK\". unknown value: PINK, enum:[RED GREEN BLUE]",
        ),
        ("{raw: '\"x\"'}", "field type not supported 'TYPE_BYTES'"),
        ("{sub: 3}", "unable to process sub:  3, got int, want: map[string]interface{}"),
        (
            "{mi: {k: request.path}}",
            "unable to encode fieldEncoder mi: request.path. encoder int for type TYPE_INT64 does not accept STRING",
        ),
    ];
    for (params, text) in cases {
        let snapshot = build(&kvlab("{}", params));
        let problem = snapshot.diagnostics.iter().find(|problem| problem.resource == "i.instance.a").unwrap();
        assert_eq!(problem.message, format!("{schema}{text}"), "{params}");
        assert!(problem.span.is_some(), "{params}");
    }
}

#[test]
fn a_handler_without_a_connection_is_an_error_and_an_empty_address_is_checked_offline() {
    let without = kvlab("{}", "{}").replace("  connection: {address: 127.0.0.1:1}\n", "");
    let codes: Vec<&str> = build(&without).diagnostics.iter().map(|problem| problem.code).collect();
    assert!(codes.contains(&"connection-missing"), "{codes:?}");
    let empty = build(&kvlab("{}", "{}").replace("127.0.0.1:1", "''"));
    let found = check_params(&empty);
    assert_eq!(found.len(), 1);
    assert_eq!(
        (&*found[0].message, found[0].field.to_string().as_str()),
        ("empty connection address", "spec.connection.address")
    );
}

#[test]
fn what_depends_on_a_template_follows_its_changes() {
    let mut builder = SnapshotBuilder::new(options());
    let rest = joined(&[
        ATTRIBUTES,
        &adapter("kvlab"),
        &handler("{}"),
        &instance("kvlab", "{s: request.path}"),
        RULE,
    ]);
    let mut rules_with = |template: &str| {
        let snapshot = build_all(&mut builder, &[("rest.yaml", &rest), ("template.yaml", template)]);
        (rules(&snapshot), snapshot.diagnostics.len())
    };
    let good = template("kvlab");
    assert_eq!(rules_with(&good), (1, 0));
    let (rules, problems) =
        rules_with("kind: template\nmetadata: {name: kvlab, namespace: a}\nspec: {descriptor: AAAA}\n");
    assert!(rules == 0 && problems > 0, "{problems}");
    assert_eq!(rules_with(&good), (1, 0));
    let (rules, problems) = rules_with("");
    assert!(rules == 0 && problems > 0, "{problems}");
    assert_eq!(rules_with(&good), (1, 0));
}

#[test]
fn outputs_are_attributes_of_bindings_only() {
    let with = |bindings: &str| {
        let instance = instance("apalab", "{s: request.path}") + "  attributeBindings: " + bindings + "\n";
        let text =
            joined(&[ATTRIBUTES, &template("apalab"), &adapter("apalab"), &handler("{}"), &instance, RULE]);
        log_texts(&build(&text))
    };
    assert_eq!(with("{made.text: output.s | \"none\"}"), Vec::<String>::new());
    for (bindings, text) in [
        (
            "{made.txt: output.s}",
            "attribute not found when mapping outputs: attr='made.txt', expr='output.s'",
        ),
        ("{made.text: output.nope}", "attribute expression compilation failure: expr='output.nope'"),
        (
            "{made.text: output.i64}",
            "attribute type mismatch: attr='made.text', attrType='STRING', expr='output.i64', exprType='INT64'",
        ),
    ] {
        let found = with(bindings);
        assert!(found.len() == 1 && found[0].starts_with(text), "{found:?}");
    }
}

#[test]
fn a_dump_has_the_templates_and_adapters() {
    let parts = [&template("kvlab"), &template("apalab"), &adapter("kvlab"), &handler("{}")];
    let snapshot = build(&joined(&[
        ATTRIBUTES,
        parts[0],
        parts[1],
        parts[2],
        parts[3],
        &instance("kvlab", "{s: request.path}"),
        RULE,
    ]));
    let found = dump(&snapshot);
    let templates: Vec<_> = found
        .template_metadatas
        .iter()
        .map(|t| (&*t.resource, &*t.name, &*t.internal_package_derived_name, &*t.variety, t.references))
        .collect();
    assert_eq!(
        templates,
        [
            ("apalab.template.a", "apalab", "apalab", "TEMPLATE_VARIETY_ATTRIBUTE_GENERATOR", 0),
            ("kvlab.template.a", "kvlab", "kvlab", "TEMPLATE_VARIETY_REPORT", 1),
        ]
    );
    let [adapter] = &found.adapter_metadatas[..] else { panic!("{:?}", found.adapter_metadatas) };
    assert_eq!(
        (&*adapter.name, &adapter.templates[..]),
        ("adp.adapter.a", &["kvlab.template.a".to_owned()][..])
    );
    assert_eq!((adapter.params.as_deref(), adapter.session_based), (Some("labcfg.Params"), false));
    assert_eq!((adapter.references, adapter.source.line > 1), (1, true));
}

#[test]
fn what_is_out_of_process_and_unused_is_a_warning() {
    let parts = [&template("kvlab"), &template("apalab"), &adapter("kvlab")];
    let found = lint(&build(&joined(&[ATTRIBUTES, parts[0], parts[1], parts[2]])));
    let found: Vec<_> = found.iter().map(|p| (p.code, &*p.resource, p.span.is_some())).collect();
    assert_eq!(
        found,
        [("adapter-unused", "adp.adapter.a", true), ("template-unused", "apalab.template.a", true)]
    );
    let parts = [&template("kvlab"), &adapter("kvlab"), &handler("{}")];
    let used =
        joined(&[ATTRIBUTES, parts[0], parts[1], parts[2], &instance("kvlab", "{s: request.path}"), RULE]);
    assert_eq!(lint(&build(&used)), Vec::new());
}
