
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
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
            cand server 'Start the server'
            cand probe 'Tell whether a server is alive or ready'
            cand version 'Print versions of program and build'
            cand crd 'Print the custom resource definitions of all kinds'
            cand collateral 'Write documentation and completion files into a directory'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'mixs;server'= {
            cand --config-file 'File with settings, YAML or TOML; names are those of the flags'
            cand -p 'TCP port of the gRPC API on all interfaces; used if --address is empty'
            cand --port 'TCP port of the gRPC API on all interfaces; used if --address is empty'
            cand --address 'Address of the gRPC API: tcp://127.0.0.1:9091 or unix:///run/mixer.sock'
            cand --socket-mode 'Permissions of the file of a unix socket, octal. Example: 0660'
            cand --grpc-reflection 'Whether generic gRPC clients are told which services there are: auto means if only this machine can reach the API'
            cand --monitoringPort 'HTTP port of metrics, version, health and profiles, on all interfaces'
            cand --metrics-port 'HTTP port of the metrics of all prometheus handlers, on all interfaces'
            cand --tls-cert-file 'Certificate of the server with its chain, PEM; callers on TCP must then speak TLS'
            cand --tls-key-file 'Key of that certificate, PEM'
            cand --tls-client-ca-file 'Roots that certificates of callers are checked against, PEM; callers are asked for one then'
            cand --tls-client-auth 'Whether callers must show a certificate'
            cand --tls-min-version 'Oldest version of TLS that is spoken'
            cand --tls-allowed-peers 'Callers that are let in, by a URI or DNS name in their certificate: NAME,NAME,…; a name may begin or end with `*`'
            cand --configStoreURL 'Store of the configuration: fs://DIR, k8s://KUBECONFIG, mcp://HOST:PORT, mcps://HOST:PORT or embedded://sample'
            cand --configDefaultNamespace 'Namespace of mesh-wide rules'
            cand --configWaitTimeout 'How long to wait for the first configuration of a remote store'
            cand --config-loss 'What becomes of the configuration when its directory disappears: keep or drop'
            cand --certFile 'Certificate for mcps:// stores'
            cand --keyFile 'Key of that certificate'
            cand --caCertFile 'Roots that mcps:// stores are checked against'
            cand --useAdapterCRDs 'Whether kinds that are named like adapters are read'
            cand --useTemplateCRDs 'Whether kinds that are named like templates are read'
            cand --concurrency 'Worker threads, each with its own event loop and connections; 0 means one a core'
            cand --singleThreaded 'Run everything on one thread'
            cand --maxMessageSize 'Largest gRPC message in bytes; units are understood. Example: 4MiB'
            cand --maxConcurrentStreams 'Most calls in flight on one connection'
            cand --max-connection-age 'Age at which callers are asked to make a new connection, so that they spread over the servers there are; 0s means never. Example: 30m'
            cand --apiWorkerPoolSize 'Most API calls in flight that wait for something'
            cand --api-worker-pool-floor 'Let that bound follow the load: it begins here and does not fall below; 0 keeps it fixed'
            cand --api-queue-length 'Most API calls that wait for their turn; beyond that they are refused'
            cand --adapterWorkerPoolSize 'Most calls in flight of one handler that waits for the network'
            cand --adapter-worker-pool-floor 'Let that bound follow the load: it begins here and does not fall below; 0 keeps it fixed'
            cand --adapter-queue-length 'Most calls that wait for their turn with one handler; beyond that they fail'
            cand --numCheckCacheEntries 'Turns the check cache on and bounds its entries; 0 turns it off'
            cand --livenessProbePath 'File that is kept fresh while the server is alive'
            cand --livenessProbeInterval 'How old that file may get; it is refreshed twice as often. Example: 2s'
            cand --readinessProbePath 'File that is kept fresh while the server is ready'
            cand --readinessProbeInterval 'How old that file may get; it is refreshed twice as often. Example: 2s'
            cand --pid-file 'File that holds the number of the process while it runs. Example: /run/mixer.pid'
            cand --drain-delay 'Pause between "not ready" and the end of accepting calls, at shutdown'
            cand --shutdown-timeout 'Limit of the whole shutdown; what is left then is cut off'
            cand --envoy-bridge 'Whether Envoy is answered on the port of the API: authorization, access logs and rate limits'
            cand --envoy-http-address 'Address of authorization over HTTP, and of rate limits as JSON. Example: 127.0.0.1:9191'
            cand --ctrlz_port 'Port of the ControlZ introspection pages; 0 turns them off'
            cand --ctrlz_address 'Address of the ControlZ introspection pages; `*` means all interfaces'
            cand --ctrlz_readonly 'Whether nothing can be changed over ControlZ'
            cand --ctrlz_token_file 'File with a token that callers of ControlZ must know: `Authorization: Bearer TOKEN`, or the form that browsers get'
            cand --ctrlz_allowed_hosts 'Names under which ControlZ may be called, beside localhost and addresses. Example: ops.example.com,mixer'
            cand --profile 'Whether profiles are served below /debug/pprof of the monitoring port'
            cand --legacy-metrics 'Show metrics under the names of Mixer 1.0 as well, for dashboards of that time'
            cand --heap-profile-rate 'Bytes of allocations of which one is noted, with its stack, for /debug/pprof/heap; 0 notes them only while that is asked for'
            cand --loadsheddingMode 'What happens to calls over the limits: disabled, logonly or enforce'
            cand --averageLatencyThreshold 'Highest mean latency; 0s means no such limit'
            cand --latencySamplesPerSecond 'Most latencies measured per second'
            cand --latencySampleHalflife 'After how long a measured latency counts half'
            cand --maxRequestsPerSecond 'Most calls per second; a Report counts its attribute sets; 0 means no such limit'
            cand --burstSize 'Calls let through beyond that rate'
            cand --load-shedding-check-reserve 'Share of the limits above that is kept for checks: reports are refused that much earlier. From 0 to 1'
            cand --load-shedding-fair 'Make callers share what there is: those who use more than the mean are refused first'
            cand --log_target 'Where log records go: a file, stdout or stderr; repeat for several'
            cand --log_rotate 'An additional file, rotated'
            cand --log_rotate_max_size 'Size of that file before it is rotated, in MiB'
            cand --log_rotate_max_age 'Days that rotated files are kept; 0 means for ever'
            cand --log_rotate_max_backups 'Rotated files that are kept; 0 means all'
            cand --log_as_json 'Write log records as JSON objects'
            cand --log_output_level 'What is logged: `[scope:]level,…` with the levels none, fatal, error, warn, info, debug'
            cand --log_stacktrace_level 'From which level on records carry a stack: `[scope:]level,…`'
            cand --log_caller 'Scopes whose records name their place in the source'
            cand --trace_zipkin_url 'URL of a Zipkin collector. Example: http://zipkin:9411/api/v1/spans'
            cand --trace_jaeger_url 'URL of a Jaeger collector. Example: http://jaeger:14268/api/traces?format=jaeger.thrift'
            cand --trace_otlp_url 'URL of an OpenTelemetry collector (OTLP over HTTP). Example: http://collector:4318/v1/traces'
            cand --trace_log_spans 'Write a log record for every span'
            cand --trace_sampling_rate 'Share of new traces that are kept, from 0 to 1'
            cand --decision-log 'File that gets a JSON line for every check that is decided: attributes, answer, rules, handlers, time taken'
            cand --decision-log-sampling 'Share of the checks that are logged, from 0 to 1'
            cand --decision-log-select 'Which of them are written'
            cand --decision-log-max-size 'Size of the file before it is rotated. Example: 100MiB'
            cand --decision-log-max-backups 'Rotated files that are kept; 0 means all'
            cand --decision-queue 'Decisions that may wait to be written; more are counted as lost'
            cand --decision-mask 'Attributes and keys of maps whose values are written as `***`, in log and recording: a name, or a name with a key in square brackets; comma-separated'
            cand --record-requests 'File that gets the first calls, with attributes and answers, for `mixer diff`'
            cand --record-max-requests 'Most calls in that file'
            cand --record-max-size 'Most bytes in that file. Example: 64MiB'
            cand --print-config 'Print all settings and where each comes from, then exit'
            cand --dry-run 'Go through the start, say what would be served, then exit'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mixs;probe'= {
            cand --probe-path 'File to inspect'
            cand --interval 'How old the file may be, and how often --watch looks'
            cand --grpc 'Server to ask by its gRPC health service: host:port or unix:///path; may be repeated'
            cand --service 'What to ask that service for: empty or istio.mixer.v1.Mixer for ready, `liveness` for alive'
            cand --http 'URL that must answer with a status of success; may be repeated. Example: http://localhost:15014/readyz'
            cand --timeout 'Limit of one question over the network'
            cand -o 'How the result is written'
            cand --output 'How the result is written'
            cand --ca-file 'Roots that the server is checked against, PEM; without it those of the system'
            cand --cert-file 'Certificate to show to the server, with its chain, PEM'
            cand --key-file 'Key of that certificate, PEM'
            cand --server-name 'Name that the certificate of the server must carry; without it the host that is called'
            cand --log_target 'Where log records go: a file, stdout or stderr; repeat for several'
            cand --log_rotate 'An additional file, rotated'
            cand --log_rotate_max_size 'Size of that file before it is rotated, in MiB'
            cand --log_rotate_max_age 'Days that rotated files are kept; 0 means for ever'
            cand --log_rotate_max_backups 'Rotated files that are kept; 0 means all'
            cand --log_as_json 'Write log records as JSON objects'
            cand --log_output_level 'What is logged: `[scope:]level,…` with the levels none, fatal, error, warn, info, debug'
            cand --log_stacktrace_level 'From which level on records carry a stack: `[scope:]level,…`'
            cand --log_caller 'Scopes whose records name their place in the source'
            cand --watch 'Keep looking and print every change, until SIGINT'
            cand --tls 'Speak TLS with the server; any other flag of this group means this one as well'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mixs;version'= {
            cand -s 'Print the version alone'
            cand --short 'Print the version alone'
            cand -o 'One of ''yaml'' or ''json''; wins over --short'
            cand --output 'One of ''yaml'' or ''json''; wins over --short'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mixs;crd'= {
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
            cand all 'List all kinds: core, adapters, instances'
            cand adapter 'List the kinds that are named like adapters'
            cand instance 'List the kinds that are named like templates'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'mixs;crd;all'= {
            cand --api-version 'Version of the definitions: v1beta1 or v1'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mixs;crd;adapter'= {
            cand --api-version 'Version of the definitions: v1beta1 or v1'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mixs;crd;instance'= {
            cand --api-version 'Version of the definitions: v1beta1 or v1'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mixs;crd;help'= {
            cand all 'List all kinds: core, adapters, instances'
            cand adapter 'List the kinds that are named like adapters'
            cand instance 'List the kinds that are named like templates'
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
        &'mixs;collateral'= {
            cand -o 'Directory that the files are written into'
            cand --outputDir 'Directory that the files are written into'
            cand --all 'Write every kind of file'
            cand --markdown 'Write Markdown pages'
            cand --man 'Write manual pages'
            cand --bash 'Write a completion script for bash'
            cand --zsh 'Write a completion script for zsh'
            cand --yaml 'Write a description of all commands as YAML'
            cand --html_fragment_with_front_matter 'Write an HTML page with front matter'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'mixs;help'= {
            cand server 'Start the server'
            cand probe 'Tell whether a server is alive or ready'
            cand version 'Print versions of program and build'
            cand crd 'Print the custom resource definitions of all kinds'
            cand collateral 'Write documentation and completion files into a directory'
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
            cand adapter 'List the kinds that are named like adapters'
            cand instance 'List the kinds that are named like templates'
        }
        &'mixs;help;crd;all'= {
        }
        &'mixs;help;crd;adapter'= {
        }
        &'mixs;help;crd;instance'= {
        }
        &'mixs;help;collateral'= {
        }
        &'mixs;help;help'= {
        }
    ]
    $completions[$command]
}
