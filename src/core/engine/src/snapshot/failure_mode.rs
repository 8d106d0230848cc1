//! What checks of an extension get whose evaluation fails.

use super::model::{HandlerConfig, Snapshot};
use crate::template::Variety;

/// What a check gets whose evaluation fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureAnswer {
    /// An error, so that the failure mode of the proxy decides.
    Error,
    /// OK: the request passes undecided.
    Ok,
    /// A refusal.
    Refusal,
}

/// The setting that says what checks get whose evaluation fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailureMode {
    /// What they get.
    pub answer: FailureAnswer,
    /// The setting, as it is written.
    pub setting: &'static str,
    /// Whether it is written; else it is the default.
    pub is_written: bool,
    /// `FILE:LINE` of the settings; the name of the object if they are in no file; empty if there are none.
    pub place: String,
}

/// For example `` `errorMode: open` (bridge.yaml:6) ``.
impl std::fmt::Display for FailureMode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let default = if self.is_written { "" } else { ", the default" };
        write!(f, "{}{default}", self.setting)?;
        if self.place.is_empty() { Ok(()) } else { write!(f, " ({})", self.place) }
    }
}

impl Snapshot {
    /// What checks of Envoy get whose evaluation fails; `None` if nothing is configured for them.
    pub fn failure_mode(&self) -> Option<&FailureMode> {
        self.extensions.iter().find_map(|extension| extension.failure_mode())
    }

    /// Whether a failure of a handler is one of the check, so that its [failure mode](Self::failure_mode) decides: an enforced rule asks it, and no
    /// `on-error` comes first. Cost: a pass over the rules.
    pub fn fails_checks(&self, handler: &HandlerConfig) -> bool {
        let charged = |name: &str| {
            let mut named = self.extensions.iter().flat_map(|extension| extension.quotas());
            // Those of descriptors have a mode of their own.
            named.any(|quota| quota.selector.is_none() && quota.name.eq_ignore_ascii_case(name))
        };
        self.rules.iter().filter(|rule| !rule.dry_run).any(|rule| {
            let is_decided = rule.on_error.or(handler.on_error).is_some();
            let actions = rule.actions.iter().filter(|action| action.handler.key == handler.key);
            let mut instances = actions.flat_map(|action| &action.instances);
            instances.any(|instance| match instance.template().variety {
                Variety::Check | Variety::CheckWithOutput => !is_decided,
                Variety::Quota => !is_decided && charged(&instance.key.name),
                // Without its attributes nothing is decided.
                Variety::AttributeGenerator => true,
                Variety::Report => false,
            })
        })
    }
}
