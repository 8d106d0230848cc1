//! The state as data, which pages and commands show. JSON members are only added, never renamed.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use mixer_base::time::{Moment, Timestamp};
use mixer_galley::state::{self, CollectionState, EventKind, EventRecord, GroupState, SourceState, State};
use mixer_mcp::{SinkCollectionRecord, SinkRecord};

use super::Plane;

/// The version of the documents.
pub(super) const API_VERSION: &str = "mixer/v1";

/// A group of collections that are published together.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Group {
    pub(super) name: &'static str,
    pub(super) is_published: bool,
    /// The number of its last publication.
    pub(super) publication: u64,
    pub(super) publications: u64,
    pub(super) published_at: Option<When>,
    pub(super) age_seconds: Option<f64>,
    /// Changes that are not published yet; at least so many, if one of `waiting` has no number.
    pub(super) pending_events: u64,
    /// What the first publication waits for.
    pub(super) waits_for: Vec<&'static str>,
    /// What sources have that is not published yet, and why.
    pub(super) waiting: Vec<Waiting>,
}

/// What a source has that is not published yet.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Waiting {
    pub(super) source: String,
    /// The number of changes; `null`: it is not known before they are read.
    pub(super) changes: Option<usize>,
    pub(super) why: String,
}

impl Group {
    /// The number of changes that are not published, for people.
    pub(super) fn pending(&self) -> String {
        match self.waiting.iter().all(|waiting| waiting.changes.is_some()) {
            true => self.pending_events.to_string(),
            false => format!("at least {}", self.pending_events),
        }
    }
}

impl From<state::Waiting> for Waiting {
    fn from(waiting: state::Waiting) -> Self {
        let state::Waiting { source, changes, why } = waiting;
        Self { source, changes, why }
    }
}

/// A collection.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CollectionStatus {
    pub(super) name: &'static str,
    pub(super) group: &'static str,
    pub(super) version: String,
    pub(super) resources: usize,
}

/// A source.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Source {
    pub(super) name: String,
    pub(super) is_synced: bool,
    pub(super) is_connected: bool,
    /// Whether what it reads now is not published, and why: `held`.
    pub(super) is_withheld: bool,
    /// Why something that was read is not published.
    pub(super) held: Option<String>,
    /// Changes that it has read and not delivered.
    pub(super) pending: usize,
    /// How often it was started.
    pub(super) starts: u64,
    /// Collections of which not everything was delivered since its last start.
    pub(super) missing: Vec<&'static str>,
    pub(super) skipped: usize,
    /// How often it lost what it reads.
    pub(super) outages: u64,
    pub(super) last_error: Option<String>,
    pub(super) last_error_at: Option<When>,
    pub(super) problems: Vec<String>,
}

/// What a sink has of a collection.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SinkCollection {
    pub(super) collection: String,
    /// `acknowledged`, `refused`, `outstanding`, or `waiting` for a first publication.
    pub(super) state: &'static str,
    /// The published version.
    pub(super) current: String,
    pub(super) sent: Option<String>,
    pub(super) sent_at: Option<When>,
    pub(super) acknowledged: Option<String>,
    pub(super) acknowledged_at: Option<When>,
    pub(super) refused: Option<Refusal>,
}

/// A NACK.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Refusal {
    pub(super) version: String,
    pub(super) code: i32,
    pub(super) message: String,
    pub(super) at: When,
}

/// A sink.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Sink {
    pub(super) id: u64,
    pub(super) peer: String,
    pub(super) node: String,
    pub(super) since: When,
    /// When and why the stream ended.
    pub(super) ended: Option<String>,
    pub(super) ended_at: Option<When>,
    /// `in sync`, `behind`, `refuses`, `reads once` or `gone`.
    pub(super) state: &'static str,
    /// Collections whose current version it acknowledged.
    pub(super) acknowledged: usize,
    pub(super) refused: usize,
    pub(super) outstanding: usize,
    pub(super) collections: Vec<SinkCollection>,
}

/// An event.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Event {
    pub(super) at: When,
    pub(super) source: String,
    pub(super) kind: &'static str,
    pub(super) collection: &'static str,
    pub(super) name: String,
    pub(super) version: String,
}

/// The webhook.
#[derive(Debug, Serialize, Default)]
#[serde(rename_all = "camelCase")]
pub(super) struct AdmissionStatus {
    pub(super) is_enabled: bool,
    pub(super) passed: u64,
    pub(super) failed: u64,
    /// The last ones, newest first.
    pub(super) refusals: Vec<Refused>,
}

