//! A hash table with a budget of bytes: what a table holds under attack is bounded whatever the length of its keys.
//!
//! Entries are queued by last use, so that eviction takes constant time. Each queue should have entries of about the same
//! lifetime: then its oldest entry expires first. To evict, a table inspects the oldest entry of each queue and removes an
//! expired one, or else the one with the lowest [`eviction_rank`](Bounded::eviction_rank). Every insertion also removes up to two
//! expired entries.
//!
//! Unlike a cache with an admission policy such as `quick_cache`, a table always admits a new entry, never evicts a live entry
//! while an expired one is at the head of a queue, and can refuse instead of evicting.

use std::borrow::Cow;
use std::sync::Arc;

use hashbrown::HashTable;

use crate::budget::Account;

/// Longest key that [`stored_key`] leaves as it is, in bytes.
pub const MAX_KEY_BYTES: usize = 128;

/// BLAKE3 of a key that is too long to be stored. A client cannot find two keys with one digest, and a key of a megabyte takes a fifth of the
/// time of SHA-256.
pub fn key_digest(key: &[u8]) -> [u8; 32] {
    *blake3::hash(key).as_bytes()
}

/// The form in which a table stores a key that a client chose: the key itself, or its digest if it is longer than [`MAX_KEY_BYTES`]. A client
/// cannot evict other keys by their length. Different keys have different forms: a digest is padded to a length that no stored key has.
pub fn stored_key(key: &[u8]) -> Cow<'_, [u8]> {
    if key.len() <= MAX_KEY_BYTES {
        return Cow::Borrowed(key);
    }
    let mut stored = key_digest(key).to_vec();
    stored.resize(MAX_KEY_BYTES + 1, 0);
    Cow::Owned(stored)
}

/// An entry of a [`BoundedTable`]: a value with its key.
pub trait Bounded {
    /// Number of queues.
    const QUEUES: usize = 1;

    /// Bytes that the entry owns on the heap.
    fn heap_bytes(&self) -> usize;

    /// Index of its queue, below [`QUEUES`](Self::QUEUES). Changes only in [`BoundedTable::modify`].
    fn queue(&self) -> usize {
        0
    }

    /// Whether the entry has expired at `now`, in the caller's unit of time.
    fn is_expired(&self, now: u64) -> bool {
        let _ = now;
        false
    }

    /// Of the oldest live entries of all queues, the one with the lowest rank is evicted.
    fn eviction_rank(&self) -> u64 {
        0
    }
}

impl<T: Bounded> Bounded for Arc<T> {
    const QUEUES: usize = T::QUEUES;

    fn heap_bytes(&self) -> usize {
        // With both reference counts.
        size_of::<T>() + 2 * size_of::<usize>() + T::heap_bytes(self)
    }

    fn queue(&self) -> usize {
        T::queue(self)
    }

    fn is_expired(&self, now: u64) -> bool {
        T::is_expired(self, now)
    }

    fn eviction_rank(&self) -> u64 {
        T::eviction_rank(self)
    }
}

/// What a full table does with a new entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenFull {
    /// Removes other entries.
    Evict,
    /// Refuses it unless expired entries make room.
    Refuse,
}

/// The effect of [`BoundedTable::modify`] on an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Modified {
    /// Its size, queue and age are unchanged.
    InPlace,
    /// It was used: it becomes the newest of its queue.
    Used,
    /// The entry is obsolete: it is removed.
    Removed,
}

/// Entries found by hash, within a budget of bytes. The caller hashes: tables are often shards of one structure, and the same
/// hash selects the shard.
///
/// The budget covers slots, index and what entries own on the heap, with the room that vectors and allocators keep spare.
#[derive(Debug)]
pub struct BoundedTable<T> {
    /// Positions in `slots`.
    index: HashTable<u32>,
    /// Without gaps: the last slot moves into that of a removed entry.
    slots: Vec<Slot<T>>,
    queues: Vec<Queue>,
    bytes: usize,
    budget: usize,
    /// Where it acquires its bytes, if several tables share a budget.
    account: Option<Arc<Account>>,
    when_full: WhenFull,
    evicted: u64,
}

