//! Roles and bindings as resources of the server's own configuration.

use std::any::Any;
use std::sync::Arc;

use super::resources::{self, BINDING, GROUP, ROLE, RbacResource, SETTINGS};
use super::{Rbac, is_of_server};
use mixer_attribute::{ValueType, Vocabulary};
use mixer_config::{Diagnostic, Diagnostics, Node, RawResource};
use mixer_engine::adapter::Adapter as _;
use mixer_engine::snapshot::{DecodedResource, ExtensionConfig, SnapshotExtension};

/// The kind of handlers.
const HANDLER: &str = "handler";

/// The snapshot extension that decodes the kinds of the adapter `rbac`.
#[derive(Debug, Clone, Copy)]
pub struct RbacKinds;

impl SnapshotExtension for RbacKinds {
    fn kinds(&self) -> &'static [&'static str] {
        const KINDS: [&str; 4] = [ROLE, BINDING, SETTINGS[0], SETTINGS[1]];
        &KINDS
    }

    fn group(&self) -> &'static str {
        GROUP
    }

    fn adapter(&self) -> Option<&'static str> {
        Some(Rbac::INFO.name)
    }

    fn needed_kinds(&self) -> &'static [&'static str] {
        &[ROLE, BINDING]
    }

    fn is_needed_by(&self, resource: &RawResource) -> bool {
        let name = Rbac::INFO.name;
        if *resource.key.kind != *HANDLER && *resource.key.kind != *name {
            return false;
        }
        let document = resource.document();
        let Some(spec) = document.get("spec") else { return false };
        let params = match *resource.key.kind == *HANDLER {
            true if spec.get("compiledAdapter").and_then(Node::as_str) != Some(name) => return false,
            true => spec.get("params"),
            false => Some(spec),
        };
        let url = |name| params.and_then(|params| params.get(name)).and_then(Node::as_str);
        let url = url("configStoreUrl").or_else(|| url("config_store_url"));
        is_of_server(url.unwrap_or_default())
    }

    fn attributes(&self) -> &'static [(&'static str, ValueType)] {
        &[]
    }

    fn decode(
        &self,
        resource: &RawResource,
        failure: &dyn Fn(&str) -> String,
    ) -> Result<DecodedResource, Vec<Diagnostic>> {
        resources::decode(resource, failure).map(|decoded| Arc::new(decoded) as DecodedResource)
    }

    fn assemble(
        &self,
        resources: &[(&RawResource, &(dyn Any + Send + Sync))],
        _: &Vocabulary,
        _: &str,
    ) -> (Arc<dyn ExtensionConfig>, Diagnostics) {
        let decoded = resources.iter().filter_map(|(raw, decoded)| Some((*raw, decoded.downcast_ref()?)));
        let decoded: Vec<(&RawResource, &RbacResource)> = decoded.collect();
        let (policy, warnings) = resources::assemble(&decoded);
        (policy, warnings)
    }
}
