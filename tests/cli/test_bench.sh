#!/bin/sh
# pawl bench: every scenario on every store and over HTTP, what it says, and what it leaves behind.
#
# usage: test_bench.sh BUILD SOURCE
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

unset PAWL_STORE
server=
trap '[ -z "$server" ] || kill -9 "$server"; rm -rf "$work"' EXIT
mkdir "$work/tmp"
TMPDIR=$work/tmp
export TMPDIR

# leaves_nothing : no temporary file is left of the last run
leaves_nothing() {
    [ -z "$(ls -A "$work/tmp")" ] || complain "$what leaves files behind"
}

short='--jobs 60 --batch 20 --clients 2 --repeat 2 --warm-up 0 --rate 1000 --waiting 10 50 --steps 4'

# mixes : every operation of the background load has latencies
mixes() {
    json '(lambda rows: [r["case"] for r in rows] == ["lives alone", "lives", "effects of 10 %",
            "200 heartbeats/s", "10 waits/s", "5 plans/s", "20 lists/s", "50 gets/s"]
        and all(x["count"] >= 60 for r in rows[:2] for x in r["runs"])
        and rows[1]["ratio"] > 0 and "ratio" not in rows[0]
        and all(x["count"] > 0 for r in rows[2:] for x in r["runs"])
        and all(0 < m["p50"]["min"] <= m["p50"]["median"] <= m["p99"]["median"] <= m["p99"]["max"]
            for m in [r["latency_ms"] for r in rows[2:]])
        and len({r["latency_ms"]["what"] for r in rows[2:]}) == 6)(
            [r for r in a["results"] if r["scenario"] == "mixed"])'
}

# measures URL [OPTION]... : runs all scenarios, in which figures are there and counts add up
measures() {
    url=$1
    shift
    # shellcheck disable=SC2086 # a list of words
    runs 0 bench $short --store "$url" --json "$@"
    # Events: created; leased, started, completed; two for each effect.
    json '(lambda rows: [r["scenario"] for r in rows] == ["submit", "drain", "work", "latency",
            "backlog", "backlog", "effects", "effects", "heartbeats", "plans", "plans"]
        and all(len(r["runs"]) == 2 and r["client_cpu_us"]["median"] > 0 for r in rows)
        and all(x["seconds"] > 0 and x["count"] >= 60 for r in rows for x in r["runs"])
        and all(x["count"] == 60 for r in rows for x in r["runs"]
            if r["scenario"] not in ("backlog", "heartbeats"))
        and all(0 < p["min"] <= p["median"] <= p["max"] for p in [r["per_second"] for r in rows])
        and [r["ratio"] is None for r in rows if "ratio" in r] == [True, False]
        and all(0 < m["p50"]["median"] <= m["p95"]["median"] <= m["p99"]["median"]
            for m in [r["latency_ms"] for r in rows if "latency_ms" in r])
        and [round(r["events_per_second"]["min"] / r["per_second"]["min"], 1) for r in rows[:8]]
            == [1, 3, 4, 4, 4, 4, 6, 12])([r for r in a["results"] if r["scenario"] != "mixed"])'
    mixes
    leaves_nothing
}

