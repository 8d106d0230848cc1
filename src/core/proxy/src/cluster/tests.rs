//! Hosts, how they are chosen, and what is in flight.

use super::*;
use crate::bootstrap::{Policy, Thresholds};

fn cluster(policy: Policy, hosts: u16) -> Arc<Cluster> {
    weighted_cluster(policy, &vec![1; usize::from(hosts)])
}

/// A cluster with a host of each weight, at ports from 1000.
fn weighted_cluster(policy: Policy, weights: &[u32]) -> Arc<Cluster> {
    let address = |port: u16| SocketAddr::from(([127, 0, 0, 1], 1000 + port));
    let addresses = (0..).zip(weights).map(|(port, weight)| (address(port), *weight)).collect();
    let config = ClusterConfig {
        name: "c".to_owned(),
        discovery: Discovery::Static(addresses),
        connect_timeout: Duration::from_secs(1),
        policy,
        thresholds: Thresholds { requests: 20, retries: 2, ..Thresholds::default() },
        health_check: None,
        outlier: None,
        panic_threshold: 50.0,
        tls: None,
        http2: None,
    };
    Cluster::new(config, &Stats::default())
}

#[test]
fn round_robin_takes_hosts_in_turn() {
    let mut balancer = Balancer::new(cluster(Policy::RoundRobin, 3));
    let mut counts = [0; 3];
    for _ in 0..300 {
        counts[usize::from(balancer.choose(Wanted::default()).unwrap().address.port() - 1000)] += 1;
    }
    assert_eq!(counts, [100; 3]);
    assert!(Balancer::new(cluster(Policy::RoundRobin, 0)).choose(Wanted::default()).is_none());
}

#[test]
fn least_request_avoids_the_busy_host() {
    let mut balancer = Balancer::new(cluster(Policy::LeastRequest, 2));
    let busy = balancer.cluster.hosts()[0].clone();
    busy.active_requests.store(10, Ordering::Relaxed);
    let chosen =
        (0..400).filter(|_| balancer.choose(Wanted::default()).unwrap().address == busy.address).count();
    assert!((50..150).contains(&chosen), "only if it was drawn twice: {chosen}");
}

#[test]
fn hosts_that_stay_keep_their_statistics() {
    let cluster = cluster(Policy::Random, 2);
    let kept = cluster.hosts()[1].clone();
    kept.requests.store(7, Ordering::Relaxed);
    assert!(!cluster.replace_hosts(&[(kept.address, "", 1), (cluster.hosts()[0].address, "", 1)]));
    assert!(cluster.replace_hosts(&[(kept.address, "name", 1)]));
    assert_eq!(cluster.hosts()[0].requests.load(Ordering::Relaxed), 7);
    let mut balancer = Balancer::new(cluster);
    assert_eq!(balancer.choose(Wanted::default()).unwrap().address, kept.address);
}

#[test]
fn requests_in_flight_are_bounded() {
    let cluster = cluster(Policy::Random, 1);
    for (kind, limit) in [(Kind::Request, 20), (Kind::Retry, 2), (Kind::Connection, 1024)] {
        let admitted: Vec<_> = (0..limit).map(|_| cluster.admit(kind).unwrap()).collect();
        assert_eq!((cluster.admit(kind).is_some(), cluster.remaining(kind)), (false, 0), "{kind:?}");
        drop(admitted);
        assert!(cluster.admit(kind).is_some());
        assert_eq!(cluster.remaining(kind), limit);
    }
}

