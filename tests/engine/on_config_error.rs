//! What serves after each mistake, in each mode of `--config-on-error`: the tables of docs/configuration.md, cell by cell.

use std::collections::BTreeSet;

use mixer_config::Severity;
use mixer_engine::runtime::{OnConfigError, is_about_serving};
use mixer_engine::snapshot::{ActionConfig, Condition};

use crate::stage::{Answer, Files, Stage};

const MANIFEST: &str = "kind: attributemanifest
metadata: {name: words, namespace: istio-system}
spec: {attributes: {source.user: {valueType: STRING}}}
";

/// Denies bob.
const HANDLER: &str = "kind: handler
metadata: {name: closed-list, namespace: istio-system}
spec: {compiledAdapter: listchecker, params: {blacklist: true, overrides: [bob]}}
";
const INSTANCE: &str = "kind: instance
metadata: {name: user, namespace: istio-system}
spec: {compiledTemplate: listentry, params: {value: 'source.user | \"\"'}}
";
const RULE: &str = "kind: rule
metadata: {name: no-bob, namespace: istio-system}
spec: {match: 'source.user == \"bob\"', actions: [{handler: closed-list, instances: [user]}]}
";

/// A valid change beside each mistake: denies carol.
const BESIDE: &str = "kind: handler
metadata: {name: turn-away, namespace: istio-system}
spec: {compiledAdapter: denier}
---
kind: instance
metadata: {name: nothing, namespace: istio-system}
spec: {compiledTemplate: checknothing}
---
kind: rule
metadata: {name: no-carol, namespace: istio-system}
spec: {match: '(source.user | \"\") == \"carol\"', actions: [{handler: turn-away, instances: [nothing]}]}
";

/// A report rule whose handler does not exist.
const BROKEN_REPORT: &str = "---
kind: instance
metadata: {name: line, namespace: istio-system}
spec: {compiledTemplate: logentry, params: {severity: '\"info\"'}}
---
kind: rule
metadata: {name: log, namespace: istio-system}
spec: {actions: [{handler: nowhere, instances: [line]}]}
";

/// What only reports, for rules that name it by mistake.
const REPORTING: &str = "kind: handler
metadata: {name: log, namespace: istio-system}
spec: {compiledAdapter: stdio}
---
kind: instance
metadata: {name: line, namespace: istio-system}
spec: {compiledTemplate: logentry, params: {severity: '\"info\"'}}
";

/// The rule with the handler, or the instance, of a rule that reports.
fn mixed_up(part: &str) -> String {
    match part {
        "handler" => RULE.replace("handler: closed-list", "handler: log"),
        _ => RULE.replace("instances: [user]", "instances: [line]"),
    }
}

fn deny(parts: [&str; 3]) -> String {
    parts.join("---\n")
}

fn good() -> Files {
    let mut files = Files::default();
    files.put("/conf/words.yaml", MANIFEST);
    files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, RULE]));
    files
}

/// The rule, of which `spec` lost its indentation.
fn dedented() -> String {
    RULE.replace("spec: {match: ", "spec:\nmatch: ")
        .replace(", actions: ", "\nactions: ")
        .replace("]}]}", "]}]")
}

