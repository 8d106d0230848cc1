//! Connects ControlZ to a running server.

use std::sync::Arc;

use super::{Controls, IntrospectionOptions, ServerOptions};
use mixer_base::regular_file;
use mixer_introspect::{Action, Guard, Introspection};
use mixer_net::http::LargeAnswers;

/// The sources and actions of ControlZ.
pub(super) fn introspection(
    controls: &Arc<Controls>,
    options: &ServerOptions,
    guard: Guard,
    large_answers: Arc<LargeAnswers>,
) -> Introspection {
    let readiness = controls.health.readiness.clone();
    let degradations = controls.health.degradations.clone();
    Introspection {
        runtime: Arc::clone(&controls.runtime),
        store: Arc::clone(&controls.store),
        metrics: Arc::clone(&controls.metrics),
        log: controls.log.clone(),
        connections: Arc::clone(controls.workers.registry()),
        conditions: Arc::new(move || readiness.emitters()),
        degradations,
        actions: actions(controls),
        settings: options.settings_in_effect(),
        guard,
        large_answers,
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

/// Maximum size of the token file, in bytes.
const MAX_TOKEN: u64 = 64 << 10;

/// The access rules of ControlZ. Errors: the token cannot be read.
pub(super) fn guard(settings: &IntrospectionOptions) -> Result<Guard, String> {
    let file = &settings.token_file;
    let token = if file.as_os_str().is_empty() {
        None
    } else {
        let text = regular_file::read_text(file, MAX_TOKEN)
            .map_err(|e| format!("token file {}: {e}", file.display()))?;
        let token = text.trim();
        if token.is_empty() {
            return Err(format!("token file {} is empty", file.display()));
        }
        Some(token.to_owned())
    };
    // A loopback listener also permits revealing; known once it is bound.
    let may_reveal = token.is_some() && !settings.read_only;
    Ok(Guard { hosts: settings.allowed_hosts.clone(), token, read_only: settings.read_only, may_reveal })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_file_is_a_regular_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        let settings = IntrospectionOptions { token_file: path.clone(), ..IntrospectionOptions::default() };
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let error = guard(&settings).map(|_| ()).unwrap_err();
        assert!(error.ends_with(": not a regular file but a FIFO"), "{error}");
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, " secret\n").unwrap();
        assert_eq!(guard(&settings).map(|guard| guard.token), Ok(Some("secret".to_owned())));
    }
}
