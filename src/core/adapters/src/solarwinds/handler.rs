//! The handler of the solarwinds adapter.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use mixer_base::log::RateLimit;
use mixer_delivery::{Batching, Delivery, List, Settings};
use mixer_engine::adapter::{
    BoundInstance, BuildError, Clock, Env, HandleReport, Handler, HandlerError, HandlerStatus, Instance,
    Reply, join_errors,
};
use mixer_remote::{
    Authentication, ClientTlsOptions, Credential, DatagramTarget, HttpOptions, HttpTarget, StreamOptions,
    StreamTarget,
};

use super::appoptics::{AppOptics, Measured, Measurement, MeasurementTemplate};
use super::papertrail::{Message, MessageTemplate, Origin, Syslog, Transport};
use super::validate::MOST;
use super::{Params, Protocol};
use crate::full::Handover;
use crate::options::AdapterOptions;
use crate::outage::Outage;
use crate::sending::{self, SendingStatus, close_all, closing};

/// How long items wait for others.
const WAIT: Duration = Duration::from_millis(500);
/// Messages of a batch at most.
const MESSAGES: usize = 1000;
/// Bytes of a batch at most, unless one item has more.
const BATCH_BYTES: usize = 1 << 20;
/// How long a message is kept by default.
const RETENTION: Duration = Duration::from_secs(3600);

/// A built solarwinds adapter.
pub(super) struct SolarwindsHandler {
    name: Arc<str>,
    clock: Arc<dyn Clock>,
    origin: Origin,
    /// One a bound instance.
    feeds: Vec<Feed>,
    /// `None`: no message is sent.
    messages: Option<Arc<Delivery<List<Message>>>>,
    /// `None`: no measurement is sent.
    measurements: Option<Arc<Delivery<List<Measurement>>>>,
    queue: usize,
    warnings: RateLimit,
}

/// Where an instance goes.
enum Feed {
    Message(MessageTemplate),
    Measurement(MeasurementTemplate),
    /// An entry that the parameters do not have, or have with a template that is none.
    Unknown,
    /// A metric that the parameters do not have.
    Nowhere,
}

fn refused(error: impl std::fmt::Display) -> BuildError {
    BuildError::Refused(error.to_string())
}

impl SolarwindsHandler {
    pub(super) fn start(params: &Params, instances: &[BoundInstance], env: &Env) -> Result<Self, BuildError> {
        let mut feeds = Vec::with_capacity(instances.len());
        for instance in instances {
            feeds.push(feed(params, instance, env)?);
        }
        let queue = (params.queue_kilobytes as usize).saturating_mul(1024);
        let messages = match params.log_address() {
            None => None,
            Some(address) => {
                let sink = syslog(params, address, env)?;
                let settings = settings(params, env, queue, MESSAGES);
                Some(Arc::new(Delivery::in_task("papertrail sender", &*env.handler_name, settings, sink)))
            }
        };
        let measurements = match token(params)? {
            None => None,
            Some(token) => {
                let batch = match params.appoptics_batch_size {
                    1..=MOST => params.appoptics_batch_size,
                    _ => MOST,
                };
                let target = HttpTarget::new(HttpOptions {
                    tls: tls(params),
                    authentication: Authentication::Basic { user: "token".to_owned(), password: token },
                    ..HttpOptions::new(&params.appoptics_url)
                });
                let sink = AppOptics::new(target.map_err(refused)?, Outage::new(&env.handler_name));
                let settings = settings(params, env, queue, batch.unsigned_abs() as usize);
                Some(Arc::new(Delivery::in_task("appoptics sender", &*env.handler_name, settings, sink)))
            }
        };
        let origin = Origin::new(Arc::clone(&env.clock), params.escape_html);
        let (name, clock) = (Arc::clone(&env.handler_name), Arc::clone(&env.clock));
        Ok(Self { name, clock, origin, feeds, messages, measurements, queue, warnings: RateLimit::new(1) })
    }

    fn warn(&self, instance: &str, what: &str) {
        if let Some(suppressed) = self.warnings.admit() {
            tracing::warn!(handler = &*self.name, instance, suppressed, "{what}");
        }
    }

    /// The message of an instance.
    fn message(&self, template: &MessageTemplate, instance: &Instance<'_>) -> Option<Message> {
        let (message, failure) = template.message(&self.origin, instance);
        if let Some(why) = failure {
            self.warn(
                instance.name,
                &format!("the template of a log entry fails, and what follows is left out: {why}"),
            );
        }
        message
    }

    /// The measurement of an instance.
    fn measurement(
        &self,
        template: &MeasurementTemplate,
        instance: &Instance<'_>,
        delivery: &Delivery<List<Measurement>>,
    ) -> Option<Measurement> {
        match template.measurement(instance, self.clock.unix_time().as_secs()) {
            Measured::Number(measurement) => Some(measurement),
            Measured::Zero(measurement) => {
                self.warn(instance.name, "the value of a metric is no number, and is sent as 0");
                Some(measurement)
            }
            Measured::NotFinite => {
                delivery.refuse(1);
                self.warn(instance.name, "a measurement is dropped: its value is not finite");
                None
            }
        }
    }
}

