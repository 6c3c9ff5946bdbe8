#!/bin/sh
# token: made, listed and revoked; the token itself is printed once and is nowhere in the store.
#
# usage: test_token.sh BUILD SOURCE
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

runs 5 token ls
runs 5 token create ci --scope read
says "'pawl serve', 'pawl submit' and 'pawl work --create' create one"
attempts 0 submit job

runs 0 token ls
prints 'No tokens.'
runs 2 token
runs 2 token create
runs 2 token create ci
says '--scope'
runs 2 token create ci --scope root
runs 2 token create ci cd --scope read
runs 2 token create ci --scope read --ttl soon
runs 2 token ls ci
runs 2 token ls --scope read
runs 2 token revoke
runs 2 token revoke ci
runs 3 token revoke 01900000-0000-7000-8000-000000000000

attempts 0 token create ci --scope submit read --queue builds mail --ttl 90d
token=$(cat "$work/out")
says 'shown only once'
echo "$token" | grep -q -E '^pawl_[A-Za-z0-9_-]{43}$' || complain "$what prints no token"
runs 0 token create admin --scope admin --json
json 'a["name"] == "admin" and a["scopes"] == ["admin"] and a["queues"] == [] and a["token"]'

runs 0 token ls
prints 'read, submit'
prints 'builds, mail'
prints_not '['
runs 0 token ls --json
json 'len(a["tokens"]) == 2 and a["tokens"][0]["queues"] == ["builds", "mail"]'
prints_not "$token"
id=$(sed 's/.*"id":"\([^"]*\)","name":"ci".*/\1/' "$work/out")
runs 0 token revoke "$id"
prints "$id: revoked"
runs 0 token revoke "$id"
runs 0 token ls --json
json 'a["tokens"][0]["revoked_at"] and not a["tokens"][1]["revoked_at"]'

runs 0 token create all --scope read,submit,work,answer,admin --json
json 'sorted(a["scopes"]) == ["admin", "answer", "read", "submit", "work"]'

! grep -q -a -F -e "$token" "$work"/pawl.db* || complain 'the token is in the store'

finish
