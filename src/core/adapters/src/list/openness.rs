//! Entries with which a list admits everybody, or refuses nobody.

use mixer_expr::functions::Regex;

use super::EntryType;

/// Longer than what a pattern with a bound of its length is meant for.
const LONG: &[u8] = &[b'a'; 4096];

/// Values that have nothing in common: a pattern that matches each of them matches everything that a request can bring. One that excludes
/// a character, such as `^[^/]+$`, does not match the text of all.
pub(super) const PROBES: [&[u8]; 8] = [
    b"a",
    b"0",
    b"-",
    b" ",
    b"\t",
    "\u{e9}".as_bytes(),
    b" !\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz{|}~",
    LONG,
];

/// Why a list with this entry is not used; `None` if it may be. Istio Mixer uses it.
pub(super) fn refusal(entry: &[u8], entry_type: EntryType, blacklist: bool) -> Option<&'static str> {
    if entry_type != EntryType::IpAddresses && is_between_slashes(entry) {
        return Some(
            "between slashes, which are part of the entry, it matches nothing: write it without them",
        );
    }
    if entry_type != EntryType::Regex || blacklist {
        return None;
    }
    let pattern = Regex::compile(entry).ok()?;
    if PROBES.iter().all(|probe| pattern.is_match(probe)) {
        return Some("the pattern matches every value, so that the whitelist admits everybody");
    }
    pattern
        .is_match(b"")
        .then_some("the pattern matches the empty value, so that the whitelist admits callers without one")
}

/// The first line of a list of patterns that is not used, from 1, and why. `is_suspect`: whether the patterns together match what only
/// an open one should.
pub(super) fn refused_line(body: &[u8], blacklist: bool, is_suspect: bool) -> Option<(usize, &'static str)> {
    let lines = body.split(|byte| *byte == b'\n').enumerate().filter(|(_, line)| !line.is_empty());
    let mut refused = lines.filter_map(|(at, line)| {
        let why = refusal(line, EntryType::Regex, blacklist || !is_suspect)?;
        Some((at + 1, why))
    });
    refused.next()
}

/// Whether an entry is written as a literal of JavaScript or Perl, `/^eve$/i`.
fn is_between_slashes(entry: &[u8]) -> bool {
    let begins = entry.starts_with(b"/^") && entry.len() > 2;
    let body = entry.trim_ascii_end();
    let flags = body.iter().rev().take_while(|byte| byte.is_ascii_lowercase()).count();
    let without_flags = body.get(..body.len() - flags).unwrap_or_default();
    let ends = flags <= 4 && without_flags.ends_with(b"$/") && !without_flags.ends_with(b"\\$/");
    begins || (ends && entry.starts_with(b"/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_of_other_languages_are_known() {
        for (entry, is_literal) in [
            ("/^eve$/", true),
            ("/^eve$/gi", true),
            ("/eve$/", true),
            ("/^", false),
            ("/eve/", false),
            ("/a\\$/", false),
            ("^/eve$", false),
            ("eve$/", false),
        ] {
            assert_eq!(is_between_slashes(entry.as_bytes()), is_literal, "{entry}");
        }
    }
}
