//! Constants with marks of another format, or of a text that was pasted: blanks at an end, quotes, a template, several texts in one.

use super::values::{Cure, Part};
use super::{Comparison, Finding, Notation, Operand};
use mixer_config::mark::Mark;
use mixer_expr::{Form, TextTestKind};

/// The code of the warning.
const CODE: &str = "constant-text";

impl Comparison<'_> {
    /// A constant that is probably not the text that is meant. Those of lists are examined by their adapter.
    pub(super) fn mark(&self) -> Option<Finding> {
        let is_pattern = matches!(self.kind, TextTestKind::Regex { .. });
        if is_pattern || self.notation == Notation::Entry || self.is_default() {
            return None;
        }
        let (part, constant) = self.compared();
        let mark = found(part, constant, self.may_have_several())?;
        let message = format!("`{constant}` is probably not what is meant: {}", text(mark));
        let cure = match mark {
            Mark::Template => {
                Cure::Advice("write the value; templates are filled in before the server reads the file")
            }
            // Part of a pattern, or of a text.
            _ if part != Part::Whole && is_several(mark) => return None,
            mark => Cure::AnyOf(mark.meant(constant)),
        };
        let hint = match &cure {
            Cure::AnyOf(texts) => match &**texts {
                [one] => self.cure(&Cure::Text(one.clone()), constant),
                _ => self.cure(&cure, constant),
            },
            cure => self.cure(cure, constant),
        };
        Some(Finding { code: CODE, message, hint })
    }

    /// Whether values may have quotes, commas and the like: those of headers and claims, which may be lists, and parts of others.
    fn may_have_several(&self) -> bool {
        let may = |operand: &Operand<'_>| operand.form == Form::Part || operand.key.is_some();
        self.operands.is_empty() || self.operands.iter().any(may)
    }
}

/// The mark of a constant. `may_have_several`: quotes and separators are no marks.
fn found(part: Part, constant: &str, may_have_several: bool) -> Option<Mark> {
    let text = constant.as_bytes();
    let unseen = Mark::unseen(text).filter(|mark| {
        let blanks_before = text.trim_ascii_start().len() != text.len();
        let blanks_behind = text.trim_ascii_end().len() != text.len();
        match part {
            _ if *mark != Mark::Blanks => true,
            Part::Whole => true,
            // `Bearer ` is followed by something.
            Part::Start => blanks_before,
            Part::End => blanks_behind,
            Part::Within => false,
        }
    });
    let is_path = constant.starts_with('/');
    let several = || {
        let quotes = Mark::quotes(text).filter(|_| text.len() > 2);
        let several = || Mark::several(text).filter(|_| !is_path && part == Part::Whole);
        quotes.or_else(several).filter(|_| !may_have_several)
    };
    unseen.or_else(|| Mark::template(text)).or_else(several)
}

fn is_several(mark: Mark) -> bool {
    matches!(mark, Mark::Commas | Mark::Bars | Mark::Semicolons | Mark::Tabs)
}

/// What is wrong with a constant.
fn text(mark: Mark) -> String {
    let what = match mark {
        Mark::Commas => "commas",
        Mark::Bars => "bars",
        Mark::Semicolons => "semicolons",
        Mark::Tabs => "tabs",
        mark => return mark.text("text"),
    };
    format!("it has {what}: it is one text, not several")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_with_marks_are_found() {
        for (part, constant, mark) in [
            (Part::Whole, "eve", None),
            (Part::Whole, "eve ", Some(Mark::Blanks)),
            (Part::Start, "Bearer ", None),
            (Part::Start, " Bearer", Some(Mark::Blanks)),
            (Part::End, " Safari", None),
            (Part::End, "Safari ", Some(Mark::Blanks)),
            (Part::Within, " like ", None),
            (Part::Within, "${USER}", Some(Mark::Template)),
            (Part::Start, "eve\u{a0}", Some(Mark::Invisible)),
            (Part::Whole, "eve|mallory", Some(Mark::Bars)),
            (Part::Within, "eve|mallory", None),
            (Part::Whole, "/a,b", None),
            (Part::Whole, "\"eve\"", Some(Mark::Quotes)),
        ] {
            assert_eq!(found(part, constant, false), mark, "{part:?} {constant:?}");
        }
        // `accept: text/html,text/plain`, `if-none-match: "abc"`.
        for constant in ["text/html,text/plain", "\"abc\""] {
            assert_eq!(found(Part::Whole, constant, true), None, "{constant}");
        }
        assert_eq!(found(Part::Whole, "${USER}", true), Some(Mark::Template));
    }
}
