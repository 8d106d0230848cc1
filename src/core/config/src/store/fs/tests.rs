use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use tokio::time::timeout;

use super::scan::Coverage;
use super::scan::follow::{POLL_UNWATCHED, SETTLING};
use super::watch::Noted;
use super::*;

mod changes;
mod effort;
mod hang;
mod mount_points;
mod names;
mod paths;
mod replaced;
mod start;
mod steady;
mod unread;
mod writers;

fn resource(name: &str, text: &str) -> String {
    format!("kind: rule\nmetadata: {{name: {name}, namespace: x}}\nspec: {{match: {text}}}\n")
}

fn write(root: &Path, name: &str, text: &str) {
    let path = root.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn store(root: &Path) -> FsStore {
    FsStore::new(&format!("fs://{}", root.display()), root, WhenLost::Keep)
}

/// Takes the events of what happened until now: the test tells its own.
fn forget_events(scanner: &mut Scanner, wake: &Wake) {
    assert!(scanner.events_of_files().has_told_all());
    wake.take();
}

/// `name=match` of all resources.
fn held(contents: &StoreContents) -> Vec<String> {
    let text = |r: &crate::RawResource| {
        r.origin.text.split("match: ").nth(1).unwrap_or("").trim_end_matches('}').to_owned()
    };
    contents.resources.iter().map(|r| format!("{}={}", r.key.name, text(r))).collect()
}

/// The contents once they are as expected; fails after 10 s.
async fn until(store: &FsStore, expected: &[&str]) -> Arc<StoreContents> {
    let wait = async {
        loop {
            let contents = store.contents();
            if held(&contents) == expected {
                return contents;
            }
            store.changed().await;
        }
    };
    match timeout(Duration::from_secs(10), wait).await {
        Ok(contents) => contents,
        Err(_) => panic!("expected {expected:?}, have {:?}", held(&store.contents())),
    }
}

#[test]
fn files_are_selected_as_by_istio_mixer() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    for name in
        ["a.yaml", "b.yml", ".hidden.yaml", "sub/deep/c.yaml", "..x/d.yaml", "e.YAML", "f.json", "g.yaml.bak"]
    {
        let key = name.replace(['.', '/'], "-");
        write(root, name, &resource(&key, "v"));
    }
    write(root, "outside.d/h.yaml", &resource("h", "v"));
    symlink(root.join("a.yaml"), root.join("link.yaml")).unwrap();
    symlink(root.join("sub"), root.join("linked-directory")).unwrap();
    fs::create_dir(root.join("directory.yaml")).unwrap();
    // The lock of Emacs leads nowhere; macOS writes attributes beside files.
    symlink("user@host.123:456", root.join(".#a.yaml")).unwrap();
    write(root, "._a.yaml", "\0");
    let contents = store(root).load();
    assert_eq!(
        held(&contents),
        ["--x-d-yaml=v", "-hidden-yaml=v", "a-yaml=v", "b-yml=v", "h=v", "sub-deep-c-yaml=v"]
    );
    let problems: Vec<_> = contents.diagnostics.iter().map(|d| (d.code, d.message.as_str())).collect();
    let directory = root.join("directory.yaml");
    let text = format!("{} is not read: not a regular file but a directory", directory.display());
    let unread = |name: &str| format!("not read: {}, which has a resource", root.join(name).display());
    let (upper, json) = (unread("e.YAML"), unread("f.json"));
    let expected = [
        // A directory without files in place of a file.
        ("file-special", text.as_str()),
        ("file-ignored", upper.as_str()),
        ("file-ignored", json.as_str()),
    ];
    assert_eq!(problems, expected);
    assert_eq!(contents.unavailable, None);
    assert_eq!(contents.files, 7);
}

#[test]
fn later_files_win_with_an_error() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "a.yaml", &resource("r", "first"));
    write(dir.path(), "b.yaml", &resource("r", "second"));
    let contents = store(dir.path()).load();
    assert_eq!(held(&contents), ["r=second"]);
    let problem = &contents.diagnostics[0];
    assert_eq!((problem.code, problem.severity), ("resource-duplicate", crate::Severity::Error));
    assert_eq!(problem.resource, "r.rule.x");
    assert!(
        problem.message.contains("a.yaml:1") && problem.message.contains("b.yaml:1"),
        "{}",
        problem.message
    );
}

