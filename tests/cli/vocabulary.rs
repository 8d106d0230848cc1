//! One vocabulary: flags mean the same in every command, and errors name the nearest flag.

use std::process::Command;

use serde_json::Value;

use crate::{run, run_with_input, scenario};

/// Commands that print results, with arguments that make a short one.
const COMMANDS: &[&[&str]] = &[
    &["mixer", "check", "--config", "embedded://sample", "-s", "source.name=a"],
    &["mixer", "report", "--config", "embedded://sample", "-s", "source.name=a"],
    &["mixer", "eval", "1 == 1"],
    &["mixer", "explain-code", "handler-unknown"],
    &["mixer", "snapshot", "dump"],
    &["mixer", "routes", "show"],
    &["mixer", "version"],
    &["mixer", "crd", "all"],
    &["mixer", "validate", "testdata/config"],
];

#[test]
fn quiet_commands_tell_their_result_by_the_exit_status_alone() {
    for args in COMMANDS {
        let loud = run(args);
        assert!(loud.code == 0 && (!loud.out.is_empty() || !loud.err.is_empty()), "{args:?}: {}", loud.err);
        let quiet = run(&[args, &["--quiet"][..]].concat());
        assert_eq!((quiet.code, &*quiet.out, &*quiet.err), (0, "", ""), "{args:?}");
    }
    let broken = scenario("broken-rule");
    let quiet = run(&["mixer", "--quiet", "validate", &broken]);
    assert_eq!((quiet.code, &*quiet.out, &*quiet.err), (1, "", ""));
    let asked_for = run(&["mixer", "validate", &broken, "--quiet", "-o", "json"]);
    assert!(asked_for.code == 1 && asked_for.out.contains("handler-unknown") && asked_for.err.is_empty());
    let failed = run(&["mixer", "--quiet", "validate", "/nowhere"]);
    assert!(failed.code == 3 && failed.out.is_empty() && failed.err.contains("/nowhere"), "{}", failed.err);
    // The warning about what is left out.
    let shown = ["mixer", "routes", "show", "--config", &broken];
    assert!(run(&shown).err.starts_with("warning: `"));
    assert_eq!(run(&[&shown[..], &["--quiet"]].concat()).err, "");
}

/// Who gives such a flag believes that it does something.
#[test]
fn flags_without_effect_are_told() {
    const SAMPLE: &str = "embedded://sample";
    let check = &["check", "--config", SAMPLE, "-s", "source.name=a"][..];
    let report = &["report", "--config", SAMPLE, "-s", "source.name=a"][..];
    let probe = &["probe", "--http", "127.0.0.1:1"][..];
    let file = &["probe", "--probe-path", "/nowhere", "--interval", "1s"][..];
    let nobody = ["-m", "127.0.0.1:1", "-s", "source.name=a", "--timeout", "1s"];
    let called = [&["check"][..], &nobody].concat();
    let eval = &["eval", "1 == 1"][..];
    let show = &["routes", "show", "--config", SAMPLE][..];
    let dump = &["snapshot", "dump", "--config", SAMPLE][..];
    let token = ["--ctrlz-token-file", "/nowhere"];
    for (command, flags) in [
        (check, &["--tls"][..]),
        (check, &["--ca-file", "/nowhere"]),
        (check, &["--cert-file", "/nowhere"]),
        (check, &["--key-file", "/nowhere"]),
        (check, &["--server-name", "a"]),
        (check, &["--wait-for-ready"]),
        (check, &["--trace-log-spans"]),
        (check, &["--trace-sampling-rate", "0.5"]),
        (check, &["--require-quota"]),
        (check, &["--report-batch-size", "2"]),
        (report, &["--ca-file", "/nowhere"]),
        (report, &["--trace-zipkin-url", "http://127.0.0.1:1/"]),
        (report, &["--trace-jaeger-url", "http://127.0.0.1:1/"]),
        (report, &["--trace-otlp-url", "http://127.0.0.1:1/"]),
        (&called, &["--default-namespace", "a"]),
        (&called, &["--trace-sampling-rate", "0.5"]),
        (probe, &["--tls"]),
        (probe, &["--ca-file", "/nowhere"]),
        (probe, &["--cert-file", "/nowhere"]),
        (probe, &["--key-file", "/nowhere"]),
        (probe, &["--server-name", "a"]),
        (probe, &["--service", "liveness"]),
        (probe, &["--interval", "3s"]),
        (file, &["--timeout", "3s"]),
        (&["validate", "testdata/config"], &token),
        (eval, &["--default-namespace", "a"]),
        (show, &token),
        (dump, &token),
        (&["routes", "show", "--server", "127.0.0.1:1"], &["--default-namespace", "a"]),
        (dump, &["--section", "rules", "--diff", "/nowhere"]),
        (dump, &["--output", "json", "--diff", "/nowhere"]),
        (
            &["diff", "--from", SAMPLE, "--to", SAMPLE, "--requests", "/nowhere", "-o", "json"],
            &["--limit", "3"],
        ),
    ] {
        let without = run(&[&["mixer"], command].concat());
        assert!(!without.err.contains(" has no effect"), "{command:?}: {}", without.err);
        let ran = run(&[&["mixer"], command, flags].concat());
        let told = format!("warning: {} has no effect: ", flags[0]);
        assert_eq!(ran.err.matches(&told).count(), 1, "{command:?} {flags:?}: {}", ran.err);
        assert_eq!(ran.err.matches(" has no effect").count(), 1, "{command:?} {flags:?}: {}", ran.err);
        let quiet = run(&[&["mixer", "--quiet"], command, flags].concat());
        assert!(!quiet.err.contains(" has no effect"), "{command:?}: {}", quiet.err);
    }
    // A variable of the environment is for commands of all kinds.
    let of = |variable: (&str, &str)| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mixer"));
        command.args(["validate", "testdata/config"]).env(variable.0, variable.1);
        String::from_utf8_lossy(&command.output().unwrap().stderr).into_owned()
    };
    let told = of(("MIXER_CTRLZ_TOKEN_FILE", "/nowhere"));
    assert!(!told.contains(" has no effect"), "{told}");
}

