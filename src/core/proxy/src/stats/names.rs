//! The names of statistics by kind of scope.

use super::{Kind, Stat};

/// Defines the statistics of a kind of scope: an index and a name for each.
macro_rules! stats {
    ($(#[$meta:meta])* $name:ident { $($(#[$attribute:meta])* $variant:ident = $kind:ident $text:literal,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum $name {
            $($(#[$attribute])* $variant,)*
        }

        impl Stat for $name {
            const NAMES: &'static [(&'static str, Kind)] = &[$(($text, Kind::$kind),)*];

            fn index(self) -> usize {
                self as usize
            }
        }
    };
}

stats! {
    /// Of a cluster.
    ClusterStat {
        UpstreamCxTotal = Counter "upstream_cx_total",
        UpstreamCxHttp1Total = Counter "upstream_cx_http1_total",
        UpstreamCxHttp2Total = Counter "upstream_cx_http2_total",
        UpstreamCxConnectFail = Counter "upstream_cx_connect_fail",
        UpstreamCxConnectTimeout = Counter "upstream_cx_connect_timeout",
        UpstreamCxConnectAttemptsExceeded = Counter "upstream_cx_connect_attempts_exceeded",
        UpstreamCxOverflow = Counter "upstream_cx_overflow",
        UpstreamCxNoneHealthy = Counter "upstream_cx_none_healthy",
        UpstreamCxDestroy = Counter "upstream_cx_destroy",
        UpstreamCxDestroyLocal = Counter "upstream_cx_destroy_local",
        UpstreamCxDestroyRemote = Counter "upstream_cx_destroy_remote",
        UpstreamCxDestroyWithActiveRq = Counter "upstream_cx_destroy_with_active_rq",
        UpstreamCxDestroyLocalWithActiveRq = Counter "upstream_cx_destroy_local_with_active_rq",
        UpstreamCxDestroyRemoteWithActiveRq = Counter "upstream_cx_destroy_remote_with_active_rq",
        UpstreamCxIdleTimeout = Counter "upstream_cx_idle_timeout",
        UpstreamCxProtocolError = Counter "upstream_cx_protocol_error",
        UpstreamCxRxBytesTotal = Counter "upstream_cx_rx_bytes_total",
        UpstreamCxTxBytesTotal = Counter "upstream_cx_tx_bytes_total",
        UpstreamRqTotal = Counter "upstream_rq_total",
        UpstreamRqCompleted = Counter "upstream_rq_completed",
        UpstreamRq1xx = Counter "upstream_rq_1xx",
        UpstreamRq2xx = Counter "upstream_rq_2xx",
        UpstreamRq3xx = Counter "upstream_rq_3xx",
        UpstreamRq4xx = Counter "upstream_rq_4xx",
        UpstreamRq5xx = Counter "upstream_rq_5xx",
        UpstreamRqPendingTotal = Counter "upstream_rq_pending_total",
        UpstreamRqActiveOverflow = Counter "upstream_rq_active_overflow",
        UpstreamRqPendingOverflow = Counter "upstream_rq_pending_overflow",
        UpstreamRqPendingFailureEject = Counter "upstream_rq_pending_failure_eject",
        UpstreamRqTimeout = Counter "upstream_rq_timeout",
        UpstreamRqPerTryTimeout = Counter "upstream_rq_per_try_timeout",
        UpstreamRqCancelled = Counter "upstream_rq_cancelled",
        UpstreamRqRetry = Counter "upstream_rq_retry",
        UpstreamRqRetrySuccess = Counter "upstream_rq_retry_success",
        UpstreamRqRetryOverflow = Counter "upstream_rq_retry_overflow",
        UpstreamRqRetryLimitExceeded = Counter "upstream_rq_retry_limit_exceeded",
        UpstreamRqRetryBackoffExponential = Counter "upstream_rq_retry_backoff_exponential",
        RetryOrShadowAbandoned = Counter "retry_or_shadow_abandoned",
        UpstreamRqRxReset = Counter "upstream_rq_rx_reset",
        UpstreamRqTxReset = Counter "upstream_rq_tx_reset",
        MembershipChange = Counter "membership_change",
        UpdateAttempt = Counter "update_attempt",
        UpdateSuccess = Counter "update_success",
        UpdateFailure = Counter "update_failure",
        UpdateEmpty = Counter "update_empty",
        UpdateNoRebuild = Counter "update_no_rebuild",
        OriginalDstHostInvalid = Counter "original_dst_host_invalid",
        LbHealthyPanic = Counter "lb_healthy_panic",
        UpstreamCxActive = Gauge "upstream_cx_active",
        UpstreamCxHttp1Active = Gauge "upstream_cx_http1_active",
        UpstreamCxHttp2Active = Gauge "upstream_cx_http2_active",
        UpstreamRqActive = Gauge "upstream_rq_active",
        UpstreamRqPendingActive = Gauge "upstream_rq_pending_active",
    }
}

