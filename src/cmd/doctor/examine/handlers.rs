//! The backends of handlers: whether they can be reached from here, and what a server that runs says about its handlers.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;

use super::{TIMEOUT, controlz, fail, ok, warn};
use crate::cmd::doctor::finding::Finding;
use crate::cmd::output::counted;
use mixer_base::metrics::Metrics;
use mixer_base::output_file::Obstacle;
use mixer_base::secrets::mask_text;
use mixer_engine::adapter::{Commons, SystemClock};
use mixer_engine::handler::{HandlerEnvironment, ProbedHandler, probe};
use mixer_engine::snapshot::Snapshot;
use mixer_net::tls;
use mixer_server::{MetricsAddress, ServerOptions};

const CHECK: &str = "handler";
/// The limit of building one handler: longer than any waits for its backend, `syncTimeout` of `kubernetesenv` at most, so that it tells why it
/// waited.
const BUILD_TIMEOUT: Duration = Duration::from_secs(65);

/// A handler in `/handlerj/` of ControlZ.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Handler {
    name: String,
    adapter: String,
    state: String,
    trouble: Option<String>,
}

/// One finding for each handler of the configuration that has a backend: whether it can be reached. Handlers that ask their backends are built
/// for it, and closed; `is_running`: beside a server with the same settings.
pub(super) async fn probe_backends(
    options: &ServerOptions,
    snapshot: &Snapshot,
    is_running: bool,
) -> Vec<Finding> {
    tls::install_crypto_provider();
    let commons = Arc::new(Commons::of_rehearsal());
    if !is_running {
        commons.insert(Arc::new(MetricsAddress(options.metrics_address.clone())));
    }
    let environment = HandlerEnvironment {
        clock: Arc::new(SystemClock),
        runtime: tokio::runtime::Handle::current(),
        // Any free port, if the server has its own.
        metrics_port: if is_running { 0 } else { options.metrics_port },
        metrics: Arc::new(Metrics::new()),
        commons,
        build_timeout: BUILD_TIMEOUT,
    };
    probe(snapshot, &environment, TIMEOUT).await.iter().map(finding).collect()
}

fn finding(probed: &ProbedHandler) -> Finding {
    let ProbedHandler { name, adapter, decides, obstacle, found } = probed;
    let of = format!("{name} ({adapter})");
    match found {
        Ok(reached) if reached.is_empty() => ok(CHECK, format!("{of} works")),
        Ok(reached) => ok(CHECK, format!("{of}: {}", mask_text(reached))),
        Err(why) if *decides => fail(
            CHECK,
            format!("{of}: {}", mask_text(why)),
            "calls of its rules fail until it works; `mixer.dev/on-error` says what follows",
        ),
        Err(why) if matches!(obstacle, Some(Obstacle::Access(_))) => fail(
            CHECK,
            format!("{of}: {why}"),
            "its lines are lost: create the directory, writable by the user of the server, or correct the path",
        ),
        Err(why) if obstacle.is_some() => warn(
            CHECK,
            format!("{of}: {why}"),
            "lines that cannot be written are lost: free space, or choose another disk",
        ),
        Err(why) => warn(
            CHECK,
            format!("{of}: {}", mask_text(why)),
            "calls do not wait for it; what has no room in its queue is lost",
        ),
    }
}

/// One finding for each handler of a server that runs with these settings and that has a problem, and one for all others; none without
/// ControlZ, or if it does not answer.
pub(super) async fn examine_running(options: &ServerOptions) -> Vec<Finding> {
    controlz::findings(options, "/handlerj/", |all: Vec<Handler>| of_running(&all)).await
}

fn of_running(all: &[Handler]) -> Vec<Finding> {
    const CHECK: &str = "running handler";
    let live = all.iter().filter(|handler| handler.state == "live").count();
    let problems = all.iter().filter(|handler| handler.state != "live").map(|handler| {
        let Handler { name, adapter, state, trouble } = handler;
        let of = if adapter.is_empty() { name.clone() } else { format!("{name} ({adapter})") };
        let why = trouble.as_deref().unwrap_or("no reason is known");
        match state.as_str() {
            "failed" => fail(
                CHECK,
                format!("{of} is not built: {why}"),
                "its rules do nothing, or its last version serves; the log of the server says which",
            ),
            _ => warn(CHECK, format!("{of}: {why}"), "ControlZ, Handlers shows its calls and errors"),
        }
    });
    let rest = (live > 0)
        .then(|| ok(CHECK, format!("{} of the server without a problem", counted(live as u64, "handler"))));
    problems.chain(rest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::doctor::finding::CheckStatus;

    #[test]
    fn what_calls_wait_for_is_a_failure_and_what_they_do_not_wait_for_a_warning() {
        let probed = |decides, found: Result<&str, &str>| ProbedHandler {
            name: "h.ns".to_owned(),
            adapter: "redisquota".to_owned(),
            decides,
            obstacle: None,
            found: found.map(str::to_owned).map_err(str::to_owned),
        };
        for (probed, verdict, detail) in [
            (probed(true, Ok("")), CheckStatus::Ok, "h.ns (redisquota) works"),
            (probed(true, Ok("server: a:1")), CheckStatus::Ok, "h.ns (redisquota): server: a:1"),
            (probed(true, Err("a:1: refused")), CheckStatus::Fail, "h.ns (redisquota): a:1: refused"),
            (probed(false, Err("a:1: refused")), CheckStatus::Warn, "h.ns (redisquota): a:1: refused"),
        ] {
            let found = finding(&probed);
            assert_eq!((found.verdict, found.detail.as_str()), (verdict, detail));
            assert_eq!(found.hint.is_some(), verdict != CheckStatus::Ok);
        }
    }

    #[test]
    fn handlers_of_a_server_with_a_problem_are_told_one_by_one() {
        let json = r#"[{"name": "a.ns", "adapter": "denier", "state": "live", "trouble": null, "calls": 1},
            {"name": "b.ns", "adapter": "opa", "state": "troubled", "trouble": "no policy", "calls": 1},
            {"name": "c.ns", "adapter": "", "state": "failed", "trouble": "port in use", "calls": 0}]"#;
        let all: Vec<Handler> = serde_json::from_str(json).unwrap();
        let found: Vec<_> =
            of_running(&all).into_iter().map(|finding| (finding.verdict, finding.detail)).collect();
        assert_eq!(
            found,
            [
                (CheckStatus::Warn, "b.ns (opa): no policy".to_owned()),
                (CheckStatus::Fail, "c.ns is not built: port in use".to_owned()),
                (CheckStatus::Ok, "1 handler of the server without a problem".to_owned()),
            ]
        );
    }
}
