//! Overrides of quotas that do not apply as they are written.

use std::collections::BTreeMap;
use std::rc::Rc;

use foldhash::HashMap;
use mixer_attribute::ValueType;
use mixer_config::mark::{Mark, is_network};
use mixer_config::message::{Entries, suggestion};
use mixer_config::{Diagnostic, Diagnostics, FieldPath};
use mixer_engine::adapter::{BoundInstance, NOT_BUILT};

/// Most overrides of a quota that are compared with each other.
const MAX_COMPARED: usize = 500;

/// Most dimensions that a hint names.
const MAX_NAMED: usize = 50;

/// The values of the dimensions of an override. `None`: null.
type Dimensions = Entries<Option<String>>;

/// A quota in the parameters of a handler.
pub(crate) struct Configured<'p> {
    /// The full name of its instance.
    pub(crate) name: &'p str,
    /// The dimensions of each override.
    pub(crate) overrides: Vec<&'p Dimensions>,
}

/// What makes quotas limit others, or nobody, instead of those for whom they are written. Istio Mixer accepts it.
pub(crate) struct Flaw {
    field: FieldPath,
    pub(crate) text: String,
    hint: String,
}

impl Flaw {
    /// A dimension of an override that its instance does not have: the override applies to nothing.
    fn unknown(
        field: FieldPath,
        name: &str,
        instance: &BoundInstance,
        dimensions: &BTreeMap<&str, usize>,
    ) -> Self {
        let text = format!("{} has no dimension `{name}`, which its override names", instance.name);
        let names = dimensions.keys().copied();
        let hint = suggestion(name, names.clone()).unwrap_or_else(|| match dimensions.len() {
            0 => "it has no dimensions".to_owned(),
            1..=MAX_NAMED => format!("its dimensions are {}", names.collect::<Vec<_>>().join(", ")),
            all => format!("it has {all} dimensions, none of that name"),
        });
        Self { field, text, hint }
    }

    /// A value that is none, as where a template was not filled in: the override applies to requests without the dimension, or to all.
    fn without_value(field: FieldPath, name: &str, instance: &BoundInstance, why: &str) -> Self {
        let text = format!("the value of `{name}` in an override of {} is none: {why}", instance.name);
        let hint = format!("write a value, or leave out `{name}`: an override applies to every value then");
        Self { field, text, hint }
    }

    fn problem(self) -> Diagnostic {
        let text = format!("the handler will not be built: {}", self.text);
        Diagnostic::error(NOT_BUILT, self.field, text).with_hint(self.hint).accepted_by_istio()
    }
}

/// The flaws of quotas.
pub(crate) fn flaws<'p>(
    quotas: &[Configured<'p>],
    instances: &'p [BoundInstance],
) -> impl Iterator<Item = Flaw> {
    let of_dimensions = used(quotas, instances).flat_map(|(at, quota, instance)| {
        let known: Rc<BTreeMap<&str, usize>> = Rc::new(instance.entries("dimensions").collect());
        let overrides = quota.overrides.iter().enumerate();
        overrides.flat_map(move |(over, dimensions)| {
            let known = Rc::clone(&known);
            let values = dimensions.iter();
            values.filter_map(move |(name, value)| {
                let field = override_field(at, over).field("dimensions").key(name);
                let Some(&position) = known.get(name) else {
                    return Some(Flaw::unknown(field, name, instance, &known));
                };
                let value_type =
                    instance.leaves.get(position).map_or(ValueType::String, |leaf| leaf.value_type);
                let why = match value.as_deref() {
                    None => "it is null".to_owned(),
                    Some("") => format!("it is empty, and the dimension is {}", other_than_text(value_type)?),
                    Some(_) => return None,
                };
                Some(Flaw::without_value(field, name, instance, &why))
            })
        })
    });
    let mut seen: HashMap<&str, usize> = HashMap::default();
    let twice = quotas.iter().enumerate().filter_map(move |(at, quota)| {
        let first = *seen.entry(quota.name).or_insert(at);
        if first == at {
            return None;
        }
        let field = FieldPath::root().field("quotas").index(at).field("name");
        let text = format!("{} is there twice, as quotas[{first}] and quotas[{at}]", quota.name);
        let hint = "write one limit, with `overrides` for those who have another".to_owned();
        (!quota.name.is_empty()).then_some(Flaw { field, text, hint })
    });
    twice.chain(of_dimensions)
}

