//! What a change of a file costs: which must not depend on how many others there are.

use std::path::PathBuf;

use super::super::scan::Effort;
use super::super::watch::LastEvent;
use super::*;

/// A directory of files with ten rules each, in two directories, that is followed.
struct Followed {
    directory: tempfile::TempDir,
    scanner: Scanner,
    wake: Arc<Wake>,
    now: Instant,
}

impl Followed {
    fn new(files: usize) -> Self {
        let directory = tempfile::tempdir().unwrap();
        for number in 0..files {
            write(directory.path(), &Self::name(number), &Self::text(number, "old", 10));
        }
        // One has a problem, which every list of problems has.
        write(directory.path(), "wrong.yaml", "kind: [\n");
        let mut scanner = Scanner::new(directory.path().into(), WhenLost::Keep);
        let wake = Arc::new(Wake::default());
        scanner.watch(&wake);
        let mut followed = Self { directory, scanner, wake, now: Instant::now() };
        for _ in 0..2 {
            followed.scanner.scan(Scope::Everything, Noted::default(), followed.now);
        }
        assert_eq!(followed.scanner.coverage(), (Coverage::Full, false, None));
        // After a walk, every file is asked for its writers once.
        followed.replace(0, &Self::text(0, "old", 9));
        followed.until_settled(&[(Self::name(0), LastEvent::Closed)]);
        followed
    }

    fn name(number: usize) -> String {
        format!("{}/f{number:05}.yaml", number % 2)
    }

    fn text(number: usize, text: &str, count: usize) -> String {
        let rules = (0..count).map(|rule| resource(&format!("r{number:05}-{rule}"), text));
        rules.collect::<Vec<_>>().join("\n---\n")
    }

    fn replace(&self, number: usize, text: &str) {
        let root = self.directory.path();
        write(root, ".next", text);
        fs::rename(root.join(".next"), root.join(Self::name(number))).unwrap();
    }

    /// Tells events, and looks every quarter of a second until nothing is unsettled. Returns what that cost.
    fn until_settled(&mut self, events: &[(String, LastEvent)]) -> Effort {
        self.scanner.spent();
        forget_events(&mut self.scanner, &self.wake);
        let real = self.directory.path().canonicalize().unwrap();
        let paths = events.iter().map(|(name, event)| (real.join(name), *event)).collect();
        let mut noted = Noted { paths, ..Noted::default() };
        loop {
            self.scanner.scan(Scope::Noted, std::mem::take(&mut noted), self.now);
            self.now += Duration::from_millis(250);
            match self.scanner.next_scan(self.now) {
                None => return self.scanner.spent(),
                Some((_, Scope::Everything)) => {
                    self.scanner.scan(Scope::Everything, Noted::default(), self.now)
                }
                Some((_, Scope::Noted)) => false,
            };
        }
    }

    /// What it has is what is found at a start.
    fn check(&self) {
        let (have, fresh) = (self.scanner.contents(), store(self.directory.path()).load());
        assert_eq!(held(have), held(&fresh));
        assert_eq!((have.files, have.documents), (fresh.files, fresh.documents));
        assert_eq!((&have.diagnostics, &have.broken), (&fresh.diagnostics, &fresh.broken));
    }
}

/// What each kind of change costs among so many files.
fn costs(files: usize) -> Vec<(&'static str, Effort)> {
    let mut tree = Followed::new(files);
    let mut costs = Vec::new();
    let mut change = |what: &'static str, edit: &dyn Fn(&Followed), events: &[(String, LastEvent)]| {
        edit(&tree);
        costs.push((what, tree.until_settled(events)));
        tree.check();
    };
    let closed = |number: usize| (Followed::name(number), LastEvent::Closed);
    let gone = |number: usize| (Followed::name(number), LastEvent::Other);
    let file =
        |tree: &Followed, number: usize| -> PathBuf { tree.directory.path().join(Followed::name(number)) };
    change("edit", &|tree| tree.replace(1, &Followed::text(1, "new", 10)), &[closed(1)]);
    change("a resource less", &|tree| tree.replace(2, &Followed::text(2, "old", 9)), &[closed(2)]);
    change("a resource more", &|tree| tree.replace(2, &Followed::text(2, "old", 10)), &[closed(2)]);
    let moves = |tree: &Followed| {
        tree.replace(3, &Followed::text(3, "old", 9));
        tree.replace(4, &format!("{}\n---\n{}", Followed::text(4, "old", 10), resource("r00003-9", "moved")));
    };
    change("a resource moves", &moves, &[closed(3), closed(4)]);
    change("new file", &|tree| tree.replace(files, &Followed::text(files, "new", 10)), &[closed(files)]);
    change("removed file", &|tree| fs::remove_file(file(tree, 5)).unwrap(), &[gone(5)]);
    let rename = |tree: &Followed| fs::rename(file(tree, 6), file(tree, files + 2)).unwrap();
    change("renamed file", &rename, &[gone(6), closed(files + 2)]);
    let back = |tree: &Followed| fs::rename(file(tree, 7), tree.directory.path().join("0/a.yaml")).unwrap();
    change("renamed to the front", &back, &[gone(7), ("0/a.yaml".to_owned(), LastEvent::Closed)]);
    costs
}

