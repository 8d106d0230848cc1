//! The quotas that rules configure, and those that extensions name.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::extension::{ChargedAttribute, ExtensionConfig, QuotaNamespaces, QuotaReference};
use super::lint::place::{name_field, placed};
use super::model::{Condition, HandlerBinding, InstanceConfig, RuleConfig, Rules, Snapshot};
use mixer_attribute::{AttributeBag, SlotId, Value, Vocabulary};
use mixer_base::shared_map::SharedMap;
use mixer_config::message::suggestion;
use mixer_config::{Diagnostic, Diagnostics, Node, RawResource, ResourceKey, Severity};
use mixer_expr::Program;

/// The template of quotas.
const QUOTA: &str = "quota";

type Bindings = BTreeMap<ResourceKey, Arc<HandlerBinding>>;

impl Snapshot {
    /// The quotas that a resource of an extension names, and that no rule configures or none for its requests.
    pub(crate) fn unconfigured_quotas_of(&self, resource: &ResourceKey) -> Vec<&str> {
        let resource = resource.to_string();
        let (configured, unchargeable) = (self.configured_quotas(), self.unchargeable());
        let of = |extension| {
            let own = ExtensionConfig::quotas(extension).iter().filter(|q| q.problem.resource == resource);
            own.filter(move |quota| {
                let problem = || unchargeable.problem(extension, quota);
                !configured.has(quota) || problem().is_some_and(|problem| problem.severity == Severity::Error)
            })
        };
        self.extensions
            .iter()
            .flat_map(|extension| of(&**extension))
            .map(|quota| quota.name.as_str())
            .collect()
    }

    /// The quotas of which rules configure instances that no request of a resource of an extension can be charged to.
    fn unchargeable(&self) -> Unchargeable<'_> {
        Unchargeable {
            configured: self.configured_quotas(),
            vocabulary: &self.vocabulary,
            instances: &self.instances,
        }
    }

    fn configured_quotas(&self) -> Configured<'_> {
        let Snapshot { bindings, rules, default_namespace, .. } = self;
        Configured { bindings, rules, default_namespace }
    }
}

/// The quotas that rules configure.
#[derive(Clone, Copy)]
pub(super) struct Configured<'s> {
    pub(super) bindings: &'s Bindings,
    pub(super) rules: &'s Rules,
    pub(super) default_namespace: &'s str,
}

impl<'s> Configured<'s> {
    /// Whether a rule for the requests of this reference configures its quota.
    fn has(&self, quota: &QuotaReference) -> bool {
        match &quota.namespaces {
            QuotaNamespaces::Any => is_bound(self.bindings, &quota.name),
            QuotaNamespaces::Only(_) => self.rules_of(quota).next().is_some(),
        }
    }

    /// The rules for the requests of this reference that configure its quota.
    fn rules_of(self, quota: &QuotaReference) -> impl Iterator<Item = &'s Arc<RuleConfig>> {
        self.naming(&quota.name).filter(move |rule| {
            let namespace = &*rule.key.namespace;
            let is_for =
                |other: Option<&str>| namespace == self.default_namespace || Some(namespace) == other;
            match &quota.namespaces {
                QuotaNamespaces::Any => true,
                QuotaNamespaces::Only(other) => is_for(other.as_deref()),
            }
        })
    }

    /// The rules that configure the quota with this name.
    fn naming(self, name: &str) -> impl Iterator<Item = &'s Arc<RuleConfig>> {
        self.rules.iter().filter(move |rule| {
            let mut instances = rule.actions.iter().flat_map(|action| &action.instances);
            instances.any(|instance| is_quota(instance) && is_same(&instance.key.name, name))
        })
    }

    /// The namespaces of the rules that configure the quota with this name.
    fn namespaces_of<'n>(&'n self, name: &'n str) -> impl Iterator<Item = &'n str> {
        self.naming(name).map(|rule| &*rule.key.namespace)
    }
}

/// Finds quotas that rules configure, under conditions that no request fulfils which extensions charge to them: nothing would be charged.
#[derive(Clone, Copy)]
pub(super) struct Unchargeable<'s> {
    pub(super) configured: Configured<'s>,
    pub(super) vocabulary: &'s Vocabulary,
    pub(super) instances: &'s SharedMap<Arc<InstanceConfig>>,
}

/// A condition that is not true.
struct Never {
    /// What it reads.
    why: String,
    /// Whether it is not true for any request, also not for one with attributes that it need not have.
    is_certain: bool,
}

