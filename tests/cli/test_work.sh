#!/bin/sh
# `pawl work` from outside: what a command gets, what comes of how it ends, how it is ended, and
# what happens when the worker itself is told to end or is killed.
#
# usage: test_work.sh BUILD SOURCE
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
pawl=$build/pawl
workers=
# shellcheck disable=SC2154 # $pid is in the trap
trap 'for pid in $workers; do kill -9 "$pid" 2>/dev/null; done; rm -rf "$work"' EXIT
cd "$work" || exit

# takes ARGUMENT... : runs a worker that ends by itself, and must do so well
takes() {
    timeout 60 "$pawl" work "$@" >"$work/out" 2>"$work/err"
    status=$?
    [ $status -eq 0 ] || complain "work $* exits with $status"
}

# starts ARGUMENT... : the same in the background; leaves its number in $worker
starts() {
    "$pawl" work "$@" >"$work/worker" 2>&1 </dev/null &
    worker=$!
    workers="$workers $worker"
}

# is ID TEXT... : the job as JSON has all of these
is() {
    shown=$1
    shift
    "$pawl" show "$shown" --json >"$work/job" 2>&1
    for text in "$@"; do
        grep -q -F -e "$text" "$work/job" ||
            complain "the job has no $text: $(cat "$work/job")"
    done
}

# until_is ID TEXT : waits for it
until_is() {
    for _ in $(seq 150); do
        "$pawl" show "$1" --json 2>/dev/null | grep -q -F -e "$2" && return
        sleep 0.1
    done
    complain "the job never has $2: $("$pawl" show "$1" --json 2>&1)"
}

# until_file FILE
until_file() {
    for _ in $(seq 150); do
        [ -s "$1" ] && return
        sleep 0.1
    done
    complain "there is never a file $1"
}

# ends PID CODE : waits for a worker that was started
ends() {
    wait "$1"
    status=$?
    [ $status -eq "$2" ] || complain "the worker exits with $status, not $2"
}

# --- what a command gets, and what its exit code means ---
attempts 0 submit first # makes the store, and says so
submits echo --payload '{"to": "ada", "n": 1.10}'
takes --kind echo --once -- cat
is "$id" '"status":"completed"' '"result":{"to": "ada", "n": 1.10}' '"attempt":1'

submits text
takes --kind text --once -- sh -c 'printf "two\nlines \033 \377\n"'
is "$id" '"status":"completed"' '"result":"two\nlines \u001b '

submits quiet
takes --kind quiet --once -- true
is "$id" '"status":"completed"' '"result":null'

submits environment
# shellcheck disable=SC2016 # for the command
takes --kind environment --once -- sh -c \
    'echo "$PAWL_JOB_ID $PAWL_ATTEMPT $PAWL_KIND ${PAWL_LEASE:+lease} $PAWL_STORE ${PAWL_RESUME-none}"'
is "$id" "\"result\":\"$id 1 environment lease sqlite:$work/pawl.db none\""

# All else is the worker's own.
submits environment
export PAWL_TOKEN=of-the-worker
# shellcheck disable=SC2016 # for the command
takes --kind environment --once -- sh -c 'echo "$PAWL_TOKEN"'
unset PAWL_TOKEN
is "$id" '"result":"of-the-worker"'

submits wrong
takes --kind wrong --once -- sh -c 'echo not a number >&2; exit 65'
is "$id" '"status":"failed"' '"class":"validation","message":"not a number"' '"exit_code":65'
grep -q 'not a number' err || complain 'stderr is not passed on'
grep -q '"event":"failed".*"next":"final","message":"validation: ' err || complain 'it is not said that this is final'

submits never
takes --kind never --once -- sh -c 'exit 77'
is "$id" '"status":"failed"' '"class":"permanent","message":"the command exited with code 77"'

submits never
takes --kind never --once --permanent-exit 3 4 -- sh -c 'exit 4'
is "$id" '"status":"failed"' '"class":"permanent"'

submits later
takes --kind later --once -- sh -c 'exit 1'
is "$id" '"status":"retrying"' '"class":"transient"' '"failures":1'
grep -q '"next":"retry","run_at":"2' err || complain 'it is not said when it is tried again'

submits letter --max-attempts 1
takes --kind letter --once -- sh -c 'exit 1'
is "$id" '"status":"dead_lettered"'
grep -q '"next":"dead_letter","reason_code":"exhausted_retries"' err ||
    complain 'it is not said that this is a dead letter'

