//! Configuration edited under load: no call fails, and every edit takes effect.

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use super::on_config_error::copy_of_the_sample;
use crate::support::denier::{VOCABULARY, ask, ask_as, deny, until};
use crate::support::rpc::Client;
use crate::support::{DEADLINE, Server, put, run_mixer as mixer, wait_for};

/// Clients that call continuously.
const CALLERS: usize = 4;
/// Upper bound of the median time from an edit to its effect.
const USUAL: Duration = Duration::from_secs(1);

/// Clients that call until they are stopped, and their failures.
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
                        // Paces the load: other tests run in parallel, and calls in flight at all times suffice.
                        std::thread::sleep(Duration::from_micros(500));
                    }
                })
            })
            .collect();
        Self { threads, ..load }
    }

    /// Waits for this many more calls, so that a fast reload is still one under load.
    fn pass(&self, calls: u64) {
        let wanted = self.calls.load(Ordering::Relaxed) + calls;
        let passed = wait_for(DEADLINE, || (self.calls.load(Ordering::Relaxed) >= wanted).then_some(()));
        assert!(passed.is_some(), "no call is answered");
    }

    /// Stops the clients; none of their calls may have failed.
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

/// A rule that denies checks of bob with a message.
fn deny_bob(message: &str) -> String {
    deny(message)
        .replace("name: deny,", "name: deny-bob,")
        .replace("handler: deny\n", "handler: deny-bob\n")
        .replace("spec:\n  actions", "spec:\n  match: source.user == \"bob\"\n  actions")
}

/// Asserts that the changes made before did not alter the answer.
///
/// A later change of another file marks the end of their processing.
fn assert_unchanged(client: &mut Client, root: &Path, marker: &str, wanted: &str) {
    put(&root.join("marker.yaml"), &deny_bob(marker));
    let seen = wait_for(DEADLINE, || {
        let answer = ask_as(client, "bob").expect("no call fails");
        assert_eq!(ask(client).expect("no call fails"), wanted);
        answer.contains(marker).then_some(())
    });
    assert!(seen.is_some(), "the marker {marker} has no effect");
    assert_eq!(ask(client).expect("no call fails"), wanted);
}

#[test]
fn edits_of_files_take_effect_under_load() {
    let directory = tempfile::tempdir().expect("a directory");
    let root = directory.path();
    fs::write(root.join("vocabulary.yaml"), VOCABULARY).expect("writable");
    let server = Server::on(root).start();
    let mut client = Client::new(&server.address()).expect("a client");
    let load = Load::start(&server);
    let mut delays = Vec::new();
    until(&mut client, "");

    let file = root.join("deny.yaml");
    put(&file, &deny("added"));
    delays.push(until(&mut client, "added"));

    put(&file, &deny("changed"));
    delays.push(until(&mut client, "changed"));

    // A document that parses and is no valid rule: the last good version of the rule stays, the edit of the handler applies.
    put(&file, &deny("half").replace("actions:", "actoins:"));
    delays.push(until(&mut client, "half"));
    let failed = "Failed to convert deny.rule.istio-system";
    server.wait_for_log(failed);
    put(&file, &deny("mended"));
    delays.push(until(&mut client, "mended"));

    // A document that does not parse is dropped, and so is the rule whose handler is gone.
    put(&file, &deny("broken").replace("kind: handler", "kind: [handler"));
    delays.push(until(&mut client, ""));
    let errors = || (server.metric("mixer_config_rule_config_errors_total") > 0.0).then_some(());
    assert!(wait_for(DEADLINE, errors).is_some(), "the metrics count the dropped rule");
    put(&file, &deny("mended-again"));
    delays.push(until(&mut client, "mended-again"));

    fs::rename(&file, root.join("renamed.yaml")).expect("writable");
    assert_unchanged(&mut client, root, "marker-1", "mended-again");
    fs::rename(root.join("renamed.yaml"), &file).expect("writable");
    assert_unchanged(&mut client, root, "marker-2", "mended-again");

    // As an editor saves: the old version is renamed, the new one written, the old one removed.
    fs::rename(&file, root.join("deny.yaml~")).expect("writable");
    fs::write(&file, deny("by-editor")).expect("writable");
    fs::remove_file(root.join("deny.yaml~")).expect("writable");
    delays.push(until(&mut client, "by-editor"));

    // Written in place by a slow writer: the pause is what is tested.
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

/// A file that is rewritten in place is not read until its writer has closed it: no call passes meanwhile.
#[test]
fn a_slow_writer_opens_no_door() {
    const CALLS_PER_PART: usize = 200;
    let directory = tempfile::tempdir().expect("a directory");
    let root = directory.path();
    fs::write(root.join("vocabulary.yaml"), VOCABULARY).expect("writable");
    let file = root.join("deny.yaml");
    fs::write(&file, deny("closed")).expect("writable");
    let server = Server::on(root).start();
    let mut client = Client::new(&server.address()).expect("a client");
    until(&mut client, "closed");
    let content = deny("rewritten");
    let mut open = fs::File::create(&file).expect("writable");
    for part in content.as_bytes().chunks(content.len() / 8) {
        for _ in 0..CALLS_PER_PART {
            assert_eq!(ask(&mut client).as_deref(), Ok("closed"));
        }
        open.write_all(part).expect("writable");
    }
    for _ in 0..CALLS_PER_PART {
        assert_eq!(ask(&mut client).as_deref(), Ok("closed"));
    }
    drop(open);
    until(&mut client, "rewritten");
}

/// A ConfigMap volume of Kubernetes: files are symlinks through `..data`, which is replaced atomically.
#[test]
fn an_update_of_a_config_map_volume_takes_effect() {
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
    let server = Server::on(root).start();
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

/// A file that gets another name, without a change of its contents.
#[test]
fn a_renamed_file_is_shown_under_its_new_name() {
    let directory = tempfile::tempdir().expect("a directory");
    copy_of_the_sample(directory.path());
    let server = Server::on(directory.path()).native().start();
    let request = ["-s", "destination.service=shop", "--stringmap-attributes", "request.headers=clnt:abc"];
    let address = server.address();
    let explained = || mixer(&[&["check", "-m", &address, "--explain"][..], &request].concat()).stdout;
    assert!(explained().contains("deny.yaml:"), "{}", explained());
    let file = directory.path().join("deny.yaml");
    std::fs::rename(&file, directory.path().join("renamed.yaml")).expect("writable");
    let renamed =
        || (explained().contains("renamed.yaml:") && !explained().contains("deny.yaml:")).then_some(());
    assert!(wait_for(DEADLINE, renamed).is_some(), "{}\n{}", explained(), server.log());
}
