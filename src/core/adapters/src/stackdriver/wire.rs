//! Messages of Google's services, as far as they are used.

use std::collections::BTreeMap;

use prost::{Enumeration, Message, Oneof};
use prost_types::{Duration, FieldMask, Timestamp};

/// `google.api.MonitoredResource`
#[derive(Clone, PartialEq, Message)]
pub(super) struct Resource {
    #[prost(string, tag = "1")]
    pub(super) kind: String,
    #[prost(btree_map = "string, string", tag = "2")]
    pub(super) labels: BTreeMap<String, String>,
}

/// `google.monitoring.v3.CreateTimeSeriesRequest`
#[derive(Clone, PartialEq, Message)]
pub(super) struct CreateTimeSeries {
    #[prost(message, repeated, tag = "2")]
    pub(super) time_series: Vec<TimeSeries>,
    #[prost(string, tag = "3")]
    pub(super) name: String,
}

/// `google.monitoring.v3.CreateTimeSeriesError`
#[derive(Clone, PartialEq, Message)]
pub(super) struct SeriesError {
    #[prost(message, optional, tag = "1")]
    pub(super) series: Option<TimeSeries>,
    #[prost(message, optional, tag = "2")]
    pub(super) status: Option<RpcStatus>,
}

/// `google.monitoring.v3.CreateTimeSeriesSummary`
#[derive(Clone, PartialEq, Message)]
pub(super) struct SeriesSummary {
    #[prost(int32, tag = "1")]
    pub(super) points: i32,
    #[prost(int32, tag = "2")]
    pub(super) written: i32,
}

/// `google.monitoring.v3.TimeSeries`
#[derive(Clone, PartialEq, Message)]
pub(super) struct TimeSeries {
    #[prost(message, optional, tag = "1")]
    pub(super) metric: Option<Metric>,
    #[prost(message, optional, tag = "2")]
    pub(super) resource: Option<Resource>,
    #[prost(int32, tag = "3")]
    pub(super) metric_kind: i32,
    #[prost(int32, tag = "4")]
    pub(super) value_type: i32,
    #[prost(message, repeated, tag = "5")]
    pub(super) points: Vec<Point>,
}

/// `google.api.Metric`
#[derive(Clone, PartialEq, Message)]
pub(super) struct Metric {
    #[prost(btree_map = "string, string", tag = "2")]
    pub(super) labels: BTreeMap<String, String>,
    #[prost(string, tag = "3")]
    pub(super) kind: String,
}

/// `google.monitoring.v3.Point`
#[derive(Clone, PartialEq, Message)]
pub(super) struct Point {
    #[prost(message, optional, tag = "1")]
    pub(super) interval: Option<Interval>,
    #[prost(message, optional, tag = "2")]
    pub(super) value: Option<TypedValue>,
}

/// `google.monitoring.v3.TimeInterval`
#[derive(Clone, PartialEq, Message)]
pub(super) struct Interval {
    #[prost(message, optional, tag = "1")]
    pub(super) end: Option<Timestamp>,
    #[prost(message, optional, tag = "2")]
    pub(super) start: Option<Timestamp>,
}

/// `google.monitoring.v3.TypedValue`
#[derive(Clone, PartialEq, Message)]
pub(super) struct TypedValue {
    #[prost(oneof = "Number", tags = "1, 2, 3, 4, 5")]
    pub(super) value: Option<Number>,
}

/// The value of a point.
#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Number {
    #[prost(bool, tag = "1")]
    Bool(bool),
    #[prost(int64, tag = "2")]
    Int(i64),
    #[prost(double, tag = "3")]
    Double(f64),
    #[prost(string, tag = "4")]
    Text(String),
    #[prost(message, tag = "5")]
    Distribution(Distribution),
}

