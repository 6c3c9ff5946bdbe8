#!/bin/sh
# docs/reference/states.md is what scripts/machines prints of this build.
#
# usage: machines_fresh.sh BUILD SOURCE
set -eu
build=$1
source=$2

printed=$(mktemp)
trap 'rm -f "$printed"' EXIT
"$source/scripts/machines" "$build/pawl" >"$printed"
if ! diff -u "$source/docs/reference/states.md" "$printed"; then
    echo 'docs/reference/states.md is out of date; run: make machines' >&2
    exit 1
fi
