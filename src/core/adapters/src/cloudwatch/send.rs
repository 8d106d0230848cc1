//! Requests to CloudWatch.

use std::fmt::Write as _;
use std::sync::Arc;

use bytes::Bytes;
use form_urlencoded::byte_serialize;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use serde::Deserialize;
use serde_json::json;

use mixer_attribute::Timestamp;
use mixer_delivery::{AsyncSink, Items as _, List, Tally};
use mixer_engine::adapter::Clock;
use mixer_remote::{Answer, AwsAnswer, AwsTarget};

use super::log::Event;
use super::metric::Datum;
use crate::outage::Outage;

/// The service dates data by their arrival, to the minute. Older ones are sent with their time.
const FRESH_MILLIS: i64 = 60_000;
/// Between the oldest and the newest entry of a request.
const SPAN_MILLIS: i64 = 24 * 3600 * 1000;
/// Requests of a batch at most. The service takes entries of the last 14 days and of the next two hours: callers, who choose the times of
/// their entries, do not get a request for each.
const REQUESTS: usize = 18;

/// Sends metrics.
pub(super) struct MetricSender {
    target: AwsTarget,
    /// What every body begins with.
    head: String,
    clock: Arc<dyn Clock>,
    outage: Outage,
}

impl MetricSender {
    pub(super) fn new(target: AwsTarget, namespace: &str, clock: Arc<dyn Clock>, outage: Outage) -> Self {
        let namespace: String = byte_serialize(namespace.as_bytes()).collect();
        let head = format!("Action=PutMetricData&Namespace={namespace}&Version=2010-08-01");
        Self { target, head, clock, outage }
    }

    fn body(&self, data: &[Datum]) -> String {
        let now = i64::try_from(self.clock.now().unix_nanos() / 1_000_000).unwrap_or(i64::MAX);
        let mut body = self.head.clone();
        for (index, datum) in data.iter().enumerate() {
            let number = index + 1;
            for line in datum.lines.lines() {
                // Writing to a String cannot fail.
                let _ = write!(body, "&MetricData.member.{number}.{line}");
            }
            if now.saturating_sub(datum.at) > FRESH_MILLIS {
                let time = Timestamp { seconds: datum.at.div_euclid(1000), nanos: 0 }.rfc3339().to_string();
                let time: String = byte_serialize(time.as_bytes()).collect();
                let _ = write!(body, "&MetricData.member.{number}.Timestamp={time}");
            }
        }
        body
    }
}

impl AsyncSink<List<Datum>> for MetricSender {
    async fn deliver(&mut self, batch: &mut List<Datum>, tally: &mut Tally) {
        let body = self.body(batch.as_slice());
        let kind = HeaderValue::from_static("application/x-www-form-urlencoded; charset=utf-8");
        let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, kind)]);
        let found = self.target.post(headers, Bytes::from(body)).await;
        let AwsAnswer { answer, unread, .. } = of_service(found, is_of_metrics);
        if let Some(cut) = unread {
            self.outage.unread(cut.describe());
        }
        let answer = explained(answer, "could not put metric data into cloudwatch");
        watch(&mut self.outage, &answer);
        answer.settle(batch.len(), tally);
    }
}

/// Sends log entries.
pub(super) struct LogSender {
    target: AwsTarget,
    group: String,
    stream: String,
    token: Token,
    clock: Arc<dyn Clock>,
    outage: Outage,
}

/// What the next request has to say about those before it. The service does not look at it any more, but others that speak its protocol may.
enum Token {
    /// The service is to be asked.
    Unknown,
    None,
    Known(String),
}

/// Parts of answers.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct LogAnswer {
    log_streams: Vec<LogStream>,
    next_sequence_token: Option<String>,
    expected_sequence_token: Option<String>,
    rejected_log_events_info: Option<Rejected>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct LogStream {
    log_stream_name: String,
    upload_sequence_token: Option<String>,
}

/// Entries that the service left out.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Rejected {
    too_new_log_event_start_index: Option<usize>,
    too_old_log_event_end_index: Option<usize>,
    expired_log_event_end_index: Option<usize>,
}

