//! What changed together goes back together.

use mixer_engine::runtime::OnConfigError;

use crate::refusal::{HANDLER, INSTANCE, RULE, good};
use crate::stage::{Answer, Stage};

#[test]
fn what_changed_together_with_a_faulty_handler_goes_back_with_it() {
    let names = HANDLER;
    let addresses = |entry: &str| {
        let entries = format!("overrides: [{entry}], entryType: IP_ADDRESSES, blacklist: true");
        format!(
            "kind: handler\nmetadata: {{name: closed-list, namespace: istio-system}}\nspec: {{compiledAdapter: listchecker, params: {{{entries}}}}}\n"
        )
    };
    assert!(names.contains("compiledAdapter: listchecker"), "{names}");
    let value =
        INSTANCE.replace("source.user", "conditional(source.user == \"bob\", \"10.0.0.1\", \"10.0.0.2\")");
    assert_ne!(value, INSTANCE);
    let renamed = value.replacen("name: ", "name: other-", 1);
    let instance = INSTANCE.lines().find_map(|line| line.split("name: ").nth(1)).expect("a name");
    let instance = instance.split([',', '}']).next().expect("a name");
    let other = RULE.replace(&format!("[{instance}"), &format!("[other-{instance}"));
    assert_ne!(other, RULE);
    let kept = |edit: [&str; 3]| {
        let mut stage = Stage::new(OnConfigError::KeepLast, false);
        stage.start(&good());
        assert_eq!(stage.check("bob"), Answer::Denied);
        let mut files = good();
        files.put("/conf/deny.yaml", edit.join("---\n"));
        stage.change(&files);
        let kept: Vec<String> =
            stage.kept().iter().filter_map(|line| Some(line.split_once('.')?.0.to_owned())).collect();
        (stage.check("bob"), kept)
    };
    let (closed, user) = ("closed-list".to_owned(), instance.to_owned());
    // The handler does not build, or has an error of its own.
    for faulty in [addresses("10.0.0.1/99"), addresses("10.0.0.1").replace("blacklist", "blakclist")] {
        let edit = [faulty.as_str(), &value, RULE];
        assert_eq!(kept(edit), (Answer::Denied, vec![closed.clone(), user.clone()]), "{faulty}");
        let with_rule = [faulty.as_str(), &renamed, &other];
        let (answer, names) = kept(with_rule);
        assert_eq!(answer, Answer::Denied, "{names:?}");
    }
    // The instance has the error.
    let typo = value.replace("source.user ==", "sorce.user ==");
    assert_eq!(kept([&addresses("10.0.0.1"), &typo, RULE]), (Answer::Denied, vec![closed, user]));
}

/// A blacklist, a value, a rule that sends the value to the list.
fn list(name: &str, entry: &str) -> String {
    format!(
        "kind: handler\nmetadata: {{name: {name}, namespace: istio-system}}\n\
         spec: {{compiledAdapter: listchecker, params: {{blacklist: true, overrides: [{entry}]}}}}\n"
    )
}

fn value(name: &str, text: &str) -> String {
    format!(
        "kind: instance\nmetadata: {{name: {name}, namespace: istio-system}}\n\
         spec: {{compiledTemplate: listentry, params: {{value: '{text}'}}}}\n"
    )
}

fn sends(name: &str, condition: &str, list: &str, value: &str) -> String {
    format!(
        "kind: rule\nmetadata: {{name: {name}, namespace: istio-system}}\n\
         spec: {{match: '{condition}', actions: [{{handler: {list}, instances: [{value}]}}]}}\n"
    )
}

/// The names of what is kept, and what `users` are answered, after an edit of one file.
fn edited(before: &[String], after: &[String], users: [&str; 3]) -> (Vec<String>, [Answer; 3]) {
    let mut stage = Stage::new(OnConfigError::KeepLast, false);
    let mut files = good();
    files.put("/conf/lists.yaml", before.join("---\n"));
    stage.start(&files);
    files.put("/conf/lists.yaml", after.join("---\n"));
    stage.change(&files);
    let name = |line: &String| line.split('.').next().unwrap_or_default().to_owned();
    (stage.kept().iter().map(name).collect(), users.map(|user| stage.check(user)))
}

