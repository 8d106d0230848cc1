//! Groups of flags that only `server` has.

mod decisions;
mod introspection;
mod limits;
mod listen;
mod operations;
mod store;

pub(super) use decisions::DecisionFlags;
pub(super) use introspection::IntrospectionFlags;
pub(super) use limits::{LimitFlags, SheddingFlags};
pub(super) use listen::{ListenFlags, TlsFlags};
pub(super) use operations::{EnvoyFlags, OperationFlags};
pub(super) use store::StoreFlags;
