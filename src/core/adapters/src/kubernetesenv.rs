//! Generates attributes from the pods of Kubernetes clusters: name, labels, service account, workload and service of the source and the
//! destination.
//!
//! Pods, what owns them and, if asked, services are followed in the background, a few fields of each ([`pods`]). A call looks them up in
//! memory: it waits for nothing and takes no lock. Handlers with the same parameters share one view. While changes cannot be followed, the
//! last known pods serve, and the handler is degraded; before they were listed once, calls fail. See docs/adapters.md.

#[cfg(feature = "adapter-kubernetesenv")]
mod budget;
#[cfg(feature = "adapter-kubernetesenv")]
mod cluster;
#[cfg(feature = "adapter-kubernetesenv")]
mod handler;
#[cfg(feature = "adapter-kubernetesenv")]
mod intern;
#[cfg(feature = "adapter-kubernetesenv")]
mod lookup;
#[cfg(feature = "adapter-kubernetesenv")]
mod output;
#[cfg(feature = "adapter-kubernetesenv")]
mod owners;
#[cfg(feature = "adapter-kubernetesenv")]
pub mod pods;
#[cfg(feature = "adapter-kubernetesenv")]
mod registry;
#[cfg(feature = "adapter-kubernetesenv")]
mod services;
#[cfg(feature = "adapter-kubernetesenv")]
mod view;

use mixer_attribute::SignedDuration;
use mixer_config::{Diagnostic, Diagnostics, FieldPath};
use mixer_engine::adapter::{Adapter, AdapterInfo, Backends, BoundInstance, BuildError, Env, Handler};

mixer_config::message! {
    /// Parameters of the kubernetesenv adapter.
    pub struct Params: "adapter.kubernetesenv.config.Params" {
        /// A kubeconfig file; empty: the cluster in which the server runs.
        1 kubeconfig_path: String = String::new();
        /// Without effect: changes are followed as they happen.
        2 cache_refresh_duration: SignedDuration = SignedDuration::from_secs(300);
        /// The namespace of the secrets with the kubeconfigs of more clusters; empty: that of the pod, or else `istio-system`.
        7 cluster_registries_namespace: String = String::new();
        /// How long a new handler waits for the list of all pods. Not in Istio Mixer, as all that follow.
        1000 sync_timeout: SignedDuration = SignedDuration::from_secs(10);
        /// Most memory for what is known of one cluster.
        1001 max_cache_megabytes: u32 = 256;
        /// Look for the clusters of the secrets.
        1002 remote_clusters: bool = true;
        /// Find the services of pods, and of addresses.
        1003 services: bool = false;
        /// The domain of the cluster, of the hosts of services.
        1004 cluster_domain: String = CLUSTER_DOMAIN.to_owned();
    }
}

/// The domain of a cluster whose kubelets are told no other one.
const CLUSTER_DOMAIN: &str = "cluster.local";
/// The longest domain that may have hosts.
const MAX_DOMAIN: usize = 200;

/// The longest wait for the list of all pods: other changes of the configuration wait for it.
const MAX_SYNC_TIMEOUT: SignedDuration = SignedDuration::from_secs(60);

/// The outputs of the service of a side, without its name.
const OF_SERVICES: [&str; 3] = ["service_name", "service_namespace", "service_host"];

/// The adapter.
pub(crate) struct KubernetesEnv;

impl Adapter for KubernetesEnv {
    const INFO: AdapterInfo = AdapterInfo {
        name: "kubernetesenv",
        about: "Provides platform specific functionality for the kubernetes environment",
        templates: &["kubernetes"],
    };
    type Params = Params;

    fn validate(params: &Params, instances: &[BoundInstance], problems: &mut Diagnostics) {
        let field = |name: &str| FieldPath::root().field(name);
        let wait = params.sync_timeout;
        if wait <= SignedDuration::ZERO || wait > MAX_SYNC_TIMEOUT {
            let text = format!("syncTimeout: must be above 0 and at most {MAX_SYNC_TIMEOUT}, it is {wait}");
            problems.push(Diagnostic::error("adapter-config", field("syncTimeout"), text));
        }
        if params.max_cache_megabytes == 0 {
            let text = "maxCacheMegabytes: must be above 0";
            problems.push(Diagnostic::error("adapter-config", field("maxCacheMegabytes"), text));
        }
        let path = &params.kubeconfig_path;
        if !path.is_empty() && !path.starts_with('/') {
            let text =
                format!("kubeconfigPath: `{path}` depends on the directory in which the server is started");
            let problem = Diagnostic::warning("adapter-config", field("kubeconfigPath"), text);
            problems.push(problem.with_hint("write an absolute path"));
        }
        if !is_domain(&params.cluster_domain) {
            let text = format!("clusterDomain: `{}` is no domain", params.cluster_domain);
            let problem = Diagnostic::error("adapter-config", field("clusterDomain"), text);
            problems.push(problem.with_hint(format!("for example `{CLUSTER_DOMAIN}`")));
        }
        let reading = instances.iter().find_map(|instance| Some((&instance.name, service_output(instance)?)));
        if let Some((instance, output)) = reading.filter(|_| !params.services) {
            let text = format!("services: `$out.{output}` of {instance} is never set without it");
            let problem = Diagnostic::warning("adapter-config", field("services"), text);
            problems.push(problem.with_hint("write `services: true`"));
        }
        #[cfg(not(feature = "adapter-kubernetesenv"))]
        crate::left_out::diagnose("kubernetesenv", problems);
    }

    fn backends(_: &Params) -> Backends {
        Backends::AskHandler
    }

    #[cfg(feature = "adapter-kubernetesenv")]
    async fn build(
        params: Params,
        instances: Vec<BoundInstance>,
        env: Env,
    ) -> Result<Box<dyn Handler>, BuildError> {
        Ok(Box::new(handler::KubernetesHandler::start(&params, &instances, &env).await?))
    }

    #[cfg(not(feature = "adapter-kubernetesenv"))]
    async fn build(_: Params, _: Vec<BoundInstance>, _: Env) -> Result<Box<dyn Handler>, BuildError> {
        Err(crate::left_out::refusal("kubernetesenv"))
    }
}

/// An output of services that the bindings of an instance read.
fn service_output(instance: &BoundInstance) -> Option<&str> {
    let read = instance.read_outputs.iter().filter_map(|at| instance.template.output.get(*at));
    read.map(|output| &*output.name).find(|name| {
        let of_side = name.strip_prefix("source_").or_else(|| name.strip_prefix("destination_"));
        of_side.is_some_and(|name| OF_SERVICES.contains(&name))
    })
}

/// Whether it is a domain as Kubernetes takes it, in lower case and without a dot at its end.
fn is_domain(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(is_inner)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    text.len() <= MAX_DOMAIN && text.split('.').all(is_label)
}

#[cfg(test)]
#[cfg(feature = "adapter-kubernetesenv")]
mod tests;
