//! Checks with the answers of the measured configurations.

use mixer_attribute::GLOBAL_WORDS;
use mixer_attribute::request::{CheckCall, encode_check_request};

use super::attributes;

/// OK.
const OK: i32 = 0;
/// PERMISSION_DENIED.
const DENIED: i32 = 7;

/// A CheckRequest and the status code of its answer.
pub(crate) struct Check {
    /// The encoded CheckRequest.
    pub(crate) body: Vec<u8>,
    /// The expected status code.
    pub(crate) code: i32,
}

/// Checks of the sample configuration. Every eighth is denied.
pub(crate) fn of_sample(count: usize) -> Vec<Check> {
    let service = "productpage.default.svc.cluster.local";
    let check =
        |number: usize| encode(number, service, "istio-system", if number % 8 == 7 { DENIED } else { OK });
    (0..count).map(check).collect()
}

/// Checks of generated rules: each matches the first term of one rule, and every fourth also the second, and is denied.
pub(crate) fn of_rules(count: usize, rules: usize) -> Vec<Check> {
    let check = |number: usize| {
        let rule = number.wrapping_mul(7919) % rules.max(1);
        let refused = number % 4 == 3;
        let namespace = if refused { super::rules::tenant(rule) } else { "elsewhere".to_owned() };
        encode(number, &super::rules::service(rule), &namespace, if refused { DENIED } else { OK })
    };
    (0..count).map(check).collect()
}

fn encode(number: usize, service: &str, namespace: &str, code: i32) -> Check {
    let attributes = attributes::request(number, service, namespace);
    let words = u32::try_from(GLOBAL_WORDS.len()).unwrap_or(0);
    Check { body: encode_check_request(&attributes, words, &CheckCall::default()), code }
}
