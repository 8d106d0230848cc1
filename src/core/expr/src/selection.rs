//! Which requests a condition may select: comparisons of attributes with constants, combined.
//!
//! A [`Selection`] is the intersection of sets of values, one for each attribute or map entry that decides. It never has fewer requests than
//! the condition selects, and [is exact](Selection::is_exact) if it has no more. So two conditions with disjoint selections select no
//! request together, whatever else they ask for. It needs the syntax only: it is known of a condition that does not compile.
//!
//! ```
//! use mixer_expr::{Language, Names, Selection};
//!
//! let known: &mut Names<'_> = &mut |name| Some(name.into());
//! let eve = "source.user == \"eve\" && match(request.path, \"/a*\")";
//! let eve = Selection::of(eve, Language::Cexl, false, known);
//! let dan = Selection::of("(source.user | \"\") == \"dan\"", Language::Cexl, false, known);
//! assert!(!eve.meets(&dan) && !eve.is_exact() && dan.is_exact());
//! ```

mod values;

use std::collections::BTreeMap;

use super::Language;
use super::ast::{NodeId, SyntaxKind, SyntaxTree};
use super::literal::{Constant, constant};
use super::parse::parse;

use values::{Value, Values};

/// Longest condition that is examined, in bytes; a longer one may select anything.
const MAX_TEXT: usize = 256 << 10;

/// The attribute that a name stands for; `None` if that is unknown.
pub type Names<'n> = dyn FnMut(&str) -> Option<Box<str>> + 'n;

/// A set of requests, by what their attributes must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// By attribute or map entry. None of them is empty.
    terms: BTreeMap<Box<str>, Values>,
    is_exact: bool,
    is_never: bool,
}

impl Selection {
    /// Every request.
    pub fn all() -> Self {
        Self { terms: BTreeMap::new(), is_exact: true, is_never: false }
    }

    /// No request.
    pub fn never() -> Self {
        Self { is_never: true, ..Self::all() }
    }

    /// Any requests: nothing is known.
    pub fn unknown() -> Self {
        Self { is_exact: false, ..Self::all() }
    }

    /// Those that a condition selects. `fails_closed`: also those whose evaluation fails. Of the languages the part is understood that is the
    /// same in all of them; in CEL, what is absent has the default of its type.
    pub fn of(condition: &str, language: Language, fails_closed: bool, names: &mut Names<'_>) -> Self {
        let tree = (condition.len() <= MAX_TEXT).then(|| parse(condition));
        let Some(Ok(tree)) = tree else { return Self::unknown() };
        let selection = Reader { tree: &tree, names, language }.condition(tree.root());
        if fails_closed { selection.or_failing() } else { selection }
    }

