//! The structure of the code: `docs/architecture.md` draws the crates as `cargo metadata` reports them and lists the ways of a check
//! and of a configuration change, and no modules of a crate or of `src/cmd` import each other in a cycle.
//!
//! `UPDATE_GOLDEN=1 cargo test --test architecture` rewrites the drawing.

#![cfg(test)]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use regex::Regex;

/// Direct dependencies by name, sorted.
type Graph = BTreeMap<String, BTreeSet<String>>;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/architecture.md");
const BEGIN: &str = "<!-- crates: begin -->\n";
const END: &str = "<!-- crates: end -->";

/// The crates of the workspace by their short names, as cargo resolves them; dependencies of tests are left out.
fn crates() -> Graph {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline", "--manifest-path"])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let list = |value: &serde_json::Value| value.as_array().unwrap().clone();
    let short = |name: &str| name.strip_prefix("mixer-").unwrap_or(name).to_owned();
    let own: BTreeSet<String> =
        list(&metadata["packages"]).iter().map(|p| p["name"].as_str().unwrap().to_owned()).collect();
    list(&metadata["packages"])
        .iter()
        .map(|package| {
            let dependencies = list(&package["dependencies"]);
            let direct = dependencies
                .iter()
                .filter(|d| d["kind"] != "dev")
                .filter_map(|d| d["name"].as_str().filter(|name| own.contains(*name)))
                .map(short);
            (short(package["name"].as_str().unwrap()), direct.collect())
        })
        .collect()
}

/// Everything that can be reached from `from` in one step or more.
fn reachable(graph: &Graph, from: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut pending: Vec<&str> = graph.get(from).into_iter().flatten().map(String::as_str).collect();
    while let Some(name) = pending.pop() {
        if found.insert(name.to_owned()) {
            pending.extend(graph.get(name).into_iter().flatten().map(String::as_str));
        }
    }
    found
}

/// The nodes that lie on a cycle.
fn cyclic(graph: &Graph) -> Vec<&String> {
    graph.keys().filter(|name| reachable(graph, name).contains(*name)).collect()
}

/// The drawing: a diagram of the edges that are not implied by others, and a table of all edges.
fn drawing(graph: &Graph) -> String {
    let mut out = "```mermaid\nflowchart BT\n".to_owned();
    for (name, direct) in graph {
        let implied: BTreeSet<String> = direct.iter().flat_map(|d| reachable(graph, d)).collect();
        for dependency in direct.difference(&implied) {
            writeln!(out, "  {name} --> {dependency}").unwrap();
        }
    }
    out.push_str("```\n\n| crate | depends directly on |\n| --- | --- |\n");
    for (name, direct) in graph {
        let direct: Vec<&str> = direct.iter().map(String::as_str).collect();
        let direct = if direct.is_empty() { "–".to_owned() } else { direct.join(", ") };
        writeln!(out, "| {name} | {direct} |").unwrap();
    }
    out
}

#[test]
fn the_architecture_page_draws_the_crates() {
    let graph = crates();
    assert_eq!(cyclic(&graph), Vec::<&String>::new(), "cargo allows no cycle");
    let page = std::fs::read_to_string(PAGE).unwrap();
    let (before, rest) = page.split_once(BEGIN).expect("the page has the marker");
    let (drawn, after) = rest.split_once(END).expect("the page has the end marker");
    let wanted = drawing(&graph);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(PAGE, format!("{before}{BEGIN}{wanted}{END}{after}")).unwrap();
    } else {
        assert_eq!(drawn, wanted, "run UPDATE_GOLDEN=1 cargo test --test architecture");
    }
}

