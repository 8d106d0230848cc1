//! The golden cases of Galley that are about sources and the pipeline, on files in memory.

#![expect(clippy::unwrap_used, reason = "a test")]

#[path = "../../../../tests/conformance/galley/compare.rs"]
mod compare;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::runtime::Handle;

use compare::{Like, SeenCollection, SeenResource};
use mixer_config::store::{ConfigStore, MemoryStore, StoreContents};
use mixer_galley::options::Debounce;
use mixer_galley::source::files::Files;
use mixer_galley::source::mesh::Mesh;
use mixer_galley::{Distributor, Face, Galley, Options, Source};
use mixer_mcp::{Collection, Snapshot};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../testdata/conformance/galley")
}

/// A store that a test and a source share.
struct SharedStore(Arc<MemoryStore>);

impl ConfigStore for SharedStore {
    fn url(&self) -> &str {
        self.0.url()
    }

    fn contents(&self) -> Arc<StoreContents> {
        self.0.contents()
    }

    fn changed(&self) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        self.0.changed()
    }
}

/// Nobody is told.
struct Nowhere;

impl Distributor for Nowhere {
    fn distribute(&self, _: &str, _: Arc<Snapshot>) {}
}

/// The files below a directory, in walk order.
fn files(directory: &Path, out: &mut Vec<(String, String)>) {
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        let name = path.display().to_string();
        if path.is_dir() {
            files(&path, out);
        } else if name.ends_with(".yaml") || name.ends_with(".yml") {
            out.push((name, std::fs::read_to_string(&path).unwrap()));
        }
    }
}

/// A running pipeline on the files of a case.
struct Stage {
    galley: Galley,
    store: Arc<MemoryStore>,
}

impl Stage {
    fn set(&self, directory: &Path) {
        let mut read = Vec::new();
        files(directory, &mut read);
        // The names of files are those of the directory of the server.
        let base = directory.display().to_string();
        let named = read.iter().map(|(name, text)| (name.strip_prefix(&base).unwrap(), text.as_str()));
        self.store.set(named);
    }

    async fn start(case: &Path, about: &Value, processor: &str) -> Self {
        let arguments = about.get("args").unwrap_or(&Value::Null);
        let face = if processor == "1" { Face::First } else { Face::Second };
        let mut options = Options {
            face,
            debounce: Debounce { quiet: Duration::from_millis(20), max_wait: Duration::from_millis(500) },
            ..Options::default()
        };
        options.service_discovery = arguments.get("enableServiceDiscovery") == Some(&Value::Bool(true));
        if let Some(domain) = arguments.get("domain").and_then(Value::as_str) {
            domain.clone_into(&mut options.domain);
        }
        if let Some(excluded) = arguments.get("excludedResourceKinds").and_then(Value::as_array) {
            options.excluded_kinds = excluded.iter().map(|kind| kind.as_str().unwrap().to_owned()).collect();
        }
        let store = Arc::new(MemoryStore::reading("memory://", Files::reading(face), []));
        let mut read = Vec::new();
        files(&case.join("input"), &mut read);
        let base = case.join("input").display().to_string();
        store.set(read.iter().map(|(name, text)| (name.strip_prefix(&base).unwrap(), text.as_str())));
        let mesh = about.get("meshConfig").and_then(Value::as_str).map(|name| {
            let text = std::fs::read_to_string(case.join(name)).unwrap();
            Box::new(MemoryStore::reading(
                "memory://mesh",
                Files::reading(Face::First),
                [("mesh", text.as_str())],
            )) as Box<dyn ConfigStore>
        });
        let sources: Vec<Arc<dyn Source>> =
            vec![Files::of(Box::new(SharedStore(Arc::clone(&store))), &options), Mesh::of(mesh, &options)];
        let galley = Galley::start(options, sources, Arc::new(Nowhere), &Handle::current()).unwrap();
        tokio::time::timeout(Duration::from_secs(60), galley.synced()).await.unwrap();
        Self { galley, store }
    }

    fn collection(&self, name: &str) -> Option<SeenCollection> {
        let group = mixer_schema::group_of(name);
        Some(seen(self.galley.snapshot(group)?.get(name)?))
    }
}

fn seen(collection: &Collection) -> SeenCollection {
    let resource = |resource: &Arc<mixer_mcp::Resource>| SeenResource {
        name: resource.name.to_string(),
        version: resource.version.to_string(),
        create_time: resource.create_time.map(|time| time.rfc3339().to_string()).unwrap_or_default(),
        type_url: resource.type_url.to_string(),
        labels: resource.labels.clone(),
        annotations: resource.annotations.clone(),
        body: mixer_schema::to_json(&resource.type_url, &resource.body).unwrap(),
    };
    SeenCollection {
        version: collection.version().to_string(),
        resources: collection.content().iter().map(resource).collect(),
    }
}

