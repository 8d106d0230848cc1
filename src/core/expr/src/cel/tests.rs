//! Tests of the whole CEL engine, besides the golden cases.

use bumpalo::Bump;
use proptest::prelude::*;

use super::CelProgram;
use crate::{CompileError, EvalError, Language, Phase};
use mixer_attribute::{AttributeBag, SignedDuration, StringMap, Timestamp, Value, ValueType, Vocabulary};

fn vocabulary() -> Vocabulary {
    let mut builder = Vocabulary::builder();
    for (name, value_type) in [
        ("s", ValueType::String),
        ("n", ValueType::Int64),
        ("d", ValueType::Double),
        ("b", ValueType::Bool),
        ("t", ValueType::Timestamp),
        ("dur", ValueType::Duration),
        ("m", ValueType::StringMap),
        ("ip", ValueType::IpAddress),
        ("request.host", ValueType::String),
        ("request.headers", ValueType::StringMap),
        ("untyped", ValueType::Unspecified),
    ] {
        builder.declare(name, value_type);
    }
    for name in ["request.body.text", "ratelimit.key"] {
        builder.declare_built_in(name, ValueType::String);
    }
    builder.build()
}

/// They need no manifest, in no language.
#[test]
fn built_in_attributes_are_parts_of_objects() {
    for text in ["request.body.text == \"a\"", "ratelimit.key.startsWith(\"a\") || has(request.body)"] {
        let compiled = CelProgram::compile(text, &vocabulary(), Language::Cel);
        assert!(compiled.is_ok(), "{text}: {:?}", compiled.err());
    }
    for text in
        ["request.body == \"a\"", "request.bod.text == \"a\"", "ratelimi.key == \"a\"", "reques == \"\""]
    {
        assert!(CelProgram::compile(text, &vocabulary(), Language::Cel).is_err(), "{text}");
    }
}

fn with_result<T>(
    language: Language,
    text: &str,
    seen: impl FnOnce(Result<(ValueType, Result<Value<'_>, EvalError<'_>>), CompileError>) -> T,
) -> T {
    let vocabulary = vocabulary();
    let program = match CelProgram::compile(text, &vocabulary, language) {
        Ok(program) => program,
        Err(error) => return seen(Err(error)),
    };
    let map = StringMap { entries: &[(b"k", b"v"), (b"x-y", b"z")], source: None };
    let arena = Bump::new();
    let mut bag = AttributeBag::empty(&vocabulary, &arena);
    for (name, value) in [
        ("s", Value::String(b"alpha")),
        ("n", Value::Int64(3)),
        ("d", Value::Double(2.5)),
        ("b", Value::Bool(true)),
        ("t", Value::Timestamp(Timestamp { seconds: 1_527_854_400, nanos: 0 })),
        ("dur", Value::Duration(SignedDuration::from_secs(90))),
        ("m", Value::StringMap(&map)),
        ("ip", Value::Bytes(&[10, 0, 0, 1])),
        ("request.host", Value::String(b"web")),
    ] {
        bag.set(vocabulary.slot(name.as_bytes()).unwrap(), value);
    }
    seen(Ok((program.value_type(), program.eval(&bag))))
}

/// The value or the error as text.
fn outcome(text: &str) -> String {
    with_result(Language::Cel, text, |result| match result {
        Ok((_, Ok(value))) => format!("{value:?}"),
        Ok((_, Err(error))) => format!("eval: {error}"),
        Err(error) => format!("static: {error}"),
    })
}

fn refusal(text: &str) -> CompileError {
    with_result(Language::Cel, text, |result| result.map(|_| ()).unwrap_err())
}

#[test]
fn operators_have_the_precedence_of_cel() {
    for (text, expected) in [
        ("1 + 2 * 3 - 4 / 2 % 3", "Int64(5)"),
        ("1 < 2 == true", "Bool(true)"),
        ("b ? 1 : b ? 2 : 3", "Int64(1)"),
        ("!b ? 1 : b ? 2 : 3", "Int64(2)"),
        ("b && !b || b", "Bool(true)"),
        ("---1", "Int64(-1)"),
        ("!!b", "Bool(true)"),
        ("!!s", "String([97, 108, 112, 104, 97])"),
        ("1 - -n", "Int64(4)"),
        ("-9223372036854775808", "Int64(-9223372036854775808)"),
        ("[1, 2,][1]", "Int64(2)"),
        ("size([,])", "Int64(0)"),
    ] {
        assert_eq!(outcome(text), expected, "{text}");
    }
}

