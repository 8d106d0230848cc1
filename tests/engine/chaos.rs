//! Random schedules of edits, mistakes, deletions, renames, unreadable files and restarts, over a virtual clock.
//!
//! No call that the last good configuration denied is allowed, and none that it allowed fails. After every event, the answer to each
//! user is either what it was or what the current text of the user's rule says, if that can be read; when everything is valid, it is
//! what the text says. `MIXER_SCHEDULES` sets the number of schedules, `MIXER_SEED` the first seed.

use std::collections::BTreeMap;

use mixer_engine::runtime::OnConfigError;

use crate::stage::{Answer, Files, Stage};

/// Schedules without `MIXER_SCHEDULES`: about a second.
const SCHEDULES: u64 = 150;
/// Events of a schedule.
const EVENTS: usize = 12;
/// Users, each with a rule.
const USERS: usize = 3;
/// Handlers and instances, which the rules share.
const PARTS: usize = 2;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ mixed >> 31) % end as u64) as usize
    }
}

/// The state of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    Absent,
    Good(usize),
    /// Parses and has an error, or cannot be read.
    Bad(usize),
}

/// One document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Name {
    Manifest,
    Handler(usize),
    Instance(usize),
    Rule(usize),
}

const BAD: usize = 6;

fn text(name: Name, version: Version) -> Option<String> {
    let (number, bad) = match version {
        Version::Absent => return None,
        Version::Good(number) => (number, None),
        Version::Bad(number) => (number, Some(number % BAD)),
    };
    let head = |kind: &str, name: &str| {
        format!("kind: {kind}\nmetadata: {{name: {name}, namespace: istio-system}}\n")
    };
    let text = match name {
        Name::Manifest => {
            let more = if number.is_multiple_of(2) { "" } else { ", request.size: {valueType: INT64}" };
            let user = if bad.is_some_and(|bad| bad < 3) { "source.usr" } else { "source.user" };
            head("attributemanifest", "m")
                + &format!("spec: {{attributes: {{{user}: {{valueType: STRING}}{more}}}}}\n")
        }
        Name::Handler(i) => {
            // The last kind of mistake is one that the adapter finds when it is built.
            let params = match bad {
                Some(0) => "bogus: 1".to_owned(),
                Some(1 | 2) => "cachingUseCount: -1".to_owned(),
                _ => format!("blacklist: true, overrides: [u0, u1, u2], cachingUseCount: {}", 10 + number),
            };
            head("handler", &format!("h{i}"))
                + &format!("spec: {{compiledAdapter: listchecker, params: {{{params}}}}}\n")
        }
        Name::Instance(i) => {
            let value = match bad {
                Some(0) => "sorce.user",
                Some(1) => "source.user ==",
                Some(2) => "1 == 2",
                _ => "source.user",
            };
            let value = if number.is_multiple_of(2) || bad.is_some() {
                value.to_owned()
            } else {
                format!("{value} | \"\"")
            };
            head("instance", &format!("i{i}"))
                + &format!("spec: {{compiledTemplate: listentry, params: {{value: '{value}'}}}}\n")
        }
        Name::Rule(i) => {
            let handler = if bad == Some(0) { "h9".to_owned() } else { format!("h{}", number % PARTS) };
            let instance = if bad == Some(1) { "i9".to_owned() } else { format!("i{}", number / 2 % PARTS) };
            let condition = match bad {
                Some(2) => "sorce.user == \"x\"".to_owned(),
                // Every fourth version lets its user pass.
                _ if number % 4 == 3 => format!("source.user == \"u{i}\" && false"),
                _ => format!("source.user == \"u{i}\""),
            };
            head("rule", &format!("r{i}"))
                + &format!(
                    "spec: {{match: '{condition}', actions: [{{handler: {handler}, instances: [{instance}]}}]}}\n"
                )
        }
    };
    Some(match bad {
        Some(3) => text.replacen("spec: {", "spec: {{", 1),
        Some(4) => text.replacen("kind: ", "knd: ", 1),
        Some(5) => text.get(..text.len() * 2 / 3).unwrap_or("").to_owned(),
        _ => text,
    })
}

