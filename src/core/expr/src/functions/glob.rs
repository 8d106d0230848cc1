//! `match(s, p)`.

/// Whether `subject` matches `pattern`: by prefix if the pattern ends in `*`, else by suffix if it starts with `*`, else by
/// equality. Every other `*` is literal. Case-sensitive.
pub fn glob_match(subject: &[u8], pattern: &[u8]) -> bool {
    match pattern {
        [prefix @ .., b'*'] => subject.starts_with(prefix),
        [b'*', suffix @ ..] => subject.ends_with(suffix),
        _ => subject == pattern,
    }
}

#[cfg(test)]
mod tests {
    use super::glob_match;

    #[test]
    fn the_first_rule_that_applies_decides() {
        for (subject, pattern, expected) in [
            ("*bxx", "*b*", true),
            ("abc", "*b*", false),
            ("abc", "a*c", false),
            ("*x", "**", true),
            ("abc", "**", false),
            ("", "*", true),
            ("abc", "*bc", true),
            ("abc", "ab*", true),
            ("abc", "abc", true),
            ("abc", "ABC", false),
            ("a?c", "a?c", true),
            ("abc", "a?c", false),
            ("", "", true),
        ] {
            assert_eq!(glob_match(subject.as_bytes(), pattern.as_bytes()), expected, "{subject} {pattern}");
        }
    }
}
