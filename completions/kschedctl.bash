# Completes kschedctl in bash.
_kschedctl_names() {
    compopt -o nosort 2>/dev/null
    COMPREPLY=()
    local name
    while IFS= read -r name; do
        COMPREPLY+=("$name")
    done < <("${COMP_WORDS[0]}" __complete "$1" "${COMP_WORDS[@]:1:COMP_CWORD-1}" "$current" 2>/dev/null)
}
_kschedctl() {
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} command= word words
    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        case $word in
        explain|remedies|wakes|lint|audit|priorities|latency|browse|snapshot|config|simulate|capacity|drain|failures|whatif|races|packing|sampling|topology|demo|version|versions|schema|completion|help) command=$word; break ;;
        esac
    done
    case $command/$previous in
        explain/-f|explain/--filename|remedies/-f|remedies/--filename|wakes/-f|wakes/--filename|lint/-f|lint/--filename|audit/-f|audit/--filename|priorities/-f|priorities/--filename|browse/-f|browse/--filename|snapshot/-f|snapshot/--filename|simulate/-f|simulate/--filename|capacity/-f|capacity/--filename|drain/-f|drain/--filename|failures/-f|failures/--filename|whatif/-f|whatif/--filename|races/-f|races/--filename|packing/-f|packing/--filename|sampling/-f|sampling/--filename|topology/-f|topology/--filename|version/-f|version/--filename) compopt -o filenames; COMPREPLY=($(compgen -f -- "$current")); return ;;
        explain/--config|remedies/--config|wakes/--config|lint/--config|audit/--config|priorities/--config|browse/--config|snapshot/--config|simulate/--config|capacity/--config|drain/--config|failures/--config|whatif/--config|races/--config|packing/--config|sampling/--config|topology/--config|version/--config) compopt -o filenames; COMPREPLY=($(compgen -f -- "$current")); return ;;
        explain/--feature-gates|remedies/--feature-gates|wakes/--feature-gates|lint/--feature-gates|audit/--feature-gates|priorities/--feature-gates|browse/--feature-gates|snapshot/--feature-gates|config/--feature-gates|simulate/--feature-gates|capacity/--feature-gates|drain/--feature-gates|failures/--feature-gates|whatif/--feature-gates|races/--feature-gates|packing/--feature-gates|sampling/--feature-gates|topology/--feature-gates|version/--feature-gates) COMPREPLY=(); return ;;
        explain/--kube-version|remedies/--kube-version|wakes/--kube-version|lint/--kube-version|audit/--kube-version|priorities/--kube-version|browse/--kube-version|snapshot/--kube-version|config/--kube-version|simulate/--kube-version|capacity/--kube-version|drain/--kube-version|failures/--kube-version|whatif/--kube-version|races/--kube-version|packing/--kube-version|sampling/--kube-version|topology/--kube-version|version/--kube-version) COMPREPLY=(); return ;;
        explain/--snapshot|remedies/--snapshot|wakes/--snapshot|lint/--snapshot|audit/--snapshot|priorities/--snapshot|browse/--snapshot|snapshot/--snapshot|simulate/--snapshot|capacity/--snapshot|drain/--snapshot|failures/--snapshot|whatif/--snapshot|races/--snapshot|packing/--snapshot|sampling/--snapshot|topology/--snapshot|version/--snapshot) compopt -o filenames; COMPREPLY=($(compgen -f -- "$current")); return ;;
        explain/--kubeconfig|remedies/--kubeconfig|wakes/--kubeconfig|lint/--kubeconfig|audit/--kubeconfig|priorities/--kubeconfig|latency/--kubeconfig|browse/--kubeconfig|snapshot/--kubeconfig|config/--kubeconfig|simulate/--kubeconfig|capacity/--kubeconfig|drain/--kubeconfig|failures/--kubeconfig|whatif/--kubeconfig|races/--kubeconfig|packing/--kubeconfig|sampling/--kubeconfig|topology/--kubeconfig|version/--kubeconfig) compopt -o filenames; COMPREPLY=($(compgen -f -- "$current")); return ;;
        explain/--context|remedies/--context|wakes/--context|lint/--context|audit/--context|priorities/--context|latency/--context|browse/--context|snapshot/--context|config/--context|simulate/--context|capacity/--context|drain/--context|failures/--context|whatif/--context|races/--context|packing/--context|sampling/--context|topology/--context|version/--context) _kschedctl_names contexts; return ;;
        explain/--cluster|remedies/--cluster|wakes/--cluster|lint/--cluster|audit/--cluster|priorities/--cluster|browse/--cluster|snapshot/--cluster|simulate/--cluster|capacity/--cluster|drain/--cluster|failures/--cluster|whatif/--cluster|races/--cluster|packing/--cluster|sampling/--cluster|topology/--cluster|version/--cluster) _kschedctl_names clusters; return ;;
        explain/--user|remedies/--user|wakes/--user|lint/--user|audit/--user|priorities/--user|browse/--user|snapshot/--user|simulate/--user|capacity/--user|drain/--user|failures/--user|whatif/--user|races/--user|packing/--user|sampling/--user|topology/--user|version/--user) _kschedctl_names users; return ;;
        explain/--as|remedies/--as|wakes/--as|lint/--as|audit/--as|priorities/--as|browse/--as|snapshot/--as|simulate/--as|capacity/--as|drain/--as|failures/--as|whatif/--as|races/--as|packing/--as|sampling/--as|topology/--as|version/--as) COMPREPLY=(); return ;;
        explain/--as-group|remedies/--as-group|wakes/--as-group|lint/--as-group|audit/--as-group|priorities/--as-group|browse/--as-group|snapshot/--as-group|simulate/--as-group|capacity/--as-group|drain/--as-group|failures/--as-group|whatif/--as-group|races/--as-group|packing/--as-group|sampling/--as-group|topology/--as-group|version/--as-group) COMPREPLY=(); return ;;
        explain/--request-timeout|remedies/--request-timeout|wakes/--request-timeout|lint/--request-timeout|audit/--request-timeout|priorities/--request-timeout|browse/--request-timeout|snapshot/--request-timeout|simulate/--request-timeout|capacity/--request-timeout|drain/--request-timeout|failures/--request-timeout|whatif/--request-timeout|races/--request-timeout|packing/--request-timeout|sampling/--request-timeout|topology/--request-timeout|version/--request-timeout) COMPREPLY=(); return ;;
        explain/-n|explain/--namespace|remedies/-n|remedies/--namespace|wakes/-n|wakes/--namespace|lint/-n|lint/--namespace|browse/-n|browse/--namespace|simulate/-n|simulate/--namespace|capacity/-n|capacity/--namespace|sampling/-n|sampling/--namespace|topology/-n|topology/--namespace) _kschedctl_names namespaces; return ;;
        explain/-l|explain/--selector|remedies/-l|remedies/--selector|wakes/-l|wakes/--selector|lint/-l|lint/--selector|browse/-l|browse/--selector|drain/-l|drain/--selector) COMPREPLY=(); return ;;
        explain/--scheduler-name|remedies/--scheduler-name|wakes/--scheduler-name|browse/--scheduler-name) COMPREPLY=(); return ;;
        explain/-o|explain/--output|simulate/-o|simulate/--output|drain/-o|drain/--output|failures/-o|failures/--output|whatif/-o|whatif/--output) COMPREPLY=($(compgen -W 'table wide json yaml markdown html csv name svg png jsonpath= custom-columns=' -- "$current")); return ;;
        explain/--color|remedies/--color|wakes/--color|lint/--color|audit/--color|priorities/--color|latency/--color|snapshot/--color|snapshot/--color|config/--color|simulate/--color|capacity/--color|drain/--color|failures/--color|whatif/--color|races/--color|packing/--color|sampling/--color|topology/--color|demo/--color|version/--color|versions/--color) COMPREPLY=($(compgen -W 'auto always never' -- "$current")); return ;;
        explain/--record-extenders|remedies/--record-extenders|simulate/--record-extenders|capacity/--record-extenders|drain/--record-extenders|failures/--record-extenders|whatif/--record-extenders) compopt -o filenames; COMPREPLY=($(compgen -f -- "$current")); return ;;
        explain/--extender-answers|remedies/--extender-answers|simulate/--extender-answers|capacity/--extender-answers|drain/--extender-answers|failures/--extender-answers|whatif/--extender-answers) compopt -o filenames; COMPREPLY=($(compgen -f -- "$current")); return ;;
        explain/--start-index|simulate/--start-index|capacity/--start-index|drain/--start-index|failures/--start-index|whatif/--start-index) COMPREPLY=(); return ;;
        explain/--as-if-priority) COMPREPLY=(); return ;;
        explain/--as-if-priority-class) _kschedctl_names priority-classes; return ;;
        explain/--as-if) COMPREPLY=(); return ;;
        remedies/--max-changes) COMPREPLY=(); return ;;
        remedies/--by) COMPREPLY=(); return ;;
        remedies/--only) COMPREPLY=(); return ;;
        remedies/--without) COMPREPLY=(); return ;;
        remedies/-o|remedies/--output) COMPREPLY=($(compgen -W 'table wide json yaml markdown html patch jsonpath= custom-columns=' -- "$current")); return ;;
        wakes/--event) compopt -o filenames; COMPREPLY=($(compgen -f -- "$current")); return ;;
        wakes/--between) compopt -o filenames; COMPREPLY=($(compgen -f -- "$current")); return ;;
        wakes/-o|wakes/--output|snapshot/-o|snapshot/--output|version/-o|version/--output|versions/-o|versions/--output) COMPREPLY=($(compgen -W 'table wide json yaml markdown html jsonpath= custom-columns=' -- "$current")); return ;;
        lint/--with-cluster) compopt -o filenames; COMPREPLY=($(compgen -f -- "$current")); return ;;
        lint/--values) compopt -o filenames; COMPREPLY=($(compgen -f -- "$current")); return ;;
        lint/--severity) COMPREPLY=($(compgen -W 'error warning note' -- "$current")); return ;;
        lint/--exclude) COMPREPLY=(); return ;;
        lint/--profile) COMPREPLY=($(compgen -W 'default strict all' -- "$current")); return ;;
        lint/--select) _kschedctl_names rules; return ;;
        lint/--ignore) _kschedctl_names rules; return ;;
        lint/--fail-on|config/--fail-on) COMPREPLY=($(compgen -W 'error warning note' -- "$current")); return ;;
        lint/--baseline) compopt -o filenames; COMPREPLY=($(compgen -f -- "$current")); return ;;
        lint/--write-baseline) compopt -o filenames; COMPREPLY=($(compgen -f -- "$current")); return ;;
        lint/--settings) compopt -o filenames; COMPREPLY=($(compgen -f -- "$current")); return ;;
        lint/-o|lint/--output|config/-o|config/--output) COMPREPLY=($(compgen -W 'table wide json yaml sarif junit github markdown html jsonpath= custom-columns=' -- "$current")); return ;;
        audit/--section) COMPREPLY=($(compgen -W 'pending creation queue placed races latency sampling leader priorities topology packing' -- "$current")); return ;;
        audit/-o|audit/--output|latency/-o|latency/--output|packing/-o|packing/--output) COMPREPLY=($(compgen -W 'table wide json yaml markdown html svg png sarif junit github jsonpath= custom-columns=' -- "$current")); return ;;
        audit/--fail-on|priorities/--fail-on|latency/--fail-on|packing/--fail-on|topology/--fail-on) COMPREPLY=($(compgen -W 'error warning note never' -- "$current")); return ;;
        audit/--metrics|latency/--metrics) compopt -o filenames; COMPREPLY=($(compgen -f -- "$current")); return ;;
        audit/--prometheus|latency/--prometheus) COMPREPLY=(); return ;;
        audit/--prometheus-labels|latency/--prometheus-labels) COMPREPLY=(); return ;;
        audit/--window|latency/--window) COMPREPLY=(); return ;;
        audit/--target|latency/--target) COMPREPLY=(); return ;;
        audit/--metrics-token-file|latency/--metrics-token-file) compopt -o filenames; COMPREPLY=($(compgen -f -- "$current")); return ;;
        audit/--metrics-ca-file|latency/--metrics-ca-file) compopt -o filenames; COMPREPLY=($(compgen -f -- "$current")); return ;;
        audit/--now|priorities/--now) COMPREPLY=(); return ;;
        audit/--since) compopt -o filenames; COMPREPLY=($(compgen -f -- "$current")); return ;;
        priorities/--grow) COMPREPLY=(); return ;;
        priorities/--tier) COMPREPLY=(); return ;;
        priorities/--starving-after) COMPREPLY=(); return ;;
        priorities/-o|priorities/--output|topology/-o|topology/--output) COMPREPLY=($(compgen -W 'table wide json yaml markdown html sarif junit github jsonpath= custom-columns=' -- "$current")); return ;;
        snapshot/-o|snapshot/--output) compopt -o filenames; COMPREPLY=($(compgen -f -- "$current")); return ;;
        snapshot/--mapping) compopt -o filenames; COMPREPLY=($(compgen -f -- "$current")); return ;;
        config/--cluster-size) COMPREPLY=(); return ;;
        simulate/--seed|capacity/--seed|drain/--seed|failures/--seed|whatif/--seed|races/--seed) COMPREPLY=(); return ;;
        simulate/--jobs|capacity/--jobs|drain/--jobs|failures/--jobs|whatif/--jobs) COMPREPLY=(); return ;;
        simulate/--dask|capacity/--dask|drain/--dask|failures/--dask|whatif/--dask) COMPREPLY=(); return ;;
        simulate/--runs|capacity/--runs|drain/--runs|failures/--runs|whatif/--runs|races/--runs) COMPREPLY=(); return ;;
        simulate/--follow) COMPREPLY=(); return ;;
        capacity/--max) COMPREPLY=(); return ;;
        capacity/-o|capacity/--output|races/-o|races/--output) COMPREPLY=($(compgen -W 'table wide json yaml markdown html csv svg png jsonpath= custom-columns=' -- "$current")); return ;;
        whatif/--compare-config) compopt -o filenames; COMPREPLY=($(compgen -f -- "$current")); return ;;
        whatif/--compare-version) COMPREPLY=(); return ;;
        races/--nodes|packing/--nodes) COMPREPLY=(); return ;;
        races/--rate) COMPREPLY=(); return ;;
        races/--expiry) COMPREPLY=($(compgen -W 'TIME adaptive never' -- "$current")); return ;;
        races/--binding-latency) COMPREPLY=(); return ;;
        races/--informer-lag) COMPREPLY=(); return ;;
        races/--instances) COMPREPLY=(); return ;;
        races/--pods-per-node) COMPREPLY=(); return ;;
        races/--load) COMPREPLY=(); return ;;
        races/--duration) COMPREPLY=(); return ;;
        sampling/--kinds) COMPREPLY=(); return ;;
        sampling/--max-loss) COMPREPLY=(); return ;;
        sampling/-o|sampling/--output) COMPREPLY=($(compgen -W 'table wide json yaml markdown html svg png jsonpath= custom-columns=' -- "$current")); return ;;
        topology/--key) COMPREPLY=(); return ;;
        demo/-o|demo/--output) COMPREPLY=($(compgen -W 'table wide json yaml markdown html csv name jsonpath= custom-columns=' -- "$current")); return ;;
        lint/explain) _kschedctl_names rules; return ;;
    esac
    case $command/$current in
        explain/-*) words='--no-remedies -w --watch -f --filename -R --recursive --assume-complete --demo --config --feature-gates --kube-version --snapshot --kubeconfig --context --cluster --user --as --as-group --request-timeout -n --namespace -A --all-namespaces -l --selector --scheduler-name -o --output --color -v --verbose -q --quiet --brief --summary --each-node --plot --call-extenders --record-extenders --extender-answers --sampling --start-index --as-if-priority --as-if-priority-class --as-if' ;;
        explain/*) _kschedctl_names pods; return ;;
        remedies/-*) words='--max-changes --by --only --without -f --filename -R --recursive --assume-complete --demo --config --feature-gates --kube-version --snapshot --kubeconfig --context --cluster --user --as --as-group --request-timeout -n --namespace -A --all-namespaces -l --selector --scheduler-name -o --output --color -v --verbose -q --quiet --brief --summary --call-extenders --record-extenders --extender-answers' ;;
        remedies/*) _kschedctl_names pods; return ;;
        wakes/-*) words='--event --between -f --filename -R --recursive --assume-complete --demo --config --feature-gates --kube-version --snapshot --kubeconfig --context --cluster --user --as --as-group --request-timeout -n --namespace -A --all-namespaces -l --selector --scheduler-name -o --output --color -v --verbose -q --quiet --brief --summary' ;;
        wakes/*) _kschedctl_names pods; return ;;
        lint/-*) words='-f --filename -R --recursive --assume-complete --demo --config --feature-gates --kube-version --snapshot --kubeconfig --context --cluster --user --as --as-group --request-timeout --with-cluster --live --kustomize --helm --values --severity -n --namespace -l --selector --exclude --profile --select --ignore --fail-on --baseline --write-baseline --strict --settings --fix --diff -o --output --color -v --verbose -q --quiet --show-fixes' ;;
        lint/*) COMPREPLY=($(compgen -W 'rules explain' -- "$current")); compopt -o filenames; COMPREPLY+=($(compgen -f -- "$current")); return ;;
        audit/-*) words='--section -f --filename -R --recursive --assume-complete --demo --config --feature-gates --kube-version --snapshot --kubeconfig --context --cluster --user --as --as-group --request-timeout -o --output --color -v --verbose -q --quiet --brief --summary --fail-on --plot --metrics --prometheus --prometheus-labels --window --target --metrics-token-file --metrics-ca-file --metrics-insecure --now --since' ;;
        audit/*) COMPREPLY=($(compgen -W '' -- "$current")); return ;;
        priorities/-*) words='--grow --tier --starving-after -f --filename -R --recursive --assume-complete --demo --config --feature-gates --kube-version --snapshot --kubeconfig --context --cluster --user --as --as-group --request-timeout -o --output --color -v --verbose -q --quiet --brief --summary --fail-on --now' ;;
        priorities/*) COMPREPLY=($(compgen -W '' -- "$current")); return ;;
        latency/-*) words='--kubeconfig --context --metrics --prometheus --prometheus-labels --window --target --metrics-token-file --metrics-ca-file --metrics-insecure -o --output --color -v --verbose -q --quiet --brief --summary --fail-on --plot' ;;
        latency/*) COMPREPLY=($(compgen -W '' -- "$current")); return ;;
        browse/-*) words='-f --filename -R --recursive --assume-complete --demo --config --feature-gates --kube-version --snapshot --kubeconfig --context --cluster --user --as --as-group --request-timeout -n --namespace -A --all-namespaces -l --selector --scheduler-name' ;;
        browse/*) COMPREPLY=($(compgen -W '' -- "$current")); return ;;
        snapshot/-*) words='-o --output --anonymize --mapping -f --filename -R --recursive --assume-complete --demo --config --feature-gates --kube-version --snapshot --kubeconfig --context --cluster --user --as --as-group --request-timeout --color -v --verbose -q --quiet -o --output --color --brief --summary' ;;
        snapshot/*) COMPREPLY=($(compgen -W 'save show diff' -- "$current")); compopt -o filenames; COMPREPLY+=($(compgen -f -- "$current")); return ;;
        config/-*) words='--cluster-size --fail-on -o --output --color -v --verbose -q --quiet --show-fixes --feature-gates --kube-version --live --kubeconfig --context' ;;
        config/*) COMPREPLY=($(compgen -W 'check view' -- "$current")); compopt -o filenames; COMPREPLY+=($(compgen -f -- "$current")); return ;;
        simulate/-*) words='-n --namespace -f --filename -R --recursive --assume-complete --demo --config --feature-gates --kube-version --snapshot --kubeconfig --context --cluster --user --as --as-group --request-timeout --seed --jobs --dask --sampling --start-index --runs -o --output --color -v --verbose -q --quiet --brief --summary --plot --call-extenders --record-extenders --extender-answers --rollout --pending --follow' ;;
        simulate/*) COMPREPLY=($(compgen -W '' -- "$current")); return ;;
        capacity/-*) words='-n --namespace --max -f --filename -R --recursive --assume-complete --demo --config --feature-gates --kube-version --snapshot --kubeconfig --context --cluster --user --as --as-group --request-timeout --seed --jobs --dask --sampling --start-index --runs -o --output --color -v --verbose -q --quiet --brief --summary --plot --call-extenders --record-extenders --extender-answers' ;;
        capacity/*) COMPREPLY=($(compgen -W '' -- "$current")); return ;;
        drain/-*) words='-l --selector -f --filename -R --recursive --assume-complete --demo --config --feature-gates --kube-version --snapshot --kubeconfig --context --cluster --user --as --as-group --request-timeout --seed --jobs --dask --sampling --start-index --runs -o --output --color -v --verbose -q --quiet --brief --summary --plot --call-extenders --record-extenders --extender-answers' ;;
        drain/*) _kschedctl_names nodes; return ;;
        failures/-*) words='--nodes --zones --pools --pairs -f --filename -R --recursive --assume-complete --demo --config --feature-gates --kube-version --snapshot --kubeconfig --context --cluster --user --as --as-group --request-timeout --seed --jobs --dask --sampling --start-index --runs -o --output --color -v --verbose -q --quiet --brief --summary --plot --call-extenders --record-extenders --extender-answers' ;;
        failures/*) COMPREPLY=($(compgen -W '' -- "$current")); return ;;
        whatif/-*) words='--compare-config --compare-version -f --filename -R --recursive --assume-complete --demo --config --feature-gates --kube-version --snapshot --kubeconfig --context --cluster --user --as --as-group --request-timeout --seed --jobs --dask --sampling --start-index --runs -o --output --color -v --verbose -q --quiet --brief --summary --plot --call-extenders --record-extenders --extender-answers' ;;
        whatif/*) COMPREPLY=($(compgen -W '' -- "$current")); compopt -o filenames; COMPREPLY+=($(compgen -f -- "$current")); return ;;
        races/-*) words='-f --filename -R --recursive --assume-complete --demo --config --feature-gates --kube-version --snapshot --kubeconfig --context --cluster --user --as --as-group --request-timeout --nodes --rate --expiry --binding-latency --informer-lag --instances --pods-per-node --load --duration --seed --runs -o --output --color -v --verbose -q --quiet --brief --summary --plot' ;;
        races/*) COMPREPLY=($(compgen -W '' -- "$current")); return ;;
        packing/-*) words='--nodes -f --filename -R --recursive --assume-complete --demo --config --feature-gates --kube-version --snapshot --kubeconfig --context --cluster --user --as --as-group --request-timeout -o --output --color -v --verbose -q --quiet --brief --summary --fail-on --plot' ;;
        packing/*) COMPREPLY=($(compgen -W '' -- "$current")); return ;;
        sampling/-*) words='-n --namespace --kinds --max-loss -f --filename -R --recursive --assume-complete --demo --config --feature-gates --kube-version --snapshot --kubeconfig --context --cluster --user --as --as-group --request-timeout -o --output --color -v --verbose -q --quiet --brief --summary --plot' ;;
        sampling/*) _kschedctl_names pods; return ;;
        topology/-*) words='-n --namespace --key -f --filename -R --recursive --assume-complete --demo --config --feature-gates --kube-version --snapshot --kubeconfig --context --cluster --user --as --as-group --request-timeout -o --output --color -v --verbose -q --quiet --brief --summary --fail-on' ;;
        topology/*) COMPREPLY=($(compgen -W '' -- "$current")); return ;;
        demo/-*) words='-o --output --color -v --verbose -q --quiet --brief --summary --each-node' ;;
        demo/*) COMPREPLY=($(compgen -W '' -- "$current")); return ;;
        version/-*) words='-f --filename -R --recursive --assume-complete --demo --config --feature-gates --kube-version --snapshot --kubeconfig --context --cluster --user --as --as-group --request-timeout -o --output --color -v --verbose -q --quiet --brief --summary' ;;
        version/*) COMPREPLY=($(compgen -W '' -- "$current")); return ;;
        versions/-*) words='-o --output --color -v --verbose -q --quiet --brief --summary' ;;
        versions/*) COMPREPLY=($(compgen -W '' -- "$current")); compopt -o filenames; COMPREPLY+=($(compgen -f -- "$current")); return ;;
        schema/-*) words='' ;;
        schema/*) COMPREPLY=($(compgen -W '' -- "$current")); return ;;
        completion/-*) words='' ;;
        completion/*) COMPREPLY=($(compgen -W 'bash zsh fish kubectl' -- "$current")); return ;;
        help/-*) words='' ;;
        help/*) COMPREPLY=($(compgen -W '' -- "$current")); return ;;
        *) words='explain remedies wakes lint audit priorities latency browse snapshot config simulate capacity drain failures whatif races packing sampling topology demo version versions schema completion help --help --version' ;;
    esac
    COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -F _kschedctl kschedctl kubectl-ksched