fn feed(params: &Params, instance: &BoundInstance, env: &Env) -> Result<Feed, BuildError> {
    let name = &*instance.name;
    if instance.template.name == "metric" {
        let info = params.metrics.get(name);
        return Ok(
            info.map_or(Feed::Nowhere, |info| Feed::Measurement(MeasurementTemplate::new(instance, info)))
        );
    }
    let Some(info) = params.logs.get(name) else { return Ok(Feed::Unknown) };
    match MessageTemplate::new(instance, &info.payload_template) {
        Ok(template) => Ok(Feed::Message(template)),
        // compat(1.3): such entries are unknown; pinned by `a_template_that_is_none_is_refused_unless_called_as_mixs`.
        Err(why) if env.commons.get::<AdapterOptions>().as_istio_mixer => {
            let handler = &*env.handler_name;
            tracing::error!(handler, "failed to evaluate template for log instance: {name}, skipping: {why}");
            Ok(Feed::Unknown)
        }
        Err(why) => Err(BuildError::Refused(why)),
    }
}

fn tls(params: &Params) -> ClientTlsOptions {
    ClientTlsOptions { ca_file: (&params.ca_file).into(), ..ClientTlsOptions::default() }
}

/// The token of AppOptics, if there is one.
fn token(params: &Params) -> Result<Option<Credential>, BuildError> {
    let (file, variable) = (&params.appoptics_access_token_file, &params.appoptics_access_token_environment);
    if params.tokens().count() > 1 {
        return Err(refused("there is more than one token of AppOptics"));
    }
    Ok(match (params.appoptics_access_token.trim(), file.as_str(), variable.as_str()) {
        ("", "", "") => None,
        ("", "", variable) => Some(Credential::from_environment(variable).map_err(refused)?),
        ("", file, _) => Some(Credential::from_file(file).map_err(refused)?),
        // compat(1.3): the token is sent as it is written.
        _ => Some(Credential::from_configuration(&params.appoptics_access_token)),
    })
}

/// The settings of a delivery. Messages also have an age.
fn settings(params: &Params, env: &Env, queue: usize, items: usize) -> Settings {
    let when_full = params.when_full.with(params.hold_timeout);
    sending::settings(env, queue, when_full, Batching { items, bytes: BATCH_BYTES, wait: WAIT })
}

fn syslog(params: &Params, address: &str, env: &Env) -> Result<Syslog, BuildError> {
    let transport = match params.papertrail_protocol {
        Protocol::Udp => Transport::Datagrams(DatagramTarget::new(address).map_err(refused)?),
        Protocol::Tcp | Protocol::Tls => {
            let is_tls = params.papertrail_protocol == Protocol::Tls;
            let options = StreamOptions { tls: is_tls.then(|| tls(params)), ..StreamOptions::new(address) };
            Transport::Stream(Box::new(StreamTarget::new(options).map_err(refused)?))
        }
    };
    let retention = match params.papertrail_local_retention_duration.to_std_or_zero() {
        Duration::ZERO => RETENTION,
        retention => retention,
    };
    Ok(Syslog { transport, retention, clock: Arc::clone(&env.clock), outage: Outage::new(&env.handler_name) })
}

impl Handler for SolarwindsHandler {
    fn as_report(&self) -> Option<&dyn HandleReport> {
        Some(self)
    }

    fn status(&self) -> HandlerStatus {
        let mut status = SendingStatus::new(self.queue);
        if let Some(messages) = &self.messages {
            status.add("logs", messages.status(), messages.trouble());
        }
        if let Some(measurements) = &self.measurements {
            status.add("metrics", measurements.status(), measurements.trouble());
        }
        status.finish()
    }

    fn close(
        &self,
        deadline: Duration,
    ) -> Pin<Box<dyn Future<Output = Result<(), HandlerError>> + Send + '_>> {
        let messages = closing(self.messages.as_ref(), deadline);
        let measurements = closing(self.measurements.as_ref(), deadline);
        Box::pin(close_all([messages, measurements]))
    }
}

impl HandleReport for SolarwindsHandler {
    fn report(&self, instances: &[Instance<'_>]) -> Reply<()> {
        let mut errors = Vec::new();
        let (mut messages, mut measurements) = (Vec::new(), Vec::new());
        for instance in instances {
            // All instances are bound when the handler is built.
            match self.feeds.get(instance.bound).unwrap_or(&Feed::Nowhere) {
                Feed::Message(template) if self.messages.is_some() => {
                    messages.extend(self.message(template, instance));
                }
                Feed::Unknown if self.messages.is_some() => {
                    let name = instance.name;
                    let text = format!("Got an unknown instance of log: {name}. Hence Skipping.");
                    errors.push(format!("error while recording the log message: {text}"));
                }
                Feed::Measurement(template) => {
                    if let Some(delivery) = &self.measurements {
                        measurements.extend(self.measurement(template, instance, delivery));
                    }
                }
                Feed::Message(_) | Feed::Unknown | Feed::Nowhere => {}
            }
        }
        let mut handover = Handover::default();
        if let Some(delivery) = self.messages.as_ref().filter(|_| !messages.is_empty()) {
            handover.add(delivery.hand_over(messages));
        }
        if let Some(delivery) = self.measurements.as_ref().filter(|_| !measurements.is_empty()) {
            handover.add(delivery.hand_over(measurements));
        }
        let result = match errors.as_slice() {
            [] => Ok(()),
            // compat(1.3): its text alone.
            [one] => Err(HandlerError::new(one.clone())),
            several => Err(HandlerError::new(join_errors(several))),
        };
        // What is dropped is counted.
        handover.reply(move |_| result)
    }
}
