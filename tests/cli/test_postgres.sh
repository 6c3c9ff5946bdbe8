#!/bin/sh
# The command line on PostgreSQL: one pass through a job's life.
#
# usage: test_postgres.sh BUILD SOURCE
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

if [ -z "${PAWL_TEST_POSTGRES:-}" ]; then
    echo 'PAWL_TEST_POSTGRES is not set: scripts/with-postgres sets it'
    exit 1
fi
database=pawl_cli_$$
psql -q -X "$PAWL_TEST_POSTGRES" -c "CREATE DATABASE $database" || exit 1
trap 'rm -rf "$work"; psql -q -X "$PAWL_TEST_POSTGRES" -c "DROP DATABASE $database WITH (FORCE)"' EXIT
PAWL_STORE=$(echo "$PAWL_TEST_POSTGRES" | sed "s|/postgres?|/$database?|")

# Keywords in place of the URL, of postgres://postgres@localhost:PORT/postgres?host=DIRECTORY
keywords=$(echo "$PAWL_TEST_POSTGRES" |
    sed "s|.*localhost:\([0-9]*\)/postgres?host=\(.*\)|user=postgres port=\1 host=\2 dbname=$database|")

runs 5 ls
says 'no store'
attempts 0 submit email --payload '{"to": "ada"}' --label a:b
says 'created postgres://'
id=$(cat "$work/out")
runs 0 migrate
prints 'up to date'
runs 0 show "$id"
prints 'queued'
runs 0 ls --kind email
lines 2
# --- the store by keywords ---
runs 0 ls --kind email --store "$keywords"
lines 2
runs 5 ls --store "$keywords password='a secret' port=1"
prints_not 'secret'
grep -q 'secret' "$work/err" && complain 'a password is said'
runs 2 ls --store 'dbname=pawl nonsense=1'
says 'host=HOST port=PORT'
printf 'jobstore:\n  type: postgres\n  dsn: "%s"\n' "$keywords" >"$work/config.yaml"
"$build/pawl" serve --config "$work/config.yaml" --listen 127.0.0.1:0 >"$work/out" 2>"$work/err" &
server=$!
for _ in $(seq 200); do
    grep -q server_started "$work/err" && break
    sleep 0.1
done
kill "$server"
wait "$server"
what='serve with jobstore.dsn as keywords'
says '"url":"http://127.0.0.1:'

# --- tables can be read by SQL ---
reads() {
    what="SELECT $1"
    psql -q -X -A -t "$PAWL_STORE" -c "SET search_path TO pawl" -c "SELECT $1" >"$work/out" 2>"$work/err" ||
        complain "$what fails"
}
reads "id, agent_id, goal, status, cursor, retry_count, created_at, updated_at FROM jobs"
prints "$id||"
prints '|0||0|'
reads "id, job_id, version, type, payload, created_at FROM job_events"
prints "|$id|1|job_created|{"
reads "count(*) FROM (SELECT job_id, worker_id, expires_at FROM job_claims) AS c"
prints 0

works email "$build/pawl" lease wait ok --type human --prompt 'Send?'
runs 0 inbox
prints 'Send?'
runs 0 explain "$id"
runs 0 approve "$id"
works email sh -c 'echo \"sent\"'
has_status "$id" completed
runs 0 events "$id" -f
prints 'job_completed'
runs 3 show "$nobody"
runs 4 cancel "$id"
submits letter --max-attempts 1
works letter false
runs 0 dlq ls
prints "$id"
runs 0 dlq redrive --all
prints '1 redriven'
runs 0 cancel --filter kind=letter
prints '1 cancelled'
runs 0 pause default
runs 0 queues
prints 'paused'
runs 0 resume default
for verb in stats workers resources queues; do
    runs 0 $verb --json
    json 'isinstance(a, dict)'
done

finish