#[derive(Debug)]
struct Slot<T> {
    hash: u64,
    /// The next older entry of the queue.
    older: u32,
    /// The next newer entry of the queue.
    newer: u32,
    value: T,
}

/// The ends of a list through the slots.
#[derive(Debug, Clone, Copy)]
struct Queue {
    oldest: u32,
    newest: u32,
}

/// No slot.
const NONE: u32 = u32::MAX;
/// Expired entries that an insertion removes. More than one, so that a table shrinks after a burst.
const EXPIRED_PER_INSERTION: usize = 2;
/// Slots below which a table keeps its memory.
const LEAST_CAPACITY: usize = 1024;

impl<T> Drop for BoundedTable<T> {
    fn drop(&mut self) {
        if let Some(account) = &self.account {
            account.release(self.bytes);
        }
    }
}

impl<T: Bounded> BoundedTable<T> {
    /// Bytes of an entry besides what it owns on the heap: its slot, its position and control byte in the index, twice because both
    /// grow by doubling, and what the allocator adds to its key.
    pub const ENTRY_BYTES: usize = 2 * (size_of::<Slot<T>>() + size_of::<u32>() + 1) + 16;

    /// An empty table with a budget of bytes of its own.
    pub fn new(budget: usize, when_full: WhenFull) -> Self {
        Self::with(budget, None, when_full)
    }

    /// An empty table that acquires its bytes from an account.
    pub fn within(account: Arc<Account>, when_full: WhenFull) -> Self {
        Self::with(usize::MAX, Some(account), when_full)
    }

    fn with(budget: usize, account: Option<Arc<Account>>, when_full: WhenFull) -> Self {
        Self {
            index: HashTable::new(),
            slots: Vec::new(),
            queues: Vec::new(),
            bytes: 0,
            budget,
            account,
            when_full,
            evicted: 0,
        }
    }

    /// Acquires bytes from budget and account, if both have them.
    fn acquire(&mut self, bytes: usize) -> bool {
        let fits = self.bytes.checked_add(bytes).is_some_and(|sum| sum <= self.budget);
        let acquired = fits && self.account.as_ref().is_none_or(|account| account.acquire(bytes));
        self.bytes += if acquired { bytes } else { 0 };
        acquired
    }

    fn release(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        if let Some(account) = &self.account {
            account.release(bytes);
        }
    }

    /// Whether an entry of this size would fit into an empty table.
    fn can_hold(&self, bytes: usize) -> bool {
        bytes <= self.budget && self.account.as_ref().is_none_or(|account| bytes <= account.share().limit())
    }

    /// Changes the budget. Entries above it stay until the next insertion.
    pub fn set_budget(&mut self, budget: usize) {
        self.budget = budget;
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Bytes that count against the budget.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Live entries that were evicted so far.
    pub fn evicted(&self) -> u64 {
        self.evicted
    }

    /// All entries, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().map(|slot| &slot.value)
    }

    /// The entry with this hash for which `is_key` holds.
    pub fn find(&self, hash: u64, is_key: impl Fn(&T) -> bool) -> Option<&T> {
        self.slot(self.position(hash, is_key)?).map(|slot| &slot.value)
    }

    /// Changes an entry; `None` if there is none. An entry that has grown evicts others, never itself.
    pub fn modify<R>(
        &mut self,
        hash: u64,
        is_key: impl Fn(&T) -> bool,
        now: u64,
        change: impl FnOnce(&mut T) -> (Modified, R),
    ) -> Option<R> {
        let at = self.position(hash, is_key)?;
        let slot = self.slot_mut(at)?;
        let (queue, before) = (slot.value.queue(), slot.value.heap_bytes());
        let (modified, result) = change(&mut slot.value);
        if modified == Modified::InPlace {
            debug_assert_eq!((queue, before), (slot.value.queue(), slot.value.heap_bytes()));
            return Some(result);
        }
        let after = slot.value.heap_bytes();
        self.unlink(at, queue);
        self.link_newest(at);
        let grown = after.saturating_sub(before);
        self.release(before.saturating_sub(after));
        match modified {
            Modified::Removed => {
                self.overdraw(grown);
                self.remove_at(at);
            }
            _ if grown > 0 => self.grow(at, grown, now),
            _ => {}
        }
        Some(result)
    }

