//! Liveness and readiness: the conditions and their consumers.
//!
//! One [`Health`] serves the probe files, `/healthz` and `/readyz`, the gRPC health service and the service manager. A server is ready
//! while a configuration that may answer serves; what else is wrong is a [degradation](Degradations).
//!
//! | condition | of | available while |
//! | --- | --- | --- |
//! | `server` | liveness | calls are accepted |
//! | `workers` | liveness | every worker's event loop makes progress |
//! | `dispatcher` | readiness | the configuration store is followed |
//! | `configuration` | readiness | a configuration that may answer serves |
//! | `tasks` | readiness | no task that calls need is down |
//! | `socket` | readiness | clients reach the unix socket of the API by its path, if it has one |
//!
//! | component | degraded while |
//! | --- | --- |
//! | `calls` | most of the last calls of a service failed |
//! | `config-cache` | the cache of the last good configuration is not what it should be |
//! | `configuration` | resources serve in their previous version, or what has an error does not serve |
//! | `enforcement` | checks or rate limits are answered OK whatever was decided: shadow mode |
//! | `handlers` | handlers answer otherwise than their configuration says, or their calls fail |
//! | `log` | a log target cannot be written |
//! | `recording` | a recording of requests is full, and records nothing more |
//! | `store` | the configuration store cannot be read |
//! | `store-empty` | nothing is configured, and every call is allowed |
//! | `tasks` | a task is down that calls do not need |
//!
//! See docs/operations.md.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::Request;
use axum::routing::get;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::faults::{self, FaultSender};
use mixer_attribute::Timestamp;
use mixer_base::degradation::Degradations;
use mixer_base::log::Log;
use mixer_base::probe::{Availability, ProbeEmitter};
use mixer_base::secrets::mask_text;
use mixer_config::store::{ConfigStore, Outage};
use mixer_config::{Diagnostic, Severity};
use mixer_engine::decision::DecisionLog;
use mixer_engine::runtime::{OnConfigError, Published, Runtime, UnenforcedSince, is_about_serving, place_of};
use mixer_engine::snapshot::{FailureAnswer, FailureMode, HandlerConfig, Snapshot, UnenforcedScope};
use mixer_introspect::monitor;
use mixer_introspect::outcomes::RecentOutcomes;
use mixer_net::socket_file::SocketWatch;
use mixer_net::workers::WorkerGroup;

/// Interval of checks.
const LOOK: Duration = Duration::from_secs(1);
/// Age of the last heartbeat at which an event loop counts as stuck.
pub(super) const STUCK: Duration = Duration::from_secs(10);

/// Liveness, readiness and degradations of a server. Clones share state.
#[derive(Debug, Clone)]
pub struct Health {
    /// Liveness: a server that is not alive should be restarted.
    pub liveness: Availability,
    /// Readiness: a server that is not ready should get no traffic.
    pub readiness: Availability,
    /// What does not work as it should although the server is ready.
    pub degradations: Degradations,
}

impl Health {
    /// Neither alive nor ready. The names are those of the probe files.
    pub fn new(liveness: impl Into<String>, readiness: impl Into<String>) -> Self {
        Self {
            liveness: Availability::new(liveness),
            readiness: Availability::new(readiness),
            degradations: Degradations::default(),
        }
    }

    /// `/healthz` and `/readyz` for an HTTP endpoint: 200 or 503, with the status of every emitter. `/readyz?verbose` adds the
    /// degradations, and the configuration of `store`. Clients on other hosts get places of errors, not their texts, unless `texts` are for
    /// anyone.
    pub(super) fn routes(&self, store: ServedStore, texts: Texts) -> Router {
        let (liveness, readiness) = (self.liveness.clone(), self.readiness.clone());
        let degradations = self.degradations.clone();
        let ready = async move |request: Request| {
            let (request, _) = request.into_parts();
            let verbose = monitor::is_verbose(request.uri.query());
            let is_whole = texts == Texts::Anyone || monitor::is_local(&request);
            let published = store.runtime.load_full();
            let reduced = if is_whole { None } else { place_of_refusal(&published) };
            let more = || {
                let mut members = [
                    ("degraded", monitor::degraded(&degradations)),
                    ("configuration", configuration(&store, &published)),
                    ("notEnforced", not_enforced(&published)),
                    ("loads", monitor::loads()),
                ];
                if !is_whole {
                    members.iter_mut().for_each(|(name, value)| without_texts(name, value));
                }
                members
            };
            // The condition may be older than what is published.
            let is_told = |name: &str, why: &str| {
                is_whole
                    || name != CONFIGURATION
                    || why == NOT_PUBLISHED
                    || why.starts_with("waiting for ")
                    || reduced.is_none() && published.withheld.as_deref() == Some(why)
            };
            let shown = |name: &str, why: String| match &reduced {
                _ if is_told(name, &why) => why,
                Some(reduced) => reduced.clone(),
                None => FOR_THIS_HOST.to_owned(),
            };
            monitor::health_report("readiness", &readiness, shown, verbose.then(more).into_iter().flatten())
        };
        let alive =
            async move || monitor::health_report("liveness", &liveness, |_, why| why, std::iter::empty());
        Router::new().route("/healthz", get(alive)).route("/readyz", get(ready))
    }
}

