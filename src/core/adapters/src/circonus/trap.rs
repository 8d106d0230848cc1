//! The trap: where submissions go.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde_json::Value as Json;

use mixer_delivery::{AsyncSink, Item, Items as _, List, Tally};
use mixer_remote::{
    Answer, ClientTlsOptions, Credential, HttpOptions, HttpTarget, RemoteError, Reply, Secret, foreign,
};

use super::{UNIX, WRITE, is_trap};
use crate::outage::Outage;

/// A member of a submission: the name of a metric and its value.
pub(super) struct Member(Box<[u8]>);

impl Member {
    pub(super) fn new(name: &str, value: &str) -> Self {
        let mut json = Vec::with_capacity(name.len() + value.len() + 3);
        mixer_base::json::push_string(&mut json, name.as_bytes());
        json.push(b':');
        json.extend_from_slice(value.as_bytes());
        Self(json.into())
    }
}

impl Item for Member {
    fn size(&self) -> usize {
        size_of::<Self>() + self.0.len()
    }
}

/// The object with a batch.
fn object(members: &[Member]) -> Bytes {
    let mut body = Vec::with_capacity(members.iter().map(|member| member.0.len() + 1).sum::<usize>() + 1);
    for member in members {
        body.push(if body.is_empty() { b'{' } else { b',' });
        body.extend_from_slice(&member.0);
    }
    body.push(b'}');
    body.into()
}

/// Sends submissions.
pub(super) struct Trap {
    /// The URL, part of which is a secret.
    url: Credential,
    ca_file: String,
    target: HttpTarget,
    /// That of `target`.
    known: Secret,
    headers: HeaderMap,
    outage: Outage,
}

impl Trap {
    /// Checks the URL and loads certificates; opens no connection.
    pub(super) fn new(url: Credential, ca_file: &str, outage: Outage) -> Result<Self, String> {
        let json = HeaderValue::from_static("application/json");
        let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, json.clone()), (header::ACCEPT, json)]);
        let known = url.last();
        let target = target(&known, ca_file)?;
        Ok(Self { url, ca_file: ca_file.to_owned(), target, known, headers, outage })
    }

    /// Follows a URL that was replaced. One that cannot be used changes nothing, and is told.
    async fn follow(&mut self) -> Result<(), String> {
        let url = self.url.secret().await;
        if url != self.known {
            self.target = target(&url, &self.ca_file)?;
            self.known = url;
        }
        Ok(())
    }
}

/// The client of a URL. Errors do not show it.
fn target(url: &Secret, ca_file: &str) -> Result<HttpTarget, String> {
    let url = url.expose();
    let invalid = || format!("the submission URL is not http://HOST, https://HOST or {UNIX}SOCKET{WRITE}ID");
    if !is_trap(url) {
        return Err(invalid());
    }
    let mut options = match url.strip_prefix(UNIX).and_then(|rest| rest.rsplit_once(WRITE)) {
        Some((socket, id)) => HttpOptions {
            unix_socket: Some(socket.into()),
            ..HttpOptions::new(format!("http://localhost{WRITE}{id}"))
        },
        None => HttpOptions::new(url),
    };
    options.tls = ClientTlsOptions { ca_file: ca_file.into(), ..ClientTlsOptions::default() };
    HttpTarget::new(options).map_err(|error| match error {
        RemoteError::Tls(error) => error.to_string(),
        _ => invalid(),
    })
}

/// What a reply means: the trap says how many metrics it took, and an agent says nothing. Counts of a submission that was taken and is sent again
/// would count twice: what is cut off after the status is no reason for that.
fn answer(reply: Reply) -> Answer {
    let Answer::Delivered = reply.answer else { return reply.answer };
    if reply.taken_unread().is_some() {
        return Answer::Delivered;
    }
    match reply.status {
        Some(StatusCode::NO_CONTENT) => Answer::Delivered,
        Some(StatusCode::OK) => {
            let json = serde_json::from_slice::<Json>(&reply.body).unwrap_or_default();
            let error = json.get("error").and_then(Json::as_str).filter(|error| !error.is_empty());
            match error {
                Some(error) => Answer::Refused(format!("the trap says: {}", foreign(error))),
                None if json.get("stats").is_some_and(Json::is_u64) => Answer::Delivered,
                None => Answer::retry("the answer is none of Circonus: is it the right URL?"),
            }
        }
        status => {
            let status = status.map(|status| status.as_u16()).unwrap_or_default();
            Answer::Refused(format!("bad response code: {status}"))
        }
    }
}

impl AsyncSink<List<Member>> for Trap {
    async fn deliver(&mut self, batch: &mut List<Member>, tally: &mut Tally) {
        let answer = match self.follow().await {
            Ok(()) => {
                let reply = self.target.put(&self.headers, object(batch.as_slice())).await;
                if let Some(cut) = reply.taken_unread() {
                    self.outage.unread(cut.describe());
                }
                answer(reply)
            }
            Err(why) => Answer::retry(why),
        };
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

    fn reply(status: u16, body: &'static str, cut: Option<Cut>) -> Answer {
        let (status, headers) = (StatusCode::from_u16(status).ok(), HeaderMap::new());
        let body = Bytes::from_static(body.as_bytes());
        answer(Reply { answer: Answer::Delivered, status, headers, body, cut })
    }

    fn answer_of(status: u16, body: &'static str) -> Answer {
        reply(status, body, None)
    }

    #[test]
    fn what_was_taken_is_not_sent_again() {
        for (body, cut) in [("", Cut::Lost), (r#"{"sta"#, Cut::Lost), (r#"{"stats":1,"#, Cut::TooLarge)] {
            assert_eq!(reply(200, body, Some(cut)), Answer::Delivered, "{body}");
        }
        assert!(matches!(reply(200, "<html>", Some(Cut::Lost)), Answer::Retry { .. }));
    }

    #[test]
    fn only_a_trap_answers_as_one() {
        for (status, body) in [(200, r#"{"stats":3}"#), (200, r#"{"stats":0,"error":""}"#), (204, "")] {
            assert_eq!(answer_of(status, body), Answer::Delivered, "{status} {body}");
        }
        for body in ["", "{}", "<html>", r#"{"stats":"3"}"#] {
            let answer = answer_of(200, body);
            assert!(matches!(answer, Answer::Retry { .. }), "{body}: {answer:?}");
        }
        let refused = |why: &str| Answer::Refused(why.to_owned());
        assert_eq!(answer_of(202, r#"{"stats":3}"#), refused("bad response code: 202"));
        assert_eq!(answer_of(200, r#"{"stats":0,"error":"no"}"#), refused("the trap says: no"));
    }
}
