//! Checks API keys, allocates quotas and reports calls at Google Service Control.
//!
//! Checks and quotas wait for Google's answer; answers to checks are cached. Reports are handed to a delivery. A call whose check cannot be
//! made is not allowed: the handler fails, and called as Istio Mixer it denies.
//!
//! Requests and answers are those of Istio Mixer 1.0.

#[cfg(feature = "adapter-servicecontrol")]
mod cache;
#[cfg(feature = "adapter-servicecontrol")]
mod checks;
#[cfg(feature = "adapter-servicecontrol")]
mod client;
#[cfg(feature = "adapter-servicecontrol")]
mod codes;
#[cfg(feature = "adapter-servicecontrol")]
mod handler;
#[cfg(feature = "adapter-servicecontrol")]
mod operation;
#[cfg(feature = "adapter-servicecontrol")]
mod quota;
mod validate;

use mixer_attribute::SignedDuration;
use mixer_config::Diagnostics;
use mixer_engine::adapter::{
    Adapter, AdapterInfo, BackendAddress, Backends, BoundInstance, BuildError, Env, Handler,
};

use crate::full::{self, WhenFull};

mixer_config::message! {
    /// The cache of answers to checks.
    pub struct RuntimeConfig: "adapter.servicecontrol.config.RuntimeConfig" {
        /// Most answers.
        1 check_cache_size: i32 = 0;
        /// How long an answer is valid.
        2 check_result_expiration: Option<SignedDuration> = None;
    }
}

mixer_config::message! {
    /// A quota of a service.
    pub struct Quota: "adapter.servicecontrol.config.Quota" {
        /// The full name of the instance.
        1 name: String = String::new();
        /// The metric of the quota at Google; by default `name`.
        2 google_quota_metric_name: String = String::new();
        /// How long a grant is valid.
        3 expiration: Option<SignedDuration> = None;
    }
}

mixer_config::message! {
    /// A service in the mesh, and at Google.
    pub struct ServiceConfig: "adapter.servicecontrol.config.GcpServiceSetting" {
        /// Its name in the mesh, which is the `api` of its instances.
        1 mesh_service_name: String = String::new();
        /// Its name at Google.
        2 google_service_name: String = String::new();
        /// Its quotas.
        3 quotas: Vec<Quota> = Vec::new();
    }
}

mixer_config::message! {
    /// Parameters of the servicecontrol adapter.
    pub struct Params: "adapter.servicecontrol.config.Params" {
        /// The cache of answers to checks.
        1 runtime_config: Option<RuntimeConfig> = None;
        /// The key file of a service account; empty: application default credentials, or the metadata server.
        2 credential_path: String = String::new();
        /// The services.
        3 service_configs: Vec<ServiceConfig> = Vec::new();
        /// `https://HOST` of Service Control. Not in Istio Mixer, as all that follow.
        1000 endpoint: String = "https://servicecontrol.googleapis.com".to_owned();
        /// The URL that gives access tokens; empty: that of the key file.
        1001 token_endpoint: String = String::new();
        /// The URL of the metadata server; empty: `GCE_METADATA_HOST`, or the usual one.
        1002 metadata_endpoint: String = String::new();
        /// File with the trusted roots for `https`, PEM; empty: those of the system.
        1003 ca_file: String = String::new();
        /// The limit of a request.
        1004 timeout: SignedDuration = SignedDuration::from_secs(5);
        /// Size of the queue of reports in KiB.
        1005 queue_kilobytes: u32 = 4096;
        /// What happens to reports for which there is no room.
        1006 when_full: WhenFull = WhenFull::DropOldest;
        /// How long a report waits for room, with `HOLD`.
        1007 hold_timeout: SignedDuration = full::HOLD_TIMEOUT;
    }
}

/// The adapter.
pub(crate) struct ServiceControl;

impl Adapter for ServiceControl {
    const INFO: AdapterInfo = AdapterInfo {
        name: "servicecontrol",
        about: "Checks API keys, allocates quotas and reports calls at Google Service Control",
        templates: &["apikey", "quota", "servicecontrolreport"],
    };
    type Params = Params;

    fn validate(params: &Params, instances: &[BoundInstance], problems: &mut Diagnostics) {
        full::validate(params.hold_timeout, problems);
        validate::validate(params, instances, problems);
        #[cfg(not(feature = "adapter-servicecontrol"))]
        crate::left_out::diagnose("servicecontrol", problems);
    }

    fn backends(params: &Params) -> Backends {
        Backends::Addresses(vec![BackendAddress::Url(params.endpoint.clone())])
    }

    #[cfg(feature = "adapter-servicecontrol")]
    async fn build(
        params: Params,
        instances: Vec<BoundInstance>,
        env: Env,
    ) -> Result<Box<dyn Handler>, BuildError> {
        Ok(Box::new(handler::ServiceControlHandler::start(&params, &instances, &env)?))
    }

    #[cfg(not(feature = "adapter-servicecontrol"))]
    async fn build(_: Params, _: Vec<BoundInstance>, _: Env) -> Result<Box<dyn Handler>, BuildError> {
        Err(crate::left_out::refusal("servicecontrol"))
    }
}

#[cfg(test)]
#[cfg(feature = "adapter-servicecontrol")]
mod tests;
