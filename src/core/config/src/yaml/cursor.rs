//! A position in a text: lines, columns and characters as YAML 1.1 counts them.

use mixer_base::scheduling;

/// Characters after which others may run.
pub(super) const STRETCH: usize = 4096;

/// A position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Mark {
    /// In bytes.
    pub(super) at: usize,
    /// Characters before it.
    pub(super) characters: usize,
    /// From 0.
    pub(super) line: u32,
    /// In characters, from 0.
    pub(super) column: u32,
}

/// What the scanner has not read yet.
pub(super) struct Cursor<'t> {
    text: &'t str,
    mark: Mark,
}

impl<'t> Cursor<'t> {
    /// A byte order mark at the start is skipped.
    pub(super) fn new(text: &'t str) -> Self {
        let at = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
        Self { text, mark: Mark { at, ..Mark::default() } }
    }

    pub(super) fn mark(&self) -> Mark {
        self.mark
    }

    pub(super) fn column(&self) -> u32 {
        self.mark.column
    }

    /// Counts the rest of the last line as a line.
    pub(super) fn end_line(&mut self) {
        if self.mark.column > 0 {
            self.mark.column = 0;
            self.mark.line += 1;
        }
    }

    /// The byte that is `ahead` bytes further.
    pub(super) fn byte(&self, ahead: usize) -> Option<u8> {
        self.text.as_bytes().get(self.mark.at + ahead).copied()
    }

    pub(super) fn is(&self, byte: u8) -> bool {
        self.byte(0) == Some(byte)
    }

    /// Whether the text ends here.
    pub(super) fn is_end(&self) -> bool {
        self.byte(0).is_none()
    }

    /// A space or tab.
    pub(super) fn is_blank(&self, ahead: usize) -> bool {
        matches!(self.byte(ahead), Some(b' ' | b'\t'))
    }

    /// The length of the line break that is `ahead` bytes further; 0 if there is none. YAML 1.1 breaks lines at U+0085, U+2028 and
    /// U+2029 too.
    fn break_length(&self, ahead: usize) -> usize {
        match (self.byte(ahead), self.byte(ahead + 1), self.byte(ahead + 2)) {
            (Some(b'\r'), Some(b'\n'), _) => 2,
            (Some(b'\r' | b'\n'), ..) => 1,
            (Some(0xc2), Some(0x85), _) => 2,
            (Some(0xe2), Some(0x80), Some(0xa8 | 0xa9)) => 3,
            _ => 0,
        }
    }

    pub(super) fn is_break(&self, ahead: usize) -> bool {
        self.break_length(ahead) > 0
    }

    /// A line break or the end.
    pub(super) fn ends_line(&self) -> bool {
        self.is_end() || self.is_break(0)
    }

    /// A space, a tab, a line break or the end.
    pub(super) fn ends_word(&self, ahead: usize) -> bool {
        self.byte(ahead).is_none() || self.is_blank(ahead) || self.is_break(ahead)
    }

    /// `---` or `...` at the start of a line.
    pub(super) fn is_document_indicator(&self, of: u8) -> bool {
        self.mark.column == 0 && (0..3).all(|ahead| self.byte(ahead) == Some(of)) && self.ends_word(3)
    }

    /// Skips a character that is not a line break, and returns it.
    pub(super) fn next(&mut self) -> Option<char> {
        if self.mark.characters > 0 && self.mark.characters.is_multiple_of(STRETCH) {
            scheduling::let_others_run();
        }
        let c = self.text.get(self.mark.at..)?.chars().next()?;
        self.mark.at += c.len_utf8();
        self.mark.characters += 1;
        self.mark.column += 1;
        Some(c)
    }

    /// Skips letters, digits and underscores, and returns them: at most [`STRETCH`].
    pub(super) fn next_letters(&mut self) -> &'t str {
        let rest = self.text.get(self.mark.at..).unwrap_or_default();
        let is_letter = |byte: &&u8| byte.is_ascii_alphanumeric() || **byte == b'_';
        let length = rest.bytes().take(STRETCH).take_while(|byte| is_letter(&byte)).count();
        if length == STRETCH {
            scheduling::let_others_run();
        }
        self.mark.at += length;
        self.mark.characters += length;
        self.mark.column = self.mark.column.saturating_add(u32::try_from(length).unwrap_or(u32::MAX));
        rest.get(..length).unwrap_or_default()
    }

    /// Skips characters that are not line breaks.
    pub(super) fn skip(&mut self, count: usize) {
        for _ in 0..count {
            self.next();
        }
    }

    /// Skips spaces and tabs.
    pub(super) fn skip_blanks(&mut self) {
        while self.is_blank(0) {
            self.next();
        }
    }

    /// Skips the rest of the line, without its line break.
    pub(super) fn skip_line_rest(&mut self) {
        while !self.ends_line() {
            self.next();
        }
    }

    /// Skips a line break, if there is one, and returns it: as a line feed, unless it is U+2028 or U+2029.
    pub(super) fn next_line(&mut self) -> Option<char> {
        let length = self.break_length(0);
        let written = self.text.get(self.mark.at..self.mark.at + length)?;
        let c = match written.chars().next()? {
            c @ ('\u{2028}' | '\u{2029}') => c,
            _ => '\n',
        };
        self.mark.at += length;
        self.mark.characters += written.chars().count();
        self.mark.line += 1;
        self.mark.column = 0;
        Some(c)
    }
}
