//! Rules follow the attributes that a generator makes: a mistake in one of them leaves the old answers or gives the new ones.

use std::sync::LazyLock;

use mixer_config::Diagnostics;
use mixer_engine::adapter::{
    Adapter, AdapterInfo, BoundInstance, BuildError, Env, Erase, ErasedAdapter, Generated, GeneratedValue,
    HandleGenerate, Handler, Instance, Inventory, Reply,
};
use mixer_engine::runtime::OnConfigError;
use mixer_engine::snapshot::Registry;

use crate::refusal::{REFUSE, good};
use crate::stage::{Answer, Files, Stage};

mixer_config::message! {
    /// What is generated.
    pub struct Params: "test.echo.Params" {
        /// Before the text of the input.
        1 prefix: String = String::new();
    }
}

/// Generates the name of a pod: the text of the input `source_uid`.
struct Echo {
    prefix: String,
    uid: usize,
    name: usize,
}

impl Adapter for Echo {
    const INFO: AdapterInfo = AdapterInfo { name: "zz-echo", about: "", templates: &["kubernetes"] };
    type Params = Params;

    fn validate(_: &Params, _: &[BoundInstance], _: &mut Diagnostics) {}

    async fn build(
        params: Params,
        instances: Vec<BoundInstance>,
        _: Env,
    ) -> Result<Box<dyn Handler>, BuildError> {
        let uid = instances[0].position("source_uid").unwrap();
        let name = instances[0].output("source_pod_name").unwrap();
        Ok(Box::new(Echo { prefix: params.prefix, uid, name }))
    }
}

impl Handler for Echo {
    fn as_generate(&self) -> Option<&dyn HandleGenerate> {
        Some(self)
    }
}

impl HandleGenerate for Echo {
    fn generate(&self, instance: &Instance<'_>) -> Reply<Generated> {
        let text = match instance.value(self.uid) {
            Some(mixer_attribute::Value::String(text)) => String::from_utf8_lossy(text).into_owned(),
            _ => String::new(),
        };
        let value = GeneratedValue::String(format!("{}{text}", self.prefix));
        Reply::Ready(Ok(Generated { values: vec![(self.name, value)] }))
    }
}

static ECHO: Erase<Echo> = Erase::new();

fn registry() -> Registry {
    static ADAPTERS: LazyLock<Vec<&'static dyn ErasedAdapter>> = LazyLock::new(|| {
        let known = mixer_server::REGISTRY.adapters.iter();
        known.chain([&ECHO as &dyn ErasedAdapter]).collect()
    });
    Registry { adapters: Inventory::new(&ADAPTERS), ..mixer_server::REGISTRY }
}

const WORDS: &str = "kind: attributemanifest
metadata: {name: teams, namespace: istio-system}
spec: {attributes: {source.team: {valueType: STRING}, source.plan: {valueType: STRING}}}
";

const USER: &str = "source.user | \"\"";
/// `banned` for ann, `good` for all others.
const PLAN: &str = "conditional((source.user | \"\") == \"ann\", \"banned\", \"good\")";

fn handler(name: &str, prefix: &str) -> String {
    format!(
        "kind: handler\nmetadata: {{name: {name}, namespace: istio-system}}\n\
         spec: {{compiledAdapter: zz-echo, params: {{prefix: \"{prefix}\"}}}}\n"
    )
}

fn instance(name: &str, input: &str, attribute: &str) -> String {
    format!(
        "kind: instance\nmetadata: {{name: {name}, namespace: istio-system}}\n\
         spec: {{compiledTemplate: kubernetes, params: {{source_uid: '{input}'}}, attributeBindings: {{{attribute}: '$out.source_pod_name | \"\"'}}}}\n"
    )
}

fn generates(name: &str, handler: &str, instance: &str) -> String {
    format!(
        "kind: rule\nmetadata: {{name: {name}, namespace: istio-system}}\n\
         spec: {{actions: [{{handler: {handler}, instances: [{instance}]}}]}}\n"
    )
}

