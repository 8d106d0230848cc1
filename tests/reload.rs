//! Configuration edited under load: no call ever fails, the new state serves soon, and what is left out is said.
//!
//! The number of reloads of the soak is `MIXER_RELOADS`, default 150; the long form is `MIXER_RELOADS=1000`.

#![cfg(test)]

#[expect(clippy::allow_attributes, reason = "each test program uses its part of the support")]
#[allow(dead_code, reason = "see above")]
#[path = "support/bag.rs"]
mod bag;
#[expect(clippy::allow_attributes, reason = "each test program uses its part of the support")]
#[allow(dead_code, reason = "see above")]
#[path = "support/process.rs"]
mod process;
#[expect(clippy::allow_attributes, reason = "each test program uses its part of the support")]
#[allow(dead_code, reason = "see above")]
#[path = "support/rpc.rs"]
mod rpc;

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bag::{Attribute, Attributes, Words};
use process::{PATIENCE, Server, ServerArguments, put, wait_for};
use rpc::{Client, mixer};

/// Connections that call all the time.
const CALLERS: usize = 4;
/// From an edit to its effect, at the median of all edits.
const USUAL: Duration = Duration::from_secs(1);

const VOCABULARY: &str = "
apiVersion: config.istio.io/v1alpha2
kind: attributemanifest
metadata: {name: m, namespace: istio-system}
spec:
  attributes:
    source.user: {valueType: STRING}
    request.size: {valueType: INT64}
    request.time: {valueType: TIMESTAMP}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: caller, namespace: istio-system}
spec: {compiledTemplate: checknothing}
";

/// A file that refuses everybody with a message.
fn deny(message: &str) -> String {
    format!(
        "
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {{name: deny, namespace: istio-system}}
spec:
  compiledAdapter: denier
  params: {{status: {{code: 7, message: {message}}}}}
---
apiVersion: config.istio.io/v1alpha2
kind: rule
metadata: {{name: deny, namespace: istio-system}}
spec:
  actions:
  - handler: deny
    instances: [caller]
"
    )
}

fn request(user: &str) -> mixer::CheckRequest {
    let attributes = Attributes::from([("source.user".to_owned(), Attribute::Text(user.to_owned()))]);
    let message = bag::encode_alone(&attributes, Words::of_message());
    mixer::CheckRequest { attributes: Some(message), global_word_count: 222, ..Default::default() }
}

/// The message of a refusal, empty when the call may pass; the error is a failed call.
fn ask(client: &mut Client) -> Result<String, String> {
    let answer = client.check(&request("ann"), None).map_err(|status| status.to_string())?;
    let status = answer.precondition.unwrap_or_default().status.unwrap_or_default();
    Ok(status.message.strip_prefix("deny.istio-system:").unwrap_or(&status.message).to_owned())
}

/// Callers that never stop, and what they saw.
struct Load {
    stop: Arc<AtomicBool>,
    calls: Arc<AtomicU64>,
    failures: Arc<Mutex<Vec<String>>>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    fn start(server: &Server) -> Self {
        let load = Self {
            stop: Arc::default(),
            calls: Arc::default(),
            failures: Arc::default(),
            threads: Vec::new(),
        };
        let threads = (0..CALLERS)
            .map(|_| {
                let address = server.address();
                let (stop, calls, failures) = (load.stop.clone(), load.calls.clone(), load.failures.clone());
                std::thread::spawn(move || {
                    let mut client = Client::new(&address).expect("a client");
                    while !stop.load(Ordering::Relaxed) {
                        if let Err(failure) = ask(&mut client) {
                            failures.lock().expect("no caller panics").push(failure);
                        }
                        calls.fetch_add(1, Ordering::Relaxed);
                        // Other tests run beside this one; what counts is that calls are always under way.
                        std::thread::sleep(Duration::from_micros(500));
                    }
                })
            })
            .collect();
        Self { threads, ..load }
    }

    /// Waits until so many more calls were answered, so that a quick reload is still one under load.
    fn pass(&self, calls: u64) {
        let wanted = self.calls.load(Ordering::Relaxed) + calls;
        let passed = wait_for(PATIENCE, || (self.calls.load(Ordering::Relaxed) >= wanted).then_some(()));
        assert!(passed.is_some(), "the callers stand still");
    }

    /// Ends the callers; none of their calls may have failed.
    fn finish(self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().expect("no caller panics");
        }
        let failures = self.failures.lock().expect("no caller panics").clone();
        let calls = self.calls.load(Ordering::Relaxed);
        assert!(failures.is_empty(), "{} of {calls} calls failed: {:?}", failures.len(), failures.first());
        assert!(calls > 100, "only {calls} calls were made");
    }
}

