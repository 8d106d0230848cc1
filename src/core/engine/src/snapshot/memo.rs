//! What one build remembers for the next.

use std::collections::BTreeSet;
use std::hash::BuildHasher as _;
use std::sync::Arc;

use hashbrown::HashTable;
use rustc_hash::{FxBuildHasher, FxHashMap};

use mixer_attribute::{ValueType, Vocabulary};
use mixer_config::{Diagnostic, Origin, RawResource, ResourceKey};
use mixer_expr::{CompileError, Language, Phase, Program};

/// Why a text is no program.
#[derive(Debug)]
pub(super) struct Refusal {
    /// What the type checker of validation says; `None` if it accepts the text and only the compiler does not.
    pub(super) check: Option<CompileError>,
    /// What the compiler says.
    pub(super) compile: CompileError,
}

impl Refusal {
    /// The error that users hear first.
    pub(super) fn error(&self) -> &CompileError {
        self.check.as_ref().unwrap_or(&self.compile)
    }
}

type Compiled = Result<Arc<Program>, Arc<Refusal>>;

/// Every program of a vocabulary, compiled once.
#[derive(Debug)]
pub(super) struct Programs {
    pub(super) vocabulary: Arc<Vocabulary>,
    /// By language and text.
    known: HashTable<Arc<Program>>,
    refused: FxHashMap<(Language, Box<str>), Arc<Refusal>>,
    /// How many were left when those without users were last forgotten.
    swept: usize,
}

/// Fewest programs that are worth a look for those without users.
const WORTH_SWEEPING: usize = 256;

fn program_hash(language: Language, text: &str) -> u64 {
    FxBuildHasher.hash_one((language, text))
}

impl Programs {
    pub(super) fn new(vocabulary: Arc<Vocabulary>) -> Self {
        Self { vocabulary, known: HashTable::new(), refused: FxHashMap::default(), swept: 0 }
    }

    /// Compiles `text`, or finds the program that is there.
    pub(super) fn compile(&mut self, language: Language, text: &str) -> Compiled {
        let hash = program_hash(language, text);
        let same = |known: &Arc<Program>| known.language() == language && known.text() == text;
        if let Some(found) = self.known.find(hash, same) {
            return Ok(found.clone());
        }
        if !self.refused.is_empty()
            && let Some(found) = self.refused.get(&(language, text.into()))
        {
            return Err(found.clone());
        }
        let vocabulary = &*self.vocabulary;
        match mixer_expr::compile(language, text, vocabulary) {
            Ok(program) => {
                let program = Arc::new(program);
                let rehash = |known: &Arc<Program>| program_hash(known.language(), known.text());
                self.known.insert_unique(hash, program.clone(), rehash);
                Ok(program)
            }
            Err(compile) => {
                let check = mixer_expr::type_check(language, text, vocabulary).err();
                let refusal = Arc::new(Refusal { check, compile });
                self.refused.insert((language, text.into()), refusal.clone());
                Err(refusal)
            }
        }
    }

    /// Forgets programs that nobody uses any more, once there may be as many of them as of the others.
    pub(super) fn sweep(&mut self) {
        if self.known.len() + self.refused.len() > 2 * self.swept.max(WORTH_SWEEPING) {
            self.known.retain(|program| Arc::strong_count(program) > 1);
            self.refused.clear();
            self.swept = self.known.len();
        }
    }
}

/// The stable code of a refused expression.
pub(super) fn refusal_code(error: &CompileError) -> &'static str {
    match error.phase {
        _ if error.unknown_attribute.is_some() => "attribute-unknown",
        Phase::Parse => "expression-parse",
        Phase::Compile => "expression-compile",
        Phase::Type | Phase::Static => "expression-type",
    }
}

/// The text of a type in an error.
pub(super) fn type_name(value_type: ValueType) -> &'static str {
    value_type.name()
}

/// What became of a resource.
pub(super) enum Built<T> {
    /// It converts; the problems found in it.
    Done(T, Vec<Diagnostic>),
    /// It does not convert.
    Unconvertible(Vec<Diagnostic>),
}

/// A resource and what became of it.
///
/// Problems have spans that count lines from the start of their document.
#[derive(Debug)]
pub(super) struct Unit<T> {
    /// The resource as it is now.
    pub(super) latest: Arc<RawResource>,
    /// The resource that is in force: the latest that converts.
    pub(super) in_force: Option<Arc<RawResource>>,
    /// What became of that.
    pub(super) state: Option<T>,
    /// What is wrong, if anything is.
    problems: Option<Box<Problems>>,
}

/// What is wrong with a resource.
#[derive(Debug)]
struct Problems {
    /// With the version that is in force.
    in_force: Vec<Diagnostic>,
    /// Why the latest does not convert.
    refused: Vec<Diagnostic>,
}

impl Problems {
    fn of(in_force: Vec<Diagnostic>, refused: Vec<Diagnostic>) -> Option<Box<Self>> {
        let any = !in_force.is_empty() || !refused.is_empty();
        any.then(|| Box::new(Self { in_force, refused }))
    }
}

/// How a unit came out of an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// As before.
    None,
    /// The same, at another place.
    Moved,
    /// Another one.
    Changed,
}

/// A state that knows where its resource stands.
pub(super) trait Located {
    /// Notes that the resource stands elsewhere now.
    fn relocate(&mut self, origin: &Origin);
}

fn same_place(a: &Origin, b: &Origin) -> bool {
    a.first_line == b.first_line && (Arc::ptr_eq(&a.file, &b.file) || a.file == b.file)
}

