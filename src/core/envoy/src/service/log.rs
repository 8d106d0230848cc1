//! Access logs: every message of a stream is a report.

use std::sync::atomic::Ordering;

use bumpalo::Bump;
use bytes::Bytes;

use super::super::access_log::{ConnectionCounters, EntryOutcome, LogKind, LogMessage, set_entry};
use super::super::attributes::{AttributePlan, Attributes};
use super::super::node::LogIdentity;
use super::recording::record_report;
use super::{EnvoyService, STREAM_ACCESS_LOGS, require_enabled};
use crate::config::{EnvoyConfig, config_of};
use mixer_api::CallInfo;
use mixer_api::grpc::{Code, GrpcError};
use mixer_api::load_shedding::Demand;
use mixer_api::observers::Observation;
use mixer_api::principal::set_principal;
use mixer_api::report;
use mixer_attribute::{DecodeError, OwnedAttributes};
use mixer_base::metrics::Family;
use mixer_engine::adapter::join_errors;
use mixer_engine::dispatch::{DispatchContext, ReportCollector};
use mixer_engine::runtime::Published;

impl EnvoyService {
    /// Begins a stream of access logs.
    pub(crate) fn open_log<'s>(&'s self, call: CallInfo<'s>) -> LogStream<'s> {
        let open = self.shared.streams.fetch_add(1, Ordering::Relaxed) + 1;
        self.set_gauge(Family::BridgeLogStreams, open);
        let number = self.shared.next_stream.fetch_add(1, Ordering::Relaxed);
        LogStream { service: self, call, number: number.cast_unsigned(), identity: None }
    }

    async fn report(
        &self,
        body: &[u8],
        call: &CallInfo<'_>,
        stream: u64,
        identity: &mut Option<Box<LogIdentity>>,
        observation: Option<&Observation<'_>>,
    ) -> Result<(), GrpcError> {
        let message = LogMessage::read(body).map_err(GrpcError::undecodable)?;
        if let Some(identifier) = message.identifier {
            *identity = Some(Box::new(LogIdentity::read(identifier).map_err(GrpcError::undecodable)?));
        }
        if message.entries.is_empty() {
            return Ok(());
        }
        self.admit(Demand { cost: message.entries.len(), is_report: true, caller: call.caller })?;
        let unknown = LogIdentity::default();
        let identity = identity.as_deref().unwrap_or(&unknown);
        let scope = self.worker.begin(None, observation.map(Observation::trace));
        let snapshot = scope.published.routes.snapshot();
        let config = config_of(snapshot);
        require_enabled(config.settings.report.enabled, "access logs")?;
        let plan = self.snapshot_state(&scope.published).plan(&snapshot.vocabulary, observation);
        let batch = Batch {
            service: self,
            published: &scope.published,
            context: &scope.context,
            plan: &plan,
            arena: &scope.arena,
            config,
        };
        batch.report(&message, call, stream, identity, observation).await;
        Ok(())
    }
}

/// A stream of access logs.
pub(crate) struct LogStream<'s> {
    service: &'s EnvoyService,
    call: CallInfo<'s>,
    number: u64,
    identity: Option<Box<LogIdentity>>,
}

impl LogStream<'_> {
    /// Reports the entries of one message and waits until the handlers have taken them, so that the flow-control window of the stream
    /// limits a proxy that is faster than the handlers.
    ///
    /// Errors: UNIMPLEMENTED when access logs are disabled, RESOURCE_EXHAUSTED under overload, INTERNAL for bytes that are no
    /// message.
    pub(crate) async fn report(&mut self, body: Bytes) -> Result<(), GrpcError> {
        let Self { service, call, number, identity } = self;
        let report = service.observed(STREAM_ACCESS_LOGS, call, async |observation| {
            service.report(&body, call, *number, identity, observation).await
        });
        Box::pin(report).await
    }
}

