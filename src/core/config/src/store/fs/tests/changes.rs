//! Every way in which a file is replaced, edited and removed: what a reader sees in between.

use std::fs::{File, OpenOptions};
use std::io::{Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::super::watch::LastEvent;
use super::*;
use crate::Severity;

/// A directory with `a.yaml`, and a scanner whose clock the test moves.
pub(super) struct Tree {
    pub(super) directory: tempfile::TempDir,
    pub(super) scanner: Scanner,
    pub(super) now: Instant,
}

/// `n` rules.
pub(super) fn rules(names: &[&str], text: &str) -> String {
    names.iter().map(|name| resource(name, text)).collect::<Vec<_>>().join("\n---\n")
}

impl Tree {
    pub(super) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let scanner = Scanner::new(directory.path().into(), WhenLost::Keep);
        let mut tree = Self { directory, scanner, now: Instant::now() };
        tree.write(&rules(&["a", "b"], "old"));
        assert_eq!(tree.seen(), ["a=old", "b=old"]);
        tree
    }

    /// As on a file system that does not tell about writers.
    pub(super) fn without_leases(self) -> Self {
        Self { scanner: self.scanner.without_leases(), ..self }
    }

    pub(super) fn path(&self) -> PathBuf {
        self.directory.path().join("a.yaml")
    }

    pub(super) fn write(&self, text: &str) {
        fs::write(self.path(), text).unwrap();
    }

    pub(super) fn seen(&mut self) -> Vec<String> {
        self.scanner.scan(Scope::Everything, Noted::default(), self.now);
        held(self.scanner.contents())
    }

    pub(super) fn after(&mut self, milliseconds: u64) -> Vec<String> {
        self.now += Duration::from_millis(milliseconds);
        self.seen()
    }

    /// The code and severity of every problem.
    pub(super) fn problems(&self) -> Vec<(&'static str, Severity)> {
        self.scanner.contents().diagnostics.iter().map(|d| (d.code, d.severity)).collect()
    }
}

pub(super) const OLD: [&str; 2] = ["a=old", "b=old"];
pub(super) const NEW: [&str; 2] = ["a=new", "b=new"];

#[test]
fn a_file_is_read_when_its_writer_has_closed_it() {
    let mut tree = Tree::new();
    let text = rules(&["a", "b"], "new");
    let mut writer = File::create(tree.path()).unwrap();
    assert_eq!(tree.seen(), OLD, "truncated");
    for part in text.as_bytes().chunks(7) {
        writer.write_all(part).unwrap();
        assert_eq!(tree.after(900), OLD, "a slow writer");
    }
    let warning = tree.scanner.contents().diagnostics[0].clone();
    assert_eq!((warning.code, warning.severity), ("file-being-written", Severity::Warning));
    let shown = tree.path().display().to_string();
    assert_eq!(
        warning.message,
        format!("{shown} is open for writing for more than 10 s; its last contents stay in effect")
    );
    assert_eq!(warning.file.as_deref(), Some(shown.as_str()));
    assert_eq!(tree.after(3_600_000), OLD, "a writer that never closes");
    assert_eq!(tree.problems().len(), 1);
    drop(writer);
    assert_eq!(tree.seen(), NEW);
    assert_eq!(tree.problems(), []);
}

#[test]
fn a_file_that_is_being_changed_is_named_until_that_has_ended() {
    let mut tree = Tree::new();
    let changing = |tree: &Tree| tree.scanner.contents().changing.clone();
    let mut writer = OpenOptions::new().append(true).open(tree.path()).unwrap();
    writer.write_all(b"\n").unwrap();
    let scan = |tree: &mut Tree| tree.scanner.scan(Scope::Everything, Noted::default(), tree.now);
    assert!(!scan(&mut tree), "nothing changed yet");
    assert_eq!(changing(&tree), [Arc::<str>::from(tree.path().display().to_string())]);
    assert_eq!(tree.problems(), []);
    assert!(!scan(&mut tree));
    drop(writer);
    assert!(scan(&mut tree), "who waits for the end of the change looks again");
    assert_eq!(
        (changing(&tree).len(), held(tree.scanner.contents()).as_slice()),
        (0, &OLD.map(String::from)[..])
    );
    // A new file is one that cannot be read.
    let new = File::create(tree.directory.path().join("b.yaml")).unwrap();
    scan(&mut tree);
    assert_eq!((changing(&tree).len(), tree.scanner.contents().broken.len()), (0, 1));
    drop(new);
    // A file that is removed may come back with something else.
    fs::remove_file(tree.path()).unwrap();
    scan(&mut tree);
    assert_eq!(changing(&tree), [Arc::<str>::from(tree.path().display().to_string())]);
    tree.now += Duration::from_secs(1);
    assert!(scan(&mut tree));
    assert_eq!((changing(&tree).len(), tree.scanner.contents().resources.len()), (0, 0));
}