    /// Those for which an operand, such as `source.user | ""`, has one of these values.
    pub fn of_operand<'v>(
        operand: &str,
        language: Language,
        among: impl IntoIterator<Item = &'v str>,
        names: &mut Names<'_>,
    ) -> Self {
        let tree = (operand.len() <= MAX_TEXT).then(|| parse(operand));
        let Some(Ok(tree)) = tree else { return Self::unknown() };
        let operand = Reader { tree: &tree, names, language }.operand(tree.root());
        let Some(operand) = operand else { return Self::unknown() };
        let all = among.into_iter().map(|text| operand.equal_to(&Value::Text(text.into())));
        all.reduce(Self::or).unwrap_or_else(Self::never)
    }

    /// Whether it has no more requests than the condition selects.
    pub fn is_exact(&self) -> bool {
        self.is_exact
    }

    /// Whether it has no request.
    pub fn is_never(&self) -> bool {
        self.is_never
    }

    /// Whether it may have a request of another one.
    pub fn meets(&self, other: &Self) -> bool {
        let mut both = self.terms.iter().filter_map(|(term, values)| Some((values, other.terms.get(term)?)));
        !self.is_never && !other.is_never && both.all(|(a, b)| !a.and(b).is_empty())
    }

    /// A text that both ask for.
    pub fn common_text<'s>(&'s self, other: &'s Self) -> Option<&'s str> {
        let both = self.terms.iter().filter_map(|(term, values)| Some((values, other.terms.get(term)?)));
        both.into_iter().find_map(|(a, b)| a.common_text(b))
    }

    /// Whether it certainly has no requests beside those that another one selects.
    pub fn is_within(&self, other: &Self) -> bool {
        let mut terms = other.terms.iter();
        self.is_never
            || other.is_exact
                && !other.is_never
                && terms.all(|(term, values)| self.terms.get(term).is_some_and(|own| own.is_within(values)))
    }

    /// Those in both.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        if self.is_never || other.is_never {
            return Self::never();
        }
        self.is_exact &= other.is_exact;
        for (term, values) in other.terms {
            let both = self.terms.get(&term).map_or_else(|| values.clone(), |own| own.and(&values));
            if both.is_empty() {
                return Self::never();
            }
            self.terms.insert(term, both);
        }
        self
    }

    /// Those in either.
    #[must_use]
    pub fn or(mut self, other: Self) -> Self {
        if self.is_never {
            return other;
        }
        if other.is_never {
            return self;
        }
        let is_of_one = self.terms.len() == 1 && self.terms.keys().eq(other.terms.keys());
        // On an absent attribute, one side may fail where the other one decides.
        let agrees =
            |values: &Values, of_other: &Values| values.has(&Value::Absent) == of_other.has(&Value::Absent);
        let mut both = self.terms.iter().filter_map(|(term, values)| Some((values, other.terms.get(term)?)));
        let agree = both.all(|(values, of_other)| agrees(values, of_other));
        let is_all = |all: &Self| all.is_exact && all.terms.is_empty();
        self.is_exact = is_all(&self) || self.is_exact && other.is_exact && is_of_one && agree;
        let mut of_other = other.terms;
        self.terms.retain(|term, values| {
            of_other.remove(term).is_some_and(|more| {
                values.add(more);
                !values.is_all()
            })
        });
        self
    }

    /// Those that another one does not certainly select.
    #[must_use]
    pub fn minus(mut self, other: &Self) -> Self {
        if self.is_within(other) {
            return Self::never();
        }
        if other.is_exact
            && !other.is_never
            && let (1, Some((term, values))) = (other.terms.len(), other.terms.first_key_value())
        {
            let left = self.terms.get(term).map_or_else(|| values.complement(), |own| own.minus(values));
            self.terms.insert(term.clone(), left);
            self.is_exact = false;
        }
        self
    }

    /// With those whose evaluation fails: what a comparison finds absent.
    fn or_failing(mut self) -> Self {
        if self.is_never || !self.is_exact || self.terms.len() > 1 {
            return if self == Self::all() { self } else { Self::unknown() };
        }
        self.is_exact = self.terms.is_empty();
        self.terms.values_mut().for_each(|values| values.add(Values::only(Value::Absent)));
        self
    }

    fn of_term(term: Box<str>, values: Values, is_exact: bool) -> Self {
        if values.is_empty() {
            return Self::never();
        }
        Self { terms: BTreeMap::from([(term, values)]), is_exact, is_never: false }
    }
}

/// An attribute or map entry, with what counts if it is absent.
struct Operand {
    term: Box<str>,
    default: Option<Value>,
    /// Whether what is absent and has no default may count as that of its type, or make the condition fail.
    may_have_default: bool,
}

impl Operand {
    fn is_vague(&self) -> bool {
        self.may_have_default && self.default.is_none()
    }

    fn equal_to(&self, value: &Value) -> Selection {
        let mut values = Values::only(value.clone());
        let may_be_absent = self.is_vague() && value.is_default();
        if self.default.as_ref() == Some(value) || may_be_absent {
            values.add(Values::only(Value::Absent));
        }
        Selection::of_term(self.term.clone(), values, !may_be_absent)
    }

    fn other_than(&self, value: &Value) -> Selection {
        let mut without = Values::only(value.clone());
        // What is absent makes the condition fail, unless it has a default.
        let is_without = match &self.default {
            Some(default) => default == value,
            None => !self.may_have_default,
        };
        if is_without {
            without.add(Values::only(Value::Absent));
        }
        Selection::of_term(self.term.clone(), without.complement(), !self.is_vague())
    }
}

struct Reader<'t, 'n> {
    tree: &'t SyntaxTree<'t>,
    names: &'t mut Names<'n>,
    language: Language,
}

