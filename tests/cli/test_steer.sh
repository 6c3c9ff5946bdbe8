#!/bin/sh
# What people do to jobs: signal, inbox, approve, reject, cancel, requeue, dlq.
#
# usage: test_steer.sh BUILD SOURCE
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

attempts 0 submit first
first=$(cat "$work/out")

# asks ID KEY PROMPT : a worker gives the job of kind "ask" to a person
asks() {
    works ask "$build/pawl" lease wait "$1" --type human --prompt "$2"
}

# --- nobody and nonsense ---
for verb in 'approve' 'reject' 'cancel' 'requeue' 'dlq show' 'dlq redrive' 'dlq drop --yes'; do
    # shellcheck disable=SC2086 # a list of words
    runs 3 $verb "$nobody"
    says "$nobody"
    # shellcheck disable=SC2086
    runs 2 $verb nonsense
done
runs 3 signal "$nobody" key
runs 2 signal "$nobody"
says 'KEY is required'
runs 3 approve "$nobody" step
runs 2 approve
runs 2 reject

# --- cancel ---
runs 0 cancel "$first" --reason 'not needed'
prints "$first: cancelled"
runs 0 events "$first" --json
json 'a["events"][-1]["type"] == "job_cancelled" and a["events"][-1]["reason"] == "not needed"'
submits fine
works fine true
finished=$id
runs 4 cancel "$finished"
says 'completed'
submits a
one=$id
submits a
attempts 4 cancel "$one" "$finished" "$id" --json
lines 2
has_status "$one" cancelled
has_status "$id" cancelled
runs 2 cancel
says '--filter'
runs 2 cancel "$one" --filter kind=a
says 'not both'
runs 2 cancel "$one" --dry-run
runs 2 cancel --filter kind
says 'kind=VALUE'
runs 2 cancel --filter knd=a
says "Did you mean 'kind'?"
runs 2 cancel --filter colour=red
says 'valid: status'
runs 2 cancel --filter kind=a --filter kind=b
says 'only once'
runs 2 cancel --filter created_after=never
runs 2 cancel --filter status=asleep

for i in 1 2 3 4 5; do
    submits crowd --queue q"$i" --label batch:x
done
runs 0 cancel --filter kind=crowd --filter label=batch:x --dry-run
prints '5 would be cancelled'
runs 0 ls --kind crowd --status queued --json
json 'len(a["jobs"]) == 5'
runs 0 cancel --filter kind=crowd --filter queue=q1 --json
json 'a == {"matched": 1, "done": 1, "refused": 0}'
runs 0 cancel --filter kind=crowd --filter created_after=1h --filter status=queued --rate 100 --hard
prints '4 cancelled'
runs 0 cancel --filter kind=nobody
prints '0 cancelled'

# What is in no state for it is not counted as what would be done.
submits over
works over true
submits over
runs 0 cancel --filter kind=over --dry-run
prints '1 would be cancelled, 1 refused'
runs 0 cancel --filter kind=over
prints '1 cancelled, 1 refused'
attempts 1 cancel --filter status=completed --filter kind=over --dry-run
prints '0 would be cancelled, 1 refused'
attempts 1 cancel --filter status=completed --filter kind=over
prints '0 cancelled, 1 refused'
says 'in its current state'

# --- requeue ---
submits sad
works sad sh -c 'exit 77'
has_status "$id" failed
runs 0 requeue "$id" --reason 'mended' --fresh
prints "$id: queued"
works sad sh -c 'exit 77'
runs 0 requeue --filter status=failed --filter kind=sad
prints '1 requeued'
has_status "$id" queued
runs 4 requeue "$finished"
runs 2 requeue

# --- run ---
submits later --delay 1h
runs 0 run "$id" --reason 'now'
prints "$id: queued"
works later true
has_status "$id" completed
runs 4 run "$id"
says 'only a scheduled or retrying job can be run now'
runs 2 run
runs 3 run 01a1e278-ed88-73d1-9060-3f3f311c080a

# --- lifetime ---
submits brief --expires 1h --deadline 2h
runs 0 show "$id"
prints 'expires:'
prints 'deadline:'
runs 0 explain "$id"
prints 'unless started by'
runs 2 submit brief --expires 1h --delay 1h
runs 0 cancel "$id"

