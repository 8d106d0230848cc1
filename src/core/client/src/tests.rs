//! Shapes, lifetimes, bounds, prefetching and batches.

use std::rc::Rc;
use std::time::{Duration, Instant};

use mixer_attribute::{GLOBAL_WORDS, OwnedAttributes, OwnedValue};
use mixer_wire::google::rpc::Status;
use mixer_wire::istio::mixer::v1 as wire;
use wire::check_response::{PreconditionResult, QuotaResult};
use wire::referenced_attributes::AttributeMatch;

use crate::{BatchLimits, CacheLimits, DecisionCache, QuotaCache, ReportBatch, Verdict};

const LIMITS: CacheLimits = CacheLimits { entries: 100, bytes: 1 << 20 };
const WORDS: usize = GLOBAL_WORDS.len();

/// References by name, map key and condition; every word is a message word, but for an empty key.
fn references(tests: &[(&str, &str, i32)]) -> wire::ReferencedAttributes {
    let mut message = wire::ReferencedAttributes::default();
    for (name, key, condition) in tests {
        let mut index = |word: &str| {
            message.words.push(word.as_bytes().to_vec().into());
            -i32::try_from(message.words.len()).unwrap()
        };
        let (name, map_key) = (index(name), if key.is_empty() { 0 } else { index(key) });
        let test = AttributeMatch { name, condition: *condition, regex: String::new(), map_key };
        message.attribute_matches.push(test);
    }
    message
}

fn bag(entries: &[(&str, OwnedValue)]) -> OwnedAttributes {
    entries.iter().map(|(name, value)| (*name, value.clone())).collect()
}

fn answer(code: i32, valid: Option<Duration>, uses: i32) -> wire::CheckResponse {
    let status = Some(Status { code, message: format!("m{code}"), details: Vec::new() });
    let valid_duration = valid.map(|valid| prost_types::Duration::try_from(valid).unwrap());
    let precondition =
        PreconditionResult { status, valid_duration, valid_use_count: uses, ..PreconditionResult::default() };
    wire::CheckResponse { precondition: Some(precondition), ..wire::CheckResponse::default() }
}

/// A cache with the answer `7` to `asked`, for a minute.
fn with(asked: &OwnedAttributes, tests: &[(&str, &str, i32)]) -> (DecisionCache<Rc<Verdict>>, Instant, bool) {
    let now = Instant::now();
    let mut cache = DecisionCache::new(LIMITS);
    let verdict = Rc::new(Verdict::of(&answer(7, Some(Duration::from_secs(60)), -1)));
    let lifetime = verdict.lifetime(now).unwrap();
    let stored = cache.insert(b"", asked, &references(tests), WORDS, verdict, lifetime);
    (cache, now, stored)
}

#[test]
fn a_request_hits_if_all_conditions_hold_and_all_values_are_equal() {
    let map = |entries: &[(&str, &str)]| {
        OwnedValue::StringMap(entries.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect())
    };
    let asked = bag(&[("a", "1".into()), ("m", map(&[("k", "v")])), ("unread", "x".into())]);
    let tests = [("a", "", 2), ("b", "", 1), ("m", "k", 2), ("m", "l", 1)];
    let (mut cache, now, stored) = with(&asked, &tests);
    assert!(stored);
    let mut hits = |entries: &[(&str, OwnedValue)]| cache.get(b"", &bag(entries), now).is_some();
    assert!(hits(&[("a", "1".into()), ("m", map(&[("k", "v"), ("other", "z")]))]), "what was not read");
    assert!(!hits(&[("a", "2".into()), ("m", map(&[("k", "v")]))]), "another value");
    assert!(!hits(&[("a", OwnedValue::Bytes(b"1".to_vec())), ("m", map(&[("k", "v")]))]), "another type");
    assert!(!hits(&[("a", "1".into()), ("b", "".into()), ("m", map(&[("k", "v")]))]), "not absent");
    assert!(!hits(&[("a", "1".into()), ("m", map(&[("k", "v"), ("l", "")]))]), "a key that is not absent");
    assert!(!hits(&[("a", "1".into()), ("m", map(&[]))]), "a key that is not there");
    assert!(!hits(&[("a", "1".into())]), "no map");
    assert!(!hits(&[("a", "1".into()), ("m", "v".into())]), "no map, but a text");
    assert!(cache.get(b"other", &asked, now).is_none(), "another scope");
    assert!(cache.get(b"", &asked, now).is_some());
}

