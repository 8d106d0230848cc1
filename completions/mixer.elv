
use builtin;
use str;

set edit:completion:arg-completer[mixer] = {|@words|
    fn spaces {|n|
        builtin:repeat $n ' ' | str:join ''
    }
    fn cand {|text desc|
        edit:complex-candidate $text &display=$text' '(spaces (- 14 (wcswidth $text)))$desc
    }
    var command = 'mixer'
    for word $words[1..-1] {
        if (str:has-prefix $word '-') {
            break
        }
        set command = $command';'$word
    }
    var completions = [
        &'mixer'= {
            cand --color 'When to use colours'
            cand --error-format 'How failures are written to standard error'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
            cand -V 'Print version'
            cand --version 'Print version'
            cand server 'Start the server'
            cand check 'Ask a server, or a configuration, whether a request may pass'
            cand report 'Report to a server, or to a configuration, what happened'
            cand probe 'Tell whether a server is alive or ready'
            cand validate 'Find everything that is wrong with a configuration'
            cand doctor 'Find what would keep a server from starting, or trouble it before long'
            cand test 'Run declared requests against a configuration, without a server'
            cand diff 'Tell which recorded decisions a change of configuration alters, and why'
            cand snapshot 'Show the configuration as the engine understands it'
            cand routes 'Show which requests reach which handlers'
            cand version 'Print versions of program and build'
            cand crd 'Print the custom resource definitions of all kinds'
            cand completions 'Print a completion script for a shell'
            cand man 'Print or write manual pages'
            cand collateral 'Write documentation and completion files into a directory'
            cand legacy 'Behave like mixs, mixc or galley of the originals'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'mixer;server'= {
            cand --config-file 'File with settings, YAML or TOML; names are those of the flags'
            cand -p 'TCP port of the gRPC API on all interfaces; used if --address is empty'
            cand --port 'TCP port of the gRPC API on all interfaces; used if --address is empty'
            cand --address 'Address of the gRPC API: tcp://127.0.0.1:9091 or unix:///run/mixer.sock'
            cand --socket-mode 'Permissions of the file of a unix socket, octal. Example: 0660'
            cand --grpc-reflection 'Whether generic gRPC clients are told which services there are: auto means if only this machine can reach the API'
            cand --monitoring-port 'HTTP port of metrics, version, health and profiles, on all interfaces'
            cand --metrics-port 'HTTP port of the metrics of all prometheus handlers, on all interfaces'
            cand --tls-cert-file 'Certificate of the server with its chain, PEM; callers on TCP must then speak TLS'
            cand --tls-key-file 'Key of that certificate, PEM'
            cand --tls-client-ca-file 'Roots that certificates of callers are checked against, PEM; callers are asked for one then'
            cand --tls-client-auth 'Whether callers must show a certificate'
            cand --tls-min-version 'Oldest version of TLS that is spoken'
            cand --tls-allowed-peers 'Callers that are let in, by a URI or DNS name in their certificate: NAME,NAME,…; a name may begin or end with `*`'
            cand --config-store-url 'Store of the configuration: fs://DIR, k8s://KUBECONFIG, mcp://HOST:PORT, mcps://HOST:PORT or embedded://sample'
            cand --config-default-namespace 'Namespace of mesh-wide rules'
            cand --config-wait-timeout 'How long to wait for the first configuration of a remote store'
            cand --config-loss 'What becomes of the configuration when its directory disappears: keep or drop'
            cand --cert-file 'Certificate for mcps:// stores'
            cand --key-file 'Key of that certificate'
            cand --ca-cert-file 'Roots that mcps:// stores are checked against'
            cand --use-adapter-crds 'Whether kinds that are named like adapters are read'
            cand --use-template-crds 'Whether kinds that are named like templates are read'
            cand --concurrency 'Worker threads, each with its own event loop and connections; 0 means one a core'
            cand --single-threaded 'Run everything on one thread'
            cand --max-message-size 'Largest gRPC message in bytes; units are understood. Example: 4MiB'
            cand --max-concurrent-streams 'Most calls in flight on one connection'
            cand --max-connection-age 'Age at which callers are asked to make a new connection, so that they spread over the servers there are; 0s means never. Example: 30m'
            cand --api-worker-pool-size 'Most API calls in flight that wait for something'
            cand --api-worker-pool-floor 'Let that bound follow the load: it begins here and does not fall below; 0 keeps it fixed'
            cand --api-queue-length 'Most API calls that wait for their turn; beyond that they are refused'
            cand --adapter-worker-pool-size 'Most calls in flight of one handler that waits for the network'
            cand --adapter-worker-pool-floor 'Let that bound follow the load: it begins here and does not fall below; 0 keeps it fixed'
            cand --adapter-queue-length 'Most calls that wait for their turn with one handler; beyond that they fail'
            cand --num-check-cache-entries 'Turns the check cache on and bounds its entries; 0 turns it off'
            cand --liveness-probe-path 'File that is kept fresh while the server is alive'
            cand --liveness-probe-interval 'How old that file may get; it is refreshed twice as often. Example: 2s'
            cand --readiness-probe-path 'File that is kept fresh while the server is ready'
            cand --readiness-probe-interval 'How old that file may get; it is refreshed twice as often. Example: 2s'
            cand --pid-file 'File that holds the number of the process while it runs. Example: /run/mixer.pid'
            cand --drain-delay 'Pause between "not ready" and the end of accepting calls, at shutdown'
            cand --shutdown-timeout 'Limit of the whole shutdown; what is left then is cut off'
            cand --envoy-bridge 'Whether Envoy is answered on the port of the API: authorization, access logs and rate limits'
            cand --envoy-http-address 'Address of authorization over HTTP, and of rate limits as JSON. Example: 127.0.0.1:9191'
            cand --ctrlz-port 'Port of the ControlZ introspection pages; 0 turns them off'
            cand --ctrlz-address 'Address of the ControlZ introspection pages; `*` means all interfaces'
            cand --ctrlz-readonly 'Whether nothing can be changed over ControlZ'
            cand --ctrlz-token-file 'File with a token that callers of ControlZ must know: `Authorization: Bearer TOKEN`, or the form that browsers get'
            cand --ctrlz-allowed-hosts 'Names under which ControlZ may be called, beside localhost and addresses. Example: ops.example.com,mixer'
            cand --profile 'Whether profiles are served below /debug/pprof of the monitoring port'
            cand --legacy-metrics 'Show metrics under the names of Mixer 1.0 as well, for dashboards of that time'
            cand --heap-profile-rate 'Bytes of allocations of which one is noted, with its stack, for /debug/pprof/heap; 0 notes them only while that is asked for'
            cand --load-shedding-mode 'What happens to calls over the limits: disabled, logonly or enforce'
            cand --average-latency-threshold 'Highest mean latency; 0s means no such limit'
            cand --latency-samples-per-second 'Most latencies measured per second'
            cand --latency-sample-half-life 'After how long a measured latency counts half'
            cand --max-requests-per-second 'Most calls per second; a Report counts its attribute sets; 0 means no such limit'
            cand --burst-size 'Calls let through beyond that rate'
            cand --load-shedding-check-reserve 'Share of the limits above that is kept for checks: reports are refused that much earlier. From 0 to 1'
            cand --load-shedding-fair 'Make callers share what there is: those who use more than the mean are refused first'
            cand --log-target 'Where log records go: a file, stdout or stderr; repeat for several'
            cand --log-rotate 'An additional file, rotated'
            cand --log-rotate-max-size 'Size of that file before it is rotated, in MiB'
            cand --log-rotate-max-age 'Days that rotated files are kept; 0 means for ever'
            cand --log-rotate-max-backups 'Rotated files that are kept; 0 means all'
            cand --log-as-json 'Write log records as JSON objects'
            cand --log-output-level 'What is logged: `[scope:]level,…` with the levels none, fatal, error, warn, info, debug'
            cand --log-stacktrace-level 'From which level on records carry a stack: `[scope:]level,…`'
            cand --log-caller 'Scopes whose records name their place in the source'
            cand --trace-zipkin-url 'URL of a Zipkin collector. Example: http://zipkin:9411/api/v1/spans'
            cand --trace-jaeger-url 'URL of a Jaeger collector. Example: http://jaeger:14268/api/traces?format=jaeger.thrift'
            cand --trace-otlp-url 'URL of an OpenTelemetry collector (OTLP over HTTP). Example: http://collector:4318/v1/traces'
            cand --trace-log-spans 'Write a log record for every span'
            cand --trace-sampling-rate 'Share of new traces that are kept, from 0 to 1'
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
            cand --color 'When to use colours'
            cand --error-format 'How failures are written to standard error'
            cand --print-config 'Print all settings and where each comes from, then exit'
            cand --dry-run 'Go through the start, say what would be served, then exit'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mixer;check'= {
            cand -m 'Server to call: host:port, dns:///host:port, unix:///path or unix:path'
            cand --mixer 'Server to call: host:port, dns:///host:port, unix:///path or unix:path'
            cand --config 'Configuration to run the call on, in this process, without a server: fs://DIR or embedded://sample'
            cand --default-namespace 'Namespace of mesh-wide rules'
            cand -a 'Attributes whose type is sensed: name1=value1,name2=value2,…'
            cand --attributes 'Attributes whose type is sensed: name1=value1,name2=value2,…'
            cand -s 'Text attributes: name1=value1,name2=value2,…'
            cand --string-attributes 'Text attributes: name1=value1,name2=value2,…'
            cand -i 'Whole number attributes: name1=1,name2=2,…'
            cand --int64-attributes 'Whole number attributes: name1=1,name2=2,…'
            cand -d 'Floating point attributes: name1=0.5,name2=1e3,…'
            cand --double-attributes 'Floating point attributes: name1=0.5,name2=1e3,…'
            cand -b 'Truth attributes: name1=true,name2=false,…'
            cand --bool-attributes 'Truth attributes: name1=true,name2=false,…'
            cand -t 'Time attributes: name1=2017-07-04T00:01:10Z,…'
            cand --timestamp-attributes 'Time attributes: name1=2017-07-04T00:01:10Z,…'
            cand --duration-attributes 'Duration attributes: name1=250ms,name2=1h30m,…'
            cand --bytes-attributes 'Bytes attributes, for example addresses: name1=c0:0:0:2,…'
            cand --stringmap-attributes 'Map attributes: name1=key1:value1;key2:value2,…'
            cand --attributes-file 'YAML or JSON file with attributes; `@-` reads standard input. Flags win over the file'
            cand --dictionary 'Which words are sent as indexes of the list that every peer knows'
            cand -r 'How often each worker repeats the call; nothing is sent from 0 down'
            cand --repeat 'How often each worker repeats the call; nothing is sent from 0 down'
            cand -c 'Workers that call at the same time'
            cand --concurrency 'Workers that call at the same time'
            cand --rate 'Most calls per second, all workers together; no limit from 0 down'
            cand --report-batch-size 'Attribute sets in one report'
            cand --timeout 'Limit of one call. Example: 5s'
            cand --ca-file 'Roots that the server is checked against, PEM; without it those of the system'
            cand --cert-file 'Certificate to show to the server, with its chain, PEM'
            cand --key-file 'Key of that certificate, PEM'
            cand --server-name 'Name that the certificate of the server must carry; without it the host that is called'
            cand --print-response 'Print the answers; failures are printed anyway by `check`'
            cand -o 'How answers are written; a table on a terminal, else plain'
            cand --output 'How answers are written; a table on a terminal, else plain'
            cand --trace-zipkin-url 'URL of a Zipkin collector. Example: http://zipkin:9411/api/v1/spans'
            cand --trace-jaeger-url 'URL of a Jaeger collector. Example: http://jaeger:14268/api/traces?format=jaeger.thrift'
            cand --trace-otlp-url 'URL of an OpenTelemetry collector (OTLP over HTTP). Example: http://collector:4318/v1/traces'
            cand --trace-log-spans 'Write a log record for every span'
            cand --trace-sampling-rate 'Share of new traces that are kept, from 0 to 1'
            cand -q 'Quotas to ask for: name1=amount1,name2=amount2,…'
            cand --quotas 'Quotas to ask for: name1=amount1,name2=amount2,…'
            cand --color 'When to use colours'
            cand --error-format 'How failures are written to standard error'
            cand --wait-for-ready 'Wait for a server that cannot be reached yet, at most --timeout'
            cand --tls 'Speak TLS with the server; any other flag of this group means this one as well'
            cand --quiet 'No progress bar and no summary'
            cand --exit-zero 'End with status 0 whatever the answers are'
            cand --native-exit-codes 'End with the statuses of `mixer` when called by the name mixc'
            cand --require-quota 'End with status 1 unless every quota is granted in full'
            cand --explain 'Tell why: which rules were considered, how far each condition went, near misses, and what every handler said'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mixer;report'= {
            cand -m 'Server to call: host:port, dns:///host:port, unix:///path or unix:path'
            cand --mixer 'Server to call: host:port, dns:///host:port, unix:///path or unix:path'
            cand --config 'Configuration to run the call on, in this process, without a server: fs://DIR or embedded://sample'
            cand --default-namespace 'Namespace of mesh-wide rules'
            cand -a 'Attributes whose type is sensed: name1=value1,name2=value2,…'
            cand --attributes 'Attributes whose type is sensed: name1=value1,name2=value2,…'
            cand -s 'Text attributes: name1=value1,name2=value2,…'
            cand --string-attributes 'Text attributes: name1=value1,name2=value2,…'
            cand -i 'Whole number attributes: name1=1,name2=2,…'
            cand --int64-attributes 'Whole number attributes: name1=1,name2=2,…'
            cand -d 'Floating point attributes: name1=0.5,name2=1e3,…'
            cand --double-attributes 'Floating point attributes: name1=0.5,name2=1e3,…'
            cand -b 'Truth attributes: name1=true,name2=false,…'
            cand --bool-attributes 'Truth attributes: name1=true,name2=false,…'
            cand -t 'Time attributes: name1=2017-07-04T00:01:10Z,…'
            cand --timestamp-attributes 'Time attributes: name1=2017-07-04T00:01:10Z,…'
            cand --duration-attributes 'Duration attributes: name1=250ms,name2=1h30m,…'
            cand --bytes-attributes 'Bytes attributes, for example addresses: name1=c0:0:0:2,…'
            cand --stringmap-attributes 'Map attributes: name1=key1:value1;key2:value2,…'
            cand --attributes-file 'YAML or JSON file with attributes; `@-` reads standard input. Flags win over the file'
            cand --dictionary 'Which words are sent as indexes of the list that every peer knows'
            cand -r 'How often each worker repeats the call; nothing is sent from 0 down'
            cand --repeat 'How often each worker repeats the call; nothing is sent from 0 down'
            cand -c 'Workers that call at the same time'
            cand --concurrency 'Workers that call at the same time'
            cand --rate 'Most calls per second, all workers together; no limit from 0 down'
            cand --report-batch-size 'Attribute sets in one report'
            cand --timeout 'Limit of one call. Example: 5s'
            cand --ca-file 'Roots that the server is checked against, PEM; without it those of the system'
            cand --cert-file 'Certificate to show to the server, with its chain, PEM'
            cand --key-file 'Key of that certificate, PEM'
            cand --server-name 'Name that the certificate of the server must carry; without it the host that is called'
            cand --print-response 'Print the answers; failures are printed anyway by `check`'
            cand -o 'How answers are written; a table on a terminal, else plain'
            cand --output 'How answers are written; a table on a terminal, else plain'
            cand --trace-zipkin-url 'URL of a Zipkin collector. Example: http://zipkin:9411/api/v1/spans'
            cand --trace-jaeger-url 'URL of a Jaeger collector. Example: http://jaeger:14268/api/traces?format=jaeger.thrift'
            cand --trace-otlp-url 'URL of an OpenTelemetry collector (OTLP over HTTP). Example: http://collector:4318/v1/traces'
            cand --trace-log-spans 'Write a log record for every span'
            cand --trace-sampling-rate 'Share of new traces that are kept, from 0 to 1'
            cand --color 'When to use colours'
            cand --error-format 'How failures are written to standard error'
            cand --wait-for-ready 'Wait for a server that cannot be reached yet, at most --timeout'
            cand --tls 'Speak TLS with the server; any other flag of this group means this one as well'
            cand --quiet 'No progress bar and no summary'
            cand --exit-zero 'End with status 0 whatever the answers are'
            cand --native-exit-codes 'End with the statuses of `mixer` when called by the name mixc'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mixer;probe'= {
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
            cand --log-target 'Where log records go: a file, stdout or stderr; repeat for several'
            cand --log-rotate 'An additional file, rotated'
            cand --log-rotate-max-size 'Size of that file before it is rotated, in MiB'
            cand --log-rotate-max-age 'Days that rotated files are kept; 0 means for ever'
            cand --log-rotate-max-backups 'Rotated files that are kept; 0 means all'
            cand --log-as-json 'Write log records as JSON objects'
            cand --log-output-level 'What is logged: `[scope:]level,…` with the levels none, fatal, error, warn, info, debug'
            cand --log-stacktrace-level 'From which level on records carry a stack: `[scope:]level,…`'
            cand --log-caller 'Scopes whose records name their place in the source'
            cand --color 'When to use colours'
            cand --error-format 'How failures are written to standard error'
            cand --watch 'Keep looking and print every change, until SIGINT'
            cand --tls 'Speak TLS with the server; any other flag of this group means this one as well'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mixer;validate'= {
            cand --default-namespace 'Namespace of mesh-wide rules'
            cand --live 'Show what would change in a running server: host and port of its ControlZ endpoint. Example: localhost:9876'
            cand -o 'How findings are written; a table on a terminal, else plain'
            cand --output 'How findings are written; a table on a terminal, else plain'
            cand --color 'When to use colours'
            cand --error-format 'How failures are written to standard error'
            cand --strict 'Count warnings as errors'
            cand --lint 'Look for what works but is hardly meant: unused handlers and instances, constant conditions, rules that never differ'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mixer;doctor'= {
            cand -o 'How findings are written; a table on a terminal, else plain'
            cand --output 'How findings are written; a table on a terminal, else plain'
            cand --color 'When to use colours'
            cand --error-format 'How failures are written to standard error'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mixer;test'= {
            cand --config 'Configuration to test: fs://DIR, a path, or embedded://sample; repeat for several. Replaces what the files name'
            cand --default-namespace 'Namespace of mesh-wide rules'
            cand --filter 'Run only tests whose file or name contains this text'
            cand --junit 'Write the results as JUnit XML too, for CI systems'
            cand -o 'How results are written; a table on a terminal, else plain'
            cand --output 'How results are written; a table on a terminal, else plain'
            cand --color 'When to use colours'
            cand --error-format 'How failures are written to standard error'
            cand --fail-fast 'Stop at the first test that fails'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mixer;diff'= {
            cand --from 'Configuration as it is: fs://DIR, a path, or embedded://sample'
            cand --to 'Configuration as it will be'
            cand --requests 'Recorded calls: what `mixer server --record-requests` or `--decision-log` wrote; `-` for standard input'
            cand --default-namespace 'Namespace of mesh-wide rules'
            cand --limit 'Kinds of change that a table lists, the most frequent first; all are counted'
            cand -o 'How changes are written; a table on a terminal, else plain'
            cand --output 'How changes are written; a table on a terminal, else plain'
            cand --color 'When to use colours'
            cand --error-format 'How failures are written to standard error'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mixer;snapshot'= {
            cand --color 'When to use colours'
            cand --error-format 'How failures are written to standard error'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
            cand dump 'Print a snapshot: attributes, handlers, instances, rules'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'mixer;snapshot;dump'= {
            cand --config 'Configuration to read: fs://DIR, a path, `-` for standard input, or embedded://sample'
            cand --server 'Ask a running server instead: host and port of its ControlZ endpoint. Example: localhost:9876'
            cand --default-namespace 'Namespace of mesh-wide rules'
            cand --section 'Parts to print, separated by commas; all without it'
            cand -o 'How it is written; tables on a terminal, else plain'
            cand --output 'How it is written; tables on a terminal, else plain'
            cand --diff 'Compare with an earlier JSON dump; ends with status 1 if they differ'
            cand --color 'When to use colours'
            cand --error-format 'How failures are written to standard error'
            cand --show-secrets 'Show parameters that look like secrets'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mixer;snapshot;help'= {
            cand dump 'Print a snapshot: attributes, handlers, instances, rules'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'mixer;snapshot;help;dump'= {
        }
        &'mixer;snapshot;help;help'= {
        }
        &'mixer;routes'= {
            cand --color 'When to use colours'
            cand --error-format 'How failures are written to standard error'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
            cand show 'Print the routing table: variety, namespace, handler, condition, instances'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'mixer;routes;show'= {
            cand --config 'Configuration to read: fs://DIR, a path, `-` for standard input, or embedded://sample'
            cand --server 'Ask a running server instead: host and port of its ControlZ endpoint. Example: localhost:9876'
            cand --default-namespace 'Namespace of mesh-wide rules'
            cand --variety 'Only routes of this variety: check, report, quota, attribute-generator or check-with-output'
            cand --namespace 'Only routes of requests of this namespace'
            cand --handler 'Only routes to handlers of this name; `*` stands for any text'
            cand --match 'Mark the routes that a request with these attributes takes: name1=value1,name2=value2,…'
            cand -o 'How it is written; a table on a terminal, else plain'
            cand --output 'How it is written; a table on a terminal, else plain'
            cand --color 'When to use colours'
            cand --error-format 'How failures are written to standard error'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mixer;routes;help'= {
            cand show 'Print the routing table: variety, namespace, handler, condition, instances'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'mixer;routes;help;show'= {
        }
        &'mixer;routes;help;help'= {
        }
        &'mixer;version'= {
            cand -s 'Print the version alone'
            cand --short 'Print the version alone'
            cand -o 'One of ''yaml'' or ''json''; wins over --short'
            cand --output 'One of ''yaml'' or ''json''; wins over --short'
            cand --color 'When to use colours'
            cand --error-format 'How failures are written to standard error'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mixer;crd'= {
            cand --color 'When to use colours'
            cand --error-format 'How failures are written to standard error'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
            cand all 'List all kinds: core, adapters, instances'
            cand adapter 'List the kinds that are named like adapters'
            cand instance 'List the kinds that are named like templates'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'mixer;crd;all'= {
            cand --api-version 'Version of the definitions: v1beta1 or v1'
            cand --color 'When to use colours'
            cand --error-format 'How failures are written to standard error'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mixer;crd;adapter'= {
            cand --api-version 'Version of the definitions: v1beta1 or v1'
            cand --color 'When to use colours'
            cand --error-format 'How failures are written to standard error'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mixer;crd;instance'= {
            cand --api-version 'Version of the definitions: v1beta1 or v1'
            cand --color 'When to use colours'
            cand --error-format 'How failures are written to standard error'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mixer;crd;help'= {
            cand all 'List all kinds: core, adapters, instances'
            cand adapter 'List the kinds that are named like adapters'
            cand instance 'List the kinds that are named like templates'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'mixer;crd;help;all'= {
        }
        &'mixer;crd;help;adapter'= {
        }
        &'mixer;crd;help;instance'= {
        }
        &'mixer;crd;help;help'= {
        }
        &'mixer;completions'= {
            cand --name 'The name that the program is called by: mixer, mixs, mixc or galley'
            cand --color 'When to use colours'
            cand --error-format 'How failures are written to standard error'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mixer;man'= {
            cand --dir 'Write one page a command into this directory instead of printing the page of `mixer`'
            cand --color 'When to use colours'
            cand --error-format 'How failures are written to standard error'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mixer;collateral'= {
            cand -o 'Directory that the files are written into'
            cand --output-dir 'Directory that the files are written into'
            cand --color 'When to use colours'
            cand --error-format 'How failures are written to standard error'
            cand --all 'Write every kind of file'
            cand --markdown 'Write Markdown pages'
            cand --man 'Write manual pages'
            cand --bash 'Write a completion script for bash'
            cand --zsh 'Write a completion script for zsh'
            cand --yaml 'Write a description of all commands as YAML'
            cand --html-fragment-with-front-matter 'Write an HTML page with front matter'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mixer;legacy'= {
            cand --color 'When to use colours'
            cand --error-format 'How failures are written to standard error'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mixer;help'= {
            cand server 'Start the server'
            cand check 'Ask a server, or a configuration, whether a request may pass'
            cand report 'Report to a server, or to a configuration, what happened'
            cand probe 'Tell whether a server is alive or ready'
            cand validate 'Find everything that is wrong with a configuration'
            cand doctor 'Find what would keep a server from starting, or trouble it before long'
            cand test 'Run declared requests against a configuration, without a server'
            cand diff 'Tell which recorded decisions a change of configuration alters, and why'
            cand snapshot 'Show the configuration as the engine understands it'
            cand routes 'Show which requests reach which handlers'
            cand version 'Print versions of program and build'
            cand crd 'Print the custom resource definitions of all kinds'
            cand completions 'Print a completion script for a shell'
            cand man 'Print or write manual pages'
            cand collateral 'Write documentation and completion files into a directory'
            cand legacy 'Behave like mixs, mixc or galley of the originals'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'mixer;help;server'= {
        }
        &'mixer;help;check'= {
        }
        &'mixer;help;report'= {
        }
        &'mixer;help;probe'= {
        }
        &'mixer;help;validate'= {
        }
        &'mixer;help;doctor'= {
        }
        &'mixer;help;test'= {
        }
        &'mixer;help;diff'= {
        }
        &'mixer;help;snapshot'= {
            cand dump 'Print a snapshot: attributes, handlers, instances, rules'
        }
        &'mixer;help;snapshot;dump'= {
        }
        &'mixer;help;routes'= {
            cand show 'Print the routing table: variety, namespace, handler, condition, instances'
        }
        &'mixer;help;routes;show'= {
        }
        &'mixer;help;version'= {
        }
        &'mixer;help;crd'= {
            cand all 'List all kinds: core, adapters, instances'
            cand adapter 'List the kinds that are named like adapters'
            cand instance 'List the kinds that are named like templates'
        }
        &'mixer;help;crd;all'= {
        }
        &'mixer;help;crd;adapter'= {
        }
        &'mixer;help;crd;instance'= {
        }
        &'mixer;help;completions'= {
        }
        &'mixer;help;man'= {
        }
        &'mixer;help;collateral'= {
        }
        &'mixer;help;legacy'= {
        }
        &'mixer;help;help'= {
        }
    ]
    $completions[$command]
}
