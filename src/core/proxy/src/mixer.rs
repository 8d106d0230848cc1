//! The Mixer filters of HTTP and TCP: attributes of requests and connections, checks, quotas, reports.
//!
//! A worker has a client for each filter ([`Clients`]), with caches, connections and a batch of reports of its own; nothing is shared but statistics.
//! `http` and `tcp` say what a filter does with a request and with a connection, `client` how it asks.
//! A request waits for its check on its own task: the worker serves others meanwhile.
//!
//! Behaviour is that of the filters in the proxy of Istio 1.3. A request passes without an answer of Mixer only if the configuration says so.

mod api;
mod bounds;
mod builder;
mod client;
mod forwarded;
mod headers;
mod http;
mod node;
mod peer;
mod quotas;
mod request;
mod statistics;
mod tcp;
#[cfg(test)]
mod tests;

pub(crate) use builder::FilterBuilder;
pub(crate) use client::Clients;
pub(crate) use http::{HttpCall, HttpFilter, Next};
pub(crate) use peer::Peer;
pub(crate) use request::Summary;
pub(crate) use tcp::{Bytes, TcpCall, TcpFilter};
