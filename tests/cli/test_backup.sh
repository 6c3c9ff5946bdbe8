#!/bin/sh
# backup and doctor: a copy that is a store of its own, made while workers are busy; and what is said
# of stores that are well, and of some that are not.
#
# usage: test_backup.sh BUILD SOURCE
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
pawl=$build/pawl

# --- a store that is not there, or is none ---
for verb in doctor "backup $work/copy.db"; do
    # shellcheck disable=SC2086 # a list of words
    runs 5 $verb
done
echo 'this is not a database, but it is long enough to look like something' >"$work/text"
runs 5 doctor --store "sqlite:$work/text"
says "$work/text"
runs 2 doctor --store nonsense:x
runs 2 doctor now

# --- doctor ---
attempts 0 submit job
runs 0 doctor
for name in store clock lanes schema timers engine disk files versions; do
    grep -q "^ok *$name  *[A-Z0-9]" "$work/out" || complain "$what does not look at $name"
done
prints_not WRONG
runs 0 doctor --json
json 'a["ok"] and len(a["checks"]) >= 9 and all(c["ok"] for c in a["checks"])'
what='doctor with few files'
prlimit --nofile=100:100 "$pawl" doctor >"$work/out" 2>"$work/err"
[ $? -eq 1 ] || complain "$what finds nothing wrong"
grep -q '^WRONG files .*ulimit -n' "$work/out" || complain "$what does not say what to do"

# --- backup, while a worker is busy and owns the store ---
n=0
while [ $n -lt 40 ]; do
    n=$((n + 1))
    submits job
done
: >"$work/worker"
"$pawl" work --kind job --concurrency 4 -- sh -c 'sleep 0.02; echo 1' >"$work/worker" 2>&1 &
worker=$!
until grep -q completed "$work/worker"; do
    sleep 0.02
done
mkdir "$work/elsewhere"
cd "$work/elsewhere" || exit
runs 0 backup copy.db
prints "copied to $work/elsewhere/copy.db ("
runs 0 backup ../second.db --json
json "a['path'] == '$work/elsewhere/../second.db' and a['bytes'] > 0"
runs 0 backup "$work/third.db"
runs 2 backup copy.db
says 'copy.db'
runs 2 backup
says 'FILE is missing'
runs 2 backup ''
kill $worker
wait $worker
for copy in "$work/elsewhere/copy.db" "$work/second.db" "$work/third.db"; do
    runs 0 verify --all --store "sqlite:$copy"
    prints '41 jobs verified, 0 with violations'
    runs 0 doctor --store "sqlite:$copy"
    # It goes on from there.
    runs 0 ls --status completed --limit 100 --json --store "sqlite:$copy"
    json 'len(a["jobs"]) >= 1'
done
runs 2 backup "$work/memory.db" --store memory:
says 'memory'

finish
