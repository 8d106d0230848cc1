//! Restarts with `--config-cache`: no restart serves an older configuration than the one that served last, wherever the server ended and
//! whatever became of disk and directory.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::denier::{VOCABULARY, ask, deny};
use crate::support::rpc::Client;
use crate::support::{DEADLINE, Server, ServerBuilder, http, put, run_mixer as mixer, wait_for};

/// Allows every check: as many lines of comments make it large.
fn allow(comments: usize) -> String {
    let rule = "kind: handler\nmetadata: {name: open, namespace: istio-system}\nspec: {compiledAdapter: noop}\n---\n\
                kind: rule\nmetadata: {name: deny, namespace: istio-system}\n\
                spec: {actions: [{handler: open, instances: [caller]}]}\n";
    format!("{VOCABULARY}---\n{rule}{}", "# A comment, which the cache keeps as well.\n".repeat(comments))
}

fn denies(comments: usize) -> String {
    format!(
        "{VOCABULARY}---{}{}",
        deny("closed"),
        "# A comment, which the cache keeps as well.\n".repeat(comments)
    )
}

/// What no server can read.
const BROKEN: &str = "kind: rule\nmetadata: {name: deny, namespace: istio-system\n";

/// A directory of configuration with one file, and a directory for its cache.
struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        fs::create_dir(directory.path().join("conf")).expect("writable");
        Self { directory }
    }

    fn conf(&self) -> PathBuf {
        self.directory.path().join("conf")
    }

    fn file(&self) -> PathBuf {
        self.conf().join("all.yaml")
    }

    fn cached(&self) -> PathBuf {
        self.directory.path().join("cache/last-good.cache")
    }

    fn server(&self) -> ServerBuilder {
        let cache = self.directory.path().join("cache").display().to_string();
        Server::on(&self.conf()).native().with(&["--config-cache", &cache])
    }
}

/// `OK`, `PERMISSION_DENIED`, `Unavailable` or what else a check ends with.
fn answer(server: &Server) -> String {
    let finished = mixer(&["check", "-m", &server.address(), "-s", "source.user=ann"]);
    let text = format!("{}{}", finished.stdout, finished.stderr);
    let known = ["Check status was OK", "PERMISSION_DENIED", "no configuration is served", "Unavailable"];
    known.into_iter().find(|known| text.contains(known)).map_or(text.clone(), str::to_owned)
}

const OK: &str = "Check status was OK";
const DENIED: &str = "PERMISSION_DENIED";

#[track_caller]
fn wait_for_answer(server: &Server, wanted: &str) {
    let answered = wait_for(DEADLINE, || (answer(server) == wanted).then_some(()));
    assert!(answered.is_some(), "{}\n{}", answer(server), server.log());
}

fn verbose(server: &Server) -> Value {
    let answer = http("GET", &server.monitoring_url("/readyz?verbose"), "").expect("an answer");
    serde_json::from_str(&answer.body).expect("JSON")
}

/// The reason why a component is degraded; empty if it is not.
fn why_degraded(server: &Server, component: &str) -> String {
    verbose(server)["degraded"][component]["why"].as_str().unwrap_or_default().to_owned()
}

fn kill(mut server: Server) {
    server.signal("KILL");
    assert_eq!(server.exit_code(), Ok(None));
}

