//! The listener manager: owns listeners and workers, and gives every worker every listener, also of those that come later.

mod build;
mod counters;
mod difference;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use socket2::Type;
use tokio_util::sync::{CancellationToken, DropGuard};

use mixer_base::task::Group;

use crate::accept::{Chain, Entrance};
use crate::access_log::AccessLogFiles;
use crate::bootstrap::{FilterChainConfig, Fingerprint, ListenerConfig, NEEDS_REUSE_PORT};
use crate::certificates;
use crate::context::Shared;
use crate::drain::{Drain, DrainOptions};
use crate::error::StartError;
use crate::mixer::FilterBuilder;
use crate::socket_factory::{SocketFactory, reason};
use crate::stats::{Scope, Stats};
use crate::timer::TICK;
use crate::worker::{ActiveListener, Newest, Socket, Worker};

use counters::{Count, Counters};
use difference::{Difference, compare};

/// Time between the end of a drain and a look at which statistics nobody counts any more.
const FORGET_AFTER: Duration = Duration::from_secs(1);

/// Where a listener comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The bootstrap: it stays.
    Static,
    /// A file: the version of it that brought this configuration, and when.
    Dynamic(String, SystemTime),
}

/// A listener.
#[derive(Debug)]
struct Listener {
    config: ListenerConfig,
    origin: Origin,
    factory: Arc<SocketFactory>,
    active: Arc<ActiveListener>,
    /// Follows the files of its certificates.
    _certificates: DropGuard,
}

impl Listener {
    /// The socket that a worker serves. Errors: it cannot listen, or no descriptor is left.
    fn socket(&self, worker: usize) -> std::io::Result<Socket> {
        match self.active.udp {
            None => self.factory.socket(worker, self.config.backlog).map(Socket::Stream),
            Some(_) => self.factory.datagrams(worker).map(Socket::Datagram),
        }
    }
}

/// What a listener takes over from the one before it.
struct Before {
    factory: Arc<SocketFactory>,
    /// Filter chains, of which those stay that are the same.
    chains: Chains,
    /// If nothing but filter chains changes.
    newest: Option<Newest>,
}

/// Filter chains with what was written of them.
type Chains = Vec<(Fingerprint, Arc<Chain>)>;

/// A listener as the admin interface shows it.
#[derive(Debug, Clone)]
pub(crate) struct Shown {
    pub(crate) name: String,
    pub(crate) address: SocketAddr,
    pub(crate) origin: Origin,
    pub(crate) document: serde_json::Value,
}

/// Listeners and workers.
#[derive(Debug)]
pub(crate) struct ListenerManager {
    listeners: Mutex<Vec<Listener>>,
    workers: Mutex<Vec<Arc<Worker>>>,
    /// One change at a time.
    changing: tokio::sync::Mutex<()>,
    concurrency: usize,
    shared: Arc<Shared>,
    stats: Arc<Stats>,
    stop: CancellationToken,
    counters: Counters,
    mixer: FilterBuilder,
    drain: DrainOptions,
    drains: Group,
    /// Whether inbound listeners, and whether all, were stopped: none is added or updated any more.
    stopped: [AtomicBool; 2],
}

impl ListenerManager {
    pub(crate) fn new(
        concurrency: usize,
        shared: Arc<Shared>,
        stats: Arc<Stats>,
        mixer: FilterBuilder,
        drain: DrainOptions,
    ) -> Arc<Self> {
        Arc::new(Self {
            listeners: Mutex::default(),
            workers: Mutex::default(),
            changing: tokio::sync::Mutex::default(),
            concurrency,
            shared,
            counters: Counters::new(&stats),
            stats,
            stop: CancellationToken::new(),
            mixer,
            drain,
            drains: Group::new("proxy drain"),
            stopped: [const { AtomicBool::new(false) }; 2],
        })
    }

    /// Adds a listener: binds its sockets, opens its access logs. Workers that start later serve it.
    ///
    /// Errors: the address cannot be bound, so many workers cannot serve it, or an access log cannot be opened.
    pub(crate) fn add(&self, config: ListenerConfig, logs: &AccessLogFiles) -> Result<(), StartError> {
        if !config.is_served_by(self.concurrency) {
            return Err(StartError::Listen(NEEDS_REUSE_PORT.to_owned()));
        }
        let listener = self.build(config, Origin::Static, None, logs)?;
        self.listeners.lock().push(listener);
        self.counters.add(Count::Added, 1);
        self.count_active();
        Ok(())
    }