#[test]
fn a_missing_file_causes_no_walk_until_it_counts_as_removed() {
    let mut tree = Tree::new();
    let other = tree.directory.path().join("b.yaml");
    fs::write(&other, rules(&["c", "d"], "old")).unwrap();
    tree.seen();
    let wake = Arc::new(Wake::default());
    tree.scanner.watch(&wake);
    let [missing, other] = [tree.path(), other].map(|path| path.canonicalize().unwrap());
    let look = |tree: &mut Tree, event: Option<&PathBuf>, milliseconds: u64| {
        tree.now += Duration::from_millis(milliseconds);
        let mut noted = Noted::default();
        noted.paths.extend(event.map(|path| (path.clone(), LastEvent::Closed)));
        forget_events(&mut tree.scanner, &wake);
        tree.scanner.scan(Scope::Noted, noted, tree.now);
        (held(tree.scanner.contents()), tree.scanner.walked())
    };
    fs::remove_file(&missing).unwrap();
    let missed = look(&mut tree, Some(&missing), 0);
    assert_eq!(missed.0, ["a=old", "b=old", "c=old", "d=old"]);
    for _ in 0..3 {
        assert_eq!(look(&mut tree, None, 250), missed);
    }
    // Another file has one of its resources, and then not any more.
    fs::write(&other, rules(&["a", "d"], "new")).unwrap();
    assert_eq!(look(&mut tree, Some(&other), 10).0, ["a=new", "b=old", "d=new"]);
    fs::write(&other, rules(&["d"], "new")).unwrap();
    let back = look(&mut tree, Some(&other), 10);
    assert_eq!(back.0, ["a=old", "b=old", "d=new"]);
    assert_eq!(look(&mut tree, None, 100), back);
    assert_eq!(look(&mut tree, None, 200).0, ["d=new"], "it is gone for a second");
}

/// A resource that moves to the file of a writer that opened it and has not written yet: no event tells of that.
#[test]
fn a_resource_is_deleted_when_no_file_is_open_for_writing() {
    let mut tree = Tree::new();
    let other = tree.directory.path().join("b.yaml");
    fs::write(&other, rules(&["c"], "old")).unwrap();
    assert_eq!(tree.seen(), ["a=old", "b=old", "c=old"]);
    let changing = |tree: &Tree| tree.scanner.contents().changing.clone();
    let mut writer = OpenOptions::new().append(true).open(&other).unwrap();
    tree.write(&rules(&["a"], "old"));
    assert_eq!(tree.seen(), ["a=old", "c=old"]);
    let named = [Arc::<str>::from(other.display().to_string())];
    assert_eq!(changing(&tree), named, "where `b` may be moving");
    assert_eq!(tree.after(300), ["a=old", "c=old"]);
    assert_eq!(changing(&tree), named);
    writer.write_all(format!("\n---\n{}", resource("b", "new")).as_bytes()).unwrap();
    assert_eq!(tree.seen(), ["a=old", "c=old"]);
    assert_eq!(changing(&tree), named);
    drop(writer);
    assert_eq!(tree.seen(), ["a=old", "b=new", "c=old"]);
    assert_eq!((changing(&tree).len(), tree.problems().len()), (0, 0));
    // A writer that writes nothing.
    let writer = OpenOptions::new().append(true).open(&other).unwrap();
    tree.write("# Nothing.\n");
    assert_eq!(tree.seen(), ["b=new", "c=old"]);
    assert_eq!(changing(&tree), named);
    drop(writer);
    assert!(tree.scanner.scan(Scope::Noted, Noted::default(), tree.now), "who waits for the end looks again");
    assert_eq!((changing(&tree).len(), held(tree.scanner.contents()).len()), (0, 2));
}

