//! What problems quote of secrets.

use std::borrow::Cow;

use super::field_path::Segment;
use super::{Diagnostic, Node, NodeKind};
use mixer_base::secrets::{
    is_address, is_name_of_pair, is_secret, is_value_of_pair, mask_address, mask_known, mask_text,
};

/// Values that are looked at below a field which is no secret itself.
const MAX_VALUES: usize = 256;
/// Shortest part of a secret that is masked where it stands alone, in bytes: an error of a parser quotes one word.
const MIN_PART: usize = 4;

/// What is secret of the values at and below the field of a problem.
#[derive(Default)]
struct Quotable {
    secrets: Vec<String>,
    /// Addresses, and as they may be shown.
    addresses: Vec<(String, String)>,
    /// Values that may still be looked at.
    left: usize,
}

/// Masks what a problem of a document repeats of the value of its field: all of it where the name of the field, or of one above, is that
/// of a secret, and what is secret of an address; and whatever is secret in any text. An error of a parser quotes words, so those of a
/// secret are masked, too.
pub fn without_secrets(mut problem: Diagnostic, document: &Node) -> Diagnostic {
    let mut found = Quotable { left: MAX_VALUES, ..Quotable::default() };
    found.follow(document, problem.field.segments(), Sort::Open);
    // A part of another one is masked after it.
    found.secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    // Istio Mixer's text stays: called by its name, the log has its words.
    let texts = [Some(&problem.message), problem.hint.as_ref()];
    let [message, hint] = texts.map(|text| text.and_then(|text| found.masked(text)));
    let expression = problem.expression.as_ref().and_then(|place| found.masked(&place.text));
    if let Some(message) = message {
        problem.message = message;
    }
    if hint.is_some() {
        problem.hint = hint;
    }
    if let (Some(text), Some(place)) = (expression, problem.expression.clone()) {
        problem.expression = Some(super::ExpressionPlace { text, ..place });
    }
    problem
}

/// What a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sort {
    Open,
    /// Where an attribute comes from: names.
    Source,
    Address,
    Secret,
}

impl Sort {
    /// That of the value of a key of a mapping, which is of this sort itself.
    fn below(self, key: &str, mapping: &Node) -> Self {
        let is_named = |entry: &super::MappingEntry| {
            is_name_of_pair(&entry.key) && entry.value.as_str().is_some_and(is_secret)
        };
        match self {
            Self::Secret => Self::Secret,
            Self::Source if key == "cookie" => Self::Open,
            _ if is_secret(key) => Self::Secret,
            _ if is_value_of_pair(key) && mapping.entries().iter().any(is_named) => Self::Secret,
            _ if is_address(key) => Self::Address,
            _ if key == "from" => Self::Source,
            _ => Self::Open,
        }
    }
}

impl Quotable {
    /// Looks at the value at a path. What is not there has no value.
    fn follow(&mut self, node: &Node, path: &[Segment], sort: Sort) {
        let Some((segment, rest)) = path.split_first() else { return self.add(node, sort) };
        match segment {
            Segment::Index(index) => {
                node.items().get(*index).into_iter().for_each(|item| self.follow(item, rest, sort));
            }
            Segment::Field(name) | Segment::Key(name) => {
                if let Some(entry) = node.field(name) {
                    self.follow(&entry.value, rest, sort.below(&entry.key, node));
                }
            }
        }
    }

    /// Adds what is secret of a value.
    fn add(&mut self, node: &Node, sort: Sort) {
        if sort != Sort::Secret {
            let Some(left) = self.left.checked_sub(1) else { return };
            self.left = left;
        }
        match &node.kind {
            NodeKind::Mapping(entries) => {
                entries.iter().for_each(|entry| self.add(&entry.value, sort.below(&entry.key, node)));
            }
            NodeKind::Sequence(items) => items.iter().for_each(|item| self.add(item, sort)),
            NodeKind::String(text) => self.add_text(text, sort),
            NodeKind::Int(number) => self.add_text(&number.to_string(), sort),
            NodeKind::Float(number) => self.add_text(&number.to_string(), sort),
            NodeKind::Null | NodeKind::Bool(_) => {}
        }
    }

    fn add_text(&mut self, text: &str, sort: Sort) {
        match sort {
            Sort::Secret if !text.is_empty() => {
                let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '$');
                self.add_secret(text, text.split(|c| !is_part(c)));
            }
            Sort::Address => {
                if let Cow::Owned(shown) = mask_address(text) {
                    self.addresses.push((text.to_owned(), shown));
                }
                let hidden = text.split([',', ' ']).filter_map(user_of);
                hidden.for_each(|user| self.add_secret(user, user.split(':')));
            }
            _ => {}
        }
    }

    /// Adds a text, as it is and as it is written in quotes, and parts of it.
    fn add_secret<'t>(&mut self, text: &'t str, parts: impl Iterator<Item = &'t str>) {
        let quoted = format!("{text:?}");
        let escaped = quoted.get(1..quoted.len() - 1).unwrap_or_default();
        self.secrets.extend([text, escaped].map(str::to_owned));
        self.secrets.extend(parts.filter(|part| part.len() >= MIN_PART).map(str::to_owned));
    }

    /// The text without secrets; `None` if it has none.
    fn masked(&self, text: &str) -> Option<String> {
        let mut masked = Cow::Borrowed(text);
        for (address, shown) in self.addresses.iter().filter(|(address, _)| text.contains(address.as_str())) {
            masked = masked.replace(address.as_str(), shown).into();
        }
        let masked = match self.secrets.is_empty() {
            true => mask_text(&masked).into_owned(),
            false => mask_known(&masked, &self.secrets),
        };
        (masked != text).then_some(masked)
    }
}

