//! Parts of expressions that fail for every request.

use super::*;

/// `LINE:COLUMN MESSAGE` of every finding, in front of it `may:` if it is of some requests.
fn failures(language: Language, text: &str) -> Vec<String> {
    let program = compile(language, text, &vocabulary()).unwrap_or_else(|error| panic!("{text}: {error}"));
    let found = program.failures().iter().map(|failure| {
        let (line, column) = failure.position.expect("a position");
        assert!(!failure.hint.is_empty(), "{text}");
        let may = if failure.is_certain { "" } else { "may: " };
        format!("{may}{line}:{column} {}", failure.message)
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

/// Of constants that an operand may be.
#[test]
fn a_constant_behind_a_choice_is_found() {
    let of_address = "could not convert x to IP_ADDRESS";
    let of_pattern = "error parsing regexp: missing closing ): `(`";
    for (text, expected) in [
        // Whatever is chosen fails.
        (
            r#"ip(conditional(b1, "x", "y")) == ip1"#,
            vec![format!("1:20 {of_address}"), "1:25 could not convert y to IP_ADDRESS".into()],
        ),
        (r#"ip(conditional(true, "x", s1)) == ip1"#, vec![format!("1:22 {of_address}")]),
        (r#"ip(toLower(conditional(false, s1, "X"))) == ip1"#, vec![format!("1:35 {of_address}")]),
        (r#"ip("x" | "y") == ip1"#, vec![format!("1:4 {of_address}")]),
        (r#"ip(conditional(true, "", s1)) == ip1"#, vec!["1:22 could not convert  to IP_ADDRESS".into()]),
        (
            r#"s1 == "a" && ip("10.0.0." + conditional(b1, "x", "300")) == ip1"#,
            vec![
                "1:17 could not convert 10.0.0.x to IP_ADDRESS".into(),
                "1:17 could not convert 10.0.0.300 to IP_ADDRESS".into(),
            ],
        ),
        (
            r#"dnsName(conditional(true, "a:80", s1)) == dns1"#,
            vec!["1:27 idna: disallowed rune U+003A".into()],
        ),
        // One choice fails.
        (r#"ip(conditional(b1, "x", "10.0.0.1")) == ip1"#, vec![format!("may: 1:20 {of_address}")]),
        (
            r#"ip(conditional(b1, "10.0.0.1", conditional(b1, s1, "x"))) == ip1"#,
            vec![format!("may: 1:52 {of_address}")],
        ),
        (r#"conditional(b1, "(", "a").matches(s1)"#, vec![format!("may: 1:17 {of_pattern}")]),
        (r#"ip(s1 | "x") == ip1"#, vec![format!("may: 1:4 {of_address}")]),
        (r#"ip(s1 | s2 | "x") == ip1"#, vec![format!("may: 1:14 {of_address}")]),
        (r#"ip(request.headers["a"] | "x") == ip1"#, vec![format!("may: 1:4 {of_address}")]),
        // A constant that is reported where it is.
        (r#"conditional(b1, ip("x"), ip1) == ip1"#, vec![format!("1:17 {of_address}")]),
    ] {
        assert_eq!(failures(Language::Cexl, text), expected, "{text}");
    }
    for (text, expected) in [
        (
            r#"ip(b1 ? "x" : "y") == ip1"#,
            vec![format!("1:9 {of_address}"), "1:15 could not convert y to IP_ADDRESS".into()],
        ),
        (r#"ip(true ? "x" : s1) == ip1"#, vec![format!("1:11 {of_address}")]),
        (
            r#"ip("10.0.0." + (b1 ? "x" : "1")) == ip1"#,
            vec!["may: 1:22 could not convert 10.0.0.x to IP_ADDRESS".into()],
        ),
        (r#"s1.matches(b1 ? "(" : "a")"#, vec![format!("may: 1:17 {of_pattern}")]),
        (
            r#"s1.matches(b1 ? "(" : "(" + "(")"#,
            vec![format!("1:17 {of_pattern}"), "1:27 error parsing regexp: missing closing ): `((`".into()],
        ),
        (r#"i1 == 1 / (b1 ? 0 : 1)"#, vec!["may: 1:17 divide by zero".into()]),
        (r#"dns1 == dnsName(b1 ? "a:80" : "a")"#, vec!["may: 1:22 idna: disallowed rune U+003A".into()]),
        (r#"["a"].exists(k, ip(b1 ? "x" : k) == ip1)"#, vec![format!("may: 1:25 {of_address}")]),
    ] {
        assert_eq!(failures(Language::Cel, text), expected, "{text}");
    }
    let compat = r#"ip(conditional(b1, "x", "10.0.0.1")) == ip(request.headers["a"] | "x")"#;
    // The right operand is compiled first.
    let expected = [format!("may: 1:67 {of_address}"), format!("may: 1:20 {of_address}")];
    assert_eq!(failures(Language::Compat, compat), expected);
}

/// Findings of some requests leave room for those of every request.
#[test]
fn possible_failures_hide_no_certain_one() {
    let many = vec![r#"ip(request.headers["a"] | "x") == ip1"#; 20].join(" || ");
    for language in [Language::Cexl, Language::Compat] {
        let found = failures(language, &format!(r#"{many} || ip1 == ip("y")"#));
        assert_eq!(found.len(), 9, "{language:?}: {found:?}");
        assert_eq!(found.iter().filter(|one| !one.starts_with("may")).count(), 1, "{language:?}: {found:?}");
    }
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

/// An argument that fails with every value of the other operand.
#[test]
fn a_constant_argument_of_cel_that_always_fails_is_found() {
    for (text, expected) in [
        (r#"t1.getFullYear("Europe/Berln") > 2020"#, "1:16 unknown time zone Europe/Berln"),
        (r#"b1 && t1.getHours("UTC+1") < 8"#, "1:19 unknown time zone UTC+1"),
        (r#"t1.getHours("+01:00") < 8"#, "1:13 unknown time zone +01:00"),
        (r#"t1.getHours("Europe/" + "Berln") < 8"#, "1:23 unknown time zone Europe/Berln"),
        ("i1 % 0 == 0", "1:6 modulus by zero"),
        ("i1 / 0 == 1", "1:6 divide by zero"),
        ("i1 / (2 - 2) == 1", "1:9 divide by zero"),
        ("d1 / 0.0 > 1.0", "1:6 divide by zero"),
    ] {
        assert_eq!(failures(Language::Cel, text).first().map(String::as_str), Some(expected), "{text}");
    }
    for text in [
        r#"t1.getHours("Europe/Berlin") < 8"#,
        r#"t1.getHours("Etc/GMT-1") < 8"#,
        r#"t1.getHours("") < 8"#,
        r#"t1.getHours("Local") < 8"#,
        "t1.getHours(s1) < 8",
        "i1 % 2 == 0",
        "i1 / i1 == 1",
        "0 / i1 == 0",
    ] {
        assert_eq!(failures(Language::Cel, text), [""; 0], "{text}");
    }
}

/// Patterns that an expression may have, each of which takes time: not all of them are compiled to see whether they fail.
#[test]
fn not_all_patterns_that_may_be_chosen_are_looked_at() {
    let of = |language: Language, pattern: &str| match language {
        Language::Cexl => format!(r#"conditional(b1, "{pattern}", s2).matches(s1)"#),
        _ => format!(r#"s1.matches(b1 ? "{pattern}" : s2)"#),
    };
    let put_together = |pattern: &str| format!(r#"s1.matches("{pattern}" + "")"#);
    let large = |number: usize| format!("x{number}(\\\\pL{{900}})");
    for language in [Language::Cexl, Language::Cel] {
        // Which operand is looked at first depends on the language.
        let both = |others: &[String]| {
            let last = [others, &[of(language, "(")]].concat().join(" || ");
            let first = [&[of(language, "(")], others].concat().join(" || ");
            [failures(language, &last), failures(language, &first)]
        };
        let found = both(&[of(language, &large(1))]);
        assert!(found.iter().flatten().all(|text| text.starts_with("may: ")), "{found:?}");
        let mut counts = found.each_ref().map(Vec::len);
        counts.sort_unstable();
        assert_eq!(counts, [1, 2], "{found:?}");
        let alone = found.iter().find(|found| found.len() == 1).unwrap();
        assert!(alone[0].contains("too large"), "{found:?}");
        let many = |count: usize| {
            let others: Vec<String> = (0..count).map(|number| of(language, &format!("a{number}"))).collect();
            both(&others).iter().map(Vec::len).sum::<usize>()
        };
        assert_eq!((many(63), many(64)), (2, 1), "{language:?}");
    }
    // What does not depend on a request is not evaluated on the way.
    let constant = format!(r#"("x".matches("{}" + "") ? 1 : 2) == i1"#, large(3));
    for large in [put_together(&large(2)), constant] {
        let small = put_together("(");
        let orders = [format!("{large} || {small}"), format!("{small} || {large}")];
        let mut counts = orders.each_ref().map(|text| failures(Language::Cel, text).len());
        counts.sort_unstable();
        assert_eq!(counts, [1, 2], "{large}");
    }
}

#[test]
fn what_may_succeed_is_no_finding() {
    for text in [
        r#""^/admin".matches(s1) && match(s1, "*.php")"#,
        r#"s1.matches(s2) && ip(s1) == ip("10.0.0.1")"#,
        r#"t1 > timestamp("2026-01-02T03:04:05Z")"#,
        r#"dnsName(s1) == dnsName("a.example") && email("a@b.example") == email(s2)"#,
        r#"size(s1) > 3 && request.headers["a"] == "b""#,
        r#"ip(conditional(b1, "10.0.0.1", "10.0.0.2")) == ip1 && ip(conditional(true, "10.0.0.1", "x")) == ip1"#,
        r#"ip(s1 | "") == ip1 && ip(conditional(b1, "", s1)) == ip1"#,
        r#"ip(conditional(b1, s1, s2)) == ip1 && conditional(b1, "a", s1).matches(s2)"#,
        r#"dnsName(s1 | "a") == dns1 && ip("10.0.0." + conditional(b1, "1", "2")) == ip1"#,
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
        r#"ip(b1 ? "10.0.0.1" : "10.0.0." + "2") == ip1 && ip(true ? "10.0.0.1" : "x") == ip1"#,
        r#"ip(pick(request.headers["a"], "")) == ip1"#,
        r#"s1.matches(b1 ? "a" : s2) && {"a": 1, "b": 2}[b1 ? "a" : "b"] == i1 && (b1 ? 1 : 2) / 2 == i1"#,
    ] {
        assert_eq!(failures(Language::Cel, text), Vec::<String>::new(), "{text}");
    }
}
