//! A server is ready while a configuration that may answer serves. What else is wrong is a degradation, which the log, the metrics,
//! `/readyz?verbose` and ControlZ tell.

use std::fs::{File, OpenOptions};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::lists::denylist;
use crate::support::{DEADLINE, Server, http, is_listening, run_mixer as mixer, wait_for};

/// Denies every check.
const CLOSED: &str = "kind: handler
metadata: {name: turn-away, namespace: istio-system}
spec: {compiledAdapter: denier, params: {status: {code: 7}}}
---
kind: instance
metadata: {name: nothing, namespace: istio-system}
spec: {compiledTemplate: checknothing}
---
kind: rule
metadata: {name: closed, namespace: istio-system}
spec: {actions: [{handler: turn-away, instances: [nothing]}]}
";

fn configured() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a directory");
    let root = directory.path().join("conf");
    std::fs::create_dir(&root).expect("writable");
    std::fs::write(root.join("closed.yaml"), CLOSED).expect("writable");
    (directory, root)
}

fn is_closed(server: &Server) -> bool {
    let finished = mixer(&["check", "-m", &server.address(), "-s", "destination.service=shop"]);
    finished.stdout.contains("PERMISSION_DENIED")
}

/// Status of `/readyz`, and the document of `/readyz?verbose`.
fn ready(server: &Server) -> Option<(u16, Value)> {
    let answer = http("GET", &server.monitoring_url("/readyz?verbose"), "").ok()?;
    Some((answer.status, serde_json::from_str(&answer.body).ok()?))
}

/// Waits until a component is degraded, for a reason with this text, and the server is ready.
#[track_caller]
fn wait_for_degraded(server: &Server, component: &str, why: &str) {
    let mut last = None;
    let degraded = wait_for(DEADLINE, || {
        let (status, document) = ready(server)?;
        let told = document["degraded"][component]["why"].as_str().is_some_and(|told| told.contains(why));
        last = Some((status, document));
        (told && status == 200).then_some(())
    });
    assert!(degraded.is_some(), "{last:?}\n{}", server.log());
    let sample = format!("mixer_component_degraded{{component=\"{component}\"}} 1");
    let metrics = http("GET", &server.monitoring_url("/metrics"), "").expect("metrics").body;
    assert!(metrics.contains(&sample), "{metrics}");
    let page = http("GET", &format!("http://127.0.0.1:{}/", server.ports.ctrlz), "").expect("a page").body;
    assert!(page.contains(">degraded<") && page.contains(why), "{page}");
}

#[track_caller]
fn wait_for_ready(server: &Server) {
    let mut last = None;
    let whole = wait_for(DEADLINE, || {
        last = ready(server);
        last.as_ref()
            .filter(|(status, document)| *status == 200 && document["degraded"] == serde_json::json!({}))?;
        Some(())
    });
    assert!(whole.is_some(), "{last:?}\n{}", server.log());
}

#[test]
fn a_directory_that_vanishes_or_is_emptied_leaves_the_server_ready() {
    for native in [true, false] {
        let (directory, root) = configured();
        let builder = Server::on(&root);
        let server = if native { builder.native() } else { builder }.start();
        wait_for(DEADLINE, || is_closed(&server).then_some(())).expect("it denies");
        let aside = directory.path().join("aside");
        std::fs::rename(&root, &aside).expect("writable");
        server.wait_for_log("store is degraded: cannot read ");
        if native {
            wait_for_degraded(&server, "store", "; the last good configuration serves");
            let log = server.log();
            assert!(!log.contains("readiness turns unavailable"), "{log}");
        }
        assert!(is_closed(&server), "{}", server.log());
        std::fs::rename(&aside, &root).expect("writable");
        server.wait_for_log("store works again; for ");
        if native {
            wait_for_ready(&server);
            std::fs::remove_file(root.join("closed.yaml")).expect("writable");
            wait_for_degraded(&server, "configuration", "the store has no configuration");
            assert!(is_closed(&server), "{}", server.log());
        }
        assert_eq!(mixer(&["probe", "--grpc", &server.address()]).status, 0);
    }
}

