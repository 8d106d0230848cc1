use std::collections::BTreeMap;
use std::path::PathBuf;

use super::*;
use crate::decision::{CALLER_PRINCIPAL, CallAnswer, CallerText};
use crate::dispatch::DispatchTrace;
use crate::secret_values::SecretValues;
use mixer_attribute::request::{CheckCall, encode_check_request};
use mixer_attribute::{AttributeBag, OwnedAttributes, OwnedValue, Value, ValueType, Vocabulary};
use mixer_base::secrets::SecretNames;
use mixer_wire::istio::mixer::v1::CheckResponse;
use prost::Message as _;

/// A check of this user, answered with this code.
fn call(user: &str, code: i32) -> AnsweredCall {
    let attributes: OwnedAttributes = [("source.user", user)].into_iter().collect();
    let quotas = BTreeMap::from([("calls".to_owned(), (2, true))]);
    let body = encode_check_request(&attributes, 0, &CheckCall { deduplication_id: "d", quotas });
    let mut response = CheckResponse::default();
    let precondition = response.precondition.get_or_insert_default();
    let status = precondition.status.get_or_insert_default();
    status.code = code;
    status.message = format!("{user} may not");
    AnsweredCall {
        method: Method::Check,
        time: std::time::SystemTime::UNIX_EPOCH,
        took: Duration::from_micros(7),
        caller: Some(CallerText {
            address: "10.0.0.7:1".to_owned(),
            principal: Some("spiffe://web".to_owned()),
        }),
        body: body.into(),
        answer: Ok(CallAnswer(response.encode_to_vec().into())),
        trace: DispatchTrace { decided: true, snapshot: 3, ..DispatchTrace::default() },
    }
}

fn memory() -> Arc<Share> {
    Arc::new(Share::new(32 << 20))
}

fn options(directory: &Path, change: impl FnOnce(&mut DecisionOptions)) -> DecisionOptions {
    let mut options = DecisionOptions::default();
    options.log.path = directory.join("log.json");
    options.recording.path = directory.join("calls.jsonl");
    change(&mut options);
    options
}

/// Writes calls. Returns the lines of both files.
fn write(
    options: &DecisionOptions,
    calls: impl IntoIterator<Item = AnsweredCall>,
) -> (Vec<Decision>, Vec<Decision>) {
    let log = DecisionLog::start(options, &memory(), &Metrics::new()).unwrap().unwrap();
    for call in calls {
        if let Some(targets) = log.wants(Method::Check) {
            log.push(call, targets);
        }
    }
    close(&log);
    (read(&options.log.path), read(&options.recording.path))
}

/// Writes all queued calls.
fn close(log: &DecisionLog) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    assert!(runtime.block_on(log.close(Duration::from_secs(60))));
}

fn read(path: &PathBuf) -> Vec<Decision> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn requests_and_answers_are_written_and_masked() {
    let directory = tempfile::tempdir().unwrap();
    let options = options(directory.path(), |o| o.masks = vec!["source.user".to_owned()]);
    let (logged, recorded) = write(&options, [call("alice", 7)]);
    assert_eq!(logged, recorded);
    let [decision] = &logged[..] else { panic!("{logged:?}") };
    assert_eq!(decision.time, "1970-01-01T00:00:00.000000Z");
    assert_eq!(decision.attributes["source.user"], "***");
    assert_eq!(decision.masked, ["source.user"]);
    assert_eq!((decision.snapshot, decision.took_micros, decision.cached), (3, 7, false));
    assert_eq!(decision.quotas["calls"].amount, 2);
    let caller = decision.caller.as_ref().unwrap();
    assert_eq!((caller.address.as_str(), caller.principal.as_deref()), ("10.0.0.7:1", Some("spiffe://web")));
    let answer = decision.answer.as_ref().unwrap();
    assert_eq!(
        answer.status,
        super::super::StatusText::new(7, "*** may not"),
        "the secret is masked in the message too"
    );
    use std::os::unix::fs::PermissionsExt as _;
    let mode = std::fs::metadata(&options.log.path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "only the owner may read attributes");
}