#[test]
fn writing_within_a_file_does_not_truncate_it() {
    let mut tree = Tree::new();
    let mut writer = OpenOptions::new().write(true).open(tree.path()).unwrap();
    assert_eq!(tree.seen(), OLD);
    writer.write_all(rules(&["a", "b"], "new").as_bytes()).unwrap();
    assert_eq!(tree.after(2000), OLD);
    writer.seek(std::io::SeekFrom::Start(0)).unwrap();
    writer.write_all(b"kind: [").unwrap();
    writer.set_len(7).unwrap();
    assert_eq!(tree.after(2000), OLD);
    drop(writer);
    assert_eq!(tree.seen(), [] as [&str; 0]);
    assert_eq!(tree.scanner.contents().broken.len(), 1);
}

#[test]
fn a_shell_that_redirects_into_a_file_holds_it_open() {
    let mut tree = Tree::new();
    let mut shell = Command::new("sh")
        .arg("-c")
        .arg("echo >&2; cat > \"$0\"")
        .arg(tree.path())
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let text = rules(&["a", "b"], "new");
    let (first, rest) = text.split_at(text.len() / 2);
    let mut input = shell.stdin.take().unwrap();
    input.write_all(first.as_bytes()).unwrap();
    while fs::metadata(tree.path()).unwrap().len() != first.len() as u64 {
        assert_eq!(tree.seen(), OLD);
        std::thread::yield_now();
    }
    assert_eq!(tree.after(60_000), OLD);
    input.write_all(rest.as_bytes()).unwrap();
    drop(input);
    shell.wait().unwrap();
    assert_eq!(tree.seen(), NEW);
}

#[test]
fn programs_that_rename_are_seen_at_once() {
    let mut tree = Tree::new();
    let edited = Command::new("sed").args(["-i", "s/old/new/"]).arg(tree.path()).status().unwrap();
    assert!(edited.success());
    assert_eq!(tree.seen(), NEW);
    let beside = tree.directory.path().join(".a.yaml.tmp");
    fs::write(&beside, rules(&["a"], "newer")).unwrap();
    fs::rename(&beside, tree.path()).unwrap();
    assert_eq!(tree.seen(), ["a=newer"]);
}

#[test]
fn editors_that_move_the_old_version_away_delete_nothing() {
    // Vim with `backupcopy=no`, and Emacs.
    let mut tree = Tree::new();
    fs::rename(tree.path(), tree.directory.path().join("a.yaml~")).unwrap();
    assert_eq!(tree.seen(), OLD, "there is no a.yaml");
    let mut writer = File::create_new(tree.path()).unwrap();
    assert_eq!(tree.after(500), OLD, "it is empty and open");
    writer.write_all(rules(&["a"], "new").as_bytes()).unwrap();
    assert_eq!(tree.after(2000), OLD);
    drop(writer);
    assert_eq!(tree.seen(), ["a=new"]);
    assert_eq!(tree.problems(), []);
}

#[test]
fn a_removed_file_is_gone_after_a_second() {
    let mut tree = Tree::new();
    fs::remove_file(tree.path()).unwrap();
    assert_eq!(tree.seen(), OLD);
    assert_eq!(tree.after(990), OLD);
    assert_eq!(tree.after(10), [] as [&str; 0]);
    assert_eq!(tree.scanner.contents().files, 0);
    tree.write(&rules(&["a"], "new"));
    assert_eq!(tree.seen(), ["a=new"]);
}

/// A tree that is followed, told of these events at each look.
fn told(tree: &mut Tree, milliseconds: u64, events: &[(&str, LastEvent)]) -> Vec<String> {
    tree.now += Duration::from_millis(milliseconds);
    let real = tree.directory.path().canonicalize().unwrap();
    let paths = events.iter().map(|(name, event)| (real.join(name), *event)).collect();
    tree.scanner.scan(Scope::Noted, Noted { paths, ..Noted::default() }, tree.now);
    held(tree.scanner.contents())
}

