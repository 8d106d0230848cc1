//! Refusals that the texts of rules do not tell: what chooses the namespace of a request, the type of an attribute, the namespace of a role,
//! quotas that nothing charges. What changes them waits with what has an error; nobody is refused whom both configurations allow.

use mixer_engine::runtime::OnConfigError;

use crate::refusal::REFUSE;
use crate::schedules::{self, Random};
use crate::stage::{Answer, Files, Stage};

/// A file, and its text before and after.
pub(crate) type Edit = (&'static str, String, String);

const MANIFEST: &str = "kind: attributemanifest
metadata: {name: words, namespace: istio-system}
spec:
  attributes:
    source.user: {valueType: STRING}
    source.namespace: {valueType: STRING}
    request.path: {valueType: STRING}
    destination.namespace: {valueType: STRING}
    destination.service.namespace: {valueType: STRING}
    context.reporter.kind: {valueType: STRING}
";

pub(crate) const NONE: &str = "# nothing\n";

pub(crate) fn resource(kind: &str, name: &str, namespace: &str, spec: &str) -> String {
    format!("kind: {kind}\nmetadata: {{name: {name}, namespace: {namespace}}}\nspec: {spec}\n")
}

/// A rule that refuses what `condition` selects.
pub(crate) fn rule(name: &str, namespace: &str, condition: &str) -> String {
    let actions = "[{handler: refuse.istio-system, instances: [any.istio-system]}]";
    resource("rule", name, namespace, &format!("{{match: '{condition}', actions: {actions}}}"))
}

/// One that names a handler that does not exist.
pub(crate) fn faulty(name: &str, namespace: &str, condition: &str) -> String {
    rule(name, namespace, condition).replace("refuse.istio-system", "refusse.istio-system")
}

fn mapping(attribute: &str, extension: &str) -> String {
    let spec = format!("{{mappings: [{{attribute: {attribute}, from: {{extension: {extension}}}}}]}}");
    resource("attributemapping", "m", "istio-system", &spec)
}

/// The stage after these edits, with the names of the kinds and namespaces of what is kept.
pub(crate) fn edited(edits: &[Edit]) -> (Stage, Vec<String>) {
    let mut stage = Stage::new(OnConfigError::KeepLast, false);
    let mut files = Files::default();
    files.put("/conf/base.yaml", format!("{MANIFEST}---\n{REFUSE}"));
    edits.iter().for_each(|(file, before, _)| files.put(&format!("/conf/{file}.yaml"), before.as_str()));
    stage.start(&files);
    let problems = &stage.published().diagnostics;
    assert!(problems.iter().all(|problem| problem.severity != mixer_config::Severity::Error), "{problems:?}");
    edits.iter().for_each(|(file, _, after)| files.put(&format!("/conf/{file}.yaml"), after.as_str()));
    stage.change(&files);
    let kept = stage.published().kept.iter().map(|kept| kept.key.to_string()).collect();
    (stage, kept)
}

/// Whether a rule serves, in whichever version.
fn serves(stage: &Stage, rule: &str) -> bool {
    stage.published().routes.snapshot().rules.iter().any(|serving| serving.key.to_string() == rule)
}

const USER: &str = "source.user == \"eve\"";

#[test]
fn what_chooses_the_namespace_of_a_request_waits() {
    let bridge = resource("envoybridge", "b", "istio-system", "{defaultNamespace: istio-system}");
    let new = |text: String| ("d", NONE.to_owned(), text);
    let unseen = || ("d", rule("newone", "istio-system", USER), String::new());
    for attribute in ["destination.namespace", "source.namespace", "context.reporter.kind"] {
        for other in [new(faulty("newone", "istio-system", USER)), unseen()] {
            let change = ("b", mapping(attribute, "ns"), mapping(attribute, "ns2"));
            let shop = rule("closed", "shop", "true");
            let base = ("a", bridge.clone(), bridge.clone());
            let (_, kept) = edited(&[base, change.clone(), ("c", shop.clone(), shop), other]);
            assert!(kept.iter().any(|key| key == "m.attributemapping.istio-system"), "{attribute}: {kept:?}");
        }
    }
}

/// The namespace of requests changes its name, and what chooses it has a mistake.
#[test]
fn rules_wait_for_what_is_to_choose_their_namespace() {
    let bridge = |namespace: &str| {
        resource("envoybridge", "b", "istio-system", &format!("{{defaultNamespace: {namespace}}}"))
    };
    let of_bridge = bridge("web").replace("spec: {", "spec: {chek: {}, ");
    let of_mapping = mapping("destination.namespace", "ns2").replace("extension", "extensoin");
    let static_bridge = bridge("shop");
    for change in [("b", mapping("destination.namespace", "ns"), of_mapping), ("b", static_bridge, of_bridge)]
    {
        let beside = rule("other", "istio-system", "source.user == \"zed\"");
        let (stage, kept) = edited(&[
            change.clone(),
            ("a", beside.clone(), beside.replace("zed", "yan")),
            ("c", rule("closed", "shop", "true"), NONE.to_owned()),
            ("d", NONE.to_owned(), rule("closed", "web", "true")),
        ]);
        assert!(kept.iter().any(|key| key == "closed.rule.shop"), "{change:?}: {kept:?}");
        // By the last version of what chooses, nobody was refused in the other namespace.
        let answers = ["shop", "web"].map(|namespace| {
            stage.check_with([("source.user", "ann"), ("destination.namespace", namespace)])
        });
        assert_eq!(answers, [Answer::Denied, Answer::Allowed], "{change:?}: {kept:?}");
    }
}

#[test]
fn what_makes_an_attribute_waits_that_chooses_a_quota() {
    let parts = [
        resource(
            "handler",
            "lim",
            "istio-system",
            "{compiledAdapter: memquota, params: {quotas: [{name: rc.instance.istio-system, maxAmount: 1, validDuration: 60s}]}}",
        ),
        resource(
            "instance",
            "rc",
            "istio-system",
            "{compiledTemplate: quota, params: {dimensions: {a: '\"x\"'}}}",
        ),
        resource("rule", "charge", "istio-system", "{actions: [{handler: lim, instances: [rc]}]}"),
        resource(
            "envoybridge",
            "b",
            "istio-system",
            "{check: {quotaSpec: [{rules: [{match: [{clause: {source.user: {exact: eve}}}], quotas: [{quota: rc, charge: 1}]}]}]}}",
        ),
    ];
    let parts = parts.join("---\n");
    let (_, kept) = edited(&[
        ("a", parts.clone(), parts),
        ("b", mapping("source.user", "t"), mapping("source.user", "t2")),
        ("d", NONE.to_owned(), faulty("newone", "istio-system", "request.path == \"/admin\"")),
    ]);
    assert_eq!(kept, ["m.attributemapping.istio-system"]);
}

#[test]
fn another_type_of_an_attribute_waits() {
    let words = |of: &str| {
        let declared = format!("{{valueType: {of}}}");
        let spec = format!("{{attributes: {{request.a: {declared}, request.b: {declared}}}}}");
        resource("attributemanifest", "mm", "istio-system", &spec)
    };
    let same = rule("same", "istio-system", "request.a == request.b");
    let manifest = "mm.attributemanifest.istio-system";
    let request = [("request.a", "x y"), ("request.b", "x y"), ("source.user", "eve")];
    // Of two texts that are no addresses the comparison fails from now on. What is to refuse eve has an error, or is out of sight.
    let new = ("d", NONE.to_owned(), faulty("newone", "istio-system", USER));
    let unseen = ("d", rule("newone", "istio-system", USER), String::new());
    for other in [new.clone(), unseen] {
        let (stage, kept) = edited(&[
            ("b", words("STRING"), words("EMAIL_ADDRESS")),
            ("c", same.clone(), same.clone()),
            other,
        ]);
        assert_eq!(stage.check_with(request), Answer::Denied, "{kept:?}");
        assert!(kept.iter().any(|key| key == manifest), "{kept:?}");
    }
    // The manifest has an error as well: what refused eve until now waits for it, and a change of the rule that reads its attributes.
    let (stage, kept) = edited(&[
        ("b", words("STRING"), words("EMAIL_ADDRESS").replace("valueType", "valuType")),
        ("c", same.clone(), same.replace("request.b", "request.b || source.user == \"dan\"")),
        ("d", rule("old", "istio-system", USER), NONE.to_owned()),
    ]);
    assert_eq!(kept, [manifest, "old.rule.istio-system", "same.rule.istio-system"]);
    let dan = [("request.a", "x"), ("request.b", "y"), ("source.user", "dan")];
    assert_eq!((stage.check_with(request), stage.check_with(dan)), (Answer::Denied, Answer::Allowed));
    // Descriptions wait for nothing.
    let told = words("STRING").replace("valueType: STRING", "valueType: STRING, description: text");
    let (_, kept) = edited(&[("b", words("STRING"), told), ("c", same.clone(), same), new]);
    assert_eq!(kept, [""; 0]);
}

#[test]
fn a_role_waits_for_what_its_rules_select() {
    let who = |namespace: &str| {
        let action =
            format!("{{namespace: '{namespace}', service: '\"s\"', method: '\"GET\"', path: '\"/\"'}}");
        let params = format!("{{subject: {{user: 'source.user | \"\"'}}, action: {action}}}");
        resource(
            "instance",
            "who",
            "istio-system",
            &format!("{{compiledTemplate: authorization, params: {params}}}"),
        )
    };
    let ask = |condition: &str, namespace: &str| {
        let rule = format!("{{match: '{condition}', actions: [{{handler: roles, instances: [who]}}]}}");
        [
            resource("handler", "roles", "istio-system", "{compiledAdapter: rbac}"),
            resource("rule", "ask", "istio-system", &rule),
            who(namespace),
        ]
        .join("---\n")
    };
    let role = resource("ServiceRole", "reader", "shop", "{rules: [{services: [\"*\"], methods: [\"*\"]}]}");
    let of = |text: String| format!("apiVersion: rbac.istio.io/v1alpha1\n{text}");
    let binding = |users: &str| {
        let spec = format!("{{subjects: [{users}], roleRef: {{kind: ServiceRole, name: reader}}}}");
        of(resource("ServiceRoleBinding", "readers", "shop", &spec))
    };
    let inbound = "context.reporter.kind == \"inbound\"";
    for (condition, namespace, waits) in [
        ("true", "\"shop\"", true),
        ("true", "destination.service.namespace | \"shop\"", true),
        // Those of requests of clients are chosen by the namespace of the caller.
        ("true", "destination.namespace", true),
        (inbound, "\"shop\"", true),
        (inbound, "destination.namespace", true),
    ] {
        let asks = ask(condition, namespace);
        let role = of(role.clone());
        let (stage, kept) = edited(&[
            ("a", asks.clone(), asks),
            ("b", role.clone(), role),
            ("c", binding("{user: ann}"), binding("{user: ann}, {user: eve}")),
            ("d", NONE.to_owned(), faulty("newone", "web", USER)),
        ]);
        let is_kept = kept.iter().any(|key| key == "readers.ServiceRoleBinding.shop");
        assert_eq!(is_kept, waits, "{condition}, {namespace}: {kept:?}");
        if waits && namespace != "destination.namespace" {
            let eve = ["source.user", "destination.namespace", "context.reporter.kind"];
            let eve = eve.into_iter().zip(["eve", "web", "inbound"]);
            assert_eq!(stage.check_with(eve), Answer::Denied, "{condition}, {namespace}");
        }
    }
}

/// A request of Envoy that names no namespace is refused as long as one of them has rules.
#[test]
fn the_last_rule_of_a_namespace_waits_for_what_is_to_refuse_requests_without_one() {
    let bridge = resource("envoybridge", "b", "istio-system", "{}");
    let shop = rule("shop", "shop", "request.path == \"/shop\"");
    let trial =
        shop.replace("namespace: shop}", "namespace: shop, annotations: {mixer.dev/dry-run: \"true\"}}");
    let admin = "request.path == \"/admin\"";
    let admin_after_old = (
        "d",
        rule("no-admin", "istio-system", "request.path == \"/old\""),
        faulty("no-admin", "istio-system", admin),
    );
    for other in [("d", NONE.to_owned(), faulty("no-admin", "istio-system", admin)), admin_after_old] {
        let base = ("a", bridge.clone(), bridge.clone());
        let change = ("b", shop.clone(), trial.clone());
        let (_, kept) = edited(&[base.clone(), change.clone(), other.clone()]);
        assert!(kept.iter().any(|key| key == "shop.rule.shop"), "{kept:?}");
        // Another rule of that namespace stays, and what has an error is to refuse requests to another one.
        let till = rule("till", "shop", "request.path == \"/till\"");
        let web = ("d", NONE.to_owned(), faulty("web", "web", admin));
        let (_, kept) = edited(&[base.clone(), change.clone(), web.clone()]);
        assert!(kept.iter().any(|key| key == "shop.rule.shop"), "{kept:?}");
        let (_, kept) = edited(&[base, change, ("c", till.clone(), till), web]);
        assert!(!kept.iter().any(|key| key == "shop.rule.shop"), "{kept:?}");
    }
    // The first rule of a namespace has an error: what refused some of those requests until now waits.
    let (_, kept) = edited(&[
        ("a", bridge.clone(), bridge),
        ("b", rule("old", "istio-system", admin), NONE.to_owned()),
        ("d", NONE.to_owned(), faulty("shop", "shop", "request.path == \"/shop\"")),
    ]);
    assert_eq!(kept, ["old.rule.istio-system"]);
}

/// Requests that no rule charges although one may be meant to are refused. A further rule charges them.
#[test]
fn a_new_rule_that_charges_a_quota_waits() {
    let limits = "{quotas: [{name: rc.instance.istio-system, maxAmount: 9, validDuration: 60s}]}";
    let charge = |name: &str, condition: &str| {
        resource(
            "rule",
            name,
            "istio-system",
            &format!("{{match: '{condition}', actions: [{{handler: lim, instances: [rc]}}]}}"),
        )
    };
    let parts = [
        resource(
            "handler",
            "lim",
            "istio-system",
            &format!("{{compiledAdapter: memquota, params: {limits}}}"),
        ),
        resource(
            "instance",
            "rc",
            "istio-system",
            "{compiledTemplate: quota, params: {dimensions: {a: '\"x\"'}}}",
        ),
        resource(
            "envoybridge",
            "b",
            "istio-system",
            "{check: {quotaSpec: [{rules: [{quotas: [{quota: rc, charge: 1}]}]}]}}",
        ),
    ];
    let parts = parts.join("---\n");
    let first = charge("first", "source.namespace != \"ops\"");
    let base = ("a", parts.clone(), parts);
    let new = ("d", NONE.to_owned(), faulty("no-admin", "istio-system", "request.path == \"/admin\""));
    let rest = charge("second", "true");
    let (stage, _) = edited(&[
        base.clone(),
        ("b", first.clone(), first.clone()),
        ("c", NONE.to_owned(), rest),
        new.clone(),
    ]);
    assert!(!serves(&stage, "second.rule.istio-system"), "{:?}", stage.kept());
    // So does a rule whose condition fails no longer.
    let (_, kept) = edited(&[
        base.clone(),
        ("b", first.clone(), charge("first", "(source.namespace | \"\") != \"ops\"")),
        new,
    ]);
    assert_eq!(kept, ["first.rule.istio-system"]);
    // Without an error nothing waits.
    let (stage, kept) =
        edited(&[base, ("b", first.clone(), first), ("c", NONE.to_owned(), charge("second", "true"))]);
    assert!(serves(&stage, "second.rule.istio-system") && kept.is_empty(), "{kept:?}");
}

/// A configuration in which rules of several namespaces, types of attributes, and roles refuse; each document has a file and a version.
#[derive(Clone)]
struct Versions([usize; DOCUMENTS]);

const RULES: usize = 4;
/// A manifest, a role binding, an instance and a rule that asks for roles, and other rules.
const DOCUMENTS: usize = 4 + RULES;

impl Versions {
    fn any(random: &mut Random) -> Self {
        Self(std::array::from_fn(|_| random.below(24)))
    }

    /// Some documents change.
    fn edited(&self, random: &mut Random) -> Self {
        let mut next = self.clone();
        for _ in 0..1 + random.below(3) {
            next.0[random.below(DOCUMENTS)] = random.below(24);
        }
        next
    }

    fn text(&self, document: usize) -> String {
        let version = self.0[document];
        match document {
            0 => {
                let of = ["STRING", "EMAIL_ADDRESS", "STRING"][version % 3];
                let declared = format!("{{valueType: {of}}}");
                let spec = format!("{{attributes: {{request.a: {declared}, request.b: {declared}}}}}");
                resource("attributemanifest", "mm", "istio-system", &spec)
            }
            1 => {
                let users = ["{user: ann}", "{user: ann}, {user: eve}", "{user: eve}"][version % 3];
                let spec = format!("{{subjects: [{users}], roleRef: {{kind: ServiceRole, name: reader}}}}");
                "apiVersion: rbac.istio.io/v1alpha1\n".to_owned()
                    + &resource("ServiceRoleBinding", "readers", "shop", &spec)
            }
            2 => {
                let namespace = ["\"shop\"", "destination.namespace | \"shop\""][version % 2];
                let action = format!(
                    "{{namespace: '{namespace}', service: '\"s\"', method: '\"GET\"', path: '\"/\"'}}"
                );
                let params = format!("{{subject: {{user: 'source.user | \"\"'}}, action: {action}}}");
                let spec = format!("{{compiledTemplate: authorization, params: {params}}}");
                resource("instance", "who", "istio-system", &spec)
            }
            3 => {
                let namespace = ["istio-system", "shop", "web"][version / 3 % 3];
                let condition = ["source.user == \"eve\"", "request.path == \"/admin\"", "true"][version % 3];
                let actions = "[{handler: roles.istio-system, instances: [who.istio-system]}]";
                resource("rule", "ask", namespace, &format!("{{match: '{condition}', actions: {actions}}}"))
            }
            _ if version >= 18 => NONE.to_owned(),
            _ => {
                let namespace = ["istio-system", "shop", "web"][version / 3 % 3];
                let condition = match version % 3 {
                    0 => "source.user == \"eve\"",
                    1 => "request.path == \"/admin\"",
                    _ => "request.a == request.b",
                };
                let text = rule(&format!("r{document}"), namespace, condition);
                let head = format!("namespace: {namespace}}}");
                let trial = format!("namespace: {namespace}, annotations: {{mixer.dev/dry-run: \"true\"}}}}");
                if version >= 14 { text.replacen(&head, &trial, 1) } else { text }
            }
        }
    }

    /// A document that has one gets a mistake, or its file is empty.
    fn files(&self, mistaken: &[(usize, bool)]) -> Files {
        let mut files = Files::default();
        let roles = resource("handler", "roles", "istio-system", "{compiledAdapter: rbac}");
        let role = "apiVersion: rbac.istio.io/v1alpha1\n".to_owned()
            + &resource("ServiceRole", "reader", "shop", "{rules: [{services: [\"*\"], methods: [\"*\"]}]}");
        files.put("/conf/base.yaml", [MANIFEST, REFUSE, &roles, &role].join("---\n"));
        for document in 0..DOCUMENTS {
            let mut text = self.text(document);
            for (_, is_emptied) in mistaken.iter().filter(|(mistaken, _)| *mistaken == document) {
                for (right, wrong) in [
                    ("valueType", "valuType"),
                    ("subjects", "subjcts"),
                    ("source.user |", "sorce.user |"),
                    ("refuse.istio-system", "refusse.istio-system"),
                    ("roles.istio-system", "rules.istio-system"),
                ] {
                    text = text.replace(right, wrong);
                }
                if *is_emptied {
                    text = String::new();
                }
            }
            files.put(&format!("/conf/{document}.yaml"), text);
        }
        files
    }
}

/// The answers to some requests.
fn answers(stage: &Stage) -> Vec<(Vec<(&'static str, &'static str)>, Answer)> {
    let mut all = Vec::new();
    for user in ["ann", "eve"] {
        for (a, b) in [("x y", "x y"), ("x", "y"), ("a@b.c", "a@b.c")] {
            for path in ["/admin", "/"] {
                for namespace in [Some("shop"), Some("web"), None] {
                    let mut request = vec![
                        ("source.user", user),
                        ("request.a", a),
                        ("request.b", b),
                        ("request.path", path),
                    ];
                    request.extend(namespace.map(|namespace| ("destination.namespace", namespace)));
                    let answer = stage.check_with(request.iter().copied());
                    all.push((request, answer));
                }
            }
        }
    }
    all
}

/// What both configurations refuse is refused, and what both allow is allowed, whatever mistakes a change has.
#[test]
fn mistakes_beside_changes_of_everything_that_refuses_keep_the_law() {
    let changed = schedules::run(schedules::count(150), |seed, changed: &mut usize| {
        let mut random = Random(seed);
        let before = Versions::any(&mut random);
        let after = before.edited(&mut random);
        let mistaken: Vec<_> =
            (0..1 + random.below(2)).map(|_| (random.below(DOCUMENTS), random.below(5) == 0)).collect();
        let serving = |files: &Files| {
            let mut stage = Stage::new(OnConfigError::KeepLast, false);
            stage.start(files);
            stage
        };
        let meant = answers(&serving(&after.files(&[])));
        let mut stage = serving(&before.files(&[]));
        let good = answers(&stage);
        stage.change(&after.files(&mistaken));
        *changed += usize::from(good.iter().zip(&meant).any(|(good, meant)| good != meant));
        for ((request, good), ((_, meant), (_, now))) in
            good.into_iter().zip(meant.into_iter().zip(answers(&stage)))
        {
            let texts = || (0..DOCUMENTS).map(|i| format!("{} => {}", before.text(i), after.text(i)));
            assert!(
                good != meant || now == good,
                "seed {seed}: {request:?} is {now:?}, before and as meant {good:?}; mistakes {mistaken:?}; kept {:#?}; {:#?}",
                stage.kept(),
                texts().collect::<Vec<_>>()
            );
        }
    });
    assert!(changed.iter().sum::<usize>() > 30, "{changed:?}");
}
