//! What a newcomer reads and installs: consoles of the pages, links, examples of migrations and of a mesh, and the files of deploy/.

#![cfg(test)]

#[path = "docs/attributes.rs"]
mod attributes;
#[path = "docs/consoles.rs"]
mod consoles;
#[path = "docs/image.rs"]
mod image;
#[path = "docs/links.rs"]
mod links;
#[path = "docs/mesh.rs"]
mod mesh;
#[path = "docs/migration.rs"]
mod migration;
#[path = "docs/packages.rs"]
mod packages;
#[path = "support/support.rs"]
mod support;
#[path = "docs/timings.rs"]
mod timings;

use std::path::{Path, PathBuf};

/// A path in the repository.
fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// A file of the repository.
fn read(path: &str) -> String {
    std::fs::read_to_string(repository(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// README.md and the pages of docs/, by their paths.
fn pages() -> Vec<(String, String)> {
    let entries = std::fs::read_dir(repository("docs")).expect("docs/ is readable");
    let names = entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"));
    let mut paths: Vec<String> =
        names.filter(|name| name.ends_with(".md")).map(|name| format!("docs/{name}")).collect();
    paths.push("README.md".to_owned());
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), read(&path))).collect()
}
