//! What a server tells of its quotas: without asking Redis, and while Redis is away.

use super::server::{RedisServer, until};
use super::*;
use mixer_engine::adapter::{QuotaMode, QuotaOverride, QuotaSource, QuotaStatus, QuotaUse};

/// The quota of a handler; its backend is there.
fn status(handler: &dyn Handler) -> QuotaStatus {
    let status = handler.status().quotas.into_iter().next().unwrap();
    assert!(status.shared.is_some());
    status
}

/// The uses: value of the dimension, used amount, limit.
fn uses(status: &QuotaStatus) -> Vec<(String, i64, i64)> {
    let of = |used: &QuotaUse| {
        let [(name, value)] = &*used.key else { panic!("{used:?}") };
        assert_eq!(name, "svc");
        (value.clone(), used.used, used.limit)
    };
    status.top.iter().map(of).collect()
}

fn with_override(quota: Quota) -> Quota {
    let dimensions = Entries::from([("svc".to_owned(), Some("web".to_owned()))]);
    Quota { overrides: vec![Override { dimensions, max_amount: 2 }], ..quota }
}

#[tokio::test]
async fn exact_quotas_show_what_redis_said_last() {
    let rolling = Quota {
        rate_limit_algorithm: Algorithm::RollingWindow,
        bucket_duration: SignedDuration::from_secs(1),
        ..quota()
    };
    for quota in [quota(), rolling] {
        let mut server = RedisServer::start(&[]).await;
        let quota = Quota { valid_duration: SignedDuration::from_secs(600), ..with_override(quota) };
        let with = Params {
            quotas: vec![quota],
            outage_mode: OutageMode::LocalShare,
            local_share_percent: 40,
            ..params(&server.address())
        };
        let (handler, env) = handler(with).await;
        let none = status(&*handler);
        assert_eq!((none.keys, none.top.len(), none.limit), (0, 0, 5));
        let dimensions = vec![("svc".to_owned(), "web".to_owned())];
        assert_eq!(none.overrides, [QuotaOverride { dimensions, limit: 2 }]);

        let web = async |id: &str| allocate(&*handler, "web", id, 2, false).await.unwrap().granted;
        assert_eq!((granted(&*handler, "a", 3).await, web("b").await, web("c").await), (3, 2, 0));
        let before: i64 = evaluations(&server).await;
        let known = status(&*handler);
        let shared = known.shared.clone().unwrap();
        assert_eq!((shared.backend, shared.mode, shared.outage), (server.address(), QuotaMode::Exact, None));
        assert_eq!(shared.without, "grants 40 % of each limit by itself");
        assert_eq!(
            uses(&known),
            [("web".to_owned(), 2, 2), ("none".to_owned(), 3, 5)],
            "the exhausted first"
        );
        assert_eq!(known.top.iter().map(|used| used.is_override).collect::<Vec<_>>(), [true, false]);
        for used in &known.top {
            assert!(matches!(used.source, QuotaSource::Backend { ago } if ago < super::server::DEADLINE));
        }
        assert_eq!(evaluations(&server).await, before, "nobody is asked for it");
        // Released, and an answer that is repeated.
        assert_eq!((granted(&*handler, "d", -2).await, granted(&*handler, "a", 3).await), (-2, 3));
        assert_eq!(uses(&status(&*handler))[1], ("none".to_owned(), 1, 5));

        server.kill();
        // The local share: 2 of 5.
        assert_eq!(granted(&*handler, "e", 2).await, 2);
        until("the outage is told", async || status(&*handler).shared.unwrap().outage.is_some()).await;
        let away = status(&*handler);
        let shared = away.shared.clone().unwrap();
        assert_eq!(shared.mode, QuotaMode::LocalShare(40));
        let first = shared.outage.unwrap();
        assert!(first.why.starts_with(&server.address()), "{first:?}");
        let local: Vec<_> = away.top.iter().filter(|used| used.source == QuotaSource::LocalShare).collect();
        let [local] = &*local else { panic!("{away:?}") };
        assert_eq!((local.used, local.limit, local.is_override), (2, 2, false));
        // What was known stays, and an attempt that fails does not begin the outage again.
        assert!(uses(&away).contains(&("none".to_owned(), 1, 5)), "{away:?}");
        until("a reason is told", async || handler.degradation().is_some()).await;
        assert!(status(&*handler).shared.unwrap().outage.unwrap().lasts > first.lasts);

        server.restart().await;
        until("it answers", async || status(&*handler).shared.unwrap().outage.is_none()).await;
        assert_eq!(status(&*handler).shared.unwrap().mode, QuotaMode::Exact);
        assert_eq!(granted(&*handler, "f", 4).await, 4);
        assert!(uses(&status(&*handler)).contains(&("none".to_owned(), 4, 5)), "Redis has lost its data");
        env.tasks.shut_down().await;
    }
}

