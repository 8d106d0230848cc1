//! What every sink was sent, acknowledged and refused.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;

use mixer_base::time::Moment;

/// The number of a publication: of a call of [`Cache::set_snapshot`](crate::Cache::set_snapshot), from 1. A later one is greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Publication(pub u64);

/// A version of a collection that was sent or acknowledged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivered {
    /// The version.
    pub version: Arc<str>,
    /// The publication that brought it.
    pub publication: Publication,
    /// When.
    pub at: Moment,
}

/// A version of a collection that a sink refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// What was refused, and when.
    pub delivered: Delivered,
    /// The code of the NACK.
    pub code: i32,
    /// The text of the NACK.
    pub message: String,
}

/// What is known of a collection of a sink.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SinkCollectionRecord {
    /// The group whose snapshot it is served from.
    pub group: Arc<str>,
    /// The version of the last request that opened a watch.
    pub requested: Arc<str>,
    /// The last message.
    pub sent: Option<Delivered>,
    /// The last message that the sink acknowledged.
    pub acknowledged: Option<Delivered>,
    /// The last message that the sink refused, until it acknowledges a later one.
    pub refused: Option<Refused>,
}

/// What is known of a sink: of one stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SinkRecord {
    /// The number of the stream, from 1.
    pub id: u64,
    /// The address of the peer.
    pub peer: String,
    /// The node id of its last request.
    pub node: String,
    /// Whether it is a [reader](crate::reader()): nobody waits for it.
    pub is_reader: bool,
    /// When the stream began.
    pub since: Moment,
    /// When the stream ended, and why; `None` while it is open.
    pub ended: Option<(Moment, String)>,
    /// By collection.
    pub collections: BTreeMap<Arc<str>, SinkCollectionRecord>,
}

/// What can be waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// Everything that had been published then.
    Publication(Publication),
    /// A version of a collection, or a later one.
    Version {
        /// The collection.
        collection: Arc<str>,
        /// Its version.
        version: Arc<str>,
    },
}

/// A sink, as an operator sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SinkName {
    /// The number of the stream.
    pub id: u64,
    /// The address of the peer.
    pub peer: String,
    /// The node id.
    pub node: String,
}

/// How far a target is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Progress {
    /// Sinks that acknowledged all of it.
    pub acknowledged: Vec<SinkName>,
    /// Sinks that refused a part of it and acknowledged nothing later: the collection, and the last refusal.
    pub refused: Vec<(SinkName, Arc<str>, Refused)>,
    /// Sinks that have not answered, with a collection of which the answer is missing.
    pub outstanding: Vec<(SinkName, Arc<str>)>,
}

impl Progress {
    /// Whether at least `sinks` sinks acknowledged it, and no other one is there.
    pub fn is_complete(&self, sinks: usize) -> bool {
        self.acknowledged.len() >= sinks && self.refused.is_empty() && self.outstanding.is_empty()
    }
}

/// Publications of a collection that are remembered.
const MAX_HISTORY: usize = 1024;
/// Ended streams that are remembered.
const MAX_ENDED: usize = 64;
/// Whoever waits looks at most this often, however many sinks answer.
const LOOKS: Duration = Duration::from_millis(2);

/// A collection of a group.
type Place = (Arc<str>, Arc<str>);

/// What every sink was sent, acknowledged and refused.
#[derive(Debug, Default)]
pub struct Ledger {
    state: Mutex<State>,
    /// The number of changes.
    changed: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct State {
    last_id: u64,
    open: BTreeMap<u64, SinkRecord>,
    /// Oldest first.
    ended: VecDeque<SinkRecord>,
    history: HashMap<Place, History>,
    last: Publication,
}

/// The versions of a collection, oldest first.
#[derive(Debug, Default)]
struct History {
    versions: VecDeque<(Publication, Arc<str>)>,
    /// Whether older ones are forgotten.
    is_cut: bool,
}

impl History {
    /// The last publication of the collection up to `publication`; `None`: there was none yet.
    fn at(&self, publication: Publication) -> Option<Publication> {
        let after = self.versions.partition_point(|(at, _)| *at <= publication);
        match after.checked_sub(1).and_then(|index| self.versions.get(index)) {
            Some((at, _)) => Some(*at),
            // Forgotten: whoever has the oldest one that is known has a later one.
            None if self.is_cut => self.versions.front().map(|(at, _)| *at),
            None => None,
        }
    }
}

/// What a sink did with a part of a target.
enum Standing<'r> {
    Acknowledged,
    Refused(&'r Refused),
    Outstanding,
}

impl SinkCollectionRecord {
    fn standing(&self, wanted: Publication) -> Standing<'_> {
        let has = |delivered: &Delivered| delivered.publication >= wanted;
        if self.acknowledged.as_ref().is_some_and(has) {
            return Standing::Acknowledged;
        }
        match &self.refused {
            Some(refused) if has(&refused.delivered) => Standing::Refused(refused),
            _ => Standing::Outstanding,
        }
    }
}

