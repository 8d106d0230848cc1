//! Containers of items.

use std::collections::VecDeque;

/// A container of items in the order of their arrival: the queue of a delivery, and each batch.
pub trait Items: Default + Send + 'static {
    /// Number of items.
    fn len(&self) -> usize;

    /// Size of all items, in bytes; an approximation that is the same whenever it is asked for. The [bounds](crate::Bounds) are about it.
    fn bytes(&self) -> usize;

    /// Memory that it holds, in bytes: what the [budget](crate::Settings::memory) of the server counts. It changes only when items are
    /// added or removed, and in [`clear`](Self::clear) and [`shrink`](Self::shrink).
    fn memory(&self) -> usize {
        self.bytes()
    }

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Moves the first items to `batch`, which is empty: at least one; more as long as they are at most `items` items of `bytes`
    /// bytes. A container whose sink takes batches of any size may move all. Both together hold as much memory as before.
    fn move_front(&mut self, batch: &mut Self, items: usize, bytes: usize);

    /// Removes the first items, at least one, and at least `bytes` bytes if there are so many. Returns their number. A container for which it
    /// is cheaper to remove many at once may remove some more.
    fn drop_front(&mut self, bytes: usize) -> usize {
        let (mut dropped, before) = (0, self.bytes());
        while !self.is_empty() && (dropped == 0 || before - self.bytes() < bytes) {
            let mut oldest = Self::default();
            self.move_front(&mut oldest, 1, 0);
            dropped += oldest.len();
        }
        dropped
    }

    /// Removes all items; their memory may be kept for the next ones.
    fn clear(&mut self);

    /// Returns memory that a burst needed. Called without items, before the courier sleeps.
    fn shrink(&mut self);
}

/// What is added to a container at once: all of it or nothing.
pub trait Addition<B> {
    /// Number of items.
    fn items(&self) -> usize;

    /// Their size; see [`Items::bytes`].
    fn bytes(&self) -> usize;

    /// The memory by which `container` grows when they are added; see [`Items::memory`].
    fn growth(&self, container: &B) -> usize;

    /// Adds them at the end.
    fn add_to(self, container: &mut B);
}

/// An item of a [`List`].
pub trait Item: Send + 'static {
    /// Its memory, in bytes; an approximation that does not change.
    fn size(&self) -> usize;
}

/// Items one by one.
#[derive(Debug)]
pub struct List<T> {
    items: VecDeque<T>,
    bytes: usize,
}

/// Items for which memory is kept between batches.
const KEPT: usize = 1024;

impl<T> Default for List<T> {
    fn default() -> Self {
        Self { items: VecDeque::new(), bytes: 0 }
    }
}

impl<T: Item> List<T> {
    /// Adds an item at the end. A sink gives back what it took out of a batch.
    pub fn push(&mut self, item: T) {
        self.bytes += item.size();
        self.items.push_back(item);
    }

    /// Removes the first item.
    pub fn pop(&mut self) -> Option<T> {
        let item = self.items.pop_front()?;
        self.bytes -= item.size();
        Some(item)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.items.iter()
    }

    /// All items in one slice.
    pub fn as_slice(&mut self) -> &[T] {
        self.items.make_contiguous()
    }
}

impl<T: Item> Items for List<T> {
    fn len(&self) -> usize {
        self.items.len()
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn move_front(&mut self, batch: &mut Self, items: usize, bytes: usize) {
        if self.len() <= items && self.bytes <= bytes {
            std::mem::swap(self, batch);
            return;
        }
        while let Some(next) = self.items.front() {
            let fits = batch.len() < items && batch.bytes + next.size() <= bytes;
            if !fits && !batch.is_empty() {
                return;
            }
            let Some(item) = self.pop() else { return };
            batch.push(item);
        }
    }

    fn clear(&mut self) {
        self.items.clear();
        self.bytes = 0;
    }

    fn shrink(&mut self) {
        self.items.shrink_to(KEPT);
    }
}

impl<T: Item> Addition<List<T>> for T {
    fn items(&self) -> usize {
        1
    }

    fn bytes(&self) -> usize {
        self.size()
    }

    fn growth(&self, _: &List<T>) -> usize {
        self.size()
    }

    fn add_to(self, list: &mut List<T>) {
        list.push(self);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Item for usize {
        fn size(&self) -> usize {
            *self
        }
    }

    fn list(items: &[usize]) -> List<usize> {
        let mut list = List::default();
        items.iter().for_each(|item| list.push(*item));
        list
    }

    #[test]
    fn a_batch_has_at_least_one_item_and_stays_within_its_limits() {
        for (items, bytes, batch) in [
            (10, 100, &[7, 1, 9, 2][..]),
            (2, 100, &[7, 1]),
            (10, 16, &[7, 1]),
            (10, 17, &[7, 1, 9]),
            (10, 3, &[7]),
            (0, 0, &[7]),
        ] {
            let mut waiting = list(&[7, 1, 9, 2]);
            let mut moved = List::default();
            waiting.move_front(&mut moved, items, bytes);
            assert_eq!(moved.as_slice(), batch);
            assert_eq!((moved.bytes(), moved.len()), (batch.iter().sum(), batch.len()));
            assert_eq!((waiting.bytes() + moved.bytes(), waiting.len() + moved.len()), (19, 4));
        }
    }

    #[test]
    fn an_empty_list_has_no_bytes() {
        let mut list = list(&[3, 4]);
        assert_eq!((list.pop(), list.bytes()), (Some(3), 4));
        list.clear();
        list.shrink();
        assert_eq!((list.pop(), list.bytes(), list.is_empty()), (None, 0, true));
    }
}
