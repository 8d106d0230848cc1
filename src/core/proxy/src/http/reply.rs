//! Responses that the proxy itself gives, and status lines.

use bytes::{BufMut as _, BytesMut};

use crate::head::{Head, is_bodiless};

/// The reason of a status: that of the registry, but where Envoy says another one, or none.
fn reason(status: u16) -> &'static str {
    match status {
        203 => "Non-Authoritative Information",
        418 | 451 => "Unknown",
        599 => "Last Unassigned Server Error Code",
        _ => {
            let known = http::StatusCode::from_u16(status).ok();
            known.and_then(|status| status.canonical_reason()).unwrap_or("Unknown")
        }
    }
}

/// Appends the status line, whatever reason a host said.
pub(super) fn write_status(status: u16, out: &mut BytesMut) {
    out.put_slice(b"HTTP/1.1 ");
    let digits = [status / 100 % 10, status / 10 % 10, status % 10];
    out.put_slice(&digits.map(|digit| b'0' + u8::try_from(digit).unwrap_or(0)));
    out.put_u8(b' ');
    out.put_slice(reason(status).as_bytes());
    out.put_slice(b"\r\n");
}

/// The number as text.
pub(super) fn decimal(number: u64, scratch: &mut [u8; 20]) -> &[u8] {
    let mut rest = number;
    let mut at = scratch.len();
    for (place, digit) in scratch.iter_mut().enumerate().rev() {
        *digit = b'0' + u8::try_from(rest % 10).unwrap_or(0);
        rest /= 10;
        at = place;
        if rest == 0 {
            break;
        }
    }
    scratch.get(at..).unwrap_or_default()
}

/// Makes `head` a response with a text as its body, unless the status has none.
pub(super) fn local(head: &mut Head, status: u16, body: &str) {
    head.start_response(status);
    settle(head, body);
}

/// Adds what a text as the body needs to the head of a response, whatever else says so: its length, and a type unless there is one. Without a
/// body there is no type, as with Envoy.
pub(super) fn settle(head: &mut Head, body: &str) {
    if body.is_empty() || is_bodiless(head.status) {
        head.remove(b"content-length");
        head.remove(b"content-type");
        return;
    }
    let length = u64::try_from(body.len()).unwrap_or(0);
    head.set("content-length", decimal(length, &mut [0; 20]));
    if head.get("content-type").is_none() {
        head.add("content-type", b"text/plain");
    }
}

/// Makes the head of a response one of gRPC, with a text as its message. What others say of the status, and without a text of the message,
/// stays, as with Envoy.
pub(super) fn settle_grpc(head: &mut Head, text: &str) {
    let status = grpc_status(head.status);
    head.status = 200;
    head.remove(b"content-length");
    head.set("content-type", b"application/grpc");
    if head.get("grpc-status").is_none_or(<[u8]>::is_empty) {
        head.set("grpc-status", status.as_bytes());
    }
    if !text.is_empty() {
        head.set("grpc-message", grpc_message(text).as_bytes());
    }
}

/// The status and the message of a request with the content type of gRPC, to which HTTP statuses mean nothing.
pub(super) fn grpc_status(status: u16) -> &'static str {
    match status {
        400 => "13",
        401 => "16",
        403 => "7",
        404 => "12",
        429 | 502..=504 => "14",
        _ => "2",
    }
}

/// A message in the form of gRPC: other than visible ASCII is percent-encoded.
pub(super) fn grpc_message(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'%' | 0..b' ' | 0x7f.. => out.push_str(&format!("%{byte:02X}")),
            _ => out.push(char::from(byte)),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_without_a_body_have_none() {
        for (status, has_body) in [(200, true), (205, true), (403, true), (204, false), (304, false)] {
            let mut head = Head::default();
            local(&mut head, status, "HTTP/1.1 200 OK");
            assert_eq!(head.get("content-length").is_some(), has_body, "{status}");
            assert_eq!(head.get("content-type").is_some(), has_body, "{status}");
        }
    }

    #[test]
    fn what_a_reply_needs_overrides_what_others_say() {
        let settled = |is_grpc: bool, body: &str| {
            let mut head = Head::default();
            head.start_response(403);
            for (name, value) in
                [("content-type", "text/html"), ("content-length", "9"), ("grpc-message", "m")]
            {
                head.add(name, value.as_bytes());
            }
            if is_grpc {
                settle_grpc(&mut head, body)
            } else {
                settle(&mut head, body)
            }
            ["content-type", "content-length", "grpc-status", "grpc-message"]
                .map(|name| String::from_utf8_lossy(head.get(name).unwrap_or(b"-")).into_owned())
        };
        assert_eq!(settled(false, "no"), ["text/html", "2", "-", "m"]);
        assert_eq!(settled(false, ""), ["-", "-", "-", "m"]);
        assert_eq!(settled(true, "no"), ["application/grpc", "-", "7", "no"]);
        assert_eq!(settled(true, ""), ["application/grpc", "-", "7", "m"]);
    }

    #[test]
    fn numbers_are_decimal() {
        for number in [0, 7, 10, 4096, u64::MAX] {
            assert_eq!(decimal(number, &mut [0; 20]), number.to_string().as_bytes());
        }
        let mut out = BytesMut::new();
        write_status(418, &mut out);
        write_status(299, &mut out);
        write_status(203, &mut out);
        let text =
            "HTTP/1.1 418 Unknown\r\nHTTP/1.1 299 Unknown\r\nHTTP/1.1 203 Non-Authoritative Information\r\n";
        assert_eq!(out, text);
        assert_eq!(grpc_message("a b%\u{e9}"), "a b%25%C3%A9");
    }
}
