//! Examples, and a comparison with a plain list.

use proptest::prelude::*;

use super::*;

/// `lifetime` 0: never expires.
#[derive(Debug, Clone, PartialEq)]
struct Item {
    key: u64,
    used_at: u64,
    lifetime: u64,
    heap: usize,
}

impl Bounded for Item {
    const QUEUES: usize = 8;

    fn heap_bytes(&self) -> usize {
        self.heap
    }

    fn queue(&self) -> usize {
        if self.lifetime == 0 { 0 } else { 1 + self.lifetime.ilog2() as usize }
    }

    fn is_expired(&self, now: u64) -> bool {
        self.lifetime > 0 && self.used_at + self.lifetime <= now
    }

    fn eviction_rank(&self) -> u64 {
        self.used_at
    }
}

type Table = BoundedTable<Item>;

/// A budget for this number of items without heap memory.
fn table(items: usize, when_full: WhenFull) -> Table {
    Table::new(items * Table::ENTRY_BYTES, when_full)
}

fn item(key: u64, used_at: u64, lifetime: u64) -> Item {
    Item { key, used_at, lifetime, heap: 0 }
}

fn keys(table: &Table) -> Vec<u64> {
    let mut keys: Vec<u64> = table.iter().map(|item| item.key).collect();
    keys.sort_unstable();
    keys
}

/// Checks the invariants.
fn assert_consistent(table: &Table) {
    let bytes: usize = table.iter().map(|item| Table::ENTRY_BYTES + item.heap).sum();
    assert_eq!((table.index.len(), table.bytes), (table.len(), bytes));
    let mut linked = 0;
    for (queue, ends) in table.queues.iter().enumerate() {
        let (mut at, mut older) = (ends.oldest, NONE);
        while let Some(slot) = table.slot(at) {
            assert_eq!((slot.older, slot.value.queue()), (older, queue));
            linked += 1;
            (older, at) = (at, slot.newer);
        }
        assert_eq!(ends.newest, older);
    }
    assert_eq!(linked, table.len());
}

#[test]
fn expired_entries_are_removed_before_the_least_recently_used() {
    let mut table = table(3, WhenFull::Evict);
    table.insert(1, item(1, 0, 0), 0);
    table.insert(2, item(2, 1, 5), 1);
    table.insert(3, item(3, 2, 90), 2);
    assert!(table.insert(4, item(4, 3, 90), 3));
    assert_eq!((keys(&table), table.evicted()), (vec![2, 3, 4], 1), "the oldest, since none has expired");
    assert!(table.insert(5, item(5, 6, 90), 6));
    assert_eq!((keys(&table), table.evicted()), (vec![3, 4, 5], 1), "the expired one");
    assert_consistent(&table);
}

#[test]
fn a_used_entry_is_the_newest() {
    let mut table = table(2, WhenFull::Evict);
    table.insert(1, item(1, 0, 0), 0);
    table.insert(2, item(2, 1, 0), 1);
    let used = |item: &mut Item| (Modified::Used, std::mem::replace(&mut item.used_at, 2));
    assert_eq!(table.modify(1, |i| i.key == 1, 2, used), Some(0));
    table.insert(3, item(3, 3, 0), 3);
    assert_eq!(keys(&table), [1, 3]);
    assert_eq!(table.modify(2, |i| i.key == 2, 4, used), None);
    assert_eq!(table.modify(3, |i| i.key == 3, 4, |_| (Modified::Removed, ())), Some(()));
    assert_eq!(keys(&table), [1]);
    assert_consistent(&table);
}

#[test]
fn an_entry_that_grows_evicts_others_but_not_itself() {
    let mut table = table(8, WhenFull::Evict);
    (0..8).for_each(|key| assert!(table.insert(key, item(key, key, 0), key)));
    let grow = |by: usize| {
        move |item: &mut Item| {
            (item.heap, item.used_at) = (by, 9);
            (Modified::Used, ())
        }
    };
    // The last slot moves when others are removed.
    table.modify(7, |i| i.key == 7, 9, grow(3 * Table::ENTRY_BYTES));
    assert_eq!((keys(&table), table.evicted()), (vec![3, 4, 5, 6, 7], 3));
    table.modify(7, |i| i.key == 7, 9, grow(100 * Table::ENTRY_BYTES));
    assert_eq!((keys(&table), table.evicted()), (vec![7], 7));
    assert_consistent(&table);
}