/// Documents in files.
#[derive(Clone)]
struct World {
    versions: BTreeMap<Name, Version>,
    /// The file of each document.
    files: BTreeMap<Name, usize>,
    unreadable: Option<usize>,
    lost: bool,
    emptied: Option<usize>,
    joined: Option<usize>,
}

const FILES: usize = 3;

impl World {
    fn new(random: &mut Random) -> Self {
        let parts = (0..PARTS).flat_map(|i| [Name::Handler(i), Name::Instance(i)]);
        let names = std::iter::once(Name::Manifest).chain(parts).chain((0..USERS).map(Name::Rule));
        let names: Vec<Name> = names.collect();
        let version = |name: &Name, random: &mut Random| match name {
            Name::Rule(_) => Version::Good(random.below(8)),
            _ => Version::Good(random.below(2)),
        };
        Self {
            versions: names.iter().map(|name| (*name, version(name, random))).collect(),
            files: names.iter().map(|name| (*name, random.below(FILES))).collect(),
            unreadable: None,
            lost: false,
            emptied: None,
            joined: None,
        }
    }

    fn files(&self) -> Files {
        let mut files = Files { lost: self.lost, ..Files::default() };
        for (name, version) in &self.versions {
            let Some(text) = text(*name, *version) else { continue };
            let file = self.files.get(name).copied().unwrap_or(0);
            let known = files.texts.entry(format!("/conf/{file}.yaml")).or_default();
            if !known.is_empty() {
                // Truncated text has no newline. A blank after the separator joins two documents, of which the second is ignored.
                known.push_str(if known.ends_with('\n') { "" } else { "\n" });
                known.push_str(if self.joined == Some(file) { "--- \n" } else { "---\n" });
            }
            known.push_str(&text);
        }
        if let Some(file) = self.emptied {
            files.put(&format!("/conf/{file}.yaml"), "");
        }
        files.unreadable.extend(self.unreadable.map(|file| format!("/conf/{file}.yaml")));
        files
    }

    /// One event; true for a restart.
    fn event(&mut self, random: &mut Random) -> bool {
        let names: Vec<Name> = self.versions.keys().copied().collect();
        let name = names[random.below(names.len())];
        match random.below(12) {
            0..=2 => drop(self.versions.insert(name, Version::Good(random.below(8)))),
            3..=5 => drop(self.versions.insert(name, Version::Bad(random.below(24)))),
            6 => drop(self.versions.insert(name, Version::Absent)),
            // Moved to another file. A move into an emptied or joined one is a deletion as far as anybody can tell.
            7 => {
                let to = random.below(FILES + 1);
                if ![self.emptied, self.joined].contains(&Some(to)) {
                    self.files.insert(name, to);
                }
            }
            8 => {
                // A file is renamed.
                let (from, to) = (random.below(FILES), FILES + 1 + random.below(3));
                self.files.values_mut().filter(|file| **file == from).for_each(|file| *file = to);
            }
            9 => self.unreadable = (self.unreadable.is_none()).then(|| random.below(FILES)),
            10 => {
                let file = random.below(FILES);
                match random.below(3) {
                    0 => self.lost = !self.lost,
                    1 => self.emptied = self.emptied.is_none().then_some(file),
                    _ => self.joined = self.joined.is_none().then_some(file),
                }
            }
            _ => return true,
        }
        false
    }

    /// Mends everything, which is what an operator does in the end.
    fn mend(&mut self, random: &mut Random) {
        for (name, version) in &mut self.versions {
            if !matches!((*name, *version), (Name::Rule(_), Version::Absent) | (_, Version::Good(_))) {
                *version = Version::Good(random.below(8));
            }
        }
        (self.unreadable, self.lost, self.emptied, self.joined) = (None, false, None, None);
    }

