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

# The later events of the job are one text, each an array with a comma before it.
events="json('[' || substr(record, 2) || ']')"
# edits WHAT : the SQL that replaces them by the JSON array WHAT
edits() {
    echo "UPDATE state_rows SET record = ',' || substr($1, 2, length($1) - 2)"
}
finds 'event 1 violates the rule hash' \
    "UPDATE job_rows SET created = replace(created, '1.10', '1.11') WHERE no = (SELECT no FROM job_rows WHERE job = job())"
finds 'event 4 violates the rule hash' \
    "UPDATE state_rows SET record = replace(record, 'sent', 'lost') WHERE no = (SELECT no FROM job_rows WHERE job = job())"
finds 'event 2 (job_leased) is damaged' \
    "UPDATE state_rows SET record = replace(record, '{\"worker_id', 'garbage') WHERE no = (SELECT no FROM job_rows WHERE job = job())"
finds 'event 3 violates the rule hash' "$(edits "json_set($events, '\$[1][3]', 'eve')") WHERE no = (SELECT no FROM job_rows WHERE job = job())"
finds 'event 3 violates the rule hash' "$(edits "json_set($events, '\$[1][2]', json_extract($events, '\$[1][2]') + 1)") WHERE no = (SELECT no FROM job_rows WHERE job = job())"
finds 'version 4 stands where 3 belongs' "$(edits "json_remove($events, '\$[1]')"),
    hashes = CAST(substr(hashes, 1, 32) || substr(hashes, 65) AS BLOB) WHERE no = (SELECT no FROM job_rows WHERE job = job())"
finds 'the stored row violates the rule row' "$(edits "json_remove($events, '\$[2]')"),
    hashes = substr(hashes, 1, 64) WHERE no = (SELECT no FROM job_rows WHERE job = job())"
finds 'the stored row violates the rule row: job: status' 'UPDATE state_rows SET status = 0 WHERE no = (SELECT no FROM job_rows WHERE job = job())'
finds 'the stored row violates the rule row: job: failures' 'UPDATE state_rows SET retry_count = 9 WHERE no = (SELECT no FROM job_rows WHERE job = job())'
attempts 1 verify --all --store "sqlite:$work/bad.db" --json
json "a['broken'] == 1 and a['verified'] == 3 and [j['id'] for j in a['jobs']] == ['$first']"
json 'not a["jobs"][0]["ok"] and len(a["jobs"][0]["violations"]) > 0'

# A job that cannot even be read is named as that, and the others are verified.
plants "UPDATE job_rows SET created = replace(created, '{\"kind', 'garbage') WHERE no = (SELECT no FROM job_rows WHERE job = job())"
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
says 'this permanently erases the payloads, results, errors and labels of 1 job; confirm with --yes'
runs 2 redact
says 'ID is required'
attempts 3 redact "$nobody" "$second" --yes
prints "$second: erased"
runs 0 show "$second" --json
json 'a["redacted"] and a["payload"] is None and a["goal"] is None and a["result"] is None'
runs 0 verify "$second"
prints 'valid as far as can be checked'
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
prints 'not confirmed; nothing was changed'
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
