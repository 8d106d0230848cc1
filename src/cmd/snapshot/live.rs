//! What a configuration would change in a running server.

use std::io::Write as _;

use super::diff::{self, Shown};
use crate::cmd::exit::Stop;
use crate::cmd::io::Io;
use crate::cmd::output::escaped;
use mixer_config::store::StoreContents;
use mixer_config::{Diagnostic, Severity};
use mixer_engine::runtime::is_about_serving;
use mixer_engine::snapshot::SnapshotDump;

/// The diagnostic of a server that serves nothing.
const WITHHELD: &str = "config-withheld";

/// Shown for a resource whose new version has an error.
const HAS_ERROR: &str = "has an error: the server goes on with its version, or leaves the resource out with \
                         --config-on-error serve-valid, unless the error is a field that it does not know";

/// Shown for a resource that the files do not have, while a part of them cannot be read.
const MAY_BE_UNREAD: &str =
    "is not in what could be read: the server goes on with it, unless --config-on-error is serve-valid";

/// What is wrong with the files that are compared.
pub(crate) struct FileProblems {
    /// The full names of resources with an error.
    broken: Vec<String>,
    /// Whether a file, or a document of one, cannot be read, so that nothing counts as deleted.
    is_incomplete: bool,
}

impl FileProblems {
    /// Those of a configuration with these problems.
    pub(crate) fn of(contents: &StoreContents, diagnostics: &[Diagnostic]) -> Self {
        let errors = diagnostics.iter().filter(|problem| problem.severity == Severity::Error);
        Self {
            broken: errors.map(|problem| problem.resource.clone()).collect(),
            is_incomplete: !contents.unread().is_empty(),
        }
    }
}

/// Prints what is served in its last good version, since when and why, then the differences; returns whether there is anything.
///
/// While the new configuration has errors, what the server keeps stays as it is, so that it is no difference.
pub(super) fn compare(
    address: &str,
    mut before: SnapshotDump,
    mut after: SnapshotDump,
    problems: &FileProblems,
    io: &mut Io,
) -> Result<bool, Stop> {
    for problem in before.errors.iter().filter(|problem| is_about_serving(&problem.code)) {
        let line = format!("{address}: {}[{}]: {}", problem.severity, problem.code, problem.message);
        writeln!(io.out, "{}", escaped(&line))?;
    }
    if before.errors.iter().any(|problem| problem.code == WITHHELD) {
        // Everything differs from nothing.
        let (rules, handlers) = (after.rules.len(), after.handlers.len());
        writeln!(io.out, "{address} serves nothing; these files have {rules} rules and {handlers} handlers")?;
        return Ok(true);
    }
    let kept = std::mem::take(&mut before.kept);
    let FileProblems { broken, is_incomplete } = problems;
    before.mask_secrets();
    after.mask_secrets();
    // The errors of both are those of the same files.
    (before.errors, after.errors) = (Vec::new(), Vec::new());
    let shown = |part: &str, is_gone: bool| match broken.is_empty() {
        true => Shown::Difference,
        false if any_is(&kept, part) => Shown::Nothing,
        false if is_gone && any_is(broken, part) => Shown::Note(HAS_ERROR),
        false if is_gone && *is_incomplete => Shown::Note(MAY_BE_UNREAD),
        false => Shown::Difference,
    };
    let differs = diff::print(&before, &after, &shown, io)?;
    Ok(differs || !kept.is_empty())
}

/// Whether one of the resources, `name.kind.namespace`, is a part of a dump, `section name`.
fn any_is(resources: &[String], part: &str) -> bool {
    let Some((section, name)) = part.split_once(' ') else { return false };
    resources.iter().any(|resource| match section {
        // Handlers are shown without their kind, attributes without their manifest.
        "handlers" => resource == name || resource.replacen(".handler.", ".", 1) == name,
        "attributes" => resource.contains(".attributemanifest."),
        _ => resource == name,
    })
}
