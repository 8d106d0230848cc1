//! The decision log and recorded requests of a server, `mixer test` and `mixer diff`.

use std::path::{Path, PathBuf};

use crate::support::{DEADLINE, Finished, Server, http, programs, run, sample_configuration, wait_for};
use mixer::cmd;
use serde_json::Value;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Runs `mixer` in the root of the repository.
fn mixer(arguments: &[&str]) -> Finished {
    let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
    run(&programs().path("mixer"), &arguments, &[], Some(&root()), None, DEADLINE).unwrap()
}

/// The lines of a file of JSON lines.
fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A server on the sample configuration that logs and records into `directory`.
fn recording_server(directory: &Path, more: &[&str]) -> Server {
    let log = format!("--decision-log={}", directory.join("log.json").display());
    let recording = format!("--record-requests={}", directory.join("calls.jsonl").display());
    Server::on(&sample_configuration()).with(&[&log, &recording]).with(more).start()
}

#[test]
fn decisions_are_logged_and_requests_recorded() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = recording_server(directory.path(), &["--record-max-requests=2"]);
    let address = server.address();
    for token in ["Bearer one", "Bearer two", "Bearer three"] {
        let headers = format!("request.headers=authorization:{token};accept:text");
        let asked = ["check", "-m", &address, "-s", "source.name=web", "--stringmap-attributes", &headers];
        let done = mixer(&[&asked[..], &["-q", "request-count=1"]].concat());
        assert!(done.stdout.starts_with("Check RPC completed"), "{} {}", done.stdout, done.stderr);
    }
    let metrics = || http("GET", &server.monitoring_url("/metrics"), "").unwrap().body;
    let wanted = "mixer_decision_log_written_total{file=\"log\"} 3";
    let found = wait_for(DEADLINE, || metrics().contains(wanted).then_some(()));
    assert!(found.is_some(), "{}", metrics());
    assert_eq!(server.terminate(), Ok(Some(0)));

    let logged = lines(&directory.path().join("log.json"));
    assert_eq!(logged.len(), 3);
    let recorded = lines(&directory.path().join("calls.jsonl"));
    assert_eq!(recorded, logged[..2], "--record-max-requests=2");
    let first = &logged[0];
    assert_eq!(first["method"], "check");
    assert_eq!(first["attributes"]["request.headers"]["authorization"], "***");
    assert_eq!(first["attributes"]["request.headers"]["accept"], "text");
    assert_eq!(first["masked"], serde_json::json!(["request.headers[authorization]"]));
    assert_eq!(first["answer"]["status"]["name"], "OK");
    assert!(first["answer"]["referenced"].as_array().is_some_and(|list| !list.is_empty()), "{first}");
    assert_eq!(first["answer"]["quotas"]["request-count"]["granted"], 1);
    assert!(first["tookMicros"].as_u64().is_some_and(|micros| micros > 0));
}

#[test]
fn a_decision_log_that_cannot_be_written_is_a_startup_error() {
    let refused =
        Server::on(&sample_configuration()).with(&["--decision-log=/proc/none"]).try_start().unwrap_err();
    let text = "unable to log decisions: cannot open decision log `/proc/none`: no such file or directory";
    assert!(refused.contains(text), "{refused}");
}

/// Runs `mixer` in this process; status, standard output, standard error.
fn within(arguments: &[&str]) -> (u8, String, String) {
    let (mut io, captured) = cmd::Io::captured("");
    let words = std::iter::once("mixer").chain(arguments.iter().copied());
    let status = match cmd::parse(words.map(Into::into)) {
        Ok(invocation) => invocation.run(&mut io),
        Err(shown) => shown.code,
    };
    (status, captured.out(), captured.err())
}

#[test]
fn the_tests_of_the_sample_configuration_pass() {
    let (status, out, err) = within(&["test", root().join("testdata/policy-tests").to_str().unwrap()]);
    assert_eq!(status, 0, "{out}{err}");
    assert!(out.contains("ok ") && out.contains(" 0 failed, 0 filtered out"), "{out}");
}

/// A PolicyTest file on the sample configuration.
fn suite(directory: &Path, tests: &str) -> String {
    let file = directory.join("suite.yaml");
    let config = root().join("testdata/config");
    let text = format!("apiVersion: mixer/v1\nkind: PolicyTest\nconfig: {}\n{tests}", config.display());
    std::fs::write(&file, text).unwrap();
    file.display().to_string()
}

const FAILING: &str = r#"tests:
- name: passes
  check: {attributes: {source.name: web}}
  expect: {status: OK}
- name: "fails <twice>"
  check:
    attributes: {destination.service: closed.ns.svc.cluster.local}
  expect:
    status: OK
    rules: [unwelcome-client]
    validUseCount: 1000
- name: fails without an answer
  stubs: [{handler: turn-away.istio-system, error: "out of order"}]
  check:
    attributes: {destination.service: closed.ns.svc.cluster.local}
  expect: {status: PERMISSION_DENIED}
"#;

