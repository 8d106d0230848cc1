//! The problems that resources have together.

use super::SnapshotBuilder;
use crate::snapshot::vocabulary::contradictions;
use crate::snapshot::{callers, header_operations, namespaces, openings, quotas, suspicions, unnamed};
use mixer_config::Diagnostics;

/// Finds problems of one kind.
type Check = fn(&SnapshotBuilder, &quotas::Configured<'_>) -> Diagnostics;

/// The checks, in the order of the problems at one position. Cost of each: proportional to the resources.
const CHECKS: [Check; 10] = [
    |builder, _| builder.unread_resources(),
    |builder, _| {
        let default_namespace = &builder.options.default_namespace;
        namespaces::suspicious(&builder.parts.rules, &builder.resources, default_namespace)
    },
    |builder, configured| {
        quotas::unconfigured(&builder.units.extensions.configs, configured, &builder.parts.instances)
    },
    |builder, configured| {
        let (vocabulary, instances) = (&builder.programs.vocabulary, &builder.parts.instances);
        let unchargeable = quotas::Unchargeable::new(configured, vocabulary, instances);
        quotas::unchargeable(&builder.units.extensions.configs, &unchargeable)
    },
    |builder, _| quotas::uncharged(&builder.units.extensions.configs, &builder.parts.rules),
    |builder, _| {
        let (extensions, rules) = (&builder.units.extensions.configs, &builder.parts.rules);
        header_operations::unsupported(extensions, rules, &builder.resources)
    },
    |builder, _| unnamed::unknown(&builder.units.extensions.configs, &builder.parts.rules),
    |builder, _| {
        let default_namespace = &builder.options.default_namespace;
        unnamed::without_rules(&builder.units.extensions.configs, &builder.parts.rules, default_namespace)
    },
    |builder, _| {
        let manifests = builder.units.manifests.values();
        let manifests = manifests.filter_map(|u| Some((u.in_force.as_ref()?, u.state.as_ref()?)));
        contradictions(manifests, &builder.units.extensions.configs, &builder.programs.vocabulary)
    },
    |builder, _| {
        let default_namespace = &builder.options.default_namespace;
        let vocabulary = &builder.programs.vocabulary;
        let (rules, resources) = (&builder.parts.rules, &builder.resources);
        let mut found = openings::suspicious(rules, resources, default_namespace, vocabulary);
        if builder.options.removes_principals {
            found.extend(callers::unverified(&builder.parts.rules, &builder.programs.vocabulary));
        }
        found
    },
];

impl SnapshotBuilder {
    /// The problems that resources have together; not all of them if the build is interrupted.
    pub(super) fn problems_together(&mut self, bindings: &quotas::Bindings) -> Diagnostics {
        let mut found = Diagnostics::new();
        if self.interrupt.check() {
            return found;
        }
        let (rules, default_namespace) = (self.parts.rules.clone(), self.options.default_namespace.clone());
        let extensions = &self.units.extensions.configs;
        let configured = quotas::Configured::new(bindings, &rules, extensions, &default_namespace);
        for check in CHECKS {
            if self.interrupt.check() {
                break;
            }
            found.extend(check(self, &configured));
        }
        found
    }

    /// Warns about resources that configure an adapter of which no rule uses a handler; once per adapter.
    fn unread_resources(&self) -> Diagnostics {
        let extensions = self.options.registry.extensions.iter();
        let unread = extensions.filter_map(|extension| {
            let adapter = extension.adapter().filter(|adapter| !self.bindings.uses_adapter(adapter))?;
            let mut units = self.units.extended.iter();
            let (_, unit) = units.find(|(key, _)| extension.kinds().contains(&&*key.kind))?;
            Some(suspicions::unread_resource(&unit.latest, adapter))
        });
        unread.collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::snapshot::{Registry, SnapshotOptions};
    use mixer_config::store::StoreContents;

    #[test]
    fn a_build_asks_before_each_check_whether_it_is_to_end() {
        let mut builder = SnapshotBuilder::new(SnapshotOptions::new(Registry::default()));
        let asked = Arc::new(AtomicUsize::new(0));
        let mut build = |ends_after: usize| {
            asked.store(0, Ordering::Relaxed);
            let counted = Arc::clone(&asked);
            let question = move || counted.fetch_add(1, Ordering::Relaxed) >= ends_after;
            builder.interrupt_if(Some(Box::new(question)));
            builder.build(&StoreContents::default());
            let is_interrupted = builder.is_interrupted();
            builder.reset();
            (asked.load(Ordering::Relaxed), is_interrupted)
        };
        assert_eq!(build(usize::MAX), (1 + CHECKS.len(), false));
        assert_eq!(build(3), (4, true));
    }
}
