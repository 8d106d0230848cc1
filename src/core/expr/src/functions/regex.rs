//! Regular expressions with the syntax and semantics of RE2: a byte that is not valid UTF-8 is one character, U+FFFD.

mod facts;
mod guard;
mod set;
mod shared;
mod size;
mod translate;

use std::cell::RefCell;
use std::sync::Arc;

use bumpalo::Bump;
use bumpalo::collections::String as ArenaString;
use regex_syntax::hir::{Class, Hir, HirKind};
use rustc_hash::FxHashMap;

use super::super::EvalError;
use shared::{CONFIGURED, Compiled};
use size::Refused;

pub use facts::RegexFacts;
pub use guard::TooCostly;
pub use set::RegexSet;
pub use shared::Pattern;
pub use size::MAX_OF_CONFIGURATION;

/// Maximum number of patterns computed at run time in the cache of a thread.
const MAX_CACHED: usize = 64;
/// Maximum size of a compiled pattern computed at run time, in bytes.
const MAX_CACHED_PATTERN: usize = 256 << 10;
/// Maximum size of the compiled patterns in the cache of a thread, in bytes.
const MAX_CACHED_BYTES: usize = 2 << 20;
/// Maximum size of the lazy automaton of a pattern computed at run time, in bytes.
const MAX_CACHED_AUTOMATON: usize = 128 << 10;

/// A compiled pattern. Searching is unanchored.
#[derive(Debug, Clone)]
pub struct Regex {
    inner: regex::Regex,
    /// Its share of the budget for configured patterns, held for all that have the same.
    shared: Option<Arc<Compiled>>,
}

/// Why a pattern does not compile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PatternError {
    /// RE2 rejects it.
    Invalid(String),
    /// It exceeds a bound, which RE2 does not have.
    TooLarge(String),
    /// It exceeds what is left of the budget: it may compile later.
    OverBudget(String),
}

impl PatternError {
    fn text(&self) -> &str {
        match self {
            PatternError::Invalid(text) | PatternError::TooLarge(text) | PatternError::OverBudget(text) => {
                text
            }
        }
    }
}

impl Regex {
    /// Compiles a pattern of the configuration. All of them share a budget of 512 MiB, for the configuration that serves and
    /// the next one, in which the same pattern counts once.
    ///
    /// Errors: `error parsing regexp: <detail>: ` and the invalid part in backquotes, as RE2; the pattern, or all patterns together,
    /// are too large.
    pub fn compile(pattern: &[u8]) -> Result<Regex, String> {
        Self::configured(pattern).map_err(|error| error.text().to_owned())
    }

    /// As [`compile`](Self::compile), and tells the kinds of errors apart.
    pub(crate) fn configured(pattern: &[u8]) -> Result<Regex, PatternError> {
        let translated = translated(pattern)?;
        let shared = CONFIGURED.compile(&translated).map_err(|why| refused(why, pattern))?;
        Ok(Regex { inner: shared.regex.clone(), shared: Some(shared) })
    }

    /// The pattern, if it is one of the configuration.
    pub(crate) fn pattern(&self) -> Option<Pattern> {
        self.shared.clone().map(Pattern)
    }

    /// Compiles a pattern computed at run time; also returns its size in bytes.
    fn computed(pattern: &[u8]) -> Result<(Regex, usize), PatternError> {
        let translated = translated(pattern)?;
        let (inner, bytes) =
            size::compile_within(&translated, MAX_CACHED_PATTERN, Some(MAX_CACHED_AUTOMATON))
                .map_err(|why| refused(why, pattern))?;
        Ok((Regex { inner, shared: None }, bytes))
    }

    /// Whether it matches up to the end of a text only, where it names neither any text nor a question mark.
    pub fn fixes_the_end(&self) -> bool {
        // Translated patterns have characters that stand for themselves as `\x{…}`.
        let pattern = self.inner.as_str().trim_end_matches(')');
        let before = pattern.strip_suffix('$').or_else(|| pattern.strip_suffix("\\z"));
        let before = before.map(|before| before.trim_end_matches(')'));
        before.is_some_and(|before| !before.contains("\\x{3f}"))
            && !regex_syntax::parse(self.inner.as_str()).is_ok_and(|pattern| ends_with_any_text(&pattern))
    }

    /// What is known of the pattern without a text.
    pub fn facts(&self) -> RegexFacts {
        facts::of(self.inner.as_str())
    }

