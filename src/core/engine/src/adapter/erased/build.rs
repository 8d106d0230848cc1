//! Validates the parameters of a handler and builds it.

use std::pin::Pin;

use super::super::{Adapter, Backends, BoundInstance, BuildError, Commons, Env, Handler, claims};
use super::{Erase, ErasedParams};
use mixer_config::Diagnostics;

/// A future that builds a handler.
pub type BuildFuture = Pin<Box<dyn Future<Output = Result<Box<dyn Handler>, BuildError>> + Send>>;

/// What the backend of a handler says about the instances of the handler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It takes them.
    Takes,
    /// It rejects them, for this reason.
    Rejects(String),
    /// It does not answer.
    NoAnswer,
}

/// A future that asks a backend for its verdict.
pub type VerdictFuture = Pin<Box<dyn Future<Output = Verdict> + Send>>;

/// The second half of an erased adapter: builds handlers.
pub trait BuildHandler {
    /// See [`Adapter::validate`].
    fn validate(&self, params: &ErasedParams, instances: &[BoundInstance], problems: &mut Diagnostics);
    /// See [`Adapter::build`].
    fn build(&self, params: &ErasedParams, instances: Vec<BoundInstance>, env: Env) -> BuildFuture;

    /// See [`Adapter::backends`].
    fn backends(&self, params: &ErasedParams) -> Backends;

    /// Asks the backend whether it takes these instances, after a build failed. `None` if it has no say in it: what
    /// [`validate`](Self::validate) accepts, no backend rejects.
    fn ask_backend(&self, _: &ErasedParams, _: Vec<BoundInstance>, _: &Commons) -> Option<VerdictFuture> {
        None
    }
}

impl<A: Adapter> Erase<A> {
    fn params(params: &ErasedParams) -> A::Params {
        params.value.downcast_ref::<A::Params>().cloned().unwrap_or_default()
    }
}

impl<A: Adapter> BuildHandler for Erase<A> {
    fn validate(&self, params: &ErasedParams, instances: &[BoundInstance], problems: &mut Diagnostics) {
        match params.value.downcast_ref::<A::Params>() {
            Some(params) => A::validate(params, instances, problems),
            None => A::validate(&A::Params::default(), instances, problems),
        }
    }

    fn backends(&self, params: &ErasedParams) -> Backends {
        A::backends(&Self::params(params))
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