async fn snapshot(case: &Path, about: &Value, expected: &Value, processor: &str) -> Result<(), String> {
    let Some((expected, like)) = compare::processor(expected, processor) else {
        return Err("nothing is expected".into());
    };
    let stage = Stage::start(case, about, processor).await;
    for (name, expected) in expected.get("collections").and_then(Value::as_object).into_iter().flatten() {
        if like == Like::Other && name == mixer_schema::MESH_CONFIG {
            continue;
        }
        let found = stage.collection(name);
        if expected.get("refused").is_some() || expected.get("unanswered").is_some() {
            if found.is_some() {
                return Err(format!("{name}: is published"));
            }
            continue;
        }
        let found = found.ok_or_else(|| format!("{name}: is not published"))?;
        compare::collection(expected, &found, like).map_err(|why| format!("{name}: {why}"))?;
    }
    for name in expected.get("emptyCollections").and_then(Value::as_array).into_iter().flatten() {
        let name = name.as_str().unwrap_or_default();
        let found = stage.collection(name).ok_or_else(|| format!("{name}: is not published"))?;
        if !found.resources.is_empty() || (processor == "1" && found.version != "0") {
            return Err(format!("{name}: is not empty"));
        }
    }
    stage.galley.stop().await;
    Ok(())
}

async fn reload(case: &Path, about: &Value, expected: &Value, processor: &str) -> Result<(), String> {
    let Some((expected, like)) = compare::processor(expected, processor) else {
        return Err("nothing is expected".into());
    };
    let stage = Stage::start(case, about, processor).await;
    let collections: Vec<&str> =
        about["collections"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    for name in &collections {
        let found = stage.collection(name).ok_or_else(|| format!("{name}: is not published"))?;
        compare::collection(expected["initial"].get(name).unwrap_or(&Value::Null), &found, like)
            .map_err(|why| format!("{name}: {why}"))?;
    }
    let steps = about["steps"].as_array().unwrap().iter().zip(expected["steps"].as_array().unwrap());
    for (step, expected) in steps {
        let what = step["about"].as_str().unwrap_or_default();
        let versions =
            || collections.iter().map(|name| stage.collection(name).unwrap().version).collect::<Vec<_>>();
        let before = versions();
        stage.set(&case.join(step["directory"].as_str().unwrap()));
        // A change arrives at once and is published after a pause of 20 ms; nothing may arrive for those that do not change.
        let is_done = || {
            collections.iter().zip(&before).all(|(name, before)| match expected["pushes"].get(name) {
                Some(expected) => {
                    let found = stage.collection(name).unwrap();
                    found.version != *before && compare::collection(expected, &found, like).is_ok()
                }
                None => true,
            })
        };
        for _ in 0..500 {
            tokio::time::sleep(Duration::from_millis(10)).await;
            if is_done() && expected["pushes"].as_object().is_some_and(|pushes| !pushes.is_empty()) {
                break;
            }
            if expected["pushes"].as_object().is_some_and(serde_json::Map::is_empty) && versions() != before {
                break;
            }
            if expected["pushes"].as_object().is_some_and(serde_json::Map::is_empty)
                && !stage.store.has_changed()
            {
                tokio::time::sleep(Duration::from_millis(60)).await;
                break;
            }
        }
        for ((name, before), after) in collections.iter().zip(&before).zip(versions()) {
            let found = stage.collection(name).unwrap();
            match expected["pushes"].get(name) {
                Some(expected) => compare::collection(expected, &found, like)
                    .map_err(|why| format!("{what}: {name}: {why}"))?,
                None if after != *before => return Err(format!("{what}: {name}: is published again")),
                None => {}
            }
        }
    }
    stage.galley.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn golden_cases_hold() {
    let filter = std::env::var("MIXER_CASE").unwrap_or_default();
    let mut cases: Vec<PathBuf> =
        std::fs::read_dir(root()).unwrap().map(|entry| entry.unwrap().path()).collect();
    cases.sort();
    let (mut failed, mut passed) = (Vec::new(), 0);
    for case in cases.iter().filter(|case| case.is_dir() && case.display().to_string().contains(&filter)) {
        let read = |name: &str| -> Value {
            serde_json::from_str(&std::fs::read_to_string(case.join(name)).unwrap()).unwrap()
        };
        let about = read("case.json");
        let kind = about["kind"].as_str().unwrap_or_default();
        if !["snapshot", "reload"].contains(&kind) {
            continue;
        }
        let expected = read("expected.json");
        for processor in about["processors"].as_array().unwrap() {
            let processor = processor.to_string();
            let ran = match kind {
                "snapshot" => snapshot(case, &about, &expected, &processor).await,
                _ => reload(case, &about, &expected, &processor).await,
            };
            match ran {
                Ok(()) => passed += 1,
                Err(why) => {
                    failed.push(format!("{} {processor}: {why}", case.file_name().unwrap().display()))
                }
            }
        }
    }
    assert!(failed.is_empty(), "{passed} hold; {}:\n{}", failed.len(), failed.join("\n"));
    assert!(passed > 0);
}
