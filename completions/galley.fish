# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_galley_global_optspecs
    string join \n h/help
end

function __fish_galley_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_galley_global_optspecs) -- $cmd 2>/dev/null
    or return 0
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_galley_using_subcommand
    set -l cmd (__fish_galley_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c galley -n "__fish_galley_needs_command" -s h -l help -d 'Print help'
complete -c galley -n "__fish_galley_needs_command" -f -a "probe" -d 'Check whether a server is alive or ready'
complete -c galley -n "__fish_galley_needs_command" -f -a "version" -d 'Print program version and build information'
complete -c galley -n "__fish_galley_needs_command" -f -a "server" -d 'Starts Galley as a server'
complete -c galley -n "__fish_galley_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c galley -n "__fish_galley_using_subcommand probe" -l probe-path -d 'Probe file to check' -r -F
complete -c galley -n "__fish_galley_using_subcommand probe" -l interval -d 'Maximum age of the probe file, and interval of --watch' -r -f
complete -c galley -n "__fish_galley_using_subcommand probe" -l grpc -d 'Server whose gRPC health service is called: host:port or unix:///path; may be repeated' -r -f -a "(__fish_print_hostnames)"
complete -c galley -n "__fish_galley_using_subcommand probe" -l service -d 'Service name of the health check: empty or istio.mixer.v1.Mixer for readiness, `liveness` for liveness' -r -f
complete -c galley -n "__fish_galley_using_subcommand probe" -l http -d 'URL that must return a 2xx status; may be repeated. Example: http://localhost:15014/readyz' -r -f
complete -c galley -n "__fish_galley_using_subcommand probe" -l timeout -d 'Timeout of a gRPC or HTTP request' -r -f
complete -c galley -n "__fish_galley_using_subcommand probe" -s o -l output -d 'Output format' -r -f -a "plain\t'One line'
json\t'One JSON document; with --watch one line per change'"
complete -c galley -n "__fish_galley_using_subcommand probe" -l ca-file -d 'CA certificates that verify the server, PEM; default: those of the system' -r -F
complete -c galley -n "__fish_galley_using_subcommand probe" -l cert-file -d 'Client certificate chain, PEM' -r -F
complete -c galley -n "__fish_galley_using_subcommand probe" -l key-file -d 'Private key of the client certificate, PEM' -r -F
complete -c galley -n "__fish_galley_using_subcommand probe" -l server-name -d 'Server name in the server certificate; default: the host of the target' -r -f
complete -c galley -n "__fish_galley_using_subcommand probe" -l log_target -d 'Log output: a file, stdout or stderr; may be repeated' -r -f
complete -c galley -n "__fish_galley_using_subcommand probe" -l log_rotate -d 'Additional rotated log file' -r -F
complete -c galley -n "__fish_galley_using_subcommand probe" -l log_rotate_max_size -d 'Size at which the log file is rotated, in MiB, or with a unit. Example: 1GiB' -r -f
complete -c galley -n "__fish_galley_using_subcommand probe" -l log_rotate_max_age -d 'Days to keep rotated log files; 0 means no limit' -r -f
complete -c galley -n "__fish_galley_using_subcommand probe" -l log_rotate_max_backups -d 'Rotated log files to keep; 0 means all' -r -f
complete -c galley -n "__fish_galley_using_subcommand probe" -l log_as_json -d 'Write log records as JSON objects' -r -f -a "true\t''
false\t''"
complete -c galley -n "__fish_galley_using_subcommand probe" -l log_output_level -d 'Log levels: `[scope:]level,…` with the levels none, fatal, error, warn, info, debug' -r -f
complete -c galley -n "__fish_galley_using_subcommand probe" -l log_stacktrace_level -d 'Minimum level of records with a stack trace: `[scope:]level,…`' -r -f
complete -c galley -n "__fish_galley_using_subcommand probe" -l log_caller -d 'Scopes whose records include the source location' -r -f
complete -c galley -n "__fish_galley_using_subcommand probe" -l watch -d 'Watch the targets and print every change, until SIGINT'
complete -c galley -n "__fish_galley_using_subcommand probe" -l tls -d 'Use TLS; implied by the other flags of this group'
complete -c galley -n "__fish_galley_using_subcommand probe" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c galley -n "__fish_galley_using_subcommand version" -s s -l short -d 'Print the version only' -r -f -a "true\t''
false\t''"
complete -c galley -n "__fish_galley_using_subcommand version" -s o -l output -d 'One of \'yaml\' or \'json\'; overrides --short' -r -f
complete -c galley -n "__fish_galley_using_subcommand version" -s h -l help -d 'Print help'
complete -c galley -n "__fish_galley_using_subcommand server" -s c -l config -d 'Configuration file, YAML, JSON or TOML. Precedence: flag, file, default' -r -F
complete -c galley -n "__fish_galley_using_subcommand server" -l configPath -d 'Directory or file of resources; without it, a Kubernetes cluster' -r -F
complete -c galley -n "__fish_galley_using_subcommand server" -l watchConfigFiles -d 'Notice changes of files; otherwise on SIGUSR1 only' -r -f -a "true\t''
false\t''"
complete -c galley -n "__fish_galley_using_subcommand server" -l meshConfigFile -d 'Mesh configuration, YAML; empty: the defaults' -r -F
complete -c galley -n "__fish_galley_using_subcommand server" -l kubeconfig -d 'Kubeconfig of the cluster; without it, the one in which this process runs' -r -F
complete -c galley -n "__fish_galley_using_subcommand server" -l resyncPeriod -d 'How often all objects are listed again and compared; 0 means never' -r -f
complete -c galley -n "__fish_galley_using_subcommand server" -l disableResourceReadyCheck -d 'Start although the cluster lacks kinds of resources' -r -f -a "true\t''
false\t''"
complete -c galley -n "__fish_galley_using_subcommand server" -l excludedResourceKinds -d 'Kinds that are not read, separated by commas' -r -f
complete -c galley -n "__fish_galley_using_subcommand server" -l domain -d 'Domain of services' -r -f
complete -c galley -n "__fish_galley_using_subcommand server" -l enableServiceDiscovery -d 'Make service entries from services, endpoints, pods and nodes' -r -f -a "true\t''
false\t''"
complete -c galley -n "__fish_galley_using_subcommand server" -l enableAnalysis -d 'Tell in the log what published resources say together, as the analyzers of Istio 1.5: references that lead nowhere, conflicts' -r -f -a "true\t''
false\t''"
complete -c galley -n "__fish_galley_using_subcommand server" -l useOldProcessor -d 'Versions and collections as of the first processor of Istio Galley; otherwise as of the second' -r -f -a "true\t''
false\t''"
complete -c galley -n "__fish_galley_using_subcommand server" -l istio-pace -d 'Wait as long as Istio Galley before a change is published: about a second' -r -f -a "true\t''
false\t''"
complete -c galley -n "__fish_galley_using_subcommand server" -l config-on-error -d 'What sinks get while files or objects have errors: keep-last, which they have already, or serve-valid, what is valid, as from Istio Galley. Default: keep-last; called as galley, serve-valid' -r -f -a "keep-last\t''
serve-valid\t''"
complete -c galley -n "__fish_galley_using_subcommand server" -l allow-empty-config -d 'Accept a --config-path without resources, which allows every request, and at a start one with an empty directory below it' -r -f -a "true\t''
false\t''"
complete -c galley -n "__fish_galley_using_subcommand server" -l config-cache -d 'Directory that keeps the files that were published last for the next start, with --config-path' -r -f -a "(__fish_complete_directories)"
complete -c galley -n "__fish_galley_using_subcommand server" -l zookeeperAddress -d 'ZooKeeper with the registry of Dubbo, whose services become service entries: HOST:PORT, separated by commas, and perhaps /CHROOT at the end' -r -f
complete -c galley -n "__fish_galley_using_subcommand server" -l zookeeperRoot -d 'Node below which services are' -r -F
complete -c galley -n "__fish_galley_using_subcommand server" -l zookeeperSessionTimeout -d 'Time after which a session without a sign of life ends' -r -f
complete -c galley -n "__fish_galley_using_subcommand server" -l zookeeperNamespace -d 'Namespace of these service entries' -r -f
complete -c galley -n "__fish_galley_using_subcommand server" -l zookeeperUser -d 'User of the scheme digest' -r -f
complete -c galley -n "__fish_galley_using_subcommand server" -l zookeeperPasswordFile -d 'File with his password, which is read for each connection' -r -F
complete -c galley -n "__fish_galley_using_subcommand server" -l zookeeperCaCertFile -d 'Connect to ZooKeeper with TLS, and verify it with the roots in this file, PEM' -r -F
complete -c galley -n "__fish_galley_using_subcommand server" -l zookeeperCertFile -d 'Client certificate chain for ZooKeeper, PEM' -r -F
complete -c galley -n "__fish_galley_using_subcommand server" -l zookeeperKeyFile -d 'Its private key, PEM' -r -F
complete -c galley -n "__fish_galley_using_subcommand server" -l eurekaAddress -d 'Eureka servers whose applications become service entries: http://HOST:PORT/eureka, separated by commas' -r -f
complete -c galley -n "__fish_galley_using_subcommand server" -l eurekaRefresh -d 'How often Eureka is asked for changes' -r -f
complete -c galley -n "__fish_galley_using_subcommand server" -l eurekaTimeout -d 'Time limit of a request to Eureka' -r -f
complete -c galley -n "__fish_galley_using_subcommand server" -l eurekaNamespace -d 'Namespace of these service entries' -r -f
complete -c galley -n "__fish_galley_using_subcommand server" -l eurekaServicePort -d 'Port of their services; 0: that of the first instance' -r -f
complete -c galley -n "__fish_galley_using_subcommand server" -l eurekaUser -d 'User of Eureka, with HTTP basic authentication' -r -f
complete -c galley -n "__fish_galley_using_subcommand server" -l eurekaPasswordFile -d 'File with his password, which is read again when it changes' -r -F
complete -c galley -n "__fish_galley_using_subcommand server" -l eurekaCaCertFile -d 'Roots of the certificates of Eureka, PEM; empty: those of the system' -r -F
complete -c galley -n "__fish_galley_using_subcommand server" -l eurekaCertFile -d 'Client certificate chain for Eureka, PEM' -r -F
complete -c galley -n "__fish_galley_using_subcommand server" -l eurekaKeyFile -d 'Its private key, PEM' -r -F
complete -c galley -n "__fish_galley_using_subcommand server" -l enable-server -d 'Read configuration and serve it to sinks' -r -f -a "true\t''
false\t''"
complete -c galley -n "__fish_galley_using_subcommand server" -l server-address -d 'Address of sinks: tcp://HOST:PORT or unix:///PATH' -r -f -a "(__fish_print_hostnames)"
complete -c galley -n "__fish_galley_using_subcommand server" -l server-maxReceivedMessageSize -d 'Most bytes of a message of a sink' -r -f
complete -c galley -n "__fish_galley_using_subcommand server" -l memory-limit -d 'Most memory that all sinks together can make the server keep: connections, streams, requests' -r -f
complete -c galley -n "__fish_galley_using_subcommand server" -l server-maxConcurrentStreams -d 'Streams of a connection; a sink needs one' -r -f
complete -c galley -n "__fish_galley_using_subcommand server" -l insecure -d 'Serve plain text to everyone' -r -f -a "true\t''
false\t''"
complete -c galley -n "__fish_galley_using_subcommand server" -l tlsCertFile -d 'Certificate chain, PEM' -r -F
complete -c galley -n "__fish_galley_using_subcommand server" -l tlsKeyFile -d 'Its private key, PEM' -r -F
complete -c galley -n "__fish_galley_using_subcommand server" -l caCertFile -d 'Roots of the certificates of sinks, PEM' -r -F
complete -c galley -n "__fish_galley_using_subcommand server" -l accessListFile -d 'Identities of sinks that may connect, YAML' -r -F
complete -c galley -n "__fish_galley_using_subcommand server" -l incremental -d 'Send differences to sinks that ask for them: by default, unless called as galley' -r -f -a "true\t''
false\t''"
complete -c galley -n "__fish_galley_using_subcommand server" -l legacy-mcp -d 'Serve sinks of Istio 1.0 and 1.1 too, which call AggregatedMeshConfigService' -r -f -a "true\t''
false\t''"
complete -c galley -n "__fish_galley_using_subcommand server" -l sinkAddress -d 'Sink to call, HOST:PORT; may be repeated' -r -f -a "(__fish_print_hostnames)"
complete -c galley -n "__fish_galley_using_subcommand server" -l sinkAuthMode -d 'How sinks that are called are authenticated: NONE, TLS, MUTUAL_TLS or GOOGLE' -r -f
complete -c galley -n "__fish_galley_using_subcommand server" -l sinkMeta -d 'Headers of streams: KEY=VALUE, separated by commas' -r -f
complete -c galley -n "__fish_galley_using_subcommand server" -l enable-validation -d 'Serve the webhook that API servers ask about resources' -r -f -a "true\t''
false\t''"
complete -c galley -n "__fish_galley_using_subcommand server" -l validation-port -d 'Port of the webhook on all interfaces' -r -f
complete -c galley -n "__fish_galley_using_subcommand server" -l validation-depth -d 'What is checked of resources of the policy engine: structural, as Istio does, or deep, as `mixer validate` does' -r -f -a "structural\t''
deep\t''"
complete -c galley -n "__fish_galley_using_subcommand server" -l validation-webhook-config-file -d 'The webhook configuration that the cluster is to have, YAML; without it, the one that it has is completed' -r -F
complete -c galley -n "__fish_galley_using_subcommand server" -l enable-reconcileWebhookConfiguration -d 'Keep the webhook configuration of the cluster as it should be' -r -f -a "true\t''
false\t''"
complete -c galley -n "__fish_galley_using_subcommand server" -l webhook-name -d 'Name of the webhook configuration' -r -f
complete -c galley -n "__fish_galley_using_subcommand server" -l deployment-namespace -d 'Namespace of the deployment and the service of Galley' -r -f
complete -c galley -n "__fish_galley_using_subcommand server" -l deployment-name -d 'Name of the deployment' -r -f
complete -c galley -n "__fish_galley_using_subcommand server" -l service-name -d 'Name of the service' -r -f
complete -c galley -n "__fish_galley_using_subcommand server" -l ctrlz_port -d 'Port of the ControlZ introspection pages; 0 disables them' -r -f
complete -c galley -n "__fish_galley_using_subcommand server" -l ctrlz_address -d 'Address of the ControlZ introspection pages; `*` means all interfaces' -r -f -a "(__fish_print_hostnames)"
complete -c galley -n "__fish_galley_using_subcommand server" -l ctrlz_readonly -d 'Make ControlZ read-only' -r -f -a "true\t''
false\t''"
complete -c galley -n "__fish_galley_using_subcommand server" -l ctrlz_token_file -d 'File with the bearer token that ControlZ requires' -r -F
complete -c galley -n "__fish_galley_using_subcommand server" -l ctrlz_allowed_hosts -d 'Host names that ControlZ accepts besides localhost and IP addresses' -r -f
complete -c galley -n "__fish_galley_using_subcommand server" -l monitoringPort -d 'HTTP port of metrics, version and health on all interfaces; texts of errors are for clients on this host' -r -f
complete -c galley -n "__fish_galley_using_subcommand server" -l monitoring_address -d 'Address of that port, instead of all interfaces; texts of errors are then for whoever reaches it. Example: 127.0.0.1:15014' -r -f -a "(__fish_print_hostnames)"
complete -c galley -n "__fish_galley_using_subcommand server" -l enableProfiling -d 'Serve profiles, to clients on this host' -r -f -a "true\t''
false\t''"
complete -c galley -n "__fish_galley_using_subcommand server" -l pprofPort -d 'HTTP port of profiles' -r -f
complete -c galley -n "__fish_galley_using_subcommand server" -l metric-per-resource -d 'Export a metric for every resource' -r -f -a "true\t''
false\t''"
complete -c galley -n "__fish_galley_using_subcommand server" -l livenessProbePath -d 'Probe file that is updated while the process works' -r -F
complete -c galley -n "__fish_galley_using_subcommand server" -l livenessProbeInterval -d 'Maximum age of that file' -r -f
complete -c galley -n "__fish_galley_using_subcommand server" -l readinessProbePath -d 'Probe file that is updated while sinks are served' -r -F
complete -c galley -n "__fish_galley_using_subcommand server" -l readinessProbeInterval -d 'Maximum age of that file' -r -f
complete -c galley -n "__fish_galley_using_subcommand server" -l log_target -d 'Log output: a file, stdout or stderr; may be repeated' -r -f
complete -c galley -n "__fish_galley_using_subcommand server" -l log_rotate -d 'Additional rotated log file' -r -F
complete -c galley -n "__fish_galley_using_subcommand server" -l log_rotate_max_size -d 'Size at which the log file is rotated, in MiB, or with a unit. Example: 1GiB' -r -f
complete -c galley -n "__fish_galley_using_subcommand server" -l log_rotate_max_age -d 'Days to keep rotated log files; 0 means no limit' -r -f
complete -c galley -n "__fish_galley_using_subcommand server" -l log_rotate_max_backups -d 'Rotated log files to keep; 0 means all' -r -f
complete -c galley -n "__fish_galley_using_subcommand server" -l log_as_json -d 'Write log records as JSON objects' -r -f -a "true\t''
false\t''"
complete -c galley -n "__fish_galley_using_subcommand server" -l log_output_level -d 'Log levels: `[scope:]level,…` with the levels none, fatal, error, warn, info, debug' -r -f
complete -c galley -n "__fish_galley_using_subcommand server" -l log_stacktrace_level -d 'Minimum level of records with a stack trace: `[scope:]level,…`' -r -f
complete -c galley -n "__fish_galley_using_subcommand server" -l log_caller -d 'Scopes whose records include the source location' -r -f
complete -c galley -n "__fish_galley_using_subcommand server" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c galley -n "__fish_galley_using_subcommand help; and not __fish_seen_subcommand_from probe version server help" -f -a "probe" -d 'Check whether a server is alive or ready'
complete -c galley -n "__fish_galley_using_subcommand help; and not __fish_seen_subcommand_from probe version server help" -f -a "version" -d 'Print program version and build information'
complete -c galley -n "__fish_galley_using_subcommand help; and not __fish_seen_subcommand_from probe version server help" -f -a "server" -d 'Starts Galley as a server'
complete -c galley -n "__fish_galley_using_subcommand help; and not __fish_seen_subcommand_from probe version server help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
