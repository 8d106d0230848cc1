//! What one build remembers for the next.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::core::attribute::{ValueType, Vocabulary};
use crate::core::config::{Diagnostic, Origin, RawResource};
use crate::core::expr::{self, CompileError, Language, Phase, Program};

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
    known: [FxHashMap<Box<str>, Compiled>; 3],
}

impl Programs {
    pub(super) fn new(vocabulary: Arc<Vocabulary>) -> Self {
        Self { vocabulary, known: Default::default() }
    }

    /// Compiles `text`, or finds the program that is there.
    pub(super) fn compile(&mut self, language: Language, text: &str) -> Compiled {
        let [cexl, cel, compat] = &mut self.known;
        let known = match language {
            Language::Cexl => cexl,
            Language::Cel => cel,
            Language::Compat => compat,
        };
        if let Some(found) = known.get(text) {
            return found.clone();
        }
        let vocabulary = &*self.vocabulary;
        let compiled = match expr::compile(language, text, vocabulary) {
            Ok(program) => Ok(Arc::new(program)),
            Err(compile) => {
                let check = expr::type_check(language, text, vocabulary).err();
                Err(Arc::new(Refusal { check, compile }))
            }
        };
        known.insert(text.into(), compiled.clone());
        compiled
    }

    /// Forgets programs that nobody uses any more.
    pub(super) fn sweep(&mut self) {
        for known in &mut self.known {
            known.retain(|_, compiled| compiled.as_ref().is_ok_and(|program| Arc::strong_count(program) > 1));
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
    /// The problems of that.
    pub(super) problems: Vec<Diagnostic>,
    /// Why the latest does not convert.
    pub(super) refused: Vec<Diagnostic>,
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
                    problems,
                    refused: Vec::new(),
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
            Some(old) => (old.in_force, Some((old.state, old.problems))),
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
        (Self { latest: resource.clone(), in_force, state, problems, refused }, change)
    }

    /// All problems, placed in their files.
    pub(super) fn diagnostics(&self) -> impl Iterator<Item = Diagnostic> + '_ {
        let place = |origin: &Origin, diagnostic: &Diagnostic| {
            let mut diagnostic = diagnostic.clone();
            diagnostic.file = Some(origin.file.clone());
            diagnostic.span = diagnostic.span.map(|span| origin.in_file(span));
            diagnostic
        };
        let current =
            self.in_force.iter().flat_map(move |r| self.problems.iter().map(move |d| place(&r.origin, d)));
        current.chain(self.refused.iter().map(move |d| place(&self.latest.origin, d)))
    }
}