/// What may stand in the place of a directory when a server starts.
#[test]
fn what_stands_in_the_place_of_a_directory_at_a_restart_deletes_nothing() {
    type StandIn = fn(&Path, &Path);
    let stand_ins: [(&str, StandIn); 4] = [
        ("a link to a directory is not followed", |path, outside| symlink(outside, path).expect("writable")),
        ("no such file or directory", |path, _| symlink("/nowhere/at/all", path).expect("writable")),
        ("not a directory", |path, _| fs::write(path, "x").expect("writable")),
        ("a link to a directory is not followed", |path, _| {
            let inside = path.with_file_name("other");
            fs::create_dir(&inside).expect("writable");
            symlink(inside, path).expect("writable");
        }),
    ];
    let restart = |(why, stand_in): (&'static str, StandIn)| {
        let place = Place::new();
        let policies = place.conf().join("policies");
        fs::create_dir(&policies).expect("writable");
        fs::write(policies.join("deny.yaml"), denies(0)).expect("writable");
        fs::write(place.conf().join("other.yaml"), "# Nothing.\n").expect("writable");
        let mut server = place.server().start();
        wait_for_answer(&server, DENIED);
        assert_eq!(server.terminate(), Ok(Some(0)), "{}", server.log());
        let moved = place.directory.path().join("moved");
        fs::rename(&policies, &moved).expect("writable");
        stand_in(&policies, &moved);
        let url = format!("fs://{}", place.conf().display());
        let cache = place.directory.path().join("cache").display().to_string();
        let flags = ["--config-store-url", &url, "--config-cache", &cache, "--address", "tcp://127.0.0.1:0"];
        let told = mixer(&[&["doctor"], &flags[..]].concat()).stdout;
        assert!(told.contains("4 resources would serve in the version of the cache"), "{why}: {told}");
        let server = place.server().start();
        assert_eq!(answer(&server), DENIED, "{why}: {}", server.log());
        (place, policies, server, why)
    };
    let restarted = stand_ins.map(restart);
    // Longer than what is missing after a restart is waited for.
    std::thread::sleep(Duration::from_secs(7));
    for (place, policies, server, why) in restarted {
        assert_eq!(answer(&server), DENIED, "{why}: {}", server.log());
        assert!(why_degraded(&server, "store").contains(why), "{why}: {}", verbose(&server));
        // Removed, it is deleted like everything in it.
        fs::remove_file(&policies).expect("it is there");
        fs::write(place.file(), allow(0)).expect("writable");
        wait_for_answer(&server, OK);
    }
}

/// A server that is told that an empty configuration is meant leaves a cache without resources, which opens no later one.
#[test]
fn a_cache_without_resources_opens_nothing() {
    let why = "is ignored: it has no resource, which is a configuration only with --allow-empty-config";
    for broken in ["missing", "empty", "a typo"] {
        let place = Place::new();
        let mut server = place.server().with(&["--allow-empty-config"]).start();
        assert_eq!(answer(&server), OK, "{}", server.log());
        assert_eq!(server.terminate(), Ok(Some(0)), "{}", server.log());
        assert!(place.cached().exists(), "{}", server.log());
        let url = format!("fs://{}", place.conf().display());
        let cache = place.directory.path().join("cache").display().to_string();
        let flags = ["--config-store-url", &url, "--config-cache", &cache, "--address", "tcp://127.0.0.1:0"];
        let told = mixer(&[&["doctor"], &flags[..]].concat()).stdout;
        assert!(told.contains(why) && told.contains("if every call is to be allowed, give"), "{told}");
        let told = mixer(&[&["doctor"], &flags[..], &["--allow-empty-config"]].concat()).stdout;
        assert!(!told.contains("is ignored") && told.contains("has 0 resources"), "{told}");
        match broken {
            "missing" => fs::remove_dir(place.conf()).expect("it is empty"),
            "empty" => {}
            _ => put(&place.file(), &denies(0).replace("checknothing", "checknothin")),
        }
        let refusing = place.server().with(&["--config-on-error", "refuse"]).start();
        assert_eq!(answer(&refusing), "no configuration is served", "{broken}: {}", refusing.log());
        kill(refusing);
        let server = place.server().start();
        assert_eq!(answer(&server), "no configuration is served", "{broken}: {}", server.log());
        assert!(why_degraded(&server, "config-cache").ends_with(why), "{broken}: {}", verbose(&server));
        fs::create_dir_all(place.conf()).expect("writable");
        put(&place.file(), &denies(0));
        wait_for_answer(&server, DENIED);
        let is_well = wait_for(DEADLINE, || why_degraded(&server, "config-cache").is_empty().then_some(()));
        assert!(is_well.is_some(), "{broken}: {}", verbose(&server));
        kill(server);
        fs::remove_dir_all(place.conf()).expect("it is there");
        // What served is the last good one.
        let server = place.server().start();
        assert_eq!(answer(&server), DENIED, "{broken}: {}", server.log());
    }
}

