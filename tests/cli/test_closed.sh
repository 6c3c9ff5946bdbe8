#!/bin/sh
# A program that was started without its standard files writes nothing into the store.
#
# usage: test_closed.sh BUILD SOURCE
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

"$build/pawl" submit a >&- 2>&-
"$build/pawl" submit a 2>&-  >"$work/out"
[ -s "$work/out" ] || complain 'submit prints no id'
"$build/pawl" show x >&- 2>&-
"$build/pawl" work --kind a --drain -- sh -c 'echo hi; echo ho >&2' >&- 2>&- <&-
"$build/pawl" work --kind a --store sqlite:"$work/other.db" --drain -- true 2>&- <&-
runs 0 verify --all
runs 0 ls --status completed --json
prints '"status":"completed"'
finish
