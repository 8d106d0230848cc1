//! The state machine by itself, and the model against Redis.

use super::super::scripts::{Allocated, FIXED, LEASE_FIXED, LEASE_ROLLING, ROLLING, allocated_of};
use super::model::{Kind, Model};
use super::*;
use crate::redisquota::tests::server::RedisServer;

const MILLI: u64 = 1_000_000;
const LEASE: u64 = 1000 * MILLI;
const PATIENCE: u64 = 2000 * MILLI;

fn send(lease: &mut Lease, now: u64) -> Request {
    match lease.step(now, PATIENCE) {
        Step::Send(request) => request,
        step => panic!("{step:?}"),
    }
}

fn answer(granted: i64, kept: i64, available: i64) -> Answer {
    Answer { granted, kept, window: 7, valid: 60 * LEASE, available }
}

/// A lease with a share of 100, of which one is granted.
fn with_share() -> Lease {
    let mut lease = Lease::new(LEASE, 1000, 0);
    assert_eq!(lease.call(0, 1, false, true), Outcome::Waits);
    let request = send(&mut lease, 0);
    assert_eq!((request.number, request.need, request.least, request.extra), (1, 1, 1, 0));
    lease.answer(MILLI, 1, &answer(100, 0, 900));
    assert_eq!(lease.call(MILLI, 1, false, false), Outcome::Granted(1, 60 * LEASE - MILLI));
    lease
}

#[test]
fn a_share_begins_when_it_was_requested_and_ends_a_margin_early() {
    let mut lease = with_share();
    assert_eq!((lease.held(LEASE * 62 / 64), lease.held(LEASE * 63 / 64)), (99, 0));
    assert_eq!(lease.call(LEASE * 63 / 64, 1, true, true), Outcome::Waits);
    let request = send(&mut lease, LEASE * 63 / 64);
    assert_eq!((request.spent, request.acknowledged, request.keep), (1, 0, 0), "nothing is kept of it");
}

#[test]
fn what_is_known_follows_answers_and_grants() {
    let mut lease = Lease::new(LEASE, 1000, 0);
    assert_eq!(lease.status(0), None);
    lease = with_share();
    let known = lease.status(2 * MILLI).unwrap();
    let ends = LEASE * 63 / 64;
    let status = LeaseStatus { limit: 1000, used: 1, known_at: MILLI, share: 100, granted: 1, ends };
    assert_eq!(known, status);
    lease.call(2 * MILLI, 9, false, true);
    assert_eq!(lease.status(2 * MILLI), Some(LeaseStatus { used: 10, granted: 10, ..status }));
    // A share that cannot be granted any more counts as used.
    assert_eq!(lease.status(LEASE).unwrap().used, 100);
    let sent = LEASE / 2 + 2 * MILLI;
    assert_eq!(send(&mut lease, sent).keep, 0);
    assert_eq!(lease.status(sent), Some(LeaseStatus { used: 100, share: 10, granted: 10, ..status }));
    lease.answer(sent + MILLI, 2, &answer(0, 0, 700));
    let known = lease.status(sent + MILLI).unwrap();
    assert_eq!((known.used, known.share, known.granted, known.known_at), (300, 0, 0, sent + MILLI));
    // The window is over.
    assert_eq!(lease.status(sent + 60 * LEASE), None);
}

#[test]
fn a_share_does_not_outlive_its_window() {
    let mut lease = Lease::new(LEASE, 1000, 0);
    lease.call(0, 1, false, true);
    send(&mut lease, 0);
    lease.answer(MILLI, 1, &Answer { valid: 100 * MILLI, ..answer(10, 0, 0) });
    assert_eq!((lease.held(98 * MILLI), lease.held(99 * MILLI)), (10, 0));
}

#[test]
fn what_nobody_asks_for_is_given_back_after_half_a_lease_time() {
    let mut lease = with_share();
    assert_eq!(lease.step(2 * MILLI, PATIENCE), Step::Later(LEASE / 2));
    // A last call just before: it goes on for half a lease time.
    let request = send(&mut lease, LEASE / 2 + 2 * MILLI);
    assert_eq!((request.keep, request.extra, request.need, request.spent), (0, 0, 0, 1));
    lease.answer(LEASE / 2 + 3 * MILLI, 2, &answer(0, 0, 999));
    assert_eq!(lease.step(LEASE / 2 + 3 * MILLI, PATIENCE), Step::Rest);
    assert!(lease.is_idle(2 * LEASE));
}

