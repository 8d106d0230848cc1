//! Access tokens of OAuth 2, by the grant of client credentials.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, header};
use serde_json::Value;

use crate::answer::{Answer, foreign};
use crate::http::{Authentication, HttpOptions, HttpTarget};
use crate::{Credential, RemoteError, Secret};

/// The limit of a request for a token.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How long a failure is remembered, so that callers who wait for one token do not ask one after another.
const PAUSE: Duration = Duration::from_secs(1);
/// How long before its end a token is replaced.
const MARGIN: Duration = Duration::from_secs(10);

/// What a token is asked for with.
pub struct OAuthOptions {
    /// The URL of the token endpoint.
    pub token_url: String,
    /// The client.
    pub client_id: String,
    /// Its secret.
    pub client_secret: Credential,
    /// The scopes.
    pub scopes: Vec<String>,
    /// More parameters of the request.
    pub parameters: Vec<(String, String)>,
}

/// Access tokens, fetched when one is needed and kept until they end.
pub struct OAuthTokens {
    target: HttpTarget,
    body: Bytes,
    /// Held while a token is fetched.
    held: tokio::sync::Mutex<Held>,
}

#[derive(Default)]
struct Held {
    token: Option<(Secret, Option<Instant>)>,
    failed: Option<(Instant, String)>,
}

impl std::fmt::Debug for OAuthTokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OAuthTokens").field("target", &self.target).finish_non_exhaustive()
    }
}

impl OAuthTokens {
    /// Checks the URL; asks for no token yet. Errors: it is invalid.
    pub fn new(options: OAuthOptions) -> Result<Self, RemoteError> {
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.append_pair("grant_type", "client_credentials");
        if !options.scopes.is_empty() {
            form.append_pair("scope", &options.scopes.join(" "));
        }
        form.extend_pairs(&options.parameters);
        let body = Bytes::from(form.finish());
        let mut http = HttpOptions::new(options.token_url);
        (http.timeout, http.connect_timeout) = (TIMEOUT, TIMEOUT);
        http.authentication =
            Authentication::Basic { user: options.client_id, password: options.client_secret };
        Ok(Self { target: HttpTarget::new(http)?, body, held: tokio::sync::Mutex::default() })
    }

    /// A token that is valid now. Errors: there is none, for operators and without credentials.
    pub async fn token(&self) -> Result<Secret, String> {
        let mut held = self.held.lock().await;
        let now = Instant::now();
        if let Some((token, ends)) = &held.token
            && ends.is_none_or(|ends| now < ends)
        {
            return Ok(token.clone());
        }
        if let Some((at, why)) = &held.failed
            && now.saturating_duration_since(*at) < PAUSE
        {
            return Err(why.clone());
        }
        match self.fetch().await {
            Ok((token, left)) => {
                let ends = left.map(|left| now + left.saturating_sub(MARGIN).max(left / 2));
                *held = Held { token: Some((token.clone(), ends)), failed: None };
                Ok(token)
            }
            Err(why) => {
                held.failed = Some((Instant::now(), why.clone()));
                Err(why)
            }
        }
    }

    async fn fetch(&self) -> Result<(Secret, Option<Duration>), String> {
        let kind = HeaderValue::from_static("application/x-www-form-urlencoded");
        let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, kind)]);
        let reply = self.target.post(&headers, self.body.clone()).await;
        let text = String::from_utf8_lossy(&reply.body);
        let document = serde_json::from_str::<Value>(&text).ok();
        let field = |name: &str| document.as_ref().and_then(|document| document.get(name));
        if let Answer::Retry { why, .. } | Answer::Refused(why) = reply.answer {
            let said = field("error_description").or_else(|| field("error")).and_then(Value::as_str);
            let said = said.map(|said| format!(" ({})", foreign(said))).unwrap_or_default();
            return Err(format!("no access token: {why}{said}"));
        }
        let token = field("access_token").and_then(Value::as_str).filter(|token| !token.is_empty());
        let token = token.ok_or_else(|| "no access token: the answer has none".to_owned())?;
        // Longer than any token is valid.
        let left = field("expires_in").and_then(Value::as_u64);
        let left = left.map(|seconds| Duration::from_secs(seconds.min(24 * 3600)));
        Ok((Secret::new(token), left))
    }
}
