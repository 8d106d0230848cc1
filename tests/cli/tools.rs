//! `validate`, `routes show` and `crd`.

use serde_json::Value;

use crate::{json, run, run_with_input, scenario};

#[test]
fn validate_reads_files_and_standard_input() {
    let broken = run(&["mixer", "validate", &scenario("broken-rule")]);
    assert_eq!((broken.code, broken.out.lines().count()), (1, 3));
    assert_eq!(broken.err, "2 files, 2 resources: 3 errors, 0 warnings\n");
    let table = run(&["mixer", "validate", &scenario("broken-rule"), "-o", "table"]);
    let excerpt = "8 │   match: source.user = = \"x\"\n  │                      ^ expression column 13\n";
    assert!(table.out.contains(excerpt), "{}", table.out);
    let text = std::fs::read_to_string(scenario("broken-rule") + "/20-rule.yaml").unwrap();
    let piped = run_with_input(&["mixer", "validate", "-", "-o", "json"], &text);
    assert_eq!(json(&piped)["diagnostics"][0]["file"], "-");
    assert_eq!(run(&["mixer", "validate", &scenario("harbor")]).code, 0);
    let missing = run(&["mixer", "validate", "/nowhere"]);
    assert_eq!((missing.code, missing.out.as_str()), (3, ""));
    assert_eq!(run(&["mixer", "validate"]).code, 2);
    assert_eq!(run(&["mixer", "validate", "embedded://sample", "--strict"]).code, 0);
}

/// Tables have hints, and causes before their consequences; what is evaluated without a rule says so.
#[test]
fn tables_say_what_to_do_and_tools_what_they_leave_out() {
    let rule = "apiVersion: config.istio.io/v1alpha2\nkind: rule\nmetadata:\n  name: r\n  namespace: istio-system\n\
                spec:\n  actions:\n  - handler: quiett\n    instances: [i]\n";
    let others = "---\napiVersion: config.istio.io/v1alpha2\nkind: handler\nmetadata: {name: quiet, namespace: istio-system}\n\
                  spec: {compiledAdapter: noop}\n---\napiVersion: config.istio.io/v1alpha2\nkind: instance\n\
                  metadata: {name: i, namespace: istio-system}\nspec: {compiledTemplate: reportnothing}\n";
    let ran = run_with_input(&["mixer", "validate", "--output", "table", "-"], &format!("{rule}{others}"));
    let (cause, consequence) = (ran.out.find("handler-unknown"), ran.out.find("rule-empty"));
    assert!(cause.is_some() && cause < consequence, "{}", ran.out);
    assert!(ran.out.contains("did you mean `quiet`?"), "{}", ran.out);
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("all.yaml"), format!("{rule}{others}")).unwrap();
    let path = directory.path().display().to_string();
    let note = format!(
        "warning: `{path}` has 2 errors and is evaluated without r.rule.istio-system; a server goes on"
    );
    for arguments in [
        &["mixer", "routes", "show", "--config", &path][..],
        &["mixer", "snapshot", "dump", "--config", &path],
    ] {
        let ran = run(arguments);
        assert!(ran.err.starts_with(&note), "{arguments:?}: {}", ran.err);
    }
    let checked = run(&["mixer", "check", "--config", &path, "--explain"]);
    let told = "errors and is evaluated without r.rule.istio-system; ";
    assert!(checked.code == 3 && checked.err.matches(told).count() == 1, "{}", checked.err);
    // No server answers so, which is an error also of those who ask for no more.
    for command in ["check", "report"] {
        let of = |more: &[&str]| run(&[&["mixer", command, "--config", &path][..], more].concat());
        let quiet = of(&["--quiet"]);
        assert!(quiet.code == 3 && quiet.out.is_empty(), "{command}: {}", quiet.out);
        assert!(quiet.err.starts_with("error: ") && quiet.err.contains(told), "{command}: {}", quiet.err);
        let documents = of(&["-o", "json", "--error-format", "json"]);
        assert_eq!(json(&documents)["served"], false, "{command}: {}", documents.out);
        let failures: Vec<serde_json::Value> =
            documents.err.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let failure = failures.iter().find(|document| document["kind"] == "Error");
        assert_eq!(failure.map(|failure| &failure["exit"]), Some(&3.into()), "{command}: {}", documents.err);
        // Whoever says what he means is warned.
        for meant in ["--serve-valid", "--exit-zero"] {
            let served = of(&[meant, "-o", "json"]);
            let is_warned = served.err.starts_with("warning: ") && served.err.contains(told);
            assert!(served.code == 0 && is_warned, "{command} {meant}: {}", served.err);
            assert!(json(&served).get("served").is_none(), "{command} {meant}: {}", served.out);
        }
    }
    for served in
        [&["mixer", "check", "--config", &path, "--serve-valid"][..], &["mixc", "check", "--config", &path]]
    {
        assert_eq!(run(served).code, 0, "{served:?}");
    }
    let idle = run(&["mixer", "check", "--server", "127.0.0.1:1", "--serve-valid"]);
    assert!(idle.err.contains("--serve-valid"), "{}", idle.err);
}

/// A server does not serve it either; tests/server/on_config_error.rs compares the texts.
#[test]
fn an_empty_configuration_must_be_meant() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().display().to_string();
    let refused = "error[config-withheld]: no configuration is served: the store has no configuration: check the path in --config-store-url, that the names of the files end in .yaml or .yml, and that their resources are of kinds of this server; only if every call is to be allowed, --allow-empty-config serves it (calls are answered with UNAVAILABLE until it is mended)\n";
    let empty = run(&["mixer", "validate", &path]);
    assert_eq!((empty.code, empty.out.as_str()), (1, refused));
    assert_eq!(empty.err, "0 files, 0 resources: 1 error, 0 warnings\n");
    for flag in ["--allow-empty-config", "--allow-empty-config=true"] {
        let meant = run(&["mixer", "validate", &path, flag]);
        assert_eq!((meant.code, meant.out.as_str()), (0, ""), "{flag}");
    }
    // What no kind of a server is, configures nothing.
    std::fs::write(
        dir.path().join("x.yaml"),
        "apiVersion: v1\nkind: Secret\nmetadata: {name: x, namespace: other}\n",
    )
    .unwrap();
    let ran = run(&["mixer", "validate", &path]);
    assert!(ran.code == 1 && ran.out.starts_with(refused), "{}", ran.out);
    let piped = run_with_input(&["mixer", "validate", "-", "-o", "json"], "");
    assert_eq!((piped.code, &json(&piped)["diagnostics"][0]["code"]), (1, &"file-empty".into()));
    // A file with comments only defines nothing, which is said as of an empty directory.
    let piped = run_with_input(&["mixer", "validate", "-", "-o", "json"], "# Nothing.\n");
    assert_eq!((piped.code, &json(&piped)["diagnostics"][0]["code"]), (1, &"config-withheld".into()));
    // No server answers with it, also none with serve-valid that has another path.
    let checked = |stdin: &str| {
        run_with_input(&["mixer", "check", "--config", "-", "--serve-valid", "-s", "source.user=x"], stdin)
    };
    let faulty = "apiVersion: config.istio.io/v1alpha2\nkind: handler\nmetadata: {name: h, namespace: istio-system}\n\
                  spec: {compiledAdapter: nosuch}\n";
    for nothing in ["# Nothing.\n", "kind: [rule\n", faulty] {
        let ran = checked(nothing);
        assert_eq!(ran.code, 3, "{nothing}: {}{}", ran.out, ran.err);
    }
    let instance = "---\napiVersion: config.istio.io/v1alpha2\nkind: instance\nmetadata: {name: i, namespace: istio-system}\n\
                    spec: {compiledTemplate: reportnothing}\n";
    assert_eq!(checked(&format!("{faulty}{instance}")).code, 0, "something is left");
    // An error tells more.
    let broken = run_with_input(&["mixer", "validate", "-"], "kind: [rule\n");
    assert!(broken.code == 1 && !broken.out.contains("config-withheld"), "{}", broken.out);
}

