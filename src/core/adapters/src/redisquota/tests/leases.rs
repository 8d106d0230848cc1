//! Leases over a real Redis: what servers grant together, and what is left when one of them ends or dies.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use super::server::{RedisServer, until};
use super::*;
use mixer_base::budget::{MIN_MEMORY_LIMIT, MemoryBudget};
use mixer_base::metrics::{Family, SampleValue};

/// The key of the window of the service `none`.
const WINDOW: &str = "q.instance.istio-system;svc=none";

/// A limit in an hour: no test takes as long.
fn leased(max_amount: i64) -> Quota {
    let valid_duration = SignedDuration::from_secs(3600);
    Quota { max_amount, valid_duration, lease_duration: SignedDuration::from_secs(1), ..quota() }
}

fn rolling(quota: Quota) -> Quota {
    let bucket_duration = SignedDuration::from_secs(1);
    Quota { rate_limit_algorithm: Algorithm::RollingWindow, bucket_duration, ..quota }
}

async fn with_quota(server: &RedisServer, quota: Quota) -> (Arc<dyn Handler>, Env) {
    let (handler, env) = handler(Params { quotas: vec![quota], ..params(&server.address()) }).await;
    (handler.into(), env)
}

/// What Redis counts as used.
async fn used(server: &RedisServer) -> i64 {
    server.ask(&format!("HGET {WINDOW}.meta token")).await
}

/// What a server can grant without Redis.
fn held(env: &Env) -> i64 {
    let samples = env.metrics.samples();
    let name = Family::RedisquotaLeased.info().name;
    let family = samples.iter().find(|family| family.info.name == name).expect("the family");
    let numbers = family.samples.iter().map(|sample| match sample.value {
        SampleValue::Number(number) => number as i64,
        SampleValue::Histogram(_) => 0,
    });
    numbers.sum()
}

/// Counts what is granted to calls.
#[derive(Default)]
struct Load {
    calls: AtomicU64,
    granted: AtomicI64,
}