fn followed() -> Tree {
    let mut tree = Tree::new();
    tree.scanner.watch(&Arc::default());
    tree.seen();
    tree
}

#[test]
fn a_file_that_comes_back_for_a_moment_is_not_removed() {
    let mut tree = followed();
    fs::remove_file(tree.path()).unwrap();
    assert_eq!(told(&mut tree, 0, &[("a.yaml", LastEvent::Gone)]), OLD);
    for _ in 0..10 {
        assert_eq!(told(&mut tree, 250, &[]), OLD);
        assert_eq!(told(&mut tree, 250, &[("a.yaml", LastEvent::Closed)]), OLD, "it was there meanwhile");
    }
    assert_eq!(told(&mut tree, 990, &[]), OLD);
    // So it is where the tree has to be walked: another event is about none of its files.
    assert_eq!(told(&mut tree, 5, &[("a.yaml", LastEvent::Closed), ("../beside", LastEvent::Other)]), OLD);
    assert_eq!(told(&mut tree, 990, &[]), OLD);
    assert_eq!(told(&mut tree, 10, &[]), [] as [&str; 0]);
}

#[test]
fn what_is_renamed_again_and_again_is_not_removed() {
    let mut tree = followed();
    fs::remove_file(tree.path()).unwrap();
    assert_eq!(told(&mut tree, 0, &[("a.yaml", LastEvent::Gone), ("b.yaml", LastEvent::Closed)]), OLD);
    // At each look it has yet another name than the one that the events tell.
    for round in 0..10 {
        let [from, to] = [0, 1].map(|step| format!("f{}.yaml", round + step));
        assert_eq!(told(&mut tree, 600, &[(&from, LastEvent::Gone), (&to, LastEvent::Closed)]), OLD);
    }
    // A file of an editor says nothing about it.
    assert_eq!(told(&mut tree, 600, &[(".a.swp", LastEvent::Closed)]), OLD);
    fs::write(tree.directory.path().join("f10.yaml"), rules(&["a", "b"], "new")).unwrap();
    assert_eq!(told(&mut tree, 100, &[("f10.yaml", LastEvent::Closed)]), NEW);
    assert_eq!(told(&mut tree, 2_000, &[]), NEW);
    assert_eq!(tree.problems(), []);
}

#[test]
fn what_moves_without_end_holds_up_a_removal_for_ten_seconds() {
    let mut tree = followed();
    fs::remove_file(tree.path()).unwrap();
    assert_eq!(told(&mut tree, 0, &[("a.yaml", LastEvent::Gone)]), OLD);
    for round in 0..10 {
        let lost = round % 2 == 0;
        tree.now += Duration::from_millis(990);
        let noted = Noted { lost, everything: lost, is_renaming: !lost, ..Noted::default() };
        tree.scanner.scan(Scope::Noted, noted, tree.now);
        assert_eq!(held(tree.scanner.contents()), OLD, "round {round}");
    }
    tree.now += Duration::from_millis(100);
    tree.scanner.scan(Scope::Noted, Noted { is_renaming: true, ..Noted::default() }, tree.now);
    assert_eq!(held(tree.scanner.contents()), [] as [&str; 0]);
}

#[test]
fn a_renamed_file_defines_its_resources_once() {
    let mut tree = Tree::new();
    let moved = tree.directory.path().join("0.yaml");
    fs::rename(tree.path(), &moved).unwrap();
    assert_eq!(tree.seen(), OLD);
    // The new name sorts first, but the removed file does not override it.
    fs::write(&moved, rules(&["b"], "new")).unwrap();
    assert_eq!(tree.after(100), ["a=old", "b=new"]);
    assert_eq!(tree.problems(), []);
    assert_eq!(tree.after(1000), ["b=new"]);
}

