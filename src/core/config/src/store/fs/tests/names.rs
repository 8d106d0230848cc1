//! Files with several names, and files that are not read because of theirs, in a tree that is followed by events.

use super::*;

struct Followed {
    directory: tempfile::TempDir,
    scanner: Scanner,
    wake: Arc<Wake>,
}

impl Followed {
    /// With `tree` as its configuration, beside which there may be others.
    fn new(prepare: impl FnOnce(&Path)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("tree")).unwrap();
        prepare(directory.path());
        let wake = Arc::new(Wake::default());
        let mut scanner = Scanner::new(directory.path().join("tree"), WhenLost::Keep);
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
