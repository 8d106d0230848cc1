//! Spans: what was done in a call, when, and as part of which trace. They are sent to a collector.
//!
//! A [`Tracer`] decides whether a call is traced ([`Tracer::begin`]), from what its caller says or by chance, and takes in the finished
//! [`Span`]s, which a task of its own sends on in batches. Handing spans over never waits: when too many are under way they are dropped
//! and counted. The room knows nothing of Mixer's calls; `api` makes spans of them.
//! Spec: cli-operations.md section 7.

mod context;
mod export;
mod options;
mod span;
mod tracer;

pub use context::{Format, SpanContext, TraceId, extract, inject};
pub use options::{TracingError, TracingOptions};
pub use span::{Event, Kind, Span, Tag, Value};
pub use tracer::{SpanCounts, Tracer, TracerTask, child};
