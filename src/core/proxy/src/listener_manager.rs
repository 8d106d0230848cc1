//! The listener manager: owns listeners and workers, and gives every worker every listener.

use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::accept::{Chain, ChainTls, Entrance, Filter};
use crate::access_log::AccessLogFiles;
use crate::bootstrap::{
    AccessLogConfig, FilterChainConfig, ListenerConfig, ManagerConfig, NetworkFilter, TcpProxyConfig,
};
use crate::context::Shared;
use crate::error::StartError;
use crate::http::HttpManager;
use crate::http::routes::RouteTable;
use crate::mixer::FilterBuilder;
use crate::socket_factory::{SocketFactory, reason};
use crate::stats::{Scope, Stats, Value};
use crate::tcp_proxy::TcpProxy;
use crate::tls::TlsStats;
use crate::worker::{ActiveListener, Worker};

/// A listener of the configuration.
#[derive(Debug)]
struct Listener {
    config: ListenerConfig,
    factory: SocketFactory,
    active: Arc<ActiveListener>,
}

/// Listeners and workers.
#[derive(Debug)]
pub(crate) struct ListenerManager {
    listeners: Vec<Listener>,
    workers: Mutex<Vec<Worker>>,
    concurrency: usize,
    shared: Arc<Shared>,
    stats: Arc<Stats>,
    stop: CancellationToken,
    counters: Counters,
    mixer: FilterBuilder,
}

#[derive(Debug, Default, Clone)]
struct Counters(Arc<[std::sync::atomic::AtomicU64; 5]>);

/// What the manager counts, in the order of `Counters`.
const NAMES: [&str; 5] = [
    "listener_added",
    "listener_create_success",
    "listener_create_failure",
    "listener_stopped",
    "workers_started",
];
const ADDED: usize = 0;
const CREATED: usize = 1;
const NOT_CREATED: usize = 2;
const STOPPED: usize = 3;
const STARTED: usize = 4;

impl Counters {
    fn add(&self, index: usize, amount: u64) {
        if let Some(counter) = self.0.get(index) {
            counter.fetch_add(amount, std::sync::atomic::Ordering::Relaxed);
        }
    }

    fn get(&self, index: usize) -> u64 {
        self.0.get(index).map_or(0, |counter| counter.load(std::sync::atomic::Ordering::Relaxed))
    }
}

impl ListenerManager {
    pub(crate) fn new(
        concurrency: usize,
        shared: Arc<Shared>,
        stats: Arc<Stats>,
        mixer: FilterBuilder,
    ) -> Self {
        let counters = Counters::default();
        for (index, name) in NAMES.into_iter().enumerate() {
            let counted = counters.clone();
            let value = move || match index {
                STARTED => Value::Gauge(counted.get(index)),
                _ => Value::Counter(counted.get(index)),
            };
            stats.computed(&Scope::ListenerManager, name, value);
        }
        let counted = counters.clone();
        let active = move || Value::Gauge(counted.get(ADDED).saturating_sub(counted.get(STOPPED)));
        stats.computed(&Scope::ListenerManager, "total_listeners_active", active);
        let stop = CancellationToken::new();
        let (listeners, workers) = (Vec::new(), Mutex::default());
        Self { listeners, workers, concurrency, shared, stats, stop, counters, mixer }
    }

    /// Adds a listener: binds its sockets, opens its access logs. Workers that start later serve it.
    ///
    /// Errors: the address cannot be bound, or an access log cannot be opened.
    pub(crate) fn add(&mut self, config: ListenerConfig, logs: &AccessLogFiles) -> Result<(), StartError> {
        let bound = SocketFactory::bind(config.address, config.reuse_port, config.backlog, self.concurrency);
        let factory = bound.map_err(StartError::Listen)?;
        let place =
            config.stat_prefix.clone().unwrap_or_else(|| factory.address.to_string().replace(':', "_"));
        let scope = Scope::Listener(place.clone());
        let chains: Result<Vec<_>, _> =
            config.chains.iter().map(|chain| self.chain(chain, &place, logs)).collect();
        let default =
            config.default_chain.as_ref().map(|chain| self.chain(chain, &place, logs)).transpose()?;
        let worker_stats = (0..self.concurrency)
            .map(|worker| self.stats.block(&Scope::ListenerWorker(place.clone(), worker)));
        let active = ActiveListener {
            entrance: Entrance::new(&config, &self.stats, chains?, default),
            stats: self.stats.block(&scope),
            worker_stats: worker_stats.collect(),
            connection_length: self.stats.histogram(&scope, "downstream_cx_length_ms"),
            stopped: CancellationToken::new(),
        };
        self.counters.add(ADDED, 1);
        self.listeners.push(Listener { config, factory, active: Arc::new(active) });
        Ok(())
    }

    fn cluster(&self, name: &str) -> Option<usize> {
        self.shared.clusters.iter().position(|cluster| cluster.config.name == name)
    }

