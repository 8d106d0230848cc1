//! Access logs: every message of a stream is a report.

use std::cell::{Cell, RefCell};
use std::iter::Peekable;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;

use super::super::access_log::{
    ConnectionCounters, EntryOutcome, LogEntries, LogKind, LogMessage, LogScan, set_entry,
};
use super::super::attributes::{AttributePlan, Attributes};
use super::super::node::LogIdentity;
use super::nodes::NodeEntry;
use super::recording::record_report;
use super::{EnvoyService, STREAM_ACCESS_LOGS, require_enabled};
use crate::config::{EnvoyConfig, config_of};
use mixer_api::CallInfo;
use mixer_api::grpc::{Code, GrpcError};
use mixer_api::load_shedding::Demand;
use mixer_api::observers::Observation;
use mixer_api::principal::set_principal;
use mixer_api::report::{Delivery, ReportErrors};
use mixer_api::worker::{Pace, WORK_PER_TURN, WorkerArena};
use mixer_attribute::{DecodeError, OwnedAttributes};
use mixer_base::metrics::Family;
use mixer_engine::dispatch::DispatchContext;
use mixer_engine::runtime::Published;

/// The work of a message besides its entries, in evaluations.
const MESSAGE_WORK: usize = 256;
/// The fields of a message that are found at once.
const SCANNED: usize = 256;
/// The work of finding an entry of a message.
const SCAN_WORK: usize = 8;

impl EnvoyService {
    /// Begins a stream of access logs.
    pub(crate) fn open_log<'s>(&'s self, call: CallInfo<'s>) -> LogStream<'s> {
        let open = self.shared.streams.fetch_add(1, Ordering::Relaxed) + 1;
        self.set_gauge(Family::BridgeLogStreams, open);
        let account = Arc::clone(&self.shared.connection_account);
        let connections = Connections {
            service: self,
            counters: RefCell::new(ConnectionCounters::within(account, 0, Duration::ZERO)),
            counted: Cell::default(),
        };
        LogStream { service: self, call, connections, identity: None, node: None, work: 0 }
    }

    async fn report(
        &self,
        body: &[u8],
        call: &CallInfo<'_>,
        connections: &Connections<'_>,
        identity: &mut Option<Box<LogIdentity>>,
        work: &mut usize,
        observation: Option<&Observation<'_>>,
    ) -> Result<(), GrpcError> {
        let limit = self.worker.engine.limits.records;
        let mut pace = self.worker.pace();
        let message = scan(body, limit, &mut pace).await.map_err(GrpcError::undecodable)?;
        if let Some(identifier) = message.identifier {
            *identity = Some(Box::new(LogIdentity::read(identifier).map_err(GrpcError::undecodable)?));
        }
        if message.entry_count > limit {
            let text = format!("the message has more than {limit} entries (--max-report-records)");
            return Err(GrpcError::refused(Code::InvalidArgument, text));
        }
        if message.entry_count == 0 {
            return Ok(());
        }
        self.admit(Demand { cost: message.entry_count, is_report: true, caller: call.caller })?;
        self.metrics.log_message();
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
            connections,
            identity,
        };
        let recorder = observation.filter(|observation| observation.records_payload());
        let mut progress = Progress {
            entries: message.entries().peekable(),
            counts: EntryCounts { batch: &batch, counts: [[0; 3]; 2] },
            errors: ReportErrors::default(),
            records: recorder.map(|_| Vec::new()),
        };
        let whole = self.worker.whole();
        if message.entry_count <= whole.records && body.len() <= whole.bytes {
            batch.report(&mut progress, &scope.arena, &mut pace).await;
        }
        if progress.entries.peek().is_some() {
            Box::pin(batch.report_slices(&mut progress, &mut pace)).await;
        }
        *work = work.saturating_add(pace.work());
        batch.finish(progress, recorder);
        Ok(())
    }
}