impl Reader<'_, '_> {
    /// Recursive: the parser bounds the nesting.
    fn condition(&mut self, id: NodeId) -> Selection {
        let id = self.inner(id);
        match &self.tree.node(id).kind {
            SyntaxKind::Binary { operator, .. } => match operator.of(self.tree.text()) {
                "&&" => self
                    .chain(id, "&&")
                    .into_iter()
                    .fold(Selection::all(), |all, operand| all.and(self.condition(operand))),
                "||" => self
                    .chain(id, "||")
                    .into_iter()
                    .fold(Selection::never(), |all, operand| all.or(self.condition(operand))),
                "==" => self.comparison(id, Operand::equal_to),
                "!=" => self.comparison(id, Operand::other_than),
                _ => Selection::unknown(),
            },
            SyntaxKind::Identifier if self.tree.source(id) == "true" => Selection::all(),
            SyntaxKind::Identifier if self.tree.source(id) == "false" => Selection::never(),
            _ => match self.operand(id) {
                Some(operand) => operand.equal_to(&Value::Bool(true)),
                None => Selection::unknown(),
            },
        }
    }

    /// The operands of a chain of one operator, in order.
    fn chain(&self, id: NodeId, chained: &str) -> Vec<NodeId> {
        let (mut next, mut operands) = (id, Vec::new());
        while let SyntaxKind::Binary { operator, left, right } = &self.tree.node(next).kind {
            if operator.of(self.tree.text()) != chained {
                break;
            }
            operands.push(*right);
            next = *left;
        }
        operands.push(next);
        operands.reverse();
        operands
    }

    fn comparison(&mut self, id: NodeId, compare: impl Fn(&Operand, &Value) -> Selection) -> Selection {
        let SyntaxKind::Binary { left, right, .. } = self.tree.node(id).kind.clone() else {
            return Selection::unknown();
        };
        let sides = match (self.value(left), self.value(right)) {
            (None, Some(value)) => self.operand(left).map(|operand| (operand, value)),
            (Some(value), None) => self.operand(right).map(|operand| (operand, value)),
            _ => None,
        };
        sides.map_or_else(Selection::unknown, |(operand, value)| compare(&operand, &value))
    }

    /// Without parentheses.
    fn inner(&self, mut id: NodeId) -> NodeId {
        while let SyntaxKind::Parenthesized(operand) = &self.tree.node(id).kind {
            id = *operand;
        }
        id
    }

    fn value(&self, id: NodeId) -> Option<Value> {
        let id = self.inner(id);
        let source = self.tree.source(id);
        // What escapes and digits mean is not the same in all languages.
        let is_same_in_all = !source.contains('\\') && (source == "0" || !source.starts_with('0'));
        if self.language != Language::Cexl && !is_same_in_all {
            return None;
        }
        match &self.tree.node(id).kind {
            SyntaxKind::Identifier => source.parse().ok().map(Value::Bool),
            SyntaxKind::Literal(kind) => match constant(*kind, source).ok()? {
                Constant::String(bytes) => Some(Value::Text(std::str::from_utf8(&bytes).ok()?.into())),
                Constant::Int64(number) => Some(Value::Int(number)),
                // The same duration has several texts.
                Constant::Bool(_) | Constant::Double(_) | Constant::Duration(_) => None,
            },
            _ => None,
        }
    }

    fn operand(&mut self, id: NodeId) -> Option<Operand> {
        let id = self.inner(id);
        if let SyntaxKind::Binary { operator, left, right } = &self.tree.node(id).kind
            && operator.of(self.tree.text()) == "|"
        {
            let default = self.value(*right)?;
            let operand = self.attribute(*left)?;
            return Some(Operand { default: Some(default), ..operand });
        }
        self.attribute(id)
    }

    /// An attribute or an entry of one, without a default.
    fn attribute(&mut self, id: NodeId) -> Option<Operand> {
        let id = self.inner(id);
        let (name, key) = match &self.tree.node(id).kind {
            SyntaxKind::Identifier | SyntaxKind::Select { .. } => (id, None),
            SyntaxKind::Index { operand, key } => (self.inner(*operand), Some(self.value(*key)?)),
            _ => return None,
        };
        let source = self.tree.source(name);
        let is_name = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
        if self.value(name).is_some() || !source.chars().all(is_name) {
            return None;
        }
        let attribute = (self.names)(source)?;
        let may_have_default = key.is_some() || self.language != Language::Cexl;
        let term = match key {
            None => attribute,
            Some(Value::Text(key)) => format!("{attribute}[{key}]").into(),
            Some(_) => return None,
        };
        Some(Operand { term, default: None, may_have_default })
    }
}

#[cfg(test)]
mod tests;
