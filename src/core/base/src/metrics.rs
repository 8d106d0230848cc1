//! The server's own metrics.
//!
//! [`Metrics`] holds one value per family and label set. Code on the hot path gets a handle once ([`Counter`], [`Histogram`],
//! [`DispatchCounters`], [`RpcCounters`]) and keeps it: an update writes to a cache line that no other worker writes to, and a
//! scrape sums the shards. Each server has one `Metrics`. Families are declared in one table, [`Family`].
//!
//! ```
//! use mixer_base::metrics::{Family, Metrics};
//! let metrics = Metrics::new();
//! metrics.gauge(Family::ConfigRules, &[]).set(3_u64);
//! let dispatches = metrics.dispatch("deny.istio-system", "denier", "checknothing"); // once, when the routing table is built
//! dispatches.record(std::time::Duration::from_micros(3), false); // per call
//! let mut text = Vec::new();
//! metrics.write(&mut text);
//! ```
//! See docs/metrics.md.

mod buckets;
mod cells;
mod families;
mod legacy;
mod process;
mod rules;

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

pub use cells::{Counter, DispatchCounters, Gauge, GaugeValue, Histogram, RpcCounters};
pub use process::{cpu_seconds, max_descriptors, private_bytes};
pub use rules::{MAX_RULES, OTHER_RULES, RuleCounters, RuleCounts};

pub use families::{FAMILIES, Family, FamilyInfo};

pub use super::exposition::HistogramSample;
use super::exposition::{FamilyKind, FamilyWriter, Format, Labels, Protobuf, Writer};
use super::scheduling::let_others_run;
use rules::RuleTable;

/// Values by handler, rule, metric or limit that nobody holds any more and that are kept all the same, so that a handler that comes back goes on
/// counting. A server whose configuration names ever new ones forgets them beyond this number.
const MAX_UNUSED: usize = 256;

/// A source of values that are computed at each scrape, for example the number of live tasks.
pub trait Collect: Send + Sync {
    /// Adds the current values.
    fn collect(&self, into: &mut Collected);
}

/// Values of one scrape, by family and label values.
#[derive(Debug, Default)]
pub struct Collected {
    values: BTreeMap<(Family, Vec<String>), f64>,
    histograms: Histograms,
}

impl Collected {
    /// Adds to the value of a family and label values (in the order of [`FamilyInfo::labels`]).
    pub fn add(&mut self, family: Family, labels: &[&str], value: f64) {
        debug_assert_eq!(labels.len(), family.info().labels.len());
        let key = (family, labels.iter().map(|l| (*l).to_owned()).collect());
        *self.values.entry(key).or_insert(0.0) += value;
    }

    /// A histogram of a family: one count per bound and one more, not cumulative, and the sum in the unit of the family's name.
    pub fn histogram(&mut self, family: Family, labels: &[&str], counts: Vec<u64>, sum: f64) {
        debug_assert_eq!(
            (labels.len(), counts.len()),
            (family.info().labels.len(), family.info().bounds.len() + 1)
        );
        let key = (family, labels.iter().map(|l| (*l).to_owned()).collect());
        self.histograms.insert(key, HistogramSample { counts, sum, native: None });
    }
}

#[derive(Debug)]
enum Registered {
    Counter(Counter),
    Gauge(Gauge),
    Histogram(Histogram),
}

impl Registered {
    /// Whether only the table holds it.
    fn is_unused(&self) -> bool {
        matches!(self, Registered::Counter(counter) if counter.is_unshared())
    }
}

/// Whether the values of a family belong to something configured, which may be gone. Their users hold the counters.
fn is_of_configuration(family: Family) -> bool {
    // `domain`: of rate limits.
    family.info().labels.iter().any(|label| matches!(*label, "handler" | "rule" | "metric" | "domain"))
}

