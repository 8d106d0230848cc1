//! The analysing distributor: publishes, and then tells in the log what the resources that are published say together.
//!
//! Istio's publishes after the analysis; here sinks do not wait for it. One analysis runs at a time, of the last publication: a newer one ends
//! it early. Spec: galley.md, 13.5.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use serde_json::{Value as Json, json};
use tokio::runtime::Handle;

use mixer_config::{Node, Severity, yaml};
use mixer_galley::Distributor;
use mixer_mcp::Snapshot;
use mixer_schema::analysis::{self, Object};
use mixer_schema::{Body, DEFAULT_GROUP, Kind, SYNTHETIC_GROUP, by_collection, by_kind};

/// Most messages that are told of one publication.
const MAX_TOLD: usize = 1000;

/// A distributor that analyses what it has published.
pub(crate) struct Analysing {
    to: Arc<dyn Distributor>,
    runtime: Handle,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Whether something newer is to be analysed.
    is_outdated: AtomicBool,
}

#[derive(Default)]
struct State {
    /// The last snapshot of each group that is analysed.
    last: BTreeMap<&'static str, Arc<Snapshot>>,
    /// Whether a thread analyses.
    is_running: bool,
    /// Whether there is something that was not analysed.
    is_due: bool,
    /// What the last analysis told.
    told: BTreeSet<String>,
}

impl Analysing {
    /// Publishes with `to`, and analyses on the threads of a runtime for what blocks.
    pub(crate) fn new(to: Arc<dyn Distributor>, runtime: Handle) -> Self {
        Self { to, runtime, shared: Arc::default() }
    }
}

impl Distributor for Analysing {
    fn distribute(&self, group: &str, snapshot: Arc<Snapshot>) {
        self.to.distribute(group, Arc::clone(&snapshot));
        let Some(group) = [DEFAULT_GROUP, SYNTHETIC_GROUP].into_iter().find(|known| *known == group) else {
            return;
        };
        let mut state = self.shared.state.lock();
        state.last.insert(group, snapshot);
        if group != DEFAULT_GROUP {
            return;
        }
        state.is_due = true;
        self.shared.is_outdated.store(true, Ordering::Relaxed);
        if !state.is_running {
            state.is_running = true;
            let shared = Arc::clone(&self.shared);
            drop(self.runtime.spawn_blocking(move || shared.run()));
        }
    }
}

impl Shared {
    /// Analyses until nothing is due.
    fn run(&self) {
        loop {
            let snapshots: Vec<Arc<Snapshot>> = {
                let mut state = self.state.lock();
                state.is_running = std::mem::take(&mut state.is_due);
                if !state.is_running {
                    return;
                }
                self.is_outdated.store(false, Ordering::Relaxed);
                state.last.values().cloned().collect()
            };
            let is_over = || self.is_outdated.load(Ordering::Relaxed);
            match std::panic::catch_unwind(AssertUnwindSafe(|| analyzed(&snapshots, &is_over))) {
                Ok(messages) if !is_over() => self.tell(messages),
                Ok(_) => {}
                Err(_) => {
                    tracing::error!("an analysis of what is published failed; what is published serves")
                }
            }
        }
    }

    /// Logs what was not told before, and what is over.
    fn tell(&self, messages: Vec<(Severity, String)>) {
        let count = messages.len();
        let told: BTreeSet<String> = messages.iter().take(MAX_TOLD).map(|(_, text)| text.clone()).collect();
        let before = std::mem::replace(&mut self.state.lock().told, told.clone());
        for (severity, text) in messages.iter().take(MAX_TOLD).filter(|(_, text)| !before.contains(text)) {
            match severity {
                Severity::Error | Severity::Warning => tracing::warn!("{text}"),
                Severity::Info => tracing::info!("{text}"),
            }
        }
        for text in before.difference(&told) {
            tracing::info!("no longer: {text}");
        }
        if count > MAX_TOLD {
            tracing::warn!(count, "analysis: only the first {MAX_TOLD} messages are told");
        }
    }
}

