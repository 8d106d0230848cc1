//! Listeners, workers, connections and TLS: what carries bytes to a service. Free of gRPC and of Mixer.

pub mod address;
pub mod callers;
pub mod connection;
pub mod http;
pub mod listener;
pub mod tls;
pub mod workers;
