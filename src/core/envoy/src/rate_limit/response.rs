//! `envoy.service.ratelimit.v3.RateLimitResponse`.

use super::{LimitCode, LimitStatus};
use crate::config::settings::LimitHeaders;
use mixer_attribute::wire::{nested, put_bytes, put_duration, put_nonempty, put_nonzero};

/// Appends the response with these statuses; `force_ok` replaces every code by OK.
pub(crate) fn encode(statuses: &[LimitStatus], headers: &LimitHeaders, force_ok: bool, out: &mut Vec<u8>) {
    let over = !force_ok && statuses.iter().any(|status| status.code == LimitCode::OverLimit);
    put_nonzero(out, 1, number(if over { LimitCode::OverLimit } else { LimitCode::Ok }));
    for status in statuses {
        nested(out, 2, |out| {
            put_nonzero(out, 1, number(if force_ok { LimitCode::Ok } else { status.code }));
            if let Some(limit) = &status.limit {
                nested(out, 2, |out| {
                    put_nonzero(out, 1, u64::from(limit.requests_per_unit));
                    put_nonzero(out, 2, limit.unit as u64);
                    put_nonempty(out, 3, limit.name.as_bytes());
                    if limit.multiplier > 1 {
                        put_nonzero(out, 4, u64::from(limit.multiplier));
                    }
                });
            }
            put_nonzero(out, 3, u64::from(status.remaining));
            if let Some(reset) = status.reset {
                put_duration(out, 4, reset);
            }
        });
    }
    if headers.enabled {
        for (name, value) in limit_headers(statuses, headers) {
            nested(out, 3, |out| {
                put_bytes(out, 1, name.as_bytes());
                put_bytes(out, 2, value.as_bytes());
            });
        }
    }
}

fn number(code: LimitCode) -> u64 {
    match code {
        LimitCode::Ok => 1,
        LimitCode::OverLimit => 2,
    }
}

/// Names and values of the rate limit headers, for the limit with the fewest remaining.
pub(crate) fn limit_headers<'h>(statuses: &[LimitStatus], names: &'h LimitHeaders) -> Vec<(&'h str, String)> {
    let strictest =
        statuses.iter().filter_map(|s| Some((s, s.limit.as_ref()?))).min_by_key(|(s, _)| s.remaining);
    let Some((status, limit)) = strictest else { return Vec::new() };
    let seconds = status.reset.map_or(0, |reset| reset.nanos.saturating_add(999_999_999) / 1_000_000_000);
    vec![
        (&names.limit, limit.requests_per_unit.to_string()),
        (&names.remaining, status.remaining.to_string()),
        (&names.reset, seconds.to_string()),
    ]
}