#[test]
fn logical_operators_ignore_faults_of_the_other_side() {
    for (text, expected) in [
        ("1/0 == 1 || b", "Bool(true)"),
        ("b || 1/0 == 1", "Bool(true)"),
        ("1/0 == 1 && !b", "Bool(false)"),
        ("1/0 == 1 && b", "eval: divide by zero"),
        ("b && 1/0 == 1", "eval: no such overload"),
        ("m[\"no\"] != \"\"", "eval: no such overload: _!=_"),
        ("m[\"no\"] == \"\"", "eval: no such key: 'no'"),
        ("[0, 1].exists(x, 1 / x == 1)", "Bool(true)"),
        (".s", "eval: failed to recover of type unknown"),
        ("b || .b", "Bool(true)"),
    ] {
        assert_eq!(outcome(text), expected, "{text}");
    }
}

#[test]
fn macros_iterate_over_lists_and_keys() {
    for (text, expected) in [
        ("[1, 2, 3].map(x, x * n)[2]", "Int64(9)"),
        ("[1, 2, 3].map(x, x > 1, x * 10)[0]", "Int64(20)"),
        ("[1, 2, 3].filter(x, x > 1).size()", "Int64(2)"),
        ("[1, 2, 2].exists_one(x, x == 2)", "Bool(false)"),
        ("{\"a\": 1}.all(k, k == \"a\")", "Bool(true)"),
        ("[[1], [2, 3]].map(x, x.map(y, y + 1))[1][1]", "Int64(4)"),
        ("[1].all(n, n == 1)", "Bool(true)"),
        ("m.all(k, true)", "eval: a string map cannot be looped over"),
    ] {
        assert_eq!(outcome(text), expected, "{text}");
    }
}

#[test]
fn pick_returns_the_first_present_operand() {
    for (text, expected) in [
        ("pick(request.headers, m)[\"k\"]", "String([118])"),
        ("pick(m[\"no\"], m.no, request.host)", "String([119, 101, 98])"),
        ("pick(s, \"d\") == \"alpha\"", "Bool(true)"),
        ("pick(\"c\", \"d\") == \"c\"", "Bool(true)"),
    ] {
        assert_eq!(outcome(text), expected, "{text}");
    }
    for text in ["pick()", "pick(has(m.k), b)", "pick({}.a, \"b\")"] {
        assert_eq!(refusal(text).phase, Phase::Static, "{text}");
    }
}

#[test]
fn objects_are_values() {
    for (text, expected) in [
        ("[request][0].host", "String([119, 101, 98])"),
        ("[request, 1][0].host", "String([119, 101, 98])"),
        ("has([request, 1][0].headers)", "Bool(false)"),
        ("request == request", "eval: attribute message does not support equality"),
        ("request", "eval: failed to recover of type .request"),
    ] {
        assert_eq!(outcome(text), expected, "{text}");
    }
}

#[test]
fn problems_have_positions_and_hints() {
    let error = refusal("s == \"a\" &&\n  reqest.host == \"b\"");
    assert_eq!(error.position, Some((2, 3)));
    assert_eq!(error.unknown_attribute.as_deref(), Some("reqest.host"));
    assert_eq!(error.hint.as_deref(), Some("did you mean `request.host`?"));
    assert_eq!(
        error.message,
        "ERROR: <input>:2:3: undeclared reference to 'reqest' (in container '')\n |   reqest.host == \"b\"\n | ..^"
    );
    let error = refusal("request.hots");
    assert_eq!(error.unknown_attribute.as_deref(), Some("request.hots"));
    assert_eq!(error.message, "ERROR: <input>:1:8: undefined field 'hots'\n | request.hots\n | .......^");
    let error = refusal("\"admin\" in request.headers[\"roles\"]");
    assert!(error.hint.unwrap().contains("text.matches(\"(^|,)item(,|$)\")"));
    let error = refusal("request.headers.get(\"x-user\", \"\") == \"a\"");
    assert!(error.hint.unwrap().contains("pick(map[\"key\"], \"\")"));
    let error = refusal("has(request.headers[\"x-user\"])");
    assert!(error.hint.unwrap().contains("\"x-user\" in request.headers"));
    let error = refusal("s | \"x\"");
    assert!(error.hint.unwrap().contains("pick"));
    let error = refusal("n + s == 1 || s + 1 == s");
    assert_eq!(error.message.matches("ERROR").count(), 2);
}

