//! Active health checks: each host of a cluster is checked on the main thread, over connections of its own.
//!
//! A host that is checked gets requests once a check has succeeded, and no more when `unhealthy_threshold` checks in a row have failed, or
//! one was answered with a status that is not expected. The times are those of Envoy.

mod checker;
mod grpc;
mod http;
mod session;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};

use mixer_base::task::Task;

use crate::bootstrap::HealthCheckConfig;
use crate::cluster::{Cluster, Host};
use crate::stats::{ClusterStat, HealthStat};

use checker::Checker;
use session::Session;

/// Completes the initialization of a cluster once its last copy is dropped: nothing is sent.
pub(crate) type First = mpsc::Sender<()>;

/// Checks the hosts of a cluster until `quit`. `first` is kept until each host that the cluster begins with was checked once.
pub(crate) async fn check_hosts(cluster: Arc<Cluster>, mut first: Option<First>) {
    if cluster.config.health_check.is_none() {
        return;
    }
    let mut members = cluster.members();
    // A cluster of names has no hosts before they were resolved. The cluster, which has the sender, is kept.
    let _ = members.wait_for(|(_, is_resolved)| *is_resolved).await;
    let mut checked: Vec<(Arc<Host>, DropGuard)> = Vec::new();
    loop {
        members.mark_unchanged();
        let hosts = cluster.hosts();
        checked.retain(|(host, _)| hosts.iter().any(|other| Arc::ptr_eq(host, other)));
        for host in hosts.iter() {
            if checked.iter().any(|(known, _)| Arc::ptr_eq(known, host)) {
                continue;
            }
            let stop = CancellationToken::new();
            let (cluster, checked_host, mut first) = (Arc::clone(&cluster), Arc::clone(host), first.clone());
            let until = stop.clone();
            let detail = format!("{} {}", cluster.config.name, host.address);
            let make = move || {
                let checking = check_host(Arc::clone(&cluster), Arc::clone(&checked_host), first.take());
                let until = until.clone();
                async move {
                    tokio::select! {
                        () = until.cancelled() => {}
                        () = checking => {}
                    }
                }
            };
            drop(Task::restarted("proxy health check").of(detail).spawn(stop.clone(), make));
            checked.push((Arc::clone(host), stop.drop_guard()));
        }
        first = None;
        let _ = members.changed().await;
    }
}

/// Checks a host again and again.
async fn check_host(cluster: Arc<Cluster>, host: Arc<Host>, first: Option<First>) {
    let Some(config) = &cluster.config.health_check else { return };
    let checker = Checker::new(&cluster, config);
    check_with(&cluster, &host, checker, config, first).await;
}

/// Checks a host with a checker, after the initial jitter, at the intervals of the configuration.
async fn check_with(
    cluster: &Cluster,
    host: &Host,
    mut checker: Checker,
    config: &HealthCheckConfig,
    mut first: Option<First>,
) {
    let Some(stats) = &cluster.stats.health else { return };
    tokio::time::sleep(config.initial_jitter.mul_f64(fastrand::f64())).await;
    let mut session = Session::default();
    let address = address(host, config);
    loop {
        stats.increment(HealthStat::Attempt);
        let outcome = checker.check(cluster, address).await;
        let change = session.apply(outcome, cluster, host);
        tracing::debug!(cluster = cluster.config.name, host = %host.address, ?outcome, ?change, "health check");
        drop(first.take());
        let has_traffic = cluster.stats.block.get(ClusterStat::UpstreamCxTotal) > 0;
        let pause = session::interval(config, outcome, change, has_traffic);
        checker.watch(pause).await;
    }
}

/// What is connected to.
fn address(host: &Host, config: &HealthCheckConfig) -> SocketAddr {
    let mut address = host.address;
    if let Some(port) = config.port {
        address.set_port(port);
    }
    address
}
