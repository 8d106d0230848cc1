use std::collections::{BTreeMap, BTreeSet};

use super::*;

/// A version of the engine with another function fails here, until somebody has looked at what the function costs.
#[test]
fn each_function_of_the_engine_is_bounded_or_known_to_be_harmless() {
    let of_engine: BTreeSet<&str> = BUILTINS.keys().copied().collect();
    let mut known = BTreeMap::new();
    for name in FUNCTIONS.iter().map(|(name, _)| *name).chain(HARMLESS.iter().map(|(name, _)| *name)) {
        *known.entry(name).or_insert(0) += 1;
    }
    let twice: Vec<_> = known.iter().filter(|(_, count)| **count > 1).collect();
    assert!(twice.is_empty(), "{twice:?}");
    let known: BTreeSet<&str> = known.into_keys().collect();
    let unknown: Vec<_> = of_engine.difference(&known).collect();
    assert!(unknown.is_empty(), "bound what callers make large: {unknown:?}");
    let gone: Vec<_> = known.difference(&of_engine).collect();
    assert!(gone.is_empty(), "{gone:?}");
    assert!(HARMLESS.iter().all(|(_, why)| !why.is_empty()));
    assert!(is_available("regex.match") && is_available("lower") && !is_available("http.send"));
}

/// The order is that of the names, so that a function is found.
#[test]
fn functions_are_in_order() {
    assert!(FUNCTIONS.is_sorted_by_key(|(name, _)| *name));
    assert!(HARMLESS.is_sorted_by_key(|(name, _)| *name));
}

/// A call as of a policy: its value, and what stopped it.
fn call(name: &str, limit: Duration, arguments: &[Value]) -> (anyhow::Result<Value>, Option<Beyond>) {
    let (known, bounded) = FUNCTIONS.iter().find(|(known, _)| *known == name).unwrap();
    let builtin = Builtin::find(known).unwrap();
    evaluating(limit, || bounded(&builtin, arguments))
}

const LONG: Duration = Duration::from_secs(3600);

fn texts(texts: &[&str]) -> Vec<Value> {
    texts.iter().map(|text| Value::from(*text)).collect()
}

/// Patterns with a state for almost every byte: 64 KiB take tenths of a second.
#[test]
fn a_search_that_takes_long_does_not_begin_on_the_thread_of_a_call() {
    let text = "ab".repeat(20_000);
    let pattern = "[ab]*a[ab]{30}c";
    for (name, arguments) in [
        ("regex.match", vec![Value::from(pattern), Value::from(&*text)]),
        ("regex.find_n", vec![Value::from(pattern), Value::from(&*text), Value::from(1_i64)]),
        (
            "regex.find_all_string_submatch_n",
            vec![Value::from(pattern), Value::from(&*text), Value::from(1_i64)],
        ),
        ("regex.split", texts(&[pattern, &text])),
        ("regex.replace", texts(&[&text, pattern, ""])),
        ("regex.template_match", texts(&["<[ab]*a[ab]{30}c>", &text, "<", ">"])),
        ("glob.match", vec![Value::from("*a*b*a*b"), Value::Null, Value::from(&*text)]),
    ] {
        let (short, stopped) = call(name, INLINE, &arguments);
        assert!(short.is_err() && stopped == Some(Beyond::Time), "{name}: {short:?} {stopped:?}");
        let (long, stopped) = call(name, LONG, &arguments);
        assert!(long.is_ok() && stopped.is_none(), "{name}: {long:?} {stopped:?}");
        let longer = text.repeat(100);
        let arguments: Vec<Value> = arguments
            .into_iter()
            .map(|argument| if argument == Value::from(&*text) { Value::from(&*longer) } else { argument })
            .collect();
        let (longer, stopped) = call(name, LONG, &arguments);
        let is_bounded = longer.as_ref().is_err_and(|error| error.to_string().contains("at most"));
        assert!(is_bounded && stopped == Some(Beyond::Bound), "{name}: {longer:?} {stopped:?}");
    }
}

