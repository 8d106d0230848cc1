//! The HTTP endpoints for operators of a running process: ControlZ, for introspection and control, and [monitoring](monitor).
//!
//! [`routes`] builds ControlZ of a server of Mixer from an [`Introspection`] and its [`Engine`]; [`console`] builds that of another program,
//! which adds its own pages to those that every process has. Pages are rendered on the server and work without the script, which only
//! refreshes, filters and handles shortcuts. Every page has a JSON form, and the JSON endpoints of Istio Mixer are kept. Reading does
//! not disturb requests: it loads the published state, sums counters and copies bounded rings.
//!
//! ```ignore
//! let parts = Introspection { metrics, log, conditions, degradations, actions, settings, guard, scopes_as_istio, large_answers, program };
//! let router = mixer_introspect::routes(parts, Engine { runtime, store, connections });
//! ```
//! See docs/operations.md.

mod answers;
mod assets;
mod cache;
mod callers;
mod calls;
mod configuration;
mod deliveries;
mod denials;
mod envoy;
mod excerpt;
mod explain;
pub mod form;
pub mod format;
mod guard;
mod handlers;
mod history;
mod home;
mod host;
mod latency;
mod limits;
mod links;
mod memory;
mod metrics;
pub mod monitor;
mod options;
pub mod outcomes;
mod page;
mod plot;
mod pools;
pub mod pprof;
mod process;
mod process_memory;
mod quantile;
mod quotas;
mod routing;
mod rule_state;
mod rules;
mod scopes;
mod series;
mod signals;
mod tasks;
mod trend;
mod unenforced;
mod withheld;

use std::sync::Arc;

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
use mixer_base::time::Moment;
use mixer_config::store::ConfigStore;
use mixer_engine::runtime::Runtime;
use mixer_net::http::LargeAnswers;
use mixer_net::registry::ConnectionRegistry;

pub use cache::CacheStatus;
pub use envoy::{EnvoyServices, Unlimited, UnlimitedCalls};
use form::Parameters;
pub use guard::Guard;
pub use options::{IntrospectionOptions, NOT_STARTED_CURE};
use outcomes::Shedding;
pub use page::{PROCESS_TOPICS, Page, Topic, TopicGroup, not_found, topic};
pub use process::reveals;
pub use signals::Action;

/// Maximum size of a request body.
const MAX_BODY: usize = 256 << 10;

/// A readiness condition: name and status.
pub type Condition = (String, Result<(), String>);

/// What ControlZ reads of any process.
pub struct Introspection {
    /// The metrics.
    pub metrics: Arc<Metrics>,
    /// The log, whose levels can be changed.
    pub log: Log,
    /// The readiness conditions.
    pub conditions: Arc<dyn Fn() -> Vec<Condition> + Send + Sync>,
    /// What does not work as it should although the process is ready.
    pub degradations: Degradations,
    /// The operator actions.
    pub actions: Vec<Action>,
    /// The settings, as in the start banner.
    pub settings: Vec<(&'static str, String)>,
    /// Access control.
    pub guard: Guard,
    /// [`IntrospectionOptions::scopes_as_istio`].
    pub scopes_as_istio: bool,
    /// Bounds large answers. Other endpoints may share it.
    pub large_answers: Arc<LargeAnswers>,
    /// What differs between programs.
    pub program: Program,
}

/// What differs between the programs that have ControlZ.
pub struct Program {
    /// The navigation, in groups.
    pub topics: &'static [TopicGroup],
    /// What the top of every page shows of the state.
    pub badge: Arc<dyn Fn() -> Option<Badge> + Send + Sync>,
    /// The number of refused calls since the start.
    pub denials: Arc<dyn Fn() -> u64 + Send + Sync>,
}

/// A link at the top of every page.
#[derive(Debug, Clone)]
pub struct Badge {
    /// Where it leads.
    pub path: &'static str,
    /// What it is.
    pub title: &'static str,
    /// Its text.
    pub text: String,
}

/// What the pages of a server of Mixer read.
pub struct Engine {
    /// The published configuration.
    pub runtime: Arc<Runtime>,
    /// The configuration store.
    pub store: Arc<dyn ConfigStore>,
    /// The open connections.
    pub connections: Arc<ConnectionRegistry>,
    /// The services for Envoy, if they are served.
    pub envoy: Option<Arc<dyn EnvoyServices>>,
    /// What load shedding does.
    pub shedding: Shedding,
}

impl Program {
    /// A server of Mixer.
    pub fn mixer(runtime: &Arc<Runtime>) -> Self {
        let (published, refused) = (Arc::clone(runtime), Arc::clone(runtime));
        let badge = move || {
            let text = format!("snapshot {}", published.load().id());
            Some(Badge { path: "/historyz/", title: "Published snapshot", text })
        };
        Self {
            topics: page::TOPICS,
            badge: Arc::new(badge),
            denials: Arc::new(move || refused.denials().total()),
        }
    }
}

/// The pages of every process, and their state.
pub struct Console {
    parts: Introspection,
    trend: trend::Trend,
    temporary: scopes::Temporary,
    answers: answers::Answers,
    started: Moment,
}

type SharedConsole = Arc<Console>;

impl std::ops::Deref for Console {
    type Target = Introspection;

