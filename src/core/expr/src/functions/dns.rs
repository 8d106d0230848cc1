//! DNS_NAME: validation and comparison of internationalized domain names.
//!
//! Two profiles: [`dns_name`] validates labels and decodes punycode without mapping; [`dns_name_equal`] maps both sides as for
//! look-up (UTS 46, nontransitional, STD3 rules) before comparing.

use std::borrow::Cow;
use std::fmt::{self, Display};

use bumpalo::Bump;
use idna_adapter as unicode;
use mixer_base::quote::quoted;
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};

use super::super::EvalError;

/// Bytes of a name; the DNS allows 253. Decoding punycode takes time quadratic in the length.
const MAX_NAME: usize = 1024;

/// The prefix of punycode-encoded labels.
const ACE_PREFIX: &[u8] = b"xn--";

const UNICODE: unicode::Adapter = unicode::Adapter::new();

/// Why a name is invalid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Problem {
    Label(Vec<u8>),
    Character(char),
    /// The number of bytes.
    Length(usize),
}

impl Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Label(label) => write!(f, "idna: invalid label {}", quoted(label)),
            Problem::Length(length) => {
                write!(f, "idna: name of {length} bytes: at most {MAX_NAME} are allowed")
            }
            Problem::Character(c) => write!(f, "idna: disallowed rune U+{:04X}", u32::from(*c)),
        }
    }
}

/// Validates a name and returns it in NFC with its punycode labels decoded.
///
/// Errors: `error converting '<s>' to dns name: '<detail>'`.
pub fn dns_name<'a>(text: &'a [u8], arena: &'a Bump) -> Result<&'a [u8], EvalError<'a>> {
    match checked(text) {
        Ok(Cow::Borrowed(name)) => Ok(name),
        Ok(Cow::Owned(name)) => Ok(arena.alloc_slice_copy(&name)),
        Err(problem) => Err(EvalError::failed(
            arena,
            format_args!("error converting '{}' to dns name: '{problem}'", shortened(text)),
        )),
    }
}

/// Whether two names are the same host: compared as mapped for look-up, ignoring a final dot.
///
/// Errors: an invalid name, `idna: ...`.
pub fn dns_name_equal<'a>(a: &[u8], b: &[u8], arena: &'a Bump) -> Result<bool, EvalError<'a>> {
    same_name(a, b).map_err(|problem| EvalError::failed(arena, format_args!("{problem}")))
}

/// The text, cut off where no name is as long.
fn shortened(text: &[u8]) -> Cow<'_, str> {
    match text.get(..MAX_NAME) {
        Some(start) if start.len() < text.len() => format!("{}...", String::from_utf8_lossy(start)).into(),
        _ => String::from_utf8_lossy(text),
    }
}

/// Errors: the text is longer than any name.
fn bounded(text: &[u8]) -> Result<&[u8], Problem> {
    if text.len() > MAX_NAME { Err(Problem::Length(text.len())) } else { Ok(text) }
}

/// [`dns_name`] with a typed error.
pub(super) fn checked(text: &[u8]) -> Result<Cow<'_, [u8]>, Problem> {
    let name = normalized(bounded(text)?);
    if name.is_empty() {
        return Err(Problem::Label(Vec::new()));
    }
    let mut labels = Labels::new(&name, true);
    labels.process()?;
    match labels.decoded {
        true => Ok(Cow::Owned(labels.list.join(&b'.'))),
        false => Ok(name),
    }
}

/// [`dns_name_equal`] with a typed error.
pub(super) fn same_name(a: &[u8], b: &[u8]) -> Result<bool, Problem> {
    let a = looked_up(a)?;
    let b = looked_up(b)?;
    if a.is_empty() || b.is_empty() {
        return Ok(a.is_empty() && b.is_empty());
    }
    let (a, b) = match (a.strip_suffix(b"."), b.strip_suffix(b".")) {
        (Some(short), None) => (short, &*b),
        (None, Some(short)) => (&*a, short),
        _ => (&*a, &*b),
    };
    Ok(a == b)
}