# The same on a terminal, in words.
submits terminal --initial-delay 5s --jitter none
terminal=$id
submits terminal --max-attempts 1
on_terminal 120 "'$pawl' work --kind terminal --drain -- sh -c 'exit 1'"
grep -q "^failed    $terminal terminal, attempt 1, [0-9a-z ]*, retried in 5s: transient: the command exited" \
    out || complain 'it is not said in how long it is tried again'
grep -q "^failed    $id terminal.*, dead letter (exhausted_retries): transient: " out ||
    complain 'a dead letter is not called that'
submits terminal
on_terminal 120 "'$pawl' work --kind terminal --once -- sh -c 'exit 77'"
grep -q "^failed    $id terminal.*, final: permanent: " out || complain 'what is final is not called that'

submits killed
# shellcheck disable=SC2016
takes --kind killed --once -- sh -c 'kill -SEGV $$'
is "$id" '"status":"retrying"' '"class":"transient"' 'signal 11' '"signal":11'

submits chatty
takes --kind chatty --once -- sh -c \
    'seq 3000 >&2; echo the last word >&2; exit 1'
is "$id" '3000\nthe last word"'
grep -q -F '"message":"1\n2\n' job && complain 'more than the end of stderr is kept'
length=$(sed 's/.*"message":"\([^"]*\)".*/\1/; s/\\n/n/g' job | tr -d '\n' | wc -c)
if [ "$length" -le 4000 ] || [ "$length" -gt 4096 ]; then
    complain "the message has $length bytes"
fi

submits large
takes --kind large --once -- sh -c 'yes | head -c 1048600; sleep 30'
is "$id" '"status":"failed"' '"class":"permanent"' '1 MiB'
submits large
takes --kind large --once -- sh -c 'head -c 1048574 /dev/zero | tr "\0" x'
is "$id" '"status":"completed"'

# A payload that is not read, and one that is larger than a pipe.
awk 'BEGIN { printf "\""; for (i = 0; i < 100000; i++) printf "abcdefg"; printf "\"" }' >long.json
submits unread --payload @long.json
takes --kind unread --once -- true
is "$id" '"status":"completed"'
submits long --payload @long.json
takes --kind long --once -- wc -c
is "$id" '"result":700003'

# Nothing of ours is open in the command.
submits files
takes --kind files --once -- sh -c 'ls /proc/self/fd | wc -l'
is "$id" '"result":4' # the three, and the directory

# --- a command that is not there takes no job ---
submits nothing
timeout 20 "$pawl" work --kind nothing --once -- ./nowhere >out 2>err
status=$?
[ $status -eq 2 ] || complain "a command that is not there: exit code $status"
grep -q "cannot run the command './nowhere': program not found" err || complain 'it is not said why'
is "$id" '"status":"queued"' '"attempt":0'

printf '#!/bin/sh\nrm gone.sh\necho done\n' >gone.sh
chmod +x gone.sh
submits nothing
timeout 20 "$pawl" work --kind nothing -- ./gone.sh >out 2>err
status=$?
[ $status -eq 1 ] || complain "a command that has gone away: exit code $status"
grep -q 'any more: No such file' err || complain 'it is not said that it has gone'
is "$id" '"failures":0'

printf 'echo a script without a first line\n' >plain.sh
chmod +x plain.sh
takes --kind nothing --drain -- ./plain.sh
is "$id" '"status":"completed"' '"result":"a script without'

# --- leases are kept: a second's lease, three seconds' work ---
submits slow
takes --kind slow --once --lease-ttl 1s -- sleep 3
is "$id" '"status":"completed"' '"attempt":1' '"failures":0'

# --- several at once ---
ids=
for _ in 1 2 3 4; do
    submits together
    ids="$ids $id"
done
mkdir here
# Each waits until it has seen all the others.
# shellcheck disable=SC2016
takes --kind together --drain --concurrency 4 -- sh -c \
    'touch "here/$PAWL_JOB_ID"
    for i in $(seq 100); do [ "$(ls here | wc -l)" -eq 4 ] && exit 0; sleep 0.1; done; exit 77'
for id in $ids; do
    is "$id" '"status":"completed"'
done

# --- cancellation is SIGTERM ---
submits cancelled
# shellcheck disable=SC2016
starts --kind cancelled --once --lease-ttl 1s -- sh -c \
    'trap "echo ended >ended; kill \$!; exit 0" TERM; sleep 60 & echo started >started; wait'
until_file started
"$pawl" cancel "$id" >/dev/null || complain 'cancel fails'
until_file ended
ends "$worker" 0
is "$id" '"status":"cancelled"'
grep -q '"event":"cancelled"' worker || complain 'the cancellation is not said'

