//! Roles as resources: what a change of them rebuilds, and what serves after a mistake in them.

use mixer_engine::runtime::OnConfigError;

use crate::refusal::{BESIDE, good};
use crate::stage::{Answer, Files, Stage};

/// Asks a handler of roles about dave, who reads.
const ASK: &str = "kind: handler
metadata: {name: roles, namespace: istio-system}
spec: {compiledAdapter: rbac}
---
kind: instance
metadata: {name: who, namespace: istio-system}
spec:
  compiledTemplate: authorization
  params:
    subject: {user: 'source.user | \"\"'}
    action: {namespace: '\"lib\"', service: '\"shelf\"', method: '\"GET\"', path: '\"/\"'}
---
kind: rule
metadata: {name: ask, namespace: istio-system}
spec: {actions: [{handler: roles, instances: [who]}]}
";
const ROLE: &str = "apiVersion: rbac.istio.io/v1alpha1
kind: ServiceRole
metadata: {name: reader, namespace: lib}
spec: {rules: [{services: [shelf], methods: [GET]}]}
";
const BINDING: &str = "apiVersion: rbac.istio.io/v1alpha1
kind: ServiceRoleBinding
metadata: {name: readers, namespace: lib}
spec: {subjects: [{user: dave}], roleRef: {kind: ServiceRole, name: reader}}
";

fn files() -> Files {
    let mut files = good();
    files.put("/conf/ask.yaml", ASK);
    files.put("/conf/role.yaml", ROLE);
    files.put("/conf/binding.yaml", BINDING);
    files.put("/conf/beside.yaml", BESIDE);
    files
}

/// The live handlers: name and address.
fn live(stage: &Stage) -> Vec<(String, usize)> {
    let published = stage.published();
    let handlers = published.routes.handlers().iter();
    handlers.map(|handler| (handler.name().to_owned(), std::sync::Arc::as_ptr(handler) as usize)).collect()
}

fn codes(stage: &Stage) -> Vec<&'static str> {
    stage.published().diagnostics.iter().map(|problem| problem.code).collect()
}

#[test]
fn a_change_of_roles_rebuilds_only_their_handlers() {
    let mut stage = Stage::new(OnConfigError::KeepLast, false);
    let mut files = files();
    stage.start(&files);
    assert_eq!((stage.check("dave"), stage.check("eve")), (Answer::Allowed, Answer::Denied));
    let before = live(&stage);
    files.put("/conf/role.yaml", ROLE.replace("[GET]", "[PUT]"));
    stage.change(&files);
    assert_eq!(stage.check("dave"), Answer::Denied);
    let after = live(&stage);
    assert_eq!(before.len(), 3, "{before:?}");
    for ((name, old), (_, new)) in before.iter().zip(&after) {
        assert_eq!(old == new, name != "roles.istio-system", "{name}");
    }
    // Another position is no change, and a change of something else none of roles.
    files.put("/conf/role.yaml", "# moved\n---\n".to_owned() + &ROLE.replace("[GET]", "[PUT]"));
    files.remove("/conf/beside.yaml");
    stage.change(&files);
    assert!(live(&stage).iter().all(|handler| after.contains(handler)));
}

#[test]
fn a_role_with_an_error_keeps_its_last_version() {
    for mistake in
        [("methods", "method"), ("rules: [", "rules: [{services: a},"), ("v1alpha1", "v1alpha1\nspec: {")]
    {
        let mut stage = Stage::new(OnConfigError::KeepLast, false);
        let mut files = files();
        stage.start(&files);
        files.put("/conf/role.yaml", ROLE.replace(mistake.0, mistake.1));
        stage.change(&files);
        assert_eq!(
            (stage.check("dave"), stage.check("eve")),
            (Answer::Allowed, Answer::Denied),
            "{mistake:?}"
        );
        assert!(codes(&stage).contains(&"config-kept"), "{mistake:?}: {:?}", codes(&stage));
        // A change of what names it waits, and another one applies, unless nobody knows what the document is.
        let carl = if mistake.1.starts_with("v1alpha1") { Answer::Denied } else { Answer::Allowed };
        let more =
            BINDING.replace("readers", "writers").replace("reader}", "writer}").replace("dave", "carl");
        files.put("/conf/binding.yaml", BINDING.replace("dave", "eve"));
        files.put("/conf/more.yaml", more + "---\n" + &ROLE.replace("reader", "writer"));
        stage.change(&files);
        assert_eq!(
            ["dave", "eve", "carl"].map(|user| stage.check(user)),
            [Answer::Allowed, Answer::Denied, carl],
            "{mistake:?}"
        );
        files.put("/conf/role.yaml", ROLE);
        stage.change(&files);
        assert_eq!((stage.check("eve"), stage.kept()), (Answer::Allowed, Vec::new()));
    }
}