#[test]
fn a_change_of_a_file_costs_the_same_among_few_files_and_among_many() {
    let (few, many) = (costs(20), costs(200));
    assert_eq!(few, many);
    let cost = |looks, listed| Effort { walks: 0, looks, asked: 0, listed };
    // The list of problems has one file, and is made at each look; a file that is missing is looked for until it is gone, after a second.
    let expected = [
        ("edit", cost(1, 1)),
        ("a resource less", cost(1, 1)),
        ("a resource more", cost(1, 1)),
        ("a resource moves", cost(2, 1)),
        ("new file", cost(1, 1)),
        ("removed file", cost(0, 5)),
        ("renamed file", cost(1, 5)),
        ("renamed to the front", cost(1, 5)),
    ];
    assert_eq!(many, expected);
}

/// Of all the files, those alone are asked for their writers that others have opened since they were asked last.
#[test]
fn files_that_others_open_are_asked_for_their_writers_and_no_others() {
    let mut tree = Followed::new(20);
    let (wake, root) = (Arc::clone(&tree.wake), tree.directory.path().canonicalize().unwrap());
    // Those that this program opened to ask.
    let mut others = Vec::new();
    let limit = Instant::now() + Duration::from_secs(20);
    // A file that is written last: its event comes after those of all others.
    let opened = |mark: &str, others: &mut Vec<PathBuf>| {
        fs::write(root.join(mark), "# Nothing.\n").unwrap();
        while !others.contains(&root.join(mark)) {
            assert!(Instant::now() < limit, "{others:?}");
            others.extend(
                wake.take().opened.into_iter().filter(|(_, told)| told.is_opened).map(|(path, _)| path),
            );
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    opened("mark.yaml", &mut others);
    others.clear();
    tree.replace(2, &Followed::text(2, "old", 9));
    let spent = tree.until_settled(&[(Followed::name(2), LastEvent::Closed)]);
    assert!(spent.asked <= 1, "{spent:?}");
    opened("mark1.yaml", &mut others);
    assert!(others.len() <= 2, "the file that was read, and the mark: {others:?}");
    // Somebody opens one, and has not written yet.
    others.clear();
    let writer = fs::OpenOptions::new().append(true).open(root.join(Followed::name(7))).unwrap();
    opened("mark2.yaml", &mut others);
    assert!(others.contains(&root.join(Followed::name(7))), "{others:?}");
    tree.replace(3, &Followed::text(3, "old", 9));
    let paths = [(root.join(Followed::name(3)), LastEvent::Closed)].into();
    let mut noted = Noted { paths, ..Noted::default() };
    others.drain(..).for_each(|path| noted.note_opened(path));
    tree.scanner.spent();
    tree.scanner.scan(Scope::Noted, noted, tree.now);
    let changing: Vec<String> =
        tree.scanner.contents().changing.iter().map(|file| file.to_string()).collect();
    let held_open = tree.directory.path().join(Followed::name(7)).display().to_string();
    assert_eq!(changing, [held_open], "what is gone may be moving there");
    assert!(tree.scanner.spent().asked <= 4);
    drop(writer);
    // Where not all are told, all are asked.
    tree.until_settled(&[(Followed::name(7), LastEvent::Closed)]);
    tree.replace(4, &Followed::text(4, "old", 9));
    let paths = [(root.join(Followed::name(4)), LastEvent::Closed)].into();
    let noted = Noted { paths, has_lost_opened: true, ..Noted::default() };
    tree.scanner.scan(Scope::Noted, noted, tree.now);
    assert!(tree.scanner.spent().asked >= 20);
}
