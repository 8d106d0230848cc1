//! Requests to a service, and what its answers mean.

use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use serde_json::Value;

use super::chain::Chain;
use super::signature::{Scope, Signed, sign};
use super::{AwsOptions, environment};
use crate::RemoteError;
use crate::answer::{Answer, foreign};
use crate::http::{Cut, HttpOptions, HttpTarget, Reply};

/// Codes of errors that end without a change of the request: of overload, of credentials that may be replaced, and of what may be created
/// or allowed later.
const TRANSIENT: [&str; 22] = [
    "AccessDenied",
    "AccessDeniedException",
    "ExpiredToken",
    "ExpiredTokenException",
    "IncompleteSignature",
    "InternalFailure",
    "InvalidClientTokenId",
    "InvalidSignatureException",
    "LimitExceededException",
    "MissingAuthenticationToken",
    "NotAuthorized",
    "OptInRequired",
    "RequestExpired",
    "RequestLimitExceeded",
    "ResourceNotFoundException",
    "ServiceUnavailable",
    "ServiceUnavailableException",
    "SignatureDoesNotMatch",
    "Throttling",
    "ThrottlingException",
    "TooManyRequestsException",
    "UnrecognizedClientException",
];

/// A service in a region. Each has its own credentials, which are looked for when they are needed.
#[derive(Debug)]
pub struct AwsTarget {
    http: HttpTarget,
    chain: Chain,
    service: &'static str,
    region: String,
}

/// What a service answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AwsAnswer {
    /// What became of the request.
    pub answer: Answer,
    /// The code of the error; empty without one.
    pub code: String,
    /// The body.
    pub body: Bytes,
    /// As [`Reply::taken_unread`].
    pub unread: Option<Cut>,
}

impl AwsTarget {
    /// Checks the settings; opens no connection. `service` is the name in signatures. Without a file for the roots of TLS, it is that of
    /// `AWS_CA_BUNDLE`, if it is set.
    ///
    /// Errors: an invalid URL; a certificate or a token that cannot be used.
    pub fn new(
        service: &'static str,
        region: &str,
        mut http: HttpOptions,
        options: &AwsOptions,
    ) -> Result<Self, RemoteError> {
        if http.tls.ca_file.as_os_str().is_empty() {
            http.tls.ca_file = environment("AWS_CA_BUNDLE").unwrap_or_default().into();
        }
        let chain = Chain::new(options, region, &http.tls, &environment)?;
        Ok(Self { http: HttpTarget::new(http)?, chain, service, region: region.to_owned() })
    }

    /// Signs and sends a request. `headers` has at least its content type.
    pub async fn post(&mut self, mut headers: HeaderMap, body: Bytes) -> AwsAnswer {
        let none = |answer| AwsAnswer { answer, code: String::new(), body: Bytes::new(), unread: None };
        let key = match self.chain.key().await {
            Ok(key) => key,
            Err(why) => return none(Answer::retry(why)),
        };
        let (host, path) = self.http.place();
        let request = Signed { host: &host, path, body: &body };
        let scope = Scope { region: &self.region, service: self.service, at: jiff::Timestamp::now() };
        if let Err(why) = sign(&mut headers, request, &key, scope) {
            return none(Answer::retry(why));
        }
        let answer = understood(self.http.post(&headers, body).await);
        let is_of_credentials = ["Token", "Client", "Signature", "Access", "Expired", "NotAuthorized"];
        if is_of_credentials.iter().any(|part| answer.code.contains(part)) {
            self.chain.refused();
        }
        answer
    }
}

fn understood(reply: Reply) -> AwsAnswer {
    let unread = reply.taken_unread();
    let Reply { answer, status, body, .. } = reply;
    let Some(status) = status.filter(|_| !matches!(answer, Answer::Delivered)) else {
        return AwsAnswer { answer, code: String::new(), body, unread };
    };
    let (code, message) = error(&String::from_utf8_lossy(&body));
    let why = match (code.as_str(), message.as_str()) {
        ("", _) => format!("HTTP status {status}"),
        (code, "") => code.to_owned(),
        (code, message) => format!("{code}: {message}"),
    };
    let answer = match answer {
        Answer::Retry { after, .. } => Answer::Retry { why, after },
        _ if TRANSIENT.contains(&code.as_str()) => Answer::Retry { why, after: Duration::ZERO },
        _ => Answer::Refused(why),
    };
    AwsAnswer { answer, code, body, unread }
}

/// The text of the first element of XML with a name.
pub(super) fn element<'t>(body: &'t str, name: &str) -> Option<&'t str> {
    let (_, rest) = body.split_once(&format!("<{name}>"))?;
    rest.split_once("</").map(|(text, _)| text)
}

/// Code and message of an error: in XML, or in JSON, where the code may follow the name of a schema.
pub(super) fn error(body: &str) -> (String, String) {
    let document: Option<Value> = serde_json::from_str(body).ok();
    let field = |name: &str| document.as_ref()?.get(name)?.as_str();
    let code = field("__type").map(|code| code.rsplit(['#', ':']).next().unwrap_or_default());
    let code = code.or_else(|| element(body, "Code")).unwrap_or_default();
    let message = field("message")
        .or_else(|| field("Message"))
        .or_else(|| element(body, "Message"))
        .unwrap_or_default();
    // Senders compare codes.
    let is_code = code.len() < 128 && code.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'.');
    (if is_code { code.to_owned() } else { String::new() }, foreign(message))
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::*;

    fn answered(status: u16, answer: Answer, body: &'static str) -> AwsAnswer {
        let status = StatusCode::from_u16(status).unwrap();
        understood(Reply {
            answer,
            status: Some(status),
            headers: HeaderMap::new(),
            body: Bytes::from_static(body.as_bytes()),
            cut: None,
        })
    }

    #[test]
    fn errors_are_those_of_the_service() {
        let refused = || Answer::Refused("HTTP status".to_owned());
        for (body, code, answer) in [
            (
                "<ErrorResponse><Error><Type>Sender</Type><Code>InvalidParameterValue</Code><Message>no &lt;\nmetric</Message></Error>",
                "InvalidParameterValue",
                Answer::Refused("InvalidParameterValue: no &lt; metric".to_owned()),
            ),
            ("<Error><Code>Throttling</Code></Error>", "Throttling", Answer::retry("Throttling")),
            (
                r#"{"__type":"com.amazon.coral.service#ExpiredTokenException","message":"old"}"#,
                "ExpiredTokenException",
                Answer::retry("ExpiredTokenException: old"),
            ),
            ("<html>", "", Answer::Refused("HTTP status 400 Bad Request".to_owned())),
            (r#"{"__type":"a b"}"#, "", Answer::Refused("HTTP status 400 Bad Request".to_owned())),
        ] {
            let found = answered(400, refused(), body);
            assert_eq!((found.code.as_str(), found.answer), (code, answer), "{body}");
        }
        let busy = Answer::Retry { why: "HTTP status".to_owned(), after: Duration::from_secs(7) };
        let found = answered(503, busy, "<Code>InternalFailure</Code>");
        let expected = Answer::Retry { why: "InternalFailure".to_owned(), after: Duration::from_secs(7) };
        assert_eq!(found.answer, expected);
        assert_eq!(answered(200, Answer::Delivered, "<Code>x</Code>").code, "");
    }
}
