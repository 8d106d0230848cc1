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

use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

pub use contents::{Broken, StoreContents, Unread};
use document::{FILE_BEING_WRITTEN, FILE_EMPTY, FileContents, read_file};
pub use document::{is_field_of_spec, read_document};
use fs::FsStore;
pub use fs::WhenLost;
pub use memory::MemoryStore;
pub use sources::{SourceError, read_sources};
pub use url::{EMBEDDED_SAMPLE, StoreError, open, open_with};

/// A source of configuration.
pub trait ConfigStore: Send + Sync + 'static {
    /// The URL of the store.
    fn url(&self) -> &str;

    /// The contents as last read; empty and unavailable before the first read. Never waits for I/O.
    fn contents(&self) -> Arc<StoreContents>;

    /// The contents, for tools: waits on this thread until they were read once.
    fn load(&self) -> Arc<StoreContents> {
        self.contents()
    }

    /// Waits until the contents were read once. Cancel safe.
    fn loaded(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(std::future::ready(()))
    }

    /// Tells the files of which an earlier process had its configuration, before the contents are read: what stands in the place of their
    /// directories now cannot be read, and deleted nothing.
    fn expect(&self, files: &[&Path]) {
        let _ = files;
    }

    /// Waits until there are other contents than when it last returned. Changes in quick succession are one change. For one
    /// user at a time. Cancel safe.
    fn changed(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;

    /// Checks for changes now instead of waiting for a notification; [`changed`](Self::changed) reports them.
    fn rescan(&self) {}

    /// Whether the last read succeeded, and a read in progress is not overdue. Errors: why not.
    fn availability(&self) -> Result<(), Outage> {
        let why = self.contents().unavailable.clone();
        why.map_or(Ok(()), |why| Err(Outage { why, keeps_last: false }))
    }

    /// Whether [`changed`](Self::changed) would return at once. Cost: a lock.
    fn has_changed(&self) -> bool {
        false
    }
}

/// Why a store cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outage {
    /// One line: the error of the system.
    pub why: String,
    /// Whether the contents of the last read that succeeded stay in effect.
    pub keeps_last: bool,
}

/// The files of the embedded sample configuration: name and text.
static SAMPLE: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/sample.rs"));