/// A name, mapped for look-up.
fn looked_up(text: &[u8]) -> Result<Cow<'_, [u8]>, Problem> {
    let text = bounded(text)?;
    let mapped = if text.is_ascii() {
        if let Some(bad) = text.iter().find(|b| !is_host_byte(b.to_ascii_lowercase())) {
            return Err(Problem::Character(char::from(*bad)));
        }
        match text.iter().any(u8::is_ascii_uppercase) {
            true => Cow::Owned(text.to_ascii_lowercase()),
            false => Cow::Borrowed(text),
        }
    } else {
        Cow::Owned(mapped(text)?.into_bytes())
    };
    let mut labels = Labels::new(&mapped, false);
    labels.process()?;
    match labels.decoded {
        true => Ok(Cow::Owned(labels.list.join(&b'.'))),
        false => Ok(mapped),
    }
}

/// Maps a non-ASCII name by UTS 46. Invalid UTF-8 counts as U+FFFD, which is allowed.
fn mapped(text: &[u8]) -> Result<String, Problem> {
    let mut result = String::new();
    for chunk in text.utf8_chunks() {
        let mapped: String = UNICODE.map_normalize(chunk.valid().chars()).collect();
        if mapped.contains(is_disallowed) || chunk.valid().contains(is_disallowed_before_mapping) {
            return Err(Problem::Character(first_disallowed(chunk.valid())));
        }
        result.push_str(&mapped);
        result.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    Ok(result)
}

fn first_disallowed(text: &str) -> char {
    text.chars()
        .find(|c| {
            is_disallowed_before_mapping(*c) || UNICODE.map_normalize(std::iter::once(*c)).any(is_disallowed)
        })
        .unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// Characters that a mapped name must not contain. The mapping replaces disallowed characters by U+FFFD.
fn is_disallowed(c: char) -> bool {
    match u8::try_from(c) {
        Ok(byte) if byte.is_ascii() => !is_host_byte(byte),
        _ => c == char::REPLACEMENT_CHARACTER,
    }
}

/// Characters that decompose into a disallowed one.
fn is_disallowed_before_mapping(c: char) -> bool {
    matches!(c, '\u{2260}' | '\u{226e}' | '\u{226f}')
}

fn is_host_byte(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.')
}

/// The text in NFC; invalid UTF-8 is unchanged.
fn normalized(text: &[u8]) -> Cow<'_, [u8]> {
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    if let Ok(text) = std::str::from_utf8(text)
        && is_nfc_quick(text.chars()) == IsNormalized::Yes
    {
        return Cow::Borrowed(text.as_bytes());
    }
    let mut result = Vec::with_capacity(text.len());
    for chunk in text.utf8_chunks() {
        result.extend_from_slice(chunk.valid().nfc().collect::<String>().as_bytes());
        result.extend_from_slice(chunk.invalid());
    }
    Cow::Owned(result)
}

/// The labels of a name, with punycode labels decoded.
struct Labels<'n> {
    /// As it is written.
    name: &'n [u8],
    list: Vec<Cow<'n, [u8]>>,
    decoded: bool,
    /// Whether an empty label is an error.
    strict: bool,
}

