//! Why nothing serves.

use std::sync::Arc;

use mixer_config::store::refill::no_configuration;
use mixer_config::{Diagnostic, FieldPath};

/// The diagnostic of a configuration that is not served.
pub(super) const WITHHELD: &str = "config-withheld";

/// That a store has nothing. What is probably meant comes first: the flag opens everything.
pub(super) fn empty() -> String {
    no_configuration("--config-store-url", "if every call is to be allowed, --allow-empty-config serves it")
}

/// The same of a store of the objects that a server has.
pub(super) const EMPTY_SERVER: &str = "the store has no configuration: what --config-store-url names has no resource of a kind of this server in the \
                                       collections or namespaces that are read; only if every call is to be allowed, --allow-empty-config \
                                       serves it";

/// Why nothing serves.
#[derive(Debug)]
pub(super) struct Withheld {
    /// One line, with position and cure if they are known.
    pub(super) why: String,
    /// The error that has to be mended first.
    pub(super) problem: Option<Arc<Diagnostic>>,
}

impl Withheld {
    /// Because of an error.
    pub(super) fn by(problem: &Arc<Diagnostic>) -> Self {
        Self { why: problem.brief(), problem: Some(Arc::clone(problem)) }
    }

    /// Because of the error that comes first in the files.
    pub(super) fn by_first<'p>(problems: impl Iterator<Item = &'p Arc<Diagnostic>>) -> Option<Self> {
        let place = |problem: &&Arc<Diagnostic>| (problem.file.clone(), problem.span.map(|span| span.start));
        problems.min_by_key(place).map(Self::by)
    }

    /// The diagnostic, at the position of the error.
    pub(super) fn diagnostic(&self) -> Diagnostic {
        let message = format!("no configuration is served: {}", self.why);
        let mut diagnostic = Diagnostic::error(WITHHELD, FieldPath::root(), message)
            .with_hint("calls are answered with UNAVAILABLE until it is mended");
        if let Some(problem) = &self.problem {
            diagnostic.resource.clone_from(&problem.resource);
            diagnostic.file.clone_from(&problem.file);
            diagnostic.span = problem.span;
        }
        diagnostic
    }
}
