//! Constants that are written as regular expressions where none is taken, and regular expressions that are no pattern of RE2.

use super::{Comparison, Finding, Notation, Operand, wildcard};
use mixer_config::mark;
use mixer_expr::functions::Regex;
use mixer_expr::{Form, TextTestKind};

/// The code of the warning.
const CODE: &str = "constant-pattern";

/// How attributes end whose values have dots, so that `.*` in a pattern of `match` is a dot and any text: `reviews.*`.
const DOTTED: [&str; 9] =
    [".domain", ".host", ".labels", ".name", ".namespace", ".service", ".uid", ".version", ".workload"];

impl Comparison<'_> {
    /// A constant that is written as a regular expression and is none, or a regular expression that no text matches.
    pub(super) fn pattern(&self) -> Option<Finding> {
        if let Some(facts) = &self.pattern {
            let message = "the pattern matches nothing: a character is before its `^`, or behind its `$`";
            let hint = "patterns of RE2 are not written between slashes: nothing is before `^` or behind `$`";
            return facts.never_matches.then(|| Finding {
                code: CODE,
                message: message.to_owned(),
                hint: hint.to_owned(),
            });
        }
        // Those of lists are examined by their adapter.
        if self.notation == Notation::Entry || self.is_default() || !self.is_regex() {
            return None;
        }
        let constant = &*self.constant;
        let message = match self.kind {
            TextTestKind::Glob => format!(
                "`match` takes a text with `*` as its last or its first character: `{constant}` is no regular expression there"
            ),
            _ => {
                format!("{} takes `{constant}` as it is: it is no regular expression there", self.operator())
            }
        };
        let hint = match self.notation {
            Notation::Clause => "regular expressions belong to `regex`".to_owned(),
            _ => self.advice(&self.as_regex()),
        };
        Some(Finding { code: CODE, message, hint })
    }

    /// Whether the constant is probably meant as a regular expression.
    pub(super) fn is_regex(&self) -> bool {
        let constant = &*self.constant;
        let is_free = |operand: &Operand<'_>| {
            operand.form == Form::Part || wildcard::may_be_value(operand.attribute, operand.key.as_deref())
        };
        if self.notation != Notation::Entry && (self.operands.is_empty() || self.operands.iter().any(is_free))
        {
            return (constant.len() > 2 && constant.starts_with('^') && constant.ends_with(['$', '*']))
                || (self.kind == TextTestKind::Glob && constant.starts_with(".*"));
        }
        let is_dotted = |operand: &Operand<'_>| {
            operand.key.is_some() || DOTTED.iter().any(|end| operand.attribute.ends_with(end))
        };
        mark::is_regex(constant)
            || (constant.contains(".*") && !self.operands.iter().any(is_dotted))
            || (self.kind == TextTestKind::Glob
                && constant.contains('?')
                && !self.operands.iter().any(Operand::is_path_with_query))
    }

    /// How the test is written that the constant is probably meant for, which [is written as a regular expression](Self::is_regex).
    pub(super) fn as_regex(&self) -> String {
        let constant = &*self.constant;
        let body = constant.strip_prefix('^').unwrap_or(constant);
        let body = body.strip_suffix('$').filter(|body| !body.ends_with('\\')).unwrap_or(body);
        let is_glob = self.kind == TextTestKind::Glob && !mark::is_regex(body) && !body.contains('?');
        if is_glob && !body.contains(".*") && wildcard::pattern(TextTestKind::Glob, body).is_none() {
            return format!("match({}, {body:?})", self.subject);
        }
        // The marks of a glob.
        let body = match body.strip_prefix('*') {
            Some(rest) => format!(".*{rest}"),
            None if is_glob || (self.kind == TextTestKind::Glob && !mark::is_regex(body)) => {
                body.replace('?', ".")
            }
            None => body.to_owned(),
        };
        let body =
            if body.contains('|') && self.notation != Notation::Clause { format!("({body})") } else { body };
        let (start, end) = match self.kind {
            TextTestKind::Start => ("^", if constant.ends_with('$') { "$" } else { "" }),
            TextTestKind::End => (if constant.starts_with('^') { "^" } else { "" }, "$"),
            TextTestKind::Contains => (
                if constant.starts_with('^') { "^" } else { "" },
                if constant.ends_with('$') { "$" } else { "" },
            ),
            _ => ("^", "$"),
        };
        let regex = format!("{start}{body}{end}");
        if Regex::compile(regex.as_bytes()).is_err() {
            let pattern = wildcard::pattern(self.kind, constant).unwrap_or_else(|| constant.to_owned());
            return wildcard::written(self.notation, &self.subject, &pattern);
        }
        wildcard::call(self.notation, &self.subject, &regex)
    }

    /// The hint to write this test, or its opposite.
    pub(super) fn advice(&self, meant: &str) -> String {
        match (self.kind, self.notation) {
            (_, Notation::Entry) => {
                format!("set `entryType: REGEX` and write `{meant}`, and every other entry as `^text$`")
            }
            (TextTestKind::NotEqual, Notation::Classic) => format!("write `{meant} == false`"),
            (TextTestKind::NotEqual, _) => format!("write `!{meant}`"),
            _ => format!("write `{meant}`"),
        }
    }
}
