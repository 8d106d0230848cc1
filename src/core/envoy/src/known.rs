//! The attributes that Envoy's services set, with their types.

use std::sync::LazyLock;

use mixer_attribute::ValueType;

macro_rules! known {
    ($($name:ident $text:literal $ty:ident;)*) => {
        /// An attribute that Envoy's services set.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u8)]
        pub(super) enum Known {
            $($name,)*
        }

        /// The attributes in the order of their numbers, with names and types.
        pub(super) const KNOWN: &[(Known, &str, ValueType)] = &[$((Known::$name, $text, ValueType::$ty),)*];
    };
}

known! {
    CheckCacheHit "check.cache_hit" Bool;
    CheckErrorCode "check.error_code" Int64;
    CheckErrorMessage "check.error_message" String;
    ConnectionDuration "connection.duration" Duration;
    ConnectionEvent "connection.event" String;
    ConnectionId "connection.id" String;
    ConnectionMtls "connection.mtls" Bool;
    ConnectionReceivedBytes "connection.received.bytes" Int64;
    ConnectionReceivedBytesTotal "connection.received.bytes_total" Int64;
    ConnectionSentBytes "connection.sent.bytes" Int64;
    ConnectionSentBytesTotal "connection.sent.bytes_total" Int64;
    RequestedServerName "connection.requested_server_name" String;
    ContextProtocol "context.protocol" String;
    ContextTime "context.time" Timestamp;
    ProxyErrorCode "context.proxy_error_code" String;
    ProxyVersion "context.proxy_version" String;
    ReporterKind "context.reporter.kind" String;
    ReporterUid "context.reporter.uid" String;
    DestinationIp "destination.ip" IpAddress;
    DestinationLabels "destination.labels" StringMap;
    DestinationName "destination.name" String;
    DestinationNamespace "destination.namespace" String;
    DestinationPort "destination.port" Int64;
    DestinationPrincipal "destination.principal" String;
    DestinationServiceHost "destination.service.host" String;
    DestinationServiceName "destination.service.name" String;
    DestinationServiceNamespace "destination.service.namespace" String;
    DestinationServiceUid "destination.service.uid" String;
    DestinationUid "destination.uid" String;
    DestinationWorkloadName "destination.workload.name" String;
    DestinationWorkloadNamespace "destination.workload.namespace" String;
    DestinationWorkloadUid "destination.workload.uid" String;
    AccessLogName "envoy.access_log.name" String;
    TerminationDetails "envoy.connection.termination_details" String;
    ContextExtensions "envoy.context_extensions" StringMap;
    CustomTags "envoy.custom_tags" StringMap;
    DownstreamFailureReason "envoy.downstream.failure_reason" String;
    DownstreamPeer "envoy.downstream_peer" StringMap;
    HttpProtocol "envoy.http.protocol" String;
    NodeId "envoy.node.id" String;
    RewrittenPath "envoy.request.rewritten_path" String;
    ResponseCodeDetails "envoy.response.code_details" String;
    RouteName "envoy.route.name" String;
    SourceCluster "envoy.source_cluster" String;
    TlsCipherSuite "envoy.tls.cipher_suite" Int64;
    TlsPeerIssuer "envoy.tls.peer_issuer" String;
    TlsPeerSubject "envoy.tls.peer_subject" String;
    TlsVersion "envoy.tls.version" String;
    UpstreamAttempts "envoy.upstream.attempts" Int64;
    UpstreamCluster "envoy.upstream.cluster" String;
    UpstreamFailureReason "envoy.upstream.failure_reason" String;
    UpstreamIp "envoy.upstream.ip" IpAddress;
    UpstreamPort "envoy.upstream.port" Int64;
    UpstreamPeer "envoy.upstream_peer" StringMap;
    OriginIp "origin.ip" IpAddress;
    RatelimitDescriptor "ratelimit.descriptor" StringMap;
    RatelimitDomain "ratelimit.domain" String;
    RatelimitKey "ratelimit.key" String;
    RbacPermissivePolicy "rbac.permissive.effective_policy_id" String;
    RbacPermissiveCode "rbac.permissive.response_code" String;
    AuthAudiences "request.auth.audiences" String;
    AuthClaims "request.auth.claims" StringMap;
    AuthPresenter "request.auth.presenter" String;
    AuthPrincipal "request.auth.principal" String;
    AuthRawClaims "request.auth.raw_claims" String;
    RequestBodyPartial "request.body.partial" Bool;
    RequestBodyRaw "request.body.raw" IpAddress;
    RequestBodyText "request.body.text" String;
    RequestHeaders "request.headers" StringMap;
    RequestHost "request.host" String;
    RequestId "request.id" String;
    RequestMethod "request.method" String;
    RequestPath "request.path" String;
    RequestQueryParams "request.query_params" StringMap;
    RequestReferer "request.referer" String;
    RequestScheme "request.scheme" String;
    RequestSize "request.size" Int64;
    RequestTime "request.time" Timestamp;
    RequestTotalSize "request.total_size" Int64;
    RequestUrlPath "request.url_path" String;
    RequestUserAgent "request.useragent" String;
    ResponseCode "response.code" Int64;
    ResponseDuration "response.duration" Duration;
    ResponseGrpcMessage "response.grpc_message" String;
    ResponseGrpcStatus "response.grpc_status" String;
    ResponseHeaders "response.headers" StringMap;
    ResponseSize "response.size" Int64;
    ResponseTime "response.time" Timestamp;
    ResponseTotalSize "response.total_size" Int64;
    SourceIp "source.ip" IpAddress;
    SourceLabels "source.labels" StringMap;
    SourceName "source.name" String;
    SourceNamespace "source.namespace" String;
    SourcePort "source.port" Int64;
    SourcePrincipal "source.principal" String;
    SourceService "source.service" String;
    SourceUid "source.uid" String;
    SourceUser "source.user" String;
    SourceWorkloadName "source.workload.name" String;
    SourceWorkloadNamespace "source.workload.namespace" String;
    SourceWorkloadUid "source.workload.uid" String;
}

impl Known {
    pub(super) fn name(self) -> &'static str {
        KNOWN.get(self as usize).map_or("", |(_, name, _)| name)
    }
}

/// How many there are.
pub(super) const NUMBER: usize = KNOWN.len();

/// Names and types of all of them.
pub(super) fn known_types() -> &'static [(&'static str, ValueType)] {
    static TYPES: LazyLock<Vec<(&str, ValueType)>> =
        LazyLock::new(|| KNOWN.iter().map(|(_, name, value_type)| (*name, *value_type)).collect());
    &TYPES
}

/// Prefixes of names that are attributes even if no manifest declares them.
const PREFIXES: [&[u8]; 11] = [
    b"source.",
    b"destination.",
    b"origin.",
    b"request.",
    b"response.",
    b"context.",
    b"connection.",
    b"api.",
    b"check.",
    b"quota.",
    b"rbac.",
];

/// Whether a name is that of an attribute of a request or a response, whatever a manifest declares.
pub(super) fn is_standard(name: &[u8]) -> bool {
    PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}
