//! Which rules allocate the quotas of a request.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::dispatch::QuotaRules;
use crate::runtime::Published;
use crate::template::Variety;
use mixer_attribute::AttributeBag;
use mixer_config::message::suggestion;

/// Quotas of a request that are explained.
pub const MAX_QUOTAS: usize = 100;
/// Rules that are listed for each.
const MAX_RULES: usize = 20;

/// Who allocates the quotas of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QuotaExplanations {
    /// Id of the snapshot that was evaluated.
    pub snapshot: u64,
    /// The first [`MAX_QUOTAS`] quotas.
    pub quotas: Vec<QuotaExplanation>,
}

/// Who allocates a quota of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QuotaExplanation {
    /// The name that the request has.
    pub name: String,
    /// Whether a rule allocates it for the request; what no rule allocates is granted as requested.
    pub allocated: bool,
    /// The first of these rules, in evaluation order.
    pub rules: Vec<String>,
    /// Whether a rule of the configuration has it, be it for other requests or other namespaces.
    pub known: bool,
    /// If not: ``did you mean `…`?`` for one that a rule has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// Explains the quotas with these names over a preprocessed bag. Nothing is allocated.
pub fn explain_quotas<'t: 'a, 'a, 'n>(
    published: &'t Published,
    bag: &AttributeBag<'a>,
    names: impl Iterator<Item = &'n str>,
) -> Vec<QuotaExplanation> {
    let mut names = names.take(MAX_QUOTAS).peekable();
    if names.peek().is_none() {
        return Vec::new();
    }
    let table = &published.routes;
    let actions = table.snapshot().rules.iter().filter(|rule| !rule.dry_run).flat_map(|rule| &rule.actions);
    let instances = actions.flat_map(|action| &action.instances);
    let known: BTreeSet<&str> = instances
        .filter(|instance| instance.template().variety == Variety::Quota)
        .map(|instance| &*instance.key.name)
        .collect();
    let rules = QuotaRules::of(table, bag);
    let explain = |name: &str| {
        let mut allocating = rules.allocating(name).map(|rule| rule.key.to_string());
        let rules: Vec<String> = allocating.by_ref().take(MAX_RULES).collect();
        let is_known = !rules.is_empty() || known.iter().any(|known| QuotaRules::is_same(known, name));
        QuotaExplanation {
            name: name.to_owned(),
            allocated: !rules.is_empty(),
            rules,
            known: is_known,
            hint: if is_known { None } else { suggestion(name, known.iter().copied()) },
        }
    };
    names.map(explain).collect()
}
