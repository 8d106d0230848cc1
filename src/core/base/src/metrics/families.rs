//! The table of the server's own metric families.

use crate::exposition::FamilyKind;

/// Name, meaning and labels of a family.
#[derive(Debug, Clone, Copy)]
pub struct FamilyInfo {
    /// Full name.
    pub name: &'static str,
    /// One sentence.
    pub help: &'static str,
    /// Counter, gauge or histogram.
    pub kind: FamilyKind,
    /// Label names, in byte order.
    pub labels: &'static [&'static str],
    /// Of histograms: the upper bounds, in the unit of the name. A bucket counts the values *below* its bound.
    pub bounds: &'static [f64],
    /// Of histograms: recorded units (nanoseconds, bytes, one) per unit of the name.
    pub scale: f64,
}

/// Bounds of durations of handler calls, in seconds. Those from 100 µs are those of Istio Mixer; most handlers take less.
const SECONDS: &[f64] = &[
    0.000_000_25,
    0.000_000_5,
    0.000_001,
    0.000_002_5,
    0.000_005,
    0.000_01,
    0.000_025,
    0.000_05,
    0.0001,
    0.00025,
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
];

/// Bounds of latencies, in milliseconds.
const MILLISECONDS: &[f64] = &[
    0.01, 0.05, 0.1, 0.3, 0.6, 0.8, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 13.0, 16.0, 20.0, 25.0, 30.0,
    40.0, 50.0, 65.0, 80.0, 100.0, 130.0, 160.0, 200.0, 250.0, 300.0, 400.0, 500.0, 650.0, 800.0, 1000.0,
    2000.0, 5000.0, 10000.0, 20000.0, 50000.0, 100_000.0,
];

const KIB: f64 = 1024.0;
const MIB: f64 = 1024.0 * KIB;
const GIB: f64 = 1024.0 * MIB;

/// Bounds of message sizes, in bytes.
const BYTES: &[f64] = &[
    KIB,
    2.0 * KIB,
    4.0 * KIB,
    16.0 * KIB,
    64.0 * KIB,
    256.0 * KIB,
    MIB,
    4.0 * MIB,
    16.0 * MIB,
    64.0 * MIB,
    256.0 * MIB,
    GIB,
    4.0 * GIB,
];

/// 1, 4, 16 to 4^15: bounds of MCP messages, in bytes.
const POWERS_OF_FOUR: &[f64] = &[
    1.0,
    4.0,
    16.0,
    64.0,
    256.0,
    KIB,
    4.0 * KIB,
    16.0 * KIB,
    64.0 * KIB,
    256.0 * KIB,
    MIB,
    4.0 * MIB,
    16.0 * MIB,
    64.0 * MIB,
    256.0 * MIB,
    GIB,
];

/// Bounds of counts per request.
const FEW: &[f64] = &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 10.0, 15.0, 20.0];

/// 0, 1, 2, 4 … 256: bounds of events of a snapshot.
const DOUBLING_TO_256: &[f64] = &[0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0];
/// 0, 1, 2, 4 … 2^23: bounds of lives of snapshots, in milliseconds.
const DOUBLING_TO_2_23: &[f64] = &[
    0.0,
    1.0,
    2.0,
    4.0,
    8.0,
    16.0,
    32.0,
    64.0,
    128.0,
    256.0,
    512.0,
    1024.0,
    2048.0,
    4096.0,
    8192.0,
    16384.0,
    32768.0,
    65536.0,
    131_072.0,
    262_144.0,
    524_288.0,
    1_048_576.0,
    2_097_152.0,
    4_194_304.0,
    8_388_608.0,
];

const DISPATCH: &[&str] = &["adapter", "error", "handler", "meshFunction"];
const METHOD: &[&str] = &["grpc_server_method"];
const LIMIT: &[&str] = &["domain", "key1", "key2"];

