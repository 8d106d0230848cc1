
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
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('check', 'check', [CompletionResultType]::ParameterValue, 'Ask a server, or a configuration, whether a request may pass')
            [CompletionResult]::new('report', 'report', [CompletionResultType]::ParameterValue, 'Report to a server, or to a configuration, what happened')
            [CompletionResult]::new('version', 'version', [CompletionResultType]::ParameterValue, 'Print versions of program and build')
            [CompletionResult]::new('collateral', 'collateral', [CompletionResultType]::ParameterValue, 'Write documentation and completion files into a directory')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'mixc;check' {
            [CompletionResult]::new('-m', '-m', [CompletionResultType]::ParameterName, 'Server to call: host:port, dns:///host:port, unix:///path or unix:path')
            [CompletionResult]::new('--mixer', '--mixer', [CompletionResultType]::ParameterName, 'Server to call: host:port, dns:///host:port, unix:///path or unix:path')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'Configuration to run the call on, in this process, without a server: fs://DIR or embedded://sample')
            [CompletionResult]::new('--config-default-namespace', '--config-default-namespace', [CompletionResultType]::ParameterName, 'Namespace of mesh-wide rules')
            [CompletionResult]::new('-a', '-a', [CompletionResultType]::ParameterName, 'Attributes whose type is sensed: name1=value1,name2=value2,…')
            [CompletionResult]::new('--attributes', '--attributes', [CompletionResultType]::ParameterName, 'Attributes whose type is sensed: name1=value1,name2=value2,…')
            [CompletionResult]::new('-s', '-s', [CompletionResultType]::ParameterName, 'Text attributes: name1=value1,name2=value2,…')
            [CompletionResult]::new('--string_attributes', '--string_attributes', [CompletionResultType]::ParameterName, 'Text attributes: name1=value1,name2=value2,…')
            [CompletionResult]::new('-i', '-i', [CompletionResultType]::ParameterName, 'Whole number attributes: name1=1,name2=2,…')
            [CompletionResult]::new('--int64_attributes', '--int64_attributes', [CompletionResultType]::ParameterName, 'Whole number attributes: name1=1,name2=2,…')
            [CompletionResult]::new('-d', '-d', [CompletionResultType]::ParameterName, 'Floating point attributes: name1=0.5,name2=1e3,…')
            [CompletionResult]::new('--double_attributes', '--double_attributes', [CompletionResultType]::ParameterName, 'Floating point attributes: name1=0.5,name2=1e3,…')
            [CompletionResult]::new('-b', '-b', [CompletionResultType]::ParameterName, 'Truth attributes: name1=true,name2=false,…')
            [CompletionResult]::new('--bool_attributes', '--bool_attributes', [CompletionResultType]::ParameterName, 'Truth attributes: name1=true,name2=false,…')
            [CompletionResult]::new('-t', '-t', [CompletionResultType]::ParameterName, 'Time attributes: name1=2017-07-04T00:01:10Z,…')
            [CompletionResult]::new('--timestamp_attributes', '--timestamp_attributes', [CompletionResultType]::ParameterName, 'Time attributes: name1=2017-07-04T00:01:10Z,…')
            [CompletionResult]::new('--duration_attributes', '--duration_attributes', [CompletionResultType]::ParameterName, 'Duration attributes: name1=250ms,name2=1h30m,…')
            [CompletionResult]::new('--bytes_attributes', '--bytes_attributes', [CompletionResultType]::ParameterName, 'Bytes attributes, for example addresses: name1=c0:0:0:2,…')
            [CompletionResult]::new('--stringmap_attributes', '--stringmap_attributes', [CompletionResultType]::ParameterName, 'Map attributes: name1=key1:value1;key2:value2,…')
            [CompletionResult]::new('--attributes-file', '--attributes-file', [CompletionResultType]::ParameterName, 'YAML or JSON file with attributes; `@-` reads standard input. Flags win over the file')
            [CompletionResult]::new('--dictionary', '--dictionary', [CompletionResultType]::ParameterName, 'Which words are sent as indexes of the list that every peer knows')
            [CompletionResult]::new('-r', '-r', [CompletionResultType]::ParameterName, 'How often each worker repeats the call; nothing is sent from 0 down')
            [CompletionResult]::new('--repeat', '--repeat', [CompletionResultType]::ParameterName, 'How often each worker repeats the call; nothing is sent from 0 down')
            [CompletionResult]::new('-c', '-c', [CompletionResultType]::ParameterName, 'Workers that call at the same time')
            [CompletionResult]::new('--concurrency', '--concurrency', [CompletionResultType]::ParameterName, 'Workers that call at the same time')
            [CompletionResult]::new('--rate', '--rate', [CompletionResultType]::ParameterName, 'Most calls per second, all workers together; no limit from 0 down')
            [CompletionResult]::new('--report_batch_size', '--report_batch_size', [CompletionResultType]::ParameterName, 'Attribute sets in one report')
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'Limit of one call. Example: 5s')
            [CompletionResult]::new('--ca-file', '--ca-file', [CompletionResultType]::ParameterName, 'Roots that the server is checked against, PEM; without it those of the system')
            [CompletionResult]::new('--cert-file', '--cert-file', [CompletionResultType]::ParameterName, 'Certificate to show to the server, with its chain, PEM')
            [CompletionResult]::new('--key-file', '--key-file', [CompletionResultType]::ParameterName, 'Key of that certificate, PEM')
            [CompletionResult]::new('--server-name', '--server-name', [CompletionResultType]::ParameterName, 'Name that the certificate of the server must carry; without it the host that is called')
            [CompletionResult]::new('--print_response', '--print_response', [CompletionResultType]::ParameterName, 'Print the answers; failures are printed anyway by `check`')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'How answers are written; a table on a terminal, else plain')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'How answers are written; a table on a terminal, else plain')
            [CompletionResult]::new('--trace_zipkin_url', '--trace_zipkin_url', [CompletionResultType]::ParameterName, 'URL of a Zipkin collector. Example: http://zipkin:9411/api/v1/spans')
            [CompletionResult]::new('--trace_jaeger_url', '--trace_jaeger_url', [CompletionResultType]::ParameterName, 'URL of a Jaeger collector. Example: http://jaeger:14268/api/traces?format=jaeger.thrift')
            [CompletionResult]::new('--trace_otlp_url', '--trace_otlp_url', [CompletionResultType]::ParameterName, 'URL of an OpenTelemetry collector (OTLP over HTTP). Example: http://collector:4318/v1/traces')
            [CompletionResult]::new('--trace_log_spans', '--trace_log_spans', [CompletionResultType]::ParameterName, 'Write a log record for every span')
            [CompletionResult]::new('--trace_sampling_rate', '--trace_sampling_rate', [CompletionResultType]::ParameterName, 'Share of new traces that are kept, from 0 to 1')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Quotas to ask for: name1=amount1,name2=amount2,…')
            [CompletionResult]::new('--quotas', '--quotas', [CompletionResultType]::ParameterName, 'Quotas to ask for: name1=amount1,name2=amount2,…')
            [CompletionResult]::new('--wait-for-ready', '--wait-for-ready', [CompletionResultType]::ParameterName, 'Wait for a server that cannot be reached yet, at most --timeout')
            [CompletionResult]::new('--tls', '--tls', [CompletionResultType]::ParameterName, 'Speak TLS with the server; any other flag of this group means this one as well')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'No progress bar and no summary')
            [CompletionResult]::new('--exit-zero', '--exit-zero', [CompletionResultType]::ParameterName, 'End with status 0 whatever the answers are')
            [CompletionResult]::new('--native-exit-codes', '--native-exit-codes', [CompletionResultType]::ParameterName, 'End with the statuses of `mixer` when called by the name mixc')
            [CompletionResult]::new('--require-quota', '--require-quota', [CompletionResultType]::ParameterName, 'End with status 1 unless every quota is granted in full')
            [CompletionResult]::new('--explain', '--explain', [CompletionResultType]::ParameterName, 'Tell why: which rules were considered, how far each condition went, near misses, and what every handler said')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mixc;report' {
            [CompletionResult]::new('-m', '-m', [CompletionResultType]::ParameterName, 'Server to call: host:port, dns:///host:port, unix:///path or unix:path')
            [CompletionResult]::new('--mixer', '--mixer', [CompletionResultType]::ParameterName, 'Server to call: host:port, dns:///host:port, unix:///path or unix:path')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'Configuration to run the call on, in this process, without a server: fs://DIR or embedded://sample')
            [CompletionResult]::new('--config-default-namespace', '--config-default-namespace', [CompletionResultType]::ParameterName, 'Namespace of mesh-wide rules')
            [CompletionResult]::new('-a', '-a', [CompletionResultType]::ParameterName, 'Attributes whose type is sensed: name1=value1,name2=value2,…')
            [CompletionResult]::new('--attributes', '--attributes', [CompletionResultType]::ParameterName, 'Attributes whose type is sensed: name1=value1,name2=value2,…')
            [CompletionResult]::new('-s', '-s', [CompletionResultType]::ParameterName, 'Text attributes: name1=value1,name2=value2,…')
            [CompletionResult]::new('--string_attributes', '--string_attributes', [CompletionResultType]::ParameterName, 'Text attributes: name1=value1,name2=value2,…')
            [CompletionResult]::new('-i', '-i', [CompletionResultType]::ParameterName, 'Whole number attributes: name1=1,name2=2,…')
            [CompletionResult]::new('--int64_attributes', '--int64_attributes', [CompletionResultType]::ParameterName, 'Whole number attributes: name1=1,name2=2,…')
            [CompletionResult]::new('-d', '-d', [CompletionResultType]::ParameterName, 'Floating point attributes: name1=0.5,name2=1e3,…')
            [CompletionResult]::new('--double_attributes', '--double_attributes', [CompletionResultType]::ParameterName, 'Floating point attributes: name1=0.5,name2=1e3,…')
            [CompletionResult]::new('-b', '-b', [CompletionResultType]::ParameterName, 'Truth attributes: name1=true,name2=false,…')
            [CompletionResult]::new('--bool_attributes', '--bool_attributes', [CompletionResultType]::ParameterName, 'Truth attributes: name1=true,name2=false,…')
            [CompletionResult]::new('-t', '-t', [CompletionResultType]::ParameterName, 'Time attributes: name1=2017-07-04T00:01:10Z,…')
            [CompletionResult]::new('--timestamp_attributes', '--timestamp_attributes', [CompletionResultType]::ParameterName, 'Time attributes: name1=2017-07-04T00:01:10Z,…')
            [CompletionResult]::new('--duration_attributes', '--duration_attributes', [CompletionResultType]::ParameterName, 'Duration attributes: name1=250ms,name2=1h30m,…')
            [CompletionResult]::new('--bytes_attributes', '--bytes_attributes', [CompletionResultType]::ParameterName, 'Bytes attributes, for example addresses: name1=c0:0:0:2,…')
            [CompletionResult]::new('--stringmap_attributes', '--stringmap_attributes', [CompletionResultType]::ParameterName, 'Map attributes: name1=key1:value1;key2:value2,…')
            [CompletionResult]::new('--attributes-file', '--attributes-file', [CompletionResultType]::ParameterName, 'YAML or JSON file with attributes; `@-` reads standard input. Flags win over the file')
            [CompletionResult]::new('--dictionary', '--dictionary', [CompletionResultType]::ParameterName, 'Which words are sent as indexes of the list that every peer knows')
            [CompletionResult]::new('-r', '-r', [CompletionResultType]::ParameterName, 'How often each worker repeats the call; nothing is sent from 0 down')
            [CompletionResult]::new('--repeat', '--repeat', [CompletionResultType]::ParameterName, 'How often each worker repeats the call; nothing is sent from 0 down')
            [CompletionResult]::new('-c', '-c', [CompletionResultType]::ParameterName, 'Workers that call at the same time')
            [CompletionResult]::new('--concurrency', '--concurrency', [CompletionResultType]::ParameterName, 'Workers that call at the same time')
            [CompletionResult]::new('--rate', '--rate', [CompletionResultType]::ParameterName, 'Most calls per second, all workers together; no limit from 0 down')
            [CompletionResult]::new('--report_batch_size', '--report_batch_size', [CompletionResultType]::ParameterName, 'Attribute sets in one report')
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'Limit of one call. Example: 5s')
            [CompletionResult]::new('--ca-file', '--ca-file', [CompletionResultType]::ParameterName, 'Roots that the server is checked against, PEM; without it those of the system')
            [CompletionResult]::new('--cert-file', '--cert-file', [CompletionResultType]::ParameterName, 'Certificate to show to the server, with its chain, PEM')
            [CompletionResult]::new('--key-file', '--key-file', [CompletionResultType]::ParameterName, 'Key of that certificate, PEM')
            [CompletionResult]::new('--server-name', '--server-name', [CompletionResultType]::ParameterName, 'Name that the certificate of the server must carry; without it the host that is called')
            [CompletionResult]::new('--print_response', '--print_response', [CompletionResultType]::ParameterName, 'Print the answers; failures are printed anyway by `check`')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'How answers are written; a table on a terminal, else plain')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'How answers are written; a table on a terminal, else plain')
            [CompletionResult]::new('--trace_zipkin_url', '--trace_zipkin_url', [CompletionResultType]::ParameterName, 'URL of a Zipkin collector. Example: http://zipkin:9411/api/v1/spans')
            [CompletionResult]::new('--trace_jaeger_url', '--trace_jaeger_url', [CompletionResultType]::ParameterName, 'URL of a Jaeger collector. Example: http://jaeger:14268/api/traces?format=jaeger.thrift')
            [CompletionResult]::new('--trace_otlp_url', '--trace_otlp_url', [CompletionResultType]::ParameterName, 'URL of an OpenTelemetry collector (OTLP over HTTP). Example: http://collector:4318/v1/traces')
            [CompletionResult]::new('--trace_log_spans', '--trace_log_spans', [CompletionResultType]::ParameterName, 'Write a log record for every span')
            [CompletionResult]::new('--trace_sampling_rate', '--trace_sampling_rate', [CompletionResultType]::ParameterName, 'Share of new traces that are kept, from 0 to 1')
            [CompletionResult]::new('--wait-for-ready', '--wait-for-ready', [CompletionResultType]::ParameterName, 'Wait for a server that cannot be reached yet, at most --timeout')
            [CompletionResult]::new('--tls', '--tls', [CompletionResultType]::ParameterName, 'Speak TLS with the server; any other flag of this group means this one as well')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'No progress bar and no summary')
            [CompletionResult]::new('--exit-zero', '--exit-zero', [CompletionResultType]::ParameterName, 'End with status 0 whatever the answers are')
            [CompletionResult]::new('--native-exit-codes', '--native-exit-codes', [CompletionResultType]::ParameterName, 'End with the statuses of `mixer` when called by the name mixc')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mixc;version' {
            [CompletionResult]::new('-s', '-s', [CompletionResultType]::ParameterName, 'Print the version alone')
            [CompletionResult]::new('--short', '--short', [CompletionResultType]::ParameterName, 'Print the version alone')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'One of ''yaml'' or ''json''; wins over --short')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'One of ''yaml'' or ''json''; wins over --short')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mixc;collateral' {
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Directory that the files are written into')
            [CompletionResult]::new('--outputDir', '--outputDir', [CompletionResultType]::ParameterName, 'Directory that the files are written into')
            [CompletionResult]::new('--all', '--all', [CompletionResultType]::ParameterName, 'Write every kind of file')
            [CompletionResult]::new('--markdown', '--markdown', [CompletionResultType]::ParameterName, 'Write Markdown pages')
            [CompletionResult]::new('--man', '--man', [CompletionResultType]::ParameterName, 'Write manual pages')
            [CompletionResult]::new('--bash', '--bash', [CompletionResultType]::ParameterName, 'Write a completion script for bash')
            [CompletionResult]::new('--zsh', '--zsh', [CompletionResultType]::ParameterName, 'Write a completion script for zsh')
            [CompletionResult]::new('--yaml', '--yaml', [CompletionResultType]::ParameterName, 'Write a description of all commands as YAML')
            [CompletionResult]::new('--html_fragment_with_front_matter', '--html_fragment_with_front_matter', [CompletionResultType]::ParameterName, 'Write an HTML page with front matter')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'mixc;help' {
            [CompletionResult]::new('check', 'check', [CompletionResultType]::ParameterValue, 'Ask a server, or a configuration, whether a request may pass')
            [CompletionResult]::new('report', 'report', [CompletionResultType]::ParameterValue, 'Report to a server, or to a configuration, what happened')
            [CompletionResult]::new('version', 'version', [CompletionResultType]::ParameterValue, 'Print versions of program and build')
            [CompletionResult]::new('collateral', 'collateral', [CompletionResultType]::ParameterValue, 'Write documentation and completion files into a directory')
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
        'mixc;help;collateral' {
            break
        }
        'mixc;help;help' {
            break
        }
    })

    $completions.Where{ $_.CompletionText -like "$wordToComplete*" } |
        Sort-Object -Property ListItemText
}
