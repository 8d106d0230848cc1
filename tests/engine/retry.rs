//! A handler that did not build is built again without a change of the configuration.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mixer_config::{Diagnostic, Diagnostics, FieldPath};
use mixer_engine::adapter::{
    Adapter, AdapterInfo, BoundInstance, BuildError, CheckResult, Env, Erase, ErasedAdapter, HandleCheck,
    Handler, Instance, Inventory, Reply, Status,
};
use mixer_engine::runtime::OnConfigError;
use mixer_engine::snapshot::Registry;

use crate::stage::{Answer, Files, Stage};

mixer_config::message! {
    /// The parameters distinguish versions.
    pub struct Params: "test.moody.Params" {
        /// The version.
        1 version: i64 = 0;
    }
}

/// How often the adapter refuses yet.
static REFUSALS: AtomicUsize = AtomicUsize::new(0);
/// How often it was built or refused.
static BUILDS: AtomicUsize = AtomicUsize::new(0);

struct Moody;

impl Adapter for Moody {
    const INFO: AdapterInfo = AdapterInfo { name: "moody", about: "", templates: &["checknothing"] };
    type Params = Params;

    fn validate(_: &Params, _: &[BoundInstance], _: &mut Diagnostics) {}

    async fn build(_: Params, _: Vec<BoundInstance>, _: Env) -> Result<Box<dyn Handler>, BuildError> {
        BUILDS.fetch_add(1, Ordering::Relaxed);
        match REFUSALS.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)) {
            Ok(_) => Err(BuildError::Refused("not now".to_owned())),
            Err(_) => Ok(Box::new(Moody)),
        }
    }
}

impl Handler for Moody {
    fn as_check(&self) -> Option<&dyn HandleCheck> {
        Some(self)
    }
}

impl HandleCheck for Moody {
    fn check(&self, _: &Instance<'_>) -> Reply<CheckResult> {
        Reply::Ready(Ok(CheckResult::default()))
    }
}

static ERASED: Erase<Moody> = Erase::new();
static ADAPTERS: [&dyn ErasedAdapter; 1] = [&ERASED];

fn files(version: u32) -> Files {
    Files::of_one_handler("moody", version, "")
}

#[test]
fn a_handler_that_did_not_build_is_built_again() {
    let registry = Registry { adapters: Inventory::new(&ADAPTERS), extensions: &[] };
    let mut stage = Stage::on_virtual_time(OnConfigError::KeepLast, registry);
    let builds = || BUILDS.load(Ordering::Relaxed);
    REFUSALS.store(10, Ordering::Relaxed);
    stage.start(&files(1));
    assert_eq!((stage.check("ann"), builds()), (Answer::Unavailable, 1));
    let first = stage.published().id();
    // Attempts after 1, 3, 7, 15, 31, 63, 123 and 183 s.
    for (until, expected) in
        [(0.9, 1), (1.1, 2), (2.9, 2), (3.1, 3), (7.1, 4), (63.1, 7), (122.9, 7), (183.1, 9)]
    {
        stage.run_until(Duration::from_secs_f64(until));
        assert_eq!(builds(), expected, "after {until} s");
    }
    assert_eq!(stage.check("ann"), Answer::Unavailable);
    assert_eq!(stage.published().id(), first, "nothing is published while nothing differs");
    stage.run_until(Duration::from_secs(310));
    assert_eq!((stage.check("ann"), builds()), (Answer::Allowed, 11));
    assert_eq!(stage.published().diagnostics, []);
    stage.run_until(Duration::from_secs(1000));
    assert_eq!(builds(), 11, "what is built is not built again");

    // A new version that does not build at once: the old one serves until it does. The first attempt is soon again.
    REFUSALS.store(1, Ordering::Relaxed);
    stage.change(&files(2));
    assert_eq!((stage.check("ann"), stage.kept().len()), (Answer::Allowed, 1));
    stage.run_until(Duration::from_secs(1002));
    assert_eq!((stage.check("ann"), stage.kept(), builds()), (Answer::Allowed, Vec::new(), 13));
}

/// How often [`Wary`] refuses yet, and how often it was built or refused.
static WARY_REFUSALS: AtomicUsize = AtomicUsize::new(0);
static WARY_BUILDS: AtomicUsize = AtomicUsize::new(0);

/// Denies everything, and takes at most two instances.
struct Wary;

impl Adapter for Wary {
    const INFO: AdapterInfo = AdapterInfo { name: "wary", about: "", templates: &["checknothing"] };
    type Params = Params;