#[test]
fn what_goes_back_takes_with_it_what_was_made_for_its_new_version() {
    // Two lists of users become lists of lengths of names; the first has a mistake.
    let user = "source.user | \"\"";
    let kind = "conditional((source.user | \"\") == \"ann\", \"banned\", \"good\")";
    let rules = [sends("r1", "true", "l1", "v"), sends("r2", "true", "l2", "v")];
    let before =
        [list("l1", "mallory"), list("l2", "eve"), value("v", user), rules[0].clone(), rules[1].clone()];
    let typo = list("l1", "stolen").replace("blacklist:", "blackist:");
    let after = [typo, list("l2", "banned"), value("v", kind), rules[0].clone(), rules[1].clone()];
    let (kept, answers) = edited(&before, &after, ["mallory", "eve", "carl"]);
    assert_eq!(answers, [Answer::Denied, Answer::Denied, Answer::Allowed], "{kept:?}");
    assert_eq!(kept, ["l1", "l2", "v"]);
}

#[test]
fn what_changed_for_a_rule_with_an_error_goes_back_with_it() {
    let user = "source.user | \"\"";
    let kind = "conditional((source.user | \"\") == \"ann\", \"banned\", \"good\")";
    let values = [value("who", user), value("plan", kind)];
    let with = |rule: String, entry: &str| [list("l1", entry), values[0].clone(), values[1].clone(), rule];
    let before = with(sends("r1", "true", "l1", "who"), "mallory");
    let (kept, answers) = edited(
        &before,
        &with(sends("r1", "requst.method == \"GET\"", "l1", "plan"), "banned"),
        ["mallory", "ann", "carl"],
    );
    assert_eq!(answers, [Answer::Denied, Answer::Allowed, Answer::Allowed], "{kept:?}");
    assert_eq!(kept, ["l1", "r1"]);
    // So it is if the rule is to select fewer requests: its last version would refuse the new entry whatever the method is.
    let (kept, answers) = edited(
        &before,
        &with(sends("r1", "requst.method == \"GET\"", "l1", "who"), "mallory, eve"),
        ["mallory", "eve", "carl"],
    );
    assert_eq!(
        (kept, answers),
        (vec!["l1".to_owned(), "r1".to_owned()], [Answer::Denied, Answer::Allowed, Answer::Allowed])
    );
    // A rule that selects no fewer and uses the same parts takes nothing back: the new entry is refused.
    let (kept, answers) = edited(
        &before,
        &with(sends("r1", "true", "l1", "who").replace("spec: {", "spec: {blakc: 1, "), "mallory, eve"),
        ["mallory", "eve", "carl"],
    );
    assert_eq!((kept, answers), (vec!["r1".to_owned()], [Answer::Denied, Answer::Denied, Answer::Allowed]));
    // What a name that nothing has was to be, nobody knows: another list, perhaps.
    let (kept, answers) =
        edited(&before, &with(sends("r1", "true", "l1x", "who"), "mallory, eve"), ["mallory", "eve", "carl"]);
    assert_eq!(
        (kept, answers),
        (vec!["l1".to_owned(), "r1".to_owned()], [Answer::Denied, Answer::Allowed, Answer::Allowed])
    );
}

/// A rule is to use the list of another namespace, which has the same name, and its own one is emptied.
#[test]
fn a_misspelt_name_of_a_part_elsewhere_is_not_that_of_the_part_here() {
    let elsewhere = |entry: &str| list("visitors", entry).replace("istio-system", "shared");
    let rule = |handler: &str| sends("gate", "true", handler, "who");
    let with = |rule: String, own: &str, other: &str| {
        [rule, list("visitors", own), elsewhere(other), value("who", "source.user | \"\"")]
    };
    let before = with(rule("visitors"), "eve, mallory", "nobody");
    let after = with(rule("vistors.shared"), "nobody", "eve, mallory");
    let (kept, answers) = edited(&before, &after, ["mallory", "eve", "carl"]);
    assert_eq!(answers, [Answer::Denied, Answer::Denied, Answer::Allowed], "{kept:?}");
}

/// Whoever looked up each of the names that a reference of so many dots may mean, with copies of their parts, would take hours.
#[test]
fn a_reference_of_millions_of_dots_holds_up_nothing() {
    let before = [sends("r1", "true", "l1", "who"), list("l1", "eve"), value("who", "source.user | \"\"")];
    let long = "a.".repeat(1_000_000);
    let after =
        [&before[..2], &[list("l2", "x"), before[2].clone(), sends("r2", "true", &long, "who")]].concat();
    let (_, answers) = edited(&before, &after, ["eve", "mallory", "carl"]);
    assert_eq!(answers, [Answer::Denied, Answer::Allowed, Answer::Allowed]);
}

