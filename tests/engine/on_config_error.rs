//! What serves after each mistake, in each mode of `--config-on-error`: the tables of docs/configuration.md, cell by cell.

use std::collections::BTreeSet;

use mixer_config::Severity;
use mixer_engine::runtime::{OnConfigError, is_about_serving};
use mixer_engine::snapshot::{ActionConfig, Condition};

use crate::mistakes::{CONTRADICTION, EDITS, Row, STARTS, in_group, on_address};
use crate::refill::QUIET;
use crate::refusal::{BESIDE, HANDLER, INSTANCE, MODES, RULE, deny, good};
use crate::stage::{Answer, Files, Stage};

/// The rows of the table of docs/configuration.md below a marker.
pub(crate) fn table(marker: &str) -> Vec<Vec<String>> {
    let text = include_str!("../../docs/configuration.md");
    let start = text.find(marker).unwrap_or_else(|| panic!("docs/configuration.md has no {marker}"));
    let lines = text[start..].lines().skip_while(|line| !line.starts_with('|'));
    let rows = lines.take_while(|line| line.starts_with('|')).skip(2);
    rows.map(|row| row.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()).collect()
}

/// Compares every cell with what the engine does.
fn compare(marker: &str, rows: &[Row], columns: usize, outcome: impl Fn(&Row, usize) -> String) {
    let table = table(marker);
    let named: BTreeSet<&str> = table.iter().map(|row| row[0].as_str()).collect();
    assert_eq!(named, rows.iter().map(|row| row.0).collect(), "the rows of the table {marker}");
    let mut differences = Vec::new();
    for row in rows {
        let cells = table.iter().find(|cells| cells[0] == row.0).expect("compared above");
        assert_eq!(cells.len(), columns + 1, "{}", row.0);
        for (column, cell) in cells[1..].iter().enumerate() {
            let found = outcome(row, column);
            if found != *cell {
                differences.push(format!("{}, column {}: {found}, documented: {cell}", row.0, column + 1));
            }
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// Default namespaces: one is not a single label.
const NAMESPACES: [&str; 2] = ["istio-system", "a.b"];

#[test]
fn each_mistake_has_the_documented_consequence() {
    for namespace in NAMESPACES {
        compare_edits(namespace);
    }
}

fn compare_edits(namespace: &str) {
    compare("<!-- on-error: edits -->", EDITS, MODES.len(), |(name, edit), column| {
        let mut stage = Stage::new(MODES[column], false);
        stage.namespace = namespace.to_owned();
        stage.start(&good());
        assert_eq!((stage.check("ann"), stage.check("bob")), (Answer::Allowed, Answer::Denied), "{name}");
        let mut files = good();
        files.put("/conf/beside.yaml", BESIDE);
        let beside = files.clone();
        edit(&mut files);
        stage.change(&files);
        assert_eq!(stage.check("ann"), Answer::Allowed, "{name}: nobody else is affected");
        let applied = stage.published().routes.snapshot().rules.iter().any(|r| &*r.key.name == "no-carol");
        // The rule is as it was, and calls a handler.
        let published = stage.published();
        let acts = published.routes.snapshot().rules.iter().any(|rule| {
            let is_live = |action: &ActionConfig| published.routes.handlers().get(&action.handler.key).is_some();
            let is_same = matches!(&rule.condition, Condition::When(program) if program.text() == "source.user == \"bob\"");
            &*rule.key.name == "no-bob" && is_same && rule.actions.iter().any(is_live)
        });
        let found = match (stage.check("bob"), applied) {
            (Answer::Denied, true) => "previous version",
            (Answer::Denied, false) => "previous configuration",
            (Answer::Allowed, true) if acts => "without the parameter",
            (Answer::Allowed, _) => "without it",
            _ => "UNAVAILABLE",
        };
        // Mended, it serves as written.
        stage.change(&beside);
        assert_eq!((stage.check("bob"), stage.check("carol")), (Answer::Denied, Answer::Denied), "{name}");
        assert_eq!((stage.kept(), stage.published().diagnostics.len()), (Vec::new(), 0), "{name}");
        found.to_owned()
    });
}

#[test]
fn each_start_has_the_documented_consequence() {
    for namespace in NAMESPACES {
        compare_starts(namespace, None);
    }
}

#[test]
fn a_cache_without_resources_is_none_unless_that_is_meant() {
    let unknown = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: app, namespace: istio-system}\n";
    let ignored =
        Files { texts: [("/conf/app.yaml".to_owned(), unknown.to_owned())].into(), ..Files::default() };
    for nothing in [Files::default(), ignored] {
        compare_starts("istio-system", Some(&nothing));
        for (policy, allow_empty) in [
            (OnConfigError::KeepLast, false),
            (OnConfigError::KeepLast, true),
            (OnConfigError::ServeValid, false),
        ] {
            let mut stage = Stage::new(policy, true);
            stage.allow_empty = true;
            stage.start(&nothing);
            stage.stop();
            stage.allow_empty = allow_empty;
            stage.start(&Files { lost: true, ..Files::default() });
            let is_meant = allow_empty || policy == OnConfigError::ServeValid;
            let expected = if is_meant { Answer::Allowed } else { Answer::Unavailable };
            assert_eq!(stage.check("bob"), expected, "{policy:?} {allow_empty}");
            let trouble = "the configuration cache cache is ignored: it has no resource, which is a configuration only with \
                           --allow-empty-config";
            let told = stage.published().cache_trouble.clone();
            assert_eq!(told.as_deref(), (!is_meant).then_some(trouble), "{policy:?} {allow_empty}");
            // What serves next is kept.
            stage.change(&good());
            stage.pass(QUIET);
            assert_eq!(stage.published().cache_trouble, None);
            stage.start(&Files { lost: true, ..Files::default() });
            if policy != OnConfigError::ServeValid {
                assert_eq!(stage.check("bob"), Answer::Denied, "{allow_empty}");
            }
        }
    }
}

/// With `nothing`, the first columns are with a cache, of a server that was given `--allow-empty-config` and served these files.
fn compare_starts(namespace: &str, nothing: Option<&Files>) {
    compare("<!-- on-error: starts -->", STARTS, MODES.len() + 1, |(name, edit), column| {
        // The last column is keep-last with a cache.
        let mode = MODES.get(column).copied().unwrap_or_default();
        let mut stage = Stage::new(mode, column == MODES.len() || nothing.is_some());
        stage.namespace = namespace.to_owned();
        let mut before = good();
        before.put("/conf/beside.yaml", BESIDE);
        if column == MODES.len() {
            stage.start(&before);
            stage.stop();
        } else if let Some(nothing) = nothing.filter(|_| !name.contains("--allow-empty-config")) {
            stage.allow_empty = true;
            stage.start(nothing);
            assert_eq!(stage.check("bob"), Answer::Allowed);
            stage.stop();
            assert!(stage.cache.bytes.lock().is_some(), "it is written");
        }
        stage.allow_empty = name.contains("--allow-empty-config");
        let is_misnamed = name.contains("--config-default-namespace");
        stage.named_namespace = is_misnamed.then(|| "istio-sytem".to_owned());
        let mut files = good();
        edit(&mut files);
        stage.start(&files);
        if column == MODES.len() {
            // What the cache has and the store lacks is expected for some time.
            stage.pass(QUIET);
        }
        let withheld = stage.published().withheld.is_some();
        let found = match (stage.check("ann"), stage.check("bob"), stage.check("carol")) {
            (Answer::Unavailable, Answer::Unavailable, _) => "UNAVAILABLE",
            (Answer::Allowed, Answer::Denied, _) if !stage.kept().is_empty() => "previous version",
            (Answer::Allowed, Answer::Denied, _) => "serves",
            (Answer::Allowed, Answer::Allowed, _) if files == Files::default() => "serves",
            (Answer::Allowed, Answer::Allowed, _) => "without it",
            other => panic!("{name}: {other:?}"),
        };
        assert_eq!(withheld, found == "UNAVAILABLE", "{name}");
        // It serves as soon as the configuration is valid, or when a directory that was empty has been filled.
        match stage.named_namespace.take() {
            Some(_) => {
                if nothing.is_some() {
                    stage.cache.clear();
                }
                stage.start(&before);
            }
            None => stage.change(&before),
        }
        if found == "UNAVAILABLE"
            && !stage.allow_empty
            && (files.lost || files.failed || files.texts.is_empty())
        {
            assert_eq!(stage.check("ann"), Answer::Unavailable, "{name}");
            stage.pass(QUIET);
        }
        assert_eq!((stage.check("ann"), stage.check("bob")), (Answer::Allowed, Answer::Denied), "{name}");
        // A start with a cache expects what is missing for some time.
        stage.pass(QUIET);
        assert_eq!(stage.published().diagnostics, Vec::new(), "{name}");
        found.to_owned()
    });
}

/// Fields that lost their place in `spec`, so that everybody would be denied, or nobody.
#[test]
fn settings_that_slipped_into_the_metadata_are_an_error() {
    let condition = "match: '(source.user | \"\") == \"carol\"', ";
    let moved = "match: '(source.user | \"\") == \"carol\"'";
    let without = BESIDE.replace(condition, "");
    let named = "name: no-carol, namespace: istio-system";
    const BRIDGE: &str = "kind: envoybridge
metadata: {name: default, namespace: istio-system}
spec: {check: {mode: shadow}}
";
    for (before, text) in [
        (BESIDE.to_owned(), without.replace(named, &format!("{named}, {moved}"))),
        (BESIDE.to_owned(), without.replace(named, &format!("{named}, annotations: {{{moved}}}"))),
        (
            format!("{BESIDE}---\n{BRIDGE}"),
            format!("{BESIDE}---\n{}", BRIDGE.replace("}\nspec", ", spec") + "}"),
        ),
        (
            format!("{BESIDE}---\n{BRIDGE}"),
            format!("{BESIDE}---\n{}", BRIDGE.replace(" {check: {mode: shadow}}", "")),
        ),
    ] {
        let mut files = good();
        files.put("/conf/beside.yaml", before);
        for mode in [OnConfigError::KeepLast, OnConfigError::Refuse] {
            let mut stage = Stage::new(mode, false);
            stage.start(&files);
            assert_eq!(
                (stage.check("ann"), stage.check("carol")),
                (Answer::Allowed, Answer::Denied),
                "{text}"
            );
            let mut broken = files.clone();
            broken.put("/conf/beside.yaml", text.as_str());
            stage.change(&broken);
            assert_eq!(
                (stage.check("ann"), stage.check("carol")),
                (Answer::Allowed, Answer::Denied),
                "{text}"
            );
            assert!(!stage.kept().is_empty(), "{text}");
            stage.start(&broken);
            assert_eq!(stage.check("ann"), Answer::Unavailable, "{text}");
        }
    }
}

/// As Istio Mixer 1.3.0, run with these files: the handler acts with the parameters that were understood, and the defaults of others.
#[test]
fn called_as_mixs_a_misspelt_parameter_is_left_out() {
    let denier = |params: &str| BESIDE.replace("denier}", &format!("denier, params: {{{params}}}}}"));
    let list =
        |params: &str| deny([&HANDLER.replace("blacklist: true, overrides: [bob]", params), INSTANCE, RULE]);
    for (name, list_params, denier_params, bob, carol) in [
        (
            "no mistake",
            "blacklist: true, overrides: [bob]",
            "status: {code: 16}",
            Answer::Denied,
            Answer::Denied,
        ),
        ("no entries", "blacklist: true, overides: [bob]", "", Answer::Allowed, Answer::Denied),
        ("one more", "blacklist: true, overrides: [bob], bogus: 1", "", Answer::Denied, Answer::Denied),
        (
            "one more, first",
            "bogus: 1, blacklist: true, overrides: [bob]",
            "",
            Answer::Denied,
            Answer::Denied,
        ),
        (
            "a denier denies",
            "blacklist: true, overrides: [bob]",
            "status: {cod: 16}",
            Answer::Denied,
            Answer::Denied,
        ),
        (
            "without its status",
            "blacklist: true, overrides: [bob]",
            "staus: {code: 16}",
            Answer::Denied,
            Answer::Denied,
        ),
    ] {
        let mut files = good();
        files.put("/conf/deny.yaml", list(list_params));
        files.put("/conf/beside.yaml", denier(denier_params));
        let mut stage = Stage::new(OnConfigError::ServeValid, false);
        stage.start(&files);
        assert_eq!((stage.check("bob"), stage.check("carol")), (bob, carol), "{name}, at the start");
        let mut stage = Stage::new(OnConfigError::ServeValid, false);
        stage.start(&good());
        stage.change(&files);
        assert_eq!((stage.check("bob"), stage.check("carol")), (bob, carol), "{name}, after a change");
    }
}

/// What `validate` finds, and nothing that follows from a correction, is a problem of the configuration.
#[test]
fn a_server_reports_the_errors_that_validate_finds() {
    let misspelt = HANDLER.replace("istio-system}", "istio-system, annotations: {mixer.dev/on-eror: deny}}");
    let dry_run = RULE.replace("istio-system}", "istio-system, annotations: {mixer.dev/dry-run: ja}}");
    let on_instance =
        INSTANCE.replace("istio-system}", "istio-system, annotations: {mixer.dev/on-error: deny}}");
    let value = RULE.replace("istio-system}", "istio-system, annotations: {mixer.dev/on-error: dney}}");
    let remote = RULE.replace("closed-list", "remote")
        + "---\nkind: handler\nmetadata: {name: remote, namespace: istio-system}\nspec: {adapter: far}\n";
    for (text, wanted) in [
        (deny([&misspelt, INSTANCE, RULE]), vec!["annotation-unknown"]),
        (deny([HANDLER, INSTANCE, &dry_run]), vec!["dry-run-unknown"]),
        (deny([HANDLER, &on_instance, RULE]), vec!["annotation-unknown"]),
        (deny([HANDLER, INSTANCE, &value]), vec!["on-error-unknown"]),
        (deny([HANDLER, INSTANCE, &remote]), vec!["rule-empty", "handler-unknown", "adapter-unknown"]),
        (deny([HANDLER, INSTANCE, &on_address()]) + "---\n" + CONTRADICTION, vec!["attribute-conflict"]),
    ] {
        let mut files = good();
        files.put("/conf/deny.yaml", text);
        for mode in MODES {
            let mut stage = Stage::new(mode, false);
            stage.start(&files);
            let published = stage.published();
            let errors = published.diagnostics.iter().filter(|problem| problem.severity == Severity::Error);
            let codes: Vec<&str> =
                errors.map(|problem| problem.code).filter(|code| !is_about_serving(code)).collect();
            assert_eq!((&codes, published.problems(Severity::Error)), (&wanted, wanted.len()), "{mode:?}");
            assert_eq!(
                published.withheld.is_some(),
                mode != OnConfigError::ServeValid,
                "{mode:?}, {wanted:?}"
            );
            // The same mistake in a configuration that serves.
            let mut stage = Stage::new(mode, false);
            stage.start(&good());
            stage.change(&files);
            let kept = !stage.kept().is_empty();
            assert_eq!(kept, mode != OnConfigError::ServeValid, "{mode:?}, {wanted:?}");
            assert_eq!(stage.published().problems(Severity::Error), wanted.len(), "{mode:?}");
        }
    }
}

/// As in Istio Mixer, a resource with an unknown field goes on in its previous version with `serve-valid`, too: that is told like others.
#[test]
fn with_serve_valid_a_resource_that_does_not_convert_is_kept_and_told() {
    let mut stage = Stage::new(OnConfigError::ServeValid, false);
    stage.start(&good());
    let mut files = good();
    files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, &RULE.replace("actions", "actoins")]));
    stage.change(&files);
    assert_eq!(stage.check("bob"), Answer::Denied);
    let kept = stage.kept();
    assert!(
        matches!(kept.as_slice(), [one] if one.starts_with("no-bob.rule.istio-system: its new version has an error: ")),
        "{kept:?}"
    );
    let published = stage.published();
    let told =
        published.diagnostics.iter().find(|problem| problem.code == "config-kept").expect("it is told");
    assert_eq!((told.severity, &*told.resource), (Severity::Warning, "no-bob.rule.istio-system"));
    assert_eq!(published.problems(Severity::Error), 1, "{:?}", published.diagnostics);
    // What does not compile is left out, as before.
    files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, &RULE.replace("closed-list", "closed-lsit")]));
    stage.change(&files);
    assert_eq!((stage.check("bob"), stage.kept()), (Answer::Allowed, Vec::new()));
    stage.change(&good());
    assert_eq!((stage.check("bob"), stage.kept()), (Answer::Denied, Vec::new()));
}

/// The severity of a problem does not depend on what serves.
#[test]
fn every_mode_reports_the_same_errors() {
    for (name, text) in [
        ("kind-unknown", deny([HANDLER, INSTANCE, &RULE.replace("kind: rule", "kind: ruel")])),
        ("kind-unknown", deny([HANDLER, INSTANCE, &in_group("security.istio.io/v1", "Ruel")])),
        ("document-identity", deny([HANDLER, INSTANCE, "{}\n"])),
        ("file-empty", String::new()),
    ] {
        let mut files = good();
        files.put("/conf/deny.yaml", text);
        for mode in MODES {
            let mut stage = Stage::new(mode, false);
            stage.start(&files);
            let published = stage.published();
            let found = published.diagnostics.iter().find(|problem| problem.code == name);
            assert_eq!(found.map(|problem| problem.severity), Some(Severity::Error), "{name}, {mode:?}");
        }
    }
}
