//! Tests of the whole language, besides the golden cases: positions, hints, limits, explanations, analysis and properties.

mod failures;
mod property;

use bumpalo::Bump;

use super::others::NETWORKS;
use super::*;
use mixer_attribute::{AttributeBag, CompressedAttributes, OwnedAttributes, OwnedValue, Value};

fn vocabulary() -> Vocabulary {
    let mut builder = Vocabulary::builder();
    for (name, value_type) in [
        ("b1", ValueType::Bool),
        ("b2", ValueType::Bool),
        ("d1", ValueType::Double),
        ("destination.service", ValueType::String),
        ("dns1", ValueType::DnsName),
        ("dur1", ValueType::Duration),
        ("i1", ValueType::Int64),
        ("ip1", ValueType::IpAddress),
        ("request.headers", ValueType::StringMap),
        ("s1", ValueType::String),
        ("s2", ValueType::String),
        ("source.user", ValueType::String),
        ("t1", ValueType::Timestamp),
        ("x-y", ValueType::String),
    ] {
        builder.declare(name, value_type);
    }
    builder.build()
}

fn refusal(text: &str) -> CompileError {
    match compile(Language::Cexl, text, &vocabulary()) {
        Err(error) => error,
        Ok(_) => panic!("{text} was accepted"),
    }
}

/// Evaluates over the attributes; returns the value or the error as text.
fn evaluate(text: &str, attributes: &[(&str, OwnedValue)]) -> String {
    with_program(text, attributes, |program, bag| match program.eval(bag) {
        Ok(Value::String(bytes)) => String::from_utf8_lossy(bytes).into_owned(),
        Ok(value) => mixer_attribute::text::go_text(value).to_string(),
        Err(error) => error.to_string(),
    })
}

fn with_program<R>(
    text: &str,
    attributes: &[(&str, OwnedValue)],
    test: impl for<'a> FnOnce(&'a Program, &AttributeBag<'a>) -> R,
) -> R {
    let vocabulary = vocabulary();
    let program = compile(Language::Cexl, text, &vocabulary).unwrap_or_else(|e| panic!("{text}: {e}"));
    let mut owned = OwnedAttributes::new();
    for (name, value) in attributes {
        owned.insert(*name, value.clone());
    }
    let bytes = owned.to_bytes(0);
    let arena = Bump::new();
    let bag = AttributeBag::decode(&bytes, None, &vocabulary, &arena).unwrap();
    test(&program, &bag)
}

