#!/bin/sh
# What a job costs in instructions, in the core, in the library and in a server, is what
# bench/instructions.txt says; and scripts/bench notices when it is not.
#
# usage: instructions.sh BUILD SOURCE
set -eu
build=$1 source=$2

kept=$(mktemp)
trap 'rm -f "$kept"' EXIT

"$source/scripts/bench" --check --build "$build"

# sees FACTOR : a check against counts that are so many times those that are kept fails
sees() {
    awk -v factor="$1" '/^#/ { print; next } { print $1, $2, int($3 * factor) }' \
        "$source/bench/instructions.txt" >"$kept"
    status=0
    said=$(PAWL_BENCH_KEPT=$kept PAWL_BENCH_TRIES=1 \
        "$source/scripts/bench" --check --build "$build" bench_core) || status=$?
    case $said in
    'Not compared.'* | 'Instructions are counted on x86_64 only'*) return ;;
    esac
    if [ "$status" -ne 1 ] || [ "$(echo "$said" | grep -c -e '<--')" -ne 4 ]; then
        echo "with counts $1 times those that are kept the status is $status: $said"
        exit 1
    fi
}
sees 0.93
sees 1.07