    fn deref(&self) -> &Introspection {
        &self.parts
    }
}

impl Console {
    fn new(parts: Introspection) -> SharedConsole {
        Arc::new(Self {
            trend: trend::Trend::new(&parts.metrics),
            temporary: scopes::Temporary::default(),
            answers: answers::Answers::default(),
            started: Moment::now(),
            parts,
        })
    }

    /// When the process began to serve ControlZ.
    pub fn started(&self) -> Moment {
        self.started
    }

    /// What keeps the process from being ready, and what is degraded.
    pub fn conditions_markup(&self) -> maud::Markup {
        home::conditions(self)
    }

    /// The form that stops the process; `what` says what happens then.
    pub fn stop_form(&self, what: &str) -> maud::Markup {
        home::stop(self, what)
    }
}

type Shared = Arc<Server>;

/// The pages of a server of Mixer, and their state.
pub(crate) struct Server {
    console: SharedConsole,
    runtime: Arc<Runtime>,
    store: Arc<dyn ConfigStore>,
    connections: Arc<ConnectionRegistry>,
    envoy: Option<Arc<dyn EnvoyServices>>,
    shedding: Shedding,
    /// Each explanation takes a thread while its handlers answer.
    explanations: Arc<Semaphore>,
}

impl std::ops::Deref for Server {
    type Target = Console;

