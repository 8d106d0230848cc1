//! Compiled expressions, kept from one build to the next.

use std::hash::BuildHasher as _;
use std::sync::Arc;

use foldhash::HashMap;
use foldhash::fast::RandomState;
use hashbrown::HashTable;

use super::external::OutputScope;
use super::pattern_shares::PatternShares;
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
    /// Seeded: files choose the texts.
    hasher: RandomState,
    refused: HashMap<(Language, Box<str>), Arc<Refusal>>,
    /// What units use of the patterns.
    pub(super) shares: PatternShares,
    /// Number of programs after the last sweep.
    swept: usize,
}

/// Fewest programs worth sweeping.
const MIN_SWEEP: usize = 256;
/// Most refusals that are known. A build of very many different texts that do not compile forgets them, and checks again what it meets again.
const MAX_REFUSED: usize = 4_096;

impl Programs {
    pub(super) fn new(vocabulary: Arc<Vocabulary>) -> Self {
        Self {
            vocabulary,
            known: HashTable::new(),
            hasher: RandomState::default(),
            refused: HashMap::default(),
            shares: PatternShares::default(),
            swept: 0,
        }
    }

    /// Compiles `text`, or returns the known program or refusal.
    pub(super) fn compile(&mut self, language: Language, text: &str) -> Compiled {
        let program = self.find_or_compile(language, text)?;
        self.share(program)
    }

    /// The program, unless its patterns do not fit beside those of other units.
    fn share(&mut self, program: Arc<Program>) -> Compiled {
        let patterns = program.patterns();
        match patterns.is_empty() || self.shares.take(&patterns) {
            true => Ok(program),
            false => Err(Arc::new(Refusal { check: None, compile: program.over_budget() })),
        }
    }

    fn find_or_compile(&mut self, language: Language, text: &str) -> Compiled {
        let hash = self.hasher.hash_one((language, text));
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
                let rehash = |known: &Arc<Program>| self.hasher.hash_one((known.language(), known.text()));
                self.known.insert_unique(hash, program.clone(), rehash);
                Ok(program)
            }
            Err(compile) => {
                let check = mixer_expr::type_check(language, text, vocabulary).err();
                let over_budget = compile.over_budget;
                let refusal = Arc::new(Refusal { check, compile });
                // Another time there may be room.
                if over_budget {
                    self.shares.refuse();
                } else {
                    if self.refused.len() >= MAX_REFUSED {
                        self.refused.clear();
                    }
                    self.refused.insert((language, text.into()), refusal.clone());
                }
                Err(refusal)
            }
        }
    }

    /// Compiles `text` over other attributes than those of the vocabulary. Unlike [`compile`](Self::compile), it keeps nothing.
    pub(super) fn compile_with(
        &mut self,
        language: Language,
        text: &str,
        scope: &OutputScope<'_>,
    ) -> Compiled {
        if !scope.is_named_in(text) {
            return self.compile(language, text);
        }
        let mut compiled = mixer_expr::compile(language, text, scope);
        if matches!(&compiled, Err(error) if error.over_budget) && self.drop_unused() {
            compiled = mixer_expr::compile(language, text, scope);
        }
        match compiled {
            Ok(program) => self.share(Arc::new(program)),
            Err(compile) => {
                if compile.over_budget {
                    self.shares.refuse();
                }
                let check = mixer_expr::type_check(language, text, scope).err();
                Err(Arc::new(Refusal { check, compile }))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_an_unseeded_hash_maps_to_one_value_are_compiled_like_others() {
        // Expressions for which rustc-hash computes the same hash; comparing each with all before takes minutes.
        const TEXTS: usize = 30_000;
        let mut programs = Programs::new(Arc::new(Vocabulary::builder().build()));
        for _ in 0..2 {
            for number in 0..TEXTS {
                let text = format!("eqfjvlkkeiwpesbs0123456789abcdefizF99KtF{number:08}");
                assert!(programs.compile(Language::Cexl, &text).is_err(), "an unknown attribute");
            }
        }
        assert_eq!(programs.refused.len(), TEXTS);
    }
}
