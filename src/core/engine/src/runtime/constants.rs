//! The constants of resources: what tells which requests they decide about.

use std::collections::BTreeSet;

use mixer_config::text_index::words;
use mixer_config::{Node, NodeKind};

/// Fields that say what a document is, and not what it does.
const IDENTITY: [&str; 4] = ["apiVersion", "kind", "metadata", "status"];
/// The field of a rule with the names of handlers and instances.
const ACTIONS: &str = "actions";
const QUOTES: [char; 3] = ['"', '\'', '`'];

/// The constants of one version of a resource.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Constants {
    /// What expressions compare with, the entries of lists, and other texts, word by word. Keys of maps and defaults are none.
    pub(super) words: BTreeSet<Box<str>>,
    /// Of a rule: whether its condition may select anybody, as far as it tells, because it asks for no equality with a constant.
    pub(super) is_broad: bool,
    /// Whether it may select fewer requests with a constant more, or more with one less: it has `&&` or `!`.
    pub(super) has_exceptions: bool,
}

impl Constants {
    /// Those of the document of a rule, without the names that it uses.
    pub(super) fn of_rule(document: &Node) -> Self {
        let mut all = Self { is_broad: true, ..Self::default() };
        all.collect(document, true);
        all
    }

    /// Those of a condition.
    pub(super) fn of_condition(condition: &str) -> Self {
        let mut all = Self { is_broad: true, ..Self::default() };
        all.collect_expression(condition);
        all
    }

    /// Those of any other document.
    pub(super) fn of(document: &Node) -> Self {
        let mut all = Self::default();
        all.collect(document, false);
        all
    }

    fn collect(&mut self, document: &Node, is_rule: bool) {
        let fields = document.entries().iter().filter(|entry| !IDENTITY.contains(&&*entry.key));
        fields.for_each(|entry| self.collect_value(&entry.value, is_rule));
    }

    fn collect_value(&mut self, node: &Node, is_rule: bool) {
        match &node.kind {
            NodeKind::String(text) if is_rule || text.contains('"') => self.collect_expression(text),
            NodeKind::String(text) => self.words.extend(words(text).map(Box::from)),
            NodeKind::Sequence(items) => {
                for item in items {
                    match &item.kind {
                        NodeKind::Int(number) => drop(self.words.insert(number.to_string().into())),
                        _ => self.collect_value(item, is_rule),
                    }
                }
            }
            NodeKind::Mapping(entries) => {
                let entries = entries.iter().filter(|entry| !(is_rule && &*entry.key == ACTIONS));
                entries.for_each(|entry| self.collect_value(&entry.value, is_rule));
            }
            NodeKind::Null | NodeKind::Bool(_) | NodeKind::Int(_) | NodeKind::Float(_) => {}
        }
    }

    fn collect_expression(&mut self, text: &str) {
        let mut outside = String::new();
        for (before, literal) in literals(text) {
            outside.push_str(before);
            let Some(literal) = literal else { break };
            let role = literal.role(before);
            self.is_broad &= role != Role::Equal || !literal.ends;
            if matches!(role, Role::Equal | Role::Other) {
                self.words.extend(words(literal.text).map(Box::from));
            }
        }
        self.has_exceptions |= outside.contains("&&") || outside.contains('!');
    }
}

/// What a literal of an expression is for.
#[derive(Debug, PartialEq, Eq)]
enum Role {
    /// The key of a map.
    Key,
    /// What counts for an attribute that is absent.
    Default,
    /// Something is equal to it, or in a list that begins with it.
    Equal,
    Other,
}

/// A literal of an expression.
struct Literal<'t> {
    text: &'t str,
    after: &'t str,
    /// Whether it has a quote at its end.
    ends: bool,
}

impl Literal<'_> {
    /// `before`: the text since the literal before it.
    fn role(&self, before: &str) -> Role {
        let (before, after) = (before.trim_end(), self.after.trim_start());
        if let Some(head) = before.strip_suffix('[') {
            let head = head.trim_end();
            let word = head.rsplit(|c: char| !(c.is_alphanumeric() || c == '_')).next().unwrap_or_default();
            return match word {
                "in" => Role::Equal,
                "" if !head.ends_with([')', ']']) => Role::Other,
                _ => Role::Key,
            };
        }
        if before.ends_with('|') && !before.ends_with("||") {
            return Role::Default;
        }
        if before.ends_with("==") || after.starts_with("==") { Role::Equal } else { Role::Other }
    }
}

/// The literals of an expression, each after what is before it, and what follows the last one. One that does not end goes on to the end.
fn literals(text: &str) -> impl Iterator<Item = (&str, Option<Literal<'_>>)> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let from = rest.take()?;
        let Some((start, quote)) = from.char_indices().find(|(_, c)| QUOTES.contains(c)) else {
            return Some((from, None));
        };
        let before = from.get(..start).unwrap_or_default();
        let inside = from.get(start + quote.len_utf8()..).unwrap_or_default();
        let mut is_escaped = false;
        let end = inside.char_indices().find(|(_, c)| {
            let ends = *c == quote && !is_escaped;
            is_escaped = *c == '\\' && !is_escaped;
            ends
        });
        let ends = end.is_some();
        let end = end.map_or(inside.len(), |(at, _)| at);
        let after = inside.get(end + quote.len_utf8()..).unwrap_or_default();
        rest = Some(after);
        Some((before, Some(Literal { text: inside.get(..end).unwrap_or_default(), after, ends })))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_condition(text: &str) -> (Vec<String>, bool, bool) {
        let all = Constants::of_condition(text);
        (all.words.iter().map(|word| word.to_string()).collect(), all.is_broad, all.has_exceptions)
    }

    #[test]
    fn the_constants_of_a_condition_tell_whom_it_selects() {
        for (text, words, is_broad, has_exceptions) in [
            ("true", &[][..], true, false),
            ("source.user == destination.user", &[], true, false),
            ("(source.user | \"\") == \"eve\"", &["eve"], false, false),
            ("\"eve\" == (source.user | \"nobody\")", &["eve"], false, false),
            ("source.user == \"dan\" || source.user == \"eve\"", &["dan", "eve"], false, false),
            ("request.headers[\"x-team\"] == \"red\"", &["red"], false, false),
            ("(request.headers[\"x-team\"] | \"\") != \"red\"", &["red"], true, true),
            ("source.user == \"eve\" && request.path != \"/a\"", &["/a", "eve"], false, true),
            ("source.user in ['dan', 'eve']", &["dan", "eve"], false, false),
            ("match(request.path, \"/admin/*\")", &["/admin/*"], true, false),
            ("source.user == \"a \\\" b\" && true", &["a", "b"], false, true),
            ("source.user == \"eve", &["eve"], true, false),
            ("\"", &[], true, false),
            ("source.user == \"ä", &["ä"], true, false),
            ("source.user ==", &[], true, false),
        ] {
            let (found, broad, exceptions) = of_condition(text);
            assert_eq!(
                (found.as_slice(), broad, exceptions),
                (&words.iter().map(|w| w.to_string()).collect::<Vec<_>>()[..], is_broad, has_exceptions),
                "{text}"
            );
        }
    }
}
