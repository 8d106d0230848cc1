//! What is kept in its previous version, how long, and what is said of it.

use mixer_config::Severity;
use mixer_engine::runtime::OnConfigError;

use crate::refusal::{BESIDE, HANDLER, INSTANCE, REPORTING, RULE, deny, good};
use crate::stage::{Answer, Files, Stage};

#[test]
fn a_kept_resource_says_since_when_and_why() {
    let mut stage = Stage::new(OnConfigError::KeepLast, false);
    stage.start(&good());
    let mut files = good();
    files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, &RULE.replace("closed-list", "closed-lsit")]));
    stage.advance(5);
    stage.change(&files);
    let kept = |stage: &Stage| {
        let published = stage.published();
        let found = published.diagnostics.iter().filter(|d| d.code == "config-kept");
        found.map(|d| d.message.clone()).collect::<Vec<_>>()
    };
    let text = "the previous version of no-bob.rule.istio-system serves, since 2023-11-14T22:13:25.000000Z, because \
                its new version has an error: Handler not found: handler='closed-lsit'";
    assert_eq!(kept(&stage), [text]);
    let published = stage.published();
    let position = published.diagnostics.iter().find(|problem| problem.code == "config-kept");
    let position =
        position.map(|p| (p.file.as_deref().unwrap_or_default(), p.span.map(|span| span.start.line)));
    assert_eq!(position, Some(("/conf/deny.yaml", Some(11))), "where to mend it");
    drop(published);
    // The time stays while another change is applied.
    stage.advance(60);
    files.put("/conf/beside.yaml", BESIDE);
    stage.change(&files);
    assert_eq!(kept(&stage), [text]);
    let codes: Vec<&str> = stage.published().diagnostics.iter().map(|d| d.code).collect();
    assert_eq!(
        codes,
        ["rule-empty", "handler-unknown", "config-kept"],
        "as `validate` says, and the kept rule"
    );
}

#[test]
fn a_handler_that_a_rule_needs_is_kept_with_its_state() {
    let mut stage = Stage::new(OnConfigError::KeepLast, false);
    stage.start(&good());
    let live = || stage.published().routes.handlers().iter().map(std::sync::Arc::as_ptr).collect::<Vec<_>>();
    let before = live();
    let mut files = good();
    files.put("/conf/deny.yaml", [INSTANCE, RULE].join("---\n"));
    stage.change(&files);
    assert_eq!(stage.kept(), ["closed-list.handler.istio-system: no-bob.rule.istio-system names it"]);
    let after: Vec<_> = stage.published().routes.handlers().iter().map(std::sync::Arc::as_ptr).collect();
    assert_eq!(after, before, "the live handler is the same");
    // Without the rule nothing needs it.
    files.put("/conf/deny.yaml", INSTANCE);
    stage.change(&files);
    assert_eq!((stage.kept(), stage.check("bob")), (Vec::new(), Answer::Allowed));
}

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
    // A rule that uses the same parts as before takes nothing back: the new entry is refused.
    let (kept, answers) = edited(
        &before,
        &with(sends("r1", "requst.method == \"GET\"", "l1", "who"), "mallory, eve"),
        ["mallory", "eve", "carl"],
    );
    assert_eq!((kept, answers), (vec!["r1".to_owned()], [Answer::Denied, Answer::Denied, Answer::Allowed]));
    // Neither does a misspelt name.
    let (kept, answers) =
        edited(&before, &with(sends("r1", "true", "l1x", "who"), "mallory, eve"), ["mallory", "eve", "carl"]);
    assert_eq!((kept, answers), (vec!["r1".to_owned()], [Answer::Denied, Answer::Denied, Answer::Allowed]));
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

#[test]
fn nothing_is_deleted_while_a_file_is_empty() {
    let mut stage = Stage::new(OnConfigError::KeepLast, false);
    stage.start(&good());
    // The disk was full when the rule was pasted into another file, and it was cut from its own.
    let mut files = good();
    files.put("/conf/moved.yaml", "");
    stage.change(&files);
    files.put("/conf/deny.yaml", [HANDLER, INSTANCE].join("---\n"));
    stage.change(&files);
    let why = "no-bob.rule.istio-system: it is gone, and what may have it now is not read: /conf/moved.yaml: the \
               file is empty";
    assert_eq!((stage.check("bob"), stage.kept()), (Answer::Denied, vec![why.to_owned()]));
    files.put("/conf/moved.yaml", "# The rule is deleted.\n");
    stage.change(&files);
    assert_eq!((stage.check("bob"), stage.kept()), (Answer::Allowed, Vec::new()));
}

