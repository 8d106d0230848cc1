//! `mixer proxy` with the Mixer filters: against a Mixer that tests script, and against `mixer server`; and clients that people use.

#![cfg(test)]

#[path = "proxy/clients.rs"]
mod clients;
#[path = "proxy/fixture.rs"]
mod fixture;
#[path = "proxy/golden.rs"]
mod golden;
#[path = "proxy/hostile.rs"]
mod hostile;
#[path = "proxy/http.rs"]
mod http;
#[path = "proxy/quota.rs"]
mod quota;
#[path = "proxy/scripted.rs"]
mod scripted;
#[path = "proxy/server.rs"]
mod server;
#[path = "support/support.rs"]
mod support;
#[path = "proxy/tcp.rs"]
mod tcp;
