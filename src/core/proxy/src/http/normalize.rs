//! Paths and hosts in one form, so that routes, policies and hosts see the same. Behaviour is that of Envoy 1.40.

use super::connection::Connection;
use super::framing::Framing;
use super::reply;
use super::transaction::Transaction;
use crate::bootstrap::{EscapedSlashes, Normalization, StripPort};
use crate::head::Head;

/// What becomes of a request by its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Normalized {
    /// It goes on.
    Forward,
    /// Its client is to ask for the path that the head has now.
    Redirect,
    /// It is no path, or one with escaped slashes where they are refused.
    Refused,
}

impl<'m> Connection<'m> {
    /// Brings path and host of the request into the form that is configured. Returns whether it goes on; otherwise it is answered.
    pub(super) async fn normalize(&mut self, transaction: &mut Transaction<'m>, framing: Framing) -> bool {
        let manager = self.manager;
        let config = &manager.normalization;
        let details = "path_normalization_failed";
        match path(config, &mut self.request) {
            Normalized::Forward => {
                host(config, &mut self.request, self.info.local.port());
                return true;
            }
            Normalized::Refused => self.refuse_request(transaction, 400, details, "", None).await,
            Normalized::Redirect => {
                transaction.details = details;
                reply::local(&mut self.response, 307, "");
                location(self.request.path(), &mut self.scratch);
                self.response.add("location", &self.scratch);
                self.send_reply(transaction, framing, "").await;
            }
        }
        false
    }
}

/// The header `location` for a path: one slash at the beginning, however many the path has. `//host` and `/\host` are other hosts to clients,
/// and which one would be the choice of whoever made the link. Envoy sends them there.
fn location(path: &[u8], out: &mut Vec<u8>) {
    let slashes = path.iter().take_while(|byte| is_slash(Some(*byte))).count();
    out.clear();
    out.push(b'/');
    out.extend_from_slice(path.get(slashes..).unwrap_or_default());
}

/// Brings the path of a request into the form that is configured; the query stays.
fn path(config: &Normalization, head: &mut Head) -> Normalized {
    let end = head.path_without_query().len();
    let (old, query) = head.path().split_at_checked(end).unwrap_or_default();
    if old.is_empty() || *config == Normalization::default() {
        return Normalized::Forward;
    }
    let mut outcome = Normalized::Forward;
    let mut path = old.to_vec();
    if config.escaped_slashes != EscapedSlashes::Keep {
        let (unescaped, found) = unescape_slashes(&path);
        match config.escaped_slashes {
            EscapedSlashes::Reject if found => {
                // As it is logged by Envoy.
                path = [&unescaped, query].concat();
                head.set_path(&path);
                return Normalized::Refused;
            }
            EscapedSlashes::Redirect if found => outcome = Normalized::Redirect,
            _ => {}
        }
        path = unescaped;
    }
    if config.path {
        path = without_parameters(path);
        match canonical(&path) {
            Some(canonical) => path = canonical,
            None => return Normalized::Refused,
        }
    }
    if config.merge_slashes {
        path = merge_slashes(&path);
    }
    if path != old {
        path.extend_from_slice(query);
        head.set_path(&path);
    }
    outcome
}

/// Brings the host of a request into the form that is configured. `port` is that of the listener.
fn host(config: &Normalization, head: &mut Head, port: u16) {
    let mut host = head.authority().to_vec();
    if config.strip_trailing_dot
        && let Some(dot) = memchr::memrchr(b'.', &host)
        && matches!(host.get(dot + 1), None | Some(b':'))
    {
        host.remove(dot);
    }
    // The port of CONNECT is part of what it asks for.
    if config.strip_port != StripPort::No
        && head.method() != b"CONNECT"
        && let Some(colon) = memchr::memrchr(b':', &host)
        && memchr::memrchr(b']', &host).is_none_or(|bracket| bracket < colon)
        && let Some(named) = number(host.get(colon + 1..).unwrap_or_default())
        && (config.strip_port == StripPort::Any || named == u32::from(port))
    {
        host.truncate(colon);
    }
    if host != head.authority() && !host.is_empty() {
        head.set_authority(&host);
    }
}

fn number(digits: &[u8]) -> Option<u32> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// The path with `%2F` and `%5C` as the characters that they stand for, and whether there were any.
fn unescape_slashes(path: &[u8]) -> (Vec<u8>, bool) {
    let (mut out, mut rest, mut found) = (Vec::with_capacity(path.len()), path, false);
    while let Some((first, after)) = rest.split_first() {
        let slash = match rest {
            [b'%', b'2', b'f' | b'F', ..] => Some(b'/'),
            [b'%', b'5', b'c' | b'C', ..] => Some(b'\\'),
            _ => None,
        };
        found |= slash.is_some();
        out.push(slash.unwrap_or(*first));
        rest = if slash.is_some() { rest.get(3..).unwrap_or_default() } else { after };
    }
    (out, found)
}

