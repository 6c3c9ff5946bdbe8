#!/bin/sh
# Package, tests and examples are typed: mypy in its strict mode and pyright, as for Python 3.10. Lines
# have at most 100 columns, files 1,000 lines.
#
# usage: types.sh BUILD_DIRECTORY SOURCE_DIRECTORY
set -eu
build=$(cd "$1" && pwd)
cd "$2/sdk/python"

find . -name '*.py' -exec awk '
    length > 100 { print FILENAME ":" FNR ": more than 100 columns"; bad = 1 }
    FNR > 1000 { print FILENAME ": more than 1000 lines"; bad = 1; nextfile }
    END { exit bad }' {} +
mypy --cache-dir "$build/mypy" pawl tests bench examples make_sync.py make_reference.py
../../scripts/npm-install tests/pyright "$build/pyright"
node "$build/pyright/node_modules/pyright/index.js"
