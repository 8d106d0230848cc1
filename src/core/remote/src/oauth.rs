//! Access tokens of OAuth 2, by the grant of client credentials.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base64::Engine as _;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde_json::Value;

use crate::answer::{Answer, foreign};
use crate::http::{HttpOptions, HttpTarget, Reply};
use crate::renewal::{Lasting, Renewal};
use crate::{Credential, RemoteError, Secret};

/// The limit of a request for a token.
const TIMEOUT: Duration = Duration::from_secs(5);
/// For how long a token is used whose end cannot be read.
pub(crate) const UNBOUNDED: Duration = Duration::from_secs(600);
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
    /// The request, without the client and its secret.
    form: String,
    client_id: String,
    client_secret: Credential,
    /// Whether the endpoint takes the client and its secret in the form, and not as header.
    takes_form: AtomicBool,
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
        let mut http = HttpOptions::new(options.token_url);
        (http.timeout, http.connect_timeout) = (TIMEOUT, TIMEOUT);
        http.keeps_connections = false;
        Ok(Self {
            target: HttpTarget::new(http)?,
            form: form.finish(),
            client_id: options.client_id,
            client_secret: options.client_secret,
            takes_form: AtomicBool::new(false),
            tokens: Renewal::default(),
        })
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

    /// The answer to a request for a token. Endpoints take the client and its secret as header, as RFC 6749 has it, or in the form alone: one that
    /// refuses the first way is asked the other way, and that is the first one from then on if it works.
    async fn asked(&self) -> Result<Reply, String> {
        let secret = self.client_secret.secret().await;
        let takes_form = self.takes_form.load(Ordering::Relaxed);
        let first = self.ask(&secret, takes_form).await?;
        if !matches!(first.status, Some(StatusCode::BAD_REQUEST | StatusCode::UNAUTHORIZED)) {
            return Ok(first);
        }
        let second = self.ask(&secret, !takes_form).await?;
        if second.answer != Answer::Delivered {
            return Ok(first);
        }
        self.takes_form.store(!takes_form, Ordering::Relaxed);
        Ok(second)
    }

    async fn ask(&self, secret: &Secret, in_form: bool) -> Result<Reply, String> {
        let kind = HeaderValue::from_static("application/x-www-form-urlencoded");
        let mut headers = HeaderMap::from_iter([(header::CONTENT_TYPE, kind)]);
        let mut form = self.form.clone();
        if in_form {
            let mut form = form_urlencoded::Serializer::for_suffix(&mut form, 0);
            form.append_pair("client_id", &self.client_id).append_pair("client_secret", secret.expose());
        } else {
            // RFC 6749, section 2.3.1: both are encoded as in a form.
            let encoded = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
            let pair = format!("{}:{}", encoded(&self.client_id), encoded(secret.expose()));
            let basic = format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(pair));
            let mut basic = HeaderValue::try_from(basic).map_err(|error| error.to_string())?;
            basic.set_sensitive(true);
            headers.insert(header::AUTHORIZATION, basic);
        }
        Ok(self.target.post(&headers, form.into()).await)
    }

    async fn fetch(&self) -> Result<Lasting<Secret>, String> {
        let reply = self.asked().await?;
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
        Ok(match lifetime(field("expires_in")) {
            None => Lasting::endless(Secret::new(token)),
            Some(left) => Lasting::of(Secret::new(token), left, MARGIN),
        })
    }
}

