#!/bin/sh
# The models hold, and the mistakes planted in them are found.
#
# usage: test_model.sh BUILD_DIRECTORY SOURCE_DIRECTORY
exec "$2/scripts/model" "$1/pawl"
