//! The adapter of docs/writing-adapters.md: what stands between the marks is the page's, and works.

// page: begin
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mixer_attribute::SignedDuration;
use mixer_base::task::Task;
use mixer_config::{Diagnostic, Diagnostics, FieldPath};
use mixer_engine::adapter::{
    Adapter, AdapterInfo, BoundInstance, BuildError, CheckPower, CheckResult, Env, HandleCheck, Handler,
    HandlerStatus, Instance, Reply, Status,
};

mixer_config::message! {
    /// Parameters of maintenance.
    pub struct Params: "adapter.maintenance.config.Params" {
        /// A file; while it exists, every check is refused.
        1 path: String = String::new();
        /// How often it is looked for.
        2 interval: SignedDuration = SignedDuration::from_secs(1);
    }
}

/// Refuses every check while a file exists.
pub(crate) struct Maintenance {
    is_on: Arc<AtomicBool>,
    path: Arc<str>,
}

impl Adapter for Maintenance {
    const INFO: AdapterInfo = AdapterInfo {
        name: "maintenance",
        about: "Refuses every check while a file exists",
        templates: &["checknothing"],
    };
    type Params = Params;

    fn validate(params: &Params, _: &[BoundInstance], problems: &mut Diagnostics) {
        if !params.path.starts_with('/') {
            let text = format!("path: `{}` is no absolute path", params.path);
            problems.push(Diagnostic::error("adapter-config", FieldPath::root().field("path"), text));
        }
        if params.interval < SignedDuration::from_millis(100) {
            let text = "interval: less than 100ms would keep a core busy";
            problems.push(Diagnostic::error("adapter-config", FieldPath::root().field("interval"), text));
        }
    }

    fn check_power(_: &Params) -> CheckPower {
        CheckPower::Refuses
    }

    async fn build(params: Params, _: Vec<BoundInstance>, env: Env) -> Result<Box<dyn Handler>, BuildError> {
        let path: Arc<str> = params.path.into();
        let found = tokio::fs::try_exists(&*path).await;
        let found =
            found.map_err(|error| BuildError::Refused(format!("cannot look for `{path}`: {error}")))?;
        let is_on = Arc::new(AtomicBool::new(found));
        let (watched, flag, interval) =
            (Arc::clone(&path), Arc::clone(&is_on), params.interval.to_std_or_zero());
        env.tasks.spawn(Task::restarted("maintenance").of(&*env.handler_name), move || {
            watch(Arc::clone(&watched), Arc::clone(&flag), interval)
        });
        Ok(Box::new(Maintenance { is_on, path }))
    }
}

/// Looks for the file until the handler is closed.
async fn watch(path: Arc<str>, is_on: Arc<AtomicBool>, interval: Duration) {
    loop {
        tokio::time::sleep(interval).await;
        // What cannot be told stays as it is.
        if let Ok(found) = tokio::fs::try_exists(&*path).await {
            is_on.store(found, Ordering::Relaxed);
        }
    }
}

impl Handler for Maintenance {
    fn as_check(&self) -> Option<&dyn HandleCheck> {
        Some(self)
    }

    fn status(&self) -> HandlerStatus {
        HandlerStatus { notes: vec![("file", self.path.to_string())], ..HandlerStatus::default() }
    }
}

impl HandleCheck for Maintenance {
    fn check(&self, _: &Instance<'_>) -> Reply<CheckResult> {
        let mut result =
            CheckResult { valid_duration: SignedDuration::from_secs(1), ..CheckResult::default() };
        result.valid_use_count = 1000;
        if self.is_on.load(Ordering::Relaxed) {
            result.status =
                Status { code: 14, message: "down for maintenance".to_owned(), ..Status::default() };
        }
        Reply::Ready(Ok(result))
    }
}
// page: end

use futures_util::FutureExt as _;
use mixer_attribute::AttributeBag;
use mixer_base::metrics::Metrics;
use mixer_engine::adapter::{Erase, ErasedAdapter, Inventory};
use mixer_engine::dispatch::{self, DispatchContext, LastKnownAnswers, Protocol};
use mixer_engine::runtime::OnConfigError;
use mixer_engine::snapshot::Registry;

use crate::stage::{Files, Stage};

static ERASED: Erase<Maintenance> = Erase::new();
static ADAPTERS: [&dyn ErasedAdapter; 1] = [&ERASED];

fn files(params: &str) -> Files {
    let mut files = Files::default();
    let text = format!(
        "kind: handler\nmetadata: {{name: h, namespace: istio-system}}\nspec: {{compiledAdapter: maintenance, params: {params}}}\n\
         ---\nkind: instance\nmetadata: {{name: i, namespace: istio-system}}\nspec: {{compiledTemplate: checknothing}}\n\
         ---\nkind: rule\nmetadata: {{name: r, namespace: istio-system}}\nspec: {{actions: [{{handler: h, instances: [i]}}]}}\n"
    );
    files.put("/conf/all.yaml", text);
    files
}

/// The code of the answer to a check.
fn code(stage: &Stage) -> i32 {
    let published = stage.published();
    let (metrics, last_known) = (Metrics::new(), LastKnownAnswers::default());
    let context = DispatchContext {
        metrics: &metrics,
        last_known: &last_known,
        deadline: None,
        trace: None,
        fired: None,
    };
    let arena = bumpalo::Bump::new();
    let bag = AttributeBag::empty(&published.routes.snapshot().vocabulary, &arena);
    let answer = dispatch::check(&published.routes, &bag, &context, Protocol::Mixer).now_or_never();
    answer.expect("it is synchronous").expect("it does not fail").status.code
}

#[test]
fn the_adapter_of_the_page_works() {
    let registry = Registry { adapters: Inventory::new(&ADAPTERS), extensions: &[] };
    let mut stage = Stage::on_virtual_time(OnConfigError::KeepLast, registry);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("down");
    std::fs::write(&file, "").unwrap();
    stage.start(&files(&format!("{{path: '{}'}}", file.display())));
    assert_eq!(code(&stage), 14, "{:?}", stage.published().diagnostics);
    std::fs::remove_file(&file).unwrap();
    stage.run_until(Duration::from_secs(10));
    assert_eq!(code(&stage), 0);
    stage.change(&files("{path: down, interval: 1ms}"));
    let problems: Vec<String> =
        stage.published().diagnostics.iter().map(|problem| problem.message.clone()).collect();
    for text in ["path: `down` is no absolute path", "interval: less than 100ms would keep a core busy"] {
        assert!(problems.iter().any(|problem| problem.contains(text)), "{problems:?}");
    }
}

#[test]
fn the_page_has_the_adapter() {
    let source = include_str!("written_adapter.rs");
    let (_, rest) = source.split_once("// page: begin\n").unwrap();
    let (code, _) = rest.split_once("// page: end\n").unwrap();
    let page = include_str!("../../docs/writing-adapters.md");
    let block = format!("```rust\n{code}```\n");
    assert!(page.contains(&block), "docs/writing-adapters.md differs from the code of this test");
}
