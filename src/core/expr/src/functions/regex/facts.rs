//! What is known of a pattern without a text.

use regex_syntax::hir::literal::Extractor;
use regex_syntax::hir::{Hir, HirKind, Look};

/// Most texts of a pattern that are named.
const MAX_TEXTS: usize = 32;

/// What is known of a pattern without a text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RegexFacts {
    /// Whether every match begins where the text, or a line of it, begins.
    pub fixes_the_start: bool,
    /// Whether no text matches, because a character is before a `^` or behind a `$`: `/^eve$/`.
    pub never_matches: bool,
    /// The texts that match, if they are few and the pattern matches whole texts only.
    pub texts: Vec<String>,
}

/// The facts of a pattern in the syntax of the crate. Cost: linear in its size.
pub(super) fn of(pattern: &str) -> RegexFacts {
    let Ok(hir) = regex_syntax::parse(pattern) else {
        return RegexFacts { fixes_the_start: true, ..RegexFacts::default() };
    };
    let (prefix, suffix) = (hir.properties().look_set_prefix(), hir.properties().look_set_suffix());
    let fixes_the_start = prefix.contains(Look::Start) || prefix.contains(Look::StartLF);
    let is_whole = prefix.contains(Look::Start) && suffix.contains(Look::End);
    RegexFacts {
        fixes_the_start,
        never_matches: never_matches(&hir),
        texts: if is_whole { texts(&hir) } else { Vec::new() },
    }
}

fn texts(hir: &Hir) -> Vec<String> {
    let mut extractor = Extractor::new();
    extractor.limit_total(MAX_TEXTS);
    let found = extractor.extract(hir);
    let literals = found.literals().filter(|_| found.is_exact()).unwrap_or_default();
    literals.iter().filter_map(|literal| String::from_utf8(literal.as_bytes().to_vec()).ok()).collect()
}

fn never_matches(hir: &Hir) -> bool {
    match hir.kind() {
        HirKind::Empty | HirKind::Literal(_) | HirKind::Class(_) | HirKind::Look(_) => false,
        HirKind::Repetition(repetition) => repetition.min > 0 && never_matches(&repetition.sub),
        HirKind::Capture(capture) => never_matches(&capture.sub),
        HirKind::Alternation(all) => all.iter().all(never_matches),
        HirKind::Concat(parts) => {
            let has_text = |part: &Hir| part.properties().minimum_len().is_some_and(|length| length > 0);
            let begins = |part: &Hir| part.properties().look_set_prefix().contains(Look::Start);
            let ends = |part: &Hir| part.properties().look_set_suffix().contains(Look::End);
            let mut behind_text = parts.iter().skip_while(|part| !has_text(part)).skip(1);
            let mut before_text = parts.iter().rev().skip_while(|part| !has_text(part)).skip(1);
            parts.iter().any(never_matches) || behind_text.any(begins) || before_text.any(ends)
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::functions::Regex;

    #[test]
    fn facts_of_patterns() {
        for (pattern, fixes_the_start, never, texts) in [
            ("/public", false, false, &[][..]),
            ("^/public", true, false, &[]),
            ("(^a|^b)", true, false, &[]),
            ("(^admin|/admin)", false, false, &[]),
            ("(?i)^eve", true, false, &[]),
            ("\\Aeve", true, false, &[]),
            ("/^eve$/", false, true, &[]),
            ("/^eve", false, true, &[]),
            ("^eve$/", true, true, &[]),
            ("^eve$", true, false, &["eve"]),
            ("^(get|post)$", true, false, &["get", "post"]),
            ("^(?:put|post)$", true, false, &["put", "post"]),
            ("^get.*$", true, false, &[]),
            ("x*^a$", false, false, &[]),
        ] {
            let facts = Regex::compile(pattern.as_bytes()).unwrap().facts();
            assert_eq!(facts.fixes_the_start, fixes_the_start, "{pattern}");
            assert_eq!(facts.never_matches, never, "{pattern}");
            assert_eq!(facts.texts, texts, "{pattern}");
        }
    }
}