/// Who gets the texts of errors, which may have constants of conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Texts {
    /// Clients on this host.
    Local,
    /// Whoever reaches the port.
    Anyone,
}

/// The condition that tells whether a configuration serves.
pub(super) const CONFIGURATION: &str = "configuration";
/// Its state before there was one.
pub(super) const NOT_PUBLISHED: &str = "not published yet";

/// Stands for texts that clients on other hosts do not get.
const FOR_THIS_HOST: &str = "its text is for clients on this host";

/// What clients on other hosts get of why nothing serves; `None` if an error of the configuration is not the reason.
fn place_of_refusal(published: &Published) -> Option<String> {
    published.withheld.as_ref()?;
    let place = place_of(published.first_error()?);
    Some(format!("no configuration is served: {place}; {FOR_THIS_HOST}"))
}

/// Takes the texts of errors from a member of the document.
fn without_texts(name: &str, value: &mut serde_json::Value) {
    let hide = |parent: &mut serde_json::Value, name: &str| {
        if let Some(text) = parent.get_mut(name).filter(|text| text.is_string()) {
            *text = FOR_THIS_HOST.into();
        }
    };
    match name {
        "degraded" => {
            for component in ["configuration", "handlers"] {
                value.get_mut(component).into_iter().for_each(|component| hide(component, "why"));
            }
        }
        "configuration" => {
            hide(value, "withheld");
            for text in ["message", "hint"] {
                value.get_mut("firstError").into_iter().for_each(|error| hide(error, text));
            }
            let kept = value.get_mut("kept").and_then(serde_json::Value::as_array_mut);
            kept.into_iter().flatten().for_each(|kept| hide(kept, "why"));
        }
        _ => {}
    }
}

/// What `/readyz?verbose` tells of the configuration.
#[derive(Clone)]
pub(super) struct ServedStore {
    pub(super) runtime: Arc<Runtime>,
    /// The URL of the store, without passwords.
    pub(super) url: String,
    /// Whether that is the default, because none is given.
    pub(super) is_default: bool,
}

/// Maximum number of resources in `/readyz?verbose`.
const LISTED: usize = 100;

/// What serves: the snapshot, why there is none, the first error, and the resources in their previous version.
fn configuration(store: &ServedStore, published: &Published) -> serde_json::Value {
    let kept = published.kept.iter().take(LISTED).map(|kept| {
        let (resource, since) = (kept.key.to_string(), kept.since.rfc3339_micros().to_string());
        serde_json::json!({ "resource": resource, "since": since, "why": kept.why })
    });
    serde_json::json!({
        "store": store.url,
        "onConfigError": store.runtime.on_config_error().name(),
        "isDefaultStore": store.is_default,
        "snapshot": published.id().0,
        "withheld": published.withheld.as_deref(),
        "firstError": first_error(published),
        "keptResources": published.kept.len(),
        "kept": kept.collect::<Vec<_>>(),
    })
}

/// What decides about calls without being enforced: how much, and the first.
fn not_enforced(published: &Published) -> serde_json::Value {
    let all = published.unenforced();
    let listed = all.iter().take(LISTED).map(|UnenforcedSince { what, since }| {
        let scope = match what.scope {
            UnenforcedScope::Service => "service",
            UnenforcedScope::Limits => "limits",
            UnenforcedScope::Rule => "rule",
        };
        serde_json::json!({
            "scope": scope,
            "what": what.what,
            "resource": what.resource.to_string(),
            "place": what.place,
            "since": Timestamp::from_system_time(since.time()).rfc3339_micros().to_string(),
            "ageSeconds": since.age().as_secs(),
        })
    });
    serde_json::json!({ "count": all.len(), "first": listed.collect::<Vec<_>>() })
}