/// The limits of a domain, as envoyproxy/ratelimit writes them.
const LIMITS: &str = "domain: shop
descriptors: [{key: user, rate_limit: {unit: hour, requests_per_unit: 1}}]
";

#[test]
fn a_lost_separator_before_a_file_of_rate_limits_deletes_no_limit() {
    for parts in [[RULE, LIMITS], [LIMITS, RULE]] {
        let mut stage = Stage::new(OnConfigError::KeepLast, false);
        let mut before = good();
        before.put("/conf/deny.yaml", [HANDLER, INSTANCE].join("---\n"));
        before.put("/conf/limits.yaml", parts.join("---\n"));
        stage.start(&before);
        assert_eq!((stage.kept(), stage.published().diagnostics.as_slice()), (Vec::new(), &[][..]));
        let mut files = before.clone();
        files.put("/conf/limits.yaml", parts.concat());
        stage.change(&files);
        let kept = stage.kept();
        let names: Vec<&str> = kept.iter().map(|kept| kept.split(':').next().unwrap_or_default()).collect();
        assert_eq!(names, ["shop.ratelimit.ratelimit", "no-bob.rule.istio-system"], "{kept:?}");
        assert!(
            kept[0].contains("it is gone from a file with an error: no-bob.rule.istio-system has an error: ")
        );
        // It stays through other changes, and is deleted once the file has no error.
        files.put("/conf/beside.yaml", BESIDE);
        stage.change(&files);
        assert_eq!((stage.kept().len(), stage.check("carol")), (2, Answer::Denied));
        files.put("/conf/limits.yaml", RULE);
        stage.change(&files);
        assert_eq!((stage.kept(), stage.check("bob")), (Vec::new(), Answer::Denied));
    }
}

#[test]
fn lines_lost_between_two_rules_delete_neither() {
    let two = "kind: rule
metadata: {name: a-log, namespace: istio-system}
spec:
  actions:
  - handler: log
    instances: [line]
---
kind: rule
metadata: {name: no-bob, namespace: istio-system}
spec:
  match: source.user == \"bob\"
  actions:
  - handler: closed-list
    instances: [user]
";
    let (head, rest) = two.split_once("    instances: [line]").expect("it has both");
    let (_, tail) = rest.split_once("  - handler").expect("it has both");
    let mut stage = Stage::new(OnConfigError::KeepLast, false);
    let mut before = good();
    before.put("/conf/deny.yaml", [HANDLER, INSTANCE].join("---\n"));
    before.put("/conf/report.yaml", REPORTING);
    before.put("/conf/rules.yaml", two);
    stage.start(&before);
    assert_eq!((stage.check("bob"), stage.kept()), (Answer::Denied, Vec::new()));
    let mut files = before.clone();
    files.put("/conf/rules.yaml", format!("{head}  - handler{tail}"));
    stage.change(&files);
    assert_eq!(stage.check("bob"), Answer::Denied, "{:?}", stage.kept());
    assert_eq!(stage.kept().len(), 2, "{:?}", stage.kept());
    // Elsewhere, deletions take effect: what has the error is known.
    files.put("/conf/beside.yaml", BESIDE);
    stage.change(&files);
    assert_eq!(stage.check("carol"), Answer::Denied);
    files.remove("/conf/beside.yaml");
    stage.change(&files);
    assert_eq!((stage.check("carol"), stage.check("bob")), (Answer::Allowed, Answer::Denied));
}

