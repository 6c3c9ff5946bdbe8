#!/bin/sh
# Random walks of the model, replayed on the real stores (tests/engine/model_walks.c): 30; TORTURE=1:
# 2,000. WALKS=... of them; SEED=... begins with another one.
#
# usage: test_walks.sh BUILD_DIRECTORY SOURCE_DIRECTORY
set -eu
build=$(realpath "$1")
source=$(realpath "$2")
count=${WALKS:-30}
[ -z "${TORTURE:-}" ] || count=${WALKS:-2000}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

"$source/scripts/model" --guards "$build/pawl" >machine.pml
cp "$source/model/job.pml" .

# Numbers of states as their names.
names=$(sed -n 's/^#define S_\([a-z_]*\) \([0-9]*\)$/s\/^\\([a-z]* [0-9]* [a-z]*\\) \2 \/\\1 \1 \/;t/p' machine.pml)
seed=${SEED:-1}
end=$((seed + count))
while [ "$seed" -lt "$end" ]; do
    echo walk
    spin -DWALK -T -n"$seed" -u3000 job.pml | sed -n 's/^ *walk //p' | sed "$names"
    seed=$((seed + 1))
done >walks
for call in submit signal claim complete fail wait expire stale ended; do
    grep -qw "$call" walks || {
        echo "no walk has the word $call in it"
        exit 1
    }
done
"$build/tests/engine_model_walks" <walks
