#!/bin/sh
# The tour of `make demo`: it ends well, in less than a minute, and tells what there is to see.
#
# usage: test_demo.sh BUILD SOURCE
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

what='the demo'
: >"$work/err"
timeout 60 "$source/scripts/demo" "$build" >"$work/out" 2>"$work/err" ||
    complain "$what exits with $?"
prints 'result:           {"NAME": "ADA"}'
prints '"reason":"lease_expired"'
prints 'Ship 1.4?'
prints 'switching_resource'
prints 'Publish the draft?'
prints 'The job is completed; plan version 1, 6 of 6 steps succeeded'
prints 'answered publish by ada'
prints 'history:          holds'
finish
