//! The configuration plane: takes resources from sources, turns them into collections, publishes these as snapshots.
//!
//! | module | subject |
//! | --- | --- |
//! | [`source`] | what delivers resources: the contract, files, the mesh configuration file, Kubernetes, ZooKeeper, Eureka |
//! | [`convert`] | from a document to a resource of the wire, decoded once |
//! | [`pipeline`] | what becomes of events: merged sources, transformers, collections, groups, strategies. No I/O, no clock |
//! | [`transform`] | what makes collections of collections: direct, service entries, ingresses |
//! | [`keeper`] | what keeps the files that were published last for the next start |
//! | [`options`] | the two faces of Istio Galley's processors, and all settings |
//! | [`state`] | what operators see: sources, groups, collections, events |
//! | [`Galley`] | runs sources and pipeline, and publishes into a [`Distributor`], such as the snapshot cache of MCP |
//!
//! There is one pipeline. What sinks see of Istio Galley's two processors is a [`Face`] of it: how versions and the
//! defaults of the mesh look, and which collections are served.
//!
//! ```ignore
//! let options = Options { service_discovery: true, ..Options::default() };
//! let sources = Sources::of(&options).files("config/").mesh("mesh.yaml").build();
//! let galley = Galley::start(options, sources, cache, &Handle::current())?;
//! galley.synced().await;
//! println!("{:?}", galley.state().sources);
//! galley.stop().await;
//! ```
//!
//! It must never publish a part of what it is to publish: a group waits for every source of each of its collections, and what a
//! source delivers after a restart replaces what it delivered before in one step.

pub mod convert;
mod error;
pub mod event;
mod galley;
mod judge;
pub mod keeper;
pub mod metrics;
pub mod object;
pub mod options;
pub mod pipeline;
pub mod source;
pub mod state;
pub mod transform;

pub use error::StartError;
pub use event::{Batch, Change, Entry, Event};
pub use galley::Galley;
pub use judge::Judge;
pub use keeper::Keeper;
pub use options::{Face, Options};
pub use pipeline::Distributor;
pub use source::{Emitter, Ended, Source};

/// Counts what a piece of work holds.
#[cfg(test)]
#[global_allocator]
static ALLOCATOR: mixer_base::allocation::CountingAllocator =
    mixer_base::allocation::CountingAllocator::new(std::alloc::System);
