//! The table of resource kinds and collections.
//!
//! Sources, both faces of the pipeline, validation and the MCP sink read this one table.

use mixer_config::message::misspelling;

/// Where the resources of a kind come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A custom resource of Istio.
    Istio,
    /// A custom resource of an adapter or template with a kind of its own, whose body is its `spec` as a `google.protobuf.Struct`.
    Legacy,
    /// An object that every Kubernetes API server has.
    Core,
    /// Nowhere: the collection is produced by the configuration plane itself, and has no resource kind.
    Synthetic,
}

/// What of an object is the body of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body {
    /// `spec`.
    Spec,
    /// The whole object.
    Object,
}

/// A resource kind and its collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    /// The collection in which sinks see the resources, for example `istio/networking/v1alpha3/gateways`.
    pub collection: &'static str,
    /// The collection in which the second pipeline receives them, for example `k8s/networking.istio.io/v1alpha3/gateways`; `None` if
    /// they come from no source.
    pub input: Option<&'static str>,
    /// The API group, empty for that of Kubernetes' core.
    pub group: &'static str,
    /// The API version, for example `v1alpha3`.
    pub version: &'static str,
    /// For example `Gateway`; empty for [`Origin::Synthetic`], as are the names below.
    pub kind: &'static str,
    /// For example `GatewayList`.
    pub list_kind: &'static str,
    /// For example `gateways`.
    pub plural: &'static str,
    /// For example `gateway`.
    pub singular: &'static str,
    /// The full protobuf name of the message that is the body, for example `istio.networking.v1alpha3.Gateway`.
    pub message: &'static str,
    /// What the message contains.
    pub body: Body,
    /// Whether objects have no namespace.
    pub cluster_scoped: bool,
    /// Whether an API server may lack the kind.
    pub optional: bool,
    /// Where resources come from.
    pub origin: Origin,
}

impl Kind {
    /// The type URL of the body, for example `type.googleapis.com/istio.networking.v1alpha3.Gateway`.
    pub fn type_url(&self) -> String {
        format!("{TYPE_URL_PREFIX}{}", self.message)
    }

