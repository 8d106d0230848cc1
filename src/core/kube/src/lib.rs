//! A client of Kubernetes API servers: what everything that reads from a cluster shares. It knows no kinds of objects and no policy.
//!
//! | type | subject |
//! | --- | --- |
//! | [`Access`] | where a cluster is and what authenticates to it: the pod's service account, or a kubeconfig |
//! | [`Client`] | requests over HTTP/1.1 and HTTP/2, with credentials that are read again when they change |
//! | [`discover`] | which kinds a server serves |
//! | [`Selection`] | which objects: kind, namespace, labels |
//! | [`Reflector`] | lists objects in pages and follows their changes, for a [`Store`] |
//! | [`Progress`] | what a reflector has reached, and what stands in its way |
//! | [`Versioned`] | a [`Store`] of versions that share what did not change, and that readers wait for |
//!
//! Every wait has a limit, every answer is bounded, and no error shows a credential.
//!
//! ```ignore
//! let client = Client::new(Access::of_pod()?)?;
//! let (secrets, store) = Versioned::<Secret>::new(1000);
//! let mut reflector = Reflector::new(client, Selection::of(SECRETS).in_namespace("istio-system"), store);
//! tokio::spawn(async move { reflector.run().await });
//! secrets.after(0).await;
//! ```

mod access;
mod client;
mod discovery;
mod error;
mod object;
mod progress;
mod reflector;
mod selection;
mod versioned;
mod watch;

pub use access::{Access, AccessError};
pub use client::Client;
pub use discovery::{Served, discover, is_defined};
pub use error::{ApiStatus, Error};
pub use object::{Object, OwnerReference, PartialMetadata, PartialObject};
pub use progress::{Progress, Reached, Trouble};
pub use reflector::{Pace, Reflector, Store};
pub use selection::{Form, Resource, Selection};
pub use versioned::{Kept, Versioned, VersionedStore, Versions};
