//! Type-erased adapters, for tables of all adapters.

use std::any::Any;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;

use super::{Adapter, AdapterInfo, BoundInstance, BuildError, Env, Handler};
use mixer_config::message::{DecodeError, Message, decode_over};
use mixer_config::{Diagnostics, FieldPath, Node};

/// Decoded parameters of any adapter.
#[derive(Clone)]
pub struct ErasedParams {
    value: Arc<dyn Any + Send + Sync>,
    json: serde_json::Value,
}

impl std::fmt::Debug for ErasedParams {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.json)
    }
}

impl ErasedParams {
    /// The effective parameters, including defaults. Canonical: equal parameters give equal text.
    pub fn json(&self) -> &serde_json::Value {
        &self.json
    }
}

/// A future that builds a handler.
pub type BuildFuture = Pin<Box<dyn Future<Output = Result<Box<dyn Handler>, BuildError>> + Send>>;

/// [`Adapter`] as a trait object.
pub trait ErasedAdapter: Send + Sync {
    /// Name, description and templates.
    fn info(&self) -> &'static AdapterInfo;
    /// Decodes `node` (the `params` of a handler or the `spec` of a legacy resource) over the defaults. Fields decoded before the
    /// first error apply.
    fn decode(&self, node: Option<&Node>, path: FieldPath) -> (ErasedParams, Vec<DecodeError>);
    /// See [`Adapter::validate`].
    fn validate(&self, params: &ErasedParams, instances: &[BoundInstance], problems: &mut Diagnostics);
    /// See [`Adapter::build`].
    fn build(&self, params: &ErasedParams, instances: Vec<BoundInstance>, env: Env) -> BuildFuture;
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

    fn params(params: &ErasedParams) -> A::Params {
        params.value.downcast_ref::<A::Params>().cloned().unwrap_or_default()
    }
}

impl<A: Adapter> ErasedAdapter for Erase<A> {
    fn info(&self) -> &'static AdapterInfo {
        &A::INFO
    }

    fn decode(&self, node: Option<&Node>, path: FieldPath) -> (ErasedParams, Vec<DecodeError>) {
        let mut params = A::Params::default();
        let errors = node.map_or_else(Vec::new, |node| decode_over(&mut params, node, path));
        let json = mixer_config::message::Field::to_json(&params);
        debug_assert!(!A::Params::NAME.is_empty());
        (ErasedParams { value: Arc::new(params), json }, errors)
    }

    fn validate(&self, params: &ErasedParams, instances: &[BoundInstance], problems: &mut Diagnostics) {
        A::validate(&Self::params(params), instances, problems);
    }

    fn build(&self, params: &ErasedParams, instances: Vec<BoundInstance>, env: Env) -> BuildFuture {
        let build = A::build(Self::params(params), instances, env);
        Box::pin(async move {
            let handler = build.await?;
            if let Err(defect) = super::claims::check_handler(&A::INFO, handler.as_ref()) {
                return Err(BuildError::Refused(defect.to_string()));
            }
            Ok(handler)
        })
    }
}
