//! The binary as a process: its name, pipes, and the origin of settings.

use std::process::{Command, Stdio};

fn binary(name: &str) -> Command {
    use std::os::unix::process::CommandExt as _;
    let mut command = Command::new(env!("CARGO_BIN_EXE_mixer"));
    command.arg0(name);
    command
}

#[test]
fn argv0_selects_the_program_whatever_its_directory_and_suffix() {
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
fn a_closed_pipe_is_no_failure() {
    let mut child =
        binary("mixer").args(["crd", "all"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
}

#[test]
fn a_flag_beats_the_environment_beats_the_file_beats_the_default() {
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
            "--print-config prints a valid settings file"
        );
    }
    std::fs::write(&yaml, "prt: 1\n").unwrap();
    let output = binary("mixer").args(["server", "--config-file"]).arg(&yaml).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&output.stderr).contains("did you mean `port`?"));
}

#[test]
fn the_service_variable_of_kubernetes_does_not_set_the_port() {
    let output = binary("mixer")
        .args(["server", "--print-config"])
        .env("MIXER_PORT", "tcp://10.0.0.7:9091")
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("port: 9091 "));
}

/// The files of a server that a trial would create, with another user, keep the server out.
#[test]
fn a_trial_of_a_configuration_creates_no_files_of_the_server() {
    const POLICY: &str = "\
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: entry, namespace: istio-system}
spec: {compiledTemplate: logentry, params: {severity: '\"INFO\"', variables: {path: request.path | \"\"}}}
---
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {name: forward, namespace: istio-system}
spec: {compiledAdapter: fluentd, params: {address: 'localhost:1', spillDirectory: PLACE/spill}}
---
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {name: file, namespace: istio-system}
spec: {compiledAdapter: stdio, params: {logStream: FILE, outputPath: PLACE/lines}}
---
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {name: rotated, namespace: istio-system}
spec: {compiledAdapter: stdio, params: {logStream: ROTATED_FILE, outputPath: PLACE/rotated}}
---
apiVersion: config.istio.io/v1alpha2
kind: rule
metadata: {name: report, namespace: istio-system}
spec:
  actions:
  - {handler: forward, instances: [entry]}
  - {handler: file, instances: [entry]}
  - {handler: rotated, instances: [entry]}
";
    let place = tempfile::tempdir().unwrap();
    let policy = place.path().join("policy");
    std::fs::create_dir(&policy).unwrap();
    let text = POLICY.replace("PLACE", &place.path().display().to_string());
    std::fs::write(policy.join("policy.yaml"), text).unwrap();
    let of = |name: &str| place.path().join(name).display().to_string();
    let (url, socket) = (format!("fs://{}", policy.display()), format!("unix://{}", of("api.sock")));
    let trials = [
        vec!["server", "--dry-run", "--config-store-url", &url, "--address", &socket],
        vec!["report", "--config", &url, "-s", "request.path=/tried"],
    ];
    let (log, rotate) = (of("mixer.log"), of("rotated.log"));
    for (trial, more) in trials.into_iter().zip([vec!["--log-target", &log, "--log-rotate", &rotate], vec![]])
    {
        let output = binary("mixer").args(&trial).args(more).output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{trial:?}: {err}");
        let left: Vec<_> =
            std::fs::read_dir(place.path()).unwrap().flatten().map(|e| e.file_name()).collect();
        assert_eq!(left, ["policy"], "{trial:?}: {err}");
        let lines = err.lines().filter(|line| line.contains("/tried")).count();
        assert_eq!(lines, if trial[0] == "report" { 2 } else { 0 }, "the lines go to standard error: {err}");
    }
    // What the server could not open is told.
    let nowhere = of("nowhere/mixer.log");
    let output = binary("mixer")
        .args([
            "server",
            "--dry-run",
            "--config-store-url",
            &url,
            "--address",
            &socket,
            "--log-target",
            &nowhere,
        ])
        .output()
        .unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && err.contains("couldn't open sink"), "{err}");
}
