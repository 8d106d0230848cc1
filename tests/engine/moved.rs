//! What one resource refused is to be refused by another one, which has a mistake: the rule that is split, those that are merged, the entry
//! that moves from one list to another.

use mixer_engine::runtime::OnConfigError;

use crate::refusal::{REFUSE, good};
use crate::stage::{Answer, Files, Stage};

const PARTS: &str = "kind: instance
metadata: {name: who, namespace: istio-system}
spec: {compiledTemplate: listentry, params: {value: 'source.user | \"\"'}}
";

/// A handler that refuses nobody.
const PASS: &str = "kind: handler
metadata: {name: pass, namespace: istio-system}
spec: {compiledAdapter: noop}
";

fn rule(name: &str, condition: &str) -> String {
    in_namespace("istio-system", name, condition)
}

fn in_namespace(namespace: &str, name: &str, condition: &str) -> String {
    format!(
        "kind: rule\nmetadata: {{name: {name}, namespace: {namespace}}}\n\
         spec: {{match: '{condition}', actions: [{{handler: refuse.istio-system, instances: [any.instance.istio-system]}}]}}\n"
    )
}

fn list(name: &str, entries: &str) -> String {
    format!(
        "kind: handler\nmetadata: {{name: {name}, namespace: istio-system}}\n\
         spec: {{compiledAdapter: listchecker, params: {{blacklist: true, overrides: [{entries}]}}}}\n"
    )
}

fn asks(name: &str, list: &str) -> String {
    format!(
        "kind: rule\nmetadata: {{name: {name}, namespace: istio-system}}\n\
         spec: {{actions: [{{handler: {list}, instances: [who]}}]}}\n"
    )
}

fn is(user: &str) -> String {
    format!("(source.user | \"\") == \"{user}\"")
}

/// Makes a mistake in the text of a resource.
type Mistake = fn(&str) -> String;

/// What is wrong with a document; the last three cannot be read.
const MISTAKES: [(&str, Mistake); 8] = [
    ("an unknown field", |text| text.replace("spec: {", "spec: {blakc: 1, ")),
    ("an unknown annotation", |text| {
        text.replacen("metadata: {", "metadata: {annotations: {mixer.dev/on-eror: deny}, ", 1)
    }),
    ("a handler that does not exist", |text| text.replace("handler: refuse", "handler: refues")),
    ("an unknown field beside the specification", |text| format!("{text}mtach: x\n")),
    ("another kind", |text| text.replacen("kind: ", "kind: x", 1)),
    ("no YAML", |text| text.trim_end().strip_suffix('}').unwrap_or(text).to_owned()),
    ("no name", |text| text.replacen("name: ", "nam: ", 1)),
    ("no kind", |text| text.split_once('\n').map(|(_, rest)| rest.to_owned()).unwrap_or_default()),
];