#[test]
fn a_share_that_falls_below_half_of_what_is_wanted_is_filled_up_without_a_wait() {
    let mut lease = with_share();
    for call in 0..60_u64 {
        assert!(matches!(lease.call(2 * MILLI + call * MILLI, 1, false, true), Outcome::Granted(1, _)));
    }
    // It is not known yet that more are wanted.
    assert!(matches!(lease.step(62 * MILLI, PATIENCE), Step::Later(_)));
    for call in 62..102_u64 {
        lease.call(call * MILLI, 1, false, true);
    }
    let request = send(&mut lease, 102 * MILLI);
    assert_eq!((request.number, request.need, request.keep), (2, 1, 0));
    // A call a millisecond: 500 in half a lease time, of which the share becomes twice what came.
    assert_eq!(request.extra, 200);
    lease.answer(103 * MILLI, 2, &answer(201, 0, 700));
    for call in 103..206_u64 {
        assert!(matches!(lease.call(call * MILLI, 1, false, true), Outcome::Granted(1, _)));
    }
    let request = send(&mut lease, 206 * MILLI);
    assert_eq!((request.number, request.need, request.keep), (3, 0, 98));
    assert!(
        matches!(lease.call(206 * MILLI, 1, false, true), Outcome::Granted(1, _)),
        "what is kept serves on"
    );
}

#[test]
fn refusals_are_remembered_for_a_moment() {
    let mut lease = Lease::new(LEASE, 1000, 0);
    lease.call(0, 10, false, true);
    send(&mut lease, 0);
    lease.answer(MILLI, 1, &answer(0, 0, 4));
    assert_eq!(lease.call(MILLI, 10, false, false), Outcome::Refused);
    assert_eq!(lease.call(MILLI, 5, false, true), Outcome::Refused);
    assert_eq!(lease.call(MILLI, 4, false, true), Outcome::Waits, "so many there are");
    assert_eq!(lease.call(2 * MILLI, 10, true, true), Outcome::Waits, "a part is better than nothing");
    let request = send(&mut lease, 3 * MILLI);
    assert_eq!((request.need, request.least), (14, 1));
    lease.answer(4 * MILLI, 2, &answer(4, 0, 0));
    assert_eq!(lease.call(4 * MILLI, 4, false, false), Outcome::Granted(4, 60 * LEASE - MILLI));
    assert_eq!(lease.call(4 * MILLI, 10, true, false), Outcome::Refused);
    assert_eq!(lease.call(60 * MILLI, 1, true, true), Outcome::Waits, "others may have given something back");
}

#[test]
fn an_answer_that_was_given_up_has_no_effect() {
    let mut lease = with_share();
    lease.call(MILLI, 500, false, true);
    let lost = send(&mut lease, MILLI);
    lease.fail(10 * MILLI);
    assert!(matches!(lease.step(11 * MILLI, PATIENCE), Step::Later(_)));
    let next = send(&mut lease, 10 * MILLI + LEASE / 8);
    assert_eq!((lost.number, next.number, next.acknowledged), (2, 3, 0));
    assert_eq!(lease.answer(LEASE / 8 + 11 * MILLI, 2, &answer(401, 99, 0)), 0);
    assert!(lease.is_sent());
}

#[test]
fn what_is_given_back_is_not_granted_while_the_answer_is_on_its_way() {
    let mut lease = with_share();
    let last = lease.settle(2 * MILLI).unwrap();
    assert_eq!((last.keep, last.spent), (0, 1));
    assert_eq!(lease.call(3 * MILLI, 1, true, true), Outcome::Waits);
}

#[test]
fn a_lease_that_redis_has_forgotten_is_another_one() {
    let mut lease = with_share();
    assert_eq!(lease.step(4 * LEASE, PATIENCE), Step::Lost(99));
    assert_eq!((lease.generation(), lease.held(4 * LEASE)), (1, 0));
    assert_eq!(lease.settle(4 * LEASE), None);
}

#[test]
fn the_total_stays_within_what_scripts_count() {
    let mut lease = Lease::new(LEASE, MAX_LIMIT, 0);
    lease.call(0, MAX_LIMIT, false, true);
    send(&mut lease, 0);
    lease.answer(MILLI, 1, &answer(MAX_LIMIT, 0, 0));
    assert!(matches!(lease.call(MILLI, MAX_LIMIT, false, false), Outcome::Granted(..)));
    lease.call(100 * MILLI, 1, false, true);
    let last = send(&mut lease, 100 * MILLI);
    assert_eq!((last.spent, last.need, last.keep), (MAX_LIMIT, 0, 0));
    lease.answer(101 * MILLI, 2, &answer(0, 0, 0));
    assert_eq!(lease.generation(), 1);
}

