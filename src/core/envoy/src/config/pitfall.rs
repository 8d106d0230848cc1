//! Mistakes between the settings of Envoy's services and the quotas that they name.

use super::descriptors::DescriptorConfig;
use super::settings::{QuotaRule, StringMatch};
use super::written::each_field;
use super::{CompiledMapping, EnvoyConfig, MappedFrom, QuotaSelector, Wildcard};
use crate::known::{is_standard, known_types};
use mixer_attribute::{CALLER_PRINCIPAL, ValueType};
use mixer_config::mark::{self, Mark};
use mixer_config::{Diagnostic, FieldPath, Node, NodeKind};
use mixer_engine::snapshot::{
    self, ChargedAttribute, ClauseTest, ConstantDimension, IncompleteAttribute, QuotaNamespaces,
    QuotaReference, ResourceProblems,
};

/// Reports what is null: a value that was forgotten or cut off would be read as if nothing were written, as nothing to charge, or as a value
/// that matches nothing.
pub(super) fn refuse_nulls(spec: &Node, base: &FieldPath, report: &mut ResourceProblems<'_>) {
    each_field(spec, base, &mut |entry, path| {
        let name = &*entry.key;
        let is_of_entries =
            || spec_parent(&path.to_string(), name).is_some_and(|parent| parent.ends_with(".entries"));
        let (text, hint) = match entry.value.kind {
            NodeKind::Null if matches!(name, "quotas" | "rules" | "quotaSpec" | "quota_spec") => (
                format!("`{name}` is null: nothing would be charged"),
                "write what it should have, or leave the field out",
            ),
            NodeKind::Null if is_of_entries() => (
                format!("the value of entry `{name}` is null, which matches the empty value only"),
                "write `\"*\"` for any value, `\"\"` for the empty one",
            ),
            NodeKind::Null => {
                (format!("`{name}` has no value, as if it was not there"), "give it a value, or remove it")
            }
            NodeKind::Sequence(ref items) => {
                let is_null = |item: &Node| item.kind == NodeKind::Null;
                let Some(at) = items.iter().position(is_null) else { return };
                let text = format!("item {at} of `{name}` has no value");
                let problem = Diagnostic::error("envoy-setting", path.index(at), text);
                return report.push(problem.with_hint("write what it should have, or remove it"));
            }
            _ => return,
        };
        report.push(Diagnostic::error("envoy-setting", path, text).with_hint(hint));
    });
}

/// Reports a list of mappings without any: what rules read would be absent.
pub(super) fn refuse_no_mappings(spec: &Node, base: &FieldPath, report: &mut ResourceProblems<'_>) {
    let mappings = spec.member("mappings");
    if mappings.is_some_and(|list| matches!(&list.kind, NodeKind::Sequence(items) if items.is_empty())) {
        let text = "`mappings` has none: the attributes that it is to set would be absent";
        let problem = Diagnostic::error("envoy-setting", base.field("mappings"), text);
        report.push(problem.with_hint("write the mappings, or remove the resource"));
    }
}

/// Beginnings of the attributes that say who calls, or how.
const IDENTITY: [&str; 3] = ["source.", "request.auth.", "connection."];

/// The warning about an attribute that rules trust, and that a mapping takes from what the caller writes.
pub(super) fn claimed(attribute: &str, source: &MappedFrom, field: FieldPath) -> Option<Diagnostic> {
    use MappedFrom::{Cookie, QueryParameter, RequestHeader};
    if !matches!(source, RequestHeader(_) | QueryParameter(_) | Cookie(_)) {
        return None;
    }
    let (what, hint) = if attribute.ends_with(".namespace") {
        (
            "whose rules apply",
            "map it from `extension` or `routeMetadata`, which the configuration of the proxy sets, unless the proxy removes what callers send",
        )
    } else if attribute == CALLER_PRINCIPAL || IDENTITY.iter().any(|prefix| attribute.starts_with(prefix)) {
        (
            "who calls",
            "map it from `certificate`, or from `metadata` of a filter that authenticated the caller, unless the proxy removes what callers send",
        )
    } else {
        return None;
    };
    let text = format!("the caller chooses `{attribute}`, and so {what}: it is mapped from {source}");
    Some(Diagnostic::warning("mapping-claimed", field, text).with_hint(hint))
}