#[test]
fn an_absent_map_is_not_one_without_the_key() {
    let empty = || OwnedValue::StringMap([].into());
    let (mut cache, now, stored) = with(&bag(&[]), &[("m", "", 1)]);
    assert!(stored && cache.get(b"", &bag(&[]), now).is_some());
    assert!(cache.get(b"", &bag(&[("m", empty())]), now).is_none());
    let (mut cache, now, stored) = with(&bag(&[("m", empty())]), &[("m", "k", 1)]);
    assert!(stored && cache.get(b"", &bag(&[("m", empty())]), now).is_some());
    assert!(cache.get(b"", &bag(&[]), now).is_none());
}

#[test]
fn a_map_key_of_0_stands_for_source_ip_and_for_the_empty_key() {
    let map = |ip: &str, empty: &str| bag(&[("m", OwnedValue::from([("source.ip", ip), ("", empty)]))]);
    let (mut cache, now, stored) = with(&map("1", "2"), &[("m", "", 2)]);
    assert!(stored && cache.get(b"", &map("1", "2"), now).is_some());
    assert!(cache.get(b"", &map("9", "2"), now).is_none());
    assert!(cache.get(b"", &map("1", "9"), now).is_none());
}

#[test]
fn what_cannot_be_understood_is_not_cached() {
    let asked = bag(&[("a", "1".into())]);
    for (what, tests) in [
        ("a regular expression", [("a", "", 3)]),
        ("no condition", [("a", "", 0)]),
        ("an unknown condition", [("a", "", 4)]),
        ("absent, but it is there", [("a", "", 1)]),
        ("there, but it is absent", [("b", "", 2)]),
    ] {
        let (cache, _, stored) = with(&asked, &tests);
        assert!(!stored && cache.is_empty(), "{what}");
    }
    let now = Instant::now();
    let mut cache = DecisionCache::new(LIMITS);
    let verdict = Rc::new(Verdict::of(&answer(0, None, -1)));
    let lifetime = verdict.lifetime(now).unwrap();
    for (what, name, known) in [
        ("no such message word", -1, WORDS),
        ("the least index", i32::MIN, WORDS),
        ("no such global word", 222, WORDS),
        ("a global word that the client does not know", 150, 111),
    ] {
        let test = AttributeMatch { name, condition: 1, regex: String::new(), map_key: 0 };
        let message = wire::ReferencedAttributes { words: Vec::new(), attribute_matches: vec![test] };
        assert!(!cache.insert(b"", &asked, &message, known, Rc::clone(&verdict), lifetime), "{what}");
    }
    let many: Vec<_> = (0..600).map(|_| ("b", "", 1)).collect();
    assert!(!cache.insert(b"", &asked, &references(&many), WORDS, verdict, lifetime), "too many");
}

#[test]
fn duration_and_use_count_end_an_answer() {
    let asked = bag(&[]);
    let now = Instant::now();
    let second = Duration::from_secs(1);
    let uses = |valid, count, offset: Duration| {
        let verdict = Rc::new(Verdict::of(&answer(0, valid, count)));
        let Some(lifetime) = verdict.lifetime(now) else { return 0 };
        let mut cache = DecisionCache::new(LIMITS);
        assert!(cache.insert(b"", &asked, &references(&[]), WORDS, verdict, lifetime));
        let used = (0..10).filter(|_| cache.get(b"", &asked, now + offset).is_some()).count();
        assert_eq!(cache.is_empty(), used < 10, "a used up answer is removed");
        used
    };
    assert_eq!(uses(Some(second), 3, Duration::ZERO), 3);
    assert_eq!(uses(Some(second), 3, second), 3, "the last instant");
    assert_eq!(uses(Some(second), 3, second + Duration::from_nanos(1)), 0);
    assert_eq!(uses(Some(second), 0, Duration::ZERO), 0, "0: for no other request");
    assert_eq!(uses(Some(second), -5, Duration::ZERO), 10, "negative: any number");
    assert_eq!(uses(None, -1, Duration::from_secs(1 << 30)), 10, "absent: does not expire");
    assert_eq!(uses(Some(Duration::ZERO), -1, Duration::ZERO), 0);
    assert_eq!(uses(Some(Duration::from_micros(1500)), -1, Duration::from_micros(1200)), 0, "whole ms");
    assert!(Verdict::of(&answer(14, None, -1)).lifetime(now).is_none(), "UNAVAILABLE");
    let none = Verdict::of(&wire::CheckResponse::default());
    assert_eq!((none.code, none.message.as_str()), (3, "CheckResponse doesn't have PreconditionResult"));
    assert!(none.lifetime(now).is_none());
}

