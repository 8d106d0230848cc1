//! Resources with their build results, kept from one build to the next.

use std::collections::BTreeSet;
use std::hash::BuildHasher as _;
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::HashTable;

use super::text_budget::{self, Class, Place, TextCounts, TextIndex};
use mixer_config::{Diagnostic, Origin, RawResource, ResourceKey, Severity};

/// The result of building a resource.
pub(super) enum Built<T> {
    /// It converts, with these problems.
    Done(T, Vec<Diagnostic>),
    /// It does not convert.
    Unconvertible(Vec<Diagnostic>),
    /// It does not convert, and this applies as long as no version is in force.
    Substituted(T, Vec<Diagnostic>),
}

/// A resource and its build result.
///
/// Problems have spans that count lines from the start of their document.
#[derive(Debug)]
pub(super) struct Unit<T> {
    /// The resource as it is now.
    pub(super) latest: Arc<RawResource>,
    /// The resource that is in force: the latest that converts.
    pub(super) in_force: Option<Arc<RawResource>>,
    /// The build result of that resource, or what applies without one.
    pub(super) state: Option<T>,
    problems: Option<Box<UnitProblems>>,
}

/// The problems of a resource.
#[derive(Debug)]
struct UnitProblems {
    /// Problems of the version that is in force.
    in_force: Vec<Diagnostic>,
    /// Why the latest does not convert.
    refused: Vec<Diagnostic>,
}

impl UnitProblems {
    fn of(in_force: Vec<Diagnostic>, refused: Vec<Diagnostic>) -> Option<Box<Self>> {
        let any = !in_force.is_empty() || !refused.is_empty();
        any.then(|| Box::new(Self { in_force, refused }))
    }

    fn counts(&self) -> TextCounts {
        TextCounts::of(self.in_force.iter().chain(&self.refused))
    }

    /// Takes the texts of some problems, those of the version in force first; returns their number.
    fn abridge(&mut self, class: Class, excess: usize) -> usize {
        let taken = text_budget::abridge(&mut self.in_force, class, excess);
        taken + text_budget::abridge(&mut self.refused, class, excess.saturating_sub(taken))
    }
}

/// How an update changed a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UnitChange {
    /// Unchanged.
    None,
    /// Equal, at another position.
    Moved,
    /// Changed.
    Changed,
}

/// A resource whose latest version does not convert, so that the one before is in force.
#[derive(Debug)]
pub(crate) struct KeptUnit {
    /// The version in force.
    pub(crate) in_force: Arc<RawResource>,
    /// Why the latest does not convert.
    pub(crate) problem: Diagnostic,
}

/// A build result that records the position of its resource.
pub(super) trait Located {
    /// Updates the position.
    fn relocate(&mut self, origin: &Origin);
}

/// A problem of a resource, with its position in the file.
fn placed(origin: &Origin, problem: &Diagnostic) -> Diagnostic {
    let span = problem.span.map(|span| origin.in_file(span));
    Diagnostic { file: Some(Arc::clone(&origin.file)), span, ..problem.clone() }
}

impl<T> Unit<T> {
    fn place(&self) -> Place {
        Place::of(&self.latest.key, &self.latest.origin)
    }
}

impl<T: Located> Unit<T> {
    /// Updates a unit. `usable`: nothing that the old state depends on has changed.
    pub(super) fn update(
        old: Option<Self>,
        resource: &Arc<RawResource>,
        usable: bool,
        mut build: impl FnMut(&RawResource) -> Built<T>,
    ) -> (Self, UnitChange) {
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
                    problems: UnitProblems::of(problems, Vec::new()),
                };
                (unit, UnitChange::Changed)
            }
            Built::Unconvertible(refused) => Self::refuse(old, resource, usable, (refused, None), build),
            Built::Substituted(substitute, refused) => {
                Self::refuse(old, resource, usable, (refused, Some(substitute)), build)
            }
        }
    }

    fn keep(mut self, resource: &Arc<RawResource>) -> (Self, UnitChange) {
        let moved = !self.latest.origin.is_at(&resource.origin);
        let current = self.in_force.as_ref().is_some_and(|r| r.revision == resource.revision);
        self.latest = resource.clone();
        if current {
            self.in_force = Some(resource.clone());
        }
        if moved && current {
            if let Some(state) = &mut self.state {
                state.relocate(&resource.origin);
            }
            return (self, UnitChange::Moved);
        }
        (self, UnitChange::None)
    }

    /// The latest version does not convert: the version in force before stays, else the substitute applies.
    fn refuse(
        old: Option<Self>,
        resource: &Arc<RawResource>,
        usable: bool,
        (refused, substitute): (Vec<Diagnostic>, Option<T>),
        mut build: impl FnMut(&RawResource) -> Built<T>,
    ) -> (Self, UnitChange) {
        let (in_force, kept) = match old {
            Some(old) => {
                (old.in_force, Some((old.state, old.problems.map_or_else(Vec::new, |p| p.in_force))))
            }
            None => (None, None),
        };
        let mut change = UnitChange::None;
        let (state, problems) = match (&in_force, kept) {
            (Some(_), Some(kept)) if usable => kept,
            (Some(good), _) => {
                change = UnitChange::Changed;
                match build(good) {
                    Built::Done(state, problems) => (Some(state), problems),
                    Built::Unconvertible(problems) => (None, problems),
                    Built::Substituted(state, problems) => (Some(state), problems),
                }
            }
            (None, _) => {
                change = UnitChange::Changed;
                (substitute, Vec::new())
            }
        };
        (
            Self { latest: resource.clone(), in_force, state, problems: UnitProblems::of(problems, refused) },
            change,
        )
    }

    /// The unit with no more texts of problems than what is left of those of a build, for kinds of which there are few.
    pub(super) fn bounded(mut self) -> Self {
        if let Some(problems) = &mut self.problems {
            text_budget::bound(&mut problems.in_force);
            text_budget::bound(&mut problems.refused);
        }
        self
    }

    /// The version in force, if it is not the latest, and why that does not convert.
    pub(super) fn kept(&self) -> Option<KeptUnit> {
        let in_force = self.in_force.as_ref().filter(|good| good.revision != self.latest.revision)?;
        let refused = self.problems.iter().flat_map(|problems| &problems.refused);
        let problem = refused.into_iter().find(|problem| problem.severity == Severity::Error)?;
        Some(KeptUnit { in_force: Arc::clone(in_force), problem: placed(&self.latest.origin, problem) })
    }

    /// All problems, with positions in their files.
    pub(super) fn diagnostics(&self) -> impl Iterator<Item = Diagnostic> + '_ {
        let problems = self.problems.iter();
        problems.flat_map(move |problems| {
            let current = self.in_force.iter();
            let current =
                current.flat_map(move |r| problems.in_force.iter().map(move |d| placed(&r.origin, d)));
            current.chain(problems.refused.iter().map(move |d| placed(&self.latest.origin, d)))
        })
    }
}

