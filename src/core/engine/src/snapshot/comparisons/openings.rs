//! Tests that let more requests pass than they say: patterns without a beginning, and defaults that pass for an attribute that is absent.

use std::net::IpAddr;

use serde_json::Value as Json;

use super::lists::{ADAPTER, MAX_ENTRIES, value};
use super::{Comparison, Operand, Part};
use crate::adapter::CheckPower;
use crate::snapshot::ActionConfig;
use crate::snapshot::problems::ResourceProblems;
use crate::snapshot::suspicions::{is_always_there, placed};
use mixer_attribute::Vocabulary;
use mixer_config::{Diagnostic, FieldPath};
use mixer_expr::functions::Regex;
use mixer_expr::{Program, TextTestKind};

/// The code of the warning about defaults.
const DEFAULT_PASSES: &str = "default-passes";

/// Warns about the condition of a rule that allows what a default refuses.
pub(in crate::snapshot) fn condition(program: &Program, vocabulary: &Vocabulary) -> Vec<Diagnostic> {
    let field = || FieldPath::root().field("spec").field("match");
    let mut found = Vec::new();
    for test in program.text_tests().iter().filter(|test| !test.is_negated) {
        let comparison = Comparison::of_expression(test, program, vocabulary);
        let problem = unanchored(&comparison).or_else(|| default_passes(&comparison));
        found.extend(problem.map(|(code, message, hint)| {
            let mut problem = Diagnostic::warning(code, field(), message).with_hint(hint);
            problem.expression = placed(program, test.offset.and_then(|offset| program.position(offset)));
            problem
        }));
        if found.len() >= super::MAX_FINDINGS {
            break;
        }
    }
    found
}

type Problem = (&'static str, String, String);

/// A pattern that matches in the middle of a text.
fn unanchored(comparison: &Comparison<'_>) -> Option<Problem> {
    let facts = comparison.pattern.as_ref()?;
    let [operand] = &*comparison.operands else { return None };
    let is_path = matches!(operand.canonical(), Some("request.path" | "request.url_path"));
    let is_end = matches!(comparison.kind, TextTestKind::Regex { fixes_the_end: true });
    // Names are often told by their end: `\.shop\.example$`.
    if facts.fixes_the_start || facts.never_matches || (is_end && !is_path) {
        return None;
    }
    let message = format!(
        "the pattern matches anywhere in `{}`, and the rule allows whatever contains a match",
        operand.shown()
    );
    let hint =
        "begin the pattern with `^`: `\"^/public\".matches(request.url_path)` does not match `/admin/public`";
    Some(("match-unanchored", message, hint.to_owned()))
}

/// A test that the default of its attribute passes.
fn default_passes(comparison: &Comparison<'_>) -> Option<Problem> {
    let [operand] = &*comparison.operands else { return None };
    let default = operand.default.as_deref().filter(|default| !default.is_empty())?;
    let is_of_text = !matches!(comparison.kind, TextTestKind::NotEqual | TextTestKind::Regex { .. });
    if !is_of_text || is_always_there(operand.attribute) || !comparison.is_default() {
        return None;
    }
    let message = format!(
        "a request without `{}` is allowed: its default `{default}` passes this test",
        operand.shown()
    );
    Some((DEFAULT_PASSES, message, "write a default that no caller has, such as `\"\"`".to_owned()))
}

/// Warns about a whitelist that has the default of a value that is looked up in it.
pub(in crate::snapshot) fn whitelist(
    action: &ActionConfig,
    vocabulary: &Vocabulary,
    problems: &mut ResourceProblems<'_>,
) {
    let field = || FieldPath::root().field("spec").field("actions").index(action.index).field("instances");
    let handler = &action.handler;
    if handler.adapter.info().name != ADAPTER
        || handler.adapter.check_power(&handler.params) == CheckPower::Refuses
    {
        return;
    }
    let params = handler.params.json();
    let entry_type = params.get("entryType").and_then(Json::as_str).unwrap_or("STRINGS");
    let overrides = params.get("overrides").and_then(Json::as_array).map_or(&[][..], Vec::as_slice);
    for instance in &action.instances {
        let operands = value(instance).map(Program::value_operands).unwrap_or_default();
        let operands: Vec<_> = operands.iter().map(|operand| Operand::of(operand, vocabulary)).collect();
        let [operand] = &*operands else { continue };
        let mut entries = overrides.iter().take(MAX_ENTRIES).filter_map(Json::as_str);
        let Some(entry) = entries.find(|entry| admits(entry, entry_type, operand)) else { continue };
        let message = format!(
            "a request without `{}` passes: `{entry}` of {} admits the default of {}",
            operand.shown(),
            handler.name,
            instance.key.name
        );
        problems.push(
            Diagnostic::warning(DEFAULT_PASSES, field(), message)
                .with_hint("write a default that the list does not have, or none"),
        );
    }
}

/// Whether an entry admits the default of an operand.
fn admits(entry: &str, entry_type: &str, operand: &Operand<'_>) -> bool {
    if is_always_there(operand.attribute) {
        return false;
    }
    let text = operand.default.as_deref();
    match entry_type {
        "STRINGS" => text.is_some_and(|text| Part::Whole.is(text, entry)),
        "CASE_INSENSITIVE_STRINGS" => text.is_some_and(|text| text.eq_ignore_ascii_case(entry)),
        "REGEX" => text.is_some_and(|text| {
            Regex::compile(entry.as_bytes()).is_ok_and(|pattern| pattern.is_match(text.as_bytes()))
        }),
        _ => {
            let address = operand.default_address.or_else(|| text?.parse().ok());
            address.is_some_and(|address| contains(entry, address))
        }
    }
}

/// Whether a network, or an address, contains an address.
fn contains(network: &str, address: IpAddr) -> bool {
    let (base, length) = network.split_once('/').unwrap_or((network, ""));
    let Ok(base) = base.parse::<IpAddr>() else { return false };
    let bits = |address: IpAddr| match address {
        IpAddr::V4(v4) => (u128::from(u32::from(v4)) << 96, 32),
        IpAddr::V6(v6) => (u128::from(v6), 128),
    };
    let ((base_bits, width), (address_bits, address_width)) = (bits(base), bits(address));
    let length: u32 = if length.is_empty() { width } else { length.parse().unwrap_or(u32::MAX) };
    let mask = u128::MAX.checked_shl(128_u32.saturating_sub(length)).unwrap_or(0);
    width == address_width && length <= width && base_bits & mask == address_bits & mask
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_contain_addresses() {
        for (network, address, expected) in [
            ("10.0.0.0/8", "10.1.2.3", true),
            ("10.0.0.0/8", "11.1.2.3", false),
            ("0.0.0.0/0", "1.2.3.4", true),
            ("10.0.0.1", "10.0.0.1", true),
            ("10.0.0.1", "10.0.0.2", false),
            ("10.0.0.0/33", "10.0.0.0", false),
            ("::/0", "10.0.0.1", false),
            ("2001:db8::/32", "2001:db8::1", true),
            ("x", "10.0.0.1", false),
        ] {
            assert_eq!(contains(network, address.parse().unwrap()), expected, "{network} {address}");
        }
    }
}
