//! A bound on the problems of resources that are kept with all their texts.
//!
//! A configuration may have very many problems, and nobody reads more than the first ones. Beyond the bound a problem keeps what decides
//! about its resource: severity, code, resource and place.

use std::cell::Cell;

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

/// Takes the texts of those problems for which there is no room.
pub(super) fn bound(problems: &mut Vec<Diagnostic>) {
    let Some(mut all) = LEFT.get() else { return };
    problems.shrink_to_fit();
    for problem in problems {
        let left = all.of_severity(problem.severity);
        match *left {
            0 => abridge(problem),
            _ => *left -= 1,
        }
    }
    LEFT.set(Some(all));
}

fn abridge(problem: &mut Diagnostic) {
    problem.message = "a further problem; its text is not kept".to_owned();
    (problem.legacy, problem.hint, problem.expression) = (None, None, None);
    problem.field = FieldPath::root();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beyond_the_bound_a_problem_keeps_what_decides() {
        let field = || FieldPath::root().field("spec");
        let problem =
            || Diagnostic::error("x", field(), "a text").with_resource("a.rule.b").with_hint("a hint");
        let mut problems = vec![problem(); 3];
        bound(&mut problems);
        assert_eq!(problems, vec![problem(); 3], "outside of a build");
        let known = ProblemCounts::of(vec![problem(); TEXTS - 2].iter());
        run(known, || bound(&mut problems));
        assert_eq!(problems[..2], vec![problem(); 2]);
        let third = &problems[2];
        assert_eq!((third.severity, third.code, &*third.resource), (problem().severity, "x", "a.rule.b"));
        assert_eq!((&third.hint, &*third.message), (&None, "a further problem; its text is not kept"));
        let warning = || problem().with_severity(Severity::Warning);
        let mut warnings = vec![warning()];
        run(ProblemCounts::of(vec![problem(); TEXTS].iter()), || bound(&mut warnings));
        assert_eq!(warnings, [warning()], "errors take no room of others");
    }
}
