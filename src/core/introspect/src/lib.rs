//! ControlZ: introspection and control of a running server over HTTP.
//!
//! [`routes`] builds the endpoint from an [`Introspection`]. Pages are rendered on the server and work without the script, which only
//! refreshes, filters and handles shortcuts. Every page has a JSON form, and the JSON endpoints of Istio Mixer are kept. Reading does
//! not disturb requests: it loads the published state, sums counters and copies bounded rings.
//!
//! ```ignore
//! let router = mixer_introspect::routes(Introspection { runtime, store, metrics, log, connections, conditions, degradations, actions, settings, guard });
//! ```
//! See docs/operations.md.

mod answers;
mod assets;
mod cache;
mod callers;
mod configuration;
mod deliveries;
mod denials;
mod excerpt;
mod explain;
mod form;
mod format;
mod guard;
mod handlers;
mod history;
mod home;
mod latency;
mod memory;
mod metrics;
mod page;
mod plot;
mod pools;
mod process;
mod process_memory;
mod quantile;
mod quotas;
mod routing;
mod scopes;
mod series;
mod signals;
mod tasks;
mod trend;

use std::sync::Arc;
use std::time::SystemTime;

use axum::Router;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::routing::{MethodRouter, any, get, post, put};
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;
use tokio::sync::Semaphore;

use mixer_base::degradation::Degradations;
use mixer_base::log::Log;
use mixer_base::metrics::Metrics;
use mixer_config::store::ConfigStore;
use mixer_engine::runtime::Runtime;
use mixer_net::http::LargeAnswers;
use mixer_net::registry::ConnectionRegistry;

use form::Parameters;
pub use guard::Guard;
pub use signals::Action;

/// Maximum size of a request body.
const MAX_BODY: usize = 256 << 10;

/// A readiness condition: name and status.
pub type Condition = (String, Result<(), String>);

/// What ControlZ reads.
pub struct Introspection {
    /// The published configuration.
    pub runtime: Arc<Runtime>,
    /// The configuration store.
    pub store: Arc<dyn ConfigStore>,
    /// The metrics.
    pub metrics: Arc<Metrics>,
    /// The log, whose levels can be changed.
    pub log: Log,
    /// The open connections.
    pub connections: Arc<ConnectionRegistry>,
    /// The readiness conditions.
    pub conditions: Arc<dyn Fn() -> Vec<Condition> + Send + Sync>,
    /// What does not work as it should although the server is ready.
    pub degradations: Degradations,
    /// The operator actions.
    pub actions: Vec<Action>,
    /// The settings, as in the start banner.
    pub settings: Vec<(&'static str, String)>,
    /// Access control.
    pub guard: Guard,
    /// Bounds large answers. Other endpoints may share it.
    pub large_answers: Arc<LargeAnswers>,
}

type Shared = Arc<Server>;

/// The sources of the pages and their own state.
pub(crate) struct Server {
    parts: Introspection,
    trend: trend::Trend,
    temporary: scopes::Temporary,
    /// Each explanation takes a thread while its handlers answer.
    explanations: Arc<Semaphore>,
    answers: answers::Answers,
    started: SystemTime,
}

impl std::ops::Deref for Server {
    type Target = Introspection;

    fn deref(&self) -> &Introspection {
        &self.parts
    }
}

impl Introspection {
    /// Whether the server is ready, and why not.
    fn readiness(&self) -> (bool, String) {
        let wrong: Vec<String> = (self.conditions)()
            .into_iter()
            .filter_map(|(name, status)| status.err().map(|why| format!("{name}: {why}")))
            .collect();
        (wrong.is_empty(), wrong.join(", "))
    }

    /// compat(1.3): the page label, `executable - address`.
    fn instance(&self) -> String {
        let program = std::env::args_os().next().unwrap_or_default();
        let name = std::path::Path::new(&program)
            .file_name()
            .map_or_else(|| "mixer".to_owned(), |name| name.to_string_lossy().into_owned());
        format!("{name} - {}", process::address())
    }
}

/// The endpoint. Samples for the plots are taken only while it is in use.
pub fn routes(parts: Introspection) -> Router {
    routes_of(Arc::new(Server::new(parts)))
}

impl Server {
    fn new(parts: Introspection) -> Self {
        Self {
            trend: trend::Trend::new(&parts.metrics),
            temporary: scopes::Temporary::default(),
            explanations: Arc::new(Semaphore::new(explain::MAX_CONCURRENT)),
            answers: answers::Answers::default(),
            started: SystemTime::now(),
            parts,
        }
    }
}

fn routes_of(shared: Shared) -> Router {
    let answering = axum::middleware::from_fn_with_state(Arc::clone(&shared), answers::bounded);
    let guarding = axum::middleware::from_fn_with_state(Arc::clone(&shared), guard::guard);
    compatible_routes()
        .merge(native_routes())
        .route(
            "/{*path}",
            get(async |State(s): State<Shared>| page::not_found(&s)).fallback(async || StatusCode::NOT_FOUND),
        )
        .layer(axum::extract::DefaultBodyLimit::max(MAX_BODY))
        .layer(answering)
        .layer(guarding)
        .with_state(shared)
}

/// The value of a parameter; empty if absent.
fn parameter<'p>(parameters: &'p [(String, String)], name: &str) -> &'p str {
    parameters.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
}