#[derive(Default)]
struct Tables {
    /// By family and label values.
    cells: BTreeMap<(Family, Vec<String>), Registered>,
    /// By adapter, handler, template.
    dispatches: BTreeMap<[Arc<str>; 3], Arc<DispatchCounters>>,
    /// By full method name.
    rpcs: BTreeMap<Arc<str>, Arc<RpcCounters>>,
    collectors: Vec<Weak<dyn Collect>>,
    /// Number of values after the last look at which of them are unused.
    looked_at: usize,
}

impl Tables {
    /// Forgets unused values of the configuration if there are more than [`MAX_UNUSED`]. Looks again once so many were added as there are:
    /// constant time for each new value on average.
    fn forget_unused(&mut self) {
        let all = self.cells.len() + self.dispatches.len();
        if all < 2 * self.looked_at.max(MAX_UNUSED / 2) {
            return;
        }
        let is_unused = |family: Family, cell: &Registered| is_of_configuration(family) && cell.is_unused();
        let unused = self.cells.iter().filter(|((family, _), cell)| is_unused(*family, cell)).count()
            + self.dispatches.values().filter(|counters| Arc::strong_count(counters) == 1).count();
        if unused > MAX_UNUSED {
            self.cells.retain(|(family, _), cell| !is_unused(*family, cell));
            self.dispatches.retain(|_, counters| Arc::strong_count(counters) > 1);
            self.looked_at = all - unused;
        } else {
            self.looked_at = all;
        }
    }
}

/// The metrics of one server.
pub struct Metrics {
    tables: Mutex<Tables>,
    rules: Arc<RuleTable>,
    destinations: Histogram,
    instances: Histogram,
    condition_errors: Counter,
    header_value_errors: Counter,
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// No values yet.
    pub fn new() -> Self {
        let tables = Mutex::new(Tables::default());
        let histogram = Histogram::new;
        let mut metrics = Self {
            tables,
            rules: RuleTable::new(),
            destinations: histogram(Family::DispatcherDestinations),
            instances: histogram(Family::DispatcherInstances),
            condition_errors: Counter::new(),
            header_value_errors: Counter::new(),
        };
        metrics.condition_errors = metrics.counter(Family::RuntimeConditionErrors, &[]);
        metrics.header_value_errors = metrics.counter(Family::RuntimeHeaderValueErrors, &[]);
        metrics
    }

    /// The gauge of a family for these label values (in the order of [`FamilyInfo::labels`]); the same one each time. Takes a
    /// lock: not for the hot path.
    pub fn gauge(&self, family: Family, labels: &[&str]) -> Gauge {
        debug_assert_eq!((family.info().kind, family.info().labels.len()), (FamilyKind::Gauge, labels.len()));
        match self.cell(family, labels, || Registered::Gauge(Gauge::new())) {
            Registered::Gauge(gauge) => gauge,
            Registered::Counter(_) | Registered::Histogram(_) => Gauge::new(),
        }
    }

    /// The counter of a family for these label values; otherwise as [`gauge`](Self::gauge). A counter without labels is
    /// exposed once it is above 0.
    pub fn counter(&self, family: Family, labels: &[&str]) -> Counter {
        debug_assert_eq!(
            (family.info().kind, family.info().labels.len()),
            (FamilyKind::Counter, labels.len())
        );
        match self.cell(family, labels, || Registered::Counter(Counter::new())) {
            Registered::Counter(counter) => counter,
            Registered::Gauge(_) | Registered::Histogram(_) => Counter::new(),
        }
    }

    /// The histogram of a family for these label values; otherwise as [`gauge`](Self::gauge). It is exposed once it has a value.
    pub fn histogram(&self, family: Family, labels: &[&str]) -> Histogram {
        debug_assert_eq!(
            (family.info().kind, family.info().labels.len()),
            (FamilyKind::Histogram, labels.len())
        );
        match self.cell(family, labels, || Registered::Histogram(Histogram::new(family))) {
            Registered::Histogram(histogram) => histogram,
            Registered::Counter(_) | Registered::Gauge(_) => Histogram::new(family),
        }
    }

