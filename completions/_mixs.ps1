
using namespace System.Management.Automation
using namespace System.Management.Automation.Language

Register-ArgumentCompleter -Native -CommandName 'mixs' -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)

    $commandElements = $commandAst.CommandElements
    $command = @(
        'mixs'
        for ($i = 1; $i -lt $commandElements.Count; $i++) {
            $element = $commandElements[$i]
            if ($element -isnot [StringConstantExpressionAst] -or
                $element.StringConstantType -ne [StringConstantType]::BareWord -or
                $element.Value.StartsWith('-') -or
                $element.Value -eq $wordToComplete) {
                break
        }
        $element.Value
    }) -join ';'

    $completions = @(switch ($command) {
        'mixs' {
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('server', 'server', [CompletionResultType]::ParameterValue, 'Start the server')
            [CompletionResult]::new('probe', 'probe', [CompletionResultType]::ParameterValue, 'Check whether a server is alive or ready')
            [CompletionResult]::new('version', 'version', [CompletionResultType]::ParameterValue, 'Print program version and build information')
            [CompletionResult]::new('crd', 'crd', [CompletionResultType]::ParameterValue, 'Print the Kubernetes custom resource definitions')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'mixs;server' {
            [CompletionResult]::new('--config-file', '--config-file', [CompletionResultType]::ParameterName, 'Settings file, YAML or TOML; keys are flag names')
            [CompletionResult]::new('-p', '-p', [CompletionResultType]::ParameterName, 'TCP port of the gRPC API on all interfaces; ignored if --address is set')
            [CompletionResult]::new('--port', '--port', [CompletionResultType]::ParameterName, 'TCP port of the gRPC API on all interfaces; ignored if --address is set')
            [CompletionResult]::new('--address', '--address', [CompletionResultType]::ParameterName, 'Address of the gRPC API: tcp://127.0.0.1:9091 or unix:///run/mixer.sock')
            [CompletionResult]::new('--socket-mode', '--socket-mode', [CompletionResultType]::ParameterName, 'File mode of a Unix socket, octal. Example: 0660')
            [CompletionResult]::new('--grpc-reflection', '--grpc-reflection', [CompletionResultType]::ParameterName, 'Whether to serve gRPC reflection; auto enables it if the API listens on loopback or a Unix socket only')
            [CompletionResult]::new('--monitoringPort', '--monitoringPort', [CompletionResultType]::ParameterName, 'HTTP port of metrics, version and health, on all interfaces; profiles and texts of errors are for clients on this host')
            [CompletionResult]::new('--monitoring-address', '--monitoring-address', [CompletionResultType]::ParameterName, 'Address of that port, instead of all interfaces; both are then for whoever reaches it. Example: 127.0.0.1:15014')
            [CompletionResult]::new('--metrics-port', '--metrics-port', [CompletionResultType]::ParameterName, 'HTTP port of the metrics of prometheus handlers, on all interfaces')
            [CompletionResult]::new('--metrics-address', '--metrics-address', [CompletionResultType]::ParameterName, 'Address of those metrics, instead of all interfaces. Example: 127.0.0.1:42422')
            [CompletionResult]::new('--tls-cert-file', '--tls-cert-file', [CompletionResultType]::ParameterName, 'Server certificate chain, PEM; TCP clients must then use TLS')
            [CompletionResult]::new('--tls-key-file', '--tls-key-file', [CompletionResultType]::ParameterName, 'Private key of the certificate, PEM')
            [CompletionResult]::new('--tls-client-ca-file', '--tls-client-ca-file', [CompletionResultType]::ParameterName, 'CA certificates that verify client certificates, PEM; requests a certificate from clients')
            [CompletionResult]::new('--tls-client-auth', '--tls-client-auth', [CompletionResultType]::ParameterName, 'Whether clients must present a certificate')
            [CompletionResult]::new('--tls-min-version', '--tls-min-version', [CompletionResultType]::ParameterName, 'Minimum TLS version')
            [CompletionResult]::new('--tls-allowed-peers', '--tls-allowed-peers', [CompletionResultType]::ParameterName, 'Allowed clients, by URI or DNS name in their certificate: NAME,NAME,…; a name may begin or end with `*`')
            [CompletionResult]::new('--configStoreURL', '--configStoreURL', [CompletionResultType]::ParameterName, 'Configuration store: a directory, fs://DIR, k8s://KUBECONFIG, mcp://HOST:PORT, mcps://HOST:PORT, mcp+listen://ADDR or embedded://sample')
            [CompletionResult]::new('--configDefaultNamespace', '--configDefaultNamespace', [CompletionResultType]::ParameterName, 'Namespace of mesh-wide rules')
            [CompletionResult]::new('--configWaitTimeout', '--configWaitTimeout', [CompletionResultType]::ParameterName, 'Timeout of the initial configuration of a remote store')
            [CompletionResult]::new('--config-on-error', '--config-on-error', [CompletionResultType]::ParameterName, 'What serves when the configuration has errors: keep-last, serve-valid or refuse')
            [CompletionResult]::new('--allow-empty-config', '--allow-empty-config', [CompletionResultType]::ParameterName, 'Accept a configuration without resources, which allows every request')
            [CompletionResult]::new('--config-cache', '--config-cache', [CompletionResultType]::ParameterName, 'Directory that keeps the last good configuration for the next start')
            [CompletionResult]::new('--config-loss', '--config-loss', [CompletionResultType]::ParameterName, 'What to do when the configuration directory disappears, with --config-on-error serve-valid: keep or drop the configuration')
            [CompletionResult]::new('--config-write-status', '--config-write-status', [CompletionResultType]::ParameterName, 'Whether to write onto Kubernetes objects whether they can be used, as a condition `Accepted` of their status')
            [CompletionResult]::new('--mcpMaxMessageSize', '--mcpMaxMessageSize', [CompletionResultType]::ParameterName, 'Maximum size of a message of an MCP source in bytes, or with a unit: a collection is one message. Example: 128MiB')
            [CompletionResult]::new('--certFile', '--certFile', [CompletionResultType]::ParameterName, 'Client certificate for mcps:// stores, PEM')
            [CompletionResult]::new('--keyFile', '--keyFile', [CompletionResultType]::ParameterName, 'Private key of the client certificate, PEM')
            [CompletionResult]::new('--caCertFile', '--caCertFile', [CompletionResultType]::ParameterName, 'CA certificates that verify mcps:// stores, PEM')
            [CompletionResult]::new('--useAdapterCRDs', '--useAdapterCRDs', [CompletionResultType]::ParameterName, 'Whether to read adapter-specific kinds (denier, memquota, …)')
            [CompletionResult]::new('--useTemplateCRDs', '--useTemplateCRDs', [CompletionResultType]::ParameterName, 'Whether to read template-specific kinds (metric, quota, …)')
            [CompletionResult]::new('--concurrency', '--concurrency', [CompletionResultType]::ParameterName, 'Worker threads, each with its own event loop and connections; 0 means one per core')
            [CompletionResult]::new('--singleThreaded', '--singleThreaded', [CompletionResultType]::ParameterName, 'Run on a single thread')
            [CompletionResult]::new('--maxMessageSize', '--maxMessageSize', [CompletionResultType]::ParameterName, 'Maximum size of a gRPC message in bytes, or with a unit. Example: 4MiB')
            [CompletionResult]::new('--memory-limit', '--memory-limit', [CompletionResultType]::ParameterName, 'Maximum memory for everything that callers can make the server keep: requests, quotas, series, caches')
            [CompletionResult]::new('--maxConcurrentStreams', '--maxConcurrentStreams', [CompletionResultType]::ParameterName, 'Maximum calls in flight per connection')
            [CompletionResult]::new('--max-check-quotas', '--max-check-quotas', [CompletionResultType]::ParameterName, 'Maximum quotas of a check, and descriptors of a rate limit call of Envoy; a call with more is rejected')
            [CompletionResult]::new('--max-report-records', '--max-report-records', [CompletionResultType]::ParameterName, 'Maximum records of a report, and entries of an access log message of Envoy; a message with more is rejected')
            [CompletionResult]::new('--receive-timeout', '--receive-timeout', [CompletionResultType]::ParameterName, 'Time limit for receiving a message: a call whose message is not complete by then fails. Example: 10s')
            [CompletionResult]::new('--max-connection-age', '--max-connection-age', [CompletionResultType]::ParameterName, 'Age at which a connection gets a GOAWAY, so that clients rebalance over the servers; 0s means never. Example: 30m')
            [CompletionResult]::new('--apiWorkerPoolSize', '--apiWorkerPoolSize', [CompletionResultType]::ParameterName, 'Maximum asynchronous API calls in flight; synchronous calls bypass the pool')
            [CompletionResult]::new('--api-worker-pool-floor', '--api-worker-pool-floor', [CompletionResultType]::ParameterName, 'Adapt the pool size to the load: initial and minimum size; 0 keeps the size fixed')
            [CompletionResult]::new('--api-queue-length', '--api-queue-length', [CompletionResultType]::ParameterName, 'Maximum API calls in the queue of the pool; further calls are rejected')
            [CompletionResult]::new('--adapterWorkerPoolSize', '--adapterWorkerPoolSize', [CompletionResultType]::ParameterName, 'Maximum asynchronous calls in flight per handler')
            [CompletionResult]::new('--adapter-worker-pool-floor', '--adapter-worker-pool-floor', [CompletionResultType]::ParameterName, 'Adapt the pool size to the load: initial and minimum size; 0 keeps the size fixed')
            [CompletionResult]::new('--adapter-queue-length', '--adapter-queue-length', [CompletionResultType]::ParameterName, 'Maximum calls in the queue of a handler; further calls fail')
            [CompletionResult]::new('--numCheckCacheEntries', '--numCheckCacheEntries', [CompletionResultType]::ParameterName, 'Maximum entries of the check cache; 0 disables the cache')
            [CompletionResult]::new('--livenessProbePath', '--livenessProbePath', [CompletionResultType]::ParameterName, 'Probe file that is updated while the server is alive')
            [CompletionResult]::new('--livenessProbeInterval', '--livenessProbeInterval', [CompletionResultType]::ParameterName, 'Maximum age of the probe file; it is updated twice per interval. Example: 2s')
            [CompletionResult]::new('--readinessProbePath', '--readinessProbePath', [CompletionResultType]::ParameterName, 'Probe file that is updated while the server is ready')
            [CompletionResult]::new('--readinessProbeInterval', '--readinessProbeInterval', [CompletionResultType]::ParameterName, 'Maximum age of the probe file; it is updated twice per interval. Example: 2s')
            [CompletionResult]::new('--pid-file', '--pid-file', [CompletionResultType]::ParameterName, 'PID file. Example: /run/mixer.pid')
            [CompletionResult]::new('--drain-delay', '--drain-delay', [CompletionResultType]::ParameterName, 'Delay between "not ready" and the end of accepting calls at shutdown')
            [CompletionResult]::new('--shutdown-timeout', '--shutdown-timeout', [CompletionResultType]::ParameterName, 'Timeout of the whole shutdown; remaining calls are aborted')
            [CompletionResult]::new('--envoy-bridge', '--envoy-bridge', [CompletionResultType]::ParameterName, 'Whether to serve Envoy on the API port: ext_authz, access log and rate limit services')
            [CompletionResult]::new('--envoy-http-address', '--envoy-http-address', [CompletionResultType]::ParameterName, 'Address of HTTP ext_authz. Example: 127.0.0.1:9191')
            [CompletionResult]::new('--envoy-ratelimit-http-address', '--envoy-ratelimit-http-address', [CompletionResultType]::ParameterName, 'Address of rate limits over HTTP: POST /json, GET /rlconfig, GET /healthcheck. Example: 127.0.0.1:9192')
            [CompletionResult]::new('--ctrlz_port', '--ctrlz_port', [CompletionResultType]::ParameterName, 'Port of the ControlZ introspection pages; 0 disables them')
            [CompletionResult]::new('--ctrlz_address', '--ctrlz_address', [CompletionResultType]::ParameterName, 'Address of the ControlZ introspection pages; `*` means all interfaces')
            [CompletionResult]::new('--ctrlz_readonly', '--ctrlz_readonly', [CompletionResultType]::ParameterName, 'Make ControlZ read-only')
            [CompletionResult]::new('--ctrlz_token_file', '--ctrlz_token_file', [CompletionResultType]::ParameterName, 'File with the bearer token that ControlZ requires: `Authorization: Bearer TOKEN`, or a login form in browsers')
            [CompletionResult]::new('--ctrlz_allowed_hosts', '--ctrlz_allowed_hosts', [CompletionResultType]::ParameterName, 'Host names that ControlZ accepts besides localhost and IP addresses. Example: ops.example.com,mixer')
            [CompletionResult]::new('--profile', '--profile', [CompletionResultType]::ParameterName, 'Whether to serve /debug/pprof on the monitoring port')
            [CompletionResult]::new('--legacy-metrics', '--legacy-metrics', [CompletionResultType]::ParameterName, 'Also expose metrics under the names of Mixer 1.0, for existing dashboards')
            [CompletionResult]::new('--heap-profile-rate', '--heap-profile-rate', [CompletionResultType]::ParameterName, 'Mean bytes between sampled allocations for /debug/pprof/heap; 0 samples only while that URL is requested')
            [CompletionResult]::new('--loadsheddingMode', '--loadsheddingMode', [CompletionResultType]::ParameterName, 'Action on calls over the limits: disabled, logonly or enforce')
            [CompletionResult]::new('--averageLatencyThreshold', '--averageLatencyThreshold', [CompletionResultType]::ParameterName, 'Maximum mean latency; 0s means no limit')
            [CompletionResult]::new('--latencySamplesPerSecond', '--latencySamplesPerSecond', [CompletionResultType]::ParameterName, 'Maximum latency samples per second')
            [CompletionResult]::new('--latencySampleHalflife', '--latencySampleHalflife', [CompletionResultType]::ParameterName, 'Half-life of a latency sample')
            [CompletionResult]::new('--maxRequestsPerSecond', '--maxRequestsPerSecond', [CompletionResultType]::ParameterName, 'Maximum calls per second; a Report counts as many calls as it has attribute sets; 0 means no limit')
            [CompletionResult]::new('--burstSize', '--burstSize', [CompletionResultType]::ParameterName, 'Burst size of the rate limit; without it the calls of a second, or 0 if called as mixs')
            [CompletionResult]::new('--load-shedding-check-reserve', '--load-shedding-check-reserve', [CompletionResultType]::ParameterName, 'Fraction of the limits above that is reserved for checks: reports are rejected earlier. From 0 to 1')
            [CompletionResult]::new('--load-shedding-fair', '--load-shedding-fair', [CompletionResultType]::ParameterName, 'Fair sharing: clients with more than the mean load are rejected first')
            [CompletionResult]::new('--log_target', '--log_target', [CompletionResultType]::ParameterName, 'Log output: a file, stdout or stderr; may be repeated')
            [CompletionResult]::new('--log_rotate', '--log_rotate', [CompletionResultType]::ParameterName, 'Additional rotated log file')
            [CompletionResult]::new('--log_rotate_max_size', '--log_rotate_max_size', [CompletionResultType]::ParameterName, 'Size at which the log file is rotated, in MiB, or with a unit. Example: 1GiB')
            [CompletionResult]::new('--log_rotate_max_age', '--log_rotate_max_age', [CompletionResultType]::ParameterName, 'Days to keep rotated log files; 0 means no limit')
            [CompletionResult]::new('--log_rotate_max_backups', '--log_rotate_max_backups', [CompletionResultType]::ParameterName, 'Rotated log files to keep; 0 means all')
            [CompletionResult]::new('--log_as_json', '--log_as_json', [CompletionResultType]::ParameterName, 'Write log records as JSON objects')
            [CompletionResult]::new('--log_output_level', '--log_output_level', [CompletionResultType]::ParameterName, 'Log levels: `[scope:]level,…` with the levels none, fatal, error, warn, info, debug')
            [CompletionResult]::new('--log_stacktrace_level', '--log_stacktrace_level', [CompletionResultType]::ParameterName, 'Minimum level of records with a stack trace: `[scope:]level,…`')
            [CompletionResult]::new('--log_caller', '--log_caller', [CompletionResultType]::ParameterName, 'Scopes whose records include the source location')
            [CompletionResult]::new('--trace_zipkin_url', '--trace_zipkin_url', [CompletionResultType]::ParameterName, 'URL of a Zipkin collector. Example: http://zipkin:9411/api/v1/spans')
            [CompletionResult]::new('--trace_jaeger_url', '--trace_jaeger_url', [CompletionResultType]::ParameterName, 'URL of a Jaeger collector. Example: http://jaeger:14268/api/traces?format=jaeger.thrift')
            [CompletionResult]::new('--trace_otlp_url', '--trace_otlp_url', [CompletionResultType]::ParameterName, 'URL of an OpenTelemetry collector (OTLP over HTTP). Example: http://collector:4318/v1/traces')
            [CompletionResult]::new('--trace_log_spans', '--trace_log_spans', [CompletionResultType]::ParameterName, 'Write a log record for every span')
            [CompletionResult]::new('--trace_sampling_rate', '--trace_sampling_rate', [CompletionResultType]::ParameterName, 'Fraction of new traces that are sampled, from 0 to 1')
            [CompletionResult]::new('--decision-log', '--decision-log', [CompletionResultType]::ParameterName, 'Decision log: a JSON line per check with attributes, result, rules, handlers and duration')
            [CompletionResult]::new('--decision-log-sampling', '--decision-log-sampling', [CompletionResultType]::ParameterName, 'Fraction of checks that are logged, from 0 to 1')
            [CompletionResult]::new('--decision-log-select', '--decision-log-select', [CompletionResultType]::ParameterName, 'Which decisions are logged')
            [CompletionResult]::new('--decision-log-max-size', '--decision-log-max-size', [CompletionResultType]::ParameterName, 'Size at which the decision log is rotated. Example: 100MiB')
            [CompletionResult]::new('--decision-log-max-backups', '--decision-log-max-backups', [CompletionResultType]::ParameterName, 'Rotated decision logs to keep; 0 means all')
            [CompletionResult]::new('--decision-queue', '--decision-queue', [CompletionResultType]::ParameterName, 'Length of the decision queue; further decisions are dropped and counted')
            [CompletionResult]::new('--decision-mask', '--decision-mask', [CompletionResultType]::ParameterName, 'Attributes whose values are masked as `***` in log and recording: `NAME` or `NAME[KEY]`, separated by commas')
            [CompletionResult]::new('--record-requests', '--record-requests', [CompletionResultType]::ParameterName, 'Recording of the first calls, with attributes and results, for `mixer diff`')
            [CompletionResult]::new('--record-max-requests', '--record-max-requests', [CompletionResultType]::ParameterName, 'Maximum calls in the recording')
            [CompletionResult]::new('--record-max-size', '--record-max-size', [CompletionResultType]::ParameterName, 'Maximum size of the recording. Example: 64MiB')
            [CompletionResult]::new('--print-config', '--print-config', [CompletionResultType]::ParameterName, 'Print all settings with their origin, then exit')
            [CompletionResult]::new('--dry-run', '--dry-run', [CompletionResultType]::ParameterName, 'Run the start-up sequence, print what would be served, then exit')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mixs;probe' {
            [CompletionResult]::new('--probe-path', '--probe-path', [CompletionResultType]::ParameterName, 'Probe file to check')
            [CompletionResult]::new('--interval', '--interval', [CompletionResultType]::ParameterName, 'Maximum age of the probe file, and interval of --watch')
            [CompletionResult]::new('--grpc', '--grpc', [CompletionResultType]::ParameterName, 'Server whose gRPC health service is called: host:port or unix:///path; may be repeated')
            [CompletionResult]::new('--service', '--service', [CompletionResultType]::ParameterName, 'Service name of the health check: empty or istio.mixer.v1.Mixer for readiness, `liveness` for liveness')
            [CompletionResult]::new('--http', '--http', [CompletionResultType]::ParameterName, 'URL that must return a 2xx status; may be repeated. Example: http://localhost:15014/readyz')
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'Timeout of a gRPC or HTTP request')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('--ca-file', '--ca-file', [CompletionResultType]::ParameterName, 'CA certificates that verify the server, PEM; default: those of the system')
            [CompletionResult]::new('--cert-file', '--cert-file', [CompletionResultType]::ParameterName, 'Client certificate chain, PEM')
            [CompletionResult]::new('--key-file', '--key-file', [CompletionResultType]::ParameterName, 'Private key of the client certificate, PEM')
            [CompletionResult]::new('--server-name', '--server-name', [CompletionResultType]::ParameterName, 'Server name in the server certificate; default: the host of the target')
            [CompletionResult]::new('--log_target', '--log_target', [CompletionResultType]::ParameterName, 'Log output: a file, stdout or stderr; may be repeated')
            [CompletionResult]::new('--log_rotate', '--log_rotate', [CompletionResultType]::ParameterName, 'Additional rotated log file')
            [CompletionResult]::new('--log_rotate_max_size', '--log_rotate_max_size', [CompletionResultType]::ParameterName, 'Size at which the log file is rotated, in MiB, or with a unit. Example: 1GiB')
            [CompletionResult]::new('--log_rotate_max_age', '--log_rotate_max_age', [CompletionResultType]::ParameterName, 'Days to keep rotated log files; 0 means no limit')
            [CompletionResult]::new('--log_rotate_max_backups', '--log_rotate_max_backups', [CompletionResultType]::ParameterName, 'Rotated log files to keep; 0 means all')
            [CompletionResult]::new('--log_as_json', '--log_as_json', [CompletionResultType]::ParameterName, 'Write log records as JSON objects')
            [CompletionResult]::new('--log_output_level', '--log_output_level', [CompletionResultType]::ParameterName, 'Log levels: `[scope:]level,…` with the levels none, fatal, error, warn, info, debug')
            [CompletionResult]::new('--log_stacktrace_level', '--log_stacktrace_level', [CompletionResultType]::ParameterName, 'Minimum level of records with a stack trace: `[scope:]level,…`')
            [CompletionResult]::new('--log_caller', '--log_caller', [CompletionResultType]::ParameterName, 'Scopes whose records include the source location')
            [CompletionResult]::new('--watch', '--watch', [CompletionResultType]::ParameterName, 'Watch the targets and print every change, until SIGINT')
            [CompletionResult]::new('--tls', '--tls', [CompletionResultType]::ParameterName, 'Use TLS; implied by the other flags of this group')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mixs;version' {
            [CompletionResult]::new('-s', '-s', [CompletionResultType]::ParameterName, 'Print the version only')
            [CompletionResult]::new('--short', '--short', [CompletionResultType]::ParameterName, 'Print the version only')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'One of ''yaml'' or ''json''; overrides --short')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'One of ''yaml'' or ''json''; overrides --short')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'mixs;crd' {
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('all', 'all', [CompletionResultType]::ParameterValue, 'List all kinds: core, adapters, instances')
            [CompletionResult]::new('adapter', 'adapter', [CompletionResultType]::ParameterValue, 'List adapter-specific kinds')
            [CompletionResult]::new('instance', 'instance', [CompletionResultType]::ParameterValue, 'List template-specific kinds')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'mixs;crd;all' {
            [CompletionResult]::new('--api-version', '--api-version', [CompletionResultType]::ParameterName, 'API version of the definitions: v1beta1 or v1')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mixs;crd;adapter' {
            [CompletionResult]::new('--api-version', '--api-version', [CompletionResultType]::ParameterName, 'API version of the definitions: v1beta1 or v1')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mixs;crd;instance' {
            [CompletionResult]::new('--api-version', '--api-version', [CompletionResultType]::ParameterName, 'API version of the definitions: v1beta1 or v1')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mixs;crd;help' {
            [CompletionResult]::new('all', 'all', [CompletionResultType]::ParameterValue, 'List all kinds: core, adapters, instances')
            [CompletionResult]::new('adapter', 'adapter', [CompletionResultType]::ParameterValue, 'List adapter-specific kinds')
            [CompletionResult]::new('instance', 'instance', [CompletionResultType]::ParameterValue, 'List template-specific kinds')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'mixs;crd;help;all' {
            break
        }
        'mixs;crd;help;adapter' {
            break
        }
        'mixs;crd;help;instance' {
            break
        }
        'mixs;crd;help;help' {
            break
        }
        'mixs;help' {
            [CompletionResult]::new('server', 'server', [CompletionResultType]::ParameterValue, 'Start the server')
            [CompletionResult]::new('probe', 'probe', [CompletionResultType]::ParameterValue, 'Check whether a server is alive or ready')
            [CompletionResult]::new('version', 'version', [CompletionResultType]::ParameterValue, 'Print program version and build information')
            [CompletionResult]::new('crd', 'crd', [CompletionResultType]::ParameterValue, 'Print the Kubernetes custom resource definitions')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'mixs;help;server' {
            break
        }
        'mixs;help;probe' {
            break
        }
        'mixs;help;version' {
            break
        }
        'mixs;help;crd' {
            [CompletionResult]::new('all', 'all', [CompletionResultType]::ParameterValue, 'List all kinds: core, adapters, instances')
            [CompletionResult]::new('adapter', 'adapter', [CompletionResultType]::ParameterValue, 'List adapter-specific kinds')
            [CompletionResult]::new('instance', 'instance', [CompletionResultType]::ParameterValue, 'List template-specific kinds')
            break
        }
        'mixs;help;crd;all' {
            break
        }
        'mixs;help;crd;adapter' {
            break
        }
        'mixs;help;crd;instance' {
            break
        }
        'mixs;help;help' {
            break
        }
    })

    $completions.Where{ $_.CompletionText -like "$wordToComplete*" } |
        Sort-Object -Property ListItemText
}
