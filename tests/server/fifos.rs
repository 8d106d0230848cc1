//! FIFOs in the place of files: none makes a start wait for the process at its other end.

use std::fs::OpenOptions;
use std::io::Read as _;
use std::path::Path;
use std::process::Command;

use crate::signals::{configuration, on};
use crate::support::{DEADLINE, http, run_mixer as mixer, wait_for};

fn fifo(path: &Path) -> String {
    assert!(Command::new("mkfifo").arg(path).status().is_ok_and(|status| status.success()));
    path.display().to_string()
}

#[test]
fn files_that_are_fifos_are_refused_at_the_start() {
    let directory = configuration("");
    let path = fifo(&directory.path().join("fifo"));
    let is_refused = |arguments: &[&str], text: &str| {
        let config = directory.path().join("config").display().to_string();
        let own =
            ["server", "--config-store-url", &format!("fs://{config}"), "--address", "tcp://127.0.0.1:0"];
        // Ends within the deadline of the test.
        let finished =
            mixer(&[&own[..], &["--monitoring-port", "0", "--ctrlz-port", "0"], arguments].concat());
        assert_eq!(finished.status, 3, "{arguments:?} {finished:?}");
        assert!(finished.stderr.contains(text), "{arguments:?} {finished:?}");
    };
    for flag in ["--config-file", "--log-rotate", "--pid-file"] {
        is_refused(&[flag, &path], "not a regular file but a FIFO");
    }
    for flag in ["--decision-log", "--record-requests"] {
        is_refused(&[flag, &path], "no process reads the FIFO");
    }
    let tls = ["--tls-cert-file", &path, "--tls-key-file", &path];
    is_refused(&tls, "not a regular file but a FIFO");
    is_refused(&["--record-requests", "/dev/zero"], "not a regular file but a device");
    assert!(directory.path().join("fifo").exists());
}

#[test]
fn a_missing_directory_of_an_output_file_is_refused_at_the_start() {
    let directory = configuration("");
    let missing = directory.path().join("lgos");
    let path = missing.join("out.log").display().to_string();
    let config = format!("fs://{}", directory.path().join("config").display());
    let own = ["--config-store-url", &config, "--address", "tcp://127.0.0.1:0", "--allow-empty-config"];
    let ports = ["--monitoring-port", "0", "--ctrlz-port", "0", "--metrics-port", "0"];
    for flag in ["--decision-log", "--record-requests", "--log-rotate"] {
        for more in [&[][..], &["--dry-run"]] {
            let finished = mixer(&[&["server"][..], &own, &ports, &[flag, &path], more].concat());
            assert_eq!(finished.status, 3, "{flag} {more:?} {finished:?}");
            let text =
                format!("the directory `{}` does not exist; correct the path, or create", missing.display());
            assert!(finished.stderr.contains(&text), "{flag} {more:?} {finished:?}");
        }
    }
    assert!(!missing.exists());
    // As Istio Mixer, where the flag is one of its own.
    let server = on(&directory).with(&["--log_rotate", &path]).start();
    assert!(missing.exists(), "{}", server.log());
}

#[test]
fn a_fifo_as_log_target_is_written_once_somebody_reads_it() {
    let directory = configuration("");
    let path = directory.path().join("fifo");
    let name = fifo(&path);
    let mut server = on(&directory).native().with(&["--allow-empty-config", "--log-target", &name]).start();
    let told = || {
        let answer = http("GET", &server.monitoring_url("/readyz?verbose"), "").ok()?;
        let told = answer.body.contains(&format!("{name}: no process reads the FIFO"));
        (told && answer.status == 200).then_some(())
    };
    assert!(wait_for(DEADLINE, told).is_some(), "{}", server.log());
    let mut reader = OpenOptions::new().read(true).write(true).open(&path).expect("the FIFO opens");
    let (mut read, mut chunk) = (String::new(), [0; 1 << 12]);
    while !read.contains("log works again; ") {
        let length = reader.read(&mut chunk).expect("a record");
        read.push_str(&String::from_utf8_lossy(&chunk[..length]));
    }
    assert!(
        read.contains(" log records before this one could not be written: no process reads the FIFO"),
        "{read}"
    );
    // Reopening waits for nobody either.
    drop(reader);
    server.signal("HUP");
    assert_eq!(server.terminate(), Ok(Some(0)), "{}", server.log());
}
