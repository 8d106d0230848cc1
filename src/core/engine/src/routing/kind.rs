//! What a rule is matched for.

use crate::template::Variety;

/// What a set of rules is matched for. The first four are varieties; header operations are matched separately, after a check that
/// passed, and defaults after a check that no rule allowed or refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RuleKind {
    /// Attribute generators, before everything else.
    Generate,
    /// Checks.
    Check,
    /// Quotas.
    Quota,
    /// Reports.
    Report,
    /// Header operations.
    Headers,
    /// Defaults: refusals of what no rule allows.
    Default,
}

impl RuleKind {
    pub(super) const ALL: [RuleKind; 6] = [
        RuleKind::Generate,
        RuleKind::Check,
        RuleKind::Quota,
        RuleKind::Report,
        RuleKind::Headers,
        RuleKind::Default,
    ];

    /// The spelling in metrics and logs, for example `check`.
    pub fn name(self) -> &'static str {
        match self {
            RuleKind::Generate => "attribute-generator",
            RuleKind::Check => "check",
            RuleKind::Quota => "quota",
            RuleKind::Report => "report",
            RuleKind::Headers => "headers",
            RuleKind::Default => "default",
        }
    }

    /// The kind of a variety; CHECK_WITH_OUTPUT counts as check.
    pub fn of(variety: Variety) -> RuleKind {
        match variety {
            Variety::Check | Variety::CheckWithOutput => RuleKind::Check,
            Variety::Report => RuleKind::Report,
            Variety::Quota => RuleKind::Quota,
            Variety::AttributeGenerator => RuleKind::Generate,
        }
    }
}
