//! Configuration stores.
//!
//! A [`ConfigStore`] holds raw resources by key and signals changes. Backends: a directory of files, the
//! embedded sample, memory, and a [`Feed`] of objects that another crate gets from a server. [`open`] returns the backend for a
//! URL; [`read_sources`] reads paths and URLs once, for tools.
//! Stores parse documents and extract their identity; they never decode by kind. A store is a versioned watch: who reads never
//! changes what the next reader sees, and no lock is held across I/O.
//! See docs/configuration.md.

mod contents;
mod document;
mod feed;
mod fs;
mod memory;
mod parallel;
pub mod refill;
mod sources;
mod url;

use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use mixer_base::load::LoadId;

pub use contents::{Broken, StoreContents, Unread};
use document::{FILE_BEING_WRITTEN, FILE_EMPTY, FileContents, read_file};
pub use document::{
    ReadObject, SourceObject, is_field_of_spec, read_document, read_document_as, read_object,
    unreadable_object,
};
pub use feed::{Feed, FeedDraft, FeedStore, MAX_OBJECT_BYTES, object_size};
use fs::FsStore;
pub use fs::WhenLost;
pub use memory::MemoryStore;
pub use sources::{SourceError, configuration_files, read_sources};
pub use url::{EMBEDDED_SAMPLE, OVER_NETWORK, StoreError, open, open_with};

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

    /// Waits until the contents were read once, for whoever serves them: a directory that is being filled is waited for, for a short time. Cancel safe.
    fn loaded(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(std::future::ready(()))
    }

    /// Waits until the first read has taken too long, as on a file system that hangs: [`contents`](Self::contents) and
    /// [`availability`](Self::availability) say so from then on, and [`changed`](Self::changed) tells when it ends. Never completes after a
    /// read, nor of a store of which a start is to wait for the contents. Cancel safe.
    fn overdue(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(std::future::pending())
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

    /// [`rescan`](Self::rescan), and waits until it is done, but for a second at most: whatever had changed before is counted by
    /// [`version`](Self::version) and [`awaits_change`](Self::awaits_change) then. Cancel safe.
    fn looked(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(std::future::ready(()))
    }

    /// The number of the contents that [`changed`](Self::changed) tells of; always 0 of a store that does not count them.
    fn version(&self) -> u64 {
        0
    }

    /// Whether it has seen changes that the contents do not have yet: files that are being written, or are gone and may come back, and
    /// events that were not looked at.
    fn awaits_change(&self) -> bool {
        false
    }

    /// When something last happened to it, whether or not a resource changed; `None` of a store of which the versions tell.
    fn touched(&self) -> Option<Instant> {
        None
    }

    /// Whether the last read succeeded, and a read in progress is not overdue. Errors: why not.
    fn availability(&self) -> Result<(), Outage> {
        let why = self.contents().unavailable.clone();
        why.map_or(Ok(()), |why| Err(Outage { why, keeps_last: false }))
    }

    /// Where the contents come from and what has arrived, of a store that a server feeds; `None` of any other.
    fn source(&self) -> Option<SourceStatus> {
        None
    }

    /// Whether [`changed`](Self::changed) would return at once. Cost: a lock.
    fn has_changed(&self) -> bool {
        false
    }
}

/// How the files of a store are read. The default is that of Istio Mixer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reading {
    /// What divides a file into documents.
    pub separator: Separator,
    /// What identifies a document.
    pub identity: IdentityRule,
    /// Maximum size of all files in bytes, if it is not that of a policy server.
    pub max_bytes: Option<u64>,
    /// Whether files are read on request alone, and not when they change.
    pub on_request: bool,
    /// Whether the thread that reads has the weight of all others. A server answers calls first; in a process that distributes
    /// configuration nothing is more urgent than to read it.
    pub is_urgent: bool,
    /// Where it is told how far it is.
    pub load: LoadId,
}

/// What divides a file into documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Separator {
    /// Exactly `---` between two line feeds.
    #[default]
    Exact,
    /// A line of `---` and white space.
    Line,
}

/// What identifies a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IdentityRule {
    /// Kind, namespace and name, all of which it must have.
    #[default]
    Complete,
    /// Kind, namespace and name, any of which may be empty.
    Kind,
    /// The same, where the kind is that of its group: `KIND.GROUP`.
    GroupAndKind,
}

/// Why a store cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outage {
    /// One line: the error of the system.
    pub why: String,
    /// Whether the contents of the last read that succeeded stay in effect.
    pub keeps_last: bool,
}

/// A server that feeds a store, for operators.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SourceStatus {
    /// The other end, `HOST:PORT`; empty while there is none.
    pub peer: String,
    /// Since when its changes are followed without interruption; `None` while they are not.
    pub connected_since: Option<Instant>,
    /// When something arrived last.
    pub last_message: Option<Instant>,
    /// How often it was connected.
    pub connections: u64,
    /// The last change that was refused, and why.
    pub last_refusal: Option<String>,
    /// What it has, by name.
    pub collections: Vec<CollectionStatus>,
}

/// A collection, or a kind, of a [`SourceStatus`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CollectionStatus {
    /// For example `istio/policy/v1beta1/rules` or `rules.config.istio.io`.
    pub name: Arc<str>,
    /// The version up to which it is known; empty if it has none.
    pub version: Arc<str>,
    /// Number of objects, those that cannot be read included.
    pub objects: usize,
    /// Number of objects that cannot be read.
    pub broken: usize,
    /// Whether it was received once.
    pub is_synced: bool,
    /// Why it is unknown what it has now: its last change was refused, or it cannot be followed.
    pub trouble: Option<Arc<str>>,
    /// When it arrived last.
    pub last_message: Option<Instant>,
}

/// A store of the files at or below a path, read in any way.
pub fn open_path(
    path: impl Into<std::path::PathBuf>,
    lost: WhenLost,
    reading: Reading,
) -> Box<dyn ConfigStore> {
    let path = path.into();
    Box::new(FsStore::reading(&format!("fs://{}", path.display()), path, lost, reading))
}

/// The files of the embedded sample configuration: name and text.
static SAMPLE: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/sample.rs"));
