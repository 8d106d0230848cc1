//! Statistics with Envoy's names.
//!
//! The statistics of a scope (a cluster, a listener, …) are one block of counters that exists once for each worker, so that workers do not
//! write to the same cache lines; readers sum them up. Gauges are counters that also go down.

mod names;
mod render;

use std::any::Any;
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use mixer_base::shard::ShardedCounters;
use parking_lot::Mutex;

pub(crate) use names::{
    CertificateStat, ClusterStat, ClusterUdpStat, ExtAuthzStat, HealthStat, Http2Stat, HttpInspectorStat,
    HttpStat, LdsStat, ListenerStat, ListenerUdpStat, LogStreamStat, ManagerStat, OutlierStat,
    ProxyProtocolStat, RootStat, SslStat, TcpStat, TlsInspectorStat, UdpStat, WorkerStat,
};
pub(crate) use render::{Format, Selection, render};

/// Whether a statistic goes up only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Counter,
    Gauge,
}

/// The statistics of a kind of scope.
pub(crate) trait Stat: Copy + Send + Sync + 'static {
    /// All names, in the order of the indices.
    const NAMES: &'static [(&'static str, Kind)];
    /// The place in `NAMES`.
    fn index(self) -> usize;
}

/// What statistics are about: the beginning of their names, and the labels in the form of Prometheus.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Scope {
    Cluster(String),
    /// External authorization of requests to a cluster, by a filter with a prefix of its own or without.
    ClusterExtAuthz(String, String),
    ClusterManager,
    /// Files of access logs.
    Filesystem,
    Http(String),
    Listener(String),
    /// What a connection manager counts for its listener.
    ListenerHttp(String, String),
    ListenerWorker(String, usize),
    ListenerManager,
    /// Access logs that are sent to servers.
    LogStream,
    Tcp(String),
    Udp(String),
    /// A filter ext_authz of a connection manager: the prefix of the manager, and that of the filter.
    ExtAuthz(String, String),
    /// The Mixer filters of `http` or `tcp`.
    Mixer(&'static str),
    Server,
    TlsInspector,
    HttpInspector,
    ProxyProtocol,
    /// Names without a beginning.
    Root,
}

impl Scope {
    /// What the names begin with, with a dot at the end.
    fn prefix(&self) -> String {
        match self {
            Scope::Cluster(name) => format!("cluster.{}.", name.replace(':', "_")),
            Scope::ClusterExtAuthz(name, own) => {
                let own = if own.is_empty() { String::new() } else { format!("{own}.") };
                format!("cluster.{}.ext_authz.{own}", name.replace(':', "_"))
            }
            Scope::ClusterManager => "cluster_manager.".to_owned(),
            Scope::Filesystem => "filesystem.".to_owned(),
            Scope::Http(name) => format!("http.{name}."),
            Scope::Listener(name) => format!("listener.{name}."),
            Scope::ListenerHttp(listener, name) => format!("listener.{listener}.http.{name}."),
            Scope::ListenerWorker(name, worker) => format!("listener.{name}.worker_{worker}."),
            Scope::ListenerManager => "listener_manager.".to_owned(),
            Scope::LogStream => "access_logs.grpc_access_log.".to_owned(),
            Scope::Tcp(name) => format!("tcp.{name}."),
            Scope::Udp(name) => format!("udp.{name}."),
            Scope::ExtAuthz(manager, own) if own.is_empty() => format!("http.{manager}.ext_authz."),
            Scope::ExtAuthz(manager, own) => format!("http.{manager}.ext_authz.{own}."),
            Scope::Mixer(kind) => format!("{kind}_mixer_filter."),
            Scope::Server => "server.".to_owned(),
            Scope::TlsInspector => "tls_inspector.".to_owned(),
            Scope::HttpInspector => "http_inspector.".to_owned(),
            Scope::ProxyProtocol => "proxy_proto.".to_owned(),
            Scope::Root => String::new(),
        }
    }

