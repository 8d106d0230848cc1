//! What is kept in its previous version, how long, and what is said of it.

use mixer_config::Severity;
use mixer_engine::runtime::OnConfigError;

use crate::refusal::{BESIDE, HANDLER, INSTANCE, MANIFEST, REPORTING, RULE, deny, good};
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
    // Elsewhere, what is refused from now on is refused. A deletion waits: nobody knows what the rule that is missing is to refuse.
    files.put("/conf/beside.yaml", BESIDE);
    stage.change(&files);
    assert_eq!(stage.check("carol"), Answer::Denied);
    files.remove("/conf/beside.yaml");
    stage.change(&files);
    assert_eq!((stage.check("carol"), stage.check("bob")), (Answer::Denied, Answer::Denied));
    files.put("/conf/rules.yaml", two);
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
        let is_applied = policy == OnConfigError::KeepLast;
        let carol = if is_applied { Answer::Denied } else { Answer::Allowed };
        assert_eq!(stage.check("carol"), carol, "other changes apply, but with refuse");
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
fn a_new_rule_that_waits_for_a_writer_serves_once_the_file_is_closed_as_it_was() {
    let mut stage = Stage::new(OnConfigError::KeepLast, false);
    let mut files = Files::default();
    files.put("/conf/words.yaml", MANIFEST);
    files.put("/conf/parts.yaml", [HANDLER, INSTANCE].join("---\n"));
    stage.start(&files);
    // The rule uses parts whose next version nobody knows.
    files.put("/conf/rule.yaml", RULE);
    files.changing.push("/conf/parts.yaml".to_owned());
    stage.change(&files);
    assert_eq!(stage.kept(), Vec::<String>::new(), "only what is new waits");
    files.changing.clear();
    stage.change(&files);
    assert_eq!(stage.check("bob"), Answer::Denied, "{:?}", stage.published().diagnostics);
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
