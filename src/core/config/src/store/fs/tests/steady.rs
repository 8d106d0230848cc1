//! A rule is on disk at each moment, and moves from one file to another while files are looked at.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::super::watch::LastEvent;
use super::*;

/// Puts a new version of a file in its place.
fn put(path: &Path, text: &str) {
    let next = path.with_extension("next");
    fs::write(&next, text).unwrap();
    fs::rename(next, path).unwrap();
}

/// A rule in one of two files, of which the other has something else, that moves once between the looks at both.
struct Moving {
    directory: tempfile::TempDir,
    scanner: Scanner,
    wake: Arc<Wake>,
    moves: Arc<AtomicUsize>,
}

impl Moving {
    /// `is_told`: whether events are. `most`: how often it moves while one scan looks. The rule is in `z.yaml`, and has been read.
    fn new(is_told: bool, most: usize) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        put(&root.join("a.yaml"), &resource("other", "v"));
        put(&root.join("z.yaml"), &resource("deny", "v"));
        let mut scanner = Scanner::new(root.clone(), WhenLost::Keep);
        let wake = Arc::new(Wake::default());
        if is_told {
            scanner.watch(&wake);
        }
        for _ in 0..3 {
            scanner.scan(Scope::Everything, wake.take(), Instant::now());
        }
        let moves = Arc::new(AtomicUsize::new(0));
        let (count, at) = (Arc::clone(&moves), root.clone());
        // `a.yaml` was looked at, and `z.yaml` will be.
        scanner.meanwhile(root.join("z.yaml"), move || {
            let number = count.load(Ordering::Relaxed);
            if number < most {
                count.store(number + 1, Ordering::Relaxed);
                put(&at.join("a.yaml"), &resource("deny", "v"));
                put(&at.join("z.yaml"), &resource(&format!("more{number}"), "v"));
                if number + 1 < most {
                    put(&at.join("z.yaml"), &resource("deny", "v"));
                    put(&at.join("a.yaml"), &resource("other", "v"));
                    put(&at.join("z.yaml"), &resource("deny", "w"));
                    put(&at.join("a.yaml"), &resource("deny", "v"));
                    put(&at.join("z.yaml"), &resource(&format!("last{number}"), "v"));
                }
            }
        });
        Self { directory, scanner, wake, moves }
    }

    fn root(&self) -> PathBuf {
        self.directory.path().canonicalize().unwrap()
    }

    fn has_rule(&self) -> bool {
        self.scanner.contents().resources.iter().any(|resource| &*resource.key.name == "deny")
    }
}

#[test]
fn what_moves_while_files_are_looked_at_is_not_removed() {
    for is_told in [false, true] {
        for scope in [Scope::Everything, Scope::Noted] {
            let mut moving = Moving::new(is_told, 1);
            let mut noted = Noted::default();
            let path = moving.root().join("z.yaml");
            noted.paths.insert(path, LastEvent::Closed);
            noted.everything = scope == Scope::Everything;
            moving.scanner.scan(scope, noted, Instant::now());
            assert_eq!(moving.moves.load(Ordering::Relaxed), 1);
            assert!(moving.has_rule(), "told: {is_told}, {scope:?}");
            moving.scanner.scan(Scope::Everything, moving.wake.take(), Instant::now());
            assert!(moving.has_rule());
        }
    }
}

/// What moves without end is kept until it rests, and for ten seconds at most.
#[test]
fn what_moves_at_each_look_is_kept_for_ten_seconds() {
    for is_told in [false, true] {
        let mut moving = Moving::new(is_told, usize::MAX);
        let start = Instant::now();
        let mut scan = |milliseconds| {
            let noted = moving.wake.take();
            moving.scanner.scan(Scope::Everything, noted, start + Duration::from_millis(milliseconds));
            let next = moving.scanner.next_scan(start + Duration::from_millis(milliseconds));
            (
                moving.scanner.contents().resources.iter().any(|r| &*r.key.name == "other"),
                next.map(|next| next.0),
            )
        };
        let soon = Some(Duration::from_millis(20));
        assert_eq!(scan(0), (true, soon), "told: {is_told}");
        assert_eq!(scan(5_000), (true, soon));
        assert!(!scan(10_001).0, "told: {is_told}");
        assert!(moving.has_rule());
    }
}

