//! Tests of the command line: in-process with captured streams, or through the binary where program name, pipes and environment
//! matter.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use mixer::cmd::{Io, parse};
use serde_json::Value;

/// Exit status, standard output, standard error.
struct Ran {
    code: u8,
    out: String,
    err: String,
}

fn run_with_input(args: &[&str], input: &str) -> Ran {
    let (mut io, captured) = Io::captured(input);
    match parse(args.iter().map(Into::into)) {
        Ok(invocation) => {
            let code = invocation.run(&mut io);
            Ran { code, out: captured.out(), err: captured.err() }
        }
        Err(shown) => Ran { code: shown.code, out: shown.out, err: shown.err },
    }
}

fn run(args: &[&str]) -> Ran {
    run_with_input(args, "")
}

fn json(ran: &Ran) -> Value {
    let parsed = serde_json::from_str(&ran.out);
    assert!(parsed.is_ok(), "{parsed:?}: {}", ran.out);
    parsed.unwrap_or_default()
}

fn scenario(name: &str) -> String {
    format!("{}/testdata/conformance/cli/scenarios/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

#[test]
fn legacy_errors_are_those_of_istio_mixer() {
    let table: &[(&[&str], &str)] = &[
        (&["mixc", "check", "--nosuch"], "Error: unknown flag: --nosuch"),
        (&["mixc", "check", "--string-attributes", "a=b"], "Error: unknown flag: --string-attributes"),
        (&["mixc", "check", "--repea", "1"], "Error: unknown flag: --repea"),
        (&["mixc", "check", "---x"], "Error: bad flag syntax: ---x"),
        (&["mixc", "check", "--=x"], "Error: bad flag syntax: --=x"),
        (&["mixc", "check", "-Z"], "Error: unknown shorthand flag: 'Z' in -Z"),
        (&["mixc", "check", "-o", "json"], "Error: unknown shorthand flag: 'o' in -o"),
        (&["mixc", "check", "-q"], "Error: flag needs an argument: 'q' in -q"),
        (&["mixc", "check", "--mixer"], "Error: flag needs an argument: --mixer"),
        (&["mixc", "check", "extra"], "Error: accepts 0 arg(s), received 1"),
        (&["mixc", "check", "--", "-s", "x"], "Error: accepts 0 arg(s), received 2"),
        (&["mixc", "version", "extra"], "Error: accepts 0 arg(s), received 1"),
        (
            &["mixc", "check", "--repeat", "x"],
            "Error: invalid argument \"x\" for \"-r, --repeat\" flag: strconv.ParseInt: parsing \"x\": invalid syntax",
        ),
        (
            &["mixs", "server", "--numCheckCacheEntries", "2147483648"],
            "Error: invalid argument \"2147483648\" for \"--numCheckCacheEntries\" flag: strconv.ParseInt: parsing \"2147483648\": value out of range",
        ),
        (
            &["mixs", "server", "--profile=maybe"],
            "Error: invalid argument \"maybe\" for \"--profile\" flag: strconv.ParseBool: parsing \"maybe\": invalid syntax",
        ),
        (&["mixs", "server", "--profile", "false"], "Error: accepts 0 arg(s), received 1"),
        (&["mixc", "nosuch"], "Error: unknown command \"nosuch\" for \"mixc\""),
        (&["mixs", "crd", "nosuch"], "Error: unknown command \"nosuch\" for \"mixs crd\""),
        (&["mixs", "version", "-o", "xml"], "Error: --output must be 'yaml' or 'json'"),
    ];
    for (args, text) in table {
        let ran = run(args);
        assert_eq!((ran.code, first_line(&ran.err), ran.out.as_str()), (255, *text, ""), "{args:?}");
    }
}

#[test]
fn legacy_errors_of_flags_end_with_the_usage_block() {
    let ran = run(&["mixc", "check", "--nosuch"]);
    assert!(
        ran.err.starts_with("Error: unknown flag: --nosuch\nUsage:\n  mixc check [flags]\n\nFlags:\n"),
        "{}",
        ran.err
    );
    assert!(ran.err.ends_with("\n\n"));
    let galley = run(&["galley", "probe", "--nosuch"]);
    assert_eq!(galley.err, "Error: unknown flag: --nosuch\n");
}

#[test]
fn legacy_values_have_go_syntax() {
    let target = scenario("harbor");
    let check = |flags: &[&str]| {
        let mut args = vec!["mixc", "check", "--config", &target];
        args.extend(flags);
        run(&args)
    };
    let denied = "Check RPC completed successfully. Check status was PERMISSION_DENIED (pier.denier.istio-system:the pier is closed)";
    let granted = "Check RPC completed successfully. Check status was OK";
    for flags in [
        &["-s", "source.user=smuggler"][..],
        &["-ssource.user=smuggler"],
        &["-s=source.user=smuggler"],
        &["--string_attributes=source.user=smuggler"],
        &["-s", "source.user=ann", "-s", "source.user=smuggler"],
        &["-s", "source.user=ann", "-a", "source.user=smuggler"],
        &["-q", "", "-s", "source.user=smuggler"],
        &["-s", "source.user=smuggler", "--print_response=true"],
    ] {
        let ran = check(flags);
        assert_eq!((ran.code, first_line(&ran.out)), (0, denied), "{flags:?} {}", ran.err);
    }
    for flags in [&["-s", "source.user=-ann"][..], &["-r", "0x1"], &["-r", "01"], &["--trace_log_spans"]] {
        let ran = check(flags);
        assert_eq!((ran.code, first_line(&ran.out)), (0, granted), "{flags:?} {}", ran.err);
    }
    for flags in [&["-r", "0"][..], &["-r", "-4"], &["--print_response=0"]] {
        let ran = check(flags);
        assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "", ""), "{flags:?}");
    }
    assert_eq!(check(&["-r", "010"]).out.matches("Check RPC").count(), 8, "a leading zero means octal");
}