#[test]
fn an_emptied_file_is_empty_after_a_second() {
    let mut tree = Tree::new();
    tree.write("");
    assert_eq!(tree.seen(), OLD);
    assert_eq!(tree.after(990), OLD);
    tree.write("");
    assert_eq!(tree.after(10), OLD, "emptied again");
    assert_eq!(tree.after(1000), [] as [&str; 0]);
    assert_eq!(tree.problems(), [("file-empty", Severity::Error)]);
}

#[test]
fn a_file_of_a_byte_order_mark_is_empty() {
    let mut tree = Tree::new();
    tree.write("\u{feff}\r\n");
    assert_eq!(tree.after(2000), [] as [&str; 0]);
    assert_eq!(tree.problems(), [("file-empty", Severity::Error)]);
}

#[test]
fn a_directory_read_as_istio_mixer_does_it_forgets_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let mut scanner = Scanner::new(directory.path().into(), WhenLost::Drop);
    let mut seen = || {
        scanner.scan(Scope::Everything, Noted::default(), Instant::now());
        held(scanner.contents())
    };
    write(directory.path(), "a.yaml", &resource("a", "old"));
    assert_eq!(seen(), ["a=old"]);
    write(directory.path(), "a.yaml", "");
    assert_eq!(seen(), [] as [&str; 0]);
    write(directory.path(), "a.yaml", &resource("a", "new"));
    assert_eq!(seen(), ["a=new"]);
    fs::remove_file(directory.path().join("a.yaml")).unwrap();
    assert_eq!(seen(), [] as [&str; 0]);
}

#[test]
fn a_file_cut_off_anywhere_is_complete_or_broken() {
    let mut tree = Tree::new();
    let text = rules(&["a", "b"], "new");
    for length in 1..text.len() {
        tree.write(&text[..length]);
        let seen = tree.after(1000);
        // A part that is complete YAML cannot be told from a whole file; it defines at least the first rule.
        let complete = tree.scanner.contents().broken.is_empty();
        assert!(!complete || !seen.is_empty(), "{length}: {}", &text[..length]);
    }
    tree.write(&text);
    assert_eq!(tree.after(1000), NEW);
    assert_eq!(tree.scanner.contents().broken, []);
}

#[test]
fn without_leases_events_tell_when_a_file_is_closed() {
    let mut tree = Tree::new().without_leases();
    let wake = Arc::new(Wake::default());
    tree.scanner.watch(&wake);
    wake.take();
    let real = tree.path().canonicalize().unwrap();
    let look = |tree: &mut Tree, event: Option<LastEvent>, milliseconds: u64| {
        tree.now += Duration::from_millis(milliseconds);
        let mut noted = Noted::default();
        noted.paths.extend(event.map(|event| (real.clone(), event)));
        tree.scanner.scan(Scope::Noted, noted, tree.now);
        held(tree.scanner.contents())
    };
    tree.write(&rules(&["a", "b"], "new"));
    assert_eq!(look(&mut tree, Some(LastEvent::Written), 0), OLD);
    assert_eq!(look(&mut tree, None, 9_000), OLD, "not closed");
    assert_eq!(look(&mut tree, Some(LastEvent::Closed), 1), NEW);
    tree.write(&rules(&["a"], "old"));
    assert_eq!(look(&mut tree, Some(LastEvent::Other), 0), NEW, "nothing is known about its writer");
    assert_eq!(look(&mut tree, None, 1_000), ["a=old"], "unchanged for a second");
    tree.write(&rules(&["a"], "cut"));
    assert_eq!(look(&mut tree, Some(LastEvent::Written), 0), ["a=old"]);
    assert_eq!(look(&mut tree, None, 3_600_000), ["a=old"], "a writer that pauses for an hour");
    assert_eq!(look(&mut tree, Some(LastEvent::Other), 3_600_000), ["a=old"], "another event is no close");
    assert_eq!(tree.problems(), [("file-being-written", Severity::Warning)]);
    assert_eq!(look(&mut tree, Some(LastEvent::Closed), 0), ["a=cut"]);
    assert_eq!(tree.problems(), []);
}

