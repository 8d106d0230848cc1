//! Denials by what refused them, by service and by caller.

use std::hash::{BuildHasher as _, Hash as _, Hasher};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use super::{DenialKind, Refusal};
use crate::snapshot::Snapshot;
use mixer_attribute::text::{ip_from_bytes, text};
use mixer_attribute::{AttributeBag, Value};
use mixer_base::secrets::{Beginning, MASKED, Window, is_secret};
use mixer_base::shard;
use mixer_base::time::Moment;

/// Most groups of a shard. Beyond it, of the 32 with the fewest denials the one gives way that was not denied for the longest time. Callers
/// who make up names push out each other: not what was denied often, nor what is denied again before so many others are. Its denials go on to
/// count for what refused them, as `OTHERS`.
pub const MAX_GROUPS: usize = 128;
/// Groups of a shard among which the oldest gives way.
const YOUNG: usize = 32;
/// Most groups of others of a shard; beyond it, their denials have no group.
const MAX_OTHERS: usize = 64;
/// Service and caller of the groups that gave way.
pub(super) const OTHERS: &str = "(others)";
/// A count is worth half as much after each time without a denial: what was is no bar to what is.
const HALF_LIFE: Duration = Duration::from_secs(600);
/// Most bytes of a text of a group.
const MAX_TEXT: usize = 128;

/// Attributes that name the service that was called; the first that is present counts.
const SERVICE: &[&str] = &[
    "destination.service.host",
    "destination.service.name",
    "destination.service",
    "ratelimit.domain",
    "request.host",
    "destination.workload.name",
    "destination.name",
    "destination.namespace",
];
/// Attributes that name who called it; likewise.
const CALLER: &[&str] = &[
    "source.principal",
    "source.user",
    "request.auth.principal",
    "source.workload.name",
    "source.name",
    "source.uid",
    "origin.ip",
    "source.ip",
    "context.reporter.principal",
    "ratelimit.descriptor",
];
/// For how long the record of a denial stands for all of its group.
const SAMPLE_AGE: Duration = Duration::from_secs(1);

/// Denials of one rule, quota or limit for one service and caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DenialGroup {
    /// What kind of thing refused the requests.
    pub kind: DenialKind,
    /// Its name, as in [`Denial`](super::Denial).
    pub by: String,
    /// The service that was called; empty if the requests do not say, and `OTHERS` of groups that gave way. Secret values are masked.
    pub service: String,
    /// Who called it; likewise.
    pub caller: String,
    /// The number of denials.
    pub count: u64,
    /// The time of the last one.
    pub last: Moment,
    /// The id of the last one that was recorded; its record may be gone.
    pub sample: Option<u64>,
}

/// All groups that are known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DenialGroups {
    /// By their counts, in descending order.
    pub list: Vec<DenialGroup>,
    /// Denials that are in no group of the list, because too many things refused.
    pub others: u64,
}

/// A group of the shard of a thread.
#[derive(Clone, Copy)]
pub(super) struct GroupKey(u64);

/// The groups, by shard.
pub(super) struct Groups {
    hasher: foldhash::quality::RandomState,
    shards: Box<[Shard]>,
}

/// Two cache lines, because adjacent lines are fetched in pairs.
#[derive(Default)]
#[repr(align(128))]
struct Shard(Mutex<Table>);

#[derive(Default)]
struct Table {
    /// By a hash of its texts.
    groups: FxHashMap<u64, Kept>,
    /// Those that gave way, by a hash of what refused them.
    given_way: FxHashMap<u64, DenialGroup>,
    /// Denials without a group.
    others: u64,
}

struct Kept {
    group: DenialGroup,
    /// When the last record was made.
    sampled: Option<Instant>,
}

impl Kept {
    fn worth(&self) -> u64 {
        let halves = self.group.last.age().as_secs() / HALF_LIFE.as_secs();
        self.group.count >> halves.min(63)
    }
}

impl Table {
    /// Makes room for a group.
    fn give_way(&mut self, hasher: &foldhash::quality::RandomState) {
        let of = |(key, kept): (&u64, &Kept)| (kept.worth(), kept.group.last, *key);
        let mut all: Vec<(u64, Moment, u64)> = self.groups.iter().map(of).collect();
        if all.len() > YOUNG {
            all.select_nth_unstable(YOUNG - 1);
            all.truncate(YOUNG);
        }
        let oldest = all.iter().min_by_key(|(_, last, _)| *last);
        let Some(Kept { group: gone, .. }) = oldest.and_then(|(.., key)| self.groups.remove(key)) else {
            return;
        };
        let key = hasher.hash_one((gone.kind, &gone.by, OTHERS));
        if let Some(others) = self.given_way.get_mut(&key) {
            others.count += gone.count;
            others.last = others.last.max(gone.last);
        } else if self.given_way.len() < MAX_OTHERS {
            let [service, caller] = [OTHERS; 2].map(str::to_owned);
            self.given_way.insert(key, DenialGroup { service, caller, sample: None, ..gone });
        } else {
            self.others += gone.count;
        }
    }
}

