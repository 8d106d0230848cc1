//! Recent denied checks, for debugging.
//!
//! Every denial is counted by status code, by [group](DenialGroup) and by rule, per shard. A limited number per second and worker is recorded with its encoded request
//! in a ring buffer of [`KEPT`] slots of fixed size, 1 MiB in all, allocated at the first denial: recording copies bytes. Requests are decoded,
//! truncated and masked when they are read. Of one that does not fit, the attributes that the answer depends on are recorded first.
//!
//! The ring is not a `BoundedTable`: it has no keys, its bytes are fixed, and its entries are overwritten in place.

mod attributes;
mod groups;

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

use bumpalo::Bump;
use parking_lot::Mutex;

pub use self::groups::{DenialGroup, DenialGroups, MAX_GROUPS};

use self::attributes::{Fitting, Listed};
use self::groups::Groups;
use crate::routing::Refuser;
use crate::secret_values::{SecretValues, mask_beginning};
use crate::snapshot::Snapshot;
use mixer_attribute::request::CheckRequest;
use mixer_attribute::{AttributeBag, OwnedAttributes, Vocabulary};
use mixer_base::log::RateLimit;
use mixer_base::metrics::{Collect, Collected, Family};
use mixer_base::rpc_code;
use mixer_base::secrets::SecretNames;
use mixer_base::shard::{self, ShardedCounters};
use mixer_base::time::Moment;

/// Maximum number of recorded denials.
pub const KEPT: usize = 256;
/// Maximum number of denials recorded per second and worker, and of those whose group has no recent one.
pub const KEPT_A_SECOND: u32 = 20;
/// Bytes of a slot, which holds the message, names and the request, or as much of it as there is room for.
const SLOT: usize = 4096;
/// Maximum number of attributes of a denial; each entry of a map counts.
pub const MAX_ATTRIBUTES: usize = 96;
/// Characters of a value that are left of one for which there is no room, and most bytes of a message.
pub const MAX_VALUE: usize = 200;
/// Most bytes of the name of what refused a request: the full name of a rule, whose parts have at most 1 KiB, is never cut.
const MAX_NAME: usize = 2100;

/// What refused a request.
#[derive(Debug, Clone, Copy)]
pub enum DeniedBy<'r> {
    /// A rule, through one of its handlers or as a default.
    Rule(&'r Refuser),
    /// Exhausted quotas, by their names.
    Quota(&'r str),
    /// A limit of Envoy's descriptors: its name as tools list it, or domain and keys of one that the request brings.
    Limit(&'r str),
    /// The server itself: the request cannot be evaluated, names no namespace, is outside of what is served, or the settings refuse what ends
    /// without a decision.
    Server,
}

/// The kind of a [`DeniedBy`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DenialKind {
    /// A rule.
    Rule,
    /// A quota.
    Quota,
    /// A limit of Envoy's descriptors. The request was no check.
    Limit,
    /// The server.
    Server,
}

impl DenialKind {
    /// For example `rule`.
    pub fn name(self) -> &'static str {
        match self {
            DenialKind::Rule => "rule",
            DenialKind::Quota => "quota",
            DenialKind::Limit => "limit",
            DenialKind::Server => "server",
        }
    }
}

impl<'r> DeniedBy<'r> {
    /// That of an answer.
    pub fn rule(refuser: Option<&'r Refuser>) -> Self {
        refuser.map_or(DeniedBy::Server, DeniedBy::Rule)
    }

    fn kind(self) -> DenialKind {
        match self {
            DeniedBy::Rule(_) => DenialKind::Rule,
            DeniedBy::Quota(_) => DenialKind::Quota,
            DeniedBy::Limit(_) => DenialKind::Limit,
            DeniedBy::Server => DenialKind::Server,
        }
    }

    /// Its parts, which make up its name.
    fn parts(self) -> [&'r str; 3] {
        match self {
            DeniedBy::Rule(refuser) => {
                let key = &refuser.rule().key;
                [&*key.name, &*key.kind, &*key.namespace]
            }
            DeniedBy::Quota(name) | DeniedBy::Limit(name) => [name, "", ""],
            DeniedBy::Server => [""; 3],
        }
    }

    /// Most bytes of its name. Those of limits are chosen by callers.
    fn most(self) -> usize {
        if let DeniedBy::Limit(_) = self { MAX_VALUE } else { MAX_NAME }
    }

