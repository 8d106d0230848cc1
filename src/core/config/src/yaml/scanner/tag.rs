//! Tags: `!suffix`, `!!suffix`, `!handle!suffix`, `!<uri>`.

use super::{Scanned, Scanner, SyntaxError, TokenKind};

impl Scanner<'_> {
    /// The tag at the cursor.
    pub(super) fn tag(&mut self) -> Scanned<()> {
        let start = self.cursor.mark();
        let (handle, suffix) = if self.cursor.byte(1) == Some(b'<') {
            self.cursor.skip(2);
            let uri = self.tag_uri("")?;
            if !self.cursor.is(b'>') {
                return Err(SyntaxError::scan("did not find the expected '>'", self.cursor.mark()));
            }
            self.cursor.next();
            (String::new(), uri)
        } else {
            let handle = self.tag_handle(false)?;
            if handle.len() > 1 && handle.ends_with('!') {
                let suffix = self.tag_uri("")?;
                (handle, suffix)
            } else {
                // What looked like a handle is the start of the suffix. `!` alone has no handle.
                match self.tag_uri(&handle)? {
                    suffix if suffix.is_empty() => (suffix, "!".to_owned()),
                    suffix => ("!".to_owned(), suffix),
                }
            }
        };
        if !self.cursor.ends_word(0) {
            let problem = "did not find expected whitespace or line break";
            return Err(SyntaxError::scan(problem, self.cursor.mark()));
        }
        self.push(TokenKind::Tag { handle, suffix }, start);
        Ok(())
    }

    /// `!`, `!!` or `!word!`; outside of a directive also `!word`.
    pub(super) fn tag_handle(&mut self, directive: bool) -> Scanned<String> {
        let expected = |scanner: &Self| SyntaxError::scan("did not find expected '!'", scanner.cursor.mark());
        if !self.cursor.is(b'!') {
            return Err(expected(self));
        }
        self.cursor.next();
        let mut handle = format!("!{}", self.word());
        if self.cursor.is(b'!') {
            self.cursor.next();
            handle.push('!');
        } else if directive && handle != "!" {
            return Err(expected(self));
        }
        Ok(handle)
    }

    /// A URI; it starts with what `head` has after its `!`.
    pub(super) fn tag_uri(&mut self, head: &str) -> Scanned<String> {
        let mut uri = head.get(1..).unwrap_or("").to_owned();
        let mut is_empty = head.is_empty();
        while let Some(byte) = self.cursor.byte(0) {
            match byte {
                b'%' => uri.push(self.escaped_character()?),
                byte if byte.is_ascii_alphanumeric() || b"_-;/?:@&=+$,.!~*'()[]".contains(&byte) => {
                    uri.push(char::from(byte));
                    self.cursor.next();
                }
                _ => break,
            }
            is_empty = false;
        }
        if is_empty {
            return Err(SyntaxError::scan("did not find expected tag URI", self.cursor.mark()));
        }
        Ok(uri)
    }

    /// A character as `%XX` for each of its bytes.
    fn escaped_character(&mut self) -> Scanned<char> {
        let mut bytes = [0; 4];
        let mut length = 1;
        let mut at = 0;
        while at < length {
            let digit = |ahead| self.cursor.byte(ahead).and_then(|b| char::from(b).to_digit(16));
            let error = |problem| Err(SyntaxError::scan(problem, self.cursor.mark()));
            let (true, Some(high), Some(low)) = (self.cursor.is(b'%'), digit(1), digit(2)) else {
                return error("did not find URI escaped octet");
            };
            let byte = u8::try_from(high * 16 + low).unwrap_or_default();
            if at == 0 {
                length = match byte {
                    0..0x80 => 1,
                    0xc0..0xe0 => 2,
                    0xe0..0xf0 => 3,
                    0xf0..0xf8 => 4,
                    _ => return error("found an incorrect leading UTF-8 octet"),
                };
            } else if byte & 0xc0 != 0x80 {
                return error("found an incorrect trailing UTF-8 octet");
            }
            if let Some(slot) = bytes.get_mut(at) {
                *slot = byte;
            }
            at += 1;
            self.cursor.skip(3);
        }
        let text = bytes.get(..length).and_then(|bytes| std::str::from_utf8(bytes).ok());
        Ok(text.and_then(|text| text.chars().next()).unwrap_or(char::REPLACEMENT_CHARACTER))
    }
}
