//! Calls whose callers leave: the future of such a call is dropped before its answer.

use super::call_pool;
use super::grpc::{Code, GrpcError};

/// Notes what became of a call if its future is dropped before [`end`](Self::end): its caller left, or the call panicked. A call that its pool
/// refuses is not noted; its caller is told.
///
/// Cost: nothing but to drop it.
pub struct IfLeft<F: FnOnce(GrpcError)>(Option<F>);

impl<F: FnOnce(GrpcError)> IfLeft<F> {
    /// Passes `note` CANCELLED if the caller left, INTERNAL if the call panicked.
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
        if call_pool::is_refusing() {
            return;
        }
        note(match std::thread::panicking() {
            true => GrpcError::panicked(),
            false => GrpcError::new(Code::Cancelled, "the caller left before the answer"),
        });
    }
}
