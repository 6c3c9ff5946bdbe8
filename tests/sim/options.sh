#!/bin/sh
# pawl-sim does what its options say, refuses what it cannot do, and ends with 1 when a world dies;
# `make sim` hands SEED and COUNT on.
#
# usage: options.sh BUILD SOURCE
set -u
build=$1 source=$2

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

complain() {
    echo "FAIL: $*"
    sed 's/^/  /' "$work/out" "$work/err"
    failures=$((failures + 1))
}

# ends EXIT ARGUMENT... : runs pawl-sim, keeps what it printed, and expects that exit code
ends() {
    expected=$1
    shift
    what="pawl-sim $*"
    code=0
    "$build/sim/pawl-sim" "$@" >"$work/out" 2>"$work/err" || code=$?
    [ "$code" -eq "$expected" ] || complain "$what ends with $code, not with $expected"
}

# refuses WORDS ARGUMENT... : runs nothing, and says why
refuses() {
    words=$1
    shift
    ends 2 "$@"
    grep -qF -e "$words" "$work/err" || complain "$what does not say: $words"
    [ ! -s "$work/out" ] || complain "$what does something"
}

# says WORDS : the last run has printed this
says() {
    grep -q -e "$1" "$work/out" || complain "$what does not say: $1"
}

# ---- what is asked for ----

ends 0 --seed 17 --count 3 --commands 20
says '^3 seeds in .* none is broken$'
ends 0 --seed 18446744073709551615 --count 1 --commands 20 --faults crash,drop --trace
says '^1 seeds in '
says 'there may be: crash'
ends 0 --help
while read -r name; do
    says "^ *$name: "
done <<END
$(sed -n 's/^SIM_FAULT([^"]*"\([a-z]*\)".*/\1/p' "$source/sim/fault.def")
END

# ---- what is refused ----

refuses 'nothing is known of "17"' 17
refuses 'nothing is known of "17"' --count 1 17
refuses '"0" is too small here' --count 0
refuses '"0" is too small here' --count 1 --commands 0
refuses '"4294967297" is too large here' --count 1 --commands 4294967297
refuses '"18446744073709551616" is too large here' --count 1 --seed 18446744073709551616
refuses '"4294967296" is too large here' --count 1 --actors 4294967296
refuses '"101" is too large here' --count 1 --twice 101
refuses '"65536" is too large here' --count 1 --skip 1:65536
refuses '"1" is not ACTOR:NTH' --count 1 --skip 1
refuses '"-1" is not a number' --seed -1
refuses '"" is not a number' --seed ''
refuses 'there is no fault "flood"' --faults crash,flood
refuses 'there is no store "paper"' --store paper
refuses '--nonsense' --nonsense

# ---- a world that dies ----

# shellcheck disable=SC3045 # where there is no such limit, it stays as it is
ulimit -c 0 2>/dev/null
# The child dies as of an assertion, wherever it is: that seed is named and shown.
what='pawl-sim whose world dies'
"$build/sim/pawl-sim" --count 100000000 --large >"$work/out" 2>"$work/err" &
parent=$!
child=
for _ in $(seq 200); do
    child=$(cat "/proc/$parent/task/$parent/children")
    [ -z "$child" ] || break
    sleep 0.05
done
# shellcheck disable=SC2086 # one number and a space
kill -ABRT $child || complain "$what has no child"
code=0
wait "$parent" || code=$?
[ "$code" -eq 1 ] || complain "$what ends with $code"
says '^seed [0-9]* is broken: the process was ended by signal 6$'
says '^pawl-sim --store memory --seed [0-9]* --count 1 '

# ---- make sim ----

# hands_on OPTIONS SETTING... : make sim with these settings runs pawl-sim with these options
hands_on() {
    options=$1
    shift
    (cd "$source" && env -u MAKEFLAGS -u SEED -u COUNT make --no-print-directory -n sim "$@") \
        >"$work/out" 2>"$work/err"
    what="make sim $*"
    tr -s ' \t\\\n' ' ' <"$work/out" | grep -q -e "build/sim/pawl-sim $options \$" ||
        complain "$what does not run pawl-sim $options"
}
hands_on '--count 1000'
hands_on '--count 5' COUNT=5
hands_on '--seed 17 --count 1 --trace' SEED=17
hands_on '--seed 17 --count 3' SEED=17 COUNT=3

[ "$failures" -eq 0 ]
