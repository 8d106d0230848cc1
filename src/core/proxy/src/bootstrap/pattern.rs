//! Regular expressions of Envoy's matchers.

use mixer_expr::functions::Regex;

use super::reader::Value;

/// A pattern that matches a text as a whole. As with Envoy, whose RE2 reads Latin-1, each byte of a text and of the pattern is a character: `.`
/// is one byte of a text in UTF-8, and `(?i)k` takes no KELVIN SIGN.
#[derive(Debug, Clone)]
pub struct BytePattern(Regex);

impl BytePattern {
    /// Reads a pattern.
    pub(super) fn read(value: &Value<'_>, pattern: &str) -> Option<Self> {
        // By itself first, as it is written: `a)(b` would be valid within the group, and errors quote it.
        let compiled = Regex::compile(pattern.as_bytes());
        let whole = || Regex::compile(format!(r"\A(?:{})\z", latin1(pattern.as_bytes())).as_bytes());
        match compiled.and_then(|_| whole()) {
            Ok(regex) => Some(Self(regex)),
            Err(problem) => {
                value.invalid(problem);
                None
            }
        }
    }

    /// Whether it matches a text. Allocates only for a text that is not ASCII.
    pub fn is_match(&self, text: &[u8]) -> bool {
        match text.is_ascii() {
            true => self.0.is_match(text),
            false => self.0.is_match(latin1(text).as_bytes()),
        }
    }
}

/// The text in which each byte is a character.
fn latin1(bytes: &[u8]) -> String {
    bytes.iter().copied().map(char::from).collect()
}