#[test]
fn an_answer_to_an_earlier_request_does_not_replace_a_later_one() {
    let (asked, start) = (bag(&[]), Instant::now());
    let mut cache = DecisionCache::new(LIMITS);
    let mut put = |code, since| {
        let verdict = Rc::new(Verdict::of(&answer(code, Some(Duration::from_secs(60)), -1)));
        let lifetime = verdict.lifetime(since).unwrap();
        cache.insert(b"", &asked, &references(&[]), WORDS, verdict, lifetime)
    };
    assert!(put(7, start + Duration::from_secs(1)));
    assert!(!put(0, start), "it was overtaken");
    assert!(put(5, start + Duration::from_secs(2)));
    assert_eq!(cache.get(b"", &asked, start).unwrap().code, 5);
}

#[test]
fn entries_and_bytes_are_bounded_and_the_least_used_leaves() {
    let now = Instant::now();
    let verdict = Rc::new(Verdict::of(&answer(0, None, -1)));
    let lifetime = verdict.lifetime(now).unwrap();
    let asked = |number: i64, padding: usize| {
        bag(&[("n", number.into()), ("p", "x".repeat(padding).as_str().into())])
    };
    let tests = references(&[("n", "", 2), ("p", "", 2)]);
    let mut cache = DecisionCache::new(CacheLimits { entries: 10, bytes: 1 << 20 });
    for number in 0..1000 {
        assert!(cache.insert(b"", &asked(number, 1), &tests, WORDS, Rc::clone(&verdict), lifetime));
        assert!(cache.get(b"", &asked(0, 1), now).is_some(), "in use");
    }
    assert_eq!(cache.len(), 10);
    assert!(cache.get(b"", &asked(999, 1), now).is_some() && cache.get(b"", &asked(990, 1), now).is_none());
    let limit = 64 << 10;
    let mut cache = DecisionCache::new(CacheLimits { entries: usize::MAX, bytes: limit });
    for number in 0..1000 {
        cache.insert(b"", &asked(number, 1000), &tests, WORDS, Rc::clone(&verdict), lifetime);
        assert!(cache.bytes() <= limit);
    }
    assert!(cache.len() > 20, "{}", cache.len());
    assert!(!cache.insert(b"", &asked(0, 128 << 10), &tests, WORDS, Rc::clone(&verdict), lifetime));
    let mut off = DecisionCache::new(CacheLimits { entries: 0, bytes: limit });
    assert!(!off.insert(b"", &asked(0, 1), &tests, WORDS, verdict, lifetime));
}

#[test]
fn new_shapes_do_not_displace_those_in_use() {
    let now = Instant::now();
    let verdict = Rc::new(Verdict::of(&answer(0, None, -1)));
    let lifetime = verdict.lifetime(now).unwrap();
    let mut cache = DecisionCache::new(LIMITS);
    let used = bag(&[("n", 1_i64.into())]);
    cache.insert(b"", &used, &references(&[("n", "", 2)]), WORDS, Rc::clone(&verdict), lifetime);
    for number in 0..1000 {
        let name = format!("a{number}");
        let tests = references(&[(&name, "", 1)]);
        cache.insert(b"", &bag(&[]), &tests, WORDS, Rc::clone(&verdict), lifetime);
        assert!(cache.get(b"", &used, now).is_some(), "{number}");
    }
}

fn granted(amount: i64, tests: &[(&str, &str, i32)]) -> QuotaResult {
    QuotaResult {
        valid_duration: None,
        granted_amount: amount,
        referenced_attributes: Some(references(tests)),
        status: None,
    }
}

