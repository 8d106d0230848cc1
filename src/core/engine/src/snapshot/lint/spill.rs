//! Handlers that would keep entries in one directory on disk.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::place::params_path;
use crate::snapshot::{HandlerConfig, Snapshot};
use mixer_config::{Diagnostic, Diagnostics, Positions};

/// The proto name of the parameter.
const DIRECTORY: &str = "spill_directory";

/// Reports handlers with the directory of another one, at the parameter of all but the first by position. A directory has one user: the other
/// handlers would wait for it and keep nothing.
pub(super) fn check(snapshot: &Snapshot, positions: &Positions, out: &mut Diagnostics) {
    // A path has one form: `/a//b/` is `/a/b`.
    let mut users: BTreeMap<PathBuf, Vec<(Diagnostic, &HandlerConfig)>> = BTreeMap::new();
    for handler in &snapshot.handlers {
        let directory = handler.params.shown().and_then(|params| params.member(DIRECTORY)?.text());
        let Some(directory) = directory.filter(|directory| !directory.is_empty()) else { continue };
        let path = params_path(handler).field("spillDirectory");
        let problem = Diagnostic::error("spill-shared", path, directory.clone());
        let placed = positions.place(problem, &handler.key, &handler.origin);
        users.entry(PathBuf::from(directory).components().collect()).or_default().push((placed, handler));
    }
    for mut handlers in users.into_values() {
        handlers.sort_by_key(|(placed, _)| (placed.file.clone(), line_of(placed)));
        let mut handlers = handlers.into_iter();
        let Some((first, owner)) = handlers.next() else { continue };
        let file = first.file.as_deref().unwrap_or_default();
        let place = match line_of(&first) {
            0 => file.to_owned(),
            line => format!("{file}:{line}"),
        };
        for (mut problem, handler) in handlers {
            let directory = std::mem::take(&mut problem.message);
            problem.message = format!(
                "`{}` and `{}` (at {place}) have one directory, `{directory}`: only one of them would keep entries on disk",
                handler.key, owner.key
            );
            let own = directory.trim_end_matches('/');
            out.push(problem.with_hint(format!(
                "give each handler a directory of its own, for example `{own}-{}`",
                handler.key.name
            )));
        }
    }
}

fn line_of(problem: &Diagnostic) -> u32 {
    problem.span.map_or(0, |span| span.start.line)
}