/// All units of a kind, by the key of their resource.
#[derive(Debug)]
pub(super) struct Units<T> {
    table: HashTable<Unit<T>>,
    /// Seeded: files choose the keys.
    hasher: RandomState,
    /// Keys of units with problems.
    problematic: BTreeSet<ResourceKey>,
    /// Those of them that have texts.
    texts: TextIndex,
}

impl<T> Default for Units<T> {
    fn default() -> Self {
        Self {
            table: HashTable::new(),
            hasher: RandomState::default(),
            problematic: BTreeSet::new(),
            texts: TextIndex::default(),
        }
    }
}

impl<T> Units<T> {
    /// The unit of a resource.
    pub(super) fn get(&self, key: &ResourceKey) -> Option<&Unit<T>> {
        self.table.find(self.hasher.hash_one(key), |unit| unit.latest.key == *key)
    }

    /// The build result of a resource.
    pub(super) fn state(&self, key: &ResourceKey) -> Option<&T> {
        self.get(key)?.state.as_ref()
    }

    /// All units, unordered.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Unit<T>> {
        self.table.iter()
    }

    /// Reserves room for `more` units.
    pub(super) fn reserve(&mut self, more: usize) {
        self.table.reserve(more, |unit| self.hasher.hash_one(&unit.latest.key));
    }

    /// Removes the unit of a resource; true if there was one.
    pub(super) fn remove(&mut self, key: &ResourceKey) -> bool {
        self.take(key).is_some()
    }

    fn take(&mut self, key: &ResourceKey) -> Option<Unit<T>> {
        let found = self.table.find_entry(self.hasher.hash_one(key), |unit| unit.latest.key == *key).ok()?;
        let unit = found.remove().0;
        if let Some(problems) = &unit.problems {
            self.problematic.remove(key);
            self.texts.remove(&unit.place(), problems.counts());
        }
        Some(unit)
    }
}

impl<T: Located> Units<T> {
    /// Updates the unit of a resource; see [`Unit::update`].
    pub(super) fn update(
        &mut self,
        resource: &Arc<RawResource>,
        usable: bool,
        build: impl FnMut(&RawResource) -> Built<T>,
    ) -> UnitChange {
        let (unit, change) = Unit::update(self.take(&resource.key), resource, usable, build);
        if let Some(problems) = &unit.problems {
            self.problematic.insert(resource.key.clone());
            self.texts.add(&unit.place(), problems.counts());
        }
        let hash = |key: &ResourceKey| self.hasher.hash_one(key);
        self.table.insert_unique(hash(&resource.key), unit, |unit| hash(&unit.latest.key));
        for class in Class::ALL {
            let most = TextCounts::MOST.get(class);
            while self.texts.counts().get(class) > most {
                let excess = self.texts.counts().get(class) - most;
                if self.abridge_last(class, excess) == 0 {
                    break;
                }
            }
        }
        change
    }

    /// The units whose latest version is not in force.
    pub(super) fn kept(&self) -> impl Iterator<Item = KeptUnit> {
        self.problematic.iter().filter_map(|key| self.get(key)?.kept())
    }

    /// The problems of all units, with the keys of their resources.
    pub(super) fn problems(&self) -> impl Iterator<Item = (&ResourceKey, Diagnostic)> {
        let units = self.problematic.iter().filter_map(|key| Some((key, self.get(key)?)));
        units.flat_map(|(key, unit)| unit.diagnostics().map(move |problem| (key, problem)))
    }
}

/// Units with problems that have texts.
pub(super) trait WithTexts {
    /// Those of them that have texts.
    fn texts(&self) -> &TextIndex;

    /// Takes up to `excess` texts of a class from the last unit that has some; returns their number.
    fn abridge_last(&mut self, class: Class, excess: usize) -> usize;
}

impl<T> WithTexts for Units<T> {
    fn texts(&self) -> &TextIndex {
        &self.texts
    }

    fn abridge_last(&mut self, class: Class, excess: usize) -> usize {
        let Some(place) = self.texts.last(class).cloned() else { return 0 };
        let hash = self.hasher.hash_one(&place.key);
        let unit = self.table.find_mut(hash, |unit| unit.latest.key == place.key);
        let Some(problems) = unit.and_then(|unit| unit.problems.as_mut()) else { return 0 };
        self.texts.remove(&place, problems.counts());
        let taken = problems.abridge(class, excess);
        self.texts.add(&place, problems.counts());
        taken
    }
}
