//! Recent denied checks, for debugging.
//!
//! Every denial is counted by status code, per shard. A limited number per second and worker is recorded with its encoded request
//! in a ring buffer of [`KEPT`] slots of fixed size, 1 MiB in all, allocated at the first denial: recording copies bytes and
//! allocates nothing. Requests are decoded, truncated and masked when they are read.
//!
//! The ring is not a `BoundedTable`: it has no keys, its bytes are fixed, and its entries are overwritten in place.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::SystemTime;

use bumpalo::Bump;
use parking_lot::Mutex;

use crate::secret_values::SecretValues;
use crate::snapshot::Snapshot;
use mixer_attribute::request::CheckRequest;
use mixer_attribute::text::text;
use mixer_attribute::{AttributeBag, OwnedAttributes, Value, Vocabulary};
use mixer_base::log::RateLimit;
use mixer_base::metrics::{Collect, Collected, Family};
use mixer_base::rpc_code;
use mixer_base::secrets::{SecretNames, mask_value};
use mixer_base::shard::{self, ShardedCounters};

/// Maximum number of recorded denials.
pub const KEPT: usize = 256;
/// Maximum number of denials recorded per second and worker.
pub const KEPT_A_SECOND: u32 = 20;
/// Bytes of a slot, which holds message and request. A request that does not fit is recorded without its attributes.
const SLOT: usize = 4096;
/// Maximum number of attributes of a denial; each entry of a map counts.
const MAX_ATTRIBUTES: usize = 96;
/// Maximum characters of a value, and bytes of a message.
const MAX_VALUE: usize = 200;

/// A denied check.
#[derive(Debug, Clone)]
pub struct Denial {
    /// Sequence number, from 1.
    pub id: u64,
    /// Time of the answer.
    pub time: SystemTime,
    /// Code of `google.rpc.Status`.
    pub code: i32,
    /// Message of the status.
    pub message: String,
    /// Id of the snapshot that was evaluated.
    pub snapshot: u64,
    /// Whether the answer is from the check cache.
    pub cached: bool,
    /// `name` or `name[key]`, and the value as text; secrets are masked. `None` for a request larger than a slot.
    pub attributes: Option<Vec<(String, String)>>,
}

/// The recent denials of a server.
pub struct Denials {
    counts: ShardedCounters,
    /// One per shard, so that workers under heavy denial do not contend.
    limits: Box<[ShardLimit]>,
    ring: Mutex<Ring>,
}

/// Two cache lines, because adjacent lines are prefetched in pairs.
#[repr(align(128))]
struct ShardLimit(RateLimit);

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
    time: SystemTime,
    code: i32,
    snapshot: u64,
    /// What is secret under that snapshot.
    secrets: Arc<SecretNames>,
    cached: bool,
    /// Length in bytes.
    message: usize,
    /// Length in bytes; `None` if it did not fit.
    request: Option<usize>,
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

impl Denials {
    /// Records at most `per_second` denials per second and worker.
    fn with_rate(per_second: u32) -> Self {
        let ring = Ring { next: 0, kept: VecDeque::new(), bytes: Vec::new() };
        Self {
            counts: ShardedCounters::new(rpc_code::COUNT),
            limits: (0..shard::count()).map(|_| ShardLimit(RateLimit::new(per_second))).collect(),
            ring: Mutex::new(ring),
        }
    }

