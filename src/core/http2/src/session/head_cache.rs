//! Decoded heads of requests.

use std::rc::Rc;

use super::super::RequestHead;

/// Heads of the last requests by header block; clients repeat identical blocks.
#[derive(Debug, Default)]
pub(super) struct HeadCache {
    entries: Vec<CachedHead>,
    next: usize,
    memory: usize,
}

#[derive(Debug)]
struct CachedHead {
    block: Vec<u8>,
    /// Version of the dynamic table for which the entry is valid.
    changes: u64,
    head: Rc<RequestHead>,
}

impl CachedHead {
    fn memory(&self) -> usize {
        self.block.capacity() + self.head.memory()
    }
}

impl HeadCache {
    /// Number of entries.
    const COUNT: usize = 4;
    /// Maximum size of a cached block.
    const MAX_BLOCK: usize = 1024;
    /// Maximum memory of a cached head: few bytes of a block may refer to many of the dynamic table.
    const MAX_HEAD: usize = 4 << 10;

    /// The head of an equal block that was decoded with an equal dynamic table.
    pub(super) fn find(&self, block: &[u8], changes: u64) -> Option<&Rc<RequestHead>> {
        self.entries
            .iter()
            .find(|entry| entry.changes == changes && entry.block == block)
            .map(|entries| &entries.head)
    }

    /// Adds a head in place of the oldest one.
    pub(super) fn insert(&mut self, block: &[u8], changes: u64, head: &Rc<RequestHead>) {
        if block.len() > Self::MAX_BLOCK || head.memory() > Self::MAX_HEAD {
            return;
        }
        let entry = CachedHead { block: block.to_vec(), changes, head: Rc::clone(head) };
        self.memory += entry.memory();
        match self.entries.get_mut(self.next) {
            Some(old) => self.memory -= std::mem::replace(old, entry).memory(),
            None => self.entries.push(entry),
        }
        self.next = (self.next + 1) % Self::COUNT;
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Bytes of all entries.
    pub(super) fn memory(&self) -> usize {
        self.memory
    }
}
