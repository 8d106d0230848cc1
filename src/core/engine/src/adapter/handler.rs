//! The dispatch API of handlers.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use super::HandlerStatus;
use crate::template::{Name, Plan, TemplateInfo};
use mixer_attribute::{SignedDuration, Timestamp, Value, ValueType};

/// A leaf field of an instance.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Leaf {
    /// The proto name of the field; `subject.user` for nested ones.
    pub field: Name,
    /// The key, for map fields.
    pub key: Option<Box<str>>,
    /// The type of its expression; [`ValueType::Unspecified`] without an expression.
    pub value_type: ValueType,
}

impl Leaf {
    /// A leaf; the field may be nested, as `subject.user`.
    pub fn new(field: &str, key: Option<&str>, value_type: ValueType) -> Self {
        Self { field: field.into(), key: key.map(Into::into), value_type }
    }
}

/// The static part of an instance, known when a handler is built.
///
/// Leaves are in field-number order, the entries of a map in byte order of their keys. Fixed fields without an expression have a
/// leaf of type `Unspecified`, whose value is always absent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoundInstance {
    /// For example `requestcount.instance.istio-system`, or `requestcount.metric.istio-system` for a legacy kind.
    pub name: Arc<str>,
    /// Its template.
    pub template: Arc<TemplateInfo>,
    /// Its leaf fields.
    pub leaves: Arc<[Leaf]>,
    /// Configured nested messages, for example `subject`.
    pub messages: Vec<Name>,
    /// How its message is written; of an instance out of process.
    pub plan: Option<Arc<Plan>>,
    /// The positions of the outputs of its template that its attribute bindings read, in order; of a template in process.
    pub read_outputs: Arc<[usize]>,
}

impl BoundInstance {
    /// The position of a field that is not a map.
    pub fn position(&self, field: &str) -> Option<usize> {
        self.leaves.iter().position(|l| l.field == *field && l.key.is_none())
    }

    /// The position of an output of its template, for [`Generated`].
    pub fn output(&self, name: &str) -> Option<usize> {
        self.template.output_position(name)
    }

    /// Whether its attribute bindings read an output of its template.
    pub fn reads_output(&self, name: &str) -> bool {
        self.output(name).is_some_and(|position| self.read_outputs.contains(&position))
    }

    /// Whether a nested message is configured.
    pub fn has_message(&self, name: &str) -> bool {
        self.messages.iter().any(|message| *message == *name)
    }

    /// Keys and positions of a map field, in key order.
    pub fn entries<'s>(&'s self, field: &'s str) -> impl Iterator<Item = (&'s str, usize)> {
        self.leaves
            .iter()
            .enumerate()
            .filter(move |(_, l)| l.field == *field)
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
    /// One value per leaf of the bound instance; `None` without an expression.
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
    /// Human-readable message.
    pub message: String,
    /// Usually empty. A `DirectHttpResponse` becomes part of the route directive.
    pub details: Vec<StatusDetail>,
}

/// The result of a check. The default allows the request and does not limit its validity.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CheckResult {
    /// OK or a denial.
    pub status: Status,
    /// How long the result may be cached.
    pub valid_duration: SignedDuration,
    /// How many times the result may be used.
    pub valid_use_count: i32,
    /// The outputs of a check that has some: the position among those of its template, and the value.
    pub output: Vec<(usize, GeneratedValue)>,
}

/// A quota request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuotaCall<'a> {
    /// The amount; a negative one releases.
    pub amount: i64,
    /// Whether a partial grant is acceptable.
    pub best_effort: bool,
    /// Requests with equal ids are charged once; contains the name of the quota.
    pub deduplication_id: &'a str,
}

/// The result of a quota request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QuotaResult {
    /// The granted amount.
    pub granted: i64,
    /// How long the grant is valid.
    pub valid_duration: SignedDuration,
}

/// The level of a quota, for rate-limit response headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuotaLevel {
    /// The limit.
    pub limit: i64,
    /// The window; zero for amounts that clients release.
    pub window: SignedDuration,
    /// The remaining amount.
    pub remaining: i64,
    /// Time until some of the used amount is available again; zero when none is in use.
    pub reset: SignedDuration,
}

/// Generated attributes. Missing ones are absent.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Generated {
    /// The position among the outputs of the template, which [`BoundInstance::output`] tells when a handler is built, and the value.
    pub values: Vec<(usize, GeneratedValue)>,
}

/// A generated value, owned.
#[derive(Debug, Clone, PartialEq)]
pub enum GeneratedValue {
    /// Text.
    String(String),
    /// A number.
    Int64(i64),
    /// A number with a fraction.
    Double(f64),
    /// A Boolean.
    Bool(bool),
    /// A point in time.
    Timestamp(Timestamp),
    /// A duration.
    Duration(SignedDuration),
    /// 4 or 16 bytes.
    IpAddress(std::net::IpAddr),
    /// A map.
    StringMap(Vec<(String, String)>),
}

/// A failed handler call. Not a denial: the RPC fails.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct HandlerError {
    /// Message of the adapter.
    pub message: String,
    /// Whether it depends on the request and the configuration alone, as a text that is malformed: the caller can bring it about, and the
    /// same request fails again. No failure of a server or of its backends.
    pub is_of_request: bool,
    /// Whether the program itself is at fault: the handler panicked. Callers may bring that about, so that no mode for failures of servers
    /// opens by it.
    pub is_fault: bool,
    /// Whether the server stops, and did not do what it would have done otherwise: another server may.
    pub is_stopping: bool,
}

