//! Names of gRPC status codes, which are those of `google.rpc.Code`.

/// Names by number: in `google.rpc.Code`, and in grpc-go.
const CODES: [(&str, &str); 17] = [
    ("OK", "OK"),
    ("CANCELLED", "Canceled"),
    ("UNKNOWN", "Unknown"),
    ("INVALID_ARGUMENT", "InvalidArgument"),
    ("DEADLINE_EXCEEDED", "DeadlineExceeded"),
    ("NOT_FOUND", "NotFound"),
    ("ALREADY_EXISTS", "AlreadyExists"),
    ("PERMISSION_DENIED", "PermissionDenied"),
    ("RESOURCE_EXHAUSTED", "ResourceExhausted"),
    ("FAILED_PRECONDITION", "FailedPrecondition"),
    ("ABORTED", "Aborted"),
    ("OUT_OF_RANGE", "OutOfRange"),
    ("UNIMPLEMENTED", "Unimplemented"),
    ("INTERNAL", "Internal"),
    ("UNAVAILABLE", "Unavailable"),
    ("DATA_LOSS", "DataLoss"),
    ("UNAUTHENTICATED", "Unauthenticated"),
];

/// Number of codes; they start at 0.
pub const COUNT: usize = CODES.len();

fn names(code: i32) -> Option<&'static (&'static str, &'static str)> {
    CODES.get(usize::try_from(code).ok()?)
}

/// For example `PERMISSION_DENIED`; `None` for unknown codes.
pub fn name(code: i32) -> Option<&'static str> {
    names(code).map(|(name, _)| *name)
}

/// For example `PermissionDenied`; `None` for unknown codes.
pub fn camel_name(code: i32) -> Option<&'static str> {
    names(code).map(|(_, camel)| *camel)
}

/// The HTTP status that proxies answer a refusal with.
pub fn http_status(code: i32) -> u16 {
    match code {
        0 => 200,
        1 => 499,
        3 | 9 | 11 => 400,
        4 => 504,
        5 => 404,
        6 | 10 => 409,
        7 => 403,
        8 => 429,
        12 => 501,
        14 => 503,
        16 => 401,
        _ => 500,
    }
}

/// Parses a name, ignoring case, or a number.
pub fn parse(text: &str) -> Option<i32> {
    let named = CODES.iter().position(|(name, _)| name.eq_ignore_ascii_case(text));
    named.and_then(|at| i32::try_from(at).ok()).or_else(|| text.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_agree() {
        assert_eq!((name(7), camel_name(7)), (Some("PERMISSION_DENIED"), Some("PermissionDenied")));
        assert_eq!((name(16), name(17), name(-1)), (Some("UNAUTHENTICATED"), None, None));
        assert_eq!((parse("not_found"), parse("99"), parse("nope")), (Some(5), Some(99), None));
    }
}
