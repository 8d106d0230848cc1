//! Descriptors that nothing in the configuration is for, which limits nothing: which they are, for operators.

use std::hash::{BuildHasher as _, Hash as _, Hasher as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use crate::config::{EnvoyConfig, Unmatched};
use crate::descriptor::Descriptor;
use mixer_base::log::escaped;
use mixer_base::time::Moment;
use mixer_config::message::suggestion;
use mixer_engine::snapshot::SnapshotId;

/// Most groups of calls of a configuration; callers choose domains and keys.
const MAX_GROUPS: usize = 32;
/// Most groups that a worker remembers.
const MAX_KNOWN: usize = 256;
/// Most bytes of a domain, and of the keys of a call.
const MAX_TEXT: usize = 120;

/// What to do about such descriptors.
pub const CURE: &str = "name a quota for them in `ratelimit.quotas` of the envoybridge, or add a limits file for the domain; or correct the `domain` of the filter, or the keys of its routes";

/// Calls of a domain with a descriptor of the same keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnlimitedCalls {
    /// The domain; cut.
    pub domain: String,
    /// The keys of the descriptor, joined with dots. Cut.
    pub keys: String,
    /// What the configuration lacks.
    pub why: String,
    /// Their number since the configuration was published.
    pub calls: u64,
    /// When the last one came.
    pub last: Moment,
}

/// All such calls under a configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unlimited {
    /// The busiest first.
    pub groups: Vec<UnlimitedCalls>,
    /// The number of calls of other groups, because there were too many.
    pub others: u64,
}

/// A group, which workers count in.
#[derive(Debug)]
pub(crate) struct Group {
    key: u64,
    domain: String,
    keys: String,
    why: String,
    calls: AtomicU64,
    /// In seconds since the table began.
    last: AtomicU64,
}

/// The groups of one configuration.
#[derive(Debug)]
pub(crate) struct Table {
    id: SnapshotId,
    began: Moment,
    hasher: foldhash::quality::RandomState,
    groups: Mutex<Vec<Arc<Group>>>,
    others: AtomicU64,
    /// Those that the log has from the configuration before.
    told: Vec<u64>,
}

/// The groups of the configuration in force.
#[derive(Debug, Default)]
pub(crate) struct Tables(Mutex<Option<Arc<Table>>>);

impl Tables {
    /// The table of a configuration. A call that began on an older configuration does not replace that of the current one.
    pub(crate) fn of(&self, id: SnapshotId) -> Arc<Table> {
        let mut current = self.0.lock();
        if let Some(table) = current.as_ref().filter(|table| table.id == id) {
            return Arc::clone(table);
        }
        let told =
            current.as_ref().map(|before| before.groups.lock().iter().map(|group| group.key).collect());
        let hasher = current.as_ref().map(|before| before.hasher.clone()).unwrap_or_default();
        let told = told.unwrap_or_default();
        let table = Arc::new(Table {
            id,
            began: Moment::now(),
            hasher,
            groups: Mutex::default(),
            others: AtomicU64::new(0),
            told,
        });
        if current.as_ref().is_none_or(|current| current.id <= id) {
            *current = Some(Arc::clone(&table));
        }
        table
    }

    /// What operators see of a configuration.
    pub(crate) fn list(&self, id: SnapshotId) -> Unlimited {
        let table = self.0.lock().clone().filter(|table| table.id == id);
        table.map_or_else(Unlimited::default, |table| table.list())
    }
}

impl Table {
    fn list(&self) -> Unlimited {
        let of = |group: &Arc<Group>| UnlimitedCalls {
            domain: group.domain.clone(),
            keys: group.keys.clone(),
            why: group.why.clone(),
            calls: group.calls.load(Ordering::Relaxed),
            last: self.began.after(Duration::from_secs(group.last.load(Ordering::Relaxed))),
        };
        let mut groups: Vec<UnlimitedCalls> = self.groups.lock().iter().map(of).collect();
        groups.sort_by(|a, b| {
            b.calls.cmp(&a.calls).then_with(|| (&a.domain, &a.keys).cmp(&(&b.domain, &b.keys)))
        });
        Unlimited { groups, others: self.others.load(Ordering::Relaxed) }
    }