/// The path with segments `.` and `..` without their parameters, as in `/..;x=1/`: hosts that know parameters take such a segment for
/// `..`. As with Envoy, a segment whose dots are escaped keeps them.
fn without_parameters(path: Vec<u8>) -> Vec<u8> {
    if memchr::memchr(b';', &path).is_none() {
        return path;
    }
    let mut out = Vec::with_capacity(path.len());
    for (index, segment) in path.split(|byte| *byte == b'/').enumerate() {
        if index > 0 {
            out.push(b'/');
        }
        let name = segment.get(..memchr::memchr(b';', segment).unwrap_or(segment.len())).unwrap_or_default();
        out.extend_from_slice(if matches!(name, b"." | b"..") { name } else { segment });
    }
    out
}

/// A path in the form in which the admin interface looks it up, as with Envoy: with `normalize_path` and `merge_slashes`. `None`: it is no path.
pub(crate) fn looked_up_path(path: &[u8]) -> Option<Vec<u8>> {
    canonical(&without_parameters(path.to_vec())).map(|path| merge_slashes(&path))
}

/// Slashes that follow each other as one.
fn merge_slashes(path: &[u8]) -> Vec<u8> {
    if memchr::memmem::find(path, b"//").is_none() {
        return path.to_vec();
    }
    let parts: Vec<&[u8]> = path.split(|byte| *byte == b'/').filter(|part| !part.is_empty()).collect();
    let mut out = parts.join(&b'/');
    if path.starts_with(b"/") {
        out.insert(0, b'/');
    }
    // A path of slashes alone is two of them, as with Envoy.
    if path.ends_with(b"/") {
        out.push(b'/');
    }
    out
}

fn is_slash(byte: Option<&u8>) -> bool {
    matches!(byte, Some(b'/' | b'\\'))
}

/// The length of a dot that the path begins with, which may be escaped; 0 if there is none.
fn dot(path: &[u8]) -> usize {
    match path {
        [b'.', ..] => 1,
        [b'%', b'2', b'e' | b'E', ..] => 3,
        _ => 0,
    }
}

/// The character of an escape that the text begins with.
fn escaped(text: &[u8]) -> Option<u8> {
    let [b'%', high, low, ..] = text else { return None };
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    Some(digit(*high)? << 4 | digit(*low)?)
}

/// The path with segments `.` and `..` resolved, `\` as `/`, unreserved characters not escaped and others that a path cannot have escaped.
/// `None` if it has `%00`.
fn canonical(path: &[u8]) -> Option<Vec<u8>> {
    let mut out: Vec<u8> = Vec::with_capacity(path.len());
    // The place of the last `%` that is no escape.
    let mut stray = None;
    let mut rest = path;
    while let Some((first, after)) = rest.split_first() {
        let first_dot = dot(rest);
        if first_dot > 0 {
            let after_dot = rest.get(first_dot..).unwrap_or_default();
            let second = dot(after_dot);
            let after_both = after_dot.get(second..).unwrap_or_default();
            let ends = |text: &[u8]| text.is_empty() || is_slash(text.first());
            let skip_slash = |text: &'_ [u8]| usize::from(is_slash(text.first()));
            let is_segment = out.last() == Some(&b'/');
            if is_segment && ends(after_dot) {
                rest = after_dot.get(skip_slash(after_dot)..).unwrap_or_default();
            } else if is_segment && second > 0 && ends(after_both) {
                out.pop();
                out.truncate(memchr::memrchr(b'/', &out).map_or(0, |slash| slash + 1));
                if out.is_empty() {
                    out.push(b'/');
                }
                stray = stray.filter(|place| *place < out.len());
                rest = after_both.get(skip_slash(after_both)..).unwrap_or_default();
            } else {
                out.push(b'.');
                rest = after_dot;
            }
            continue;
        }
        match (*first, escaped(rest)) {
            (b'%', Some(0)) => return None,
            (b'%', Some(byte)) if byte.is_ascii_alphanumeric() || b"-_~".contains(&byte) => {
                rest = rest.get(3..).unwrap_or_default();
                out.push(byte);
                protect(&mut out, stray, rest.first());
            }
            (b'%', Some(_)) => {
                out.extend_from_slice(rest.get(..3).unwrap_or_default());
                rest = rest.get(3..).unwrap_or_default();
            }
            (byte, _) => {
                match byte {
                    b'%' => {
                        stray = Some(out.len());
                        out.push(byte);
                    }
                    b'\\' => out.push(b'/'),
                    b'"' | b'#' | b'<' | b'>' | b'^' | b'`' | b'{' | b'|' | b'}' | ..=b' ' | 0x7f.. => {
                        out.extend_from_slice(format!("%{byte:02X}").as_bytes());
                    }
                    _ => out.push(byte),
                }
                rest = after;
            }
        }
    }
    Some(out)
}

