//! Regular expressions with the syntax and semantics of RE2: a byte that is not valid UTF-8 is one character, U+FFFD.

mod set;
mod translate;

use std::cell::RefCell;

use bumpalo::Bump;
use bumpalo::collections::String as ArenaString;
use rustc_hash::FxHashMap;

use super::super::EvalError;

pub use set::RegexSet;

/// Maximum size of a compiled pattern, in bytes.
const MAX_COMPILED: usize = 32 << 20;

/// Maximum number of patterns computed at run time in the cache of a thread.
const MAX_CACHED: usize = 64;

/// A compiled pattern. Searching is unanchored.
#[derive(Debug, Clone)]
pub struct Regex {
    inner: regex::Regex,
}

impl Regex {
    /// Compiles a pattern.
    ///
    /// Errors: `error parsing regexp: <detail>: ` and the invalid part in backquotes.
    pub fn compile(pattern: &[u8]) -> Result<Regex, String> {
        let rejected = |detail: &str, part: &str| format!("error parsing regexp: {detail}: `{part}`");
        let Ok(pattern) = std::str::from_utf8(pattern) else {
            return Err(rejected("invalid UTF-8", &String::from_utf8_lossy(pattern)));
        };
        let translated =
            translate::translate(pattern).map_err(|problem| rejected(problem.detail, problem.part))?;
        match regex::RegexBuilder::new(&translated).size_limit(MAX_COMPILED).build() {
            Ok(inner) => Ok(Regex { inner }),
            Err(regex::Error::CompiledTooBig(_)) => Err(rejected("expression is too large", pattern)),
            Err(_) => Err(rejected("invalid or unsupported syntax", pattern)),
        }
    }

    /// Whether the pattern matches somewhere in `subject`. Allocates only for a subject that is not UTF-8.
    pub fn is_match(&self, subject: &[u8]) -> bool {
        match std::str::from_utf8(subject) {
            Ok(text) => self.inner.is_match(text),
            Err(_) => self.inner.is_match(&replaced(subject, &Bump::new())),
        }
    }
}

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

/// Compiled patterns, or their errors, by source.
type Patterns = FxHashMap<Box<[u8]>, Result<Regex, String>>;

thread_local! {
    static CACHE: RefCell<Patterns> = RefCell::default();
}

/// Searches with a pattern computed at run time. Each thread caches compiled patterns.
pub(crate) fn matches<'a>(pattern: &[u8], subject: &[u8], arena: &'a Bump) -> Result<bool, EvalError<'a>> {
    CACHE.with_borrow_mut(|cache| {
        if !cache.contains_key(pattern) {
            if cache.len() >= MAX_CACHED {
                cache.clear();
            }
            cache.insert(pattern.into(), Regex::compile(pattern));
        }
        match cache.get(pattern) {
            Some(Ok(regex)) => Ok(regex.is_match(subject)),
            Some(Err(text)) => Err(EvalError::Failed(arena.alloc_str(text))),
            None => Ok(false),
        }
    })
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
        assert!(CACHE.with_borrow(|r| r.len()) <= MAX_CACHED);
        assert!(matches(b"a(", b"a", &arena).is_err());
    }
}
