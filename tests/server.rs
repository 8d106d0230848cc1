//! A running server from outside: start, stop, signals, health, TLS, sockets, reloads, tracing and metrics.

#![cfg(test)]

#[path = "support/support.rs"]
mod support;

#[path = "server/adapter_examples.rs"]
mod adapter_examples;
#[path = "server/adapter_failures.rs"]
mod adapter_failures;
#[path = "server/adapter_scaffold.rs"]
mod adapter_scaffold;
#[path = "server/adapter_sessions.rs"]
mod adapter_sessions;
#[path = "server/adapter_statuses.rs"]
mod adapter_statuses;
#[path = "server/answers.rs"]
mod answers;
#[path = "server/call_outages.rs"]
mod call_outages;
#[path = "server/certificates.rs"]
mod certificates;
#[path = "server/clouds.rs"]
mod clouds;
#[path = "server/cluster.rs"]
mod cluster;
#[path = "server/config_cache.rs"]
mod config_cache;
#[path = "server/decision_log.rs"]
mod decision_log;
#[path = "server/doctor.rs"]
mod doctor;
#[path = "server/enforcement.rs"]
mod enforcement;
#[path = "server/fifos.rs"]
mod fifos;
#[path = "server/fronts.rs"]
mod fronts;
#[path = "server/hanging.rs"]
mod hanging;
#[path = "server/health.rs"]
mod health;
#[path = "server/hostile.rs"]
mod hostile;
#[path = "server/http_ports.rs"]
mod http_ports;
#[path = "server/kept.rs"]
mod kept;
#[path = "server/kubernetes.rs"]
mod kubernetes;
#[path = "server/lifecycle.rs"]
mod lifecycle;
#[path = "server/lists.rs"]
mod lists;
#[path = "server/log.rs"]
mod log;
#[path = "server/mcp.rs"]
mod mcp;
#[path = "server/on_config_error.rs"]
mod on_config_error;
#[path = "server/otlp.rs"]
mod otlp;
#[path = "server/out_of_process.rs"]
mod out_of_process;
#[path = "server/outage_load.rs"]
mod outage_load;
#[path = "server/outages.rs"]
mod outages;
#[path = "server/peers.rs"]
mod peers;
#[path = "server/prometheus.rs"]
mod prometheus;
#[path = "server/quotas.rs"]
mod quotas;
#[path = "server/readiness.rs"]
mod readiness;
#[path = "server/reload.rs"]
mod reload;
#[path = "server/sample.rs"]
mod sample;
#[path = "server/security.rs"]
mod security;
#[path = "server/sender_outages.rs"]
mod sender_outages;
#[path = "server/senders.rs"]
mod senders;
#[path = "server/sent.rs"]
mod sent;
#[path = "server/settings.rs"]
mod settings;
#[path = "server/signals.rs"]
mod signals;
#[path = "server/sockets.rs"]
mod sockets;
#[path = "server/spills.rs"]
mod spills;
#[path = "server/supervision.rs"]
mod supervision;
#[path = "server/trace_outages.rs"]
mod trace_outages;
#[path = "server/tracing.rs"]
mod tracing;
#[path = "server/vendors.rs"]
mod vendors;

use std::path::Path;

/// Text of a file; empty without one.
fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}