impl<T: Located> Unit<T> {
    /// Brings a unit up to date. `usable`: everything that the old state depends on is as it was.
    pub(super) fn update(
        old: Option<Self>,
        resource: &Arc<RawResource>,
        usable: bool,
        mut build: impl FnMut(&RawResource) -> Built<T>,
    ) -> (Self, Change) {
        let old = match old {
            Some(old) if usable && old.latest.revision == resource.revision => return old.keep(resource),
            old => old,
        };
        match build(resource) {
            Built::Done(state, problems) => {
                let unit = Self {
                    latest: resource.clone(),
                    in_force: Some(resource.clone()),
                    state: Some(state),
                    problems: Problems::of(problems, Vec::new()),
                };
                (unit, Change::Changed)
            }
            Built::Unconvertible(refused) => Self::refuse(old, resource, usable, refused, build),
        }
    }

    fn keep(mut self, resource: &Arc<RawResource>) -> (Self, Change) {
        let moved = !same_place(&self.latest.origin, &resource.origin);
        let current = self.in_force.as_ref().is_some_and(|r| r.revision == resource.revision);
        self.latest = resource.clone();
        if current {
            self.in_force = Some(resource.clone());
        }
        if moved && current {
            if let Some(state) = &mut self.state {
                state.relocate(&resource.origin);
            }
            return (self, Change::Moved);
        }
        (self, Change::None)
    }

    /// The latest does not convert: what was in force before stays.
    fn refuse(
        old: Option<Self>,
        resource: &Arc<RawResource>,
        usable: bool,
        refused: Vec<Diagnostic>,
        mut build: impl FnMut(&RawResource) -> Built<T>,
    ) -> (Self, Change) {
        let (in_force, kept) = match old {
            Some(old) => {
                (old.in_force, Some((old.state, old.problems.map_or_else(Vec::new, |p| p.in_force))))
            }
            None => (None, None),
        };
        let mut change = Change::None;
        let (state, problems) = match (&in_force, kept) {
            (Some(_), Some(kept)) if usable => kept,
            (Some(good), _) => {
                change = Change::Changed;
                match build(good) {
                    Built::Done(state, problems) => (Some(state), problems),
                    Built::Unconvertible(problems) => (None, problems),
                }
            }
            (None, _) => (None, Vec::new()),
        };
        (
            Self { latest: resource.clone(), in_force, state, problems: Problems::of(problems, refused) },
            change,
        )
    }

    /// All problems, placed in their files.
    pub(super) fn diagnostics(&self) -> impl Iterator<Item = Diagnostic> + '_ {
        let place = |origin: &Origin, diagnostic: &Diagnostic| {
            let mut diagnostic = diagnostic.clone();
            diagnostic.file = Some(origin.file.clone());
            diagnostic.span = diagnostic.span.map(|span| origin.in_file(span));
            diagnostic
        };
        let problems = self.problems.iter();
        problems.flat_map(move |problems| {
            let current = self.in_force.iter();
            let current =
                current.flat_map(move |r| problems.in_force.iter().map(move |d| place(&r.origin, d)));
            current.chain(problems.refused.iter().map(move |d| place(&self.latest.origin, d)))
        })
    }
}

/// All units of a kind, by the key of their resource.
#[derive(Debug)]
pub(super) struct Units<T> {
    table: HashTable<Unit<T>>,
    /// Those with problems.
    troubled: BTreeSet<ResourceKey>,
}

impl<T> Default for Units<T> {
    fn default() -> Self {
        Self { table: HashTable::new(), troubled: BTreeSet::new() }
    }
}

fn key_hash(key: &ResourceKey) -> u64 {
    FxBuildHasher.hash_one(key)
}

impl<T> Units<T> {
    /// The unit of a resource.
    pub(super) fn get(&self, key: &ResourceKey) -> Option<&Unit<T>> {
        self.table.find(key_hash(key), |unit| unit.latest.key == *key)
    }

    /// What became of a resource.
    pub(super) fn state(&self, key: &ResourceKey) -> Option<&T> {
        self.get(key)?.state.as_ref()
    }

    /// All of them, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Unit<T>> {
        self.table.iter()
    }

    /// Makes room for so many more.
    pub(super) fn reserve(&mut self, more: usize) {
        self.table.reserve(more, |unit| key_hash(&unit.latest.key));
    }

    /// Forgets the unit of a resource; true if there was one.
    pub(super) fn remove(&mut self, key: &ResourceKey) -> bool {
        self.take(key).is_some()
    }

    fn take(&mut self, key: &ResourceKey) -> Option<Unit<T>> {
        let found = self.table.find_entry(key_hash(key), |unit| unit.latest.key == *key).ok()?;
        let unit = found.remove().0;
        if unit.problems.is_some() {
            self.troubled.remove(key);
        }
        Some(unit)
    }
}

impl<T: Located> Units<T> {
    /// Brings the unit of a resource up to date; see [`Unit::update`].
    pub(super) fn update(
        &mut self,
        resource: &Arc<RawResource>,
        usable: bool,
        build: impl FnMut(&RawResource) -> Built<T>,
    ) -> Change {
        let (unit, change) = Unit::update(self.take(&resource.key), resource, usable, build);
        if unit.problems.is_some() {
            self.troubled.insert(resource.key.clone());
        }
        self.table.insert_unique(key_hash(&resource.key), unit, |unit| key_hash(&unit.latest.key));
        change
    }

    /// The problems of all of them, with the keys of their resources.
    pub(super) fn problems(&self) -> impl Iterator<Item = (&ResourceKey, Diagnostic)> {
        let troubled = self.troubled.iter().filter_map(|key| Some((key, self.get(key)?)));
        troubled.flat_map(|(key, unit)| unit.diagnostics().map(move |problem| (key, problem)))
    }
}