#[test]
fn a_rule_that_moves_into_a_file_that_is_being_written_stays() {
    for policy in [OnConfigError::KeepLast, OnConfigError::Refuse] {
        let mut stage = Stage::new(policy, false);
        let mut files = good();
        files.put("/conf/target.yaml", "# Nothing yet.\n");
        stage.start(&files);
        // The writer of the target is slow; the rule is gone from its old file already.
        files.changing.push("/conf/target.yaml".to_owned());
        files.put("/conf/target.yaml", RULE);
        files.put("/conf/deny.yaml", [HANDLER, INSTANCE].join("---\n"));
        files.put("/conf/beside.yaml", BESIDE);
        stage.change(&files);
        let why = "no-bob.rule.istio-system: it is gone, perhaps moved: /conf/target.yaml is being changed";
        assert_eq!((stage.check("bob"), stage.kept()), (Answer::Denied, vec![why.to_owned()]), "{policy:?}");
        assert_eq!(stage.check("carol"), Answer::Denied, "other changes apply");
        // It is in the target.
        let mut closed = files.clone();
        closed.changing.clear();
        stage.change(&closed);
        assert_eq!((stage.check("bob"), stage.kept()), (Answer::Denied, Vec::new()));
        // It is not: it was deleted, and the file that was written is as it was.
        let mut before = good();
        before.put("/conf/target.yaml", "# Nothing yet.\n");
        stage.start(&before);
        files.put("/conf/target.yaml", "# Nothing yet.\n");
        stage.change(&files);
        assert_eq!(stage.check("bob"), Answer::Denied);
        files.changing.clear();
        stage.change(&files);
        assert_eq!((stage.check("bob"), stage.kept()), (Answer::Allowed, Vec::new()), "{policy:?}");
    }
}

#[test]
fn a_rule_that_was_moved_with_a_mistake_stays_when_its_new_file_is_emptied() {
    for mistake in [("closed-list", "closed-lsit"), ("spec: {", "spec: {{"), ("kind: rule", "knd: rule")] {
        let mut stage = Stage::new(OnConfigError::KeepLast, true);
        stage.start(&good());
        let mut files = good();
        files.put("/conf/deny.yaml", [HANDLER, INSTANCE].join("---\n"));
        files.put("/conf/moved.yaml", RULE.replace(mistake.0, mistake.1));
        stage.change(&files);
        files.put("/conf/moved.yaml", "");
        stage.change(&files);
        assert_eq!(stage.check("bob"), Answer::Denied, "{mistake:?}: {:?}", stage.kept());
        stage.start(&files);
        assert_eq!(stage.check("bob"), Answer::Denied, "restarted, {mistake:?}: {:?}", stage.kept());
    }
}

#[test]
fn a_rule_that_moves_into_a_file_that_is_not_read_stays() {
    let mut stage = Stage::new(OnConfigError::KeepLast, false);
    stage.start(&good());
    // Pasted into a file that another document breaks, the rule still serves from its own file.
    let mut files = good();
    files.put("/conf/all.yaml", "kind: {rule\n---\nkind: {rule\n".to_owned() + RULE);
    stage.change(&files);
    assert_eq!(stage.check("bob"), Answer::Denied);
    files.put("/conf/deny.yaml", [HANDLER, INSTANCE].join("---\n"));
    stage.change(&files);
    assert_eq!(stage.check("bob"), Answer::Denied);
    // It stays through other changes until the file is read.
    files.put("/conf/beside.yaml", BESIDE);
    stage.change(&files);
    assert_eq!((stage.check("bob"), stage.check("carol")), (Answer::Denied, Answer::Denied));
    files.put("/conf/all.yaml", RULE);
    stage.change(&files);
    assert_eq!((stage.check("bob"), stage.kept()), (Answer::Denied, Vec::new()));
}

#[test]
fn a_cause_that_concerns_many_resources_is_reported_once() {
    let reported = |stage: &Stage| -> Vec<(String, String)> {
        let found = stage.published();
        let found = found.diagnostics.iter().filter(|problem| problem.code == "config-kept");
        found.map(|d| (d.file.as_deref().unwrap_or_default().to_owned(), d.message.clone())).collect()
    };
    let mut stage = Stage::new(OnConfigError::KeepLast, true);
    stage.start(&good());
    stage.stop();
    stage.start(&Files { lost: true, ..Files::default() });
    assert_eq!(stage.check("bob"), Answer::Denied);
    let text = "4 resources serve in their previous version, since 2023-11-14T22:13:20.000000Z: open /conf: permission denied \
                (words.attributemanifest.istio-system, closed-list.handler.istio-system, user.instance.istio-system and 1 more)";
    assert_eq!(reported(&stage), [("/conf".to_owned(), text.to_owned())]);
    // One file.
    let mut stage = Stage::new(OnConfigError::KeepLast, false);
    stage.start(&good());
    let mut files = good();
    files.put("/conf/deny.yaml", "kind: {rule");
    stage.change(&files);
    let found = reported(&stage);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].1.starts_with("3 resources serve in their previous version"), "{found:?}");
    assert!(found[0].1.contains(": /conf/deny.yaml:"), "{found:?}");
}