/// `google.api.Distribution`
#[derive(Clone, PartialEq, Message)]
pub(super) struct Distribution {
    #[prost(int64, tag = "1")]
    pub(super) count: i64,
    #[prost(message, optional, tag = "6")]
    pub(super) buckets: Option<BucketOptions>,
    #[prost(int64, repeated, tag = "7")]
    pub(super) counts: Vec<i64>,
}

/// `google.api.Distribution.BucketOptions`
#[derive(Clone, PartialEq, Message)]
pub(super) struct BucketOptions {
    #[prost(oneof = "Bounds", tags = "1, 2, 3")]
    pub(super) bounds: Option<Bounds>,
}

/// The bounds of buckets.
#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Bounds {
    #[prost(message, tag = "1")]
    Linear(LinearBounds),
    #[prost(message, tag = "2")]
    Exponential(ExponentialBounds),
    #[prost(message, tag = "3")]
    Explicit(ExplicitBounds),
}

/// `google.api.Distribution.BucketOptions.Linear`
#[derive(Clone, PartialEq, Message)]
pub(super) struct LinearBounds {
    #[prost(int32, tag = "1")]
    pub(super) finite: i32,
    #[prost(double, tag = "2")]
    pub(super) width: f64,
    #[prost(double, tag = "3")]
    pub(super) offset: f64,
}

/// `google.api.Distribution.BucketOptions.Exponential`
#[derive(Clone, PartialEq, Message)]
pub(super) struct ExponentialBounds {
    #[prost(int32, tag = "1")]
    pub(super) finite: i32,
    #[prost(double, tag = "2")]
    pub(super) growth: f64,
    #[prost(double, tag = "3")]
    pub(super) scale: f64,
}

/// `google.api.Distribution.BucketOptions.Explicit`
#[derive(Clone, PartialEq, Message)]
pub(super) struct ExplicitBounds {
    #[prost(double, repeated, tag = "1")]
    pub(super) bounds: Vec<f64>,
}

/// `google.logging.v2.WriteLogEntriesRequest`
#[derive(Clone, PartialEq, Message)]
pub(super) struct WriteLogEntries {
    #[prost(string, tag = "1")]
    pub(super) log_name: String,
    #[prost(message, optional, tag = "2")]
    pub(super) resource: Option<Resource>,
    #[prost(message, repeated, tag = "4")]
    pub(super) entries: Vec<LogEntry>,
    /// Whether valid entries are written although others are not.
    #[prost(bool, tag = "5")]
    pub(super) partial_success: bool,
}

/// `google.logging.v2.WriteLogEntriesPartialErrors`
#[derive(Clone, PartialEq, Message)]
pub(super) struct LogErrors {
    /// By the index of the entry in the request.
    #[prost(btree_map = "int32, message", tag = "1")]
    pub(super) errors: BTreeMap<i32, RpcStatus>,
}

/// `google.logging.v2.LogEntry`
#[derive(Clone, PartialEq, Message)]
pub(super) struct LogEntry {
    #[prost(string, optional, tag = "3")]
    pub(super) text_payload: Option<String>,
    /// By which Google knows an entry that is sent again.
    #[prost(string, tag = "4")]
    pub(super) insert_id: String,
    #[prost(message, optional, tag = "7")]
    pub(super) http_request: Option<HttpRequest>,
    #[prost(message, optional, tag = "8")]
    pub(super) resource: Option<Resource>,
    #[prost(message, optional, tag = "9")]
    pub(super) timestamp: Option<Timestamp>,
    #[prost(int32, tag = "10")]
    pub(super) severity: i32,
    #[prost(btree_map = "string, string", tag = "11")]
    pub(super) labels: BTreeMap<String, String>,
}

