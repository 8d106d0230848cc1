
using namespace System.Management.Automation
using namespace System.Management.Automation.Language

Register-ArgumentCompleter -Native -CommandName 'mixc' -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)

    $commandElements = $commandAst.CommandElements
    $command = @(
        'mixc'
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
        'mixc' {
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('check', 'check', [CompletionResultType]::ParameterValue, 'Check a request against a server or a configuration')
            [CompletionResult]::new('report', 'report', [CompletionResultType]::ParameterValue, 'Report a request to a server or a configuration')
            [CompletionResult]::new('version', 'version', [CompletionResultType]::ParameterValue, 'Print program version and build information')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'mixc;check' {
            [CompletionResult]::new('-m', '-m', [CompletionResultType]::ParameterName, 'Server address: host:port, dns:///host:port, unix:///path or unix:path')
            [CompletionResult]::new('--mixer', '--mixer', [CompletionResultType]::ParameterName, 'Server address: host:port, dns:///host:port, unix:///path or unix:path')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'Configuration to evaluate in this process instead of calling a server: fs://DIR, a path, `-` for standard input, or embedded://sample')
            [CompletionResult]::new('--config-default-namespace', '--config-default-namespace', [CompletionResultType]::ParameterName, 'Namespace of mesh-wide rules')
            [CompletionResult]::new('-a', '-a', [CompletionResultType]::ParameterName, 'Attributes, auto-detected type: name1=value1,name2=value2,…')
            [CompletionResult]::new('--attributes', '--attributes', [CompletionResultType]::ParameterName, 'Attributes, auto-detected type: name1=value1,name2=value2,…')
            [CompletionResult]::new('-s', '-s', [CompletionResultType]::ParameterName, 'String attributes: name1=value1,name2=value2,…')
            [CompletionResult]::new('--string_attributes', '--string_attributes', [CompletionResultType]::ParameterName, 'String attributes: name1=value1,name2=value2,…')
            [CompletionResult]::new('-i', '-i', [CompletionResultType]::ParameterName, 'Integer attributes: name1=1,name2=2,…')
            [CompletionResult]::new('--int64_attributes', '--int64_attributes', [CompletionResultType]::ParameterName, 'Integer attributes: name1=1,name2=2,…')
            [CompletionResult]::new('-d', '-d', [CompletionResultType]::ParameterName, 'Floating point attributes: name1=0.5,name2=1e3,…')
            [CompletionResult]::new('--double_attributes', '--double_attributes', [CompletionResultType]::ParameterName, 'Floating point attributes: name1=0.5,name2=1e3,…')
            [CompletionResult]::new('-b', '-b', [CompletionResultType]::ParameterName, 'Boolean attributes: name1=true,name2=false,…')
            [CompletionResult]::new('--bool_attributes', '--bool_attributes', [CompletionResultType]::ParameterName, 'Boolean attributes: name1=true,name2=false,…')
            [CompletionResult]::new('-t', '-t', [CompletionResultType]::ParameterName, 'Timestamp attributes: name1=2017-07-04T00:01:10Z,…')
            [CompletionResult]::new('--timestamp_attributes', '--timestamp_attributes', [CompletionResultType]::ParameterName, 'Timestamp attributes: name1=2017-07-04T00:01:10Z,…')
            [CompletionResult]::new('--duration_attributes', '--duration_attributes', [CompletionResultType]::ParameterName, 'Duration attributes: name1=250ms,name2=1h30m,…')
            [CompletionResult]::new('--bytes_attributes', '--bytes_attributes', [CompletionResultType]::ParameterName, 'Bytes attributes, for example IP addresses: name1=c0:0:0:2,…')
            [CompletionResult]::new('--ip_attributes', '--ip_attributes', [CompletionResultType]::ParameterName, 'IP addresses: name1=192.0.2.1,name2=2001:db8::1,…')
            [CompletionResult]::new('--stringmap_attributes', '--stringmap_attributes', [CompletionResultType]::ParameterName, 'String map attributes: name1=key1:value1;key2:value2,…')
            [CompletionResult]::new('--attributes-file', '--attributes-file', [CompletionResultType]::ParameterName, 'YAML or JSON file with attributes; `@-` reads standard input. Flags override the file')
            [CompletionResult]::new('--dictionary', '--dictionary', [CompletionResultType]::ParameterName, 'Whether to encode words with the global dictionary')
            [CompletionResult]::new('-r', '-r', [CompletionResultType]::ParameterName, 'Calls per worker; 0 or less sends nothing')
            [CompletionResult]::new('--repeat', '--repeat', [CompletionResultType]::ParameterName, 'Calls per worker; 0 or less sends nothing')
            [CompletionResult]::new('-c', '-c', [CompletionResultType]::ParameterName, 'Concurrent workers')
            [CompletionResult]::new('--concurrency', '--concurrency', [CompletionResultType]::ParameterName, 'Concurrent workers')
            [CompletionResult]::new('--rate', '--rate', [CompletionResultType]::ParameterName, 'Maximum calls per second of all workers; 0 or less means no limit')
            [CompletionResult]::new('--report_batch_size', '--report_batch_size', [CompletionResultType]::ParameterName, 'Attribute sets per report')
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'Timeout per call. Example: 5s')
            [CompletionResult]::new('--ca-file', '--ca-file', [CompletionResultType]::ParameterName, 'CA certificates that verify the server, PEM; default: those of the system')
            [CompletionResult]::new('--cert-file', '--cert-file', [CompletionResultType]::ParameterName, 'Client certificate chain, PEM')
            [CompletionResult]::new('--key-file', '--key-file', [CompletionResultType]::ParameterName, 'Private key of the client certificate, PEM')
            [CompletionResult]::new('--server-name', '--server-name', [CompletionResultType]::ParameterName, 'Server name in the server certificate; default: the host of the target')
            [CompletionResult]::new('--print_response', '--print_response', [CompletionResultType]::ParameterName, 'Print responses; `check` prints failures even without it')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Output format; default: table on a terminal, else plain')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Output format; default: table on a terminal, else plain')
            [CompletionResult]::new('--trace_zipkin_url', '--trace_zipkin_url', [CompletionResultType]::ParameterName, 'URL of a Zipkin collector. Example: http://zipkin:9411/api/v1/spans')
            [CompletionResult]::new('--trace_jaeger_url', '--trace_jaeger_url', [CompletionResultType]::ParameterName, 'URL of a Jaeger collector. Example: http://jaeger:14268/api/traces?format=jaeger.thrift')
            [CompletionResult]::new('--trace_otlp_url', '--trace_otlp_url', [CompletionResultType]::ParameterName, 'URL of an OpenTelemetry collector (OTLP over HTTP). Example: http://collector:4318/v1/traces')
            [CompletionResult]::new('--trace_log_spans', '--trace_log_spans', [CompletionResultType]::ParameterName, 'Write a log record for every span')
            [CompletionResult]::new('--trace_sampling_rate', '--trace_sampling_rate', [CompletionResultType]::ParameterName, 'Fraction of new traces that are sampled, from 0 to 1')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Quotas to allocate: name1=amount1,name2=amount2,…')
            [CompletionResult]::new('--quotas', '--quotas', [CompletionResultType]::ParameterName, 'Quotas to allocate: name1=amount1,name2=amount2,…')
            [CompletionResult]::new('--explain-page', '--explain-page', [CompletionResultType]::ParameterName, 'Page of the rules of --explain: each lists 50 more of those that did not match. Implies --explain')
            [CompletionResult]::new('--serve-valid', '--serve-valid', [CompletionResultType]::ParameterName, 'Take --config as a server with --config-on-error serve-valid: without what has an error')
            [CompletionResult]::new('--wait-for-ready', '--wait-for-ready', [CompletionResultType]::ParameterName, 'Wait until the server is reachable, at most --timeout')
            [CompletionResult]::new('--tls', '--tls', [CompletionResultType]::ParameterName, 'Use TLS; implied by the other flags of this group')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Print no results, progress bar, summary or warnings: the exit status tells the result, and failed calls are told on standard error. Results are printed all the same with --output')
            [CompletionResult]::new('--exit-zero', '--exit-zero', [CompletionResultType]::ParameterName, 'Exit with status 0 regardless of the results')
            [CompletionResult]::new('--native-exit-codes', '--native-exit-codes', [CompletionResultType]::ParameterName, 'Use the exit statuses of `mixer` when called as mixc')
            [CompletionResult]::new('--require-quota', '--require-quota', [CompletionResultType]::ParameterName, 'Exit with status 1 unless every quota is granted in full')
            [CompletionResult]::new('--explain', '--explain', [CompletionResultType]::ParameterName, 'Explain the result: rules considered, value of each condition, near misses, results of handlers')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mixc;report' {
            [CompletionResult]::new('-m', '-m', [CompletionResultType]::ParameterName, 'Server address: host:port, dns:///host:port, unix:///path or unix:path')
            [CompletionResult]::new('--mixer', '--mixer', [CompletionResultType]::ParameterName, 'Server address: host:port, dns:///host:port, unix:///path or unix:path')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'Configuration to evaluate in this process instead of calling a server: fs://DIR, a path, `-` for standard input, or embedded://sample')
            [CompletionResult]::new('--config-default-namespace', '--config-default-namespace', [CompletionResultType]::ParameterName, 'Namespace of mesh-wide rules')
            [CompletionResult]::new('-a', '-a', [CompletionResultType]::ParameterName, 'Attributes, auto-detected type: name1=value1,name2=value2,…')
            [CompletionResult]::new('--attributes', '--attributes', [CompletionResultType]::ParameterName, 'Attributes, auto-detected type: name1=value1,name2=value2,…')
            [CompletionResult]::new('-s', '-s', [CompletionResultType]::ParameterName, 'String attributes: name1=value1,name2=value2,…')
            [CompletionResult]::new('--string_attributes', '--string_attributes', [CompletionResultType]::ParameterName, 'String attributes: name1=value1,name2=value2,…')
            [CompletionResult]::new('-i', '-i', [CompletionResultType]::ParameterName, 'Integer attributes: name1=1,name2=2,…')
            [CompletionResult]::new('--int64_attributes', '--int64_attributes', [CompletionResultType]::ParameterName, 'Integer attributes: name1=1,name2=2,…')
            [CompletionResult]::new('-d', '-d', [CompletionResultType]::ParameterName, 'Floating point attributes: name1=0.5,name2=1e3,…')
            [CompletionResult]::new('--double_attributes', '--double_attributes', [CompletionResultType]::ParameterName, 'Floating point attributes: name1=0.5,name2=1e3,…')
            [CompletionResult]::new('-b', '-b', [CompletionResultType]::ParameterName, 'Boolean attributes: name1=true,name2=false,…')
            [CompletionResult]::new('--bool_attributes', '--bool_attributes', [CompletionResultType]::ParameterName, 'Boolean attributes: name1=true,name2=false,…')
            [CompletionResult]::new('-t', '-t', [CompletionResultType]::ParameterName, 'Timestamp attributes: name1=2017-07-04T00:01:10Z,…')
            [CompletionResult]::new('--timestamp_attributes', '--timestamp_attributes', [CompletionResultType]::ParameterName, 'Timestamp attributes: name1=2017-07-04T00:01:10Z,…')
            [CompletionResult]::new('--duration_attributes', '--duration_attributes', [CompletionResultType]::ParameterName, 'Duration attributes: name1=250ms,name2=1h30m,…')
            [CompletionResult]::new('--bytes_attributes', '--bytes_attributes', [CompletionResultType]::ParameterName, 'Bytes attributes, for example IP addresses: name1=c0:0:0:2,…')
            [CompletionResult]::new('--ip_attributes', '--ip_attributes', [CompletionResultType]::ParameterName, 'IP addresses: name1=192.0.2.1,name2=2001:db8::1,…')
            [CompletionResult]::new('--stringmap_attributes', '--stringmap_attributes', [CompletionResultType]::ParameterName, 'String map attributes: name1=key1:value1;key2:value2,…')
            [CompletionResult]::new('--attributes-file', '--attributes-file', [CompletionResultType]::ParameterName, 'YAML or JSON file with attributes; `@-` reads standard input. Flags override the file')
            [CompletionResult]::new('--dictionary', '--dictionary', [CompletionResultType]::ParameterName, 'Whether to encode words with the global dictionary')
            [CompletionResult]::new('-r', '-r', [CompletionResultType]::ParameterName, 'Calls per worker; 0 or less sends nothing')
            [CompletionResult]::new('--repeat', '--repeat', [CompletionResultType]::ParameterName, 'Calls per worker; 0 or less sends nothing')
            [CompletionResult]::new('-c', '-c', [CompletionResultType]::ParameterName, 'Concurrent workers')
            [CompletionResult]::new('--concurrency', '--concurrency', [CompletionResultType]::ParameterName, 'Concurrent workers')
            [CompletionResult]::new('--rate', '--rate', [CompletionResultType]::ParameterName, 'Maximum calls per second of all workers; 0 or less means no limit')
            [CompletionResult]::new('--report_batch_size', '--report_batch_size', [CompletionResultType]::ParameterName, 'Attribute sets per report')
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'Timeout per call. Example: 5s')
            [CompletionResult]::new('--ca-file', '--ca-file', [CompletionResultType]::ParameterName, 'CA certificates that verify the server, PEM; default: those of the system')
            [CompletionResult]::new('--cert-file', '--cert-file', [CompletionResultType]::ParameterName, 'Client certificate chain, PEM')
            [CompletionResult]::new('--key-file', '--key-file', [CompletionResultType]::ParameterName, 'Private key of the client certificate, PEM')
            [CompletionResult]::new('--server-name', '--server-name', [CompletionResultType]::ParameterName, 'Server name in the server certificate; default: the host of the target')
            [CompletionResult]::new('--print_response', '--print_response', [CompletionResultType]::ParameterName, 'Print responses; `check` prints failures even without it')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Output format; default: table on a terminal, else plain')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Output format; default: table on a terminal, else plain')
            [CompletionResult]::new('--trace_zipkin_url', '--trace_zipkin_url', [CompletionResultType]::ParameterName, 'URL of a Zipkin collector. Example: http://zipkin:9411/api/v1/spans')
            [CompletionResult]::new('--trace_jaeger_url', '--trace_jaeger_url', [CompletionResultType]::ParameterName, 'URL of a Jaeger collector. Example: http://jaeger:14268/api/traces?format=jaeger.thrift')
            [CompletionResult]::new('--trace_otlp_url', '--trace_otlp_url', [CompletionResultType]::ParameterName, 'URL of an OpenTelemetry collector (OTLP over HTTP). Example: http://collector:4318/v1/traces')
            [CompletionResult]::new('--trace_log_spans', '--trace_log_spans', [CompletionResultType]::ParameterName, 'Write a log record for every span')
            [CompletionResult]::new('--trace_sampling_rate', '--trace_sampling_rate', [CompletionResultType]::ParameterName, 'Fraction of new traces that are sampled, from 0 to 1')
            [CompletionResult]::new('--serve-valid', '--serve-valid', [CompletionResultType]::ParameterName, 'Take --config as a server with --config-on-error serve-valid: without what has an error')
            [CompletionResult]::new('--wait-for-ready', '--wait-for-ready', [CompletionResultType]::ParameterName, 'Wait until the server is reachable, at most --timeout')
            [CompletionResult]::new('--tls', '--tls', [CompletionResultType]::ParameterName, 'Use TLS; implied by the other flags of this group')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Print no results, progress bar, summary or warnings: the exit status tells the result, and failed calls are told on standard error. Results are printed all the same with --output')
            [CompletionResult]::new('--exit-zero', '--exit-zero', [CompletionResultType]::ParameterName, 'Exit with status 0 regardless of the results')
            [CompletionResult]::new('--native-exit-codes', '--native-exit-codes', [CompletionResultType]::ParameterName, 'Use the exit statuses of `mixer` when called as mixc')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mixc;version' {
            [CompletionResult]::new('-s', '-s', [CompletionResultType]::ParameterName, 'Print the version only')
            [CompletionResult]::new('--short', '--short', [CompletionResultType]::ParameterName, 'Print the version only')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'One of ''yaml'' or ''json''; overrides --short')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'One of ''yaml'' or ''json''; overrides --short')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'mixc;help' {
            [CompletionResult]::new('check', 'check', [CompletionResultType]::ParameterValue, 'Check a request against a server or a configuration')
            [CompletionResult]::new('report', 'report', [CompletionResultType]::ParameterValue, 'Report a request to a server or a configuration')
            [CompletionResult]::new('version', 'version', [CompletionResultType]::ParameterValue, 'Print program version and build information')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'mixc;help;check' {
            break
        }
        'mixc;help;report' {
            break
        }
        'mixc;help;version' {
            break
        }
        'mixc;help;help' {
            break
        }
    })

    $completions.Where{ $_.CompletionText -like "$wordToComplete*" } |
        Sort-Object -Property ListItemText
}