/// Kinds that clusters have beside Mixer's stay those of their programs.
#[test]
fn resources_of_other_programs_are_no_mistake() {
    const OTHERS: &str = "ConfigMap CronJob DaemonSet Deployment Endpoints Event HorizontalPodAutoscaler Ingress Job Lease Namespace \
        Node Pod PodDisruptionBudget Policy ReplicaSet Role RoleBinding Secret Service ServiceAccount StatefulSet StorageClass \
        AuthorizationPolicy DestinationRule EnvoyFilter Gateway HTTPRoute PeerAuthentication RequestAuthentication ServiceEntry \
        Sidecar Telemetry VirtualService WorkloadEntry Certificate Issuer Prometheus PrometheusRule ServiceMonitor Template \
        DBInstance VMInstance Rules Ruler Handlers RateLimiter Instance Handler Rule RateLimit Listener Application Rollout Workflow Kustomization HelmRelease ConstraintTemplate";
    let mut files = good();
    let document = |kind: &str| {
        format!(
            "apiVersion: other.example.com/v1\nkind: {kind}\nmetadata: {{name: n, namespace: x}}\nspec: {{a: b}}\n"
        )
    };
    let texts: Vec<String> = OTHERS.split_whitespace().map(document).collect();
    files.put("/conf/others.yaml", texts.join("---\n"));
    let mut stage = Stage::new(OnConfigError::KeepLast, false);
    stage.start(&files);
    let errors = stage.published().problems(Severity::Error);
    assert_eq!((errors, stage.check("bob")), (0, Answer::Denied), "{:?}", stage.published().diagnostics);
}

/// The store still has what it read before.
#[test]
fn what_can_no_longer_be_read_is_kept_as_after_a_restart() {
    let reported = |stage: &Stage| -> Vec<(String, String)> {
        let found = stage.published();
        let found = found.diagnostics.iter().filter(|problem| problem.code == "config-kept");
        found.map(|d| (d.file.as_deref().unwrap_or_default().to_owned(), d.message.clone())).collect()
    };
    let unreadable = |path: &str| {
        let mut files = good();
        files.put("/conf/beside.yaml", BESIDE);
        files.unreadable.push(path.to_owned());
        files
    };
    let lost = Files { lost: true, ..unreadable("") };
    for (path, files, count) in [("/conf/deny.yaml", unreadable("/conf/deny.yaml"), 3), ("/conf", lost, 7)] {
        for policy in OnConfigError::ALL {
            let mut stage = Stage::new(policy, policy != OnConfigError::ServeValid);
            let mut before = good();
            before.put("/conf/beside.yaml", BESIDE);
            stage.start(&before);
            stage.advance(5);
            stage.change(&files);
            assert_eq!(stage.check("bob"), Answer::Denied, "{policy:?} {path}");
            let kept = stage.kept();
            assert_eq!(kept.len(), count, "{policy:?} {path}: {kept:?}");
            let why = format!("its file cannot be read: open {path}: permission denied");
            assert!(kept.iter().all(|kept| kept.ends_with(&why)), "{policy:?} {path}: {kept:?}");
            let running = reported(&stage);
            let text = format!(
                "{count} resources serve in their previous version, since 2023-11-14T22:13:25.000000Z: open {path}: \
                 permission denied ("
            );
            assert!(running.len() == 1 && running[0].0 == path, "{policy:?} {path}: {running:?}");
            assert!(running[0].1.starts_with(&text), "{policy:?} {path}: {running:?}");
            if policy == OnConfigError::KeepLast {
                stage.advance(60);
                stage.stop();
                stage.start(&files);
                assert_eq!(reported(&stage), running, "{path}: after a restart with the cache");
            }
            stage.change(&before);
            assert_eq!((stage.kept(), reported(&stage)), (Vec::new(), Vec::new()), "{policy:?} {path}");
        }
    }
}