#[test]
fn without_leases_a_file_whose_close_may_be_lost_must_be_unchanged_for_a_second() {
    let mut tree = Tree::new().without_leases();
    let wake = Arc::new(Wake::default());
    tree.scanner.watch(&wake);
    let real = tree.path().canonicalize().unwrap();
    tree.write(&rules(&["a", "b"], "new"));
    let mut noted = Noted::default();
    noted.paths.insert(real, LastEvent::Written);
    tree.scanner.scan(Scope::Noted, noted, tree.now);
    assert_eq!(tree.after(20_000), OLD, "not closed");
    let lost = Noted { everything: true, lost: true, ..Noted::default() };
    tree.scanner.scan(Scope::Noted, lost, tree.now);
    assert_eq!(tree.after(990), OLD, "perhaps closed");
    assert_eq!(tree.after(10), NEW);
    // A file that took its place was written by another writer.
    tree.write(&rules(&["a", "b"], "half"));
    let mut noted = Noted::default();
    noted.paths.insert(tree.path().canonicalize().unwrap(), LastEvent::Written);
    tree.scanner.scan(Scope::Noted, noted, tree.now);
    let beside = tree.directory.path().join(".a.yaml.tmp");
    fs::write(&beside, rules(&["a"], "newer")).unwrap();
    fs::rename(&beside, tree.path()).unwrap();
    assert_eq!(tree.after(0), NEW);
    assert_eq!(tree.after(1_000), ["a=newer"]);
}

#[test]
fn without_leases_the_clock_of_the_file_system_tells_nothing_after_the_first_read() {
    // As on NFS with a server whose clock is behind: a file that is being written looks old. Here it is an old file.
    let mut tree = Tree::new().without_leases();
    let beside = tree.directory.path().join("link");
    symlink(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"), &beside).unwrap();
    fs::rename(beside, tree.path()).unwrap();
    assert_eq!(tree.seen(), OLD, "first seen");
    assert_eq!(tree.after(990), OLD);
    assert_eq!(tree.after(10), [] as [&str; 0]);
    let broken: Vec<_> = tree.scanner.contents().broken.iter().map(|b| b.problem.code).collect();
    assert_eq!(broken, ["document-ignored", "document-identity"], "a list, `[package]`, with text after it");
}

#[test]
fn events_do_not_delay_the_walk_that_finds_what_has_no_events() {
    let mut tree = Tree::new();
    let wake = Arc::new(Wake::default());
    tree.scanner.watch(&wake);
    tree.seen();
    tree.scanner.set_partial();
    let start = tree.now;
    let real = tree.path().canonicalize().unwrap();
    let mut walks = 0;
    // One event a second: never quiet for as long as it takes to settle.
    for second in 1..=150 {
        tree.now = start + Duration::from_secs(second);
        let due = tree.scanner.next_scan(tree.now).unwrap();
        let scope = if due == (Duration::ZERO, Scope::Everything) { Scope::Everything } else { Scope::Noted };
        walks += u32::from(scope == Scope::Everything);
        let mut noted = Noted::default();
        noted.paths.insert(real.clone(), LastEvent::Other);
        tree.scanner.scan(scope, noted, tree.now);
        tree.scanner.set_partial();
    }
    assert_eq!(walks, 2);
}

#[test]
fn without_leases_and_events_a_file_must_be_unchanged_for_a_second() {
    // As on NFS.
    let mut tree = Tree::new().without_leases();
    for text in ["one", "two"] {
        tree.write(&rules(&["a", "b"], text));
        assert_eq!(tree.after(990), OLD);
    }
    assert_eq!(tree.after(1_000), ["a=two", "b=two"]);
    assert_eq!(tree.problems(), []);
}

#[test]
fn a_file_that_is_written_at_the_start_is_broken() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.yaml");
    let mut writer = File::create(&path).unwrap();
    writer.write_all(resource("a", "half").as_bytes()).unwrap();
    let mut scanner = Scanner::new(directory.path().into(), WhenLost::Keep);
    scanner.scan(Scope::Everything, Noted::default(), Instant::now());
    let contents = scanner.contents();
    assert_eq!((contents.resources.len(), contents.files), (0, 0));
    assert_eq!(contents.broken[0].file.as_ref(), path.to_str().unwrap());
    assert_eq!(contents.broken[0].problem.severity, Severity::Error);
    assert_eq!(contents.diagnostics, [contents.broken[0].problem.clone()]);
    assert!(scanner.awaits_writer());
    drop(writer);
    scanner.scan(Scope::Noted, Noted::default(), Instant::now());
    assert_eq!(held(scanner.contents()), ["a=half"]);
    assert!(!scanner.awaits_writer() && scanner.contents().broken.is_empty());
}