/// How many scripts Redis has run.
async fn evaluations(server: &RedisServer) -> i64 {
    let statistics: String = server.ask("INFO commandstats").await;
    let calls = statistics.lines().filter_map(|line| {
        line.strip_prefix("cmdstat_eval")?.split_once("calls=")?.1.split(',').next()?.parse::<i64>().ok()
    });
    calls.sum()
}

#[tokio::test]
async fn leased_quotas_show_shares() {
    let server = RedisServer::start(&[]).await;
    let hour = SignedDuration::from_secs(3600);
    let quota = Quota { valid_duration: hour, lease_duration: MAX_LEASE, max_amount: 1000, ..quota() };
    let with = Params { quotas: vec![with_override(quota)], ..params(&server.address()) };
    let (handler, env) = handler(with).await;
    assert_eq!(allocate(&*handler, "web", "w", 2, false).await.unwrap().granted, 2);
    let mut calls = 0;
    until("it holds a share", async || {
        assert_eq!(granted(&*handler, &format!("{calls}"), 1).await, 1);
        calls += 1;
        let status = status(&*handler);
        let last = status.top.last().map(|used| used.source);
        matches!(last, Some(QuotaSource::Lease { share, used, .. }) if share > used && used > 0)
    })
    .await;
    let known = status(&*handler);
    assert_eq!(known.shared.as_ref().unwrap().mode, QuotaMode::Leases(std::time::Duration::from_secs(60)));
    assert_eq!(uses(&known)[0], ("web".to_owned(), 2, 2), "an override that is exhausted");
    // Nobody else has any of it.
    assert_eq!(uses(&known)[1], ("none".to_owned(), calls, 1000));
    let QuotaSource::Lease { share, used, lasts, .. } = known.top[1].source else { panic!("{known:?}") };
    assert!(used < share && share <= 1000 / 8 + 1, "{used} of {share}");
    assert!(lasts > std::time::Duration::ZERO && lasts < std::time::Duration::from_secs(60));
    let redis: i64 = server.ask(&format!("HGET {NAME};svc=none.meta token")).await;
    assert!(redis > calls, "Redis counts the share as used");

    // What others take is known with the next answer of Redis.
    handler.close(std::time::Duration::from_secs(10)).await.unwrap();
    assert_eq!(status(&*handler).top, [], "everything is given back");
    env.tasks.shut_down().await;
}

#[tokio::test]
async fn what_is_told_is_bounded() {
    let server = RedisServer::start(&[]).await;
    for lease_duration in [SignedDuration::ZERO, MAX_LEASE] {
        let hour = SignedDuration::from_secs(3600);
        let web = with_override(quota());
        let overrides = web.overrides.iter().cycle().take(300).cloned().collect();
        let quota = Quota { valid_duration: hour, lease_duration, overrides, ..quota() };
        let (handler, env) = handler(Params { quotas: vec![quota], ..params(&server.address()) }).await;
        for service in 0..2500 {
            // Longer than a key may be.
            let service = format!("{service}{}", "x".repeat(if service % 2 == 0 { 200 } else { 10 }));
            let id = format!("{lease_duration}{service}");
            assert_eq!(allocate(&*handler, &service, &id, 1, false).await.unwrap().granted, 1);
        }
        assert_eq!(
            allocate(&*handler, "web", &format!("{lease_duration}"), 2, true).await.unwrap().granted,
            2
        );
        let status = handler.status().quotas.into_iter().next().unwrap();
        assert_eq!((status.top.len(), status.overrides.len(), status.override_count), (20, 20, 300));
        let first = &status.top[0];
        assert_eq!((&first.key[0], first.used, first.limit), (&("svc".to_owned(), "web".to_owned()), 2, 2));
        assert!(status.top.iter().flat_map(|used| &used.key).all(|(_, value)| value.len() < 130));
        assert!((500..=2501).contains(&status.keys), "{}", status.keys);
        let _: () = server.ask("FLUSHALL").await;
        env.tasks.shut_down().await;
    }
}