impl<'n> Labels<'n> {
    fn new(name: &'n [u8], strict: bool) -> Labels<'n> {
        let list = name.split(|b| *b == b'.').map(Cow::Borrowed).collect();
        Labels { name, list, decoded: false, strict }
    }

    /// Whether only final dots follow. compat(1.3): two are accepted if no label was decoded.
    fn ends_at(&self, start: usize) -> bool {
        let rest = self.list.get(start..).unwrap_or_default();
        rest.len() <= if self.decoded { 1 } else { 2 } && rest.iter().all(|label| label.is_empty())
    }

    /// Decodes and validates all labels.
    fn process(&mut self) -> Result<(), Problem> {
        let mut right_to_left = self.list.iter().any(|label| has_right_to_left(label));
        for i in 0..self.list.len() {
            if i > 0 && self.ends_at(i) {
                break;
            }
            let Some(label) = self.list.get_mut(i) else { break };
            if label.is_empty() {
                if self.strict {
                    return Err(Problem::Label(self.name.to_vec()));
                }
                continue;
            }
            if let Some(encoded) = label.strip_prefix(ACE_PREFIX) {
                let text = decode(encoded).ok_or_else(|| Problem::Label(encoded.to_vec()))?;
                right_to_left |= has_right_to_left(text.as_bytes());
                if !is_valid_decoded(&text) || (text.is_empty() && self.strict) {
                    return Err(Problem::Label(text.into_bytes()));
                }
                *label = Cow::Owned(text.into_bytes());
                self.decoded = true;
            }
            check_label(label)?;
        }
        // Rules of the whole name are reported with the whole name.
        if right_to_left && !self.list.iter().all(|label| obeys_bidi_rule(label)) {
            return Err(Problem::Label(self.name.to_vec()));
        }
        Ok(())
    }
}

/// Decodes punycode (RFC 3492). compat(1.3): what precedes the last hyphen may have letters beyond ASCII.
fn decode(encoded: &[u8]) -> Option<String> {
    let encoded = std::str::from_utf8(encoded).ok()?;
    let Some((literal, code)) = encoded.rsplit_once('-') else {
        return idna::punycode::decode_to_string(encoded);
    };
    if literal.is_ascii() {
        return idna::punycode::decode_to_string(encoded);
    }
    if code.is_empty() {
        return Some(literal.to_owned());
    }
    // As many placeholders decode to the same insertions, at the same places.
    let mut literals = literal.chars();
    let placeholders = format!("{}-{code}", "a".repeat(literal.chars().count()));
    let decoded = idna::punycode::decode_to_string(&placeholders)?;
    Some(decoded.chars().map(|c| if c == 'a' { literals.next().unwrap_or(c) } else { c }).collect())
}

/// Whether a decoded punycode label contains only allowed characters, in NFC.
fn is_valid_decoded(text: &str) -> bool {
    let valid = UNICODE.normalize_validate(text.chars()).eq(text.chars());
    valid && !text.contains(is_disallowed) && !text.contains(is_disallowed_before_mapping)
}

fn check_label(label: &[u8]) -> Result<(), Problem> {
    let problem = || Problem::Label(label.to_vec());
    if label.is_empty() {
        return Ok(());
    }
    if label.len() > 4 && label.get(2..4) == Some(b"--") {
        return Err(problem());
    }
    if label.starts_with(b"-") || label.ends_with(b"-") {
        return Err(problem());
    }
    if label.is_ascii() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(label);
    if text.chars().next().is_some_and(|c| UNICODE.is_mark(c) && !is_replaced(c)) || !joiners_fit(&text) {
        return Err(problem());
    }
    Ok(())
}

/// Whether the mapping for look-up replaces a character by others. compat(1.3): such a mark may start a label: U+0345, U+0F77 and
/// U+0F79.
fn is_replaced(c: char) -> bool {
    let mut mapped = UNICODE.map_normalize(std::iter::once(c));
    mapped.next().is_some_and(|first| first != c && first != char::REPLACEMENT_CHARACTER)
}

/// The CONTEXTJ rules of RFC 5892: a joiner follows a virama; a non-joiner may also be between joining characters.
fn joiners_fit(text: &str) -> bool {
    let joining = |c: char| UNICODE.joining_type(c);
    text.char_indices().filter(|(_, c)| matches!(c, '\u{200c}' | '\u{200d}')).all(|(at, joiner)| {
        let (before, after) = text.split_at(at);
        if before.chars().next_back().is_some_and(|c| UNICODE.is_virama(c)) {
            return true;
        }
        let mut before = before.chars().rev().skip_while(|c| joining(*c).is_transparent());
        let mut after = after.chars().skip(1).skip_while(|c| joining(*c).is_transparent());
        joiner == '\u{200c}'
            && before
                .next()
                .is_some_and(|c| joining(c).to_mask().intersects(unicode::LEFT_OR_DUAL_JOINING_MASK))
            && after
                .next()
                .is_some_and(|c| joining(c).to_mask().intersects(unicode::RIGHT_OR_DUAL_JOINING_MASK))
    })
}

fn has_right_to_left(label: &[u8]) -> bool {
    !label.is_ascii()
        && String::from_utf8_lossy(label)
            .chars()
            .any(|c| UNICODE.bidi_class(c).to_mask().intersects(unicode::RTL_MASK))
}

/// The Bidi rule of RFC 5893, for all labels of a name with right-to-left characters.
fn obeys_bidi_rule(label: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(label) else { return false };
    let class = |c: char| UNICODE.bidi_class(c);
    let Some(first) = text.chars().next() else { return true };
    if !class(first).to_mask().intersects(unicode::FIRST_BC_MASK) {
        return false;
    }
    let left_to_right = class(first).is_ltr();
    let (middle, last) = match left_to_right {
        true => (unicode::MIDDLE_LTR_MASK, unicode::LAST_LTR_MASK),
        false => (unicode::MIDDLE_RTL_MASK, unicode::LAST_RTL_MASK),
    };
    if !text.chars().all(|c| class(c).to_mask().intersects(middle)) {
        return false;
    }
    if !left_to_right
        && text.chars().any(|c| class(c).is_european_number())
        && text.chars().any(|c| class(c).is_arabic_number())
    {
        return false;
    }
    text.chars()
        .rev()
        .find(|c| !class(*c).is_nonspacing_mark())
        .is_some_and(|c| class(c).to_mask().intersects(last))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> Option<String> {
        checked(text.as_bytes()).ok().map(|name| String::from_utf8(name.into_owned()).unwrap())
    }

    #[test]
    fn names_are_validated_and_decoded() {
        for (text, name) in [
            ("a.com", "a.com"),
            ("a.com.", "a.com."),
            ("a..", "a.."),
            ("a b", "a b"),
            ("_x.*:/%", "_x.*:/%"),
            ("1.2.3.4", "1.2.3.4"),
            ("A.COM", "A.COM"),
            ("a--b", "a--b"),
            ("xn--bcher-kva.example", "bücher.example"),
            ("xn--bcher-kva.", "bücher."),
            ("e\u{301}.com", "é.com"),
            ("xn--4db.a1", "א.a1"),
            ("xn--bücher-kva", "bücêher"),
            ("xn--ü-.a", "ü.a"),
            ("\u{345}.com", "\u{345}.com"),
            ("\u{f77}a.com", "\u{f77}a.com"),
        ] {
            assert_eq!(check(text).as_deref(), Some(name), "{text}");
        }
        for text in [
            "",
            ".",
            "..",
            "...",
            ".a",
            "a...",
            "a..b",
            "...a",
            "-a",
            "a-",
            "ab--cd",
            "XN--bcher-kva",
            "xn--",
            "xn--zz",
            "xn--bcher-kva..",
            "\u{301}a.com",
            "a\u{200c}b.com",
            "1א.com",
            "1.א",
        ] {
            assert_eq!(check(text), None, "{text}");
        }
    }

    #[test]
    fn names_are_compared_as_mapped_for_look_up() {
        for (a, b, equal) in [
            ("a.com", "A.COM", Some(true)),
            ("a.com", "a.com.", Some(true)),
            ("a..", "a.", Some(false)),
            ("", "", Some(true)),
            ("", ".", Some(false)),
            ("faß.de", "fass.de", Some(false)),
            ("a\u{ad}b.com", "ab.com", Some(true)),
            ("ｅx。com", "ex.com", Some(true)),
            ("bücher.example", "xn--bcher-kva.example", Some(true)),
            ("_x", "_x", None),
            ("a b", "a b", None),
            ("[::1]", "[::1]", None),
            ("≠.com", "≠.com", None),
        ] {
            assert_eq!(same_name(a.as_bytes(), b.as_bytes()).ok(), equal, "{a} {b}");
        }
        let long = vec![b'a'; MAX_NAME + 1];
        assert_eq!(same_name(&long, b"a"), Err(Problem::Length(1025)));
        assert_eq!(checked(&long), Err(Problem::Length(1025)));
        assert_eq!(same_name(b"_x", b"a").unwrap_err().to_string(), "idna: disallowed rune U+005F");
    }
}
