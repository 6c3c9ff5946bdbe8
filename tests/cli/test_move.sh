#!/bin/sh
# export and import: jobs move between stores with all of their history, byte for byte, or not at all.
#
# usage: test_move.sh BUILD SOURCE
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

if [ -z "${PAWL_TEST_POSTGRES:-}" ]; then
    echo 'PAWL_TEST_POSTGRES is not set: scripts/with-postgres sets it'
    exit 1
fi
database=pawl_move_$$
psql -q -X "$PAWL_TEST_POSTGRES" -c "CREATE DATABASE $database" || exit 1
trap 'rm -rf "$work"; psql -q -X "$PAWL_TEST_POSTGRES" -c "DROP DATABASE $database WITH (FORCE)"' EXIT
postgres=$(echo "$PAWL_TEST_POSTGRES" | sed "s|/postgres?|/$database?|")
pawl=$build/pawl

runs 5 export --all
attempts 0 submit email --payload '{"n": 1.10, "t": "\u00e9\n"}' --label a:b --key k
email=$(cat "$work/out")
submits email
# shellcheck disable=SC2016 # for the worker's shell
works email sh -c '"$0" lease effect charge -- echo 1 >/dev/null; echo "[ 1 ]"' "$pawl"
submits ask
works ask "$pawl" lease wait ok --type human --prompt 'Really?'
ask=$id
submits bad --max-attempts 1
works bad false
submits plan --plan '[{"id": "a", "kind": "k"}, {"id": "b", "kind": "k", "deps": [ "a" ]}]'
submits secret --payload '"secret"'
works secret true
secret=$id
runs 0 redact "$secret" --yes
submits last --delay 1h

# --- export ---
runs 0 export --all
lines 7
cp "$work/out" "$work/all"
! grep -q 'secret.*secret.*secret' "$work/all" || complain 'a payload that was erased is exported'
runs 0 export --all --output "$work/file"
prints "7 jobs exported to $work/file"
cmp -s "$work/all" "$work/file" || complain 'a file and stdout do not get the same'
[ ! -e "$work/file.part" ] || complain 'a part of a file is left'
runs 0 export --all -o "$work/file" --json
json 'a == {"exported": 7, "failed": 0}'
runs 0 export --all --output -
cmp -s "$work/out" "$work/all" || complain '- is not stdout'
runs 0 export "$email"
json "a['id'] == '$email' and a['format'] == 1 and len(a['events']) == 6"
runs 0 export "$secret"
json 'a["row"]["kind"] == "secret" and all(e["redacted"] for e in a["events"]) and "salt" not in a'
runs 0 export --filter kind=email
lines 2
runs 0 export --filter kind=nothing
lines 0
runs 3 export "$nobody"
runs 2 export nonsense
runs 2 export
runs 2 export "$email" --all
runs 1 export --all --output "$work/no/such/directory"
says 'no/such/directory'
if [ -e /dev/full ]; then
    runs 1 export --all --output /dev/full
    what='export to a full disk'
    ! "$pawl" export --all >/dev/full 2>"$work/err" || complain "$what is not noticed"
    says 'cannot write stdout'
fi
runs 3 export "$email" "$nobody" --output "$work/half"
[ ! -e "$work/half" ] || complain 'a file that is not complete has its name'
[ ! -e "$work/half.part" ] || complain 'a part of a file is left'

# --- sqlite, postgres, sqlite: the same again at the end ---
attempts 0 import "$work/all" --store "$postgres"
says 'created postgres://'
prints '7 imported, 0 already present'
runs 0 export --all --store "$postgres"
cmp -s "$work/out" "$work/all" || complain 'another store exports something else'
cp "$work/out" "$work/there"
attempts 0 import - --store "sqlite:$work/third.db" </dev/null
prints '0 imported'
[ ! -e "$work/third.db" ] || complain 'a store was made for nothing'
"$pawl" import --store "sqlite:$work/third.db" <"$work/there" >"$work/out" 2>"$work/err" ||
    complain 'import from stdin fails'
prints '7 imported'
says 'created sqlite:'
runs 0 export --all --store "sqlite:$work/third.db"
cmp -s "$work/out" "$work/all" || complain 'after a round trip something is not as it was'
for store in "$postgres" "sqlite:$work/third.db"; do
    runs 0 verify --all --store "$store"
    prints '7 jobs verified, 0 with violations, 1 partly (redacted)'
    runs 0 import "$work/all" --json --store "$store"
    json 'a == {"imported": 0, "present": 7}'
    for id in "$email" "$ask" "$secret"; do
        runs 0 show "$id" --json
        cp "$work/out" "$work/here"
        runs 0 show "$id" --json --store "$store"
        cmp -s "$work/out" "$work/here" || complain "$id is not the same elsewhere"
    done
done
runs 0 approve "$ask" --store "$postgres"
runs 0 explain "$secret" --store "$postgres"
runs 0 steps "$secret" --store "$postgres"

# A job that has gone on is not overwritten; a key belongs to one job.
runs 4 import "$work/all" --store "$postgres"
says 'a different history'
says 'line '
attempts 0 submit email --key k --store "sqlite:$work/keys.db"
runs 4 import "$work/all" --store "sqlite:$work/keys.db"
says 'line 7: the idempotency_key "k"'