impl SinkRecord {
    /// The sink as an operator sees it.
    pub fn name(&self) -> SinkName {
        SinkName { id: self.id, peer: self.peer.clone(), node: self.node.clone() }
    }
}

impl Ledger {
    /// The streams that ended last, oldest first, and then the open ones, by number.
    pub fn sinks(&self) -> Vec<SinkRecord> {
        let state = self.state.lock();
        state.ended.iter().chain(state.open.values()).cloned().collect()
    }

    /// The last publication; 0 before the first.
    pub fn last(&self) -> Publication {
        self.state.lock().last
    }

    /// Looks at the open streams without copying them.
    pub fn for_each_open(&self, mut look: impl FnMut(&SinkRecord)) {
        self.state.lock().open.values().for_each(&mut look);
    }

    /// How far a target is; `None` if it was never published, or a version so long ago that it is forgotten. Sinks that did not ask for any
    /// collection of it do not appear, nor do readers.
    pub fn progress(&self, target: &Target) -> Option<Progress> {
        let state = self.state.lock();
        let wanted = |place: &Place| match target {
            Target::Publication(publication) => state.history.get(place)?.at(*publication),
            Target::Version { collection, version } if place.1 == *collection => {
                let mut versions = state.history.get(place)?.versions.iter().rev();
                versions.find(|(_, known)| known == version).map(|(at, _)| *at)
            }
            Target::Version { .. } => None,
        };
        match target {
            Target::Publication(publication) if *publication > state.last => return None,
            Target::Version { .. } if !state.history.keys().any(|place| wanted(place).is_some()) => {
                return None;
            }
            _ => {}
        }
        let mut progress = Progress::default();
        for sink in state.open.values().filter(|sink| !sink.is_reader) {
            let parts = sink.collections.iter().filter_map(|(collection, record)| {
                let wanted = wanted(&(Arc::clone(&record.group), Arc::clone(collection)))?;
                Some((collection, record.standing(wanted)))
            });
            let (mut is_asked, mut refused, mut outstanding) = (false, None, None);
            for (collection, standing) in parts {
                is_asked = true;
                match standing {
                    Standing::Acknowledged => {}
                    Standing::Refused(why) => refused = Some((collection, why)),
                    Standing::Outstanding => outstanding = Some(collection),
                }
            }
            match (refused, outstanding) {
                (Some((collection, why)), _) => {
                    progress.refused.push((sink.name(), Arc::clone(collection), why.clone()));
                }
                (None, Some(collection)) => progress.outstanding.push((sink.name(), Arc::clone(collection))),
                (None, None) if is_asked => progress.acknowledged.push(sink.name()),
                (None, None) => {}
            }
        }
        Some(progress)
    }

    /// Waits until `is_enough` of the progress of a target, which need not be published yet; see [`progress`](Self::progress). The caller
    /// limits the time, and asks for the progress once more when it is over.
    pub async fn wait(&self, target: &Target, is_enough: impl Fn(&Progress) -> bool) -> Progress {
        let mut changed = self.changed.subscribe();
        loop {
            changed.borrow_and_update();
            if let Some(progress) = self.progress(target).filter(&is_enough) {
                return progress;
            }
            // The sender is a part of the ledger.
            let _ = changed.changed().await;
            tokio::time::sleep(LOOKS).await;
        }
    }

    /// A new publication. The cache calls it in order.
    pub(crate) fn next_publication(&self) -> Publication {
        let mut state = self.state.lock();
        state.last.0 += 1;
        state.last
    }

    /// A publication brought another version of a collection.
    pub(crate) fn published(
        &self,
        group: &Arc<str>,
        collection: &Arc<str>,
        version: &Arc<str>,
        at: Publication,
    ) {
        let mut state = self.state.lock();
        let history = state.history.entry((Arc::clone(group), Arc::clone(collection))).or_default();
        if history.versions.len() >= MAX_HISTORY {
            history.versions.pop_front();
            history.is_cut = true;
        }
        history.versions.push_back((at, Arc::clone(version)));
    }

