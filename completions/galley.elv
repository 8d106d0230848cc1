
use builtin;
use str;

set edit:completion:arg-completer[galley] = {|@words|
    fn spaces {|n|
        builtin:repeat $n ' ' | str:join ''
    }
    fn cand {|text desc|
        edit:complex-candidate $text &display=$text' '(spaces (- 14 (wcswidth $text)))$desc
    }
    var command = 'galley'
    for word $words[1..-1] {
        if (str:has-prefix $word '-') {
            break
        }
        set command = $command';'$word
    }
    var completions = [
        &'galley'= {
            cand -h 'Print help'
            cand --help 'Print help'
            cand probe 'Check whether a server is alive or ready'
            cand version 'Print program version and build information'
            cand server 'Starts Galley as a server'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'galley;probe'= {
            cand --probe-path 'Probe file to check'
            cand --interval 'Maximum age of the probe file, and interval of --watch'
            cand --grpc 'Server whose gRPC health service is called: host:port or unix:///path; may be repeated'
            cand --service 'Service name of the health check: empty or istio.mixer.v1.Mixer for readiness, `liveness` for liveness'
            cand --http 'URL that must return a 2xx status; may be repeated. Example: http://localhost:15014/readyz'
            cand --timeout 'Timeout of a gRPC or HTTP request'
            cand -o 'Output format'
            cand --output 'Output format'
            cand --ca-file 'CA certificates that verify the server, PEM; default: those of the system'
            cand --cert-file 'Client certificate chain, PEM'
            cand --key-file 'Private key of the client certificate, PEM'
            cand --server-name 'Server name in the server certificate; default: the host of the target'
            cand --log_target 'Log output: a file, stdout or stderr; may be repeated'
            cand --log_rotate 'Additional rotated log file'
            cand --log_rotate_max_size 'Size at which the log file is rotated, in MiB, or with a unit. Example: 1GiB'
            cand --log_rotate_max_age 'Days to keep rotated log files; 0 means no limit'
            cand --log_rotate_max_backups 'Rotated log files to keep; 0 means all'
            cand --log_as_json 'Write log records as JSON objects'
            cand --log_output_level 'Log levels: `[scope:]level,…` with the levels none, fatal, error, warn, info, debug'
            cand --log_stacktrace_level 'Minimum level of records with a stack trace: `[scope:]level,…`'
            cand --log_caller 'Scopes whose records include the source location'
            cand --watch 'Watch the targets and print every change, until SIGINT'
            cand --tls 'Use TLS; implied by the other flags of this group'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'galley;version'= {
            cand -s 'Print the version only'
            cand --short 'Print the version only'
            cand -o 'One of ''yaml'' or ''json''; overrides --short'
            cand --output 'One of ''yaml'' or ''json''; overrides --short'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'galley;server'= {
            cand -c 'Configuration file, YAML, JSON or TOML. Precedence: flag, file, default'
            cand --config 'Configuration file, YAML, JSON or TOML. Precedence: flag, file, default'
            cand --configPath 'Directory or file of resources; without it, a Kubernetes cluster'
            cand --watchConfigFiles 'Notice changes of files; otherwise on SIGUSR1 only'
            cand --meshConfigFile 'Mesh configuration, YAML; empty: the defaults'
            cand --kubeconfig 'Kubeconfig of the cluster; without it, the one in which this process runs'
            cand --resyncPeriod 'How often all objects are listed again and compared; 0 means never'
            cand --disableResourceReadyCheck 'Start although the cluster lacks kinds of resources'
            cand --excludedResourceKinds 'Kinds that are not read, separated by commas'
            cand --domain 'Domain of services'
            cand --enableServiceDiscovery 'Make service entries from services, endpoints, pods and nodes'
            cand --enableAnalysis 'Tell in the log what published resources say together, as the analyzers of Istio 1.5: references that lead nowhere, conflicts'
            cand --useOldProcessor 'Versions and collections as of the first processor of Istio Galley; otherwise as of the second'
            cand --istio-pace 'Wait as long as Istio Galley before a change is published: about a second'
            cand --config-on-error 'What sinks get while files or objects have errors: keep-last, which they have already, or serve-valid, what is valid, as from Istio Galley. Default: keep-last; called as galley, serve-valid'
            cand --allow-empty-config 'Accept a --config-path without resources, which allows every request, and at a start one with an empty directory below it'
            cand --config-cache 'Directory that keeps the files that were published last for the next start, with --config-path'
            cand --zookeeperAddress 'ZooKeeper with the registry of Dubbo, whose services become service entries: HOST:PORT, separated by commas, and perhaps /CHROOT at the end'
            cand --zookeeperRoot 'Node below which services are'
            cand --zookeeperSessionTimeout 'Time after which a session without a sign of life ends'
            cand --zookeeperNamespace 'Namespace of these service entries'
            cand --zookeeperUser 'User of the scheme digest'
            cand --zookeeperPasswordFile 'File with his password, which is read for each connection'
            cand --zookeeperCaCertFile 'Connect to ZooKeeper with TLS, and verify it with the roots in this file, PEM'
            cand --zookeeperCertFile 'Client certificate chain for ZooKeeper, PEM'
            cand --zookeeperKeyFile 'Its private key, PEM'
            cand --eurekaAddress 'Eureka servers whose applications become service entries: http://HOST:PORT/eureka, separated by commas'
            cand --eurekaRefresh 'How often Eureka is asked for changes'
            cand --eurekaTimeout 'Time limit of a request to Eureka'
            cand --eurekaNamespace 'Namespace of these service entries'
            cand --eurekaServicePort 'Port of their services; 0: that of the first instance'
            cand --eurekaUser 'User of Eureka, with HTTP basic authentication'
            cand --eurekaPasswordFile 'File with his password, which is read again when it changes'
            cand --eurekaCaCertFile 'Roots of the certificates of Eureka, PEM; empty: those of the system'
            cand --eurekaCertFile 'Client certificate chain for Eureka, PEM'
            cand --eurekaKeyFile 'Its private key, PEM'
            cand --enable-server 'Read configuration and serve it to sinks'
            cand --server-address 'Address of sinks: tcp://HOST:PORT or unix:///PATH'
            cand --server-maxReceivedMessageSize 'Most bytes of a message of a sink'
            cand --memory-limit 'Most memory that all sinks together can make the server keep: connections, streams, requests'
            cand --server-maxConcurrentStreams 'Streams of a connection; a sink needs one'
            cand --insecure 'Serve plain text to everyone'
            cand --tlsCertFile 'Certificate chain, PEM'
            cand --tlsKeyFile 'Its private key, PEM'
            cand --caCertFile 'Roots of the certificates of sinks, PEM'
            cand --accessListFile 'Identities of sinks that may connect, YAML'
            cand --incremental 'Send differences to sinks that ask for them: by default, unless called as galley'
            cand --legacy-mcp 'Serve sinks of Istio 1.0 and 1.1 too, which call AggregatedMeshConfigService'
            cand --sinkAddress 'Sink to call, HOST:PORT; may be repeated'
            cand --sinkAuthMode 'How sinks that are called are authenticated: NONE, TLS, MUTUAL_TLS or GOOGLE'
            cand --sinkMeta 'Headers of streams: KEY=VALUE, separated by commas'
            cand --enable-validation 'Serve the webhook that API servers ask about resources'
            cand --validation-port 'Port of the webhook on all interfaces'
            cand --validation-depth 'What is checked of resources of the policy engine: structural, as Istio does, or deep, as `mixer validate` does'
            cand --validation-webhook-config-file 'The webhook configuration that the cluster is to have, YAML; without it, the one that it has is completed'
            cand --enable-reconcileWebhookConfiguration 'Keep the webhook configuration of the cluster as it should be'
            cand --webhook-name 'Name of the webhook configuration'
            cand --deployment-namespace 'Namespace of the deployment and the service of Galley'
            cand --deployment-name 'Name of the deployment'
            cand --service-name 'Name of the service'
            cand --ctrlz_port 'Port of the ControlZ introspection pages; 0 disables them'
            cand --ctrlz_address 'Address of the ControlZ introspection pages; `*` means all interfaces'
            cand --ctrlz_readonly 'Make ControlZ read-only'
            cand --ctrlz_token_file 'File with the bearer token that ControlZ requires'
            cand --ctrlz_allowed_hosts 'Host names that ControlZ accepts besides localhost and IP addresses'
            cand --monitoringPort 'HTTP port of metrics, version and health on all interfaces; texts of errors are for clients on this host'
            cand --monitoring_address 'Address of that port, instead of all interfaces; texts of errors are then for whoever reaches it. Example: 127.0.0.1:15014'
            cand --enableProfiling 'Serve profiles, to clients on this host'
            cand --pprofPort 'HTTP port of profiles'
            cand --metric-per-resource 'Export a metric for every resource'
            cand --livenessProbePath 'Probe file that is updated while the process works'
            cand --livenessProbeInterval 'Maximum age of that file'
            cand --readinessProbePath 'Probe file that is updated while sinks are served'
            cand --readinessProbeInterval 'Maximum age of that file'
            cand --log_target 'Log output: a file, stdout or stderr; may be repeated'
            cand --log_rotate 'Additional rotated log file'
            cand --log_rotate_max_size 'Size at which the log file is rotated, in MiB, or with a unit. Example: 1GiB'
            cand --log_rotate_max_age 'Days to keep rotated log files; 0 means no limit'
            cand --log_rotate_max_backups 'Rotated log files to keep; 0 means all'
            cand --log_as_json 'Write log records as JSON objects'
            cand --log_output_level 'Log levels: `[scope:]level,…` with the levels none, fatal, error, warn, info, debug'
            cand --log_stacktrace_level 'Minimum level of records with a stack trace: `[scope:]level,…`'
            cand --log_caller 'Scopes whose records include the source location'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'galley;help'= {
            cand probe 'Check whether a server is alive or ready'
            cand version 'Print program version and build information'
            cand server 'Starts Galley as a server'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'galley;help;probe'= {
        }
        &'galley;help;version'= {
        }
        &'galley;help;server'= {
        }
        &'galley;help;help'= {
        }
    ]
    $completions[$command]
}
