//! Annotations of Istio.

use std::collections::BTreeSet;

use super::world::{World, at};
use super::{Found, SUPPRESS};

const POD: &[&str] = &["Pod"];
const SERVICE: &[&str] = &["Service"];
/// Of any kind.
const ANY: &[&str] = &[];

/// The annotations that Istio reads, and the kinds on which it does.
const KNOWN: &[(&str, &[&str])] = &[
    ("alpha.istio.io/canonical-serviceaccounts", SERVICE),
    ("alpha.istio.io/identity", POD),
    ("alpha.istio.io/kubernetes-serviceaccounts", SERVICE),
    (SUPPRESS, ANY),
    ("install.operator.istio.io/chart-owner", ANY),
    ("install.operator.istio.io/owner-generation", ANY),
    ("networking.alpha.istio.io/endpointsVersion", &["ServiceEntry"]),
    ("networking.alpha.istio.io/notReadyEndpoints", &["ServiceEntry"]),
    ("networking.alpha.istio.io/serviceVersion", &["ServiceEntry"]),
    ("networking.istio.io/exportTo", SERVICE),
    ("policy.istio.io/check", POD),
    ("policy.istio.io/checkBaseRetryWaitTime", POD),
    ("policy.istio.io/checkMaxRetryWaitTime", POD),
    ("policy.istio.io/checkRetries", POD),
    ("policy.istio.io/lang", POD),
    ("readiness.status.sidecar.istio.io/applicationPorts", POD),
    ("readiness.status.sidecar.istio.io/failureThreshold", POD),
    ("readiness.status.sidecar.istio.io/initialDelaySeconds", POD),
    ("readiness.status.sidecar.istio.io/periodSeconds", POD),
    ("sidecar.istio.io/bootstrapOverride", POD),
    ("sidecar.istio.io/componentLogLevel", POD),
    ("sidecar.istio.io/controlPlaneAuthPolicy", POD),
    ("sidecar.istio.io/discoveryAddress", POD),
    ("sidecar.istio.io/inject", POD),
    ("sidecar.istio.io/interceptionMode", POD),
    ("sidecar.istio.io/logLevel", POD),
    ("sidecar.istio.io/proxyCPU", POD),
    ("sidecar.istio.io/proxyImage", POD),
    ("sidecar.istio.io/proxyMemory", POD),
    ("sidecar.istio.io/rewriteAppHTTPProbers", POD),
    ("sidecar.istio.io/statsInclusionPrefixes", POD),
    ("sidecar.istio.io/statsInclusionRegexps", POD),
    ("sidecar.istio.io/statsInclusionSuffixes", POD),
    ("sidecar.istio.io/status", POD),
    ("sidecar.istio.io/userVolume", POD),
    ("sidecar.istio.io/userVolumeMount", POD),
    ("status.sidecar.istio.io/port", POD),
    ("traffic.sidecar.istio.io/excludeInboundPorts", POD),
    ("traffic.sidecar.istio.io/excludeOutboundIPRanges", POD),
    ("traffic.sidecar.istio.io/excludeOutboundPorts", POD),
    ("traffic.sidecar.istio.io/includeInboundPorts", POD),
    ("traffic.sidecar.istio.io/includeOutboundIPRanges", POD),
    ("traffic.sidecar.istio.io/kubevirtInterfaces", POD),
];

/// IST0107, IST0108, of namespaces, services, pods and deployments, and of the pods that deployments make.
pub(super) fn analyze(world: &World<'_>, found: &mut Found) {
    for kind in ["Namespace", "Service", "Pod", "Deployment"] {
        for (object, of) in world.all(kind) {
            let own = at(of.document, &["metadata", "annotations"]).map(|node| (kind, node));
            let template = at(of.document, &["spec", "template", "metadata", "annotations"]);
            let of_pods = template.filter(|_| kind == "Deployment").map(|node| ("Pod", node));
            for (kind, annotations) in own.into_iter().chain(of_pods) {
                for entry in annotations.entries() {
                    let name = &*entry.key;
                    if !name.split_once('/').is_some_and(|(prefix, _)| prefix.ends_with("istio.io")) {
                        continue;
                    }
                    match KNOWN.iter().find(|(known, _)| *known == name) {
                        None => found.warning(
                            object,
                            &entry.value,
                            "IST0108",
                            format!("Unknown annotation: {name}"),
                        ),
                        Some((_, kinds)) if kinds.is_empty() || kinds.contains(&kind) => {}
                        Some((_, kinds)) => {
                            let kinds: BTreeSet<&str> = kinds.iter().copied().collect();
                            let kinds = kinds.into_iter().collect::<Vec<_>>().join(", ");
                            let text = format!("Misplaced annotation: {name} can only be applied to {kinds}");
                            found.warning(object, &entry.value, "IST0107", text);
                        }
                    }
                }
            }
        }
    }
}
