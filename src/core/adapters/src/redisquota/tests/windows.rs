//! What scripts grant, and the keys that they leave.

use std::collections::BTreeMap;

use super::server::RedisServer;
use super::*;

/// All hashes, without times.
async fn hashes(server: &RedisServer) -> BTreeMap<String, BTreeMap<String, String>> {
    let keys: Vec<String> = server.ask("KEYS *").await;
    let mut all = BTreeMap::new();
    for key in keys {
        if server.ask::<String>(&format!("TYPE {key}")).await == "hash" {
            let mut fields: BTreeMap<String, String> = server.ask(&format!("HGETALL {key}")).await;
            for time in ["expire", "bucket.timestamp"] {
                if let Some(nanos) = fields.remove(time) {
                    assert_eq!(nanos.len(), 19, "nanoseconds since 1970, as an integer: {nanos}");
                }
            }
            assert!(server.ask::<i64>(&format!("PTTL {key}")).await > 0, "{key} expires");
            all.insert(key, fields);
        }
    }
    all
}

/// Moves the times in a window into the past, as if so many seconds went by.
async fn age(server: &RedisServer, name: &str, seconds: i64) {
    for (key, field) in [(format!("{name}.meta"), "expire"), (format!("{name}.meta"), "bucket.timestamp")] {
        let known: Option<i64> = server.ask(&format!("HGET {key} {field}")).await;
        if let Some(nanos) = known {
            let _: i64 = server.ask(&format!("HSET {key} {field} {}", nanos - seconds * 1_000_000_000)).await;
        }
    }
    let members: Vec<(String, f64)> = server.ask(&format!("ZRANGE {name}.data 0 -1 WITHSCORES")).await;
    for (member, score) in members {
        let score = score as i64 - seconds * 1_000_000_000;
        let _: i64 = server.ask(&format!("ZADD {name}.data {score} {member}")).await;
    }
}