impl Default for Groups {
    fn default() -> Self {
        let shards = (0..shard::count()).map(|_| Shard::default()).collect();
        Self { hasher: foldhash::quality::RandomState::default(), shards }
    }
}

/// The value of the first of these attributes that is present and not empty, with its name.
fn first<'a>(names: &[&'static str], bag: &AttributeBag<'a>) -> Option<(&'static str, Value<'a>)> {
    let is_empty = |value: &Value<'_>| matches!(value, Value::String(b"") | Value::Bytes(b""));
    names.iter().find_map(|name| {
        let value = bag.peek(bag.vocabulary().slot(name.as_bytes())?)?;
        (!is_empty(&value)).then_some((*name, value))
    })
}

/// The text of an attribute; masked if it is secret, and cut. No more of it is looked at than may be shown: callers choose it.
fn shown(value: Option<(&'static str, Value<'_>)>, snapshot: &Snapshot) -> String {
    let Some((name, value)) = value else { return String::new() };
    if snapshot.secrets.is_secret(name) {
        return MASKED.to_owned();
    }
    let beginning = |text: &[u8], most: usize| Window::of(text, most).masked();
    let mut shown = match value {
        Value::String(bytes) => beginning(bytes, MAX_TEXT),
        Value::Bytes(bytes) => match ip_from_bytes(bytes) {
            Some(ip) => beginning(ip.to_string().as_bytes(), MAX_TEXT),
            None => {
                let some = bytes.get(..MAX_TEXT).unwrap_or(bytes);
                let text = beginning(text(Value::Bytes(some)).to_string().as_bytes(), MAX_TEXT);
                Beginning { goes_on: text.goes_on || some.len() < bytes.len(), ..text }
            }
        },
        // Entries of a descriptor: each is masked by its own key.
        Value::StringMap(map) => {
            let mut all = Beginning { text: String::new(), goes_on: false };
            for (key, value) in map.entries {
                if all.text.len() > MAX_TEXT {
                    all.goes_on = true;
                    break;
                }
                let separator = if all.text.is_empty() { "" } else { " " };
                let named = beginning(key, MAX_TEXT);
                let value = match is_secret(&String::from_utf8_lossy(key)) {
                    true => MASKED.to_owned(),
                    false => beginning(value, MAX_TEXT).text,
                };
                all.text.extend([separator, &named.text, "=", &value]);
            }
            all
        }
        _ => beginning(text(value).to_string().as_bytes(), MAX_TEXT),
    };
    if shown.text.len() > MAX_TEXT {
        shown.text.truncate(shown.text.floor_char_boundary(MAX_TEXT));
        shown.goes_on = true;
    }
    if shown.goes_on {
        shown.text.push('…');
    }
    shown.text.shrink_to_fit();
    shown.text
}

/// Hashes what tells the text of one attribute from another.
fn hash_value(value: &Option<(&'static str, Value<'_>)>, hasher: &mut impl Hasher) {
    match value {
        Some((_, Value::String(bytes) | Value::Bytes(bytes))) => bytes.hash(hasher),
        Some((_, Value::StringMap(map))) => map.entries.iter().for_each(|entry| entry.hash(hasher)),
        Some((name, value)) => (name, text(*value).to_string()).hash(hasher),
        None => 0.hash(hasher),
    }
}

impl Groups {
    /// Counts a denial. Returns its group, and whether no denial of it was recorded in the last second.
    pub(super) fn count(
        &self,
        refusal: Refusal<'_>,
        snapshot: &Snapshot,
        bag: &AttributeBag<'_>,
    ) -> (GroupKey, bool) {
        let (service, caller) = (first(SERVICE, bag), first(CALLER, bag));
        let mut hasher = self.hasher.build_hasher();
        (refusal.by.kind(), refusal.by.parts()).hash(&mut hasher);
        hash_value(&service, &mut hasher);
        hash_value(&caller, &mut hasher);
        let key = hasher.finish();
        let Some(shard) = self.shards.get(shard::current()) else { return (GroupKey(key), false) };
        let mut table = shard.0.lock();
        let now = Moment::now();
        if let Some(Kept { group, sampled, .. }) = table.groups.get_mut(&key) {
            group.count += 1;
            group.last = now;
            return (GroupKey(key), sampled.is_none_or(|sampled| sampled.elapsed() >= SAMPLE_AGE));
        }
        if table.groups.len() >= MAX_GROUPS {
            table.give_way(&self.hasher);
        }
        let by = refusal.by.name();
        let (service, caller) = (shown(service, snapshot), shown(caller, snapshot));
        let group =
            DenialGroup { kind: refusal.by.kind(), by, service, caller, count: 1, last: now, sample: None };
        table.groups.insert(key, Kept { group, sampled: None });
        (GroupKey(key), true)
    }

