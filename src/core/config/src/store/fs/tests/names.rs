//! Files with several names, and files that are not read because of theirs, in a tree that is followed by events.

use std::io::Write as _;
use std::path::PathBuf;

use super::*;

struct Followed {
    directory: tempfile::TempDir,
    scanner: Scanner,
    wake: Arc<Wake>,
}

impl Followed {
    /// With `tree` as its configuration, beside which there may be others.
    fn new(prepare: impl FnOnce(&Path)) -> Self {
        Self::with(Scanner::new, prepare)
    }

    fn with(scanner: impl FnOnce(PathBuf, WhenLost) -> Scanner, prepare: impl FnOnce(&Path)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("tree")).unwrap();
        prepare(directory.path());
        let wake = Arc::new(Wake::default());
        let mut scanner = scanner(directory.path().join("tree"), WhenLost::Keep);
        scanner.watch(&wake);
        let mut followed = Self { directory, scanner, wake };
        followed.follow(Scope::Everything);
        followed.rest();
        assert_eq!(followed.scanner.coverage(), (Coverage::Full, false, None));
        followed
    }

    fn follow(&mut self, scope: Scope) {
        self.scanner.scan(scope, self.wake.take(), Instant::now());
    }

    /// Waits until no events come, and nothing is to be looked at.
    fn rest(&mut self) {
        loop {
            let deadline = Instant::now() + Duration::from_millis(100);
            let next = self.scanner.next_scan(Instant::now());
            match (self.wake.wait(Some(deadline)), next) {
                (Woken::Signalled, _) => self.follow(Scope::Noted),
                (_, Some((pause, scope))) => {
                    if self.wake.wait(Some(Instant::now() + pause)) == Woken::Signalled {
                        self.follow(Scope::Noted);
                    } else {
                        self.follow(scope);
                    }
                }
                _ => return,
            }
        }
    }

    /// Writes a file through one of its names, and waits until these are held. Only events tell of it.
    fn edit(&mut self, name: &str, text: &str, expected: &[&str]) {
        self.rest();
        fs::write(self.directory.path().join(name), text).unwrap();
        let limit = Instant::now() + Duration::from_secs(10);
        while held(self.scanner.contents()) != expected {
            assert_eq!(self.wake.wait(Some(limit)), Woken::Signalled, "{name}: no event arrives");
            self.follow(Scope::Noted);
        }
    }
}

#[test]
fn a_file_is_read_whatever_the_name_by_which_it_is_written() {
    let mut tree = Followed::new(|root| {
        for (name, other) in [("a", "outside"), ("b", "tree/b.bak"), ("c", "tree/d.yaml")] {
            write(root, &format!("tree/{name}.yaml"), &resource(name, "old"));
            fs::hard_link(root.join(format!("tree/{name}.yaml")), root.join(other)).unwrap();
        }
        write(root, "tree/z.yaml", &resource("z", "old"));
    });
    tree.edit("outside", &resource("a", "new"), &["a=new", "b=old", "c=old", "z=old"]);
    tree.edit("tree/b.bak", &resource("b", "new"), &["a=new", "b=new", "c=old", "z=old"]);
    // Both names are read, and what they say is the same.
    tree.edit("tree/c.yaml", &resource("c", "new"), &["a=new", "b=new", "c=new", "z=old"]);
    tree.edit("tree/d.yaml", &resource("c", "newer"), &["a=new", "b=new", "c=newer", "z=old"]);
}

