//! Requests to Service Control.

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use serde_json::Value;

use mixer_remote::{
    Answer, ClientTlsOptions, GoogleOptions, GoogleTokens, HttpOptions, HttpTarget, RemoteError, foreign,
};

use super::Params;
use crate::health::Health;

/// What tokens are for.
const SCOPE: &str = "https://www.googleapis.com/auth/servicecontrol";

/// The method of reports.
pub(super) const REPORT: &str = "report";

/// Calls Service Control.
pub(super) struct Client {
    http: HttpTarget,
    tokens: GoogleTokens,
    /// The path of the endpoint, without a slash at its end.
    path: String,
    health: Health,
}

/// Why a call has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) why: String,
    /// Whether the same request can succeed later, and the pause that Google asked for.
    pub(super) again: Option<Duration>,
}

impl Client {
    /// Errors: an invalid URL; a key or a certificate that cannot be used.
    pub(super) fn new(params: &Params) -> Result<Self, RemoteError> {
        let ca_file = PathBuf::from(&params.ca_file);
        let timeout = params.timeout.to_std_or_zero();
        let endpoint = params.endpoint.trim_end_matches('/');
        let defaults = HttpOptions::new(endpoint);
        let http = HttpTarget::new(HttpOptions {
            timeout,
            connect_timeout: defaults.connect_timeout.min(timeout),
            tls: ClientTlsOptions { ca_file: ca_file.clone(), ..ClientTlsOptions::default() },
            // Google knows operations by their ids: one that it gets twice counts once.
            repeats: true,
            ..defaults
        })?;
        let tokens = GoogleTokens::new(GoogleOptions {
            key_file: PathBuf::from(&params.credential_path),
            scopes: SCOPE,
            token_endpoint: params.token_endpoint.clone(),
            metadata_endpoint: params.metadata_endpoint.clone(),
            ca_file,
        })?;
        let rest = endpoint.split_once("://").map_or("", |(_, rest)| rest);
        let path = rest.find('/').and_then(|at| rest.get(at..)).unwrap_or_default().to_owned();
        Ok(Self { http, tokens, path, health: Health::default() })
    }

    /// Calls a method of a service: `check`, `report` or `allocateQuota`, with JSON. A call whose token was not accepted is repeated once, if there
    /// is another one. Null: Google took a report, and what it said of it is not whole; of other methods that is a failure.
    pub(super) async fn call(&self, service: &str, method: &str, body: Bytes) -> Result<Value, Failure> {
        self.health.watch(self.ask(service, method, body), |failure| &failure.why).await
    }

    /// Why the last call failed.
    pub(super) fn trouble(&self) -> Option<String> {
        self.health.trouble()
    }

    async fn ask(&self, service: &str, method: &str, body: Bytes) -> Result<Value, Failure> {
        let path = format!("{}/v1/services/{}:{method}?alt=json", self.path, escaped(service));
        for attempt in 0.. {
            let authorization = self.tokens.authorization().await;
            let authorization = authorization.map_err(|why| Failure { why, again: Some(Duration::ZERO) })?;
            let headers = HeaderMap::from_iter([
                (header::CONTENT_TYPE, HeaderValue::from_static("application/json")),
                (header::AUTHORIZATION, authorization.clone()),
            ]);
            let reply = self.http.send_to(Method::POST, &path, &headers, body.clone()).await;
            let is_unauthorized = reply.status == Some(StatusCode::UNAUTHORIZED);
            let has_other = is_unauthorized && self.tokens.refused(&authorization);
            if has_other && attempt == 0 {
                continue;
            }
            if method == REPORT && reply.taken_unread().is_some() {
                return Ok(Value::Null);
            }
            let document: Option<Value> = serde_json::from_slice(&reply.body).ok();
            let said = || {
                let error = document.as_ref()?.get("error")?;
                error.get("message").and_then(Value::as_str).map(|text| format!(": {}", foreign(text)))
            };
            return match reply.answer {
                Answer::Delivered => match problem(document.as_ref(), &said) {
                    None => Ok(document.unwrap_or_default()),
                    Some(why) => Err(Failure { why, again: Some(Duration::ZERO) }),
                },
                Answer::Retry { why, after } => {
                    Err(Failure { why: format!("{why}{}", said().unwrap_or_default()), again: Some(after) })
                }
                Answer::Refused(why) => {
                    // Credentials and rights may be mended.
                    let may_be_mended = is_unauthorized || reply.status == Some(StatusCode::FORBIDDEN);
                    let why = format!("{why}{}", said().unwrap_or_default());
                    Err(Failure { why, again: may_be_mended.then_some(Duration::ZERO) })
                }
            };
        }
        Err(Failure { why: "no attempt was made".to_owned(), again: None })
    }
}

/// Why a document that was delivered is no answer: another one than an object is none of Service Control, and one with an error none to the
/// call. Neither allows anything.
fn problem(document: Option<&Value>, said: &dyn Fn() -> Option<String>) -> Option<String> {
    match document {
        Some(Value::Object(fields)) if fields.get("error").is_none_or(Value::is_null) => None,
        Some(Value::Object(_)) => Some(format!("the answer is an error{}", said().unwrap_or_default())),
        Some(_) => Some("the answer is none of Service Control: is it the right endpoint?".to_owned()),
        None => Some("the answer is no JSON".to_owned()),
    }
}

/// A name as a segment of a path.
fn escaped(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
    name.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}
