#!/bin/sh
# A dozen quick mutants of every kind that `make mutants` has, each caught by its test.
#
# usage: tests/mutants/quick.sh BUILD ROOT
set -eu
exec "$2/scripts/mutants" --build "$1" \
    MAP_LOSES_A_KEY SURROGATE_TAKEN ATTEMPT_CHECK_DROPPED EXPIRY_CHECK_DROPPED RETRIES_UNBOUNDED \
    SIGNAL_DELIVERED_TWICE DOUBT_RERUN LANES_OUT_OF_ORDER MEMORY_KEY_TWICE SUBMIT_TORN \
    FOREIGN_HOST_SERVED TWO_LENGTHS_IN_ANSWER