    /// A group is gone for good.
    pub(crate) fn forget_group(&self, group: &str) {
        self.state.lock().history.retain(|(of, _), _| **of != *group);
    }

    /// Who waits looks again.
    pub(crate) fn notify(&self) {
        self.changed.send_modify(|count| *count = count.wrapping_add(1));
    }

    pub(crate) fn opened(&self, peer: &str) -> u64 {
        let mut state = self.state.lock();
        state.last_id += 1;
        let id = state.last_id;
        let record = SinkRecord {
            id,
            peer: peer.to_owned(),
            node: String::new(),
            is_reader: false,
            since: Moment::now(),
            ended: None,
            collections: BTreeMap::new(),
        };
        state.open.insert(id, record);
        id
    }

    pub(crate) fn ended(&self, id: u64, why: &str) {
        {
            let mut state = self.state.lock();
            let Some(mut record) = state.open.remove(&id) else { return };
            record.ended = Some((Moment::now(), why.to_owned()));
            if !record.is_reader {
                if state.ended.len() >= MAX_ENDED {
                    state.ended.pop_front();
                }
                state.ended.push_back(record);
            }
        }
        self.notify();
    }

    /// A sink asks for a collection, from a version. `is_reader`: its node says that it is a reader.
    pub(crate) fn requested(
        &self,
        id: u64,
        (node, is_reader): (&str, bool),
        group: &Arc<str>,
        collection: &Arc<str>,
        from: &Arc<str>,
    ) {
        let mut state = self.state.lock();
        let Some(sink) = state.open.get_mut(&id) else { return };
        if sink.node != node {
            node.clone_into(&mut sink.node);
        }
        sink.is_reader = is_reader;
        let record = sink.collections.entry(Arc::clone(collection)).or_default();
        record.group = Arc::clone(group);
        record.requested = Arc::clone(from);
    }

    fn update(&self, id: u64, collection: &Arc<str>, update: impl FnOnce(&mut SinkCollectionRecord)) {
        let mut state = self.state.lock();
        if let Some(sink) = state.open.get_mut(&id) {
            update(sink.collections.entry(Arc::clone(collection)).or_default());
        }
    }

    pub(crate) fn sent(&self, id: u64, collection: &Arc<str>, version: &Arc<str>, publication: Publication) {
        let delivered = Delivered { version: Arc::clone(version), publication, at: Moment::now() };
        self.update(id, collection, |record| record.sent = Some(delivered));
    }

    pub(crate) fn acknowledged(
        &self,
        id: u64,
        collection: &Arc<str>,
        version: &Arc<str>,
        publication: Publication,
    ) {
        let delivered = Delivered { version: Arc::clone(version), publication, at: Moment::now() };
        self.update(id, collection, |record| {
            record.acknowledged = Some(delivered);
            record.refused = None;
        });
        self.notify();
    }