#[test]
fn hosts_are_chosen_by_weight() {
    for policy in [Policy::RoundRobin, Policy::LeastRequest] {
        let mut balancer = Balancer::new(weighted_cluster(policy, &[1, 3, 4]));
        let mut counts = [0; 3];
        for _ in 0..800 {
            counts[usize::from(balancer.choose(Wanted::default()).unwrap().address.port() - 1000)] += 1;
        }
        let is_near = |count: i32, expected: i32| (count - expected).abs() <= 1;
        assert!(is_near(counts[0], 100) && is_near(counts[1], 300) && is_near(counts[2], 400), "{counts:?}");
    }
    let mut balancer = Balancer::new(weighted_cluster(Policy::LeastRequest, &[1, 2]));
    balancer.cluster.hosts()[1].active_requests.store(9, Ordering::Relaxed);
    let busy =
        (0..600).filter(|_| balancer.choose(Wanted::default()).unwrap().address.port() == 1001).count();
    assert!((95..=105).contains(&busy), "2 / 10 of 1 + 2 / 10: {busy}");
}

#[test]
fn destinations_are_made_and_forgotten() {
    let mut config = cluster(Policy::Random, 0).config.clone();
    config.policy = Policy::OriginalDestination(false);
    config.discovery = Discovery::OriginalDestination(Duration::from_secs(1));
    let cluster = Cluster::new(config, &Stats::default());
    let mut balancer = Balancer::new(Arc::clone(&cluster));
    assert!(balancer.choose(Wanted::default()).is_none());
    let wanted = |port| Wanted { destination: Some(([127, 0, 0, 1], port).into()), ..Wanted::default() };
    let first = balancer.choose(wanted(1)).unwrap();
    assert!(Arc::ptr_eq(&first, &balancer.choose(wanted(1)).unwrap()));
    balancer.choose(wanted(2)).unwrap();
    cluster.forget_unused();
    assert_eq!(cluster.hosts().len(), 2, "they were used");
    balancer.choose(wanted(2)).unwrap();
    cluster.forget_unused();
    assert_eq!(cluster.hosts().iter().map(|host| host.address.port()).collect::<Vec<_>>(), [2]);
}

#[test]
fn weights_decide() {
    let mut counts = [0; 3];
    for random in 0..10_000 {
        let chosen = weighted(&[(0, 1), (1, 0), (2, 3)], random).unwrap();
        assert_eq!(weighted(&[(0, 1), (1, 0), (2, 3)], random), Some(chosen), "asked again");
        counts[chosen] += 1;
    }
    assert_eq!(counts, [2500, 0, 7500]);
    assert_eq!(weighted::<usize>(&[], 7), None);
    assert_eq!(weighted(&[(0, 0), (1, 0)], 7), None);
}

/// A cluster of four hosts with active health checks, all of which succeed but those of these.
fn checked(failed: &[usize], threshold: f64) -> Arc<Cluster> {
    let cluster = cluster(Policy::RoundRobin, 4);
    let mut config = cluster.config.clone();
    config.panic_threshold = threshold;
    let cluster = Cluster::new(config, &Stats::default());
    for host in failed {
        assert!(cluster.set_health(&cluster.hosts()[*host], Health::FailedActive, true));
    }
    cluster
}

#[test]
fn unhealthy_hosts_get_no_requests_unless_too_few_are_healthy() {
    let chosen = |failed: &[usize], threshold: f64| {
        let cluster = checked(failed, threshold);
        let mut balancer = Balancer::new(Arc::clone(&cluster));
        let mut ports: Vec<u16> =
            (0..40).filter_map(|_| Some(balancer.choose(Wanted::default())?.address.port() - 1000)).collect();
        ports.sort_unstable();
        ports.dedup();
        (ports, cluster.stats.block.get(ClusterStat::LbHealthyPanic))
    };
    assert_eq!(chosen(&[], 50.0), (vec![0, 1, 2, 3], 0));
    assert_eq!(chosen(&[1], 50.0), (vec![0, 2, 3], 0));
    assert_eq!(chosen(&[1, 2], 50.0), (vec![0, 3], 0), "half is enough");
    assert_eq!(chosen(&[1, 2, 3], 50.0), (vec![0, 1, 2, 3], 40), "panic");
    assert_eq!(chosen(&[1, 2, 3], 0.0), (vec![0], 0));
    assert_eq!(chosen(&[0, 1, 2, 3], 0.0), (vec![], 0), "no healthy host");
    assert_eq!(chosen(&[1], 100.0), (vec![0, 2, 3], 0), "three of four are enough for all requests");
    assert_eq!(chosen(&[1, 2], 60.0), (vec![0, 1, 2, 3], 40));
}

