//! What a built adapter does with instances.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use super::HandlerStatus;
use crate::template::TemplateInfo;
use mixer_attribute::{SignedDuration, Value, ValueType};

/// One value of an instance: which field it is and of which type.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Leaf {
    /// The proto name of the field; `subject.user` for nested ones.
    pub field: &'static str,
    /// The key, for fields that are maps.
    pub key: Option<Box<str>>,
    /// The type of its expression; [`ValueType::Unspecified`] when none is configured.
    pub value_type: ValueType,
}

/// An instance as a handler knows it before any request: its name, template and leaves.
///
/// Leaves stand in field-number order; the entries of a map in byte order of their keys. Fixed fields without an expression
/// have a leaf too, of type `Unspecified`, whose value is always absent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoundInstance {
    /// For example `requestcount.instance.istio-system`, or `requestcount.metric.istio-system` for a legacy kind.
    pub name: Arc<str>,
    /// Its template.
    pub template: &'static TemplateInfo,
    /// Its values.
    pub leaves: Arc<[Leaf]>,
    /// Nested messages that are configured at all, for example `subject`.
    pub messages: Vec<&'static str>,
}

impl BoundInstance {
    /// The position of a field that is not a map.
    pub fn position(&self, field: &str) -> Option<usize> {
        self.leaves.iter().position(|l| l.field == field && l.key.is_none())
    }

    /// Keys and positions of a map field, in key order.
    pub fn entries<'s>(&'s self, field: &'s str) -> impl Iterator<Item = (&'s str, usize)> {
        self.leaves
            .iter()
            .enumerate()
            .filter(move |(_, l)| l.field == field)
            .filter_map(|(i, l)| Some((l.key.as_deref()?, i)))
    }
}

/// An instance evaluated for one request.
#[derive(Debug, Clone, Copy)]
pub struct Instance<'a> {
    /// Its index among the instances that the handler was built with.
    pub bound: usize,
    /// Its full name.
    pub name: &'a str,
    /// One value a leaf of the bound instance; `None` where no expression is configured.
    pub values: &'a [Option<Value<'a>>],
}

impl<'a> Instance<'a> {
    /// The value at a leaf position.
    pub fn value(&self, position: usize) -> Option<Value<'a>> {
        self.values.get(position).copied().flatten()
    }
}

/// A detail of a status, as an encoded `google.protobuf.Any`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StatusDetail {
    /// For example `type.googleapis.com/istio.policy.v1beta1.DirectHttpResponse`.
    pub type_url: String,
    /// The encoded message.
    pub value: Vec<u8>,
}

/// A `google.rpc.Status`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Status {
    /// 0 is OK.
    pub code: i32,
    /// For people.
    pub message: String,
    /// Passed on; a direct response becomes part of the route directive. Almost always empty.
    pub details: Vec<StatusDetail>,
}

/// What a handler says about a check. The default is "nothing to say".
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CheckResult {
    /// OK or the refusal.
    pub status: Status,
    /// How long the answer may be reused.
    pub valid_duration: SignedDuration,
    /// How often the answer may be reused.
    pub valid_use_count: i32,
}

/// What is asked of a quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuotaCall<'a> {
    /// How much; negative gives back.
    pub amount: i64,
    /// Whether less than all is welcome.
    pub best_effort: bool,
    /// Equal ids are one request; contains the name of the quota.
    pub deduplication_id: &'a str,
}

/// What a quota grants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QuotaResult {
    /// How much.
    pub granted: i64,
    /// For how long.
    pub valid_duration: SignedDuration,
}

/// Where a quota stands, for callers that tell their own callers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuotaLevel {
    /// How much may be in use.
    pub limit: i64,
    /// The length of the window; zero for what is held until it is given back.
    pub window: SignedDuration,
    /// How much is left.
    pub remaining: i64,
    /// When some of what is in use is free again; zero when nothing is.
    pub reset: SignedDuration,
}