#[test]
fn what_a_generator_made_is_masked_in_the_answer() {
    let vocabulary = {
        let mut builder = Vocabulary::builder();
        builder.declare("session.token", ValueType::String);
        builder.build()
    };
    let arena = bumpalo::Bump::new();
    let mut bag = AttributeBag::empty(&vocabulary, &arena);
    bag.generate(vocabulary.slot(b"session.token").unwrap(), Value::String(b"alice"));
    let made = SecretValues::made(&bag, &SecretNames::new()).map(Arc::new);
    assert!(made.is_some());
    let directory = tempfile::tempdir().unwrap();
    let mut refused = call("alice", 7);
    refused.trace.made_secrets = made;
    let (logged, _) = write(&options(directory.path(), |_| {}), [refused]);
    let [decision] = &logged[..] else { panic!("{logged:?}") };
    assert_eq!(decision.attributes["source.user"], "alice", "it is not secret where it was received");
    let status = &decision.answer.as_ref().unwrap().status;
    assert_eq!(*status, super::super::StatusText::new(7, "*** may not"));
}

/// A refused check with these headers and this message.
fn refused(headers: &[(&str, &[u8])], message: &str) -> AnsweredCall {
    let entries = headers.iter().map(|(name, value)| (name.as_bytes().into(), (*value).into()));
    let headers = OwnedValue::StringMap(entries.collect());
    let attributes = OwnedAttributes::from_iter([("request.headers", headers)]);
    let call = call("", 7);
    let body =
        encode_check_request(&attributes, 0, &CheckCall { deduplication_id: "d", quotas: BTreeMap::new() });
    let mut response = CheckResponse::default();
    let status = response.precondition.get_or_insert_default().status.get_or_insert_default();
    status.code = 7;
    message.clone_into(&mut status.message);
    AnsweredCall { body: body.into(), answer: Ok(CallAnswer(response.encode_to_vec().into())), ..call }
}

/// The message of its decision.
fn message_of(call: AnsweredCall) -> String {
    let directory = tempfile::tempdir().unwrap();
    let (logged, _) = write(&options(directory.path(), |_| {}), [call]);
    logged[0].answer.as_ref().unwrap().status.message.clone()
}

#[test]
fn secrets_are_known_as_they_were_received() {
    let key = b"hunter2\xfftail9";
    let text = "invalid utf-8 in address: \"hunter2\\xfftail9\", got \"tail9\"";
    let shown = "invalid utf-8 in address: \"***\", got \"tail9\"";
    assert_eq!(message_of(refused(&[("x-api-key", &key[..])], text)), shown);
}

/// Each of them is everywhere in the message: its places would be millions, for which other decisions would wait.
#[test]
fn a_check_whose_secrets_are_alike_delays_no_other_decision() {
    let names: Vec<String> = (0..2000).map(|n| format!("token{n}")).collect();
    let value = "a".repeat(900);
    let headers: Vec<(&str, &[u8])> = names.iter().map(|name| (&**name, value.as_bytes())).collect();
    let message = format!("{} is not whitelisted", "a".repeat(4000));
    let shown = message_of(refused(&headers, &message));
    assert!(shown.starts_with("***… ("), "{shown}");
    let shown = message_of(refused(&headers[..100], &message));
    assert!(shown.starts_with("***… ("), "{shown}");
    assert_eq!(message_of(refused(&headers[..100], "aaaaaaaa is unknown")), "*** is unknown");
}

#[test]
fn nothing_is_shown_of_an_answer_to_what_cannot_be_decoded() {
    let call = refused(&[("x-token", b"hunter2")], "hunter2 is unknown");
    let body = bytes::Bytes::from([&call.body[..], &[0xff]].concat());
    assert_eq!(message_of(AnsweredCall { body, ..call }), "***");
}