stats! {
    /// Of the health checks of a cluster.
    HealthStat {
        Attempt = Counter "health_check.attempt",
        Success = Counter "health_check.success",
        Failure = Counter "health_check.failure",
        NetworkFailure = Counter "health_check.network_failure",
        #[expect(dead_code, reason = "Envoy has it; a response does not fail a check here")]
        PassiveFailure = Counter "health_check.passive_failure",
        #[expect(dead_code, reason = "Envoy has it; names of services are not compared here")]
        VerifyCluster = Counter "health_check.verify_cluster",
    }
}

stats! {
    /// Of the outlier detection of a cluster. The first three are those of old that Envoy keeps.
    OutlierStat {
        Total = Counter "outlier_detection.ejections_total",
        Consecutive5xx = Counter "outlier_detection.ejections_consecutive_5xx",
        SuccessRate = Counter "outlier_detection.ejections_success_rate",
        Overflow = Counter "outlier_detection.ejections_overflow",
        Detected5xx = Counter "outlier_detection.ejections_detected_consecutive_5xx",
        DetectedGatewayFailure = Counter "outlier_detection.ejections_detected_consecutive_gateway_failure",
        DetectedLocalFailure = Counter "outlier_detection.ejections_detected_consecutive_local_origin_failure",
        DetectedSuccessRate = Counter "outlier_detection.ejections_detected_success_rate",
        DetectedLocalSuccessRate = Counter "outlier_detection.ejections_detected_local_origin_success_rate",
        DetectedFailurePercentage = Counter "outlier_detection.ejections_detected_failure_percentage",
        DetectedLocalFailurePercentage = Counter "outlier_detection.ejections_detected_local_origin_failure_percentage",
        EnforcedTotal = Counter "outlier_detection.ejections_enforced_total",
        Enforced5xx = Counter "outlier_detection.ejections_enforced_consecutive_5xx",
        EnforcedGatewayFailure = Counter "outlier_detection.ejections_enforced_consecutive_gateway_failure",
        EnforcedLocalFailure = Counter "outlier_detection.ejections_enforced_consecutive_local_origin_failure",
        EnforcedSuccessRate = Counter "outlier_detection.ejections_enforced_success_rate",
        EnforcedLocalSuccessRate = Counter "outlier_detection.ejections_enforced_local_origin_success_rate",
        EnforcedFailurePercentage = Counter "outlier_detection.ejections_enforced_failure_percentage",
        EnforcedLocalFailurePercentage = Counter "outlier_detection.ejections_enforced_local_origin_failure_percentage",
    }
}

stats! {
    /// Of listeners of a file.
    LdsStat {
        UpdateAttempt = Counter "lds.update_attempt",
        UpdateSuccess = Counter "lds.update_success",
        UpdateFailure = Counter "lds.update_failure",
        UpdateRejected = Counter "lds.update_rejected",
        #[expect(dead_code, reason = "Envoy has it; nothing is waited for here")]
        InitFetchTimeout = Counter "lds.init_fetch_timeout",
    }
}

