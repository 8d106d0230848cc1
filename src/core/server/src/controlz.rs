//! Connects ControlZ to a running server.

use std::sync::Arc;

use super::{Controls, ServerOptions};
use mixer_introspect::{Action, Engine, Guard, Introspection, Program};
use mixer_net::http::LargeAnswers;

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
        large_answers,
        program: Program::mixer(&controls.runtime),
    };
    let engine = Engine {
        runtime: Arc::clone(&controls.runtime),
        store: Arc::clone(&controls.store),
        connections: Arc::clone(controls.workers.registry()),
    };
    (parts, engine)
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
