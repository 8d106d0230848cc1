//! Parts of an expression that fail for every request, or with one of the constants that they may have as operands, found when it is
//! compiled.
//!
//! Istio Mixer accepts such an expression, and a condition with it never holds. It is therefore compiled, and whoever loads the
//! configuration decides what the findings mean.

use std::cell::Cell;

use crate::functions::{self, PatternError};

/// Most findings of one expression that decide, and most that do not.
const MAX_FAILURES: usize = 8;
/// Most constants that one operand may be, and are followed.
pub(crate) const MAX_CHOICES: usize = 8;
/// Most patterns of one expression that are compiled only to see whether they fail.
const MAX_PATTERNS: u32 = 64;

/// A part of an expression that fails because of its constants, or of what its operation supports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Line and column in the expression, both from 1, columns in characters.
    pub position: Option<(u32, u32)>,
    /// The error of its evaluation.
    pub message: String,
    /// How to fix it.
    pub hint: String,
    /// Whether it fails for every request that gets there. Otherwise it fails with one of the values that its operand may have: a branch
    /// of `conditional`, or a default.
    pub is_certain: bool,
}

/// The findings of one expression; those beyond a bound are left out.
#[derive(Debug, Default)]
pub(crate) struct Failures(Vec<Failure>);

impl Failures {
    /// Adds a finding. Computing a position takes time linear in the text.
    pub(crate) fn push(
        &mut self,
        position: impl FnOnce() -> Option<(u32, u32)>,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.add(true, position, message, hint);
    }

    /// Adds a finding that is certain or possible.
    pub(crate) fn add(
        &mut self,
        is_certain: bool,
        position: impl FnOnce() -> Option<(u32, u32)>,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        let known = self.0.iter().filter(|failure| failure.is_certain == is_certain).count();
        if known < MAX_FAILURES {
            let (position, message, hint) = (position(), message.into(), hint.into());
            self.0.push(Failure { position, message, hint, is_certain });
        }
    }

    pub(crate) fn into_list(self) -> Box<[Failure]> {
        self.0.into()
    }
}

/// The patterns of one expression that requests choose or put together, and that are compiled to see whether they fail. Those beyond a bound are
/// not looked at, nor are any behind one that is too large: each of them may take as long to refuse.
#[derive(Debug)]
pub(crate) struct PatternTrials(Cell<u32>);

impl Default for PatternTrials {
    fn default() -> Self {
        Self(Cell::new(MAX_PATTERNS))
    }
}

impl PatternTrials {
    /// Why a pattern does not compile; `None` also if it is not looked at.
    pub(crate) fn error(&self, pattern: &[u8]) -> Option<String> {
        self.0.set(self.0.get().checked_sub(1)?);
        match functions::computed_error(pattern)? {
            PatternError::Invalid(text) => Some(text),
            PatternError::TooLarge(text) | PatternError::OverBudget(text) => {
                self.0.set(0);
                Some(text)
            }
        }
    }
}

/// The cure of a pattern, from the error of RE2.
pub(crate) fn pattern_cure(error: &str) -> &'static str {
    if ["`(?!", "`(?=", "`(?<"].iter().any(|group| error.contains(group)) {
        "regular expressions of RE2 have no look-around: write two tests, and for the one that must not match `== false`"
    } else if error.contains("repetition operator") {
        "the pattern is a regular expression, in which `.*` is any text; for a `*` at the end or at the beginning use \
         `match(TEXT, \"*.php\")`"
    } else {
        "the pattern is a regular expression: write `\\\\` before a special character that stands for itself, as in `\"\\\\(\"`"
    }
}

/// The cure of a constant address.
pub(crate) fn address_cure(text: &[u8]) -> &'static str {
    if text.contains(&b'/') {
        "`ip` takes one address; for a range use a `listchecker` with `entryType: IP_ADDRESSES`, whose entries may be ranges"
    } else {
        "write one address without port, brackets or zone: `ip(\"10.0.0.1\")`"
    }
}

/// The cure of a constant time.
pub(crate) const TIME_CURE: &str = "write date, time and zone: `timestamp(\"2026-01-02T03:04:05Z\")`";
/// The cure of a constant e-mail address.
pub(crate) const EMAIL_CURE: &str = "write one address: `email(\"ann@example.com\")`";
/// The cure of a constant URI.
pub(crate) const URI_CURE: &str = "write a valid URI: `uri(\"http://example.com/a\")`";
/// The cure of a constant DNS name.
pub(crate) const DNS_NAME_CURE: &str =
    "write a valid name without port or path: `dnsName(\"a.example.com\")`";
