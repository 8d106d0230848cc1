//! Warnings about namespaces that are probably misspelt: rules of a namespace apply to no other one, so that a mistake opens a door
//! without an error.

use std::collections::BTreeMap;
use std::sync::Arc;

use foldhash::HashSet;

use super::model::{RuleConfig, Rules};
use super::options::DEFAULT_NAMESPACE;
use crate::template::Variety;
use mixer_base::shared_map::SharedMap;
use mixer_config::message::{misspelling, suggestion};
use mixer_config::{Diagnostic, Diagnostics, FieldPath, RawResource};

/// The code of a default namespace in which nothing is.
pub(crate) const UNUSED_DEFAULT: &str = "namespace-default-unused";
/// Most namespaces that are compared with each other; of more, each is compared with the default namespace only.
const MAX_COMPARED: usize = 64;
/// Names and their parts up to this length, in bytes, differ on purpose: `dev` and `dec`, `shop-eu` and `shop-us`.
const SHORT: usize = 3;

type Resources = SharedMap<Arc<RawResource>>;

/// The warnings. Cost: one pass over the resources, the pairs of at most [`MAX_COMPARED`] namespaces, and the budget of suggestions.
pub(super) fn suspicious(rules: &Rules, resources: &Resources, default_namespace: &str) -> Diagnostics {
    let uses = Uses::of(resources);
    let mut out: Diagnostics = unused_default(rules, &uses, default_namespace).into_iter().collect();
    out.extend(near(&uses, default_namespace));
    let told: HashSet<String> = out.iter().map(|problem| problem.resource.clone()).collect();
    let defaults = rules.iter().filter(|rule| rule.denies_by_default);
    let others = defaults.filter(|rule| *rule.key.namespace != *default_namespace);
    let untold = others.filter(|rule| !told.contains(&rule.key.to_string()));
    out.extend(untold.filter_map(|rule| closes_nothing(rule, resources, &uses)));
    let told: HashSet<String> = out.iter().map(|problem| problem.resource.clone()).collect();
    out.extend(
        closes_all(rules, resources, default_namespace).filter(|problem| !told.contains(&problem.resource)),
    );
    out.extend(without_rules(rules, &uses, default_namespace));
    out
}

/// What is in a namespace.
struct Use<'r> {
    resources: usize,
    /// Whether more than one file has them.
    is_in_files: bool,
    /// Whether rules, with or without errors, are among them.
    has_rules: bool,
    /// Whether handlers or instances are.
    has_parts: bool,
    first: &'r Arc<RawResource>,
}

/// What is in each namespace.
struct Uses<'r>(BTreeMap<&'r str, Use<'r>>);

impl<'r> Uses<'r> {
    fn of(resources: &'r Resources) -> Self {
        let mut uses: BTreeMap<&'r str, Use<'r>> = BTreeMap::new();
        for resource in resources.iter() {
            let begin = || Use {
                resources: 0,
                is_in_files: false,
                has_rules: false,
                has_parts: false,
                first: resource,
            };
            let found = uses.entry(&resource.key.namespace).or_insert_with(begin);
            found.resources += 1;
            found.has_rules |= &*resource.key.kind == "rule";
            found.has_parts |= matches!(&*resource.key.kind, "handler" | "instance");
            let (first, origin) = (&found.first.origin, &resource.origin);
            if !found.is_in_files && !Arc::ptr_eq(&first.file, &origin.file) && first.file != origin.file {
                found.is_in_files = true;
            } else if !found.is_in_files && origin.first_line < first.first_line {
                found.first = resource;
            }
        }
        Self(uses)
    }

    fn names(&self) -> impl Iterator<Item = &'r str> + '_ {
        self.0.keys().copied()
    }
}