#[test]
fn lint_warns_and_strict_fails_on_warnings() {
    let unused = "apiVersion: config.istio.io/v1alpha2\nkind: denier\nmetadata:\n  name: idle\n  namespace: istio-system\nspec: {}\n";
    let lint = |flags: &[&str]| run_with_input(&[&["mixer", "validate", "-"][..], flags].concat(), unused);
    assert_eq!(lint(&[]).code, 0);
    let ran = lint(&["--lint"]);
    assert_eq!(ran.code, 0);
    assert!(ran.out.contains("warning[handler-unused]"), "{}", ran.out);
    assert_eq!(lint(&["--lint", "--strict"]).code, 1);
}

#[test]
fn routes_are_shown_filtered_and_matched() {
    let target = scenario("parlour");
    let show = |flags: &[&str]| run(&[&["mixer", "routes", "show", "--config", &target][..], flags].concat());
    let all = show(&[]);
    assert!(all.out.ends_with("5 routes, snapshot 1.  * inherited from istio-system\n"), "{}", all.out);
    assert!(show(&["--variety", "check"]).out.ends_with("2 routes, snapshot 1.\n"));
    assert!(
        show(&["--handler", "nobody*", "--namespace", "istio-system"])
            .out
            .ends_with("1 route, snapshot 1.\n")
    );
    let matched = json(&show(&["--match", "source.user=night,destination.namespace=tea", "-o", "json"]));
    let groups = &matched["varieties"][0]["namespaces"][0]["destinations"][0]["groups"];
    assert_eq!((&groups[0]["matches"], &groups[1]["matches"]), (&Value::Bool(false), &Value::Bool(true)));
    let unknown = show(&["--match", "sorce.user=x"]);
    assert_eq!(unknown.code, 2);
    assert!(unknown.err.contains("source.user"), "{}", unknown.err);
}

#[test]
fn crds_are_printed_in_both_api_versions() {
    let all = run(&["mixs", "crd", "all"]);
    assert_eq!((all.code, all.out.matches("\n---\n\n").count()), (0, 34));
    assert_eq!(run(&["mixs", "crd", "adapter"]).out.matches("---\n\n").count(), 20);
    assert_eq!(run(&["mixs", "crd", "instance"]).out.matches("---\n\n").count(), 12);
    let v1 = run(&["mixer", "crd", "instance", "--api-version", "v1"]);
    assert!(v1.out.contains("apiVersion: apiextensions.k8s.io/v1\n"), "{}", v1.out);
}

/// Names and texts of files neither begin a line nor reach the terminal.
#[test]
fn control_characters_of_files_are_escaped() {
    let name = r#""bad\e[2J\nerror[forged]: x\u202e\x07""#;
    let text = format!(
        "kind: rule\nmetadata: {{name: {name}, namespace: {name}}}\nspec: {{match: {name}, actions: [{{handler: {name}, instances: [{name}]}}]}}\n\
         ---\nkind: handler\nmetadata: {{name: {name}, namespace: istio-system}}\nspec: {{compiledAdapter: denier, params: {{status: {{message: {name}}}}}}}\n\
         ---\nkind: handler\nmetadata: {{name: other, namespace: istio-system}}\nspec: {{compiledAdapter: {name}}}\n"
    );
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("a\u{1b}[31m\nerror[forged]: b.yaml");
    std::fs::write(&file, format!("{text}# \u{1b}[31m\nx: [\n")).unwrap();
    let path = directory.path().display().to_string();
    let url = format!("fs://{path}");
    for arguments in [
        &["validate", &path][..],
        &["validate", "-o", "plain", &path],
        &["validate", "-o", "table", "--lint", &path],
        &["snapshot", "dump", "--config", &url, "-o", "plain"],
        &["snapshot", "dump", "--config", &url, "-o", "table"],
        &["snapshot", "dump", "--config", &url, "-o", "debug"],
        &["routes", "show", "--config", &url, "-o", "plain"],
        &["routes", "show", "--config", &url, "-o", "debug"],
        &["doctor", "--config-store-url", &url],
    ] {
        let ran = run(&[&["mixer"][..], arguments].concat());
        for shown in [&ran.out, &ran.err] {
            let raw = shown.find(|c: char| c != '\n' && (c.is_control() || c == '\u{202e}'));
            assert_eq!(raw, None, "{arguments:?}: {shown:?}");
            let is_tree = arguments.contains(&"debug");
            assert!(
                is_tree || !shown.lines().any(|line| line.starts_with("error[forged]")),
                "{arguments:?}: {shown}"
            );
        }
        assert!(!(ran.out.is_empty() && ran.err.is_empty()), "{arguments:?}");
    }
}

