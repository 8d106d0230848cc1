//! Redis Cluster, and a master that sentinels watch.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use super::server::{RedisServer, free_port, until};
use super::*;

/// A cluster of three nodes, each of a third of the slots.
async fn cluster() -> Vec<RedisServer> {
    cluster_with(&[]).await
}

/// The same, with more arguments.
async fn cluster_with(more: &[&str]) -> Vec<RedisServer> {
    let mut nodes = Vec::new();
    let mut buses = Vec::new();
    for _ in 0..3 {
        let bus = free_port().to_string();
        let arguments =
            ["--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--cluster-port", &bus];
        nodes.push(RedisServer::start(&[&arguments, more].concat()).await);
        buses.push(bus);
    }
    for (index, (first, last)) in [(0, 5460), (5461, 10922), (10923, 16383)].into_iter().enumerate() {
        let _: String = nodes[index].ask(&format!("CLUSTER ADDSLOTSRANGE {first} {last}")).await;
        let _: String =
            nodes[0].ask(&format!("CLUSTER MEET 127.0.0.1 {} {}", nodes[index].port(), buses[index])).await;
    }
    for node in &nodes {
        until("the cluster agrees", async || {
            let info: String = node.ask("CLUSTER INFO").await;
            info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:3")
        })
        .await;
    }
    nodes
}

#[tokio::test]
async fn a_cluster_counts_each_window_on_one_node() {
    let nodes = cluster().await;
    let addresses: Vec<String> = nodes[1..].iter().map(RedisServer::address).collect();
    let with = Params { cluster: true, ..params(&addresses.join(",")) };
    let (handler, env) = handler(with).await;
    for service in 0..30 {
        let service = format!("s{service}");
        let grant =
            async |id: &str, amount| allocate(&*handler, &service, id, amount, true).await.unwrap().granted;
        assert_eq!([grant("a", 3).await, grant("b", 3).await, grant("a", 1).await], [3, 2, 3], "{service}");
    }
    for node in &nodes {
        assert!(node.ask::<i64>("DBSIZE").await > 0, "all nodes have windows");
    }
    env.tasks.shut_down().await;
}

#[tokio::test]
async fn a_node_of_a_cluster_that_is_away_grants_nothing() {
    let mut nodes = cluster().await;
    let addresses: Vec<String> = nodes.iter().map(RedisServer::address).collect();
    let timeout = SignedDuration::from_nanos(300_000_000);
    let with = Params { cluster: true, timeout, ..params(&addresses.join(",")) };
    let (handler, env) = handler(with).await;
    let round = async |round: &str| {
        let mut answers = Vec::new();
        for service in 0..12 {
            let id = format!("{round}-{service}");
            let answer = allocate(&*handler, &format!("s{service}"), &id, 1, true).await;
            answers.push(answer.map(|result| result.granted));
        }
        answers
    };
    until("all nodes answer", async || round("a").await.iter().all(|answer| *answer == Ok(1))).await;
    nodes[2].kill();
    let away = round("b").await;
    assert!(away.iter().any(Result::is_err), "{away:?}");
    nodes[2].restart().await;
    let mut number = 0;
    until("all nodes answer again", async || {
        number += 1;
        round(&format!("c{number}")).await.iter().all(Result::is_ok)
    })
    .await;
    env.tasks.shut_down().await;
}

/// With a limit that is kept without Redis, and one that is not: no call waits a second for a node that has been away for long.
#[tokio::test]
async fn calls_of_a_node_that_is_away_do_not_each_wait_for_it() {
    let mut nodes = cluster_with(&["--cluster-require-full-coverage", "no"]).await;
    let addresses: Vec<String> = nodes.iter().map(RedisServer::address).collect();
    let timeout = SignedDuration::from_secs(1);
    let with = Params { cluster: true, timeout, ..params(&addresses.join(",")) };
    let (handler, env) = handler(with).await;
    let mut number = 0;
    // Calls of twelve windows, one after the other: how many are answered, and how long they take.
    let mut round = async || {
        let begun = std::time::Instant::now();
        let mut answered = 0;
        for service in 0..12 {
            number += 1;
            let answer = allocate(&*handler, &format!("s{service}"), &number.to_string(), 1, true).await;
            answered += usize::from(answer.is_ok());
        }
        (answered, begun.elapsed())
    };
    until("all nodes answer", async || round().await.0 == 12).await;
    nodes[2].kill();
    until("the node is known to be away", async || {
        let (answered, lasts) = round().await;
        // Its windows would take a second each.
        answered < 12 && answered > 0 && lasts < std::time::Duration::from_secs(1)
    })
    .await;
    let (answered, _) = round().await;
    assert!(answered > 0 && answered < 11, "its windows are more than one: {answered}");
    let text = async || {
        for service in 0..12 {
            match allocate(&*handler, &format!("s{service}"), "text", 1, true).await {
                Err(error) if error.message.contains("gives no answer") => return error.message,
                _ => {}
            }
        }
        String::new()
    };
    let mut told = String::new();
    until("it is told", async || {
        told = text().await;
        !told.is_empty()
    })
    .await;
    let node = format!("its node {} gives no answer", nodes[2].address());
    assert!(told.starts_with("Redis does not answer: the cluster ") && told.ends_with(&node), "{told}");
    assert_eq!(handler.degradation(), Some(told));
    nodes[2].restart().await;
    until("all nodes answer again", async || round().await.0 == 12).await;
    assert_eq!(handler.degradation(), None);
    env.tasks.shut_down().await;
}

