#!/bin/sh
# Which jobs and events are shown: the filters of ls and events; and workers that are idle.
#
# usage: test_filters.sh BUILD SOURCE
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

# --- jobs by kind, queue, labels and time ---
attempts 0 submit mail --queue fast --label team:red --label tier:gold
red=$(cat "$work/out")
runs 0 submit mail --queue slow --label team:blue,tier:gold
runs 0 submit call --queue fast --label team:red
runs 0 ls --kind mail --json
json 'sorted(j["queue"] for j in a["jobs"]) == ["fast", "slow"]'
runs 0 ls --queue fast --json
json 'sorted(j["kind"] for j in a["jobs"]) == ["call", "mail"]'
runs 0 ls --label team:red --json
json 'sorted(j["kind"] for j in a["jobs"]) == ["call", "mail"]'
runs 0 ls --label team:red --label tier:gold --json
json "[j['id'] for j in a['jobs']] == ['$red']"
runs 0 ls --label team:red,tier:gold --json
json "[j['id'] for j in a['jobs']] == ['$red']"
runs 0 ls --label team:red,team:blue --json
json 'a["jobs"] == []'
runs 0 ls --created-before 1h --json
json 'a["jobs"] == []'
runs 0 ls --created-before 2100-01-01T00:00:00Z --json
json 'len(a["jobs"]) == 3'
runs 0 ls --created-after 1h --created-before 2100-01-01T00:00:00Z --kind call --json
json 'len(a["jobs"]) == 1'
runs 2 ls --label nonsense
says 'nonsense'
runs 2 ls --created-before soon
says 'soon'

# --- events by type ---
works mail true
runs 0 events "$red" --type job_created --json
json '[e["type"] for e in a["events"]] == ["job_created"]'
runs 0 events "$red" --type job_claimed --type job_succeeded --json
json '[e["type"] for e in a["events"]] == ["job_leased", "job_completed"]'
runs 0 events "$red" --type job_claimed,job_created --json
json '[e["type"] for e in a["events"]] == ["job_created", "job_leased"]'
runs 0 events "$red" --type job_failed --json
json 'a["events"] == []'
runs 2 events "$red" --type nonsense
says 'nonsense'
runs 0 events "$red" --derive --json
json 'a["status"] == "completed" and a["blocked"] is False'
runs 2 events "$red" --derive --type job_created
says '--derive reads all events'
runs 0 events "$red" --derive
prints 'completed'

# --- workers that are idle ---
"$build/pawl" work --kind mail --queue slow --concurrency 3 --worker-id idle -- true \
    >"$work/worker" 2>&1 </dev/null &
worker=$!
tries=0
until "$build/pawl" workers --json 2>/dev/null | grep -q idle || [ $tries -ge 300 ]; do
    tries=$((tries + 1))
    sleep 0.1
done
runs 0 workers --json
json '[(w["worker_id"], w["leases"], w["slots"], w["kinds"]) for w in a["workers"]] == [("idle", 0, 3, ["mail"])]'
runs 0 workers
prints 'idle'
prints 'slow'
call=$("$build/pawl" ls --kind call --json | sed 's/.*"id":"\([^"]*\)".*/\1/')
runs 0 explain "$call"
prints 'No live worker is registered for the kind "call"'
kill -TERM $worker
wait $worker || complain 'the worker does not drain'
runs 0 workers --json
json 'a["workers"] == []'

finish
