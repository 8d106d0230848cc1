//! The errors of a build, by resource, with their causes.

use std::collections::BTreeMap;
use std::sync::Arc;

use foldhash::HashSet;

use super::corrections::Corrections;
use super::kept::Reason;
pub use crate::snapshot::is_consequence;
use crate::snapshot::{BuildStage, OF_DOCUMENTS, OF_REFERENCES, Snapshot, SnapshotBuilder};
use mixer_config::{Diagnostic, RawResource, ResourceKey, Severity};

/// The error of a resource of which there are two versions: one of them may have been meant as another resource.
pub(super) const DUPLICATE: &str = "resource-duplicate";

/// An error of a resource that is built.
#[derive(Debug, Clone)]
pub(super) struct Fault {
    pub(super) stage: BuildStage,
    /// Why the resource does not serve as written, with the error, or that of which it is a consequence.
    pub(super) reason: Reason,
}

/// The errors of a build by resource; of several the first that is a cause. `faulty`: the resources with errors of their own. Other
/// errors are consequences of corrections.
pub(super) fn faults(
    snapshot: &Snapshot,
    corrections: &Corrections<'_>,
    faulty: &HashSet<String>,
    builder: &SnapshotBuilder,
) -> BTreeMap<ResourceKey, Fault> {
    let mut errors: BTreeMap<ResourceKey, (bool, &Diagnostic)> = BTreeMap::new();
    for problem in snapshot.diagnostics.iter().filter(|problem| problem.severity == Severity::Error) {
        let is_cause = !is_consequence(problem.code);
        for key in corrections.keys_of(&problem.resource, builder) {
            let is_known = errors.get(&key).is_some_and(|(known_cause, _)| *known_cause || !is_cause);
            if !is_known && corrections.is_built(&key) {
                errors.insert(key, (is_cause, problem));
            }
        }
    }
    let errors = errors.into_iter().map(|(key, (_, problem))| {
        let is_own = faulty.contains(&problem.resource);
        let reason = match corrections.culprit(&key, builder).filter(|_| !is_own) {
            None => its_own(problem),
            Some((needed, replacement)) => consequence(problem, needed, &replacement.reason),
        };
        let stage = builder.stage_of(&key.kind);
        (key, Fault { stage, reason })
    });
    errors.collect()
}

/// The error that leaves open what a resource was meant to be: a rule has it, if its kind becomes that of a handler by mistake. Errors
/// in the parameters of a handler that names its adapter do not, nor do expressions.
pub(super) fn ambiguity<'p>(
    resource: &RawResource,
    mut problems: impl Iterator<Item = &'p Diagnostic>,
) -> Option<&'p Diagnostic> {
    let name = resource.key.to_string();
    problems.find(|problem| {
        problem.severity == Severity::Error && problem.resource == name && is_ambiguous(resource, problem)
    })
}

fn is_ambiguous(resource: &RawResource, problem: &Diagnostic) -> bool {
    let field = problem.field.to_string();
    if OF_REFERENCES.contains(&problem.code) {
        let document = resource.document();
        let named = ["adapter", "compiledAdapter", "template", "compiledTemplate"];
        return !document
            .member("spec")
            .is_some_and(|spec| named.iter().any(|name| spec.get(name).is_some()));
    }
    problem.code == DUPLICATE || OF_DOCUMENTS.contains(&problem.code) && !field.starts_with("spec.params")
}

/// Because of an error of its new version.
pub(super) fn its_own(problem: &Diagnostic) -> Reason {
    let why = format!("its new version has an error: {}", problem.one_line());
    Reason::new(why, Some(Arc::new(problem.clone())))
}

fn consequence(problem: &Diagnostic, needed: &ResourceKey, reason: &Reason) -> Reason {
    match &reason.problem {
        Some(cause) => {
            let why = format!("it needs {needed}, which has an error: {}", cause.one_line());
            Reason::new(why, Some(Arc::clone(cause)))
        }
        None => {
            let why = format!("it needs {needed}, which does not serve as written: {}", reason.why);
            Reason::new(why, Some(Arc::new(problem.clone())))
        }
    }
}
