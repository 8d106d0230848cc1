//! The `adapters` suite, one directory per adapter; its README.md states the schema.
//!
//! Every case builds its handler through the inventory, as the server does, and calls it directly. Cases run in parallel: those in real
//! time mostly wait. `wire` has a runner of its own, which uses the binary.

#[path = "adapters/backend.rs"]
mod backend;
#[path = "adapters/compare.rs"]
mod compare;
#[path = "adapters/fixture.rs"]
mod fixture;
#[path = "adapters/generate.rs"]
mod generate;
#[path = "adapters/instance.rs"]
mod instance;
#[path = "adapters/steps.rs"]
mod steps;

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use mixer_attribute::{ValueType, Vocabulary};
use mixer_config::{Node, yaml};
use parking_lot::Mutex;

use crate::case::{Case, selected};

/// Cases that run in parallel.
const THREADS: usize = 12;

/// Runs the cases in `dir` whose id contains the filter.
pub(crate) fn run(dir: &Path, filter: Option<&str>) -> Vec<Case> {
    match read(dir, filter) {
        Ok(found) => run_all(&found),
        Err(error) => vec![Case::new("cases", Err(error))],
    }
}

/// A case in its file.
struct Found {
    id: String,
    adapter: String,
    node: Node,
    vocabulary: std::sync::Arc<Vocabulary>,
}

fn read(dir: &Path, filter: Option<&str>) -> Result<Vec<Found>, String> {
    let vocabulary = std::sync::Arc::new(vocabulary(&document(&dir.join("attributes.yaml"))?)?);
    let mut found = Vec::new();
    let mut directories: Vec<_> = std::fs::read_dir(dir)
        .map_err(|e| e.to_string())?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.is_dir() && !path.ends_with("wire"))
        .collect();
    directories.sort();
    for directory in directories {
        let file = document(&directory.join("cases.yaml"))?;
        let adapter = file.get("adapter").and_then(Node::as_str).unwrap_or_default();
        for node in file.get("cases").map(Node::items).unwrap_or_default() {
            let id = node.get("id").and_then(Node::as_str).unwrap_or("case without an id");
            if selected(id, filter) {
                let (id, adapter) = (id.to_owned(), adapter.to_owned());
                found.push(Found { id, adapter, node: node.clone(), vocabulary: vocabulary.clone() });
            }
        }
    }
    Ok(found)
}

fn document(path: &Path) -> Result<Node, String> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(yaml::parse(&text).map_err(|e| format!("{}: {e}", path.display()))?.root)
}

fn vocabulary(manifest: &Node) -> Result<Vocabulary, String> {
    let mut builder = Vocabulary::builder();
    for entry in manifest.get("attributes").map(Node::entries).unwrap_or_default() {
        let name = entry.value.as_str().unwrap_or_default();
        let value_type = ValueType::from_name(name).ok_or_else(|| format!("unknown type {name}"))?;
        builder.declare(&entry.key, value_type);
    }
    generate::declare(&mut builder);
    Ok(builder.build())
}

fn run_all(found: &[Found]) -> Vec<Case> {
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, Case)>> = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..THREADS.min(found.len()) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(case) = found.get(index) else { break };
                    let outcome = run_one(case);
                    done.lock().push((index, outcome));
                }
            });
        }
    });
    let mut done = done.into_inner();
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, case)| case).collect()
}

fn run_one(found: &Found) -> Case {
    let Some(adapter) = mixer_adapters::INVENTORY.find(&found.adapter) else {
        return Case::new(&found.id, Err(format!("there is no adapter `{}`", found.adapter)));
    };
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| e.to_string())?;
        runtime.block_on(steps::run(&found.node, adapter, &found.vocabulary))
    }));
    let result = result.unwrap_or_else(|_| Err("a panic; its message is above".to_owned()));
    Case::new(&found.id, result)
}