impl Drop for LogStream<'_> {
    fn drop(&mut self) {
        let open = self.service.shared.streams.fetch_sub(1, Ordering::Relaxed) - 1;
        self.service.set_gauge(Family::BridgeLogStreams, open);
    }
}

/// What reporting the entries of one message needs.
struct Batch<'b> {
    service: &'b EnvoyService,
    published: &'b Published,
    context: &'b DispatchContext<'b>,
    plan: &'b AttributePlan<'b>,
    arena: &'b Bump,
    config: &'b EnvoyConfig,
}

impl<'b> Batch<'b> {
    async fn report(
        &self,
        message: &LogMessage<'b>,
        call: &CallInfo<'_>,
        stream: u64,
        identity: &'b LogIdentity,
        observation: Option<&Observation<'_>>,
    ) {
        let metrics = &self.service.metrics;
        let mut collector = ReportCollector::new(&self.published.routes);
        let mut errors = Vec::new();
        let recorder = observation.filter(|observation| observation.records_payload());
        let mut records: Option<Vec<OwnedAttributes>> = recorder.map(|_| Vec::new());
        // Reported, ignored, undecodable; by kind.
        let mut counts = [[0u64; 3]; 2];
        for (kind, body) in &message.entries {
            let mut attributes = Attributes::new(self.plan, self.arena);
            let entry = self.set((*kind, body), stream, identity, &mut attributes);
            let [reported, ignored, undecodable] = match kind {
                LogKind::Http => &mut counts[0],
                LogKind::Tcp => &mut counts[1],
            };
            match entry {
                Ok(EntryOutcome::Set { unconvertible }) => {
                    *reported += 1;
                    metrics.unconvertible(unconvertible);
                }
                Ok(EntryOutcome::Ignored) => {
                    *ignored += 1;
                    continue;
                }
                Err(error) => {
                    *undecodable += 1;
                    errors.push(error.to_string());
                    continue;
                }
            }
            if let Some(records) = &mut records {
                records.push(attributes.to_owned_attributes());
            }
            let mut bag = attributes.bag();
            set_principal(call.principal, self.published, &mut bag);
            errors.extend(report::collect(self.published, &mut bag, &mut collector, self.context).await);
        }
        if let Err(error) = collector.flush(self.context).await {
            errors.extend(error.errors);
        }
        for (kind, results) in ["http", "tcp"].iter().zip(counts) {
            for (result, count) in ["reported", "ignored", "error"].iter().zip(results) {
                metrics.entries(&identity.log_name, kind, result, count);
            }
        }
        let failed = (!errors.is_empty()).then(|| {
            let text = join_errors(&errors);
            mixer_base::warn_limited!(1, errors = errors.len(), "access logs of Envoy: {text}");
            GrpcError::new(Code::Unknown, text)
        });
        if let (Some(observation), Some(records)) = (recorder, records) {
            record_report(observation, &records, failed.as_ref());
        }
    }

    fn set(
        &self,
        entry: (LogKind, &'b [u8]),
        stream: u64,
        identity: &'b LogIdentity,
        attributes: &mut Attributes<'b>,
    ) -> Result<EntryOutcome, DecodeError> {
        let service = self.service;
        let mut counters = service.counters.borrow_mut();
        let settings = &self.config.settings.report;
        let counters = counters.get_or_insert_with(|| {
            let idle = settings.tcp_state_idle.to_std_or_zero();
            ConnectionCounters::new(settings.tcp_state_entries as usize, idle)
        });
        counters.set_stream(stream);
        let set = set_entry(entry, identity, self.config, counters, attributes);
        if entry.0 == LogKind::Tcp {
            let held = i64::try_from(counters.len()).unwrap_or(i64::MAX);
            let change = held - service.connections.replace(held);
            if change != 0 {
                let all = service.shared.connections.fetch_add(change, Ordering::Relaxed) + change;
                service.set_gauge(Family::BridgeTcpState, all);
            }
        }
        set
    }
}
