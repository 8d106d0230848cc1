//! Many rules in dry run that a handler rejects: the search for them takes few validations, however many there are.

use std::sync::atomic::{AtomicUsize, Ordering};

use mixer_config::{Diagnostic, Diagnostics, FieldPath};
use mixer_engine::adapter::{
    Adapter, AdapterInfo, BoundInstance, BuildError, CheckResult, Env, Erase, ErasedAdapter, HandleCheck,
    Handler, Instance, Inventory, Reply, Status,
};
use mixer_engine::runtime::OnConfigError;
use mixer_engine::snapshot::Registry;

use crate::refusal::MANIFEST;
use crate::stage::{Answer, Files, Stage};

mixer_config::message! {
    /// None.
    pub struct Params: "test.picky.Params" {}
}

/// How often the adapter validated instances.
static VALIDATIONS: AtomicUsize = AtomicUsize::new(0);

/// Denies everything, and takes no instance whose name begins with `bad`.
struct Picky;

impl Adapter for Picky {
    const INFO: AdapterInfo = AdapterInfo { name: "picky", about: "", templates: &["checknothing"] };
    type Params = Params;

    fn validate(_: &Params, instances: &[BoundInstance], problems: &mut Diagnostics) {
        VALIDATIONS.fetch_add(1, Ordering::Relaxed);
        for instance in instances.iter().filter(|instance| instance.name.starts_with("bad")) {
            let text = format!("no limit for {}", instance.name);
            problems.push(Diagnostic::error("adapter-config", FieldPath::root(), text));
        }
    }

    async fn build(_: Params, _: Vec<BoundInstance>, _: Env) -> Result<Box<dyn Handler>, BuildError> {
        Ok(Box::new(Picky))
    }
}

impl Handler for Picky {
    fn as_check(&self) -> Option<&dyn HandleCheck> {
        Some(self)
    }
}

impl HandleCheck for Picky {
    fn check(&self, _: &Instance<'_>) -> Reply<CheckResult> {
        let status = Status { code: 7, ..Status::default() };
        Reply::Ready(Ok(CheckResult { status, ..CheckResult::default() }))
    }
}

static ERASED: Erase<Picky> = Erase::new();
static ADAPTERS: [&dyn ErasedAdapter; 1] = [&ERASED];

/// Rules in dry run, every other one with an instance that the handler does not take.
const TRIALS: usize = 1000;

#[test]
fn many_rejected_trials_are_found_with_few_validations() {
    let mut text = "kind: handler
metadata: {name: h, namespace: istio-system}
spec: {compiledAdapter: picky, params: {}}
---
kind: instance
metadata: {name: good, namespace: istio-system}
spec: {compiledTemplate: checknothing}
---
kind: rule
metadata: {name: enforced, namespace: istio-system}
spec: {actions: [{handler: h, instances: [good]}]}
"
    .to_owned();
    for number in 0..TRIALS {
        let name = if number % 2 == 0 { format!("good{number}") } else { format!("bad{number}") };
        text.push_str(&format!(
            "---\nkind: instance\nmetadata: {{name: {name}, namespace: istio-system}}\nspec: {{compiledTemplate: checknothing}}\n\
             ---\nkind: rule\n\
             metadata: {{name: t{number}, namespace: istio-system, annotations: {{mixer.dev/dry-run: \"true\"}}}}\n\
             spec: {{actions: [{{handler: h, instances: [{name}]}}]}}\n"
        ));
    }
    let mut files = Files::default();
    files.put("/conf/all.yaml", text);
    let registry = Registry { adapters: Inventory::new(&ADAPTERS), extensions: &[] };
    let mut stage = Stage::on_virtual_time(OnConfigError::KeepLast, registry);
    stage.start(&files);
    assert_eq!(stage.check("ann"), Answer::Denied);
    let published = stage.published();
    let rejected: Vec<&str> = published
        .diagnostics
        .iter()
        .filter(|problem| problem.code == "dry-run-rejected")
        .map(|problem| problem.resource.as_str())
        .collect();
    assert_eq!(rejected.len(), TRIALS / 2);
    let is_odd = |name: &&str| {
        let number = name.trim_start_matches('t').split('.').next().and_then(|n| n.parse::<usize>().ok());
        number.is_some_and(|number| number % 2 == 1)
    };
    assert!(rejected.iter().all(is_odd), "{rejected:?}");
    assert_eq!(published.routes.snapshot().rules.len(), 1 + TRIALS / 2);
    let validations = VALIDATIONS.load(Ordering::Relaxed);
    assert!(validations < TRIALS, "{validations} validations");
}

/// Handler `a` limits eve; `b` refuses mallory, and eve from now on. `trial`: annotations and instance of the rule of `a`; `users` and
/// `instance`: of that of `b`.
fn moved(trial: (&str, &str), users: &str, instance: &str) -> Files {
    let mut files = Files::default();
    let parts = ["a", "b"].map(|name| {
        format!("kind: handler\nmetadata: {{name: {name}, namespace: istio-system}}\nspec: {{compiledAdapter: picky, params: {{}}}}\n---\n")
    });
    let instances = ["good", "bad"].map(|name| {
        format!("kind: instance\nmetadata: {{name: {name}, namespace: istio-system}}\nspec: {{compiledTemplate: checknothing}}\n---\n")
    });
    files.put("/conf/parts.yaml", format!("{MANIFEST}---\n{}{}", parts.concat(), instances.concat()));
    let (annotations, taken) = trial;
    files.put(
        "/conf/a.yaml",
        format!(
            "kind: rule\nmetadata: {{name: a, namespace: istio-system{annotations}}}\n\
             spec: {{match: source.user == \"eve\", actions: [{{handler: a, instances: [{taken}]}}]}}\n"
        ),
    );
    files.put(
        "/conf/b.yaml",
        format!(
            "kind: rule\nmetadata: {{name: b, namespace: istio-system}}\n\
             spec: {{match: {users}, actions: [{{handler: b, instances: [{instance}]}}]}}\n"
        ),
    );
    files
}

#[test]
fn a_rejected_trial_waits_for_the_rule_that_is_to_refuse_instead() {
    let mallory = "source.user == \"mallory\"";
    let both = "source.user == \"mallory\" || source.user == \"eve\"";
    let in_trial = ", annotations: {mixer.dev/dry-run: \"true\"}";
    let registry = Registry { adapters: Inventory::new(&ADAPTERS), extensions: &[] };
    let mut stage = Stage::on_virtual_time(OnConfigError::KeepLast, registry);
    stage.start(&moved(("", "good"), mallory, "good"));
    assert_eq!(
        ["eve", "mallory", "bob"].map(|user| stage.check(user)),
        [Answer::Denied, Answer::Denied, Answer::Allowed]
    );
    // What is to refuse eve from now on has an error.
    stage.change(&moved((in_trial, "bad"), both, "bad"));
    assert_eq!(
        ["eve", "mallory", "bob"].map(|user| stage.check(user)),
        [Answer::Denied, Answer::Denied, Answer::Allowed]
    );
    // Mended, the trial is left out, and refuses nobody.
    stage.change(&moved((in_trial, "bad"), both, "good"));
    assert_eq!(stage.check("eve"), Answer::Denied);
    assert!(stage.published().diagnostics.iter().any(|problem| problem.code == "dry-run-rejected"));
    // Nothing waits: it passes as written.
    stage.change(&moved((in_trial, "bad"), mallory, "good"));
    assert_eq!(stage.check("eve"), Answer::Allowed);
}
