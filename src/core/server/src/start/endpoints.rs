//! The listening sockets of a server: bound or inherited, served and closed.

use std::sync::Arc;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::{HTTP_GRACE, Start};
use crate::activation::{Endpoint, InheritedSockets};
use crate::controls::Controls;
use crate::controlz;
use crate::error::StartError;
use crate::health::{ServedStore, Texts};
use crate::options::ServerOptions;
use crate::steps::StopStep;
use mixer_base::budget::Purpose;
use mixer_base::build_info::BuildInfo;
use mixer_base::secrets::mask_address;
use mixer_base::task::Task;
use mixer_engine::runtime::OnConfigError;
use mixer_envoy::EndpointContext;
use mixer_envoy::http_endpoint::HttpListeners;
use mixer_introspect::NOT_STARTED_CURE;
use mixer_introspect::monitor::{self, Profiles};
use mixer_net::accepted::Accepted;
use mixer_net::address::ListenAddress;
use mixer_net::descriptors::DescriptorPlan;
use mixer_net::http::{self, HttpLimits, LargeAnswers};
use mixer_net::listener::{ListenError, Listener, inherit_tcp};
use mixer_net::tls::ServerTls;
use mixer_net::workers::WorkerGroup;

impl Start<'_> {
    /// Step 8: the API socket, inherited or bound.
    pub(super) fn listen(&mut self, address: &ListenAddress) -> Result<Listener, StartError> {
        let refuse = |e: String| StartError::because("unable to listen", e);
        if let Some(socket) = self.inherited.grpc.take() {
            tracing::info!("API socket inherited: {address}");
            return Listener::inherit(socket).map_err(|e| refuse(e.to_string()));
        }
        if let ListenAddress::Unix(path) = address {
            // compat(1.3): mixs takes the socket of another server; pinned by the test of it in server/sockets.rs.
            if !self.options.problems_as_istio_mixer {
                self.effects.refuse_served_socket(path).map_err(|e| refuse(e.to_string()))?;
            }
            self.effects.remove_socket(path)?;
        }
        self.effects.listen(address, self.options.socket_mode).map_err(|e| refuse(e.to_string()))
    }

    /// The socket of an HTTP endpoint, inherited or bound.
    fn listen_http(&mut self, endpoint: Endpoint, address: &str) -> Result<TcpListener, ListenError> {
        match self.inherited.take_http(endpoint) {
            Some(socket) => inherit_tcp(socket).map_err(|e| ListenError(e.to_string())),
            None => self.effects.listen_http(endpoint, address),
        }
    }

    /// Warns of settings without effect. Istio Mixer has no such warnings.
    pub(super) fn tell_lost_settings(&self) {
        // compat(1.3): pinned by the cases of cli/ that compare the whole log.
        if self.options.problems_as_istio_mixer {
            return;
        }
        let inherited = replaced(&self.inherited, self.options);
        let lost = self.options.without_effect(self.inherited.introspection.is_some());
        for lost in lost.iter().chain(&inherited) {
            tracing::warn!("{lost}");
        }
    }

    /// Sockets of the service manager that nothing would serve: their clients would wait for ever. Errors: there is one.
    pub(super) fn refuse_unserved_sockets(&self) -> Result<(), StartError> {
        let name = match (&self.inherited.envoy, &self.inherited.envoy_rate_limits) {
            _ if self.options.envoy_bridge => return Ok(()),
            (Some(_), _) => "envoy",
            (None, Some(_)) => "envoy-ratelimit",
            (None, None) => return Ok(()),
        };
        let text = format!("the inherited socket `{name}` is not served: it needs --envoy-bridge=true");
        Err(StartError::because("unable to listen", text))
    }

    /// A socket of Envoy's services over HTTP, if configured.
    fn listen_envoy(&mut self, endpoint: Endpoint) -> Result<Option<TcpListener>, StartError> {
        let (address, is_inherited) = match endpoint {
            Endpoint::Envoy => (&self.options.envoy_http_address, self.inherited.envoy.is_some()),
            _ => (&self.options.envoy_ratelimit_http_address, self.inherited.envoy_rate_limits.is_some()),
        };
        if address.is_empty() && !is_inherited {
            return Ok(None);
        }
        let listener = self.listen_http(endpoint, address).map_err(|e| {
            StartError::new(format!(
                "unable to setup the HTTP endpoint for Envoy: unable to listen on socket: {e}"
            ))
        })?;
        Ok(Some(listener))
    }

    /// HTTP external authorization, and rate limits over HTTP, if configured.
    pub(super) fn start_envoy_http(&mut self, envoy: &EndpointContext) -> Result<(), StartError> {
        let listeners = HttpListeners {
            checks: self.listen_envoy(Endpoint::Envoy)?,
            rate_limits: self.listen_envoy(Endpoint::EnvoyRateLimits)?,
        };
        if listeners.checks.is_none() && listeners.rate_limits.is_none() {
            return Ok(());
        }
        let name = self.effects.thread_name("envoy-http");
        let stop = CancellationToken::new();
        let thread =
            mixer_envoy::http_endpoint::start(&name, listeners, envoy.clone(), stop.clone(), HTTP_GRACE)
                .map_err(|e| StartError::because("unable to setup the HTTP endpoint for Envoy", e))?;
        self.has_envoy_http = true;
        self.components.started(StopStep::Calls, "HTTP endpoint for Envoy", async move |_| {
            stop.cancel();
            tokio::task::spawn_blocking(move || thread.join().is_ok()).await.unwrap_or(false)
        });
        Ok(())
    }

    /// Step 17: the monitoring endpoint.
    pub(super) fn start_monitoring(&mut self, controls: &Arc<Controls>) -> Result<(), StartError> {
        tracing::info!("Starting monitor server...");
        let address = self.options.monitoring_listen_address();
        let listener = self.listen_http(Endpoint::Monitoring, &address).map_err(|e| {
            StartError::new(format!("unable to setup monitoring: unable to listen on socket: {e}"))
        })?;
        // compat(1.3): Istio Mixer does not tell where; pinned by the cases of cli/ that compare the whole log.
        if !self.options.problems_as_istio_mixer
            && let Ok(address) = listener.local_addr()
        {
            tracing::info!("health and metrics available at {address}");
        }
        // compat(1.3): Istio Mixer names who built it; pinned by the case monitoring-version.
        let version = match self.options.health_endpoints {
            true => BuildInfo::of_this_program().with_revision(),
            false => BuildInfo::stamped().short(),
        };
        let runtime = Arc::clone(&controls.runtime);
        let snapshot: monitor::SnapshotNumber = Arc::new(move || runtime.load().id().0);
        let legacy = self.options.legacy_metrics.then_some(snapshot);
        let answers = Arc::new(LargeAnswers::new(self.memory.share(Purpose::Pages)));
        // compat(1.3): Istio Mixer serves profiles to whoever reaches the port.
        let is_open = !self.options.monitoring_address.is_empty()
            || self.options.config_on_error == OnConfigError::ServeValid;
        let profiles = match self.options.profile {
            false => Profiles::Off,
            true if is_open => Profiles::Anyone,
            true => Profiles::Local,
        };
        let metrics = Arc::clone(&controls.metrics);
        let mut routes = monitor::routes(metrics, &version, profiles, legacy, answers);
        if self.options.health_endpoints {
            let store = ServedStore {
                runtime: Arc::clone(&controls.runtime),
                url: mask_address(controls.store.url()).into_owned(),
                is_default: self.options.sample_by_default,
            };
            let texts = if is_open { Texts::Anyone } else { Texts::Local };
            routes = routes.merge(controls.health.routes(store, texts));
        }
        self.serve_http(StopStep::Monitoring, "monitoring endpoint", listener, routes);
        Ok(())
    }

    /// Step 18: ControlZ. A failure is logged and does not fail the start.
    pub(super) fn start_introspection(&mut self, controls: &Arc<Controls>) {
        let settings = &self.options.introspection;
        let address = match settings.listen_address() {
            Some(address) => address,
            None if self.inherited.introspection.is_some() => String::new(),
            None => return,
        };
        let mut guard = match settings.guard() {
            Ok(guard) => guard,
            Err(error) => return tracing::error!("Unable to start ControlZ: {error}"),
        };
        match self.listen_http(Endpoint::Introspection, &address) {
            Ok(listener) => {
                settings.listening(&mut guard, listener.local_addr().ok());
                let answers = Arc::new(LargeAnswers::new(self.memory.share(Purpose::Pages)));
                let (parts, engine) = controlz::introspection(controls, self.options, guard, answers);
                let routes = mixer_introspect::routes(parts, engine);
                self.serve_http(StopStep::Introspection, "ControlZ", listener, routes);
            }
            Err(error) => tracing::error!("Unable to start ControlZ: {error}{NOT_STARTED_CURE}"),
        }
    }

    fn serve_http(
        &mut self,
        step: StopStep,
        name: &'static str,
        listener: TcpListener,
        routes: axum::Router,
    ) {
        let stop = CancellationToken::new();
        let limits = HttpLimits::for_operators(DescriptorPlan::of_process().operator);
        let task = http::serve(Task::restarted(name), listener, routes, limits, stop.clone(), HTTP_GRACE);
        self.components.started(step, name, async move |_| {
            stop.cancel();
            task.await.is_ok()
        });
    }

    /// Step 19: accepts connections.
    pub(super) fn accept(
        &mut self,
        listener: Listener,
        tls: Option<Arc<ServerTls>>,
        workers: Arc<WorkerGroup>,
    ) {
        // Cancelled when the workers start to drain.
        let stopped = workers.stopping();
        let plan = DescriptorPlan::of_process();
        // Without its HTTP endpoint, what is kept for Envoy is for the API.
        let limit = if self.has_envoy_http { plan.api } else { plan.api + plan.envoy_http };
        let listener = Arc::new(listener);
        let task = Task::essential("acceptor").spawn(stopped.clone(), move || {
            let (listener, workers) = (Arc::clone(&listener), Arc::clone(&workers));
            let (tls, stopped) = (tls.clone(), stopped.clone());
            async move {
                let serve = |connection: Accepted| {
                    let (workers, connection) = (Arc::clone(&workers), connection.with_tls(tls.clone()));
                    async move { workers.serve(connection).await }
                };
                listener.accept_all(limit, &stopped, serve).await;
            }
        });
        self.components.started(StopStep::Listener, "listener", async move |_| task.await.is_ok());
    }
}

