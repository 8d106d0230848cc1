//! The three languages: checking agrees with compiling, evaluation has the checked type, reads only the attributes that the
//! program lists, is repeatable, and agrees with its explanation.

use std::sync::LazyLock;

use bumpalo::Bump;
use mixer_attribute::{
    AttributeBag, OwnedAttributes, OwnedValue, SignedDuration, Timestamp, Value, ValueType, Vocabulary,
};
use mixer_expr::{EvalError, Language, Outcome, Program, compile, type_check};

static VOCABULARY: LazyLock<Vocabulary> = LazyLock::new(|| {
    let mut builder = Vocabulary::builder();
    for (name, value_type) in [
        ("b", ValueType::Bool),
        ("b.not", ValueType::Bool),
        ("d", ValueType::Double),
        ("dns", ValueType::DnsName),
        ("dur", ValueType::Duration),
        ("e", ValueType::EmailAddress),
        ("i", ValueType::Int64),
        ("ip", ValueType::IpAddress),
        ("m", ValueType::StringMap),
        ("request.headers", ValueType::StringMap),
        ("s", ValueType::String),
        ("s.t", ValueType::String),
        ("t", ValueType::Timestamp),
        ("u", ValueType::Uri),
    ] {
        builder.declare(name, value_type);
    }
    builder.build()
});

/// All attributes, some of them, and all of them with values of other types.
static BAGS: LazyLock<[Vec<u8>; 3]> = LazyLock::new(|| {
    let mut full = OwnedAttributes::new();
    full.insert("b", OwnedValue::Bool(true));
    full.insert("b.not", OwnedValue::Bool(false));
    full.insert("d", OwnedValue::Double(2.5));
    full.insert("dns", "a.example.com");
    full.insert("dur", OwnedValue::Duration(SignedDuration::from_secs(90)));
    full.insert("e", "a@example.com");
    full.insert("i", OwnedValue::Int64(i64::MAX));
    full.insert("ip", OwnedValue::Bytes(vec![10, 0, 0, 1]));
    full.insert("m", [("k", "v"), ("", "x")]);
    full.insert("request.headers", [("x-user", "jane")]);
    full.insert("s", "text");
    full.insert("s.t", OwnedValue::String(vec![0xff, b'a']));
    full.insert("t", OwnedValue::Timestamp(Timestamp { seconds: 1_500_000_000, nanos: 7 }));
    full.insert("u", "http://example.com/a?b");
    let mut some = full.clone();
    for name in ["b", "d", "ip", "m", "s", "t"] {
        some.remove(name);
    }
    some.insert("i", OwnedValue::Int64(i64::MIN));
    let names: Vec<Vec<u8>> = full.iter().map(|(name, _)| name.to_vec()).collect();
    let values: Vec<OwnedValue> = full.iter().map(|(_, value)| value.clone()).collect();
    let wrong: OwnedAttributes = names.into_iter().zip(values.into_iter().cycle().skip(5)).collect();
    [full, some, wrong].map(|attributes| attributes.to_bytes(0))
});

pub(crate) fn run(data: &[u8]) {
    let Some((selector, text)) = data.split_first() else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    let language = match selector % 3 {
        0 => Language::Cexl,
        1 => Language::Cel,
        _ => Language::Compat,
    };
    let vocabulary = &*VOCABULARY;
    let checked = type_check(language, text, vocabulary);
    let program = match compile(language, text, vocabulary) {
        Ok(program) => program,
        Err(error) => {
            // The classic language has type-correct expressions that do not compile; CEL does not.
            assert!(language == Language::Cexl || checked.is_err(), "{text:?} checks, but: {error}");
            return;
        }
    };
    assert_eq!(checked.ok(), Some(program.value_type()), "{text:?} as {}", language.name());
    assert_eq!((program.text(), program.language()), (text, language));
    assert!(!program.conjuncts().is_empty());
    for (number, bytes) in BAGS.iter().enumerate() {
        evaluate(&program, bytes, number < 2);
    }
}

fn evaluate(program: &Program, bytes: &[u8], well_typed: bool) {
    let text = program.text();
    let vocabulary = &*VOCABULARY;
    let arena = Bump::new();
    let bag = AttributeBag::decode(bytes, None, vocabulary, &arena).expect("the bag is canonical");
    let result = program.eval(&bag);
    if let (Ok(value), true) = (&result, well_typed) {
        assert!(is_of(*value, program.value_type()), "{text:?} is {value:?}");
    }
    let references: Vec<(u32, Option<Vec<u8>>)> =
        bag.references().iter().map(|r| (r.slot.0, r.key.map(<[u8]>::to_vec))).collect();
    if program.language() == Language::Cexl {
        let reads = program.reads();
        for (slot, _) in &references {
            assert!(reads.iter().any(|read| read.slot.0 == *slot), "{text:?} reads what it does not say");
        }
    }
    let second = AttributeBag::decode(bytes, None, vocabulary, &arena).expect("the bag is canonical");
    let again = program.eval(&second);
    assert_eq!(shown(&again), shown(&result), "{text:?} evaluated twice");
    let third = AttributeBag::decode(bytes, None, vocabulary, &arena).expect("the bag is canonical");
    match (program.explain(&third).outcome, &result) {
        (Outcome::Value(_), Ok(_)) | (Outcome::Failed(_) | Outcome::Absent, Err(_)) => {}
        (outcome, result) => panic!("{text:?} is {result:?}, explained as {outcome}"),
    }
    let explained: Vec<(u32, Option<Vec<u8>>)> =
        third.references().iter().map(|r| (r.slot.0, r.key.map(<[u8]>::to_vec))).collect();
    assert_eq!(explained, references, "references of {text:?} and of its explanation");
}

fn shown(result: &Result<Value<'_>, EvalError<'_>>) -> String {
    match result {
        Ok(value) => mixer_attribute::text::go_text(*value).to_string(),
        Err(error) => error.to_string(),
    }
}

fn is_of(value: Value<'_>, value_type: ValueType) -> bool {
    match value_type {
        ValueType::String | ValueType::Uri | ValueType::DnsName | ValueType::EmailAddress => {
            matches!(value, Value::String(_))
        }
        ValueType::Int64 => matches!(value, Value::Int64(_)),
        ValueType::Double => matches!(value, Value::Double(_)),
        ValueType::Bool => matches!(value, Value::Bool(_)),
        ValueType::Timestamp => matches!(value, Value::Timestamp(_)),
        ValueType::Duration => matches!(value, Value::Duration(_)),
        ValueType::IpAddress => matches!(value, Value::Bytes(_)),
        ValueType::StringMap => matches!(value, Value::StringMap(_)),
        // CEL: types that are known only at run time.
        ValueType::Unspecified => true,
    }
}
