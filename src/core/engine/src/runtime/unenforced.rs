//! Since when what is not enforced is not enforced, and the log of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Published;
use crate::snapshot::{Rules, Snapshot, Unenforced};
use mixer_base::time::Moment;
use mixer_config::ResourceKey;

/// Most rules that one publication names in the log.
const LOGGED: usize = 10;

/// Something that is not enforced, and since when.
#[derive(Debug, Clone)]
pub struct UnenforcedSince {
    /// What.
    pub what: Unenforced,
    /// Since when, in this process.
    pub since: Moment,
}

/// Since when settings and rules are not enforced.
#[derive(Debug, Clone, Default)]
pub(super) struct Since {
    settings: BTreeMap<(ResourceKey, &'static str), Moment>,
    rules: Arc<BTreeMap<ResourceKey, Moment>>,
}

impl Since {
    /// That of the next table. Cost: a pass over the rules that changed.
    pub(super) fn next(&self, before: &Rules, snapshot: &Snapshot) -> Self {
        let now = Moment::now();
        let setting = |unenforced: &Unenforced| {
            let key = (unenforced.resource.clone(), unenforced.what);
            let since = self.settings.get(&key).copied().unwrap_or(now);
            (key, since)
        };
        let settings = snapshot.unenforced_settings().map(setting).collect();
        let mut rules = Arc::clone(&self.rules);
        for (old, new) in before.changes(&snapshot.rules) {
            match (new.filter(|rule| rule.dry_run), old.filter(|rule| rule.dry_run)) {
                (Some(_), Some(_)) | (None, None) => {}
                (Some(rule), None) => drop(Arc::make_mut(&mut rules).insert(rule.key.clone(), now)),
                (None, Some(rule)) => drop(Arc::make_mut(&mut rules).remove(&rule.key)),
            }
        }
        Self { settings, rules }
    }

    /// Logs what is no longer enforced since the table with `before`, and what is enforced again.
    pub(super) fn log_since(&self, before: &Self, snapshot: &Snapshot) {
        for unenforced in snapshot.unenforced_settings() {
            let Unenforced { what, resource, place, .. } = unenforced;
            if !before.settings.contains_key(&(resource.clone(), *what)) {
                tracing::warn!(resource = %resource, place, "not enforced: {what}");
            }
        }
        for ((resource, what), since) in &before.settings {
            if !self.settings.contains_key(&(resource.clone(), *what)) {
                tracing::info!(resource = %resource, "enforced again after {:.1?}: no longer {what}", since.age());
            }
        }
        if Arc::ptr_eq(&self.rules, &before.rules) {
            return;
        }
        let begun: Vec<&ResourceKey> =
            self.rules.keys().filter(|key| !before.rules.contains_key(*key)).collect();
        let ended: Vec<&ResourceKey> =
            before.rules.keys().filter(|key| !self.rules.contains_key(*key)).collect();
        if !begun.is_empty() {
            tracing::warn!("not enforced: {} in dry run: {}", counted(begun.len()), names(&begun, snapshot));
        }
        if !ended.is_empty() {
            tracing::info!("no longer in dry run: {}", names(&ended, snapshot));
        }
    }
}

fn counted(rules: usize) -> String {
    if rules == 1 { "a rule is".to_owned() } else { format!("{rules} rules are") }
}

/// The names of rules, with their places.
fn names(keys: &[&ResourceKey], snapshot: &Snapshot) -> String {
    let name = |key: &&ResourceKey| match snapshot.rules.get(key) {
        Some(rule) => format!("{key} ({})", Unenforced::rule(rule).place),
        None => key.to_string(),
    };
    let named: Vec<String> = keys.iter().take(LOGGED).map(name).collect();
    let others = keys.len().saturating_sub(LOGGED);
    let others = if others > 0 { format!(" and {others} more") } else { String::new() };
    format!("{}{others}", named.join(", "))
}

impl Published {
    /// What decides about calls without being enforced, settings of services first, then limits; nothing while no call is answered. Cost: a look-up for
    /// each rule in dry run.
    pub fn unenforced(&self) -> Vec<UnenforcedSince> {
        if self.withheld.is_some() {
            return Vec::new();
        }
        let snapshot = self.routes.snapshot();
        let setting = |what: &Unenforced| {
            let since = self.unenforced.settings.get(&(what.resource.clone(), what.what)).copied();
            UnenforcedSince { what: what.clone(), since: since.unwrap_or_else(Moment::now) }
        };
        let rule = |(key, since): (&ResourceKey, &Moment)| {
            let what = Unenforced::rule(snapshot.rules.get(key)?);
            Some(UnenforcedSince { what, since: *since })
        };
        let mut settings: Vec<UnenforcedSince> = snapshot.unenforced_settings().map(setting).collect();
        settings.sort_by_key(|unenforced| unenforced.what.scope);
        settings.into_iter().chain(self.unenforced.rules.iter().filter_map(rule)).collect()
    }

    /// Errors: that no call of a service is refused, by which setting.
    pub fn enforces(&self) -> Result<(), String> {
        let snapshot = self.routes.snapshot();
        let services = snapshot.unenforced_services().filter(|_| self.withheld.is_none());
        let texts: Vec<String> = services
            .map(|unenforced| {
                let Unenforced { what, resource, place, .. } = unenforced;
                format!("{what} ({resource}, {place})")
            })
            .collect();
        if texts.is_empty() { Ok(()) } else { Err(texts.join("; ")) }
    }
}
