//! Regular expressions with the syntax and semantics of RE2: a byte that is not valid UTF-8 is one character, U+FFFD.

mod cost;
mod facts;
mod guard;
mod set;
mod shared;
mod size;
mod translate;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};

use bumpalo::Bump;
use bumpalo::collections::String as ArenaString;
use foldhash::HashMap;
use regex_syntax::hir::{Class, Hir, HirKind};

use super::super::{Bound, EvalError};
pub use cost::{PatternSize, pattern_cost, pattern_size};
use mixer_attribute::AttributeBag;
use shared::{CONFIGURED, Compiled};
use size::Refused;

pub use facts::RegexFacts;
pub use guard::TooCostly;
use guard::{Guard, Work};
pub use set::RegexSet;
pub use shared::Pattern;
pub use size::MAX_OF_CONFIGURATION;

/// Maximum number of patterns computed at run time in the cache of a thread.
const MAX_CACHED: usize = 512;
/// Bounds of a pattern computed at run time: some milliseconds.
const COMPUTED: PatternLimits = PatternLimits { bytes: 4 << 10, cost: 40, choices: 128 };
/// Likewise of a configured pattern: some tenths of a second.
const CONFIGURED_LIMITS: PatternLimits =
    PatternLimits { bytes: size::MAX_TEXT, cost: MAX_COST, choices: 5000 };
/// What the classes of a configured pattern may cost, and those of patterns that share an automaton.
const MAX_COST: usize = 1000;
/// Maximum size of a compiled pattern computed at run time, in bytes.
const MAX_CACHED_PATTERN: usize = 256 << 10;
/// Maximum size of the compiled patterns in the cache of a thread, in bytes.
const MAX_CACHED_BYTES: usize = 4 << 20;
/// Maximum size of the lazy automaton of a pattern computed at run time, in bytes.
const MAX_CACHED_AUTOMATON: usize = 128 << 10;

/// A compiled pattern. Searching is unanchored.
#[derive(Debug, Clone)]
pub struct Regex {
    inner: regex::Regex,
    /// The size of its automaton.
    bytes: usize,
    /// Its share of the budget for configured patterns, held for all that have the same.
    shared: Option<Arc<Compiled>>,
    /// For long texts; made for the first of them.
    guard: Arc<OnceLock<Guard>>,
}

/// A pattern in the syntax of the crate `regex`.
struct Translated {
    text: String,
    /// What its classes [cost](pattern_cost).
    cost: usize,
}

