//! Spans.

use mixer_attribute::text::ip_text;
use mixer_delivery::{Item, StoredItem};
use mixer_engine::adapter::{BoundInstance, Instance};
use mixer_otlp::{AnyValueKind, KeyValue, SPAN_FLAG_SAMPLED, Span, SpanKind, SpanStatus, StatusCode};
use prost::Message as _;

use super::attributes::{Attribute, any, attributes};
use super::params::Params;
use crate::tracespan::{Outcome, Party, ReportedSpan, SpanTemplate};

/// Random bits of a trace id that decide whether it is sampled: those that W3C's trace context says are random.
const RANDOM_BITS: u32 = 56;

/// A span on its way.
#[derive(Debug, PartialEq)]
pub(super) struct SpanItem {
    /// The service that it belongs to; empty: that of the server.
    pub(super) service: Box<str>,
    /// Encoded.
    pub(super) span: Box<[u8]>,
}

impl Item for SpanItem {
    fn size(&self) -> usize {
        size_of::<Self>() + self.service.len() + self.span.len()
    }
}

impl StoredItem for SpanItem {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend(u32::try_from(self.service.len()).unwrap_or(u32::MAX).to_le_bytes());
        out.extend_from_slice(self.service.as_bytes());
        out.extend_from_slice(&self.span);
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (length, rest) = bytes.split_first_chunk()?;
        let (service, span) = rest.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)?;
        Some(Self { service: std::str::from_utf8(service).ok()?.into(), span: span.into() })
    }
}

/// How instances become spans.
pub(super) struct OtlpTemplate {
    span: SpanTemplate,
    tags: Vec<Attribute>,
    sampling: f64,
}

impl OtlpTemplate {
    pub(super) fn new(params: &Params, instance: &BoundInstance) -> Self {
        let tags = attributes(params, instance, "span_tags");
        Self { span: SpanTemplate::new(instance), tags, sampling: params.sample_probability }
    }

    pub(super) fn span(&self, instance: &Instance<'_>) -> Outcome<SpanItem> {
        let reported = match self.span.read(instance, |trace_id| self.samples(trace_id)) {
            Outcome::Span(reported) => reported,
            Outcome::None => return Outcome::None,
            Outcome::Impossible(why) => return Outcome::Impossible(why),
        };
        let (Ok(start), Ok(end)) = (u64::try_from(reported.start), u64::try_from(reported.end)) else {
            return Outcome::Impossible("it ends after the year 2554");
        };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let span = Span {
            trace_id: reported.trace_id.to_be_bytes().into(),
            span_id: reported.id.to_be_bytes().into(),
            parent_span_id: reported.parent_id.map_or_else(Vec::new, |id| id.to_be_bytes().into()),
            name: text(reported.name),
            kind: if reported.is_client { SpanKind::Client } else { SpanKind::Server }.into(),
            start_time_unix_nano: start,
            end_time_unix_nano: end,
            attributes: self.attributes(instance, &reported),
            status: status(&reported),
            flags: SPAN_FLAG_SAMPLED,
            ..Span::default()
        };
        let service = text(reported.local().name).into();
        Outcome::Span(SpanItem { service, span: span.encode_to_vec().into() })
    }

    /// As OpenTelemetry's samplers by trace id decide.
    fn samples(&self, trace_id: u128) -> bool {
        let all = 1_u64 << RANDOM_BITS;
        let random = trace_id as u64 & (all - 1);
        random >= ((1.0 - self.sampling) * all as f64) as u64 && self.sampling > 0.0
    }

    /// Tags, and what the fields say, unless a tag has its name.
    fn attributes(&self, instance: &Instance<'_>, span: &ReportedSpan<'_>) -> Vec<KeyValue> {
        let mut all: Vec<KeyValue> = Vec::with_capacity(self.tags.len() + 6);
        for tag in &self.tags {
            all.extend(instance.value(tag.at).map(|value| KeyValue::new(&*tag.name, any(value))));
        }
        let number = |name, number: i64| (number > 0).then_some((name, AnyValueKind::Int(number)));
        let address = |name, party: Party<'_>| {
            let is_address = matches!(party.address.len(), 4 | 16);
            is_address.then(|| (name, AnyValueKind::Text(ip_text(party.address).to_string())))
        };
        let of_fields = [
            number("http.response.status_code", span.http_status),
            number("http.request.size", span.request_size),
            number("http.response.size", span.response_size),
            address("source.address", span.source),
            address("destination.address", span.destination),
        ];
        for (name, value) in of_fields.into_iter().flatten() {
            if self.tags.iter().all(|tag| *tag.name != *name) {
                all.push(KeyValue::new(name, value));
            }
        }
        all
    }
}

/// By the conventions of HTTP, a client's span failed from 400 on, and a server's from 500 on.
fn status(span: &ReportedSpan<'_>) -> Option<SpanStatus> {
    let least = if span.is_client { 400 } else { 500 };
    let has_failed = span.http_status >= least;
    has_failed.then(|| SpanStatus { message: String::new(), code: StatusCode::Error.into() })
}
