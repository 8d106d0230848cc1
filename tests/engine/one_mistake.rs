//! Edits of several resources with one mistake: the answers afterwards are those of the configuration before, or of the one that was meant.

use mixer_engine::runtime::OnConfigError;

use crate::refusal::good;
use crate::stage::{Answer, Files, Stage};

const USERS: [&str; 3] = ["eve", "ann", "carl"];
const USER: &str = "source.user | \"\"";
/// `banned` for ann, `good` for all others.
const PLAN: &str = "conditional((source.user | \"\") == \"ann\", \"banned\", \"good\")";

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

fn rule(name: &str, condition: &str, list: &str, value: &str) -> String {
    format!(
        "kind: rule\nmetadata: {{name: {name}, namespace: istio-system}}\n\
         spec: {{match: '{condition}', actions: [{{handler: {list}, instances: [{value}]}}]}}\n"
    )
}

/// Makes a mistake in the text of a resource.
type Mistake = fn(&str) -> String;

/// What is wrong with a document.
const MISTAKES: [(&str, Mistake); 9] = [
    ("an unknown field", |text| text.replace("spec: {", "spec: {blakc: 1, ")),
    ("no YAML", |text| text.trim_end().strip_suffix('}').unwrap_or(text).to_owned()),
    ("an unknown kind", |text| text.replacen("kind: ", "kind: x", 1)),
    ("no name", |text| text.replacen("name: ", "nam: ", 1)),
    ("no kind", |text| text.split_once('\n').map(|(_, rest)| rest.to_owned()).unwrap_or_default()),
    ("an unknown annotation", |text| {
        text.replacen("metadata: {", "metadata: {annotations: {mixer.dev/on-eror: deny}, ", 1)
    }),
    ("another kind", |text| match text.contains("kind: rule") {
        true => text.replacen("kind: rule", "kind: handler", 1),
        false => text.replacen("kind: handler", "kind: instance", 1).replacen(
            "kind: instance\nmetadata: {name: v",
            "kind: rule\nmetadata: {name: v",
            1,
        ),
    }),
    ("a cut", |text| text.get(..text.len() / 2).unwrap_or_default().to_owned()),
    ("two versions", |text| {
        let other = text.replace("banned", "bannd").replace("'true'", "'false'");
        format!("{text}---\n{}", other.replace("spec: {", "spec: {description: x, "))
    }),
];

/// The files of which a handler, an instance and a rule are.
const LAYOUTS: [[&str; 3]; 5] =
    [["c", "c", "c"], ["h", "i", "r"], ["p", "p", "r"], ["h", "p", "p"], ["p", "i", "p"]];

/// The names of the handler, the instance and the rule after the edit; `q` exists before.
const EDITS: [[&str; 3]; 8] = [
    ["l", "v", "r"],
    ["l", "p", "r"],
    ["m", "v", "r"],
    ["l", "v", "s"],
    ["l", "p", "s"],
    ["m", "v", "s"],
    ["l", "q", "r"],
    ["l", "q", "s"],
];

fn files(layout: [&str; 3], parts: &[String; 3]) -> Files {
    let mut files = good();
    files.put(
        "/conf/base.yaml",
        [value("q", PLAN), list("zz", "nobody"), rule("other", "true", "zz", "q")].join("---\n"),
    );
    for file in layout {
        let own = layout.iter().zip(parts).filter(|(of, _)| **of == file);
        let texts: Vec<&str> = own.map(|(_, text)| text.as_str()).collect();
        files.put(&format!("/conf/{file}.yaml"), texts.join("---\n"));
    }
    files
}

fn answers(stage: &Stage) -> [Answer; 3] {
    USERS.map(|user| stage.check(user))
}

const BEFORE: [Answer; 3] = [Answer::Denied, Answer::Allowed, Answer::Allowed];
const MEANT: [Answer; 3] = [Answer::Allowed, Answer::Denied, Answer::Allowed];

fn before() -> [String; 3] {
    [list("l", "eve"), value("v", USER), rule("r", "true", "l", "v")]
}

/// The list of users becomes one of plans.
fn meant([handler, instance, name]: [&str; 3]) -> [String; 3] {
    let value = if instance == "q" { value("v", USER) } else { value(instance, PLAN) };
    [list(handler, "banned"), value, rule(name, "true", handler, instance)]
}

/// Serves the files before the edit, applies `change`, and returns what is wrong with the answers, if anything is.
fn wrong(stage: &mut Stage, before: &Files, after: &Files) -> Option<String> {
    stage.start(before);
    assert_eq!(answers(stage), BEFORE);
    stage.change(after);
    let seen = answers(stage);
    (![BEFORE, MEANT].contains(&seen)).then(|| format!("{seen:?}: {:#?}", stage.kept()))
}