#[test]
fn failures_are_reported_with_position_expectation_and_result() {
    let directory = tempfile::tempdir().unwrap();
    let file = suite(directory.path(), FAILING);
    let junit = directory.path().join("results.xml");
    let (status, out, _) = within(&["test", &file, "--junit", junit.to_str().unwrap()]);
    assert_eq!(status, 1);
    let expected = format!(
        "ok {file}: passes\n\
         FAIL {file}: fails <twice>\n      \
               {file}:12:13: status\n        \
                 expected  OK\n        \
                 found     PERMISSION_DENIED (turn-away.istio-system:this client may not call this service)\n        \
                 rules     closed-service.rule.istio-system\n      \
               {file}:13:12: rules\n        \
                 expected  unwelcome-client\n        \
                 found     closed-service.rule.istio-system\n\
         FAIL {file}: fails without an answer\n      \
               {file}:15:3: call\n        \
                 expected  an answer\n        \
                 found     INTERNAL: performing check operation failed: 1 error occurred:\n"
    );
    assert!(out.starts_with(&expected), "{out}\n---\n{expected}");
    assert!(out.contains("3 tests: 1 passed, 2 failed, 0 filtered out"), "{out}");

    let xml = std::fs::read_to_string(junit).unwrap();
    assert!(xml.contains("<testsuites tests=\"3\" failures=\"2\""), "{xml}");
    assert!(xml.contains("name=\"fails &lt;twice&gt;\""), "{xml}");
    assert!(
        xml.contains("message=\"rules: expected unwelcome-client, found closed-service.rule.istio-system\""),
        "{xml}"
    );

    let (status, out, _) = within(&["test", &file, "--filter", "passes", "-o", "json"]);
    assert_eq!(status, 0);
    let found: Value = serde_json::from_str(&out).unwrap();
    let summary = &found["summary"];
    assert_eq!((&summary["passed"], &summary["filtered"]), (&Value::from(1), &Value::from(2)));
    let (status, _, err) = within(&["test", &file, "--filter", "nothing of the kind"]);
    assert_eq!(status, 2, "no test was selected");
    assert!(err.contains("omit --filter"), "{err}");
    let (_, out, _) = within(&["test", &file, "--fail-fast"]);
    assert!(out.contains("2 tests: 1 passed, 1 failed"), "{out}");
}

const MISTAKEN: &str = r#"defaults: {attributes: {sorce.name: web}}
tests:
- name: a
  check:
    attributes:
      source.ip: 10.0.0
      request.size: many
    quota: {request-count: 1}
  expect:
    status: PERMISION_DENIED
    messageMatches: "a("
    rules: [closed-servise]
    validDuration: soon
    quotas: 3
    dryRun: {closed-service: refusd}
- name: a
  expect: {status: yes}
- check: {}
- name: c
  stubs: [{handler: limit.istio-system}]
  report: {}
  expect: {reported: [acces], referenced: [destination.servce EXACT]}
"#;

#[test]
fn mistakes_in_tests_are_reported_with_position_and_hint() {
    let directory = tempfile::tempdir().unwrap();
    let file = suite(directory.path(), MISTAKEN);
    let (status, out, err) = within(&["test", &file]);
    assert_eq!((status, out.as_str()), (2, ""));
    let found = err.replace(&format!("{file}:"), "");
    let expected = "\
4:25: unknown attribute `sorce.name`
  hint: did you mean `source.name`?
9:18: attribute `source.ip`: `10.0.0` is not a valid IP_ADDRESS; expected an address such as 10.0.0.1
10:21: attribute `request.size`: `many` is not a valid INT64; expected a whole number
11:5: unknown field `quota` in `check`
  hint: did you mean `quotas`?
13:13: `PERMISION_DENIED` is not a status code
  hint: did you mean `PERMISSION_DENIED`?
14:21: invalid regular expression `a(`: unclosed group
  hint: escape `( ) [ ] . *` with a backslash
15:13: the configuration has no rule `closed-servise`
  hint: did you mean `closed-service`?
16:20: `soon` is not a duration
  hint: write a duration as 250ms, 10s or 1m30s
17:13: `quotas` must be a mapping, not a number
  hint: write `quotas: {request-count: 1}`
18:30: `refusd` is not an outcome
  hint: did you mean `refused`?
19:3: missing `check`, `report` or `steps`
  hint: write `check:` with the attributes of a request, `report:`, or `steps:` with a list of them
19:3: duplicate test name `a`; first used on line 6
  hint: rename one
21:3: missing `name`
  hint: give the test a unique name
23:21: unknown handler `limit.istio-system`
  hint: did you mean `limits.istio-system`?
24:11: a report without records
  hint: write `attributes`, or `records` with a list of them
25:23: the configuration has no instance `acces`
  hint: did you mean `access`?
25:44: unknown attribute `destination.servce`
  hint: did you mean `destination.service`?
error: 17 problems in the tests or their configuration; no test was run
";
    assert_eq!(found, expected);
}