/// All lists of a rule with many actions change beside a mistake. A search that looked at the whole rule, or at all rules, for each list would take
/// hours.
#[test]
fn a_search_looks_once_at_each_rule_and_each_part() {
    const LISTS: usize = 1500;
    let actions: Vec<String> =
        (0..LISTS).map(|number| format!("{{handler: l{number}, instances: [who]}}")).collect();
    let rule = sends("r1", "true", "l0", "who")
        .replace("[{handler: l0, instances: [who]}]", &format!("[{}]", actions.join(", ")));
    let others = (0..LISTS).map(|number| sends(&format!("s{number}"), "true", &format!("l{number}"), "who"));
    let fixed: Vec<String> =
        others.chain([rule.clone(), rule.replace("r1", "r2"), value("who", "source.user | \"\"")]).collect();
    let lists = |entry: &str| (0..LISTS).map(|number| list(&format!("l{number}"), entry)).collect::<Vec<_>>();
    let before = [fixed.clone(), lists("eve")].concat();
    let typo = sends("typo", "requst.method == \"GET\"", "l0", "who");
    let after = [fixed, lists("mallory"), vec![typo]].concat();
    let (kept, answers) = edited(&before, &after, ["mallory", "eve", "carl"]);
    assert_eq!(answers, [Answer::Allowed, Answer::Denied, Answer::Allowed]);
    assert_eq!(kept.len(), LISTS, "{:?}", kept.first());
}

#[test]
fn a_rule_with_a_further_action_is_applied_while_another_handler_has_an_error() {
    let user = "source.user | \"\"";
    let rule = sends("r1", "true", "l1", "v");
    let further = rule.replace("actions: [", "actions: [{handler: l2, instances: [v]}, ");
    let parts = [list("l2", "eve"), value("v", user)];
    let before = [list("l1", "mallory"), parts[0].clone(), parts[1].clone(), rule];
    let typo = list("l1", "mallory").replace("blacklist:", "blackist:");
    let (kept, answers) =
        edited(&before, &[typo, parts[0].clone(), parts[1].clone(), further], ["mallory", "eve", "carl"]);
    assert_eq!((kept, answers), (vec!["l1".to_owned()], [Answer::Denied, Answer::Denied, Answer::Allowed]));
}

/// What `users` are answered after an edit of files, of which each has its text before and after.
fn answers_after(edits: &[(&str, String, String)], users: [&str; 3]) -> (Vec<String>, [Answer; 3]) {
    let mut stage = Stage::new(OnConfigError::KeepLast, false);
    let mut files = good();
    edits.iter().for_each(|(file, before, _)| files.put(&format!("/conf/{file}"), &**before));
    stage.start(&files);
    assert_eq!(
        stage.published().diagnostics.iter().filter(|d| d.severity == mixer_config::Severity::Error).count(),
        0
    );
    edits.iter().for_each(|(file, _, after)| files.put(&format!("/conf/{file}"), &**after));
    stage.change(&files);
    (stage.kept(), users.map(|user| stage.check(user)))
}

const USER: &str = "source.user | \"\"";
/// `banned` for ann, `good` for all others: a value that a list of users does not know.
const PLAN: &str = "conditional((source.user | \"\") == \"ann\", \"banned\", \"good\")";

/// A list with a mistake, and one that does not build.
fn typo(name: &str, entry: &str) -> String {
    list(name, entry).replace("blacklist:", "blackist:")
}

