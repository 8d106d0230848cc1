//! Roles and bindings, compiled: who may do what.

use std::collections::{BTreeMap, BTreeSet};

use foldhash::{HashMap, HashSet};

use super::Rbac;
use super::pattern::{PatternIndex, PatternList};
use super::resources::{AccessRule, Subject};
use crate::authorization::Layout;
use mixer_attribute::Vocabulary;
use mixer_config::message::suggestion;
use mixer_config::{Diagnostic, Diagnostics};
use mixer_engine::adapter::{Adapter as _, BoundInstance, Instance};
use mixer_engine::snapshot::{ExtensionConfig, MappingOutline};

/// The roles that are given to somebody, by namespace.
///
/// Cost of a decision: proportional to the rules whose services match, whatever other roles there are.
#[derive(Debug, Default)]
pub(super) struct Policy {
    namespaces: HashMap<Box<[u8]>, Namespace>,
    counts: Counts,
    /// What it compares, each once.
    compared: BTreeMap<(Of, Box<str>), Diagnostic>,
}

/// Whose property is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Of {
    Subject,
    Action,
}

impl Of {
    /// The field of an instance that sets it.
    fn field(self) -> &'static str {
        match self {
            Self::Subject => "subject.properties",
            Self::Action => "action.properties",
        }
    }
}

/// What a policy was compiled from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Roles, used or not.
    pub(super) roles: usize,
    /// Bindings that give a role.
    pub(super) bindings: usize,
}

#[derive(Debug, Default)]
struct Namespace {
    /// The rules of all roles.
    rules: Vec<Rule>,
    /// Rules by the patterns of their services.
    services: PatternIndex,
    roles: Vec<Subjects>,
}

#[derive(Debug)]
struct Rule {
    /// The index of its role.
    role: usize,
    methods: PatternList,
    /// `None` permits every path.
    paths: Option<PatternList>,
    constraints: Vec<(Box<str>, PatternList)>,
}

/// Those who have a role.
#[derive(Debug, Default)]
struct Subjects {
    /// Whether everybody has it.
    anyone: bool,
    /// By name alone.
    users: HashSet<Box<[u8]>>,
    /// By the text of their groups alone.
    groups: HashSet<Box<[u8]>>,
    others: Vec<SubjectTest>,
}

/// A subject with more than one part. `None` is not tested.
#[derive(Debug)]
struct SubjectTest {
    user: Option<Box<[u8]>>,
    group: Option<Box<[u8]>>,
    properties: Vec<(Box<str>, Box<[u8]>)>,
}

/// A request for a decision.
pub(super) struct Request<'r> {
    layout: &'r Layout,
    instance: &'r Instance<'r>,
    namespace: &'r [u8],
    service: &'r [u8],
    method: &'r [u8],
    path: &'r [u8],
}

impl<'r> Request<'r> {
    pub(super) fn new(layout: &'r Layout, instance: &'r Instance<'r>) -> Self {
        Self {
            layout,
            instance,
            namespace: layout.namespace.of(instance),
            service: layout.service.of(instance),
            method: layout.method.of(instance),
            path: layout.path.of(instance),
        }
    }

    /// The first part that a decision needs and the request does not have.
    pub(super) fn missing(&self) -> Option<&'static str> {
        let parts = [
            ("namespace", self.namespace),
            ("service", self.service),
            ("path", self.path),
            ("method", self.method),
        ];
        parts.into_iter().find(|(_, text)| text.is_empty()).map(|(name, _)| name)
    }
}

impl Policy {
    /// Adds a role that bindings give to `subjects`; without any it permits nothing.
    pub(super) fn add(&mut self, namespace: &str, rules: &[AccessRule], subjects: &[&Subject]) {
        self.counts.roles += 1;
        let subjects = Subjects::new(subjects);
        if subjects.is_empty() {
            return;
        }
        let namespace = self.namespaces.entry(namespace.as_bytes().into()).or_default();
        let role = namespace.roles.len();
        namespace.roles.push(subjects);
        for rule in rules {
            let index = u32::try_from(namespace.rules.len()).unwrap_or(u32::MAX);
            namespace.services.add(&rule.services, index);
            namespace.rules.push(Rule::new(role, rule));
        }
    }

    /// Notes a property that is compared, with the warning if no instance sets it.
    pub(super) fn compares(&mut self, of: Of, key: &str, warning: impl FnOnce() -> Diagnostic) {
        self.compared.entry((of, key.into())).or_insert_with(warning);
    }

    /// Counts a binding that gives a role.
    pub(super) fn count_binding(&mut self) {
        self.counts.bindings += 1;
    }

    /// What it was compiled from.
    pub(super) fn counts(&self) -> Counts {
        self.counts
    }