    fn cell(&self, family: Family, labels: &[&str], make: impl FnOnce() -> Registered) -> Registered {
        let key = (family, labels.iter().map(|l| (*l).to_owned()).collect());
        let mut tables = self.tables.lock();
        if is_of_configuration(family) && !tables.cells.contains_key(&key) {
            tables.forget_unused();
        }
        match tables.cells.entry(key).or_insert_with(make) {
            Registered::Counter(counter) => Registered::Counter(counter.clone()),
            Registered::Gauge(gauge) => Registered::Gauge(gauge.clone()),
            Registered::Histogram(histogram) => Registered::Histogram(histogram.clone()),
        }
    }

    /// The metrics of calls of `handler` (full name) for `template`: `mixer_runtime_dispatches_total` and
    /// `mixer_runtime_dispatch_duration_seconds`. Takes a lock: get them when the routing table is built, and keep them.
    pub fn dispatch(&self, handler: &str, adapter: &str, template: &str) -> Arc<DispatchCounters> {
        let key = [adapter, handler, template].map(Arc::<str>::from);
        let mut tables = self.tables.lock();
        if !tables.dispatches.contains_key(&key) {
            tables.forget_unused();
        }
        Arc::clone(tables.dispatches.entry(key).or_insert_with(|| Arc::new(DispatchCounters::new())))
    }

    /// The metrics of the rule with this full name: `mixer_rule_hits_total` and its siblings. The first [`MAX_RULES`] that do something have
    /// their own, those of rules that are gone make room, and all others share one row. Takes a lock: get them when the routing table is
    /// built, and keep them.
    pub fn rule(&self, name: &str) -> Arc<RuleCounters> {
        self.rules.counters(name)
    }

    /// The counts of the rule with this full name; `None` if it is counted among [others](Self::counts_of_other_rules).
    pub fn counts_of_rule(&self, name: &str) -> Option<RuleCounts> {
        self.rules.counts(name)
    }

    /// The counts of the rules that did something first when [`MAX_RULES`] others had values of their own, all together.
    pub fn counts_of_other_rules(&self) -> RuleCounts {
        self.rules.others()
    }

    /// What rules in dry run would have done, by full name and outcome (`denied`, `allowed`, …), of all varieties together. Cost: a pass over the
    /// counters.
    pub fn dry_run_outcomes(&self) -> BTreeMap<String, BTreeMap<String, u64>> {
        let mut all: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
        for ((family, labels), cell) in &self.tables.lock().cells {
            let (Family::DryRunOutcomes, [outcome, rule, _], Registered::Counter(counter)) =
                (family, labels.as_slice(), cell)
            else {
                continue;
            };
            *all.entry(rule.clone()).or_default().entry(outcome.clone()).or_default() += counter.get();
        }
        all
    }

    /// The metrics of a gRPC method, for example `istio.mixer.v1.Mixer/Check`. Takes a lock: get them once.
    pub fn rpc(&self, method: &str) -> Arc<RpcCounters> {
        let mut tables = self.tables.lock();
        Arc::clone(tables.rpcs.entry(method.into()).or_insert_with(|| Arc::new(RpcCounters::new())))
    }

    /// Records one operation (a preprocess, check, quota or report of one bag): the number of its destinations and of the
    /// instances created.
    #[inline]
    pub fn dispatch_shape(&self, destinations: usize, instances: usize) {
        self.destinations.observe(destinations as u64);
        self.instances.observe(instances as u64);
    }

    /// Counts rule conditions that could not be evaluated.
    #[inline]
    pub fn conditions_failed(&self, count: usize) {
        if count > 0 {
            self.condition_errors.add(count as u64);
        }
    }

    /// Counts one header operation whose value could not be evaluated.
    #[inline]
    pub fn header_value_failed(&self) {
        self.header_value_errors.increment();
    }

    /// Exposes the version: `istio_build{component,tag} 1`.
    pub fn set_build(&self, component: &str, tag: &str) {
        self.gauge(Family::Build, &[component, tag]).set(1_u64);
    }

    /// Collects from `source` at every scrape, until it is dropped.
    pub fn collect_from(&self, source: Weak<dyn Collect>) {
        let mut tables = self.tables.lock();
        tables.collectors.retain(|c| c.strong_count() > 0);
        tables.collectors.push(source);
    }

