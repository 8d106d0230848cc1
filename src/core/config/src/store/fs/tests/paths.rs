//! Scans of the files that events name find what walks of the whole tree find, whatever happens to files.
//!
//! Random schedules of files that are written, renamed, removed, emptied, broken, held open and closed, in two directories, which a scanner that
//! walks and one that reads what events name look at, at the same times. `MIXER_SCHEDULES` sets the number of schedules, `MIXER_SEED` the first one.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::path::PathBuf;

use super::super::watch::LastEvent;
use super::*;

const FILES: [&str; 5] = ["a.yaml", "b.yaml", "1/c.yaml", "1/d.yaml", "e.yaml"];
const RULES: [&str; 5] = ["p", "q", "r", "s", "t"];

/// Numbers that follow from a seed (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % end as u64).unwrap()
    }
}

struct Run {
    directory: tempfile::TempDir,
    told: Scanner,
    walking: Scanner,
    now: Instant,
    random: Random,
    /// With the events that the system tells: this test tells its own.
    wakes: [Arc<Wake>; 2],
    /// Files that are held open for writing.
    held_open: BTreeMap<&'static str, File>,
    /// What happened since the last look.
    noted: Noted,
    log: Vec<String>,
}

impl Run {
    fn new(seed: u64) -> Self {
        let directory = tempfile::tempdir().unwrap();
        write(directory.path(), "z.yaml", &resource("z", "stays"));
        write(directory.path(), "1/z.yaml", &resource("y", "stays"));
        let [mut told, mut walking] = [(); 2].map(|()| Scanner::new(directory.path().into(), WhenLost::Keep));
        let now = Instant::now();
        let wakes = [(); 2].map(|()| Arc::new(Wake::default()));
        told.watch(&wakes[0]);
        walking.watch(&wakes[1]);
        for _ in 0..2 {
            told.scan(Scope::Everything, Noted::default(), now);
        }
        assert_eq!(told.coverage().0, Coverage::Full);
        told.spent();
        let random = Random(seed);
        let (held_open, noted, log) = (BTreeMap::new(), Noted::default(), Vec::new());
        let mut run = Self { directory, told, walking, now, random, wakes, held_open, noted, log };
        run.walking.scan(Scope::Everything, Noted::default(), now);
        run
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn note(&mut self, name: &str, event: LastEvent) {
        let path = self.directory.path().canonicalize().unwrap().join(name);
        let known = self.noted.paths.entry(path).or_insert(event);
        if event != LastEvent::Other {
            *known = event;
        }
    }

    fn any(&mut self) -> &'static str {
        FILES[self.random.below(FILES.len())]
    }

    /// Some rules, each at most once.
    fn text(&mut self) -> String {
        let value = self.random.below(1000).to_string();
        let mut rules: Vec<String> =
            RULES.iter().filter(|_| self.random.below(6) == 0).map(|name| resource(name, &value)).collect();
        match self.random.below(12) {
            0 => rules.push("kind: [".to_owned()),
            1 => rules.clear(),
            _ => {}
        }
        rules.join("\n---\n")
    }

    /// Something happens to a file.
    fn happen(&mut self) {
        let name = self.any();
        if self.held_open.contains_key(name) {
            return;
        }
        match self.random.below(10) {
            0..=4 => {
                let text = self.text();
                let aside = self.path(".next");
                fs::write(&aside, &text).unwrap();
                fs::rename(aside, self.path(name)).unwrap();
                self.note(name, LastEvent::Closed);
                self.log.push(format!("{name}: {text:?}"));
            }
            5 | 6 if self.path(name).exists() => {
                fs::remove_file(self.path(name)).unwrap();
                self.note(name, LastEvent::Other);
                self.log.push(format!("{name} is removed"));
            }
            7 | 8 if self.path(name).exists() => {
                let to = self.any();
                if to != name && !self.held_open.contains_key(to) {
                    fs::rename(self.path(name), self.path(to)).unwrap();
                    self.note(name, LastEvent::Other);
                    self.note(to, LastEvent::Closed);
                    self.log.push(format!("{name} becomes {to}"));
                }
            }
            9 if self.path(name).exists() => {
                let file = OpenOptions::new().append(true).open(self.path(name)).unwrap();
                // A walk looks at it as well, because it was written lately.
                self.note(name, LastEvent::Other);
                self.held_open.insert(name, file);
                self.log.push(format!("{name} is opened"));
            }
            _ => {}
        }
    }

    fn close(&mut self) {
        while let Some((name, file)) = self.held_open.pop_first() {
            drop(file);
            self.note(name, LastEvent::Closed);
            self.log.push(format!("{name} is closed"));
        }
    }

    fn look(&mut self) {
        let noted = std::mem::take(&mut self.noted);
        // Both have to know of what came and is gone again.
        let same = Noted { paths: noted.paths.clone(), ..Noted::default() };
        for (scanner, wake) in [&mut self.told, &mut self.walking].into_iter().zip(&self.wakes) {
            forget_events(scanner, wake);
        }
        self.told.scan(Scope::Noted, noted, self.now);
        self.walking.scan(Scope::Everything, same, self.now);
        let shown = |scanner: &Scanner| {
            let contents = scanner.contents();
            let one = |resource: &Arc<crate::RawResource>| {
                (resource.key.to_string(), resource.origin.text.to_string(), resource.origin.file.to_string())
            };
            let resources: Vec<_> = contents.resources.iter().map(one).collect();
            let StoreContents { broken, changing, diagnostics, files, documents, unavailable, .. } =
                &**contents;
            format!(
                "{resources:#?}\n{broken:?}\n{changing:?}\n{diagnostics:?}\n{files} {documents} {unavailable:?}"
            )
        };
        let (told, walked) = (shown(&self.told), shown(&self.walking));
        assert!(told == walked, "told: {told}\nwalked: {walked}\nafter {:#?}", self.log);
    }
}

#[test]
fn what_events_tell_is_what_walks_find() {
    let number = |name: &str, default: u64| {
        std::env::var(name).ok().map_or(default, |text| text.parse().expect("a number"))
    };
    let (count, first) = (number("MIXER_SCHEDULES", 60), number("MIXER_SEED", 0));
    let (mut looks, mut walks) = (0, 0);
    for seed in first..first + count {
        let mut run = Run::new(seed);
        for _ in 0..25 {
            for _ in 0..run.random.below(3) {
                run.happen();
            }
            if run.random.below(4) == 0 {
                run.close();
            }
            run.now += Duration::from_millis(run.random.below(600) as u64);
            run.log.push(format!("look, seed {seed}"));
            run.look();
            looks += 1;
        }
        walks += run.told.spent().walks;
    }
    // A rule that two files define is a matter of walks.
    assert!(walks * 3 < looks * 2, "{walks} walks in {looks} looks");
}
