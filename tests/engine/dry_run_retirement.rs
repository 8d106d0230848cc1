//! A call of a rule in dry run that outlives its request: the handler that answers it is replaced meanwhile.

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mixer_config::Diagnostics;
use mixer_engine::adapter::{
    Adapter, AdapterInfo, BoundInstance, BuildError, CheckResult, Env, Erase, ErasedAdapter, HandleCheck,
    Handler, HandlerError, Instance, Inventory, Reply,
};
use mixer_engine::runtime::OnConfigError;
use mixer_engine::snapshot::Registry;
use tokio::sync::Semaphore;

use crate::stage::{Answer, Files, Stage};

mixer_config::message! {
    /// The parameters distinguish versions.
    pub struct Params: "test.patient.Params" {
        /// The version.
        1 version: i64 = 0;
    }
}

/// An answer may be given for each permit.
static MAY_ANSWER: Semaphore = Semaphore::const_new(0);
/// How often the first version was called, answered and closed; and how often it was closed when it answered.
static CALLED: AtomicUsize = AtomicUsize::new(0);
static ANSWERED: AtomicUsize = AtomicUsize::new(0);
static CLOSED: AtomicUsize = AtomicUsize::new(0);
static CLOSED_BEFORE_ANSWER: AtomicUsize = AtomicUsize::new(0);

struct Patient {
    is_first: bool,
}

impl Adapter for Patient {
    const INFO: AdapterInfo = AdapterInfo { name: "patient", about: "", templates: &["checknothing"] };
    type Params = Params;

    fn validate(_: &Params, _: &[BoundInstance], _: &mut Diagnostics) {}

    async fn build(params: Params, _: Vec<BoundInstance>, _: Env) -> Result<Box<dyn Handler>, BuildError> {
        Ok(Box::new(Patient { is_first: params.version == 1 }))
    }
}

impl Handler for Patient {
    fn as_check(&self) -> Option<&dyn HandleCheck> {
        Some(self)
    }

    fn close(&self, _: Duration) -> Pin<Box<dyn Future<Output = Result<(), HandlerError>> + Send + '_>> {
        if self.is_first {
            CLOSED.fetch_add(1, Ordering::SeqCst);
        }
        Box::pin(std::future::ready(Ok(())))
    }
}

impl HandleCheck for Patient {
    fn check(&self, _: &Instance<'_>) -> Reply<CheckResult> {
        CALLED.fetch_add(usize::from(self.is_first), Ordering::SeqCst);
        Reply::Later(Box::pin(async {
            MAY_ANSWER.acquire().await.expect("it is never closed").forget();
            CLOSED_BEFORE_ANSWER.fetch_add(CLOSED.load(Ordering::SeqCst), Ordering::SeqCst);
            ANSWERED.fetch_add(1, Ordering::SeqCst);
            Ok(CheckResult::default())
        }))
    }
}

static ERASED: Erase<Patient> = Erase::new();
static ADAPTERS: [&dyn ErasedAdapter; 1] = [&ERASED];

fn files(version: u32) -> Files {
    Files::of_one_handler("patient", version, "mixer.dev/dry-run: \"true\"")
}

#[test]
fn a_dry_run_call_holds_its_handler_open() {
    let registry = Registry { adapters: Inventory::new(&ADAPTERS), extensions: &[] };
    let mut stage = Stage::on_virtual_time(OnConfigError::KeepLast, registry);
    let seen = || [&CALLED, &ANSWERED, &CLOSED].map(|count| count.load(Ordering::SeqCst));
    stage.start(&files(1));
    assert_eq!(stage.check("ann"), Answer::Allowed, "the request does not wait for the rule in dry run");
    stage.change(&files(2));
    // Far longer than a retirement waits before it warns.
    stage.run_until(Duration::from_secs(60));
    assert_eq!(seen(), [1, 0, 0], "the replaced handler stays open while it is asked");
    MAY_ANSWER.add_permits(1);
    stage.run_until(Duration::from_secs(61));
    assert_eq!(seen(), [1, 1, 1], "then it is closed");
    assert_eq!(CLOSED_BEFORE_ANSWER.load(Ordering::SeqCst), 0);
    stage.run_until(Duration::from_secs(120));
    assert_eq!(seen(), [1, 1, 1], "once");
}