/// At each place the search looks at all that follows.
#[test]
fn a_search_for_all_matches_ends_with_the_time_of_the_evaluation() {
    let text = "A".repeat(8 << 10);
    let pattern = ".*[^A-Z]|[A-Z]";
    for (name, arguments) in [
        ("regex.find_n", vec![Value::from(pattern), Value::from(&*text), Value::from(-1_i64)]),
        (
            "regex.find_all_string_submatch_n",
            vec![Value::from(pattern), Value::from(&*text), Value::from(-1_i64)],
        ),
        ("regex.split", texts(&[pattern, &text])),
        ("regex.replace", texts(&[&text, pattern, "-"])),
    ] {
        regorus::set_global_memory_limit(Some(0));
        let (ended, stopped) = call(name, Duration::ZERO, &arguments);
        assert!(ended.is_err() && stopped == Some(Beyond::Time), "{name}: {ended:?} {stopped:?}");
    }
    let many = "a".repeat(70_000);
    let (replaced, stopped) = call("regex.replace", LONG, &texts(&[&many, "a", "b"]));
    assert!(replaced.is_err() && stopped == Some(Beyond::Bound));
    let (replaced, stopped) = call("regex.replace", LONG, &texts(&[&many[..60_000], "a", "b"]));
    assert_eq!((replaced.unwrap(), stopped), (Value::from("b".repeat(60_000)), None));
    let (invalid, stopped) = call("regex.replace", LONG, &texts(&[&many[..2000], "(", "b"]));
    assert_eq!((invalid.unwrap(), stopped), (Value::Undefined, None));
}

/// Each state has the places of all groups: 500 of them take a minute for 64 KiB.
#[test]
fn groups_count_where_their_places_are_kept() {
    let pattern = format!("(?:{}|a)*b", "(a)".repeat(100));
    let text = "a".repeat(2000);
    let all = [Value::from(&*pattern), Value::from(&*text), Value::from(-1_i64)];
    for (name, arguments) in [
        ("regex.find_all_string_submatch_n", all.to_vec()),
        ("regex.replace", texts(&[&text, &pattern, "$1"])),
    ] {
        let (captured, stopped) = call(name, LONG, &arguments);
        assert!(captured.is_err() && stopped == Some(Beyond::Bound), "{name}: {captured:?}");
    }
    assert!(call("regex.replace", LONG, &texts(&[&text, &pattern, "-"])).0.is_ok());
    assert!(call("regex.find_n", LONG, &all).0.is_ok());
}

#[test]
fn patterns_that_take_long_to_compile_are_refused_wherever_they_stand() {
    let classes = format!("(?:{}[{{])", r"\pL".repeat(250));
    let choices = "a?".repeat(1500);
    let all = |pattern: &str| vec![Value::from(pattern), Value::from("a"), Value::from(1_i64)];
    for pattern in [&classes, &choices] {
        for (name, arguments) in [
            ("regex.find_all_string_submatch_n", all(pattern)),
            ("regex.find_n", all(pattern)),
            ("regex.is_valid", texts(&[pattern])),
            ("regex.match", texts(&[pattern, "a"])),
            ("regex.replace", texts(&["a", pattern, "a"])),
            ("regex.split", texts(&[pattern, "a"])),
            // The engine ends a piece at the first end.
            ("regex.template_match", texts(&[&format!("{{{pattern}}}"), "a", "{", "}"])),
            ("regex.template_match", texts(&[&format!("{pattern}|"), "a", "", "|"])),
        ] {
            let (called, stopped) = call(name, LONG, &arguments);
            assert!(called.is_err() && stopped == Some(Beyond::Bound), "{name}: {called:?}");
        }
    }
    let many: String = (0..100).map(|i| format!("<{i}>")).collect();
    let (called, stopped) = call("regex.template_match", LONG, &texts(&[&many, "a", "<", ">"]));
    assert!(called.is_err() && stopped == Some(Beyond::Bound), "{called:?}");
    let (called, _) =
        call("regex.template_match", LONG, &texts(&["urn:<[a-z]+>:<[0-9]>", "urn:foo:7", "<", ">"]));
    assert_eq!(called.unwrap(), Value::from(true));
}

/// A glob of braces alone overflows the stack of the engine.
#[test]
fn globs_are_bounded_with_what_is_written_around_delimiters() {
    let braces = format!("{}a{}", "{".repeat(500), "}".repeat(500));
    let dots = vec![Value::from("."); 10];
    let many = vec![Value::from("."); 1000];
    for (pattern, delimiters, text) in [
        (&*"?".repeat(5000), Value::Null, "a"),
        (&braces, Value::Null, "a"),
        (&*".".repeat(1500), Value::from(Vec::<Value>::new()), "a"),
        (&*".".repeat(200), Value::from(dots), "a"),
        ("a", Value::from(many), "a"),
        ("*a*", Value::Null, &*"a".repeat(8 << 20)),
    ] {
        let (called, stopped) =
            call("glob.match", LONG, &[Value::from(pattern), delimiters, Value::from(text)]);
        let shown: String = pattern.chars().take(20).collect();
        assert!(called.is_err() && stopped == Some(Beyond::Bound), "{shown}: {called:?}");
    }
    let (called, stopped) = call("glob.quote_meta", LONG, &texts(&[&braces]));
    assert!(called.is_err() && stopped == Some(Beyond::Bound), "{called:?}");
    let slash = || Value::from(texts(&["/"]));
    for (pattern, delimiters, text, expected) in [
        ("/a/*", slash(), "/a/b", true),
        ("/a/*", slash(), "/a/b/c", false),
        ("*.example.com", Value::from(Vec::<Value>::new()), "a.example.com", true),
        ("{a,b{c,d}}", Value::Null, "bd", true),
    ] {
        let (called, _) = call("glob.match", INLINE, &[Value::from(pattern), delimiters, Value::from(text)]);
        assert_eq!(called.unwrap(), Value::from(expected), "{pattern} {text}");
    }
    assert_eq!(call("glob.quote_meta", INLINE, &texts(&["*.a"])).0.unwrap(), Value::from("\\*.a"));
}