    /// The text with which every match begins, at the start of the subject; empty if there is none, or it is unknown.
    pub fn leading_text(&self) -> String {
        let pattern = self.inner.as_str();
        let is_optional = || [")?", ")*", "){"].iter().any(|end| pattern.contains(end));
        let mut rest = pattern.trim_start_matches("(?:").strip_prefix('^').unwrap_or_default();
        // Other alternatives may begin otherwise. The character itself is translated.
        if pattern.contains('|') || (pattern.contains("(?:") && is_optional()) {
            return String::new();
        }
        while let Some(inner) = rest.strip_prefix("(?:").or_else(|| rest.strip_prefix('^')) {
            rest = inner;
        }
        let mut text = String::new();
        while let Some((character, behind)) = first_literal(rest) {
            rest = behind;
            text.push(character);
        }
        if rest.starts_with(['?', '*', '{']) {
            text.pop();
        }
        text
    }

    /// Whether the pattern matches somewhere in `subject`. Allocates only for a subject that is not UTF-8.
    pub fn is_match(&self, subject: &[u8]) -> bool {
        match std::str::from_utf8(subject) {
            Ok(text) => self.inner.is_match(text),
            Err(_) => self.inner.is_match(&replaced(subject, &Bump::new())),
        }
    }
}

/// The character that a translated pattern begins with, if it stands for itself, and what is behind it.
fn first_literal(pattern: &str) -> Option<(char, &str)> {
    if let Some(escaped) = pattern.strip_prefix("\\x{") {
        let (code, behind) = escaped.split_once('}')?;
        return Some((char::from_u32(u32::from_str_radix(code, 16).ok()?)?, behind));
    }
    let first = pattern.chars().next().filter(|c| c.is_ascii_alphanumeric() || !c.is_ascii())?;
    Some((first, pattern.get(first.len_utf8()..)?))
}

fn rejected(detail: &str, part: &str) -> String {
    format!("error parsing regexp: {detail}: `{part}`")
}

/// The pattern in the syntax of the crate `regex`.
fn translated(pattern: &[u8]) -> Result<String, PatternError> {
    let Ok(pattern) = std::str::from_utf8(pattern) else {
        return Err(PatternError::Invalid(rejected("invalid UTF-8", &String::from_utf8_lossy(pattern))));
    };
    if pattern.len() > size::MAX_TEXT {
        let text = format!(
            "error parsing regexp: expression has {} bytes, more than {}",
            pattern.len(),
            size::MAX_TEXT
        );
        return Err(PatternError::TooLarge(text));
    }
    translate::translate(pattern)
        .map_err(|problem| PatternError::Invalid(rejected(problem.detail, problem.part)))
}

fn refused(why: Refused, pattern: &[u8]) -> PatternError {
    let pattern = String::from_utf8_lossy(pattern);
    match why {
        Refused::Syntax => PatternError::Invalid(rejected("invalid or unsupported syntax", &pattern)),
        Refused::TooLarge => PatternError::TooLarge(rejected("expression is too large", &pattern)),
        Refused::Budget => PatternError::OverBudget(rejected(TOO_LARGE_TOGETHER, &pattern)),
    }
}

/// Why the patterns of an expression do not fit beside the others of its configuration.
pub const TOO_LARGE_TOGETHER: &str = "the patterns of the configuration are too large together";

/// The text with U+FFFD for every byte that is not valid UTF-8.
fn replaced<'a>(subject: &[u8], arena: &'a Bump) -> ArenaString<'a> {
    let mut text = ArenaString::with_capacity_in(subject.len() * 3, arena);
    for chunk in subject.utf8_chunks() {
        text.push_str(chunk.valid());
        for _ in chunk.invalid() {
            text.push(char::REPLACEMENT_CHARACTER);
        }
    }
    text
}

/// Patterns computed at run time.
#[derive(Default)]
struct Computed {
    /// Compiled patterns, or their errors, by source.
    patterns: FxHashMap<Box<[u8]>, Result<Regex, PatternError>>,
    /// Size of the compiled patterns.
    bytes: usize,
}

thread_local! {
    static CACHE: RefCell<Computed> = RefCell::default();
}

/// Searches with a pattern computed at run time. Each thread caches compiled patterns, at most 2 MiB.
pub(crate) fn matches<'a>(pattern: &[u8], subject: &[u8], arena: &'a Bump) -> Result<bool, EvalError<'a>> {
    let found = with_computed(pattern, |compiled| match compiled {
        Ok(regex) => Ok(regex.is_match(subject)),
        Err(error) => Err(EvalError::Failed(arena.alloc_str(error.text()))),
    });
    found.unwrap_or(Ok(false))
}