/// The first ones were dropped without a word.
#[test]
fn lists_of_a_repeated_flag_are_one_list() {
    let both = "source.name == \"a\" && destination.service == \"x\"";
    let ran = run(&["mixer", "eval", both, "-s", "source.name=a", "-s", "destination.service=x"]);
    assert_eq!((ran.code, &*ran.err), (0, ""), "{}", ran.out);
    let check = ["check", "--config", "embedded://sample", "-s", "source.name=a"];
    let quotas = ["-q", "request-count=1", "-q", "request-count=2", "-o", "json"];
    let ran = run(&[&["mixer"], &check[..], &quotas].concat());
    let told = "warning: a quota is given several times: the last amount counts";
    assert!(ran.code == 0 && ran.err.contains(told), "{}", ran.err);
    // As Istio's client, the last list counts.
    let ran =
        run(&[&["mixc"], &check[..], &["-s", "source.user=b", "-q", "a=some", "-q", "request-count=2"]]
            .concat());
    assert!(!ran.err.contains("Unable to parse quota value") && !ran.out.contains("Unable"), "{}", ran.err);
}

#[test]
fn attributes_that_are_given_several_times_are_told() {
    for command in [
        &["mixer", "check", "--config", "embedded://sample", "-s", "source.name=a,source.name=b"][..],
        &["mixer", "eval", "source.name == \"b\"", "-s", "source.name=a,source.name=b"],
    ] {
        let ran = run(command);
        let told = "warning: the attribute `source.name` is given several times: the last value counts";
        assert!(ran.code == 0 && ran.err.contains(told), "{command:?}: {}", ran.err);
    }
}

/// Somebody with a running server would take it for that.
#[test]
fn the_sample_that_is_shown_because_nothing_is_named_says_so() {
    for command in [&["mixer", "routes", "show"][..], &["mixer", "snapshot", "dump"]] {
        let ran = run(command);
        let told = ran.err.contains("this is the sample configuration")
            && ran.err.contains("`--server localhost:9876`");
        assert!(ran.code == 0 && told, "{command:?}: {}", ran.err);
        let named = run(&[command, &["--config", "embedded://sample"]].concat());
        assert_eq!((named.code, &*named.err), (0, ""), "{command:?}");
        assert_eq!(ran.out, named.out, "{command:?}");
    }
}

