//! Generates attributes from the pods of Kubernetes clusters: name, labels, service account and workload of the source and the destination.
//!
//! Pods and what owns them are followed in the background, a few fields of each ([`pods`]). A call looks them up in memory: it waits for
//! nothing and takes no lock. Handlers with the same parameters share one view. While changes cannot be followed, the last known pods
//! serve, and the handler is degraded; before they were listed once, calls fail. See docs/adapters.md.

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
    }
}

/// The longest wait for the list of all pods: other changes of the configuration wait for it.
const MAX_SYNC_TIMEOUT: SignedDuration = SignedDuration::from_secs(60);

/// The adapter.
pub(crate) struct KubernetesEnv;

impl Adapter for KubernetesEnv {
    const INFO: AdapterInfo = AdapterInfo {
        name: "kubernetesenv",
        about: "Provides platform specific functionality for the kubernetes environment",
        templates: &["kubernetes"],
    };
    type Params = Params;

    fn validate(params: &Params, _: &[BoundInstance], problems: &mut Diagnostics) {
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

#[cfg(test)]
#[cfg(feature = "adapter-kubernetesenv")]
mod tests;
