# Completes kschedctl in bash.
_kschedctl() {
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} command= word words
    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        case $word in
        explain|lint|snapshot|config|simulate|capacity|drain|failures|whatif|demo|completion) command=$word; break ;;
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
        -o|--output) COMPREPLY=($(compgen -W 'table wide json yaml markdown csv name' -- "$current")); return ;;
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
        -n|--namespace) COMPREPLY=(); return ;;
        --seed) COMPREPLY=(); return ;;
        --jobs) COMPREPLY=(); return ;;
        --dask) COMPREPLY=(); return ;;
        --runs) COMPREPLY=(); return ;;
        --max) COMPREPLY=(); return ;;
        -l|--selector) COMPREPLY=(); return ;;
        --compare-config) COMPREPLY=(); return ;;
    esac
    case $command in
        explain) words='--as-if-priority --as-if-priority-class -w --watch -f --filename -R --recursive --demo --config --feature-gates --kube-version --snapshot --kubeconfig --context --cluster --user --as --as-group --request-timeout -n --namespace -A --all-namespaces -l --selector --scheduler-name -o --output --color -v --verbose -q --quiet --nodes' ;;
        lint) words='[FILE…   rules   explain RULE] -f --filename -R --recursive --demo --config --feature-gates --kube-version --snapshot --kubeconfig --context --cluster --user --as --as-group --request-timeout --with-cluster --live --select --ignore --fail-on --baseline --write-baseline --settings -o --output --color -v --verbose -q --quiet' ;;
        snapshot) words='save show diff -o --output --anonymize --mapping -f --filename -R --recursive --demo --config --feature-gates --kube-version --snapshot --kubeconfig --context --cluster --user --as --as-group --request-timeout --color -v --verbose -q --quiet -o --output --color --nodes' ;;
        config) words='check view --nodes --fail-on -o --output --color -v --verbose -q --quiet --feature-gates --kube-version' ;;
        simulate) words='-n --namespace --rollout --pending -f --filename -R --recursive --demo --config --feature-gates --kube-version --snapshot --kubeconfig --context --cluster --user --as --as-group --request-timeout --seed --jobs --dask --sampling --runs -o --output --color -v --verbose -q --quiet' ;;
        capacity) words='-n --namespace --max -f --filename -R --recursive --demo --config --feature-gates --kube-version --snapshot --kubeconfig --context --cluster --user --as --as-group --request-timeout --seed --jobs --dask --sampling --runs -o --output --color -v --verbose -q --quiet --nodes' ;;
        drain) words='-l --selector --seed --sampling -f --filename -R --recursive --demo --config --feature-gates --kube-version --snapshot --kubeconfig --context --cluster --user --as --as-group --request-timeout -o --output --color -v --verbose -q --quiet' ;;
        failures) words='--nodes --zones --pools --pairs -f --filename -R --recursive --demo --config --feature-gates --kube-version --snapshot --kubeconfig --context --cluster --user --as --as-group --request-timeout --seed --jobs --dask -o --output --color -v --verbose -q --quiet' ;;
        whatif) words='--compare-config --seed --sampling -f --filename -R --recursive --demo --config --feature-gates --kube-version --snapshot --kubeconfig --context --cluster --user --as --as-group --request-timeout -o --output --color -v --verbose -q --quiet' ;;
        demo) words='-o --output --color -v --verbose -q --quiet --nodes' ;;
        completion) words='bash zsh fish kubectl' ;;
        *) words='explain lint snapshot config simulate capacity drain failures whatif demo completion --help --version' ;;
    esac
    COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -F _kschedctl kschedctl kubectl-ksched
