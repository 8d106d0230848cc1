//! A configuration directory that an operator edits, breaks and mends at random, and what its text says.

use std::collections::{BTreeMap, BTreeSet};

use crate::schedules::Random;
use crate::stage::{Answer, Files};

/// Users, each with a rule.
pub(crate) const USERS: usize = 3;
/// Handlers and instances, which the rules share.
const PARTS: usize = 2;
/// Files at the beginning.
const FILES: usize = 3;

/// The state of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    Absent,
    Good(usize),
    Bad(usize, Mistake),
}

/// What is wrong with a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mistake {
    /// It can be read and does not compile or build; each kind has three such mistakes.
    Typo(usize),
    /// It is not YAML.
    Syntax,
    /// It has no kind.
    NoKind,
    /// Its kind is misspelt: whatever it should define is missing.
    UnknownKind,
    /// Its end is missing.
    CutOff,
}

impl Mistake {
    fn any(random: &mut Random) -> Self {
        match random.below(7) {
            number @ 0..=2 => Self::Typo(number),
            3 => Self::Syntax,
            4 => Self::NoKind,
            5 => Self::UnknownKind,
            _ => Self::CutOff,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Typo(_) => "typo",
            Self::Syntax | Self::NoKind => "invalid document",
            Self::UnknownKind => "misspelt kind",
            Self::CutOff => "half-written document",
        }
    }

    /// Whether what the document defines is unknown.
    fn hides(self) -> bool {
        !matches!(self, Self::Typo(_))
    }
}

/// One document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Name {
    Manifest,
    Handler(usize),
    Instance(usize),
    Rule(usize),
}

/// The text of a document. `alias` distinguishes the names that a rule has had.
fn text(name: Name, alias: usize, version: Version) -> Option<String> {
    let (number, mistake) = match version {
        Version::Absent => return None,
        Version::Good(number) => (number, None),
        Version::Bad(number, mistake) => (number, Some(mistake)),
    };
    let typo = match mistake {
        Some(Mistake::Typo(typo)) => Some(typo),
        _ => None,
    };
    let head = |kind: &str, name: String| {
        format!("kind: {kind}\nmetadata: {{name: {name}, namespace: istio-system}}\n")
    };
    let text = match name {
        Name::Manifest => {
            let more = if number.is_multiple_of(2) { "" } else { ", request.size: {valueType: INT64}" };
            let user = if typo.is_some() { "source.usr" } else { "source.user" };
            head("attributemanifest", "m".to_owned())
                + &format!("spec: {{attributes: {{{user}: {{valueType: STRING}}{more}}}}}\n")
        }
        Name::Handler(i) => {
            let params = match typo {
                Some(0) => "bogus: 1".to_owned(),
                // Found by the adapter when it is built.
                Some(_) => "cachingUseCount: -1".to_owned(),
                None => format!("blacklist: true, overrides: [u0, u1, u2], cachingUseCount: {}", 10 + number),
            };
            head("handler", format!("h{i}"))
                + &format!("spec: {{compiledAdapter: listchecker, params: {{{params}}}}}\n")
        }
        Name::Instance(i) => {
            let value = match typo {
                Some(0) => "sorce.user",
                Some(1) => "source.user ==",
                Some(_) => "1 == 2",
                None if number.is_multiple_of(2) => "source.user",
                None => "source.user | \"\"",
            };
            head("instance", format!("i{i}"))
                + &format!("spec: {{compiledTemplate: listentry, params: {{value: '{value}'}}}}\n")
        }
        Name::Rule(i) => {
            let handler = if typo == Some(0) { "h9".to_owned() } else { format!("h{}", number % PARTS) };
            let instance = if typo == Some(1) { "i9".to_owned() } else { format!("i{}", number / 2 % PARTS) };
            let condition = match typo {
                Some(2) => "sorce.user == \"x\"".to_owned(),
                _ if lets_pass(number) => format!("source.user == \"u{i}\" && false"),
                _ => format!("source.user == \"u{i}\""),
            };
            let name = if alias == 0 { format!("r{i}") } else { format!("r{i}-{alias}") };
            head("rule", name)
                + &format!(
                    "spec: {{match: '{condition}', actions: [{{handler: {handler}, instances: [{instance}]}}]}}\n"
                )
        }
    };
    Some(match mistake {
        Some(Mistake::Syntax) => text.replacen("spec: {", "spec: {{", 1),
        Some(Mistake::NoKind) => text.replacen("kind: ", "knd: ", 1),
        Some(Mistake::UnknownKind) => text.replacen("kind: ", "kind: x", 1),
        Some(Mistake::CutOff) => text.get(..text.len() * 2 / 3).unwrap_or("").to_owned(),
        Some(Mistake::Typo(_)) | None => text,
    })
}

