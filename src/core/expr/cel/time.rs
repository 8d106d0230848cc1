//! Calendar and clock fields of instants, and zones.

use std::sync::LazyLock;

use bumpalo::Bump;
use jiff::civil::DateTime;
use jiff::tz::{TimeZone, TimeZoneDatabase};

use super::plan::TimeField;
use super::value::Fault;
use crate::core::attribute::{SignedDuration, Timestamp};

/// Whether an instant lies in the years 1 to 9999.
pub(super) fn is_valid(at: Timestamp) -> bool {
    (Timestamp::YEAR_ONE.seconds..=Timestamp::MAX_SECONDS).contains(&at.seconds)
}

/// A field of an instant in UTC.
pub(super) fn field_in_utc(field: TimeField, at: Timestamp) -> Option<i64> {
    civil(at, &TimeZone::UTC).map(|civil| pick(field, civil))
}

/// A field of an instant in a zone of the IANA database; the empty name is UTC.
///
/// Errors: no such zone. Fixed offsets such as `+02:00` are not names of zones.
pub(super) fn field_in_zone<'a>(
    field: TimeField,
    at: Timestamp,
    zone: &[u8],
    arena: &'a Bump,
) -> Result<i64, Fault<'a>> {
    let name = String::from_utf8_lossy(zone);
    let Some(zone) = time_zone(&name) else {
        return Err(Fault::text(arena, format_args!("unknown time zone {name}")));
    };
    civil(at, &zone)
        .map(|civil| pick(field, civil))
        .ok_or(Fault::Static("timestamp is outside of the years 1 to 9999"))
}

/// A zone by its exact name. `Local` is UTC, because results do not depend on where the server runs.
fn time_zone(name: &str) -> Option<TimeZone> {
    if matches!(name, "" | "UTC" | "Local") {
        return Some(TimeZone::UTC);
    }
    // Not the database of the host, for the same reason.
    static ZONES: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);
    let zone = ZONES.get(name).ok()?;
    (zone.iana_name() == Some(name)).then_some(zone)
}

fn civil(at: Timestamp, zone: &TimeZone) -> Option<DateTime> {
    let instant = jiff::Timestamp::new(at.seconds, i32::try_from(at.nanos).ok()?).ok()?;
    Some(zone.to_datetime(instant))
}

fn pick(field: TimeField, civil: DateTime) -> i64 {
    i64::from(match field {
        TimeField::FullYear => civil.year(),
        TimeField::Month => i16::from(civil.month()) - 1,
        TimeField::DayOfYear => civil.day_of_year(),
        TimeField::DayOfMonth => i16::from(civil.day()) - 1,
        TimeField::Date => i16::from(civil.day()),
        TimeField::DayOfWeek => i16::from(civil.weekday().to_sunday_zero_offset()),
        TimeField::Hours => i16::from(civil.hour()),
        TimeField::Minutes => i16::from(civil.minute()),
        TimeField::Seconds => i16::from(civil.second()),
        TimeField::Milliseconds => civil.millisecond(),
    })
}

/// A duration in whole hours, minutes, seconds or milliseconds; it has no other fields.
pub(super) fn field_of_duration(field: TimeField, span: SignedDuration) -> Option<i64> {
    // compat(1.3): through floating point, so that long durations just below a whole unit round up.
    let in_units_of = |unit: i64| {
        let whole = (span.nanos / unit) as f64;
        let rest = (span.nanos % unit) as f64 / unit as f64;
        (whole + rest) as i64
    };
    match field {
        TimeField::Hours => Some(in_units_of(3_600_000_000_000)),
        TimeField::Minutes => Some(in_units_of(60_000_000_000)),
        TimeField::Seconds => Some(in_units_of(1_000_000_000)),
        TimeField::Milliseconds => Some(span.nanos / 1_000_000),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUMMER: Timestamp = Timestamp { seconds: 1_527_854_400, nanos: 123_456_000 };

    #[test]
    fn fields_follow_the_zone() {
        let arena = Bump::new();
        for (zone, hours) in
            [("", 12), ("UTC", 12), ("America/New_York", 8), ("Asia/Kolkata", 17), ("Etc/GMT+5", 7)]
        {
            let found = field_in_zone(TimeField::Hours, SUMMER, zone.as_bytes(), &arena).unwrap();
            assert_eq!(found, hours, "{zone}");
        }
        for zone in ["+02:00", "america/new_york", "Nowhere/City", "../UTC"] {
            assert!(field_in_zone(TimeField::Hours, SUMMER, zone.as_bytes(), &arena).is_err(), "{zone}");
        }
    }

    #[test]
    fn months_and_days_of_the_month_start_at_zero() {
        for (field, expected) in [
            (TimeField::FullYear, 2018),
            (TimeField::Month, 5),
            (TimeField::DayOfYear, 152),
            (TimeField::DayOfMonth, 0),
            (TimeField::Date, 1),
            (TimeField::DayOfWeek, 5),
            (TimeField::Milliseconds, 123),
        ] {
            assert_eq!(field_in_utc(field, SUMMER), Some(expected), "{field:?}");
        }
    }
}