/// A denylist of services whose changes take effect at once.
fn denylist_from(provider: &str) -> String {
    let params = format!("{provider}, cachingInterval: 0s, cachingUseCount: 0");
    denylist("destination.service", &params)
}

#[test]
fn a_list_that_is_emptied_stays_and_degrades_the_server_unless_it_is_istios() {
    let (directory, root) = configured();
    let list = directory.path().join("banned");
    let configuration = denylist_from(&format!("providerFile: {}, refreshInterval: 1s", list.display()));
    std::fs::write(root.join("closed.yaml"), configuration).expect("writable");
    std::fs::write(&list, "shop\n").expect("writable");
    let safe = Server::on(&root).native().start();
    let istios = Server::on(&root).start();
    for server in [&safe, &istios] {
        wait_for(DEADLINE, || is_closed(server).then_some(())).expect("it denies");
    }
    wait_for_ready(&safe);
    std::fs::write(&list, "").expect("writable");
    let why = format!("banned.istio-system: the list from {} is empty; if that is meant, ", list.display());
    wait_for_degraded(&safe, "handlers", &why);
    wait_for(DEADLINE, || (!is_closed(&istios)).then_some(())).expect("its list is empty");
    assert!(is_closed(&safe), "{}", safe.log());
    std::fs::write(&list, "others\nshop\n").expect("writable");
    wait_for_ready(&safe);
    assert!(is_closed(&safe), "{}", safe.log());
}

/// A provider that accepts the connection and says nothing: checks fail until it answers.
#[test]
fn a_list_whose_first_fetch_hangs_degrades_the_server() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/list", silent.local_addr().expect("an address"));
    let (_directory, root) = configured();
    let provider = format!("providerUrl: '{url}', refreshInterval: 3600s, ttl: 7200s");
    std::fs::write(root.join("closed.yaml"), denylist_from(&provider)).expect("writable");
    let server = Server::on(&root).native().start();
    let why = format!(
        "banned.istio-system: could not fetch list from {url}: no answer within 2s, it is waited for"
    );
    wait_for_degraded(&server, "handlers", &why);
}

#[test]
fn a_restart_without_the_store_is_ready_with_the_cached_configuration() {
    let (directory, root) = configured();
    let cache = directory.path().join("cache").display().to_string();
    let start = || Server::on(&root).native().with(&["--config-cache", &cache]).start();
    let mut server = start();
    wait_for_ready(&server);
    assert_eq!(server.terminate(), Ok(Some(0)), "{}", server.log());
    std::fs::rename(&root, directory.path().join("aside")).expect("writable");
    let server = start();
    wait_for_degraded(&server, "store", "; the configuration in --config-cache of 20");
    assert!(is_closed(&server), "{}", server.log());
    std::fs::rename(directory.path().join("aside"), &root).expect("writable");
    wait_for_ready(&server);
    assert!(is_closed(&server), "{}", server.log());
}

#[test]
fn transitions_of_readiness_are_logged_once_with_the_reason() {
    let (directory, root) = configured();
    let aside = directory.path().join("aside");
    std::fs::rename(&root, &aside).expect("writable");
    let mut server = Server::on(&root).native().start();
    server.wait_for_log("\terror\treadiness is unavailable from the start: configuration: cannot read ");
    std::fs::rename(&aside, &root).expect("writable");
    server.wait_for_log("\tinfo\treadiness turns available; for ");
    wait_for_ready(&server);
    assert_eq!(server.terminate(), Ok(Some(0)), "{}", server.log());
    let log = server.log();
    let of_readiness = log.lines().filter(|line| line.contains("\treadiness ")).count();
    assert_eq!(of_readiness, 3, "unavailable, available, stopping\n{log}");
    let filled = "was not, because of configuration: the configuration was empty or not read yet, and may still be being filled: ";
    assert!(log.contains(filled), "{log}");
    assert!(log.contains("\tinfo\treadiness turns unavailable: dispatcher: stopping"), "{log}");
}

