//! Bounds of the texts in a record: what callers sent may be as long as a message.

use std::borrow::Cow;
use std::fmt::{self, Write};

/// Most bytes of a message.
pub(super) const MAX_MESSAGE: usize = 8 << 10;
/// Most bytes of the value of a field.
pub(super) const MAX_VALUE: usize = 1 << 10;

/// A text that keeps its first bytes and counts the others.
#[derive(Debug)]
pub(super) struct Cut {
    text: String,
    most: usize,
    left_out: usize,
}

impl Cut {
    /// An empty text that keeps `most` bytes.
    pub(super) fn new(most: usize) -> Self {
        Self { text: String::new(), most, left_out: 0 }
    }

    /// The text; if it was cut, with the length of the rest.
    pub(super) fn finish(&self) -> Cow<'_, str> {
        match self.left_out {
            0 => Cow::Borrowed(&self.text),
            rest => Cow::Owned(format!("{}… ({rest} more bytes)", self.text)),
        }
    }
}

impl Write for Cut {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // Nothing follows what is left out.
        let room = if self.left_out == 0 { self.most.saturating_sub(self.text.len()) } else { 0 };
        let (kept, rest) = text.split_at(text.floor_char_boundary(room));
        self.text.push_str(kept);
        self.left_out += rest.len();
        Ok(())
    }
}

/// A text of at most `most` bytes, and the length of the rest.
pub(super) fn with_cut(text: &str, most: usize) -> Cow<'_, str> {
    if text.len() <= most {
        return Cow::Borrowed(text);
    }
    let kept = text.floor_char_boundary(most);
    let (kept, rest) = text.split_at(kept);
    Cow::Owned(format!("{kept}… ({} more bytes)", rest.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_at_its_bound_and_says_how_much_is_left_out() {
        let written = |parts: &[&str]| {
            let mut cut = Cut::new(8);
            parts.iter().for_each(|part| cut.write_str(part).unwrap());
            let whole = parts.concat();
            assert_eq!(cut.finish(), with_cut(&whole, 8), "{whole}");
            cut.finish().into_owned()
        };
        assert_eq!(written(&["12345678"]), "12345678");
        assert_eq!(written(&["1234", "5678", "9"]), "12345678… (1 more bytes)");
        assert_eq!(written(&["1234567é", "9"]), "1234567… (3 more bytes)");
        assert_eq!(written(&["", ""]), "");
    }
}
