use std::time::Duration;

use bumpalo::Bump;

use super::shape::{MAX_NEW, MAX_PROVEN};
use super::*;
use mixer_attribute::{AttributeBag, OwnedAttributes, Value, ValueType, Vocabulary};
use mixer_base::budget::{MemoryBudget, Purpose};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TestAnswer {
    number: usize,
    size: usize,
}

impl CachedAnswer for TestAnswer {
    fn size(&self) -> usize {
        self.size
    }
}

/// A cache, and requests decided by `a` and the key `k` of `m`.
struct Fixture {
    vocabulary: Vocabulary,
    cache: CheckCache<TestAnswer>,
    counters: Arc<CheckCacheCounters>,
    epoch: Arc<AnswerEpoch>,
}

impl Fixture {
    fn new(entries: usize, bytes: u64) -> Self {
        let mut builder = Vocabulary::builder();
        builder.declare("a", ValueType::String);
        builder.declare("m", ValueType::StringMap);
        let counters = Arc::new(CheckCacheCounters::default());
        let epoch = Arc::new(AnswerEpoch::default());
        let limits = CheckCacheLimits { entries, bytes };
        let cache = CheckCache::new(limits, Arc::clone(&counters), Arc::clone(&epoch));
        Self { vocabulary: builder.build(), cache, counters, epoch }
    }

    /// Sends a request whose decision reads `a` and `m[key]`. Returns the cached answer; stores one after a miss.
    fn send(&self, a: usize, key: &str, valid: Duration, size: usize) -> Option<TestAnswer> {
        let mut attributes = OwnedAttributes::new();
        attributes.insert("a", a.to_string().as_str());
        attributes.insert("m", [(key, "v")]);
        let (arena, body) = (Bump::new(), attributes.to_bytes(0));
        let bag = AttributeBag::decode(&body, None, &self.vocabulary, &arena).unwrap();
        let found = self.cache.find(&bag, 7, |answer, left| {
            assert!(left > Duration::ZERO && left <= valid);
            Some(*answer)
        });
        if let Err(miss) = found {
            let slot = |name: &str| self.vocabulary.slot(name.as_bytes()).unwrap();
            bag.get(slot("a"));
            if let Some(Value::StringMap(map)) = bag.get(slot("m")) {
                bag.lookup(map, arena.alloc_slice_copy(key.as_bytes()));
            }
            self.cache.put(&bag, 7, miss, &bag.references(), valid, TestAnswer { number: a, size });
        }
        found.ok()
    }

    fn hit(&self, a: usize) -> bool {
        let found = self.send(a, "k", Duration::from_secs(60), 100);
        assert!(found.is_none_or(|answer| answer.number == a));
        found.is_some()
    }

    /// Hits, misses, writes, evictions.
    fn counts(&self) -> [u64; 4] {
        [self.counters.hits(), self.counters.misses(), self.counters.writes(), self.counters.evictions()]
    }
}

#[test]
fn every_look_up_write_and_eviction_is_counted() {
    let fixture = Fixture::new(100, 1 << 20);
    for a in 0..50 {
        assert!(!fixture.hit(a));
        assert!(fixture.hit(a));
    }
    assert_eq!((fixture.counts(), fixture.cache.len()), ([50, 50, 50, 0], 50));
    // Every missing answer was counted as evicted.
    for a in 100..1100 {
        fixture.hit(a);
    }
    let [hits, misses, writes, evictions] = fixture.counts();
    assert_eq!([hits, misses, writes], [50, 1050, 1050]);
    assert_eq!(writes - evictions, fixture.cache.len() as u64);
    assert!((90..=100).contains(&fixture.cache.len()), "{}", fixture.cache.len());
}

