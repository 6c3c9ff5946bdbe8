#!/bin/sh
# Jobs as the command line shows them: submit, ls, show, events, steps, explain.
#
# usage: test_jobs.sh BUILD SOURCE
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

# --- a store that is not there ---
for verb in ls 'show X' 'events X' 'steps X' 'explain X' inbox 'approve X' 'reject X' 'signal X K' \
    'cancel X' 'requeue X' 'cancel --filter kind=x' 'dlq ls' 'dlq drop --all --yes' 'pause q' 'resume q' \
    'kind show x' 'kind set x' workers resources queues stats migrate; do
    # shellcheck disable=SC2086 # a list of words
    runs 5 $verb
done
says 'no store'
[ ! -e "$work/pawl.db" ] || complain 'a verb that only looks has made a store'
runs 5 ls --store "sqlite:$work/no/such/directory/pawl.db"
runs 2 ls --store nonsense:x
PAWL_PATIENCE=100ms
runs 5 ls --store 'postgres://postgres:secret@127.0.0.1:1/none'
PAWL_PATIENCE=soon
runs 2 ls
says "'soon'"
PAWL_PATIENCE=10s
! grep -q secret "$work/err" || complain 'a password is shown'

# What is refused leaves nothing behind.
runs 2 submit x --lease-ttl 1ms
says '--lease-ttl must be from 100ms to 1d, not 1ms'
runs 2 submit x --plan '{"steps": [{"id": "a", "kind": "k", "deps": ["b"]}]}'
runs 2 submit x --payload nonsense
[ ! -e "$work/pawl.db" ] || complain 'a job that was refused has made a store'

# --- submit ---
attempts 0 submit email --payload '{"to": "ada"}' --queue mail --priority -3 --label team:core,tier:gold \
    --label 'note:a:b' --agent bot --goal 'say hello' --correlation c-1 --max-attempts 3
says "created sqlite:$work/pawl.db"
lines 1
first=$(cat "$work/out")
runs 0 show "$first" --json
json 'a["kind"] == "email" and a["queue"] == "mail" and a["priority"] == -3'
json 'a["payload"] == {"to": "ada"} and a["labels"] == {"team": "core", "tier": "gold", "note": "a:b"}'
json 'a["agent_id"] == "bot" and a["goal"] == "say hello" and a["correlation_id"] == "c-1"'
json 'a["retry"]["max_attempts"] == 3 and a["status"] == "queued"'
runs 0 show "$first"
prints 'status:           queued'
prints 'labels:'
prints '{"to": "ada"}'
prints '3 attempts'

runs 0 submit email --json
json 'a["queue"] == "default" and a["payload"] is None'

# --- the first digits of an id are enough, as long as they are one job's ---
prefix=$(printf '%.34s' "$first")
for verb in show events explain steps; do
    runs 0 $verb "$prefix" --json
done
runs 0 show "$prefix" --json
json "a['id'] == '$first'"
runs 0 show "$(printf '%.34s' "$first" | tr -d -)" --json
json "a['id'] == '$first'"
runs 2 show "$(printf '%.4s' "$first")"
says "several jobs have an id that starts with '$(printf '%.4s' "$first")', for example"
says "$first"
runs 3 show ffff
says "no job has an id that starts with 'ffff'"
runs 2 show fff
runs 0 verify "$prefix"
prints "$first"

# --- several values: with commas, one after the other, or with the option again ---
runs 0 ls --status queued,failed --json
cp "$work/out" "$work/commas"
for said in '--status queued --status failed' '--status queued failed' '--status=queued,failed'; do
    # shellcheck disable=SC2086 # a list of words
    runs 0 ls $said --json
    json 'len(a["jobs"]) == 2'
    cmp -s "$work/out" "$work/commas" || complain "$what differs from --status queued,failed"
done
submits email --store "sqlite:$work/pawl.db" --delay 1h30m
runs 0 show "$id" --json
json 'a["run_at"] > a["created_at"]'
python3 -c 'import datetime, json, sys
a = json.load(open(sys.argv[1]))
at = lambda t: datetime.datetime.strptime(t, "%Y-%m-%dT%H:%M:%S.%fZ")
sys.exit(0 if (at(a["run_at"]) - at(a["created_at"])).total_seconds() == 5400 else 1)' "$work/out" ||
    complain '1h30m is not 5,400 seconds'
submits email --run-at 2100-01-01T00:00:00Z
runs 0 show "$id"
prints '2100-01-01T00:00:00.000Z (in '

