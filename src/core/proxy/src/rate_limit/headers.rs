//! The headers `x-ratelimit-…`: what is left of the limits of a request, in the form of the draft 03 of RateLimit fields for HTTP.

use std::fmt::Write as _;

use mixer_wire::envoy::service::ratelimit::v3::rate_limit_response::DescriptorStatus;
use mixer_wire::envoy::service::ratelimit::v3::rate_limit_response::rate_limit::Unit;

use super::added;
use crate::header_changes::Change;

/// The headers for the limit of which the least is left, and the policies of all.
pub(super) fn limits(statuses: &[DescriptorStatus]) -> Vec<Change> {
    let limits = statuses.iter().filter_map(|status| Some((status, status.current_limit.as_ref()?)));
    let mut least: Option<(&DescriptorStatus, u32)> = None;
    let mut policies = String::new();
    for (status, limit) in limits {
        if least.is_none_or(|(least, _)| status.limit_remaining < least.limit_remaining) {
            least = Some((status, limit.requests_per_unit));
        }
        if let Some(seconds) = seconds(limit.unit()) {
            // Writing to a string does not fail.
            let _ = write!(policies, ", {};w={seconds}", limit.requests_per_unit);
            if !limit.name.is_empty() {
                let _ = write!(policies, ";name=\"{}\"", limit.name);
            }
        }
    }
    let Some((status, limit)) = least else { return Vec::new() };
    let reset = status.duration_until_reset.as_ref().map_or(0, |duration| duration.seconds);
    vec![
        added("x-ratelimit-limit", &format!("{limit}{policies}")),
        added("x-ratelimit-remaining", &status.limit_remaining.to_string()),
        added("x-ratelimit-reset", &reset.to_string()),
    ]
}

/// The length of a window.
fn seconds(unit: Unit) -> Option<u32> {
    const DAY: u32 = 24 * 60 * 60;
    Some(match unit {
        Unit::Unknown => return None,
        Unit::Second => 1,
        Unit::Minute => 60,
        Unit::Hour => 60 * 60,
        Unit::Day => DAY,
        Unit::Week => 7 * DAY,
        Unit::Month => 30 * DAY,
        Unit::Year => 365 * DAY,
    })
}
