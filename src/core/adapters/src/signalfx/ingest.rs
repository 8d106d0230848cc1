//! The way to SignalFx.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};

use mixer_delivery::{AsyncSink, Item, Items as _, List, Tally};
use mixer_engine::adapter::{BuildError, Env};
use mixer_remote::{
    Answer, Authentication, ClientTlsOptions, Credential, HttpOptions, HttpTarget, Reply, foreign, gzip,
};

use super::Params;
use super::metric::Point;
use super::span::SpanItem;
use crate::outage::Outage;

/// The limit of a request.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The header with the access token.
const TOKEN: HeaderName = HeaderName::from_static("x-sf-token");
/// A request of datapoints with more bytes is compressed.
const PLAIN_BYTES: usize = 1500;

/// What is sent in batches.
pub(super) trait Ingested: Item + Sized + Sync {
    const PATH: &'static str;
    const CONTENT_TYPE: HeaderValue;
    const IS_COMPRESSED: bool;

    /// The request with a batch.
    fn request(batch: &[Self]) -> Vec<u8>;
}

impl Ingested for Point {
    const PATH: &'static str = "/v2/datapoint";
    const CONTENT_TYPE: HeaderValue = HeaderValue::from_static("application/x-protobuf");
    const IS_COMPRESSED: bool = true;

    fn request(batch: &[Self]) -> Vec<u8> {
        /// Field 1, of which the length follows.
        const DATAPOINTS: u8 = (1 << 3) | 2;
        let mut body = Vec::with_capacity(batch.iter().map(|point| point.0.len() + 4).sum());
        for point in batch {
            body.push(DATAPOINTS);
            prost::encoding::encode_varint(point.0.len() as u64, &mut body);
            body.extend_from_slice(&point.0);
        }
        body
    }
}

impl Ingested for SpanItem {
    const PATH: &'static str = "/v1/trace";
    const CONTENT_TYPE: HeaderValue = HeaderValue::from_static("application/json");
    const IS_COMPRESSED: bool = false;

    fn request(batch: &[Self]) -> Vec<u8> {
        let mut body = Vec::with_capacity(batch.iter().map(|span| span.0.len() + 1).sum::<usize>() + 1);
        for span in batch {
            body.push(if body.is_empty() { b'[' } else { b',' });
            body.extend_from_slice(&span.0);
        }
        body.push(b']');
        body
    }
}

/// Sends datapoints, or spans.
pub(super) struct Ingest {
    target: HttpTarget,
    headers: HeaderMap,
    outage: Outage,
}

impl Ingest {
    /// Checks the settings and loads files; opens no connection.
    pub(super) fn new<T: Ingested>(params: &Params, env: &Env) -> Result<Self, BuildError> {
        let refused = |error: &dyn std::fmt::Display| BuildError::Refused(error.to_string());
        let token = token(params)?;
        let agent = HeaderValue::from_static(concat!("mixer/", env!("CARGO_PKG_VERSION")));
        let target = HttpTarget::new(HttpOptions {
            timeout: TIMEOUT,
            tls: ClientTlsOptions { ca_file: (&params.ca_file).into(), ..ClientTlsOptions::default() },
            authentication: Authentication::Header(TOKEN, token),
            headers: HeaderMap::from_iter([(header::USER_AGENT, agent)]),
            ..HttpOptions::new(format!("{}{}", params.base(), T::PATH))
        });
        let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, T::CONTENT_TYPE)]);
        let outage = Outage::new(&env.handler_name);
        Ok(Self { target: target.map_err(|error| refused(&error))?, headers, outage })
    }
}

fn token(params: &Params) -> Result<Credential, BuildError> {
    if params.tokens() > 1 {
        return Err(BuildError::Refused("there is more than one access token".to_owned()));
    }
    let found = match (params.access_token_file.as_str(), params.access_token_environment.as_str()) {
        ("", "") => Ok(Credential::from_configuration(&params.access_token)),
        ("", variable) => Credential::from_environment(variable),
        (file, _) => Credential::from_file(file),
    };
    found.map_err(|error| BuildError::Refused(error.to_string()))
}

/// What a reply means: SignalFx says OK, as JSON, when it took everything. Counts of a batch that was taken and is sent again would count twice:
/// what is cut off after the status is no reason for that.
fn answer(reply: Reply) -> Answer {
    if reply.taken_unread().is_some() {
        return Answer::Delivered;
    }
    let said = || foreign(&String::from_utf8_lossy(&reply.body));
    match reply.answer {
        Answer::Delivered => match (reply.status, serde_json::from_slice::<String>(&reply.body)) {
            (Some(StatusCode::OK), Ok(text)) if text == "OK" => Answer::Delivered,
            _ => Answer::retry("the answer is none of SignalFx: is it the right URL?"),
        },
        Answer::Refused(why) if !reply.body.is_empty() => Answer::Refused(format!("{why}: {}", said())),
        other => other,
    }
}

impl<T: Ingested> AsyncSink<List<T>> for Ingest {
    async fn deliver(&mut self, batch: &mut List<T>, tally: &mut Tally) {
        let body = T::request(batch.as_slice());
        let mut headers = self.headers.clone();
        let body: Bytes = match T::IS_COMPRESSED && body.len() > PLAIN_BYTES {
            true => {
                headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
                gzip(&body).into()
            }
            false => body.into(),
        };
        let reply = self.target.post(&headers, body).await;
        if let Some(cut) = reply.taken_unread() {
            self.outage.unread(cut.describe());
        }
        let answer = answer(reply);
        match &answer {
            Answer::Delivered => self.outage.ended(),
            Answer::Retry { why, .. } | Answer::Refused(why) => self.outage.failed(why),
        }
        answer.settle(batch.len(), tally);
    }
}

#[cfg(test)]
mod tests {
    use mixer_remote::Cut;

    use super::*;

    #[test]
    fn only_signalfx_says_ok() {
        let cut_off = |answer, body: &'static str, cut| {
            let (status, headers) = (Some(StatusCode::OK), HeaderMap::new());
            super::answer(Reply { answer, status, headers, body: Bytes::from_static(body.as_bytes()), cut })
        };
        let of = |answer, body| cut_off(answer, body, None);
        for body in ["", "\"O"] {
            assert_eq!(cut_off(Answer::Delivered, body, Some(Cut::Lost)), Answer::Delivered, "{body}");
        }
        assert!(matches!(cut_off(Answer::Delivered, "<html>", Some(Cut::Lost)), Answer::Retry { .. }));
        assert_eq!(of(Answer::Delivered, "\"OK\"\n"), Answer::Delivered);
        for body in ["", "OK", "{}", "\"no\"", "<html>"] {
            let answer = of(Answer::Delivered, body);
            assert!(matches!(answer, Answer::Retry { .. }), "{body}: {answer:?}");
        }
        let refused = Answer::Refused("HTTP status 400: bad\u{a0}point".to_owned());
        assert_eq!(of(Answer::Refused("HTTP status 400".to_owned()), "bad\u{a0}point"), refused);
    }
}