/// The error to mend first as JSON.
fn first_error(published: &Published) -> Option<serde_json::Value> {
    let first = published.first_error()?;
    let start = first.span.map(|span| span.start).filter(|start| start.line > 0);
    let shown = |text: &str| mask_text(text).into_owned();
    Some(serde_json::json!({
        "code": first.code,
        "resource": first.resource,
        "file": first.file.as_deref(),
        "line": start.map(|start| start.line),
        "column": start.map(|start| start.column),
        "message": shown(&first.one_line()),
        "hint": first.hint.as_deref().map(shown),
    }))
}

/// The conditions that are checked every second and after each publication of a configuration, and those of tasks as soon as one
/// changes.
pub(super) struct Conditions {
    pub(super) store: Arc<dyn ConfigStore>,
    /// Where it is told what of the store cannot be used, if somebody asks.
    pub(super) faults: Option<FaultSender>,
    pub(super) on_config_error: OnConfigError,
    pub(super) configuration: (Arc<Runtime>, ProbeEmitter),
    pub(super) log: Log,
    pub(super) decisions: Option<Arc<DecisionLog>>,
    pub(super) workers: (Arc<WorkerGroup>, ProbeEmitter),
    pub(super) tasks: ProbeEmitter,
    /// The file of the API's unix socket, if it was bound by this process.
    pub(super) socket: Option<(SocketWatch, ProbeEmitter)>,
    pub(super) recent: Mutex<RecentOutcomes>,
    pub(super) degradations: Degradations,
    /// Age of the last heartbeat at which an event loop counts as stuck.
    pub(super) stuck_after: Duration,
}

impl Conditions {
    /// Checks until `stop`.
    pub(super) async fn follow(&self, stop: CancellationToken) {
        let mut tasks = mixer_base::task::changes();
        let mut looks = tokio::time::interval(LOOK);
        looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut publications = self.configuration.0.publications();
        loop {
            tokio::select! {
                () = stop.cancelled() => {
                    // What was published last is told, also if this task did not run since.
                    self.look();
                    return;
                }
                _ = looks.tick() => self.look(),
                // The sender is never dropped.
                _ = tasks.changed() => {}
                // The sender is part of the runtime, which `self` holds.
                _ = publications.changed() => self.look(),
            }
            let (needed, others) = mixer_base::task::down();
            self.degradations.set("tasks", none_of(&others));
            self.tasks.set(none_of(&needed));
        }
    }

    fn look(&self) {
        let outage = self.store.availability().err();
        let (runtime, emitter) = &self.configuration;
        let published = runtime.load_full();
        let serves = serves(&published, outage.as_ref(), self.on_config_error);
        let is_ready = serves.is_ok();
        if let Some(faults) = self.faults.as_ref().filter(|_| outage.is_none()) {
            faults::tell(faults, &published);
        }
        self.degradations
            .set("store", outage.map_or(Ok(()), |outage| Err(without_store(outage, &published, is_ready))));
        // While nothing serves there are no handlers, which tells nothing.
        let tells = |component: &str| component != "handlers" || published.withheld.is_none();
        for (component, state) in of_configuration(&published, self.on_config_error) {
            if tells(component) {
                self.degradations.set(component, state);
            }
        }
        emitter.set(serves);
        self.look_at_calls(&published);
        self.log.try_again();
        self.degradations.set("log", self.log.last_write());
        if let Some(decisions) = &self.decisions {
            self.degradations.set("decision-log", decisions.last_write());
            self.degradations.set("recording", decisions.recording());
        }
        let (workers, emitter) = &self.workers;
        emitter.set(stuck(workers, self.stuck_after));
        if let Some((watch, emitter)) = &self.socket {
            let (emitter, stopping) = (emitter.clone(), workers.stopping().clone());
            // A server that stops removes the file, after it has said so.
            watch.look(move |status| {
                if !stopping.is_cancelled() {
                    emitter.set(status);
                }
            });
        }
    }

    /// Tells while most calls fail. While nothing serves all do, which is told.
    fn look_at_calls(&self, published: &Published) {
        let mut recent = self.recent.lock();
        if published.withheld.is_some() {
            recent.forget();
            self.degradations.set("calls", Ok(()));
        } else {
            self.degradations.set("calls", recent.look(Instant::now()));
        }
    }
}