#[test]
fn a_balancer_follows_the_health_of_hosts() {
    let cluster = checked(&[0], 0.0);
    let mut balancer = Balancer::new(Arc::clone(&cluster));
    let mut ports = || -> Vec<u16> {
        let mut ports: Vec<u16> =
            (0..8).filter_map(|_| Some(balancer.choose(Wanted::default())?.address.port() - 1000)).collect();
        ports.sort_unstable();
        ports.dedup();
        ports
    };
    assert_eq!(ports(), [1, 2, 3]);
    let hosts = cluster.hosts();
    cluster.set_health(&hosts[0], Health::FailedActive, false);
    cluster.set_health(&hosts[2], Health::FailedActive, true);
    assert_eq!(ports(), [0, 1, 3]);
    assert!(!cluster.set_health(&hosts[2], Health::FailedActive, true), "no change");
    assert_eq!(hosts[2].health_text(), "/failed_active_hc");
}

#[test]
fn a_healthy_host_without_a_name_stays_until_its_checks_fail() {
    let text = "static_resources:\n  clusters:\n  - name: c\n    type: STRICT_DNS\n    health_checks: [{timeout: 1s, interval: 1s, unhealthy_threshold: 1, healthy_threshold: 1, tcp_health_check: {}}]\n    load_assignment: {cluster_name: c}\n";
    let config = crate::bootstrap::read(text, "b.yaml").unwrap().0.clusters[0].clone();
    let cluster = Cluster::new(config, &Stats::default());
    let address = |port: u16| (SocketAddr::from(([127, 0, 0, 1], port)), "name", 1);
    assert!(cluster.replace_hosts(&[address(1), address(2)]));
    let hosts = cluster.hosts();
    cluster.set_health(&hosts[0], Health::FailedActive, false);
    assert!(cluster.replace_hosts(&[address(3)]), "the second was never healthy");
    let ports = || cluster.hosts().iter().map(|host| host.address.port()).collect::<Vec<_>>();
    assert_eq!(ports(), [3, 1]);
    assert_eq!(hosts[0].health_text(), "/pending_dynamic_removal");
    cluster.set_health(&hosts[0], Health::FailedActive, true);
    assert_eq!(ports(), [3]);
    cluster.set_health(&cluster.hosts()[0], Health::FailedActive, false);
    assert!(cluster.replace_hosts(&[address(4)]) && !cluster.replace_hosts(&[address(4), address(3)]));
    assert_eq!((ports(), cluster.hosts()[1].health_text()), (vec![4, 3], "healthy".to_owned()), "it is back");
}

#[tokio::test]
async fn a_large_ring_is_built_while_the_one_before_is_used() {
    let mut config = cluster(Policy::RingHash((1 << 16, 1 << 16)), 2).config.clone();
    config.connect_timeout = Duration::from_secs(2);
    let cluster = Cluster::new(config, &Stats::default());
    let mut balancer = Balancer::new(Arc::clone(&cluster));
    let wanted = Wanted { hash: Some(1), ..Wanted::default() };
    let before = balancer.choose(wanted).unwrap().address;
    let new = SocketAddr::from(([127, 0, 0, 9], 9));
    assert!(cluster.replace_hosts(&[(new, "", 1)]));
    assert_eq!(balancer.choose(wanted).unwrap().address, before, "nobody waits for the new ring");
    let deadline = std::time::Instant::now() + Duration::from_secs(120);
    while balancer.choose(wanted).unwrap().address != new {
        assert!(std::time::Instant::now() < deadline, "the new ring is built");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let mut other = Balancer::new(cluster);
    assert_eq!(other.choose(wanted).unwrap().address, new);
}
