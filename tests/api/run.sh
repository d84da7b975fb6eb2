#!/bin/sh
# Holds a real server to its own /openapi.json, with a key. Needs DATABASE_URL, and what install.sh put into the folder given.
set -eu

adjutant=$1
folder=$2
shift 2
here=$(dirname "$0")
scratch=$(mktemp -d)
serving=
working=
trap '[ -z "$serving" ] || kill "$serving"; [ -z "$working" ] || kill "$working"; rm -rf "$scratch"' EXIT

"$adjutant" migrate >/dev/null
key=$("$adjutant" keys create schemathesis --quiet)
"$adjutant" serve --config "$here/adjutant.toml" --listen 127.0.0.1:0 --json >"$scratch/ready" 2>"$scratch/log" &
serving=$!
until [ -s "$scratch/ready" ]; do
    kill -0 "$serving" 2>/dev/null || { cat "$scratch/log" >&2; exit 1; }
    sleep 0.1
done
# So that tasks end, and nobody waits for them in vain.
"$adjutant" work --rehearse --json >/dev/null 2>&1 &
working=$!
url=$(sed 's/.*"url": *"\([^"]*\)".*/\1/' "$scratch/ready")
for session in fuzzed other; do
    python3 - "$url/v1/sessions" "$key" "$session" <<'PYTHON'
import json, sys, urllib.request
url, key, session = sys.argv[1:]
headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
urllib.request.urlopen(urllib.request.Request(url, json.dumps({"session_id": session}).encode(), headers))
PYTHON
done
"$folder/python/bin/schemathesis" --config-file "$here/schemathesis.toml" run "$url/openapi.json" \
    --header "Authorization: Bearer $key" "$@"
# What is wrong on our side is told in the log, and only there.
if grep -q '"level":"ERROR"' "$scratch/log"; then
    grep '"level":"ERROR"' "$scratch/log" >&2
    exit 1
fi