/// Why a pattern that is computed at run time does not compile, if it does not.
pub(crate) fn computed_error(pattern: &[u8]) -> Option<PatternError> {
    with_computed(pattern, |compiled| compiled.as_ref().err().cloned()).flatten()
}

/// Looks at a pattern in the cache of the thread, in which it is put. `None`: it is not there.
fn with_computed<R>(pattern: &[u8], look: impl FnOnce(&Result<Regex, PatternError>) -> R) -> Option<R> {
    CACHE.with_borrow_mut(|cache| {
        if !cache.patterns.contains_key(pattern) {
            let (compiled, bytes) = match Regex::computed(pattern) {
                Ok((regex, bytes)) => (Ok(regex), bytes),
                Err(error) => (Err(error), 0),
            };
            let bytes = bytes + 2 * pattern.len();
            if cache.patterns.len() >= MAX_CACHED || cache.bytes + bytes > MAX_CACHED_BYTES {
                *cache = Computed::default();
            }
            cache.bytes += bytes;
            cache.patterns.insert(pattern.into(), compiled);
        }
        cache.patterns.get(pattern).map(look)
    })
}

/// Whether a pattern ends with any number of characters, among which may be a question mark.
fn ends_with_any_text(pattern: &Hir) -> bool {
    match pattern.kind() {
        HirKind::Capture(capture) => ends_with_any_text(&capture.sub),
        HirKind::Concat(parts) => {
            let is_text = |part: &&Hir| !matches!(part.kind(), HirKind::Look(_) | HirKind::Empty);
            parts.iter().rfind(is_text).is_some_and(ends_with_any_text)
        }
        HirKind::Alternation(choices) => choices.iter().any(ends_with_any_text),
        HirKind::Repetition(repetition) => repetition.max.is_none() && takes_question_mark(&repetition.sub),
        HirKind::Empty | HirKind::Literal(_) | HirKind::Class(_) | HirKind::Look(_) => false,
    }
}

