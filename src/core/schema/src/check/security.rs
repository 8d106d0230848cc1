//! Authorization and authentication of workloads, as Istio 1.5 has them.

use mixer_base::quote::quoted;

use super::Subject;
use super::authentication::jwks_uri;
use super::checker::Checker;
use super::code;
use super::text;
use crate::messages::istio::security::v1beta1::authorization_policy::Action;
use crate::messages::istio::security::v1beta1::{
    AuthorizationPolicy, JwtRule, Operation, PeerAuthentication, RequestAuthentication, Rule, Source,
};
use crate::messages::istio::r#type::v1beta1::WorkloadSelector;
use crate::place::Place;

fn check_selector(selector: Option<&WorkloadSelector>, body: &Place<'_>, checker: &mut Checker<'_>) {
    let Some(selector) = selector else { return };
    let at = body.field("selector");
    let at = at.field("matchLabels");
    for (key, value) in &selector.match_labels {
        let shown = format!("{key}={value}");
        if key.is_empty() {
            let text = format!("empty key is not supported in selector: {}", quoted(&shown));
            checker.problem(code::LABELS, &at.key(key), text);
        }
        if shown.contains('*') {
            let text = format!("wildcard is not supported in selector: {}", quoted(&shown));
            checker.problem(code::LABELS, &at.key(key), text);
        }
    }
}

pub(super) fn check_authorization(
    policy: &AuthorizationPolicy,
    subject: &Subject<'_>,
    body: &Place<'_>,
    checker: &mut Checker<'_>,
) {
    let before = checker.problems.len();
    check_selector(policy.selector.as_ref(), body, checker);
    if checker.problems.len() > before {
        return;
    }
    let rules = body.field("rules");
    if policy.action == Action::Deny as i32 && !checker.is_given(&rules) {
        let text = format!(
            "a deny policy without `rules` is meaningless and has no effect, found in {}.{}",
            subject.name, subject.namespace
        );
        return checker.problem(code::MISSING, body, text);
    }
    for (index, rule) in policy.rules.iter().enumerate() {
        check_rule(rule, index, subject, &rules.index(index), checker);
    }
}

fn check_rule(rule: &Rule, number: usize, subject: &Subject<'_>, at: &Place<'_>, checker: &mut Checker<'_>) {
    let found = format!("found at rule {number} in {}.{}", subject.name, subject.namespace);
    for (field, is_empty) in
        [("from", rule.from.is_empty()), ("to", rule.to.is_empty()), ("when", rule.when.is_empty())]
    {
        let at = at.field(field);
        if is_empty && checker.is_given(&at) {
            checker.problem(code::MISSING, &at, format!("`{field}` cannot be empty, {found}"));
        }
    }
    let from = at.field("from");
    for (index, source) in rule.from.iter().enumerate() {
        let at = from.index(index);
        match &source.source {
            None => checker.problem(code::MISSING, &at, format!("`from.source` cannot be nil, {found}")),
            Some(source) => {
                check_lists(&source_lists(source), "from.source", &found, &at.field("source"), checker)
            }
        }
    }
    let to = at.field("to");
    for (index, operation) in rule.to.iter().enumerate() {
        let at = to.index(index);
        match &operation.operation {
            None => checker.problem(code::MISSING, &at, format!("`to.operation` cannot be nil, {found}")),
            Some(operation) => {
                check_lists(
                    &operation_lists(operation),
                    "to.operation",
                    &found,
                    &at.field("operation"),
                    checker,
                );
            }
        }
    }
    let when = at.field("when");
    for (index, condition) in rule.when.iter().enumerate() {
        let at = when.index(index);
        if condition.key.is_empty() {
            checker.problem(code::MISSING, &at, format!("`key` cannot be empty, {found}"));
        }
        if condition.values.is_empty() && condition.not_values.is_empty() {
            let text = format!(
                "at least one of `values` or `not_values` must be set for key {}, {found}",
                condition.key
            );
            checker.problem(code::MISSING, &at, text);
        }
    }
}

type Lists<'l> = [(&'static str, &'l [String]); 8];

fn source_lists(source: &Source) -> Lists<'_> {
    [
        ("principals", &source.principals),
        ("requestPrincipals", &source.request_principals),
        ("namespaces", &source.namespaces),
        ("ipBlocks", &source.ip_blocks),
        ("notPrincipals", &source.not_principals),
        ("notRequestPrincipals", &source.not_request_principals),
        ("notNamespaces", &source.not_namespaces),
        ("notIpBlocks", &source.not_ip_blocks),
    ]
}