/// The states of the components that depend on what is published.
pub(super) fn of_configuration(
    published: &Published,
    on_error: OnConfigError,
) -> [(&'static str, Result<(), String>); 5] {
    let cache = published.cache_trouble.as_deref().map_or(Ok(()), |why| Err(why.to_owned()));
    [
        ("config-cache", cache),
        ("configuration", in_previous_version(published).and_then(|()| as_written(published, on_error))),
        ("enforcement", published.enforces()),
        ("handlers", as_configured(published)),
        ("store-empty", anything(published)),
    ]
}

/// Errors: that nothing is configured, or that nothing of what is configured serves.
fn anything(published: &Published) -> Result<(), String> {
    if !published.is_void() {
        return Ok(());
    }
    let has_errors = published.problems(Severity::Error) > 0;
    let left_out = published.diagnostics.iter().find(|problem| is_about_serving(problem.code));
    Err(match left_out {
        _ if has_errors => {
            "no rule and no handler serves, because of errors: every call is allowed until they are mended"
                .to_owned()
        }
        Some(problem) => format!(
            "no rule and no handler serves, and every call is allowed: {}",
            shortened(&mask_text(&problem.one_line()))
        ),
        None => "the configuration has no rule and no handler: every call is allowed".to_owned(),
    })
}

/// Errors: how many errors the configuration has that serves, and the first. With `serve-valid`, what Istio Mixer accepts serves as there.
fn as_written(published: &Published, on_error: OnConfigError) -> Result<(), String> {
    if published.withheld.is_some() {
        return Ok(());
    }
    let serves_all = on_error == OnConfigError::ServeValid;
    let is_left_out = |problem: &&Diagnostic| {
        problem.severity == Severity::Error
            && !is_about_serving(problem.code)
            && !(serves_all && problem.accepted_by_istio)
    };
    let mut errors = published.diagnostics.iter().filter(is_left_out);
    let Some(first) = errors.next() else { return Ok(()) };
    let resource = if first.resource.is_empty() { String::new() } else { format!("{}: ", first.resource) };
    let why = format!("{resource}{}", mask_text(&first.one_line()));
    let count = first.count() + errors.map(Diagnostic::count).sum::<usize>();
    let why = shortened(&why);
    Err(format!("what has an error does not serve ({}): {why}", on_error.name()) + &more(count))
}

/// How many more than the first.
fn more(count: usize) -> String {
    match count {
        0 | 1 => String::new(),
        2 => ", and 1 more error".to_owned(),
        all => format!(", and {} more errors", all - 1),
    }
}

fn none_of(problems: &[String]) -> Result<(), String> {
    if problems.is_empty() { Ok(()) } else { Err(problems.join(", ")) }
}

/// Whether a configuration that may answer serves. Errors: why not.
///
/// Without a store that was ever read, `serve-valid` answers calls without what the store has, as Istio Mixer does; like there, that
/// is not ready.
fn serves(published: &Published, outage: Option<&Outage>, on_error: OnConfigError) -> Result<(), String> {
    match (&published.withheld, outage) {
        (Some(why), _) => Err(why.to_string()),
        (None, Some(outage)) if on_error == OnConfigError::ServeValid && !outage.keeps_last => {
            Err(outage.why.clone())
        }
        _ => Ok(()),
    }
}

/// What an outage of the store means.
fn without_store(outage: Outage, published: &Published, is_ready: bool) -> String {
    let why = outage.why;
    match published.cached {
        _ if !is_ready => why,
        Some(written) => {
            format!("{why}; the configuration in --config-cache of {} serves", written.rfc3339_micros())
        }
        None => format!("{why}; the last good configuration serves"),
    }
}

/// Longest reason in a degradation, in characters: the whole is in the list of what is kept.
const REASON_LENGTH: usize = 160;

/// Errors: why the first resource serves in its previous version, and how many do.
fn in_previous_version(published: &Published) -> Result<(), String> {
    let Some(first) = published.kept.first() else { return Ok(()) };
    let why = shortened(first.cause());
    Err(match published.kept.len() {
        1 => format!("{why}: {} serves in its previous version", first.key),
        count => format!("{why}: {count} resources serve in their previous version, {} first", first.key),
    })
}

/// The beginning of a text that is too long for one line.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(REASON_LENGTH) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or(text).trim_end()),
        None => text.to_owned(),
    }
}

/// Errors: how many handlers answer otherwise than their configuration says, and why the first does.
fn as_configured(published: &Published) -> Result<(), String> {
    let all = published.routes.handlers().iter();
    let degraded: Vec<_> = all.filter_map(|handler| Some((handler, handler.degradation()?))).collect();
    let Some((first, why)) = degraded.first() else { return Ok(()) };
    let first = format!("{}: {}", first.name(), mask_text(why));
    let passing = passing(published.routes.snapshot(), degraded.iter().map(|(handler, _)| &*handler.config));
    Err(match degraded.len() {
        1 => format!("{first}{passing}"),
        count => format!("{count} handlers are degraded, {first}{passing}"),
    })
}

