#!/bin/sh
# The unit for systemd is one, keeps the service in, and gives it time to end; the sample file of
# settings is one too.
#
# usage: test_service.sh BUILD SOURCE
set -eu
build=$1
source=$2

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset PAWL_CONFIG PAWL_STORE PAWL_LISTEN PAWL_TOKEN

# What systemd thinks of it, with the program of this build in the place of the installed one.
if command -v systemd-analyze >/dev/null 2>&1; then
    sed "s#^ExecStart=.*/pawl serve#ExecStart=$build/pawl serve#" "$build/pawl.service" \
        >"$work/pawl.service"
    grep -q "^ExecStart=$build/pawl serve" "$work/pawl.service"
    systemd-analyze verify --man=no "$work/pawl.service" >"$work/said" 2>&1 || {
        cat "$work/said"
        exit 1
    }
    if [ -s "$work/said" ]; then
        cat "$work/said"
        exit 1
    fi
    # From 0 to 100: how much harm it could do. A service without any of this has 96.
    systemd-analyze security --no-pager --offline=true --threshold=15 "$work/pawl.service" \
        >"$work/said" 2>&1 || {
        cat "$work/said"
        exit 1
    }
else
    echo 'without systemd-analyze nobody can say what systemd thinks of the unit'
fi

# The sample, with everything in it switched on but for what names files that are not here.
sed -E 's/^#([a-z]|  )/\1/; /^(store|listen|certificate|key):/d' "$source/packaging/pawl.yaml" \
    >"$work/pawl.yaml"
grep -q '^rate_per_s: 0' "$work/pawl.yaml"
grep -q '^    retry: ' "$work/pawl.yaml"
"$build/pawl" serve --store memory: --listen 127.0.0.1:0 --config "$work/pawl.yaml" \
    2>"$work/log" &
server=$!
tries=0
until grep -q 'on port' "$work/log"; do
    tries=$((tries + 1))
    if [ $tries -gt 200 ] || ! kill -0 $server 2>/dev/null; then
        cat "$work/log"
        exit 1
    fi
    sleep 0.05
done
kill $server
wait $server
