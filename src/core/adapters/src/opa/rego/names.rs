//! Names that a policy reads: which of them nothing defines, and which may be left out. In Rego they are undefined, so that a rule that
//! refuses with them does not.

use std::collections::{BTreeMap, BTreeSet};

use super::super::{Problem, Subject, Weight};
use super::analysis::Analysis;
use super::reads::Read;
use mixer_attribute::ValueType;
use mixer_config::message::suggestion;
use mixer_engine::adapter::BoundInstance;

/// Most problems that are described.
const MAX_PROBLEMS: usize = 32;
/// The texts of each part of the input, which are left out if they are empty.
const TEXTS: [(&str, &[&str]); 2] =
    [("subject", &["user", "groups"]), ("action", &["namespace", "service", "method", "path"])];
/// The map of each part.
const PROPERTIES: &str = "properties";

/// The members of the input, as instances configure it.
struct Input<'i> {
    instances: &'i [BoundInstance],
}

/// What is at a path of the input.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    /// An object, or a property.
    Always,
    /// A text, which is left out if it is empty.
    Text,
    /// This member, which only some of the instances configure.
    InSome(String),
    /// This member, which no instance configures.
    InNone(String),
    /// Nothing: the path, so far, with the members that are there, or what is there instead.
    Unknown { path: Vec<String>, siblings: BTreeSet<String>, instead: Option<String> },
}

impl Input<'_> {
    /// The keys of the properties of a part, with their types.
    fn properties(&self, field: &str) -> BTreeMap<&str, ValueType> {
        let leaves = self.instances.iter().flat_map(|instance| instance.leaves.iter());
        leaves
            .filter(|leaf| leaf.field == field && leaf.value_type != ValueType::Unspecified)
            .filter_map(|leaf| Some((leaf.key.as_deref()?, leaf.value_type)))
            .collect()
    }

    /// In how many instances a leaf has an expression.
    fn count(&self, field: &str, key: Option<&str>) -> usize {
        let has = |instance: &&BoundInstance| {
            instance.leaves.iter().any(|leaf| {
                leaf.field == field
                    && (key.is_none() || leaf.key.as_deref() == key)
                    && leaf.value_type != ValueType::Unspecified
            })
        };
        self.instances.iter().filter(has).count()
    }

    /// What is at a path, which begins with `input`.
    fn find(&self, path: &[String]) -> Found {
        let members: Vec<&str> = path.iter().skip(1).map(String::as_str).collect();
        let unknown = |length: usize, siblings: BTreeSet<String>, instead: Option<String>| Found::Unknown {
            path: path.get(..=length).unwrap_or(path).to_vec(),
            siblings,
            instead,
        };
        let named = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let Some((part, members)) = members.split_first() else { return Found::Always };
        let Some((_, texts)) = TEXTS.iter().find(|(name, _)| name == part) else {
            return unknown(1, named(&TEXTS.map(|(name, _)| name)), None);
        };
        let Some((name, members)) = members.split_first() else { return Found::Always };
        let field = format!("{part}.{name}");
        let in_instances = |key: Option<&str>, otherwise: Found| {
            let member = key.map_or_else(|| field.clone(), |key| format!("{field}.{key}"));
            match self.count(&field, key) {
                0 => Found::InNone(member),
                count if count < self.instances.len() => Found::InSome(member),
                _ => otherwise,
            }
        };
        if texts.contains(name) {
            return match members.first() {
                None => in_instances(None, Found::Text),
                Some(index) if *name == "groups" && index.parse::<usize>().is_ok() => {
                    in_instances(None, Found::Text)
                }
                Some(_) => {
                    let is = if *name == "groups" { "a list with one text" } else { "a text" };
                    unknown(3, BTreeSet::new(), Some(format!("input.{field} is {is}")))
                }
            };
        }
        if *name != PROPERTIES {
            return unknown(2, named(&[*texts, &[PROPERTIES]].concat()), None);
        }
        let Some((key, members)) = members.split_first() else { return in_instances(None, Found::Always) };
        let properties = self.properties(&field);
        match properties.get(key) {
            None => {
                let instead =
                    properties.is_empty().then(|| format!("no instance configures `{part}.{PROPERTIES}`"));
                unknown(3, properties.keys().map(|key| (*key).to_owned()).collect(), instead)
            }
            Some(value_type) if !members.is_empty() && *value_type != ValueType::StringMap => {
                unknown(4, BTreeSet::new(), Some(format!("input.{field}.{key} has no members")))
            }
            Some(_) => in_instances(Some(key), Found::Always),
        }
    }
}

/// A name of data files that a policy reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Needed {
    /// From `data` on, without it.
    pub(super) path: Vec<String>,
    /// Whether the policy looks into it: at members or elements.
    pub(super) looks_into: bool,
    /// Where it is read first.
    pub(super) place: String,
}

/// The names of `data` that only data files can define, and on which the result depends.
pub(super) fn needed(reads: &[Read], analysis: &Analysis) -> Vec<Needed> {
    let mut needed: BTreeMap<&[String], Needed> = BTreeMap::new();
    for read in of_files(reads, analysis) {
        let Some(path) = read.path.get(1..) else { continue };
        let known = needed.entry(path).or_insert_with(|| Needed {
            path: path.to_vec(),
            looks_into: false,
            place: read.place.clone(),
        });
        known.looks_into |= read.looks_into;
    }
    needed.into_values().collect()
}

