//! What the classes of characters of a pattern cost to compile, whose text may be short: a class of Unicode characters has hundreds of ranges, and
//! where case is ignored each of them is folded.

use std::convert::Infallible;

use regex_syntax::ast::{self, Ast, ClassSetItem, Flag, Flags, GroupKind, Visitor, parse::Parser};

/// The cost of a class of Unicode characters in a pattern that ignores case; otherwise it is 1, some 50 us.
const FOLDED: usize = 20;
/// So many letters of such a pattern cost 1: each is a class of its own.
const LETTERS: usize = 20;
/// A range of so many characters counts as a class.
const WIDE: u32 = 1024;

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
                self.letters += 1;
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

#[cfg(test)]
mod tests {
    use super::*;

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
    }
}
