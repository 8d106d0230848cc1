//! Changes that sinks acknowledge or refuse, and who waits for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mixer_base::metrics::Metrics;
use mixer_mcp::{Change, ClientOptions, Refusal, Sink, SinkCollection, SinkOptions, Updater};
use tokio_util::sync::CancellationToken;

use crate::RULE;
use crate::support::galley::Galley;
use crate::support::{DEADLINE, wait_for};

const RULES: &str = "istio/policy/v1beta1/rules";

/// Takes every change, or refuses all of them.
struct Application {
    refuses: Arc<AtomicBool>,
}

impl Updater for Application {
    fn apply(&mut self, _: Change) -> Result<(), Refusal> {
        match self.refuses.load(Ordering::Relaxed) {
            true => Err(Refusal::from("rule istio-system/close: not today".to_owned())),
            false => Ok(()),
        }
    }
}

/// A sink of rules on a thread of its own, until it is dropped.
struct RunningSink {
    refuses: Arc<AtomicBool>,
    stop: CancellationToken,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl RunningSink {
    fn of(galley: &Galley) -> Self {
        let (refuses, stop) = (Arc::new(AtomicBool::new(false)), CancellationToken::new());
        let source = ClientOptions::new(format!("127.0.0.1:{}", galley.sinks));
        let (application, until) = (Application { refuses: Arc::clone(&refuses) }, stop.clone());
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
            let collection = SinkCollection { name: RULES.into(), type_url: None, incremental: false };
            let sink = Sink::new(SinkOptions::new("test", vec![collection]), &Arc::new(Metrics::new()));
            let mut application = application;
            runtime.expect("threads").block_on(sink.follow(&source, &mut application, until));
        });
        Self { refuses, stop, thread: Some(thread) }
    }
}

impl Drop for RunningSink {
    fn drop(&mut self) {
        self.stop.cancel();
        drop(self.thread.take().map(std::thread::JoinHandle::join));
    }
}

#[test]
fn a_change_is_waited_for_until_every_sink_has_it_or_refuses_it() {
    let galley = Galley::of_files(&[("rule.yaml", RULE)], &[]);
    galley.synced();
    let (first, _second) = (RunningSink::of(&galley), RunningSink::of(&galley));
    let waited = galley.ask(&["wait", "rule/istio-system/close", "--sinks", "2"]);
    assert_eq!(waited.status, 0, "{}{}", waited.stdout, waited.stderr);
    assert_eq!(waited.stdout, "acknowledged by 2 sinks\n");
    let too_many = galley.ask(&["wait", "latest", "--sinks", "3", "--timeout", "200ms"]);
    assert_eq!(too_many.status, 5, "{}", too_many.stdout);
    first.refuses.store(true, Ordering::Relaxed);
    galley.write("rule.yaml", &RULE.replace("'true'", "'false'"));
    let refused = wait_for(DEADLINE, || {
        let waited = galley.ask(&["wait", "latest", "--sinks", "2"]);
        (waited.status == 1).then_some(waited.stdout)
    });
    let refused = refused.unwrap_or_else(|| panic!("nobody refuses: {}", galley.document("/sinkj/")));
    assert!(refused.contains("refused by default (") && refused.contains("not today"), "{refused}");
    let sinks = galley.ask(&["sinks"]);
    assert!(sinks.stdout.contains("refuses") && sinks.stdout.contains("in sync"), "{}", sinks.stdout);
    let valid = galley.path("config").display().to_string();
    let live = crate::support::run_mixer(&["validate", &valid, "--live", &galley.address()]);
    assert!(live.stdout.contains("not today"), "{}{}", live.stdout, live.stderr);
    first.refuses.store(false, Ordering::Relaxed);
    galley.write("rule.yaml", &RULE.replace("'true'", "'1 == 1'"));
    let healed =
        wait_for(DEADLINE, || (galley.ask(&["wait", "latest", "--sinks", "2"]).status == 0).then_some(()));
    assert!(healed.is_some(), "{}", galley.document("/sinkj/"));
}
