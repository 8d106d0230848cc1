//! Warnings about rules that open what a default closes, or were probably meant to.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::annotations::ALLOWS;
use super::comparisons;
use super::model::{ActionConfig, Condition, RuleConfig, Rules};
use super::suspicions::MATCH_ALL;
use mixer_attribute::Vocabulary;
use mixer_base::shared_map::SharedMap;
use mixer_config::{Diagnostic, Diagnostics, FieldPath, RawResource};

type Resources = SharedMap<Arc<RawResource>>;

/// The warnings. Cost: proportional to the rules, and the documents of those that it warns of or that allow everything.
pub(super) fn suspicious(
    rules: &Rules,
    resources: &Resources,
    default_namespace: &str,
    vocabulary: &Vocabulary,
) -> Diagnostics {
    let defaults = rules.iter().filter(|rule| rule.denies_by_default);
    let closed: BTreeSet<&str> = defaults.map(|rule| &*rule.key.namespace).collect();
    let openings = Openings { closed, resources, default_namespace };
    let of_rules = rules.iter().filter_map(|rule| openings.problem(rule));
    let wide = rules.iter().flat_map(|rule| openings.wide(rule, vocabulary));
    of_rules.chain(wide).chain(openings.shut(rules)).collect()
}

/// Whether an enforced rule can allow requests.
fn allows(rule: &RuleConfig) -> bool {
    !rule.dry_run && rule.actions.iter().any(ActionConfig::can_allow)
}

struct Openings<'r> {
    /// The namespaces that have a default.
    closed: BTreeSet<&'r str>,
    resources: &'r Resources,
    default_namespace: &'r str,
}

impl Openings<'_> {
    fn problem(&self, rule: &Arc<RuleConfig>) -> Option<Diagnostic> {
        let can_allow = rule.actions.iter().any(ActionConfig::can_allow);
        if rule.allows_everywhere && !(rule.of_mesh && can_allow) {
            return Some(self.unused_annotation(rule));
        }
        if rule.dry_run || !can_allow || self.closed.is_empty() {
            return None;
        }
        if self.opens(rule) { self.blank_condition(rule) } else { self.opens_nothing(rule) }
    }

    /// Whether OK of a rule that can allow satisfies a default that there is.
    fn opens(&self, rule: &RuleConfig) -> bool {
        let is_closed = |namespace: &str| self.closed.contains(namespace);
        let anywhere = rule.of_mesh && rule.allows_everywhere;
        anywhere || is_closed(&rule.key.namespace) || is_closed(self.default_namespace)
    }

    /// Warns about tests of a rule that allow more than they say. Rules are many, and most namespaces are not closed.
    fn wide(&self, rule: &Arc<RuleConfig>, vocabulary: &Vocabulary) -> Vec<Diagnostic> {
        match &rule.condition {
            Condition::When(program) if !self.closed.is_empty() && allows(rule) && self.opens(rule) => {
                let found = comparisons::openings::condition(program, vocabulary);
                found.into_iter().map(|problem| self.placed(rule, problem)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Warns about a blank condition of a rule that allows what a default refuses.
    fn blank_condition(&self, rule: &Arc<RuleConfig>) -> Option<Diagnostic> {
        let is_blank = matches!(rule.condition, Condition::Always) && rule.match_text.trim().is_empty();
        if !is_blank {
            return None;
        }
        self.resources.get(&rule.key)?.document().member("spec")?.get("match")?.as_str()?;
        let field = FieldPath::root().field("spec").field("match");
        let message =
            "the condition is blank: the rule applies to every request, and allows what a default refuses";
        Some(self.placed(rule, Diagnostic::warning("match-empty", field, message).with_hint(MATCH_ALL)))
    }

    /// Warns about a rule for the mesh that does nothing but allow, if only namespaces are closed, which it does not open.
    fn opens_nothing(&self, rule: &Arc<RuleConfig>) -> Option<Diagnostic> {
        let closed = self.closed.first().filter(|_| rule.of_mesh)?;
        if !rule.actions.iter().any(ActionConfig::only_allows) {
            return None;
        }
        let message = format!(
            "OK of this rule allows nothing: a rule for the mesh does not open `{closed}`, which a default of its own closes"
        );
        let hint = format!("move the rule to that namespace, or annotate it with `{ALLOWS}: everywhere`");
        let field = FieldPath::root().field("metadata").field("namespace");
        Some(self.placed(rule, Diagnostic::warning("allows-nothing", field, message).with_hint(hint)))
    }

    /// Warns about defaults whose namespace no rule can open, while one for the mesh allows some requests and opens no namespace.
    fn shut(&self, rules: &Rules) -> Vec<Diagnostic> {
        let allowing = || rules.iter().filter(|rule| allows(rule));
        let is_told = |rule: &Arc<RuleConfig>| !self.opens(rule) && self.opens_nothing(rule).is_some();
        let mut mesh = allowing().filter(|rule| rule.of_mesh);
        let Some(meant) = mesh.clone().find(|rule| !is_told(rule)) else { return Vec::new() };
        if mesh.any(|rule| rule.allows_everywhere) {
            return Vec::new();
        }
        // Namespaces that a rule of their own opens, and those that are reported.
        let mut done: BTreeSet<&str> = allowing().map(|rule| &*rule.key.namespace).collect();
        done.insert(self.default_namespace);
        let defaults = rules.iter().filter(|rule| rule.denies_by_default && !rule.dry_run);
        let shut = defaults.filter(|rule| done.insert(&rule.key.namespace));
        shut.map(|default| self.refuses_all(default, meant)).collect()
    }

    /// The warning about a default. `meant`: the rule for the mesh that does not open its namespace.
    fn refuses_all(&self, default: &Arc<RuleConfig>, meant: &RuleConfig) -> Diagnostic {
        let message = format!(
            "no rule of `{}` can allow what this default refuses; OK of {} for the mesh does not",
            default.key.namespace, meant.key
        );
        let hint = format!(
            "add a rule that allows to the namespace, or annotate {} with `{ALLOWS}: everywhere`",
            meant.key
        );
        let field = FieldPath::root().field("metadata").field("namespace");
        self.placed(default, Diagnostic::warning("default-refuses-all", field, message).with_hint(hint))
    }

    /// Warns about the annotation on a rule that opens no other namespace with it.
    fn unused_annotation(&self, rule: &Arc<RuleConfig>) -> Diagnostic {
        let (message, hint) = if rule.of_mesh {
            (
                "the annotation has no effect: no handler of the rule can allow a request",
                "remove it".to_owned(),
            )
        } else {
            let hint = format!("rules of the namespace `{}` are for the mesh", self.default_namespace);
            ("the annotation has no effect: the rule is for its own namespace only", hint)
        };
        let field = FieldPath::root().field("metadata").field("annotations").key(ALLOWS);
        self.placed(rule, Diagnostic::warning("allows-unused", field, message).with_hint(hint))
    }

    fn placed(&self, rule: &Arc<RuleConfig>, problem: Diagnostic) -> Diagnostic {
        placed(rule, self.resources, problem)
    }
}

/// A problem of a rule at the position of its field.
pub(super) fn placed(rule: &RuleConfig, resources: &Resources, mut problem: Diagnostic) -> Diagnostic {
    problem.resource = rule.key.to_string();
    problem.file = Some(Arc::clone(&rule.origin.file));
    let document = resources.get(&rule.key).map(|resource| resource.document());
    problem.span = document.map(|document| rule.origin.in_file(document.at(&problem.field).span));
    problem
}