fn denies(name: &str, condition: &str) -> String {
    format!(
        "kind: rule\nmetadata: {{name: {name}, namespace: istio-system}}\n\
         spec: {{match: '{condition}', actions: [{{handler: refuse, instances: [any]}}]}}\n"
    )
}

/// Makes a mistake in the text of a resource.
type Mistake = fn(&str) -> String;

const MISTAKES: [(&str, Mistake); 7] = [
    ("an unknown field", |text| text.replace("spec: {", "spec: {blakc: 1, ")),
    ("an unknown annotation", |text| {
        text.replacen("metadata: {", "metadata: {annotations: {mixer.dev/on-eror: deny}, ", 1)
    }),
    ("another annotation", |text| {
        text.replacen("metadata: {", "metadata: {annotations: {mixer.dev/received-values: ignroe}, ", 1)
    }),
    ("an unknown attribute", |text| text.replace("source.", "sorce.")),
    ("no YAML", |text| text.trim_end().strip_suffix('}').unwrap_or(text).to_owned()),
    ("an unknown kind", |text| text.replacen("kind: ", "kind: x", 1)),
    ("no name", |text| text.replacen("name: ", "nam: ", 1)),
];

const USERS: [&str; 3] = ["eve", "ann", "carl"];
const BEFORE: [Answer; 3] = [Answer::Denied, Answer::Allowed, Answer::Allowed];
const MEANT: [Answer; 3] = [Answer::Allowed, Answer::Denied, Answer::Allowed];

/// A handler, an instance and a rule that generate, and a rule that reads.
type Parts = [String; 4];

fn files(layout: [&str; 4], parts: &Parts) -> Files {
    let mut files = good();
    files.put("/conf/base.yaml", format!("{WORDS}---\n{REFUSE}"));
    for file in layout {
        let own = layout.iter().zip(parts).filter(|(of, _)| **of == file);
        let texts: Vec<&str> = own.map(|(_, text)| text.as_str()).collect();
        files.put(&format!("/conf/{file}.yaml"), texts.join("---\n"));
    }
    files
}

/// Users are refused by their name, and then by their plan. What changes: the names of the four resources and of the attribute, and whether the
/// handler or the instance makes the difference.
fn edits() -> Vec<(&'static str, Parts, Parts)> {
    let by_name = |attribute: &str| {
        [
            handler("h", ""),
            instance("i", USER, attribute),
            generates("g", "h", "i"),
            denies("d", &format!("({attribute} | \"\") == \"eve\"")),
        ]
    };
    let by_plan = |[h, i, g, d]: [&str; 4], attribute: &str| {
        [
            handler(h, ""),
            instance(i, PLAN, attribute),
            generates(g, h, i),
            denies(d, &format!("({attribute} | \"\") == \"banned\"")),
        ]
    };
    let (team, plan) = ("source.team", "source.plan");
    let mut edits = vec![
        ("the instance", by_name(team), by_plan(["h", "i", "g", "d"], team)),
        ("another attribute", by_name(team), by_plan(["h", "i", "g", "d"], plan)),
        ("a renamed instance", by_name(team), by_plan(["h", "j", "g", "d"], team)),
        ("renamed parts", by_name(team), by_plan(["k", "j", "f", "d"], plan)),
        ("a renamed rule", by_name(team), by_plan(["h", "i", "g", "e"], team)),
    ];
    let mut prefixed = by_name(team);
    prefixed[0] = handler("h", "x-");
    prefixed[3] = denies("d", "(source.team | \"\") == \"x-ann\"");
    edits.push(("the handler", by_name(team), prefixed));
    edits
}

const LAYOUTS: [[&str; 4]; 3] = [["h", "i", "g", "d"], ["p", "p", "p", "d"], ["h", "d", "d", "d"]];

