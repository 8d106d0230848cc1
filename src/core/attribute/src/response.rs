//! Check responses, encoded into the caller's buffer.
//!
//! A response is written part by part with [`push_precondition`] and [`push_quota`]; the references of each part are written
//! by a callback, usually [`AttributeBag::encode_references`](super::AttributeBag::encode_references).
//! A ReportResponse is empty and needs no encoder.

use super::SignedDuration;
use super::wire::{nested, put_bytes, put_duration, put_nonempty, put_nonzero};

/// How a header is changed. The discriminants are the wire values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum HeaderAction {
    /// Sets the header, replacing any value.
    #[default]
    Replace = 0,
    /// Removes the header.
    Remove = 1,
    /// Adds a value to the header.
    Append = 2,
}

/// One change to the headers of a request or response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeaderOperation<'r> {
    /// Header name.
    pub name: &'r str,
    /// Header value; empty for a removal.
    pub value: &'r str,
    /// The change.
    pub action: HeaderAction,
}

/// Changes to headers and a direct response, to be applied by the proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RouteDirective<'r, Q, P> {
    /// Changes to the request, in order: an iterator of [`HeaderOperation`].
    pub request_headers: Q,
    /// Changes to the response, in order: an iterator of [`HeaderOperation`].
    pub response_headers: P,
    /// The HTTP status of a direct response; 0 for none.
    pub direct_response_code: u32,
    /// The body of the direct response.
    pub direct_response_body: &'r str,
}

impl<'r, Q, P> RouteDirective<'r, Q, P>
where
    Q: IntoIterator<Item = HeaderOperation<'r>>,
    P: IntoIterator<Item = HeaderOperation<'r>>,
{
    /// Appends the encoded message, for [`Precondition::route_directive`].
    pub fn encode(self, out: &mut Vec<u8>) {
        self.request_headers.into_iter().for_each(|operation| header_operation(out, 1, operation));
        self.response_headers.into_iter().for_each(|operation| header_operation(out, 2, operation));
        put_nonzero(out, 3, u64::from(self.direct_response_code));
        put_nonempty(out, 4, self.direct_response_body.as_bytes());
    }
}

fn header_operation(out: &mut Vec<u8>, field: u32, operation: HeaderOperation<'_>) {
    nested(out, field, |out| {
        put_nonempty(out, 1, operation.name.as_bytes());
        put_nonempty(out, 2, operation.value.as_bytes());
        put_nonzero(out, 3, operation.action as u64);
    });
}

/// The result of the precondition check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Precondition<'r> {
    /// The gRPC code; 0 is OK.
    pub status_code: i32,
    /// The status message.
    pub status_message: &'r str,
    /// How long the result may be cached.
    pub valid_duration: SignedDuration,
    /// How often the cached result may be used.
    pub valid_use_count: i32,
    /// An encoded [`RouteDirective`]; `None` for none.
    pub route_directive: Option<&'r [u8]>,
}

/// Appends the `precondition` of a CheckResponse. `references` appends the encoded ReferencedAttributes.
pub fn push_precondition(
    out: &mut Vec<u8>,
    precondition: &Precondition<'_>,
    references: impl FnOnce(&mut Vec<u8>),
) {
    nested(out, 2, |out| {
        nested(out, 1, |out| {
            put_nonzero(out, 1, i64::from(precondition.status_code).cast_unsigned());
            put_nonempty(out, 2, precondition.status_message.as_bytes());
        });
        put_duration(out, 2, precondition.valid_duration);
        put_nonzero(out, 3, i64::from(precondition.valid_use_count).cast_unsigned());
        nested(out, 5, references);
        if let Some(directive) = precondition.route_directive {
            put_bytes(out, 6, directive);
        }
    });
}

/// Appends another `precondition` that has only a `valid_use_count`, of 0. Protobuf merges the two: proxies do not reuse the answer, for
/// what became known after the first one was encoded.
pub fn forbid_reuse(out: &mut Vec<u8>) {
    // The encoder of messages leaves zeros out.
    put_bytes(out, 2, &[3 << 3, 0]);
}

/// The result of a quota allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QuotaGrant {
    /// How long the grant is valid.
    pub valid_duration: SignedDuration,
    /// The granted amount.
    pub granted_amount: i64,
}

/// Appends one entry of the `quotas` of a CheckResponse. `references` appends the encoded ReferencedAttributes.
pub fn push_quota(out: &mut Vec<u8>, name: &str, grant: QuotaGrant, references: impl FnOnce(&mut Vec<u8>)) {
    nested(out, 3, |out| {
        put_nonempty(out, 1, name.as_bytes());
        nested(out, 2, |out| {
            put_duration(out, 1, grant.valid_duration);
            put_nonzero(out, 2, grant.granted_amount.cast_unsigned());
            nested(out, 5, references);
        });
    });
}

#[cfg(test)]
mod tests;
