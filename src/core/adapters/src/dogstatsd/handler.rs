//! The lines of the dogstatsd adapter.

use std::cell::RefCell;
use std::io::Write as _;
use std::pin::Pin;
use std::time::Duration;

use mixer_attribute::Value;
use mixer_attribute::text::{brief_text, push_text};
use mixer_base::decimal;
use mixer_delivery::Items as _;
use mixer_engine::adapter::{
    BoundInstance, BuildError, Env, HandleReport, Handler, HandlerError, HandlerStatus, Instance, Reply,
    join_errors,
};

use super::{MetricType, Params};
use crate::datagrams::{DatagramOptions, Datagrams, Packing};
use crate::lines::Lines;

/// Bytes of a datagram of several metrics at most: what fits into a packet of Ethernet.
const DATAGRAM: usize = 1432;
/// How long a metric waits for others in a buffer.
const BUFFERED: Duration = Duration::from_millis(100);
/// How long a metric waits that is sent alone: reports that arrive together wake the sender once.
const ALONE: Duration = Duration::from_millis(2);

/// A built dogstatsd adapter.
pub(super) struct DogStatsdHandler {
    /// One a bound instance; `None` without an entry in the parameters, which is a problem of them.
    metrics: Vec<Option<Metric>>,
    sample_rate: f64,
    /// What follows the type of a metric if values are sampled.
    suffix: String,
    datagrams: Datagrams,
}

/// How an instance becomes a line, with everything constant already rendered.
struct Metric {
    kind: MetricType,
    /// With the prefix, and the colon after it.
    name: String,
    value: Option<usize>,
    /// Tags that are the same for every instance, with commas between them.
    constant: Vec<u8>,
    /// Keys with their colons and positions of the dimensions.
    dimensions: Vec<(Vec<u8>, usize)>,
}

thread_local! {
    static LINES: RefCell<Lines> = RefCell::default();
}

impl DogStatsdHandler {
    pub(super) fn start(params: &Params, instances: &[BoundInstance], env: &Env) -> Result<Self, BuildError> {
        let dot = if params.prefix.ends_with('.') { "" } else { "." };
        let metrics = instances.iter().map(|instance| {
            let info = params.metrics.get(&*instance.name)?;
            let mut constant = Vec::new();
            let global = params.global_tags.iter();
            let of_metric = info.tags.iter();
            let own = of_metric
                .filter(|(key, _)| instance.entries("dimensions").all(|(name, _)| name != key.as_str()));
            for (key, value) in global.chain(own) {
                if !constant.is_empty() {
                    constant.push(b',');
                }
                let start = constant.len();
                push_tag(&mut constant, |tag| tag.extend_from_slice(format!("{key}:{value}").as_bytes()));
                one_tag(&mut constant, start);
            }
            let dimensions = instance.entries("dimensions");
            let dimensions = dimensions.map(|(key, at)| {
                let mut name = Vec::new();
                push_tag(&mut name, |tag| tag.extend_from_slice(format!("{key}:").as_bytes()));
                one_tag(&mut name, 0);
                (name, at)
            });
            Some(Metric {
                kind: info.kind,
                name: format!("{}{dot}{}", params.prefix, info.name).replace(['\n', '\r', ':', '|'], "_")
                    + ":",
                value: instance.position("value"),
                constant,
                dimensions: dimensions.collect(),
            })
        });
        let buffered = usize::try_from(params.buffer_length).unwrap_or(0);
        let options = DatagramOptions {
            task: "dogstatsd sender",
            address: &params.address,
            packing: Packing { lines: buffered.max(1), bytes: DATAGRAM },
            wait: if buffered == 0 { ALONE } else { BUFFERED },
            queue: (params.queue_kilobytes as usize).saturating_mul(1024),
            when_full: params.when_full.with(params.hold_timeout),
        };
        let suffix = match params.sample_rate {
            rate if rate < 1.0 => format!("|@{}", decimal::plain(rate)),
            _ => String::new(),
        };
        let datagrams = Datagrams::start(options, env)?;
        Ok(Self { metrics: metrics.collect(), sample_rate: params.sample_rate, suffix, datagrams })
    }

