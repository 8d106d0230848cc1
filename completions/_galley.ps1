
using namespace System.Management.Automation
using namespace System.Management.Automation.Language

Register-ArgumentCompleter -Native -CommandName 'galley' -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)

    $commandElements = $commandAst.CommandElements
    $command = @(
        'galley'
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
        'galley' {
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('probe', 'probe', [CompletionResultType]::ParameterValue, 'Check whether a server is alive or ready')
            [CompletionResult]::new('version', 'version', [CompletionResultType]::ParameterValue, 'Print program version and build information')
            [CompletionResult]::new('server', 'server', [CompletionResultType]::ParameterValue, 'Starts Galley as a server')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'galley;probe' {
            [CompletionResult]::new('--probe-path', '--probe-path', [CompletionResultType]::ParameterName, 'Probe file to check')
            [CompletionResult]::new('--interval', '--interval', [CompletionResultType]::ParameterName, 'Maximum age of the probe file, and interval of --watch')
            [CompletionResult]::new('--grpc', '--grpc', [CompletionResultType]::ParameterName, 'Server whose gRPC health service is called: host:port or unix:///path; may be repeated')
            [CompletionResult]::new('--service', '--service', [CompletionResultType]::ParameterName, 'Service name of the health check: empty or istio.mixer.v1.Mixer for readiness, `liveness` for liveness')
            [CompletionResult]::new('--http', '--http', [CompletionResultType]::ParameterName, 'URL that must return a 2xx status; may be repeated. Example: http://localhost:15014/readyz')
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'Timeout of a gRPC or HTTP request')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('--ca-file', '--ca-file', [CompletionResultType]::ParameterName, 'CA certificates that verify the server, PEM; default: those of the system')
            [CompletionResult]::new('--cert-file', '--cert-file', [CompletionResultType]::ParameterName, 'Client certificate chain, PEM')
            [CompletionResult]::new('--key-file', '--key-file', [CompletionResultType]::ParameterName, 'Private key of the client certificate, PEM')
            [CompletionResult]::new('--server-name', '--server-name', [CompletionResultType]::ParameterName, 'Server name in the server certificate; default: the host of the target')
            [CompletionResult]::new('--log_target', '--log_target', [CompletionResultType]::ParameterName, 'Log output: a file, stdout or stderr; may be repeated')
            [CompletionResult]::new('--log_rotate', '--log_rotate', [CompletionResultType]::ParameterName, 'Additional rotated log file')
            [CompletionResult]::new('--log_rotate_max_size', '--log_rotate_max_size', [CompletionResultType]::ParameterName, 'Size at which the log file is rotated, in MiB, or with a unit. Example: 1GiB')
            [CompletionResult]::new('--log_rotate_max_age', '--log_rotate_max_age', [CompletionResultType]::ParameterName, 'Days to keep rotated log files; 0 means no limit')
            [CompletionResult]::new('--log_rotate_max_backups', '--log_rotate_max_backups', [CompletionResultType]::ParameterName, 'Rotated log files to keep; 0 means all')
            [CompletionResult]::new('--log_as_json', '--log_as_json', [CompletionResultType]::ParameterName, 'Write log records as JSON objects')
            [CompletionResult]::new('--log_output_level', '--log_output_level', [CompletionResultType]::ParameterName, 'Log levels: `[scope:]level,…` with the levels none, fatal, error, warn, info, debug')
            [CompletionResult]::new('--log_stacktrace_level', '--log_stacktrace_level', [CompletionResultType]::ParameterName, 'Minimum level of records with a stack trace: `[scope:]level,…`')
            [CompletionResult]::new('--log_caller', '--log_caller', [CompletionResultType]::ParameterName, 'Scopes whose records include the source location')
            [CompletionResult]::new('--watch', '--watch', [CompletionResultType]::ParameterName, 'Watch the targets and print every change, until SIGINT')
            [CompletionResult]::new('--tls', '--tls', [CompletionResultType]::ParameterName, 'Use TLS; implied by the other flags of this group')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'galley;version' {
            [CompletionResult]::new('-s', '-s', [CompletionResultType]::ParameterName, 'Print the version only')
            [CompletionResult]::new('--short', '--short', [CompletionResultType]::ParameterName, 'Print the version only')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'One of ''yaml'' or ''json''; overrides --short')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'One of ''yaml'' or ''json''; overrides --short')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'galley;server' {
            [CompletionResult]::new('-c', '-c', [CompletionResultType]::ParameterName, 'Configuration file, YAML, JSON or TOML. Precedence: flag, file, default')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'Configuration file, YAML, JSON or TOML. Precedence: flag, file, default')
            [CompletionResult]::new('--configPath', '--configPath', [CompletionResultType]::ParameterName, 'Directory or file of resources; without it, a Kubernetes cluster')
            [CompletionResult]::new('--watchConfigFiles', '--watchConfigFiles', [CompletionResultType]::ParameterName, 'Notice changes of files; otherwise on SIGUSR1 only')
            [CompletionResult]::new('--meshConfigFile', '--meshConfigFile', [CompletionResultType]::ParameterName, 'Mesh configuration, YAML; empty: the defaults')
            [CompletionResult]::new('--kubeconfig', '--kubeconfig', [CompletionResultType]::ParameterName, 'Kubeconfig of the cluster; without it, the one in which this process runs')
            [CompletionResult]::new('--resyncPeriod', '--resyncPeriod', [CompletionResultType]::ParameterName, 'How often all objects are listed again and compared; 0 means never')
            [CompletionResult]::new('--disableResourceReadyCheck', '--disableResourceReadyCheck', [CompletionResultType]::ParameterName, 'Start although the cluster lacks kinds of resources')
            [CompletionResult]::new('--excludedResourceKinds', '--excludedResourceKinds', [CompletionResultType]::ParameterName, 'Kinds that are not read, separated by commas')
            [CompletionResult]::new('--domain', '--domain', [CompletionResultType]::ParameterName, 'Domain of services')
            [CompletionResult]::new('--enableServiceDiscovery', '--enableServiceDiscovery', [CompletionResultType]::ParameterName, 'Make service entries from services, endpoints, pods and nodes')
            [CompletionResult]::new('--enableAnalysis', '--enableAnalysis', [CompletionResultType]::ParameterName, 'Tell in the log what published resources say together, as the analyzers of Istio 1.5: references that lead nowhere, conflicts')
            [CompletionResult]::new('--useOldProcessor', '--useOldProcessor', [CompletionResultType]::ParameterName, 'Versions and collections as of the first processor of Istio Galley; otherwise as of the second')
            [CompletionResult]::new('--istio-pace', '--istio-pace', [CompletionResultType]::ParameterName, 'Wait as long as Istio Galley before a change is published: about a second')
            [CompletionResult]::new('--config-on-error', '--config-on-error', [CompletionResultType]::ParameterName, 'What sinks get while files or objects have errors: keep-last, which they have already, or serve-valid, what is valid, as from Istio Galley. Default: keep-last; called as galley, serve-valid')
            [CompletionResult]::new('--allow-empty-config', '--allow-empty-config', [CompletionResultType]::ParameterName, 'Accept a --config-path without resources, which allows every request, and at a start one with an empty directory below it')
            [CompletionResult]::new('--config-cache', '--config-cache', [CompletionResultType]::ParameterName, 'Directory that keeps the files that were published last for the next start, with --config-path')
            [CompletionResult]::new('--zookeeperAddress', '--zookeeperAddress', [CompletionResultType]::ParameterName, 'ZooKeeper with the registry of Dubbo, whose services become service entries: HOST:PORT, separated by commas, and perhaps /CHROOT at the end')
            [CompletionResult]::new('--zookeeperRoot', '--zookeeperRoot', [CompletionResultType]::ParameterName, 'Node below which services are')
            [CompletionResult]::new('--zookeeperSessionTimeout', '--zookeeperSessionTimeout', [CompletionResultType]::ParameterName, 'Time after which a session without a sign of life ends')
            [CompletionResult]::new('--zookeeperNamespace', '--zookeeperNamespace', [CompletionResultType]::ParameterName, 'Namespace of these service entries')
            [CompletionResult]::new('--zookeeperUser', '--zookeeperUser', [CompletionResultType]::ParameterName, 'User of the scheme digest')
            [CompletionResult]::new('--zookeeperPasswordFile', '--zookeeperPasswordFile', [CompletionResultType]::ParameterName, 'File with his password, which is read for each connection')
            [CompletionResult]::new('--zookeeperCaCertFile', '--zookeeperCaCertFile', [CompletionResultType]::ParameterName, 'Connect to ZooKeeper with TLS, and verify it with the roots in this file, PEM')
            [CompletionResult]::new('--zookeeperCertFile', '--zookeeperCertFile', [CompletionResultType]::ParameterName, 'Client certificate chain for ZooKeeper, PEM')
            [CompletionResult]::new('--zookeeperKeyFile', '--zookeeperKeyFile', [CompletionResultType]::ParameterName, 'Its private key, PEM')
            [CompletionResult]::new('--eurekaAddress', '--eurekaAddress', [CompletionResultType]::ParameterName, 'Eureka servers whose applications become service entries: http://HOST:PORT/eureka, separated by commas')
            [CompletionResult]::new('--eurekaRefresh', '--eurekaRefresh', [CompletionResultType]::ParameterName, 'How often Eureka is asked for changes')
            [CompletionResult]::new('--eurekaTimeout', '--eurekaTimeout', [CompletionResultType]::ParameterName, 'Time limit of a request to Eureka')
            [CompletionResult]::new('--eurekaNamespace', '--eurekaNamespace', [CompletionResultType]::ParameterName, 'Namespace of these service entries')
            [CompletionResult]::new('--eurekaServicePort', '--eurekaServicePort', [CompletionResultType]::ParameterName, 'Port of their services; 0: that of the first instance')
            [CompletionResult]::new('--eurekaUser', '--eurekaUser', [CompletionResultType]::ParameterName, 'User of Eureka, with HTTP basic authentication')
            [CompletionResult]::new('--eurekaPasswordFile', '--eurekaPasswordFile', [CompletionResultType]::ParameterName, 'File with his password, which is read again when it changes')
            [CompletionResult]::new('--eurekaCaCertFile', '--eurekaCaCertFile', [CompletionResultType]::ParameterName, 'Roots of the certificates of Eureka, PEM; empty: those of the system')
            [CompletionResult]::new('--eurekaCertFile', '--eurekaCertFile', [CompletionResultType]::ParameterName, 'Client certificate chain for Eureka, PEM')
            [CompletionResult]::new('--eurekaKeyFile', '--eurekaKeyFile', [CompletionResultType]::ParameterName, 'Its private key, PEM')
            [CompletionResult]::new('--enable-server', '--enable-server', [CompletionResultType]::ParameterName, 'Read configuration and serve it to sinks')
            [CompletionResult]::new('--server-address', '--server-address', [CompletionResultType]::ParameterName, 'Address of sinks: tcp://HOST:PORT or unix:///PATH')
            [CompletionResult]::new('--server-maxReceivedMessageSize', '--server-maxReceivedMessageSize', [CompletionResultType]::ParameterName, 'Most bytes of a message of a sink')
            [CompletionResult]::new('--memory-limit', '--memory-limit', [CompletionResultType]::ParameterName, 'Most memory that all sinks together can make the server keep: connections, streams, requests')
            [CompletionResult]::new('--server-maxConcurrentStreams', '--server-maxConcurrentStreams', [CompletionResultType]::ParameterName, 'Streams of a connection; a sink needs one')
            [CompletionResult]::new('--insecure', '--insecure', [CompletionResultType]::ParameterName, 'Serve plain text to everyone')
            [CompletionResult]::new('--tlsCertFile', '--tlsCertFile', [CompletionResultType]::ParameterName, 'Certificate chain, PEM')
            [CompletionResult]::new('--tlsKeyFile', '--tlsKeyFile', [CompletionResultType]::ParameterName, 'Its private key, PEM')
            [CompletionResult]::new('--caCertFile', '--caCertFile', [CompletionResultType]::ParameterName, 'Roots of the certificates of sinks, PEM')
            [CompletionResult]::new('--accessListFile', '--accessListFile', [CompletionResultType]::ParameterName, 'Identities of sinks that may connect, YAML')
            [CompletionResult]::new('--incremental', '--incremental', [CompletionResultType]::ParameterName, 'Send differences to sinks that ask for them: by default, unless called as galley')
            [CompletionResult]::new('--legacy-mcp', '--legacy-mcp', [CompletionResultType]::ParameterName, 'Serve sinks of Istio 1.0 and 1.1 too, which call AggregatedMeshConfigService')
            [CompletionResult]::new('--sinkAddress', '--sinkAddress', [CompletionResultType]::ParameterName, 'Sink to call, HOST:PORT; may be repeated')
            [CompletionResult]::new('--sinkAuthMode', '--sinkAuthMode', [CompletionResultType]::ParameterName, 'How sinks that are called are authenticated: NONE, TLS, MUTUAL_TLS or GOOGLE')
            [CompletionResult]::new('--sinkMeta', '--sinkMeta', [CompletionResultType]::ParameterName, 'Headers of streams: KEY=VALUE, separated by commas')
            [CompletionResult]::new('--enable-validation', '--enable-validation', [CompletionResultType]::ParameterName, 'Serve the webhook that API servers ask about resources')
            [CompletionResult]::new('--validation-port', '--validation-port', [CompletionResultType]::ParameterName, 'Port of the webhook on all interfaces')
            [CompletionResult]::new('--validation-depth', '--validation-depth', [CompletionResultType]::ParameterName, 'What is checked of resources of the policy engine: structural, as Istio does, or deep, as `mixer validate` does')
            [CompletionResult]::new('--validation-webhook-config-file', '--validation-webhook-config-file', [CompletionResultType]::ParameterName, 'The webhook configuration that the cluster is to have, YAML; without it, the one that it has is completed')
            [CompletionResult]::new('--enable-reconcileWebhookConfiguration', '--enable-reconcileWebhookConfiguration', [CompletionResultType]::ParameterName, 'Keep the webhook configuration of the cluster as it should be')
            [CompletionResult]::new('--webhook-name', '--webhook-name', [CompletionResultType]::ParameterName, 'Name of the webhook configuration')
            [CompletionResult]::new('--deployment-namespace', '--deployment-namespace', [CompletionResultType]::ParameterName, 'Namespace of the deployment and the service of Galley')
            [CompletionResult]::new('--deployment-name', '--deployment-name', [CompletionResultType]::ParameterName, 'Name of the deployment')
            [CompletionResult]::new('--service-name', '--service-name', [CompletionResultType]::ParameterName, 'Name of the service')
            [CompletionResult]::new('--ctrlz_port', '--ctrlz_port', [CompletionResultType]::ParameterName, 'Port of the ControlZ introspection pages; 0 disables them')
            [CompletionResult]::new('--ctrlz_address', '--ctrlz_address', [CompletionResultType]::ParameterName, 'Address of the ControlZ introspection pages; `*` means all interfaces')
            [CompletionResult]::new('--ctrlz_readonly', '--ctrlz_readonly', [CompletionResultType]::ParameterName, 'Make ControlZ read-only')
            [CompletionResult]::new('--ctrlz_token_file', '--ctrlz_token_file', [CompletionResultType]::ParameterName, 'File with the bearer token that ControlZ requires')
            [CompletionResult]::new('--ctrlz_allowed_hosts', '--ctrlz_allowed_hosts', [CompletionResultType]::ParameterName, 'Host names that ControlZ accepts besides localhost and IP addresses')
            [CompletionResult]::new('--monitoringPort', '--monitoringPort', [CompletionResultType]::ParameterName, 'HTTP port of metrics, version and health on all interfaces; texts of errors are for clients on this host')
            [CompletionResult]::new('--monitoring_address', '--monitoring_address', [CompletionResultType]::ParameterName, 'Address of that port, instead of all interfaces; texts of errors are then for whoever reaches it. Example: 127.0.0.1:15014')
            [CompletionResult]::new('--enableProfiling', '--enableProfiling', [CompletionResultType]::ParameterName, 'Serve profiles, to clients on this host')
            [CompletionResult]::new('--pprofPort', '--pprofPort', [CompletionResultType]::ParameterName, 'HTTP port of profiles')
            [CompletionResult]::new('--metric-per-resource', '--metric-per-resource', [CompletionResultType]::ParameterName, 'Export a metric for every resource')
            [CompletionResult]::new('--livenessProbePath', '--livenessProbePath', [CompletionResultType]::ParameterName, 'Probe file that is updated while the process works')
            [CompletionResult]::new('--livenessProbeInterval', '--livenessProbeInterval', [CompletionResultType]::ParameterName, 'Maximum age of that file')
            [CompletionResult]::new('--readinessProbePath', '--readinessProbePath', [CompletionResultType]::ParameterName, 'Probe file that is updated while sinks are served')
            [CompletionResult]::new('--readinessProbeInterval', '--readinessProbeInterval', [CompletionResultType]::ParameterName, 'Maximum age of that file')
            [CompletionResult]::new('--log_target', '--log_target', [CompletionResultType]::ParameterName, 'Log output: a file, stdout or stderr; may be repeated')
            [CompletionResult]::new('--log_rotate', '--log_rotate', [CompletionResultType]::ParameterName, 'Additional rotated log file')
            [CompletionResult]::new('--log_rotate_max_size', '--log_rotate_max_size', [CompletionResultType]::ParameterName, 'Size at which the log file is rotated, in MiB, or with a unit. Example: 1GiB')
            [CompletionResult]::new('--log_rotate_max_age', '--log_rotate_max_age', [CompletionResultType]::ParameterName, 'Days to keep rotated log files; 0 means no limit')
            [CompletionResult]::new('--log_rotate_max_backups', '--log_rotate_max_backups', [CompletionResultType]::ParameterName, 'Rotated log files to keep; 0 means all')
            [CompletionResult]::new('--log_as_json', '--log_as_json', [CompletionResultType]::ParameterName, 'Write log records as JSON objects')
            [CompletionResult]::new('--log_output_level', '--log_output_level', [CompletionResultType]::ParameterName, 'Log levels: `[scope:]level,…` with the levels none, fatal, error, warn, info, debug')
            [CompletionResult]::new('--log_stacktrace_level', '--log_stacktrace_level', [CompletionResultType]::ParameterName, 'Minimum level of records with a stack trace: `[scope:]level,…`')
            [CompletionResult]::new('--log_caller', '--log_caller', [CompletionResultType]::ParameterName, 'Scopes whose records include the source location')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'galley;help' {
            [CompletionResult]::new('probe', 'probe', [CompletionResultType]::ParameterValue, 'Check whether a server is alive or ready')
            [CompletionResult]::new('version', 'version', [CompletionResultType]::ParameterValue, 'Print program version and build information')
            [CompletionResult]::new('server', 'server', [CompletionResultType]::ParameterValue, 'Starts Galley as a server')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'galley;help;probe' {
            break
        }
        'galley;help;version' {
            break
        }
        'galley;help;server' {
            break
        }
        'galley;help;help' {
            break
        }
    })

    $completions.Where{ $_.CompletionText -like "$wordToComplete*" } |
        Sort-Object -Property ListItemText
}