/// The warning about a test of a clause that fewer requests pass than it seems, or none, so that they are charged to no quota.
pub(super) fn clause(attribute: &str, test: &StringMatch, field: FieldPath) -> Option<Diagnostic> {
    let test = match test {
        StringMatch { exact: Some(text), .. } => ClauseTest::Exact(text),
        StringMatch { prefix: Some(text), .. } => ClauseTest::Prefix(text),
        StringMatch { regex: Some(pattern), .. } => ClauseTest::Regex(pattern),
        _ => return None,
    };
    snapshot::clause(attribute, test, field)
}

/// The path of the mapping that has a field, from the path of the field.
fn spec_parent<'p>(path: &'p str, name: &str) -> Option<&'p str> {
    path.strip_suffix(name)?.strip_suffix('.')
}

/// Entries of descriptors that set attributes of other names, with the prefixes of these attributes.
const CONVERTED: [(&str, &[&str]); 3] = [
    ("remote_address", &["source.ip", "origin.ip"]),
    ("destination_cluster", &["destination.service.", "envoy.upstream.cluster"]),
    ("source_cluster", &["envoy.source_cluster"]),
];

/// Why a dimension that depends on these attributes only is the same for every descriptor: a descriptor sets `ratelimit.*`, entries
/// that are named like an attribute, and what is mapped from them.
pub(super) fn constant_dimension(
    config: &EnvoyConfig,
    quota: &str,
    attributes: &[&str],
) -> Option<ConstantDimension> {
    let mut selectors = config.quotas.iter().filter(|selector| selector.quota.eq_ignore_ascii_case(quota));
    let selector =
        selectors.find(|selector| !attributes.iter().any(|name| is_set(config, selector, name)))?;
    let known =
        |key: &&(String, Wildcard)| attributes.iter().any(|name| name.rsplit('.').next() == Some(&key.0));
    let entry = selector.entries.iter().find(known).or(selector.entries.first());
    let key = entry.map_or("KEY", |(key, _)| key);
    let name = attributes.first().copied().unwrap_or_default();
    let hint = format!("write `ratelimit.descriptor[{key:?}]`, or send a descriptor entry named `{name}`");
    Some(ConstantDimension { requests: "calls of Envoy's rate limit service", hint })
}

/// The warnings about tests for the empty text, as a template leaves them that was not filled in: nearly no request passes them.
pub(super) fn empty_tests(rule: &QuotaRule, field: &FieldPath) -> Vec<Diagnostic> {
    let mut out = Vec::new();
    for (index, clause) in rule.matches.iter().enumerate() {
        let empty = clause.clause.iter().filter(|(_, test)| test.exact.as_deref() == Some(""));
        out.extend(empty.map(|(name, _)| {
            let field = field.field("match").index(index).field("clause").key(name);
            let text = format!(
                "nothing is charged unless `{name}` is there and empty: an absent attribute passes no test"
            );
            Diagnostic::warning("clause-empty", field, text)
                .with_hint("write the value that is meant, or leave the test out")
        }));
    }
    out
}

/// The error of a selector whose domain no call has.
pub(super) fn domain(name: &str, field: FieldPath) -> Option<Diagnostic> {
    let (text, hint) = match name {
        "" => (
            "the domain is empty: no call has it".to_owned(),
            "write `\"*\"` for every domain, or leave the field out",
        ),
        _ if name != "*" && name.contains('*') => (
            format!("no call has the domain `{name}`: only `*` alone stands for others"),
            "write the `domain` of the rate limit filter of Envoy, or `\"*\"` for every domain",
        ),
        _ => return None,
    };
    Some(Diagnostic::error("envoy-setting", field, text).with_hint(hint))
}

/// Most values of one file of limits that are reported.
const MAX_EXPRESSIONS: usize = 16;

/// The warnings about values of a file of limits that are written as regular expressions, and about limits that refuse every request.
pub(super) fn expressions(configs: &[DescriptorConfig], path: &FieldPath) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let mut waiting: Vec<(&DescriptorConfig, FieldPath)> =
        configs.iter().enumerate().rev().map(|(index, config)| (config, path.index(index))).collect();
    while let Some((config, path)) = waiting.pop() {
        found.extend(expression(&config.value, path.field("value")));
        found.extend(zero(config, &path));
        if found.len() >= MAX_EXPRESSIONS {
            break;
        }
        let below = path.field("descriptors");
        let nested = config.descriptors.iter().enumerate().rev();
        waiting.extend(nested.map(|(index, config)| (config, below.index(index))));
    }
    found
}

