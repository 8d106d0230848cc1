//! Ejections on a virtual clock.

use std::net::SocketAddr;

use super::*;
use crate::bootstrap;
use crate::cluster::{Balancer, Wanted};
use crate::stats::Stats;

/// No host.
const NONE: [usize; 0] = [];

/// A cluster with so many hosts and these fields of its outlier detection; and its task.
fn cluster(hosts: u16, fields: &str) -> (Arc<Cluster>, tokio::task::JoinHandle<()>) {
    let endpoint = |port: u16| {
        format!(
            "{{endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {}}}}}}}}}",
            1000 + port
        )
    };
    let endpoints: Vec<String> = (0..hosts).map(endpoint).collect();
    let text = format!(
        "static_resources:\n  clusters:\n  - name: c\n    outlier_detection: {{{fields}}}\n    load_assignment: {{cluster_name: c, endpoints: [{{lb_endpoints: [{}]}}]}}\n",
        endpoints.join(", ")
    );
    let (bootstrap, _) = bootstrap::read(&text, "b.yaml").unwrap();
    let cluster = Cluster::new(bootstrap.clusters[0].clone(), &Stats::default());
    let task = tokio::spawn(detect_outliers(Arc::clone(&cluster)));
    (cluster, task)
}

fn ejected(cluster: &Cluster) -> Vec<usize> {
    let hosts = cluster.hosts();
    (0..hosts.len()).filter(|index| hosts[*index].has(Health::FailedOutlier)).collect()
}

fn stat(cluster: &Cluster, stat: OutlierStat) -> u64 {
    cluster.detector.as_ref().unwrap().stats.get(stat)
}

fn fail(cluster: &Cluster, host: usize, outcome: Outcome, count: u32) {
    let host = cluster.hosts()[host].clone();
    (0..count).for_each(|_| cluster.record(&host, outcome));
}

async fn pass(milliseconds: u64) {
    tokio::time::sleep(Duration::from_millis(milliseconds)).await;
}

#[tokio::test(start_paused = true)]
async fn consecutive_failures_eject_for_longer_each_time() {
    let (cluster, _task) =
        cluster(4, "max_ejection_percent: 50, interval: 1s, base_ejection_time: 3s, max_ejection_time: 5s");
    fail(&cluster, 0, Outcome::Status(500), 4);
    fail(&cluster, 0, Outcome::Status(200), 1);
    fail(&cluster, 0, Outcome::Status(500), 4);
    assert_eq!(ejected(&cluster), NONE, "not in a row");
    pass(10).await;
    fail(&cluster, 0, Outcome::Status(503), 1);
    assert_eq!(ejected(&cluster), [0], "at once");
    let mut balancer = Balancer::new(Arc::clone(&cluster));
    let chosen: Vec<SocketAddr> =
        (0..30).filter_map(|_| Some(balancer.choose(Wanted::default())?.address)).collect();
    assert!(chosen.len() == 30 && chosen.iter().all(|address| address.port() != 1000), "{chosen:?}");
    pass(2_980).await;
    assert_eq!(ejected(&cluster), [0]);
    pass(1_100).await;
    assert_eq!(ejected(&cluster), NONE, "at the first interval after 3 s");
    fail(&cluster, 0, Outcome::TimedOut, 5);
    assert_eq!(ejected(&cluster), [0]);
    pass(4_500).await;
    assert_eq!(ejected(&cluster), [0], "twice as long, but 5 s at most");
    pass(2_000).await;
    assert_eq!(ejected(&cluster), NONE);
    // Gateway failures are found, and not enforced.
    assert_eq!(stat(&cluster, OutlierStat::Detected5xx), 2);
    assert_eq!(stat(&cluster, OutlierStat::Enforced5xx), 2);
    assert_eq!(stat(&cluster, OutlierStat::DetectedGatewayFailure), 1, "the last five were 504");
    assert_eq!(stat(&cluster, OutlierStat::EnforcedGatewayFailure), 0);
    assert_eq!(stat(&cluster, OutlierStat::EnforcedTotal), 2);
}

