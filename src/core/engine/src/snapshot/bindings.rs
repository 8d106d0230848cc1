//! The instances that rules bind to each handler, counted so that one rule can be replaced.

use std::collections::BTreeMap;
use std::sync::Arc;

use foldhash::{HashMap, HashSet};

use super::extension::ResourcesByAdapter;
use super::model::{HandlerBinding, HandlerConfig, InstanceConfig, RuleConfig};
use mixer_config::ResourceKey;

/// The bindings of all rules.
#[derive(Debug, Default)]
pub(super) struct Bindings {
    uses: HashMap<ResourceKey, HandlerUses>,
    /// Handlers whose published binding is outdated.
    stale: HashSet<ResourceKey>,
    /// The resources that configure handlers beside their parameters.
    resources: ResourcesByAdapter,
    published: Arc<BTreeMap<ResourceKey, Arc<HandlerBinding>>>,
}

/// The instances bound to one handler, each with its number of actions.
#[derive(Debug)]
struct HandlerUses {
    handler: Arc<HandlerConfig>,
    instances: BTreeMap<Arc<str>, (Arc<InstanceConfig>, usize)>,
}

impl Bindings {
    /// Adds the actions of a rule.
    pub(super) fn add(&mut self, rule: &RuleConfig) {
        for action in &rule.actions {
            let key = &action.handler.key;
            let bound = match self.uses.get_mut(key) {
                Some(bound) => bound,
                None => {
                    self.stale.insert(key.clone());
                    let bound = HandlerUses { handler: action.handler.clone(), instances: BTreeMap::new() };
                    self.uses.entry(key.clone()).or_insert(bound)
                }
            };
            for instance in &action.instances {
                match bound.instances.get_mut(&**instance.name()) {
                    Some((known, uses)) => {
                        *uses += 1;
                        if !Arc::ptr_eq(known, instance) {
                            *known = instance.clone();
                            self.stale.insert(key.clone());
                        }
                    }
                    None => {
                        bound.instances.insert(instance.name().clone(), (instance.clone(), 1));
                        self.stale.insert(key.clone());
                    }
                }
            }
        }
    }

    /// Removes the actions of a rule.
    pub(super) fn remove(&mut self, rule: &RuleConfig) {
        for action in &rule.actions {
            let key = &action.handler.key;
            let Some(bound) = self.uses.get_mut(key) else { continue };
            for instance in &action.instances {
                let Some((_, uses)) = bound.instances.get_mut(&**instance.name()) else { continue };
                *uses -= 1;
                if *uses == 0 {
                    bound.instances.remove(&**instance.name());
                    self.stale.insert(key.clone());
                }
            }
            if bound.instances.is_empty() {
                self.uses.remove(key);
                self.stale.insert(key.clone());
            }
        }
    }

    /// Replaces the configuration of a handler.
    pub(super) fn replace_handler(&mut self, handler: &Arc<HandlerConfig>) {
        if let Some(bound) = self.uses.get_mut(&handler.key) {
            bound.handler = handler.clone();
            self.stale.insert(handler.key.clone());
        }
    }

    /// Replaces the resources that configure handlers.
    pub(super) fn replace_resources(&mut self, resources: &ResourcesByAdapter) {
        let changed = resources.changes(&self.resources);
        let reads_changed = |bound: &HandlerUses| changed.contains(&bound.handler.adapter.info().name);
        let stale = self.uses.iter().filter(|(_, bound)| reads_changed(bound));
        self.stale.extend(stale.map(|(key, _)| key.clone()));
        self.resources = resources.clone();
    }

    /// Whether a handler of this adapter is in use.
    pub(super) fn uses_adapter(&self, name: &str) -> bool {
        self.uses.values().any(|bound| bound.handler.adapter.info().name == name)
    }

    /// All bindings; unchanged ones are the same `Arc`s as before.
    pub(super) fn publish(&mut self) -> Arc<BTreeMap<ResourceKey, Arc<HandlerBinding>>> {
        if !self.stale.is_empty() {
            let bindings = Arc::make_mut(&mut self.published);
            for key in self.stale.drain() {
                match self.uses.get(&key) {
                    Some(bound) => {
                        let instances = bound.instances.values().map(|(instance, _)| instance.clone());
                        let (handler, instances) = (bound.handler.clone(), instances.collect());
                        let resources = self.resources.of(handler.adapter.info().name);
                        bindings.insert(key, Arc::new(HandlerBinding { handler, instances, resources }));
                    }
                    None => drop(bindings.remove(&key)),
                }
            }
        }
        self.published.clone()
    }
}
