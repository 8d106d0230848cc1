//! A hash map whose versions share unchanged shards.

use std::hash::BuildHasher as _;
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::HashTable;

/// Average number of entries per shard above which the shards are doubled.
const MAX_SHARD_LEN: usize = 48;

/// A part of the entries.
type Shard<V> = HashTable<(Box<[u8]>, V)>;

/// Values by byte string, in reference-counted shards: a change copies one shard.
#[derive(Debug, Clone)]
pub(super) struct Branches<V> {
    /// A power of two of them.
    shards: Vec<Arc<Shard<V>>>,
    len: usize,
    /// Seeded: rules choose the keys.
    hasher: RandomState,
}

impl<V> Default for Branches<V> {
    fn default() -> Self {
        Self { shards: Vec::new(), len: 0, hasher: RandomState::default() }
    }
}

/// The shard of a hash. The table in it uses the lowest and the highest bits.
fn shard_of(hash: u64, shards: usize) -> usize {
    usize::try_from(hash >> 24).unwrap_or(0) & shards.wrapping_sub(1)
}

impl<V: Clone> Branches<V> {
    /// Number of entries.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The value of a key.
    pub(super) fn get(&self, text: &[u8]) -> Option<&V> {
        let hash = self.hasher.hash_one(text);
        let shard = self.shards.get(shard_of(hash, self.shards.len()))?;
        shard.find(hash, |(known, _)| **known == *text).map(|(_, value)| value)
    }

    /// The value of a key, for modification.
    pub(super) fn get_mut(&mut self, text: &[u8]) -> Option<&mut V> {
        let hash = self.hasher.hash_one(text);
        let at = shard_of(hash, self.shards.len());
        let shard = Arc::make_mut(self.shards.get_mut(at)?);
        shard.find_mut(hash, |(known, _)| **known == *text).map(|(_, value)| value)
    }

    /// Adds a key that is not in the map.
    pub(super) fn insert(&mut self, text: Box<[u8]>, value: V) {
        if self.len >= self.shards.len() * MAX_SHARD_LEN {
            self.split();
        }
        let hash = self.hasher.hash_one(&*text);
        let at = shard_of(hash, self.shards.len());
        if let Some(shard) = self.shards.get_mut(at) {
            Arc::make_mut(shard)
                .insert_unique(hash, (text, value), |(known, _)| self.hasher.hash_one(&**known));
            self.len += 1;
        }
    }

    /// Removes a key.
    pub(super) fn remove(&mut self, text: &[u8]) {
        let hash = self.hasher.hash_one(text);
        let at = shard_of(hash, self.shards.len());
        let Some(shard) = self.shards.get_mut(at) else { return };
        if let Ok(found) = Arc::make_mut(shard).find_entry(hash, |(known, _)| **known == *text) {
            found.remove();
            self.len -= 1;
        }
    }

    /// Doubles the number of shards.
    fn split(&mut self) {
        let count = (self.shards.len() * 2).max(1);
        let mut shards: Vec<Shard<V>> = (0..count).map(|_| HashTable::new()).collect();
        for shard in std::mem::take(&mut self.shards) {
            let entries = Arc::try_unwrap(shard).unwrap_or_else(|shared| HashTable::clone(&shared));
            for entry in entries {
                let hash = self.hasher.hash_one(&*entry.0);
                if let Some(shard) = shards.get_mut(shard_of(hash, count)) {
                    shard.insert_unique(hash, entry, |(known, _)| self.hasher.hash_one(&**known));
                }
            }
        }
        self.shards = shards.into_iter().map(Arc::new).collect();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn it_is_a_map_and_versions_do_not_disturb_each_other() {
        let mut map = Branches::default();
        let mut model: HashMap<Vec<u8>, usize> = HashMap::new();
        let mut versions = Vec::new();
        for step in 0..5000_usize {
            let text = format!("text-{}", step * 7919 % 1200).into_bytes();
            match (step % 3, map.get_mut(&text)) {
                (0, Some(value)) => *value = step,
                (1, Some(_)) => map.remove(&text),
                (_, None) => map.insert(text.clone().into(), step),
                _ => continue,
            }
            match map.get(&text) {
                Some(value) => drop(model.insert(text, *value)),
                None => drop(model.remove(&text)),
            }
            if step % 500 == 0 {
                versions.push((map.clone(), model.clone()));
            }
        }
        versions.push((map, model));
        for (map, model) in versions {
            assert_eq!(map.len(), model.len());
            for number in 0..1200 {
                let text = format!("text-{number}").into_bytes();
                assert_eq!(map.get(&text), model.get(&text), "{number}");
            }
        }
    }
}