impl Rejected {
    /// How many of so many entries.
    fn count(&self, entries: usize) -> usize {
        let old = self.too_old_log_event_end_index.max(self.expired_log_event_end_index).unwrap_or(0);
        let new = self.too_new_log_event_start_index.map_or(0, |start| entries.saturating_sub(start));
        old.saturating_add(new).min(entries)
    }
}

fn parsed(body: &Bytes) -> LogAnswer {
    serde_json::from_slice(body).unwrap_or_default()
}

impl LogSender {
    pub(super) fn new(
        target: AwsTarget,
        (group, stream): (&str, &str),
        clock: Arc<dyn Clock>,
        outage: Outage,
    ) -> Self {
        let (group, stream) = (group.to_owned(), stream.to_owned());
        Self { target, group, stream, token: Token::Unknown, clock, outage }
    }

    async fn call(&mut self, action: &'static str, body: &serde_json::Value) -> AwsAnswer {
        let headers = HeaderMap::from_iter([
            (header::CONTENT_TYPE, HeaderValue::from_static("application/x-amz-json-1.1")),
            (HeaderName::from_static("x-amz-target"), HeaderValue::from_static(action)),
        ]);
        of_service(self.target.post(headers, Bytes::from(body.to_string())).await, is_of_logs)
    }

    /// Asks for the token. Errors: the answer.
    async fn find_token(&mut self) -> Result<(), Answer> {
        let body = json!({ "logGroupName": self.group, "logStreamNamePrefix": self.stream });
        let found = self.call("Logs_20140328.DescribeLogStreams", &body).await;
        self.token = match found.answer {
            Answer::Delivered => {
                let streams = parsed(&found.body).log_streams;
                let own = streams.into_iter().find(|stream| stream.log_stream_name == self.stream);
                own.and_then(|stream| stream.upload_sequence_token).map_or(Token::None, Token::Known)
            }
            // Writing needs no right to read.
            _ if found.code.starts_with("AccessDenied") => Token::None,
            answer => {
                let what = "logentry upload failed as next upload sequence token could not be retrieved: \
                            could not retrieve Log Stream info from cloudwatch";
                return Err(explained(answer, what));
            }
        };
        Ok(())
    }

    /// Sends entries. Returns how many the service left out.
    async fn put(&mut self, events: &[&Event]) -> Result<usize, Answer> {
        if let Token::Unknown = self.token {
            self.find_token().await?;
        }
        let entries: Vec<serde_json::Value> =
            events.iter().map(|event| json!({ "message": event.message, "timestamp": event.at })).collect();
        let mut body =
            json!({ "logEvents": entries, "logGroupName": self.group, "logStreamName": self.stream });
        if let (Token::Known(token), Some(body)) = (&self.token, body.as_object_mut()) {
            body.insert("sequenceToken".to_owned(), token.as_str().into());
        }
        let put = self.call("Logs_20140328.PutLogEvents", &body).await;
        let said = parsed(&put.body);
        match put.answer {
            Answer::Delivered => {
                self.token = said.next_sequence_token.map_or(Token::None, Token::Known);
                if let Some(cut) = put.unread {
                    self.token = Token::Unknown;
                    self.outage.unread(cut.describe());
                }
                Ok(said.rejected_log_events_info.map_or(0, |rejected| rejected.count(events.len())))
            }
            // The answer to the first attempt was lost.
            _ if put.code == "DataAlreadyAcceptedException" => {
                self.token = said.expected_sequence_token.map_or(Token::Unknown, Token::Known);
                Ok(0)
            }
            _ if put.code == "InvalidSequenceTokenException" => {
                self.token = said.expected_sequence_token.map_or(Token::Unknown, Token::Known);
                Err(Answer::retry("another sender writes to the log stream"))
            }
            answer => {
                self.token = Token::Unknown;
                Err(explained(answer, "could not put logentry data into cloudwatchlogs"))
            }
        }
    }
}