#[test]
fn invalid_flags_are_reported_in_a_fixed_order() {
    let ran = run(&["mixc", "check", "-t", "t=bad", "-i", "n=bad"]);
    assert_eq!((ran.code, ran.err.as_str()), (255, "strconv.ParseInt: parsing \"bad\": invalid syntax\n"));
    let ran = run(&["mixc", "check", "-s", "bad", "-q", "bad", "-c", "0"]);
    assert_eq!(ran.err, "Quota definition bad does not include an = sign\n");
    let ran = run(&["mixc", "check", "-c", "0"]);
    assert_eq!((ran.code, ran.err.as_str()), (255, "concurrency has to be at least 1\n"));
    let ran = run(&["mixc", "report", "--report_batch_size", "0"]);
    assert_eq!((ran.code, ran.err.as_str()), (255, "report batch size has to be at least 1\n"));
    let ran = run(&["mixc", "check", "--trace_zipkin_url", "a", "--trace_jaeger_url", "b"]);
    assert_eq!(
        ran.err,
        "Unable to establish connection to localhost:9091: could not build tracer: can't have Jaeger and Zipkin outputs active simultaneously\n"
    );
}

#[test]
fn native_errors_have_a_hint() {
    let table: &[(&[&str], &str)] = &[
        (&["mixer", "chek"], "error: unknown command `chek`\n  hint: did you mean `check`?\n"),
        (
            &["mixer", "check", "--timeot", "5s"],
            "error: unknown flag `--timeot`\n  hint: did you mean `--timeout`?\n",
        ),
        (
            &["mixer", "check", "-r", "x"],
            "error: invalid value `x` for `--repeat`\n  cause: expected a whole number, for example 10\n  hint: see `mixer check --help`\n",
        ),
        (
            &["mixer", "server", "--config-loss", "lose"],
            "error: invalid value `lose` for `--config-loss`\n  hint: one of keep, drop\n",
        ),
        (
            &["mixer", "check", "--repeat"],
            "error: flag `--repeat` needs a value\n  hint: see `mixer check --help`\n",
        ),
        (
            &["mixer", "legacy", "mixx"],
            "error: unknown legacy program `mixx`\n  hint: one of mixs, mixc, galley\n",
        ),
    ];
    for (args, text) in table {
        let ran = run(args);
        assert_eq!((ran.code, ran.err.as_str()), (2, *text), "{args:?}");
    }
    let ran = run(&["mixer", "--error-format", "json", "check", "--nosuch"]);
    let document: Value = serde_json::from_str(&ran.err).unwrap();
    assert_eq!((ran.code, document["error"].as_str()), (2, Some("unknown flag `--nosuch`")));
}