/// The problem of a default namespace without resources if rules of other namespaces decide: mesh-wide rules may be among them. It is an
/// error of a namespace that somebody named: who wants rules for their own namespaces only has no reason to name another one.
fn unused_default(rules: &Rules, uses: &Uses<'_>, default_namespace: &str) -> Option<Diagnostic> {
    if uses.0.contains_key(default_namespace) || !rules.iter().any(|rule| decides(rule)) {
        return None;
    }
    let text = format!(
        "nothing is in the default namespace `{default_namespace}`: no rule applies to the calls of every namespace"
    );
    let hint = suggestion(default_namespace, uses.names()).unwrap_or_else(|| {
        "--config-default-namespace names the namespace of mesh-wide rules; what is in another one applies to its own calls. If that \
         is meant for every rule, leave the flag out"
            .to_owned()
    });
    let new = match default_namespace {
        DEFAULT_NAMESPACE => Diagnostic::warning,
        _ => Diagnostic::error,
    };
    let problem = new(UNUSED_DEFAULT, FieldPath::root(), text);
    Some(problem.with_hint(hint).accepted_by_istio())
}

/// Whether a rule decides about calls.
fn decides(rule: &RuleConfig) -> bool {
    let of_rule = rule.actions.iter().flat_map(|action| &action.instances);
    let varieties = [Variety::Check, Variety::Quota];
    rule.denies_by_default || of_rule.into_iter().any(|i| varieties.contains(&i.template().variety))
}

/// Warns about namespaces of a single file that are nearly another one, which has as much or more.
fn near<'u>(uses: &'u Uses<'_>, default_namespace: &'u str) -> impl Iterator<Item = Diagnostic> + 'u {
    let compares_all = uses.0.len() <= MAX_COMPARED;
    let problem = move |(name, used): (&&str, &Use<'_>)| {
        let has_as_much = |of: &Use<'_>| (of.is_in_files, of.resources) >= (used.is_in_files, used.resources);
        let is_other = |(other, of): &(&&str, &Use<'_>)| {
            (**other == default_namespace || has_as_much(of)) && is_near(name, other)
        };
        let (other, _) = match compares_all {
            true => uses.0.iter().find(is_other)?,
            false => uses.0.get_key_value(default_namespace).filter(|(other, _)| is_near(name, other))?,
        };
        let text = format!("namespace `{name}`, which this file alone has, is nearly `{other}`");
        let hint = format!("did you mean `{other}`? Rules apply to the calls of their own namespace");
        let mut problem = Diagnostic::warning("namespace-near", namespace_field(), text).with_hint(hint);
        let RawResource { key, origin, .. } = &**used.first;
        problem.resource = key.to_string();
        problem.file = Some(Arc::clone(&origin.file));
        problem.span = Some(origin.in_file(used.first.document().at(&problem.field).span));
        Some(problem.accepted_by_istio())
    };
    let of_one_file =
        move |(name, used): &(&&str, &Use<'_>)| !used.is_in_files && **name != default_namespace;
    uses.0.iter().filter(of_one_file).filter_map(problem)
}

/// Whether a name is probably another one with a mistake, and not its neighbour on purpose, such as `team-1` of `team-2`.
fn is_near(name: &str, other: &str) -> bool {
    if name.len().abs_diff(other.len()) > 2 || !misspelling(name, other) {
        return false;
    }
    let without_digits = |text: &str| text.chars().filter(|c| !c.is_ascii_digit()).collect::<String>();
    if without_digits(name) == without_digits(other) {
        return false;
    }
    let (parts, others): (Vec<&str>, Vec<&str>) = (name.split('-').collect(), other.split('-').collect());
    let is_short = |(part, other): (&&str, &&str)| part == other || part.len().max(other.len()) <= SHORT;
    parts.len() != others.len() || !parts.iter().zip(&others).all(is_short)
}

/// Warns about a default that closes a namespace of which no other resource is.
fn closes_nothing(rule: &Arc<RuleConfig>, resources: &Resources, uses: &Uses<'_>) -> Option<Diagnostic> {
    let namespace = &*rule.key.namespace;
    let own = resources.get(&rule.key);
    let others = uses.0.get(namespace).map_or(0, |used| used.resources) - usize::from(own.is_some());
    if others > 0 {
        return None;
    }
    let text = format!("no other resource is in namespace `{namespace}`, which this default closes");
    let hint = suggestion(namespace, uses.names().filter(|other| *other != namespace));
    let hint = hint.unwrap_or_else(|| "if it is misspelt, the namespace that is meant is open".to_owned());
    let mut problem = Diagnostic::warning("namespace-unused", namespace_field(), text).with_hint(hint);
    problem.resource = rule.key.to_string();
    problem.file = Some(Arc::clone(&rule.origin.file));
    let document = own.map(|resource| resource.document());
    problem.span = document.map(|document| rule.origin.in_file(document.at(&problem.field).span));
    Some(problem)
}

