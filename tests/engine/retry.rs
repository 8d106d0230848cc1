//! A handler that did not build is built again without a change of the configuration.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mixer_config::Diagnostics;
use mixer_engine::adapter::{
    Adapter, AdapterInfo, BoundInstance, BuildError, CheckResult, Env, Erase, ErasedAdapter, HandleCheck,
    Handler, Instance, Inventory, Reply,
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