#[test]
fn mixer_accepts_both_spellings() {
    let target = scenario("harbor");
    for spelling in ["--string-attributes", "--string_attributes", "-s"] {
        let ran = run(&["mixer", "check", "--config", &target, spelling, "source.user=smuggler"]);
        assert_eq!(ran.code, 1, "{spelling} {}", ran.err);
    }
    for spelling in ["--configStoreURL", "--config-store-url"] {
        let ran = run(&["mixer", "server", spelling, "fs:///x", "--print-config"]);
        assert!(ran.out.contains("config-store-url: fs:///x"), "{}", ran.out);
    }
}

#[test]
fn native_exit_statuses_reflect_the_result() {
    let target = scenario("harbor");
    let check = |flags: &[&str]| {
        let mut args = vec!["mixer", "check", "--config", &target];
        args.extend(flags);
        run(&args).code
    };
    assert_eq!(check(&["-s", "source.user=ann"]), 0);
    assert_eq!(check(&["-s", "source.user=smuggler"]), 1);
    assert_eq!(check(&["-s", "source.user=smuggler", "--exit-zero"]), 0);
    assert_eq!(check(&["-s", "source.user=ann", "-q", "berths=1", "--require-quota"]), 0);
    assert_eq!(check(&["-s", "source.user=ann", "-q", "berths=10000", "--require-quota"]), 1);
    assert_eq!(run(&["mixer", "check", "-m", "127.0.0.1:1"]).code, 4);
    assert_eq!(run(&["mixc", "check", "-m", "127.0.0.1:1"]).code, 0);
    assert_eq!(run(&["mixc", "check", "-m", "127.0.0.1:1", "--native-exit-codes"]).code, 4);
    assert_eq!(run(&["mixer", "check", "--config", "/nowhere"]).code, 3);
    assert_eq!(run(&["mixer", "check", "-s", "bad"]).code, 2);
}

#[test]
fn deadline_exceeded_has_its_own_exit_status() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let target = listener.local_addr().unwrap().to_string();
    let ran = run(&["mixer", "check", "-m", &target, "--timeout", "200ms"]);
    assert_eq!(ran.code, 5, "{}", ran.out);
    assert!(ran.out.starts_with("Check RPC failed with: DeadlineExceeded"), "{}", ran.out);
}

#[test]
fn results_are_written_as_documents() {
    let target = scenario("harbor");
    let flags = ["mixer", "check", "--config", &target, "-s", "source.user=smuggler", "-q", "berths=3"];
    let one = json(&run(&[&flags[..], &["--output", "json", "--explain"]].concat()));
    assert_eq!(one["kind"], "CheckResult");
    assert_eq!(one["status"]["name"], "PERMISSION_DENIED");
    assert_eq!(one["validDuration"], "5s");
    assert_eq!(one["explanation"]["rules"][0]["verdict"], "matched");
    let many = json(&run(&[&flags[..], &["--output", "json", "-r", "3", "-c", "2"]].concat()));
    assert_eq!(many["items"].as_array().map(Vec::len), Some(6));
    assert_eq!(many["summary"]["denied"], 6);
    let lines = run(&[&flags[..], &["--output", "json-lines", "-r", "2"]].concat());
    assert_eq!(lines.out.lines().count(), 3);
    let yaml = run(&[&flags[..], &["--output", "yaml"]].concat());
    assert!(yaml.out.starts_with("apiVersion: mixer/v1\nkind: CheckResult\n"), "{}", yaml.out);
    let report = run(&["mixer", "report", "--config", &scenario("blank"), "--output", "json"]);
    assert_eq!(json(&report)["rpc"]["name"], "OK");
}

