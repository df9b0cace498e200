# Completes kschedctl in bash.
_kschedctl() {
    local line directive=
    COMPREPLY=()
    while IFS= read -r line; do
        case $line in
        :*) directive=$line ;;
        *) COMPREPLY+=("${line%%$'\t'*}") ;;
        esac
    done < <("${COMP_WORDS[0]}" __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    case $directive in
    :0)
        compopt -o filenames 2>/dev/null
        while IFS= read -r line; do
            COMPREPLY+=("$line")
        done < <(compgen -f -- "${COMP_WORDS[COMP_CWORD]}")
        ;;
    :36) compopt -o nosort 2>/dev/null ;;
    esac
}
complete -F _kschedctl kschedctl kubectl-ksched