# A payload from a file and from stdin keeps its bytes.
printf '{"n": 1.10, "big": 123456789012345678901234567890}\n' >"$work/payload.json"
submits file --payload "@$work/payload.json"
runs 0 show "$id"
prints '1.10'
prints '123456789012345678901234567890'
id=$("$build/pawl" submit file --payload - <"$work/payload.json")
runs 0 show "$id"
prints '1.10'
runs 1 submit file --payload "@$work/none.json"
says 'none.json'
printf 'not json' >"$work/bad.json"
runs 2 submit file --payload "@$work/bad.json"
says 'bad.json is not valid JSON'
runs 2 submit file --payload hello
says '"text"'
printf '{}\000' >"$work/zero.json"
runs 2 submit file --payload "@$work/zero.json"

submits keyed --key only-once --payload 1
keyed=$id
attempts 0 submit keyed --key only-once --payload 1
prints "$keyed"
says 'already exists'
runs 0 submit keyed --key only-once --payload 1 --json
json 'a["duplicate"] is True'
attempts 4 submit keyed --key only-once --payload 2
says 'the --key "only-once" belongs to a job with another payload: use a different key'
attempts 4 submit other --key only-once --payload 1
says 'belongs to a job of kind "keyed", not "other"'
runs 0 show "$keyed" --json
json 'a["version"] == 1 and a["payload"] == 1'
runs 2 submit keyed --fingerprint abc
says 'fingerprint'

runs 2 submit
says 'KIND is required'
runs 2 submit x --label nonsense
says "'nonsense'"
runs 2 submit x --label a:1 --label ab:1 --label a:2
says "duplicate label 'a'"
runs 2 submit x --goal "$(printf '\377')"
says 'UTF-8'
head -c 1100000 /dev/zero | tr '\000' 1 >"$work/large.json"
runs 2 submit x --payload "@$work/large.json"
says '1048576'
runs 1 submit x --payload "@$work"
runs 2 submit x --in-doubt perhaps
says 'fail, retry, ask'
runs 2 submit x --delay 1s --run-at 2100-01-01T00:00:00Z
runs 2 submit x --run-at tomorrow
says 'pawl submit: --run-at must be a time'
runs 2 submit x --priority high
says "from -1000000 to 1000000, not 'high'"
runs 2 submit x --initial-delay 2h --max-delay 1h
says 'pawl submit: --initial-delay must be at most --max-delay, but 2h is more than 1h'
runs 2 submit x --plan '[{"id": "a", "kind": "k", "retry": {"max_attempts": 0}}]'
says 'retry.max_attempts'
runs 2 submit ''
runs 2 submit x --plan '{"steps": [{"id": "a", "kind": "k", "deps": ["a"]}]}'

# --- submit --wait ---
(
    "$build/pawl" submit sum --payload '[1, 2]' --wait >"$work/waited" 2>"$work/waited.err"
    echo $? >"$work/waited.code"
) &
waiter=$!
until "$build/pawl" ls --kind sum --json 2>/dev/null | grep -q '"kind":"sum"'; do
    sleep 0.05
done
works sum sh -c 'cat >/dev/null; echo 3'
wait $waiter
what='submit --wait'
[ "$(cat "$work/waited.code")" -eq 0 ] || complain "$what does not succeed"
[ "$(cat "$work/waited")" = 3 ] || complain "$what does not print the result"

(
    "$build/pawl" submit sink --max-attempts 1 --wait --json >"$work/waited" 2>"$work/waited.err"
    echo $? >"$work/waited.code"
) &
waiter=$!
until "$build/pawl" ls --kind sink --json 2>/dev/null | grep -q '"kind":"sink"'; do
    sleep 0.05
done
works sink sh -c 'echo it broke >&2; exit 1'
wait $waiter
what='submit --wait of a job that fails'
[ "$(cat "$work/waited.code")" -eq 1 ] || complain "$what does not exit with 1"
grep -q 'dead_lettered: it broke' "$work/waited.err" || complain "$what does not say why"
cp "$work/waited" "$work/out"
json 'a["status"] == "dead_lettered"'