#[test]
fn explanations_name_rules_values_and_handlers() {
    let ran = run(&[
        "mixer",
        "check",
        "--config",
        &scenario("parlour"),
        "--explain",
        "-s",
        "source.user=night,destination.namespace=tea",
    ]);
    assert_eq!(ran.code, 1, "{}", ran.err);
    for text in [
        "always-polite.rule.tea  not matched",
        "late.rule.tea  matched",
        "source.user  is \"night\"",
        "calls butler.denier.tea",
        "butler.denier.tea (denier): refused with code 7",
    ] {
        assert!(ran.out.contains(text), "{text} in {}", ran.out);
    }
}

#[test]
fn explanations_show_near_misses() {
    let directory = tempfile::tempdir().unwrap();
    let mut config = "
apiVersion: config.istio.io/v1alpha2
kind: attributemanifest
metadata: {name: m, namespace: istio-system}
spec:
  attributes:
    source.user: {valueType: STRING}
    source.labels: {valueType: STRING_MAP}
    request.path: {valueType: STRING}
    destination.port: {valueType: INT64}
---
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {name: deny, namespace: istio-system}
spec: {compiledAdapter: denier}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: caller, namespace: istio-system}
spec: {compiledTemplate: checknothing}
"
    .to_owned();
    // The user is ann, the label db, the path /x; there is no port.
    let rules = [
        (
            r#"source.user == "ann" && source.labels["app"] == "web""#,
            Some(r#"only `source.labels["app"] == "web"` is not true: source.labels["app"] is "db""#),
        ),
        (
            r#"(source.labels["tier"] | "none") == "front" && (source.user | "") == "ann" && request.path != "/y""#,
            Some(
                r#"only `(source.labels["tier"] | "none") == "front"` is not true: source.labels["tier"] is absent"#,
            ),
        ),
        (
            r#"destination.port == 80 && source.user == "ann""#,
            Some("only `destination.port == 80` is not true: lookup failed: 'destination.port'"),
        ),
        (r#"source.user == "ann" && request.path != "/x" && source.labels["app"] == "web""#, None),
        (r#"source.user == "bob""#, None),
    ];
    for (i, (text, _)) in rules.iter().enumerate() {
        config += &format!(
            "---
apiVersion: config.istio.io/v1alpha2
kind: rule
metadata: {{name: rule{i}, namespace: istio-system}}
spec:
  match: '{text}'
  actions: [{{handler: deny, instances: [caller]}}]
"
        );
    }
    std::fs::write(directory.path().join("rules.yaml"), config).unwrap();
    let url = format!("fs://{}", directory.path().display());
    let attributes = "source.user=ann,request.path=/x";
    let labels = "source.labels=app:db";
    let flags = ["mixer", "check", "--config", &url, "-s", attributes, "--stringmap-attributes", labels];
    let answer = json(&run(&[&flags[..], &["--explain", "--output", "json"]].concat()));
    let explained = answer["explanation"]["rules"].as_array().unwrap();
    assert_eq!(explained.len(), rules.len(), "{answer}");
    for (rule, (text, near_miss)) in explained.iter().zip(rules) {
        assert_eq!(rule["match"], text);
        assert_eq!(rule["nearMiss"].as_str(), near_miss, "{text}");
    }
    let printed = run(&[&flags[..], &["--explain"]].concat());
    assert_eq!(printed.out.matches("    near miss: only `").count(), 3, "{}", printed.out);
}

#[test]
fn attributes_are_read_from_files_and_standard_input() {
    let target = scenario("harbor");
    let ran = run_with_input(
        &["mixer", "check", "--config", &target, "--attributes-file", "@-"],
        "source.user: smuggler\nrequest.time: {timestamp: 2017-07-04T00:01:10Z}\n",
    );
    assert_eq!(ran.code, 1, "{}", ran.err);
    let ran = run_with_input(
        &["mixer", "check", "--config", &target, "--attributes-file", "-", "-s", "source.user=ann"],
        "source.user: smuggler\n",
    );
    assert_eq!(ran.code, 0, "flags override the file: {}", ran.err);
    let ran = run_with_input(&["mixer", "check", "--attributes-file", "-"], "- a\n");
    assert_eq!(ran.code, 3, "{}", ran.err);
}

#[test]
fn both_dictionaries_have_the_same_result() {
    let target = scenario("harbor");
    let check = |dictionary: &str| {
        let flags = ["-s", "source.user=smuggler,request.path=/x", "--dictionary", dictionary];
        run(&[&["mixer", "check", "--config", &target][..], &flags].concat()).out
    };
    assert_eq!(check("message"), check("global"));
}

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

#[test]
fn lint_finds_unused_resources_and_strict_fails_on_warnings() {
    let unused = "apiVersion: config.istio.io/v1alpha2\nkind: denier\nmetadata:\n  name: idle\n  namespace: istio-system\nspec: {}\n";
    let lint = |flags: &[&str]| run_with_input(&[&["mixer", "validate", "-"][..], flags].concat(), unused);
    assert_eq!(lint(&[]).code, 0);
    let ran = lint(&["--lint"]);
    assert_eq!(ran.code, 0);
    assert!(ran.out.contains("warning[handler-unused]"), "{}", ran.out);
    assert_eq!(lint(&["--lint", "--strict"]).code, 1);
}

#[test]
fn snapshots_are_dumped_and_compared() {
    let dir = tempfile::tempdir().unwrap();
    let before = dir.path().join("before.json");
    let dump = run(&["mixer", "snapshot", "dump", "--config", &scenario("harbor"), "-o", "json"]);
    let document = json(&dump);
    assert_eq!(document["kind"], "Snapshot");
    assert_eq!(document["id"], 1);
    std::fs::write(&before, &dump.out).unwrap();
    let before = before.display().to_string();
    let diff =
        |name: &str| run(&["mixer", "snapshot", "dump", "--config", &scenario(name), "--diff", &before]);
    let same = diff("harbor");
    assert_eq!((same.code, same.out.as_str()), (0, ""));
    let other = diff("blank");
    assert_eq!(other.code, 1);
    assert!(other.out.contains("rules close-pier.rule.istio-system"), "{}", other.out);
    let section = run(&[
        "mixer",
        "snapshot",
        "dump",
        "--config",
        &scenario("harbor"),
        "--section",
        "rules",
        "-o",
        "json",
    ]);
    let section = json(&section);
    assert!(section.get("handlers").is_none() && section["rules"].is_array());
    let tables = run(&["mixer", "snapshot", "dump", "--config", &scenario("harbor")]);
    assert!(tables.out.starts_with("RULES\nNAME "), "{}", tables.out);
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
fn crds_are_printed_in_both_versions() {
    let all = run(&["mixs", "crd", "all"]);
    assert_eq!((all.code, all.out.matches("\n---\n\n").count()), (0, 34));
    assert_eq!(run(&["mixs", "crd", "adapter"]).out.matches("---\n\n").count(), 20);
    assert_eq!(run(&["mixs", "crd", "instance"]).out.matches("---\n\n").count(), 12);
    let v1 = run(&["mixer", "crd", "instance", "--api-version", "v1"]);
    assert!(v1.out.contains("apiVersion: apiextensions.k8s.io/v1\n"), "{}", v1.out);
}

#[test]
fn help_pages_begin_with_a_short_line_and_have_an_example() {
    for words in [
        &["server"][..],
        &["check"],
        &["report"],
        &["probe"],
        &["validate"],
        &["snapshot", "dump"],
        &["routes", "show"],
        &["version"],
        &["crd"],
        &["completions"],
        &["man"],
        &["legacy"],
    ] {
        let args = [&["mixer"][..], words, &["--help"]].concat();
        let ran = run(&args);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{args:?}");
        assert!(first_line(&ran.out).len() <= 90, "{args:?}: {}", first_line(&ran.out));
        assert!(ran.out.contains("Example: mixer "), "{args:?}: {}", ran.out);
    }
    for name in ["mixer", "mixs", "mixc", "galley"] {
        let ran = run(&[name]);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{name}");
    }
    assert!(run(&["mixer", "--help"]).out.contains("Exit status:"));
    assert_eq!(run(&["mixc", "help", "check"]).out, run(&["mixc", "check", "--help"]).out);
}

#[test]
fn the_server_rejects_invalid_settings_before_opening_sockets() {
    let table: &[(&[&str], &str)] = &[
        (&["--maxMessageSize", "0"], "max message size must be > 0, got 0"),
        (&["--apiWorkerPoolSize", "0"], "api worker pool size must be > 0, got pool size 0"),
        (&["--log_output_level", "loud"], "invalid output level 'loud'"),
        (&["--address", "foo://x"], "unable to listen: listen foo: unknown network foo"),
    ];
    for (flags, text) in table {
        let ran = run(&[&["mixs", "server", "--configStoreURL", "fs:///nowhere"][..], flags].concat());
        assert_eq!((ran.code, ran.err), (255, format!("Unable to initialize Mixer: {text}\n")), "{flags:?}");
        assert!(ran.out.starts_with("Mixer started with\nMaxMessageSize:  "), "{}", ran.out);
    }
    let ran = run(&["mixer", "server", "--max-message-size", "0"]);
    assert_eq!(ran.code, 3);
    assert!(ran.err.starts_with("error: "), "{}", ran.err);
}

fn binary(name: &str) -> Command {
    use std::os::unix::process::CommandExt as _;
    let mut command = Command::new(env!("CARGO_BIN_EXE_mixer"));
    command.arg0(name);
    command
}

#[test]
fn the_program_name_selects_the_personality() {
    for name in ["mixs", "/usr/local/bin/mixs", "mixs.exe"] {
        let output = binary(name).args(["version", "--short"]).output().unwrap();
        assert_eq!(output.stdout, b"unknown\n", "{name}");
    }
    let output = binary("mixer").args(["legacy", "mixc", "version", "-s"]).output().unwrap();
    assert_eq!(output.stdout, b"unknown\n");
    let output = binary("anything").args(["version", "-s"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn a_closed_pipe_is_success() {
    let mut child =
        binary("mixer").args(["crd", "all"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
}

#[test]
fn precedence_is_flag_environment_file_default() {
    let dir = tempfile::tempdir().unwrap();
    let yaml = dir.path().join("settings.yaml");
    std::fs::write(&yaml, "port: 1\nmonitoringPort: 2\nctrlz-port: 3\nlog-target: [a, b]\n").unwrap();
    let toml = dir.path().join("settings.toml");
    std::fs::write(&toml, "port = 1\nmonitoring-port = 2\nctrlz_port = 3\n").unwrap();
    for file in [&yaml, &toml] {
        let output = binary("mixer")
            .args(["server", "--print-config", "--port", "9", "--config-file"])
            .arg(file)
            .env("MIXER_MONITORING_PORT", "8")
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        for (name, value, origin) in [
            ("port", "9", "flag"),
            ("monitoring-port", "8", "environment MIXER_MONITORING_PORT"),
            ("ctrlz-port", "3", "file"),
            ("metrics-port", "42422", "default"),
        ] {
            let line = text.lines().find(|l| l.starts_with(&format!("{name}: "))).unwrap_or_default();
            assert!(line.starts_with(&format!("{name}: {value} ")), "{line}");
            assert!(line.ends_with(&format!("# {origin}")), "{line}");
        }
        let printed = dir.path().join("printed.yaml");
        std::fs::write(&printed, &text).unwrap();
        let again = binary("mixer")
            .args(["server", "--print-config", "--config-file"])
            .arg(&printed)
            .output()
            .unwrap();
        let plain = |text: &str| {
            text.lines()
                .map(|l| l.split(" #").next().unwrap_or_default().trim_end().to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            plain(&String::from_utf8(again.stdout).unwrap()),
            plain(&text),
            "the printed settings are a valid settings file"
        );
    }
    std::fs::write(&yaml, "prt: 1\n").unwrap();
    let output = binary("mixer").args(["server", "--config-file"]).arg(&yaml).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&output.stderr).contains("did you mean `port`?"));
}

#[test]
fn a_kubernetes_service_named_mixer_does_not_set_the_port() {
    let output = binary("mixer")
        .args(["server", "--print-config"])
        .env("MIXER_PORT", "tcp://10.0.0.7:9091")
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("port: 9091 "));
}

#[test]
fn collateral_writes_the_selected_formats() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().display().to_string();
    assert_eq!(run(&["mixc", "collateral", "-o", &out]).code, 0);
    assert_eq!(std::fs::read_dir(&out).unwrap().count(), 0);
    assert_eq!(run(&["mixc", "collateral", "-o", &out, "--all"]).code, 0);
    for name in ["mixc.md", "mixc_check.md", "mixc.yaml", "mixc-check.1", "mixc.bash", "_mixc", "mixc.html"] {
        assert!(dir.path().join(name).is_file(), "{name}");
    }
}

/// Compares generated text with a golden file; `UPDATE_GOLDEN=1` writes the file instead.
fn assert_golden(path: &Path, text: &str) {
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let written =
            std::fs::create_dir_all(path.parent().unwrap_or(path)).and_then(|()| std::fs::write(path, text));
        assert!(written.is_ok(), "{}: {written:?}", path.display());
    }
    let found = std::fs::read_to_string(path).unwrap_or_default();
    assert!(found == text, "{} is out of date: run UPDATE_GOLDEN=1 cargo test --test cli", path.display());
}

#[test]
fn completions_and_man_pages_are_up_to_date() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("completions");
    for name in ["mixer", "mixs", "mixc"] {
        for (shell, file) in [
            ("bash", format!("{name}.bash")),
            ("zsh", format!("_{name}")),
            ("fish", format!("{name}.fish")),
            ("elvish", format!("{name}.elv")),
            ("powershell", format!("_{name}.ps1")),
        ] {
            let ran = run(&["mixer", "completions", shell, "--name", name]);
            assert_eq!(ran.code, 0, "{}", ran.err);
            assert_golden(&root.join(file), &ran.out);
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let ran = run(&["mixer", "man", "--dir", &dir.path().display().to_string()]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let mut names = Vec::new();
    for entry in std::fs::read_dir(dir.path()).unwrap() {
        let entry = entry.unwrap();
        let text = std::fs::read_to_string(entry.path()).unwrap();
        assert_golden(&root.join("man").join(entry.file_name()), &text);
        names.push(entry.file_name());
    }
    for entry in std::fs::read_dir(root.join("man")).unwrap() {
        let name = entry.unwrap().file_name();
        assert!(names.contains(&name), "{name:?} belongs to no command");
    }
    assert!(names.len() > 15, "{names:?}");
}