    /// A listener, on the sockets and with the filter chains of the one before it that stay the same.
    fn build(
        &self,
        config: ListenerConfig,
        origin: Origin,
        before: Option<Before>,
        logs: &AccessLogFiles,
    ) -> Result<Listener, StartError> {
        let Before { factory, chains: kept, newest } = match before {
            Some(before) => before,
            None => {
                let kind = if config.is_udp() { Type::DGRAM } else { Type::STREAM };
                let bound = SocketFactory::bind(config.address, kind, config.reuse_port, self.concurrency);
                let factory = Arc::new(bound.map_err(StartError::Listen)?);
                Before { factory, chains: Vec::new(), newest: None }
            }
        };
        let place =
            config.stat_prefix.clone().unwrap_or_else(|| factory.address.to_string().replace(':', "_"));
        let scope = Scope::Listener(place.clone());
        let chain = |chain: &FilterChainConfig| {
            let same = kept.iter().find(|(written, _)| *written == chain.written);
            same.map_or_else(|| self.chain(chain, &place, logs), |(_, chain)| Ok(Arc::clone(chain)))
        };
        let chains: Result<Vec<_>, _> = config.chains.iter().map(chain).collect();
        let default = config.default_chain.as_ref().map(chain).transpose()?;
        let worker_stats = (0..self.concurrency)
            .map(|worker| self.stats.block(&Scope::ListenerWorker(place.clone(), worker)));
        let active = ActiveListener {
            entrance: Entrance::new(&config, &self.stats, chains?, default),
            udp: config.udp.as_ref().map(|udp| Arc::new(self.udp_proxy(udp, &place))),
            stats: self.stats.block(&scope),
            worker_stats: worker_stats.collect(),
            connection_length: self.stats.histogram(&scope, "downstream_cx_length_ms"),
            stopped: CancellationToken::new(),
            is_updated: AtomicBool::new(false),
            newest: newest.unwrap_or_default(),
        };
        let stop = CancellationToken::new();
        let entrance = &active.entrance;
        for context in entrance.chains.iter().chain(&entrance.default).filter_map(|chain| chain.tls.as_ref())
        {
            certificates::follow_files(&context.context(), &place, &self.stats, &scope, stop.clone());
        }
        Ok(Listener { config, origin, factory, active: Arc::new(active), _certificates: stop.drop_guard() })
    }

    /// Adds or updates a listener of a file, on all workers. A listener that stays the same is left alone; so are, as with Envoy, all once
    /// [listeners were stopped](Self::stop_listeners): a process that is drained does not serve again.
    ///
    /// Errors: why it is refused; the listener of this name that is there stays.
    pub(crate) async fn apply(
        self: &Arc<Self>,
        config: ListenerConfig,
        version: &str,
        logs: &AccessLogFiles,
    ) -> Result<(), String> {
        let _alone = self.changing.lock().await;
        let [inbound, all] = self.stopped.each_ref().map(|stopped| stopped.load(Ordering::Acquire));
        if all || (inbound && config.inbound) {
            return Ok(());
        }
        if !config.is_served_by(self.concurrency) {
            return Err(NEEDS_REUSE_PORT.to_owned());
        }
        let origin = Origin::Dynamic(version.to_owned(), SystemTime::now());
        let name = config.name.clone();
        let (difference, before) = {
            let listeners = self.listeners.lock();
            let is_taken = |other: &Listener| {
                other.config.name != name
                    && config.conflicts_with(&other.config)
                    && !other.active.stopped.is_cancelled()
            };
            if listeners.iter().any(is_taken) {
                return Err(format!(
                    "error adding listener: '{name}' has duplicate address '{}' as existing listener, to check if the listener has duplicated addresses with other listeners or 'enable_reuse_port' is set to 'false' for the listener",
                    config.address
                ));
            }
            match listeners.iter().find(|listener| listener.config.name == name) {
                None => (Difference::New, None),
                Some(known) if known.origin == Origin::Static => {
                    return Err(format!("a listener named '{name}' is part of the bootstrap, and stays"));
                }
                Some(known) => {
                    let difference = compare(&known.config, &config);
                    if difference == Difference::None {
                        return Ok(());
                    }
                    if known.config.reuse_port != config.reuse_port {
                        return Err(format!(
                            "Listener {name}: reuse port cannot be changed during an update"
                        ));
                    }
                    (
                        difference,
                        Some((Arc::clone(&known.factory), known.active.newest.clone(), chains_of(known))),
                    )
                }
            }
        };
        let reused = match (difference, before) {
            (Difference::Chains, Some((factory, newest, chains))) => {
                Some(Before { factory, chains, newest: Some(newest) })
            }
            (Difference::Fields, Some((factory, ..))) => {
                Some(Before { factory, chains: Vec::new(), newest: None })
            }
            // Of another address.
            _ => None,
        };
        let listener = self.build(config, origin, reused, logs).map_err(|error| {
            self.counters.add(Count::NotCreated, 1);
            error.to_string()
        })?;
        self.serve(&listener).await?;
        self.replace(listener, difference);
        Ok(())
    }