/// Whether a version of a rule lets its user pass.
fn lets_pass(number: usize) -> bool {
    number % 4 == 3
}

/// What an event asks of the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Consequence {
    /// The store changes.
    Change,
    /// The server is stopped in order (`true`) or killed, and started.
    Restart(bool),
    /// The same, and the cache is lost.
    RestartWithoutCache(bool),
    /// The disk below the cache becomes full, or has room again.
    CacheDisk,
}

/// Documents in files.
#[derive(Debug, Clone)]
pub(crate) struct World {
    versions: BTreeMap<Name, Version>,
    aliases: [usize; USERS],
    /// The file of each document.
    files: BTreeMap<Name, usize>,
    unreadable: Option<usize>,
    /// A file that is being written.
    written: Option<usize>,
    /// The directory cannot be read.
    lost: bool,
    /// A file that is empty, as a writer leaves it whose disk is full.
    emptied: Option<usize>,
    /// A file whose separators are wrong: only its first document is read.
    joined: Option<usize>,
    /// Documents that are away since everything was removed; they come back with their files.
    away: BTreeSet<Name>,
    /// Whether what is away is expected back: the directory has not been quiet since.
    expects: bool,
    /// The rules of each file when it was read last, since the last restart.
    read: BTreeMap<usize, Vec<(usize, Version)>>,
}

impl World {
    pub(crate) fn new(random: &mut Random) -> Self {
        let parts = (0..PARTS).flat_map(|i| [Name::Handler(i), Name::Instance(i)]);
        let names = std::iter::once(Name::Manifest).chain(parts).chain((0..USERS).map(Name::Rule));
        let names: Vec<Name> = names.collect();
        let version = |name: &Name, random: &mut Random| match name {
            Name::Rule(_) => Version::Good(random.below(8)),
            _ => Version::Good(random.below(2)),
        };
        Self {
            versions: names.iter().map(|name| (*name, version(name, random))).collect(),
            aliases: [0; USERS],
            files: names.iter().map(|name| (*name, random.below(FILES))).collect(),
            unreadable: None,
            written: None,
            lost: false,
            emptied: None,
            joined: None,
            away: BTreeSet::new(),
            expects: false,
            read: BTreeMap::new(),
        }
    }

    /// What the directory has.
    pub(crate) fn files(&self) -> Files {
        let mut files = Files { lost: self.lost, ..Files::default() };
        for (name, version) in &self.versions {
            let alias = match name {
                Name::Rule(i) => self.aliases[*i],
                _ => 0,
            };
            let Some(text) = text(*name, alias, *version).filter(|_| !self.away.contains(name)) else {
                continue;
            };
            let file = self.file_of(*name);
            let known = files.texts.entry(format!("/conf/{file}.yaml")).or_default();
            if !known.is_empty() {
                // A document that is cut off has no newline.
                known.push_str(if known.ends_with('\n') { "" } else { "\n" });
                known.push_str(if self.joined == Some(file) { "--- \n" } else { "---\n" });
            }
            known.push_str(&text);
        }
        if let Some(file) = self.emptied {
            files.put(&format!("/conf/{file}.yaml"), "");
        }
        files.unreadable.extend(self.unreadable.map(|file| format!("/conf/{file}.yaml")));
        files.changing.extend(self.written.map(|file| format!("/conf/{file}.yaml")));
        files
    }