    /// The name of the family in the form of Prometheus, without the statistic, and labels.
    fn family(&self) -> (&'static str, Vec<(&'static str, String)>) {
        match self {
            Scope::Cluster(name) => ("envoy_cluster", vec![("envoy_cluster_name", name.clone())]),
            Scope::ClusterExtAuthz(name, own) => {
                let own = Some(own).filter(|own| !own.is_empty());
                let own = own.map(|own| ("envoy_ext_authz_prefix", own.clone()));
                let labels = [("envoy_cluster_name", name.clone())].into_iter().chain(own);
                ("envoy_cluster_ext_authz", labels.collect())
            }
            Scope::ClusterManager => ("envoy_cluster_manager", Vec::new()),
            Scope::Filesystem => ("envoy_filesystem", Vec::new()),
            Scope::Http(name) => ("envoy_http", vec![("envoy_http_conn_manager_prefix", name.clone())]),
            Scope::Listener(name) => ("envoy_listener", vec![("envoy_listener_address", name.clone())]),
            Scope::ListenerHttp(listener, name) => (
                "envoy_listener_http",
                vec![
                    ("envoy_http_conn_manager_prefix", name.clone()),
                    ("envoy_listener_address", listener.clone()),
                ],
            ),
            Scope::ListenerWorker(name, worker) => (
                "envoy_listener_worker",
                vec![("envoy_worker_id", worker.to_string()), ("envoy_listener_address", name.clone())],
            ),
            Scope::ListenerManager => ("envoy_listener_manager", Vec::new()),
            Scope::LogStream => ("envoy_access_logs_grpc_access_log", Vec::new()),
            Scope::Tcp(name) => ("envoy_tcp", vec![("envoy_tcp_prefix", name.clone())]),
            Scope::Udp(name) => ("envoy_udp", vec![("envoy_udp_prefix", name.clone())]),
            Scope::ExtAuthz(manager, own) => {
                let own = Some(own).filter(|own| !own.is_empty());
                let own = own.map(|own| ("envoy_ext_authz_prefix", own.clone()));
                let labels = [("envoy_http_conn_manager_prefix", manager.clone())].into_iter().chain(own);
                ("envoy_http_ext_authz", labels.collect())
            }
            Scope::Mixer("http") => ("envoy_http_mixer_filter", Vec::new()),
            Scope::Mixer(_) => ("envoy_tcp_mixer_filter", Vec::new()),
            Scope::Server => ("envoy_server", Vec::new()),
            Scope::TlsInspector => ("envoy_tls_inspector", Vec::new()),
            Scope::HttpInspector => ("envoy_http_inspector", Vec::new()),
            Scope::ProxyProtocol => ("envoy_proxy_proto", Vec::new()),
            Scope::Root => ("envoy", Vec::new()),
        }
    }
}

/// The counters and gauges of a scope.
#[derive(Debug)]
pub(crate) struct Block<S: Stat> {
    cells: ShardedCounters,
    kind: PhantomData<S>,
}

impl<S: Stat> Block<S> {
    fn new() -> Self {
        Self { cells: ShardedCounters::new(S::NAMES.len()), kind: PhantomData }
    }

    /// Adds one.
    #[inline]
    pub(crate) fn increment(&self, stat: S) {
        self.cells.add(stat.index(), 1);
    }

    /// Adds an amount.
    #[inline]
    pub(crate) fn add(&self, stat: S, amount: u64) {
        self.cells.add(stat.index(), amount);
    }

    /// The value, over all workers. Cost: as many reads as there are shards.
    pub(crate) fn get(&self, stat: S) -> u64 {
        self.cells.total(stat.index())
    }

    /// Subtracts one from a gauge.
    #[inline]
    pub(crate) fn decrement(&self, stat: S) {
        self.cells.add(stat.index(), u64::MAX);
    }
}

