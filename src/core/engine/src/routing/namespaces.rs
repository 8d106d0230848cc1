//! The rules of one kind, by namespace.

use std::sync::Arc;

use foldhash::{HashMap, HashSet};
use rustc_hash::FxHashSet;

use super::route::{Route, RouteAction, RouteInstance};
use super::rule_set::RuleSet;
use crate::snapshot::Allowance;
use mixer_attribute::{AttributeBag, Value};

/// Rules by namespace: those of the default namespace apply to every request.
#[derive(Debug, Clone, Default)]
pub(super) struct NamespaceRules {
    pub(super) default: RuleSet,
    pub(super) own: Arc<HashMap<Box<[u8]>, Arc<RuleSet>>>,
}

impl NamespaceRules {
    /// Whether no namespace has any rule.
    pub(super) fn is_empty(&self) -> bool {
        self.default.is_empty() && self.own.is_empty()
    }

    /// Number of destinations over all namespaces.
    pub(super) fn destinations(&self) -> usize {
        self.default.destinations() + self.own.values().map(|set| set.destinations()).sum::<usize>()
    }

    /// The rules that apply to a request. Reads, and so records, what selects its namespace.
    pub(super) fn select(&self, bag: &AttributeBag<'_>) -> SelectedRules<'_> {
        let own = request_namespace(bag).and_then(|namespace| self.own.get(namespace)).map(|set| &**set);
        SelectedRules { default: &self.default, own }
    }

    /// The target of every instance.
    pub(super) fn targets(&self) -> FxHashSet<InstanceTarget> {
        self.instances().map(|(action, instance)| target(action, instance)).collect()
    }

    /// The short name of every instance, in lower case.
    pub(super) fn instance_names(&self) -> HashSet<String> {
        self.instances().map(|(_, instance)| instance.config.key.name.to_lowercase()).collect()
    }

    /// The rules of all namespaces.
    pub(super) fn routes(&self) -> impl Iterator<Item = &Route> {
        let sets = std::iter::once(&self.default).chain(self.own.values().map(|set| &**set));
        sets.flat_map(RuleSet::routes)
    }

    fn instances(&self) -> impl Iterator<Item = (&RouteAction, &RouteInstance)> {
        let actions = self.routes().flat_map(|route| &route.actions);
        actions.flat_map(|action| action.instances.iter().map(move |instance| (action, instance)))
    }
}

/// The address of a handler, and the index of one of its instances.
pub(super) type InstanceTarget = (usize, usize);

/// The target of an instance.
pub(super) fn target(action: &RouteAction, instance: &RouteInstance) -> InstanceTarget {
    (Arc::as_ptr(&action.handler).addr(), instance.bound)
}

/// The rules for one request: those of the default namespace, then those of its own.
#[derive(Debug, Clone, Copy)]
pub struct SelectedRules<'t> {
    /// Rules of the default namespace.
    default: &'t RuleSet,
    /// Rules of the namespace of the request, if it has any and is not the default one.
    own: Option<&'t RuleSet>,
}

impl<'t> SelectedRules<'t> {
    /// Both sets, in order.
    pub fn sets(self) -> impl Iterator<Item = &'t RuleSet> {
        std::iter::once(self.default).chain(self.own)
    }

    /// The sets of defaults that an allowance does not satisfy, in order.
    pub(crate) fn unsatisfied_by(self, allowance: Allowance) -> impl Iterator<Item = &'t RuleSet> {
        let default = (allowance < Allowance::Mesh).then_some(self.default);
        default.into_iter().chain(self.own.filter(|_| allowance < Allowance::Everywhere))
    }

    /// Number of destinations of both sets.
    pub fn destinations(self) -> usize {
        self.sets().map(RuleSet::destinations).sum()
    }
}

/// The namespace whose own rules apply to a request, if the request names one. Reads, and so records, `context.reporter.kind` and then
/// the namespace attribute that it selects.
pub(super) fn request_namespace<'a>(bag: &AttributeBag<'a>) -> Option<&'a [u8]> {
    let vocabulary = bag.vocabulary();
    let attribute = match bag.get(vocabulary.reporter_kind()) {
        Some(Value::String(b"outbound")) => vocabulary.source_namespace(),
        Some(Value::String(kind)) if kind != b"inbound" => return None,
        _ => vocabulary.destination_namespace(),
    };
    match bag.get(attribute) {
        Some(Value::String(namespace)) => Some(namespace),
        _ => None,
    }
}