/// That checks of Envoy pass undecided for which one of these handlers fails, if so.
fn passing<'h>(snapshot: &Snapshot, mut degraded: impl Iterator<Item = &'h HandlerConfig>) -> String {
    let opens = |mode: &&FailureMode| mode.answer == FailureAnswer::Ok && !snapshot.shadows_checks();
    let Some(mode) = snapshot.failure_mode().filter(opens) else { return String::new() };
    match degraded.find(|handler| snapshot.fails_checks(handler)) {
        Some(handler) => {
            format!("; requests of Envoy for which {} fails pass undecided: {mode}", handler.name)
        }
        None => String::new(),
    }
}

fn stuck(workers: &WorkerGroup, stuck_after: Duration) -> Result<(), String> {
    let now = Instant::now();
    let stuck: Vec<String> = workers
        .heartbeats()
        .into_iter()
        .enumerate()
        .map(|(number, turned)| (number, now.saturating_duration_since(turned)))
        .filter(|(_, idle)| *idle > stuck_after)
        .map(|(number, idle)| format!("event loop of worker {number} blocked for {} s", idle.as_secs()))
        .collect();
    if stuck.is_empty() { Ok(()) } else { Err(stuck.join(", ")) }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;
    use mixer_api::ApiBody;
    use mixer_base::budget::Share;
    use mixer_http2::{RequestBody, RequestHead};
    use mixer_net::connection::ConnectionLimits;
    use mixer_net::peer::Peer;
    use mixer_net::service::WorkerService;

    /// Blocks its event loop while it is created.
    struct Slow;

    impl Slow {
        fn new(blocks: Duration) -> Self {
            std::thread::sleep(blocks);
            Self
        }
    }

    impl WorkerService for Slow {
        type Body = tonic::body::Body;

        fn fixed_response() -> &'static mixer_http2::FixedResponse {
            &mixer_api::grpc::OK_RESPONSE
        }

        fn failed() -> http::Response<ApiBody> {
            http::Response::new(ApiBody::Empty)
        }

        async fn call(
            self: Rc<Self>,
            _: Rc<RequestHead>,
            _: RequestBody,
            _: Rc<Peer>,
        ) -> http::Response<ApiBody> {
            http::Response::new(ApiBody::Empty)
        }
    }

    #[test]
    fn long_reasons_are_cut() {
        assert_eq!(shortened("short"), "short");
        let long = "ä".repeat(REASON_LENGTH);
        assert_eq!(shortened(&long), long);
        assert_eq!(shortened(&format!("{long}b")), format!("{long}…"));
    }

    #[tokio::test]
    async fn a_stuck_worker_fails_liveness_until_it_recovers() {
        let limits = ConnectionLimits {
            max_concurrent_streams: 1,
            keep_alive_timeout: Duration::from_secs(60),
            max_age: None,
            max_request_bytes: 1 << 20,
            memory: Arc::new(Share::new(1 << 20)),
        };
        let blocks = Duration::from_millis(600);
        let made = move |number| Slow::new(if number == 1 { blocks } else { Duration::ZERO });
        let group = WorkerGroup::start(2, "stuck", limits, CancellationToken::new(), made).unwrap();
        let workers = Arc::new(group);
        let health = Health::new("live", "ready");
        let emitter = health.liveness.emitter("workers", "uninitialized");
        // Shorter than the heartbeat interval, so idle loops miss it temporarily and the blocked one from the start.
        let stuck_after = Duration::from_millis(200);
        let look = || {
            emitter.set(stuck(&workers, stuck_after));
            health
                .liveness
                .status()
                .is_err_and(|status| status.contains("event loop of worker 1 blocked for "))
        };
        tokio::time::sleep(Duration::from_millis(350)).await;
        assert!(look(), "{:?}", health.liveness.status());
        let mut still = true;
        for _ in 0..500 {
            still = look();
            if !still {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert!(!still, "{:?}", health.liveness.status());
        assert!(workers.drain(Duration::from_secs(1)).await);
        assert!(Arc::clone(&workers).join().await);
        tokio::time::sleep(stuck_after * 2).await;
        assert_eq!(stuck(&workers, stuck_after), Ok(()), "what has ended is not blocked");
    }
}
