//! Parts of expressions that fail for every request.

use super::*;

/// `LINE:COLUMN MESSAGE` of every finding.
fn failures(language: Language, text: &str) -> Vec<String> {
    let program = compile(language, text, &vocabulary()).unwrap_or_else(|error| panic!("{text}: {error}"));
    let found = program.failures().iter().map(|failure| {
        let (line, column) = failure.position.expect("a position");
        assert!(!failure.hint.is_empty(), "{text}");
        format!("{line}:{column} {}", failure.message)
    });
    found.collect()
}

#[test]
fn a_constant_that_cannot_be_evaluated_is_found() {
    for (text, expected) in [
        (r#""^/admin(".matches(s1)"#, "1:1 error parsing regexp: missing closing ): `^/admin(`"),
        (
            r#"b1 && "*.php".matches(s1)"#,
            "1:7 error parsing regexp: missing argument to repetition operator: `*`",
        ),
        (r#"("(" + "x").matches(s1)"#, "1:2 error parsing regexp: missing closing ): `(x`"),
        (r#""[a-Z]x".matches(s1)"#, "1:1 error parsing regexp: invalid character class range: `a-Z`"),
        (
            r#""^/(?!public)".matches(s1)"#,
            "1:1 error parsing regexp: invalid or unsupported Perl syntax: `(?!`",
        ),
        (r#"ip1 == ip("10.0.0.300")"#, "1:8 could not convert 10.0.0.300 to IP_ADDRESS"),
        (r#"ip1 == ip("10.0.0." + "0/8")"#, "1:8 could not convert 10.0.0.0/8 to IP_ADDRESS"),
        (r#"ip1 == ip("")"#, "1:8 could not convert  to IP_ADDRESS"),
        (r#"(ip1 | ip("x")) == ip("10.0.0.1")"#, "1:8 could not convert x to IP_ADDRESS"),
        (
            r#"t1 > timestamp("2026-13-01")"#,
            "1:6 could not convert '2026-13-01' to TIMESTAMP. expected format: '2006-01-02T15:04:05Z07:00'",
        ),
    ] {
        assert_eq!(failures(Language::Cexl, text), [expected], "{text}");
    }
    for text in
        [r#"email("x") == email("a@b")"#, r#"uri("http://[::1") == uri("/")"#, r#"dnsName("a:80") == dns1"#]
    {
        assert_eq!(failures(Language::Cexl, text).len(), 1, "{text}");
    }
    let many = vec![r#"ip1 == ip("x")"#; 100].join(" || ");
    assert_eq!(failures(Language::Cexl, &many).len(), 8, "at most");
}

#[test]
fn an_operation_of_cel_that_always_fails_is_found() {
    for (text, expected) in [
        (r#"s1.matches("(")"#, "1:11 error parsing regexp: missing closing ): `(`"),
        (r#"s1.matches("(" + "x")"#, "1:16 error parsing regexp: missing closing ): `(x`"),
        (r#"ip1 == ip("10.0.0.0/8")"#, "1:10 could not convert 10.0.0.0/8 to IP_ADDRESS"),
        (
            r#"t1 > timestamp("2026-01-01")"#,
            "1:15 type conversion error from 'string' to 'google.protobuf.Timestamp'",
        ),
        (r#"i1 == int("a")"#, "1:10 type conversion error from 'string' to 'int'"),
        (r#"b1 || 1 / 0 == i1"#, "1:9 divide by zero"),
        (r#"request.headers.exists(k, k == "x-evil")"#, "1:23 a string map cannot be looped over"),
        ("size(request.headers) > 0", "1:5 size not implemented on stringmaps"),
        (r#"request.headers == {"a": "b"}"#, "1:17 stringmap does not support equality"),
        (r#"{"a": "b"} != request.headers"#, "1:12 stringmap does not support equality"),
        ("type(ip1) == string", "1:5 cannot convert wrapper value  to CEL types"),
        (r#"dns1 == dnsName("a:80")"#, "1:16 idna: disallowed rune U+003A"),
        (r#"b1 && "a" in {"b": ip("x")}"#, "1:22 could not convert x to IP_ADDRESS"),
        (
            r#"["a"].exists(k, s1.matches("(" + k)) || ip("x") == ip1"#,
            "1:43 could not convert x to IP_ADDRESS",
        ),
    ] {
        assert_eq!(failures(Language::Cel, text), [expected], "{text}");
    }
    let compat = r#"ip1 == ip("10.0.0.0/8")"#;
    assert_eq!(failures(Language::Compat, compat), ["1:10 could not convert 10.0.0.0/8 to IP_ADDRESS"]);
}

#[test]
fn what_may_succeed_is_no_finding() {
    for text in [
        r#""^/admin".matches(s1) && match(s1, "*.php")"#,
        r#"s1.matches(s2) && ip(s1) == ip("10.0.0.1")"#,
        r#"t1 > timestamp("2026-01-02T03:04:05Z")"#,
        r#"dnsName(s1) == dnsName("a.example") && email("a@b.example") == email(s2)"#,
        r#"size(s1) > 3 && request.headers["a"] == "b""#,
    ] {
        assert_eq!(failures(Language::Cexl, text), Vec::<String>::new(), "{text}");
    }
    for text in [
        r#"s1.matches("^/admin") || s1.matches(s2)"#,
        r#"["a", "b"].exists(k, k == s1) && ["a"].all(k, k in request.headers)"#,
        r#""a" in request.headers && request.headers["a"] == "b" && has(request.headers.b)"#,
        r#"size(s1) > 0 && size([1]) == 1 && {"a": 1}["a"] == i1"#,
        r#"int("17") == i1 && string(i1) == "17" && type(i1) == int"#,
        r#"ip(s1) == ip1 && ip("10.0.0.1") == ip1"#,
        r#"true || 1 / 0 == 1"#,
        r#"request.headers["(" + s1] == "b" && timestamp("2026-01-02T03:04:05Z") < t1"#,
        r#"(b1 ? request.headers : emptyStringMap())["a"] == s1"#,
    ] {
        assert_eq!(failures(Language::Cel, text), Vec::<String>::new(), "{text}");
    }
}