    /// Counts a denial by a snapshot, and records it with the encoded CheckRequest of `request` within the rate limit. Cost: an
    /// addition, and a lock and a copy for recorded ones. Allocates only the ring, at the first denial.
    #[cold]
    pub fn record<R: AsRef<[u8]>>(
        &self,
        code: i32,
        message: &str,
        snapshot: &Snapshot,
        cached: bool,
        request: impl FnOnce() -> R,
    ) {
        self.counts.add(status_index(code), 1);
        let limit = self.limits.get(shard::current());
        if limit.is_none_or(|limit| limit.0.admit().is_none()) {
            return;
        }
        let time = SystemTime::now();
        let request = request();
        let request = request.as_ref();
        let message = message.get(..message.floor_char_boundary(MAX_VALUE)).unwrap_or_default();
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
        let buffer = ring.bytes.get_mut(slot(id)..slot(id) + SLOT).unwrap_or_default();
        let (first, rest) = buffer.split_at_mut(message.len().min(buffer.len()));
        first.copy_from_slice(message.as_bytes().get(..first.len()).unwrap_or_default());
        let fitting = rest.get_mut(..request.len());
        let request = fitting.map(|buffer| {
            buffer.copy_from_slice(request);
            request.len()
        });
        ring.kept.push_back(RecordedDenial {
            id,
            time,
            code,
            snapshot: snapshot.id.0,
            secrets: Arc::clone(&snapshot.secrets),
            cached,
            message: message.len(),
            request,
        });
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
        let length = kept.message + kept.request.unwrap_or(0);
        self.bytes.get(slot(kept.id)..slot(kept.id) + length).unwrap_or_default().to_vec()
    }
}