#[tokio::test]
async fn every_kind_of_change_is_detected() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    write(root, "a.yaml", &resource("a", "one"));
    let store = store(root);
    until(&store, &["a=one"]).await;
    write(root, "a.yaml", &resource("a", "two"));
    until(&store, &["a=two"]).await;
    write(root, "new/b.yaml", &resource("b", "one"));
    until(&store, &["a=two", "b=one"]).await;
    // Editors write a temporary file and rename it.
    write(root, "a.yaml~", &resource("a", "three"));
    fs::rename(root.join("a.yaml~"), root.join("a.yaml")).unwrap();
    until(&store, &["a=three", "b=one"]).await;
    fs::remove_dir_all(root.join("new")).unwrap();
    until(&store, &["a=three"]).await;
    write(root, "a.yaml", "kind: [");
    let contents = until(&store, &[]).await;
    assert_eq!(contents.diagnostics[0].code, "yaml-syntax");
    write(root, "a.yaml", &resource("a", "four"));
    let contents = until(&store, &["a=four"]).await;
    assert_eq!(contents.diagnostics, []);
}

#[tokio::test]
async fn a_file_with_too_many_errors_keeps_its_last_contents() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    write(root, "a.yaml", &resource("a", "one"));
    write(root, "b.yaml", &resource("b", "one"));
    let kept = store(root);
    until(&kept, &["a=one", "b=one"]).await;
    // Written beside it and renamed, so that no part of it is read.
    let replace = |text: &str| {
        write(root, "a.yaml~", text);
        fs::rename(root.join("a.yaml~"), root.join("a.yaml")).unwrap();
    };
    replace(&"---\na\n".repeat(1_001));
    let refused = async {
        while kept.contents().broken.is_empty() {
            kept.changed().await;
        }
    };
    timeout(Duration::from_secs(10), refused).await.unwrap();
    write(root, "b.yaml", &resource("b", "two"));
    let contents = until(&kept, &["a=one", "b=two"]).await;
    let unread: Vec<_> = contents.broken.iter().map(|b| (b.document, b.keeps_last, b.problem.code)).collect();
    assert_eq!(unread, [(None, true, "file-errors")]);
    assert_eq!((contents.diagnostics.len(), contents.unread().len()), (1, 1));
    assert!(contents.unread()[0].covers(&root.join("a.yaml").display().to_string()));
    replace(&resource("a", "three"));
    let contents = until(&kept, &["a=three", "b=two"]).await;
    assert_eq!((contents.broken.len(), contents.diagnostics.len()), (0, 0));
    // A start knows of no last contents, and Istio Mixer keeps none.
    replace(&"---\na\n".repeat(1_001));
    for lost in [WhenLost::Keep, WhenLost::Drop] {
        let contents = FsStore::new("fs://x", root, lost).load();
        assert_eq!((held(&contents), contents.broken.len()), (vec!["b=two".to_owned()], 1));
        assert!(!contents.broken[0].keeps_last);
    }
}

#[test]
fn a_directory_of_which_too_much_cannot_be_read_counts_as_unreadable() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    for number in 0..11 {
        write(root, &format!("b{number:02}.yaml"), &"---\na\n".repeat(if number < 10 { 1_000 } else { 5 }));
    }
    write(root, "good.yaml", &resource("r", "one"));
    let tool = crate::store::read_sources(&[root.display().to_string()], &mut std::io::empty()).unwrap();
    for contents in [&*store(root).load(), &tool] {
        assert_eq!((held(contents), contents.broken.len()), (vec!["r=one".to_owned()], 10_001));
        assert_eq!(contents.diagnostics.len(), 10_001);
        let whole = contents.broken.last().unwrap();
        assert_eq!((&*whole.file, whole.document), (&*root.display().to_string(), None));
        let problem = contents.diagnostics.last().unwrap();
        let text = format!(
            "10005 files and documents of {} cannot be read, more than 10000: all of it counts as unreadable",
            root.display()
        );
        assert_eq!((problem.code, &problem.message), ("store-errors", &text));
    }
}

