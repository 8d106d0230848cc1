//! A bound on the problems of resources that are kept with all their texts.
//!
//! A configuration may have very many problems, and nobody reads more than the first ones: in the order of their files and lines, in which
//! they are shown. Beyond the bound a resource keeps one problem of each severity, with what decides about the resource, and their number.
//!
//! Of the kinds of which there may be very many resources, [`TextIndex`] knows those with texts, so that the last ones give theirs up. Those
//! of other kinds share what [`run`] allows a build.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Arc;

use super::problems::{OF_DOCUMENTS, OF_REFERENCES, is_consequence};
use mixer_config::{Diagnostic, FieldPath, Origin, ResourceKey, Severity};

/// Maximum number of errors of resources with all their texts, and of other problems.
const TEXTS: usize = 10_000;

/// The message of a problem that stands for others.
const FURTHER: &str = "further problems; their texts are not kept";

/// What has a bound of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// Errors.
    Errors,
    /// Warnings and infos.
    Others,
}

impl Class {
    /// Both.
    pub(super) const ALL: [Class; 2] = [Class::Errors, Class::Others];

    fn of(severity: Severity) -> Self {
        if severity == Severity::Error { Class::Errors } else { Class::Others }
    }
}

/// Numbers of problems with their texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct TextCounts {
    errors: usize,
    others: usize,
}

impl TextCounts {
    /// The bound.
    pub(super) const MOST: Self = Self { errors: TEXTS, others: TEXTS };

    /// Of these problems.
    pub(super) fn of<'p>(problems: impl Iterator<Item = &'p Diagnostic>) -> Self {
        let mut counts = Self::default();
        problems
            .filter(|problem| has_text(problem))
            .for_each(|problem| *counts.entry(Class::of(problem.severity)) += 1);
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

    /// Those of a class.
    pub(super) fn get(self, class: Class) -> usize {
        match class {
            Class::Errors => self.errors,
            Class::Others => self.others,
        }
    }

    fn entry(&mut self, class: Class) -> &mut usize {
        match class {
            Class::Errors => &mut self.errors,
            Class::Others => &mut self.others,
        }
    }
}

/// Where a resource is shown among others.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    file: Arc<str>,
    line: u32,
    /// The resource.
    pub(super) key: ResourceKey,
}

impl Place {
    /// Of a resource.
    pub(super) fn of(key: &ResourceKey, origin: &Origin) -> Self {
        Self { file: Arc::clone(&origin.file), line: origin.first_line, key: key.clone() }
    }
}

/// The resources of a kind that have problems with their texts, in the order in which they are shown.
#[derive(Debug, Default)]
pub(super) struct TextIndex {
    errors: BTreeSet<Place>,
    others: BTreeSet<Place>,
    counts: TextCounts,
}

impl TextIndex {
    /// The numbers of problems with texts.
    pub(super) fn counts(&self) -> TextCounts {
        self.counts
    }

    /// Adds a resource with these problems.
    pub(super) fn add(&mut self, place: &Place, counts: TextCounts) {
        self.counts = self.counts.with(counts);
        for class in Class::ALL.into_iter().filter(|class| counts.get(*class) > 0) {
            self.of(class).insert(place.clone());
        }
    }

    /// Removes a resource that had these problems.
    pub(super) fn remove(&mut self, place: &Place, counts: TextCounts) {
        self.counts = self.counts.without(counts);
        for class in Class::ALL.into_iter().filter(|class| counts.get(*class) > 0) {
            self.of(class).remove(place);
        }
    }

    /// The last resource with texts.
    pub(super) fn last(&self, class: Class) -> Option<&Place> {
        match class {
            Class::Errors => self.errors.last(),
            Class::Others => self.others.last(),
        }
    }

    fn of(&mut self, class: Class) -> &mut BTreeSet<Place> {
        match class {
            Class::Errors => &mut self.errors,
            Class::Others => &mut self.others,
        }
    }
}

thread_local! {
    /// What is left in the build that runs on this thread; `None` outside of one.
    static LEFT: Cell<Option<TextCounts>> = const { Cell::new(None) };
}

/// Runs a build.
pub(super) fn run<T>(build: impl FnOnce() -> T) -> T {
    run_with(TextCounts::MOST, build)
}

fn run_with<T>(most: TextCounts, build: impl FnOnce() -> T) -> T {
    /// A build may panic.
    struct Restored(Option<TextCounts>);
    impl Drop for Restored {
        fn drop(&mut self) {
            LEFT.set(self.0);
        }
    }
    let _restored = Restored(LEFT.replace(Some(most)));
    build()
}

/// What [`bound`] has left of the bound, for all other resources.
pub(super) fn left() -> TextCounts {
    LEFT.get().unwrap_or(TextCounts::MOST)
}

/// Takes the texts of the problems of a resource for which there is no room.
pub(super) fn bound(problems: &mut Vec<Diagnostic>) {
    let Some(mut all) = LEFT.get() else { return };
    let counts = TextCounts::of(problems.iter());
    for class in Class::ALL {
        let left = all.entry(class);
        abridge(problems, class, counts.get(class).saturating_sub(*left));
        *left = left.saturating_sub(counts.get(class));
    }
    LEFT.set(Some(all));
}