/// In another working directory a relative path leads elsewhere: what was served from there is not the last good version of this one.
#[test]
fn a_relative_directory_is_another_one_elsewhere() {
    let place = Place::new();
    let here = |name: &str, text: &str| {
        let path = place.directory.path().join(name);
        fs::create_dir_all(path.join("conf")).expect("writable");
        put(&path.join("conf/all.yaml"), text);
        path
    };
    let cache = place.directory.path().join("cache").display().to_string();
    let start = |path: &Path, url: &str| {
        Server::on_store(url).native().in_directory(path).with(&["--config-cache", &cache]).start()
    };
    let (first, second) = (here("first", &allow(0)), here("second", &denies(0)));
    let mut server = start(&first, "fs://conf");
    assert_eq!(answer(&server), OK, "{}", server.log());
    assert_eq!(server.terminate(), Ok(Some(0)), "{}", server.log());
    // Valid or not: the working directory may be the mistake.
    for text in [denies(0), denies(0).replace("checknothing", "checknothin")] {
        put(&second.join("conf/all.yaml"), &text);
        let server = start(&second, "fs://conf");
        assert_eq!(answer(&server), "no configuration is served", "{}", server.log());
        let why = why_degraded(&server, "config-cache");
        let (written, now) = (first.join("conf"), second.join("conf"));
        let told = format!(
            "it is of the store fs://{}, and this server has fs://{}",
            written.display(),
            now.display()
        );
        assert!(why.contains(&told), "{why}");
        kill(server);
    }
    put(&first.join("conf/all.yaml"), BROKEN);
    for url in ["fs://conf", "fs://./conf/", &format!("fs://{}/conf", first.display())] {
        let server = start(&first, url);
        assert_eq!(answer(&server), OK, "{url}: {}", server.log());
        kill(server);
    }
}

/// A disk that is full once a configuration is larger than a number of bytes.
fn with_full_disk(builder: ServerBuilder) -> ServerBuilder {
    let limited = ["-c", "trap '' XFSZ; ulimit -Sf 400; exec \"$@\"", "bash"].map(str::to_owned);
    builder.through(Path::new("/bin/bash"), &limited)
}

#[test]
fn a_cache_that_cannot_be_written_leaves_no_older_one_and_is_written_later() {
    let place = Place::new();
    put(&place.file(), &allow(0));
    let server = with_full_disk(place.server()).start();
    wait_for_answer(&server, OK);
    let written = wait_for(DEADLINE, || place.cached().exists().then_some(()));
    assert!(written.is_some() && why_degraded(&server, "config-cache").is_empty(), "{}", server.log());
    // More than the disk takes.
    put(&place.file(), &denies(15_000));
    wait_for_answer(&server, DENIED);
    let why =
        wait_for(DEADLINE, || Some(why_degraded(&server, "config-cache")).filter(|why| !why.is_empty()));
    let why = why.unwrap_or_else(|| panic!("{}\n{}", verbose(&server), server.log()));
    assert!(why.contains("cannot be written") && why.contains("the older one is removed"), "{why}");
    assert!(!place.cached().exists(), "{why}");
    let metrics = http("GET", &server.monitoring_url("/metrics"), "").expect("metrics").body;
    assert!(metrics.contains("mixer_component_degraded{component=\"config-cache\"} 1"), "{metrics}");
    let home = format!("http://127.0.0.1:{}/", server.ports.ctrlz);
    assert!(http("GET", &home, "").expect("a page").body.contains("config-cache"));
    kill(server);
    put(&place.file(), BROKEN);
    let restarted = place.server().start();
    assert_ne!(answer(&restarted), OK, "the older configuration allowed: {}", restarted.log());
    kill(restarted);
    // Room is made while the server runs.
    put(&place.file(), &allow(0));
    let server = with_full_disk(place.server()).start();
    wait_for_answer(&server, OK);
    put(&place.file(), &denies(15_000));
    wait_for_answer(&server, DENIED);
    let failed = wait_for(DEADLINE, || (!why_degraded(&server, "config-cache").is_empty()).then_some(()));
    assert!(failed.is_some(), "{}", server.log());
    let pid = server.id().to_string();
    let lifted = Command::new("prlimit").args(["--pid", &pid, "--fsize=unlimited:unlimited"]).status();
    assert!(lifted.is_ok_and(|status| status.success()), "prlimit of util-linux is needed");
    let written = wait_for(DEADLINE, || {
        (place.cached().exists() && why_degraded(&server, "config-cache").is_empty()).then_some(())
    });
    assert!(written.is_some(), "{}\n{}", verbose(&server), server.log());
    kill(server);
    put(&place.file(), BROKEN);
    let restarted = place.server().start();
    wait_for_answer(&restarted, DENIED);
}

