use super::*;

fn of(condition: &str) -> Selection {
    Selection::of(condition, Language::Cexl, false, &mut |name| (name != "unknown").then(|| name.into()))
}

/// What is absent has the default of its type in CEL, and makes conditions fail in the classic language.
#[test]
fn an_absent_attribute_may_be_selected_in_cel() {
    for (cel, classic) in [
        ("user == \"\"", "(user | \"anonymous\") == \"anonymous\""),
        ("user != \"ann\"", "(user | \"\") == \"\""),
        ("size == 0", "(size | 7) == 7"),
        ("flag == false", "(flag | true) == true"),
    ] {
        for language in [Language::Cel, Language::Compat] {
            let cel_set = Selection::of(cel, language, false, &mut |name| Some(name.into()));
            assert!(cel_set.meets(&of(classic)) && !cel_set.is_exact(), "{cel}: {cel_set:?}");
        }
    }
    let of_cel = |text| Selection::of(text, Language::Cel, false, &mut |name| Some(name.into()));
    assert!(!of_cel("user == \"a\"").meets(&of("(user | \"\") == \"\"")));
    assert!(of_cel("user == \"\\x61\"").meets(&of("user == \"b\"")), "escapes are not the same");
    assert!(of_cel("size == 010").meets(&of("size == 9")), "nor are digits");
}

#[test]
fn conditions_that_compare_one_attribute_are_exact() {
    for (condition, other, meets, is_within) in [
        ("user == \"a\"", "user == \"b\"", false, false),
        ("user == \"a\"", "user == \"a\" || \"b\" == user", true, true),
        ("user == \"a\" || user == \"b\"", "user == \"a\"", true, false),
        ("user != \"a\"", "user == \"a\"", false, false),
        ("user == \"b\"", "user != \"a\"", true, true),
        ("user != \"a\" && user != \"b\"", "user != \"a\"", true, true),
        ("user != \"a\"", "user != \"a\" && user != \"b\"", true, false),
        ("user == \"a\" && path == \"/\"", "user == \"a\"", true, true),
        ("user == \"a\"", "user == \"a\" && path == \"/\"", true, false),
        ("user == \"a\"", "path == \"/\"", true, false),
        ("user == \"a\" || path == \"/\"", "user == \"b\"", true, false),
        ("user == \"a\"", "true", true, true),
        ("true", "user == \"a\"", true, false),
        ("user == \"a\" && false", "true", false, true),
        ("user == \"a\"", "false", false, false),
        // What is absent.
        ("(user | \"\") == \"\"", "user == \"\"", true, false),
        ("user == \"\"", "(user | \"\") == \"\"", true, true),
        ("(user | \"x\") != \"a\"", "user != \"a\"", true, false),
        ("user != \"a\"", "(user | \"x\") != \"a\"", true, true),
        ("headers[\"x\"] == \"a\"", "headers[\"y\"] == \"b\"", true, false),
        ("headers[\"x\"] == \"a\"", "headers[\"x\"] == \"b\"", false, false),
        ("headers[\"x\"] == \"\"", "(headers[\"x\"] | \"a\") == \"a\"", true, false),
        ("size == 3", "size == 4", false, false),
        ("size == 3", "size == \"3\"", false, false),
        ("flag", "flag == false", false, false),
        // What is not understood may select anything of the rest.
        ("match(path, \"/*\")", "user == \"a\"", true, false),
        ("user == \"b\" && match(path, \"/*\")", "user == \"a\"", false, false),
        ("user == \"a\" && match(path, \"/*\")", "user == \"a\"", true, true),
        ("user == \"a\"", "user == \"a\" && match(path, \"/*\")", true, false),
        ("unknown == \"a\"", "user == \"b\"", true, false),
        ("user == \"a", "user == \"b\"", true, false),
        ("!(user == \"a\")", "user == \"a\"", true, false),
        ("user == other", "user == \"a\"", true, false),
    ] {
        let (condition_set, other_set) = (of(condition), of(other));
        assert_eq!(
            (condition_set.meets(&other_set), condition_set.is_within(&other_set)),
            (meets, is_within),
            "{condition}; {other}: {condition_set:?}; {other_set:?}"
        );
        assert_eq!(other_set.meets(&condition_set), meets, "{other}; {condition}");
    }
}

#[test]
fn what_one_condition_selects_and_another_does_not_is_left() {
    for (condition, other, left) in [
        ("user == \"a\" || user == \"b\"", "user == \"a\"", "user == \"b\""),
        ("user == \"a\"", "user == \"a\"", "false"),
        ("user != \"a\"", "user != \"a\" && user != \"b\"", "user == \"b\""),
        ("true", "user != \"b\" && user != \"c\"", "user == \"b\" || user == \"c\" || (user | \"\") == \"\""),
        ("user == \"a\"", "user == \"a\" && path == \"/\"", "user == \"a\""),
        ("user == \"a\"", "match(user, \"a\")", "user == \"a\""),
    ] {
        let (found, wanted) = (of(condition).minus(&of(other)), of(left));
        assert_eq!(found.is_never(), wanted.is_never(), "{condition} without {other}: {found:?}");
        assert_eq!(found.meets(&wanted), !wanted.is_never(), "{condition} without {other}: {found:?}");
    }
    let others = of("user != \"a\"").minus(&of("user != \"a\" && user != \"b\""));
    assert!(!others.meets(&of("user == \"c\"")), "{others:?}");
    let rest = of("user == \"a\" || user == \"b\"").minus(&of("user == \"a\""));
    assert!(!rest.meets(&of("user == \"a\"")), "{rest:?}");
}

#[test]
fn what_fails_is_selected_if_the_rule_fails_closed() {
    let closed =
        |condition: &str| Selection::of(condition, Language::Cexl, true, &mut |name| Some(name.into()));
    let absent = of("(user | \"x\") == \"x\"");
    assert!(closed("user == \"a\"").meets(&absent) && !of("user == \"a\"").meets(&absent));
    assert!(!closed("user == \"a\"").meets(&of("user == \"b\"")));
    assert!(closed("user == \"a\" && path == \"/\"").meets(&of("user == \"b\"")));
    assert!(closed("user == \"a\" && user == \"b\"").meets(&absent));
}

#[test]
fn an_operand_among_values_is_a_selection() {
    let among = |operand: &str, values: &[&str]| {
        Selection::of_operand(operand, Language::Cexl, values.iter().copied(), &mut |name| Some(name.into()))
    };
    assert!(!among("user | \"\"", &["a", "b"]).meets(&of("user == \"c\"")));
    assert_eq!(among("user | \"\"", &["a", "b"]).common_text(&of("user == \"b\"")), Some("b"));
    assert!(among("user | \"\"", &[]).is_never());
    assert!(among("user + \"x\"", &["a"]).meets(&of("user == \"c\"")));
}

#[test]
fn a_long_condition_is_read_in_time() {
    let operands: Vec<String> = (0..5_000).map(|i| format!("user == \"u{i}\"")).collect();
    let all = of(&operands.join(" || "));
    assert!(all.is_exact() && !all.meets(&of("user == \"v\"")) && all.meets(&of("user == \"u4999\"")));
    let nested = format!("{}user == \"a\"{}", "(".repeat(900), ")".repeat(900));
    assert!(!of(&nested).meets(&of("user == \"b\"")));
}
