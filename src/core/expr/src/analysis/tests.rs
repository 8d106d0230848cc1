mod property;

use crate::{Decided, Language, Program, SuspiciousCall, compile};
use mixer_attribute::{ValueType, Vocabulary};

fn vocabulary() -> Vocabulary {
    let mut builder = Vocabulary::builder();
    for (name, value_type) in [
        ("user", ValueType::String),
        ("name", ValueType::String),
        ("method", ValueType::String),
        ("size", ValueType::Int64),
        ("mtls", ValueType::Bool),
        ("address", ValueType::IpAddress),
        ("age", ValueType::Duration),
        ("at", ValueType::Timestamp),
        ("headers", ValueType::StringMap),
        ("labels", ValueType::StringMap),
        ("host", ValueType::DnsName),
    ] {
        builder.declare(name, value_type);
    }
    builder.build()
}

fn program(language: Language, text: &str) -> Program {
    compile(language, text, &vocabulary()).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// The attribute or entry whose absence skips a refusal. `method` is always there.
fn skipped(language: Language, text: &str) -> String {
    let vocabulary = vocabulary();
    let program = program(language, text);
    let found = program.skipped_without(&|read| vocabulary.name(read.slot) == "method");
    found.map_or_else(String::new, |read| match read.key {
        Some(key) => format!("{}[{}]", vocabulary.name(read.slot), String::from_utf8_lossy(key)),
        None => vocabulary.name(read.slot).to_owned(),
    })
}

/// The text that must not be malformed, and what it must be.
fn malformed(language: Language, text: &str) -> String {
    let vocabulary = vocabulary();
    let program = program(language, text);
    let found = program.skipped_by_malformed();
    found.map_or_else(String::new, |(conversion, _)| {
        let (name, expected) = (vocabulary.name(conversion.read.slot), conversion.expected);
        match conversion.read.key {
            Some(key) => format!("{name}[{}]: {expected}", String::from_utf8_lossy(key)),
            None => format!("{name}: {expected}"),
        }
    })
}

#[test]
fn a_malformed_text_skips_a_condition_that_may_be_true() {
    for language in [Language::Cexl, Language::Cel] {
        for (text, expected) in [
            (r#"dnsName(user) == dnsName("a.example")"#, "user: DNS name"),
            (r#"dnsName(user) != dnsName("a.example")"#, "user: DNS name"),
            (r#"ip(headers["x"]) == ip("10.0.0.1")"#, "headers[x]: IP address"),
            (r#"email(user) == email("a@example.com")"#, "user: e-mail address"),
            (r#"uri(user) == uri("http://a.example/")"#, "user: URI"),
            (r#"timestamp(user) < at"#, "user: time"),
            (r#"host == dnsName("a.example")"#, "host: DNS name"),
            (r#"method == "GET" && ip(user) == address"#, "user: IP address"),
            (r#"ip(user + ".1") == address"#, "user: IP address"),
            (r#"ip(toLower(user)) == address"#, "user: IP address"),
            // Also if another test would be true.
            (r#"(ip(user) == address || method == "GET") && mtls"#, "user: IP address"),
            // Constants are what they are, and what cannot make the condition true skips nothing.
            (r#"address == ip("10.0.0.1")"#, ""),
            (r#"at < timestamp("2026-01-01T00:00:00Z")"#, ""),
            (r#"user == "ann" && size > 10 && mtls"#, ""),
            (r#"1 == 2 && ip(user) == address"#, ""),
        ] {
            assert_eq!(malformed(language, text), expected, "{} {text}", language.name());
        }
    }
    for (text, expected) in [
        (r#"ip(headers["x"] | "10.0.0.1") == address"#, "headers[x]: IP address"),
        (r#"user.matches(name)"#, "user: regular expression"),
        (r#""^a$".matches(name)"#, ""),
        (r#"name.matches("^a$")"#, ""),
        (r#"conditional(mtls, ip(user), address) == address"#, "user: IP address"),
        (r#"ip(conditional(mtls, user, "10.0.0.1")) == address"#, "user: IP address"),
        // What only selects a constant is not converted.
        (r#"ip(conditional(user == "a", "10.0.0.1", "x")) == address"#, ""),
    ] {
        assert_eq!(malformed(Language::Cexl, text), expected, "{text}");
    }
    for (text, expected) in [
        (r#"ip(pick(headers["x"], "10.0.0.1")) == address"#, "headers[x]: IP address"),
        (r#"ip(headers[user]) == address"#, "headers: IP address"),
        (r#"int(headers["x"]) > 7"#, "headers[x]: integer"),
        (r#"int(at) > 7"#, ""),
        (r#"duration(user) > age"#, "user: duration"),
        (r#"name.matches(user)"#, "user: regular expression"),
        (r#"!(ip(user) == address)"#, "user: IP address"),
        (r#"mtls ? ip(user) == address : false"#, "user: IP address"),
    ] {
        assert_eq!(malformed(Language::Cel, text), expected, "{text}");
    }
    let found = program(Language::Cexl, r#"method == "GET" && ip(user) == address"#);
    assert_eq!(found.skipped_by_malformed().map(|(_, position)| position), Some(Some((1, 20))));
}

#[test]
fn absence_skips_a_classic_condition_that_would_be_true() {
    for (text, expected) in [
        // A negative test of something absent would be true.
        (r#"headers["x-token"] != "s3cret""#, "headers[x-token]"),
        (r#"user != "ann""#, "user"),
        (r#"user == """#, "user"),
        (r#"mtls == false"#, "mtls"),
        (r#"size < 10"#, "size"),
        (r#"size != 7"#, "size"),
        (r#"address != ip("10.0.0.1")"#, "address"),
        (r#"user != name"#, "user"),
        (r#"match(user, "*")"#, "user"),
        (r#""^$".matches(user)"#, "user"),
        (r#"toLower(user) != "ann""#, "user"),
        (r#"conditional(user == "ann", false, true)"#, "user"),
        (r#"at >= timestamp("2026-01-01T00:00:00Z")"#, "at"),
        // What is behind a failed operand is not evaluated.
        (r#"user == "mallory" || name == "mallory""#, "user"),
        (r#"headers["a"] == "b" || method == "DELETE""#, "headers[a]"),
        (r#"(user | "") != "ann" && name != "ben""#, "name"),
        (r#"method == "GET" && user != "ann""#, "user"),
        (r#"(user | name) != "ann""#, "name"),
        // A default behind a function is no default for its argument.
        (r#"(toLower(user) | "x") != "ann""#, "user"),
    ] {
        assert_eq!(skipped(Language::Cexl, text), expected, "{text}");
    }
}

#[test]
fn absence_that_changes_nothing_is_no_finding() {
    for text in [
        r#"headers["x-token"] == "bad""#,
        r#"user == "mallory""#,
        r#"user == "mallory" && name == "x""#,
        r#"user == "a" || user == "b""#,
        r#"user == "a" || user == "b" || user.startsWith("c")"#,
        r#"labels["app"] == "ratings" && labels["version"] == "v3""#,
        r#"(headers["x-token"] | "") != "s3cret""#,
        r#"(user | name | "") != "ann""#,
        r#"(mtls | false) == false"#,
        r#"method != "GET""#,
        r#"method != "GET" && user == "mallory""#,
        r#"user == "ann" && user != "ben""#,
        r#"size > 10"#,
        r#"size == 10"#,
        r#"mtls"#,
        r#"mtls == true"#,
        r#"address == ip("10.0.0.1")"#,
        r#"user.startsWith("spiffe://")"#,
        r#"user.endsWith(".svc")"#,
        r#"match(user, "ann*")"#,
        r#""^/admin".matches(user)"#,
        r#"toLower(user) == "ann""#,
        r#"method == "POST" || user == "mallory""#,
        r#"(user | "x") == "y" || name == "z""#,
        r#"conditional(mtls | false, user, "") == "mallory""#,
        "1 == 2",
    ] {
        assert_eq!(skipped(Language::Cexl, text), "", "{text}");
    }
}

#[test]
fn a_missing_entry_skips_a_cel_condition_that_would_be_true() {
    for (text, expected) in [
        (r#"headers["x-token"] != "s3cret""#, "headers[x-token]"),
        (r#"headers.token != "s3cret""#, "headers[token]"),
        (r#"!(headers["x-token"] == "s3cret")"#, "headers[x-token]"),
        (r#"!headers["x"].startsWith("a") && method == "GET""#, "headers[x]"),
        (r#"method == "GET" && headers["x"] != "y""#, "headers[x]"),
        (r#"("x" in labels) || headers["x"] != "y""#, "headers[x]"),
        (r#"headers["x"] in ["a", "b"] ? false : true"#, "headers[x]"),
        // An absent attribute is empty, and either side of `||` may decide.
        (r#"user != "ann""#, ""),
        (r#"headers["x"] == "b" || user == "mallory""#, ""),
        (r#"user == "mallory" || headers["x"] == "b""#, ""),
        (r#"headers["x"] == "b""#, ""),
        (r#""x" in headers && headers["x"] != "y""#, ""),
        (r#"!("x" in headers) || headers["x"] != "y""#, ""),
        (r#"has(headers.token) && headers.token != "y""#, ""),
        (r#"pick(headers["x"], "") != "y""#, ""),
        (r#"(has(headers.token) ? headers.token : "") != "y""#, ""),
        (r#"method == "GET" && user == "x""#, ""),
    ] {
        assert_eq!(skipped(Language::Cel, text), expected, "{text}");
    }
    for (text, expected) in [
        (r#"headers["x-token"] != "s3cret""#, "headers[x-token]"),
        (r#"(headers["x-token"] | "") != "s3cret""#, ""),
        (r#"user != "ann""#, ""),
        (r#"headers["x"] == "b" || method == "GET""#, ""),
    ] {
        assert_eq!(skipped(Language::Compat, text), expected, "COMPAT {text}");
    }
}

fn decided(language: Language, text: &str) -> Option<Decided> {
    program(language, text).decided().map(|(_, decided)| decided)
}

#[test]
fn contradictions_and_tautologies_are_found() {
    for (text, expected) in [
        (r#"user == "a" && user == "b""#, Some(Decided::Never)),
        (r#"user == "a" && name == "x" && user == "b""#, Some(Decided::Never)),
        (r#"(user == "a" || user == "b") && user == "c""#, Some(Decided::Never)),
        (r#"user == "a" && user != "a""#, Some(Decided::Never)),
        (r#"user == "a" && user.startsWith("b")"#, Some(Decided::Never)),
        (r#"user.startsWith("a") && match(user, "b*")"#, Some(Decided::Never)),
        (r#"user.endsWith("a") && match(user, "*b")"#, Some(Decided::Never)),
        (r#"headers["k"] == "a" && headers["k"] == "b""#, Some(Decided::Never)),
        (r#"(user | "") == "a" && (user | "") == "b""#, Some(Decided::Never)),
        (r#"size > 5 && size < 3"#, Some(Decided::Never)),
        (r#"size > 5 && size < 6"#, Some(Decided::Never)),
        (r#"mtls && mtls == false"#, Some(Decided::Never)),
        (r#"user != "a" || user != "b""#, Some(Decided::Always)),
        (r#"size < 5 || size > 3"#, Some(Decided::Always)),
        (r#"(user | "") != "a" || (user | "") != "b""#, Some(Decided::Always)),
    ] {
        assert_eq!(decided(Language::Cexl, text), expected, "{text}");
        if !text.contains('|') || text.contains("||") && !text.contains(" | ") {
            assert_eq!(decided(Language::Cel, text), expected, "CEL {text}");
        }
    }
    assert_eq!(
        decided(Language::Compat, r#"(headers["a"] | "") == "x" && (headers["a"] | "") == "y""#),
        Some(Decided::Never)
    );
}

#[test]
fn conditions_that_depend_on_the_request_are_not_decided() {
    for text in [
        r#"user == "a" || user == "b""#,
        r#"user != "a" && user != "b""#,
        r#"user == "a" && name == "b""#,
        r#"headers["k"] == "a" && headers["l"] == "b""#,
        r#"user.startsWith("a") && user.endsWith("b")"#,
        r#"user.startsWith("a") && user.startsWith("ab")"#,
        r#"user == "ab" && user.startsWith("a") && match(user, "*b")"#,
        r#"user.startsWith("ab") && user.endsWith("bc") && user != "abc""#,
        r#"(user | "a") == "a" && (user | "b") == "b""#,
        r#"(user | name | "z") == "b" && user != "q" && user != "r""#,
        r#"conditional(mtls, user, "b") == "b" && user != "a""#,
        r#"toLower(user) == "abc" && user.startsWith("A")"#,
        r#""^A".matches(user) && user != "a""#,
        r#"size > 3 && size < 5"#,
        r#"size >= 5 && size <= 5"#,
        r#"user == "a" && user == name"#,
        r#""abc".startsWith(user) && user != "x""#,
        r#"user > "a" && user < "b""#,
        r#"mtls || mtls == false || name == "x""#,
    ] {
        let expected = (text.starts_with("mtls ||")).then_some(Decided::Always);
        assert_eq!(decided(Language::Cexl, text), expected, "{text}");
    }
    for text in [
        r#"user in ["a", "b"] && user != "a""#,
        r#"user.contains("a") && user != "a""#,
        r#"["a", "b"].exists(x, x == user) && user != "a""#,
        r#"(mtls ? user : "b") == "b" && user != "a""#,
    ] {
        assert_eq!(decided(Language::Cel, text), None, "CEL {text}");
    }
}

#[test]
fn tests_of_texts_are_found() {
    use crate::Form::{Lower, Part, Whole};
    use crate::TextTestKind::{Contains, End, Equal, Glob, NotEqual, Regex, Start};
    let (ends, open) = (Regex { fixes_the_end: true }, Regex { fixes_the_end: false });
    let (classic, cel) = (Language::Cexl, Language::Cel);
    for (language, text, expected) in [
        (classic, r#"user == "a""#, vec![(Equal, "a", Some(Whole))]),
        (
            classic,
            r#"(user | "") == "a" && "b" != user"#,
            vec![(Equal, "a", Some(Whole)), (NotEqual, "b", Some(Whole))],
        ),
        (
            classic,
            r#"match(user, "a") || match(user, "*b") || match(user, "c*d")"#,
            vec![(Glob, "*b", Some(Whole)), (Glob, "a", Some(Whole)), (Glob, "c*d", Some(Whole))],
        ),
        (
            classic,
            r#"match(user, "a*") || user.startsWith("b")"#,
            vec![(Glob, "a*", Some(Whole)), (Start, "b", Some(Whole))],
        ),
        (
            classic,
            r#"user.endsWith("a") || headers["b"] == "c""#,
            vec![(End, "a", Some(Whole)), (Equal, "c", Some(Whole))],
        ),
        (classic, r#""^/a$".matches(user)"#, vec![(ends, "/a", Some(Whole))]),
        (classic, r#""(^/a$|^/b$)".matches(user)"#, vec![(ends, "", Some(Whole))]),
        (
            classic,
            r#""^/a/.*$".matches(user) || "^/b".matches(user) || "x$".matches(user)"#,
            vec![(ends, "", Some(Whole)), (open, "/a/", Some(Whole)), (open, "/b", Some(Whole))],
        ),
        (
            classic,
            r#""^/a(\\?.*)?$".matches(user) || "a\\$".matches(user)"#,
            vec![(open, "", Some(Whole)), (open, "", Some(Whole))],
        ),
        (classic, r#"(user == "a") == false"#, vec![(Equal, "not a", Some(Whole))]),
        (
            classic,
            r#"toLower(user) == "a" && toLower(user | "").endsWith("b")"#,
            vec![(Equal, "a", Some(Lower)), (End, "b", Some(Lower))],
        ),
        (
            classic,
            r#"conditional(mtls, "", user) == "a" && (name + user) == "b""#,
            vec![(Equal, "a", Some(Part)), (Equal, "b", Some(Part))],
        ),
        (classic, r#"(user + "/") == "a""#, vec![(Equal, "a", None)]),
        (classic, r#""a" == "b""#, vec![]),
        (
            cel,
            r#"toLower(user) == "a" || (mtls ? name + user : "").endsWith("b")"#,
            vec![(Equal, "a", Some(Lower)), (End, "b", Some(Part))],
        ),
        (cel, r#"user == "a" || "b" != user"#, vec![(Equal, "a", Some(Whole)), (NotEqual, "b", Some(Whole))]),
        (
            cel,
            r#"!(user == "a") && user.endsWith("b")"#,
            vec![(End, "b", Some(Whole)), (Equal, "not a", Some(Whole))],
        ),
        (cel, r#"!(user == "a" || mtls)"#, vec![(Equal, "not a", Some(Whole))]),
        (
            cel,
            r#"match(user, "*b") || user.matches("^/a$")"#,
            vec![(Glob, "*b", Some(Whole)), (ends, "/a", Some(Whole))],
        ),
        (
            cel,
            r#"match(user, "a*") || user.matches("^/a")"#,
            vec![(open, "/a", Some(Whole)), (Glob, "a*", Some(Whole))],
        ),
        (
            cel,
            r#"user in ["a", name, "b"] || user.contains("c") || "k" in headers"#,
            vec![(Equal, "a", Some(Whole)), (Equal, "b", Some(Whole)), (Contains, "c", Some(Whole))],
        ),
    ] {
        let program = program(language, text);
        let mut found: Vec<_> = program
            .text_tests()
            .into_iter()
            .map(|test| {
                let not = if test.is_negated { "not " } else { "" };
                let text = format!("{not}{}", String::from_utf8_lossy(&test.text));
                (test.kind, text, test.operands.first().map(|operand| operand.form))
            })
            .collect();
        found.sort_by(|a, b| a.1.cmp(&b.1));
        let expected: Vec<_> =
            expected.into_iter().map(|(kind, text, form)| (kind, text.to_owned(), form)).collect();
        assert_eq!(found, expected, "{text}");
    }
}

/// What a text may be instead of the attribute is no surprise.
#[test]
fn operands_have_their_defaults() {
    for (language, text, expected) in [
        (Language::Cexl, r#"(user | "none") == "a""#, Some("none")),
        (Language::Cexl, r#"(headers["x"] | "none") == "a""#, Some("none")),
        (Language::Cel, r#"pick(headers["x"], "none") == "a""#, Some("none")),
        (Language::Cexl, r#"user == "a""#, None),
        (Language::Cel, r#"user == "a""#, None),
    ] {
        let program = program(language, text);
        let tests = program.text_tests();
        let default = tests[0].operands[0].default.map(String::from_utf8_lossy);
        assert_eq!(default.as_deref(), expected, "{text}");
    }
    let value = program(Language::Cexl, r#"user | "none""#);
    assert_eq!(value.value_operands()[0].default, Some(&b"none"[..]));
    assert_eq!(program(Language::Cexl, "size + 1").value_operands(), []);
}

#[test]
fn suspicious_calls_are_found() {
    let calls = |language, text: &str| {
        let calls = program(language, text).suspicious_calls().into_iter();
        calls
            .map(|(_, call)| match call {
                SuspiciousCall::ReversedMatches { meant } => meant,
                SuspiciousCall::ReversedArguments { function, meant } => format!("{function}: {meant}"),
                SuspiciousCall::UnusedDefault => "unused".to_owned(),
                SuspiciousCall::OutOfRange { function, least, most, constant, decided, .. } => {
                    format!("{constant} {decided:?} {function} {least}..{most}")
                }
            })
            .collect::<Vec<_>>()
    };
    for (language, text, expected) in [
        (Language::Cexl, r#"user.matches("^/a")"#, vec![r#""^/a".matches(user)"#]),
        (Language::Cexl, r#""^/a".matches(user)"#, vec![]),
        (Language::Cexl, r#"headers["pattern"].matches(user)"#, vec![]),
        (Language::Cel, r#""^/a".matches(user)"#, vec![r#"ATTRIBUTE.matches("^/a")"#]),
        (Language::Cel, r#"user.matches("^/a")"#, vec![]),
        (Language::Compat, r#""^/a".matches(user)"#, vec![r#"ATTRIBUTE.matches("^/a")"#]),
        (Language::Cexl, r#"match(user, "a*") && match(name, "*b")"#, vec![]),
        (Language::Cexl, r#"match(user, "*") && match(name, "a")"#, vec![]),
        (Language::Cexl, r#"match("/x*", user)"#, vec![r#"match: match(user, "/x*")"#]),
        (Language::Cexl, r#""/x".startsWith(user)"#, vec![r#"startsWith: user.startsWith("/x")"#]),
        (Language::Cexl, r#""/x".endsWith(user)"#, vec![r#"endsWith: user.endsWith("/x")"#]),
        (Language::Cexl, r#"user.startsWith(name) && match(user, name)"#, vec![]),
        (Language::Cel, r#"match("/x*", user)"#, vec![r#"match: match(ATTRIBUTE, "/x*")"#]),
        (Language::Cel, r#""/x".startsWith(user)"#, vec![r#"startsWith: ATTRIBUTE.startsWith("/x")"#]),
        (Language::Cel, r#"user.startsWith("/x") || user.endsWith(name)"#, vec![]),
        (Language::Cexl, r#"(user | "") == "eve" | "mallory""#, vec!["unused"]),
        (Language::Cexl, r#"user == ("eve" | "mallory")"#, vec!["unused"]),
        (Language::Cexl, r#"(user == "x") | (user == "y")"#, vec!["unused"]),
        (Language::Cexl, r#"(user | "x" | "y") == "x""#, vec!["unused"]),
        (Language::Cexl, r#"((user | "x") | name) == "x""#, vec!["unused"]),
        (Language::Cexl, r#"(user | name | "") == "x""#, vec![]),
        (Language::Cexl, r#"(headers["a"] | headers["b"] | "") == "x""#, vec![]),
        (Language::Cexl, r#"(headers[user] | "") == "x""#, vec![]),
        (Language::Compat, r#"(user | "") == "eve" | "mallory""#, vec!["unused"]),
        (Language::Compat, r#"(headers["a"] | "") == "eve" || user == "mallory""#, vec![]),
        (Language::Cel, r#"pick(user, "") == pick("eve", "mallory")"#, vec!["unused"]),
        (Language::Cel, r#"pick(headers["a"], headers["b"], "") == "eve""#, vec![]),
        (Language::Cel, "at.getDayOfWeek() == 7", vec!["7 Never getDayOfWeek 0..6"]),
        (Language::Cel, r#"at.getHours("Europe/Berlin") >= 24"#, vec!["24 Never getHours 0..23"]),
        (Language::Cel, "12 == at.getMonth()", vec!["12 Never getMonth 0..11"]),
        (Language::Cel, "at.getMonth() != 12", vec!["12 Always getMonth 0..11"]),
        (Language::Cel, "at.getDayOfWeek() in [5, 6, 7]", vec!["7 Never getDayOfWeek 0..6"]),
        (Language::Cel, "at.getDate() < 1", vec!["1 Never getDate 1..31"]),
        (Language::Cel, "60 > at.getMinutes()", vec!["60 Always getMinutes 0..59"]),
        (Language::Cel, "at.getSeconds() > 59", vec!["59 Never getSeconds 0..59"]),
        (Language::Cel, "at.getMilliseconds() <= -1", vec!["-1 Never getMilliseconds 0..999"]),
        (Language::Cel, "at.getDayOfMonth() == 31", vec!["31 Never getDayOfMonth 0..30"]),
        (Language::Cel, "at.getDayOfYear() == 367", vec!["367 Never getDayOfYear 1..366"]),
        (Language::Cel, "at.getDayOfWeek() == 6 && at.getHours() >= 8 && at.getHours() < 17", vec![]),
        (Language::Cel, "at.getFullYear() > 2020 && age.getHours() >= 24", vec![]),
    ] {
        // The classic parser needs parentheses around an index before a method.
        let text = text.replace(r#"headers["pattern"].m"#, r#"(headers["pattern"]).m"#);
        assert_eq!(calls(language, &text), expected, "{text}");
    }
    let reversed = program(Language::Cexl, r#"user == "a" && match("a*", user)"#).suspicious_calls();
    assert_eq!(reversed.first().and_then(|(position, _)| *position), Some((1, 16)));
}

#[test]
fn examined_conditions_are_bounded() {
    let chain = |count: usize| {
        let tests = (0..count).map(|i| format!(r#"user == "u{i}""#)).collect::<Vec<_>>();
        tests.join(" || ") + r#" || name != "x""#
    };
    assert_eq!(skipped(Language::Cexl, &chain(super::MAX_NODES / 2)), "user");
    assert_eq!(skipped(Language::Cexl, &chain(super::MAX_NODES)), "");
    let deep = format!("{}user{}", "toLower(".repeat(200), ")".repeat(200)) + r#" != "x""#;
    assert_eq!(skipped(Language::Cexl, &deep), "", "nothing is known of what is nested too deeply");
}

/// Nothing found means that there is nothing.
#[test]
fn what_is_not_examined_may_be_skipped() {
    let may_be = |language, text: &str| program(language, text).may_be_skipped(&|_| false);
    for (text, expected) in [
        (r#"user == "bot""#, false),
        (r#"user != "bot""#, true),
        (r#"ip(headers["x"] | "") == address"#, true),
        (r#"toLower(user) == "bot" && mtls"#, false),
    ] {
        assert_eq!(may_be(Language::Cexl, text), expected, "{text}");
    }
    for (text, expected) in [
        (r#"headers["x"] == "free""#, false),
        (r#"headers["x"] != "free""#, true),
        (r#"headers[user] == "free""#, true),
        (r#"int(headers["x"]) > 7"#, true),
    ] {
        assert_eq!(may_be(Language::Cel, text), expected, "{text}");
    }
    let chain = |count: usize, test: &dyn Fn(usize) -> String| (0..count).map(test).collect::<Vec<_>>();
    let large = chain(super::MAX_NODES, &|i| format!(r#"user == "u{i}""#)).join(" || ");
    let keys = |count| chain(count, &|i| format!(r#"headers["{i}"] == "free""#)).join(" && ");
    let same = chain(super::MAX_SUBJECTS + 1, &|i| format!(r#"headers["x"] == "{i}""#)).join(" || ");
    let deep = format!("{}user{}", "toLower(".repeat(200), ")".repeat(200)) + r#" == "x""#;
    for (language, text, expected) in [
        (Language::Cexl, &large, true),
        (Language::Cexl, &deep, true),
        (Language::Cel, &large, true),
        (Language::Cel, &keys(super::MAX_SUBJECTS), false),
        (Language::Cel, &keys(super::MAX_SUBJECTS + 1), true),
        (Language::Cel, &same, false),
    ] {
        assert_eq!(may_be(language, text), expected, "{}", text.get(..60).unwrap_or(text));
    }
}
