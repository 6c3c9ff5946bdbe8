#!/bin/sh
# The store as a whole: stats, queues, pause, resume, kind, workers, resources, migrate.
#
# usage: test_operate.sh BUILD SOURCE
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

attempts 0 submit job --queue slow
for verb in stats queues workers resources migrate; do
    runs 0 $verb
    [ -s "$work/out" ] || complain "$what prints nothing"
    runs 0 $verb --json
    json 'isinstance(a, dict)'
    runs 2 $verb something
    runs 2 $verb --nothing
done

runs 0 stats --json
json 'a["jobs"]["queued"] == 1'
runs 0 stats
prints 'queued:         1'
runs 0 workers
prints 'No workers registered and no leases held.'
runs 0 resources
prints 'No resources registered.'

# --- pause and resume ---
runs 0 pause slow
prints 'slow: paused'
runs 0 queues
prints 'paused'
prints 'queued 1'
runs 0 queues --json
json '[q["paused"] for q in a["queues"] if q["queue"] == "slow"] == [True]'
works job false
runs 0 ls --status queued --json
json 'len(a["jobs"]) == 1'
runs 0 resume slow --json
lines 1
attempts 3 pause slwo slow
says "unknown queue 'slwo'. Did you mean 'slow'?"
prints 'slow: paused'
prints_not 'slwo'
runs 3 resume other
says "unknown queue 'other'"
runs 0 queues --json
json '[q["queue"] for q in a["queues"] if q["paused"]] == ["slow"]'
runs 0 pause other --create
prints 'other: paused'
runs 0 resume slow other --json
lines 2
works job true

# --- how long a kind takes ---
runs 0 stats --json
json '[k["kind"] for k in a["kinds"]] == ["job"]'
json 'a["kinds"][0]["count"] >= 1 and a["kinds"][0]["run_ms"]["p95"] >= a["kinds"][0]["run_ms"]["p50"]'
runs 0 stats
prints 'KIND  JOBS  LATENCY P50'
runs 0 ls --status completed --json
json 'len(a["jobs"]) == 1'
runs 2 pause
says 'QUEUE is required'
runs 2 resume

# --- kind ---
runs 0 kind show job
prints 'No settings.'
runs 0 kind set job --lease-ttl 2m --timeout 1h30m --retention 2d --max-attempts 7 --strategy fixed \
    --initial-delay 5s
prints 'lease ttl:        2m'
prints 'timeout:          1h 30m'
prints '7 attempts, fixed from 5s'
runs 0 kind show job --json
json 'a["lease_ttl_ms"] == 120000 and a["timeout_ms"] == 5400000 and a["retention_ms"] == 172800000'
runs 0 kind set job --timeout 2h --cancel-grace 10s --json
json 'a["lease_ttl_ms"] == 120000 and a["timeout_ms"] == 7200000 and a["retry"]["max_attempts"] == 7'
json 'a["cancel_grace_ms"] == 10000'
runs 0 kind set job --unset timeout --unset cancel_grace_ms --json
json 'a["lease_ttl_ms"] == 120000 and a["timeout_ms"] is None and a["cancel_grace_ms"] is None'
runs 0 kind set agent --pin
prints 'pin: jobs are bound'
attempts 0 submit agent
attempts 0 work --kind agent --once --code-version v41 -- sh -c 'exit 1'
runs 0 kind versions agent
prints 'v41'
runs 0 kind versions agent --json
json 'a["versions"] == [{"code_version": "v41", "jobs": 1}] and a["more"] is False'
runs 0 kind repin agent --from v41 --to v42
prints 'pinned 1 job to v42'
runs 0 kind repin agent --from v41 --to v43 --json
json 'a == {"done": 0}'
runs 0 kind versions agent --json
json 'a["versions"][0]["code_version"] == "v42"'
runs 2 kind repin agent
says '--to V'
runs 2 kind show agent --to v1
says "go with 'pawl kind repin'"
runs 0 kind versions nothing
prints 'It has no live jobs.'
runs 0 kind set agent --unset pin --json
json 'a["pin"] is False'
runs 2 kind set job --unset colour
says "unknown setting 'colour'"
runs 2 kind set job --unset timeout --timeout 1h
says 'both set and unset'
runs 0 kind ls
prints 'job'
runs 0 kind ls --json
json 'a["kinds"][0]["kind"] == "job" and a["next_cursor"] is None'
runs 2 kind ls job
runs 2 kind set job --retention 0s
says 'greater than 0'
submits job
runs 0 show "$id" --json
json 'a["retry"]["max_attempts"] == 7 and a["retry"]["strategy"] == "fixed"'
runs 2 kind
says 'set, show'
runs 2 kind set
runs 2 kind show job --timeout 1h
runs 2 kind set job --lease-ttl 1
runs 2 kind set job --strategy random
says 'exponential, linear, fixed'
runs 2 kind set job --lease-ttl 1ms

# --- workers ---
submits long
"$build/pawl" work --kind long --once -- sleep 3 >/dev/null 2>&1 &
worker=$!
tries=0
until "$build/pawl" workers --json | grep -q worker_id || [ $tries -gt 100 ]; do
    tries=$((tries + 1))
    sleep 0.05
done
runs 0 workers
prints 'LAST HEARTBEAT'
lines 2
runs 0 show "$id"
prints 'leased by:'
runs 0 cancel "$id"
prints 'worker asked to stop'
runs 0 cancel "$id" --hard
prints "$id: cancelled"
wait $worker

# --- migrate ---
runs 0 migrate --json
json 'a["from"] == a["to"]'
runs 2 migrate --store memory:

finish
