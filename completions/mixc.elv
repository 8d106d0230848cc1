
use builtin;
use str;

set edit:completion:arg-completer[mixc] = {|@words|
    fn spaces {|n|
        builtin:repeat $n ' ' | str:join ''
    }
    fn cand {|text desc|
        edit:complex-candidate $text &display=$text' '(spaces (- 14 (wcswidth $text)))$desc
    }
    var command = 'mixc'
    for word $words[1..-1] {
        if (str:has-prefix $word '-') {
            break
        }
        set command = $command';'$word
    }
    var completions = [
        &'mixc'= {
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
            cand check 'Ask a server, or a configuration, whether a request may pass'
            cand report 'Report to a server, or to a configuration, what happened'
            cand version 'Print versions of program and build'
            cand collateral 'Write documentation and completion files into a directory'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'mixc;check'= {
            cand -m 'Server to call: host:port, dns:///host:port, unix:///path or unix:path'
            cand --mixer 'Server to call: host:port, dns:///host:port, unix:///path or unix:path'
            cand --config 'Configuration to run the call on, in this process, without a server: fs://DIR or embedded://sample'
            cand --config-default-namespace 'Namespace of mesh-wide rules'
            cand -a 'Attributes whose type is sensed: name1=value1,name2=value2,…'
            cand --attributes 'Attributes whose type is sensed: name1=value1,name2=value2,…'
            cand -s 'Text attributes: name1=value1,name2=value2,…'
            cand --string_attributes 'Text attributes: name1=value1,name2=value2,…'
            cand -i 'Whole number attributes: name1=1,name2=2,…'
            cand --int64_attributes 'Whole number attributes: name1=1,name2=2,…'
            cand -d 'Floating point attributes: name1=0.5,name2=1e3,…'
            cand --double_attributes 'Floating point attributes: name1=0.5,name2=1e3,…'
            cand -b 'Truth attributes: name1=true,name2=false,…'
            cand --bool_attributes 'Truth attributes: name1=true,name2=false,…'
            cand -t 'Time attributes: name1=2017-07-04T00:01:10Z,…'
            cand --timestamp_attributes 'Time attributes: name1=2017-07-04T00:01:10Z,…'
            cand --duration_attributes 'Duration attributes: name1=250ms,name2=1h30m,…'
            cand --bytes_attributes 'Bytes attributes, for example addresses: name1=c0:0:0:2,…'
            cand --stringmap_attributes 'Map attributes: name1=key1:value1;key2:value2,…'
            cand --attributes-file 'YAML or JSON file with attributes; `@-` reads standard input. Flags win over the file'
            cand --dictionary 'Which words are sent as indexes of the list that every peer knows'
            cand -r 'How often each worker repeats the call; nothing is sent from 0 down'
            cand --repeat 'How often each worker repeats the call; nothing is sent from 0 down'
            cand -c 'Workers that call at the same time'
            cand --concurrency 'Workers that call at the same time'
            cand --rate 'Most calls per second, all workers together; no limit from 0 down'
            cand --report_batch_size 'Attribute sets in one report'
            cand --timeout 'Limit of one call. Example: 5s'
            cand --ca-file 'Roots that the server is checked against, PEM; without it those of the system'
            cand --cert-file 'Certificate to show to the server, with its chain, PEM'
            cand --key-file 'Key of that certificate, PEM'
            cand --server-name 'Name that the certificate of the server must carry; without it the host that is called'
            cand --print_response 'Print the answers; failures are printed anyway by `check`'
            cand -o 'How answers are written; a table on a terminal, else plain'
            cand --output 'How answers are written; a table on a terminal, else plain'
            cand --trace_zipkin_url 'URL of a Zipkin collector. Example: http://zipkin:9411/api/v1/spans'
            cand --trace_jaeger_url 'URL of a Jaeger collector. Example: http://jaeger:14268/api/traces?format=jaeger.thrift'
            cand --trace_otlp_url 'URL of an OpenTelemetry collector (OTLP over HTTP). Example: http://collector:4318/v1/traces'
            cand --trace_log_spans 'Write a log record for every span'
            cand --trace_sampling_rate 'Share of new traces that are kept, from 0 to 1'
            cand -q 'Quotas to ask for: name1=amount1,name2=amount2,…'
            cand --quotas 'Quotas to ask for: name1=amount1,name2=amount2,…'
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
        &'mixc;report'= {
            cand -m 'Server to call: host:port, dns:///host:port, unix:///path or unix:path'
            cand --mixer 'Server to call: host:port, dns:///host:port, unix:///path or unix:path'
            cand --config 'Configuration to run the call on, in this process, without a server: fs://DIR or embedded://sample'
            cand --config-default-namespace 'Namespace of mesh-wide rules'
            cand -a 'Attributes whose type is sensed: name1=value1,name2=value2,…'
            cand --attributes 'Attributes whose type is sensed: name1=value1,name2=value2,…'
            cand -s 'Text attributes: name1=value1,name2=value2,…'
            cand --string_attributes 'Text attributes: name1=value1,name2=value2,…'
            cand -i 'Whole number attributes: name1=1,name2=2,…'
            cand --int64_attributes 'Whole number attributes: name1=1,name2=2,…'
            cand -d 'Floating point attributes: name1=0.5,name2=1e3,…'
            cand --double_attributes 'Floating point attributes: name1=0.5,name2=1e3,…'
            cand -b 'Truth attributes: name1=true,name2=false,…'
            cand --bool_attributes 'Truth attributes: name1=true,name2=false,…'
            cand -t 'Time attributes: name1=2017-07-04T00:01:10Z,…'
            cand --timestamp_attributes 'Time attributes: name1=2017-07-04T00:01:10Z,…'
            cand --duration_attributes 'Duration attributes: name1=250ms,name2=1h30m,…'
            cand --bytes_attributes 'Bytes attributes, for example addresses: name1=c0:0:0:2,…'
            cand --stringmap_attributes 'Map attributes: name1=key1:value1;key2:value2,…'
            cand --attributes-file 'YAML or JSON file with attributes; `@-` reads standard input. Flags win over the file'
            cand --dictionary 'Which words are sent as indexes of the list that every peer knows'
            cand -r 'How often each worker repeats the call; nothing is sent from 0 down'
            cand --repeat 'How often each worker repeats the call; nothing is sent from 0 down'
            cand -c 'Workers that call at the same time'
            cand --concurrency 'Workers that call at the same time'
            cand --rate 'Most calls per second, all workers together; no limit from 0 down'
            cand --report_batch_size 'Attribute sets in one report'
            cand --timeout 'Limit of one call. Example: 5s'
            cand --ca-file 'Roots that the server is checked against, PEM; without it those of the system'
            cand --cert-file 'Certificate to show to the server, with its chain, PEM'
            cand --key-file 'Key of that certificate, PEM'
            cand --server-name 'Name that the certificate of the server must carry; without it the host that is called'
            cand --print_response 'Print the answers; failures are printed anyway by `check`'
            cand -o 'How answers are written; a table on a terminal, else plain'
            cand --output 'How answers are written; a table on a terminal, else plain'
            cand --trace_zipkin_url 'URL of a Zipkin collector. Example: http://zipkin:9411/api/v1/spans'
            cand --trace_jaeger_url 'URL of a Jaeger collector. Example: http://jaeger:14268/api/traces?format=jaeger.thrift'
            cand --trace_otlp_url 'URL of an OpenTelemetry collector (OTLP over HTTP). Example: http://collector:4318/v1/traces'
            cand --trace_log_spans 'Write a log record for every span'
            cand --trace_sampling_rate 'Share of new traces that are kept, from 0 to 1'
            cand --wait-for-ready 'Wait for a server that cannot be reached yet, at most --timeout'
            cand --tls 'Speak TLS with the server; any other flag of this group means this one as well'
            cand --quiet 'No progress bar and no summary'
            cand --exit-zero 'End with status 0 whatever the answers are'
            cand --native-exit-codes 'End with the statuses of `mixer` when called by the name mixc'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mixc;version'= {
            cand -s 'Print the version alone'
            cand --short 'Print the version alone'
            cand -o 'One of ''yaml'' or ''json''; wins over --short'
            cand --output 'One of ''yaml'' or ''json''; wins over --short'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mixc;collateral'= {
            cand -o 'Directory that the files are written into'
            cand --outputDir 'Directory that the files are written into'
            cand --all 'Write every kind of file'
            cand --markdown 'Write Markdown pages'
            cand --man 'Write manual pages'
            cand --bash 'Write a completion script for bash'
            cand --zsh 'Write a completion script for zsh'
            cand --yaml 'Write a description of all commands as YAML'
            cand --html_fragment_with_front_matter 'Write an HTML page with front matter'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'mixc;help'= {
            cand check 'Ask a server, or a configuration, whether a request may pass'
            cand report 'Report to a server, or to a configuration, what happened'
            cand version 'Print versions of program and build'
            cand collateral 'Write documentation and completion files into a directory'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'mixc;help;check'= {
        }
        &'mixc;help;report'= {
        }
        &'mixc;help;version'= {
        }
        &'mixc;help;collateral'= {
        }
        &'mixc;help;help'= {
        }
    ]
    $completions[$command]
}
