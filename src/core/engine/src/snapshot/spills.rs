//! Handlers that would keep entries on disk where another one does.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use super::lint::place::params_path;
use super::model::{HandlerConfig, Snapshot};
use mixer_config::{Diagnostic, Positions};

/// The proto name of the parameter.
const DIRECTORY: &str = "spill_directory";
/// Two handlers have one directory.
const SHARED: &str = "spill-shared";
/// The directory of a handler is below that of another one.
const NESTED: &str = "spill-nested";

/// Whether a handler with this problem is not built by a server.
pub fn is_spill_conflict(code: &str) -> bool {
    [SHARED, NESTED].contains(&code)
}

/// A handler with a directory.
struct User<'h> {
    handler: &'h Arc<HandlerConfig>,
    /// As it is shown.
    written: String,
    /// In one form.
    path: PathBuf,
    /// Without a message, at the parameter.
    problem: Diagnostic,
}

impl<'h> User<'h> {
    fn new(handler: &'h Arc<HandlerConfig>, written: String, positions: &Positions) -> Self {
        let path = in_one_form(&written);
        let field = params_path(handler).field("spillDirectory");
        let problem = Diagnostic::error(SHARED, field, written);
        let mut problem = positions.place(problem, &handler.key, &handler.origin);
        Self { handler, path, written: std::mem::take(&mut problem.message), problem }
    }

    fn line(&self) -> u32 {
        self.problem.span.map_or(0, |span| span.start.line)
    }

    /// The problem of this handler, whose directory is that of another one, or below or above it.
    fn problem_with(mut self, other: &Self) -> Diagnostic {
        let file = other.problem.file.as_deref().unwrap_or_default();
        let place = match other.line() {
            0 => file.to_owned(),
            line => format!("{file}:{line}"),
        };
        let (own, known) = (&self.handler.key, &other.handler.key);
        let (here, there) = (&self.written, &other.written);
        let (code, message, outer) = if self.path == other.path {
            let text = format!(
                "`{own}` and `{known}` (at {place}) have one directory, `{here}`: only one of them would keep entries on disk"
            );
            (SHARED, text, here)
        } else {
            let text = format!(
                "`{own}` and `{known}` (at {place}) have directories of which one is in the other, `{here}` and `{there}`: a \
                 directory has the files of one handler"
            );
            (NESTED, text, if self.path.starts_with(&other.path) { there } else { here })
        };
        // What is suggested is beside both.
        let hint = format!(
            "give each handler a directory of its own, for example `{}-{}`",
            outer.trim_end_matches('/'),
            own.name
        );
        (self.problem.code, self.problem.message) = (code, message);
        self.problem.with_hint(hint)
    }
}

/// The directory of a handler, if it has one.
fn directory_of(handler: &HandlerConfig) -> Option<String> {
    let written = handler.params.shown().and_then(|params| params.member(DIRECTORY)?.text())?;
    (!written.is_empty()).then_some(written)
}

/// The directories in which handlers in use keep entries.
pub fn spill_directories(snapshot: &Snapshot) -> BTreeSet<PathBuf> {
    let handlers = snapshot.bindings.values().map(|binding| &binding.handler);
    handlers.filter_map(|handler| directory_of(handler).map(PathBuf::from)).collect()
}

/// The handlers with the directory of another one, or with one below or above it, each with its problem, at the parameter of all but the first
/// one: of those that are `preferred`, and then by position. A directory has one user: the other handlers would wait for it and keep nothing.
pub(crate) fn conflicts<'h>(
    handlers: impl Iterator<Item = &'h Arc<HandlerConfig>>,
    preferred: impl Fn(&HandlerConfig) -> bool,
    positions: &Positions,
) -> Vec<(&'h Arc<HandlerConfig>, Diagnostic)> {
    let with_directory: Vec<_> =
        handlers.filter_map(|handler| Some((handler, directory_of(handler)?))).collect();
    let mut paths: Vec<PathBuf> = with_directory.iter().map(|(_, written)| in_one_form(written)).collect();
    paths.sort_unstable();
    // What is below a path follows it. Mostly nothing is, and no position is looked for.
    if !paths.iter().zip(paths.iter().skip(1)).any(|(path, next)| next.starts_with(path)) {
        return Vec::new();
    }
    let mut users: Vec<User<'h>> =
        with_directory.into_iter().map(|(handler, written)| User::new(handler, written, positions)).collect();
    users.sort_by_cached_key(|user| {
        let place = (user.problem.file.clone(), user.line());
        (!preferred(user.handler), place, user.handler.key.clone())
    });
    let mut conflicts = Vec::new();
    let mut known: BTreeMap<PathBuf, User<'h>> = BTreeMap::new();
    for user in users {
        match nearest(&known, &user.path) {
            Some(other) => conflicts.push((user.handler, user.problem_with(other))),
            None => drop(known.insert(user.path.clone(), user)),
        }
    }
    conflicts
}

/// The user of a directory, of one above it, or of the first one below it.
fn nearest<'u, 'h>(known: &'u BTreeMap<PathBuf, User<'h>>, path: &Path) -> Option<&'u User<'h>> {
    let above = path.ancestors().find_map(|above| known.get(above));
    above.or_else(|| {
        let (below, user) = known.range::<Path, _>((Bound::Excluded(path), Bound::Unbounded)).next()?;
        below.starts_with(path).then_some(user)
    })
}

/// A path as it is compared: `/a/./b//` and `/a/c/../b` are `/a/b`. Links are not followed: a configuration is also examined elsewhere.
fn in_one_form(written: &str) -> PathBuf {
    let mut path = PathBuf::new();
    for component in Path::new(written).components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir if matches!(path.components().next_back(), Some(Component::Normal(_))) => {
                path.pop();
            }
            // There is nothing above the root.
            Component::ParentDir if path.has_root() => {}
            other => path.push(other),
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_one_form() {
        for (written, expected) in [
            ("/a/b", "/a/b"),
            ("/a//b/", "/a/b"),
            ("/a/./b/.", "/a/b"),
            ("/a/c/../b", "/a/b"),
            ("/../a", "/a"),
            ("a/b", "a/b"),
            ("./a/../b", "b"),
            ("../a", "../a"),
            ("../../a", "../../a"),
            ("a/../../b", "../b"),
        ] {
            assert_eq!(in_one_form(written), Path::new(expected), "{written}");
        }
    }
}