#[test]
fn one_mistake_leaves_the_old_answers_or_gives_the_new_ones() {
    let mut stage = Stage::new(OnConfigError::KeepLast, false);
    let mut all = Vec::new();
    for layout in LAYOUTS {
        for edit in EDITS {
            let old = files(layout, &before());
            assert_eq!(wrong(&mut stage, &old, &files(layout, &meant(edit))), None, "{edit:?}");
            for (what, mistake) in MISTAKES {
                for which in 0..3 {
                    let mut parts = meant(edit);
                    if let Some(part) = parts.get_mut(which) {
                        *part = mistake(part);
                    }
                    let seen = wrong(&mut stage, &old, &files(layout, &parts));
                    all.extend(
                        seen.map(|seen| format!("{layout:?} {edit:?} {what} of part {which}: {seen}")),
                    );
                }
            }
        }
    }
    assert!(all.is_empty(), "{} of them: {}", all.len(), all.join("\n"));
}

/// A file becomes unreadable, is emptied or is still written; another one changes with it, or a minute later.
#[test]
fn a_file_that_is_not_read_leaves_the_old_answers_or_gives_the_new_ones() {
    let mut all = Vec::new();
    for edit in EDITS {
        for hidden in ["h", "i", "r"] {
            for (what, hide) in [
                ("unreadable", (|files, file| files.unreadable.push(file)) as fn(&mut Files, String)),
                ("changing", |files, file| files.changing.push(file)),
                ("empty", |files, file| files.put(&file, "")),
            ] {
                for policy in [OnConfigError::KeepLast, OnConfigError::Refuse] {
                    let layout = ["h", "i", "r"];
                    let (old, new) = (files(layout, &before()), files(layout, &meant(edit)));
                    let (mut broken, mut after) = (old.clone(), new);
                    let file = format!("/conf/{hidden}.yaml");
                    hide(&mut broken, file.clone());
                    hide(&mut after, file);
                    for at_once in [true, false] {
                        let mut stage = Stage::new(policy, false);
                        stage.start(&old);
                        if !at_once {
                            stage.change(&broken);
                            stage.advance(60);
                        }
                        stage.change(&after);
                        let seen = answers(&stage);
                        if ![BEFORE, MEANT].contains(&seen)
                            || policy == OnConfigError::Refuse && seen != BEFORE
                        {
                            let kept = stage.kept();
                            all.push(format!(
                                "{edit:?} {hidden} {what} {policy:?} {at_once}: {seen:?}: {kept:#?}"
                            ));
                        }
                    }
                }
            }
        }
    }
    assert!(all.is_empty(), "{} of them: {}", all.len(), all.join("\n"));
}

/// What a condition decided is to be decided by a handler that cannot be read.
#[test]
fn a_condition_waits_for_a_handler_that_cannot_be_read() {
    let handler = |spec: &str| {
        format!("kind: handler\nmetadata: {{name: gate, namespace: istio-system}}\nspec: {{{spec}}}\n")
    };
    let closed = "kind: rule\nmetadata: {name: closed, namespace: istio-system, annotations: {mixer.dev/default: deny}}\nspec: {}\n";
    let carl = "(source.user | \"\") == \"carl\"";
    let users = "compiledAdapter: listchecker, params: {overrides: [carl, ann]";
    let cases = [
        (
            closed,
            "compiledAdapter: noop",
            format!("{users}}}"),
            [Answer::Denied, Answer::Denied, Answer::Allowed],
        ),
        (
            "# Nothing.\n",
            "compiledAdapter: denier",
            format!("{users}, blacklist: true}}"),
            [Answer::Allowed, Answer::Allowed, Answer::Denied],
        ),
    ];
    for (head, spec, list, expected) in cases {
        for (what, mistake) in MISTAKES {
            let text = |handler: String, condition: &str| {
                let mut files = good();
                let parts = [head.to_owned(), handler, value("i2", USER), rule("r", condition, "gate", "i2")];
                files.put("/conf/c.yaml", parts.join("---\n"));
                files
            };
            let mut stage = Stage::new(OnConfigError::KeepLast, false);
            stage.start(&text(handler(spec), carl));
            assert_eq!(answers(&stage), expected);
            stage.change(&text(mistake(&handler(&list)), "true"));
            assert_eq!(answers(&stage), expected, "{what} in {list}: {:#?}", stage.kept());
        }
    }
}

