# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_mixer_global_optspecs
    string join \n color= error-format= v/verbose quiet h/help V/version
end

function __fish_mixer_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_mixer_global_optspecs) -- $cmd 2>/dev/null
    or return 0
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

complete -c mixer -n "__fish_mixer_needs_command" -l color -d 'When to color output' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb; always with CLICOLOR_FORCE'
always\t'Always'
never\t'Never'"
complete -c mixer -n "__fish_mixer_needs_command" -l error-format -d 'Format of error messages on standard error' -r -f -a "text\t'`error:`, `cause:` and `hint:` lines'
json\t'One JSON document per line'"
complete -c mixer -n "__fish_mixer_needs_command" -s v -l verbose -d 'Log at level debug: servers in their log, other commands on standard error'
complete -c mixer -n "__fish_mixer_needs_command" -l quiet -d 'Print errors only, no results, warnings and progress: the exit status tells the result'
complete -c mixer -n "__fish_mixer_needs_command" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mixer -n "__fish_mixer_needs_command" -s V -l version -d 'Print version'
complete -c mixer -n "__fish_mixer_needs_command" -f -a "init" -d 'Write a commented policy to begin with'
complete -c mixer -n "__fish_mixer_needs_command" -f -a "fmt" -d 'Bring configuration files into their layout'
complete -c mixer -n "__fish_mixer_needs_command" -f -a "server" -d 'Start the server'
complete -c mixer -n "__fish_mixer_needs_command" -f -a "check" -d 'Check a request against a server or a configuration'
complete -c mixer -n "__fish_mixer_needs_command" -f -a "report" -d 'Report a request to a server or a configuration'
complete -c mixer -n "__fish_mixer_needs_command" -f -a "probe" -d 'Check whether a server is alive or ready'
complete -c mixer -n "__fish_mixer_needs_command" -f -a "validate" -d 'Validate a configuration'
complete -c mixer -n "__fish_mixer_needs_command" -f -a "eval" -d 'Evaluate an expression over given attributes'
complete -c mixer -n "__fish_mixer_needs_command" -f -a "explain-code" -d 'Say what a code of a diagnostic means, and what to do'
complete -c mixer -n "__fish_mixer_needs_command" -f -a "test" -d 'Run policy tests against a configuration, without a server'
complete -c mixer -n "__fish_mixer_needs_command" -f -a "diff" -d 'Show which recorded decisions a configuration change alters, and why'
complete -c mixer -n "__fish_mixer_needs_command" -f -a "snapshot" -d 'Show the compiled configuration'
complete -c mixer -n "__fish_mixer_needs_command" -f -a "routes" -d 'Show which requests reach which handlers'
complete -c mixer -n "__fish_mixer_needs_command" -f -a "proxy" -d 'Forward traffic as an Envoy bootstrap says'
complete -c mixer -n "__fish_mixer_needs_command" -f -a "adapter" -d 'Start an adapter of your own, out of process'
complete -c mixer -n "__fish_mixer_needs_command" -f -a "version" -d 'Print program version and build information'
complete -c mixer -n "__fish_mixer_needs_command" -f -a "crd" -d 'Print the Kubernetes custom resource definitions'
complete -c mixer -n "__fish_mixer_needs_command" -f -a "completions" -d 'Print a completion script for a shell'
complete -c mixer -n "__fish_mixer_needs_command" -f -a "man" -d 'Print or write man pages'
complete -c mixer -n "__fish_mixer_needs_command" -f -a "legacy" -d 'Behave like mixs, mixc or galley of Istio'
complete -c mixer -n "__fish_mixer_needs_command" -f -a "galley" -d 'Run and inspect the configuration plane'
complete -c mixer -n "__fish_mixer_needs_command" -f -a "doctor" -d 'Find problems that would prevent a server from starting or running'
complete -c mixer -n "__fish_mixer_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c mixer -n "__fish_mixer_using_subcommand init" -l for -d 'Who asks the server: Envoy, or callers of the Mixer API, such as Istio\'s proxies' -r -f -a "envoy\t'An Envoy, with ext_authz, the rate limit service and the access log service'
mixer\t'Callers of the Mixer API'"
complete -c mixer -n "__fish_mixer_using_subcommand init" -l color -d 'When to color output' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb; always with CLICOLOR_FORCE'
always\t'Always'
never\t'Never'"
complete -c mixer -n "__fish_mixer_using_subcommand init" -l error-format -d 'Format of error messages on standard error' -r -f -a "text\t'`error:`, `cause:` and `hint:` lines'
json\t'One JSON document per line'"
complete -c mixer -n "__fish_mixer_using_subcommand init" -s v -l verbose -d 'Log at level debug: servers in their log, other commands on standard error'
complete -c mixer -n "__fish_mixer_using_subcommand init" -l quiet -d 'Print errors only, no results, warnings and progress: the exit status tells the result'
complete -c mixer -n "__fish_mixer_using_subcommand init" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mixer -n "__fish_mixer_using_subcommand fmt" -l color -d 'When to color output' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb; always with CLICOLOR_FORCE'
always\t'Always'
never\t'Never'"
complete -c mixer -n "__fish_mixer_using_subcommand fmt" -l error-format -d 'Format of error messages on standard error' -r -f -a "text\t'`error:`, `cause:` and `hint:` lines'
json\t'One JSON document per line'"
complete -c mixer -n "__fish_mixer_using_subcommand fmt" -l check -d 'Write nothing: list the files that would change, and exit with status 1 if there is one'
complete -c mixer -n "__fish_mixer_using_subcommand fmt" -l diff -d 'Write nothing: show what would change. With --check, the status says whether anything would'
complete -c mixer -n "__fish_mixer_using_subcommand fmt" -s v -l verbose -d 'Log at level debug: servers in their log, other commands on standard error'
complete -c mixer -n "__fish_mixer_using_subcommand fmt" -l quiet -d 'Print errors only, no results, warnings and progress: the exit status tells the result'
complete -c mixer -n "__fish_mixer_using_subcommand fmt" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mixer -n "__fish_mixer_using_subcommand server" -l config-file -d 'Settings file, YAML or TOML; keys are flag names' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand server" -s p -l port -d 'TCP port of the gRPC API on all interfaces; ignored if --address is set' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand server" -l address -d 'Address of the gRPC API: tcp://127.0.0.1:9091 or unix:///run/mixer.sock' -r -f -a "(__fish_print_hostnames)"
complete -c mixer -n "__fish_mixer_using_subcommand server" -l socket-mode -d 'File mode of a Unix socket, octal. Example: 0660' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand server" -l grpc-reflection -d 'Whether to serve gRPC reflection; auto enables it if the API listens on loopback or a Unix socket only' -r -f -a "auto\t'Only if the API is reachable from this host only'
on\t'Always'
off\t'Never'"
complete -c mixer -n "__fish_mixer_using_subcommand server" -l monitoring-port -d 'HTTP port of metrics, version and health, on all interfaces; profiles and texts of errors are for clients on this host' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand server" -l monitoring-address -d 'Address of that port, instead of all interfaces; both are then for whoever reaches it. Example: 127.0.0.1:15014' -r -f -a "(__fish_print_hostnames)"
complete -c mixer -n "__fish_mixer_using_subcommand server" -l metrics-port -d 'HTTP port of the metrics of prometheus handlers, on all interfaces' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand server" -l metrics-address -d 'Address of those metrics, instead of all interfaces. Example: 127.0.0.1:42422' -r -f -a "(__fish_print_hostnames)"
complete -c mixer -n "__fish_mixer_using_subcommand server" -l tls-cert-file -d 'Server certificate chain, PEM; TCP clients must then use TLS' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand server" -l tls-key-file -d 'Private key of the certificate, PEM' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand server" -l tls-client-ca-file -d 'CA certificates that verify client certificates, PEM; requests a certificate from clients' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand server" -l tls-client-auth -d 'Whether clients must present a certificate' -r -f -a "require\t'Clients without a certificate are refused'
optional\t'A certificate is verified if presented'"
complete -c mixer -n "__fish_mixer_using_subcommand server" -l tls-min-version -d 'Minimum TLS version' -r -f -a "1.2\t'TLS 1.2'
1.3\t'TLS 1.3'"
complete -c mixer -n "__fish_mixer_using_subcommand server" -l tls-allowed-peers -d 'Allowed clients, by URI or DNS name in their certificate: NAME,NAME,…; a name may begin or end with `*`' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand server" -l config-store-url -l config -d 'Configuration store: a directory, fs://DIR, k8s://KUBECONFIG, mcp://HOST:PORT, mcps://HOST:PORT, mcp+listen://ADDR or embedded://sample' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand server" -l config-default-namespace -l default-namespace -d 'Namespace of mesh-wide rules' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand server" -l config-wait-timeout -d 'Timeout of the initial configuration of a remote store' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand server" -l config-on-error -d 'What serves when the configuration has errors: keep-last, serve-valid or refuse' -r -f -a "keep-last\t''
serve-valid\t''
refuse\t''"
complete -c mixer -n "__fish_mixer_using_subcommand server" -l allow-empty-config -d 'Accept a configuration without resources, which allows every request' -r -f -a "true\t''
false\t''"
complete -c mixer -n "__fish_mixer_using_subcommand server" -l config-cache -d 'Directory that keeps the last good configuration for the next start' -r -f -a "(__fish_complete_directories)"
complete -c mixer -n "__fish_mixer_using_subcommand server" -l config-loss -d 'What to do when the configuration directory disappears, with --config-on-error serve-valid: keep or drop the configuration' -r -f -a "keep\t''
drop\t''"
complete -c mixer -n "__fish_mixer_using_subcommand server" -l config-write-status -d 'Whether to write onto Kubernetes objects whether they can be used, as a condition `Accepted` of their status' -r -f -a "true\t''
false\t''"
complete -c mixer -n "__fish_mixer_using_subcommand server" -l mcp-max-message-size -d 'Maximum size of a message of an MCP source in bytes, or with a unit: a collection is one message. Example: 128MiB' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand server" -l cert-file -d 'Client certificate for mcps:// stores, PEM' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand server" -l key-file -d 'Private key of the client certificate, PEM' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand server" -l ca-cert-file -d 'CA certificates that verify mcps:// stores, PEM' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand server" -l use-adapter-crds -d 'Whether to read adapter-specific kinds (denier, memquota, …)' -r -f -a "true\t''
false\t''"
complete -c mixer -n "__fish_mixer_using_subcommand server" -l use-template-crds -d 'Whether to read template-specific kinds (metric, quota, …)' -r -f -a "true\t''
false\t''"
complete -c mixer -n "__fish_mixer_using_subcommand server" -l concurrency -d 'Worker threads, each with its own event loop and connections; 0 means one per core' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand server" -l single-threaded -d 'Run on a single thread' -r -f -a "true\t''
false\t''"
complete -c mixer -n "__fish_mixer_using_subcommand server" -l max-message-size -d 'Maximum size of a gRPC message in bytes, or with a unit. Example: 4MiB' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand server" -l memory-limit -d 'Maximum memory for everything that callers can make the server keep: requests, quotas, series, caches' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand server" -l max-concurrent-streams -d 'Maximum calls in flight per connection' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand server" -l max-check-quotas -d 'Maximum quotas of a check, and descriptors of a rate limit call of Envoy; a call with more is rejected' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand server" -l max-report-records -d 'Maximum records of a report, and entries of an access log message of Envoy; a message with more is rejected' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand server" -l receive-timeout -d 'Time limit for receiving a message: a call whose message is not complete by then fails. Example: 10s' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand server" -l max-connection-age -d 'Age at which a connection gets a GOAWAY, so that clients rebalance over the servers; 0s means never. Example: 30m' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand server" -l api-worker-pool-size -d 'Maximum asynchronous API calls in flight; synchronous calls bypass the pool' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand server" -l api-worker-pool-floor -d 'Adapt the pool size to the load: initial and minimum size; 0 keeps the size fixed' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand server" -l api-queue-length -d 'Maximum API calls in the queue of the pool; further calls are rejected' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand server" -l adapter-worker-pool-size -d 'Maximum asynchronous calls in flight per handler' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand server" -l adapter-worker-pool-floor -d 'Adapt the pool size to the load: initial and minimum size; 0 keeps the size fixed' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand server" -l adapter-queue-length -d 'Maximum calls in the queue of a handler; further calls fail' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand server" -l num-check-cache-entries -d 'Maximum entries of the check cache; 0 disables the cache' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand server" -l liveness-probe-path -d 'Probe file that is updated while the server is alive' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand server" -l liveness-probe-interval -d 'Maximum age of the probe file; it is updated twice per interval. Example: 2s' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand server" -l readiness-probe-path -d 'Probe file that is updated while the server is ready' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand server" -l readiness-probe-interval -d 'Maximum age of the probe file; it is updated twice per interval. Example: 2s' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand server" -l pid-file -d 'PID file. Example: /run/mixer.pid' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand server" -l drain-delay -d 'Delay between "not ready" and the end of accepting calls at shutdown' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand server" -l shutdown-timeout -d 'Timeout of the whole shutdown; remaining calls are aborted' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand server" -l envoy-bridge -d 'Whether to serve Envoy on the API port: ext_authz, access log and rate limit services' -r -f -a "true\t''
false\t''"
complete -c mixer -n "__fish_mixer_using_subcommand server" -l envoy-http-address -d 'Address of HTTP ext_authz. Example: 127.0.0.1:9191' -r -f -a "(__fish_print_hostnames)"
complete -c mixer -n "__fish_mixer_using_subcommand server" -l envoy-ratelimit-http-address -d 'Address of rate limits over HTTP: POST /json, GET /rlconfig, GET /healthcheck. Example: 127.0.0.1:9192' -r -f -a "(__fish_print_hostnames)"
complete -c mixer -n "__fish_mixer_using_subcommand server" -l ctrlz-port -d 'Port of the ControlZ introspection pages; 0 disables them' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand server" -l ctrlz-address -d 'Address of the ControlZ introspection pages; `*` means all interfaces' -r -f -a "(__fish_print_hostnames)"
complete -c mixer -n "__fish_mixer_using_subcommand server" -l ctrlz-readonly -d 'Make ControlZ read-only' -r -f -a "true\t''
false\t''"
complete -c mixer -n "__fish_mixer_using_subcommand server" -l ctrlz-token-file -d 'File with the bearer token that ControlZ requires: `Authorization: Bearer TOKEN`, or a login form in browsers' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand server" -l ctrlz-allowed-hosts -d 'Host names that ControlZ accepts besides localhost and IP addresses. Example: ops.example.com,mixer' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand server" -l profile -d 'Whether to serve /debug/pprof on the monitoring port' -r -f -a "true\t''
false\t''"
complete -c mixer -n "__fish_mixer_using_subcommand server" -l legacy-metrics -d 'Also expose metrics under the names of Mixer 1.0, for existing dashboards' -r -f -a "true\t''
false\t''"
complete -c mixer -n "__fish_mixer_using_subcommand server" -l heap-profile-rate -d 'Mean bytes between sampled allocations for /debug/pprof/heap; 0 samples only while that URL is requested' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand server" -l load-shedding-mode -d 'Action on calls over the limits: disabled, logonly or enforce' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand server" -l average-latency-threshold -d 'Maximum mean latency; 0s means no limit' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand server" -l latency-samples-per-second -d 'Maximum latency samples per second' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand server" -l latency-sample-half-life -d 'Half-life of a latency sample' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand server" -l max-requests-per-second -d 'Maximum calls per second; a Report counts as many calls as it has attribute sets; 0 means no limit' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand server" -l burst-size -d 'Burst size of the rate limit; without it the calls of a second, or 0 if called as mixs' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand server" -l load-shedding-check-reserve -d 'Fraction of the limits above that is reserved for checks: reports are rejected earlier. From 0 to 1' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand server" -l load-shedding-fair -d 'Fair sharing: clients with more than the mean load are rejected first' -r -f -a "true\t''
false\t''"
complete -c mixer -n "__fish_mixer_using_subcommand server" -l log-target -d 'Log output: a file, stdout or stderr; may be repeated' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand server" -l log-rotate -d 'Additional rotated log file' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand server" -l log-rotate-max-size -d 'Size at which the log file is rotated, in MiB, or with a unit. Example: 1GiB' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand server" -l log-rotate-max-age -d 'Days to keep rotated log files; 0 means no limit' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand server" -l log-rotate-max-backups -d 'Rotated log files to keep; 0 means all' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand server" -l log-as-json -d 'Write log records as JSON objects' -r -f -a "true\t''
false\t''"
complete -c mixer -n "__fish_mixer_using_subcommand server" -l log-output-level -d 'Log levels: `[scope:]level,…` with the levels none, fatal, error, warn, info, debug' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand server" -l log-stacktrace-level -d 'Minimum level of records with a stack trace: `[scope:]level,…`' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand server" -l log-caller -d 'Scopes whose records include the source location' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand server" -l trace-zipkin-url -d 'URL of a Zipkin collector. Example: http://zipkin:9411/api/v1/spans' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand server" -l trace-jaeger-url -d 'URL of a Jaeger collector. Example: http://jaeger:14268/api/traces?format=jaeger.thrift' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand server" -l trace-otlp-url -d 'URL of an OpenTelemetry collector (OTLP over HTTP). Example: http://collector:4318/v1/traces' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand server" -l trace-log-spans -d 'Write a log record for every span' -r -f -a "true\t''
false\t''"
complete -c mixer -n "__fish_mixer_using_subcommand server" -l trace-sampling-rate -d 'Fraction of new traces that are sampled, from 0 to 1' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand server" -l decision-log -d 'Decision log: a JSON line per check with attributes, result, rules, handlers and duration' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand server" -l decision-log-sampling -d 'Fraction of checks that are logged, from 0 to 1' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand server" -l decision-log-select -d 'Which decisions are logged' -r -f -a "all\t'All'
denied\t'Denials, failures, quotas not granted in full, and denials of dry-run rules'"
complete -c mixer -n "__fish_mixer_using_subcommand server" -l decision-log-max-size -d 'Size at which the decision log is rotated. Example: 100MiB' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand server" -l decision-log-max-backups -d 'Rotated decision logs to keep; 0 means all' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand server" -l decision-queue -d 'Length of the decision queue; further decisions are dropped and counted' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand server" -l decision-mask -d 'Attributes whose values are masked as `***` in log and recording: `NAME` or `NAME[KEY]`, separated by commas' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand server" -l record-requests -d 'Recording of the first calls, with attributes and results, for `mixer diff`' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand server" -l record-max-requests -d 'Maximum calls in the recording' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand server" -l record-max-size -d 'Maximum size of the recording. Example: 64MiB' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand server" -l color -d 'When to color output' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb; always with CLICOLOR_FORCE'
always\t'Always'
never\t'Never'"
complete -c mixer -n "__fish_mixer_using_subcommand server" -l error-format -d 'Format of error messages on standard error' -r -f -a "text\t'`error:`, `cause:` and `hint:` lines'
json\t'One JSON document per line'"
complete -c mixer -n "__fish_mixer_using_subcommand server" -l print-config -d 'Print all settings with their origin, then exit'
complete -c mixer -n "__fish_mixer_using_subcommand server" -l dry-run -d 'Run the start-up sequence, print what would be served, then exit'
complete -c mixer -n "__fish_mixer_using_subcommand server" -s v -l verbose -d 'Log at level debug: servers in their log, other commands on standard error'
complete -c mixer -n "__fish_mixer_using_subcommand server" -l quiet -d 'Print errors only, no results, warnings and progress: the exit status tells the result'
complete -c mixer -n "__fish_mixer_using_subcommand server" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mixer -n "__fish_mixer_using_subcommand check" -s m -l server -d 'Server address: host:port, dns:///host:port, unix:///path or unix:path' -r -f -a "(__fish_print_hostnames)"
complete -c mixer -n "__fish_mixer_using_subcommand check" -l config -d 'Configuration to evaluate in this process instead of calling a server: fs://DIR, a path, `-` for standard input, or embedded://sample' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand check" -l default-namespace -d 'Namespace of mesh-wide rules' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand check" -s a -l attributes -d 'Attributes, auto-detected type: name1=value1,name2=value2,…' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand check" -s s -l string-attributes -d 'String attributes: name1=value1,name2=value2,…' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand check" -s i -l int64-attributes -d 'Integer attributes: name1=1,name2=2,…' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand check" -s d -l double-attributes -d 'Floating point attributes: name1=0.5,name2=1e3,…' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand check" -s b -l bool-attributes -d 'Boolean attributes: name1=true,name2=false,…' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand check" -s t -l timestamp-attributes -d 'Timestamp attributes: name1=2017-07-04T00:01:10Z,…' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand check" -l duration-attributes -d 'Duration attributes: name1=250ms,name2=1h30m,…' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand check" -l bytes-attributes -d 'Bytes attributes, for example IP addresses: name1=c0:0:0:2,…' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand check" -l ip-attributes -d 'IP addresses: name1=192.0.2.1,name2=2001:db8::1,…' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand check" -l stringmap-attributes -d 'String map attributes: name1=key1:value1;key2:value2,…' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand check" -l attributes-file -d 'YAML or JSON file with attributes; `@-` reads standard input. Flags override the file' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand check" -l dictionary -d 'Whether to encode words with the global dictionary' -r -f -a "message\t'None: the message has its own word list, as Istio mixc sends it'
global\t'All words that the global dictionary contains'"
complete -c mixer -n "__fish_mixer_using_subcommand check" -s r -l repeat -d 'Calls per worker; 0 or less sends nothing' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand check" -s c -l concurrency -d 'Concurrent workers' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand check" -l rate -d 'Maximum calls per second of all workers; 0 or less means no limit' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand check" -l report-batch-size -d 'Attribute sets per report' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand check" -l timeout -d 'Timeout per call. Example: 5s' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand check" -l ca-file -d 'CA certificates that verify the server, PEM; default: those of the system' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand check" -l cert-file -d 'Client certificate chain, PEM' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand check" -l key-file -d 'Private key of the client certificate, PEM' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand check" -l server-name -d 'Server name in the server certificate; default: the host of the target' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand check" -l print-response -d 'Print responses; `check` prints failures even without it' -r -f -a "true\t''
false\t''"
complete -c mixer -n "__fish_mixer_using_subcommand check" -s o -l output -d 'Output format; default: table on a terminal, else plain' -r -f -a "table\t'Tables'
plain\t'The text of Istio mixc'
json\t'One JSON document'
json-lines\t'One JSON document per line'
yaml\t'One YAML document per response'"
complete -c mixer -n "__fish_mixer_using_subcommand check" -l trace-zipkin-url -d 'URL of a Zipkin collector. Example: http://zipkin:9411/api/v1/spans' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand check" -l trace-jaeger-url -d 'URL of a Jaeger collector. Example: http://jaeger:14268/api/traces?format=jaeger.thrift' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand check" -l trace-otlp-url -d 'URL of an OpenTelemetry collector (OTLP over HTTP). Example: http://collector:4318/v1/traces' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand check" -l trace-log-spans -d 'Write a log record for every span' -r -f -a "true\t''
false\t''"
complete -c mixer -n "__fish_mixer_using_subcommand check" -l trace-sampling-rate -d 'Fraction of new traces that are sampled, from 0 to 1' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand check" -s q -l quotas -d 'Quotas to allocate: name1=amount1,name2=amount2,…' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand check" -l explain-page -d 'Page of the rules of --explain: each lists 50 more of those that did not match. Implies --explain' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand check" -l color -d 'When to color output' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb; always with CLICOLOR_FORCE'
always\t'Always'
never\t'Never'"
complete -c mixer -n "__fish_mixer_using_subcommand check" -l error-format -d 'Format of error messages on standard error' -r -f -a "text\t'`error:`, `cause:` and `hint:` lines'
json\t'One JSON document per line'"
complete -c mixer -n "__fish_mixer_using_subcommand check" -l serve-valid -d 'Take --config as a server with --config-on-error serve-valid: without what has an error'
complete -c mixer -n "__fish_mixer_using_subcommand check" -l wait-for-ready -d 'Wait until the server is reachable, at most --timeout'
complete -c mixer -n "__fish_mixer_using_subcommand check" -l tls -d 'Use TLS; implied by the other flags of this group'
complete -c mixer -n "__fish_mixer_using_subcommand check" -l quiet -d 'Print no results, progress bar, summary or warnings: the exit status tells the result, and failed calls are told on standard error. Results are printed all the same with --output'
complete -c mixer -n "__fish_mixer_using_subcommand check" -l exit-zero -d 'Exit with status 0 regardless of the results'
complete -c mixer -n "__fish_mixer_using_subcommand check" -l native-exit-codes -d 'Use the exit statuses of `mixer` when called as mixc'
complete -c mixer -n "__fish_mixer_using_subcommand check" -l require-quota -d 'Exit with status 1 unless every quota is granted in full'
complete -c mixer -n "__fish_mixer_using_subcommand check" -l explain -d 'Explain the result: rules considered, value of each condition, near misses, results of handlers'
complete -c mixer -n "__fish_mixer_using_subcommand check" -s v -l verbose -d 'Log at level debug: servers in their log, other commands on standard error'
complete -c mixer -n "__fish_mixer_using_subcommand check" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mixer -n "__fish_mixer_using_subcommand report" -s m -l server -d 'Server address: host:port, dns:///host:port, unix:///path or unix:path' -r -f -a "(__fish_print_hostnames)"
complete -c mixer -n "__fish_mixer_using_subcommand report" -l config -d 'Configuration to evaluate in this process instead of calling a server: fs://DIR, a path, `-` for standard input, or embedded://sample' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand report" -l default-namespace -d 'Namespace of mesh-wide rules' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand report" -s a -l attributes -d 'Attributes, auto-detected type: name1=value1,name2=value2,…' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand report" -s s -l string-attributes -d 'String attributes: name1=value1,name2=value2,…' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand report" -s i -l int64-attributes -d 'Integer attributes: name1=1,name2=2,…' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand report" -s d -l double-attributes -d 'Floating point attributes: name1=0.5,name2=1e3,…' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand report" -s b -l bool-attributes -d 'Boolean attributes: name1=true,name2=false,…' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand report" -s t -l timestamp-attributes -d 'Timestamp attributes: name1=2017-07-04T00:01:10Z,…' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand report" -l duration-attributes -d 'Duration attributes: name1=250ms,name2=1h30m,…' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand report" -l bytes-attributes -d 'Bytes attributes, for example IP addresses: name1=c0:0:0:2,…' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand report" -l ip-attributes -d 'IP addresses: name1=192.0.2.1,name2=2001:db8::1,…' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand report" -l stringmap-attributes -d 'String map attributes: name1=key1:value1;key2:value2,…' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand report" -l attributes-file -d 'YAML or JSON file with attributes; `@-` reads standard input. Flags override the file' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand report" -l dictionary -d 'Whether to encode words with the global dictionary' -r -f -a "message\t'None: the message has its own word list, as Istio mixc sends it'
global\t'All words that the global dictionary contains'"
complete -c mixer -n "__fish_mixer_using_subcommand report" -s r -l repeat -d 'Calls per worker; 0 or less sends nothing' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand report" -s c -l concurrency -d 'Concurrent workers' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand report" -l rate -d 'Maximum calls per second of all workers; 0 or less means no limit' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand report" -l report-batch-size -d 'Attribute sets per report' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand report" -l timeout -d 'Timeout per call. Example: 5s' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand report" -l ca-file -d 'CA certificates that verify the server, PEM; default: those of the system' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand report" -l cert-file -d 'Client certificate chain, PEM' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand report" -l key-file -d 'Private key of the client certificate, PEM' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand report" -l server-name -d 'Server name in the server certificate; default: the host of the target' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand report" -l print-response -d 'Print responses; `check` prints failures even without it' -r -f -a "true\t''
false\t''"
complete -c mixer -n "__fish_mixer_using_subcommand report" -s o -l output -d 'Output format; default: table on a terminal, else plain' -r -f -a "table\t'Tables'
plain\t'The text of Istio mixc'
json\t'One JSON document'
json-lines\t'One JSON document per line'
yaml\t'One YAML document per response'"
complete -c mixer -n "__fish_mixer_using_subcommand report" -l trace-zipkin-url -d 'URL of a Zipkin collector. Example: http://zipkin:9411/api/v1/spans' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand report" -l trace-jaeger-url -d 'URL of a Jaeger collector. Example: http://jaeger:14268/api/traces?format=jaeger.thrift' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand report" -l trace-otlp-url -d 'URL of an OpenTelemetry collector (OTLP over HTTP). Example: http://collector:4318/v1/traces' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand report" -l trace-log-spans -d 'Write a log record for every span' -r -f -a "true\t''
false\t''"
complete -c mixer -n "__fish_mixer_using_subcommand report" -l trace-sampling-rate -d 'Fraction of new traces that are sampled, from 0 to 1' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand report" -l color -d 'When to color output' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb; always with CLICOLOR_FORCE'
always\t'Always'
never\t'Never'"
complete -c mixer -n "__fish_mixer_using_subcommand report" -l error-format -d 'Format of error messages on standard error' -r -f -a "text\t'`error:`, `cause:` and `hint:` lines'
json\t'One JSON document per line'"
complete -c mixer -n "__fish_mixer_using_subcommand report" -l serve-valid -d 'Take --config as a server with --config-on-error serve-valid: without what has an error'
complete -c mixer -n "__fish_mixer_using_subcommand report" -l wait-for-ready -d 'Wait until the server is reachable, at most --timeout'
complete -c mixer -n "__fish_mixer_using_subcommand report" -l tls -d 'Use TLS; implied by the other flags of this group'
complete -c mixer -n "__fish_mixer_using_subcommand report" -l quiet -d 'Print no results, progress bar, summary or warnings: the exit status tells the result, and failed calls are told on standard error. Results are printed all the same with --output'
complete -c mixer -n "__fish_mixer_using_subcommand report" -l exit-zero -d 'Exit with status 0 regardless of the results'
complete -c mixer -n "__fish_mixer_using_subcommand report" -l native-exit-codes -d 'Use the exit statuses of `mixer` when called as mixc'
complete -c mixer -n "__fish_mixer_using_subcommand report" -s v -l verbose -d 'Log at level debug: servers in their log, other commands on standard error'
complete -c mixer -n "__fish_mixer_using_subcommand report" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mixer -n "__fish_mixer_using_subcommand probe" -l probe-path -d 'Probe file to check' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand probe" -l interval -d 'Maximum age of the probe file, and interval of --watch' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand probe" -l server -d 'Server whose gRPC health service is called: host:port or unix:///path; may be repeated' -r -f -a "(__fish_print_hostnames)"
complete -c mixer -n "__fish_mixer_using_subcommand probe" -l service -d 'Service name of the health check: empty or istio.mixer.v1.Mixer for readiness, `liveness` for liveness' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand probe" -l http -d 'URL that must return a 2xx status; may be repeated. Example: http://localhost:15014/readyz' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand probe" -l timeout -d 'Timeout of a gRPC or HTTP request' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand probe" -s o -l output -d 'Output format' -r -f -a "plain\t'One line'
json\t'One JSON document; with --watch one line per change'"
complete -c mixer -n "__fish_mixer_using_subcommand probe" -l ca-file -d 'CA certificates that verify the server, PEM; default: those of the system' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand probe" -l cert-file -d 'Client certificate chain, PEM' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand probe" -l key-file -d 'Private key of the client certificate, PEM' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand probe" -l server-name -d 'Server name in the server certificate; default: the host of the target' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand probe" -l log-target -d 'Log output: a file, stdout or stderr; may be repeated' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand probe" -l log-rotate -d 'Additional rotated log file' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand probe" -l log-rotate-max-size -d 'Size at which the log file is rotated, in MiB, or with a unit. Example: 1GiB' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand probe" -l log-rotate-max-age -d 'Days to keep rotated log files; 0 means no limit' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand probe" -l log-rotate-max-backups -d 'Rotated log files to keep; 0 means all' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand probe" -l log-as-json -d 'Write log records as JSON objects' -r -f -a "true\t''
false\t''"
complete -c mixer -n "__fish_mixer_using_subcommand probe" -l log-output-level -d 'Log levels: `[scope:]level,…` with the levels none, fatal, error, warn, info, debug' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand probe" -l log-stacktrace-level -d 'Minimum level of records with a stack trace: `[scope:]level,…`' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand probe" -l log-caller -d 'Scopes whose records include the source location' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand probe" -l color -d 'When to color output' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb; always with CLICOLOR_FORCE'
always\t'Always'
never\t'Never'"
complete -c mixer -n "__fish_mixer_using_subcommand probe" -l error-format -d 'Format of error messages on standard error' -r -f -a "text\t'`error:`, `cause:` and `hint:` lines'
json\t'One JSON document per line'"
complete -c mixer -n "__fish_mixer_using_subcommand probe" -l watch -d 'Watch the targets and print every change, until SIGINT'
complete -c mixer -n "__fish_mixer_using_subcommand probe" -l tls -d 'Use TLS; implied by the other flags of this group'
complete -c mixer -n "__fish_mixer_using_subcommand probe" -s v -l verbose -d 'Log at level debug: servers in their log, other commands on standard error'
complete -c mixer -n "__fish_mixer_using_subcommand probe" -l quiet -d 'Print errors only, no results, warnings and progress: the exit status tells the result'
complete -c mixer -n "__fish_mixer_using_subcommand probe" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mixer -n "__fish_mixer_using_subcommand validate" -l config -d 'The same as PATH, as other commands have it' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand validate" -l default-namespace -d 'Namespace of mesh-wide rules' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand validate" -l allow-empty-config -d 'Accept a configuration without resources, which allows every request' -r -f -a "true\t''
false\t''"
complete -c mixer -n "__fish_mixer_using_subcommand validate" -l suppress -d 'With --analyze: a message that is not reported of a resource. Repeatable; `*` stands for any characters' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand validate" -l server -d 'Show what the configuration would change in a running server: its host, and the port of ControlZ, by default 9876' -r -f -a "(__fish_print_hostnames)"
complete -c mixer -n "__fish_mixer_using_subcommand validate" -l ctrlz-token-file -d 'File with the bearer token of ControlZ: that of --ctrlz-token-file of the server. Also MIXER_CTRLZ_TOKEN_FILE' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand validate" -s o -l output -d 'Output format; default: table on a terminal, else plain' -r -f -a "table\t'Source excerpts of the first 50 problems, errors first; what follows from a problem below it'
plain\t'One line per problem, with its hint'
json\t'One JSON document'
yaml\t'One YAML document'
github\t'Commands of GitHub Actions, which annotate the lines of a change'
sarif\t'One SARIF 2.1.0 document, for code scanning'"
complete -c mixer -n "__fish_mixer_using_subcommand validate" -l color -d 'When to color output' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb; always with CLICOLOR_FORCE'
always\t'Always'
never\t'Never'"
complete -c mixer -n "__fish_mixer_using_subcommand validate" -l error-format -d 'Format of error messages on standard error' -r -f -a "text\t'`error:`, `cause:` and `hint:` lines'
json\t'One JSON document per line'"
complete -c mixer -n "__fish_mixer_using_subcommand validate" -l strict -d 'Treat warnings as errors; with --server, differences as well'
complete -c mixer -n "__fish_mixer_using_subcommand validate" -l lint -d 'Report valid but probably unintended configuration: unused handlers and instances, constant conditions, shadowed rules'
complete -c mixer -n "__fish_mixer_using_subcommand validate" -l analyze -d 'Report what resources of the mesh say together: references that lead nowhere, conflicts, workloads outside of the mesh'
complete -c mixer -n "__fish_mixer_using_subcommand validate" -s v -l verbose -d 'Log at level debug: servers in their log, other commands on standard error'
complete -c mixer -n "__fish_mixer_using_subcommand validate" -l quiet -d 'Print errors only, no results, warnings and progress: the exit status tells the result'
complete -c mixer -n "__fish_mixer_using_subcommand validate" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mixer -n "__fish_mixer_using_subcommand eval" -l lang -d 'Its language: CEXL (the classic one), CEL or COMPAT. Default: that of ISTIO_LANG, or CEXL' -r -f -a "CEXL\t''
CEL\t''
COMPAT\t''"
complete -c mixer -n "__fish_mixer_using_subcommand eval" -l config -d 'Configuration whose attribute manifests declare attributes: a path, a URL, or `-`. Given and standard attributes need none' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand eval" -l default-namespace -d 'Namespace of mesh-wide rules' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand eval" -s a -l attributes -d 'Attributes, auto-detected type: name1=value1,name2=value2,…' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand eval" -s s -l string-attributes -d 'String attributes: name1=value1,name2=value2,…' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand eval" -s i -l int64-attributes -d 'Integer attributes: name1=1,name2=2,…' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand eval" -s d -l double-attributes -d 'Floating point attributes: name1=0.5,name2=1e3,…' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand eval" -s b -l bool-attributes -d 'Boolean attributes: name1=true,name2=false,…' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand eval" -s t -l timestamp-attributes -d 'Timestamp attributes: name1=2017-07-04T00:01:10Z,…' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand eval" -l duration-attributes -d 'Duration attributes: name1=250ms,name2=1h30m,…' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand eval" -l bytes-attributes -d 'Bytes attributes, for example IP addresses: name1=c0:0:0:2,…' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand eval" -l ip-attributes -d 'IP addresses: name1=192.0.2.1,name2=2001:db8::1,…' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand eval" -l stringmap-attributes -d 'String map attributes: name1=key1:value1;key2:value2,…' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand eval" -l attributes-file -d 'YAML or JSON file with attributes; `@-` reads standard input. Flags override the file' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand eval" -l dictionary -d 'Whether to encode words with the global dictionary' -r -f -a "message\t'None: the message has its own word list, as Istio mixc sends it'
global\t'All words that the global dictionary contains'"
complete -c mixer -n "__fish_mixer_using_subcommand eval" -s o -l output -d 'Output format; default: table on a terminal, else plain, which is the value alone' -r -f -a "table\t'Tables and source excerpts'
plain\t'One line per result'
json\t'One JSON document'
yaml\t'One YAML document'"
complete -c mixer -n "__fish_mixer_using_subcommand eval" -l color -d 'When to color output' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb; always with CLICOLOR_FORCE'
always\t'Always'
never\t'Never'"
complete -c mixer -n "__fish_mixer_using_subcommand eval" -l error-format -d 'Format of error messages on standard error' -r -f -a "text\t'`error:`, `cause:` and `hint:` lines'
json\t'One JSON document per line'"
complete -c mixer -n "__fish_mixer_using_subcommand eval" -s v -l verbose -d 'Log at level debug: servers in their log, other commands on standard error'
complete -c mixer -n "__fish_mixer_using_subcommand eval" -l quiet -d 'Print errors only, no results, warnings and progress: the exit status tells the result'
complete -c mixer -n "__fish_mixer_using_subcommand eval" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mixer -n "__fish_mixer_using_subcommand explain-code" -l color -d 'When to color output' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb; always with CLICOLOR_FORCE'
always\t'Always'
never\t'Never'"
complete -c mixer -n "__fish_mixer_using_subcommand explain-code" -l error-format -d 'Format of error messages on standard error' -r -f -a "text\t'`error:`, `cause:` and `hint:` lines'
json\t'One JSON document per line'"
complete -c mixer -n "__fish_mixer_using_subcommand explain-code" -s v -l verbose -d 'Log at level debug: servers in their log, other commands on standard error'
complete -c mixer -n "__fish_mixer_using_subcommand explain-code" -l quiet -d 'Print errors only, no results, warnings and progress: the exit status tells the result'
complete -c mixer -n "__fish_mixer_using_subcommand explain-code" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mixer -n "__fish_mixer_using_subcommand test" -l config -d 'Configuration to test: fs://DIR, a path, or embedded://sample; may be repeated. Overrides the test files' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand test" -l default-namespace -d 'Namespace of mesh-wide rules' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand test" -l allow-empty-config -d 'Accept a configuration without resources, which allows every request' -r -f -a "true\t''
false\t''"
complete -c mixer -n "__fish_mixer_using_subcommand test" -l filter -d 'Run only tests whose file or name contains TEXT' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand test" -l junit -d 'Also write the results as JUnit XML' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand test" -s o -l output -d 'Output format; default: table on a terminal, else plain' -r -f -a "table\t'Tables and source excerpts'
plain\t'One line per result'
json\t'One JSON document'
yaml\t'One YAML document'"
complete -c mixer -n "__fish_mixer_using_subcommand test" -l color -d 'When to color output' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb; always with CLICOLOR_FORCE'
always\t'Always'
never\t'Never'"
complete -c mixer -n "__fish_mixer_using_subcommand test" -l error-format -d 'Format of error messages on standard error' -r -f -a "text\t'`error:`, `cause:` and `hint:` lines'
json\t'One JSON document per line'"
complete -c mixer -n "__fish_mixer_using_subcommand test" -l fail-fast -d 'Stop after the first failed test'
complete -c mixer -n "__fish_mixer_using_subcommand test" -s v -l verbose -d 'Log at level debug: servers in their log, other commands on standard error'
complete -c mixer -n "__fish_mixer_using_subcommand test" -l quiet -d 'Print errors only, no results, warnings and progress: the exit status tells the result'
complete -c mixer -n "__fish_mixer_using_subcommand test" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mixer -n "__fish_mixer_using_subcommand diff" -l from -d 'Current configuration: fs://DIR, a path, or embedded://sample' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand diff" -l to -l config -d 'Changed configuration. `--config` is the same, as other commands have it' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand diff" -l requests -d 'Recorded calls from `mixer server --record-requests` or `--decision-log`; `-` for standard input' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand diff" -l default-namespace -d 'Namespace of mesh-wide rules' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand diff" -l limit -d 'Maximum groups of changes in a table, most frequent first' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand diff" -s o -l output -d 'Output format; default: table on a terminal, else plain' -r -f -a "table\t'Tables and source excerpts'
plain\t'One line per result'
json\t'One JSON document'
yaml\t'One YAML document'"
complete -c mixer -n "__fish_mixer_using_subcommand diff" -l color -d 'When to color output' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb; always with CLICOLOR_FORCE'
always\t'Always'
never\t'Never'"
complete -c mixer -n "__fish_mixer_using_subcommand diff" -l error-format -d 'Format of error messages on standard error' -r -f -a "text\t'`error:`, `cause:` and `hint:` lines'
json\t'One JSON document per line'"
complete -c mixer -n "__fish_mixer_using_subcommand diff" -l serve-valid -d 'Compare configurations with errors as servers with --config-on-error serve-valid have them: without what has an error'
complete -c mixer -n "__fish_mixer_using_subcommand diff" -s v -l verbose -d 'Log at level debug: servers in their log, other commands on standard error'
complete -c mixer -n "__fish_mixer_using_subcommand diff" -l quiet -d 'Print errors only, no results, warnings and progress: the exit status tells the result'
complete -c mixer -n "__fish_mixer_using_subcommand diff" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mixer -n "__fish_mixer_using_subcommand snapshot; and not __fish_seen_subcommand_from dump help" -l color -d 'When to color output' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb; always with CLICOLOR_FORCE'
always\t'Always'
never\t'Never'"
complete -c mixer -n "__fish_mixer_using_subcommand snapshot; and not __fish_seen_subcommand_from dump help" -l error-format -d 'Format of error messages on standard error' -r -f -a "text\t'`error:`, `cause:` and `hint:` lines'
json\t'One JSON document per line'"
complete -c mixer -n "__fish_mixer_using_subcommand snapshot; and not __fish_seen_subcommand_from dump help" -s v -l verbose -d 'Log at level debug: servers in their log, other commands on standard error'
complete -c mixer -n "__fish_mixer_using_subcommand snapshot; and not __fish_seen_subcommand_from dump help" -l quiet -d 'Print errors only, no results, warnings and progress: the exit status tells the result'
complete -c mixer -n "__fish_mixer_using_subcommand snapshot; and not __fish_seen_subcommand_from dump help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mixer -n "__fish_mixer_using_subcommand snapshot; and not __fish_seen_subcommand_from dump help" -f -a "dump" -d 'Print a snapshot: attributes, handlers, instances, rules, adapters, templates'
complete -c mixer -n "__fish_mixer_using_subcommand snapshot; and not __fish_seen_subcommand_from dump help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c mixer -n "__fish_mixer_using_subcommand snapshot; and __fish_seen_subcommand_from dump" -l config -d 'Configuration to read: fs://DIR, a path, `-` for standard input, or embedded://sample' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand snapshot; and __fish_seen_subcommand_from dump" -l server -d 'Query a running server instead: its host, and the port of ControlZ, by default 9876. Example: localhost:9876' -r -f -a "(__fish_print_hostnames)"
complete -c mixer -n "__fish_mixer_using_subcommand snapshot; and __fish_seen_subcommand_from dump" -l ctrlz-token-file -d 'File with the bearer token of ControlZ: that of --ctrlz-token-file of the server. Also MIXER_CTRLZ_TOKEN_FILE' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand snapshot; and __fish_seen_subcommand_from dump" -l default-namespace -d 'Namespace of mesh-wide rules' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand snapshot; and __fish_seen_subcommand_from dump" -l section -d 'Sections to print, separated by commas; default: all' -r -f -a "templates\t''
adapters\t''
handlers\t''
instances\t''
rules\t''
attributes\t''
resources\t''
errors\t''"
complete -c mixer -n "__fish_mixer_using_subcommand snapshot; and __fish_seen_subcommand_from dump" -s o -l output -d 'Output format; default: table on a terminal, else plain' -r -f -a "table\t'Tables that fit the terminal'
plain\t'Tables of unlimited width'
json\t'One JSON document'
yaml\t'One YAML document'
debug\t'The layout of the debug log of Istio Mixer'"
complete -c mixer -n "__fish_mixer_using_subcommand snapshot; and __fish_seen_subcommand_from dump" -l diff -d 'Compare with an earlier JSON dump; exits with status 1 if they differ, or may' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand snapshot; and __fish_seen_subcommand_from dump" -l color -d 'When to color output' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb; always with CLICOLOR_FORCE'
always\t'Always'
never\t'Never'"
complete -c mixer -n "__fish_mixer_using_subcommand snapshot; and __fish_seen_subcommand_from dump" -l error-format -d 'Format of error messages on standard error' -r -f -a "text\t'`error:`, `cause:` and `hint:` lines'
json\t'One JSON document per line'"
complete -c mixer -n "__fish_mixer_using_subcommand snapshot; and __fish_seen_subcommand_from dump" -l show-secrets -d 'Do not mask secret parameters'
complete -c mixer -n "__fish_mixer_using_subcommand snapshot; and __fish_seen_subcommand_from dump" -s v -l verbose -d 'Log at level debug: servers in their log, other commands on standard error'
complete -c mixer -n "__fish_mixer_using_subcommand snapshot; and __fish_seen_subcommand_from dump" -l quiet -d 'Print errors only, no results, warnings and progress: the exit status tells the result'
complete -c mixer -n "__fish_mixer_using_subcommand snapshot; and __fish_seen_subcommand_from dump" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mixer -n "__fish_mixer_using_subcommand snapshot; and __fish_seen_subcommand_from help" -f -a "dump" -d 'Print a snapshot: attributes, handlers, instances, rules, adapters, templates'
complete -c mixer -n "__fish_mixer_using_subcommand snapshot; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c mixer -n "__fish_mixer_using_subcommand routes; and not __fish_seen_subcommand_from show help" -l color -d 'When to color output' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb; always with CLICOLOR_FORCE'
always\t'Always'
never\t'Never'"
complete -c mixer -n "__fish_mixer_using_subcommand routes; and not __fish_seen_subcommand_from show help" -l error-format -d 'Format of error messages on standard error' -r -f -a "text\t'`error:`, `cause:` and `hint:` lines'
json\t'One JSON document per line'"
complete -c mixer -n "__fish_mixer_using_subcommand routes; and not __fish_seen_subcommand_from show help" -s v -l verbose -d 'Log at level debug: servers in their log, other commands on standard error'
complete -c mixer -n "__fish_mixer_using_subcommand routes; and not __fish_seen_subcommand_from show help" -l quiet -d 'Print errors only, no results, warnings and progress: the exit status tells the result'
complete -c mixer -n "__fish_mixer_using_subcommand routes; and not __fish_seen_subcommand_from show help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mixer -n "__fish_mixer_using_subcommand routes; and not __fish_seen_subcommand_from show help" -f -a "show" -d 'Print the routing table: variety, namespace, handler, condition, instances'
complete -c mixer -n "__fish_mixer_using_subcommand routes; and not __fish_seen_subcommand_from show help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c mixer -n "__fish_mixer_using_subcommand routes; and __fish_seen_subcommand_from show" -l config -d 'Configuration to read: fs://DIR, a path, `-` for standard input, or embedded://sample' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand routes; and __fish_seen_subcommand_from show" -l server -d 'Query a running server instead: its host, and the port of ControlZ, by default 9876. Example: localhost:9876' -r -f -a "(__fish_print_hostnames)"
complete -c mixer -n "__fish_mixer_using_subcommand routes; and __fish_seen_subcommand_from show" -l ctrlz-token-file -d 'File with the bearer token of ControlZ: that of --ctrlz-token-file of the server. Also MIXER_CTRLZ_TOKEN_FILE' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand routes; and __fish_seen_subcommand_from show" -l default-namespace -d 'Namespace of mesh-wide rules' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand routes; and __fish_seen_subcommand_from show" -l variety -d 'Show routes of one variety: check, report, quota, attribute-generator or check-with-output' -r -f -a "check\t''
report\t''
quota\t''
attribute-generator\t''
check-with-output\t''"
complete -c mixer -n "__fish_mixer_using_subcommand routes; and __fish_seen_subcommand_from show" -l namespace -d 'Show routes of one namespace. Exits with status 2 if none has routes of that name' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand routes; and __fish_seen_subcommand_from show" -l handler -d 'Show routes to matching handlers; `*` matches any text. Exits with status 2 if there is none' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand routes; and __fish_seen_subcommand_from show" -l match -d 'Mark routes that match a request with these attributes: name1=value1,name2=value2,…' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand routes; and __fish_seen_subcommand_from show" -s o -l output -d 'Output format; default: table on a terminal, else plain' -r -f -a "table\t'Tables that fit the terminal'
plain\t'Tables of unlimited width'
json\t'One JSON document'
yaml\t'One YAML document'
debug\t'The layout of the debug log of Istio Mixer'"
complete -c mixer -n "__fish_mixer_using_subcommand routes; and __fish_seen_subcommand_from show" -l color -d 'When to color output' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb; always with CLICOLOR_FORCE'
always\t'Always'
never\t'Never'"
complete -c mixer -n "__fish_mixer_using_subcommand routes; and __fish_seen_subcommand_from show" -l error-format -d 'Format of error messages on standard error' -r -f -a "text\t'`error:`, `cause:` and `hint:` lines'
json\t'One JSON document per line'"
complete -c mixer -n "__fish_mixer_using_subcommand routes; and __fish_seen_subcommand_from show" -s v -l verbose -d 'Log at level debug: servers in their log, other commands on standard error'
complete -c mixer -n "__fish_mixer_using_subcommand routes; and __fish_seen_subcommand_from show" -l quiet -d 'Print errors only, no results, warnings and progress: the exit status tells the result'
complete -c mixer -n "__fish_mixer_using_subcommand routes; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mixer -n "__fish_mixer_using_subcommand routes; and __fish_seen_subcommand_from help" -f -a "show" -d 'Print the routing table: variety, namespace, handler, condition, instances'
complete -c mixer -n "__fish_mixer_using_subcommand routes; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c mixer -n "__fish_mixer_using_subcommand proxy" -s c -l config-path -l config -d 'The bootstrap: a YAML or JSON file' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand proxy" -l config-yaml -d 'The bootstrap as text instead of a file, YAML or JSON' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand proxy" -l concurrency -d 'Number of worker threads; 0 is one. Default: the number of CPUs' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand proxy" -l mode -d 'Serve, or only validate the bootstrap' -r -f -a "serve\t'Serve until SIGTERM or SIGINT'
validate\t'Print whether the bootstrap is valid'"
complete -c mixer -n "__fish_mixer_using_subcommand proxy" -s l -l log-level -d 'Log level' -r -f -a "trace\t'As debug'
debug\t'Everything'
info\t'Life-cycle'
warning\t'Unexpected, recovered'
error\t'Someone must act'
critical\t'As error'
off\t'Nothing'"
complete -c mixer -n "__fish_mixer_using_subcommand proxy" -l log-path -d 'Log file; default: standard error' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand proxy" -l admin-address-path -d 'Where to write host:port of the admin interface once it listens' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand proxy" -l admin-allowed-hosts -d 'Names that the admin interface may be asked by besides localhost and IP addresses. Example: proxy.example.com,web-1' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand proxy" -l terminate-drain -d 'Time that connections have to end after SIGTERM or SIGINT, in seconds; 0 closes them at once, as Envoy does' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand proxy" -l drain-time-s -d 'Time that connections of a listener have to end once it is replaced or removed, in seconds; then they are closed' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand proxy" -l drain-strategy -d 'How often responses end their connections during that time' -r -f -a "gradual\t'The more often the later it is'
immediate\t'Always'"
complete -c mixer -n "__fish_mixer_using_subcommand proxy" -l body-memory -d 'Memory for bodies of requests that filters wait for, over all connections' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand proxy" -l service-node -d 'Overrides `node.id`' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand proxy" -l service-cluster -d 'Overrides `node.cluster`' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand proxy" -l base-id -d 'Has no effect: there is no hot restart, which needs it' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand proxy" -l color -d 'When to color output' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb; always with CLICOLOR_FORCE'
always\t'Always'
never\t'Never'"
complete -c mixer -n "__fish_mixer_using_subcommand proxy" -l error-format -d 'Format of error messages on standard error' -r -f -a "text\t'`error:`, `cause:` and `hint:` lines'
json\t'One JSON document per line'"
complete -c mixer -n "__fish_mixer_using_subcommand proxy" -l mixer-exact-tcp-deltas -d 'Byte counts in Mixer reports of TCP connections are those since the report before, of whatever kind'
complete -c mixer -n "__fish_mixer_using_subcommand proxy" -l disable-hot-restart -d 'Has no effect: there is no hot restart'
complete -c mixer -n "__fish_mixer_using_subcommand proxy" -s v -l verbose -d 'Log at level debug: servers in their log, other commands on standard error'
complete -c mixer -n "__fish_mixer_using_subcommand proxy" -l quiet -d 'Print errors only, no results, warnings and progress: the exit status tells the result'
complete -c mixer -n "__fish_mixer_using_subcommand proxy" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mixer -n "__fish_mixer_using_subcommand adapter; and not __fish_seen_subcommand_from new resources help" -l color -d 'When to color output' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb; always with CLICOLOR_FORCE'
always\t'Always'
never\t'Never'"
complete -c mixer -n "__fish_mixer_using_subcommand adapter; and not __fish_seen_subcommand_from new resources help" -l error-format -d 'Format of error messages on standard error' -r -f -a "text\t'`error:`, `cause:` and `hint:` lines'
json\t'One JSON document per line'"
complete -c mixer -n "__fish_mixer_using_subcommand adapter; and not __fish_seen_subcommand_from new resources help" -s v -l verbose -d 'Log at level debug: servers in their log, other commands on standard error'
complete -c mixer -n "__fish_mixer_using_subcommand adapter; and not __fish_seen_subcommand_from new resources help" -l quiet -d 'Print errors only, no results, warnings and progress: the exit status tells the result'
complete -c mixer -n "__fish_mixer_using_subcommand adapter; and not __fish_seen_subcommand_from new resources help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mixer -n "__fish_mixer_using_subcommand adapter; and not __fish_seen_subcommand_from new resources help" -f -a "new" -d 'Write a new adapter in Rust: a crate with a gRPC server, and its resources'
complete -c mixer -n "__fish_mixer_using_subcommand adapter; and not __fish_seen_subcommand_from new resources help" -f -a "resources" -d 'Print the resources of an adapter: its templates and the adapter itself'
complete -c mixer -n "__fish_mixer_using_subcommand adapter; and not __fish_seen_subcommand_from new resources help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c mixer -n "__fish_mixer_using_subcommand adapter; and __fish_seen_subcommand_from new" -l template -d 'Templates that it takes, separated by commas: built-in ones, or NAME:VARIETY for one of its own' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand adapter; and __fish_seen_subcommand_from new" -l directory -d 'Directory to write to; default: one with the name of the adapter' -r -f -a "(__fish_complete_directories)"
complete -c mixer -n "__fish_mixer_using_subcommand adapter; and __fish_seen_subcommand_from new" -l namespace -d 'Namespace of its resources' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand adapter; and __fish_seen_subcommand_from new" -l color -d 'When to color output' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb; always with CLICOLOR_FORCE'
always\t'Always'
never\t'Never'"
complete -c mixer -n "__fish_mixer_using_subcommand adapter; and __fish_seen_subcommand_from new" -l error-format -d 'Format of error messages on standard error' -r -f -a "text\t'`error:`, `cause:` and `hint:` lines'
json\t'One JSON document per line'"
complete -c mixer -n "__fish_mixer_using_subcommand adapter; and __fish_seen_subcommand_from new" -s v -l verbose -d 'Log at level debug: servers in their log, other commands on standard error'
complete -c mixer -n "__fish_mixer_using_subcommand adapter; and __fish_seen_subcommand_from new" -l quiet -d 'Print errors only, no results, warnings and progress: the exit status tells the result'
complete -c mixer -n "__fish_mixer_using_subcommand adapter; and __fish_seen_subcommand_from new" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mixer -n "__fish_mixer_using_subcommand adapter; and __fish_seen_subcommand_from resources" -s I -l proto-dir -d 'Directory that imports are relative to; may be repeated' -r -f -a "(__fish_complete_directories)"
complete -c mixer -n "__fish_mixer_using_subcommand adapter; and __fish_seen_subcommand_from resources" -l template -d 'Proto of a template that it takes, relative to a directory of --proto-dir; may be repeated' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand adapter; and __fish_seen_subcommand_from resources" -l params -d 'Proto with the message `Params`, relative to a directory of --proto-dir; default: it has no parameters' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand adapter; and __fish_seen_subcommand_from resources" -l namespace -d 'Namespace of the resources' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand adapter; and __fish_seen_subcommand_from resources" -l color -d 'When to color output' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb; always with CLICOLOR_FORCE'
always\t'Always'
never\t'Never'"
complete -c mixer -n "__fish_mixer_using_subcommand adapter; and __fish_seen_subcommand_from resources" -l error-format -d 'Format of error messages on standard error' -r -f -a "text\t'`error:`, `cause:` and `hint:` lines'
json\t'One JSON document per line'"
complete -c mixer -n "__fish_mixer_using_subcommand adapter; and __fish_seen_subcommand_from resources" -l session-based -d 'It takes its parameters once, in a session'
complete -c mixer -n "__fish_mixer_using_subcommand adapter; and __fish_seen_subcommand_from resources" -s v -l verbose -d 'Log at level debug: servers in their log, other commands on standard error'
complete -c mixer -n "__fish_mixer_using_subcommand adapter; and __fish_seen_subcommand_from resources" -l quiet -d 'Print errors only, no results, warnings and progress: the exit status tells the result'
complete -c mixer -n "__fish_mixer_using_subcommand adapter; and __fish_seen_subcommand_from resources" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mixer -n "__fish_mixer_using_subcommand adapter; and __fish_seen_subcommand_from help" -f -a "new" -d 'Write a new adapter in Rust: a crate with a gRPC server, and its resources'
complete -c mixer -n "__fish_mixer_using_subcommand adapter; and __fish_seen_subcommand_from help" -f -a "resources" -d 'Print the resources of an adapter: its templates and the adapter itself'
complete -c mixer -n "__fish_mixer_using_subcommand adapter; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c mixer -n "__fish_mixer_using_subcommand version" -s s -l short -d 'Print the version only' -r -f -a "true\t''
false\t''"
complete -c mixer -n "__fish_mixer_using_subcommand version" -s o -l output -d 'One of \'yaml\' or \'json\'; overrides --short' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand version" -l color -d 'When to color output' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb; always with CLICOLOR_FORCE'
always\t'Always'
never\t'Never'"
complete -c mixer -n "__fish_mixer_using_subcommand version" -l error-format -d 'Format of error messages on standard error' -r -f -a "text\t'`error:`, `cause:` and `hint:` lines'
json\t'One JSON document per line'"
complete -c mixer -n "__fish_mixer_using_subcommand version" -s v -l verbose -d 'Log at level debug: servers in their log, other commands on standard error'
complete -c mixer -n "__fish_mixer_using_subcommand version" -l quiet -d 'Print errors only, no results, warnings and progress: the exit status tells the result'
complete -c mixer -n "__fish_mixer_using_subcommand version" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mixer -n "__fish_mixer_using_subcommand crd; and not __fish_seen_subcommand_from all adapter instance help" -l color -d 'When to color output' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb; always with CLICOLOR_FORCE'
always\t'Always'
never\t'Never'"
complete -c mixer -n "__fish_mixer_using_subcommand crd; and not __fish_seen_subcommand_from all adapter instance help" -l error-format -d 'Format of error messages on standard error' -r -f -a "text\t'`error:`, `cause:` and `hint:` lines'
json\t'One JSON document per line'"
complete -c mixer -n "__fish_mixer_using_subcommand crd; and not __fish_seen_subcommand_from all adapter instance help" -s v -l verbose -d 'Log at level debug: servers in their log, other commands on standard error'
complete -c mixer -n "__fish_mixer_using_subcommand crd; and not __fish_seen_subcommand_from all adapter instance help" -l quiet -d 'Print errors only, no results, warnings and progress: the exit status tells the result'
complete -c mixer -n "__fish_mixer_using_subcommand crd; and not __fish_seen_subcommand_from all adapter instance help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mixer -n "__fish_mixer_using_subcommand crd; and not __fish_seen_subcommand_from all adapter instance help" -f -a "all" -d 'List all kinds: core, adapters, instances'
complete -c mixer -n "__fish_mixer_using_subcommand crd; and not __fish_seen_subcommand_from all adapter instance help" -f -a "adapter" -d 'List adapter-specific kinds'
complete -c mixer -n "__fish_mixer_using_subcommand crd; and not __fish_seen_subcommand_from all adapter instance help" -f -a "instance" -d 'List template-specific kinds'
complete -c mixer -n "__fish_mixer_using_subcommand crd; and not __fish_seen_subcommand_from all adapter instance help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c mixer -n "__fish_mixer_using_subcommand crd; and __fish_seen_subcommand_from all" -l api-version -d 'API version of the definitions: v1beta1 or v1' -r -f -a "v1beta1\t''
v1\t''"
complete -c mixer -n "__fish_mixer_using_subcommand crd; and __fish_seen_subcommand_from all" -l color -d 'When to color output' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb; always with CLICOLOR_FORCE'
always\t'Always'
never\t'Never'"
complete -c mixer -n "__fish_mixer_using_subcommand crd; and __fish_seen_subcommand_from all" -l error-format -d 'Format of error messages on standard error' -r -f -a "text\t'`error:`, `cause:` and `hint:` lines'
json\t'One JSON document per line'"
complete -c mixer -n "__fish_mixer_using_subcommand crd; and __fish_seen_subcommand_from all" -s v -l verbose -d 'Log at level debug: servers in their log, other commands on standard error'
complete -c mixer -n "__fish_mixer_using_subcommand crd; and __fish_seen_subcommand_from all" -l quiet -d 'Print errors only, no results, warnings and progress: the exit status tells the result'
complete -c mixer -n "__fish_mixer_using_subcommand crd; and __fish_seen_subcommand_from all" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mixer -n "__fish_mixer_using_subcommand crd; and __fish_seen_subcommand_from adapter" -l api-version -d 'API version of the definitions: v1beta1 or v1' -r -f -a "v1beta1\t''
v1\t''"
complete -c mixer -n "__fish_mixer_using_subcommand crd; and __fish_seen_subcommand_from adapter" -l color -d 'When to color output' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb; always with CLICOLOR_FORCE'
always\t'Always'
never\t'Never'"
complete -c mixer -n "__fish_mixer_using_subcommand crd; and __fish_seen_subcommand_from adapter" -l error-format -d 'Format of error messages on standard error' -r -f -a "text\t'`error:`, `cause:` and `hint:` lines'
json\t'One JSON document per line'"
complete -c mixer -n "__fish_mixer_using_subcommand crd; and __fish_seen_subcommand_from adapter" -s v -l verbose -d 'Log at level debug: servers in their log, other commands on standard error'
complete -c mixer -n "__fish_mixer_using_subcommand crd; and __fish_seen_subcommand_from adapter" -l quiet -d 'Print errors only, no results, warnings and progress: the exit status tells the result'
complete -c mixer -n "__fish_mixer_using_subcommand crd; and __fish_seen_subcommand_from adapter" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mixer -n "__fish_mixer_using_subcommand crd; and __fish_seen_subcommand_from instance" -l api-version -d 'API version of the definitions: v1beta1 or v1' -r -f -a "v1beta1\t''
v1\t''"
complete -c mixer -n "__fish_mixer_using_subcommand crd; and __fish_seen_subcommand_from instance" -l color -d 'When to color output' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb; always with CLICOLOR_FORCE'
always\t'Always'
never\t'Never'"
complete -c mixer -n "__fish_mixer_using_subcommand crd; and __fish_seen_subcommand_from instance" -l error-format -d 'Format of error messages on standard error' -r -f -a "text\t'`error:`, `cause:` and `hint:` lines'
json\t'One JSON document per line'"
complete -c mixer -n "__fish_mixer_using_subcommand crd; and __fish_seen_subcommand_from instance" -s v -l verbose -d 'Log at level debug: servers in their log, other commands on standard error'
complete -c mixer -n "__fish_mixer_using_subcommand crd; and __fish_seen_subcommand_from instance" -l quiet -d 'Print errors only, no results, warnings and progress: the exit status tells the result'
complete -c mixer -n "__fish_mixer_using_subcommand crd; and __fish_seen_subcommand_from instance" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mixer -n "__fish_mixer_using_subcommand crd; and __fish_seen_subcommand_from help" -f -a "all" -d 'List all kinds: core, adapters, instances'
complete -c mixer -n "__fish_mixer_using_subcommand crd; and __fish_seen_subcommand_from help" -f -a "adapter" -d 'List adapter-specific kinds'
complete -c mixer -n "__fish_mixer_using_subcommand crd; and __fish_seen_subcommand_from help" -f -a "instance" -d 'List template-specific kinds'
complete -c mixer -n "__fish_mixer_using_subcommand crd; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c mixer -n "__fish_mixer_using_subcommand completions" -l name -d 'Program name: mixer, mixs, mixc or galley' -r -f -a "mixer\t''
mixs\t''
mixc\t''
galley\t''"
complete -c mixer -n "__fish_mixer_using_subcommand completions" -l color -d 'When to color output' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb; always with CLICOLOR_FORCE'
always\t'Always'
never\t'Never'"
complete -c mixer -n "__fish_mixer_using_subcommand completions" -l error-format -d 'Format of error messages on standard error' -r -f -a "text\t'`error:`, `cause:` and `hint:` lines'
json\t'One JSON document per line'"
complete -c mixer -n "__fish_mixer_using_subcommand completions" -s v -l verbose -d 'Log at level debug: servers in their log, other commands on standard error'
complete -c mixer -n "__fish_mixer_using_subcommand completions" -l quiet -d 'Print errors only, no results, warnings and progress: the exit status tells the result'
complete -c mixer -n "__fish_mixer_using_subcommand completions" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mixer -n "__fish_mixer_using_subcommand man" -l dir -d 'Write one page per command to this directory instead of printing the page of `mixer`' -r -f -a "(__fish_complete_directories)"
complete -c mixer -n "__fish_mixer_using_subcommand man" -l color -d 'When to color output' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb; always with CLICOLOR_FORCE'
always\t'Always'
never\t'Never'"
complete -c mixer -n "__fish_mixer_using_subcommand man" -l error-format -d 'Format of error messages on standard error' -r -f -a "text\t'`error:`, `cause:` and `hint:` lines'
json\t'One JSON document per line'"
complete -c mixer -n "__fish_mixer_using_subcommand man" -s v -l verbose -d 'Log at level debug: servers in their log, other commands on standard error'
complete -c mixer -n "__fish_mixer_using_subcommand man" -l quiet -d 'Print errors only, no results, warnings and progress: the exit status tells the result'
complete -c mixer -n "__fish_mixer_using_subcommand man" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mixer -n "__fish_mixer_using_subcommand legacy" -l color -d 'When to color output' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb; always with CLICOLOR_FORCE'
always\t'Always'
never\t'Never'"
complete -c mixer -n "__fish_mixer_using_subcommand legacy" -l error-format -d 'Format of error messages on standard error' -r -f -a "text\t'`error:`, `cause:` and `hint:` lines'
json\t'One JSON document per line'"
complete -c mixer -n "__fish_mixer_using_subcommand legacy" -s v -l verbose -d 'Log at level debug: servers in their log, other commands on standard error'
complete -c mixer -n "__fish_mixer_using_subcommand legacy" -l quiet -d 'Print errors only, no results, warnings and progress: the exit status tells the result'
complete -c mixer -n "__fish_mixer_using_subcommand legacy" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mixer -n "__fish_mixer_using_subcommand galley; and not __fish_seen_subcommand_from wait sinks status snapshot watch server help" -l color -d 'When to color output' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb; always with CLICOLOR_FORCE'
always\t'Always'
never\t'Never'"
complete -c mixer -n "__fish_mixer_using_subcommand galley; and not __fish_seen_subcommand_from wait sinks status snapshot watch server help" -l error-format -d 'Format of error messages on standard error' -r -f -a "text\t'`error:`, `cause:` and `hint:` lines'
json\t'One JSON document per line'"
complete -c mixer -n "__fish_mixer_using_subcommand galley; and not __fish_seen_subcommand_from wait sinks status snapshot watch server help" -s v -l verbose -d 'Log at level debug: servers in their log, other commands on standard error'
complete -c mixer -n "__fish_mixer_using_subcommand galley; and not __fish_seen_subcommand_from wait sinks status snapshot watch server help" -l quiet -d 'Print errors only, no results, warnings and progress: the exit status tells the result'
complete -c mixer -n "__fish_mixer_using_subcommand galley; and not __fish_seen_subcommand_from wait sinks status snapshot watch server help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mixer -n "__fish_mixer_using_subcommand galley; and not __fish_seen_subcommand_from wait sinks status snapshot watch server help" -f -a "wait" -d 'Wait until sinks have acknowledged a change'
complete -c mixer -n "__fish_mixer_using_subcommand galley; and not __fish_seen_subcommand_from wait sinks status snapshot watch server help" -f -a "sinks" -d 'Show the sinks: what each has of every collection, and what it refused'
complete -c mixer -n "__fish_mixer_using_subcommand galley; and not __fish_seen_subcommand_from wait sinks status snapshot watch server help" -f -a "status" -d 'Show sources, groups, sinks and the webhook at a glance'
complete -c mixer -n "__fish_mixer_using_subcommand galley; and not __fish_seen_subcommand_from wait sinks status snapshot watch server help" -f -a "snapshot" -d 'Show or compare what is published'
complete -c mixer -n "__fish_mixer_using_subcommand galley; and not __fish_seen_subcommand_from wait sinks status snapshot watch server help" -f -a "watch" -d 'Print events of sources as they happen'
complete -c mixer -n "__fish_mixer_using_subcommand galley; and not __fish_seen_subcommand_from wait sinks status snapshot watch server help" -f -a "server" -d 'Starts Galley as a server'
complete -c mixer -n "__fish_mixer_using_subcommand galley; and not __fish_seen_subcommand_from wait sinks status snapshot watch server help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from wait" -l sinks -d 'Sinks that must have acknowledged it, at least; all that are connected must in any case' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from wait" -l timeout -d 'How long to wait' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from wait" -l server -d 'Running galley: its host, and the port of ControlZ, by default 9876' -r -f -a "(__fish_print_hostnames)"
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from wait" -l ctrlz-token-file -d 'File with the bearer token of ControlZ: that of --ctrlz-token-file of the server. Also MIXER_CTRLZ_TOKEN_FILE' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from wait" -s o -l output -d 'Output format; default: plain' -r -f -a "table\t'Tables and source excerpts'
plain\t'One line per result'
json\t'One JSON document'
yaml\t'One YAML document'"
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from wait" -l color -d 'When to color output' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb; always with CLICOLOR_FORCE'
always\t'Always'
never\t'Never'"
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from wait" -l error-format -d 'Format of error messages on standard error' -r -f -a "text\t'`error:`, `cause:` and `hint:` lines'
json\t'One JSON document per line'"
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from wait" -s v -l verbose -d 'Log at level debug: servers in their log, other commands on standard error'
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from wait" -l quiet -d 'Print errors only, no results, warnings and progress: the exit status tells the result'
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from wait" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from sinks" -l server -d 'Running galley: its host, and the port of ControlZ, by default 9876' -r -f -a "(__fish_print_hostnames)"
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from sinks" -l ctrlz-token-file -d 'File with the bearer token of ControlZ: that of --ctrlz-token-file of the server. Also MIXER_CTRLZ_TOKEN_FILE' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from sinks" -s o -l output -d 'Output format; default: table' -r -f -a "table\t'Tables and source excerpts'
plain\t'One line per result'
json\t'One JSON document'
yaml\t'One YAML document'"
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from sinks" -l color -d 'When to color output' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb; always with CLICOLOR_FORCE'
always\t'Always'
never\t'Never'"
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from sinks" -l error-format -d 'Format of error messages on standard error' -r -f -a "text\t'`error:`, `cause:` and `hint:` lines'
json\t'One JSON document per line'"
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from sinks" -s v -l verbose -d 'Log at level debug: servers in their log, other commands on standard error'
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from sinks" -l quiet -d 'Print errors only, no results, warnings and progress: the exit status tells the result'
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from sinks" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from status" -l server -d 'Running galley: its host, and the port of ControlZ, by default 9876' -r -f -a "(__fish_print_hostnames)"
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from status" -l ctrlz-token-file -d 'File with the bearer token of ControlZ: that of --ctrlz-token-file of the server. Also MIXER_CTRLZ_TOKEN_FILE' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from status" -s o -l output -d 'Output format; default: table' -r -f -a "table\t'Tables and source excerpts'
plain\t'One line per result'
json\t'One JSON document'
yaml\t'One YAML document'"
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from status" -l color -d 'When to color output' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb; always with CLICOLOR_FORCE'
always\t'Always'
never\t'Never'"
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from status" -l error-format -d 'Format of error messages on standard error' -r -f -a "text\t'`error:`, `cause:` and `hint:` lines'
json\t'One JSON document per line'"
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from status" -s v -l verbose -d 'Log at level debug: servers in their log, other commands on standard error'
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from status" -l quiet -d 'Print errors only, no results, warnings and progress: the exit status tells the result'
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from status" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from snapshot" -l color -d 'When to color output' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb; always with CLICOLOR_FORCE'
always\t'Always'
never\t'Never'"
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from snapshot" -l error-format -d 'Format of error messages on standard error' -r -f -a "text\t'`error:`, `cause:` and `hint:` lines'
json\t'One JSON document per line'"
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from snapshot" -s v -l verbose -d 'Log at level debug: servers in their log, other commands on standard error'
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from snapshot" -l quiet -d 'Print errors only, no results, warnings and progress: the exit status tells the result'
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from snapshot" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from snapshot" -f -a "dump" -d 'Print what is published'
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from snapshot" -f -a "diff" -d 'Compare what is published with a dump, or with another galley. Exits with status 1 if they differ'
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from snapshot" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from watch" -l server -d 'Running galley: its host, and the port of ControlZ, by default 9876' -r -f -a "(__fish_print_hostnames)"
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from watch" -l ctrlz-token-file -d 'File with the bearer token of ControlZ: that of --ctrlz-token-file of the server. Also MIXER_CTRLZ_TOKEN_FILE' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from watch" -l color -d 'When to color output' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb; always with CLICOLOR_FORCE'
always\t'Always'
never\t'Never'"
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from watch" -l error-format -d 'Format of error messages on standard error' -r -f -a "text\t'`error:`, `cause:` and `hint:` lines'
json\t'One JSON document per line'"
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from watch" -l once -d 'Print the events so far, and exit'
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from watch" -l json -d 'Print one JSON object per event'
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from watch" -s v -l verbose -d 'Log at level debug: servers in their log, other commands on standard error'
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from watch" -l quiet -d 'Print errors only, no results, warnings and progress: the exit status tells the result'
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from watch" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -s c -l config -l config-file -d 'Resources: a directory, a file, fs://DIR or k8s://[KUBECONFIG]. Or settings: a file, YAML, JSON or TOML, whose precedence is flag, file, default' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l config-path -d 'Directory or file of resources; without it, a Kubernetes cluster' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l watch-config-files -d 'Notice changes of files; otherwise on SIGUSR1 only' -r -f -a "true\t''
false\t''"
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l mesh-config-file -d 'Mesh configuration, YAML; empty: the defaults' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l kubeconfig -d 'Kubeconfig of the cluster; without it, the one in which this process runs' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l resync-period -d 'How often all objects are listed again and compared; 0 means never' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l disable-resource-ready-check -d 'Start although the cluster lacks kinds of resources' -r -f -a "true\t''
false\t''"
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l excluded-resource-kinds -d 'Kinds that are not read, separated by commas' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l domain -d 'Domain of services' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l enable-service-discovery -d 'Make service entries from services, endpoints, pods and nodes' -r -f -a "true\t''
false\t''"
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l enable-analysis -d 'Tell in the log what published resources say together, as the analyzers of Istio 1.5: references that lead nowhere, conflicts' -r -f -a "true\t''
false\t''"
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l use-old-processor -d 'Versions and collections as of the first processor of Istio Galley; otherwise as of the second' -r -f -a "true\t''
false\t''"
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l istio-pace -d 'Wait as long as Istio Galley before a change is published: about a second' -r -f -a "true\t''
false\t''"
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l config-on-error -d 'What sinks get while files or objects have errors: keep-last, which they have already, or serve-valid, what is valid, as from Istio Galley. Default: keep-last; called as galley, serve-valid' -r -f -a "keep-last\t''
serve-valid\t''"
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l allow-empty-config -d 'Accept a --config-path without resources, which allows every request, and at a start one with an empty directory below it' -r -f -a "true\t''
false\t''"
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l config-cache -d 'Directory that keeps the files that were published last for the next start, with --config-path' -r -f -a "(__fish_complete_directories)"
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l zookeeper-address -d 'ZooKeeper with the registry of Dubbo, whose services become service entries: HOST:PORT, separated by commas, and perhaps /CHROOT at the end' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l zookeeper-root -d 'Node below which services are' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l zookeeper-session-timeout -d 'Time after which a session without a sign of life ends' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l zookeeper-namespace -d 'Namespace of these service entries' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l zookeeper-user -d 'User of the scheme digest' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l zookeeper-password-file -d 'File with his password, which is read for each connection' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l zookeeper-ca-cert-file -d 'Connect to ZooKeeper with TLS, and verify it with the roots in this file, PEM' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l zookeeper-cert-file -d 'Client certificate chain for ZooKeeper, PEM' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l zookeeper-key-file -d 'Its private key, PEM' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l eureka-address -d 'Eureka servers whose applications become service entries: http://HOST:PORT/eureka, separated by commas' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l eureka-refresh -d 'How often Eureka is asked for changes' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l eureka-timeout -d 'Time limit of a request to Eureka' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l eureka-namespace -d 'Namespace of these service entries' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l eureka-service-port -d 'Port of their services; 0: that of the first instance' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l eureka-user -d 'User of Eureka, with HTTP basic authentication' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l eureka-password-file -d 'File with his password, which is read again when it changes' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l eureka-ca-cert-file -d 'Roots of the certificates of Eureka, PEM; empty: those of the system' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l eureka-cert-file -d 'Client certificate chain for Eureka, PEM' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l eureka-key-file -d 'Its private key, PEM' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l enable-server -d 'Read configuration and serve it to sinks' -r -f -a "true\t''
false\t''"
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l server-address -d 'Address of sinks: tcp://HOST:PORT or unix:///PATH' -r -f -a "(__fish_print_hostnames)"
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l server-max-received-message-size -d 'Most bytes of a message of a sink' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l memory-limit -d 'Most memory that all sinks together can make the server keep: connections, streams, requests' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l server-max-concurrent-streams -d 'Streams of a connection; a sink needs one' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l insecure -d 'Serve plain text to everyone' -r -f -a "true\t''
false\t''"
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l tls-cert-file -d 'Certificate chain, PEM' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l tls-key-file -d 'Its private key, PEM' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l ca-cert-file -d 'Roots of the certificates of sinks, PEM' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l access-list-file -d 'Identities of sinks that may connect, YAML' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l incremental -d 'Send differences to sinks that ask for them: by default, unless called as galley' -r -f -a "true\t''
false\t''"
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l legacy-mcp -d 'Serve sinks of Istio 1.0 and 1.1 too, which call AggregatedMeshConfigService' -r -f -a "true\t''
false\t''"
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l sink-address -d 'Sink to call, HOST:PORT; may be repeated' -r -f -a "(__fish_print_hostnames)"
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l sink-auth-mode -d 'How sinks that are called are authenticated: NONE, TLS, MUTUAL_TLS or GOOGLE' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l sink-meta -d 'Headers of streams: KEY=VALUE, separated by commas' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l enable-validation -d 'Serve the webhook that API servers ask about resources' -r -f -a "true\t''
false\t''"
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l validation-port -d 'Port of the webhook on all interfaces' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l validation-depth -d 'What is checked of resources of the policy engine: structural, as Istio does, or deep, as `mixer validate` does' -r -f -a "structural\t''
deep\t''"
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l validation-webhook-config-file -d 'The webhook configuration that the cluster is to have, YAML; without it, the one that it has is completed' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l enable-reconcile-webhook-configuration -d 'Keep the webhook configuration of the cluster as it should be' -r -f -a "true\t''
false\t''"
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l webhook-name -d 'Name of the webhook configuration' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l deployment-namespace -d 'Namespace of the deployment and the service of Galley' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l deployment-name -d 'Name of the deployment' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l service-name -d 'Name of the service' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l ctrlz-port -d 'Port of the ControlZ introspection pages; 0 disables them' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l ctrlz-address -d 'Address of the ControlZ introspection pages; `*` means all interfaces' -r -f -a "(__fish_print_hostnames)"
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l ctrlz-readonly -d 'Make ControlZ read-only' -r -f -a "true\t''
false\t''"
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l ctrlz-token-file -d 'File with the bearer token that ControlZ requires' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l ctrlz-allowed-hosts -d 'Host names that ControlZ accepts besides localhost and IP addresses' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l monitoring-port -d 'HTTP port of metrics, version and health on all interfaces; texts of errors are for clients on this host' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l monitoring-address -d 'Address of that port, instead of all interfaces; texts of errors are then for whoever reaches it. Example: 127.0.0.1:15014' -r -f -a "(__fish_print_hostnames)"
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l enable-profiling -d 'Serve profiles, to clients on this host' -r -f -a "true\t''
false\t''"
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l pprof-port -d 'HTTP port of profiles' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l metric-per-resource -d 'Export a metric for every resource' -r -f -a "true\t''
false\t''"
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l liveness-probe-path -d 'Probe file that is updated while the process works' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l liveness-probe-interval -d 'Maximum age of that file' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l readiness-probe-path -d 'Probe file that is updated while sinks are served' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l readiness-probe-interval -d 'Maximum age of that file' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l log-target -d 'Log output: a file, stdout or stderr; may be repeated' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l log-rotate -d 'Additional rotated log file' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l log-rotate-max-size -d 'Size at which the log file is rotated, in MiB, or with a unit. Example: 1GiB' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l log-rotate-max-age -d 'Days to keep rotated log files; 0 means no limit' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l log-rotate-max-backups -d 'Rotated log files to keep; 0 means all' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l log-as-json -d 'Write log records as JSON objects' -r -f -a "true\t''
false\t''"
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l log-output-level -d 'Log levels: `[scope:]level,…` with the levels none, fatal, error, warn, info, debug' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l log-stacktrace-level -d 'Minimum level of records with a stack trace: `[scope:]level,…`' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l log-caller -d 'Scopes whose records include the source location' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l color -d 'When to color output' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb; always with CLICOLOR_FORCE'
always\t'Always'
never\t'Never'"
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l error-format -d 'Format of error messages on standard error' -r -f -a "text\t'`error:`, `cause:` and `hint:` lines'
json\t'One JSON document per line'"
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -s v -l verbose -d 'Log at level debug: servers in their log, other commands on standard error'
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -l quiet -d 'Print errors only, no results, warnings and progress: the exit status tells the result'
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from server" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from help" -f -a "wait" -d 'Wait until sinks have acknowledged a change'
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from help" -f -a "sinks" -d 'Show the sinks: what each has of every collection, and what it refused'
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from help" -f -a "status" -d 'Show sources, groups, sinks and the webhook at a glance'
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from help" -f -a "snapshot" -d 'Show or compare what is published'
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from help" -f -a "watch" -d 'Print events of sources as they happen'
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from help" -f -a "server" -d 'Starts Galley as a server'
complete -c mixer -n "__fish_mixer_using_subcommand galley; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -s o -l output -d 'Output format; default: table on a terminal, else plain' -r -f -a "table\t'Tables and source excerpts'
plain\t'One line per result'
json\t'One JSON document'
yaml\t'One YAML document'"
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l config-file -d 'Settings file, YAML or TOML; keys are flag names' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -s p -l port -d 'TCP port of the gRPC API on all interfaces; ignored if --address is set' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l address -d 'Address of the gRPC API: tcp://127.0.0.1:9091 or unix:///run/mixer.sock' -r -f -a "(__fish_print_hostnames)"
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l socket-mode -d 'File mode of a Unix socket, octal. Example: 0660' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l grpc-reflection -d 'Whether to serve gRPC reflection; auto enables it if the API listens on loopback or a Unix socket only' -r -f -a "auto\t'Only if the API is reachable from this host only'
on\t'Always'
off\t'Never'"
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l monitoring-port -d 'HTTP port of metrics, version and health, on all interfaces; profiles and texts of errors are for clients on this host' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l monitoring-address -d 'Address of that port, instead of all interfaces; both are then for whoever reaches it. Example: 127.0.0.1:15014' -r -f -a "(__fish_print_hostnames)"
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l metrics-port -d 'HTTP port of the metrics of prometheus handlers, on all interfaces' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l metrics-address -d 'Address of those metrics, instead of all interfaces. Example: 127.0.0.1:42422' -r -f -a "(__fish_print_hostnames)"
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l tls-cert-file -d 'Server certificate chain, PEM; TCP clients must then use TLS' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l tls-key-file -d 'Private key of the certificate, PEM' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l tls-client-ca-file -d 'CA certificates that verify client certificates, PEM; requests a certificate from clients' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l tls-client-auth -d 'Whether clients must present a certificate' -r -f -a "require\t'Clients without a certificate are refused'
optional\t'A certificate is verified if presented'"
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l tls-min-version -d 'Minimum TLS version' -r -f -a "1.2\t'TLS 1.2'
1.3\t'TLS 1.3'"
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l tls-allowed-peers -d 'Allowed clients, by URI or DNS name in their certificate: NAME,NAME,…; a name may begin or end with `*`' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l config-store-url -l config -d 'Configuration store: a directory, fs://DIR, k8s://KUBECONFIG, mcp://HOST:PORT, mcps://HOST:PORT, mcp+listen://ADDR or embedded://sample' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l config-default-namespace -l default-namespace -d 'Namespace of mesh-wide rules' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l config-wait-timeout -d 'Timeout of the initial configuration of a remote store' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l config-on-error -d 'What serves when the configuration has errors: keep-last, serve-valid or refuse' -r -f -a "keep-last\t''
serve-valid\t''
refuse\t''"
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l allow-empty-config -d 'Accept a configuration without resources, which allows every request' -r -f -a "true\t''
false\t''"
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l config-cache -d 'Directory that keeps the last good configuration for the next start' -r -f -a "(__fish_complete_directories)"
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l config-loss -d 'What to do when the configuration directory disappears, with --config-on-error serve-valid: keep or drop the configuration' -r -f -a "keep\t''
drop\t''"
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l config-write-status -d 'Whether to write onto Kubernetes objects whether they can be used, as a condition `Accepted` of their status' -r -f -a "true\t''
false\t''"
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l mcp-max-message-size -d 'Maximum size of a message of an MCP source in bytes, or with a unit: a collection is one message. Example: 128MiB' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l cert-file -d 'Client certificate for mcps:// stores, PEM' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l key-file -d 'Private key of the client certificate, PEM' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l ca-cert-file -d 'CA certificates that verify mcps:// stores, PEM' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l use-adapter-crds -d 'Whether to read adapter-specific kinds (denier, memquota, …)' -r -f -a "true\t''
false\t''"
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l use-template-crds -d 'Whether to read template-specific kinds (metric, quota, …)' -r -f -a "true\t''
false\t''"
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l concurrency -d 'Worker threads, each with its own event loop and connections; 0 means one per core' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l single-threaded -d 'Run on a single thread' -r -f -a "true\t''
false\t''"
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l max-message-size -d 'Maximum size of a gRPC message in bytes, or with a unit. Example: 4MiB' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l memory-limit -d 'Maximum memory for everything that callers can make the server keep: requests, quotas, series, caches' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l max-concurrent-streams -d 'Maximum calls in flight per connection' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l max-check-quotas -d 'Maximum quotas of a check, and descriptors of a rate limit call of Envoy; a call with more is rejected' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l max-report-records -d 'Maximum records of a report, and entries of an access log message of Envoy; a message with more is rejected' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l receive-timeout -d 'Time limit for receiving a message: a call whose message is not complete by then fails. Example: 10s' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l max-connection-age -d 'Age at which a connection gets a GOAWAY, so that clients rebalance over the servers; 0s means never. Example: 30m' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l api-worker-pool-size -d 'Maximum asynchronous API calls in flight; synchronous calls bypass the pool' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l api-worker-pool-floor -d 'Adapt the pool size to the load: initial and minimum size; 0 keeps the size fixed' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l api-queue-length -d 'Maximum API calls in the queue of the pool; further calls are rejected' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l adapter-worker-pool-size -d 'Maximum asynchronous calls in flight per handler' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l adapter-worker-pool-floor -d 'Adapt the pool size to the load: initial and minimum size; 0 keeps the size fixed' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l adapter-queue-length -d 'Maximum calls in the queue of a handler; further calls fail' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l num-check-cache-entries -d 'Maximum entries of the check cache; 0 disables the cache' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l liveness-probe-path -d 'Probe file that is updated while the server is alive' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l liveness-probe-interval -d 'Maximum age of the probe file; it is updated twice per interval. Example: 2s' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l readiness-probe-path -d 'Probe file that is updated while the server is ready' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l readiness-probe-interval -d 'Maximum age of the probe file; it is updated twice per interval. Example: 2s' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l pid-file -d 'PID file. Example: /run/mixer.pid' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l drain-delay -d 'Delay between "not ready" and the end of accepting calls at shutdown' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l shutdown-timeout -d 'Timeout of the whole shutdown; remaining calls are aborted' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l envoy-bridge -d 'Whether to serve Envoy on the API port: ext_authz, access log and rate limit services' -r -f -a "true\t''
false\t''"
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l envoy-http-address -d 'Address of HTTP ext_authz. Example: 127.0.0.1:9191' -r -f -a "(__fish_print_hostnames)"
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l envoy-ratelimit-http-address -d 'Address of rate limits over HTTP: POST /json, GET /rlconfig, GET /healthcheck. Example: 127.0.0.1:9192' -r -f -a "(__fish_print_hostnames)"
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l ctrlz-port -d 'Port of the ControlZ introspection pages; 0 disables them' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l ctrlz-address -d 'Address of the ControlZ introspection pages; `*` means all interfaces' -r -f -a "(__fish_print_hostnames)"
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l ctrlz-readonly -d 'Make ControlZ read-only' -r -f -a "true\t''
false\t''"
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l ctrlz-token-file -d 'File with the bearer token that ControlZ requires: `Authorization: Bearer TOKEN`, or a login form in browsers' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l ctrlz-allowed-hosts -d 'Host names that ControlZ accepts besides localhost and IP addresses. Example: ops.example.com,mixer' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l profile -d 'Whether to serve /debug/pprof on the monitoring port' -r -f -a "true\t''
false\t''"
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l legacy-metrics -d 'Also expose metrics under the names of Mixer 1.0, for existing dashboards' -r -f -a "true\t''
false\t''"
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l heap-profile-rate -d 'Mean bytes between sampled allocations for /debug/pprof/heap; 0 samples only while that URL is requested' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l load-shedding-mode -d 'Action on calls over the limits: disabled, logonly or enforce' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l average-latency-threshold -d 'Maximum mean latency; 0s means no limit' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l latency-samples-per-second -d 'Maximum latency samples per second' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l latency-sample-half-life -d 'Half-life of a latency sample' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l max-requests-per-second -d 'Maximum calls per second; a Report counts as many calls as it has attribute sets; 0 means no limit' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l burst-size -d 'Burst size of the rate limit; without it the calls of a second, or 0 if called as mixs' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l load-shedding-check-reserve -d 'Fraction of the limits above that is reserved for checks: reports are rejected earlier. From 0 to 1' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l load-shedding-fair -d 'Fair sharing: clients with more than the mean load are rejected first' -r -f -a "true\t''
false\t''"
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l log-target -d 'Log output: a file, stdout or stderr; may be repeated' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l log-rotate -d 'Additional rotated log file' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l log-rotate-max-size -d 'Size at which the log file is rotated, in MiB, or with a unit. Example: 1GiB' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l log-rotate-max-age -d 'Days to keep rotated log files; 0 means no limit' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l log-rotate-max-backups -d 'Rotated log files to keep; 0 means all' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l log-as-json -d 'Write log records as JSON objects' -r -f -a "true\t''
false\t''"
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l log-output-level -d 'Log levels: `[scope:]level,…` with the levels none, fatal, error, warn, info, debug' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l log-stacktrace-level -d 'Minimum level of records with a stack trace: `[scope:]level,…`' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l log-caller -d 'Scopes whose records include the source location' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l trace-zipkin-url -d 'URL of a Zipkin collector. Example: http://zipkin:9411/api/v1/spans' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l trace-jaeger-url -d 'URL of a Jaeger collector. Example: http://jaeger:14268/api/traces?format=jaeger.thrift' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l trace-otlp-url -d 'URL of an OpenTelemetry collector (OTLP over HTTP). Example: http://collector:4318/v1/traces' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l trace-log-spans -d 'Write a log record for every span' -r -f -a "true\t''
false\t''"
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l trace-sampling-rate -d 'Fraction of new traces that are sampled, from 0 to 1' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l decision-log -d 'Decision log: a JSON line per check with attributes, result, rules, handlers and duration' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l decision-log-sampling -d 'Fraction of checks that are logged, from 0 to 1' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l decision-log-select -d 'Which decisions are logged' -r -f -a "all\t'All'
denied\t'Denials, failures, quotas not granted in full, and denials of dry-run rules'"
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l decision-log-max-size -d 'Size at which the decision log is rotated. Example: 100MiB' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l decision-log-max-backups -d 'Rotated decision logs to keep; 0 means all' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l decision-queue -d 'Length of the decision queue; further decisions are dropped and counted' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l decision-mask -d 'Attributes whose values are masked as `***` in log and recording: `NAME` or `NAME[KEY]`, separated by commas' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l record-requests -d 'Recording of the first calls, with attributes and results, for `mixer diff`' -r -F
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l record-max-requests -d 'Maximum calls in the recording' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l record-max-size -d 'Maximum size of the recording. Example: 64MiB' -r -f
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l color -d 'When to color output' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb; always with CLICOLOR_FORCE'
always\t'Always'
never\t'Never'"
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l error-format -d 'Format of error messages on standard error' -r -f -a "text\t'`error:`, `cause:` and `hint:` lines'
json\t'One JSON document per line'"
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l print-config -d 'Print all settings with their origin, then exit'
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l dry-run -d 'Run the start-up sequence, print what would be served, then exit'
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -s v -l verbose -d 'Log at level debug: servers in their log, other commands on standard error'
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -l quiet -d 'Print errors only, no results, warnings and progress: the exit status tells the result'
complete -c mixer -n "__fish_mixer_using_subcommand doctor" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mixer -n "__fish_mixer_using_subcommand help; and not __fish_seen_subcommand_from init fmt server check report probe validate eval explain-code test diff snapshot routes proxy adapter version crd completions man legacy galley doctor help" -f -a "init" -d 'Write a commented policy to begin with'
complete -c mixer -n "__fish_mixer_using_subcommand help; and not __fish_seen_subcommand_from init fmt server check report probe validate eval explain-code test diff snapshot routes proxy adapter version crd completions man legacy galley doctor help" -f -a "fmt" -d 'Bring configuration files into their layout'
complete -c mixer -n "__fish_mixer_using_subcommand help; and not __fish_seen_subcommand_from init fmt server check report probe validate eval explain-code test diff snapshot routes proxy adapter version crd completions man legacy galley doctor help" -f -a "server" -d 'Start the server'
complete -c mixer -n "__fish_mixer_using_subcommand help; and not __fish_seen_subcommand_from init fmt server check report probe validate eval explain-code test diff snapshot routes proxy adapter version crd completions man legacy galley doctor help" -f -a "check" -d 'Check a request against a server or a configuration'
complete -c mixer -n "__fish_mixer_using_subcommand help; and not __fish_seen_subcommand_from init fmt server check report probe validate eval explain-code test diff snapshot routes proxy adapter version crd completions man legacy galley doctor help" -f -a "report" -d 'Report a request to a server or a configuration'
complete -c mixer -n "__fish_mixer_using_subcommand help; and not __fish_seen_subcommand_from init fmt server check report probe validate eval explain-code test diff snapshot routes proxy adapter version crd completions man legacy galley doctor help" -f -a "probe" -d 'Check whether a server is alive or ready'
complete -c mixer -n "__fish_mixer_using_subcommand help; and not __fish_seen_subcommand_from init fmt server check report probe validate eval explain-code test diff snapshot routes proxy adapter version crd completions man legacy galley doctor help" -f -a "validate" -d 'Validate a configuration'
complete -c mixer -n "__fish_mixer_using_subcommand help; and not __fish_seen_subcommand_from init fmt server check report probe validate eval explain-code test diff snapshot routes proxy adapter version crd completions man legacy galley doctor help" -f -a "eval" -d 'Evaluate an expression over given attributes'
complete -c mixer -n "__fish_mixer_using_subcommand help; and not __fish_seen_subcommand_from init fmt server check report probe validate eval explain-code test diff snapshot routes proxy adapter version crd completions man legacy galley doctor help" -f -a "explain-code" -d 'Say what a code of a diagnostic means, and what to do'
complete -c mixer -n "__fish_mixer_using_subcommand help; and not __fish_seen_subcommand_from init fmt server check report probe validate eval explain-code test diff snapshot routes proxy adapter version crd completions man legacy galley doctor help" -f -a "test" -d 'Run policy tests against a configuration, without a server'
complete -c mixer -n "__fish_mixer_using_subcommand help; and not __fish_seen_subcommand_from init fmt server check report probe validate eval explain-code test diff snapshot routes proxy adapter version crd completions man legacy galley doctor help" -f -a "diff" -d 'Show which recorded decisions a configuration change alters, and why'
complete -c mixer -n "__fish_mixer_using_subcommand help; and not __fish_seen_subcommand_from init fmt server check report probe validate eval explain-code test diff snapshot routes proxy adapter version crd completions man legacy galley doctor help" -f -a "snapshot" -d 'Show the compiled configuration'
complete -c mixer -n "__fish_mixer_using_subcommand help; and not __fish_seen_subcommand_from init fmt server check report probe validate eval explain-code test diff snapshot routes proxy adapter version crd completions man legacy galley doctor help" -f -a "routes" -d 'Show which requests reach which handlers'
complete -c mixer -n "__fish_mixer_using_subcommand help; and not __fish_seen_subcommand_from init fmt server check report probe validate eval explain-code test diff snapshot routes proxy adapter version crd completions man legacy galley doctor help" -f -a "proxy" -d 'Forward traffic as an Envoy bootstrap says'
complete -c mixer -n "__fish_mixer_using_subcommand help; and not __fish_seen_subcommand_from init fmt server check report probe validate eval explain-code test diff snapshot routes proxy adapter version crd completions man legacy galley doctor help" -f -a "adapter" -d 'Start an adapter of your own, out of process'
complete -c mixer -n "__fish_mixer_using_subcommand help; and not __fish_seen_subcommand_from init fmt server check report probe validate eval explain-code test diff snapshot routes proxy adapter version crd completions man legacy galley doctor help" -f -a "version" -d 'Print program version and build information'
complete -c mixer -n "__fish_mixer_using_subcommand help; and not __fish_seen_subcommand_from init fmt server check report probe validate eval explain-code test diff snapshot routes proxy adapter version crd completions man legacy galley doctor help" -f -a "crd" -d 'Print the Kubernetes custom resource definitions'
complete -c mixer -n "__fish_mixer_using_subcommand help; and not __fish_seen_subcommand_from init fmt server check report probe validate eval explain-code test diff snapshot routes proxy adapter version crd completions man legacy galley doctor help" -f -a "completions" -d 'Print a completion script for a shell'
complete -c mixer -n "__fish_mixer_using_subcommand help; and not __fish_seen_subcommand_from init fmt server check report probe validate eval explain-code test diff snapshot routes proxy adapter version crd completions man legacy galley doctor help" -f -a "man" -d 'Print or write man pages'
complete -c mixer -n "__fish_mixer_using_subcommand help; and not __fish_seen_subcommand_from init fmt server check report probe validate eval explain-code test diff snapshot routes proxy adapter version crd completions man legacy galley doctor help" -f -a "legacy" -d 'Behave like mixs, mixc or galley of Istio'
complete -c mixer -n "__fish_mixer_using_subcommand help; and not __fish_seen_subcommand_from init fmt server check report probe validate eval explain-code test diff snapshot routes proxy adapter version crd completions man legacy galley doctor help" -f -a "galley" -d 'Run and inspect the configuration plane'
complete -c mixer -n "__fish_mixer_using_subcommand help; and not __fish_seen_subcommand_from init fmt server check report probe validate eval explain-code test diff snapshot routes proxy adapter version crd completions man legacy galley doctor help" -f -a "doctor" -d 'Find problems that would prevent a server from starting or running'
complete -c mixer -n "__fish_mixer_using_subcommand help; and not __fish_seen_subcommand_from init fmt server check report probe validate eval explain-code test diff snapshot routes proxy adapter version crd completions man legacy galley doctor help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c mixer -n "__fish_mixer_using_subcommand help; and __fish_seen_subcommand_from snapshot" -f -a "dump" -d 'Print a snapshot: attributes, handlers, instances, rules, adapters, templates'
complete -c mixer -n "__fish_mixer_using_subcommand help; and __fish_seen_subcommand_from routes" -f -a "show" -d 'Print the routing table: variety, namespace, handler, condition, instances'
complete -c mixer -n "__fish_mixer_using_subcommand help; and __fish_seen_subcommand_from adapter" -f -a "new" -d 'Write a new adapter in Rust: a crate with a gRPC server, and its resources'
complete -c mixer -n "__fish_mixer_using_subcommand help; and __fish_seen_subcommand_from adapter" -f -a "resources" -d 'Print the resources of an adapter: its templates and the adapter itself'
complete -c mixer -n "__fish_mixer_using_subcommand help; and __fish_seen_subcommand_from crd" -f -a "all" -d 'List all kinds: core, adapters, instances'
complete -c mixer -n "__fish_mixer_using_subcommand help; and __fish_seen_subcommand_from crd" -f -a "adapter" -d 'List adapter-specific kinds'
complete -c mixer -n "__fish_mixer_using_subcommand help; and __fish_seen_subcommand_from crd" -f -a "instance" -d 'List template-specific kinds'
complete -c mixer -n "__fish_mixer_using_subcommand help; and __fish_seen_subcommand_from galley" -f -a "wait" -d 'Wait until sinks have acknowledged a change'
complete -c mixer -n "__fish_mixer_using_subcommand help; and __fish_seen_subcommand_from galley" -f -a "sinks" -d 'Show the sinks: what each has of every collection, and what it refused'
complete -c mixer -n "__fish_mixer_using_subcommand help; and __fish_seen_subcommand_from galley" -f -a "status" -d 'Show sources, groups, sinks and the webhook at a glance'
complete -c mixer -n "__fish_mixer_using_subcommand help; and __fish_seen_subcommand_from galley" -f -a "snapshot" -d 'Show or compare what is published'
complete -c mixer -n "__fish_mixer_using_subcommand help; and __fish_seen_subcommand_from galley" -f -a "watch" -d 'Print events of sources as they happen'
complete -c mixer -n "__fish_mixer_using_subcommand help; and __fish_seen_subcommand_from galley" -f -a "server" -d 'Starts Galley as a server'
complete -c mixer -n "__fish_mixer_using_subcommand explain-code" -f -a "IST0002 IST0101 IST0102 IST0103 IST0104 IST0105 IST0106 IST0107 IST0108 IST0109 IST0110 IST0111 IST0112 IST0113 IST0114 IST0115 IST0116 IST0117 IST0118 IST0119 IST0120 IST0121 action-empty adapter-config adapter-invalid adapter-unknown adapter-unused address-invalid allows-nothing allows-unknown allows-unused annotation-unknown arguments-reversed attribute-conflict attribute-keyword attribute-unknown attribute-unmapped authorization-incomplete body-not-included body-truncated clause-empty config-cache config-kept config-too-large config-withheld connection-missing connection-port constant-pattern constant-text default-closed default-passes default-refuses-all default-unknown default-unused denier-allows denier-code denier-validity document-field document-identity document-ignored dry-run-rejected dry-run-unknown duration-invalid enforcement-dry-run enforcement-shadow entry-expression entry-text envoy-namespace envoy-namespace-unknown envoy-namespace-unselected envoy-setting envoy-settings-twice envoy-value-type expression-compile expression-fails expression-may-fail expression-parse expression-type field-conflict field-duplicate field-empty field-ignored field-missing file-being-written file-empty file-errors file-ignored file-special file-too-large handler-build handler-missing handler-unknown handler-unused header-key-case header-operation header-unsupported header-value-absent host-invalid instance-malformed instance-name-unknown instance-repeated instance-unknown instance-unused key-boolean key-duplicate kind-unknown labels-differ labels-invalid language-unknown list-empty list-entry mapping-claimed mapping-source mapping-type match-absent match-always match-constant match-empty match-malformed match-never match-star match-unanchored matches-reversed method-case name-invalid namespace-closed namespace-default-unused namespace-near namespace-unused namespace-without-rules on-error-unknown opa-absent opa-arguments opa-name opa-path opa-query opa-undecided parameter-empty params-invalid params-unused path-query percentage-invalid policy-unenforced port-invalid principal-unverified problems-unlisted protocol-chosen protocol-unsupported proxy-invalid proxy-unknown-field proxy-unsupported quota-amount quota-dimension-constant quota-dimension-unique quota-held quota-override-shadowed quota-override-value quota-selector-shadowed quota-unchargeable quota-uncharged quota-unknown quota-window-shared ratelimit-descriptor ratelimit-zero rbac-empty rbac-group rbac-ineffective rbac-permissive received-values-unknown resource-duplicate resource-metadata resource-unread response-before-check rule-empty rule-shadowed rule-skipped spec-decode spill-nested spill-shared store-errors store-unmounted store-unreadable store-unwatched template-invalid template-unknown template-unsupported template-unused tls-settings value-constant value-invalid value-never value-unsupported weight-total yaml-syntax"
complete -c mixer -n "__fish_mixer_using_subcommand completions" -f -a "bash elvish fish powershell zsh"
