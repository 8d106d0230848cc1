//! Responses that the proxy itself gives, and status lines.

use bytes::{BufMut as _, BytesMut};

use crate::head::{Head, is_bodiless};

/// Appends the status line. The reason is that of the registry, whatever a host said.
pub(super) fn write_status(status: u16, out: &mut BytesMut) {
    out.put_slice(b"HTTP/1.1 ");
    let digits = [status / 100 % 10, status / 10 % 10, status % 10];
    out.put_slice(&digits.map(|digit| b'0' + u8::try_from(digit).unwrap_or(0)));
    out.put_u8(b' ');
    // Envoy has no name for 418.
    let known = http::StatusCode::from_u16(status).ok().filter(|_| status != 418);
    let reason = known.and_then(|status| status.canonical_reason());
    out.put_slice(reason.unwrap_or("Unknown").as_bytes());
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
    let mut digits = [0; 20];
    if !body.is_empty() && !is_bodiless(status) {
        let length = u64::try_from(body.len()).unwrap_or(0);
        head.add("content-length", decimal(length, &mut digits));
        head.add("content-type", b"text/plain");
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
    fn numbers_are_decimal() {
        for number in [0, 7, 10, 4096, u64::MAX] {
            assert_eq!(decimal(number, &mut [0; 20]), number.to_string().as_bytes());
        }
        let mut out = BytesMut::new();
        write_status(418, &mut out);
        write_status(299, &mut out);
        assert_eq!(&out[..], b"HTTP/1.1 418 Unknown\r\nHTTP/1.1 299 Unknown\r\n");
        assert_eq!(grpc_message("a b%\u{e9}"), "a b%25%C3%A9");
    }
}
