//! What is no list, although it was read: pages, documents and binary data in its place, whose lines would be entries.

use reqwest::header::{CONTENT_TYPE, HeaderMap};
use serde::de::IgnoredAny;

use super::EntryType;
use super::document::{is_comment, is_item, is_yaml_list};
use super::error_text::is_error_text;
use mixer_config::mark::{BYTE_ORDER_MARK, Mark, is_network, is_regex};
use mixer_expr::functions::Regex;

/// The kind of page or document that the content type of a response names; `None` if it may be a list with entries of this type.
pub(super) fn typed(headers: &HeaderMap, entry_type: EntryType) -> Option<(&'static str, &[u8])> {
    let value = headers.get(CONTENT_TYPE)?.as_bytes();
    let media = value.split(|byte| *byte == b';').next()?.trim_ascii();
    let is = |names: &[&[u8]]| names.iter().any(|name| media.eq_ignore_ascii_case(name));
    let ends = |suffix: &[u8]| {
        let at = media.len().checked_sub(suffix.len());
        at.and_then(|at| media.get(at..)).is_some_and(|end| end.eq_ignore_ascii_case(suffix))
    };
    let what = if is(&[b"text/html", b"application/xhtml+xml"]) {
        "an HTML page"
    } else if entry_type == EntryType::IpAddresses {
        // A YAML or JSON document.
        return None;
    } else if is(&[b"application/json", b"text/json"]) || ends(b"+json") {
        "a JSON document"
    } else if is(&[b"application/xml", b"text/xml"]) || ends(b"+xml") {
        "an XML document"
    } else {
        return None;
    };
    Some((what, value))
}

/// What a body is that is no list with entries of this type.
pub(super) fn of_no_list(body: &[u8], entry_type: EntryType) -> Option<&'static str> {
    let text = body.strip_prefix(BYTE_ORDER_MARK).unwrap_or(body).trim_ascii_start();
    let begins = |tag: &[u8]| text.get(..tag.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(tag));
    if begins(b"<!doctype html") || begins(b"<html") || begins(b"<!--") || is_page(text) {
        return Some("an HTML page");
    }
    if let Some(what) = of_other_program(text) {
        return Some(what);
    }
    if is_error_text(text) {
        return Some("an error message");
    }
    // Other bodies than a YAML or JSON document with a list do not parse.
    if entry_type == EntryType::IpAddresses {
        return None;
    }
    match body {
        [0x1f, 0x8b, ..] => Some("compressed with gzip"),
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => Some("text in UTF-16"),
        _ if body.contains(&0) => Some("binary: it has NUL bytes"),
        _ if has_old_lines(text) => Some("text with lines that end in CR, and not in LF"),
        _ if is_no_value(text) => Some("the name of a value that is not there"),
        _ if begins(b"<?xml") => Some("an XML document"),
        // As a pattern, an element is an entry.
        _ if entry_type != EntryType::Regex && is_element(text) => Some("an XML document"),
        _ if is_json(text, entry_type) => Some("a JSON document"),
        _ if is_yaml_list(text, entry_type) => Some("a YAML document"),
        _ => None,
    }
}

/// Elements with which pages, and parts of them, begin. Lists of patterns have others, such as `<script>`.
const PAGE_ELEMENTS: [&[u8]; 22] = [
    b"article", b"body", b"br", b"center", b"div", b"font", b"form", b"h1", b"h2", b"h3", b"h4", b"h5",
    b"h6", b"head", b"hr", b"main", b"meta", b"p", b"pre", b"section", b"table", b"title",
];

/// Whether a text begins with an element of a page.
fn is_page(text: &[u8]) -> bool {
    let Some(inner) = text.strip_prefix(b"<") else { return false };
    let length = inner.iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
    let (name, behind) = inner.split_at(length);
    let is_closed = matches!(behind, [b'>' | b'/' | b' ' | b'\t' | b'\r' | b'\n', ..]);
    is_closed && PAGE_ELEMENTS.iter().any(|element| element.eq_ignore_ascii_case(name))
}