impl HandlerError {
    /// An error with this message.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), is_of_request: false, is_fault: false, is_stopping: false }
    }

    /// An error that depends on the request alone.
    pub fn of_request(message: impl Into<String>) -> Self {
        Self { is_of_request: true, ..Self::new(message) }
    }

    /// An error that the stop of the server brings about.
    pub fn of_stop(message: impl Into<String>) -> Self {
        Self { is_stopping: true, ..Self::new(message) }
    }

    /// An error for which the program itself is to blame.
    pub fn of_fault(message: impl Into<String>) -> Self {
        Self { is_fault: true, ..Self::new(message) }
    }
}

/// A synchronous or asynchronous result. Only handlers that wait, for example for the network, return `Later`.
pub enum Reply<T> {
    /// The result.
    Ready(Result<T, HandlerError>),
    /// A future of the result. Borrows nothing from the request.
    Later(Pin<Box<dyn Future<Output = Result<T, HandlerError>> + Send>>),
}

/// Handles checks: templates of variety check.
pub trait HandleCheck: Send + Sync {
    /// Checks one instance.
    fn check(&self, instance: &Instance<'_>) -> Reply<CheckResult>;

    /// The version of what the answers follow besides the configuration, such as a list. A last answer is repeated as long as it is the
    /// same. That nothing is known any more is no version. Versions are unique in a process. Asked before a check whose answer is kept.
    fn answers_version(&self) -> u64 {
        0
    }
}

/// Handles quota requests: templates of variety quota.
pub trait HandleQuota: Send + Sync {
    /// Allocates or releases quota.
    fn quota(&self, instance: &Instance<'_>, call: QuotaCall<'_>) -> Reply<QuotaResult>;

    /// The level of the quota, if it is known without a remote call.
    fn level(&self, instance: &Instance<'_>) -> Option<QuotaLevel> {
        let _ = instance;
        None
    }
}

/// Handles reports: templates of variety report.
pub trait HandleReport: Send + Sync {
    /// Reports all instances of one template and one RPC, in order. A failed instance does not stop the others; all errors are
    /// joined with [`join_errors`].
    fn report(&self, instances: &[Instance<'_>]) -> Reply<()>;
}

/// Generates attributes: templates of variety attribute generator.
pub trait HandleGenerate: Send + Sync {
    /// Generates attributes from one instance.
    fn generate(&self, instance: &Instance<'_>) -> Reply<Generated>;
}

/// What [`Handler::probe`] finds.
pub type ProbeFuture<'h> = Pin<Box<dyn Future<Output = Result<String, String>> + Send + 'h>>;

/// How often a probe looks at the status of a handler.
const PROBE_PAUSE: Duration = Duration::from_millis(20);

/// A built adapter. Implements the traits of the templates in [`AdapterInfo::templates`](super::AdapterInfo::templates), which is
/// checked when it is built.
pub trait Handler: Send + Sync + 'static {
    /// This handler as [`HandleCheck`].
    fn as_check(&self) -> Option<&dyn HandleCheck> {
        None
    }

    /// This handler as [`HandleQuota`].
    fn as_quota(&self) -> Option<&dyn HandleQuota> {
        None
    }

    /// This handler as [`HandleReport`].
    fn as_report(&self) -> Option<&dyn HandleReport> {
        None
    }

    /// This handler as [`HandleGenerate`].
    fn as_generate(&self) -> Option<&dyn HandleGenerate> {
        None
    }

    /// Its status for operators, polled by the introspection pages. May take short locks; must not block otherwise.
    fn status(&self) -> HandlerStatus {
        HandlerStatus::default()
    }

    /// Why it answers otherwise than its configuration says, for as long as that lasts: for example with an old list, because the new one
    /// cannot be read. Looked at every second: takes no lock, and does nothing else that is slow.
    fn degradation(&self) -> Option<String> {
        None
    }

    /// Whether callers choose how long its calls take, as a policy takes longer for longer texts. That it has no answer in time, or has too many calls in
    /// flight, is a failure [of the request](HandlerError::is_of_request) then: nobody gets past it by making it slow. Constant.
    fn callers_choose_duration(&self) -> bool {
        false
    }

    /// Asks its backend whether it can be reached, for `doctor`: what was reached, within `limit`. Errors: why it was not. Called only if its
    /// adapter has [`Backends::AskHandler`](super::Backends::AskHandler). By default its status tells, once there is nothing wrong with it.
    fn probe(&self, limit: Duration) -> ProbeFuture<'_> {
        Box::pin(async move {
            let deadline = tokio::time::Instant::now() + limit;
            loop {
                let status = self.status();
                match status.trouble {
                    None => return Ok(status.described()),
                    Some(trouble) if tokio::time::Instant::now() >= deadline => return Err(trouble),
                    Some(_) => tokio::time::sleep(PROBE_PAUSE).await,
                }
            }
        })
    }

    /// Stops everything the handler started, within `deadline`. No call is in flight and none follows.
    fn close(
        &self,
        deadline: Duration,
    ) -> Pin<Box<dyn Future<Output = Result<(), HandlerError>> + Send + '_>> {
        let _ = deadline;
        Box::pin(std::future::ready(Ok(())))
    }
}

/// Joins error texts in the multi-error format of Istio Mixer: `2 errors occurred:\n\t* a\n\t* b\n\n`.
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