/// For how long a token is valid; `None`: until it is refused. Services say it as a number or as a text. What is neither is no statement that a
/// token has no end.
pub(crate) fn lifetime(expires_in: Option<&Value>) -> Option<Duration> {
    let seconds = match expires_in? {
        Value::Null => return None,
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse::<f64>().ok(),
        _ => None,
    };
    let seconds = seconds.filter(|seconds| !seconds.is_nan()).unwrap_or(UNBOUNDED.as_secs_f64());
    // Longer than any token is valid.
    Some(Duration::from_secs_f64(seconds.clamp(0.0, 24.0 * 3600.0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::TestServer;

    fn json(body: &str) -> String {
        format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len())
    }

    fn tokens(port: u16) -> OAuthTokens {
        tokens_of(port, "c", "s")
    }

    fn tokens_of(port: u16, client: &str, secret: &str) -> OAuthTokens {
        OAuthTokens::new(OAuthOptions {
            token_url: format!("http://127.0.0.1:{port}/"),
            client_id: client.to_owned(),
            client_secret: Credential::from_configuration(secret),
            scopes: Vec::new(),
            parameters: Vec::new(),
        })
        .unwrap()
    }

    /// The client and the secret in the header of a request, and its form.
    fn sent(request: &str) -> (Option<String>, &str) {
        let (head, form) = request.split_once("\r\n\r\n").unwrap();
        let basic = head.lines().find_map(|line| line.strip_prefix("authorization: Basic "));
        let decoded = basic.map(|basic| base64::engine::general_purpose::STANDARD.decode(basic).unwrap());
        (decoded.map(|pair| String::from_utf8(pair).unwrap()), form)
    }

    #[tokio::test]
    async fn the_client_and_its_secret_are_encoded() {
        let mut server = TestServer::start(&[&json(r#"{"access_token": "one"}"#)], None).await;
        tokens_of(server.port, "my id:1", "p+w/%:= d").token().await.unwrap();
        let request = server.received.recv().await.unwrap();
        let pair = "my+id%3A1:p%2Bw%2F%25%3A%3D+d".to_owned();
        assert_eq!(sent(&request), (Some(pair), "grant_type=client_credentials"));
    }

    #[tokio::test]
    async fn an_endpoint_that_refuses_the_header_gets_the_form() {
        let refused =
            "HTTP/1.1 401 Unauthorized\r\ncontent-length: 27\r\n\r\n{\"error\": \"invalid_client\"}";
        let [one, two] = ["one", "two"].map(|token| json(&format!(r#"{{"access_token": "{token}"}}"#)));
        let mut server = TestServer::start(&[refused, &one, &two, refused, refused], None).await;
        let tokens = tokens_of(server.port, "c:1", "s%");
        let token = tokens.token().await.unwrap();
        assert_eq!(token.expose(), "one");
        let form = "grant_type=client_credentials&client_id=c%3A1&client_secret=s%25";
        let header = "c%3A1:s%25".to_owned();
        let request = server.received.recv().await.unwrap();
        assert_eq!(sent(&request), (Some(header.clone()), "grant_type=client_credentials"));
        assert_eq!(sent(&server.received.recv().await.unwrap()), (None, form));
        // The next one is asked for as it worked.
        assert!(tokens.refused(&token));
        assert_eq!(tokens.token().await.unwrap().expose(), "two");
        assert_eq!(sent(&server.received.recv().await.unwrap()), (None, form));
        // The reason is that of the way that worked before.
        let other = tokens_of(server.port, "c:1", "wrong");
        let why = other.token().await.unwrap_err();
        assert_eq!(why, "no access token: HTTP status 401 Unauthorized (invalid_client)");
    }

    #[test]
    fn lifetimes_are_numbers_or_texts() {
        for (text, expected) in [
            ("2", Some(2.0)),
            ("\"2\"", Some(2.0)),
            ("2.5", Some(2.5)),
            ("\" 3600 \"", Some(3600.0)),
            ("-5", Some(0.0)),
            ("1e30", Some(86_400.0)),
            ("\"soon\"", Some(600.0)),
            ("\"NaN\"", Some(600.0)),
            ("{}", Some(600.0)),
            ("null", None),
        ] {
            let value = serde_json::from_str(text).unwrap();
            assert_eq!(lifetime(Some(&value)).map(|left| left.as_secs_f64()), expected, "{text}");
        }
        assert_eq!(lifetime(None), None);
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