/// Adapters out of process and their templates are in every format, also with --section.
#[test]
fn a_dump_has_adapters_out_of_process() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("gate").display().to_string();
    assert_eq!(run(&["mixer", "adapter", "new", "gate", "--directory", &path]).code, 0);
    let config = format!("{path}/config");
    let dump = |arguments: &[&str]| {
        let ran = run(&[&["mixer", "snapshot", "dump", "--config", &config], arguments].concat());
        assert_eq!((ran.code, &*ran.err), (0, ""), "{arguments:?}");
        ran.out
    };
    let json: Value = serde_json::from_str(&dump(&["-o", "json"])).unwrap();
    assert_eq!(json["adapterMetadatas"][0]["name"], "gate.adapter.istio-system");
    assert_eq!(json["adapterMetadatas"][0]["params"], "gate.config.Params");
    assert_eq!(json["templateMetadatas"].as_array().map(Vec::len), Some(3));
    assert_eq!(json["handlers"][0]["adapter"], "gate.adapter.istio-system");
    let chosen: Value = serde_json::from_str(&dump(&["-o", "json", "--section", "adapters"])).unwrap();
    assert_eq!(chosen["adapterMetadatas"], json["adapterMetadatas"]);
    assert_eq!(chosen.get("templateMetadatas"), None);
    assert!(
        dump(&["-o", "yaml", "--section", "templates"]).contains("resource: listentry.template.istio-system")
    );
    let plain = dump(&["-o", "plain", "--section", "templates,adapters"]);
    let row =
        |name: &str| plain.lines().find(|line| line.starts_with(name)).map(str::to_owned).unwrap_or_default();
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(
        words(&row("quota.template.istio-system")),
        ["quota.template.istio-system", "TEMPLATE_VARIETY_QUOTA", "dynamic"]
    );
    assert_eq!(words(&row("gate.adapter.istio-system"))[..2], ["gate.adapter.istio-system", "dynamic"]);
    let debug = dump(&["-o", "debug"]);
    let adapter = "AdaptersDynamic:\n  Name:      gate.adapter.istio-system\n  Templates:\n  -  listentry.template.istio-system\n";
    assert!(debug.contains(adapter), "{debug}");
    let template = "  Resource Name:  quota.template.istio-system\n    Name:  quota\n    InternalPackageDerivedName:  quota\n";
    assert!(debug.contains(template), "{debug}");
}

/// A quota is one whoever allocates it: requests of Envoy can be charged to that of an adapter, and that they are not is told.
#[test]
fn a_quota_of_an_adapter_out_of_process_is_known_to_envoy() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("gate").display().to_string();
    assert_eq!(run(&["mixer", "adapter", "new", "gate", "--directory", &path]).code, 0);
    let config = format!("{path}/config");
    let told = |spec: &str| {
        let bridge = format!(
            "apiVersion: config.istio.io/v1alpha2\nkind: envoybridge\nmetadata: {{name: default, namespace: istio-system}}\nspec: {spec}\n"
        );
        std::fs::write(format!("{config}/bridge.yaml"), bridge).unwrap();
        let ran = run(&["mixer", "validate", "-o", "plain", &config]);
        (ran.code, ran.out + &ran.err)
    };
    let dump = run(&["mixer", "routes", "show", "--config", &config, "-o", "json"]).out;
    let quota = "gate-quota";
    assert!(dump.contains(&format!("{quota}.instance.istio-system")), "{dump}");
    let (_, uncharged) = told("{check: {mode: enforce}}");
    assert!(uncharged.contains("quota-uncharged") && uncharged.contains(quota), "{uncharged}");
    let charged = format!("{{check: {{quotaSpec: [{{rules: [{{quotas: [{{quota: {quota}}}]}}]}}]}}}}");
    let limited =
        format!("{{ratelimit: {{quotas: [{{domain: shop, entries: {{user: '*'}}, quota: {quota}}}]}}}}");
    for spec in [charged, limited] {
        let (code, problems) = told(&spec);
        assert!(code == 0 && !problems.contains("quota-un"), "{spec}: {problems}");
    }
}

/// The answer to Envoy cannot express it; that to a client of the Mixer API can.
#[test]
fn headers_of_responses_that_envoy_cannot_remove_are_told() {
    let rule = "kind: rule\nmetadata: {name: hide, namespace: istio-system}\nspec:\n  responseHeaderOperations:\n\
                \x20 - {name: x-a, operation: REPLACE, values: ['\"a\"', '\"b\"']}\n  - {name: server, operation: REMOVE}\n";
    let bridge = "---\nkind: envoybridge\nmetadata: {name: default, namespace: istio-system}\nspec: {check: {mode: enforce}}\n";
    let told = |text: &str| run_with_input(&["mixer", "validate", "-o", "plain", "-"], text);
    let plain = told(rule);
    assert!(!plain.out.contains("header-unsupported"), "{}", plain.out);
    let warned = told(&format!("{rule}{bridge}"));
    assert_eq!(warned.code, 0, "{}", warned.out);
    let lines: Vec<&str> = warned.out.lines().filter(|line| line.contains("header-unsupported")).collect();
    assert_eq!(lines.len(), 1, "{}", warned.out);
    assert!(lines[0].starts_with("-:6:"), "{}", lines[0]);
    for part in ["hide.rule.istio-system", "`server` stays", "response_headers_to_remove: [\"server\"]"] {
        assert!(lines[0].contains(part), "{part}: {}", lines[0]);
    }
}