/// The paths of Istio Mixer.
fn compatible_routes() -> Router<Shared> {
    let home =
        get(async |State(s): State<Shared>| home::page(&s)).head(async || StatusCode::METHOD_NOT_ALLOWED);
    let scopes_page = || {
        any(async |State(s): State<Shared>, Parameters(p): Parameters| scopes::page(&s, &p))
            .post(async |State(s): State<Shared>, body: String| scopes::change_by_form(&s, &body))
    };
    let collect = put(async |State(s): State<Shared>| memory::collect(&s).await)
        .get(async |State(s): State<Shared>| page::not_found(&s));
    let signal =
        put(signals::raise).post(signals::raise).get(async |State(s): State<Shared>| page::not_found(&s));
    let exit = put(async |State(s): State<Shared>| signals::exit(&s))
        .get(async |State(s): State<Shared>| page::not_found(&s));
    Router::new()
        .route("/", home)
        .route("/homej", get(async |State(s): State<Shared>| json(&home::json(&s))))
        .route("/homej/", get(async |State(s): State<Shared>| json(&home::json(&s))))
        .route("/homej/exit", exit)
        .route("/scopez", scopes_page())
        .route("/scopez/", scopes_page())
        .route("/scopez/{*rest}", scopes_page())
        .route("/scopej", redirect("/scopej/"))
        .route("/scopej/", get(async |State(s): State<Shared>| json(&scopes::list(&s))))
        .route("/scopej/{name}", get(scopes::read).put(scopes::change))
        .merge(topic("memz", any(async |State(s): State<Shared>| memory::page(&s))))
        .merge(topic("memj", get(async |State(s): State<Shared>| json(&memory::json(&s)))))
        .route("/memj/forcecollection", collect)
        .route("/memz/collect", post(async |State(s): State<Shared>| memory::collect_by_form(&s).await))
        .merge(topic(
            "envz",
            any(async |State(s): State<Shared>, Parameters(p): Parameters| process::environment_page(&s, &p)),
        ))
        .merge(topic(
            "envj",
            get(async |State(s): State<Shared>, Parameters(p): Parameters| {
                json(&process::environment(&s, &p))
            }),
        ))
        .merge(topic("procz", any(async |State(s): State<Shared>| process::page(&s))))
        .merge(topic("procj", get(async || json(&process::json()))))
        .merge(topic("argz", any(async |State(s): State<Shared>| process::arguments_page(&s))))
        .merge(topic("argj", get(async || json(&process::arguments()))))
        .merge(topic("versionz", any(async |State(s): State<Shared>| process::version_page(&s))))
        .merge(topic("versionj", get(async || json(&process::version()))))
        .merge(topic(
            "metricz",
            any(async |State(s): State<Shared>, Parameters(p): Parameters| metrics::page(&s, &p)),
        ))
        .merge(topic("metricj", any(async |State(s): State<Shared>| json(&metrics::json(&s)))))
        .merge(topic("signalz", any(async |State(s): State<Shared>| signals::page(&s))))
        .route("/signalj/{name}", signal)
}

