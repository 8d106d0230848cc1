//! What one resource refused is to be refused by another one, which has a mistake: the rule that is split, those that are merged, the entry
//! that moves from one list to another.

use mixer_engine::runtime::OnConfigError;

use crate::refusal::{REFUSE, good};
use crate::stage::{Answer, Files, Stage};

const PARTS: &str = "kind: instance
metadata: {name: who, namespace: istio-system}
spec: {compiledTemplate: listentry, params: {value: 'source.user | \"\"'}}
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
    files.put("/conf/parts.yaml", format!("{REFUSE}---\n{PARTS}"));
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

/// What is valid and refuses in place of nothing that changed applies, and so does what other namespaces have.
#[test]
fn other_edits_beside_a_mistake_apply() {
    let broken = rule("r9", "sorce.user == \"eve\"");
    for (before, after) in [
        (rule("r1", &is("carl")), rule("r1", &is("dave"))),
        (in_namespace("shop", "r1", &is("eve")), in_namespace("shop", "r1", &is("dave"))),
    ] {
        let faulty = if before.contains("namespace: shop") {
            in_namespace("till", "r9", "sorce.user == \"eve\"")
        } else {
            broken.clone()
        };
        let mut stage = Stage::new(OnConfigError::KeepLast, false);
        stage.start(&files(&[("a", before.clone()), ("b", "# Nothing yet.\n".to_owned())]));
        stage.change(&files(&[("a", after.clone()), ("b", faulty)]));
        let serves =
            stage.published().routes.snapshot().rules.iter().any(|rule| rule.match_text.contains("dave"));
        assert!(serves, "{before}: {:#?}", stage.kept());
    }
}

/// The reason names the text that moved, and what has it now.
#[test]
fn what_waits_says_for_what() {
    let mut stage = Stage::new(OnConfigError::KeepLast, false);
    stage.start(&files(&[("a", rule("r1", &is("dan"))), ("b", rule("r2", &is("eve")))]));
    let both = format!("{} || {}", is("eve"), is("dan").replace("source", "sorce"));
    stage.change(&files(&[("b", rule("r2", &both))]));
    let kept = stage.kept();
    let why = "r1.rule.istio-system: what it had, `dan`, is now in r2.rule.istio-system, which has an error";
    assert!(kept.iter().any(|kept| kept == why), "{kept:#?}");
}