const SHADOW: &str = "kind: rule
metadata: {name: no-eve, namespace: istio-system}
spec: {match: 'source.user == \"eve\"', actions: [{handler: refuse, instances: [caller]}]}
---
kind: rule
metadata: {name: tried, namespace: istio-system, annotations: {mixer.dev/dry-run: \"true\"}}
spec: {actions: [{handler: refuse, instances: [caller]}]}
---
kind: handler
metadata: {name: refuse, namespace: istio-system}
spec: {compiledAdapter: denier, params: {status: {code: 7}}}
---
kind: instance
metadata: {name: caller, namespace: istio-system}
spec: {compiledTemplate: checknothing}
---
kind: envoybridge
metadata: {name: default, namespace: istio-system}
spec:
  check: {mode: enforce}
  ratelimit: {shadow: false}
---
kind: ratelimit
metadata: {name: shop, namespace: istio-system}
spec:
  domain: shop
  descriptors:
  - {key: user, rate_limit: {unit: hour, requests_per_unit: 3}}
  - {key: tried, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 3}}
";

/// Whoever reads the routes takes them for what happens.
#[test]
fn routes_say_what_is_not_enforced() {
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().display().to_string();
    let show = |text: &str, format: &str| {
        std::fs::write(directory.path().join("a.yaml"), text).unwrap();
        let ran = run(&["mixer", "routes", "show", "--config", &config, "-o", format]);
        assert_eq!(ran.code, 0, "{}", ran.err);
        ran.out
    };
    let row = |table: &str, name: &str| {
        table.lines().find(|line| line.contains(name)).unwrap_or_else(|| panic!("{name}: {table}")).to_owned()
    };
    let enforced = show(SHADOW, "plain");
    assert!(row(&enforced, "no-eve").trim_end().ends_with("no-eve"), "{enforced}");
    assert!(row(&enforced, "tried (dry run)").contains("refuse."), "{enforced}");
    assert!(!row(&enforced, "shop.user").contains("shadow"), "{enforced}");
    assert!(row(&enforced, "shop.tried").contains("3 per HOUR, shadow"), "{enforced}");
    assert!(!enforced.contains("not enforced"), "{enforced}");
    let shadow = SHADOW.replace("mode: enforce", "mode: shadow").replace("shadow: false", "shadow: true");
    for format in ["plain", "table"] {
        let shown = show(&shadow, format);
        assert!(shown.contains("no-eve (shadow)") && shown.contains("tried (dry run)"), "{shown}");
        assert_eq!(shown.matches("3 per HOUR, shadow").count(), 2, "{shown}");
        for (what, line) in [("`mode: shadow`: every check of Envoy", 20), ("`shadow: true`: every rate", 21)]
        {
            let told = row(&shown, what);
            assert!(told.starts_with("not enforced (shadow): "), "{told}");
            assert!(
                told.contains("default.envoybridge.istio-system") && told.contains(&format!("a.yaml:{line}"))
            );
        }
    }
    let document: Value = serde_json::from_str(&show(&shadow, "json")).unwrap();
    let services: Vec<&Value> =
        document["notEnforced"].as_array().unwrap().iter().map(|s| &s["service"]).collect();
    assert_eq!(services, ["check", "ratelimit"]);
    let limits = document["envoy"].as_array().unwrap().iter().filter(|row| row["shadow"] == true).count();
    assert_eq!(limits, 2);
    assert!(show(&shadow, "debug").contains("[Not enforced] default.envoybridge.istio-system"));
    let document: Value = serde_json::from_str(&show(SHADOW, "json")).unwrap();
    assert_eq!(document.get("notEnforced"), None);
}

/// What `notEnforced` of a server would list.
#[test]
fn the_lint_tells_what_is_not_enforced() {
    let lint = |text: &str, flags: &[&str]| {
        run_with_input(&[&["mixer", "validate", "-", "--lint"][..], flags].concat(), text)
    };
    let told = |text: &str| -> Vec<String> {
        let out = lint(text, &["-o", "plain", "--strict"]);
        assert_eq!(out.code, 0, "it may be meant: {}", out.out);
        out.out.lines().filter(|line| line.contains("[enforcement-")).map(str::to_owned).collect()
    };
    let [tried, limits] = &told(SHADOW)[..] else { panic!("{:?}", told(SHADOW)) };
    assert!(tried.contains("-:6:") && tried.contains("info[enforcement-dry-run]"), "{tried}");
    assert!(
        limits.contains("info[enforcement-shadow]") && limits.contains("`shadow_mode: true`"),
        "{limits}"
    );
    let shadow = SHADOW.replace("mode: enforce", "mode: shadow").replace("shadow: false", "shadow: true");
    let found = told(&shadow);
    assert_eq!(found.len(), 4, "{found:?}");
    for (line, what) in
        [(20, "`mode: shadow`: every check of Envoy"), (21, "`shadow: true`: every rate limit")]
    {
        let of = |told: &&String| told.contains(what);
        let told = found.iter().find(of).unwrap_or_else(|| panic!("{what}: {found:?}"));
        assert!(told.contains(&format!("-:{line}:")) && told.contains("info[enforcement-shadow]"), "{told}");
    }
    let without = run_with_input(&["mixer", "validate", "-"], &shadow);
    assert!(!without.out.contains("[enforcement-"), "{}", without.out);
    for code in ["enforcement-shadow", "enforcement-dry-run"] {
        let ran = run(&["mixer", "explain-code", code]);
        assert!(ran.code == 0 && ran.out.contains("\n  example: "), "{}{}", ran.out, ran.err);
    }
}

/// A name that nothing has is most likely misspelt.
#[test]
fn routes_of_nothing_are_an_error_with_the_nearest_name() {
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().display().to_string();
    std::fs::write(directory.path().join("a.yaml"), SHADOW).unwrap();
    let show = |flags: &[&str]| run(&[&["mixer", "routes", "show", "--config", &config], flags].concat());
    for (flags, told, hint) in [
        (["--namespace", "nosuch"], "the namespace `nosuch` has no routes of its own", "take the routes of"),
        (["--namespace", "istio-sytem"], "the namespace `istio-sytem` has", "did you mean `istio-system`?"),
        (["--handler", "nosuch"], "no route leads to a handler `nosuch`", "NAME.NAMESPACE"),
        (["--handler", "refuze"], "no route leads to", "did you mean `refuse.istio-system`?"),
        (["--handler", "refuse"], "no route leads to", "did you mean `refuse.istio-system`?"),
        (
            ["--match", "source.user=a,source.user=b"],
            "gives the attribute `source.user` several times",
            "ask once",
        ),
    ] {
        let ran = show(&flags);
        let is_told = ran.err.contains(told) && ran.err.contains(hint);
        assert!(ran.code == 2 && ran.out.is_empty() && is_told, "{flags:?}: {}{}", ran.out, ran.err);
    }
    // What exists, and has no route of a variety.
    let none = show(&["--namespace", "istio-system", "--variety", "report"]);
    assert!(none.code == 0 && none.out.contains("0 routes"), "{}{}", none.out, none.err);
    assert_eq!(show(&["--handler", "ref*"]).code, 0);
}

#[test]
fn a_new_adapter_overwrites_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().display().to_string();
    std::fs::create_dir(directory.path().join("src")).unwrap();
    std::fs::write(directory.path().join("src/main.rs"), "mine").unwrap();
    let refused = run(&["mixer", "adapter", "new", "gate", "--directory", &path]);
    assert_eq!((refused.code, &*refused.out), (3, ""));
    let text = format!(
        "error: `{path}/src/main.rs` exists\n  hint: nothing was written; give another name, or another directory with --directory\n"
    );
    assert_eq!(refused.err, text);
    assert_eq!(std::fs::read_dir(&path).unwrap().count(), 1);
    assert_eq!(std::fs::read_to_string(directory.path().join("src/main.rs")).unwrap(), "mine");
    // Files of others are no obstacle.
    std::fs::rename(directory.path().join("src/main.rs"), directory.path().join("LICENSE")).unwrap();
    let ran = run(&["mixer", "adapter", "new", "gate", "--directory", &path]);
    assert_eq!((ran.code, ran.out), (0, format!("17 files in {path}\nnext: {path}/README.md\n")));
    for (arguments, why) in [
        (&["Gate"][..], "it must have 1 to 63 lower-case letters, digits and hyphens"),
        (&["match"], "it is reserved in Rust and cannot be the name of a crate"),
        (&["gate", "--template", "listentri"], "did you mean `listentry`"),
        (&["gate", "--template", "owner:chek"], "`chek` is no variety"),
        (
            &["gate", "--template", "owner:check,owner:quota"],
            "the template `owner` is given twice, with two varieties",
        ),
        (&["gate", "--namespace", "a b"], "it must have 1 to 63"),
    ] {
        let ran = run(&[&["mixer", "adapter", "new", "--directory", &path], arguments].concat());
        assert_eq!((ran.code, &*ran.out), (2, ""), "{arguments:?}");
        assert!(ran.err.contains(why), "{arguments:?}: {}", ran.err);
    }
}