    /// Notes the record of a denial of a group that this thread has just counted.
    pub(super) fn note_sample(&self, GroupKey(key): GroupKey, id: u64) {
        let Some(shard) = self.shards.get(shard::current()) else { return };
        if let Some(Kept { group, sampled, .. }) = shard.0.lock().groups.get_mut(&key) {
            (group.sample, *sampled) = (Some(id), Some(Instant::now()));
        }
    }

    /// The groups of all shards.
    pub(super) fn list(&self) -> DenialGroups {
        let mut all: FxHashMap<u64, DenialGroup> = FxHashMap::default();
        let mut others = 0;
        for Shard(table) in &self.shards {
            let table = table.lock();
            others += table.others;
            let groups = table.groups.iter().map(|(key, kept)| (key, &kept.group));
            for (key, group) in groups.chain(&table.given_way) {
                match all.get_mut(key) {
                    Some(known) => {
                        known.count += group.count;
                        known.sample = known.sample.max(group.sample);
                        known.last = known.last.max(group.last);
                    }
                    None => drop(all.insert(*key, group.clone())),
                }
            }
        }
        let mut list: Vec<DenialGroup> = all.into_values().collect();
        list.sort_by(|a, b| {
            let texts = |group: &DenialGroup| (group.by.clone(), group.service.clone(), group.caller.clone());
            b.count.cmp(&a.count).then_with(|| texts(a).cmp(&texts(b)))
        });
        DenialGroups { list, others }
    }
}

#[cfg(test)]
mod tests {
    use super::super::DeniedBy;
    use super::*;
    use crate::snapshot::{Registry, SnapshotBuilder, SnapshotOptions};
    use mixer_attribute::{StringMap, ValueType, Vocabulary};

    /// A caller may give itself names of any length.
    #[test]
    fn what_is_kept_of_callers_is_bounded() {
        let mut builder = Vocabulary::builder();
        builder.declare("source.user", ValueType::String);
        builder.declare("request.auth.principal", ValueType::IpAddress);
        builder.declare("ratelimit.descriptor", ValueType::StringMap);
        builder.declare("request.host", ValueType::String);
        let (vocabulary, arena) = (builder.build(), bumpalo::Bump::new());
        let snapshot = SnapshotBuilder::new(SnapshotOptions::new(Registry::default())).empty();
        let groups = Groups::default();
        let name = |number: usize| arena.alloc_str(&format!("{number}{}", "ä".repeat(300_000))).as_bytes();
        for number in 0..MAX_GROUPS {
            let entries = arena.alloc([(name(number), name(number)), (b"token".as_slice(), name(1))]);
            let descriptor = Value::StringMap(arena.alloc(StringMap { entries, source: None }));
            let caller = [
                ("source.user", Value::String(name(number))),
                ("request.auth.principal", Value::Bytes(name(number))),
                ("ratelimit.descriptor", descriptor),
            ];
            let mut bag = AttributeBag::empty(&vocabulary, &arena);
            for (name, value) in [caller[number % 3], ("request.host", Value::String(name(number)))] {
                bag.set(vocabulary.slot(name.as_bytes()).unwrap(), value);
            }
            let refusal = Refusal { code: 7, message: "", by: DeniedBy::Server, cached: false };
            assert!(groups.count(refusal, &snapshot, &bag).1);
        }
        let tables: Vec<_> = groups.shards.iter().map(|Shard(table)| table.lock()).collect();
        let kept: Vec<&DenialGroup> =
            tables.iter().flat_map(|table| table.groups.values()).map(|kept| &kept.group).collect();
        assert_eq!(kept.len(), MAX_GROUPS);
        for text in kept.iter().flat_map(|group| [&group.by, &group.service, &group.caller]) {
            assert!(text.capacity() <= MAX_TEXT + "…".len(), "{} bytes for {text}", text.capacity());
            assert!(text.is_empty() || text.ends_with('…'), "{text}");
        }
    }
}
