//! Open connections and their distribution over workers.

use std::collections::BTreeMap;
use std::time::UNIX_EPOCH;

use axum::response::Response;
use maud::html;
use serde::Serialize;

use super::page::Page;
use super::{Server, format, parameter, plot};

/// Maximum number of connections on the page.
const LISTED: usize = 500;

/// JSON of a connection.
#[derive(Debug, Serialize)]
pub(super) struct Caller {
    id: u64,
    peer: String,
    worker: usize,
    /// Unix time in seconds.
    since: u64,
    calls: u64,
}

/// All connections, oldest first.
pub(super) fn json(server: &Server) -> Vec<Caller> {
    let seconds = |t: std::time::SystemTime| t.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let list = server.connections.list();
    list.iter()
        .map(|c| Caller {
            id: c.id,
            peer: c.peer.clone(),
            worker: c.worker,
            since: seconds(c.since),
            calls: c.calls(),
        })
        .collect()
}

/// The page.
pub(super) fn page(server: &Server, parameters: &[(String, String)]) -> Response {
    let q = parameter(parameters, "q");
    let all = server.connections.list();
    let mut workers: BTreeMap<usize, (usize, u64)> = BTreeMap::new();
    for connection in &all {
        let (connections, calls) = workers.entry(connection.worker).or_default();
        (*connections, *calls) = (*connections + 1, *calls + connection.calls());
    }
    let most = workers.values().map(|(_, calls)| *calls).max().unwrap_or(0).max(1);
    let mut found: Vec<_> = all.iter().filter(|c| format::matches(q, &[&c.peer])).collect();
    found.sort_by_key(|c| std::cmp::Reverse(c.calls()));
    Page {
        path: "/callerz/",
        title: "Callers",
        lead: html! { "Connections to the API, busiest first. A connection stays on its worker." },
        json: "/callerj/",
        body: html! {
            div.bar { (format::filter(q, "callers")) }
            section #callers data-live {
                dl.figures {
                    (format::figure("Connected", all.len(), html! { (format::count(server.connections.total())) " since the start" }))
                    (format::figure("Workers in use", workers.len(), ""))
                }
                @if !workers.is_empty() {
                    table.histogram { tbody { @for (worker, (connections, calls)) in &workers {
                        tr {
                            th scope="row" { "Worker " (worker) }
                            td.wide { (plot::bar(*calls as f64 / most as f64)) }
                            td.number { (connections) " connections, " (format::count(*calls)) " calls" }
                        }
                    } } }
                }
                @if found.is_empty() { (format::nothing("No connection matches.")) } @else {
                    div.scroll { table.numbers.cards {
                        thead { tr { th { "Caller" } th { "Worker" } th { "Connected" } th.number { "Calls" } } }
                        tbody { @for connection in found.iter().take(LISTED) {
                            tr {
                                th scope="row" { code { (connection.peer) } }
                                td data-label="Worker" { (connection.worker) }
                                td data-label="Connected" { (format::ago(connection.since)) }
                                td.number data-label="Calls" { (format::count(connection.calls())) }
                            }
                        } }
                    } }
                    (format::shown(found.len().min(LISTED), found.len()))
                }
            }
        },
    }
    .answer(server)
}
