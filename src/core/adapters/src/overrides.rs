//! Overrides of quotas that do not apply as they are written.

use std::collections::BTreeMap;

use mixer_config::message::suggestion;
use mixer_config::{Diagnostic, Diagnostics, FieldPath};
use mixer_engine::adapter::{BoundInstance, NOT_BUILT};

/// Most overrides of a quota that are compared with each other.
const MAX_COMPARED: usize = 500;

/// A quota in the parameters of a handler.
pub(crate) struct Configured<'p> {
    /// The full name of its instance.
    pub(crate) name: &'p str,
    /// The dimensions of each override.
    pub(crate) overrides: Vec<&'p BTreeMap<String, String>>,
}

/// A dimension of an override that its instance does not have: the override applies to nothing.
pub(crate) struct UnknownDimension<'p> {
    /// Positions of the quota and of the override.
    at: (usize, usize),
    name: &'p str,
    instance: &'p BoundInstance,
}

impl UnknownDimension<'_> {
    pub(crate) fn text(&self) -> String {
        format!("{} has no dimension `{}`, which its override names", self.instance.name, self.name)
    }

    fn problem(&self) -> Diagnostic {
        let (quota, over) = self.at;
        let field = override_field(quota, over).field("dimensions").key(self.name);
        let text = format!("the handler will not be built: {}", self.text());
        let names: Vec<&str> = self.instance.entries("dimensions").map(|(name, _)| name).collect();
        let hint = suggestion(self.name, names.iter().copied()).unwrap_or_else(|| match names.is_empty() {
            true => "it has no dimensions".to_owned(),
            false => format!("its dimensions are {}", names.join(", ")),
        });
        Diagnostic::error(NOT_BUILT, field, text).with_hint(hint).accepted_by_istio()
    }
}

/// The unknown dimensions of the quotas that are used.
pub(crate) fn unknown_dimensions<'p>(
    quotas: &[Configured<'p>],
    instances: &'p [BoundInstance],
) -> impl Iterator<Item = UnknownDimension<'p>> {
    used(quotas, instances).flat_map(|(at, quota, instance)| {
        let overrides = quota.overrides.iter().enumerate();
        overrides.flat_map(move |(over, dimensions)| {
            let names = dimensions.keys();
            let is_unknown = move |name: &&String| {
                !instance.entries("dimensions").any(|(known, _)| known == name.as_str())
            };
            let unknown = move |name: &'p String| UnknownDimension { at: (at, over), name, instance };
            names.filter(is_unknown).map(unknown)
        })
    })
}

/// The quotas that apply to an instance, with their positions. Of two with the same name, the last applies.
fn used<'q, 'p>(
    quotas: &'q [Configured<'p>],
    instances: &'p [BoundInstance],
) -> impl Iterator<Item = (usize, &'q Configured<'p>, &'p BoundInstance)> {
    instances.iter().filter_map(|instance| {
        let at = quotas.iter().rposition(|quota| *quota.name == *instance.name)?;
        Some((at, quotas.get(at)?, instance))
    })
}

/// Reports overrides that do not apply as they are written.
pub(crate) fn check(quotas: &[Configured<'_>], instances: &[BoundInstance], problems: &mut Diagnostics) {
    problems.extend(unknown_dimensions(quotas, instances).map(|unknown| unknown.problem()));
    for (at, quota) in quotas.iter().enumerate() {
        for (over, dimensions) in quota.overrides.iter().enumerate() {
            for (name, value) in *dimensions {
                if let Some((what, hint)) = suspicious_value(value) {
                    let field = override_field(at, over).field("dimensions").key(name);
                    problems.push(Diagnostic::warning("quota-override-value", field, what).with_hint(hint));
                }
            }
        }
        let compared = quota.overrides.get(..MAX_COMPARED).unwrap_or(&quota.overrides);
        for (over, dimensions) in compared.iter().enumerate() {
            let mut earlier = compared.iter().take(over);
            let covers = |first: &&BTreeMap<String, String>| {
                first.iter().all(|(name, value)| dimensions.get(name) == Some(value))
            };
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
    let text = "`*` is compared as a text: it does not stand for every value".to_owned();
    (value == "*").then_some((
        text,
        "leave the dimension out: an override applies to every value of those that it does not name",
    ))
}
