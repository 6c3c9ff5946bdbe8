#!/bin/sh
# What the tests of the command line share. Sourced with BUILD and SOURCE as arguments; leaves
# $build, $source, $work (a directory for the test's own files, gone at the end) and $PAWL_STORE.
#
# shellcheck disable=SC2034 # variables are for those who source this
set -u
build=$1
source=$2

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

unset PAWL_LEASE PAWL_CORRELATION_ID PAWL_TRACEPARENT NO_COLOR
PAWL_PATIENCE=10s
PAWL_STORE=sqlite:$work/pawl.db
USER=tester
export PAWL_PATIENCE PAWL_STORE USER

complain() {
    echo "FAIL: $*"
    sed 's/^/  stdout: /' "$work/out"
    sed 's/^/  stderr: /' "$work/err"
    failures=$((failures + 1))
}

# attempts EXIT ARGUMENT... : runs pawl, keeps what it printed, and expects that exit code.
attempts() {
    expected=$1
    shift
    what="pawl $*"
    "$build/pawl" "$@" >"$work/out" 2>"$work/err" </dev/null
    status=$?
    [ $status -eq "$expected" ] || complain "$what exits with $status, not $expected"
}

# runs EXIT ARGUMENT... : the same; whoever fails prints nothing on stdout and something on stderr,
# whoever succeeds prints nothing on stderr.
runs() {
    attempts "$@"
    if [ "$1" -eq 0 ]; then
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

prints_not() {
    ! grep -q -F -e "$1" "$work/out" || complain "$what prints: $1"
}

says() {
    grep -q -F -e "$1" "$work/err" || complain "$what does not say: $1"
}

# lines COUNT : the last run printed so many
lines() {
    count=$(wc -l <"$work/out")
    [ "$count" -eq "$1" ] || complain "$what prints $count lines, not $1"
}

# json EXPRESSION : what the last run printed is one line of JSON, and of that, as `a`, this Python
# expression is true.
json() {
    lines 1
    python3 -c 'import json, sys
a = json.load(open(sys.argv[1]))
sys.exit(0 if eval(sys.argv[2]) else 1)' "$work/out" "$1" 2>>"$work/err" ||
        complain "$what: not true of its JSON: $1"
}

# submits KIND [OPTION]... : makes a job, and keeps its id in $id
submits() {
    runs 0 submit "$@"
    id=$(cat "$work/out")
}

# works KIND COMMAND... : a worker takes all jobs of a kind that there are
works() {
    kind=$1
    shift
    "$build/pawl" work --kind "$kind" --drain -- "$@" >"$work/out" 2>"$work/err" </dev/null ||
        complain "a worker for $kind fails"
}

# has_status ID STATUS
has_status() {
    runs 0 show "$1" --json
    json "a['status'] == '$2'"
}

# on_terminal COLUMNS COMMAND : runs a command line in a terminal of that width
on_terminal() {
    what="on a terminal: $2"
    script -q -e -c "stty cols $1; $2" /dev/null >"$work/out" 2>"$work/err" </dev/null ||
        complain "$what fails"
}

finish() {
    [ $failures -eq 0 ] || echo "$failures failed"
    [ $failures -eq 0 ]
    exit
}

nobody=0190163d-8694-739b-aea5-966c26f8ad91
