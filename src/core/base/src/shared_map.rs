//! A persistent sorted map: versions share unchanged chunks.
//!
//! [`SharedMap`] holds keyed items in reference-counted chunks. A clone increments one reference count per chunk; changing one item
//! of a clone copies one chunk; [`SharedMap::changes`] compares two versions and skips shared chunks. Two configurations that differ
//! in one rule take little more memory than one.

use std::sync::Arc;

/// Maximum items of a chunk: copying one chunk and the list of chunks cost about the same for 100 000 items.
const MAX_CHUNK: usize = 256;
/// Items of a chunk after a bulk build, so that the first insertion does not split it.
const BULK_CHUNK: usize = 192;

/// An item that contains its key.
pub trait Keyed {
    /// The sort key.
    type Key: Ord + ?Sized;
    /// The key, which must not change.
    fn key(&self) -> &Self::Key;
}

impl<T: Keyed + ?Sized> Keyed for Arc<T> {
    type Key = T::Key;

    fn key(&self) -> &Self::Key {
        (**self).key()
    }
}

/// Items sorted by key, one per key.
#[derive(Debug, Clone)]
pub struct SharedMap<T> {
    /// Sorted, none empty.
    chunks: Vec<Arc<Vec<T>>>,
    len: usize,
}

/// The old and the new item of a key, at least one of them.
pub type Changed<'m, T> = (Option<&'m T>, Option<&'m T>);

/// Iterates in key order.
pub type Iter<'m, T> = std::iter::FlatMap<
    std::slice::Iter<'m, Arc<Vec<T>>>,
    std::slice::Iter<'m, T>,
    fn(&'m Arc<Vec<T>>) -> std::slice::Iter<'m, T>,
>;

impl<T> Default for SharedMap<T> {
    fn default() -> Self {
        Self { chunks: Vec::new(), len: 0 }
    }
}

impl<T> SharedMap<T> {
    /// Number of items.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the map is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All items, in key order.
    pub fn iter(&self) -> Iter<'_, T> {
        self.chunks.iter().flat_map(|chunk| chunk.iter())
    }

    /// The item at `index` in key order, from 0. Cost: one step per chunk.
    pub fn nth(&self, mut index: usize) -> Option<&T> {
        for chunk in &self.chunks {
            match chunk.get(index) {
                Some(item) => return Some(item),
                None => index -= chunk.len(),
            }
        }
        None
    }

    /// Number of chunks shared with `other`, and number of chunks.
    #[cfg(test)]
    fn shared_chunks(&self, other: &Self) -> (usize, usize) {
        let theirs: std::collections::HashSet<_> = other.chunks.iter().map(Arc::as_ptr).collect();
        (self.chunks.iter().filter(|chunk| theirs.contains(&Arc::as_ptr(chunk))).count(), self.chunks.len())
    }
}

impl<T: Keyed + Clone> SharedMap<T> {
    /// The item with this key.
    pub fn get(&self, key: &T::Key) -> Option<&T> {
        let chunk = self.chunks.get(self.chunk_of(key)?)?;
        chunk.get(chunk.binary_search_by(|item| item.key().cmp(key)).ok()?)
    }

    /// Whether there is an item with this key.
    pub fn contains_key(&self, key: &T::Key) -> bool {
        self.get(key).is_some()
    }

    /// The items before and after a key, which may be absent.
    pub fn neighbours(&self, key: &T::Key) -> (Option<&T>, Option<&T>) {
        let Some(at) = self.chunk_of(key) else { return (None, self.iter().next()) };
        let Some(chunk) = self.chunks.get(at) else { return (None, None) };
        let (before, after) = match chunk.binary_search_by(|item| item.key().cmp(key)) {
            Ok(here) => (here, here + 1),
            Err(here) => (here, here),
        };
        let before = match before.checked_sub(1) {
            Some(here) => chunk.get(here),
            None => at.checked_sub(1).and_then(|at| self.chunks.get(at)).and_then(|chunk| chunk.last()),
        };
        (before, chunk.get(after).or_else(|| self.chunks.get(at + 1).and_then(|chunk| chunk.first())))
    }

