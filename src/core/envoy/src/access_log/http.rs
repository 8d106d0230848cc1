//! `HTTPAccessLogEntry`.

use bumpalo::collections::Vec as ArenaVec;

use super::codes;
use super::common::Common;
use crate::attributes::{Attributes, Known};
use crate::http_message::{FORWARDED_ATTRIBUTES, header, protocol, set_path};
use crate::wire::{FieldBudget, FieldValue, int64, wrapped};
use mixer_attribute::{DecodeError, SignedDuration, Timestamp, Value};

type Pairs<'a> = &'a [(&'a [u8], &'a [u8])];

/// The fields of request and response.
#[derive(Default)]
pub(super) struct HttpEntry<'a> {
    protocol: u64,
    method: u64,
    scheme: &'a [u8],
    authority: &'a [u8],
    rewritten_path: &'a [u8],
    user_agent: &'a [u8],
    referer: &'a [u8],
    forwarded_for: &'a [u8],
    request_id: &'a [u8],
    original_path: &'a [u8],
    request_header_bytes: u64,
    request_body_bytes: u64,
    logged_headers: Pairs<'a>,
    /// Logged headers, and those that the entry has as fields.
    pub(super) request_headers: Pairs<'a>,
    code: u64,
    response_header_bytes: u64,
    response_body_bytes: u64,
    /// Headers, then trailers.
    pub(super) response_headers: Pairs<'a>,
    trailers: Pairs<'a>,
    pub(super) details: &'a [u8],
}

impl<'a> HttpEntry<'a> {
    /// The path that the client sent.
    pub(super) fn path(&self) -> &'a [u8] {
        if self.original_path.is_empty() { self.rewritten_path } else { self.original_path }
    }

    /// The status; 500 if the client disconnected before the response.
    pub(super) fn status(&self) -> u64 {
        if self.code == 0 { 500 } else { self.code }
    }
}

pub(super) fn read<'a>(
    protocol: u64,
    (request, response): (&'a [u8], &'a [u8]),
    budget: &FieldBudget,
    out: &Attributes<'a>,
) -> Result<HttpEntry<'a>, DecodeError> {
    let mut http = HttpEntry { protocol, ..HttpEntry::default() };
    let arena = out.arena();
    let mut logged = ArenaVec::new_in(arena);
    budget.each_field(request, |number, value| {
        match (number, value) {
            (1, FieldValue::Varint(number)) => http.method = number,
            (11, FieldValue::Varint(number)) => http.request_header_bytes = number,
            (12, FieldValue::Varint(number)) => http.request_body_bytes = number,
            (13, FieldValue::Bytes(entry)) => logged.push(budget.map_entry(entry)?),
            (2, FieldValue::Bytes(bytes)) => http.scheme = bytes,
            (3, FieldValue::Bytes(bytes)) => http.authority = bytes,
            (5, FieldValue::Bytes(bytes)) => http.rewritten_path = bytes,
            (6, FieldValue::Bytes(bytes)) => http.user_agent = bytes,
            (7, FieldValue::Bytes(bytes)) => http.referer = bytes,
            (8, FieldValue::Bytes(bytes)) => http.forwarded_for = bytes,
            (9, FieldValue::Bytes(bytes)) => http.request_id = bytes,
            (10, FieldValue::Bytes(bytes)) => http.original_path = bytes,
            _ => {}
        }
        Ok(())
    })?;
    http.logged_headers = logged.into_bump_slice();
    let (mut headers, mut trailers) = (ArenaVec::new_in(arena), ArenaVec::new_in(arena));
    budget.each_field(response, |number, value| {
        match (number, value) {
            (1, FieldValue::Bytes(bytes)) => http.code = wrapped(bytes),
            (2, FieldValue::Varint(number)) => http.response_header_bytes = number,
            (3, FieldValue::Varint(number)) => http.response_body_bytes = number,
            (4, FieldValue::Bytes(entry)) => headers.push(budget.map_entry(entry)?),
            (5, FieldValue::Bytes(entry)) => trailers.push(budget.map_entry(entry)?),
            (6, FieldValue::Bytes(bytes)) => http.details = bytes,
            _ => {}
        }
        Ok(())
    })?;
    http.trailers = trailers.into_bump_slice();
    let mut status = ArenaVec::new_in(arena);
    status.extend_from_slice(http.status().to_string().as_bytes());
    let mut all = ArenaVec::with_capacity_in(headers.len() + http.trailers.len() + 1, arena);
    all.extend_from_slice(&headers);
    if http.code != 0 {
        all.push((&b":status"[..], status.into_bump_slice()));
    }
    all.extend_from_slice(http.trailers);
    http.response_headers = all.into_bump_slice();
    http.request_headers = complete_headers(&http, arena);
    Ok(http)
}

