#!/bin/sh
# The command line from outside: what it prints, where, and how it exits.
#
# usage: test_cli.sh BUILD SOURCE
set -u
build=$1
source=$2

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

complain() {
    echo "FAIL: $*"
    sed 's/^/  stdout: /' "$work/out"
    sed 's/^/  stderr: /' "$work/err"
    failures=$((failures + 1))
}

# runs EXIT ARGUMENT... : runs pawl, keeps what it printed, and expects that exit code. Whoever
# fails prints nothing on stdout and something on stderr, whoever succeeds prints nothing on stderr.
runs() {
    expected=$1
    shift
    what="pawl $*"
    "$build/pawl" "$@" >"$work/out" 2>"$work/err"
    status=$?
    [ $status -eq "$expected" ] || complain "$what exits with $status, not $expected"
    if [ "$expected" -eq 0 ]; then
        [ ! -s "$work/err" ] || complain "$what complains"
    else
        [ ! -s "$work/out" ] || complain "$what fails, but prints on stdout"
        [ -s "$work/err" ] || complain "$what fails without a word"
    fi
}

# prints TEXT, says TEXT : the last run had this on stdout, on stderr
prints() {
    grep -q -F -e "$1" "$work/out" || complain "$what does not print: $1"
}

says() {
    grep -q -F -e "$1" "$work/err" || complain "$what does not say: $1"
}

# lines COUNT : the last run printed so many
lines() {
    count=$(wc -l <"$work/out")
    [ "$count" -eq "$1" ] || complain "$what prints $count lines, not $1"
}

tab=$(printf '\t')

# --- machine ---
runs 0 machine job --format tsv
lines 39
prints "none${tab}job_created${tab}queued"
prints "running${tab}wait_completed${tab}queued"
prints "running${tab}job_waiting${tab}waiting"
prints "running${tab}job_waiting${tab}parked"
prints "dead_lettered${tab}job_requeued${tab}retrying"
awk -F '\t' 'NF != 3 || /(^|\t)(\t|$)/ { exit 1 }' "$work/out" || complain 'a line has not three fields'
[ "$(sort -u "$work/out" | wc -l)" -eq 39 ] || complain 'a line comes twice'

runs 0 machine step --format tsv
lines 17
prints "lease_timeout${tab}pending"
awk -F '\t' 'NF != 2 { exit 1 }' "$work/out" || complain 'a line has not two fields'

runs 0 machine job
prints 'state \ event'
cp "$work/out" "$work/table"
runs 0 machine job --format table
cmp -s "$work/out" "$work/table" || complain 'the table is not what is printed when nothing is said'
runs 0 machine --format=table job
cmp -s "$work/out" "$work/table" || complain 'the order of arguments matters'

runs 0 machine step
prints 'step_needs_user'
for kind in job step; do
    runs 0 machine $kind --format mermaid
    [ "$(head -n 1 "$work/out")" = stateDiagram-v2 ] || complain "$what is not a state diagram"
done

runs 2 machine
says 'job or step'
runs 2 machine worker
says "'worker'"
runs 2 machine job step
says "'step'"
runs 2 machine job --format
says 'table, tsv, mermaid'
runs 2 machine job --format yaml
says "'yaml'"
says 'table, tsv, mermaid'
runs 2 machine job --format=
runs 2 machine job --formatted tsv
says "'--formatted'"
runs 2 machine job --verbose
says "'--verbose'"
says 'pawl help machine'

# --- version ---
runs 0 version
lines 1
version=$(sed -n "s/^  version: '\(.*\)',\$/\1/p" "$source/meson.build")
[ -n "$version" ] || complain 'meson.build does not say its version where this test looks'
prints "pawl $version"
runs 0 --version
prints "pawl $version"
runs 2 version 2
says "'2'"

# --- help ---
runs 0 help
for verb in help machine version; do
    prints "  $verb "
done
cp "$work/out" "$work/help"
runs 0 --help
cmp -s "$work/out" "$work/help" || complain '--help is not help'
runs 0 -h
cmp -s "$work/out" "$work/help" || complain '-h is not help'
for verb in help machine version; do
    runs 0 help $verb
    prints "usage: pawl $verb"
    cp "$work/out" "$work/help"
    runs 0 $verb --help
    cmp -s "$work/out" "$work/help" || complain "$verb --help is not help $verb"
done
runs 2 help machine version
says "'version'"
runs 2 help nothing
says "'nothing'"

# --- wrong verbs ---
runs 2
says 'usage: pawl'
for pair in machin:machine mahcine:machine Machine:machine machines:machine verison:version \
    vers:version hlep:help elp:help; do
    runs 2 "${pair%:*}"
    says "there is no verb '${pair%:*}'"
    says "the nearest is '${pair#*:}'"
done
runs 2 ''
says "''"
runs 2 "$(printf '%0300d' 0)"
runs 2 --store
says "'--store'"

# --- output that does not arrive is not a success ---
if [ -w /dev/full ]; then
    "$build/pawl" machine job >/dev/full 2>"$work/err"
    status=$?
    : >"$work/out"
    [ $status -eq 1 ] || complain "pawl on a full disk exits with $status, not 1"
    [ -s "$work/err" ] || complain 'pawl on a full disk does not complain'
fi

[ $failures -eq 0 ] || echo "$failures failed"
[ $failures -eq 0 ]
