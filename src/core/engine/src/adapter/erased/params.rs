//! Decodes the parameters of a handler.

use std::any::Any;
use std::sync::Arc;

use super::super::{Adapter, CheckPower};
use super::Erase;
use mixer_config::message::{DecodeError, Message, decode_over};
use mixer_config::{FieldPath, Node};

/// Decoded parameters of any adapter.
#[derive(Clone)]
pub struct ErasedParams {
    pub(super) value: Arc<dyn Any + Send + Sync>,
    json: serde_json::Value,
}

impl std::fmt::Debug for ErasedParams {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.json)
    }
}

impl ErasedParams {
    /// Parameters of a known type, with their canonical JSON.
    pub(crate) fn new<T: Any + Send + Sync>(value: Arc<T>, json: serde_json::Value) -> Self {
        Self { value, json }
    }

    /// No parameters.
    pub fn empty() -> Self {
        Self::new(Arc::new(()), serde_json::Value::Null)
    }

    /// The parameters, if they are of this type.
    pub fn get<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        Arc::clone(&self.value).downcast().ok()
    }

    /// The effective parameters, including defaults. Canonical: equal parameters give equal text.
    pub fn json(&self) -> &serde_json::Value {
        &self.json
    }
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
        let json = mixer_config::message::Field::to_json(&params);
        debug_assert!(!A::Params::NAME.is_empty());
        (ErasedParams { value: Arc::new(params), json }, errors)
    }

    fn check_power(&self, params: &ErasedParams) -> CheckPower {
        params.value.downcast_ref::<A::Params>().map_or(CheckPower::Decides, A::check_power)
    }
}