macro_rules! families {
    ($($family:ident: $kind:ident $name:literal $help:literal [$labels:expr] $(($bounds:expr, per $scale:literal))?;)*) => {
        /// A metric family.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Family {
            $(#[doc = concat!("`", $name, "`: ", $help)] $family,)*
        }

        /// Every family, in name order; [`Family`] is the index.
        pub const FAMILIES: &[FamilyInfo] = &[$(FamilyInfo {
            name: $name,
            help: $help,
            kind: FamilyKind::$kind,
            labels: $labels,
            bounds: families!(@bounds $($bounds)?),
            scale: families!(@scale $($scale)?),
        },)*];

        impl Family {
            /// Every family, in name order.
            pub const ALL: &[Family] = &[$(Family::$family,)*];
        }
    };
    (@bounds) => { &[] };
    (@bounds $bounds:expr) => { $bounds };
    (@scale) => { 1.0 };
    (@scale $scale:literal) => { $scale };
}

families! {
    BridgeLogEntries: Counter "bridge_als_entries_total" "Access-log entries of Envoy, by log, result and type."
        [&["log_name", "result", "type"]];
    BridgeLogMessages: Counter "bridge_als_messages_total" "Messages with entries of access logs of Envoy." [&[]];
    BridgeLogStreams: Gauge "bridge_als_streams" "Streams of access logs that are open." [&[]];
    BridgeAttributeErrors: Counter "bridge_attribute_errors_total"
        "Values of extensions, metadata and mappings that are not of the type of their attribute." [&[]];
    BridgeCheckCache: Counter "bridge_check_cache_total" "Look-ups in the decision cache for Envoy, by result."
        [&["result"]];
    BridgeChecks: Counter "bridge_check_total" "Answers to checks of Envoy, by code and result." [&["code", "result"]];
    BridgeRateLimitEvicted: Counter "bridge_ratelimit_evicted_total" "Counters of rate-limit windows that were evicted before their window ended, because the memory for them was full." [&[]];
    BridgeRateLimits: Counter "bridge_ratelimit_total" "Answers to rate-limit calls of Envoy, by domain and result."
        [&["domain", "result"]];
    BridgeTcpState: Gauge "bridge_tcp_state_entries" "TCP connections with tracked counters." [&[]];
    BridgeTcpStateEvicted: Counter "bridge_tcp_state_evicted_total" "TCP connections whose counters were evicted while they were open." [&[]];
    BridgeUnsupported: Counter "bridge_unsupported_total"
        "Header operations that the API of Envoy does not support, by kind." [&["op"]];
    GalleyPendingEvents: Gauge "galley_pending_events"
        "Changes that are not published yet, by snapshot group." [&["group"]];
    GalleyResource: Gauge "galley_resource"
        "1 for every published resource, with --metric-per-resource." [&["collection", "name", "namespace"]];
    GalleyEventSpan: Histogram "galley_runtime_processor_event_span_duration_milliseconds"
        "Time from one event of a source to the next, in milliseconds." [&[]] (DOUBLING_TO_2_23, per 1.0);
    GalleyEventsProcessed: Counter "galley_runtime_processor_events_processed_total"
        "The number of events of sources that were processed." [&[]];
    GalleySnapshotEvents: Histogram "galley_runtime_processor_snapshot_events_total"
        "Changes of a published snapshot." [&[]] (DOUBLING_TO_256, per 1.0);
    GalleySnapshotLifetime: Histogram "galley_runtime_processor_snapshot_lifetime_duration_milliseconds"
        "How long a published snapshot was the current one, in milliseconds." [&[]] (DOUBLING_TO_2_23, per 1.0);
    GalleySnapshotsPublished: Counter "galley_runtime_processor_snapshots_published_total"
        "The number of published snapshots." [&[]];
    GalleyTypeInstances: Gauge "galley_runtime_state_type_instances_total"
        "The number of resources, by collection." [&["collection"]];
    GalleyStrategyChanges: Counter "galley_runtime_strategy_on_change_total"
        "The number of changes that a publication strategy was told." [&[]];
    GalleyStrategyMaxTime: Counter "galley_runtime_strategy_timer_max_time_reached_total"
        "Publications because changes went on for the maximum time." [&[]];
    GalleyStrategyQuiesce: Counter "galley_runtime_strategy_timer_quiesce_reached_total"
        "Publications because no more changes came." [&[]];
    GalleyStrategyResets: Counter "galley_runtime_strategy_timer_resets_total"
        "Changes that came while others waited for their publication." [&[]];
    GalleySnapshotAge: Gauge "galley_snapshot_age_seconds" "Time since a snapshot group was published." [&["group"]];
    GalleySourceConnected: Gauge "galley_source_connected" "1 while a source reaches what it reads." [&["source"]];
    GalleySourceOutages: Counter "galley_source_outages_total" "How often a source lost what it reads." [&["source"]];
    GalleySourceRestarts: Counter "galley_source_restarts_total" "Starts of sources after their first." [&[]];
    GalleySourceSkipped: Gauge "galley_source_skipped_resources"
        "Resources of a source that cannot be decoded." [&["source"]];
    GalleySourceSynced: Gauge "galley_source_synced"
        "1 while everything that a source has was delivered since its last start." [&["source"]];
    GalleyValidationCertUpdateErrors: Counter "galley_validation_cert_key_update_errors"
        "Renewed certificates of the webhook that could not be used." [&["error"]];
    GalleyValidationCertUpdates: Counter "galley_validation_cert_key_updates"
        "Renewed certificates of the webhook." [&[]];
    GalleyValidationConfigLoad: Counter "galley_validation_config_load"
        "How often the webhook configuration file was read." [&[]];
    GalleyValidationConfigLoadErrors: Counter "galley_validation_config_load_error"
        "How often the webhook configuration file could not be used, by reason." [&["error"]];
    GalleyValidationConfigUpdateErrors: Counter "galley_validation_config_update_error"
        "Updates of the webhook configuration of the cluster that failed, by reason." [&["error"]];
    GalleyValidationConfigUpdates: Counter "galley_validation_config_updates"
        "Updates of the webhook configuration of the cluster." [&[]];
    GalleyValidationFailed: Counter "galley_validation_failed"
        "Reviewed resources that are not valid, by reason and resource." [&["group", "reason", "resource", "version"]];
    GalleyValidationHttpErrors: Counter "galley_validation_http_error"
        "Requests to the webhook that are no reviews, by HTTP status." [&["status"]];
    GalleyValidationPassed: Counter "galley_validation_passed"
        "Reviewed resources that are valid, by resource." [&["group", "resource", "version"]];
    RpcsCompleted: Counter "grpc_io_server_completed_rpcs" "Count of RPCs by method and status."
        [&["grpc_server_method", "grpc_server_status"]];
    RpcBytesReceived: Histogram "grpc_io_server_received_bytes_per_rpc"
        "Distribution of received bytes per RPC, by method." [METHOD] (BYTES, per 1.0);
    RpcBytesSent: Histogram "grpc_io_server_sent_bytes_per_rpc"
        "Distribution of total sent bytes per RPC, by method." [METHOD] (BYTES, per 1.0);
    RpcLatency: Histogram "grpc_io_server_server_latency"
        "Distribution of server latency in milliseconds, by method." [METHOD] (MILLISECONDS, per 1e6);
    Build: Gauge "istio_build" "Istio component build info" [&["component", "tag"]];
    McpClients: Gauge "istio_mcp_clients_total" "The number of open MCP streams." [&["component"]];
    McpMessageSizes: Histogram "istio_mcp_message_sizes_bytes"
        "Sizes of the MCP requests that were received, in bytes, by collection." [&["collection", "component"]] (POWERS_OF_FOUR, per 1.0);
    McpReconnections: Counter "istio_mcp_reconnections" "The number of MCP streams that were established as a client." [&["component"]];
    McpReceiveFailures: Counter "istio_mcp_recv_failures_total"
        "The number of MCP streams that failed while receiving, by code." [&["code", "component", "error"]];
    McpAcks: Counter "istio_mcp_request_acks_total"
        "The number of MCP messages that were acknowledged, by collection." [&["collection", "component"]];
    McpNacks: Counter "istio_mcp_request_nacks_total"
        "The number of MCP messages that were refused, by code and collection." [&["code", "collection", "component"]];
    McpSendFailures: Counter "istio_mcp_send_failures_total"
        "The number of MCP messages that could not be sent, by code." [&["code", "component", "error"]];
    CheckDenials: Counter "mixer_check_denials_total"
        "Denied checks, by status code." [&["code"]];
    CheckFailuresIgnored: Counter "mixer_check_ignored_failures_total"
        "Failures of handlers that checks and quotas were decided without, because of `mixer.dev/on-error: allow`, by handler."
        [&["handler"]];
    CheckFailuresOverruled: Counter "mixer_check_overruled_failures_total"
        "Failures of rules, handlers and quotas in calls that another answer refused all the same." [&[]];
    CheckCacheEvictions: Gauge "mixer_checkcache_cache_evictions_total"
        "The number of entries that have been evicted from the cache." [&[]];
    CheckCacheHits: Gauge "mixer_checkcache_cache_hits_total"
        "The number of times a cache lookup operation succeeded to find an entry in the cache." [&[]];
    CheckCacheMisses: Gauge "mixer_checkcache_cache_misses_total"
        "The number of times a cache lookup operation failed to find an entry in the cache." [&[]];
    CheckCacheWrites: Gauge "mixer_checkcache_cache_writes_total"
        "The number of times state in the cache was added or updated." [&[]];
    ComponentDegraded: Gauge "mixer_component_degraded"
        "1 while a component does not work as it should although the server is ready, by component." [&["component"]];
    ConfigAdapterInfoErrors: Gauge "mixer_config_adapter_info_config_errors_total"
        "The number of errors encountered during processing of the adapter info configuration." [&[]];
    ConfigAdapterInfos: Gauge "mixer_config_adapter_info_configs_total"
        "The number of known adapters in the current config." [&[]];
    ConfigAttributes: Gauge "mixer_config_attributes_total"
        "The number of known attributes in the current config." [&[]];
    ConfigHandlers: Gauge "mixer_config_handler_configs_total"
        "The number of known handlers in the current config." [&[]];
    ConfigHandlerValidationErrors: Gauge "mixer_config_handler_validation_error_total"
        "The number of errors encountered because handler validation returned error." [&[]];
    ConfigInstanceErrors: Gauge "mixer_config_instance_config_errors_total"
        "The number of errors encountered during processing of the instance configuration." [&[]];
    ConfigInstances: Gauge "mixer_config_instance_configs_total"
        "The number of known instances in the current config." [&[]];
    ConfigRuleErrors: Gauge "mixer_config_rule_config_errors_total"
        "The number of errors encountered during processing of the rule configuration." [&[]];
    ConfigRuleMatchErrors: Gauge "mixer_config_rule_config_match_error_total"
        "The number of rule conditions that was not parseable." [&[]];
    ConfigRules: Gauge "mixer_config_rule_configs_total"
        "The number of known rules in the current config." [&[]];
    ConfigTemplateErrors: Gauge "mixer_config_template_config_errors_total"
        "The number of errors encountered during processing of the template configuration." [&[]];
    ConfigTemplates: Gauge "mixer_config_template_configs_total"
        "The number of known templates in the current config." [&[]];
    ConfigUnsatisfiedActions: Gauge "mixer_config_unsatisfied_action_handler_total"
        "The number of actions that failed due to handlers being unavailable." [&[]];
    DecisionsLost: Counter "mixer_decision_log_lost_total"
        "Decisions dropped from log and recording: the queue was full, or the file could not be written."
        [&["reason"]];
    DecisionsWritten: Counter "mixer_decision_log_written_total"
        "Decisions written to the decision log or the recording." [&["file"]];
    DeliveryItems: Counter "mixer_delivery_items_total"
        "Items handed over to a delivery (accepted), and what became of them."
        [&["delivery", "handler", "outcome"]];
    DeliveryOpenBreakers: Gauge "mixer_delivery_open_breakers"
        "Deliveries whose circuit breaker is open." [&["delivery", "handler"]];
    DeliveryQueuedBytes: Gauge "mixer_delivery_queued_bytes" "Bytes in the queues of deliveries." [&["delivery", "handler"]];
    DeliverySpilledBytes: Gauge "mixer_delivery_spilled_bytes"
        "Bytes that deliveries keep on disk." [&["delivery", "handler"]];
    DeliveryWaiting: Gauge "mixer_delivery_waiting_items"
        "Items of which it is not known yet what becomes of them." [&["delivery", "handler"]];
    Diagnostics: Gauge "mixer_diagnostics_total"
        "The number of problems found in the current config, by severity." [&["severity"]];
    DispatcherDestinations: Histogram "mixer_dispatcher_destinations_per_request"
        "Number of handlers dispatched per request by Mixer" [&[]] (FEW, per 1.0);
    DispatcherDestinationsPerVariety: Gauge "mixer_dispatcher_destinations_per_variety_total"
        "Number of Mixer adapter destinations by template variety type" [&["variety"]];
    DispatcherInstances: Histogram "mixer_dispatcher_instances_per_request"
        "Number of instances created per request by Mixer" [&[]] (FEW, per 1.0);
    DryRunOutcomes: Counter "mixer_dry_run_outcomes_total"
        "Outcomes of rules in dry run, by rule and variety." [&["outcome", "rule", "variety"]];
    HandlerClosed: Gauge "mixer_handler_closed_handlers_total"
        "The number of handlers that were closed during config transition." [&[]];
    HandlerDaemons: Gauge "mixer_handler_daemons_total"
        "The current number of active daemon routines in a given adapter environment." [&["handler"]];
    HandlerBuildFailures: Gauge "mixer_handler_handler_build_failures_total"
        "The number of handlers that failed creation during config transition." [&[]];
    HandlerCloseFailures: Gauge "mixer_handler_handler_close_failures_total"
        "The number of errors encountered while closing handlers during config transition." [&[]];
    HandlerNew: Gauge "mixer_handler_new_handlers_total"
        "The number of handlers that were newly created during config transition." [&[]];
    HandlerReused: Gauge "mixer_handler_reused_handlers_total"
        "The number of handlers that were re-used during config transition." [&[]];
    HandlerWorkers: Gauge "mixer_handler_workers_total"
        "The current number of active worker routines in a given adapter environment." [&["handler"]];
    KubernetesenvCacheBytes: Gauge "mixer_kubernetesenv_cache_bytes"
        "Bytes of what a handler of kubernetesenv knows of its clusters." [&["handler"]];
    KubernetesenvLookups: Counter "mixer_kubernetesenv_lookups_total"
        "Pods that a handler of kubernetesenv looked for, by result: found, service (an address of one), unknown (there is none), failed (not known)." [&["handler", "result"]];
    KubernetesenvPods: Gauge "mixer_kubernetesenv_pods"
        "Pods that a handler of kubernetesenv knows, of all its clusters." [&["handler"]];
    KubernetesenvServices: Gauge "mixer_kubernetesenv_services"
        "Services that a handler of kubernetesenv knows, of all its clusters." [&["handler"]];
    KubernetesenvWatchFailures: Counter "mixer_kubernetesenv_watch_failures_total"
        "Failed requests to list or watch objects of the clusters that a handler of kubernetesenv knows." [&["handler"]];
    ConfigKept: Gauge "mixer_last_good_resources"
        "Resources that serve in their previous version, because the current one has an error." [&[]];
    ConfigCacheWrites: Counter "mixer_last_good_writes_total"
        "Writes of the last good configuration to --config-cache, by result." [&["result"]];
    ListBytes: Gauge "mixer_listchecker_bytes"
        "Bytes of the list of a handler of listchecker, without compiled patterns." [&["handler"]];
    ListFetches: Counter "mixer_listchecker_fetches_total"
        "Fetches of the list of a handler of listchecker, by result: updated, unchanged, refused (it is no list), no-room (its patterns have none beside those of others), failed (it was not read)."
        [&["handler", "result"]];
    LoadSheddingThrottled: Counter "mixer_loadshedding_requests_throttled"
        "The number of requests that have been dropped by the loadshedder." [&[]];
    LogRecordsLost: Counter "mixer_log_records_lost_total"
        "The number of log records that could not be written, or did not fit into the queue of a target." [&[]];
    LogRecordsSuppressed: Counter "mixer_log_records_suppressed_total"
        "The number of log records left out because their call site exceeded its rate." [&[]];
    McpEncodings: Counter "mixer_mcp_encodings_total"
        "Bodies of MCP messages that were encoded; each is sent to all sinks that need it." [&[]];
    McpSinksBehind: Gauge "mixer_mcp_sinks_behind"
        "MCP sinks that have not answered the current version of a collection." [&["collection"]];
    McpSinksRefusing: Gauge "mixer_mcp_sinks_refusing"
        "MCP sinks that refused the current version of a collection." [&["collection"]];
    MemoryExhausted: Counter "mixer_memory_exhausted_total"
        "How often a share of --memory-limit was full: an entry was evicted or refused, or a request rejected." [&["share"]];
    MemoryInUse: Gauge "mixer_memory_in_use_bytes" "Bytes in use of each share of --memory-limit." [&["share"]];
    MemoryLimit: Gauge "mixer_memory_limit_bytes" "Bytes of each share of --memory-limit." [&["share"]];
    MemquotaCellsForgotten: Counter "mixer_memquota_cells_forgotten_total"
        "The number of quota cells in use that the memquota adapter evicted to stay within its memory limit." [&["handler"]];
    ConfigOnError: Gauge "mixer_on_config_error"
        "1 for the policy of --config-on-error." [&["policy"]];
    OpaOffloaded: Counter "mixer_opa_evaluations_offloaded_total"
        "Evaluations of an opa policy on another thread than that of the call, because evaluations took long." [&["handler"]];
    OpaUndecided: Counter "mixer_opa_undecided_total"
        "Checks that an opa policy did not decide, by handler and reason: undefined, error, bound, timeout, input, size, memory." [&["handler", "reason"]];
    OtlpOverflow: Counter "mixer_otlp_overflow_total"
        "Values that the otlp adapter added to the overflow series of their metric, because there was no room for a series of their own."
        [&["handler", "metric"]];
    OtlpRejected: Counter "mixer_otlp_rejected_total"
        "Points, log records and spans that an OpenTelemetry collector did not take, by handler, reason and signal." [&["handler", "reason", "signal"]];
    PoolInFlight: Gauge "mixer_pool_in_flight" "Asynchronous calls in flight, by pool."
        [&["pool"]];
    PoolLimit: Gauge "mixer_pool_limit" "Limit of asynchronous calls in flight, by pool." [&["pool"]];
    PoolQueued: Gauge "mixer_pool_queued" "Calls in the queue, by pool." [&["pool"]];
    PoolRefused: Counter "mixer_pool_refused_total"
        "Calls rejected because pool and queue were full, by pool." [&["pool"]];
    ProcessMemory: Gauge "mixer_process_memory_bytes"
        "Resident memory in bytes: private (heap and stacks) and mapped (executable and other files)." [&["kind"]];
    ProcessThreads: Gauge "mixer_process_threads" "Number of operating system threads." [&[]];
    PrometheusLabelsCut: Counter "mixer_prometheus_label_values_cut_total"
        "The number of label values of more than 1024 bytes that the prometheus adapter cut when it created a series." [&["metric"]];
    PrometheusReportsRefused: Counter "mixer_prometheus_reports_refused_total"
        "The number of reports that the prometheus adapter dropped because their metric had reached its limit of series, or all series that of memory."
        [&["metric"]];
    PrometheusScrapesRefused: Counter "mixer_prometheus_scrapes_refused_total"
        "The number of scrapes of the prometheus adapter that were refused because too many ran." [&[]];
    RedisquotaCalls: Counter "mixer_redisquota_calls_total"
        "Calls of the redisquota adapter, by handler and what answered: redis, lease, repeated (a known deduplication id), refused (known to be exhausted); without Redis: failed, open, closed, local." [&["answer", "handler"]];
    RedisquotaFailures: Counter "mixer_redisquota_failures_total"
        "Allocations that the redisquota adapter could not make, by handler and reason: unavailable, timeout, error." [&["handler", "reason"]];
    RedisquotaLeaseAmounts: Counter "mixer_redisquota_lease_amounts_total"
        "Amounts of shares that the redisquota adapter leased, by handler: taken, returned unused, lost." [&["event", "handler"]];
    RedisquotaLeaseRequests: Counter "mixer_redisquota_lease_requests_total"
        "Requests of the redisquota adapter for shares, by handler and result: answered, failed." [&["handler", "result"]];
    RedisquotaLeased: Gauge "mixer_redisquota_leased_amount"
        "The amount that the redisquota adapter can grant from leases, by handler." [&["handler"]];
    RedisquotaLeases: Gauge "mixer_redisquota_leases"
        "Windows of which the redisquota adapter holds a lease, by handler." [&["handler"]];
    RedisquotaOutage: Gauge "mixer_redisquota_outage"
        "1 while the redisquota adapter answers without Redis, by handler and how: fails, open, closed, local." [&["handler", "mode"]];
    RuleDenials: Counter "mixer_rule_denials_total"
        "Requests that a rule refused, answers of caches included, by rule." [&["rule"]];
    RuleErrors: Counter "mixer_rule_errors_total"
        "Failures of the condition, an instance or a handler of a rule, by rule." [&["rule"]];
    RuleHits: Counter "mixer_rule_hits_total"
        "Evaluations in which the condition of a rule held, by rule." [&["rule"]];
    RuleShadowDenials: Counter "mixer_rule_shadow_denials_total"
        "Requests that a rule would have refused, were checks not in shadow mode, answers of caches included, by rule." [&["rule"]];
    RuntimeConditionErrors: Counter "mixer_runtime_condition_errors_total"
        "The number of times a rule condition could not be evaluated." [&[]];
    RuntimeDispatchDuration: Histogram "mixer_runtime_dispatch_duration_seconds"
        "Duration in seconds for adapter dispatches handled by Mixer." [DISPATCH] (SECONDS, per 1e9);
    RuntimeDispatches: Counter "mixer_runtime_dispatches_total"
        "Total number of adapter dispatches handled by Mixer." [DISPATCH];
    RuntimeHeaderValueErrors: Counter "mixer_runtime_header_value_errors_total"
        "The number of times the value of a header operation could not be evaluated." [&[]];
    ConfigWithheld: Gauge "mixer_serving_withheld"
        "1 while no configuration serves and calls are answered with UNAVAILABLE." [&[]];
    SignalfxOverflow: Counter "mixer_signalfx_overflow_total"
        "Values that the signalfx adapter added to the overflow series of their metric, because there was no room for a series of their own."
        [&["handler", "metric"]];
    StdioLinesDropped: Counter "mixer_stdio_lines_dropped_total"
        "The number of lines that the stdio adapter dropped because its write queue was full." [&["handler"]];
    StdioLinesLost: Counter "mixer_stdio_lines_lost_total"
        "The number of lines that the stdio adapter could not write." [&["handler"]];
    TaskFailures: Counter "mixer_tasks_failures_total"
        "The number of panics and unexpected ends of tasks and threads, by task and reason." [&["reason", "task"]];
    TaskRestarts: Counter "mixer_tasks_restarts_total" "The number of restarts of tasks and threads." [&["task"]];
    TasksRunning: Gauge "mixer_tasks_running" "The number of running tasks and threads." [&["task"]];
    TlsCertificateExpiry: Gauge "mixer_tls_certificate_expiry_timestamp_seconds"
        "Expiry of the certificate of the API port, in seconds since unix epoch." [&[]];
    SpansLost: Counter "mixer_tracing_spans_lost_total"
        "Spans lost because the queue was full or the collector did not accept them." [&["reason"]];
    SpansSent: Counter "mixer_tracing_spans_sent_total" "Spans accepted by the collectors." [&[]];
    ProcessCpu: Counter "process_cpu_seconds_total" "Total user and system CPU time spent in seconds." [&[]];
    ProcessMaxFds: Gauge "process_max_fds" "Maximum number of open file descriptors." [&[]];
    ProcessOpenFds: Gauge "process_open_fds" "Number of open file descriptors." [&[]];
    ProcessResidentMemory: Gauge "process_resident_memory_bytes" "Resident memory size in bytes." [&[]];
    ProcessStartTime: Gauge "process_start_time_seconds"
        "Start time of the process since unix epoch in seconds." [&[]];
    ProcessVirtualMemory: Gauge "process_virtual_memory_bytes" "Virtual memory size in bytes." [&[]];
    ProcessVirtualMemoryMax: Gauge "process_virtual_memory_max_bytes"
        "Maximum amount of virtual memory available in bytes." [&[]];
    RatelimitNearLimit: Counter "ratelimit_service_rate_limit_near_limit" "Hits close to a limit." [LIMIT];
    RatelimitOverLimit: Counter "ratelimit_service_rate_limit_over_limit" "Hits over a limit." [LIMIT];
    RatelimitShadowMode: Counter "ratelimit_service_rate_limit_shadow_mode"
        "Hits over a limit in shadow mode, which were allowed." [LIMIT];
    RatelimitTotalHits: Counter "ratelimit_service_rate_limit_total_hits" "All hits of a limit." [LIMIT];
    RatelimitWithinLimit: Counter "ratelimit_service_rate_limit_within_limit" "Hits within a limit." [LIMIT];
}