/// Replaces the last `excess` problems of a class of a resource, or all if it has fewer, by one of each severity, without its text: an error
/// that leaves open what the resource was meant to be, if there is one, or a cause. Returns the number of texts that are gone.
pub(super) fn abridge(problems: &mut Vec<Diagnostic>, class: Class, excess: usize) -> usize {
    let is_of_class = |problem: &Diagnostic| Class::of(problem.severity) == class;
    let with_texts = problems.iter().enumerate().filter(|(_, p)| is_of_class(p) && has_text(p));
    let mut places: Vec<_> =
        with_texts.map(|(at, p)| (p.span.map(|span| (span.start.line, span.start.column)), at)).collect();
    let taken = excess.min(places.len());
    if taken == 0 {
        return 0;
    }
    places.sort_unstable();
    let gone: BTreeSet<usize> = places.iter().rev().take(taken).map(|(_, at)| *at).collect();
    let (mut kept, mut further) = (Vec::new(), Vec::new());
    for (at, problem) in std::mem::take(problems).into_iter().enumerate() {
        let is_further = gone.contains(&at) || (is_of_class(&problem) && !has_text(&problem));
        if is_further { further.push(problem) } else { kept.push(problem) }
    }
    for severity in [Severity::Error, Severity::Warning, Severity::Info] {
        let of_severity = || further.iter().filter(|problem| problem.severity == severity);
        if let Some(first) = of_severity().min_by_key(|problem| rank(problem.code)) {
            kept.push(abridged(first, of_severity().map(Diagnostic::count).sum()));
        }
    }
    kept.shrink_to_fit();
    *problems = kept;
    taken
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

fn has_text(problem: &Diagnostic) -> bool {
    problem.message != FURTHER
}

/// A problem without its texts, which stands for this number of them.
pub(super) fn abridged(problem: &Diagnostic, count: usize) -> Diagnostic {
    let mut abridged = Diagnostic::new(problem.severity, problem.code, FieldPath::root(), FURTHER)
        .with_resource(problem.resource.as_str());
    (abridged.file, abridged.span) = (problem.file.clone(), problem.span);
    (abridged.accepted_by_istio, abridged.more) = (problem.accepted_by_istio, count.saturating_sub(1));
    abridged
}

#[cfg(test)]
mod tests {
    use super::*;
    use mixer_config::{Location, Span};

    fn problem(code: &'static str) -> Diagnostic {
        let field = FieldPath::root().field("spec");
        Diagnostic::error(code, field, "a text").with_resource("a.rule.b").with_hint("a hint")
    }

    fn bounded(left: usize, mut problems: Vec<Diagnostic>) -> Vec<Diagnostic> {
        let most = TextCounts { errors: left, others: TEXTS };
        run_with(most, || bound(&mut problems));
        problems
    }

    #[test]
    fn problems_with_room_keep_their_texts() {
        let all = vec![problem("x"); 3];
        let mut outside = all.clone();
        bound(&mut outside);
        assert_eq!(outside, all, "outside of a build");
        assert_eq!(bounded(3, all.clone()), all);
        let warning = vec![problem("x").with_severity(Severity::Warning)];
        assert_eq!(bounded(0, warning.clone()), warning, "errors take no room of others");
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
            let found = bounded(1, all);
            let told: Vec<_> = found.iter().map(|p| (p.code, p.count(), p.hint.is_some())).collect();
            assert_eq!(told, [("x", 1, true), ("y", 1, true), (kept, codes.len(), false)]);
            assert_eq!((found[2].severity, &*found[2].resource), (Severity::Error, "a.rule.b"));
        }
    }

    /// In the order of the file, whatever was found first; what stood for others counts on.
    #[test]
    fn the_last_ones_lose_their_texts() {
        let at = |code, line| {
            let start = Location { line, column: 1 };
            Diagnostic { span: Some(Span { start, end: start }), ..problem(code) }
        };
        let mut problems = vec![at("last", 9), at("first", 1), at("middle", 5)];
        let told = |problems: &[Diagnostic]| -> Vec<_> {
            problems.iter().map(|p| (p.code, p.count(), has_text(p))).collect()
        };
        assert_eq!(abridge(&mut problems, Class::Others, 5), 0);
        assert_eq!(abridge(&mut problems, Class::Errors, 1), 1);
        assert_eq!(told(&problems), [("first", 1, true), ("middle", 1, true), ("last", 1, false)]);
        assert_eq!(abridge(&mut problems, Class::Errors, 1), 1);
        assert_eq!(told(&problems), [("first", 1, true), ("middle", 2, false)]);
        assert_eq!(abridge(&mut problems, Class::Errors, 9), 1);
        assert_eq!(told(&problems), [("first", 3, false)]);
        assert_eq!(abridge(&mut problems, Class::Errors, 9), 0);
    }
}