    /// One event: its name, and what it asks of the engine.
    pub(crate) fn event(&mut self, random: &mut Random) -> (&'static str, Consequence) {
        let names: Vec<Name> = self.versions.keys().copied().collect();
        let name = names[random.below(names.len())];
        let kind = match random.below(if self.away.is_empty() { 21 } else { 40 }) {
            20 if self.away.is_empty() => {
                self.away = self.versions.keys().copied().collect();
                (self.unreadable, self.written, self.lost) = (None, None, false);
                self.emptied = None;
                self.expects = true;
                "everything removed"
            }
            20.. => {
                let names: Vec<Name> = self.away.iter().copied().collect();
                let file = self.file_of(names[random.below(names.len())]);
                let files = self.files.clone();
                self.away.retain(|name| files.get(name).copied().unwrap_or(0) != file);
                "a file is back"
            }
            0..=2 => {
                self.versions.insert(name, Version::Good(random.below(8)));
                "edit"
            }
            3..=5 => self.spoil(name, random),
            6 => {
                self.versions.insert(name, Version::Absent);
                "deletion"
            }
            7 | 8 => self.cut_and_paste(name, random),
            9 => {
                let (from, to) = (random.below(FILES), FILES + 1 + random.below(3));
                self.files.values_mut().filter(|file| **file == from).for_each(|file| *file = to);
                "file renamed"
            }
            10 => {
                let user = random.below(USERS);
                self.aliases[user] = (self.aliases[user] + 1 + random.below(2)) % 3;
                match random.below(3) {
                    0 => drop(self.spoil(Name::Rule(user), random)),
                    1 => drop(self.cut_and_paste(Name::Rule(user), random)),
                    _ => {}
                }
                "rule renamed"
            }
            11 => {
                // The target of a link is another version of everything, as in a ConfigMap.
                for (name, version) in &mut self.versions {
                    let stays_deleted = matches!((name, *version), (Name::Rule(_), Version::Absent));
                    *version = if stays_deleted { *version } else { Version::Good(random.below(8)) };
                }
                "link swapped"
            }
            12 => {
                self.unreadable = self.unreadable.is_none().then(|| random.below(FILES));
                "permissions of a file"
            }
            13 => {
                self.lost = !self.lost;
                "directory away or back"
            }
            14 => {
                self.emptied = self.emptied.is_none().then(|| random.below(FILES));
                "file emptied or filled"
            }
            15 => {
                self.joined = self.joined.is_none().then(|| random.below(FILES));
                "separators broken or mended"
            }
            16 => {
                self.written = self.written.is_none().then(|| random.below(FILES));
                "writer comes or goes"
            }
            17 => return ("disk of the cache full or free", Consequence::CacheDisk),
            18 => return ("restart with the cache", Consequence::Restart(random.below(2) == 0)),
            _ => {
                return ("restart without the cache", Consequence::RestartWithoutCache(random.below(2) == 0));
            }
        };
        (kind, Consequence::Change)
    }

