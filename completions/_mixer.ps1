
using namespace System.Management.Automation
using namespace System.Management.Automation.Language

Register-ArgumentCompleter -Native -CommandName 'mixer' -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)

    $commandElements = $commandAst.CommandElements
    $command = @(
        'mixer'
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
        'mixer' {
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to color output')
            [CompletionResult]::new('--error-format', '--error-format', [CompletionResultType]::ParameterName, 'Format of error messages on standard error')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Log at level debug: servers in their log, other commands on standard error')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Log at level debug: servers in their log, other commands on standard error')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Print errors only, no results, warnings and progress: the exit status tells the result')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('init', 'init', [CompletionResultType]::ParameterValue, 'Write a commented policy to begin with')
            [CompletionResult]::new('fmt', 'fmt', [CompletionResultType]::ParameterValue, 'Bring configuration files into their layout')
            [CompletionResult]::new('server', 'server', [CompletionResultType]::ParameterValue, 'Start the server')
            [CompletionResult]::new('check', 'check', [CompletionResultType]::ParameterValue, 'Check a request against a server or a configuration')
            [CompletionResult]::new('report', 'report', [CompletionResultType]::ParameterValue, 'Report a request to a server or a configuration')
            [CompletionResult]::new('probe', 'probe', [CompletionResultType]::ParameterValue, 'Check whether a server is alive or ready')
            [CompletionResult]::new('validate', 'validate', [CompletionResultType]::ParameterValue, 'Validate a configuration')
            [CompletionResult]::new('eval', 'eval', [CompletionResultType]::ParameterValue, 'Evaluate an expression over given attributes')
            [CompletionResult]::new('explain-code', 'explain-code', [CompletionResultType]::ParameterValue, 'Say what a code of a diagnostic means, and what to do')
            [CompletionResult]::new('test', 'test', [CompletionResultType]::ParameterValue, 'Run policy tests against a configuration, without a server')
            [CompletionResult]::new('diff', 'diff', [CompletionResultType]::ParameterValue, 'Show which recorded decisions a configuration change alters, and why')
            [CompletionResult]::new('snapshot', 'snapshot', [CompletionResultType]::ParameterValue, 'Show the compiled configuration')
            [CompletionResult]::new('routes', 'routes', [CompletionResultType]::ParameterValue, 'Show which requests reach which handlers')
            [CompletionResult]::new('proxy', 'proxy', [CompletionResultType]::ParameterValue, 'Forward traffic as an Envoy bootstrap says')
            [CompletionResult]::new('adapter', 'adapter', [CompletionResultType]::ParameterValue, 'Start an adapter of your own, out of process')
            [CompletionResult]::new('version', 'version', [CompletionResultType]::ParameterValue, 'Print program version and build information')
            [CompletionResult]::new('crd', 'crd', [CompletionResultType]::ParameterValue, 'Print the Kubernetes custom resource definitions')
            [CompletionResult]::new('completions', 'completions', [CompletionResultType]::ParameterValue, 'Print a completion script for a shell')
            [CompletionResult]::new('man', 'man', [CompletionResultType]::ParameterValue, 'Print or write man pages')
            [CompletionResult]::new('legacy', 'legacy', [CompletionResultType]::ParameterValue, 'Behave like mixs, mixc or galley of Istio')
            [CompletionResult]::new('galley', 'galley', [CompletionResultType]::ParameterValue, 'Run and inspect the configuration plane')
            [CompletionResult]::new('doctor', 'doctor', [CompletionResultType]::ParameterValue, 'Find problems that would prevent a server from starting or running')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'mixer;init' {
            [CompletionResult]::new('--for', '--for', [CompletionResultType]::ParameterName, 'Who asks the server: Envoy, or callers of the Mixer API, such as Istio''s proxies')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to color output')
            [CompletionResult]::new('--error-format', '--error-format', [CompletionResultType]::ParameterName, 'Format of error messages on standard error')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Log at level debug: servers in their log, other commands on standard error')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Log at level debug: servers in their log, other commands on standard error')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Print errors only, no results, warnings and progress: the exit status tells the result')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mixer;fmt' {
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to color output')
            [CompletionResult]::new('--error-format', '--error-format', [CompletionResultType]::ParameterName, 'Format of error messages on standard error')
            [CompletionResult]::new('--check', '--check', [CompletionResultType]::ParameterName, 'Write nothing: list the files that would change, and exit with status 1 if there is one')
            [CompletionResult]::new('--diff', '--diff', [CompletionResultType]::ParameterName, 'Write nothing: show what would change. With --check, the status says whether anything would')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Log at level debug: servers in their log, other commands on standard error')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Log at level debug: servers in their log, other commands on standard error')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Print errors only, no results, warnings and progress: the exit status tells the result')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mixer;server' {
            [CompletionResult]::new('--config-file', '--config-file', [CompletionResultType]::ParameterName, 'Settings file, YAML or TOML; keys are flag names')
            [CompletionResult]::new('-p', '-p', [CompletionResultType]::ParameterName, 'TCP port of the gRPC API on all interfaces; ignored if --address is set')
            [CompletionResult]::new('--port', '--port', [CompletionResultType]::ParameterName, 'TCP port of the gRPC API on all interfaces; ignored if --address is set')
            [CompletionResult]::new('--address', '--address', [CompletionResultType]::ParameterName, 'Address of the gRPC API: tcp://127.0.0.1:9091 or unix:///run/mixer.sock')
            [CompletionResult]::new('--socket-mode', '--socket-mode', [CompletionResultType]::ParameterName, 'File mode of a Unix socket, octal. Example: 0660')
            [CompletionResult]::new('--grpc-reflection', '--grpc-reflection', [CompletionResultType]::ParameterName, 'Whether to serve gRPC reflection; auto enables it if the API listens on loopback or a Unix socket only')
            [CompletionResult]::new('--monitoring-port', '--monitoring-port', [CompletionResultType]::ParameterName, 'HTTP port of metrics, version and health, on all interfaces; profiles and texts of errors are for clients on this host')
            [CompletionResult]::new('--monitoring-address', '--monitoring-address', [CompletionResultType]::ParameterName, 'Address of that port, instead of all interfaces; both are then for whoever reaches it. Example: 127.0.0.1:15014')
            [CompletionResult]::new('--metrics-port', '--metrics-port', [CompletionResultType]::ParameterName, 'HTTP port of the metrics of prometheus handlers, on all interfaces')
            [CompletionResult]::new('--metrics-address', '--metrics-address', [CompletionResultType]::ParameterName, 'Address of those metrics, instead of all interfaces. Example: 127.0.0.1:42422')
            [CompletionResult]::new('--tls-cert-file', '--tls-cert-file', [CompletionResultType]::ParameterName, 'Server certificate chain, PEM; TCP clients must then use TLS')
            [CompletionResult]::new('--tls-key-file', '--tls-key-file', [CompletionResultType]::ParameterName, 'Private key of the certificate, PEM')
            [CompletionResult]::new('--tls-client-ca-file', '--tls-client-ca-file', [CompletionResultType]::ParameterName, 'CA certificates that verify client certificates, PEM; requests a certificate from clients')
            [CompletionResult]::new('--tls-client-auth', '--tls-client-auth', [CompletionResultType]::ParameterName, 'Whether clients must present a certificate')
            [CompletionResult]::new('--tls-min-version', '--tls-min-version', [CompletionResultType]::ParameterName, 'Minimum TLS version')
            [CompletionResult]::new('--tls-allowed-peers', '--tls-allowed-peers', [CompletionResultType]::ParameterName, 'Allowed clients, by URI or DNS name in their certificate: NAME,NAME,…; a name may begin or end with `*`')
            [CompletionResult]::new('--config-store-url', '--config-store-url', [CompletionResultType]::ParameterName, 'Configuration store: a directory, fs://DIR, k8s://KUBECONFIG, mcp://HOST:PORT, mcps://HOST:PORT, mcp+listen://ADDR or embedded://sample')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'Configuration store: a directory, fs://DIR, k8s://KUBECONFIG, mcp://HOST:PORT, mcps://HOST:PORT, mcp+listen://ADDR or embedded://sample')
            [CompletionResult]::new('--config-default-namespace', '--config-default-namespace', [CompletionResultType]::ParameterName, 'Namespace of mesh-wide rules')
            [CompletionResult]::new('--default-namespace', '--default-namespace', [CompletionResultType]::ParameterName, 'Namespace of mesh-wide rules')
            [CompletionResult]::new('--config-wait-timeout', '--config-wait-timeout', [CompletionResultType]::ParameterName, 'Timeout of the initial configuration of a remote store')
            [CompletionResult]::new('--config-on-error', '--config-on-error', [CompletionResultType]::ParameterName, 'What serves when the configuration has errors: keep-last, serve-valid or refuse')
            [CompletionResult]::new('--allow-empty-config', '--allow-empty-config', [CompletionResultType]::ParameterName, 'Accept a configuration without resources, which allows every request')
            [CompletionResult]::new('--config-cache', '--config-cache', [CompletionResultType]::ParameterName, 'Directory that keeps the last good configuration for the next start')
            [CompletionResult]::new('--config-loss', '--config-loss', [CompletionResultType]::ParameterName, 'What to do when the configuration directory disappears, with --config-on-error serve-valid: keep or drop the configuration')
            [CompletionResult]::new('--config-write-status', '--config-write-status', [CompletionResultType]::ParameterName, 'Whether to write onto Kubernetes objects whether they can be used, as a condition `Accepted` of their status')
            [CompletionResult]::new('--mcp-max-message-size', '--mcp-max-message-size', [CompletionResultType]::ParameterName, 'Maximum size of a message of an MCP source in bytes, or with a unit: a collection is one message. Example: 128MiB')
            [CompletionResult]::new('--cert-file', '--cert-file', [CompletionResultType]::ParameterName, 'Client certificate for mcps:// stores, PEM')
            [CompletionResult]::new('--key-file', '--key-file', [CompletionResultType]::ParameterName, 'Private key of the client certificate, PEM')
            [CompletionResult]::new('--ca-cert-file', '--ca-cert-file', [CompletionResultType]::ParameterName, 'CA certificates that verify mcps:// stores, PEM')
            [CompletionResult]::new('--use-adapter-crds', '--use-adapter-crds', [CompletionResultType]::ParameterName, 'Whether to read adapter-specific kinds (denier, memquota, …)')
            [CompletionResult]::new('--use-template-crds', '--use-template-crds', [CompletionResultType]::ParameterName, 'Whether to read template-specific kinds (metric, quota, …)')
            [CompletionResult]::new('--concurrency', '--concurrency', [CompletionResultType]::ParameterName, 'Worker threads, each with its own event loop and connections; 0 means one per core')
            [CompletionResult]::new('--single-threaded', '--single-threaded', [CompletionResultType]::ParameterName, 'Run on a single thread')
            [CompletionResult]::new('--max-message-size', '--max-message-size', [CompletionResultType]::ParameterName, 'Maximum size of a gRPC message in bytes, or with a unit. Example: 4MiB')
            [CompletionResult]::new('--memory-limit', '--memory-limit', [CompletionResultType]::ParameterName, 'Maximum memory for everything that callers can make the server keep: requests, quotas, series, caches')
            [CompletionResult]::new('--max-concurrent-streams', '--max-concurrent-streams', [CompletionResultType]::ParameterName, 'Maximum calls in flight per connection')
            [CompletionResult]::new('--max-check-quotas', '--max-check-quotas', [CompletionResultType]::ParameterName, 'Maximum quotas of a check, and descriptors of a rate limit call of Envoy; a call with more is rejected')
            [CompletionResult]::new('--max-report-records', '--max-report-records', [CompletionResultType]::ParameterName, 'Maximum records of a report, and entries of an access log message of Envoy; a message with more is rejected')
            [CompletionResult]::new('--receive-timeout', '--receive-timeout', [CompletionResultType]::ParameterName, 'Time limit for receiving a message: a call whose message is not complete by then fails. Example: 10s')
            [CompletionResult]::new('--max-connection-age', '--max-connection-age', [CompletionResultType]::ParameterName, 'Age at which a connection gets a GOAWAY, so that clients rebalance over the servers; 0s means never. Example: 30m')
            [CompletionResult]::new('--api-worker-pool-size', '--api-worker-pool-size', [CompletionResultType]::ParameterName, 'Maximum asynchronous API calls in flight; synchronous calls bypass the pool')
            [CompletionResult]::new('--api-worker-pool-floor', '--api-worker-pool-floor', [CompletionResultType]::ParameterName, 'Adapt the pool size to the load: initial and minimum size; 0 keeps the size fixed')
            [CompletionResult]::new('--api-queue-length', '--api-queue-length', [CompletionResultType]::ParameterName, 'Maximum API calls in the queue of the pool; further calls are rejected')
            [CompletionResult]::new('--adapter-worker-pool-size', '--adapter-worker-pool-size', [CompletionResultType]::ParameterName, 'Maximum asynchronous calls in flight per handler')
            [CompletionResult]::new('--adapter-worker-pool-floor', '--adapter-worker-pool-floor', [CompletionResultType]::ParameterName, 'Adapt the pool size to the load: initial and minimum size; 0 keeps the size fixed')
            [CompletionResult]::new('--adapter-queue-length', '--adapter-queue-length', [CompletionResultType]::ParameterName, 'Maximum calls in the queue of a handler; further calls fail')
            [CompletionResult]::new('--num-check-cache-entries', '--num-check-cache-entries', [CompletionResultType]::ParameterName, 'Maximum entries of the check cache; 0 disables the cache')
            [CompletionResult]::new('--liveness-probe-path', '--liveness-probe-path', [CompletionResultType]::ParameterName, 'Probe file that is updated while the server is alive')
            [CompletionResult]::new('--liveness-probe-interval', '--liveness-probe-interval', [CompletionResultType]::ParameterName, 'Maximum age of the probe file; it is updated twice per interval. Example: 2s')
            [CompletionResult]::new('--readiness-probe-path', '--readiness-probe-path', [CompletionResultType]::ParameterName, 'Probe file that is updated while the server is ready')
            [CompletionResult]::new('--readiness-probe-interval', '--readiness-probe-interval', [CompletionResultType]::ParameterName, 'Maximum age of the probe file; it is updated twice per interval. Example: 2s')
            [CompletionResult]::new('--pid-file', '--pid-file', [CompletionResultType]::ParameterName, 'PID file. Example: /run/mixer.pid')
            [CompletionResult]::new('--drain-delay', '--drain-delay', [CompletionResultType]::ParameterName, 'Delay between "not ready" and the end of accepting calls at shutdown')
            [CompletionResult]::new('--shutdown-timeout', '--shutdown-timeout', [CompletionResultType]::ParameterName, 'Timeout of the whole shutdown; remaining calls are aborted')
            [CompletionResult]::new('--envoy-bridge', '--envoy-bridge', [CompletionResultType]::ParameterName, 'Whether to serve Envoy on the API port: ext_authz, access log and rate limit services')
            [CompletionResult]::new('--envoy-http-address', '--envoy-http-address', [CompletionResultType]::ParameterName, 'Address of HTTP ext_authz. Example: 127.0.0.1:9191')
            [CompletionResult]::new('--envoy-ratelimit-http-address', '--envoy-ratelimit-http-address', [CompletionResultType]::ParameterName, 'Address of rate limits over HTTP: POST /json, GET /rlconfig, GET /healthcheck. Example: 127.0.0.1:9192')
            [CompletionResult]::new('--ctrlz-port', '--ctrlz-port', [CompletionResultType]::ParameterName, 'Port of the ControlZ introspection pages; 0 disables them')
            [CompletionResult]::new('--ctrlz-address', '--ctrlz-address', [CompletionResultType]::ParameterName, 'Address of the ControlZ introspection pages; `*` means all interfaces')
            [CompletionResult]::new('--ctrlz-readonly', '--ctrlz-readonly', [CompletionResultType]::ParameterName, 'Make ControlZ read-only')
            [CompletionResult]::new('--ctrlz-token-file', '--ctrlz-token-file', [CompletionResultType]::ParameterName, 'File with the bearer token that ControlZ requires: `Authorization: Bearer TOKEN`, or a login form in browsers')
            [CompletionResult]::new('--ctrlz-allowed-hosts', '--ctrlz-allowed-hosts', [CompletionResultType]::ParameterName, 'Host names that ControlZ accepts besides localhost and IP addresses. Example: ops.example.com,mixer')
            [CompletionResult]::new('--profile', '--profile', [CompletionResultType]::ParameterName, 'Whether to serve /debug/pprof on the monitoring port')
            [CompletionResult]::new('--legacy-metrics', '--legacy-metrics', [CompletionResultType]::ParameterName, 'Also expose metrics under the names of Mixer 1.0, for existing dashboards')
            [CompletionResult]::new('--heap-profile-rate', '--heap-profile-rate', [CompletionResultType]::ParameterName, 'Mean bytes between sampled allocations for /debug/pprof/heap; 0 samples only while that URL is requested')
            [CompletionResult]::new('--load-shedding-mode', '--load-shedding-mode', [CompletionResultType]::ParameterName, 'Action on calls over the limits: disabled, logonly or enforce')
            [CompletionResult]::new('--average-latency-threshold', '--average-latency-threshold', [CompletionResultType]::ParameterName, 'Maximum mean latency; 0s means no limit')
            [CompletionResult]::new('--latency-samples-per-second', '--latency-samples-per-second', [CompletionResultType]::ParameterName, 'Maximum latency samples per second')
            [CompletionResult]::new('--latency-sample-half-life', '--latency-sample-half-life', [CompletionResultType]::ParameterName, 'Half-life of a latency sample')
            [CompletionResult]::new('--max-requests-per-second', '--max-requests-per-second', [CompletionResultType]::ParameterName, 'Maximum calls per second; a Report counts as many calls as it has attribute sets; 0 means no limit')
            [CompletionResult]::new('--burst-size', '--burst-size', [CompletionResultType]::ParameterName, 'Burst size of the rate limit; without it the calls of a second, or 0 if called as mixs')
            [CompletionResult]::new('--load-shedding-check-reserve', '--load-shedding-check-reserve', [CompletionResultType]::ParameterName, 'Fraction of the limits above that is reserved for checks: reports are rejected earlier. From 0 to 1')
            [CompletionResult]::new('--load-shedding-fair', '--load-shedding-fair', [CompletionResultType]::ParameterName, 'Fair sharing: clients with more than the mean load are rejected first')
            [CompletionResult]::new('--log-target', '--log-target', [CompletionResultType]::ParameterName, 'Log output: a file, stdout or stderr; may be repeated')
            [CompletionResult]::new('--log-rotate', '--log-rotate', [CompletionResultType]::ParameterName, 'Additional rotated log file')
            [CompletionResult]::new('--log-rotate-max-size', '--log-rotate-max-size', [CompletionResultType]::ParameterName, 'Size at which the log file is rotated, in MiB, or with a unit. Example: 1GiB')
            [CompletionResult]::new('--log-rotate-max-age', '--log-rotate-max-age', [CompletionResultType]::ParameterName, 'Days to keep rotated log files; 0 means no limit')
            [CompletionResult]::new('--log-rotate-max-backups', '--log-rotate-max-backups', [CompletionResultType]::ParameterName, 'Rotated log files to keep; 0 means all')
            [CompletionResult]::new('--log-as-json', '--log-as-json', [CompletionResultType]::ParameterName, 'Write log records as JSON objects')
            [CompletionResult]::new('--log-output-level', '--log-output-level', [CompletionResultType]::ParameterName, 'Log levels: `[scope:]level,…` with the levels none, fatal, error, warn, info, debug')
            [CompletionResult]::new('--log-stacktrace-level', '--log-stacktrace-level', [CompletionResultType]::ParameterName, 'Minimum level of records with a stack trace: `[scope:]level,…`')
            [CompletionResult]::new('--log-caller', '--log-caller', [CompletionResultType]::ParameterName, 'Scopes whose records include the source location')
            [CompletionResult]::new('--trace-zipkin-url', '--trace-zipkin-url', [CompletionResultType]::ParameterName, 'URL of a Zipkin collector. Example: http://zipkin:9411/api/v1/spans')
            [CompletionResult]::new('--trace-jaeger-url', '--trace-jaeger-url', [CompletionResultType]::ParameterName, 'URL of a Jaeger collector. Example: http://jaeger:14268/api/traces?format=jaeger.thrift')
            [CompletionResult]::new('--trace-otlp-url', '--trace-otlp-url', [CompletionResultType]::ParameterName, 'URL of an OpenTelemetry collector (OTLP over HTTP). Example: http://collector:4318/v1/traces')
            [CompletionResult]::new('--trace-log-spans', '--trace-log-spans', [CompletionResultType]::ParameterName, 'Write a log record for every span')
            [CompletionResult]::new('--trace-sampling-rate', '--trace-sampling-rate', [CompletionResultType]::ParameterName, 'Fraction of new traces that are sampled, from 0 to 1')
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
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to color output')
            [CompletionResult]::new('--error-format', '--error-format', [CompletionResultType]::ParameterName, 'Format of error messages on standard error')
            [CompletionResult]::new('--print-config', '--print-config', [CompletionResultType]::ParameterName, 'Print all settings with their origin, then exit')
            [CompletionResult]::new('--dry-run', '--dry-run', [CompletionResultType]::ParameterName, 'Run the start-up sequence, print what would be served, then exit')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Log at level debug: servers in their log, other commands on standard error')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Log at level debug: servers in their log, other commands on standard error')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Print errors only, no results, warnings and progress: the exit status tells the result')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mixer;check' {
            [CompletionResult]::new('-m', '-m', [CompletionResultType]::ParameterName, 'Server address: host:port, dns:///host:port, unix:///path or unix:path')
            [CompletionResult]::new('--server', '--server', [CompletionResultType]::ParameterName, 'Server address: host:port, dns:///host:port, unix:///path or unix:path')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'Configuration to evaluate in this process instead of calling a server: fs://DIR, a path, `-` for standard input, or embedded://sample')
            [CompletionResult]::new('--default-namespace', '--default-namespace', [CompletionResultType]::ParameterName, 'Namespace of mesh-wide rules')
            [CompletionResult]::new('-a', '-a', [CompletionResultType]::ParameterName, 'Attributes, auto-detected type: name1=value1,name2=value2,…')
            [CompletionResult]::new('--attributes', '--attributes', [CompletionResultType]::ParameterName, 'Attributes, auto-detected type: name1=value1,name2=value2,…')
            [CompletionResult]::new('-s', '-s', [CompletionResultType]::ParameterName, 'String attributes: name1=value1,name2=value2,…')
            [CompletionResult]::new('--string-attributes', '--string-attributes', [CompletionResultType]::ParameterName, 'String attributes: name1=value1,name2=value2,…')
            [CompletionResult]::new('-i', '-i', [CompletionResultType]::ParameterName, 'Integer attributes: name1=1,name2=2,…')
            [CompletionResult]::new('--int64-attributes', '--int64-attributes', [CompletionResultType]::ParameterName, 'Integer attributes: name1=1,name2=2,…')
            [CompletionResult]::new('-d', '-d', [CompletionResultType]::ParameterName, 'Floating point attributes: name1=0.5,name2=1e3,…')
            [CompletionResult]::new('--double-attributes', '--double-attributes', [CompletionResultType]::ParameterName, 'Floating point attributes: name1=0.5,name2=1e3,…')
            [CompletionResult]::new('-b', '-b', [CompletionResultType]::ParameterName, 'Boolean attributes: name1=true,name2=false,…')
            [CompletionResult]::new('--bool-attributes', '--bool-attributes', [CompletionResultType]::ParameterName, 'Boolean attributes: name1=true,name2=false,…')
            [CompletionResult]::new('-t', '-t', [CompletionResultType]::ParameterName, 'Timestamp attributes: name1=2017-07-04T00:01:10Z,…')
            [CompletionResult]::new('--timestamp-attributes', '--timestamp-attributes', [CompletionResultType]::ParameterName, 'Timestamp attributes: name1=2017-07-04T00:01:10Z,…')
            [CompletionResult]::new('--duration-attributes', '--duration-attributes', [CompletionResultType]::ParameterName, 'Duration attributes: name1=250ms,name2=1h30m,…')
            [CompletionResult]::new('--bytes-attributes', '--bytes-attributes', [CompletionResultType]::ParameterName, 'Bytes attributes, for example IP addresses: name1=c0:0:0:2,…')
            [CompletionResult]::new('--ip-attributes', '--ip-attributes', [CompletionResultType]::ParameterName, 'IP addresses: name1=192.0.2.1,name2=2001:db8::1,…')
            [CompletionResult]::new('--stringmap-attributes', '--stringmap-attributes', [CompletionResultType]::ParameterName, 'String map attributes: name1=key1:value1;key2:value2,…')
            [CompletionResult]::new('--attributes-file', '--attributes-file', [CompletionResultType]::ParameterName, 'YAML or JSON file with attributes; `@-` reads standard input. Flags override the file')
            [CompletionResult]::new('--dictionary', '--dictionary', [CompletionResultType]::ParameterName, 'Whether to encode words with the global dictionary')
            [CompletionResult]::new('-r', '-r', [CompletionResultType]::ParameterName, 'Calls per worker; 0 or less sends nothing')
            [CompletionResult]::new('--repeat', '--repeat', [CompletionResultType]::ParameterName, 'Calls per worker; 0 or less sends nothing')
            [CompletionResult]::new('-c', '-c', [CompletionResultType]::ParameterName, 'Concurrent workers')
            [CompletionResult]::new('--concurrency', '--concurrency', [CompletionResultType]::ParameterName, 'Concurrent workers')
            [CompletionResult]::new('--rate', '--rate', [CompletionResultType]::ParameterName, 'Maximum calls per second of all workers; 0 or less means no limit')
            [CompletionResult]::new('--report-batch-size', '--report-batch-size', [CompletionResultType]::ParameterName, 'Attribute sets per report')
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'Timeout per call. Example: 5s')
            [CompletionResult]::new('--ca-file', '--ca-file', [CompletionResultType]::ParameterName, 'CA certificates that verify the server, PEM; default: those of the system')
            [CompletionResult]::new('--cert-file', '--cert-file', [CompletionResultType]::ParameterName, 'Client certificate chain, PEM')
            [CompletionResult]::new('--key-file', '--key-file', [CompletionResultType]::ParameterName, 'Private key of the client certificate, PEM')
            [CompletionResult]::new('--server-name', '--server-name', [CompletionResultType]::ParameterName, 'Server name in the server certificate; default: the host of the target')
            [CompletionResult]::new('--print-response', '--print-response', [CompletionResultType]::ParameterName, 'Print responses; `check` prints failures even without it')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Output format; default: table on a terminal, else plain')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Output format; default: table on a terminal, else plain')
            [CompletionResult]::new('--trace-zipkin-url', '--trace-zipkin-url', [CompletionResultType]::ParameterName, 'URL of a Zipkin collector. Example: http://zipkin:9411/api/v1/spans')
            [CompletionResult]::new('--trace-jaeger-url', '--trace-jaeger-url', [CompletionResultType]::ParameterName, 'URL of a Jaeger collector. Example: http://jaeger:14268/api/traces?format=jaeger.thrift')
            [CompletionResult]::new('--trace-otlp-url', '--trace-otlp-url', [CompletionResultType]::ParameterName, 'URL of an OpenTelemetry collector (OTLP over HTTP). Example: http://collector:4318/v1/traces')
            [CompletionResult]::new('--trace-log-spans', '--trace-log-spans', [CompletionResultType]::ParameterName, 'Write a log record for every span')
            [CompletionResult]::new('--trace-sampling-rate', '--trace-sampling-rate', [CompletionResultType]::ParameterName, 'Fraction of new traces that are sampled, from 0 to 1')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Quotas to allocate: name1=amount1,name2=amount2,…')
            [CompletionResult]::new('--quotas', '--quotas', [CompletionResultType]::ParameterName, 'Quotas to allocate: name1=amount1,name2=amount2,…')
            [CompletionResult]::new('--explain-page', '--explain-page', [CompletionResultType]::ParameterName, 'Page of the rules of --explain: each lists 50 more of those that did not match. Implies --explain')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to color output')
            [CompletionResult]::new('--error-format', '--error-format', [CompletionResultType]::ParameterName, 'Format of error messages on standard error')
            [CompletionResult]::new('--serve-valid', '--serve-valid', [CompletionResultType]::ParameterName, 'Take --config as a server with --config-on-error serve-valid: without what has an error')
            [CompletionResult]::new('--wait-for-ready', '--wait-for-ready', [CompletionResultType]::ParameterName, 'Wait until the server is reachable, at most --timeout')
            [CompletionResult]::new('--tls', '--tls', [CompletionResultType]::ParameterName, 'Use TLS; implied by the other flags of this group')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Print no results, progress bar, summary or warnings: the exit status tells the result, and failed calls are told on standard error. Results are printed all the same with --output')
            [CompletionResult]::new('--exit-zero', '--exit-zero', [CompletionResultType]::ParameterName, 'Exit with status 0 regardless of the results')
            [CompletionResult]::new('--native-exit-codes', '--native-exit-codes', [CompletionResultType]::ParameterName, 'Use the exit statuses of `mixer` when called as mixc')
            [CompletionResult]::new('--require-quota', '--require-quota', [CompletionResultType]::ParameterName, 'Exit with status 1 unless every quota is granted in full')
            [CompletionResult]::new('--explain', '--explain', [CompletionResultType]::ParameterName, 'Explain the result: rules considered, value of each condition, near misses, results of handlers')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Log at level debug: servers in their log, other commands on standard error')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Log at level debug: servers in their log, other commands on standard error')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mixer;report' {
            [CompletionResult]::new('-m', '-m', [CompletionResultType]::ParameterName, 'Server address: host:port, dns:///host:port, unix:///path or unix:path')
            [CompletionResult]::new('--server', '--server', [CompletionResultType]::ParameterName, 'Server address: host:port, dns:///host:port, unix:///path or unix:path')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'Configuration to evaluate in this process instead of calling a server: fs://DIR, a path, `-` for standard input, or embedded://sample')
            [CompletionResult]::new('--default-namespace', '--default-namespace', [CompletionResultType]::ParameterName, 'Namespace of mesh-wide rules')
            [CompletionResult]::new('-a', '-a', [CompletionResultType]::ParameterName, 'Attributes, auto-detected type: name1=value1,name2=value2,…')
            [CompletionResult]::new('--attributes', '--attributes', [CompletionResultType]::ParameterName, 'Attributes, auto-detected type: name1=value1,name2=value2,…')
            [CompletionResult]::new('-s', '-s', [CompletionResultType]::ParameterName, 'String attributes: name1=value1,name2=value2,…')
            [CompletionResult]::new('--string-attributes', '--string-attributes', [CompletionResultType]::ParameterName, 'String attributes: name1=value1,name2=value2,…')
            [CompletionResult]::new('-i', '-i', [CompletionResultType]::ParameterName, 'Integer attributes: name1=1,name2=2,…')
            [CompletionResult]::new('--int64-attributes', '--int64-attributes', [CompletionResultType]::ParameterName, 'Integer attributes: name1=1,name2=2,…')
            [CompletionResult]::new('-d', '-d', [CompletionResultType]::ParameterName, 'Floating point attributes: name1=0.5,name2=1e3,…')
            [CompletionResult]::new('--double-attributes', '--double-attributes', [CompletionResultType]::ParameterName, 'Floating point attributes: name1=0.5,name2=1e3,…')
            [CompletionResult]::new('-b', '-b', [CompletionResultType]::ParameterName, 'Boolean attributes: name1=true,name2=false,…')
            [CompletionResult]::new('--bool-attributes', '--bool-attributes', [CompletionResultType]::ParameterName, 'Boolean attributes: name1=true,name2=false,…')
            [CompletionResult]::new('-t', '-t', [CompletionResultType]::ParameterName, 'Timestamp attributes: name1=2017-07-04T00:01:10Z,…')
            [CompletionResult]::new('--timestamp-attributes', '--timestamp-attributes', [CompletionResultType]::ParameterName, 'Timestamp attributes: name1=2017-07-04T00:01:10Z,…')
            [CompletionResult]::new('--duration-attributes', '--duration-attributes', [CompletionResultType]::ParameterName, 'Duration attributes: name1=250ms,name2=1h30m,…')
            [CompletionResult]::new('--bytes-attributes', '--bytes-attributes', [CompletionResultType]::ParameterName, 'Bytes attributes, for example IP addresses: name1=c0:0:0:2,…')
            [CompletionResult]::new('--ip-attributes', '--ip-attributes', [CompletionResultType]::ParameterName, 'IP addresses: name1=192.0.2.1,name2=2001:db8::1,…')
            [CompletionResult]::new('--stringmap-attributes', '--stringmap-attributes', [CompletionResultType]::ParameterName, 'String map attributes: name1=key1:value1;key2:value2,…')
            [CompletionResult]::new('--attributes-file', '--attributes-file', [CompletionResultType]::ParameterName, 'YAML or JSON file with attributes; `@-` reads standard input. Flags override the file')
            [CompletionResult]::new('--dictionary', '--dictionary', [CompletionResultType]::ParameterName, 'Whether to encode words with the global dictionary')
            [CompletionResult]::new('-r', '-r', [CompletionResultType]::ParameterName, 'Calls per worker; 0 or less sends nothing')
            [CompletionResult]::new('--repeat', '--repeat', [CompletionResultType]::ParameterName, 'Calls per worker; 0 or less sends nothing')
            [CompletionResult]::new('-c', '-c', [CompletionResultType]::ParameterName, 'Concurrent workers')
            [CompletionResult]::new('--concurrency', '--concurrency', [CompletionResultType]::ParameterName, 'Concurrent workers')
            [CompletionResult]::new('--rate', '--rate', [CompletionResultType]::ParameterName, 'Maximum calls per second of all workers; 0 or less means no limit')
            [CompletionResult]::new('--report-batch-size', '--report-batch-size', [CompletionResultType]::ParameterName, 'Attribute sets per report')
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'Timeout per call. Example: 5s')
            [CompletionResult]::new('--ca-file', '--ca-file', [CompletionResultType]::ParameterName, 'CA certificates that verify the server, PEM; default: those of the system')
            [CompletionResult]::new('--cert-file', '--cert-file', [CompletionResultType]::ParameterName, 'Client certificate chain, PEM')
            [CompletionResult]::new('--key-file', '--key-file', [CompletionResultType]::ParameterName, 'Private key of the client certificate, PEM')
            [CompletionResult]::new('--server-name', '--server-name', [CompletionResultType]::ParameterName, 'Server name in the server certificate; default: the host of the target')
            [CompletionResult]::new('--print-response', '--print-response', [CompletionResultType]::ParameterName, 'Print responses; `check` prints failures even without it')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Output format; default: table on a terminal, else plain')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Output format; default: table on a terminal, else plain')
            [CompletionResult]::new('--trace-zipkin-url', '--trace-zipkin-url', [CompletionResultType]::ParameterName, 'URL of a Zipkin collector. Example: http://zipkin:9411/api/v1/spans')
            [CompletionResult]::new('--trace-jaeger-url', '--trace-jaeger-url', [CompletionResultType]::ParameterName, 'URL of a Jaeger collector. Example: http://jaeger:14268/api/traces?format=jaeger.thrift')
            [CompletionResult]::new('--trace-otlp-url', '--trace-otlp-url', [CompletionResultType]::ParameterName, 'URL of an OpenTelemetry collector (OTLP over HTTP). Example: http://collector:4318/v1/traces')
            [CompletionResult]::new('--trace-log-spans', '--trace-log-spans', [CompletionResultType]::ParameterName, 'Write a log record for every span')
            [CompletionResult]::new('--trace-sampling-rate', '--trace-sampling-rate', [CompletionResultType]::ParameterName, 'Fraction of new traces that are sampled, from 0 to 1')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to color output')
            [CompletionResult]::new('--error-format', '--error-format', [CompletionResultType]::ParameterName, 'Format of error messages on standard error')
            [CompletionResult]::new('--serve-valid', '--serve-valid', [CompletionResultType]::ParameterName, 'Take --config as a server with --config-on-error serve-valid: without what has an error')
            [CompletionResult]::new('--wait-for-ready', '--wait-for-ready', [CompletionResultType]::ParameterName, 'Wait until the server is reachable, at most --timeout')
            [CompletionResult]::new('--tls', '--tls', [CompletionResultType]::ParameterName, 'Use TLS; implied by the other flags of this group')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Print no results, progress bar, summary or warnings: the exit status tells the result, and failed calls are told on standard error. Results are printed all the same with --output')
            [CompletionResult]::new('--exit-zero', '--exit-zero', [CompletionResultType]::ParameterName, 'Exit with status 0 regardless of the results')
            [CompletionResult]::new('--native-exit-codes', '--native-exit-codes', [CompletionResultType]::ParameterName, 'Use the exit statuses of `mixer` when called as mixc')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Log at level debug: servers in their log, other commands on standard error')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Log at level debug: servers in their log, other commands on standard error')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mixer;probe' {
            [CompletionResult]::new('--probe-path', '--probe-path', [CompletionResultType]::ParameterName, 'Probe file to check')
            [CompletionResult]::new('--interval', '--interval', [CompletionResultType]::ParameterName, 'Maximum age of the probe file, and interval of --watch')
            [CompletionResult]::new('--server', '--server', [CompletionResultType]::ParameterName, 'Server whose gRPC health service is called: host:port or unix:///path; may be repeated')
            [CompletionResult]::new('--service', '--service', [CompletionResultType]::ParameterName, 'Service name of the health check: empty or istio.mixer.v1.Mixer for readiness, `liveness` for liveness')
            [CompletionResult]::new('--http', '--http', [CompletionResultType]::ParameterName, 'URL that must return a 2xx status; may be repeated. Example: http://localhost:15014/readyz')
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'Timeout of a gRPC or HTTP request')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('--ca-file', '--ca-file', [CompletionResultType]::ParameterName, 'CA certificates that verify the server, PEM; default: those of the system')
            [CompletionResult]::new('--cert-file', '--cert-file', [CompletionResultType]::ParameterName, 'Client certificate chain, PEM')
            [CompletionResult]::new('--key-file', '--key-file', [CompletionResultType]::ParameterName, 'Private key of the client certificate, PEM')
            [CompletionResult]::new('--server-name', '--server-name', [CompletionResultType]::ParameterName, 'Server name in the server certificate; default: the host of the target')
            [CompletionResult]::new('--log-target', '--log-target', [CompletionResultType]::ParameterName, 'Log output: a file, stdout or stderr; may be repeated')
            [CompletionResult]::new('--log-rotate', '--log-rotate', [CompletionResultType]::ParameterName, 'Additional rotated log file')
            [CompletionResult]::new('--log-rotate-max-size', '--log-rotate-max-size', [CompletionResultType]::ParameterName, 'Size at which the log file is rotated, in MiB, or with a unit. Example: 1GiB')
            [CompletionResult]::new('--log-rotate-max-age', '--log-rotate-max-age', [CompletionResultType]::ParameterName, 'Days to keep rotated log files; 0 means no limit')
            [CompletionResult]::new('--log-rotate-max-backups', '--log-rotate-max-backups', [CompletionResultType]::ParameterName, 'Rotated log files to keep; 0 means all')
            [CompletionResult]::new('--log-as-json', '--log-as-json', [CompletionResultType]::ParameterName, 'Write log records as JSON objects')
            [CompletionResult]::new('--log-output-level', '--log-output-level', [CompletionResultType]::ParameterName, 'Log levels: `[scope:]level,…` with the levels none, fatal, error, warn, info, debug')
            [CompletionResult]::new('--log-stacktrace-level', '--log-stacktrace-level', [CompletionResultType]::ParameterName, 'Minimum level of records with a stack trace: `[scope:]level,…`')
            [CompletionResult]::new('--log-caller', '--log-caller', [CompletionResultType]::ParameterName, 'Scopes whose records include the source location')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to color output')
            [CompletionResult]::new('--error-format', '--error-format', [CompletionResultType]::ParameterName, 'Format of error messages on standard error')
            [CompletionResult]::new('--watch', '--watch', [CompletionResultType]::ParameterName, 'Watch the targets and print every change, until SIGINT')
            [CompletionResult]::new('--tls', '--tls', [CompletionResultType]::ParameterName, 'Use TLS; implied by the other flags of this group')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Log at level debug: servers in their log, other commands on standard error')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Log at level debug: servers in their log, other commands on standard error')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Print errors only, no results, warnings and progress: the exit status tells the result')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mixer;validate' {
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'The same as PATH, as other commands have it')
            [CompletionResult]::new('--default-namespace', '--default-namespace', [CompletionResultType]::ParameterName, 'Namespace of mesh-wide rules')
            [CompletionResult]::new('--allow-empty-config', '--allow-empty-config', [CompletionResultType]::ParameterName, 'Accept a configuration without resources, which allows every request')
            [CompletionResult]::new('--suppress', '--suppress', [CompletionResultType]::ParameterName, 'With --analyze: a message that is not reported of a resource. Repeatable; `*` stands for any characters')
            [CompletionResult]::new('--server', '--server', [CompletionResultType]::ParameterName, 'Show what the configuration would change in a running server: its host, and the port of ControlZ, by default 9876')
            [CompletionResult]::new('--ctrlz-token-file', '--ctrlz-token-file', [CompletionResultType]::ParameterName, 'File with the bearer token of ControlZ: that of --ctrlz-token-file of the server. Also MIXER_CTRLZ_TOKEN_FILE')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Output format; default: table on a terminal, else plain')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Output format; default: table on a terminal, else plain')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to color output')
            [CompletionResult]::new('--error-format', '--error-format', [CompletionResultType]::ParameterName, 'Format of error messages on standard error')
            [CompletionResult]::new('--strict', '--strict', [CompletionResultType]::ParameterName, 'Treat warnings as errors; with --server, differences as well')
            [CompletionResult]::new('--lint', '--lint', [CompletionResultType]::ParameterName, 'Report valid but probably unintended configuration: unused handlers and instances, constant conditions, shadowed rules')
            [CompletionResult]::new('--analyze', '--analyze', [CompletionResultType]::ParameterName, 'Report what resources of the mesh say together: references that lead nowhere, conflicts, workloads outside of the mesh')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Log at level debug: servers in their log, other commands on standard error')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Log at level debug: servers in their log, other commands on standard error')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Print errors only, no results, warnings and progress: the exit status tells the result')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mixer;eval' {
            [CompletionResult]::new('--lang', '--lang', [CompletionResultType]::ParameterName, 'Its language: CEXL (the classic one), CEL or COMPAT. Default: that of ISTIO_LANG, or CEXL')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'Configuration whose attribute manifests declare attributes: a path, a URL, or `-`. Given and standard attributes need none')
            [CompletionResult]::new('--default-namespace', '--default-namespace', [CompletionResultType]::ParameterName, 'Namespace of mesh-wide rules')
            [CompletionResult]::new('-a', '-a', [CompletionResultType]::ParameterName, 'Attributes, auto-detected type: name1=value1,name2=value2,…')
            [CompletionResult]::new('--attributes', '--attributes', [CompletionResultType]::ParameterName, 'Attributes, auto-detected type: name1=value1,name2=value2,…')
            [CompletionResult]::new('-s', '-s', [CompletionResultType]::ParameterName, 'String attributes: name1=value1,name2=value2,…')
            [CompletionResult]::new('--string-attributes', '--string-attributes', [CompletionResultType]::ParameterName, 'String attributes: name1=value1,name2=value2,…')
            [CompletionResult]::new('-i', '-i', [CompletionResultType]::ParameterName, 'Integer attributes: name1=1,name2=2,…')
            [CompletionResult]::new('--int64-attributes', '--int64-attributes', [CompletionResultType]::ParameterName, 'Integer attributes: name1=1,name2=2,…')
            [CompletionResult]::new('-d', '-d', [CompletionResultType]::ParameterName, 'Floating point attributes: name1=0.5,name2=1e3,…')
            [CompletionResult]::new('--double-attributes', '--double-attributes', [CompletionResultType]::ParameterName, 'Floating point attributes: name1=0.5,name2=1e3,…')
            [CompletionResult]::new('-b', '-b', [CompletionResultType]::ParameterName, 'Boolean attributes: name1=true,name2=false,…')
            [CompletionResult]::new('--bool-attributes', '--bool-attributes', [CompletionResultType]::ParameterName, 'Boolean attributes: name1=true,name2=false,…')
            [CompletionResult]::new('-t', '-t', [CompletionResultType]::ParameterName, 'Timestamp attributes: name1=2017-07-04T00:01:10Z,…')
            [CompletionResult]::new('--timestamp-attributes', '--timestamp-attributes', [CompletionResultType]::ParameterName, 'Timestamp attributes: name1=2017-07-04T00:01:10Z,…')
            [CompletionResult]::new('--duration-attributes', '--duration-attributes', [CompletionResultType]::ParameterName, 'Duration attributes: name1=250ms,name2=1h30m,…')
            [CompletionResult]::new('--bytes-attributes', '--bytes-attributes', [CompletionResultType]::ParameterName, 'Bytes attributes, for example IP addresses: name1=c0:0:0:2,…')
            [CompletionResult]::new('--ip-attributes', '--ip-attributes', [CompletionResultType]::ParameterName, 'IP addresses: name1=192.0.2.1,name2=2001:db8::1,…')
            [CompletionResult]::new('--stringmap-attributes', '--stringmap-attributes', [CompletionResultType]::ParameterName, 'String map attributes: name1=key1:value1;key2:value2,…')
            [CompletionResult]::new('--attributes-file', '--attributes-file', [CompletionResultType]::ParameterName, 'YAML or JSON file with attributes; `@-` reads standard input. Flags override the file')
            [CompletionResult]::new('--dictionary', '--dictionary', [CompletionResultType]::ParameterName, 'Whether to encode words with the global dictionary')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Output format; default: table on a terminal, else plain, which is the value alone')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Output format; default: table on a terminal, else plain, which is the value alone')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to color output')
            [CompletionResult]::new('--error-format', '--error-format', [CompletionResultType]::ParameterName, 'Format of error messages on standard error')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Log at level debug: servers in their log, other commands on standard error')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Log at level debug: servers in their log, other commands on standard error')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Print errors only, no results, warnings and progress: the exit status tells the result')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mixer;explain-code' {
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to color output')
            [CompletionResult]::new('--error-format', '--error-format', [CompletionResultType]::ParameterName, 'Format of error messages on standard error')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Log at level debug: servers in their log, other commands on standard error')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Log at level debug: servers in their log, other commands on standard error')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Print errors only, no results, warnings and progress: the exit status tells the result')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mixer;test' {
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'Configuration to test: fs://DIR, a path, or embedded://sample; may be repeated. Overrides the test files')
            [CompletionResult]::new('--default-namespace', '--default-namespace', [CompletionResultType]::ParameterName, 'Namespace of mesh-wide rules')
            [CompletionResult]::new('--allow-empty-config', '--allow-empty-config', [CompletionResultType]::ParameterName, 'Accept a configuration without resources, which allows every request')
            [CompletionResult]::new('--filter', '--filter', [CompletionResultType]::ParameterName, 'Run only tests whose file or name contains TEXT')
            [CompletionResult]::new('--junit', '--junit', [CompletionResultType]::ParameterName, 'Also write the results as JUnit XML')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Output format; default: table on a terminal, else plain')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Output format; default: table on a terminal, else plain')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to color output')
            [CompletionResult]::new('--error-format', '--error-format', [CompletionResultType]::ParameterName, 'Format of error messages on standard error')
            [CompletionResult]::new('--fail-fast', '--fail-fast', [CompletionResultType]::ParameterName, 'Stop after the first failed test')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Log at level debug: servers in their log, other commands on standard error')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Log at level debug: servers in their log, other commands on standard error')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Print errors only, no results, warnings and progress: the exit status tells the result')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mixer;diff' {
            [CompletionResult]::new('--from', '--from', [CompletionResultType]::ParameterName, 'Current configuration: fs://DIR, a path, or embedded://sample')
            [CompletionResult]::new('--to', '--to', [CompletionResultType]::ParameterName, 'Changed configuration. `--config` is the same, as other commands have it')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'Changed configuration. `--config` is the same, as other commands have it')
            [CompletionResult]::new('--requests', '--requests', [CompletionResultType]::ParameterName, 'Recorded calls from `mixer server --record-requests` or `--decision-log`; `-` for standard input')
            [CompletionResult]::new('--default-namespace', '--default-namespace', [CompletionResultType]::ParameterName, 'Namespace of mesh-wide rules')
            [CompletionResult]::new('--limit', '--limit', [CompletionResultType]::ParameterName, 'Maximum groups of changes in a table, most frequent first')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Output format; default: table on a terminal, else plain')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Output format; default: table on a terminal, else plain')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to color output')
            [CompletionResult]::new('--error-format', '--error-format', [CompletionResultType]::ParameterName, 'Format of error messages on standard error')
            [CompletionResult]::new('--serve-valid', '--serve-valid', [CompletionResultType]::ParameterName, 'Compare configurations with errors as servers with --config-on-error serve-valid have them: without what has an error')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Log at level debug: servers in their log, other commands on standard error')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Log at level debug: servers in their log, other commands on standard error')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Print errors only, no results, warnings and progress: the exit status tells the result')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mixer;snapshot' {
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to color output')
            [CompletionResult]::new('--error-format', '--error-format', [CompletionResultType]::ParameterName, 'Format of error messages on standard error')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Log at level debug: servers in their log, other commands on standard error')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Log at level debug: servers in their log, other commands on standard error')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Print errors only, no results, warnings and progress: the exit status tells the result')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('dump', 'dump', [CompletionResultType]::ParameterValue, 'Print a snapshot: attributes, handlers, instances, rules, adapters, templates')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'mixer;snapshot;dump' {
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'Configuration to read: fs://DIR, a path, `-` for standard input, or embedded://sample')
            [CompletionResult]::new('--server', '--server', [CompletionResultType]::ParameterName, 'Query a running server instead: its host, and the port of ControlZ, by default 9876. Example: localhost:9876')
            [CompletionResult]::new('--ctrlz-token-file', '--ctrlz-token-file', [CompletionResultType]::ParameterName, 'File with the bearer token of ControlZ: that of --ctrlz-token-file of the server. Also MIXER_CTRLZ_TOKEN_FILE')
            [CompletionResult]::new('--default-namespace', '--default-namespace', [CompletionResultType]::ParameterName, 'Namespace of mesh-wide rules')
            [CompletionResult]::new('--section', '--section', [CompletionResultType]::ParameterName, 'Sections to print, separated by commas; default: all')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Output format; default: table on a terminal, else plain')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Output format; default: table on a terminal, else plain')
            [CompletionResult]::new('--diff', '--diff', [CompletionResultType]::ParameterName, 'Compare with an earlier JSON dump; exits with status 1 if they differ, or may')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to color output')
            [CompletionResult]::new('--error-format', '--error-format', [CompletionResultType]::ParameterName, 'Format of error messages on standard error')
            [CompletionResult]::new('--show-secrets', '--show-secrets', [CompletionResultType]::ParameterName, 'Do not mask secret parameters')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Log at level debug: servers in their log, other commands on standard error')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Log at level debug: servers in their log, other commands on standard error')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Print errors only, no results, warnings and progress: the exit status tells the result')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mixer;snapshot;help' {
            [CompletionResult]::new('dump', 'dump', [CompletionResultType]::ParameterValue, 'Print a snapshot: attributes, handlers, instances, rules, adapters, templates')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'mixer;snapshot;help;dump' {
            break
        }
        'mixer;snapshot;help;help' {
            break
        }
        'mixer;routes' {
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to color output')
            [CompletionResult]::new('--error-format', '--error-format', [CompletionResultType]::ParameterName, 'Format of error messages on standard error')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Log at level debug: servers in their log, other commands on standard error')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Log at level debug: servers in their log, other commands on standard error')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Print errors only, no results, warnings and progress: the exit status tells the result')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('show', 'show', [CompletionResultType]::ParameterValue, 'Print the routing table: variety, namespace, handler, condition, instances')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'mixer;routes;show' {
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'Configuration to read: fs://DIR, a path, `-` for standard input, or embedded://sample')
            [CompletionResult]::new('--server', '--server', [CompletionResultType]::ParameterName, 'Query a running server instead: its host, and the port of ControlZ, by default 9876. Example: localhost:9876')
            [CompletionResult]::new('--ctrlz-token-file', '--ctrlz-token-file', [CompletionResultType]::ParameterName, 'File with the bearer token of ControlZ: that of --ctrlz-token-file of the server. Also MIXER_CTRLZ_TOKEN_FILE')
            [CompletionResult]::new('--default-namespace', '--default-namespace', [CompletionResultType]::ParameterName, 'Namespace of mesh-wide rules')
            [CompletionResult]::new('--variety', '--variety', [CompletionResultType]::ParameterName, 'Show routes of one variety: check, report, quota, attribute-generator or check-with-output')
            [CompletionResult]::new('--namespace', '--namespace', [CompletionResultType]::ParameterName, 'Show routes of one namespace. Exits with status 2 if none has routes of that name')
            [CompletionResult]::new('--handler', '--handler', [CompletionResultType]::ParameterName, 'Show routes to matching handlers; `*` matches any text. Exits with status 2 if there is none')
            [CompletionResult]::new('--match', '--match', [CompletionResultType]::ParameterName, 'Mark routes that match a request with these attributes: name1=value1,name2=value2,…')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Output format; default: table on a terminal, else plain')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Output format; default: table on a terminal, else plain')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to color output')
            [CompletionResult]::new('--error-format', '--error-format', [CompletionResultType]::ParameterName, 'Format of error messages on standard error')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Log at level debug: servers in their log, other commands on standard error')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Log at level debug: servers in their log, other commands on standard error')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Print errors only, no results, warnings and progress: the exit status tells the result')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mixer;routes;help' {
            [CompletionResult]::new('show', 'show', [CompletionResultType]::ParameterValue, 'Print the routing table: variety, namespace, handler, condition, instances')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'mixer;routes;help;show' {
            break
        }
        'mixer;routes;help;help' {
            break
        }
        'mixer;proxy' {
            [CompletionResult]::new('-c', '-c', [CompletionResultType]::ParameterName, 'The bootstrap: a YAML or JSON file')
            [CompletionResult]::new('--config-path', '--config-path', [CompletionResultType]::ParameterName, 'The bootstrap: a YAML or JSON file')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'The bootstrap: a YAML or JSON file')
            [CompletionResult]::new('--config-yaml', '--config-yaml', [CompletionResultType]::ParameterName, 'The bootstrap as text instead of a file, YAML or JSON')
            [CompletionResult]::new('--concurrency', '--concurrency', [CompletionResultType]::ParameterName, 'Number of worker threads; 0 is one. Default: the number of CPUs')
            [CompletionResult]::new('--mode', '--mode', [CompletionResultType]::ParameterName, 'Serve, or only validate the bootstrap')
            [CompletionResult]::new('-l', '-l', [CompletionResultType]::ParameterName, 'Log level')
            [CompletionResult]::new('--log-level', '--log-level', [CompletionResultType]::ParameterName, 'Log level')
            [CompletionResult]::new('--log-path', '--log-path', [CompletionResultType]::ParameterName, 'Log file; default: standard error')
            [CompletionResult]::new('--admin-address-path', '--admin-address-path', [CompletionResultType]::ParameterName, 'Where to write host:port of the admin interface once it listens')
            [CompletionResult]::new('--admin-allowed-hosts', '--admin-allowed-hosts', [CompletionResultType]::ParameterName, 'Names that the admin interface may be asked by besides localhost and IP addresses. Example: proxy.example.com,web-1')
            [CompletionResult]::new('--terminate-drain', '--terminate-drain', [CompletionResultType]::ParameterName, 'Time that connections have to end after SIGTERM or SIGINT, in seconds; 0 closes them at once, as Envoy does')
            [CompletionResult]::new('--drain-time-s', '--drain-time-s', [CompletionResultType]::ParameterName, 'Time that connections of a listener have to end once it is replaced or removed, in seconds; then they are closed')
            [CompletionResult]::new('--drain-strategy', '--drain-strategy', [CompletionResultType]::ParameterName, 'How often responses end their connections during that time')
            [CompletionResult]::new('--body-memory', '--body-memory', [CompletionResultType]::ParameterName, 'Memory for bodies of requests that filters wait for, over all connections')
            [CompletionResult]::new('--service-node', '--service-node', [CompletionResultType]::ParameterName, 'Overrides `node.id`')
            [CompletionResult]::new('--service-cluster', '--service-cluster', [CompletionResultType]::ParameterName, 'Overrides `node.cluster`')
            [CompletionResult]::new('--base-id', '--base-id', [CompletionResultType]::ParameterName, 'Has no effect: there is no hot restart, which needs it')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to color output')
            [CompletionResult]::new('--error-format', '--error-format', [CompletionResultType]::ParameterName, 'Format of error messages on standard error')
            [CompletionResult]::new('--mixer-exact-tcp-deltas', '--mixer-exact-tcp-deltas', [CompletionResultType]::ParameterName, 'Byte counts in Mixer reports of TCP connections are those since the report before, of whatever kind')
            [CompletionResult]::new('--disable-hot-restart', '--disable-hot-restart', [CompletionResultType]::ParameterName, 'Has no effect: there is no hot restart')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Log at level debug: servers in their log, other commands on standard error')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Log at level debug: servers in their log, other commands on standard error')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Print errors only, no results, warnings and progress: the exit status tells the result')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mixer;adapter' {
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to color output')
            [CompletionResult]::new('--error-format', '--error-format', [CompletionResultType]::ParameterName, 'Format of error messages on standard error')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Log at level debug: servers in their log, other commands on standard error')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Log at level debug: servers in their log, other commands on standard error')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Print errors only, no results, warnings and progress: the exit status tells the result')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('new', 'new', [CompletionResultType]::ParameterValue, 'Write a new adapter in Rust: a crate with a gRPC server, and its resources')
            [CompletionResult]::new('resources', 'resources', [CompletionResultType]::ParameterValue, 'Print the resources of an adapter: its templates and the adapter itself')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'mixer;adapter;new' {
            [CompletionResult]::new('--template', '--template', [CompletionResultType]::ParameterName, 'Templates that it takes, separated by commas: built-in ones, or NAME:VARIETY for one of its own')
            [CompletionResult]::new('--directory', '--directory', [CompletionResultType]::ParameterName, 'Directory to write to; default: one with the name of the adapter')
            [CompletionResult]::new('--namespace', '--namespace', [CompletionResultType]::ParameterName, 'Namespace of its resources')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to color output')
            [CompletionResult]::new('--error-format', '--error-format', [CompletionResultType]::ParameterName, 'Format of error messages on standard error')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Log at level debug: servers in their log, other commands on standard error')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Log at level debug: servers in their log, other commands on standard error')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Print errors only, no results, warnings and progress: the exit status tells the result')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mixer;adapter;resources' {
            [CompletionResult]::new('-I', '-I ', [CompletionResultType]::ParameterName, 'Directory that imports are relative to; may be repeated')
            [CompletionResult]::new('--proto-dir', '--proto-dir', [CompletionResultType]::ParameterName, 'Directory that imports are relative to; may be repeated')
            [CompletionResult]::new('--template', '--template', [CompletionResultType]::ParameterName, 'Proto of a template that it takes, relative to a directory of --proto-dir; may be repeated')
            [CompletionResult]::new('--params', '--params', [CompletionResultType]::ParameterName, 'Proto with the message `Params`, relative to a directory of --proto-dir; default: it has no parameters')
            [CompletionResult]::new('--namespace', '--namespace', [CompletionResultType]::ParameterName, 'Namespace of the resources')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to color output')
            [CompletionResult]::new('--error-format', '--error-format', [CompletionResultType]::ParameterName, 'Format of error messages on standard error')
            [CompletionResult]::new('--session-based', '--session-based', [CompletionResultType]::ParameterName, 'It takes its parameters once, in a session')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Log at level debug: servers in their log, other commands on standard error')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Log at level debug: servers in their log, other commands on standard error')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Print errors only, no results, warnings and progress: the exit status tells the result')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mixer;adapter;help' {
            [CompletionResult]::new('new', 'new', [CompletionResultType]::ParameterValue, 'Write a new adapter in Rust: a crate with a gRPC server, and its resources')
            [CompletionResult]::new('resources', 'resources', [CompletionResultType]::ParameterValue, 'Print the resources of an adapter: its templates and the adapter itself')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'mixer;adapter;help;new' {
            break
        }
        'mixer;adapter;help;resources' {
            break
        }
        'mixer;adapter;help;help' {
            break
        }
        'mixer;version' {
            [CompletionResult]::new('-s', '-s', [CompletionResultType]::ParameterName, 'Print the version only')
            [CompletionResult]::new('--short', '--short', [CompletionResultType]::ParameterName, 'Print the version only')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'One of ''yaml'' or ''json''; overrides --short')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'One of ''yaml'' or ''json''; overrides --short')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to color output')
            [CompletionResult]::new('--error-format', '--error-format', [CompletionResultType]::ParameterName, 'Format of error messages on standard error')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Log at level debug: servers in their log, other commands on standard error')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Log at level debug: servers in their log, other commands on standard error')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Print errors only, no results, warnings and progress: the exit status tells the result')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mixer;crd' {
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to color output')
            [CompletionResult]::new('--error-format', '--error-format', [CompletionResultType]::ParameterName, 'Format of error messages on standard error')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Log at level debug: servers in their log, other commands on standard error')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Log at level debug: servers in their log, other commands on standard error')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Print errors only, no results, warnings and progress: the exit status tells the result')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('all', 'all', [CompletionResultType]::ParameterValue, 'List all kinds: core, adapters, instances')
            [CompletionResult]::new('adapter', 'adapter', [CompletionResultType]::ParameterValue, 'List adapter-specific kinds')
            [CompletionResult]::new('instance', 'instance', [CompletionResultType]::ParameterValue, 'List template-specific kinds')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'mixer;crd;all' {
            [CompletionResult]::new('--api-version', '--api-version', [CompletionResultType]::ParameterName, 'API version of the definitions: v1beta1 or v1')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to color output')
            [CompletionResult]::new('--error-format', '--error-format', [CompletionResultType]::ParameterName, 'Format of error messages on standard error')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Log at level debug: servers in their log, other commands on standard error')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Log at level debug: servers in their log, other commands on standard error')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Print errors only, no results, warnings and progress: the exit status tells the result')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mixer;crd;adapter' {
            [CompletionResult]::new('--api-version', '--api-version', [CompletionResultType]::ParameterName, 'API version of the definitions: v1beta1 or v1')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to color output')
            [CompletionResult]::new('--error-format', '--error-format', [CompletionResultType]::ParameterName, 'Format of error messages on standard error')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Log at level debug: servers in their log, other commands on standard error')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Log at level debug: servers in their log, other commands on standard error')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Print errors only, no results, warnings and progress: the exit status tells the result')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mixer;crd;instance' {
            [CompletionResult]::new('--api-version', '--api-version', [CompletionResultType]::ParameterName, 'API version of the definitions: v1beta1 or v1')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to color output')
            [CompletionResult]::new('--error-format', '--error-format', [CompletionResultType]::ParameterName, 'Format of error messages on standard error')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Log at level debug: servers in their log, other commands on standard error')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Log at level debug: servers in their log, other commands on standard error')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Print errors only, no results, warnings and progress: the exit status tells the result')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mixer;crd;help' {
            [CompletionResult]::new('all', 'all', [CompletionResultType]::ParameterValue, 'List all kinds: core, adapters, instances')
            [CompletionResult]::new('adapter', 'adapter', [CompletionResultType]::ParameterValue, 'List adapter-specific kinds')
            [CompletionResult]::new('instance', 'instance', [CompletionResultType]::ParameterValue, 'List template-specific kinds')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'mixer;crd;help;all' {
            break
        }
        'mixer;crd;help;adapter' {
            break
        }
        'mixer;crd;help;instance' {
            break
        }
        'mixer;crd;help;help' {
            break
        }
        'mixer;completions' {
            [CompletionResult]::new('--name', '--name', [CompletionResultType]::ParameterName, 'Program name: mixer, mixs, mixc or galley')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to color output')
            [CompletionResult]::new('--error-format', '--error-format', [CompletionResultType]::ParameterName, 'Format of error messages on standard error')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Log at level debug: servers in their log, other commands on standard error')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Log at level debug: servers in their log, other commands on standard error')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Print errors only, no results, warnings and progress: the exit status tells the result')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mixer;man' {
            [CompletionResult]::new('--dir', '--dir', [CompletionResultType]::ParameterName, 'Write one page per command to this directory instead of printing the page of `mixer`')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to color output')
            [CompletionResult]::new('--error-format', '--error-format', [CompletionResultType]::ParameterName, 'Format of error messages on standard error')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Log at level debug: servers in their log, other commands on standard error')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Log at level debug: servers in their log, other commands on standard error')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Print errors only, no results, warnings and progress: the exit status tells the result')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mixer;legacy' {
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to color output')
            [CompletionResult]::new('--error-format', '--error-format', [CompletionResultType]::ParameterName, 'Format of error messages on standard error')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Log at level debug: servers in their log, other commands on standard error')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Log at level debug: servers in their log, other commands on standard error')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Print errors only, no results, warnings and progress: the exit status tells the result')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mixer;galley' {
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to color output')
            [CompletionResult]::new('--error-format', '--error-format', [CompletionResultType]::ParameterName, 'Format of error messages on standard error')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Log at level debug: servers in their log, other commands on standard error')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Log at level debug: servers in their log, other commands on standard error')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Print errors only, no results, warnings and progress: the exit status tells the result')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('wait', 'wait', [CompletionResultType]::ParameterValue, 'Wait until sinks have acknowledged a change')
            [CompletionResult]::new('sinks', 'sinks', [CompletionResultType]::ParameterValue, 'Show the sinks: what each has of every collection, and what it refused')
            [CompletionResult]::new('status', 'status', [CompletionResultType]::ParameterValue, 'Show sources, groups, sinks and the webhook at a glance')
            [CompletionResult]::new('snapshot', 'snapshot', [CompletionResultType]::ParameterValue, 'Show or compare what is published')
            [CompletionResult]::new('watch', 'watch', [CompletionResultType]::ParameterValue, 'Print events of sources as they happen')
            [CompletionResult]::new('server', 'server', [CompletionResultType]::ParameterValue, 'Starts Galley as a server')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'mixer;galley;wait' {
            [CompletionResult]::new('--sinks', '--sinks', [CompletionResultType]::ParameterName, 'Sinks that must have acknowledged it, at least; all that are connected must in any case')
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'How long to wait')
            [CompletionResult]::new('--server', '--server', [CompletionResultType]::ParameterName, 'Running galley: its host, and the port of ControlZ, by default 9876')
            [CompletionResult]::new('--ctrlz-token-file', '--ctrlz-token-file', [CompletionResultType]::ParameterName, 'File with the bearer token of ControlZ: that of --ctrlz-token-file of the server. Also MIXER_CTRLZ_TOKEN_FILE')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Output format; default: plain')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Output format; default: plain')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to color output')
            [CompletionResult]::new('--error-format', '--error-format', [CompletionResultType]::ParameterName, 'Format of error messages on standard error')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Log at level debug: servers in their log, other commands on standard error')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Log at level debug: servers in their log, other commands on standard error')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Print errors only, no results, warnings and progress: the exit status tells the result')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mixer;galley;sinks' {
            [CompletionResult]::new('--server', '--server', [CompletionResultType]::ParameterName, 'Running galley: its host, and the port of ControlZ, by default 9876')
            [CompletionResult]::new('--ctrlz-token-file', '--ctrlz-token-file', [CompletionResultType]::ParameterName, 'File with the bearer token of ControlZ: that of --ctrlz-token-file of the server. Also MIXER_CTRLZ_TOKEN_FILE')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Output format; default: table')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Output format; default: table')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to color output')
            [CompletionResult]::new('--error-format', '--error-format', [CompletionResultType]::ParameterName, 'Format of error messages on standard error')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Log at level debug: servers in their log, other commands on standard error')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Log at level debug: servers in their log, other commands on standard error')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Print errors only, no results, warnings and progress: the exit status tells the result')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mixer;galley;status' {
            [CompletionResult]::new('--server', '--server', [CompletionResultType]::ParameterName, 'Running galley: its host, and the port of ControlZ, by default 9876')
            [CompletionResult]::new('--ctrlz-token-file', '--ctrlz-token-file', [CompletionResultType]::ParameterName, 'File with the bearer token of ControlZ: that of --ctrlz-token-file of the server. Also MIXER_CTRLZ_TOKEN_FILE')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Output format; default: table')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Output format; default: table')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to color output')
            [CompletionResult]::new('--error-format', '--error-format', [CompletionResultType]::ParameterName, 'Format of error messages on standard error')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Log at level debug: servers in their log, other commands on standard error')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Log at level debug: servers in their log, other commands on standard error')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Print errors only, no results, warnings and progress: the exit status tells the result')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mixer;galley;snapshot' {
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to color output')
            [CompletionResult]::new('--error-format', '--error-format', [CompletionResultType]::ParameterName, 'Format of error messages on standard error')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Log at level debug: servers in their log, other commands on standard error')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Log at level debug: servers in their log, other commands on standard error')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Print errors only, no results, warnings and progress: the exit status tells the result')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('dump', 'dump', [CompletionResultType]::ParameterValue, 'Print what is published')
            [CompletionResult]::new('diff', 'diff', [CompletionResultType]::ParameterValue, 'Compare what is published with a dump, or with another galley. Exits with status 1 if they differ')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'mixer;galley;snapshot;dump' {
            [CompletionResult]::new('--server', '--server', [CompletionResultType]::ParameterName, 'Running galley: its host, and the port of ControlZ, by default 9876')
            [CompletionResult]::new('--ctrlz-token-file', '--ctrlz-token-file', [CompletionResultType]::ParameterName, 'File with the bearer token of ControlZ: that of --ctrlz-token-file of the server. Also MIXER_CTRLZ_TOKEN_FILE')
            [CompletionResult]::new('--group', '--group', [CompletionResultType]::ParameterName, 'Snapshot group')
            [CompletionResult]::new('--collection', '--collection', [CompletionResultType]::ParameterName, 'One collection')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Output format; default: json')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Output format; default: json')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to color output')
            [CompletionResult]::new('--error-format', '--error-format', [CompletionResultType]::ParameterName, 'Format of error messages on standard error')
            [CompletionResult]::new('--show-secrets', '--show-secrets', [CompletionResultType]::ParameterName, 'Do not mask secret parameters, if galley may reveal them')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Log at level debug: servers in their log, other commands on standard error')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Log at level debug: servers in their log, other commands on standard error')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Print errors only, no results, warnings and progress: the exit status tells the result')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mixer;galley;snapshot;diff' {
            [CompletionResult]::new('--server', '--server', [CompletionResultType]::ParameterName, 'Running galley: its host, and the port of ControlZ, by default 9876')
            [CompletionResult]::new('--ctrlz-token-file', '--ctrlz-token-file', [CompletionResultType]::ParameterName, 'File with the bearer token of ControlZ: that of --ctrlz-token-file of the server. Also MIXER_CTRLZ_TOKEN_FILE')
            [CompletionResult]::new('--group', '--group', [CompletionResultType]::ParameterName, 'Snapshot group')
            [CompletionResult]::new('--collection', '--collection', [CompletionResultType]::ParameterName, 'One collection')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to color output')
            [CompletionResult]::new('--error-format', '--error-format', [CompletionResultType]::ParameterName, 'Format of error messages on standard error')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Log at level debug: servers in their log, other commands on standard error')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Log at level debug: servers in their log, other commands on standard error')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Print errors only, no results, warnings and progress: the exit status tells the result')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mixer;galley;snapshot;help' {
            [CompletionResult]::new('dump', 'dump', [CompletionResultType]::ParameterValue, 'Print what is published')
            [CompletionResult]::new('diff', 'diff', [CompletionResultType]::ParameterValue, 'Compare what is published with a dump, or with another galley. Exits with status 1 if they differ')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'mixer;galley;snapshot;help;dump' {
            break
        }
        'mixer;galley;snapshot;help;diff' {
            break
        }
        'mixer;galley;snapshot;help;help' {
            break
        }
        'mixer;galley;watch' {
            [CompletionResult]::new('--server', '--server', [CompletionResultType]::ParameterName, 'Running galley: its host, and the port of ControlZ, by default 9876')
            [CompletionResult]::new('--ctrlz-token-file', '--ctrlz-token-file', [CompletionResultType]::ParameterName, 'File with the bearer token of ControlZ: that of --ctrlz-token-file of the server. Also MIXER_CTRLZ_TOKEN_FILE')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to color output')
            [CompletionResult]::new('--error-format', '--error-format', [CompletionResultType]::ParameterName, 'Format of error messages on standard error')
            [CompletionResult]::new('--once', '--once', [CompletionResultType]::ParameterName, 'Print the events so far, and exit')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON object per event')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Log at level debug: servers in their log, other commands on standard error')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Log at level debug: servers in their log, other commands on standard error')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Print errors only, no results, warnings and progress: the exit status tells the result')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mixer;galley;server' {
            [CompletionResult]::new('-c', '-c', [CompletionResultType]::ParameterName, 'Resources: a directory, a file, fs://DIR or k8s://[KUBECONFIG]. Or settings: a file, YAML, JSON or TOML, whose precedence is flag, file, default')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'Resources: a directory, a file, fs://DIR or k8s://[KUBECONFIG]. Or settings: a file, YAML, JSON or TOML, whose precedence is flag, file, default')
            [CompletionResult]::new('--config-file', '--config-file', [CompletionResultType]::ParameterName, 'Resources: a directory, a file, fs://DIR or k8s://[KUBECONFIG]. Or settings: a file, YAML, JSON or TOML, whose precedence is flag, file, default')
            [CompletionResult]::new('--config-path', '--config-path', [CompletionResultType]::ParameterName, 'Directory or file of resources; without it, a Kubernetes cluster')
            [CompletionResult]::new('--watch-config-files', '--watch-config-files', [CompletionResultType]::ParameterName, 'Notice changes of files; otherwise on SIGUSR1 only')
            [CompletionResult]::new('--mesh-config-file', '--mesh-config-file', [CompletionResultType]::ParameterName, 'Mesh configuration, YAML; empty: the defaults')
            [CompletionResult]::new('--kubeconfig', '--kubeconfig', [CompletionResultType]::ParameterName, 'Kubeconfig of the cluster; without it, the one in which this process runs')
            [CompletionResult]::new('--resync-period', '--resync-period', [CompletionResultType]::ParameterName, 'How often all objects are listed again and compared; 0 means never')
            [CompletionResult]::new('--disable-resource-ready-check', '--disable-resource-ready-check', [CompletionResultType]::ParameterName, 'Start although the cluster lacks kinds of resources')
            [CompletionResult]::new('--excluded-resource-kinds', '--excluded-resource-kinds', [CompletionResultType]::ParameterName, 'Kinds that are not read, separated by commas')
            [CompletionResult]::new('--domain', '--domain', [CompletionResultType]::ParameterName, 'Domain of services')
            [CompletionResult]::new('--enable-service-discovery', '--enable-service-discovery', [CompletionResultType]::ParameterName, 'Make service entries from services, endpoints, pods and nodes')
            [CompletionResult]::new('--enable-analysis', '--enable-analysis', [CompletionResultType]::ParameterName, 'Tell in the log what published resources say together, as the analyzers of Istio 1.5: references that lead nowhere, conflicts')
            [CompletionResult]::new('--use-old-processor', '--use-old-processor', [CompletionResultType]::ParameterName, 'Versions and collections as of the first processor of Istio Galley; otherwise as of the second')
            [CompletionResult]::new('--istio-pace', '--istio-pace', [CompletionResultType]::ParameterName, 'Wait as long as Istio Galley before a change is published: about a second')
            [CompletionResult]::new('--config-on-error', '--config-on-error', [CompletionResultType]::ParameterName, 'What sinks get while files or objects have errors: keep-last, which they have already, or serve-valid, what is valid, as from Istio Galley. Default: keep-last; called as galley, serve-valid')
            [CompletionResult]::new('--allow-empty-config', '--allow-empty-config', [CompletionResultType]::ParameterName, 'Accept a --config-path without resources, which allows every request, and at a start one with an empty directory below it')
            [CompletionResult]::new('--config-cache', '--config-cache', [CompletionResultType]::ParameterName, 'Directory that keeps the files that were published last for the next start, with --config-path')
            [CompletionResult]::new('--zookeeper-address', '--zookeeper-address', [CompletionResultType]::ParameterName, 'ZooKeeper with the registry of Dubbo, whose services become service entries: HOST:PORT, separated by commas, and perhaps /CHROOT at the end')
            [CompletionResult]::new('--zookeeper-root', '--zookeeper-root', [CompletionResultType]::ParameterName, 'Node below which services are')
            [CompletionResult]::new('--zookeeper-session-timeout', '--zookeeper-session-timeout', [CompletionResultType]::ParameterName, 'Time after which a session without a sign of life ends')
            [CompletionResult]::new('--zookeeper-namespace', '--zookeeper-namespace', [CompletionResultType]::ParameterName, 'Namespace of these service entries')
            [CompletionResult]::new('--zookeeper-user', '--zookeeper-user', [CompletionResultType]::ParameterName, 'User of the scheme digest')
            [CompletionResult]::new('--zookeeper-password-file', '--zookeeper-password-file', [CompletionResultType]::ParameterName, 'File with his password, which is read for each connection')
            [CompletionResult]::new('--zookeeper-ca-cert-file', '--zookeeper-ca-cert-file', [CompletionResultType]::ParameterName, 'Connect to ZooKeeper with TLS, and verify it with the roots in this file, PEM')
            [CompletionResult]::new('--zookeeper-cert-file', '--zookeeper-cert-file', [CompletionResultType]::ParameterName, 'Client certificate chain for ZooKeeper, PEM')
            [CompletionResult]::new('--zookeeper-key-file', '--zookeeper-key-file', [CompletionResultType]::ParameterName, 'Its private key, PEM')
            [CompletionResult]::new('--eureka-address', '--eureka-address', [CompletionResultType]::ParameterName, 'Eureka servers whose applications become service entries: http://HOST:PORT/eureka, separated by commas')
            [CompletionResult]::new('--eureka-refresh', '--eureka-refresh', [CompletionResultType]::ParameterName, 'How often Eureka is asked for changes')
            [CompletionResult]::new('--eureka-timeout', '--eureka-timeout', [CompletionResultType]::ParameterName, 'Time limit of a request to Eureka')
            [CompletionResult]::new('--eureka-namespace', '--eureka-namespace', [CompletionResultType]::ParameterName, 'Namespace of these service entries')
            [CompletionResult]::new('--eureka-service-port', '--eureka-service-port', [CompletionResultType]::ParameterName, 'Port of their services; 0: that of the first instance')
            [CompletionResult]::new('--eureka-user', '--eureka-user', [CompletionResultType]::ParameterName, 'User of Eureka, with HTTP basic authentication')
            [CompletionResult]::new('--eureka-password-file', '--eureka-password-file', [CompletionResultType]::ParameterName, 'File with his password, which is read again when it changes')
            [CompletionResult]::new('--eureka-ca-cert-file', '--eureka-ca-cert-file', [CompletionResultType]::ParameterName, 'Roots of the certificates of Eureka, PEM; empty: those of the system')
            [CompletionResult]::new('--eureka-cert-file', '--eureka-cert-file', [CompletionResultType]::ParameterName, 'Client certificate chain for Eureka, PEM')
            [CompletionResult]::new('--eureka-key-file', '--eureka-key-file', [CompletionResultType]::ParameterName, 'Its private key, PEM')
            [CompletionResult]::new('--enable-server', '--enable-server', [CompletionResultType]::ParameterName, 'Read configuration and serve it to sinks')
            [CompletionResult]::new('--server-address', '--server-address', [CompletionResultType]::ParameterName, 'Address of sinks: tcp://HOST:PORT or unix:///PATH')
            [CompletionResult]::new('--server-max-received-message-size', '--server-max-received-message-size', [CompletionResultType]::ParameterName, 'Most bytes of a message of a sink')
            [CompletionResult]::new('--memory-limit', '--memory-limit', [CompletionResultType]::ParameterName, 'Most memory that all sinks together can make the server keep: connections, streams, requests')
            [CompletionResult]::new('--server-max-concurrent-streams', '--server-max-concurrent-streams', [CompletionResultType]::ParameterName, 'Streams of a connection; a sink needs one')
            [CompletionResult]::new('--insecure', '--insecure', [CompletionResultType]::ParameterName, 'Serve plain text to everyone')
            [CompletionResult]::new('--tls-cert-file', '--tls-cert-file', [CompletionResultType]::ParameterName, 'Certificate chain, PEM')
            [CompletionResult]::new('--tls-key-file', '--tls-key-file', [CompletionResultType]::ParameterName, 'Its private key, PEM')
            [CompletionResult]::new('--ca-cert-file', '--ca-cert-file', [CompletionResultType]::ParameterName, 'Roots of the certificates of sinks, PEM')
            [CompletionResult]::new('--access-list-file', '--access-list-file', [CompletionResultType]::ParameterName, 'Identities of sinks that may connect, YAML')
            [CompletionResult]::new('--incremental', '--incremental', [CompletionResultType]::ParameterName, 'Send differences to sinks that ask for them: by default, unless called as galley')
            [CompletionResult]::new('--legacy-mcp', '--legacy-mcp', [CompletionResultType]::ParameterName, 'Serve sinks of Istio 1.0 and 1.1 too, which call AggregatedMeshConfigService')
            [CompletionResult]::new('--sink-address', '--sink-address', [CompletionResultType]::ParameterName, 'Sink to call, HOST:PORT; may be repeated')
            [CompletionResult]::new('--sink-auth-mode', '--sink-auth-mode', [CompletionResultType]::ParameterName, 'How sinks that are called are authenticated: NONE, TLS, MUTUAL_TLS or GOOGLE')
            [CompletionResult]::new('--sink-meta', '--sink-meta', [CompletionResultType]::ParameterName, 'Headers of streams: KEY=VALUE, separated by commas')
            [CompletionResult]::new('--enable-validation', '--enable-validation', [CompletionResultType]::ParameterName, 'Serve the webhook that API servers ask about resources')
            [CompletionResult]::new('--validation-port', '--validation-port', [CompletionResultType]::ParameterName, 'Port of the webhook on all interfaces')
            [CompletionResult]::new('--validation-depth', '--validation-depth', [CompletionResultType]::ParameterName, 'What is checked of resources of the policy engine: structural, as Istio does, or deep, as `mixer validate` does')
            [CompletionResult]::new('--validation-webhook-config-file', '--validation-webhook-config-file', [CompletionResultType]::ParameterName, 'The webhook configuration that the cluster is to have, YAML; without it, the one that it has is completed')
            [CompletionResult]::new('--enable-reconcile-webhook-configuration', '--enable-reconcile-webhook-configuration', [CompletionResultType]::ParameterName, 'Keep the webhook configuration of the cluster as it should be')
            [CompletionResult]::new('--webhook-name', '--webhook-name', [CompletionResultType]::ParameterName, 'Name of the webhook configuration')
            [CompletionResult]::new('--deployment-namespace', '--deployment-namespace', [CompletionResultType]::ParameterName, 'Namespace of the deployment and the service of Galley')
            [CompletionResult]::new('--deployment-name', '--deployment-name', [CompletionResultType]::ParameterName, 'Name of the deployment')
            [CompletionResult]::new('--service-name', '--service-name', [CompletionResultType]::ParameterName, 'Name of the service')
            [CompletionResult]::new('--ctrlz-port', '--ctrlz-port', [CompletionResultType]::ParameterName, 'Port of the ControlZ introspection pages; 0 disables them')
            [CompletionResult]::new('--ctrlz-address', '--ctrlz-address', [CompletionResultType]::ParameterName, 'Address of the ControlZ introspection pages; `*` means all interfaces')
            [CompletionResult]::new('--ctrlz-readonly', '--ctrlz-readonly', [CompletionResultType]::ParameterName, 'Make ControlZ read-only')
            [CompletionResult]::new('--ctrlz-token-file', '--ctrlz-token-file', [CompletionResultType]::ParameterName, 'File with the bearer token that ControlZ requires')
            [CompletionResult]::new('--ctrlz-allowed-hosts', '--ctrlz-allowed-hosts', [CompletionResultType]::ParameterName, 'Host names that ControlZ accepts besides localhost and IP addresses')
            [CompletionResult]::new('--monitoring-port', '--monitoring-port', [CompletionResultType]::ParameterName, 'HTTP port of metrics, version and health on all interfaces; texts of errors are for clients on this host')
            [CompletionResult]::new('--monitoring-address', '--monitoring-address', [CompletionResultType]::ParameterName, 'Address of that port, instead of all interfaces; texts of errors are then for whoever reaches it. Example: 127.0.0.1:15014')
            [CompletionResult]::new('--enable-profiling', '--enable-profiling', [CompletionResultType]::ParameterName, 'Serve profiles, to clients on this host')
            [CompletionResult]::new('--pprof-port', '--pprof-port', [CompletionResultType]::ParameterName, 'HTTP port of profiles')
            [CompletionResult]::new('--metric-per-resource', '--metric-per-resource', [CompletionResultType]::ParameterName, 'Export a metric for every resource')
            [CompletionResult]::new('--liveness-probe-path', '--liveness-probe-path', [CompletionResultType]::ParameterName, 'Probe file that is updated while the process works')
            [CompletionResult]::new('--liveness-probe-interval', '--liveness-probe-interval', [CompletionResultType]::ParameterName, 'Maximum age of that file')
            [CompletionResult]::new('--readiness-probe-path', '--readiness-probe-path', [CompletionResultType]::ParameterName, 'Probe file that is updated while sinks are served')
            [CompletionResult]::new('--readiness-probe-interval', '--readiness-probe-interval', [CompletionResultType]::ParameterName, 'Maximum age of that file')
            [CompletionResult]::new('--log-target', '--log-target', [CompletionResultType]::ParameterName, 'Log output: a file, stdout or stderr; may be repeated')
            [CompletionResult]::new('--log-rotate', '--log-rotate', [CompletionResultType]::ParameterName, 'Additional rotated log file')
            [CompletionResult]::new('--log-rotate-max-size', '--log-rotate-max-size', [CompletionResultType]::ParameterName, 'Size at which the log file is rotated, in MiB, or with a unit. Example: 1GiB')
            [CompletionResult]::new('--log-rotate-max-age', '--log-rotate-max-age', [CompletionResultType]::ParameterName, 'Days to keep rotated log files; 0 means no limit')
            [CompletionResult]::new('--log-rotate-max-backups', '--log-rotate-max-backups', [CompletionResultType]::ParameterName, 'Rotated log files to keep; 0 means all')
            [CompletionResult]::new('--log-as-json', '--log-as-json', [CompletionResultType]::ParameterName, 'Write log records as JSON objects')
            [CompletionResult]::new('--log-output-level', '--log-output-level', [CompletionResultType]::ParameterName, 'Log levels: `[scope:]level,…` with the levels none, fatal, error, warn, info, debug')
            [CompletionResult]::new('--log-stacktrace-level', '--log-stacktrace-level', [CompletionResultType]::ParameterName, 'Minimum level of records with a stack trace: `[scope:]level,…`')
            [CompletionResult]::new('--log-caller', '--log-caller', [CompletionResultType]::ParameterName, 'Scopes whose records include the source location')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to color output')
            [CompletionResult]::new('--error-format', '--error-format', [CompletionResultType]::ParameterName, 'Format of error messages on standard error')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Log at level debug: servers in their log, other commands on standard error')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Log at level debug: servers in their log, other commands on standard error')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Print errors only, no results, warnings and progress: the exit status tells the result')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mixer;galley;help' {
            [CompletionResult]::new('wait', 'wait', [CompletionResultType]::ParameterValue, 'Wait until sinks have acknowledged a change')
            [CompletionResult]::new('sinks', 'sinks', [CompletionResultType]::ParameterValue, 'Show the sinks: what each has of every collection, and what it refused')
            [CompletionResult]::new('status', 'status', [CompletionResultType]::ParameterValue, 'Show sources, groups, sinks and the webhook at a glance')
            [CompletionResult]::new('snapshot', 'snapshot', [CompletionResultType]::ParameterValue, 'Show or compare what is published')
            [CompletionResult]::new('watch', 'watch', [CompletionResultType]::ParameterValue, 'Print events of sources as they happen')
            [CompletionResult]::new('server', 'server', [CompletionResultType]::ParameterValue, 'Starts Galley as a server')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'mixer;galley;help;wait' {
            break
        }
        'mixer;galley;help;sinks' {
            break
        }
        'mixer;galley;help;status' {
            break
        }
        'mixer;galley;help;snapshot' {
            [CompletionResult]::new('dump', 'dump', [CompletionResultType]::ParameterValue, 'Print what is published')
            [CompletionResult]::new('diff', 'diff', [CompletionResultType]::ParameterValue, 'Compare what is published with a dump, or with another galley. Exits with status 1 if they differ')
            break
        }
        'mixer;galley;help;snapshot;dump' {
            break
        }
        'mixer;galley;help;snapshot;diff' {
            break
        }
        'mixer;galley;help;watch' {
            break
        }
        'mixer;galley;help;server' {
            break
        }
        'mixer;galley;help;help' {
            break
        }
        'mixer;doctor' {
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Output format; default: table on a terminal, else plain')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Output format; default: table on a terminal, else plain')
            [CompletionResult]::new('--config-file', '--config-file', [CompletionResultType]::ParameterName, 'Settings file, YAML or TOML; keys are flag names')
            [CompletionResult]::new('-p', '-p', [CompletionResultType]::ParameterName, 'TCP port of the gRPC API on all interfaces; ignored if --address is set')
            [CompletionResult]::new('--port', '--port', [CompletionResultType]::ParameterName, 'TCP port of the gRPC API on all interfaces; ignored if --address is set')
            [CompletionResult]::new('--address', '--address', [CompletionResultType]::ParameterName, 'Address of the gRPC API: tcp://127.0.0.1:9091 or unix:///run/mixer.sock')
            [CompletionResult]::new('--socket-mode', '--socket-mode', [CompletionResultType]::ParameterName, 'File mode of a Unix socket, octal. Example: 0660')
            [CompletionResult]::new('--grpc-reflection', '--grpc-reflection', [CompletionResultType]::ParameterName, 'Whether to serve gRPC reflection; auto enables it if the API listens on loopback or a Unix socket only')
            [CompletionResult]::new('--monitoring-port', '--monitoring-port', [CompletionResultType]::ParameterName, 'HTTP port of metrics, version and health, on all interfaces; profiles and texts of errors are for clients on this host')
            [CompletionResult]::new('--monitoring-address', '--monitoring-address', [CompletionResultType]::ParameterName, 'Address of that port, instead of all interfaces; both are then for whoever reaches it. Example: 127.0.0.1:15014')
            [CompletionResult]::new('--metrics-port', '--metrics-port', [CompletionResultType]::ParameterName, 'HTTP port of the metrics of prometheus handlers, on all interfaces')
            [CompletionResult]::new('--metrics-address', '--metrics-address', [CompletionResultType]::ParameterName, 'Address of those metrics, instead of all interfaces. Example: 127.0.0.1:42422')
            [CompletionResult]::new('--tls-cert-file', '--tls-cert-file', [CompletionResultType]::ParameterName, 'Server certificate chain, PEM; TCP clients must then use TLS')
            [CompletionResult]::new('--tls-key-file', '--tls-key-file', [CompletionResultType]::ParameterName, 'Private key of the certificate, PEM')
            [CompletionResult]::new('--tls-client-ca-file', '--tls-client-ca-file', [CompletionResultType]::ParameterName, 'CA certificates that verify client certificates, PEM; requests a certificate from clients')
            [CompletionResult]::new('--tls-client-auth', '--tls-client-auth', [CompletionResultType]::ParameterName, 'Whether clients must present a certificate')
            [CompletionResult]::new('--tls-min-version', '--tls-min-version', [CompletionResultType]::ParameterName, 'Minimum TLS version')
            [CompletionResult]::new('--tls-allowed-peers', '--tls-allowed-peers', [CompletionResultType]::ParameterName, 'Allowed clients, by URI or DNS name in their certificate: NAME,NAME,…; a name may begin or end with `*`')
            [CompletionResult]::new('--config-store-url', '--config-store-url', [CompletionResultType]::ParameterName, 'Configuration store: a directory, fs://DIR, k8s://KUBECONFIG, mcp://HOST:PORT, mcps://HOST:PORT, mcp+listen://ADDR or embedded://sample')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'Configuration store: a directory, fs://DIR, k8s://KUBECONFIG, mcp://HOST:PORT, mcps://HOST:PORT, mcp+listen://ADDR or embedded://sample')
            [CompletionResult]::new('--config-default-namespace', '--config-default-namespace', [CompletionResultType]::ParameterName, 'Namespace of mesh-wide rules')
            [CompletionResult]::new('--default-namespace', '--default-namespace', [CompletionResultType]::ParameterName, 'Namespace of mesh-wide rules')
            [CompletionResult]::new('--config-wait-timeout', '--config-wait-timeout', [CompletionResultType]::ParameterName, 'Timeout of the initial configuration of a remote store')
            [CompletionResult]::new('--config-on-error', '--config-on-error', [CompletionResultType]::ParameterName, 'What serves when the configuration has errors: keep-last, serve-valid or refuse')
            [CompletionResult]::new('--allow-empty-config', '--allow-empty-config', [CompletionResultType]::ParameterName, 'Accept a configuration without resources, which allows every request')
            [CompletionResult]::new('--config-cache', '--config-cache', [CompletionResultType]::ParameterName, 'Directory that keeps the last good configuration for the next start')
            [CompletionResult]::new('--config-loss', '--config-loss', [CompletionResultType]::ParameterName, 'What to do when the configuration directory disappears, with --config-on-error serve-valid: keep or drop the configuration')
            [CompletionResult]::new('--config-write-status', '--config-write-status', [CompletionResultType]::ParameterName, 'Whether to write onto Kubernetes objects whether they can be used, as a condition `Accepted` of their status')
            [CompletionResult]::new('--mcp-max-message-size', '--mcp-max-message-size', [CompletionResultType]::ParameterName, 'Maximum size of a message of an MCP source in bytes, or with a unit: a collection is one message. Example: 128MiB')
            [CompletionResult]::new('--cert-file', '--cert-file', [CompletionResultType]::ParameterName, 'Client certificate for mcps:// stores, PEM')
            [CompletionResult]::new('--key-file', '--key-file', [CompletionResultType]::ParameterName, 'Private key of the client certificate, PEM')
            [CompletionResult]::new('--ca-cert-file', '--ca-cert-file', [CompletionResultType]::ParameterName, 'CA certificates that verify mcps:// stores, PEM')
            [CompletionResult]::new('--use-adapter-crds', '--use-adapter-crds', [CompletionResultType]::ParameterName, 'Whether to read adapter-specific kinds (denier, memquota, …)')
            [CompletionResult]::new('--use-template-crds', '--use-template-crds', [CompletionResultType]::ParameterName, 'Whether to read template-specific kinds (metric, quota, …)')
            [CompletionResult]::new('--concurrency', '--concurrency', [CompletionResultType]::ParameterName, 'Worker threads, each with its own event loop and connections; 0 means one per core')
            [CompletionResult]::new('--single-threaded', '--single-threaded', [CompletionResultType]::ParameterName, 'Run on a single thread')
            [CompletionResult]::new('--max-message-size', '--max-message-size', [CompletionResultType]::ParameterName, 'Maximum size of a gRPC message in bytes, or with a unit. Example: 4MiB')
            [CompletionResult]::new('--memory-limit', '--memory-limit', [CompletionResultType]::ParameterName, 'Maximum memory for everything that callers can make the server keep: requests, quotas, series, caches')
            [CompletionResult]::new('--max-concurrent-streams', '--max-concurrent-streams', [CompletionResultType]::ParameterName, 'Maximum calls in flight per connection')
            [CompletionResult]::new('--max-check-quotas', '--max-check-quotas', [CompletionResultType]::ParameterName, 'Maximum quotas of a check, and descriptors of a rate limit call of Envoy; a call with more is rejected')
            [CompletionResult]::new('--max-report-records', '--max-report-records', [CompletionResultType]::ParameterName, 'Maximum records of a report, and entries of an access log message of Envoy; a message with more is rejected')
            [CompletionResult]::new('--receive-timeout', '--receive-timeout', [CompletionResultType]::ParameterName, 'Time limit for receiving a message: a call whose message is not complete by then fails. Example: 10s')
            [CompletionResult]::new('--max-connection-age', '--max-connection-age', [CompletionResultType]::ParameterName, 'Age at which a connection gets a GOAWAY, so that clients rebalance over the servers; 0s means never. Example: 30m')
            [CompletionResult]::new('--api-worker-pool-size', '--api-worker-pool-size', [CompletionResultType]::ParameterName, 'Maximum asynchronous API calls in flight; synchronous calls bypass the pool')
            [CompletionResult]::new('--api-worker-pool-floor', '--api-worker-pool-floor', [CompletionResultType]::ParameterName, 'Adapt the pool size to the load: initial and minimum size; 0 keeps the size fixed')
            [CompletionResult]::new('--api-queue-length', '--api-queue-length', [CompletionResultType]::ParameterName, 'Maximum API calls in the queue of the pool; further calls are rejected')
            [CompletionResult]::new('--adapter-worker-pool-size', '--adapter-worker-pool-size', [CompletionResultType]::ParameterName, 'Maximum asynchronous calls in flight per handler')
            [CompletionResult]::new('--adapter-worker-pool-floor', '--adapter-worker-pool-floor', [CompletionResultType]::ParameterName, 'Adapt the pool size to the load: initial and minimum size; 0 keeps the size fixed')
            [CompletionResult]::new('--adapter-queue-length', '--adapter-queue-length', [CompletionResultType]::ParameterName, 'Maximum calls in the queue of a handler; further calls fail')
            [CompletionResult]::new('--num-check-cache-entries', '--num-check-cache-entries', [CompletionResultType]::ParameterName, 'Maximum entries of the check cache; 0 disables the cache')
            [CompletionResult]::new('--liveness-probe-path', '--liveness-probe-path', [CompletionResultType]::ParameterName, 'Probe file that is updated while the server is alive')
            [CompletionResult]::new('--liveness-probe-interval', '--liveness-probe-interval', [CompletionResultType]::ParameterName, 'Maximum age of the probe file; it is updated twice per interval. Example: 2s')
            [CompletionResult]::new('--readiness-probe-path', '--readiness-probe-path', [CompletionResultType]::ParameterName, 'Probe file that is updated while the server is ready')
            [CompletionResult]::new('--readiness-probe-interval', '--readiness-probe-interval', [CompletionResultType]::ParameterName, 'Maximum age of the probe file; it is updated twice per interval. Example: 2s')
            [CompletionResult]::new('--pid-file', '--pid-file', [CompletionResultType]::ParameterName, 'PID file. Example: /run/mixer.pid')
            [CompletionResult]::new('--drain-delay', '--drain-delay', [CompletionResultType]::ParameterName, 'Delay between "not ready" and the end of accepting calls at shutdown')
            [CompletionResult]::new('--shutdown-timeout', '--shutdown-timeout', [CompletionResultType]::ParameterName, 'Timeout of the whole shutdown; remaining calls are aborted')
            [CompletionResult]::new('--envoy-bridge', '--envoy-bridge', [CompletionResultType]::ParameterName, 'Whether to serve Envoy on the API port: ext_authz, access log and rate limit services')
            [CompletionResult]::new('--envoy-http-address', '--envoy-http-address', [CompletionResultType]::ParameterName, 'Address of HTTP ext_authz. Example: 127.0.0.1:9191')
            [CompletionResult]::new('--envoy-ratelimit-http-address', '--envoy-ratelimit-http-address', [CompletionResultType]::ParameterName, 'Address of rate limits over HTTP: POST /json, GET /rlconfig, GET /healthcheck. Example: 127.0.0.1:9192')
            [CompletionResult]::new('--ctrlz-port', '--ctrlz-port', [CompletionResultType]::ParameterName, 'Port of the ControlZ introspection pages; 0 disables them')
            [CompletionResult]::new('--ctrlz-address', '--ctrlz-address', [CompletionResultType]::ParameterName, 'Address of the ControlZ introspection pages; `*` means all interfaces')
            [CompletionResult]::new('--ctrlz-readonly', '--ctrlz-readonly', [CompletionResultType]::ParameterName, 'Make ControlZ read-only')
            [CompletionResult]::new('--ctrlz-token-file', '--ctrlz-token-file', [CompletionResultType]::ParameterName, 'File with the bearer token that ControlZ requires: `Authorization: Bearer TOKEN`, or a login form in browsers')
            [CompletionResult]::new('--ctrlz-allowed-hosts', '--ctrlz-allowed-hosts', [CompletionResultType]::ParameterName, 'Host names that ControlZ accepts besides localhost and IP addresses. Example: ops.example.com,mixer')
            [CompletionResult]::new('--profile', '--profile', [CompletionResultType]::ParameterName, 'Whether to serve /debug/pprof on the monitoring port')
            [CompletionResult]::new('--legacy-metrics', '--legacy-metrics', [CompletionResultType]::ParameterName, 'Also expose metrics under the names of Mixer 1.0, for existing dashboards')
            [CompletionResult]::new('--heap-profile-rate', '--heap-profile-rate', [CompletionResultType]::ParameterName, 'Mean bytes between sampled allocations for /debug/pprof/heap; 0 samples only while that URL is requested')
            [CompletionResult]::new('--load-shedding-mode', '--load-shedding-mode', [CompletionResultType]::ParameterName, 'Action on calls over the limits: disabled, logonly or enforce')
            [CompletionResult]::new('--average-latency-threshold', '--average-latency-threshold', [CompletionResultType]::ParameterName, 'Maximum mean latency; 0s means no limit')
            [CompletionResult]::new('--latency-samples-per-second', '--latency-samples-per-second', [CompletionResultType]::ParameterName, 'Maximum latency samples per second')
            [CompletionResult]::new('--latency-sample-half-life', '--latency-sample-half-life', [CompletionResultType]::ParameterName, 'Half-life of a latency sample')
            [CompletionResult]::new('--max-requests-per-second', '--max-requests-per-second', [CompletionResultType]::ParameterName, 'Maximum calls per second; a Report counts as many calls as it has attribute sets; 0 means no limit')
            [CompletionResult]::new('--burst-size', '--burst-size', [CompletionResultType]::ParameterName, 'Burst size of the rate limit; without it the calls of a second, or 0 if called as mixs')
            [CompletionResult]::new('--load-shedding-check-reserve', '--load-shedding-check-reserve', [CompletionResultType]::ParameterName, 'Fraction of the limits above that is reserved for checks: reports are rejected earlier. From 0 to 1')
            [CompletionResult]::new('--load-shedding-fair', '--load-shedding-fair', [CompletionResultType]::ParameterName, 'Fair sharing: clients with more than the mean load are rejected first')
            [CompletionResult]::new('--log-target', '--log-target', [CompletionResultType]::ParameterName, 'Log output: a file, stdout or stderr; may be repeated')
            [CompletionResult]::new('--log-rotate', '--log-rotate', [CompletionResultType]::ParameterName, 'Additional rotated log file')
            [CompletionResult]::new('--log-rotate-max-size', '--log-rotate-max-size', [CompletionResultType]::ParameterName, 'Size at which the log file is rotated, in MiB, or with a unit. Example: 1GiB')
            [CompletionResult]::new('--log-rotate-max-age', '--log-rotate-max-age', [CompletionResultType]::ParameterName, 'Days to keep rotated log files; 0 means no limit')
            [CompletionResult]::new('--log-rotate-max-backups', '--log-rotate-max-backups', [CompletionResultType]::ParameterName, 'Rotated log files to keep; 0 means all')
            [CompletionResult]::new('--log-as-json', '--log-as-json', [CompletionResultType]::ParameterName, 'Write log records as JSON objects')
            [CompletionResult]::new('--log-output-level', '--log-output-level', [CompletionResultType]::ParameterName, 'Log levels: `[scope:]level,…` with the levels none, fatal, error, warn, info, debug')
            [CompletionResult]::new('--log-stacktrace-level', '--log-stacktrace-level', [CompletionResultType]::ParameterName, 'Minimum level of records with a stack trace: `[scope:]level,…`')
            [CompletionResult]::new('--log-caller', '--log-caller', [CompletionResultType]::ParameterName, 'Scopes whose records include the source location')
            [CompletionResult]::new('--trace-zipkin-url', '--trace-zipkin-url', [CompletionResultType]::ParameterName, 'URL of a Zipkin collector. Example: http://zipkin:9411/api/v1/spans')
            [CompletionResult]::new('--trace-jaeger-url', '--trace-jaeger-url', [CompletionResultType]::ParameterName, 'URL of a Jaeger collector. Example: http://jaeger:14268/api/traces?format=jaeger.thrift')
            [CompletionResult]::new('--trace-otlp-url', '--trace-otlp-url', [CompletionResultType]::ParameterName, 'URL of an OpenTelemetry collector (OTLP over HTTP). Example: http://collector:4318/v1/traces')
            [CompletionResult]::new('--trace-log-spans', '--trace-log-spans', [CompletionResultType]::ParameterName, 'Write a log record for every span')
            [CompletionResult]::new('--trace-sampling-rate', '--trace-sampling-rate', [CompletionResultType]::ParameterName, 'Fraction of new traces that are sampled, from 0 to 1')
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
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to color output')
            [CompletionResult]::new('--error-format', '--error-format', [CompletionResultType]::ParameterName, 'Format of error messages on standard error')
            [CompletionResult]::new('--print-config', '--print-config', [CompletionResultType]::ParameterName, 'Print all settings with their origin, then exit')
            [CompletionResult]::new('--dry-run', '--dry-run', [CompletionResultType]::ParameterName, 'Run the start-up sequence, print what would be served, then exit')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Log at level debug: servers in their log, other commands on standard error')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Log at level debug: servers in their log, other commands on standard error')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Print errors only, no results, warnings and progress: the exit status tells the result')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mixer;help' {
            [CompletionResult]::new('init', 'init', [CompletionResultType]::ParameterValue, 'Write a commented policy to begin with')
            [CompletionResult]::new('fmt', 'fmt', [CompletionResultType]::ParameterValue, 'Bring configuration files into their layout')
            [CompletionResult]::new('server', 'server', [CompletionResultType]::ParameterValue, 'Start the server')
            [CompletionResult]::new('check', 'check', [CompletionResultType]::ParameterValue, 'Check a request against a server or a configuration')
            [CompletionResult]::new('report', 'report', [CompletionResultType]::ParameterValue, 'Report a request to a server or a configuration')
            [CompletionResult]::new('probe', 'probe', [CompletionResultType]::ParameterValue, 'Check whether a server is alive or ready')
            [CompletionResult]::new('validate', 'validate', [CompletionResultType]::ParameterValue, 'Validate a configuration')
            [CompletionResult]::new('eval', 'eval', [CompletionResultType]::ParameterValue, 'Evaluate an expression over given attributes')
            [CompletionResult]::new('explain-code', 'explain-code', [CompletionResultType]::ParameterValue, 'Say what a code of a diagnostic means, and what to do')
            [CompletionResult]::new('test', 'test', [CompletionResultType]::ParameterValue, 'Run policy tests against a configuration, without a server')
            [CompletionResult]::new('diff', 'diff', [CompletionResultType]::ParameterValue, 'Show which recorded decisions a configuration change alters, and why')
            [CompletionResult]::new('snapshot', 'snapshot', [CompletionResultType]::ParameterValue, 'Show the compiled configuration')
            [CompletionResult]::new('routes', 'routes', [CompletionResultType]::ParameterValue, 'Show which requests reach which handlers')
            [CompletionResult]::new('proxy', 'proxy', [CompletionResultType]::ParameterValue, 'Forward traffic as an Envoy bootstrap says')
            [CompletionResult]::new('adapter', 'adapter', [CompletionResultType]::ParameterValue, 'Start an adapter of your own, out of process')
            [CompletionResult]::new('version', 'version', [CompletionResultType]::ParameterValue, 'Print program version and build information')
            [CompletionResult]::new('crd', 'crd', [CompletionResultType]::ParameterValue, 'Print the Kubernetes custom resource definitions')
            [CompletionResult]::new('completions', 'completions', [CompletionResultType]::ParameterValue, 'Print a completion script for a shell')
            [CompletionResult]::new('man', 'man', [CompletionResultType]::ParameterValue, 'Print or write man pages')
            [CompletionResult]::new('legacy', 'legacy', [CompletionResultType]::ParameterValue, 'Behave like mixs, mixc or galley of Istio')
            [CompletionResult]::new('galley', 'galley', [CompletionResultType]::ParameterValue, 'Run and inspect the configuration plane')
            [CompletionResult]::new('doctor', 'doctor', [CompletionResultType]::ParameterValue, 'Find problems that would prevent a server from starting or running')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'mixer;help;init' {
            break
        }
        'mixer;help;fmt' {
            break
        }
        'mixer;help;server' {
            break
        }
        'mixer;help;check' {
            break
        }
        'mixer;help;report' {
            break
        }
        'mixer;help;probe' {
            break
        }
        'mixer;help;validate' {
            break
        }
        'mixer;help;eval' {
            break
        }
        'mixer;help;explain-code' {
            break
        }
        'mixer;help;test' {
            break
        }
        'mixer;help;diff' {
            break
        }
        'mixer;help;snapshot' {
            [CompletionResult]::new('dump', 'dump', [CompletionResultType]::ParameterValue, 'Print a snapshot: attributes, handlers, instances, rules, adapters, templates')
            break
        }
        'mixer;help;snapshot;dump' {
            break
        }
        'mixer;help;routes' {
            [CompletionResult]::new('show', 'show', [CompletionResultType]::ParameterValue, 'Print the routing table: variety, namespace, handler, condition, instances')
            break
        }
        'mixer;help;routes;show' {
            break
        }
        'mixer;help;proxy' {
            break
        }
        'mixer;help;adapter' {
            [CompletionResult]::new('new', 'new', [CompletionResultType]::ParameterValue, 'Write a new adapter in Rust: a crate with a gRPC server, and its resources')
            [CompletionResult]::new('resources', 'resources', [CompletionResultType]::ParameterValue, 'Print the resources of an adapter: its templates and the adapter itself')
            break
        }
        'mixer;help;adapter;new' {
            break
        }
        'mixer;help;adapter;resources' {
            break
        }
        'mixer;help;version' {
            break
        }
        'mixer;help;crd' {
            [CompletionResult]::new('all', 'all', [CompletionResultType]::ParameterValue, 'List all kinds: core, adapters, instances')
            [CompletionResult]::new('adapter', 'adapter', [CompletionResultType]::ParameterValue, 'List adapter-specific kinds')
            [CompletionResult]::new('instance', 'instance', [CompletionResultType]::ParameterValue, 'List template-specific kinds')
            break
        }
        'mixer;help;crd;all' {
            break
        }
        'mixer;help;crd;adapter' {
            break
        }
        'mixer;help;crd;instance' {
            break
        }
        'mixer;help;completions' {
            break
        }
        'mixer;help;man' {
            break
        }
        'mixer;help;legacy' {
            break
        }
        'mixer;help;galley' {
            [CompletionResult]::new('wait', 'wait', [CompletionResultType]::ParameterValue, 'Wait until sinks have acknowledged a change')
            [CompletionResult]::new('sinks', 'sinks', [CompletionResultType]::ParameterValue, 'Show the sinks: what each has of every collection, and what it refused')
            [CompletionResult]::new('status', 'status', [CompletionResultType]::ParameterValue, 'Show sources, groups, sinks and the webhook at a glance')
            [CompletionResult]::new('snapshot', 'snapshot', [CompletionResultType]::ParameterValue, 'Show or compare what is published')
            [CompletionResult]::new('watch', 'watch', [CompletionResultType]::ParameterValue, 'Print events of sources as they happen')
            [CompletionResult]::new('server', 'server', [CompletionResultType]::ParameterValue, 'Starts Galley as a server')
            break
        }
        'mixer;help;galley;wait' {
            break
        }
        'mixer;help;galley;sinks' {
            break
        }
        'mixer;help;galley;status' {
            break
        }
        'mixer;help;galley;snapshot' {
            [CompletionResult]::new('dump', 'dump', [CompletionResultType]::ParameterValue, 'Print what is published')
            [CompletionResult]::new('diff', 'diff', [CompletionResultType]::ParameterValue, 'Compare what is published with a dump, or with another galley. Exits with status 1 if they differ')
            break
        }
        'mixer;help;galley;snapshot;dump' {
            break
        }
        'mixer;help;galley;snapshot;diff' {
            break
        }
        'mixer;help;galley;watch' {
            break
        }
        'mixer;help;galley;server' {
            break
        }
        'mixer;help;doctor' {
            break
        }
        'mixer;help;help' {
            break
        }
    })

    $completions.Where{ $_.CompletionText -like "$wordToComplete*" } |
        Sort-Object -Property ListItemText
}
