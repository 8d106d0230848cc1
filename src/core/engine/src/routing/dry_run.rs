//! Counters of rules in dry run.

use mixer_base::metrics::{Counter, Family, Metrics};

use super::kind::RuleKind;

/// What a rule in dry run would have done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DryRunOutcome {
    /// The check would have passed.
    Allowed,
    /// The check would have been refused.
    Denied,
    /// The quota would have been granted in full.
    Granted,
    /// The quota would not have been granted in full.
    Refused,
    /// The rule matched; its effect is unknown.
    Matched,
    /// An instance could not be evaluated, or the handler failed.
    Failed,
    /// The handler's answer was not awaited: too many are pending.
    Skipped,
}

impl DryRunOutcome {
    const ALL: [DryRunOutcome; 7] = [
        DryRunOutcome::Allowed,
        DryRunOutcome::Denied,
        DryRunOutcome::Granted,
        DryRunOutcome::Refused,
        DryRunOutcome::Matched,
        DryRunOutcome::Failed,
        DryRunOutcome::Skipped,
    ];

    /// The label value, for example `denied`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            DryRunOutcome::Allowed => "allowed",
            DryRunOutcome::Denied => "denied",
            DryRunOutcome::Granted => "granted",
            DryRunOutcome::Refused => "refused",
            DryRunOutcome::Matched => "matched",
            DryRunOutcome::Failed => "failed",
            DryRunOutcome::Skipped => "skipped",
        }
    }
}

/// The counters of one rule in dry run: `mixer_dry_run_outcomes_total`.
#[derive(Debug, Clone)]
pub(crate) struct DryRunCounters([Option<Counter>; 7]);

impl DryRunCounters {
    pub(super) fn new(metrics: &Metrics, rule: &str, kind: RuleKind) -> Self {
        use DryRunOutcome::{Allowed, Denied, Failed, Granted, Matched, Refused, Skipped};
        let possible: &[DryRunOutcome] = match kind {
            RuleKind::Check => &[Allowed, Denied, Failed, Skipped],
            RuleKind::Quota => &[Granted, Refused, Matched, Failed, Skipped],
            RuleKind::Generate | RuleKind::Report => &[Matched, Failed],
            RuleKind::Headers => &[Matched],
            RuleKind::Default => &[Allowed, Denied],
        };
        let counter = |outcome: DryRunOutcome| {
            let labels = [outcome.name(), rule, kind.name()];
            possible.contains(&outcome).then(|| metrics.counter(Family::DryRunOutcomes, &labels))
        };
        Self(DryRunOutcome::ALL.map(counter))
    }

    /// Increments the counter of `outcome`.
    pub(crate) fn count(&self, outcome: DryRunOutcome) {
        if let Some(Some(counter)) = self.0.get(outcome as usize) {
            counter.increment();
        }
    }
}
