#!/bin/sh
# backup and doctor: a copy that is a store of its own, made while workers are busy; and what is said
# of stores that are well, and of some that are not.
#
# usage: test_backup.sh BUILD SOURCE
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
pawl=$build/pawl

# --- a store that is not there, or is none ---
for verb in doctor "backup $work/copy.db"; do
    # shellcheck disable=SC2086 # a list of words
    runs 5 $verb
done
echo 'this is not a database, but it is long enough to look like something' >"$work/text"
runs 5 doctor --store "sqlite:$work/text"
says "$work/text"
runs 2 doctor --store nonsense:x
runs 2 doctor now

# --- doctor ---
attempts 0 submit job
runs 0 doctor
for name in store clock lanes schema timers engine disk files versions; do
    grep -q "^ok *$name  *[A-Z0-9]" "$work/out" || complain "$what does not look at $name"
done
prints_not WRONG
runs 0 doctor --json
json 'a["ok"] and len(a["checks"]) >= 9 and all(c["ok"] for c in a["checks"])'
what='doctor with few files'
prlimit --nofile=100:100 "$pawl" doctor >"$work/out" 2>"$work/err"
[ $? -eq 1 ] || complain "$what finds nothing wrong"
grep -q '^WRONG files .*ulimit -n' "$work/out" || complain "$what does not say what to do"

# --- backup, while a worker is busy and owns the store ---
n=0
while [ $n -lt 40 ]; do
    n=$((n + 1))
    submits job
done
: >"$work/worker"
"$pawl" work --kind job --concurrency 4 -- sh -c 'sleep 0.02; echo 1' >"$work/worker" 2>&1 &
worker=$!
until grep -q completed "$work/worker"; do
    sleep 0.02
done
mkdir "$work/elsewhere"
cd "$work/elsewhere" || exit
runs 0 backup copy.db
prints "backup written to $work/elsewhere/copy.db ("
runs 0 backup ../second.db --json
json "a['path'] == '$work/second.db' and a['bytes'] > 0"
runs 0 backup "$work/third.db"
runs 2 backup copy.db
says 'copy.db'
runs 2 backup
says 'FILE is required'
runs 2 backup ''

# --- another process that has the store writes below its directory alone ---
outside=$(mktemp -d)
runs 2 backup "$outside/copy.db"
says 'backup_dir'
says "$outside/copy.db"
ln -s "$outside" "$work/link"
runs 2 backup "$work/link/copy.db"
says 'backup_dir'
[ -z "$(ls "$outside")" ] || complain 'a copy was written elsewhere'
kill $worker
wait $worker
# A process that has the store itself acts for its user, who may write where they may.
runs 0 backup "$outside/own.db"
runs 0 verify --all --store "sqlite:$outside/own.db"

# --- a server: over HTTP and through the socket beside the file ---
mkdir "$work/backups" "$work/backups/daily"
"$pawl" serve --listen 127.0.0.1:0 --backup-dir "$work/backups" >"$work/server" 2>&1 &
server=$!
until grep -q 'on port' "$work/server"; do
    sleep 0.02
done
port=$(sed -n 's/.*on port \([0-9]*\).*/\1/p' "$work/server" | head -1)
ask() { # ask STATUS PATH: what becomes of a copy over HTTP
    what="a backup over HTTP to $2"
    code=$(curl -s -o "$work/out" -w '%{http_code}' -H 'Content-Type: application/json' \
        -d "{\"path\": \"$2\"}" "http://127.0.0.1:$port/v1/backup")
    [ "$code" = "$1" ] || complain "$what gives $code: $(cat "$work/out")"
}
ask 200 relative.db
ask 200 daily/monday.db
ask 200 "$work/backups/absolute.db"
for path in ../up.db daily/../../up.db "$work/up.db" /etc/up.db "$outside/up.db" . "" \
    daily/none/x.db "$work/backups/../up.db" "$work/backupsx.db" /proc/self/root/etc/up.db; do
    ask 400 "$path"
done
# A copy with the name of a file beside a store would be taken for a part of that store.
for suffix in -journal -wal -shm -ahead0 -ahead1 .lock .sock; do
    for name in pawl.db$suffix relative.db$suffix daily/none$suffix $suffix; do
        ask 400 "$name"
        grep -q -e "$name.*end in $suffix" "$work/out" || complain "$what does not say why"
        [ ! -e "$work/backups/$name" ] || complain "$what was written"
    done
done
ask 200 monday-journal.db
# A long name is kept whole or refused, never cut.
long=$(printf '%0210d' 0).db
ask 200 "$long"
[ -s "$work/backups/$long" ] || complain "$what was not written under its name"
ask 400 "$(printf '%0300d' 0).db"
grep -q 'too long' "$work/out" || complain "$what does not say why"
ln -s "$work/backups/daily" "$work/backups/a-link-with-a-long-name"
ask 200 a-link-with-a-long-name/linked.db
[ -s "$work/backups/daily/linked.db" ] || complain "$what was not written under its name"
ln -s "$outside" "$work/backups/out"
ask 400 out/up.db
grep -q 'backup_dir' "$work/out" || complain "$what does not say why"
ln -s "$outside/up.db" "$work/backups/dangling.db"
ask 400 dangling.db
runs 2 backup "$outside/socket.db"
runs 0 backup "$work/backups/socket.db"
[ "$(find "$outside" -mindepth 1 ! -name '*lock*' -exec basename {} \;)" = own.db ] || complain "copies were written elsewhere"
kill $server
wait $server
for copy in relative daily/monday absolute socket; do
    runs 0 verify --all --store "sqlite:$work/backups/$copy.db"
done
rm -r "$outside"
for copy in "$work/elsewhere/copy.db" "$work/second.db" "$work/third.db"; do
    runs 0 verify --all --store "sqlite:$copy"
    prints '41 jobs verified, 0 with violations'
    runs 0 doctor --store "sqlite:$copy"
    # It goes on from there.
    runs 0 ls --status completed --limit 100 --json --store "sqlite:$copy"
    json 'len(a["jobs"]) >= 1'
done

# --- the directory of the store itself, where SQLite deletes what it takes for a journal ---
mkdir "$work/own"
attempts 0 submit job --store "sqlite:$work/own/t.db"
for suffix in -journal -wal -shm -ahead0 -ahead1 .lock .sock; do
    runs 2 backup "$work/own/t.db$suffix" --store "sqlite:$work/own/t.db"
    says "t.db$suffix"
done
runs 0 backup "$work/own/t.db.monday" --store "sqlite:$work/own/t.db"
runs 0 ls --store "sqlite:$work/own/t.db"
runs 0 verify --all --store "sqlite:$work/own/t.db.monday"
prints '1 job verified, 0 with violations'

runs 2 backup "$work/memory.db" --store memory:
says 'memory'

finish
