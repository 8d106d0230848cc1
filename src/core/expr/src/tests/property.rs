//! Random expressions over random attributes.

use proptest::prelude::*;

use super::super::term::Terms;
use super::super::{check, parse};
use super::{evaluate, vocabulary};
use mixer_attribute::{OwnedValue, SignedDuration, Timestamp};

/// A random expression, not necessarily well-typed, with minimal and with full parentheses.
#[derive(Debug, Clone)]
struct Written {
    terse: String,
    full: String,
    /// The precedence of the outermost operator; 6 for operands.
    strength: u8,
}

fn leaf() -> impl Strategy<Value = Written> {
    prop::sample::select(vec![
        "b1",
        "b2",
        "d1",
        "dns1",
        "dur1",
        "i1",
        "ip1",
        "s1",
        "s2",
        "t1",
        "request.headers",
        "true",
        "false",
        "0",
        "7",
        "2.5",
        "\"\"",
        "\"abc\"",
        "\"k\"",
        "\"10s\"",
        "'x'",
        "`a.*`",
        "\"\\xff\"",
        "emptyStringMap()",
        "nosuch",
    ])
    .prop_map(|text| Written { terse: text.into(), full: text.into(), strength: 6 })
}

fn wrapped(part: &Written, needed: u8) -> String {
    if part.strength < needed { format!("({})", part.terse) } else { part.terse.clone() }
}

fn expression() -> impl Strategy<Value = Written> {
    leaf().prop_recursive(6, 64, 3, |inner| {
        let operators = prop::sample::select(vec![
            ("||", 1),
            ("&&", 2),
            ("==", 3),
            ("!=", 3),
            ("<", 3),
            (">=", 3),
            ("+", 4),
            ("|", 4),
            ("-", 4),
        ]);
        let functions = prop::sample::select(vec![
            "size",
            "toLower",
            "ip",
            "timestamp",
            "dnsName",
            "email",
            "uri",
            "match",
            "conditional",
            "conditionalString",
        ]);
        let binary =
            (operators, inner.clone(), inner.clone()).prop_map(|((operator, strength), a, b)| Written {
                terse: format!("{} {operator} {}", wrapped(&a, strength), wrapped(&b, strength + 1)),
                full: format!("(({}) {operator} ({}))", a.full, b.full),
                strength,
            });
        let call = (functions, prop::collection::vec(inner.clone(), 0..4)).prop_map(|(name, arguments)| {
            let list =
                |write: fn(&Written) -> &str| arguments.iter().map(write).collect::<Vec<_>>().join(", ");
            Written {
                terse: format!("{name}({})", list(|a| &a.terse)),
                full: format!("{name}({})", list(|a| &a.full)),
                strength: 6,
            }
        });
        let methods = prop::sample::select(vec!["matches", "startsWith", "endsWith"]);
        let method = (methods, inner.clone(), inner.clone()).prop_map(|(name, target, argument)| Written {
            terse: format!("({}).{name}({})", target.terse, argument.terse),
            full: format!("({}).{name}({})", target.full, argument.full),
            strength: 6,
        });
        let index = (inner.clone(), inner).prop_map(|(map, key)| Written {
            terse: format!("{}[{}]", wrapped(&map, 6), key.terse),
            full: format!("({})[{}]", map.full, key.full),
            strength: 6,
        });
        prop_oneof![3 => binary, 2 => call, 1 => method, 1 => index]
    })
}

fn value() -> impl Strategy<Value = OwnedValue> {
    prop_oneof![
        4 => "[a-z.@:/]{0,8}".prop_map(|text| OwnedValue::from(text.as_str())),
        1 => prop::collection::vec(any::<u8>(), 0..6).prop_map(OwnedValue::String),
        2 => any::<i64>().prop_map(OwnedValue::Int64),
        2 => any::<f64>().prop_map(OwnedValue::Double),
        3 => any::<bool>().prop_map(OwnedValue::Bool),
        1 => (0..4_000_000_000i64).prop_map(|seconds| OwnedValue::Timestamp(Timestamp { seconds, nanos: 5 })),
        1 => any::<i64>().prop_map(|nanos| OwnedValue::Duration(SignedDuration::from_nanos(nanos))),
        1 => prop::collection::vec(any::<u8>(), 0..17).prop_map(OwnedValue::Bytes),
        2 => Just(OwnedValue::from([("k", "v"), ("abc", "")])),
    ]
}

const NAMES: [&str; 11] =
    ["b1", "b2", "d1", "dns1", "dur1", "i1", "ip1", "request.headers", "s1", "s2", "t1"];

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn redundant_parentheses_change_nothing(written in expression()) {
        let terse = parse::parse(&written.terse).and_then(|tree| Terms::new(&tree).map(|t| t.render(t.root())));
        let full = parse::parse(&written.full).and_then(|tree| Terms::new(&tree).map(|t| t.render(t.root())));
        prop_assert_eq!(terse.unwrap(), full.unwrap());
    }

    #[test]
    fn evaluation_never_panics(
        written in expression(),
        values in prop::collection::vec(prop::option::of(value()), NAMES.len()),
    ) {
        let scope = vocabulary();
        if super::compile(super::Language::Cexl, &written.terse, &scope).is_err() {
            return Ok(());
        }
        let attributes: Vec<_> =
            NAMES.iter().zip(values).filter_map(|(name, value)| Some((*name, value?))).collect();
        prop_assert_eq!(evaluate(&written.terse, &attributes), evaluate(&written.full, &attributes));
        super::explained(&written.terse, &attributes);
    }

    #[test]
    fn any_text_compiles_or_fails(text in "\\PC{0,40}") {
        let scope = vocabulary();
        let _ = super::compile(super::Language::Cexl, &text, &scope);
    }

    #[test]
    fn any_tokens_compile_or_fail(
        tokens in prop::collection::vec(
            prop::sample::select(vec![
                "s1", "b1", "nosuch", ".", "(", ")", "[", "]", "{", "}", ",", "...", ":", ";", "*", "&", "|", "||", "==",
                "=", "!", "<-", "\"a\"", "'b'", "1", "2.5", "1i", "\n", "//c\n", "/*c*/", "func", "struct", "map", "chan",
                "interface", "type", "match", "true",
            ]),
            0..14,
        )
    ) {
        let scope = vocabulary();
        let text = tokens.join(" ");
        if let Ok(program) = super::compile(super::Language::Cexl, &text, &scope) {
            let checked = check::type_of(&text, &scope);
            prop_assert_eq!(checked.ok(), Some(program.value_type()));
        }
    }
}