fn of<const N: usize>(fields: [(&str, &str); N]) -> BTreeMap<String, String> {
    fields.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

#[tokio::test]
async fn a_fixed_window_grants_its_limit() {
    let server = RedisServer::start(&[]).await;
    let (handler, env) = handler(params(&server.address())).await;
    let grant = async |service, id, amount, best_effort| {
        let result = allocate(&*handler, service, id, amount, best_effort).await.unwrap();
        let seconds = result.valid_duration.nanos as f64 / 1e9;
        assert!(
            if result.granted == 0 { seconds == 0.0 } else { seconds > 0.0 && seconds <= 30.0 },
            "{seconds}"
        );
        result.granted
    };
    assert_eq!(grant("none", "d1q", 3, false).await, 3);
    assert_eq!(grant("none", "d2q", 3, false).await, 0);
    assert_eq!(grant("none", "d3q", 3, true).await, 2);
    assert_eq!(grant("none", "d4q", 1, true).await, 0);
    assert_eq!(grant("other", "d5q", 4, false).await, 4);
    // The answer to an id that is known, whatever is asked for.
    assert_eq!(grant("none", "d1q", 1, false).await, 3);
    let wanted = [
        ("q.instance.istio-system;svc=none;%id=d1q.meta", "3"),
        ("q.instance.istio-system;svc=none;%id=d3q.meta", "2"),
        ("q.instance.istio-system;svc=other;%id=d5q.meta", "4"),
        ("q.instance.istio-system;svc=none.meta", "5"),
        ("q.instance.istio-system;svc=other.meta", "4"),
    ];
    let wanted: BTreeMap<_, _> =
        wanted.into_iter().map(|(key, token)| (key.to_owned(), of([("token", token)]))).collect();
    assert_eq!(hashes(&server).await, wanted);
    // The next window.
    age(&server, "q.instance.istio-system;svc=none", 31).await;
    assert_eq!(grant("none", "d6q", 5, false).await, 5);
    env.tasks.shut_down().await;
}

#[tokio::test]
async fn what_is_released_is_not_more_than_what_is_used() {
    let server = RedisServer::start(&[]).await;
    let rolling = Quota {
        rate_limit_algorithm: Algorithm::RollingWindow,
        bucket_duration: SignedDuration::from_secs(1),
        ..quota()
    };
    for (service, quota) in [("fixed", quota()), ("rolling", rolling)] {
        let (handler, env) = handler(Params { quotas: vec![quota], ..params(&server.address()) }).await;
        let grant = async |id, amount| allocate(&*handler, service, id, amount, true).await.unwrap().granted;
        assert_eq!(grant("aq", 3).await, 3);
        assert_eq!(grant("bq", -2).await, -2);
        assert_eq!(grant("cq", -100).await, -100);
        assert_eq!(grant("dq", 100).await, 5, "{service}: the limit, and no more");
        assert_eq!(grant("eq", -1).await, -1, "{service}: also when all is used");
        assert_eq!(grant("fq", 100).await, 1, "{service}");
        assert_eq!(grant("gq", 0).await, 0);
        env.tasks.shut_down().await;
    }
}

#[tokio::test]
async fn the_first_override_that_matches_has_a_window_of_its_own() {
    let server = RedisServer::start(&[]).await;
    let over = |service: &str, max_amount| Override {
        dimensions: Entries::from([("svc".to_owned(), Some(service.to_owned()))]),
        max_amount,
    };
    let quota = Quota { overrides: vec![over("web", 2), over("web", 4), over("db", 1)], ..quota() };
    let (handler, env) = handler(Params { quotas: vec![quota], ..params(&server.address()) }).await;
    for (service, wanted) in [("web", 2), ("db", 1), ("none", 5)] {
        let granted = allocate(&*handler, service, service, 9, true).await.unwrap().granted;
        assert_eq!(granted, wanted, "{service}");
    }
    let keys = hashes(&server).await;
    assert!(keys.contains_key("q.instance.istio-system;svc=web-2161902848.meta"), "{keys:?}");
    env.tasks.shut_down().await;
}

#[tokio::test]
async fn a_rolling_window_gives_back_what_was_granted_a_window_ago() {
    let server = RedisServer::start(&[]).await;
    let quota = Quota {
        rate_limit_algorithm: Algorithm::RollingWindow,
        bucket_duration: SignedDuration::from_secs(1),
        ..quota()
    };
    let (handler, env) = handler(Params { quotas: vec![quota], ..params(&server.address()) }).await;
    let name = "q.instance.istio-system;svc=none";
    assert_eq!(granted(&*handler, "aq", 2).await, 2);
    age(&server, name, 10).await;
    assert_eq!(granted(&*handler, "bq", 2).await, 2);
    assert_eq!(granted(&*handler, "cq", 2).await, 0);
    let best_effort = allocate(&*handler, "none", "dq", 2, true).await.unwrap();
    assert_eq!(best_effort, QuotaResult { granted: 1, valid_duration: SignedDuration::from_secs(30) });
    assert_eq!(allocate(&*handler, "none", "eq", 2, true).await.unwrap(), QuotaResult::default());
    // The first two are over.
    age(&server, name, 20).await;
    assert_eq!(granted(&*handler, "fq", 3).await, 0);
    assert_eq!(granted(&*handler, "gq", 2).await, 2);
    let fields = &hashes(&server).await[&format!("{name}.meta")];
    assert_eq!(*fields, of([("token", "5"), ("bucket.token", "2"), ("key", "2")]));
    assert_eq!(server.ask::<Vec<String>>(&format!("ZRANGE {name}.data 0 -1")).await, ["2.3"]);
    assert!(server.ask::<i64>(&format!("PTTL {name}.data")).await > 0, "it expires");
    age(&server, name, 30).await;
    assert_eq!(granted(&*handler, "hq", 5).await, 5);
    env.tasks.shut_down().await;
}

#[tokio::test]
async fn a_clock_that_is_set_back_holds_a_window_no_longer_than_it_is() {
    let server = RedisServer::start(&[]).await;
    let name = "q.instance.istio-system;svc=none";
    let rolling = Quota {
        rate_limit_algorithm: Algorithm::RollingWindow,
        bucket_duration: SignedDuration::from_secs(1),
        ..quota()
    };
    for (round, quota) in [quota(), rolling].into_iter().enumerate() {
        let (handler, env) = handler(Params { quotas: vec![quota], ..params(&server.address()) }).await;
        let grant = async |id: &str, amount| granted(&*handler, &format!("{round}{id}"), amount).await;
        assert_eq!(grant("a", 3).await, 3);
        age(&server, name, 5).await;
        assert_eq!(grant("b", 2).await, 2);
        age(&server, name, -3600).await;
        assert_eq!(grant("c", 1).await, 0, "{round}: what is used counts");
        age(&server, name, 31).await;
        assert_eq!(grant("d", 5).await, 5, "{round}: a window later all is available");
        env.tasks.shut_down().await;
        let _: String = server.ask("FLUSHALL").await;
    }
}

#[tokio::test]
async fn amounts_are_those_that_scripts_can_count() {
    let server = RedisServer::start(&[]).await;
    let (handler, env) = handler(Params {
        quotas: vec![Quota { max_amount: i64::MAX, ..quota() }],
        ..params(&server.address())
    })
    .await;
    let most = 1 << 53;
    assert_eq!(granted(&*handler, "a", i64::MAX).await, most);
    assert_eq!(granted(&*handler, "b", i64::MAX).await, 0);
    assert_eq!(granted(&*handler, "c", i64::MIN).await, -most);
    env.tasks.shut_down().await;
}

#[tokio::test]
async fn windows_of_less_than_a_millisecond_work() {
    let server = RedisServer::start(&[]).await;
    for algorithm in [Algorithm::FixedWindow, Algorithm::RollingWindow] {
        let quota = Quota {
            valid_duration: SignedDuration::from_nanos(1_500_000),
            bucket_duration: SignedDuration::from_nanos(500_001),
            rate_limit_algorithm: algorithm,
            ..quota()
        };
        let (handler, env) = handler(Params { quotas: vec![quota], ..params(&server.address()) }).await;
        assert_eq!(granted(&*handler, &format!("{algorithm:?}"), 5).await, 5);
        env.tasks.shut_down().await;
        let _: String = server.ask("FLUSHALL").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_servers_together_grant_the_limit() {
    let server = RedisServer::start(&[]).await;
    let rolling = Quota {
        rate_limit_algorithm: Algorithm::RollingWindow,
        bucket_duration: SignedDuration::from_nanos(1),
        ..quota()
    };
    for (round, quota) in [quota(), rolling].into_iter().enumerate() {
        // Longer than the test takes.
        let valid_duration = SignedDuration::from_secs(3600);
        let quota = Quota { max_amount: 100, valid_duration, ..quota };
        let with = || Params { quotas: vec![quota.clone()], ..params(&server.address()) };
        let (a, b) = (handler(with()).await, handler(with()).await);
        let handlers: [Arc<dyn Handler>; 2] = [a.0.into(), b.0.into()];
        let calls = (0..400).map(|call| {
            let handler = Arc::clone(&handlers[call % 2]);
            tokio::spawn(async move { granted(&*handler, &format!("{round}-{call}"), 1).await })
        });
        let mut sum = 0;
        for call in calls.collect::<Vec<_>>() {
            sum += call.await.unwrap();
        }
        assert_eq!(sum, 100);
        let steps: i64 = server.ask("ZCARD q.instance.istio-system;svc=none.data").await;
        assert!(steps <= 1025, "{steps}");
        for env in [a.1, b.1] {
            env.tasks.shut_down().await;
        }
        let _: String = server.ask("FLUSHALL").await;
    }
}