#[test]
fn verbose_commands_log_what_they_run() {
    let of = |args: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_mixer")).args(args).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let check = ["check", "--config", "embedded://sample", "-s", "source.name=a", "-o", "plain"];
    let (plain, silent) = of(&check);
    let (result, log) = of(&[&check[..], &["-v"]].concat());
    assert_eq!((plain, &*silent), (result, ""));
    assert!(log.contains("\tdebug\t") || log.contains("\tinfo\t"), "{log}");
    for flag in ["-v", "--verbose"] {
        let (settings, _) = of(&["server", flag, "--print-config"]);
        assert!(settings.contains("log-output-level: default:debug "), "{settings}");
    }
    let (settings, _) = of(&["server", "--quiet", "--print-config", "--log-output-level=api:debug"]);
    assert_eq!(settings, "", "no result");
    let (settings, _) = of(&["server", "-v", "--print-config", "--log-output-level=api:debug"]);
    assert!(settings.contains("log-output-level: api:debug "), "{settings}");
}

#[test]
fn a_server_is_named_alike_in_every_command() {
    for args in [
        &["mixer", "check", "--help"][..],
        &["mixer", "report", "--help"],
        &["mixer", "probe", "--help"],
        &["mixer", "validate", "--help"],
        &["mixer", "snapshot", "dump", "--help"],
        &["mixer", "routes", "show", "--help"],
        &["mixer", "galley", "status", "--help"],
        &["mixer", "galley", "wait", "--help"],
    ] {
        let help = run(args).out;
        assert!(help.contains("--server <ADDRESS>"), "{args:?}: {help}");
    }
    // Nothing listens on port 1. A port that is left out is that of what is asked.
    for (args, names) in [
        (&["mixer", "check", "--mixer", "127.0.0.1:1"][..], "127.0.0.1:1"),
        (&["mixer", "check", "--server", "127.0.0.1:1"], "127.0.0.1:1"),
        (&["mixer", "report", "--server", "127.0.0.1:1"], "127.0.0.1:1"),
        (&["mixer", "probe", "--grpc", "127.0.0.1:1"], "127.0.0.1:1"),
        (&["mixer", "probe", "--server", "127.0.0.1:1"], "127.0.0.1:1"),
        (&["mixer", "routes", "show", "--server", "127.0.0.254"], "127.0.0.254:9876"),
        (&["mixer", "snapshot", "dump", "--server", "127.0.0.254"], "127.0.0.254:9876"),
        (&["mixer", "galley", "status", "--server", "127.0.0.254"], "127.0.0.254:9876"),
        (&["mixer", "validate", "testdata/config", "--live", "127.0.0.254"], "127.0.0.254:9876"),
        (&["mixer", "validate", "testdata/config", "--server", "127.0.0.254"], "127.0.0.254:9876"),
    ] {
        let ran = run(args);
        let told = format!("{}{}", ran.out, ran.err);
        assert!(ran.code != 0 && ran.code != 2 && told.contains(names), "{args:?}: {told}");
    }
}

#[test]
fn a_configuration_is_named_alike_in_every_command() {
    for config in
        ["testdata/config", "fs://testdata/config", "testdata/config/attributes.yaml", "embedded://sample"]
    {
        for args in [
            &["mixer", "check", "-s", "source.name=a", "--exit-zero"][..],
            &["mixer", "report", "-s", "source.name=a"],
            &["mixer", "eval", "1 == 1"],
            &["mixer", "snapshot", "dump"],
            &["mixer", "routes", "show"],
            &["mixer", "validate"],
            &["mixer", "server", "--print-config"],
        ] {
            let ran = run(&[args, &["--config", config][..]].concat());
            let is_usage = ran.code == 2 || ran.code == 3;
            assert!(!is_usage, "{args:?} --config {config}: {} {}", ran.code, ran.err);
        }
    }
    let file = run(&["mixer", "server", "--config", "testdata/config/attributes.yaml"]);
    let told = "error: a server follows a directory, and `testdata/config/attributes.yaml` is a file\n  hint: name the directory that has it: \
                --config testdata/config\n";
    assert_eq!((file.code, &*file.err), (2, told));
    for args in [
        &["mixer", "server", "--default-namespace", "ops", "--print-config"][..],
        &["mixer", "server", "--config-default-namespace", "ops", "--print-config"],
    ] {
        let ran = run(args);
        assert!(ran.code == 0 && ran.out.contains("config-default-namespace: ops "), "{args:?}: {}", ran.out);
    }
    for command in ["check", "report", "validate", "test", "diff", "eval", "server"] {
        let help = run(&["mixer", command, "--help"]).out;
        assert!(help.contains("--config") && help.contains("--default-namespace"), "{command}: {help}");
    }
}

