//! Shared by all prometheus handlers of a server: the metrics and the listener that exposes them.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use ::http::header::RETRY_AFTER;
use ::http::{HeaderMap, HeaderValue, StatusCode};
use axum::Router;
use axum::response::Response;
use axum::routing::any;
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::Params;
use super::metric::Metric;
use super::registration::{OpenHandlers, Registrations, register};
use super::scrape::{MAX_SCRAPES, Rendering, Scrapes};
use crate::MetricsAddress;
use mixer_base::budget::{MemoryBudget, Purpose, Share};
use mixer_base::exposition::CONTENT_TYPE;
use mixer_base::metrics::{Counter, Family};
use mixer_base::secrets::mask_address;
use mixer_base::task::{Group, Task};
use mixer_engine::adapter::Env;
use mixer_net::descriptors::DescriptorPlan;
use mixer_net::http;
use mixer_net::listener::inherit_tcp;

/// Prefix of build errors of the listener.
pub(super) const NOT_STARTED: &str = "could not start prometheus metrics server: ";

const TEXT: &str = "text/plain; charset=utf-8";

/// Grace period of scrapes in flight after the last handler has closed.
const GRACE: Duration = Duration::from_secs(30);

/// How long to retry while a closing listener still holds the port.
const BIND_RETRY_TIME: Duration = Duration::from_secs(1);

/// The metrics of all prometheus handlers of one server, and their HTTP server.
#[derive(Debug, Default)]
pub struct Endpoint {
    state: Mutex<EndpointState>,
    scrapes: Scrapes,
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

    /// The text of all metrics, in one piece.
    pub fn text(&self) -> Vec<u8> {
        Rendering::chunks(Arc::new(Rendering::new(self.metrics(), None))).flatten().collect()
    }

    /// Forgets all metrics, for tests.
    #[cfg(test)]
    pub(super) fn forget(&self) {
        self.state.lock().metrics.clear();
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
                    let address = address_of(env);
                    let address = mask_address(&address);
                    let why = match error.kind() {
                        io::ErrorKind::AddrInUse => "bind: address already in use".to_owned(),
                        _ => error.to_string(),
                    };
                    return Err(vec![format!("{NOT_STARTED}listen tcp {address}: {why}")]);
                }
            }
        }
    }

    fn try_open(self: &Arc<Self>, params: &Params, env: &Env) -> Result<Lease, OpenError> {
        let mut state = self.state.lock();
        let registered = register(&state.metrics, &state.open, params, env).map_err(OpenError::Metrics)?;
        if state.server.is_none() {
            state.server = Some(self.start(env).map_err(OpenError::Listener)?);
        }
        state.metrics = registered.registrations;
        registered.replaced.iter().for_each(|(old, new)| old.succeed(new));
        *state.open.entry(Arc::clone(&env.handler_name)).or_default() += 1;
        Ok(Lease {
            endpoint: Arc::clone(self),
            handler: Arc::clone(&env.handler_name),
            closed: Mutex::new(false),
        })
    }

    fn start(self: &Arc<Self>, env: &Env) -> io::Result<MetricsServer> {
        let listener = listen(env)?;
        let address = listener.local_addr()?;
        let listener = inherit_tcp(listener)?;
        let stop = CancellationToken::new();
        let endpoint = Arc::downgrade(self);
        let memory = env.commons.get::<MemoryBudget>();
        let share = Arc::clone(memory.share(Purpose::Scrapes));
        let refused = env.metrics.counter(Family::PrometheusScrapesRefused, &[]);
        let scrape = move |request: HeaderMap| {
            let (endpoint, share, refused) = (endpoint.upgrade(), Arc::clone(&share), refused.clone());
            async move {
                match endpoint {
                    Some(endpoint) => scrape(endpoint, &share, &refused, request).await,
                    None => http::not_found(),
                }
            }
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

async fn scrape(
    endpoint: Arc<Endpoint>,
    share: &Arc<Share>,
    refused: &Counter,
    request: HeaderMap,
) -> Response {
    let Some(permit) = endpoint.scrapes.enter(share) else {
        refused.increment();
        return busy();
    };
    let share = Arc::clone(share);
    // Collecting many series would block the other tasks of the runtime. It counts until it ends, also when the client has left.
    let rendered = tokio::task::spawn_blocking(move || {
        let rendering = endpoint.scrapes.rendering(&share, |paid| Rendering::new(endpoint.metrics(), paid));
        (permit, rendering)
    });
    let Ok((permit, rendering)) = rendered.await else {
        let text = "cannot render the metrics\n";
        return http::answer(StatusCode::INTERNAL_SERVER_ERROR, TEXT, text);
    };
    let mut chunks = Rendering::chunks(rendering);
    let first = chunks.next().unwrap_or_default();
    match chunks.next() {
        None => http::compressible(&request, CONTENT_TYPE, first),
        Some(second) => {
            let all = [first, second].into_iter().chain(chunks);
            // The permit is returned with the last chunk, or when the client is gone.
            let all = all.inspect(move |_| debug_assert!(permit.is_held()));
            http::streamed(&request, CONTENT_TYPE, all)
        }
    }
}

fn busy() -> Response {
    let text = format!("too many scrapes: at most {MAX_SCRAPES} at a time, within the memory limit\n");
    let mut response = http::answer(StatusCode::SERVICE_UNAVAILABLE, TEXT, text);
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

enum OpenError {
    Metrics(Vec<String>),
    Listener(io::Error),
}

/// The address of the endpoint: that of the server's settings, or the port on all interfaces.
fn address_of(env: &Env) -> String {
    match env.commons.get::<MetricsAddress>().0.as_str() {
        "" => format!(":{}", env.metrics_port),
        given => given.to_owned(),
    }
}

/// Without a host, all addresses, IPv4 and IPv6; IPv4 alone where there is no IPv6.
fn listen(env: &Env) -> io::Result<TcpListener> {
    let address = address_of(env);
    let Some(port) = address.strip_prefix(':') else { return TcpListener::bind(&address) };
    match TcpListener::bind(format!("[::]:{port}")) {
        Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
            TcpListener::bind(format!("0.0.0.0:{port}"))
        }
        other => other,
    }
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

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;
    use mixer_base::metrics::Metrics;

    #[tokio::test]
    async fn scrapes_count_until_they_end_also_when_their_clients_have_left() {
        let (endpoint, share) = (Arc::new(Endpoint::default()), Arc::new(Share::new(64 << 20)));
        let refused = Metrics::new().counter(Family::PrometheusScrapesRefused, &[]);
        // No rendering ends meanwhile.
        let state = endpoint.state.lock();
        for _ in 0..MAX_SCRAPES {
            let mut left = pin!(scrape(Arc::clone(&endpoint), &share, &refused, HeaderMap::new()));
            assert!(left.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }
        assert!(endpoint.scrapes.enter(&share).is_none());
        drop(state);
        while share.used() > 0 {
            tokio::task::yield_now().await;
        }
        let answer = scrape(Arc::clone(&endpoint), &share, &refused, HeaderMap::new()).await;
        assert_eq!((answer.status(), refused.get()), (StatusCode::OK, 0));
    }
}