    /// `group/version`, or the version alone for Kubernetes' core.
    pub fn api_version(&self) -> String {
        match self.group {
            "" => self.version.to_owned(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// Whether objects with the group of this `apiVersion` are of this kind; the version of the group does not count.
    pub fn is_of_group(&self, api_version: &str) -> bool {
        self.group == api_version.rsplit_once('/').map_or("", |(group, _)| group)
    }
}

/// What precedes the name of a message in a type URL.
pub const TYPE_URL_PREFIX: &str = "type.googleapis.com/";

/// The collection of service entries that are synthesised from Kubernetes services.
pub const SYNTHETIC_SERVICE_ENTRIES: &str = "istio/networking/v1alpha3/synthetic/serviceentries";
/// The collection of the mesh configuration.
pub const MESH_CONFIG: &str = "istio/mesh/v1alpha1/MeshConfig";

const STRUCT: &str = "google.protobuf.Struct";

macro_rules! kind {
    (
        $kind:literal, $singular:literal, $plural:literal, $group:literal, $version:literal => $collection:expr, $message:expr
        $(; $input:literal)? $(, $field:ident: $value:expr)*
    ) => {
        Kind {
            collection: $collection,
            input: Some(kind!(@input $group, $version, $plural $(, $input)?)),
            group: $group,
            version: $version,
            kind: $kind,
            list_kind: concat!($kind, "List"),
            plural: $plural,
            singular: $singular,
            message: $message,
            $($field: $value,)*
            ..DEFAULT
        }
    };
    (@input $group:literal, $version:literal, $plural:literal) => { concat!("k8s/", $group, "/", $version, "/", $plural) };
    (@input $group:literal, $version:literal, $plural:literal, $input:literal) => { $input };
}

macro_rules! legacy {
    ($kind:literal, $plural:literal) => {
        kind!($kind, $kind, $plural, "config.istio.io", "v1alpha2" =>
            concat!("istio/config/v1alpha2/legacy/", $plural), STRUCT, optional: true, origin: Origin::Legacy)
    };
}

macro_rules! core {
    ($kind:literal, $singular:literal, $plural:literal, $group:literal, $version:literal => $collection:literal, $message:literal
        $(, $field:ident: $value:expr)*) => {
        kind!($kind, $singular, $plural, $group, $version => $collection, $message; $collection, origin: Origin::Core
            $(, $field: $value)*)
    };
}

const DEFAULT: Kind = Kind {
    collection: "",
    input: None,
    group: "",
    version: "",
    kind: "",
    list_kind: "",
    plural: "",
    singular: "",
    message: "",
    body: Body::Spec,
    cluster_scoped: false,
    optional: false,
    origin: Origin::Istio,
};

const SYNTHETIC: Kind = Kind { origin: Origin::Synthetic, ..DEFAULT };

#[rustfmt::skip]
static KINDS: &[Kind] = &[
    kind!("VirtualService", "virtualservice", "virtualservices", "networking.istio.io", "v1alpha3" =>
        "istio/networking/v1alpha3/virtualservices", "istio.networking.v1alpha3.VirtualService"),
    kind!("Gateway", "gateway", "gateways", "networking.istio.io", "v1alpha3" =>
        "istio/networking/v1alpha3/gateways", "istio.networking.v1alpha3.Gateway"),
    kind!("ServiceEntry", "serviceentry", "serviceentries", "networking.istio.io", "v1alpha3" =>
        "istio/networking/v1alpha3/serviceentries", "istio.networking.v1alpha3.ServiceEntry"),
    Kind { collection: SYNTHETIC_SERVICE_ENTRIES, message: "istio.networking.v1alpha3.ServiceEntry", ..SYNTHETIC },
    kind!("DestinationRule", "destinationrule", "destinationrules", "networking.istio.io", "v1alpha3" =>
        "istio/networking/v1alpha3/destinationrules", "istio.networking.v1alpha3.DestinationRule"),
    kind!("EnvoyFilter", "envoyfilter", "envoyfilters", "networking.istio.io", "v1alpha3" =>
        "istio/networking/v1alpha3/envoyfilters", "istio.networking.v1alpha3.EnvoyFilter"),
    kind!("Sidecar", "sidecar", "sidecars", "networking.istio.io", "v1alpha3" =>
        "istio/networking/v1alpha3/sidecars", "istio.networking.v1alpha3.Sidecar"),
    kind!("HTTPAPISpec", "httpapispec", "httpapispecs", "config.istio.io", "v1alpha2" =>
        "istio/config/v1alpha2/httpapispecs", "istio.mixer.v1.config.client.HTTPAPISpec"),
    kind!("HTTPAPISpecBinding", "httpapispecbinding", "httpapispecbindings", "config.istio.io", "v1alpha2" =>
        "istio/config/v1alpha2/httpapispecbindings", "istio.mixer.v1.config.client.HTTPAPISpecBinding"),
    kind!("QuotaSpec", "quotaspec", "quotaspecs", "config.istio.io", "v1alpha2" =>
        "istio/mixer/v1/config/client/quotaspecs", "istio.mixer.v1.config.client.QuotaSpec"),
    kind!("QuotaSpecBinding", "quotaspecbinding", "quotaspecbindings", "config.istio.io", "v1alpha2" =>
        "istio/mixer/v1/config/client/quotaspecbindings", "istio.mixer.v1.config.client.QuotaSpecBinding"),
    kind!("Policy", "policy", "policies", "authentication.istio.io", "v1alpha1" =>
        "istio/authentication/v1alpha1/policies", "istio.authentication.v1alpha1.Policy"),
    kind!("MeshPolicy", "meshpolicy", "meshpolicies", "authentication.istio.io", "v1alpha1" =>
        "istio/authentication/v1alpha1/meshpolicies", "istio.authentication.v1alpha1.Policy", cluster_scoped: true),
    kind!("ServiceRole", "servicerole", "serviceroles", "rbac.istio.io", "v1alpha1" =>
        "istio/rbac/v1alpha1/serviceroles", "istio.rbac.v1alpha1.ServiceRole"),
    kind!("ServiceRoleBinding", "servicerolebinding", "servicerolebindings", "rbac.istio.io", "v1alpha1" =>
        "istio/rbac/v1alpha1/servicerolebindings", "istio.rbac.v1alpha1.ServiceRoleBinding";
        "k8s/rbac.istio.io/v1alpha1/policy"),
    kind!("RbacConfig", "rbacconfig", "rbacconfigs", "rbac.istio.io", "v1alpha1" =>
        "istio/rbac/v1alpha1/rbacconfigs", "istio.rbac.v1alpha1.RbacConfig"),
    kind!("ClusterRbacConfig", "clusterrbacconfig", "clusterrbacconfigs", "rbac.istio.io", "v1alpha1" =>
        "istio/rbac/v1alpha1/clusterrbacconfigs", "istio.rbac.v1alpha1.RbacConfig", cluster_scoped: true),
    kind!("AuthorizationPolicy", "authorizationpolicy", "authorizationpolicies", "security.istio.io", "v1beta1" =>
        "istio/security/v1beta1/authorizationpolicies", "istio.security.v1beta1.AuthorizationPolicy", optional: true),
    kind!("RequestAuthentication", "requestauthentication", "requestauthentications", "security.istio.io", "v1beta1" =>
        "istio/security/v1beta1/requestauthentications", "istio.security.v1beta1.RequestAuthentication", optional: true),
    kind!("PeerAuthentication", "peerauthentication", "peerauthentications", "security.istio.io", "v1beta1" =>
        "istio/security/v1beta1/peerauthentications", "istio.security.v1beta1.PeerAuthentication", optional: true),
    kind!("rule", "rule", "rules", "config.istio.io", "v1alpha2" =>
        "istio/policy/v1beta1/rules", "istio.policy.v1beta1.Rule"),
    kind!("attributemanifest", "attributemanifest", "attributemanifests", "config.istio.io", "v1alpha2" =>
        "istio/policy/v1beta1/attributemanifests", "istio.policy.v1beta1.AttributeManifest"),
    kind!("instance", "instance", "instances", "config.istio.io", "v1alpha2" =>
        "istio/policy/v1beta1/instances", "istio.policy.v1beta1.Instance"),
    kind!("handler", "handler", "handlers", "config.istio.io", "v1alpha2" =>
        "istio/policy/v1beta1/handlers", "istio.policy.v1beta1.Handler"),
    kind!("template", "template", "templates", "config.istio.io", "v1alpha2" => "istio/config/v1alpha2/templates", STRUCT),
    kind!("adapter", "adapter", "adapters", "config.istio.io", "v1alpha2" => "istio/config/v1alpha2/adapters", STRUCT),
    legacy!("apikey", "apikeys"),
    legacy!("authorization", "authorizations"),
    legacy!("bypass", "bypasses"),
    legacy!("checknothing", "checknothings"),
    legacy!("circonus", "circonuses"),
    legacy!("cloudwatch", "cloudwatches"),
    legacy!("denier", "deniers"),
    legacy!("dogstatsd", "dogstatsds"),
    legacy!("edge", "edges"),
    legacy!("fluentd", "fluentds"),
    legacy!("kubernetes", "kuberneteses"),
    legacy!("kubernetesenv", "kubernetesenvs"),
    legacy!("listchecker", "listcheckers"),
    legacy!("listentry", "listentries"),
    legacy!("logentry", "logentries"),
    legacy!("memquota", "memquotas"),
    legacy!("metric", "metrics"),
    legacy!("noop", "noops"),
    legacy!("opa", "opas"),
    legacy!("prometheus", "prometheuses"),
    legacy!("quota", "quotas"),
    legacy!("rbac", "rbacs"),
    legacy!("redisquota", "redisquotas"),
    legacy!("reportnothing", "reportnothings"),
    legacy!("signalfx", "signalfxs"),
    legacy!("solarwinds", "solarwindses"),
    legacy!("stackdriver", "stackdrivers"),
    legacy!("statsd", "statsds"),
    legacy!("stdio", "stdios"),
    legacy!("tracespan", "tracespans"),
    legacy!("zipkin", "zipkins"),
    Kind { collection: MESH_CONFIG, input: Some(MESH_CONFIG), message: "istio.mesh.v1alpha1.MeshConfig", body: Body::Object, ..SYNTHETIC },
    core!("Service", "service", "services", "", "v1" => "k8s/core/v1/services", "k8s.io.api.core.v1.ServiceSpec"),
    core!("Namespace", "namespace", "namespaces", "", "v1" => "k8s/core/v1/namespaces", "k8s.io.api.core.v1.NamespaceSpec",
        cluster_scoped: true),
    core!("Node", "node", "nodes", "", "v1" => "k8s/core/v1/nodes", "k8s.io.api.core.v1.NodeSpec", cluster_scoped: true),
    core!("Pod", "pod", "pods", "", "v1" => "k8s/core/v1/pods", "k8s.io.api.core.v1.Pod", body: Body::Object),
    core!("Endpoints", "endpoints", "endpoints", "", "v1" => "k8s/core/v1/endpoints", "k8s.io.api.core.v1.Endpoints",
        body: Body::Object),
    core!("Ingress", "ingress", "ingresses", "extensions", "v1beta1" => "k8s/extensions/v1beta1/ingresses",
        "k8s.io.api.extensions.v1beta1.IngressSpec"),
];

/// Kinds that analyzers read beside the others. No sink sees them.
#[rustfmt::skip]
static ANALYZED: &[Kind] = &[
    core!("CustomResourceDefinition", "customresourcedefinition", "customresourcedefinitions", "apiextensions.k8s.io", "v1beta1" =>
        "k8s/apiextensions.k8s.io/v1beta1/customresourcedefinitions",
        "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1beta1.CustomResourceDefinition",
        body: Body::Object, cluster_scoped: true),
    core!("Deployment", "deployment", "deployments", "apps", "v1" => "k8s/apps/v1/deployments", "k8s.io.api.apps.v1.Deployment",
        body: Body::Object),
    core!("Secret", "secret", "secrets", "", "v1" => "k8s/core/v1/secrets", "k8s.io.api.core.v1.Secret", body: Body::Object),
    core!("ConfigMap", "configmap", "configmaps", "", "v1" => "k8s/core/v1/configmaps", "k8s.io.api.core.v1.ConfigMap",
        body: Body::Object),
];

/// Every kind and collection that sinks may see.
pub fn kinds() -> &'static [Kind] {
    KINDS
}

/// The kinds that only analyzers read; none of [`kinds`].
pub fn analyzed_kinds() -> &'static [Kind] {
    ANALYZED
}

/// The kind of a collection that sinks see.
pub fn by_collection(collection: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| kind.collection == collection)
}

