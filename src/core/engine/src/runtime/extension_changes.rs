//! The changed resources of extensions, such as roles and an `envoybridge`, by what they name.

use std::cell::OnceCell;
use std::collections::BTreeSet;

use foldhash::HashMap;

use super::corrections::Corrections;
use super::rule_changes::RuleText;
use crate::snapshot::{BuildStage, SnapshotBuilder};
use mixer_config::text_index::{TextIndex, Texts, texts_of};
use mixer_config::{RawResource, ResourceKey};

/// The changed resources of extensions by what they name, and the changed rules by what they no longer name.
#[derive(Debug, Default)]
pub(super) struct ExtensionChanges {
    /// With the texts of either version.
    index: TextIndex,
    by_adapter: HashMap<&'static str, Vec<ResourceKey>>,
    /// Those that no adapter reads, by the texts that they no longer have, in lower case.
    by_lost: HashMap<String, Vec<ResourceKey>>,
    rules: Vec<ResourceKey>,
    /// The rules by what they no longer name, in lower case.
    rules_by_lost: OnceCell<HashMap<String, Vec<ResourceKey>>>,
}

impl ExtensionChanges {
    /// Of everything that `changed`.
    pub(super) fn new(
        changed: &[ResourceKey],
        corrections: &Corrections<'_>,
        builder: &SnapshotBuilder,
    ) -> Self {
        let mut all = Self::default();
        for key in changed {
            match builder.stage_of(&key.kind) {
                BuildStage::Extensions => all.add(key, corrections, builder),
                BuildStage::Rules => all.rules.push(key.clone()),
                BuildStage::Vocabulary | BuildStage::Parts | BuildStage::Ignored => {}
            }
        }
        all
    }

    fn add(&mut self, key: &ResourceKey, corrections: &Corrections<'_>, builder: &SnapshotBuilder) {
        let good = texts_of(corrections.last.get(key).map(|good| &**good));
        let new = texts_of(corrections.read.resources.get(key).map(|new| &**new));
        let adapter = builder.adapter_reading(&key.kind);
        if adapter.is_none() {
            for lost in lost(&good, &new) {
                self.by_lost.entry(lost).or_default().push(key.clone());
            }
        }
        // One that is deleted has nothing to do with what serves.
        if !corrections.read.resources.contains_key(key) {
            return;
        }
        if let Some(adapter) = adapter {
            self.by_adapter.entry(adapter).or_default().push(key.clone());
        }
        self.index.add(key, good.union(&new));
    }

    /// The changed resources that an adapter reads.
    pub(super) fn of_adapter(&self, adapter: &str) -> &[ResourceKey] {
        self.by_adapter.get(adapter).map_or(&[], Vec::as_slice)
    }

    /// The changed resources that no longer name a namespace or quota.
    pub(super) fn without(&self, subjects: BTreeSet<String>) -> Vec<ResourceKey> {
        subjects.iter().filter_map(|subject| self.by_lost.get(subject)).flatten().cloned().collect()
    }

    /// What changed of the same namespace and names a resource, or is named by it; and the rules that no longer have what it names.
    pub(super) fn with(
        &self,
        key: &ResourceKey,
        is_unknown: bool,
        corrections: &Corrections<'_>,
        builder: &SnapshotBuilder,
    ) -> Vec<ResourceKey> {
        let good = texts_of(corrections.last.get(key).map(|good| &**good));
        let new = texts_of(corrections.read.resources.get(key).filter(|_| !is_unknown).map(|new| &**new));
        let mut with = self.index.connected(key, good.union(&new));
        if builder.adapter_reading(&key.kind).is_none() {
            let rules = self.rules_by_lost(corrections);
            with.extend(lost(&good, &new).filter_map(|lost| rules.get(&lost)).flatten().cloned());
        }
        with
    }

    fn rules_by_lost(&self, corrections: &Corrections<'_>) -> &HashMap<String, Vec<ResourceKey>> {
        self.rules_by_lost.get_or_init(|| {
            let mut by_lost: HashMap<String, Vec<ResourceKey>> = HashMap::default();
            for rule in &self.rules {
                let subjects = |version: &RawResource| RuleText::of(version).subjects(&rule.namespace);
                let Some(good) = corrections.last.get(rule).map(|good| subjects(good)) else { continue };
                let new =
                    corrections.read.resources.get(rule).map_or_else(BTreeSet::new, |new| subjects(new));
                for lost in good.difference(&new) {
                    by_lost.entry(lost.clone()).or_default().push(rule.clone());
                }
            }
            by_lost
        })
    }
}

/// What only the last good version has, in lower case.
fn lost(good: &Texts, new: &Texts) -> impl Iterator<Item = String> {
    let lower =
        |texts: &Texts| -> BTreeSet<String> { texts.iter().map(|text| text.to_lowercase()).collect() };
    let new = lower(new);
    lower(good).into_iter().filter(move |text| !new.contains(text))
}
