#!/bin/sh
# The command line from outside: help, options, wrong usage, and the verbs that need no store.
#
# usage: test_cli.sh BUILD SOURCE
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

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
says 'job, step'
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
runs 0 version --json
json "a['version'] == '$version'"
runs 2 version 2
says "'2'"

# --- help ---
runs 0 help
cp "$work/out" "$work/overview"
verbs=$(sed -n 's/^  \([a-z][a-z]*\) .*/\1/p' "$work/overview")
for verb in submit work lease ls show events steps plan explain signal approve reject inbox cancel requeue \
    dlq pause resume kind workers resources queues stats machine migrate version help completion; do
    prints "  $verb "
done
runs 0 --help
cmp -s "$work/out" "$work/overview" || complain '--help is not help'
runs 0 -h
cmp -s "$work/out" "$work/overview" || complain '-h is not help'
for verb in $verbs; do
    runs 0 help "$verb"
    prints "usage: pawl $verb"
    prints '--help'
    cp "$work/out" "$work/help"
    awk 'length($0) > 100 { exit 1 }' "$work/help" || complain "help $verb has a line that is too long"
    runs 0 "$verb" --help
    cmp -s "$work/out" "$work/help" || complain "$verb --help is not help $verb"
    runs 0 "$verb" -h
    cmp -s "$work/out" "$work/help" || complain "$verb -h is not help $verb"
done
runs 2 help machine version
says "'version'"
runs 2 help nothing
says "'nothing'"

runs 0 help --man
prints '.TH PAWL 1'
for verb in $verbs; do
    prints ".SS pawl $verb"
done
if command -v groff >/dev/null; then
    groff -man -Tutf8 -ww "$work/out" >/dev/null 2>"$work/err"
    [ ! -s "$work/err" ] || complain 'the man page is not right'
fi
runs 2 help --man machine

# --- completion ---
runs 0 completion bash
cp "$work/out" "$work/completion"
bash -n "$work/completion" || complain 'the completion is no script for bash'
completes() { # LINE WORD : the last word of the line can become that
    bash -c '. "$1"
        read -r -a COMP_WORDS <<<"$2"
        [ "${2% }" = "$2" ] || COMP_WORDS+=("")
        COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
        _pawl
        printf "%s\n" "${COMPREPLY[@]}"' bash "$work/completion" "$1" >"$work/out" 2>"$work/err"
    what="completing '$1'"
    grep -q -x -e "$2" "$work/out" || complain "$what does not offer $2"
    [ ! -s "$work/err" ] || complain "$what complains"
}
completes 'pawl sub' submit
completes 'pawl submit --pay' --payload
completes 'pawl machine ' step
completes 'pawl machine job --format ' mermaid
completes 'pawl dlq re' redrive
completes 'pawl help ver' version
runs 0 completion zsh
prints '#compdef pawl'
if command -v zsh >/dev/null; then
    zsh -n "$work/out" || complain 'the completion is no script for zsh'
fi
runs 2 completion fish
says 'bash, zsh'

# --- options ---
runs 2 ls --statu failed
says "Did you mean '--status'?"
runs 2 ls --frobnicate
says "unknown option '--frobnicate'"
runs 2 ls --kind a --kind b
says '--kind may be given only once'
runs 2 ls --status failed,,queued
says "'failed,,queued' contains an empty value"
runs 2 ls --status
says '--status requires a value'
runs 2 ls --status --json
says '--status requires a value'
runs 2 ls --json=yes
says '--json takes no value'
runs 2 ls something
says "'something'"
runs 2 ls --limit 0
says '--limit'
runs 2 ls --limit 5x
says "'5x'"
runs 2 ls --limit 99999999999999999999
runs 2 show
says 'ID is required'
runs 2 show ''
says 'ID must not be empty'
runs 2 show "$nobody" "$nobody"
says 'unexpected argument'
runs 2 show "$(printf '\377')"
says 'UTF-8'
runs 2 ls "--kind=$(printf '\033[31m')" "$(printf '\033[31m')"
says '\x1b[31m'
for bad in 30 s 1.5s -3s 1m1h 1h1h '1 h' 1w 99999999999999999999s 1hm ''; do
    runs 2 submit x "--delay=$bad"
    says 'must be a duration'
done

# --- wrong verbs ---
runs 0
prints 'usage: pawl'
prints 'pawl help COMMAND'
for pair in machin:machine mahcine:machine Machine:machine machines:machine verison:version \
    vers:version hlep:help elp:help; do
    runs 2 "${pair%:*}"
    says "unknown command '${pair%:*}'"
    says "Did you mean '${pair#*:}'?"
done
runs 2 --store memory: ls
says 'options follow the command: pawl ls --store ...'
runs 2 ''
says "''"
runs 2 "$(printf '%0300d' 0)"
runs 2 --store
says 'pawl VERB --store'
runs 0 help work
prints 'usage: pawl work --kind KIND... [OPTION]... -- COMMAND...'
prints 'Jobs with a plan are not claimed'

# --- output that does not arrive is not a success ---
if [ -w /dev/full ]; then
    "$build/pawl" machine job >/dev/full 2>"$work/err"
    status=$?
    : >"$work/out"
    [ $status -eq 1 ] || complain "pawl on a full disk exits with $status, not 1"
    [ -s "$work/err" ] || complain 'pawl on a full disk does not complain'
fi

finish
