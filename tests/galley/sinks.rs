//! Changes that sinks acknowledge or refuse, and who waits for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mixer_base::metrics::Metrics;
use mixer_mcp::{
    Change, ClientOptions, Refusal, Sink, SinkCollection, SinkNode, SinkOptions, Updater, reader,
};
use tokio_util::sync::CancellationToken;

use crate::RULE;
use crate::support::cloud::Cloud;
use crate::support::galley::Galley;
use crate::support::{DEADLINE, free_port, wait_for};

const RULES: &str = "istio/policy/v1beta1/rules";

/// Takes every change, or refuses all of them, once it is not held up.
struct Application {
    refuses: Arc<AtomicBool>,
    is_held: Arc<AtomicBool>,
}

impl Updater for Application {
    fn apply(&mut self, _: Change) -> Result<(), Refusal> {
        while self.is_held.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(5));
        }
        match self.refuses.load(Ordering::Relaxed) {
            true => Err(Refusal::from("rule istio-system/close: not today\nhandler: nor this".to_owned())),
            false => Ok(()),
        }
    }
}

/// A sink of rules on a thread of its own, until it is dropped.
pub(crate) struct RunningSink {
    pub(crate) refuses: Arc<AtomicBool>,
    /// Whether it takes its time.
    pub(crate) is_held: Arc<AtomicBool>,
    stop: CancellationToken,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl RunningSink {
    fn of(galley: &Galley) -> Self {
        Self::named(galley, "default")
    }

    pub(crate) fn named(galley: &Galley, node: &str) -> Self {
        Self::over(ClientOptions::new(format!("127.0.0.1:{}", galley.sinks)), node)
    }

    /// A sink that reaches its source so.
    pub(crate) fn over(source: ClientOptions, node: &str) -> Self {
        Self::of_node(source, SinkNode { id: node.to_owned(), ..SinkNode::default() })
    }

    fn of_node(source: ClientOptions, node: SinkNode) -> Self {
        let [refuses, is_held] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
        let stop = CancellationToken::new();
        let application = Application { refuses: Arc::clone(&refuses), is_held: Arc::clone(&is_held) };
        let until = stop.clone();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
            let collection = SinkCollection { name: RULES.into(), type_url: None, incremental: false };
            let mut options = SinkOptions::new("test", vec![collection]);
            options.node = node;
            let sink = Sink::new(options, &Arc::new(Metrics::new()));
            let mut application = application;
            runtime.expect("threads").block_on(sink.follow(&source, &mut application, until));
        });
        Self { refuses, is_held, stop, thread: Some(thread) }
    }
}

