//! The copies of requests that a worker sends beside them: their tasks, and what they hold together.

use std::cell::Cell;
use std::rc::Rc;

use mixer_base::task::Group;

/// Bytes that the copies of a worker hold at most.
pub(crate) const MAX_HELD: usize = 64 << 20;

/// The copies of a worker.
#[derive(Debug)]
pub(crate) struct Copies {
    group: Group,
    /// Bytes that they hold.
    held: Rc<Cell<usize>>,
}

impl Default for Copies {
    fn default() -> Self {
        Self { group: Group::new("proxy copy of a request"), held: Rc::default() }
    }
}

impl Copies {
    /// Room for so many bytes; `None` if there is none.
    pub(crate) fn hold(&self, bytes: usize) -> Option<Held> {
        let held = Held { all: Rc::clone(&self.held), own: Cell::new(0) };
        held.grow(bytes).then_some(held)
    }

    /// Bytes that they hold.
    #[cfg(test)]
    pub(crate) fn held(&self) -> usize {
        self.held.get()
    }

    /// Sends a copy.
    pub(crate) fn spawn(&self, copy: impl Future<Output = ()> + 'static) {
        drop(self.group.spawn_local(copy));
    }
}

/// What a copy holds of the bytes that a worker has for copies.
#[derive(Debug)]
pub(crate) struct Held {
    all: Rc<Cell<usize>>,
    own: Cell<usize>,
}

impl Held {
    /// Takes more. Returns whether there is room.
    pub(crate) fn grow(&self, bytes: usize) -> bool {
        let all = self.all.get().saturating_add(bytes);
        if all > MAX_HELD {
            return false;
        }
        self.all.set(all);
        self.own.set(self.own.get() + bytes);
        true
    }

    pub(crate) fn shrink(&self, bytes: usize) {
        self.all.set(self.all.get().saturating_sub(bytes));
        self.own.set(self.own.get().saturating_sub(bytes));
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.shrink(self.own.get());
    }
}
