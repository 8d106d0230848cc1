//! Key files: service accounts, and users of gcloud.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use form_urlencoded::Serializer;
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use serde_json::{Value, json};

use mixer_base::regular_file;

use crate::credential::Secret;

/// The largest key file.
const MAX_BYTES: u64 = 64 << 10;
/// The token endpoint of files without one.
const TOKEN_URI: &str = "https://oauth2.googleapis.com/token";
/// How long an assertion is valid, in seconds.
const LIFETIME: i64 = 3600;

/// A key file.
#[derive(Debug)]
pub(super) enum Key {
    /// A service account signs its requests.
    Account { email: String, id: String, signs: Box<Signer>, token_uri: String },
    /// A user has a token that gives others.
    User { client: String, secret: Secret, refresh: Secret },
}

/// An RSA key, never shown.
pub(super) struct Signer(RsaKeyPair);

impl std::fmt::Debug for Signer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(mixer_base::secrets::MASKED)
    }
}

impl Key {
    /// Reads a file. Errors: it cannot be read, or is none.
    pub(super) fn read(file: &Path) -> Result<Self, String> {
        let shown = file.display();
        let text = regular_file::read_text(file, MAX_BYTES)
            .map_err(|error| format!("cannot read the key file `{shown}`: {error}"))?;
        Self::parse(&text).map_err(|why| format!("the key file `{shown}` is none: {why}"))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let document: Value = serde_json::from_str(text).map_err(|_| "it is no JSON".to_owned())?;
        let optional =
            |name: &str| document.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        let field = |name: &str| optional(name).ok_or_else(|| format!("it has no `{name}`"));
        match optional("type").unwrap_or("service_account") {
            "service_account" => Ok(Key::Account {
                email: field("client_email")?.to_owned(),
                id: optional("private_key_id").unwrap_or_default().to_owned(),
                signs: Box::new(Signer(private_key(field("private_key")?)?)),
                token_uri: optional("token_uri").unwrap_or(TOKEN_URI).to_owned(),
            }),
            "authorized_user" => Ok(Key::User {
                client: field("client_id")?.to_owned(),
                secret: Secret::new(field("client_secret")?),
                refresh: Secret::new(field("refresh_token")?),
            }),
            other => Err(format!("its type `{other}` is not supported; use the key of a service account")),
        }
    }

    /// The URL that gives tokens.
    pub(super) fn token_uri(&self) -> &str {
        match self {
            Key::Account { token_uri, .. } => token_uri,
            Key::User { .. } => TOKEN_URI,
        }
    }

    /// The form that asks for a token. Errors: it cannot be signed.
    pub(super) fn request(&self, scopes: &str, now: jiff::Timestamp) -> Result<String, String> {
        let mut form = Serializer::new(String::new());
        match self {
            Key::Account { email, id, signs, token_uri } => {
                let issued = now.as_second();
                let head = match id.as_str() {
                    "" => json!({ "alg": "RS256", "typ": "JWT" }),
                    id => json!({ "alg": "RS256", "typ": "JWT", "kid": id }),
                };
                // The audience is that of the file also if requests go through another endpoint.
                let claims = json!({ "iss": email, "scope": scopes, "aud": token_uri, "iat": issued, "exp": issued + LIFETIME });
                let encoded = |part: &Value| URL_SAFE_NO_PAD.encode(part.to_string());
                let text = format!("{}.{}", encoded(&head), encoded(&claims));
                let mut signature = vec![0; signs.0.public().modulus_len()];
                signs
                    .0
                    .sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text.as_bytes(), &mut signature)
                    .map_err(|_| "no access token: the key cannot sign".to_owned())?;
                let assertion = format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature));
                form.append_pair("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer");
                form.append_pair("assertion", &assertion);
            }
            Key::User { client, secret, refresh } => {
                form.append_pair("grant_type", "refresh_token");
                form.append_pair("client_id", client);
                form.append_pair("client_secret", secret.expose());
                form.append_pair("refresh_token", refresh.expose());
            }
        }
        Ok(form.finish())
    }
}

/// An RSA key in PEM: PKCS #8, or PKCS #1.
fn private_key(pem: &str) -> Result<RsaKeyPair, String> {
    let refused = |_| "its `private_key` is no RSA key".to_owned();
    let is_text = |line: &&str| !line.starts_with("-----");
    let encoded: String = pem.lines().map(str::trim).filter(is_text).collect();
    let der = STANDARD.decode(encoded).map_err(|_| "its `private_key` is no PEM".to_owned())?;
    match pem.contains("BEGIN RSA PRIVATE KEY") {
        true => RsaKeyPair::from_der(&der).map_err(refused),
        false => RsaKeyPair::from_pkcs8(&der).map_err(refused),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_key_is_named_without_its_text() {
        for (text, why) in [
            ("hunter2", "it is no JSON"),
            ("{}", "it has no `client_email`"),
            (r#"{"client_email": "a@b", "private_key": "hunter2!"}"#, "its `private_key` is no PEM"),
            (r#"{"client_email": "a@b", "private_key": "aHVudGVyMg=="}"#, "its `private_key` is no RSA key"),
            (r#"{"type": "authorized_user", "client_id": "c"}"#, "it has no `client_secret`"),
            (
                r#"{"type": "external_account"}"#,
                "its type `external_account` is not supported; use the key of a service account",
            ),
        ] {
            assert_eq!(Key::parse(text).unwrap_err(), why, "{text}");
        }
    }

    #[test]
    fn a_user_asks_with_his_token_which_is_never_shown() {
        let text = r#"{"type": "authorized_user", "client_id": "c", "client_secret": "hunter2", "refresh_token": "a/b"}"#;
        let key = Key::parse(text).unwrap();
        let form = key.request("s", jiff::Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(form, "grant_type=refresh_token&client_id=c&client_secret=hunter2&refresh_token=a%2Fb");
        assert!(!format!("{key:?}").contains("hunter2"));
    }
}