    /// Inserts an item and returns the previous item with its key. Copies the chunk if it is shared.
    pub fn put(&mut self, item: T) -> Option<T> {
        let Some(at) = self.chunk_of(item.key()) else {
            // The smallest key.
            match self.chunks.first_mut().filter(|chunk| chunk.len() < MAX_CHUNK) {
                Some(first) => Arc::make_mut(first).insert(0, item),
                None => self.chunks.insert(0, Arc::new(vec![item])),
            }
            self.len += 1;
            return None;
        };
        let chunk = self.chunks.get_mut(at)?;
        let here = match chunk.binary_search_by(|other| other.key().cmp(item.key())) {
            Ok(here) => {
                let old = Arc::make_mut(chunk).get_mut(here)?;
                return Some(std::mem::replace(old, item));
            }
            Err(here) => here,
        };
        self.len += 1;
        if chunk.len() < MAX_CHUNK {
            Arc::make_mut(chunk).insert(here, item);
        } else if here == MAX_CHUNK {
            self.chunks.insert(at + 1, Arc::new(vec![item]));
        } else {
            let items = Arc::make_mut(chunk);
            let mut upper = items.split_off(MAX_CHUNK / 2);
            match here.checked_sub(MAX_CHUNK / 2) {
                Some(here) => upper.insert(here, item),
                None => items.insert(here, item),
            }
            self.chunks.insert(at + 1, Arc::new(upper));
        }
        None
    }

    /// Removes an item.
    pub fn remove(&mut self, key: &T::Key) -> Option<T> {
        let at = self.chunk_of(key)?;
        let chunk = self.chunks.get_mut(at)?;
        let here = chunk.binary_search_by(|item| item.key().cmp(key)).ok()?;
        self.len -= 1;
        let removed = Arc::make_mut(chunk).remove(here);
        let left = chunk.len();
        if left == 0 {
            self.chunks.remove(at);
        } else if left < MAX_CHUNK / 4
            && let Some(next) =
                self.chunks.get(at + 1).filter(|next| next.len() + left <= MAX_CHUNK / 2).cloned()
        {
            self.chunks.remove(at + 1);
            if let Some(chunk) = self.chunks.get_mut(at) {
                Arc::make_mut(chunk).extend(next.iter().cloned());
            }
        }
        Some(removed)
    }

    /// The differences between `self` and `newer`, in key order; items for which `same` holds are equal. Cost: one step per shared
    /// chunk and one per item of the other chunks.
    pub fn changes<'m>(&'m self, newer: &'m Self, same: impl Fn(&T, &T) -> bool) -> Vec<Changed<'m, T>> {
        let mut changes = Vec::new();
        let (mut old, mut new) = (Cursor::of(self), Cursor::of(newer));
        loop {
            match (old.item(), new.item()) {
                (None, None) => return changes,
                (Some(_), Some(_)) if old.at_same_chunk(&new) => {
                    old.skip_chunk();
                    new.skip_chunk();
                }
                (Some(a), Some(b)) => match a.key().cmp(b.key()) {
                    std::cmp::Ordering::Less => changes.push((old.step(), None)),
                    std::cmp::Ordering::Greater => changes.push((None, new.step())),
                    std::cmp::Ordering::Equal => {
                        if !same(a, b) {
                            changes.push((Some(a), Some(b)));
                        }
                        old.step();
                        new.step();
                    }
                },
                (Some(_), None) => changes.push((old.step(), None)),
                (None, Some(_)) => changes.push((None, new.step())),
            }
        }
    }

    /// The chunk that contains a key or would contain it; `None` for a key before the first chunk.
    fn chunk_of(&self, key: &T::Key) -> Option<usize> {
        self.chunks
            .partition_point(|chunk| chunk.first().is_some_and(|first| first.key() <= key))
            .checked_sub(1)
    }
}

/// A position in a map.
struct Cursor<'m, T> {
    chunks: &'m [Arc<Vec<T>>],
    at: usize,
}

impl<'m, T> Cursor<'m, T> {
    fn of(map: &'m SharedMap<T>) -> Self {
        Self { chunks: &map.chunks, at: 0 }
    }

    fn item(&self) -> Option<&'m T> {
        self.chunks.first()?.get(self.at)
    }

    fn step(&mut self) -> Option<&'m T> {
        let item = self.item();
        self.at += 1;
        if self.chunks.first().is_some_and(|chunk| self.at >= chunk.len()) {
            self.skip_chunk();
        }
        item
    }

    fn skip_chunk(&mut self) {
        self.chunks = self.chunks.get(1..).unwrap_or_default();
        self.at = 0;
    }

    /// Whether both are at the start of the same chunk.
    fn at_same_chunk(&self, other: &Self) -> bool {
        let same = |(a, b): (&Arc<Vec<T>>, &Arc<Vec<T>>)| Arc::ptr_eq(a, b);
        self.at == 0 && other.at == 0 && self.chunks.first().zip(other.chunks.first()).is_some_and(same)
    }
}

