//! While something cannot be read, what may refuse fewer requests waits.

use mixer_engine::runtime::OnConfigError;

use crate::refusal::{REFUSE, good};
use crate::stage::{Answer, Files, Stage};

const WHO: &str = "kind: instance
metadata: {name: who, namespace: istio-system}
spec: {compiledTemplate: listentry, params: {value: 'source.user | \"\"'}}
";

fn list(name: &str, entries: &str) -> String {
    format!(
        "kind: handler\nmetadata: {{name: {name}, namespace: istio-system}}\n\
         spec: {{compiledAdapter: listchecker, params: {{blacklist: true, overrides: [{entries}]}}}}\n---\n\
         kind: rule\nmetadata: {{name: of-{name}, namespace: istio-system}}\n\
         spec: {{actions: [{{handler: {name}, instances: [who]}}]}}\n"
    )
}

fn files(one: &str, two: &str) -> Files {
    let mut files = good();
    files.put("/conf/parts.yaml", format!("{REFUSE}---\n{WHO}"));
    files.put("/conf/one.yaml", list("l1", one));
    files.put("/conf/two.yaml", list("l2", two));
    files
}

fn unreadable(files: &Files) -> Files {
    let mut files = files.clone();
    files.unreadable.push("/conf/two.yaml".to_owned());
    files
}

/// An entry moves from one list to another one, whose file has a mistake and then cannot be read.
#[test]
fn an_entry_stays_in_its_list_through_a_restart() {
    for mistake in [("blacklist", "blackist"), ("spec: {", "spec: {{"), ("kind: handler", "kind: xhandler")] {
        let mut stage = Stage::new(OnConfigError::KeepLast, true);
        stage.start(&files("dan, eve", "mallory"));
        let meant = files("dan", "mallory, eve");
        let mut faulty = meant.clone();
        let text = list("l2", "mallory, eve").replacen(mistake.0, mistake.1, 1);
        faulty.put("/conf/two.yaml", text);
        stage.change(&faulty);
        assert_eq!(stage.check("eve"), Answer::Denied, "{mistake:?}: {:#?}", stage.kept());
        let hidden = unreadable(&faulty);
        stage.change(&hidden);
        assert_eq!(stage.check("eve"), Answer::Denied, "{mistake:?}, hidden: {:#?}", stage.kept());
        for _ in 0..2 {
            stage.start(&hidden);
            assert_eq!(stage.check("eve"), Answer::Denied, "{mistake:?}, restarted: {:#?}", stage.kept());
        }
        stage.change(&faulty);
        assert_eq!(stage.check("eve"), Answer::Denied, "{mistake:?}, seen again: {:#?}", stage.kept());
        stage.change(&meant);
        assert_eq!((stage.check("eve"), stage.kept()), (Answer::Denied, Vec::new()), "{mistake:?}");
    }
}

/// What refuses more applies; what may refuse less says for what it waits, since when, and what to do.
#[test]
fn what_waits_is_reported_with_its_cause() {
    let mut stage = Stage::new(OnConfigError::KeepLast, true);
    stage.start(&files("dan, eve", "mallory"));
    stage.advance(5);
    stage.change(&unreadable(&files("dan, eve, ann", "mallory")));
    assert_eq!(stage.check("ann"), Answer::Denied);
    stage.change(&unreadable(&files("dan, ann", "mallory")));
    assert_eq!(stage.check("eve"), Answer::Denied);
    let kept = stage.kept();
    let why = "l1.handler.istio-system: it may refuse fewer requests than before, and waits, because open /conf/two.yaml: \
               permission denied";
    assert!(kept.contains(&why.to_owned()), "{kept:#?}");
    let published = stage.published();
    let told = published
        .diagnostics
        .iter()
        .find(|problem| problem.code == "config-kept" && problem.resource == "l1.handler.istio-system");
    let told = told.unwrap_or_else(|| panic!("{:#?}", published.diagnostics));
    assert!(told.message.contains("since 2023-11-14T22:13:25.000000Z") && told.hint.is_some(), "{told:?}");
    // The time survives a restart.
    stage.advance(60);
    stage.start(&unreadable(&files("dan, ann", "mallory")));
    assert_eq!((stage.check("eve"), stage.check("ann")), (Answer::Denied, Answer::Denied));
    let published = stage.published();
    let since = published.kept.iter().find(|kept| &*kept.key.name == "l1").map(|kept| kept.since.seconds);
    assert_eq!(since, Some(1_700_000_005), "{:#?}", stage.kept());
    // It can be read, and the edit applies.
    stage.change(&files("dan, ann", "mallory"));
    assert_eq!((stage.check("eve"), stage.kept()), (Answer::Allowed, Vec::new()));
}

