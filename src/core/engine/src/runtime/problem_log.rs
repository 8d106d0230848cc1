//! The log of problems: each is logged once, as long as it lasts.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use crate::snapshot::KIND_UNKNOWN;
use mixer_config::{Diagnostic, DiagnosticDetails, Severity};

/// Maximum number of problems of a severity that are logged at a time.
const LOGGED: usize = 1_000;

/// A problem, wherever it is in its file: an edit above moves it.
#[derive(Debug, Clone)]
struct Problem {
    diagnostic: Diagnostic,
    /// Whether it is told in Istio Mixer's words.
    as_istio_mixer: bool,
}

/// What distinguishes a problem from others.
type Distinction<'p> = (Option<&'p str>, &'p str, &'static str, Severity, &'p str, Option<&'p str>, bool);

impl Problem {
    fn of(diagnostic: &Diagnostic, as_istio_mixer: bool) -> Self {
        Self { diagnostic: diagnostic.clone(), as_istio_mixer }
    }

    fn text(&self) -> &str {
        let legacy = self.diagnostic.legacy.as_deref().filter(|_| self.as_istio_mixer);
        legacy.unwrap_or(&self.diagnostic.message)
    }

    fn distinction(&self) -> Distinction<'_> {
        let Diagnostic { file, details, .. } = &self.diagnostic;
        let DiagnosticDetails { resource, code, severity, hint, accepted_by_istio, .. } = &**details;
        (file.as_deref(), resource, *code, *severity, self.text(), hint.as_deref(), *accepted_by_istio)
    }

    /// Other components store resources of other kinds in the same directory. `hides_accepted`: so is what Istio Mixer accepts.
    fn is_minor(&self, hides_accepted: bool) -> bool {
        let is_of_others =
            self.diagnostic.code == KIND_UNKNOWN && self.diagnostic.severity != Severity::Error;
        is_of_others || (hides_accepted && self.diagnostic.accepted_by_istio)
    }

    /// Logs that it is there. `line`: from 1, if it has one.
    fn log(&self, line: Option<u32>, is_minor: bool) {
        let (file, resource, code, severity, text, hint, _) = self.distinction();
        let resource = Some(resource).filter(|name| !name.is_empty());
        match severity {
            _ if is_minor => tracing::debug!(code, resource, file, line, hint, "{text}"),
            Severity::Error => tracing::error!(code, resource, file, line, hint, "{text}"),
            Severity::Warning => tracing::warn!(code, resource, file, line, hint, "{text}"),
            Severity::Info => tracing::info!(code, resource, file, line, hint, "{text}"),
        }
    }

    /// Logs that it has gone.
    fn log_gone(&self, is_minor: bool) {
        let (file, resource, code, _, text, ..) = self.distinction();
        let resource = Some(resource).filter(|name| !name.is_empty());
        match is_minor {
            true => tracing::debug!(code, resource, file, "no longer a problem: {text}"),
            false => tracing::info!(code, resource, file, "no longer a problem: {text}"),
        }
    }
}

impl PartialEq for Problem {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Problem {}

impl PartialOrd for Problem {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Problem {
    fn cmp(&self, other: &Self) -> Ordering {
        self.distinction().cmp(&other.distinction())
    }
}

/// The problems that are logged and not gone, with their numbers.
#[derive(Debug, Default)]
pub(super) struct ProblemLog {
    known: BTreeMap<Problem, usize>,
    as_istio_mixer: bool,
}

/// What changed.
#[derive(Debug, Default)]
struct News {
    /// With the line, from 1, if it has one.
    new: Vec<(Problem, Option<u32>)>,
    gone: Vec<Problem>,
}

impl ProblemLog {
    /// Nothing is logged yet. `as_istio_mixer`: as [`ConfigPolicy`](super::ConfigPolicy).
    pub(super) fn new(as_istio_mixer: bool) -> Self {
        Self { known: BTreeMap::new(), as_istio_mixer }
    }

    /// Logs what is new or gone. A problem whose text changed is both.
    pub(super) fn update(&mut self, diagnostics: &[Diagnostic]) {
        let News { new, gone } = self.note(diagnostics);
        let is_minor = |problem: &Problem| problem.is_minor(self.as_istio_mixer);
        let (new, unlogged) = first_of_each_severity(new, |(problem, _)| problem.diagnostic.severity);
        new.iter().for_each(|(problem, line)| problem.log(*line, is_minor(problem)));
        if unlogged > 0 {
            tracing::warn!(
                unlogged,
                "further problems of the configuration are not logged; ControlZ and `mixer validate` have them all"
            );
        }
        let (gone, unlogged) = first_of_each_severity(gone, |problem| problem.diagnostic.severity);
        gone.iter().for_each(|problem| problem.log_gone(is_minor(problem)));
        if unlogged > 0 {
            tracing::info!(unlogged, "further problems of the configuration are no longer there");
        }
    }