pub(super) fn fifo(path: &Path) {
    let made = Command::new("mkfifo").arg(path).status().unwrap();
    assert!(made.success());
}

#[test]
fn what_is_no_regular_file_or_too_large_is_refused_unread() {
    for (name, code, make) in [
        ("a FIFO", "file-special", (|path| fifo(path)) as fn(&Path)),
        ("a directory", "file-special", |path| fs::create_dir(path).unwrap()),
        ("a directory with files", "file-special", |path| {
            fs::create_dir(path).unwrap();
            fs::write(path.join("a.txt"), "text").unwrap();
        }),
        ("a link to a device", "file-special", |path| symlink("/dev/zero", path).unwrap()),
        ("a socket", "file-special", |path| drop(std::os::unix::net::UnixListener::bind(path).unwrap())),
        ("1 GiB", "file-too-large", |path| File::create(path).unwrap().set_len(1 << 30).unwrap()),
    ] {
        let mut tree = Tree::new();
        fs::remove_file(tree.path()).unwrap();
        make(&tree.path());
        assert_eq!(tree.after(60_000), OLD, "{name}: the last contents stay");
        assert_eq!(tree.problems(), [(code, Severity::Error)], "{name}");
        let broken = |tree: &Tree| {
            let broken = tree.scanner.contents().broken.iter();
            broken.map(|b| (b.file.to_string(), b.keeps_last)).collect::<Vec<_>>()
        };
        let kept = vec![(tree.path().display().to_string(), true)];
        assert_eq!(broken(&tree), kept, "{name}");
        // Another file changes: an event names it.
        let other = tree.directory.path().join("other.yaml");
        fs::write(&other, resource("c", "new")).unwrap();
        let noted =
            Noted { paths: [(other.canonicalize().unwrap(), LastEvent::Closed)].into(), ..Noted::default() };
        tree.scanner.watch(&Arc::default());
        tree.scanner.scan(Scope::Everything, Noted::default(), tree.now);
        fs::write(&other, resource("c", "newer")).unwrap();
        tree.scanner.scan(Scope::Noted, noted, tree.now);
        assert_eq!(held(tree.scanner.contents()), ["a=old", "b=old", "c=newer"], "{name}");
        assert_eq!((tree.problems(), broken(&tree)), (vec![(code, Severity::Error)], kept), "{name}");
        fs::remove_file(other).unwrap();
        tree.seen();
        assert_eq!(tree.after(2_000), OLD, "{name}");
        match tree.path().is_dir() {
            true => fs::remove_dir_all(tree.path()).unwrap(),
            false => fs::remove_file(tree.path()).unwrap(),
        }
        tree.write(&rules(&["a", "b"], "new"));
        assert_eq!(tree.seen(), NEW, "{name}");
        assert_eq!(tree.problems(), [], "{name}");
    }
}

#[test]
fn files_beyond_the_size_of_a_configuration_are_refused() {
    let mut tree = Tree::new();
    for name in ["b", "c", "d"] {
        let path = tree.directory.path().join(name).with_extension("yaml");
        let mut file = File::create(path).unwrap();
        file.write_all(format!("{}#", resource(name, "v")).as_bytes()).unwrap();
        file.set_len(14 << 20).unwrap();
    }
    tree.seen();
    let contents = tree.scanner.contents();
    let too_large: Vec<&str> =
        contents.diagnostics.iter().filter(|d| d.code == "config-too-large").map(|d| &*d.message).collect();
    assert_eq!(too_large.len(), 1, "{too_large:?}");
    assert!(too_large[0].ends_with("d.yaml is not read"), "{too_large:?}");
}
