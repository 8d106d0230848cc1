//! Resources of several origins under one name: that of the first origin is seen.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use mixer_base::shared_map::{Keyed, SharedMap};

/// Which source, or which transformer, something comes from; a smaller one goes before.
pub(super) type Origin = u16;

/// Resources by name, of which the one of the smallest origin is visible. The others become visible when it goes.
#[derive(Debug)]
pub(super) struct Overlay<T> {
    visible: SharedMap<T>,
    /// The origin of what is visible, unless it is 0.
    owners: FxHashMap<Box<str>, Origin>,
    hidden: BTreeMap<(Box<str>, Origin), T>,
}

impl<T> Default for Overlay<T> {
    fn default() -> Self {
        Self { visible: SharedMap::default(), owners: FxHashMap::default(), hidden: BTreeMap::new() }
    }
}

/// What was visible under a name, and what is.
#[derive(Debug)]
pub(super) struct Seen<T> {
    pub(super) old: Option<T>,
    pub(super) new: Option<T>,
}

impl<T: Keyed<Key = str> + Clone> Overlay<T> {
    /// What is visible.
    pub(super) fn visible(&self) -> &SharedMap<T> {
        &self.visible
    }

    fn owner(&self, name: &str) -> Origin {
        self.owners.get(name).copied().unwrap_or(0)
    }

    /// What an origin has under a name.
    pub(super) fn get(&self, origin: Origin, name: &str) -> Option<&T> {
        let visible = self.visible.get(name)?;
        match self.owner(name) == origin {
            true => Some(visible),
            false => self.hidden.get(&(name.into(), origin)),
        }
    }

    fn show(&mut self, origin: Origin, item: T) {
        match origin {
            0 => drop(self.owners.remove(item.key())),
            _ => drop(self.owners.insert(item.key().into(), origin)),
        }
        self.visible.put(item);
    }

    /// Sets what an origin has. Returns what changed to see.
    pub(super) fn put(&mut self, origin: Origin, item: T) -> Option<Seen<T>> {
        let name = item.key();
        let old = self.visible.get(name).cloned();
        let owner = self.owner(name);
        match &old {
            Some(_) if owner < origin => {
                self.hidden.insert((name.into(), origin), item);
                return None;
            }
            Some(covered) if owner > origin => {
                self.hidden.insert((name.into(), owner), covered.clone());
            }
            _ => {}
        }
        self.show(origin, item.clone());
        Some(Seen { old, new: Some(item) })
    }

    /// Removes what an origin has. Returns what changed to see.
    pub(super) fn remove(&mut self, origin: Origin, name: &str) -> Option<Seen<T>> {
        if !self.visible.contains_key(name) {
            return None;
        }
        if self.owner(name) != origin {
            self.hidden.remove(&(name.into(), origin));
            return None;
        }
        let next = self.hidden.range((name.into(), 0)..=(name.into(), Origin::MAX)).next();
        let Some(key) = next.map(|(key, _)| key.clone()) else {
            self.owners.remove(name);
            return Some(Seen { old: self.visible.remove(name), new: None });
        };
        let old = self.visible.get(name).cloned();
        let new = self.hidden.remove(&key)?;
        self.show(key.1, new.clone());
        Some(Seen { old, new: Some(new) })
    }

    /// The names of everything that an origin has. Cost: a step for every resource.
    pub(super) fn names_of(&self, origin: Origin) -> Vec<Box<str>> {
        let visible = self.visible.iter().map(Keyed::key).filter(|name| self.owner(name) == origin);
        let hidden = self.hidden.keys().filter(|(_, other)| *other == origin).map(|(name, _)| name.clone());
        visible.map(Box::from).chain(hidden).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[derive(Debug, Clone, PartialEq)]
    struct Item(&'static str, u32);

    impl Keyed for Item {
        type Key = str;
        fn key(&self) -> &str {
            self.0
        }
    }

    #[test]
    fn the_first_origin_is_seen_and_the_next_when_it_goes() {
        let mut overlay = Overlay::<Arc<Item>>::default();
        let item = |value| Arc::new(Item("a", value));
        let seen = |seen: Option<Seen<Arc<Item>>>| {
            let value = |item: Option<Arc<Item>>| item.map(|item| item.1);
            seen.map(|seen| (value(seen.old), value(seen.new)))
        };
        assert_eq!(seen(overlay.put(1, item(10))), Some((None, Some(10))));
        assert_eq!(seen(overlay.put(0, item(1))), Some((Some(10), Some(1))));
        assert_eq!(seen(overlay.put(2, item(20))), None, "hidden");
        assert_eq!(seen(overlay.put(1, item(11))), None, "hidden");
        assert_eq!((overlay.get(1, "a").map(|item| item.1), overlay.get(2, "b")), (Some(11), None));
        assert_eq!(overlay.names_of(2), ["a".into()]);
        assert_eq!(seen(overlay.remove(0, "a")), Some((Some(1), Some(11))));
        assert_eq!(seen(overlay.remove(0, "a")), None, "it has none any more");
        assert_eq!(seen(overlay.remove(1, "a")), Some((Some(11), Some(20))));
        assert_eq!(seen(overlay.remove(2, "a")), Some((Some(20), None)));
        assert!(overlay.visible().is_empty() && overlay.owners.is_empty() && overlay.hidden.is_empty());
    }
}