#[test]
fn the_ways_enter_every_file_once() {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let entry = Regex::new(r"(\d+)\. `([^`]+\.rs)`").unwrap();
    let sources = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src/core"));
    for heading in ["### The way of a check\n", "### The way of a configuration change\n"] {
        let (_, rest) = page.split_once(heading).expect("the page has the list");
        let way = rest.split("\n#").next().unwrap();
        let mut entered = BTreeSet::new();
        for (index, [number, file]) in entry.captures_iter(way).map(|found| found.extract().1).enumerate() {
            assert_eq!(number, (index + 1).to_string(), "{file}");
            assert!(file.contains('<') || sources.join(file).is_file(), "{file} does not exist");
            assert!(entered.insert(file), "{file} is entered twice");
        }
        assert!(entered.len() > 35, "{heading}: {}", entered.len());
    }
}

#[test]
fn who_may_depend_on_whom() {
    let graph = crates();
    // What stands in the way of reuse, or makes a change in one place rebuild everything.
    let forbidden = [
        ("base", "wire"),
        ("net", "wire"),
        ("net", "engine"),
        ("net", "api"),
        ("http2", "base"),
        ("engine", "net"),
        ("engine", "adapters"),
        ("engine", "envoy"),
        ("api", "envoy"),
        ("api", "adapters"),
        ("introspect", "adapters"),
        ("introspect", "server"),
        ("policy", "adapters"),
        ("kube", "engine"),
    ];
    for (from, to) in forbidden {
        assert!(!reachable(&graph, from).contains(to), "`{from}` must not depend on `{to}`");
    }
    let on_adapters: Vec<&String> =
        graph.iter().filter(|(_, direct)| direct.contains("adapters")).map(|(name, _)| name).collect();
    assert_eq!(on_adapters, ["server"], "a change in an adapter compiles it, the server and the binary");
}

/// All source files below a folder.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut pending = vec![folder.to_path_buf()];
    let mut files = Vec::new();
    while let Some(folder) = pending.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                pending.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                files.push(path);
            }
        }
    }
    files
}

/// The code of a file without comments and unit tests.
fn code(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap();
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// The first names of the path that begins here, or of all paths in its braces: `a` and `d` of `{a::{b, c}, d}`.
fn first_names(path: &str) -> Vec<&str> {
    let name = |text: &'_ str| -> usize {
        text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len())
    };
    let Some(group) = path.strip_prefix('{') else { return vec![&path[..name(path)]] };
    let mut starts = vec![0];
    let mut depth = 0;
    for (at, c) in group.char_indices() {
        match c {
            '}' if depth == 0 => break,
            ',' if depth == 0 => starts.push(at + 1),
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
    }
    let paths = starts.into_iter().map(|start| group[start..].trim_start());
    paths.map(|path| &path[..name(path)]).collect()
}

/// The module of every name that a root module re-exports.
fn reexports(root: &Path) -> BTreeMap<String, String> {
    let reexport = Regex::new(r"\buse (?:self::|crate::)?([a-z_0-9]+)::([^;]*);").unwrap();
    let name = Regex::new(r"[A-Za-z_0-9]+").unwrap();
    let code = code(root);
    let found = reexport.captures_iter(&code);
    found
        .flat_map(|c| {
            name.find_iter(c.get(2).unwrap().as_str()).map(move |n| (n.as_str().to_owned(), c[1].to_owned()))
        })
        .collect()
}

/// Which of the modules in `folder` import which others: by paths from the module `root` (`crate::`, `crate::cmd::`), by `super::`
/// that reaches it, and by names that its file re-exports.
fn modules(root: &str, file: &Path, folder: &Path) -> Graph {
    let reexports = reexports(file);
    let mut graph = Graph::new();
    for file in sources(folder) {
        let relative = file.strip_prefix(folder).unwrap().with_extension("");
        let top = relative.components().next().unwrap().as_os_str().to_string_lossy().into_owned();
        if relative.components().any(|part| part.as_os_str() == "tests")
            || ["lib", "main"].contains(&top.as_str())
        {
            continue;
        }
        let depth = relative.components().count();
        let to_root = Regex::new(&format!(r"\b(?:{root}|(?:super::){{{depth}}})")).unwrap();
        let code = code(&file);
        let names = to_root.find_iter(&code).flat_map(|path| first_names(&code[path.end()..]));
        let imported = names.map(|name| reexports.get(name).map_or(name, String::as_str));
        let imports = graph.entry(top.clone()).or_default();
        imports.extend(imported.filter(|name| *name != top).map(str::to_owned));
    }
    let known: BTreeSet<String> = graph.keys().cloned().collect();
    for imports in graph.values_mut() {
        imports.retain(|name| known.contains(name));
    }
    graph
}