/// What may be long to compile.
struct PatternLimits {
    /// Of its text.
    bytes: usize,
    /// Of its classes of Unicode characters ([`pattern_cost`]), of which one takes some 50 us.
    cost: usize,
    /// Repetitions and alternatives ([`PatternSize::choices`]), of which one takes up to 36 us.
    choices: usize,
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
        let translated = translated(pattern, &CONFIGURED_LIMITS)?;
        let shared = CONFIGURED.compile(&translated).map_err(|why| refused(why, pattern))?;
        let (inner, guard) = (shared.regex.clone(), Arc::clone(&shared.guard));
        Ok(Regex { inner, bytes: shared.bytes, guard, shared: Some(shared) })
    }

    /// The pattern, if it is one of the configuration.
    pub(crate) fn pattern(&self) -> Option<Pattern> {
        self.shared.clone().map(Pattern)
    }

    /// Compiles a pattern computed at run time, in at most some milliseconds.
    fn computed(pattern: &[u8]) -> Result<Regex, PatternError> {
        let translated = translated(pattern, &COMPUTED)?;
        let (inner, nfa) = size::compile(&translated, MAX_CACHED_PATTERN, Some(MAX_CACHED_AUTOMATON))
            .map_err(|why| refused(why, pattern))?;
        Ok(Regex { inner, bytes: nfa.memory_usage(), shared: None, guard: Arc::default() })
    }

    /// What searches long texts.
    fn guard(&self) -> &Guard {
        self.guard.get_or_init(|| {
            size::automaton(&[self.inner.as_str()], size::MAX_COMPILED)
                .map_or_else(|_| Guard::none(), |nfa| Guard::of(nfa, Self::MAX_STATES))
        })
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

/// Most bytes of a text times bytes of an automaton that is searched without counting its states: half a millisecond where each byte needs a new
/// one.
const MAX_UNCOUNTED: usize = 1 << 20;
/// What a byte of a state counts, in bytes of searched text: both bounds of a request take some milliseconds.
const OF_STATE: usize = 16;

/// Bytes of states that most searches need, which are not counted: some microseconds.
const FEW_STATES: usize = 8 << 10;
/// What it counts to compile a pattern computed at run time, in bytes of states beside those of its automaton.
const COMPILED: usize = 4 << 10;

/// Whether a text is searched without counting states.
fn is_short(automaton: usize, text: usize) -> bool {
    automaton.saturating_mul(text) <= MAX_UNCOUNTED
}

impl Regex {
    /// Bytes of states that the search of a text may compute: some milliseconds.
    pub const MAX_STATES: usize = 512 << 10;

    /// Searches with at most so many bytes of states, and allocates them, at most 256 KiB at once: some patterns need one for almost every byte of some
    /// texts, each of which takes some microseconds. Also returns how many there were, or that all were used up.
    fn guarded(&self, subject: &[u8], most: usize) -> (Result<bool, TooCostly>, usize) {
        let guard = self.guard();
        let mut work = Work::new(most, usize::MAX);
        let found = match std::str::from_utf8(subject) {
            Ok(text) => guard.is_match(text, &mut work),
            Err(_) => guard.is_match(&replaced(subject, &Bump::new()), &mut work),
        };
        let states = if found.is_ok() { most - work.states() } else { most };
        (found, states)
    }

    /// Searches a text of a request, and counts in the [limit](AttributeBag::count_search) of the request what that takes.
    ///
    /// Errors: the patterns of the request search too much.
    pub fn search(&self, subject: &[u8], bag: &AttributeBag<'_>) -> Result<bool, TooCostly> {
        if !bag.count_search(subject.len()) {
            return Err(TooCostly);
        }
        // compat(1.3): Istio Mixer has no bound.
        if bag.search_limit() > AttributeBag::SEARCH_LIMIT {
            return Ok(self.is_match(subject));
        }
        if is_short(self.bytes, subject.len()) {
            return Ok(self.is_match(subject));
        }
        // Most searches need no more than is not counted.
        let most = (bag.searches_left() / OF_STATE + FEW_STATES).min(Self::MAX_STATES);
        let (found, states) = self.guarded(subject, most);
        let few = if found.is_ok() { FEW_STATES } else { 0 };
        bag.count_effort(states.saturating_sub(few).saturating_mul(OF_STATE));
        found
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

/// The pattern in the syntax of the crate `regex`, within limits.
fn translated(pattern: &[u8], limits: &PatternLimits) -> Result<Translated, PatternError> {
    let Ok(pattern) = std::str::from_utf8(pattern) else {
        return Err(PatternError::Invalid(rejected("invalid UTF-8", &String::from_utf8_lossy(pattern))));
    };
    if pattern.len() > limits.bytes {
        let (bytes, most) = (pattern.len(), limits.bytes);
        let text = format!("error parsing regexp: expression has {bytes} bytes, more than {most}");
        return Err(PatternError::TooLarge(text));
    }
    let text = translate::translate(pattern)
        .map_err(|problem| PatternError::Invalid(rejected(problem.detail, problem.part)))?;
    let cost = pattern_cost(&text);
    if cost > limits.cost {
        return Err(PatternError::TooLarge(rejected(TOO_COSTLY, pattern)));
    }
    if pattern_size(&text).choices > limits.choices {
        let text = format!("expression has more than {} repetitions and alternatives", limits.choices);
        return Err(PatternError::TooLarge(rejected(&text, pattern)));
    }
    Ok(Translated { text, cost })
}

/// Why a pattern is refused whose classes would take too long to compile.
const TOO_COSTLY: &str =
    "expression has too many classes of Unicode characters, of which each counts twenty times beside (?i)";

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

/// A pattern computed at run time, or why it is none.
struct Cached {
    compiled: Result<Regex, PatternError>,
    bytes: usize,
}

/// Patterns computed at run time.
struct Computed {
    /// By source. Seeded: callers choose patterns.
    patterns: HashMap<Rc<[u8]>, Cached>,
    /// Their sources, in any order.
    sources: Vec<Rc<[u8]>>,
    /// Size of the compiled patterns and their sources.
    bytes: usize,
    random: fastrand::Rng,
}

impl Default for Computed {
    fn default() -> Self {
        Self { patterns: HashMap::default(), sources: Vec::new(), bytes: 0, random: fastrand::Rng::new() }
    }
}

impl Computed {
    /// Makes room for a pattern. What gives way is chosen at random: patterns that are used in turn, and are more than there is room for, would
    /// all give way before they are used again if the oldest did, and what nobody uses any more would stay if a place in the table decided.
    fn make_room(&mut self, bytes: usize) {
        while !self.sources.is_empty()
            && (self.sources.len() >= MAX_CACHED || self.bytes + bytes > MAX_CACHED_BYTES)
        {
            let gone = self.sources.swap_remove(self.random.usize(..self.sources.len()));
            let freed = self.patterns.remove(&gone).map_or(0, |cached| cached.bytes);
            self.bytes = self.bytes.saturating_sub(freed);
        }
    }

    fn insert(&mut self, pattern: &[u8], compiled: Result<Regex, PatternError>, bytes: usize) {
        // Its source, and an error that repeats it.
        let bytes = bytes + 2 * pattern.len();
        self.make_room(bytes);
        self.bytes += bytes;
        let source = Rc::<[u8]>::from(pattern);
        self.sources.push(Rc::clone(&source));
        self.patterns.insert(source, Cached { compiled, bytes });
    }
}

thread_local! {
    static CACHE: RefCell<Computed> = RefCell::default();
}

/// [`Regex::search`] for a condition.
pub(crate) fn search<'a>(
    regex: &Regex,
    subject: &[u8],
    bag: &AttributeBag<'a>,
) -> Result<bool, EvalError<'a>> {
    regex
        .search(subject, bag)
        .map_err(|TooCostly| EvalError::Exhausted(Bound::SearchedText(bag.search_limit())))
}

/// [`search`] with a pattern computed at run time. Each thread caches compiled patterns, at most 4 MiB.
///
/// Errors: likewise; it is no pattern.
pub(crate) fn matches<'a>(
    pattern: &[u8],
    subject: &[u8],
    bag: &AttributeBag<'a>,
) -> Result<bool, EvalError<'a>> {
    let has_bound = bag.search_limit() <= AttributeBag::SEARCH_LIMIT;
    if has_bound && bag.searches_left() == 0 && !is_cached(pattern) {
        return Err(EvalError::Exhausted(Bound::SearchedText(bag.search_limit())));
    }
    let found = with_computed(pattern, |compiled, is_new| {
        if is_new && has_bound {
            let bytes = compiled.as_ref().map_or(0, |regex| regex.bytes);
            bag.count_effort((COMPILED + bytes).saturating_mul(OF_STATE));
        }
        match compiled {
            Ok(regex) => search(regex, subject, bag),
            Err(error) => Err(EvalError::Failed(bag.arena().alloc_str(error.text()))),
        }
    });
    found.unwrap_or(Ok(false))
}