    fn chain(
        &self,
        config: &FilterChainConfig,
        place: &str,
        logs: &AccessLogFiles,
    ) -> Result<Chain, StartError> {
        let filter = match &config.filter {
            NetworkFilter::Tcp(tcp) => Filter::Tcp(self.tcp_proxy(tcp, logs)?),
            NetworkFilter::Http(http) => Filter::Http(Box::new(self.http_manager(http, place, logs)?)),
        };
        let tls = config.tls.as_ref().map(|context| {
            let stats = TlsStats::new(&self.stats, &Scope::Listener(place.to_owned()));
            ChainTls::new(Arc::clone(context), config.handshake_timeout, stats)
        });
        Ok(Chain { matching: config.matching.clone(), tls, filter })
    }

    fn tcp_proxy(&self, config: &TcpProxyConfig, logs: &AccessLogFiles) -> Result<TcpProxy, StartError> {
        let clusters = config.clusters.iter().map(|(name, weight)| (self.cluster(name), *weight));
        Ok(TcpProxy {
            clusters: clusters.collect(),
            idle_timeout: config.idle_timeout,
            logs: open(&config.access_logs, logs)?,
            stats: self.stats.block(&Scope::Tcp(config.stat_prefix.clone())),
            mixer: config
                .mixer
                .as_ref()
                .map(|mixer| Box::new(self.mixer.tcp(mixer, &self.stats, |name| self.cluster(name)))),
        })
    }

    fn http_manager(
        &self,
        config: &ManagerConfig,
        place: &str,
        logs: &AccessLogFiles,
    ) -> Result<HttpManager, StartError> {
        let scope = Scope::Http(config.stat_prefix.clone());
        Ok(HttpManager {
            server_name: config.server_name.clone(),
            routes: RouteTable::new(&config.routes, |name| self.cluster(name)),
            mixer: config
                .mixer
                .as_ref()
                .map(|mixer| self.mixer.http(mixer, &self.stats, |name| self.cluster(name))),
            logs: open(&config.access_logs, logs)?,
            use_remote_address: config.use_remote_address,
            generate_request_id: config.generate_request_id,
            preserve_external_request_id: config.preserve_external_request_id,
            request_id_in_response: config.request_id_in_response,
            idle_timeout: config.idle_timeout,
            stream_idle_timeout: config.stream_idle_timeout,
            request_timeout: config.request_timeout,
            headers_timeout: config.headers_timeout,
            max_head: config.max_head,
            max_fields: config.max_fields,
            max_requests: config.max_requests,
            upgrades: config.upgrades.clone(),
            normalization: config.normalization,
            stats: self.stats.block(&scope),
            listener_stats: self
                .stats
                .block(&Scope::ListenerHttp(place.to_owned(), config.stat_prefix.clone())),
            request_time: self.stats.histogram(&scope, "downstream_rq_time"),
            connection_length: self.stats.histogram(&scope, "downstream_cx_length_ms"),
        })
    }

    /// Starts the workers, which serve every listener.
    ///
    /// Errors: a thread cannot be created, or a socket cannot listen.
    pub(crate) async fn start_workers(&self) -> Result<(), StartError> {
        for number in 0..self.concurrency {
            let worker = Worker::start(number, Arc::clone(&self.shared), self.stop.clone())
                .map_err(|error| StartError::Thread(error.to_string()))?;
            for listener in &self.listeners {
                let socket = listener.factory.socket(number).map_err(|error| {
                    self.counters.add(NOT_CREATED, 1);
                    let text = reason(&error);
                    StartError::Listen(format!("cannot listen on '{}': {text}", listener.factory.address))
                })?;
                if worker.add(Arc::clone(&listener.active), socket).await {
                    self.counters.add(CREATED, 1);
                }
            }
            self.workers.lock().push(worker);
        }
        self.counters.add(STARTED, 1);
        Ok(())
    }

    /// Names and addresses, in order.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = (&str, SocketAddr)> {
        self.listeners.iter().map(|listener| (listener.config.name.as_str(), listener.factory.address))
    }

    /// Stops accepting on all listeners, or on inbound ones. Sockets are closed; connections go on.
    pub(crate) fn stop_listeners(&self, inbound_only: bool) {
        for listener in self.listeners.iter().filter(|listener| listener.config.inbound || !inbound_only) {
            if !listener.active.stopped.is_cancelled() {
                self.counters.add(STOPPED, 1);
                listener.active.stopped.cancel();
                listener.factory.close();
            }
        }
    }

    /// Ends all workers with their connections.
    pub(crate) fn stop(&self) {
        self.stop.cancel();
        for mut worker in self.workers.lock().drain(..) {
            worker.join();
        }
    }
}

fn open(
    configs: &[AccessLogConfig],
    logs: &AccessLogFiles,
) -> Result<Vec<(Arc<crate::access_log::AccessLogFile>, crate::access_log::Format)>, StartError> {
    let open = |config: &AccessLogConfig| match logs.open(&config.path) {
        Ok(file) => Ok((file, config.format.clone())),
        Err(error) => {
            let text = reason(&error);
            Err(StartError::AccessLog(format!("unable to open file '{}': {text}", config.path)))
        }
    };
    configs.iter().map(open).collect()
}