impl Unchargeable<'_> {
    /// The problems of the quotas that an extension names.
    fn problems(self, extension: &dyn ExtensionConfig) -> impl Iterator<Item = Diagnostic> {
        extension.quotas().iter().filter_map(move |quota| self.problem(extension, quota))
    }

    /// That no rule in force can apply to the requests of a reference, which have few attributes: an error, or a warning if requests may
    /// have one that the reference does not require. A rule in dry run tries the quota.
    fn problem(self, extension: &dyn ExtensionConfig, quota: &QuotaReference) -> Option<Diagnostic> {
        quota.selector?;
        let mut found: Option<(&RuleConfig, Never)> = None;
        for rule in self.configured.rules_of(quota).filter(|rule| !rule.dry_run) {
            let never = self.never(rule, extension, quota)?;
            if found.as_ref().is_none_or(|(_, found)| found.is_certain && !never.is_certain) {
                found = Some((rule, never));
            }
        }
        let (rule, Never { why, is_certain }) = found?;
        let (severity, unless, hint) = if is_certain {
            (
                Severity::Error,
                "",
                "write the condition over `ratelimit.descriptor`, or leave it out; if the descriptors have an entry that is named like the \
                 attribute, name it in `entries`",
            )
        } else {
            (
                Severity::Warning,
                " by descriptors without an entry that is named like the attribute",
                "name the entry in `entries`, or write the condition over `ratelimit.descriptor`",
            )
        };
        let message = format!(
            "nothing is charged to the quota `{}`{unless}: the condition of {} reads {why}",
            quota.name, rule.key
        );
        let problem = Diagnostic { code: "quota-unchargeable", severity, message, ..quota.problem.clone() };
        Some(problem.with_hint(hint))
    }

    /// Why the condition of a rule is not true for the requests of a reference.
    fn never(
        self,
        rule: &RuleConfig,
        extension: &dyn ExtensionConfig,
        quota: &QuotaReference,
    ) -> Option<Never> {
        let Condition::When(program) = &rule.condition else { return None };
        let of = |program: &Program| self.never_true(program, extension, quota);
        let whole = of(program);
        if whole.as_ref().is_some_and(|never| never.is_certain) {
            return whole;
        }
        let operands = program.conjunct_texts();
        let several = operands.len() > 1;
        let compiled = |text| mixer_expr::compile(rule.language, text, self.vocabulary).ok();
        let operands = operands.into_iter().filter(|_| several).filter_map(compiled);
        let mut nevers: Vec<Never> =
            whole.into_iter().chain(operands.filter_map(|operand| of(&operand))).collect();
        let certain = nevers.iter().position(|never| never.is_certain);
        (!nevers.is_empty()).then(|| nevers.swap_remove(certain.unwrap_or(0)))
    }

    /// Why a condition without attributes that differ between requests of a reference is not true.
    fn never_true(
        self,
        program: &Program,
        extension: &dyn ExtensionConfig,
        quota: &QuotaReference,
    ) -> Option<Never> {
        let arena = bumpalo::Bump::new();
        let mut bag = AttributeBag::empty(self.vocabulary, &arena);
        let mut whys = Vec::new();
        let mut is_certain = true;
        for slot in program.attributes() {
            let name = self.vocabulary.name(slot);
            match extension.charged_attribute(quota, name) {
                ChargedAttribute::Any => return None,
                _ if self.is_generated(slot) => return None,
                ChargedAttribute::Text(text) => {
                    bag.set(slot, Value::String(text.as_bytes()));
                    whys.push(format!("`{name}`, which is `{text}`"));
                }
                ChargedAttribute::Absent => whys.push(format!("`{name}`, which descriptors do not set")),
                ChargedAttribute::Unnamed => {
                    is_certain = false;
                    whys.push(format!("`{name}`, which `entries` does not name"));
                }
            }
        }
        let is_true = matches!(program.eval(&bag), Ok(Value::Bool(true)));
        (!is_true && !whys.is_empty()).then(|| Never { why: whys.join(", and "), is_certain })
    }

    fn is_generated(self, slot: SlotId) -> bool {
        let mut bindings = self.instances.iter().flat_map(|instance| &instance.bindings);
        bindings.any(|binding| binding.target == slot)
    }
}

