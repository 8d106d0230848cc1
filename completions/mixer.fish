# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_mixer_global_optspecs
    string join \n color= error-format= h/help V/version
end

function __fish_mixer_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_mixer_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_mixer_using_subcommand
    set -l cmd (__fish_mixer_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c mixer -n "__fish_mixer_needs_command" -l color -d 'When to use colours' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb; always with CLICOLOR_FORCE'
always\t'Always'
never\t'Never'"
complete -c mixer -n "__fish_mixer_needs_command" -l error-format -d 'How failures are written to standard error' -r -f -a "text\t'`error:`, `cause:` and `hint:` lines'
json\t'One JSON document on one line'"
complete -c mixer -n "__fish_mixer_needs_command" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mixer -n "__fish_mixer_needs_command" -s V -l version -d 'Print version'
complete -c mixer -n "__fish_mixer_needs_command" -f -a "server" -d 'Start the server'
complete -c mixer -n "__fish_mixer_needs_command" -f -a "check" -d 'Ask a server, or a configuration, whether a request may pass'
complete -c mixer -n "__fish_mixer_needs_command" -f -a "report" -d 'Report to a server, or to a configuration, what happened'
complete -c mixer -n "__fish_mixer_needs_command" -f -a "probe" -d 'Tell whether a server is alive or ready'
complete -c mixer -n "__fish_mixer_needs_command" -f -a "validate" -d 'Find everything that is wrong with a configuration'
complete -c mixer -n "__fish_mixer_needs_command" -f -a "doctor" -d 'Find what would keep a server from starting, or trouble it before long'
complete -c mixer -n "__fish_mixer_needs_command" -f -a "test" -d 'Run declared requests against a configuration, without a server'
complete -c mixer -n "__fish_mixer_needs_command" -f -a "diff" -d 'Tell which recorded decisions a change of configuration alters, and why'
complete -c mixer -n "__fish_mixer_needs_command" -f -a "snapshot" -d 'Show the configuration as the engine understands it'
complete -c mixer -n "__fish_mixer_needs_command" -f -a "routes" -d 'Show which requests reach which handlers'
complete -c mixer -n "__fish_mixer_needs_command" -f -a "version" -d 'Print versions of program and build'
complete -c mixer -n "__fish_mixer_needs_command" -f -a "crd" -d 'Print the custom resource definitions of all kinds'
complete -c mixer -n "__fish_mixer_needs_command" -f -a "completions" -d 'Print a completion script for a shell'
complete -c mixer -n "__fish_mixer_needs_command" -f -a "man" -d 'Print or write manual pages'
complete -c mixer -n "__fish_mixer_needs_command" -f -a "collateral" -d 'Write documentation and completion files into a directory'
complete -c mixer -n "__fish_mixer_needs_command" -f -a "legacy" -d 'Behave like mixs, mixc or galley of the originals'
complete -c mixer -n "__fish_mixer_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c mixer -n "__fish_mixer_using_subcommand server" -l config-file -d 'File with settings, YAML or TOML; names are those of the flags' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand server" -s p -l port -d 'TCP port of the gRPC API on all interfaces; used if --address is empty' -r
complete -c mixer -n "__fish_mixer_using_subcommand server" -l address -d 'Address of the gRPC API: tcp://127.0.0.1:9091 or unix:///run/mixer.sock' -r
complete -c mixer -n "__fish_mixer_using_subcommand server" -l socket-mode -d 'Permissions of the file of a unix socket, octal. Example: 0660' -r
complete -c mixer -n "__fish_mixer_using_subcommand server" -l grpc-reflection -d 'Whether generic gRPC clients are told which services there are: auto means if only this machine can reach the API' -r -f -a "auto\t'Where only callers on this machine can reach the API'
on\t'To everybody'
off\t'To nobody'"
complete -c mixer -n "__fish_mixer_using_subcommand server" -l monitoring-port -d 'HTTP port of metrics, version, health and profiles, on all interfaces' -r
complete -c mixer -n "__fish_mixer_using_subcommand server" -l metrics-port -d 'HTTP port of the metrics of all prometheus handlers, on all interfaces' -r
complete -c mixer -n "__fish_mixer_using_subcommand server" -l tls-cert-file -d 'Certificate of the server with its chain, PEM; callers on TCP must then speak TLS' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand server" -l tls-key-file -d 'Key of that certificate, PEM' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand server" -l tls-client-ca-file -d 'Roots that certificates of callers are checked against, PEM; callers are asked for one then' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand server" -l tls-client-auth -d 'Whether callers must show a certificate' -r -f -a "require\t'Those without one are refused'
optional\t'One that is shown must be good'"
complete -c mixer -n "__fish_mixer_using_subcommand server" -l tls-min-version -d 'Oldest version of TLS that is spoken' -r -f -a "1.2\t'TLS 1.2'
1.3\t'TLS 1.3'"
complete -c mixer -n "__fish_mixer_using_subcommand server" -l tls-allowed-peers -d 'Callers that are let in, by a URI or DNS name in their certificate: NAME,NAME,…; a name may begin or end with `*`' -r
complete -c mixer -n "__fish_mixer_using_subcommand server" -l config-store-url -d 'Store of the configuration: fs://DIR, k8s://KUBECONFIG, mcp://HOST:PORT, mcps://HOST:PORT or embedded://sample' -r
complete -c mixer -n "__fish_mixer_using_subcommand server" -l config-default-namespace -d 'Namespace of mesh-wide rules' -r
complete -c mixer -n "__fish_mixer_using_subcommand server" -l config-wait-timeout -d 'How long to wait for the first configuration of a remote store' -r
complete -c mixer -n "__fish_mixer_using_subcommand server" -l config-loss -d 'What becomes of the configuration when its directory disappears: keep or drop' -r -f -a "keep\t''
drop\t''"
complete -c mixer -n "__fish_mixer_using_subcommand server" -l cert-file -d 'Certificate for mcps:// stores' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand server" -l key-file -d 'Key of that certificate' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand server" -l ca-cert-file -d 'Roots that mcps:// stores are checked against' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand server" -l use-adapter-crds -d 'Whether kinds that are named like adapters are read' -r
complete -c mixer -n "__fish_mixer_using_subcommand server" -l use-template-crds -d 'Whether kinds that are named like templates are read' -r
complete -c mixer -n "__fish_mixer_using_subcommand server" -l concurrency -d 'Worker threads, each with its own event loop and connections; 0 means one a core' -r
complete -c mixer -n "__fish_mixer_using_subcommand server" -l single-threaded -d 'Run everything on one thread' -r
complete -c mixer -n "__fish_mixer_using_subcommand server" -l max-message-size -d 'Largest gRPC message in bytes; units are understood. Example: 4MiB' -r
complete -c mixer -n "__fish_mixer_using_subcommand server" -l max-concurrent-streams -d 'Most calls in flight on one connection' -r
complete -c mixer -n "__fish_mixer_using_subcommand server" -l max-connection-age -d 'Age at which callers are asked to make a new connection, so that they spread over the servers there are; 0s means never. Example: 30m' -r
complete -c mixer -n "__fish_mixer_using_subcommand server" -l api-worker-pool-size -d 'Most API calls in flight that wait for something' -r
complete -c mixer -n "__fish_mixer_using_subcommand server" -l api-worker-pool-floor -d 'Let that bound follow the load: it begins here and does not fall below; 0 keeps it fixed' -r
complete -c mixer -n "__fish_mixer_using_subcommand server" -l api-queue-length -d 'Most API calls that wait for their turn; beyond that they are refused' -r
complete -c mixer -n "__fish_mixer_using_subcommand server" -l adapter-worker-pool-size -d 'Most calls in flight of one handler that waits for the network' -r
complete -c mixer -n "__fish_mixer_using_subcommand server" -l adapter-worker-pool-floor -d 'Let that bound follow the load: it begins here and does not fall below; 0 keeps it fixed' -r
complete -c mixer -n "__fish_mixer_using_subcommand server" -l adapter-queue-length -d 'Most calls that wait for their turn with one handler; beyond that they fail' -r
complete -c mixer -n "__fish_mixer_using_subcommand server" -l num-check-cache-entries -d 'Turns the check cache on and bounds its entries; 0 turns it off' -r
complete -c mixer -n "__fish_mixer_using_subcommand server" -l liveness-probe-path -d 'File that is kept fresh while the server is alive' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand server" -l liveness-probe-interval -d 'How old that file may get; it is refreshed twice as often. Example: 2s' -r
complete -c mixer -n "__fish_mixer_using_subcommand server" -l readiness-probe-path -d 'File that is kept fresh while the server is ready' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand server" -l readiness-probe-interval -d 'How old that file may get; it is refreshed twice as often. Example: 2s' -r
complete -c mixer -n "__fish_mixer_using_subcommand server" -l pid-file -d 'File that holds the number of the process while it runs. Example: /run/mixer.pid' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand server" -l drain-delay -d 'Pause between "not ready" and the end of accepting calls, at shutdown' -r
complete -c mixer -n "__fish_mixer_using_subcommand server" -l shutdown-timeout -d 'Limit of the whole shutdown; what is left then is cut off' -r
complete -c mixer -n "__fish_mixer_using_subcommand server" -l envoy-bridge -d 'Whether Envoy is answered on the port of the API: authorization, access logs and rate limits' -r
complete -c mixer -n "__fish_mixer_using_subcommand server" -l envoy-http-address -d 'Address of authorization over HTTP, and of rate limits as JSON. Example: 127.0.0.1:9191' -r
complete -c mixer -n "__fish_mixer_using_subcommand server" -l ctrlz-port -d 'Port of the ControlZ introspection pages; 0 turns them off' -r
complete -c mixer -n "__fish_mixer_using_subcommand server" -l ctrlz-address -d 'Address of the ControlZ introspection pages; `*` means all interfaces' -r
complete -c mixer -n "__fish_mixer_using_subcommand server" -l ctrlz-readonly -d 'Whether nothing can be changed over ControlZ' -r
complete -c mixer -n "__fish_mixer_using_subcommand server" -l ctrlz-token-file -d 'File with a token that callers of ControlZ must know: `Authorization: Bearer TOKEN`, or the form that browsers get' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand server" -l ctrlz-allowed-hosts -d 'Names under which ControlZ may be called, beside localhost and addresses. Example: ops.example.com,mixer' -r
complete -c mixer -n "__fish_mixer_using_subcommand server" -l profile -d 'Whether profiles are served below /debug/pprof of the monitoring port' -r
complete -c mixer -n "__fish_mixer_using_subcommand server" -l legacy-metrics -d 'Show metrics under the names of Mixer 1.0 as well, for dashboards of that time' -r
complete -c mixer -n "__fish_mixer_using_subcommand server" -l heap-profile-rate -d 'Bytes of allocations of which one is noted, with its stack, for /debug/pprof/heap; 0 notes them only while that is asked for' -r
complete -c mixer -n "__fish_mixer_using_subcommand server" -l load-shedding-mode -d 'What happens to calls over the limits: disabled, logonly or enforce' -r
complete -c mixer -n "__fish_mixer_using_subcommand server" -l average-latency-threshold -d 'Highest mean latency; 0s means no such limit' -r
complete -c mixer -n "__fish_mixer_using_subcommand server" -l latency-samples-per-second -d 'Most latencies measured per second' -r
complete -c mixer -n "__fish_mixer_using_subcommand server" -l latency-sample-half-life -d 'After how long a measured latency counts half' -r
complete -c mixer -n "__fish_mixer_using_subcommand server" -l max-requests-per-second -d 'Most calls per second; a Report counts its attribute sets; 0 means no such limit' -r
complete -c mixer -n "__fish_mixer_using_subcommand server" -l burst-size -d 'Calls let through beyond that rate' -r
complete -c mixer -n "__fish_mixer_using_subcommand server" -l load-shedding-check-reserve -d 'Share of the limits above that is kept for checks: reports are refused that much earlier. From 0 to 1' -r
complete -c mixer -n "__fish_mixer_using_subcommand server" -l load-shedding-fair -d 'Make callers share what there is: those who use more than the mean are refused first' -r
complete -c mixer -n "__fish_mixer_using_subcommand server" -l log-target -d 'Where log records go: a file, stdout or stderr; repeat for several' -r
complete -c mixer -n "__fish_mixer_using_subcommand server" -l log-rotate -d 'An additional file, rotated' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand server" -l log-rotate-max-size -d 'Size of that file before it is rotated, in MiB' -r
complete -c mixer -n "__fish_mixer_using_subcommand server" -l log-rotate-max-age -d 'Days that rotated files are kept; 0 means for ever' -r
complete -c mixer -n "__fish_mixer_using_subcommand server" -l log-rotate-max-backups -d 'Rotated files that are kept; 0 means all' -r
complete -c mixer -n "__fish_mixer_using_subcommand server" -l log-as-json -d 'Write log records as JSON objects' -r
complete -c mixer -n "__fish_mixer_using_subcommand server" -l log-output-level -d 'What is logged: `[scope:]level,…` with the levels none, fatal, error, warn, info, debug' -r
complete -c mixer -n "__fish_mixer_using_subcommand server" -l log-stacktrace-level -d 'From which level on records carry a stack: `[scope:]level,…`' -r
complete -c mixer -n "__fish_mixer_using_subcommand server" -l log-caller -d 'Scopes whose records name their place in the source' -r
complete -c mixer -n "__fish_mixer_using_subcommand server" -l trace-zipkin-url -d 'URL of a Zipkin collector. Example: http://zipkin:9411/api/v1/spans' -r
complete -c mixer -n "__fish_mixer_using_subcommand server" -l trace-jaeger-url -d 'URL of a Jaeger collector. Example: http://jaeger:14268/api/traces?format=jaeger.thrift' -r
complete -c mixer -n "__fish_mixer_using_subcommand server" -l trace-otlp-url -d 'URL of an OpenTelemetry collector (OTLP over HTTP). Example: http://collector:4318/v1/traces' -r
complete -c mixer -n "__fish_mixer_using_subcommand server" -l trace-log-spans -d 'Write a log record for every span' -r
complete -c mixer -n "__fish_mixer_using_subcommand server" -l trace-sampling-rate -d 'Share of new traces that are kept, from 0 to 1' -r
complete -c mixer -n "__fish_mixer_using_subcommand server" -l decision-log -d 'File that gets a JSON line for every check that is decided: attributes, answer, rules, handlers, time taken' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand server" -l decision-log-sampling -d 'Share of the checks that are logged, from 0 to 1' -r
complete -c mixer -n "__fish_mixer_using_subcommand server" -l decision-log-select -d 'Which of them are written' -r -f -a "all\t'All'
denied\t'Refusals, failures, quotas not granted in full, and what a rule in dry run would have refused'"
complete -c mixer -n "__fish_mixer_using_subcommand server" -l decision-log-max-size -d 'Size of the file before it is rotated. Example: 100MiB' -r
complete -c mixer -n "__fish_mixer_using_subcommand server" -l decision-log-max-backups -d 'Rotated files that are kept; 0 means all' -r
complete -c mixer -n "__fish_mixer_using_subcommand server" -l decision-queue -d 'Decisions that may wait to be written; more are counted as lost' -r
complete -c mixer -n "__fish_mixer_using_subcommand server" -l decision-mask -d 'Attributes and keys of maps whose values are written as `***`, in log and recording: a name, or a name with a key in square brackets; comma-separated' -r
complete -c mixer -n "__fish_mixer_using_subcommand server" -l record-requests -d 'File that gets the first calls, with attributes and answers, for `mixer diff`' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand server" -l record-max-requests -d 'Most calls in that file' -r
complete -c mixer -n "__fish_mixer_using_subcommand server" -l record-max-size -d 'Most bytes in that file. Example: 64MiB' -r
complete -c mixer -n "__fish_mixer_using_subcommand server" -l color -d 'When to use colours' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb; always with CLICOLOR_FORCE'
always\t'Always'
never\t'Never'"
complete -c mixer -n "__fish_mixer_using_subcommand server" -l error-format -d 'How failures are written to standard error' -r -f -a "text\t'`error:`, `cause:` and `hint:` lines'
json\t'One JSON document on one line'"
complete -c mixer -n "__fish_mixer_using_subcommand server" -l print-config -d 'Print all settings and where each comes from, then exit'
complete -c mixer -n "__fish_mixer_using_subcommand server" -l dry-run -d 'Go through the start, say what would be served, then exit'
complete -c mixer -n "__fish_mixer_using_subcommand server" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mixer -n "__fish_mixer_using_subcommand check" -s m -l mixer -d 'Server to call: host:port, dns:///host:port, unix:///path or unix:path' -r
complete -c mixer -n "__fish_mixer_using_subcommand check" -l config -d 'Configuration to run the call on, in this process, without a server: fs://DIR or embedded://sample' -r
complete -c mixer -n "__fish_mixer_using_subcommand check" -l default-namespace -d 'Namespace of mesh-wide rules' -r
complete -c mixer -n "__fish_mixer_using_subcommand check" -s a -l attributes -d 'Attributes whose type is sensed: name1=value1,name2=value2,…' -r
complete -c mixer -n "__fish_mixer_using_subcommand check" -s s -l string-attributes -d 'Text attributes: name1=value1,name2=value2,…' -r
complete -c mixer -n "__fish_mixer_using_subcommand check" -s i -l int64-attributes -d 'Whole number attributes: name1=1,name2=2,…' -r
complete -c mixer -n "__fish_mixer_using_subcommand check" -s d -l double-attributes -d 'Floating point attributes: name1=0.5,name2=1e3,…' -r
complete -c mixer -n "__fish_mixer_using_subcommand check" -s b -l bool-attributes -d 'Truth attributes: name1=true,name2=false,…' -r
complete -c mixer -n "__fish_mixer_using_subcommand check" -s t -l timestamp-attributes -d 'Time attributes: name1=2017-07-04T00:01:10Z,…' -r
complete -c mixer -n "__fish_mixer_using_subcommand check" -l duration-attributes -d 'Duration attributes: name1=250ms,name2=1h30m,…' -r
complete -c mixer -n "__fish_mixer_using_subcommand check" -l bytes-attributes -d 'Bytes attributes, for example addresses: name1=c0:0:0:2,…' -r
complete -c mixer -n "__fish_mixer_using_subcommand check" -l stringmap-attributes -d 'Map attributes: name1=key1:value1;key2:value2,…' -r
complete -c mixer -n "__fish_mixer_using_subcommand check" -l attributes-file -d 'YAML or JSON file with attributes; `@-` reads standard input. Flags win over the file' -r
complete -c mixer -n "__fish_mixer_using_subcommand check" -l dictionary -d 'Which words are sent as indexes of the list that every peer knows' -r -f -a "message\t'None: the message carries all of its words, as the originals send it'
global\t'All that it has'"
complete -c mixer -n "__fish_mixer_using_subcommand check" -s r -l repeat -d 'How often each worker repeats the call; nothing is sent from 0 down' -r
complete -c mixer -n "__fish_mixer_using_subcommand check" -s c -l concurrency -d 'Workers that call at the same time' -r
complete -c mixer -n "__fish_mixer_using_subcommand check" -l rate -d 'Most calls per second, all workers together; no limit from 0 down' -r
complete -c mixer -n "__fish_mixer_using_subcommand check" -l report-batch-size -d 'Attribute sets in one report' -r
complete -c mixer -n "__fish_mixer_using_subcommand check" -l timeout -d 'Limit of one call. Example: 5s' -r
complete -c mixer -n "__fish_mixer_using_subcommand check" -l ca-file -d 'Roots that the server is checked against, PEM; without it those of the system' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand check" -l cert-file -d 'Certificate to show to the server, with its chain, PEM' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand check" -l key-file -d 'Key of that certificate, PEM' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand check" -l server-name -d 'Name that the certificate of the server must carry; without it the host that is called' -r
complete -c mixer -n "__fish_mixer_using_subcommand check" -l print-response -d 'Print the answers; failures are printed anyway by `check`' -r
complete -c mixer -n "__fish_mixer_using_subcommand check" -s o -l output -d 'How answers are written; a table on a terminal, else plain' -r -f -a "table\t'For people'
plain\t'The text of the originals'
json\t'One document'
json-lines\t'One document a line'
yaml\t'One document an answer'"
complete -c mixer -n "__fish_mixer_using_subcommand check" -l trace-zipkin-url -d 'URL of a Zipkin collector. Example: http://zipkin:9411/api/v1/spans' -r
complete -c mixer -n "__fish_mixer_using_subcommand check" -l trace-jaeger-url -d 'URL of a Jaeger collector. Example: http://jaeger:14268/api/traces?format=jaeger.thrift' -r
complete -c mixer -n "__fish_mixer_using_subcommand check" -l trace-otlp-url -d 'URL of an OpenTelemetry collector (OTLP over HTTP). Example: http://collector:4318/v1/traces' -r
complete -c mixer -n "__fish_mixer_using_subcommand check" -l trace-log-spans -d 'Write a log record for every span' -r
complete -c mixer -n "__fish_mixer_using_subcommand check" -l trace-sampling-rate -d 'Share of new traces that are kept, from 0 to 1' -r
complete -c mixer -n "__fish_mixer_using_subcommand check" -s q -l quotas -d 'Quotas to ask for: name1=amount1,name2=amount2,…' -r
complete -c mixer -n "__fish_mixer_using_subcommand check" -l color -d 'When to use colours' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb; always with CLICOLOR_FORCE'
always\t'Always'
never\t'Never'"
complete -c mixer -n "__fish_mixer_using_subcommand check" -l error-format -d 'How failures are written to standard error' -r -f -a "text\t'`error:`, `cause:` and `hint:` lines'
json\t'One JSON document on one line'"
complete -c mixer -n "__fish_mixer_using_subcommand check" -l wait-for-ready -d 'Wait for a server that cannot be reached yet, at most --timeout'
complete -c mixer -n "__fish_mixer_using_subcommand check" -l tls -d 'Speak TLS with the server; any other flag of this group means this one as well'
complete -c mixer -n "__fish_mixer_using_subcommand check" -l quiet -d 'No progress bar and no summary'
complete -c mixer -n "__fish_mixer_using_subcommand check" -l exit-zero -d 'End with status 0 whatever the answers are'
complete -c mixer -n "__fish_mixer_using_subcommand check" -l native-exit-codes -d 'End with the statuses of `mixer` when called by the name mixc'
complete -c mixer -n "__fish_mixer_using_subcommand check" -l require-quota -d 'End with status 1 unless every quota is granted in full'
complete -c mixer -n "__fish_mixer_using_subcommand check" -l explain -d 'Tell why: which rules were considered, how far each condition went, near misses, and what every handler said'
complete -c mixer -n "__fish_mixer_using_subcommand check" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mixer -n "__fish_mixer_using_subcommand report" -s m -l mixer -d 'Server to call: host:port, dns:///host:port, unix:///path or unix:path' -r
complete -c mixer -n "__fish_mixer_using_subcommand report" -l config -d 'Configuration to run the call on, in this process, without a server: fs://DIR or embedded://sample' -r
complete -c mixer -n "__fish_mixer_using_subcommand report" -l default-namespace -d 'Namespace of mesh-wide rules' -r
complete -c mixer -n "__fish_mixer_using_subcommand report" -s a -l attributes -d 'Attributes whose type is sensed: name1=value1,name2=value2,…' -r
complete -c mixer -n "__fish_mixer_using_subcommand report" -s s -l string-attributes -d 'Text attributes: name1=value1,name2=value2,…' -r
complete -c mixer -n "__fish_mixer_using_subcommand report" -s i -l int64-attributes -d 'Whole number attributes: name1=1,name2=2,…' -r
complete -c mixer -n "__fish_mixer_using_subcommand report" -s d -l double-attributes -d 'Floating point attributes: name1=0.5,name2=1e3,…' -r
complete -c mixer -n "__fish_mixer_using_subcommand report" -s b -l bool-attributes -d 'Truth attributes: name1=true,name2=false,…' -r
complete -c mixer -n "__fish_mixer_using_subcommand report" -s t -l timestamp-attributes -d 'Time attributes: name1=2017-07-04T00:01:10Z,…' -r
complete -c mixer -n "__fish_mixer_using_subcommand report" -l duration-attributes -d 'Duration attributes: name1=250ms,name2=1h30m,…' -r
complete -c mixer -n "__fish_mixer_using_subcommand report" -l bytes-attributes -d 'Bytes attributes, for example addresses: name1=c0:0:0:2,…' -r
complete -c mixer -n "__fish_mixer_using_subcommand report" -l stringmap-attributes -d 'Map attributes: name1=key1:value1;key2:value2,…' -r
complete -c mixer -n "__fish_mixer_using_subcommand report" -l attributes-file -d 'YAML or JSON file with attributes; `@-` reads standard input. Flags win over the file' -r
complete -c mixer -n "__fish_mixer_using_subcommand report" -l dictionary -d 'Which words are sent as indexes of the list that every peer knows' -r -f -a "message\t'None: the message carries all of its words, as the originals send it'
global\t'All that it has'"
complete -c mixer -n "__fish_mixer_using_subcommand report" -s r -l repeat -d 'How often each worker repeats the call; nothing is sent from 0 down' -r
complete -c mixer -n "__fish_mixer_using_subcommand report" -s c -l concurrency -d 'Workers that call at the same time' -r
complete -c mixer -n "__fish_mixer_using_subcommand report" -l rate -d 'Most calls per second, all workers together; no limit from 0 down' -r
complete -c mixer -n "__fish_mixer_using_subcommand report" -l report-batch-size -d 'Attribute sets in one report' -r
complete -c mixer -n "__fish_mixer_using_subcommand report" -l timeout -d 'Limit of one call. Example: 5s' -r
complete -c mixer -n "__fish_mixer_using_subcommand report" -l ca-file -d 'Roots that the server is checked against, PEM; without it those of the system' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand report" -l cert-file -d 'Certificate to show to the server, with its chain, PEM' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand report" -l key-file -d 'Key of that certificate, PEM' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand report" -l server-name -d 'Name that the certificate of the server must carry; without it the host that is called' -r
complete -c mixer -n "__fish_mixer_using_subcommand report" -l print-response -d 'Print the answers; failures are printed anyway by `check`' -r
complete -c mixer -n "__fish_mixer_using_subcommand report" -s o -l output -d 'How answers are written; a table on a terminal, else plain' -r -f -a "table\t'For people'
plain\t'The text of the originals'
json\t'One document'
json-lines\t'One document a line'
yaml\t'One document an answer'"
complete -c mixer -n "__fish_mixer_using_subcommand report" -l trace-zipkin-url -d 'URL of a Zipkin collector. Example: http://zipkin:9411/api/v1/spans' -r
complete -c mixer -n "__fish_mixer_using_subcommand report" -l trace-jaeger-url -d 'URL of a Jaeger collector. Example: http://jaeger:14268/api/traces?format=jaeger.thrift' -r
complete -c mixer -n "__fish_mixer_using_subcommand report" -l trace-otlp-url -d 'URL of an OpenTelemetry collector (OTLP over HTTP). Example: http://collector:4318/v1/traces' -r
complete -c mixer -n "__fish_mixer_using_subcommand report" -l trace-log-spans -d 'Write a log record for every span' -r
complete -c mixer -n "__fish_mixer_using_subcommand report" -l trace-sampling-rate -d 'Share of new traces that are kept, from 0 to 1' -r
complete -c mixer -n "__fish_mixer_using_subcommand report" -l color -d 'When to use colours' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb; always with CLICOLOR_FORCE'
always\t'Always'
never\t'Never'"
complete -c mixer -n "__fish_mixer_using_subcommand report" -l error-format -d 'How failures are written to standard error' -r -f -a "text\t'`error:`, `cause:` and `hint:` lines'
json\t'One JSON document on one line'"
complete -c mixer -n "__fish_mixer_using_subcommand report" -l wait-for-ready -d 'Wait for a server that cannot be reached yet, at most --timeout'
complete -c mixer -n "__fish_mixer_using_subcommand report" -l tls -d 'Speak TLS with the server; any other flag of this group means this one as well'
complete -c mixer -n "__fish_mixer_using_subcommand report" -l quiet -d 'No progress bar and no summary'
complete -c mixer -n "__fish_mixer_using_subcommand report" -l exit-zero -d 'End with status 0 whatever the answers are'
complete -c mixer -n "__fish_mixer_using_subcommand report" -l native-exit-codes -d 'End with the statuses of `mixer` when called by the name mixc'
complete -c mixer -n "__fish_mixer_using_subcommand report" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mixer -n "__fish_mixer_using_subcommand probe" -l probe-path -d 'File to inspect' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand probe" -l interval -d 'How old the file may be, and how often --watch looks' -r
complete -c mixer -n "__fish_mixer_using_subcommand probe" -l grpc -d 'Server to ask by its gRPC health service: host:port or unix:///path; may be repeated' -r
complete -c mixer -n "__fish_mixer_using_subcommand probe" -l service -d 'What to ask that service for: empty or istio.mixer.v1.Mixer for ready, `liveness` for alive' -r
complete -c mixer -n "__fish_mixer_using_subcommand probe" -l http -d 'URL that must answer with a status of success; may be repeated. Example: http://localhost:15014/readyz' -r
complete -c mixer -n "__fish_mixer_using_subcommand probe" -l timeout -d 'Limit of one question over the network' -r
complete -c mixer -n "__fish_mixer_using_subcommand probe" -s o -l output -d 'How the result is written' -r -f -a "plain\t'One line'
json\t'One document; with --watch one line a change'"
complete -c mixer -n "__fish_mixer_using_subcommand probe" -l ca-file -d 'Roots that the server is checked against, PEM; without it those of the system' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand probe" -l cert-file -d 'Certificate to show to the server, with its chain, PEM' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand probe" -l key-file -d 'Key of that certificate, PEM' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand probe" -l server-name -d 'Name that the certificate of the server must carry; without it the host that is called' -r
complete -c mixer -n "__fish_mixer_using_subcommand probe" -l log-target -d 'Where log records go: a file, stdout or stderr; repeat for several' -r
complete -c mixer -n "__fish_mixer_using_subcommand probe" -l log-rotate -d 'An additional file, rotated' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand probe" -l log-rotate-max-size -d 'Size of that file before it is rotated, in MiB' -r
complete -c mixer -n "__fish_mixer_using_subcommand probe" -l log-rotate-max-age -d 'Days that rotated files are kept; 0 means for ever' -r
complete -c mixer -n "__fish_mixer_using_subcommand probe" -l log-rotate-max-backups -d 'Rotated files that are kept; 0 means all' -r
complete -c mixer -n "__fish_mixer_using_subcommand probe" -l log-as-json -d 'Write log records as JSON objects' -r
complete -c mixer -n "__fish_mixer_using_subcommand probe" -l log-output-level -d 'What is logged: `[scope:]level,…` with the levels none, fatal, error, warn, info, debug' -r
complete -c mixer -n "__fish_mixer_using_subcommand probe" -l log-stacktrace-level -d 'From which level on records carry a stack: `[scope:]level,…`' -r
complete -c mixer -n "__fish_mixer_using_subcommand probe" -l log-caller -d 'Scopes whose records name their place in the source' -r
complete -c mixer -n "__fish_mixer_using_subcommand probe" -l color -d 'When to use colours' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb; always with CLICOLOR_FORCE'
always\t'Always'
never\t'Never'"
complete -c mixer -n "__fish_mixer_using_subcommand probe" -l error-format -d 'How failures are written to standard error' -r -f -a "text\t'`error:`, `cause:` and `hint:` lines'
json\t'One JSON document on one line'"
complete -c mixer -n "__fish_mixer_using_subcommand probe" -l watch -d 'Keep looking and print every change, until SIGINT'
complete -c mixer -n "__fish_mixer_using_subcommand probe" -l tls -d 'Speak TLS with the server; any other flag of this group means this one as well'
complete -c mixer -n "__fish_mixer_using_subcommand probe" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mixer -n "__fish_mixer_using_subcommand validate" -l default-namespace -d 'Namespace of mesh-wide rules' -r
complete -c mixer -n "__fish_mixer_using_subcommand validate" -l live -d 'Show what would change in a running server: host and port of its ControlZ endpoint. Example: localhost:9876' -r
complete -c mixer -n "__fish_mixer_using_subcommand validate" -s o -l output -d 'How findings are written; a table on a terminal, else plain' -r -f -a "table\t'Tables and excerpts for people'
plain\t'One line a result'
json\t'One document'
yaml\t'The same document'"
complete -c mixer -n "__fish_mixer_using_subcommand validate" -l color -d 'When to use colours' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb; always with CLICOLOR_FORCE'
always\t'Always'
never\t'Never'"
complete -c mixer -n "__fish_mixer_using_subcommand validate" -l error-format -d 'How failures are written to standard error' -r -f -a "text\t'`error:`, `cause:` and `hint:` lines'
json\t'One JSON document on one line'"
complete -c mixer -n "__fish_mixer_using_subcommand validate" -l strict -d 'Count warnings as errors'
complete -c mixer -n "__fish_mixer_using_subcommand validate" -l lint -d 'Look for what works but is hardly meant: unused handlers and instances, constant conditions, rules that never differ'
complete -c mixer -n "__fish_mixer_using_subcommand validate" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -s o -l output -d 'How findings are written; a table on a terminal, else plain' -r -f -a "table\t'Tables and excerpts for people'
plain\t'One line a result'
json\t'One document'
yaml\t'The same document'"
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l color -d 'When to use colours' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb; always with CLICOLOR_FORCE'
always\t'Always'
never\t'Never'"
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l error-format -d 'How failures are written to standard error' -r -f -a "text\t'`error:`, `cause:` and `hint:` lines'
json\t'One JSON document on one line'"
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mixer -n "__fish_mixer_using_subcommand test" -l config -d 'Configuration to test: fs://DIR, a path, or embedded://sample; repeat for several. Replaces what the files name' -r
complete -c mixer -n "__fish_mixer_using_subcommand test" -l default-namespace -d 'Namespace of mesh-wide rules' -r
complete -c mixer -n "__fish_mixer_using_subcommand test" -l filter -d 'Run only tests whose file or name contains this text' -r
complete -c mixer -n "__fish_mixer_using_subcommand test" -l junit -d 'Write the results as JUnit XML too, for CI systems' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand test" -s o -l output -d 'How results are written; a table on a terminal, else plain' -r -f -a "table\t'Tables and excerpts for people'
plain\t'One line a result'
json\t'One document'
yaml\t'The same document'"
complete -c mixer -n "__fish_mixer_using_subcommand test" -l color -d 'When to use colours' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb; always with CLICOLOR_FORCE'
always\t'Always'
never\t'Never'"
complete -c mixer -n "__fish_mixer_using_subcommand test" -l error-format -d 'How failures are written to standard error' -r -f -a "text\t'`error:`, `cause:` and `hint:` lines'
json\t'One JSON document on one line'"
complete -c mixer -n "__fish_mixer_using_subcommand test" -l fail-fast -d 'Stop at the first test that fails'
complete -c mixer -n "__fish_mixer_using_subcommand test" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mixer -n "__fish_mixer_using_subcommand diff" -l from -d 'Configuration as it is: fs://DIR, a path, or embedded://sample' -r
complete -c mixer -n "__fish_mixer_using_subcommand diff" -l to -d 'Configuration as it will be' -r
complete -c mixer -n "__fish_mixer_using_subcommand diff" -l requests -d 'Recorded calls: what `mixer server --record-requests` or `--decision-log` wrote; `-` for standard input' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand diff" -l default-namespace -d 'Namespace of mesh-wide rules' -r
complete -c mixer -n "__fish_mixer_using_subcommand diff" -l limit -d 'Kinds of change that a table lists, the most frequent first; all are counted' -r
complete -c mixer -n "__fish_mixer_using_subcommand diff" -s o -l output -d 'How changes are written; a table on a terminal, else plain' -r -f -a "table\t'Tables and excerpts for people'
plain\t'One line a result'
json\t'One document'
yaml\t'The same document'"
complete -c mixer -n "__fish_mixer_using_subcommand diff" -l color -d 'When to use colours' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb; always with CLICOLOR_FORCE'
always\t'Always'
never\t'Never'"
complete -c mixer -n "__fish_mixer_using_subcommand diff" -l error-format -d 'How failures are written to standard error' -r -f -a "text\t'`error:`, `cause:` and `hint:` lines'
json\t'One JSON document on one line'"
complete -c mixer -n "__fish_mixer_using_subcommand diff" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mixer -n "__fish_mixer_using_subcommand snapshot; and not __fish_seen_subcommand_from dump help" -l color -d 'When to use colours' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb; always with CLICOLOR_FORCE'
always\t'Always'
never\t'Never'"
complete -c mixer -n "__fish_mixer_using_subcommand snapshot; and not __fish_seen_subcommand_from dump help" -l error-format -d 'How failures are written to standard error' -r -f -a "text\t'`error:`, `cause:` and `hint:` lines'
json\t'One JSON document on one line'"
complete -c mixer -n "__fish_mixer_using_subcommand snapshot; and not __fish_seen_subcommand_from dump help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mixer -n "__fish_mixer_using_subcommand snapshot; and not __fish_seen_subcommand_from dump help" -f -a "dump" -d 'Print a snapshot: attributes, handlers, instances, rules'
complete -c mixer -n "__fish_mixer_using_subcommand snapshot; and not __fish_seen_subcommand_from dump help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c mixer -n "__fish_mixer_using_subcommand snapshot; and __fish_seen_subcommand_from dump" -l config -d 'Configuration to read: fs://DIR, a path, `-` for standard input, or embedded://sample' -r
complete -c mixer -n "__fish_mixer_using_subcommand snapshot; and __fish_seen_subcommand_from dump" -l server -d 'Ask a running server instead: host and port of its ControlZ endpoint. Example: localhost:9876' -r
complete -c mixer -n "__fish_mixer_using_subcommand snapshot; and __fish_seen_subcommand_from dump" -l default-namespace -d 'Namespace of mesh-wide rules' -r
complete -c mixer -n "__fish_mixer_using_subcommand snapshot; and __fish_seen_subcommand_from dump" -l section -d 'Parts to print, separated by commas; all without it' -r -f -a "templates\t''
adapters\t''
handlers\t''
instances\t''
rules\t''
attributes\t''
errors\t''"
complete -c mixer -n "__fish_mixer_using_subcommand snapshot; and __fish_seen_subcommand_from dump" -s o -l output -d 'How it is written; tables on a terminal, else plain' -r -f -a "table\t'Tables that fit the terminal'
plain\t'Tables as wide as they get'
json\t'One document'
yaml\t'The same document'
debug\t'The layout of the originals\' debug log'"
complete -c mixer -n "__fish_mixer_using_subcommand snapshot; and __fish_seen_subcommand_from dump" -l diff -d 'Compare with an earlier JSON dump; ends with status 1 if they differ' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand snapshot; and __fish_seen_subcommand_from dump" -l color -d 'When to use colours' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb; always with CLICOLOR_FORCE'
always\t'Always'
never\t'Never'"
complete -c mixer -n "__fish_mixer_using_subcommand snapshot; and __fish_seen_subcommand_from dump" -l error-format -d 'How failures are written to standard error' -r -f -a "text\t'`error:`, `cause:` and `hint:` lines'
json\t'One JSON document on one line'"
complete -c mixer -n "__fish_mixer_using_subcommand snapshot; and __fish_seen_subcommand_from dump" -l show-secrets -d 'Show parameters that look like secrets'
complete -c mixer -n "__fish_mixer_using_subcommand snapshot; and __fish_seen_subcommand_from dump" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mixer -n "__fish_mixer_using_subcommand snapshot; and __fish_seen_subcommand_from help" -f -a "dump" -d 'Print a snapshot: attributes, handlers, instances, rules'
complete -c mixer -n "__fish_mixer_using_subcommand snapshot; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c mixer -n "__fish_mixer_using_subcommand routes; and not __fish_seen_subcommand_from show help" -l color -d 'When to use colours' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb; always with CLICOLOR_FORCE'
always\t'Always'
never\t'Never'"
complete -c mixer -n "__fish_mixer_using_subcommand routes; and not __fish_seen_subcommand_from show help" -l error-format -d 'How failures are written to standard error' -r -f -a "text\t'`error:`, `cause:` and `hint:` lines'
json\t'One JSON document on one line'"
complete -c mixer -n "__fish_mixer_using_subcommand routes; and not __fish_seen_subcommand_from show help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mixer -n "__fish_mixer_using_subcommand routes; and not __fish_seen_subcommand_from show help" -f -a "show" -d 'Print the routing table: variety, namespace, handler, condition, instances'
complete -c mixer -n "__fish_mixer_using_subcommand routes; and not __fish_seen_subcommand_from show help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c mixer -n "__fish_mixer_using_subcommand routes; and __fish_seen_subcommand_from show" -l config -d 'Configuration to read: fs://DIR, a path, `-` for standard input, or embedded://sample' -r
complete -c mixer -n "__fish_mixer_using_subcommand routes; and __fish_seen_subcommand_from show" -l server -d 'Ask a running server instead: host and port of its ControlZ endpoint. Example: localhost:9876' -r
complete -c mixer -n "__fish_mixer_using_subcommand routes; and __fish_seen_subcommand_from show" -l default-namespace -d 'Namespace of mesh-wide rules' -r
complete -c mixer -n "__fish_mixer_using_subcommand routes; and __fish_seen_subcommand_from show" -l variety -d 'Only routes of this variety: check, report, quota, attribute-generator or check-with-output' -r -f -a "check\t''
report\t''
quota\t''
attribute-generator\t''
check-with-output\t''"
complete -c mixer -n "__fish_mixer_using_subcommand routes; and __fish_seen_subcommand_from show" -l namespace -d 'Only routes of requests of this namespace' -r
complete -c mixer -n "__fish_mixer_using_subcommand routes; and __fish_seen_subcommand_from show" -l handler -d 'Only routes to handlers of this name; `*` stands for any text' -r
complete -c mixer -n "__fish_mixer_using_subcommand routes; and __fish_seen_subcommand_from show" -l match -d 'Mark the routes that a request with these attributes takes: name1=value1,name2=value2,…' -r
complete -c mixer -n "__fish_mixer_using_subcommand routes; and __fish_seen_subcommand_from show" -s o -l output -d 'How it is written; a table on a terminal, else plain' -r -f -a "table\t'Tables that fit the terminal'
plain\t'Tables as wide as they get'
json\t'One document'
yaml\t'The same document'
debug\t'The layout of the originals\' debug log'"
complete -c mixer -n "__fish_mixer_using_subcommand routes; and __fish_seen_subcommand_from show" -l color -d 'When to use colours' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb; always with CLICOLOR_FORCE'
always\t'Always'
never\t'Never'"
complete -c mixer -n "__fish_mixer_using_subcommand routes; and __fish_seen_subcommand_from show" -l error-format -d 'How failures are written to standard error' -r -f -a "text\t'`error:`, `cause:` and `hint:` lines'
json\t'One JSON document on one line'"
complete -c mixer -n "__fish_mixer_using_subcommand routes; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mixer -n "__fish_mixer_using_subcommand routes; and __fish_seen_subcommand_from help" -f -a "show" -d 'Print the routing table: variety, namespace, handler, condition, instances'
complete -c mixer -n "__fish_mixer_using_subcommand routes; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c mixer -n "__fish_mixer_using_subcommand version" -s s -l short -d 'Print the version alone' -r
complete -c mixer -n "__fish_mixer_using_subcommand version" -s o -l output -d 'One of \'yaml\' or \'json\'; wins over --short' -r
complete -c mixer -n "__fish_mixer_using_subcommand version" -l color -d 'When to use colours' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb; always with CLICOLOR_FORCE'
always\t'Always'
never\t'Never'"
complete -c mixer -n "__fish_mixer_using_subcommand version" -l error-format -d 'How failures are written to standard error' -r -f -a "text\t'`error:`, `cause:` and `hint:` lines'
json\t'One JSON document on one line'"
complete -c mixer -n "__fish_mixer_using_subcommand version" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mixer -n "__fish_mixer_using_subcommand crd; and not __fish_seen_subcommand_from all adapter instance help" -l color -d 'When to use colours' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb; always with CLICOLOR_FORCE'
always\t'Always'
never\t'Never'"
complete -c mixer -n "__fish_mixer_using_subcommand crd; and not __fish_seen_subcommand_from all adapter instance help" -l error-format -d 'How failures are written to standard error' -r -f -a "text\t'`error:`, `cause:` and `hint:` lines'
json\t'One JSON document on one line'"
complete -c mixer -n "__fish_mixer_using_subcommand crd; and not __fish_seen_subcommand_from all adapter instance help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mixer -n "__fish_mixer_using_subcommand crd; and not __fish_seen_subcommand_from all adapter instance help" -f -a "all" -d 'List all kinds: core, adapters, instances'
complete -c mixer -n "__fish_mixer_using_subcommand crd; and not __fish_seen_subcommand_from all adapter instance help" -f -a "adapter" -d 'List the kinds that are named like adapters'
complete -c mixer -n "__fish_mixer_using_subcommand crd; and not __fish_seen_subcommand_from all adapter instance help" -f -a "instance" -d 'List the kinds that are named like templates'
complete -c mixer -n "__fish_mixer_using_subcommand crd; and not __fish_seen_subcommand_from all adapter instance help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c mixer -n "__fish_mixer_using_subcommand crd; and __fish_seen_subcommand_from all" -l api-version -d 'Version of the definitions: v1beta1 or v1' -r -f -a "v1beta1\t''
v1\t''"
complete -c mixer -n "__fish_mixer_using_subcommand crd; and __fish_seen_subcommand_from all" -l color -d 'When to use colours' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb; always with CLICOLOR_FORCE'
always\t'Always'
never\t'Never'"
complete -c mixer -n "__fish_mixer_using_subcommand crd; and __fish_seen_subcommand_from all" -l error-format -d 'How failures are written to standard error' -r -f -a "text\t'`error:`, `cause:` and `hint:` lines'
json\t'One JSON document on one line'"
complete -c mixer -n "__fish_mixer_using_subcommand crd; and __fish_seen_subcommand_from all" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mixer -n "__fish_mixer_using_subcommand crd; and __fish_seen_subcommand_from adapter" -l api-version -d 'Version of the definitions: v1beta1 or v1' -r -f -a "v1beta1\t''
v1\t''"
complete -c mixer -n "__fish_mixer_using_subcommand crd; and __fish_seen_subcommand_from adapter" -l color -d 'When to use colours' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb; always with CLICOLOR_FORCE'
always\t'Always'
never\t'Never'"
complete -c mixer -n "__fish_mixer_using_subcommand crd; and __fish_seen_subcommand_from adapter" -l error-format -d 'How failures are written to standard error' -r -f -a "text\t'`error:`, `cause:` and `hint:` lines'
json\t'One JSON document on one line'"
complete -c mixer -n "__fish_mixer_using_subcommand crd; and __fish_seen_subcommand_from adapter" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mixer -n "__fish_mixer_using_subcommand crd; and __fish_seen_subcommand_from instance" -l api-version -d 'Version of the definitions: v1beta1 or v1' -r -f -a "v1beta1\t''
v1\t''"
complete -c mixer -n "__fish_mixer_using_subcommand crd; and __fish_seen_subcommand_from instance" -l color -d 'When to use colours' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb; always with CLICOLOR_FORCE'
always\t'Always'
never\t'Never'"
complete -c mixer -n "__fish_mixer_using_subcommand crd; and __fish_seen_subcommand_from instance" -l error-format -d 'How failures are written to standard error' -r -f -a "text\t'`error:`, `cause:` and `hint:` lines'
json\t'One JSON document on one line'"
complete -c mixer -n "__fish_mixer_using_subcommand crd; and __fish_seen_subcommand_from instance" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mixer -n "__fish_mixer_using_subcommand crd; and __fish_seen_subcommand_from help" -f -a "all" -d 'List all kinds: core, adapters, instances'
complete -c mixer -n "__fish_mixer_using_subcommand crd; and __fish_seen_subcommand_from help" -f -a "adapter" -d 'List the kinds that are named like adapters'
complete -c mixer -n "__fish_mixer_using_subcommand crd; and __fish_seen_subcommand_from help" -f -a "instance" -d 'List the kinds that are named like templates'
complete -c mixer -n "__fish_mixer_using_subcommand crd; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c mixer -n "__fish_mixer_using_subcommand completions" -l name -d 'The name that the program is called by: mixer, mixs, mixc or galley' -r -f -a "mixer\t''
mixs\t''
mixc\t''
galley\t''"
complete -c mixer -n "__fish_mixer_using_subcommand completions" -l color -d 'When to use colours' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb; always with CLICOLOR_FORCE'
always\t'Always'
never\t'Never'"
complete -c mixer -n "__fish_mixer_using_subcommand completions" -l error-format -d 'How failures are written to standard error' -r -f -a "text\t'`error:`, `cause:` and `hint:` lines'
json\t'One JSON document on one line'"
complete -c mixer -n "__fish_mixer_using_subcommand completions" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mixer -n "__fish_mixer_using_subcommand man" -l dir -d 'Write one page a command into this directory instead of printing the page of `mixer`' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand man" -l color -d 'When to use colours' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb; always with CLICOLOR_FORCE'
always\t'Always'
never\t'Never'"
complete -c mixer -n "__fish_mixer_using_subcommand man" -l error-format -d 'How failures are written to standard error' -r -f -a "text\t'`error:`, `cause:` and `hint:` lines'
json\t'One JSON document on one line'"
complete -c mixer -n "__fish_mixer_using_subcommand man" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mixer -n "__fish_mixer_using_subcommand collateral" -s o -l output-dir -d 'Directory that the files are written into' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand collateral" -l color -d 'When to use colours' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb; always with CLICOLOR_FORCE'
always\t'Always'
never\t'Never'"
complete -c mixer -n "__fish_mixer_using_subcommand collateral" -l error-format -d 'How failures are written to standard error' -r -f -a "text\t'`error:`, `cause:` and `hint:` lines'
json\t'One JSON document on one line'"
complete -c mixer -n "__fish_mixer_using_subcommand collateral" -l all -d 'Write every kind of file'
complete -c mixer -n "__fish_mixer_using_subcommand collateral" -l markdown -d 'Write Markdown pages'
complete -c mixer -n "__fish_mixer_using_subcommand collateral" -l man -d 'Write manual pages'
complete -c mixer -n "__fish_mixer_using_subcommand collateral" -l bash -d 'Write a completion script for bash'
complete -c mixer -n "__fish_mixer_using_subcommand collateral" -l zsh -d 'Write a completion script for zsh'
complete -c mixer -n "__fish_mixer_using_subcommand collateral" -l yaml -d 'Write a description of all commands as YAML'
complete -c mixer -n "__fish_mixer_using_subcommand collateral" -l html-fragment-with-front-matter -d 'Write an HTML page with front matter'
complete -c mixer -n "__fish_mixer_using_subcommand collateral" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mixer -n "__fish_mixer_using_subcommand legacy" -l color -d 'When to use colours' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb; always with CLICOLOR_FORCE'
always\t'Always'
never\t'Never'"
complete -c mixer -n "__fish_mixer_using_subcommand legacy" -l error-format -d 'How failures are written to standard error' -r -f -a "text\t'`error:`, `cause:` and `hint:` lines'
json\t'One JSON document on one line'"
complete -c mixer -n "__fish_mixer_using_subcommand legacy" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mixer -n "__fish_mixer_using_subcommand help; and not __fish_seen_subcommand_from server check report probe validate doctor test diff snapshot routes version crd completions man collateral legacy help" -f -a "server" -d 'Start the server'
complete -c mixer -n "__fish_mixer_using_subcommand help; and not __fish_seen_subcommand_from server check report probe validate doctor test diff snapshot routes version crd completions man collateral legacy help" -f -a "check" -d 'Ask a server, or a configuration, whether a request may pass'
complete -c mixer -n "__fish_mixer_using_subcommand help; and not __fish_seen_subcommand_from server check report probe validate doctor test diff snapshot routes version crd completions man collateral legacy help" -f -a "report" -d 'Report to a server, or to a configuration, what happened'
complete -c mixer -n "__fish_mixer_using_subcommand help; and not __fish_seen_subcommand_from server check report probe validate doctor test diff snapshot routes version crd completions man collateral legacy help" -f -a "probe" -d 'Tell whether a server is alive or ready'
complete -c mixer -n "__fish_mixer_using_subcommand help; and not __fish_seen_subcommand_from server check report probe validate doctor test diff snapshot routes version crd completions man collateral legacy help" -f -a "validate" -d 'Find everything that is wrong with a configuration'
complete -c mixer -n "__fish_mixer_using_subcommand help; and not __fish_seen_subcommand_from server check report probe validate doctor test diff snapshot routes version crd completions man collateral legacy help" -f -a "doctor" -d 'Find what would keep a server from starting, or trouble it before long'
complete -c mixer -n "__fish_mixer_using_subcommand help; and not __fish_seen_subcommand_from server check report probe validate doctor test diff snapshot routes version crd completions man collateral legacy help" -f -a "test" -d 'Run declared requests against a configuration, without a server'
complete -c mixer -n "__fish_mixer_using_subcommand help; and not __fish_seen_subcommand_from server check report probe validate doctor test diff snapshot routes version crd completions man collateral legacy help" -f -a "diff" -d 'Tell which recorded decisions a change of configuration alters, and why'
complete -c mixer -n "__fish_mixer_using_subcommand help; and not __fish_seen_subcommand_from server check report probe validate doctor test diff snapshot routes version crd completions man collateral legacy help" -f -a "snapshot" -d 'Show the configuration as the engine understands it'
complete -c mixer -n "__fish_mixer_using_subcommand help; and not __fish_seen_subcommand_from server check report probe validate doctor test diff snapshot routes version crd completions man collateral legacy help" -f -a "routes" -d 'Show which requests reach which handlers'
complete -c mixer -n "__fish_mixer_using_subcommand help; and not __fish_seen_subcommand_from server check report probe validate doctor test diff snapshot routes version crd completions man collateral legacy help" -f -a "version" -d 'Print versions of program and build'
complete -c mixer -n "__fish_mixer_using_subcommand help; and not __fish_seen_subcommand_from server check report probe validate doctor test diff snapshot routes version crd completions man collateral legacy help" -f -a "crd" -d 'Print the custom resource definitions of all kinds'
complete -c mixer -n "__fish_mixer_using_subcommand help; and not __fish_seen_subcommand_from server check report probe validate doctor test diff snapshot routes version crd completions man collateral legacy help" -f -a "completions" -d 'Print a completion script for a shell'
complete -c mixer -n "__fish_mixer_using_subcommand help; and not __fish_seen_subcommand_from server check report probe validate doctor test diff snapshot routes version crd completions man collateral legacy help" -f -a "man" -d 'Print or write manual pages'
complete -c mixer -n "__fish_mixer_using_subcommand help; and not __fish_seen_subcommand_from server check report probe validate doctor test diff snapshot routes version crd completions man collateral legacy help" -f -a "collateral" -d 'Write documentation and completion files into a directory'
complete -c mixer -n "__fish_mixer_using_subcommand help; and not __fish_seen_subcommand_from server check report probe validate doctor test diff snapshot routes version crd completions man collateral legacy help" -f -a "legacy" -d 'Behave like mixs, mixc or galley of the originals'
complete -c mixer -n "__fish_mixer_using_subcommand help; and not __fish_seen_subcommand_from server check report probe validate doctor test diff snapshot routes version crd completions man collateral legacy help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c mixer -n "__fish_mixer_using_subcommand help; and __fish_seen_subcommand_from snapshot" -f -a "dump" -d 'Print a snapshot: attributes, handlers, instances, rules'
complete -c mixer -n "__fish_mixer_using_subcommand help; and __fish_seen_subcommand_from routes" -f -a "show" -d 'Print the routing table: variety, namespace, handler, condition, instances'
complete -c mixer -n "__fish_mixer_using_subcommand help; and __fish_seen_subcommand_from crd" -f -a "all" -d 'List all kinds: core, adapters, instances'
complete -c mixer -n "__fish_mixer_using_subcommand help; and __fish_seen_subcommand_from crd" -f -a "adapter" -d 'List the kinds that are named like adapters'
complete -c mixer -n "__fish_mixer_using_subcommand help; and __fish_seen_subcommand_from crd" -f -a "instance" -d 'List the kinds that are named like templates'
