#!/bin/sh
# verify and redact: what is wrong with a store is found and named, whatever it is; what is erased is
# gone, and the rest still holds.
#
# usage: test_verify.sh BUILD SOURCE
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

for verb in 'verify X' 'verify --all' 'redact X --yes'; do
    # shellcheck disable=SC2086 # a list of words
    runs 5 $verb
done
attempts 0 submit email --payload '{"to": "ada", "n": 1.10}' --label team:core
first=$(cat "$work/out")
submits email --payload '{"to": "bob"}' --goal secret
second=$id
works email sh -c 'echo "\"sent\""'
submits later --delay 1h
third=$id

# --- verify ---
runs 0 verify "$first"
prints 'history:          holds'
prints 'status:           completed'
prints 'chain head:'
runs 0 verify "$first" --json
json "a['id'] == '$first' and a['ok'] and a['violations'] == [] and not a['partial']"
json 'len(a["chain_head"]) == 64 and a["version"] == 4 and a["status"] == "completed"'
runs 0 verify "$first" "$second" --json
lines 2
runs 0 verify --all
lines 1
prints '3 jobs verified, 0 with violations, 0 partly (redacted)'
runs 0 verify --all --json
json 'a == {"jobs": [], "verified": 3, "broken": 0, "partial": 0}'
runs 0 verify --filter kind=later
prints '1 job verified, 0'
runs 0 verify --filter kind=nothing
prints '0 jobs verified'

runs 2 verify
says 'ID..., --filter KEY=VALUE or --all'
runs 2 verify "$first" --all
runs 2 verify --all --filter kind=email
runs 2 verify --filter colour=red
says "'colour'"
runs 2 verify --filter kind
runs 3 verify "$nobody"
runs 2 verify nonsense
says '"nonsense"'
attempts 3 verify "$nobody" "$first"
prints "$first"

# --- damage, on a copy of the store ---
runs 0 backup "$work/good.db"

# plants SQL : a copy of the store in which somebody has changed something
plants() {
    rm -f "$work"/bad.db*
    cp "$work/good.db" "$work/bad.db"
    python3 -c 'import sqlite3, sys
store = sqlite3.connect(sys.argv[1])
store.create_function("job", 0, lambda: bytes.fromhex(sys.argv[3].replace("-", "")))
changed = store.execute(sys.argv[2]).rowcount
store.commit()
sys.exit(0 if changed == 1 else 1)' "$work/bad.db" "$1" "$first" || complain "cannot plant: $1"
}

# finds TEXT SQL : such a change is found, in one job or in all, and said in these words
finds() {
    plants "$2"
    attempts 1 verify "$first" --store "sqlite:$work/bad.db"
    prints 'history:          broken'
    prints "$1"
    attempts 1 verify --all --store "sqlite:$work/bad.db"
    prints "$first: "
    prints "$1"
    prints '3 jobs verified, 1 with violations'
    lines 2
    # What is not right is not given out either, and the others are.
    attempts 1 export --all --store "sqlite:$work/bad.db"
    lines 2
    says "$first"
}

finds 'event 1 breaks the rule digest' \
    "UPDATE event_rows SET payload = replace(payload, '1.10', '1.11') WHERE job = job() AND version = 1"
finds 'event 4 breaks the rule digest' \
    "UPDATE event_rows SET payload = replace(payload, 'sent', 'lost') WHERE job = job() AND version = 4"
finds 'event 2 (job_leased) is damaged' \
    "UPDATE event_rows SET payload = 'garbage' WHERE job = job() AND version = 2"
finds 'event 3 breaks the rule hash' "UPDATE event_rows SET actor = 'eve' WHERE job = job() AND version = 3"
finds 'event 3 breaks the rule hash' \
    "UPDATE event_rows SET created_at = created_at + 1 WHERE job = job() AND version = 3"
finds 'version 4 stands where 3 belongs' 'DELETE FROM event_rows WHERE job = job() AND version = 3'
finds 'its row breaks the rule row' 'DELETE FROM event_rows WHERE job = job() AND version = 4'
finds 'its row breaks the rule row: job: status' \
    "UPDATE job_rows SET status = (SELECT status FROM job_rows ORDER BY job DESC LIMIT 1) WHERE job = job()"
finds 'its row breaks the rule row: job: failures' 'UPDATE job_rows SET retry_count = 9 WHERE job = job()'
finds 'the salt is still there' \
    'UPDATE event_rows SET payload = NULL, redacted = 1 WHERE job = job() AND version = 2'
finds 'column digest' "UPDATE event_rows SET digest = x'00' WHERE job = job() AND version = 2"
attempts 1 verify --all --store "sqlite:$work/bad.db" --json
json "a['broken'] == 1 and a['verified'] == 3 and [j['id'] for j in a['jobs']] == ['$first']"
json 'not a["jobs"][0]["ok"] and len(a["jobs"][0]["violations"]) > 0'

# A job that cannot even be read is named as that, and the others are verified.
plants "UPDATE event_rows SET payload = 'garbage' WHERE job = job() AND version = 1"
attempts 1 verify "$first" --store "sqlite:$work/bad.db"
prints 'broken'
prints 'cannot be read'
attempts 1 verify "$first" --store "sqlite:$work/bad.db" --json
json "a['id'] == '$first' and not a['ok'] and a['violations'][0]['rule'] == 'readable'"
attempts 1 verify --all --store "sqlite:$work/bad.db"
prints 'cannot be read'
prints '3 jobs verified, 1 with violations'
runs 0 verify --all

# --- redact ---
runs 4 redact "$third" --yes
says 'it is queued'
runs 0 redact "$second" --yes
prints "$second: erased"
runs 0 redact "$second" --json --yes
json 'a["redacted"] is True'
runs 3 redact "$nobody" --yes
runs 2 redact "$second"
says 'this erases the payloads, results, errors and labels of 1 job for ever; confirm it with --yes'
runs 2 redact
says 'ID is missing'
attempts 3 redact "$nobody" "$second" --yes
prints "$second: erased"
runs 0 show "$second" --json
json 'a["redacted"] and a["payload"] is None and a["goal"] is None and a["result"] is None'
runs 0 verify "$second"
prints 'holds, as far as can be told'
runs 0 verify --all
prints '3 jobs verified, 0 with violations, 1 partly (redacted)'
for text in secret bob; do
    ! grep -q -a $text "$work/pawl.db" || complain "$text is still in the file"
done

# --- on a terminal ---
pawl=$build/pawl
# answers TEXT COMMAND : runs a command on a terminal at which somebody types that
answers() {
    what="on a terminal: $2"
    echo "$1" | script -q -e -c "$2" /dev/null >"$work/out" 2>"$work/err"
    status=$?
}
answers n "$pawl redact $first"
[ $status -eq 1 ] || complain "$what exits with $status"
prints 'Type yes to continue:'
prints 'not confirmed, nothing was changed'
runs 0 verify "$first"
prints_not 'as far as'
answers y "$pawl redact $first"
[ $status -eq 1 ] || complain "$what exits with $status"
answers yes "$pawl redact $first"
[ $status -eq 0 ] || complain "$what exits with $status"
prints "$first: erased"
on_terminal 80 "$pawl redact $first --yes"
prints_not 'Type yes'
on_terminal 80 "$pawl verify --all"
prints '3 jobs verified, 0 with violations, 2 partly (redacted)'
grep -q '/3 verified' "$work/out" || complain "$what shows no progress"

finish