/// `google.logging.type.HttpRequest`
#[derive(Clone, PartialEq, Message)]
pub(super) struct HttpRequest {
    #[prost(string, tag = "1")]
    pub(super) request_method: String,
    #[prost(string, tag = "2")]
    pub(super) request_url: String,
    #[prost(int64, tag = "3")]
    pub(super) request_size: i64,
    #[prost(int32, tag = "4")]
    pub(super) status: i32,
    #[prost(int64, tag = "5")]
    pub(super) response_size: i64,
    #[prost(string, tag = "6")]
    pub(super) user_agent: String,
    #[prost(string, tag = "7")]
    pub(super) remote_ip: String,
    #[prost(string, tag = "8")]
    pub(super) referer: String,
    #[prost(string, tag = "13")]
    pub(super) server_ip: String,
    #[prost(message, optional, tag = "14")]
    pub(super) latency: Option<Duration>,
}

/// `google.logging.v2.CreateSinkRequest`
#[derive(Clone, PartialEq, Message)]
pub(super) struct CreateSink {
    #[prost(string, tag = "1")]
    pub(super) parent: String,
    #[prost(message, optional, tag = "2")]
    pub(super) sink: Option<LogSink>,
    #[prost(bool, tag = "3")]
    pub(super) unique_writer_identity: bool,
}

/// `google.logging.v2.UpdateSinkRequest`
#[derive(Clone, PartialEq, Message)]
pub(super) struct UpdateSink {
    #[prost(string, tag = "1")]
    pub(super) sink_name: String,
    #[prost(message, optional, tag = "2")]
    pub(super) sink: Option<LogSink>,
    #[prost(bool, tag = "3")]
    pub(super) unique_writer_identity: bool,
    #[prost(message, optional, tag = "4")]
    pub(super) update_mask: Option<FieldMask>,
}

/// `google.logging.v2.LogSink`
#[derive(Clone, PartialEq, Message)]
pub(super) struct LogSink {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "3")]
    pub(super) destination: String,
    #[prost(string, tag = "5")]
    pub(super) filter: String,
}

/// `google.devtools.cloudtrace.v2.BatchWriteSpansRequest`
#[derive(Clone, PartialEq, Message)]
pub(super) struct BatchWriteSpans {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(message, repeated, tag = "2")]
    pub(super) spans: Vec<Span>,
}

/// `google.devtools.cloudtrace.v2.Span`
#[derive(Clone, PartialEq, Message)]
pub(super) struct Span {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) span_id: String,
    #[prost(string, tag = "3")]
    pub(super) parent_span_id: String,
    #[prost(message, optional, tag = "4")]
    pub(super) display_name: Option<Truncatable>,
    #[prost(message, optional, tag = "5")]
    pub(super) start_time: Option<Timestamp>,
    #[prost(message, optional, tag = "6")]
    pub(super) end_time: Option<Timestamp>,
    #[prost(message, optional, tag = "7")]
    pub(super) attributes: Option<Attributes>,
    #[prost(message, optional, tag = "9")]
    pub(super) time_events: Option<TimeEvents>,
    #[prost(message, optional, tag = "11")]
    pub(super) status: Option<RpcStatus>,
    /// `google.protobuf.BoolValue`
    #[prost(message, optional, tag = "12")]
    pub(super) same_process_as_parent: Option<bool>,
}

/// `google.devtools.cloudtrace.v2.TruncatableString`
#[derive(Clone, PartialEq, Message)]
pub(super) struct Truncatable {
    #[prost(string, tag = "1")]
    pub(super) value: String,
    #[prost(int32, tag = "2")]
    pub(super) truncated_byte_count: i32,
}

/// `google.devtools.cloudtrace.v2.Span.Attributes`
#[derive(Clone, PartialEq, Message)]
pub(super) struct Attributes {
    #[prost(btree_map = "string, message", tag = "1")]
    pub(super) map: BTreeMap<String, AttributeValue>,
    #[prost(int32, tag = "2")]
    pub(super) dropped: i32,
}

/// `google.devtools.cloudtrace.v2.AttributeValue`
#[derive(Clone, PartialEq, Message)]
pub(super) struct AttributeValue {
    #[prost(oneof = "AttributeKind", tags = "1, 2, 3")]
    pub(super) value: Option<AttributeKind>,
}

