//! What a client speaks that does not speak HTTP/2.

/// Longest method of HTTP/1.1 that is recognised, in bytes.
const MAX_METHOD: usize = 32;

/// What begins with `input` instead of HTTP/2, and what to do. `is_tls`: it was sent within TLS.
pub(super) fn foreign(input: &[u8], is_tls: bool) -> &'static str {
    // The first bytes may come alone.
    if !is_tls && matches!(input, [0x16] | [0x16, 3, ..]) {
        return "the client speaks TLS, and the API is plain text without --tls-cert-file: remove the transport_socket of TLS from the cluster of \
                its Envoy, or give this server a certificate";
    }
    if is_request_line(input) {
        return "the client speaks HTTP/1.1, and the API is gRPC over HTTP/2: the cluster of an Envoy needs http2_protocol_options \
                (typed_extension_protocol_options), and checks over HTTP have an address of their own, --envoy-http-address";
    }
    "the client does not speak HTTP/2"
}

/// Whether it begins with a request line of HTTP/1.
fn is_request_line(input: &[u8]) -> bool {
    let line = input.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let method = line.iter().take(MAX_METHOD).take_while(|byte| byte.is_ascii_uppercase()).count();
    // A long line may be incomplete.
    let has_version = line.windows(8).any(|part| part == b" HTTP/1.") || line.len() == input.len();
    method > 0 && line.get(method) == Some(&b' ') && has_version
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_speaks_is_told_by_its_first_bytes() {
        let long = [b"POST /envoy.service.auth.v3.Authorization/Check?".as_slice(), &[b'a'; 9000]].concat();
        for (input, is_tls, expected) in [
            (&[0x16, 3, 1, 2, 0, 1][..], false, "TLS, and the API is plain text"),
            (&[0x16], false, "TLS, and the API is plain text"),
            (&[0x16, 3, 1, 2, 0, 1], true, "does not speak HTTP/2"),
            (
                b"POST /envoy.service.auth.v3.Authorization/Check HTTP/1.1\r\nhost: a\r\n",
                false,
                "HTTP/1.1, and",
            ),
            (b"GET / HTTP/1.0\r\n\r\n", true, "HTTP/1.1, and"),
            (&long, false, "HTTP/1.1, and"),
            (b"GET /\r\nhost: a\r\n", false, "does not speak HTTP/2"),
            (b"SSH-2.0-OpenSSH_9.6\r\n", false, "does not speak HTTP/2"),
            (b" HTTP/1.1", false, "does not speak HTTP/2"),
            (b"\0\xff", false, "does not speak HTTP/2"),
        ] {
            let told = foreign(input, is_tls);
            assert!(told.contains(expected), "{}: {told}", input.escape_ascii());
        }
    }
}