# --- dead letters ---
for i in 1 2 3; do
    submits letter --max-attempts 1 --queue post"$i"
done
works letter sh -c 'echo the address is wrong >&2; exit 1'
runs 0 dlq ls
prints 'exhausted_retries'
prints 'the address is wrong'
lines 4
letter=$id
runs 0 dlq groups
prints 'the address is wrong'
runs 0 dlq groups --json
json 'a["groups"][0]["count"] == 3 and a["groups"][0]["message"] == "the address is wrong"'
submits odd
runs 0 dlq add "$id" --reason-code dependency_unavailable --stage fetch --message 'no such host'
runs 0 dlq show "$id" --json
json 'a["dead_letter"]["stage"] == "fetch" and a["dead_letter"]["last_error"]["message"] == "no such host"'
runs 2 dlq add "$id"
runs 2 dlq ls --stage fetch
runs 0 dlq drop "$id" --yes
submits letter --max-attempts 1 --queue post4
works letter sh -c 'exit 3'
runs 0 show "$id" --json
json 'a["error"]["code"] == "exit 3"'
# A group is what has the same kind, reason and error, and nothing else of the kind.
runs 0 dlq groups --json
json 'len(a["groups"]) == 2 and a["groups"][1]["message"] == "the command exited with code *"'
group=$(python3 -c 'import json, sys; print(json.load(sys.stdin)["groups"][1]["group"])' <"$work/out")
runs 0 dlq groups
prints "$group"
runs 0 dlq ls --group "$group" --json
json 'len(a["jobs"]) == 1'
runs 2 dlq ls --group nothing
says 'group must be 16 hex digits'
runs 2 dlq groups --group "$group"
runs 2 dlq drop --group "$group"
says 'this permanently deletes 1 dead letter with all history'
runs 0 dlq redrive --group "$group" --dry-run
prints '1 would be redriven'
runs 0 dlq drop --group "$group" --yes
prints '1 dropped'
runs 3 show "$id"
id=$letter
runs 0 dlq ls --queue post1 --json
json 'len(a["jobs"]) == 1'
runs 0 dlq ls --reason-code policy_violation
prints 'No matching dead letters.'
runs 2 dlq ls --reason-code because
runs 0 dlq show "$id"
prints 'dead letter:      exhausted_retries'
runs 0 dlq show "$id" --json
json 'a["dead_letter"]["attempts"] == 1'
runs 3 dlq show "$finished"
says 'is not a dead letter'
runs 0 dlq redrive --kind letter --dry-run
prints '3 would be redriven'
runs 0 dlq redrive "$id" --reason 'corrected'
prints '1 redriven'
has_status "$id" queued
runs 4 dlq redrive "$id"
runs 2 dlq drop --queue post1
says 'this permanently deletes 1 dead letter with all history; confirm with --yes'
runs 2 dlq drop --all
says 'this permanently deletes 2 dead letters'
runs 2 dlq drop "$id"
runs 0 dlq drop --queue post1 --dry-run
prints '1 would be dropped'
runs 0 dlq ls --queue post1 --json
json 'len(a["jobs"]) == 1'
runs 2 dlq redrive --queue post1 --yes
says '--yes is for drop'
runs 0 dlq drop --queue post1 --yes
prints '1 dropped'
runs 0 dlq redrive --all --json
json 'a["done"] == 1'
runs 2 dlq
says 'ls, groups, show, add, redrive, drop'
runs 2 dlq burn
says "'burn'"
runs 2 dlq drop
says '--all'
runs 2 dlq drop "$id" --all
runs 2 dlq show
runs 2 dlq ls "$id"
runs 2 dlq ls --all
runs 2 dlq drop --all --fresh