#[tokio::test]
async fn config_maps_swap_all_files_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    let publish = |version: &str, files: &[(&str, &str)]| {
        for (name, text) in files {
            write(root, &format!("..{version}/{name}.yaml"), &resource(name, text));
        }
        symlink(format!("..{version}"), root.join("..data_tmp")).unwrap();
        fs::rename(root.join("..data_tmp"), root.join("..data")).unwrap();
        for (name, _) in files {
            let link = root.join(format!("{name}.yaml"));
            if !link.is_symlink() {
                symlink(format!("..data/{name}.yaml"), link).unwrap();
            }
        }
    };
    publish("2026_1", &[("a", "one"), ("b", "one")]);
    let store = store(root);
    let contents = until(&store, &["a=one", "b=one"]).await;
    assert_eq!(contents.diagnostics, []);
    publish("2026_2", &[("a", "two"), ("b", "two")]);
    let contents = until(&store, &["a=two", "b=two"]).await;
    assert_eq!(contents.diagnostics, [], "both versions are there for a moment");
    fs::remove_dir_all(root.join("..2026_1")).unwrap();
    let contents = until(&store, &["a=two", "b=two"]).await;
    assert_eq!(contents.diagnostics, []);
}

#[tokio::test]
async fn a_volume_without_a_current_version_keeps_the_last_contents() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    let point = |version: &str| {
        symlink(version, root.join("..data_tmp")).unwrap();
        fs::rename(root.join("..data_tmp"), root.join("..data")).unwrap();
    };
    write(root, "..1/a.yaml", &resource("a", "one"));
    write(root, "b.yaml", &resource("b", "one"));
    point("..1");
    let kept = store(root);
    until(&kept, &["a=one", "b=one"]).await;

    point("..9");
    fs::remove_dir_all(root.join("..1")).unwrap();
    write(root, "b.yaml", &resource("b", "two"));
    let contents = until(&kept, &["a=one", "b=two"]).await;
    let why = format!("cannot read {}/..data: no such file or directory", root.display());
    assert_eq!(contents.unavailable.as_ref(), Some(&why));
    let problems = |contents: &StoreContents| -> Vec<_> {
        contents.diagnostics.iter().map(|d| (d.code, d.severity, d.message.clone())).collect()
    };
    let expected = [("store-unreadable", crate::Severity::Error, why.clone())];
    assert_eq!(problems(&contents), expected);
    assert_eq!(contents.broken.len(), 1);

    // A start, and a tool, cannot know what is missing.
    for contents in [
        (*store(root).load()).clone(),
        crate::store::read_sources(&[root.display().to_string()], &mut std::io::empty()).unwrap(),
    ] {
        assert_eq!((held(&contents), contents.broken.len()), (vec!["b=two".to_owned()], 1));
        assert!(problems(&contents)[0].2.contains("..data"), "{:?}", problems(&contents));
    }
    let hints = |contents: &StoreContents| contents.diagnostics[0].hint.clone().unwrap();
    assert!(hints(&contents).starts_with("its last contents stay in effect"));
    let mut started = Scanner::new(root.into(), WhenLost::Keep);
    for _ in 0..2 {
        started.scan(Scope::Everything, Noted::default(), Instant::now());
        assert!(hints(started.contents()).starts_with("create it"), "nothing of it was read");
    }
    fs::write(root.join("file"), "").unwrap();
    point("file");
    let contents = store(root).load();
    assert!(contents.unavailable.as_ref().is_some_and(|why| why.contains("not a directory")));

    write(root, "..2/a.yaml", &resource("a", "two"));
    point("..2");
    let contents = until(&kept, &["a=two", "b=two"]).await;
    assert_eq!((contents.diagnostics.clone(), contents.unavailable.clone()), (vec![], None));
}

#[tokio::test]
async fn a_symlinked_root_can_be_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    write(root, "v1/a.yaml", &resource("a", "one"));
    write(root, "v2/a.yaml", &resource("a", "two"));
    symlink("v1", root.join("current")).unwrap();
    let store = store(&root.join("current"));
    until(&store, &["a=one"]).await;
    symlink("v2", root.join("next")).unwrap();
    fs::rename(root.join("next"), root.join("current")).unwrap();
    until(&store, &["a=two"]).await;
    write(root, "v2/a.yaml", &resource("a", "three"));
    until(&store, &["a=three"]).await;
}

/// The new directory may have the inode of the old one, whose watch has ended.
#[tokio::test]
async fn a_directory_that_is_removed_and_made_again_is_followed() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("conf");
    write(&root, "deep/a.yaml", &resource("a", "0"));
    let store = store(&root);
    until(&store, &["a=0"]).await;
    for round in 1..=20 {
        fs::remove_dir_all(&root).unwrap();
        write(&root, "deep/a.yaml", &resource("a", &format!("{round}")));
        until(&store, &[&format!("a={round}")]).await;
        // The walk after a change is over.
        if round > 17 {
            tokio::time::sleep(SETTLING + Duration::from_millis(500)).await;
        }
        write(&root, "deep/a.yaml", &resource("a", &format!("{round}-edited")));
        until(&store, &[&format!("a={round}-edited")]).await;
    }
}

