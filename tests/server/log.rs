//! The log while callers try to misuse it, and while nobody reads it.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::signals::{access_log, configuration, on};
use crate::support::bag::{Attribute, Attributes, Words, encode_alone};
use crate::support::rpc::{Client, mixer as wire};
use crate::support::{DEADLINE, Server, http, is_listening, wait_for};

/// A check of quotas that no rule configures: each is a warning in the log.
fn unknown_quotas(names: impl Iterator<Item = String>) -> wire::CheckRequest {
    let params = wire::check_request::QuotaParams { amount: 1, best_effort: true };
    let quotas: BTreeMap<String, _> = names.map(|name| (name, params)).collect();
    wire::CheckRequest { quotas, ..Default::default() }
}

/// A pipe that the test holds open, so that writing to it never fails, only blocks.
fn unread_pipe(directory: &Path) -> (PathBuf, File) {
    let path = directory.join("pipe");
    let made = Command::new("mkfifo").arg(&path).status();
    assert!(made.is_ok_and(|status| status.success()), "mkfifo {}", path.display());
    let reader = OpenOptions::new().read(true).write(true).open(&path).expect("the pipe opens");
    (path, reader)
}

#[test]
fn what_callers_send_forges_no_record() {
    let directory = configuration("");
    for (format, line_feed) in
        [("--log_as_json=false", "one\\nFORGED"), ("--log_as_json=true", "one\\nFORGED")]
    {
        for journal in [false, true] {
            let builder = on(&directory).with(&[format]);
            let server = if journal { builder.with_journal() } else { builder }.start();
            let mut client = Client::new(&server.address()).expect("a client");
            let name = "one\nFORGED\r\t\u{1b}[31m\u{7f}\u{85}\u{202e}\u{2028}end".to_owned();
            client.check(&unknown_quotas(std::iter::once(name)), None).expect("an answer");
            server.wait_for_log("is not configured");
            let log = server.log();
            assert!(log.contains(line_feed), "{log}");
            assert!(!log.lines().any(|line| line.starts_with("FORGED")), "{log}");
            let own = |c: char| matches!(c, '\n' | '\t');
            let raw: Vec<char> = log.chars().filter(|c| c.is_control() && !own(*c)).collect();
            assert!(raw.is_empty(), "control characters in {log:?}");
            assert!(!log.contains(['\u{202e}', '\u{2028}']), "{log:?}");
        }
    }
}

#[test]
fn callers_do_not_set_the_rate_of_the_log() {
    let directory = configuration("");
    let server = on(&directory).start();
    let mut client = Client::new(&server.address()).expect("a client");
    let begun = std::time::Instant::now();
    let (calls, names) = (100, 50);
    for call in 0..calls {
        client
            .check(&unknown_quotas((0..names).map(|n| format!("quota-{call}-{n}"))), None)
            .expect("an answer");
    }
    let total = calls * names;
    let shown = |log: &str| log.matches("is not configured").count();
    // What was left out is counted in a record of its own once its second has passed.
    let left_out = |log: &str| {
        let counts = log.lines().filter_map(|line| line.split("\"suppressed\": ").nth(1));
        counts.filter_map(|rest| rest.split(['}', ',']).next()?.parse::<usize>().ok()).sum::<usize>()
    };
    let all = || Some(server.log()).filter(|log| shown(log) + left_out(log) == total);
    let log = wait_for(DEADLINE, all);
    let log = log.unwrap_or_else(|| {
        let log = server.log();
        panic!("{} shown and {} left out of {total}\n{log}", shown(&log), left_out(&log))
    });
    // One of each second.
    let seconds = usize::try_from(begun.elapsed().as_secs()).expect("few") + 2;
    assert!(shown(&log) <= seconds, "{} records in {seconds} s", shown(&log));
    let counted = server.metric("mixer_log_records_suppressed_total");
    assert_eq!(counted, left_out(&log) as f64);
}

/// They come from the configuration, not from callers.
#[test]
fn diagnostics_are_logged_at_any_rate() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let rule = |n: usize| {
        format!(
            "---\napiVersion: config.istio.io/v1alpha2\nkind: rule\nmetadata: {{name: r{n}, namespace: istio-system}}\n\
             spec: {{match: 'source.user ==', actions: []}}\n"
        )
    };
    std::fs::write(directory.path().join("rules.yaml"), (0..250).map(rule).collect::<String>())
        .expect("writable");
    let server = Server::on(directory.path()).native().start();
    let logged = || Some(server.log().matches("expression-parse").count()).filter(|count| *count >= 250);
    assert_eq!(wait_for(DEADLINE, logged), Some(250), "{}", server.log());
    assert!(!server.log().contains("above its rate"), "{}", server.log());
}