    pub(crate) fn refused(
        &self,
        id: u64,
        collection: &Arc<str>,
        (version, publication): (&Arc<str>, Publication),
        code: i32,
        message: &str,
    ) {
        let delivered = Delivered { version: Arc::clone(version), publication, at: Moment::now() };
        let refused = Refused { delivered, code, message: message.to_owned() };
        self.update(id, collection, |record| record.refused = Some(refused));
        self.notify();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Arc<str> {
        text.into()
    }

    /// A ledger with versions 1 and 2 of two collections, and sinks that ask for the first.
    fn ledger(sinks: usize) -> (Ledger, Vec<u64>) {
        let ledger = Ledger::default();
        let publish = |collection, version| {
            let at = ledger.next_publication();
            ledger.published(&text("g"), &text(collection), &text(version), at);
        };
        publish("a", "1");
        publish("b", "1");
        publish("a", "2");
        let ids = (0..sinks).map(|number| {
            let id = ledger.opened(&format!("peer-{number}"));
            ledger.requested(id, ("node", false), &text("g"), &text("a"), &text(""));
            id
        });
        let ids = ids.collect();
        (ledger, ids)
    }

    fn version(version: &str) -> Target {
        Target::Version { collection: text("a"), version: text(version) }
    }

    fn counts(ledger: &Ledger, target: &Target) -> Option<(usize, usize, usize)> {
        let progress = ledger.progress(target)?;
        Some((progress.acknowledged.len(), progress.refused.len(), progress.outstanding.len()))
    }

    #[test]
    fn a_later_version_counts_for_an_earlier_one() {
        let (ledger, ids) = ledger(3);
        ledger.acknowledged(ids[0], &text("a"), &text("2"), Publication(3));
        ledger.acknowledged(ids[1], &text("a"), &text("1"), Publication(1));
        assert_eq!(counts(&ledger, &version("1")), Some((2, 0, 1)));
        assert_eq!(counts(&ledger, &version("2")), Some((1, 0, 2)));
        // Of the second publication, the version that the collection had then.
        assert_eq!(counts(&ledger, &Target::Publication(Publication(2))), Some((2, 0, 1)));
        assert_eq!(counts(&ledger, &Target::Publication(Publication(3))), Some((1, 0, 2)));
        assert_eq!(counts(&ledger, &Target::Publication(Publication(4))), None);
        assert_eq!(counts(&ledger, &version("9")), None);
    }

    #[test]
    fn a_refusal_says_why_until_a_later_version_is_acknowledged() {
        let (ledger, ids) = ledger(1);
        ledger.refused(ids[0], &text("a"), (&text("2"), Publication(3)), 3, "no");
        assert_eq!(counts(&ledger, &version("1")), Some((0, 1, 0)));
        let progress = ledger.progress(&version("2")).unwrap();
        let (sink, collection, why) = &progress.refused[0];
        assert_eq!((sink.peer.as_str(), &**collection, why.message.as_str()), ("peer-0", "a", "no"));
        ledger.acknowledged(ids[0], &text("a"), &text("2"), Publication(3));
        assert_eq!(counts(&ledger, &version("2")), Some((1, 0, 0)));
    }

    #[test]
    fn ended_streams_are_remembered_and_do_not_count() {
        let (ledger, ids) = ledger(MAX_ENDED + 2);
        for id in &ids {
            ledger.ended(*id, "gone");
        }
        assert_eq!(counts(&ledger, &version("2")), Some((0, 0, 0)));
        let sinks = ledger.sinks();
        assert_eq!(sinks.len(), MAX_ENDED);
        assert_eq!(sinks[0].ended.as_ref().map(|(_, why)| why.as_str()), Some("gone"));
    }

    #[test]
    fn readers_are_not_waited_for_and_not_remembered() {
        let (ledger, ids) = ledger(2);
        ledger.requested(ids[0], ("mixer doctor", true), &text("g"), &text("a"), &text(""));
        assert_eq!(counts(&ledger, &version("2")), Some((0, 0, 1)));
        ledger.acknowledged(ids[0], &text("a"), &text("2"), Publication(3));
        assert_eq!(counts(&ledger, &version("2")), Some((0, 0, 1)), "it has it, and serves none of it");
        let sinks = ledger.sinks();
        assert_eq!(
            (sinks[0].node.as_str(), sinks[0].is_reader, sinks[1].is_reader),
            ("mixer doctor", true, false)
        );
        ids.iter().for_each(|id| ledger.ended(*id, "done"));
        let left: Vec<u64> = ledger.sinks().iter().map(|sink| sink.id).collect();
        assert_eq!(left, [ids[1]]);
    }

    #[test]
    fn what_is_forgotten_needs_a_later_acknowledgement() {
        let (ledger, ids) = ledger(1);
        for version in 0..MAX_HISTORY {
            let at = ledger.next_publication();
            ledger.published(&text("g"), &text("a"), &text(&format!("v{version}")), at);
        }
        ledger.acknowledged(ids[0], &text("a"), &text("2"), Publication(3));
        assert_eq!(counts(&ledger, &Target::Publication(Publication(1))), Some((0, 0, 1)));
        assert_eq!(counts(&ledger, &version("1")), None);
        ledger.acknowledged(ids[0], &text("a"), &text("v0"), Publication(4));
        assert_eq!(counts(&ledger, &Target::Publication(Publication(1))), Some((1, 0, 0)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_target_is_waited_for() {
        let (ledger, ids) = ledger(2);
        let target = Target::Publication(Publication(4));
        let waiting = ledger.wait(&target, |progress| progress.is_complete(2));
        let working = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let at = ledger.next_publication();
            ledger.published(&text("g"), &text("a"), &text("3"), at);
            for id in &ids {
                ledger.acknowledged(*id, &text("a"), &text("3"), at);
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        };
        let (progress, ()) = tokio::join!(waiting, working);
        assert_eq!(progress.acknowledged.len(), 2);
    }
}
