//! The lines of the statsd adapter.

use std::cell::RefCell;
use std::io::Write as _;
use std::pin::Pin;
use std::time::Duration;

use mixer_attribute::Value;
use mixer_attribute::text::brief_text;
use mixer_base::decimal;
use mixer_delivery::Items as _;
use mixer_engine::adapter::{
    BoundInstance, BuildError, Env, HandleReport, Handler, HandlerError, HandlerStatus, Instance, Reply,
    join_errors,
};

use super::{MetricType, Params};
use crate::datagrams::{DatagramOptions, Datagrams, Packing};
use crate::go_template::{GoTemplate, Printing};
use crate::lines::Lines;

/// The flush duration that 0 stands for.
const FLUSH_DURATION: Duration = Duration::from_millis(300);
/// The flush bytes that 0 stands for.
const FLUSH_BYTES: i32 = 512;

/// A built statsd adapter.
pub(super) struct StatsdHandler {
    /// One a bound instance; `None` without an entry in the parameters.
    metrics: Vec<Option<Metric>>,
    /// With the dot after it.
    prefix: Vec<u8>,
    sampling: Sampling,
    datagrams: Datagrams,
}

/// How an instance becomes a line.
struct Metric {
    kind: MetricType,
    /// `None`: the name of the instance.
    name: Option<GoTemplate>,
    value: Option<usize>,
    /// Keys and positions of the dimensions.
    dimensions: Vec<(String, usize)>,
}

/// Which values are sent.
enum Sampling {
    All,
    /// This part, with what is appended to their lines.
    Part(f64, String),
}

thread_local! {
    static LINES: RefCell<Lines> = RefCell::default();
}

impl StatsdHandler {
    pub(super) fn start(params: &Params, instances: &[BoundInstance], env: &Env) -> Result<Self, BuildError> {
        for metric in params.metrics.keys() {
            if !instances.iter().any(|instance| &*instance.name == metric) {
                let handler = &*env.handler_name;
                tracing::warn!(handler, "template registered for nonexistent metric '{metric}'");
            }
        }
        let metrics = instances.iter().map(|instance| {
            let info = params.metrics.get(&*instance.name)?;
            // A template that does not parse was a problem of the parameters.
            let template = Some(&info.name_template).filter(|template| !template.is_empty());
            let name = template.and_then(|template| GoTemplate::parse(&instance.name, template).ok());
            let dimensions = instance.entries("dimensions").map(|(key, at)| (key.to_owned(), at)).collect();
            Some(Metric { kind: info.kind, name, value: instance.position("value"), dimensions })
        });
        let flush_bytes = if params.flush_bytes == 0 { FLUSH_BYTES } else { params.flush_bytes };
        let wait = params.flush_duration.to_std_or_zero();
        let options = DatagramOptions {
            task: "statsd sender",
            address: &params.address,
            // compat(1.3): each line counts with a line feed, and fewer bytes than `flushBytes` fit; pinned by
            // adapters-remote/statsd/datagram-splitting.
            packing: Packing {
                lines: usize::MAX,
                bytes: usize::try_from(flush_bytes).unwrap_or(0).saturating_sub(2),
            },
            wait: if wait.is_zero() { FLUSH_DURATION } else { wait },
            queue: (params.queue_kilobytes as usize).saturating_mul(1024),
            when_full: params.when_full.with(params.hold_timeout),
        };
        let sampling = match params.sampling_rate {
            rate if rate < 1.0 => Sampling::Part(rate, format!("|@{rate:.6}")),
            _ => Sampling::All,
        };
        let mut prefix = params.prefix.clone().into_bytes();
        if !prefix.is_empty() {
            prefix.push(b'.');
        }
        one_name(&mut prefix);
        let datagrams = Datagrams::start(options, env)?;
        Ok(Self { metrics: metrics.collect(), prefix, sampling, datagrams })
    }