impl Family {
    /// Whether its histograms have native buckets, too: those of durations.
    pub(super) fn is_native(self) -> bool {
        matches!(self, Family::RpcLatency | Family::RuntimeDispatchDuration)
    }

    /// Name, help, kind and labels.
    pub fn info(self) -> &'static FamilyInfo {
        const UNKNOWN: &FamilyInfo =
            &FamilyInfo { name: "", help: "", kind: FamilyKind::Gauge, labels: &[], bounds: &[], scale: 1.0 };
        FAMILIES.get(self as usize).unwrap_or(UNKNOWN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every row of docs/metrics.md: name, type and labels.
    fn documented() -> Vec<(String, String, String)> {
        let page = include_str!("../../../../../docs/metrics.md");
        let rows = page.lines().filter(|line| line.starts_with("| `"));
        rows.map(|line| {
            let mut cells = line.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned());
            let mut next = || cells.next().unwrap_or_default();
            (next(), next(), next())
        })
        .collect()
    }

    #[test]
    fn every_family_is_documented_and_nothing_else() {
        let mut wanted: Vec<_> = FAMILIES
            .iter()
            .map(|info| {
                let labels: Vec<String> = info.labels.iter().map(|label| format!("`{label}`")).collect();
                let labels = if labels.is_empty() { "–".to_owned() } else { labels.join(" ") };
                (format!("`{}`", info.name), info.kind.name().to_owned(), labels)
            })
            .collect();
        let mut documented = documented();
        wanted.sort();
        documented.sort();
        assert_eq!(documented, wanted, "docs/metrics.md has a row for every family");
    }

    #[test]
    fn families_and_labels_are_sorted() {
        assert!(FAMILIES.is_sorted_by(|a, b| a.name < b.name));
        for (family, info) in Family::ALL.iter().zip(FAMILIES) {
            assert_eq!(family.info().name, info.name);
            assert!(info.labels.is_sorted(), "{}", info.name);
            assert!(info.bounds.is_sorted(), "{}", info.name);
            assert_eq!(info.kind == FamilyKind::Histogram, !info.bounds.is_empty(), "{}", info.name);
        }
    }
}