#[test]
fn output_that_nobody_reads_stalls_nothing() {
    let directory = configuration("");
    let (path, mut pipe) = unread_pipe(directory.path());
    // Standard output and standard error of the server are the pipe.
    let script = directory.path().join("through");
    let text = format!("#!/bin/sh\nexec \"$@\" >{0} 2>{0}\n", path.display());
    std::fs::write(&script, text).expect("it is writable");
    let arguments = [script.display().to_string()];
    let flags = ["--allow-empty-config", "--log-output-level", "default:debug"];
    let builder = on(&directory).with(&flags).native();
    let mut server = builder.through(Path::new("/bin/sh"), &arguments).spawn().expect("it starts");
    let ports = [server.ports.api, server.ports.monitoring, server.ports.ctrlz];
    let up = wait_for(DEADLINE, || ports.iter().all(|port| is_listening(*port)).then_some(()));
    assert!(up.is_some(), "the server does not start");

    // More than the pipe holds: dumps of the state go to the log without a limit of their rate.
    let mut client = Client::new(&server.address()).expect("a client");
    for call in 0..300 {
        if call % 20 == 0 {
            server.signal("USR2");
        }
        let answer =
            client.check(&unknown_quotas((0..10).map(|n| format!("{call}-{n}-{}", "x".repeat(500)))), None);
        assert!(answer.is_ok(), "call {call}: {answer:?}");
    }
    for url in ["/metrics", "/healthz"] {
        assert_eq!(http("GET", &server.monitoring_url(url), "").expect("an answer").status, 200, "{url}");
    }
    let page = http("GET", &format!("http://127.0.0.1:{}/scopej/", server.ports.ctrlz), "");
    assert_eq!(page.expect("an answer").status, 200);
    server.signal("TERM");
    // The last lines are lost with the pipe, which the status says.
    assert_eq!(server.exit_code(), Ok(Some(3)), "SIGTERM ends it");
    let mut begin = vec![0; 1 << 12];
    let length = pipe.read(&mut begin).expect("the pipe holds the first records");
    let begin = String::from_utf8_lossy(&begin[..length]).into_owned();
    assert!(begin.starts_with("Mixer started with\n"), "{begin}");
}

#[test]
fn records_lost_behind_a_full_pipe_are_counted() {
    let directory = configuration("");
    let (path, mut pipe) = unread_pipe(directory.path());
    let server = on(&directory)
        .with(&["--log-target", &path.display().to_string(), "--log-output-level", "default:debug"])
        .with(&["--allow-empty-config"])
        .native()
        .start();
    // Dumps are records of the operator: their rate is not limited, and the queue is bounded.
    let lost = wait_for(DEADLINE, || {
        (0..20).for_each(|_| server.signal("USR2"));
        std::thread::sleep(Duration::from_millis(20));
        Some(server.metric("mixer_log_records_lost_total")).filter(|lost| *lost > 0.0)
    });
    assert!(lost.is_some(), "nothing was lost");
    let read = Arc::new(Mutex::new(Vec::new()));
    let reading = Arc::clone(&read);
    // Ends with the test binary: the pipe never ends.
    std::thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(length) = pipe.read(&mut buffer) {
            reading.lock().expect("a lock").extend_from_slice(&buffer[..length]);
        }
    });
    let noted = |line: &str| {
        let (record, _) = line.split_once(" log records before this one could not be written")?;
        record.rsplit('\t').next()?.parse::<f64>().ok()
    };
    let mut counted = (0.0, 0.0);
    let equal = wait_for(DEADLINE, || {
        let text = String::from_utf8_lossy(&read.lock().expect("a lock")).into_owned();
        counted = (text.lines().filter_map(noted).sum(), server.metric("mixer_log_records_lost_total"));
        (counted.0 > 0.0 && counted.0 == counted.1).then_some(())
    });
    assert!(equal.is_some(), "records count {} lost, the metric {}", counted.0, counted.1);
    let ready = wait_for(DEADLINE, || {
        http("GET", &server.monitoring_url("/readyz"), "").ok().filter(|answer| answer.status == 200)
    });
    assert!(ready.is_some(), "a full queue does not make the server unready");
    drop(server);
}

#[test]
fn a_reason_not_to_start_is_printed_although_the_log_has_a_queue() {
    let refused = Server::builder().native().with(&["--address", "tcp://127.0.0.1:http-no"]).try_start();
    let reason = refused.err().unwrap_or_default();
    assert!(reason.contains("exited"), "{reason}");
}

/// Lines of a handler, in contrast to the log.
#[test]
fn reports_to_an_output_that_nobody_reads_do_not_keep_the_process() {
    let lines = access_log(Path::new("unused"));
    let stream = lines.replace("outputPath: 'unused', logStream: FILE", "logStream: STDOUT");
    assert_ne!(stream, lines);
    let directory = configuration(&stream);
    let (path, _pipe) = unread_pipe(directory.path());
    let script = directory.path().join("through");
    let text = format!("#!/bin/sh\nexec \"$@\" >{}\n", path.display());
    std::fs::write(&script, text).expect("it is writable");
    let arguments = [script.display().to_string()];
    let builder = on(&directory).with(&["--shutdown-timeout", "3s"]).native();
    let mut server = builder.through(Path::new("/bin/sh"), &arguments).spawn().expect("it starts");
    assert!(wait_for(DEADLINE, || is_listening(server.ports.api).then_some(())).is_some());
    let mut client = Client::new(&server.address()).expect("a client");
    let user = Attributes::from([("source.user".to_owned(), Attribute::Text("u".repeat(1000)))]);
    // More than the pipe holds.
    for _ in 0..300 {
        let attributes = vec![encode_alone(&user, Words::of_message())];
        let request = wire::ReportRequest { attributes, ..Default::default() };
        client.report(&request, None).expect("the report is taken");
    }
    drop(client);
    server.signal("TERM");
    assert!(server.exit_code().is_ok(), "SIGTERM ends it");
}
