//! The handler of the cloudwatch adapter.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use mixer_base::log::RateLimit;
use mixer_delivery::{AsyncSink, Batching, Delivery, Item, List};
use mixer_engine::adapter::{
    BoundInstance, BuildError, Clock, Env, HandleReport, Handler, HandlerError, HandlerStatus, Instance,
    Reply,
};
use mixer_remote::{AwsOptions, AwsTarget, ClientTlsOptions, HttpOptions, aws_endpoint, aws_region};

use super::log::{Event, LogTemplate};
use super::metric::{Datum, MetricTemplate};
use super::params::Params;
use super::send::{LogSender, MetricSender};
use crate::full::Handover;
use crate::outage::Outage;
use crate::sending::{SendingStatus, close_all, closing, settings};

/// Data of a request at most, and their bytes, of which the service takes 1 MiB with the names of the parameters.
const DATA: usize = 1000;
const DATA_BYTES: usize = 256 << 10;
/// Entries of a request at most, and their bytes, as the service counts them.
const EVENTS: usize = 10_000;
const EVENT_BYTES: usize = 1 << 20;

/// A built cloudwatch adapter.
pub(super) struct CloudWatchHandler {
    name: Arc<str>,
    clock: Arc<dyn Clock>,
    /// One a bound instance.
    feeds: Vec<Feed>,
    metrics: Option<Arc<Delivery<List<Datum>>>>,
    logs: Option<Arc<Delivery<List<Event>>>>,
    /// Bytes of each queue.
    queue: usize,
    warnings: RateLimit,
}

/// What becomes of an instance.
enum Feed {
    Metric(MetricTemplate),
    Log(Box<LogTemplate>),
}

impl CloudWatchHandler {
    pub(super) fn start(params: &Params, instances: &[BoundInstance], env: &Env) -> Result<Self, BuildError> {
        let feed = |instance: &BoundInstance| match &*instance.template.name {
            "metric" => Ok(Feed::Metric(MetricTemplate::new(params, instance))),
            _ => LogTemplate::new(params, instance).map(|log| Feed::Log(Box::new(log))),
        };
        let feeds: Vec<Feed> =
            instances.iter().map(feed).collect::<Result<_, _>>().map_err(BuildError::Refused)?;
        let sending = Sending::new(params, env)?;
        let metrics = feeds.iter().any(|feed| matches!(feed, Feed::Metric(_))).then(|| {
            let target = sending.target("monitoring", &["CLOUDWATCH"], &params.metrics_endpoint)?;
            let outage = Outage::new(&env.handler_name);
            let sender = MetricSender::new(target, &params.namespace, Arc::clone(&env.clock), outage);
            Ok::<_, BuildError>(sending.deliver("cloudwatch metric sender", DATA, DATA_BYTES, sender))
        });
        let logs = feeds.iter().any(|feed| matches!(feed, Feed::Log(_))).then(|| {
            let target = sending.target("logs", &["LOGS", "CLOUDWATCH_LOGS"], &params.logs_endpoint)?;
            let outage = Outage::new(&env.handler_name);
            let place = (params.log_group_name.as_str(), params.log_stream_name.as_str());
            let sender = LogSender::new(target, place, Arc::clone(&env.clock), outage);
            Ok::<_, BuildError>(sending.deliver("cloudwatch log sender", EVENTS, EVENT_BYTES, sender))
        });
        let (metrics, logs) = (metrics.transpose()?, logs.transpose()?);
        Ok(Self {
            name: Arc::clone(&env.handler_name),
            clock: Arc::clone(&env.clock),
            feeds,
            metrics,
            logs,
            queue: sending.queue,
            warnings: RateLimit::new(1),
        })
    }

    fn warn(&self, instance: &str, why: &str) {
        if let Some(suppressed) = self.warnings.admit() {
            tracing::warn!(handler = &*self.name, instance, suppressed, "an instance is dropped: {why}");
        }
    }
}

/// The URLs of the services that handlers with these parameters send to; none without a region.
pub(super) fn endpoints(params: &Params) -> Vec<String> {
    let region = match params.region.as_str() {
        "" => aws_region(&options(params)).unwrap_or_default(),
        region => region.to_owned(),
    };
    let metrics = ("monitoring", &["CLOUDWATCH"][..], &params.metrics_endpoint);
    let logs = ("logs", &["LOGS", "CLOUDWATCH_LOGS"][..], &params.logs_endpoint);
    let uses = [(metrics, !params.metric_info.is_empty()), (logs, !params.logs.is_empty())];
    let used = uses.into_iter().filter(|(_, is_used)| *is_used);
    let url = used.map(|((service, suffixes, endpoint), _)| match endpoint.as_str() {
        "" => aws_endpoint(suffixes, service, &region),
        url => url.to_owned(),
    });
    url.collect()
}

