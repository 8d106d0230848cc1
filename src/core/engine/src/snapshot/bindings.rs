//! Which instances the rules give to which handler, counted so that one rule can be exchanged.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::model::{HandlerBinding, HandlerConfig, InstanceConfig, RuleConfig};
use mixer_config::ResourceKey;

/// What the actions of all rules need.
#[derive(Debug, Default)]
pub(super) struct Bindings {
    needed: FxHashMap<ResourceKey, Needs>,
    /// Handlers whose binding is not what was last given out.
    stale: FxHashSet<ResourceKey>,
    given: Arc<BTreeMap<ResourceKey, Arc<HandlerBinding>>>,
}

/// The instances that one handler is given, and by how many actions each.
#[derive(Debug)]
struct Needs {
    handler: Arc<HandlerConfig>,
    instances: BTreeMap<Arc<str>, (Arc<InstanceConfig>, usize)>,
}

impl Bindings {
    /// Counts the actions of a rule in.
    pub(super) fn add(&mut self, rule: &RuleConfig) {
        for action in &rule.actions {
            let key = &action.handler.key;
            let needs = match self.needed.get_mut(key) {
                Some(needs) => needs,
                None => {
                    self.stale.insert(key.clone());
                    let needs = Needs { handler: action.handler.clone(), instances: BTreeMap::new() };
                    self.needed.entry(key.clone()).or_insert(needs)
                }
            };
            for instance in &action.instances {
                match needs.instances.get_mut(&**instance.name()) {
                    Some((known, uses)) => {
                        *uses += 1;
                        if !Arc::ptr_eq(known, instance) {
                            *known = instance.clone();
                            self.stale.insert(key.clone());
                        }
                    }
                    None => {
                        needs.instances.insert(instance.name().clone(), (instance.clone(), 1));
                        self.stale.insert(key.clone());
                    }
                }
            }
        }
    }

    /// Counts the actions of a rule out.
    pub(super) fn remove(&mut self, rule: &RuleConfig) {
        for action in &rule.actions {
            let key = &action.handler.key;
            let Some(needs) = self.needed.get_mut(key) else { continue };
            for instance in &action.instances {
                let Some((_, uses)) = needs.instances.get_mut(&**instance.name()) else { continue };
                *uses -= 1;
                if *uses == 0 {
                    needs.instances.remove(&**instance.name());
                    self.stale.insert(key.clone());
                }
            }
            if needs.instances.is_empty() {
                self.needed.remove(key);
                self.stale.insert(key.clone());
            }
        }
    }

    /// Notes that a handler is another one, or stands elsewhere now.
    pub(super) fn replace_handler(&mut self, handler: &Arc<HandlerConfig>) {
        if let Some(needs) = self.needed.get_mut(&handler.key) {
            needs.handler = handler.clone();
            self.stale.insert(handler.key.clone());
        }
    }

    /// All bindings; those of handlers that need what they needed before are the same as before.
    pub(super) fn give(&mut self) -> Arc<BTreeMap<ResourceKey, Arc<HandlerBinding>>> {
        if !self.stale.is_empty() {
            let bindings = Arc::make_mut(&mut self.given);
            for key in self.stale.drain() {
                match self.needed.get(&key) {
                    Some(needs) => {
                        let instances = needs.instances.values().map(|(instance, _)| instance.clone());
                        let (handler, instances) = (needs.handler.clone(), instances.collect());
                        bindings.insert(key, Arc::new(HandlerBinding { handler, instances }));
                    }
                    None => drop(bindings.remove(&key)),
                }
            }
        }
        self.given.clone()
    }
}