/// `(row, edit)`: the first column of the table, and the mistake.
type Row = (&'static str, fn(&mut Files));

/// Mistakes in a configuration that serves.
const EDITS: &[Row] = &[
    ("a rule names a handler that does not exist", |files| {
        files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, &RULE.replace("closed-list", "closed-lsit")]));
    }),
    ("a rule names a handler that only reports", |files| {
        files.put("/conf/report.yaml", REPORTING);
        files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, &mixed_up("handler")]));
    }),
    ("a rule names an instance that is only reported", |files| {
        files.put("/conf/report.yaml", REPORTING);
        files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, &mixed_up("instance")]));
    }),
    ("a rule is renamed and names a handler that only reports", |files| {
        files.put("/conf/report.yaml", REPORTING);
        let rule = mixed_up("handler").replace("no-bob", "no-robert");
        files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, &rule]));
    }),
    ("a rule is renamed and names an instance that is only reported", |files| {
        files.put("/conf/report.yaml", REPORTING);
        let rule = mixed_up("instance").replace("no-bob", "no-robert");
        files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, &rule]));
    }),
    ("a condition does not compile", |files| {
        files.put(
            "/conf/deny.yaml",
            deny([HANDLER, INSTANCE, &RULE.replace("source.user ==", "sorce.user ==")]),
        );
    }),
    ("a rule has an unknown field", |files| {
        files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, &RULE.replace("actions", "actoins")]));
    }),
    ("a document is not YAML", |files| {
        files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, &RULE.replace("spec: {", "spec: {{")]));
    }),
    ("a document has no name", |files| {
        files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, &RULE.replace("name: no-bob, ", "")]));
    }),
    ("a kind is misspelt", |files| {
        files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, &RULE.replace("kind: rule", "kind: ruel")]));
    }),
    ("a file is empty", |files| files.put("/conf/deny.yaml", "")),
    ("a file has comments only", |files| files.put("/conf/deny.yaml", "# Everybody is welcome.\n")),
    ("a file cannot be read", |files| files.unreadable.push("/conf/deny.yaml".to_owned())),
    ("a file is renamed and is not YAML", |files| {
        files.remove("/conf/deny.yaml");
        files.put("/conf/denials.yaml", "kind: {rule");
    }),
    ("the directory cannot be read", |files| files.lost = true),
    ("a rule has its spec beside `spec`", |files| {
        files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, &dedented()]))
    }),
    ("a condition is there twice", |files| {
        let rule = RULE.replace("\"bob\"'", "\"bob\"', match: 'source.user == \"adam\"'");
        files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, &rule]));
    }),
    ("the separator of two documents is lost", |files| {
        let other = RULE.replace("no-bob", "no-adam").replace("\"bob\"", "\"adam\"");
        files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, RULE]) + &other);
    }),
    ("the separator of two documents has a blank at its end", |files| {
        files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, ""]).trim_end().to_owned() + " \n" + RULE);
    }),
    ("a document follows the end of another, `...`", |files| {
        files.put("/conf/deny.yaml", [HANDLER, INSTANCE].join("---\n") + "...\n" + RULE);
    }),
    ("a file has another version of a resource", |files| {
        files.put("/conf/z.yaml", RULE.replace("\"bob\"", "\"adam\""));
    }),
    ("a handler names an adapter that does not exist", |files| {
        files.put("/conf/deny.yaml", deny([&HANDLER.replace("listchecker", "lsitchecker"), INSTANCE, RULE]));
    }),
    ("a parameter of a handler is misspelt", |files| {
        files.put(
            "/conf/deny.yaml",
            deny([
                &HANDLER.replace("blacklist: true, overrides", "blacklist: true, overides"),
                INSTANCE,
                RULE,
            ]),
        );
    }),
    ("a handler does not build", |files| {
        let handler = HANDLER.replace("params: {", "params: {cachingUseCount: -1, ");
        files.put("/conf/deny.yaml", deny([&handler, INSTANCE, RULE]));
    }),
    ("an expression of an instance does not compile", |files| {
        files.put("/conf/deny.yaml", deny([HANDLER, &INSTANCE.replace("source.user", "sorce.user"), RULE]));
    }),
    ("an instance gets a template that its handler does not take", |files| {
        let instance = INSTANCE.replace("listentry, params: {value: 'source.user | \"\"'}", "reportnothing");
        files.put("/conf/deny.yaml", deny([HANDLER, &instance, RULE]));
    }),
    ("a handler is deleted that a rule names", |files| {
        files.put("/conf/deny.yaml", [INSTANCE, RULE].join("---\n"));
    }),
    ("an instance is deleted that a rule names", |files| {
        files.put("/conf/deny.yaml", [HANDLER, RULE].join("---\n"));
    }),
    ("an attribute is no longer declared that a rule uses", |files| {
        // The rule beside it needs no attribute.
        files.put("/conf/words.yaml", MANIFEST.replace("source.user", "source.usr"));
        files.put(
            "/conf/beside.yaml",
            BESIDE.replace("match: '(source.user | \"\") == \"carol\"', ", "match: 'false', "),
        );
    }),
    ("a rule is renamed and has an error", |files| {
        files.put(
            "/conf/deny.yaml",
            deny([
                HANDLER,
                INSTANCE,
                &RULE.replace("no-bob", "no-robert").replace("closed-list", "closed-lsit"),
            ]),
        );
    }),
    ("a rule is moved to another namespace and has an error", |files| {
        let rule = RULE.replace("namespace: istio-system", "namespace: shop");
        files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, &rule]));
    }),
    ("a rule is renamed with its file and has an error", |files| {
        files.remove("/conf/deny.yaml");
        files.put(
            "/conf/denials.yaml",
            deny([
                HANDLER,
                INSTANCE,
                &RULE.replace("no-bob", "no-robert").replace("closed-list", "closed-lsit"),
            ]),
        );
    }),
    ("a rule is renamed in another file and has an error", |files| {
        files.put("/conf/deny.yaml", [HANDLER, INSTANCE].join("---\n"));
        files.put(
            "/conf/denials.yaml",
            RULE.replace("no-bob", "no-robert").replace("closed-list", "closed-lsit"),
        );
    }),
    ("a rule is renamed in another file and its kind is misspelt", |files| {
        files.put("/conf/deny.yaml", [HANDLER, INSTANCE].join("---\n"));
        let rule = RULE.replace("kind: rule", "kind: ruel").replace("no-bob", "no-robert");
        files.put("/conf/denials.yaml", rule);
    }),
    ("a rule is split and a part has an error", |files| {
        let part = RULE.replace("\"bob\"", "\"bobby\"");
        let rest = RULE.replace("no-bob", "no-robert").replace("closed-list", "closed-lsit");
        files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, &part]) + "---\n" + &rest);
    }),
    ("a rule is deleted", |files| files.put("/conf/deny.yaml", [HANDLER, INSTANCE].join("---\n"))),
    ("a file is deleted", |files| files.remove("/conf/deny.yaml")),
    ("everything is deleted", |files| *files = Files::default()),
    ("a new rule has an error", |files| {
        files.put("/conf/new.yaml", RULE.replace("no-bob", "no-dave").replace("closed-list", "nowhere"));
        files.put("/conf/deny.yaml", [HANDLER, INSTANCE].join("---\n"));
        files.put("/conf/kept.yaml", RULE);
    }),
];