    fn deref(&self) -> &Console {
        &self.console
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

/// ControlZ of a server of Mixer. Samples for the plots are taken from now on.
pub fn routes(parts: Introspection, engine: Engine) -> Router {
    routes_of(Arc::new(Server::new(parts, engine)))
}

fn routes_of(server: Shared) -> Router {
    framed(Arc::clone(&server.console), mixer_routes().with_state(server))
}

impl Server {
    fn new(parts: Introspection, engine: Engine) -> Self {
        let Engine { runtime, store, connections, envoy, shedding } = engine;
        let explanations = Arc::new(Semaphore::new(explain::MAX_CONCURRENT));
        Self { console: Console::new(parts), runtime, store, connections, envoy, shedding, explanations }
    }

    /// The number of open connections.
    fn callers(&self) -> usize {
        self.connections.len() + self.envoy.as_ref().map_or(0, |envoy| envoy.http_connections().len())
    }
}

/// ControlZ of another program: the pages of every process, and those of `pages`, among them `/`.
pub fn console(parts: Introspection, pages: impl FnOnce(Arc<Console>) -> Router) -> Router {
    let console = Console::new(parts);
    let pages = pages(Arc::clone(&console));
    framed(console, pages)
}

/// Adds the pages of every process, access control, and the bounds of answers.
fn framed(console: SharedConsole, pages: Router) -> Router {
    trend::Trend::follow(&console);
    let answering = axum::middleware::from_fn_with_state(Arc::clone(&console), answers::bounded);
    let guarding = axum::middleware::from_fn_with_state(Arc::clone(&console), guard::guard);
    let nowhere = get(async |State(s): State<SharedConsole>| page::not_found(&s));
    process_routes()
        .route("/{*path}", nowhere.fallback(async || StatusCode::NOT_FOUND))
        .with_state(console)
        .merge(pages)
        .layer(axum::extract::DefaultBodyLimit::max(MAX_BODY))
        .layer(answering)
        .layer(guarding)
}

/// The value of a parameter; empty if absent.
pub fn parameter<'p>(parameters: &'p [(String, String)], name: &str) -> &'p str {
    parameters.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
}

/// The pages of every process.
fn process_routes() -> Router<SharedConsole> {
    let scopes_page = || {
        any(async |State(s): State<SharedConsole>, Parameters(p): Parameters| scopes::page(&s, &p))
            .post(async |State(s): State<SharedConsole>, body: String| scopes::change_by_form(&s, &body))
    };
    let collect = put(async |State(s): State<SharedConsole>| memory::collect(&s).await)
        .get(async |State(s): State<SharedConsole>| page::not_found(&s));
    let signal = put(signals::raise)
        .post(signals::raise)
        .get(async |State(s): State<SharedConsole>| page::not_found(&s));
    let exit = put(async |State(s): State<SharedConsole>| signals::exit(&s))
        .get(async |State(s): State<SharedConsole>| page::not_found(&s));
    Router::new()
        .route("/homej", get(async |State(s): State<SharedConsole>| json(&home::json(&s))))
        .route("/homej/", get(async |State(s): State<SharedConsole>| json(&home::json(&s))))
        .route("/homej/exit", exit)
        .route("/scopez", scopes_page())
        .route("/scopez/", scopes_page())
        .route("/scopez/{*rest}", scopes_page())
        .route("/scopej", redirect("/scopej/"))
        .route("/scopej/", get(async |State(s): State<SharedConsole>| json(&scopes::list(&s))))
        .route("/scopej/{name}", get(scopes::read).put(scopes::change))
        .merge(served("memz", any(async |State(s): State<SharedConsole>| memory::page(&s))))
        .merge(served("memj", get(async |State(s): State<SharedConsole>| json(&memory::json(&s)))))
        .route("/memj/forcecollection", collect)
        .route(
            "/memz/collect",
            post(async |State(s): State<SharedConsole>| memory::collect_by_form(&s).await),
        )
        .merge(served(
            "envz",
            any(async |State(s): State<SharedConsole>, Parameters(p): Parameters| {
                process::environment_page(&s, &p)
            }),
        ))
        .merge(served(
            "envj",
            get(async |State(s): State<SharedConsole>, Parameters(p): Parameters| {
                json(&process::environment(&s, &p))
            }),
        ))
        .merge(served("procz", any(async |State(s): State<SharedConsole>| process::page(&s))))
        .merge(served("procj", get(async || json(&process::json()))))
        .merge(served("argz", any(async |State(s): State<SharedConsole>| process::arguments_page(&s))))
        .merge(served("argj", get(async || json(&process::arguments()))))
        .merge(served("versionz", any(async |State(s): State<SharedConsole>| process::version_page(&s))))
        .merge(served("versionj", get(async || json(&process::version()))))
        .merge(served(
            "metricz",
            any(async |State(s): State<SharedConsole>, Parameters(p): Parameters| metrics::page(&s, &p)),
        ))
        .merge(served("metricj", any(async |State(s): State<SharedConsole>| json(&metrics::json(&s)))))
        .merge(served("signalz", any(async |State(s): State<SharedConsole>| signals::page(&s))))
        .route("/signalj/{name}", signal)
        .route(
            "/assets/{name}",
            get(async |State(s): State<SharedConsole>, Path(name): Path<String>| {
                assets::file(&name).unwrap_or_else(|| page::not_found(&s))
            }),
        )
        .route("/login", post(async |State(s): State<SharedConsole>, body: String| log_in(&s, &body)))
        .route("/exit", post(async |State(s): State<SharedConsole>| signals::exit_by_form(&s)))
        .route("/signalz/{name}", post(signals::raise_by_form))
        .merge(served("taskz", any(async |State(s): State<SharedConsole>| tasks::page(&s))))
        .merge(served("taskj", get(async || json(&tasks::json()))))
        .route(
            "/taskz/panic",
            post(async |State(s): State<SharedConsole>, body: String| tasks::panic_by_form(&s, &body)),
        )
}

/// The pages of a server of Mixer.
fn mixer_routes() -> Router<Shared> {
    let home =
        get(async |State(s): State<Shared>| home::page(&s)).head(async || StatusCode::METHOD_NOT_ALLOWED);
    Router::new()
        .route("/", home)
        .merge(served(
            "configz",
            any(async |State(s): State<Shared>, Parameters(p): Parameters| configuration::page(&s, &p)),
        ))
        .merge(served(
            "diagnosticsj",
            get(async |State(s): State<Shared>| {
                answers::of_snapshot(&s, "diagnosticsj", configuration::diagnostics)
            }),
        ))
        .route(
            "/configz/resource",
            get(async |State(s): State<Shared>, Parameters(p): Parameters| configuration::resource(&s, &p)),
        )
        .merge(served(
            "historyz",
            any(async |State(s): State<Shared>, Parameters(p): Parameters| history::page(&s, &p)),
        ))
        .merge(served("historyj", get(async |State(s): State<Shared>| json(&history::json(&s)))))
        .route(
            "/historyz/diff",
            get(async |State(s): State<Shared>, Parameters(p): Parameters| history::diff_page(&s, &p)),
        )
        .merge(served(
            "routesz",
            any(async |State(s): State<Shared>, Parameters(p): Parameters| routing::page(&s, &p)),
        ))
        .merge(served(
            "routesj",
            get(async |State(s): State<Shared>| answers::of_snapshot(&s, "routesj", routing::json)),
        ))
        .merge(served(
            "snapshotj",
            get(async |State(s): State<Shared>, Parameters(p): Parameters| {
                let reveals = process::reveals(&s, &p);
                let name = if reveals { "snapshotj, revealed" } else { "snapshotj" };
                answers::of_snapshot(&s, name, |published| configuration::json(published, reveals))
            }),
        ))
        .merge(served(
            "rulez",
            any(async |State(s): State<Shared>, Parameters(p): Parameters| rules::page(&s, &p)),
        ))
        .merge(served(
            "rulej",
            get(async |State(s): State<Shared>| {
                let published = s.runtime.load_full();
                let contents = s.store.contents();
                json(&rules::json(&published, &contents, &s.metrics))
            }),
        ))
        .merge(served("explainz", any(explain::page)))
        .merge(served(
            "handlerz",
            any(async |State(s): State<Shared>, Parameters(p): Parameters| handlers::page(&s, &p)),
        ))
        .merge(served("handlerj", get(async |State(s): State<Shared>| json(&handlers::json(&s)))))
        .merge(served("deliveryz", any(async |State(s): State<Shared>| deliveries::page(&s))))
        .merge(served("deliveryj", get(async || json(&deliveries::json()))))
        .merge(served("poolz", any(async |State(s): State<Shared>| pools::page(&s))))
        .merge(served("poolj", get(async |State(s): State<Shared>| json(&pools::json(&s)))))
        .merge(served("quotaz", any(async |State(s): State<Shared>| quotas::page(&s))))
        .merge(served("quotaj", get(async |State(s): State<Shared>| json(&quotas::json(&s)))))
        .merge(served("unlimitedj", get(async |State(s): State<Shared>| json(&envoy::unlimited(&s)))))
        .merge(served("cachez", any(async |State(s): State<Shared>| cache::page(&s))))
        .merge(served("cachej", get(async |State(s): State<Shared>| json(&cache::json(&s)))))
        .merge(served(
            "callerz",
            any(async |State(s): State<Shared>, Parameters(p): Parameters| callers::page(&s, &p)),
        ))
        .merge(served("callerj", get(async |State(s): State<Shared>| json(&callers::json(&s)))))
        .merge(served(
            "denialz",
            any(async |State(s): State<Shared>, Parameters(p): Parameters| denials::page(&s, &p)),
        ))
        .merge(served("denialj", get(async |State(s): State<Shared>| json(&denials::json(&s)))))
        .merge(served("denialgroupj", get(async |State(s): State<Shared>| json(&denials::groups_json(&s)))))
        .merge(served("callz", any(async |State(s): State<Shared>| calls::page(&s))))
        .merge(served("callj", get(async |State(s): State<Shared>| json(&calls::json(&s)))))
        .merge(served("latencyz", any(async |State(s): State<Shared>| latency::page(&s))))
        .merge(served("latencyj", get(async |State(s): State<Shared>| json(&latency::json(&s)))))
}

/// A topic is served at its path with a trailing slash; without the slash it redirects.
pub fn served<S: Clone + Send + Sync + 'static>(name: &str, method: MethodRouter<S>) -> Router<S> {
    let path = format!("/{name}/");
    Router::new().route(&format!("/{name}"), redirect(&path)).route(&path, method)
}

fn redirect<S: Clone + Send + Sync + 'static>(to: &str) -> MethodRouter<S> {
    let location = HeaderValue::from_str(to).unwrap_or(HeaderValue::from_static("/"));
    any(async move || (StatusCode::MOVED_PERMANENTLY, [(header::LOCATION, location)]))
}

/// Redirects to the page after a form was submitted.
fn back(to: &str) -> Response {
    Redirect::to(to).into_response()
}

fn log_in(server: &Console, body: &str) -> Response {
    let given = form::value(body, "token");
    match server.guard.log_in(&given) {
        Some(cookie) => ([(header::SET_COOKIE, cookie)], Redirect::to("/")).into_response(),
        None => page::login(true),
    }
}

/// A JSON response.
pub fn json<T: Serialize>(value: &T) -> Response {
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
