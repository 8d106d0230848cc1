//! Operator actions: reload, rotate, dump, stop.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use maud::html;

use super::page::{self, Page};
use super::{Console, SharedConsole, back};

/// The name of the action that ends the process.
const STOP: &str = "SIGTERM";

/// An operator action.
#[derive(Clone)]
pub struct Action {
    /// The equivalent signal, for example `SIGHUP`.
    pub name: &'static str,
    /// Its description.
    pub about: &'static str,
    /// Runs the action; must not block.
    pub run: Arc<dyn Fn() + Send + Sync>,
}

impl std::fmt::Debug for Action {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Action").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Console {
    /// Runs an action. False if it is unknown.
    fn act(&self, name: &str) -> bool {
        let Some(action) = self.actions.iter().find(|action| action.name == name) else { return false };
        tracing::info!("{name} requested through ControlZ");
        (action.run)();
        true
    }
}

/// `PUT /signalj/SIGUSR1`. compat(1.3): succeeds whether or not there is a listener; other names are refused.
pub(super) async fn raise(State(server): State<SharedConsole>, Path(name): Path<String>) -> Response {
    if name != "SIGUSR1" {
        return StatusCode::METHOD_NOT_ALLOWED.into_response();
    }
    server.act(&name);
    StatusCode::ACCEPTED.into_response()
}

/// The buttons on the page.
pub(super) async fn raise_by_form(State(server): State<SharedConsole>, Path(name): Path<String>) -> Response {
    if name == STOP {
        return exit_by_form(&server);
    }
    if server.act(&name) { back("/signalz/") } else { page::not_found(&server) }
}

/// `PUT /homej/exit`: stops the process gracefully after a second, so that the response arrives.
pub(super) fn exit(server: &Console) -> Response {
    if server.act(STOP) { StatusCode::ACCEPTED } else { StatusCode::NOT_IMPLEMENTED }.into_response()
}

/// The same by form, with a page as response.
pub(super) fn exit_by_form(server: &Console) -> Response {
    if server.act(STOP) { page::stopping(server) } else { StatusCode::NOT_IMPLEMENTED.into_response() }
}

/// The page.
pub(super) fn page(server: &Console) -> Response {
    let read_only = server.guard.read_only;
    Page {
        path: "/signalz/",
        title: "Signals",
        lead: html! { "Actions on the process, here or with " code { "kill" } "." },
        json: "",
        body: html! {
            div.scroll { table.cards {
                thead { tr { th { "Signal" } th { "What it does" } th {} } }
                tbody { @for action in &server.actions {
                    tr {
                        th scope="row" { code { (action.name) } }
                        td { (action.about) }
                        td.actions {
                            form method="post" action={ "/signalz/" (action.name) } data-confirm=[(action.name == STOP).then_some("Stop this process?")] {
                                button.danger[action.name == STOP] disabled[read_only] { "Send" }
                            }
                        }
                    }
                } }
            } }
            p.dim { "Process " code { (std::process::id()) } }
        },
    }
    .answer(server)
}
