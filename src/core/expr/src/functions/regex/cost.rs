//! What the classes of characters of a pattern cost to compile, whose text may be short: a class of Unicode characters has hundreds of ranges, and
//! where case is ignored each of them is folded. And what a search takes: its automaton has a state for each repetition of a part.

use std::convert::Infallible;

use regex_syntax::ast::{
    self, Ast, ClassSet, ClassSetItem, Flag, Flags, GroupKind, RepetitionKind, RepetitionRange, Visitor,
    parse::Parser,
};

/// The cost of a class of Unicode characters in a pattern that ignores case; otherwise it is 1, some 50 us.
const FOLDED: usize = 20;
/// So many letters of such a pattern cost 1: each is a class of its own.
const LETTERS: usize = 20;
/// A range of so many characters counts as a class.
const WIDE: u32 = 1024;
/// So many characters of a range take as long to fold as a letter.
const OF_RANGE: u32 = 100;
/// States of a character that may have several bytes.
const CHARACTER: usize = 4;

/// The cost of a pattern in the syntax of the crate `regex`, in units of the time that a class of Unicode characters takes; 0 if it is none, which
/// is found out at once. Cost: linear in the length of the pattern.
pub fn pattern_cost(pattern: &str) -> usize {
    let Ok(parsed) = Parser::new().parse(pattern) else { return 0 };
    match ast::visit(&parsed, Counter::default()) {
        Ok(Counter { classes, letters, ignores_case: true }) => {
            classes.saturating_mul(FOLDED).saturating_add(letters / LETTERS)
        }
        Ok(Counter { classes, .. }) => classes,
        Err(never) => match never {},
    }
}

#[derive(Default)]
struct Counter {
    classes: usize,
    letters: usize,
    /// Whether a part of the pattern ignores case.
    ignores_case: bool,
}

impl Counter {
    fn flags(&mut self, flags: &Flags) {
        self.ignores_case |= flags.flag_state(Flag::CaseInsensitive) == Some(true);
    }
}

impl Visitor for Counter {
    type Output = Self;
    type Err = Infallible;

    fn finish(self) -> Result<Self, Infallible> {
        Ok(self)
    }

    fn visit_pre(&mut self, ast: &Ast) -> Result<(), Infallible> {
        match ast {
            Ast::ClassUnicode(_) | Ast::ClassPerl(_) => self.classes += 1,
            Ast::Literal(_) => self.letters += 1,
            Ast::Flags(set) => self.flags(&set.flags),
            Ast::Group(group) => {
                if let GroupKind::NonCapturing(flags) = &group.kind {
                    self.flags(flags);
                }
            }
            Ast::Empty(_)
            | Ast::Dot(_)
            | Ast::Assertion(_)
            | Ast::ClassBracketed(_)
            | Ast::Repetition(_)
            | Ast::Alternation(_)
            | Ast::Concat(_) => {}
        }
        Ok(())
    }

    fn visit_class_set_item_pre(&mut self, item: &ClassSetItem) -> Result<(), Infallible> {
        match item {
            ClassSetItem::Unicode(_) | ClassSetItem::Perl(_) => self.classes += 1,
            ClassSetItem::Range(range) => {
                let [low, high] = [range.start.c, range.end.c].map(u32::from);
                self.classes += usize::from(high.saturating_sub(low) >= WIDE);
                let folded = high.saturating_sub(low) / OF_RANGE;
                self.letters += 1 + usize::try_from(folded).unwrap_or(usize::MAX);
            }
            // All other characters, which the class around it folds again.
            ClassSetItem::Bracketed(inner) => self.classes += usize::from(inner.negated),
            ClassSetItem::Ascii(class) => self.classes += usize::from(class.negated),
            ClassSetItem::Literal(_) => self.letters += 1,
            ClassSetItem::Empty(_) | ClassSetItem::Union(_) => {}
        }
        Ok(())
    }
}

/// How large the automaton of a pattern is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PatternSize {
    /// Most states that a search visits for one byte of a text, which takes some nanoseconds for each.
    pub states: usize,
    /// Capture groups.
    pub groups: usize,
    /// Repetitions and alternatives as they are written, which a compiler tries to unite.
    pub choices: usize,
}

/// The size of a pattern in the syntax of the crate `regex`; that of nothing if it is none. Cost: linear in the length of the pattern.
pub fn pattern_size(pattern: &str) -> PatternSize {
    let Ok(parsed) = Parser::new().parse(pattern) else { return PatternSize::default() };
    match ast::visit(&parsed, Sizer::default()) {
        Ok(size) => size,
        Err(never) => match never {},
    }
}

#[derive(Default)]
struct Sizer {
    size: PatternSize,
    /// States of the parts seen so far of each expression that is not at its end.
    open: Vec<usize>,
}

impl Visitor for Sizer {
    type Output = PatternSize;
    type Err = Infallible;

