
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
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('server', 'server', [CompletionResultType]::ParameterValue, 'Start the server')
            [CompletionResult]::new('probe', 'probe', [CompletionResultType]::ParameterValue, 'Tell whether a server is alive or ready')
            [CompletionResult]::new('version', 'version', [CompletionResultType]::ParameterValue, 'Print versions of program and build')
            [CompletionResult]::new('crd', 'crd', [CompletionResultType]::ParameterValue, 'Print the custom resource definitions of all kinds')
            [CompletionResult]::new('collateral', 'collateral', [CompletionResultType]::ParameterValue, 'Write documentation and completion files into a directory')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'mixs;server' {
            [CompletionResult]::new('--config-file', '--config-file', [CompletionResultType]::ParameterName, 'File with settings, YAML or TOML; names are those of the flags')
            [CompletionResult]::new('-p', '-p', [CompletionResultType]::ParameterName, 'TCP port of the gRPC API on all interfaces; used if --address is empty')
            [CompletionResult]::new('--port', '--port', [CompletionResultType]::ParameterName, 'TCP port of the gRPC API on all interfaces; used if --address is empty')
            [CompletionResult]::new('--address', '--address', [CompletionResultType]::ParameterName, 'Address of the gRPC API: tcp://127.0.0.1:9091 or unix:///run/mixer.sock')
            [CompletionResult]::new('--socket-mode', '--socket-mode', [CompletionResultType]::ParameterName, 'Permissions of the file of a unix socket, octal. Example: 0660')
            [CompletionResult]::new('--grpc-reflection', '--grpc-reflection', [CompletionResultType]::ParameterName, 'Whether generic gRPC clients are told which services there are: auto means if only this machine can reach the API')
            [CompletionResult]::new('--monitoringPort', '--monitoringPort', [CompletionResultType]::ParameterName, 'HTTP port of metrics, version, health and profiles, on all interfaces')
            [CompletionResult]::new('--metrics-port', '--metrics-port', [CompletionResultType]::ParameterName, 'HTTP port of the metrics of all prometheus handlers, on all interfaces')
            [CompletionResult]::new('--tls-cert-file', '--tls-cert-file', [CompletionResultType]::ParameterName, 'Certificate of the server with its chain, PEM; callers on TCP must then speak TLS')
            [CompletionResult]::new('--tls-key-file', '--tls-key-file', [CompletionResultType]::ParameterName, 'Key of that certificate, PEM')
            [CompletionResult]::new('--tls-client-ca-file', '--tls-client-ca-file', [CompletionResultType]::ParameterName, 'Roots that certificates of callers are checked against, PEM; callers are asked for one then')
            [CompletionResult]::new('--tls-client-auth', '--tls-client-auth', [CompletionResultType]::ParameterName, 'Whether callers must show a certificate')
            [CompletionResult]::new('--tls-min-version', '--tls-min-version', [CompletionResultType]::ParameterName, 'Oldest version of TLS that is spoken')
            [CompletionResult]::new('--tls-allowed-peers', '--tls-allowed-peers', [CompletionResultType]::ParameterName, 'Callers that are let in, by a URI or DNS name in their certificate: NAME,NAME,…; a name may begin or end with `*`')
            [CompletionResult]::new('--configStoreURL', '--configStoreURL', [CompletionResultType]::ParameterName, 'Store of the configuration: fs://DIR, k8s://KUBECONFIG, mcp://HOST:PORT, mcps://HOST:PORT or embedded://sample')
            [CompletionResult]::new('--configDefaultNamespace', '--configDefaultNamespace', [CompletionResultType]::ParameterName, 'Namespace of mesh-wide rules')
            [CompletionResult]::new('--configWaitTimeout', '--configWaitTimeout', [CompletionResultType]::ParameterName, 'How long to wait for the first configuration of a remote store')
            [CompletionResult]::new('--config-loss', '--config-loss', [CompletionResultType]::ParameterName, 'What becomes of the configuration when its directory disappears: keep or drop')
            [CompletionResult]::new('--certFile', '--certFile', [CompletionResultType]::ParameterName, 'Certificate for mcps:// stores')
            [CompletionResult]::new('--keyFile', '--keyFile', [CompletionResultType]::ParameterName, 'Key of that certificate')
            [CompletionResult]::new('--caCertFile', '--caCertFile', [CompletionResultType]::ParameterName, 'Roots that mcps:// stores are checked against')
            [CompletionResult]::new('--useAdapterCRDs', '--useAdapterCRDs', [CompletionResultType]::ParameterName, 'Whether kinds that are named like adapters are read')
            [CompletionResult]::new('--useTemplateCRDs', '--useTemplateCRDs', [CompletionResultType]::ParameterName, 'Whether kinds that are named like templates are read')
            [CompletionResult]::new('--concurrency', '--concurrency', [CompletionResultType]::ParameterName, 'Worker threads, each with its own event loop and connections; 0 means one a core')
            [CompletionResult]::new('--singleThreaded', '--singleThreaded', [CompletionResultType]::ParameterName, 'Run everything on one thread')
            [CompletionResult]::new('--maxMessageSize', '--maxMessageSize', [CompletionResultType]::ParameterName, 'Largest gRPC message in bytes; units are understood. Example: 4MiB')
            [CompletionResult]::new('--maxConcurrentStreams', '--maxConcurrentStreams', [CompletionResultType]::ParameterName, 'Most calls in flight on one connection')
            [CompletionResult]::new('--max-connection-age', '--max-connection-age', [CompletionResultType]::ParameterName, 'Age at which callers are asked to make a new connection, so that they spread over the servers there are; 0s means never. Example: 30m')
            [CompletionResult]::new('--apiWorkerPoolSize', '--apiWorkerPoolSize', [CompletionResultType]::ParameterName, 'Most API calls in flight that wait for something')
            [CompletionResult]::new('--api-worker-pool-floor', '--api-worker-pool-floor', [CompletionResultType]::ParameterName, 'Let that bound follow the load: it begins here and does not fall below; 0 keeps it fixed')
            [CompletionResult]::new('--api-queue-length', '--api-queue-length', [CompletionResultType]::ParameterName, 'Most API calls that wait for their turn; beyond that they are refused')
            [CompletionResult]::new('--adapterWorkerPoolSize', '--adapterWorkerPoolSize', [CompletionResultType]::ParameterName, 'Most calls in flight of one handler that waits for the network')
            [CompletionResult]::new('--adapter-worker-pool-floor', '--adapter-worker-pool-floor', [CompletionResultType]::ParameterName, 'Let that bound follow the load: it begins here and does not fall below; 0 keeps it fixed')
            [CompletionResult]::new('--adapter-queue-length', '--adapter-queue-length', [CompletionResultType]::ParameterName, 'Most calls that wait for their turn with one handler; beyond that they fail')
            [CompletionResult]::new('--numCheckCacheEntries', '--numCheckCacheEntries', [CompletionResultType]::ParameterName, 'Turns the check cache on and bounds its entries; 0 turns it off')
            [CompletionResult]::new('--livenessProbePath', '--livenessProbePath', [CompletionResultType]::ParameterName, 'File that is kept fresh while the server is alive')
            [CompletionResult]::new('--livenessProbeInterval', '--livenessProbeInterval', [CompletionResultType]::ParameterName, 'How old that file may get; it is refreshed twice as often. Example: 2s')
            [CompletionResult]::new('--readinessProbePath', '--readinessProbePath', [CompletionResultType]::ParameterName, 'File that is kept fresh while the server is ready')
            [CompletionResult]::new('--readinessProbeInterval', '--readinessProbeInterval', [CompletionResultType]::ParameterName, 'How old that file may get; it is refreshed twice as often. Example: 2s')
            [CompletionResult]::new('--pid-file', '--pid-file', [CompletionResultType]::ParameterName, 'File that holds the number of the process while it runs. Example: /run/mixer.pid')
            [CompletionResult]::new('--drain-delay', '--drain-delay', [CompletionResultType]::ParameterName, 'Pause between "not ready" and the end of accepting calls, at shutdown')
            [CompletionResult]::new('--shutdown-timeout', '--shutdown-timeout', [CompletionResultType]::ParameterName, 'Limit of the whole shutdown; what is left then is cut off')
            [CompletionResult]::new('--envoy-bridge', '--envoy-bridge', [CompletionResultType]::ParameterName, 'Whether Envoy is answered on the port of the API: authorization, access logs and rate limits')
            [CompletionResult]::new('--envoy-http-address', '--envoy-http-address', [CompletionResultType]::ParameterName, 'Address of authorization over HTTP, and of rate limits as JSON. Example: 127.0.0.1:9191')
            [CompletionResult]::new('--ctrlz_port', '--ctrlz_port', [CompletionResultType]::ParameterName, 'Port of the ControlZ introspection pages; 0 turns them off')
            [CompletionResult]::new('--ctrlz_address', '--ctrlz_address', [CompletionResultType]::ParameterName, 'Address of the ControlZ introspection pages; `*` means all interfaces')
            [CompletionResult]::new('--ctrlz_readonly', '--ctrlz_readonly', [CompletionResultType]::ParameterName, 'Whether nothing can be changed over ControlZ')
            [CompletionResult]::new('--ctrlz_token_file', '--ctrlz_token_file', [CompletionResultType]::ParameterName, 'File with a token that callers of ControlZ must know: `Authorization: Bearer TOKEN`, or the form that browsers get')
            [CompletionResult]::new('--ctrlz_allowed_hosts', '--ctrlz_allowed_hosts', [CompletionResultType]::ParameterName, 'Names under which ControlZ may be called, beside localhost and addresses. Example: ops.example.com,mixer')
            [CompletionResult]::new('--profile', '--profile', [CompletionResultType]::ParameterName, 'Whether profiles are served below /debug/pprof of the monitoring port')
            [CompletionResult]::new('--legacy-metrics', '--legacy-metrics', [CompletionResultType]::ParameterName, 'Show metrics under the names of Mixer 1.0 as well, for dashboards of that time')
            [CompletionResult]::new('--heap-profile-rate', '--heap-profile-rate', [CompletionResultType]::ParameterName, 'Bytes of allocations of which one is noted, with its stack, for /debug/pprof/heap; 0 notes them only while that is asked for')
            [CompletionResult]::new('--loadsheddingMode', '--loadsheddingMode', [CompletionResultType]::ParameterName, 'What happens to calls over the limits: disabled, logonly or enforce')
            [CompletionResult]::new('--averageLatencyThreshold', '--averageLatencyThreshold', [CompletionResultType]::ParameterName, 'Highest mean latency; 0s means no such limit')
            [CompletionResult]::new('--latencySamplesPerSecond', '--latencySamplesPerSecond', [CompletionResultType]::ParameterName, 'Most latencies measured per second')
            [CompletionResult]::new('--latencySampleHalflife', '--latencySampleHalflife', [CompletionResultType]::ParameterName, 'After how long a measured latency counts half')
            [CompletionResult]::new('--maxRequestsPerSecond', '--maxRequestsPerSecond', [CompletionResultType]::ParameterName, 'Most calls per second; a Report counts its attribute sets; 0 means no such limit')
            [CompletionResult]::new('--burstSize', '--burstSize', [CompletionResultType]::ParameterName, 'Calls let through beyond that rate')
            [CompletionResult]::new('--load-shedding-check-reserve', '--load-shedding-check-reserve', [CompletionResultType]::ParameterName, 'Share of the limits above that is kept for checks: reports are refused that much earlier. From 0 to 1')
            [CompletionResult]::new('--load-shedding-fair', '--load-shedding-fair', [CompletionResultType]::ParameterName, 'Make callers share what there is: those who use more than the mean are refused first')
            [CompletionResult]::new('--log_target', '--log_target', [CompletionResultType]::ParameterName, 'Where log records go: a file, stdout or stderr; repeat for several')
            [CompletionResult]::new('--log_rotate', '--log_rotate', [CompletionResultType]::ParameterName, 'An additional file, rotated')
            [CompletionResult]::new('--log_rotate_max_size', '--log_rotate_max_size', [CompletionResultType]::ParameterName, 'Size of that file before it is rotated, in MiB')
            [CompletionResult]::new('--log_rotate_max_age', '--log_rotate_max_age', [CompletionResultType]::ParameterName, 'Days that rotated files are kept; 0 means for ever')
            [CompletionResult]::new('--log_rotate_max_backups', '--log_rotate_max_backups', [CompletionResultType]::ParameterName, 'Rotated files that are kept; 0 means all')
            [CompletionResult]::new('--log_as_json', '--log_as_json', [CompletionResultType]::ParameterName, 'Write log records as JSON objects')
            [CompletionResult]::new('--log_output_level', '--log_output_level', [CompletionResultType]::ParameterName, 'What is logged: `[scope:]level,…` with the levels none, fatal, error, warn, info, debug')
            [CompletionResult]::new('--log_stacktrace_level', '--log_stacktrace_level', [CompletionResultType]::ParameterName, 'From which level on records carry a stack: `[scope:]level,…`')
            [CompletionResult]::new('--log_caller', '--log_caller', [CompletionResultType]::ParameterName, 'Scopes whose records name their place in the source')
            [CompletionResult]::new('--trace_zipkin_url', '--trace_zipkin_url', [CompletionResultType]::ParameterName, 'URL of a Zipkin collector. Example: http://zipkin:9411/api/v1/spans')
            [CompletionResult]::new('--trace_jaeger_url', '--trace_jaeger_url', [CompletionResultType]::ParameterName, 'URL of a Jaeger collector. Example: http://jaeger:14268/api/traces?format=jaeger.thrift')
            [CompletionResult]::new('--trace_otlp_url', '--trace_otlp_url', [CompletionResultType]::ParameterName, 'URL of an OpenTelemetry collector (OTLP over HTTP). Example: http://collector:4318/v1/traces')
            [CompletionResult]::new('--trace_log_spans', '--trace_log_spans', [CompletionResultType]::ParameterName, 'Write a log record for every span')
            [CompletionResult]::new('--trace_sampling_rate', '--trace_sampling_rate', [CompletionResultType]::ParameterName, 'Share of new traces that are kept, from 0 to 1')
            [CompletionResult]::new('--decision-log', '--decision-log', [CompletionResultType]::ParameterName, 'File that gets a JSON line for every check that is decided: attributes, answer, rules, handlers, time taken')
            [CompletionResult]::new('--decision-log-sampling', '--decision-log-sampling', [CompletionResultType]::ParameterName, 'Share of the checks that are logged, from 0 to 1')
            [CompletionResult]::new('--decision-log-select', '--decision-log-select', [CompletionResultType]::ParameterName, 'Which of them are written')
            [CompletionResult]::new('--decision-log-max-size', '--decision-log-max-size', [CompletionResultType]::ParameterName, 'Size of the file before it is rotated. Example: 100MiB')
            [CompletionResult]::new('--decision-log-max-backups', '--decision-log-max-backups', [CompletionResultType]::ParameterName, 'Rotated files that are kept; 0 means all')
            [CompletionResult]::new('--decision-queue', '--decision-queue', [CompletionResultType]::ParameterName, 'Decisions that may wait to be written; more are counted as lost')
            [CompletionResult]::new('--decision-mask', '--decision-mask', [CompletionResultType]::ParameterName, 'Attributes and keys of maps whose values are written as `***`, in log and recording: a name, or a name with a key in square brackets; comma-separated')
            [CompletionResult]::new('--record-requests', '--record-requests', [CompletionResultType]::ParameterName, 'File that gets the first calls, with attributes and answers, for `mixer diff`')
            [CompletionResult]::new('--record-max-requests', '--record-max-requests', [CompletionResultType]::ParameterName, 'Most calls in that file')
            [CompletionResult]::new('--record-max-size', '--record-max-size', [CompletionResultType]::ParameterName, 'Most bytes in that file. Example: 64MiB')
            [CompletionResult]::new('--print-config', '--print-config', [CompletionResultType]::ParameterName, 'Print all settings and where each comes from, then exit')
            [CompletionResult]::new('--dry-run', '--dry-run', [CompletionResultType]::ParameterName, 'Go through the start, say what would be served, then exit')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mixs;probe' {
            [CompletionResult]::new('--probe-path', '--probe-path', [CompletionResultType]::ParameterName, 'File to inspect')
            [CompletionResult]::new('--interval', '--interval', [CompletionResultType]::ParameterName, 'How old the file may be, and how often --watch looks')
            [CompletionResult]::new('--grpc', '--grpc', [CompletionResultType]::ParameterName, 'Server to ask by its gRPC health service: host:port or unix:///path; may be repeated')
            [CompletionResult]::new('--service', '--service', [CompletionResultType]::ParameterName, 'What to ask that service for: empty or istio.mixer.v1.Mixer for ready, `liveness` for alive')
            [CompletionResult]::new('--http', '--http', [CompletionResultType]::ParameterName, 'URL that must answer with a status of success; may be repeated. Example: http://localhost:15014/readyz')
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'Limit of one question over the network')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'How the result is written')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'How the result is written')
            [CompletionResult]::new('--ca-file', '--ca-file', [CompletionResultType]::ParameterName, 'Roots that the server is checked against, PEM; without it those of the system')
            [CompletionResult]::new('--cert-file', '--cert-file', [CompletionResultType]::ParameterName, 'Certificate to show to the server, with its chain, PEM')
            [CompletionResult]::new('--key-file', '--key-file', [CompletionResultType]::ParameterName, 'Key of that certificate, PEM')
            [CompletionResult]::new('--server-name', '--server-name', [CompletionResultType]::ParameterName, 'Name that the certificate of the server must carry; without it the host that is called')
            [CompletionResult]::new('--log_target', '--log_target', [CompletionResultType]::ParameterName, 'Where log records go: a file, stdout or stderr; repeat for several')
            [CompletionResult]::new('--log_rotate', '--log_rotate', [CompletionResultType]::ParameterName, 'An additional file, rotated')
            [CompletionResult]::new('--log_rotate_max_size', '--log_rotate_max_size', [CompletionResultType]::ParameterName, 'Size of that file before it is rotated, in MiB')
            [CompletionResult]::new('--log_rotate_max_age', '--log_rotate_max_age', [CompletionResultType]::ParameterName, 'Days that rotated files are kept; 0 means for ever')
            [CompletionResult]::new('--log_rotate_max_backups', '--log_rotate_max_backups', [CompletionResultType]::ParameterName, 'Rotated files that are kept; 0 means all')
            [CompletionResult]::new('--log_as_json', '--log_as_json', [CompletionResultType]::ParameterName, 'Write log records as JSON objects')
            [CompletionResult]::new('--log_output_level', '--log_output_level', [CompletionResultType]::ParameterName, 'What is logged: `[scope:]level,…` with the levels none, fatal, error, warn, info, debug')
            [CompletionResult]::new('--log_stacktrace_level', '--log_stacktrace_level', [CompletionResultType]::ParameterName, 'From which level on records carry a stack: `[scope:]level,…`')
            [CompletionResult]::new('--log_caller', '--log_caller', [CompletionResultType]::ParameterName, 'Scopes whose records name their place in the source')
            [CompletionResult]::new('--watch', '--watch', [CompletionResultType]::ParameterName, 'Keep looking and print every change, until SIGINT')
            [CompletionResult]::new('--tls', '--tls', [CompletionResultType]::ParameterName, 'Speak TLS with the server; any other flag of this group means this one as well')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mixs;version' {
            [CompletionResult]::new('-s', '-s', [CompletionResultType]::ParameterName, 'Print the version alone')
            [CompletionResult]::new('--short', '--short', [CompletionResultType]::ParameterName, 'Print the version alone')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'One of ''yaml'' or ''json''; wins over --short')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'One of ''yaml'' or ''json''; wins over --short')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mixs;crd' {
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('all', 'all', [CompletionResultType]::ParameterValue, 'List all kinds: core, adapters, instances')
            [CompletionResult]::new('adapter', 'adapter', [CompletionResultType]::ParameterValue, 'List the kinds that are named like adapters')
            [CompletionResult]::new('instance', 'instance', [CompletionResultType]::ParameterValue, 'List the kinds that are named like templates')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'mixs;crd;all' {
            [CompletionResult]::new('--api-version', '--api-version', [CompletionResultType]::ParameterName, 'Version of the definitions: v1beta1 or v1')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mixs;crd;adapter' {
            [CompletionResult]::new('--api-version', '--api-version', [CompletionResultType]::ParameterName, 'Version of the definitions: v1beta1 or v1')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mixs;crd;instance' {
            [CompletionResult]::new('--api-version', '--api-version', [CompletionResultType]::ParameterName, 'Version of the definitions: v1beta1 or v1')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mixs;crd;help' {
            [CompletionResult]::new('all', 'all', [CompletionResultType]::ParameterValue, 'List all kinds: core, adapters, instances')
            [CompletionResult]::new('adapter', 'adapter', [CompletionResultType]::ParameterValue, 'List the kinds that are named like adapters')
            [CompletionResult]::new('instance', 'instance', [CompletionResultType]::ParameterValue, 'List the kinds that are named like templates')
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
        'mixs;collateral' {
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Directory that the files are written into')
            [CompletionResult]::new('--outputDir', '--outputDir', [CompletionResultType]::ParameterName, 'Directory that the files are written into')
            [CompletionResult]::new('--all', '--all', [CompletionResultType]::ParameterName, 'Write every kind of file')
            [CompletionResult]::new('--markdown', '--markdown', [CompletionResultType]::ParameterName, 'Write Markdown pages')
            [CompletionResult]::new('--man', '--man', [CompletionResultType]::ParameterName, 'Write manual pages')
            [CompletionResult]::new('--bash', '--bash', [CompletionResultType]::ParameterName, 'Write a completion script for bash')
            [CompletionResult]::new('--zsh', '--zsh', [CompletionResultType]::ParameterName, 'Write a completion script for zsh')
            [CompletionResult]::new('--yaml', '--yaml', [CompletionResultType]::ParameterName, 'Write a description of all commands as YAML')
            [CompletionResult]::new('--html_fragment_with_front_matter', '--html_fragment_with_front_matter', [CompletionResultType]::ParameterName, 'Write an HTML page with front matter')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'mixs;help' {
            [CompletionResult]::new('server', 'server', [CompletionResultType]::ParameterValue, 'Start the server')
            [CompletionResult]::new('probe', 'probe', [CompletionResultType]::ParameterValue, 'Tell whether a server is alive or ready')
            [CompletionResult]::new('version', 'version', [CompletionResultType]::ParameterValue, 'Print versions of program and build')
            [CompletionResult]::new('crd', 'crd', [CompletionResultType]::ParameterValue, 'Print the custom resource definitions of all kinds')
            [CompletionResult]::new('collateral', 'collateral', [CompletionResultType]::ParameterValue, 'Write documentation and completion files into a directory')
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
            [CompletionResult]::new('adapter', 'adapter', [CompletionResultType]::ParameterValue, 'List the kinds that are named like adapters')
            [CompletionResult]::new('instance', 'instance', [CompletionResultType]::ParameterValue, 'List the kinds that are named like templates')
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
        'mixs;help;collateral' {
            break
        }
        'mixs;help;help' {
            break
        }
    })

    $completions.Where{ $_.CompletionText -like "$wordToComplete*" } |
        Sort-Object -Property ListItemText
}