    /// Makes all workers serve a listener. Errors: a socket cannot listen.
    async fn serve(&self, listener: &Listener) -> Result<(), String> {
        let workers = self.workers.lock().clone();
        for (number, worker) in workers.iter().enumerate() {
            let socket = listener.socket(number).map_err(|error| {
                self.counters.add(Count::NotCreated, 1);
                listener.active.stopped.cancel();
                format!("cannot listen on '{}': {}", listener.factory.address, reason(&error))
            })?;
            if worker.add(Arc::clone(&listener.active), socket).await {
                self.counters.add(Count::Created, 1);
            }
        }
        Ok(())
    }

    /// Puts a listener in the place of the one of its name, whose connections are drained.
    fn replace(self: &Arc<Self>, listener: Listener, difference: Difference) {
        let name = listener.config.name.clone();
        let mut listeners = self.listeners.lock();
        let Some(place) = listeners.iter().position(|known| known.config.name == name) else {
            listeners.push(listener);
            drop(listeners);
            self.counters.add(Count::Added, 1);
            self.count_active();
            return tracing::info!("lds: add/update listener '{name}'");
        };
        let Some(known) = listeners.get_mut(place) else { return };
        let shares_sockets = Arc::ptr_eq(&known.factory, &listener.factory);
        let updated = (difference == Difference::Chains).then(|| Arc::downgrade(&listener.active));
        let old = std::mem::replace(known, listener);
        let kept = chains_of(known);
        drop(listeners);
        self.counters.add(Count::Modified, 1);
        let removed = chains_of(&old)
            .into_iter()
            .filter(|(_, chain)| !kept.iter().any(|(_, kept)| Arc::ptr_eq(chain, kept)))
            .map(|(_, chain)| Arc::clone(&chain.drain));
        let removed: Vec<Arc<Drain>> = removed.collect();
        if let Some(updated) = updated {
            *old.active.newest.lock() = updated;
            old.active.is_updated.store(true, Ordering::Release);
        }
        old.active.stopped.cancel();
        if !shares_sockets {
            old.factory.close();
        }
        let gauge = match difference {
            Difference::Chains => {
                self.counters.add(Count::UpdatedInPlace, 1);
                (Count::DrainingChains, u64::try_from(removed.len()).unwrap_or(0))
            }
            _ => (Count::Draining, 1),
        };
        self.drain_chains(removed, gauge);
        self.count_active();
        tracing::info!("lds: add/update listener '{name}'");
    }

    /// Removes a listener of a file. Its connections are drained.
    pub(crate) async fn remove(self: &Arc<Self>, name: &str) {
        let _alone = self.changing.lock().await;
        let removed = {
            let mut listeners = self.listeners.lock();
            let place = listeners
                .iter()
                .position(|known| known.config.name == name && known.origin != Origin::Static);
            place.map(|place| listeners.remove(place))
        };
        let Some(old) = removed else { return };
        old.active.stopped.cancel();
        old.factory.close();
        self.counters.add(Count::Removed, 1);
        let drains = chains_of(&old).into_iter().map(|(_, chain)| Arc::clone(&chain.drain)).collect();
        self.drain_chains(drains, (Count::Draining, 1));
        self.count_active();
        tracing::info!("lds: remove listener '{name}'");
    }

    /// Drains filter chains: at the end of the drain time, their connections are closed.
    fn drain_chains(self: &Arc<Self>, drains: Vec<Arc<Drain>>, (gauge, amount): (Count, u64)) {
        drains.iter().for_each(|drain| drain.begin());
        self.counters.add(gauge, amount);
        let manager = Arc::clone(self);
        self.drains.spawn(async move {
            tokio::select! {
                () = tokio::time::sleep(manager.drain.time) => {}
                () = manager.stop.cancelled() => return,
            }
            let workers = manager.workers.lock().clone();
            for drain in drains {
                drain.end();
                for worker in &workers {
                    worker.wake(drain.id).await;
                }
            }
            manager.counters.subtract(gauge, amount);
            // By then the connections that were woken are gone.
            tokio::time::sleep(FORGET_AFTER).await;
            manager.stats.forget_unused();
        });
    }