    fn validate(_: &Params, instances: &[BoundInstance], problems: &mut Diagnostics) {
        if instances.len() > 2 {
            problems.push(Diagnostic::error(
                "adapter-config",
                FieldPath::root(),
                "it takes at most two instances",
            ));
        }
    }

    async fn build(_: Params, _: Vec<BoundInstance>, _: Env) -> Result<Box<dyn Handler>, BuildError> {
        WARY_BUILDS.fetch_add(1, Ordering::Relaxed);
        match WARY_REFUSALS.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)) {
            Ok(_) => Err(BuildError::Refused("not now".to_owned())),
            Err(_) => Ok(Box::new(Wary)),
        }
    }
}

impl Handler for Wary {
    fn as_check(&self) -> Option<&dyn HandleCheck> {
        Some(self)
    }
}

impl HandleCheck for Wary {
    fn check(&self, _: &Instance<'_>) -> Reply<CheckResult> {
        let status = Status { code: 7, ..Status::default() };
        Reply::Ready(Ok(CheckResult { status, ..CheckResult::default() }))
    }
}

static WARY: Erase<Wary> = Erase::new();
static WARY_ADAPTERS: [&dyn ErasedAdapter; 1] = [&WARY];

/// A rule in dry run that gives the handler an instance of its own.
fn trial(name: &str) -> String {
    format!(
        "---
kind: instance
metadata: {{name: {name}, namespace: istio-system}}
spec: {{compiledTemplate: checknothing}}
---
kind: rule
metadata: {{name: {name}, namespace: istio-system, annotations: {{mixer.dev/dry-run: 'true'}}}}
spec: {{actions: [{{handler: h, instances: [{name}]}}]}}
"
    )
}

/// The handler takes either of two trials, and not both. It is built again and again without the one, and is never lost to the rule that enforces; a
/// trial that it does not take is told all the time, and no reason to build more often.
#[test]
fn a_handler_that_rejects_a_trial_is_built_again_without_it() {
    let registry = Registry { adapters: Inventory::new(&WARY_ADAPTERS), extensions: &[] };
    let files = |version: u32| {
        let mut files = Files::of_one_handler("wary", version, "");
        files.put("/conf/trials.yaml", trial("t1") + &trial("t2"));
        files
    };
    let builds = || WARY_BUILDS.load(Ordering::Relaxed);
    let told = |stage: &Stage| -> Vec<(&'static str, String)> {
        let published = stage.published();
        let problems = published.diagnostics.iter().filter(|problem| problem.code == "dry-run-rejected");
        problems.map(|problem| (problem.code, problem.resource.clone())).collect()
    };
    let rejected = [("dry-run-rejected", "t2.rule.istio-system".to_owned())];
    for policy in OnConfigError::ALL {
        let before = builds();
        WARY_REFUSALS.store(3, Ordering::Relaxed);
        let mut stage = Stage::on_virtual_time(policy, registry);
        stage.start(&files(1));
        assert_eq!((builds() - before, told(&stage)), (1, rejected.to_vec()), "{policy:?}");
        if policy != OnConfigError::ServeValid {
            assert_eq!(stage.check("ann"), Answer::Unavailable, "{policy:?}");
        }
        // Attempts after 1, 3 and 7 s.
        stage.run_until(Duration::from_secs(6));
        assert_eq!(builds() - before, 3, "{policy:?}");
        stage.run_until(Duration::from_secs(10));
        assert_eq!((stage.check("ann"), builds() - before), (Answer::Denied, 4), "{policy:?}");
        assert_eq!((told(&stage), stage.kept()), (rejected.to_vec(), Vec::new()), "{policy:?}");
        // Nothing is built, or published, because of the trial.
        let first = stage.published().id();
        stage.run_until(Duration::from_secs(2000));
        assert_eq!((builds() - before, stage.published().id()), (4, first), "{policy:?}");
        assert_eq!((stage.check("ann"), told(&stage)), (Answer::Denied, rejected.to_vec()), "{policy:?}");
        if policy == OnConfigError::ServeValid {
            continue;
        }
        // A new version that does not build at once: the old one denies meanwhile.
        WARY_REFUSALS.store(2, Ordering::Relaxed);
        stage.change(&files(2));
        for seconds in [0, 2, 5] {
            stage.run_until(Duration::from_secs(2000 + seconds));
            assert_eq!(stage.check("ann"), Answer::Denied, "{policy:?} after {seconds} s");
        }
        assert_eq!((stage.kept(), told(&stage)), (Vec::new(), rejected.to_vec()), "{policy:?}");
    }
}
