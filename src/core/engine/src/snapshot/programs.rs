//! Compiled expressions, kept from one build to the next.

use std::hash::BuildHasher as _;
use std::sync::Arc;

use hashbrown::HashTable;
use rustc_hash::{FxBuildHasher, FxHashMap};

use mixer_attribute::{ValueType, Vocabulary};
use mixer_expr::{CompileError, Language, Phase, Program};

/// Why an expression does not compile.
#[derive(Debug)]
pub(super) struct Refusal {
    /// Error of the type checker; `None` if only the compiler refuses the text.
    pub(super) check: Option<CompileError>,
    /// Error of the compiler.
    pub(super) compile: CompileError,
}

impl Refusal {
    /// The error to report first.
    pub(super) fn error(&self) -> &CompileError {
        self.check.as_ref().unwrap_or(&self.compile)
    }
}

type Compiled = Result<Arc<Program>, Arc<Refusal>>;

/// All programs over one vocabulary, each compiled once.
#[derive(Debug)]
pub(super) struct Programs {
    pub(super) vocabulary: Arc<Vocabulary>,
    /// By language and text.
    known: HashTable<Arc<Program>>,
    refused: FxHashMap<(Language, Box<str>), Arc<Refusal>>,
    /// Whether a text was refused because others use the budget of patterns, since [`take_over_budget`](Self::take_over_budget).
    over_budget: bool,
    /// Number of programs after the last sweep.
    swept: usize,
}

/// Fewest programs worth sweeping.
const MIN_SWEEP: usize = 256;

fn program_hash(language: Language, text: &str) -> u64 {
    FxBuildHasher.hash_one((language, text))
}

impl Programs {
    pub(super) fn new(vocabulary: Arc<Vocabulary>) -> Self {
        Self {
            vocabulary,
            known: HashTable::new(),
            refused: FxHashMap::default(),
            over_budget: false,
            swept: 0,
        }
    }

    /// Compiles `text`, or returns the known program or refusal.
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
        let vocabulary = Arc::clone(&self.vocabulary);
        let vocabulary = &*vocabulary;
        let mut compiled = mixer_expr::compile(language, text, vocabulary);
        if matches!(&compiled, Err(error) if error.over_budget) && self.drop_unused() {
            compiled = mixer_expr::compile(language, text, vocabulary);
        }
        match compiled {
            Ok(program) => {
                let program = Arc::new(program);
                let rehash = |known: &Arc<Program>| program_hash(known.language(), known.text());
                self.known.insert_unique(hash, program.clone(), rehash);
                Ok(program)
            }
            Err(compile) => {
                let check = mixer_expr::type_check(language, text, vocabulary).err();
                let over_budget = compile.over_budget;
                let refusal = Arc::new(Refusal { check, compile });
                // Another time there may be room.
                if over_budget {
                    self.over_budget = true;
                } else {
                    self.refused.insert((language, text.into()), refusal.clone());
                }
                Err(refusal)
            }
        }
    }

    /// Drops unused programs, once they may be as many as the used ones.
    pub(super) fn sweep(&mut self) {
        if self.known.len() + self.refused.len() > 2 * self.swept.max(MIN_SWEEP) {
            self.drop_unused();
            self.refused.clear();
            self.swept = self.known.len();
        }
    }

    /// Drops unused programs; whether there were any.
    fn drop_unused(&mut self) -> bool {
        let before = self.known.len();
        self.known.retain(|program| Arc::strong_count(program) > 1);
        self.known.len() < before
    }

    /// Whether a text was refused since the last call because others use the budget of patterns.
    pub(super) fn take_over_budget(&mut self) -> bool {
        std::mem::take(&mut self.over_budget)
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
