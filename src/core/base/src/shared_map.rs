//! A persistent sorted map: versions share unchanged chunks.
//!
//! [`SharedMap`] holds keyed items in reference-counted chunks, and those in reference-counted groups. A clone increments one reference count
//! per group, of which there is one for about 18 000 items; changing one item of a clone copies one chunk and the list of chunks of one
//! group; [`SharedMap::changes`] compares two versions and skips shared groups and chunks. Two configurations that differ in one rule take little
//! more memory than one, and an edit costs about the same in a large map as in a small one.

use std::sync::Arc;

/// Maximum items of a chunk.
const MAX_CHUNK: usize = 256;
/// Items of a chunk after a bulk build, so that the first insertion does not split it.
const BULK_CHUNK: usize = 192;
/// Maximum chunks of a group: copying a chunk and the list of chunks of a group cost about the same.
const MAX_GROUP: usize = 128;
/// Chunks of a group after a bulk build.
const BULK_GROUP: usize = 96;

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

/// Items in order; never empty.
type Chunk<T> = Arc<Vec<T>>;
/// Chunks in order; never empty.
type Group<T> = Arc<Vec<Chunk<T>>>;

/// Items sorted by key, one per key.
#[derive(Debug, Clone)]
pub struct SharedMap<T> {
    /// Sorted.
    groups: Vec<Group<T>>,
    len: usize,
}

/// The old and the new item of a key, at least one of them.
pub type Changed<'m, T> = (Option<&'m T>, Option<&'m T>);