impl<'m, T> IntoIterator for &'m SharedMap<T> {
    type Item = &'m T;
    type IntoIter = Iter<'m, T>;

    fn into_iter(self) -> Iter<'m, T> {
        self.iter()
    }
}

/// The last of several items with the same key wins.
impl<T: Keyed + Clone> FromIterator<T> for SharedMap<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let mut items: Vec<T> = items.into_iter().collect();
        if !items.is_sorted_by(|a, b| a.key() < b.key()) {
            items.reverse();
            items.sort_by(|a, b| a.key().cmp(b.key()));
            items.dedup_by(|later, first| later.key() == first.key());
        }
        let len = items.len();
        let mut chunks = Vec::with_capacity(len.div_ceil(BULK_CHUNK));
        let mut items = items.into_iter();
        loop {
            let chunk: Vec<T> = items.by_ref().take(BULK_CHUNK).collect();
            if chunk.is_empty() {
                return Self { chunks, len };
            }
            chunks.push(Arc::new(chunk));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    impl Keyed for (u32, u32) {
        type Key = u32;
        fn key(&self) -> &u32 {
            &self.0
        }
    }

    fn items(map: &SharedMap<(u32, u32)>) -> Vec<(u32, u32)> {
        map.iter().copied().collect()
    }

    #[test]
    fn one_change_copies_one_chunk() {
        let before: SharedMap<(u32, u32)> = (0..100_000).map(|n| (n, 0)).collect();
        let mut after = before.clone();
        assert_eq!(after.put((70_001, 1)), Some((70_001, 0)));
        let (shared, all) = after.shared_chunks(&before);
        assert_eq!((shared, before.get(&70_001)), (all - 1, Some(&(70_001, 0))));
        let changes = before.changes(&after, |a, b| a == b);
        assert_eq!(changes, [(Some(&(70_001, 0)), Some(&(70_001, 1)))]);
    }

    #[test]
    fn the_last_of_equal_keys_wins() {
        let map: SharedMap<(u32, u32)> = [(2, 0), (1, 0), (2, 1), (1, 1), (2, 2)].into_iter().collect();
        assert_eq!(items(&map), [(1, 1), (2, 2)]);
        assert_eq!((map.nth(1), map.nth(2)), (Some(&(2, 2)), None));
    }

    proptest::proptest! {
        #[test]
        fn it_is_a_sorted_map(
            first in proptest::collection::vec((0u32..3000, 0u32..4), 0..2000),
            edits in proptest::collection::vec((0u32..3000, 0u32..4, 0u32..3), 0..1500)
        ) {
            let before: SharedMap<(u32, u32)> = first.iter().copied().collect();
            let model_before: BTreeMap<u32, u32> = first.into_iter().collect();
            let (mut map, mut model) = (before.clone(), model_before.clone());
            for (key, value, action) in edits {
                match action {
                    0 => {
                        proptest::prop_assert_eq!(map.remove(&key).map(|i| i.1), model.remove(&key));
                    }
                    _ => {
                        proptest::prop_assert_eq!(map.put((key, value)).map(|i| i.1), model.insert(key, value));
                    }
                }
                let below = model.range(..key).next_back().map(|(k, v)| (*k, *v));
                let above = model.range(key + 1..).next().map(|(k, v)| (*k, *v));
                let (before, after) = map.neighbours(&key);
                proptest::prop_assert_eq!((before.copied(), after.copied()), (below, above));
            }
            proptest::prop_assert_eq!(items(&map), model.iter().map(|(k, v)| (*k, *v)).collect::<Vec<_>>());
            proptest::prop_assert_eq!(map.len(), model.len());
            proptest::prop_assert_eq!(items(&before), model_before.iter().map(|(k, v)| (*k, *v)).collect::<Vec<_>>());
            let mut patched = model_before.clone();
            for (old, new) in before.changes(&map, |a, b| a == b) {
                proptest::prop_assert_ne!(old, new);
                match (old, new) {
                    (_, Some((key, value))) => drop(patched.insert(*key, *value)),
                    (Some((key, _)), None) => drop(patched.remove(key)),
                    (None, None) => {}
                }
            }
            proptest::prop_assert_eq!(patched, model);
        }
    }
}