/// The value of an attribute.
#[derive(Clone, PartialEq, Oneof)]
pub(super) enum AttributeKind {
    #[prost(message, tag = "1")]
    Text(Truncatable),
    #[prost(int64, tag = "2")]
    Int(i64),
    #[prost(bool, tag = "3")]
    Bool(bool),
}

/// `google.devtools.cloudtrace.v2.Span.TimeEvents`
#[derive(Clone, PartialEq, Message)]
pub(super) struct TimeEvents {
    #[prost(message, repeated, tag = "1")]
    pub(super) events: Vec<TimeEvent>,
}

/// `google.devtools.cloudtrace.v2.Span.TimeEvent`
#[derive(Clone, PartialEq, Message)]
pub(super) struct TimeEvent {
    #[prost(message, optional, tag = "1")]
    pub(super) time: Option<Timestamp>,
    #[prost(message, optional, tag = "3")]
    pub(super) message: Option<MessageEvent>,
}

/// `google.devtools.cloudtrace.v2.Span.TimeEvent.MessageEvent`
#[derive(Clone, PartialEq, Message)]
pub(super) struct MessageEvent {
    #[prost(enumeration = "MessageKind", tag = "1")]
    pub(super) kind: i32,
    #[prost(int64, tag = "3")]
    pub(super) uncompressed_size: i64,
    #[prost(int64, tag = "4")]
    pub(super) compressed_size: i64,
}

/// `google.devtools.cloudtrace.v2.Span.TimeEvent.MessageEvent.Type`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub(super) enum MessageKind {
    Unspecified = 0,
    Sent = 1,
    Received = 2,
}

/// `google.rpc.Status`
#[derive(Clone, PartialEq, Message)]
pub(super) struct RpcStatus {
    #[prost(int32, tag = "1")]
    pub(super) code: i32,
    #[prost(string, tag = "2")]
    pub(super) message: String,
}

/// `google.cloud.contextgraph.v1alpha1.AssertBatchRequest`
#[derive(Clone, PartialEq, Message)]
pub(super) struct AssertBatch {
    #[prost(message, repeated, tag = "1")]
    pub(super) entities: Vec<EntityAssertion>,
    #[prost(message, repeated, tag = "2")]
    pub(super) relationships: Vec<RelationshipAssertion>,
}

/// `google.cloud.contextgraph.v1alpha1.EntityPresentAssertion`
#[derive(Clone, PartialEq, Message)]
pub(super) struct EntityAssertion {
    #[prost(message, optional, tag = "1")]
    pub(super) timestamp: Option<Timestamp>,
    #[prost(message, optional, tag = "2")]
    pub(super) entity: Option<Entity>,
}

/// `google.cloud.contextgraph.v1alpha1.Entity`
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub(super) struct Entity {
    #[prost(string, tag = "6")]
    pub(super) location: String,
    #[prost(string, tag = "7")]
    pub(super) full_name: String,
    #[prost(string, repeated, tag = "8")]
    pub(super) short_names: Vec<String>,
    #[prost(string, tag = "9")]
    pub(super) type_name: String,
    #[prost(string, tag = "10")]
    pub(super) container_full_name: String,
}

/// `google.cloud.contextgraph.v1alpha1.RelationshipPresentAssertion`
#[derive(Clone, PartialEq, Message)]
pub(super) struct RelationshipAssertion {
    #[prost(message, optional, tag = "1")]
    pub(super) timestamp: Option<Timestamp>,
    #[prost(message, optional, tag = "2")]
    pub(super) relationship: Option<Relationship>,
    /// 1: the source.
    #[prost(int32, tag = "6")]
    pub(super) owning_entity: i32,
}

/// `google.cloud.contextgraph.v1alpha1.Relationship`
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub(super) struct Relationship {
    #[prost(string, tag = "4")]
    pub(super) type_name: String,
    #[prost(string, tag = "5")]
    pub(super) source_full_name: String,
    #[prost(string, tag = "6")]
    pub(super) target_full_name: String,
}