    /// Writes every family that has a value, and those of the process, as Prometheus text.
    pub fn write(&self, out: &mut Vec<u8>) {
        self.write_to(&mut Writer::new(out));
    }

    /// The families of [`write`](Self::write) in a format; with `configuration`, the id of the current snapshot, also those that Mixer
    /// 1.0 had under other names, under those names.
    pub fn page(&self, format: Format, configuration: Option<u64>) -> Vec<u8> {
        let mut out = Vec::new();
        let write = |writer: &mut dyn FamilyWriter| {
            self.write_to(writer);
            if let Some(configuration) = configuration {
                legacy::write(&self.samples(), configuration, writer);
            }
        };
        match format {
            Format::Text => write(&mut Writer::new(&mut out)),
            Format::Protobuf => {
                let mut writer = Protobuf::new(&mut out);
                write(&mut writer);
                writer.finish();
            }
        }
        out
    }

    fn write_to(&self, writer: &mut dyn FamilyWriter) {
        for family in self.samples() {
            let info = family.info;
            writer.family(info.name, info.help, info.kind);
            for sample in &family.samples {
                let labels = Labels::of(&sample.labels);
                match &sample.value {
                    SampleValue::Number(value) => writer.sample(info.name, &labels, *value),
                    SampleValue::Histogram(sample) => {
                        writer.histogram(info.name, &labels, info.bounds, sample);
                    }
                }
            }
        }
    }

    /// The sum of the counters of a family over all label values.
    pub fn total(&self, family: Family) -> u64 {
        let mut total = 0;
        self.each(family, |_, count| total += count);
        total
    }

    /// Passes the counters of a family to `visit`, with their label values. It must not use the metrics.
    pub fn each(&self, family: Family, mut visit: impl FnMut(&[String], u64)) {
        let tables = self.tables.lock();
        let from = tables.cells.range((family, Vec::new())..);
        for ((_, labels), cell) in from.take_while(|((other, _), _)| *other == family) {
            if let Registered::Counter(counter) = cell {
                visit(labels, counter.get());
            }
        }
    }

    /// Every family that has a value, and those of the process, in name order; samples by label values.
    pub fn samples(&self) -> Vec<FamilySamples> {
        let tables = self.tables.lock();
        let collectors: Vec<Arc<dyn Collect>> = tables.collectors.iter().filter_map(Weak::upgrade).collect();
        let mut values: BTreeMap<(Family, Vec<String>), f64> = tables
            .cells
            .iter()
            .filter_map(|((family, labels), cell)| {
                let value = match cell {
                    Registered::Gauge(gauge) => gauge.get()?,
                    Registered::Counter(counter) => match counter.get() {
                        0 if labels.is_empty() => return None,
                        count => count as f64,
                    },
                    Registered::Histogram(_) => return None,
                };
                Some(((*family, labels.clone()), value))
            })
            .collect();
        let mut histograms: Histograms = BTreeMap::new();
        for (key, cell) in &tables.cells {
            if let Registered::Histogram(histogram) = cell {
                histograms.insert(key.clone(), histogram.sample());
            }
        }
        // Collectors may use the metrics themselves.
        drop(tables);
        let mut collected = Collected::default();
        process::collect(&mut collected);
        for collector in collectors {
            collector.collect(&mut collected);
            let_others_run();
        }
        values.extend(collected.values);
        histograms.extend(collected.histograms);
        histograms.insert((Family::DispatcherDestinations, Vec::new()), self.destinations.sample());
        histograms.insert((Family::DispatcherInstances, Vec::new()), self.instances.sample());
        self.calls(&mut values, &mut histograms);
        let sampled = |family: &Family| {
            let_others_run();
            FamilySamples::of(*family, &values, &histograms)
        };
        Family::ALL.iter().filter_map(sampled).collect()
    }