/// It is the end of its change, by whatever name it is told.
#[test]
fn without_leases_a_file_with_several_names_is_read_when_it_is_closed() {
    for name in ["tree/a.yaml", "tree/b.yaml", "outside"] {
        let scanner = |root, lost| Scanner::new(root, lost).without_leases();
        let mut tree = Followed::with(scanner, |root| {
            write(root, "tree/a.yaml", &resource("a", "old"));
            fs::hard_link(root.join("tree/a.yaml"), root.join("tree/b.yaml")).unwrap();
            fs::hard_link(root.join("tree/a.yaml"), root.join("outside")).unwrap();
            write(root, "tree/z.yaml", &resource("z", "old"));
        });
        let mut writer = fs::File::create(tree.directory.path().join(name)).unwrap();
        let text = resource("a", "new");
        for part in [&text[..20], &text[20..]] {
            let before = tree.scanner.contents().clone();
            writer.write_all(part.as_bytes()).unwrap();
            let limit = Instant::now() + Duration::from_secs(20);
            while tree.scanner.contents().changing.len() < 2 {
                assert_ne!(tree.wake.wait(Some(limit)), Woken::TimedOut, "{name}: no event arrives");
                tree.follow(Scope::Noted);
            }
            assert_eq!(held(tree.scanner.contents()), held(&before), "{name}");
        }
        drop(writer);
        let limit = Instant::now() + Duration::from_secs(20);
        while !tree.scanner.contents().changing.is_empty() {
            assert_ne!(tree.wake.wait(Some(limit)), Woken::TimedOut, "{name}: it is not read");
            tree.follow(Scope::Noted);
        }
        assert_eq!(held(tree.scanner.contents()), ["a=new", "z=old"], "{name}");
        // Another file takes the place of one name: nothing is told of the other one, which is open.
        let writer = fs::OpenOptions::new().append(true).open(tree.directory.path().join("outside")).unwrap();
        (&writer).write_all(b"#").unwrap();
        while tree.scanner.contents().changing.len() < 2 {
            assert_ne!(tree.wake.wait(Some(limit)), Woken::TimedOut, "{name}: no event arrives");
            tree.follow(Scope::Noted);
        }
        write(tree.directory.path(), "tree/.next", &resource("a", "next"));
        fs::rename(tree.directory.path().join("tree/.next"), tree.directory.path().join("tree/a.yaml"))
            .unwrap();
        while tree.scanner.contents().changing.len() > 1 {
            assert_ne!(tree.wake.wait(Some(limit)), Woken::TimedOut, "{name}: no event arrives");
            tree.follow(Scope::Noted);
        }
        assert!(tree.scanner.contents().changing[0].ends_with("b.yaml"), "{name}");
    }
}

#[test]
fn names_that_a_file_gets_in_the_tree_are_noticed() {
    let mut tree = Followed::new(|root| {
        write(root, "tree/a.yaml", &resource("a", "old"));
        write(root, "tree/z.yaml", &resource("z", "old"));
        write(root, "outside", &resource("b", "old"));
    });
    let root = tree.directory.path().to_owned();
    let link = |from: &str, to: &str| fs::hard_link(root.join(from), root.join(to)).unwrap();
    link("tree/a.yaml", "tree/a.bak");
    tree.edit("tree/a.bak", &resource("a", "new"), &["a=new", "z=old"]);
    link("outside", "tree/b.yaml");
    tree.rest();
    tree.edit("outside", &resource("b", "new"), &["a=new", "b=new", "z=old"]);
    // Another file with several names takes its place.
    write(&root, "next", &resource("b", "next"));
    link("next", "tree/.next");
    fs::rename(root.join("tree/.next"), root.join("tree/b.yaml")).unwrap();
    tree.rest();
    tree.edit("next", &resource("b", "last"), &["a=new", "b=last", "z=old"]);
}

