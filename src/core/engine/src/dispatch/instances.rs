//! Evaluates instances.

use bumpalo::collections::String as ArenaString;

use crate::adapter::Instance;
use crate::routing::{Route, RouteAction, RouteInstance};
use mixer_attribute::{AttributeBag, Value};

/// An evaluated instance, and whether it has a whole received map, which references cannot express.
pub(super) struct Evaluated<'a> {
    pub(super) instance: Instance<'a>,
    pub(super) has_map: bool,
}

/// The work of evaluating an instance.
pub(super) fn work_of(route: &RouteInstance) -> usize {
    1 + route.config.programs.len()
}

/// Evaluates all leaves of an instance into the arena of the bag. So is the error text.
pub(super) fn evaluate<'a>(
    route: &'a RouteInstance,
    bag: &AttributeBag<'a>,
) -> Result<Evaluated<'a>, &'a str> {
    evaluate_sharing(route, bag, &mut [])
}

/// As [`evaluate`], but evaluates values that instances of this bag share only once and keeps them in `known`, one cell each.
/// References for such a value are recorded at the first evaluation.
pub(super) fn evaluate_sharing<'a>(
    route: &'a RouteInstance,
    bag: &AttributeBag<'a>,
    known: &mut [Option<Value<'a>>],
) -> Result<Evaluated<'a>, &'a str> {
    let programs = &route.config.programs;
    let values = bag.arena().alloc_slice_fill_copy(programs.len(), None::<Value<'a>>);
    let mut has_map = false;
    for (i, (slot, program)) in values.iter_mut().zip(programs).enumerate() {
        let Some(program) = program else { continue };
        let cell = route.shared.cell(i).and_then(|cell| known.get_mut(cell));
        if let Some(Some(value)) = cell {
            has_map |= matches!(value, Value::StringMap(map) if map.source.is_some());
            *slot = Some(*value);
            continue;
        }
        match program.eval(bag) {
            Ok(value) => {
                has_map |= matches!(value, Value::StringMap(map) if map.source.is_some());
                *slot = Some(value);
                if let Some(cell) = cell {
                    *cell = Some(value);
                }
            }
            Err(error) => {
                use std::fmt::Write as _;
                let leaf = route.config.leaf_names.get(i).map_or("", |n| n);
                let mut text = ArenaString::new_in(bag.arena());
                // Writing to a string cannot fail.
                let _ = match route.config.template().external {
                    Some(_) => write!(text, "fieldEncoder: {leaf} - {error}"),
                    None => write!(text, "evaluation failed at [{}]'{leaf}': '{error}'", route.config.name()),
                };
                return Err(text.into_bump_str());
            }
        }
    }
    let instance = Instance { bound: route.bound, name: route.config.name(), values };
    Ok(Evaluated { instance, has_map })
}

/// The instances of a route with this quota name.
pub(super) fn instances_named<'t>(
    route: &'t Route,
    name: &str,
) -> impl Iterator<Item = (&'t RouteAction, &'t RouteInstance)> {
    route
        .actions
        .iter()
        .flat_map(|action| action.instances.iter().map(move |instance| (action, instance)))
        .filter(move |(_, instance)| equal_fold(&instance.config.key.name, name))
}

/// Equality under simple case folding.
pub(super) fn equal_fold(a: &str, b: &str) -> bool {
    // No letter is more than three times as long in the other case: a long name of a caller is not folded for each comparison.
    if a.len() > 4 * b.len() || b.len() > 4 * a.len() {
        return false;
    }
    match a.is_ascii() && b.is_ascii() {
        true => a.eq_ignore_ascii_case(b),
        false => a.to_lowercase() == b.to_lowercase(),
    }
}
