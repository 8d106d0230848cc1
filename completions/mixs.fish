# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_mixs_global_optspecs
    string join \n h/help
end

function __fish_mixs_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_mixs_global_optspecs) -- $cmd 2>/dev/null
    or return 0
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_mixs_using_subcommand
    set -l cmd (__fish_mixs_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c mixs -n "__fish_mixs_needs_command" -s h -l help -d 'Print help'
complete -c mixs -n "__fish_mixs_needs_command" -f -a "server" -d 'Start the server'
complete -c mixs -n "__fish_mixs_needs_command" -f -a "probe" -d 'Check whether a server is alive or ready'
complete -c mixs -n "__fish_mixs_needs_command" -f -a "version" -d 'Print program version and build information'
complete -c mixs -n "__fish_mixs_needs_command" -f -a "crd" -d 'Print the Kubernetes custom resource definitions'
complete -c mixs -n "__fish_mixs_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c mixs -n "__fish_mixs_using_subcommand server" -l config-file -d 'Settings file, YAML or TOML; keys are flag names' -r -F
complete -c mixs -n "__fish_mixs_using_subcommand server" -s p -l port -d 'TCP port of the gRPC API on all interfaces; ignored if --address is set' -r -f
complete -c mixs -n "__fish_mixs_using_subcommand server" -l address -d 'Address of the gRPC API: tcp://127.0.0.1:9091 or unix:///run/mixer.sock' -r -f -a "(__fish_print_hostnames)"
complete -c mixs -n "__fish_mixs_using_subcommand server" -l socket-mode -d 'File mode of a Unix socket, octal. Example: 0660' -r -f
complete -c mixs -n "__fish_mixs_using_subcommand server" -l grpc-reflection -d 'Whether to serve gRPC reflection; auto enables it if the API listens on loopback or a Unix socket only' -r -f -a "auto\t'Only if the API is reachable from this host only'
on\t'Always'
off\t'Never'"
complete -c mixs -n "__fish_mixs_using_subcommand server" -l monitoringPort -d 'HTTP port of metrics, version and health, on all interfaces; profiles and texts of errors are for clients on this host' -r -f
complete -c mixs -n "__fish_mixs_using_subcommand server" -l monitoring-address -d 'Address of that port, instead of all interfaces; both are then for whoever reaches it. Example: 127.0.0.1:15014' -r -f -a "(__fish_print_hostnames)"
complete -c mixs -n "__fish_mixs_using_subcommand server" -l metrics-port -d 'HTTP port of the metrics of prometheus handlers, on all interfaces' -r -f
complete -c mixs -n "__fish_mixs_using_subcommand server" -l metrics-address -d 'Address of those metrics, instead of all interfaces. Example: 127.0.0.1:42422' -r -f -a "(__fish_print_hostnames)"
complete -c mixs -n "__fish_mixs_using_subcommand server" -l tls-cert-file -d 'Server certificate chain, PEM; TCP clients must then use TLS' -r -F
complete -c mixs -n "__fish_mixs_using_subcommand server" -l tls-key-file -d 'Private key of the certificate, PEM' -r -F
complete -c mixs -n "__fish_mixs_using_subcommand server" -l tls-client-ca-file -d 'CA certificates that verify client certificates, PEM; requests a certificate from clients' -r -F
complete -c mixs -n "__fish_mixs_using_subcommand server" -l tls-client-auth -d 'Whether clients must present a certificate' -r -f -a "require\t'Clients without a certificate are refused'
optional\t'A certificate is verified if presented'"
complete -c mixs -n "__fish_mixs_using_subcommand server" -l tls-min-version -d 'Minimum TLS version' -r -f -a "1.2\t'TLS 1.2'
1.3\t'TLS 1.3'"
complete -c mixs -n "__fish_mixs_using_subcommand server" -l tls-allowed-peers -d 'Allowed clients, by URI or DNS name in their certificate: NAME,NAME,…; a name may begin or end with `*`' -r -f
complete -c mixs -n "__fish_mixs_using_subcommand server" -l configStoreURL -d 'Configuration store: a directory, fs://DIR, k8s://KUBECONFIG, mcp://HOST:PORT, mcps://HOST:PORT, mcp+listen://ADDR or embedded://sample' -r -F
complete -c mixs -n "__fish_mixs_using_subcommand server" -l configDefaultNamespace -d 'Namespace of mesh-wide rules' -r -f
complete -c mixs -n "__fish_mixs_using_subcommand server" -l configWaitTimeout -d 'Timeout of the initial configuration of a remote store' -r -f
complete -c mixs -n "__fish_mixs_using_subcommand server" -l config-on-error -d 'What serves when the configuration has errors: keep-last, serve-valid or refuse' -r -f -a "keep-last\t''
serve-valid\t''
refuse\t''"
complete -c mixs -n "__fish_mixs_using_subcommand server" -l allow-empty-config -d 'Accept a configuration without resources, which allows every request' -r -f -a "true\t''
false\t''"
complete -c mixs -n "__fish_mixs_using_subcommand server" -l config-cache -d 'Directory that keeps the last good configuration for the next start' -r -f -a "(__fish_complete_directories)"
complete -c mixs -n "__fish_mixs_using_subcommand server" -l config-loss -d 'What to do when the configuration directory disappears, with --config-on-error serve-valid: keep or drop the configuration' -r -f -a "keep\t''
drop\t''"
complete -c mixs -n "__fish_mixs_using_subcommand server" -l config-write-status -d 'Whether to write onto Kubernetes objects whether they can be used, as a condition `Accepted` of their status' -r -f -a "true\t''
false\t''"
complete -c mixs -n "__fish_mixs_using_subcommand server" -l mcpMaxMessageSize -d 'Maximum size of a message of an MCP source in bytes, or with a unit: a collection is one message. Example: 128MiB' -r -f
complete -c mixs -n "__fish_mixs_using_subcommand server" -l certFile -d 'Client certificate for mcps:// stores, PEM' -r -F
complete -c mixs -n "__fish_mixs_using_subcommand server" -l keyFile -d 'Private key of the client certificate, PEM' -r -F
complete -c mixs -n "__fish_mixs_using_subcommand server" -l caCertFile -d 'CA certificates that verify mcps:// stores, PEM' -r -F
complete -c mixs -n "__fish_mixs_using_subcommand server" -l useAdapterCRDs -d 'Whether to read adapter-specific kinds (denier, memquota, …)' -r -f -a "true\t''
false\t''"
complete -c mixs -n "__fish_mixs_using_subcommand server" -l useTemplateCRDs -d 'Whether to read template-specific kinds (metric, quota, …)' -r -f -a "true\t''
false\t''"
complete -c mixs -n "__fish_mixs_using_subcommand server" -l concurrency -d 'Worker threads, each with its own event loop and connections; 0 means one per core' -r -f
complete -c mixs -n "__fish_mixs_using_subcommand server" -l singleThreaded -d 'Run on a single thread' -r -f -a "true\t''
false\t''"
complete -c mixs -n "__fish_mixs_using_subcommand server" -l maxMessageSize -d 'Maximum size of a gRPC message in bytes, or with a unit. Example: 4MiB' -r -f
complete -c mixs -n "__fish_mixs_using_subcommand server" -l memory-limit -d 'Maximum memory for everything that callers can make the server keep: requests, quotas, series, caches' -r -f
complete -c mixs -n "__fish_mixs_using_subcommand server" -l maxConcurrentStreams -d 'Maximum calls in flight per connection' -r -f
complete -c mixs -n "__fish_mixs_using_subcommand server" -l max-check-quotas -d 'Maximum quotas of a check, and descriptors of a rate limit call of Envoy; a call with more is rejected' -r -f
complete -c mixs -n "__fish_mixs_using_subcommand server" -l max-report-records -d 'Maximum records of a report, and entries of an access log message of Envoy; a message with more is rejected' -r -f
complete -c mixs -n "__fish_mixs_using_subcommand server" -l receive-timeout -d 'Time limit for receiving a message: a call whose message is not complete by then fails. Example: 10s' -r -f
complete -c mixs -n "__fish_mixs_using_subcommand server" -l max-connection-age -d 'Age at which a connection gets a GOAWAY, so that clients rebalance over the servers; 0s means never. Example: 30m' -r -f
complete -c mixs -n "__fish_mixs_using_subcommand server" -l apiWorkerPoolSize -d 'Maximum asynchronous API calls in flight; synchronous calls bypass the pool' -r -f
complete -c mixs -n "__fish_mixs_using_subcommand server" -l api-worker-pool-floor -d 'Adapt the pool size to the load: initial and minimum size; 0 keeps the size fixed' -r -f
complete -c mixs -n "__fish_mixs_using_subcommand server" -l api-queue-length -d 'Maximum API calls in the queue of the pool; further calls are rejected' -r -f
complete -c mixs -n "__fish_mixs_using_subcommand server" -l adapterWorkerPoolSize -d 'Maximum asynchronous calls in flight per handler' -r -f
complete -c mixs -n "__fish_mixs_using_subcommand server" -l adapter-worker-pool-floor -d 'Adapt the pool size to the load: initial and minimum size; 0 keeps the size fixed' -r -f
complete -c mixs -n "__fish_mixs_using_subcommand server" -l adapter-queue-length -d 'Maximum calls in the queue of a handler; further calls fail' -r -f
complete -c mixs -n "__fish_mixs_using_subcommand server" -l numCheckCacheEntries -d 'Maximum entries of the check cache; 0 disables the cache' -r -f
complete -c mixs -n "__fish_mixs_using_subcommand server" -l livenessProbePath -d 'Probe file that is updated while the server is alive' -r -F
complete -c mixs -n "__fish_mixs_using_subcommand server" -l livenessProbeInterval -d 'Maximum age of the probe file; it is updated twice per interval. Example: 2s' -r -f
complete -c mixs -n "__fish_mixs_using_subcommand server" -l readinessProbePath -d 'Probe file that is updated while the server is ready' -r -F
complete -c mixs -n "__fish_mixs_using_subcommand server" -l readinessProbeInterval -d 'Maximum age of the probe file; it is updated twice per interval. Example: 2s' -r -f
complete -c mixs -n "__fish_mixs_using_subcommand server" -l pid-file -d 'PID file. Example: /run/mixer.pid' -r -F
complete -c mixs -n "__fish_mixs_using_subcommand server" -l drain-delay -d 'Delay between "not ready" and the end of accepting calls at shutdown' -r -f
complete -c mixs -n "__fish_mixs_using_subcommand server" -l shutdown-timeout -d 'Timeout of the whole shutdown; remaining calls are aborted' -r -f
complete -c mixs -n "__fish_mixs_using_subcommand server" -l envoy-bridge -d 'Whether to serve Envoy on the API port: ext_authz, access log and rate limit services' -r -f -a "true\t''
false\t''"
complete -c mixs -n "__fish_mixs_using_subcommand server" -l envoy-http-address -d 'Address of HTTP ext_authz. Example: 127.0.0.1:9191' -r -f -a "(__fish_print_hostnames)"
complete -c mixs -n "__fish_mixs_using_subcommand server" -l envoy-ratelimit-http-address -d 'Address of rate limits over HTTP: POST /json, GET /rlconfig, GET /healthcheck. Example: 127.0.0.1:9192' -r -f -a "(__fish_print_hostnames)"
complete -c mixs -n "__fish_mixs_using_subcommand server" -l ctrlz_port -d 'Port of the ControlZ introspection pages; 0 disables them' -r -f
complete -c mixs -n "__fish_mixs_using_subcommand server" -l ctrlz_address -d 'Address of the ControlZ introspection pages; `*` means all interfaces' -r -f -a "(__fish_print_hostnames)"
complete -c mixs -n "__fish_mixs_using_subcommand server" -l ctrlz_readonly -d 'Make ControlZ read-only' -r -f -a "true\t''
false\t''"
complete -c mixs -n "__fish_mixs_using_subcommand server" -l ctrlz_token_file -d 'File with the bearer token that ControlZ requires: `Authorization: Bearer TOKEN`, or a login form in browsers' -r -F
complete -c mixs -n "__fish_mixs_using_subcommand server" -l ctrlz_allowed_hosts -d 'Host names that ControlZ accepts besides localhost and IP addresses. Example: ops.example.com,mixer' -r -f
complete -c mixs -n "__fish_mixs_using_subcommand server" -l profile -d 'Whether to serve /debug/pprof on the monitoring port' -r -f -a "true\t''
false\t''"
complete -c mixs -n "__fish_mixs_using_subcommand server" -l legacy-metrics -d 'Also expose metrics under the names of Mixer 1.0, for existing dashboards' -r -f -a "true\t''
false\t''"
complete -c mixs -n "__fish_mixs_using_subcommand server" -l heap-profile-rate -d 'Mean bytes between sampled allocations for /debug/pprof/heap; 0 samples only while that URL is requested' -r -f
complete -c mixs -n "__fish_mixs_using_subcommand server" -l loadsheddingMode -d 'Action on calls over the limits: disabled, logonly or enforce' -r -f
complete -c mixs -n "__fish_mixs_using_subcommand server" -l averageLatencyThreshold -d 'Maximum mean latency; 0s means no limit' -r -f
complete -c mixs -n "__fish_mixs_using_subcommand server" -l latencySamplesPerSecond -d 'Maximum latency samples per second' -r -f
complete -c mixs -n "__fish_mixs_using_subcommand server" -l latencySampleHalflife -d 'Half-life of a latency sample' -r -f
complete -c mixs -n "__fish_mixs_using_subcommand server" -l maxRequestsPerSecond -d 'Maximum calls per second; a Report counts as many calls as it has attribute sets; 0 means no limit' -r -f
complete -c mixs -n "__fish_mixs_using_subcommand server" -l burstSize -d 'Burst size of the rate limit; without it the calls of a second, or 0 if called as mixs' -r -f
complete -c mixs -n "__fish_mixs_using_subcommand server" -l load-shedding-check-reserve -d 'Fraction of the limits above that is reserved for checks: reports are rejected earlier. From 0 to 1' -r -f
complete -c mixs -n "__fish_mixs_using_subcommand server" -l load-shedding-fair -d 'Fair sharing: clients with more than the mean load are rejected first' -r -f -a "true\t''
false\t''"
complete -c mixs -n "__fish_mixs_using_subcommand server" -l log_target -d 'Log output: a file, stdout or stderr; may be repeated' -r -f
complete -c mixs -n "__fish_mixs_using_subcommand server" -l log_rotate -d 'Additional rotated log file' -r -F
complete -c mixs -n "__fish_mixs_using_subcommand server" -l log_rotate_max_size -d 'Size at which the log file is rotated, in MiB, or with a unit. Example: 1GiB' -r -f
complete -c mixs -n "__fish_mixs_using_subcommand server" -l log_rotate_max_age -d 'Days to keep rotated log files; 0 means no limit' -r -f
complete -c mixs -n "__fish_mixs_using_subcommand server" -l log_rotate_max_backups -d 'Rotated log files to keep; 0 means all' -r -f
complete -c mixs -n "__fish_mixs_using_subcommand server" -l log_as_json -d 'Write log records as JSON objects' -r -f -a "true\t''
false\t''"
complete -c mixs -n "__fish_mixs_using_subcommand server" -l log_output_level -d 'Log levels: `[scope:]level,…` with the levels none, fatal, error, warn, info, debug' -r -f
complete -c mixs -n "__fish_mixs_using_subcommand server" -l log_stacktrace_level -d 'Minimum level of records with a stack trace: `[scope:]level,…`' -r -f
complete -c mixs -n "__fish_mixs_using_subcommand server" -l log_caller -d 'Scopes whose records include the source location' -r -f
complete -c mixs -n "__fish_mixs_using_subcommand server" -l trace_zipkin_url -d 'URL of a Zipkin collector. Example: http://zipkin:9411/api/v1/spans' -r -f
complete -c mixs -n "__fish_mixs_using_subcommand server" -l trace_jaeger_url -d 'URL of a Jaeger collector. Example: http://jaeger:14268/api/traces?format=jaeger.thrift' -r -f
complete -c mixs -n "__fish_mixs_using_subcommand server" -l trace_otlp_url -d 'URL of an OpenTelemetry collector (OTLP over HTTP). Example: http://collector:4318/v1/traces' -r -f
complete -c mixs -n "__fish_mixs_using_subcommand server" -l trace_log_spans -d 'Write a log record for every span' -r -f -a "true\t''
false\t''"
complete -c mixs -n "__fish_mixs_using_subcommand server" -l trace_sampling_rate -d 'Fraction of new traces that are sampled, from 0 to 1' -r -f
complete -c mixs -n "__fish_mixs_using_subcommand server" -l decision-log -d 'Decision log: a JSON line per check with attributes, result, rules, handlers and duration' -r -F
complete -c mixs -n "__fish_mixs_using_subcommand server" -l decision-log-sampling -d 'Fraction of checks that are logged, from 0 to 1' -r -f
complete -c mixs -n "__fish_mixs_using_subcommand server" -l decision-log-select -d 'Which decisions are logged' -r -f -a "all\t'All'
denied\t'Denials, failures, quotas not granted in full, and denials of dry-run rules'"
complete -c mixs -n "__fish_mixs_using_subcommand server" -l decision-log-max-size -d 'Size at which the decision log is rotated. Example: 100MiB' -r -f
complete -c mixs -n "__fish_mixs_using_subcommand server" -l decision-log-max-backups -d 'Rotated decision logs to keep; 0 means all' -r -f
complete -c mixs -n "__fish_mixs_using_subcommand server" -l decision-queue -d 'Length of the decision queue; further decisions are dropped and counted' -r -f
complete -c mixs -n "__fish_mixs_using_subcommand server" -l decision-mask -d 'Attributes whose values are masked as `***` in log and recording: `NAME` or `NAME[KEY]`, separated by commas' -r -f
complete -c mixs -n "__fish_mixs_using_subcommand server" -l record-requests -d 'Recording of the first calls, with attributes and results, for `mixer diff`' -r -F
complete -c mixs -n "__fish_mixs_using_subcommand server" -l record-max-requests -d 'Maximum calls in the recording' -r -f
complete -c mixs -n "__fish_mixs_using_subcommand server" -l record-max-size -d 'Maximum size of the recording. Example: 64MiB' -r -f
complete -c mixs -n "__fish_mixs_using_subcommand server" -l print-config -d 'Print all settings with their origin, then exit'
complete -c mixs -n "__fish_mixs_using_subcommand server" -l dry-run -d 'Run the start-up sequence, print what would be served, then exit'
complete -c mixs -n "__fish_mixs_using_subcommand server" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mixs -n "__fish_mixs_using_subcommand probe" -l probe-path -d 'Probe file to check' -r -F
complete -c mixs -n "__fish_mixs_using_subcommand probe" -l interval -d 'Maximum age of the probe file, and interval of --watch' -r -f
complete -c mixs -n "__fish_mixs_using_subcommand probe" -l grpc -d 'Server whose gRPC health service is called: host:port or unix:///path; may be repeated' -r -f -a "(__fish_print_hostnames)"
complete -c mixs -n "__fish_mixs_using_subcommand probe" -l service -d 'Service name of the health check: empty or istio.mixer.v1.Mixer for readiness, `liveness` for liveness' -r -f
complete -c mixs -n "__fish_mixs_using_subcommand probe" -l http -d 'URL that must return a 2xx status; may be repeated. Example: http://localhost:15014/readyz' -r -f
complete -c mixs -n "__fish_mixs_using_subcommand probe" -l timeout -d 'Timeout of a gRPC or HTTP request' -r -f
complete -c mixs -n "__fish_mixs_using_subcommand probe" -s o -l output -d 'Output format' -r -f -a "plain\t'One line'
json\t'One JSON document; with --watch one line per change'"
complete -c mixs -n "__fish_mixs_using_subcommand probe" -l ca-file -d 'CA certificates that verify the server, PEM; default: those of the system' -r -F
complete -c mixs -n "__fish_mixs_using_subcommand probe" -l cert-file -d 'Client certificate chain, PEM' -r -F
complete -c mixs -n "__fish_mixs_using_subcommand probe" -l key-file -d 'Private key of the client certificate, PEM' -r -F
complete -c mixs -n "__fish_mixs_using_subcommand probe" -l server-name -d 'Server name in the server certificate; default: the host of the target' -r -f
complete -c mixs -n "__fish_mixs_using_subcommand probe" -l log_target -d 'Log output: a file, stdout or stderr; may be repeated' -r -f
complete -c mixs -n "__fish_mixs_using_subcommand probe" -l log_rotate -d 'Additional rotated log file' -r -F
complete -c mixs -n "__fish_mixs_using_subcommand probe" -l log_rotate_max_size -d 'Size at which the log file is rotated, in MiB, or with a unit. Example: 1GiB' -r -f
complete -c mixs -n "__fish_mixs_using_subcommand probe" -l log_rotate_max_age -d 'Days to keep rotated log files; 0 means no limit' -r -f
complete -c mixs -n "__fish_mixs_using_subcommand probe" -l log_rotate_max_backups -d 'Rotated log files to keep; 0 means all' -r -f
complete -c mixs -n "__fish_mixs_using_subcommand probe" -l log_as_json -d 'Write log records as JSON objects' -r -f -a "true\t''
false\t''"
complete -c mixs -n "__fish_mixs_using_subcommand probe" -l log_output_level -d 'Log levels: `[scope:]level,…` with the levels none, fatal, error, warn, info, debug' -r -f
complete -c mixs -n "__fish_mixs_using_subcommand probe" -l log_stacktrace_level -d 'Minimum level of records with a stack trace: `[scope:]level,…`' -r -f
complete -c mixs -n "__fish_mixs_using_subcommand probe" -l log_caller -d 'Scopes whose records include the source location' -r -f
complete -c mixs -n "__fish_mixs_using_subcommand probe" -l watch -d 'Watch the targets and print every change, until SIGINT'
complete -c mixs -n "__fish_mixs_using_subcommand probe" -l tls -d 'Use TLS; implied by the other flags of this group'
complete -c mixs -n "__fish_mixs_using_subcommand probe" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mixs -n "__fish_mixs_using_subcommand version" -s s -l short -d 'Print the version only' -r -f -a "true\t''
false\t''"
complete -c mixs -n "__fish_mixs_using_subcommand version" -s o -l output -d 'One of \'yaml\' or \'json\'; overrides --short' -r -f
complete -c mixs -n "__fish_mixs_using_subcommand version" -s h -l help -d 'Print help'
complete -c mixs -n "__fish_mixs_using_subcommand crd; and not __fish_seen_subcommand_from all adapter instance help" -s h -l help -d 'Print help'
complete -c mixs -n "__fish_mixs_using_subcommand crd; and not __fish_seen_subcommand_from all adapter instance help" -f -a "all" -d 'List all kinds: core, adapters, instances'
complete -c mixs -n "__fish_mixs_using_subcommand crd; and not __fish_seen_subcommand_from all adapter instance help" -f -a "adapter" -d 'List adapter-specific kinds'
complete -c mixs -n "__fish_mixs_using_subcommand crd; and not __fish_seen_subcommand_from all adapter instance help" -f -a "instance" -d 'List template-specific kinds'
complete -c mixs -n "__fish_mixs_using_subcommand crd; and not __fish_seen_subcommand_from all adapter instance help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c mixs -n "__fish_mixs_using_subcommand crd; and __fish_seen_subcommand_from all" -l api-version -d 'API version of the definitions: v1beta1 or v1' -r -f -a "v1beta1\t''
v1\t''"
complete -c mixs -n "__fish_mixs_using_subcommand crd; and __fish_seen_subcommand_from all" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mixs -n "__fish_mixs_using_subcommand crd; and __fish_seen_subcommand_from adapter" -l api-version -d 'API version of the definitions: v1beta1 or v1' -r -f -a "v1beta1\t''
v1\t''"
complete -c mixs -n "__fish_mixs_using_subcommand crd; and __fish_seen_subcommand_from adapter" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mixs -n "__fish_mixs_using_subcommand crd; and __fish_seen_subcommand_from instance" -l api-version -d 'API version of the definitions: v1beta1 or v1' -r -f -a "v1beta1\t''
v1\t''"
complete -c mixs -n "__fish_mixs_using_subcommand crd; and __fish_seen_subcommand_from instance" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mixs -n "__fish_mixs_using_subcommand crd; and __fish_seen_subcommand_from help" -f -a "all" -d 'List all kinds: core, adapters, instances'
complete -c mixs -n "__fish_mixs_using_subcommand crd; and __fish_seen_subcommand_from help" -f -a "adapter" -d 'List adapter-specific kinds'
complete -c mixs -n "__fish_mixs_using_subcommand crd; and __fish_seen_subcommand_from help" -f -a "instance" -d 'List template-specific kinds'
complete -c mixs -n "__fish_mixs_using_subcommand crd; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c mixs -n "__fish_mixs_using_subcommand help; and not __fish_seen_subcommand_from server probe version crd help" -f -a "server" -d 'Start the server'
complete -c mixs -n "__fish_mixs_using_subcommand help; and not __fish_seen_subcommand_from server probe version crd help" -f -a "probe" -d 'Check whether a server is alive or ready'
complete -c mixs -n "__fish_mixs_using_subcommand help; and not __fish_seen_subcommand_from server probe version crd help" -f -a "version" -d 'Print program version and build information'
complete -c mixs -n "__fish_mixs_using_subcommand help; and not __fish_seen_subcommand_from server probe version crd help" -f -a "crd" -d 'Print the Kubernetes custom resource definitions'
complete -c mixs -n "__fish_mixs_using_subcommand help; and not __fish_seen_subcommand_from server probe version crd help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c mixs -n "__fish_mixs_using_subcommand help; and __fish_seen_subcommand_from crd" -f -a "all" -d 'List all kinds: core, adapters, instances'
complete -c mixs -n "__fish_mixs_using_subcommand help; and __fish_seen_subcommand_from crd" -f -a "adapter" -d 'List adapter-specific kinds'
complete -c mixs -n "__fish_mixs_using_subcommand help; and __fish_seen_subcommand_from crd" -f -a "instance" -d 'List template-specific kinds'
