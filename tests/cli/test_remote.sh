#!/bin/sh
# Every verb against a server, as against a store: with a token, over TLS, and through a server
# that is killed and started again under a worker.
#
# usage: test_remote.sh BUILD SOURCE
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

server=
trap '[ -z "$server" ] || kill -9 "$server"; rm -rf "$work"' EXIT

# serves ADDRESS [OPTION]... : starts a server, whose port is then $port
serves() {
    address=$1
    shift
    : >"$work/server.log"
    "$build/pawl" serve --store "sqlite:$work/pawl.db" --listen "$address" "$@" \
        >"$work/server.log" 2>&1 </dev/null &
    server=$!
    port=
    tries=0
    while [ -z "$port" ] && [ $tries -lt 200 ]; do
        sleep 0.05
        port=$(sed -n 's/.* on port \([0-9]*\).*/\1/p' "$work/server.log")
        tries=$((tries + 1))
    done
    [ -n "$port" ] || { cat "$work/server.log"; echo 'FAIL: there is no server'; exit 1; }
}

ends() {
    kill "-$1" "$server"
    wait "$server" 2>/dev/null
    server=
}

# Nobody is there, and what is there is not Pawl.
PAWL_PATIENCE=100ms
runs 5 ls --store http://127.0.0.1:1
says 'cannot reach http://127.0.0.1:1'
runs 2 ls --store http://user:secret@127.0.0.1:1
says 'use a token instead'
runs 2 migrate --store http://127.0.0.1:1
PAWL_PATIENCE=10s

serves 127.0.0.1:0
PAWL_STORE=http://127.0.0.1:$port

# Jobs, one by one.
submits mail --payload '{"to": "ada", "n": 1.10}' --queue 'a/b?c=d&e' --key 'k 1' --label x:y
first=$id
attempts 0 submit mail --payload '{"to": "ada", "n": 1.1}' --queue 'a/b?c=d&e' --key 'k 1'
[ "$(cat "$work/out")" = "$first" ] || complain 'a repeated key makes another job'
runs 0 show "$first" --json
json "a['status'] == 'queued' and a['queue'] == 'a/b?c=d&e'"
prints '1.10'
runs 0 ls --queue 'a/b?c=d&e' --json
json "len(a['jobs']) == 1"
runs 0 events "$first"
prints job_created
runs 0 explain "$first"
runs 0 steps "$first"
runs 0 verify "$first"
runs 0 verify --all
runs 3 show "$nobody"
runs 2 show nonsense
runs 0 pause 'a/b?c=d&e'
works mail true
has_status "$first" queued
runs 0 resume 'a/b?c=d&e'
works mail sh -c 'cat'
has_status "$first" completed
runs 4 requeue "$first"

# A worker's commands reach the server too.
submits wait
cat >"$work/command" <<'END'
if [ "$PAWL_ATTEMPT" = 1 ]; then
    "$1" lease progress '{"half": true}' && "$1" lease wait go --timeout 1h
else
    "$1" lease effect mail -- echo sent
fi
END
works wait sh "$work/command" "$build/pawl"
has_status "$id" waiting
runs 0 inbox
runs 4 signal "$id" stop
runs 0 signal "$id" go --payload '{"yes": 1}'
works wait sh "$work/command" "$build/pawl"
has_status "$id" completed

# Failures, dead letters, many at once.
submits bad --max-attempts 1
submits bad --max-attempts 1
submits bad --max-attempts 1
works bad false
runs 0 dlq ls --json
json "len(a['jobs']) == 3"
runs 0 dlq show "$id"
runs 0 dlq redrive "$id"
has_status "$id" queued
runs 0 dlq drop --all --yes
runs 0 cancel "$id"
submits other
runs 0 cancel --filter kind=other
has_status "$id" cancelled
runs 0 redact "$id" --yes

# Settings, and what there is.
runs 0 kind set mail --max-attempts 7
runs 0 kind show mail --json
prints '"max_attempts":7'
for verb in queues workers resources stats doctor inbox; do
    runs 0 $verb
    runs 0 $verb --json
done

# Plans and people.
echo '{"steps": [{"id": "ask", "kind": "k"}]}' >"$work/plan"
submits planned --plan "@$work/plan"
runs 0 steps "$id"
prints ask

# In and out, and a copy where the server is.
attempts 0 export --all
cp "$work/out" "$work/all"
attempts 0 import "$work/all" --store "sqlite:$work/other.db"
attempts 0 import "$work/all"
attempts 0 backup "$work/copy.db"
runs 0 verify --all --store "sqlite:$work/copy.db"
attempts 0 token create ci --scope read
token=$(cat "$work/out")
runs 0 token ls
prints ci

# A server that is killed and comes back is no trouble to a worker, nor to who waits.
submits slow
slow=$id
PAWL_PATIENCE=30s "$build/pawl" work --kind slow --once -- sleep 2 >"$work/worker" 2>&1 </dev/null &
worker=$!
PAWL_PATIENCE=30s "$build/pawl" submit slower --wait >"$work/waiter" 2>&1 </dev/null &
waiter=$!
sleep 1
ends KILL
serves "127.0.0.1:$port"
wait $worker || { cat "$work/worker"; complain 'the worker fails with the server'; }
has_status "$slow" completed
works slower true
wait $waiter || { cat "$work/waiter"; complain 'who waits fails with the server'; }
ends TERM

# With a token.
PAWL_TOKEN=secret-of-the-admin
export PAWL_TOKEN
serves 0.0.0.0:0
PAWL_STORE=http://127.0.0.1:$port
submits mail
PAWL_TOKEN=wrong
runs 1 ls
says 'pawl ls: the server rejected the token in PAWL_TOKEN'
unset PAWL_TOKEN
runs 1 ls
says 'pawl ls: the server requires a token: set PAWL_TOKEN'
PAWL_TOKEN=$token
export PAWL_TOKEN
runs 0 ls
runs 1 submit mail
says 'pawl submit: this requires a token with the scope submit'
runs 1 token ls
says 'pawl token: this requires a token with the scope admin'
unset PAWL_TOKEN
ends TERM

# With TLS.
openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=localhost \
    -addext 'subjectAltName=IP:127.0.0.1' -keyout "$work/key.pem" -out "$work/cert.pem" \
    >/dev/null 2>&1
serves 127.0.0.1:0 --certificate "$work/cert.pem" --key "$work/key.pem"
PAWL_STORE=https://127.0.0.1:$port
runs 5 ls
says 'cannot verify the certificate of'
PAWL_CA_FILE=$work/cert.pem
export PAWL_CA_FILE
submits mail
has_status "$id" queued
runs 5 ls --store "https://localhost:$port"
says 'cannot verify the certificate of'
ends TERM

finish