stats! {
    /// Of an HTTP connection manager.
    ManagerStat {
        DownstreamCxTotal = Counter "downstream_cx_total",
        DownstreamCxHttp1Total = Counter "downstream_cx_http1_total",
        DownstreamCxHttp2Total = Counter "downstream_cx_http2_total",
        DownstreamCxSslTotal = Counter "downstream_cx_ssl_total",
        DownstreamCxUpgradesTotal = Counter "downstream_cx_upgrades_total",
        DownstreamCxDestroy = Counter "downstream_cx_destroy",
        DownstreamCxDestroyLocal = Counter "downstream_cx_destroy_local",
        DownstreamCxDestroyRemote = Counter "downstream_cx_destroy_remote",
        DownstreamCxDestroyActiveRq = Counter "downstream_cx_destroy_active_rq",
        DownstreamCxDestroyLocalActiveRq = Counter "downstream_cx_destroy_local_active_rq",
        DownstreamCxDestroyRemoteActiveRq = Counter "downstream_cx_destroy_remote_active_rq",
        DownstreamCxRxBytesTotal = Counter "downstream_cx_rx_bytes_total",
        DownstreamCxTxBytesTotal = Counter "downstream_cx_tx_bytes_total",
        DownstreamCxDrainClose = Counter "downstream_cx_drain_close",
        DownstreamCxIdleTimeout = Counter "downstream_cx_idle_timeout",
        DownstreamCxProtocolError = Counter "downstream_cx_protocol_error",
        DownstreamCxMaxRequestsReached = Counter "downstream_cx_max_requests_reached",
        DownstreamRqTotal = Counter "downstream_rq_total",
        DownstreamRqHttp1Total = Counter "downstream_rq_http1_total",
        DownstreamRqHttp2Total = Counter "downstream_rq_http2_total",
        DownstreamRqCompleted = Counter "downstream_rq_completed",
        DownstreamRq1xx = Counter "downstream_rq_1xx",
        DownstreamRq2xx = Counter "downstream_rq_2xx",
        DownstreamRq3xx = Counter "downstream_rq_3xx",
        DownstreamRq4xx = Counter "downstream_rq_4xx",
        DownstreamRq5xx = Counter "downstream_rq_5xx",
        DownstreamRqResponseBeforeRqComplete = Counter "downstream_rq_response_before_rq_complete",
        DownstreamRqRxReset = Counter "downstream_rq_rx_reset",
        DownstreamRqTooManyPrematureResets = Counter "downstream_rq_too_many_premature_resets",
        DownstreamRqTooLarge = Counter "downstream_rq_too_large",
        DownstreamRqBodyOverflow = Counter "downstream_rq_body_overflow",
        DownstreamRqTimeout = Counter "downstream_rq_timeout",
        DownstreamRqIdleTimeout = Counter "downstream_rq_idle_timeout",
        DownstreamRqHeaderTimeout = Counter "downstream_rq_header_timeout",
        DownstreamRqWsOnNonWsRoute = Counter "downstream_rq_ws_on_non_ws_route",
        NoRoute = Counter "no_route",
        NoCluster = Counter "no_cluster",
        RqTotal = Counter "rq_total",
        #[expect(dead_code, reason = "Envoy has it, and counts redirects as direct responses")]
        RqRedirect = Counter "rq_redirect",
        RqDirectResponse = Counter "rq_direct_response",
        DownstreamCxActive = Gauge "downstream_cx_active",
        DownstreamCxHttp1Active = Gauge "downstream_cx_http1_active",
        DownstreamCxHttp2Active = Gauge "downstream_cx_http2_active",
        DownstreamCxSslActive = Gauge "downstream_cx_ssl_active",
        DownstreamCxUpgradesActive = Gauge "downstream_cx_upgrades_active",
        DownstreamRqActive = Gauge "downstream_rq_active",
    }
}

stats! {
    /// Of connections of HTTP/2: those of all clients, or those of a cluster, whose name comes first then.
    Http2Stat {
        GoawaySent = Counter "http2.goaway_sent",
        OutboundControlFlood = Counter "http2.outbound_control_flood",
        RxMessagingError = Counter "http2.rx_messaging_error",
        RxReset = Counter "http2.rx_reset",
        TxReset = Counter "http2.tx_reset",
        StreamsActive = Gauge "http2.streams_active",
    }
}

stats! {
    /// What a connection manager counts for its listener.
    HttpStat {
        DownstreamRq1xx = Counter "downstream_rq_1xx",
        DownstreamRq2xx = Counter "downstream_rq_2xx",
        DownstreamRq3xx = Counter "downstream_rq_3xx",
        DownstreamRq4xx = Counter "downstream_rq_4xx",
        DownstreamRq5xx = Counter "downstream_rq_5xx",
        DownstreamRqCompleted = Counter "downstream_rq_completed",
    }
}

stats! {
    /// Of a listener.
    ListenerStat {
        DownstreamCxTotal = Counter "downstream_cx_total",
        DownstreamCxDestroy = Counter "downstream_cx_destroy",
        DownstreamCxTransportSocketConnectTimeout = Counter "downstream_cx_transport_socket_connect_timeout",
        DownstreamListenerFilterError = Counter "downstream_listener_filter_error",
        DownstreamListenerFilterRemoteClose = Counter "downstream_listener_filter_remote_close",
        DownstreamPreCxTimeout = Counter "downstream_pre_cx_timeout",
        NoFilterChainMatch = Counter "no_filter_chain_match",
        DownstreamCxActive = Gauge "downstream_cx_active",
        DownstreamPreCxActive = Gauge "downstream_pre_cx_active",
    }
}

stats! {
    /// Of TLS with clients or hosts.
    SslStat {
        ConnectionError = Counter "ssl.connection_error",
        FailVerifyError = Counter "ssl.fail_verify_error",
        FailVerifyNoCert = Counter "ssl.fail_verify_no_cert",
        FailVerifySan = Counter "ssl.fail_verify_san",
        Handshake = Counter "ssl.handshake",
        NoCertificate = Counter "ssl.no_certificate",
        SessionReused = Counter "ssl.session_reused",
    }
}

