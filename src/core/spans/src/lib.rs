//! Distributed tracing: spans, trace contexts and export to collectors.
//!
//! A [`Tracer`] samples calls ([`Tracer::begin`]): it follows the decision of the parent, or else its own rate. A task exports finished
//! [`Span`]s in batches. Finishing a span never waits: spans that do not fit into the queue are dropped and counted. This crate knows
//! nothing of Mixer's calls; `mixer-api` builds their spans.

mod context;
mod export;
mod options;
mod span;
mod tracer;

pub use context::{Format, SpanContext, TraceId, extract, inject};
pub use options::{TracingError, TracingOptions};
pub use span::{Event, Span, SpanKind, Tag, Value};
pub use tracer::{SpanCounts, Tracer, TracerTask, child};
