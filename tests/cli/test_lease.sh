#!/bin/sh
# `pawl lease` as a command of `pawl work` uses it: progress, waits, effects.
#
# usage: test_lease.sh BUILD SOURCE
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
pawl=$build/pawl
export pawl
cd "$work" || exit

# takes KIND SCRIPT : one turn of a worker that runs a shell script
takes() {
    timeout 60 "$pawl" work --kind "$1" --once -- sh -c "$2" >"$work/out" 2>"$work/err"
    status=$?
    [ $status -eq 0 ] || complain "work on $1 exits with $status"
}

is() {
    shown=$1
    shift
    "$pawl" show "$shown" --json >"$work/job" 2>&1
    for text in "$@"; do
        grep -q -F -e "$text" "$work/job" ||
            complain "the job has no $text: $(cat "$work/job")"
    done
}

# shellcheck disable=SC2016,SC2089,SC2090 # the scripts are for the worker's shell
{
    # --- without a lease ---
    attempts 2 lease progress 1
    says 'PAWL_LEASE is not set'

    # --- progress ---
    attempts 0 submit first # makes the store, and says so
    submits progress
    takes progress '"$pawl" lease progress "{\"done\": 3}" --cursor page-3 || exit 1
        "$pawl" show "$PAWL_JOB_ID" --json'
    is "$id" '"progress":{"done": 3}' '"cursor":"page-3"'

    submits progress
    takes progress '"$pawl" lease progress "{not json" 2>/dev/null; echo $?'
    is "$id" '"result":2'

    # A later attempt gets the cursor.
    submits cursor
    takes cursor '"$pawl" lease progress 1 --cursor "page 7"; exit 1'
    takes cursor 'echo "$PAWL_CURSOR"'
    is "$id" '"result":"page 7"'

    # --- waits ---
    submits wait
    script='if [ -n "${PAWL_RESUME-}" ]; then echo "$PAWL_RESUME"; exit 0; fi
        "$pawl" lease wait invoice --timeout 1h || exit 1'
    takes wait "$script"
    is "$id" '"status":"waiting"' '"correlation_key":"invoice"' '"failures":0'
    says 'the job is waiting now'
    says '"event":"waiting"'
    says '"message":"key invoice"'
    "$pawl" signal "$id" invoice --payload '{"paid": true}' >/dev/null || complain 'signal fails'
    takes wait "$script"
    is "$id" '"status":"completed"' '"failures":0' \
        '"result":{"correlation_key":"invoice","outcome":"signal","payload":{"paid": true}}'

    # A signal that came first.
    submits wait
    "$pawl" signal "$id" invoice --payload '"early"' >/dev/null || complain 'an early signal fails'
    takes wait "$script"
    says 'is already stored'
    says '"event":"queued"'
    says 'key invoice was already answered: signal'
    takes wait "$script"
    is "$id" '"status":"completed"' '"payload":"early"'

    # A time that is over, and a timer.
    submits wait
    takes wait '"$pawl" lease wait nobody --timeout 100ms'
    takes wait 'echo "$PAWL_RESUME"'
    is "$id" '"outcome":"timeout"'
    submits wait
    takes wait '"$pawl" lease wait alarm --delay 100ms'
    takes wait 'echo "$PAWL_RESUME"'
    is "$id" '"correlation_key":"alarm"'

    # A person.
    submits ask
    script='[ -n "${PAWL_RESUME-}" ] && { echo "$PAWL_RESUME"; exit 0; }
        "$pawl" lease wait approval --prompt "Send it?" --choice yes,no --choice "later\, maybe" --park'
    takes ask "$script"
    is "$id" '"status":"parked"' '"type":"human"' 'Send it?' '["yes","no","later, maybe"]'
    says '"event":"parked"'
    "$pawl" inbox >out 2>&1
    grep -q 'Send it?' out || complain 'the question is not in the inbox'
    "$pawl" approve "$id" --answer yes >/dev/null || complain 'approve fails'
    takes ask "$script"
    is "$id" '"payload":"yes"'

    # After a wait the lease is over.
    submits over
    takes over '"$pawl" lease wait later; "$pawl" lease progress 1 2>/dev/null; echo $? >code'
    [ "$(cat code)" = 4 ] || complain "a lease that is over: exit code $(cat code)"

    # --- dead letters ---
    submits letter
    takes letter '"$pawl" lease dead-letter because 2>/dev/null; echo $? >code
        "$pawl" lease dead-letter parse_error --stage input --prompt x 2>/dev/null; echo $? >>code
        "$pawl" lease dead-letter parse_error --stage input --message "line 7 is no CSV" || exit 1
        "$pawl" lease progress 1 2>/dev/null; echo $? >>code'
    [ "$(tr '\n' ' ' <code)" = '2 2 4 ' ] || complain "exit codes: $(cat code)"
    is "$id" '"status":"dead_lettered"' '"reason_code":"parse_error"' '"stage":"input"' \
        'line 7 is no CSV'
    says 'the job is a dead letter now'
    "$pawl" dlq redrive "$id" >/dev/null || complain 'redrive fails'
    takes letter 'echo done'
    is "$id" '"status":"completed"'
    attempts 2 lease progress 1 --stage input
    says "--stage is not an option of 'progress'"

    # --- effects ---
    submits effect
    script='"$pawl" lease effect charge --input "{\"cents\": 250}" -- sh -c \
            "echo ran >>ran; echo \$PAWL_IDEMPOTENCY_KEY; echo \"two\"" || exit
        [ "$PAWL_ATTEMPT" -gt 1 ] || exit 1'
    takes effect "$script"
    is "$id" '"status":"retrying"'
    takes effect "$script"
    [ "$(wc -l <ran)" -eq 1 ] || complain 'an effect was run twice'
    is "$id" '"status":"completed"' "\"result\":\"$id" '\ntwo"'

    # What is JSON is recorded as such; quotes stay quotes; nothing stays nothing.
    for said in '{"a": [1, 2.50]}' '"quoted"' 'plain text' '12' ''; do
        submits shape
        export said
        takes shape '[ "$PAWL_ATTEMPT" -gt 1 ] || exec >first
            "$pawl" lease effect say -- printf "%s" "$said" || exit 77
            [ "$PAWL_ATTEMPT" -gt 1 ] || exit 1'
        takes shape '"$pawl" lease effect say -- false >second || exit 77'
        cmp first second || complain "the record of '$said' is printed differently"
    done

    # One that fails records nothing, and the same attempt may try again.
    submits failing
    takes failing '"$pawl" lease effect try -- sh -c "exit 9"; echo $? >code
        "$pawl" lease effect try -- echo fine'
    [ "$(cat code)" = 9 ] || complain "the exit code of an effect is $(cat code), not 9"
    is "$id" '"status":"completed"' '"result":"fine"'

    # Another input under the same key is refused, and stays so: the job is not tried again.
    submits mismatch
    takes mismatch '"$pawl" lease effect one --input 1 -- true
        "$pawl" lease effect one --input 2 -- touch twice || exit'
    says 'was started with a different input'
    says '"next":"final"'
    is "$id" '"status":"failed"' '"class":"permanent"' '"exit_code":77'
    [ ! -e twice ] || complain 'an effect with another input was run'

    # Begun by an attempt that died: in doubt, not run again.
    submits doubt
    takes doubt '"$pawl" lease effect pay -- sh -c "exit 1"; exit 1'
    takes doubt '"$pawl" lease effect pay -- touch paid; echo $? >code'
    [ "$(cat code)" = 4 ] || complain "an effect in doubt: exit code $(cat code)"
    [ ! -e paid ] || complain 'an effect in doubt was run'
    says 'is in doubt'
    says '"event":"failed"'
    is "$id" '"status":"failed"'
    grep -v '^{' err >words
    awk 'length($0) > 90 { exit 1 }' words || complain 'what is said of an effect in doubt is one long line'

    # One that certainly did nothing is in no doubt: by its exit code, or when the script says so.
    submits aborted
    takes aborted '"$pawl" lease effect ask --abort-exit 75,76 -- sh -c "exit 76"; exit 1'
    takes aborted '"$pawl" lease effect ask -- sh -c "exit 9"
        "$pawl" lease abort ask --reason "the till is closed" || exit 77; exit 1'
    takes aborted '"$pawl" lease effect ask -- echo fine'
    is "$id" '"status":"completed"' '"result":"fine"'
    runs 0 events "$id" --json
    prints '"type":"tool_aborted"'
    prints 'ended with exit code 76'
    prints 'the till is closed'

    # A failure that is recorded comes again, with its exit code, and nothing is run.
    submits recorded
    takes recorded '"$pawl" lease effect card --record-exit 9 -- sh -c "exit 9"; exit 1'
    takes recorded '"$pawl" lease effect card -- touch charged; echo $? >code'
    [ "$(cat code)" = 9 ] || complain "a recorded failure: exit code $(cat code)"
    [ ! -e charged ] || complain 'a recorded effect was run'
    says "failed earlier, as recorded: the command 'sh' ended with exit code 9"

    # What doubt about one effect means.
    submits harmless
    takes harmless '"$pawl" lease effect model --in-doubt retry -- sh -c "exit 1"; exit 1'
    takes harmless '"$pawl" lease effect model -- echo again'
    is "$id" '"status":"completed"' '"result":"again"'

    submits wrong
    takes wrong '"$pawl" lease effect x --in-doubt maybe -- true 2>>said; echo $? >>codes
        "$pawl" lease effect x --abort-exit 0 -- true 2>>said; echo $? >>codes
        "$pawl" lease abort x 2>>said; echo $? >>codes
        "$pawl" lease wait k --abort-exit 3 2>>said; echo $? >>codes
        "$pawl" lease abort x --reason none 2>>said; echo $? >>codes'
    [ "$(tr '\n' ' ' <codes)" = '2 2 2 2 3 ' ] || complain "wrong words: $(cat codes said)"
    grep -q "unknown in-doubt 'maybe'" said || complain "it does not say what is wrong: $(cat said)"

    # Where a person is to say what has happened.
    submits asked --in-doubt ask
    takes asked '"$pawl" lease effect pay -- sh -c "exit 1"; exit 1'
    takes asked '"$pawl" lease effect pay -- touch paid'
    says "a decision about effect pay"
    runs 0 explain "$id"
    prints "pawl approve $id --answer retry"
    prints "pawl approve $id --answer done --result JSON"
    prints "pawl reject $id"
    prints_not 'pawl signal'
    runs 2 approve "$id"
    says '--answer retry'
    runs 2 approve "$id" --answer perhaps
    says 'retry, done, fail'
    runs 2 reject "$id" --answer retry
    runs 2 approve "$id" --answer 'done'
    says '--result'
    runs 0 approve "$id" --answer 'done' --result '{"receipt": 17}'
    takes asked '"$pawl" lease effect pay -- touch paid; echo $?'
    runs 0 show "$id" --json
    prints '"status":"completed"'
    prints '17'
    [ ! -e paid ] || complain 'an effect that had happened was run'

    # A command that is not there begins nothing.
    submits nowhere
    takes nowhere '"$pawl" lease effect x -- ./nowhere 2>/dev/null; echo $?'
    is "$id" '"status":"completed"' '"result":2'
}

finish
