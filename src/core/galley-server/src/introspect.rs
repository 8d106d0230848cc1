//! ControlZ of the configuration plane: what sources deliver, what is published, what sinks have of it, what the webhook refuses.
//!
//! | path | shows |
//! | --- | --- |
//! | `/` | everything at a glance |
//! | `/configz/`, `/configj/`, `/configj/resource` | collections by group, as Galley 1.3 answers them |
//! | `/sinkz/`, `/sinkj/` | sinks with their versions, lag and refusals |
//! | `/sourcez/`, `/sourcej/` | sources with their sync state and problems |
//! | `/eventz/`, `/eventj/` | the last events |
//! | `/admissionz/`, `/admissionj/` | counts and refusals of the webhook |
//! | `/statusj/`, `/progressj/`, `/snapshotj/` | what `mixer galley` asks for |
//!
//! Reading disturbs neither the pipeline nor sinks: it copies what they show. Secrets are masked as in ControlZ of a policy server.

mod compat;
mod pages;
mod progress;
mod status;

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::routing::{any, get};

use mixer_galley::Galley;
use mixer_introspect::form::Parameters;
use mixer_introspect::{
    Badge, Console, Introspection, PROCESS_TOPICS, TopicGroup, console, json, parameter, reveals, served,
    topic,
};

use crate::admission::Admission;
use crate::publications::Publications;

/// What runs, as far as it does.
pub struct Plane {
    /// The pipeline, if configuration is served.
    pub galley: Option<Arc<Galley>>,
    /// What was published.
    pub publications: Arc<Publications>,
    /// The webhook, if there is one.
    pub admission: Option<Arc<Admission>>,
    /// The number of collections for which sinks may ask.
    pub served: usize,
}

/// The navigation.
pub const TOPICS: &[TopicGroup] = &[
    ("", &[topic("/", "Overview", 'h')]),
    (
        "Configuration",
        &[
            topic("/configz/", "Snapshots", 'c'),
            topic("/sinkz/", "Sinks", 'k'),
            topic("/sourcez/", "Sources", 'r'),
            topic("/eventz/", "Events", 'e'),
            topic("/admissionz/", "Admission", 'a'),
        ],
    ),
    PROCESS_TOPICS,
];

/// What pages are made of.
struct Pages {
    console: Arc<Console>,
    plane: Arc<Plane>,
}

type Shared = Arc<Pages>;

/// The last publication, at the top of every page.
pub fn badge(plane: &Plane) -> Badge {
    let text = format!("publication {}", plane.publications.latest().0);
    Badge { path: "/configz/", title: "What was published last", text }
}

/// The endpoint.
pub fn routes(parts: Introspection, plane: Arc<Plane>) -> Router {
    console(parts, move |console| pages_of(Arc::new(Pages { console, plane })))
}

fn pages_of(pages: Shared) -> Router {
    Router::new()
        .route("/", get(async |State(s): State<Shared>| pages::overview(&s)))
        .merge(served(
            "configz",
            any(async |State(s): State<Shared>, Parameters(p): Parameters| pages::snapshots(&s, &p)),
        ))
        .merge(served(
            "configj",
            get(async |State(s): State<Shared>, Parameters(p): Parameters| {
                json(&compat::snapshots(&s.plane, parameter(&p, "group")))
            }),
        ))
        .route(
            "/configj/resource",
            get(async |State(s): State<Shared>, Parameters(p): Parameters| {
                json(&compat::resource(&s.plane, &p, reveals(&s.console, &p)))
            }),
        )
        .route(
            "/configz/resource",
            get(async |State(s): State<Shared>, Parameters(p): Parameters| pages::resource(&s, &p)),
        )
        .merge(served("sinkz", any(async |State(s): State<Shared>| pages::sinks(&s))))
        .merge(served("sinkj", get(async |State(s): State<Shared>| json(&status::sinks(&s.plane)))))
        .merge(served("sourcez", any(async |State(s): State<Shared>| pages::sources(&s))))
        .merge(served("sourcej", get(async |State(s): State<Shared>| json(&status::sources(&s.plane)))))
        .merge(served("eventz", any(async |State(s): State<Shared>| pages::events(&s))))
        .merge(served("eventj", get(async |State(s): State<Shared>| json(&status::events(&s.plane)))))
        .merge(served("admissionz", any(async |State(s): State<Shared>| pages::admission(&s))))
        .merge(served("admissionj", get(async |State(s): State<Shared>| json(&status::admission(&s.plane)))))
        .merge(served("statusj", get(async |State(s): State<Shared>| json(&status::status(&s.plane)))))
        .merge(served(
            "progressj",
            get(async |State(s): State<Shared>, Parameters(p): Parameters| {
                json(&progress::progress_after_look(&s.plane, &p).await)
            }),
        ))
        .merge(served(
            "snapshotj",
            get(async |State(s): State<Shared>, Parameters(p): Parameters| {
                let (group, collection) = (parameter(&p, "group"), parameter(&p, "collection"));
                json(&compat::dump(&s.plane, group, collection, reveals(&s.console, &p)))
            }),
        ))
        .with_state(pages)
}