/// A refused resource.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Refused {
    pub(super) at: When,
    pub(super) resource: String,
    pub(super) message: String,
}

/// Everything at a glance.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Status {
    api_version: &'static str,
    kind: &'static str,
    /// Whether every group was published.
    pub(super) is_synced: bool,
    /// The number of the last publication.
    pub(super) publication: u64,
    pub(super) groups: Vec<Group>,
    pub(super) collections: Vec<CollectionStatus>,
    pub(super) sources: Vec<Source>,
    pub(super) sinks: Vec<SinkSummary>,
    pub(super) admission: AdmissionStatus,
}

/// A sink without its collections.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SinkSummary {
    pub(super) id: u64,
    pub(super) peer: String,
    pub(super) node: String,
    pub(super) state: &'static str,
    pub(super) acknowledged: usize,
    pub(super) refused: usize,
    pub(super) outstanding: usize,
}

/// When this process saw something; in documents in RFC 3339.
#[derive(Debug, Clone, Copy)]
pub(super) struct When(pub(super) Moment);

impl std::fmt::Display for When {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        Timestamp::from_system_time(self.0.time()).rfc3339_micros().fmt(f)
    }
}

impl Serialize for When {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

fn state_of(plane: &Plane) -> State {
    plane.galley.as_ref().map(|galley| galley.state()).unwrap_or_default()
}

/// The groups.
pub(super) fn groups(plane: &Plane) -> Vec<Group> {
    let published = plane.publications.by_group();
    let of = |group: GroupState| {
        let (publication, at) = published.get(group.name).copied().unzip();
        Group {
            name: group.name,
            is_published: group.is_published,
            publication: publication.unwrap_or_default().0,
            publications: group.publications,
            published_at: at.map(When),
            age_seconds: group.published_at.map(|at| at.elapsed().as_secs_f64()),
            pending_events: group.pending_events,
            waits_for: group.waits_for,
            waiting: group.waiting.into_iter().map(Waiting::from).collect(),
        }
    };
    state_of(plane).groups.into_iter().map(of).collect()
}

/// The collections.
pub(super) fn collections(plane: &Plane) -> Vec<CollectionStatus> {
    let of = |collection: CollectionState| CollectionStatus {
        name: collection.name,
        group: collection.group,
        version: collection.version.into(),
        resources: collection.published,
    };
    state_of(plane).collections.into_iter().map(of).collect()
}

/// The sources, in the order of precedence.
pub(super) fn sources(plane: &Plane) -> Vec<Source> {
    let of = |source: SourceState| {
        let is_synced = source.is_synced();
        let (last_error, at) = source.last_error.unzip();
        Source {
            is_synced,
            name: source.name,
            is_connected: source.is_connected,
            is_withheld: source.held.is_some(),
            starts: source.generation,
            missing: source.missing,
            skipped: source.skipped,
            outages: source.outages,
            held: source.held,
            pending: source.pending,
            last_error,
            last_error_at: at.map(When),
            problems: source.problems.iter().map(mixer_config::Diagnostic::brief).collect(),
        }
    };
    state_of(plane).sources.into_iter().map(of).collect()
}

/// The state of a tool that reads what there is, and for which nobody waits.
pub(super) const READS_ONCE: &str = "reads once";

/// The sinks: open streams first, those that refuse and those that are behind before the others; then those that ended.
pub(super) fn sinks(plane: &Plane) -> Vec<Sink> {
    let cache = plane.publications.cache();
    let mut versions: BTreeMap<Arc<str>, Arc<str>> = BTreeMap::new();
    for group in cache.groups() {
        let snapshot = cache.snapshot(&group);
        let collections = snapshot.iter().flat_map(|snapshot| snapshot.collections());
        versions.extend(collections.map(|c| (Arc::clone(c.name()), Arc::clone(c.version()))));
    }
    let sinks = cache.ledger().sinks();
    let mut sinks: Vec<Sink> = sinks.into_iter().map(|sink| of_sink(sink, &versions)).collect();
    let states = ["refuses", "behind", "in sync", READS_ONCE];
    let rank = |sink: &Sink| states.iter().position(|state| *state == sink.state);
    sinks.sort_by_key(|sink| (sink.ended.is_some(), rank(sink), sink.id));
    sinks
}

fn of_sink(sink: SinkRecord, versions: &BTreeMap<Arc<str>, Arc<str>>) -> Sink {
    let collections: Vec<SinkCollection> = sink
        .collections
        .iter()
        .map(|(name, record)| of_collection(name, record, versions.get(name).map(|version| &**version)))
        .collect();
    let count = |state: &str| collections.iter().filter(|collection| collection.state == state).count();
    let (refused, outstanding) = (count("refused"), count("outstanding"));
    let state = match (sink.ended.is_some(), refused, outstanding) {
        (true, ..) => "gone",
        _ if sink.is_reader => READS_ONCE,
        (false, 0, 0) => "in sync",
        (false, 0, _) => "behind",
        (false, ..) => "refuses",
    };
    Sink {
        id: sink.id,
        peer: sink.peer,
        node: sink.node,
        since: When(sink.since),
        ended_at: sink.ended.as_ref().map(|(at, _)| When(*at)),
        ended: sink.ended.map(|(at, why)| format!("{}: {why}", When(at))),
        state,
        acknowledged: count("acknowledged"),
        refused,
        outstanding,
        collections,
    }
}

fn of_collection(name: &str, record: &SinkCollectionRecord, current: Option<&str>) -> SinkCollection {
    let is_current = |version: &str| current == Some(version);
    let acknowledged = record.acknowledged.as_ref();
    let refused = record.refused.as_ref();
    let state = match (acknowledged, refused) {
        _ if current.is_none() => "waiting",
        (Some(done), _) if is_current(&done.version) => "acknowledged",
        (_, Some(refused)) if is_current(&refused.delivered.version) => "refused",
        _ => "outstanding",
    };
    SinkCollection {
        collection: name.to_owned(),
        state,
        current: current.unwrap_or_default().to_owned(),
        sent: record.sent.as_ref().map(|sent| sent.version.to_string()),
        sent_at: record.sent.as_ref().map(|sent| When(sent.at)),
        acknowledged: acknowledged.map(|done| done.version.to_string()),
        acknowledged_at: acknowledged.map(|done| When(done.at)),
        refused: refused.map(of_refusal),
    }
}

pub(super) fn of_refusal(refused: &mixer_mcp::Refused) -> Refusal {
    Refusal {
        version: refused.delivered.version.to_string(),
        code: refused.code,
        message: refused.message.clone(),
        at: When(refused.delivered.at),
    }
}

/// The last events, newest first.
pub(super) fn events(plane: &Plane) -> Vec<Event> {
    let Some(galley) = &plane.galley else { return Vec::new() };
    let names: Vec<String> = galley.state().sources.into_iter().map(|source| source.name).collect();
    let of = |event: EventRecord| Event {
        at: When(event.at),
        source: names.get(event.source).cloned().unwrap_or_default(),
        kind: match event.kind {
            EventKind::Added => "added",
            EventKind::Updated => "updated",
            EventKind::Deleted => "deleted",
            EventKind::FullSync => "full sync",
            EventKind::Started => "started",
        },
        collection: event.collection,
        name: event.name.into(),
        version: event.version.into(),
    };
    galley.events().into_iter().rev().map(of).collect()
}

/// The webhook.
pub(super) fn admission(plane: &Plane) -> AdmissionStatus {
    let Some(admission) = &plane.admission else { return AdmissionStatus::default() };
    let tally = admission.tally();
    let refusals = tally.refusals().into_iter().map(|refusal| Refused {
        at: When(refusal.at),
        resource: refusal.resource,
        message: refusal.message,
    });
    AdmissionStatus {
        is_enabled: true,
        passed: tally.passed(),
        failed: tally.failed(),
        refusals: refusals.collect(),
    }
}

/// Everything at a glance.
pub(super) fn status(plane: &Plane) -> Status {
    let summary = |sink: Sink| SinkSummary {
        state: sink.state,
        id: sink.id,
        peer: sink.peer,
        node: sink.node,
        acknowledged: sink.acknowledged,
        refused: sink.refused,
        outstanding: sink.outstanding,
    };
    Status {
        api_version: API_VERSION,
        kind: "GalleyStatus",
        is_synced: plane.is_synced(),
        publication: plane.publications.latest().0,
        groups: groups(plane),
        collections: collections(plane),
        sources: sources(plane),
        sinks: sinks(plane).into_iter().filter(|sink| sink.ended.is_none()).map(summary).collect(),
        admission: admission(plane),
    }
}