#[tokio::test]
async fn an_unreadable_directory_keeps_the_last_contents() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("conf/deep");
    let store = store(&root);
    let contents = store.load();
    let cause = format!("{}: no such file or directory", root.display());
    let text = format!("cannot read {cause}");
    assert_eq!(contents.unavailable.as_deref(), Some(text.as_str()));
    assert_eq!(contents.diagnostics[0].message, text);
    assert_eq!(contents.diagnostics[0].log_text(), format!("failure during filepath.Walk: lstat {cause}"));
    write(&root, "a.yaml", &resource("a", "one"));
    let contents = until(&store, &["a=one"]).await;
    assert_eq!(contents.unavailable, None);
    fs::remove_dir_all(dir.path().join("conf")).unwrap();
    timeout(Duration::from_secs(10), async {
        while store.contents().unavailable.is_none() {
            store.changed().await;
        }
    })
    .await
    .unwrap();
    assert_eq!(held(&store.contents()), ["a=one"]);
    write(&root, "a.yaml", &resource("a", "two"));
    let contents = until(&store, &["a=two"]).await;
    assert_eq!(contents.unavailable, None);
}

#[tokio::test]
async fn a_resource_that_moves_is_announced_at_its_new_place() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "a.yaml", &resource("a", "one"));
    let store = store(dir.path());
    store.changed().await;
    let before = store.contents();
    let at = |file: &str, line: u32| {
        let contents = store.contents();
        let origin = &contents.resources.iter().next().unwrap().origin;
        assert_eq!(held(&contents), held(&before));
        origin.file.ends_with(file) && origin.first_line == line
    };
    fs::rename(dir.path().join("a.yaml"), dir.path().join("b.yaml")).unwrap();
    let moved = async {
        while !at("b.yaml", 1) {
            store.changed().await;
        }
        write(dir.path(), "b.yaml", &format!("\n\n{}\n\n", resource("a", "one")));
        while !at("b.yaml", 3) {
            store.changed().await;
        }
    };
    assert!(timeout(Duration::from_secs(20), moved).await.is_ok());
}

#[test]
fn an_idle_tree_is_not_polled() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("a.yaml"), "a: 1\n").unwrap();
    let wake = Arc::new(Wake::default());
    let mut scanner = Scanner::new(directory.path().into(), WhenLost::Keep);
    assert_eq!(scanner.coverage().2, Some(POLL_UNWATCHED), "no watch yet");
    scanner.watch(&wake);
    scanner.scan(Scope::Everything, wake.take(), Instant::now());
    assert_eq!(scanner.coverage(), (Coverage::Full, false, None));

    let follow = |scanner: &mut Scanner| {
        while wake.wait(Some(Instant::now() + Duration::from_secs(5))) == Woken::Signalled
            && !scanner.scan(Scope::Noted, wake.take(), Instant::now())
        {}
    };
    std::fs::write(directory.path().join("b.yaml"), "b: 1\n").unwrap();
    follow(&mut scanner);
    assert_eq!(scanner.coverage(), (Coverage::Full, false, None), "its directory was watched when it came");

    write(directory.path(), "new/c.yaml", "c: 1\n");
    follow(&mut scanner);
    assert_eq!(scanner.coverage(), (Coverage::Full, true, Some(SETTLING)), "one more walk after a change");

    assert!(!scanner.scan(Scope::Everything, Noted::default(), Instant::now()), "nothing changed");
    assert_eq!(scanner.coverage(), (Coverage::Full, false, None));
}

#[tokio::test]
async fn who_follows_from_the_start_has_everything_read_once() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), "a.yaml", &resource("a", "one"));
    let store = store(directory.path());
    let scans = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = Arc::clone(&scans);
    let count = move || {
        counted.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    };
    *store.shared.gate.lock() = Some(Box::new(count));
    drop(store.changed());
    store.loaded().await;
    assert_eq!(store.contents().resources.len(), 1);
    assert!(
        timeout(Duration::from_millis(300), async {
            loop {
                store.changed().await;
                if scans.load(std::sync::atomic::Ordering::SeqCst) > 1 {
                    return;
                }
            }
        })
        .await
        .is_err()
    );
    assert_eq!(scans.load(std::sync::atomic::Ordering::SeqCst), 1);
}

