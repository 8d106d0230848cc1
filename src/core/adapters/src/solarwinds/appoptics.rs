//! Metrics as measurements, and their way to AppOptics.

use std::io::Write as _;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, header};
use serde_json::Value as Json;

use mixer_attribute::Value;
use mixer_attribute::text::push_text;
use mixer_base::decimal;
use mixer_base::json::push_string;
use mixer_delivery::{AsyncSink, Item, Items as _, List, Tally};
use mixer_engine::adapter::{BoundInstance, Instance};
use mixer_remote::{Answer, Cut, HttpTarget, Reply, foreign};

use super::MetricInfo;
use crate::cut::cut;
use crate::outage::Outage;

/// A measurement as JSON.
pub(super) struct Measurement(Box<[u8]>);

impl Item for Measurement {
    fn size(&self) -> usize {
        size_of::<Self>() + self.0.len()
    }
}

#[cfg(test)]
impl Measurement {
    pub(super) fn json(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap()
    }
}

/// How instances become measurements.
pub(super) struct MeasurementTemplate {
    value: Option<usize>,
    /// Names and positions of the dimensions that are tags, sorted; a dimension that the instance does not have is an empty text.
    tags: Vec<(String, Option<usize>)>,
}

/// What becomes of an instance.
pub(super) enum Measured {
    Number(Measurement),
    /// A measurement of 0, because the value is no number.
    Zero(Measurement),
    /// There is no JSON for the number.
    NotFinite,
}

impl MeasurementTemplate {
    pub(super) fn new(instance: &BoundInstance, info: &MetricInfo) -> Self {
        let at =
            |label: &str| instance.entries("dimensions").find(|(key, _)| *key == label).map(|(_, at)| at);
        let mut tags: Vec<_> = info.label_names.iter().map(|label| (label.clone(), at(label))).collect();
        tags.sort_unstable();
        tags.dedup();
        Self { value: instance.position("value"), tags }
    }

    /// The measurement of an instance that arrived so many seconds after 1970.
    pub(super) fn measurement(&self, instance: &Instance<'_>, time: u64) -> Measured {
        let number = match self.value.and_then(|at| instance.value(at)) {
            Some(Value::Int64(number)) => Some(number as f64),
            Some(Value::Double(number)) => Some(number),
            Some(Value::Duration(duration)) => Some(duration.nanos as f64 / 1e9),
            Some(Value::String(text)) => std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()),
            _ => None,
        };
        if number.is_some_and(|number| !number.is_finite()) {
            return Measured::NotFinite;
        }
        let mut json = Vec::with_capacity(128);
        json.extend_from_slice(b"{\"name\":");
        push_string(&mut json, instance.name.as_bytes());
        let mut text = Vec::new();
        for (index, (name, at)) in self.tags.iter().enumerate() {
            json.extend_from_slice(if index == 0 { b",\"tags\":{" } else { b"," });
            push_string(&mut json, name.as_bytes());
            json.push(b':');
            text.clear();
            if let Some(value) = at.and_then(|at| instance.value(at)) {
                push_text(&mut text, value);
                cut(&mut text);
            }
            push_string(&mut json, &text);
        }
        if !self.tags.is_empty() {
            json.push(b'}');
        }
        // Writing to a Vec cannot fail.
        let _ = write!(json, ",\"time\":{time},\"value\":{}}}", decimal::json(number.unwrap_or(0.0)));
        let measurement = Measurement(json.into());
        if number.is_some() { Measured::Number(measurement) } else { Measured::Zero(measurement) }
    }
}

/// Sends measurements.
pub(super) struct AppOptics {
    target: HttpTarget,
    headers: HeaderMap,
    outage: Outage,
}

impl AppOptics {
    pub(super) fn new(target: HttpTarget, outage: Outage) -> Self {
        let json = HeaderValue::from_static("application/json");
        let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, json.clone()), (header::ACCEPT, json)]);
        Self { target, headers, outage }
    }
}

/// The request with a batch.
fn request(batch: &[Measurement]) -> Bytes {
    let mut body = b"{\"measurements\":".to_vec();
    for (index, measurement) in batch.iter().enumerate() {
        body.push(if index == 0 { b'[' } else { b',' });
        body.extend_from_slice(&measurement.0);
    }
    body.extend_from_slice(b"]}");
    body.into()
}

