//! Names of status codes.

use mixer_base::rpc_code;

/// `PERMISSION_DENIED`, else `Code 99`.
pub(crate) fn status_code_name(code: i32) -> String {
    rpc_code::name(code).map_or_else(|| format!("Code {code}"), str::to_owned)
}

/// `PermissionDenied`, else `Code(99)`.
pub(crate) fn rpc_code_name(code: i32) -> String {
    rpc_code::camel_name(code).map_or_else(|| format!("Code({code})"), str::to_owned)
}