/// What a text is that another program left in the place of a list, whatever the type of its entries.
fn of_other_program(text: &[u8]) -> Option<&'static str> {
    let mut lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_end);
    let is_conflict = |line: &[u8]| line.starts_with(b"<<<<<<< ") || line.starts_with(b">>>>>>> ");
    if text.starts_with(b"version https://git-lfs.github.com/spec/") {
        return Some("a pointer of Git LFS");
    }
    if text.starts_with(b"-----BEGIN ") {
        return Some("a key or certificate");
    }
    lines.any(is_conflict).then_some("a text with conflicts of a merge")
}

/// Whether a text is what a program writes for a value that it does not have.
fn is_no_value(text: &[u8]) -> bool {
    let no_values: [&[u8]; 6] = [b"null", b"undefined", b"none", b"nil", b"nan", b"[object Object]"];
    no_values.iter().any(|value| value.eq_ignore_ascii_case(text.trim_ascii_end()))
}

/// Whether lines end in CR alone, so that all of them would be one entry.
fn has_old_lines(text: &[u8]) -> bool {
    text.trim_ascii_end().contains(&b'\r') && !text.contains(&b'\n')
}

/// Whether a text is one element of XML or HTML with others, or an empty one with attributes or namespaces: `<Error><Code>…</Error>`.
fn is_element(text: &[u8]) -> bool {
    let text = text.trim_ascii_end();
    let Some(inner) = text.strip_prefix(b"<").and_then(|rest| rest.strip_suffix(b">")) else { return false };
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b':' | b'-' | b'.');
    let name = inner.split(|byte| !is_name(byte)).next().unwrap_or_default();
    if !name.first().is_some_and(u8::is_ascii_alphabetic) {
        return false;
    }
    let closing = [b"</", name].concat();
    let end = inner.len().checked_sub(closing.len()).and_then(|at| inner.get(at..));
    // Two entries, `<a>` and `</a>`, have no other element between them.
    let others = inner.windows(2).filter(|pair| *pair == b"</").count();
    end == Some(&closing) && others > 1
}

/// Whether a text begins with a JSON object, or is a JSON array; as a pattern, `[12]` is none.
fn is_json(text: &[u8], entry_type: EntryType) -> bool {
    match text {
        [b'{', ..] => {
            let mut values = serde_json::Deserializer::from_slice(text).into_iter::<IgnoredAny>();
            matches!(values.next(), Some(Ok(_)))
        }
        [b'[', ..] if entry_type == EntryType::Regex => {
            serde_json::from_slice::<Vec<std::borrow::Cow<'_, str>>>(text).is_ok()
        }
        [b'[', ..] => serde_json::from_slice::<IgnoredAny>(text).is_ok(),
        _ => false,
    }
}

/// Lines of a list that are probably no entries as they stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SuspiciousLines {
    pub(super) count: usize,
    /// The number of the first, from 1.
    pub(super) first: usize,
    /// What is wrong with it.
    pub(super) why: Suspicion,
}

impl SuspiciousLines {
    /// Those of a body; `None` if there are none.
    pub(super) fn of(body: &[u8], entry_type: EntryType) -> Option<Self> {
        let lines = || body.split(|byte| *byte == b'\n').enumerate();
        let mut found: Option<Self> = None;
        for (at, line) in lines() {
            let Some(why) = suspicion(line, entry_type) else { continue };
            let first = *found.get_or_insert(Self { count: 0, first: at + 1, why });
            found = Some(Self { count: first.count + 1, ..first });
        }
        let mut entries = lines().filter(|(_, line)| !is_comment(line));
        match (entries.next(), entries.next()) {
            (Some((at, only)), None) if found.is_none() && is_row(only, entry_type) => {
                let why = Suspicion::Other(
                    "it has blanks, and is the only entry: every entry needs a line of its own",
                );
                Some(Self { count: 1, first: at + 1, why })
            }
            _ => found,
        }
    }
}

