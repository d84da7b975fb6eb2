#!/bin/sh
# Installs the pinned packages of `make test-api` into the given folder, once.
set -eu

folder=$1
wanted=schemathesis==4.32.5

if [ "$(cat "$folder/installed" 2>/dev/null)" = "$wanted" ]; then
    exit 0
fi
command -v python3 >/dev/null || { echo "python3 is missing; make test-api installs with it" >&2; exit 1; }

rm -rf "$folder"
mkdir -p "$folder"
python3 -m venv "$folder/python"
"$folder/python/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: "$wanted"
echo "$wanted" >"$folder/installed"
