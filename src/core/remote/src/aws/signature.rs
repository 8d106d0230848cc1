//! Signature version 4.

use http::{HeaderMap, HeaderName, HeaderValue, header};
use ring::{digest, hmac};

use super::AccessKey;

const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// What a signature is about, besides the request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scope<'s> {
    pub(super) region: &'s str,
    pub(super) service: &'s str,
    /// The time of the request.
    pub(super) at: jiff::Timestamp,
}

/// A request that is signed: a POST with a path without query.
#[derive(Debug, Clone, Copy)]
pub(super) struct Signed<'r> {
    pub(super) host: &'r str,
    pub(super) path: &'r str,
    pub(super) body: &'r [u8],
}

/// Adds the date, the token of a temporary key, and the signature over these, all other headers, the length, the host and the body. Errors:
/// a part of the key that no header can have.
pub(super) fn sign(
    headers: &mut HeaderMap,
    request: Signed<'_>,
    key: &AccessKey,
    scope: Scope<'_>,
) -> Result<(), String> {
    let instant = scope.at.strftime("%Y%m%dT%H%M%SZ").to_string();
    let value = |text: &str, is_secret: bool| {
        let mut value = HeaderValue::try_from(text)
            .map_err(|_| "the access key has a character that no header can have".to_owned())?;
        value.set_sensitive(is_secret);
        Ok::<_, String>(value)
    };
    headers.insert(HeaderName::from_static("x-amz-date"), value(&instant, false)?);
    if let Some(token) = &key.token {
        headers.insert(HeaderName::from_static("x-amz-security-token"), value(token.expose(), true)?);
    }
    let mut signed: Vec<(&str, String)> = headers
        .iter()
        .map(|(name, value)| (name.as_str(), String::from_utf8_lossy(value.as_bytes()).trim().to_owned()))
        .collect();
    signed.push(("content-length", request.body.len().to_string()));
    signed.push(("host", request.host.to_owned()));
    signed.sort_unstable();
    let text = authorization("POST", request.path, &signed, request.body, key, scope, &instant);
    headers.insert(header::AUTHORIZATION, value(&text, true)?);
    Ok(())
}

/// The header `authorization`. `signed` is sorted by name.
fn authorization(
    method: &str,
    path: &str,
    signed: &[(&str, String)],
    body: &[u8],
    key: &AccessKey,
    scope: Scope<'_>,
    instant: &str,
) -> String {
    let names = signed.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(";");
    let headers: String = signed.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
    let path = if path.is_empty() { "/" } else { path };
    let canonical = format!("{method}\n{}\n\n{headers}\n{names}\n{}", escaped(path), hash(body));
    let date = instant.get(..8).unwrap_or_default();
    let Scope { region, service, .. } = scope;
    let credential = format!("{date}/{region}/{service}/aws4_request");
    let text = format!("{ALGORITHM}\n{instant}\n{credential}\n{}", hash(canonical.as_bytes()));
    let mut secret = format!("AWS4{}", key.secret.expose()).into_bytes();
    for part in [date, region, service, "aws4_request"] {
        secret = mac(&secret, part).as_ref().to_vec();
    }
    let signature = hex(mac(&secret, &text).as_ref());
    format!("{ALGORITHM} Credential={}/{credential}, SignedHeaders={names}, Signature={signature}", key.id)
}

fn mac(key: &[u8], text: &str) -> hmac::Tag {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes())
}

fn hash(bytes: &[u8]) -> String {
    hex(digest::digest(&digest::SHA256, bytes).as_ref())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A path whose characters are percent-encoded once more, as all services but S3 have it.
fn escaped(path: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'/');
    path.as_bytes()
        .iter()
        .map(|byte| if plain(byte) { char::from(*byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credential::Secret;

    #[test]
    fn a_signature_is_that_of_the_published_example() {
        // `post-vanilla` of the test suite that AWS publishes.
        let key = AccessKey {
            id: "AKIDEXAMPLE".to_owned(),
            secret: Secret::new("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"),
            token: None,
        };
        let at = "2015-08-30T12:36:00Z".parse().unwrap();
        let scope = Scope { region: "us-east-1", service: "service", at };
        let signed =
            [("host", "example.amazonaws.com".to_owned()), ("x-amz-date", "20150830T123600Z".to_owned())];
        let text = authorization("POST", "/", &signed, b"", &key, scope, "20150830T123600Z");
        let expected = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, \
                        SignedHeaders=host;x-amz-date, Signature=5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b";
        assert_eq!(text, expected);
    }

    #[test]
    fn everything_that_is_sent_is_signed_and_secrets_are_marked() {
        let key = AccessKey {
            id: "AKID".to_owned(),
            secret: Secret::new("hunter2"),
            token: Some(Secret::new("temporary")),
        };
        let scope = Scope { region: "eu-west-1", service: "logs", at: jiff::Timestamp::UNIX_EPOCH };
        let mut headers =
            HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"))]);
        let request = Signed { host: "localhost:8080", path: "/a b", body: b"x" };
        sign(&mut headers, request, &key, scope).unwrap();
        let authorization = &headers[header::AUTHORIZATION];
        let text = authorization.to_str().unwrap();
        assert!(text.contains("Credential=AKID/19700101/eu-west-1/logs/aws4_request, "), "{text}");
        let names = "SignedHeaders=content-length;content-type;host;x-amz-date;x-amz-security-token, ";
        assert!(text.contains(names), "{text}");
        assert!(authorization.is_sensitive() && headers["x-amz-security-token"].is_sensitive());
        let broken = AccessKey { token: Some(Secret::new("a\nb")), ..key };
        assert!(sign(&mut headers, request, &broken, scope).is_err());
    }
}
