//! Failed calls and the names of status codes.

use mixer_base::rpc_code;

/// The gRPC status of a failed call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RpcError {
    /// gRPC status code.
    pub(crate) code: i32,
    /// Message.
    pub(crate) message: String,
}

/// `PERMISSION_DENIED`, else `Code 99`.
pub(crate) fn status_code_name(code: i32) -> String {
    rpc_code::name(code).map_or_else(|| format!("Code {code}"), str::to_owned)
}

/// `PermissionDenied`, else `Code(99)`.
pub(crate) fn rpc_code_name(code: i32) -> String {
    rpc_code::camel_name(code).map_or_else(|| format!("Code({code})"), str::to_owned)
}
