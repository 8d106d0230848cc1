//! Directives: `%YAML 1.1`, `%TAG !handle! prefix`.

use super::{Scanned, Scanner, SyntaxError, TokenKind};

impl Scanner<'_> {
    /// The directive at the cursor. On purpose laxer than yaml.v2: any version, and unknown directives are ignored.
    pub(super) fn directive(&mut self) -> Scanned<()> {
        let start = self.cursor.mark();
        self.cursor.next();
        let name = self.word();
        if name.is_empty() {
            return Err(SyntaxError::scan("could not find expected directive name", self.cursor.mark()));
        }
        if !self.cursor.ends_word(0) {
            return Err(SyntaxError::scan("found unexpected non-alphabetical character", self.cursor.mark()));
        }
        self.cursor.skip_blanks();
        if name != "TAG" {
            self.cursor.skip_line_rest();
            self.cursor.next_line();
            self.push(TokenKind::Directive, start);
            return Ok(());
        }
        let handle = self.tag_handle(true)?;
        if !self.cursor.is_blank(0) {
            return Err(SyntaxError::scan("did not find expected whitespace", self.cursor.mark()));
        }
        self.cursor.skip_blanks();
        let prefix = self.tag_uri("")?;
        if !self.cursor.ends_word(0) {
            let problem = "did not find expected whitespace or line break";
            return Err(SyntaxError::scan(problem, self.cursor.mark()));
        }
        self.push(TokenKind::TagDirective { handle, prefix }, start);
        self.end_of_comment()
    }

    /// Skips blanks, a comment and the line break; nothing else may be on the rest of the line.
    pub(super) fn end_of_comment(&mut self) -> Scanned<()> {
        self.cursor.skip_blanks();
        if self.cursor.is(b'#') {
            self.cursor.skip_line_rest();
        }
        if !self.cursor.ends_line() {
            let problem = "did not find expected comment or line break";
            return Err(SyntaxError::scan(problem, self.cursor.mark()));
        }
        self.cursor.next_line();
        Ok(())
    }
}
