//! What keeps the files that were published last for the next start.
//!
//! A start beside a directory that is broken, empty or missing publishes what an earlier process published. Where that is kept is the
//! matter of the crate that runs the pipeline, which hands a [`Keeper`] in.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use mixer_base::shared_map::SharedMap;
use mixer_config::RawResource;

/// The documents of files, by key.
pub type Documents = SharedMap<Arc<RawResource>>;

/// What an earlier process published.
#[derive(Debug, Clone)]
pub struct Earlier {
    /// Its documents.
    pub documents: Documents,
    /// When it was written, for operators.
    pub written: String,
}

/// Keeps what is published for the next start.
pub trait Keeper: std::fmt::Debug + Send + Sync {
    /// What an earlier process published; `None` if nothing of it can be used.
    ///
    /// Errors: what is kept is of another directory, for which nothing may be published, because a setting may be the mistake.
    fn load(&self) -> BoxFuture<'_, Result<Option<Earlier>, String>>;

    /// Keeps what is about to be published. Returns when it is kept, or cannot be, after a few seconds at the latest.
    fn keep(&self, documents: Documents) -> BoxFuture<'_, ()>;
}