#[tokio::test(start_paused = true)]
async fn only_a_share_is_ejected() {
    let (cluster, _task) = cluster(4, "consecutive_5xx: 1, max_ejection_percent: 50");
    (0..4).for_each(|host| fail(&cluster, host, Outcome::Failed, 1));
    assert_eq!(ejected(&cluster), [0, 1]);
    assert_eq!((stat(&cluster, OutlierStat::Overflow), stat(&cluster, OutlierStat::Detected5xx)), (2, 4));
    let (cluster, _task) = self::cluster(2, "consecutive_5xx: 1");
    fail(&cluster, 0, Outcome::Failed, 1);
    assert_eq!(ejected(&cluster), NONE, "10 percent of two");
    let (cluster, _task) = self::cluster(2, "consecutive_5xx: 1, always_eject_one_host: true");
    (0..2).for_each(|host| fail(&cluster, host, Outcome::Failed, 1));
    assert_eq!(ejected(&cluster), [0]);
}

#[tokio::test(start_paused = true)]
async fn what_the_proxy_itself_saw_is_counted_apart() {
    let fields = "split_external_local_origin_errors: true, consecutive_local_origin_failure: 2, consecutive_5xx: 3, max_ejection_percent: 100";
    let (cluster, _task) = cluster(3, fields);
    fail(&cluster, 0, Outcome::Failed, 1);
    fail(&cluster, 0, Outcome::Connected, 1);
    fail(&cluster, 0, Outcome::Failed, 1);
    fail(&cluster, 0, Outcome::Status(500), 2);
    assert_eq!(ejected(&cluster), NONE);
    fail(&cluster, 0, Outcome::TimedOut, 1);
    assert_eq!(ejected(&cluster), [0]);
    assert_eq!(stat(&cluster, OutlierStat::EnforcedLocalFailure), 1);
    fail(&cluster, 1, Outcome::Status(500), 3);
    assert_eq!((ejected(&cluster), stat(&cluster, OutlierStat::Enforced5xx)), (vec![0, 1], 1));
}

#[tokio::test(start_paused = true)]
async fn rates_are_compared_at_the_end_of_an_interval() {
    let fields = "interval: 1s, base_ejection_time: 10s, consecutive_5xx: 1000, max_ejection_percent: 50, success_rate_minimum_hosts: 4, success_rate_request_volume: 10, success_rate_stdev_factor: 1000";
    let (cluster, _task) = cluster(4, fields);
    for host in 0..4 {
        fail(&cluster, host, Outcome::Status(200), if host == 3 { 5 } else { 10 });
    }
    fail(&cluster, 3, Outcome::Status(500), 5);
    pass(990).await;
    assert_eq!((ejected(&cluster), cluster.success_rates()), (Vec::new(), Some([[-1.0; 2]; 2])));
    pass(20).await;
    assert_eq!(ejected(&cluster), [3]);
    let Some([[average, threshold], local]) = cluster.success_rates() else { panic!("outlier detection") };
    assert!(
        (average - 87.5).abs() < 1e-9 && (threshold - 65.849_364_905).abs() < 1e-6,
        "{average} {threshold}"
    );
    assert_eq!(local, [-1.0; 2]);
    assert_eq!(cluster.hosts()[3].success_rates(), [50.0, -1.0]);
    assert_eq!(stat(&cluster, OutlierStat::EnforcedSuccessRate), 1);
    pass(1_000).await;
    assert_eq!(cluster.success_rates(), Some([[-1.0; 2]; 2]), "nothing happened in this interval");
    assert_eq!(cluster.hosts()[0].success_rates(), [-1.0; 2]);
}

#[tokio::test(start_paused = true)]
async fn a_share_of_failures_is_enough() {
    let fields = "interval: 1s, consecutive_5xx: 1000, max_ejection_percent: 50, enforcing_success_rate: 0, failure_percentage_threshold: 40, enforcing_failure_percentage: 100, failure_percentage_minimum_hosts: 2, failure_percentage_request_volume: 5";
    let (cluster, _task) = cluster(3, fields);
    fail(&cluster, 0, Outcome::Status(200), 6);
    fail(&cluster, 0, Outcome::Status(500), 4);
    fail(&cluster, 1, Outcome::Status(200), 7);
    fail(&cluster, 1, Outcome::Status(500), 3);
    fail(&cluster, 2, Outcome::Status(500), 4);
    pass(1_010).await;
    assert_eq!(ejected(&cluster), [0], "the second failed too rarely, the third has too few requests");
    assert_eq!(stat(&cluster, OutlierStat::DetectedFailurePercentage), 1);
}
