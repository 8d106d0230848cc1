//! A bound on the problems of resources that are kept with all their texts.
//!
//! A configuration may have very many problems, and nobody reads more than the first ones. Beyond the bound a resource keeps one problem of
//! each severity, with what decides about the resource, and their number.

use std::cell::Cell;

use super::problems::{OF_DOCUMENTS, OF_REFERENCES, is_consequence};
use mixer_config::{Diagnostic, FieldPath, Severity};

/// Maximum number of errors of resources with all their texts, and of other problems.
const TEXTS: usize = 10_000;

/// Numbers of problems.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct ProblemCounts {
    errors: usize,
    others: usize,
}

impl ProblemCounts {
    /// Of these problems.
    pub(super) fn of<'p>(problems: impl Iterator<Item = &'p Diagnostic>) -> Self {
        let mut counts = Self::default();
        problems.for_each(|problem| *counts.of_severity(problem.severity) += 1);
        counts
    }

    /// The sum of both.
    pub(super) fn with(self, more: Self) -> Self {
        Self { errors: self.errors + more.errors, others: self.others + more.others }
    }

    /// The difference of both.
    pub(super) fn without(self, less: Self) -> Self {
        Self {
            errors: self.errors.saturating_sub(less.errors),
            others: self.others.saturating_sub(less.others),
        }
    }

    fn of_severity(&mut self, severity: Severity) -> &mut usize {
        if severity == Severity::Error { &mut self.errors } else { &mut self.others }
    }
}

thread_local! {
    /// What is left in the build that runs on this thread; `None` outside of one.
    static LEFT: Cell<Option<ProblemCounts>> = const { Cell::new(None) };
}

/// Runs a build, which begins with `known` problems.
pub(super) fn run<T>(known: ProblemCounts, build: impl FnOnce() -> T) -> T {
    /// A build may panic.
    struct Restored(Option<ProblemCounts>);
    impl Drop for Restored {
        fn drop(&mut self) {
            LEFT.set(self.0);
        }
    }
    let left = ProblemCounts { errors: TEXTS, others: TEXTS }.without(known);
    let _restored = Restored(LEFT.replace(Some(left)));
    build()
}

/// Replaces the problems of a resource for which there is no room by one of each severity, without its text: an error that leaves open
/// what the resource was meant to be, if there is one, or a cause.
pub(super) fn bound(problems: &mut Vec<Diagnostic>) {
    let Some(mut all) = LEFT.get() else { return };
    let has_room = |problem: &Diagnostic| {
        let left = all.of_severity(problem.severity);
        let has_room = *left > 0;
        *left = left.saturating_sub(1);
        has_room
    };
    let (mut kept, further): (Vec<_>, Vec<_>) = std::mem::take(problems).into_iter().partition(has_room);
    LEFT.set(Some(all));
    for severity in [Severity::Error, Severity::Warning, Severity::Info] {
        let of_severity = || further.iter().filter(|problem| problem.severity == severity);
        if let Some(first) = of_severity().min_by_key(|problem| rank(problem.code)) {
            kept.push(abridged(first, of_severity().count()));
        }
    }
    kept.shrink_to_fit();
    *problems = kept;
}

/// Lower, the more the errors with this code decide.
pub(super) fn rank(code: &str) -> u8 {
    match code {
        code if OF_DOCUMENTS.contains(&code) => 0,
        code if OF_REFERENCES.contains(&code) => 1,
        code if is_consequence(code) => 3,
        _ => 2,
    }
}

/// A problem without its texts, which stands for this number of them.
pub(super) fn abridged(problem: &Diagnostic, count: usize) -> Diagnostic {
    let text = "further problems; their texts are not kept";
    let mut abridged = Diagnostic::new(problem.severity, problem.code, FieldPath::root(), text)
        .with_resource(problem.resource.as_str());
    (abridged.file, abridged.span) = (problem.file.clone(), problem.span);
    (abridged.accepted_by_istio, abridged.more) = (problem.accepted_by_istio, count.saturating_sub(1));
    abridged
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(code: &'static str) -> Diagnostic {
        let field = FieldPath::root().field("spec");
        Diagnostic::error(code, field, "a text").with_resource("a.rule.b").with_hint("a hint")
    }

    fn bounded(known: usize, mut problems: Vec<Diagnostic>) -> Vec<Diagnostic> {
        let known = ProblemCounts::of(vec![problem("known"); known].iter());
        run(known, || bound(&mut problems));
        problems
    }

    #[test]
    fn problems_with_room_keep_their_texts() {
        let all = vec![problem("x"); 3];
        let mut outside = all.clone();
        bound(&mut outside);
        assert_eq!(outside, all, "outside of a build");
        assert_eq!(bounded(TEXTS - 3, all.clone()), all);
        let warning = vec![problem("x").with_severity(Severity::Warning)];
        assert_eq!(bounded(TEXTS, warning.clone()), warning, "errors take no room of others");
    }

    #[test]
    fn others_are_one_that_decides_and_their_number() {
        for (codes, kept) in [
            (vec!["rule-empty", "match", "handler-unknown"], "match"),
            (vec!["match", "template-unknown"], "template-unknown"),
            (vec!["match", "template-unknown", "spec-decode"], "spec-decode"),
            (vec!["rule-empty"], "rule-empty"),
        ] {
            let mut all = vec![problem("x")];
            all.extend(codes.iter().map(|code| problem(code)));
            all.push(problem("y").with_severity(Severity::Warning));
            let found = bounded(TEXTS - 1, all);
            let told: Vec<_> = found.iter().map(|p| (p.code, p.count(), p.hint.is_some())).collect();
            assert_eq!(told, [("x", 1, true), ("y", 1, true), (kept, codes.len(), false)]);
            assert_eq!((found[2].severity, &*found[2].resource), (Severity::Error, "a.rule.b"));
        }
    }
}
