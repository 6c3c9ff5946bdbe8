#!/bin/sh
# What the steps of the example plans do: next to nothing. `pawl work` runs this for each of them,
# with {"payload", "inputs"} on stdin; what it prints is the result.
input=$(cat)

case $PAWL_KIND in
outline) echo '{"chapters": ["what it is", "where it is used"]}' ;;
search) echo '{"found": 3}' ;;
draft)
    # The first draft is a short one.
    if [ "$PAWL_ATTEMPT" -eq 1 ]; then echo '{"words": 12}'; else echo '{"words": 120}'; fi
    ;;
publish)
    case $input in
    *'"approval":"publish"'*) echo '{"published": true}' ;;
    *) echo '{"published": false}' ;;
    esac
    ;;
extract) echo '{"rows": 400}' ;;
transform) echo '{"rows": 100}' ;;
merge) echo "{\"parts\": $(echo "$input" | grep -o '"part-[0-9]*"' | wc -l)}" ;;
load) echo '{"loaded": true}' ;;
flash) echo '{"flashed": true}' ;;
measure)
    # A bench whose probe is not there: somebody else's turn.
    if [ -n "${NO_PROBE:-}" ]; then
        echo 'the probe does not answer' >&2
        exit 69
    fi
    echo '{"volts": 3.31}'
    ;;
report) echo '{"ok": true}' ;;
*)
    echo "nobody knows how to do $PAWL_KIND" >&2
    exit 77
    ;;
esac
