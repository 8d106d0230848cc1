//! The analysis against the evaluation of every small request.

use bumpalo::Bump;
use mixer_attribute::{AttributeBag, StringMap, Value, Vocabulary};
use proptest::prelude::*;

use super::vocabulary;
use crate::{Decided, Language, Program, compile};

/// Texts of `user` and `name`, and values of the header `k`; `None` is absent.
const TEXTS: [Option<&[u8]>; 5] = [None, Some(b""), Some(b"a"), Some(b"ab"), Some(b"b")];

/// A request: indices into [`TEXTS`], and whether there are headers at all.
#[derive(Debug, Clone, Copy)]
struct Request {
    user: usize,
    name: usize,
    header: usize,
    has_headers: bool,
}

fn requests() -> impl Iterator<Item = Request> {
    let each = || 0..TEXTS.len();
    each().flat_map(move |user| {
        each().flat_map(move |name| {
            each().flat_map(move |header| {
                [false, true].map(|has_headers| Request { user, name, header, has_headers })
            })
        })
    })
}

/// The outcome of a condition; `None` when it fails.
fn outcome(program: &Program, vocabulary: &Vocabulary, request: Request) -> Option<bool> {
    let arena = Bump::new();
    let mut bag = AttributeBag::empty(vocabulary, &arena);
    let slot = |name: &str| vocabulary.slot(name.as_bytes()).unwrap();
    for (name, text) in [("user", request.user), ("name", request.name)] {
        if let Some(text) = TEXTS[text] {
            bag.set(slot(name), Value::String(text));
        }
    }
    let entries: Vec<(&[u8], &[u8])> = TEXTS[request.header].iter().map(|text| (&b"k"[..], *text)).collect();
    let map = StringMap { entries: arena.alloc_slice_copy(&entries), source: Some(slot("headers")) };
    if request.has_headers {
        bag.set(slot("headers"), Value::StringMap(arena.alloc(map)));
    }
    match program.eval(&bag) {
        Ok(Value::Bool(value)) => Some(value),
        Ok(other) => panic!("{other:?}"),
        Err(_) => None,
    }
}

/// The requests with one absent part replaced by an empty one.
fn filled(request: Request, language: Language) -> Vec<Request> {
    let mut filled = Vec::new();
    if request.user == 0 {
        filled.push(Request { user: 1, ..request });
    }
    if request.name == 0 {
        filled.push(Request { name: 1, ..request });
    }
    if !request.has_headers && language == Language::Cexl {
        filled.push(Request { has_headers: true, header: 0, ..request });
    }
    if (!request.has_headers || request.header == 0) && language != Language::Cexl {
        filled.push(Request { has_headers: true, header: 1, ..request });
    }
    filled
}

fn term() -> impl Strategy<Value = String> {
    let subject = prop::sample::select(vec!["user", "name", r#"headers["k"]"#]);
    let constant = prop::sample::select(vec!["", "a", "ab", "b"]);
    let shape = 0..6;
    (subject, constant, shape).prop_map(|(subject, constant, shape)| match shape {
        0 => format!(r#"{subject} == "{constant}""#),
        1 => format!(r#"{subject} != "{constant}""#),
        2 => format!(r#"({subject}).startsWith("{constant}")"#),
        3 => format!(r#"match({subject}, "*{constant}")"#),
        4 => format!(r#"DEFAULT({subject}, "") == "{constant}""#),
        _ => format!(r#"DEFAULT({subject}, "") != "{constant}""#),
    })
}

fn condition() -> impl Strategy<Value = String> {
    term().prop_recursive(3, 8, 2, |inner| {
        let operator = prop::sample::select(vec!["&&", "||"]);
        (inner.clone(), operator, inner).prop_map(|(a, operator, b)| format!("({a}) {operator} ({b})"))
    })
}

/// The condition in the spelling of a language.
fn written(text: &str, language: Language) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, call)) = rest.split_once("DEFAULT(") {
        let (arguments, after) = call.split_once(')').unwrap();
        let (subject, constant) = arguments.split_once(", ").unwrap();
        out += before;
        out += &match language {
            Language::Cel => format!("pick({subject}, {constant})"),
            _ => format!("({subject} | {constant})"),
        };
        rest = after;
    }
    out + rest
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn findings_are_those_of_all_requests(text in condition()) {
        let vocabulary = vocabulary();
        for language in [Language::Cexl, Language::Cel] {
            let text = written(&text, language);
            let program = compile(language, &text, &vocabulary).unwrap();
            let of = |request| outcome(&program, &vocabulary, request);
            let is_skipped = |request: Request| {
                of(request).is_none() && filled(request, language).into_iter().any(|r| of(r) == Some(true))
            };
            if let Some(request) = requests().find(|request| is_skipped(*request)) {
                let found = program.skipped_without(&|_| false);
                prop_assert!(found.is_some(), "{language:?} {text}: {request:?}");
            }
            let wrong = match program.decided() {
                Some((_, Decided::Never)) => requests().find(|request| of(*request) == Some(true)),
                Some((_, Decided::Always)) => requests().find(|request| of(*request) == Some(false)),
                None => None,
            };
            prop_assert!(wrong.is_none(), "{language:?} {text}: {wrong:?}");
        }
    }
}
