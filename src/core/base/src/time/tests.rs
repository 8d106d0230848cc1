use super::{SignedDuration, Timestamp};

#[test]
fn durations_parse_as_in_go() {
    for (text, nanos) in [
        ("0", 0),
        ("-0", 0),
        ("+0", 0),
        ("00s", 0),
        ("5.s", 5_000_000_000),
        (".5s", 500_000_000),
        ("1h15m30.918s", 4_530_918_000_000),
        ("-1.5h", -5_400_000_000_000),
        ("+5s", 5_000_000_000),
        ("1s1s", 2_000_000_000),
        ("3µs", 3_000),
        ("3μs", 3_000),
        ("3us", 3_000),
        ("1.9ns", 1),
        ("250ms", 250_000_000),
        ("0.100000000000000000000h", 360_000_000_000),
        ("9223372036854775807ns", i64::MAX),
        ("-9223372036854775808ns", i64::MIN),
    ] {
        assert_eq!(SignedDuration::parse(text), Ok(SignedDuration::from_nanos(nanos)), "{text}");
        assert_eq!(
            SignedDuration::from_text(text.as_bytes()),
            Some(SignedDuration::from_nanos(nanos)),
            "{text}"
        );
    }
}

#[test]
fn refused_durations_have_the_texts_of_go() {
    for (text, error) in [
        ("", "time: invalid duration \"\""),
        ("-", "time: invalid duration \"-\""),
        ("abc", "time: invalid duration \"abc\""),
        (".", "time: invalid duration \".\""),
        (".s", "time: invalid duration \".s\""),
        ("12", "time: missing unit in duration \"12\""),
        ("1s2", "time: missing unit in duration \"1s2\""),
        ("1d", "time: unknown unit \"d\" in duration \"1d\""),
        ("1S", "time: unknown unit \"S\" in duration \"1S\""),
        ("1e3s", "time: unknown unit \"e\" in duration \"1e3s\""),
        (" 1s", "time: invalid duration \" 1s\""),
        ("1\"", "time: unknown unit \"\\\"\" in duration \"1\\\"\""),
        ("1é", "time: unknown unit \"\\xc3\\xa9\" in duration \"1\\xc3\\xa9\""),
        ("9223372036854775808ns", "time: invalid duration \"9223372036854775808ns\""),
        ("99999999999999999999s", "time: invalid duration \"99999999999999999999s\""),
        ("3000000h", "time: invalid duration \"3000000h\""),
    ] {
        assert_eq!(SignedDuration::parse(text), Err(error.to_owned()), "{text}");
    }
}

#[test]
fn durations_print_as_in_go() {
    for (nanos, text) in [
        (0, "0s"),
        (7, "7ns"),
        (1_000, "1µs"),
        (1_500_000, "1.5ms"),
        (90_000_000_000, "1m30s"),
        (3_600_000_000_000, "1h0m0s"),
        (3_723_004_005_000, "1h2m3.004005s"),
        (-2_500_000_000, "-2.5s"),
        (i64::MIN, "-2562047h47m16.854775808s"),
    ] {
        assert_eq!(SignedDuration::from_nanos(nanos).to_string(), text);
    }
}

#[test]
fn timestamps_parse_with_the_tolerances_of_go() {
    for (text, seconds, nanos) in [
        ("1970-01-01T00:00:00Z", 0, 0),
        ("2018-01-01T00:00:00Z", 1_514_764_800, 0),
        ("2018-01-01T01:00:00.5+01:00", 1_514_764_800, 500_000_000),
        ("2017-12-31T23:30:00,123456789999-00:30", 1_514_764_800, 123_456_789),
        ("2016-02-29T00:00:00Z", 1_456_704_000, 0),
        ("2018-01-01T1:00:00Z", 1_514_768_400, 0),
        ("0001-01-01T00:00:00Z", -62_135_596_800, 0),
        ("9999-12-31T23:59:59Z", Timestamp::MAX_SECONDS, 0),
        ("0000-01-01T00:00:00Z", -62_167_219_200, 0),
    ] {
        assert_eq!(Timestamp::parse_rfc3339(text), Ok(Timestamp { seconds, nanos }), "{text}");
    }
}

