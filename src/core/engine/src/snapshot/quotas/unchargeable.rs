//! Quotas that no request is charged to, because of the conditions of their rules.

use std::sync::Arc;

use foldhash::{HashMap, HashSet};

use super::{Configured, folded};
use crate::snapshot::extension::{ChargedAttribute, ExtensionConfig, QuotaNamespaces, QuotaReference};
use crate::snapshot::model::{Condition, InstanceConfig, RuleConfig};
use mixer_attribute::{AttributeBag, SlotId, Value, Vocabulary};
use mixer_base::shared_map::SharedMap;
use mixer_config::{Diagnostic, Severity};
use mixer_expr::Program;

/// Most conditions that are tried for the references of an extension, counting attributes: of more, references have no problem.
const MAX_TRIED: usize = 1 << 15;

/// Finds quotas that rules configure, under conditions that no request fulfils which extensions charge to them: nothing would be charged.
pub(in crate::snapshot) struct Unchargeable<'s> {
    configured: &'s Configured<'s>,
    vocabulary: &'s Vocabulary,
    instances: &'s SharedMap<Arc<InstanceConfig>>,
}

/// A condition that is not true.
#[derive(Debug, Clone)]
struct Never {
    /// What it reads.
    why: String,
    /// Whether it is not true for any request, also not for one with attributes that it need not have.
    is_certain: bool,
}

/// What the result for a reference depends on: its quota, as [`folded`], the namespaces of its requests, and what they have of the
/// attributes that conditions of the quota read.
type Profile<'s> = (String, QuotaNamespaces, Vec<ChargedAttribute<'s>>);

/// [`Unchargeable`], for the references of one extension.
pub(super) struct OfExtension<'s> {
    all: &'s Unchargeable<'s>,
    extension: &'s dyn ExtensionConfig,
    /// The attributes that instances generate.
    generated: HashSet<SlotId>,
    /// The attributes that the conditions of each quota read, but for those that instances generate; by its name as [`folded`].
    slots: HashMap<String, Vec<SlotId>>,
    known: HashMap<Profile<'s>, Option<(Arc<RuleConfig>, Never)>>,
    tried: usize,
}

impl<'s> Unchargeable<'s> {
    pub(in crate::snapshot) fn new(
        configured: &'s Configured<'s>,
        vocabulary: &'s Vocabulary,
        instances: &'s SharedMap<Arc<InstanceConfig>>,
    ) -> Self {
        Self { configured, vocabulary, instances }
    }

    /// The problems of an extension. Cost: a pass over the instances, if it has references with few attributes.
    pub(super) fn of(&'s self, extension: &'s dyn ExtensionConfig) -> OfExtension<'s> {
        let generated = match extension.quotas().iter().any(|quota| quota.selector.is_some()) {
            true => self.instances.iter().flat_map(|i| &i.bindings).map(|binding| binding.target).collect(),
            false => HashSet::default(),
        };
        let (slots, known) = (HashMap::default(), HashMap::default());
        OfExtension { all: self, extension, generated, slots, known, tried: 0 }
    }
}

impl<'s> OfExtension<'s> {
    /// That no rule in force can apply to the requests of a reference, which have few attributes: an error, or a warning if requests may
    /// have one that the reference does not require. A rule in dry run tries the quota.
    pub(super) fn problem(&mut self, quota: &QuotaReference) -> Option<Diagnostic> {
        quota.selector?;
        let profile = self.profile(quota)?;
        if !self.known.contains_key(&profile) {
            let found = self.unfulfilled(quota, &profile);
            self.known.insert(profile.clone(), found);
        }
        let (rule, Never { why, is_certain }) = self.known.get(&profile)?.as_ref()?;
        let (severity, unless, hint) = if *is_certain {
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
        let mut problem = quota.problem.clone().with_severity(severity);
        (problem.code, problem.message) = ("quota-unchargeable", message);
        Some(problem.with_hint(hint))
    }

    /// What the requests of a reference have of the attributes that matter. `None`: too much was tried.
    fn profile(&mut self, quota: &QuotaReference) -> Option<Profile<'s>> {
        let name = folded(&quota.name);
        if !self.slots.contains_key(&name) {
            let slots = self.slots_of(&name);
            self.slots.insert(name.clone(), slots);
        }
        let slots = self.slots.get(&name)?;
        self.tried += slots.len();
        if self.tried > MAX_TRIED {
            return None;
        }
        let (extension, vocabulary) = (self.extension, self.all.vocabulary);
        let charged = slots.iter().map(|slot| extension.charged_attribute(quota, vocabulary.name(*slot)));
        let charged = charged.collect();
        Some((name, quota.namespaces.clone(), charged))
    }

