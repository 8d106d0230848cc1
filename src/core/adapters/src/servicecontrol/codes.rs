//! Codes of Google's errors and of HTTP, as codes of gRPC.

pub(super) const OK: i32 = 0;
pub(super) const INVALID_ARGUMENT: i32 = 3;
pub(super) const PERMISSION_DENIED: i32 = 7;

/// The code for that of an error of a check.
pub(super) fn of_check_error(code: &str) -> i32 {
    match code {
        "NOT_FOUND" => 5,
        "PERMISSION_DENIED" | "SECURITY_POLICY_VIOLATED" => PERMISSION_DENIED,
        "RESOURCE_EXHAUSTED" | "BUDGET_EXCEEDED" | "LOAD_SHEDDING" | "ABUSER_DETECTED" => 8,
        "SERVICE_NOT_ACTIVATED"
        | "VISIBILITY_DENIED"
        | "BILLING_DISABLED"
        | "PROJECT_DELETED"
        | "PROJECT_INVALID"
        | "IP_ADDRESS_BLOCKED"
        | "REFERER_BLOCKED"
        | "CLIENT_APP_BLOCKED"
        | "API_TARGET_BLOCKED"
        | "LOAS_PROJECT_DISABLED"
        | "SERVICE_STATUS_UNAVAILABLE"
        | "BILLING_STATUS_UNAVAILABLE"
        | "QUOTA_CHECK_UNAVAILABLE"
        | "LOAS_PROJECT_LOOKUP_UNAVAILABLE"
        | "CLOUD_RESOURCE_MANAGER_BACKEND_UNAVAILABLE"
        | "SECURITY_POLICY_BACKEND_UNAVAILABLE" => 14,
        "API_KEY_INVALID" | "API_KEY_EXPIRED" | "API_KEY_NOT_FOUND" | "SPATULA_HEADER_INVALID" => {
            INVALID_ARGUMENT
        }
        _ => 2,
    }
}

/// The code for a status of HTTP.
pub(super) fn of_http(status: i64) -> i32 {
    match status {
        400 => INVALID_ARGUMENT,
        401 => 16,
        403 => PERMISSION_DENIED,
        404 => 5,
        409 => 6,
        429 => 8,
        499 => 1,
        500 => 13,
        501 => 12,
        503 => 14,
        504 => 4,
        200..=300 => OK,
        _ if (400..500).contains(&status) => 9,
        _ => 2,
    }
}
