//! Where configuration comes from.
//!
//! A [`ConfigStore`] holds raw resources by key and says when they change. Backends: a directory of files ([`FsStore`]), the
//! embedded sample, memory. [`open`] finds the backend for a URL; [`read_sources`] reads paths and URLs once, for tools. This
//! room parses documents and finds their identity; it never decodes by kind.
//! Spec: runtime.md section 3.

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
pub use document::{FileContents, read_file};
pub use fs::{FsStore, WhenLost};
pub use memory::MemoryStore;
pub use sources::{SourceError, read_sources};
pub use url::{EMBEDDED_SAMPLE, StoreError, open, open_with};

/// A source of configuration.
pub trait ConfigStore: Send + Sync + 'static {
    /// The URL that it was opened with.
    fn url(&self) -> &str;

    /// Everything it holds now. May read files.
    fn contents(&self) -> Arc<StoreContents>;

    /// Waits until [`contents`](Self::contents) differs from what it last returned, with changes that come close together as
    /// one. No polling at rest. Dropping the future loses nothing.
    fn changed(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;

    /// Looks for changes now, without waiting for word of them; [`changed`](Self::changed) tells what it finds.
    fn rescan(&self) {}
}

/// The files of the sample configuration that the binary carries: name and text.
pub static SAMPLE: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/sample.rs"));
