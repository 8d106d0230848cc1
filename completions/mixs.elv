
use builtin;
use str;

set edit:completion:arg-completer[mixs] = {|@words|
    fn spaces {|n|
        builtin:repeat $n ' ' | str:join ''
    }
    fn cand {|text desc|
        edit:complex-candidate $text &display=$text' '(spaces (- 14 (wcswidth $text)))$desc
    }
    var command = 'mixs'
    for word $words[1..-1] {
        if (str:has-prefix $word '-') {
            break
        }
        set command = $command';'$word
    }
    var completions = [
        &'mixs'= {
            cand -h 'Print help'
            cand --help 'Print help'
            cand server 'Start the server'
            cand probe 'Check whether a server is alive or ready'
            cand version 'Print program version and build information'
            cand crd 'Print the Kubernetes custom resource definitions'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'mixs;server'= {
            cand --config-file 'Settings file, YAML or TOML; keys are flag names'
            cand -p 'TCP port of the gRPC API on all interfaces; ignored if --address is set'
            cand --port 'TCP port of the gRPC API on all interfaces; ignored if --address is set'
            cand --address 'Address of the gRPC API: tcp://127.0.0.1:9091 or unix:///run/mixer.sock'
            cand --socket-mode 'File mode of a Unix socket, octal. Example: 0660'
            cand --grpc-reflection 'Whether to serve gRPC reflection; auto enables it if the API listens on loopback or a Unix socket only'
            cand --monitoringPort 'HTTP port of metrics, version and health, on all interfaces; profiles and texts of errors are for clients on this host'
            cand --monitoring-address 'Address of that port, instead of all interfaces; both are then for whoever reaches it. Example: 127.0.0.1:15014'
            cand --metrics-port 'HTTP port of the metrics of prometheus handlers, on all interfaces'
            cand --metrics-address 'Address of those metrics, instead of all interfaces. Example: 127.0.0.1:42422'
            cand --tls-cert-file 'Server certificate chain, PEM; TCP clients must then use TLS'
            cand --tls-key-file 'Private key of the certificate, PEM'
            cand --tls-client-ca-file 'CA certificates that verify client certificates, PEM; requests a certificate from clients'
            cand --tls-client-auth 'Whether clients must present a certificate'
            cand --tls-min-version 'Minimum TLS version'
            cand --tls-allowed-peers 'Allowed clients, by URI or DNS name in their certificate: NAME,NAME,…; a name may begin or end with `*`'
            cand --configStoreURL 'Configuration store: a directory, fs://DIR, k8s://KUBECONFIG, mcp://HOST:PORT, mcps://HOST:PORT, mcp+listen://ADDR or embedded://sample'
            cand --configDefaultNamespace 'Namespace of mesh-wide rules'
            cand --configWaitTimeout 'Timeout of the initial configuration of a remote store'
            cand --config-on-error 'What serves when the configuration has errors: keep-last, serve-valid or refuse'
            cand --allow-empty-config 'Accept a configuration without resources, which allows every request'
            cand --config-cache 'Directory that keeps the last good configuration for the next start'
            cand --config-loss 'What to do when the configuration directory disappears, with --config-on-error serve-valid: keep or drop the configuration'
            cand --config-write-status 'Whether to write onto Kubernetes objects whether they can be used, as a condition `Accepted` of their status'
            cand --mcpMaxMessageSize 'Maximum size of a message of an MCP source in bytes, or with a unit: a collection is one message. Example: 128MiB'
            cand --certFile 'Client certificate for mcps:// stores, PEM'
            cand --keyFile 'Private key of the client certificate, PEM'
            cand --caCertFile 'CA certificates that verify mcps:// stores, PEM'
            cand --useAdapterCRDs 'Whether to read adapter-specific kinds (denier, memquota, …)'
            cand --useTemplateCRDs 'Whether to read template-specific kinds (metric, quota, …)'
            cand --concurrency 'Worker threads, each with its own event loop and connections; 0 means one per core'
            cand --singleThreaded 'Run on a single thread'
            cand --maxMessageSize 'Maximum size of a gRPC message in bytes, or with a unit. Example: 4MiB'
            cand --memory-limit 'Maximum memory for everything that callers can make the server keep: requests, quotas, series, caches'
            cand --maxConcurrentStreams 'Maximum calls in flight per connection'
            cand --max-check-quotas 'Maximum quotas of a check, and descriptors of a rate limit call of Envoy; a call with more is rejected'
            cand --max-report-records 'Maximum records of a report, and entries of an access log message of Envoy; a message with more is rejected'
            cand --receive-timeout 'Time limit for receiving a message: a call whose message is not complete by then fails. Example: 10s'
            cand --max-connection-age 'Age at which a connection gets a GOAWAY, so that clients rebalance over the servers; 0s means never. Example: 30m'
            cand --apiWorkerPoolSize 'Maximum asynchronous API calls in flight; synchronous calls bypass the pool'
            cand --api-worker-pool-floor 'Adapt the pool size to the load: initial and minimum size; 0 keeps the size fixed'
            cand --api-queue-length 'Maximum API calls in the queue of the pool; further calls are rejected'
            cand --adapterWorkerPoolSize 'Maximum asynchronous calls in flight per handler'
            cand --adapter-worker-pool-floor 'Adapt the pool size to the load: initial and minimum size; 0 keeps the size fixed'
            cand --adapter-queue-length 'Maximum calls in the queue of a handler; further calls fail'
            cand --numCheckCacheEntries 'Maximum entries of the check cache; 0 disables the cache'
            cand --livenessProbePath 'Probe file that is updated while the server is alive'
            cand --livenessProbeInterval 'Maximum age of the probe file; it is updated twice per interval. Example: 2s'
            cand --readinessProbePath 'Probe file that is updated while the server is ready'
            cand --readinessProbeInterval 'Maximum age of the probe file; it is updated twice per interval. Example: 2s'
            cand --pid-file 'PID file. Example: /run/mixer.pid'
            cand --drain-delay 'Delay between "not ready" and the end of accepting calls at shutdown'
            cand --shutdown-timeout 'Timeout of the whole shutdown; remaining calls are aborted'
            cand --envoy-bridge 'Whether to serve Envoy on the API port: ext_authz, access log and rate limit services'
            cand --envoy-http-address 'Address of HTTP ext_authz. Example: 127.0.0.1:9191'
            cand --envoy-ratelimit-http-address 'Address of rate limits over HTTP: POST /json, GET /rlconfig, GET /healthcheck. Example: 127.0.0.1:9192'
            cand --ctrlz_port 'Port of the ControlZ introspection pages; 0 disables them'
            cand --ctrlz_address 'Address of the ControlZ introspection pages; `*` means all interfaces'
            cand --ctrlz_readonly 'Make ControlZ read-only'
            cand --ctrlz_token_file 'File with the bearer token that ControlZ requires: `Authorization: Bearer TOKEN`, or a login form in browsers'
            cand --ctrlz_allowed_hosts 'Host names that ControlZ accepts besides localhost and IP addresses. Example: ops.example.com,mixer'
            cand --profile 'Whether to serve /debug/pprof on the monitoring port'
            cand --legacy-metrics 'Also expose metrics under the names of Mixer 1.0, for existing dashboards'
            cand --heap-profile-rate 'Mean bytes between sampled allocations for /debug/pprof/heap; 0 samples only while that URL is requested'
            cand --loadsheddingMode 'Action on calls over the limits: disabled, logonly or enforce'
            cand --averageLatencyThreshold 'Maximum mean latency; 0s means no limit'
            cand --latencySamplesPerSecond 'Maximum latency samples per second'
            cand --latencySampleHalflife 'Half-life of a latency sample'
            cand --maxRequestsPerSecond 'Maximum calls per second; a Report counts as many calls as it has attribute sets; 0 means no limit'
            cand --burstSize 'Burst size of the rate limit; without it the calls of a second, or 0 if called as mixs'
            cand --load-shedding-check-reserve 'Fraction of the limits above that is reserved for checks: reports are rejected earlier. From 0 to 1'
            cand --load-shedding-fair 'Fair sharing: clients with more than the mean load are rejected first'
            cand --log_target 'Log output: a file, stdout or stderr; may be repeated'
            cand --log_rotate 'Additional rotated log file'
            cand --log_rotate_max_size 'Size at which the log file is rotated, in MiB, or with a unit. Example: 1GiB'
            cand --log_rotate_max_age 'Days to keep rotated log files; 0 means no limit'
            cand --log_rotate_max_backups 'Rotated log files to keep; 0 means all'
            cand --log_as_json 'Write log records as JSON objects'
            cand --log_output_level 'Log levels: `[scope:]level,…` with the levels none, fatal, error, warn, info, debug'
            cand --log_stacktrace_level 'Minimum level of records with a stack trace: `[scope:]level,…`'
            cand --log_caller 'Scopes whose records include the source location'
            cand --trace_zipkin_url 'URL of a Zipkin collector. Example: http://zipkin:9411/api/v1/spans'
            cand --trace_jaeger_url 'URL of a Jaeger collector. Example: http://jaeger:14268/api/traces?format=jaeger.thrift'
            cand --trace_otlp_url 'URL of an OpenTelemetry collector (OTLP over HTTP). Example: http://collector:4318/v1/traces'
            cand --trace_log_spans 'Write a log record for every span'
            cand --trace_sampling_rate 'Fraction of new traces that are sampled, from 0 to 1'
            cand --decision-log 'Decision log: a JSON line per check with attributes, result, rules, handlers and duration'
            cand --decision-log-sampling 'Fraction of checks that are logged, from 0 to 1'
            cand --decision-log-select 'Which decisions are logged'
            cand --decision-log-max-size 'Size at which the decision log is rotated. Example: 100MiB'
            cand --decision-log-max-backups 'Rotated decision logs to keep; 0 means all'
            cand --decision-queue 'Length of the decision queue; further decisions are dropped and counted'
            cand --decision-mask 'Attributes whose values are masked as `***` in log and recording: `NAME` or `NAME[KEY]`, separated by commas'
            cand --record-requests 'Recording of the first calls, with attributes and results, for `mixer diff`'
            cand --record-max-requests 'Maximum calls in the recording'
            cand --record-max-size 'Maximum size of the recording. Example: 64MiB'
            cand --print-config 'Print all settings with their origin, then exit'
            cand --dry-run 'Run the start-up sequence, print what would be served, then exit'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mixs;probe'= {
            cand --probe-path 'Probe file to check'
            cand --interval 'Maximum age of the probe file, and interval of --watch'
            cand --grpc 'Server whose gRPC health service is called: host:port or unix:///path; may be repeated'
            cand --service 'Service name of the health check: empty or istio.mixer.v1.Mixer for readiness, `liveness` for liveness'
            cand --http 'URL that must return a 2xx status; may be repeated. Example: http://localhost:15014/readyz'
            cand --timeout 'Timeout of a gRPC or HTTP request'
            cand -o 'Output format'
            cand --output 'Output format'
            cand --ca-file 'CA certificates that verify the server, PEM; default: those of the system'
            cand --cert-file 'Client certificate chain, PEM'
            cand --key-file 'Private key of the client certificate, PEM'
            cand --server-name 'Server name in the server certificate; default: the host of the target'
            cand --log_target 'Log output: a file, stdout or stderr; may be repeated'
            cand --log_rotate 'Additional rotated log file'
            cand --log_rotate_max_size 'Size at which the log file is rotated, in MiB, or with a unit. Example: 1GiB'
            cand --log_rotate_max_age 'Days to keep rotated log files; 0 means no limit'
            cand --log_rotate_max_backups 'Rotated log files to keep; 0 means all'
            cand --log_as_json 'Write log records as JSON objects'
            cand --log_output_level 'Log levels: `[scope:]level,…` with the levels none, fatal, error, warn, info, debug'
            cand --log_stacktrace_level 'Minimum level of records with a stack trace: `[scope:]level,…`'
            cand --log_caller 'Scopes whose records include the source location'
            cand --watch 'Watch the targets and print every change, until SIGINT'
            cand --tls 'Use TLS; implied by the other flags of this group'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mixs;version'= {
            cand -s 'Print the version only'
            cand --short 'Print the version only'
            cand -o 'One of ''yaml'' or ''json''; overrides --short'
            cand --output 'One of ''yaml'' or ''json''; overrides --short'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'mixs;crd'= {
            cand -h 'Print help'
            cand --help 'Print help'
            cand all 'List all kinds: core, adapters, instances'
            cand adapter 'List adapter-specific kinds'
            cand instance 'List template-specific kinds'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'mixs;crd;all'= {
            cand --api-version 'API version of the definitions: v1beta1 or v1'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mixs;crd;adapter'= {
            cand --api-version 'API version of the definitions: v1beta1 or v1'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mixs;crd;instance'= {
            cand --api-version 'API version of the definitions: v1beta1 or v1'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mixs;crd;help'= {
            cand all 'List all kinds: core, adapters, instances'
            cand adapter 'List adapter-specific kinds'
            cand instance 'List template-specific kinds'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'mixs;crd;help;all'= {
        }
        &'mixs;crd;help;adapter'= {
        }
        &'mixs;crd;help;instance'= {
        }
        &'mixs;crd;help;help'= {
        }
        &'mixs;help'= {
            cand server 'Start the server'
            cand probe 'Check whether a server is alive or ready'
            cand version 'Print program version and build information'
            cand crd 'Print the Kubernetes custom resource definitions'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'mixs;help;server'= {
        }
        &'mixs;help;probe'= {
        }
        &'mixs;help;version'= {
        }
        &'mixs;help;crd'= {
            cand all 'List all kinds: core, adapters, instances'
            cand adapter 'List adapter-specific kinds'
            cand instance 'List template-specific kinds'
        }
        &'mixs;help;crd;all'= {
        }
        &'mixs;help;crd;adapter'= {
        }
        &'mixs;help;crd;instance'= {
        }
        &'mixs;help;help'= {
        }
    ]
    $completions[$command]
}