/// The settings that the sockets replace, with the reason.
fn replaced(inherited: &InheritedSockets, options: &ServerOptions) -> Vec<String> {
    let defaults = ServerOptions::default();
    let is_api_set = (&options.address, options.port, options.socket_mode)
        != (&defaults.address, defaults.port, defaults.socket_mode);
    let is_monitoring_set = (&options.monitoring_address, options.monitoring_port)
        != (&defaults.monitoring_address, defaults.monitoring_port);
    let is_ctrlz_set = (&options.introspection.address, options.introspection.port)
        != (&defaults.introspection.address, defaults.introspection.port);
    [
        (inherited.grpc.is_some() && is_api_set, "--address, --port and --socket-mode have", "grpc"),
        (
            inherited.monitoring.is_some() && is_monitoring_set,
            "--monitoring-address and --monitoring-port have",
            "monitoring",
        ),
        (inherited.introspection.is_some() && is_ctrlz_set, "--ctrlz-address and --ctrlz-port have", "ctrlz"),
        (
            inherited.envoy.is_some() && !options.envoy_http_address.is_empty(),
            "--envoy-http-address has",
            "envoy",
        ),
        (
            inherited.envoy_rate_limits.is_some() && !options.envoy_ratelimit_http_address.is_empty(),
            "--envoy-ratelimit-http-address has",
            "envoy-ratelimit",
        ),
    ]
    .into_iter()
    .filter(|(is_replaced, ..)| *is_replaced)
    .map(|(_, flags, name)| format!("{flags} no effect: the service manager passed the socket `{name}`"))
    .collect()
}
