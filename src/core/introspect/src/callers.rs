//! Open connections and their distribution over workers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use axum::response::Response;
use maud::html;
use serde::Serialize;

use super::envoy::NodesByPeer;
use super::page::Page;
use super::{Server, format, parameter, plot};
use mixer_net::registry::ConnectionInfo;

/// Maximum number of connections on the page.
const LISTED: usize = 500;

/// JSON of a connection.
#[derive(Debug, Serialize)]
pub(super) struct Caller {
    id: u64,
    peer: String,
    /// The node of Envoy that logs on this connection or, if it is the only one, from this host.
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<String>,
    /// `null` for a connection of Envoy's checks and rate limits over HTTP.
    worker: Option<usize>,
    /// Unix time in seconds.
    since: u64,
    calls: u64,
}

/// The connections of the API, oldest first, then those over HTTP; and the nodes that are known.
fn connections(server: &Server) -> (Vec<Arc<ConnectionInfo>>, NodesByPeer) {
    let mut list = server.connections.list();
    let Some(envoy) = &server.envoy else { return (list, NodesByPeer::default()) };
    list.extend(envoy.http_connections());
    (list, NodesByPeer::new(envoy.nodes()))
}

/// All connections, oldest first.
pub(super) fn json(server: &Server) -> Vec<Caller> {
    let seconds = |t: std::time::SystemTime| t.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let (list, nodes) = connections(server);
    list.iter()
        .map(|c| Caller {
            id: c.id,
            peer: c.peer.clone(),
            node: nodes.of(&c.peer),
            worker: c.worker,
            since: seconds(c.since.time()),
            calls: c.calls(),
        })
        .collect()
}

/// The page.
pub(super) fn page(server: &Server, parameters: &[(String, String)]) -> Response {
    let q = parameter(parameters, "q");
    let (all, nodes) = connections(server);
    let over_http = server.envoy.as_ref().map_or(0, |envoy| envoy.http_connections_total());
    let total = server.connections.total() + over_http;
    // HTTP last.
    let mut workers: BTreeMap<usize, (usize, u64)> = BTreeMap::new();
    for connection in &all {
        let worker = connection.worker.unwrap_or(usize::MAX);
        let (connections, calls) = workers.entry(worker).or_default();
        (*connections, *calls) = (*connections + 1, *calls + connection.calls());
    }
    let most = workers.values().map(|(_, calls)| *calls).max().unwrap_or(0).max(1);
    let with_nodes = all.iter().map(|connection| (connection, nodes.of(&connection.peer)));
    let mut found: Vec<_> = with_nodes
        .filter(|(c, node)| format::matches(q, &[&c.peer, node.as_deref().unwrap_or_default()]))
        .collect();
    found.sort_by_key(|(c, _)| std::cmp::Reverse(c.calls()));
    let has_nodes = found.iter().any(|(_, node)| node.is_some());
    let worker = |worker: Option<usize>| worker.map_or_else(|| "HTTP".to_owned(), |at| at.to_string());
    Page {
        path: "/callerz/",
        title: "Callers",
        lead: html! { "Connections to the API, busiest first. A connection stays on its worker. Envoy tells its node with access logs." },
        json: "/callerj/",
        body: html! {
            div.bar { (format::filter(q, "callers")) }
            section #callers data-live {
                dl.figures {
                    (format::figure("Connected", all.len(), html! { (format::count(total)) " since the start" }))
                    (format::figure("Workers in use", workers.keys().filter(|worker| **worker != usize::MAX).count(), ""))
                }
                @if !workers.is_empty() {
                    table.histogram.apart { tbody { @for (worker, (connections, calls)) in &workers {
                        tr {
                            th scope="row" { @if *worker == usize::MAX { "HTTP" } @else { "Worker " (worker) } }
                            td.wide { (plot::bar(*calls as f64 / most as f64)) }
                            td.number { (format::counted(*connections as u64, "connection")) ", " (format::counted(*calls, "call")) }
                        }
                    } } }
                }
                @if found.is_empty() { (format::nothing("No connection matches.")) } @else {
                    div.scroll { table.numbers.cards {
                        thead { tr { th { "Caller" } @if has_nodes { th { "Node" } } th { "Worker" } th { "Connected" } th.number { "Calls" } } }
                        tbody { @for (connection, node) in found.iter().take(LISTED) {
                            tr {
                                th scope="row" { code { (connection.peer) } }
                                @if has_nodes { td data-label="Node" { @match node { Some(node) => code { (node) }, None => span.dim { "–" } } } }
                                td data-label="Worker" { (worker(connection.worker)) }
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