/// The lines of a body that are entries.
pub(super) fn entries(body: &[u8]) -> impl Iterator<Item = &[u8]> {
    body.split(|byte| *byte == b'\n').filter(|line| !is_comment(line))
}

/// Whether a line has plain texts between blanks.
fn is_row(line: &[u8], entry_type: EntryType) -> bool {
    let with_bars: Vec<u8> = line.iter().map(|byte| if *byte == b' ' { b'|' } else { *byte }).collect();
    matches!(entry_type, EntryType::Strings | EntryType::CaseInsensitiveStrings)
        && line.len() <= MAX_ROW
        && Mark::several(&with_bars) == Some(Mark::Bars)
        && !line.contains(&b'|')
}

/// Longest line that is examined as a row, in bytes.
const MAX_ROW: usize = 64 << 10;

/// What is probably wrong with an entry that is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Suspicion {
    Mark(Mark),
    Other(&'static str),
}

impl std::fmt::Display for Suspicion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Mark(mark) => f.write_str(&mark.text("entry")),
            Self::Other(why) => f.write_str(why),
        }
    }
}

/// What is probably wrong with an entry that is valid.
pub(super) fn suspicion(entry: &[u8], entry_type: EntryType) -> Option<Suspicion> {
    if entry_type == EntryType::IpAddresses {
        return None;
    }
    // In a pattern, these are characters as others.
    let is_pattern = entry_type == EntryType::Regex;
    let template = || match Mark::template(entry) {
        Some(_) if is_pattern && !entry.windows(2).any(|tag| tag == b"{{") => None,
        template => template,
    };
    let mark = || {
        let quoted = entry.strip_suffix(b",").unwrap_or(entry);
        Mark::quotes(quoted).or_else(|| Mark::several(entry).filter(|_| !is_pattern)).or_else(template)
    };
    if let Some(mark) = Mark::unseen(entry) {
        return Some(Suspicion::Mark(mark));
    }
    let other = other_format(entry, is_pattern).map(Suspicion::Other);
    let network = || {
        is_network(entry).then_some(Suspicion::Other(
            "as a string it is equal to itself only: a network, or an address in another form than its shortest, needs `entryType: IP_ADDRESSES`",
        ))
    };
    let regex = || {
        std::str::from_utf8(entry).is_ok_and(is_regex).then_some(Suspicion::Other(
            "as a string it is equal to itself only: regular expressions need `entryType: REGEX`, and every other entry the form `^text$` then",
        ))
    };
    let of_string = || network().or_else(regex).filter(|_| !is_pattern);
    other.or_else(|| mark().map(Suspicion::Mark)).or_else(of_string)
}

/// Why an entry is probably several: the only one with blanks, between plain texts.
pub(super) fn row<'e>(
    entries: impl Iterator<Item = &'e [u8]>,
    entry_type: EntryType,
) -> Option<(usize, Suspicion)> {
    let mut with_blanks = entries.enumerate().filter(|(_, entry)| entry.trim_ascii().contains(&b' '));
    let (at, _) = with_blanks.next().filter(|(_, entry)| is_row(entry, entry_type))?;
    let why = "it has blanks, and no other entry has: every text needs an entry of its own";
    with_blanks.next().is_none().then_some((at, Suspicion::Other(why)))
}

/// Why a pattern of a whitelist admits more than it says.
pub(super) fn unanchored(entry: &[u8]) -> Option<&'static str> {
    let facts = Regex::compile(entry).ok()?.facts();
    (!facts.fixes_the_start && !facts.never_matches && !entry.ends_with(b"$"))
        .then_some("patterns match anywhere: without `^` it admits every value that contains a match")
}

