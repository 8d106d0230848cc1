//! Windows and amounts that are valid, and probably not what is meant.

use super::{Params, Quota};
use mixer_attribute::SignedDuration;
use mixer_config::{Diagnostic, Diagnostics, FieldPath};
use mixer_engine::adapter::NOT_BUILT;

/// A limit of a quota or of an override: where it is, its amount and its window.
type Place = (FieldPath, i64, SignedDuration);

fn places(index: usize, quota: &Quota) -> impl Iterator<Item = Place> {
    let path = FieldPath::root().field("quotas").index(index);
    let overrides = quota.overrides.iter().enumerate();
    let of_override = path.field("overrides");
    let own = (path, quota.max_amount, quota.valid_duration);
    std::iter::once(own).chain(
        overrides.map(move |(index, over)| (of_override.index(index), over.max_amount, over.valid_duration)),
    )
}

/// Negative windows, which only Istio Mixer takes, and their errors.
pub(super) fn negative(params: &Params) -> impl Iterator<Item = (FieldPath, String)> {
    let places = params.quotas.iter().enumerate().flat_map(|(index, quota)| places(index, quota));
    places.filter(|(_, _, window)| *window < SignedDuration::ZERO).map(|(path, _, window)| {
        let path = path.field("validDuration");
        let text = format!("{path}: must not be negative, it is {window}");
        (path, text)
    })
}

/// Reports negative windows and amounts, and for each quota the first limit without a window.
pub(super) fn check(params: &Params, problems: &mut Diagnostics) {
    for (path, text) in negative(params) {
        let text = format!("the handler will not be built: {text}");
        problems.push(Diagnostic::error(NOT_BUILT, path, text).accepted_by_istio());
    }
    for (index, quota) in params.quotas.iter().enumerate() {
        let mut held = places(index, quota).filter(|(_, _, window)| *window == SignedDuration::ZERO);
        if let Some((path, ..)) = held.next() {
            let text = format!(
                "{path}: without `validDuration` an amount is not given back until the client releases it, which proxies do not do"
            );
            let hint =
                "write the length of the window, for example `validDuration: 1s`; overrides have their own";
            problems.push(Diagnostic::warning("quota-held", path, text).with_hint(hint).accepted_by_istio());
        }
        for (path, amount, _) in places(index, quota).filter(|(_, amount, _)| *amount < 0) {
            let path = path.field("maxAmount");
            let text = format!("{path}: {amount} is negative: nothing is granted, as with 0");
            let problem = Diagnostic::warning("quota-amount", path, text);
            problems.push(problem.with_hint("write the amount that may be in use, or 0").accepted_by_istio());
        }
    }
}