#[test]
fn a_link_that_leads_to_another_version_removes_nothing_that_both_have() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    for (version, first, last) in [("one", "other", "deny"), ("two", "deny", "other")] {
        write(root, &format!("{version}/a.yaml"), &resource(first, "v"));
        write(root, &format!("{version}/z.yaml"), &resource(last, "v"));
    }
    symlink("one", root.join("conf")).unwrap();
    for is_told in [false, true] {
        let mut scanner = Scanner::new(root.join("conf"), WhenLost::Keep);
        let wake = Arc::new(Wake::default());
        if is_told {
            scanner.watch(&wake);
        }
        let (at, mut number) = (root.to_owned(), 0);
        scanner.meanwhile(root.join("conf/z.yaml"), move || {
            number += 1;
            // Not at each look.
            if number % 3 == 1 {
                let version =
                    if fs::read_link(at.join("conf")).unwrap() == Path::new("one") { "two" } else { "one" };
                symlink(version, at.join("next")).unwrap();
                fs::rename(at.join("next"), at.join("conf")).unwrap();
            }
        });
        for scan in 0..6 {
            scanner.scan(Scope::Everything, wake.take(), Instant::now());
            let names: Vec<String> =
                scanner.contents().resources.iter().map(|r| r.key.name.to_string()).collect();
            assert_eq!(names, ["deny", "other"], "told: {is_told}, scan {scan}");
        }
    }
}

/// Programs that write one file after the other and rename each, as those that render templates.
#[test]
fn files_that_come_and_go_without_end_hold_up_a_deletion_for_ten_seconds() {
    let mut moving = Moving::new(true, 0);
    fs::remove_file(moving.root().join("z.yaml")).unwrap();
    let (start, mut listed) = (Instant::now(), Vec::new());
    for step in 0..40 {
        let next = moving.root().join(format!("render{step}.yaml"));
        fs::write(&next, resource("rendered", "v")).unwrap();
        let now = start + Duration::from_millis(500 * step);
        forget_events(&mut moving.scanner, &moving.wake);
        moving.scanner.scan(Scope::Everything, Noted::default(), now);
        fs::rename(&next, moving.root().join("out.yaml")).unwrap();
        forget_events(&mut moving.scanner, &moving.wake);
        moving.scanner.scan(Scope::Everything, Noted::default(), now + Duration::from_millis(100));
        listed.push(!moving.scanner.contents().changing.is_empty());
    }
    assert!(listed[..20].iter().all(|is_listed| *is_listed), "{listed:?}");
    assert!(!listed[22..].contains(&true), "{listed:?}");
}

#[test]
fn a_fence_of_which_an_event_was_lost_is_replaced() {
    let mut moving = Moving::new(true, 0);
    moving.scanner.events_of_files().lose_fence();
    let start = Instant::now();
    assert!(!moving.scanner.events_of_files().has_told_all(), "the event is lost");
    assert!(start.elapsed() >= Duration::from_secs(1));
    for _ in 0..3 {
        assert!(moving.scanner.events_of_files().has_told_all());
    }
}

/// The library panics if it is asked for anything once its thread has ended.
#[test]
fn nothing_is_asked_of_a_thread_of_events_that_has_ended() {
    let mut moving = Moving::new(true, 0);
    moving.scanner.inject_panic();
    put(&moving.root().join("z.yaml"), &resource("deny", "v"));
    let limit = Instant::now() + Duration::from_secs(20);
    while moving.scanner.events_of_files().ended().is_none() {
        assert!(Instant::now() < limit);
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(!moving.scanner.events_of_files().has_told_all());
}

/// A part of a rule moves to a file that is open, and not written yet.
#[test]
fn what_says_something_else_waits_for_a_file_that_is_open_for_writing() {
    let mut moving = Moving::new(true, 0);
    let _writer = fs::OpenOptions::new().append(true).open(moving.root().join("a.yaml")).unwrap();
    put(&moving.root().join("z.yaml"), &resource("deny", "less"));
    let limit = Instant::now() + Duration::from_secs(20);
    while !held(moving.scanner.contents()).contains(&"deny=less".to_owned()) {
        assert_ne!(moving.wake.wait(Some(limit)), Woken::TimedOut, "no event arrives");
        moving.scanner.scan(Scope::Noted, moving.wake.take(), Instant::now());
    }
    let changing = &moving.scanner.contents().changing;
    assert_eq!(changing.len(), 1, "{changing:?}");
    assert!(changing[0].ends_with("a.yaml"));
}

/// Whoever waits until nothing happens.
#[test]
fn a_file_that_changes_no_resource_is_something_that_happens() {
    let mut tree = super::changes::Tree::new();
    tree.scanner.watch(&Arc::default());
    tree.seen();
    let first = tree.scanner.touched();
    tree.after(3_000);
    assert_eq!(tree.scanner.touched(), first, "a look alone");
    let real = tree.directory.path().canonicalize().unwrap();
    for name in ["c.yaml", "c.yaml"] {
        fs::write(tree.path().with_file_name(name), "# Nothing.\n").unwrap();
        tree.now += Duration::from_secs(3);
        let paths = [(real.join(name), LastEvent::Closed), (real.join(".c.swp"), LastEvent::Closed)].into();
        assert!(!tree.scanner.scan(Scope::Noted, Noted { paths, ..Noted::default() }, tree.now));
        assert_eq!(tree.scanner.touched(), Some(tree.now));
    }
    fs::write(tree.path().with_file_name("d.yaml"), "# Nothing.\n").unwrap();
    tree.after(3_000);
    assert_eq!(tree.scanner.touched(), Some(tree.now), "of which no event told");
}
