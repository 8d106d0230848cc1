//! The constant texts that an operand may be: branches of `conditional`, and defaults.

use std::borrow::Cow;

use bumpalo::Bump;

use super::{Expr, ExprKind, Literal, Unary};
use crate::failure::MAX_CHOICES;
use mixer_attribute::Value;

/// Deepest operand that is followed.
const MAX_DESCENT: u32 = 16;
/// Longest constant that is followed, in bytes.
const MAX_TEXT: usize = 4096;

/// The values that an operand may have.
#[derive(Debug, Default)]
pub(super) struct Choices<'e> {
    /// The known ones, with their offsets in the expression.
    pub(super) texts: Vec<(Cow<'e, [u8]>, u32)>,
    /// Whether it may have other values.
    pub(super) has_others: bool,
}

impl<'e> Choices<'e> {
    /// Those of an operand. Cost: bounded by the constants above, and the nodes that are followed.
    pub(super) fn of(operand: &'e Expr, arena: &Bump) -> Self {
        let mut choices = Self::default();
        choices.add(operand, arena, 0);
        choices
    }

    fn push(&mut self, text: Cow<'e, [u8]>, at: u32) {
        if self.texts.len() < MAX_CHOICES && text.len() <= MAX_TEXT {
            self.texts.push((text, at));
        } else {
            self.has_others = true;
        }
    }

    fn constant(&mut self, literal: &'e Literal, at: u32) {
        match literal {
            Literal::Bytes(text) => self.push(Cow::Borrowed(text), at),
            // It has no value, which is reported.
            Literal::Failed(_) => {}
            _ => self.has_others = true,
        }
    }

    fn add(&mut self, expr: &'e Expr, arena: &Bump, depth: u32) {
        if depth > MAX_DESCENT || self.texts.len() == MAX_CHOICES {
            self.has_others = true;
            return;
        }
        match &expr.kind {
            ExprKind::Literal(literal) => self.constant(literal, expr.start),
            ExprKind::AttributeOr { default, .. } | ExprKind::EntryOr { default, .. } => {
                self.has_others = true;
                self.constant(default, expr.start);
            }
            ExprKind::FirstOf(list) => {
                let is_attempt = |option: &&Expr| {
                    matches!(option.kind, ExprKind::Attribute(_) | ExprKind::Entry(_) | ExprKind::Index(_))
                };
                self.has_others |= list.first().as_ref().is_some_and(is_attempt);
                // What is behind the first option that is always there is not used.
                if let Some(option) = list.iter().find(|option| !is_attempt(option)) {
                    self.add(option, arena, depth + 1);
                }
            }
            ExprKind::Conditional(triple) | ExprKind::ConditionalString(triple) => {
                let [test, then, otherwise] = &**triple;
                let decided = match test.kind {
                    ExprKind::Literal(Literal::Bool(truth)) => Some(truth),
                    _ => None,
                };
                if decided != Some(false) {
                    self.add(then, arena, depth + 1);
                }
                if decided != Some(true) {
                    self.add(otherwise, arena, depth + 1);
                }
            }
            ExprKind::Concat(list) => self.concat(list, expr.start, arena, depth + 1),
            ExprKind::Apply { function, argument } if *function != Unary::Size => {
                let mut arguments = Self::default();
                arguments.add(argument, arena, depth + 1);
                self.has_others |= arguments.has_others;
                for (text, at) in arguments.texts {
                    // A conversion that fails has no value, which is reported.
                    match function.apply(arena.alloc_slice_copy(&text), arena) {
                        Ok(Value::String(text)) => self.push(Cow::Owned(text.to_vec()), at),
                        Ok(_) => self.has_others = true,
                        Err(_) => {}
                    }
                }
            }
            _ => self.has_others = true,
        }
    }

    fn concat(&mut self, list: &'e [Expr], at: u32, arena: &Bump, depth: u32) {
        let mut texts = vec![Vec::new()];
        for part in list {
            let mut parts = Self::default();
            parts.add(part, arena, depth);
            if parts.has_others || texts.len() * parts.texts.len() > MAX_CHOICES {
                self.has_others = true;
                return;
            }
            let joined = texts
                .iter()
                .flat_map(|text| parts.texts.iter().map(move |(part, _)| [text, &**part].concat()));
            texts = joined.collect();
            if texts.iter().any(|text: &Vec<u8>| text.len() > MAX_TEXT) {
                self.has_others = true;
                return;
            }
        }
        texts.into_iter().for_each(|text| self.push(Cow::Owned(text), at));
    }
}