/// `validate` takes the configuration as an argument; these take it as a flag.
#[test]
fn a_configuration_that_is_no_argument_names_its_flag() {
    for (command, configuration) in
        [(&["server"][..], "fs://policy"), (&["routes", "show"], "policy"), (&["check"], "policy")]
    {
        let told = run(&[&["mixer"][..], command, &[configuration]].concat());
        let hint = format!(
            "error: unexpected argument `{configuration}`\n  hint: if it is the configuration, name it with the flag: `--config {configuration}`; \
             see `mixer {} --help`\n",
            command.join(" ")
        );
        assert_eq!((told.code, &*told.err), (2, &*hint));
    }
    let told = run(&["mixer", "version", "policy"]);
    assert!(!told.err.contains("--config"), "{}", told.err);
}

#[test]
fn galley_and_diff_take_a_configuration_too() {
    let url = run(&["mixer", "galley", "server", "--config", "mcp://x"]);
    assert_eq!(
        (url.code, &*url.err),
        (
            2,
            "error: galley cannot read resources from `mcp://x`\n  hint: use a directory, a file, fs://DIR or k8s://[KUBECONFIG]\n"
        )
    );
    // A settings file, as before.
    let directory = tempfile::tempdir().unwrap();
    let settings = directory.path().join("galley.yaml");
    std::fs::write(&settings, "nosuch: 1\n").unwrap();
    for flag in ["-c", "--config", "--config-file"] {
        let ran = run(&["mixer", "galley", "server", flag, &settings.display().to_string()]);
        assert!(ran.err.contains("unknown key `nosuch`"), "{flag}: {}", ran.err);
    }
    let calls = directory.path().join("calls.jsonl");
    std::fs::write(&calls, "").unwrap();
    for flag in ["--to", "--config"] {
        let ran = run(&[
            "mixer",
            "diff",
            "--from",
            "testdata/config",
            flag,
            "testdata/config",
            "--requests",
            &calls.display().to_string(),
        ]);
        assert!(ran.code == 2 && ran.err.contains("contains no calls"), "{flag}: {}", ran.err);
    }
}

#[test]
fn unknown_flags_name_the_nearest_one() {
    for (args, hint) in [
        (&["mixer", "check", "--servr", "x"][..], "did you mean `--server`?"),
        (&["mixer", "check", "--config-store-url", "x"], "did you mean `--config`?"),
        (&["mixer", "check", "--string-attribute", "a=b"], "did you mean `--string-attributes`?"),
        (&["mixer", "check", "--string_attribute", "a=b"], "did you mean `--string-attributes`?"),
        (&["mixer", "routes", "show", "--live", "x"], "did you mean `--server`?"),
        (&["mixer", "routes", "show", "--mixer", "x"], "did you mean `--server`?"),
        (&["mixer", "server", "--metrics-adress", "x"], "did you mean `--metrics-address`?"),
        (&["mixer", "server", "--config-path", "x"], "did you mean `--config`?"),
        (&["mixer", "server", "--grpc-port", "1"], "did you mean `--port`?"),
        (&["mixer", "server", "--log-level", "debug"], "did you mean `--log-output-level`?"),
        (&["mixer", "validate", "--format", "json"], "did you mean `--output`?"),
        (&["mixer", "validate", "--verbos", "x"], "did you mean `--verbose`?"),
        (&["mixer", "eval", "--junit", "x"], "it is a flag of `mixer test`; see `mixer eval --help`"),
        (&["mixer", "eval", "--zzz"], "see `mixer eval --help`"),
    ] {
        let ran = run(args);
        let told = ran.err.lines().last().unwrap_or_default();
        assert_eq!((ran.code, told), (2, &*format!("  hint: {hint}")), "{args:?}: {}", ran.err);
    }
}

