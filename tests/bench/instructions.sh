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

# expects STATUS FACTOR : of a check against other counts
expects() {
    awk -v factor="$2" '/^#/ { print; next } { print $1, $2, int($3 * factor) }' \
        "$source/bench/instructions.txt" >"$kept"
    status=0
    said=$(PAWL_BENCH_KEPT=$kept "$source/scripts/bench" --check --build "$build" bench_core) || status=$?
    case $said in
    'Not compared.'* | 'Instructions are counted on x86_64 only'*) return ;;
    esac
    if [ "$status" -ne "$1" ]; then
        echo "with counts $2 times those that are kept the status is $status and not $1: $said"
        exit 1
    fi
}
expects 0 1.03
expects 1 0.93
expects 1 1.07
