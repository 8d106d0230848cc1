//! Adapters and templates out of process: what serves after a mistake in one of them.
//!
//! Nobody listens at the address of the handler, so that its checks fail: a user whom nobody asks it about is allowed.

use mixer_engine::runtime::OnConfigError;

use crate::refusal::good;
use crate::stage::{Answer, Files, Stage};

fn descriptor(name: &str) -> String {
    let path =
        format!("{}/testdata/conformance/adapters-remote/descriptors/{name}.b64", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).expect("the descriptors are there").trim().to_owned()
}

fn template() -> String {
    let descriptor = descriptor("checknothing");
    format!(
        "kind: template\nmetadata: {{name: ask, namespace: istio-system}}\nspec: {{descriptor: {descriptor:?}}}\n"
    )
}

fn adapter() -> String {
    let config = descriptor("labcfg");
    format!(
        "kind: adapter\nmetadata: {{name: far, namespace: istio-system}}\nspec: {{templates: [ask], config: {config:?}}}\n"
    )
}

const HANDLER: &str = "kind: handler
metadata: {name: asked, namespace: istio-system}
spec: {adapter: far, connection: {address: '127.0.0.1:1'}, params: {path: x}}
";

const INSTANCE: &str = "kind: instance
metadata: {name: question, namespace: istio-system}
spec: {template: ask, params: {}}
";

const RULE: &str = "kind: rule
metadata: {name: ask-about-eve, namespace: istio-system}
spec: {match: '(source.user | \"\") == \"eve\"', actions: [{handler: asked, instances: [question]}]}
";

fn files() -> Files {
    let mut files = good();
    files.put("/conf/template.yaml", template());
    files.put("/conf/adapter.yaml", adapter());
    files.put("/conf/handler.yaml", HANDLER);
    files.put("/conf/instance.yaml", INSTANCE);
    files.put("/conf/rule.yaml", RULE);
    files
}

fn answers(stage: &Stage) -> [Answer; 3] {
    ["ann", "bob", "eve"].map(|user| stage.check(user))
}

const SERVES: [Answer; 3] = [Answer::Allowed, Answer::Denied, Answer::Failed];

/// `(name, file, its text)`.
fn mistakes() -> Vec<(&'static str, &'static str, String)> {
    let cut = descriptor("checknothing");
    let cut = cut[..cut.len() / 2].to_owned();
    let config = descriptor("labcfg");
    vec![
        (
            "the descriptor of a template is cut off",
            "template",
            template().replace(&descriptor("checknothing"), &cut),
        ),
        (
            "the descriptor of a template is no base64",
            "template",
            template().replace("descriptor: \"", "descriptor: \"%%"),
        ),
        (
            "the descriptor of a template is misspelt",
            "template",
            template().replace("{descriptor:", "{descriptr:"),
        ),
        ("a template has no descriptor", "template", template().replace(&descriptor("checknothing"), "")),
        ("a template is not YAML", "template", template().replace("spec: {", "spec: {{")),
        ("a template is gone that an instance needs", "template", "# Nothing.\n".to_owned()),
        ("an adapter names a template that does not exist", "adapter", adapter().replace("[ask]", "[aks]")),
        ("an adapter takes no template any more", "adapter", adapter().replace("[ask]", "[]")),
        (
            "the config of an adapter is cut off",
            "adapter",
            adapter().replace(&config, &config[..config.len() / 2]),
        ),
        ("a field of an adapter is misspelt", "adapter", adapter().replace("{templates", "{tempaltes")),
        ("an adapter is gone that a handler needs", "adapter", "# Nothing.\n".to_owned()),
        ("a parameter of a handler does not exist", "handler", HANDLER.replace("path: x", "pth: x")),
        (
            "a handler has no connection",
            "handler",
            HANDLER.replace("connection: {address: '127.0.0.1:1'}, ", ""),
        ),
        (
            "an instance has a field that its template lacks",
            "instance",
            INSTANCE.replace("params: {}", "params: {vlaue: 1}"),
        ),
    ]
}

#[test]
fn what_needs_a_template_or_an_adapter_with_an_error_goes_on_as_it_was() {
    for policy in [OnConfigError::KeepLast, OnConfigError::Refuse] {
        for (name, file, text) in mistakes() {
            let before = files();
            let mut stage = Stage::new(policy, true);
            stage.start(&before);
            assert_eq!(
                (answers(&stage), stage.kept()),
                (SERVES, Vec::new()),
                "{:?}",
                stage.published().diagnostics
            );
            let mut broken = before.clone();
            broken.put(&format!("/conf/{file}.yaml"), &*text);
            stage.change(&broken);
            assert_eq!(answers(&stage), SERVES, "{policy:?}: {name}");
            assert!(!stage.kept().is_empty(), "{policy:?}: {name}");
            // Valid changes apply, except where any error keeps the whole.
            let mut more = broken.clone();
            more.put(
                "/conf/more.yaml",
                RULE.replace("ask-about-eve", "ask-about-zoe").replace("\"eve\"", "\"zoe\""),
            );
            stage.change(&more);
            assert_eq!(answers(&stage), SERVES, "{policy:?}: {name}");
            // A restart with the cache, and one without.
            stage.change(&broken);
            stage.stop();
            stage.start(&broken);
            assert_eq!(answers(&stage), SERVES, "{policy:?}: {name}");
            let mut without = Stage::new(policy, false);
            without.start(&broken);
            assert_eq!(answers(&without), [Answer::Unavailable; 3], "{policy:?}: {name}");
            // Mended.
            stage.change(&before);
            stage.pass(crate::refill::QUIET);
            assert_eq!((answers(&stage), stage.kept()), (SERVES, Vec::new()), "{policy:?}: {name}");
        }
    }
}

/// A new template and what was made for it: the instance waits for the template that has an error, and its handler stays.
#[test]
fn what_changes_with_a_template_that_has_an_error_waits() {
    let mut stage = Stage::new(OnConfigError::KeepLast, false);
    let before = files();
    stage.start(&before);
    let mut changed = before.clone();
    // The rule is to ask with another template, and about nobody else.
    changed.put(
        "/conf/template.yaml",
        template().replace("name: ask", "name: ask2").replace("descriptor:", "descriptr:"),
    );
    changed.put("/conf/adapter.yaml", adapter().replace("[ask]", "[ask2]"));
    changed.put("/conf/instance.yaml", INSTANCE.replace("template: ask", "template: ask2"));
    changed.put("/conf/rule.yaml", RULE.replace("\"eve\"", "\"zoe\""));
    stage.change(&changed);
    assert_eq!(answers(&stage), SERVES, "{:?}", stage.kept());
    changed.put("/conf/template.yaml", template().replace("name: ask", "name: ask2"));
    stage.change(&changed);
    assert_eq!(
        answers(&stage),
        [Answer::Allowed, Answer::Denied, Answer::Allowed],
        "{:?}",
        stage.published().diagnostics
    );
    assert_eq!((stage.check("zoe"), stage.kept()), (Answer::Failed, Vec::new()));
}
