//! Signatures: a handler is reused while its signature is unchanged.

use std::hash::{DefaultHasher, Hash as _, Hasher};
use std::sync::Arc;

use crate::adapter::{AdapterResources, BoundInstance};
use crate::snapshot::{HandlerConfig, InstanceConfig, OnError};

/// Bytes of parameters that are digested at once, at least.
const PART: usize = 4 << 10;

/// A digest of the configuration of a handler: adapter, parameters, the resources of its adapter, failure policy, and for each bound
/// instance its name, template, expressions, dialect and inferred types. Canonical: maps are hashed in key order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Signature(u128);

impl Signature {
    /// The signature of a handler bound to `instances`, which are in name order.
    pub(super) fn of(
        handler: &HandlerConfig,
        instances: &[Arc<InstanceConfig>],
        resources: Option<&AdapterResources>,
    ) -> Self {
        let mut state = Digest::new();
        state.text(handler.adapter_name());
        state.parameters(handler);
        if let Some(external) = &handler.external {
            state.number((external.digest >> 64) as u64);
            state.number(external.digest as u64);
            state.number(u64::from(external.session_based));
        }
        // Calls read the policy of the live handler.
        state.text(handler.on_error.map_or("", OnError::name));
        let resources = resources.map_or(0, AdapterResources::digest);
        state.number((resources >> 64) as u64);
        state.number(resources as u64);
        for instance in instances {
            state.instance(&instance.bound);
            state.text(instance.language.name());
            for program in &instance.programs {
                state.text(program.as_ref().map_or("", |p| p.text()));
            }
            for binding in &instance.bindings {
                state.number(u64::from(binding.target.0));
                state.text(binding.value.text());
            }
        }
        Self(state.finish())
    }
}

/// Two independent 64-bit hashes over length-prefixed parts: a collision would keep a stale handler.
struct Digest {
    halves: [DefaultHasher; 2],
}

impl Digest {
    fn new() -> Self {
        let mut halves = [DefaultHasher::new(), DefaultHasher::new()];
        for (salt, half) in halves.iter_mut().enumerate() {
            half.write_usize(salt);
        }
        Self { halves }
    }

    fn text(&mut self, text: &str) {
        for half in &mut self.halves {
            half.write_usize(text.len());
            half.write(text.as_bytes());
        }
    }

    /// In parts: the text of large parameters takes many megabytes.
    fn parameters(&mut self, handler: &HandlerConfig) {
        let mut part = String::new();
        handler.params.write_json(&mut |text| {
            part.push_str(text);
            if part.len() >= PART {
                self.text(&part);
                part.clear();
            }
        });
        self.text(&part);
    }

    fn number(&mut self, number: u64) {
        for half in &mut self.halves {
            half.write_u64(number);
        }
    }

    fn instance(&mut self, bound: &BoundInstance) {
        self.text(&bound.name);
        self.text(&bound.template.name);
        self.number(bound.leaves.len() as u64);
        for leaf in bound.leaves.iter() {
            self.text(&leaf.field);
            self.text(leaf.key.as_deref().unwrap_or("\0"));
            self.number(leaf.value_type as u64);
        }
        for message in &bound.messages {
            self.text(message);
        }
        if let Some(external) = &bound.template.external {
            self.number((external.digest >> 64) as u64);
            self.number(external.digest as u64);
        }
        // What is constant in an instance is in its plan only.
        for half in &mut self.halves {
            bound.plan.hash(half);
        }
    }

    fn finish(self) -> u128 {
        self.halves.iter().fold(0, |digest, half| digest << 64 | u128::from(half.finish()))
    }
}
