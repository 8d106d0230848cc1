//! The mistakes of docs/configuration.md, in files that a galley reads for the server: none of them allows more than in the server's own
//! files.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mixer_config::store::{ConfigStore, SourceObject, StoreContents, read_object};
use mixer_engine::runtime::OnConfigError;
use mixer_engine::snapshot::SnapshotOptions;
use mixer_galley::source::files::Files as FilesSource;
use mixer_galley::source::mesh::Mesh;
use mixer_galley::{Distributor, Face, Galley, Options, Source};
use mixer_galley_server::EngineJudge;
use mixer_mcp::{Resource, Snapshot};
use mixer_schema::{DEFAULT_GROUP, Kind, by_collection};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::mistakes::EDITS;
use crate::on_config_error::table;
use crate::refusal::{HANDLER, INSTANCE, RULE, deny, good};
use crate::stage::{Answer, Files, Stage};

/// How long a change may take to be published, or withheld.
const LIMIT: Duration = Duration::from_secs(60);
const GATEWAYS: &str = "istio/networking/v1alpha3/gateways";

struct Nowhere;

impl Distributor for Nowhere {
    fn distribute(&self, _: &str, _: Arc<Snapshot>) {}
}

#[derive(Default)]
struct Shared {
    contents: Mutex<Arc<StoreContents>>,
    changed: Notify,
}

struct SharedStore(Arc<Shared>);

impl ConfigStore for SharedStore {
    fn url(&self) -> &str {
        "memory://galley"
    }

    fn contents(&self) -> Arc<StoreContents> {
        Arc::clone(&self.0.contents.lock())
    }

    fn changed(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(self.0.changed.notified())
    }
}

/// A galley on files in memory.
struct Relay {
    shared: Arc<Shared>,
    known: BTreeMap<String, String>,
    galley: Galley,
    changes: usize,
}

impl Relay {
    fn start(files: &Files, runtime: &tokio::runtime::Runtime) -> Self {
        let shared = Arc::new(Shared::default());
        let mut known = BTreeMap::new();
        *shared.contents.lock() = Arc::new(read(files, 0, None, &mut known));
        let options = Options {
            keeps_last: true,
            judge: Some(EngineJudge::new(SnapshotOptions::new(mixer_server::REGISTRY))),
            ..Options::default()
        };
        let store = Box::new(SharedStore(Arc::clone(&shared)));
        let sources: Vec<Arc<dyn Source>> = vec![FilesSource::of(store, &options), Mesh::of(None, &options)];
        let galley = Galley::start(options, sources, Arc::new(Nowhere), runtime.handle()).expect("a galley");
        let relay = Self { shared, known, galley, changes: 0 };
        relay.settle("the start");
        relay
    }

    /// Other files; returns when they are published or withheld.
    fn change(&mut self, files: &Files, what: &str) {
        self.changes += 1;
        let before = Arc::clone(&self.shared.contents.lock());
        let next = read(files, self.changes, Some(&before), &mut self.known);
        *self.shared.contents.lock() = Arc::new(next);
        self.shared.changed.notify_one();
        self.settle(what);
    }