    /// The group of a call; makes it if there is room.
    fn group(
        &self,
        key: u64,
        (domain, descriptor): (&[u8], &Descriptor<'_>),
        why: String,
    ) -> Option<Arc<Group>> {
        let mut groups = self.groups.lock();
        if let Some(group) = groups.iter().find(|group| group.key == key) {
            return Some(Arc::clone(group));
        }
        if groups.len() >= MAX_GROUPS {
            return None;
        }
        let (domain, keys) = (shown([domain].into_iter()), keys(descriptor));
        let (calls, last) = (AtomicU64::new(0), AtomicU64::new(0));
        let group = Arc::new(Group { key, domain, keys, why, calls, last });
        groups.push(Arc::clone(&group));
        drop(groups);
        if !self.told.contains(&key) {
            let Group { domain, keys, why, .. } = &*group;
            mixer_base::warn_limited!(
                5,
                domain,
                keys,
                "Envoy asks for rate limits that are not configured: {why}; {CURE}"
            );
        }
        Some(group)
    }
}

/// What a worker knows of such calls under one configuration.
#[derive(Debug)]
pub(crate) struct Known {
    table: Arc<Table>,
    /// By a hash of domain and keys.
    calls: FxHashMap<u64, Call>,
}

#[derive(Debug)]
enum Call {
    /// The configuration has limits for its keys, though not for its values.
    Expected,
    Told(Arc<Group>),
    /// There was no room for its group.
    Other,
}

impl Known {
    /// Nothing yet.
    pub(crate) fn new(table: Arc<Table>) -> Self {
        Self { table, calls: FxHashMap::default() }
    }

    /// The configuration.
    pub(crate) fn id(&self) -> SnapshotId {
        self.table.id
    }

    /// Counts a descriptor for which there is no limit and no quota, whatever is for the others of its call. Cost: a
    /// hash of the keys; a look at the limits of the domain for the first one of a worker with these keys.
    pub(crate) fn count(&mut self, domain: &[u8], descriptor: &Descriptor<'_>, config: &EnvoyConfig) {
        let mut hasher = self.table.hasher.build_hasher();
        domain.hash(&mut hasher);
        descriptor.entries.iter().for_each(|(key, _)| key.hash(&mut hasher));
        let key = hasher.finish();
        let is_full = self.calls.len() >= MAX_KNOWN;
        let call = match self.calls.get(&key) {
            Some(call) => call,
            None if is_full => &Call::Other,
            None => {
                let of = (domain, descriptor);
                let call = match lacking(of, config) {
                    None => Call::Expected,
                    Some(why) => self.table.group(key, of, why).map_or(Call::Other, Call::Told),
                };
                self.calls.entry(key).or_insert(call)
            }
        };
        match call {
            Call::Expected => {}
            Call::Told(group) => {
                group.calls.fetch_add(1, Ordering::Relaxed);
                group.last.fetch_max(self.table.began.age().as_secs(), Ordering::Relaxed);
            }
            Call::Other => drop(self.table.others.fetch_add(1, Ordering::Relaxed)),
        }
    }
}

/// What the configuration lacks for a descriptor; `None` if it has a limit or a quota for its keys, with other values.
fn lacking((name, descriptor): (&[u8], &Descriptor<'_>), config: &EnvoyConfig) -> Option<String> {
    let selectors =
        || config.quotas.iter().filter(|quota| quota.domain == "*" || quota.domain.as_bytes() == name);
    let domain = config.domains.get(name);
    let has = |name: &str| descriptor.entries.iter().any(|(key, _)| *key == name.as_bytes());
    let keys: Vec<&[u8]> = descriptor.entries.iter().map(|(key, _)| *key).collect();
    if domain.is_some_and(|domain| domain.descriptors.limits_keys(&keys))
        || selectors().any(|quota| quota.entries.iter().all(|(key, _)| has(key)))
    {
        return None;
    }
    let answered = match config.settings.ratelimit.unmatched {
        Unmatched::Error => "the calls fail (`unmatched: error`)",
        _ => "nothing limits them",
    };
    if domain.is_some() || selectors().next().is_some() {
        return Some(format!("the limits and quotas for the domain are for other keys: {answered}"));
    }
    let name = String::from_utf8_lossy(name);
    let known = config.domains.values().map(|domain| domain.name.as_str());
    let known = known.chain(config.quotas.iter().map(|quota| quota.domain.as_str()));
    let near = suggestion(&name, known).map(|near| format!(" ({near})")).unwrap_or_default();
    Some(format!("no limits file and no entry of `ratelimit.quotas` is for the domain{near}: {answered}"))
}

fn keys(descriptor: &Descriptor<'_>) -> String {
    let keys = descriptor.entries.iter().enumerate();
    shown(keys.flat_map(|(at, (key, _))| (at > 0).then_some(&b"."[..]).into_iter().chain([*key])))
}

/// A text that callers chose: cut, and without control characters.
fn shown<'p>(parts: impl Iterator<Item = &'p [u8]>) -> String {
    let mut bytes = Vec::new();
    for part in parts {
        if bytes.len() > MAX_TEXT {
            break;
        }
        bytes.extend_from_slice(part.get(..=MAX_TEXT).unwrap_or(part));
    }
    let mut text = escaped(&String::from_utf8_lossy(&bytes)).into_owned();
    if text.len() > MAX_TEXT {
        text.truncate(text.floor_char_boundary(MAX_TEXT));
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests;