    fn finish(self) -> Result<PatternSize, Infallible> {
        Ok(self.size)
    }

    fn visit_pre(&mut self, _: &Ast) -> Result<(), Infallible> {
        self.open.push(0);
        Ok(())
    }

    fn visit_post(&mut self, ast: &Ast) -> Result<(), Infallible> {
        let parts = self.open.pop().unwrap_or_default();
        let states = match ast {
            Ast::Literal(literal) => literal.c.len_utf8(),
            Ast::Dot(_) | Ast::ClassUnicode(_) | Ast::ClassPerl(_) => CHARACTER,
            Ast::ClassBracketed(class) if class.negated || !is_ascii(&class.kind) => CHARACTER,
            Ast::ClassBracketed(_) | Ast::Empty(_) | Ast::Flags(_) | Ast::Assertion(_) => 1,
            Ast::Repetition(repetition) => {
                self.size.choices += 1;
                parts.saturating_add(1).saturating_mul(times(&repetition.op.kind))
            }
            Ast::Group(group) => {
                self.size.groups += usize::from(group.capture_index().is_some());
                parts.saturating_add(2)
            }
            Ast::Alternation(alternatives) => {
                self.size.choices += 1;
                parts.saturating_add(alternatives.asts.len())
            }
            Ast::Concat(_) => parts,
        };
        match self.open.last_mut() {
            Some(outer) => *outer = outer.saturating_add(states),
            None => self.size.states = states,
        }
        Ok(())
    }
}

/// How often the states of a repetition are there.
fn times(kind: &RepetitionKind) -> usize {
    let times = match kind {
        RepetitionKind::ZeroOrOne | RepetitionKind::ZeroOrMore | RepetitionKind::OneOrMore => 1,
        RepetitionKind::Range(RepetitionRange::Exactly(most) | RepetitionRange::Bounded(_, most)) => *most,
        RepetitionKind::Range(RepetitionRange::AtLeast(least)) => least.saturating_add(1),
    };
    usize::try_from(times).unwrap_or(usize::MAX).max(1)
}

/// Whether a class has single characters and ranges of ASCII alone.
fn is_ascii(class: &ClassSet) -> bool {
    let is_ascii = |item: &ClassSetItem| match item {
        ClassSetItem::Empty(_) => true,
        ClassSetItem::Literal(literal) => literal.c.is_ascii(),
        ClassSetItem::Range(range) => range.end.c.is_ascii(),
        ClassSetItem::Ascii(class) => !class.negated,
        ClassSetItem::Unicode(_)
        | ClassSetItem::Perl(_)
        | ClassSetItem::Bracketed(_)
        | ClassSetItem::Union(_) => false,
    };
    match class {
        ClassSet::Item(ClassSetItem::Union(union)) => union.items.iter().all(is_ascii),
        ClassSet::Item(item) => is_ascii(item),
        ClassSet::BinaryOp(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_has_the_states_of_each_repetition() {
        for (pattern, states, groups, choices) in [
            ("", 1, 0, 0),
            ("abc", 3, 0, 0),
            ("[a-z0-9_-]", 1, 0, 0),
            ("[^a]", 4, 0, 0),
            (".", 4, 0, 0),
            ("ä", 2, 0, 0),
            ("(a)(?:b)", 6, 1, 0),
            ("a|bc", 5, 0, 1),
            ("a*", 2, 0, 1),
            ("a{10}", 20, 0, 1),
            ("(a{2,10}){100}", 2300, 1, 2),
            ("a{3,}", 8, 0, 1),
            ("(", 0, 0, 0),
        ] {
            assert_eq!(pattern_size(pattern), PatternSize { states, groups, choices }, "{pattern}");
        }
        let huge = pattern_size("((((a{1000000}){1000000}){1000000}){1000000}){1000000}");
        assert_eq!(huge.states, usize::MAX);
    }

    #[test]
    fn classes_count_and_those_whose_case_is_folded_count_more() {
        for (pattern, cost) in [
            ("", 0),
            ("^/api/v[0-9]+/.*$", 0),
            (r"(?i)^[a-z0-9._%+-]+@[a-z0-9.-]+\.[a-z]{2,}$", 0),
            (r"\pL\PL", 2),
            (r"[\pL\d]", 2),
            (r"[[^0-9]x]", 1),
            (r"[[:^alpha:]]", 1),
            (r"[\x{0}-\x{10ffff}]", 1),
            (r"[^a]", 0),
            (r"(?i)\pL", 20),
            (r"\pL(?i:a)", 20),
            (r"(?-i)\pL", 1),
            ("(", 0),
        ] {
            assert_eq!(pattern_cost(pattern), cost, "{pattern}");
        }
        assert_eq!(pattern_cost(&("(?i)".to_owned() + &"k".repeat(2000))), 100);
        assert_eq!(pattern_cost(&("(?i)".to_owned() + &"[Ā-ӿ]".repeat(40))), 22);
    }
}
