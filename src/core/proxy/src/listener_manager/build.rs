//! Filter chains as they serve, made from their configuration.

use std::sync::Arc;

use super::ListenerManager;
use crate::accept::{self, Chain, ChainTls};
use crate::access_log::AccessLogFiles;
use crate::bootstrap::{
    AccessLogConfig, FilterChainConfig, FilterKind, ManagerConfig, NetworkFilter, TcpProxyConfig,
    UdpListenerConfig,
};
use crate::drain::Drain;
use crate::error::StartError;
use crate::ext_authz::Authorizer;
use crate::http::routes::RouteTable;
use crate::http::{Copier, Filter, HttpManager};
use crate::log_stream::LogStream;
use crate::rate_limit::Limiter;
use crate::socket_factory::reason;
use crate::stats::Scope;
use crate::tcp_proxy::TcpProxy;
use crate::tls::TlsStats;
use crate::udp::{SessionHash, UdpProxy};

impl ListenerManager {
    fn cluster(&self, name: &str) -> Option<usize> {
        self.shared.clusters.iter().position(|cluster| cluster.config.name == name)
    }

    /// A filter chain of the listener whose statistics have this place in their names.
    ///
    /// Errors: an access log cannot be opened.
    pub(super) fn chain(
        &self,
        config: &FilterChainConfig,
        place: &str,
        logs: &AccessLogFiles,
    ) -> Result<Arc<Chain>, StartError> {
        let filter = match &config.filter {
            NetworkFilter::Tcp(tcp) => accept::Filter::Tcp(self.tcp_proxy(tcp, logs)?),
            NetworkFilter::Http(http) => {
                accept::Filter::Http(Box::new(self.http_manager(http, place, logs)?))
            }
        };
        let tls = config.tls.as_ref().map(|context| {
            let stats = TlsStats::new(&self.stats, &Scope::Listener(place.to_owned()));
            ChainTls::new(Arc::clone(context), config.handshake_timeout, stats)
        });
        Ok(Arc::new(Chain { matching: config.matching.clone(), tls, filter, drain: Drain::new(self.drain) }))
    }

    fn tcp_proxy(&self, config: &TcpProxyConfig, logs: &AccessLogFiles) -> Result<TcpProxy, StartError> {
        let clusters = config.clusters.iter().map(|(name, weight)| (self.cluster(name), *weight));
        Ok(TcpProxy {
            clusters: clusters.collect(),
            idle_timeout: config.idle_timeout,
            logs: open(&config.access_logs, logs)?,
            log_streams: self.log_streams(&config.access_logs),
            stats: self.stats.block(&Scope::Tcp(config.stat_prefix.clone())),
            mixer: config
                .mixer
                .as_ref()
                .map(|mixer| Box::new(self.mixer.tcp(mixer, &self.stats, |name| self.cluster(name)))),
        })
    }

    /// The UDP proxy of the listener whose statistics have this place in their names.
    pub(super) fn udp_proxy(&self, config: &UdpListenerConfig, place: &str) -> UdpProxy {
        let UdpListenerConfig { max_datagram, proxy, .. } = config;
        let cluster_stats = |_| self.stats.block(&Scope::Cluster(proxy.cluster.clone()));
        UdpProxy {
            cluster: self.cluster(&proxy.cluster).map(|cluster| (cluster, cluster_stats(cluster))),
            idle_timeout: proxy.idle_timeout,
            hash: proxy.hash_policy.as_ref().map(SessionHash::new),
            max_datagram: *max_datagram,
            max_reply: proxy.max_reply,
            stats: self.stats.block(&Scope::Udp(proxy.stat_prefix.clone())),
            listener_stats: self.stats.block(&Scope::Listener(place.to_owned())),
        }
    }

    fn log_streams(&self, configs: &[AccessLogConfig]) -> Vec<Arc<LogStream>> {
        let streams = configs.iter().filter_map(|config| match config {
            AccessLogConfig::Stream(stream) => Some(stream),
            AccessLogConfig::File { .. } => None,
        });
        let new = |stream| Arc::new(LogStream::new(stream, &self.stats, |name| self.cluster(name)));
        streams.map(new).collect()
    }

    fn filter(&self, kind: &FilterKind, manager: &ManagerConfig) -> Filter {
        match kind {
            FilterKind::Mixer(mixer) => {
                Filter::Mixer(self.mixer.http(mixer, &self.stats, |name| self.cluster(name)))
            }
            FilterKind::RateLimit(config) => {
                Filter::RateLimit(Box::new(Limiter::new(config, &self.shared.clusters, &self.stats)))
            }
            FilterKind::ExtAuthz(config) => {
                let clusters = &self.shared.clusters;
                let filter = Authorizer::new(config, &manager.stat_prefix, clusters, &self.stats);
                Filter::ExtAuthz(Box::new(filter))
            }
        }
    }

    fn http_manager(
        &self,
        config: &ManagerConfig,
        place: &str,
        logs: &AccessLogFiles,
    ) -> Result<HttpManager, StartError> {
        let scope = Scope::Http(config.stat_prefix.clone());
        let routes = RouteTable::new(&config.routes, &config.filters, |name| self.cluster(name));
        let copier = routes.copies().then(|| Arc::new(Copier::new(config.stream_idle_timeout)));
        Ok(HttpManager {
            codec: config.codec,
            http2: config.http2,
            server_name: config.server_name.clone(),
            routes,
            copier,
            filters: config.filters.iter().map(|filter| self.filter(&filter.kind, config)).collect(),
            logs: open(&config.access_logs, logs)?,
            log_streams: self.log_streams(&config.access_logs),
            use_remote_address: config.use_remote_address,
            generate_request_id: config.generate_request_id,
            preserve_external_request_id: config.preserve_external_request_id,
            request_id_in_response: config.request_id_in_response,
            idle_timeout: config.idle_timeout,
            stream_idle_timeout: config.stream_idle_timeout,
            request_timeout: config.request_timeout,
            headers_timeout: config.headers_timeout,
            max_head: config.max_head,
            max_fields: config.max_fields,
            max_requests: config.max_requests,
            upgrades: config.upgrades.clone(),
            normalization: config.normalization,
            stats: self.stats.block(&scope),
            listener_stats: self
                .stats
                .block(&Scope::ListenerHttp(place.to_owned(), config.stat_prefix.clone())),
            http2_stats: self.stats.block(&Scope::Root),
            request_time: self.stats.histogram(&scope, "downstream_rq_time"),
            connection_length: self.stats.histogram(&scope, "downstream_cx_length_ms"),
        })
    }
}

fn open(
    configs: &[AccessLogConfig],
    logs: &AccessLogFiles,
) -> Result<Vec<(Arc<crate::access_log::AccessLogFile>, crate::access_log::Format)>, StartError> {
    let files = configs.iter().filter_map(|config| match config {
        AccessLogConfig::File { path, format } => Some((path, format)),
        AccessLogConfig::Stream(_) => None,
    });
    let open = |(path, format): (&String, &crate::access_log::Format)| match logs.open(path) {
        Ok(file) => Ok((file, format.clone())),
        Err(error) => {
            let text = reason(&error);
            Err(StartError::AccessLog(format!("unable to open file '{path}': {text}")))
        }
    };
    files.map(open).collect()
}
