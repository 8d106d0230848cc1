//! The fast path and the parser, for the fuzz target that compares them.

use super::{Parsed, YamlError, plain};
use crate::Node;

/// Parses by the fast path; `None` if the text is not plain.
pub fn read_plain(text: &str) -> Option<Node> {
    plain::read(text)
}

/// Parses without the fast path.
///
/// Errors: those of [`parse`](super::parse).
pub fn parse_any(text: &str) -> Result<Parsed, YamlError> {
    super::parse_any(text)
}
