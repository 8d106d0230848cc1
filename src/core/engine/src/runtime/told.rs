//! What callers are told of why nothing serves. Texts of errors may have constants of conditions, such as a key that clients send.

use std::sync::Arc;

use super::withheld::WITHHELD;
use super::{Published, is_about_serving, is_consequence};
use mixer_config::{Diagnostic, Diagnostics, Severity};

impl Published {
    /// The error to mend first: of the files, if they have one.
    pub fn first_error(&self) -> Option<&Diagnostic> {
        first_error(self.all_diagnostics())
    }
}

fn first_error<'d>(diagnostics: impl Iterator<Item = &'d Diagnostic>) -> Option<&'d Diagnostic> {
    let errors = diagnostics.filter(|problem| problem.severity == Severity::Error);
    let place = |problem: &&Diagnostic| {
        let tells_less = is_about_serving(problem.code) || is_consequence(problem.code);
        (tells_less, problem.file.is_none(), problem.file.clone(), problem.span.map(|span| span.start))
    };
    errors.min_by_key(place)
}

/// Code, resource and place of an error, without its text.
pub fn place_of(error: &Diagnostic) -> String {
    let line = error.span.map_or(0, |span| span.start.line);
    let place = match &error.file {
        Some(file) if line > 0 => format!(" in {file}, line {line}"),
        Some(file) => format!(" in {file}"),
        None => String::new(),
    };
    let resource = if error.resource.is_empty() { String::new() } else { format!(" of {}", error.resource) };
    format!("error `{}`{resource}{place}", error.code)
}

/// What callers are told: `why`, unless a text of the configuration may be in it. A file or directory that cannot be read has none.
pub(super) fn told(why: &Arc<str>, diagnostics: &Diagnostics) -> Arc<str> {
    let is_of_text =
        |error: &Diagnostic| !error.resource.is_empty() || error.span.is_some_and(|span| span.start.line > 0);
    // The reason has a diagnostic of its own, at the place of its error. Another error may come first.
    let mut withheld = diagnostics.iter().filter(|problem| problem.code == WITHHELD).peekable();
    let has_text = match withheld.peek() {
        Some(_) => withheld.any(is_of_text),
        None => diagnostics.iter().any(is_of_text),
    };
    match first_error(diagnostics.iter()).filter(|_| has_text) {
        Some(error) => format!("{}; the log of the server has its text", place_of(error)).into(),
        None => Arc::clone(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::withheld::Withheld;
    use mixer_config::FieldPath;

    #[test]
    fn callers_get_the_place_of_an_error_and_no_text() {
        let mut error = Diagnostic::error("match", FieldPath::root(), "cannot parse 'x == \"s3cr3t\" &&'");
        error.resource = "gate.rule.istio-system".to_owned();
        let error = Arc::new(error);
        let withheld = Withheld::by(&error);
        let diagnostics: Diagnostics = [withheld.diagnostic(), (*error).clone()].into_iter().collect();
        let why: Arc<str> = withheld.why.into();
        assert!(why.contains("s3cr3t"));
        let text = "error `match` of gate.rule.istio-system; the log of the server has its text";
        assert_eq!(&*told(&why, &diagnostics), text);
        // What is no text of the configuration is told.
        let unread = Withheld { why: "cannot read conf: no such directory".to_owned(), problem: None };
        let diagnostics: Diagnostics = std::iter::once(unread.diagnostic()).collect();
        assert_eq!(*told(&unread.why.clone().into(), &diagnostics), *unread.why);
        // Not even if that is what comes first.
        let directory = Diagnostic::error("store-unreadable", FieldPath::root(), "no such directory");
        let withheld = Withheld::by(&error);
        let diagnostics: Diagnostics = [directory, withheld.diagnostic()].into_iter().collect();
        let said = told(&withheld.why.into(), &diagnostics);
        assert!(!said.contains("s3cr3t") && said.starts_with("error `store-unreadable`"), "{said}");
    }
}
