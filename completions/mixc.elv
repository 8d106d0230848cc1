
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
            cand -h 'Print help'
            cand --help 'Print help'
            cand check 'Check a request against a server or a configuration'
            cand report 'Report a request to a server or a configuration'
            cand version 'Print program version and build information'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'mixc;check'= {
            cand -m 'Server address: host:port, dns:///host:port, unix:///path or unix:path'
            cand --mixer 'Server address: host:port, dns:///host:port, unix:///path or unix:path'
            cand --config 'Configuration to evaluate in this process instead of calling a server: fs://DIR, a path, `-` for standard input, or embedded://sample'
            cand --config-default-namespace 'Namespace of mesh-wide rules'
            cand -a 'Attributes, auto-detected type: name1=value1,name2=value2,…'
            cand --attributes 'Attributes, auto-detected type: name1=value1,name2=value2,…'
            cand -s 'String attributes: name1=value1,name2=value2,…'
            cand --string_attributes 'String attributes: name1=value1,name2=value2,…'
            cand -i 'Integer attributes: name1=1,name2=2,…'
            cand --int64_attributes 'Integer attributes: name1=1,name2=2,…'
            cand -d 'Floating point attributes: name1=0.5,name2=1e3,…'
            cand --double_attributes 'Floating point attributes: name1=0.5,name2=1e3,…'
            cand -b 'Boolean attributes: name1=true,name2=false,…'
            cand --bool_attributes 'Boolean attributes: name1=true,name2=false,…'
            cand -t 'Timestamp attributes: name1=2017-07-04T00:01:10Z,…'
            cand --timestamp_attributes 'Timestamp attributes: name1=2017-07-04T00:01:10Z,…'
            cand --duration_attributes 'Duration attributes: name1=250ms,name2=1h30m,…'
            cand --bytes_attributes 'Bytes attributes, for example IP addresses: name1=c0:0:0:2,…'
            cand --ip_attributes 'IP addresses: name1=192.0.2.1,name2=2001:db8::1,…'
            cand --stringmap_attributes 'String map attributes: name1=key1:value1;key2:value2,…'
            cand --attributes-file 'YAML or JSON file with attributes; `@-` reads standard input. Flags override the file'
            cand --dictionary 'Whether to encode words with the global dictionary'
            cand -r 'Calls per worker; 0 or less sends nothing'
            cand --repeat 'Calls per worker; 0 or less sends nothing'
            cand -c 'Concurrent workers'
            cand --concurrency 'Concurrent workers'
            cand --rate 'Maximum calls per second of all workers; 0 or less means no limit'
            cand --report_batch_size 'Attribute sets per report'
            cand --timeout 'Timeout per call. Example: 5s'
            cand --ca-file 'CA certificates that verify the server, PEM; default: those of the system'
            cand --cert-file 'Client certificate chain, PEM'
            cand --key-file 'Private key of the client certificate, PEM'
            cand --server-name 'Server name in the server certificate; default: the host of the target'
            cand --print_response 'Print responses; `check` prints failures even without it'
            cand -o 'Output format; default: table on a terminal, else plain'
            cand --output 'Output format; default: table on a terminal, else plain'
            cand --trace_zipkin_url 'URL of a Zipkin collector. Example: http://zipkin:9411/api/v1/spans'
            cand --trace_jaeger_url 'URL of a Jaeger collector. Example: http://jaeger:14268/api/traces?format=jaeger.thrift'
            cand --trace_otlp_url 'URL of an OpenTelemetry collector (OTLP over HTTP). Example: http://collector:4318/v1/traces'
            cand --trace_log_spans 'Write a log record for every span'
            cand --trace_sampling_rate 'Fraction of new traces that are sampled, from 0 to 1'
            cand -q 'Quotas to allocate: name1=amount1,name2=amount2,…'
            cand --quotas 'Quotas to allocate: name1=amount1,name2=amount2,…'
            cand --explain-page 'Page of the rules of --explain: each lists 50 more of those that did not match. Implies --explain'
            cand --serve-valid 'Take --config as a server with --config-on-error serve-valid: without what has an error'
            cand --wait-for-ready 'Wait until the server is reachable, at most --timeout'
            cand --tls 'Use TLS; implied by the other flags of this group'
            cand --quiet 'Print no results, progress bar, summary or warnings: the exit status tells the result, and failed calls are told on standard error. Results are printed all the same with --output'
            cand --exit-zero 'Exit with status 0 regardless of the results'
            cand --native-exit-codes 'Use the exit statuses of `mixer` when called as mixc'
            cand --require-quota 'Exit with status 1 unless every quota is granted in full'
            cand --explain 'Explain the result: rules considered, value of each condition, near misses, results of handlers'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mixc;report'= {
            cand -m 'Server address: host:port, dns:///host:port, unix:///path or unix:path'
            cand --mixer 'Server address: host:port, dns:///host:port, unix:///path or unix:path'
            cand --config 'Configuration to evaluate in this process instead of calling a server: fs://DIR, a path, `-` for standard input, or embedded://sample'
            cand --config-default-namespace 'Namespace of mesh-wide rules'
            cand -a 'Attributes, auto-detected type: name1=value1,name2=value2,…'
            cand --attributes 'Attributes, auto-detected type: name1=value1,name2=value2,…'
            cand -s 'String attributes: name1=value1,name2=value2,…'
            cand --string_attributes 'String attributes: name1=value1,name2=value2,…'
            cand -i 'Integer attributes: name1=1,name2=2,…'
            cand --int64_attributes 'Integer attributes: name1=1,name2=2,…'
            cand -d 'Floating point attributes: name1=0.5,name2=1e3,…'
            cand --double_attributes 'Floating point attributes: name1=0.5,name2=1e3,…'
            cand -b 'Boolean attributes: name1=true,name2=false,…'
            cand --bool_attributes 'Boolean attributes: name1=true,name2=false,…'
            cand -t 'Timestamp attributes: name1=2017-07-04T00:01:10Z,…'
            cand --timestamp_attributes 'Timestamp attributes: name1=2017-07-04T00:01:10Z,…'
            cand --duration_attributes 'Duration attributes: name1=250ms,name2=1h30m,…'
            cand --bytes_attributes 'Bytes attributes, for example IP addresses: name1=c0:0:0:2,…'
            cand --ip_attributes 'IP addresses: name1=192.0.2.1,name2=2001:db8::1,…'
            cand --stringmap_attributes 'String map attributes: name1=key1:value1;key2:value2,…'
            cand --attributes-file 'YAML or JSON file with attributes; `@-` reads standard input. Flags override the file'
            cand --dictionary 'Whether to encode words with the global dictionary'
            cand -r 'Calls per worker; 0 or less sends nothing'
            cand --repeat 'Calls per worker; 0 or less sends nothing'
            cand -c 'Concurrent workers'
            cand --concurrency 'Concurrent workers'
            cand --rate 'Maximum calls per second of all workers; 0 or less means no limit'
            cand --report_batch_size 'Attribute sets per report'
            cand --timeout 'Timeout per call. Example: 5s'
            cand --ca-file 'CA certificates that verify the server, PEM; default: those of the system'
            cand --cert-file 'Client certificate chain, PEM'
            cand --key-file 'Private key of the client certificate, PEM'
            cand --server-name 'Server name in the server certificate; default: the host of the target'
            cand --print_response 'Print responses; `check` prints failures even without it'
            cand -o 'Output format; default: table on a terminal, else plain'
            cand --output 'Output format; default: table on a terminal, else plain'
            cand --trace_zipkin_url 'URL of a Zipkin collector. Example: http://zipkin:9411/api/v1/spans'
            cand --trace_jaeger_url 'URL of a Jaeger collector. Example: http://jaeger:14268/api/traces?format=jaeger.thrift'
            cand --trace_otlp_url 'URL of an OpenTelemetry collector (OTLP over HTTP). Example: http://collector:4318/v1/traces'
            cand --trace_log_spans 'Write a log record for every span'
            cand --trace_sampling_rate 'Fraction of new traces that are sampled, from 0 to 1'
            cand --serve-valid 'Take --config as a server with --config-on-error serve-valid: without what has an error'
            cand --wait-for-ready 'Wait until the server is reachable, at most --timeout'
            cand --tls 'Use TLS; implied by the other flags of this group'
            cand --quiet 'Print no results, progress bar, summary or warnings: the exit status tells the result, and failed calls are told on standard error. Results are printed all the same with --output'
            cand --exit-zero 'Exit with status 0 regardless of the results'
            cand --native-exit-codes 'Use the exit statuses of `mixer` when called as mixc'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mixc;version'= {
            cand -s 'Print the version only'
            cand --short 'Print the version only'
            cand -o 'One of ''yaml'' or ''json''; overrides --short'
            cand --output 'One of ''yaml'' or ''json''; overrides --short'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'mixc;help'= {
            cand check 'Check a request against a server or a configuration'
            cand report 'Report a request to a server or a configuration'
            cand version 'Print program version and build information'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'mixc;help;check'= {
        }
        &'mixc;help;report'= {
        }
        &'mixc;help;version'= {
        }
        &'mixc;help;help'= {
        }
    ]
    $completions[$command]
}