/// The first configuration of a server.
const STARTS: &[Row] = &[
    ("no mistake", |_| {}),
    ("a check rule has an error", |files| {
        files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, &RULE.replace("closed-list", "closed-lsit")]));
    }),
    ("a check rule names a handler that only reports", |files| {
        files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, &mixed_up("handler")]) + "---\n" + REPORTING);
    }),
    ("a check rule names an instance that is only reported", |files| {
        files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, &mixed_up("instance")]) + "---\n" + REPORTING);
    }),
    ("an annotation of a check rule is misspelt", |files| {
        let rule = RULE.replace("istio-system}", "istio-system, annotations: {mixer.dev/defualt: deny}}");
        files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, &rule]));
    }),
    ("the value of an annotation of a check rule is misspelt", |files| {
        let rule = RULE.replace("istio-system}", "istio-system, annotations: {mixer.dev/on-error: dney}}");
        files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, &rule]));
    }),
    ("a handler of a check rule does not build", |files| {
        let handler = HANDLER.replace("params: {", "params: {cachingUseCount: -1, ");
        files.put("/conf/deny.yaml", deny([&handler, INSTANCE, RULE]));
    }),
    ("a report rule has an error", |files| {
        files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, RULE]) + BROKEN_REPORT);
    }),
    ("a document is not YAML", |files| files.put("/conf/more.yaml", "kind: {rule")),
    ("the kind of a check rule is misspelt", |files| {
        files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, &RULE.replace("kind: rule", "kind: ruel")]));
    }),
    ("a resource has a kind of another API group", |files| {
        files.put(
            "/conf/more.yaml",
            "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: r, namespace: x}\n",
        );
    }),
    ("a check rule has its spec beside `spec`", |files| {
        files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, &dedented()]));
    }),
    ("the condition of a check rule is there twice", |files| {
        let rule = RULE.replace("\"bob\"'", "\"bob\"', match: 'source.user == \"adam\"'");
        files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, &rule]));
    }),
    ("a check rule follows the end of a document, `...`", |files| {
        files.put("/conf/deny.yaml", [HANDLER, INSTANCE].join("---\n") + "...\n" + RULE);
    }),
    ("two files have different versions of a check rule", |files| {
        files.put("/conf/z.yaml", RULE.replace("\"bob\"", "\"adam\""));
    }),
    ("a file cannot be read", |files| files.unreadable.push("/conf/more.yaml".to_owned())),
    ("a file is empty", |files| files.put("/conf/more.yaml", "")),
    ("a file has white space only", |files| files.put("/conf/more.yaml", " \n\n")),
    ("a file has comments only", |files| files.put("/conf/more.yaml", "# For later.\n")),
    ("the directory does not exist or cannot be read", |files| files.lost = true),
    ("nothing could be read yet, with `--allow-empty-config`", |files| {
        *files = Files { failed: true, ..Files::default() };
    }),
    ("there is no resource", |files| *files = Files::default()),
    ("there is no resource, with `--allow-empty-config`", |files| *files = Files::default()),
];