/// The cache of a large configuration takes long to write.
#[test]
fn a_server_that_is_killed_as_soon_as_a_configuration_serves_starts_with_it_again() {
    let large = |text: &str| {
        let mut all = text.to_owned();
        for number in 0..3000 {
            all.push_str(&format!(
                "---\nkind: handler\nmetadata: {{name: h{number}, namespace: istio-system}}\nspec: {{compiledAdapter: noop}}\n"
            ));
        }
        all
    };
    let place = Place::new();
    put(&place.file(), &large(&allow(0)));
    let server = place.server().start();
    wait_for_answer(&server, OK);
    let written = wait_for(DEADLINE, || place.cached().exists().then_some(()));
    assert!(written.is_some(), "{}", server.log());
    let mut client = Client::new(&server.address()).expect("an address");
    put(&place.file(), &large(&denies(0)));
    let started = Instant::now();
    while ask(&mut client).expect("no call fails").is_empty() {
        assert!(started.elapsed() < DEADLINE, "{}", server.log());
    }
    kill(server);
    put(&place.file(), BROKEN);
    let restarted = place.server().start();
    wait_for_answer(&restarted, DENIED);
}

/// `no` is a Boolean in YAML 1.1.
#[test]
fn names_that_are_no_text_are_errors_and_remove_nothing() {
    let place = Place::new();
    let text =
        denies(0).replace("name: deny, namespace: istio-system", "name: \"no\", namespace: istio-system");
    let text = text.replace("handler: deny", "handler: \"no\"");
    put(&place.file(), &text);
    let server = place.server().start();
    wait_for_answer(&server, DENIED);
    put(&place.file(), &text.replace("name: \"no\"", "name: no"));
    server.wait_for_log("metadata.name is no text: `no` reads as `false`");
    assert_eq!(answer(&server), DENIED, "{}", server.log());
    put(&place.file(), &text.replace("namespace: istio-system", "namespace: no"));
    server.wait_for_log("metadata.namespace is no text: `no` reads as `false`");
    assert_eq!(answer(&server), DENIED, "{}", server.log());
    let path = place.conf().display().to_string();
    let told = mixer(&["validate", "--output", "table", &path]);
    assert!(told.stdout.contains("quote it: `namespace: \"no\"`"), "{}{}", told.stdout, told.stderr);
    kill(server);
    // Without a last good version, nothing serves.
    fs::remove_dir_all(place.directory.path().join("cache")).expect("it is there");
    let restarted = place.server().start();
    assert!(![OK, DENIED].contains(&answer(&restarted).as_str()), "{}", restarted.log());
    // As in Istio Mixer, the namespace is `false` there.
    let legacy = Server::on(&place.conf()).start();
    assert_eq!(answer(&legacy), OK, "{}", legacy.log());
}
