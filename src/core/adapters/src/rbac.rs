//! Role-based access control: a request is allowed if a `ServiceRole` of the namespace of its service permits what it does, and a
//! `ServiceRoleBinding` gives that role to its caller. Everything else is denied.
//!
//! Roles and bindings are resources of the configuration of the server ([`RbacKinds`]), or of a directory of their own
//! ([`Params::config_store_url`]). Readers take no lock. See docs/adapters.md.

mod follow;
mod kinds;
mod pattern;
mod policy;
mod resources;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;

use mixer_attribute::SignedDuration;
use mixer_base::quote::quoted;
use mixer_base::url::{check_control, check_first_segment, scheme_end};
use mixer_config::{Diagnostic, Diagnostics, FieldPath};
use mixer_engine::adapter::{
    Adapter, AdapterInfo, Backends, BoundInstance, BuildError, CheckResult, Env, HandleCheck, Handler,
    HandlerStatus, Instance, Reply, Status,
};

use crate::authorization::{Layout, warn_incomplete};
use follow::{Following, State};
pub use kinds::RbacKinds;
use policy::{Policy, Request};

mixer_config::message! {
    /// Parameters of the rbac adapter.
    pub struct Params: "adapter.rbac.config.Params" {
        /// Where roles and bindings are: empty or `k8s://`, the configuration of the server; `fs://DIRECTORY`, that directory.
        1 config_store_url: String = "k8s://".to_owned();
        /// How long an answer may be reused.
        2 cache_duration: SignedDuration = SignedDuration::from_secs(60);
    }
}

/// PERMISSION_DENIED of `google.rpc.Code`.
const PERMISSION_DENIED: i32 = 7;
/// How often an answer may be reused.
const USES: i32 = 1_000_000_000;

/// The adapter, which is also its handler.
pub(crate) struct Rbac {
    state: Arc<ArcSwap<State>>,
    cache_duration: SignedDuration,
    layouts: Vec<Layout>,
    /// Denied requests without namespace, service, path or method.
    incomplete: AtomicU64,
}

impl Adapter for Rbac {
    const INFO: AdapterInfo = AdapterInfo {
        name: "rbac",
        about: "Role Based Access Control for Istio services",
        templates: &["authorization"],
    };
    type Params = Params;

    fn validate(params: &Params, instances: &[BoundInstance], problems: &mut Diagnostics) {
        let mut problem = |name: &str, text: String| {
            let path = FieldPath::root().field(name);
            problems.push(Diagnostic::error("adapter-config", path, text));
        };
        if let Err(error) = check_url(&params.config_store_url) {
            problem("configStoreUrl", format!("configStoreUrl: {error}"));
        }
        if params.cache_duration < SignedDuration::ZERO {
            let text =
                format!("cachingDuration: caching interval must be >= 0, it is {}", params.cache_duration);
            problem("cacheDuration", text);
        }
        warn_incomplete(instances, problems);
    }

    fn backends(_: &Params) -> Backends {
        Backends::AskHandler
    }

    async fn build(
        params: Params,
        instances: Vec<BoundInstance>,
        env: Env,
    ) -> Result<Box<dyn Handler>, BuildError> {
        let state = match &*params.config_store_url {
            url if is_of_server(url) => {
                let policy = env.resources.as_ref().and_then(|resources| resources.get::<Policy>());
                Arc::new(ArcSwap::from_pointee(State::of(policy.unwrap_or_default())))
            }
            url => Following::begin(url, &env).await?,
        };
        Ok(Box::new(Rbac {
            state,
            cache_duration: params.cache_duration,
            layouts: Layout::of_all(&instances),
            incomplete: AtomicU64::new(0),
        }))
    }
}

/// Whether a URL is that of the configuration of the server.
fn is_of_server(url: &str) -> bool {
    matches!(url, "" | "k8s://")
}

/// Checks a URL as the store does that it names, which alone knows the schemes. Errors: Go's text.
fn check_url(url: &str) -> Result<(), String> {
    let text = url.as_bytes();
    let parsed = check_control(text).and_then(|()| scheme_end(text)).and_then(|end| match end {
        Some(_) => Ok(()),
        None => check_first_segment(text),
    });
    parsed.map_err(|error| format!("parse {}: {error}", quoted(url)))
}

impl Handler for Rbac {
    fn as_check(&self) -> Option<&dyn HandleCheck> {
        Some(self)
    }

    fn status(&self) -> HandlerStatus {
        let state = self.state.load();
        let counts = state.policy.counts();
        HandlerStatus {
            trouble: state.trouble.clone(),
            notes: vec![
                ("roles", counts.roles.to_string()),
                ("bindings", counts.bindings.to_string()),
                ("incomplete requests", self.incomplete.load(Ordering::Relaxed).to_string()),
            ],
            ..HandlerStatus::default()
        }
    }

    fn degradation(&self) -> Option<String> {
        self.state.load().trouble.clone()
    }
}

impl HandleCheck for Rbac {
    fn check(&self, instance: &Instance<'_>) -> Reply<CheckResult> {
        let layout = match Layout::find(&self.layouts, instance) {
            Ok(layout) => layout,
            Err(error) => return Reply::Ready(Err(error)),
        };
        let request = Request::new(layout, instance);
        if let Some(part) = request.missing() {
            self.incomplete.fetch_add(1, Ordering::Relaxed);
            tracing::debug!(target: "adapters", instance = instance.name, "Missing {part}");
        }
        let status = match self.state.load().policy.allows(&request) {
            true => Status::default(),
            false => Status {
                code: PERMISSION_DENIED,
                message: "RBAC: permission denied.".to_owned(),
                details: Vec::new(),
            },
        };
        let valid_duration = self.cache_duration;
        Reply::Ready(Ok(CheckResult {
            status,
            valid_duration,
            valid_use_count: USES,
            ..CheckResult::default()
        }))
    }

    fn answers_version(&self) -> u64 {
        self.state.load().version
    }
}

#[cfg(test)]
mod tests;