/// Why a pattern that is computed at run time does not compile, if it does not.
pub(crate) fn computed_error(pattern: &[u8]) -> Option<PatternError> {
    with_computed(pattern, |compiled, _| compiled.as_ref().err().cloned()).flatten()
}

fn is_cached(pattern: &[u8]) -> bool {
    CACHE.with_borrow(|cache| cache.patterns.contains_key(pattern))
}

/// Looks at a pattern in the cache of the thread, in which it is put, and at whether it is new there. `None`: it is not there.
fn with_computed<R>(pattern: &[u8], look: impl FnOnce(&Result<Regex, PatternError>, bool) -> R) -> Option<R> {
    CACHE.with_borrow_mut(|cache| {
        let is_new = !cache.patterns.contains_key(pattern);
        if is_new {
            let compiled = Regex::computed(pattern);
            let bytes = compiled.as_ref().map_or(0, |regex| size::step(regex.bytes, MAX_CACHED_PATTERN));
            cache.insert(pattern, compiled, bytes);
        }
        cache.patterns.get(pattern).map(|cached| look(&cached.compiled, is_new))
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
    use mixer_attribute::Vocabulary;

    /// Searches with a computed pattern.
    fn matches(pattern: &[u8], subject: &[u8]) -> Result<bool, String> {
        let (vocabulary, arena) = (Vocabulary::builder().build(), Bump::new());
        let bag = AttributeBag::empty(&vocabulary, &arena);
        super::matches(pattern, subject, &bag).map_err(|error| error.to_string())
    }

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
    fn a_long_text_that_needs_very_many_states_is_not_searched() {
        let (vocabulary, arena) = (Vocabulary::builder().build(), Bump::new());
        let mut seed = 1u32;
        let mut letter = || {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            ["select ", "from ", "a", "b", "c", "é"][(seed >> 24) as usize % 6]
        };
        let statements: String = (0..200_000).map(|_| letter()).collect();
        let letters: String = statements.chars().filter(|c| matches!(c, 'a' | 'b')).collect();
        let words = "the quick brown fox jumps over it ".repeat(10_000);
        for (pattern, text) in
            [(r"(?i)(select|insert).{0,200}(into|set)", &statements), (r"(a|b)*a(a|b){200}c", &letters)]
        {
            let regex = Regex::compile(pattern.as_bytes()).unwrap();
            let bag = AttributeBag::empty(&vocabulary, &arena);
            let exhausted = Err(EvalError::Exhausted(Bound::SearchedText(AttributeBag::SEARCH_LIMIT)));
            assert_eq!(search(&regex, text.as_bytes(), &bag), exhausted, "{pattern}");
            assert_eq!(super::matches(pattern.as_bytes(), text.as_bytes(), &bag), exhausted, "{pattern}");
            let bag = AttributeBag::empty(&vocabulary, &arena);
            assert_eq!(search(&regex, words.as_bytes(), &bag), Ok(false), "{pattern}");
            assert_eq!(search(&regex, &text.as_bytes()[..400], &bag), Ok(false), "{pattern}");
            let mut bag = AttributeBag::empty(&vocabulary, &arena);
            bag.set_search_limit(AttributeBag::ISTIO_MIXER_SEARCH_LIMIT);
            assert_eq!(search(&regex, &text.as_bytes()[..8192], &bag), Ok(false), "{pattern}");
        }
    }

    /// A text that is short may take long for a large pattern.
    #[test]
    fn states_are_counted_where_text_and_pattern_are_large_together() {
        let (vocabulary, arena) = (Vocabulary::builder().build(), Bump::new());
        let text: Vec<u8> = (0..4000_usize).map(|n| b"ab"[n.wrapping_mul(2_654_435_761) >> 7 & 1]).collect();
        let large = Regex::compile(b".{0,1000}a.{0,1000}b.{0,1000}z").unwrap();
        assert_eq!(large.guarded(&text, Regex::MAX_STATES).0, Err(TooCostly));
        let bag = AttributeBag::empty(&vocabulary, &arena);
        assert!(search(&large, &text, &bag).is_err());
        let (found, states) = large.guarded(&text[..200], Regex::MAX_STATES);
        assert!(found == Ok(false) && states > 100_000, "{states}");
        // All searches of a request together.
        let bag = AttributeBag::empty(&vocabulary, &arena);
        let results: Vec<bool> = (0..8).map(|_| large.search(&text[..200], &bag).is_ok()).collect();
        assert_eq!(results.first().zip(results.last()), Some((&true, &false)), "{results:?}");
        assert_eq!(bag.searches_left(), 0, "none is begun any more");
        for pattern in ["^/api/v[0-9]+/users/[^/]+$", "(?i)(union|select|insert).*from", r"\.php\d?$"] {
            let small = Regex::compile(pattern.as_bytes()).unwrap();
            assert!(is_short(small.bytes, 100), "{pattern}");
            let (found, states) = small.guarded(&text.repeat(20), Regex::MAX_STATES);
            assert!(found == Ok(false) && states < FEW_STATES, "{pattern} {states}");
        }
    }

    /// One of 30 000 optional parts took a second.
    #[test]
    fn patterns_that_take_long_to_compile_are_refused() {
        let refused = |compiled: Result<Regex, PatternError>| match compiled {
            Ok(_) => None,
            Err(error) => Some(error.text().to_owned()),
        };
        let optional = |parts: usize| "a?".repeat(parts);
        assert_eq!(refused(Regex::configured(optional(5000).as_bytes())), None);
        let why = refused(Regex::configured(optional(5001).as_bytes())).unwrap();
        assert!(why.contains("more than 5000 repetitions and alternatives"), "{why}");
        assert_eq!(refused(Regex::computed(optional(128).as_bytes())), None);
        let why = refused(Regex::computed(optional(129).as_bytes())).unwrap();
        assert!(why.contains("more than 128 repetitions and alternatives"), "{why}");
        let why = refused(Regex::computed(&[b'a'; 4097])).unwrap();
        assert!(why.contains("expression has 4097 bytes, more than 4096"), "{why}");
        // Alternatives of many words are one choice.
        let words: Vec<String> = (0..500).map(|number| format!("w{number}")).collect();
        assert_eq!(refused(Regex::computed(words.join("|").as_bytes())), None);
    }

    /// Each takes a millisecond or two, and a caller may send many.
    #[test]
    fn patterns_that_are_compiled_for_a_request_count() {
        let (vocabulary, arena) = (Vocabulary::builder().build(), Bump::new());
        let bag = AttributeBag::empty(&vocabulary, &arena);
        let ask = |number: usize, bag: &AttributeBag<'_>| {
            let found = super::matches(format!("^(a|b){{{number}}}c").as_bytes(), b"x", bag);
            found.map_err(|error| error.to_string())
        };
        let count = (1..1000).take_while(|number| ask(*number, &bag).is_ok()).count();
        assert!((8..400).contains(&count), "{count}");
        assert!(ask(count + 1, &bag).is_err_and(|why| why.contains("search more than 8 MiB")));
        assert_eq!(ask(count, &bag), Ok(false), "it is there");
        let mut bag = AttributeBag::empty(&vocabulary, &arena);
        bag.set_search_limit(AttributeBag::ISTIO_MIXER_SEARCH_LIMIT);
        assert!((1..1000).all(|number| ask(number, &bag).is_ok()));
    }

    /// Names of scripts are looked up, which compiled each.
    #[test]
    fn names_of_scripts_cost_nothing_to_look_up() {
        let many = Regex::computed(br"\p{Greek}".repeat(400).as_slice()).unwrap_err();
        assert_eq!(many.text(), rejected(TOO_COSTLY, &r"\p{Greek}".repeat(400)));
        assert!(Regex::computed(br"\p{Greek}\p{Thai}").is_ok());
        assert!(Regex::computed(br"\p{Greeek}").is_err());
    }

    /// Of 70 patterns with classes of Unicode characters, each counted as the largest that there may be.
    #[test]
    fn patterns_count_what_they_take() {
        let patterns: Vec<Regex> = (0..70)
            .map(|number| Regex::compile(format!(r"(?i)^\pL+\pL\pL{number}$").as_bytes()).unwrap())
            .collect();
        let bytes = |regex: &Regex| regex.pattern().map_or(0, |pattern| pattern.bytes());
        assert!(patterns.iter().all(|regex| bytes(regex) <= 512 << 10), "{}", bytes(&patterns[0]));
    }

    #[test]
    fn patterns_that_are_used_in_turn_stay_in_the_cache() {
        let patterns: Vec<String> = (0..200).map(|number| format!("^/api/v1/x{number}/.*$")).collect();
        let compiled = || CACHE.with_borrow(|cache| cache.patterns.len());
        for _ in 0..2 {
            patterns.iter().for_each(|pattern| assert_eq!(matches(pattern.as_bytes(), b"/"), Ok(false)));
        }
        assert_eq!(compiled(), patterns.len());
    }

    /// Whatever was there once, what is used comes to stay.
    #[test]
    fn patterns_that_nobody_uses_any_more_give_way() {
        let mut cache = Computed { random: fastrand::Rng::with_seed(7), ..Computed::default() };
        let mut use_once = |pattern: String| {
            let is_new = !cache.patterns.contains_key(pattern.as_bytes());
            if is_new {
                cache.insert(pattern.as_bytes(), Err(PatternError::Invalid(String::new())), 0);
            }
            assert_eq!(cache.patterns.len(), cache.sources.len());
            is_new
        };
        for number in 0..20_000 {
            use_once(format!("once {number}"));
        }
        let mut rounds = || (0..200).filter(|number| use_once(format!("^/api/{number}$"))).count();
        assert_eq!(rounds(), 200);
        let later = (0..20).map(|_| rounds()).last();
        assert_eq!(later, Some(0));
    }

    #[test]
    fn the_cache_of_patterns_is_bounded() {
        for i in 0..2000 {
            let pattern = format!("^a{{{}}}({})?$", i % 100, i / 100);
            let subject = "a".repeat(i % 100);
            assert_eq!(matches(pattern.as_bytes(), subject.as_bytes()), Ok(true));
        }
        assert!(CACHE.with_borrow(|cache| cache.patterns.len()) <= MAX_CACHED);
        assert!(matches(b"a(", b"a").is_err());
    }

    #[test]
    fn patterns_that_exceed_a_bound_are_refused() {
        let error = |pattern: &str| Regex::configured(pattern.as_bytes()).map(|_| ());
        assert!(matches!(error(r"(\pL{800})"), Err(PatternError::TooLarge(_))));
        assert!(matches!(error(&"a".repeat(100_000)), Err(PatternError::TooLarge(_))));
        assert_eq!(error(r"^/api/v[0-9]+/\pL{1,20}$"), Ok(()));
        for i in 0..200 {
            // From a request, a pattern may be as large as is usual in configurations, but no larger.
            let pattern = format!(r"\pL{{1,5}}{i}");
            assert_eq!(matches(pattern.as_bytes(), format!("é{i}").as_bytes()), Ok(true));
            assert!(CACHE.with_borrow(|cache| cache.bytes) <= MAX_CACHED_BYTES);
        }
        assert!(matches(br"\pL{100}", b"a").is_err());
        for costly in [
            "(?i)".to_owned() + &r"\pL".repeat(20_000),
            "(?i)".to_owned() + &r"\PL".repeat(20_000),
            format!("(?i)[{}]", r"\pL\PL".repeat(10_000)),
            "(?i)".to_owned() + &r"[\D]".repeat(10_000),
            "(?i)".to_owned() + &r"[\x{0}-\x{10ffff}]".repeat(3000),
            r"\p{Greek}".repeat(6000),
            r"[[:^alpha:]]|".repeat(4000) + "(?i)a",
        ] {
            assert!(matches!(error(&costly), Err(PatternError::TooLarge(_))), "{costly:.20}");
            assert!(matches(costly.as_bytes(), b"a").is_err(), "{costly:.20}");
        }
        assert_eq!(error(&(r"\p{Thai}".repeat(MAX_COST) + "$")), Ok(()));
        assert_eq!(error(&("(?i)".to_owned() + &r"\p{Greek}+ ".repeat(MAX_COST / 20 - 1))), Ok(()));
        assert_eq!(matches(r"(?i)^\pL+\.\p{Lu}+$".as_bytes(), "é.É".as_bytes()), Ok(true));
        let long = "x".repeat(60_000);
        for i in 0..100 {
            let _ = matches(format!("{long}{i}(").as_bytes(), b"");
            assert!(CACHE.with_borrow(|cache| cache.bytes) <= MAX_CACHED_BYTES);
        }
    }
}
