//! `envoy.service.auth.v3.CheckResponse`, in the combinations of fields that Envoy supports.
//! See docs/envoy.md.

mod request_headers;

pub(super) use request_headers::{RequestChange, is_valid, request_changes};

use super::http_message::{FORWARDED_ATTRIBUTES, header};
use crate::config::DenyBody;
use mixer_attribute::wire::{nested, put_bytes, put_nonempty, put_nonzero};
use mixer_base::rpc_code;
use mixer_engine::dispatch::{HeaderChange, RouteDirective};
use mixer_engine::snapshot::HeaderOperationKind;

/// Field numbers of a CheckResponse.
const STATUS: u32 = 1;
const DENIED: u32 = 2;
const OK: u32 = 3;
const METADATA: u32 = 4;
const ERROR: u32 = 5;
/// `append_action` of a HeaderValueOption.
const ADD_OR_APPEND: u64 = 0;
const OVERWRITE_OR_ADD: u64 = 2;

/// The code of a direct response without a code of its own.
const PERMISSION_DENIED: i32 = 7;

/// A decision as the proxy receives it.
pub(super) struct AuthzResponse<'d> {
    /// The status; 0 allows the request.
    pub(super) code: i32,
    pub(super) message: &'d str,
    /// The message in the body of a denial.
    pub(super) body_message: &'d str,
    pub(super) directive: Option<&'d RouteDirective>,
    /// Headers of a denial, names and values.
    pub(super) extra_headers: &'d [(&'d str, String)],
    /// The evaluation failed: the failure mode of the proxy decides.
    pub(super) failed: bool,
}

/// What of the request the response depends on.
pub(super) struct RequestInfo<'r> {
    pub(super) is_http: bool,
    pub(super) request_id: &'r [u8],
    pub(super) headers: &'r [(&'r [u8], &'r [u8])],
    pub(super) deny_body: DenyBody,
}

/// The dynamic metadata of a response.
pub(super) struct ResponseMetadata<'m> {
    pub(super) status: i32,
    pub(super) message: &'m str,
    pub(super) decision_id: &'m str,
    pub(super) rules: &'m [String],
    pub(super) cache_hit: bool,
    pub(super) shadow_status: Option<i32>,
}

/// Numbers of header operations that the answer cannot express.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Unsupported {
    /// Removals from the response.
    pub(super) response_remove: u32,
    /// Invalid header names and values.
    pub(super) invalid_header: u32,
    /// Over HTTP: headers for the response of an allowed request.
    pub(super) response_header: u32,
    /// Over HTTP: `:path` and the like.
    pub(super) pseudo_header: u32,
}

/// Appends an encoded CheckResponse.
pub(super) fn encode(
    response: &AuthzResponse<'_>,
    request: &RequestInfo<'_>,
    metadata: Option<&ResponseMetadata<'_>>,
    out: &mut Vec<u8>,
) -> Unsupported {
    let mut unsupported = Unsupported::default();
    let direct = response.directive.filter(|directive| directive.direct_response_code != 0);
    let code = match (response.code, direct) {
        (0, Some(_)) => PERMISSION_DENIED,
        (code, _) => code,
    };
    // Envoy allows a request without a status, so it is always set.
    nested(out, STATUS, |out| {
        put_nonzero(out, 1, i64::from(code).cast_unsigned());
        put_nonempty(out, 2, response.message.as_bytes());
    });
    match (code, request.is_http) {
        (0, true) => {
            nested(out, OK, |out| put_ok(response.directive, request, &mut unsupported, out));
        }
        (_, true) => {
            let field = if response.failed { ERROR } else { DENIED };
            nested(out, field, |out| put_denial(code, response, direct, request, &mut unsupported, out));
        }
        // A connection is allowed or reset; Envoy reads no other field.
        (_, false) => {}
    }
    if let Some(metadata) = metadata {
        nested(out, METADATA, |out| put_metadata(metadata, out));
    }
    unsupported
}

/// The name of a status code; `UNKNOWN` if it has none.
pub(super) fn code_name(code: i32) -> &'static str {
    rpc_code::name(code).unwrap_or("UNKNOWN")
}

/// The HTTP status of a code.
pub(super) fn http_status(code: i32) -> u32 {
    rpc_code::http_status(code).into()
}

fn put_ok(
    directive: Option<&RouteDirective>,
    request: &RequestInfo<'_>,
    unsupported: &mut Unsupported,
    out: &mut Vec<u8>,
) {
    if let Some(directive) = directive {
        put_request_changes(directive, request, unsupported, out);
        for change in &directive.response_headers {
            match change.kind {
                HeaderOperationKind::Remove => unsupported.response_remove += 1,
                _ if !is_valid(change) => unsupported.invalid_header += 1,
                HeaderOperationKind::Replace => put_header(6, change, None, OVERWRITE_OR_ADD, out),
                HeaderOperationKind::Append => put_header(6, change, None, ADD_OR_APPEND, out),
            }
        }
    }
    // The upstream must not trust attributes that the client may have sent.
    put_bytes(out, 5, FORWARDED_ATTRIBUTES);
}