#[test]
fn an_edit_of_a_known_file_causes_no_walk() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), "a.yaml", &resource("a", "one"));
    let wake = Arc::new(Wake::default());
    let mut scanner = Scanner::new(directory.path().into(), WhenLost::Keep);
    scanner.watch(&wake);
    scanner.scan(Scope::Everything, wake.take(), Instant::now());
    let limit = Instant::now() + Duration::from_secs(20);
    let follow = |scanner: &mut Scanner, text: &str| {
        let has = |scanner: &Scanner| {
            let contents = scanner.contents();
            contents.resources.iter().any(|resource| resource.origin.text.contains(text))
        };
        while !has(scanner) {
            assert_ne!(wake.wait(Some(limit)), Woken::TimedOut);
            scanner.scan(Scope::Noted, wake.take(), Instant::now());
        }
    };
    std::fs::write(directory.path().join(".next"), resource("a", "two")).unwrap();
    std::fs::rename(directory.path().join(".next"), directory.path().join("a.yaml")).unwrap();
    follow(&mut scanner, "two");
    assert_eq!(scanner.coverage(), (Coverage::Full, false, None));
    std::fs::write(directory.path().join("a.yaml"), resource("a", "three")).unwrap();
    follow(&mut scanner, "three");
    assert_eq!(scanner.coverage(), (Coverage::Full, false, None));

    // The configuration may not become too large by edits, either.
    let mut scanner = scanner.reading(crate::store::Reading { max_bytes: Some(400), ..Default::default() });
    std::fs::write(
        directory.path().join("a.yaml"),
        format!("{}# {}\n", resource("a", "four"), "x".repeat(500)),
    )
    .unwrap();
    let is_refused = |scanner: &Scanner| {
        scanner.contents().diagnostics.iter().any(|problem| problem.code == "config-too-large")
    };
    while !is_refused(&scanner) {
        assert_ne!(wake.wait(Some(limit)), Woken::TimedOut);
        scanner.scan(Scope::Noted, wake.take(), Instant::now());
    }
}

#[test]
fn a_tree_is_polled_while_the_thread_of_file_events_is_down() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str| write(directory.path(), name, &resource(&name.replace('.', "-"), "v"));
    write("a.yaml");
    let wake = Arc::new(Wake::default());
    let mut scanner = Scanner::new(directory.path().into(), WhenLost::Keep);
    let start = Instant::now();
    scanner.watch(&wake);
    scanner.scan(Scope::Everything, wake.take(), start);
    assert_eq!(scanner.coverage().0, Coverage::Full);
    scanner.inject_panic();
    write("b.yaml");
    // The end of the thread wakes the reader, which polls from then on.
    let mut now = start;
    while scanner.coverage().0 == Coverage::Full {
        assert_eq!(wake.wait(Some(Instant::now() + Duration::from_secs(20))), Woken::Signalled);
        scanner.scan(Scope::Noted, wake.take(), now);
    }
    assert_eq!(scanner.coverage().2, Some(POLL_UNWATCHED));
    assert_eq!(held(scanner.contents()), ["a-yaml=v", "b-yaml=v"], "what the lost event was about is read");
    write("c.yaml");
    scanner.scan(Scope::Everything, Noted::default(), now);
    assert_eq!((held(scanner.contents()).len(), scanner.coverage().0), (3, Coverage::None));
    // After a pause it is started again, and events arrive.
    now += Duration::from_secs(1);
    scanner.scan(Scope::Everything, Noted::default(), now);
    assert_eq!(scanner.coverage().0, Coverage::Full);
    write("d.yaml");
    while held(scanner.contents()).len() < 4 {
        assert_eq!(wake.wait(Some(Instant::now() + Duration::from_secs(20))), Woken::Signalled);
        scanner.scan(Scope::Noted, wake.take(), now);
    }
    assert_eq!(scanner.coverage().0, Coverage::Full);
}