/// Whether an action of a rule names an instance with the short name of one of these quotas. Reads the document.
pub(crate) fn names_quota(rule: &RawResource, quotas: &[&str]) -> bool {
    let document = rule.document();
    let actions = document.member("spec").and_then(|spec| spec.get("actions"));
    let instances = actions.map_or(&[][..], Node::items).iter().filter_map(|action| action.get("instances"));
    instances.flat_map(Node::items).filter_map(Node::as_str).any(|name| {
        // `NAME`, or `NAME.` and what qualifies it; each part may have dots.
        let ends = name.match_indices('.').map(|(at, _)| at).chain([name.len()]);
        ends.filter_map(|end| name.get(..end)).any(|name| quotas.iter().any(|quota| is_same(name, quota)))
    })
}

/// The problems of quotas that extensions name and no rule configures. `instances` are all instances, used or not.
pub(super) fn unconfigured(
    extensions: &[Arc<dyn ExtensionConfig>],
    configured: &Configured<'_>,
    instances: &SharedMap<Arc<InstanceConfig>>,
) -> Diagnostics {
    let named = extensions.iter().flat_map(|extension| extension.quotas());
    let unconfigured = named.filter(|quota| !configured.has(quota));
    unconfigured.map(|quota| quota.problem.clone().with_hint(hint(quota, configured, instances))).collect()
}

/// The problems of quotas that extensions name, and that no rule charges for the requests of the extension, or for some of them.
pub(super) fn unchargeable(extensions: &[Arc<dyn ExtensionConfig>], of: Unchargeable<'_>) -> Diagnostics {
    extensions.iter().flat_map(|extension| of.problems(&**extension)).collect()
}

/// Warns about quotas that rules configure and no extension with resources names: requests of the extension are not limited by them.
pub(super) fn uncharged(extensions: &[Arc<dyn ExtensionConfig>], rules: &Rules) -> Diagnostics {
    let configured: Vec<_> = extensions.iter().filter(|extension| extension.is_configured()).collect();
    if configured.is_empty() {
        return Diagnostics::new();
    }
    let named: Vec<&str> =
        configured.iter().flat_map(|extension| extension.quotas()).map(|quota| quota.name.as_str()).collect();
    let enforced = rules.iter().filter(|rule| !rule.dry_run).flat_map(|rule| &rule.actions);
    let quotas = enforced.flat_map(|action| &action.instances).filter(|instance| is_quota(instance));
    let uncharged = quotas.filter(|instance| !named.iter().any(|name| is_same(name, &instance.key.name)));
    let uncharged: BTreeMap<_, _> = uncharged.map(|instance| (&instance.key, instance)).collect();
    let warning = |instance: &Arc<InstanceConfig>| {
        let name = &instance.key.name;
        let text = format!(
            "no request of Envoy is charged to quota `{name}`: neither check.quotaSpec nor ratelimit.quotas of the envoybridge names it"
        );
        let problem = Diagnostic::warning("quota-uncharged", name_field(), text).with_hint(format!(
            "write `check: {{quotaSpec: [{{rules: [{{quotas: [{{quota: {name}}}]}}]}}]}}`, if it is not for clients of Mixer's API only"
        ));
        placed(problem, &instance.key, &instance.origin)
    };
    uncharged.into_values().map(warning).collect()
}

fn hint(
    quota: &QuotaReference,
    configured: &Configured<'_>,
    instances: &SharedMap<Arc<InstanceConfig>>,
) -> String {
    if let Some(elsewhere) = configured.namespaces_of(&quota.name).next() {
        return format!(
            "its rule is for requests of namespace `{elsewhere}`, which these do not name: write `defaultNamespace: {elsewhere}`, or \
             move the rule to namespace `{}`",
            configured.default_namespace
        );
    }
    let quotas = instances.iter().filter(|instance| is_quota(instance));
    let names: BTreeSet<&str> = quotas.map(|instance| &*instance.key.name).collect();
    if names.iter().any(|name| is_same(name, &quota.name)) {
        return format!("add a rule with an action on the instance `{}`", quota.name);
    }
    suggestion(&quota.name, names)
        .unwrap_or_else(|| "name an instance of template `quota` that a rule gives to a handler".to_owned())
}

fn is_bound(bindings: &Bindings, name: &str) -> bool {
    let bound = bindings.values().flat_map(|binding| &binding.instances);
    bound.filter(|instance| is_quota(instance)).any(|instance| is_same(&instance.key.name, name))
}

fn is_quota(instance: &InstanceConfig) -> bool {
    instance.template().name == QUOTA
}

/// As the dispatch of quotas compares names.
pub(super) fn is_same(a: &str, b: &str) -> bool {
    a.eq_ignore_ascii_case(b) || a.to_lowercase() == b.to_lowercase()
}
