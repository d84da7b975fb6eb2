#!/bin/sh
# Tests a real server against its own /openapi.json, with a key. Needs DATABASE_URL, and the folder
# that install.sh has filled.
set -eu

adjutant=$1
folder=$2
shift 2
here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d)
serving=
working=
trap '[ -z "$serving" ] || kill "$serving"; [ -z "$working" ] || kill "$working"; rm -rf "$scratch"' EXIT

"$adjutant" migrate >/dev/null
key=$("$adjutant" keys create schemathesis --scope admin --quiet)
"$adjutant" serve --config "$here/adjutant.toml" --listen 127.0.0.1:0 --json >"$scratch/ready" 2>"$scratch/log" &
serving=$!
until [ -s "$scratch/ready" ]; do
    kill -0 "$serving" 2>/dev/null || { cat "$scratch/log" >&2; exit 1; }
    sleep 0.1
done
# Tasks have to end, because some calls wait for them.
"$adjutant" work --simulate --json >/dev/null 2>&1 &
working=$!
url=$(sed 's/.*"url": *"\([^"]*\)".*/\1/' "$scratch/ready")
# Creates two sessions and tasks that have ended; the ids of the tasks are the dictionary `tasks`.
python3 - "$url" "$key" >"$scratch/tasks.dict" <<'PYTHON'
import json, sys, urllib.request
url, key = sys.argv[1:]
headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
def post(path, body):
    return json.load(urllib.request.urlopen(urllib.request.Request(url + path, json.dumps(body).encode(), headers)))
post("/v1/webhooks/secrets", {})
for session in ["fuzzed", "other"]:
    post("/v1/sessions", {"session_id": session})
subagent = "/v1/sessions/fuzzed/tools/subagent"
for _ in range(4):
    print('"%s"' % post(subagent, {"action": "spawn", "agent": "researcher", "task": "Investigate."})["id"])
post(subagent, {"action": "wait", "mode": "all", "task_ids": ["t_01", "t_02", "t_03", "t_04"]})
PYTHON
# Schemathesis reads dictionaries from the folder of its settings.
cp "$here/schemathesis.toml" "$scratch"
SCHEMATHESIS_HOOKS="$here/hooks.py" "$folder/python/bin/schemathesis" --config-file "$scratch/schemathesis.toml" \
    run "$url/openapi.json" --header "Authorization: Bearer $key" "$@"
# Internal errors are only in the log.
if grep -q '"level":"ERROR"' "$scratch/log"; then
    grep '"level":"ERROR"' "$scratch/log" >&2
    exit 1
fi