#[test]
fn resources_are_made_of_protos() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().display().to_string();
    let made = run(&["mixer", "adapter", "new", "gate", "--template", "owner:check", "--directory", &path]);
    assert_eq!(made.code, 0, "{}", made.err);
    let protos = format!("{path}/proto");
    let resources = |arguments: &[&str]| {
        run(&[&["mixer", "adapter", "resources", "gate", "-I", &protos], arguments].concat())
    };
    let ran = resources(&["--template", "owner.proto", "--params", "params.proto"]);
    assert_eq!(ran.out, std::fs::read_to_string(format!("{path}/config/adapter.yaml")).unwrap());
    let session = resources(&["--template", "owner.proto", "--session-based", "--namespace", "shop"]);
    assert!(
        session.out.ends_with(
            "metadata: {name: gate, namespace: shop}\nspec:\n  templates: [owner]\n  session_based: true\n"
        ),
        "{}",
        session.out
    );
    std::fs::write(format!("{protos}/broken.proto"), "syntax = \"proto3\";\nmessage A { strin x = 1; }\n")
        .unwrap();
    for (arguments, code, why) in [
        (&["--template", "params.proto"][..], 3, "`params.proto` is no template"),
        (&["--template", "owner.proto", "--params", "owner.proto"], 3, "`owner.proto` has no parameters"),
        (&["--template", "nowhere.proto"], 3, "cannot compile `nowhere.proto`"),
        (&["--template", "broken.proto"], 3, "broken.proto:2:"),
        (&[], 2, "--template"),
    ] {
        let ran = resources(arguments);
        assert_eq!((ran.code, &*ran.out), (code, ""), "{arguments:?}");
        assert!(ran.err.contains(why), "{arguments:?}: {}", ran.err);
    }
}

/// Rules with a misspelt handler, each with two errors.
fn broken_rules(count: usize) -> String {
    let rule = |n: usize| {
        format!(
            "---\napiVersion: config.istio.io/v1alpha2\nkind: rule\nmetadata: {{name: r{n}, namespace: istio-system}}\n\
             spec: {{actions: [{{handler: nobody, instances: [nothing]}}]}}\n"
        )
    };
    (0..count).map(rule).collect()
}

#[test]
fn a_table_has_the_first_problems_and_what_follows_from_them() {
    let ran = run_with_input(&["mixer", "validate", "-o", "table", "-"], &broken_rules(3000));
    assert_eq!(ran.code, 1);
    let count = |text: &str| ran.out.matches(text).count();
    assert_eq!((count("┌─"), count("= therefore: error[rule-empty]")), (50, 50), "{}", ran.out);
    let summary = ran.err.trim_end();
    assert!(summary.ends_with(" not listed") && summary.contains(" errors, "), "{summary}");
}

/// Names are no order: `r10` comes before `r2` in theirs. What is shown first has its text, and all commands count the rest.
#[test]
fn of_very_many_problems_those_that_are_shown_first_have_their_texts() {
    const RULES: usize = 6_000;
    let rules = broken_rules(RULES);
    let ran = run_with_input(&["mixer", "validate", "-o", "table", "-"], &rules);
    assert!(!ran.out.contains("further problems"), "{}", ran.out);
    assert!(ran.err.contains(&format!(": {} errors, ", 2 * RULES)), "{}", ran.err);
    let ran = run_with_input(&["mixer", "check", "--config", "-", "-s", "source.user=ann"], &rules);
    assert!(ran.err.contains(&format!("`-` has {} errors and is evaluated", 2 * RULES)), "{}", ran.err);
}

#[test]
fn every_format_but_the_plain_one_has_the_hints() {
    let rule = "apiVersion: config.istio.io/v1alpha2\nkind: rules\nmetadata: {name: r, namespace: istio-system}\nspec: {}\n";
    let of = |format: &str| run_with_input(&["mixer", "validate", "-o", format, "-"], rule);
    for format in ["text", "github", "sarif", "json", "yaml", "table"] {
        let ran = of(format);
        assert!(ran.code == 1 && ran.out.contains("did you mean `rule`?"), "{format}: {}", ran.out);
    }
    assert!(of("github").out.starts_with("::error file=-,line=2,col="), "{}", of("github").out);
    assert_eq!(json(&of("sarif"))["runs"][0]["results"][0]["ruleId"], "kind-unknown");
    let path = scenario("broken-rule");
    let (by_flag, by_path) =
        (run(&["mixer", "validate", "--config", &path]), run(&["mixer", "validate", &path]));
    assert_eq!((by_flag.code, by_flag.out), (by_path.code, by_path.out));
}

/// Every code that the examples of mistakes have is explained.
#[test]
fn codes_are_explained() {
    let examples = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/bad");
    let mut codes = std::collections::BTreeSet::new();
    for example in std::fs::read_dir(examples).unwrap() {
        let Ok(text) = std::fs::read_to_string(example.unwrap().path().join("expected")) else { continue };
        let lines =
            text.lines().filter_map(|line| line.trim_start_matches("- ").trim().strip_prefix("code: "));
        codes.extend(lines.map(|code| code.trim_matches(['"', '\'']).to_owned()));
    }
    assert!(codes.len() > 50, "{codes:?}");
    for code in &codes {
        let ran = run(&["mixer", "explain-code", code]);
        assert!(
            ran.code == 0 && ran.out.starts_with(&format!("{code} (")),
            "{code}: {} {}",
            ran.out,
            ran.err
        );
        assert!(ran.out.contains("\n  what to do: "), "{code}: {}", ran.out);
    }
    for ran in codes.iter().map(|code| run(&["mixer", "explain-code", code])) {
        assert!(ran.out.lines().last().is_some_and(|line| line.starts_with("  example: ")), "{}", ran.out);
    }
    // As a diagnostic has it.
    let told = run(&["mixer", "explain-code", "handler-unknown"]).out;
    for copied in ["error[handler-unknown]", "error[handler-unknown]:", "[handler-unknown]"] {
        let ran = run(&["mixer", "explain-code", copied]);
        assert_eq!((ran.code, &ran.out), (0, &told), "{copied}: {}", ran.err);
    }
    let misspelt = run(&["mixer", "explain-code", "handler-unkown"]);
    assert!(misspelt.code == 2 && misspelt.err.contains("`handler-unknown`"), "{}", misspelt.err);
    assert!(run(&["mixer", "explain-code"]).out.lines().any(|line| line == "handler-unknown"));
}

