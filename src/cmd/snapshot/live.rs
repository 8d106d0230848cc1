//! What a configuration would change in a running server.

use std::io::Write as _;

use super::diff::{self, Shown};
use super::outlook::{FileProblems, Outlook, is_part_of};
use crate::cmd::exit::Stop;
use crate::cmd::io::Io;
use crate::cmd::output::escaped;
use mixer_engine::runtime::is_about_serving;
use mixer_engine::snapshot::{ErrorDump, SnapshotDump};

/// The diagnostic of a server that serves nothing.
const WITHHELD: &str = "config-withheld";

/// How a running server differs from a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    /// Nothing does.
    Same,
    /// Something would change, or serves in its last good version.
    Differs,
    /// The server says that what serves has an error, such as that nothing does.
    Fails,
}

/// Prints what is served in its last good version, since when and why, then the differences.
///
/// While the new configuration has errors, what the server keeps stays as it is, so that it is no difference.
pub(super) fn compare(
    address: &str,
    mut before: SnapshotDump,
    mut after: SnapshotDump,
    problems: &FileProblems,
    io: &mut Io,
) -> Result<Comparison, Stop> {
    let is_error = |problem: &ErrorDump| is_about_serving(&problem.code) && problem.severity == "error";
    let fails = before.errors.iter().any(is_error);
    for problem in before.errors.iter().filter(|problem| is_about_serving(&problem.code)) {
        let line = format!("{address}: {}[{}]: {}", problem.severity, problem.code, problem.message);
        writeln!(io.out, "{}", escaped(&line))?;
    }
    if before.errors.iter().any(|problem| problem.code == WITHHELD) {
        // Everything differs from nothing.
        let (rules, handlers) = (after.rules.len(), after.handlers.len());
        writeln!(io.out, "{address} serves nothing; these files have {rules} rules and {handlers} handlers")?;
        return Ok(Comparison::Fails);
    }
    let kept = std::mem::take(&mut before.kept);
    // The errors of both are those of the same files.
    (before.errors, after.errors) = (Vec::new(), Vec::new());
    let masked = |dump: &SnapshotDump| {
        let mut masked = dump.clone();
        masked.mask_secrets();
        masked
    };
    let (old, new) = (masked(&before), masked(&after));
    let outlook = Outlook::of(&old, &new, problems);
    let is_kept = |part: &str| kept.iter().any(|resource| is_part_of(resource, part));
    let shown = |part: &str, is_gone: bool| match problems.is_empty() {
        false if is_kept(part) => Shown::Nothing,
        false => outlook.note(part, is_gone).map_or(Shown::Difference, Shown::Note),
        true => Shown::Difference,
    };
    let differs = diff::print(&before, &after, &shown, io)?;
    Ok(match fails {
        true => Comparison::Fails,
        false if differs || !kept.is_empty() => Comparison::Differs,
        false => Comparison::Same,
    })
}
