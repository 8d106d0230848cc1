//! The decision cache of clients: what it answers is what the engine answers, across edits and time.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use mixer_attribute::GLOBAL_WORDS;
use mixer_client::{CacheLimits, DecisionCache, Verdict};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::fixture::{Served, attributes, condition, configuration};
use crate::schedules::Random;

/// Requests without `MIXER_DECISIONS`.
const REQUESTS: u64 = 10_000;
/// Requests between two edits, and edits of one engine.
const REQUESTS_PER_EDIT: u64 = 40;
const EDITS: usize = 5;
/// The longest validity of an answer of these configurations.
const VALIDITY: Duration = Duration::from_secs(60);

/// A configuration that served until some time.
struct Past {
    served: Served,
    until: Instant,
}

/// An answer in the cache, as the test knows it.
struct Known {
    asked: Instant,
    valid: Duration,
    /// Uses that are left; negative for no limit.
    uses: i32,
    verdict: Rc<Verdict>,
}

/// Conditions as a configuration, with a use count for half of the answers.
fn text(conditions: &[String], random: &mut Random) -> String {
    let uses =
        ["validDuration: 60s, validUseCount: 3", "validDuration: 7s, validUseCount: 1000"][random.below(2)];
    configuration(conditions).replacen("validDuration: 60s", uses, conditions.len() / 2)
}

fn draw<T: std::fmt::Debug>(strategy: &impl Strategy<Value = T>, runner: &mut TestRunner) -> T {
    strategy.new_tree(runner).unwrap().current()
}

#[test]
fn a_client_decides_as_the_engine_does_within_the_validity_of_its_answers() {
    let number = |name: &str, default| std::env::var(name).map_or(default, |text| text.parse().unwrap());
    let (count, seed) = (number("MIXER_DECISIONS", REQUESTS), number("MIXER_SEED", 1));
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let mut random = Random(seed);
    let conditions = prop::collection::vec(condition(), 1..8);
    let request = attributes();
    let (mut done, mut hits, mut expired, mut edits) = (0, 0, 0, 0);
    let mut now = Instant::now();
    while done < count {
        // No limit, and one that is always reached.
        let entries = [10_000, 8][random.below(2)];
        let mut cache = DecisionCache::<Rc<Verdict>>::new(CacheLimits { entries, bytes: 1 << 20 });
        let mut known: BTreeMap<usize, Known> = BTreeMap::new();
        let mut past: Vec<Past> = Vec::new();
        for _ in 0..EDITS {
            let served = Served::start(&text(&draw(&conditions, &mut runner), &mut random), None);
            let service = served.service();
            edits += 1;
            for _ in 0..REQUESTS_PER_EDIT {
                done += 1;
                now += Duration::from_millis([0, 10, 400, 9_000][random.below(4)]);
                past.retain(|past| past.until + VALIDITY >= now);
                let asked = draw(&request, &mut runner);
                let what = format!("MIXER_SEED={seed}, request {done}: {asked:?}");
                if let Some(verdict) = cache.get(b"", &asked, now) {
                    hits += 1;
                    let known = known.get_mut(&(Rc::as_ptr(&verdict) as usize)).unwrap();
                    assert!(now <= known.asked + known.valid, "{what}: used too long");
                    assert_ne!(known.uses, 0, "{what}: used too often");
                    known.uses -= 1;
                    let says = |served: &Served| {
                        let fresh = Verdict::of(&served.answer(&served.service(), &asked));
                        (fresh.code, fresh.message, fresh.directive)
                    };
                    let cached = (verdict.code, verdict.message.clone(), verdict.directive.clone());
                    let is_right = says(&served) == cached
                        || past.iter().any(|past| past.until >= known.asked && says(&past.served) == cached);
                    assert!(is_right, "{what}: {cached:?} instead of {:?}", says(&served));
                    continue;
                }
                let answer = served.answer(&service, &asked);
                let precondition = answer.precondition.as_ref().unwrap();
                let verdict = Rc::new(Verdict::of(&answer));
                let Some(lifetime) = verdict.lifetime(now) else { continue };
                let references = precondition.referenced_attributes.as_ref().unwrap();
                let words = GLOBAL_WORDS.len();
                let stored = cache.insert(b"", &asked, references, words, Rc::clone(&verdict), lifetime);
                assert!(stored, "{what}: {references:?}");
                let valid = precondition.valid_duration.unwrap_or_default();
                let valid = Duration::try_from(valid).unwrap();
                assert!(valid <= VALIDITY, "{what}");
                expired += known.values().filter(|known| known.asked + known.valid < now).count();
                let uses = precondition.valid_use_count;
                known.insert(Rc::as_ptr(&verdict) as usize, Known { asked: now, valid, uses, verdict });
            }
            past.push(Past { served, until: now });
        }
        // What the cache refers to is kept, so that no address stands for two answers.
        assert!(known.values().all(|known| Rc::strong_count(&known.verdict) >= 1));
    }
    println!("{done} requests, {hits} from the cache, {edits} configurations");
    assert!(hits > count / 50 && expired > 0, "{hits} of {done}");
}