#[test]
fn long_and_deep_texts_are_limited() {
    let nested = |depth: usize| format!("{}n{}", "(".repeat(depth), ")".repeat(depth));
    assert_eq!(outcome(&nested(550)), "Int64(3)");
    assert!(outcome(&nested(5000)).starts_with("static: ERROR"));
    for deep in [nested(550), format!("{}s{}", "string(".repeat(550), ")".repeat(550))] {
        assert!(with_result(Language::Compat, &deep, |result| result.is_ok()));
    }
    assert!(with_result(Language::Compat, &nested(50_000), |result| result.is_err()));
    assert!(with_result(Language::Compat, &format!("{}s", "s | ".repeat(5000)), |result| result.is_ok()));
    let chain = |operand: &str, count: usize| vec![operand; count].join("");
    assert_eq!(outcome(&format!("n{}", chain(" + n", 5000))), "Int64(15003)");
    assert_eq!(outcome(&format!("{}n", "b ? n : ".repeat(5000))), "Int64(3)");
    assert!(outcome(&"-(".repeat(590)).starts_with("static: ERROR"));
    assert_eq!(outcome(&format!("{}n{}", "1 + (".repeat(590), ")".repeat(590))), "Int64(593)");
    let loops = format!("{}n{}", "[n].map(x, ".repeat(40), ")".repeat(40));
    assert!(outcome(&loops).contains("macros are nested deeper"));
    assert_eq!(outcome(&format!("b{}", chain(" && b", 5000))), "Bool(true)");
    assert!(outcome(&"[".repeat(100_000)).starts_with("static: ERROR"));
    assert!(outcome(&"-".repeat(100_000)).starts_with("static: ERROR"));
    assert!(outcome(&format!("n{}", ".x".repeat(50_000))).starts_with("static: ERROR"));
    assert!(outcome(&format!("m{}", "[m".repeat(50_000))).starts_with("static: ERROR"));
}

#[test]
fn evaluation_is_bounded() {
    let doubling = format!("[\"0123456789\"]{}.size()", ".map(x, x + x)".repeat(60));
    let too_much = "eval: expressions make more than 8 MiB of long texts in this request";
    assert_eq!(outcome(&doubling), too_much);
    let lists = format!("[[1]]{}.size()", ".map(x, x + x)".repeat(60));
    assert_eq!(outcome(&lists), "eval: expression takes more than 200000 steps");
    let ten = "[0,1,2,3,4,5,6,7,8,9]";
    let mut nested = "true".to_owned();
    for _ in 0..8 {
        nested = format!("{ten}.all(x, {nested})");
    }
    assert_eq!(outcome(&nested), "eval: expression takes more than 200000 steps");
    let picks = (0..40).fold("\"k\"".to_owned(), |key, _| format!("pick(m[{key}], \"k\")"));
    assert!(outcome(&picks).starts_with("eval: expression takes"), "{}", outcome(&picks));
    let types = format!("[1]{}.size()", ".map(x, {x: x})".repeat(60));
    assert!(outcome(&types).contains("too large"), "{}", outcome(&types));
}