impl AsyncSink<List<Event>> for LogSender {
    async fn deliver(&mut self, batch: &mut List<Event>, tally: &mut Tally) {
        // The service takes entries by their time only, and no more than those of a day at once.
        let now = i64::try_from(self.clock.now().unix_nanos() / 1_000_000).unwrap_or(i64::MAX);
        let mut lost = None;
        let items = batch.len();
        let kept = parts(batch.as_slice(), now);
        let events: Vec<&Event> = kept.iter().flatten().copied().collect();
        let is_whole = events.len() == items;
        if !is_whole {
            lost = Some("entries are too old or too new for the log service".to_owned());
        }
        let mut rest = events.as_slice();
        let mut again = None;
        for part in &kept {
            let part = part.as_slice();
            let later = rest.get(part.len()..).unwrap_or_default();
            match self.put(part).await {
                Ok(0) => tally.delivered(part.len()),
                Ok(rejected) => {
                    tally.delivered(part.len() - rejected);
                    lost = Some(format!("{rejected} entries are too old or too new for the log service"));
                }
                Err(answer) => {
                    watch(&mut self.outage, &answer);
                    match answer {
                        Answer::Retry { why, after } => {
                            again = Some((why, after));
                            break;
                        }
                        Answer::Refused(why) => lost = Some(why),
                        Answer::Delivered => {}
                    }
                }
            }
            rest = later;
        }
        if let Some((why, after)) = again {
            // Those that are left, unless it is all of them.
            let left: Vec<Event> = if is_whole && rest.len() == events.len() {
                Vec::new()
            } else {
                rest.iter().map(|event| (*event).clone()).collect()
            };
            if !left.is_empty() {
                batch.clear();
                left.into_iter().for_each(|event| batch.push(event));
            }
            tally.try_again_after(why, after);
            return;
        }
        match lost {
            Some(why) => tally.give_up(why),
            None => self.outage.ended(),
        }
    }
}

/// Entries in the order of their times, those of at most a day together. Of more parts than [`REQUESTS`], those nearest to now: the service
/// would leave out all others.
fn parts(events: &[Event], now: i64) -> Vec<Vec<&Event>> {
    let mut events: Vec<&Event> = events.iter().collect();
    events.sort_by_key(|event| event.at);
    let mut parts = Vec::new();
    let mut rest = events.as_slice();
    while let Some(first) = rest.first() {
        let of_day = rest.partition_point(|event| event.at.saturating_sub(first.at) < SPAN_MILLIS);
        let (part, later) = rest.split_at(of_day);
        parts.push(part.to_vec());
        rest = later;
    }
    let distance =
        |part: &[&Event]| part.iter().map(|event| event.at.abs_diff(now)).min().unwrap_or(u64::MAX);
    while parts.len() > REQUESTS {
        // The first or the last one is farthest away.
        let ends = [parts.first(), parts.last()].map(|part| part.map_or(0, |part| distance(part)));
        match ends {
            [first, last] if first > last => drop(parts.remove(0)),
            _ => drop(parts.pop()),
        }
    }
    parts
}

/// Whether a body is that of an answer of the metrics service.
fn is_of_metrics(body: &[u8]) -> bool {
    const ROOT: &[u8] = b"<PutMetricDataResponse";
    body.windows(ROOT.len()).any(|part| part == ROOT)
}

/// Whether a body is that of an answer of the log service.
fn is_of_logs(body: &[u8]) -> bool {
    serde_json::from_slice::<serde_json::Map<String, serde_json::Value>>(body).is_ok()
}

/// An answer whose body is one of the service, or is not whole.
fn of_service(found: AwsAnswer, is_of_service: fn(&[u8]) -> bool) -> AwsAnswer {
    match found.unread.is_some() || is_of_service(&found.body) {
        true => found,
        false => AwsAnswer { answer: no_page(found.answer), ..found },
    }
}

/// The meaning of an answer whose body is none of the service: with status 200, as pages of proxies have it, nothing was taken.
fn no_page(answer: Answer) -> Answer {
    match answer {
        Answer::Delivered => Answer::retry("the answer is none of CloudWatch: is it the right URL?"),
        failed => failed,
    }
}