#[test]
fn syntax_errors_have_positions() {
    for (text, position, message) in [
        (r#"source.user = = "x""#, (1, 13), "1:13: expected '==', found '='"),
        ("s1 s2", (1, 4), "1:4: expected 'EOF', found s2"),
        ("s1 ==", (1, 6), "1:6: expected operand, found 'EOF'"),
        ("b1\n&& b2", (2, 1), "2:1: expected 'EOF', found '&&'"),
        ("(b1", (1, 4), "1:4: expected ')', found newline"),
        ("match(s1, \"a\"", (1, 14), "1:14: missing ',' before newline in argument list"),
        ("match(s1 \"a\")", (1, 10), "1:10: missing ',' in argument list"),
        ("s1.if", (1, 4), "1:4: expected selector or type assertion, found 'if'"),
        ("s1 # c", (1, 4), "1:4: illegal character U+0023 '#'"),
        ("\"ü\" == é $", (1, 10), "1:12: illegal character U+0024 '$'"),
        ("\"abc", (1, 1), "1:1: string literal not terminated"),
        ("", (1, 1), "1:1: expected operand, found 'EOF'"),
    ] {
        let error = refusal(text);
        assert_eq!(error.message, format!("unable to parse expression '{text}': {message}"));
        assert_eq!((error.phase, error.position), (Phase::Parse, Some(position)), "{text}");
    }
}

#[test]
fn other_errors_have_positions() {
    for (text, phase, position) in [
        ("s1 == s2 && *s1", Phase::Parse, (1, 13)),
        ("s1 == \"a\" && nosuch", Phase::Type, (1, 14)),
        ("s1 ==\n i1", Phase::Type, (2, 2)),
        ("b1 && nosuch(s1)", Phase::Type, (1, 7)),
        ("b1 && dur1 == dur1", Phase::Compile, (1, 7)),
        ("99999999999999999999", Phase::Parse, (1, 1)),
    ] {
        let error = refusal(text);
        assert_eq!((error.phase, error.position), (phase, Some(position)), "{text}: {error}");
    }
}

#[test]
fn errors_have_hints() {
    for (text, hint) in [
        ("s1 = \"x\"", "compare with =="),
        ("b1 and b2", "write && for `and`"),
        (
            "s1 not in [\"a\"]",
            "write (condition) == false for `not`, and a != \"x\" && a != \"y\" for `not in` a list of values",
        ),
        ("b1\n&& b2", "a line that is to be continued must end with an operator, a comma or an open bracket"),
        ("s1 == “x”", "write strings between plain quotation marks: \"text\""),
        ("s1 == 'xy'", "write strings between double quotes: \"text\""),
        ("b1 & b2", "write && for a logical and"),
        ("!(b1)", "write (b1) == false"),
        ("s1 in [\"eve\"]", "write a == \"x\" || a == \"y\" for a list of values; only CEL has lists"),
        ("sorce.user == \"x\"", "did you mean `source.user`?"),
        ("request.headers.cookie == \"x\"", "write request.headers[\"cookie\"]"),
        ("startWith(s1)", "did you mean `startsWith`?"),
        (
            "request.headers[\"k\"].startsWith(\"v\")",
            "write (request.headers[\"k\"]) in parentheses before the dot",
        ),
        ("s1 == \"10s\"", "\"10s\" reads as a duration, and every text that does is one"),
        ("ip1 == \"10.0.0.1\"", "write ip(\"10.0.0.1\")"),
        (
            "dur1 == dur1",
            "the classic language passes durations on only; `policy.istio.io/lang: CEL` on the rule compares them: `response.duration > duration(\"5s\")`",
        ),
        (
            "x-y == \"a\"",
            "the attribute `x-y` cannot be named here: `-` is an operator; rename the attribute",
        ),
        ("request.headers.x-user == \"x\"", "write request.headers[\"x-user\"]: `-` is an operator"),
        (
            "b1 && request.headers.x-user-id == \"x\"",
            "write request.headers[\"x-user-id\"]: `-` is an operator",
        ),
        ("s1.size()", "write size(...) with the value as argument"),
        (
            "substring(s1, 0, 3) == \"a\"",
            "there is no function for a part of a text: write value.startsWith(\"text\"), or \"^text\".matches(value)",
        ),
        ("s1.reverse() == \"a\"", "there is no reversed text: write value.endsWith(\"text\")"),
        ("lower(s1) == \"a\"", "write toLower(value)"),
        ("s1.isEmpty()", "write (value | \"\") == \"\""),
        ("isset(s1)", "give a default instead: attribute | default"),
        ("regex(s1, \"a\")", "write \"pattern\".matches(value)"),
        ("s1 == null", "there is no null: write (attribute | \"\") == \"\" to test for what is absent"),
        ("s1.length == 3", "write size(s1)"),
        ("b1 AND b2", "write && for `and`"),
        ("s1 contains \"x\"", "write \"text\".matches(value)"),
        ("s1 LIKE \"x%\"", "write match(value, \"prefix*\"), or \"pattern\".matches(value)"),
        ("s1 ~ \"x\"", "write \"pattern\".matches(value)"),
        ("not b1", "write (condition) == false for `not`"),
        ("s1 == \"a\" || \"b\"", "each side is a whole comparison: a == \"x\" || a == \"y\""),
    ] {
        assert_eq!(refusal(text).hint.as_deref(), Some(hint), "{text}: {:?}", refusal(text));
    }
    assert_eq!(refusal("sorce.user").unknown_attribute.as_deref(), Some("sorce.user"));
}

#[test]
fn type_check_accepts_what_only_the_compiler_rejects() {
    let scope = vocabulary();
    let check = |text| type_check(Language::Cexl, text, &scope);
    assert_eq!(check("dur1 == dur1"), Ok(ValueType::Bool));
    assert_eq!(check("s1 | \"d\""), Ok(ValueType::String));
    let error = check("s1 ==").unwrap_err();
    assert_eq!(
        error.message,
        "failed to parse expression 's1 ==': unable to parse expression 's1 ==': 1:6: expected operand, found 'EOF'"
    );
    assert_eq!(check("nosuch").unwrap_err().message, "unknown attribute nosuch");
}

#[test]
fn programs_have_the_type_of_their_result() {
    let scope = vocabulary();
    assert_eq!(compile(Language::Cexl, "s1", &scope).unwrap().value_type(), ValueType::String);
    assert_eq!(compile(Language::Cexl, "b1", &scope).unwrap().value_type(), ValueType::Bool);
}

/// Runs on a stack of 2 MB, the size of worker stacks.
fn on_a_small_stack(test: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().stack_size(2 << 20).spawn(test).unwrap().join().unwrap();
}

#[test]
fn deep_and_long_expressions_fit_a_small_stack() {
    on_a_small_stack(|| {
        let nested = |open: &str, inner: &str, close: &str, n| open.repeat(n) + inner + &close.repeat(n);
        let chain = |link: &str, join: &str, n| vec![link; n].join(join);
        for (text, value) in [
            (nested("(", "b1", ")", 1_000), "true"),
            (nested("(b1 == ", "b1", ")", 500), "true"),
            (nested("1 + (", "1", ")", 500), "501"),
            (nested("toLower(", "\"A\"", ")", 500), "a"),
            (nested("conditional(b1, ", "s1", ", s2)", 500), "abc"),
            (nested("s2 | (", "s1", ")", 500), "abc"),
            (chain("s1 == \"x\"", " || ", 20_000), "false"),
            (chain("s1 != \"x\"", " && ", 20_000), "true"),
            (chain("s2", " | ", 5_000) + " | s1", "abc"),
            (chain("i1", " + ", 5_000), "35000"),
            (chain("b1", " == ", 700), "true"),
            (chain("\"a\" + s1 | s1", " + ", 300), &("a".to_owned() + &"abca".repeat(299) + "abc")),
        ] {
            let attributes = [("b1", true.into()), ("s1", "abc".into()), ("i1", 7.into())];
            let got = evaluate(&text, &attributes);
            if text.len() < 20_000 {
                assert!(!explained(&text, &attributes).is_empty());
            }
            if text.contains("| s1 +") {
                assert!(!got.is_empty());
            } else {
                assert_eq!(got, value, "{}", text.get(..40).unwrap());
            }
        }
    });
}

#[test]
fn excessive_nesting_is_rejected_within_a_small_stack() {
    on_a_small_stack(|| {
        for text in [
            "(".repeat(100_000),
            "(".repeat(5_000) + "b1" + &")".repeat(5_000),
            "!".repeat(100_000),
            "[".repeat(100_000),
            "func(".repeat(100_000),
            "f(".repeat(100_000),
            "m[".repeat(100_000),
            "a.(".repeat(100_000),
            "b1 == (".repeat(5_000),
            vec!["b1"; 5_000].join(" == "),
            "s1".to_owned() + &"[s1]".repeat(5_000),
            "s1".to_owned() + &".f()".repeat(5_000),
            "s1".to_owned() + &"{}".repeat(100_000),
            "s1".to_owned() + &".a".repeat(100_000),
            vec!["b1 * b1"; 50_000].join(" - "),
        ] {
            let error = refusal(&text);
            assert!(!error.message.is_empty());
        }
    });
}

#[test]
fn conditions_have_conjuncts() {
    let scope = vocabulary();
    let slot = |name: &str| scope.slot(name.as_bytes()).unwrap();
    let program = compile(
        Language::Cexl,
        r#"s1 == "a" && (i1 == 5 && b1) && request.headers["k"] == "v" && match(s2, "p*") && s2.startsWith("q")
           && s1 != "b""#
            .replace("\n", " ")
            .as_str(),
        &scope,
    )
    .unwrap();
    assert_eq!(
        program.conjuncts(),
        [
            Conjunct::AttributeEquals { slot: slot("s1"), constant: b"a" },
            Conjunct::AttributeEqualsInt64 { slot: slot("i1"), constant: 5 },
            Conjunct::AttributeEqualsBool { slot: slot("b1"), constant: true },
            Conjunct::MapKeyEquals { slot: slot("request.headers"), key: b"k", constant: b"v" },
            Conjunct::AttributePrefix { slot: slot("s2"), prefix: b"p" },
            Conjunct::AttributePrefix { slot: slot("s2"), prefix: b"q" },
            Conjunct::Other,
        ]
    );
    assert_eq!(
        program.reads(),
        [
            Read { slot: slot("b1"), key: None },
            Read { slot: slot("i1"), key: None },
            Read { slot: slot("request.headers"), key: Some(b"k") },
            Read { slot: slot("s1"), key: None },
            Read { slot: slot("s2"), key: None },
        ]
    );
    let (headers, key) = (slot("request.headers"), Some(&b"k"[..]));
    let (whole, entry) = (Read { slot: headers, key: None }, Read { slot: headers, key });
    let by_attribute = Read { slot: slot("s1"), key: None };
    for (language, text, reads) in [
        (Language::Cel, r#"request.headers["k"] == "v""#, vec![entry]),
        (Language::Cel, r#""k" in request.headers && request.headers.k == "v""#, vec![entry]),
        (Language::Cel, r#"request.headers["k"] == request.headers[s1]"#, vec![whole, entry, by_attribute]),
        (Language::Compat, r#"(request.headers["k"] | "v") == s1"#, vec![entry, by_attribute]),
        (Language::Cexl, r#"(request.headers[s1] | "v") == "v""#, vec![whole, by_attribute]),
        (Language::Cexl, "request.headers | emptyStringMap()", vec![whole]),
        (Language::Cel, "request.headers", vec![whole]),
    ] {
        assert_eq!(compile(language, text, &scope).unwrap().reads(), reads, "{text}");
    }
    for (text, conjunct) in [
        ("s1 == \"a\" || b1", Conjunct::Other),
        ("(s1 | \"x\") == \"a\"", Conjunct::Other),
        ("match(s1, \"*p\")", Conjunct::Other),
        ("b1 == false", Conjunct::AttributeEqualsBool { slot: slot("b1"), constant: false }),
        ("true", Conjunct::Other),
    ] {
        assert_eq!(compile(Language::Cexl, text, &scope).unwrap().conjuncts(), [conjunct], "{text}");
    }
}

fn explained(text: &str, attributes: &[(&str, OwnedValue)]) -> String {
    fn lines(explanation: &Explanation, depth: usize, out: &mut String) {
        *out += &format!("{}{} = {}\n", "  ".repeat(depth), explanation.text, explanation.outcome);
        explanation.children.iter().for_each(|child| lines(child, depth + 1, out));
    }
    let mut out = String::new();
    with_program(text, attributes, |program, bag| lines(&program.explain(bag), 0, &mut out));
    out
}

#[test]
fn an_explanation_tells_an_exhausted_evaluation_from_one_that_failed() {
    let vocabulary = vocabulary();
    let explain = |text: &str| {
        let program = compile(Language::Cel, text, &vocabulary).unwrap();
        let arena = Bump::new();
        program.explain(&AttributeBag::empty(&vocabulary, &arena)).outcome
    };
    let doubled = |list: &str| format!("[{list}]{}.size() == 1", ".map(x, x + x)".repeat(60));
    assert!(matches!(explain(&doubled("\"0123456789\"")), Outcome::Exhausted(crate::Bound::MadeText(_))));
    let exhausted = explain(&doubled("[1]"));
    assert_eq!(exhausted, Outcome::Exhausted(crate::Bound::Steps));
    let steps = crate::error::MAX_STEPS;
    assert_eq!(exhausted.to_string(), format!("error: expression takes more than {steps} steps"));
    assert!(matches!(explain("1 / 0 == 1"), Outcome::Failed(_)));
}

#[test]
fn patterns_search_a_bounded_length_of_long_texts() {
    let vocabulary = vocabulary();
    let long = "x".repeat(450_000);
    let too_much = Err(EvalError::Exhausted(Bound::SearchedText(1_000_000)));
    // With a constant pattern and with one of the request; what comes after the search may not hide that it did not take place.
    let programs = [
        (Language::Cexl, r#""y$".matches(s1)"#, r#""x$".matches(s2)"#),
        (Language::Cexl, r#"s2.matches(s1) || true"#, r#"s2.matches(s2)"#),
        (Language::Cel, r#"s1.matches("y$") || true"#, r#"s2.matches("x$")"#),
        (Language::Cel, r#"s1.matches(s2) || true"#, r#"s2.matches(s2)"#),
    ];
    for (language, searches, others) in programs {
        let [searches, others] = [searches, others].map(|text| compile(language, text, &vocabulary).unwrap());
        let arena = Bump::new();
        let mut attributes = OwnedAttributes::new();
        attributes.insert("s1", long.as_str());
        attributes.insert("s2", "x");
        let encoded = attributes.to_bytes(0);
        let mut bag = AttributeBag::decode(&encoded, None, &vocabulary, &arena).unwrap();
        bag.set_search_limit(1_000_000);
        for _ in 0..2 {
            assert!(searches.eval(&bag).is_ok(), "{searches:?}");
        }
        assert_eq!(searches.eval(&bag).map(drop), too_much, "{searches:?}");
        assert!(matches!(searches.explain(&bag).outcome, Outcome::Exhausted(_)));
        assert_eq!(others.eval(&bag), Ok(Value::Bool(true)), "a short text is always searched");
        assert_eq!(searches.eval(&bag).map(drop), too_much);
        bag.replace(&CompressedAttributes::decode(&encoded, &arena).unwrap(), None);
        assert!(searches.eval(&bag).is_ok(), "the next record has a budget of its own");
    }
}

#[test]
fn expressions_make_a_bounded_length_of_long_texts() {
    let vocabulary = vocabulary();
    let long = "x".repeat(4999) + "Y";
    let too_much = Err(EvalError::Exhausted(Bound::MadeText(10_000)));
    // What comes after may not hide that a text was not made.
    let programs = [
        (Language::Cexl, r#"toLower(s1) == "y""#, r#"toLower(s2) == "x""#),
        (Language::Cexl, r#"s1 + "z" == "y" || true"#, r#"s2 + "z" == "xz""#),
        (Language::Cel, r#"toLower(s1) == "y" || true"#, r#"toLower(s2) == "x""#),
        (Language::Cel, r#"s1.reverse() == "y" || true"#, r#"s2.reverse() == "X""#),
        (Language::Cel, r#"s1 + "z" == "y" || true"#, r#"s2 + "z" == "Xz""#),
    ];
    for (language, makes, others) in programs {
        let others = if language == Language::Cexl { others.replace("xz", "Xz") } else { others.to_owned() };
        let [makes, others] = [makes, &others].map(|text| compile(language, text, &vocabulary).unwrap());
        let arena = Bump::new();
        let mut attributes = OwnedAttributes::new();
        attributes.insert("s1", &long[1..]);
        attributes.insert("s2", "X");
        let encoded = attributes.to_bytes(0);
        let mut bag = AttributeBag::decode(&encoded, None, &vocabulary, &arena).unwrap();
        bag.set_search_limit(10_000);
        for _ in 0..2 {
            assert!(makes.eval(&bag).is_ok(), "{makes:?}");
        }
        assert_eq!(makes.eval(&bag).map(drop), too_much, "{makes:?}");
        assert!(matches!(makes.explain(&bag).outcome, Outcome::Exhausted(_)));
        assert_eq!(others.eval(&bag), Ok(Value::Bool(true)), "a short text is always made: {others:?}");
        bag.replace(&CompressedAttributes::decode(&encoded, &arena).unwrap(), None);
        assert_eq!(makes.eval(&bag).map(drop), too_much, "the records of a report have one budget");
        assert!(arena.allocated_bytes() < 100_000);
    }
    // A text without capitals is its own.
    let lower = compile(Language::Cexl, "toLower(s1) == s1", &vocabulary).unwrap();
    let arena = Bump::new();
    let mut attributes = OwnedAttributes::new();
    attributes.insert("s1", "x".repeat(5000).as_str());
    let encoded = attributes.to_bytes(0);
    let mut bag = AttributeBag::decode(&encoded, None, &vocabulary, &arena).unwrap();
    bag.set_search_limit(1000);
    assert_eq!(lower.eval(&bag), Ok(Value::Bool(true)));
    // An error that has what the caller sent is cut.
    attributes.insert("s1", ("x ".repeat(50_000) + "@").as_str());
    let encoded = attributes.to_bytes(0);
    let failing = compile(Language::Cexl, "email(s1) == email(s2)", &vocabulary).unwrap();
    let bag = AttributeBag::decode(&encoded, None, &vocabulary, &arena).unwrap();
    let error = failing.eval(&bag).unwrap_err().to_string();
    assert!((1000..5000).contains(&error.len()), "{}", error.len());
}

#[test]
fn explanations_have_the_outcome_of_every_part() {
    assert_eq!(
        explained(
            r#"s1 == "a" && (request.headers["k"] | "none") == "v" && b1"#,
            &[("s1", "a".into()), ("request.headers", [("x", "y")].into())]
        ),
        r#"s1 == "a" && (request.headers["k"] | "none") == "v" && b1 = false
  s1 == "a" = true
    s1 = "a"
  (request.headers["k"] | "none") == "v" = false
    request.headers["k"] | "none" = "none"
      request.headers["k"] = absent
      default = "none"
  b1 = not evaluated
"#
    );
    assert_eq!(
        explained("conditional(i1 < 5, s1, s2 | s1)", &[("i1", 7.into()), ("s1", "x".into())]),
        r#"conditional(i1 < 5, s1, s2 | s1) = "x"
  i1 < 5 = false
    i1 = 7
  s1 = not evaluated
  s2 | s1 = "x"
    s2 = absent
    s1 = "x"
"#
    );
    assert_eq!(
        explained("b1 || ip(s1) == ip1", &[("b1", false.into()), ("s1", "x".into())]),
        r#"b1 || ip(s1) == ip1 = error: could not convert x to IP_ADDRESS
  b1 = false
  ip(s1) == ip1 = error: could not convert x to IP_ADDRESS
    ip(s1) = error: could not convert x to IP_ADDRESS
      s1 = "x"
    ip1 = not evaluated
"#
    );
    // A constant is no part, unless it may decide.
    assert_eq!(
        explained(r#"s1.startsWith("a") == false"#, &[("s1", "abc".into())]),
        r#"s1.startsWith("a") == false = false
  s1.startsWith("a") = true
    s1 = "abc"
"#
    );
    assert_eq!(
        explained("b1 || true", &[("b1", false.into())]),
        "b1 || true = true\n  b1 = false\n  true = true\n"
    );
}

/// Whoever obeys a hint does not meet the next error.
#[test]
fn obeyed_hints_do_not_lead_to_the_next_error() {
    for (text, hint) in [
        ("!s1", "write (s1 | \"\") == \"\""),
        ("b1 || !source.user", "write (source.user | \"\") == \"\""),
        ("!b1", "write (b1) == false"),
        ("not (s1 == \"a\")", "write (condition) == false"),
        ("request.headers[x-user] == \"a\"", "write [\"x-user\"]: a key is a text in quotes"),
        ("request.headers[ x-user-id] == \"a\"", "write [\"x-user-id\"]: a key is a text in quotes"),
        ("s1 =~ \"^/a\"", "write \"pattern\".matches(value)"),
        ("s1 = \"a\"", "compare with =="),
        (
            "*",
            "an expression has no `*`: a rule without `match` applies to every request, match(value, \"prefix*\") takes a pattern",
        ),
        ("request.headers.get(\"x-user\") == \"a\"", "write (request.headers[\"x-user\"] | \"\")"),
        (
            "\"admin\" in request.headers[\"roles\"]",
            "an entry of a map is one text, of a list the items between commas (a comma in an item is %2C): \
             write \"(^|,)admin(,|$)\".matches(request.headers[\"roles\"] | \"\")",
        ),
        (
            "\"a.b\" in request.headers[\"roles\"]",
            "an entry of a map is one text, of a list the items between commas (a comma in an item is %2C): \
             write \"(^|,)item(,|$)\".matches(request.headers[\"roles\"] | \"\")",
        ),
        (
            "\"admin\" in request.headers",
            "write (m[\"key\"] | \"\") != \"\" to test for a key, \"part\".matches(text) for a part of a text",
        ),
        ("s-1 == \"a\"", "did you mean `s1`? `-` is an operator"),
        ("request.headers[\"x-user\"] exists", "write (attribute | \"\") != \"\""),
        ("request.user == \"a\"", "did you mean `source.user`?"),
        ("i1 > 1k", "a number has no unit: write all of its digits"),
        ("dur1 == 10s", "a duration is a text in quotes, such as \"10s\""),
        ("b1 == \"true\"", "write true, without quotes"),
        (
            "s1 in (\"GET\", \"POST\")",
            "write a == \"x\" || a == \"y\" for a list of values; only CEL has lists",
        ),
        (
            "request.headers[\"x\"] || \"a\" == \"a\"",
            "a default follows `|`, as in (a | \"x\") == \"y\"; each side of `||` is a whole comparison",
        ),
        ("cidr(\"10.0.0.0/8\").contains(ip1)", NETWORKS),
        ("ip1 == \"10.0.0.0/8\"", NETWORKS),
        ("ip1.contains(\"10.\")", NETWORKS),
        ("source.ip =~ \"10.*\"", NETWORKS),
        (
            "request.headers.contains(\"x\")",
            "write (request.headers[\"x\"] | \"\") != \"\" to test for a key",
        ),
        ("ip1 == 10.0.0.1", "write ip(\"10.0.0.1\")"),
        (
            "t1 == \"2026-01-01\"",
            "write timestamp(\"2026-01-01T00:00:00Z\"): a time has a date, a time of day and a zone",
        ),
        (
            "request.headers[\"roles\"].contains(\"admin\")",
            "write \"admin\".matches(request.headers[\"roles\"])",
        ),
        ("request.headers[\"x\"].length", "write size(request.headers[\"x\"])"),
        ("request.headers[\"x\"].value", "an entry of a map is a text, which has no parts"),
        ("i1 / 100 == 5", "there is no division: compare with bounds, a >= 500 && a < 600"),
        ("i1 % 2 == 0", "there is no division: compare with bounds, a >= 500 && a < 600"),
        ("s1 !~ \"x\"", "write \"pattern\".matches(value) == false"),
        ("s1 <> \"x\"", "write != instead of <>"),
        ("s1 === \"x\"", "write == instead of ==="),
        ("s1 !== \"x\"", "write != instead of !=="),
        ("{{ .Values.match }}", "a template was not filled in: write what stands for {{ }}"),
        ("${USER} == s1", "a variable was not filled in: write what it stands for"),
        ("if b1", "write conditional(test, a, b), or the condition alone"),
        ("i1 == 2xx", "write a range of codes as a >= 200 && a < 300"),
        ("i1 > 1MB", "a number has no unit: write all of its digits"),
        ("s1 == 5", "write \"5\", in quotes"),
        (
            "s1 > 5",
            "a text is no number, and no function makes one of it; of Envoy's requests an attributemapping sets an attribute of type INT64",
        ),
        ("ip1 in 10.0.0.0/8", NETWORKS),
        ("ip1 in \"10.0.0.0/8\"", NETWORKS),
        (
            "t1.getHours() > 5",
            "the classic language has no parts of times: `policy.istio.io/lang: CEL` on the rule has request.time.getHours()",
        ),
    ] {
        assert_eq!(refusal(text).hint.as_deref(), Some(hint), "{text}: {:?}", refusal(text));
    }
    let address = "ip1.startsWith(\"10.\")";
    let told = refusal(address).hint.unwrap_or_default();
    assert!(told.contains("an address is no text") && told.ends_with(NETWORKS), "{address}: {told}");
    for obeyed in [
        "(s1 | \"\") == \"\"",
        "(b1) == false",
        "(request.headers[\"x-user\"] | \"\") != \"\"",
        "b1 == true",
        "ip1 == ip(\"10.0.0.1\")",
        "t1 == timestamp(\"2026-01-01T00:00:00Z\")",
        "\"admin\".matches(request.headers[\"roles\"])",
        "size(request.headers[\"x\"]) == 3",
        "i1 >= 500 && i1 < 600",
        "\"x\".matches(s1) == false",
    ] {
        assert!(compile(Language::Cexl, obeyed, &vocabulary()).is_ok(), "{obeyed}");
    }
}

#[test]
fn computed_and_constant_calls_agree() {
    for (constant, computed) in [
        ("toLower(\"ABC\")", "toLower(s1)"),
        ("size(\"ABC\")", "size(s1)"),
        ("ip(\"ABC\")", "ip(s1)"),
        ("dnsName(\"ABC\")", "dnsName(s1)"),
        ("email(\"ABC\")", "email(s1)"),
        ("uri(\"ABC\")", "uri(s1)"),
        ("timestamp(\"ABC\")", "timestamp(s1)"),
        ("\"A.C\".matches(s1)", "(\"A\" + \".C\").matches(s1)"),
        ("\"A(\".matches(s1)", "(\"A\" + \"(\").matches(s1)"),
        ("match(s1, \"A*\")", "match(s1, \"A\" + \"*\")"),
    ] {
        let attributes = [("s1", "ABC".into())];
        assert_eq!(evaluate(constant, &attributes), evaluate(computed, &attributes), "{constant}");
    }
}

#[test]
fn users_are_not_told_of_an_internal_error() {
    for (text, plain) in [
        ("dur1 > dur1", "durations have no greater than"),
        ("b1 < b2", "Booleans have no less than"),
        ("emptyStringMap() == emptyStringMap()", "values of this type have no equality"),
        ("dur1 + dur1", "durations have no sum"),
    ] {
        let error = refusal(text);
        assert!(error.message.starts_with("internal compiler error"), "as Istio Mixer: {}", error.message);
        assert_eq!(error.plain(), plain);
    }
}

/// Istio Mixer's type checker speaks in terms of its own: `EQ($i1, "80") arg 2 ("80") typeError got STRING, expected INT64`.
#[test]
fn users_are_told_what_they_wrote() {
    for (text, message, plain) in [
        (
            "i1 == \"80\"",
            "EQ($i1, \"80\") arg 2 (\"80\") typeError got STRING, expected INT64",
            "`\"80\"` is STRING, expected INT64",
        ),
        (
            "b1 && (s1 |\n  \"a\")",
            "LAND($b1, OR($s1, \"a\")) arg 2 (OR($s1, \"a\")) typeError got STRING, expected BOOL",
            "`s1 | \"a\"` is STRING, expected BOOL",
        ),
        ("!b1", "unknown function: NOT", "there is no operator `!`"),
        ("i1 * 2 == 4", "unknown function: MUL", "there is no operator `*`"),
        ("i1 << 2 == 4", "unknown function: ", "there is no such operator"),
        ("nosuch(s1)", "unknown function: nosuch", "unknown function: nosuch"),
        ("s1.size()", "invoking regular function on instance method: size", "`size` is no method"),
        (
            "startsWith(s1)",
            "invoking instance method without an instance: startsWith",
            "`startsWith` is a method, and has no value before it",
        ),
        (
            "size(s1, s2) == 3",
            "size($s1, $s2) arity mismatch. Got 2 arg(s), expected 1 arg(s)",
            "`size(s1, s2)` takes 1 argument, not 2",
        ),
    ] {
        let error = refusal(text);
        assert_eq!((&*error.message, &*error.plain()), (message, plain), "{text}");
    }
    let long = refusal(&format!("i1 == \"{}\"", "ä".repeat(500)));
    assert!(long.plain().chars().count() < 100, "{}", long.plain());
}
