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
complete -c mixs -n "__fish_mixs_needs_command" -f -a "probe" -d 'Tell whether a server is alive or ready'
complete -c mixs -n "__fish_mixs_needs_command" -f -a "version" -d 'Print versions of program and build'
complete -c mixs -n "__fish_mixs_needs_command" -f -a "crd" -d 'Print the custom resource definitions of all kinds'
complete -c mixs -n "__fish_mixs_needs_command" -f -a "collateral" -d 'Write documentation and completion files into a directory'
complete -c mixs -n "__fish_mixs_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c mixs -n "__fish_mixs_using_subcommand server" -l config-file -d 'File with settings, YAML or TOML; names are those of the flags' -r -F
complete -c mixs -n "__fish_mixs_using_subcommand server" -s p -l port -d 'TCP port of the gRPC API on all interfaces; used if --address is empty' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l address -d 'Address of the gRPC API: tcp://127.0.0.1:9091 or unix:///run/mixer.sock' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l socket-mode -d 'Permissions of the file of a unix socket, octal. Example: 0660' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l grpc-reflection -d 'Whether generic gRPC clients are told which services there are: auto means if only this machine can reach the API' -r -f -a "auto\t'Where only callers on this machine can reach the API'
on\t'To everybody'
off\t'To nobody'"
complete -c mixs -n "__fish_mixs_using_subcommand server" -l monitoringPort -d 'HTTP port of metrics, version, health and profiles, on all interfaces' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l metrics-port -d 'HTTP port of the metrics of all prometheus handlers, on all interfaces' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l tls-cert-file -d 'Certificate of the server with its chain, PEM; callers on TCP must then speak TLS' -r -F
complete -c mixs -n "__fish_mixs_using_subcommand server" -l tls-key-file -d 'Key of that certificate, PEM' -r -F
complete -c mixs -n "__fish_mixs_using_subcommand server" -l tls-client-ca-file -d 'Roots that certificates of callers are checked against, PEM; callers are asked for one then' -r -F
complete -c mixs -n "__fish_mixs_using_subcommand server" -l tls-client-auth -d 'Whether callers must show a certificate' -r -f -a "require\t'Those without one are refused'
optional\t'One that is shown must be good'"
complete -c mixs -n "__fish_mixs_using_subcommand server" -l tls-min-version -d 'Oldest version of TLS that is spoken' -r -f -a "1.2\t'TLS 1.2'
1.3\t'TLS 1.3'"
complete -c mixs -n "__fish_mixs_using_subcommand server" -l tls-allowed-peers -d 'Callers that are let in, by a URI or DNS name in their certificate: NAME,NAME,…; a name may begin or end with `*`' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l configStoreURL -d 'Store of the configuration: fs://DIR, k8s://KUBECONFIG, mcp://HOST:PORT, mcps://HOST:PORT or embedded://sample' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l configDefaultNamespace -d 'Namespace of mesh-wide rules' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l configWaitTimeout -d 'How long to wait for the first configuration of a remote store' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l config-loss -d 'What becomes of the configuration when its directory disappears: keep or drop' -r -f -a "keep\t''
drop\t''"
complete -c mixs -n "__fish_mixs_using_subcommand server" -l certFile -d 'Certificate for mcps:// stores' -r -F
complete -c mixs -n "__fish_mixs_using_subcommand server" -l keyFile -d 'Key of that certificate' -r -F
complete -c mixs -n "__fish_mixs_using_subcommand server" -l caCertFile -d 'Roots that mcps:// stores are checked against' -r -F
complete -c mixs -n "__fish_mixs_using_subcommand server" -l useAdapterCRDs -d 'Whether kinds that are named like adapters are read' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l useTemplateCRDs -d 'Whether kinds that are named like templates are read' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l concurrency -d 'Worker threads, each with its own event loop and connections; 0 means one a core' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l singleThreaded -d 'Run everything on one thread' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l maxMessageSize -d 'Largest gRPC message in bytes; units are understood. Example: 4MiB' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l maxConcurrentStreams -d 'Most calls in flight on one connection' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l max-connection-age -d 'Age at which callers are asked to make a new connection, so that they spread over the servers there are; 0s means never. Example: 30m' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l apiWorkerPoolSize -d 'Most API calls in flight that wait for something' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l api-worker-pool-floor -d 'Let that bound follow the load: it begins here and does not fall below; 0 keeps it fixed' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l api-queue-length -d 'Most API calls that wait for their turn; beyond that they are refused' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l adapterWorkerPoolSize -d 'Most calls in flight of one handler that waits for the network' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l adapter-worker-pool-floor -d 'Let that bound follow the load: it begins here and does not fall below; 0 keeps it fixed' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l adapter-queue-length -d 'Most calls that wait for their turn with one handler; beyond that they fail' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l numCheckCacheEntries -d 'Turns the check cache on and bounds its entries; 0 turns it off' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l livenessProbePath -d 'File that is kept fresh while the server is alive' -r -F
complete -c mixs -n "__fish_mixs_using_subcommand server" -l livenessProbeInterval -d 'How old that file may get; it is refreshed twice as often. Example: 2s' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l readinessProbePath -d 'File that is kept fresh while the server is ready' -r -F
complete -c mixs -n "__fish_mixs_using_subcommand server" -l readinessProbeInterval -d 'How old that file may get; it is refreshed twice as often. Example: 2s' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l pid-file -d 'File that holds the number of the process while it runs. Example: /run/mixer.pid' -r -F
complete -c mixs -n "__fish_mixs_using_subcommand server" -l drain-delay -d 'Pause between "not ready" and the end of accepting calls, at shutdown' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l shutdown-timeout -d 'Limit of the whole shutdown; what is left then is cut off' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l envoy-bridge -d 'Whether Envoy is answered on the port of the API: authorization, access logs and rate limits' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l envoy-http-address -d 'Address of authorization over HTTP, and of rate limits as JSON. Example: 127.0.0.1:9191' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l ctrlz_port -d 'Port of the ControlZ introspection pages; 0 turns them off' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l ctrlz_address -d 'Address of the ControlZ introspection pages; `*` means all interfaces' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l ctrlz_readonly -d 'Whether nothing can be changed over ControlZ' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l ctrlz_token_file -d 'File with a token that callers of ControlZ must know: `Authorization: Bearer TOKEN`, or the form that browsers get' -r -F
complete -c mixs -n "__fish_mixs_using_subcommand server" -l ctrlz_allowed_hosts -d 'Names under which ControlZ may be called, beside localhost and addresses. Example: ops.example.com,mixer' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l profile -d 'Whether profiles are served below /debug/pprof of the monitoring port' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l legacy-metrics -d 'Show metrics under the names of Mixer 1.0 as well, for dashboards of that time' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l heap-profile-rate -d 'Bytes of allocations of which one is noted, with its stack, for /debug/pprof/heap; 0 notes them only while that is asked for' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l loadsheddingMode -d 'What happens to calls over the limits: disabled, logonly or enforce' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l averageLatencyThreshold -d 'Highest mean latency; 0s means no such limit' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l latencySamplesPerSecond -d 'Most latencies measured per second' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l latencySampleHalflife -d 'After how long a measured latency counts half' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l maxRequestsPerSecond -d 'Most calls per second; a Report counts its attribute sets; 0 means no such limit' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l burstSize -d 'Calls let through beyond that rate' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l load-shedding-check-reserve -d 'Share of the limits above that is kept for checks: reports are refused that much earlier. From 0 to 1' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l load-shedding-fair -d 'Make callers share what there is: those who use more than the mean are refused first' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l log_target -d 'Where log records go: a file, stdout or stderr; repeat for several' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l log_rotate -d 'An additional file, rotated' -r -F
complete -c mixs -n "__fish_mixs_using_subcommand server" -l log_rotate_max_size -d 'Size of that file before it is rotated, in MiB' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l log_rotate_max_age -d 'Days that rotated files are kept; 0 means for ever' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l log_rotate_max_backups -d 'Rotated files that are kept; 0 means all' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l log_as_json -d 'Write log records as JSON objects' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l log_output_level -d 'What is logged: `[scope:]level,…` with the levels none, fatal, error, warn, info, debug' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l log_stacktrace_level -d 'From which level on records carry a stack: `[scope:]level,…`' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l log_caller -d 'Scopes whose records name their place in the source' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l trace_zipkin_url -d 'URL of a Zipkin collector. Example: http://zipkin:9411/api/v1/spans' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l trace_jaeger_url -d 'URL of a Jaeger collector. Example: http://jaeger:14268/api/traces?format=jaeger.thrift' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l trace_otlp_url -d 'URL of an OpenTelemetry collector (OTLP over HTTP). Example: http://collector:4318/v1/traces' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l trace_log_spans -d 'Write a log record for every span' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l trace_sampling_rate -d 'Share of new traces that are kept, from 0 to 1' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l decision-log -d 'File that gets a JSON line for every check that is decided: attributes, answer, rules, handlers, time taken' -r -F
complete -c mixs -n "__fish_mixs_using_subcommand server" -l decision-log-sampling -d 'Share of the checks that are logged, from 0 to 1' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l decision-log-select -d 'Which of them are written' -r -f -a "all\t'All'
denied\t'Refusals, failures, quotas not granted in full, and what a rule in dry run would have refused'"
complete -c mixs -n "__fish_mixs_using_subcommand server" -l decision-log-max-size -d 'Size of the file before it is rotated. Example: 100MiB' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l decision-log-max-backups -d 'Rotated files that are kept; 0 means all' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l decision-queue -d 'Decisions that may wait to be written; more are counted as lost' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l decision-mask -d 'Attributes and keys of maps whose values are written as `***`, in log and recording: a name, or a name with a key in square brackets; comma-separated' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l record-requests -d 'File that gets the first calls, with attributes and answers, for `mixer diff`' -r -F
complete -c mixs -n "__fish_mixs_using_subcommand server" -l record-max-requests -d 'Most calls in that file' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l record-max-size -d 'Most bytes in that file. Example: 64MiB' -r
complete -c mixs -n "__fish_mixs_using_subcommand server" -l print-config -d 'Print all settings and where each comes from, then exit'
complete -c mixs -n "__fish_mixs_using_subcommand server" -l dry-run -d 'Go through the start, say what would be served, then exit'
complete -c mixs -n "__fish_mixs_using_subcommand server" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mixs -n "__fish_mixs_using_subcommand probe" -l probe-path -d 'File to inspect' -r -F
complete -c mixs -n "__fish_mixs_using_subcommand probe" -l interval -d 'How old the file may be, and how often --watch looks' -r
complete -c mixs -n "__fish_mixs_using_subcommand probe" -l grpc -d 'Server to ask by its gRPC health service: host:port or unix:///path; may be repeated' -r
complete -c mixs -n "__fish_mixs_using_subcommand probe" -l service -d 'What to ask that service for: empty or istio.mixer.v1.Mixer for ready, `liveness` for alive' -r
complete -c mixs -n "__fish_mixs_using_subcommand probe" -l http -d 'URL that must answer with a status of success; may be repeated. Example: http://localhost:15014/readyz' -r
complete -c mixs -n "__fish_mixs_using_subcommand probe" -l timeout -d 'Limit of one question over the network' -r
complete -c mixs -n "__fish_mixs_using_subcommand probe" -s o -l output -d 'How the result is written' -r -f -a "plain\t'One line'
json\t'One document; with --watch one line a change'"
complete -c mixs -n "__fish_mixs_using_subcommand probe" -l ca-file -d 'Roots that the server is checked against, PEM; without it those of the system' -r -F
complete -c mixs -n "__fish_mixs_using_subcommand probe" -l cert-file -d 'Certificate to show to the server, with its chain, PEM' -r -F
complete -c mixs -n "__fish_mixs_using_subcommand probe" -l key-file -d 'Key of that certificate, PEM' -r -F
complete -c mixs -n "__fish_mixs_using_subcommand probe" -l server-name -d 'Name that the certificate of the server must carry; without it the host that is called' -r
complete -c mixs -n "__fish_mixs_using_subcommand probe" -l log_target -d 'Where log records go: a file, stdout or stderr; repeat for several' -r
complete -c mixs -n "__fish_mixs_using_subcommand probe" -l log_rotate -d 'An additional file, rotated' -r -F
complete -c mixs -n "__fish_mixs_using_subcommand probe" -l log_rotate_max_size -d 'Size of that file before it is rotated, in MiB' -r
complete -c mixs -n "__fish_mixs_using_subcommand probe" -l log_rotate_max_age -d 'Days that rotated files are kept; 0 means for ever' -r
complete -c mixs -n "__fish_mixs_using_subcommand probe" -l log_rotate_max_backups -d 'Rotated files that are kept; 0 means all' -r
complete -c mixs -n "__fish_mixs_using_subcommand probe" -l log_as_json -d 'Write log records as JSON objects' -r
complete -c mixs -n "__fish_mixs_using_subcommand probe" -l log_output_level -d 'What is logged: `[scope:]level,…` with the levels none, fatal, error, warn, info, debug' -r
complete -c mixs -n "__fish_mixs_using_subcommand probe" -l log_stacktrace_level -d 'From which level on records carry a stack: `[scope:]level,…`' -r
complete -c mixs -n "__fish_mixs_using_subcommand probe" -l log_caller -d 'Scopes whose records name their place in the source' -r
complete -c mixs -n "__fish_mixs_using_subcommand probe" -l watch -d 'Keep looking and print every change, until SIGINT'
complete -c mixs -n "__fish_mixs_using_subcommand probe" -l tls -d 'Speak TLS with the server; any other flag of this group means this one as well'
complete -c mixs -n "__fish_mixs_using_subcommand probe" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mixs -n "__fish_mixs_using_subcommand version" -s s -l short -d 'Print the version alone' -r
complete -c mixs -n "__fish_mixs_using_subcommand version" -s o -l output -d 'One of \'yaml\' or \'json\'; wins over --short' -r
complete -c mixs -n "__fish_mixs_using_subcommand version" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mixs -n "__fish_mixs_using_subcommand crd; and not __fish_seen_subcommand_from all adapter instance help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mixs -n "__fish_mixs_using_subcommand crd; and not __fish_seen_subcommand_from all adapter instance help" -f -a "all" -d 'List all kinds: core, adapters, instances'
complete -c mixs -n "__fish_mixs_using_subcommand crd; and not __fish_seen_subcommand_from all adapter instance help" -f -a "adapter" -d 'List the kinds that are named like adapters'
complete -c mixs -n "__fish_mixs_using_subcommand crd; and not __fish_seen_subcommand_from all adapter instance help" -f -a "instance" -d 'List the kinds that are named like templates'
complete -c mixs -n "__fish_mixs_using_subcommand crd; and not __fish_seen_subcommand_from all adapter instance help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c mixs -n "__fish_mixs_using_subcommand crd; and __fish_seen_subcommand_from all" -l api-version -d 'Version of the definitions: v1beta1 or v1' -r -f -a "v1beta1\t''
v1\t''"
complete -c mixs -n "__fish_mixs_using_subcommand crd; and __fish_seen_subcommand_from all" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mixs -n "__fish_mixs_using_subcommand crd; and __fish_seen_subcommand_from adapter" -l api-version -d 'Version of the definitions: v1beta1 or v1' -r -f -a "v1beta1\t''
v1\t''"
complete -c mixs -n "__fish_mixs_using_subcommand crd; and __fish_seen_subcommand_from adapter" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mixs -n "__fish_mixs_using_subcommand crd; and __fish_seen_subcommand_from instance" -l api-version -d 'Version of the definitions: v1beta1 or v1' -r -f -a "v1beta1\t''
v1\t''"
complete -c mixs -n "__fish_mixs_using_subcommand crd; and __fish_seen_subcommand_from instance" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mixs -n "__fish_mixs_using_subcommand crd; and __fish_seen_subcommand_from help" -f -a "all" -d 'List all kinds: core, adapters, instances'
complete -c mixs -n "__fish_mixs_using_subcommand crd; and __fish_seen_subcommand_from help" -f -a "adapter" -d 'List the kinds that are named like adapters'
complete -c mixs -n "__fish_mixs_using_subcommand crd; and __fish_seen_subcommand_from help" -f -a "instance" -d 'List the kinds that are named like templates'
complete -c mixs -n "__fish_mixs_using_subcommand crd; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c mixs -n "__fish_mixs_using_subcommand collateral" -s o -l outputDir -d 'Directory that the files are written into' -r -F
complete -c mixs -n "__fish_mixs_using_subcommand collateral" -l all -d 'Write every kind of file'
complete -c mixs -n "__fish_mixs_using_subcommand collateral" -l markdown -d 'Write Markdown pages'
complete -c mixs -n "__fish_mixs_using_subcommand collateral" -l man -d 'Write manual pages'
complete -c mixs -n "__fish_mixs_using_subcommand collateral" -l bash -d 'Write a completion script for bash'
complete -c mixs -n "__fish_mixs_using_subcommand collateral" -l zsh -d 'Write a completion script for zsh'
complete -c mixs -n "__fish_mixs_using_subcommand collateral" -l yaml -d 'Write a description of all commands as YAML'
complete -c mixs -n "__fish_mixs_using_subcommand collateral" -l html_fragment_with_front_matter -d 'Write an HTML page with front matter'
complete -c mixs -n "__fish_mixs_using_subcommand collateral" -s h -l help -d 'Print help'
complete -c mixs -n "__fish_mixs_using_subcommand help; and not __fish_seen_subcommand_from server probe version crd collateral help" -f -a "server" -d 'Start the server'
complete -c mixs -n "__fish_mixs_using_subcommand help; and not __fish_seen_subcommand_from server probe version crd collateral help" -f -a "probe" -d 'Tell whether a server is alive or ready'
complete -c mixs -n "__fish_mixs_using_subcommand help; and not __fish_seen_subcommand_from server probe version crd collateral help" -f -a "version" -d 'Print versions of program and build'
complete -c mixs -n "__fish_mixs_using_subcommand help; and not __fish_seen_subcommand_from server probe version crd collateral help" -f -a "crd" -d 'Print the custom resource definitions of all kinds'
complete -c mixs -n "__fish_mixs_using_subcommand help; and not __fish_seen_subcommand_from server probe version crd collateral help" -f -a "collateral" -d 'Write documentation and completion files into a directory'
complete -c mixs -n "__fish_mixs_using_subcommand help; and not __fish_seen_subcommand_from server probe version crd collateral help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c mixs -n "__fish_mixs_using_subcommand help; and __fish_seen_subcommand_from crd" -f -a "all" -d 'List all kinds: core, adapters, instances'
complete -c mixs -n "__fish_mixs_using_subcommand help; and __fish_seen_subcommand_from crd" -f -a "adapter" -d 'List the kinds that are named like adapters'
complete -c mixs -n "__fish_mixs_using_subcommand help; and __fish_seen_subcommand_from crd" -f -a "instance" -d 'List the kinds that are named like templates'