# --- inbox, approve, reject ---
runs 0 inbox
prints 'No open questions.'
submits ask
asks key-1 'May I?'
runs 0 inbox
prints 'May I?'
prints "$id"
runs 0 inbox --json
json 'a["questions"][0]["prompt"] == "May I?" and a["questions"][0]["correlation_key"] == "key-1"'
runs 0 approve "$id" --answer 'up to 5' --by ada
prints 'answered up to 5'
runs 0 events "$id" --json
json 'a["events"][-1]["payload"]["payload"] == "up to 5"'
json 'a["events"][-1]["payload"]["by"] == "ada" and a["events"][-1]["actor"] == "cli:tester"'
runs 4 approve "$id"
says 'has no open question'
asks key-2 'And now?'
runs 2 reject "$id" --answer 'no, not now'
says '--comment'
runs 0 reject "$id" --comment 'not now' --json
json 'a["status"] == "queued"'
runs 0 events "$id" --json
json 'a["events"][-1]["payload"]["payload"] == {"approved": False}'
json 'a["events"][-1]["payload"]["by"] == "tester" and a["events"][-1]["payload"]["comment"] == "not now"'
asks key-3 'Really?'
runs 2 approve "$id" --result 5
says 'of an effect in doubt'
runs 0 approve "$id"
prints 'approved'
runs 0 events "$id" --json
json 'a["events"][-1]["payload"]["payload"] == {"approved": True}'
works ask "$build/pawl" lease wait hook --type webhook
runs 4 approve "$id"
says 'webhook'

# Where there are choices the answer is one of them.
submits choose
works choose "$build/pawl" lease wait when --prompt 'Ship?' --choice now --choice tonight --choice '"7"'
runs 2 approve "$id"
says '--answer with one of: now, tonight, "7"'
runs 2 approve "$id" --answer never
says "'never' is not one of the choices: now, tonight"
runs 2 reject "$id" --answer never
runs 2 approve "$id" --answer 7
runs 0 show "$id" --json
json 'a["status"] == "waiting"'
runs 0 approve "$id" --answer '"7"'
runs 0 events "$id" --json
json 'a["events"][-1]["payload"]["payload"] == "\"7\""'
works choose "$build/pawl" lease wait when --prompt 'Ship?' --choice yes --choice no --timeout 1d --default no
runs 2 reject "$id"
says '--answer with one of: yes, no'
runs 2 signal "$id" when --payload '{"approved": true, "answer": "no"}'
says 'is not one of ["yes","no"]'
runs 0 inbox --json
json 'a["questions"][0]["default_answer"] == "no"'
runs 0 approve "$id" --answer no
prints 'answered no'
runs 0 events "$id" --json
json 'a["events"][-1]["payload"]["payload"] == "no"'

submits chosen --plan '[{"id": "one", "kind": "q", "wait": {"type": "human", "prompt": "1?", "choices": ["yes", "no"]}}]'
runs 2 approve "$id" one
says 'yes, no'
runs 2 reject "$id" one
runs 2 approve "$id" one --answer perhaps
says 'yes, no'
runs 0 explain "$id"
prints "pawl approve $id one --answer CHOICE"
prints_not "pawl reject"
runs 0 reject "$id" one --answer no
runs 0 steps "$id" --json
json 'a["steps"][0]["answer"] == "no"'

plan='[{"id": "one", "kind": "q", "wait": {"type": "human", "correlation_key": "k1", "prompt": "1?"}},
    {"id": "two", "kind": "q", "wait": {"type": "human", "correlation_key": "k2", "prompt": "2?"}}]'
submits planned --plan "$plan"
runs 0 inbox
prints '1?'
prints '2?'
runs 4 approve "$id"
says 'ID STEP'
runs 0 approve "$id" one
runs 3 approve "$id" three
runs 2 reject "$id" two --answer 7
runs 0 reject "$id" two --comment 'too many' --json
json 'a["id"] == "'"$id"'"'
runs 0 steps "$id" --json
json '[s["answer"] for s in a["steps"]] == [{"approved": True}, {"approved": False}]'
json 'a["steps"][1]["answer_comment"] == "too many" and a["steps"][1]["answered_by"] == "tester"'

# --- signal ---
submits ask
works ask "$build/pawl" lease wait paid --type signal
runs 4 signal "$id" other
says 'the job waits for the key "paid", not "other"; use --early to store the signal'
runs 0 signal "$id" other --early
prints 'stored'
runs 2 signal "$id" paid --payload '{'
says '--payload'
runs 0 signal "$id" paid --payload '{"cents": 100}' --signal-id s1
prints 'delivered'
runs 0 signal "$id" paid --payload '{"cents": 100}' --signal-id s1 --json
json 'a["signal"] == "repeated"'

finish
