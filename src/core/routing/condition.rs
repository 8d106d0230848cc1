//! Conditions that several rules share.

use std::sync::Arc;

use crate::core::expr::Program;

/// A distinct condition and the routes that it guards.
#[derive(Debug)]
pub(super) struct SharedCondition {
    pub(super) program: Arc<Program>,
    pub(super) routes: Vec<u32>,
    /// Some route wants to hear of an error in the condition.
    pub(super) wants_errors: bool,
}
