//! Decisions as data: what was asked, what was answered, and which rules made it so.
//!
//! [`Decision`] is one line of the decision log and one entry of a recording; `mixer diff` reads both. [`DecisionLog`] takes
//! calls from the workers as bytes, through a bounded queue, and decodes, masks and writes them on a thread of its own. This room
//! never makes a request wait: what does not fit into the queue is counted and forgotten.

mod answer;
mod attributes;
mod log;
mod mask;
mod options;
mod record;

pub use answer::status_name;
pub use answer::{Answer, AnswerFailure, DirectiveText, HeaderText, QuotaText, ReferenceText, StatusText};
pub use attributes::{AttributeMap, attribute_map, owned_attributes, owned_value, value_json};
pub use log::{Call, CallAnswer, DecisionLog, LogError, Wanted};
pub use mask::{DEFAULT_MASKS, MASKED, Mask, MaskSet};
pub use mixer_base::rpc_code::parse as status_code;
pub use options::{DecisionLogOptions, DecisionOptions, RecordingOptions, Select};
pub use record::{
    CALLER_PRINCIPAL, CallerText, Decision, DispatchText, DryRunText, InstanceText, Method, QuotaAsked,
};