impl Drop for RunningSink {
    fn drop(&mut self) {
        self.stop.cancel();
        self.is_held.store(false, Ordering::Relaxed);
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

/// Whoever waits, waits for servers.
#[test]
fn tools_that_read_once_are_named_and_not_waited_for() {
    let galley = Galley::of_files(&[("rule.yaml", RULE)], &[]);
    galley.synced();
    let _server = RunningSink::of(&galley);
    assert_eq!(
        galley.ask(&["wait", "rule/istio-system/close", "--sinks", "1"]).status,
        0,
        "{}",
        galley.log()
    );
    let source = ClientOptions::new(format!("127.0.0.1:{}", galley.sinks));
    let tool = RunningSink::of_node(source, reader("mixer doctor"));
    let shown = || {
        let sinks = galley.ask(&["sinks"]).stdout;
        sinks.lines().any(|line| line.contains("mixer doctor") && line.contains("reads once")).then_some(())
    };
    assert!(wait_for(DEADLINE, shown).is_some(), "{}", galley.document("/sinkj/"));
    // It does not answer.
    tool.is_held.store(true, Ordering::Relaxed);
    galley.write("rule.yaml", &RULE.replace("'true'", "'false'"));
    let waited = wait_for(DEADLINE, || {
        let waited = galley.ask(&["wait", "latest", "--sinks", "1"]);
        (waited.status == 0).then_some(waited.stdout)
    });
    assert_eq!(waited.as_deref(), Some("acknowledged by 1 sink\n"), "{}", galley.document("/sinkj/"));
    drop(tool);
    let url = format!("mcp://127.0.0.1:{}", galley.sinks);
    let address = format!("unix://{}", galley.path("api.sock").display());
    let flags = ["--config-store-url", &url, "--address", &address];
    for command in [&["doctor"][..], &["server", "--dry-run"]] {
        let ran = crate::support::run_mixer(&[command, &flags].concat());
        // It has read what there is.
        assert!(ran.stdout.contains(" rule"), "{command:?}: {}{}", ran.stdout, ran.stderr);
    }
    let left = || (galley.ask(&["sinks"]).stdout.lines().count() == 2).then_some(());
    assert!(
        wait_for(DEADLINE, left).is_some(),
        "none of them is a sink that has gone: {}",
        galley.document("/sinkj/")
    );
}

#[test]
fn a_message_of_a_sink_has_at_most_so_many_bytes() {
    let (short, long) = ("s".repeat(1000), "l".repeat(3000));
    for flag in ["--server-max-received-message-size=2000", "--maxReceivedMessageSize=2000"] {
        let galley = Galley::of_files(&[("rule.yaml", RULE)], &[flag]);
        galley.synced();
        let (_short, _long) = (RunningSink::named(&galley, &short), RunningSink::named(&galley, &long));
        let refused = wait_for(DEADLINE, || {
            let sinks = galley.document("/sinkj/");
            let refused = |sink: &&serde_json::Value| {
                sink["ended"].as_str().is_some_and(|why| why.contains("the limit is: 2000 bytes"))
            };
            sinks.as_array().and_then(|sinks| sinks.iter().find(refused).cloned())
        });
        assert!(refused.is_some(), "{}\n{}", galley.document("/sinkj/"), galley.log());
        let waited = galley.ask(&["wait", "latest"]);
        assert_eq!((waited.status, &*waited.stdout), (0, "acknowledged by 1 sink\n"), "the other one has it");
        let metrics = galley.metrics();
        assert!(metrics.contains("ResourceExhausted"), "{metrics}");
    }
    let galley = Galley::of_files(&[("rule.yaml", RULE)], &["--server-max-received-message-size=4000"]);
    let _long = RunningSink::named(&galley, &long);
    assert_eq!(galley.ask(&["wait", "rule/istio-system/close"]).status, 0, "{}", galley.log());
}

/// A sink that is called with tokens of a service account: what it is sent is verified, and a token that it refuses is replaced.
#[test]
fn a_sink_of_google_is_called_with_a_token() {
    let port = free_port();
    let cloud = Cloud::start("gcp", &[&format!("grpc={port}"), "revoked=1"]).expect("it starts");
    let (key, roots) = (cloud.file("sa.json"), cloud.file("ca.crt"));
    let environment = [("GOOGLE_APPLICATION_CREDENTIALS", &*key), ("SSL_CERT_FILE", &*roots)];
    let address = format!("--sink-address=localhost:{port}");
    let arguments = [&*address, "--sink-auth-mode=GOOGLE", "--sink-meta=cluster=one"];
    let galley = Galley::in_environment(&[("rule.yaml", RULE)], &arguments, &environment);
    galley.synced();
    let taken = cloud.taken(1).unwrap_or_else(|why| panic!("{why}\n{}", galley.log()));
    assert_eq!(taken[0]["count"], 1, "{taken:?}");
    let metadata = &taken[0]["metadata"];
    assert_eq!((&metadata["authorization"], &metadata["cluster"]), (&"Bearer GT-2".into(), &"one".into()));
    let requests = cloud.requests().expect("nothing is wrong");
    assert_eq!(requests[0]["outcome"], "revoked");
    assert_eq!(requests[1]["collection"], "$triggerCollection", "the source speaks first");
    let waited = galley.ask(&["wait", "rule/istio-system/close"]);
    assert_eq!(waited.status, 0, "{}{}", waited.stdout, galley.log());
    assert!(!galley.log().contains("GT-2"), "tokens are not logged");
}
