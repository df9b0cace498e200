#!/bin/sh
# Gate a pull request: its manifests must be free of lint errors and must fit the cluster.
#
#   ci-gate.sh FOLDER SNAPSHOT     ci-gate.sh deploy/ prod.ksnap
#
# Make the snapshot where the cluster can be read, every night, say, and keep it as an artifact:
#   kschedctl snapshot save -o prod.ksnap
# Exits with 0 if everything fits, else with the first exit code that is not 0.
set -u
folder=$1 snapshot=$2

kschedctl lint "$folder" -R --snapshot "$snapshot" --fail-on error -o github || exit

kschedctl simulate -f "$folder" -R --snapshot "$snapshot" --rollout --max-new-pending 0 -o github
code=$?
case $code in
0) echo "all pods fit" ;;
1) echo "some pods would not get a node" ;;
5) echo "undecided: something that matters was not read; see the first line" ;; # let it pass with: code=0
*) echo "kschedctl failed" ;;
esac
exit $code