#[tokio::test]
async fn leases_of_a_cluster_grant_no_more_than_the_limit_while_a_node_is_away() {
    let mut nodes = cluster().await;
    let addresses: Vec<String> = nodes.iter().map(RedisServer::address).collect();
    let timeout = SignedDuration::from_nanos(300_000_000);
    let leased = Quota {
        valid_duration: SignedDuration::from_secs(3600),
        max_amount: 200,
        lease_duration: SignedDuration::from_secs(1),
        ..quota()
    };
    let with = Params { cluster: true, timeout, quotas: vec![leased], ..params(&addresses.join(",")) };
    let (handler, env) = handler(with).await;
    let mut sums = [0_i64; 12];
    let mut round = async |round: &str, calls: i64| {
        let mut all_answer = true;
        for call in 0..calls {
            for (service, sum) in sums.iter_mut().enumerate() {
                let id = format!("{round}-{call}-{service}");
                match allocate(&*handler, &format!("s{service}"), &id, 1, true).await {
                    Ok(result) => *sum += result.granted,
                    Err(_) => all_answer = false,
                }
            }
        }
        (all_answer, sums.iter().copied().min().unwrap_or(0), sums.iter().copied().max().unwrap_or(0))
    };
    until("all nodes answer", async || round("a", 1).await.0).await;
    assert!(round("b", 50).await.1 >= 50);
    nodes[2].kill();
    round("c", 3).await;
    nodes[2].restart().await;
    let mut number = 0;
    until("all nodes answer again", async || {
        number += 1;
        round(&format!("d{number}"), 1).await.0
    })
    .await;
    // The node that was killed has lost what it counted.
    assert!(round("e", 500).await.2 <= 2 * 200);
    // What is held from before is granted without it.
    until("all nodes have windows", async || {
        number += 1;
        assert!(round(&format!("f{number}"), 1).await.2 <= 2 * 200);
        let mut sizes = Vec::new();
        for node in &nodes {
            sizes.push(node.ask::<i64>("DBSIZE").await);
        }
        sizes.iter().all(|size| *size > 0)
    })
    .await;
    env.tasks.shut_down().await;
}