/// Restrictions that lost their place in `spec`: the role would permit every path.
#[test]
fn what_slipped_into_the_metadata_of_a_role_opens_nothing() {
    let restricted = ROLE.replace("methods: [GET]", "methods: [GET], paths: [/shelf]");
    for slipped in ["paths: [/shelf]", "annotations: {paths: /shelf}"] {
        let mut stage = Stage::new(OnConfigError::KeepLast, false);
        let mut files = files();
        files.put("/conf/role.yaml", &*restricted);
        stage.start(&files);
        assert_eq!(stage.check("dave"), Answer::Denied, "the path is another one");
        files.put("/conf/role.yaml", ROLE.replace("namespace: lib", &format!("namespace: lib, {slipped}")));
        stage.change(&files);
        assert_eq!(stage.check("dave"), Answer::Denied, "{slipped}");
        assert!(codes(&stage).contains(&"document-field"), "{slipped}: {:?}", codes(&stage));
        stage.start(&files);
        assert_eq!(stage.check("dave"), Answer::Unavailable, "{slipped}");
    }
}

#[test]
fn a_role_and_its_binding_change_together() {
    // The role permits more, the binding names fewer, and one of them has a mistake.
    let role = ROLE.replace("[GET]", "['*']");
    let put = ASK.replace("'\"GET\"'", "'\"PUT\"'");
    let before = BINDING.replace("user: dave}", "user: dave}, {user: eve}");
    for (role, binding) in [
        (role.clone(), BINDING.replace("subjects", "subjcts")),
        (role.replace("methods", "methds"), BINDING.to_owned()),
    ] {
        let mut stage = Stage::new(OnConfigError::KeepLast, false);
        let mut files = files();
        files.put("/conf/ask.yaml", &*put);
        files.put("/conf/binding.yaml", &*before);
        stage.start(&files);
        assert_eq!((stage.check("dave"), stage.check("eve")), (Answer::Denied, Answer::Denied));
        files.put("/conf/role.yaml", role);
        files.put("/conf/binding.yaml", binding);
        stage.change(&files);
        assert_eq!((stage.check("dave"), stage.check("eve")), (Answer::Denied, Answer::Denied));
        assert_eq!(stage.kept().len(), 2, "{:?}", stage.kept());
    }
}

/// What permits more than it says is an error, which Istio Mixer does not have.
#[test]
fn an_opening_keeps_its_last_version() {
    let empty = ROLE.replace("methods: [GET]", "methods: [GET, PUT], paths: ");
    let trial = BINDING.replace("user: dave", "user: eve").replace("spec: {", "spec: {mode: PERMISSIVE, ");
    for (file, text, code) in [("role", empty, "rbac-empty"), ("binding", trial, "rbac-permissive")] {
        for mode in [OnConfigError::KeepLast, OnConfigError::ServeValid] {
            let mut stage = Stage::new(mode, false);
            let mut files = files();
            stage.start(&files);
            files.put(&format!("/conf/{file}.yaml"), text.clone());
            stage.change(&files);
            assert!(codes(&stage).contains(&code), "{code}: {:?}", codes(&stage));
            let is_kept = mode == OnConfigError::KeepLast;
            let changed = if file == "binding" && !is_kept { Answer::Allowed } else { Answer::Denied };
            assert_eq!(
                (stage.check("eve"), !stage.kept().is_empty()),
                (changed, is_kept),
                "{code}, {mode:?}"
            );
        }
    }
}

#[test]
fn a_new_binding_with_an_error_gives_nothing() {
    let mut stage = Stage::new(OnConfigError::KeepLast, false);
    let mut files = files();
    stage.start(&files);
    let new = BINDING.replace("readers", "more").replace("dave", "eve").replace("subjects", "subject");
    files.put("/conf/more.yaml", new);
    stage.change(&files);
    assert_eq!((stage.check("dave"), stage.check("eve")), (Answer::Allowed, Answer::Denied));
}

#[test]
fn what_is_taken_away_is_gone() {
    for file in ["/conf/role.yaml", "/conf/binding.yaml"] {
        let mut stage = Stage::new(OnConfigError::KeepLast, false);
        let mut files = files();
        stage.start(&files);
        files.remove(file);
        stage.change(&files);
        assert_eq!((stage.check("dave"), stage.kept()), (Answer::Denied, Vec::new()), "{file}");
    }
}

#[test]
fn roles_that_nobody_reads_are_reported() {
    let mut stage = Stage::new(OnConfigError::KeepLast, false);
    let mut files = files();
    files.remove("/conf/ask.yaml");
    stage.start(&files);
    assert_eq!(codes(&stage), ["resource-unread"]);
    assert_eq!(stage.check("eve"), Answer::Allowed, "no rule asks");
}
