//! Resolution of the names of STRICT_DNS and LOGICAL_DNS clusters.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::Arc;

use super::Cluster;
use crate::bootstrap::{Discovery, Family, HostPort};
use crate::stats::ClusterStat;

/// Resolves the names of a cluster over and over. Calls `first` after the first resolution, whether it succeeded or not.
pub(crate) async fn resolve_all(cluster: Arc<Cluster>, first: impl FnOnce() + Send) {
    let mut first = Some(first);
    let Discovery::Dns { names, first_only, refresh, family } = &cluster.config.discovery else {
        return first.into_iter().for_each(|first| first());
    };
    // The addresses that each name had when it was resolved last.
    let mut known: Vec<Vec<SocketAddr>> = names.iter().map(|_| Vec::new()).collect();
    loop {
        let mut any = false;
        for ((name, _), addresses) in names.iter().zip(&mut known) {
            cluster.stats.block.increment(ClusterStat::UpdateAttempt);
            match lookup(name.clone(), *family).await {
                Ok(mut found) => {
                    if *first_only {
                        found.truncate(1);
                    }
                    let outcome = match found.is_empty() {
                        true => ClusterStat::UpdateEmpty,
                        false => ClusterStat::UpdateSuccess,
                    };
                    cluster.stats.block.increment(outcome);
                    *addresses = found;
                    any = true;
                }
                Err(error) => {
                    cluster.stats.block.increment(ClusterStat::UpdateFailure);
                    let (name, cluster) = (&name.host, &cluster.config.name);
                    mixer_base::warn_limited!(1, cluster, name, %error, "a name cannot be resolved; its addresses are kept");
                }
            }
        }
        if any {
            let mut hosts: Vec<(SocketAddr, &str, u32)> = Vec::new();
            for ((name, weight), address) in
                names.iter().zip(&known).flat_map(|(n, found)| found.iter().map(move |a| (n, *a)))
            {
                if !hosts.iter().any(|(known, _, _)| *known == address) {
                    hosts.push((address, &name.host, *weight));
                }
            }
            let outcome = match cluster.replace_hosts(&hosts) {
                true => ClusterStat::MembershipChange,
                false => ClusterStat::UpdateNoRebuild,
            };
            cluster.stats.block.increment(outcome);
            cluster.prepare_ring().await;
        }
        if let Some(first) = first.take() {
            cluster.set_resolved();
            first();
        }
        tokio::time::sleep(*refresh).await;
    }
}

/// The addresses of a name. Errors: as of getaddrinfo(3).
async fn lookup(name: HostPort, family: Family) -> std::io::Result<Vec<SocketAddr>> {
    let resolved = tokio::task::spawn_blocking(move || {
        (name.host.as_str(), name.port).to_socket_addrs().map(Iterator::collect::<Vec<_>>)
    });
    let all = resolved.await.map_err(std::io::Error::other)??;
    let (v4, v6): (Vec<_>, Vec<_>) = all.into_iter().partition(SocketAddr::is_ipv4);
    Ok(match family {
        Family::V4 => v4,
        Family::V6 => v6,
        Family::Auto if v6.is_empty() => v4,
        Family::Auto => v6,
        Family::V4Preferred if v4.is_empty() => v6,
        Family::V4Preferred => v4,
        Family::All => v4.into_iter().chain(v6).collect(),
    })
}
