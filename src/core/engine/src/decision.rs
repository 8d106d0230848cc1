//! Decisions as data: request, answer, and the rules that led to it.
//!
//! [`Decision`] is one line of the decision log or of a recording; `mixer diff` reads both. [`DecisionLog`] takes encoded calls from
//! the workers through a bounded queue, and decodes, masks and writes them on its own thread. It never delays a request: calls that
//! do not fit into the queue are counted and dropped.

mod answer;
mod attributes;
mod call;
mod cut;
mod log;
mod mask;
mod options;
mod record;

pub use answer::status_name;
pub use answer::{Answer, AnswerFailure, DirectiveText, HeaderText, QuotaText, ReferenceText, StatusText};
pub(crate) use attributes::attribute_map;
pub use attributes::{AttributeMap, owned_attributes, owned_value};
pub use call::{AnsweredCall, CALLER_PRINCIPAL, CallAnswer, CallerText, Method};
pub use log::{DecisionLog, DecisionTargets, LogError, full_recording};
pub use mask::{DEFAULT_MASKS, MASKED, undeclared_masks};
pub use mixer_base::rpc_code::parse as status_code;
pub use options::{DecisionLogOptions, DecisionOptions, RecordingOptions, Select};
pub use record::{Decision, DispatchText, DryRunText, InstanceText, QuotaRequestText};
