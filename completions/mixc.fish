# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_mixc_global_optspecs
    string join \n h/help
end

function __fish_mixc_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_mixc_global_optspecs) -- $cmd 2>/dev/null
    or return 0
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_mixc_using_subcommand
    set -l cmd (__fish_mixc_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c mixc -n "__fish_mixc_needs_command" -s h -l help -d 'Print help'
complete -c mixc -n "__fish_mixc_needs_command" -f -a "check" -d 'Check a request against a server or a configuration'
complete -c mixc -n "__fish_mixc_needs_command" -f -a "report" -d 'Report a request to a server or a configuration'
complete -c mixc -n "__fish_mixc_needs_command" -f -a "version" -d 'Print program version and build information'
complete -c mixc -n "__fish_mixc_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c mixc -n "__fish_mixc_using_subcommand check" -s m -l mixer -d 'Server address: host:port, dns:///host:port, unix:///path or unix:path' -r -f -a "(__fish_print_hostnames)"
complete -c mixc -n "__fish_mixc_using_subcommand check" -l config -d 'Configuration to evaluate in this process instead of calling a server: fs://DIR, a path, `-` for standard input, or embedded://sample' -r -F
complete -c mixc -n "__fish_mixc_using_subcommand check" -l config-default-namespace -d 'Namespace of mesh-wide rules' -r -f
complete -c mixc -n "__fish_mixc_using_subcommand check" -s a -l attributes -d 'Attributes, auto-detected type: name1=value1,name2=value2,…' -r -f
complete -c mixc -n "__fish_mixc_using_subcommand check" -s s -l string_attributes -d 'String attributes: name1=value1,name2=value2,…' -r -f
complete -c mixc -n "__fish_mixc_using_subcommand check" -s i -l int64_attributes -d 'Integer attributes: name1=1,name2=2,…' -r -f
complete -c mixc -n "__fish_mixc_using_subcommand check" -s d -l double_attributes -d 'Floating point attributes: name1=0.5,name2=1e3,…' -r -f
complete -c mixc -n "__fish_mixc_using_subcommand check" -s b -l bool_attributes -d 'Boolean attributes: name1=true,name2=false,…' -r -f
complete -c mixc -n "__fish_mixc_using_subcommand check" -s t -l timestamp_attributes -d 'Timestamp attributes: name1=2017-07-04T00:01:10Z,…' -r -f
complete -c mixc -n "__fish_mixc_using_subcommand check" -l duration_attributes -d 'Duration attributes: name1=250ms,name2=1h30m,…' -r -f
complete -c mixc -n "__fish_mixc_using_subcommand check" -l bytes_attributes -d 'Bytes attributes, for example IP addresses: name1=c0:0:0:2,…' -r -f
complete -c mixc -n "__fish_mixc_using_subcommand check" -l ip_attributes -d 'IP addresses: name1=192.0.2.1,name2=2001:db8::1,…' -r -f
complete -c mixc -n "__fish_mixc_using_subcommand check" -l stringmap_attributes -d 'String map attributes: name1=key1:value1;key2:value2,…' -r -f
complete -c mixc -n "__fish_mixc_using_subcommand check" -l attributes-file -d 'YAML or JSON file with attributes; `@-` reads standard input. Flags override the file' -r -F
complete -c mixc -n "__fish_mixc_using_subcommand check" -l dictionary -d 'Whether to encode words with the global dictionary' -r -f -a "message\t'None: the message has its own word list, as Istio mixc sends it'
global\t'All words that the global dictionary contains'"
complete -c mixc -n "__fish_mixc_using_subcommand check" -s r -l repeat -d 'Calls per worker; 0 or less sends nothing' -r -f
complete -c mixc -n "__fish_mixc_using_subcommand check" -s c -l concurrency -d 'Concurrent workers' -r -f
complete -c mixc -n "__fish_mixc_using_subcommand check" -l rate -d 'Maximum calls per second of all workers; 0 or less means no limit' -r -f
complete -c mixc -n "__fish_mixc_using_subcommand check" -l report_batch_size -d 'Attribute sets per report' -r -f
complete -c mixc -n "__fish_mixc_using_subcommand check" -l timeout -d 'Timeout per call. Example: 5s' -r -f
complete -c mixc -n "__fish_mixc_using_subcommand check" -l ca-file -d 'CA certificates that verify the server, PEM; default: those of the system' -r -F
complete -c mixc -n "__fish_mixc_using_subcommand check" -l cert-file -d 'Client certificate chain, PEM' -r -F
complete -c mixc -n "__fish_mixc_using_subcommand check" -l key-file -d 'Private key of the client certificate, PEM' -r -F
complete -c mixc -n "__fish_mixc_using_subcommand check" -l server-name -d 'Server name in the server certificate; default: the host of the target' -r -f
complete -c mixc -n "__fish_mixc_using_subcommand check" -l print_response -d 'Print responses; `check` prints failures even without it' -r -f -a "true\t''
false\t''"
complete -c mixc -n "__fish_mixc_using_subcommand check" -s o -l output -d 'Output format; default: table on a terminal, else plain' -r -f -a "table\t'Tables'
plain\t'The text of Istio mixc'
json\t'One JSON document'
json-lines\t'One JSON document per line'
yaml\t'One YAML document per response'"
complete -c mixc -n "__fish_mixc_using_subcommand check" -l trace_zipkin_url -d 'URL of a Zipkin collector. Example: http://zipkin:9411/api/v1/spans' -r -f
complete -c mixc -n "__fish_mixc_using_subcommand check" -l trace_jaeger_url -d 'URL of a Jaeger collector. Example: http://jaeger:14268/api/traces?format=jaeger.thrift' -r -f
complete -c mixc -n "__fish_mixc_using_subcommand check" -l trace_otlp_url -d 'URL of an OpenTelemetry collector (OTLP over HTTP). Example: http://collector:4318/v1/traces' -r -f
complete -c mixc -n "__fish_mixc_using_subcommand check" -l trace_log_spans -d 'Write a log record for every span' -r -f -a "true\t''
false\t''"
complete -c mixc -n "__fish_mixc_using_subcommand check" -l trace_sampling_rate -d 'Fraction of new traces that are sampled, from 0 to 1' -r -f
complete -c mixc -n "__fish_mixc_using_subcommand check" -s q -l quotas -d 'Quotas to allocate: name1=amount1,name2=amount2,…' -r -f
complete -c mixc -n "__fish_mixc_using_subcommand check" -l explain-page -d 'Page of the rules of --explain: each lists 50 more of those that did not match. Implies --explain' -r -f
complete -c mixc -n "__fish_mixc_using_subcommand check" -l serve-valid -d 'Take --config as a server with --config-on-error serve-valid: without what has an error'
complete -c mixc -n "__fish_mixc_using_subcommand check" -l wait-for-ready -d 'Wait until the server is reachable, at most --timeout'
complete -c mixc -n "__fish_mixc_using_subcommand check" -l tls -d 'Use TLS; implied by the other flags of this group'
complete -c mixc -n "__fish_mixc_using_subcommand check" -l quiet -d 'Print no results, progress bar, summary or warnings: the exit status tells the result, and failed calls are told on standard error. Results are printed all the same with --output'
complete -c mixc -n "__fish_mixc_using_subcommand check" -l exit-zero -d 'Exit with status 0 regardless of the results'
complete -c mixc -n "__fish_mixc_using_subcommand check" -l native-exit-codes -d 'Use the exit statuses of `mixer` when called as mixc'
complete -c mixc -n "__fish_mixc_using_subcommand check" -l require-quota -d 'Exit with status 1 unless every quota is granted in full'
complete -c mixc -n "__fish_mixc_using_subcommand check" -l explain -d 'Explain the result: rules considered, value of each condition, near misses, results of handlers'
complete -c mixc -n "__fish_mixc_using_subcommand check" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mixc -n "__fish_mixc_using_subcommand report" -s m -l mixer -d 'Server address: host:port, dns:///host:port, unix:///path or unix:path' -r -f -a "(__fish_print_hostnames)"
complete -c mixc -n "__fish_mixc_using_subcommand report" -l config -d 'Configuration to evaluate in this process instead of calling a server: fs://DIR, a path, `-` for standard input, or embedded://sample' -r -F
complete -c mixc -n "__fish_mixc_using_subcommand report" -l config-default-namespace -d 'Namespace of mesh-wide rules' -r -f
complete -c mixc -n "__fish_mixc_using_subcommand report" -s a -l attributes -d 'Attributes, auto-detected type: name1=value1,name2=value2,…' -r -f
complete -c mixc -n "__fish_mixc_using_subcommand report" -s s -l string_attributes -d 'String attributes: name1=value1,name2=value2,…' -r -f
complete -c mixc -n "__fish_mixc_using_subcommand report" -s i -l int64_attributes -d 'Integer attributes: name1=1,name2=2,…' -r -f
complete -c mixc -n "__fish_mixc_using_subcommand report" -s d -l double_attributes -d 'Floating point attributes: name1=0.5,name2=1e3,…' -r -f
complete -c mixc -n "__fish_mixc_using_subcommand report" -s b -l bool_attributes -d 'Boolean attributes: name1=true,name2=false,…' -r -f
complete -c mixc -n "__fish_mixc_using_subcommand report" -s t -l timestamp_attributes -d 'Timestamp attributes: name1=2017-07-04T00:01:10Z,…' -r -f
complete -c mixc -n "__fish_mixc_using_subcommand report" -l duration_attributes -d 'Duration attributes: name1=250ms,name2=1h30m,…' -r -f
complete -c mixc -n "__fish_mixc_using_subcommand report" -l bytes_attributes -d 'Bytes attributes, for example IP addresses: name1=c0:0:0:2,…' -r -f
complete -c mixc -n "__fish_mixc_using_subcommand report" -l ip_attributes -d 'IP addresses: name1=192.0.2.1,name2=2001:db8::1,…' -r -f
complete -c mixc -n "__fish_mixc_using_subcommand report" -l stringmap_attributes -d 'String map attributes: name1=key1:value1;key2:value2,…' -r -f
complete -c mixc -n "__fish_mixc_using_subcommand report" -l attributes-file -d 'YAML or JSON file with attributes; `@-` reads standard input. Flags override the file' -r -F
complete -c mixc -n "__fish_mixc_using_subcommand report" -l dictionary -d 'Whether to encode words with the global dictionary' -r -f -a "message\t'None: the message has its own word list, as Istio mixc sends it'
global\t'All words that the global dictionary contains'"
complete -c mixc -n "__fish_mixc_using_subcommand report" -s r -l repeat -d 'Calls per worker; 0 or less sends nothing' -r -f
complete -c mixc -n "__fish_mixc_using_subcommand report" -s c -l concurrency -d 'Concurrent workers' -r -f
complete -c mixc -n "__fish_mixc_using_subcommand report" -l rate -d 'Maximum calls per second of all workers; 0 or less means no limit' -r -f
complete -c mixc -n "__fish_mixc_using_subcommand report" -l report_batch_size -d 'Attribute sets per report' -r -f
complete -c mixc -n "__fish_mixc_using_subcommand report" -l timeout -d 'Timeout per call. Example: 5s' -r -f
complete -c mixc -n "__fish_mixc_using_subcommand report" -l ca-file -d 'CA certificates that verify the server, PEM; default: those of the system' -r -F
complete -c mixc -n "__fish_mixc_using_subcommand report" -l cert-file -d 'Client certificate chain, PEM' -r -F
complete -c mixc -n "__fish_mixc_using_subcommand report" -l key-file -d 'Private key of the client certificate, PEM' -r -F
complete -c mixc -n "__fish_mixc_using_subcommand report" -l server-name -d 'Server name in the server certificate; default: the host of the target' -r -f
complete -c mixc -n "__fish_mixc_using_subcommand report" -l print_response -d 'Print responses; `check` prints failures even without it' -r -f -a "true\t''
false\t''"
complete -c mixc -n "__fish_mixc_using_subcommand report" -s o -l output -d 'Output format; default: table on a terminal, else plain' -r -f -a "table\t'Tables'
plain\t'The text of Istio mixc'
json\t'One JSON document'
json-lines\t'One JSON document per line'
yaml\t'One YAML document per response'"
complete -c mixc -n "__fish_mixc_using_subcommand report" -l trace_zipkin_url -d 'URL of a Zipkin collector. Example: http://zipkin:9411/api/v1/spans' -r -f
complete -c mixc -n "__fish_mixc_using_subcommand report" -l trace_jaeger_url -d 'URL of a Jaeger collector. Example: http://jaeger:14268/api/traces?format=jaeger.thrift' -r -f
complete -c mixc -n "__fish_mixc_using_subcommand report" -l trace_otlp_url -d 'URL of an OpenTelemetry collector (OTLP over HTTP). Example: http://collector:4318/v1/traces' -r -f
complete -c mixc -n "__fish_mixc_using_subcommand report" -l trace_log_spans -d 'Write a log record for every span' -r -f -a "true\t''
false\t''"
complete -c mixc -n "__fish_mixc_using_subcommand report" -l trace_sampling_rate -d 'Fraction of new traces that are sampled, from 0 to 1' -r -f
complete -c mixc -n "__fish_mixc_using_subcommand report" -l serve-valid -d 'Take --config as a server with --config-on-error serve-valid: without what has an error'
complete -c mixc -n "__fish_mixc_using_subcommand report" -l wait-for-ready -d 'Wait until the server is reachable, at most --timeout'
complete -c mixc -n "__fish_mixc_using_subcommand report" -l tls -d 'Use TLS; implied by the other flags of this group'
complete -c mixc -n "__fish_mixc_using_subcommand report" -l quiet -d 'Print no results, progress bar, summary or warnings: the exit status tells the result, and failed calls are told on standard error. Results are printed all the same with --output'
complete -c mixc -n "__fish_mixc_using_subcommand report" -l exit-zero -d 'Exit with status 0 regardless of the results'
complete -c mixc -n "__fish_mixc_using_subcommand report" -l native-exit-codes -d 'Use the exit statuses of `mixer` when called as mixc'
complete -c mixc -n "__fish_mixc_using_subcommand report" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mixc -n "__fish_mixc_using_subcommand version" -s s -l short -d 'Print the version only' -r -f -a "true\t''
false\t''"
complete -c mixc -n "__fish_mixc_using_subcommand version" -s o -l output -d 'One of \'yaml\' or \'json\'; overrides --short' -r -f
complete -c mixc -n "__fish_mixc_using_subcommand version" -s h -l help -d 'Print help'
complete -c mixc -n "__fish_mixc_using_subcommand help; and not __fish_seen_subcommand_from check report version help" -f -a "check" -d 'Check a request against a server or a configuration'
complete -c mixc -n "__fish_mixc_using_subcommand help; and not __fish_seen_subcommand_from check report version help" -f -a "report" -d 'Report a request to a server or a configuration'
complete -c mixc -n "__fish_mixc_using_subcommand help; and not __fish_seen_subcommand_from check report version help" -f -a "version" -d 'Print program version and build information'
complete -c mixc -n "__fish_mixc_using_subcommand help; and not __fish_seen_subcommand_from check report version help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
