//! Where configuration comes from.
//!
//! A [`ConfigStore`] holds raw resources by key and says when they change. Backends: a directory of files, the embedded sample,
//! memory. This room parses documents and finds their identity; it never decodes by kind.
//! Spec: runtime.md section 3.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::core::config::{Diagnostics, RawResource, ResourceKey};

/// The state of a store at one moment.
#[derive(Debug, Clone, Default)]
pub struct StoreContents {
    /// All resources.
    pub resources: BTreeMap<ResourceKey, Arc<RawResource>>,
    /// Files and documents that could not be read, duplicates, and the like.
    pub diagnostics: Diagnostics,
    /// Why the store itself is not available, if it is not: the text of the readiness probe.
    pub unavailable: Option<String>,
}

/// A source of configuration.
pub trait ConfigStore: Send + Sync + 'static {
    /// The URL that it was opened with.
    fn url(&self) -> &str;

    /// Everything it holds now. May read files.
    fn contents(&self) -> Arc<StoreContents>;

    /// Waits until [`contents`](Self::contents) may differ from what was last returned, with changes that come close together
    /// as one. No polling at rest.
    fn changed(&self) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}
