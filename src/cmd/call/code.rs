//! Names of status codes.

/// A code: number, name in `google.rpc.Code`, name in the originals' RPC library.
const CODES: [(i32, &str, &str); 17] = [
    (0, "OK", "OK"),
    (1, "CANCELLED", "Canceled"),
    (2, "UNKNOWN", "Unknown"),
    (3, "INVALID_ARGUMENT", "InvalidArgument"),
    (4, "DEADLINE_EXCEEDED", "DeadlineExceeded"),
    (5, "NOT_FOUND", "NotFound"),
    (6, "ALREADY_EXISTS", "AlreadyExists"),
    (7, "PERMISSION_DENIED", "PermissionDenied"),
    (8, "RESOURCE_EXHAUSTED", "ResourceExhausted"),
    (9, "FAILED_PRECONDITION", "FailedPrecondition"),
    (10, "ABORTED", "Aborted"),
    (11, "OUT_OF_RANGE", "OutOfRange"),
    (12, "UNIMPLEMENTED", "Unimplemented"),
    (13, "INTERNAL", "Internal"),
    (14, "UNAVAILABLE", "Unavailable"),
    (15, "DATA_LOSS", "DataLoss"),
    (16, "UNAUTHENTICATED", "Unauthenticated"),
];

/// `PERMISSION_DENIED`, else `Code 99`.
pub(crate) fn status_code_name(code: i32) -> String {
    let known = CODES.iter().find(|(number, ..)| *number == code);
    known.map_or_else(|| format!("Code {code}"), |(_, name, _)| (*name).to_owned())
}

/// `PermissionDenied`, else `Code(99)`.
pub(crate) fn rpc_code_name(code: i32) -> String {
    let known = CODES.iter().find(|(number, ..)| *number == code);
    known.map_or_else(|| format!("Code({code})"), |(.., name)| (*name).to_owned())
}
