//! Sources and the pipeline together, with a clock of the test.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::Notify;

use mixer_mcp::Resource;
use mixer_schema::DEFAULT_GROUP;

use super::*;
use crate::event::{Entry, Event};
use crate::options::collection::GATEWAYS;
use crate::source::mesh::Mesh;
use crate::source::{Emitter, Ended};
use crate::state::Waiting;

const RULES: &str = "istio/policy/v1beta1/rules";

/// What a source does in one of its starts.
type Script = Box<dyn Fn(u64, Emitter) -> BoxFuture<'static, Ended> + Send + Sync>;

/// A source that does what a test says.
struct Scripted {
    name: &'static str,
    collections: Vec<&'static str>,
    script: Script,
}

impl Source for Scripted {
    fn name(&self) -> String {
        self.name.to_owned()
    }

    fn collections(&self) -> Vec<&'static str> {
        self.collections.clone()
    }

    fn run(self: Arc<Self>, out: Emitter) -> BoxFuture<'static, Ended> {
        (self.script)(out.generation(), out)
    }
}

fn scripted(
    name: &'static str,
    collections: &[&'static str],
    script: impl Fn(u64, Emitter) -> BoxFuture<'static, Ended> + Send + Sync + 'static,
) -> Arc<dyn Source> {
    Arc::new(Scripted { name, collections: collections.to_vec(), script: Box::new(script) })
}

fn put(of: &'static str, name: &str, version: u64) -> Event {
    Event::put(of, Entry::of(Resource::new(name, &format!("v{version}"), "type", Vec::new())))
}

/// Delivers resources, a sync, and nothing more.
async fn deliver(out: &Emitter, of: &'static str, all: &[(&str, u64)]) {
    let puts = all.iter().map(|(name, version)| put(of, name, *version));
    let _ = out.send(puts.chain([Event::full_sync(of)]).collect()).await;
}

#[derive(Default)]
struct Counted(AtomicU64);

impl Distributor for Counted {
    fn distribute(&self, _: &str, _: Arc<Snapshot>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn start(mut sources: Vec<Arc<dyn Source>>) -> (Galley, Arc<Counted>) {
    let options = Options::default();
    sources.push(Mesh::of(None, &options));
    let counted = Arc::new(Counted::default());
    let distributor = Arc::clone(&counted) as Arc<dyn Distributor>;
    (Galley::start(options, sources, distributor, &Handle::current()).unwrap(), counted)
}

fn names(galley: &Galley, of: &str) -> Vec<String> {
    let snapshot = galley.snapshot(DEFAULT_GROUP);
    let content = snapshot.and_then(|snapshot| Some(snapshot.get(of)?.content().clone())).unwrap_or_default();
    content.iter().map(|resource| format!("{} {}", resource.name, resource.version)).collect()
}

async fn pass(milliseconds: u64) {
    tokio::time::sleep(Duration::from_millis(milliseconds)).await;
}

#[tokio::test(start_paused = true)]
async fn one_source_that_is_synced_does_not_speak_for_the_others() {
    let gate = Arc::new(Notify::new());
    let opens = Arc::clone(&gate);
    let quick = scripted("quick", &[GATEWAYS], |_, out| {
        Box::pin(async move {
            deliver(&out, GATEWAYS, &[("a", 1)]).await;
            std::future::pending().await
        })
    });
    let slow = scripted("slow", &[RULES, GATEWAYS], move |_, out| {
        let gate = Arc::clone(&opens);
        Box::pin(async move {
            deliver(&out, RULES, &[("r", 1)]).await;
            gate.notified().await;
            deliver(&out, GATEWAYS, &[("a", 7), ("b", 7)]).await;
            std::future::pending().await
        })
    });
    let (galley, counted) = start(vec![quick, slow]);
    pass(60_000).await;
    assert!(!galley.is_synced() && counted.0.load(Ordering::Relaxed) == 0, "nothing of a part is published");
    let state = galley.state();
    let synced: Vec<_> =
        state.sources.iter().map(|source| (source.name.as_str(), source.is_synced())).collect();
    assert_eq!(synced, [("quick", true), ("slow", false), ("mesh configuration", true)]);
    assert_eq!(
        (state.sources[1].missing.as_slice(), state.groups[0].waits_for.as_slice()),
        (&[GATEWAYS][..], &[GATEWAYS][..])
    );
    gate.notify_one();
    galley.synced().await;
    assert_eq!(names(&galley, GATEWAYS), ["a v1", "b v7@1"], "the first source goes before the second");
    galley.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_the_first_publication_waits_for_is_pending_although_nobody_can_count_it() {
    let files = scripted("files", &[GATEWAYS], |_, out| {
        Box::pin(async move {
            out.health().connected(true);
            deliver(&out, GATEWAYS, &[("a", 1), ("b", 1)]).await;
            std::future::pending().await
        })
    });
    let registry = scripted("registry", &[RULES], |_, out| {
        Box::pin(async move {
            out.health().connected(false);
            out.health().failed("connection refused");
            std::future::pending().await
        })
    });
    let (galley, _) = start(vec![files, registry]);
    pass(60_000).await;
    let group = galley.state().groups.remove(0);
    let why = "not everything was read yet: connection refused".to_owned();
    assert_eq!(group.waiting, [Waiting { source: "registry".to_owned(), changes: None, why }]);
    // Both gateways, and what the registry has.
    assert_eq!(group.pending_events, 3);
    galley.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_source_that_flaps_changes_nothing_until_it_is_synced_again() {
    let flapping = scripted("flapping", &[GATEWAYS], |generation, out| {
        Box::pin(async move {
            match generation {
                1 => deliver(&out, GATEWAYS, &[("a", 1), ("b", 1)]).await,
                2..5 => {
                    // It begins, and fails.
                    let _ = out.send(vec![put(GATEWAYS, "a", generation)]).await;
                    return Ended::Failed("flap".to_owned());
                }
                _ => {
                    deliver(&out, GATEWAYS, &[("a", 1), ("c", 5)]).await;
                    return std::future::pending().await;
                }
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
            Ended::Reset
        })
    });
    let (galley, counted) = start(vec![flapping]);
    galley.synced().await;
    let first = names(&galley, GATEWAYS);
    assert_eq!(first, ["a v1", "b v1"]);
    let version = || galley.snapshot(DEFAULT_GROUP).unwrap().get(GATEWAYS).unwrap().version().clone();
    let before = version();
    pass(3_000).await;
    let state = &galley.state().sources[0];
    assert!(!state.is_synced() && state.generation > 1, "{state:?}");
    assert_eq!(state.last_error.as_ref().map(|error| error.0.as_str()), Some("flap"));
    assert_eq!((names(&galley, GATEWAYS), version()), (first, before.clone()), "sinks keep what they have");
    pass(120_000).await;
    assert_eq!(names(&galley, GATEWAYS), ["a v1", "c v5"]);
    assert!(version() != before && galley.state().sources[0].is_synced());
    assert_eq!(counted.0.load(Ordering::Relaxed), 2, "one publication at the start, one after the flapping");
    galley.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_source_that_panics_starts_again_and_what_is_equal_keeps_its_version() {
    let panicking = scripted("panicking", &[GATEWAYS], |generation, out| {
        Box::pin(async move {
            deliver(&out, GATEWAYS, &[("a", 1)]).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert!(generation > 1, "on purpose");
            std::future::pending().await
        })
    });
    let (galley, counted) = start(vec![panicking]);
    galley.synced().await;
    pass(60_000).await;
    assert_eq!(
        (galley.state().sources[0].generation, names(&galley, GATEWAYS)),
        (2, vec!["a v1".to_owned()])
    );
    assert_eq!(counted.0.load(Ordering::Relaxed), 1, "the same is not published again");
    galley.stop().await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_delivered_after_a_stop() {
    let leaked: Arc<Mutex<Option<Emitter>>> = Arc::default();
    let keep = Arc::clone(&leaked);
    let source = scripted("leaky", &[GATEWAYS], move |_, out| {
        *keep.lock() = Some(out.clone());
        Box::pin(async move {
            deliver(&out, GATEWAYS, &[("a", 1)]).await;
            std::future::pending().await
        })
    });
    let (galley, _) = start(vec![source]);
    galley.synced().await;
    galley.stop().await;
    galley.stop().await;
    let emitter = leaked.lock().take().unwrap();
    assert!(emitter.is_stopped());
    assert_eq!(emitter.send(vec![put(GATEWAYS, "b", 2)]).await, Err(crate::source::Stopped));
    pass(10_000).await;
    assert_eq!(names(&galley, GATEWAYS), ["a v1"]);
}

#[tokio::test(start_paused = true)]
async fn changes_are_published_after_the_quiet_time_and_not_before() {
    let trigger = Arc::new(Notify::new());
    let waits = Arc::clone(&trigger);
    let source = scripted("edited", &[GATEWAYS], move |_, out| {
        let waits = Arc::clone(&waits);
        Box::pin(async move {
            deliver(&out, GATEWAYS, &[]).await;
            for number in 1.. {
                waits.notified().await;
                let _ = out.send(vec![put(GATEWAYS, "a", number)]).await;
            }
            Ended::Stopped
        })
    });
    let (galley, counted) = start(vec![source]);
    galley.synced().await;
    let published = || counted.0.load(Ordering::Relaxed);
    assert_eq!(published(), 1);
    trigger.notify_one();
    pass(3).await;
    assert_eq!(published(), 1, "something may follow");
    pass(3).await;
    assert_eq!(published(), 2);
    // Edits without a pause are published at the latest after the longest wait.
    for _ in 0..50 {
        trigger.notify_one();
        pass(4).await;
    }
    assert!((3..=5).contains(&published()), "{}", published());
    galley.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pipeline_without_sources_is_refused() {
    let refused =
        Galley::start(Options::default(), Vec::new(), Arc::new(Counted::default()), &Handle::current());
    assert!(matches!(refused, Err(StartError::NoSource)));
}