/// Upper bounds of the buckets of histograms, in milliseconds.
pub(crate) const BOUNDS: [f64; 19] = [
    0.5,
    1.0,
    5.0,
    10.0,
    25.0,
    50.0,
    100.0,
    250.0,
    500.0,
    1000.0,
    2500.0,
    5000.0,
    10_000.0,
    30_000.0,
    60_000.0,
    300_000.0,
    600_000.0,
    1_800_000.0,
    3_600_000.0,
];

/// A histogram of durations.
#[derive(Debug)]
pub(crate) struct Histogram {
    /// One cell for each bucket, one for those above, one for the sum in microseconds.
    cells: ShardedCounters,
}

impl Histogram {
    fn new() -> Self {
        Self { cells: ShardedCounters::new(BOUNDS.len() + 2) }
    }

    /// Records a duration.
    pub(crate) fn observe(&self, duration: Duration) {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        let millis = micros as f64 / 1000.0;
        let bucket = BOUNDS.iter().position(|bound| millis <= *bound).unwrap_or(BOUNDS.len());
        self.cells.add(bucket, 1);
        self.cells.add(BOUNDS.len() + 1, micros);
    }

    /// Counts by bucket, not cumulative, and the sum in milliseconds.
    fn get(&self) -> (Vec<u64>, f64) {
        let counts = (0..=BOUNDS.len()).map(|bucket| self.cells.total(bucket)).collect();
        (counts, self.cells.total(BOUNDS.len() + 1) as f64 / 1000.0)
    }
}

/// Responses by status.
#[derive(Debug, Default)]
pub(crate) struct Statuses {
    /// Allocated by the first response.
    cells: OnceLock<ShardedCounters>,
}

/// Statuses that are counted one by one: 100 to 599.
const STATUSES: usize = 500;

impl Statuses {
    /// Counts a response.
    pub(crate) fn increment(&self, status: u16) {
        if let Some(index) = usize::from(status).checked_sub(100).filter(|index| *index < STATUSES) {
            self.cells.get_or_init(|| ShardedCounters::new(STATUSES)).add(index, 1);
        }
    }

    fn get(&self) -> Vec<(usize, u64)> {
        let Some(cells) = self.cells.get() else { return Vec::new() };
        let counts = (0..STATUSES).map(|index| (index + 100, cells.total(index)));
        counts.filter(|(_, count)| *count > 0).collect()
    }
}

/// Everything that can be shown of a scope.
trait Source: Any + Send + Sync {
    fn read(&self, scope: &Scope, out: &mut Vec<Sample>);

    /// How many count in what is shown, beside those that have the source itself.
    fn owners(&self) -> usize {
        0
    }
}

/// A statistic as it is shown.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sample {
    pub(crate) scope: Scope,
    pub(crate) name: String,
    pub(crate) value: Value,
}

/// The value of a statistic.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Counter(u64),
    Gauge(u64),
    Histogram(Vec<u64>, f64),
    Text(String),
}

impl<S: Stat> Source for Block<S> {
    fn read(&self, scope: &Scope, out: &mut Vec<Sample>) {
        for (index, (name, kind)) in S::NAMES.iter().enumerate() {
            let value = self.cells.total(index);
            let value = match kind {
                Kind::Counter => Value::Counter(value),
                Kind::Gauge => Value::Gauge(value),
            };
            out.push(Sample { scope: scope.clone(), name: (*name).to_owned(), value });
        }
    }
}

/// Counters that are shown once they are not 0.
#[derive(Debug)]
pub(crate) struct NamedCounters(&'static [&'static str], ShardedCounters);

impl NamedCounters {
    /// Adds one to the counter of this name; a name that is not known is not counted.
    pub(crate) fn increment(&self, name: &[&str]) {
        let is_it = |known: &&&str| {
            let mut rest = **known;
            name.iter().all(|part| {
                let after = rest.strip_prefix(*part);
                rest = after.unwrap_or_default();
                after.is_some()
            }) && rest.is_empty()
        };
        if let Some(index) = self.0.iter().position(|known| is_it(&known)) {
            self.1.add(index, 1);
        }
    }
}