/// Of a report only so many bytes of errors are looked at: the others are not shown.
#[test]
fn many_errors_of_a_report_are_masked_within_a_bound() {
    let mut secrets = SecretValues::default();
    secrets.add(b"hunter2-hunter2");
    let mut left = 2048;
    let mut shown = |text: &str| {
        let mut text = text.to_owned();
        crate::decision::cut::cut_without(&mut text, &secrets, &mut left);
        text
    };
    let long = format!("hunter2-hunter2 {}", "x".repeat(2000));
    assert_eq!(shown(&long), format!("*** {}… (992 more bytes)", "x".repeat(1008)));
    assert_eq!(shown(&"y".repeat(1000)), "y".repeat(1000));
    assert_eq!((shown("of a"), shown(&"z".repeat(25))), ("of a".to_owned(), "***".to_owned()));
}

#[test]
fn the_principal_is_masked_like_its_attribute() {
    let directory = tempfile::tempdir().unwrap();
    let options = options(directory.path(), |o| o.masks = vec!["context.reporter.*".to_owned()]);
    let unknown = AnsweredCall { caller: None, ..call("bob", 0) };
    let (logged, _) = write(&options, [call("alice", 7), unknown]);
    let caller = logged[0].caller.as_ref().unwrap();
    assert_eq!(caller.principal.as_deref(), Some("***"));
    assert_eq!(logged[0].masked, [CALLER_PRINCIPAL]);
    assert_eq!((&logged[1].caller, &logged[1].masked), (&None, &Vec::new()));
}

#[test]
fn select_denied_logs_only_denials() {
    let directory = tempfile::tempdir().unwrap();
    let options = options(directory.path(), |o| o.log.select = Select::Denied);
    let (logged, recorded) = write(&options, [call("ann", 0), call("bob", 7)]);
    let users =
        |list: &[Decision]| list.iter().map(|d| d.attributes["source.user"].clone()).collect::<Vec<_>>();
    assert_eq!(users(&logged), ["bob"]);
    assert_eq!(users(&recorded), ["ann", "bob"]);
}

#[test]
fn a_recording_stops_when_it_is_full_and_resumes_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let options = options(directory.path(), |o| o.recording.max_calls = 3);
    let (_, recorded) = write(&options, (0..2).map(|n| call(&n.to_string(), 0)));
    assert_eq!(recorded.len(), 2);
    let (logged, recorded) = write(&options, (0..5).map(|n| call(&n.to_string(), 0)));
    assert_eq!((logged.len(), recorded.len()), (7, 3));
    // What is full from the start says so at once.
    let log = DecisionLog::start(&options, &memory(), &Metrics::new()).unwrap().unwrap();
    let why = log.recording().unwrap_err();
    assert!(why.contains("calls.jsonl` is full") && why.contains("--record-max-requests (3)"), "{why}");
    assert_eq!(full_recording(&options.recording).unwrap(), Some(why));
    close(&log);
    let roomy = RecordingOptions { max_calls: 4, ..options.recording.clone() };
    assert_eq!(full_recording(&roomy).unwrap(), None);
    let absent = RecordingOptions { path: directory.path().join("none"), ..roomy };
    assert_eq!(full_recording(&absent).unwrap(), None);

    let directory = tempfile::tempdir().unwrap();
    let options = self::options(directory.path(), |o| o.recording.max_bytes = 500);
    let (_, recorded) = write(&options, (0..50).map(|n| call(&n.to_string(), 0)));
    let size = std::fs::metadata(&options.recording.path).unwrap().len();
    assert!(!recorded.is_empty() && size <= 500, "{} calls, {size} bytes", recorded.len());
}

#[test]
fn the_log_is_rotated() {
    let directory = tempfile::tempdir().unwrap();
    let options = options(directory.path(), |o| {
        o.log.max_bytes = 1000;
        o.log.max_backups = 2;
        o.recording.path = PathBuf::new();
    });
    let log = DecisionLog::start(&options, &memory(), &Metrics::new()).unwrap().unwrap();
    for n in 0..40 {
        let targets = log.wants(Method::Check).unwrap();
        log.push(call(&n.to_string(), 0), targets);
    }
    close(&log);
    let files = std::fs::read_dir(directory.path()).unwrap().count();
    assert_eq!(files, 3, "the file and two backups");
}