/// Files that may start tasks and threads directly, and why.
const SPAWNERS: &[(&str, &str)] = &[
    ("src/core/base/src/task.rs", "supervises them"),
    ("src/core/base/src/task/group.rs", "supervises them"),
    (
        "src/core/config/src/store/parallel.rs",
        "scoped threads, joined before it returns; a panic is that of the caller",
    ),
    (
        "src/core/server/src/start/configuration.rs",
        "the first configuration: the start awaits the task; a panic is that of the start",
    ),
    (
        "src/core/galley-server/src/admission/room.rs",
        "one large review at a time: its caller awaits it, and a panic is its answer",
    ),
    (
        "src/core/galley/src/source/kubernetes.rs",
        "reflectors of a supervised source: a JoinSet that ends with it; a panic ends the source, which starts again",
    ),
    (
        "src/core/stores/src/k8s/follow.rs",
        "reflectors of a supervised task: a JoinSet that ends with it; a panic is that of the task",
    ),
    (
        "src/core/remote/src/credential.rs",
        "a read of one file, which may hang for good: who waits gives up; a panic is a read that failed",
    ),
    (
        "src/core/base/src/looks.rs",
        "looks at files, which may hang for good: who waits gives up; a panic is a look that found nothing",
    ),
    ("src/cmd/call/load.rs", "a client: a JoinSet that ends with the command"),
];

#[test]
fn tasks_and_threads_are_started_by_the_supervision_only() {
    let spawn = Regex::new(r"(tokio|task|thread|Handle|scope|tasks|local|runtime|background\(\))(::|\.)spawn(_local)?\(|Builder::new\(\)\s*\.name\(")
        .unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = BTreeSet::new();
    for file in sources(&root.join("src")) {
        let name = file.strip_prefix(root).unwrap().to_string_lossy().into_owned();
        let is_test = name.ends_with("tests.rs") || name.contains("/tests/") || name.ends_with("model.rs");
        // Programs that measure are no part of the product.
        let is_test = is_test || name.contains("/examples/");
        // Supervised handler tasks: `env.tasks.spawn(Task::…)`.
        let code = code(&file).replace("env.tasks.spawn(Task::", "");
        if !is_test && spawn.is_match(&code) {
            found.insert(name);
        }
    }
    let allowed: BTreeSet<String> = SPAWNERS.iter().map(|(file, _)| (*file).to_owned()).collect();
    assert_eq!(found, allowed, "use mixer_base::task: a bare task or thread fails without anybody noticing");
}

#[test]
fn modules_of_a_crate_import_each_other_in_one_direction() {
    assert_eq!(first_names("{a::{b, c},\n  d, e::f};"), ["a", "d", "e"]);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut graphs = vec![modules("crate::cmd::", &source.join("cmd.rs"), &source.join("cmd"))];
    assert!(graphs[0]["run"].contains("parse"), "imports of src/cmd are found: {:#?}", graphs[0]);
    for entry in std::fs::read_dir(source.join("core")).unwrap() {
        let folder = entry.unwrap().path().join("src");
        graphs.push(modules("crate::", &folder.join("lib.rs"), &folder));
    }
    for graph in &graphs {
        assert_eq!(cyclic(graph), Vec::<&String>::new(), "{graph:#?}");
    }
    let seen: usize = graphs.iter().map(Graph::len).sum();
    assert!(seen > 150, "expected more than 100 modules, found {seen}");
}
