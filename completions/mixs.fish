# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_mixs_global_optspecs
    string join \n h/help
end

function __fish_mixs_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_mixs_global_optspecs) -- $cmd 2>/dev/null
    or return
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

complete -c mixs -n "__fish_mixs_needs_command" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mixs -n "__fish_mixs_needs_command" -f -a "server" -d 'Start the server'
complete -c mixs -n "__fish_mixs_needs_command" -f -a "probe" -d 'Check whether a server is alive or ready'
complete -c mixs -n "__fish_mixs_needs_command" -f -a "version" -d 'Print program version and build information'
complete -c mixs -n "__fish_mixs_needs_command" -f -a "crd" -d 'Print the Kubernetes custom resource definitions'
complete -c mixs -n "__fish_mixs_needs_command" -f -a "collateral" -d 'Write documentation and completion files into a directory'
complete -c mixs -n "__fish_mixs_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c mixs -n "__fish_mixs_using_subcommand server" -l config-file -d 'Settings file, YAML or TOML; keys are flag names' -r -F
complete -c mixs -n "__fish_mixs_using_subcommand server" -s p -l port -d 'TCP port of the gRPC API on all interfaces; ignored if --address is set' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l address -d 'Address of the gRPC API: tcp://127.0.0.1:9091 or unix:///run/mixer.sock' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l socket-mode -d 'File mode of a Unix socket, octal. Example: 0660' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l grpc-reflection -d 'Whether to serve gRPC reflection; auto enables it if the API listens on loopback or a Unix socket only' -r -f -a "auto\t'Only if the API is reachable from this host only'
on\t'Always'
off\t'Never'"
complete -c mixs -n "__fish_mixs_using_subcommand server" -l monitoringPort -d 'HTTP port of metrics, version and health, on all interfaces; profiles are for clients on this host' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l monitoring-address -d 'Address of that port, instead of all interfaces; profiles are then for whoever reaches it. Example: 127.0.0.1:15014' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l metrics-port -d 'HTTP port of the metrics of prometheus handlers, on all interfaces' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l tls-cert-file -d 'Server certificate chain, PEM; TCP clients must then use TLS' -r -F
complete -c mixs -n "__fish_mixs_using_subcommand server" -l tls-key-file -d 'Private key of the certificate, PEM' -r -F
complete -c mixs -n "__fish_mixs_using_subcommand server" -l tls-client-ca-file -d 'CA certificates that verify client certificates, PEM; requests a certificate from clients' -r -F
complete -c mixs -n "__fish_mixs_using_subcommand server" -l tls-client-auth -d 'Whether clients must present a certificate' -r -f -a "require\t'Clients without a certificate are refused'
optional\t'A certificate is verified if presented'"
complete -c mixs -n "__fish_mixs_using_subcommand server" -l tls-min-version -d 'Minimum TLS version' -r -f -a "1.2\t'TLS 1.2'
1.3\t'TLS 1.3'"
complete -c mixs -n "__fish_mixs_using_subcommand server" -l tls-allowed-peers -d 'Allowed clients, by URI or DNS name in their certificate: NAME,NAME,…; a name may begin or end with `*`' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l configStoreURL -d 'Configuration store: a directory, fs://DIR, k8s://KUBECONFIG, mcp://HOST:PORT, mcps://HOST:PORT, mcp+listen://ADDR or embedded://sample' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l configDefaultNamespace -d 'Namespace of mesh-wide rules' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l configWaitTimeout -d 'Timeout of the initial configuration of a remote store' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l config-on-error -d 'What serves when the configuration has errors: keep-last, serve-valid or refuse' -r -f -a "keep-last\t''
serve-valid\t''
refuse\t''"
complete -c mixs -n "__fish_mixs_using_subcommand server" -l allow-empty-config -d 'Accept a configuration without resources, which allows every request' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l config-cache -d 'Directory that keeps the last good configuration for the next start' -r -F
complete -c mixs -n "__fish_mixs_using_subcommand server" -l config-loss -d 'What to do when the configuration directory disappears, with --config-on-error serve-valid: keep or drop the configuration' -r -f -a "keep\t''
drop\t''"
complete -c mixs -n "__fish_mixs_using_subcommand server" -l config-write-status -d 'Whether to write onto Kubernetes objects whether they can be used, as a condition `Accepted` of their status' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l mcpMaxMessageSize -d 'Maximum size of a message of an MCP source in bytes, or with a unit: a collection is one message. Example: 128MiB' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l certFile -d 'Client certificate for mcps:// stores, PEM' -r -F
complete -c mixs -n "__fish_mixs_using_subcommand server" -l keyFile -d 'Private key of the client certificate, PEM' -r -F
complete -c mixs -n "__fish_mixs_using_subcommand server" -l caCertFile -d 'CA certificates that verify mcps:// stores, PEM' -r -F
complete -c mixs -n "__fish_mixs_using_subcommand server" -l useAdapterCRDs -d 'Whether to read adapter-specific kinds (denier, memquota, …)' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l useTemplateCRDs -d 'Whether to read template-specific kinds (metric, quota, …)' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l concurrency -d 'Worker threads, each with its own event loop and connections; 0 means one per core' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l singleThreaded -d 'Run on a single thread' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l maxMessageSize -d 'Maximum size of a gRPC message in bytes, or with a unit. Example: 4MiB' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l memory-limit -d 'Maximum memory for everything that callers can make the server keep: requests, quotas, series, caches' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l maxConcurrentStreams -d 'Maximum calls in flight per connection' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l max-check-quotas -d 'Maximum quotas of a check, and descriptors of a rate limit call of Envoy; a call with more is rejected' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l max-report-records -d 'Maximum records of a report, and entries of an access log message of Envoy; a message with more is rejected' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l receive-timeout -d 'Time limit for receiving a message: a call whose message is not complete by then fails. Example: 10s' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l max-connection-age -d 'Age at which a connection gets a GOAWAY, so that clients rebalance over the servers; 0s means never. Example: 30m' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l apiWorkerPoolSize -d 'Maximum asynchronous API calls in flight; synchronous calls bypass the pool' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l api-worker-pool-floor -d 'Adapt the pool size to the load: initial and minimum size; 0 keeps the size fixed' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l api-queue-length -d 'Maximum API calls in the queue of the pool; further calls are rejected' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l adapterWorkerPoolSize -d 'Maximum asynchronous calls in flight per handler' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l adapter-worker-pool-floor -d 'Adapt the pool size to the load: initial and minimum size; 0 keeps the size fixed' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l adapter-queue-length -d 'Maximum calls in the queue of a handler; further calls fail' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l numCheckCacheEntries -d 'Maximum entries of the check cache; 0 disables the cache' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l livenessProbePath -d 'Probe file that is updated while the server is alive' -r -F
complete -c mixs -n "__fish_mixs_using_subcommand server" -l livenessProbeInterval -d 'Maximum age of the probe file; it is updated twice per interval. Example: 2s' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l readinessProbePath -d 'Probe file that is updated while the server is ready' -r -F
complete -c mixs -n "__fish_mixs_using_subcommand server" -l readinessProbeInterval -d 'Maximum age of the probe file; it is updated twice per interval. Example: 2s' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l pid-file -d 'PID file. Example: /run/mixer.pid' -r -F
complete -c mixs -n "__fish_mixs_using_subcommand server" -l drain-delay -d 'Delay between "not ready" and the end of accepting calls at shutdown' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l shutdown-timeout -d 'Timeout of the whole shutdown; remaining calls are aborted' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l envoy-bridge -d 'Whether to serve Envoy on the API port: ext_authz, access log and rate limit services' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l envoy-http-address -d 'Address of HTTP ext_authz. Example: 127.0.0.1:9191' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l envoy-ratelimit-http-address -d 'Address of rate limits over HTTP: POST /json, GET /rlconfig, GET /healthcheck. Example: 127.0.0.1:9192' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l ctrlz_port -d 'Port of the ControlZ introspection pages; 0 disables them' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l ctrlz_address -d 'Address of the ControlZ introspection pages; `*` means all interfaces' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l ctrlz_readonly -d 'Make ControlZ read-only' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l ctrlz_token_file -d 'File with the bearer token that ControlZ requires: `Authorization: Bearer TOKEN`, or a login form in browsers' -r -F
complete -c mixs -n "__fish_mixs_using_subcommand server" -l ctrlz_allowed_hosts -d 'Host names that ControlZ accepts besides localhost and IP addresses. Example: ops.example.com,mixer' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l profile -d 'Whether to serve /debug/pprof on the monitoring port' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l legacy-metrics -d 'Also expose metrics under the names of Mixer 1.0, for existing dashboards' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l heap-profile-rate -d 'Mean bytes between sampled allocations for /debug/pprof/heap; 0 samples only while that URL is requested' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l loadsheddingMode -d 'Action on calls over the limits: disabled, logonly or enforce' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l averageLatencyThreshold -d 'Maximum mean latency; 0s means no limit' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l latencySamplesPerSecond -d 'Maximum latency samples per second' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l latencySampleHalflife -d 'Half-life of a latency sample' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l maxRequestsPerSecond -d 'Maximum calls per second; a Report counts as many calls as it has attribute sets; 0 means no limit' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l burstSize -d 'Burst size of the rate limit' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l load-shedding-check-reserve -d 'Fraction of the limits above that is reserved for checks: reports are rejected earlier. From 0 to 1' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l load-shedding-fair -d 'Fair sharing: clients with more than the mean load are rejected first' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l log_target -d 'Log output: a file, stdout or stderr; may be repeated' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l log_rotate -d 'Additional rotated log file' -r -F
complete -c mixs -n "__fish_mixs_using_subcommand server" -l log_rotate_max_size -d 'Size at which the log file is rotated, in MiB, or with a unit. Example: 1GiB' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l log_rotate_max_age -d 'Days to keep rotated log files; 0 means no limit' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l log_rotate_max_backups -d 'Rotated log files to keep; 0 means all' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l log_as_json -d 'Write log records as JSON objects' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l log_output_level -d 'Log levels: `[scope:]level,…` with the levels none, fatal, error, warn, info, debug' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l log_stacktrace_level -d 'Minimum level of records with a stack trace: `[scope:]level,…`' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l log_caller -d 'Scopes whose records include the source location' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l trace_zipkin_url -d 'URL of a Zipkin collector. Example: http://zipkin:9411/api/v1/spans' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l trace_jaeger_url -d 'URL of a Jaeger collector. Example: http://jaeger:14268/api/traces?format=jaeger.thrift' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l trace_otlp_url -d 'URL of an OpenTelemetry collector (OTLP over HTTP). Example: http://collector:4318/v1/traces' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l trace_log_spans -d 'Write a log record for every span' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l trace_sampling_rate -d 'Fraction of new traces that are sampled, from 0 to 1' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l decision-log -d 'Decision log: a JSON line per check with attributes, result, rules, handlers and duration' -r -F
complete -c mixs -n "__fish_mixs_using_subcommand server" -l decision-log-sampling -d 'Fraction of checks that are logged, from 0 to 1' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l decision-log-select -d 'Which decisions are logged' -r -f -a "all\t'All'
denied\t'Denials, failures, quotas not granted in full, and denials of dry-run rules'"
complete -c mixs -n "__fish_mixs_using_subcommand server" -l decision-log-max-size -d 'Size at which the decision log is rotated. Example: 100MiB' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l decision-log-max-backups -d 'Rotated decision logs to keep; 0 means all' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l decision-queue -d 'Length of the decision queue; further decisions are dropped and counted' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l decision-mask -d 'Attributes whose values are masked as `***` in log and recording: `NAME` or `NAME[KEY]`, separated by commas' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l record-requests -d 'Recording of the first calls, with attributes and results, for `mixer diff`' -r -F
complete -c mixs -n "__fish_mixs_using_subcommand server" -l record-max-requests -d 'Maximum calls in the recording' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l record-max-size -d 'Maximum size of the recording. Example: 64MiB' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l print-config -d 'Print all settings with their origin, then exit'
complete -c mixs -n "__fish_mixs_using_subcommand server" -l dry-run -d 'Run the start-up sequence, print what would be served, then exit'
complete -c mixs -n "__fish_mixs_using_subcommand server" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mixs -n "__fish_mixs_using_subcommand probe" -l probe-path -d 'Probe file to check' -r -F
complete -c mixs -n "__fish_mixs_using_subcommand probe" -l interval -d 'Maximum age of the probe file, and interval of --watch' -r
complete -c mixs -n "__fish_mixs_using_subcommand probe" -l grpc -d 'Server whose gRPC health service is called: host:port or unix:///path; may be repeated' -r
complete -c mixs -n "__fish_mixs_using_subcommand probe" -l service -d 'Service name of the health check: empty or istio.mixer.v1.Mixer for readiness, `liveness` for liveness' -r
complete -c mixs -n "__fish_mixs_using_subcommand probe" -l http -d 'URL that must return a 2xx status; may be repeated. Example: http://localhost:15014/readyz' -r
complete -c mixs -n "__fish_mixs_using_subcommand probe" -l timeout -d 'Timeout of a gRPC or HTTP request' -r
complete -c mixs -n "__fish_mixs_using_subcommand probe" -s o -l output -d 'Output format' -r -f -a "plain\t'One line'
json\t'One JSON document; with --watch one line per change'"
complete -c mixs -n "__fish_mixs_using_subcommand probe" -l ca-file -d 'CA certificates that verify the server, PEM; default: those of the system' -r -F
complete -c mixs -n "__fish_mixs_using_subcommand probe" -l cert-file -d 'Client certificate chain, PEM' -r -F
complete -c mixs -n "__fish_mixs_using_subcommand probe" -l key-file -d 'Private key of the client certificate, PEM' -r -F
complete -c mixs -n "__fish_mixs_using_subcommand probe" -l server-name -d 'Server name in the server certificate; default: the host of the target' -r
complete -c mixs -n "__fish_mixs_using_subcommand probe" -l log_target -d 'Log output: a file, stdout or stderr; may be repeated' -r
complete -c mixs -n "__fish_mixs_using_subcommand probe" -l log_rotate -d 'Additional rotated log file' -r -F
complete -c mixs -n "__fish_mixs_using_subcommand probe" -l log_rotate_max_size -d 'Size at which the log file is rotated, in MiB, or with a unit. Example: 1GiB' -r
complete -c mixs -n "__fish_mixs_using_subcommand probe" -l log_rotate_max_age -d 'Days to keep rotated log files; 0 means no limit' -r
complete -c mixs -n "__fish_mixs_using_subcommand probe" -l log_rotate_max_backups -d 'Rotated log files to keep; 0 means all' -r
complete -c mixs -n "__fish_mixs_using_subcommand probe" -l log_as_json -d 'Write log records as JSON objects' -r
complete -c mixs -n "__fish_mixs_using_subcommand probe" -l log_output_level -d 'Log levels: `[scope:]level,…` with the levels none, fatal, error, warn, info, debug' -r
complete -c mixs -n "__fish_mixs_using_subcommand probe" -l log_stacktrace_level -d 'Minimum level of records with a stack trace: `[scope:]level,…`' -r
complete -c mixs -n "__fish_mixs_using_subcommand probe" -l log_caller -d 'Scopes whose records include the source location' -r
complete -c mixs -n "__fish_mixs_using_subcommand probe" -l watch -d 'Watch the targets and print every change, until SIGINT'
complete -c mixs -n "__fish_mixs_using_subcommand probe" -l tls -d 'Use TLS; implied by the other flags of this group'
complete -c mixs -n "__fish_mixs_using_subcommand probe" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mixs -n "__fish_mixs_using_subcommand version" -s s -l short -d 'Print the version only' -r
complete -c mixs -n "__fish_mixs_using_subcommand version" -s o -l output -d 'One of \'yaml\' or \'json\'; overrides --short' -r
complete -c mixs -n "__fish_mixs_using_subcommand version" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mixs -n "__fish_mixs_using_subcommand crd; and not __fish_seen_subcommand_from all adapter instance help" -s h -l help -d 'Print help (see more with \'--help\')'
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
complete -c mixs -n "__fish_mixs_using_subcommand collateral" -s o -l outputDir -d 'Output directory' -r -F
complete -c mixs -n "__fish_mixs_using_subcommand collateral" -l all -d 'Write all formats'
complete -c mixs -n "__fish_mixs_using_subcommand collateral" -l markdown -d 'Write Markdown pages'
complete -c mixs -n "__fish_mixs_using_subcommand collateral" -l man -d 'Write man pages'
complete -c mixs -n "__fish_mixs_using_subcommand collateral" -l bash -d 'Write a completion script for bash'
complete -c mixs -n "__fish_mixs_using_subcommand collateral" -l zsh -d 'Write a completion script for zsh'
complete -c mixs -n "__fish_mixs_using_subcommand collateral" -l yaml -d 'Write a description of all commands as YAML'
complete -c mixs -n "__fish_mixs_using_subcommand collateral" -l html_fragment_with_front_matter -d 'Write an HTML page with front matter'
complete -c mixs -n "__fish_mixs_using_subcommand collateral" -s h -l help -d 'Print help'
complete -c mixs -n "__fish_mixs_using_subcommand help; and not __fish_seen_subcommand_from server probe version crd collateral help" -f -a "server" -d 'Start the server'
complete -c mixs -n "__fish_mixs_using_subcommand help; and not __fish_seen_subcommand_from server probe version crd collateral help" -f -a "probe" -d 'Check whether a server is alive or ready'
complete -c mixs -n "__fish_mixs_using_subcommand help; and not __fish_seen_subcommand_from server probe version crd collateral help" -f -a "version" -d 'Print program version and build information'
complete -c mixs -n "__fish_mixs_using_subcommand help; and not __fish_seen_subcommand_from server probe version crd collateral help" -f -a "crd" -d 'Print the Kubernetes custom resource definitions'
complete -c mixs -n "__fish_mixs_using_subcommand help; and not __fish_seen_subcommand_from server probe version crd collateral help" -f -a "collateral" -d 'Write documentation and completion files into a directory'
complete -c mixs -n "__fish_mixs_using_subcommand help; and not __fish_seen_subcommand_from server probe version crd collateral help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c mixs -n "__fish_mixs_using_subcommand help; and __fish_seen_subcommand_from crd" -f -a "all" -d 'List all kinds: core, adapters, instances'
complete -c mixs -n "__fish_mixs_using_subcommand help; and __fish_seen_subcommand_from crd" -f -a "adapter" -d 'List adapter-specific kinds'
complete -c mixs -n "__fish_mixs_using_subcommand help; and __fish_seen_subcommand_from crd" -f -a "instance" -d 'List template-specific kinds'