/// What an answer means.
#[derive(Debug, PartialEq)]
enum Outcome {
    /// AppOptics took the batch, but for so many measurements.
    Taken { rejected: u64, why: String },
    /// It took the batch, and what it said of it is not whole.
    Unread(Cut),
    /// It did not take the batch.
    NotTaken(Answer),
}

/// What a reply says about a batch.
fn outcome(reply: Reply) -> Outcome {
    if let Some(cut) = reply.taken_unread() {
        return Outcome::Unread(cut);
    }
    let json = serde_json::from_slice::<Json>(&reply.body).ok();
    let errors = json.as_ref().and_then(|json| json.get("errors")).filter(|errors| !errors.is_null());
    let errors = errors.map(|errors| foreign(&errors.to_string()));
    match reply.answer {
        Answer::Delivered => match json {
            None if !reply.body.is_empty() => {
                Outcome::NotTaken(Answer::retry("the answer is none of AppOptics: is it the right URL?"))
            }
            json => {
                let failed = json.and_then(|json| json.pointer("/measurements/summary/failed")?.as_u64());
                Outcome::Taken { rejected: failed.unwrap_or(0), why: errors.unwrap_or_default() }
            }
        },
        Answer::Refused(why) => {
            let why = errors.map_or_else(|| why.clone(), |errors| format!("{why}: {errors}"));
            Outcome::NotTaken(Answer::Refused(why))
        }
        again => Outcome::NotTaken(again),
    }
}

impl AsyncSink<List<Measurement>> for AppOptics {
    async fn deliver(&mut self, batch: &mut List<Measurement>, tally: &mut Tally) {
        let items = batch.len();
        let body = request(batch.as_slice());
        match outcome(self.target.post(&self.headers, body).await) {
            Outcome::Taken { rejected: 0, .. } => {
                self.outage.ended();
                tally.delivered(items);
            }
            Outcome::Unread(cut) => {
                self.outage.ended();
                self.outage.unread(cut.describe());
                tally.delivered(items);
            }
            Outcome::Taken { rejected, why } => {
                let rejected = usize::try_from(rejected).unwrap_or(usize::MAX).min(items);
                let why = format!("AppOptics rejected {rejected} of {items} measurements: {why}");
                self.outage.failed(&why);
                tally.delivered(items - rejected);
                tally.give_up(why);
            }
            Outcome::NotTaken(answer) => {
                if let Answer::Retry { why, .. } | Answer::Refused(why) = &answer {
                    self.outage.failed(why);
                }
                answer.settle(items, tally);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::StatusCode;

    fn outcome_of(answer: Answer, body: &'static str) -> Outcome {
        let (status, headers) = (Some(StatusCode::OK), HeaderMap::new());
        outcome(Reply { answer, status, headers, body: Bytes::from_static(body.as_bytes()), cut: None })
    }

    #[test]
    fn answers_are_told_apart() {
        let taken = |rejected, why: &str| Outcome::Taken { rejected, why: why.to_owned() };
        for body in ["", "{}", r#"{"measurements":{"summary":{"total":2,"accepted":2,"failed":0}}}"#] {
            assert_eq!(outcome_of(Answer::Delivered, body), taken(0, ""), "{body}");
        }
        let partial = r#"{"measurements":{"summary":{"failed":1}},"errors":[{"param":"time"}]}"#;
        assert_eq!(outcome_of(Answer::Delivered, partial), taken(1, r#"[{"param":"time"}]"#));
        let page = outcome_of(Answer::Delivered, "<html>");
        assert!(matches!(page, Outcome::NotTaken(Answer::Retry { .. })), "{page:?}");
        let long = |body: &'static str| {
            let (status, headers) = (Some(StatusCode::OK), HeaderMap::new());
            let (answer, body) = (Answer::Delivered, Bytes::from_static(body.as_bytes()));
            outcome(Reply { answer, status, headers, body, cut: Some(Cut::TooLarge) })
        };
        assert_eq!(long(r#"{"errors":[{"#), Outcome::Unread(Cut::TooLarge));
        assert!(matches!(long("<html>"), Outcome::NotTaken(Answer::Retry { .. })));
        let refused = |why: &str| Outcome::NotTaken(Answer::Refused(why.to_owned()));
        let of = |body| outcome_of(Answer::Refused("HTTP status 401".to_owned()), body);
        assert_eq!(of(r#"{"errors":{"request":["no"]}}"#), refused(r#"HTTP status 401: {"request":["no"]}"#));
        assert_eq!(of("no"), refused("HTTP status 401"));
    }
}
