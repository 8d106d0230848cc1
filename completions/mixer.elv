
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
            cand --color 'When to color output'
            cand --error-format 'Format of error messages on standard error'
            cand -v 'Log at level debug: servers in their log, other commands on standard error'
            cand --verbose 'Log at level debug: servers in their log, other commands on standard error'
            cand --quiet 'Print errors only, no results, warnings and progress: the exit status tells the result'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
            cand -V 'Print version'
            cand --version 'Print version'
            cand init 'Write a commented policy to begin with'
            cand fmt 'Bring configuration files into their layout'
            cand server 'Start the server'
            cand check 'Check a request against a server or a configuration'
            cand report 'Report a request to a server or a configuration'
            cand probe 'Check whether a server is alive or ready'
            cand validate 'Validate a configuration'
            cand eval 'Evaluate an expression over given attributes'
            cand explain-code 'Say what a code of a diagnostic means, and what to do'
            cand test 'Run policy tests against a configuration, without a server'
            cand diff 'Show which recorded decisions a configuration change alters, and why'
            cand snapshot 'Show the compiled configuration'
            cand routes 'Show which requests reach which handlers'
            cand proxy 'Forward traffic as an Envoy bootstrap says'
            cand adapter 'Start an adapter of your own, out of process'
            cand version 'Print program version and build information'
            cand crd 'Print the Kubernetes custom resource definitions'
            cand completions 'Print a completion script for a shell'
            cand man 'Print or write man pages'
            cand legacy 'Behave like mixs, mixc or galley of Istio'
            cand galley 'Run and inspect the configuration plane'
            cand doctor 'Find problems that would prevent a server from starting or running'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'mixer;init'= {
            cand --for 'Who asks the server: Envoy, or callers of the Mixer API, such as Istio''s proxies'
            cand --color 'When to color output'
            cand --error-format 'Format of error messages on standard error'
            cand -v 'Log at level debug: servers in their log, other commands on standard error'
            cand --verbose 'Log at level debug: servers in their log, other commands on standard error'
            cand --quiet 'Print errors only, no results, warnings and progress: the exit status tells the result'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mixer;fmt'= {
            cand --color 'When to color output'
            cand --error-format 'Format of error messages on standard error'
            cand --check 'Write nothing: list the files that would change, and exit with status 1 if there is one'
            cand --diff 'Write nothing: show what would change. With --check, the status says whether anything would'
            cand -v 'Log at level debug: servers in their log, other commands on standard error'
            cand --verbose 'Log at level debug: servers in their log, other commands on standard error'
            cand --quiet 'Print errors only, no results, warnings and progress: the exit status tells the result'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mixer;server'= {
            cand --config-file 'Settings file, YAML or TOML; keys are flag names'
            cand -p 'TCP port of the gRPC API on all interfaces; ignored if --address is set'
            cand --port 'TCP port of the gRPC API on all interfaces; ignored if --address is set'
            cand --address 'Address of the gRPC API: tcp://127.0.0.1:9091 or unix:///run/mixer.sock'
            cand --socket-mode 'File mode of a Unix socket, octal. Example: 0660'
            cand --grpc-reflection 'Whether to serve gRPC reflection; auto enables it if the API listens on loopback or a Unix socket only'
            cand --monitoring-port 'HTTP port of metrics, version and health, on all interfaces; profiles and texts of errors are for clients on this host'
            cand --monitoring-address 'Address of that port, instead of all interfaces; both are then for whoever reaches it. Example: 127.0.0.1:15014'
            cand --metrics-port 'HTTP port of the metrics of prometheus handlers, on all interfaces'
            cand --metrics-address 'Address of those metrics, instead of all interfaces. Example: 127.0.0.1:42422'
            cand --tls-cert-file 'Server certificate chain, PEM; TCP clients must then use TLS'
            cand --tls-key-file 'Private key of the certificate, PEM'
            cand --tls-client-ca-file 'CA certificates that verify client certificates, PEM; requests a certificate from clients'
            cand --tls-client-auth 'Whether clients must present a certificate'
            cand --tls-min-version 'Minimum TLS version'
            cand --tls-allowed-peers 'Allowed clients, by URI or DNS name in their certificate: NAME,NAME,…; a name may begin or end with `*`'
            cand --config-store-url 'Configuration store: a directory, fs://DIR, k8s://KUBECONFIG, mcp://HOST:PORT, mcps://HOST:PORT, mcp+listen://ADDR or embedded://sample'
            cand --config 'Configuration store: a directory, fs://DIR, k8s://KUBECONFIG, mcp://HOST:PORT, mcps://HOST:PORT, mcp+listen://ADDR or embedded://sample'
            cand --config-default-namespace 'Namespace of mesh-wide rules'
            cand --default-namespace 'Namespace of mesh-wide rules'
            cand --config-wait-timeout 'Timeout of the initial configuration of a remote store'
            cand --config-on-error 'What serves when the configuration has errors: keep-last, serve-valid or refuse'
            cand --allow-empty-config 'Accept a configuration without resources, which allows every request'
            cand --config-cache 'Directory that keeps the last good configuration for the next start'
            cand --config-loss 'What to do when the configuration directory disappears, with --config-on-error serve-valid: keep or drop the configuration'
            cand --config-write-status 'Whether to write onto Kubernetes objects whether they can be used, as a condition `Accepted` of their status'
            cand --mcp-max-message-size 'Maximum size of a message of an MCP source in bytes, or with a unit: a collection is one message. Example: 128MiB'
            cand --cert-file 'Client certificate for mcps:// stores, PEM'
            cand --key-file 'Private key of the client certificate, PEM'
            cand --ca-cert-file 'CA certificates that verify mcps:// stores, PEM'
            cand --use-adapter-crds 'Whether to read adapter-specific kinds (denier, memquota, …)'
            cand --use-template-crds 'Whether to read template-specific kinds (metric, quota, …)'
            cand --concurrency 'Worker threads, each with its own event loop and connections; 0 means one per core'
            cand --single-threaded 'Run on a single thread'
            cand --max-message-size 'Maximum size of a gRPC message in bytes, or with a unit. Example: 4MiB'
            cand --memory-limit 'Maximum memory for everything that callers can make the server keep: requests, quotas, series, caches'
            cand --max-concurrent-streams 'Maximum calls in flight per connection'
            cand --max-check-quotas 'Maximum quotas of a check, and descriptors of a rate limit call of Envoy; a call with more is rejected'
            cand --max-report-records 'Maximum records of a report, and entries of an access log message of Envoy; a message with more is rejected'
            cand --receive-timeout 'Time limit for receiving a message: a call whose message is not complete by then fails. Example: 10s'
            cand --max-connection-age 'Age at which a connection gets a GOAWAY, so that clients rebalance over the servers; 0s means never. Example: 30m'
            cand --api-worker-pool-size 'Maximum asynchronous API calls in flight; synchronous calls bypass the pool'
            cand --api-worker-pool-floor 'Adapt the pool size to the load: initial and minimum size; 0 keeps the size fixed'
            cand --api-queue-length 'Maximum API calls in the queue of the pool; further calls are rejected'
            cand --adapter-worker-pool-size 'Maximum asynchronous calls in flight per handler'
            cand --adapter-worker-pool-floor 'Adapt the pool size to the load: initial and minimum size; 0 keeps the size fixed'
            cand --adapter-queue-length 'Maximum calls in the queue of a handler; further calls fail'
            cand --num-check-cache-entries 'Maximum entries of the check cache; 0 disables the cache'
            cand --liveness-probe-path 'Probe file that is updated while the server is alive'
            cand --liveness-probe-interval 'Maximum age of the probe file; it is updated twice per interval. Example: 2s'
            cand --readiness-probe-path 'Probe file that is updated while the server is ready'
            cand --readiness-probe-interval 'Maximum age of the probe file; it is updated twice per interval. Example: 2s'
            cand --pid-file 'PID file. Example: /run/mixer.pid'
            cand --drain-delay 'Delay between "not ready" and the end of accepting calls at shutdown'
            cand --shutdown-timeout 'Timeout of the whole shutdown; remaining calls are aborted'
            cand --envoy-bridge 'Whether to serve Envoy on the API port: ext_authz, access log and rate limit services'
            cand --envoy-http-address 'Address of HTTP ext_authz. Example: 127.0.0.1:9191'
            cand --envoy-ratelimit-http-address 'Address of rate limits over HTTP: POST /json, GET /rlconfig, GET /healthcheck. Example: 127.0.0.1:9192'
            cand --ctrlz-port 'Port of the ControlZ introspection pages; 0 disables them'
            cand --ctrlz-address 'Address of the ControlZ introspection pages; `*` means all interfaces'
            cand --ctrlz-readonly 'Make ControlZ read-only'
            cand --ctrlz-token-file 'File with the bearer token that ControlZ requires: `Authorization: Bearer TOKEN`, or a login form in browsers'
            cand --ctrlz-allowed-hosts 'Host names that ControlZ accepts besides localhost and IP addresses. Example: ops.example.com,mixer'
            cand --profile 'Whether to serve /debug/pprof on the monitoring port'
            cand --legacy-metrics 'Also expose metrics under the names of Mixer 1.0, for existing dashboards'
            cand --heap-profile-rate 'Mean bytes between sampled allocations for /debug/pprof/heap; 0 samples only while that URL is requested'
            cand --load-shedding-mode 'Action on calls over the limits: disabled, logonly or enforce'
            cand --average-latency-threshold 'Maximum mean latency; 0s means no limit'
            cand --latency-samples-per-second 'Maximum latency samples per second'
            cand --latency-sample-half-life 'Half-life of a latency sample'
            cand --max-requests-per-second 'Maximum calls per second; a Report counts as many calls as it has attribute sets; 0 means no limit'
            cand --burst-size 'Burst size of the rate limit; without it the calls of a second, or 0 if called as mixs'
            cand --load-shedding-check-reserve 'Fraction of the limits above that is reserved for checks: reports are rejected earlier. From 0 to 1'
            cand --load-shedding-fair 'Fair sharing: clients with more than the mean load are rejected first'
            cand --log-target 'Log output: a file, stdout or stderr; may be repeated'
            cand --log-rotate 'Additional rotated log file'
            cand --log-rotate-max-size 'Size at which the log file is rotated, in MiB, or with a unit. Example: 1GiB'
            cand --log-rotate-max-age 'Days to keep rotated log files; 0 means no limit'
            cand --log-rotate-max-backups 'Rotated log files to keep; 0 means all'
            cand --log-as-json 'Write log records as JSON objects'
            cand --log-output-level 'Log levels: `[scope:]level,…` with the levels none, fatal, error, warn, info, debug'
            cand --log-stacktrace-level 'Minimum level of records with a stack trace: `[scope:]level,…`'
            cand --log-caller 'Scopes whose records include the source location'
            cand --trace-zipkin-url 'URL of a Zipkin collector. Example: http://zipkin:9411/api/v1/spans'
            cand --trace-jaeger-url 'URL of a Jaeger collector. Example: http://jaeger:14268/api/traces?format=jaeger.thrift'
            cand --trace-otlp-url 'URL of an OpenTelemetry collector (OTLP over HTTP). Example: http://collector:4318/v1/traces'
            cand --trace-log-spans 'Write a log record for every span'
            cand --trace-sampling-rate 'Fraction of new traces that are sampled, from 0 to 1'
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
            cand --color 'When to color output'
            cand --error-format 'Format of error messages on standard error'
            cand --print-config 'Print all settings with their origin, then exit'
            cand --dry-run 'Run the start-up sequence, print what would be served, then exit'
            cand -v 'Log at level debug: servers in their log, other commands on standard error'
            cand --verbose 'Log at level debug: servers in their log, other commands on standard error'
            cand --quiet 'Print errors only, no results, warnings and progress: the exit status tells the result'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mixer;check'= {
            cand -m 'Server address: host:port, dns:///host:port, unix:///path or unix:path'
            cand --server 'Server address: host:port, dns:///host:port, unix:///path or unix:path'
            cand --config 'Configuration to evaluate in this process instead of calling a server: fs://DIR, a path, `-` for standard input, or embedded://sample'
            cand --default-namespace 'Namespace of mesh-wide rules'
            cand -a 'Attributes, auto-detected type: name1=value1,name2=value2,…'
            cand --attributes 'Attributes, auto-detected type: name1=value1,name2=value2,…'
            cand -s 'String attributes: name1=value1,name2=value2,…'
            cand --string-attributes 'String attributes: name1=value1,name2=value2,…'
            cand -i 'Integer attributes: name1=1,name2=2,…'
            cand --int64-attributes 'Integer attributes: name1=1,name2=2,…'
            cand -d 'Floating point attributes: name1=0.5,name2=1e3,…'
            cand --double-attributes 'Floating point attributes: name1=0.5,name2=1e3,…'
            cand -b 'Boolean attributes: name1=true,name2=false,…'
            cand --bool-attributes 'Boolean attributes: name1=true,name2=false,…'
            cand -t 'Timestamp attributes: name1=2017-07-04T00:01:10Z,…'
            cand --timestamp-attributes 'Timestamp attributes: name1=2017-07-04T00:01:10Z,…'
            cand --duration-attributes 'Duration attributes: name1=250ms,name2=1h30m,…'
            cand --bytes-attributes 'Bytes attributes, for example IP addresses: name1=c0:0:0:2,…'
            cand --ip-attributes 'IP addresses: name1=192.0.2.1,name2=2001:db8::1,…'
            cand --stringmap-attributes 'String map attributes: name1=key1:value1;key2:value2,…'
            cand --attributes-file 'YAML or JSON file with attributes; `@-` reads standard input. Flags override the file'
            cand --dictionary 'Whether to encode words with the global dictionary'
            cand -r 'Calls per worker; 0 or less sends nothing'
            cand --repeat 'Calls per worker; 0 or less sends nothing'
            cand -c 'Concurrent workers'
            cand --concurrency 'Concurrent workers'
            cand --rate 'Maximum calls per second of all workers; 0 or less means no limit'
            cand --report-batch-size 'Attribute sets per report'
            cand --timeout 'Timeout per call. Example: 5s'
            cand --ca-file 'CA certificates that verify the server, PEM; default: those of the system'
            cand --cert-file 'Client certificate chain, PEM'
            cand --key-file 'Private key of the client certificate, PEM'
            cand --server-name 'Server name in the server certificate; default: the host of the target'
            cand --print-response 'Print responses; `check` prints failures even without it'
            cand -o 'Output format; default: table on a terminal, else plain'
            cand --output 'Output format; default: table on a terminal, else plain'
            cand --trace-zipkin-url 'URL of a Zipkin collector. Example: http://zipkin:9411/api/v1/spans'
            cand --trace-jaeger-url 'URL of a Jaeger collector. Example: http://jaeger:14268/api/traces?format=jaeger.thrift'
            cand --trace-otlp-url 'URL of an OpenTelemetry collector (OTLP over HTTP). Example: http://collector:4318/v1/traces'
            cand --trace-log-spans 'Write a log record for every span'
            cand --trace-sampling-rate 'Fraction of new traces that are sampled, from 0 to 1'
            cand -q 'Quotas to allocate: name1=amount1,name2=amount2,…'
            cand --quotas 'Quotas to allocate: name1=amount1,name2=amount2,…'
            cand --explain-page 'Page of the rules of --explain: each lists 50 more of those that did not match. Implies --explain'
            cand --color 'When to color output'
            cand --error-format 'Format of error messages on standard error'
            cand --serve-valid 'Take --config as a server with --config-on-error serve-valid: without what has an error'
            cand --wait-for-ready 'Wait until the server is reachable, at most --timeout'
            cand --tls 'Use TLS; implied by the other flags of this group'
            cand --quiet 'Print no results, progress bar, summary or warnings: the exit status tells the result, and failed calls are told on standard error. Results are printed all the same with --output'
            cand --exit-zero 'Exit with status 0 regardless of the results'
            cand --native-exit-codes 'Use the exit statuses of `mixer` when called as mixc'
            cand --require-quota 'Exit with status 1 unless every quota is granted in full'
            cand --explain 'Explain the result: rules considered, value of each condition, near misses, results of handlers'
            cand -v 'Log at level debug: servers in their log, other commands on standard error'
            cand --verbose 'Log at level debug: servers in their log, other commands on standard error'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mixer;report'= {
            cand -m 'Server address: host:port, dns:///host:port, unix:///path or unix:path'
            cand --server 'Server address: host:port, dns:///host:port, unix:///path or unix:path'
            cand --config 'Configuration to evaluate in this process instead of calling a server: fs://DIR, a path, `-` for standard input, or embedded://sample'
            cand --default-namespace 'Namespace of mesh-wide rules'
            cand -a 'Attributes, auto-detected type: name1=value1,name2=value2,…'
            cand --attributes 'Attributes, auto-detected type: name1=value1,name2=value2,…'
            cand -s 'String attributes: name1=value1,name2=value2,…'
            cand --string-attributes 'String attributes: name1=value1,name2=value2,…'
            cand -i 'Integer attributes: name1=1,name2=2,…'
            cand --int64-attributes 'Integer attributes: name1=1,name2=2,…'
            cand -d 'Floating point attributes: name1=0.5,name2=1e3,…'
            cand --double-attributes 'Floating point attributes: name1=0.5,name2=1e3,…'
            cand -b 'Boolean attributes: name1=true,name2=false,…'
            cand --bool-attributes 'Boolean attributes: name1=true,name2=false,…'
            cand -t 'Timestamp attributes: name1=2017-07-04T00:01:10Z,…'
            cand --timestamp-attributes 'Timestamp attributes: name1=2017-07-04T00:01:10Z,…'
            cand --duration-attributes 'Duration attributes: name1=250ms,name2=1h30m,…'
            cand --bytes-attributes 'Bytes attributes, for example IP addresses: name1=c0:0:0:2,…'
            cand --ip-attributes 'IP addresses: name1=192.0.2.1,name2=2001:db8::1,…'
            cand --stringmap-attributes 'String map attributes: name1=key1:value1;key2:value2,…'
            cand --attributes-file 'YAML or JSON file with attributes; `@-` reads standard input. Flags override the file'
            cand --dictionary 'Whether to encode words with the global dictionary'
            cand -r 'Calls per worker; 0 or less sends nothing'
            cand --repeat 'Calls per worker; 0 or less sends nothing'
            cand -c 'Concurrent workers'
            cand --concurrency 'Concurrent workers'
            cand --rate 'Maximum calls per second of all workers; 0 or less means no limit'
            cand --report-batch-size 'Attribute sets per report'
            cand --timeout 'Timeout per call. Example: 5s'
            cand --ca-file 'CA certificates that verify the server, PEM; default: those of the system'
            cand --cert-file 'Client certificate chain, PEM'
            cand --key-file 'Private key of the client certificate, PEM'
            cand --server-name 'Server name in the server certificate; default: the host of the target'
            cand --print-response 'Print responses; `check` prints failures even without it'
            cand -o 'Output format; default: table on a terminal, else plain'
            cand --output 'Output format; default: table on a terminal, else plain'
            cand --trace-zipkin-url 'URL of a Zipkin collector. Example: http://zipkin:9411/api/v1/spans'
            cand --trace-jaeger-url 'URL of a Jaeger collector. Example: http://jaeger:14268/api/traces?format=jaeger.thrift'
            cand --trace-otlp-url 'URL of an OpenTelemetry collector (OTLP over HTTP). Example: http://collector:4318/v1/traces'
            cand --trace-log-spans 'Write a log record for every span'
            cand --trace-sampling-rate 'Fraction of new traces that are sampled, from 0 to 1'
            cand --color 'When to color output'
            cand --error-format 'Format of error messages on standard error'
            cand --serve-valid 'Take --config as a server with --config-on-error serve-valid: without what has an error'
            cand --wait-for-ready 'Wait until the server is reachable, at most --timeout'
            cand --tls 'Use TLS; implied by the other flags of this group'
            cand --quiet 'Print no results, progress bar, summary or warnings: the exit status tells the result, and failed calls are told on standard error. Results are printed all the same with --output'
            cand --exit-zero 'Exit with status 0 regardless of the results'
            cand --native-exit-codes 'Use the exit statuses of `mixer` when called as mixc'
            cand -v 'Log at level debug: servers in their log, other commands on standard error'
            cand --verbose 'Log at level debug: servers in their log, other commands on standard error'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mixer;probe'= {
            cand --probe-path 'Probe file to check'
            cand --interval 'Maximum age of the probe file, and interval of --watch'
            cand --server 'Server whose gRPC health service is called: host:port or unix:///path; may be repeated'
            cand --service 'Service name of the health check: empty or istio.mixer.v1.Mixer for readiness, `liveness` for liveness'
            cand --http 'URL that must return a 2xx status; may be repeated. Example: http://localhost:15014/readyz'
            cand --timeout 'Timeout of a gRPC or HTTP request'
            cand -o 'Output format'
            cand --output 'Output format'
            cand --ca-file 'CA certificates that verify the server, PEM; default: those of the system'
            cand --cert-file 'Client certificate chain, PEM'
            cand --key-file 'Private key of the client certificate, PEM'
            cand --server-name 'Server name in the server certificate; default: the host of the target'
            cand --log-target 'Log output: a file, stdout or stderr; may be repeated'
            cand --log-rotate 'Additional rotated log file'
            cand --log-rotate-max-size 'Size at which the log file is rotated, in MiB, or with a unit. Example: 1GiB'
            cand --log-rotate-max-age 'Days to keep rotated log files; 0 means no limit'
            cand --log-rotate-max-backups 'Rotated log files to keep; 0 means all'
            cand --log-as-json 'Write log records as JSON objects'
            cand --log-output-level 'Log levels: `[scope:]level,…` with the levels none, fatal, error, warn, info, debug'
            cand --log-stacktrace-level 'Minimum level of records with a stack trace: `[scope:]level,…`'
            cand --log-caller 'Scopes whose records include the source location'
            cand --color 'When to color output'
            cand --error-format 'Format of error messages on standard error'
            cand --watch 'Watch the targets and print every change, until SIGINT'
            cand --tls 'Use TLS; implied by the other flags of this group'
            cand -v 'Log at level debug: servers in their log, other commands on standard error'
            cand --verbose 'Log at level debug: servers in their log, other commands on standard error'
            cand --quiet 'Print errors only, no results, warnings and progress: the exit status tells the result'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mixer;validate'= {
            cand --config 'The same as PATH, as other commands have it'
            cand --default-namespace 'Namespace of mesh-wide rules'
            cand --allow-empty-config 'Accept a configuration without resources, which allows every request'
            cand --suppress 'With --analyze: a message that is not reported of a resource. Repeatable; `*` stands for any characters'
            cand --server 'Show what the configuration would change in a running server: its host, and the port of ControlZ, by default 9876'
            cand --ctrlz-token-file 'File with the bearer token of ControlZ: that of --ctrlz-token-file of the server. Also MIXER_CTRLZ_TOKEN_FILE'
            cand -o 'Output format; default: table on a terminal, else plain'
            cand --output 'Output format; default: table on a terminal, else plain'
            cand --color 'When to color output'
            cand --error-format 'Format of error messages on standard error'
            cand --strict 'Treat warnings as errors; with --server, differences as well'
            cand --lint 'Report valid but probably unintended configuration: unused handlers and instances, constant conditions, shadowed rules'
            cand --analyze 'Report what resources of the mesh say together: references that lead nowhere, conflicts, workloads outside of the mesh'
            cand -v 'Log at level debug: servers in their log, other commands on standard error'
            cand --verbose 'Log at level debug: servers in their log, other commands on standard error'
            cand --quiet 'Print errors only, no results, warnings and progress: the exit status tells the result'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mixer;eval'= {
            cand --lang 'Its language: CEXL (the classic one), CEL or COMPAT. Default: that of ISTIO_LANG, or CEXL'
            cand --config 'Configuration whose attribute manifests declare attributes: a path, a URL, or `-`. Given and standard attributes need none'
            cand --default-namespace 'Namespace of mesh-wide rules'
            cand -a 'Attributes, auto-detected type: name1=value1,name2=value2,…'
            cand --attributes 'Attributes, auto-detected type: name1=value1,name2=value2,…'
            cand -s 'String attributes: name1=value1,name2=value2,…'
            cand --string-attributes 'String attributes: name1=value1,name2=value2,…'
            cand -i 'Integer attributes: name1=1,name2=2,…'
            cand --int64-attributes 'Integer attributes: name1=1,name2=2,…'
            cand -d 'Floating point attributes: name1=0.5,name2=1e3,…'
            cand --double-attributes 'Floating point attributes: name1=0.5,name2=1e3,…'
            cand -b 'Boolean attributes: name1=true,name2=false,…'
            cand --bool-attributes 'Boolean attributes: name1=true,name2=false,…'
            cand -t 'Timestamp attributes: name1=2017-07-04T00:01:10Z,…'
            cand --timestamp-attributes 'Timestamp attributes: name1=2017-07-04T00:01:10Z,…'
            cand --duration-attributes 'Duration attributes: name1=250ms,name2=1h30m,…'
            cand --bytes-attributes 'Bytes attributes, for example IP addresses: name1=c0:0:0:2,…'
            cand --ip-attributes 'IP addresses: name1=192.0.2.1,name2=2001:db8::1,…'
            cand --stringmap-attributes 'String map attributes: name1=key1:value1;key2:value2,…'
            cand --attributes-file 'YAML or JSON file with attributes; `@-` reads standard input. Flags override the file'
            cand --dictionary 'Whether to encode words with the global dictionary'
            cand -o 'Output format; default: table on a terminal, else plain, which is the value alone'
            cand --output 'Output format; default: table on a terminal, else plain, which is the value alone'
            cand --color 'When to color output'
            cand --error-format 'Format of error messages on standard error'
            cand -v 'Log at level debug: servers in their log, other commands on standard error'
            cand --verbose 'Log at level debug: servers in their log, other commands on standard error'
            cand --quiet 'Print errors only, no results, warnings and progress: the exit status tells the result'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mixer;explain-code'= {
            cand --color 'When to color output'
            cand --error-format 'Format of error messages on standard error'
            cand -v 'Log at level debug: servers in their log, other commands on standard error'
            cand --verbose 'Log at level debug: servers in their log, other commands on standard error'
            cand --quiet 'Print errors only, no results, warnings and progress: the exit status tells the result'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mixer;test'= {
            cand --config 'Configuration to test: fs://DIR, a path, or embedded://sample; may be repeated. Overrides the test files'
            cand --default-namespace 'Namespace of mesh-wide rules'
            cand --allow-empty-config 'Accept a configuration without resources, which allows every request'
            cand --filter 'Run only tests whose file or name contains TEXT'
            cand --junit 'Also write the results as JUnit XML'
            cand -o 'Output format; default: table on a terminal, else plain'
            cand --output 'Output format; default: table on a terminal, else plain'
            cand --color 'When to color output'
            cand --error-format 'Format of error messages on standard error'
            cand --fail-fast 'Stop after the first failed test'
            cand -v 'Log at level debug: servers in their log, other commands on standard error'
            cand --verbose 'Log at level debug: servers in their log, other commands on standard error'
            cand --quiet 'Print errors only, no results, warnings and progress: the exit status tells the result'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mixer;diff'= {
            cand --from 'Current configuration: fs://DIR, a path, or embedded://sample'
            cand --to 'Changed configuration. `--config` is the same, as other commands have it'
            cand --config 'Changed configuration. `--config` is the same, as other commands have it'
            cand --requests 'Recorded calls from `mixer server --record-requests` or `--decision-log`; `-` for standard input'
            cand --default-namespace 'Namespace of mesh-wide rules'
            cand --limit 'Maximum groups of changes in a table, most frequent first'
            cand -o 'Output format; default: table on a terminal, else plain'
            cand --output 'Output format; default: table on a terminal, else plain'
            cand --color 'When to color output'
            cand --error-format 'Format of error messages on standard error'
            cand --serve-valid 'Compare configurations with errors as servers with --config-on-error serve-valid have them: without what has an error'
            cand -v 'Log at level debug: servers in their log, other commands on standard error'
            cand --verbose 'Log at level debug: servers in their log, other commands on standard error'
            cand --quiet 'Print errors only, no results, warnings and progress: the exit status tells the result'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mixer;snapshot'= {
            cand --color 'When to color output'
            cand --error-format 'Format of error messages on standard error'
            cand -v 'Log at level debug: servers in their log, other commands on standard error'
            cand --verbose 'Log at level debug: servers in their log, other commands on standard error'
            cand --quiet 'Print errors only, no results, warnings and progress: the exit status tells the result'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
            cand dump 'Print a snapshot: attributes, handlers, instances, rules, adapters, templates'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'mixer;snapshot;dump'= {
            cand --config 'Configuration to read: fs://DIR, a path, `-` for standard input, or embedded://sample'
            cand --server 'Query a running server instead: its host, and the port of ControlZ, by default 9876. Example: localhost:9876'
            cand --ctrlz-token-file 'File with the bearer token of ControlZ: that of --ctrlz-token-file of the server. Also MIXER_CTRLZ_TOKEN_FILE'
            cand --default-namespace 'Namespace of mesh-wide rules'
            cand --section 'Sections to print, separated by commas; default: all'
            cand -o 'Output format; default: table on a terminal, else plain'
            cand --output 'Output format; default: table on a terminal, else plain'
            cand --diff 'Compare with an earlier JSON dump; exits with status 1 if they differ, or may'
            cand --color 'When to color output'
            cand --error-format 'Format of error messages on standard error'
            cand --show-secrets 'Do not mask secret parameters'
            cand -v 'Log at level debug: servers in their log, other commands on standard error'
            cand --verbose 'Log at level debug: servers in their log, other commands on standard error'
            cand --quiet 'Print errors only, no results, warnings and progress: the exit status tells the result'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mixer;snapshot;help'= {
            cand dump 'Print a snapshot: attributes, handlers, instances, rules, adapters, templates'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'mixer;snapshot;help;dump'= {
        }
        &'mixer;snapshot;help;help'= {
        }
        &'mixer;routes'= {
            cand --color 'When to color output'
            cand --error-format 'Format of error messages on standard error'
            cand -v 'Log at level debug: servers in their log, other commands on standard error'
            cand --verbose 'Log at level debug: servers in their log, other commands on standard error'
            cand --quiet 'Print errors only, no results, warnings and progress: the exit status tells the result'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
            cand show 'Print the routing table: variety, namespace, handler, condition, instances'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'mixer;routes;show'= {
            cand --config 'Configuration to read: fs://DIR, a path, `-` for standard input, or embedded://sample'
            cand --server 'Query a running server instead: its host, and the port of ControlZ, by default 9876. Example: localhost:9876'
            cand --ctrlz-token-file 'File with the bearer token of ControlZ: that of --ctrlz-token-file of the server. Also MIXER_CTRLZ_TOKEN_FILE'
            cand --default-namespace 'Namespace of mesh-wide rules'
            cand --variety 'Show routes of one variety: check, report, quota, attribute-generator or check-with-output'
            cand --namespace 'Show routes of one namespace. Exits with status 2 if none has routes of that name'
            cand --handler 'Show routes to matching handlers; `*` matches any text. Exits with status 2 if there is none'
            cand --match 'Mark routes that match a request with these attributes: name1=value1,name2=value2,…'
            cand -o 'Output format; default: table on a terminal, else plain'
            cand --output 'Output format; default: table on a terminal, else plain'
            cand --color 'When to color output'
            cand --error-format 'Format of error messages on standard error'
            cand -v 'Log at level debug: servers in their log, other commands on standard error'
            cand --verbose 'Log at level debug: servers in their log, other commands on standard error'
            cand --quiet 'Print errors only, no results, warnings and progress: the exit status tells the result'
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
        &'mixer;proxy'= {
            cand -c 'The bootstrap: a YAML or JSON file'
            cand --config-path 'The bootstrap: a YAML or JSON file'
            cand --config 'The bootstrap: a YAML or JSON file'
            cand --config-yaml 'The bootstrap as text instead of a file, YAML or JSON'
            cand --concurrency 'Number of worker threads; 0 is one. Default: the number of CPUs'
            cand --mode 'Serve, or only validate the bootstrap'
            cand -l 'Log level'
            cand --log-level 'Log level'
            cand --log-path 'Log file; default: standard error'
            cand --admin-address-path 'Where to write host:port of the admin interface once it listens'
            cand --admin-allowed-hosts 'Names that the admin interface may be asked by besides localhost and IP addresses. Example: proxy.example.com,web-1'
            cand --terminate-drain 'Time that connections have to end after SIGTERM or SIGINT, in seconds; 0 closes them at once, as Envoy does'
            cand --drain-time-s 'Time that connections of a listener have to end once it is replaced or removed, in seconds; then they are closed'
            cand --drain-strategy 'How often responses end their connections during that time'
            cand --body-memory 'Memory for bodies of requests that filters wait for, over all connections'
            cand --service-node 'Overrides `node.id`'
            cand --service-cluster 'Overrides `node.cluster`'
            cand --base-id 'Has no effect: there is no hot restart, which needs it'
            cand --color 'When to color output'
            cand --error-format 'Format of error messages on standard error'
            cand --mixer-exact-tcp-deltas 'Byte counts in Mixer reports of TCP connections are those since the report before, of whatever kind'
            cand --disable-hot-restart 'Has no effect: there is no hot restart'
            cand -v 'Log at level debug: servers in their log, other commands on standard error'
            cand --verbose 'Log at level debug: servers in their log, other commands on standard error'
            cand --quiet 'Print errors only, no results, warnings and progress: the exit status tells the result'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mixer;adapter'= {
            cand --color 'When to color output'
            cand --error-format 'Format of error messages on standard error'
            cand -v 'Log at level debug: servers in their log, other commands on standard error'
            cand --verbose 'Log at level debug: servers in their log, other commands on standard error'
            cand --quiet 'Print errors only, no results, warnings and progress: the exit status tells the result'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
            cand new 'Write a new adapter in Rust: a crate with a gRPC server, and its resources'
            cand resources 'Print the resources of an adapter: its templates and the adapter itself'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'mixer;adapter;new'= {
            cand --template 'Templates that it takes, separated by commas: built-in ones, or NAME:VARIETY for one of its own'
            cand --directory 'Directory to write to; default: one with the name of the adapter'
            cand --namespace 'Namespace of its resources'
            cand --color 'When to color output'
            cand --error-format 'Format of error messages on standard error'
            cand -v 'Log at level debug: servers in their log, other commands on standard error'
            cand --verbose 'Log at level debug: servers in their log, other commands on standard error'
            cand --quiet 'Print errors only, no results, warnings and progress: the exit status tells the result'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mixer;adapter;resources'= {
            cand -I 'Directory that imports are relative to; may be repeated'
            cand --proto-dir 'Directory that imports are relative to; may be repeated'
            cand --template 'Proto of a template that it takes, relative to a directory of --proto-dir; may be repeated'
            cand --params 'Proto with the message `Params`, relative to a directory of --proto-dir; default: it has no parameters'
            cand --namespace 'Namespace of the resources'
            cand --color 'When to color output'
            cand --error-format 'Format of error messages on standard error'
            cand --session-based 'It takes its parameters once, in a session'
            cand -v 'Log at level debug: servers in their log, other commands on standard error'
            cand --verbose 'Log at level debug: servers in their log, other commands on standard error'
            cand --quiet 'Print errors only, no results, warnings and progress: the exit status tells the result'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mixer;adapter;help'= {
            cand new 'Write a new adapter in Rust: a crate with a gRPC server, and its resources'
            cand resources 'Print the resources of an adapter: its templates and the adapter itself'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'mixer;adapter;help;new'= {
        }
        &'mixer;adapter;help;resources'= {
        }
        &'mixer;adapter;help;help'= {
        }
        &'mixer;version'= {
            cand -s 'Print the version only'
            cand --short 'Print the version only'
            cand -o 'One of ''yaml'' or ''json''; overrides --short'
            cand --output 'One of ''yaml'' or ''json''; overrides --short'
            cand --color 'When to color output'
            cand --error-format 'Format of error messages on standard error'
            cand -v 'Log at level debug: servers in their log, other commands on standard error'
            cand --verbose 'Log at level debug: servers in their log, other commands on standard error'
            cand --quiet 'Print errors only, no results, warnings and progress: the exit status tells the result'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mixer;crd'= {
            cand --color 'When to color output'
            cand --error-format 'Format of error messages on standard error'
            cand -v 'Log at level debug: servers in their log, other commands on standard error'
            cand --verbose 'Log at level debug: servers in their log, other commands on standard error'
            cand --quiet 'Print errors only, no results, warnings and progress: the exit status tells the result'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
            cand all 'List all kinds: core, adapters, instances'
            cand adapter 'List adapter-specific kinds'
            cand instance 'List template-specific kinds'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'mixer;crd;all'= {
            cand --api-version 'API version of the definitions: v1beta1 or v1'
            cand --color 'When to color output'
            cand --error-format 'Format of error messages on standard error'
            cand -v 'Log at level debug: servers in their log, other commands on standard error'
            cand --verbose 'Log at level debug: servers in their log, other commands on standard error'
            cand --quiet 'Print errors only, no results, warnings and progress: the exit status tells the result'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mixer;crd;adapter'= {
            cand --api-version 'API version of the definitions: v1beta1 or v1'
            cand --color 'When to color output'
            cand --error-format 'Format of error messages on standard error'
            cand -v 'Log at level debug: servers in their log, other commands on standard error'
            cand --verbose 'Log at level debug: servers in their log, other commands on standard error'
            cand --quiet 'Print errors only, no results, warnings and progress: the exit status tells the result'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mixer;crd;instance'= {
            cand --api-version 'API version of the definitions: v1beta1 or v1'
            cand --color 'When to color output'
            cand --error-format 'Format of error messages on standard error'
            cand -v 'Log at level debug: servers in their log, other commands on standard error'
            cand --verbose 'Log at level debug: servers in their log, other commands on standard error'
            cand --quiet 'Print errors only, no results, warnings and progress: the exit status tells the result'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mixer;crd;help'= {
            cand all 'List all kinds: core, adapters, instances'
            cand adapter 'List adapter-specific kinds'
            cand instance 'List template-specific kinds'
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
            cand --name 'Program name: mixer, mixs, mixc or galley'
            cand --color 'When to color output'
            cand --error-format 'Format of error messages on standard error'
            cand -v 'Log at level debug: servers in their log, other commands on standard error'
            cand --verbose 'Log at level debug: servers in their log, other commands on standard error'
            cand --quiet 'Print errors only, no results, warnings and progress: the exit status tells the result'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mixer;man'= {
            cand --dir 'Write one page per command to this directory instead of printing the page of `mixer`'
            cand --color 'When to color output'
            cand --error-format 'Format of error messages on standard error'
            cand -v 'Log at level debug: servers in their log, other commands on standard error'
            cand --verbose 'Log at level debug: servers in their log, other commands on standard error'
            cand --quiet 'Print errors only, no results, warnings and progress: the exit status tells the result'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mixer;legacy'= {
            cand --color 'When to color output'
            cand --error-format 'Format of error messages on standard error'
            cand -v 'Log at level debug: servers in their log, other commands on standard error'
            cand --verbose 'Log at level debug: servers in their log, other commands on standard error'
            cand --quiet 'Print errors only, no results, warnings and progress: the exit status tells the result'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mixer;galley'= {
            cand --color 'When to color output'
            cand --error-format 'Format of error messages on standard error'
            cand -v 'Log at level debug: servers in their log, other commands on standard error'
            cand --verbose 'Log at level debug: servers in their log, other commands on standard error'
            cand --quiet 'Print errors only, no results, warnings and progress: the exit status tells the result'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
            cand wait 'Wait until sinks have acknowledged a change'
            cand sinks 'Show the sinks: what each has of every collection, and what it refused'
            cand status 'Show sources, groups, sinks and the webhook at a glance'
            cand snapshot 'Show or compare what is published'
            cand watch 'Print events of sources as they happen'
            cand server 'Starts Galley as a server'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'mixer;galley;wait'= {
            cand --sinks 'Sinks that must have acknowledged it, at least; all that are connected must in any case'
            cand --timeout 'How long to wait'
            cand --server 'Running galley: its host, and the port of ControlZ, by default 9876'
            cand --ctrlz-token-file 'File with the bearer token of ControlZ: that of --ctrlz-token-file of the server. Also MIXER_CTRLZ_TOKEN_FILE'
            cand -o 'Output format; default: plain'
            cand --output 'Output format; default: plain'
            cand --color 'When to color output'
            cand --error-format 'Format of error messages on standard error'
            cand -v 'Log at level debug: servers in their log, other commands on standard error'
            cand --verbose 'Log at level debug: servers in their log, other commands on standard error'
            cand --quiet 'Print errors only, no results, warnings and progress: the exit status tells the result'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mixer;galley;sinks'= {
            cand --server 'Running galley: its host, and the port of ControlZ, by default 9876'
            cand --ctrlz-token-file 'File with the bearer token of ControlZ: that of --ctrlz-token-file of the server. Also MIXER_CTRLZ_TOKEN_FILE'
            cand -o 'Output format; default: table'
            cand --output 'Output format; default: table'
            cand --color 'When to color output'
            cand --error-format 'Format of error messages on standard error'
            cand -v 'Log at level debug: servers in their log, other commands on standard error'
            cand --verbose 'Log at level debug: servers in their log, other commands on standard error'
            cand --quiet 'Print errors only, no results, warnings and progress: the exit status tells the result'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mixer;galley;status'= {
            cand --server 'Running galley: its host, and the port of ControlZ, by default 9876'
            cand --ctrlz-token-file 'File with the bearer token of ControlZ: that of --ctrlz-token-file of the server. Also MIXER_CTRLZ_TOKEN_FILE'
            cand -o 'Output format; default: table'
            cand --output 'Output format; default: table'
            cand --color 'When to color output'
            cand --error-format 'Format of error messages on standard error'
            cand -v 'Log at level debug: servers in their log, other commands on standard error'
            cand --verbose 'Log at level debug: servers in their log, other commands on standard error'
            cand --quiet 'Print errors only, no results, warnings and progress: the exit status tells the result'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mixer;galley;snapshot'= {
            cand --color 'When to color output'
            cand --error-format 'Format of error messages on standard error'
            cand -v 'Log at level debug: servers in their log, other commands on standard error'
            cand --verbose 'Log at level debug: servers in their log, other commands on standard error'
            cand --quiet 'Print errors only, no results, warnings and progress: the exit status tells the result'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
            cand dump 'Print what is published'
            cand diff 'Compare what is published with a dump, or with another galley. Exits with status 1 if they differ'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'mixer;galley;snapshot;dump'= {
            cand --server 'Running galley: its host, and the port of ControlZ, by default 9876'
            cand --ctrlz-token-file 'File with the bearer token of ControlZ: that of --ctrlz-token-file of the server. Also MIXER_CTRLZ_TOKEN_FILE'
            cand --group 'Snapshot group'
            cand --collection 'One collection'
            cand -o 'Output format; default: json'
            cand --output 'Output format; default: json'
            cand --color 'When to color output'
            cand --error-format 'Format of error messages on standard error'
            cand --show-secrets 'Do not mask secret parameters, if galley may reveal them'
            cand -v 'Log at level debug: servers in their log, other commands on standard error'
            cand --verbose 'Log at level debug: servers in their log, other commands on standard error'
            cand --quiet 'Print errors only, no results, warnings and progress: the exit status tells the result'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mixer;galley;snapshot;diff'= {
            cand --server 'Running galley: its host, and the port of ControlZ, by default 9876'
            cand --ctrlz-token-file 'File with the bearer token of ControlZ: that of --ctrlz-token-file of the server. Also MIXER_CTRLZ_TOKEN_FILE'
            cand --group 'Snapshot group'
            cand --collection 'One collection'
            cand --color 'When to color output'
            cand --error-format 'Format of error messages on standard error'
            cand -v 'Log at level debug: servers in their log, other commands on standard error'
            cand --verbose 'Log at level debug: servers in their log, other commands on standard error'
            cand --quiet 'Print errors only, no results, warnings and progress: the exit status tells the result'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mixer;galley;snapshot;help'= {
            cand dump 'Print what is published'
            cand diff 'Compare what is published with a dump, or with another galley. Exits with status 1 if they differ'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'mixer;galley;snapshot;help;dump'= {
        }
        &'mixer;galley;snapshot;help;diff'= {
        }
        &'mixer;galley;snapshot;help;help'= {
        }
        &'mixer;galley;watch'= {
            cand --server 'Running galley: its host, and the port of ControlZ, by default 9876'
            cand --ctrlz-token-file 'File with the bearer token of ControlZ: that of --ctrlz-token-file of the server. Also MIXER_CTRLZ_TOKEN_FILE'
            cand --color 'When to color output'
            cand --error-format 'Format of error messages on standard error'
            cand --once 'Print the events so far, and exit'
            cand --json 'Print one JSON object per event'
            cand -v 'Log at level debug: servers in their log, other commands on standard error'
            cand --verbose 'Log at level debug: servers in their log, other commands on standard error'
            cand --quiet 'Print errors only, no results, warnings and progress: the exit status tells the result'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mixer;galley;server'= {
            cand -c 'Resources: a directory, a file, fs://DIR or k8s://[KUBECONFIG]. Or settings: a file, YAML, JSON or TOML, whose precedence is flag, file, default'
            cand --config 'Resources: a directory, a file, fs://DIR or k8s://[KUBECONFIG]. Or settings: a file, YAML, JSON or TOML, whose precedence is flag, file, default'
            cand --config-file 'Resources: a directory, a file, fs://DIR or k8s://[KUBECONFIG]. Or settings: a file, YAML, JSON or TOML, whose precedence is flag, file, default'
            cand --config-path 'Directory or file of resources; without it, a Kubernetes cluster'
            cand --watch-config-files 'Notice changes of files; otherwise on SIGUSR1 only'
            cand --mesh-config-file 'Mesh configuration, YAML; empty: the defaults'
            cand --kubeconfig 'Kubeconfig of the cluster; without it, the one in which this process runs'
            cand --resync-period 'How often all objects are listed again and compared; 0 means never'
            cand --disable-resource-ready-check 'Start although the cluster lacks kinds of resources'
            cand --excluded-resource-kinds 'Kinds that are not read, separated by commas'
            cand --domain 'Domain of services'
            cand --enable-service-discovery 'Make service entries from services, endpoints, pods and nodes'
            cand --enable-analysis 'Tell in the log what published resources say together, as the analyzers of Istio 1.5: references that lead nowhere, conflicts'
            cand --use-old-processor 'Versions and collections as of the first processor of Istio Galley; otherwise as of the second'
            cand --istio-pace 'Wait as long as Istio Galley before a change is published: about a second'
            cand --config-on-error 'What sinks get while files or objects have errors: keep-last, which they have already, or serve-valid, what is valid, as from Istio Galley. Default: keep-last; called as galley, serve-valid'
            cand --allow-empty-config 'Accept a --config-path without resources, which allows every request, and at a start one with an empty directory below it'
            cand --config-cache 'Directory that keeps the files that were published last for the next start, with --config-path'
            cand --zookeeper-address 'ZooKeeper with the registry of Dubbo, whose services become service entries: HOST:PORT, separated by commas, and perhaps /CHROOT at the end'
            cand --zookeeper-root 'Node below which services are'
            cand --zookeeper-session-timeout 'Time after which a session without a sign of life ends'
            cand --zookeeper-namespace 'Namespace of these service entries'
            cand --zookeeper-user 'User of the scheme digest'
            cand --zookeeper-password-file 'File with his password, which is read for each connection'
            cand --zookeeper-ca-cert-file 'Connect to ZooKeeper with TLS, and verify it with the roots in this file, PEM'
            cand --zookeeper-cert-file 'Client certificate chain for ZooKeeper, PEM'
            cand --zookeeper-key-file 'Its private key, PEM'
            cand --eureka-address 'Eureka servers whose applications become service entries: http://HOST:PORT/eureka, separated by commas'
            cand --eureka-refresh 'How often Eureka is asked for changes'
            cand --eureka-timeout 'Time limit of a request to Eureka'
            cand --eureka-namespace 'Namespace of these service entries'
            cand --eureka-service-port 'Port of their services; 0: that of the first instance'
            cand --eureka-user 'User of Eureka, with HTTP basic authentication'
            cand --eureka-password-file 'File with his password, which is read again when it changes'
            cand --eureka-ca-cert-file 'Roots of the certificates of Eureka, PEM; empty: those of the system'
            cand --eureka-cert-file 'Client certificate chain for Eureka, PEM'
            cand --eureka-key-file 'Its private key, PEM'
            cand --enable-server 'Read configuration and serve it to sinks'
            cand --server-address 'Address of sinks: tcp://HOST:PORT or unix:///PATH'
            cand --server-max-received-message-size 'Most bytes of a message of a sink'
            cand --memory-limit 'Most memory that all sinks together can make the server keep: connections, streams, requests'
            cand --server-max-concurrent-streams 'Streams of a connection; a sink needs one'
            cand --insecure 'Serve plain text to everyone'
            cand --tls-cert-file 'Certificate chain, PEM'
            cand --tls-key-file 'Its private key, PEM'
            cand --ca-cert-file 'Roots of the certificates of sinks, PEM'
            cand --access-list-file 'Identities of sinks that may connect, YAML'
            cand --incremental 'Send differences to sinks that ask for them: by default, unless called as galley'
            cand --legacy-mcp 'Serve sinks of Istio 1.0 and 1.1 too, which call AggregatedMeshConfigService'
            cand --sink-address 'Sink to call, HOST:PORT; may be repeated'
            cand --sink-auth-mode 'How sinks that are called are authenticated: NONE, TLS, MUTUAL_TLS or GOOGLE'
            cand --sink-meta 'Headers of streams: KEY=VALUE, separated by commas'
            cand --enable-validation 'Serve the webhook that API servers ask about resources'
            cand --validation-port 'Port of the webhook on all interfaces'
            cand --validation-depth 'What is checked of resources of the policy engine: structural, as Istio does, or deep, as `mixer validate` does'
            cand --validation-webhook-config-file 'The webhook configuration that the cluster is to have, YAML; without it, the one that it has is completed'
            cand --enable-reconcile-webhook-configuration 'Keep the webhook configuration of the cluster as it should be'
            cand --webhook-name 'Name of the webhook configuration'
            cand --deployment-namespace 'Namespace of the deployment and the service of Galley'
            cand --deployment-name 'Name of the deployment'
            cand --service-name 'Name of the service'
            cand --ctrlz-port 'Port of the ControlZ introspection pages; 0 disables them'
            cand --ctrlz-address 'Address of the ControlZ introspection pages; `*` means all interfaces'
            cand --ctrlz-readonly 'Make ControlZ read-only'
            cand --ctrlz-token-file 'File with the bearer token that ControlZ requires'
            cand --ctrlz-allowed-hosts 'Host names that ControlZ accepts besides localhost and IP addresses'
            cand --monitoring-port 'HTTP port of metrics, version and health on all interfaces; texts of errors are for clients on this host'
            cand --monitoring-address 'Address of that port, instead of all interfaces; texts of errors are then for whoever reaches it. Example: 127.0.0.1:15014'
            cand --enable-profiling 'Serve profiles, to clients on this host'
            cand --pprof-port 'HTTP port of profiles'
            cand --metric-per-resource 'Export a metric for every resource'
            cand --liveness-probe-path 'Probe file that is updated while the process works'
            cand --liveness-probe-interval 'Maximum age of that file'
            cand --readiness-probe-path 'Probe file that is updated while sinks are served'
            cand --readiness-probe-interval 'Maximum age of that file'
            cand --log-target 'Log output: a file, stdout or stderr; may be repeated'
            cand --log-rotate 'Additional rotated log file'
            cand --log-rotate-max-size 'Size at which the log file is rotated, in MiB, or with a unit. Example: 1GiB'
            cand --log-rotate-max-age 'Days to keep rotated log files; 0 means no limit'
            cand --log-rotate-max-backups 'Rotated log files to keep; 0 means all'
            cand --log-as-json 'Write log records as JSON objects'
            cand --log-output-level 'Log levels: `[scope:]level,…` with the levels none, fatal, error, warn, info, debug'
            cand --log-stacktrace-level 'Minimum level of records with a stack trace: `[scope:]level,…`'
            cand --log-caller 'Scopes whose records include the source location'
            cand --color 'When to color output'
            cand --error-format 'Format of error messages on standard error'
            cand -v 'Log at level debug: servers in their log, other commands on standard error'
            cand --verbose 'Log at level debug: servers in their log, other commands on standard error'
            cand --quiet 'Print errors only, no results, warnings and progress: the exit status tells the result'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mixer;galley;help'= {
            cand wait 'Wait until sinks have acknowledged a change'
            cand sinks 'Show the sinks: what each has of every collection, and what it refused'
            cand status 'Show sources, groups, sinks and the webhook at a glance'
            cand snapshot 'Show or compare what is published'
            cand watch 'Print events of sources as they happen'
            cand server 'Starts Galley as a server'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'mixer;galley;help;wait'= {
        }
        &'mixer;galley;help;sinks'= {
        }
        &'mixer;galley;help;status'= {
        }
        &'mixer;galley;help;snapshot'= {
            cand dump 'Print what is published'
            cand diff 'Compare what is published with a dump, or with another galley. Exits with status 1 if they differ'
        }
        &'mixer;galley;help;snapshot;dump'= {
        }
        &'mixer;galley;help;snapshot;diff'= {
        }
        &'mixer;galley;help;watch'= {
        }
        &'mixer;galley;help;server'= {
        }
        &'mixer;galley;help;help'= {
        }
        &'mixer;doctor'= {
            cand -o 'Output format; default: table on a terminal, else plain'
            cand --output 'Output format; default: table on a terminal, else plain'
            cand --config-file 'Settings file, YAML or TOML; keys are flag names'
            cand -p 'TCP port of the gRPC API on all interfaces; ignored if --address is set'
            cand --port 'TCP port of the gRPC API on all interfaces; ignored if --address is set'
            cand --address 'Address of the gRPC API: tcp://127.0.0.1:9091 or unix:///run/mixer.sock'
            cand --socket-mode 'File mode of a Unix socket, octal. Example: 0660'
            cand --grpc-reflection 'Whether to serve gRPC reflection; auto enables it if the API listens on loopback or a Unix socket only'
            cand --monitoring-port 'HTTP port of metrics, version and health, on all interfaces; profiles and texts of errors are for clients on this host'
            cand --monitoring-address 'Address of that port, instead of all interfaces; both are then for whoever reaches it. Example: 127.0.0.1:15014'
            cand --metrics-port 'HTTP port of the metrics of prometheus handlers, on all interfaces'
            cand --metrics-address 'Address of those metrics, instead of all interfaces. Example: 127.0.0.1:42422'
            cand --tls-cert-file 'Server certificate chain, PEM; TCP clients must then use TLS'
            cand --tls-key-file 'Private key of the certificate, PEM'
            cand --tls-client-ca-file 'CA certificates that verify client certificates, PEM; requests a certificate from clients'
            cand --tls-client-auth 'Whether clients must present a certificate'
            cand --tls-min-version 'Minimum TLS version'
            cand --tls-allowed-peers 'Allowed clients, by URI or DNS name in their certificate: NAME,NAME,…; a name may begin or end with `*`'
            cand --config-store-url 'Configuration store: a directory, fs://DIR, k8s://KUBECONFIG, mcp://HOST:PORT, mcps://HOST:PORT, mcp+listen://ADDR or embedded://sample'
            cand --config 'Configuration store: a directory, fs://DIR, k8s://KUBECONFIG, mcp://HOST:PORT, mcps://HOST:PORT, mcp+listen://ADDR or embedded://sample'
            cand --config-default-namespace 'Namespace of mesh-wide rules'
            cand --default-namespace 'Namespace of mesh-wide rules'
            cand --config-wait-timeout 'Timeout of the initial configuration of a remote store'
            cand --config-on-error 'What serves when the configuration has errors: keep-last, serve-valid or refuse'
            cand --allow-empty-config 'Accept a configuration without resources, which allows every request'
            cand --config-cache 'Directory that keeps the last good configuration for the next start'
            cand --config-loss 'What to do when the configuration directory disappears, with --config-on-error serve-valid: keep or drop the configuration'
            cand --config-write-status 'Whether to write onto Kubernetes objects whether they can be used, as a condition `Accepted` of their status'
            cand --mcp-max-message-size 'Maximum size of a message of an MCP source in bytes, or with a unit: a collection is one message. Example: 128MiB'
            cand --cert-file 'Client certificate for mcps:// stores, PEM'
            cand --key-file 'Private key of the client certificate, PEM'
            cand --ca-cert-file 'CA certificates that verify mcps:// stores, PEM'
            cand --use-adapter-crds 'Whether to read adapter-specific kinds (denier, memquota, …)'
            cand --use-template-crds 'Whether to read template-specific kinds (metric, quota, …)'
            cand --concurrency 'Worker threads, each with its own event loop and connections; 0 means one per core'
            cand --single-threaded 'Run on a single thread'
            cand --max-message-size 'Maximum size of a gRPC message in bytes, or with a unit. Example: 4MiB'
            cand --memory-limit 'Maximum memory for everything that callers can make the server keep: requests, quotas, series, caches'
            cand --max-concurrent-streams 'Maximum calls in flight per connection'
            cand --max-check-quotas 'Maximum quotas of a check, and descriptors of a rate limit call of Envoy; a call with more is rejected'
            cand --max-report-records 'Maximum records of a report, and entries of an access log message of Envoy; a message with more is rejected'
            cand --receive-timeout 'Time limit for receiving a message: a call whose message is not complete by then fails. Example: 10s'
            cand --max-connection-age 'Age at which a connection gets a GOAWAY, so that clients rebalance over the servers; 0s means never. Example: 30m'
            cand --api-worker-pool-size 'Maximum asynchronous API calls in flight; synchronous calls bypass the pool'
            cand --api-worker-pool-floor 'Adapt the pool size to the load: initial and minimum size; 0 keeps the size fixed'
            cand --api-queue-length 'Maximum API calls in the queue of the pool; further calls are rejected'
            cand --adapter-worker-pool-size 'Maximum asynchronous calls in flight per handler'
            cand --adapter-worker-pool-floor 'Adapt the pool size to the load: initial and minimum size; 0 keeps the size fixed'
            cand --adapter-queue-length 'Maximum calls in the queue of a handler; further calls fail'
            cand --num-check-cache-entries 'Maximum entries of the check cache; 0 disables the cache'
            cand --liveness-probe-path 'Probe file that is updated while the server is alive'
            cand --liveness-probe-interval 'Maximum age of the probe file; it is updated twice per interval. Example: 2s'
            cand --readiness-probe-path 'Probe file that is updated while the server is ready'
            cand --readiness-probe-interval 'Maximum age of the probe file; it is updated twice per interval. Example: 2s'
            cand --pid-file 'PID file. Example: /run/mixer.pid'
            cand --drain-delay 'Delay between "not ready" and the end of accepting calls at shutdown'
            cand --shutdown-timeout 'Timeout of the whole shutdown; remaining calls are aborted'
            cand --envoy-bridge 'Whether to serve Envoy on the API port: ext_authz, access log and rate limit services'
            cand --envoy-http-address 'Address of HTTP ext_authz. Example: 127.0.0.1:9191'
            cand --envoy-ratelimit-http-address 'Address of rate limits over HTTP: POST /json, GET /rlconfig, GET /healthcheck. Example: 127.0.0.1:9192'
            cand --ctrlz-port 'Port of the ControlZ introspection pages; 0 disables them'
            cand --ctrlz-address 'Address of the ControlZ introspection pages; `*` means all interfaces'
            cand --ctrlz-readonly 'Make ControlZ read-only'
            cand --ctrlz-token-file 'File with the bearer token that ControlZ requires: `Authorization: Bearer TOKEN`, or a login form in browsers'
            cand --ctrlz-allowed-hosts 'Host names that ControlZ accepts besides localhost and IP addresses. Example: ops.example.com,mixer'
            cand --profile 'Whether to serve /debug/pprof on the monitoring port'
            cand --legacy-metrics 'Also expose metrics under the names of Mixer 1.0, for existing dashboards'
            cand --heap-profile-rate 'Mean bytes between sampled allocations for /debug/pprof/heap; 0 samples only while that URL is requested'
            cand --load-shedding-mode 'Action on calls over the limits: disabled, logonly or enforce'
            cand --average-latency-threshold 'Maximum mean latency; 0s means no limit'
            cand --latency-samples-per-second 'Maximum latency samples per second'
            cand --latency-sample-half-life 'Half-life of a latency sample'
            cand --max-requests-per-second 'Maximum calls per second; a Report counts as many calls as it has attribute sets; 0 means no limit'
            cand --burst-size 'Burst size of the rate limit; without it the calls of a second, or 0 if called as mixs'
            cand --load-shedding-check-reserve 'Fraction of the limits above that is reserved for checks: reports are rejected earlier. From 0 to 1'
            cand --load-shedding-fair 'Fair sharing: clients with more than the mean load are rejected first'
            cand --log-target 'Log output: a file, stdout or stderr; may be repeated'
            cand --log-rotate 'Additional rotated log file'
            cand --log-rotate-max-size 'Size at which the log file is rotated, in MiB, or with a unit. Example: 1GiB'
            cand --log-rotate-max-age 'Days to keep rotated log files; 0 means no limit'
            cand --log-rotate-max-backups 'Rotated log files to keep; 0 means all'
            cand --log-as-json 'Write log records as JSON objects'
            cand --log-output-level 'Log levels: `[scope:]level,…` with the levels none, fatal, error, warn, info, debug'
            cand --log-stacktrace-level 'Minimum level of records with a stack trace: `[scope:]level,…`'
            cand --log-caller 'Scopes whose records include the source location'
            cand --trace-zipkin-url 'URL of a Zipkin collector. Example: http://zipkin:9411/api/v1/spans'
            cand --trace-jaeger-url 'URL of a Jaeger collector. Example: http://jaeger:14268/api/traces?format=jaeger.thrift'
            cand --trace-otlp-url 'URL of an OpenTelemetry collector (OTLP over HTTP). Example: http://collector:4318/v1/traces'
            cand --trace-log-spans 'Write a log record for every span'
            cand --trace-sampling-rate 'Fraction of new traces that are sampled, from 0 to 1'
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
            cand --color 'When to color output'
            cand --error-format 'Format of error messages on standard error'
            cand --print-config 'Print all settings with their origin, then exit'
            cand --dry-run 'Run the start-up sequence, print what would be served, then exit'
            cand -v 'Log at level debug: servers in their log, other commands on standard error'
            cand --verbose 'Log at level debug: servers in their log, other commands on standard error'
            cand --quiet 'Print errors only, no results, warnings and progress: the exit status tells the result'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mixer;help'= {
            cand init 'Write a commented policy to begin with'
            cand fmt 'Bring configuration files into their layout'
            cand server 'Start the server'
            cand check 'Check a request against a server or a configuration'
            cand report 'Report a request to a server or a configuration'
            cand probe 'Check whether a server is alive or ready'
            cand validate 'Validate a configuration'
            cand eval 'Evaluate an expression over given attributes'
            cand explain-code 'Say what a code of a diagnostic means, and what to do'
            cand test 'Run policy tests against a configuration, without a server'
            cand diff 'Show which recorded decisions a configuration change alters, and why'
            cand snapshot 'Show the compiled configuration'
            cand routes 'Show which requests reach which handlers'
            cand proxy 'Forward traffic as an Envoy bootstrap says'
            cand adapter 'Start an adapter of your own, out of process'
            cand version 'Print program version and build information'
            cand crd 'Print the Kubernetes custom resource definitions'
            cand completions 'Print a completion script for a shell'
            cand man 'Print or write man pages'
            cand legacy 'Behave like mixs, mixc or galley of Istio'
            cand galley 'Run and inspect the configuration plane'
            cand doctor 'Find problems that would prevent a server from starting or running'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'mixer;help;init'= {
        }
        &'mixer;help;fmt'= {
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
        &'mixer;help;eval'= {
        }
        &'mixer;help;explain-code'= {
        }
        &'mixer;help;test'= {
        }
        &'mixer;help;diff'= {
        }
        &'mixer;help;snapshot'= {
            cand dump 'Print a snapshot: attributes, handlers, instances, rules, adapters, templates'
        }
        &'mixer;help;snapshot;dump'= {
        }
        &'mixer;help;routes'= {
            cand show 'Print the routing table: variety, namespace, handler, condition, instances'
        }
        &'mixer;help;routes;show'= {
        }
        &'mixer;help;proxy'= {
        }
        &'mixer;help;adapter'= {
            cand new 'Write a new adapter in Rust: a crate with a gRPC server, and its resources'
            cand resources 'Print the resources of an adapter: its templates and the adapter itself'
        }
        &'mixer;help;adapter;new'= {
        }
        &'mixer;help;adapter;resources'= {
        }
        &'mixer;help;version'= {
        }
        &'mixer;help;crd'= {
            cand all 'List all kinds: core, adapters, instances'
            cand adapter 'List adapter-specific kinds'
            cand instance 'List template-specific kinds'
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
        &'mixer;help;legacy'= {
        }
        &'mixer;help;galley'= {
            cand wait 'Wait until sinks have acknowledged a change'
            cand sinks 'Show the sinks: what each has of every collection, and what it refused'
            cand status 'Show sources, groups, sinks and the webhook at a glance'
            cand snapshot 'Show or compare what is published'
            cand watch 'Print events of sources as they happen'
            cand server 'Starts Galley as a server'
        }
        &'mixer;help;galley;wait'= {
        }
        &'mixer;help;galley;sinks'= {
        }
        &'mixer;help;galley;status'= {
        }
        &'mixer;help;galley;snapshot'= {
            cand dump 'Print what is published'
            cand diff 'Compare what is published with a dump, or with another galley. Exits with status 1 if they differ'
        }
        &'mixer;help;galley;snapshot;dump'= {
        }
        &'mixer;help;galley;snapshot;diff'= {
        }
        &'mixer;help;galley;watch'= {
        }
        &'mixer;help;galley;server'= {
        }
        &'mixer;help;doctor'= {
        }
        &'mixer;help;help'= {
        }
    ]
    $completions[$command]
}