fn takes_question_mark(pattern: &Hir) -> bool {
    match pattern.kind() {
        HirKind::Capture(capture) => takes_question_mark(&capture.sub),
        HirKind::Alternation(choices) => choices.iter().any(takes_question_mark),
        HirKind::Class(Class::Unicode(class)) => {
            class.iter().any(|range| (range.start()..=range.end()).contains(&'?'))
        }
        HirKind::Class(Class::Bytes(class)) => {
            class.iter().any(|range| (range.start()..=range.end()).contains(&b'?'))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_have_the_semantics_of_re2() {
        for (pattern, subject, expected) in [
            (r"\d", "5", true),
            (r"\d", "٣", false),
            (r"^\w+$", "é", false),
            (r"\s", "\u{b}", false),
            (r"\bé", "é", false),
            (r"^.$", "😀", true),
            (r"[[]", "[", true),
            (r"[a&&b]", "&", true),
            (r"[+--]", ",", true),
            (r"[\]-a]", "^", true),
            (r"[]a]+", "]a", true),
            (r"[^]a]", "]", false),
            (r"[[:alpha:][:^digit:]x-]", "-", true),
            (r"[\d\-x]", "-", true),
            (r"[^\D]", "7", true),
            (r"\pL", "é", true),
            (r"\p{Greek}", "λ", true),
            (r"\p{Thai}", "ก", true),
            (r"\p{SignWriting}", "a", false),
            ("(?P<n>a)(?P<n>b)", "ab", true),
            (r"\P{Greek}", "λ", false),
            (r"\p{^Greek}", "a", true),
            (r"^\p{Lu}[\PN]$", "Éx", true),
            (r"\Qa.b\E+", "a.bbb", true),
            (r"\Qa.b", "a.b", true),
            (r"x{,2}", "x{,2}", true),
            (r"x{", "x{", true),
            (r"^a{2}$", "aa", true),
            (r"a{0}b", "b", true),
            (r"\x{263a}\x41\101\07", "☺AA\u{7}", true),
            (r"\<a\>", "<a>", true),
            (r"(?i)straSSE", "STRASSE", true),
            (r"(?P<n>a)(?U:b+)", "ab", true),
            (r"(?-s).", "\n", false),
            (r"(?imi)A", "a", true),
            (r"(?i-i:A)", "a", false),
            (r"(?s).", "\n", true),
            (r"a$", "a\n", false),
            (r"\Aa\z", "a", true),
            (r"a||b", "", true),
            ("", "", true),
            (r"^*", "", true),
            (r"\_\-\/", "_-/", true),
        ] {
            let regex = Regex::compile(pattern.as_bytes()).unwrap_or_else(|e| panic!("{pattern}: {e}"));
            assert_eq!(regex.is_match(subject.as_bytes()), expected, "{pattern} on {subject:?}");
        }
        let dot = Regex::compile(b"^..$").unwrap();
        assert!(dot.is_match(b"\xff\xfe") && !dot.is_match(b"\xc3\xa9"));
    }

    #[test]
    fn patterns_that_re2_rejects_have_its_error_text() {
        for (pattern, detail) in [
            ("a**", "invalid nested repetition operator: `**`"),
            ("a+?+", "invalid nested repetition operator: `+?+`"),
            ("a{2}{3}", "invalid nested repetition operator: `{2}{3}`"),
            ("*a", "missing argument to repetition operator: `*`"),
            ("a|*", "missing argument to repetition operator: `*`"),
            ("a(", "missing closing ): `a(`"),
            ("a)", "unexpected ): `a)`"),
            ("[a", "missing closing ]: `[a`"),
            ("[z-a]", "invalid character class range: `z-a`"),
            ("[a--z]", "invalid character class range: `a--`"),
            ("[[:foo:]]", "invalid character class range: `[:foo:]`"),
            (r"\p{Foo}", r"invalid character class range: `\p{Foo}`"),
            (r"\1", r"invalid escape sequence: `\1`"),
            (r"\C", r"invalid escape sequence: `\C`"),
            (r"\Z", r"invalid escape sequence: `\Z`"),
            (r"[\b]", r"invalid escape sequence: `\b`"),
            ("a\\", "trailing backslash at end of expression: ``"),
            ("(?z)", "invalid or unsupported Perl syntax: `(?z`"),
            ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
            ("(?<n>a)", "invalid or unsupported Perl syntax: `(?<`"),
            ("(?P<>a)", "invalid named capture: `(?P<>`"),
            (r"\p{Grek}", r"invalid character class range: `\p{Grek}`"),
            ("a{2,1}", "invalid repeat count: `{2,1}`"),
            ("a{1001}", "invalid repeat count: `{1001}`"),
            ("(a{100}){11}", "invalid repeat count: `{11}`"),
        ] {
            let text = Regex::compile(pattern.as_bytes()).map(|_| ()).unwrap_err();
            assert_eq!(text, format!("error parsing regexp: {detail}"), "{pattern}");
        }
        assert!(Regex::compile(b"\xff").is_err());
        assert!(Regex::compile(b"(a{100}){10}").is_ok());
    }

    #[test]
    fn the_cache_of_patterns_is_bounded() {
        let arena = Bump::new();
        for i in 0..200 {
            let pattern = format!("^a{{{}}}$", i % 100);
            let subject = "a".repeat(i % 100);
            assert_eq!(matches(pattern.as_bytes(), subject.as_bytes(), &arena), Ok(true));
        }
        assert!(CACHE.with_borrow(|cache| cache.patterns.len()) <= MAX_CACHED);
        assert!(matches(b"a(", b"a", &arena).is_err());
    }

    #[test]
    fn patterns_that_exceed_a_bound_are_refused() {
        let error = |pattern: &str| Regex::configured(pattern.as_bytes()).map(|_| ());
        assert!(matches!(error(r"(\pL{800})"), Err(PatternError::TooLarge(_))));
        assert!(matches!(error(&"a".repeat(100_000)), Err(PatternError::TooLarge(_))));
        assert_eq!(error(r"^/api/v[0-9]+/\pL{1,20}$"), Ok(()));
        let arena = Bump::new();
        for i in 0..200 {
            // From a request, a pattern may be as large as is usual in configurations, but no larger.
            let pattern = format!(r"\pL{{1,5}}{i}");
            assert_eq!(matches(pattern.as_bytes(), format!("é{i}").as_bytes(), &arena), Ok(true));
            assert!(CACHE.with_borrow(|cache| cache.bytes) <= MAX_CACHED_BYTES);
        }
        assert!(matches(br"\pL{100}", b"a", &arena).is_err());
        let long = "x".repeat(60_000);
        for i in 0..100 {
            let _ = matches(format!("{long}{i}(").as_bytes(), b"", &arena);
            assert!(CACHE.with_borrow(|cache| cache.bytes) <= MAX_CACHED_BYTES);
        }
    }
}
