//! Answered calls, as the workers hand them to the decision log.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::AnswerFailure;
use crate::dispatch::DispatchTrace;

pub use mixer_attribute::CALLER_PRINCIPAL;

/// What the allocator adds to the box of a call and to its texts, and its place in the queue.
const ALLOCATIONS: usize = 6 * 16 + 64;

/// The client of a call.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallerText {
    /// `host:port`, or `unix`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub address: String,
    /// The name in its certificate, empty without certificate; `None` if client certificates are not requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
}

/// The method of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Method {
    /// Is this request allowed?
    #[default]
    Check,
    /// Telemetry about past requests.
    Report,
    /// Is this request within its rate limits? Allocates quotas only.
    Limit,
}

/// The message of an answer, without its framing.
#[derive(Debug, Clone)]
pub struct CallAnswer(pub Bytes);

/// An answered call.
#[derive(Debug, Clone)]
pub struct AnsweredCall {
    /// The method.
    pub method: Method,
    /// When it arrived.
    pub time: SystemTime,
    /// How long it took.
    pub took: Duration,
    /// The client; `None` for calls made in this process.
    pub caller: Option<CallerText>,
    /// The request.
    pub body: Bytes,
    /// The answer, or why the call failed.
    pub answer: Result<CallAnswer, AnswerFailure>,
    /// The trace of its dispatch.
    pub trace: DispatchTrace,
}

impl AnsweredCall {
    /// Memory in bytes, with what the allocator adds.
    pub(super) fn size(&self) -> usize {
        let answer = match &self.answer {
            Ok(answer) => answer.0.len(),
            Err(failure) => failure.name.len() + failure.message.len(),
        };
        let caller = self.caller.as_ref();
        let caller = caller.map_or(0, |c| c.address.len() + c.principal.as_ref().map_or(0, String::len));
        size_of::<Self>() + self.body.len() + answer + caller + self.trace.heap_bytes() + ALLOCATIONS
    }
}