    fn settle(&self, what: &str) {
        let deadline = Instant::now() + LIMIT;
        while !self.is_published() && self.held().is_none() {
            assert!(Instant::now() < deadline, "{what} is neither published nor withheld");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Returns when the last change is published, and nothing is withheld.
    fn published(&self, what: &str) {
        let deadline = Instant::now() + LIMIT;
        while !self.is_published() || self.held().is_some() {
            assert!(Instant::now() < deadline, "{what}, mended, is not published: {:?}", self.held());
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn held(&self) -> Option<String> {
        self.galley.state().sources.first().and_then(|source| source.held.clone())
    }

    /// Whether the last change is.
    fn is_published(&self) -> bool {
        let marker = format!("marker/{}", self.changes);
        let snapshot = self.galley.snapshot(DEFAULT_GROUP);
        snapshot.is_some_and(|snapshot| {
            snapshot.get(GATEWAYS).is_some_and(|gateways| gateways.content().get(&marker).is_some())
        })
    }

    /// What a sink has, each resource in a file.
    fn served(&self) -> Files {
        let mut files = Files::default();
        let snapshot = self.galley.snapshot(DEFAULT_GROUP).expect("a publication");
        for collection in snapshot.collections() {
            let Some(kind) = by_collection(collection.name()) else { continue };
            if !matches!(kind.group, "config.istio.io" | "rbac.istio.io") {
                continue;
            }
            for resource in collection.content().iter() {
                let file = format!("/conf/{}/{}.yaml", collection.name(), resource.name);
                files.put(&file, text(kind, resource));
            }
        }
        files
    }
}

/// What the store of a galley has of files, and a resource that shows which change it was.
fn read(
    files: &Files,
    change: usize,
    before: Option<&StoreContents>,
    known: &mut BTreeMap<String, String>,
) -> StoreContents {
    let mut files = files.clone();
    let marker = format!(
        "apiVersion: networking.istio.io/v1alpha3\nkind: Gateway\nmetadata: {{name: '{change}', namespace: marker}}\nspec: {{selector: {{a: b}}}}\n"
    );
    files.put("/conf/marker.yaml", marker);
    files.read_as(FilesSource::reading(Face::First), before, known)
}

/// A resource as the document that a server reads.
fn text(kind: &Kind, resource: &Resource) -> String {
    let (namespace, name) = resource.namespace_and_name();
    let object = SourceObject {
        api_version: kind.api_version(),
        kind: kind.kind.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        labels: resource.labels.clone(),
        annotations: resource.annotations.clone(),
        spec: mixer_schema::to_json(&resource.type_url, &resource.body).expect("a body"),
        ..SourceObject::default()
    };
    read_object(&"resource".into(), object).expect("an identity").origin.text.to_string()
}

#[test]
fn no_mistake_allows_more_through_a_galley() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("threads");
    let documented = table("<!-- on-error: edits -->");
    let mut differences = Vec::new();
    for (name, edit) in EDITS {
        let cells = documented.iter().find(|cells| cells[0] == *name).expect("documented");
        let mut relay = Relay::start(&good(), &runtime);
        let mut stage = Stage::new(OnConfigError::KeepLast, false);
        stage.start(&relay.served());
        assert_eq!((stage.check("ann"), stage.check("bob")), (Answer::Allowed, Answer::Denied), "{name}");
        let mut files = good();
        edit(&mut files);
        relay.change(&files, name);
        stage.change(&relay.served());
        let held = relay.held();
        if stage.check("ann") != Answer::Allowed {
            differences.push(format!("{name}: ann is not allowed; withheld: {held:?}"));
        }
        if cells[1] != "without it" && stage.check("bob") != Answer::Denied {
            differences.push(format!("{name}: bob is {:?}; withheld: {held:?}", stage.check("bob")));
        }
        relay.change(&good(), name);
        relay.published(name);
        assert_eq!(relay.held(), None, "{name}: mended");
        stage.change(&relay.served());
        assert_eq!((stage.check("ann"), stage.check("bob")), (Answer::Allowed, Answer::Denied), "{name}");
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// A rule that is no rule any more, or has the name of another one: who reads the files keeps it.
#[test]
fn a_rule_under_another_kind_or_the_name_of_another_is_not_lost() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("threads");
    let rule = format!("apiVersion: config.istio.io/v1alpha2\n{RULE}");
    let other = RULE.replace("no-bob", "no-eve").replace("bob", "eve");
    let with = |rule: &str| {
        let mut files = good();
        files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, rule]));
        files
    };
    let kind = |kind: &str| rule.replace("kind: rule", kind);
    let good = with(&format!("{rule}---\n{other}"));
    for (what, text) in [
        ("the name of a later rule", format!("{}---\n{other}", rule.replace("no-bob", "no-eve"))),
        ("the name of an earlier rule", format!("{other}---\n{}", rule.replace("no-bob", "no-eve"))),
        ("a kind of another group", format!("{}---\n{other}", kind("kind: Gateway"))),
        ("a legacy kind that nobody asks for", format!("{}---\n{other}", kind("kind: rbac"))),
        (
            "another kind and group",
            format!("{}---\n{other}", kind("kind: Gateway"))
                .replace("config.istio.io/v1alpha2", "networking.istio.io/v1alpha3"),
        ),
    ] {
        let mut relay = Relay::start(&good, &runtime);
        let mut stage = Stage::new(OnConfigError::KeepLast, false);
        stage.start(&relay.served());
        assert_eq!((stage.check("ann"), stage.check("bob")), (Answer::Allowed, Answer::Denied), "{what}");
        relay.change(&with(&text), what);
        assert!(relay.held().is_some(), "{what} is published");
        stage.change(&relay.served());
        assert_eq!((stage.check("ann"), stage.check("bob")), (Answer::Allowed, Answer::Denied), "{what}");
        relay.change(&good, what);
        relay.published(what);
    }
}