/// The messages about what snapshots have, as Istio writes them: `LEVEL [CODE](KIND NAME.NS) TEXT`. Of an analysis that is over early, some.
fn analyzed(snapshots: &[Arc<Snapshot>], is_over: &dyn Fn() -> bool) -> Vec<(Severity, String)> {
    let mut documents: Vec<(&'static Kind, String, String, Node)> = Vec::new();
    let collections = snapshots.iter().flat_map(|snapshot| snapshot.collections());
    for collection in collections {
        let Some(kind) = by_collection(collection.name()) else { continue };
        // Synthetic ones are service entries as well.
        let of_message = kind.message.rsplit('.').next().and_then(by_kind);
        let Some(kind) = (if kind.kind.is_empty() { of_message } else { Some(kind) }) else { continue };
        for resource in collection.content().iter() {
            if is_over() {
                return Vec::new();
            }
            let Ok(body) = mixer_schema::to_json(&resource.type_url, &resource.body) else { continue };
            let (namespace, name) = resource.namespace_and_name();
            let metadata = json!({
                "name": name, "namespace": namespace, "labels": resource.labels, "annotations": resource.annotations,
            });
            let document = match (kind.body, body) {
                (Body::Object, Json::Object(mut object)) => {
                    object.insert("metadata".to_owned(), metadata);
                    Json::Object(object)
                }
                (_, spec) => json!({"metadata": metadata, "spec": spec}),
            };
            // JSON is YAML.
            let Ok(parsed) = yaml::parse(&document.to_string()) else { continue };
            documents.push((kind, name.to_owned(), namespace.to_owned(), parsed.root));
        }
    }
    let objects: Vec<Object<'_>> = documents
        .iter()
        .map(|(kind, name, namespace, document)| Object { kind, name, namespace, document })
        .collect();
    let messages = analysis::analyze(&objects, &[], is_over).into_iter();
    let line = |message: analysis::Message| {
        let object = objects.get(message.object)?;
        Some((message.problem.severity, message.line(object)))
    };
    messages.filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use mixer_mcp::{Collection, Resource};

    /// Publishes nothing, and counts.
    #[derive(Default)]
    struct Count(Mutex<Vec<String>>);

    impl Distributor for Count {
        fn distribute(&self, group: &str, _: Arc<Snapshot>) {
            self.0.lock().push(group.to_owned());
        }
    }

    fn snapshot(collection: &str, name: &str, spec: &str) -> Arc<Snapshot> {
        let kind = by_collection(collection).unwrap();
        let kind = if kind.kind.is_empty() { by_kind("ServiceEntry").unwrap() } else { kind };
        let encoded = mixer_schema::encode(kind, &yaml::parse(spec).unwrap().root).unwrap();
        let resource = Resource::new(name, "1", kind.type_url(), encoded.body);
        Arc::new(Snapshot::of([Collection::new(collection, "1", [Arc::new(resource)])]))
    }

    const SERVICES: &str = "istio/networking/v1alpha3/virtualservices";

    async fn until(what: &str, condition: impl Fn() -> bool) {
        let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while !condition() {
            assert!(std::time::Instant::now() < end, "{what}");
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_is_published_is_analysed_after_it_was_published() {
        let to = Arc::new(Count::default());
        let analysing = Analysing::new(Arc::clone(&to) as Arc<dyn Distributor>, Handle::current());
        let told = || analysing.shared.state.lock().told.iter().cloned().collect::<Vec<_>>();
        let with = |host: &str| {
            let route = format!("{{hosts: [a.com], http: [{{route: [{{destination: {{host: {host}}}}}]}}]}}");
            snapshot(SERVICES, "shop/v", &route)
        };
        // Nothing is known of hosts.
        analysing.distribute(DEFAULT_GROUP, with("web.com"));
        until("all is analysed", || !analysing.shared.state.lock().is_running).await;
        assert_eq!(told(), Vec::<String>::new());
        // The other group is read with the next publication of this one.
        let entry =
            "{hosts: [other.com], ports: [{number: 80, name: http, protocol: HTTP}], resolution: DNS}";
        analysing
            .distribute(SYNTHETIC_GROUP, snapshot(mixer_schema::SYNTHETIC_SERVICE_ENTRIES, "shop/e", entry));
        assert_eq!(told(), Vec::<String>::new());
        analysing.distribute(DEFAULT_GROUP, with("web.com"));
        let expected = "error [IST0101](VirtualService v.shop) Referenced host not found: \"web.com\"";
        until("the missing host is told", || told() == [expected]).await;
        for _ in 0..20 {
            analysing.distribute(DEFAULT_GROUP, with("web.com"));
        }
        analysing.distribute(DEFAULT_GROUP, with("other.com"));
        until("the last publication counts", || told().is_empty()).await;
        assert_eq!(to.0.lock().len(), 24, "everything is published");
    }
}