#[test]
fn one_mistake_leaves_the_old_answers_or_gives_the_new_ones() {
    let mut stage = Stage::on_virtual_time(OnConfigError::KeepLast, registry());
    let answers = |stage: &Stage| USERS.map(|user| stage.check(user));
    let mut wrong = Vec::new();
    for layout in LAYOUTS {
        for (edit, before, after) in edits() {
            let old = files(layout, &before);
            for (what, mistake) in MISTAKES {
                for which in 0..4 {
                    let mut parts = after.clone();
                    parts[which] = mistake(&parts[which]);
                    stage.start(&old);
                    assert_eq!(answers(&stage), BEFORE, "{edit}");
                    stage.change(&files(layout, &parts));
                    let seen = answers(&stage);
                    if ![BEFORE, MEANT].contains(&seen) {
                        wrong.push(format!(
                            "{edit}, {what} in {which} of {layout:?}: {seen:?}: {:#?}",
                            stage.kept()
                        ));
                    }
                    stage.change(&files(layout, &after));
                    assert_eq!((answers(&stage), stage.kept()), (MEANT, Vec::new()), "{edit}, {what}");
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of them: {}", wrong.len(), wrong.join("\n"));
}

/// Of a rule whose handler nothing is, nobody knows what it is to refuse: a generator, which may have others refuse less, waits until it is mended.
#[test]
fn a_generator_waits_for_a_rule_whose_handler_is_misspelt() {
    let layout = LAYOUTS[0];
    let (_, before, _) = edits().swap_remove(0);
    let mut meant = before.clone();
    meant[1] = instance(
        "i",
        "conditional((source.user | \"\") == \"carl\", \"eve\", source.user | \"\")",
        "source.team",
    );
    let mut after = meant.clone();
    after[3] = after[3].replace("handler: refuse", "handler: refues");
    let mut stage = Stage::on_virtual_time(OnConfigError::KeepLast, registry());
    stage.start(&files(layout, &before));
    stage.change(&files(layout, &after));
    assert_eq!(stage.check("carl"), Answer::Allowed, "{:#?}", stage.kept());
    assert!(stage.kept().iter().any(|kept| kept.starts_with("i.instance.")), "{:#?}", stage.kept());
    stage.change(&files(layout, &meant));
    assert_eq!(stage.check("carl"), Answer::Denied, "{:#?}", stage.kept());
}

/// The attributes that the settings and mappings of Envoy make.
#[test]
fn rules_wait_for_the_mapping_of_their_attribute_and_it_for_them() {
    let mapping = |header: &str, more: &str| {
        format!(
            "kind: attributemapping\nmetadata: {{name: teams, namespace: istio-system}}\n\
             spec: {{mappings: [{{attribute: source.team, from: {{requestHeader: {header}}}{more}}}]}}\n"
        )
    };
    let settings = |team: &str, more: &str| {
        format!(
            "kind: envoybridge\nmetadata: {{name: bridge, namespace: istio-system}}\n\
             spec: {{check: {{staticAttributes: {{source.team: {team}}}{more}}}}}\n"
        )
    };
    for (before, after, faulty, key) in [
        (
            mapping("x-team", ""),
            mapping("x-plan", ""),
            mapping("x-plan", ", bogus: 1"),
            "teams.attributemapping.istio-system",
        ),
        (
            settings("red", ""),
            settings("banned", ""),
            settings("banned", ", bogus: 1"),
            "bridge.envoybridge.istio-system",
        ),
    ] {
        let put = |made: &str, rule: &str| {
            let mut files = good();
            files.put("/conf/base.yaml", format!("{WORDS}---\n{REFUSE}"));
            files.put("/conf/a.yaml", made);
            files.put("/conf/d.yaml", rule);
            files
        };
        let rule = |team: &str| denies("d", &format!("(source.team | \"\") == \"{team}\""));
        let typo = rule("banned").replace("source.", "sorce.");
        for (made, rule_after) in [(&faulty, rule("banned")), (&after, typo)] {
            let mut stage = Stage::new(OnConfigError::KeepLast, false);
            stage.start(&put(&before, &rule("red")));
            assert_eq!((stage.kept(), stage.published().withheld.is_some()), (Vec::new(), false), "{key}");
            stage.change(&put(made, &rule_after));
            let kept = stage.kept();
            for key in [key, "d.rule.istio-system"] {
                assert!(kept.iter().any(|kept| kept.starts_with(key)), "{key}: {kept:#?}");
            }
        }
    }
}