#[test]
fn unreadable_tests_have_exit_status_2() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let file = directory.path().join(name);
        std::fs::write(&file, text).unwrap();
        file.display().to_string()
    };
    let config = root().join("testdata/config").display().to_string();
    let broken = root().join("testdata/bad/match-one-equals-sign/config.yaml").display().to_string();
    let test = "tests: [{name: a, check: {}}]\n";
    for (file, expected) in [
        (write("none.yaml", "kind: rule\n"), "none.yaml:1:1: not a test file"),
        (write("yaml.yaml", "kind: PolicyTest\ntests: [\n"), "yaml.yaml:"),
        (
            write("config.yaml", &format!("kind: PolicyTest\n{test}")),
            "config.yaml:1:1: no configuration to test",
        ),
        (write("gone.yaml", &format!("kind: PolicyTest\nconfig: gone\n{test}")), "it is referenced at "),
        (write("bad.yaml", &format!("kind: PolicyTest\nconfig: {broken}\n{test}")), "[expression-parse]"),
        (
            write("two.yaml", &format!("kind: PolicyTest\nconfig: {config}\n{test}---\nkind: PolicyTest\n")),
            "a test file must have one document",
        ),
        (directory.path().join("missing.yaml").display().to_string(), "cannot read "),
    ] {
        let (status, out, err) = within(&["test", &file]);
        assert_eq!((status, out.as_str()), (2, ""), "{file}: {err}");
        assert!(err.contains(expected), "{file}: {err}");
    }
    // Other files in the directory are ignored.
    let mixed = tempfile::tempdir().unwrap();
    std::fs::write(mixed.path().join("rule.yaml"), "kind: rule\nmetadata: {name: x").unwrap();
    suite(mixed.path(), "tests: [{name: a, check: {}, expect: {status: OK}}]\n");
    assert_eq!(within(&["test", mixed.path().to_str().unwrap()]).0, 0);
    // Those that were meant to be tests are not.
    for (text, expected) in [
        ("kind: PolicyTests\n", "x.yaml:1:7: unknown kind `PolicyTests`\n  hint: did you mean `PolicyTest`?"),
        ("kind: policytest\n", "x.yaml:1:7: unknown kind `policytest`"),
        ("tests: []\n", "x.yaml:1:1: tests without `kind`"),
    ] {
        std::fs::write(mixed.path().join("x.yaml"), text).unwrap();
        let (status, _, err) = within(&["test", mixed.path().to_str().unwrap()]);
        assert!(status == 2 && err.contains(expected), "{text}: {err}");
    }
}

#[test]
fn a_test_that_expects_nothing_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let told = "nothing is expected, so that every result would pass";
    for (test, place) in [
        ("check: {}", "suite.yaml:5:3: "),
        ("check: {}, expect: {}", "suite.yaml:5:32: "),
        ("report: {attributes: {source.name: web}}", "suite.yaml:5:3: "),
        ("steps: [{check: {}}, {advance: 1s}]", "suite.yaml:5:21: "),
    ] {
        let file = suite(directory.path(), &format!("tests:\n- {{name: a, {test}}}\n"));
        let (status, _, err) = within(&["test", &file]);
        assert!(status == 2 && err.contains(&format!("{place}{told}")), "{test}: {err}");
    }
    // Steps that come before the one whose result counts need none.
    let steps = "tests: [{name: a, steps: [{check: {}}, {check: {}, expect: {status: OK}}]}]\n";
    let (status, out, err) = within(&["test", &suite(directory.path(), steps)]);
    assert_eq!(status, 0, "{out}{err}");
}

#[test]
fn an_expectation_that_holds_for_every_result_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    for (expected, told) in [
        ("rulesInclude: ", "`rulesInclude` lists nothing"),
        ("rulesInclude: []", "`rulesInclude` lists nothing"),
        ("rulesExclude: ", "`rulesExclude` lists nothing"),
        ("rulesExclude: []", "`rulesExclude` lists nothing"),
        ("referencedInclude: []", "`referencedInclude` lists nothing"),
        ("referencedExclude: ~", "`referencedExclude` lists nothing"),
        ("reportedInclude: []", "`reportedInclude` lists nothing"),
        ("dryRun: {}", "`dryRun` lists nothing"),
        ("dryRun: ", "`dryRun` lists nothing"),
        ("quotas: {}", "`quotas` lists nothing"),
        ("quotas: {request-count: {}}", "`request-count` lists nothing"),
        ("directResponse: {}", "`directResponse` lists nothing"),
        ("directResponse: {bodyMatches: ''}", "an empty pattern matches every text"),
        ("messageMatches: ''", "an empty pattern matches every text"),
        ("messageMatches: ", "a pattern must be a string, not nothing"),
        ("errorMatches: ''", "an empty pattern matches every text"),
        ("rules: ", "`rules` has no value"),
        ("referenced: ~", "`referenced` has no value"),
        ("reported: ", "`reported` has no value"),
        ("requestHeaders: ", "`requestHeaders` has no value"),
        ("responseHeaders: null", "`responseHeaders` has no value"),
        ("reported: [{instance: accesslog, values: }]", "`values` lists nothing"),
        ("reported: [{instance: accesslog, values: {}}]", "`values` lists nothing"),
        ("reportedInclude: [{instance: accesslog, values: [a]}]", "`values` must be a mapping"),
    ] {
        // Beside an expectation that says something.
        let text = format!("tests:\n- name: a\n  check: {{}}\n  expect:\n    status: OK\n    {expected}\n");
        let (status, _, err) = within(&["test", &suite(directory.path(), &text)]);
        let place = "suite.yaml:9:";
        assert!(status == 2 && err.contains(place) && err.contains(told), "{expected}: {err}");
        assert!(err.contains("  hint: ") || expected.ends_with("Matches: "), "{expected}: {err}");
    }
    for steps in ["steps: []", "steps: "] {
        let text = format!("tests:\n- name: a\n  {steps}\n");
        let (status, _, err) = within(&["test", &suite(directory.path(), &text)]);
        assert!(status == 2 && err.contains("`steps` lists nothing"), "{steps}: {err}");
    }
    // An empty list of what has to be there exactly says something.
    let none = "tests: [{name: a, check: {}, expect: {rules: [], requestHeaders: [], reported: []}}]\n";
    let (status, out, err) = within(&["test", &suite(directory.path(), none)]);
    assert_eq!(status, 0, "{out}{err}");
}