    fn slots_of(&self, name: &str) -> Vec<SlotId> {
        let rules = self.all.configured.naming(name).iter().filter(|rule| !rule.dry_run);
        let conditions = rules.filter_map(|rule| condition(rule));
        let slots: HashSet<SlotId> = conditions.flat_map(Program::attributes).collect();
        let mut slots: Vec<SlotId> = slots.difference(&self.generated).copied().collect();
        slots.sort_unstable();
        slots
    }

    /// The first rule whose condition is not true for the requests of a reference, one that may be true for others before the rest; `None`
    /// if a condition may be true, or too much was tried.
    fn unfulfilled(
        &mut self,
        quota: &QuotaReference,
        (name, _, charged): &Profile<'s>,
    ) -> Option<(Arc<RuleConfig>, Never)> {
        let slots = self.slots.get(name)?;
        let charged = slots.iter().copied().zip(charged.iter().copied()).collect();
        let mut found: Option<(Arc<RuleConfig>, Never)> = None;
        for rule in self.all.configured.rules_of(quota).filter(|rule| !rule.dry_run) {
            self.tried += 1;
            if self.tried > MAX_TRIED {
                return None;
            }
            let never = self.never(rule, &charged)?;
            if found.as_ref().is_none_or(|(_, found)| found.is_certain && !never.is_certain) {
                found = Some((Arc::clone(rule), never));
            }
        }
        found
    }

    /// Why the condition of a rule is not true for requests.
    fn never(&self, rule: &RuleConfig, charged: &HashMap<SlotId, ChargedAttribute<'s>>) -> Option<Never> {
        let program = condition(rule)?;
        let of = |program: &Program| self.never_true(program, charged);
        let whole = of(program);
        if whole.as_ref().is_some_and(|never| never.is_certain) {
            return whole;
        }
        let operands = program.conjunct_texts();
        let several = operands.len() > 1;
        let compiled = |text| mixer_expr::compile(rule.language, text, self.all.vocabulary).ok();
        let operands = operands.into_iter().filter(|_| several).filter_map(compiled);
        let mut nevers: Vec<Never> =
            whole.into_iter().chain(operands.filter_map(|operand| of(&operand))).collect();
        let certain = nevers.iter().position(|never| never.is_certain);
        (!nevers.is_empty()).then(|| nevers.swap_remove(certain.unwrap_or(0)))
    }

    /// Why a condition without attributes that differ between requests is not true.
    fn never_true(
        &self,
        program: &Program,
        charged: &HashMap<SlotId, ChargedAttribute<'s>>,
    ) -> Option<Never> {
        let arena = bumpalo::Bump::new();
        let mut bag = AttributeBag::empty(self.all.vocabulary, &arena);
        let mut whys = Vec::new();
        let mut is_certain = true;
        for slot in program.attributes() {
            let name = self.all.vocabulary.name(slot);
            match charged.get(&slot) {
                // Generated, or any.
                None | Some(ChargedAttribute::Any) => return None,
                Some(ChargedAttribute::Text(text)) => {
                    bag.set(slot, Value::String(text.as_bytes()));
                    whys.push(format!("`{name}`, which is `{text}`"));
                }
                Some(ChargedAttribute::Absent) => {
                    whys.push(format!("`{name}`, which descriptors do not set"));
                }
                Some(ChargedAttribute::Unnamed) => {
                    is_certain = false;
                    whys.push(format!("`{name}`, which `entries` does not name"));
                }
            }
        }
        let is_true = matches!(program.eval(&bag), Ok(Value::Bool(true)));
        (!is_true && !whys.is_empty()).then(|| Never { why: whys.join(", and "), is_certain })
    }
}

fn condition(rule: &RuleConfig) -> Option<&Program> {
    match &rule.condition {
        Condition::When(program) => Some(program),
        _ => None,
    }
}
