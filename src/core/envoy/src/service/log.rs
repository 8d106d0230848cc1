//! Access logs: every message of a stream is a report.

use super::STREAM_ACCESS_LOGS;
use crate::config::config_of;
use std::sync::atomic::Ordering;

use bumpalo::Bump;
use bytes::Bytes;

use super::super::access_log::{ConnectionCounters, Entry, LogKind, LogMessage, set_entry};
use super::super::attributes::{AttributePlan, Attributes};
use super::super::node::LogIdentity;
use super::{BridgeService, enabled, words};
use crate::config::EnvoyConfig;
use mixer_api::CallInfo;
use mixer_api::grpc::{Code, GrpcError};
use mixer_api::load_shedding::Demand;
use mixer_api::mixer::undecodable;
use mixer_api::observe::Watch;
use mixer_api::worker::{note_snapshot, report_record};
use mixer_attribute::OwnedAttributes;
use mixer_base::metrics::Family;
use mixer_engine::dispatch::ReportCollector;
use mixer_engine::runtime::Published;

impl BridgeService {
    /// Begins a stream of access logs.
    pub fn open_log<'s>(&'s self, call: CallInfo<'s>) -> LogStream<'s> {
        let open = self.shared.streams.fetch_add(1, Ordering::Relaxed) + 1;
        self.show(Family::BridgeLogStreams, open);
        let number = self.shared.next_stream.fetch_add(1, Ordering::Relaxed);
        LogStream { service: self, call, number: number.cast_unsigned(), identity: None }
    }

    async fn report(
        &self,
        body: &[u8],
        call: &CallInfo<'_>,
        stream: u64,
        identity: &mut Option<Box<LogIdentity>>,
        watch: Option<&Watch<'_>>,
    ) -> Result<(), GrpcError> {
        let message = LogMessage::read(body).map_err(undecodable)?;
        if let Some(identifier) = message.identifier {
            *identity = Some(Box::new(LogIdentity::read(identifier).map_err(undecodable)?));
        }
        if message.entries.is_empty() {
            return Ok(());
        }
        self.admit(Demand { cost: message.entries.len(), is_report: true, caller: call.caller })?;
        let unknown = LogIdentity::default();
        let identity = identity.as_deref().unwrap_or(&unknown);
        let published = self.worker.engine.runtime.load();
        note_snapshot(watch.map(Watch::trace), &published);
        let snapshot = published.routes.snapshot();
        let config = config_of(snapshot);
        enabled(config.settings.report.enabled, "access logs")?;
        let arena = self.worker.arena();
        {
            let plan = self.present(&published).plan(&snapshot.vocabulary, watch);
            let batch = Batch { service: self, published: &published, plan: &plan, arena: &arena, config };
            batch.report(&message, call, stream, identity, watch).await;
        }
        self.worker.give_back(arena);
        Ok(())
    }
}

/// A stream of access logs.
pub struct LogStream<'s> {
    service: &'s BridgeService,
    call: CallInfo<'s>,
    number: u64,
    identity: Option<Box<LogIdentity>>,
}

impl LogStream<'_> {
    /// Reports the entries of one message and waits until the handlers have taken them: a caller that is faster than they are
    /// finds the window of its stream closed.
    ///
    /// Errors: the bytes are no message, or access logs are turned off.
    pub async fn report(&mut self, body: Bytes) -> Result<(), GrpcError> {
        let Self { service, call, number, identity } = self;
        let report = service.watched(STREAM_ACCESS_LOGS, call, async |watch| {
            service.report(&body, call, *number, identity, watch).await
        });
        Box::pin(report).await
    }
}

impl Drop for LogStream<'_> {
    fn drop(&mut self) {
        let open = self.service.shared.streams.fetch_sub(1, Ordering::Relaxed) - 1;
        self.service.show(Family::BridgeLogStreams, open);
    }
}

/// The entries of one message on their way to the handlers.
struct Batch<'b> {
    service: &'b BridgeService,
    published: &'b Published,
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
        watch: Option<&Watch<'_>>,
    ) {
        let metrics = &self.service.metrics;
        let context = self.service.worker.context(None, watch.map(Watch::trace));
        let mut collector = ReportCollector::new(&self.published.routes);
        let mut errors = Vec::new();
        let mut records: Option<Vec<OwnedAttributes>> =
            watch.filter(|watch| watch.wants_words()).map(|_| Vec::new());
        // Reported, ignored, broken; by kind.
        let mut counts = [[0u64; 3]; 2];
        for (kind, body) in &message.entries {
            let mut attributes = Attributes::new(self.plan, self.arena);
            let entry = self.set((*kind, body), stream, identity, &mut attributes);
            let [reported, ignored, broken] = match kind {
                LogKind::Http => &mut counts[0],
                LogKind::Tcp => &mut counts[1],
            };
            match entry {
                Ok(Entry::Report(failures)) => {
                    *reported += 1;
                    metrics.unconvertible(failures);
                }
                Ok(Entry::Ignored) => {
                    *ignored += 1;
                    continue;
                }
                Err(error) => {
                    *broken += 1;
                    errors.push(error.to_string());
                    continue;
                }
            }
            if let Some(records) = &mut records {
                records.push(attributes.to_owned_attributes());
            }
            let mut bag = attributes.bag();
            call.identify(self.published, &mut bag);
            errors.extend(report_record(self.published, &mut bag, &mut collector, &context).await);
        }
        if let Err(error) = collector.flush(&context).await {
            errors.extend(error.errors);
        }
        for (kind, results) in ["http", "tcp"].iter().zip(counts) {
            for (result, count) in ["reported", "ignored", "error"].iter().zip(results) {
                metrics.entries(&identity.log_name, kind, result, count);
            }
        }
        let failed = (!errors.is_empty()).then(|| {
            let text = mixer_engine::adapter::join_errors(&errors);
            mixer_base::warn_limited!(1, errors = errors.len(), "access logs of Envoy: {text}");
            GrpcError::new(Code::Unknown, text)
        });
        if let (Some(watch), Some(records)) = (watch, records) {
            words::tell_report(watch, &records, failed.as_ref());
        }
    }

    fn set(
        &self,
        entry: (LogKind, &'b [u8]),
        stream: u64,
        identity: &'b LogIdentity,
        attributes: &mut Attributes<'b>,
    ) -> Result<Entry, mixer_attribute::DecodeError> {
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
                service.show(Family::BridgeTcpState, all);
            }
        }
        set
    }
}
