//! Listeners, worker threads, HTTP/2 connections, TLS and draining. Knows no RPC protocol and no application.
//!
//! A [`Listener`](listener::Listener) accepts connections; a [`WorkerGroup`](workers::WorkerGroup) assigns each to the worker thread
//! with the fewest; the worker drives it and calls its [`WorkerService`](service::WorkerService) for every request.
//!
//! ```ignore
//! let listener = Listener::bind(&ListenAddress::parse("tcp://127.0.0.1:9091")?, None)?;
//! let workers = WorkerGroup::start(4, "worker", limits, CancellationToken::new(), |_| Echo)?;
//! loop {
//!     workers.serve(listener.accept().await?).await;
//! }
//! ```

pub mod accepted;
pub mod address;
pub mod connection;
pub mod datagram;
pub mod descriptors;
pub mod event_loop;
pub mod http;
pub mod listener;
pub mod peer;
pub mod registry;
pub mod service;
pub mod socket_file;
pub mod stream;
pub mod tls;
mod turns;
pub mod workers;