    /// Inserts an entry whose key is not in the table. Returns false if the table refuses entries and is full, or if the entry
    /// alone exceeds the budget.
    pub fn insert(&mut self, hash: u64, value: T, now: u64) -> bool {
        self.try_insert(hash, value, now).is_ok()
    }

    /// As [`insert`](Self::insert). Errors: the entry, if it is not inserted.
    pub fn try_insert(&mut self, hash: u64, value: T, now: u64) -> Result<(), T> {
        for _ in 0..EXPIRED_PER_INSERTION {
            if !self.remove_expired(now) {
                break;
            }
        }
        let bytes = Self::ENTRY_BYTES + value.heap_bytes();
        while !self.acquire(bytes) {
            let has_made_room = match self.when_full {
                WhenFull::Refuse => self.remove_expired(now),
                WhenFull::Evict => self.can_hold(bytes) && self.evict(now, NONE),
            };
            if !has_made_room {
                return Err(value);
            }
        }
        let Some(at) = u32::try_from(self.slots.len()).ok().filter(|at| *at != NONE) else {
            self.release(bytes);
            return Err(value);
        };
        let slots = &mut self.slots;
        slots.push(Slot { hash, older: NONE, newer: NONE, value });
        let hash_of = |at: &u32| slots.get(*at as usize).map_or(0, |slot| slot.hash);
        self.index.insert_unique(hash, at, hash_of);
        self.link_newest(at);
        Ok(())
    }

    /// Removes and returns the entry that would be evicted next: the caller has to do something with it.
    pub fn take_victim(&mut self, now: u64) -> Option<T> {
        self.remove_at(self.victim(now, NONE)?)
    }

    /// Removes an expired entry, or else evicts the one with the lowest rank. False if there is none.
    pub fn evict_one(&mut self, now: u64) -> bool {
        self.evict(now, NONE)
    }

    /// Removes an entry.
    pub fn remove(&mut self, hash: u64, is_key: impl Fn(&T) -> bool) -> Option<T> {
        let at = self.position(hash, is_key)?;
        self.remove_at(at)
    }

    fn position(&self, hash: u64, is_key: impl Fn(&T) -> bool) -> Option<u32> {
        let is_key = |at: &u32| self.slot(*at).is_some_and(|slot| slot.hash == hash && is_key(&slot.value));
        self.index.find(hash, is_key).copied()
    }

    fn slot(&self, at: u32) -> Option<&Slot<T>> {
        self.slots.get(at as usize)
    }

    fn slot_mut(&mut self, at: u32) -> Option<&mut Slot<T>> {
        self.slots.get_mut(at as usize)
    }

    /// The oldest entry of each queue.
    fn oldest(&self) -> impl Iterator<Item = (u32, &T)> {
        let slot = |queue: &Queue| Some((queue.oldest, &self.slot(queue.oldest)?.value));
        self.queues.iter().filter_map(slot)
    }

    fn remove_expired(&mut self, now: u64) -> bool {
        let expired = self.oldest().find(|(_, value)| value.is_expired(now)).map(|(at, _)| at);
        expired.is_some_and(|at| self.remove_at(at).is_some())
    }

    /// Acquires `bytes` for the entry at `kept`, which has grown. Evicts others until there is room; without others, the budget is exceeded.
    fn grow(&mut self, kept: u32, bytes: usize, now: u64) {
        let mut kept = kept;
        while !self.acquire(bytes) {
            let last = u32::try_from(self.slots.len() - 1).unwrap_or(NONE);
            let Some(victim) = self.victim(now, kept) else { return self.overdraw(bytes) };
            self.evict_at(victim, now);
            if kept == last {
                kept = victim;
            }
        }
    }

    /// Counts bytes that exist already.
    fn overdraw(&mut self, bytes: usize) {
        self.bytes += bytes;
        if let Some(account) = &self.account {
            account.overdraw(bytes);
        }
    }