/// Two calls that were both missed store under one key.
#[test]
fn what_is_replaced_was_not_evicted() {
    let fixture = Fixture::new(100, 1 << 20);
    let store = |a: &str| {
        let (arena, body) = (Bump::new(), OwnedAttributes::from_iter([("a", a)]).to_bytes(0));
        let bag = AttributeBag::decode(&body, None, &fixture.vocabulary, &arena).unwrap();
        let miss = fixture.cache.find(&bag, 7, |_, _| None::<TestAnswer>).unwrap_err();
        bag.get(fixture.vocabulary.slot(b"a").unwrap());
        let answer = TestAnswer { number: 1, size: 100 };
        fixture.cache.put(&bag, 7, miss, &bag.references(), Duration::from_secs(60), answer);
    };
    (0..5).for_each(|_| store("x"));
    store("y");
    let [_, _, writes, evictions] = fixture.counts();
    assert_eq!((writes, evictions, fixture.cache.len()), (6, 0, 2));
}

/// Answers that were decided before, also those that are stored later, are not found; those decided since are.
#[test]
fn a_change_of_answers_ends_all_that_are_cached() {
    let fixture = Fixture::new(100, 1 << 20);
    assert!(!fixture.hit(1) && !fixture.hit(2));
    assert!(fixture.hit(1) && fixture.hit(2));
    fixture.epoch.advance();
    assert!(!fixture.hit(1) && !fixture.hit(2));
    assert!(fixture.hit(1) && fixture.hit(2));
    assert_eq!(fixture.cache.len(), 2);

    let (arena, body) = (Bump::new(), OwnedAttributes::from_iter([("a", "x")]).to_bytes(0));
    let bag = AttributeBag::decode(&body, None, &fixture.vocabulary, &arena).unwrap();
    let find = || fixture.cache.find(&bag, 7, |answer, _| Some(answer.number));
    let waits = find().unwrap_err();
    bag.get(fixture.vocabulary.slot(b"a").unwrap());
    fixture.epoch.advance();
    let store = |miss, number| {
        let answer = TestAnswer { number, size: 100 };
        fixture.cache.put(&bag, 7, miss, &bag.references(), Duration::from_secs(60), answer);
    };
    store(waits, 1);
    let since = find().expect_err("it was decided before the change");
    store(since, 2);
    store(waits, 1);
    assert_eq!(find(), Ok(2));
}

/// Of two calls that wait for a handler, the one that began first may end last.
#[test]
fn an_answer_does_not_replace_one_that_was_decided_later() {
    for (order, kept) in [([0, 1], 1), ([1, 0], 1)] {
        let fixture = Fixture::new(100, 1 << 20);
        let (arena, body) = (Bump::new(), OwnedAttributes::from_iter([("a", "x")]).to_bytes(0));
        let bag = AttributeBag::decode(&body, None, &fixture.vocabulary, &arena).unwrap();
        let find = || fixture.cache.find(&bag, 7, |answer, _| Some(answer.number));
        let calls = [(); 2].map(|()| find().unwrap_err());
        bag.get(fixture.vocabulary.slot(b"a").unwrap());
        for number in order {
            let answer = TestAnswer { number, size: 100 };
            fixture.cache.put(&bag, 7, calls[number], &bag.references(), Duration::from_secs(60), answer);
        }
        assert_eq!(find(), Ok(kept), "{order:?}");
    }
}

#[test]
fn answers_expire() {
    let fixture = Fixture::new(100, 1 << 20);
    let short = Duration::from_millis(20);
    assert_eq!(fixture.send(1, "k", Duration::ZERO, 1), None);
    assert_eq!(fixture.counts(), [0, 1, 0, 0], "zero validity is not stored");
    assert_eq!(fixture.send(1, "k", short, 1), None);
    assert!(fixture.send(1, "k", short, 1).is_some());
    std::thread::sleep(short);
    assert_eq!(fixture.send(1, "k", Duration::from_secs(1), 1), None);
    assert_eq!((fixture.counts(), fixture.cache.len()), ([1, 3, 2, 0], 1));
}

