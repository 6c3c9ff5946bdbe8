#!/bin/sh
# The checker includes nothing of decide, so that one can catch the other, and each private header of the
# core is included by the files it is for and by no others.
#
# usage: private_headers.sh BUILD_DIRECTORY SOURCE_DIRECTORY
set -eu
cd "$2/src/core"

# only PATTERN HEADER [FILE]: HEADER is included by files named PATTERN, and FILE, alone.
only() {
    for file in $(grep -lE "#include \"core/$2\"" ./*.c ./*.h ../engine/* ../cli/* || :); do
        # shellcheck disable=SC2254 # a pattern, and meant as one
        case ${file#./} in
        $1 | ${3:-$1}) ;;
        *)
            echo "$file includes core/$2"
            exit 1
            ;;
        esac
    done
}

# token.c has the stale-token check, which is a part of decide.
only 'decide*.c' decider.h token.c
only 'evolve*.c' fold.h
only 'job_*.c' job_records.h
only 'verify*.c' verifier.h
if grep -nE '#include "core/(decide|decider)\.h"' verif*; then
    echo 'The checker must not include decide.'
    exit 1
fi
