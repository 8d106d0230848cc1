//! Hints for type errors.

use super::function_names;
use crate::Scope;
use crate::literal::Constant;
use crate::others::{NETWORKS, is_contains, is_lookup, other_function};
use crate::term::{Callee, TermId, TermKind, Terms};
use mixer_attribute::ValueType;
use mixer_base::suggestion::{Case, near};

/// Minimum similarity of a suggestion, from 0 to 1.
const MIN_SIMILARITY: f64 = 0.8;

/// A hint that names the declared attribute nearest to `name`.
pub(crate) fn nearest_attribute(name: &str, scope: &dyn Scope) -> Option<String> {
    if let Some((map, key)) = map_and_key(name, scope) {
        return Some(format!("write {map}[\"{key}\"]"));
    }
    if is_null(name) {
        return Some("there is no null: write (attribute | \"\") == \"\" to test for what is absent".into());
    }
    if let Some((text, "length" | "size")) = name.rsplit_once('.')
        && scope.attribute(text).is_some()
    {
        return Some(format!("write size({text})"));
    }
    if let Some(elsewhere) = elsewhere(name).filter(|elsewhere| scope.attribute(elsewhere).is_some()) {
        return Some(format!("did you mean `{elsewhere}`?"));
    }
    let nearest = nearest(name, std::iter::once_with(|| scope.names()).flatten())?;
    Some(format!("did you mean `{nearest}`?"))
}

/// The attribute that is meant by a name whose letters are more like those of another.
fn elsewhere(name: &str) -> Option<&'static str> {
    Some(match name {
        "request.port" | "port" => "destination.port",
        "request.user" | "user" | "request.auth.user" => "source.user",
        "request.ip" | "client.ip" | "remote.ip" | "source.address" => "source.ip",
        "request.uri" | "request.fullpath" | "path" | "uri" => "request.path",
        "request.url" | "request.urlpath" | "url" => "request.url_path",
        "request.verb" | "request.http_method" | "method" | "verb" => "request.method",
        "request.status" | "response.status" | "response.status_code" | "status" | "code" => "response.code",
        "request.body" | "body" => "request.body.text",
        "request.hostname" | "request.authority" | "destination.host" | "host" => "request.host",
        "request.query" | "request.params" => "request.query_params",
        "request.header" | "headers" => "request.headers",
        "request.claims" | "request.auth.claim" | "jwt.claims" => "request.auth.claims",
        _ => return None,
    })
}

/// The function that converts a string to this type.
pub(super) fn conversion(value_type: ValueType) -> Option<&'static str> {
    match value_type {
        ValueType::IpAddress => Some("ip"),
        ValueType::Timestamp => Some("timestamp"),
        ValueType::DnsName => Some("dnsName"),
        ValueType::EmailAddress => Some("email"),
        ValueType::Uri => Some("uri"),
        _ => None,
    }
}

/// How a text is written where a value of another type is expected, if it converts.
pub(super) fn converted(text: &[u8], expected: ValueType, rendered: &str) -> Option<String> {
    let text = std::str::from_utf8(text).unwrap_or_default();
    match expected {
        ValueType::Bool if text.eq_ignore_ascii_case("true") || text.eq_ignore_ascii_case("false") => {
            Some(format!("write {}, without quotes", text.to_ascii_lowercase()))
        }
        ValueType::IpAddress if text.parse::<std::net::IpAddr>().is_err() => Some(NETWORKS.to_owned()),
        ValueType::Timestamp if !text.contains('T') => {
            let is_date = text.len() == 10 && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
            let date = if is_date { text } else { "2026-01-02" };
            Some(format!(
                "write timestamp(\"{date}T00:00:00Z\"): a time has a date, a time of day and a zone"
            ))
        }
        _ => conversion(expected).map(|function| format!("write {function}({rendered})")),
    }
}

/// The hint for a value of this type where a text is expected. `compares`: whether it is compared for equality.
pub(super) fn no_text(constant: Option<&Constant>, got: ValueType, compares: bool) -> Option<String> {
    match (constant, got) {
        (Some(Constant::Int64(number)), _) if compares => Some(format!("write \"{number}\", in quotes")),
        (Some(Constant::Bool(value)), _) if compares => Some(format!("write \"{value}\", in quotes")),
        (Some(Constant::Int64(_) | Constant::Double(_)), _) => {
            Some(
                "a text is no number, and no function makes one of it; of Envoy's requests an attributemapping sets an attribute of type INT64"
                    .to_owned(),
            )
        }
        (None, ValueType::IpAddress) => {
            Some(format!("an address is no text: compare it with ip(\"10.0.0.1\"); {NETWORKS}"))
        }
        _ => None,
    }
}