#[test]
fn links_out_of_the_tree_are_polled() {
    let directory = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("a.yaml"), "a: 1\n").unwrap();
    let link = directory.path().join("b.yaml");
    std::os::unix::fs::symlink(elsewhere.path().join("b.yaml"), &link).unwrap();
    let mut scanner = Scanner::new(directory.path().into(), WhenLost::Keep);
    scanner.watch(&Arc::new(Wake::default()));
    let mut coverage = || {
        scanner.scan(Scope::Everything, Noted::default(), Instant::now());
        scanner.coverage().0
    };
    assert_eq!(coverage(), Coverage::Partial, "the link is broken");
    std::fs::write(elsewhere.path().join("b.yaml"), "b: 1\n").unwrap();
    assert_eq!(coverage(), Coverage::Partial, "the link leads out of the tree");
    std::fs::remove_file(&link).unwrap();
    assert_eq!(coverage(), Coverage::Full);
}

/// The URL of a store lacks a slash, or names a file.
#[test]
fn what_is_meant_by_a_path_that_is_no_directory_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    write(root, "a.yaml", &resource("a", "one"));
    let told = |path: &Path| file::misnamed(path).unwrap_or_default();
    assert_eq!(
        told(&root.join("a.yaml")),
        format!("name the directory of the file: `fs://{}`", root.display())
    );
    let relative = root.strip_prefix("/").unwrap();
    assert_eq!(told(relative), format!("did you mean `fs://{}`?", root.display()));
    assert_eq!(
        told(Path::new("no/such/place")),
        "create it; without a slash at its beginning it is below the working directory"
    );
    assert_eq!((told(root), told(&root.join("none"))), (String::new(), String::new()));
    let problem = file::unreadable(relative, &std::io::ErrorKind::NotFound.into(), false);
    assert_eq!(problem.hint, Some(told(relative)));
    // A file that may not be read is at the right place.
    let problem = file::unreadable(&root.join("a.yaml"), &std::io::ErrorKind::PermissionDenied.into(), false);
    assert!(problem.hint.as_deref().is_some_and(|hint| hint.contains("mend its owner and permissions")));
}

/// A file with a resource whose name is none of configuration is told by a server as well, and is no error.
#[test]
fn a_file_with_a_resource_that_is_not_read_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    write(root, "a.yaml", &resource("a", "one"));
    write(root, "b.YAML", &resource("b", "one"));
    let contents = store(root).load();
    let found: Vec<_> = contents.diagnostics.iter().map(|d| (d.code, d.severity)).collect();
    assert_eq!(found, [("file-ignored", crate::Severity::Warning)]);
    assert_eq!(contents.resources.len(), 1);
}

/// As in a pod: the files are of another user, so that the system does not tell whether they are open.
#[test]
fn a_new_version_of_a_volume_is_complete() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    let publish = |version: &str, text: &str| {
        write(root, &format!("{version}/a.yaml"), &resource("a", text));
        symlink(version, root.join("..data_tmp")).unwrap();
        fs::rename(root.join("..data_tmp"), root.join("..data")).unwrap();
    };
    publish("..1", "one");
    symlink("..data/a.yaml", root.join("a.yaml")).unwrap();
    let mut scanner = Scanner::new(root.into(), WhenLost::Keep).without_leases();
    let mut read = || {
        scanner.scan(Scope::Everything, Noted::default(), Instant::now());
        held(scanner.contents())
    };
    assert_eq!(read(), ["a=one"]);
    publish("..2", "two");
    assert_eq!(read(), ["a=two"]);
    fs::write(root.join("..2/a.yaml"), resource("a", "three")).unwrap();
    assert_eq!(read(), ["a=two"], "its writer may write more");
}

/// Beyond the limit of watches, and without permission to read it.
#[test]
fn a_directory_that_cannot_be_watched_is_looked_at_every_second() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), "a.yaml", &resource("a", "v"));
    let wake = Arc::new(Wake::default());
    let mut scanner = Scanner::new(directory.path().into(), WhenLost::Keep);
    scanner.watch(&wake);
    scanner.scan(Scope::Everything, wake.take(), Instant::now());
    assert_eq!(scanner.coverage().0, Coverage::Full);
    scanner.events_of_files().unwatchable = Some("deep");
    write(directory.path(), "sub/deep/b.yaml", &resource("b", "v"));
    let walk = |scanner: &mut Scanner| {
        scanner.scan(Scope::Everything, wake.take(), Instant::now());
        scanner.coverage()
    };
    for _ in 0..2 {
        assert_eq!(walk(&mut scanner), (Coverage::None, false, Some(POLL_UNWATCHED)));
    }
    scanner.events_of_files().unwatchable = None;
    walk(&mut scanner);
    assert_eq!(walk(&mut scanner), (Coverage::Full, false, None));
    follow_edit(&mut scanner, &wake, "sub/deep/b.yaml");
}

