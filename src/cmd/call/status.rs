//! Failed calls and the names of status codes.

use crate::cmd::exit::{Exit, Failure};
use mixer_base::rpc_code;

/// The gRPC status of a failed call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RpcError {
    /// gRPC status code.
    pub(crate) code: i32,
    /// Message.
    pub(crate) message: String,
}

impl RpcError {
    /// A failed call as the failure of a command. `call` is `Check` or `Report`.
    pub(crate) fn failure(&self, call: &str) -> Failure {
        let is_late = self.code == i32::from(tonic::Code::DeadlineExceeded);
        let exit = if is_late { Exit::Deadline } else { Exit::Rpc };
        let failure = Failure::new(exit, format!("{call} RPC failed with {}", rpc_code_name(self.code)));
        if self.message.is_empty() { failure } else { failure.cause(&self.message) }
    }
}

/// `PERMISSION_DENIED`, else `Code 99`.
pub(crate) fn status_code_name(code: i32) -> String {
    rpc_code::name(code).map_or_else(|| format!("Code {code}"), str::to_owned)
}

/// `PermissionDenied`, else `Code(99)`.
pub(crate) fn rpc_code_name(code: i32) -> String {
    rpc_code::camel_name(code).map_or_else(|| format!("Code({code})"), str::to_owned)
}