fn options(params: &Params) -> AwsOptions {
    AwsOptions {
        profile: params.profile.clone(),
        credentials_file: (&params.credentials_file).into(),
        container_endpoint: params.container_endpoint.clone(),
        instance_endpoint: params.instance_endpoint.clone(),
        sts_endpoint: params.sts_endpoint.clone(),
    }
}

/// What both deliveries have in common.
struct Sending<'s> {
    params: &'s Params,
    env: &'s Env,
    region: String,
    options: AwsOptions,
    queue: usize,
}

impl<'s> Sending<'s> {
    /// Errors: there is no region.
    fn new(params: &'s Params, env: &'s Env) -> Result<Self, BuildError> {
        let options = options(params);
        let region = Some(params.region.clone()).filter(|region| !region.is_empty());
        let region = region.or_else(|| aws_region(&options)).ok_or_else(|| {
            let text = "there is no region: set `region`, or AWS_REGION in the environment of the server";
            BuildError::Refused(text.to_owned())
        })?;
        let queue = (params.queue_kilobytes as usize).saturating_mul(1024);
        Ok(Self { params, env, region, options, queue })
    }

    fn target(
        &self,
        service: &'static str,
        suffixes: &[&str],
        endpoint: &str,
    ) -> Result<AwsTarget, BuildError> {
        let url = match endpoint {
            "" => aws_endpoint(suffixes, service, &self.region),
            url => url.to_owned(),
        };
        let timeout = self.params.timeout.to_std_or_zero();
        let defaults = HttpOptions::new(url);
        let http = HttpOptions {
            timeout,
            connect_timeout: defaults.connect_timeout.min(timeout),
            tls: ClientTlsOptions { ca_file: (&self.params.ca_file).into(), ..ClientTlsOptions::default() },
            ..defaults
        };
        AwsTarget::new(service, &self.region, http, &self.options)
            .map_err(|error| BuildError::Refused(error.to_string()))
    }

    fn deliver<T: Item>(
        &self,
        task: &'static str,
        items: usize,
        bytes: usize,
        sink: impl AsyncSink<List<T>>,
    ) -> Arc<Delivery<List<T>>> {
        let batching = Batching { items, bytes, wait: self.params.wait.to_std_or_zero() };
        let when_full = self.params.when_full.with(self.params.hold_timeout);
        let settings = settings(self.env, self.queue, when_full, batching);
        Arc::new(Delivery::in_task(task, &*self.env.handler_name, settings, sink))
    }
}

impl Handler for CloudWatchHandler {
    fn as_report(&self) -> Option<&dyn HandleReport> {
        Some(self)
    }

    fn status(&self) -> HandlerStatus {
        let mut status = SendingStatus::new(self.queue);
        if let Some(metrics) = &self.metrics {
            status.add("metrics", metrics.status(), metrics.trouble());
        }
        if let Some(logs) = &self.logs {
            status.add("logs", logs.status(), logs.trouble());
        }
        status.finish()
    }

    fn close(
        &self,
        deadline: Duration,
    ) -> Pin<Box<dyn Future<Output = Result<(), HandlerError>> + Send + '_>> {
        let metrics = closing(self.metrics.as_ref(), deadline);
        let logs = closing(self.logs.as_ref(), deadline);
        Box::pin(close_all([metrics, logs]))
    }
}

impl HandleReport for CloudWatchHandler {
    fn report(&self, instances: &[Instance<'_>]) -> Reply<()> {
        let now = self.clock.now();
        let at = i64::try_from(now.unix_nanos() / 1_000_000).unwrap_or(i64::MAX);
        let (mut data, mut events) = (Vec::new(), Vec::new());
        for instance in instances {
            // All instances are bound when the handler is built.
            match (self.feeds.get(instance.bound), &self.metrics, &self.logs) {
                (Some(Feed::Metric(template)), Some(metrics), _) => match template.datum(instance, at) {
                    Ok(datum) => data.push(datum),
                    Err(why) => {
                        metrics.refuse(1);
                        self.warn(instance.name, &format!("could not parse value {why}"));
                    }
                },
                (Some(Feed::Log(template)), _, Some(logs)) => match template.event(instance, now) {
                    Ok(Some(event)) => events.push(event),
                    Ok(None) => {}
                    Err(why) => {
                        logs.refuse(1);
                        self.warn(instance.name, &why);
                    }
                },
                _ => {}
            }
        }
        let mut handover = Handover::default();
        if let Some(metrics) = self.metrics.as_ref().filter(|_| !data.is_empty()) {
            handover.add(metrics.hand_over(data));
        }
        if let Some(logs) = self.logs.as_ref().filter(|_| !events.is_empty()) {
            handover.add(logs.hand_over(events));
        }
        // What is dropped is counted.
        handover.reply(|_| Ok(()))
    }
}
