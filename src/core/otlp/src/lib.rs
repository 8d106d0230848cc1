//! OTLP, the protocol of OpenTelemetry collectors: messages of metrics, logs and traces, and what is around them.
//!
//! Whoever exports encodes each item (a [`Span`], a [`LogRecord`], a [`metric`]) by itself, when it arises, and puts those of a batch into a
//! [`Request`] later. The numbers of all fields are those of opentelemetry-proto 1.
//!
//! ```ignore
//! let span = Span { name: "/".to_owned(), ..Span::default() }.encode_to_vec();
//! let mut request = Request::default();
//! request.add(&Resource::new([("service.name", "web".into())]), [span.as_slice()]);
//! post(Signal::Traces.path(), request.into_bytes());
//! ```
//!
//! This crate opens no connection, and knows nothing of Mixer.

mod common;
mod logs;
mod metrics;
mod request;
mod trace;

pub use common::{AnyValue, AnyValueKind, KeyValue, KeyValueList, push_attribute, push_text_attribute};
pub use logs::{LogRecord, severity_number};
pub use metrics::{
    HISTOGRAM_ATTRIBUTES, HistogramPoint, MetricHead, MetricShape, NUMBER_ATTRIBUTES, NumberPoint,
    NumberValue, Temporality, metric,
};
pub use request::{ExportResponse, PartialSuccess, Request, Resource, Signal};
pub use trace::{
    SPAN_FLAG_HAS_IS_REMOTE, SPAN_FLAG_IS_REMOTE, SPAN_FLAG_SAMPLED, Span, SpanEvent, SpanKind, SpanStatus,
    StatusCode,
};
