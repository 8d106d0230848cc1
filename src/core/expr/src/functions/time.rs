//! `timestamp(s)`.

use bumpalo::Bump;

use super::super::EvalError;
use mixer_attribute::Timestamp;

/// Parses `YYYY-MM-DDTHH:MM:SS[.fraction](Z|±HH:MM)`; digits beyond nanoseconds are dropped.
pub fn timestamp<'a>(text: &[u8], arena: &'a Bump) -> Result<Timestamp, EvalError<'a>> {
    Timestamp::from_text(text).ok_or_else(|| {
        EvalError::failed(
            arena,
            format_args!(
                "could not convert '{}' to TIMESTAMP. expected format: '2006-01-02T15:04:05Z07:00'",
                String::from_utf8_lossy(text)
            ),
        )
    })
}