#[test]
fn memory_is_bounded_for_answers_of_any_size() {
    let fixture = Fixture::new(1000, 100_000);
    for a in 0..500 {
        fixture.send(a, "k", Duration::from_secs(60), 10_000);
    }
    assert!(fixture.cache.len() < 10, "{}", fixture.cache.len());
    let counts = fixture.counts();
    // An answer larger than the whole cache is not stored and evicts nothing.
    fixture.send(1000, "k", Duration::from_secs(60), 200_000);
    assert!(!fixture.hit(1000));
    assert_eq!(counts[2] - counts[3], 500 - counts[3]);
}

#[test]
fn a_flood_of_new_values_does_not_evict_answers_in_use() {
    let fixture = Fixture::new(1000, 1 << 20);
    let hot = 0..200;
    for turn in 0..3 {
        hot.clone().for_each(|a| assert_eq!(fixture.hit(a), turn > 0));
    }
    let mut lost = 0;
    for flood in 0..100_000 {
        fixture.hit(1_000_000 + flood);
        // One call in ten repeats an answer in use.
        if flood % 10 == 0 {
            lost += usize::from(!fixture.hit(flood / 10 % hot.len()));
        }
    }
    assert!(lost < 100, "{lost} of 10000 repeated calls missed the cache");
    assert!(fixture.cache.len() <= 1000);
}

#[test]
fn a_flood_of_new_keys_does_not_evict_shapes_in_use() {
    let fixture = Fixture::new(5000, 1 << 22);
    let send = |a, key: &str| fixture.send(a, key, Duration::from_secs(60), 100).is_some();
    let mut lost = 0;
    for flood in 0..50_000 {
        // Each of these is decided by a key of its own, half of them twice.
        let key = format!("x-{flood}");
        send(flood, &key);
        if flood % 2 == 0 {
            send(flood, &key);
        }
        if flood % 10 == 0 {
            lost += usize::from(!send(flood / 10 % 20, "k"));
        }
    }
    assert!(lost <= 40, "{lost} of 5000 repeated calls missed the cache");
    for AlignedShard(shard) in &fixture.cache.shards {
        let shapes = &shard.lock().shapes;
        assert!(shapes.proven.len() <= MAX_PROVEN && shapes.new.len() <= MAX_NEW);
    }
}

#[test]
fn workers_share_the_bounds() {
    let limits = CheckCacheLimits { entries: 100_000, bytes: 100 << 20 };
    let cache = CheckCache::<TestAnswer>::new(limits, Arc::default(), Arc::default());
    let cores = std::thread::available_parallelism().unwrap().get();
    assert_eq!(cache.shards.len(), cores);
    // A small cache is not divided.
    let few = CheckCache::<TestAnswer>::new(
        CheckCacheLimits { entries: 1000, bytes: 1 << 20 },
        Arc::default(),
        Arc::default(),
    );
    assert_eq!(few.shards.len(), 1);
}

#[test]
fn the_default_share_has_room_for_ordinary_use_and_evicts_at_a_flat_cost() {
    // Half of the share of the default limit, which the default number of entries does not reach.
    let bytes = MemoryBudget::default().share(Purpose::CheckCache).limit() as u64 / 2;
    let fixture = Fixture::new(1_500_000, bytes);
    let shards = fixture.cache.shards.len();
    let mut most = 0;
    for a in 0..40_000 {
        let [.., before] = fixture.counts();
        // References of five attributes, and a short key.
        fixture.send(a, "k", Duration::from_secs(60), 150);
        let [.., after] = fixture.counts();
        most = most.max(after - before);
    }
    let [.., writes, evictions] = fixture.counts();
    let fit = fixture.cache.len();
    println!(
        "{fit} answers in {} bytes, {} bytes each",
        fixture.counters.bytes(),
        fixture.counters.bytes() / fit as u64
    );
    // The test has one worker, and so one of the shards.
    assert!(fit * shards >= 25_000, "{fit} answers in one of {shards} shards");
    assert_eq!((writes, writes - evictions), (40_000, fit as u64));
    assert!(most <= 2, "{most} evictions for one answer");
    assert!(fixture.counters.bytes() <= bytes);
    let counters = Arc::clone(&fixture.counters);
    drop(fixture);
    assert_eq!(counters.bytes(), 0);
}