/// The warning about a limit without a number of requests, which is 0 then.
fn zero(config: &DescriptorConfig, path: &FieldPath) -> Option<Diagnostic> {
    let limit = config.rate_limit.as_ref()?;
    if limit.unlimited || limit.requests_per_unit.is_some() {
        return None;
    }
    let text = "a limit without `requests_per_unit` refuses every request";
    let problem = Diagnostic::warning("ratelimit-zero", path.field("rate_limit"), text);
    Some(problem.with_hint("write `requests_per_unit`, also if it is to be 0"))
}

/// The warning about the value of an entry of descriptors that is written as a regular expression: only `*` stands for others, so that hardly
/// any descriptor has it.
pub(super) fn expression(value: &str, field: FieldPath) -> Option<Diagnostic> {
    if !mark::is_regex(value) {
        return text(value, field);
    }
    let text = format!(
        "`{value}` is taken literally but for `*`, which stands for any text: it is no regular expression"
    );
    let meant = value.trim_start_matches('^').trim_end_matches('$').replace(".*", "*").replace(".+", "*");
    let hint = match meant.contains(['^', '$', '\\', '[', ']', '(', ')', '{', '}', '+', '?', '|']) {
        false => format!("write `\"{meant}\"`"),
        true => "write each value, with `*` for any text".to_owned(),
    };
    Some(Diagnostic::warning("entry-expression", field, text).with_hint(hint))
}

/// The warning about the value of an entry that is compared as the text that it is, and probably means something else: a network, or a text
/// without the blanks at its ends.
fn text(value: &str, field: FieldPath) -> Option<Diagnostic> {
    let (text, hint) = if value.contains('/') && mark::is_network(value.as_bytes()) {
        let text =
            format!("`{value}` is compared as a text, and stands for no network: no address is equal to it");
        (text, "write each address, or its beginning with `*`, as in `\"10.1.*\"`".to_owned())
    } else {
        let mark = Mark::unseen(value.as_bytes())?;
        let hint = match &*mark.meant(value) {
            [meant] => format!("write `{meant:?}`"),
            _ => "write the value alone".to_owned(),
        };
        (format!("`{value}`: {}", mark.text("value")), hint)
    };
    Some(Diagnostic::warning("entry-text", field, text).with_hint(hint))
}

/// The warning about a selector that never counts, because an earlier one takes all of its descriptors.
pub(super) fn shadowed(
    selector: &QuotaSelector,
    earlier: &[QuotaSelector],
    field: FieldPath,
) -> Option<Diagnostic> {
    let covers = |first: &&QuotaSelector| {
        let has = |(key, pattern): &(String, Wildcard)| {
            selector.entries.iter().any(|(other, value)| other == key && pattern.covers(value))
        };
        (first.domain == "*" || first.domain == selector.domain) && first.entries.iter().all(has)
    };
    let first = earlier.iter().find(covers)?;
    let text = format!(
        "no descriptor is charged to `{}` here: an earlier entry takes all of them for `{}` ({})",
        selector.quota, first.quota, first.written.place
    );
    let hint = "the first entry that matches counts: write the special ones before the general ones";
    Some(Diagnostic::warning("quota-selector-shadowed", field, text).with_hint(hint))
}

/// The protocol that every descriptor has.
const DESCRIPTOR_PROTOCOL: &str = "ratelimit";

/// What the descriptors that are charged to a quota have of an attribute; checks have any. The entries of a selector are those that a
/// descriptor must have; it may have others.
pub(super) fn charged_attribute<'c>(
    config: &'c EnvoyConfig,
    quota: &QuotaReference,
    name: &str,
) -> ChargedAttribute<'c> {
    let Some(selector) = quota.selector.and_then(|number| config.quotas.get(number)) else {
        return ChargedAttribute::Any;
    };
    let namespace = &*config.settings.default_namespace;
    let selects = name == "destination.namespace";
    if is_set(config, selector, name) || (selects && quota.namespaces == QuotaNamespaces::Any) {
        return ChargedAttribute::Any;
    }
    // Other entries than those of the selector set these, and the certificate of the caller its name.
    let mut converted = CONVERTED.iter().flat_map(|(_, prefixes)| *prefixes);
    if name == CALLER_PRINCIPAL || converted.any(|prefix| name.starts_with(prefix)) {
        return ChargedAttribute::Any;
    }
    // A mapping sets its default for what it does not find in a descriptor.
    let has_default = |mapping: &CompiledMapping| *mapping.attribute == *name && mapping.default.is_some();
    if config.mappings.iter().any(has_default) {
        return ChargedAttribute::Any;
    }
    match name {
        "context.protocol" => ChargedAttribute::Text(DESCRIPTOR_PROTOCOL),
        _ if selects && !namespace.is_empty() => ChargedAttribute::Text(namespace),
        _ if selects || is_map(name) => ChargedAttribute::Absent,
        _ => ChargedAttribute::Unnamed,
    }
}