const TRIED: &str = r#"
apiVersion: config.istio.io/v1alpha2
kind: rule
metadata: {name: only-named-callers, namespace: istio-system, annotations: {mixer.dev/dry-run: "true"}}
spec: {match: (source.name | "") == "", actions: [{handler: turn-away, instances: [caller]}]}
"#;

/// The sample configuration and one more file.
fn changed_configuration(directory: &Path, file: &str, text: &str) -> String {
    for entry in std::fs::read_dir(root().join("testdata/config")).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), directory.join(entry.file_name())).unwrap();
    }
    std::fs::write(directory.join(file), text).unwrap();
    directory.display().to_string()
}

#[test]
fn tests_can_expect_outcomes_of_dry_run() {
    let directory = tempfile::tempdir().unwrap();
    let config = changed_configuration(directory.path(), "tried.yaml", TRIED);
    let tests = tempfile::tempdir().unwrap();
    let file = suite(
        tests.path(),
        "tests:\n- {name: a, check: {}, expect: {status: OK, rules: [], dryRun: {only-named-callers: denied}}}\n\
         - {name: b, check: {attributes: {source.name: x}}, expect: {dryRun: {only-named-callers: none}}}\n",
    );
    let (status, out, err) = within(&["test", &file, "--config", &config]);
    assert_eq!(status, 0, "{out}{err}");
}

#[test]
fn diff_compares_configurations_on_recorded_requests() {
    let recording = tempfile::tempdir().unwrap();
    let mut server = recording_server(recording.path(), &[]);
    let address = server.address();
    for (attributes, headers) in [
        ("source.name=web", "request.headers=clnt:abc"),
        ("source.name=web", "request.headers=authorization:secret-one;clnt:beta"),
        ("destination.service=shop", "request.headers=authorization:secret-two"),
        ("destination.service=shop", "request.headers=authorization:secret-two"),
    ] {
        let asked = ["check", "-m", &address, "-s", attributes, "--stringmap-attributes", headers];
        mixer(&[&asked[..], &["-q", "request-count=2"]].concat());
    }
    mixer(&["report", "-m", &address, "-s", "context.protocol=http", "-i", "response.code=503"]);
    assert_eq!(server.terminate(), Ok(Some(0)));
    let calls = recording.path().join("calls.jsonl").display().to_string();
    let sample = root().join("testdata/config").display().to_string();

    let (status, out, err) = within(&["diff", "--from", &sample, "--to", &sample, "--requests", &calls]);
    assert_eq!((status, err.as_str()), (0, ""), "{out}");
    assert_eq!(out, "0 of 5 calls have a different result\n");

    let directory = tempfile::tempdir().unwrap();
    let enforced = TRIED.replace("\"true\"", "\"false\"");
    let rule_on_secret = r#"kind: rule
metadata: {name: token, namespace: istio-system}
spec:
  match: (request.headers["authorization"] | "") == "secret-one"
  actions: [{handler: turn-away, instances: [caller]}]
"#;
    let quota = std::fs::read_to_string(root().join("testdata/config/quota.yaml")).unwrap();
    let new = changed_configuration(
        directory.path(),
        "quota.yaml",
        &quota.replace("maxAmount: 500", "maxAmount: 1"),
    );
    std::fs::write(directory.path().join("new.yaml"), format!("{enforced}---\n{rule_on_secret}")).unwrap();
    let log = std::fs::read_to_string(directory.path().join("access-log.yaml")).unwrap();
    std::fs::write(
        directory.path().join("access-log.yaml"),
        log.replace("\"warning\", \"info\"", "\"error\", \"info\""),
    )
    .unwrap();

    let arguments = ["diff", "--from", &sample, "--to", &new, "--requests", &calls];
    let (status, out, err) = within(&[&arguments[..], &["-o", "json"]].concat());
    assert_eq!((status, err.as_str()), (1, ""));
    let found: Value = serde_json::from_str(&out).unwrap();
    let summary = &found["summary"];
    assert_eq!((&summary["calls"], &summary["changed"]), (&Value::from(5), &Value::from(4)), "{out}");
    assert_eq!(summary["unsure"], 3, "the token is masked and now decides: {out}");
    assert_eq!((&summary["masked"], &summary["cut"]), (&Value::from(3), &Value::from(0)), "{out}");
    let change = |line: u64| found["changes"].as_array().unwrap().iter().find(|c| c["line"] == line).unwrap();
    assert_eq!(change(2)["causes"], serde_json::json!(["~ limit-requests.rule.istio-system"]));
    assert_eq!(
        change(2)["differences"],
        serde_json::json!([{"what": "quota request-count", "from": "2", "to": "1"}])
    );
    assert_eq!(change(2)["masked"], serde_json::json!(["request.headers[authorization]"]));
    assert_eq!(
        change(3)["differences"][0],
        serde_json::json!({"what": "status", "from": "OK", "to": "PERMISSION_DENIED"})
    );
    assert_eq!(change(3)["causes"][0], "+ only-named-callers.rule.istio-system");
    assert_eq!(
        change(5)["differences"],
        serde_json::json!([{
            "what": "reported access.instance.istio-system at console.istio-system: Severity",
            "from": "\"warning\"",
            "to": "\"error\"",
        }])
    );
    assert_eq!(change(5)["causes"], serde_json::json!(["~ log-requests.rule.istio-system"]));
    let groups = found["groups"].as_array().unwrap();
    assert_eq!(groups[0]["lines"], serde_json::json!([3, 4]), "the most frequent first: {out}");

    let (status, out, _) = within(&arguments);
    assert_eq!(status, 1);
    assert!(out.contains("4 of 5 calls have a different result"), "{out}");
    assert!(out.contains("+ only-named-callers.rule.istio-system"), "{out}");
}

