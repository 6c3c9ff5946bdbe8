#!/bin/sh
# The example programs, as their first comments say that they are run: a producer and a worker, an
# agent that asks a person, and a watcher that sees all of it.
#
# usage: examples.sh BUILD SOURCE
set -u
build=$1
examples=$build/examples
pawl=$build/pawl

work=$(mktemp -d)
watcher=
trap '[ -z "$watcher" ] || kill "$watcher"; rm -rf "$work"' EXIT
cd "$work" || exit
store=sqlite:$work/pawl.db
export PAWL_STORE="$store"
failures=0

complain() {
    echo "FAIL: $*"
    [ ! -s out ] || sed 's/^/  /' out
    failures=$((failures + 1))
}

# runs PROGRAM ARGUMENT... : ends well, in time
runs() {
    program=$1
    shift
    timeout 60 "$examples/$program" "$@" >out 2>&1 || complain "$program $* exits with $?"
}

# prints COUNT TEXT : the last run has so many lines with the text
prints() {
    count=$(grep -c -F -e "$2" out)
    [ "$count" -eq "$1" ] || complain "there are $count lines with '$2', not $1"
}

# --- a producer that is run twice adds nothing twice ---
runs producer "$store" ada grace
prints 2 submitted
runs producer "$store" ada edsger
prints 1 'was there already'
prints 1 submitted

"$examples/watcher" "$store" >seen 2>&1 &
watcher=$!

# --- a worker ---
runs worker "$store" --drain
prints 3 'wrote to'
prints 1 '3 letters'
runs worker "$store" --drain
prints 1 '0 letters'

# --- one that is told to end ---
timeout 60 "$examples/worker" "$store" >out 2>&1 &
worker=$!
"$examples/producer" "$store" barbara >/dev/null || complain 'the producer fails beside a worker'
for _ in $(seq 100); do
    "$pawl" ls --status completed --json | grep -q -F '"status"' &&
        [ "$("$pawl" ls --status completed | grep -c letter)" -eq 4 ] && break
    sleep 0.1
done
kill "$worker"
wait "$worker" || complain 'the worker does not end well'
prints 1 '1 letters'

# --- an agent: a draft, a question, an answer, a publication; each once ---
runs agent "$store" submit rain
approved=$(cat out)
runs agent "$store" submit snow
rejected=$(cat out)
runs agent "$store" work
prints 2 'thinking'
prints 0 'publishing'
runs agent "$store" work
prints 0 'thinking'
"$pawl" approve "$approved" >/dev/null || complain 'approve fails'
"$pawl" reject "$rejected" >/dev/null || complain 'reject fails'
runs agent "$store" work
prints 0 'thinking'
prints 1 'publishing {"title": "All about it", "topic": "rain"}'
"$pawl" show "$approved" --json | grep -q '"result":{"url": "https://example.org/post/1"}' ||
    complain 'the approved post is not published'
"$pawl" show "$rejected" --json | grep -q '"result":{"published": false}' ||
    complain 'the rejected post is published'

# --- the watcher has seen it all, in order, as one who comes later does ---
runs watcher "$store" 0-0 --end
events=$(wc -l <out)
prints 6 job_created
prints 6 job_completed
prints 2 job_waiting
for _ in $(seq 100); do
    [ "$(wc -l <seen)" -eq "$events" ] && break
    sleep 0.1
done
cmp -s out seen || complain 'who watched and who came later have seen different things'
position=$(sed -n 10p out | cut -d ' ' -f 1)
tail -n +11 out >rest
runs watcher "$store" "$position" --end
cmp -s out rest || complain 'who comes back with a position misses something'

[ $failures -eq 0 ]