/// The logged headers, completed from the fields of the entry.
fn complete_headers<'a>(http: &HttpEntry<'a>, arena: &'a bumpalo::Bump) -> Pairs<'a> {
    let mut all = ArenaVec::with_capacity_in(http.logged_headers.len() + 8, arena);
    all.extend(http.logged_headers.iter().copied().filter(|(name, _)| *name != FORWARDED_ATTRIBUTES));
    for (name, value) in [
        (&b":method"[..], codes::method(http.method)),
        (b":path", http.path()),
        (b":authority", http.authority),
        (b":scheme", http.scheme),
        (b"user-agent", http.user_agent),
        (b"referer", http.referer),
        (b"x-forwarded-for", http.forwarded_for),
        (b"x-request-id", http.request_id),
    ] {
        if !value.is_empty() && header(&all, name).is_none() {
            all.push((name, value));
        }
    }
    all.into_bump_slice()
}

pub(super) fn set<'a>(http: &HttpEntry<'a>, common: &Common<'a>, out: &mut Attributes<'a>) {
    set_request(http, common, out);
    set_response(http, out);
    if let Some(start) = common.start {
        out.set(Known::RequestTime, Value::Timestamp(start));
        if let Some(took) = common.took() {
            out.set(Known::ResponseTime, Value::Timestamp(after(start, took)));
        }
    }
    if let Some(took) = common.took() {
        out.set(Known::ResponseDuration, Value::Duration(took));
    }
}

fn set_request<'a>(http: &HttpEntry<'a>, common: &Common<'a>, out: &mut Attributes<'a>) {
    out.some_text(Known::RequestMethod, codes::method(http.method));
    set_path(http.path(), out);
    if !http.original_path.is_empty() {
        out.some_text(Known::RewrittenPath, http.rewritten_path);
    }
    out.text(Known::RequestHost, http.authority);
    out.text(Known::RequestScheme, if http.scheme.is_empty() { b"http" } else { http.scheme });
    out.some_text(Known::RequestUserAgent, http.user_agent);
    out.some_text(Known::RequestReferer, http.referer);
    let id = if http.request_id.is_empty() { common.stream_id } else { http.request_id };
    out.some_text(Known::RequestId, id);
    let mut headers = ArenaVec::with_capacity_in(http.request_headers.len(), out.arena());
    headers.extend_from_slice(http.request_headers);
    out.map(Known::RequestHeaders, headers);
    out.number(Known::RequestSize, int64(http.request_body_bytes));
    let total = http.request_body_bytes.saturating_add(http.request_header_bytes);
    out.number(Known::RequestTotalSize, int64(total));
    out.text(
        Known::ContextProtocol,
        protocol(header(http.logged_headers, b"content-type").unwrap_or_default()),
    );
    out.some_text(Known::HttpProtocol, codes::http_version(http.protocol));
}

fn set_response<'a>(http: &HttpEntry<'a>, out: &mut Attributes<'a>) {
    out.number(Known::ResponseCode, int64(http.status()));
    let mut headers = ArenaVec::with_capacity_in(http.response_headers.len(), out.arena());
    headers.extend_from_slice(http.response_headers);
    out.map(Known::ResponseHeaders, headers);
    out.number(Known::ResponseSize, int64(http.response_body_bytes));
    let total = http.response_body_bytes.saturating_add(http.response_header_bytes);
    out.number(Known::ResponseTotalSize, int64(total));
    let value = |name| header(http.trailers, name).or_else(|| header(http.response_headers, name));
    if let Some(status) = value(b"grpc-status") {
        out.text(Known::ResponseGrpcStatus, status);
        out.text(Known::ResponseGrpcMessage, value(b"grpc-message").unwrap_or_default());
    }
    out.some_text(Known::ResponseCodeDetails, http.details);
}

/// The sum of a timestamp and a duration.
fn after(start: Timestamp, took: SignedDuration) -> Timestamp {
    const SECOND: i64 = 1_000_000_000;
    let nanos = i64::from(start.nanos) + took.nanos % SECOND;
    Timestamp {
        seconds: start.seconds + took.nanos / SECOND + nanos / SECOND,
        nanos: u32::try_from(nanos % SECOND).unwrap_or(0),
    }
}
