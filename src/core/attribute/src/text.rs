//! Text forms of values and IP addresses: [`push_text`] for adapters, [`go_text`] for error texts.

use std::fmt::{self, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{StringMap, Value};
use mixer_base::decimal;

/// Appends the text form that adapters print (metric labels, log lines): STRING as its bytes, DOUBLE without exponent,
/// TIMESTAMP `YYYY-MM-DDThh:mm:ss.uuuuuuZ`, DURATION `1m30s`, IP_ADDRESS dotted or RFC 5952, maps `stringmap[k:v]` by key.
///
/// Cost: allocates only to sort the entries of an unsorted map.
pub fn push_text(out: &mut Vec<u8>, value: Value<'_>) {
    match value {
        Value::String(text) => out.extend_from_slice(text),
        Value::Int64(number) => write(out, number),
        Value::Double(number) => write(out, decimal::plain(number)),
        Value::Bool(value) => out.extend_from_slice(if value { b"true" } else { b"false" }),
        Value::Timestamp(instant) => write(out, instant.rfc3339_micros()),
        Value::Duration(duration) => write(out, duration),
        Value::Bytes(bytes) => write(out, ip_text(bytes)),
        Value::StringMap(map) => push_map(out, map),
    }
}

fn push_go_text(out: &mut Vec<u8>, value: Value<'_>) {
    match value {
        Value::Double(number) => write(out, decimal::general(number)),
        Value::Timestamp(instant) => write(out, instant.go_text()),
        Value::Bytes(bytes) => {
            out.push(b'[');
            for (i, byte) in bytes.iter().enumerate() {
                if i > 0 {
                    out.push(b' ');
                }
                write(out, byte);
            }
            out.push(b']');
        }
        other => push_text(out, other),
    }
}

/// Most bytes of a value that an error repeats.
pub const MAX_REPEATED: usize = 4 << 10;

/// A value in an error: [`go_text`], or how long it is. A long one is not repeated, not even in part: callers choose it, and a part of a secret is
/// not known to be one.
pub fn brief_text(value: Value<'_>) -> String {
    match value.text_len() {
        long if long > MAX_REPEATED => format!("a value of {long} bytes"),
        _ => go_text(value).to_string(),
    }
}

/// The text form for error texts, Go's `%v`: like [`push_text`], but DOUBLE with an exponent below 1e-4 and from 1e6,
/// TIMESTAMP `2018-01-01 00:00:00 +0000 UTC`, IP_ADDRESS `[10 0 0 1]`. Invalid UTF-8 becomes U+FFFD. Allocates.
pub fn go_text<'v>(value: Value<'v>) -> impl fmt::Display + 'v {
    fmt::from_fn(move |f| {
        let mut text = Vec::new();
        push_go_text(&mut text, value);
        f.write_str(&String::from_utf8_lossy(&text))
    })
}

/// The text form of [`push_text`]. Invalid UTF-8 becomes U+FFFD. Allocates.
pub fn text<'v>(value: Value<'v>) -> impl fmt::Display + 'v {
    fmt::from_fn(move |f| {
        let mut text = Vec::new();
        push_text(&mut text, value);
        f.write_str(&String::from_utf8_lossy(&text))
    })
}

fn push_map(out: &mut Vec<u8>, map: &StringMap<'_>) {
    out.extend_from_slice(b"stringmap[");
    let push = |out: &mut Vec<u8>, i: usize, (key, value): (&[u8], &[u8])| {
        if i > 0 {
            out.push(b' ');
        }
        out.extend_from_slice(key);
        out.push(b':');
        out.extend_from_slice(value);
    };
    if map.entries.is_sorted_by(|a, b| a.0 <= b.0) {
        map.entries.iter().enumerate().for_each(|(i, entry)| push(out, i, *entry));
    } else {
        let mut entries = map.entries.to_vec();
        entries.sort_unstable();
        entries.into_iter().enumerate().for_each(|(i, entry)| push(out, i, entry));
    }
    out.push(b']');
}

fn write(out: &mut Vec<u8>, what: impl fmt::Display) {
    // Writing to a Vec cannot fail.
    let _ = std::io::Write::write_fmt(out, format_args!("{what}"));
}

/// The address in 4 or 16 bytes; an IPv4-mapped one becomes an IPv4 address. `None` for any other length.
pub fn ip_from_bytes(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(v4) = <[u8; 4]>::try_from(bytes) {
        return Some(IpAddr::from(v4));
    }
    let v6 = Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?);
    Some(v6.to_ipv4_mapped().map_or(IpAddr::V6(v6), IpAddr::V4))
}

/// The 16 bytes of an address; IPv4 becomes IPv4-mapped.
pub fn ip_to_mapped(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

/// The 16 bytes of an address in 4 or 16 bytes; `None` for any other length.
pub fn ip_bytes_to_mapped(bytes: &[u8]) -> Option<[u8; 16]> {
    match <[u8; 4]>::try_from(bytes) {
        Ok(v4) => Some(Ipv4Addr::from(v4).to_ipv6_mapped().octets()),
        Err(_) => bytes.try_into().ok(),
    }
}

/// The address as text: dotted quad (also if IPv4-mapped) or RFC 5952. Other lengths: `<nil>` if empty, else `?` and hex.
pub fn ip_text(bytes: &[u8]) -> impl fmt::Display + '_ {
    fmt::from_fn(move |f| match ip_from_bytes(bytes) {
        Some(address) => write!(f, "{address}"),
        None if bytes.is_empty() => f.write_str("<nil>"),
        None => {
            f.write_char('?')?;
            bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
        }
    })
}