impl Load {
    /// Calls a server so often, 32 at a time.
    async fn call(self: &Arc<Self>, handler: &Arc<dyn Handler>, calls: u64) {
        let tasks = (0..32).map(|_| {
            let (load, handler) = (Arc::clone(self), Arc::clone(handler));
            tokio::spawn(async move {
                for _ in 0..calls / 32 {
                    let id = format!("{:x}", load.calls.fetch_add(1, Ordering::Relaxed));
                    if let Ok(result) = allocate(&*handler, "none", &id, 1, false).await {
                        load.granted.fetch_add(result.granted, Ordering::Relaxed);
                    }
                }
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.unwrap();
        }
    }

    fn granted(&self) -> i64 {
        self.granted.load(Ordering::Relaxed)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_servers_grant_exactly_the_limit_without_leases() {
    let server = RedisServer::start(&[]).await;
    let quota = Quota { lease_duration: SignedDuration::ZERO, ..leased(20_000) };
    let mut servers = Vec::new();
    for _ in 0..3 {
        servers.push(with_quota(&server, quota.clone()).await);
    }
    let load = Arc::new(Load::default());
    let calls = servers.iter().map(|(handler, _)| {
        let (load, handler) = (Arc::clone(&load), Arc::clone(handler));
        tokio::spawn(async move { load.call(&handler, 11_200).await })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.unwrap();
    }
    assert_eq!(load.granted(), 20_000);
    for (_, env) in servers {
        env.tasks.shut_down().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_servers_with_leases_grant_the_limit_to_demand_that_moves() {
    for quota in [leased(60_000), rolling(leased(60_000))] {
        let server = RedisServer::start(&[]).await;
        let limit = quota.max_amount;
        let mut servers = Vec::new();
        for _ in 0..3 {
            servers.push(with_quota(&server, quota.clone()).await);
        }
        let load = Arc::new(Load::default());
        for (handler, _) in &servers[..2] {
            load.call(handler, 25_600).await;
        }
        assert_eq!(load.granted(), 51_200, "none is refused while there is something left");
        // The others give back what they hold.
        load.call(&servers[2].0, 48_000).await;
        until("nearly all is granted", async || {
            load.call(&servers[2].0, 320).await;
            load.granted() >= limit * 97 / 100
        })
        .await;
        until("all is granted", async || {
            load.call(&servers[2].0, 32).await;
            load.granted() == limit
        })
        .await;
        load.call(&servers[0].0, 320).await;
        load.call(&servers[1].0, 320).await;
        assert_eq!(load.granted(), limit, "and no more");
        let asked: u64 = server
            .ask::<String>("INFO commandstats")
            .await
            .lines()
            .filter_map(|line| {
                line.strip_prefix("cmdstat_evalsha:calls=")?.split(',').next()?.parse::<u64>().ok()
            })
            .sum();
        let calls = load.calls.load(Ordering::Relaxed);
        assert!(asked < calls / 2, "{asked} round trips for {calls} calls");
        for (_, env) in servers {
            env.tasks.shut_down().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_dies_costs_what_it_held() {
    for quota in [leased(20_000), rolling(leased(20_000))] {
        let server = RedisServer::start(&[]).await;
        let limit = quota.max_amount;
        let (dying, dying_env) = with_quota(&server, quota.clone()).await;
        let (other, env) = with_quota(&server, quota).await;
        let load = Arc::new(Load::default());
        until("it holds a lease", async || {
            load.call(&dying, 320).await;
            held(&dying_env) > 0
        })
        .await;
        // Its tasks end, and it gives back nothing.
        dying_env.tasks.shut_down().await;
        let known = load.granted();
        let lost = used(&server).await - known;
        assert!((1..=limit / 8 + 32).contains(&lost), "{lost}");
        until("the rest is granted", async || {
            load.call(&other, 3200).await;
            load.granted() >= limit - lost
        })
        .await;
        load.call(&other, 3200).await;
        assert_eq!(load.granted(), limit - lost, "{known} before");
        env.tasks.shut_down().await;
        drop(dying);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_closes_gives_back_what_it_holds() {
    for quota in [leased(10_000), rolling(leased(10_000))] {
        let server = RedisServer::start(&[]).await;
        let (handler, env) = with_quota(&server, quota).await;
        let load = Arc::new(Load::default());
        until("it holds a lease", async || {
            load.call(&handler, 320).await;
            held(&env) > 0
        })
        .await;
        assert!(used(&server).await >= load.granted());
        handler.close(std::time::Duration::from_secs(10)).await.unwrap();
        assert_eq!(used(&server).await, load.granted());
        let notes = handler.status().notes;
        let note = |name: &str| &notes.iter().find(|note| note.0 == name).unwrap().1;
        assert_eq!((&**note("mode"), &**note("lost")), ("leases of up to 1s", "0"));
        assert!(note("live leases").starts_with("0, of 0 in all"), "{}", note("live leases"));
        assert_ne!(note("given back"), "0");
        env.tasks.shut_down().await;
    }
}

#[tokio::test]
async fn a_lease_that_nobody_uses_is_given_back_and_forgotten() {
    let server = RedisServer::start(&[]).await;
    let (handler, env) = with_quota(&server, leased(10_000)).await;
    let load = Arc::new(Load::default());
    until("it holds a lease", async || {
        load.call(&handler, 320).await;
        held(&env) > 0
    })
    .await;
    until("it is given back", async || used(&server).await == load.granted()).await;
    let name = "live leases";
    let bytes = || handler.status().notes.iter().find(|note| note.0 == name).unwrap().1.clone();
    until("it is forgotten", async || bytes() == "0, of 0 in all; 0 bytes").await;
    env.tasks.shut_down().await;
}

#[tokio::test]
async fn an_id_is_charged_once_by_a_server() {
    let server = RedisServer::start(&[]).await;
    let (handler, env) = with_quota(&server, leased(10_000)).await;
    for round in 0..200 {
        let id = format!("{}", round % 100);
        let result = allocate(&*handler, "none", &id, 3, true).await.unwrap();
        assert_eq!(result.granted, 3);
        assert!(result.valid_duration > SignedDuration::from_secs(3500), "{}", result.valid_duration);
    }
    handler.close(std::time::Duration::from_secs(10)).await.unwrap();
    assert_eq!(used(&server).await, 300);
    env.tasks.shut_down().await;
}

#[tokio::test]
async fn amounts_are_granted_as_without_leases() {
    let server = RedisServer::start(&[]).await;
    let (handler, env) = with_quota(&server, leased(10)).await;
    let grant = async |id: &str, amount, best_effort| {
        allocate(&*handler, "none", id, amount, best_effort).await.unwrap().granted
    };
    assert_eq!(grant("a", 6, false).await, 6);
    assert_eq!(grant("b", 5, false).await, 0, "all or nothing");
    assert_eq!(grant("c", 5, true).await, 4, "what there is");
    assert_eq!(grant("d", 1, true).await, 0);
    assert_eq!(grant("e", 0, true).await, 0);
    assert_eq!(grant("f", -3, true).await, -3, "released");
    until("what was released is granted", async || {
        // A refusal is remembered for a moment.
        grant("g", 3, false).await == 3
    })
    .await;
    assert_eq!(used(&server).await, 10);
    env.tasks.shut_down().await;
}

#[tokio::test]
async fn leases_that_find_no_room_give_way_and_give_back() {
    let server = RedisServer::start(&[]).await;
    let env = test_env("h.istio-system");
    env.commons.insert(Arc::new(MemoryBudget::new(MIN_MEMORY_LIMIT)));
    let instance = bound(NAME, "quota", "dimensions", &[("svc", ValueType::String)]);
    let with = Params { quotas: vec![leased(1000)], ..params(&server.address()) };
    let handler = RedisQuota::build(with, vec![instance], env.clone()).await.unwrap();
    let limit = env.commons.get::<MemoryBudget>().share(mixer_base::budget::Purpose::QuotaCells).limit();
    let mut granted = 0;
    for service in 0..2500 {
        let service = format!("{service}{}", "x".repeat(100));
        for call in 0..3 {
            let id = format!("{service}{call}");
            granted += allocate(&*handler, &service, &id, 1, false).await.unwrap().granted;
        }
    }
    assert_eq!(granted, 7500);
    let share = env.commons.get::<MemoryBudget>();
    let in_use = share.share(mixer_base::budget::Purpose::QuotaCells).used();
    assert!(in_use <= limit, "{in_use} of {limit}");
    handler.close(std::time::Duration::from_secs(30)).await.unwrap();
    let count = "local sum = 0 for _, key in ipairs(redis.call('KEYS', '*.meta')) do sum = sum + (redis.call('HGET', key, 'token') or 0) end return sum";
    let client = redis::Client::open(format!("redis://{}", server.address())).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    until("all is given back", async || {
        let sum: i64 = redis::cmd("EVAL").arg(count).arg(0).query_async(&mut connection).await.unwrap();
        assert!(sum >= granted);
        sum == granted
    })
    .await;
    env.tasks.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_is_killed_under_load_is_found_again() {
    let mut server = RedisServer::start(&[]).await;
    let (handler, env) = with_quota(&server, leased(1_000_000)).await;
    let load = Arc::new(Load::default());
    for round in 0..3 {
        let before = load.granted();
        until("grants", async || {
            load.call(&handler, 320).await;
            load.granted() >= before + 1000
        })
        .await;
        let calling = {
            let (load, handler) = (Arc::clone(&load), Arc::clone(&handler));
            tokio::spawn(async move { load.call(&handler, 3200).await })
        };
        server.kill();
        calling.await.unwrap();
        // From leases that were there, or not at all.
        let id = format!("after {round}");
        let _ = allocate(&*handler, "none", &id, 1, false).await;
        server.restart().await;
    }
    until("a grant", async || {
        allocate(&*handler, "none", "last", 1, false).await.is_ok_and(|r| r.granted == 1)
    })
    .await;
    assert_eq!(handler.degradation(), None);
    handler.close(std::time::Duration::from_secs(10)).await.unwrap();
    let counted = used(&server).await;
    // With the calls between rounds.
    assert!(counted <= load.granted() + 4, "{counted} of {}", load.granted());
    env.tasks.shut_down().await;
}

/// What calls get without Redis, with and without leases.
#[tokio::test]
async fn without_redis_calls_get_what_the_mode_says() {
    let mut server = RedisServer::start(&[]).await;
    server.kill();
    for lease_duration in [SignedDuration::ZERO, SignedDuration::from_secs(1)] {
        let rows = [
            (OutageMode::Fail, 0, Err(()), Err(())),
            (OutageMode::FailOpen, 0, Ok(4), Ok(4)),
            (OutageMode::FailClosed, 0, Ok(0), Ok(0)),
            // 4 of 12, in each window.
            (OutageMode::LocalShare, 34, Ok(4), Ok(0)),
        ];
        for (outage_mode, local_share_percent, first, second) in rows {
            let quota = Quota { lease_duration, ..leased(12) };
            let with =
                Params { quotas: vec![quota], outage_mode, local_share_percent, ..params(&server.address()) };
            let (handler, env) = handler(with).await;
            let ask = async |id: &str, amount| {
                allocate(&*handler, "none", id, amount, true).await.map(|r| r.granted).map_err(drop)
            };
            assert_eq!((ask("a", 4).await, ask("b", 4).await), (first, second), "{outage_mode:?}");
            if outage_mode == OutageMode::LocalShare {
                assert_eq!(ask("a", 4).await, Ok(4), "the answer to an id is repeated");
                assert_eq!((ask("c", -1).await, ask("d", 4).await), (Ok(-1), Ok(1)), "released");
            }
            let mut text = Vec::new();
            env.metrics.write(&mut text);
            let text = String::from_utf8(text).unwrap();
            let mode = match outage_mode {
                OutageMode::Fail => "fails",
                OutageMode::FailOpen => "open",
                OutageMode::FailClosed => "closed",
                OutageMode::LocalShare => "local",
            };
            let line = format!("mixer_redisquota_outage{{handler=\"h.istio-system\",mode=\"{mode}\"}} 1");
            assert!(text.contains(&line), "{text}");
            assert!(handler.degradation().is_some());
            assert!(handler.status().notes.iter().any(|note| note.0 == "without Redis"));
            env.tasks.shut_down().await;
        }
    }
}

#[tokio::test]
async fn a_lease_serves_while_redis_hangs() {
    let server = RedisServer::start(&[]).await;
    let quota = Quota { lease_duration: MAX_LEASE, ..leased(100_000) };
    let (handler, env) = with_quota(&server, quota).await;
    let load = Arc::new(Load::default());
    until("it holds a lease", async || {
        load.call(&handler, 320).await;
        held(&env) > 10
    })
    .await;
    server.signal("-STOP");
    for id in ["x", "y", "z"] {
        assert_eq!(granted(&*handler, id, 1).await, 1);
    }
    server.signal("-CONT");
    env.tasks.shut_down().await;
}
