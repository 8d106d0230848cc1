//! What problems quote of secrets.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::field_path::Segment;
use super::{Diagnostic, Node, NodeKind};
use mixer_base::secrets::{
    MASKED, is_address, is_name_of_pair, is_secret, is_value_of_pair, mask_address, mask_known, mask_text,
};

/// Values, and parts of secret ones, that are looked at below a field. A document that has more there is no one's that somebody wrote.
const MAX_LOOKED_AT: usize = 1 << 16;
/// Secrets and addresses that the texts of a problem repeat.
const MAX_REPEATED: usize = 256;
/// What is told of a problem of which it is not known what its texts repeat.
const UNTOLD: &str =
    "something is wrong that is not shown: its value has too many parts to tell which of them are secret";
/// Shortest part of a secret that is masked where it stands alone, in bytes: an error of a parser quotes one word.
const MIN_PART: usize = 4;

/// What the texts of a problem repeat of the values at and below its field, and is secret.
struct Quotable<'t> {
    texts: Vec<&'t str>,
    secrets: BTreeSet<String>,
    /// Addresses, and as they may be shown.
    addresses: BTreeMap<String, String>,
    /// Values that may still be looked at.
    left: usize,
    /// Whether something was not looked at, or had no room.
    is_cut: bool,
}

/// Masks what a problem of a document repeats of the value of its field: all of it where the name of the field, or of one above, is that
/// of a secret, and what is secret of an address; and whatever is secret in any text. An error of a parser quotes words, so those of a
/// secret are masked, too. Where there is more than can be looked at, nothing is repeated.
pub fn without_secrets(mut problem: Diagnostic, document: &Node) -> Diagnostic {
    // Istio Mixer's text stays: called by its name, the log has its words.
    let place = problem.expression.as_ref().map(|place| place.text.as_str());
    let texts = [Some(problem.message.as_str()), problem.hint.as_deref(), place];
    let mut found = Quotable::new(texts.into_iter().flatten().collect());
    found.follow(document, problem.field.segments(), Sort::Open);
    let is_cut = found.is_cut;
    let [message, hint, expression] = match is_cut {
        true => [Some(UNTOLD.to_owned()), None, place.map(|_| MASKED.to_owned())],
        false => {
            let secrets = found.by_length();
            texts.map(|text| text.and_then(|text| found.masked(text, &secrets)))
        }
    };
    if let Some(message) = message {
        problem.message = message;
    }
    if hint.is_some() || is_cut && problem.hint.is_some() {
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

impl<'t> Quotable<'t> {
    fn new(texts: Vec<&'t str>) -> Self {
        let (secrets, addresses) = (BTreeSet::new(), BTreeMap::new());
        Self { texts, secrets, addresses, left: MAX_LOOKED_AT, is_cut: false }
    }

    /// Whether one more value, or part of one, can be looked at.
    fn looks_at_one(&mut self) -> bool {
        match self.left.checked_sub(1) {
            Some(left) => self.left = left,
            None => self.is_cut = true,
        }
        !self.is_cut
    }

    /// Whether a text has it; one that is short, as the whole text, as [`mask_known`] masks it.
    fn is_repeated(&self, part: &str) -> bool {
        match part.len() < MIN_PART {
            true => self.texts.iter().any(|text| text.trim_matches('"') == part),
            false => self.texts.iter().any(|text| text.contains(part)),
        }
    }

    /// Notes what is repeated, if there is room.
    fn note(&mut self, note: impl FnOnce(&mut Self)) {
        match self.secrets.len() + self.addresses.len() < MAX_REPEATED {
            true => note(self),
            false => self.is_cut = true,
        }
    }

    /// The longest first: a part of another one is masked after it.
    fn by_length(&self) -> Vec<String> {
        let mut secrets: Vec<String> = self.secrets.iter().cloned().collect();
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        secrets
    }

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
        if !self.looks_at_one() {
            return;
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
                if self.is_repeated(text)
                    && let Cow::Owned(shown) = mask_address(text)
                {
                    self.note(|found| _ = found.addresses.insert(text.to_owned(), shown));
                }
                let hidden = text.split([',', ' ']).filter_map(user_of);
                hidden.for_each(|user| self.add_secret(user, user.split(':')));
            }
            _ => {}
        }
    }

    /// Adds a text, as it is and as it is written in quotes, and parts of it, as far as they are repeated.
    fn add_secret<'p>(&mut self, text: &str, parts: impl Iterator<Item = &'p str>) {
        let quoted = format!("{text:?}");
        let escaped = quoted.get(1..quoted.len() - 1).unwrap_or_default();
        [text, escaped].into_iter().for_each(|part| self.add_part(part));
        parts.filter(|part| part.len() >= MIN_PART).for_each(|part| self.add_part(part));
    }

    fn add_part(&mut self, part: &str) {
        let is_new = || !part.is_empty() && self.is_repeated(part) && !self.secrets.contains(part);
        if !self.is_cut && is_new() {
            self.note(|found| _ = found.secrets.insert(part.to_owned()));
        }
        self.looks_at_one();
    }

    /// The text without secrets; `None` if it has none.
    fn masked(&self, text: &str, secrets: &[String]) -> Option<String> {
        let mut masked = Cow::Borrowed(text);
        // One that begins another one comes before it.
        for (address, shown) in
            self.addresses.iter().rev().filter(|(address, _)| text.contains(address.as_str()))
        {
            masked = masked.replace(address.as_str(), shown).into();
        }
        let masked = match secrets.is_empty() {
            true => mask_text(&masked).into_owned(),
            false => mask_known(&masked, secrets),
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

    /// A problem of a document whose field has so many values, the last of which is a secret that every text repeats.
    fn of_many(values: usize, entry: impl Fn(usize) -> String) -> Diagnostic {
        let entries: Vec<String> = (0..values).map(entry).collect();
        let text = format!("{{spec: {{{}, apiKey: hunter2}}}}", entries.join(", "));
        let document = yaml::parse(&text).unwrap().root;
        let message = "`hunter2` is wrong";
        let mut problem =
            Diagnostic::error("x", FieldPath::parse("spec"), message).with_hint("not hunter2, but hunter");
        problem.expression = Some(ExpressionPlace { text: "hunter2".to_owned(), column: 1, line: 1 });
        without_secrets(problem, &document)
    }

    #[test]
    fn however_many_values_there_are_no_secret_is_repeated() {
        for values in [10, 300, 3000, MAX_LOOKED_AT + 10] {
            let kinds: [fn(usize) -> String; 3] = [
                |n| format!("k{n}: v{n}"),
                |n| format!("k{n}: {{password: secret-{n}}}"),
                |n| format!("k{n}: {{url: 'http://u{n}:p{n}@host/'}}"),
            ];
            for of in kinds {
                let problem = of_many(values, of);
                let hint = problem.hint.as_deref().unwrap_or_default();
                let place = &problem.expression.as_ref().unwrap().text;
                for text in [problem.message.as_str(), hint, place] {
                    assert!(!text.contains("hunter2"), "{values}: {text}");
                }
                match values > MAX_LOOKED_AT {
                    true => assert_eq!((problem.message.as_str(), hint), (UNTOLD, "")),
                    false => assert_eq!(
                        (problem.message.as_str(), hint),
                        ("`***` is wrong", "not ***, but hunter")
                    ),
                }
            }
        }
    }

    #[test]
    fn a_text_that_repeats_too_many_secrets_is_not_told() {
        let secrets: Vec<String> = (0..2 * MAX_REPEATED).map(|n| format!("s{n:05}")).collect();
        let document = format!("{{spec: {{credentials: [{}]}}}}", secrets.join(", "));
        let document = yaml::parse(&document).unwrap().root;
        let told = |count: usize| {
            let message = secrets[..count].join(" ");
            let problem = Diagnostic::error("x", FieldPath::parse("spec"), message);
            without_secrets(problem, &document).message.clone()
        };
        assert_eq!(told(3), "*** *** ***");
        assert_eq!(told(2 * MAX_REPEATED), UNTOLD);
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
