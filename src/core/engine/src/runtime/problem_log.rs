//! The log of problems: each is logged once, as long as it lasts.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::snapshot::KIND_UNKNOWN;
use mixer_config::{Diagnostic, Severity};

/// A problem, wherever it is in its file: an edit above moves it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Problem {
    file: Option<Arc<str>>,
    resource: String,
    code: &'static str,
    severity: Severity,
    text: String,
    hint: Option<String>,
    accepted_by_istio: bool,
}

impl Problem {
    fn of(diagnostic: &Diagnostic) -> Self {
        let Diagnostic { file, resource, code, severity, hint, accepted_by_istio, .. } = diagnostic;
        let text = diagnostic.legacy.as_deref().unwrap_or(&diagnostic.message).to_owned();
        let (file, resource, hint) = (file.clone(), resource.clone(), hint.clone());
        let (severity, accepted_by_istio) = (*severity, *accepted_by_istio);
        Self { file, resource, code, severity, text, hint, accepted_by_istio }
    }

    /// Other components store resources of other kinds in the same directory. `hides_accepted`: so is what Istio Mixer accepts.
    fn is_minor(&self, hides_accepted: bool) -> bool {
        let is_of_others = self.code == KIND_UNKNOWN && self.severity != Severity::Error;
        is_of_others || (hides_accepted && self.accepted_by_istio)
    }

    /// Logs that it is there. `line`: from 1, if it has one.
    fn log(&self, line: Option<u32>, is_minor: bool) {
        let Self { code, text, .. } = self;
        let resource = Some(&*self.resource).filter(|name| !name.is_empty());
        let (file, hint) = (self.file.as_deref(), self.hint.as_deref());
        match self.severity {
            _ if is_minor => tracing::debug!(code, resource, file, line, hint, "{text}"),
            Severity::Error => tracing::error!(code, resource, file, line, hint, "{text}"),
            Severity::Warning => tracing::warn!(code, resource, file, line, hint, "{text}"),
            Severity::Info => tracing::info!(code, resource, file, line, hint, "{text}"),
        }
    }

    /// Logs that it has gone.
    fn log_gone(&self, is_minor: bool) {
        let Self { code, text, .. } = self;
        let resource = Some(&*self.resource).filter(|name| !name.is_empty());
        let file = self.file.as_deref();
        match is_minor {
            true => tracing::debug!(code, resource, file, "no longer a problem: {text}"),
            false => tracing::info!(code, resource, file, "no longer a problem: {text}"),
        }
    }
}

/// The problems that are logged and not gone, with their numbers.
#[derive(Debug, Default)]
pub(super) struct ProblemLog {
    known: BTreeMap<Problem, usize>,
    hides_accepted_by_istio: bool,
}

/// What changed.
#[derive(Debug, Default)]
struct News {
    /// With the line, from 1, if it has one.
    new: Vec<(Problem, Option<u32>)>,
    gone: Vec<Problem>,
}

impl ProblemLog {
    /// Nothing is logged yet. `hides_accepted_by_istio`: as [`ConfigPolicy`](super::ConfigPolicy).
    pub(super) fn new(hides_accepted_by_istio: bool) -> Self {
        Self { known: BTreeMap::new(), hides_accepted_by_istio }
    }

    /// Logs what is new or gone. A problem whose text changed is both.
    pub(super) fn update(&mut self, diagnostics: &[Diagnostic]) {
        let News { new, gone } = self.note(diagnostics);
        let is_minor = |problem: &Problem| problem.is_minor(self.hides_accepted_by_istio);
        new.iter().for_each(|(problem, line)| problem.log(*line, is_minor(problem)));
        gone.iter().for_each(|problem| problem.log_gone(is_minor(problem)));
    }

    fn note(&mut self, diagnostics: &[Diagnostic]) -> News {
        let mut news = News::default();
        let mut found: BTreeMap<Problem, usize> = BTreeMap::new();
        for diagnostic in diagnostics {
            let problem = Problem::of(diagnostic);
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
        let of = |severity, code, accepted_by_istio| Problem {
            code,
            severity,
            accepted_by_istio,
            ..Problem::of(&problem("a", 3))
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

    #[test]
    fn only_what_is_new_or_gone_is_logged() {
        let mut log = ProblemLog::default();
        let mut change = |problems: &[Diagnostic]| {
            let News { new, gone } = log.note(problems);
            let new: Vec<String> = new.iter().map(|(p, line)| format!("{} {line:?}", p.text)).collect();
            (new, gone.into_iter().map(|problem| problem.text).collect::<Vec<_>>())
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
