//! The adapter API.
//!
//! An adapter is [`Adapter::INFO`] plus two functions: [`Adapter::validate`] (pure: checks parameters and bound instances, reports
//! every problem) and [`Adapter::build`] (may read files, connect, listen), which returns a [`Handler`]. A handler implements the
//! dispatch traits of the templates it supports. An [`Inventory`] is a table of adapters.
//! This module depends on no rules, routing or gRPC service.
//! See docs/adapters.md.

mod backend;
mod claims;
mod env;
mod erased;
mod handler;
mod inventory;
mod status;

pub use backend::{BackendAddress, Backends};
pub use claims::InventoryError;
pub use env::{AdapterResources, Clock, Commons, Env, SystemClock, TaskSpawner};
pub use erased::{
    BuildFuture, BuildHandler, DecodeParams, Erase, ErasedAdapter, ErasedParams, Verdict, VerdictFuture,
};
pub use handler::{
    BoundInstance, CheckResult, Generated, GeneratedValue, HandleCheck, HandleGenerate, HandleQuota,
    HandleReport, Handler, HandlerError, Instance, Leaf, ProbeFuture, QuotaCall, QuotaLevel, QuotaResult,
    Reply, Status, StatusDetail, join_errors,
};
pub use inventory::Inventory;
pub use status::{
    HandlerStatus, QueueStatus, QuotaKey, QuotaMode, QuotaOutage, QuotaOverride, QuotaSource, QuotaStatus,
    QuotaUse, SharedQuota,
};

use mixer_config::{Diagnostics, message::Message};

/// Code of a validation error that [`Adapter::build`] reports itself.
pub const NOT_BUILT: &str = "adapter-build";

/// Static description of an adapter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AdapterInfo {
    /// The name in `compiledAdapter` and the legacy kind, for example `listchecker`.
    pub name: &'static str,
    /// One sentence.
    pub about: &'static str,
    /// Names of the templates whose instances it accepts.
    pub templates: &'static [&'static str],
}

/// Why a handler could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// Message of the adapter, for example `did not find limit defined for quota q.instance.ns`.
    #[error("{0}")]
    Refused(String),
    /// Why an adapter out of process cannot be connected to; users see it as it is.
    #[error("{0}")]
    Unconnected(String),
    /// Problems of the parameters that only a backend can detect, each `<field>: <text>`. Users see them like problems of
    /// [`Adapter::validate`].
    #[error("{}", join_errors(.0))]
    Invalid(Vec<String>),
}

/// What the answers of a handler to checks can mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckPower {
    /// It never refuses.
    Allows,
    /// It refuses, or does not object: its OK allows nothing by itself.
    Refuses,
    /// It refuses or allows.
    Decides,
}

/// One kind of handler.
pub trait Adapter: Send + Sync + 'static {
    /// Name, description and templates.
    const INFO: AdapterInfo;
    /// Parameters with their defaults.
    type Params: Message;

    /// Reports every problem of the parameters and bound instances. The message of a diagnostic is `<field>: <text>` in the
    /// adapter's own field spelling; its field path is relative to the parameters. May not touch files, network, clock,
    /// randomness, threads or global state.
    fn validate(params: &Self::Params, instances: &[BoundInstance], problems: &mut Diagnostics);

    /// What the answers to checks of a handler with these parameters can mean. `mixer.dev/default: deny` and the diagnostics of
    /// conditions depend on it.
    fn check_power(params: &Self::Params) -> CheckPower {
        let _ = params;
        CheckPower::Decides
    }

    /// What a handler with these parameters talks to, for `doctor`.
    fn backends(params: &Self::Params) -> Backends {
        let _ = params;
        Backends::None
    }

    /// Builds a handler from parameters that passed [`validate`](Self::validate).
    fn build(
        params: Self::Params,
        instances: Vec<BoundInstance>,
        env: Env,
    ) -> impl Future<Output = Result<Box<dyn Handler>, BuildError>> + Send;
}
