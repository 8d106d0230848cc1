//! What an operator can ask the process for: reload, rotate, dump, stop.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use maud::html;

use super::page::{self, Page};
use super::{Server, Shared, back};

/// The name of the action that ends the process.
const STOP: &str = "SIGTERM";

/// Something that an operator can ask for.
#[derive(Clone)]
pub struct Action {
    /// The name of the signal that does the same, for example `SIGHUP`.
    pub name: &'static str,
    /// What it does, in a few words.
    pub about: &'static str,
    /// Does it. Must not take long.
    pub run: Arc<dyn Fn() + Send + Sync>,
}

impl std::fmt::Debug for Action {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Action").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Server {
    /// Does what was asked for. False if nobody knows it.
    fn act(&self, name: &str) -> bool {
        let Some(action) = self.actions.iter().find(|action| action.name == name) else { return false };
        tracing::info!("{name} was asked for over ControlZ");
        (action.run)();
        true
    }
}

/// `PUT /signalj/SIGUSR1`. compat(1.3): answers whether or not anybody listens. Other names are not for programs.
pub(super) async fn raise(State(server): State<Shared>, Path(name): Path<String>) -> Response {
    if name != "SIGUSR1" {
        return StatusCode::METHOD_NOT_ALLOWED.into_response();
    }
    server.act(&name);
    StatusCode::ACCEPTED.into_response()
}

/// The buttons of the page.
pub(super) async fn raise_by_form(State(server): State<Shared>, Path(name): Path<String>) -> Response {
    if name == STOP {
        return exit_by_form(&server);
    }
    if server.act(&name) { back("/signalz/") } else { page::not_found(&server) }
}

/// `PUT /homej/exit`: the process ends in order, a second later, so that the answer arrives.
pub(super) fn exit(server: &Server) -> Response {
    if server.act(STOP) { StatusCode::ACCEPTED } else { StatusCode::NOT_IMPLEMENTED }.into_response()
}

/// The same from the page, with a page that says so.
pub(super) fn exit_by_form(server: &Server) -> Response {
    if server.act(STOP) { page::stopping(server) } else { StatusCode::NOT_IMPLEMENTED.into_response() }
}

/// The page.
pub(super) fn page(server: &Server) -> Response {
    let read_only = server.guard.read_only;
    Page {
        path: "/signalz/",
        title: "Signals",
        lead: html! { "What the process can be asked for, here or with " code { "kill" } "." },
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
