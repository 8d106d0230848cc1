//! What clients of Mixer are configured with: attributes of API calls, quotas, and the services they are for.

use mixer_base::quote::quoted;

use super::checker::Checker;
use super::code;
use super::text;
use crate::messages::istio::mixer::v1::Attributes;
use crate::messages::istio::mixer::v1::attributes::attribute_value::Value;
use crate::messages::istio::mixer::v1::config::client::api_key::Key;
use crate::messages::istio::mixer::v1::config::client::httpapi_spec_pattern::Pattern;
use crate::messages::istio::mixer::v1::config::client::string_match::MatchType;
use crate::messages::istio::mixer::v1::config::client::{
    HttpapiSpec, HttpapiSpecBinding, IstioService, QuotaRule, QuotaSpec, QuotaSpecBinding,
};
use crate::place::Place;

pub(super) fn check_api_spec(spec: &HttpapiSpec, body: &Place<'_>, checker: &mut Checker<'_>) {
    let attributes = body.field("attributes");
    if let Some(given) = &spec.attributes {
        check_attributes(Some(given), &attributes, checker);
    }
    let patterns = body.field("patterns");
    if spec.patterns.is_empty() {
        checker.listed(code::MISSING, &patterns, "at least one pattern must be specified");
    }
    for (index, pattern) in spec.patterns.iter().enumerate() {
        let at = patterns.index(index);
        // compat(1.3): the attributes of the whole specification are checked again with every pattern, and needed there.
        check_attributes(spec.attributes.as_ref(), &attributes, checker);
        if pattern.http_method.is_empty() {
            checker.listed(code::MISSING, &at.field("httpMethod"), "http_method cannot be empty");
        }
        match &pattern.pattern {
            Some(Pattern::UriTemplate(template)) if template.is_empty() => {
                checker.listed(code::MISSING, &at.field("uriTemplate"), "uri_template cannot be empty");
            }
            Some(Pattern::Regex(regex)) if regex.is_empty() => {
                checker.listed(code::MISSING, &at.field("regex"), "regex cannot be empty");
            }
            _ => {}
        }
    }
    let keys = body.field("apiKeys");
    for (index, key) in spec.api_keys.iter().enumerate() {
        let (field, value) = match &key.key {
            Some(Key::Query(value)) => ("query", value),
            Some(Key::Header(value)) => ("header", value),
            Some(Key::Cookie(value)) => ("cookie", value),
            None => continue,
        };
        if value.is_empty() {
            let text = format!("{field} cannot be empty");
            checker.listed(code::MISSING, &keys.index(index).field(field), text);
        }
    }
}

fn check_attributes(attributes: Option<&Attributes>, at: &Place<'_>, checker: &mut Checker<'_>) {
    let attributes = match attributes {
        Some(Attributes { attributes }) if !attributes.is_empty() => attributes,
        _ => return checker.listed(code::MISSING, at, "list of attributes is nil/empty"),
    };
    let list = at.field("attributes");
    for (name, attribute) in attributes {
        let at = list.key(name);
        let shown = quoted(name);
        if checker.is_null_entry(&at) {
            checker.listed(code::MISSING, &at, "an attribute cannot be empty");
            continue;
        }
        let text = match &attribute.value {
            Some(Value::StringValue(text)) if text.is_empty() => {
                format!("string attribute for {shown} should not be empty")
            }
            Some(Value::BytesValue(bytes)) if bytes.is_empty() => {
                format!("bytes attribute for {shown} should not be ")
            }
            Some(Value::StringMapValue(map))
                if map.entries.is_empty()
                    && !checker.is_given(&at.field("stringMapValue").field("entries")) =>
            {
                format!("stringmap attribute for {shown} should not be nil")
            }
            Some(Value::DurationValue(duration)) => {
                checker.is_list = true;
                checker.duration(&at.field("durationValue"), duration);
                continue;
            }
            _ => continue,
        };
        checker.listed(code::VALUE, &at, text);
    }
}

pub(super) fn check_api_binding(binding: &HttpapiSpecBinding, body: &Place<'_>, checker: &mut Checker<'_>) {
    let specs = binding.api_specs.iter().map(|spec| (spec.name.as_str(), spec.namespace.as_str()));
    let specs = References { field: "apiSpecs", kind: "HTTPAPISpecReference", names: specs.collect() };
    check_binding(&binding.services, &specs, body, checker);
}

pub(super) fn check_quota_binding(binding: &QuotaSpecBinding, body: &Place<'_>, checker: &mut Checker<'_>) {
    let specs = binding.quota_specs.iter().map(|spec| (spec.name.as_str(), spec.namespace.as_str()));
    let specs = References { field: "quotaSpecs", kind: "QuotaSpecReference", names: specs.collect() };
    check_binding(&binding.services, &specs, body, checker);
}