    /// The samples of a family that counts dispatches or RPCs, without a look at all others. `None`: there are none, or it is another family.
    pub fn samples_of_calls(&self, family: Family) -> Option<FamilySamples> {
        let (mut values, mut histograms) = (BTreeMap::new(), Histograms::new());
        self.calls(&mut values, &mut histograms);
        FamilySamples::of(family, &values, &histograms)
    }

    /// The metrics of dispatches and RPCs.
    fn calls(&self, values: &mut BTreeMap<(Family, Vec<String>), f64>, histograms: &mut Histograms) {
        let tables = self.tables.lock();
        for ([adapter, handler, template], counters) in &tables.dispatches {
            for failed in [false, true] {
                let sample = counters.of(failed).sample();
                let labels =
                    [adapter, &*failed.to_string(), handler, template].map(|l: &str| l.to_owned()).to_vec();
                let count: u64 = sample.counts.iter().sum();
                if count > 0 {
                    values.insert((Family::RuntimeDispatches, labels.clone()), count as f64);
                }
                histograms.insert((Family::RuntimeDispatchDuration, labels), sample);
            }
        }
        self.rules.each(|rule, RuleCounts { hits, denials, shadow_denials, errors }| {
            let counted = [
                (Family::RuleHits, hits),
                (Family::RuleDenials, denials),
                (Family::RuleShadowDenials, shadow_denials),
                (Family::RuleErrors, errors),
            ];
            for (family, count) in counted.into_iter().filter(|(_, count)| *count > 0) {
                values.insert((family, vec![rule.to_owned()]), count as f64);
            }
        });
        for (method, counters) in &tables.rpcs {
            let labels = vec![method.to_string()];
            for (status, count) in counters.completed().filter(|(_, count)| *count > 0) {
                let labels = vec![method.to_string(), status.to_owned()];
                values.insert((Family::RpcsCompleted, labels), count as f64);
            }
            histograms.insert((Family::RpcLatency, labels.clone()), counters.latency.sample());
            histograms.insert((Family::RpcBytesReceived, labels.clone()), counters.received.sample());
            histograms.insert((Family::RpcBytesSent, labels), counters.sent.sample());
        }
    }
}

/// The values of a family in one scrape.
#[derive(Debug, Clone)]
pub struct FamilySamples {
    /// Name, help, kind, bounds.
    pub info: &'static FamilyInfo,
    /// At least one, by label values.
    pub samples: Vec<FamilySample>,
}

/// One value of a family.
#[derive(Debug, Clone, PartialEq)]
pub struct FamilySample {
    /// Label names and values.
    pub labels: Vec<(&'static str, String)>,
    /// The value.
    pub value: SampleValue,
}

/// A number, or a histogram.
#[derive(Debug, Clone, PartialEq)]
pub enum SampleValue {
    /// Of counters and gauges.
    Number(f64),
    /// Of histograms.
    Histogram(HistogramSample),
}

/// Histograms by family and values of its labels.
type Histograms = BTreeMap<(Family, Vec<String>), HistogramSample>;

impl FamilySamples {
    /// The samples of a family; `None` if there are none.
    fn of(
        family: Family,
        values: &BTreeMap<(Family, Vec<String>), f64>,
        histograms: &Histograms,
    ) -> Option<Self> {
        let info = family.info();
        let labels = |values: &[String]| info.labels.iter().copied().zip(values.iter().cloned()).collect();
        let from = (family, Vec::new());
        let numbers = values.range(from.clone()..).take_while(|((f, _), _)| *f == family);
        let numbers = numbers
            .map(|((_, of), value)| FamilySample { labels: labels(of), value: SampleValue::Number(*value) });
        let counted = histograms.range(from..).take_while(|((f, _), _)| *f == family);
        let counted = counted.filter_map(|((_, of), histogram)| {
            let counted = histogram.counts.iter().any(|count| *count > 0);
            let value = || SampleValue::Histogram(histogram.clone());
            counted.then(|| FamilySample { labels: labels(of), value: value() })
        });
        let samples: Vec<FamilySample> = numbers.chain(counted).collect();
        (!samples.is_empty()).then_some(FamilySamples { info, samples })
    }
}

#[cfg(test)]
mod tests;