    fn is_valid(&self) -> bool {
        let complete = self.versions.iter().all(|(name, version)| match version {
            Version::Good(_) => true,
            Version::Absent => matches!(name, Name::Rule(_)),
            Version::Bad(_) => false,
        });
        complete && self.unreadable.is_none() && !self.lost && self.emptied.is_none() && self.joined.is_none()
    }

    /// What the current text of a user's rule says; `None` if it has an error or its file is not read.
    fn wanted(&self, user: usize) -> Option<Answer> {
        let name = Name::Rule(user);
        let file = self.files.get(&name).copied();
        let hidden =
            self.lost || (file.is_some() && [self.unreadable, self.emptied, self.joined].contains(&file));
        match self.versions.get(&name) {
            _ if hidden => None,
            Some(Version::Good(number)) if number % 4 == 3 => Some(Answer::Allowed),
            Some(Version::Good(_)) => Some(Answer::Denied),
            Some(Version::Absent) | None => Some(Answer::Allowed),
            Some(Version::Bad(_)) => None,
        }
    }
}

fn run(seed: u64, policy: OnConfigError, uses_cache: bool) {
    let mut random = Random(seed);
    let mut world = World::new(&mut random);
    let mut stage = Stage::new(policy, uses_cache);
    stage.start(&world.files());
    let ask =
        |stage: &Stage| -> Vec<Answer> { (0..USERS).map(|user| stage.check(&format!("u{user}"))).collect() };
    let mut before = ask(&stage);
    for step in 0..EVENTS {
        stage.advance(1 + random.below(1000) as u64);
        let restarted = world.event(&mut random);
        if step + 1 == EVENTS {
            world.mend(&mut random);
        }
        let files = world.files();
        if restarted {
            stage.start(&files);
        } else {
            stage.change(&files);
        }
        let after = ask(&stage);
        let place = format!(
            "seed {seed}, step {step}, {policy:?}, cache {uses_cache}: {:?}\n{:#?}",
            world.versions, files
        );
        let serves = !after.contains(&Answer::Unavailable);
        assert!(!after.contains(&Answer::Failed), "a call fails: {after:?}\n{place}");
        assert!(serves || after.iter().all(|answer| *answer == Answer::Unavailable), "{after:?}\n{place}");
        let had_good = !before.contains(&Answer::Unavailable) && (!restarted || uses_cache);
        if had_good {
            assert!(
                serves,
                "the last good configuration is not served: {:?}\n{place}",
                stage.published().withheld
            );
        }
        for user in 0..USERS {
            let wanted = world.wanted(user);
            if world.is_valid() {
                assert_eq!(
                    Some(after[user]),
                    wanted,
                    "u{user}, all valid\n{place}\n{:?}",
                    stage.published().diagnostics
                );
            } else if serves && had_good {
                let allowed = after[user] == before[user] || Some(after[user]) == wanted;
                assert!(
                    allowed,
                    "u{user}: {:?} -> {:?}, wanted {wanted:?}\n{place}\nkept: {:#?}",
                    before[user],
                    after[user],
                    stage.kept()
                );
            } else if serves {
                // A first configuration serves only what is written; what cannot be known might deny. An empty file has nothing.
                let file = world.files.get(&Name::Rule(user)).copied();
                let is_empty = world.emptied.is_some() && file == world.emptied && !world.lost;
                let wanted = if is_empty { Some(Answer::Allowed) } else { wanted };
                assert_eq!(Some(after[user]), wanted, "u{user}, first\n{place}");
            }
        }
        before = after;
    }
}

#[test]
fn no_schedule_of_mistakes_opens_a_door_or_closes_one() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let (schedules, first) =
        (number("MIXER_SCHEDULES").unwrap_or(SCHEDULES), number("MIXER_SEED").unwrap_or(0));
    let threads = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                for seed in (first..first + schedules).filter(|seed| seed % threads == thread) {
                    let policy = if seed % 5 == 4 { OnConfigError::Refuse } else { OnConfigError::KeepLast };
                    run(seed, policy, seed % 3 != 0);
                }
            });
        }
    });
}
