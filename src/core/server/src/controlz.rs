//! Connects ControlZ to a running server.

use std::sync::Arc;

use super::{Controls, ServerOptions};
use mixer_api::load_shedding::LoadSheddingMode;
use mixer_envoy::{DecisionCacheStatus, EnvoyShared};
use mixer_introspect::outcomes::Shedding;
use mixer_introspect::{Action, CacheStatus, Engine, EnvoyServices, Guard, Introspection, Program};
use mixer_net::http::LargeAnswers;
use mixer_net::registry::ConnectionInfo;

/// The sources and actions of ControlZ.
pub(super) fn introspection(
    controls: &Arc<Controls>,
    options: &ServerOptions,
    guard: Guard,
    large_answers: Arc<LargeAnswers>,
) -> (Introspection, Engine) {
    let readiness = controls.health.readiness.clone();
    let degradations = controls.health.degradations.clone();
    let parts = Introspection {
        metrics: Arc::clone(&controls.metrics),
        log: controls.log.clone(),
        conditions: Arc::new(move || readiness.emitters()),
        degradations,
        actions: actions(controls),
        settings: options.settings_in_effect(),
        guard,
        scopes_as_istio: options.introspection.scopes_as_istio,
        large_answers,
        program: Program::mixer(&controls.runtime),
    };
    let engine = Engine {
        runtime: Arc::clone(&controls.runtime),
        store: Arc::clone(&controls.store),
        connections: Arc::clone(controls.workers.registry()),
        envoy: controls.envoy.clone().map(|shared| Arc::new(EnvoyView(shared)) as Arc<dyn EnvoyServices>),
        shedding: shedding(options),
    };
    (parts, engine)
}

/// What load shedding does with calls above its limits.
pub(super) fn shedding(options: &ServerOptions) -> Shedding {
    match options.load_shedding.mode {
        LoadSheddingMode::Disabled => Shedding::Disabled,
        LoadSheddingMode::LogOnly => Shedding::LogOnly,
        LoadSheddingMode::Enforce => Shedding::Enforce,
    }
}

/// What ControlZ reads of the services for Envoy.
struct EnvoyView(Arc<EnvoyShared>);

impl EnvoyServices for EnvoyView {
    fn cache(&self) -> Option<CacheStatus> {
        let DecisionCacheStatus { entries, limits, counters } = self.0.cache_status()?;
        Some(CacheStatus::new(entries, limits, counters))
    }

    fn nodes(&self) -> Vec<(String, Arc<str>)> {
        self.0.nodes()
    }

    fn http_connections(&self) -> Vec<Arc<ConnectionInfo>> {
        self.0.http_connections().list()
    }

    fn http_connections_total(&self) -> u64 {
        self.0.http_connections().total()
    }

    fn unlimited(&self) -> mixer_introspect::Unlimited {
        let mixer_envoy::Unlimited { groups, others } = self.0.unlimited();
        let of = |group: mixer_envoy::UnlimitedCalls| {
            let mixer_envoy::UnlimitedCalls { domain, keys, why, calls, last } = group;
            mixer_introspect::UnlimitedCalls { domain, keys, why, calls, last }
        };
        let groups = groups.into_iter().map(of).collect();
        mixer_introspect::Unlimited {
            groups,
            others,
            cure: mixer_envoy::UNLIMITED_CURE,
            uncharged: self.0.uncharged(),
            uncharged_cure: mixer_envoy::UNCHARGED_CURE,
        }
    }
}

/// The signals and their effects.
fn actions(controls: &Arc<Controls>) -> Vec<Action> {
    type Act = fn(&Controls);
    let table: [(&'static str, &'static str, Act); 4] = [
        (
            "SIGHUP",
            "reopens log files, reloads certificates and rescans the configuration store",
            Controls::reload,
        ),
        ("SIGUSR1", "rotates the log", Controls::rotate_log),
        ("SIGUSR2", "writes snapshot, routes, workers and handlers to the log", Controls::dump_to_log),
        ("SIGTERM", "stops gracefully: drains calls, closes handlers, removes files", |controls| {
            controls.request_stop("ControlZ")
        }),
    ];
    let action = |(name, about, act): (&'static str, &'static str, Act)| {
        let controls = Arc::clone(controls);
        Action { name, about, run: Arc::new(move || act(&controls)) }
    };
    table.into_iter().map(action).collect()
}