#[test]
fn a_full_queue_drops_decisions_and_counts_them() {
    // A pipe without a reader blocks the writer.
    let directory = tempfile::tempdir().unwrap();
    let pipe = directory.path().join("log.json");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let reader = std::fs::OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
    let options = options(directory.path(), |o| {
        o.queue = 8;
        o.recording.path = PathBuf::new();
    });
    let metrics = Metrics::new();
    let log = DecisionLog::start(&options, &memory(), &metrics).unwrap().unwrap();
    let started = Instant::now();
    let lost = metrics.counter(Family::DecisionsLost, &["queue"]);
    while lost.get() == 0 && started.elapsed() < Duration::from_secs(20) {
        let targets = log.wants(Method::Check).unwrap();
        log.push(call("x", 0), targets);
    }
    assert!(lost.get() > 0);
    // With a reader the writer ends.
    let drain = std::thread::spawn(move || {
        use std::io::Read as _;
        let mut reader = reader;
        let mut buffer = [0; 65536];
        while reader.read(&mut buffer).is_ok_and(|n| !buffer[..n].contains(&0)) {}
    });
    close(&log);
    std::fs::OpenOptions::new()
        .write(true)
        .open(&pipe)
        .and_then(|mut f| {
            use std::io::Write as _;
            f.write_all(&[0])
        })
        .unwrap();
    drain.join().unwrap();
}

#[test]
fn every_line_that_could_not_be_written_is_counted_as_lost_and_as_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let options = options(directory.path(), |o| o.log.path = "/dev/full".into());
    let metrics = Metrics::new();
    let log = DecisionLog::start(&options, &memory(), &metrics).unwrap().unwrap();
    for n in 0..25 {
        let targets = log.wants(Method::Check).unwrap();
        log.push(call(&n.to_string(), 0), targets);
    }
    close(&log);
    let count = |family, label| metrics.counter(family, &[label]).get();
    let why = log.last_write().unwrap_err();
    assert_eq!(why, "decisions are lost: cannot write `/dev/full`: no space left on device");
    assert_eq!(count(Family::DecisionsLost, "file"), 25);
    assert_eq!(count(Family::DecisionsWritten, "log"), 0);
    assert_eq!(count(Family::DecisionsWritten, "recording"), 25);
}

#[test]
fn a_file_that_cannot_be_opened_is_a_startup_error() {
    let directory = tempfile::tempdir().unwrap();
    let refused = |change: fn(&mut DecisionOptions)| {
        DecisionLog::start(&options(directory.path(), change), &memory(), &Metrics::new()).unwrap_err().0
    };
    assert!(
        refused(|o| o.log.path = "/proc/none/log".into())
            .starts_with("cannot open decision log `/proc/none/log`: ")
    );
    assert!(refused(|o| o.log.sampling = f64::NAN).contains("from 0 to 1"));
    assert!(refused(|o| o.queue = 0).contains("> 0"));
    assert!(refused(|o| o.masks = vec!["[x]".to_owned()]).contains("name[key]"));
    assert!(refused(|o| o.recording.path = o.log.path.clone()).contains("one file"));
}

#[test]
fn long_values_are_cut_in_every_file() {
    let directory = tempfile::tempdir().unwrap();
    let options = options(directory.path(), |options| options.log.max_bytes = 16 << 10);
    let long = "a".repeat(900_000);
    let mut refused = call(&long, 7);
    refused.body = {
        let attributes: OwnedAttributes = [("source.user", long.as_str())].into_iter().collect();
        let quotas = BTreeMap::from([(long.clone(), (2, true))]);
        encode_check_request(&attributes, 0, &CheckCall { deduplication_id: &long, quotas }).into()
    };
    let (logged, recorded) = write(&options, [refused]);
    for path in [&options.log.path, &options.recording.path] {
        let size = std::fs::metadata(path).unwrap().len();
        assert!(size < 16 << 10, "{size}");
    }
    assert_eq!((logged.len(), &logged), (1, &recorded));
    let [decision] = &*logged else { panic!("one decision") };
    assert_eq!(decision.cut, ["source.user"]);
    let text = decision.attributes["source.user"].as_str().unwrap();
    assert!(text.starts_with("aaaa") && text.ends_with("a… (898976 more bytes)"), "{}", text.len());
    assert!(decision.answer.as_ref().unwrap().status.message.ends_with("more bytes)"));
}
