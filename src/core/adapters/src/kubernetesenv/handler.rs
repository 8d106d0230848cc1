//! The handler of the kubernetesenv adapter.

use std::path::PathBuf;
use std::sync::Arc;

use mixer_attribute::{SignedDuration, Value};
use mixer_base::metrics::{Collect, Collected, Counter, Family};
use mixer_engine::adapter::{
    BoundInstance, BuildError, Env, Generated, HandleGenerate, Handler, HandlerError, HandlerStatus,
    Instance, Reply,
};

use super::Params;
use super::cluster::{Scope, Unknown};
use super::lookup::Wanted;
use super::output::{self, FIELDS, Found, Outputs};
use super::view::{Source, View, Views};
use crate::AdapterOptions;

/// The namespace of the secrets if nothing says another one.
const REGISTRIES: &str = "istio-system";

/// A built kubernetesenv adapter.
pub(super) struct KubernetesHandler {
    shown: Arc<Shown>,
    /// One a bound instance.
    inputs: Vec<Inputs>,
    found: Counter,
    missing: Counter,
    failed: Counter,
    /// Addresses of services, if they are looked for.
    services: Option<Counter>,
    /// The domain of the cluster.
    domain: Box<str>,
}

/// What the metrics show.
struct Shown {
    handler: Arc<str>,
    view: Arc<View>,
}

/// Positions of the fields of an instance, and of the outputs of its template.
#[derive(Debug, Clone, Copy)]
struct Inputs {
    source_uid: Option<usize>,
    source_ip: Option<usize>,
    destination_uid: Option<usize>,
    destination_ip: Option<usize>,
    destination_port: Option<usize>,
    outputs: Outputs,
    /// Whether anything of their services is read.
    source_service: bool,
    destination_service: bool,
}

impl Inputs {
    fn of(instance: &BoundInstance) -> Self {
        let (source_service, destination_service) = Outputs::read_services(instance);
        Self {
            source_service,
            destination_service,
            source_uid: instance.position("source_uid"),
            source_ip: instance.position("source_ip"),
            destination_uid: instance.position("destination_uid"),
            destination_ip: instance.position("destination_ip"),
            destination_port: instance.position("destination_port"),
            outputs: Outputs::of(instance),
        }
    }
}

/// The source that parameters and environment name. compat(1.3): `KUBECONFIG` goes before the parameter, also if it is empty.
pub(super) fn source(params: &Params, variable: impl Fn(&str) -> Option<String>) -> Source {
    let path = variable("KUBECONFIG").unwrap_or_else(|| params.kubeconfig_path.clone());
    let namespace = match &*params.cluster_registries_namespace {
        "" => variable("POD_NAMESPACE").unwrap_or_else(|| REGISTRIES.to_owned()),
        namespace => namespace.to_owned(),
    };
    Source {
        kubeconfig: (!path.is_empty()).then(|| PathBuf::from(path)),
        registries: params.remote_clusters.then_some(namespace),
        scope: Scope {
            services: params.services,
            most: (params.max_cache_megabytes as usize).saturating_mul(1 << 20),
        },
    }
}

impl KubernetesHandler {
    /// Waits for the first list of all objects for a while. Without it calls fail until it is there; as in Istio Mixer, there is no handler.
    pub(super) async fn start(
        params: &Params,
        instances: &[BoundInstance],
        env: &Env,
    ) -> Result<Self, BuildError> {
        let source = source(params, |name| std::env::var(name).ok());
        Self::of(&source, &params.cluster_domain, params.sync_timeout, instances, env).await
    }

