//! The result of one check.

use crate::cmd::call::RpcError;
use mixer_engine::explain::Explanation;
use mixer_wire::istio::mixer::v1::CheckResponse;

/// The response and, with `--explain`, the explanation.
#[derive(Debug)]
pub(super) struct CheckResult {
    pub(super) response: Result<CheckResponse, RpcError>,
    /// `None` without `--explain`.
    pub(super) explanation: Option<Result<Explanation, RpcError>>,
}