fn operation_lists(operation: &Operation) -> Lists<'_> {
    [
        ("hosts", &operation.hosts),
        ("ports", &operation.ports),
        ("methods", &operation.methods),
        ("paths", &operation.paths),
        ("notHosts", &operation.not_hosts),
        ("notPorts", &operation.not_ports),
        ("notMethods", &operation.not_methods),
        ("notPaths", &operation.not_paths),
    ]
}

/// Lists of which one at least has entries, and whose entries are not empty.
fn check_lists(lists: &Lists<'_>, what: &str, found: &str, at: &Place<'_>, checker: &mut Checker<'_>) {
    if lists.iter().all(|(_, list)| list.is_empty()) {
        checker.problem(code::MISSING, at, format!("`{what}` must have at least one field, {found}"));
    }
    for (field, list) in lists {
        let list_at = at.field(field);
        for (index, entry) in list.iter().enumerate() {
            let at = list_at.index(index);
            if entry.is_empty() {
                checker.problem(
                    code::MISSING,
                    &at,
                    format!("`{what}.{field}` cannot have an empty value, {found}"),
                );
            } else if field.to_ascii_lowercase().ends_with("ipblocks") {
                let is_network = ipnet(entry);
                if !is_network {
                    let text =
                        format!("{} is neither an IP address nor a CIDR range, {found}", quoted(entry));
                    checker.problem(code::ADDRESS, &at, text);
                }
            } else if field.to_ascii_lowercase().ends_with("ports") {
                let is_port = entry.parse::<i64>().is_ok_and(|port| text::port(port).is_ok());
                if !is_port {
                    checker.problem(code::PORT, &at, format!("{} is no port, {found}", quoted(entry)));
                }
            }
        }
    }
}

/// Whether a text is an address or a network, of IPv4 or IPv6.
fn ipnet(text: &str) -> bool {
    match text.split_once('/') {
        None => text::is_ip(text),
        Some((address, bits)) => {
            let most = if address.contains(':') { 128 } else { 32 };
            text::is_ip(address) && bits.parse::<u32>().is_ok_and(|bits| bits <= most)
        }
    }
}

pub(super) fn check_request_authentication(
    policy: &RequestAuthentication,
    body: &Place<'_>,
    checker: &mut Checker<'_>,
) {
    check_selector(policy.selector.as_ref(), body, checker);
    let rules = body.field("jwtRules");
    for (index, rule) in policy.jwt_rules.iter().enumerate() {
        check_jwt_rule(rule, &rules.index(index), checker);
    }
}

fn check_jwt_rule(rule: &JwtRule, at: &Place<'_>, checker: &mut Checker<'_>) {
    if rule.issuer.is_empty() {
        checker.listed(code::MISSING, at, "issuer must be set");
    }
    let audiences = at.field("audiences");
    for (index, _) in rule.audiences.iter().enumerate().filter(|(_, audience)| audience.is_empty()) {
        checker.listed(code::MISSING, &audiences.index(index), "audience must be non-empty string");
    }
    if let Err(text) = jwks_uri(&rule.jwks_uri) {
        checker.listed(code::VALUE, &at.field("jwksUri"), text);
    }
    let headers = at.field("fromHeaders");
    for (index, _) in rule.from_headers.iter().enumerate().filter(|(_, header)| header.name.is_empty()) {
        let text = "location header name must be non-empty string";
        checker.listed(code::MISSING, &headers.index(index), text);
    }
    let params = at.field("fromParams");
    for (index, _) in rule.from_params.iter().enumerate().filter(|(_, param)| param.is_empty()) {
        checker.listed(code::MISSING, &params.index(index), "location query must be non-empty string");
    }
}

pub(super) fn check_peer_authentication(
    policy: &PeerAuthentication,
    body: &Place<'_>,
    checker: &mut Checker<'_>,
) {
    let ports = body.field("portLevelMtls");
    let is_of_workloads = policy.selector.as_ref().is_some_and(|selector| !selector.match_labels.is_empty());
    if !is_of_workloads && !policy.port_level_mtls.is_empty() {
        let text = "mesh/namespace peer authentication cannot have port level mTLS";
        checker.problem(code::CONFLICT, &ports, text);
    }
    if checker.is_given(&ports) && policy.port_level_mtls.is_empty() {
        let text = "port level mTLS, if defined, must have at least one element";
        checker.problem(code::MISSING, &ports, text);
    }
    if policy.port_level_mtls.contains_key(&0) {
        checker.problem(code::PORT, &ports.key("0"), "port cannot be 0");
    }
    check_selector(policy.selector.as_ref(), body, checker);
}
