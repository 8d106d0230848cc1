//! What an answer says of a request.

use std::rc::Rc;
use std::time::{Duration, Instant};

use mixer_wire::istio::mixer::v1 as wire;

use crate::cache::{CachedValue, Lifetime};

/// The code UNAVAILABLE, which is never cached.
const UNAVAILABLE: i32 = 14;
/// The code INVALID_ARGUMENT.
const INVALID_ARGUMENT: i32 = 3;

/// A change to a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderEdit {
    /// In lower case.
    pub name: String,
    /// Empty for a removal.
    pub value: String,
    /// What is done.
    pub action: wire::header_operation::Operation,
}

/// What a proxy does with a request or its response.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Directive {
    /// Changes to the request, in order.
    pub request: Vec<HeaderEdit>,
    /// Changes to the response, in order.
    pub response: Vec<HeaderEdit>,
    /// Status and body of a direct response.
    pub direct: Option<(u32, String)>,
}

/// What an answer says of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verdict {
    /// The code of gRPC; 0 is OK.
    pub code: i32,
    /// The message of a refusal.
    pub message: String,
    /// What a proxy does besides.
    pub directive: Option<Directive>,
    valid: Option<Duration>,
    /// Negative for no limit.
    uses: i32,
}

impl Verdict {
    /// The verdict of an answer. One without a precondition is INVALID_ARGUMENT, and is not cached.
    pub fn of(answer: &wire::CheckResponse) -> Self {
        let Some(precondition) = &answer.precondition else {
            return Self {
                code: INVALID_ARGUMENT,
                message: "CheckResponse doesn't have PreconditionResult".to_owned(),
                ..Self::default()
            };
        };
        let status = precondition.status.as_ref();
        Self {
            code: status.map_or(0, |status| status.code),
            message: status.map_or_else(String::new, |status| status.message.clone()),
            directive: precondition.route_directive.as_ref().map(Directive::of),
            valid: precondition.valid_duration.as_ref().map(duration),
            uses: precondition.valid_use_count,
        }
    }

    /// Whether the request is allowed.
    pub fn is_ok(&self) -> bool {
        self.code == 0
    }

    /// How long and how often the answer to a request that was sent at `since` may be used. `None` if it is for that request only.
    ///
    /// A validity counts from when the request was sent, in whole milliseconds: an answer is never used longer than the server allows.
    /// Without one the answer does not expire. A use count of 0 allows no use, a negative one any number.
    pub fn lifetime(&self, since: Instant) -> Option<Lifetime> {
        if self.code == UNAVAILABLE || self.uses == 0 {
            return None;
        }
        let expires = match self.valid {
            None => None,
            Some(valid) => {
                let millis = u64::try_from(valid.as_millis()).ok().filter(|millis| *millis > 0)?;
                // One that is too far to be represented is not reached.
                since.checked_add(Duration::from_millis(millis))
            }
        };
        Some(Lifetime { since, expires, uses: u32::try_from(self.uses).ok() })
    }
}

/// A duration of protobuf; 0 for a negative one.
pub(crate) fn duration(message: &prost_types::Duration) -> Duration {
    let seconds = u64::try_from(message.seconds).unwrap_or(0);
    let nanos = u32::try_from(message.nanos).unwrap_or(0);
    if message.seconds < 0 || message.nanos < 0 {
        return Duration::ZERO;
    }
    Duration::new(seconds, nanos.min(999_999_999))
}

impl Directive {
    fn of(message: &wire::RouteDirective) -> Self {
        let edits = |operations: &[wire::HeaderOperation]| {
            // An operation that is not known is none.
            let edit = |operation: &wire::HeaderOperation| {
                Some(HeaderEdit {
                    name: operation.name.to_ascii_lowercase(),
                    value: operation.value.clone(),
                    action: operation.operation.try_into().ok()?,
                })
            };
            operations.iter().filter_map(edit).collect()
        };
        Self {
            request: edits(&message.request_header_operations),
            response: edits(&message.response_header_operations),
            direct: (message.direct_response_code != 0)
                .then(|| (message.direct_response_code, message.direct_response_body.clone())),
        }
    }
}

impl CachedValue for Rc<Verdict> {
    fn heap_bytes(&self) -> usize {
        let edits = |edits: &[HeaderEdit]| -> usize {
            edits.iter().map(|edit| size_of::<HeaderEdit>() + edit.name.len() + edit.value.len()).sum()
        };
        let directive = self.directive.as_ref().map_or(0, |directive| {
            edits(&directive.request)
                + edits(&directive.response)
                + directive.direct.as_ref().map_or(0, |(_, body)| body.len())
        });
        size_of::<Verdict>() + 2 * size_of::<usize>() + self.message.len() + directive
    }
}
