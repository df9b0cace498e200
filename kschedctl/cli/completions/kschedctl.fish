# Completes kschedctl in fish.
function __kschedctl_candidates
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l lines ($words[1] __complete $words[2..-1] "$current" 2>/dev/null)
    or return
    printf '%s\n' $lines[1..-2]
    test "$lines[-1]" != :0
    or __fish_complete_path "$current"
end
for program in kschedctl kubectl-ksched
    complete -c $program -f -k -a '(__kschedctl_candidates)'
end
