//! Random policies, within what has a plan and beyond it: a plan decides what the engine does.

use std::time::Duration;

use fastrand::Rng;
use mixer_attribute::{Value, ValueType};
use mixer_base::allocation::Bounds;
use mixer_engine::adapter::{BoundInstance, Instance, Leaf};

use super::super::super::Params;
use super::super::compile::Policy;
use super::super::evaluate::{Evaluator, Outcome, Prepared};
use super::super::input::document;
use super::*;

const POLICIES: usize = 300;
const INPUTS: usize = 40;
/// However busy the machine is.
const PATIENCE: Duration = Duration::from_secs(60);
/// The texts of inputs and policies.
const TEXTS: [&str; 8] = ["", "a", "ab", "b", "GET", "/a/b", "ü", "\\n"];

fn bound() -> BoundInstance {
    let mut bound = crate::testing::bound("a.instance.ns", "authorization", "", &[]);
    let leaf = |field, key: Option<&str>| Leaf::new(field, key, ValueType::String);
    bound.leaves = [
        leaf("subject.user", None),
        leaf("action.namespace", None),
        leaf("action.service", None),
        leaf("action.method", None),
        leaf("action.path", None),
        leaf("subject.properties", Some("p")),
        leaf("action.properties", Some("p q")),
    ]
    .into();
    bound.messages = vec!["subject".into(), "action".into()];
    bound
}

/// A name, most of which an instance has.
fn name(random: &mut Rng) -> &'static str {
    random
        .choice([
            "input.subject.user",
            "input.action.namespace",
            "input.action[\"service\"]",
            "input.action.method",
            "input.action.path",
            "input.subject.properties.p",
            "input.action.properties[\"p q\"]",
            "input.action.properties.other",
        ])
        .unwrap()
}

fn constant_text(random: &mut Rng) -> String {
    let text = random.choice(TEXTS).unwrap();
    if random.bool() { format!("`{text}`") } else { serde_json::to_string(text).unwrap() }
}

fn term_text(random: &mut Rng) -> String {
    if random.u8(..4) == 0 { constant_text(random) } else { name(random).to_owned() }
}

/// A statement; `rules`: those that it may name.
fn statement_text(random: &mut Rng, rules: usize) -> String {
    let left = term_text(random);
    let right = if random.bool() { constant_text(random) } else { term_text(random) };
    let test = match random.u8(..12) {
        0 => name(random).to_owned(),
        1 => random.bool().to_string(),
        2 | 3 if rules > 0 => format!("r{}", random.usize(..rules)),
        4 => format!("{left} in {{{}, {}}}", constant_text(random), constant_text(random)),
        5 => format!("{left} in [{}, {}]", constant_text(random), constant_text(random)),
        6 => format!("{left} != {right}"),
        7 => format!("startswith({left}, {right})"),
        8 => format!("endswith({left}, {right})"),
        9 => format!("contains({left}, {right})"),
        10 => format!("{right} == {left}"),
        // The engine binds nothing here.
        _ => format!("{left} = {right}"),
    };
    if random.u8(..4) == 0 { format!("not {test}") } else { test }
}

/// A statement that no plan has.
fn other_text(random: &mut Rng) -> String {
    let name = name(random);
    let all = [
        format!("count({name}) > 1"),
        format!("lower({name}) == \"get\""),
        format!("some x in [\"a\", {name}]; x == \"ab\""),
        format!("x := {name}; x != \"a\""),
        format!("{name} < \"b\""),
        "r0 with input.action.path as \"/a/b\"".to_owned(),
        "object.get(input.action, \"path\", \"\") == \"/a/b\"".to_owned(),
        "input.action[\"pa\\u0074h\"] == \"/a/b\"".to_owned(),
    ];
    random.choice(all).unwrap()
}