/// Finds and counts the entries of a message. Other calls are served meanwhile, if there are many.
///
/// Errors: the bytes are no message.
async fn scan<'b>(body: &'b [u8], limit: usize, pace: &mut Pace<'_>) -> Result<LogMessage<'b>, DecodeError> {
    let mut scan = LogScan::new(body, limit);
    while !scan.advance(SCANNED)? {
        pace.before(SCANNED * SCAN_WORK).await;
    }
    Ok(scan.message())
}

/// A stream of access logs.
pub(crate) struct LogStream<'s> {
    service: &'s EnvoyService,
    call: CallInfo<'s>,
    connections: Connections<'s>,
    identity: Option<Box<LogIdentity>>,
    /// Tells ControlZ who logs; from the first identity of the stream on.
    node: Option<NodeEntry>,
    /// The work of messages since the stream last gave way.
    work: usize,
}

impl LogStream<'_> {
    /// Reports the entries of one message and waits until the handlers have taken them, so that the flow-control window of the stream
    /// limits a proxy that is faster than the handlers.
    ///
    /// Errors: UNIMPLEMENTED when access logs are disabled, RESOURCE_EXHAUSTED under overload, INTERNAL for bytes that are no
    /// message.
    pub(crate) async fn report(&mut self, body: Bytes) -> Result<(), GrpcError> {
        let Self { service, call, connections, identity, node, work } = self;
        *work = work.saturating_add(MESSAGE_WORK);
        let report = service.observed(STREAM_ACCESS_LOGS, call, async |observation| {
            service.report(&body, call, connections, identity, work, observation).await
        });
        let result = Box::pin(report).await;
        if node.is_none()
            && let (Some(identity), Some(address)) = (identity.as_deref(), call.address)
            && let Some(name) = identity.node()
        {
            *node = Some(service.shared.nodes.enter(address, &name));
        }
        result
    }

    /// Serves other calls of the worker if the messages since the last time took a turn: messages that have arrived are read one after the
    /// other without a wait.
    pub(crate) async fn give_way(&mut self) {
        if self.work > WORK_PER_TURN / 2 {
            tokio::task::yield_now().await;
            self.work = 0;
        }
    }
}

impl LogStream<'_> {
    /// Bytes that the stream keeps of its messages.
    pub(crate) fn kept(&self) -> usize {
        self.identity.as_deref().map_or(0, LogIdentity::bytes)
    }
}

/// The TCP connections of a stream.
struct Connections<'s> {
    service: &'s EnvoyService,
    counters: RefCell<ConnectionCounters>,
    /// Connections and evictions in the metrics of the server.
    counted: Cell<(i64, u64)>,
}

impl Connections<'_> {
    /// Counts what has changed in the metrics of the server.
    fn count(&self, held: usize, evicted: u64) {
        let held = i64::try_from(held).unwrap_or(i64::MAX);
        let (held_before, evicted_before) = self.counted.replace((held, evicted));
        let service = self.service;
        if held != held_before {
            let change = held - held_before;
            let all = service.shared.connections.fetch_add(change, Ordering::Relaxed) + change;
            service.set_gauge(Family::BridgeTcpState, all);
        }
        if evicted != evicted_before {
            service.metrics.connections_evicted(evicted - evicted_before);
        }
    }
}

impl Drop for Connections<'_> {
    fn drop(&mut self) {
        self.count(0, self.counted.get().1);
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
    connections: &'b Connections<'b>,
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
                let names = &service.shared.log_names;
                service.metrics.entries(names, (&identity.log_name, kind), result, count);
            }
        }
    }
}

