//! Several programs have a file open where the system does not tell of writers: what events tell.

use std::fs::{File, OpenOptions};
use std::io::Write as _;

use super::*;

/// How a program opens a file that it rewrites.
#[derive(Debug, Clone, Copy)]
enum Opens {
    /// It cuts it off (`cat > FILE`).
    Cut,
    /// It leaves it as it is (`dd conv=notrunc`).
    Whole,
}

const OLD: &str = "old";

/// A directory with `a.yaml` that is followed by events, without leases.
struct Followed {
    directory: tempfile::TempDir,
    scanner: Scanner,
    wake: Arc<Wake>,
    /// How much later it is than the clock says.
    later: Duration,
    marks: usize,
}

impl Followed {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        write(directory.path(), "a.yaml", &resource("a", OLD));
        write(directory.path(), "b.yaml", &resource("b", OLD));
        let mut scanner = Scanner::new(directory.path().into(), WhenLost::Keep);
        scanner.scan(Scope::Everything, Noted::default(), Instant::now());
        let (mut scanner, wake) = (scanner.without_leases(), Arc::new(Wake::default()));
        scanner.watch(&wake);
        // They are new, and read again once they were unchanged for a second.
        let mut later = Duration::ZERO;
        for _ in 0..3 {
            scanner.scan(Scope::Everything, Noted::default(), Instant::now() + later);
            later += Duration::from_secs(2);
        }
        let mut followed = Self { directory, scanner, wake, later, marks: 0 };
        assert_eq!(followed.text(), OLD);
        followed
    }

    fn open(&self, how: Opens) -> File {
        let mut options = OpenOptions::new();
        match how {
            Opens::Cut => options.write(true).truncate(true),
            Opens::Whole => options.write(true),
        };
        options.open(self.directory.path().join("a.yaml")).unwrap()
    }

    /// The match of `a`, once every event until now was looked at.
    fn text(&mut self) -> String {
        self.marks += 1;
        let mark = format!("m={}", self.marks);
        write(self.directory.path(), ".next", &resource("m", &self.marks.to_string()));
        fs::rename(self.directory.path().join(".next"), self.directory.path().join("m.yaml")).unwrap();
        let limit = Instant::now() + Duration::from_secs(20);
        loop {
            self.scanner.scan(Scope::Noted, self.wake.take(), Instant::now() + self.later);
            let held = held(self.scanner.contents());
            if held.contains(&mark) {
                let text = held.iter().find_map(|held| held.strip_prefix("a="));
                return text.expect("it is there").to_owned();
            }
            assert_ne!(self.wake.wait(Some(limit)), Woken::TimedOut, "no event arrives");
        }
    }

    fn after(&mut self, milliseconds: u64) -> String {
        self.later += Duration::from_millis(milliseconds);
        self.text()
    }
}

#[test]
fn the_close_of_one_writer_is_not_that_of_another() {
    for (first, second) in [
        (Opens::Cut, Opens::Cut),
        (Opens::Cut, Opens::Whole),
        (Opens::Whole, Opens::Whole),
        (Opens::Whole, Opens::Cut),
    ] {
        // Whether the second one opens the file before the first one writes.
        for is_early in [true, false] {
            let case = format!("{first:?}, {second:?}, {is_early}");
            let mut followed = Followed::new();
            let mut writer = followed.open(first);
            // Two openings that are not told apart are one to whoever follows events.
            followed.text();
            let early = is_early.then(|| followed.open(second));
            writer.write_all(resource("a", "half").as_bytes()).unwrap();
            assert_eq!(followed.text(), OLD, "{case}: not closed");
            let other = early.unwrap_or_else(|| followed.open(second));
            assert_eq!(followed.after(100), OLD, "{case}: two have it open");
            drop(other);
            assert_eq!(followed.after(100), OLD, "{case}: one has it open");
            assert_eq!(followed.after(9_000), OLD, "{case}: one has it open, and pauses");
            writer.set_len(0).unwrap();
            writer.write_all(resource("a", "half").as_bytes()).unwrap();
            assert_eq!(followed.after(0), OLD, "{case}: it goes on");
            assert_eq!(followed.after(3_600_000), OLD, "{case}: it pauses for long");
            drop(writer);
            write(followed.directory.path(), "a.yaml", &resource("a", "new"));
            assert_eq!(followed.after(0), "new", "{case}");
        }
    }
}