/// References to specifications, with their namespaces.
struct References<'r> {
    field: &'static str,
    kind: &'static str,
    names: Vec<(&'r str, &'r str)>,
}

fn check_binding(
    services: &[IstioService],
    specs: &References<'_>,
    body: &Place<'_>,
    checker: &mut Checker<'_>,
) {
    let list = body.field("services");
    if services.is_empty() {
        checker.listed(code::MISSING, &list, "at least one service must be specified");
    }
    for (index, service) in services.iter().enumerate() {
        check_service(service, &list.index(index), checker);
    }
    let list = body.field(specs.field);
    if specs.names.is_empty() {
        checker.listed(code::MISSING, &list, "at least one spec must be specified");
    }
    for (index, (name, namespace)) in specs.names.iter().enumerate() {
        let at = list.index(index);
        if name.is_empty() {
            checker.listed(code::MISSING, &at, format!("name is mandatory for {}", specs.kind));
        }
        check_namespace(namespace, &at, checker);
    }
}

fn check_namespace(namespace: &str, at: &Place<'_>, checker: &mut Checker<'_>) {
    if !namespace.is_empty() && !text::is_label(namespace) {
        let text = format!("namespace {} must be a valid label", quoted(namespace));
        checker.listed(code::NAME, &at.field("namespace"), text);
    }
}

fn check_service(service: &IstioService, at: &Place<'_>, checker: &mut Checker<'_>) {
    let IstioService { name, namespace, domain, service, labels } = service;
    match (name.is_empty(), service.is_empty()) {
        (true, true) => {
            checker.listed(code::MISSING, at, "name or service is mandatory for a service reference");
        }
        (false, false) => checker.listed(code::CONFLICT, at, "specify either name or service, not both"),
        (true, false) => {
            for (field, value) in [("namespace", namespace), ("domain", domain)] {
                if !value.is_empty() {
                    let text = format!("{field} is not valid when service is provided");
                    checker.listed(code::CONFLICT, &at.field(field), text);
                }
            }
        }
        (false, true) if !text::is_label(name) => {
            let text = format!("name {} must be a valid label", quoted(name));
            checker.listed(code::NAME, &at.field("name"), text);
        }
        (false, true) => {}
    }
    check_namespace(namespace, at, checker);
    if !domain.is_empty()
        && let Err(text) = text::domain(domain)
    {
        checker.listed(code::HOST, &at.field("domain"), text);
    }
    checker.labels(&at.field("labels"), labels);
}

pub(super) fn check_quota_spec(spec: &QuotaSpec, body: &Place<'_>, checker: &mut Checker<'_>) {
    let rules = body.field("rules");
    if spec.rules.is_empty() {
        checker.listed(code::MISSING, &rules, "a least one rule must be specified");
    }
    for (index, rule) in spec.rules.iter().enumerate() {
        check_quota_rule(rule, &rules.index(index), checker);
    }
}

fn check_quota_rule(rule: &QuotaRule, at: &Place<'_>, checker: &mut Checker<'_>) {
    let matches = at.field("match");
    for (index, condition) in rule.r#match.iter().enumerate() {
        let at = matches.index(index);
        let clauses = at.field("clause");
        for (name, clause) in &condition.clause {
            let at = clauses.key(name);
            if checker.is_null_entry(&at) {
                checker.listed(code::MISSING, &at, "a clause cannot be empty");
                continue;
            }
            let (kind, text) = match &clause.match_type {
                Some(MatchType::Exact(text)) => ("Exact", text),
                Some(MatchType::Prefix(text)) => ("Prefix", text),
                Some(MatchType::Regex(text)) => ("Regex", text),
                None => continue,
            };
            if text.is_empty() {
                let text = format!("StringMatch_{kind} for attribute {} cannot be empty", quoted(name));
                checker.listed(code::MISSING, &at, text);
            }
        }
    }
    let quotas = at.field("quotas");
    if rule.quotas.is_empty() {
        checker.listed(code::MISSING, &quotas, "a least one quota must be specified");
    }
    for (index, quota) in rule.quotas.iter().enumerate() {
        let at = quotas.index(index);
        if quota.quota.is_empty() {
            checker.listed(code::MISSING, &at.field("quota"), "quota name cannot be empty");
        }
        if quota.charge <= 0 {
            checker.listed(code::VALUE, &at.field("charge"), "quota charge amount must be positive");
        }
    }
}