stats! {
    /// Of files of certificates.
    CertificateStat {
        ReloadFailure = Counter "ssl.certificate_reload_failure",
        ReloadSuccess = Counter "ssl.certificate_reload_success",
    }
}

stats! {
    /// Of the TLS inspector.
    TlsInspectorStat {
        AlpnFound = Counter "alpn_found",
        AlpnNotFound = Counter "alpn_not_found",
        ClientHelloTooLarge = Counter "client_hello_too_large",
        SniFound = Counter "sni_found",
        SniNotFound = Counter "sni_not_found",
        TlsFound = Counter "tls_found",
        TlsNotFound = Counter "tls_not_found",
    }
}

stats! {
    /// Of the HTTP inspector.
    HttpInspectorStat {
        Http10Found = Counter "http10_found",
        Http11Found = Counter "http11_found",
        Http2Found = Counter "http2_found",
        HttpNotFound = Counter "http_not_found",
        ReadError = Counter "read_error",
    }
}

stats! {
    /// Of the PROXY protocol.
    ProxyProtocolStat {
        NotFoundAllowed = Counter "not_found_allowed",
        NotFoundDisallowed = Counter "not_found_disallowed",
        V1Error = Counter "versions.v1.error",
        V1Found = Counter "versions.v1.found",
        V2Error = Counter "versions.v2.error",
        V2Found = Counter "versions.v2.found",
    }
}

stats! {
    /// Of no scope.
    RootStat {
        DownstreamCxProxyProtoError = Counter "downstream_cx_proxy_proto_error",
    }
}

stats! {
    /// Of a listener on one worker.
    WorkerStat {
        DownstreamCxTotal = Counter "downstream_cx_total",
        DownstreamCxActive = Gauge "downstream_cx_active",
    }
}

stats! {
    /// Of access logs that are sent to servers.
    LogStreamStat {
        LogsWritten = Counter "logs_written",
        LogsDropped = Counter "logs_dropped",
    }
}

stats! {
    /// Of a filter ext_authz.
    ExtAuthzStat {
        Ok = Counter "ok",
        Denied = Counter "denied",
        Error = Counter "error",
        FailureModeAllowed = Counter "failure_mode_allowed",
    }
}

stats! {
    /// Of a UDP proxy.
    UdpStat {
        DownstreamSessTotal = Counter "downstream_sess_total",
        DownstreamSessNoRoute = Counter "downstream_sess_no_route",
        DownstreamSessRxBytes = Counter "downstream_sess_rx_bytes",
        DownstreamSessRxDatagrams = Counter "downstream_sess_rx_datagrams",
        DownstreamSessRxErrors = Counter "downstream_sess_rx_errors",
        DownstreamSessTxBytes = Counter "downstream_sess_tx_bytes",
        DownstreamSessTxDatagrams = Counter "downstream_sess_tx_datagrams",
        DownstreamSessTxErrors = Counter "downstream_sess_tx_errors",
        IdleTimeout = Counter "idle_timeout",
        DownstreamSessActive = Gauge "downstream_sess_active",
    }
}

stats! {
    /// Of the datagrams between UDP proxies and the hosts of a cluster.
    ClusterUdpStat {
        RxDatagrams = Counter "udp.sess_rx_datagrams",
        RxDatagramsDropped = Counter "udp.sess_rx_datagrams_dropped",
        RxErrors = Counter "udp.sess_rx_errors",
        TxDatagrams = Counter "udp.sess_tx_datagrams",
        TxErrors = Counter "udp.sess_tx_errors",
    }
}

stats! {
    /// Of a listener of datagrams.
    ListenerUdpStat {
        DownstreamRxDatagramDropped = Counter "udp.downstream_rx_datagram_dropped",
    }
}

stats! {
    /// Of a TCP proxy.
    TcpStat {
        DownstreamCxTotal = Counter "downstream_cx_total",
        DownstreamCxNoRoute = Counter "downstream_cx_no_route",
        DownstreamCxTxBytesTotal = Counter "downstream_cx_tx_bytes_total",
        DownstreamCxRxBytesTotal = Counter "downstream_cx_rx_bytes_total",
        DownstreamFlowControlPausedReadingTotal = Counter "downstream_flow_control_paused_reading_total",
        DownstreamFlowControlResumedReadingTotal = Counter "downstream_flow_control_resumed_reading_total",
        IdleTimeout = Counter "idle_timeout",
    }
}