impl Source for NamedCounters {
    fn read(&self, scope: &Scope, out: &mut Vec<Sample>) {
        for (index, name) in self.0.iter().enumerate() {
            let value = self.1.total(index);
            if value > 0 {
                let name = (*name).to_owned();
                out.push(Sample { scope: scope.clone(), name, value: Value::Counter(value) });
            }
        }
    }
}

struct NamedHistogram(&'static str, Arc<Histogram>);

impl Source for NamedHistogram {
    fn owners(&self) -> usize {
        Arc::strong_count(&self.1) - 1
    }

    fn read(&self, scope: &Scope, out: &mut Vec<Sample>) {
        let (counts, sum) = self.1.get();
        out.push(Sample {
            scope: scope.clone(),
            name: self.0.to_owned(),
            value: Value::Histogram(counts, sum),
        });
    }
}

/// Statuses under a prefix.
struct NamedStatuses(&'static str, Arc<Statuses>);

impl Source for NamedStatuses {
    fn read(&self, scope: &Scope, out: &mut Vec<Sample>) {
        for (name, count) in by_class(&self.1.get()) {
            let name = format!("{}{name}", self.0);
            out.push(Sample { scope: scope.clone(), name, value: Value::Counter(count) });
        }
    }
}

/// Counts of statuses, and of their classes and all of them if there are any.
fn by_class(statuses: &[(usize, u64)]) -> Vec<(String, u64)> {
    let mut sums = BTreeMap::<String, u64>::new();
    for (status, count) in statuses {
        for name in [status.to_string(), format!("{}xx", status / 100), "completed".to_owned()] {
            *sums.entry(name).or_default() += count;
        }
    }
    sums.into_iter().collect()
}

/// Statuses of requests of clients, and of those of the proxy itself: of each, and of both.
struct StatusesByOrigin([Arc<Statuses>; 2]);

impl Source for StatusesByOrigin {
    fn read(&self, scope: &Scope, out: &mut Vec<Sample>) {
        let mut all = BTreeMap::<usize, u64>::new();
        let mut push = |name: String, count| {
            out.push(Sample { scope: scope.clone(), name, value: Value::Counter(count) });
        };
        for (origin, statuses) in ["external", "internal"].into_iter().zip(&self.0) {
            let statuses = statuses.get();
            for (status, count) in &statuses {
                *all.entry(*status).or_default() += count;
            }
            for (name, count) in by_class(&statuses) {
                push(format!("{origin}.upstream_rq_{name}"), count);
            }
        }
        for (status, count) in all {
            push(format!("upstream_rq_{status}"), count);
        }
    }
}

struct Computed<F>(&'static str, F);

impl<F: Fn() -> Value + Send + Sync + 'static> Source for Computed<F> {
    fn read(&self, scope: &Scope, out: &mut Vec<Sample>) {
        out.push(Sample { scope: scope.clone(), name: self.0.to_owned(), value: (self.1)() });
    }
}

/// All statistics of the process.
#[derive(Default)]
pub(crate) struct Stats {
    sources: Mutex<Vec<Entry>>,
}

/// A source and what it is of.
#[derive(Clone)]
struct Entry {
    scope: Scope,
    source: Arc<dyn Source>,
    /// The same, to be found by its type.
    typed: Arc<dyn Any + Send + Sync>,
}

impl std::fmt::Debug for Stats {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stats").field("sources", &self.sources.lock().len()).finish()
    }
}

impl Entry {
    fn new<T: Source>(scope: &Scope, source: &Arc<T>) -> Self {
        let typed: Arc<dyn Any + Send + Sync> = Arc::<T>::clone(source);
        Self { scope: scope.clone(), source: Arc::<T>::clone(source), typed }
    }
}

impl Stats {
    fn push<T: Source>(&self, scope: &Scope, source: T) {
        self.sources.lock().push(Entry::new(scope, &Arc::new(source)));
    }

    /// The source of a kind that a scope has, or a new one: filter chains with the same prefix count together.
    fn shared<T: Source>(
        &self,
        scope: &Scope,
        is_it: impl Fn(&T) -> bool,
        new: impl FnOnce() -> T,
    ) -> Arc<T> {
        let mut sources = self.sources.lock();
        let of_scope = sources.iter().filter(|entry| entry.scope == *scope);
        let mut typed = of_scope.filter_map(|entry| Arc::clone(&entry.typed).downcast::<T>().ok());
        if let Some(found) = typed.find(|source| is_it(source)) {
            return found;
        }
        let new = Arc::new(new());
        sources.push(Entry::new(scope, &new));
        new
    }

    /// The counters and gauges of a scope.
    pub(crate) fn block<S: Stat>(&self, scope: &Scope) -> Arc<Block<S>> {
        self.shared(scope, |_: &Block<S>| true, Block::new)
    }

    /// The histogram of this name.
    pub(crate) fn histogram(&self, scope: &Scope, name: &'static str) -> Arc<Histogram> {
        let found = self.shared(
            scope,
            |histogram: &NamedHistogram| histogram.0 == name,
            || NamedHistogram(name, Arc::new(Histogram::new())),
        );
        Arc::clone(&found.1)
    }

    /// The counters of the values that `values` lists, each under its own name; those that are 0 are not shown.
    pub(crate) fn named(&self, scope: &Scope, values: &'static [&'static str]) -> Arc<NamedCounters> {
        let is_it = |counters: &NamedCounters| std::ptr::eq(counters.0, values);
        self.shared(scope, is_it, || NamedCounters(values, ShardedCounters::new(values.len())))
    }

    /// New counters of statuses, shown under a prefix.
    pub(crate) fn statuses(&self, scope: &Scope, prefix: &'static str) -> Arc<Statuses> {
        let statuses = Arc::new(Statuses::default());
        self.push(scope, NamedStatuses(prefix, Arc::clone(&statuses)));
        statuses
    }

    /// New counters of the statuses of requests of clients, and of those of the proxy itself: shown as `external.upstream_rq_200` and
    /// `internal.upstream_rq_200`, and together as `upstream_rq_200`.
    pub(crate) fn statuses_by_origin(&self, scope: &Scope) -> [Arc<Statuses>; 2] {
        let statuses: [Arc<Statuses>; 2] = Default::default();
        self.push(scope, StatusesByOrigin(statuses.clone()));
        statuses
    }

    /// Forgets the statistics of listeners and filters that are gone. Those that have the same names later begin at 0.
    pub(crate) fn forget_unused(&self) {
        self.sources.lock().retain(|entry| {
            let may_go = matches!(
                entry.scope,
                Scope::Http(_)
                    | Scope::Tcp(_)
                    | Scope::Udp(_)
                    | Scope::Listener(_)
                    | Scope::ListenerHttp(..)
                    | Scope::ListenerWorker(..)
                    | Scope::ExtAuthz(..)
            ) || matches!(&entry.scope, Scope::ClusterExtAuthz(_, own) if !own.is_empty());
            // The entry itself has the source twice.
            !may_go || Arc::strong_count(&entry.source) > 2 || entry.source.owners() > 0
        });
    }

    /// A value that is computed when it is asked for.
    pub(crate) fn computed(
        &self,
        scope: &Scope,
        name: &'static str,
        value: impl Fn() -> Value + Send + Sync + 'static,
    ) {
        self.push(scope, Computed(name, value));
    }

    /// All values, sorted by name.
    pub(crate) fn samples(&self) -> Vec<Sample> {
        let sources = self.sources.lock().clone();
        let mut out = Vec::new();
        for entry in sources {
            entry.source.read(&entry.scope, &mut out);
        }
        out
    }
}

impl Sample {
    /// The name, with dots.
    pub(crate) fn full_name(&self) -> String {
        format!("{}{}", self.scope.prefix(), self.name)
    }
}
