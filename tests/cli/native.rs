//! `mixer`: errors with hints, both spellings of flags, exit statuses, help.

use serde_json::Value;

use crate::{first_line, run, scenario};

#[test]
fn errors_are_one_line_and_a_hint() {
    let table: &[(&[&str], &str)] = &[
        (&["mixer", "chek"], "error: unknown command `chek`\n  hint: did you mean `check`?\n"),
        (
            &["mixer", "check", "--timeot", "5s"],
            "error: unknown flag `--timeot`\n  hint: did you mean `--timeout`?\n",
        ),
        (
            &["mixer", "--config", "policy", "check"],
            "error: unknown flag `--config`\n  hint: flags of a command follow its name: `mixer check --config …`\n",
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
            &["mixer", "server", "--config-on-error", "lenient"],
            "error: invalid value `lenient` for `--config-on-error`\n  hint: one of keep-last, serve-valid, refuse\n",
        ),
        (
            &["mixer", "server", "--memory-limit", "1PiB"],
            "error: invalid value `1PiB` for `--memory-limit`\n  cause: expected a number of bytes, for example 1048576, 4MiB or 1TiB\n  hint: see `mixer server --help`\n",
        ),
        (
            &["mixer", "check", "--repeat"],
            "error: flag `--repeat` needs a value\n  hint: see `mixer check --help`\n",
        ),
        (
            &["mixer", "legacy", "mixx"],
            "error: unknown legacy program `mixx`\n  hint: one of mixs, mixc, galley\n",
        ),
        (
            &["mixer", "--quiet", "legacy", "mixs", "version"],
            "error: flags before `legacy` are not those of `mixs`\n  hint: begin with `mixer legacy mixs`; its own flags follow\n",
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

/// `--help` is never the value of the flag before it.
#[test]
fn help_is_shown_wherever_it_is_asked_for() {
    let page = run(&["mixer", "validate", "--help"]);
    for args in [
        &["mixer", "validate", "--live", "--help"][..],
        &["mixer", "validate", "conf", "--live", "localhost:9876", "--help"],
        &["mixer", "--color", "always", "validate", "-o", "--help"],
    ] {
        let ran = run(args);
        assert_eq!((ran.code, ran.err.as_str(), ran.out == page.out), (0, "", true), "{args:?}: {}", ran.out);
    }
    assert_eq!(run(&["mixer", "validate", "--live", "-h"]).out, run(&["mixer", "validate", "-h"]).out);
    let doctor = run(&["mixer", "doctor", "--port", "1", "--help"]);
    assert_eq!((doctor.code, doctor.out), (0, run(&["mixer", "doctor", "--help"]).out), "{}", doctor.err);
    let path = run(&["mixer", "validate", "--", "--help"]);
    assert_eq!(path.code, 3, "{}", path.err);
}

#[test]
fn sizes_have_one_syntax() {
    let settings = [
        ("--memory-limit", "1TiB"),
        ("--max-message-size", "1T"),
        ("--heap-profile-rate", "512Ki"),
        ("--decision-log-max-size", "1tb"),
        ("--record-max-size", "1TiB"),
        ("--log-rotate-max-size", "1TiB"),
    ];
    for (flag, size) in settings {
        let ran = run(&["mixer", "server", flag, size, "--print-config"]);
        let line = format!("{}: {size} ", flag.trim_start_matches('-'));
        assert!(ran.code == 0 && ran.out.contains(&line), "{flag}: {} {}", ran.out, ran.err);
        assert_eq!(run(&["mixs", "server", flag, "1ZiB"]).code, 255, "{flag}");
    }
    let help = run(&["mixer", "server", "--help"]).out;
    let memory = help.split("--memory-limit").nth(1).unwrap_or_default();
    assert!(memory.split("--").next().unwrap_or_default().contains("At least 16MiB"), "{help}");
}

#[test]
fn the_default_of_what_serves_with_errors_is_printed() {
    let printed = run(&["mixer", "server", "--print-config"]).out;
    assert!(printed.lines().any(|line| line.starts_with("config-on-error: keep-last ")), "{printed}");
    let printed = run(&["mixer", "server", "--print-config", "--config-on-error", "refuse"]).out;
    assert!(printed.lines().any(|line| line.starts_with("config-on-error: refuse ")), "{printed}");
}

/// ControlZ and explanations write entries of maps like this.
#[test]
fn an_entry_of_a_map_is_told_as_the_flag_takes_it() {
    let ran = run(&["mixer", "routes", "show", "--match", "request.headers[x-user]=a"]);
    let text = "unknown attribute `request.headers[x-user]`\n  hint: write request.headers=x-user:a\n";
    assert!(ran.code == 2 && ran.err.contains(text), "{}", ran.err);
    assert_eq!(run(&["mixer", "routes", "show", "--match", "request.headers=x-user:a"]).code, 0);
}

/// The start fails after the banner.
#[test]
fn the_banner_shows_what_is_in_effect() {
    let line = |args: &[&str], name: &str| {
        let ran = run(args);
        let line = ran.out.lines().find_map(|line| line.strip_prefix(name).map(str::to_owned));
        line.unwrap_or_else(|| panic!("no {name} in {} {}", ran.out, ran.err))
    };
    let flags = |program| [program, "server", "--max-message-size", "0", "--address", "tcp://127.0.0.1:7"];
    let mixer = flags("mixer");
    assert_eq!(line(&mixer, "APIPort:"), "  7");
    assert_eq!(line(&mixer, "APIAddress:"), "  tcp://127.0.0.1:7");
    assert_eq!(line(&mixer, "NumCheckCacheEntries:"), "  0");
    assert_eq!(line(&mixer, "ConfigStoreURL:"), "  embedded://sample");
    let version = line(&mixer, "Version:");
    assert!(version.starts_with(concat!("  ", env!("CARGO_PKG_VERSION"))), "{version}");
    let shown = run(&mixer).out;
    assert!(!shown.contains("CertificateFile:") && !shown.contains("KeyFile:"), "without TLS: {shown}");
    let secured =
        [&mixer[..], &["--tls-cert-file", "/nowhere/a.pem", "--tls-key-file", "/nowhere/a.key"]].concat();
    assert_eq!(line(&secured, "APICertificateFile:"), "  /nowhere/a.pem");
    let versions = run(&["mixer", "version"]).out;
    assert!(!versions.contains("Golang") && !versions.contains("unknown"), "{versions}");
    assert!(versions.contains("Compiler: rustc "), "{versions}");
    let cached = [&mixer[..], &["--num-check-cache-entries", "5"]].concat();
    assert_eq!(line(&cached, "NumCheckCacheEntries:"), "  5");
    // As Istio Mixer prints it.
    let mixs = ["mixs", "server", "--maxMessageSize", "0", "--address", "tcp://127.0.0.1:7"];
    assert_eq!(line(&mixs, "APIPort:"), "  9091");
    assert_eq!(line(&mixs, "NumCheckCacheEntries:"), "  1500000");
    assert_eq!(line(&mixs, "ConfigStoreURL:"), "  ");
}

#[test]
fn both_spellings_of_flags_are_accepted() {
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
fn exit_statuses_distinguish_denied_from_allowed() {
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
fn a_timeout_has_its_own_exit_status() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let target = listener.local_addr().unwrap().to_string();
    let ran = run(&["mixer", "check", "-m", &target, "--timeout", "200ms"]);
    assert_eq!(ran.code, 5, "{}", ran.out);
    assert!(ran.out.starts_with("Check RPC failed with: DeadlineExceeded"), "{}", ran.out);
}

/// The first thing that a newcomer meets who forgot the server.
#[test]
fn a_server_that_is_not_there_is_told_in_plain_words() {
    for command in ["check", "report"] {
        let ran = run(&["mixer", command, "-m", "127.0.0.1:1"]);
        let told = "Unavailable (no server answers at 127.0.0.1:1: connection refused)\n  start one with `mixer server`, ";
        assert!(ran.out.contains(told), "{}", ran.out);
        let ran = run(&["mixer", command, "-m", "127.0.0.1:1", "--error-format", "json"]);
        let failure: serde_json::Value = serde_json::from_str(ran.err.lines().next().unwrap()).unwrap();
        assert_eq!(failure["cause"], "no server answers at 127.0.0.1:1: connection refused");
        assert!(failure["hint"].as_str().unwrap().starts_with("start one with `mixer server`"), "{failure}");
        let ran = run(&["mixc", command, "-m", "127.0.0.1:1"]);
        assert!(
            ran.out.contains("desc = \"transport: Error while dialing dial tcp 127.0.0.1:1: "),
            "{}",
            ran.out
        );
    }
    let ran = run(&["mixer", "probe", "--server", "127.0.0.1:1"]);
    assert!(ran.err.contains("no server answers at 127.0.0.1:1"), "{}", ran.err);
    let ran = run(&["mixer", "probe", "--http", "127.0.0.1:1/readyz"]);
    assert!(ran.err.contains("`http://127.0.0.1:1/readyz` is not available"), "{}", ran.err);
}

/// A server answers UNAVAILABLE then; `validate` and `doctor` say so.
#[test]
fn an_empty_configuration_is_told() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("a.yaml"), "# nothing yet\n").unwrap();
    let path = directory.path().to_str().unwrap();
    let commands =
        [(&["check"][..], 3), (&["report"], 3), (&["routes", "show"], 0), (&["snapshot", "dump"], 0)];
    for (command, status) in commands {
        let ran = run(&[&["mixer"][..], command, &["--config", path]].concat());
        let told = "has no resources: a server answers UNAVAILABLE, unless --allow-empty-config";
        assert!(ran.code == status && ran.err.contains(told), "{command:?}: {}", ran.err);
    }
}

#[test]
fn every_help_page_starts_with_a_short_line_and_has_an_example() {
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

/// Names of a real mesh are longer than those of the sample.
#[test]
fn routes_fit_their_terminal() {
    let directory = tempfile::tempdir().unwrap();
    let text = "\
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {name: refuse-what-nobody-should-ever-ask-for, namespace: payments-of-the-european-region}
spec: {compiledAdapter: denier, params: {status: {code: 7, message: no}}}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: every-request-of-the-checkout, namespace: payments-of-the-european-region}
spec: {compiledTemplate: checknothing}
---
apiVersion: config.istio.io/v1alpha2
kind: rule
metadata: {name: close-the-checkout-for-unknown-callers, namespace: payments-of-the-european-region}
spec:
  match: source.namespace != \"payments-of-the-european-region\" && request.path.startsWith(\"/checkout\")
  actions:
  - handler: refuse-what-nobody-should-ever-ask-for
    instances: [every-request-of-the-checkout]
---
apiVersion: config.istio.io/v1alpha2
kind: attributemanifest
metadata: {name: attributes, namespace: istio-system}
spec:
  attributes:
    source.namespace: {valueType: STRING}
    request.path: {valueType: STRING}
";
    std::fs::write(directory.path().join("config.yaml"), text).unwrap();
    let config = directory.path().display().to_string();
    for columns in ["80", "100", "160"] {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_mixer"))
            .args([
                "routes",
                "show",
                "--output",
                "table",
                "--match",
                "source.namespace=shop",
                "--config",
                &config,
            ])
            .env("COLUMNS", columns)
            .output()
            .unwrap();
        let shown = String::from_utf8(output.stdout).unwrap();
        assert!(shown.contains("VARIETY") && shown.lines().count() > 3, "{shown}");
        let widest = shown.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= columns.parse().unwrap(), "{columns}: {widest}\n{shown}");
    }
}