/// Warns about defaults of namespaces in which no rule can allow a call: every call is refused, which may be meant, or the rules are in another
/// namespace.
fn closes_all<'r>(
    rules: &'r Rules,
    resources: &'r Resources,
    default_namespace: &'r str,
) -> impl Iterator<Item = Diagnostic> + 'r {
    let checks = |rule: &RuleConfig| {
        let mut instances = rule.actions.iter().flat_map(|action| &action.instances);
        !rule.dry_run
            && instances.any(|i| matches!(i.template().variety, Variety::Check | Variety::CheckWithOutput))
    };
    let defaults = rules.iter().filter(|rule| rule.denies_by_default && !rule.dry_run);
    let allowing: HashSet<&str> =
        rules.iter().filter(|rule| checks(rule)).map(|rule| &*rule.key.namespace).collect();
    let allows_everywhere = rules.iter().any(|rule| rule.allows_everywhere && checks(rule));
    let of_closed = move |rule: &&Arc<RuleConfig>| {
        let namespace = &*rule.key.namespace;
        namespace != default_namespace && !allows_everywhere && !allowing.contains(namespace)
    };
    defaults.filter(of_closed).map(|rule| {
        let namespace = &rule.key.namespace;
        let text =
            format!("no rule of namespace `{namespace}` allows a call: this default refuses all of them");
        let hint = "add the rules that allow calls, or correct the namespace of those that are meant";
        let mut problem = Diagnostic::warning("namespace-closed", namespace_field(), text).with_hint(hint);
        problem.resource = rule.key.to_string();
        problem.file = Some(Arc::clone(&rule.origin.file));
        let document = resources.get(&rule.key).map(|resource| resource.document());
        problem.span = document.map(|document| rule.origin.in_file(document.at(&problem.field).span));
        problem
    })
}

/// Warns about namespaces with handlers or instances, of which no rule uses any, and without a rule: nothing that is written there decides about a
/// call.
fn without_rules(rules: &Rules, uses: &Uses<'_>, default_namespace: &str) -> Diagnostics {
    let mut used: HashSet<&str> = rules.iter().map(|rule| &*rule.key.namespace).collect();
    for action in rules.iter().flat_map(|rule| &rule.actions) {
        used.insert(&action.handler.key.namespace);
        used.extend(action.instances.iter().map(|instance| &*instance.key.namespace));
    }
    let is_open = |(name, of): &(&&str, &Use<'_>)| {
        **name != default_namespace && !used.contains(**name) && of.has_parts && !of.has_rules
    };
    let problem = |(name, of): (&&str, &Use<'_>)| {
        let text = format!(
            "namespace `{name}` has {} and no rule: nothing there decides about a call",
            counted(of.resources)
        );
        let hint = format!(
            "rules of `{default_namespace}` alone apply to its calls; if that is meant, remove what no rule uses"
        );
        let mut problem =
            Diagnostic::warning("namespace-without-rules", namespace_field(), text).with_hint(hint);
        let RawResource { key, origin, .. } = &**of.first;
        problem.resource = key.to_string();
        problem.file = Some(Arc::clone(&origin.file));
        problem.span = Some(origin.in_file(of.first.document().at(&problem.field).span));
        problem.accepted_by_istio()
    };
    uses.0.iter().filter(is_open).map(problem).collect()
}

fn counted(resources: usize) -> String {
    if resources == 1 { "a resource".to_owned() } else { format!("{resources} resources") }
}

fn namespace_field() -> FieldPath {
    FieldPath::root().field("metadata").field("namespace")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_is_no_neighbour() {
        for (name, other, near) in [
            ("istio-sytem", "istio-system", true),
            ("istio-systme", "istio-system", true),
            ("istiosystem", "istio-system", true),
            ("shpo", "shop", true),
            ("payment", "payments", true),
            ("shop", "shop", false),
            ("team-1", "team-2", false),
            ("ns1", "ns10", false),
            ("shop-eu", "shop-us", false),
            ("shop-a", "shop-b", false),
            ("dev", "dec", false),
            ("default", "istio-system", false),
        ] {
            assert_eq!(is_near(name, other), near, "{name} {other}");
        }
    }
}