/// Attributes made by a generator: value by output field name. A field that is missing is absent.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Generated {
    /// Output field name and value.
    pub values: Vec<(&'static str, GeneratedValue)>,
}

/// A generated value, owned.
#[derive(Debug, Clone, PartialEq)]
pub enum GeneratedValue {
    /// Text.
    String(String),
    /// 4 or 16 bytes.
    IpAddress(std::net::IpAddr),
    /// A map.
    StringMap(Vec<(String, String)>),
}

/// A call that a handler could not carry out. Not a refusal: the caller's RPC fails.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct HandlerError {
    /// In the adapter's own words.
    pub message: String,
}

impl HandlerError {
    /// An error with this text.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }
}

/// An answer now, or a future that waits for the network. Only handlers that wait use `Later`; it leaves the worker.
pub enum Reply<T> {
    /// The answer.
    Ready(Result<T, HandlerError>),
    /// The answer to come. Owns all it needs.
    Later(Pin<Box<dyn Future<Output = Result<T, HandlerError>> + Send>>),
}

/// Decides checks: templates of variety check.
pub trait HandleCheck: Send + Sync {
    /// Decides over one instance.
    fn check(&self, instance: &Instance<'_>) -> Reply<CheckResult>;
}

/// Hands out quota: templates of variety quota.
pub trait HandleQuota: Send + Sync {
    /// Grants or takes back.
    fn quota(&self, instance: &Instance<'_>, call: QuotaCall<'_>) -> Reply<QuotaResult>;

    /// Where the quota stands, if that is known without asking anybody.
    fn level(&self, instance: &Instance<'_>) -> Option<QuotaLevel> {
        let _ = instance;
        None
    }
}

/// Takes in reports: templates of variety report.
pub trait HandleReport: Send + Sync {
    /// Takes all instances of one template and one RPC, in order. One failing instance does not stop the others; all problems
    /// are joined with [`join_errors`].
    fn report(&self, instances: &[Instance<'_>]) -> Reply<()>;
}

/// Makes attributes: templates of variety attribute generator.
pub trait HandleGenerate: Send + Sync {
    /// Makes attributes from one instance.
    fn generate(&self, instance: &Instance<'_>) -> Reply<Generated>;
}

/// A built adapter. Implements the traits of the templates it supports; the start-up check compares them with
/// [`AdapterInfo::templates`](super::AdapterInfo::templates).
pub trait Handler: Send + Sync + 'static {
    /// This handler as one that decides checks.
    fn as_check(&self) -> Option<&dyn HandleCheck> {
        None
    }

    /// This handler as one that hands out quota.
    fn as_quota(&self) -> Option<&dyn HandleQuota> {
        None
    }

    /// This handler as one that takes in reports.
    fn as_report(&self) -> Option<&dyn HandleReport> {
        None
    }

    /// This handler as one that makes attributes.
    fn as_generate(&self) -> Option<&dyn HandleGenerate> {
        None
    }

    /// What operators may see of its inside. Called from time to time while somebody looks; may take locks for a moment, must not
    /// wait for anything else.
    fn status(&self) -> HandlerStatus {
        HandlerStatus::default()
    }

    /// Ends everything the handler started, within `deadline`. No call is under way and none comes after.
    fn close(
        &self,
        deadline: Duration,
    ) -> Pin<Box<dyn Future<Output = Result<(), HandlerError>> + Send + '_>> {
        let _ = deadline;
        Box::pin(std::future::ready(Ok(())))
    }
}

/// Joins error texts the way the originals' multi-error lists do: `2 errors occurred:\n\t* a\n\t* b\n\n`.
pub fn join_errors<T: std::fmt::Display>(errors: &[T]) -> String {
    use std::fmt::Write as _;
    let mut text = match errors.len() {
        1 => "1 error occurred:".to_owned(),
        n => format!("{n} errors occurred:"),
    };
    for error in errors {
        // Writing to a String cannot fail.
        let _ = write!(text, "\n\t* {error}");
    }
    text.push_str("\n\n");
    text
}