/// Each node in turn, while calls go on: those of other nodes are answered meanwhile, and all of them once it is back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_whose_nodes_are_killed_and_restarted_under_load_serves_again() {
    const SERVICES: usize = 12;
    for lease_duration in [SignedDuration::ZERO, SignedDuration::from_secs(1)] {
        // However long a node is away.
        let mut nodes = cluster_with(&["--cluster-require-full-coverage", "no"]).await;
        let addresses: Vec<String> = nodes.iter().map(RedisServer::address).collect();
        let valid_duration = SignedDuration::from_secs(3600);
        let quota = Quota { valid_duration, max_amount: 1_000_000_000, lease_duration, ..quota() };
        let timeout = SignedDuration::from_nanos(300_000_000);
        let with = Params { cluster: true, timeout, quotas: vec![quota], ..params(&addresses.join(",")) };
        let (handler, env) = handler(with).await;
        let handler: Arc<dyn Handler> = handler.into();
        let (granted, failed) =
            (Arc::new([const { AtomicI64::new(0) }; SERVICES]), Arc::<AtomicI64>::default());
        let ends = Arc::<AtomicBool>::default();
        let callers: Vec<_> = (0..16)
            .map(|caller| {
                let (handler, granted, failed) =
                    (Arc::clone(&handler), Arc::clone(&granted), Arc::clone(&failed));
                let ends = Arc::clone(&ends);
                tokio::spawn(async move {
                    for call in 0.. {
                        if ends.load(Ordering::Relaxed) {
                            return;
                        }
                        let (service, id) = (call % SERVICES, format!("{caller}-{call}"));
                        match allocate(&*handler, &format!("s{service}"), &id, 1, true).await {
                            Ok(result) => granted[service].fetch_add(result.granted, Ordering::Relaxed),
                            Err(_) => failed.fetch_add(1, Ordering::Relaxed),
                        };
                        // Leases answer without a wait.
                        tokio::task::yield_now().await;
                    }
                })
            })
            .collect();
        let of_each = || granted.each_ref().map(|of| of.load(Ordering::Relaxed));
        let goes_on = async |what: &str, services: usize| {
            let before = of_each();
            until(what, async || {
                let more = of_each().iter().zip(before).filter(|(now, before)| **now >= before + 10).count();
                more >= services
            })
            .await;
        };
        goes_on("all windows are granted from", SERVICES).await;
        for node in &mut nodes {
            node.kill();
            // Each node has some of the windows, and no node has most of them.
            goes_on("the windows of others are granted from", SERVICES / 3).await;
            until("its calls fail", async || failed.load(Ordering::Relaxed) > 0).await;
            node.restart().await;
            goes_on("all windows are granted from again", SERVICES).await;
            failed.store(0, Ordering::Relaxed);
        }
        ends.store(true, Ordering::Relaxed);
        for caller in callers {
            caller.await.unwrap();
        }
        // Leases are given back.
        handler.close(std::time::Duration::from_secs(30)).await.unwrap();
        for node in &nodes {
            assert!(node.ask::<i64>("DBSIZE").await > 0, "all nodes have windows");
        }
        env.tasks.shut_down().await;
    }
}

#[tokio::test]
async fn a_handler_follows_the_master_that_sentinels_name() {
    let master = RedisServer::start(&[]).await;
    let replica = RedisServer::start(&["--replicaof", "127.0.0.1", &master.port().to_string()]).await;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("sentinel.conf");
    let text =
        format!("sentinel monitor main 127.0.0.1 {} 1\nsentinel failover-timeout main 5000\n", master.port());
    std::fs::write(&file, text).unwrap();
    let sentinel = RedisServer::start(&[&file.display().to_string(), "--sentinel"]).await;
    until("the sentinel knows the replica", async || {
        let replicas: Vec<redis::Value> = sentinel.ask("SENTINEL REPLICAS main").await;
        !replicas.is_empty()
    })
    .await;
    let with = Params { sentinel_master: "main".into(), ..params(&sentinel.address()) };
    let (handler, env) = handler(with).await;
    assert_eq!(granted(&*handler, "aq", 3).await, 3);
    let port_of_master = async || {
        let address: Vec<String> = sentinel.ask("SENTINEL GET-MASTER-ADDR-BY-NAME main").await;
        address[1].clone()
    };
    assert_eq!(port_of_master().await, master.port().to_string());
    until("the replica has the window", async || replica.ask::<i64>("DBSIZE").await > 1).await;
    until("the failover begins", async || sentinel.try_ask::<String>("SENTINEL FAILOVER main").await.is_ok())
        .await;
    until("the replica is the master", async || port_of_master().await == replica.port().to_string()).await;
    until("the old master is a replica", async || {
        let role = master.try_ask::<Vec<redis::Value>>("ROLE").await.unwrap_or_default();
        matches!(role.first(), Some(redis::Value::BulkString(role)) if role == b"slave")
    })
    .await;
    // What was granted before counts.
    let mut round = 0;
    until("a grant", async || {
        round += 1;
        let result = allocate(&*handler, "none", &format!("b{round}"), 5, true).await;
        result.is_ok_and(|result| result.granted == 2)
    })
    .await;
    assert_eq!(allocate(&*handler, "none", "cq", 5, true).await.unwrap().granted, 0);
    env.tasks.shut_down().await;
}

/// A server that is connected to and says nothing, as a machine that hangs.
fn silent() -> (std::net::TcpListener, String) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    (listener, address)
}

/// How many of twelve windows are granted from, all asked for at once.
async fn answered(handler: &dyn Handler, round: &str) -> usize {
    let calls = (0..12).map(|service| async move {
        let id = format!("{round}-{service}");
        allocate(handler, &format!("s{service}"), &id, 1, true).await.is_ok()
    });
    futures_util::future::join_all(calls).await.into_iter().filter(|is_answered| *is_answered).count()
}

