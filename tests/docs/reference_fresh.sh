#!/bin/sh
# The pages of docs/reference that are made from the program are those of this build, and the check
# sees one that is not.
#
# usage: reference_fresh.sh BUILD SOURCE
set -eu
build=$1
source=$2

"$source/scripts/reference" "$build/pawl" --check

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/scripts" "$work/docs" "$work/src/base"
cp "$source/scripts/reference" "$work/scripts"
cp -R "$source/docs/reference" "$work/docs"
cp "$source/src/base/error.def" "$work/src/base"
sed -i 's/not_found/not_there/' "$work/docs/reference/errors.md"
if "$work/scripts/reference" "$build/pawl" --check 2>/dev/null; then
    echo 'a page that is out of date is not noticed' >&2
    exit 1
fi
