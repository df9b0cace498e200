# Completes kschedctl in bash.
_kschedctl() {
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} command= word words
    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        case $word in
        explain|demo|completion) command=$word; break ;;
        esac
    done
    case $previous in
        --as-if-priority) COMPREPLY=(); return ;;
        --as-if-priority-class) COMPREPLY=(); return ;;
        -f|--filename) compopt -o filenames; COMPREPLY=($(compgen -f -- "$current")); return ;;
        --config) compopt -o filenames; COMPREPLY=($(compgen -f -- "$current")); return ;;
        --feature-gates) COMPREPLY=(); return ;;
        --kube-version) COMPREPLY=(); return ;;
        -n|--namespace) COMPREPLY=(); return ;;
        -l|--selector) COMPREPLY=(); return ;;
        --scheduler-name) COMPREPLY=(); return ;;
        -o|--output) COMPREPLY=($(compgen -W 'table wide json yaml markdown name' -- "$current")); return ;;
        --color) COMPREPLY=($(compgen -W 'auto always never' -- "$current")); return ;;
    esac
    case $command in
        explain) words='--as-if-priority --as-if-priority-class -f --filename -R --recursive --demo --config --feature-gates --kube-version -n --namespace -A --all-namespaces -l --selector --scheduler-name -o --output --nodes --color -v --verbose -q --quiet' ;;
        demo) words='-o --output --nodes --color -v --verbose -q --quiet' ;;
        completion) words='bash zsh fish' ;;
        *) words='explain demo completion --help --version' ;;
    esac
    COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -F _kschedctl kschedctl kubectl-ksched