#[test]
fn results_are_not_made_anew_for_each_part_of_an_argument() {
    // 100 000 sets, and occurrences in a long text: the engine takes minutes.
    let set = |i: i64| Value::from(BTreeSet::from([Value::from(i)]));
    let sets = Value::from((0..100_000).map(set).collect::<BTreeSet<_>>());
    let (united, _) = call("union", LONG, &[sets]);
    assert_eq!(united.unwrap(), Value::from((0..100_000).map(Value::from).collect::<BTreeSet<Value>>()));
    assert!(call("union", LONG, &[Value::from(BTreeSet::from([Value::from(1_i64)]))]).0.is_err());
    let half = format!("{}b", "a".repeat(400_000));
    let (counted, _) = call("strings.count", LONG, &texts(&[&"a".repeat(1 << 20), &half]));
    assert_eq!(counted.unwrap(), Value::from(0_u64));
    for (text, sought, expected) in [("aaaa", "aa", 3_u64), ("aä", "", 3), ("", "a", 0), ("abcab", "ab", 2)]
    {
        let (counted, _) = call("strings.count", LONG, &texts(&[text, sought]));
        assert_eq!(counted.unwrap(), Value::from(expected), "{text} {sought}");
    }
}

#[test]
fn products_of_lengths_are_bounded() {
    let long = "a".repeat(100_000);
    let large = Builtin::find("units.parse").unwrap().call(&texts(&["1e9999"])).unwrap();
    let mut numbers: Vec<Value> = (0..60_000).map(|_| Value::from(1_i64)).collect();
    let few = Value::from(numbers.clone());
    numbers.push(large);
    let numbers = Value::from(numbers);
    let replacements: String = (0..1000).map(|i| format!("\"{i}x\": \"\",")).collect();
    let replacements = Value::from_json_str(&format!("{{{}}}", replacements.trim_end_matches(','))).unwrap();
    let words: Vec<Value> = (0..500).map(|i| Value::from(format!("{}{i}", "a".repeat(1000)))).collect();
    let words = Value::from(words);
    let deep =
        Value::from_json_str(&format!("{}\"{}\"{}", "[".repeat(100), "a".repeat(300_000), "]".repeat(100)))
            .unwrap();
    let time = |layout: &str| Value::from(vec![Value::from(0_i64), Value::from("UTC"), Value::from(layout)]);
    for (name, arguments) in [
        ("strings.replace_n", vec![replacements, Value::from(&*long)]),
        ("strings.any_prefix_match", vec![words.clone(), words]),
        ("sum", vec![numbers.clone()]),
        ("product", vec![numbers]),
        ("sprintf", vec![Value::from("%v"), Value::from(vec![deep])]),
        ("time.format", vec![time(&"5".repeat(2000))]),
        ("time.format", vec![time("ä")]),
        ("time.parse_ns", texts(&[&"5".repeat(2000), "5"])),
        ("net.cidr_expand", texts(&["010.0.0.0/4"])),
    ] {
        let (called, stopped) = call(name, LONG, &arguments);
        assert!(called.is_err() && stopped == Some(Beyond::Bound), "{name}: {:?}", called.map(|_| ()));
    }
    assert_eq!(call("sum", LONG, &[few]).0.unwrap(), Value::from(60_000_i64));
    assert_eq!(call("time.format", LONG, &[time("2006")]).0.unwrap(), Value::from("1970"));
}

#[test]
fn what_stopped_a_call_is_of_one_evaluation() {
    let (_, stopped) = evaluating(LONG, || beyond(String::new()));
    assert_eq!(stopped, Some(Beyond::Bound));
    assert_eq!(evaluating(LONG, || ()).1, None);
    assert!(std::panic::catch_unwind(|| evaluating(INLINE, || panic!("on purpose"))).is_err());
    assert!(!is_of_short_evaluation() && !is_beyond());
}