# --- a job that is taken away ends its command, and nothing is reported ---
submits taken
# shellcheck disable=SC2016
starts --kind taken --once --lease-ttl 1s -- sh -c 'echo $$ >pid; exec sleep 60'
until_file pid
"$pawl" cancel --hard "$id" >/dev/null || complain 'cancel --hard fails'
ends "$worker" 0
kill -0 "$(cat pid)" 2>/dev/null && complain 'the command of a lost lease runs on'
grep -q '"event":"cancelled".*"message":"hard"' worker || complain 'the hard cancellation is not said'

# --- one whose lease ended while its worker was not looking; another process has the file ---
starts --kind nobody -- true
owner=$worker
for _ in $(seq 100); do
    [ "$(cat pawl.db.lock)" = "$owner" ] && break
    sleep 0.1
done
submits stopped
# shellcheck disable=SC2016
starts --kind stopped --once --lease-ttl 1s -- sh -c 'echo $$ >stopped; sleep 3; echo late'
until_file stopped
kill -STOP "$worker"
takes --kind stopped --once -- echo other
kill -CONT "$worker"
ends "$worker" 0
is "$id" '"result":"other"'
grep -q '"event":"lost".*"next":"retry".*its lease had expired' worker || complain 'the lost lease is not said'
kill -TERM "$owner"
ends "$owner" 0

# --- SIGTERM drains: what runs is finished, and nothing more is taken ---
submits drained
first=$id
starts --kind drained -- sh -c 'echo started >drained; until [ -e told ]; do sleep 0.05; done; echo fine'
until_file drained
submits drained
kill -TERM "$worker"
sleep 0.3
: >told
ends "$worker" 0
is "$first" '"status":"completed"' '"result":"fine"'
is "$id" '"status":"queued"'
"$pawl" cancel "$id" >/dev/null

# --- a second signal ends what runs, and gives it back ---
submits hurried
# shellcheck disable=SC2016
starts --kind hurried -- sh -c 'echo $$ >hurried; exec sleep 60'
until_file hurried
kill -INT "$worker"
sleep 0.3
kill -0 "$(cat hurried)" 2>/dev/null || complain 'the first signal ends the command'
kill -INT "$worker"
ends "$worker" 0
kill -0 "$(cat hurried)" 2>/dev/null && complain 'the second signal does not end the command'
is "$id" '"status":"queued"' '"failures":0'

# --- a worker that is killed: its command dies with it, and another one does the job ---
submits orphan
# shellcheck disable=SC2016
starts --kind orphan --lease-ttl 1s -- sh -c 'echo $$ >orphan; exec sleep 60'
until_file orphan
kill -9 "$worker"
wait "$worker" 2>/dev/null
for _ in $(seq 50); do
    kill -0 "$(cat orphan)" 2>/dev/null || break
    sleep 0.1
done
kill -0 "$(cat orphan)" 2>/dev/null && complain 'the command outlives its worker'
# shellcheck disable=SC2016
takes --kind orphan --once -- sh -c 'echo "attempt $PAWL_ATTEMPT"'
is "$id" '"status":"completed"' '"result":"attempt 2"' '"failures":1'

# --- a timeout: one attempt ends before the next begins, although heartbeats are far apart ---
submits slow --timeout 1s --initial-delay 1s --max-attempts 3
# shellcheck disable=SC2016
starts --kind slow --concurrency 4 -- sh -c \
    'trap "echo end >>slow; exit" TERM; echo start >>slow; sleep 30 & wait'
until_is "$id" '"status":"dead_lettered"'
kill -TERM "$worker"
ends "$worker" 0
[ "$(tr '\n' ' ' <slow)" = 'start end start end start end ' ] ||
    complain "attempts overlap: $(cat slow)"

# --- a command that cannot be started ---

# starves COUNT : a worker that may have so few files open. How many it needs to begin with (about 12, and about
# 27 with a command) shifts by a few with what its threads hold at the moment: the counts stay clear of both.
starves() {
    # shellcheck disable=SC2016
    timeout 60 sh -c 'ulimit -n '"$1"'; exec "$@"' sh "$pawl" work --kind starved --drain -- true \
        >"$work/out" 2>"$work/err" 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-
    status=$?
    what="work with $1 files"
}

submits starved
starves 21
[ $status -eq 1 ] || complain "$what exits with $status, not 1"
says "Too many open files; see 'ulimit -n'"
says 'any more'
[ "$(grep -c released "$work/err")" -eq 5 ] || complain "$what does not try 5 times"
is "$id" '"status":"queued"' '"failures":0'
starves 8
[ $status -eq 5 ] || complain "$what exits with $status, not 5"
says 'Too many open files'

