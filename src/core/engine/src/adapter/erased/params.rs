//! Decodes the parameters of a handler.

use std::any::Any;
use std::sync::{Arc, OnceLock};

use super::super::{Adapter, CheckPower};
use super::Erase;
use mixer_config::message::{DecodeError, Message, Shown, decode_over};
use mixer_config::{FieldPath, Node};

/// Parameters of any type, behind their own one.
type Parameters = dyn Any + Send + Sync + 'static;

/// Decoded parameters of any adapter. Their JSON is made when it is asked for: it takes many times their memory.
#[derive(Clone)]
pub struct ErasedParams {
    pub(super) value: Arc<Parameters>,
    shown: for<'p> fn(&'p Parameters) -> Option<&'p dyn Shown>,
    json: Arc<OnceLock<serde_json::Value>>,
}

impl std::fmt::Debug for ErasedParams {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.to_json())
    }
}

impl ErasedParams {
    /// Parameters of a known type, with their canonical JSON.
    pub(crate) fn new<T: Any + Send + Sync>(value: Arc<T>, json: serde_json::Value) -> Self {
        Self { value, shown: |_| None, json: Arc::new(json.into()) }
    }

    /// Parameters of an adapter.
    fn of<M: Message>(params: M) -> Self {
        Self { value: Arc::new(params), shown: shown_as::<M>, json: Arc::default() }
    }

    /// No parameters.
    pub fn empty() -> Self {
        Self::new(Arc::new(()), serde_json::Value::Null)
    }

    /// The parameters, if they are of this type.
    pub fn get<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        Arc::clone(&self.value).downcast().ok()
    }

    /// The values of the effective parameters, including defaults; `None` of adapters out of process.
    pub fn shown(&self) -> Option<&dyn Shown> {
        (self.shown)(&*self.value)
    }

    /// The effective parameters, including defaults. Canonical: equal parameters give equal text. Kept from the first call on; see
    /// [`to_json`](Self::to_json).
    pub fn json(&self) -> &serde_json::Value {
        self.json.get_or_init(|| self.shown().map_or(serde_json::Value::Null, |shown| shown.json()))
    }

    /// [`json`](Self::json) for one use.
    pub fn to_json(&self) -> serde_json::Value {
        match (self.json.get(), self.shown()) {
            (None, Some(shown)) => shown.json(),
            (None, None) => serde_json::Value::Null,
            (Some(json), _) => json.clone(),
        }
    }

    /// The text of [`json`](Self::json) in parts, which takes no memory.
    pub fn write_json(&self, out: &mut dyn FnMut(&str)) {
        match self.shown() {
            Some(shown) => shown.write_json(out),
            None => out(&self.json().to_string()),
        }
    }
}

fn shown_as<M: Message>(params: &Parameters) -> Option<&dyn Shown> {
    params.downcast_ref::<M>().map(|params| params as &dyn Shown)
}

/// The first half of an erased adapter: reads configuration.
pub trait DecodeParams {
    /// Decodes `node` (the `params` of a handler or the `spec` of a legacy resource) over the defaults. Fields decoded before the
    /// first error apply.
    fn decode(&self, node: Option<&Node>, path: FieldPath) -> (ErasedParams, Vec<DecodeError>);
    /// See [`Adapter::check_power`].
    fn check_power(&self, params: &ErasedParams) -> CheckPower;
}

impl<A: Adapter> DecodeParams for Erase<A> {
    fn decode(&self, node: Option<&Node>, path: FieldPath) -> (ErasedParams, Vec<DecodeError>) {
        let mut params = A::Params::default();
        let errors = node.map_or_else(Vec::new, |node| decode_over(&mut params, node, path));
        debug_assert!(!A::Params::NAME.is_empty());
        (ErasedParams::of(params), errors)
    }

    fn check_power(&self, params: &ErasedParams) -> CheckPower {
        params.value.downcast_ref::<A::Params>().map_or(CheckPower::Decides, A::check_power)
    }
}
