//! Shared by all prometheus handlers of a server: the metrics and the listener that exposes them.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use ::http::{HeaderMap, StatusCode};
use axum::Router;
use axum::response::Response;
use axum::routing::any;
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::Params;
use super::metric::Metric;
use super::registration::{OpenHandlers, Registrations, register};
use mixer_base::exposition::{CONTENT_TYPE, Writer};
use mixer_base::task::{Group, Task};
use mixer_engine::adapter::Env;
use mixer_net::descriptors::DescriptorPlan;
use mixer_net::http;

/// Prefix of build errors of the listener.
pub(super) const NOT_STARTED: &str = "could not start prometheus metrics server: ";

/// Grace period of scrapes in flight after the last handler has closed.
const GRACE: Duration = Duration::from_secs(30);

/// How long to retry while a closing listener still holds the port.
const BIND_RETRY_TIME: Duration = Duration::from_secs(1);

/// The metrics of all prometheus handlers of one server, and their HTTP server.
#[derive(Debug, Default)]
pub struct Endpoint {
    state: Mutex<EndpointState>,
}

#[derive(Debug, Default)]
struct EndpointState {
    metrics: Registrations,
    open: OpenHandlers,
    server: Option<MetricsServer>,
}

#[derive(Debug)]
struct MetricsServer {
    address: SocketAddr,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Endpoint {
    /// Address of `/metrics`; `None` while no handler is open.
    pub fn address(&self) -> Option<SocketAddr> {
        self.state.lock().server.as_ref().map(|s| s.address)
    }

    /// The response of a scrape.
    pub fn text(&self) -> Vec<u8> {
        let mut metrics = self.metrics();
        metrics.sort_by(|a, b| a.definition.name.cmp(&b.definition.name));
        let mut out = Vec::new();
        let mut writer = Writer::new(&mut out);
        metrics.iter().for_each(|metric| metric.write(&mut writer));
        out
    }

    /// The distinct metrics.
    pub(super) fn metrics(&self) -> Vec<Arc<Metric>> {
        let state = self.state.lock();
        let mut metrics: Vec<Arc<Metric>> = Vec::new();
        for registration in state.metrics.values() {
            if !metrics.iter().any(|m| Arc::ptr_eq(m, &registration.metric)) {
                metrics.push(Arc::clone(&registration.metric));
            }
        }
        metrics
    }

    /// The metric of an instance.
    pub(super) fn metric(&self, instance: &str) -> Option<Arc<Metric>> {
        self.state.lock().metrics.get(instance).map(|r| Arc::clone(&r.metric))
    }

    /// Registers the metrics of a handler and starts the listener unless it runs. Errors: all problems; nothing is changed then.
    pub(super) async fn open(self: &Arc<Self>, params: &Params, env: &Env) -> Result<Lease, Vec<String>> {
        let waited = tokio::time::Instant::now();
        loop {
            match self.try_open(params, env) {
                Ok(lease) => return Ok(lease),
                Err(OpenError::Metrics(errors)) => return Err(errors),
                // Perhaps the previous listener of this endpoint is still closing.
                Err(OpenError::Listener(error))
                    if error.kind() == io::ErrorKind::AddrInUse && waited.elapsed() < BIND_RETRY_TIME =>
                {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                Err(OpenError::Listener(error)) => {
                    let port = env.metrics_port;
                    let why = match error.kind() {
                        io::ErrorKind::AddrInUse => "bind: address already in use".to_owned(),
                        _ => error.to_string(),
                    };
                    return Err(vec![format!("{NOT_STARTED}listen tcp :{port}: {why}")]);
                }
            }
        }
    }

    fn try_open(self: &Arc<Self>, params: &Params, env: &Env) -> Result<Lease, OpenError> {
        let mut state = self.state.lock();
        let metrics = register(&state.metrics, &state.open, params, env).map_err(OpenError::Metrics)?;
        if state.server.is_none() {
            state.server = Some(self.start(env).map_err(OpenError::Listener)?);
        }
        state.metrics = metrics;
        *state.open.entry(Arc::clone(&env.handler_name)).or_default() += 1;
        Ok(Lease {
            endpoint: Arc::clone(self),
            handler: Arc::clone(&env.handler_name),
            closed: Mutex::new(false),
        })
    }

    fn start(self: &Arc<Self>, env: &Env) -> io::Result<MetricsServer> {
        let listener = listen(env.metrics_port)?;
        let address = listener.local_addr()?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let stop = CancellationToken::new();
        let endpoint = Arc::downgrade(self);
        let scrape = async move |request: HeaderMap| match endpoint.upgrade() {
            Some(endpoint) => scrape(endpoint, request).await,
            None => http::not_found(),
        };
        let routes = Router::new().route("/metrics", any(scrape));
        let handler = Arc::clone(&env.handler_name);
        tracing::info!(adapter = &*handler, "serving prometheus metrics on {}", address.port());
        // It serves all handlers, so it is not a task of the first one.
        let limits = http::HttpLimits::for_operators(DescriptorPlan::of_process().operator);
        let serving = Task::restarted("metrics endpoint");
        let serving = http::serve(serving, listener, routes, limits, stop.clone(), GRACE);
        let task = Group::new("end of the metrics endpoint").spawn(async move {
            // It completes also after a panic, which is logged.
            let _ = serving.await;
            tracing::info!(adapter = &*handler, "HTTP server stopped");
        });
        Ok(MetricsServer { address, stop, task })
    }
}

async fn scrape(endpoint: Arc<Endpoint>, request: HeaderMap) -> Response {
    // Rendering many series would block the other tasks of the runtime.
    let answer =
        tokio::task::spawn_blocking(move || http::compressible(&request, CONTENT_TYPE, endpoint.text()))
            .await;
    answer.unwrap_or_else(|_| {
        http::answer(
            StatusCode::INTERNAL_SERVER_ERROR,
            "text/plain; charset=utf-8",
            "cannot render the metrics\n",
        )
    })
}

enum OpenError {
    Metrics(Vec<String>),
    Listener(io::Error),
}

/// All addresses, IPv4 and IPv6; IPv4 alone where there is no IPv6.
fn listen(port: u16) -> io::Result<TcpListener> {
    let listener = match TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)) {
        Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, port))?
        }
        other => other?,
    };
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// The use of the endpoint by one handler.
#[derive(Debug)]
pub(super) struct Lease {
    endpoint: Arc<Endpoint>,
    handler: Arc<str>,
    closed: Mutex<bool>,
}

impl Lease {
    pub(super) fn endpoint(&self) -> &Arc<Endpoint> {
        &self.endpoint
    }

    /// Releases the endpoint. The last release stops the server and waits at most `deadline` for scrapes in flight.
    pub(super) async fn close(&self, deadline: Duration) {
        if let Some(server) = self.release() {
            // Scrapes that still run end with the grace period.
            let _ = tokio::time::timeout(deadline.min(GRACE), server.task).await;
        }
    }

    fn release(&self) -> Option<MetricsServer> {
        if std::mem::replace(&mut *self.closed.lock(), true) {
            return None;
        }
        let mut state = self.endpoint.state.lock();
        if let Some(count) = state.open.get_mut(&self.handler) {
            *count -= 1;
            if *count == 0 {
                state.open.remove(&self.handler);
            }
        }
        if !state.open.is_empty() {
            return None;
        }
        let server = state.server.take();
        if let Some(server) = &server {
            server.stop.cancel();
        }
        server
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.release();
    }
}