    /// The full name of the rule, or the name of the quota or limit; empty for the server. A long one is cut, with a sign.
    fn name(self) -> String {
        match self {
            DeniedBy::Rule(refuser) => cut(&refuser.rule().key.to_string(), self.most()),
            other => cut(other.parts()[0], self.most()),
        }
    }
}

/// A refusal.
#[derive(Debug, Clone, Copy)]
pub struct Refusal<'r> {
    /// Code of `google.rpc.Status`.
    pub code: i32,
    /// Message of the status.
    pub message: &'r str,
    /// What refused the request.
    pub by: DeniedBy<'r>,
    /// Whether the answer is from the check cache.
    pub cached: bool,
}

/// A denied check.
#[derive(Debug, Clone)]
pub struct Denial {
    /// Sequence number, from 1.
    pub id: u64,
    /// Time of the answer.
    pub time: Moment,
    /// Code of `google.rpc.Status`.
    pub code: i32,
    /// Message of the status. One that is too long to be kept ends in `…`.
    pub message: String,
    /// What kind of thing refused the request.
    pub kind: DenialKind,
    /// Its name: the full name of a rule, the names of quotas, the name of a limit; empty for the server. One that is too long to be
    /// kept ends in `…`.
    pub by: String,
    /// Id of the snapshot that was evaluated.
    pub snapshot: u64,
    /// Whether the answer is from the check cache.
    pub cached: bool,
    /// `name` or `name[key]`, and the value as text; secrets are masked. `None` for a request that could not be recorded. Those that the answer
    /// depends on come first where there is no room for all.
    pub attributes: Option<Vec<(String, String)>>,
    /// Those of them whose values are cut, which end in `…`.
    pub cut: Vec<String>,
    /// Those of them whose values are masked, or a part of them.
    pub masked: Vec<String>,
    /// How many attributes there was no room for.
    pub left_out: usize,
}

/// The recent denials of a server.
pub struct Denials {
    counts: ShardedCounters,
    /// One per shard, so that workers under heavy denial do not contend.
    limits: Box<[ShardLimit]>,
    /// One per shard.
    groups: Groups,
    ring: Mutex<Ring>,
}

/// Two cache lines, because adjacent lines are prefetched in pairs.
#[repr(align(128))]
struct ShardLimit {
    all: RateLimit,
    /// Of denials whose group has none that was recorded lately: callers who are refused often leave room for others.
    of_groups: RateLimit,
}

struct Ring {
    next: u64,
    /// Oldest first.
    kept: VecDeque<RecordedDenial>,
    /// One slot each; empty before the first denial.
    bytes: Vec<u8>,
}

#[derive(Clone)]
struct RecordedDenial {
    id: u64,
    time: Moment,
    code: i32,
    snapshot: u64,
    /// What is secret under that snapshot.
    secrets: Arc<SecretNames>,
    cached: bool,
    kind: DenialKind,
    /// Lengths in bytes.
    message: usize,
    by: usize,
    /// Whether the message is longer.
    is_cut: bool,
    /// Length in bytes of the names of what the answer depends on.
    referenced: usize,
    /// Length in bytes; `None` if nothing of it fits.
    request: Option<usize>,
    /// How many attributes are left out, if not all of the request fits.
    left_out: Option<usize>,
}

impl std::fmt::Debug for Denials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Denials").field("total", &self.total()).finish_non_exhaustive()
    }
}

impl Default for Denials {
    fn default() -> Self {
        Self::with_rate(KEPT_A_SECOND)
    }
}

/// Offset of the slot of a denial.
fn slot(id: u64) -> usize {
    usize::try_from(id % KEPT as u64).unwrap_or(0) * SLOT
}

impl ShardLimit {
    fn new(per_second: u32) -> Self {
        Self { all: RateLimit::new(per_second), of_groups: RateLimit::new(per_second) }
    }
}

impl Denials {
    /// Records at most `per_second` denials per second and worker, and as many of groups that have no recent one.
    fn with_rate(per_second: u32) -> Self {
        let ring = Ring { next: 0, kept: VecDeque::new(), bytes: Vec::new() };
        Self {
            counts: ShardedCounters::new(rpc_code::COUNT),
            limits: (0..shard::count()).map(|_| ShardLimit::new(per_second)).collect(),
            groups: Groups::default(),
            ring: Mutex::new(ring),
        }
    }