fn module(random: &mut Rng, is_simple: bool) -> String {
    let rules = random.usize(1..4);
    let mut text = "package a.gate\nimport rego.v1\n".to_owned();
    for rule in 0..rules {
        let name = if rule + 1 == rules { "open".to_owned() } else { format!("r{rule}") };
        if random.u8(..3) > 0 {
            text += &format!("default {name} := {}\n", random.bool());
        }
        let value = random.bool();
        for _ in 0..random.usize(1..4) {
            let count = random.usize(1..4);
            let mut statements: Vec<String> = (0..count).map(|_| statement_text(random, rule)).collect();
            if !is_simple && rule > 0 && random.bool() {
                statements.push(other_text(random));
            }
            let value = match (value, random.bool()) {
                (true, true) => String::new(),
                (value, _) if is_simple || random.u8(..4) > 0 => format!(" := {value}"),
                // Rules may have several values.
                (value, _) => format!(" := {}", !value),
            };
            text += &format!("{name}{value} if {{ {} }}\n", statements.join("; "));
        }
    }
    text
}

/// What the policy decides, and how often its plan did. Errors: it does not compile.
fn compare(text: &str, random: &mut Rng) -> Result<(bool, usize), String> {
    let params = Params {
        policy: vec![text.to_owned()],
        check_method: "data.a.gate.open".to_owned(),
        ..Params::default()
    };
    let policy = Policy::compile(&params).map_err(|problems| format!("{problems:?}"))?;
    let engine = policy.with_data(&[]).map_err(|problem| problem.message())?;
    let evaluator = Evaluator::new(Prepared::new(engine, policy.entry.clone(), 0));
    let layouts = Layout::of_all(&[bound()]);
    let mut decided = 0;
    for _ in 0..INPUTS {
        let values: Vec<Option<Value<'_>>> = (0..7)
            .map(|_| match random.u8(..40) {
                0 | 1 => None,
                2 => Some(Value::String(b"a\xff")),
                3 => Some(Value::Int64(7)),
                _ => Some(Value::String(random.choice(TEXTS).unwrap().as_bytes())),
            })
            .collect();
        let instance = Instance { bound: 0, name: "a.instance.ns", values: &values };
        let outcome = evaluator
            .evaluate(PATIENCE, Bounds::of(1 << 20), |names| document(names, &layouts[0], &instance));
        if let Some(planned) = policy.plan.as_ref().and_then(|plan| plan.decide(&layouts[0], &instance)) {
            assert_eq!(planned, outcome, "{text}\n{values:?}");
            decided += 1;
        }
    }
    Ok((policy.plan.is_some(), decided))
}

#[test]
fn a_plan_decides_what_the_engine_does() {
    let seed = fastrand::u64(..);
    let mut random = Rng::with_seed(seed);
    let (mut simple, mut planned, mut others) = (0, 0, 0);
    let mut decided = 0;
    for number in 0..POLICIES {
        let is_simple = number % 4 > 0;
        let text = module(&mut random, is_simple);
        // Some statements contradict each other in a way that the compiler finds.
        let Ok((has_plan, by_plan)) = compare(&text, &mut random) else { continue };
        assert!(has_plan || !is_simple, "seed {seed}: it has no plan\n{text}");
        simple += usize::from(is_simple);
        planned += usize::from(has_plan);
        others += usize::from(!has_plan);
        decided += by_plan;
    }
    let shown =
        format!("seed {seed}: {simple} simple, {planned} planned, {others} others, {decided} decided");
    assert!(simple > POLICIES / 3 && planned >= simple && others > 0, "{shown}");
    assert!(decided > planned * INPUTS / 3, "{shown}");
}

/// The plan of a policy.
fn plan_of(text: &str) -> Option<std::sync::Arc<Plan>> {
    let params = Params {
        policy: vec![text.to_owned()],
        check_method: "data.gate.open".to_owned(),
        ..Params::default()
    };
    Policy::compile(&params).unwrap_or_else(|problems| panic!("{problems:?}\n{text}")).plan
}

/// A document of data may have the name of a rule.
#[test]
fn with_data_there_is_no_plan() {
    let with = |data_files: Vec<String>| {
        let policy = vec!["package gate\nopen if input.action.method == \"GET\"".to_owned()];
        let params =
            Params { policy, check_method: "data.gate.open".to_owned(), data_files, ..Params::default() };
        Policy::compile(&params).unwrap().plan.is_some()
    };
    assert_eq!((with(Vec::new()), with(vec!["/etc/opa/data.json".to_owned()])), (true, false));
}

