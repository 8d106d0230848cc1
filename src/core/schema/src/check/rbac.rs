//! Roles, bindings of roles, and where access control is on.

use mixer_base::quote::quoted;

use super::Subject;
use super::checker::Checker;
use super::code;
use super::text;
use crate::messages::istio::rbac::v1alpha1::rbac_config::Mode;
use crate::messages::istio::rbac::v1alpha1::{
    AccessRule, RbacConfig, ServiceRole, ServiceRoleBinding, Subject as BindingSubject,
};
use crate::place::Place;

/// The only kind of role.
const SERVICE_ROLE: &str = "ServiceRole";
/// The attribute of the port of a request.
const DESTINATION_PORT: &str = "destination.port";

pub(super) fn check_role(role: &ServiceRole, body: &Place<'_>, checker: &mut Checker<'_>) {
    check_rules(&role.rules, &body.field("rules"), checker);
}

fn check_rules(rules: &[AccessRule], list: &Place<'_>, checker: &mut Checker<'_>) {
    if rules.is_empty() {
        checker.problem(code::MISSING, list, "at least 1 rule must be specified");
    }
    for (index, rule) in rules.iter().enumerate() {
        check_rule(rule, index, &list.index(index), checker);
    }
}

fn check_rule(rule: &AccessRule, number: usize, at: &Place<'_>, checker: &mut Checker<'_>) {
    let both = [
        (!rule.methods.is_empty() && !rule.not_methods.is_empty(), "methods and not_methods"),
        (!rule.ports.is_empty() && !rule.not_ports.is_empty(), "ports and not_ports"),
    ];
    for (is_both, what) in both {
        if is_both {
            let text = format!(
                "cannot have both regular and *not* attributes for the same kind (i.e. {what}) for rule {number}"
            );
            checker.problem(code::CONFLICT, at, text);
        }
    }
    let mut ports = rule.ports.iter().chain(&rule.not_ports);
    if ports.any(|port| text::port(i64::from(*port)).is_err()) {
        checker.problem(code::PORT, at, "at least one port is not in the range of [0, 65535]");
    }
    let constraints = at.field("constraints");
    for (index, constraint) in rule.constraints.iter().enumerate() {
        let at = constraints.index(index);
        if constraint.key.is_empty() {
            let text = format!("key cannot be empty for constraint {index} in rule {number}");
            checker.problem(code::MISSING, &at, text);
        }
        if constraint.values.is_empty() {
            let text = format!("at least 1 value must be specified for constraint {index} in rule {number}");
            checker.problem(code::MISSING, &at, text);
        }
        let has_ports = !rule.ports.is_empty() || !rule.not_ports.is_empty();
        if constraint.key == DESTINATION_PORT && has_ports {
            let text = format!(
                "cannot define {DESTINATION_PORT} for rule {number} because a similar first-class field has been defined"
            );
            checker.problem(code::CONFLICT, &at.field("key"), text);
        }
    }
}

pub(super) fn check_binding(binding: &ServiceRoleBinding, body: &Place<'_>, checker: &mut Checker<'_>) {
    let subjects = body.field("subjects");
    if binding.subjects.is_empty() {
        checker.problem(code::MISSING, &subjects, "at least 1 subject must be specified");
    }
    for (index, subject) in binding.subjects.iter().enumerate() {
        check_subject(subject, index, &subjects.index(index), checker);
    }
    let given = [binding.role_ref.is_some(), !binding.actions.is_empty(), !binding.role.is_empty()];
    if given.into_iter().filter(|is_given| *is_given).count() != 1 {
        let text = "exactly one of `roleRef`, `role`, or `actions` must be specified";
        checker.problem(code::CONFLICT, body, text);
    }
    if let Some(reference) = &binding.role_ref {
        let at = body.field("roleRef");
        if reference.kind != SERVICE_ROLE {
            let text = format!(
                "kind set to {}, currently the only supported value is \"{SERVICE_ROLE}\"",
                quoted(&reference.kind)
            );
            checker.problem(code::VALUE, &at.field("kind"), text);
        }
        if reference.name.is_empty() {
            checker.problem(code::MISSING, &at, "`name` in `roleRef` cannot be empty");
        }
    }
    if !binding.actions.is_empty() {
        check_rules(&binding.actions, &body.field("actions"), checker);
    }
    if binding.role == "/" {
        let text = "`role` cannot have an empty ServiceRole name";
        checker.problem(code::VALUE, &body.field("role"), text);
    }
}

fn check_subject(subject: &BindingSubject, number: usize, at: &Place<'_>, checker: &mut Checker<'_>) {
    let lists = [
        &subject.namespaces,
        &subject.not_namespaces,
        &subject.groups,
        &subject.not_groups,
        &subject.ips,
        &subject.not_ips,
        &subject.names,
        &subject.not_names,
    ];
    let is_empty = subject.user.is_empty()
        && subject.group.is_empty()
        && subject.properties.is_empty()
        && lists.into_iter().all(Vec::is_empty);
    if is_empty {
        let text = format!("empty subjects are not allowed. Found an empty subject at index {number}");
        checker.problem(code::MISSING, at, text);
    }
    let properties = at.field("properties");
    for key in subject.properties.keys() {
        let is_twice = match key.as_str() {
            "source.principal" => !subject.names.is_empty(),
            "request.auth.claims[groups]" => !subject.groups.is_empty(),
            "source.namespace" => !subject.namespaces.is_empty(),
            "source.ip" => !subject.ips.is_empty(),
            _ => false,
        };
        if is_twice {
            let text = format!(
                "cannot define {key} for binding {number} because a similar first-class field has been defined"
            );
            checker.problem(code::CONFLICT, &properties.key(key), text);
        }
    }
    if subject.names.iter().chain(&subject.not_names).any(|name| name == "*") {
        let text = format!("do not use * for names or not_names (in rule {number})");
        checker.problem(code::VALUE, at, text);
    }
}

/// Stops at the first problem.
pub(super) fn check_config(
    config: &RbacConfig,
    subject: &Subject<'_>,
    body: &Place<'_>,
    checker: &mut Checker<'_>,
) {
    let is = |mode: Mode| config.mode == mode as i32;
    if subject.name != "default" {
        let (kind, name) = (subject.kind.kind, subject.name);
        let text = format!("{kind} has invalid name({name}), name must be \"default\"");
        checker.name_problem(text, "rename it to `default`");
    } else if is(Mode::OnWithInclusion) && config.inclusion.is_none() {
        let text = "inclusion cannot be null (use 'inclusion: {}' for none)";
        checker.problem(code::MISSING, body, text);
    } else if is(Mode::OnWithExclusion) && config.exclusion.is_none() {
        let text = "exclusion cannot be null (use 'exclusion: {}' for none)";
        checker.problem(code::MISSING, body, text);
    }
}