/// Calls are replayed as those of the Mixer API: what stands between it and Envoy is compared by itself.
#[test]
fn diff_tells_settings_for_envoy_that_differ() {
    const BRIDGE: &str = "kind: envoybridge\nmetadata: {name: default, namespace: istio-system}\nspec:\n  check: {mode: enforce, httpPathPrefix: /check}\n";
    let directory = tempfile::tempdir().unwrap();
    let calls = directory.path().join("calls.jsonl").display().to_string();
    let call = |method: &str| {
        format!(
            "{{\"time\":\"2026-01-01T00:00:00Z\",\"method\":\"{method}\",\"attributes\":{{\"source.name\":\"web\"}}}}\n"
        )
    };
    std::fs::write(
        &calls,
        [call("check"), call("limit"), call("limit"), call("limit"), call("limit")].concat(),
    )
    .unwrap();
    let side = |name: &str, bridge: &str| {
        let path = directory.path().join(name);
        std::fs::create_dir(&path).unwrap();
        std::fs::write(path.join("bridge.yaml"), bridge).unwrap();
        path.display().to_string()
    };
    let from = side("from", BRIDGE);
    let diff = |to: &str, more: &[&str]| {
        within(&[&["diff", "--from", &from, "--to", to, "--requests", &calls][..], more].concat())
    };
    let (status, out, err) = diff(&from, &[]);
    assert_eq!((status, &*out), (0, "0 of 1 calls have a different result\n"));
    assert!(err.contains("4 lines are skipped (2, 3, 4, …): ") && err.lines().count() == 1, "{err}");

    let shadow = side("shadow", &BRIDGE.replace("mode: enforce", "mode: shadow").replace("/check", "/other"));
    let (status, out, _) = diff(&shadow, &[]);
    assert_eq!(status, 1, "{out}");
    let told = format!(
        "1 resource for Envoy differs, which calls are replayed without:\n  default.envoybridge.istio-system ({shadow}/bridge.yaml:1): \
         spec.check.httpPathPrefix \"/check\" -> \"/other\", spec.check.mode \"enforce\" -> \"shadow\"\nnot enforced with --to: "
    );
    assert!(out.contains(&told) && out.contains("bridge.yaml:4)"), "{out}");
    let (status, out, _) = diff(&shadow, &["-o", "json"]);
    let found: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((status, &found["summary"]["settings"]), (1, &Value::from(1)), "{out}");
    assert_eq!(found["settings"][0]["changes"][1]["path"], "spec.check.mode", "{out}");
    assert_eq!(found["notEnforced"].as_array().map(Vec::len), Some(1), "{out}");

    let (status, out, _) = diff(
        &side(
            "gone",
            "kind: handler\nmetadata: {name: h, namespace: istio-system}\nspec: {compiledAdapter: noop}\n",
        ),
        &[],
    );
    assert_eq!(status, 1, "{out}");
    assert!(
        out.contains("default.envoybridge.istio-system") && out.contains("configured -> (none)"),
        "{out}"
    );
}

/// A directory with this file.
fn side(directory: &Path, name: &str, text: &str) -> String {
    let path = directory.join(name);
    std::fs::create_dir(&path).unwrap();
    std::fs::write(path.join("a.yaml"), text).unwrap();
    path.display().to_string()
}

