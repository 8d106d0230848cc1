//! What sinks see of the mesh while its file cannot be used.

use std::time::{Duration, Instant};

use tokio::runtime::Handle;

use mixer_mcp::Snapshot;
use mixer_schema::group_of;

use super::*;
use crate::state::SourceState;
use crate::{Distributor, Galley};

/// Policies are checked, and nothing else than what is registered may be called.
const CLOSED: &str = "disablePolicyChecks: false\noutboundTrafficPolicy: {mode: REGISTRY_ONLY}\n";

struct Nowhere;

impl Distributor for Nowhere {
    fn distribute(&self, _: &str, _: Arc<Snapshot>) {}
}

/// Feeds every other collection, with nothing.
struct Others(Vec<&'static str>);

impl Source for Others {
    fn name(&self) -> String {
        "others".to_owned()
    }

    fn collections(&self) -> Vec<&'static str> {
        self.0.clone()
    }

    fn run(self: Arc<Self>, out: Emitter) -> BoxFuture<'static, Ended> {
        Box::pin(async move {
            let _ = out.send_everything(Vec::new(), &self.0).await;
            std::future::pending().await
        })
    }
}

struct Scene {
    directory: tempfile::TempDir,
    galley: Galley,
    options: Options,
}

impl Scene {
    fn new(text: Option<&str>, keeps_last: bool) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("mesh.yaml");
        text.iter().for_each(|text| std::fs::write(&file, text).unwrap());
        let options = Options { keeps_last, ..Options::default() };
        let galley = Self::galley(&file, &options);
        Self { directory, galley, options }
    }

    fn galley(file: &Path, options: &Options) -> Galley {
        let mesh = Mesh::new(Some(file), options).unwrap();
        let others = Others(options.read_kinds().map(|kind| kind.collection).collect());
        let sources: Vec<Arc<dyn Source>> = vec![mesh, Arc::new(others)];
        Galley::start(options.clone(), sources, Arc::new(Nowhere), &Handle::current()).unwrap()
    }

    /// The process starts again.
    fn restart(&mut self) {
        self.galley = Self::galley(&self.directory.path().join("mesh.yaml"), &self.options);
    }

    fn write(&self, text: &str) {
        let new = self.directory.path().join(".new");
        std::fs::write(&new, text).unwrap();
        std::fs::rename(new, self.directory.path().join("mesh.yaml")).unwrap();
    }

    /// Whether policies are checked, as sinks see it; `None` before anything is published.
    fn checks(&self) -> Option<bool> {
        let snapshot = self.galley.snapshot(group_of(MESH_CONFIG))?;
        let mesh = snapshot.get(MESH_CONFIG)?.content().iter().next()?.clone();
        let body = mixer_schema::to_json(&mesh.type_url, &mesh.body).unwrap();
        Some(body["disablePolicyChecks"].as_bool() != Some(true))
    }

    fn state(&self) -> SourceState {
        self.galley.state().sources.into_iter().next().unwrap()
    }

    async fn until(&self, what: &str, condition: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !condition(self) {
            assert!(Instant::now() < deadline, "{what}: {:?} {:?}", self.checks(), self.state());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

const FLAWS: [(&str, &str); 6] = [
    ("an empty file", ""),
    ("no YAML", "disablePolicyChecks: [\n"),
    ("a value of another type", "disablePolicyChecks: maybe\n"),
    ("a field that is misspelt", "disablePolicyCheck: false\n"),
    ("a field without a value", "disablePolicyChecks:\n"),
    ("a value that there is not", "disablePolicyChecks: false\noutboundTrafficPolicy: {mode: REGISTRY}\n"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mesh_that_cannot_be_used_stays_as_it_was() {
    let mut scene = Scene::new(Some(CLOSED), true);
    scene.galley.synced().await;
    assert_eq!(scene.checks(), Some(true));
    for (what, text) in FLAWS {
        scene.write(text);
        scene.until(what, |scene| scene.state().held.is_some()).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(scene.checks(), Some(true), "{what}: {:?}", scene.state());
        assert!(scene.state().last_error.is_some(), "{what}");
        // Nobody knows what was there before a start.
        scene.restart();
        scene.until(what, |scene| scene.state().held.is_some()).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(scene.checks(), None, "{what}");
        assert!(!scene.galley.is_synced(), "{what}");
        scene.write(CLOSED);
        scene.until(what, |scene| scene.checks() == Some(true)).await;
        assert!(scene.state().last_error.is_none() && scene.state().held.is_none(), "{what}");
    }
    std::fs::remove_file(scene.directory.path().join("mesh.yaml")).unwrap();
    scene.restart();
    scene.until("a file that is missing", |scene| scene.state().held.is_some()).await;
    assert_eq!(scene.checks(), None, "it may not be mounted yet");
    scene.write("disablePolicyChecks: true\n");
    scene.until("as it says", |scene| scene.checks() == Some(false)).await;
    scene.galley.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn called_as_galley_a_mesh_that_cannot_be_used_is_the_default() {
    let scene = Scene::new(Some("disablePolicyChecks: [\n"), false);
    scene.galley.synced().await;
    assert_eq!(scene.checks(), Some(false));
    scene.write(CLOSED);
    scene.until("mended", |scene| scene.checks() == Some(true)).await;
    scene.until("the error is over", |scene| scene.state().last_error.is_none()).await;
    scene.galley.stop().await;
}