/// An answer that says what failed.
fn explained(answer: Answer, what: &str) -> Answer {
    match answer {
        Answer::Delivered => Answer::Delivered,
        Answer::Retry { why, after } => Answer::Retry { why: format!("{what}: {why}"), after },
        Answer::Refused(why) => Answer::Refused(format!("{what}: {why}")),
    }
}

fn watch(outage: &mut Outage, answer: &Answer) {
    match answer {
        Answer::Delivered => outage.ended(),
        Answer::Retry { why, .. } | Answer::Refused(why) => outage.failed(why),
    }
}

#[cfg(test)]
mod tests {
    use mixer_remote::Cut;

    use super::*;

    #[test]
    fn callers_with_an_entry_a_day_do_not_get_a_request_each() {
        let of_day = |day: i64| Event { at: day * SPAN_MILLIS, message: "m".into() };
        let events: Vec<Event> = (0..1000).map(of_day).collect();
        let now = 500 * SPAN_MILLIS + 1;
        let found = parts(&events, now);
        assert_eq!(found.len(), REQUESTS);
        let days: Vec<i64> = found.iter().flatten().map(|event| event.at / SPAN_MILLIS).collect();
        assert!(days.is_sorted() && (493..=507).all(|day| days.contains(&day)), "{days:?}");
        let old = [of_day(3), of_day(1)];
        let days: Vec<Vec<i64>> = parts(&old, now)
            .iter()
            .map(|part| part.iter().map(|event| event.at / SPAN_MILLIS).collect())
            .collect();
        assert_eq!(days, [[1], [3]], "few of them are left to the service");
        let soon = [of_day(1), Event { at: SPAN_MILLIS + 5, message: "n".into() }];
        assert_eq!(parts(&soon, now).len(), 1);
        assert!(parts(&[], now).is_empty());
    }

    #[test]
    fn a_page_is_no_answer() {
        let xml = r#"<?xml version="1.0"?><PutMetricDataResponse xmlns="http://monitoring.amazonaws.com/doc/2010-08-01/"/>"#;
        assert!(
            is_of_metrics(xml.as_bytes()) && is_of_logs(b"{}") && is_of_logs(br#"{"nextSequenceToken":"7"}"#)
        );
        for page in ["", "<html>", "[]", "\"ok\""] {
            assert!(!is_of_metrics(page.as_bytes()) && !is_of_logs(page.as_bytes()), "{page}");
        }
        assert!(matches!(no_page(Answer::Delivered), Answer::Retry { .. }));
        let of = |unread, body: &'static [u8]| {
            let answer = Answer::Delivered;
            let found = AwsAnswer { answer, code: String::new(), body: Bytes::from_static(body), unread };
            [is_of_metrics, is_of_logs].map(|is_of| of_service(found.clone(), is_of).answer)
        };
        for cut in [Cut::TooLarge, Cut::Lost] {
            assert_eq!(of(Some(cut), br#"{"nextSeq"#), [Answer::Delivered, Answer::Delivered]);
        }
        let again = of(None, br#"{"nextSeq"#);
        assert!(again.iter().all(|answer| matches!(answer, Answer::Retry { .. })), "{again:?}");
        let refused = Answer::Refused("HTTP status 400".to_owned());
        assert_eq!(no_page(refused.clone()), refused);
    }

    #[test]
    fn what_the_service_left_out_is_counted() {
        let of = |old, expired, new| Rejected {
            too_new_log_event_start_index: new,
            too_old_log_event_end_index: old,
            expired_log_event_end_index: expired,
        };
        for (rejected, count) in [
            (of(None, None, None), 0),
            (of(Some(2), Some(3), None), 3),
            (of(None, None, Some(8)), 2),
            (of(Some(4), None, Some(4)), 10),
            (of(Some(99), None, Some(99)), 10),
        ] {
            assert_eq!(rejected.count(10), count, "{rejected:?}");
        }
    }
}