impl Batch<'_> {
    /// Reports a long message slice by slice. Between two of them the call has no memory for entries, and other long calls have their turn.
    async fn report_slices(&self, progress: &mut Progress<'_>, pace: &mut Pace<'_>) {
        while progress.entries.peek().is_some() {
            pace.end_slice();
            pace.give_way().await;
            self.report(progress, &self.service.worker.arena(), pace).await;
        }
    }

    /// Reports the entries of the next slice.
    async fn report(&self, progress: &mut Progress<'_>, arena: &WorkerArena<'_>, pace: &mut Pace<'_>) {
        let metrics = &self.service.metrics;
        let end = arena.slice_end();
        let mut delivery = Delivery::new(self.published, self.context);
        while !end.is_reached(arena)
            && let Some((kind, body)) = progress.entries.next()
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
                    delivery.taken(body.len(), &mut progress.errors, pace).await;
                    continue;
                }
                Err(error) => {
                    *undecodable += 1;
                    progress.errors.extend([error.to_string()]);
                    delivery.taken(body.len(), &mut progress.errors, pace).await;
                    continue;
                }
            }
            if let Some(records) = &mut progress.records {
                records.push(attributes.to_owned_attributes());
            }
            let mut bag = attributes.bag();
            set_principal(self.service.worker.principal(self.call), self.published, &mut bag);
            delivery.collect(&mut bag, &mut progress.errors, pace).await;
            delivery.taken(body.len(), &mut progress.errors, pace).await;
        }
        let is_last = progress.entries.peek().is_none();
        delivery.finish(is_last, &mut progress.errors, pace).await;
    }

    /// Logs failures and records what was reported.
    fn finish(&self, progress: Progress<'_>, recorder: Option<&Observation<'_>>) {
        let Progress { errors, records, .. } = progress;
        let failed = errors.text().map(|text| {
            mixer_base::warn_limited!(
                1,
                errors = errors.count(),
                "access logs of Envoy: {}",
                errors.logged()
            );
            GrpcError::new(Code::Unknown, errors.message().unwrap_or(text))
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
        let settings = &self.config.settings.report;
        let mut counters = self.connections.counters.borrow_mut();
        let idle = settings.tcp_state_idle.to_std_or_zero();
        counters.set_bounds(settings.tcp_state_entries as usize, idle);
        let set = set_entry(entry, self.identity, self.config, &mut counters, attributes);
        if entry.0 == LogKind::Tcp {
            self.connections.count(counters.len(), counters.evicted());
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use mixer_api::worker::{Engine, MessageLimits};
    use mixer_base::budget::{MemoryBudget, Share};
    use mixer_base::metrics::Metrics;
    use mixer_engine::runtime::Runtime;
    use mixer_engine::snapshot::{Registry, SnapshotBuilder, SnapshotOptions};

    use super::super::EnvoyShared;
    use super::*;

    /// Messages that have arrived are reported without a wait in between.
    #[test]
    fn a_stream_of_short_messages_gives_way_to_others() {
        let empty = SnapshotBuilder::new(SnapshotOptions::new(Registry::default())).empty();
        let engine = Engine {
            runtime: Arc::new(Runtime::new(empty, None)),
            metrics: Arc::new(Metrics::new()),
            last_known: Arc::default(),
            shedder: None,
            observers: None,
            limits: MessageLimits::default(),
            waiting: Arc::new(Share::new(1 << 20)),
            as_istio_mixer: false,
        };
        let service = EnvoyService::new(Arc::new(EnvoyShared::new(engine, &MemoryBudget::default())));
        let messages = 10 * WORK_PER_TURN / MESSAGE_WORK;
        let mut reported = std::pin::pin!(async {
            let mut stream = service.open_log(CallInfo::default());
            for _ in 0..messages {
                stream.report(Bytes::new()).await.expect("an empty message");
                stream.give_way().await;
            }
        });
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let turns = runtime.block_on(async {
            let mut turns = 1;
            std::future::poll_fn(|cx| match reported.as_mut().poll(cx) {
                std::task::Poll::Pending => {
                    turns += 1;
                    cx.waker().wake_by_ref();
                    std::task::Poll::Pending
                }
                std::task::Poll::Ready(()) => std::task::Poll::Ready(()),
            })
            .await;
            turns
        });
        assert!((15..=21).contains(&turns), "{turns} turns for {messages} messages");
    }
}
