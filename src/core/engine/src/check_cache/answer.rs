//! The cached form of an answer of Mixer's Check API.

use std::sync::Arc;

use mixer_attribute::SignedDuration;
use mixer_attribute::response::{Precondition, push_precondition};

use super::{ALLOCATION_BYTES, CachedAnswer};
use crate::routing::Refuser;
use crate::secret_values::SecretValues;

/// A check answer, encoded except for its duration and framing.
#[derive(Debug)]
pub struct CheckAnswer {
    /// Code of `google.rpc.Status`.
    pub status_code: i32,
    /// Message of `google.rpc.Status`.
    pub status_message: String,
    /// The rule that refuses the request.
    pub refused_by: Option<Refuser>,
    /// How often the answer may be used.
    pub valid_use_count: i32,
    /// The encoded referenced attributes.
    pub references: Vec<u8>,
    /// The encoded route directive.
    pub directive: Option<Vec<u8>>,
    /// The secret values that generators made, which the request of a later call does not tell of.
    pub made_secrets: Option<Arc<SecretValues>>,
}

impl CachedAnswer for CheckAnswer {
    fn size(&self) -> usize {
        let texts =
            [self.status_message.len(), self.references.len(), self.directive.as_ref().map_or(0, Vec::len)];
        let made = self.made_secrets.as_ref().map_or(0, |made| made.heap_bytes() + size_of::<SecretValues>());
        made + texts.iter().filter(|bytes| **bytes > 0).map(|bytes| bytes + ALLOCATION_BYTES).sum::<usize>()
    }
}

impl CheckAnswer {
    /// Appends the precondition result of a CheckResponse to `out`.
    pub fn push(&self, valid: SignedDuration, out: &mut Vec<u8>) {
        let precondition = Precondition {
            status_code: self.status_code,
            status_message: &self.status_message,
            valid_duration: valid,
            valid_use_count: self.valid_use_count,
            route_directive: self.directive.as_deref(),
        };
        push_precondition(out, &precondition, |out| out.extend_from_slice(&self.references));
    }
}