# --- files that are not right ---
store=sqlite:$work/fresh.db
# refuses TEXT : the file is refused with these words, and nothing of it is taken
refuses() {
    runs 1 import "$work/wrong" --store "$store"
    says "$1"
    says 'nothing from line 1 on was imported'
    [ ! -e "$work/fresh.db" ] || complain 'a store was made for a file that is refused'
}
sed '3s/"actor":"[^"]*"/"actor":"eve"/' "$work/all" >"$work/wrong"
refuses 'line 3: invalid history'
sed '4s/"payload":"/"payload":" /' "$work/all" >"$work/wrong"
refuses 'line 4: invalid history'
head -c $(($(wc -c <"$work/all") - 20)) "$work/all" >"$work/wrong"
refuses 'line 7: this is not an exported job; is the file truncated?'
(
    head -n 2 "$work/all"
    echo
    echo '{"format": 2}'
) >"$work/wrong"
refuses 'line 4: the export format is 2'
(
    head -n 2 "$work/all"
    printf '{}\000\n'
) >"$work/wrong"
refuses 'line 3: '
echo '[]' >"$work/wrong"
refuses 'line 1: '
sed 's/"redacted":true,//' "$work/all" >"$work/wrong"
refuses 'line 2: row is only for jobs with erased payloads'
sed 's/"row":{/"row":{"colour":1,/' "$work/all" >"$work/wrong"
refuses 'colour'
runs 1 import "$work/none"
says "cannot read $work/none"
runs 1 import "$work"
runs 2 import a b

# The same job twice is one job.
cat "$work/all" "$work/all" >"$work/twice"
attempts 0 import "$work/twice" --store "$store"
prints '7 imported, 7 already present'

# --- many of them, in several batches; what was taken before the wrong line stays ---
python3 - "$work/all" "$work/many" <<'PYTHON' || complain 'cannot make many jobs'
import datetime, hashlib, json, sys, uuid

# Jobs like one that was just made, with ids of their own, hashed as docs/internals/chain.md says.
template = [b for b in map(json.loads, open(sys.argv[1])) if len(b["events"]) == 1][0]
field = lambda data: len(data).to_bytes(4, "big") + data
with open(sys.argv[2], "w") as out:
    for i in range(230):
        event = template["events"][0]
        job = uuid.UUID(int=(uuid.UUID(template["id"]).int >> 64 << 64) + (1 << 63) + i)
        at = datetime.datetime.strptime(event["at"], "%Y-%m-%dT%H:%M:%S.%fZ")
        ms = round(at.replace(tzinfo=datetime.timezone.utc).timestamp() * 1000)
        fields = [job.bytes, (1).to_bytes(8, "big"), event["type"].encode(), ms.to_bytes(8, "big"),
                  event["actor"].encode(), event["cause"].encode(), b"", bytes.fromhex(event["digest"])]
        event["hash"] = hashlib.sha256(bytes(32) + b"".join(map(field, fields))).hexdigest()
        # No correlation id was given: the id of the job is shown in its place, and not hashed.
        event["correlation_id"] = str(job)
        print(json.dumps({**template, "id": str(job)}), file=out)
PYTHON
sed '150s/"actor": "[^"]*"/"actor": "eve"/' "$work/many" >"$work/wrong"
runs 1 import "$work/wrong" --store "$store"
says 'line 150: invalid history: event 1 violates the rule hash'
says 'nothing from line 101 on was imported'
runs 0 verify --all --store "$store"
prints '107 jobs verified, 0 with violations'
runs 0 import "$work/many" --store "$store"
prints '130 imported, 100 already present'
runs 0 export --all --store "$store"
lines 237

# --- a history that is longer than any other request may be ---
python3 -c 'import sys
sys.stdout.write("\"" + "x" * 1000000 + "\"")' >"$work/large.json"
submits large --payload "@$work/large.json"
for n in 1 2 3 4 5 6 7 8 9; do
    runs 0 signal "$id" "k$n" --payload "@$work/large.json" --early
done
runs 0 export "$id" --output "$work/large"
[ "$(wc -c <"$work/large")" -gt 8388608 ] || complain 'the large job is not large'
"$pawl" work --kind nothing --store "$store" -- true >/dev/null 2>&1 & # the store is somebody else's
owner=$!
until [ -S "$work/fresh.db.sock" ]; do
    sleep 0.05
done
runs 0 import "$work/large" --store "$store"
prints '1 imported'
runs 0 export "$id" --store "$store"
cmp -s "$work/out" "$work/large" || complain 'the large job is not the same elsewhere'
kill $owner
wait $owner

# --- on a terminal ---
on_terminal 80 "$pawl export --all --output $work/file"
prints '/8 exported'
prints '8 jobs exported to'
on_terminal 80 "$pawl export $email"
prints '"format":1'
on_terminal 80 "$pawl import $work/file --store sqlite:$work/terminal.db"
prints '8 imported'
what='import without a file, on a terminal'
script -q -e -c "$pawl import" /dev/null </dev/null >"$work/out" 2>&1
[ $? -eq 2 ] || complain "$what does not ask for one"
prints 'FILE, or - for stdin'

finish
