//! Calls whose callers leave: the future of such a call is dropped before its answer.

use super::call_pool;
use super::grpc::{Code, GrpcError};

/// Notes what became of a call if its future is dropped before [`end`](Self::end): its caller left, the call panicked, or its pool refused it.
///
/// Cost: nothing but to drop it.
pub struct IfLeft<F: FnOnce(GrpcError)>(Option<F>);

impl<F: FnOnce(GrpcError)> IfLeft<F> {
    /// Passes `note` CANCELLED if the caller left, INTERNAL if the call panicked, and otherwise what the caller is told of the refusal.
    pub fn new(note: F) -> Self {
        Self(Some(note))
    }

    /// The call has ended otherwise.
    pub fn end(mut self) {
        self.0 = None;
    }
}

impl<F: FnOnce(GrpcError)> Drop for IfLeft<F> {
    fn drop(&mut self) {
        let Some(note) = self.0.take() else { return };
        let left = || GrpcError::new(Code::Cancelled, "the caller left before the answer");
        note(match std::thread::panicking() {
            true => GrpcError::panicked(),
            false => call_pool::refusal().unwrap_or_else(left),
        });
    }
}