/// Asks until the state is as wanted; how long that took.
fn until(client: &mut Client, wanted: &str) -> Duration {
    let started = Instant::now();
    let mut last = String::new();
    let seen = wait_for(PATIENCE, || {
        last = ask(client).expect("no call fails");
        (last == wanted).then_some(())
    });
    assert!(seen.is_some(), "want {wanted:?}, still {last:?}");
    started.elapsed()
}

/// The state stays as it is while a change is taken in that must not alter it.
fn stays(client: &mut Client, wanted: &str) {
    let end = Instant::now() + Duration::from_millis(700);
    while Instant::now() < end {
        assert_eq!(ask(client).expect("no call fails"), wanted);
        std::thread::sleep(process::PACE);
    }
}

#[test]
fn files_are_edited_under_load() {
    let directory = tempfile::tempdir().expect("a directory");
    let root = directory.path();
    fs::write(root.join("vocabulary.yaml"), VOCABULARY).expect("writable");
    let server = Server::start(&ServerArguments::on(root)).expect("the server starts");
    let mut client = Client::new(&server.address()).expect("a client");
    let load = Load::start(&server);
    let mut delays = Vec::new();
    until(&mut client, "");

    let file = root.join("deny.yaml");
    put(&file, &deny("added"));
    delays.push(until(&mut client, "added"));

    put(&file, &deny("changed"));
    delays.push(until(&mut client, "changed"));

    // A document that parses but is no valid rule: the old version of the rule stays in force, the edit beside it applies.
    put(&file, &deny("half").replace("actions:", "actoins:"));
    delays.push(until(&mut client, "half"));
    let failed = "Failed to convert deny.rule.istio-system";
    assert!(
        wait_for(PATIENCE, || server.log().contains(failed).then_some(())).is_some(),
        "the log names the rule"
    );
    put(&file, &deny("mended"));
    delays.push(until(&mut client, "mended"));

    // A document that does not parse is out of service; so is a rule whose handler is gone.
    put(&file, &deny("broken").replace("kind: handler", "kind: [handler"));
    delays.push(until(&mut client, ""));
    let errors = || (server.metric("mixer_config_rule_config_errors_total") > 0.0).then_some(());
    assert!(wait_for(PATIENCE, errors).is_some(), "the metrics count the rule that acts no more");
    put(&file, &deny("mended-again"));
    delays.push(until(&mut client, "mended-again"));

    fs::rename(&file, root.join("renamed.yaml")).expect("writable");
    stays(&mut client, "mended-again");
    fs::rename(root.join("renamed.yaml"), &file).expect("writable");
    stays(&mut client, "mended-again");

    // An editor moves the old version away, writes the new one and removes the old one.
    fs::rename(&file, root.join("deny.yaml~")).expect("writable");
    fs::write(&file, deny("by-editor")).expect("writable");
    fs::remove_file(root.join("deny.yaml~")).expect("writable");
    delays.push(until(&mut client, "by-editor"));

    // Written in place, slowly.
    let content = deny("in-place");
    let (first, second) = content.split_at(content.len() / 2);
    let mut open = fs::File::create(&file).expect("writable");
    open.write_all(first.as_bytes()).expect("writable");
    std::thread::sleep(Duration::from_millis(300));
    open.write_all(second.as_bytes()).expect("writable");
    drop(open);
    delays.push(until(&mut client, "in-place"));

    fs::create_dir(root.join("more")).expect("writable");
    put(&root.join("more/deny.yaml"), &deny("in-directory"));
    delays.push(until(&mut client, "in-directory"));
    fs::remove_dir_all(root.join("more")).expect("writable");
    delays.push(until(&mut client, "in-place"));

    fs::remove_file(&file).expect("writable");
    delays.push(until(&mut client, ""));
    load.finish();
    delays.sort();
    let median = delays[delays.len() / 2];
    assert!(median < USUAL, "from edit to effect: {delays:?}");
}