#[test]
fn amounts_are_fetched_ahead_and_the_server_has_the_last_word() {
    let start = Instant::now();
    let asked = bag(&[("user", "a".into())]);
    let mut cache = QuotaCache::new(LIMITS);
    let quotas = [("q".to_owned(), 1)];
    // A limit of 10, as a server would keep it.
    let (mut left, mut passed, mut calls) = (10, 0, 0);
    for number in 0..20 {
        let now = start + Duration::from_millis(10 * number);
        let outcome = cache.check(&asked, &quotas, now);
        passed += u32::from(outcome.exhausted.is_empty());
        for request in outcome.requests {
            calls += 1;
            let grant = request.amount().min(left);
            left -= grant;
            cache.answer(&asked, request, Some(&granted(grant, &[("user", "", 2)])), WORDS, now);
        }
    }
    assert!((7..=13).contains(&passed), "{passed}");
    assert!(calls < 5, "{calls}");
    // Another user has amounts of his own.
    let other = bag(&[("user", "b".into())]);
    assert!(cache.check(&other, &quotas, start).exhausted.is_empty());
}

#[test]
fn a_failed_fetch_grants_and_an_expired_amount_is_gone() {
    let start = Instant::now();
    let asked = bag(&[]);
    let mut cache = QuotaCache::new(LIMITS);
    let quotas = [("q".to_owned(), 25)];
    let mut outcome = cache.check(&asked, &quotas, start);
    assert!(outcome.exhausted.is_empty(), "used before the answer");
    let request = outcome.requests.pop().unwrap();
    assert_eq!(request.amount(), 25);
    cache.answer(&asked, request, None, WORDS, start);
    let mut outcome = cache.check(&asked, &quotas, start);
    let request = outcome.requests.pop().unwrap();
    // The server grants less than was used already: the next ones pay for it.
    cache.answer(&asked, request, Some(&granted(0, &[])), WORDS, start);
    let outcome = cache.check(&asked, &quotas, start);
    assert_eq!(outcome.exhausted, ["q"]);
    assert!(outcome.requests.is_empty(), "a pause after a refusal");
    let later = start + Duration::from_secs(70);
    let mut outcome = cache.check(&asked, &quotas, later);
    assert_eq!(outcome.exhausted, ["q"], "not before the server grants again");
    cache.answer(&asked, outcome.requests.pop().unwrap(), Some(&granted(25, &[])), WORDS, later);
    assert!(cache.check(&asked, &quotas, later).exhausted.is_empty());
}

#[test]
fn a_batch_ends_by_count_time_or_bytes() {
    let start = Instant::now();
    let limits = BatchLimits { entries: 3, time: Duration::from_secs(1), bytes: 10_000 };
    let report = || bag(&[("a", "same".into())]);
    let mut batch = ReportBatch::new(limits);
    assert_eq!((batch.deadline(), batch.take(222)), (None, None));
    assert!(!batch.add(report(), start) && !batch.add(report(), start) && batch.add(report(), start));
    assert_eq!(batch.deadline(), Some(start + limits.time));
    let encoded = batch.take(222).unwrap();
    let arena = bumpalo::Bump::new();
    let request = mixer_attribute::request::ReportRequest::decode(&encoded, &arena).unwrap();
    assert_eq!((request.record_count, request.default_words.len(), request.global_word_count), (3, 2, 222));
    assert_eq!(request.semantics, mixer_attribute::request::Semantics::Independent);
    assert!(batch.is_empty());
    assert!(!batch.add(report(), start));
    assert!(batch.add(report(), start + limits.time), "a second after the first");
    batch.take(222);
    assert!(batch.add(bag(&[("a", "x".repeat(10_000).as_str().into())]), start));
}

#[test]
fn a_batch_ends_before_a_server_would_not_take_its_words() {
    let start = Instant::now();
    let limits = BatchLimits { entries: 1000, time: Duration::from_secs(1), bytes: 100 << 20 };
    let mut batch = ReportBatch::new(limits);
    let report = |number: usize| {
        let entries =
            (0..1000).map(|entry| (format!("{number}-{entry}").into(), format!("{entry}={number}").into()));
        bag(&[("m", OwnedValue::StringMap(entries.collect()))])
    };
    let ended = (0..1000).find(|number| batch.add(report(*number), start)).unwrap();
    let encoded = batch.take(222).unwrap();
    let arena = bumpalo::Bump::new();
    let request = mixer_attribute::request::ReportRequest::decode(&encoded, &arena).unwrap();
    assert_eq!(request.record_count, ended + 1);
    assert!(request.default_words.len() <= 65_536 && ended > 5, "{ended}");
    assert!(!batch.add(report(0), start), "the next one begins anew");
}
