//! Fields and kinds that are deprecated.

use mixer_config::Node;

use super::Found;
use super::world::{World, at, items};

/// The definition that replaces policies.
const REPLACEMENT: &str = "peerauthentications.security.istio.io";

/// IST0002
pub(super) fn fields(world: &World<'_>, found: &mut Found) {
    let mut tell = |object: usize, at: &Node, text: &str| {
        found.warning(object, at, "IST0002", format!("Deprecated: {text}"));
    };
    for (object, service) in world.all("VirtualService") {
        for route in items(service.document, &["spec", "http"]) {
            if let Some(percent) = at(route, &["fault", "delay", "percent"]) {
                let text =
                    "HTTPRoute.fault.delay.percent is deprecated; use HTTPRoute.fault.delay.percentage";
                tell(object, percent, text);
            }
        }
    }
    for (object, filter) in world.all("EnvoyFilter") {
        for (field, text) in [
            ("workloadLabels", "EnvoyFilter.workloadLabels is deprecated; use EnvoyFilter.workload_selector"),
            ("filters", "EnvoyFilter.filters is deprecated"),
        ] {
            if let Some(node) = at(filter.document, &["spec", field]) {
                tell(object, node, text);
            }
        }
    }
    for (object, binding) in world.all("ServiceRoleBinding") {
        for subject in items(binding.document, &["spec", "subjects"]) {
            if let Some(group) = subject.member("group") {
                tell(object, group, "ServiceRoleBinding.subjects.group is deprecated");
            }
        }
    }
}

/// IST0120, IST0121
pub(super) fn policies(world: &World<'_>, found: &mut Found) {
    if world.all("CustomResourceDefinition").all(|(_, definition)| definition.name != REPLACEMENT) {
        return;
    }
    for (kind, code) in [("Policy", "IST0120"), ("MeshPolicy", "IST0121")] {
        for (object, policy) in world.all(kind) {
            let text = format!(
                "The {kind} resource is deprecated and will be removed in a future Istio release. Migrate to the PeerAuthentication resource."
            );
            found.info(object, policy.document, code, text);
        }
    }
}