    /// Counts a denial by a snapshot of a request with these attributes, and records it with the encoded CheckRequest of `request` within the
    /// rate limit. Cost: additions and an uncontended lock; a lock and a copy for recorded ones. Allocates the ring, at the first denial, and
    /// for a group that is not known, and for a recorded one that is larger than its room.
    #[cold]
    pub fn record<R: AsRef<[u8]>>(
        &self,
        refusal: Refusal<'_>,
        snapshot: &Snapshot,
        bag: &AttributeBag<'_>,
        request: impl FnOnce() -> R,
    ) {
        self.counts.add(status_index(refusal.code), 1);
        if let DeniedBy::Rule(refuser) = refusal.by {
            refuser.count();
        }
        let (group, lacks_sample) = self.groups.count(refusal, snapshot, bag);
        let is_recorded = self.limits.get(shard::current()).is_some_and(|limit| {
            limit.all.admit().is_some() || (lacks_sample && limit.of_groups.admit().is_some())
        });
        if is_recorded {
            self.groups.note_sample(group, self.keep(refusal, snapshot, bag, request().as_ref()));
        }
    }

    /// Puts a denial into the ring and returns its id.
    fn keep(&self, refusal: Refusal<'_>, snapshot: &Snapshot, bag: &AttributeBag<'_>, request: &[u8]) -> u64 {
        // The name, without an allocation unless it is cut.
        let mut buffer = [0; MAX_NAME];
        let parts = || refusal.by.parts().into_iter().filter(|part| !part.is_empty()).enumerate();
        let bytes = parts().flat_map(|(at, part)| ".".bytes().take(at).take(1).chain(part.bytes()));
        let whole: usize = parts().map(|(at, part)| at.min(1) + part.len()).sum();
        let shortened;
        let by = if whole > refusal.by.most() {
            shortened = refusal.by.name();
            shortened.as_bytes()
        } else {
            let length = buffer.iter_mut().zip(bytes).map(|(to, byte)| *to = byte).count();
            buffer.get(..length).unwrap_or_default()
        };
        let room = SLOT.saturating_sub(MAX_VALUE + by.len());
        // Where there is room for all, nothing has to come first.
        let referenced = match request.len() <= room && bag.max_len() <= MAX_ATTRIBUTES {
            true => Vec::new(),
            false => attributes::referenced(refusal.by, bag),
        };
        let room = room.saturating_sub(referenced.len());
        let reduced =
            (request.len() > room).then(|| attributes::fitting(bag, &referenced, &snapshot.secrets, room));
        // What is secret in the message is known of the whole request alone, and of a part of a secret it is not known later.
        let (text, is_cut) = match reduced.is_none() && refusal.message.len() <= MAX_VALUE {
            true => {
                let made = SecretValues::made(bag, &snapshot.secrets);
                (SecretValues::masked(made.as_ref(), refusal.message), false)
            }
            false => {
                let shown = mask_beginning(refusal.message, MAX_VALUE, bag, &snapshot.secrets);
                (Cow::Owned(shown.text), shown.goes_on)
            }
        };
        // Masks may have made it longer.
        let message = text.get(..text.floor_char_boundary(MAX_VALUE)).unwrap_or_default().as_bytes();
        let is_cut = is_cut || message.len() < text.len();
        let (request, left_out) = match &reduced {
            None => (Some(request), None),
            Some(Some(Fitting { request, left_out })) => (Some(&**request), Some(*left_out)),
            Some(None) => (None, None),
        };
        let mut ring = self.ring.lock();
        if ring.bytes.is_empty() {
            ring.kept.reserve_exact(KEPT);
            // The kernel allocates these pages when they are first written to.
            ring.bytes = vec![0; KEPT * SLOT];
        }
        ring.next += 1;
        let id = ring.next;
        if ring.kept.len() >= KEPT {
            ring.kept.pop_front();
        }
        let mut rest = ring.bytes.get_mut(slot(id)..slot(id) + SLOT).unwrap_or_default();
        for text in [message, by, &referenced] {
            let (first, after) = rest.split_at_mut(text.len().min(rest.len()));
            first.copy_from_slice(text.get(..first.len()).unwrap_or_default());
            rest = after;
        }
        let request = request.and_then(|request| {
            rest.get_mut(..request.len())?.copy_from_slice(request);
            Some(request.len())
        });
        ring.kept.push_back(RecordedDenial {
            id,
            time: Moment::now(),
            code: refusal.code,
            snapshot: snapshot.id.0,
            secrets: Arc::clone(&snapshot.secrets),
            cached: refusal.cached,
            kind: refusal.by.kind(),
            message: message.len(),
            by: by.len(),
            is_cut,
            referenced: referenced.len(),
            request,
            left_out,
        });
        id
    }

