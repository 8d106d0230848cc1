//! `uri` values.

use bumpalo::Bump;

use super::super::EvalError;

/// Checks a text and returns its normal form.
pub fn uri<'a>(text: &'a [u8], _arena: &'a Bump) -> Result<&'a [u8], EvalError<'a>> {
    Ok(text)
}

/// Equality of two such values; a value that cannot be parsed is an error.
pub fn uri_equal<'a>(a: &[u8], b: &[u8], _arena: &'a Bump) -> Result<bool, EvalError<'a>> {
    Ok(a == b)
}