    /// Whether the request is allowed.
    pub(super) fn allows(&self, request: &Request<'_>) -> bool {
        let Some(namespace) = self.namespaces.get(request.namespace) else { return false };
        if request.missing().is_some() {
            return false;
        }
        namespace.services.any(request.service, |index| {
            let rule = usize::try_from(index).ok().and_then(|index| namespace.rules.get(index));
            rule.is_some_and(|rule| {
                rule.permits(request)
                    && namespace.roles.get(rule.role).is_some_and(|subjects| subjects.include(request))
            })
        })
    }
}

#[cfg(test)]
impl Policy {
    /// Number of rules that a decision looks at.
    pub(super) fn candidates(&self, request: &Request<'_>) -> usize {
        let mut count = 0;
        if let Some(namespace) = self.namespaces.get(request.namespace) {
            namespace.services.any(request.service, |_| {
                count += 1;
                false
            });
        }
        count
    }
}

impl Rule {
    fn new(role: usize, rule: &AccessRule) -> Self {
        let constraints = rule.constraints.iter();
        Self {
            role,
            methods: PatternList::new(&rule.methods),
            paths: (!rule.paths.is_empty()).then(|| PatternList::new(&rule.paths)),
            constraints: constraints.map(|c| (c.key.as_str().into(), PatternList::new(&c.values))).collect(),
        }
    }

    /// Whether it permits what the request does to its service.
    fn permits(&self, request: &Request<'_>) -> bool {
        let holds = |(key, values): &(Box<str>, PatternList)| {
            let value = request.layout.action_properties.text(request.instance, key);
            value.is_some_and(|value| values.matches(value))
        };
        self.methods.matches(request.method)
            && self.paths.as_ref().is_none_or(|paths| paths.matches(request.path))
            && self.constraints.iter().all(holds)
    }
}

impl Subjects {
    fn new(subjects: &[&Subject]) -> Self {
        let mut all = Self::default();
        for subject in subjects.iter().filter(|subject| !subject.is_nobody()) {
            // `*` stands for everybody, also those without a name.
            let tested = |part: &str| (!part.is_empty() && part != "*").then(|| part.as_bytes().into());
            let properties = subject.properties.iter();
            let properties: Vec<(Box<str>, Box<[u8]>)> =
                properties.map(|(key, value)| (key.as_str().into(), value.as_bytes().into())).collect();
            let (user, group) = (tested(&subject.user), tested(&subject.group));
            match (user, group, properties.is_empty()) {
                (None, None, true) => all.anyone = true,
                (Some(user), None, true) => drop(all.users.insert(user)),
                (None, Some(group), true) => drop(all.groups.insert(group)),
                (user, group, _) => all.others.push(SubjectTest { user, group, properties }),
            }
        }
        all
    }

    fn is_empty(&self) -> bool {
        !self.anyone && self.users.is_empty() && self.groups.is_empty() && self.others.is_empty()
    }

    fn include(&self, request: &Request<'_>) -> bool {
        if self.anyone {
            return true;
        }
        let (layout, instance) = (request.layout, request.instance);
        let (user, group) = (layout.user.of(instance), layout.groups.of(instance));
        self.users.contains(user)
            || self.groups.contains(group)
            || self.others.iter().any(|subject| {
                let has = |(key, value): &(Box<str>, Box<[u8]>)| {
                    layout.subject_properties.text(instance, key) == Some(&**value)
                };
                subject.user.as_ref().is_none_or(|wanted| **wanted == *user)
                    && subject.group.as_ref().is_none_or(|wanted| **wanted == *group)
                    && subject.properties.iter().all(has)
            })
    }
}

impl ExtensionConfig for Policy {
    fn outline(&self, _: &Vocabulary) -> Vec<MappingOutline> {
        Vec::new()
    }

    fn deciding_adapter(&self) -> Option<&'static str> {
        Some(Rbac::INFO.name)
    }

    fn unset(&self, instances: &[&BoundInstance]) -> Diagnostics {
        let set = |of: Of| -> BTreeSet<&str> {
            instances.iter().flat_map(|instance| instance.entries(of.field())).map(|(key, _)| key).collect()
        };
        let (subject, action) = (set(Of::Subject), set(Of::Action));
        let unset = self.compared.iter().filter_map(|((of, key), warning)| {
            let known = if *of == Of::Subject { &subject } else { &action };
            let is_set = known.contains(&**key);
            let hint = || {
                let meant = suggestion(key, known.iter().copied());
                meant
                    .unwrap_or_else(|| format!("set it in `{}` of the instance of authorization", of.field()))
            };
            (!is_set).then(|| warning.clone().with_hint(hint()))
        });
        unset.collect()
    }
}
