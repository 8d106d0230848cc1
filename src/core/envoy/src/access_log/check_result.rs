//! The result of the authorization check of the same request.

use super::super::attributes::{Attributes, Known};
use super::super::check_response::code_name;
use super::super::metadata::{namespaces, text};
use super::super::wire::concat;
use super::codes;
use mixer_attribute::{DecodeError, Value};

/// Sets the check attributes from the metadata of the authorization filters, or else from the response flags. `http` is the status
/// and the response code details.
pub(super) fn set<'a>(
    metadata: &'a [u8],
    flags: &'a [u8],
    http: Option<(u64, &'a [u8])>,
    out: &mut Attributes<'a>,
) -> Result<(), DecodeError> {
    let arena = out.arena();
    let mut is_denied = false;
    namespaces(metadata, |namespace, body| {
        if !matches!(namespace, b"envoy.filters.http.ext_authz" | b"envoy.filters.network.ext_authz") {
            return;
        }
        if let Some(cache) = text(body, b"mixer_cache") {
            out.set(Known::CheckCacheHit, Value::Bool(cache == b"hit"));
        }
        let Some(name) = text(body, b"mixer_code").filter(|name| *name != b"OK") else { return };
        is_denied = true;
        if let Some(code) = codes::code_of_name(name) {
            out.number(Known::CheckErrorCode, code);
        }
        let message = text(body, b"mixer_message").unwrap_or_default();
        let full = if message.is_empty() { name } else { concat(&[name, b":", message], arena) };
        out.text(Known::CheckErrorMessage, full);
    })?;
    if is_denied || !codes::is_unauthorized(flags)? {
        return Ok(());
    }
    let code = match http {
        Some((_, b"ext_authz_error")) => 14,
        Some((status, _)) => codes::code_of_status(status),
        None => 7,
    };
    out.number(Known::CheckErrorCode, code);
    out.text(Known::CheckErrorMessage, code_name(i32::try_from(code).unwrap_or(-1)).as_bytes());
    Ok(())
}
