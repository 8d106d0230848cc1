//! Type-erased adapters, for tables of all adapters.

mod build;
mod params;

pub use build::{BuildFuture, BuildHandler, Verdict, VerdictFuture};
pub use params::{DecodeParams, ErasedParams};

use std::marker::PhantomData;

use super::{Adapter, AdapterInfo};

/// [`Adapter`] as a trait object.
pub trait ErasedAdapter: DecodeParams + BuildHandler + Send + Sync {
    /// Name, description and templates.
    fn info(&self) -> &'static AdapterInfo;
}

impl std::fmt::Debug for dyn ErasedAdapter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.info().name)
    }
}

/// Implements [`ErasedAdapter`] for an [`Adapter`].
#[derive(Debug)]
pub struct Erase<A>(PhantomData<fn() -> A>);

impl<A: Adapter> Default for Erase<A> {
    fn default() -> Self {
        Self::new()
    }
}

impl<A: Adapter> Erase<A> {
    /// `A` as an entry of an [`Inventory`](super::Inventory).
    pub const fn new() -> Self {
        Self(PhantomData)
    }
}

impl<A: Adapter> ErasedAdapter for Erase<A> {
    fn info(&self) -> &'static AdapterInfo {
        &A::INFO
    }
}