/// Reads of names of `data` that no rule has.
fn of_files<'r>(reads: &'r [Read], analysis: &'r Analysis) -> impl Iterator<Item = &'r Read> {
    reads.iter().filter(|read| {
        read.path.first().is_some_and(|root| root == "data")
            && read.path.len() > 1
            && read.effect.is_any()
            && !analysis.touches(&read.path.join("."))
    })
}

/// The problems of what a policy reads, if calls bring what `instances` configure. Without instances there are no calls.
pub(super) fn problems(
    reads: &[Read],
    analysis: &Analysis,
    instances: &[BoundInstance],
    has_data: bool,
) -> Vec<Problem> {
    let mut found = Problems { problems: Vec::new(), more: 0 };
    if instances.is_empty() {
        return found.problems;
    }
    let input = Input { instances };
    let of_input = reads
        .iter()
        .filter(|read| read.path.first().is_some_and(|root| root == "input") && read.effect.is_any());
    let tested: BTreeSet<&[String]> =
        of_input.clone().filter(|read| read.is_tested).map(|read| &*read.path).collect();
    for read in of_input {
        found.input(read, input.find(&read.path), tested.contains(&*read.path));
    }
    for read in of_files(reads, analysis) {
        found.data(read, analysis, has_data);
    }
    found.end()
}

/// Problems, with a bound.
struct Problems {
    problems: Vec<Problem>,
    more: usize,
}

impl Problems {
    fn push(&mut self, read: &Read, weight: Weight, text: &str, hint: Option<String>) {
        let mut problem = Problem::new(Subject::Module(read.module), format!("{}: {text}", read.place));
        (problem.weight, problem.hint) = (weight, hint);
        if self.problems.contains(&problem) {
            return;
        }
        match self.problems.len() < MAX_PROBLEMS {
            true => self.problems.push(problem),
            false => self.more += 1,
        }
    }

    fn end(mut self) -> Vec<Problem> {
        if self.more > 0 {
            let text = format!("{} more names that are not defined", self.more);
            let mut problem = Problem::new(Subject::Policy, text);
            problem.weight = Weight::Warning("opa-name");
            self.problems.push(problem);
        }
        self.problems
    }

    fn input(&mut self, read: &Read, found: Found, is_tested: bool) {
        let name = read.path.join(".");
        match found {
            Found::Always => {}
            Found::Text if read.is_compared && read.effect.refuses && !is_tested => {
                let text =
                    format!("{name} is left out if it is empty: nothing is refused then by this comparison");
                let hint = match &*read.path {
                    [input, part, member] => format!(
                        "write `object.get({input}.{part}, \"{member}\", \"\")`, or refuse with `not {name}` as well"
                    ),
                    _ => format!("refuse with `not {name}` as well"),
                };
                self.push(read, Weight::Warning("opa-absent"), &text, Some(hint));
            }
            Found::Text => {}
            Found::InSome(member) => {
                if read.effect.refuses {
                    let text =
                        format!("{name} is left out for some instances, which do not configure `{member}`");
                    self.push(
                        read,
                        Weight::Warning("opa-name"),
                        &text,
                        Some("configure it in each".to_owned()),
                    );
                }
            }
            Found::InNone(member) => {
                let text = format!("{name} is left out: no instance configures `{member}`");
                let weight = match read.effect.refuses {
                    true => Weight::AcceptedByIstio,
                    false => Weight::Warning("opa-name"),
                };
                self.push(read, weight, &text, Some("configure it, or do without".to_owned()));
            }
            Found::Unknown { path, siblings, instead } => {
                let parent = path.split_last().map_or_else(String::new, |(_, parent)| parent.join("."));
                let path = path.join(".");
                let text = format!("{path} does not exist: it is undefined in every evaluation");
                let known: Vec<String> = siblings.iter().map(|name| format!("{parent}.{name}")).collect();
                let hint =
                    suggestion(&path, known.iter().map(String::as_str)).or(instead).unwrap_or_else(|| {
                        let names: Vec<String> = siblings.iter().map(|name| format!("`{name}`")).collect();
                        let (last, others) =
                            names.split_last().map_or(("", &[][..]), |(last, rest)| (last, rest));
                        match others {
                            [] => format!("`{parent}` has {last}"),
                            others => format!("`{parent}` has {} and {last}", others.join(", ")),
                        }
                    });
                self.push(read, Weight::AcceptedByIstio, &text, Some(hint));
            }
        }
    }

    fn data(&mut self, read: &Read, analysis: &Analysis, has_data: bool) {
        let name = read.path.join(".");
        let hint = suggestion(&name, analysis.rules());
        if !has_data {
            let text = format!("{name} does not exist: no rule has this name, and there are no dataFiles");
            self.push(read, Weight::AcceptedByIstio, &text, hint);
            return;
        }
        // The files are read when the handler is built, and are an error then.
        let package = read.path.split_last().map_or_else(String::new, |(_, package)| package.join("."));
        if package != "data" && analysis.touches(&package) {
            let text = format!("no rule has the name {name}: a data file must have it");
            self.push(read, Weight::Warning("opa-name"), &text, hint);
        }
    }
}