    /// Sends the lines of all instances that have one. Errors: those that have none.
    fn send(&self, lines: &mut Lines, instances: &[Instance<'_>]) -> Reply<()> {
        lines.clear();
        lines.shrink();
        let mut errors = Vec::new();
        for instance in instances {
            if self.sample_rate >= 1.0 || fastrand::f64() <= self.sample_rate && self.sample_rate > 0.0 {
                errors.extend(self.push(lines, instance).err());
            }
        }
        let result = if errors.is_empty() { Ok(()) } else { Err(HandlerError::new(join_errors(&errors))) };
        self.datagrams.send(lines).reply(move |_| result)
    }

    /// Appends the line of an instance. Errors: a value of another type than that of its expression.
    fn push(&self, lines: &mut Lines, instance: &Instance<'_>) -> Result<(), String> {
        let Some(metric) = self.metrics.get(instance.bound).and_then(Option::as_ref) else { return Ok(()) };
        let value = metric.value.and_then(|at| instance.value(at));
        let out = lines.buffer();
        let before = out.len();
        out.extend_from_slice(metric.name.as_bytes());
        // Writing to a Vec cannot fail.
        let _ = match (metric.kind, value) {
            (MetricType::Counter, Some(Value::Int64(number))) => write!(out, "{number}|c"),
            (MetricType::Gauge, Some(Value::Int64(number))) => write!(out, "{:.6}|g", number as f64),
            (MetricType::Distribution, Some(Value::Int64(number))) => write!(out, "{:.6}|h", number as f64),
            (MetricType::Distribution, Some(Value::Duration(duration))) => {
                write!(out, "{:.6}|ms", duration.nanos as f64 / 1e6)
            }
            (_, other) => {
                out.truncate(before);
                let shown = other.map_or_else(|| "<nil>".to_owned(), brief_text);
                return Err(format!("could not record metric '{}': its value is {shown}", instance.name));
            }
        };
        out.extend_from_slice(self.suffix.as_bytes());
        let mut separator: &[u8] = b"|#";
        if !metric.constant.is_empty() {
            out.extend_from_slice(separator);
            out.extend_from_slice(&metric.constant);
            separator = b",";
        }
        for (key, at) in &metric.dimensions {
            out.extend_from_slice(separator);
            separator = b",";
            out.extend_from_slice(key);
            if let Some(value) = instance.value(*at) {
                let start = out.len();
                push_tag(out, |tag| push_text(tag, value));
                one_tag(out, start);
            }
        }
        lines.end_line();
        Ok(())
    }
}

/// Appends a part of a tag, without line feeds, which would begin another metric.
fn push_tag(out: &mut Vec<u8>, append: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    append(out);
    if out.get(start..).is_some_and(|tag| tag.contains(&b'\n')) {
        let tag = out.split_off(start);
        out.extend(tag.into_iter().filter(|byte| *byte != b'\n'));
    }
}

/// Replaces what ends a tag: another one would begin, or a part of the line, which a caller could choose. Istio Mixer sends it.
fn one_tag(out: &mut [u8], start: usize) {
    let tag = out.iter_mut().skip(start);
    tag.filter(|byte| matches!(byte, b',' | b'|')).for_each(|byte| *byte = b'_');
}

impl Handler for DogStatsdHandler {
    fn as_report(&self) -> Option<&dyn HandleReport> {
        Some(self)
    }

    fn status(&self) -> HandlerStatus {
        self.datagrams.status()
    }

    fn close(
        &self,
        deadline: Duration,
    ) -> Pin<Box<dyn Future<Output = Result<(), HandlerError>> + Send + '_>> {
        Box::pin(self.datagrams.close(deadline))
    }
}

impl HandleReport for DogStatsdHandler {
    fn report(&self, instances: &[Instance<'_>]) -> Reply<()> {
        LINES.with(|lines| match lines.try_borrow_mut() {
            Ok(mut lines) => self.send(&mut lines, instances),
            Err(_) => self.send(&mut Lines::default(), instances),
        })
    }
}
