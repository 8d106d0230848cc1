//! Configuration stores.
//!
//! A [`ConfigStore`] holds raw resources by key and signals changes. Backends: a directory of files, the
//! embedded sample, memory. [`open`] returns the backend for a URL; [`read_sources`] reads paths and URLs once, for tools.
//! Stores parse documents and extract their identity; they never decode by kind.
//! See docs/configuration.md.

mod contents;
mod document;
mod fs;
mod memory;
mod parallel;
mod sources;
mod url;

use std::pin::Pin;
use std::sync::Arc;

pub use contents::StoreContents;
use document::{FileContents, read_file};
use fs::FsStore;
pub use fs::WhenLost;
pub use memory::MemoryStore;
pub use sources::{SourceError, read_sources};
pub use url::{EMBEDDED_SAMPLE, StoreError, open, open_with};

/// A source of configuration.
pub trait ConfigStore: Send + Sync + 'static {
    /// The URL of the store.
    fn url(&self) -> &str;

    /// The current contents. The first call may read files.
    fn contents(&self) -> Arc<StoreContents>;

    /// Waits until [`contents`](Self::contents) differs from what it last returned. Changes in quick succession are one change.
    /// Cancel safe.
    fn changed(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;

    /// Checks for changes now instead of waiting for a notification; [`changed`](Self::changed) reports them.
    fn rescan(&self) {}
}

/// The files of the embedded sample configuration: name and text.
static SAMPLE: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/sample.rs"));