/// What no server serves is compared with nothing, whether a recorded call meets it or not.
#[test]
fn diff_refuses_a_configuration_that_no_server_serves() {
    const HANDLER: &str =
        "kind: handler\nmetadata: {name: h, namespace: istio-system}\nspec: {compiledAdapter: noop}\n";
    let directory = tempfile::tempdir().unwrap();
    let calls = directory.path().join("calls.jsonl").display().to_string();
    std::fs::write(&calls, "{\"time\":\"2026-01-01T00:00:00Z\",\"method\":\"check\",\"attributes\":{}}\n")
        .unwrap();
    let good = side(directory.path(), "good", HANDLER);
    let broken =
        "---\nkind: rule\nmetadata: {name: r, namespace: other}\nspec: {match: nosuch == 1, actions: []}\n";
    let bad = side(directory.path(), "bad", &format!("{HANDLER}{broken}"));
    let empty = side(directory.path(), "empty", "# Nothing.\n");
    let diff = |from: &str, to: &str, more: &[&str]| {
        within(&[&["diff", "--from", from, "--to", to, "--requests", &calls, "--quiet"][..], more].concat())
    };
    assert_eq!(diff(&good, &good, &[]), (0, String::new(), String::new()));
    for (from, to, flag, why) in [
        (&good, &bad, "--to", "/bad` has "),
        (&bad, &good, "--from", "/bad` has "),
        (&good, &empty, "--to", "/empty` has no resources: "),
        (&empty, &good, "--from", "/empty` has no resources: "),
    ] {
        for more in [&[][..], &["-o", "json"]] {
            let (status, out, err) = diff(from, to, more);
            assert_eq!((status, out.as_str()), (2, ""), "{from} {to}: {err}");
            assert!(err.contains(flag) && err.contains(why), "{from} {to}: {err}");
        }
    }
    let (status, _, err) = diff(&good, &bad, &["--serve-valid"]);
    assert_eq!(status, 0, "{err}");
    let (status, _, err) = diff(&good, &empty, &["--serve-valid"]);
    assert_eq!(status, 2, "its path may be wrong: {err}");
}

/// Calls of rate limits are in no recording.
#[test]
fn diff_compares_rate_limits_without_calls() {
    let limits = |requests: &[(&str, u32)]| {
        let descriptor = |(key, requests): &(&str, u32)| {
            format!("- key: {key}\n  rate_limit: {{unit: minute, requests_per_unit: {requests}}}\n")
        };
        format!("domain: shop\ndescriptors:\n{}", requests.iter().map(descriptor).collect::<String>())
    };
    let keys = ["k0", "k1", "k2", "k3", "k4", "k5", "k6", "k7"];
    let were: Vec<(&str, u32)> = keys.into_iter().zip(1..).collect();
    let mut are = were.clone();
    are[7].1 = 8_000_000;
    are.insert(0, ("new", 1));
    let directory = tempfile::tempdir().unwrap();
    let from = side(directory.path(), "from", &limits(&were));
    let to = side(directory.path(), "to", &limits(&are));
    let calls = directory.path().join("calls.jsonl").display().to_string();
    std::fs::write(&calls, "{\"time\":\"2026-01-01T00:00:00Z\",\"method\":\"limit\",\"attributes\":{}}\n")
        .unwrap();
    for more in [&[][..], &["--requests", &calls]] {
        let diff = |to: &str| within(&[&["diff", "--from", &from, "--to", to][..], more].concat());
        let (status, out, err) = diff(&to);
        assert_eq!(status, 1, "{more:?}: {err}");
        assert!(out.starts_with("1 resource for Envoy differs:\n"), "{out}");
        assert!(out.contains("descriptors[k7].rate_limit.requests_per_unit 8 -> 8000000"), "{out}");
        assert!(out.contains("descriptors[new] (none) -> {") && out.matches(" -> ").count() == 2, "{out}");
        assert!(err.starts_with("warning: no call "), "{err}");
        let (status, out, _) = diff(&from);
        assert_eq!((status, out.as_str()), (0, "no resource for Envoy differs\n"), "{more:?}");
    }
    // A recording without calls may be the wrong one.
    std::fs::write(&calls, "").unwrap();
    let (status, _, err) = within(&["diff", "--from", &from, "--to", &to, "--requests", &calls]);
    assert!(status == 2 && err.contains("without --requests"), "{err}");
    // Many limits hide no call that cannot be replayed.
    let limit = "{\"time\":\"2026-01-01T00:00:00Z\",\"method\":\"limit\",\"attributes\":{}}\n".repeat(10_001);
    let check = "{\"time\":\"2026-01-01T00:00:00Z\",\"method\":\"check\",\"attributes\":{\"at\":{\"timestamp\":\"x\"}}}\n";
    std::fs::write(&calls, limit + check).unwrap();
    let (status, _, err) = within(&["diff", "--from", &from, "--to", &from, "--requests", &calls]);
    assert!(status == 2 && err.contains("can be replayed") && err.contains("line 10002"), "{err}");
    // All that differs is in a document.
    let raised: Vec<(&str, u32)> = were.iter().map(|(key, requests)| (*key, requests + 100)).collect();
    let more = [&raised[..], &[("k8", 1), ("k9", 1)]].concat();
    let raised = side(directory.path(), "raised", &limits(&more));
    let (_, out, _) = within(&["diff", "--from", &from, "--to", &raised]);
    assert!(out.contains(", and 2 more, which `-o json` has\n"), "{out}");
    let (status, out, _) = within(&["diff", "--from", &from, "--to", &raised, "-o", "json"]);
    let found: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((status, found["settings"][0]["changes"].as_array().map(Vec::len)), (1, Some(10)), "{out}");
}

