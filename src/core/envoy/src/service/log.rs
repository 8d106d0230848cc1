//! Access logs: every message of a stream is a report.

use std::iter::Peekable;
use std::sync::atomic::Ordering;

use bumpalo::Bump;
use bytes::Bytes;

use super::super::access_log::{
    ConnectionCounters, EntryOutcome, LogEntries, LogKind, LogMessage, set_entry,
};
use super::super::attributes::{AttributePlan, Attributes};
use super::super::node::LogIdentity;
use super::recording::record_report;
use super::{EnvoyService, STREAM_ACCESS_LOGS, require_enabled};
use crate::config::{EnvoyConfig, config_of};
use mixer_api::grpc::{Code, GrpcError};
use mixer_api::load_shedding::Demand;
use mixer_api::observers::Observation;
use mixer_api::principal::set_principal;
use mixer_api::report::{self, ReportErrors};
use mixer_api::worker::{SLICE, needs_slices};
use mixer_api::{CallInfo, CallPool};
use mixer_attribute::{DecodeError, OwnedAttributes};
use mixer_base::metrics::Family;
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
        let limit = self.worker.engine.limits.records;
        if message.entry_count > limit {
            let found = message.entry_count;
            let text = format!(
                "the message has {found} entries; at most {limit} are allowed (--max-report-records)"
            );
            return Err(GrpcError::new(Code::InvalidArgument, text));
        }
        if message.entry_count == 0 {
            return Ok(());
        }
        self.admit(Demand { cost: message.entry_count, is_report: true, caller: call.caller })?;
        let unknown = LogIdentity::default();
        let identity = identity.as_deref().unwrap_or(&unknown);
        let scope = self.worker.begin(None, observation.map(Observation::trace))?;
        let snapshot = scope.published.routes.snapshot();
        let config = config_of(snapshot);
        require_enabled(config.settings.report.enabled, "access logs")?;
        let plan = self.snapshot_state(&scope.published).plan(&snapshot.vocabulary, observation);
        let batch = Batch {
            service: self,
            published: &scope.published,
            context: &scope.context,
            plan: &plan,
            config,
            call,
            stream,
            identity,
        };
        let recorder = observation.filter(|observation| observation.records_payload());
        let mut progress = Progress {
            entries: message.entries().peekable(),
            counts: EntryCounts { batch: &batch, counts: [[0; 3]; 2] },
            errors: ReportErrors::default(),
            records: recorder.map(|_| Vec::new()),
        };
        if needs_slices(message.entry_count, body.len()) {
            CallPool::before_long_work().await;
            Box::pin(batch.report_slices(&mut progress)).await;
        } else {
            batch.report(&mut progress, &scope.arena).await;
        }
        batch.finish(progress, recorder);
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
    config: &'b EnvoyConfig,
    call: &'b CallInfo<'b>,
    stream: u64,
    identity: &'b LogIdentity,
}

/// How far a message is reported.
struct Progress<'b> {
    entries: Peekable<LogEntries<'b>>,
    counts: EntryCounts<'b>,
    errors: ReportErrors,
    /// The reported entries, if payload is recorded.
    records: Option<Vec<OwnedAttributes>>,
}

/// The entries of a message that were handled. Counted in the metrics when it is dropped, also if the client leaves between two slices.
struct EntryCounts<'b> {
    batch: &'b Batch<'b>,
    /// Reported, ignored, undecodable; by kind.
    counts: [[u64; 3]; 2],
}

impl Drop for EntryCounts<'_> {
    fn drop(&mut self) {
        let Batch { service, identity, .. } = self.batch;
        for (kind, results) in ["http", "tcp"].iter().zip(self.counts) {
            for (result, count) in ["reported", "ignored", "error"].iter().zip(results) {
                service.metrics.entries(&identity.log_name, kind, result, count);
            }
        }
    }
}

impl Batch<'_> {
    /// Reports a long message slice by slice in an arena of its own. Between two slices the worker serves other calls.
    async fn report_slices(&self, progress: &mut Progress<'_>) {
        let worker = &self.service.worker;
        let mut arena = worker.arena();
        while progress.entries.peek().is_some() {
            let turn = worker.turn().await;
            turn.first_poll(self.report(progress, &arena)).await;
            arena.reset();
        }
    }

    /// Reports the entries of the next slice.
    async fn report(&self, progress: &mut Progress<'_>, arena: &Bump) {
        let metrics = &self.service.metrics;
        let mut collector = ReportCollector::new(&self.published.routes);
        let (mut entries, mut bytes) = (0, 0);
        while let Some((kind, body)) =
            progress.entries.next_if(|(_, body)| SLICE.admits(&mut entries, &mut bytes, body.len()))
        {
            let mut attributes = Attributes::new(self.plan, arena);
            let entry = self.set((kind, body), &mut attributes);
            let [reported, ignored, undecodable] = match kind {
                LogKind::Http => &mut progress.counts.counts[0],
                LogKind::Tcp => &mut progress.counts.counts[1],
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
                    progress.errors.extend([error.to_string()]);
                    continue;
                }
            }
            if let Some(records) = &mut progress.records {
                records.push(attributes.to_owned_attributes());
            }
            let mut bag = attributes.bag();
            set_principal(self.call.principal, self.published, &mut bag);
            let failures = report::collect(self.published, &mut bag, &mut collector, self.context).await;
            progress.errors.extend(failures);
        }
        if let Err(error) = collector.flush(self.context).await {
            progress.errors.extend(error.errors);
        }
    }

    /// Logs failures and records what was reported.
    fn finish(&self, progress: Progress<'_>, recorder: Option<&Observation<'_>>) {
        let Progress { errors, records, .. } = progress;
        let failed = errors.text().map(|text| {
            mixer_base::warn_limited!(1, errors = errors.count(), "access logs of Envoy: {text}");
            GrpcError::new(Code::Unknown, text)
        });
        if let (Some(observation), Some(records)) = (recorder, records) {
            record_report(observation, &records, failed.as_ref());
        }
    }

    fn set<'a>(
        &'a self,
        entry: (LogKind, &'a [u8]),
        attributes: &mut Attributes<'a>,
    ) -> Result<EntryOutcome, DecodeError> {
        let service = self.service;
        let mut counters = service.counters.borrow_mut();
        let settings = &self.config.settings.report;
        let counters = counters.get_or_insert_with(|| {
            let idle = settings.tcp_state_idle.to_std_or_zero();
            ConnectionCounters::new(settings.tcp_state_entries as usize, idle)
        });
        counters.set_stream(self.stream);
        let set = set_entry(entry, self.identity, self.config, counters, attributes);
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
