//! The Mesh Configuration Protocol (MCP): how configuration travels from a source to its sinks. Knows neither kinds of resources nor Mixer.
//!
//! | type | subject |
//! | --- | --- |
//! | [`Resource`], [`Collection`], [`Snapshot`] | what is distributed; immutable, shared by all streams, encoded once |
//! | [`Cache`] | the published snapshots, and the watches of the streams that wait for the next ones |
//! | [`Source`] | serves the cache on streams: requests, ACKs, NACKs, full state and deltas |
//! | [`Ledger`] | what every sink was sent, acknowledged and refused; can be waited for |
//! | [`Sink`] | asks a source for collections, passes changes to an [`Updater`], answers |
//! | [`Server`] | the port of sources and sinks: TLS, access list, limits |
//! | [`CallOut`] | a source that calls a server of sinks |
//!
//! A publisher never waits for sinks, and a sink that is slow or gone costs one message, which it shares with others.
//!
//! ```ignore
//! let cache = Cache::new(|_collection, _node| "default".into());
//! let source = Source::new(Arc::clone(&cache), SourceOptions::new(collections), &metrics);
//! let server = Server::bind(ServerOptions::new(address), Services::of_source(source))?;
//! let rules = Collection::new("istio/policy/v1beta1/rules", "1", resources);
//! let published = cache.set_snapshot("default", Arc::new(Snapshot::of([rules])));
//! server.serve(stop).await;
//! ```

mod access;
mod account;
mod cache;
mod call_out;
mod client;
mod encode;
mod grpc;
mod inbox;
mod ledger;
mod limiter;
mod model;
mod reader;
mod report;
mod resource;
mod server;
#[cfg(test)]
mod simulation;
mod sink;
mod source;
mod transport;

pub mod message;

pub use cache::{Cache, GroupStatus};
pub use call_out::CallOut;
pub use client::{ClientAuth, ClientOptions};
pub use ledger::{
    Delivered, Ledger, Progress, Publication, Refused, SinkCollectionRecord, SinkName, SinkRecord, Target,
};
pub use limiter::Rate;
pub use message::SinkNode;
pub use model::{Collection, Content, Snapshot};
pub use reader::reader;
pub use resource::Resource;
pub use server::{Server, ServerError, ServerOptions, Services};
pub use sink::{
    Applying, Change, ChangedResources, JournalEntry, Refusal, Sink, SinkCollection, SinkCollectionStatus,
    SinkOptions, SinkStatus, Updater,
};
pub use source::{Source, SourceOptions};