/// Waits until so many of twelve windows are granted from.
async fn until_answered(handler: &dyn Handler, least: usize) {
    let mut round = 0;
    until(&format!("{least} of the windows are granted from"), async || {
        round += 1;
        answered(handler, &format!("{least}-{round}")).await >= least
    })
    .await;
}

/// With `FAIL_OPEN`, that would take all limits away.
#[tokio::test]
async fn a_node_of_a_cluster_that_hangs_takes_nothing_from_the_windows_of_others() {
    let nodes = cluster_with(&["--cluster-require-full-coverage", "no"]).await;
    let addresses: Vec<String> = nodes.iter().map(RedisServer::address).collect();
    let (_listener, silent) = silent();
    let timeout = SignedDuration::from_nanos(500_000_000);
    let with = |addresses: &[&str]| Params { cluster: true, timeout, ..params(&addresses.join(",")) };
    let all: Vec<&str> = addresses.iter().map(String::as_str).collect();
    let (old, old_env) = handler(with(&all)).await;
    // One more seed is of no account.
    let (seeded, seeded_env) = handler(with(&[&silent, &addresses[0]])).await;
    for handler in [&old, &seeded] {
        until_answered(&**handler, 12).await;
    }
    nodes[2].signal("-STOP");
    // Each node has some of the windows, and no node has most of them.
    let (new, new_env) = handler(with(&all)).await;
    for round in 0..10 {
        for handler in [&old, &seeded, &new] {
            until_answered(&**handler, 4).await;
        }
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        if round == 5 {
            // A node that lacks the scripts gets them although another one does not answer.
            let _: String = nodes[0].ask("SCRIPT FLUSH").await;
            let _: String = nodes[1].ask("SCRIPT FLUSH").await;
        }
    }
    nodes[2].signal("-CONT");
    for handler in [&old, &seeded, &new] {
        until_answered(&**handler, 12).await;
    }
    for env in [old_env, seeded_env, new_env] {
        env.tasks.shut_down().await;
    }
}

/// The replica of a node that hangs: nobody closes the connections to the node.
#[tokio::test]
async fn the_windows_of_a_node_that_hangs_are_those_of_its_replica() {
    let options = [
        "--cluster-require-full-coverage",
        "no",
        "--cluster-node-timeout",
        "2000",
        "--cluster-replica-validity-factor",
        "0",
    ];
    let nodes = cluster_with(&options).await;
    let bus = free_port().to_string();
    let mut own =
        vec!["--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--cluster-port", &bus];
    own.extend(options);
    let replica = RedisServer::start(&own).await;
    let _: String = nodes[0].ask(&format!("CLUSTER MEET 127.0.0.1 {} {bus}", replica.port())).await;
    let id: String = nodes[2].ask("CLUSTER MYID").await;
    until("it is a replica", async || {
        replica.try_ask::<String>(&format!("CLUSTER REPLICATE {id}")).await.is_ok()
    })
    .await;
    until("it has what its master has", async || {
        let state: String = replica.ask("INFO replication").await;
        state.contains("master_link_status:up")
    })
    .await;
    let addresses: Vec<String> = nodes.iter().map(RedisServer::address).collect();
    let timeout = SignedDuration::from_nanos(500_000_000);
    let with = Params { cluster: true, timeout, ..params(&addresses.join(",")) };
    let (handler, env) = handler(with).await;
    until_answered(&*handler, 12).await;
    nodes[2].signal("-STOP");
    until("the replica takes over", async || {
        until_answered(&*handler, 4).await;
        let role: String = replica.ask("INFO replication").await;
        role.contains("role:master")
    })
    .await;
    until_answered(&*handler, 12).await;
    nodes[2].signal("-CONT");
    env.tasks.shut_down().await;
}

#[tokio::test]
async fn a_sentinel_that_hangs_is_not_waited_for() {
    let master = RedisServer::start(&[]).await;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("sentinel.conf");
    std::fs::write(&file, format!("sentinel monitor main 127.0.0.1 {} 1\n", master.port())).unwrap();
    let sentinel = RedisServer::start(&[file.to_str().unwrap(), "--sentinel"]).await;
    let (_listener, silent) = silent();
    let addresses = [silent.as_str(), &sentinel.address(), "127.0.0.1:1"].join(",");
    let with = Params { sentinel_master: "main".into(), ..params(&addresses) };
    let (handler, env) = handler(with).await;
    assert_eq!(granted(&*handler, "aq", 1).await, 1);
    assert_eq!(handler.degradation(), None);
    env.tasks.shut_down().await;
}