    fn evict(&mut self, now: u64, kept: u32) -> bool {
        self.victim(now, kept).is_some_and(|victim| self.evict_at(victim, now))
    }

    /// An expired entry, or else the one with the lowest rank, except the one at `kept`.
    fn victim(&self, now: u64, kept: u32) -> Option<u32> {
        let others = || self.oldest().filter(|(at, _)| *at != kept);
        let expired = others().find(|(_, value)| value.is_expired(now));
        expired.or_else(|| others().min_by_key(|(_, value)| value.eviction_rank())).map(|(at, _)| at)
    }

    fn evict_at(&mut self, at: u32, now: u64) -> bool {
        let removed = self.remove_at(at);
        self.evicted += u64::from(removed.as_ref().is_some_and(|value| !value.is_expired(now)));
        removed.is_some()
    }

    fn remove_at(&mut self, at: u32) -> Option<T> {
        let (hash, queue) = self.slot(at).map(|slot| (slot.hash, slot.value.queue()))?;
        self.unlink(at, queue);
        if let Ok(position) = self.index.find_entry(hash, |other| *other == at) {
            position.remove();
        }
        let last = u32::try_from(self.slots.len() - 1).unwrap_or(NONE);
        if at != last {
            self.rename(last, at);
        }
        let removed = self.slots.swap_remove(at as usize);
        self.release(Self::ENTRY_BYTES + removed.value.heap_bytes());
        self.shrink();
        Some(removed.value)
    }

    /// Redirects all references from the slot `from` to `to`.
    fn rename(&mut self, from: u32, to: u32) {
        let Some(slot) = self.slot(from) else { return };
        let (hash, older, newer, queue) = (slot.hash, slot.older, slot.newer, slot.value.queue());
        if let Some(position) = self.index.find_mut(hash, |at| *at == from) {
            *position = to;
        }
        self.point_at(older, newer, queue, to, to);
    }

    /// Frees memory after most entries have been removed; amortised over these removals.
    fn shrink(&mut self) {
        let capacity = self.slots.capacity();
        if capacity > LEAST_CAPACITY && self.slots.len() < capacity / 4 {
            let slots = &mut self.slots;
            slots.shrink_to(capacity / 2);
            self.index.shrink_to(capacity / 2, |at| slots.get(*at as usize).map_or(0, |slot| slot.hash));
        }
    }

    /// Removes a slot from its queue.
    fn unlink(&mut self, at: u32, queue: usize) {
        if let Some(slot) = self.slot_mut(at) {
            let (older, newer) = (slot.older, slot.newer);
            self.point_at(older, newer, queue, newer, older);
        }
    }

    /// Redirects the neighbours of a slot, or the ends of its queue.
    fn point_at(&mut self, older: u32, newer: u32, queue: usize, from_older: u32, from_newer: u32) {
        match self.slot_mut(older) {
            Some(slot) => slot.newer = from_older,
            None => {
                if let Some(queue) = self.queues.get_mut(queue) {
                    queue.oldest = from_older;
                }
            }
        }
        match self.slot_mut(newer) {
            Some(slot) => slot.older = from_newer,
            None => {
                if let Some(queue) = self.queues.get_mut(queue) {
                    queue.newest = from_newer;
                }
            }
        }
    }

    /// Appends a slot to its queue.
    fn link_newest(&mut self, at: u32) {
        let Some(queue) = self.slot(at).map(|slot| slot.value.queue()) else { return };
        debug_assert!(queue < T::QUEUES);
        if self.queues.len() <= queue {
            self.queues.resize(queue + 1, Queue { oldest: NONE, newest: NONE });
        }
        let Some(queue) = self.queues.get_mut(queue) else { return };
        let older = std::mem::replace(&mut queue.newest, at);
        if older == NONE {
            queue.oldest = at;
        }
        if let Some(slot) = self.slot_mut(older) {
            slot.newer = at;
        }
        if let Some(slot) = self.slot_mut(at) {
            (slot.older, slot.newer) = (older, NONE);
        }
    }
}

#[cfg(test)]
mod tests;