    /// Sends the lines of all instances that have one. Errors: those that have none.
    fn send(&self, lines: &mut Lines, instances: &[Instance<'_>]) -> Reply<()> {
        lines.clear();
        lines.shrink();
        let mut errors = Vec::new();
        for instance in instances {
            errors.extend(self.push(lines, instance).err());
        }
        let result = if errors.is_empty() { Ok(()) } else { Err(HandlerError::new(join_errors(&errors))) };
        self.datagrams.send(lines).reply(move |_| result)
    }

    /// Appends the line of an instance. Errors: Istio Mixer's text.
    fn push(&self, lines: &mut Lines, instance: &Instance<'_>) -> Result<(), String> {
        let full = instance.name;
        let Some(metric) = self.metrics.get(instance.bound).and_then(Option::as_ref) else {
            return Err(format!("no info for metric named {full}"));
        };
        let value = metric.value.and_then(|at| instance.value(at));
        let shown = || value.map_or_else(|| "<nil>".to_owned(), brief_text);
        let form = match (metric.kind, value) {
            (MetricType::Counter | MetricType::Distribution, Some(Value::Int64(number))) => {
                Form::Count(number)
            }
            (MetricType::Gauge, Some(Value::Int64(number))) => Form::Gauge(number),
            (MetricType::Distribution, Some(Value::Duration(duration))) => Form::Timing(duration.nanos),
            (MetricType::Counter | MetricType::Gauge, _) => {
                return Err(format!("could not record counter '{full}' expected int value, got {}", shown()));
            }
            (MetricType::Distribution, _) => {
                let text = "expected int or duration, got";
                return Err(format!("could not record distribution '{full}'; {text} {}", shown()));
            }
            (MetricType::Unknown, _) => {
                return Err(format!("unknown metric type '{}' for metric: {full}", metric.kind.name()));
            }
        };
        let suffix = match &self.sampling {
            Sampling::All => "",
            Sampling::Part(rate, suffix) => {
                if f64::from(fastrand::f32()) >= *rate {
                    return Ok(());
                }
                suffix
            }
        };
        let out = lines.buffer();
        out.extend_from_slice(&self.prefix);
        metric.push_name(out, instance);
        // Writing to a Vec cannot fail.
        let _ = match form {
            Form::Count(number) => write!(out, ":{number}|c{suffix}"),
            Form::Gauge(number) => write!(out, ":{number}|g{suffix}"),
            Form::Timing(nanos) => write!(out, ":{}|ms{suffix}", decimal::plain(nanos as f64 / 1e6)),
        };
        lines.end_line();
        Ok(())
    }
}

/// What a line says about the value.
enum Form {
    Count(i64),
    Gauge(i64),
    /// Nanoseconds.
    Timing(i64),
}

impl Metric {
    fn push_name(&self, out: &mut Vec<u8>, instance: &Instance<'_>) {
        let before = out.len();
        let value = |key: &str| {
            let (_, at) = self.dimensions.iter().find(|(known, _)| known == key)?;
            instance.value(*at)
        };
        if let Some(template) = &self.name {
            if template.execute(&value, Printing::Text(one_part), out).is_ok() {
                one_name(out.get_mut(before..).unwrap_or_default());
                return;
            }
            // compat(1.3): a template that cannot be executed gives the full name.
            out.truncate(before);
        }
        out.extend_from_slice(instance.name.as_bytes());
        let name = out.get_mut(before..).unwrap_or_default();
        one_part(name);
        one_name(name);
    }
}

/// Replaces what ends a name or a line: a value, a sample rate, a tag or a metric would begin. Istio Mixer sends it.
fn one_name(name: &mut [u8]) {
    replace(name, |byte| matches!(byte, b'\n' | b'\r' | b':' | b'|'));
}

/// Replaces in a part of a name what begins a tag in the name for one of the daemons that know such: those of InfluxDB (`,`), Graphite
/// (`;`), Librato (`#`) and SignalFx (`[…]`).
fn one_part(part: &mut [u8]) {
    replace(part, |byte| matches!(byte, b',' | b';' | b'#' | b'[' | b']'));
}

fn replace(text: &mut [u8], is_replaced: impl Fn(u8) -> bool) {
    text.iter_mut().filter(|byte| is_replaced(**byte)).for_each(|byte| *byte = b'_');
}

impl Handler for StatsdHandler {
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

impl HandleReport for StatsdHandler {
    fn report(&self, instances: &[Instance<'_>]) -> Reply<()> {
        LINES.with(|lines| match lines.try_borrow_mut() {
            Ok(mut lines) => self.send(&mut lines, instances),
            Err(_) => self.send(&mut Lines::default(), instances),
        })
    }
}