/// A FIFO that the test reads.
fn read_pipe(directory: &Path) -> (PathBuf, File) {
    let path = directory.join("pipe");
    assert!(Command::new("mkfifo").arg(&path).status().is_ok_and(|status| status.success()));
    let reader = OpenOptions::new().read(true).write(true).open(&path).expect("the pipe opens");
    (path, reader)
}

#[test]
fn a_log_that_cannot_be_written_leaves_the_server_ready() {
    let (directory, root) = configured();
    let (path, reader) = read_pipe(directory.path());
    let pipe = path.display().to_string();
    let flags = ["--log-target", "stdout", "--log-target", &pipe, "--log-target", "/dev/full"];
    let mut server = Server::on(&root).native().with(&flags).start();
    wait_for_degraded(&server, "log", "/dev/full: no space left on device");
    drop(reader);
    // Records for the pipe, of which a child of another test may hold a copy until it runs its program.
    let lost = server.metric("mixer_log_records_lost_total");
    let broken = wait_for(DEADLINE, || {
        server.signal("USR2");
        ready(&server)?.1["degraded"]["log"]["why"].as_str()?.contains("broken pipe").then_some(())
    });
    assert!(broken.is_some(), "{}", server.log());
    wait_for_degraded(&server, "log", &format!("{pipe}: broken pipe"));
    assert!(server.metric("mixer_log_records_lost_total") > lost);
    assert!(is_closed(&server), "{}", server.log());
    // Whoever reads it again gets records, and how many are missing.
    let mut reader = OpenOptions::new().read(true).write(true).open(&path).expect("the pipe opens");
    let (mut read, mut chunk) = (String::new(), [0; 1 << 12]);
    while !read.contains(" log records before this one could not be written: broken pipe") {
        server.signal("USR2");
        let length = reader.read(&mut chunk).expect("a record");
        read.push_str(&String::from_utf8_lossy(&chunk[..length]));
    }
    drop(reader);
    assert_eq!(server.terminate(), Ok(Some(0)), "a lost log does not fail a stop\n{}", server.log());
}

#[test]
fn closed_standard_streams_leave_the_server_ready() {
    let (directory, root) = configured();
    let (path, reader) = read_pipe(directory.path());
    let script = directory.path().join("through");
    // The descriptors are opened while there is a reader, and used when there is none.
    let text = format!(
        "#!/bin/sh\nexec >{0} 2>{0}\ntouch {1}/open\nwhile [ ! -e {1}/go ]; do sleep 0.02; done\nexec \"$@\"\n",
        path.display(),
        directory.path().display()
    );
    std::fs::write(&script, text).expect("writable");
    let arguments = [script.display().to_string()];
    let mut server =
        Server::on(&root).native().through(Path::new("/bin/sh"), &arguments).spawn().expect("it starts");
    let opened = wait_for(DEADLINE, || directory.path().join("open").exists().then_some(()));
    assert!(opened.is_some(), "the script does not run");
    drop(reader);
    std::fs::write(directory.path().join("go"), "").expect("writable");
    let up = wait_for(DEADLINE, || {
        assert!(server.is_alive(), "it ended without its output");
        is_listening(server.ports.api).then_some(())
    });
    assert!(up.is_some(), "it does not start");
    let broken = wait_for(DEADLINE, || {
        server.signal("USR2");
        ready(&server)?.1["degraded"]["log"]["why"].as_str()?.contains("broken pipe").then_some(())
    });
    assert!(broken.is_some(), "{:?}", ready(&server));
    wait_for_degraded(&server, "log", "stdout: broken pipe");
    assert!(is_closed(&server));
    assert_eq!(server.terminate(), Ok(Some(0)));
}
