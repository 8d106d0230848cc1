//! Messages whose values are one long word, over and over: a reference takes three bytes.

use prost::Message as _;

use crate::scene::{Attacker, Scene};
use crate::support::rpc::{CHECK, Client, REPORT, mixer};
use crate::support::{DEADLINE, wait_for};

/// Attributes that the sample configuration and the policy know.
const NAMES: [&str; 17] = [
    "request.path",
    "request.host",
    "request.method",
    "request.useragent",
    "source.name",
    "source.workload.name",
    "destination.service",
    "destination.workload.name",
    "source.namespace",
    "context.protocol",
    "request.id",
    "context.proxy_error_code",
    "destination.namespace",
    "source.workload.namespace",
    "destination.workload.namespace",
    "destination.service.host",
    "api.protocol",
];

/// What evaluates and formats all of these values of a record.
const LOGGED: &str = r#"
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: all, namespace: istio-system}
spec:
  compiledTemplate: logentry
  params:
    severity: '"info"'
    variables: {VARIABLES}
---
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {name: lines, namespace: istio-system}
spec: {compiledAdapter: stdio, params: {logStream: ROTATED_FILE, outputPath: PATH, maxMegabytesBeforeRotation: 8, maxRotatedFiles: 1}}
---
apiVersion: config.istio.io/v1alpha2
kind: rule
metadata: {name: all, namespace: istio-system}
spec: {actions: [{handler: lines, instances: [all]}]}
"#;

/// The index of a message word.
fn word(index: usize) -> i32 {
    -1 - i32::try_from(index).expect("few words")
}

/// A report of as many records, of which each has one long default word under every name, and another record that is short.
fn report(records: usize, length: usize) -> Vec<u8> {
    let strings = (0..NAMES.len()).map(|name| (word(name), word(NAMES.len()))).collect();
    let record = mixer::CompressedAttributes { strings, ..Default::default() };
    let mut words = NAMES.map(str::to_owned).to_vec();
    words.push("a".repeat(length));
    let request = mixer::ReportRequest {
        attributes: vec![record; records],
        default_words: words.into_iter().map(Into::into).collect(),
        ..Default::default()
    };
    request.encode_to_vec()
}

/// A check with a map of as many entries, each with the same long value.
fn check(entries: usize, length: usize) -> Vec<u8> {
    let mut words = vec!["request.headers".to_owned(), "a".repeat(length)];
    words.extend((0..entries).map(|key| format!("k{key}")));
    let map = mixer::StringMap { entries: (0..entries).map(|key| (word(key + 2), word(1))).collect() };
    let words = words.into_iter().map(Into::into).collect();
    let attributes =
        mixer::CompressedAttributes { words, string_maps: [(word(0), map)].into(), ..Default::default() };
    mixer::CheckRequest { attributes: Some(attributes), ..Default::default() }.encode_to_vec()
}

/// Callers that may be refused.
fn callers(address: &str, path: &'static str, body: &[u8]) -> Vec<Attacker> {
    let caller = |_| {
        let (mut client, body) = (Client::new(address).expect("a client"), body.to_vec());
        let attacker = move || match client.call(path, body.clone(), None) {
            Err(status) if status.code() != tonic::Code::InvalidArgument => Err(status.to_string()),
            _ => Ok(()),
        };
        Box::new(attacker) as Attacker
    };
    (0..2).map(caller).collect()
}

fn attack_reports(name: &'static str, body: &[u8]) {
    let mut scene = Scene::start(&[]);
    let variables = NAMES.map(|name| format!("{}: {name} | \"\"", name.replace('.', "_"))).join(", ");
    let path = scene.file("lines.log").display().to_string();
    scene.configure(&LOGGED.replace("VARIABLES", &variables).replace("PATH", &path));
    let address = scene.server.address();
    let outcome = scene.attack(name, &|| callers(&address, REPORT, body));
    outcome.assert_attackers_succeeded();
    outcome.assert_within(96);
    scene.end();
}

#[test]
fn a_report_whose_values_are_one_word_of_a_megabyte() {
    attack_reports("a word of 870 kB in 5 100 values", &report(300, 870_000));
}

#[test]
fn a_report_whose_records_are_long_only_once_they_are_read() {
    // As long as a record may be.
    attack_reports("a word of 60 kB in 15 000 values", &report(900, 60_000));
}

#[test]
fn a_check_whose_values_are_logged() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = |name: &str| directory.path().join(name).display().to_string();
    let arguments = ["--decision-log", &file("log"), "--record-requests", &file("calls")];
    let mut scene = Scene::start(&arguments);
    let address = scene.server.address();
    let body = check(2000, 500_000);
    let outcome = scene.attack("a word in 2 000 logged values", &|| callers(&address, CHECK, &body));
    outcome.assert_attackers_succeeded();
    outcome.assert_within(64);
    // As much as a check may refer to.
    let mut client = Client::new(&address).expect("a client");
    client.call(CHECK, check(2000, 500), None).expect("it is answered");
    let longest = || {
        let text = std::fs::read_to_string(file("log")).unwrap_or_default();
        text.lines().rfind(|line| line.contains("\"k1\"")).map(str::len)
    };
    let length = wait_for(DEADLINE, longest).expect("it is logged");
    assert!(length < 128 << 10, "a line of {length} bytes");
    scene.end();
}