/// Cause, cure and example of every code that the source has.
#[test]
fn every_code_of_the_source_is_explained() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut codes = std::collections::BTreeSet::new();
    let mut paths = vec![root];
    while let Some(path) = paths.pop() {
        if path.is_dir() {
            paths.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            continue;
        }
        let name = path.display().to_string();
        // Tests have codes of their own, and so has the adapter for drills.
        if !name.ends_with(".rs") || name.contains("tests") || name.ends_with("drill.rs") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        for call in ["Diagnostic::error(", "Diagnostic::warning(", "Diagnostic::info("] {
            let code = |rest: &str| Some(rest.trim_start().strip_prefix('"')?.split('"').next()?.to_owned());
            codes.extend(text.split(call).skip(1).filter_map(code));
        }
    }
    assert!(codes.len() > 60, "{codes:?}");
    for code in &codes {
        let ran = run(&["mixer", "explain-code", code]);
        let told = ["\n  what to do: ", "\n  example: "].iter().all(|part| ran.out.contains(part));
        assert!(ran.code == 0 && told, "{code}: {}{}", ran.out, ran.err);
    }
}

/// What `init` writes is valid without a remark, its tests pass, and a second call overwrites nothing.
#[test]
fn a_new_policy_is_valid_and_passes_its_tests() {
    for caller in ["envoy", "mixer"] {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().join("new");
        let shown = place.display().to_string();
        let init = ["mixer", "init", &shown, "--for", caller];
        let ran = run(&init);
        assert_eq!((ran.code, &*ran.err), (0, ""), "{caller}");
        assert!(ran.out.contains("  mixer server --config policy\n"), "{}", ran.out);
        // Without a service, all that Envoy allows is 503.
        for line in ["  envoy -c envoy.yaml\n", "http.server 8081", "localhost:8000/"] {
            assert_eq!(ran.out.contains(line), caller == "envoy", "{line}: {}", ran.out);
        }
        let policy = place.join("policy").display().to_string();
        let valid = run(&["mixer", "validate", &policy, "--lint", "--strict"]);
        assert!(valid.code == 0 && valid.err.contains("0 errors, 0 warnings"), "{}{}", valid.out, valid.err);
        let tests = place.join("tests.yaml").display().to_string();
        let tested = run(&["mixer", "test", &tests]);
        assert!(tested.code == 0, "{}{}", tested.out, tested.err);
        // The directory above has the other files, too.
        let above = run(&["mixer", "validate", &shown]);
        assert!(
            above.code == 1 && above.out.contains("these are policy tests, for `mixer test`: "),
            "{}",
            above.out
        );
        assert_eq!(
            above.out.contains("this is the bootstrap of an Envoy: "),
            caller == "envoy",
            "{}",
            above.out
        );
        let envoy = std::fs::read_to_string(place.join("envoy.yaml"));
        assert_eq!(envoy.is_ok(), caller == "envoy");
        let envoy = envoy.unwrap_or_default();
        assert!(
            caller != "envoy" || (envoy.contains("port_value: 8081") && envoy.contains("port_value: 8000"))
        );
        assert!(!envoy.contains('$'), "variables of the example");
        // Rules on paths see what the service sees.
        for field in ["normalize_path: true", "merge_slashes: true", "path_with_escaped_slashes_action: "] {
            assert!(caller != "envoy" || envoy.contains(field), "{field}");
        }
        std::fs::write(&tests, "mine").unwrap();
        let again = run(&init);
        assert!(again.code == 3 && again.err.contains("exists"), "{}", again.err);
        assert_eq!(std::fs::read_to_string(&tests).unwrap(), "mine");
    }
    // What it prints is for a shell.
    let directory = tempfile::tempdir().unwrap();
    let spaced = directory.path().join("a b").display().to_string();
    let ran = run(&["mixer", "init", &spaced]);
    assert!(ran.out.contains(&format!("\n  cd '{spaced}'\n")), "{}", ran.out);
    // A limit of five.
    let directory = tempfile::tempdir().unwrap();
    let shown = directory.path().display().to_string();
    let next = run(&["mixer", "init", &shown, "--for", "mixer"]).out;
    let policy = directory.path().join("policy").display().to_string();
    // What it says of its checks.
    let checks: Vec<_> = next.lines().filter(|line| line.trim_start().starts_with("mixer check")).collect();
    for (line, told) in [(0, "PERMISSION_DENIED"), (1, ": 5 ok, 1 denied, 0 failed")] {
        let words = checks[line].split('#').next().unwrap_or_default().split_whitespace();
        let words: Vec<&str> = words.chain(["--config", &policy]).collect();
        let ran = run(&words);
        assert!(ran.code == 1 && format!("{}{}", ran.out, ran.err).contains(told), "{}{}", ran.out, ran.err);
    }
    let check =
        ["mixer", "check", "--config", &policy, "-s", "request.user=bob,request.path=/", "-q", "requests=6"];
    let granted = run(&[&check[..], &["--require-quota"]].concat());
    assert_eq!(granted.code, 1, "{}", granted.out);
}