    /// The denials so far by what refused them, by service and by caller.
    pub fn groups(&self) -> DenialGroups {
        self.groups.list()
    }

    /// The recorded denials, newest first, decoded with `vocabulary`.
    pub fn list(&self, vocabulary: &Vocabulary) -> Vec<Denial> {
        let copies: Vec<(RecordedDenial, Vec<u8>)> = {
            let ring = self.ring.lock();
            ring.kept.iter().rev().map(|kept| (kept.clone(), ring.copy(kept))).collect()
        };
        copies.into_iter().map(|(kept, bytes)| kept.read(&bytes, vocabulary)).collect()
    }

    /// The recorded denial with this id.
    pub fn get(&self, id: u64, vocabulary: &Vocabulary) -> Option<Denial> {
        let ring = self.ring.lock();
        let kept = ring.kept.iter().find(|kept| kept.id == id)?.clone();
        let bytes = ring.copy(&kept);
        drop(ring);
        Some(kept.read(&bytes, vocabulary))
    }

    /// All denials so far.
    pub fn total(&self) -> u64 {
        (0..rpc_code::COUNT).map(|index| self.counts.total(index)).sum()
    }

    /// Denials so far by the name of their code; codes without denials are omitted.
    pub fn by_code(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let codes = (0..).zip(0..rpc_code::COUNT);
        let counts = codes.filter_map(|(code, at)| Some((rpc_code::name(code)?, self.counts.total(at))));
        counts.filter(|(_, count)| *count > 0)
    }
}

impl Ring {
    fn copy(&self, kept: &RecordedDenial) -> Vec<u8> {
        let length = kept.message + kept.by + kept.referenced + kept.request.unwrap_or(0);
        self.bytes.get(slot(kept.id)..slot(kept.id) + length).unwrap_or_default().to_vec()
    }
}

impl RecordedDenial {
    fn read(&self, bytes: &[u8], vocabulary: &Vocabulary) -> Denial {
        let (message, rest) = bytes.split_at_checked(self.message).unwrap_or_default();
        let (by, rest) = rest.split_at_checked(self.by).unwrap_or_default();
        let (referenced, request) = rest.split_at_checked(self.referenced).unwrap_or_default();
        let decoded = self.request.and_then(|_| {
            let arena = Bump::new();
            let request = CheckRequest::decode(request, &arena).ok()?;
            let bag = AttributeBag::new(&request.attributes, None, vocabulary, &arena);
            let listed = attributes::list(&bag, &self.secrets, referenced, self.left_out);
            Some((listed, SecretValues::of(&bag, &self.secrets)))
        });
        let (listed, secrets) = decoded.unzip();
        let mut message = secrets.unwrap_or_default().mask(&String::from_utf8_lossy(message));
        if self.is_cut {
            message.push('…');
        }
        let attributes = listed.as_ref().map(|listed| listed.attributes.clone());
        let Listed { cut, masked, left_out, .. } = listed.unwrap_or_default();
        Denial {
            id: self.id,
            time: self.time,
            code: self.code,
            message,
            kind: self.kind,
            by: String::from_utf8_lossy(by).into_owned(),
            snapshot: self.snapshot,
            cached: self.cached,
            attributes,
            cut,
            masked,
            left_out,
        }
    }
}

impl Collect for Denials {
    fn collect(&self, into: &mut Collected) {
        for (code, count) in self.by_code() {
            into.add(Family::CheckDenials, &[code], count as f64);
        }
    }
}

/// Encodes a bag as a CheckRequest, for calls of other APIs.
pub fn request_of(bag: &AttributeBag<'_>) -> Vec<u8> {
    let mut request = Vec::new();
    prost::encoding::bytes::encode(1, &OwnedAttributes::from_bag(bag).to_bytes(0), &mut request);
    request
}

/// Name of a status code.
pub fn status_name(code: i32) -> &'static str {
    rpc_code::name(code).unwrap_or("UNKNOWN")
}

fn status_index(code: i32) -> usize {
    usize::try_from(code).ok().filter(|code| *code < rpc_code::COUNT).unwrap_or(2)
}

/// The text, or its first `most` bytes and a sign that there is more.
fn cut(text: &str, most: usize) -> String {
    match text.len() > most {
        true => format!("{}…", text.get(..text.floor_char_boundary(most)).unwrap_or_default()),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