#[test]
fn a_file_that_was_opened_by_a_reader_while_it_was_written_is_read_ten_seconds_later() {
    let mut followed = Followed::new();
    let mut writer = followed.open(Opens::Cut);
    assert_eq!(followed.text(), OLD);
    drop(File::open(followed.directory.path().join("a.yaml")).unwrap());
    writer.write_all(resource("a", "new").as_bytes()).unwrap();
    assert_eq!(followed.text(), OLD);
    drop(writer);
    assert_eq!(followed.text(), OLD, "who opened it may be writing");
    assert_eq!(followed.after(9_000), OLD);
    assert_eq!(followed.after(1_100), "new");
    assert!(!followed.scanner.awaits_change());
}

#[test]
fn what_one_writer_closes_is_read_at_once() {
    let mut followed = Followed::new();
    for text in ["one", "two", "three"] {
        write(followed.directory.path(), "a.yaml", &resource("a", text));
        assert_eq!(followed.text(), text);
    }
    // As an editor does that reads it first, and cuts it off later.
    drop(File::open(followed.directory.path().join("a.yaml")).unwrap());
    followed.after(10_100);
    write(followed.directory.path(), "a.yaml", &resource("a", "edited"));
    assert_eq!(followed.text(), "edited");
    // Another file takes its place, of which nobody knows that it is open.
    let mut writer = followed.open(Opens::Whole);
    writer.write_all(b"#").unwrap();
    assert_eq!(followed.text(), "edited");
    let _reader = File::open(followed.directory.path().join("a.yaml")).unwrap();
    write(followed.directory.path(), ".next", &resource("a", "renamed"));
    fs::rename(followed.directory.path().join(".next"), followed.directory.path().join("a.yaml")).unwrap();
    assert_eq!(followed.text(), "renamed");
}

/// As `rsync` does it, with the deletion first.
#[test]
fn a_file_that_is_written_by_another_name_is_waited_for() {
    use super::super::watch::LastEvent;
    use super::changes::{OLD, Tree, rules};
    let mut tree = Tree::new();
    tree.scanner.watch(&Arc::default());
    tree.seen();
    let real = tree.directory.path().canonicalize().unwrap();
    let told = |tree: &mut Tree, milliseconds: u64, events: &[(&str, LastEvent)]| {
        tree.now += Duration::from_millis(milliseconds);
        let paths = events.iter().map(|(name, event)| (real.join(name), *event)).collect();
        tree.scanner.scan(Scope::Noted, Noted { paths, ..Noted::default() }, tree.now);
        held(tree.scanner.contents())
    };
    fs::remove_file(tree.path()).unwrap();
    // What an editor has open says nothing.
    let begun =
        [("a.yaml", LastEvent::Gone), (".z.yaml.AbCd12", LastEvent::Written), (".y.swp", LastEvent::Written)];
    assert_eq!(told(&mut tree, 0, &begun), OLD);
    assert_eq!(told(&mut tree, 3_000, &[]), OLD);
    assert_eq!(told(&mut tree, 100, &[(".z.yaml.AbCd12", LastEvent::Closed)]), OLD);
    assert_eq!(told(&mut tree, 890, &[]), OLD, "it may be renamed now");
    assert_eq!(told(&mut tree, 110, &[]), [""; 0]);
    // However long it is written.
    tree.write(&rules(&["a", "b"], "old"));
    assert_eq!(told(&mut tree, 0, &[("a.yaml", LastEvent::Closed)]), OLD);
    fs::remove_file(tree.path()).unwrap();
    assert_eq!(told(&mut tree, 0, &[("a.yaml", LastEvent::Gone)]), OLD);
    for _ in 0..10 {
        assert_eq!(told(&mut tree, 990, &[("log", LastEvent::Written)]), OLD);
    }
    assert_eq!(told(&mut tree, 100, &[("log", LastEvent::Written)]), [""; 0]);
}
