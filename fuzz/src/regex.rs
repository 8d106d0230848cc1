//! Regular expressions: what the translation accepts compiles; where the syntaxes agree, so do the results; a set matches if one
//! of its patterns does.

use mixer_expr::functions::{Regex, RegexSet};

use crate::input::Input;

pub(crate) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let (one, other) = (input.short(), input.short());
    let subject = input.rest();
    let compiled = [one, other].map(|pattern| (pattern, Regex::compile(pattern)));
    for (pattern, result) in &compiled {
        match result {
            Ok(regex) => compare(pattern, regex, subject),
            Err(text) => check_refusal(pattern, text),
        }
    }
    let set = RegexSet::compile(&[one, other]);
    match (&compiled, set) {
        ([(_, Ok(a)), (_, Ok(b))], Ok(set)) => {
            let any = a.is_match(subject) || b.is_match(subject);
            assert_eq!(set.is_match(subject), any, "the set on {subject:?}");
        }
        ([(_, Ok(_)), (_, Ok(_))], Err(text)) => panic!("a set of good patterns is refused: {text}"),
        ([(_, Err(_)), _] | [_, (_, Err(_))], Ok(_)) => panic!("a set of a bad pattern is accepted"),
        (_, Err(_)) => {}
    }
}

fn check_refusal(pattern: &[u8], text: &str) {
    let detail = text
        .strip_prefix("error parsing regexp: ")
        .unwrap_or_else(|| panic!("{}: {text}", pattern.escape_ascii()));
    // RE2 accepts a repetition after a group of flags and applies it to the previous atom; the translation rejects it.
    let flagged = pattern.windows(2).any(|pair| pair[0] == b')' && b"*+?{".contains(&pair[1]));
    // Otherwise the translation is complete: the library accepts everything that it produces.
    let unknown = detail.starts_with("invalid or unsupported syntax");
    assert!(!unknown || flagged, "{}: {text}", pattern.escape_ascii());
}

/// Compares with the library alone, for patterns with the same meaning in both syntaxes.
fn compare(pattern: &[u8], regex: &Regex, subject: &[u8]) {
    let is_common = |byte: &u8| byte.is_ascii_alphanumeric() || b"()|*+?.^$ /:".contains(byte);
    let (true, Ok(text), Ok(subject)) =
        (pattern.iter().all(is_common), std::str::from_utf8(pattern), std::str::from_utf8(subject))
    else {
        regex.is_match(subject);
        return;
    };
    if let Ok(reference) = regex::Regex::new(text) {
        assert_eq!(
            regex.is_match(subject.as_bytes()),
            reference.is_match(subject),
            "{text:?} on {subject:?}"
        );
    }
}