/// The hint for a function on a value that has none of this name: `contains` on a map or a network.
fn function_of(
    name: &str,
    target: Option<TermId>,
    arguments: &[TermId],
    terms: &Terms<'_>,
    scope: &dyn Scope,
) -> Option<String> {
    let target = terms.term(target?);
    match &target.kind {
        TermKind::Function { callee: Callee::Named(of), .. } => other_function(of).map(Into::into),
        TermKind::Variable(of) if is_lookup(name) => {
            let (_, value_type) = scope.attribute(of)?;
            let key = arguments.first().map_or("\"key\"", |key| terms.term(*key).span.of(terms.text()));
            (value_type == ValueType::StringMap).then(|| format!("write ({of}[{key}] | \"\")"))
        }
        TermKind::Variable(of) if is_contains(name) => {
            let (_, value_type) = scope.attribute(of)?;
            let key = arguments.first().map_or("\"key\"", |key| terms.term(*key).span.of(terms.text()));
            match value_type {
                ValueType::StringMap => Some(format!("write ({of}[{key}] | \"\") != \"\" to test for a key")),
                ValueType::IpAddress => Some(NETWORKS.to_owned()),
                _ => None,
            }
        }
        _ => None,
    }
}

/// The hint for an unknown function or operator.
pub(super) fn unknown_function(terms: &Terms<'_>, id: TermId, scope: &dyn Scope) -> Option<String> {
    let TermKind::Function { callee, arguments, target } = &terms.term(id).kind else { return None };
    if let Callee::Named(name) = callee
        && let Some(hint) = function_of(name, *target, arguments, terms, scope)
    {
        return Some(hint);
    }
    match (callee, arguments.as_slice()) {
        (Callee::Operator("NOT"), [operand]) => {
            let term = terms.term(*operand);
            let text = term.span.of(terms.text());
            let is_text = matches!(&term.kind, TermKind::Variable(name)
                if scope.attribute(name).is_some_and(|(_, value_type)| value_type == ValueType::String));
            Some(match is_text {
                true => format!("write ({text} | \"\") == \"\""),
                false => format!("write ({text}) == false"),
            })
        }
        (Callee::Operator("AND"), [_, _]) => Some("write && for a logical and".into()),
        (Callee::Operator("SUB"), [_, _]) => dashed_name(terms, id, scope),
        (Callee::Operator("SUB"), [_]) => Some("there are no negative numbers in this language".into()),
        (Callee::Operator("QUO" | "REM"), [_, _]) => {
            Some("there is no division: compare with bounds, a >= 500 && a < 600".into())
        }
        (Callee::Operator("MUL"), [_, _]) => {
            Some("there is no product: write all digits of the number".into())
        }
        (Callee::Operator(_), _) => None,
        (Callee::Named(name), _) if other_function(name).is_some() => other_function(name).map(Into::into),
        (Callee::Named(name), _) => nearest(name, function_names()).map(|n| format!("did you mean `{n}`?")),
    }
}

/// Whether a name is what other languages call a value that is not there.
fn is_null(name: &str) -> bool {
    matches!(name, "null" | "nil" | "undefined" | "None" | "NULL")
}

/// The hint for `a-b` if an attribute of that name is declared, which the classic language cannot reference, or if it is a key of a map.
fn dashed_name(terms: &Terms<'_>, id: TermId, scope: &dyn Scope) -> Option<String> {
    let source = terms.term(id).span.of(terms.text());
    if scope.attribute(source).is_some() {
        return Some(format!(
            "the attribute `{source}` cannot be named here: `-` is an operator; rename the attribute"
        ));
    }
    // What follows belongs to the name as well: a-b of a-b-c is checked first.
    let rest = terms.text().get(terms.term(id).span.start..)?;
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let name = rest.split(|c| !is_of_name(c)).next()?;
    let before = terms.text().get(..terms.term(id).span.start)?;
    if before.trim_end().ends_with('[') {
        return Some(format!("write [\"{name}\"]: a key is a text in quotes"));
    }
    if let Some((map, key)) = map_and_key(name, scope) {
        return Some(format!("write {map}[\"{key}\"]: `-` is an operator"));
    }
    let joined = [name.replace('-', ""), name.replace('-', "_")];
    let meant = joined.iter().find(|joined| name.contains('-') && scope.attribute(joined).is_some());
    meant.map(|meant| format!("did you mean `{meant}`? `-` is an operator"))
}

/// Splits `map.key` if `map` is a string map, where `map["key"]` is intended.
fn map_and_key<'n>(name: &'n str, scope: &dyn Scope) -> Option<(&'n str, &'n str)> {
    name.match_indices('.').rev().find_map(|(at, _)| {
        let (map, key) = (name.get(..at)?, name.get(at + 1..)?);
        let (_, value_type) = scope.attribute(map)?;
        (value_type == ValueType::StringMap).then_some((map, key))
    })
}

/// The candidate most similar to `name`, if it is at least [`MIN_SIMILARITY`].
fn nearest<'n>(name: &str, candidates: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let chars = name.chars().count();
    let longer = |others: usize| chars.max(others);
    // Rounded up: what is less similar is left out below.
    let limit = |others| (longer(others) as f64 * (1.0 - MIN_SIMILARITY)).ceil() as usize;
    let near = near(name, candidates, Case::Distinguished, limit).into_iter();
    let similarity =
        |distance: usize, candidate: &str| 1.0 - distance as f64 / longer(candidate.chars().count()) as f64;
    near.map(|(distance, candidate)| (similarity(distance, candidate), candidate))
        .filter(|(similarity, _)| *similarity >= MIN_SIMILARITY)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}
