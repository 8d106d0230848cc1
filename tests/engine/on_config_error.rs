//! What serves after each mistake, in each mode of `--config-on-error`: the tables of docs/configuration.md, cell by cell.

use std::collections::BTreeSet;

use mixer_engine::runtime::OnConfigError;

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

fn deny(parts: [&str; 3]) -> String {
    parts.join("---\n")
}

fn good() -> Files {
    let mut files = Files::default();
    files.put("/conf/words.yaml", MANIFEST);
    files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, RULE]));
    files
}

/// `(row, edit)`: the first column of the table, and the mistake.
type Row = (&'static str, fn(&mut Files));

/// Mistakes in a configuration that serves.
const EDITS: &[Row] = &[
    ("a rule names a handler that does not exist", |files| {
        files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, &RULE.replace("closed-list", "closed-lsit")]));
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
    ("a file cannot be read", |files| files.unreadable.push("/conf/deny.yaml".to_owned())),
    ("a file is renamed and is not YAML", |files| {
        files.remove("/conf/deny.yaml");
        files.put("/conf/denials.yaml", "kind: {rule");
    }),
    ("the directory cannot be read", |files| files.lost = true),
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
    ("a file cannot be read", |files| files.unreadable.push("/conf/more.yaml".to_owned())),
    ("the directory does not exist or cannot be read", |files| files.lost = true),
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
        let found = match (stage.check("bob"), applied) {
            (Answer::Denied, true) => "previous version",
            (Answer::Denied, false) => "previous configuration",
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
    let text = "the previous version of no-bob.rule.istio-system serves, since 2023-11-14T22:13:25Z, because \
                its new version has an error: Handler not found: handler='closed-lsit'";
    assert_eq!(kept(&stage), [text]);
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
fn a_damaged_cache_is_reported_and_ignored() {
    let mut stage = Stage::new(OnConfigError::KeepLast, true);
    stage.start(&good());
    stage.stop();
    if let Some(bytes) = stage.cache.0.lock().as_mut() {
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