/// Each edit moves a list of users, which refuses eve, to plans, with one mistake: eve stays refused, and nobody else is.
#[test]
fn no_mistake_in_an_edit_of_several_resources_opens_a_list() {
    let rule = sends("r", "true", "h2", "i2");
    let parts = [list("h2", "eve"), value("i2", USER)];
    let before = [parts.join("---\n"), rule.clone()].join("---\n");
    let one = |after: &[String]| vec![("c.yaml", before.clone(), after.join("---\n"))];
    let plan = value("i2", PLAN);
    let two = |lists: String, rules: &[String]| {
        let rules_before = [value("i2", USER), rule.clone()].join("---\n");
        vec![("lists.yaml", list("h2", "eve"), lists), ("rules.yaml", rules_before, rules.join("---\n"))]
    };
    let unbuilt =
        list("h3", "10.0.0.1/99").replace("blacklist: true", "blacklist: true, entryType: IP_ADDRESSES");
    let foreign =
        value("i3", PLAN).replace("name: i3,", "name: i3, annotations: {policy.istio.io/lang: cexl},");
    let spelled = |rule: String| rule.replace("spec:", "Spec:");
    let edits = [
        (
            "a new handler has an error",
            one(&[typo("h3", "banned"), plan.clone(), sends("r", "true", "h3", "i2")]),
        ),
        (
            "a new handler does not build",
            one(&[list("h2", "eve"), unbuilt, plan.clone(), sends("r", "true", "h3", "i2")]),
        ),
        (
            "a new instance has an error",
            one(&[list("h2", "banned"), parts[1].clone(), foreign, sends("r", "true", "h2", "i3")]),
        ),
        ("the instance is no YAML", one(&[list("h2", "banned"), plan.replace("}}", "}"), rule.clone()])),
        (
            "the instance is of another kind",
            one(&[list("h2", "banned"), plan.replace("instance", "instanc"), rule.clone()]),
        ),
        (
            "the instance has no name",
            one(&[list("h2", "banned"), plan.replace("name: i2, ", ""), rule.clone()]),
        ),
        (
            "the name of a new instance is misspelt",
            one(&[
                list("h2", "banned"),
                parts[1].clone(),
                value("plan", PLAN),
                sends("r", "true", "h2", "paln"),
            ]),
        ),
        (
            "the same with a spec in capitals",
            one(&[
                list("h2", "banned"),
                parts[1].clone(),
                value("plan", PLAN),
                spelled(sends("r", "true", "h2", "paln")),
            ]),
        ),
        (
            "another rule holds the file of the instance",
            two(
                list("h2", "banned"),
                &[plan.clone(), rule.clone(), sends("r9", "requst.method == \"GET\"", "h2", "i2")],
            ),
        ),
        (
            "the rule is renamed",
            two(typo("h2", "banned"), &[value("plan", PLAN), sends("by-plan", "true", "h2", "plan")]),
        ),
        (
            "a new list uses an instance that goes back",
            one(&[
                typo("h2", "banned"),
                plan.clone(),
                rule.clone(),
                list("h9", "good").replace("blacklist: true", "blacklist: false"),
                sends("r9", "true", "h9", "i2"),
            ]),
        ),
    ];
    for (what, edit) in edits {
        let (kept, answers) = answers_after(&edit, ["eve", "ann", "carl"]);
        assert_eq!(answers, [Answer::Denied, Answer::Allowed, Answer::Allowed], "{what}: {kept:#?}");
    }
}

#[test]
fn a_rule_that_goes_back_takes_the_parts_of_its_other_actions_with_it() {
    let rule = |values: [&str; 2]| {
        let further = format!("actions: [{{handler: h1, instances: [{}]}}, ", values[0]);
        sends("r", "true", "h2", values[1]).replace("actions: [", &further)
    };
    let values = [value("i1", USER), value("i2", USER)].join("---\n");
    let before = [list("h1", "mallory"), list("h2", "eve"), values.clone(), rule(["i1", "i2"])];
    let new = [value("p1", PLAN), value("p2", PLAN)].join("---\n");
    let after = [typo("h1", "stolen"), list("h2", "banned"), values, new, rule(["p1", "p2"])];
    let (kept, answers) =
        answers_after(&[("c.yaml", before.join("---\n"), after.join("---\n"))], ["eve", "mallory", "carl"]);
    assert_eq!(answers, [Answer::Denied, Answer::Denied, Answer::Allowed], "{kept:#?}");
}

#[test]
fn a_condition_that_was_made_for_the_new_version_of_a_handler_goes_back_with_it() {
    let handler = |spec: &str| {
        format!("kind: handler\nmetadata: {{name: gate, namespace: istio-system}}\nspec: {{{spec}}}\n")
    };
    let users = "compiledAdapter: listchecker, params: {overrides: [carl, dora], ";
    let closed = "kind: rule\nmetadata: {name: closed, namespace: istio-system, annotations: {mixer.dev/default: deny}}\nspec: {}\n";
    // What only a condition decided is to be decided by a list, whose parameter is misspelt.
    let edit = |head: &str, before: &str, list: &str, condition: &str| {
        let text = |spec: &str, condition: &str| {
            [head.to_owned(), handler(spec), value("i2", USER), sends("r", condition, "gate", "i2")]
                .join("---\n")
        };
        answers_after(&[("c.yaml", text(before, condition), text(list, "true"))], ["carl", "dora", "eve"])
    };
    let whitelist = format!("{users}whitelst: true}}");
    let (kept, answers) =
        edit(closed, "compiledAdapter: noop", &whitelist, "(source.user | \"\") == \"carl\"");
    assert_eq!(answers, [Answer::Allowed, Answer::Denied, Answer::Denied], "{kept:#?}");
    let blacklist = format!("{users}blackist: true}}");
    let (kept, answers) =
        edit("# Nothing.\n", "compiledAdapter: denier", &blacklist, "(source.user | \"\") == \"carl\"");
    assert_eq!(answers, [Answer::Denied, Answer::Allowed, Answer::Allowed], "{kept:#?}");
}