#[test]
fn refused_timestamps_have_the_texts_of_go() {
    for (text, error) in [
        ("x", "cannot parse \"x\" as \"2006\""),
        ("2017-07-04", "cannot parse \"\" as \"T\""),
        ("2017-07-04t00:00:00Z", "cannot parse \"t00:00:00Z\" as \"T\""),
        ("2017-7-04T00:00:00Z", "cannot parse \"7-04T00:00:00Z\" as \"01\""),
        ("2017-07-04T00:00Z", "cannot parse \"Z\" as \":\""),
        ("2017-07-04T00:00:00", "cannot parse \"\" as \"Z07:00\""),
        ("2017-07-04T00:00:00.Z", "cannot parse \".Z\" as \"Z07:00\""),
        ("20a7-07-04T00:00:00Z", "cannot parse \"-07-04T00:00:00Z\" as \"2006\""),
        ("2017-07-04T00:00:00*01:00", "cannot parse \"\" as \"Z07:00\""),
        ("2017-07-04T00:00:00+0100", "cannot parse \"+0100\" as \"Z07:00\""),
    ] {
        let whole = format!("parsing time \"{text}\" as \"2006-01-02T15:04:05Z07:00\": {error}");
        assert_eq!(Timestamp::parse_rfc3339(text), Err(whole), "{text}");
    }
    for (text, error) in [
        ("2017-13-04T00:00:00Z", "month out of range"),
        ("2017-02-29T00:00:00Z", "day out of range"),
        ("2017-02-00T00:00:00Z", "day out of range"),
        ("2017-02-01T24:00:00Z", "hour out of range"),
        ("2017-02-01T00:60:00Z", "minute out of range"),
        ("2017-02-01T00:00:60Z", "second out of range"),
        ("2017-02-01T00:00:00Zx", "extra text: \"x\""),
    ] {
        assert_eq!(
            Timestamp::parse_rfc3339(text),
            Err(format!("parsing time \"{text}\": {error}")),
            "{text}"
        );
    }
}

#[test]
fn timestamps_have_three_text_forms() {
    let whole = Timestamp { seconds: 1_514_764_800, nanos: 0 };
    let fine = Timestamp { seconds: 1_546_398_245, nanos: 678_901_999 };
    assert_eq!(whole.rfc3339_micros().to_string(), "2018-01-01T00:00:00.000000Z");
    assert_eq!(fine.rfc3339_micros().to_string(), "2019-01-02T03:04:05.678901Z");
    assert_eq!(whole.to_string(), "2018-01-01T00:00:00Z");
    assert_eq!(Timestamp { nanos: 5_000_000, ..whole }.to_string(), "2018-01-01T00:00:00.005Z");
    assert_eq!(fine.rfc3339().to_string(), "2019-01-02T03:04:05.678901999Z");
    assert_eq!(whole.go_text().to_string(), "2018-01-01 00:00:00 +0000 UTC");
    assert_eq!(fine.go_text().to_string(), "2019-01-02 03:04:05.678901999 +0000 UTC");
    assert_eq!(Timestamp::YEAR_ONE.rfc3339_micros().to_string(), "0001-01-01T00:00:00.000000Z");
    assert_eq!(Timestamp { seconds: Timestamp::MAX_SECONDS, nanos: 0 }.to_string(), "9999-12-31T23:59:59Z");
    assert_eq!(Timestamp { seconds: -1, nanos: 0 }.to_string(), "1969-12-31T23:59:59Z");
}

proptest::proptest! {
    #[test]
    fn a_printed_duration_parses_to_itself(nanos: i64) {
        let duration = SignedDuration::from_nanos(nanos);
        proptest::prop_assert_eq!(SignedDuration::parse(&duration.to_string()), Ok(duration));
    }

    #[test]
    fn a_printed_timestamp_parses_to_itself(
        seconds in Timestamp::YEAR_ONE.seconds..=Timestamp::MAX_SECONDS,
        nanos in 0u32..1_000_000_000,
    ) {
        let timestamp = Timestamp { seconds, nanos };
        proptest::prop_assert_eq!(Timestamp::parse_rfc3339(&timestamp.to_string()), Ok(timestamp));
    }
}