    fn spoil(&mut self, name: Name, random: &mut Random) -> &'static str {
        let mistake = Mistake::any(random);
        self.versions.insert(name, Version::Bad(random.below(8), mistake));
        mistake.name()
    }

    /// Moves a document to another file, sometimes with a mistake.
    fn cut_and_paste(&mut self, name: Name, random: &mut Random) -> &'static str {
        self.files.insert(name, random.below(FILES + 1));
        if random.below(3) == 0 {
            self.spoil(name, random);
        }
        "document moved"
    }

    /// Mends everything, which is what an operator does in the end.
    pub(crate) fn mend(&mut self, random: &mut Random) {
        for (name, version) in &mut self.versions {
            if !matches!((*name, *version), (Name::Rule(_), Version::Absent) | (_, Version::Good(_))) {
                *version = Version::Good(random.below(8));
            }
        }
        (self.unreadable, self.written, self.lost) = (None, None, false);
        (self.emptied, self.joined) = (None, None);
        self.away.clear();
    }

    /// Notes what the store reads; after a restart it knows nothing else.
    pub(crate) fn note_read(&mut self, is_restart: bool) {
        if is_restart {
            self.read.clear();
        }
        let files: BTreeSet<usize> = self.files.values().copied().chain(self.read.keys().copied()).collect();
        for file in files {
            if !self.is_readable(file) {
                continue;
            }
            let rules = (0..USERS).filter(|user| self.file_of(Name::Rule(*user)) == file);
            let rules = rules.map(|user| (user, self.version_of(Name::Rule(user))));
            let rules = rules
                .filter(|(user, version)| *version != Version::Absent && !self.is_joined(Name::Rule(*user)));
            let rules = rules.collect();
            self.read.insert(file, rules);
        }
    }

    /// The versions of a user's rule that were read last, one for each file that had it.
    fn read_of(&self, user: usize) -> impl Iterator<Item = Version> + '_ {
        let rules = self.read.values().flatten().filter(move |(of, _)| *of == user);
        rules.map(|(_, version)| *version)
    }

    /// What the text of a user's rule said when it was read last. It may have waited for a handler that came back since.
    pub(crate) fn said(&self, user: usize) -> impl Iterator<Item = Answer> + '_ {
        self.read_of(user).filter_map(Self::answer_of)
    }

    /// Whether everything was removed, and not all of it is back.
    pub(crate) fn is_refilled(&self) -> bool {
        !self.away.is_empty()
    }

    /// After a time in which nothing changed: what is away then counts as deleted, if anything is there.
    pub(crate) fn was_quiet(&mut self) {
        self.expects &= self.is_removed();
    }

    /// After a restart, which knows nothing of what was away unless everything is.
    pub(crate) fn was_restarted(&mut self) {
        self.expects &= self.is_removed();
    }

    /// Whether everything is away.
    fn is_removed(&self) -> bool {
        self.versions.keys().all(|name| self.away.contains(name))
    }

    fn file_of(&self, name: Name) -> usize {
        self.files.get(&name).copied().unwrap_or(0)
    }

    fn version_of(&self, name: Name) -> Version {
        let version = self.versions.get(&name).filter(|_| !self.away.contains(&name));
        version.copied().unwrap_or(Version::Absent)
    }

    /// The documents that the directory has.
    fn documents(&self) -> impl Iterator<Item = (Name, Version)> + '_ {
        let documents = self.versions.iter().map(|(name, version)| (*name, *version));
        documents.filter(|(name, version)| *version != Version::Absent && !self.away.contains(name))
    }

    /// Whether a document follows another in the file whose separators are wrong.
    fn is_joined(&self, name: Name) -> bool {
        let file = self.file_of(name);
        let first = self.documents().find(|(other, _)| self.file_of(*other) == file);
        self.joined == Some(file) && first.is_some_and(|(first, _)| first != name)
    }

    /// Whether the store reads a file now.
    fn is_readable(&self, file: usize) -> bool {
        !self.lost && ![self.unreadable, self.written, self.emptied].contains(&Some(file))
    }

    /// Whether the file of a document is read, and the document as one of its own.
    fn is_read(&self, name: Name) -> bool {
        self.is_readable(self.file_of(name)) && !self.is_joined(name)
    }

    /// Whether every file and document is read, with or without errors.
    fn is_whole(&self) -> bool {
        let hides = |version| matches!(version, Version::Bad(_, mistake) if mistake.hides());
        let are_read = self.documents().all(|(name, version)| self.is_read(name) && !hides(version));
        let any_hidden = [self.unreadable, self.written, self.emptied].iter().any(Option::is_some);
        are_read && !self.lost && !any_hidden
    }

    /// Whether everything is read, nothing has an error, and no rule lacks what it may name.
    pub(crate) fn is_valid(&self) -> bool {
        let complete = self.versions.iter().all(|(name, version)| match version {
            Version::Good(_) => true,
            Version::Absent => matches!(name, Name::Rule(_)),
            Version::Bad(..) => false,
        });
        complete && self.is_whole() && self.joined.is_none() && self.away.is_empty()
    }

    /// Whether the store has an error for certain, on which `--config-on-error refuse` changes nothing.
    pub(crate) fn is_refused(&self) -> bool {
        let is_error = |(name, version): (Name, Version)| match version {
            Version::Bad(_, mistake) if mistake.hides() => self.is_read(name),
            // A handler or a manifest that nothing needs has no error.
            Version::Bad(_, Mistake::Typo(_)) => self.is_read(name) && matches!(name, Name::Rule(_)),
            Version::Bad(..) => false,
            Version::Absent | Version::Good(_) => false,
        };
        // A file that is being written keeps what was read of it before it was emptied.
        let is_emptied = self.emptied.is_some() && self.emptied != self.written;
        let is_missing = self.lost || self.unreadable.is_some() || is_emptied;
        is_missing || self.documents().any(is_error)
    }

    /// What the text says about a user as far as it can be read: the text of the user's rule, or that there is none.
    /// `None` if the rule has an error, or if it is missing while not everything is read.
    pub(crate) fn says(&self, user: usize) -> Option<Answer> {
        let name = Name::Rule(user);
        match self.version_of(name) {
            Version::Good(number) if self.is_read(name) => Some(Self::answer(number)),
            Version::Absent if self.is_whole() && !self.expects => Some(Answer::Allowed),
            Version::Good(_) | Version::Absent | Version::Bad(..) => None,
        }
    }

    /// What a first configuration answers: it has nothing but what was read. Nothing if that rule has an error.
    pub(crate) fn says_at_first(&self, user: usize) -> Vec<Answer> {
        let versions: Vec<Version> = self.read_of(user).collect();
        match versions[..] {
            [] => vec![Answer::Allowed],
            _ => versions.into_iter().filter_map(Self::answer_of).collect(),
        }
    }

    /// Whether a user has no rule.
    pub(crate) fn is_deleted(&self, user: usize) -> bool {
        self.version_of(Name::Rule(user)) == Version::Absent
    }

    /// Whether the rule of a user is away, while others are there.
    pub(crate) fn is_away(&self, user: usize) -> bool {
        self.away.contains(&Name::Rule(user)) && !self.is_removed()
    }

    /// The same, and it is expected back.
    pub(crate) fn is_expected(&self, user: usize) -> bool {
        self.expects && self.is_away(user)
    }

    fn answer_of(version: Version) -> Option<Answer> {
        match version {
            Version::Good(number) => Some(Self::answer(number)),
            Version::Absent | Version::Bad(..) => None,
        }
    }

    fn answer(number: usize) -> Answer {
        if lets_pass(number) { Answer::Allowed } else { Answer::Denied }
    }
}
