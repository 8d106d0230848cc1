//! What became of something that was sent.

use std::time::Duration;

use http::{HeaderMap, StatusCode, header};

use mixer_base::secrets::mask_text;
use mixer_delivery::Tally;

/// What became of something that was sent. Texts are for operators, and hold no credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The backend has taken it.
    Delivered,
    /// The backend is out of reach or overloaded.
    Retry {
        /// What went wrong.
        why: String,
        /// The pause that the backend asked for; zero if it did not.
        after: Duration,
    },
    /// The backend will never take it.
    Refused(String),
}

impl Answer {
    /// To be tried again, as soon as the delivery likes.
    pub fn retry(why: impl Into<String>) -> Self {
        Answer::Retry { why: why.into(), after: Duration::ZERO }
    }

    /// What an HTTP status means for the sender of telemetry. A server that cannot check a credential (401) may know it soon, and a
    /// credential that was replaced is read again.
    pub(crate) fn of_status(status: StatusCode, headers: &HeaderMap, has_credential: bool) -> Self {
        let why = || match status.is_redirection() {
            true => format!("HTTP status {status}: redirects are not followed, is it the right URL?"),
            false => format!("HTTP status {status}"),
        };
        let is_transient = match status.as_u16() {
            401 => has_credential,
            408 | 425 | 429 => true,
            // Proxies and other servers answer so in place of a backend that is away.
            code => (300..400).contains(&code) || (500..600).contains(&code),
        };
        match is_transient {
            _ if status.is_success() => Answer::Delivered,
            true => Answer::Retry { why: why(), after: retry_after(headers) },
            false => Answer::Refused(why()),
        }
    }

    /// Tells the delivery what became of all items of a batch.
    pub fn settle(self, items: usize, tally: &mut Tally) {
        match self {
            Answer::Delivered => tally.delivered(items),
            Answer::Retry { why, after } => tally.try_again_after(why, after),
            Answer::Refused(why) => tally.give_up(why),
        }
    }
}

/// A text of a backend, for operators: at most its first 256 characters, on one line.
pub fn foreign(text: &str) -> String {
    const MOST: usize = 256;
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    let shown: String = mask_text(text).chars().take(MOST).map(plain).collect();
    if text.chars().nth(MOST).is_some() { shown + "…" } else { shown }
}

/// The pause in the header `Retry-After`: seconds or a date; zero without a valid one.
fn retry_after(headers: &HeaderMap) -> Duration {
    let Some(text) = headers.get(header::RETRY_AFTER).and_then(|value| value.to_str().ok()) else {
        return Duration::ZERO;
    };
    if let Ok(seconds) = text.trim().parse() {
        return Duration::from_secs(seconds);
    }
    let date = jiff::fmt::rfc2822::parse(text.trim()).ok();
    let pause = date.map(|date| date.timestamp().duration_since(jiff::Timestamp::now()));
    pause.and_then(|pause| pause.try_into().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_final_or_not() {
        let of = |status: u16, has_credential| {
            let status = StatusCode::from_u16(status).unwrap();
            Answer::of_status(status, &HeaderMap::new(), has_credential)
        };
        for status in [200, 202, 204] {
            assert_eq!(of(status, false), Answer::Delivered);
        }
        for status in [301, 302, 307, 408, 425, 429, 500, 501, 502, 503, 504, 505, 599] {
            assert!(matches!(of(status, false), Answer::Retry { .. }), "{status}");
        }
        for status in [400, 401, 403, 404, 413] {
            assert!(matches!(of(status, false), Answer::Refused(_)), "{status}");
        }
        assert_eq!(of(401, true), Answer::retry("HTTP status 401 Unauthorized"));
        assert_eq!(of(403, true), Answer::Refused("HTTP status 403 Forbidden".to_owned()));
    }

    #[test]
    fn a_backend_says_when_to_try_again() {
        let after = |text: &str| {
            let headers = HeaderMap::from_iter([(header::RETRY_AFTER, text.parse().unwrap())]);
            retry_after(&headers)
        };
        assert_eq!(after("17"), Duration::from_secs(17));
        for none in ["", "-3", "soon", "Sun, 06 Nov 1994 08:49:37 GMT"] {
            assert_eq!(after(none), Duration::ZERO, "{none:?}");
        }
        let later = after("Fri, 31 Dec 2100 23:59:59 GMT");
        assert!(later > Duration::from_secs(3600 * 24 * 365), "{later:?}");
    }
}