    pub(super) async fn of(
        source: &Source,
        domain: &str,
        sync_timeout: SignedDuration,
        instances: &[BoundInstance],
        env: &Env,
    ) -> Result<Self, BuildError> {
        let adapter = &*env.handler_name;
        let view = env.commons.get::<Views>().get(source, &env.commons.get());
        let view = view.map_err(|error| {
            let text = format!("could not build kubernetes client: could not retrieve kubeconfig: {error}");
            BuildError::Refused(text)
        })?;
        if !view.local().is_settled() {
            tracing::info!(target: "adapters", adapter, "Waiting for kubernetes cache sync...");
            let limit = sync_timeout.to_std_or_zero();
            let in_time = tokio::time::timeout(limit, view.local().settled()).await.is_ok();
            if in_time || view.local().is_synced() {
                tracing::info!(target: "adapters", adapter, "Cache sync successful.");
                if !view.local().has_services() {
                    let why = view.local().trouble().unwrap_or_default();
                    tracing::warn!(
                        target: "adapters", adapter,
                        "services are waited for, and calls that need them fail until then: {why}"
                    );
                }
            } else {
                let why = view.local().trouble().unwrap_or_default();
                if env.commons.get::<AdapterOptions>().as_istio_mixer {
                    let text = format!("could not create new cache controller: cache sync failure: {why}");
                    return Err(BuildError::Refused(text));
                }
                tracing::warn!(target: "adapters", adapter, "pods are waited for, and calls fail until then: {why}");
            }
        }
        let shown = Arc::new(Shown { handler: Arc::clone(&env.handler_name), view });
        let collected: Arc<dyn Collect> = Arc::clone(&shown) as _;
        env.metrics.collect_from(Arc::downgrade(&collected));
        let counter = |result: &str| env.metrics.counter(Family::KubernetesenvLookups, &[adapter, result]);
        Ok(Self {
            shown,
            inputs: instances.iter().map(Inputs::of).collect(),
            found: counter("found"),
            missing: counter("unknown"),
            failed: counter("failed"),
            services: source.scope.services.then(|| counter("service")),
            domain: domain.into(),
        })
    }

    /// What a side is; `None` also if nothing is looked for.
    fn find(
        &self,
        uid: Option<Value<'_>>,
        ip: Option<Value<'_>>,
        service: bool,
    ) -> Result<Option<Found>, HandlerError> {
        let Some(wanted) = Wanted::of(uid, ip) else { return Ok(None) };
        let found = self.shown.view.find(&wanted.with_service(service));
        match &found {
            Ok(Some(Found::Pod(_))) => self.found.increment(),
            Ok(Some(Found::Service(_))) => self.services.iter().for_each(Counter::increment),
            Ok(None) => self.missing.increment(),
            Err(_) => self.failed.increment(),
        }
        found.map_err(|Unknown(why)| HandlerError::new(why))
    }
}

impl Collect for Shown {
    fn collect(&self, out: &mut Collected) {
        let (mut pods, mut bytes, mut failures) = (0, 0, 0);
        let mut services = None::<usize>;
        self.view.each(|_, cluster| {
            pods += cluster.pods();
            services = cluster.services_known().map(|number| number + services.unwrap_or(0)).or(services);
            bytes += cluster.bytes();
            failures += cluster.failures();
        });
        let handler = [&*self.handler];
        out.add(Family::KubernetesenvPods, &handler, pods as f64);
        if let Some(services) = services {
            out.add(Family::KubernetesenvServices, &handler, services as f64);
        }
        out.add(Family::KubernetesenvCacheBytes, &handler, bytes as f64);
        out.add(Family::KubernetesenvWatchFailures, &handler, failures as f64);
    }
}

impl Handler for KubernetesHandler {
    fn as_generate(&self) -> Option<&dyn HandleGenerate> {
        Some(self)
    }

    fn status(&self) -> HandlerStatus {
        let mut notes = Vec::new();
        self.shown.view.each(|id, cluster| {
            let shown = cluster.shown();
            notes.push(("cluster", if id.is_empty() { shown } else { format!("{id}: {shown}") }));
        });
        HandlerStatus { trouble: self.degradation(), notes, ..HandlerStatus::default() }
    }

    fn degradation(&self) -> Option<String> {
        self.shown.view.trouble()
    }
}

impl HandleGenerate for KubernetesHandler {
    fn generate(&self, instance: &Instance<'_>) -> Reply<Generated> {
        let Some(inputs) = self.inputs.get(instance.bound) else {
            // All instances are bound when the handler is built.
            return Reply::Ready(Ok(Generated::default()));
        };
        let value = |position: Option<usize>| position.and_then(|at| instance.value(at));
        let destination = self.find(
            value(inputs.destination_uid),
            value(inputs.destination_ip),
            inputs.destination_service,
        );
        let source = self.find(value(inputs.source_uid), value(inputs.source_ip), inputs.source_service);
        let (destination, source) = match (destination, source) {
            (Ok(destination), Ok(source)) => (destination, source),
            (Err(error), _) | (_, Err(error)) => return Reply::Ready(Err(error)),
        };
        let mut values = Vec::with_capacity(2 * FIELDS);
        if let Some(found) = destination {
            let port = match value(inputs.destination_port) {
                Some(Value::Int64(port)) => port,
                _ => 0,
            };
            output::destination(&inputs.outputs, &found, port, &self.domain, &mut values);
        }
        if let Some(found) = source {
            output::source(&inputs.outputs, &found, &self.domain, &mut values);
        }
        Reply::Ready(Ok(Generated { values }))
    }
}