/// What a dimension is; `None` if it is a text, which may be empty.
fn other_than_text(value_type: ValueType) -> Option<&'static str> {
    match value_type {
        ValueType::Int64 | ValueType::Double => Some("a number"),
        ValueType::Bool => Some("a boolean"),
        ValueType::Timestamp => Some("a time"),
        ValueType::Duration => Some("a duration"),
        ValueType::IpAddress => Some("an address"),
        ValueType::StringMap => Some("a map"),
        _ => None,
    }
}

/// The quotas that apply to an instance, with their positions. Of two with the same name, the last applies.
fn used<'q, 'p>(
    quotas: &'q [Configured<'p>],
    instances: &'p [BoundInstance],
) -> impl Iterator<Item = (usize, &'q Configured<'p>, &'p BoundInstance)> {
    let last: HashMap<&str, usize> = quotas.iter().enumerate().map(|(at, quota)| (quota.name, at)).collect();
    instances.iter().filter_map(move |instance| {
        let at = *last.get(&*instance.name)?;
        Some((at, quotas.get(at)?, instance))
    })
}

/// Reports overrides that do not apply as they are written.
pub(crate) fn check(quotas: &[Configured<'_>], instances: &[BoundInstance], problems: &mut Diagnostics) {
    problems.extend(flaws(quotas, instances).map(Flaw::problem));
    for (at, quota) in quotas.iter().enumerate() {
        for (over, dimensions) in quota.overrides.iter().enumerate() {
            for (name, value) in dimensions.iter() {
                if let Some((what, hint)) = value.as_deref().and_then(suspicious_value) {
                    let field = override_field(at, over).field("dimensions").key(name);
                    problems.push(Diagnostic::warning("quota-override-value", field, what).with_hint(hint));
                }
            }
        }
        let compared = quota.overrides.get(..MAX_COMPARED).unwrap_or(&quota.overrides);
        for (over, dimensions) in compared.iter().enumerate() {
            let mut earlier = compared.iter().take(over);
            let covers =
                |first: &&Dimensions| first.iter().all(|(name, value)| dimensions.get(name) == Some(value));
            if let Some(first) = earlier.position(covers) {
                let text = format!(
                    "overrides[{over}] never applies: overrides[{first}] has all requests that it would have"
                );
                problems.push(
                    Diagnostic::warning("quota-override-shadowed", override_field(at, over), text)
                        .with_hint("the first override that matches applies: move this one before it"),
                );
            }
        }
    }
}

fn override_field(quota: usize, over: usize) -> FieldPath {
    FieldPath::root().field("quotas").index(quota).field("overrides").index(over)
}

/// What is probably meant otherwise in the value of a dimension, and what to do.
fn suspicious_value(value: &str) -> Option<(String, &'static str)> {
    let is_quoted = |quote: char| value.len() >= 2 && value.starts_with(quote) && value.ends_with(quote);
    if ['"', '\'', '`'].into_iter().any(is_quoted) {
        let text = format!("the value {value} is compared with its quotes");
        return Some((
            text,
            "values of overrides are texts, not expressions: write it without the inner quotes",
        ));
    }
    if let Some(mark) = Mark::unseen(value.as_bytes()) {
        return Some((format!("the value `{value}`: {}", mark.text("value")), "write the value alone"));
    }
    if value.contains('/') && is_network(value.as_bytes()) {
        let text = format!("`{value}` is compared as a text: it stands for no network");
        return Some((
            text,
            "write an override for each address, or a dimension that is the same for all of them",
        ));
    }
    if value.is_empty() {
        let text = "the value is empty: the override applies to requests without one".to_owned();
        return Some((text, "write a value, or leave the dimension out"));
    }
    let text = "`*` is compared as a text: it does not stand for every value".to_owned();
    (value == "*").then_some((
        text,
        "leave the dimension out: an override applies to every value of those that it does not name",
    ))
}