/// The rows of the table of docs/configuration.md below a marker.
fn table(marker: &str) -> Vec<Vec<String>> {
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

const MODES: [OnConfigError; 3] = [OnConfigError::KeepLast, OnConfigError::ServeValid, OnConfigError::Refuse];

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
        compare_starts(namespace);
    }
}

fn compare_starts(namespace: &str) {
    compare("<!-- on-error: starts -->", STARTS, MODES.len() + 1, |(name, edit), column| {
        // The last column is keep-last with a cache.
        let mode = MODES.get(column).copied().unwrap_or_default();
        let mut stage = Stage::new(mode, column == MODES.len());
        stage.namespace = namespace.to_owned();
        let mut before = good();
        before.put("/conf/beside.yaml", BESIDE);
        if column == MODES.len() {
            stage.start(&before);
            stage.stop();
        }
        stage.allow_empty = name.contains("--allow-empty-config");
        let mut files = good();
        edit(&mut files);
        stage.start(&files);
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
        // It serves as soon as the configuration is valid.
        stage.change(&before);
        assert_eq!((stage.check("ann"), stage.check("bob")), (Answer::Allowed, Answer::Denied), "{name}");
        assert_eq!(stage.published().diagnostics, Vec::new(), "{name}");
        found.to_owned()
    });
}

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
fn a_damaged_cache_is_reported_and_ignored() {
    let mut stage = Stage::new(OnConfigError::KeepLast, true);
    stage.start(&good());
    stage.stop();
    if let Some(bytes) = stage.cache.bytes.lock().as_mut() {
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
    }
    stage.start(&Files::default());
    assert_eq!(stage.check("bob"), Answer::Unavailable);
    let published = stage.published();
    let found: Vec<_> = published.diagnostics.iter().map(|d| (d.code, d.message.as_str())).collect();
    assert_eq!(
        found[1],
        (
            "config-cache",
            "the configuration cache cache is ignored: it is damaged: its checksum does not match"
        )
    );
    stage.change(&good());
    assert_eq!(stage.check("bob"), Answer::Denied);
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
fn a_start_whose_store_hangs_serves_the_cache() {
    for (policy, uses_cache) in [(OnConfigError::KeepLast, true), (OnConfigError::Refuse, true)] {
        let mut stage = Stage::new(policy, uses_cache);
        stage.start(&good());
        stage.stop();
        assert!(stage.start_hanging(), "{policy:?}");
        assert_eq!((stage.check("bob"), stage.check("ann")), (Answer::Denied, Answer::Allowed), "{policy:?}");
        assert_eq!(stage.kept().len(), 4, "{:?}", stage.kept());
        // The store answers: what is in it serves, without what is not.
        let mut files = good();
        files.put("/conf/deny.yaml", INSTANCE);
        stage.change(&files);
        assert_eq!((stage.kept(), stage.check("bob")), (Vec::new(), Answer::Allowed), "{policy:?}");
    }
}

#[test]
fn a_start_without_cache_waits_for_the_store() {
    for (policy, uses_cache) in [(OnConfigError::KeepLast, true), (OnConfigError::ServeValid, true)] {
        let mut stage = Stage::new(policy, uses_cache);
        if policy == OnConfigError::ServeValid {
            stage.start(&good());
            stage.stop();
        }
        assert!(!stage.start_hanging(), "{policy:?}");
        assert_eq!(stage.check("ann"), Answer::Unavailable, "{policy:?}");
        stage.change(&good());
        assert_eq!(stage.check("bob"), Answer::Denied, "{policy:?}");
    }
}

#[test]
fn handlers_of_a_withheld_configuration_leave_no_task() {
    let mut stage = Stage::new(OnConfigError::KeepLast, false);
    let mut files = good();
    files.put("/conf/cut.yaml", "kind: [rule");
    for change in 0..10 {
        // It has a task that refreshes the list.
        let list = "providerUrl: 'http://127.0.0.1:1/list', refreshInterval: 1s, ttl: 10s, ";
        let params = format!("params: {{{list}cachingInterval: {}s, ", change + 1);
        files.put("/conf/deny.yaml", deny([&HANDLER.replace("params: {", &params), INSTANCE, RULE]));
        match change {
            0 => stage.start(&files),
            _ => stage.change(&files),
        }
        assert_eq!(stage.check("bob"), Answer::Unavailable);
    }
    assert!(stage.tasks_end(0));
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

/// A default for bob.
const CLOSED: &str = "kind: rule
metadata: {name: closed, namespace: istio-system, annotations: {mixer.dev/default: deny}}
spec: {match: 'source.user == \"bob\"'}
";

#[test]
fn a_default_that_does_not_compile_is_closed() {
    let broken = [
        ("a condition does not compile", CLOSED.replace("source.user", "sorce.user")),
        ("a condition is not Boolean", CLOSED.replace(" == \"bob\"", "")),
        ("a field is unknown", CLOSED.replace("match", "mach")),
        (
            "a failure allows",
            CLOSED.replace("deny}", "deny, mixer.dev/on-error: allow}").replace("source.", "sorce."),
        ),
        ("the value is misspelt", CLOSED.replace("deny}", "dney}").replace("match", "mach")),
        (
            "an action names no handler",
            CLOSED.replace("spec: {", "spec: {actions: [{handler: x, instances: [z]}], "),
        ),
    ];
    for (name, text) in &broken {
        for mode in MODES {
            let mut files = Files::default();
            files.put("/conf/words.yaml", MANIFEST);
            files.put("/conf/closed.yaml", text.as_str());
            let mut stage = Stage::new(mode, false);
            stage.start(&files);
            let unavailable =
                if mode == OnConfigError::ServeValid { Answer::Denied } else { Answer::Unavailable };
            assert_eq!(stage.check("bob"), unavailable, "{name}, {mode:?}, at the start");
            // What it selects is unknown, unless its condition compiles.
            let others = match *name {
                "an action names no handler" if mode == OnConfigError::ServeValid => Answer::Allowed,
                _ => unavailable,
            };
            assert_eq!(stage.check("ann"), others, "{name}, {mode:?}, at the start");
            files.put("/conf/closed.yaml", CLOSED);
            stage.change(&files);
            assert_eq!((stage.check("bob"), stage.check("ann")), (Answer::Denied, Answer::Allowed), "{name}");
            files.put("/conf/closed.yaml", text.as_str());
            stage.change(&files);
            assert_eq!(stage.check("bob"), Answer::Denied, "{name}, {mode:?}, after a change");
        }
    }
}

/// In dry run it closes nothing, whether it compiles or not.
#[test]
fn a_default_in_dry_run_that_does_not_compile_is_not_enforced() {
    let dry = CLOSED.replace("deny}", "deny, mixer.dev/dry-run: 'true'}");
    for text in [dry.replace("source.user", "sorce.user"), dry.replace("match", "mach")] {
        let mut files = Files::default();
        files.put("/conf/words.yaml", MANIFEST);
        files.put("/conf/closed.yaml", text.as_str());
        let mut stage = Stage::new(OnConfigError::ServeValid, false);
        stage.start(&files);
        assert_eq!((stage.check("bob"), stage.check("ann")), (Answer::Allowed, Answer::Allowed), "{text}");
    }
}

#[test]
fn the_reason_of_a_withheld_start_is_the_first_error() {
    let mut files = good();
    let rules =
        [HANDLER, INSTANCE, RULE, &RULE.replace("no-bob", "a-rule").replace("closed-list", "closed-lsit")];
    files.put("/conf/deny.yaml", rules.join("---\n"));
    let unknown = "/conf/deny.yaml:15: a-rule.rule.istio-system: Handler not found: handler='closed-lsit' (did you mean \
                   `closed-list`?)";
    let mut handler = good();
    let misspelt = HANDLER.replace("istio-system}", "istio-system, annotations: {mixer.dev/on-eror: deny}}");
    handler.put("/conf/deny.yaml", deny([&misspelt, INSTANCE, RULE]));
    let annotation = "/conf/deny.yaml:2: closed-list.handler.istio-system: annotation mixer.dev/on-eror is not supported \
                      on a handler (did you mean `mixer.dev/on-error`?)";
    let mut unbuilt = good();
    unbuilt.put(
        "/conf/deny.yaml",
        deny([&HANDLER.replace("params: {", "params: {cachingUseCount: -1, "), INSTANCE, RULE]),
    );
    let mut unread = good();
    unread.put("/conf/more.yaml", "kind: rule\nmetadata: {rule");
    let empty = "the store has no configuration; --allow-empty-config serves it";
    for mode in [OnConfigError::KeepLast, OnConfigError::Refuse] {
        let withheld = |files: &Files| {
            let mut stage = Stage::new(mode, false);
            stage.start(files);
            let published = stage.published();
            let found = published.diagnostics.iter().filter(|problem| problem.code == "config-withheld");
            let lines: Vec<_> = found.map(|problem| problem.span.map(|span| span.start.line)).collect();
            let others = published.diagnostics.iter().filter(|problem| problem.code == "config-kept").count();
            assert_eq!((lines.len(), others), (1, 0), "{mode:?}: {:?}", published.diagnostics);
            (published.withheld.as_deref().unwrap_or_default().to_owned(), lines[0])
        };
        assert_eq!(withheld(&files), (unknown.to_owned(), Some(15)), "{mode:?}");
        assert_eq!(withheld(&handler), (annotation.to_owned(), Some(2)), "{mode:?}");
        let (why, _) = withheld(&unbuilt);
        assert!(why.contains("closed-list.handler.istio-system: "), "{mode:?}: {why}");
        let (why, line) = withheld(&unread);
        assert!(why.starts_with("/conf/more.yaml:") && line.is_some(), "{mode:?}: {why}");
        assert_eq!(withheld(&Files::default()), (empty.to_owned(), None), "{mode:?}");
        let lost = Files { lost: true, ..Files::default() };
        assert_eq!(withheld(&lost).0, "open /conf: permission denied", "{mode:?}");
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
        (deny([HANDLER, INSTANCE, &remote]), vec!["out-of-process", "adapter-unknown"]),
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