#[test]
fn a_table_that_refuses_keeps_what_it_has() {
    let mut table = table(2, WhenFull::Refuse);
    assert!(table.insert(1, item(1, 0, 5), 0));
    assert!(table.insert(2, item(2, 0, 0), 0));
    assert!(!table.insert(3, item(3, 1, 0), 1));
    assert!(table.insert(3, item(3, 5, 0), 5), "the first one has expired");
    assert_eq!((keys(&table), table.evicted()), (vec![2, 3], 0));
    table.set_budget(usize::MAX);
    assert!(table.insert(4, Item { heap: 1 << 30, ..item(4, 5, 0) }, 5));
    assert_eq!(table.remove(4, |i| i.key == 4).map(|i| i.heap), Some(1 << 30));
    assert_eq!(table.remove(4, |i| i.key == 4), None);
    assert_consistent(&table);
}

#[test]
fn an_entry_larger_than_the_budget_evicts_nothing() {
    let mut table = table(2, WhenFull::Evict);
    table.insert(1, item(1, 0, 0), 0);
    assert!(!table.insert(2, Item { heap: 2 * Table::ENTRY_BYTES, ..item(2, 0, 0) }, 0));
    assert_eq!(keys(&table), [1]);
}

#[test]
fn an_entry_that_is_refused_comes_back_and_a_victim_is_handed_out() {
    let mut table = table(2, WhenFull::Refuse);
    table.insert(1, item(1, 0, 90), 0);
    table.insert(2, item(2, 1, 90), 1);
    let refused = table.try_insert(3, item(3, 2, 90), 2).unwrap_err();
    assert_eq!(refused.key, 3);
    assert_eq!(table.take_victim(2).map(|item| item.key), Some(1));
    assert!(table.try_insert(3, refused, 2).is_ok());
    assert_eq!((keys(&table), table.evicted()), (vec![2, 3], 0), "no entry was lost");
    assert_consistent(&table);
    assert_eq!(
        [table.take_victim(2), table.take_victim(2)].map(|item| item.map(|item| item.key)),
        [Some(2), Some(3)]
    );
    assert!(table.take_victim(2).is_none() && table.bytes() == 0);
}

#[test]
fn tables_of_one_account_share_its_bytes() {
    let share = Arc::new(crate::budget::Share::new(8 * Table::ENTRY_BYTES));
    let account = Arc::new(share.open());
    let mut first = Table::within(Arc::clone(&account), WhenFull::Evict);
    let mut second = Table::within(account, WhenFull::Evict);
    (0..6).for_each(|key| assert!(first.insert(key, item(key, key, 0), key)));
    (6..10).for_each(|key| assert!(second.insert(key, item(key, key, 0), key)));
    assert_eq!((first.len(), keys(&second), second.evicted()), (6, vec![8, 9], 2));
    assert_eq!(share.used(), 8 * Table::ENTRY_BYTES);
    let grow = |item: &mut Item| {
        item.heap = Table::ENTRY_BYTES;
        (Modified::Used, ())
    };
    second.modify(9, |i| i.key == 9, 10, grow);
    assert_eq!((keys(&second), share.used()), (vec![9], 8 * Table::ENTRY_BYTES));
    drop(first);
    assert_eq!(share.used(), 2 * Table::ENTRY_BYTES);
    second.remove(9, |i| i.key == 9);
    assert_consistent(&second);
    assert_eq!(share.used(), 0);
    let mut third = Table::within(Arc::new(share.open()), WhenFull::Refuse);
    assert!(!third.insert(1, Item { heap: 8 * Table::ENTRY_BYTES, ..item(1, 0, 0) }, 0));
    assert_eq!(share.used(), 0);
}

