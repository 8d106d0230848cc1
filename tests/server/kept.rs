//! Files and directories that a running server can no longer read: what it says of what serves on.

use std::path::Path;

use crate::on_config_error::{check, copy_of_the_sample, edit, verbose, wait_for_kept};
use crate::support::{Server, free_port, http, run_mixer as mixer};

const REQUEST: [&str; 4] =
    ["-s", "destination.service=shop", "--stringmap-attributes", "request.headers=clnt:abc"];

/// The line of the rule that denies, in what `check --explain` prints.
fn explained(server: &Server) -> String {
    let address = server.address();
    let explained = mixer(&[&["check", "-m", &address, "--explain"][..], &REQUEST].concat()).stdout;
    let line = explained.lines().find(|line| line.contains("unwelcome-client.rule.istio-system"));
    line.unwrap_or(&explained).to_owned()
}

fn since(server: &Server) -> String {
    let state = verbose(server);
    state["configuration"]["kept"][0]["since"].as_str().unwrap_or_default().to_owned()
}

/// What every interface says while the file, or its directory, cannot be read.
fn assert_is_kept(server: &Server, file: &Path, cause: &str) {
    assert!(check(server).contains("PERMISSION_DENIED"), "{}", server.log());
    let state = verbose(server);
    assert_eq!(state["available"], true, "{state}");
    let why = state["degraded"]["configuration"]["why"].as_str().unwrap_or_default();
    assert!(why.starts_with(cause) && why.contains(" resources serve in their previous version"), "{state}");
    let place = format!("previous version, since {}, of {}", since(server), file.display());
    let rule = explained(server);
    assert!(rule.ends_with(&place), "{rule}\n{place}");
    let controlz = format!("http://127.0.0.1:{}/configz/", server.ports.ctrlz);
    let page = http("GET", &controlz, "").expect("a page").body;
    assert!(page.contains(" resources serve in their previous version"), "{page}");
    server.wait_for_log(" resources serve in their previous version, since ");
}

#[test]
fn a_file_that_became_special_or_unreadable_is_kept() {
    let directory = tempfile::tempdir().expect("a directory");
    copy_of_the_sample(directory.path());
    let server = Server::on(directory.path()).native().start();
    assert!(check(&server).contains("PERMISSION_DENIED"), "{}", server.log());
    let (file, away) = (directory.path().join("deny.yaml"), directory.path().join("deny.away"));
    std::fs::rename(&file, &away).expect("writable");
    std::os::unix::fs::symlink(directory.path(), &file).expect("writable");
    wait_for_kept(&server, 4.0);
    let cause = format!("{} is not read: not a regular file but a directory", file.display());
    assert_is_kept(&server, &file, &cause);
    // A change of another file hides nothing.
    edit(&directory.path().join("access-log.yaml"), "kind: rule", "# Changed.\nkind: rule");
    let controlz = format!("127.0.0.1:{}", server.ports.ctrlz);
    let live = mixer(&["validate", &directory.path().display().to_string(), "--live", &controlz]);
    let kept =
        format!("{controlz}: warning[config-kept]: 4 resources serve in their previous version, since ");
    assert!(live.stdout.contains(&kept) && live.stdout.contains(&cause), "{}{}", live.stdout, live.stderr);
    assert!(
        !live.stdout.contains("@@") && !live.stdout.contains("\n  -"),
        "nothing is removed: {}",
        live.stdout
    );
    assert_is_kept(&server, &file, &cause);
    std::fs::rename(&away, &file).expect("writable");
    wait_for_kept(&server, 0.0);
    server.wait_for_log("no longer a problem: 4 resources serve in their previous version");
    // Elsewhere, before it is rolled out: what the files do not show is not removed.
    let new = tempfile::tempdir().expect("a directory");
    copy_of_the_sample(new.path());
    std::fs::remove_file(new.path().join("deny.yaml")).expect("it is there");
    std::os::unix::fs::symlink("nowhere", new.path().join("deny.yaml")).expect("writable");
    let live = mixer(&["validate", &new.path().display().to_string(), "--live", &controlz]);
    let note =
        "rules closed-service.rule.istio-system\n  is not in what could be read: the server goes on with it";
    assert!(live.stdout.contains(note) && !live.stdout.contains("\n  -match"), "{}", live.stdout);
}

#[test]
fn a_lost_directory_is_kept_also_after_a_restart() {
    let directory = tempfile::tempdir().expect("a directory");
    let (root, away) = (directory.path().join("conf"), directory.path().join("away"));
    std::fs::create_dir(&root).expect("writable");
    copy_of_the_sample(&root);
    let cache = directory.path().join("cache").display().to_string();
    let mut server = Server::on(&root).native().with(&["--config-cache", &cache]).start();
    assert!(check(&server).contains("PERMISSION_DENIED"), "{}", server.log());
    std::fs::rename(&root, &away).expect("writable");
    let (file, cause) = (root.join("deny.yaml"), format!("cannot read {}", root.display()));
    wait_for_kept(&server, 29.0);
    assert_is_kept(&server, &file, &cause);
    let before = since(&server);
    server.wait_for_log("configuration is degraded: ");
    assert_eq!(server.terminate(), Ok(Some(0)), "{}", server.log());
    assert!(!server.log().contains("works again"), "a stop mends nothing: {}", server.log());
    drop(server);
    // A slash at the end of its URL makes no other store.
    let store = format!("--configStoreURL=fs://{}/", root.display());
    let flags = ["--config-cache", &cache, &store];
    let server = Server::on(&root).native().with(&flags).start();
    wait_for_kept(&server, 29.0);
    assert_is_kept(&server, &file, &cause);
    assert_eq!(since(&server), before);
    std::fs::rename(&away, &root).expect("writable");
    wait_for_kept(&server, 0.0);
}

/// One socket for two services.
#[test]
fn two_flags_with_one_address_are_named() {
    let port = free_port();
    let address = format!("127.0.0.1:{port}");
    let flags = ["--address", "tcp://127.0.0.1:0", "--envoy-http-address", &address];
    let flags = [&flags[..], &["--envoy-ratelimit-http-address", &address]].concat();
    let text = format!(
        "--envoy-http-address {address} and --envoy-ratelimit-http-address {address} are the same address: only one of \
         them can listen there"
    );
    let started = mixer(&[&["server"], &flags[..]].concat());
    assert!(started.status == 3 && started.stderr.contains(&text), "{started:?}");
    let diagnosed = mixer(&[&["doctor", "-o", "plain"], &flags[..]].concat());
    let settings = format!("fail  settings          {text}\n");
    assert!(diagnosed.status == 1 && diagnosed.stdout.contains(&settings), "{diagnosed:?}");
    let apart = format!("ok    envoy rate limits tcp://{address} is free\n");
    assert!(diagnosed.stdout.contains(&apart), "{diagnosed:?}");
}
