//! Filter chains as they serve, made from their configuration.

use std::sync::Arc;

use super::ListenerManager;
use crate::accept::{Chain, ChainTls, Filter};
use crate::access_log::AccessLogFiles;
use crate::bootstrap::{AccessLogConfig, FilterChainConfig, ManagerConfig, NetworkFilter, TcpProxyConfig};
use crate::drain::Drain;
use crate::error::StartError;
use crate::http::HttpManager;
use crate::http::routes::RouteTable;
use crate::socket_factory::reason;
use crate::stats::Scope;
use crate::tcp_proxy::TcpProxy;
use crate::tls::TlsStats;

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
            NetworkFilter::Tcp(tcp) => Filter::Tcp(self.tcp_proxy(tcp, logs)?),
            NetworkFilter::Http(http) => Filter::Http(Box::new(self.http_manager(http, place, logs)?)),
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
            stats: self.stats.block(&Scope::Tcp(config.stat_prefix.clone())),
            mixer: config
                .mixer
                .as_ref()
                .map(|mixer| Box::new(self.mixer.tcp(mixer, &self.stats, |name| self.cluster(name)))),
        })
    }

    fn http_manager(
        &self,
        config: &ManagerConfig,
        place: &str,
        logs: &AccessLogFiles,
    ) -> Result<HttpManager, StartError> {
        let scope = Scope::Http(config.stat_prefix.clone());
        Ok(HttpManager {
            server_name: config.server_name.clone(),
            routes: RouteTable::new(&config.routes, |name| self.cluster(name)),
            mixer: config
                .mixer
                .as_ref()
                .map(|mixer| self.mixer.http(mixer, &self.stats, |name| self.cluster(name))),
            logs: open(&config.access_logs, logs)?,
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
            stats: self.stats.block(&scope),
            listener_stats: self
                .stats
                .block(&Scope::ListenerHttp(place.to_owned(), config.stat_prefix.clone())),
            request_time: self.stats.histogram(&scope, "downstream_rq_time"),
            connection_length: self.stats.histogram(&scope, "downstream_cx_length_ms"),
        })
    }
}

fn open(
    configs: &[AccessLogConfig],
    logs: &AccessLogFiles,
) -> Result<Vec<(Arc<crate::access_log::AccessLogFile>, crate::access_log::Format)>, StartError> {
    let open = |config: &AccessLogConfig| match logs.open(&config.path) {
        Ok(file) => Ok((file, config.format.clone())),
        Err(error) => {
            let text = reason(&error);
            Err(StartError::AccessLog(format!("unable to open file '{}': {text}", config.path)))
        }
    };
    configs.iter().map(open).collect()
}
