//! What sources tell the pipeline.

use std::sync::Arc;

use mixer_base::shared_map::Keyed;
use mixer_mcp::Resource;

use crate::object::Object;

/// A resource of a source.
#[derive(Debug, Clone)]
pub struct Entry {
    /// As sinks see it. Its version is opaque, and never that of other content under the same name.
    pub resource: Arc<Resource>,
    /// What transformers read of it; `None` if none reads this kind.
    pub object: Option<Arc<Object>>,
}

impl Entry {
    /// An entry that no transformer reads.
    pub fn of(resource: Resource) -> Self {
        Self { resource: Arc::new(resource), object: None }
    }
}

impl Keyed for Entry {
    type Key = str;

    fn key(&self) -> &str {
        &self.resource.name
    }
}

/// One change of a collection of a source.
#[derive(Debug, Clone)]
pub struct Event {
    /// The collection, by the name under which sinks see its kind.
    pub collection: &'static str,
    /// What happened.
    pub change: Change,
}

/// What happened to a collection of a source.
#[derive(Debug, Clone)]
pub enum Change {
    /// A resource was added or updated.
    Put(Entry),
    /// The resource with this full name was deleted.
    Delete(Box<str>),
    /// Everything that the source has of the collection was delivered since it was started.
    FullSync,
}

/// Events that belong together: what they change is published together.
pub type Batch = Vec<Event>;

impl Event {
    /// A resource was added or updated.
    pub fn put(collection: &'static str, entry: Entry) -> Self {
        Self { collection, change: Change::Put(entry) }
    }

    /// A resource was deleted.
    pub fn delete(collection: &'static str, name: impl Into<Box<str>>) -> Self {
        Self { collection, change: Change::Delete(name.into()) }
    }

    /// Everything was delivered.
    pub fn full_sync(collection: &'static str) -> Self {
        Self { collection, change: Change::FullSync }
    }
}