fn put_request_changes(
    directive: &RouteDirective,
    request: &RequestInfo<'_>,
    unsupported: &mut Unsupported,
    out: &mut Vec<u8>,
) {
    for change in request_changes(directive) {
        match change {
            RequestChange::Remove(name) => put_bytes(out, 5, name.as_bytes()),
            RequestChange::Invalid => unsupported.invalid_header += 1,
            RequestChange::Set(change) => put_header(2, change, None, OVERWRITE_OR_ADD, out),
            RequestChange::Append(index, change) => {
                let lower = change.name.to_ascii_lowercase();
                let before = directive.request_headers.get(..index).unwrap_or_default();
                // Envoy appends only to a header of the request, or to one that this list has set.
                let exists = header(request.headers, lower.as_bytes()).is_some()
                    || before.iter().any(|other| {
                        other.kind != HeaderOperationKind::Remove
                            && other.name.eq_ignore_ascii_case(&change.name)
                    });
                put_header(2, change, exists.then_some(true), ADD_OR_APPEND, out);
            }
        }
    }
}

/// A DeniedHttpResponse.
fn put_denial(
    code: i32,
    response: &AuthzResponse<'_>,
    direct: Option<&RouteDirective>,
    request: &RequestInfo<'_>,
    unsupported: &mut Unsupported,
    out: &mut Vec<u8>,
) {
    let status = match direct {
        Some(direct) => direct.direct_response_code,
        None if response.failed => 500,
        None => http_status(code),
    };
    let status = if (200..=599).contains(&status) { status } else { 403 };
    nested(out, 1, |out| put_nonzero(out, 1, u64::from(status)));
    let json = direct.is_none() && request.deny_body == DenyBody::Json;
    if json {
        put_plain_header(2, "content-type", "application/json", out);
    }
    for (name, value) in response.extra_headers {
        put_plain_header(2, name, value, out);
    }
    for change in direct.iter().flat_map(|direct| &direct.response_headers) {
        match change.kind {
            HeaderOperationKind::Remove => unsupported.response_remove += 1,
            _ if !is_valid(change) => unsupported.invalid_header += 1,
            _ => put_plain_header(2, &change.name, &change.value, out),
        }
    }
    // Responses with these statuses have no body.
    if matches!(status, 204 | 304) {
        return;
    }
    match direct {
        Some(direct) => put_nonempty(out, 3, direct.direct_response_body.as_bytes()),
        None => put_nonempty(out, 3, body(code, response.body_message, request).as_bytes()),
    }
}

/// The body of a denial.
pub(super) fn body(code: i32, message: &str, request: &RequestInfo<'_>) -> String {
    let name = code_name(code);
    match request.deny_body {
        DenyBody::None => String::new(),
        DenyBody::Text if message.is_empty() => name.to_owned(),
        DenyBody::Text => format!("{name}:{message}"),
        DenyBody::Json => serde_json::json!({
            "code": code,
            "status": name,
            "message": message,
            "request_id": String::from_utf8_lossy(request.request_id),
        })
        .to_string(),
    }
}

fn put_header(field: u32, change: &HeaderChange, append: Option<bool>, action: u64, out: &mut Vec<u8>) {
    nested(out, field, |out| {
        nested(out, 1, |out| {
            put_bytes(out, 1, change.name.as_bytes());
            put_bytes(out, 2, change.value.as_bytes());
        });
        if let Some(append) = append {
            nested(out, 2, |out| put_nonzero(out, 1, u64::from(append)));
        }
        put_nonzero(out, 3, action);
    });
}

fn put_plain_header(field: u32, name: &str, value: &str, out: &mut Vec<u8>) {
    nested(out, field, |out| {
        nested(out, 1, |out| {
            put_bytes(out, 1, name.as_bytes());
            put_bytes(out, 2, value.as_bytes());
        });
    });
}

/// A Struct. Access logs drop numbers, so the code is written by name as well.
fn put_metadata(metadata: &ResponseMetadata<'_>, out: &mut Vec<u8>) {
    put_number("mixer_status", metadata.status, out);
    put_text("mixer_code", code_name(metadata.status), out);
    if !metadata.message.is_empty() {
        put_text("mixer_message", metadata.message, out);
    }
    put_text("mixer_decision_id", metadata.decision_id, out);
    if !metadata.rules.is_empty() {
        put_field("mixer_rules", out, |out| {
            nested(out, 6, |out| {
                for rule in metadata.rules {
                    nested(out, 1, |out| put_bytes(out, 3, rule.as_bytes()));
                }
            });
        });
    }
    put_text("mixer_cache", if metadata.cache_hit { "hit" } else { "miss" }, out);
    if let Some(status) = metadata.shadow_status {
        put_number("mixer_shadow_status", status, out);
        put_text("mixer_shadow_code", code_name(status), out);
    }
}

fn put_field(name: &str, out: &mut Vec<u8>, value: impl FnOnce(&mut Vec<u8>)) {
    nested(out, 1, |out| {
        put_bytes(out, 1, name.as_bytes());
        nested(out, 2, value);
    });
}

fn put_text(name: &str, text: &str, out: &mut Vec<u8>) {
    put_field(name, out, |out| put_bytes(out, 3, text.as_bytes()));
}

fn put_number(name: &str, number: i32, out: &mut Vec<u8>) {
    put_field(name, out, |out| {
        // Tag of field 2 with wire type 1.
        out.push(2 << 3 | 1);
        out.extend_from_slice(&f64::from(number).to_bits().to_le_bytes());
    });
}

#[cfg(test)]
mod tests;
