//! The handler of the fluentd adapter.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use mixer_base::budget::{MemoryBudget, Purpose};
use mixer_base::log::RateLimit;
use mixer_delivery::{Batching, Bounds, Delivery, Holds, Item as _, List, Owner, Retry, Settings, Spill};
use mixer_engine::adapter::{
    BoundInstance, BuildError, Env, HandleReport, Handler, HandlerError, HandlerStatus, Instance,
    QueueStatus, Reply, join_errors,
};
use mixer_remote::{ClientTlsOptions, Credential, StreamOptions, StreamTarget};

use super::Params;
use super::entry::{Entry, EntryTemplate};
use super::forward::Forwarder;
use super::handshake::{SharedKey, State, User};
use crate::address;
use crate::full::Handover;
use crate::outage::Outage;

/// The limit of connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// A batch is sent until the server takes it.
const RETRY: Retry = Retry {
    first_pause: Duration::from_millis(500),
    longest_pause: Duration::from_secs(30),
    budget: Duration::MAX,
    breaker_failures: 10,
};
/// Istio Mixer's text.
const FULL: &str = "fluentd instance buffer full; dropping log entry";

/// A built fluentd adapter.
pub(super) struct FluentdHandler {
    name: Arc<str>,
    /// One a bound instance.
    entries: Vec<EntryTemplate>,
    delivery: Arc<Delivery<List<Entry>>>,
    queue: usize,
    /// Bytes of an entry at most.
    largest: usize,
    warnings: RateLimit,
}

impl FluentdHandler {
    pub(super) fn start(params: &Params, instances: &[BoundInstance], env: &Env) -> Result<Self, BuildError> {
        let refused = |error: &dyn std::fmt::Display| BuildError::Refused(error.to_string());
        let or = |duration: mixer_attribute::SignedDuration| match duration.to_std_or_zero() {
            Duration::ZERO => Duration::from_secs(60),
            duration => duration,
        };
        let target = StreamTarget::new(StreamOptions {
            connect_timeout: CONNECT_TIMEOUT,
            timeout: or(params.push_timeout_duration),
            tls: params.tls.as_ref().map(ClientTlsOptions::from),
            ..StreamOptions::new(address::dialed(&params.address))
        });
        let mut target = target.map_err(|error| refused(&error))?;
        if let Some(shared) = &params.shared_key {
            target = target.with_handshake(handshake(shared)?);
        }
        let largest = match usize::try_from(params.max_batch_size_bytes) {
            Ok(0) | Err(_) => 8 << 20,
            Ok(bytes) => bytes,
        };
        let at_once = match usize::try_from(params.instance_buffer_size) {
            Ok(0) | Err(_) => 1024,
            Ok(entries) => entries,
        };
        let queue = (params.queue_kilobytes as usize).saturating_mul(1024);
        let memory = env.commons.get::<MemoryBudget>();
        let settings = Settings {
            bounds: Bounds { items: usize::MAX, bytes: queue, takes_larger: true },
            memory: Some(Arc::clone(memory.share(Purpose::Queues))),
            when_full: params.when_full.with(params.hold_timeout),
            batching: Batching {
                items: at_once,
                bytes: largest.min((queue / 2).max(1)),
                wait: or(params.push_interval_duration),
            },
            retry: RETRY,
            holds: Holds::clone(&env.commons.get::<Holds>()),
            ..Settings::default()
        };
        let outage = Outage::new(&env.handler_name);
        let sink = Forwarder { target, acknowledge: params.acknowledge, outage };
        let (task, name) = ("fluentd sender", Arc::clone(&env.handler_name));
        let delivery = match params.spill_directory.as_str() {
            "" => Delivery::in_task(task, &*name, settings, sink),
            directory => {
                let bytes = u64::from(params.spill_megabytes) << 20;
                let owner = Owner { adapter: "fluentd", handler: name.to_string() };
                let spill = Spill { directory: directory.into(), home: directory.into(), bytes, owner };
                Delivery::in_task_with_spill(task, &*name, settings, spill, sink).map_err(|error| {
                    BuildError::Invalid(vec![format!("spillDirectory: {directory}: {error}")])
                })?
            }
        };
        Ok(Self {
            name,
            entries: instances.iter().map(|one| EntryTemplate::new(one, params.integer_duration)).collect(),
            delivery: Arc::new(delivery),
            queue,
            largest,
            warnings: RateLimit::new(1),
        })
    }

    /// The entries of all instances. Those that are too large are dropped and counted.
    fn encode(&self, instances: &[Instance<'_>]) -> Vec<Entry> {
        let mut entries = Vec::with_capacity(instances.len());
        for instance in instances {
            // All instances are bound when the handler is built.
            let Some(template) = self.entries.get(instance.bound) else { continue };
            let entry = template.entry(instance);
            let bytes = entry.size();
            if bytes <= self.largest {
                entries.push(entry);
                continue;
            }
            self.delivery.refuse(1);
            if let Some(suppressed) = self.warnings.admit() {
                let (handler, most) = (&*self.name, self.largest);
                tracing::warn!(
                    handler,
                    suppressed,
                    "instance data exceeds ({bytes}) configured max batch bytes ({most}); dropping"
                );
            }
        }
        entries
    }
}

/// Errors: a key or a password that cannot be read.
fn handshake(shared: &super::SharedKey) -> Result<SharedKey, BuildError> {
    let credential = |file: &str, environment: &str| {
        let found = match file {
            "" => Credential::from_environment(environment),
            file => Credential::from_file(file),
        };
        found.map_err(|error| BuildError::Refused(format!("sharedKey: {error}")))
    };
    let user = match shared.username.as_str() {
        "" => None,
        name => {
            let password = credential(&shared.password_file, &shared.password_environment)?;
            Some(User { name: name.to_owned(), password })
        }
    };
    let hostname = match shared.hostname.as_str() {
        "" => crate::host::name(),
        name => name.to_owned(),
    };
    let key = credential(&shared.key_file, &shared.key_environment)?;
    Ok(SharedKey { hostname, key, user, state: State::default() })
}

impl Handler for FluentdHandler {
    fn as_report(&self) -> Option<&dyn HandleReport> {
        Some(self)
    }

    fn status(&self) -> HandlerStatus {
        let status = self.delivery.status();
        let queue = QueueStatus {
            name: "bytes to be sent".to_owned(),
            length: status.queued_bytes,
            capacity: self.queue,
            dropped: status.full,
        };
        let notes = match status.on_disk {
            0 => Vec::new(),
            on_disk => vec![("entries on disk", on_disk.to_string())],
        };
        let trouble = self.delivery.trouble();
        HandlerStatus { trouble, queues: vec![queue], notes, ..HandlerStatus::default() }
    }

    fn degradation(&self) -> Option<String> {
        self.delivery.disk_failure()
    }

    fn close(
        &self,
        deadline: Duration,
    ) -> Pin<Box<dyn Future<Output = Result<(), HandlerError>> + Send + '_>> {
        Box::pin(async move {
            match self.delivery.close(deadline).await {
                true => Ok(()),
                false => Err(HandlerError::new("entries were not sent before the deadline")),
            }
        })
    }
}

impl HandleReport for FluentdHandler {
    fn report(&self, instances: &[Instance<'_>]) -> Reply<()> {
        let mut handover = Handover::default();
        handover.add(self.delivery.hand_over(self.encode(instances)));
        handover.reply(|dropped| match dropped {
            0 => Ok(()),
            dropped => Err(HandlerError::new(join_errors(&vec![FULL; dropped]))),
        })
    }
}