/// The script with a clock that the last argument shows, in microseconds, and without expiries, which are in real time.
fn with_clock(script: &str) -> redis::Script {
    let time = "redis.call('TIME')";
    assert!(script.contains(time));
    let script = script.replace(time, "{0, ARGV[#ARGV]}");
    let calls: Vec<&str> =
        script.lines().filter(|line| !line.trim().starts_with("redis.call('PEXPIRE'")).collect();
    redis::Script::new(&calls.join("\n"))
}

#[tokio::test]
async fn the_model_is_what_redis_does() {
    let server = RedisServer::start(&[]).await;
    let client = redis::Client::open(format!("redis://{}", server.address())).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let scripts = [FIXED, ROLLING, LEASE_FIXED, LEASE_ROLLING].map(with_clock);
    for seed in 0..60 {
        let mut random = fastrand::Rng::with_seed(seed);
        let rolling = seed % 2 == 1;
        let step = if rolling { random.i64(1..=200_000) * 1000 } else { 0 };
        let limit = random.choice([5, 50, 500]).unwrap();
        let kind = Kind { limit, length: 1_000_000_000, step, lease: 30_000_000 };
        let mut model = Model::default();
        let mut micros = 1_000_000_i64;
        let mut requests: Vec<Request> = Vec::new();
        for round in 0..80 {
            micros += match random.u8(0..20) {
                0 => -random.i64(0..3_000_000).min(micros - 1_000_000),
                1 => random.i64(0..3_000_000),
                _ => random.i64(0..40_000),
            };
            let now = micros * 1000;
            let meta = format!("w{seed}.meta");
            let data = format!("w{seed}.data");
            if random.u8(0..4) == 0 {
                let (amount, best_effort) = (random.i64(-5..60), random.bool());
                let id = format!("id{}", random.u8(0..30));
                let mut call = scripts[usize::from(rolling)].prepare_invoke();
                call.key(&meta).key(format!("{id}-w{seed}"));
                if rolling {
                    call.key(&data);
                }
                call.arg(limit)
                    .arg(kind.length)
                    .arg(step)
                    .arg(i64::from(best_effort))
                    .arg(amount)
                    .arg(micros);
                let numbers: Vec<i64> = call.invoke_async(&mut connection).await.unwrap();
                let Allocated { granted, valid, left } = allocated_of(&numbers).unwrap();
                let modelled = model.allocate(&kind, now, amount, best_effort, &id);
                assert_eq!((granted, valid), modelled, "seed {seed}, round {round}: {amount} {best_effort}");
                if let Some((left, lasts)) = left {
                    let window = if rolling { kind.length } else { model.ends.unwrap_or(0) - now };
                    assert_eq!((left, lasts), ((limit - model.used).max(0), window.cast_unsigned()));
                }
                continue;
            }
            let last = requests.last().copied();
            let request = match last.filter(|_| random.u8(0..6) == 0) {
                // An earlier one arrives again.
                Some(_) => requests[random.usize(0..requests.len())],
                None => Request {
                    number: last.map_or(1, |last| last.number + 1),
                    spent: last.map_or(0, |last| last.spent) + random.i64(0..5),
                    acknowledged: last.map_or(0, |last| last.spent),
                    keep: random.i64(0..10),
                    window: if random.bool() { model.ends.unwrap_or(0) } else { 0 },
                    need: random.i64(0..10),
                    least: random.i64(0..5),
                    extra: random.i64(0..100),
                },
            };
            requests.push(request);
            let id = format!("lease{}", random.u8(0..3));
            let mut call = scripts[2 + usize::from(rolling)].prepare_invoke();
            call.key(&meta).key(format!("w{seed}.leases"));
            if rolling {
                call.key(&data);
            }
            call.arg(limit).arg(kind.length).arg(step).arg(&id).arg(request.number);
            call.arg(request.spent).arg(request.acknowledged).arg(request.keep).arg(request.window);
            call.arg(request.need).arg(request.least).arg(request.extra).arg(kind.lease).arg(micros);
            let real: Vec<i64> = call.invoke_async(&mut connection).await.unwrap();
            let real = super::super::scripts::answer_of(&real);
            let modelled = model.lease(&kind, now, &id, &request);
            assert_eq!(real, modelled, "seed {seed}, round {round}: {request:?}");
            let used: Option<i64> =
                redis::cmd("HGET").arg(&meta).arg("token").query_async(&mut connection).await.unwrap();
            assert_eq!(used.unwrap_or(0), model.used, "seed {seed}, round {round}");
        }
    }
}
