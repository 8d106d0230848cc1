//! Explores all orders in which threads acquire the lock of a shard.

use std::sync::Arc;
use std::time::Duration;

use bumpalo::Bump;
use mixer_attribute::{AttributeBag, OwnedAttributes, ValueType, Vocabulary};
use parking_lot::lock_api::{GuardSend, RawMutex};
use shuttle::future::batch_semaphore::{BatchSemaphore, Fairness};

use super::{CachedAnswer, CheckCache, CheckCacheCounters, CheckCacheLimits};

/// A lock that the model's scheduler controls.
struct ModelLock(BatchSemaphore);

#[expect(unsafe_code, reason = "the trait of locks is unsafe to implement")]
// SAFETY: a semaphore of one permit excludes.
unsafe impl RawMutex for ModelLock {
    const INIT: Self = Self(BatchSemaphore::const_new(1, Fairness::Unfair));
    type GuardMarker = GuardSend;

    fn lock(&self) {
        self.0.acquire_blocking(1).unwrap();
    }

    fn try_lock(&self) -> bool {
        self.0.try_acquire(1).is_ok()
    }

    unsafe fn unlock(&self) {
        self.0.release(1);
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Answer(i64);

impl CachedAnswer for Answer {
    fn size(&self) -> usize {
        100
    }
}

/// Looks up a request and stores its answer on a miss. Returns whether it was a hit.
fn ask(cache: &CheckCache<Answer, ModelLock>, vocabulary: &Vocabulary, number: i64) -> bool {
    let attributes = OwnedAttributes::from_iter([("a", number)]);
    let (arena, body) = (Bump::new(), attributes.to_bytes(0));
    let bag = AttributeBag::decode(&body, None, vocabulary, &arena).unwrap();
    let found = cache.find(&bag, 0, |answer, _| {
        // Yields while the lock is held.
        shuttle::thread::yield_now();
        Some(*answer)
    });
    match found {
        Ok(answer) => assert_eq!(answer, Answer(number)),
        Err(miss) => {
            bag.get(vocabulary.slot(b"a").unwrap());
            cache.put(&bag, 0, miss, &bag.references(), Duration::from_secs(3600), Answer(number));
        }
    }
    found.is_ok()
}

fn scenario() {
    let mut builder = Vocabulary::builder();
    builder.declare("a", ValueType::Int64);
    let vocabulary = Arc::new(builder.build());
    let counters = Arc::new(CheckCacheCounters::default());
    // Too few entries for two shards: all threads share one.
    let limits = CheckCacheLimits { entries: 8, bytes: 1 << 20 };
    let cache = Arc::new(CheckCache::new(limits, Arc::clone(&counters), Arc::default()));
    let threads: Vec<_> = [[1, 2], [2, 1]]
        .into_iter()
        .map(|numbers| {
            let (cache, vocabulary) = (Arc::clone(&cache), Arc::clone(&vocabulary));
            shuttle::thread::spawn(move || {
                numbers.into_iter().filter(|number| ask(&cache, &vocabulary, *number)).count() as u64
            })
        })
        .collect();
    let hits: u64 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
    assert_eq!((counters.hits(), counters.misses()), (hits, 4 - hits));
    // Each answer was stored once or twice, the second time by the call that began later; nothing else is cached.
    assert!((2..=counters.misses()).contains(&counters.writes()));
    assert_eq!(cache.len(), 2);
    assert!(ask(&cache, &vocabulary, 1) && ask(&cache, &vocabulary, 2));
}

#[test]
fn answers_and_counters_hold_in_every_order() {
    let scheduler = shuttle::scheduler::DfsScheduler::new(None, false);
    let orders = shuttle::Runner::new(scheduler, shuttle::Config::default()).run(scenario);
    eprintln!("{orders} orders");
    assert!(orders > 100, "only {orders} orders");
}
