//! Handlers that panic where no call waits for an answer: the level of a quota, and closing.

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use mixer_attribute::AttributeBag;
use mixer_base::metrics::Metrics;
use mixer_config::Diagnostics;
use mixer_engine::adapter::{
    Adapter, AdapterInfo, BoundInstance, BuildError, Env, Erase, ErasedAdapter, HandleQuota, Handler,
    HandlerError, Instance, Inventory, QuotaCall, QuotaLevel, QuotaResult, Reply,
};
use mixer_engine::dispatch::{self, DispatchContext, LastKnownAnswers, Protocol, QuotaRequest};
use mixer_engine::runtime::OnConfigError;
use mixer_engine::snapshot::Registry;

use crate::stage::{Files, Stage};

mixer_config::message! {
    /// The parameters distinguish versions.
    pub struct Params: "test.clumsy.Params" {
        /// The version.
        1 version: i64 = 0;
    }
}

/// How often a handler was closed.
static CLOSED: AtomicUsize = AtomicUsize::new(0);

struct Clumsy;

impl Adapter for Clumsy {
    const INFO: AdapterInfo = AdapterInfo { name: "clumsy", about: "", templates: &["quota"] };
    type Params = Params;

    fn validate(_: &Params, _: &[BoundInstance], _: &mut Diagnostics) {}

    async fn build(_: Params, _: Vec<BoundInstance>, _: Env) -> Result<Box<dyn Handler>, BuildError> {
        Ok(Box::new(Clumsy))
    }
}

impl Handler for Clumsy {
    fn as_quota(&self) -> Option<&dyn HandleQuota> {
        Some(self)
    }

    fn close(&self, _: Duration) -> Pin<Box<dyn Future<Output = Result<(), HandlerError>> + Send + '_>> {
        CLOSED.fetch_add(1, Ordering::SeqCst);
        panic!("clumsy at closing")
    }
}

impl HandleQuota for Clumsy {
    fn quota(&self, _: &Instance<'_>, call: QuotaCall<'_>) -> Reply<QuotaResult> {
        Reply::Ready(Ok(QuotaResult { granted: call.amount, ..QuotaResult::default() }))
    }

    fn level(&self, _: &Instance<'_>) -> Option<QuotaLevel> {
        panic!("clumsy with levels")
    }
}

static ERASED: Erase<Clumsy> = Erase::new();
static ADAPTERS: [&dyn ErasedAdapter; 1] = [&ERASED];

fn files(version: u32) -> Files {
    let mut files = Files::default();
    let text = format!(
        "kind: handler
metadata: {{name: h, namespace: istio-system}}
spec: {{compiledAdapter: clumsy, params: {{version: {version}}}}}
---
kind: instance
metadata: {{name: rq, namespace: istio-system}}
spec: {{compiledTemplate: quota, params: {{dimensions: {{}}}}}}
---
kind: rule
metadata: {{name: r, namespace: istio-system}}
spec: {{actions: [{{handler: h, instances: [rq]}}]}}
"
    );
    files.put("/conf/all.yaml", text);
    files
}

#[test]
fn handlers_that_panic_aside_end_neither_calls_nor_retirement() {
    let registry = Registry { adapters: Inventory::new(&ADAPTERS), extensions: &[] };
    let mut stage = Stage::on_virtual_time(OnConfigError::KeepLast, registry);
    stage.start(&files(1));

    {
        let published = stage.published();
        let metrics = Metrics::new();
        let last_known = LastKnownAnswers::default();
        let context = DispatchContext {
            metrics: &metrics,
            last_known: &last_known,
            deadline: None,
            trace: None,
            fired: None,
        };
        let vocabulary = &published.routes.snapshot().vocabulary;
        let arena = bumpalo::Bump::new();
        let bag = AttributeBag::empty(vocabulary, &arena);
        let request = QuotaRequest {
            name: "rq",
            amount: 3,
            best_effort: false,
            deduplication_id: "",
            level: true,
            is_partial: false,
            protocol: Protocol::IstioMixer,
        };
        let granted = dispatch::quota(&published.routes, &bag, request, &context).now_or_never();
        let granted = granted.expect("it is synchronous").expect("the level decides nothing");
        assert_eq!((granted.granted, granted.level), (3, None));
    }

    for version in 2..4 {
        stage.change(&files(version));
        stage.run_until(Duration::from_secs(60 * u64::from(version)));
        assert_eq!(CLOSED.load(Ordering::SeqCst), version as usize - 1, "retirement goes on");
    }
}