/// Why an entry is probably written for another format than lines.
fn other_format(entry: &[u8], is_pattern: bool) -> Option<&'static str> {
    if is_item(entry) {
        return Some("it begins with `- `, as an item in YAML");
    }
    let begins_comment = |part: &[u8]| match part {
        [b' ' | b'\t', b'#', next] => !is_pattern || *next == b' ',
        _ => false,
    };
    if !is_comment(entry) && entry.windows(3).any(begins_comment) {
        return Some("` #` begins no comment: what follows is part of the entry");
    }
    if is_pattern {
        return None;
    }
    if is_section(entry) {
        return Some("it is in brackets, as a section of an INI file");
    }
    is_setting(entry).then_some("it is a name with a value: an entry is the value alone")
}

/// Whether an entry is `[name]`, and no address in brackets.
fn is_section(entry: &[u8]) -> bool {
    let Some(inner) = entry.strip_prefix(b"[").and_then(|rest| rest.strip_suffix(b"]")) else { return false };
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_. ".contains(byte);
    !inner.is_empty() && inner.iter().all(is_name)
}

/// Whether an entry is `name=value`. Names in capitals are those of distinguished names: `CN=eve`.
fn is_setting(entry: &[u8]) -> bool {
    let mut parts = entry.splitn(2, |byte| *byte == b'=').map(<[u8]>::trim_ascii);
    let (Some(name), Some(value)) = (parts.next(), parts.next()) else { return false };
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    let is_value = |byte: &u8| is_name(byte) || b"@/:*\"'".contains(byte);
    name.first().is_some_and(u8::is_ascii_alphabetic)
        && name.iter().all(is_name)
        && name.iter().any(u8::is_ascii_lowercase)
        && !value.is_empty()
        && value.iter().all(is_value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_and_binary_data_are_no_list_of_lines() {
        let utf16 = "\u{feff}mallory\n".encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
        let rows: [(&[u8], Option<&str>); 22] = [
            (b"mallory\neve\n", None),
            (b"", None),
            (b"<a\n", None),
            (b"{not json\n", None),
            (b"{{ .Name }}\n", None),
            (b"[x\n", None),
            (b"\0\0\0", Some("binary: it has NUL bytes")),
            (b"a\nb\0c\n", Some("binary: it has NUL bytes")),
            (&utf16, Some("text in UTF-16")),
            (b"\x1f\x8b\x08\0\0", Some("compressed with gzip")),
            (b"{\"error\": \"too many requests\"}", Some("a JSON document")),
            (b"{\"a\": 1}\n{\"a\": 2}\n", Some("a JSON document")),
            (b"[\"mallory\", \"eve\"]\n", Some("a JSON document")),
            (b"\xef\xbb\xbf <?xml version=\"1.0\"?><Error/>", Some("an XML document")),
            (b"<!DOCTYPE html>", Some("an HTML page")),
            (b"<Error><Code>NoSuchKey</Code></Error>\n", Some("an XML document")),
            (b"<s:Fault xmlns:s=\"x\">\n<code>1</code>\n</s:Fault>", Some("an XML document")),
            (b"<b>\n</b>\n", None),
            (b"<a>\n</a>\n<b>\n</b>\n", None),
            (b"404 page not found\n", Some("an error message")),
            (b"404 page not found\nmallory\n", None),
            (b"- mallory\n- eve\n", Some("a YAML document")),
        ];
        for (body, what) in [
            (&b"<!-- c -->\n<html>"[..], Some("an HTML page")),
            (b"<h1>Forbidden</h1>\n<p>x</p>", Some("an HTML page")),
            (b"<head>\n", Some("an HTML page")),
            (b"<br />\nsorry\n", Some("an HTML page")),
            (b"<BODY bgcolor=white>\n", Some("an HTML page")),
            (
                b"mallory\n<<<<<<< HEAD\neve\n=======\n>>>>>>> main\n",
                Some("a text with conflicts of a merge"),
            ),
            (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", Some("a pointer of Git LFS")),
            (b"-----BEGIN CERTIFICATE-----\nMII\n", Some("a key or certificate")),
            (b"eve\rmallory\r", Some("text with lines that end in CR, and not in LF")),
            (b"null\n", Some("the name of a value that is not there")),
            (b"undefined", Some("the name of a value that is not there")),
            (b"eve\r\nmallory\r\n", None),
            (b"eve\r", None),
            (b"null\neve\n", None),
            (b"<header\n", None),
            (b"<bot>\n", None),
            (b"-----\n", None),
            (b"=======\n", None),
        ] {
            assert_eq!(of_no_list(body, EntryType::Strings), what, "{}", String::from_utf8_lossy(body));
        }
        for (body, what) in rows {
            assert_eq!(of_no_list(body, EntryType::Strings), what, "{}", String::from_utf8_lossy(body));
        }
        assert_eq!(of_no_list(b"[12]\n", EntryType::Strings), Some("a JSON document"));
        assert_eq!(of_no_list(b"[12]\n", EntryType::Regex), None);
        assert_eq!(of_no_list(b"<script><b>.*</b></script>\n", EntryType::Regex), None);
        assert_eq!(of_no_list(b"Not Found", EntryType::Regex), Some("an error message"));
        assert_eq!(of_no_list(b"{\"whitelist\": []}", EntryType::IpAddresses), None);
    }

    #[test]
    fn entries_that_do_not_do_what_they_say_are_suspicious() {
        for (entry, suspicious) in [
            ("mallory", false),
            (" mallory", true),
            ("mallory\t", true),
            ("  ", false),
            ("two words", false),
            ("{{ .User }}", true),
            ("${USER}", true),
            ("10.0.0.0/8", true),
            ("2001:db8::/32", true),
            ("10.1.2.3", false),
            ("2001:db8::1", false),
            ("2001:DB8::1", true),
            ("::ffff:10.1.2.3", true),
            ("10.0.0/8", false),
            ("/admin", false),
            ("eve\u{a0}", true),
            ("e\u{200b}ve", true),
            ("eve;mallory", true),
            ("eve|mallory", true),
            ("eve\tmallory", true),
            ("user=eve", true),
            ("user = \"eve\"", true),
            ("CN=eve", false),
            ("ZXZl==", false),
            ("[users]", true),
            ("^eve$", true),
            ("eve.+", true),
            ("(eve|mallory)", true),
            ("$(BAD_USER)", true),
            ("<user>", true),
            ("eve+mail@example.com", false),
            ("[2001:db8::1]:80", false),
            ("[::1]", false),
        ] {
            assert_eq!(suspicion(entry.as_bytes(), EntryType::Strings).is_some(), suspicious, "{entry}");
        }
        assert_eq!(suspicion(b"^10.0.0.0/8${1}", EntryType::Regex), None);
        let lines = SuspiciousLines::of(b"a\n b\n\n10.0.0.0/8\n", EntryType::Strings).unwrap();
        assert_eq!((lines.count, lines.first), (2, 2));
        let of_windows = SuspiciousLines::of(b"a\r\nb\r\n", EntryType::Strings).unwrap();
        assert_eq!((of_windows.count, of_windows.first), (2, 1));
        assert_eq!(SuspiciousLines::of(b"a\nb\n", EntryType::Strings), None);
        let row = SuspiciousLines::of(b"# Banned.\neve mallory bob\n", EntryType::Strings).unwrap();
        assert_eq!((row.count, row.first), (1, 2));
        assert_eq!(SuspiciousLines::of(b"eve mallory\nanna smith\n", EntryType::Strings), None);
        assert_eq!(SuspiciousLines::of(b"two words\n", EntryType::Regex), None);
        assert_eq!(SuspiciousLines::of(b"[users]\nuser=eve\n", EntryType::Regex), None);
    }
}