/// A recording may be larger than the memory.
#[test]
fn diff_holds_one_call_at_a_time() {
    use std::io::Write as _;
    use std::process::{Command, Stdio};
    let sample = root().join("testdata/config").display().to_string();
    let mut child = Command::new(env!("CARGO_BIN_EXE_mixer"))
        .args(["diff", "--from", &sample, "--to", &sample, "--requests", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let path = "x".repeat(512 << 10);
    let line = format!(
        "{{\"time\":\"2026-01-01T00:00:00Z\",\"method\":\"check\",\"attributes\":{{\"request.path\":\"{path}\"}}}}\n"
    );
    let status = format!("/proc/{}/status", child.id());
    let peak = || -> u64 {
        let text = std::fs::read_to_string(&status).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    };
    let mut input = child.stdin.take().unwrap();
    let mut send = |lines: usize| (0..lines).for_each(|_| input.write_all(line.as_bytes()).unwrap());
    send(10);
    let before = peak();
    send(110);
    let after = peak();
    drop(input);
    let done = child.wait_with_output().unwrap();
    let out = String::from_utf8_lossy(&done.stdout).into_owned();
    assert_eq!((done.status.code(), &*out), (Some(0), "0 of 120 calls have a different result\n"));
    assert!(after - before < 30 << 10, "{before} KiB, then {after} KiB");
}

/// The tests would pass on a server that answers nothing.
#[test]
fn a_configuration_without_resources_is_not_tested() {
    let directory = tempfile::tempdir().unwrap();
    let place = |name: &str| directory.path().join(name).display().to_string();
    std::fs::create_dir(place("empty")).unwrap();
    let sample = root().join("testdata/config").display().to_string();
    let test = |config: &str, more: &[&str]| {
        let file = place("suite.yaml");
        let tests = "tests: [{name: open, check: {}, expect: {status: OK}}]";
        std::fs::write(&file, format!("apiVersion: mixer/v1\nkind: PolicyTest\nconfig: {config}\n{tests}\n"))
            .unwrap();
        within(&[&["test", &file][..], more].concat())
    };
    for config in ["empty", &format!("[{sample}, empty]")] {
        let (status, out, err) = test(config, &[]);
        assert_eq!((status, out.as_str()), (2, ""), "{config}: {err}");
        assert!(
            err.contains("suite.yaml:3:9: `") && err.contains("/empty` has no resources"),
            "{config}: {err}"
        );
        let (status, out, err) = test(config, &["--allow-empty-config"]);
        assert!(status == 0 && out.contains("\n1 test: 1 passed"), "{config}: {out}{err}");
    }
}

#[test]
fn a_recording_that_is_none_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("calls.jsonl");
    let diff = |text: &str| {
        std::fs::write(&file, text).unwrap();
        let sample = root().join("testdata/config").display().to_string();
        within(&["diff", "--from", &sample, "--to", &sample, "--requests", file.to_str().unwrap()])
    };
    let good = r#"{"time":"2026-01-01T00:00:00Z","method":"check","attributes":{"source.name":"web"}}"#;
    assert_eq!(diff(&format!("{good}\n\n{good}\n")).0, 0);
    for (text, expected) in [
        ("", "contains no calls"),
        (&format!("{good}\n{{\"time\": 3}}\n"), "calls.jsonl:2:10: not a recorded call: invalid type"),
        ("plain text\n", "calls.jsonl:1:1: not a recorded call: expected value"),
        (&good.replace("\"web\"", "[1]"), "no call in "),
    ] {
        let (status, out, err) = diff(text);
        assert_eq!((status, out.as_str()), (2, ""), "{text}: {err}");
        assert!(err.contains(expected), "{text}: {err}");
    }
}

/// The name in the certificate of a client is part of a recorded request; it is empty without a certificate.
#[test]
fn recorded_callers_decide_again() {
    let directory = tempfile::tempdir().unwrap();
    let (from, to) = (directory.path().join("from"), directory.path().join("to"));
    let base = "kind: attributemanifest
metadata: {name: m, namespace: istio-system}
spec: {attributes: {context.reporter.principal: {valueType: STRING}}}
---
kind: handler
metadata: {name: deny, namespace: istio-system}
spec: {compiledAdapter: denier}
---
kind: instance
metadata: {name: caller, namespace: istio-system}
spec: {compiledTemplate: checknothing}
";
    let rule = "---
kind: rule
metadata: {name: unknown, namespace: istio-system}
spec: {match: 'context.reporter.principal == \"\"', actions: [{handler: deny, instances: [caller]}]}
";
    for (path, text) in [(&from, base.to_owned()), (&to, format!("{base}{rule}"))] {
        std::fs::create_dir(path).unwrap();
        std::fs::write(path.join("all.yaml"), text).unwrap();
    }
    let line = |caller: &str| {
        format!("{{\"time\":\"2026-01-01T00:00:00Z\",\"method\":\"check\",\"caller\":{caller}}}\n")
    };
    let calls = [
        line(r#"{"address":"10.0.0.7:1","principal":"spiffe://web"}"#),
        line(r#"{"address":"10.0.0.7:2","principal":""}"#),
        line(r#"{"address":"unix"}"#),
    ];
    let file = directory.path().join("calls.jsonl");
    std::fs::write(&file, calls.concat()).unwrap();
    let [from, to, file] = [&from, &to, &file].map(|path| path.display().to_string());
    let (status, out, err) =
        within(&["diff", "--from", &from, "--to", &to, "--requests", &file, "-o", "json"]);
    assert_eq!((status, err.as_str()), (1, ""), "{out}");
    let found: Value = serde_json::from_str(&out).unwrap();
    let lines: Vec<_> = found["changes"].as_array().unwrap().iter().map(|c| c["line"].clone()).collect();
    assert_eq!(lines, [2], "{out}");
}

/// A value of which the recording has the beginning is not masked.
#[test]
fn diff_tells_values_that_are_cut_from_masked_ones() {
    let directory = tempfile::tempdir().unwrap();
    let calls = directory.path().join("calls.jsonl");
    let call = |marks: &str| {
        format!(
            r#"{{"time": "2026-01-02T03:04:05Z", "id": "1", "method": "check", "attributes": {{"destination.service": "shop"}}, {marks}}}"#
        )
    };
    let lines = [call(r#""cut": ["source.name"]"#), call(r#""masked": ["source.name"]"#)];
    std::fs::write(&calls, lines.join("\n")).unwrap();
    let sample = root().join("testdata/config").display().to_string();
    let new = changed_configuration(directory.path(), "tried.yaml", &TRIED.replace("\"true\"", "\"false\""));
    let calls = calls.display().to_string();
    let arguments = ["diff", "--from", &sample, "--to", &new, "--requests", &calls];
    let (status, out, err) = within(&arguments);
    assert_eq!(status, 1, "{out}{err}");
    for line in [
        "1 depend on masked attributes: real results may differ\n",
        "1 depend on values that are cut in the recording: results for the whole values may differ\n",
    ] {
        assert!(out.contains(line), "{out}");
    }
    let (_, out, _) = within(&[&arguments[..], &["-o", "json"]].concat());
    let found: Value = serde_json::from_str(&out).unwrap();
    let names = found["changes"].as_array().unwrap().iter().map(|change| (&change["masked"], &change["cut"]));
    let (none, one) = (serde_json::json!([]), serde_json::json!(["source.name"]));
    assert_eq!(names.collect::<Vec<_>>(), [(&none, &one), (&one, &none)], "{out}");
}

/// In the shell of a server, commands read configuration in its language.
#[test]
fn commands_read_expressions_in_the_language_of_the_environment() {
    let directory = tempfile::tempdir().unwrap();
    // Of CEL alone.
    let text = "apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {name: closed, namespace: istio-system}
spec: {compiledAdapter: denier}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: nothing, namespace: istio-system}
spec: {compiledTemplate: checknothing}
---
apiVersion: config.istio.io/v1alpha2
kind: rule
metadata: {name: no-eve, namespace: istio-system}
spec: {match: 'source.user.contains(\"eve\")', actions: [{handler: closed, instances: [nothing]}]}
";
    std::fs::write(directory.path().join("all.yaml"), text).unwrap();
    let config = directory.path().display().to_string();
    let ended = |language: Option<&str>, arguments: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_mixer"));
        command.args(arguments).env_remove("ISTIO_LANG").envs(language.map(|name| ("ISTIO_LANG", name)));
        let ended = command.output().unwrap();
        let text = [ended.stdout, ended.stderr].concat();
        (ended.status.code(), String::from_utf8_lossy(&text).into_owned())
    };
    let validate = ["validate", &config];
    let check = ["check", "--config", &config, "-s", "source.user=eve"];
    let eval = ["eval", "source.user.contains(\"eve\")", "-s", "source.user=eve"];
    let routes = ["routes", "show", "--config", &config, "-o", "json"];
    for (arguments, classic, cel) in
        [(&validate[..], 1, 0), (&check[..], 3, 1), (&eval[..], 2, 0), (&routes[..], 0, 0)]
    {
        let (status, text) = ended(None, arguments);
        assert_eq!(status, Some(classic), "{arguments:?}: {text}");
        let (status, text) = ended(Some("CEL"), arguments);
        assert_eq!(status, Some(cel), "{arguments:?}: {text}");
        let (status, text) = ended(Some("cel"), arguments);
        assert!(status == Some(2) && text.contains("ISTIO_LANG names no language"), "{arguments:?}: {text}");
    }
    let (status, text) = ended(Some("CEL"), &["eval", "--lang", "CEXL", "1 == 1"]);
    assert_eq!(status, Some(0), "a flag comes first: {text}");
}