/// A config map as Kubernetes mounts it: files are links through `..data`, which is swapped as a whole.
#[test]
fn a_mounted_config_map_is_swapped() {
    let directory = tempfile::tempdir().expect("a directory");
    let root = directory.path();
    let version = |number: u32, message: &str| {
        let name = format!("..2026_01_02_03_04_{number:02}");
        fs::create_dir(root.join(&name)).expect("writable");
        fs::write(root.join(&name).join("vocabulary.yaml"), VOCABULARY).expect("writable");
        fs::write(root.join(&name).join("deny.yaml"), deny(message)).expect("writable");
        symlink(&name, root.join("..data_tmp")).expect("writable");
        fs::rename(root.join("..data_tmp"), root.join("..data")).expect("writable");
        name
    };
    let mut old = version(1, "version-1");
    for file in ["vocabulary.yaml", "deny.yaml"] {
        symlink(format!("..data/{file}"), root.join(file)).expect("writable");
    }
    let server = Server::start(&ServerArguments::on(root)).expect("the server starts");
    let mut client = Client::new(&server.address()).expect("a client");
    let load = Load::start(&server);
    until(&mut client, "version-1");
    for number in 2..6 {
        let message = format!("version-{number}");
        let new = version(number, &message);
        fs::remove_dir_all(root.join(&old)).expect("writable");
        old = new;
        until(&mut client, &message);
        load.pass(50);
    }
    load.finish();
}

/// Handlers with everything a handler can leak: tasks, files, sockets, series.
fn everything(round: u32, log: &Path) -> String {
    format!(
        "{}
---
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {{name: quota, namespace: istio-system}}
spec:
  compiledAdapter: memquota
  params: {{quotas: [{{name: count.instance.istio-system, maxAmount: {}, validDuration: 1s}}]}}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {{name: count, namespace: istio-system}}
spec: {{compiledTemplate: quota, params: {{dimensions: {{user: source.user}}}}}}
---
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {{name: log, namespace: istio-system}}
spec:
  compiledAdapter: stdio
  params: {{logStream: FILE, outputPath: {}, maxRotatedFiles: {}}}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {{name: line, namespace: istio-system}}
spec: {{compiledTemplate: logentry, params: {{timestamp: request.time, variables: {{user: source.user}}}}}}
---
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {{name: metrics, namespace: istio-system}}
spec:
  compiledAdapter: prometheus
  params:
    metricsExpirationPolicy: {{metricsExpiryDuration: {}s}}
    metrics: [{{name: size, instanceName: size.instance.istio-system, kind: COUNTER, labelNames: [user]}}]
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {{name: size, namespace: istio-system}}
spec: {{compiledTemplate: metric, params: {{value: request.size, dimensions: {{user: source.user}}}}}}
---
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {{name: list, namespace: istio-system}}
spec:
  compiledAdapter: listchecker
  params: {{providerUrl: \"http://127.0.0.1:9/list\", refreshInterval: {}s, ttl: 10000s, blacklist: true}}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {{name: user, namespace: istio-system}}
spec: {{compiledTemplate: listentry, params: {{value: source.user}}}}
---
apiVersion: config.istio.io/v1alpha2
kind: rule
metadata: {{name: all, namespace: istio-system}}
spec:
  match: source.user != \"ann\"
  actions:
  - {{handler: quota, instances: [count]}}
  - {{handler: log, instances: [line]}}
  - {{handler: metrics, instances: [size]}}
  - {{handler: list, instances: [user]}}
",
        deny(&format!("round-{round}")),
        10 + round,
        log.display(),
        10 + round,
        60 + round,
        1 + round,
    )
}

#[test]
fn many_reloads_leave_nothing_behind() {
    let rounds: u32 =
        std::env::var("MIXER_RELOADS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(150);
    let directory = tempfile::tempdir().expect("a directory");
    let logs = tempfile::tempdir().expect("a directory");
    let root = directory.path();
    let file = root.join("all.yaml");
    fs::write(root.join("vocabulary.yaml"), VOCABULARY).expect("writable");
    let server = Server::start(&ServerArguments::on(root)).expect("the server starts");
    let mut client = Client::new(&server.address()).expect("a client");
    let reload = |client: &mut Client, round: u32| {
        put(&file, &everything(round, &logs.path().join("log")));
        until(client, &format!("round-{round}"))
    };
    let warm = rounds / 5;
    for round in 0..warm {
        reload(&mut client, round);
    }
    let before = server.settled();
    for round in warm..rounds {
        reload(&mut client, round);
    }
    let after = server.settled();
    assert!(before.threads > 0 && before.descriptors > 0 && before.resident_kib > 0, "{before:?}");
    assert!(after.threads <= before.threads + 1, "threads: {before:?} -> {after:?}");
    assert!(after.descriptors <= before.descriptors + 2, "descriptors: {before:?} -> {after:?}");
    assert!(after.resident_kib <= before.resident_kib + 6 * 1024, "memory: {before:?} -> {after:?}");
}