/// Whether an attribute is a map, which no entry of a descriptor sets: its value is a text.
fn is_map(name: &str) -> bool {
    known_types().iter().any(|(known, value_type)| *known == name && *value_type == ValueType::StringMap)
}

/// What checks lack unless Envoy sends bodies.
pub(super) fn incomplete(config: &EnvoyConfig, name: &str) -> Option<IncompleteAttribute> {
    if config.settings.check.include_body || is_set_by_configuration(config, name) {
        return None;
    }
    let (why, hint) = match name {
        "request.body.text" | "request.body.raw" | "request.body.partial" => (
            "a check of Envoy does not have it, because `check.includeBody` of the envoybridge is not set",
            "write `check: {includeBody: true}` in the envoybridge, and `with_request_body` in ext_authz of Envoy",
        ),
        // Clients of Mixer's API send it.
        "request.size" if config.is_configured => (
            "Envoy sends the bytes that it has received before the check, usually none of the body",
            "have Envoy receive the body first: `with_request_body` in ext_authz, and `check: {includeBody: true}` in the envoybridge",
        ),
        _ => return None,
    };
    Some(IncompleteAttribute { code: "body-not-included", why, hint })
}

/// That checks lack an attribute of a manifest, unless Envoy is configured to send it by its name.
pub(super) fn unmapped(
    config: &EnvoyConfig,
    name: &str,
    value_type: ValueType,
) -> Option<IncompleteAttribute> {
    // A namespace of metadata is a map of its name.
    let may_be_metadata = value_type == ValueType::StringMap && !is_standard(name.as_bytes());
    let is_forwarded = config.settings.check.trust_forwarded_attributes;
    if !config.has_checks || is_forwarded || may_be_metadata || is_set_by_configuration(config, name) {
        return None;
    }
    Some(IncompleteAttribute {
        code: "attribute-unmapped",
        why: "no mapping and no generator sets it, and requests of Envoy lack it unless a context extension has its name",
        hint: "map it in an attributemapping, with `from: {extension: NAME}` if a context extension sets it",
    })
}

/// Whether a mapping or a constant sets an attribute of checks.
fn is_set_by_configuration(config: &EnvoyConfig, name: &str) -> bool {
    config.mappings.iter().any(|mapping| *mapping.attribute == *name)
        || config.settings.check.static_attributes.contains_key(name)
}

/// Whether the descriptors that a selector takes may set an attribute.
fn is_set(config: &EnvoyConfig, selector: &QuotaSelector, name: &str) -> bool {
    let may_have =
        |entry: &str| selector.entries.is_empty() || selector.entries.iter().any(|(key, _)| key == entry);
    let is_mapped = config
        .mappings
        .iter()
        .any(|mapping| *mapping.attribute == *name && matches!(mapping.source, MappedFrom::Extension(_)));
    name.starts_with("ratelimit.")
        || is_mapped
        || selector.entries.iter().any(|(key, _)| key == name)
        || CONVERTED.iter().any(|(entry, prefixes)| {
            may_have(entry) && prefixes.iter().any(|prefix| name.starts_with(prefix))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_are_written_as_expressions_are_told_with_a_cure() {
        let found = |value: &str| {
            expression(value, FieldPath::root()).map(|found| found.hint.clone().unwrap_or_default())
        };
        let each = "write each value, with `*` for any text";
        for (value, hint) in [
            (".*", "write `\"*\"`"),
            (".+", "write `\"*\"`"),
            ("^.*$", "write `\"*\"`"),
            ("^shop", "write `\"shop\"`"),
            ("/api/.*", "write `\"/api/*\"`"),
            ("^a|b$", each),
            ("[a-z]+", each),
            ("user-\\d+", each),
            ("(?i)bot", each),
        ] {
            assert_eq!(found(value).as_deref(), Some(hint), "{value}");
        }
        let text = |value: &str| expression(value, FieldPath::root()).map(|found| found.code);
        for value in ["10.0.0.0/8", "eve ", " eve", "2001:db8::/32"] {
            assert_eq!(text(value), Some("entry-text"), "{value}");
        }
        for value in [
            "",
            "*",
            "10.1.2.3",
            "/8",
            "a*",
            "*.example.com",
            "v1.*",
            "a.b.*",
            "1.2.3.4",
            "*.*",
            "[::1]",
            "a b",
            "/.well-known/*",
        ] {
            assert_eq!(found(value), None, "{value}");
        }
    }
}
