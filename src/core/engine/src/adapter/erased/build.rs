//! Validates the parameters of a handler and builds it.

use std::pin::Pin;

use super::super::{Adapter, BoundInstance, BuildError, Env, Handler, claims};
use super::{Erase, ErasedParams};
use mixer_config::Diagnostics;

/// A future that builds a handler.
pub type BuildFuture = Pin<Box<dyn Future<Output = Result<Box<dyn Handler>, BuildError>> + Send>>;

/// The second half of an erased adapter: builds handlers.
pub trait BuildHandler {
    /// See [`Adapter::validate`].
    fn validate(&self, params: &ErasedParams, instances: &[BoundInstance], problems: &mut Diagnostics);
    /// See [`Adapter::build`].
    fn build(&self, params: &ErasedParams, instances: Vec<BoundInstance>, env: Env) -> BuildFuture;
}

impl<A: Adapter> Erase<A> {
    fn params(params: &ErasedParams) -> A::Params {
        params.value.downcast_ref::<A::Params>().cloned().unwrap_or_default()
    }
}

impl<A: Adapter> BuildHandler for Erase<A> {
    fn validate(&self, params: &ErasedParams, instances: &[BoundInstance], problems: &mut Diagnostics) {
        A::validate(&Self::params(params), instances, problems);
    }

    fn build(&self, params: &ErasedParams, instances: Vec<BoundInstance>, env: Env) -> BuildFuture {
        let build = A::build(Self::params(params), instances, env);
        Box::pin(async move {
            let handler = build.await?;
            if let Err(defect) = claims::check_handler(&A::INFO, handler.as_ref()) {
                return Err(BuildError::Refused(defect.to_string()));
            }
            Ok(handler)
        })
    }
}