    /// Names of the listeners of files.
    pub(crate) fn dynamic(&self) -> Vec<String> {
        let listeners = self.listeners.lock();
        let dynamic = listeners.iter().filter(|listener| listener.origin != Origin::Static);
        dynamic.map(|listener| listener.config.name.clone()).collect()
    }

    fn count_active(&self) {
        // As with Envoy, those that have stopped are among them until they are removed.
        let active = self.listeners.lock().len();
        self.counters.set(Count::Active, u64::try_from(active).unwrap_or(0));
    }

    /// Tells the workers of time, as long as it is polled: so they need no timers of their own while all time limits are far away.
    pub(crate) async fn tick(&self) {
        loop {
            tokio::time::sleep(TICK).await;
            self.workers.lock().iter().for_each(|worker| worker.tick());
        }
    }

    /// Starts the workers, which serve every listener.
    ///
    /// Errors: a thread cannot be created, or a socket cannot listen.
    pub(crate) async fn start_workers(&self) -> Result<(), StartError> {
        let _alone = self.changing.lock().await;
        for number in 0..self.concurrency {
            let worker = Worker::start(number, Arc::clone(&self.shared), self.stop.clone())
                .map_err(|error| StartError::Thread(error.to_string()))?;
            let serving: Vec<_> = {
                let listeners = self.listeners.lock();
                let socket = |listener: &Listener| {
                    (Arc::clone(&listener.active), listener.socket(number), listener.factory.address)
                };
                // One that was stopped meanwhile has no sockets any more.
                let serving = listeners.iter().filter(|listener| !listener.active.stopped.is_cancelled());
                serving.map(socket).collect()
            };
            for (active, socket, address) in serving {
                let socket = socket.map_err(|error| {
                    self.counters.add(Count::NotCreated, 1);
                    let text = reason(&error);
                    StartError::Listen(format!("cannot listen on '{address}': {text}"))
                })?;
                if worker.add(active, socket).await {
                    self.counters.add(Count::Created, 1);
                }
            }
            self.workers.lock().push(Arc::new(worker));
        }
        self.counters.add(Count::Started, 1);
        Ok(())
    }

    /// All listeners, in order.
    pub(crate) fn shown(&self) -> Vec<Shown> {
        let shown = |listener: &Listener| Shown {
            name: listener.config.name.clone(),
            address: listener.factory.address,
            origin: listener.origin.clone(),
            document: listener.config.document.clone(),
        };
        self.listeners.lock().iter().map(shown).collect()
    }

    /// Stops accepting on all listeners, or on inbound ones. Sockets are closed; connections go on.
    pub(crate) fn stop_listeners(&self, inbound_only: bool) {
        let [inbound, all] = &self.stopped;
        if inbound_only { inbound } else { all }.store(true, Ordering::Release);
        for listener in self.chosen(self.listeners.lock().iter(), inbound_only) {
            if !listener.active.stopped.is_cancelled() {
                self.counters.add(Count::Stopped, 1);
                listener.active.stopped.cancel();
                listener.factory.close();
            }
        }
    }

    fn chosen<'l>(
        &self,
        listeners: impl Iterator<Item = &'l Listener>,
        inbound_only: bool,
    ) -> impl Iterator<Item = &'l Listener> {
        listeners.filter(move |listener| listener.config.inbound || !inbound_only)
    }

    /// Drains the connections of all listeners, or of inbound ones, for the drain time; then these listeners stop, unless they are to go on.
    pub(crate) fn drain_listeners(self: &Arc<Self>, inbound_only: bool, goes_on: bool) {
        for listener in self.chosen(self.listeners.lock().iter(), inbound_only) {
            chains_of(listener).iter().for_each(|(_, chain)| chain.drain.begin());
        }
        if goes_on {
            return;
        }
        let manager = Arc::clone(self);
        self.drains.spawn(async move {
            tokio::select! {
                () = tokio::time::sleep(manager.drain.time) => manager.stop_listeners(inbound_only),
                () = manager.stop.cancelled() => {}
            }
        });
    }

    /// Ends all workers with their connections.
    pub(crate) fn stop(&self) {
        self.stop.cancel();
        for worker in self.workers.lock().drain(..) {
            worker.join();
        }
    }
}

/// The filter chains of a listener with what was written of them, the default one last.
fn chains_of(listener: &Listener) -> Chains {
    let entrance = &listener.active.entrance;
    let written = listener.config.all_chains().map(|chain| chain.written);
    let chains = entrance.chains.iter().chain(&entrance.default);
    written.zip(chains.map(Arc::clone)).collect()
}