/// The kind of an input collection of the second pipeline.
pub fn by_input(collection: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| kind.input == Some(collection))
}

/// The kind of an object by its group and its kind; the version does not count.
pub fn by_api(api_version: &str, kind: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|known| !kind.is_empty() && known.kind == kind && known.is_of_group(api_version))
}

/// The kind of an object by its kind alone, as the first pipeline looks it up.
pub fn by_kind(kind: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|known| !kind.is_empty() && known.kind == kind)
}

/// What a kind that is none was probably meant to be: another kind of its group, or the same kind of a group with nearly its name.
pub fn near_kind(api_version: &str, kind: &str) -> Option<String> {
    let group = api_version.rsplit_once('/').map_or("", |(group, _)| group);
    let of_istio = || KINDS.iter().filter(|known| known.origin == Origin::Istio);
    if let Some(known) = of_istio().find(|known| known.kind == kind && misspelling(group, known.group)) {
        return Some(format!("the API group is `{}`, not `{group}`", known.group));
    }
    let is_near = |known: &&Kind| known.kind.eq_ignore_ascii_case(kind) || misspelling(kind, known.kind);
    let known = of_istio().filter(|known| known.group == group).find(is_near)?;
    Some(format!("did you mean `{}`?", known.kind))
}

/// The kind with a type URL or the name of a message.
pub fn by_message(name: &str) -> Option<&'static Kind> {
    let name = name.rsplit_once('/').map_or(name, |(_, name)| name);
    KINDS.iter().find(|kind| kind.message == name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn collections_inputs_and_kinds_are_unique() {
        let collections: BTreeSet<_> = kinds().iter().map(|kind| kind.collection).collect();
        assert_eq!(collections.len(), kinds().len());
        let read: Vec<_> = kinds().iter().filter(|kind| !kind.kind.is_empty()).collect();
        let names: BTreeSet<_> = read.iter().map(|kind| kind.kind).collect();
        let inputs: BTreeSet<_> = read.iter().filter_map(|kind| kind.input).collect();
        assert_eq!((names.len(), inputs.len()), (read.len(), read.len()));
        assert_eq!(kinds().iter().filter(|kind| kind.origin == Origin::Legacy).count(), 31);
    }

    #[test]
    fn misspelt_kinds_and_groups_are_suggested() {
        let near = |api_version: &str, kind: &str| near_kind(api_version, kind).unwrap_or_default();
        assert_eq!(near("networking.istio.io/v1alpha3", "VirtualServce"), "did you mean `VirtualService`?");
        assert_eq!(
            near("networking.istio.oi/v1alpha3", "Gateway"),
            "the API group is `networking.istio.io`, not `networking.istio.oi`"
        );
        assert_eq!(near("networking.example.com/v1", "Gateway"), "");
        assert_eq!(near("networking.istio.io/v1alpha3", "WorkloadEntry"), "");
    }

    #[test]
    fn kinds_are_found() {
        let entry = by_api("networking.istio.io/v1", "ServiceEntry");
        assert_eq!(entry.map(|kind| kind.collection), Some("istio/networking/v1alpha3/serviceentries"));
        assert_eq!(by_api("example.com/v1", "ServiceEntry"), None);
        assert_eq!(by_api("v1", ""), None);
        assert_eq!(by_api("v1", "Service").map(Kind::api_version).as_deref(), Some("v1"));
        let binding = by_kind("ServiceRoleBinding");
        assert_eq!(binding.and_then(|kind| kind.input), Some("k8s/rbac.istio.io/v1alpha1/policy"));
        assert_eq!(by_input("k8s/rbac.istio.io/v1alpha1/policy"), binding);
        let denier = by_input("k8s/config.istio.io/v1alpha2/deniers");
        assert_eq!(denier.map(|kind| kind.collection), Some("istio/config/v1alpha2/legacy/deniers"));
        let url = by_collection("k8s/core/v1/pods").map(Kind::type_url);
        assert_eq!(url.as_deref(), Some("type.googleapis.com/k8s.io.api.core.v1.Pod"));
    }
}