/// Every kind of change that may refuse less waits for a file that is being written.
#[test]
fn every_change_that_may_refuse_less_waits() {
    let rule = |condition: &str| {
        format!(
            "kind: rule\nmetadata: {{name: r, namespace: istio-system}}\n\
             spec: {{match: '{condition}', actions: [{{handler: refuse, instances: [any]}}]}}\n"
        )
    };
    let is = |user: &str| format!("(source.user | \"\") == \"{user}\"");
    let both = format!("{} || {}", is("eve"), is("zoe"));
    let all = rule(&both);
    for (what, after) in [
        ("deleted", "# Gone.\n".to_owned()),
        ("fewer", rule(&is("zoe"))),
        ("a further condition", rule(&format!("({both}) && {}", is("zoe")))),
        ("another handler", all.replace("handler: refuse", "handler: l1").replace("[any]", "[who]")),
        (
            "in dry run",
            all.replace("istio-system}", "istio-system, annotations: {mixer.dev/dry-run: \"true\"}}"),
        ),
    ] {
        let mut stage = Stage::new(OnConfigError::KeepLast, false);
        let mut now = files("dan", "mallory");
        now.put("/conf/rule.yaml", &*all);
        stage.start(&now);
        assert_eq!(stage.check("eve"), Answer::Denied, "{what}");
        now.put("/conf/rule.yaml", &*after);
        now.changing.push("/conf/two.yaml".to_owned());
        stage.change(&now);
        assert_eq!(stage.check("eve"), Answer::Denied, "{what}: {:#?}", stage.kept());
        now.changing.clear();
        stage.change(&now);
        assert_eq!((stage.check("eve"), stage.kept()), (Answer::Allowed, Vec::new()), "{what}");
    }
}

/// `mv two.yaml two.YAML`.
#[test]
fn a_file_that_gets_a_name_that_is_not_read_deletes_nothing() {
    let mut stage = Stage::new(OnConfigError::KeepLast, true);
    stage.start(&files("dan, eve", "mallory"));
    let mut renamed = files("dan, eve", "mallory");
    renamed.remove("/conf/two.yaml");
    let without = renamed.clone();
    renamed.misnamed.insert("/conf/two.YAML".to_owned(), list("l2", "mallory"));
    stage.change(&renamed);
    let why = "of-l2.rule.istio-system: its file is gone, and /conf/two.YAML is not read: its name does not end in .yaml or .yml";
    for _ in 0..2 {
        let kept = stage.kept();
        assert!(stage.check("mallory") == Answer::Denied && kept.contains(&why.to_owned()), "{kept:?}");
        stage.start(&renamed);
        stage.pass(crate::refill::QUIET);
    }
    // A copy is not what was meant where the file is still read.
    let mut copied = without.clone();
    copied.put("/conf/two.yaml", list("l3", "erin"));
    copied.misnamed.clone_from(&renamed.misnamed);
    stage.change(&copied);
    assert_eq!((stage.check("mallory"), stage.kept()), (Answer::Allowed, Vec::new()));
    stage.change(&files("dan, eve", "mallory"));
    stage.change(&without);
    assert_eq!((stage.check("mallory"), stage.kept()), (Answer::Allowed, Vec::new()));
}
