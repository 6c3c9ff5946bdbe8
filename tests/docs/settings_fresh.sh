#!/bin/sh
# The settings in docs/reference/settings.md are those of src/cli/settings.def, and `pawl help serve` has
# every flag of them.
#
# usage: settings_fresh.sh BUILD SOURCE
set -eu
build=$1
source=$2

"$source/scripts/settings" --check
# shellcheck disable=SC2016 # those are quotes of Markdown
flags=$(sed -n 's/^| [^|]*| `\(--[a-z-]*\)` .*/\1/p' "$source/docs/reference/settings.md")
[ "$(echo "$flags" | wc -l)" -gt 10 ]
help=$("$build/pawl" help serve)
for flag in $flags; do
    echo "$help" | grep -q -e "^  $flag " || {
        echo "pawl help serve does not have $flag" >&2
        exit 1
    }
done