/// Parses a dotted quad or IPv6 text, whose groups may have any number of leading zeros. Ports, prefixes, zones, brackets, spaces
/// and leading zeros in a dotted quad are rejected.
pub fn parse_ip(text: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(text).ok()?;
    text.parse().ok().or_else(|| without_leading_zeros(text)?.parse().ok())
}

/// IPv6 text with at most four digits in groups that have more because of leading zeros; `None` if no group has.
fn without_leading_zeros(text: &str) -> Option<String> {
    if !text.contains(':') || !text.split(':').any(is_long_group) {
        return None;
    }
    Some(text.split(':').map(short_group).collect::<Vec<_>>().join(":"))
}

fn is_long_group(group: &str) -> bool {
    group.len() > 4 && group.starts_with('0') && !group.contains('.')
}

fn short_group(group: &str) -> &str {
    match group.trim_start_matches('0') {
        _ if !is_long_group(group) => group,
        "" => "0",
        digits => digits,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SignedDuration, Timestamp};

    fn both(value: Value<'_>) -> (String, String) {
        (text(value).to_string(), go_text(value).to_string())
    }

    #[test]
    fn values_have_an_adapter_text_and_an_error_text() {
        let entries: [(&[u8], &[u8]); 2] = [(b"k2", b"v2"), (b"k1", b"v1")];
        let map = StringMap { entries: &entries, source: None };
        let instant = Timestamp { seconds: 1_514_764_800, nanos: 1_999 };
        for (value, adapter, error) in [
            (Value::String(b"a b"), "a b", "a b"),
            (Value::String(b"\xff"), "\u{fffd}", "\u{fffd}"),
            (Value::Int64(-7), "-7", "-7"),
            (Value::Double(7.5), "7.5", "7.5"),
            (Value::Double(200.0), "200", "200"),
            (Value::Double(123456.0), "123456", "123456"),
            (Value::Double(1234567.0), "1234567", "1.234567e+06"),
            (Value::Double(1e21), "1000000000000000000000", "1e+21"),
            (Value::Double(1.5e-7), "0.00000015", "1.5e-07"),
            (Value::Double(1e-100), &format!("0.{}1", "0".repeat(99)), "1e-100"),
            (Value::Double(f64::INFINITY), "+Inf", "+Inf"),
            (Value::Double(f64::NAN), "NaN", "NaN"),
            (Value::Bool(true), "true", "true"),
            (
                Value::Timestamp(instant),
                "2018-01-01T00:00:00.000001Z",
                "2018-01-01 00:00:00.000001999 +0000 UTC",
            ),
            (Value::Duration(SignedDuration::from_secs(90)), "1m30s", "1m30s"),
            (Value::Bytes(&[1, 2, 3, 4]), "1.2.3.4", "[1 2 3 4]"),
            (Value::StringMap(&map), "stringmap[k1:v1 k2:v2]", "stringmap[k1:v1 k2:v2]"),
        ] {
            assert_eq!(both(value), (adapter.to_owned(), error.to_owned()), "{value:?}");
        }
    }

    #[test]
    fn addresses_print_dotted_or_compressed() {
        let mut mapped = [0; 16];
        mapped[10..].copy_from_slice(&[0xff, 0xff, 10, 0, 0, 1]);
        let mut v6 = [0; 16];
        (v6[0], v6[1], v6[15]) = (0x20, 0x01, 1);
        for (bytes, text) in [
            (&[10, 0, 0, 1][..], "10.0.0.1"),
            (&mapped, "10.0.0.1"),
            (&v6, "2001::1"),
            (&[], "<nil>"),
            (&[1, 0xab], "?01ab"),
        ] {
            assert_eq!(ip_text(bytes).to_string(), text);
        }
        assert_eq!(ip_to_mapped(ip_from_bytes(&mapped).unwrap()), mapped);
        assert_eq!(ip_bytes_to_mapped(&[10, 0, 0, 1]), Some(mapped));
        assert_eq!(ip_bytes_to_mapped(&[1]), None);
    }

    #[test]
    fn addresses_parse_strictly() {
        for (text, accepted) in [
            ("10.0.0.1", true),
            ("::1", true),
            ("1:2:3:4:5:6:7::", true),
            ("::ffff:10.0.0.1", true),
            ("::00001", true),
            ("000000000000ffff::00000", true),
            ("::00001:1.2.3.4", true),
            ("::10000", false),
            ("::0000g", false),
            ("::00001.2.3.4", false),
            ("00001", false),
            (":00001:", false),
            ("", false),
            ("010.0.0.1", false),
            (" 1.2.3.4", false),
            ("1.2.3.4:80", false),
            ("[::1]", false),
            ("fe80::1%eth0", false),
            ("1.2.3", false),
            ("12345::", false),
        ] {
            assert_eq!(parse_ip(text.as_bytes()).is_some(), accepted, "{text}");
        }
    }
}