# --- correlation, agent, goal and trace reach the command, and what it submits inherits them ---
submits family --correlation order-17 --agent ada --goal 'pay it'
# shellcheck disable=SC2016 # the worker's shell
takes --kind family --once -- sh -c 'echo "$PAWL_CORRELATION_ID/$PAWL_AGENT_ID/$PAWL_GOAL/$PAWL_TRACEPARENT"
    "$0" submit inherits >&2; "$0" submit stands-alone --correlation "" --traceparent "" >&2
    "$0" submit says --correlation own >&2' "$pawl"
trace=$(echo "$id" | tr -d -)
is "$id" "\"result\":\"order-17/ada/pay it/00-$trace-"
# of KIND : the one job of that kind
of() {
    "$pawl" ls --kind "$1" --json | sed 's/.*"jobs":\[{"id":"\([^"]*\)".*/\1/'
}
is "$(of inherits)" '"correlation_id":"order-17"' "\"traceparent\":\"00-$trace-"
is "$(of stands-alone)" "\"correlation_id\":\"$(of stands-alone)\"" '"traceparent":null'
is "$(of says)" '"correlation_id":"own"' "\"traceparent\":\"00-$trace-"
submits plain
# shellcheck disable=SC2016 # the worker's shell
PAWL_AGENT_ID=mine takes --kind plain --once -- sh -c 'echo "$PAWL_CORRELATION_ID/$PAWL_AGENT_ID/$PAWL_GOAL"'
is "$id" "\"result\":\"$id//\""

# --- two workers and a submitter on one file ---
starts --kind shared -- true
one=$worker
starts --kind shared -- true
two=$worker
ids=
for _ in 1 2 3 4 5 6; do
    submits shared
    ids="$ids $id"
done
for id in $ids; do
    until_is "$id" '"status":"completed"'
done
kill -TERM "$one" "$two"
ends "$one" 0
ends "$two" 0

# --- a clock that is set back while a command runs: how long it took is not negative ---
submits backwards
: >"$work/clock"
faketime=$(find /usr/lib -path '*/faketime/libfaketime.so.1' | head -1)
[ -n "$faketime" ] || complain 'libfaketime is not installed; see scripts/install-deps'
LD_PRELOAD=$faketime FAKETIME_TIMESTAMP_FILE=$work/clock FAKETIME_NO_CACHE=1 \
    FAKETIME_DONT_FAKE_MONOTONIC=1 timeout 60 "$pawl" work --kind backwards --once -- \
    sh -c "echo -1h >'$work/clock.new'; mv '$work/clock.new' '$work/clock'" >"$work/out" 2>"$work/err"
is "$id" '"status":"completed"'
grep -q '"event":"completed".*"took_ms":[0-9]' "$work/err" ||
    complain "work with a clock that is set back: $(cat "$work/err")"
# It was set back indeed: the line says so.
python3 - "$work/err" <<'END' || complain "the clock was not set back: $(cat "$work/err")"
import datetime, json, sys
at = [json.loads(line)["at"] for line in open(sys.argv[1]) if '"completed"' in line][0]
now = datetime.datetime.now(datetime.timezone.utc)
sys.exit(now - datetime.datetime.fromisoformat(at.replace("Z", "+00:00"))
         < datetime.timedelta(minutes=30))
END

# --- wrong usage ---
for wrong in '--once -- true' '--kind a --once --drain -- true' '--kind a --permanent-exit 0 -- true' \
    '--kind a' '--kind a --concurrency 0 -- true'; do
    # shellcheck disable=SC2086 # words
    timeout 20 "$pawl" work $wrong >out 2>err
    status=$?
    [ $status -eq 2 ] || complain "work $wrong exits with $status, not 2"
done

# --- a store that is not there is no reason to wait for ever ---
runs 5 work --kind email --store "sqlite:$work/mistyped.db" --drain -- true
says 'no store at'
[ ! -e "$work/mistyped.db" ] || complain 'work has made a store that nobody asked for'
attempts 0 work --kind email --store "sqlite:$work/fresh.db" --create --drain -- true
says "created sqlite:$work/fresh.db"
submits hello,world
takes --kind 'hello\,world,other' --once -- true
grep -q -F "waiting for jobs of kind hello,world, other in $PAWL_STORE" "$work/err" ||
    complain "work does not say what it waits for: $(cat "$work/err")"
is "$id" '"status":"completed"'

finish
