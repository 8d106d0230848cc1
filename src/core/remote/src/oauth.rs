//! Access tokens of OAuth 2, by the grant of client credentials.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, header};
use serde_json::Value;

use crate::answer::{Answer, foreign};
use crate::http::{Authentication, HttpOptions, HttpTarget};
use crate::renewal::{Lasting, Renewal};
use crate::{Credential, RemoteError, Secret};

/// The limit of a request for a token.
const TIMEOUT: Duration = Duration::from_secs(5);
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

/// Access tokens, fetched when one is needed and kept until they end. Shared by all calls: one of them fetches the next token, and meanwhile
/// the others use the last one.
pub struct OAuthTokens {
    target: HttpTarget,
    body: Bytes,
    tokens: Renewal<Secret>,
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
        Ok(Self { target: HttpTarget::new(http)?, body, tokens: Renewal::default() })
    }

    /// A token that is valid now. Errors: there is none, for operators and without credentials.
    pub async fn token(&self) -> Result<Secret, String> {
        self.tokens.token(self.fetch()).await
    }

    /// A server did not accept a token: the next call fetches another one, unless there is one already, or the one before was refused a moment
    /// ago. Returns whether the next call has another one.
    pub fn refused(&self, token: &Secret) -> bool {
        self.tokens.refused(token)
    }

    async fn fetch(&self) -> Result<Lasting<Secret>, String> {
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
        Ok(match left {
            None => Lasting::endless(Secret::new(token)),
            Some(seconds) => {
                Lasting::of(Secret::new(token), Duration::from_secs(seconds.min(24 * 3600)), MARGIN)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::TestServer;

    fn json(body: &str) -> String {
        format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len())
    }

    fn tokens(port: u16) -> OAuthTokens {
        OAuthTokens::new(OAuthOptions {
            token_url: format!("http://127.0.0.1:{port}/"),
            client_id: "c".to_owned(),
            client_secret: Credential::from_configuration("s"),
            scopes: Vec::new(),
            parameters: Vec::new(),
        })
        .unwrap()
    }

    #[tokio::test]
    async fn a_token_that_is_valid_serves_while_the_next_cannot_be_fetched() {
        let token = json(r#"{"access_token": "one", "expires_in": 2}"#);
        let server = TestServer::start(&[&token, ""], None).await;
        let tokens = tokens(server.port);
        assert_eq!(tokens.token().await.unwrap().expose(), "one");
        // It is to be replaced by now.
        tokio::time::sleep(Duration::from_millis(1100)).await;
        for _ in 0..3 {
            assert_eq!(tokens.token().await.unwrap().expose(), "one");
        }
    }

    #[tokio::test]
    async fn calls_use_a_valid_token_while_another_one_fetches_the_next() {
        let token = json(r#"{"access_token": "one", "expires_in": 2}"#);
        // The second request is never answered.
        let server = TestServer::start(&[&token], None).await;
        let tokens = tokens(server.port);
        assert_eq!(tokens.token().await.unwrap().expose(), "one");
        tokio::time::sleep(Duration::from_millis(1100)).await;
        let mut fetches = std::pin::pin!(tokens.token());
        let waits = tokio::time::timeout(Duration::from_millis(50), fetches.as_mut()).await;
        assert!(waits.is_err(), "one call fetches the next token");
        let other = tokio::time::timeout(Duration::from_millis(200), tokens.token()).await;
        assert_eq!(other.expect("it does not wait").unwrap().expose(), "one");
    }

    #[tokio::test]
    async fn a_token_without_an_end_is_replaced_when_it_was_refused() {
        let answers = ["one", "two"].map(|token| json(&format!(r#"{{"access_token": "{token}"}}"#)));
        let server = TestServer::start(&answers.each_ref().map(String::as_str), None).await;
        let tokens = tokens(server.port);
        let one = tokens.token().await.unwrap();
        assert_eq!(one, tokens.token().await.unwrap());
        assert!(tokens.refused(&one));
        assert_eq!(tokens.token().await.unwrap().expose(), "two");
    }
}
