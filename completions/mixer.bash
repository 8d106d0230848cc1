_mixer() {
    local i cur prev opts cmd
    COMPREPLY=()
    if [[ "${BASH_VERSINFO[0]}" -ge 4 ]]; then
        cur="$2"
    else
        cur="${COMP_WORDS[COMP_CWORD]}"
    fi
    prev="$3"
    cmd=""
    opts=""

    for i in "${COMP_WORDS[@]:0:COMP_CWORD}"
    do
        case "${cmd},${i}" in
            ",$1")
                cmd="mixer"
                ;;
            mixer,adapter)
                cmd="mixer__subcmd__adapter"
                ;;
            mixer,check)
                cmd="mixer__subcmd__check"
                ;;
            mixer,collateral)
                cmd="mixer__subcmd__collateral"
                ;;
            mixer,completions)
                cmd="mixer__subcmd__completions"
                ;;
            mixer,crd)
                cmd="mixer__subcmd__crd"
                ;;
            mixer,diff)
                cmd="mixer__subcmd__diff"
                ;;
            mixer,doctor)
                cmd="mixer__subcmd__doctor"
                ;;
            mixer,eval)
                cmd="mixer__subcmd__eval"
                ;;
            mixer,explain-code)
                cmd="mixer__subcmd__explain__subcmd__code"
                ;;
            mixer,galley)
                cmd="mixer__subcmd__galley"
                ;;
            mixer,help)
                cmd="mixer__subcmd__help"
                ;;
            mixer,legacy)
                cmd="mixer__subcmd__legacy"
                ;;
            mixer,man)
                cmd="mixer__subcmd__man"
                ;;
            mixer,probe)
                cmd="mixer__subcmd__probe"
                ;;
            mixer,proxy)
                cmd="mixer__subcmd__proxy"
                ;;
            mixer,report)
                cmd="mixer__subcmd__report"
                ;;
            mixer,routes)
                cmd="mixer__subcmd__routes"
                ;;
            mixer,server)
                cmd="mixer__subcmd__server"
                ;;
            mixer,snapshot)
                cmd="mixer__subcmd__snapshot"
                ;;
            mixer,test)
                cmd="mixer__subcmd__test"
                ;;
            mixer,validate)
                cmd="mixer__subcmd__validate"
                ;;
            mixer,version)
                cmd="mixer__subcmd__version"
                ;;
            mixer__subcmd__adapter,help)
                cmd="mixer__subcmd__adapter__subcmd__help"
                ;;
            mixer__subcmd__adapter,new)
                cmd="mixer__subcmd__adapter__subcmd__new"
                ;;
            mixer__subcmd__adapter,resources)
                cmd="mixer__subcmd__adapter__subcmd__resources"
                ;;
            mixer__subcmd__adapter__subcmd__help,help)
                cmd="mixer__subcmd__adapter__subcmd__help__subcmd__help"
                ;;
            mixer__subcmd__adapter__subcmd__help,new)
                cmd="mixer__subcmd__adapter__subcmd__help__subcmd__new"
                ;;
            mixer__subcmd__adapter__subcmd__help,resources)
                cmd="mixer__subcmd__adapter__subcmd__help__subcmd__resources"
                ;;
            mixer__subcmd__crd,adapter)
                cmd="mixer__subcmd__crd__subcmd__adapter"
                ;;
            mixer__subcmd__crd,all)
                cmd="mixer__subcmd__crd__subcmd__all"
                ;;
            mixer__subcmd__crd,help)
                cmd="mixer__subcmd__crd__subcmd__help"
                ;;
            mixer__subcmd__crd,instance)
                cmd="mixer__subcmd__crd__subcmd__instance"
                ;;
            mixer__subcmd__crd__subcmd__help,adapter)
                cmd="mixer__subcmd__crd__subcmd__help__subcmd__adapter"
                ;;
            mixer__subcmd__crd__subcmd__help,all)
                cmd="mixer__subcmd__crd__subcmd__help__subcmd__all"
                ;;
            mixer__subcmd__crd__subcmd__help,help)
                cmd="mixer__subcmd__crd__subcmd__help__subcmd__help"
                ;;
            mixer__subcmd__crd__subcmd__help,instance)
                cmd="mixer__subcmd__crd__subcmd__help__subcmd__instance"
                ;;
            mixer__subcmd__galley,help)
                cmd="mixer__subcmd__galley__subcmd__help"
                ;;
            mixer__subcmd__galley,server)
                cmd="mixer__subcmd__galley__subcmd__server"
                ;;
            mixer__subcmd__galley,sinks)
                cmd="mixer__subcmd__galley__subcmd__sinks"
                ;;
            mixer__subcmd__galley,snapshot)
                cmd="mixer__subcmd__galley__subcmd__snapshot"
                ;;
            mixer__subcmd__galley,status)
                cmd="mixer__subcmd__galley__subcmd__status"
                ;;
            mixer__subcmd__galley,validator)
                cmd="mixer__subcmd__galley__subcmd__validator"
                ;;
            mixer__subcmd__galley,wait)
                cmd="mixer__subcmd__galley__subcmd__wait"
                ;;
            mixer__subcmd__galley,watch)
                cmd="mixer__subcmd__galley__subcmd__watch"
                ;;
            mixer__subcmd__galley__subcmd__help,help)
                cmd="mixer__subcmd__galley__subcmd__help__subcmd__help"
                ;;
            mixer__subcmd__galley__subcmd__help,server)
                cmd="mixer__subcmd__galley__subcmd__help__subcmd__server"
                ;;
            mixer__subcmd__galley__subcmd__help,sinks)
                cmd="mixer__subcmd__galley__subcmd__help__subcmd__sinks"
                ;;
            mixer__subcmd__galley__subcmd__help,snapshot)
                cmd="mixer__subcmd__galley__subcmd__help__subcmd__snapshot"
                ;;
            mixer__subcmd__galley__subcmd__help,status)
                cmd="mixer__subcmd__galley__subcmd__help__subcmd__status"
                ;;
            mixer__subcmd__galley__subcmd__help,validator)
                cmd="mixer__subcmd__galley__subcmd__help__subcmd__validator"
                ;;
            mixer__subcmd__galley__subcmd__help,wait)
                cmd="mixer__subcmd__galley__subcmd__help__subcmd__wait"
                ;;
            mixer__subcmd__galley__subcmd__help,watch)
                cmd="mixer__subcmd__galley__subcmd__help__subcmd__watch"
                ;;
            mixer__subcmd__galley__subcmd__help__subcmd__snapshot,diff)
                cmd="mixer__subcmd__galley__subcmd__help__subcmd__snapshot__subcmd__diff"
                ;;
            mixer__subcmd__galley__subcmd__help__subcmd__snapshot,dump)
                cmd="mixer__subcmd__galley__subcmd__help__subcmd__snapshot__subcmd__dump"
                ;;
            mixer__subcmd__galley__subcmd__snapshot,diff)
                cmd="mixer__subcmd__galley__subcmd__snapshot__subcmd__diff"
                ;;
            mixer__subcmd__galley__subcmd__snapshot,dump)
                cmd="mixer__subcmd__galley__subcmd__snapshot__subcmd__dump"
                ;;
            mixer__subcmd__galley__subcmd__snapshot,help)
                cmd="mixer__subcmd__galley__subcmd__snapshot__subcmd__help"
                ;;
            mixer__subcmd__galley__subcmd__snapshot__subcmd__help,diff)
                cmd="mixer__subcmd__galley__subcmd__snapshot__subcmd__help__subcmd__diff"
                ;;
            mixer__subcmd__galley__subcmd__snapshot__subcmd__help,dump)
                cmd="mixer__subcmd__galley__subcmd__snapshot__subcmd__help__subcmd__dump"
                ;;
            mixer__subcmd__galley__subcmd__snapshot__subcmd__help,help)
                cmd="mixer__subcmd__galley__subcmd__snapshot__subcmd__help__subcmd__help"
                ;;
            mixer__subcmd__help,adapter)
                cmd="mixer__subcmd__help__subcmd__adapter"
                ;;
            mixer__subcmd__help,check)
                cmd="mixer__subcmd__help__subcmd__check"
                ;;
            mixer__subcmd__help,collateral)
                cmd="mixer__subcmd__help__subcmd__collateral"
                ;;
            mixer__subcmd__help,completions)
                cmd="mixer__subcmd__help__subcmd__completions"
                ;;
            mixer__subcmd__help,crd)
                cmd="mixer__subcmd__help__subcmd__crd"
                ;;
            mixer__subcmd__help,diff)
                cmd="mixer__subcmd__help__subcmd__diff"
                ;;
            mixer__subcmd__help,doctor)
                cmd="mixer__subcmd__help__subcmd__doctor"
                ;;
            mixer__subcmd__help,eval)
                cmd="mixer__subcmd__help__subcmd__eval"
                ;;
            mixer__subcmd__help,explain-code)
                cmd="mixer__subcmd__help__subcmd__explain__subcmd__code"
                ;;
            mixer__subcmd__help,galley)
                cmd="mixer__subcmd__help__subcmd__galley"
                ;;
            mixer__subcmd__help,help)
                cmd="mixer__subcmd__help__subcmd__help"
                ;;
            mixer__subcmd__help,legacy)
                cmd="mixer__subcmd__help__subcmd__legacy"
                ;;
            mixer__subcmd__help,man)
                cmd="mixer__subcmd__help__subcmd__man"
                ;;
            mixer__subcmd__help,probe)
                cmd="mixer__subcmd__help__subcmd__probe"
                ;;
            mixer__subcmd__help,proxy)
                cmd="mixer__subcmd__help__subcmd__proxy"
                ;;
            mixer__subcmd__help,report)
                cmd="mixer__subcmd__help__subcmd__report"
                ;;
            mixer__subcmd__help,routes)
                cmd="mixer__subcmd__help__subcmd__routes"
                ;;
            mixer__subcmd__help,server)
                cmd="mixer__subcmd__help__subcmd__server"
                ;;
            mixer__subcmd__help,snapshot)
                cmd="mixer__subcmd__help__subcmd__snapshot"
                ;;
            mixer__subcmd__help,test)
                cmd="mixer__subcmd__help__subcmd__test"
                ;;
            mixer__subcmd__help,validate)
                cmd="mixer__subcmd__help__subcmd__validate"
                ;;
            mixer__subcmd__help,version)
                cmd="mixer__subcmd__help__subcmd__version"
                ;;
            mixer__subcmd__help__subcmd__adapter,new)
                cmd="mixer__subcmd__help__subcmd__adapter__subcmd__new"
                ;;
            mixer__subcmd__help__subcmd__adapter,resources)
                cmd="mixer__subcmd__help__subcmd__adapter__subcmd__resources"
                ;;
            mixer__subcmd__help__subcmd__crd,adapter)
                cmd="mixer__subcmd__help__subcmd__crd__subcmd__adapter"
                ;;
            mixer__subcmd__help__subcmd__crd,all)
                cmd="mixer__subcmd__help__subcmd__crd__subcmd__all"
                ;;
            mixer__subcmd__help__subcmd__crd,instance)
                cmd="mixer__subcmd__help__subcmd__crd__subcmd__instance"
                ;;
            mixer__subcmd__help__subcmd__galley,server)
                cmd="mixer__subcmd__help__subcmd__galley__subcmd__server"
                ;;
            mixer__subcmd__help__subcmd__galley,sinks)
                cmd="mixer__subcmd__help__subcmd__galley__subcmd__sinks"
                ;;
            mixer__subcmd__help__subcmd__galley,snapshot)
                cmd="mixer__subcmd__help__subcmd__galley__subcmd__snapshot"
                ;;
            mixer__subcmd__help__subcmd__galley,status)
                cmd="mixer__subcmd__help__subcmd__galley__subcmd__status"
                ;;
            mixer__subcmd__help__subcmd__galley,validator)
                cmd="mixer__subcmd__help__subcmd__galley__subcmd__validator"
                ;;
            mixer__subcmd__help__subcmd__galley,wait)
                cmd="mixer__subcmd__help__subcmd__galley__subcmd__wait"
                ;;
            mixer__subcmd__help__subcmd__galley,watch)
                cmd="mixer__subcmd__help__subcmd__galley__subcmd__watch"
                ;;
            mixer__subcmd__help__subcmd__galley__subcmd__snapshot,diff)
                cmd="mixer__subcmd__help__subcmd__galley__subcmd__snapshot__subcmd__diff"
                ;;
            mixer__subcmd__help__subcmd__galley__subcmd__snapshot,dump)
                cmd="mixer__subcmd__help__subcmd__galley__subcmd__snapshot__subcmd__dump"
                ;;
            mixer__subcmd__help__subcmd__routes,show)
                cmd="mixer__subcmd__help__subcmd__routes__subcmd__show"
                ;;
            mixer__subcmd__help__subcmd__snapshot,dump)
                cmd="mixer__subcmd__help__subcmd__snapshot__subcmd__dump"
                ;;
            mixer__subcmd__routes,help)
                cmd="mixer__subcmd__routes__subcmd__help"
                ;;
            mixer__subcmd__routes,show)
                cmd="mixer__subcmd__routes__subcmd__show"
                ;;
            mixer__subcmd__routes__subcmd__help,help)
                cmd="mixer__subcmd__routes__subcmd__help__subcmd__help"
                ;;
            mixer__subcmd__routes__subcmd__help,show)
                cmd="mixer__subcmd__routes__subcmd__help__subcmd__show"
                ;;
            mixer__subcmd__snapshot,dump)
                cmd="mixer__subcmd__snapshot__subcmd__dump"
                ;;
            mixer__subcmd__snapshot,help)
                cmd="mixer__subcmd__snapshot__subcmd__help"
                ;;
            mixer__subcmd__snapshot__subcmd__help,dump)
                cmd="mixer__subcmd__snapshot__subcmd__help__subcmd__dump"
                ;;
            mixer__subcmd__snapshot__subcmd__help,help)
                cmd="mixer__subcmd__snapshot__subcmd__help__subcmd__help"
                ;;
            *)
                ;;
        esac
    done

    case "${cmd}" in
        mixer)
            opts="-h -V --color --error-format --help --version server check report probe validate eval explain-code doctor test diff snapshot routes proxy adapter version crd completions man collateral legacy galley help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 1 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --color)
                    COMPREPLY=($(compgen -W "auto always never" -- "${cur}"))
                    return 0
                    ;;
                --error-format)
                    COMPREPLY=($(compgen -W "text json" -- "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__adapter)
            opts="-h --color --error-format --help new resources help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 2 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --color)
                    COMPREPLY=($(compgen -W "auto always never" -- "${cur}"))
                    return 0
                    ;;
                --error-format)
                    COMPREPLY=($(compgen -W "text json" -- "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__adapter__subcmd__help)
            opts="new resources help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__adapter__subcmd__help__subcmd__help)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 4 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__adapter__subcmd__help__subcmd__new)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 4 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__adapter__subcmd__help__subcmd__resources)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 4 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__adapter__subcmd__new)
            opts="-h --template --directory --namespace --color --error-format --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --template)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --directory)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --namespace)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --color)
                    COMPREPLY=($(compgen -W "auto always never" -- "${cur}"))
                    return 0
                    ;;
                --error-format)
                    COMPREPLY=($(compgen -W "text json" -- "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__adapter__subcmd__resources)
            opts="-I -h --proto-dir --template --params --session-based --namespace --color --error-format --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --proto-dir)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                -I)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --template)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --params)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --namespace)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --color)
                    COMPREPLY=($(compgen -W "auto always never" -- "${cur}"))
                    return 0
                    ;;
                --error-format)
                    COMPREPLY=($(compgen -W "text json" -- "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__check)
            opts="-m -a -s -i -d -b -t -r -c -o -q -h --mixer --config --default-namespace --attributes --string-attributes --int64-attributes --double-attributes --bool-attributes --timestamp-attributes --duration-attributes --bytes-attributes --ip-attributes --stringmap-attributes --attributes-file --dictionary --repeat --concurrency --rate --report-batch-size --timeout --wait-for-ready --tls --ca-file --cert-file --key-file --server-name --print-response --output --quiet --exit-zero --native-exit-codes --trace-zipkin-url --trace-jaeger-url --trace-otlp-url --trace-log-spans --trace-sampling-rate --quotas --require-quota --explain --color --error-format --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 2 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --mixer)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                -m)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --config)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --default-namespace)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --attributes)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                -a)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --string-attributes)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                -s)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --int64-attributes)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                -i)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --double-attributes)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                -d)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --bool-attributes)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                -b)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --timestamp-attributes)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                -t)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --duration-attributes)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --bytes-attributes)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --ip-attributes)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --stringmap-attributes)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --attributes-file)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --dictionary)
                    COMPREPLY=($(compgen -W "message global" -- "${cur}"))
                    return 0
                    ;;
                --repeat)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                -r)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --concurrency)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                -c)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --rate)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --report-batch-size)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --timeout)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --ca-file)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --cert-file)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --key-file)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --server-name)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --print-response)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --output)
                    COMPREPLY=($(compgen -W "table plain json json-lines yaml" -- "${cur}"))
                    return 0
                    ;;
                -o)
                    COMPREPLY=($(compgen -W "table plain json json-lines yaml" -- "${cur}"))
                    return 0
                    ;;
                --trace-zipkin-url)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --trace-jaeger-url)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --trace-otlp-url)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --trace-log-spans)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --trace-sampling-rate)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --quotas)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                -q)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --color)
                    COMPREPLY=($(compgen -W "auto always never" -- "${cur}"))
                    return 0
                    ;;
                --error-format)
                    COMPREPLY=($(compgen -W "text json" -- "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__collateral)
            opts="-o -h --output-dir --all --markdown --man --bash --zsh --yaml --html-fragment-with-front-matter --color --error-format --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 2 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --output-dir)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                -o)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --color)
                    COMPREPLY=($(compgen -W "auto always never" -- "${cur}"))
                    return 0
                    ;;
                --error-format)
                    COMPREPLY=($(compgen -W "text json" -- "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__completions)
            opts="-h --name --color --error-format --help bash elvish fish powershell zsh"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 2 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --name)
                    COMPREPLY=($(compgen -W "mixer mixs mixc galley" -- "${cur}"))
                    return 0
                    ;;
                --color)
                    COMPREPLY=($(compgen -W "auto always never" -- "${cur}"))
                    return 0
                    ;;
                --error-format)
                    COMPREPLY=($(compgen -W "text json" -- "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__crd)
            opts="-h --color --error-format --help all adapter instance help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 2 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --color)
                    COMPREPLY=($(compgen -W "auto always never" -- "${cur}"))
                    return 0
                    ;;
                --error-format)
                    COMPREPLY=($(compgen -W "text json" -- "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__crd__subcmd__adapter)
            opts="-h --api-version --color --error-format --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --api-version)
                    COMPREPLY=($(compgen -W "v1beta1 v1" -- "${cur}"))
                    return 0
                    ;;
                --color)
                    COMPREPLY=($(compgen -W "auto always never" -- "${cur}"))
                    return 0
                    ;;
                --error-format)
                    COMPREPLY=($(compgen -W "text json" -- "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__crd__subcmd__all)
            opts="-h --api-version --color --error-format --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --api-version)
                    COMPREPLY=($(compgen -W "v1beta1 v1" -- "${cur}"))
                    return 0
                    ;;
                --color)
                    COMPREPLY=($(compgen -W "auto always never" -- "${cur}"))
                    return 0
                    ;;
                --error-format)
                    COMPREPLY=($(compgen -W "text json" -- "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__crd__subcmd__help)
            opts="all adapter instance help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__crd__subcmd__help__subcmd__adapter)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 4 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__crd__subcmd__help__subcmd__all)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 4 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__crd__subcmd__help__subcmd__help)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 4 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__crd__subcmd__help__subcmd__instance)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 4 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__crd__subcmd__instance)
            opts="-h --api-version --color --error-format --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --api-version)
                    COMPREPLY=($(compgen -W "v1beta1 v1" -- "${cur}"))
                    return 0
                    ;;
                --color)
                    COMPREPLY=($(compgen -W "auto always never" -- "${cur}"))
                    return 0
                    ;;
                --error-format)
                    COMPREPLY=($(compgen -W "text json" -- "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__diff)
            opts="-o -h --from --to --requests --default-namespace --limit --output --color --error-format --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 2 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --from)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --to)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --requests)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --default-namespace)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --limit)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --output)
                    COMPREPLY=($(compgen -W "table plain json yaml" -- "${cur}"))
                    return 0
                    ;;
                -o)
                    COMPREPLY=($(compgen -W "table plain json yaml" -- "${cur}"))
                    return 0
                    ;;
                --color)
                    COMPREPLY=($(compgen -W "auto always never" -- "${cur}"))
                    return 0
                    ;;
                --error-format)
                    COMPREPLY=($(compgen -W "text json" -- "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__doctor)
            opts="-o -h --output --color --error-format --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 2 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --output)
                    COMPREPLY=($(compgen -W "table plain json yaml" -- "${cur}"))
                    return 0
                    ;;
                -o)
                    COMPREPLY=($(compgen -W "table plain json yaml" -- "${cur}"))
                    return 0
                    ;;
                --color)
                    COMPREPLY=($(compgen -W "auto always never" -- "${cur}"))
                    return 0
                    ;;
                --error-format)
                    COMPREPLY=($(compgen -W "text json" -- "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__eval)
            opts="-a -s -i -d -b -t -o -h --lang --config --default-namespace --attributes --string-attributes --int64-attributes --double-attributes --bool-attributes --timestamp-attributes --duration-attributes --bytes-attributes --ip-attributes --stringmap-attributes --attributes-file --dictionary --output --color --error-format --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 2 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --lang)
                    COMPREPLY=($(compgen -W "CEXL CEL COMPAT" -- "${cur}"))
                    return 0
                    ;;
                --config)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --default-namespace)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --attributes)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                -a)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --string-attributes)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                -s)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --int64-attributes)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                -i)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --double-attributes)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                -d)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --bool-attributes)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                -b)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --timestamp-attributes)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                -t)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --duration-attributes)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --bytes-attributes)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --ip-attributes)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --stringmap-attributes)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --attributes-file)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --dictionary)
                    COMPREPLY=($(compgen -W "message global" -- "${cur}"))
                    return 0
                    ;;
                --output)
                    COMPREPLY=($(compgen -W "table plain json yaml" -- "${cur}"))
                    return 0
                    ;;
                -o)
                    COMPREPLY=($(compgen -W "table plain json yaml" -- "${cur}"))
                    return 0
                    ;;
                --color)
                    COMPREPLY=($(compgen -W "auto always never" -- "${cur}"))
                    return 0
                    ;;
                --error-format)
                    COMPREPLY=($(compgen -W "text json" -- "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__explain__subcmd__code)
            opts="-h --color --error-format --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 2 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --color)
                    COMPREPLY=($(compgen -W "auto always never" -- "${cur}"))
                    return 0
                    ;;
                --error-format)
                    COMPREPLY=($(compgen -W "text json" -- "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__galley)
            opts="-h --color --error-format --help validator wait sinks status snapshot watch server help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 2 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --color)
                    COMPREPLY=($(compgen -W "auto always never" -- "${cur}"))
                    return 0
                    ;;
                --error-format)
                    COMPREPLY=($(compgen -W "text json" -- "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__galley__subcmd__help)
            opts="validator wait sinks status snapshot watch server help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__galley__subcmd__help__subcmd__help)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 4 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__galley__subcmd__help__subcmd__server)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 4 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__galley__subcmd__help__subcmd__sinks)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 4 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__galley__subcmd__help__subcmd__snapshot)
            opts="dump diff"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 4 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__galley__subcmd__help__subcmd__snapshot__subcmd__diff)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 5 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__galley__subcmd__help__subcmd__snapshot__subcmd__dump)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 5 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__galley__subcmd__help__subcmd__status)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 4 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__galley__subcmd__help__subcmd__validator)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 4 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__galley__subcmd__help__subcmd__wait)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 4 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__galley__subcmd__help__subcmd__watch)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 4 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__galley__subcmd__server)
            opts="-c -h --config --config-path --watch-config-files --mesh-config-file --kubeconfig --resync-period --disable-resource-ready-check --excluded-resource-kinds --domain --enable-service-discovery --enable-analysis --use-old-processor --istio-pace --config-on-error --allow-empty-config --config-cache --zookeeper-address --zookeeper-root --zookeeper-session-timeout --zookeeper-namespace --zookeeper-user --zookeeper-password-file --zookeeper-ca-cert-file --zookeeper-cert-file --zookeeper-key-file --eureka-address --eureka-refresh --eureka-timeout --eureka-namespace --eureka-service-port --eureka-user --eureka-password-file --eureka-ca-cert-file --eureka-cert-file --eureka-key-file --enable-server --server-address --server-max-received-message-size --memory-limit --server-max-concurrent-streams --insecure --tls-cert-file --tls-key-file --ca-cert-file --access-list-file --incremental --legacy-mcp --sink-address --sink-auth-mode --sink-meta --enable-validation --validation-port --validation-depth --validation-webhook-config-file --enable-reconcile-webhook-configuration --webhook-name --deployment-namespace --deployment-name --service-name --ctrlz-port --ctrlz-address --ctrlz-readonly --ctrlz-token-file --ctrlz-allowed-hosts --monitoring-port --enable-profiling --pprof-port --metric-per-resource --liveness-probe-path --liveness-probe-interval --readiness-probe-path --readiness-probe-interval --log-target --log-rotate --log-rotate-max-size --log-rotate-max-age --log-rotate-max-backups --log-as-json --log-output-level --log-stacktrace-level --log-caller --address --kubeConfig --maxReceivedMessageSize --maxConcurrentStreams --validation.tls.clientCertificate --validation.tls.privateKey --validation.tls.caCertificates --color --error-format --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --config)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                -c)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --config-path)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --watch-config-files)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --mesh-config-file)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --kubeconfig)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --resync-period)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --disable-resource-ready-check)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --excluded-resource-kinds)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --domain)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --enable-service-discovery)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --enable-analysis)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --use-old-processor)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --istio-pace)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --config-on-error)
                    COMPREPLY=($(compgen -W "keep-last serve-valid" -- "${cur}"))
                    return 0
                    ;;
                --allow-empty-config)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --config-cache)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --zookeeper-address)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --zookeeper-root)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --zookeeper-session-timeout)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --zookeeper-namespace)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --zookeeper-user)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --zookeeper-password-file)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --zookeeper-ca-cert-file)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --zookeeper-cert-file)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --zookeeper-key-file)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --eureka-address)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --eureka-refresh)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --eureka-timeout)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --eureka-namespace)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --eureka-service-port)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --eureka-user)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --eureka-password-file)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --eureka-ca-cert-file)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --eureka-cert-file)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --eureka-key-file)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --enable-server)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --server-address)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --server-max-received-message-size)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --memory-limit)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --server-max-concurrent-streams)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --insecure)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --tls-cert-file)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --tls-key-file)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --ca-cert-file)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --access-list-file)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --incremental)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --legacy-mcp)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --sink-address)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --sink-auth-mode)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --sink-meta)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --enable-validation)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --validation-port)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --validation-depth)
                    COMPREPLY=($(compgen -W "structural deep" -- "${cur}"))
                    return 0
                    ;;
                --validation-webhook-config-file)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --enable-reconcile-webhook-configuration)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --webhook-name)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --deployment-namespace)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --deployment-name)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --service-name)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --ctrlz-port)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --ctrlz-address)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --ctrlz-readonly)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --ctrlz-token-file)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --ctrlz-allowed-hosts)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --monitoring-port)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --enable-profiling)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --pprof-port)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --metric-per-resource)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --liveness-probe-path)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --liveness-probe-interval)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --readiness-probe-path)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --readiness-probe-interval)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --log-target)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --log-rotate)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --log-rotate-max-size)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --log-rotate-max-age)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --log-rotate-max-backups)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --log-as-json)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --log-output-level)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --log-stacktrace-level)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --log-caller)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --address)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --kubeConfig)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --maxReceivedMessageSize)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --maxConcurrentStreams)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --validation.tls.clientCertificate)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --validation.tls.privateKey)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --validation.tls.caCertificates)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --color)
                    COMPREPLY=($(compgen -W "auto always never" -- "${cur}"))
                    return 0
                    ;;
                --error-format)
                    COMPREPLY=($(compgen -W "text json" -- "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__galley__subcmd__sinks)
            opts="-o -h --server --output --color --error-format --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --server)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --output)
                    COMPREPLY=($(compgen -W "table plain json yaml" -- "${cur}"))
                    return 0
                    ;;
                -o)
                    COMPREPLY=($(compgen -W "table plain json yaml" -- "${cur}"))
                    return 0
                    ;;
                --color)
                    COMPREPLY=($(compgen -W "auto always never" -- "${cur}"))
                    return 0
                    ;;
                --error-format)
                    COMPREPLY=($(compgen -W "text json" -- "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__galley__subcmd__snapshot)
            opts="-h --color --error-format --help dump diff help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --color)
                    COMPREPLY=($(compgen -W "auto always never" -- "${cur}"))
                    return 0
                    ;;
                --error-format)
                    COMPREPLY=($(compgen -W "text json" -- "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__galley__subcmd__snapshot__subcmd__diff)
            opts="-h --server --group --collection --color --error-format --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 4 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --server)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --group)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --collection)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --color)
                    COMPREPLY=($(compgen -W "auto always never" -- "${cur}"))
                    return 0
                    ;;
                --error-format)
                    COMPREPLY=($(compgen -W "text json" -- "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__galley__subcmd__snapshot__subcmd__dump)
            opts="-o -h --server --group --collection --output --show-secrets --color --error-format --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 4 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --server)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --group)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --collection)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --output)
                    COMPREPLY=($(compgen -W "table plain json yaml" -- "${cur}"))
                    return 0
                    ;;
                -o)
                    COMPREPLY=($(compgen -W "table plain json yaml" -- "${cur}"))
                    return 0
                    ;;
                --color)
                    COMPREPLY=($(compgen -W "auto always never" -- "${cur}"))
                    return 0
                    ;;
                --error-format)
                    COMPREPLY=($(compgen -W "text json" -- "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__galley__subcmd__snapshot__subcmd__help)
            opts="dump diff help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 4 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__galley__subcmd__snapshot__subcmd__help__subcmd__diff)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 5 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__galley__subcmd__snapshot__subcmd__help__subcmd__dump)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 5 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__galley__subcmd__snapshot__subcmd__help__subcmd__help)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 5 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__galley__subcmd__status)
            opts="-o -h --server --output --color --error-format --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --server)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --output)
                    COMPREPLY=($(compgen -W "table plain json yaml" -- "${cur}"))
                    return 0
                    ;;
                -o)
                    COMPREPLY=($(compgen -W "table plain json yaml" -- "${cur}"))
                    return 0
                    ;;
                --color)
                    COMPREPLY=($(compgen -W "auto always never" -- "${cur}"))
                    return 0
                    ;;
                --error-format)
                    COMPREPLY=($(compgen -W "text json" -- "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__galley__subcmd__validator)
            opts="-h --port --tls-cert-file --tls-key-file --ca-cert-file --webhook-config-file --health-check-file --health-check-interval --monitoring-port --deployment-namespace --deployment-name --kubeconfig --resync-period --log-target --log-rotate --log-rotate-max-size --log-rotate-max-age --log-rotate-max-backups --log-as-json --log-output-level --log-stacktrace-level --log-caller --color --error-format --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --port)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --tls-cert-file)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --tls-key-file)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --ca-cert-file)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --webhook-config-file)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --health-check-file)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --health-check-interval)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --monitoring-port)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --deployment-namespace)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --deployment-name)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --kubeconfig)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --resync-period)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --log-target)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --log-rotate)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --log-rotate-max-size)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --log-rotate-max-age)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --log-rotate-max-backups)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --log-as-json)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --log-output-level)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --log-stacktrace-level)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --log-caller)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --color)
                    COMPREPLY=($(compgen -W "auto always never" -- "${cur}"))
                    return 0
                    ;;
                --error-format)
                    COMPREPLY=($(compgen -W "text json" -- "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__galley__subcmd__wait)
            opts="-o -h --sinks --timeout --server --output --color --error-format --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --sinks)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --timeout)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --server)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --output)
                    COMPREPLY=($(compgen -W "table plain json yaml" -- "${cur}"))
                    return 0
                    ;;
                -o)
                    COMPREPLY=($(compgen -W "table plain json yaml" -- "${cur}"))
                    return 0
                    ;;
                --color)
                    COMPREPLY=($(compgen -W "auto always never" -- "${cur}"))
                    return 0
                    ;;
                --error-format)
                    COMPREPLY=($(compgen -W "text json" -- "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__galley__subcmd__watch)
            opts="-h --server --once --json --color --error-format --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --server)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --color)
                    COMPREPLY=($(compgen -W "auto always never" -- "${cur}"))
                    return 0
                    ;;
                --error-format)
                    COMPREPLY=($(compgen -W "text json" -- "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__help)
            opts="server check report probe validate eval explain-code doctor test diff snapshot routes proxy adapter version crd completions man collateral legacy galley help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 2 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__help__subcmd__adapter)
            opts="new resources"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__help__subcmd__adapter__subcmd__new)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 4 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__help__subcmd__adapter__subcmd__resources)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 4 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__help__subcmd__check)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__help__subcmd__collateral)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__help__subcmd__completions)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__help__subcmd__crd)
            opts="all adapter instance"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__help__subcmd__crd__subcmd__adapter)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 4 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__help__subcmd__crd__subcmd__all)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 4 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__help__subcmd__crd__subcmd__instance)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 4 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__help__subcmd__diff)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__help__subcmd__doctor)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__help__subcmd__eval)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__help__subcmd__explain__subcmd__code)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__help__subcmd__galley)
            opts="validator wait sinks status snapshot watch server"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__help__subcmd__galley__subcmd__server)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 4 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__help__subcmd__galley__subcmd__sinks)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 4 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__help__subcmd__galley__subcmd__snapshot)
            opts="dump diff"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 4 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__help__subcmd__galley__subcmd__snapshot__subcmd__diff)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 5 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__help__subcmd__galley__subcmd__snapshot__subcmd__dump)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 5 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__help__subcmd__galley__subcmd__status)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 4 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__help__subcmd__galley__subcmd__validator)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 4 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__help__subcmd__galley__subcmd__wait)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 4 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__help__subcmd__galley__subcmd__watch)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 4 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__help__subcmd__help)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__help__subcmd__legacy)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__help__subcmd__man)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__help__subcmd__probe)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__help__subcmd__proxy)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__help__subcmd__report)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__help__subcmd__routes)
            opts="show"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__help__subcmd__routes__subcmd__show)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 4 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__help__subcmd__server)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__help__subcmd__snapshot)
            opts="dump"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__help__subcmd__snapshot__subcmd__dump)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 4 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__help__subcmd__test)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__help__subcmd__validate)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__help__subcmd__version)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__legacy)
            opts="-h --color --error-format --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 2 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --color)
                    COMPREPLY=($(compgen -W "auto always never" -- "${cur}"))
                    return 0
                    ;;
                --error-format)
                    COMPREPLY=($(compgen -W "text json" -- "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__man)
            opts="-h --dir --color --error-format --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 2 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --dir)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --color)
                    COMPREPLY=($(compgen -W "auto always never" -- "${cur}"))
                    return 0
                    ;;
                --error-format)
                    COMPREPLY=($(compgen -W "text json" -- "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__probe)
            opts="-o -h --probe-path --interval --grpc --service --http --timeout --watch --output --tls --ca-file --cert-file --key-file --server-name --log-target --log-rotate --log-rotate-max-size --log-rotate-max-age --log-rotate-max-backups --log-as-json --log-output-level --log-stacktrace-level --log-caller --color --error-format --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 2 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --probe-path)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --interval)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --grpc)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --service)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --http)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --timeout)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --output)
                    COMPREPLY=($(compgen -W "plain json" -- "${cur}"))
                    return 0
                    ;;
                -o)
                    COMPREPLY=($(compgen -W "plain json" -- "${cur}"))
                    return 0
                    ;;
                --ca-file)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --cert-file)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --key-file)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --server-name)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --log-target)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --log-rotate)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --log-rotate-max-size)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --log-rotate-max-age)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --log-rotate-max-backups)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --log-as-json)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --log-output-level)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --log-stacktrace-level)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --log-caller)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --color)
                    COMPREPLY=($(compgen -W "auto always never" -- "${cur}"))
                    return 0
                    ;;
                --error-format)
                    COMPREPLY=($(compgen -W "text json" -- "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__proxy)
            opts="-c -l -h --config-path --config-yaml --concurrency --mode --log-level --log-path --admin-address-path --terminate-drain --drain-time-s --drain-strategy --mixer-exact-tcp-deltas --service-node --service-cluster --base-id --disable-hot-restart --color --error-format --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 2 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --config-path)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                -c)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --config-yaml)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --concurrency)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --mode)
                    COMPREPLY=($(compgen -W "serve validate" -- "${cur}"))
                    return 0
                    ;;
                --log-level)
                    COMPREPLY=($(compgen -W "trace debug info warning error critical off" -- "${cur}"))
                    return 0
                    ;;
                -l)
                    COMPREPLY=($(compgen -W "trace debug info warning error critical off" -- "${cur}"))
                    return 0
                    ;;
                --log-path)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --admin-address-path)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --terminate-drain)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --drain-time-s)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --drain-strategy)
                    COMPREPLY=($(compgen -W "gradual immediate" -- "${cur}"))
                    return 0
                    ;;
                --service-node)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --service-cluster)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --base-id)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --color)
                    COMPREPLY=($(compgen -W "auto always never" -- "${cur}"))
                    return 0
                    ;;
                --error-format)
                    COMPREPLY=($(compgen -W "text json" -- "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__report)
            opts="-m -a -s -i -d -b -t -r -c -o -h --mixer --config --default-namespace --attributes --string-attributes --int64-attributes --double-attributes --bool-attributes --timestamp-attributes --duration-attributes --bytes-attributes --ip-attributes --stringmap-attributes --attributes-file --dictionary --repeat --concurrency --rate --report-batch-size --timeout --wait-for-ready --tls --ca-file --cert-file --key-file --server-name --print-response --output --quiet --exit-zero --native-exit-codes --trace-zipkin-url --trace-jaeger-url --trace-otlp-url --trace-log-spans --trace-sampling-rate --color --error-format --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 2 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --mixer)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                -m)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --config)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --default-namespace)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --attributes)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                -a)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --string-attributes)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                -s)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --int64-attributes)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                -i)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --double-attributes)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                -d)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --bool-attributes)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                -b)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --timestamp-attributes)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                -t)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --duration-attributes)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --bytes-attributes)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --ip-attributes)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --stringmap-attributes)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --attributes-file)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --dictionary)
                    COMPREPLY=($(compgen -W "message global" -- "${cur}"))
                    return 0
                    ;;
                --repeat)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                -r)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --concurrency)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                -c)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --rate)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --report-batch-size)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --timeout)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --ca-file)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --cert-file)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --key-file)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --server-name)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --print-response)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --output)
                    COMPREPLY=($(compgen -W "table plain json json-lines yaml" -- "${cur}"))
                    return 0
                    ;;
                -o)
                    COMPREPLY=($(compgen -W "table plain json json-lines yaml" -- "${cur}"))
                    return 0
                    ;;
                --trace-zipkin-url)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --trace-jaeger-url)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --trace-otlp-url)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --trace-log-spans)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --trace-sampling-rate)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --color)
                    COMPREPLY=($(compgen -W "auto always never" -- "${cur}"))
                    return 0
                    ;;
                --error-format)
                    COMPREPLY=($(compgen -W "text json" -- "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__routes)
            opts="-h --color --error-format --help show help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 2 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --color)
                    COMPREPLY=($(compgen -W "auto always never" -- "${cur}"))
                    return 0
                    ;;
                --error-format)
                    COMPREPLY=($(compgen -W "text json" -- "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__routes__subcmd__help)
            opts="show help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__routes__subcmd__help__subcmd__help)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 4 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__routes__subcmd__help__subcmd__show)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 4 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__routes__subcmd__show)
            opts="-o -h --config --server --default-namespace --variety --namespace --handler --match --output --color --error-format --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --config)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --server)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --default-namespace)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --variety)
                    COMPREPLY=($(compgen -W "check report quota attribute-generator check-with-output" -- "${cur}"))
                    return 0
                    ;;
                --namespace)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --handler)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --match)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --output)
                    COMPREPLY=($(compgen -W "table plain json yaml debug" -- "${cur}"))
                    return 0
                    ;;
                -o)
                    COMPREPLY=($(compgen -W "table plain json yaml debug" -- "${cur}"))
                    return 0
                    ;;
                --color)
                    COMPREPLY=($(compgen -W "auto always never" -- "${cur}"))
                    return 0
                    ;;
                --error-format)
                    COMPREPLY=($(compgen -W "text json" -- "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__server)
            opts="-p -h --config-file --print-config --dry-run --port --address --socket-mode --grpc-reflection --monitoring-port --monitoring-address --metrics-port --tls-cert-file --tls-key-file --tls-client-ca-file --tls-client-auth --tls-min-version --tls-allowed-peers --config --config-store-url --config-default-namespace --config-wait-timeout --config-on-error --allow-empty-config --config-cache --config-loss --config-write-status --mcp-max-message-size --cert-file --key-file --ca-cert-file --use-adapter-crds --use-template-crds --concurrency --single-threaded --max-message-size --memory-limit --max-concurrent-streams --max-check-quotas --max-report-records --receive-timeout --max-connection-age --api-worker-pool-size --api-worker-pool-floor --api-queue-length --adapter-worker-pool-size --adapter-worker-pool-floor --adapter-queue-length --num-check-cache-entries --liveness-probe-path --liveness-probe-interval --readiness-probe-path --readiness-probe-interval --pid-file --drain-delay --shutdown-timeout --envoy-bridge --envoy-http-address --envoy-ratelimit-http-address --ctrlz-port --ctrlz-address --ctrlz-readonly --ctrlz-token-file --ctrlz-allowed-hosts --profile --legacy-metrics --heap-profile-rate --load-shedding-mode --average-latency-threshold --latency-samples-per-second --latency-sample-half-life --max-requests-per-second --burst-size --load-shedding-check-reserve --load-shedding-fair --log-target --log-rotate --log-rotate-max-size --log-rotate-max-age --log-rotate-max-backups --log-as-json --log-output-level --log-stacktrace-level --log-caller --trace-zipkin-url --trace-jaeger-url --trace-otlp-url --trace-log-spans --trace-sampling-rate --decision-log --decision-log-sampling --decision-log-select --decision-log-max-size --decision-log-max-backups --decision-queue --decision-mask --record-requests --record-max-requests --record-max-size --color --error-format --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 2 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --config-file)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --port)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                -p)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --address)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --socket-mode)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --grpc-reflection)
                    COMPREPLY=($(compgen -W "auto on off" -- "${cur}"))
                    return 0
                    ;;
                --monitoring-port)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --monitoring-address)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --metrics-port)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --tls-cert-file)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --tls-key-file)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --tls-client-ca-file)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --tls-client-auth)
                    COMPREPLY=($(compgen -W "require optional" -- "${cur}"))
                    return 0
                    ;;
                --tls-min-version)
                    COMPREPLY=($(compgen -W "1.2 1.3" -- "${cur}"))
                    return 0
                    ;;
                --tls-allowed-peers)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --config-store-url)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --config)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --config-default-namespace)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --config-wait-timeout)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --config-on-error)
                    COMPREPLY=($(compgen -W "keep-last serve-valid refuse" -- "${cur}"))
                    return 0
                    ;;
                --allow-empty-config)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --config-cache)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --config-loss)
                    COMPREPLY=($(compgen -W "keep drop" -- "${cur}"))
                    return 0
                    ;;
                --config-write-status)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --mcp-max-message-size)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --cert-file)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --key-file)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --ca-cert-file)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --use-adapter-crds)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --use-template-crds)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --concurrency)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --single-threaded)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --max-message-size)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --memory-limit)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --max-concurrent-streams)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --max-check-quotas)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --max-report-records)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --receive-timeout)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --max-connection-age)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --api-worker-pool-size)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --api-worker-pool-floor)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --api-queue-length)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --adapter-worker-pool-size)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --adapter-worker-pool-floor)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --adapter-queue-length)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --num-check-cache-entries)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --liveness-probe-path)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --liveness-probe-interval)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --readiness-probe-path)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --readiness-probe-interval)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --pid-file)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --drain-delay)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --shutdown-timeout)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --envoy-bridge)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --envoy-http-address)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --envoy-ratelimit-http-address)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --ctrlz-port)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --ctrlz-address)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --ctrlz-readonly)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --ctrlz-token-file)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --ctrlz-allowed-hosts)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --profile)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --legacy-metrics)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --heap-profile-rate)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --load-shedding-mode)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --average-latency-threshold)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --latency-samples-per-second)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --latency-sample-half-life)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --max-requests-per-second)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --burst-size)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --load-shedding-check-reserve)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --load-shedding-fair)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --log-target)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --log-rotate)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --log-rotate-max-size)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --log-rotate-max-age)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --log-rotate-max-backups)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --log-as-json)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --log-output-level)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --log-stacktrace-level)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --log-caller)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --trace-zipkin-url)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --trace-jaeger-url)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --trace-otlp-url)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --trace-log-spans)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --trace-sampling-rate)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --decision-log)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --decision-log-sampling)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --decision-log-select)
                    COMPREPLY=($(compgen -W "all denied" -- "${cur}"))
                    return 0
                    ;;
                --decision-log-max-size)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --decision-log-max-backups)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --decision-queue)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --decision-mask)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --record-requests)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --record-max-requests)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --record-max-size)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --color)
                    COMPREPLY=($(compgen -W "auto always never" -- "${cur}"))
                    return 0
                    ;;
                --error-format)
                    COMPREPLY=($(compgen -W "text json" -- "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__snapshot)
            opts="-h --color --error-format --help dump help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 2 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --color)
                    COMPREPLY=($(compgen -W "auto always never" -- "${cur}"))
                    return 0
                    ;;
                --error-format)
                    COMPREPLY=($(compgen -W "text json" -- "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__snapshot__subcmd__dump)
            opts="-o -h --config --server --default-namespace --section --output --diff --show-secrets --color --error-format --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --config)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --server)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --default-namespace)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --section)
                    COMPREPLY=($(compgen -W "templates adapters handlers instances rules attributes errors" -- "${cur}"))
                    return 0
                    ;;
                --output)
                    COMPREPLY=($(compgen -W "table plain json yaml debug" -- "${cur}"))
                    return 0
                    ;;
                -o)
                    COMPREPLY=($(compgen -W "table plain json yaml debug" -- "${cur}"))
                    return 0
                    ;;
                --diff)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --color)
                    COMPREPLY=($(compgen -W "auto always never" -- "${cur}"))
                    return 0
                    ;;
                --error-format)
                    COMPREPLY=($(compgen -W "text json" -- "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__snapshot__subcmd__help)
            opts="dump help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__snapshot__subcmd__help__subcmd__dump)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 4 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__snapshot__subcmd__help__subcmd__help)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 4 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__test)
            opts="-o -h --config --default-namespace --filter --fail-fast --junit --output --color --error-format --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 2 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --config)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --default-namespace)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --filter)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --junit)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --output)
                    COMPREPLY=($(compgen -W "table plain json yaml" -- "${cur}"))
                    return 0
                    ;;
                -o)
                    COMPREPLY=($(compgen -W "table plain json yaml" -- "${cur}"))
                    return 0
                    ;;
                --color)
                    COMPREPLY=($(compgen -W "auto always never" -- "${cur}"))
                    return 0
                    ;;
                --error-format)
                    COMPREPLY=($(compgen -W "text json" -- "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__validate)
            opts="-o -h --config --default-namespace --allow-empty-config --strict --lint --analyze --suppress --live --output --color --error-format --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 2 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --config)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --default-namespace)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --allow-empty-config)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --suppress)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --live)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --output)
                    COMPREPLY=($(compgen -W "table plain json yaml github sarif" -- "${cur}"))
                    return 0
                    ;;
                -o)
                    COMPREPLY=($(compgen -W "table plain json yaml github sarif" -- "${cur}"))
                    return 0
                    ;;
                --color)
                    COMPREPLY=($(compgen -W "auto always never" -- "${cur}"))
                    return 0
                    ;;
                --error-format)
                    COMPREPLY=($(compgen -W "text json" -- "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        mixer__subcmd__version)
            opts="-s -o -h --short --output --color --error-format --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 2 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --short)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                -s)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --output)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                -o)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --color)
                    COMPREPLY=($(compgen -W "auto always never" -- "${cur}"))
                    return 0
                    ;;
                --error-format)
                    COMPREPLY=($(compgen -W "text json" -- "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
    esac
}

if [[ "${BASH_VERSINFO[0]}" -eq 4 && "${BASH_VERSINFO[1]}" -ge 4 || "${BASH_VERSINFO[0]}" -gt 4 ]]; then
    complete -F _mixer -o nosort -o bashdefault -o default mixer
else
    complete -F _mixer -o bashdefault -o default mixer
fi