# --- a store of its own ---
runs 0 bench submit drain --jobs 100 --batch 1 --clients 3 --repeat 1
prints 'sqlite, a temporary file'
prints 'in process'
prints 'PER SECOND'
prints 'submit'
prints 'drain'
prints_not 'latency'
leaves_nothing
runs 0 bench drain --jobs 200 --repeat 1 --json
json 'a["results"][0]["bytes_per_job"] > 500 and a["disk_syncs_per_second"] > 0'
json 'a["results"][0]["server_cpu_us"] is None and a["manner"] == "in process"'
attempts 0 bench work --jobs 100 --repeat 1 --warm-up 0 --keep
says 'kept sqlite:'
kept=$(sed -n 's/^kept //p' "$work/err")
runs 0 stats --store "$kept" --json
json 'a["jobs"]["completed"] == 100'
runs 0 verify --all --store "$kept"
rm -r "$work/tmp"/*

measures memory:
json 'a["store"] == "memory:" and a["results"][0]["bytes_per_job"] is None'

# --- somebody's store ---
for how in '' --serve; do
    # shellcheck disable=SC2086 # none or one
    attempts 0 bench submit --store "sqlite:$work/new$how.db" $how --jobs 100 --repeat 1 --warm-up 0
    says "created sqlite:$work/new$how.db"
    runs 0 stats --store "sqlite:$work/new$how.db" --json
    json 'a["jobs"]["cancelled"] == 100'
done
PAWL_STORE=sqlite:$work/pawl.db
export PAWL_STORE
attempts 0 submit "mine" --queue mine
measures "$PAWL_STORE"
json 'all(r["bytes_per_job"] > 0 for r in a["results"] if r["scenario"] in ("drain", "work"))'
runs 0 ls --queue mine --json
json 'len(a["jobs"]) == 1 and a["jobs"][0]["status"] == "queued" and a["jobs"][0]["version"] == 1'
runs 0 stats --json
json 'a["queue_depth"] == 1 and a["leases"] == 0 and a["queues"] == 5'
runs 0 resources
prints 'No resource'
attempts 0 bench submit --jobs 5 --repeat 1 --warm-up 0 --keep
says 'kept the jobs of queue bench-'
runs 0 stats --json
json 'a["queue_depth"] == 6'

# Somebody who takes the jobs away is seen in the counts.
"$build/pawl" work --kind pawl-bench -- true >/dev/null 2>&1 </dev/null &
server=$!
attempts 1 bench drain --jobs 3000 --repeat 5
says 'the store has'
kill "$server"
wait "$server"
server=

# --- background load ---
runs 0 bench mixed --jobs 400 --clients 2 --repeat 1 --heartbeats 0 --waits 3 --plans 0 --lists 0 \
    --gets 0 --effects 0 --json
json '[r["case"] for r in a["results"]] == ["lives alone", "lives", "3 waits/s"]'
runs 0 stats --json
json 'a["queue_depth"] == 1 and a["leases"] == 0'
runs 2 bench mixed --effects 101
says '101'
runs 2 bench mixed --heartbeats many
says 'many'

# --- a mix of what nobody may take ---
runs 0 bench backlog --mix --jobs 60 --batch 20 --clients 2 --repeat 2 --waiting 10 50 --json
json 'all(x["count"] >= 60 for r in a["results"] for x in r["runs"])'
json 'a["results"][1]["case"] == "50 not claimable" and a["results"][1]["ratio"] > 0'
runs 0 stats --json
json 'a["queue_depth"] == 1 and a["leases"] == 0'
runs 0 queues --json
json 'not any(q["paused"] for q in a["queues"])'
attempts 0 bench backlog --mix --waiting 31 --jobs 5 --batch 5 --repeat 1 --warm-up 0 --keep --queue kept
runs 0 queues --json
json '[(q["queue"], q["paused"]) for q in a["queues"] if q["depth"] > 1] == [("kept", False), ("kept-paused", True)]'
runs 0 ls --queue kept --kind pawl-bench-other --json
json 'len(a["jobs"]) == 11'
runs 0 ls --queue kept-paused --json
json 'len(a["jobs"]) == 10'

# --- over HTTP ---
measures "sqlite:$work/pawl.db" --serve --polls 100
json 'all(r["server_cpu_us"]["median"] >= 0 for r in a["results"] if r["client_cpu_us"])'
json 'a["manner"] == "pawl serve, over HTTP"'
: >"$work/log"
"$build/pawl" serve --listen 127.0.0.1:0 >"$work/log" 2>&1 </dev/null &
server=$!
tries=0
until grep -q ' on port ' "$work/log" || [ $tries -gt 200 ]; do
    tries=$((tries + 1))
    sleep 0.05
done
port=$(sed -n 's/.* on port \([0-9]*\).*/\1/p' "$work/log")
measures "http://127.0.0.1:$port" --polls 10
json 'a["manner"] == "over HTTP" and a["results"][1]["bytes_per_job"] is None'
json 'all(r["server_cpu_us"]["median"] >= 0 for r in a["results"] if r["client_cpu_us"])'
runs 0 bench submit drain effects heartbeats plans --store "http://127.0.0.1:$port" --batch 1 \
    --clients 8 --jobs 40 --repeat 1 --json
json 'all(x["count"] >= 40 for r in a["results"] for x in r["runs"])'
runs 2 bench submit --store "http://127.0.0.1:$port" --serve
says 'is already a server'
kill "$server"
wait "$server"
server=

# --- PostgreSQL ---
if [ -n "${PAWL_TEST_POSTGRES:-}" ]; then
    database=pawl_bench_$$
    psql -q -X "$PAWL_TEST_POSTGRES" -c "CREATE DATABASE $database" || exit 1
    trap 'rm -rf "$work"; psql -q -X "$PAWL_TEST_POSTGRES" -c "DROP DATABASE $database WITH (FORCE)"' EXIT
    url=$(echo "$PAWL_TEST_POSTGRES" | sed "s|/postgres?|/$database?|")
    attempts 0 submit mine --store "$url"
    measures "$url"
    runs 0 bench drain --jobs 100 --repeat 1 --store "$url" --serve --json
    json 'a["results"][0]["server_cpu_us"]["median"] > 0'
    runs 0 stats --store "$url" --json
    json 'a["queue_depth"] == 1 and a["leases"] == 0'
fi

# --- an end before the end ---
unset PAWL_STORE
runs 0 bench work --jobs 100000000 --seconds 1 --repeat 1 --warm-up 0 --json
json 'a["results"][0]["runs"][0]["seconds"] < 5'
leaves_nothing
"$build/pawl" bench work --serve --jobs 100000000 >"$work/out" 2>"$work/err" </dev/null &
bench=$!
tries=0
until ls "$work/tmp"/pawl-bench-*/pawl.db >/dev/null 2>&1 || [ $tries -gt 200 ]; do
    tries=$((tries + 1))
    sleep 0.05
done
sleep 0.3
kill -TERM $bench
wait $bench
status=$?
what='an interrupted run'
[ $status -eq 1 ] || complain "$what ends with $status"
says 'interrupted'
leaves_nothing

# --- wrong usage ---
runs 2 bench nothing
says 'submit, drain, work, latency, backlog, effects, heartbeats, plans'
runs 2 bench --jobs 0
says '--jobs must be a whole number from 1'
runs 2 bench --batch 1001
runs 2 bench --queue a-name-that-is-longer-than-a-queue-of-a-benchmark-can-be
says 'at most 47 bytes'
runs 2 bench --clients many
runs 2 bench --payload -1
runs 2 bench --rate 0
runs 2 bench --repeat 101
runs 2 bench --seconds 0
runs 2 bench --waiting 10 ten
says "not 'ten'"
runs 2 bench --waiting 10 10
says 'ascending order'
runs 2 bench --batch 1000 --payload 1000000
says 'exceed the limit of one call'
runs 2 bench --store nonsense:
PAWL_PATIENCE=100ms
runs 5 bench --store http://127.0.0.1:1
runs 0 help bench
prints '--clients N'
leaves_nothing

finish
