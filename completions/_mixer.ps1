
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
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to use colours')
            [CompletionResult]::new('--error-format', '--error-format', [CompletionResultType]::ParameterName, 'How failures are written to standard error')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('server', 'server', [CompletionResultType]::ParameterValue, 'Start the server')
            [CompletionResult]::new('check', 'check', [CompletionResultType]::ParameterValue, 'Ask a server, or a configuration, whether a request may pass')
            [CompletionResult]::new('report', 'report', [CompletionResultType]::ParameterValue, 'Report to a server, or to a configuration, what happened')
            [CompletionResult]::new('probe', 'probe', [CompletionResultType]::ParameterValue, 'Tell whether a server is alive or ready')
            [CompletionResult]::new('validate', 'validate', [CompletionResultType]::ParameterValue, 'Find everything that is wrong with a configuration')
            [CompletionResult]::new('doctor', 'doctor', [CompletionResultType]::ParameterValue, 'Find what would keep a server from starting, or trouble it before long')
            [CompletionResult]::new('test', 'test', [CompletionResultType]::ParameterValue, 'Run declared requests against a configuration, without a server')
            [CompletionResult]::new('diff', 'diff', [CompletionResultType]::ParameterValue, 'Tell which recorded decisions a change of configuration alters, and why')
            [CompletionResult]::new('snapshot', 'snapshot', [CompletionResultType]::ParameterValue, 'Show the configuration as the engine understands it')
            [CompletionResult]::new('routes', 'routes', [CompletionResultType]::ParameterValue, 'Show which requests reach which handlers')
            [CompletionResult]::new('version', 'version', [CompletionResultType]::ParameterValue, 'Print versions of program and build')
            [CompletionResult]::new('crd', 'crd', [CompletionResultType]::ParameterValue, 'Print the custom resource definitions of all kinds')
            [CompletionResult]::new('completions', 'completions', [CompletionResultType]::ParameterValue, 'Print a completion script for a shell')
            [CompletionResult]::new('man', 'man', [CompletionResultType]::ParameterValue, 'Print or write manual pages')
            [CompletionResult]::new('collateral', 'collateral', [CompletionResultType]::ParameterValue, 'Write documentation and completion files into a directory')
            [CompletionResult]::new('legacy', 'legacy', [CompletionResultType]::ParameterValue, 'Behave like mixs, mixc or galley of the originals')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'mixer;server' {
            [CompletionResult]::new('--config-file', '--config-file', [CompletionResultType]::ParameterName, 'File with settings, YAML or TOML; names are those of the flags')
            [CompletionResult]::new('-p', '-p', [CompletionResultType]::ParameterName, 'TCP port of the gRPC API on all interfaces; used if --address is empty')
            [CompletionResult]::new('--port', '--port', [CompletionResultType]::ParameterName, 'TCP port of the gRPC API on all interfaces; used if --address is empty')
            [CompletionResult]::new('--address', '--address', [CompletionResultType]::ParameterName, 'Address of the gRPC API: tcp://127.0.0.1:9091 or unix:///run/mixer.sock')
            [CompletionResult]::new('--socket-mode', '--socket-mode', [CompletionResultType]::ParameterName, 'Permissions of the file of a unix socket, octal. Example: 0660')
            [CompletionResult]::new('--grpc-reflection', '--grpc-reflection', [CompletionResultType]::ParameterName, 'Whether generic gRPC clients are told which services there are: auto means if only this machine can reach the API')
            [CompletionResult]::new('--monitoring-port', '--monitoring-port', [CompletionResultType]::ParameterName, 'HTTP port of metrics, version, health and profiles, on all interfaces')
            [CompletionResult]::new('--metrics-port', '--metrics-port', [CompletionResultType]::ParameterName, 'HTTP port of the metrics of all prometheus handlers, on all interfaces')
            [CompletionResult]::new('--tls-cert-file', '--tls-cert-file', [CompletionResultType]::ParameterName, 'Certificate of the server with its chain, PEM; callers on TCP must then speak TLS')
            [CompletionResult]::new('--tls-key-file', '--tls-key-file', [CompletionResultType]::ParameterName, 'Key of that certificate, PEM')
            [CompletionResult]::new('--tls-client-ca-file', '--tls-client-ca-file', [CompletionResultType]::ParameterName, 'Roots that certificates of callers are checked against, PEM; callers are asked for one then')
            [CompletionResult]::new('--tls-client-auth', '--tls-client-auth', [CompletionResultType]::ParameterName, 'Whether callers must show a certificate')
            [CompletionResult]::new('--tls-min-version', '--tls-min-version', [CompletionResultType]::ParameterName, 'Oldest version of TLS that is spoken')
            [CompletionResult]::new('--tls-allowed-peers', '--tls-allowed-peers', [CompletionResultType]::ParameterName, 'Callers that are let in, by a URI or DNS name in their certificate: NAME,NAME,…; a name may begin or end with `*`')
            [CompletionResult]::new('--config-store-url', '--config-store-url', [CompletionResultType]::ParameterName, 'Store of the configuration: fs://DIR, k8s://KUBECONFIG, mcp://HOST:PORT, mcps://HOST:PORT or embedded://sample')
            [CompletionResult]::new('--config-default-namespace', '--config-default-namespace', [CompletionResultType]::ParameterName, 'Namespace of mesh-wide rules')
            [CompletionResult]::new('--config-wait-timeout', '--config-wait-timeout', [CompletionResultType]::ParameterName, 'How long to wait for the first configuration of a remote store')
            [CompletionResult]::new('--config-loss', '--config-loss', [CompletionResultType]::ParameterName, 'What becomes of the configuration when its directory disappears: keep or drop')
            [CompletionResult]::new('--cert-file', '--cert-file', [CompletionResultType]::ParameterName, 'Certificate for mcps:// stores')
            [CompletionResult]::new('--key-file', '--key-file', [CompletionResultType]::ParameterName, 'Key of that certificate')
            [CompletionResult]::new('--ca-cert-file', '--ca-cert-file', [CompletionResultType]::ParameterName, 'Roots that mcps:// stores are checked against')
            [CompletionResult]::new('--use-adapter-crds', '--use-adapter-crds', [CompletionResultType]::ParameterName, 'Whether kinds that are named like adapters are read')
            [CompletionResult]::new('--use-template-crds', '--use-template-crds', [CompletionResultType]::ParameterName, 'Whether kinds that are named like templates are read')
            [CompletionResult]::new('--concurrency', '--concurrency', [CompletionResultType]::ParameterName, 'Worker threads, each with its own event loop and connections; 0 means one a core')
            [CompletionResult]::new('--single-threaded', '--single-threaded', [CompletionResultType]::ParameterName, 'Run everything on one thread')
            [CompletionResult]::new('--max-message-size', '--max-message-size', [CompletionResultType]::ParameterName, 'Largest gRPC message in bytes; units are understood. Example: 4MiB')
            [CompletionResult]::new('--max-concurrent-streams', '--max-concurrent-streams', [CompletionResultType]::ParameterName, 'Most calls in flight on one connection')
            [CompletionResult]::new('--max-connection-age', '--max-connection-age', [CompletionResultType]::ParameterName, 'Age at which callers are asked to make a new connection, so that they spread over the servers there are; 0s means never. Example: 30m')
            [CompletionResult]::new('--api-worker-pool-size', '--api-worker-pool-size', [CompletionResultType]::ParameterName, 'Most API calls in flight that wait for something')
            [CompletionResult]::new('--api-worker-pool-floor', '--api-worker-pool-floor', [CompletionResultType]::ParameterName, 'Let that bound follow the load: it begins here and does not fall below; 0 keeps it fixed')
            [CompletionResult]::new('--api-queue-length', '--api-queue-length', [CompletionResultType]::ParameterName, 'Most API calls that wait for their turn; beyond that they are refused')
            [CompletionResult]::new('--adapter-worker-pool-size', '--adapter-worker-pool-size', [CompletionResultType]::ParameterName, 'Most calls in flight of one handler that waits for the network')
            [CompletionResult]::new('--adapter-worker-pool-floor', '--adapter-worker-pool-floor', [CompletionResultType]::ParameterName, 'Let that bound follow the load: it begins here and does not fall below; 0 keeps it fixed')
            [CompletionResult]::new('--adapter-queue-length', '--adapter-queue-length', [CompletionResultType]::ParameterName, 'Most calls that wait for their turn with one handler; beyond that they fail')
            [CompletionResult]::new('--num-check-cache-entries', '--num-check-cache-entries', [CompletionResultType]::ParameterName, 'Turns the check cache on and bounds its entries; 0 turns it off')
            [CompletionResult]::new('--liveness-probe-path', '--liveness-probe-path', [CompletionResultType]::ParameterName, 'File that is kept fresh while the server is alive')
            [CompletionResult]::new('--liveness-probe-interval', '--liveness-probe-interval', [CompletionResultType]::ParameterName, 'How old that file may get; it is refreshed twice as often. Example: 2s')
            [CompletionResult]::new('--readiness-probe-path', '--readiness-probe-path', [CompletionResultType]::ParameterName, 'File that is kept fresh while the server is ready')
            [CompletionResult]::new('--readiness-probe-interval', '--readiness-probe-interval', [CompletionResultType]::ParameterName, 'How old that file may get; it is refreshed twice as often. Example: 2s')
            [CompletionResult]::new('--pid-file', '--pid-file', [CompletionResultType]::ParameterName, 'File that holds the number of the process while it runs. Example: /run/mixer.pid')
            [CompletionResult]::new('--drain-delay', '--drain-delay', [CompletionResultType]::ParameterName, 'Pause between "not ready" and the end of accepting calls, at shutdown')
            [CompletionResult]::new('--shutdown-timeout', '--shutdown-timeout', [CompletionResultType]::ParameterName, 'Limit of the whole shutdown; what is left then is cut off')
            [CompletionResult]::new('--envoy-bridge', '--envoy-bridge', [CompletionResultType]::ParameterName, 'Whether Envoy is answered on the port of the API: authorization, access logs and rate limits')
            [CompletionResult]::new('--envoy-http-address', '--envoy-http-address', [CompletionResultType]::ParameterName, 'Address of authorization over HTTP, and of rate limits as JSON. Example: 127.0.0.1:9191')
            [CompletionResult]::new('--ctrlz-port', '--ctrlz-port', [CompletionResultType]::ParameterName, 'Port of the ControlZ introspection pages; 0 turns them off')
            [CompletionResult]::new('--ctrlz-address', '--ctrlz-address', [CompletionResultType]::ParameterName, 'Address of the ControlZ introspection pages; `*` means all interfaces')
            [CompletionResult]::new('--ctrlz-readonly', '--ctrlz-readonly', [CompletionResultType]::ParameterName, 'Whether nothing can be changed over ControlZ')
            [CompletionResult]::new('--ctrlz-token-file', '--ctrlz-token-file', [CompletionResultType]::ParameterName, 'File with a token that callers of ControlZ must know: `Authorization: Bearer TOKEN`, or the form that browsers get')
            [CompletionResult]::new('--ctrlz-allowed-hosts', '--ctrlz-allowed-hosts', [CompletionResultType]::ParameterName, 'Names under which ControlZ may be called, beside localhost and addresses. Example: ops.example.com,mixer')
            [CompletionResult]::new('--profile', '--profile', [CompletionResultType]::ParameterName, 'Whether profiles are served below /debug/pprof of the monitoring port')
            [CompletionResult]::new('--legacy-metrics', '--legacy-metrics', [CompletionResultType]::ParameterName, 'Show metrics under the names of Mixer 1.0 as well, for dashboards of that time')
            [CompletionResult]::new('--heap-profile-rate', '--heap-profile-rate', [CompletionResultType]::ParameterName, 'Bytes of allocations of which one is noted, with its stack, for /debug/pprof/heap; 0 notes them only while that is asked for')
            [CompletionResult]::new('--load-shedding-mode', '--load-shedding-mode', [CompletionResultType]::ParameterName, 'What happens to calls over the limits: disabled, logonly or enforce')
            [CompletionResult]::new('--average-latency-threshold', '--average-latency-threshold', [CompletionResultType]::ParameterName, 'Highest mean latency; 0s means no such limit')
            [CompletionResult]::new('--latency-samples-per-second', '--latency-samples-per-second', [CompletionResultType]::ParameterName, 'Most latencies measured per second')
            [CompletionResult]::new('--latency-sample-half-life', '--latency-sample-half-life', [CompletionResultType]::ParameterName, 'After how long a measured latency counts half')
            [CompletionResult]::new('--max-requests-per-second', '--max-requests-per-second', [CompletionResultType]::ParameterName, 'Most calls per second; a Report counts its attribute sets; 0 means no such limit')
            [CompletionResult]::new('--burst-size', '--burst-size', [CompletionResultType]::ParameterName, 'Calls let through beyond that rate')
            [CompletionResult]::new('--load-shedding-check-reserve', '--load-shedding-check-reserve', [CompletionResultType]::ParameterName, 'Share of the limits above that is kept for checks: reports are refused that much earlier. From 0 to 1')
            [CompletionResult]::new('--load-shedding-fair', '--load-shedding-fair', [CompletionResultType]::ParameterName, 'Make callers share what there is: those who use more than the mean are refused first')
            [CompletionResult]::new('--log-target', '--log-target', [CompletionResultType]::ParameterName, 'Where log records go: a file, stdout or stderr; repeat for several')
            [CompletionResult]::new('--log-rotate', '--log-rotate', [CompletionResultType]::ParameterName, 'An additional file, rotated')
            [CompletionResult]::new('--log-rotate-max-size', '--log-rotate-max-size', [CompletionResultType]::ParameterName, 'Size of that file before it is rotated, in MiB')
            [CompletionResult]::new('--log-rotate-max-age', '--log-rotate-max-age', [CompletionResultType]::ParameterName, 'Days that rotated files are kept; 0 means for ever')
            [CompletionResult]::new('--log-rotate-max-backups', '--log-rotate-max-backups', [CompletionResultType]::ParameterName, 'Rotated files that are kept; 0 means all')
            [CompletionResult]::new('--log-as-json', '--log-as-json', [CompletionResultType]::ParameterName, 'Write log records as JSON objects')
            [CompletionResult]::new('--log-output-level', '--log-output-level', [CompletionResultType]::ParameterName, 'What is logged: `[scope:]level,…` with the levels none, fatal, error, warn, info, debug')
            [CompletionResult]::new('--log-stacktrace-level', '--log-stacktrace-level', [CompletionResultType]::ParameterName, 'From which level on records carry a stack: `[scope:]level,…`')
            [CompletionResult]::new('--log-caller', '--log-caller', [CompletionResultType]::ParameterName, 'Scopes whose records name their place in the source')
            [CompletionResult]::new('--trace-zipkin-url', '--trace-zipkin-url', [CompletionResultType]::ParameterName, 'URL of a Zipkin collector. Example: http://zipkin:9411/api/v1/spans')
            [CompletionResult]::new('--trace-jaeger-url', '--trace-jaeger-url', [CompletionResultType]::ParameterName, 'URL of a Jaeger collector. Example: http://jaeger:14268/api/traces?format=jaeger.thrift')
            [CompletionResult]::new('--trace-otlp-url', '--trace-otlp-url', [CompletionResultType]::ParameterName, 'URL of an OpenTelemetry collector (OTLP over HTTP). Example: http://collector:4318/v1/traces')
            [CompletionResult]::new('--trace-log-spans', '--trace-log-spans', [CompletionResultType]::ParameterName, 'Write a log record for every span')
            [CompletionResult]::new('--trace-sampling-rate', '--trace-sampling-rate', [CompletionResultType]::ParameterName, 'Share of new traces that are kept, from 0 to 1')
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
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to use colours')
            [CompletionResult]::new('--error-format', '--error-format', [CompletionResultType]::ParameterName, 'How failures are written to standard error')
            [CompletionResult]::new('--print-config', '--print-config', [CompletionResultType]::ParameterName, 'Print all settings and where each comes from, then exit')
            [CompletionResult]::new('--dry-run', '--dry-run', [CompletionResultType]::ParameterName, 'Go through the start, say what would be served, then exit')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mixer;check' {
            [CompletionResult]::new('-m', '-m', [CompletionResultType]::ParameterName, 'Server to call: host:port, dns:///host:port, unix:///path or unix:path')
            [CompletionResult]::new('--mixer', '--mixer', [CompletionResultType]::ParameterName, 'Server to call: host:port, dns:///host:port, unix:///path or unix:path')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'Configuration to run the call on, in this process, without a server: fs://DIR or embedded://sample')
            [CompletionResult]::new('--default-namespace', '--default-namespace', [CompletionResultType]::ParameterName, 'Namespace of mesh-wide rules')
            [CompletionResult]::new('-a', '-a', [CompletionResultType]::ParameterName, 'Attributes whose type is sensed: name1=value1,name2=value2,…')
            [CompletionResult]::new('--attributes', '--attributes', [CompletionResultType]::ParameterName, 'Attributes whose type is sensed: name1=value1,name2=value2,…')
            [CompletionResult]::new('-s', '-s', [CompletionResultType]::ParameterName, 'Text attributes: name1=value1,name2=value2,…')
            [CompletionResult]::new('--string-attributes', '--string-attributes', [CompletionResultType]::ParameterName, 'Text attributes: name1=value1,name2=value2,…')
            [CompletionResult]::new('-i', '-i', [CompletionResultType]::ParameterName, 'Whole number attributes: name1=1,name2=2,…')
            [CompletionResult]::new('--int64-attributes', '--int64-attributes', [CompletionResultType]::ParameterName, 'Whole number attributes: name1=1,name2=2,…')
            [CompletionResult]::new('-d', '-d', [CompletionResultType]::ParameterName, 'Floating point attributes: name1=0.5,name2=1e3,…')
            [CompletionResult]::new('--double-attributes', '--double-attributes', [CompletionResultType]::ParameterName, 'Floating point attributes: name1=0.5,name2=1e3,…')
            [CompletionResult]::new('-b', '-b', [CompletionResultType]::ParameterName, 'Truth attributes: name1=true,name2=false,…')
            [CompletionResult]::new('--bool-attributes', '--bool-attributes', [CompletionResultType]::ParameterName, 'Truth attributes: name1=true,name2=false,…')
            [CompletionResult]::new('-t', '-t', [CompletionResultType]::ParameterName, 'Time attributes: name1=2017-07-04T00:01:10Z,…')
            [CompletionResult]::new('--timestamp-attributes', '--timestamp-attributes', [CompletionResultType]::ParameterName, 'Time attributes: name1=2017-07-04T00:01:10Z,…')
            [CompletionResult]::new('--duration-attributes', '--duration-attributes', [CompletionResultType]::ParameterName, 'Duration attributes: name1=250ms,name2=1h30m,…')
            [CompletionResult]::new('--bytes-attributes', '--bytes-attributes', [CompletionResultType]::ParameterName, 'Bytes attributes, for example addresses: name1=c0:0:0:2,…')
            [CompletionResult]::new('--stringmap-attributes', '--stringmap-attributes', [CompletionResultType]::ParameterName, 'Map attributes: name1=key1:value1;key2:value2,…')
            [CompletionResult]::new('--attributes-file', '--attributes-file', [CompletionResultType]::ParameterName, 'YAML or JSON file with attributes; `@-` reads standard input. Flags win over the file')
            [CompletionResult]::new('--dictionary', '--dictionary', [CompletionResultType]::ParameterName, 'Which words are sent as indexes of the list that every peer knows')
            [CompletionResult]::new('-r', '-r', [CompletionResultType]::ParameterName, 'How often each worker repeats the call; nothing is sent from 0 down')
            [CompletionResult]::new('--repeat', '--repeat', [CompletionResultType]::ParameterName, 'How often each worker repeats the call; nothing is sent from 0 down')
            [CompletionResult]::new('-c', '-c', [CompletionResultType]::ParameterName, 'Workers that call at the same time')
            [CompletionResult]::new('--concurrency', '--concurrency', [CompletionResultType]::ParameterName, 'Workers that call at the same time')
            [CompletionResult]::new('--rate', '--rate', [CompletionResultType]::ParameterName, 'Most calls per second, all workers together; no limit from 0 down')
            [CompletionResult]::new('--report-batch-size', '--report-batch-size', [CompletionResultType]::ParameterName, 'Attribute sets in one report')
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'Limit of one call. Example: 5s')
            [CompletionResult]::new('--ca-file', '--ca-file', [CompletionResultType]::ParameterName, 'Roots that the server is checked against, PEM; without it those of the system')
            [CompletionResult]::new('--cert-file', '--cert-file', [CompletionResultType]::ParameterName, 'Certificate to show to the server, with its chain, PEM')
            [CompletionResult]::new('--key-file', '--key-file', [CompletionResultType]::ParameterName, 'Key of that certificate, PEM')
            [CompletionResult]::new('--server-name', '--server-name', [CompletionResultType]::ParameterName, 'Name that the certificate of the server must carry; without it the host that is called')
            [CompletionResult]::new('--print-response', '--print-response', [CompletionResultType]::ParameterName, 'Print the answers; failures are printed anyway by `check`')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'How answers are written; a table on a terminal, else plain')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'How answers are written; a table on a terminal, else plain')
            [CompletionResult]::new('--trace-zipkin-url', '--trace-zipkin-url', [CompletionResultType]::ParameterName, 'URL of a Zipkin collector. Example: http://zipkin:9411/api/v1/spans')
            [CompletionResult]::new('--trace-jaeger-url', '--trace-jaeger-url', [CompletionResultType]::ParameterName, 'URL of a Jaeger collector. Example: http://jaeger:14268/api/traces?format=jaeger.thrift')
            [CompletionResult]::new('--trace-otlp-url', '--trace-otlp-url', [CompletionResultType]::ParameterName, 'URL of an OpenTelemetry collector (OTLP over HTTP). Example: http://collector:4318/v1/traces')
            [CompletionResult]::new('--trace-log-spans', '--trace-log-spans', [CompletionResultType]::ParameterName, 'Write a log record for every span')
            [CompletionResult]::new('--trace-sampling-rate', '--trace-sampling-rate', [CompletionResultType]::ParameterName, 'Share of new traces that are kept, from 0 to 1')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Quotas to ask for: name1=amount1,name2=amount2,…')
            [CompletionResult]::new('--quotas', '--quotas', [CompletionResultType]::ParameterName, 'Quotas to ask for: name1=amount1,name2=amount2,…')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to use colours')
            [CompletionResult]::new('--error-format', '--error-format', [CompletionResultType]::ParameterName, 'How failures are written to standard error')
            [CompletionResult]::new('--wait-for-ready', '--wait-for-ready', [CompletionResultType]::ParameterName, 'Wait for a server that cannot be reached yet, at most --timeout')
            [CompletionResult]::new('--tls', '--tls', [CompletionResultType]::ParameterName, 'Speak TLS with the server; any other flag of this group means this one as well')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'No progress bar and no summary')
            [CompletionResult]::new('--exit-zero', '--exit-zero', [CompletionResultType]::ParameterName, 'End with status 0 whatever the answers are')
            [CompletionResult]::new('--native-exit-codes', '--native-exit-codes', [CompletionResultType]::ParameterName, 'End with the statuses of `mixer` when called by the name mixc')
            [CompletionResult]::new('--require-quota', '--require-quota', [CompletionResultType]::ParameterName, 'End with status 1 unless every quota is granted in full')
            [CompletionResult]::new('--explain', '--explain', [CompletionResultType]::ParameterName, 'Tell why: which rules were considered, how far each condition went, near misses, and what every handler said')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mixer;report' {
            [CompletionResult]::new('-m', '-m', [CompletionResultType]::ParameterName, 'Server to call: host:port, dns:///host:port, unix:///path or unix:path')
            [CompletionResult]::new('--mixer', '--mixer', [CompletionResultType]::ParameterName, 'Server to call: host:port, dns:///host:port, unix:///path or unix:path')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'Configuration to run the call on, in this process, without a server: fs://DIR or embedded://sample')
            [CompletionResult]::new('--default-namespace', '--default-namespace', [CompletionResultType]::ParameterName, 'Namespace of mesh-wide rules')
            [CompletionResult]::new('-a', '-a', [CompletionResultType]::ParameterName, 'Attributes whose type is sensed: name1=value1,name2=value2,…')
            [CompletionResult]::new('--attributes', '--attributes', [CompletionResultType]::ParameterName, 'Attributes whose type is sensed: name1=value1,name2=value2,…')
            [CompletionResult]::new('-s', '-s', [CompletionResultType]::ParameterName, 'Text attributes: name1=value1,name2=value2,…')
            [CompletionResult]::new('--string-attributes', '--string-attributes', [CompletionResultType]::ParameterName, 'Text attributes: name1=value1,name2=value2,…')
            [CompletionResult]::new('-i', '-i', [CompletionResultType]::ParameterName, 'Whole number attributes: name1=1,name2=2,…')
            [CompletionResult]::new('--int64-attributes', '--int64-attributes', [CompletionResultType]::ParameterName, 'Whole number attributes: name1=1,name2=2,…')
            [CompletionResult]::new('-d', '-d', [CompletionResultType]::ParameterName, 'Floating point attributes: name1=0.5,name2=1e3,…')
            [CompletionResult]::new('--double-attributes', '--double-attributes', [CompletionResultType]::ParameterName, 'Floating point attributes: name1=0.5,name2=1e3,…')
            [CompletionResult]::new('-b', '-b', [CompletionResultType]::ParameterName, 'Truth attributes: name1=true,name2=false,…')
            [CompletionResult]::new('--bool-attributes', '--bool-attributes', [CompletionResultType]::ParameterName, 'Truth attributes: name1=true,name2=false,…')
            [CompletionResult]::new('-t', '-t', [CompletionResultType]::ParameterName, 'Time attributes: name1=2017-07-04T00:01:10Z,…')
            [CompletionResult]::new('--timestamp-attributes', '--timestamp-attributes', [CompletionResultType]::ParameterName, 'Time attributes: name1=2017-07-04T00:01:10Z,…')
            [CompletionResult]::new('--duration-attributes', '--duration-attributes', [CompletionResultType]::ParameterName, 'Duration attributes: name1=250ms,name2=1h30m,…')
            [CompletionResult]::new('--bytes-attributes', '--bytes-attributes', [CompletionResultType]::ParameterName, 'Bytes attributes, for example addresses: name1=c0:0:0:2,…')
            [CompletionResult]::new('--stringmap-attributes', '--stringmap-attributes', [CompletionResultType]::ParameterName, 'Map attributes: name1=key1:value1;key2:value2,…')
            [CompletionResult]::new('--attributes-file', '--attributes-file', [CompletionResultType]::ParameterName, 'YAML or JSON file with attributes; `@-` reads standard input. Flags win over the file')
            [CompletionResult]::new('--dictionary', '--dictionary', [CompletionResultType]::ParameterName, 'Which words are sent as indexes of the list that every peer knows')
            [CompletionResult]::new('-r', '-r', [CompletionResultType]::ParameterName, 'How often each worker repeats the call; nothing is sent from 0 down')
            [CompletionResult]::new('--repeat', '--repeat', [CompletionResultType]::ParameterName, 'How often each worker repeats the call; nothing is sent from 0 down')
            [CompletionResult]::new('-c', '-c', [CompletionResultType]::ParameterName, 'Workers that call at the same time')
            [CompletionResult]::new('--concurrency', '--concurrency', [CompletionResultType]::ParameterName, 'Workers that call at the same time')
            [CompletionResult]::new('--rate', '--rate', [CompletionResultType]::ParameterName, 'Most calls per second, all workers together; no limit from 0 down')
            [CompletionResult]::new('--report-batch-size', '--report-batch-size', [CompletionResultType]::ParameterName, 'Attribute sets in one report')
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'Limit of one call. Example: 5s')
            [CompletionResult]::new('--ca-file', '--ca-file', [CompletionResultType]::ParameterName, 'Roots that the server is checked against, PEM; without it those of the system')
            [CompletionResult]::new('--cert-file', '--cert-file', [CompletionResultType]::ParameterName, 'Certificate to show to the server, with its chain, PEM')
            [CompletionResult]::new('--key-file', '--key-file', [CompletionResultType]::ParameterName, 'Key of that certificate, PEM')
            [CompletionResult]::new('--server-name', '--server-name', [CompletionResultType]::ParameterName, 'Name that the certificate of the server must carry; without it the host that is called')
            [CompletionResult]::new('--print-response', '--print-response', [CompletionResultType]::ParameterName, 'Print the answers; failures are printed anyway by `check`')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'How answers are written; a table on a terminal, else plain')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'How answers are written; a table on a terminal, else plain')
            [CompletionResult]::new('--trace-zipkin-url', '--trace-zipkin-url', [CompletionResultType]::ParameterName, 'URL of a Zipkin collector. Example: http://zipkin:9411/api/v1/spans')
            [CompletionResult]::new('--trace-jaeger-url', '--trace-jaeger-url', [CompletionResultType]::ParameterName, 'URL of a Jaeger collector. Example: http://jaeger:14268/api/traces?format=jaeger.thrift')
            [CompletionResult]::new('--trace-otlp-url', '--trace-otlp-url', [CompletionResultType]::ParameterName, 'URL of an OpenTelemetry collector (OTLP over HTTP). Example: http://collector:4318/v1/traces')
            [CompletionResult]::new('--trace-log-spans', '--trace-log-spans', [CompletionResultType]::ParameterName, 'Write a log record for every span')
            [CompletionResult]::new('--trace-sampling-rate', '--trace-sampling-rate', [CompletionResultType]::ParameterName, 'Share of new traces that are kept, from 0 to 1')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to use colours')
            [CompletionResult]::new('--error-format', '--error-format', [CompletionResultType]::ParameterName, 'How failures are written to standard error')
            [CompletionResult]::new('--wait-for-ready', '--wait-for-ready', [CompletionResultType]::ParameterName, 'Wait for a server that cannot be reached yet, at most --timeout')
            [CompletionResult]::new('--tls', '--tls', [CompletionResultType]::ParameterName, 'Speak TLS with the server; any other flag of this group means this one as well')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'No progress bar and no summary')
            [CompletionResult]::new('--exit-zero', '--exit-zero', [CompletionResultType]::ParameterName, 'End with status 0 whatever the answers are')
            [CompletionResult]::new('--native-exit-codes', '--native-exit-codes', [CompletionResultType]::ParameterName, 'End with the statuses of `mixer` when called by the name mixc')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mixer;probe' {
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
            [CompletionResult]::new('--log-target', '--log-target', [CompletionResultType]::ParameterName, 'Where log records go: a file, stdout or stderr; repeat for several')
            [CompletionResult]::new('--log-rotate', '--log-rotate', [CompletionResultType]::ParameterName, 'An additional file, rotated')
            [CompletionResult]::new('--log-rotate-max-size', '--log-rotate-max-size', [CompletionResultType]::ParameterName, 'Size of that file before it is rotated, in MiB')
            [CompletionResult]::new('--log-rotate-max-age', '--log-rotate-max-age', [CompletionResultType]::ParameterName, 'Days that rotated files are kept; 0 means for ever')
            [CompletionResult]::new('--log-rotate-max-backups', '--log-rotate-max-backups', [CompletionResultType]::ParameterName, 'Rotated files that are kept; 0 means all')
            [CompletionResult]::new('--log-as-json', '--log-as-json', [CompletionResultType]::ParameterName, 'Write log records as JSON objects')
            [CompletionResult]::new('--log-output-level', '--log-output-level', [CompletionResultType]::ParameterName, 'What is logged: `[scope:]level,…` with the levels none, fatal, error, warn, info, debug')
            [CompletionResult]::new('--log-stacktrace-level', '--log-stacktrace-level', [CompletionResultType]::ParameterName, 'From which level on records carry a stack: `[scope:]level,…`')
            [CompletionResult]::new('--log-caller', '--log-caller', [CompletionResultType]::ParameterName, 'Scopes whose records name their place in the source')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to use colours')
            [CompletionResult]::new('--error-format', '--error-format', [CompletionResultType]::ParameterName, 'How failures are written to standard error')
            [CompletionResult]::new('--watch', '--watch', [CompletionResultType]::ParameterName, 'Keep looking and print every change, until SIGINT')
            [CompletionResult]::new('--tls', '--tls', [CompletionResultType]::ParameterName, 'Speak TLS with the server; any other flag of this group means this one as well')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mixer;validate' {
            [CompletionResult]::new('--default-namespace', '--default-namespace', [CompletionResultType]::ParameterName, 'Namespace of mesh-wide rules')
            [CompletionResult]::new('--live', '--live', [CompletionResultType]::ParameterName, 'Show what would change in a running server: host and port of its ControlZ endpoint. Example: localhost:9876')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'How findings are written; a table on a terminal, else plain')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'How findings are written; a table on a terminal, else plain')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to use colours')
            [CompletionResult]::new('--error-format', '--error-format', [CompletionResultType]::ParameterName, 'How failures are written to standard error')
            [CompletionResult]::new('--strict', '--strict', [CompletionResultType]::ParameterName, 'Count warnings as errors')
            [CompletionResult]::new('--lint', '--lint', [CompletionResultType]::ParameterName, 'Look for what works but is hardly meant: unused handlers and instances, constant conditions, rules that never differ')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mixer;doctor' {
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'How findings are written; a table on a terminal, else plain')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'How findings are written; a table on a terminal, else plain')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to use colours')
            [CompletionResult]::new('--error-format', '--error-format', [CompletionResultType]::ParameterName, 'How failures are written to standard error')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mixer;test' {
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'Configuration to test: fs://DIR, a path, or embedded://sample; repeat for several. Replaces what the files name')
            [CompletionResult]::new('--default-namespace', '--default-namespace', [CompletionResultType]::ParameterName, 'Namespace of mesh-wide rules')
            [CompletionResult]::new('--filter', '--filter', [CompletionResultType]::ParameterName, 'Run only tests whose file or name contains this text')
            [CompletionResult]::new('--junit', '--junit', [CompletionResultType]::ParameterName, 'Write the results as JUnit XML too, for CI systems')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'How results are written; a table on a terminal, else plain')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'How results are written; a table on a terminal, else plain')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to use colours')
            [CompletionResult]::new('--error-format', '--error-format', [CompletionResultType]::ParameterName, 'How failures are written to standard error')
            [CompletionResult]::new('--fail-fast', '--fail-fast', [CompletionResultType]::ParameterName, 'Stop at the first test that fails')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mixer;diff' {
            [CompletionResult]::new('--from', '--from', [CompletionResultType]::ParameterName, 'Configuration as it is: fs://DIR, a path, or embedded://sample')
            [CompletionResult]::new('--to', '--to', [CompletionResultType]::ParameterName, 'Configuration as it will be')
            [CompletionResult]::new('--requests', '--requests', [CompletionResultType]::ParameterName, 'Recorded calls: what `mixer server --record-requests` or `--decision-log` wrote; `-` for standard input')
            [CompletionResult]::new('--default-namespace', '--default-namespace', [CompletionResultType]::ParameterName, 'Namespace of mesh-wide rules')
            [CompletionResult]::new('--limit', '--limit', [CompletionResultType]::ParameterName, 'Kinds of change that a table lists, the most frequent first; all are counted')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'How changes are written; a table on a terminal, else plain')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'How changes are written; a table on a terminal, else plain')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to use colours')
            [CompletionResult]::new('--error-format', '--error-format', [CompletionResultType]::ParameterName, 'How failures are written to standard error')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mixer;snapshot' {
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to use colours')
            [CompletionResult]::new('--error-format', '--error-format', [CompletionResultType]::ParameterName, 'How failures are written to standard error')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('dump', 'dump', [CompletionResultType]::ParameterValue, 'Print a snapshot: attributes, handlers, instances, rules')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'mixer;snapshot;dump' {
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'Configuration to read: fs://DIR, a path, `-` for standard input, or embedded://sample')
            [CompletionResult]::new('--server', '--server', [CompletionResultType]::ParameterName, 'Ask a running server instead: host and port of its ControlZ endpoint. Example: localhost:9876')
            [CompletionResult]::new('--default-namespace', '--default-namespace', [CompletionResultType]::ParameterName, 'Namespace of mesh-wide rules')
            [CompletionResult]::new('--section', '--section', [CompletionResultType]::ParameterName, 'Parts to print, separated by commas; all without it')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'How it is written; tables on a terminal, else plain')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'How it is written; tables on a terminal, else plain')
            [CompletionResult]::new('--diff', '--diff', [CompletionResultType]::ParameterName, 'Compare with an earlier JSON dump; ends with status 1 if they differ')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to use colours')
            [CompletionResult]::new('--error-format', '--error-format', [CompletionResultType]::ParameterName, 'How failures are written to standard error')
            [CompletionResult]::new('--show-secrets', '--show-secrets', [CompletionResultType]::ParameterName, 'Show parameters that look like secrets')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mixer;snapshot;help' {
            [CompletionResult]::new('dump', 'dump', [CompletionResultType]::ParameterValue, 'Print a snapshot: attributes, handlers, instances, rules')
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
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to use colours')
            [CompletionResult]::new('--error-format', '--error-format', [CompletionResultType]::ParameterName, 'How failures are written to standard error')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('show', 'show', [CompletionResultType]::ParameterValue, 'Print the routing table: variety, namespace, handler, condition, instances')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'mixer;routes;show' {
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'Configuration to read: fs://DIR, a path, `-` for standard input, or embedded://sample')
            [CompletionResult]::new('--server', '--server', [CompletionResultType]::ParameterName, 'Ask a running server instead: host and port of its ControlZ endpoint. Example: localhost:9876')
            [CompletionResult]::new('--default-namespace', '--default-namespace', [CompletionResultType]::ParameterName, 'Namespace of mesh-wide rules')
            [CompletionResult]::new('--variety', '--variety', [CompletionResultType]::ParameterName, 'Only routes of this variety: check, report, quota, attribute-generator or check-with-output')
            [CompletionResult]::new('--namespace', '--namespace', [CompletionResultType]::ParameterName, 'Only routes of requests of this namespace')
            [CompletionResult]::new('--handler', '--handler', [CompletionResultType]::ParameterName, 'Only routes to handlers of this name; `*` stands for any text')
            [CompletionResult]::new('--match', '--match', [CompletionResultType]::ParameterName, 'Mark the routes that a request with these attributes takes: name1=value1,name2=value2,…')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'How it is written; a table on a terminal, else plain')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'How it is written; a table on a terminal, else plain')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to use colours')
            [CompletionResult]::new('--error-format', '--error-format', [CompletionResultType]::ParameterName, 'How failures are written to standard error')
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
        'mixer;version' {
            [CompletionResult]::new('-s', '-s', [CompletionResultType]::ParameterName, 'Print the version alone')
            [CompletionResult]::new('--short', '--short', [CompletionResultType]::ParameterName, 'Print the version alone')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'One of ''yaml'' or ''json''; wins over --short')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'One of ''yaml'' or ''json''; wins over --short')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to use colours')
            [CompletionResult]::new('--error-format', '--error-format', [CompletionResultType]::ParameterName, 'How failures are written to standard error')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mixer;crd' {
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to use colours')
            [CompletionResult]::new('--error-format', '--error-format', [CompletionResultType]::ParameterName, 'How failures are written to standard error')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('all', 'all', [CompletionResultType]::ParameterValue, 'List all kinds: core, adapters, instances')
            [CompletionResult]::new('adapter', 'adapter', [CompletionResultType]::ParameterValue, 'List the kinds that are named like adapters')
            [CompletionResult]::new('instance', 'instance', [CompletionResultType]::ParameterValue, 'List the kinds that are named like templates')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'mixer;crd;all' {
            [CompletionResult]::new('--api-version', '--api-version', [CompletionResultType]::ParameterName, 'Version of the definitions: v1beta1 or v1')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to use colours')
            [CompletionResult]::new('--error-format', '--error-format', [CompletionResultType]::ParameterName, 'How failures are written to standard error')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mixer;crd;adapter' {
            [CompletionResult]::new('--api-version', '--api-version', [CompletionResultType]::ParameterName, 'Version of the definitions: v1beta1 or v1')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to use colours')
            [CompletionResult]::new('--error-format', '--error-format', [CompletionResultType]::ParameterName, 'How failures are written to standard error')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mixer;crd;instance' {
            [CompletionResult]::new('--api-version', '--api-version', [CompletionResultType]::ParameterName, 'Version of the definitions: v1beta1 or v1')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to use colours')
            [CompletionResult]::new('--error-format', '--error-format', [CompletionResultType]::ParameterName, 'How failures are written to standard error')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mixer;crd;help' {
            [CompletionResult]::new('all', 'all', [CompletionResultType]::ParameterValue, 'List all kinds: core, adapters, instances')
            [CompletionResult]::new('adapter', 'adapter', [CompletionResultType]::ParameterValue, 'List the kinds that are named like adapters')
            [CompletionResult]::new('instance', 'instance', [CompletionResultType]::ParameterValue, 'List the kinds that are named like templates')
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
            [CompletionResult]::new('--name', '--name', [CompletionResultType]::ParameterName, 'The name that the program is called by: mixer, mixs, mixc or galley')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to use colours')
            [CompletionResult]::new('--error-format', '--error-format', [CompletionResultType]::ParameterName, 'How failures are written to standard error')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mixer;man' {
            [CompletionResult]::new('--dir', '--dir', [CompletionResultType]::ParameterName, 'Write one page a command into this directory instead of printing the page of `mixer`')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to use colours')
            [CompletionResult]::new('--error-format', '--error-format', [CompletionResultType]::ParameterName, 'How failures are written to standard error')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mixer;collateral' {
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Directory that the files are written into')
            [CompletionResult]::new('--output-dir', '--output-dir', [CompletionResultType]::ParameterName, 'Directory that the files are written into')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to use colours')
            [CompletionResult]::new('--error-format', '--error-format', [CompletionResultType]::ParameterName, 'How failures are written to standard error')
            [CompletionResult]::new('--all', '--all', [CompletionResultType]::ParameterName, 'Write every kind of file')
            [CompletionResult]::new('--markdown', '--markdown', [CompletionResultType]::ParameterName, 'Write Markdown pages')
            [CompletionResult]::new('--man', '--man', [CompletionResultType]::ParameterName, 'Write manual pages')
            [CompletionResult]::new('--bash', '--bash', [CompletionResultType]::ParameterName, 'Write a completion script for bash')
            [CompletionResult]::new('--zsh', '--zsh', [CompletionResultType]::ParameterName, 'Write a completion script for zsh')
            [CompletionResult]::new('--yaml', '--yaml', [CompletionResultType]::ParameterName, 'Write a description of all commands as YAML')
            [CompletionResult]::new('--html-fragment-with-front-matter', '--html-fragment-with-front-matter', [CompletionResultType]::ParameterName, 'Write an HTML page with front matter')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mixer;legacy' {
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to use colours')
            [CompletionResult]::new('--error-format', '--error-format', [CompletionResultType]::ParameterName, 'How failures are written to standard error')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mixer;help' {
            [CompletionResult]::new('server', 'server', [CompletionResultType]::ParameterValue, 'Start the server')
            [CompletionResult]::new('check', 'check', [CompletionResultType]::ParameterValue, 'Ask a server, or a configuration, whether a request may pass')
            [CompletionResult]::new('report', 'report', [CompletionResultType]::ParameterValue, 'Report to a server, or to a configuration, what happened')
            [CompletionResult]::new('probe', 'probe', [CompletionResultType]::ParameterValue, 'Tell whether a server is alive or ready')
            [CompletionResult]::new('validate', 'validate', [CompletionResultType]::ParameterValue, 'Find everything that is wrong with a configuration')
            [CompletionResult]::new('doctor', 'doctor', [CompletionResultType]::ParameterValue, 'Find what would keep a server from starting, or trouble it before long')
            [CompletionResult]::new('test', 'test', [CompletionResultType]::ParameterValue, 'Run declared requests against a configuration, without a server')
            [CompletionResult]::new('diff', 'diff', [CompletionResultType]::ParameterValue, 'Tell which recorded decisions a change of configuration alters, and why')
            [CompletionResult]::new('snapshot', 'snapshot', [CompletionResultType]::ParameterValue, 'Show the configuration as the engine understands it')
            [CompletionResult]::new('routes', 'routes', [CompletionResultType]::ParameterValue, 'Show which requests reach which handlers')
            [CompletionResult]::new('version', 'version', [CompletionResultType]::ParameterValue, 'Print versions of program and build')
            [CompletionResult]::new('crd', 'crd', [CompletionResultType]::ParameterValue, 'Print the custom resource definitions of all kinds')
            [CompletionResult]::new('completions', 'completions', [CompletionResultType]::ParameterValue, 'Print a completion script for a shell')
            [CompletionResult]::new('man', 'man', [CompletionResultType]::ParameterValue, 'Print or write manual pages')
            [CompletionResult]::new('collateral', 'collateral', [CompletionResultType]::ParameterValue, 'Write documentation and completion files into a directory')
            [CompletionResult]::new('legacy', 'legacy', [CompletionResultType]::ParameterValue, 'Behave like mixs, mixc or galley of the originals')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
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
        'mixer;help;doctor' {
            break
        }
        'mixer;help;test' {
            break
        }
        'mixer;help;diff' {
            break
        }
        'mixer;help;snapshot' {
            [CompletionResult]::new('dump', 'dump', [CompletionResultType]::ParameterValue, 'Print a snapshot: attributes, handlers, instances, rules')
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
        'mixer;help;version' {
            break
        }
        'mixer;help;crd' {
            [CompletionResult]::new('all', 'all', [CompletionResultType]::ParameterValue, 'List all kinds: core, adapters, instances')
            [CompletionResult]::new('adapter', 'adapter', [CompletionResultType]::ParameterValue, 'List the kinds that are named like adapters')
            [CompletionResult]::new('instance', 'instance', [CompletionResultType]::ParameterValue, 'List the kinds that are named like templates')
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
        'mixer;help;collateral' {
            break
        }
        'mixer;help;legacy' {
            break
        }
        'mixer;help;help' {
            break
        }
    })

    $completions.Where{ $_.CompletionText -like "$wordToComplete*" } |
        Sort-Object -Property ListItemText
}