/// The additional paths.
fn native_routes() -> Router<Shared> {
    Router::new()
        .route(
            "/assets/{name}",
            get(async |State(s): State<Shared>, Path(name): Path<String>| {
                assets::file(&name).unwrap_or_else(|| page::not_found(&s))
            }),
        )
        .route("/login", post(async |State(s): State<Shared>, body: String| log_in(&s, &body)))
        .route("/exit", post(async |State(s): State<Shared>| signals::exit_by_form(&s)))
        .route("/signalz/{name}", post(signals::raise_by_form))
        .merge(topic(
            "configz",
            any(async |State(s): State<Shared>, Parameters(p): Parameters| configuration::page(&s, &p)),
        ))
        .merge(topic(
            "diagnosticsj",
            get(async |State(s): State<Shared>| {
                answers::of_snapshot(&s, "diagnosticsj", configuration::diagnostics)
            }),
        ))
        .route(
            "/configz/resource",
            get(async |State(s): State<Shared>, Parameters(p): Parameters| configuration::resource(&s, &p)),
        )
        .merge(topic(
            "historyz",
            any(async |State(s): State<Shared>, Parameters(p): Parameters| history::page(&s, &p)),
        ))
        .merge(topic("historyj", get(async |State(s): State<Shared>| json(&history::json(&s)))))
        .route(
            "/historyz/diff",
            get(async |State(s): State<Shared>, Parameters(p): Parameters| history::diff_page(&s, &p)),
        )
        .merge(topic(
            "routesz",
            any(async |State(s): State<Shared>, Parameters(p): Parameters| routing::page(&s, &p)),
        ))
        .merge(topic(
            "routesj",
            get(async |State(s): State<Shared>| answers::of_snapshot(&s, "routesj", routing::json)),
        ))
        .merge(topic(
            "snapshotj",
            get(async |State(s): State<Shared>, Parameters(p): Parameters| {
                let reveals = process::reveals(&s, &p);
                let name = if reveals { "snapshotj, revealed" } else { "snapshotj" };
                answers::of_snapshot(&s, name, |published| configuration::json(published, reveals))
            }),
        ))
        .merge(topic("explainz", any(explain::page)))
        .merge(topic(
            "handlerz",
            any(async |State(s): State<Shared>, Parameters(p): Parameters| handlers::page(&s, &p)),
        ))
        .merge(topic("handlerj", get(async |State(s): State<Shared>| json(&handlers::json(&s)))))
        .merge(topic("deliveryz", any(async |State(s): State<Shared>| deliveries::page(&s))))
        .merge(topic("deliveryj", get(async || json(&deliveries::json()))))
        .merge(topic("taskz", any(async |State(s): State<Shared>| tasks::page(&s))))
        .merge(topic("taskj", get(async || json(&tasks::json()))))
        .route(
            "/taskz/panic",
            post(async |State(s): State<Shared>, body: String| tasks::panic_by_form(&s, &body)),
        )
        .merge(topic("poolz", any(async |State(s): State<Shared>| pools::page(&s))))
        .merge(topic("poolj", get(async |State(s): State<Shared>| json(&pools::json(&s)))))
        .merge(topic("quotaz", any(async |State(s): State<Shared>| quotas::page(&s))))
        .merge(topic("quotaj", get(async |State(s): State<Shared>| json(&quotas::json(&s)))))
        .merge(topic("cachez", any(async |State(s): State<Shared>| cache::page(&s))))
        .merge(topic("cachej", get(async |State(s): State<Shared>| json(&cache::json(&s)))))
        .merge(topic(
            "callerz",
            any(async |State(s): State<Shared>, Parameters(p): Parameters| callers::page(&s, &p)),
        ))
        .merge(topic("callerj", get(async |State(s): State<Shared>| json(&callers::json(&s)))))
        .merge(topic(
            "denialz",
            any(async |State(s): State<Shared>, Parameters(p): Parameters| denials::page(&s, &p)),
        ))
        .merge(topic("denialj", get(async |State(s): State<Shared>| json(&denials::json(&s)))))
        .merge(topic("latencyz", any(async |State(s): State<Shared>| latency::page(&s))))
        .merge(topic("latencyj", get(async |State(s): State<Shared>| json(&latency::json(&s)))))
}

/// A topic is served at its path with a trailing slash; without the slash it redirects.
fn topic(name: &str, method: MethodRouter<Shared>) -> Router<Shared> {
    let path = format!("/{name}/");
    Router::new().route(&format!("/{name}"), redirect(&path)).route(&path, method)
}

fn redirect(to: &str) -> MethodRouter<Shared> {
    let location = HeaderValue::from_str(to).unwrap_or(HeaderValue::from_static("/"));
    any(async move || (StatusCode::MOVED_PERMANENTLY, [(header::LOCATION, location)]))
}

/// Redirects to the page after a form was submitted.
fn back(to: &str) -> Response {
    Redirect::to(to).into_response()
}

fn log_in(server: &Server, body: &str) -> Response {
    let given = form::value(body, "token");
    match server.guard.log_in(&given) {
        Some(cookie) => ([(header::SET_COOKIE, cookie)], Redirect::to("/")).into_response(),
        None => page::login(true),
    }
}

/// A JSON response.
fn json<T: Serialize>(value: &T) -> Response {
    match serde_json::to_string_pretty(value) {
        Ok(text) => json_text(text),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

fn json_text(text: impl axum::response::IntoResponse) -> Response {
    let kind = HeaderValue::from_static("application/json; charset=utf-8");
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}

/// A plain text response.
fn plain(status: StatusCode, text: String) -> Response {
    (status, [(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response()
}

#[cfg(test)]
mod tests;