#[test]
fn what_is_not_simple_has_no_plan() {
    let simple = "open if input.action.method == \"GET\"";
    let with = |more: &str| plan_of(&format!("package gate\n{more}\n"));
    assert!(with(simple).is_some() && with(&format!("import future.keywords.in\n{simple}")).is_some());
    for text in [
        // Other values than texts, and names that stand for others.
        "open if input.action == {}",
        "open if input.subject.groups[0] == \"a\"",
        "open if input.action.path.x == \"a\"",
        "open if input.action.method == 7",
        "import input.action\nopen if action.method == \"GET\"",
        "import data.gate.r as y\nr if input.action.path == \"/\"\nopen if y",
        // Other rules than of one Boolean value.
        "open := 7 if input.action.method == \"GET\"",
        "open := input.action.method if input.action.method == \"GET\"",
        "open if { input.action.method == \"GET\" } else := false",
        "open if { input.action.method == \"GET\" } else if { input.action.path == \"/\" }",
        "open := true if input.action.method == \"GET\"\nopen := false if input.action.path == \"/\"",
        // Functions of the policy.
        "f(x) if x == \"a\"\nopen if f(input.action.path)",
    ] {
        assert!(with(text).is_none(), "{text}");
    }
    // A rule that is named again and again.
    let mut chain = "r0 if input.action.method == \"GET\"\n".to_owned();
    for rule in 1..7 {
        chain += &format!("r{rule} if {{ r{0}; not r{0}; r{0} }}\n", rule - 1);
    }
    assert!(with(&format!("{chain}open if r6")).is_none(), "too many statements");
    assert!(with(&format!("{chain}open if r2")).is_some());
    let deep: String = (1..20).map(|rule| format!("r{rule} if r{}\n", rule - 1)).collect();
    assert!(with(&format!("r0 if input.action.method == \"GET\"\n{deep}open if r19")).is_none());
}

/// The engine evaluates all rules of a name, also after one that holds.
#[test]
fn a_property_that_is_no_text_is_left_to_the_engine() {
    let text = "package gate\nopen if input.action.method == \"GET\"\n\
                open if startswith(input.subject.properties.p, \"/\")\n";
    let plan = plan_of(text).expect("it has a plan");
    let layouts = Layout::of_all(&[bound()]);
    let decide = |property: Value<'static>| {
        let mut values = [None; 7];
        (values[3], values[5]) = (Some(Value::String(b"GET")), Some(property));
        plan.decide(&layouts[0], &Instance { bound: 0, name: "a.instance.ns", values: &values })
    };
    assert_eq!(decide(Value::String(b"a")), Some(Outcome::Allowed));
    assert_eq!(decide(Value::Int64(7)), None);
}

#[test]
fn a_plan_of_the_old_dialect() {
    let text = "package gate\ndefault open = false\nopen { input.action.method = \"PUT\"; input.subject.user }\n\
                open = true { not input.action.method != \"GET\"; startswith(input.action.path, `/a`) }\n";
    let plan = plan_of(text).expect("it has a plan");
    let layouts = Layout::of_all(&[bound()]);
    let decide = |user: &'static str, method: &'static str, path: &'static str| {
        let texts = [user, "", "", method, path, "", ""];
        let values = texts.map(|text| Some(Value::String(text.as_bytes())));
        plan.decide(&layouts[0], &Instance { bound: 0, name: "a.instance.ns", values: &values })
    };
    for (user, method, path, outcome) in [
        ("ann", "PUT", "/b", Outcome::Allowed),
        ("", "PUT", "/b", Outcome::Denied),
        ("", "GET", "/a/b", Outcome::Allowed),
        ("", "", "/a/b", Outcome::Allowed),
        ("ann", "GET", "/b", Outcome::Denied),
    ] {
        assert_eq!(decide(user, method, path), Some(outcome), "{user} {method} {path}");
    }
}
