//! A printable routing table: variety -> namespace -> handler -> condition -> instances.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::snapshot::{Condition, HandlerConfig, MappingOutline, RuleConfig, Snapshot, Unenforced};
use crate::template::Variety;
use mixer_base::scheduling::let_others_run;
use mixer_base::secrets::mask_text;

/// Everything that requests can reach. Serialises to the JSON of `routes show`; displays as the debug text of Istio Mixer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RoutingOutline {
    /// Number of the snapshot.
    pub id: u64,
    /// Namespace of mesh-wide rules.
    pub default_namespace: String,
    /// In number order; varieties without routes are left out.
    pub varieties: Vec<VarietyOutline>,
    /// Mappings of the configured extensions. The JSON key is the name of the one that exists.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub envoy: Vec<MappingOutline>,
    /// Services that decide and enforce nothing. Rules in dry run are in the groups, limits in shadow mode among the mappings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_enforced: Vec<UnenforcedOutline>,
    /// Why a server answers no call, if it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub withheld: Option<String>,
}

impl RoutingOutline {
    /// All groups, in order.
    pub fn groups_mut(&mut self) -> impl Iterator<Item = &mut GroupOutline> {
        let namespaces = self.varieties.iter_mut().flat_map(|variety| &mut variety.namespaces);
        namespaces.flat_map(|namespace| &mut namespace.destinations).flat_map(|to| &mut to.groups)
    }

    /// Whether checks of Envoy are answered OK whatever the rules say.
    pub fn shadows_checks(&self) -> bool {
        self.not_enforced.iter().any(|service| service.service == "check")
    }
}

/// A setting by which a service enforces nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnenforcedOutline {
    /// `check` or `ratelimit`.
    pub service: String,
    /// What is set, and what follows.
    pub what: String,
    /// The full name of the resource.
    pub resource: String,
    /// `file:line`.
    pub place: String,
}

/// The routes of a variety.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VarietyOutline {
    /// For example `TEMPLATE_VARIETY_CHECK`.
    pub variety: String,
    /// In name order; namespaces without routes of their own are left out.
    pub namespaces: Vec<NamespaceOutline>,
}

/// The routes of requests of one namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamespaceOutline {
    /// Its name.
    pub namespace: String,
    /// By handler name; inherited ones before own ones of the same name.
    pub destinations: Vec<DestinationOutline>,
}

/// What goes to one handler with one template.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DestinationOutline {
    /// Name of the handler.
    pub handler: String,
    /// Its adapter.
    pub adapter: String,
    /// Template of the instances.
    pub template: String,
    /// It belongs to the default namespace.
    pub inherited: bool,
    /// By condition text.
    pub groups: Vec<GroupOutline>,
}

/// Instances behind one condition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupOutline {
    /// As written, but for credentials; `None` is unconditional.
    pub condition: Option<String>,
    /// The rules are evaluated and not enforced.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    /// Full names of the rules.
    pub rules: Vec<String>,
    /// Those of them that serve in their previous version.
    #[serde(default, rename = "previousVersion", skip_serializing_if = "Vec::is_empty")]
    pub previous_version: Vec<String>,
    /// Full names, sorted; duplicates stay.
    pub instances: Vec<String>,
}

/// Shown as the handler of rules that refuse what no rule allows; no handler has such a name.
const DEFAULT_DENY: &str = "default: deny";

/// Key: handler name, template; value: adapter and, by condition text and dry run, rules and instances.
type Destinations<'s> = BTreeMap<(&'s str, &'s str), (&'s str, Groups<'s>)>;
type Groups<'s> = BTreeMap<(Option<&'s str>, bool), (BTreeSet<String>, Vec<String>)>;

/// Describes the routes of a snapshot to handlers that are `usable`.
pub fn outline(snapshot: &Snapshot, usable: &dyn Fn(&HandlerConfig) -> bool) -> RoutingOutline {
    let mut varieties = Vec::new();
    for variety in Variety::ALL {
        let mut by_namespace: BTreeMap<&str, Destinations<'_>> = BTreeMap::new();
        let applies = |rule: &&Arc<RuleConfig>| rule.denies_by_default || !is_broken(rule);
        for rule in snapshot.rules.iter().filter(applies) {
            let_others_run();
            collect(rule, variety, usable, by_namespace.entry(&rule.key.namespace).or_default());
        }
        let inherited = by_namespace.get(&*snapshot.default_namespace).cloned().unwrap_or_default();
        let namespaces: Vec<NamespaceOutline> = by_namespace
            .into_iter()
            .filter(|(_, own)| !own.is_empty())
            .map(|(namespace, own)| {
                let is_default = namespace == &*snapshot.default_namespace;
                let mut destinations = describe(own, false);
                if !is_default {
                    destinations.splice(0..0, describe(inherited.clone(), true));
                    destinations.sort_by(|a, b| a.handler.cmp(&b.handler));
                }
                NamespaceOutline { namespace: namespace.to_owned(), destinations }
            })
            .collect();
        if !namespaces.is_empty() {
            varieties.push(VarietyOutline { variety: variety.name().to_owned(), namespaces });
        }
    }
    RoutingOutline {
        id: snapshot.id.0,
        default_namespace: snapshot.default_namespace.to_string(),
        varieties,
        envoy: snapshot.mappings(),
        not_enforced: snapshot.unenforced_services().map(unenforced).collect(),
        withheld: None,
    }
}

