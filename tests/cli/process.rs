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