const ASK: &str = "kind: handler
metadata: {name: roles, namespace: istio-system}
spec: {compiledAdapter: rbac}
---
kind: instance
metadata: {name: who, namespace: istio-system}
spec:
  compiledTemplate: authorization
  params:
    subject: {user: 'source.user | \"\"'}
    action: {namespace: '\"lib\"', service: '\"shelf\"', method: '\"PUT\"', path: '\"/\"'}
---
kind: rule
metadata: {name: ask, namespace: istio-system}
spec: {actions: [{handler: roles, instances: [who]}]}
";

fn role(name: &str, methods: &str) -> String {
    format!(
        "apiVersion: rbac.istio.io/v1alpha1\nkind: ServiceRole\nmetadata: {{name: {name}, namespace: lib}}\n\
         spec: {{rules: [{{services: [shelf], methods: [{methods}]}}]}}\n"
    )
}

fn binding(name: &str, user: &str, role: &str) -> String {
    format!(
        "apiVersion: rbac.istio.io/v1alpha1\nkind: ServiceRoleBinding\nmetadata: {{name: {name}, namespace: lib}}\n\
         spec: {{subjects: [{{user: {user}}}], roleRef: {{kind: ServiceRole, name: {role}}}}}\n"
    )
}

/// A role permits more and its binding names fewer; or a role permits less and its binding names more. Nobody may write before, and eve may not
/// afterwards.
#[test]
fn roles_and_bindings_go_together_whatever_the_mistake() {
    let (all, dave) = ("'*'", "eve_not");
    // Before; after; the names of the role and the binding after.
    let wide = |role_name: &str, name: &str| [role(role_name, all), binding(name, dave, role_name)];
    let narrow = |role_name: &str, name: &str| [role(role_name, "GET"), binding(name, all, role_name)];
    let mut wrong = Vec::new();
    for is_widened in [true, false] {
        let before = if is_widened { narrow("reader", "readers") } else { wide("reader", "readers") };
        for names in
            [["reader", "readers"], ["viewer", "readers"], ["reader", "writers"], ["viewer", "writers"]]
        {
            let after = || if is_widened { wide(names[0], names[1]) } else { narrow(names[0], names[1]) };
            for (what, mistake) in MISTAKES {
                for which in 0..2 {
                    for layout in [["a", "a"], ["a", "b"]] {
                        let mut edited = after();
                        if let Some(text) = edited.get_mut(which) {
                            *text = match what {
                                "another kind" if which == 0 => {
                                    text.replace("kind: ServiceRole\nmeta", "kind: ServiceRoleBinding\nmeta")
                                }
                                "another kind" => {
                                    text.replace("kind: ServiceRoleBinding", "kind: ServiceRole")
                                }
                                "two versions" => format!(
                                    "{text}---\n{}",
                                    text.replace("GET", "HEAD").replace("eve_not", "ann")
                                ),
                                _ => mistake(text),
                            };
                        }
                        let put = |texts: &[String; 2]| {
                            let mut files = good();
                            files.put("/conf/ask.yaml", ASK);
                            match layout[0] == layout[1] {
                                true => files.put("/conf/a.yaml", texts.join("---\n")),
                                false => layout.iter().zip(texts).for_each(|(file, text)| {
                                    files.put(&format!("/conf/{file}.yaml"), text.as_str())
                                }),
                            }
                            files
                        };
                        let mut stage = Stage::new(OnConfigError::KeepLast, false);
                        stage.start(&put(&before));
                        assert_eq!(stage.check("eve"), Answer::Denied);
                        stage.change(&put(&edited));
                        if stage.check("eve") != Answer::Denied {
                            wrong.push(format!(
                                "{is_widened} {names:?} {what} of {which}, {layout:?}: {:#?}",
                                stage.kept()
                            ));
                        }
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of them: {}", wrong.len(), wrong.join("\n"));
}

/// A binding for everybody is deleted while its role is widened, and the new binding is in a file that is no YAML.
#[test]
fn a_role_waits_for_a_binding_that_may_have_moved() {
    let mut files = good();
    files.put("/conf/ask.yaml", ASK);
    files.put("/conf/role.yaml", role("editor", "GET"));
    files.put("/conf/binding.yaml", binding("editors", "'*'", "editor"));
    let mut stage = Stage::new(OnConfigError::KeepLast, false);
    stage.start(&files);
    assert_eq!(stage.check("eve"), Answer::Denied);
    files.put("/conf/role.yaml", role("editor", "'*'"));
    files.remove("/conf/binding.yaml");
    files.put("/conf/new.yaml", binding("few", "dave", "editor").replace("}]", "}"));
    stage.change(&files);
    assert_eq!(stage.check("eve"), Answer::Denied, "{:#?}", stage.kept());
    assert_eq!(stage.kept().len(), 2, "{:#?}", stage.kept());
}

/// Callers are to be known by their plan, and a binding follows: the instance that says who calls has a mistake, or the binding has.
#[test]
fn bindings_wait_for_the_instance_that_says_who_calls() {
    let who = format!("'{}'", USER);
    let by_plan = ASK.replace(
        &who,
        &format!(
            "'{}'",
            PLAN.replace("\"good\"", "source.user | \"\"")
                .replace("\"ann\", \"banned\"", "\"eve\", \"dave\"")
        ),
    );
    assert_ne!(by_plan, ASK);
    // Eve is called dave.
    let editor = role("editor", "'*'");
    let before = [ASK.to_owned(), binding("editors", "dave", "editor")];
    let faulty = [by_plan.replacen("source.user", "sorce.user", 1), binding("editors", "admin", "editor")];
    let typo = [by_plan.clone(), binding("editors", "admin", "editor").replace("subjects", "subjcts")];
    for after in [faulty, typo] {
        let put = |texts: &[String; 2]| {
            let mut files = good();
            files.put("/conf/role.yaml", editor.as_str());
            files.put("/conf/ask.yaml", texts[0].as_str());
            files.put("/conf/binding.yaml", texts[1].as_str());
            files
        };
        let mut stage = Stage::new(OnConfigError::KeepLast, false);
        stage.start(&put(&before));
        let users = ["dave", "eve", "admin"];
        let old = [Answer::Allowed, Answer::Denied, Answer::Denied];
        assert_eq!(users.map(|user| stage.check(user)), old);
        stage.change(&put(&after));
        assert_eq!(users.map(|user| stage.check(user)), old, "{:#?}", stage.kept());
    }
}

/// What changes beside a mistake without being used with it applies.
#[test]
fn unconnected_changes_apply() {
    let beside =
        |entry: &str| [list("l2", entry), value("v2", USER), rule("r2", "true", "l2", "v2")].join("---\n");
    for (what, mistake) in MISTAKES {
        for which in 0..3 {
            let layout = ["h", "i", "r"];
            let mut old = files(layout, &before());
            old.put("/conf/beside.yaml", beside("mallory"));
            let mut stage = Stage::new(OnConfigError::KeepLast, false);
            stage.start(&old);
            let mut parts = meant(["l", "v", "r"]);
            if let Some(part) = parts.get_mut(which) {
                *part = mistake(part);
            }
            let mut new = files(layout, &parts);
            new.put("/conf/beside.yaml", beside("mallory, carl"));
            stage.change(&new);
            assert_eq!(stage.check("carl"), Answer::Denied, "{what} of {which}: {:#?}", stage.kept());
        }
    }
}

/// A rule with an error that names the same list in another form takes nothing with it.
#[test]
fn a_name_in_another_form_is_the_same_name() {
    let mut stage = Stage::new(OnConfigError::KeepLast, false);
    let mut files = good();
    let parts = |entry: &str| [list("users", entry), value("who", USER)].join("---\n");
    files.put("/conf/parts.yaml", parts("mallory"));
    files.put("/conf/rules.yaml", rule("deny", "true", "users", "who"));
    stage.start(&files);
    files.put("/conf/parts.yaml", parts("mallory, eve"));
    let faulty = rule("deny", "true", "users.istio-system", "who.instance.istio-system");
    files.put("/conf/rules.yaml", faulty.replace("spec: {", "spec: {blakc: 1, "));
    stage.change(&files);
    assert_eq!(["mallory", "eve"].map(|user| stage.check(user)), [Answer::Denied; 2], "{:#?}", stage.kept());
}

/// The rule is saved first, then the list, and the new instance last.
#[test]
fn a_list_waits_for_an_instance_that_does_not_exist_yet() {
    let layout = ["h", "i", "r"];
    let mut stage = Stage::new(OnConfigError::KeepLast, false);
    let mut now = files(layout, &before());
    stage.start(&now);
    now.put("/conf/r.yaml", rule("r", "true", "l", "subscription"));
    stage.change(&now);
    assert_eq!(answers(&stage), BEFORE);
    now.put("/conf/h.yaml", list("l", "banned"));
    stage.change(&now);
    assert_eq!(answers(&stage), BEFORE, "{:#?}", stage.kept());
    now.put("/conf/i2.yaml", value("subscription", PLAN));
    stage.change(&now);
    assert_eq!((answers(&stage), stage.kept()), (MEANT, Vec::new()));
}

fn bridge(spec: &str) -> String {
    format!(
        "apiVersion: config.istio.io/v1alpha2\nkind: envoybridge\nmetadata: {{name: bridge, namespace: istio-system}}\nspec: {{{spec}}}\n"
    )
}

/// The names of what is kept after an edit of these files.
fn kept_after(before: &[(&str, String)], after: &[(&str, String)]) -> Vec<String> {
    let mut stage = Stage::new(OnConfigError::KeepLast, false);
    let mut files = good();
    before.iter().for_each(|(file, text)| files.put(&format!("/conf/{file}.yaml"), text.as_str()));
    stage.start(&files);
    assert_eq!(stage.kept(), Vec::<String>::new());
    after.iter().for_each(|(file, text)| files.put(&format!("/conf/{file}.yaml"), text.as_str()));
    stage.change(&files);
    let name = |line: &String| line.split_once(": ").map(|(key, _)| key.to_owned());
    stage.kept().iter().filter_map(name).collect()
}

/// Requests of Envoy get another namespace, and a rule that moves there has a mistake.
#[test]
fn the_namespace_of_requests_waits_for_the_rules_of_the_old_one() {
    let refuse = "kind: handler\nmetadata: {name: refuse, namespace: istio-system}\nspec: {compiledAdapter: denier}\n---\n\
                  kind: instance\nmetadata: {name: any, namespace: istio-system}\nspec: {compiledTemplate: checknothing}\n";
    let deny = |name: &str, namespace: &str, user: &str| {
        let condition = format!("(source.user | \"\") == \"{user}\"");
        rule(name, &condition, "refuse.istio-system", "any.istio-system").replacen(
            "namespace: istio-system",
            &format!("namespace: {namespace}"),
            1,
        )
    };
    let before = [
        ("bridge", bridge("defaultNamespace: shop")),
        ("refuse", refuse.to_owned()),
        ("a", deny("deny-1", "shop", "ann")),
        ("b", deny("deny-2", "shop", "eve")),
    ];
    let moved = deny("deny-2", "till", "eve");
    for mistaken in [moved.replace("source.user", "sorce.user"), moved.replace("]}]}", "]}")] {
        let after = [
            ("bridge", bridge("defaultNamespace: till")),
            ("a", deny("deny-1", "till", "ann")),
            ("b", mistaken.clone()),
        ];
        let kept = kept_after(&before, &after);
        for key in ["bridge.envoybridge.istio-system", "deny-1.rule.shop", "deny-2.rule.shop"] {
            assert!(kept.iter().any(|kept| kept == key), "{key}, {mistaken}: {kept:?}");
        }
    }
}

/// Requests of Envoy are charged to another quota, and the rule that charges it, or the bridge, has a mistake.
#[test]
fn the_quota_of_requests_waits_for_the_rules_that_charge_it() {
    let quota = |name: &str| {
        format!(
            "kind: instance\nmetadata: {{name: {name}, namespace: istio-system}}\nspec: {{compiledTemplate: quota, params: {{dimensions: {{a: '\"x\"'}}}}}}\n"
        )
    };
    let limits =
        |name: &str| format!("{{name: {name}.instance.istio-system, maxAmount: 3, validDuration: 60s}}");
    let parts = format!(
        "kind: handler\nmetadata: {{name: lim, namespace: istio-system}}\nspec: {{compiledAdapter: memquota, params: {{quotas: [{}, {}]}}}}\n---\n{}---\n{}",
        limits("q"),
        limits("q2"),
        quota("q"),
        quota("q2")
    );
    let charged = |name: &str, more: &str| {
        bridge(&format!(
            "check: {{quotaSpec: [{{rules: [{{quotas: [{{quota: {name}, charge: 1}}]}}]}}]{more}}}"
        ))
    };
    let gold = "(source.user | \"\") == \"gold\"";
    let before = |gold_quota: &str| {
        [
            ("bridge", charged("q", "")),
            ("parts", parts.clone()),
            ("all", rule("all", "true", "lim", "q")),
            ("gold", rule("gold", gold, "lim", gold_quota)),
        ]
    };
    let renamed = rule("all-2", "sorce.user == \"x\"", "lim", "q2");
    let kept = kept_after(&before("q2"), &[("bridge", charged("q2", "")), ("all", renamed)]);
    assert_eq!(kept, ["bridge.envoybridge.istio-system", "all.rule.istio-system"]);
    let faulty = charged("q2", ", eror: x");
    let kept = kept_after(&before("q"), &[("bridge", faulty), ("all", rule("all", "true", "lim", "q2"))]);
    assert_eq!(kept, ["bridge.envoybridge.istio-system", "all.rule.istio-system"]);
}