#[test]
fn files_that_are_not_read_are_told_while_there_are_any() {
    let mut tree = Followed::new(|root| write(root, "tree/a.yaml", &resource("a", "old")));
    let root = tree.directory.path().join("tree");
    let mut told = |what: &str| {
        tree.rest();
        let all = tree.scanner.contents().diagnostics.iter().filter(|problem| problem.code == "file-ignored");
        assert!(held(tree.scanner.contents()).len() == 1 + usize::from(what == "renamed"), "{what}");
        all.count()
    };
    write(&root, "4913", "");
    write(&root, "notes", "none");
    assert_eq!(told("files without resources"), 0);
    write(&root, "deny.YAML", &resource("b", "old"));
    assert_eq!(told("written"), 1);
    fs::rename(root.join("deny.YAML"), root.join("deny.yaml")).unwrap();
    assert_eq!(told("renamed"), 0);
    fs::rename(root.join("deny.yaml"), root.join("deny")).unwrap();
    assert_eq!(told("renamed back"), 1);
    write(&root, "deny", "none");
    assert_eq!(told("emptied of resources"), 0);
}

/// What a program does again and again, and what is held in the end.
type Writer<'w> = (&'static str, &'w dyn Fn(&Path), &'static [&'static str]);

/// Programs that write other files again and again hold up no removal.
#[test]
fn a_removal_does_not_wait_for_those_who_replace_other_files() {
    let replaces = |root: &Path| {
        // A temporary file that counts as configuration.
        write(root, "tree/.next.yaml", &resource("a", "old"));
        fs::rename(root.join("tree/.next.yaml"), root.join("tree/a.yaml")).unwrap();
    };
    let probes = |root: &Path| {
        write(root, "tree/.probe.yaml", "# Nothing.\n");
        fs::remove_file(root.join("tree/.probe.yaml")).unwrap();
    };
    let by_another_name = |root: &Path| write(root, "tree/c.yaml", &resource("b", "old"));
    let writers: [Writer<'_>; 3] = [
        ("replaces", &replaces, &["a=old"]),
        ("probes", &probes, &["a=old"]),
        ("by another name", &by_another_name, &["a=old", "b=old"]),
    ];
    for (what, writes, expected) in writers {
        let mut tree = Followed::new(|root| {
            write(root, "tree/a.yaml", &resource("a", "old"));
            write(root, "tree/b.yaml", &resource("b", "old"));
            if what == "by another name" {
                fs::hard_link(root.join("tree/b.yaml"), root.join("tree/c.yaml")).unwrap();
            }
        });
        let root = tree.directory.path().to_owned();
        fs::remove_file(root.join("tree/b.yaml")).unwrap();
        tree.follow(Scope::Noted);
        // By the clock of the scanner.
        let mut now = Instant::now();
        for _ in 0..12 {
            writes(&root);
            // What was told of it.
            std::thread::sleep(Duration::from_millis(50));
            now += Duration::from_millis(200);
            tree.scanner.scan(Scope::Noted, tree.wake.take(), now);
        }
        assert_eq!(held(tree.scanner.contents()), expected, "{what}");
        assert_eq!(tree.scanner.missing().collect::<Vec<_>>(), Vec::<&PathBuf>::new(), "{what}");
    }
}

#[tokio::test]
async fn what_is_written_by_a_name_that_no_event_tells_of_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let (root, outside) = (directory.path().join("tree"), directory.path().join("outside"));
    for name in ["a", "b", "c"] {
        write(&root, &format!("{name}.yaml"), &resource(name, "old"));
    }
    let store = store(&root);
    drop(store.changed());
    store.loaded().await;
    fs::hard_link(root.join("b.yaml"), &outside).unwrap();
    // Whatever is waited for, to be seen at once, was seen.
    tokio::time::sleep(2 * SETTLING).await;
    for text in ["new", "newer"] {
        fs::write(&outside, resource("b", text)).unwrap();
        let expected = ["a=old".to_owned(), format!("b={text}"), "c=old".to_owned()];
        tokio::time::timeout(Duration::from_secs(60), async {
            while held(&store.contents()) != expected {
                store.changed().await;
            }
        })
        .await
        .expect("it is read");
    }
}