#[test]
fn an_explanation_of_many_rules_lists_what_matters_and_counts_the_rest() {
    let base = "apiVersion: config.istio.io/v1alpha2\nkind: attributemanifest\nmetadata: {name: m, namespace: istio-system}\n\
                spec: {attributes: {source.user: {valueType: STRING}, request.method: {valueType: STRING}, \
                destination.namespace: {valueType: STRING}, context.reporter.kind: {valueType: STRING}}}\n---\n\
                apiVersion: config.istio.io/v1alpha2\nkind: handler\nmetadata: {name: d, namespace: istio-system}\n\
                spec: {compiledAdapter: denier, params: {status: {code: 7}}}\n---\n\
                apiVersion: config.istio.io/v1alpha2\nkind: instance\nmetadata: {name: i, namespace: istio-system}\n\
                spec: {compiledTemplate: checknothing}\n";
    let rule = |n: usize| {
        format!(
            "---\napiVersion: config.istio.io/v1alpha2\nkind: rule\nmetadata: {{name: r{n}, namespace: istio-system}}\n\
             spec:\n  match: request.method == \"M{}\" && source.user == \"u{n}\"\n  actions: [{{handler: d, instances: [i]}}]\n",
            if n == 77 { 0 } else { n }
        )
    };
    let directory = tempfile::tempdir().unwrap();
    let text: String = std::iter::once(base.to_owned()).chain((0..3000).map(rule)).collect();
    std::fs::write(directory.path().join("all.yaml"), text).unwrap();
    let path = directory.path().display().to_string();
    let check = ["mixer", "check", "--config", &path, "--explain", "-s", "source.user=u0,request.method=M0"];
    let answer = json(&run(&[&check[..], &["-o", "json"]].concat()));
    let explanation = &answer["explanation"];
    let rules = explanation["rules"].as_array().unwrap();
    assert_eq!(rules.len(), 52, "one matched, one nearly did, fifty others");
    let has = |name: &str| rules.iter().find(|rule| rule["rule"] == format!("{name}.rule.istio-system"));
    assert_eq!(has("r0").unwrap()["verdict"], "matched");
    assert!(has("r77").unwrap()["nearMiss"].as_str().unwrap().contains("source.user"), "{explanation}");
    assert_eq!(explanation["omitted"]["notMatched"], 3000 - 52);
    let text = run(&check).out;
    assert!(text.contains("2948 rules that did not match are not listed"), "{text}");
    assert!(text.contains("page 1 of 60 pages of rules; --explain-page 2 lists the next"), "{text}");
    // Other pages have other rules, and what matters is on the first one.
    let mut names = std::collections::BTreeSet::new();
    for (page, listed) in [("1", 52), ("2", 50), ("60", 48)] {
        let answer = json(&run(&[&check[..], &["-o", "json", "--explain-page", page]].concat()));
        let rules = answer["explanation"]["rules"].as_array().unwrap();
        assert_eq!(rules.len(), listed, "page {page}");
        assert_eq!(
            answer["explanation"]["omitted"]["notMatched"],
            3000 - listed - if page == "1" { 0 } else { 2 }
        );
        names.extend(rules.iter().map(|rule| rule["rule"].as_str().unwrap().to_owned()));
    }
    assert_eq!(names.len(), 52 + 50 + 48);
    let behind = json(&run(&[&check[..], &["-o", "json", "--explain-page", "61"]].concat()));
    assert_eq!(behind["explanation"]["rules"].as_array().map(Vec::len), Some(0));
}

/// A configuration has one flag in every command.
#[test]
fn a_server_takes_its_configuration_as_other_commands_do() {
    let path = scenario("harbor");
    // The start fails after the banner.
    let flags = ["--config", &path, "--default-namespace", "mesh", "--max-message-size", "0"];
    let ran = run(&[&["mixer", "server"][..], &flags].concat());
    assert!(ran.out.contains(&format!("ConfigStoreURL:  fs://{path}\n")), "{} {}", ran.out, ran.err);
    assert!(ran.out.contains("ConfigDefaultNamespace:  mesh\n"), "{}", ran.out);
    let ran = run(&["mixs", "server", "--config", &path]);
    assert_ne!(ran.code, 0, "Istio Mixer has no such flag");
}

#[test]
fn expressions_are_evaluated_over_given_attributes() {
    let eval = |expression: &str, more: &[&str]| run(&[&["mixer", "eval", expression][..], more].concat());
    let given = [
        "-s",
        "request.path=/admin/x",
        "--stringmap-attributes",
        "request.headers=x-user:ann",
        "-i",
        "request.size=7",
    ];
    for (expression, code, out) in [
        ("request.path.startsWith(\"/admin\")", 0, "true\n"),
        ("request.size > 7", 1, "false\n"),
        ("request.headers[\"x-user\"] | \"nobody\"", 0, "\"ann\"\n"),
        ("request.headers[\"x-team\"] | \"none\"", 0, "\"none\"\n"),
    ] {
        let ran = eval(expression, &given);
        assert_eq!((ran.code, ran.out.as_str()), (code, out), "{expression}: {}", ran.err);
    }
    let absent = eval("request.headers[\"x-team\"] == \"a\"", &given);
    assert_eq!((absent.code, absent.out.as_str()), (1, "false\n"), "an absent key is empty: {}", absent.err);
    let table = eval("request.size == 7 && request.path == \"/\"", &[&given[..], &["-o", "table"]].concat());
    assert!(
        table.out.starts_with("false") && table.out.contains("request.path == \"/\"  is false"),
        "{}",
        table.out
    );
    let wrong = eval("source.usr == \"a\"", &["-s", "source.user=a"]);
    assert!(wrong.code == 2 && wrong.err.contains("source.usr"), "{}", wrong.err);
    let cel = eval("request.path in [\"/a\", \"/admin/x\"]", &[&given[..], &["--lang", "CEL"]].concat());
    assert_eq!((cel.code, cel.out.as_str()), (0, "true\n"), "{}", cel.err);
    let declared = eval("source.user == \"a\"", &["--config", &scenario("harbor"), "-s", "source.user=a"]);
    assert_eq!(declared.code, 0, "{}", declared.err);
}

/// What `validate` says of a condition, `eval` says of the same expression.
#[test]
fn eval_tells_of_an_expression_what_validate_does() {
    let given = "request.path=/adm,request.method=GET";
    for (expression, code, told) in [
        (
            "request.path.matches(\"^/admin\")",
            0,
            "warning: `matches` has the pattern on its left and the text on its right side (write ",
        ),
        ("request.headers[\"X-User\"] == \"a\"", 1, "warning: "),
        ("request.method == GET", 2, "  hint: in quotes it is a text"),
        ("source.ip == ip(\"10.0.0.0/8\")", 1, "IP_ADDRESSES"),
        ("request.method && true", 2, "  cause: `request.method` is STRING, expected BOOL\n"),
        ("request.quxxyz == \"a\"", 2, "give its value, which declares it here: `-s request.quxxyz=text`"),
    ] {
        let headers = ["--stringmap-attributes", "request.headers=x-user:ann"];
        let ran = run(&[&["mixer", "eval", expression, "-s", given][..], &headers].concat());
        assert!(ran.code == code && ran.err.contains(told), "{expression}: {} {}", ran.code, ran.err);
        // The same words.
        let rule = format!(
            "kind: handler\nmetadata: {{name: h, namespace: istio-system}}\nspec: {{compiledAdapter: denier}}\n---\n\
             kind: instance\nmetadata: {{name: i, namespace: istio-system}}\nspec: {{compiledTemplate: checknothing}}\n---\n\
             kind: rule\nmetadata: {{name: r, namespace: istio-system}}\n\
             spec:\n  match: '{expression}'\n  actions: [{{handler: h, instances: [i]}}]\n"
        );
        let validated = run_with_input(&["mixer", "validate", "-o", "json", "-"], &rule);
        let problems = json(&validated)["diagnostics"].as_array().cloned().unwrap_or_default();
        let is_of_text = |problem: &&serde_json::Value| {
            let code = problem["code"].as_str().unwrap_or_default();
            [
                "matches-reversed",
                "header-key-case",
                "attribute-unknown",
                "expression-fails",
                "expression-type",
            ]
            .contains(&code)
        };
        let found: Vec<_> = problems.iter().filter(is_of_text).collect();
        assert_eq!(found.len(), 1, "{expression}: {problems:?}");
        let hint = found.iter().find_map(|problem| problem["hint"].as_str()).unwrap_or_default();
        assert!(ran.err.contains(hint), "{expression}: {hint}: {}", ran.err);
    }
    // The value alone is what a script reads, and what fails whatever is given says so in other formats as well.
    let fails = ["mixer", "eval", "source.ip == ip(\"10.0.0.0/8\")", "-o", "json"];
    let ran = run(&fails);
    assert!(json(&ran)["error"].is_string() && ran.err.contains("IP_ADDRESSES"), "{}{}", ran.out, ran.err);
}