/// To refuse a pattern takes as long as to compile the largest that is allowed: another one is not tried.
#[test]
fn an_expression_is_refused_by_its_first_large_pattern() {
    let patterns = (0..3_000).map(|number| format!(r#"s.matches("(\\pL{{800}}){number}")"#));
    let text = patterns.collect::<Vec<_>>().join(" || ");
    let error = refusal(&text);
    assert!(error.message.contains("too large"), "{error:?}");
}

/// Patterns that a list has are compiled with the expression, and count as those of the configuration, however many they are.
#[test]
fn the_patterns_of_a_list_are_compiled_once() {
    let list = |more: &str| {
        let patterns: Vec<String> = (0..200).map(|number| format!(r#""^x{number}a*$""#)).collect();
        format!("[{}{more}]", patterns.join(", "))
    };
    let count =
        |text: &str| CelProgram::compile(text, &vocabulary(), Language::Cel).unwrap().patterns().len();
    let matches_one = |list: &str| format!("{list}.exists(p, s.matches(p))");
    assert_eq!(count(&matches_one(&list(""))), 200);
    assert_eq!(outcome(&matches_one(&list(""))), "Bool(false)");
    assert_eq!(outcome(&matches_one(&list(r#", "^al.*$""#))), "Bool(true)");
    assert_eq!(outcome(&format!("{}.all(p, s.matches(p))", list(""))), "Bool(false)");
    // Of texts that are no patterns, none is compiled; one that is invalid fails when it is used.
    assert_eq!(count(&format!("s in {}", list(r#", "(""#))), 0);
    assert_eq!(count(&matches_one(&list(r#", "(""#))), 200);
    assert!(outcome(&matches_one(r#"["("]"#)).starts_with("eval: "), "{}", outcome(&matches_one(r#"["("]"#)));
    assert_eq!(outcome(&matches_one(r#"["(", "alpha"]"#)), "Bool(true)");
    let error = refusal(&matches_one(&list(r#", "(\\pL{800})1", "(\\pL{800})2""#)));
    assert!(error.message.contains("too large"), "{error:?}");
}

const FRAGMENTS: &[&str] = &[
    "s",
    "n",
    "d",
    "b",
    "t",
    "dur",
    "m",
    "ip",
    "request",
    ".host",
    ".headers",
    "untyped",
    "nope",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ",",
    ":",
    "?",
    " + ",
    " - ",
    " * ",
    " / ",
    " % ",
    " == ",
    " != ",
    " < ",
    " && ",
    " || ",
    " in ",
    "!",
    "-",
    "1",
    "0",
    "9223372036854775807",
    "1u",
    "2.5",
    "\"k\"",
    "'a'",
    "b'x'",
    "r\"\\\"",
    "null",
    "true",
    "false",
    "has(m.k)",
    "has(",
    "pick(",
    "size(",
    "int(",
    "uint(",
    "double(",
    "string(",
    "bytes(",
    "type(",
    "dyn(",
    "timestamp(",
    "duration(\"1h\")",
    "duration(",
    ".map(x, ",
    ".all(x, ",
    ".exists(x, ",
    ".exists_one(x, ",
    ".filter(x, ",
    "x",
    ".getHours()",
    ".getMonth(\"UTC\")",
    ".matches(\"(\")",
    ".startsWith(s)",
    ".reverse()",
    "ip(",
    "uri(",
    "dnsName(",
    "email(",
    "emptyStringMap()",
    "conditional(b, ",
    " | ",
    "`r`",
    "__result__",
    "\u{fc}",
];

proptest! {
    #[test]
    fn no_text_makes_it_panic(parts in prop::collection::vec(prop::sample::select(FRAGMENTS), 1..16)) {
        let text = parts.concat();
        for language in [Language::Cel, Language::Compat] {
            with_result(language, &text, |_| ());
        }
    }

    #[test]
    fn no_characters_make_it_panic(text in "\\PC{0,40}") {
        with_result(Language::Cel, &text, |_| ());
        with_result(Language::Compat, &text, |_| ());
    }

    #[test]
    fn well_formed_texts_never_panic(text in expression()) {
        let shown = outcome(&text);
        prop_assert!(!shown.contains("Syntax error"), "{text}: {shown}");
    }
}

/// Syntactically valid texts; about half of them type-check.
fn expression() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec![
        "s",
        "n",
        "d",
        "b",
        "t",
        "dur",
        "m",
        "ip",
        "request.host",
        "m[\"k\"]",
        "m.no",
        "1",
        "0",
        "-7",
        "2.5",
        "\"k\"",
        "true",
        "null",
        "[1, 2]",
        "[]",
        "{\"k\": s}",
        "3u",
        "b\"x\"",
        "duration(\"1s\")",
        "int",
    ])
    .prop_map(str::to_owned);
    leaf.prop_recursive(4, 40, 3, |inner| {
        let binary = prop::sample::select(vec![
            "+", "-", "*", "/", "%", "==", "!=", "<", "<=", ">", ">=", "&&", "||", "in",
        ]);
        let function = prop::sample::select(vec![
            "int",
            "uint",
            "double",
            "string",
            "bytes",
            "bool",
            "type",
            "dyn",
            "size",
            "timestamp",
            "duration",
            "toLower",
            "reverse",
            "ip",
            "uri",
            "email",
            "dnsName",
        ]);
        prop_oneof![
            (inner.clone(), binary, inner.clone()).prop_map(|(l, op, r)| format!("({l} {op} {r})")),
            (function, inner.clone()).prop_map(|(f, x)| format!("{f}({x})")),
            (inner.clone(), inner.clone(), inner.clone()).prop_map(|(c, x, y)| format!("({c} ? {x} : {y})")),
            (inner.clone(), inner.clone()).prop_map(|(l, i)| format!("[{l}, {i}][0]")),
            (inner.clone(), inner.clone()).prop_map(|(k, v)| format!("{{{k}: {v}}}[{k}]")),
            (inner.clone(), inner.clone()).prop_map(|(l, x)| format!("[{l}].map(x, {x} == x)")),
            inner.clone().prop_map(|x| format!("!({x})")),
            inner.prop_map(|x| format!("-({x})")),
        ]
    })
}
