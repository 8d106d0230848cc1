//! Encoded words of RFC 2047: `=?charset?q?text?=`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// What a word stands for.
pub(super) enum EncodedWord {
    /// Not an encoded word; it stands for itself.
    None,
    /// Decoded.
    Text(Vec<u8>),
    /// In a charset other than UTF-8, ISO-8859-1 and US-ASCII; its name in lower case.
    UnknownCharset(Vec<u8>),
}

/// Decodes a word as Go's mime.WordDecoder does.
pub(super) fn decode(word: &[u8]) -> EncodedWord {
    let parts = || -> Option<(&[u8], Vec<u8>)> {
        let inner = word.strip_prefix(b"=?")?.strip_suffix(b"?=")?;
        let mut parts = inner.split(|b| *b == b'?');
        let (charset, encoding, text) = (parts.next()?, parts.next()?, parts.next()?);
        if parts.next().is_some() || charset.is_empty() || word.len() < 8 {
            return None;
        }
        let content = match encoding {
            b"q" | b"Q" => quoted_printable(text)?,
            b"b" | b"B" => STANDARD
                .decode(text.iter().filter(|b| !matches!(b, b'\r' | b'\n')).copied().collect::<Vec<_>>())
                .ok()?,
            _ => return None,
        };
        Some((charset, content))
    };
    match parts() {
        None => EncodedWord::None,
        Some((charset, content)) => match charset.to_ascii_lowercase().as_slice() {
            b"utf-8" => EncodedWord::Text(content),
            b"iso-8859-1" => {
                EncodedWord::Text(content.into_iter().map(char::from).collect::<String>().into())
            }
            b"us-ascii" => {
                let text = content.into_iter().map(|b| if b < 0x80 { char::from(b) } else { '\u{fffd}' });
                EncodedWord::Text(text.collect::<String>().into())
            }
            _ => EncodedWord::UnknownCharset(String::from_utf8_lossy(charset).to_lowercase().into()),
        },
    }
}

/// `_` is a space, `=XX` a byte; `None` for what is not printable.
fn quoted_printable(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'_' => b' ',
            b'=' => {
                let mut digit = || char::from(*bytes.next()?).to_digit(16);
                u8::try_from(digit()? * 16 + digit()?).ok()?
            }
            b' '..=b'~' | b'\n' | b'\r' | b'\t' => *byte,
            _ => return None,
        });
    }
    Some(out)
}