#[test]
fn every_failure_is_a_json_document_if_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    let suite = directory.path().join("test.yaml");
    std::fs::write(&suite, "kind: PolicyTest\ntests: 5\nconfig: /nowhere\n").unwrap();
    let bootstrap = directory.path().join("bootstrap.yaml");
    std::fs::write(&bootstrap, "nosuch: 1\n").unwrap();
    let (suite, bootstrap) = (suite.display().to_string(), bootstrap.display().to_string());
    let broken = scenario("broken-rule");
    let table: &[(&[&str], u8)] = &[
        (&["check", "--server", "127.0.0.1:1"], 4),
        (&["check", "--server", "127.0.0.1:1", "--explain"], 4),
        (&["report", "--server", "127.0.0.1:1"], 4),
        (&["check", "-s", "nothing"], 2),
        (&["check", "--timeot"], 2),
        (&["routes", "show", "--config", &broken], 0),
        (&["check", "--config", "testdata/config", "-s", "sorce.name=a"], 0),
        (&["test", &suite], 2),
        (&["proxy", "-c", &bootstrap], 1),
        (&["proxy", "-c", "/nowhere"], 1),
        (&["validate", "/nowhere"], 3),
        (&["probe", "--server", "127.0.0.1:1"], 1),
        (&["doctor", "--port", "x"], 2),
        (&["server", "--config-file", "/nowhere"], 3),
        (&["galley", "server", "--config", "mcp://x"], 2),
        (&["galley", "status", "--server", "127.0.0.1:1"], 4),
        (&["eval", "1 ="], 2),
        (&["legacy", "nosuch"], 2),
    ];
    for (args, code) in table {
        for at in [1, args.len() + 1] {
            let mut all = vec!["mixer"];
            all.extend(*args);
            let flag: &[&str] = if args[0] == "legacy" { &[] } else { &["--error-format", "json"] };
            let at = if args[0] == "legacy" { 1 } else { at };
            all.splice(at..at, flag.iter().copied());
            if args[0] == "legacy" {
                all.splice(1..1, ["--error-format", "json"]);
            }
            let ran = run_with_input(&all, "");
            assert_eq!(ran.code, *code, "{all:?}: {}", ran.err);
            assert!(!ran.err.is_empty(), "{all:?}");
            for line in ran.err.lines() {
                let document: Value = serde_json::from_str(line).unwrap_or_default();
                let kind = document["kind"].as_str().unwrap_or_default();
                let expected = if *code == 0 { "Warning" } else { "Error" };
                assert_eq!(kind, expected, "{all:?}: {line}");
            }
            assert!(!ran.out.contains("failed with"), "{all:?}: {}", ran.out);
        }
    }
}

#[test]
fn completions_know_all_flags_and_values_and_hide_what_is_hidden() {
    let script = run(&["mixer", "completions", "bash"]).out;
    for hidden in ["collateral", "enableAnalysis", "validator"] {
        assert!(!script.contains(hidden), "{hidden}");
    }
    let of = |name: &str| {
        let begin = format!("        {name})\n            opts=\"");
        script
            .split(&begin)
            .nth(1)
            .and_then(|rest| rest.split(";;\n        mixer").next())
            .unwrap_or_default()
    };
    let doctor = of("mixer__subcmd__doctor");
    assert!(doctor.contains("--port ") && doctor.contains("--config-store-url "), "{doctor}");
    assert!(of("mixer__subcmd__check").contains("--server "));
    // The generator for fish leaves both out.
    let fish = run(&["mixer", "completions", "fish"]).out;
    let codes = "complete -c mixer -n \"__fish_mixer_using_subcommand explain-code\" -f -a \"";
    let codes = fish.lines().find_map(|line| line.strip_prefix(codes)).unwrap_or_default();
    assert!(codes.split(' ').any(|code| code == "handler-unknown"), "{codes}");
    assert!(
        fish.contains("using_subcommand completions\" -f -a \"bash elvish fish powershell zsh\"\n"),
        "{fish}"
    );
    assert!(fish.contains("-- $cmd 2>/dev/null\n    or return 0\n"), "{fish}");
    for (command, values) in [
        ("mixer__subcmd__server", "compgen -W \"keep-last serve-valid refuse\""),
        ("mixer__subcmd__server", "compgen -W \"true false\""),
        ("mixer__subcmd__explain__subcmd__code", "handler-unknown"),
        ("mixer__subcmd__eval", "CEXL CEL COMPAT"),
    ] {
        assert!(of(command).contains(values), "{command} {values}: {}", of(command));
    }
}
