//! Calendar and clock fields of instants, and zones.

use std::sync::LazyLock;

use bumpalo::Bump;
use jiff::tz::{TimeZone, TimeZoneDatabase};

use super::plan::TimeField;
use super::value::Fault;
use mixer_attribute::{SignedDuration, Timestamp};

/// Whether an instant lies in the years 1 to 9999.
pub(super) fn is_valid(at: Timestamp) -> bool {
    (Timestamp::YEAR_ONE.seconds..=Timestamp::MAX_SECONDS).contains(&at.seconds)
}

/// A field of an instant in UTC.
pub(super) fn field_in_utc(field: TimeField, at: Timestamp) -> i64 {
    pick(field, at.seconds, at.nanos)
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
    Ok(pick(field, at.seconds.saturating_add(offset(&zone, at)), at.nanos))
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

/// Seconds east of Greenwich at an instant.
fn offset(zone: &TimeZone, at: Timestamp) -> i64 {
    // The last hours of 9999 are beyond the library's range; no zone changes there.
    let seconds = at.seconds.min(jiff::Timestamp::MAX.as_second());
    jiff::Timestamp::from_second(seconds).map_or(0, |instant| i64::from(zone.to_offset(instant).seconds()))
}

/// A field of a local time, given as seconds since 1970.
fn pick(field: TimeField, seconds: i64, nanos: u32) -> i64 {
    const DAY: i64 = 86_400;
    let (days, second) = (seconds.div_euclid(DAY), seconds.rem_euclid(DAY));
    match field {
        TimeField::Hours => second / 3600,
        TimeField::Minutes => second / 60 % 60,
        TimeField::Seconds => second % 60,
        TimeField::Milliseconds => i64::from(nanos / 1_000_000),
        // 1970-01-01 was a Thursday; weeks start on Sunday.
        TimeField::DayOfWeek => (days + 4).rem_euclid(7),
        TimeField::FullYear
        | TimeField::Month
        | TimeField::DayOfYear
        | TimeField::DayOfMonth
        | TimeField::Date => date_field(field, days),
    }
}

/// A field of a date, given as days since 1970-01-01, in the proleptic Gregorian calendar.
fn date_field(field: TimeField, days: i64) -> i64 {
    // Years start in March here, so that leap days end them; 400 years have 146097 days and the month lengths repeat
    // every 5 months, which have 153 days.
    let since_march_0 = days + 719_468;
    let (era, day_of_era) = (since_march_0.div_euclid(146_097), since_march_0.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5;
    let is_before_march = month >= 10;
    let year = year_of_era + era * 400 + i64::from(is_before_march);
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match field {
        TimeField::FullYear => year,
        TimeField::Month => (month + 2) % 12,
        TimeField::DayOfMonth => day,
        TimeField::Date => day + 1,
        _ if is_before_march => day_of_year - 305,
        _ => day_of_year + 60 + i64::from(is_leap),
    }
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
            assert_eq!(field_in_utc(field, SUMMER), expected, "{field:?}");
        }
    }

    #[test]
    fn dates_are_right_at_the_ends_of_years() {
        use TimeField::{Date, DayOfWeek, DayOfYear, FullYear, Month};
        for (text, expected) in [
            ("2000-02-29T00:00:00Z", [2000, 1, 29, 60, 2]),
            ("2000-12-31T00:00:00Z", [2000, 11, 31, 366, 0]),
            ("1900-03-01T00:00:00Z", [1900, 2, 1, 60, 4]),
            ("1899-12-31T23:59:59Z", [1899, 11, 31, 365, 0]),
            ("0001-01-01T00:00:00Z", [1, 0, 1, 1, 1]),
            ("9999-12-31T23:59:59Z", [9999, 11, 31, 365, 5]),
        ] {
            let at = Timestamp::parse_rfc3339(text).unwrap();
            let found = [FullYear, Month, Date, DayOfYear, DayOfWeek].map(|field| field_in_utc(field, at));
            assert_eq!(found, expected, "{text}");
        }
        let last = Timestamp { seconds: Timestamp::MAX_SECONDS, nanos: 0 };
        assert_eq!(field_in_zone(FullYear, last, b"Asia/Tokyo", &Bump::new()).unwrap(), 10_000);
    }
}