/// The user and password of an address, however it is malformed.
fn user_of(address: &str) -> Option<&str> {
    let after_scheme = address.split_once("://").map_or(address, |(_, rest)| rest);
    after_scheme.rsplit_once('@').map(|(user, _)| user).filter(|user| !user.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ExpressionPlace, FieldPath, yaml};
    use mixer_base::secrets::MASKED;

    /// What is told of a problem, in one line.
    fn told(document: &str, field: &str, message: &str) -> String {
        let document = yaml::parse(document).unwrap().root;
        let problem =
            Diagnostic::error("x", FieldPath::parse(field), message).with_legacy(message).with_hint(message);
        let problem = without_secrets(problem, &document);
        assert_eq!(problem.legacy.as_deref(), Some(&*mask_text(message)), "the words of Istio Mixer");
        assert_eq!(problem.hint.as_deref(), Some(&*problem.message));
        problem.message.clone()
    }

    #[test]
    fn nothing_of_a_secret_is_quoted() {
        for (document, field, message, expected) in [
            (
                "{spec: {apiKey: sk-live hunter2}}",
                "spec.apiKey",
                "`sk-live hunter2`: unexpected hunter2",
                "`***`: unexpected ***",
            ),
            (
                "{spec: {api_key: hunter2}}",
                "spec.apiKey",
                "unknown attribute hunter2",
                "unknown attribute ***",
            ),
            (
                "{spec: {accessToken: 12345}}",
                "spec.accessToken",
                "expected text, found the number 12345",
                "expected text, found the number ***",
            ),
            ("{spec: {credentials: {user: alice}}}", "spec.credentials.user", "who is alice?", "who is ***?"),
            ("{spec: {credentials: {user: alice}}}", "spec", "who is alice?", "who is ***?"),
            (
                "{spec: {headers: [{name: authorization, value: abcdef}]}}",
                "spec.headers[0].value",
                "bad abcdef",
                "bad ***",
            ),
            ("{spec: {password: \"a\\tbcd\"}}", "spec.password", "bad \"a\\tbcd\"", "bad \"***\""),
            ("{spec: {name: hunter2}}", "spec.name", "bad hunter2", "bad hunter2"),
            (
                "{spec: {from: {cookie: user}}}",
                "spec.from",
                "mapped from cookie user",
                "mapped from cookie user",
            ),
            ("{spec: {headers: {cookie: user}}}", "spec.headers", "mapped from user", "mapped from ***"),
            ("{spec: {apiKey: hunter2}}", "spec.name", "bad hunter2", "bad hunter2"),
            ("{spec: {apiKey: hunter2}}", "spec.apiKey.x", "no field `apiKey`", "no field `apiKey`"),
        ] {
            assert_eq!(told(document, field, message), expected, "{document}");
        }
    }

    #[test]
    fn nobody_is_told_the_users_of_addresses() {
        for address in [
            "redis://user:hunter2@host:port:port",
            "https://user:hunter2@[bad",
            "user:hunter2@host",
            "redis://user:hun/ter2@host",
            "redis://a:1,redis://user:hunter2@b",
            "https://host/?k=hunter2",
        ] {
            let document = format!("spec: {{redisServerUrl: '{address}'}}");
            let message = format!("`{address}` is no address: invalid port after {address:?}");
            let shown = told(&document, "spec.redisServerUrl", &message);
            assert!(
                !shown.contains("hun") && !shown.contains("ter2") && shown.contains("is no address"),
                "{shown}"
            );
        }
        let open = "`redis://host:port:port` is no address";
        assert_eq!(told("spec: {url: 'redis://host:port:port'}", "spec.url", open), open);
    }

    #[test]
    fn an_expression_keeps_its_place_alone() {
        let document = yaml::parse("{spec: {apiKey: a b}}").unwrap().root;
        let mut problem = Diagnostic::error("x", FieldPath::parse("spec.apiKey"), "m");
        problem.expression = Some(ExpressionPlace { text: "a b".to_owned(), column: 3, line: 1 });
        let place = without_secrets(problem, &document).expression.clone().unwrap();
        assert_eq!((place.text.as_str(), place.column), (MASKED, 3));
    }
}