fn unenforced(service: &Unenforced) -> UnenforcedOutline {
    UnenforcedOutline {
        service: service.service.to_owned(),
        what: service.what.to_owned(),
        resource: service.resource.to_string(),
        place: service.place.clone(),
    }
}

fn is_broken(rule: &RuleConfig) -> bool {
    matches!(rule.condition, Condition::Broken(_))
}

fn collect<'s>(
    rule: &'s RuleConfig,
    variety: Variety,
    usable: &dyn Fn(&HandlerConfig) -> bool,
    destinations: &mut Destinations<'s>,
) {
    let condition = match rule.condition {
        // Of a default, it selects every request.
        Condition::Always | Condition::Broken(_) => None,
        Condition::When(_) => Some(&*rule.match_text),
    };
    if rule.denies_by_default && variety == Variety::Check {
        let (_, groups) = destinations.entry((DEFAULT_DENY, "")).or_insert_with(|| ("mixer", Groups::new()));
        let (rules, _) = groups.entry((condition, rule.dry_run)).or_default();
        rules.insert(rule.key.to_string());
    }
    for action in rule.actions.iter().filter(|a| !is_broken(rule) && usable(&a.handler)) {
        for instance in &action.instances {
            let template = instance.template();
            let effective = match template.variety {
                Variety::CheckWithOutput => Variety::Check,
                other => other,
            };
            if effective != variety {
                continue;
            }
            let (_, groups) = destinations
                .entry((&action.handler.name, &template.name))
                .or_insert_with(|| (action.handler.adapter_name(), Groups::new()));
            let (rules, instances) = groups.entry((condition, rule.dry_run)).or_default();
            rules.insert(rule.key.to_string());
            instances.push(instance.name().to_string());
        }
    }
}

fn describe(destinations: Destinations<'_>, inherited: bool) -> Vec<DestinationOutline> {
    destinations
        .into_iter()
        .inspect(|_| let_others_run())
        .map(|((handler, template), (adapter, groups))| DestinationOutline {
            handler: handler.to_owned(),
            adapter: adapter.to_owned(),
            template: template.to_owned(),
            inherited,
            groups: groups
                .into_iter()
                .map(|((condition, dry_run), (rules, mut instances))| {
                    instances.sort();
                    GroupOutline {
                        condition: condition.map(|text| mask_text(text).into_owned()),
                        dry_run,
                        rules: rules.into_iter().collect(),
                        previous_version: Vec::new(),
                        instances,
                    }
                })
                .collect(),
        })
        .collect()
}

/// The debug text of Istio Mixer.
impl std::fmt::Display for RoutingOutline {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "[Routing ExpectedTable]")?;
        writeln!(f, "ID: {}", self.id)?;
        for (v, variety) in self.varieties.iter().enumerate() {
            writeln!(f, "[#{v}] {} {{V}}", variety.variety)?;
            for (n, namespace) in variety.namespaces.iter().enumerate() {
                writeln!(f, "  [#{n}] {} {{NS}}", namespace.namespace)?;
                for (d, destination) in namespace.destinations.iter().enumerate() {
                    writeln!(f, "    [#{d}] {} {{H}}", destination.handler)?;
                    for (g, group) in destination.groups.iter().enumerate() {
                        writeln!(f, "      [#{g}]")?;
                        let mark = if group.dry_run { " {dry run}" } else { "" };
                        let kept = if group.previous_version.is_empty() { "" } else { " {previous version}" };
                        let condition = group.condition.as_deref().unwrap_or("<NONE>");
                        writeln!(f, "        Condition: {condition}{mark}{kept}")?;
                        for (i, instance) in group.instances.iter().enumerate() {
                            writeln!(f, "        [#{i}] {instance} {{I}}")?;
                        }
                    }
                }
            }
        }
        for UnenforcedOutline { what, resource, place, .. } in &self.not_enforced {
            writeln!(f, "[Not enforced] {resource} ({place}): {what}")?;
        }
        if let Some(why) = &self.withheld {
            writeln!(f, "[Nothing serves] {why}")?;
        }
        Ok(())
    }
}