/// What has no value is a failure: not a text on standard output that a script takes for one.
#[test]
fn what_eval_cannot_evaluate_is_a_failure() {
    let misspelt = ["mixer", "eval", "request.method == \"GET\"", "-s", "request.methd=GET"];
    let ran = run(&misspelt);
    assert_eq!((ran.code, ran.out.as_str()), (1, ""), "{}", ran.err);
    let told = "warning: the attribute `request.methd` is not declared, and the expression does not name it; did you mean `request.method`?\n";
    assert!(ran.err.starts_with(told), "{}", ran.err);
    assert!(ran.err.contains("cannot be evaluated") && ran.err.contains("lookup failed"), "{}", ran.err);
    let ran = run(&[&misspelt[..], &["--error-format", "json"]].concat());
    assert!(
        ran.out.is_empty() && ran.err.lines().all(|line| line.starts_with('{')),
        "{}{}",
        ran.out,
        ran.err
    );
    let ran = run(&[&misspelt[..], &["-o", "json"]].concat());
    let document: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((ran.code, &document["value"]), (1, &serde_json::Value::Null));
    assert_eq!(document["error"], "lookup failed: 'request.method'");
}

/// As `check` does: without it, an expression is false and nothing says why.
#[test]
fn eval_tells_of_values_of_another_type() {
    let of_text = run(&["mixer", "eval", "source.ip == ip(\"10.1.2.3\")", "-s", "source.ip=10.1.2.3"]);
    assert_eq!(of_text.code, 1, "{}", of_text.err);
    let told = "warning: the attribute `source.ip` is IP_ADDRESS and sent as STRING: no rule can use it; \
        write `--ip-attributes source.ip=10.1.2.3`\n";
    assert!(of_text.err.starts_with(told), "{}", of_text.err);
    // The same of what a manifest declares, and before what does not compile.
    let declared = ["--config", &scenario("harbor"), "-i", "source.user=7"];
    let ran = run(&[&["mixer", "eval", "source.user == 7"][..], &declared].concat());
    assert!(
        ran.code == 2 && ran.err.starts_with("warning: the attribute `source.user` is STRING"),
        "{}",
        ran.err
    );
    let right =
        run(&["mixer", "eval", "source.ip == ip(\"10.1.2.3\")", "--ip-attributes", "source.ip=10.1.2.3"]);
    assert_eq!((right.code, right.err.as_str()), (0, ""));
}

/// `fmt` rewrites, checks, shows, and reads standard input; what it refuses stays as it is.
#[test]
fn files_are_formatted() {
    const BEFORE: &str =
        "kind: rule\nspec:\n    actions: []\n    match: x == 1 # why\nmetadata: {name: r, namespace: n}\n";
    const AFTER: &str =
        "kind: rule\nmetadata: {name: r, namespace: n}\nspec:\n  match: x == 1 # why\n  actions: []\n";
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    std::fs::create_dir(path("below")).unwrap();
    std::fs::write(path("below/rule.yml"), BEFORE).unwrap();
    std::fs::write(path("formatted.yaml"), AFTER).unwrap();
    std::fs::write(path("notes.txt"), BEFORE).unwrap();
    let shown = directory.path().display().to_string();
    let file = path("below/rule.yml").display().to_string();
    let read = || std::fs::read_to_string(path("below/rule.yml")).unwrap();

    let check = run(&["mixer", "fmt", "--check", &shown]);
    assert_eq!((check.code, check.out), (1, format!("{file}\n")), "{}", check.err);
    assert!(check.err.contains("1 file to format"), "{}", check.err);
    let diff = run(&["mixer", "fmt", "--diff", &shown]);
    assert_eq!((diff.code, diff.err.as_str()), (0, ""));
    let has = |text: &str| diff.out.contains(text);
    assert!(
        has(&format!("--- {file}\n")) && has("-    match: x == 1 # why\n") && has("+  match: x == 1 # why\n"),
        "{}",
        diff.out
    );
    assert_eq!(run(&["mixer", "fmt", "--diff", "--check", &shown]).code, 1);
    assert_eq!(read(), BEFORE, "nothing was written");

    let written = run(&["mixer", "fmt", &shown]);
    assert_eq!((written.code, written.out, written.err.as_str()), (0, format!("{file}\n"), ""));
    assert_eq!(read(), AFTER);
    let again = run(&["mixer", "fmt", "--check", &shown]);
    assert_eq!((again.code, again.out.as_str(), again.err.as_str()), (0, "", ""));
    assert_eq!(std::fs::read_to_string(path("notes.txt")).unwrap(), BEFORE);

    let piped = run_with_input(&["mixer", "fmt", "-"], BEFORE);
    assert_eq!((piped.code, piped.out.as_str()), (0, AFTER), "{}", piped.err);
    assert_eq!(run_with_input(&["mixer", "fmt", "--check", "-"], BEFORE).code, 1);
    assert_eq!(run_with_input(&["mixer", "fmt", "--check", "-"], AFTER).code, 0);

    // One that cannot be formatted, and what is beside it.
    std::fs::write(path("below/broken.yaml"), "a: 1\n---\nb: 1\nb: 2\n").unwrap();
    std::fs::write(path("below/rule.yml"), BEFORE).unwrap();
    let refused = run(&["mixer", "fmt", &shown]);
    let error = format!(
        "error: {}:3: cannot be formatted\n  cause: a key is there twice",
        path("below/broken.yaml").display()
    );
    assert!(refused.code == 2 && refused.err.starts_with(&error), "{}", refused.err);
    assert_eq!(read(), AFTER);
    for (arguments, text) in [
        (&["mixer", "fmt"][..], "PATH"),
        (&["mixer", "fmt", "-", "x"], "`-` stands alone"),
        (&["mixer", "fmt", "/nowhere/x.yaml"], "cannot read"),
    ] {
        let ran = run(arguments);
        assert!(ran.code != 0 && ran.err.contains(text), "{}", ran.err);
    }
}
