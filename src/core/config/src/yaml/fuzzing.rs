//! Both readers, each by itself, for the fuzz target that compares them.

use super::{Parsed, YamlError, plain};
use crate::Node;

/// The document by the reader of plain documents; `None` if it leaves the text to the parser.
pub fn read_plain(text: &str) -> Option<Node> {
    plain::read(text)
}

/// The document by the parser.
///
/// Errors: those of [`parse`](super::parse).
pub fn parse_any(text: &str) -> Result<Parsed, YamlError> {
    super::parse_any(text)
}