#[test]
fn memory_is_freed_after_a_burst() {
    let mut table = table(1 << 20, WhenFull::Evict);
    (0..100_000).for_each(|key| assert!(table.insert(key, item(key, 0, 1), 0)));
    let burst = table.slots.capacity();
    for key in 100_000..200_000 {
        table.insert(key, item(key, key, 1), key);
        assert!(table.find(key, |i| i.key == key).is_some());
    }
    assert!(table.len() <= 4, "{}", table.len());
    assert!(table.slots.capacity() < burst / 16, "{} of {burst}", table.slots.capacity());
    assert!(table.index.capacity() < burst / 16, "{} of {burst}", table.index.capacity());
    assert_consistent(&table);
}

/// Counts visited entries by the calls of `is_expired`.
#[test]
fn an_insertion_into_a_full_table_visits_few_entries() {
    thread_local! {
        static VISITS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
    }
    struct Counting(u64);
    impl Bounded for Counting {
        fn heap_bytes(&self) -> usize {
            0
        }
        fn is_expired(&self, now: u64) -> bool {
            VISITS.set(VISITS.get() + 1);
            // One entry expires between any two insertions.
            self.0 + 10_000 <= now
        }
    }
    let budget = 10_000 * BoundedTable::<Counting>::ENTRY_BYTES;
    let mut table = BoundedTable::new(budget, WhenFull::Evict);
    for key in 0..50_000 {
        VISITS.set(0);
        assert!(table.insert(key, Counting(key), key));
        assert!(VISITS.get() <= 6, "{} visits", VISITS.get());
    }
    assert_eq!(table.len(), 10_000);
}

#[derive(Debug, Clone)]
enum Step {
    Insert { key: u64, lifetime: u64, heap: usize },
    Use { key: u64, heap: usize },
    Remove { key: u64 },
    Pass { time: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let heap = || prop_oneof![Just(0_usize), 0..3 * Table::ENTRY_BYTES];
    prop_oneof![
        4 => (0..20_u64, 0..100_u64, heap()).prop_map(|(key, lifetime, heap)| Step::Insert { key, lifetime, heap }),
        2 => (0..20_u64, heap()).prop_map(|(key, heap)| Step::Use { key, heap }),
        1 => (0..20_u64).prop_map(|key| Step::Remove { key }),
        1 => (0..40_u64).prop_map(|time| Step::Pass { time }),
    ]
}

proptest! {
    /// Entries that were not evicted are those of a map, and an insertion never exceeds the budget.
    #[test]
    fn live_entries_are_those_of_a_map(steps in proptest::collection::vec(step(), 1..200)) {
        let budget = 10 * Table::ENTRY_BYTES;
        for when_full in [WhenFull::Refuse, WhenFull::Evict] {
            let mut table = Table::new(budget, when_full);
            let mut model: Vec<Item> = Vec::new();
            let mut now = 0;
            for step in &steps {
                let evicted = table.evicted();
                match *step {
                    Step::Insert { key, lifetime, heap } => {
                        if table.find(key % 4, |i| i.key == key).is_some() {
                            continue;
                        }
                        model.retain(|i| i.key != key);
                        let new = Item { key, used_at: now, lifetime, heap };
                        if table.insert(key % 4, new.clone(), now) {
                            model.push(new);
                        }
                        prop_assert!(table.bytes() <= budget);
                    }
                    Step::Use { key, heap } => {
                        // A table that refuses cannot make room for an entry that grows.
                        let heap = if when_full == WhenFull::Refuse { 0 } else { heap };
                        let used = |item: &mut Item| {
                            (item.used_at, item.heap) = (now, heap);
                            (Modified::Used, item.clone())
                        };
                        if let Some(used) = table.modify(key % 4, |i| i.key == key, now, used) {
                            model.retain(|i| i.key != key);
                            model.push(used);
                        }
                    }
                    Step::Remove { key } => {
                        table.remove(key % 4, |i| i.key == key);
                        model.retain(|i| i.key != key);
                    }
                    Step::Pass { time } => now += time,
                }
                assert_consistent(&table);
                let is_kept = |item: &Item| table.find(item.key % 4, |i| i.key == item.key) == Some(item);
                if table.evicted() > evicted {
                    model.retain(is_kept);
                }
                prop_assert!(model.iter().filter(|item| !item.is_expired(now)).all(is_kept));
                let mut live = table.iter().filter(|i| !i.is_expired(now));
                prop_assert!(live.all(|item| model.contains(item)));
            }
        }
    }
}