/// Iterates over chunks in order.
type Chunks<'m, T> = std::iter::FlatMap<
    std::slice::Iter<'m, Group<T>>,
    std::slice::Iter<'m, Chunk<T>>,
    fn(&'m Group<T>) -> std::slice::Iter<'m, Chunk<T>>,
>;

/// Iterates in key order.
pub type Iter<'m, T> =
    std::iter::FlatMap<Chunks<'m, T>, std::slice::Iter<'m, T>, fn(&'m Chunk<T>) -> std::slice::Iter<'m, T>>;

impl<T> Default for SharedMap<T> {
    fn default() -> Self {
        Self { groups: Vec::new(), len: 0 }
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

    fn chunks(&self) -> Chunks<'_, T> {
        self.groups.iter().flat_map(|group| group.iter())
    }

    /// All items, in key order.
    pub fn iter(&self) -> Iter<'_, T> {
        self.chunks().flat_map(|chunk| chunk.iter())
    }

    /// The item at `index` in key order, from 0. Cost: one step per chunk.
    pub fn nth(&self, mut index: usize) -> Option<&T> {
        for chunk in self.chunks() {
            match chunk.get(index) {
                Some(item) => return Some(item),
                None => index -= chunk.len(),
            }
        }
        None
    }

    /// What a clone of `other` and the edits that made this map of it had to copy: references of groups and of chunks, and items.
    #[cfg(test)]
    fn copied_from(&self, other: &Self) -> usize {
        let theirs: std::collections::HashSet<_> = other.groups.iter().map(Arc::as_ptr).collect();
        let their_chunks: std::collections::HashSet<_> = other.chunks().map(Arc::as_ptr).collect();
        let groups = self.groups.iter().filter(|group| !theirs.contains(&Arc::as_ptr(group)));
        let of_groups: usize = groups.map(|group| group.len()).sum();
        let chunks = self.chunks().filter(|chunk| !their_chunks.contains(&Arc::as_ptr(chunk)));
        self.groups.len() + of_groups + chunks.map(|chunk| chunk.len()).sum::<usize>()
    }

    /// Number of chunks shared with `other`, and number of chunks.
    #[cfg(test)]
    fn shared_chunks(&self, other: &Self) -> (usize, usize) {
        let theirs: std::collections::HashSet<_> = other.chunks().map(Arc::as_ptr).collect();
        (self.chunks().filter(|chunk| theirs.contains(&Arc::as_ptr(chunk))).count(), self.chunks().count())
    }
}

impl<T: Keyed + Clone> SharedMap<T> {
    /// The item with this key.
    pub fn get(&self, key: &T::Key) -> Option<&T> {
        let (group, chunk) = self.place_of(key)?;
        let chunk = self.groups.get(group)?.get(chunk)?;
        chunk.get(chunk.binary_search_by(|item| item.key().cmp(key)).ok()?)
    }

    /// Whether there is an item with this key.
    pub fn contains_key(&self, key: &T::Key) -> bool {
        self.get(key).is_some()
    }

    /// The items before and after a key, which may be absent.
    pub fn neighbours(&self, key: &T::Key) -> (Option<&T>, Option<&T>) {
        let Some((group, chunk)) = self.place_of(key) else { return (None, self.iter().next()) };
        let of_group = |at: usize| self.groups.get(at).map(|group| group.as_slice());
        let Some(chunks) = of_group(group) else { return (None, None) };
        let Some(items) = chunks.get(chunk) else { return (None, None) };
        let (before, after) = match items.binary_search_by(|item| item.key().cmp(key)) {
            Ok(here) => (here, here + 1),
            Err(here) => (here, here),
        };
        let previous_chunk = || match chunk.checked_sub(1) {
            Some(at) => chunks.get(at),
            None => group.checked_sub(1).and_then(of_group).and_then(|chunks| chunks.last()),
        };
        let next_chunk =
            || chunks.get(chunk + 1).or_else(|| of_group(group + 1).and_then(|next| next.first()));
        let before = match before.checked_sub(1) {
            Some(here) => items.get(here),
            None => previous_chunk().and_then(|chunk| chunk.last()),
        };
        (before, items.get(after).or_else(|| next_chunk().and_then(|chunk| chunk.first())))
    }

    /// Inserts an item and returns the previous item with its key. Copies the chunk and the list of chunks of its group if they are shared.
    pub fn put(&mut self, item: T) -> Option<T> {
        let Some((group, at)) = self.place_of(item.key()) else {
            self.put_first(item);
            return None;
        };
        let chunks = Arc::make_mut(self.groups.get_mut(group)?);
        let chunk = chunks.get_mut(at)?;
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
            chunks.insert(at + 1, Arc::new(vec![item]));
        } else {
            let items = Arc::make_mut(chunk);
            let mut upper = items.split_off(MAX_CHUNK / 2);
            match here.checked_sub(MAX_CHUNK / 2) {
                Some(here) => upper.insert(here, item),
                None => items.insert(here, item),
            }
            chunks.insert(at + 1, Arc::new(upper));
        }
        self.split_group(group);
        None
    }

    /// Inserts an item that is before all others.
    fn put_first(&mut self, item: T) {
        self.len += 1;
        let Some(group) = self.groups.first_mut() else {
            self.groups.push(Arc::new(vec![Arc::new(vec![item])]));
            return;
        };
        let chunks = Arc::make_mut(group);
        match chunks.first_mut().filter(|chunk| chunk.len() < MAX_CHUNK) {
            Some(first) => Arc::make_mut(first).insert(0, item),
            None => chunks.insert(0, Arc::new(vec![item])),
        }
        self.split_group(0);
    }

    /// Divides a group that has become too large.
    fn split_group(&mut self, at: usize) {
        let Some(group) = self.groups.get_mut(at).filter(|group| group.len() > MAX_GROUP) else { return };
        let upper = Arc::make_mut(group).split_off(MAX_GROUP / 2);
        self.groups.insert(at + 1, Arc::new(upper));
    }

    /// Removes an item.
    pub fn remove(&mut self, key: &T::Key) -> Option<T> {
        let (group, at) = self.place_of(key)?;
        let chunk = self.groups.get(group)?.get(at)?;
        // Nothing is copied in vain.
        let here = chunk.binary_search_by(|item| item.key().cmp(key)).ok()?;
        let chunks = Arc::make_mut(self.groups.get_mut(group)?);
        let chunk = chunks.get_mut(at)?;
        self.len -= 1;
        let removed = Arc::make_mut(chunk).remove(here);
        let left = chunk.len();
        if left == 0 {
            chunks.remove(at);
        } else if left < MAX_CHUNK / 4
            && let Some(next) = chunks.get(at + 1).filter(|next| next.len() + left <= MAX_CHUNK / 2).cloned()
        {
            chunks.remove(at + 1);
            if let Some(chunk) = chunks.get_mut(at) {
                Arc::make_mut(chunk).extend(next.iter().cloned());
            }
        }
        self.join_group(group);
        Some(removed)
    }

    /// Removes a group that has become empty, and joins one that has become small to the next one.
    fn join_group(&mut self, at: usize) {
        let Some(left) = self.groups.get(at).map(|group| group.len()) else { return };
        if left == 0 {
            self.groups.remove(at);
        } else if left < MAX_GROUP / 4
            && let Some(next) =
                self.groups.get(at + 1).filter(|next| next.len() + left <= MAX_GROUP / 2).cloned()
        {
            self.groups.remove(at + 1);
            if let Some(group) = self.groups.get_mut(at) {
                Arc::make_mut(group).extend(next.iter().cloned());
            }
        }
    }

    /// The differences between `self` and `newer`, in key order; items for which `same` holds are equal. Cost: one step per shared
    /// group, one per shared chunk of the other groups, and one per item of the other chunks.
    pub fn changes<'m>(&'m self, newer: &'m Self, same: impl Fn(&T, &T) -> bool) -> Vec<Changed<'m, T>> {
        let mut changes = Vec::new();
        let (mut old, mut new) = (Cursor::of(self), Cursor::of(newer));
        loop {
            match (old.item(), new.item()) {
                (None, None) => return changes,
                (Some(_), Some(_)) if old.at_same_group(&new) => {
                    old.skip_group();
                    new.skip_group();
                }
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

    /// The group and the chunk in it that contain a key or would contain it; `None` for a key before all items.
    fn place_of(&self, key: &T::Key) -> Option<(usize, usize)> {
        let begins_by = |chunk: &Chunk<T>| chunk.first().is_some_and(|first| first.key() <= key);
        let group =
            self.groups.partition_point(|group| group.first().is_some_and(begins_by)).checked_sub(1)?;
        Some((group, self.groups.get(group)?.partition_point(begins_by).checked_sub(1)?))
    }
}

/// A position in a map.
struct Cursor<'m, T> {
    groups: &'m [Group<T>],
    /// Of the first group.
    chunks: &'m [Chunk<T>],
    /// In the first chunk.
    at: usize,
}

impl<'m, T> Cursor<'m, T> {
    fn of(map: &'m SharedMap<T>) -> Self {
        Self::before(&map.groups)
    }

    fn before(groups: &'m [Group<T>]) -> Self {
        Self { groups, chunks: groups.first().map(|group| group.as_slice()).unwrap_or_default(), at: 0 }
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
        if self.chunks.is_empty() {
            self.skip_group();
        }
    }

    fn skip_group(&mut self) {
        *self = Self::before(self.groups.get(1..).unwrap_or_default());
    }

    /// Whether both are at the start of the same chunk.
    fn at_same_chunk(&self, other: &Self) -> bool {
        let same = |(a, b): (&Chunk<T>, &Chunk<T>)| Arc::ptr_eq(a, b);
        self.at == 0 && other.at == 0 && self.chunks.first().zip(other.chunks.first()).is_some_and(same)
    }

    /// Whether both are at the start of the same group.
    fn at_same_group(&self, other: &Self) -> bool {
        let is_at_start = |cursor: &Self| {
            cursor.at == 0 && cursor.groups.first().is_some_and(|group| group.len() == cursor.chunks.len())
        };
        let same = |(a, b): (&Group<T>, &Group<T>)| Arc::ptr_eq(a, b);
        is_at_start(self)
            && is_at_start(other)
            && self.groups.first().zip(other.groups.first()).is_some_and(same)
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
        let mut groups = Vec::with_capacity(len.div_ceil(BULK_CHUNK * BULK_GROUP));
        let mut items = items.into_iter();
        let mut chunks = std::iter::from_fn(move || {
            let chunk: Vec<T> = items.by_ref().take(BULK_CHUNK).collect();
            (!chunk.is_empty()).then(|| Arc::new(chunk))
        });
        loop {
            let group: Vec<Chunk<T>> = chunks.by_ref().take(BULK_GROUP).collect();
            if group.is_empty() {
                return Self { groups, len };
            }
            groups.push(Arc::new(group));
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

    /// Of an edit and of comparing with what was before: what is copied, in a map of ten times the size.
    #[test]
    fn an_edit_costs_about_the_same_whatever_the_size() {
        let work = |items: u32| {
            let before: SharedMap<(u32, u32)> = (0..items).map(|n| (n, 0)).collect();
            let mut most = 0;
            for key in (0..items).step_by(items as usize / 50) {
                let mut after = before.clone();
                after.put((key, 1));
                assert_eq!(before.changes(&after, |a, b| a == b).len(), 1);
                most = most.max(after.copied_from(&before));
            }
            most
        };
        let (small, large) = (work(100_000), work(1_000_000));
        assert!(large * 10 <= small * 12, "{small} references and items are copied, and {large}");
        assert!(small < 400, "{small}");
    }

    /// Groups are divided and joined.
    #[test]
    fn many_items_come_and_go_in_any_order() {
        let mut map = SharedMap::default();
        let order = |n: u32| n.wrapping_mul(48_271) % 60_013;
        for n in 0..60_013 {
            assert_eq!(map.put((order(n), n)), None);
        }
        assert!(
            map.groups.len() > 2 && map.groups.iter().all(|group| (1..=MAX_GROUP).contains(&group.len()))
        );
        assert!(map.iter().map(|item| item.0).eq(0..60_013));
        for n in 0..60_000 {
            assert_eq!(map.remove(&order(n)), Some((order(n), n)));
            assert_eq!(map.remove(&order(n)), None);
        }
        assert!(map.groups.iter().all(|group| !group.is_empty()) && map.groups.len() < 4);
        let mut left: Vec<u32> = (60_000..60_013).map(order).collect();
        left.sort_unstable();
        assert!(map.len() == 13 && map.iter().map(|item| item.0).eq(left));
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
