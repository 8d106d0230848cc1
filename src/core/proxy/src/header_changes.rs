//! Changes of headers that other servers ask for: applied only if the message stays one that every parser reads the same.

use crate::head::{Head, is_token_byte};
use crate::inline_headers;

/// Headers that say where a message ends or that concern a connection. They are the proxy's own: a change would let two parsers read a
/// message differently.
const PROTECTED: [&str; 8] = [
    "connection",
    "content-length",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Whether the name, in lower case, is that of a header that the proxy alone may say.
pub(crate) fn is_protected(name: &str) -> bool {
    PROTECTED.contains(&name)
}

/// How a header is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Another one is added.
    Add,
    /// It is replaced, or added.
    Set,
    /// The value is appended to the one that is there, after a comma; without one, nothing happens.
    Join,
    /// It is added unless there is one.
    AddIfAbsent,
    /// It is replaced if there is one.
    SetIfPresent,
    /// It is removed.
    Remove,
}

/// A change of a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Change {
    /// In lower case.
    pub(crate) name: String,
    pub(crate) value: Vec<u8>,
    pub(crate) manner: Manner,
}

/// What cannot be written to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unwritable(pub(crate) String);

/// Applies changes to the head of a request. `by` asks for them.
///
/// Errors: one cannot be written. Without it, the request would pass with what its client says: it must not pass. What is the proxy's own is
/// left out, and so is a removal of what no request has.
pub(crate) fn edit_request<'c>(
    changes: impl IntoIterator<Item = &'c Change>,
    head: &mut Head,
    by: &'static str,
) -> Result<(), Unwritable> {
    for change in changes {
        if change.apply_to_request(head) {
            continue;
        }
        change.report_invalid(by);
        if !is_protected(&change.name) && change.manner != Manner::Remove {
            let what = if change.is_named() { "value for" } else { "name" };
            return Err(Unwritable(format!("invalid header {what}: {}", change.shown_name())));
        }
    }
    Ok(())
}

impl Change {
    /// Whether its name is that of a header, or of a part of a request.
    fn is_named(&self) -> bool {
        let name = self.name.strip_prefix(':').unwrap_or(&self.name);
        !name.is_empty() && name.bytes().all(is_token_byte)
    }

    /// The beginning of its name, without what cannot be shown.
    fn shown_name(&self) -> String {
        self.name.chars().filter(|c| c.is_ascii_graphic() || *c == ' ').take(64).collect()
    }

    /// Applies it to the head of a request, of which path and host can be replaced as well. Returns false if it is not valid, as
    /// [`apply`](Self::apply).
    pub(crate) fn apply_to_request(&self, head: &mut Head) -> bool {
        match (self.name.as_str(), self.manner) {
            (":path", Manner::Set | Manner::SetIfPresent) if is_path(&self.value) => {
                head.set_path(&self.value)
            }
            (":authority" | "host", Manner::Set | Manner::SetIfPresent) if is_host(&self.value) => {
                head.set_authority(&self.value);
            }
            ("host", _) => return false,
            _ => return self.apply(head),
        }
        true
    }

    /// Applies it to the head of a response. Returns false if it is not valid, and nothing was changed; but a header that was to be replaced by
    /// a value that cannot be sent is removed.
    pub(crate) fn apply(&self, head: &mut Head) -> bool {
        let name = self.name.as_str();
        let is_name = !name.is_empty() && name.bytes().all(is_token_byte) && !is_protected(name);
        let is_value = self.manner == Manner::Remove || self.value.iter().copied().all(is_value_byte);
        // As who receives it reads it.
        let value = self.value.trim_ascii();
        if !is_name {
            return false;
        }
        if !is_value {
            // Not that of the client, which may have known the name.
            if self.manner == Manner::Set {
                head.remove(name.as_bytes());
            }
            return false;
        }
        let is_there = head.get(name).is_some();
        match self.manner {
            Manner::Join | Manner::SetIfPresent if !is_there => {}
            Manner::AddIfAbsent if is_there => {}
            Manner::Add | Manner::AddIfAbsent => inline_headers::add(head, name, value),
            Manner::Set | Manner::SetIfPresent => head.set(name, value),
            Manner::Join => head.append(name, value),
            Manner::Remove => {
                head.remove(name.as_bytes());
            }
        }
        true
    }

    /// Logs that it is not applied. `by` asks for it.
    pub(crate) fn report_invalid(&self, by: &'static str) {
        let name = self.shown_name();
        mixer_base::warn_limited!(1, name, by, "a change of a header is not applied: it is invalid");
    }
}

/// Whether a value may have this character: of control characters only tabs. Others cannot be written to hosts of HTTP/2.
pub(crate) fn is_value_byte(byte: u8) -> bool {
    matches!(byte, b'\t' | b' '..=b'~' | 0x80..)
}

fn is_path(path: &[u8]) -> bool {
    path.starts_with(b"/") && path.iter().all(|byte| *byte > b' ' && *byte != 0x7f && *byte != b'#')
}

