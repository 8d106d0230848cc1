//! Values that many pods have in common, kept once.

use std::borrow::Borrow;
use std::hash::Hash;
use std::sync::Arc;

use hashbrown::HashSet;

/// Values before unused ones are looked for.
const FIRST_SWEEP: usize = 1024;

/// Values that are kept once while somebody has them.
#[derive(Debug)]
pub(super) struct Interner<T: ?Sized> {
    values: HashSet<Arc<T>, foldhash::fast::RandomState>,
    /// Number of values at which those that nobody else has are dropped.
    sweep_at: usize,
}

impl<T: ?Sized + Eq + Hash> Default for Interner<T> {
    fn default() -> Self {
        Self { values: HashSet::default(), sweep_at: FIRST_SWEEP }
    }
}

impl<T: ?Sized + Eq + Hash> Interner<T> {
    /// The kept value that equals this one. Returns whether it is new.
    pub(super) fn keep<V>(&mut self, value: V) -> (Arc<T>, bool)
    where
        V: Borrow<T> + Into<Arc<T>>,
    {
        let borrowed: &T = value.borrow();
        if let Some(known) = self.values.get(borrowed) {
            return (Arc::clone(known), false);
        }
        let value: Arc<T> = value.into();
        self.values.insert(Arc::clone(&value));
        (value, true)
    }

    /// Drops the values that nobody else has, once there may be as many of them as of the others. `dropped` sees each.
    pub(super) fn sweep(&mut self, dropped: impl FnMut(&T)) {
        if self.values.len() >= self.sweep_at {
            self.drop_unused(dropped);
        }
    }

    /// Drops the values that nobody else has. `dropped` sees each.
    pub(super) fn drop_unused(&mut self, mut dropped: impl FnMut(&T)) {
        self.values.retain(|value| {
            let is_used = Arc::strong_count(value) > 1;
            if !is_used {
                dropped(value);
            }
            is_used
        });
        self.values.shrink_to_fit();
        self.sweep_at = (self.values.len() * 2).max(FIRST_SWEEP);
    }

    /// Number of values.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.values.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_are_kept_once_until_nobody_has_them() {
        let mut interner = Interner::<str>::default();
        let (first, is_new) = interner.keep("a");
        let (second, is_known) = interner.keep("a");
        assert!(Arc::ptr_eq(&first, &second) && is_new && !is_known);
        let many: Vec<Arc<str>> = (0..FIRST_SWEEP * 2).map(|n| interner.keep(n.to_string()).0).collect();
        drop(many);
        let mut dropped = 0;
        interner.sweep(|_| dropped += 1);
        assert_eq!((interner.len(), dropped), (1, FIRST_SWEEP * 2));
        interner.keep("b");
        interner.sweep(|_| panic!("there are few"));
        assert_eq!(interner.len(), 2);
    }
}