/// Escapes a stray `%` that what follows it now would make an escape, so that nobody who reads the path again unescapes more. The last
/// character of `out` was escaped, `next` follows.
fn protect(out: &mut Vec<u8>, stray: Option<usize>, next: Option<&u8>) {
    // What is longer has been looked at before: an escape has three characters.
    let Some(place) = stray.filter(|place| out.len() - place <= 3) else { return };
    let mut seen = out.get(place..).unwrap_or_default().to_vec();
    if seen.len() == 2 {
        seen.extend(next);
    }
    if seen.len() == 3 && escaped(&seen).is_some() {
        let tail = out.split_off(place + 1);
        out.extend_from_slice(b"25");
        out.extend(tail);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_takes_time_by_its_length() {
        // A stray `%`, and what is unescaped behind it: with a copy for each of them this takes minutes.
        let path = [&b"/%"[..], &b"%41".repeat(1 << 20)].concat();
        let began = std::time::Instant::now();
        let form = canonical(&path).unwrap();
        assert!(form == [&b"/%25"[..], &[b'A'; 1 << 20]].concat());
        assert!(began.elapsed() < std::time::Duration::from_secs(20), "{:?}", began.elapsed());
    }

    #[test]
    fn a_path_has_one_form() {
        for (path, expected) in [
            ("/", "/"),
            ("/a/./b/../c", "/a/c"),
            ("/../a", "/a"),
            ("/a/b/../../..", "/"),
            ("/a/%2E%2e/b", "/b"),
            ("/a/.%2e", "/"),
            ("/a/...", "/a/..."),
            ("/a..b", "/a..b"),
            ("/a\\..\\b", "/b"),
            ("/a/..//b", "//b"),
            ("/a//../b", "/a/b"),
            ("/%61%2D%7e", "/a-~"),
            ("/%2f%5C%3f", "/%2f%5C%3f"),
            ("/%zz%", "/%zz%"),
            ("/%%30", "/%0"),
            ("/%%300", "/%2500"),
            ("/%%30%30", "/%2500"),
            ("/<\">", "/%3C%22%3E"),
        ] {
            let found = canonical(path.as_bytes()).map(|path| String::from_utf8(path).unwrap());
            assert_eq!(found.as_deref(), Some(expected), "{path}");
        }
        assert_eq!(canonical(b"/a%00"), None);
    }

    #[test]
    fn segments_of_dots_have_no_parameters() {
        for (path, expected) in [
            ("/a/..;/b", "/a/../b"),
            ("/a/..;x=1;y/b;c", "/a/../b;c"),
            ("/.;/..;", "/./.."),
            ("/a/..;\\b/c", "/a/../c"),
            ("/...;/;..;/b;/%2e%2e;/..%3b", "/...;/;..;/b;/%2e%2e;/..%3b"),
            ("/a/b", "/a/b"),
        ] {
            let found = String::from_utf8(without_parameters(path.as_bytes().to_vec())).unwrap();
            assert_eq!(found, expected, "{path}");
        }
    }

    #[test]
    fn a_location_is_on_the_same_host() {
        for (path, expected) in [
            ("/a//b?c=//d", "/a//b?c=//d"),
            ("/", "/"),
            ("//evil.test/a", "/evil.test/a"),
            ("/\\evil.test", "/evil.test"),
            ("/\\/\\//evil.test", "/evil.test"),
            ("///", "/"),
            ("//?x", "/?x"),
            ("/.//evil.test", "/.//evil.test"),
        ] {
            let mut out = b"what was there".to_vec();
            location(path.as_bytes(), &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected, "{path}");
        }
    }

    #[test]
    fn a_path_in_its_form_stays() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..20_000 {
            let length = random.usize(..12);
            let parts = ["/", ".", "%", "2", "e", "\\", "a", "5", "%2e", "%2F", "0", "3"];
            let text: String = (0..length).map(|_| parts[random.usize(..parts.len())]).collect();
            let Some(once) = canonical(format!("/{text}").as_bytes()) else { continue };
            assert_eq!(once.first(), Some(&b'/'));
            let twice = canonical(&once);
            assert_eq!(twice.as_deref(), Some(&once[..]), "{text}: {}", String::from_utf8_lossy(&once));
        }
    }
}