#[test]
fn every_file_is_looked_at_in_turn() {
    let mut tree = Followed::new(|root| {
        for number in 0..200 {
            write(root, &format!("tree/{number:03}.yaml"), &resource(&format!("r{number:03}"), "old"));
        }
    });
    for number in [0, 70, 199] {
        let path = tree.directory.path().join(format!("tree/{number:03}.yaml"));
        for _ in 0..4 {
            assert!(!tree.scanner.is_overlooked(Instant::now()));
        }
        // A link changes the stamp, and tells nobody.
        let outside = tree.directory.path().join(format!("{number}"));
        fs::hard_link(&path, &outside).unwrap();
        assert_eq!(tree.wake.wait(Some(Instant::now() + Duration::from_millis(50))), Woken::TimedOut);
        let looks = (1..=4).find(|_| tree.scanner.is_overlooked(Instant::now()));
        assert!(looks.is_some(), "200 files take four looks of 64");
        tree.follow(Scope::Everything);
        tree.rest();
    }
    // A file that cannot be read stays another one than what is in effect: it causes a walk a minute.
    let long = fs::OpenOptions::new().write(true).open(tree.directory.path().join("tree/100.yaml")).unwrap();
    long.set_len(17 << 20).unwrap();
    drop(long);
    tree.follow(Scope::Everything);
    assert_eq!(held(tree.scanner.contents()).len(), 200);
    let is_overlooked = |tree: &mut Followed, after: u64| {
        let now = Instant::now() + Duration::from_secs(after);
        (0..4).any(|_| tree.scanner.is_overlooked(now))
    };
    assert!(!is_overlooked(&mut tree, 1));
    assert!(is_overlooked(&mut tree, 61));
}

#[test]
fn what_a_file_with_another_name_has_is_known() {
    use super::super::watch::LastEvent;
    use super::changes::{Tree, rules};
    let mut tree = Tree::new();
    let rename = |tree: &Tree, from: &str, to: &str| {
        fs::rename(tree.directory.path().join(from), tree.directory.path().join(to)).unwrap();
    };
    tree.scanner.watch(&Arc::default());
    tree.seen();
    let misnamed = |tree: &Tree| {
        let all = tree.scanner.contents().misnamed.iter();
        all.map(|(key, file)| (key.name.to_string(), file.rsplit('/').next().unwrap().to_owned()))
            .collect::<Vec<_>>()
    };
    let of = |name: &str, file: &str| (name.to_owned(), file.to_owned());
    // Those of a repository, which come before it, are none.
    fs::create_dir(tree.directory.path().join(".git")).unwrap();
    for number in 0..1_100 {
        fs::write(tree.directory.path().join(format!(".git/{number}")), "").unwrap();
    }
    tree.seen();
    assert_eq!(misnamed(&tree), []);
    rename(&tree, "a.yaml", "a.YAML");
    tree.after(1_000);
    tree.after(1_000);
    assert_eq!(
        (held(tree.scanner.contents()).len(), misnamed(&tree)),
        (0, vec![of("a", "a.YAML"), of("b", "a.YAML")])
    );
    // What is written to it is read.
    let real = tree.directory.path().canonicalize().unwrap();
    let other = tree.path().with_file_name("a.YAML");
    fs::write(&other, rules(&["b", "c"], "new")).unwrap();
    let paths = [(real.join("a.YAML"), LastEvent::Closed)].into();
    assert!(tree.scanner.scan(Scope::Noted, Noted { paths, ..Noted::default() }, tree.now));
    assert_eq!(misnamed(&tree), [of("b", "a.YAML"), of("c", "a.YAML")]);
    // Whatever its size.
    fs::write(&other, format!("{}# {}\n", rules(&["b", "d"], "new"), "x".repeat(2 << 20))).unwrap();
    tree.seen();
    assert_eq!(misnamed(&tree), [of("b", "a.YAML"), of("d", "a.YAML")]);
    rename(&tree, "a.YAML", "a.yaml~");
    tree.seen();
    assert_eq!(misnamed(&tree), []);
}