/// Files by name.
type Texts<'t> = &'t [(&'t str, String)];

fn files(texts: Texts<'_>) -> Files {
    let mut files = good();
    files.put("/conf/parts.yaml", format!("{REFUSE}---\n{PARTS}---\n{PASS}"));
    for (name, text) in texts {
        files.put(&format!("/conf/{name}.yaml"), text.as_str());
    }
    files
}

/// Asserts that dan and eve are refused before and after each mistake in a file of the edit, whichever file is saved first.
fn holds(what: &str, before: Texts<'_>, after: Texts<'_>, mistaken: &str) {
    let mut wrong = Vec::new();
    for (name, mistake) in MISTAKES {
        let edited: Vec<(&str, String)> = after
            .iter()
            .map(|(file, text)| (*file, if *file == mistaken { mistake(text) } else { text.clone() }))
            .collect();
        let is_changed = edited.iter().zip(after).any(|((_, a), (_, b))| a != b);
        if !is_changed {
            continue;
        }
        for first in
            [None, Some(mistaken), edited.iter().map(|(file, _)| *file).find(|file| *file != mistaken)]
        {
            let mut stage = Stage::new(OnConfigError::KeepLast, false);
            stage.start(&files(before));
            assert_eq!((stage.check("dan"), stage.check("eve")), (Answer::Denied, Answer::Denied), "{what}");
            if let Some(first) = first.filter(|first| *first == mistaken) {
                let mut half = files(before);
                let text = edited.iter().find(|(file, _)| *file == first).map(|(_, text)| text.clone());
                half.put(&format!("/conf/{first}.yaml"), text.unwrap_or_default());
                stage.change(&half);
            }
            let mut all = files(&edited);
            // What the edit does not name is deleted.
            all.texts.retain(|file, _| {
                file == "/conf/words.yaml"
                    || file == "/conf/deny.yaml"
                    || file == "/conf/parts.yaml"
                    || edited.iter().any(|(name, _)| *file == format!("/conf/{name}.yaml"))
            });
            stage.change(&all);
            let answers = (stage.check("dan"), stage.check("eve"));
            if answers != (Answer::Denied, Answer::Denied) {
                wrong.push(format!("{what}, {name}, {first:?}: {answers:?}, {:#?}", stage.kept()));
            }
            // Mended, what was meant serves.
            stage.change(&files(after));
            let mended = (stage.check("dan"), stage.check("eve"), stage.kept());
            if mended != (Answer::Denied, Answer::Denied, Vec::new()) {
                wrong.push(format!("{what}, {name}, mended: {mended:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of them: {}", wrong.len(), wrong.join("\n"));
}

#[test]
fn a_rule_that_is_split_waits_for_its_other_part_in_another_file() {
    let both = format!("{} || {}", is("dan"), is("eve"));
    holds(
        "split",
        &[("a", rule("r1", &both)), ("b", "# Nothing yet.\n".to_owned())],
        &[("a", rule("r1", &is("dan"))), ("b", rule("r2", &is("eve")))],
        "b",
    );
}

#[test]
fn a_rule_stays_until_another_one_that_is_to_do_its_work_has_no_error() {
    let both = format!("{} || {}", is("dan"), is("eve"));
    let before = [("a", rule("r1", &is("dan"))), ("b", rule("r2", &is("eve")))];
    holds("merged", &before, &[("b", rule("r2", &both))], "b");
    holds("merged, emptied", &before, &[("a", "# Moved.\n".to_owned()), ("b", rule("r2", &both))], "b");
}

#[test]
fn an_entry_stays_in_its_list_until_the_list_to_which_it_moves_has_no_error() {
    let rules = |file: &'static str| (file, [asks("r1", "l1"), asks("r2", "l2")].join("---\n"));
    holds(
        "moved entry",
        &[("a", list("l1", "eve, dan")), ("b", list("l2", "mallory")), rules("c")],
        &[("a", list("l1", "dan")), ("b", list("l2", "mallory, eve")), rules("c")],
        "b",
    );
}

#[test]
fn a_rule_stays_until_the_list_that_is_to_have_its_caller_has_no_error() {
    holds(
        "rule becomes entry",
        &[("a", rule("r1", &is("dan"))), ("b", list("l2", "eve")), ("c", asks("r2", "l2"))],
        &[("b", list("l2", "eve, dan")), ("c", asks("r2", "l2"))],
        "b",
    );
}

/// The condition of the other one is to have more, or fewer, constants, or none.
#[test]
fn a_rule_waits_for_another_one_whose_condition_selects_what_it_no_longer_does() {
    let (dan, eve) = (is("dan"), is("eve"));
    let not = |user: &str| is(user).replace("==", "!=");
    let nothing = || ("b", "# Nothing yet.\n".to_owned());
    let both = format!("{dan} || {eve}");
    for (what, before, after) in [
        (
            "everybody",
            [("a", rule("r1", &both)), nothing()],
            [("a", rule("r1", &is("carl"))), ("b", rule("r2", "true"))],
        ),
        (
            "everybody but one",
            [("a", rule("r1", &both)), nothing()],
            [("a", rule("r1", &is("carl"))), ("b", rule("r2", &not("ann")))],
        ),
        (
            "the name of a rule",
            [("a", rule("eve", &both)), nothing()],
            [("a", rule("eve", &dan)), ("b", rule("r2", &eve))],
        ),
        (
            "fewer exceptions",
            [("a", rule("r1", &both)), ("b", rule("r2", &format!("({both}) && {}", not("eve"))))],
            [("a", rule("r1", &dan)), ("b", rule("r2", &both))],
        ),
        (
            "an exception",
            [("a", rule("r1", &not("ann"))), nothing()],
            [("a", rule("r1", &format!("{} && {}", not("ann"), not("eve")))), ("b", rule("r2", &eve))],
        ),
        (
            "a narrower condition",
            [("a", rule("r1", &both)), nothing()],
            [("a", rule("r1", &format!("({both}) && {}", is("zoe")))), ("b", rule("r2", &both))],
        ),
        (
            "no condition any more",
            [("a", rule("r1", "true")), nothing()],
            [("a", rule("r1", &is("zoe"))), ("b", rule("r2", &both))],
        ),
        (
            "another handler",
            [("a", rule("r1", &both).replace("refuse.", "pass.")), ("b", rule("r2", &both))],
            [("a", rule("r1", &both)), ("b", rule("r2", &both).replace("refuse.", "pass."))],
        ),
    ] {
        for mistaken in ["a", "b"] {
            holds(what, &before, &after, mistaken);
        }
    }
}

/// Whoever is let into a list is refused by a rule from now on, which has a mistake.
#[test]
fn a_list_of_who_may_pass_waits_for_the_rule_about_its_new_entry() {
    let white = |entries: &str| list("l1", entries).replace("blacklist: true", "blacklist: false");
    let rules = ("c", asks("r1", "l1"));
    holds(
        "white",
        &[("a", white("ann")), ("b", "# Nothing yet.\n".to_owned()), rules.clone()],
        &[
            ("a", white("ann, eve, dan")),
            ("b", rule("r2", &format!("{} || {}", is("dan"), is("eve")))),
            rules,
        ],
        "b",
    );
}

/// A handler that refused refuses no longer, and a rule for its callers has a mistake; or the other way round.
#[test]
fn a_handler_waits_for_the_rule_that_is_to_refuse_in_its_place() {
    let own = |adapter: &str| {
        format!(
            "kind: handler\nmetadata: {{name: own, namespace: istio-system}}\nspec: {{compiledAdapter: {adapter}}}\n"
        )
    };
    let both = format!("{} || {}", is("dan"), is("eve"));
    let with_own = ("c", rule("r1", &both).replace("refuse.", "own."));
    let other = [("b", rule("r2", &both)), ("b", "# Nothing.\n".to_owned())];
    let [with, without] = other;
    for mistaken in ["a", "b"] {
        let (refuses, passes) = (("a", own("denier")), ("a", own("noop")));
        holds(
            "passes",
            &[refuses.clone(), without.clone(), with_own.clone()],
            &[passes.clone(), with.clone(), with_own.clone()],
            mistaken,
        );
        holds(
            "refuses",
            &[passes, with.clone(), with_own.clone()],
            &[refuses, without.clone(), with_own.clone()],
            mistaken,
        );
    }
}

/// What refuses nothing less than before, and what concerns other namespaces than a mistake, applies.
#[test]
fn what_loosens_nothing_that_a_mistake_may_concern_applies() {
    let [carl, dave] = ["carl", "dave"].map(is);
    let typo = |rule: String| rule.replace("source.user", "sorce.user");
    let broken = || typo(rule("r9", &is("eve")));
    let far = || typo(in_namespace("till", "r9", &is("eve")));
    let lists = |l1: &str, white: &str| {
        let white = list("l2", white).replace("blacklist: true, ", "");
        [list("l1", l1), asks("r1", "l1"), white, asks("r2", "l2")].join("---\n")
    };
    let another = |rule: String| {
        rule.replace("}]}", "}, {handler: refuse.istio-system, instances: [any.istio-system]}]}")
    };
    let none = || "# Nothing.\n".to_owned();
    let shop = |condition: &str| in_namespace("shop", "r1", condition);
    let in_cel = |more: &str| {
        let cel = "istio-system, annotations: {policy.istio.io/lang: CEL}}";
        rule("r1", &format!("source.user == \"carl\"{more}")).replace("istio-system}", cel)
    };
    for (what, before, after, mistaken, applies) in [
        ("a new rule", none(), rule("r1", &carl), broken(), true),
        (
            "a further alternative",
            rule("r1", &carl),
            rule("r1", &format!("{carl} || {dave}")),
            broken(),
            true,
        ),
        // There it may be true although what is before it fails, for which the request was refused.
        ("a further alternative in CEL", in_cel(""), in_cel(" || source.user == \"dave\""), broken(), false),
        (
            "an alternative in front",
            rule("r1", &carl),
            rule("r1", &format!("{dave} || {carl}")),
            broken(),
            false,
        ),
        ("an alternative less", rule("r1", &format!("{carl} || {dave}")), rule("r1", &carl), broken(), false),
        ("another condition", rule("r1", &carl), rule("r1", &dave), broken(), false),
        ("a further action", rule("r1", &carl), another(rule("r1", &carl)), broken(), true),
        ("an action less", another(rule("r1", &carl)), rule("r1", &carl), broken(), false),
        ("a further entry", lists("dan", "ann"), lists("dan, eve", "ann"), broken(), true),
        ("an entry less", lists("dan, eve", "ann"), lists("dan", "ann"), broken(), false),
        ("an entry less of a whitelist", lists("dan", "ann, eve"), lists("dan", "ann"), broken(), true),
        ("a further entry of a whitelist", lists("dan", "ann"), lists("dan", "ann, eve"), broken(), false),
        ("a rule less", rule("r1", &carl), none(), broken(), false),
        ("another condition of another namespace", shop(&carl), shop(&dave), far(), true),
        ("a rule of another namespace less", shop(&carl), none(), far(), true),
        ("another condition for all", rule("r1", &carl), rule("r1", &dave), far(), false),
        ("another condition of a namespace", shop(&carl), shop(&dave), broken(), false),
    ] {
        let mut stage = Stage::new(OnConfigError::KeepLast, false);
        // Rules of two namespaces stay.
        let stay = [in_namespace("shop", "stays", &is("zed")), in_namespace("till", "stays", &is("zed"))];
        let stay = ("stay", stay.join("---\n"));
        let valid = mistaken.replace("sorce.user", "source.user");
        stage.start(&files(&[stay.clone(), ("a", before.clone()), ("b", valid)]));
        stage.change(&files(&[stay, ("a", after.clone()), ("b", mistaken)]));
        let mut waits = stage.kept();
        waits.retain(|kept| !kept.starts_with("r9."));
        assert_eq!(waits.is_empty(), applies, "{what}: {waits:#?}");
    }
}

/// The reason names that for which it waits.
#[test]
fn what_waits_says_for_what() {
    let mut stage = Stage::new(OnConfigError::KeepLast, false);
    stage.start(&files(&[("a", rule("r1", &is("dan"))), ("b", rule("r2", &is("eve")))]));
    let both = format!("{} || {}", is("eve"), is("dan").replace("source", "sorce"));
    stage.change(&files(&[("b", rule("r2", &both))]));
    let kept = stage.kept();
    let why = "r1.rule.istio-system: it may refuse fewer requests than before, and waits for r2.rule.istio-system, which has an error";
    assert!(kept.iter().any(|kept| kept == why), "{kept:#?}");
}

/// Two conditions with different attributes may select the same request.
#[test]
fn a_rule_about_a_user_waits_for_one_about_a_path() {
    let words = "kind: attributemanifest\nmetadata: {name: w, namespace: istio-system}\n\
                 spec: {attributes: {request.path: {valueType: STRING}}}\n";
    let path = rule("r2", "(request.path | \"\") == \"/admin\"").replace("spec: {", "spec: {blakc: 1, ");
    let mut stage = Stage::new(OnConfigError::KeepLast, false);
    stage.start(&files(&[("w", words.to_owned()), ("a", rule("r1", &is("eve")))]));
    stage.change(&files(&[("w", words.to_owned()), ("a", "# Gone.\n".to_owned()), ("b", path.clone())]));
    assert_eq!(stage.check_at("eve", Some("/admin")), Answer::Denied, "{:#?}", stage.kept());
}

/// What refuses by not having an entry refuses more without one.
#[test]
fn a_rule_waits_for_the_list_of_who_may_pass_that_is_to_lose_its_caller() {
    let white = |entries: &str| list("l1", entries).replace("blacklist: true", "blacklist: false");
    let both = format!("{} || {}", is("dan"), is("eve"));
    let rules = ("c", asks("r1", "l1"));
    holds(
        "white, less",
        &[("a", rule("r2", &both)), ("b", white("ann, eve, dan")), rules.clone()],
        &[("a", "# Gone.\n".to_owned()), ("b", white("ann")), rules],
        "b",
    );
}

/// The deletion of a rule waits, and its list of who may pass gets an entry in the same edit.
#[test]
fn a_list_waits_with_the_deletion_of_its_rule() {
    let white = |entries: &str| list("l1", entries).replace("blacklist: true", "blacklist: false");
    let both = format!("{} || {}", is("dan"), is("eve"));
    holds(
        "deleted with its entry",
        &[("a", asks("r1", "l1")), ("b", white("ann")), ("c", "# Nothing yet.\n".to_owned())],
        &[("a", "# Gone.\n".to_owned()), ("b", white("ann, dan, eve")), ("c", rule("r2", &both))],
        "c",
    );
}