/// Replaces a file and waits for its events.
fn follow_edit(scanner: &mut Scanner, wake: &Arc<Wake>, name: &str) {
    let path = scanner.root().join(name);
    while wake.wait(Some(Instant::now() + Duration::from_millis(50))) == Woken::Signalled {
        scanner.scan(Scope::Noted, wake.take(), Instant::now());
    }
    std::fs::write(&path, resource("b", "edited")).unwrap();
    let limit = Instant::now() + Duration::from_secs(20);
    while !held(scanner.contents()).contains(&"b=edited".to_owned()) {
        assert_ne!(wake.wait(Some(limit)), Woken::TimedOut, "{name}: no event arrives");
        scanner.scan(Scope::Noted, wake.take(), Instant::now());
    }
}

#[test]
fn directories_are_watched_again_after_events_were_lost() {
    for name in ["b.yaml", "sub/b.yaml", "sub/deep/b.yaml"] {
        let directory = tempfile::tempdir().unwrap();
        write(directory.path(), name, &resource("b", "v"));
        let wake = Arc::new(Wake::default());
        let mut scanner = Scanner::new(directory.path().into(), WhenLost::Keep);
        scanner.watch(&wake);
        scanner.scan(Scope::Everything, wake.take(), Instant::now());
        follow_edit(&mut scanner, &wake, name);
        std::fs::write(directory.path().join(name), resource("b", "v")).unwrap();
        let path = directory.path().join(name);
        let overflow = scanner.events_of_files().lose(path.parent().unwrap());
        wake.note(overflow);
        scanner.scan(Scope::Noted, wake.take(), Instant::now());
        follow_edit(&mut scanner, &wake, name);
    }
}

/// The library ends the watch of a path that was renamed, and the system has one watch for a directory however it is called.
#[test]
fn directories_that_change_places_are_followed() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    let places = ["s/a", "s/b", "t/c"];
    for (number, place) in places.iter().enumerate() {
        write(&root.join(place), "deep/x.yaml", &resource(&format!("r{number}"), "first"));
    }
    let wake = Arc::new(Wake::default());
    let mut scanner = Scanner::new(root.into(), WhenLost::Keep);
    scanner.watch(&wake);
    scanner.scan(Scope::Everything, wake.take(), Instant::now());
    let rename = |from: &str, to: &str| fs::rename(root.join(from), root.join(to)).unwrap();
    for round in 0..16 {
        let mut renames = match round % 4 {
            0 => vec![("s/a", "s/.aside"), ("s/b", "s/a"), ("s/.aside", "s/b")],
            1 => vec![("s/a", "aside"), ("t/c", "s/a"), ("aside", "t/c")],
            2 => vec![
                ("s/a", "a"),
                ("a", "s/a"),
                ("s", "x"),
                ("t", "s"),
                ("x", "t"),
                ("s", "x"),
                ("t", "s"),
                ("x", "t"),
            ],
            _ => vec![("s", ".s"), ("t", "s"), (".s", "t"), ("t/b", "s/b"), ("s/c", "s/a"), ("t/a", "t/c")],
        };
        for (number, (from, to)) in renames.drain(..).enumerate() {
            rename(from, to);
            // Walks in the middle of it find other places.
            if round >= 8 && number % 2 == 0 {
                scanner.scan(Scope::Everything, wake.take(), Instant::now());
            }
        }
        while wake.wait(Some(Instant::now() + Duration::from_millis(100))) == Woken::Signalled {
            scanner.scan(Scope::Noted, wake.take(), Instant::now());
        }
        let value = format!("round{round}");
        for (number, place) in places.iter().enumerate() {
            fs::write(root.join(place).join("deep/x.yaml"), resource(&format!("r{number}"), &value)).unwrap();
        }
        let wanted: Vec<String> = (0..places.len()).map(|number| format!("r{number}={value}")).collect();
        let limit = Instant::now() + Duration::from_secs(20);
        while held(scanner.contents()) != wanted {
            let woken = wake.wait(Some(limit));
            assert_ne!(woken, Woken::TimedOut, "{round}: {:?}", held(scanner.contents()));
            scanner.scan(Scope::Noted, wake.take(), Instant::now());
        }
    }
}
