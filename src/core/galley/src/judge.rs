//! What of a document whoever is served does not see in the resource that is made of it.
//!
//! The wire has neither null nor empty values: `match:` without a value arrives as a rule without `match`, which applies to every request.
//! Who reads the files itself refuses that document. So that a sink that gets it from here does nothing else, a pipeline asks a
//! [`Judge`] about every resource that decides about requests. The crate that runs the pipeline hands it in, since only the policy engine
//! knows what it refuses.

use mixer_config::Diagnostic;
use mixer_mcp::Resource;
use mixer_schema::Kind;

/// Knows the errors of documents.
pub trait Judge: std::fmt::Debug + Send + Sync {
    /// The errors of a document with this `spec` that the resource, which was made of it, no longer has; with field paths from the root of
    /// the document, without file and position. Empty for a kind that the judge does not know.
    fn unseen(&self, kind: &'static Kind, resource: &Resource, spec: &mixer_config::Node) -> Vec<Diagnostic>;
}
