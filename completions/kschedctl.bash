# Completes kschedctl in bash.
_kschedctl() {
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} command= word words
    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        case $word in
        explain|lint|snapshot|config|demo|completion) command=$word; break ;;
        esac
    done
    case $previous in
        --as-if-priority) COMPREPLY=(); return ;;
        --as-if-priority-class) COMPREPLY=(); return ;;
        -f|--filename) compopt -o filenames; COMPREPLY=($(compgen -f -- "$current")); return ;;
        --config) compopt -o filenames; COMPREPLY=($(compgen -f -- "$current")); return ;;
        --feature-gates) COMPREPLY=(); return ;;
        --kube-version) COMPREPLY=(); return ;;
        --snapshot) compopt -o filenames; COMPREPLY=($(compgen -f -- "$current")); return ;;
        --kubeconfig) compopt -o filenames; COMPREPLY=($(compgen -f -- "$current")); return ;;
        --context) COMPREPLY=(); return ;;
        --cluster) COMPREPLY=(); return ;;
        --user) COMPREPLY=(); return ;;
        --as) COMPREPLY=(); return ;;
        --as-group) COMPREPLY=(); return ;;
        --request-timeout) COMPREPLY=(); return ;;
        -n|--namespace) COMPREPLY=(); return ;;
        -l|--selector) COMPREPLY=(); return ;;
        --scheduler-name) COMPREPLY=(); return ;;
        -o|--output) COMPREPLY=($(compgen -W 'table wide json yaml markdown name' -- "$current")); return ;;
        --color) COMPREPLY=($(compgen -W 'auto always never' -- "$current")); return ;;
        --with-cluster) compopt -o filenames; COMPREPLY=($(compgen -f -- "$current")); return ;;
        --select) COMPREPLY=(); return ;;
        --ignore) COMPREPLY=(); return ;;
        --fail-on) COMPREPLY=($(compgen -W 'error warning note' -- "$current")); return ;;
        --baseline) compopt -o filenames; COMPREPLY=($(compgen -f -- "$current")); return ;;
        --write-baseline) compopt -o filenames; COMPREPLY=($(compgen -f -- "$current")); return ;;
        --settings) compopt -o filenames; COMPREPLY=($(compgen -f -- "$current")); return ;;
        -o|--output) COMPREPLY=($(compgen -W 'table wide json yaml sarif junit github markdown' -- "$current")); return ;;
        -o|--output) compopt -o filenames; COMPREPLY=($(compgen -f -- "$current")); return ;;
        --mapping) compopt -o filenames; COMPREPLY=($(compgen -f -- "$current")); return ;;
        --color) COMPREPLY=($(compgen -W 'auto always never' -- "$current")); return ;;
        --nodes) COMPREPLY=(); return ;;
        --fail-on) COMPREPLY=($(compgen -W 'error warning note' -- "$current")); return ;;
        --kube-version) COMPREPLY=(); return ;;
    esac
    case $command in
        explain) words='--as-if-priority --as-if-priority-class -w --watch -f --filename -R --recursive --demo --config --feature-gates --kube-version --snapshot --kubeconfig --context --cluster --user --as --as-group --request-timeout -n --namespace -A --all-namespaces -l --selector --scheduler-name -o --output --nodes --color -v --verbose -q --quiet' ;;
        lint) words='[FILE…   rules   explain RULE] -f --filename -R --recursive --demo --config --feature-gates --kube-version --snapshot --kubeconfig --context --cluster --user --as --as-group --request-timeout --with-cluster --live --select --ignore --fail-on --baseline --write-baseline --settings -o --output --color -v --verbose -q --quiet' ;;
        snapshot) words='save show diff -o --output --anonymize --mapping -f --filename -R --recursive --demo --config --feature-gates --kube-version --snapshot --kubeconfig --context --cluster --user --as --as-group --request-timeout --color -v --verbose -q --quiet -o --output --nodes --color' ;;
        config) words='check view --nodes --fail-on -o --output --color -v --verbose -q --quiet --feature-gates --kube-version' ;;
        demo) words='-o --output --nodes --color -v --verbose -q --quiet' ;;
        completion) words='bash zsh fish kubectl' ;;
        *) words='explain lint snapshot config demo completion --help --version' ;;
    esac
    COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -F _kschedctl kschedctl kubectl-ksched
