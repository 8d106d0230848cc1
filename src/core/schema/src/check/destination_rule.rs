//! Destination rules.

use super::checker::Checker;
use super::code;
use crate::messages::istio::networking::v1alpha3::load_balancer_settings::LbPolicy;
use crate::messages::istio::networking::v1alpha3::load_balancer_settings::consistent_hash_lb::HashKey;
use crate::messages::istio::networking::v1alpha3::tls_settings::TlSmode;
use crate::messages::istio::networking::v1alpha3::{
    ConnectionPoolSettings, DestinationRule, LoadBalancerSettings, OutlierDetection, TlsSettings,
    TrafficPolicy,
};
use crate::place::Place;

pub(super) fn check(rule: &DestinationRule, body: &Place<'_>, checker: &mut Checker<'_>) {
    checker.wildcard_domain(&body.field("host"), &rule.host);
    check_policy(rule.traffic_policy.as_ref(), &body.field("trafficPolicy"), checker);
    let subsets = body.field("subsets");
    for (index, subset) in rule.subsets.iter().enumerate() {
        let at = subsets.index(index);
        checker.subset_name(&at.field("name"), &subset.name);
        checker.labels(&at.field("labels"), &subset.labels);
        check_policy(subset.traffic_policy.as_ref(), &at.field("trafficPolicy"), checker);
    }
    checker.export_to(body, &rule.export_to);
}

/// What a policy and one for a port have in common.
struct Parts<'p> {
    outlier: Option<&'p OutlierDetection>,
    pool: Option<&'p ConnectionPoolSettings>,
    balancer: Option<&'p LoadBalancerSettings>,
    tls: Option<&'p TlsSettings>,
}

impl Parts<'_> {
    fn is_empty(&self) -> bool {
        self.outlier.is_none() && self.pool.is_none() && self.balancer.is_none() && self.tls.is_none()
    }

    fn check(&self, at: &Place<'_>, checker: &mut Checker<'_>) {
        if let Some(outlier) = self.outlier {
            check_outlier(outlier, &at.field("outlierDetection"), checker);
        }
        if let Some(pool) = self.pool {
            check_pool(pool, &at.field("connectionPool"), checker);
        }
        if let Some(balancer) = self.balancer {
            check_balancer(balancer, &at.field("loadBalancer"), checker);
        }
        if let Some(tls) = self.tls {
            check_tls(tls, &at.field("tls"), checker);
        }
    }
}

fn check_policy(policy: Option<&TrafficPolicy>, at: &Place<'_>, checker: &mut Checker<'_>) {
    let Some(policy) = policy else { return };
    let parts = Parts {
        outlier: policy.outlier_detection.as_ref(),
        pool: policy.connection_pool.as_ref(),
        balancer: policy.load_balancer.as_ref(),
        tls: policy.tls.as_ref(),
    };
    let ports = at.field("portLevelSettings");
    if parts.is_empty() && !checker.is_given(&ports) {
        return checker.problem(code::MISSING, at, "traffic policy must have at least one field");
    }
    parts.check(at, checker);
    for (index, port) in policy.port_level_settings.iter().enumerate() {
        let at = ports.index(index);
        if port.port.is_none() {
            checker.problem(code::PORT, &at, "portTrafficPolicy must have valid port");
        }
        let parts = Parts {
            outlier: port.outlier_detection.as_ref(),
            pool: port.connection_pool.as_ref(),
            balancer: port.load_balancer.as_ref(),
            tls: port.tls.as_ref(),
        };
        if parts.is_empty() {
            checker.problem(code::MISSING, &at, "port traffic policy must have at least one field");
        } else {
            parts.check(&at, checker);
        }
    }
}

fn check_outlier(outlier: &OutlierDetection, at: &Place<'_>, checker: &mut Checker<'_>) {
    checker.optional_duration(&at.field("baseEjectionTime"), outlier.base_ejection_time.as_ref());
    if outlier.consecutive_errors < 0 {
        let text = "outlier detection consecutive errors cannot be negative";
        checker.problem(code::VALUE, &at.field("consecutiveErrors"), text);
    }
    checker.optional_duration(&at.field("interval"), outlier.interval.as_ref());
    checker.percent(&at.field("maxEjectionPercent"), outlier.max_ejection_percent);
    checker.percent(&at.field("minHealthPercent"), outlier.min_health_percent);
}

fn check_pool(pool: &ConnectionPoolSettings, at: &Place<'_>, checker: &mut Checker<'_>) {
    if pool.http.is_none() && pool.tcp.is_none() {
        return checker.problem(code::MISSING, at, "connection pool must have at least one field");
    }
    let mut non_negative = |number: i32, field: &str, at: &Place<'_>, what: &str| {
        if number < 0 {
            checker.problem(code::VALUE, &at.field(field), format!("{what} must be non-negative"));
        }
    };
    let (http_at, tcp_at) = (at.field("http"), at.field("tcp"));
    if let Some(http) = &pool.http {
        let at = &http_at;
        let pending = http.http1_max_pending_requests;
        non_negative(pending, "http1MaxPendingRequests", at, "http1 max pending requests");
        non_negative(http.http2_max_requests, "http2MaxRequests", at, "http2 max requests");
        let per_connection = http.max_requests_per_connection;
        non_negative(per_connection, "maxRequestsPerConnection", at, "max requests per connection");
        non_negative(http.max_retries, "maxRetries", at, "max retries");
        checker.optional_duration(&at.field("idleTimeout"), http.idle_timeout.as_ref());
    }
    if let Some(tcp) = &pool.tcp {
        let at = &tcp_at;
        if tcp.max_connections < 0 {
            let text = "max connections must be non-negative";
            checker.problem(code::VALUE, &at.field("maxConnections"), text);
        }
        checker.optional_duration(&at.field("connectTimeout"), tcp.connect_timeout.as_ref());
    }
}

fn check_balancer(balancer: &LoadBalancerSettings, at: &Place<'_>, checker: &mut Checker<'_>) {
    let Some(LbPolicy::ConsistentHash(hash)) = &balancer.lb_policy else { return };
    let Some(HashKey::HttpCookie(cookie)) = &hash.hash_key else { return };
    let at = at.field("consistentHash");
    let at = at.field("httpCookie");
    if cookie.name.is_empty() {
        checker.problem(code::MISSING, &at, "name required for HttpCookie");
    }
    if cookie.ttl.is_none() {
        checker.problem(code::MISSING, &at, "ttl required for HttpCookie");
    }
}

fn check_tls(tls: &TlsSettings, at: &Place<'_>, checker: &mut Checker<'_>) {
    if tls.mode != TlSmode::Mutual as i32 {
        return;
    }
    if tls.client_certificate.is_empty() {
        checker.problem(code::TLS, at, "client certificate required for mutual tls");
    }
    if tls.private_key.is_empty() {
        checker.problem(code::TLS, at, "private key required for mutual tls");
    }
}