impl RecordedDenial {
    fn read(&self, bytes: &[u8], vocabulary: &Vocabulary) -> Denial {
        let (message, request) = bytes.split_at_checked(self.message).unwrap_or_default();
        let decoded = self.request.and_then(|_| {
            let arena = Bump::new();
            let request = CheckRequest::decode(request, &arena).ok()?;
            let bag = AttributeBag::new(&request.attributes, None, vocabulary, &arena);
            Some((attributes(&bag, &self.secrets), SecretValues::of(&bag, &self.secrets)))
        });
        let (attributes, secrets) = decoded.unzip();
        Denial {
            id: self.id,
            time: self.time,
            code: self.code,
            message: secrets.unwrap_or_default().mask(&String::from_utf8_lossy(message)),
            snapshot: self.snapshot,
            cached: self.cached,
            attributes,
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

fn truncated(text: &str) -> String {
    match text.char_indices().nth(MAX_VALUE) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// Names and values for display.
fn attributes(bag: &AttributeBag<'_>, secrets: &SecretNames) -> Vec<(String, String)> {
    let mut list = Vec::new();
    for named in bag.all() {
        let Some(value) = named.value else { continue };
        let name = String::from_utf8_lossy(named.name).into_owned();
        match value {
            Value::StringMap(map) => {
                for (key, value) in map.entries {
                    let key = String::from_utf8_lossy(key);
                    let value = String::from_utf8_lossy(value);
                    let shown = if secrets.is_secret(&name) {
                        secrets.mask_value(&name, &value)
                    } else {
                        mask_value(&key, &value)
                    };
                    list.push((format!("{name}[{key}]"), truncated(&shown)));
                }
            }
            value => {
                let shown = truncated(&secrets.mask_value(&name, &text(value).to_string()));
                list.push((name, shown));
            }
        }
        if list.len() >= MAX_ATTRIBUTES {
            break;
        }
    }
    list.truncate(MAX_ATTRIBUTES);
    list.sort();
    list
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::{Registry, SnapshotBuilder, SnapshotId, SnapshotOptions};
    use mixer_attribute::{OwnedValue, ValueType};
    use mixer_base::secrets::MASKED;

    fn vocabulary() -> Vocabulary {
        let mut builder = Vocabulary::builder();
        builder.declare("source.user", ValueType::String);
        builder.declare("request.headers", ValueType::StringMap);
        builder.build()
    }

    /// A snapshot with this number, under which these attributes are secret.
    fn snapshot(id: u64, secrets: &[&str]) -> Snapshot {
        let empty = SnapshotBuilder::new(SnapshotOptions::new(Registry::default())).empty();
        let mut snapshot = Arc::into_inner(empty).unwrap();
        snapshot.id = SnapshotId(id);
        snapshot.secrets = Arc::new(secrets.iter().map(|name| (*name).into()).collect());
        snapshot
    }

    fn request(path: &str) -> Vec<u8> {
        let mut attributes = OwnedAttributes::new();
        attributes.insert("source.user", "ann");
        let headers = OwnedValue::from([(":path", path), ("authorization", "Bearer abc")]);
        attributes.insert("request.headers", headers);
        let mut request = Vec::new();
        prost::encoding::bytes::encode(1, &attributes.to_bytes(0), &mut request);
        request
    }

    #[test]
    fn secrets_are_masked() {
        let denials = Denials::default();
        denials.record(7, "no", &snapshot(3, &[]), false, || request("/x"));
        let kept = denials.list(&vocabulary());
        let first = kept.first().unwrap();
        let expected = [
            ("request.headers[:path]", "/x"),
            ("request.headers[authorization]", MASKED),
            ("source.user", "ann"),
        ];
        assert_eq!(first.attributes, Some(expected.map(|(n, v)| (n.to_owned(), v.to_owned())).to_vec()));
        assert_eq!((first.code, &*first.message, first.snapshot, first.cached), (7, "no", 3, false));
        assert_eq!(denials.get(first.id, &vocabulary()).unwrap().message, "no");
        assert!(denials.get(99, &vocabulary()).is_none());
    }

    /// A handler may repeat in its message what it was given.
    #[test]
    fn secrets_in_the_message_are_masked() {
        let denials = Denials::default();
        denials.record(7, "abc: Bearer abc is not whitelisted", &snapshot(3, &[]), false, || request("/x"));
        let listed = denials.list(&vocabulary());
        assert_eq!(listed.first().unwrap().message, "abc: *** is not whitelisted");
    }

    /// Masked as the snapshot says that decided: a later one may declare nothing.
    #[test]
    fn attributes_that_are_declared_to_be_secret_are_masked() {
        let denials = Denials::default();
        let snapshot = snapshot(3, &["source.user", "request.headers"]);
        denials.record(7, "ann is not whitelisted", &snapshot, false, || request("/x"));
        drop(snapshot);
        let denial = denials.list(&vocabulary()).remove(0);
        let names = ["request.headers[:path]", "request.headers[authorization]", "source.user"];
        let expected = names.map(|name| (name.to_owned(), MASKED.to_owned())).to_vec();
        assert_eq!(denial.attributes, Some(expected));
        denials.record(7, "ann", &self::snapshot(3, &["source.user"]), false, || request("/x"));
        assert_eq!(denials.list(&vocabulary()).remove(0).message, MASKED);
    }

    #[test]
    fn recording_is_rate_limited() {
        let denials = Denials::default();
        let snapshot = snapshot(3, &[]);
        for _ in 0..1001 {
            denials.record(7, "no", &snapshot, false, || request("/x"));
        }
        assert_eq!(denials.total(), 1001);
        assert_eq!(denials.by_code().collect::<Vec<_>>(), [("PERMISSION_DENIED", 1001)]);
        assert!(denials.list(&vocabulary()).len() <= 3 * KEPT_A_SECOND as usize);
    }

    #[test]
    fn the_ring_wraps_around_and_large_requests_are_recorded_without_attributes() {
        let denials = Denials::with_rate(u32::MAX);
        let snapshot = snapshot(1, &[]);
        for number in 0..KEPT + 10 {
            denials.record(16, &format!("denial {number}"), &snapshot, true, || request(&number.to_string()));
        }
        let list = denials.list(&vocabulary());
        assert_eq!(list.len(), KEPT);
        assert_eq!(list.first().unwrap().message, format!("denial {}", KEPT + 9));
        assert_eq!(list.last().unwrap().message, "denial 10");
        let path = list.last().unwrap().attributes.as_ref().unwrap().first().unwrap().1.clone();
        assert_eq!(path, "10");
        denials.record(16, &"ä".repeat(500), &snapshot, true, || request(&"x".repeat(2 * SLOT)));
        let last = denials.list(&vocabulary()).remove(0);
        assert_eq!((last.message.len(), last.attributes), (MAX_VALUE, None));
    }

    #[test]
    fn codes_have_names() {
        assert_eq!(status_name(16), "UNAUTHENTICATED");
        assert_eq!(status_name(-1), "UNKNOWN");
        assert_eq!(status_name(99), "UNKNOWN");
    }
}