# --- ls ---
runs 0 ls
prints 'ID '
prints "$first"
runs 0 ls --queue mail
lines 2
runs 0 ls --kind email --status queued,running --json
json 'len(a["jobs"]) == 4 and a["next_cursor"] is None'
json 'all("payload" not in job for job in a["jobs"])'
runs 0 ls --search 'SAY hello' --json
json 'len(a["jobs"]) == 1 and a["jobs"][0]["goal"] == "say hello" and a["next_cursor"] is None'
runs 0 ls --label team:core --agent bot --correlation c-1 --include payload --json
json 'len(a["jobs"]) == 1 and a["jobs"][0]["payload"] == {"to": "ada"}'
runs 0 ls --created-after 1h --json
json 'len(a["jobs"]) >= 8'
runs 0 ls --created-after 2099-01-01T00:00:00Z
prints 'No matching jobs.'
runs 0 ls --limit 2 --json
json 'len(a["jobs"]) == 2 and a["next_cursor"]'
cursor=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["next_cursor"])' "$work/out")
seen=$(cat "$work/out")
runs 0 ls --limit 2 --cursor "$cursor" --json
[ "$(cat "$work/out")" != "$seen" ] || complain 'the cursor does not move'
runs 2 ls --status sleeping
says 'sleeping'
runs 2 ls --created-after yesterday
says "'yesterday'"
runs 2 ls --include payload
runs 2 ls --cursor nonsense

# --- show, events, explain, steps ---
for verb in show events explain steps; do
    runs 3 $verb "$nobody"
    says "$nobody"
    runs 2 $verb nonsense
    says 'nonsense'
    runs 0 $verb "$first" --json
    json 'isinstance(a, dict)'
done
runs 0 events "$first"
prints 'job_created'
prints 'cli:tester'
lines 2
runs 0 events "$first" --json
json 'len(a["events"]) == 1 and a["events"][0]["type"] == "job_created"'
runs 0 events "$first" --after 1
prints 'No events.'
runs 0 explain "$first"
prints 'Next actions:'
runs 0 steps "$first"
prints 'The job has no plan.'
submits later --delay 1h --max-attempts 1
runs 0 explain "$id"
prints '(in 1h)'
prints_not 'pawl work'
runs 0 show "$id"
prints '(in 1h)'
prints '1 attempt, '

submits stepped --plan '[{"id": "a", "kind": "k"}]'
runs 0 explain "$id"
prints 'Start a worker with a matching resource'
prints_not '/v1/'
submits planned --plan '[{"id": "ask", "kind": "q", "wait": {"type": "human", "correlation_key": "k",
    "prompt": "go on?"}}, {"id": "do", "kind": "work", "deps": ["ask"]}]'
runs 0 steps "$id"
prints 'go on?'
prints '["ask"]'
runs 0 steps "$id" --json
json '[step["id"] for step in a["steps"]] == ["ask", "do"]'

# --- events -f ---
submits followed
"$build/pawl" events "$id" -f --json >"$work/followed" 2>"$work/followed.err" &
follower=$!
until grep -q job_created "$work/followed"; do
    sleep 0.05
done
works followed true
wait $follower || complain 'events -f does not end well'
[ "$(wc -l <"$work/followed")" -eq 4 ] || complain 'events -f does not print each event on a line'
grep -q job_completed "$work/followed" || complain 'events -f does not print the end'
runs 0 events "$id" -f
prints 'job_completed'
runs 2 events "$id" -f --limit 3

# --- what is easily misunderstood ---
runs 2 submit k --payload '{"a": 1, "a": 2}'
says 'byte 9: duplicate key "a"'
attempts 0 submit k --store memory:
says 'lost when this program ends'
submits quiet
runs 0 events "$id" --telemetry
prints 'No heartbeats'
submits able --capability gpu --capability 'a b'
runs 0 explain "$id"
prints "pawl work --kind able --queue default --capability gpu --capability 'a b' -- COMMAND"
works quiet true
runs 0 ls --kind quiet --status completed --json
json 'len(a["jobs"]) == 1'
runs 0 help submit
prints '--label K:V  '
prints 'a label (or a list: a,b)'
runs 0 help work
prints '--kind KIND...'
prints 'U+FFFD'
runs 0 help ls
prints '500 with --json'

# Fewer than there are.
submits many
submits many
runs 0 ls --kind many --limit 1
lines 2

# --- what events alone say ---
submits derived
runs 0 events "$id" --derive
prints 'queued'
works derived "$build/pawl" lease wait go
runs 0 events "$id" --derive
prints 'waiting (blocked)'
runs 0 events "$id" --derive --json
prints '{"status":"waiting","blocked":true,"version":4}'
runs 2 events "$id" --derive --follow
says '--derive reads all events'

finish