fn is_host(host: &[u8]) -> bool {
    !host.is_empty() && host.iter().all(|b| b.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=%:[]".contains(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_written_does_not_pass() {
        let edited = |name: &str, value: &str, manner| {
            let mut head = Head::default();
            head.read_request(b"GET /a?user=admin HTTP/1.1\r\nhost: h\r\nx-a: 1\r\nte: b\r\n\r\n", 10)
                .unwrap();
            let change = Change { name: name.to_owned(), value: value.as_bytes().to_vec(), manner };
            edit_request([&change], &mut head, "test").map_err(|Unwritable(text)| text)
        };
        for (name, value, manner, text) in [
            (":path", "/public page", Manner::Set, "invalid header value for: :path"),
            (":path", "", Manner::Set, "invalid header value for: :path"),
            (":path", "/a#b", Manner::SetIfPresent, "invalid header value for: :path"),
            (":path", "/a", Manner::Join, "invalid header value for: :path"),
            (":method", "HEAD", Manner::Set, "invalid header value for: :method"),
            (":authority", "a b", Manner::Set, "invalid header value for: :authority"),
            ("host", "", Manner::Set, "invalid header value for: host"),
            ("host", "a", Manner::Add, "invalid header value for: host"),
            ("x-a", "a\nb", Manner::Join, "invalid header value for: x-a"),
            ("x-a", "a\0", Manner::Set, "invalid header value for: x-a"),
            ("x-b", "a\r", Manner::Add, "invalid header value for: x-b"),
            ("x-a", "a\u{1}b", Manner::Set, "invalid header value for: x-a"),
            ("x-a", "a\u{1f}", Manner::AddIfAbsent, "invalid header value for: x-a"),
            ("x-b", "\u{7f}", Manner::Add, "invalid header value for: x-b"),
            ("x b", "a", Manner::Set, "invalid header name: x b"),
            ("", "a", Manner::Set, "invalid header name: "),
        ] {
            assert_eq!(edited(name, value, manner), Err(text.to_owned()), "{name}: {value}");
        }
        for (name, value, manner) in [
            ("te", "a\nb", Manner::Set),
            ("content-length", "7", Manner::Set),
            ("x b", "", Manner::Remove),
            ("x-a", "a\nb", Manner::Remove),
            (":path", "/b", Manner::Set),
            ("x-a", "é", Manner::Join),
            ("x-a", "a\tb", Manner::Set),
        ] {
            assert_eq!(edited(name, value, manner), Ok(()), "{name}: {value}");
        }
    }

    #[test]
    fn changes_depend_on_what_is_there_and_never_touch_framing() {
        let mut head = Head::default();
        head.read_request(b"GET /a HTTP/1.1\r\nhost: h\r\nx-a: 1\r\ncontent-length: 3\r\n\r\n", 10).unwrap();
        let mut apply = |name: &str, value: &str, manner| {
            let change = Change { name: name.to_owned(), value: value.as_bytes().to_vec(), manner };
            let is_applied = change.apply_to_request(&mut head);
            let value = head.get(name).map(|value| String::from_utf8_lossy(value).into_owned());
            (is_applied, value.unwrap_or_default())
        };
        let is = |value: &str| (true, value.to_owned());
        assert_eq!(apply("x-a", "2", Manner::Join), is("1,2"));
        assert_eq!(apply("x-b", "2", Manner::Join), is(""));
        assert_eq!(apply("x-b", "2", Manner::SetIfPresent), is(""));
        assert_eq!(apply("x-b", "2", Manner::AddIfAbsent), is("2"));
        assert_eq!(apply("x-b", "3", Manner::AddIfAbsent), is("2"));
        assert_eq!(apply("x-b", "4", Manner::Set), is("4"));
        assert_eq!(apply("x-b", "\t 5 6 ", Manner::Set), is("5 6"), "as it is read");
        assert_eq!(apply("x-b", " 7", Manner::Join), is("5 6,7"));
        assert_eq!(apply("x-b", "", Manner::Remove), is(""));
        assert_eq!(apply(":path", "/b", Manner::Set), is(""));
        for (name, value) in [
            ("content-length", "4"),
            ("transfer-encoding", "chunked"),
            ("x-c", "b\r\nc: d"),
            (":path", "/b c"),
            (":path", "b"),
            ("host", "a b"),
            (":method", "POST"),
            ("", "a"),
        ] {
            assert!(!apply(name, value, Manner::Set).0, "{name}: {value}");
        }
        assert_eq!(apply("x-b", "5", Manner::Set), is("5"));
        assert_eq!(apply("x-b", "6\n", Manner::Join), (false, "5".to_owned()));
        assert_eq!(apply("x-b", "6\n", Manner::Set), (false, String::new()), "not what the client said");
        assert!(!apply("host", "", Manner::Remove).0);
        assert_eq!((head.path(), head.get("content-length")), (&b"/b"[..], Some(&b"3"[..])));
    }
}