#[test]
fn the_time_since_when_a_resource_is_kept_survives_restarts() {
    let mut stage = Stage::new(OnConfigError::KeepLast, true);
    stage.start(&good());
    let mut files = good();
    files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, &RULE.replace("closed-list", "closed-lsit")]));
    stage.advance(5);
    stage.change(&files);
    let since = |stage: &Stage| {
        let published = stage.published();
        published.kept.iter().map(|kept| kept.since.rfc3339_micros().to_string()).collect::<Vec<_>>()
    };
    let first = since(&stage);
    assert_eq!(first, ["2023-11-14T22:13:25.000000Z"]);
    for _ in 0..2 {
        stage.advance(60);
        stage.stop();
        stage.start(&files);
        assert_eq!(since(&stage), first);
    }
    // Mended and broken again, it is another time.
    stage.change(&good());
    stage.change(&files);
    assert_eq!(since(&stage), ["2023-11-14T22:15:25.000000Z"]);
}

/// Names that others share with this program make their resources none of its own.
#[test]
fn resources_of_other_programs_may_resemble_ours() {
    for (kind, metadata, spec) in [
        ("Deployment", "annotations: {mixer.dev/team: a}", "a: b"),
        ("ConfigMap", "annotations: {mixer.dev/part-of: shop}, labels: {mixer.dev/part-of: shop}", "a: b"),
        ("Webhook", "labels: {app: a}", "actions: [{handler: notify}]"),
        ("Schema", "labels: {app: a}", "attributes: {width: {valueType: number}}"),
    ] {
        let mut files = good();
        files.put(
            "/conf/others.yaml",
            format!(
                "apiVersion: other.example.com/v1\nkind: {kind}\nmetadata: {{name: n, namespace: x, {metadata}}}\nspec: {{{spec}}}\n"
            ),
        );
        let mut stage = Stage::new(OnConfigError::KeepLast, false);
        stage.start(&files);
        let errors = stage.published().problems(Severity::Error);
        assert_eq!(
            (errors, stage.check("bob")),
            (0, Answer::Denied),
            "{kind}: {:?}",
            stage.published().diagnostics
        );
    }
    // Nor do their annotations and labels on a resource of this program.
    for metadata in [
        "annotations: {error: x, fault: y}",
        "annotations: {mixer.example.com/default-team: a}",
        "labels: {mixer.dev/part-of: shop}",
    ] {
        let mut files = good();
        files.put(
            "/conf/deny.yaml",
            deny([HANDLER, INSTANCE, &RULE.replace("istio-system}", &format!("istio-system, {metadata}}}"))]),
        );
        let mut stage = Stage::new(OnConfigError::KeepLast, false);
        stage.start(&files);
        let errors = stage.published().problems(Severity::Error);
        assert_eq!((errors, stage.check("bob")), (0, Answer::Denied), "{metadata}");
    }
}

/// In the domain of another program, what can only be one of ours with a mistake is an error.
#[test]
fn what_resembles_only_ours_is_a_mistake_in_any_group() {
    let ruel = format!("apiVersion: other.example.com/v1\n{}", RULE.replace("kind: rule", "kind: Ruel"));
    let of_kind = |group: &str, kind: &str| {
        format!("apiVersion: {group}/v1\nkind: {kind}\nmetadata: {{name: n, namespace: x}}\nspec: {{a: b}}\n")
    };
    for text in [
        ruel,
        of_kind("security.istio.io", "Ruel"),
        of_kind("istio.io", "Ruel"),
        of_kind("other.example.com", "ruel"),
        of_kind("other.example.com", "AttributeManifests"),
    ] {
        let mut files = good();
        files.put("/conf/others.yaml", &*text);
        let mut stage = Stage::new(OnConfigError::KeepLast, false);
        stage.start(&files);
        let published = stage.published();
        let codes: Vec<&str> = published.diagnostics.iter().map(|problem| problem.code).collect();
        assert!(
            codes.contains(&"kind-unknown") && published.problems(Severity::Error) > 0,
            "{text}: {codes:?}"
        );
        assert!(published.withheld.is_some(), "{text}");
    }
}
