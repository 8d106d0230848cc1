# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_mixc_global_optspecs
    string join \n h/help
end

function __fish_mixc_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_mixc_global_optspecs) -- $cmd 2>/dev/null
    or return
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

complete -c mixc -n "__fish_mixc_needs_command" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mixc -n "__fish_mixc_needs_command" -f -a "check" -d 'Ask a server, or a configuration, whether a request may pass'
complete -c mixc -n "__fish_mixc_needs_command" -f -a "report" -d 'Report to a server, or to a configuration, what happened'
complete -c mixc -n "__fish_mixc_needs_command" -f -a "version" -d 'Print versions of program and build'
complete -c mixc -n "__fish_mixc_needs_command" -f -a "collateral" -d 'Write documentation and completion files into a directory'
complete -c mixc -n "__fish_mixc_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c mixc -n "__fish_mixc_using_subcommand check" -s m -l mixer -d 'Server to call: host:port, dns:///host:port, unix:///path or unix:path' -r
complete -c mixc -n "__fish_mixc_using_subcommand check" -l config -d 'Configuration to run the call on, in this process, without a server: fs://DIR or embedded://sample' -r
complete -c mixc -n "__fish_mixc_using_subcommand check" -l config-default-namespace -d 'Namespace of mesh-wide rules' -r
complete -c mixc -n "__fish_mixc_using_subcommand check" -s a -l attributes -d 'Attributes whose type is sensed: name1=value1,name2=value2,…' -r
complete -c mixc -n "__fish_mixc_using_subcommand check" -s s -l string_attributes -d 'Text attributes: name1=value1,name2=value2,…' -r
complete -c mixc -n "__fish_mixc_using_subcommand check" -s i -l int64_attributes -d 'Whole number attributes: name1=1,name2=2,…' -r
complete -c mixc -n "__fish_mixc_using_subcommand check" -s d -l double_attributes -d 'Floating point attributes: name1=0.5,name2=1e3,…' -r
complete -c mixc -n "__fish_mixc_using_subcommand check" -s b -l bool_attributes -d 'Truth attributes: name1=true,name2=false,…' -r
complete -c mixc -n "__fish_mixc_using_subcommand check" -s t -l timestamp_attributes -d 'Time attributes: name1=2017-07-04T00:01:10Z,…' -r
complete -c mixc -n "__fish_mixc_using_subcommand check" -l duration_attributes -d 'Duration attributes: name1=250ms,name2=1h30m,…' -r
complete -c mixc -n "__fish_mixc_using_subcommand check" -l bytes_attributes -d 'Bytes attributes, for example addresses: name1=c0:0:0:2,…' -r
complete -c mixc -n "__fish_mixc_using_subcommand check" -l stringmap_attributes -d 'Map attributes: name1=key1:value1;key2:value2,…' -r
complete -c mixc -n "__fish_mixc_using_subcommand check" -l attributes-file -d 'YAML or JSON file with attributes; `@-` reads standard input. Flags win over the file' -r
complete -c mixc -n "__fish_mixc_using_subcommand check" -l dictionary -d 'Which words are sent as indexes of the list that every peer knows' -r -f -a "message\t'None: the message carries all of its words, as the originals send it'
global\t'All that it has'"
complete -c mixc -n "__fish_mixc_using_subcommand check" -s r -l repeat -d 'How often each worker repeats the call; nothing is sent from 0 down' -r
complete -c mixc -n "__fish_mixc_using_subcommand check" -s c -l concurrency -d 'Workers that call at the same time' -r
complete -c mixc -n "__fish_mixc_using_subcommand check" -l rate -d 'Most calls per second, all workers together; no limit from 0 down' -r
complete -c mixc -n "__fish_mixc_using_subcommand check" -l report_batch_size -d 'Attribute sets in one report' -r
complete -c mixc -n "__fish_mixc_using_subcommand check" -l timeout -d 'Limit of one call. Example: 5s' -r
complete -c mixc -n "__fish_mixc_using_subcommand check" -l ca-file -d 'Roots that the server is checked against, PEM; without it those of the system' -r -F
complete -c mixc -n "__fish_mixc_using_subcommand check" -l cert-file -d 'Certificate to show to the server, with its chain, PEM' -r -F
complete -c mixc -n "__fish_mixc_using_subcommand check" -l key-file -d 'Key of that certificate, PEM' -r -F
complete -c mixc -n "__fish_mixc_using_subcommand check" -l server-name -d 'Name that the certificate of the server must carry; without it the host that is called' -r
complete -c mixc -n "__fish_mixc_using_subcommand check" -l print_response -d 'Print the answers; failures are printed anyway by `check`' -r
complete -c mixc -n "__fish_mixc_using_subcommand check" -s o -l output -d 'How answers are written; a table on a terminal, else plain' -r -f -a "table\t'For people'
plain\t'The text of the originals'
json\t'One document'
json-lines\t'One document a line'
yaml\t'One document an answer'"
complete -c mixc -n "__fish_mixc_using_subcommand check" -l trace_zipkin_url -d 'URL of a Zipkin collector. Example: http://zipkin:9411/api/v1/spans' -r
complete -c mixc -n "__fish_mixc_using_subcommand check" -l trace_jaeger_url -d 'URL of a Jaeger collector. Example: http://jaeger:14268/api/traces?format=jaeger.thrift' -r
complete -c mixc -n "__fish_mixc_using_subcommand check" -l trace_otlp_url -d 'URL of an OpenTelemetry collector (OTLP over HTTP). Example: http://collector:4318/v1/traces' -r
complete -c mixc -n "__fish_mixc_using_subcommand check" -l trace_log_spans -d 'Write a log record for every span' -r
complete -c mixc -n "__fish_mixc_using_subcommand check" -l trace_sampling_rate -d 'Share of new traces that are kept, from 0 to 1' -r
complete -c mixc -n "__fish_mixc_using_subcommand check" -s q -l quotas -d 'Quotas to ask for: name1=amount1,name2=amount2,…' -r
complete -c mixc -n "__fish_mixc_using_subcommand check" -l wait-for-ready -d 'Wait for a server that cannot be reached yet, at most --timeout'
complete -c mixc -n "__fish_mixc_using_subcommand check" -l tls -d 'Speak TLS with the server; any other flag of this group means this one as well'
complete -c mixc -n "__fish_mixc_using_subcommand check" -l quiet -d 'No progress bar and no summary'
complete -c mixc -n "__fish_mixc_using_subcommand check" -l exit-zero -d 'End with status 0 whatever the answers are'
complete -c mixc -n "__fish_mixc_using_subcommand check" -l native-exit-codes -d 'End with the statuses of `mixer` when called by the name mixc'
complete -c mixc -n "__fish_mixc_using_subcommand check" -l require-quota -d 'End with status 1 unless every quota is granted in full'
complete -c mixc -n "__fish_mixc_using_subcommand check" -l explain -d 'Tell why: which rules were considered, how far each condition went, near misses, and what every handler said'
complete -c mixc -n "__fish_mixc_using_subcommand check" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mixc -n "__fish_mixc_using_subcommand report" -s m -l mixer -d 'Server to call: host:port, dns:///host:port, unix:///path or unix:path' -r
complete -c mixc -n "__fish_mixc_using_subcommand report" -l config -d 'Configuration to run the call on, in this process, without a server: fs://DIR or embedded://sample' -r
complete -c mixc -n "__fish_mixc_using_subcommand report" -l config-default-namespace -d 'Namespace of mesh-wide rules' -r
complete -c mixc -n "__fish_mixc_using_subcommand report" -s a -l attributes -d 'Attributes whose type is sensed: name1=value1,name2=value2,…' -r
complete -c mixc -n "__fish_mixc_using_subcommand report" -s s -l string_attributes -d 'Text attributes: name1=value1,name2=value2,…' -r
complete -c mixc -n "__fish_mixc_using_subcommand report" -s i -l int64_attributes -d 'Whole number attributes: name1=1,name2=2,…' -r
complete -c mixc -n "__fish_mixc_using_subcommand report" -s d -l double_attributes -d 'Floating point attributes: name1=0.5,name2=1e3,…' -r
complete -c mixc -n "__fish_mixc_using_subcommand report" -s b -l bool_attributes -d 'Truth attributes: name1=true,name2=false,…' -r
complete -c mixc -n "__fish_mixc_using_subcommand report" -s t -l timestamp_attributes -d 'Time attributes: name1=2017-07-04T00:01:10Z,…' -r
complete -c mixc -n "__fish_mixc_using_subcommand report" -l duration_attributes -d 'Duration attributes: name1=250ms,name2=1h30m,…' -r
complete -c mixc -n "__fish_mixc_using_subcommand report" -l bytes_attributes -d 'Bytes attributes, for example addresses: name1=c0:0:0:2,…' -r
complete -c mixc -n "__fish_mixc_using_subcommand report" -l stringmap_attributes -d 'Map attributes: name1=key1:value1;key2:value2,…' -r
complete -c mixc -n "__fish_mixc_using_subcommand report" -l attributes-file -d 'YAML or JSON file with attributes; `@-` reads standard input. Flags win over the file' -r
complete -c mixc -n "__fish_mixc_using_subcommand report" -l dictionary -d 'Which words are sent as indexes of the list that every peer knows' -r -f -a "message\t'None: the message carries all of its words, as the originals send it'
global\t'All that it has'"
complete -c mixc -n "__fish_mixc_using_subcommand report" -s r -l repeat -d 'How often each worker repeats the call; nothing is sent from 0 down' -r
complete -c mixc -n "__fish_mixc_using_subcommand report" -s c -l concurrency -d 'Workers that call at the same time' -r
complete -c mixc -n "__fish_mixc_using_subcommand report" -l rate -d 'Most calls per second, all workers together; no limit from 0 down' -r
complete -c mixc -n "__fish_mixc_using_subcommand report" -l report_batch_size -d 'Attribute sets in one report' -r
complete -c mixc -n "__fish_mixc_using_subcommand report" -l timeout -d 'Limit of one call. Example: 5s' -r
complete -c mixc -n "__fish_mixc_using_subcommand report" -l ca-file -d 'Roots that the server is checked against, PEM; without it those of the system' -r -F
complete -c mixc -n "__fish_mixc_using_subcommand report" -l cert-file -d 'Certificate to show to the server, with its chain, PEM' -r -F
complete -c mixc -n "__fish_mixc_using_subcommand report" -l key-file -d 'Key of that certificate, PEM' -r -F
complete -c mixc -n "__fish_mixc_using_subcommand report" -l server-name -d 'Name that the certificate of the server must carry; without it the host that is called' -r
complete -c mixc -n "__fish_mixc_using_subcommand report" -l print_response -d 'Print the answers; failures are printed anyway by `check`' -r
complete -c mixc -n "__fish_mixc_using_subcommand report" -s o -l output -d 'How answers are written; a table on a terminal, else plain' -r -f -a "table\t'For people'
plain\t'The text of the originals'
json\t'One document'
json-lines\t'One document a line'
yaml\t'One document an answer'"
complete -c mixc -n "__fish_mixc_using_subcommand report" -l trace_zipkin_url -d 'URL of a Zipkin collector. Example: http://zipkin:9411/api/v1/spans' -r
complete -c mixc -n "__fish_mixc_using_subcommand report" -l trace_jaeger_url -d 'URL of a Jaeger collector. Example: http://jaeger:14268/api/traces?format=jaeger.thrift' -r
complete -c mixc -n "__fish_mixc_using_subcommand report" -l trace_otlp_url -d 'URL of an OpenTelemetry collector (OTLP over HTTP). Example: http://collector:4318/v1/traces' -r
complete -c mixc -n "__fish_mixc_using_subcommand report" -l trace_log_spans -d 'Write a log record for every span' -r
complete -c mixc -n "__fish_mixc_using_subcommand report" -l trace_sampling_rate -d 'Share of new traces that are kept, from 0 to 1' -r
complete -c mixc -n "__fish_mixc_using_subcommand report" -l wait-for-ready -d 'Wait for a server that cannot be reached yet, at most --timeout'
complete -c mixc -n "__fish_mixc_using_subcommand report" -l tls -d 'Speak TLS with the server; any other flag of this group means this one as well'
complete -c mixc -n "__fish_mixc_using_subcommand report" -l quiet -d 'No progress bar and no summary'
complete -c mixc -n "__fish_mixc_using_subcommand report" -l exit-zero -d 'End with status 0 whatever the answers are'
complete -c mixc -n "__fish_mixc_using_subcommand report" -l native-exit-codes -d 'End with the statuses of `mixer` when called by the name mixc'
complete -c mixc -n "__fish_mixc_using_subcommand report" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mixc -n "__fish_mixc_using_subcommand version" -s s -l short -d 'Print the version alone' -r
complete -c mixc -n "__fish_mixc_using_subcommand version" -s o -l output -d 'One of \'yaml\' or \'json\'; wins over --short' -r
complete -c mixc -n "__fish_mixc_using_subcommand version" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mixc -n "__fish_mixc_using_subcommand collateral" -s o -l outputDir -d 'Directory that the files are written into' -r -F
complete -c mixc -n "__fish_mixc_using_subcommand collateral" -l all -d 'Write every kind of file'
complete -c mixc -n "__fish_mixc_using_subcommand collateral" -l markdown -d 'Write Markdown pages'
complete -c mixc -n "__fish_mixc_using_subcommand collateral" -l man -d 'Write manual pages'
complete -c mixc -n "__fish_mixc_using_subcommand collateral" -l bash -d 'Write a completion script for bash'
complete -c mixc -n "__fish_mixc_using_subcommand collateral" -l zsh -d 'Write a completion script for zsh'
complete -c mixc -n "__fish_mixc_using_subcommand collateral" -l yaml -d 'Write a description of all commands as YAML'
complete -c mixc -n "__fish_mixc_using_subcommand collateral" -l html_fragment_with_front_matter -d 'Write an HTML page with front matter'
complete -c mixc -n "__fish_mixc_using_subcommand collateral" -s h -l help -d 'Print help'
complete -c mixc -n "__fish_mixc_using_subcommand help; and not __fish_seen_subcommand_from check report version collateral help" -f -a "check" -d 'Ask a server, or a configuration, whether a request may pass'
complete -c mixc -n "__fish_mixc_using_subcommand help; and not __fish_seen_subcommand_from check report version collateral help" -f -a "report" -d 'Report to a server, or to a configuration, what happened'
complete -c mixc -n "__fish_mixc_using_subcommand help; and not __fish_seen_subcommand_from check report version collateral help" -f -a "version" -d 'Print versions of program and build'
complete -c mixc -n "__fish_mixc_using_subcommand help; and not __fish_seen_subcommand_from check report version collateral help" -f -a "collateral" -d 'Write documentation and completion files into a directory'
complete -c mixc -n "__fish_mixc_using_subcommand help; and not __fish_seen_subcommand_from check report version collateral help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