    fn note(&mut self, diagnostics: &[Diagnostic]) -> News {
        let mut news = News::default();
        let mut found: BTreeMap<Problem, usize> = BTreeMap::new();
        for diagnostic in diagnostics {
            let problem = Problem::of(diagnostic, self.as_istio_mixer);
            let count = found.get(&problem).map_or(1, |count| count + 1);
            if count > self.known.get(&problem).copied().unwrap_or(0) {
                let line = diagnostic.span.map(|span| span.start.line).filter(|line| *line > 0);
                news.new.push((problem.clone(), line));
            }
            found.insert(problem, count);
        }
        let before = std::mem::replace(&mut self.known, found);
        news.gone.extend(before.into_keys().filter(|problem| !self.known.contains_key(problem)));
        news
    }
}

/// The first [`LOGGED`] of each severity, and the number of the others.
fn first_of_each_severity<T>(all: Vec<T>, severity: impl Fn(&T) -> Severity) -> (Vec<T>, usize) {
    let (mut counts, before) = (BTreeMap::<Severity, usize>::new(), all.len());
    let is_logged = |problem: &T| {
        let count = counts.entry(severity(problem)).or_default();
        *count += 1;
        *count <= LOGGED
    };
    let logged: Vec<T> = all.into_iter().filter(is_logged).collect();
    let unlogged = before - logged.len();
    (logged, unlogged)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mixer_config::{FieldPath, Span};

    fn problem(text: &str, line: u32) -> Diagnostic {
        let mut problem = Diagnostic::error("handler-unknown", FieldPath::root(), text);
        let mut span = Span::default();
        span.start.line = line;
        problem.span = Some(span);
        problem
    }

    #[test]
    fn kinds_of_others_are_not_worth_a_warning() {
        let of = |severity, code, accepted_by_istio| {
            let mut problem = problem("a", 3);
            (problem.severity, problem.code) = (severity, code);
            problem.accepted_by_istio = accepted_by_istio;
            Problem::of(&problem, false)
        };
        for (code, severity, accepted, hides, is_minor) in [
            (KIND_UNKNOWN, Severity::Warning, true, false, true),
            (KIND_UNKNOWN, Severity::Error, true, false, false),
            (KIND_UNKNOWN, Severity::Error, true, true, true),
            ("document-identity", Severity::Error, false, true, false),
            ("document-identity", Severity::Error, true, true, true),
            ("document-identity", Severity::Error, true, false, false),
        ] {
            let problem = of(severity, code, accepted);
            assert_eq!(problem.is_minor(hides), is_minor, "{code}, {accepted}, {hides}");
        }
    }

    /// What Istio Mixer says repeats whole documents, and speaks of Go.
    #[test]
    fn only_istio_mixers_log_has_its_words() {
        let diagnostic = problem("no namespace", 3).with_legacy("key elements are empty");
        for (as_istio_mixer, text) in [(false, "no namespace"), (true, "key elements are empty")] {
            assert_eq!(Problem::of(&diagnostic, as_istio_mixer).text(), text);
        }
    }

    #[test]
    fn problems_are_logged_at_any_rate() {
        assert!(mixer_base::log::is_unlimited(module_path!().trim_end_matches("::tests")));
    }

    #[test]
    fn of_very_many_problems_the_first_of_each_severity_are_logged() {
        let mut all: Vec<Severity> = vec![Severity::Warning; LOGGED + 7];
        all.push(Severity::Error);
        let (logged, unlogged) = first_of_each_severity(all, |severity| *severity);
        assert_eq!((logged.len(), unlogged), (LOGGED + 1, 7));
        assert_eq!(logged.last(), Some(&Severity::Error), "warnings hide no error");
    }

    #[test]
    fn only_what_is_new_or_gone_is_logged() {
        let mut log = ProblemLog::default();
        let mut change = |problems: &[Diagnostic]| {
            let News { new, gone } = log.note(problems);
            let new: Vec<String> = new.iter().map(|(p, line)| format!("{} {line:?}", p.text())).collect();
            (new, gone.into_iter().map(|problem| problem.text().to_owned()).collect::<Vec<_>>())
        };
        let of = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        assert_eq!(change(&[problem("a", 3), problem("b", 0)]), (of(&["a Some(3)", "b None"]), of(&[])));
        assert_eq!(change(&[problem("a", 9), problem("b", 4)]), (of(&[]), of(&[])), "they moved");
        assert_eq!(change(&[problem("a", 9), problem("a", 12)]), (of(&["a Some(12)"]), of(&["b"])));
        assert_eq!(change(&[problem("a", 9)]), (of(&[]), of(&[])), "one of two is left");
        assert_eq!(change(&[problem("c", 9)]), (of(&["c Some(9)"]), of(&["a"])));
        assert_eq!(change(&[]), (of(&[]), of(&["c"])));
    }
}
