//! How many regular expressions a review may have to be compiled, before it is read.

/// The spellings of the parameter that says what the entries of a list are.
const ENTRY_TYPE: [&[u8]; 2] = [b"entryType", b"entry_type"];
/// Its values that are no patterns.
const TEXTS: [&[u8]; 3] = [b"STRINGS", b"IP_ADDRESSES", b"CASE_INSENSITIVE_STRINGS"];
/// What the names of functions of Rego begin with that take patterns.
const FUNCTIONS: [&[u8]; 3] = [b"regex.", b"re_match", b"glob."];

/// The most patterns that a review in JSON may have: the elements of its lists that are texts, if the entries of a list may be patterns,
/// and the calls of functions with patterns. Expressions are bounded by themselves.
pub(super) fn most(body: &[u8]) -> usize {
    let calls: usize = FUNCTIONS.iter().map(|name| found(body, name).count()).sum();
    let entries = if may_have(body) { elements(body) } else { 0 };
    calls.saturating_add(entries)
}

/// Whether the entries of a list may be patterns.
fn may_have(body: &[u8]) -> bool {
    let is_pattern = |rest: &[u8]| {
        let blank = |byte: &u8| matches!(byte, b'"' | b'\\' | b':') || byte.is_ascii_whitespace();
        let start = rest.iter().position(|byte| !blank(byte)).unwrap_or(rest.len());
        let value = rest.get(start..).unwrap_or_default();
        // Of an object within a text the quote is escaped.
        !TEXTS.iter().any(|text| {
            value.strip_prefix(*text).is_some_and(|rest| matches!(rest.first(), Some(b'"' | b'\\')))
        })
    };
    let named = ENTRY_TYPE.iter().flat_map(|name| found(body, name).map(|at| at + name.len()));
    named.into_iter().any(|end| is_pattern(body.get(end..).unwrap_or_default())) || hides_letters(body)
}

/// Where `part` occurs.
fn found<'b>(body: &'b [u8], part: &'b [u8]) -> impl Iterator<Item = usize> + 'b {
    body.windows(part.len()).enumerate().filter(move |(_, window)| *window == part).map(|(at, _)| at)
}

/// Whether a letter, a digit or `_` is written as an escape, as no encoder does: it may be one of a name that is looked for.
fn hides_letters(body: &[u8]) -> bool {
    found(body, b"\\u00").any(|at| {
        let digits = body.get(at + 4..at + 6).and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    })
}

/// The number of texts in lists.
fn elements(body: &[u8]) -> usize {
    let (mut count, mut before, mut is_element) = (0, b' ', false);
    let mut bytes = body.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => {
                is_element = matches!(before, b'[' | b',');
                count += usize::from(is_element);
                while let Some(byte) = bytes.next() {
                    match byte {
                        b'\\' => drop(bytes.next()),
                        b'"' => break,
                        _ => {}
                    }
                }
            }
            // It was the key of a member.
            b':' => count -= usize::from(std::mem::take(&mut is_element)),
            _ => {}
        }
        if !byte.is_ascii_whitespace() {
            before = *byte;
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_a_pattern_is_counted() {
        for (body, count) in [
            (r#"{"entryType":"REGEX","overrides":["a" , "b,\"[", "c"],"x":[{"a":"b","c":["d"]}]}"#, 4),
            (r#"{"entryType":"STRINGS","overrides":["a","b"]}"#, 0),
            (r#"{"entry_type": "STRINGS", "entryType": 3, "overrides": ["a", "b"]}"#, 2),
            (r#"{"entryType":"STRINGSX","overrides":["a"]}"#, 1),
            (r#"{"entryT\u0079pe":"REGEX","overrides":["a"]}"#, 1),
            (r#"{"match":"a \u0026\u0026 b","overrides":["a"]}"#, 0),
            (r#"{"last":"{\"entryType\":\"STRINGS\"}","overrides":["a"]}"#, 0),
            (r#"{"policy":["regex.match(`a`, b); regex.match(`b`, c)"]}"#, 2),
            (r#"{"entryType"#, 0),
            (r#"["entryType","#, 1),
            ("", 0),
        ] {
            assert_eq!(most(body.as_bytes()), count, "{body}");
        }
    }
}
