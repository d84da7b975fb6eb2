#!/bin/sh
# Installs the pinned packages of `make test-clients` into the given folder, once.
set -eu

folder=$1
here=$(cd "$(dirname "$0")" && pwd)
inspector=@modelcontextprotocol/inspector@2.12.0
conformance=@modelcontextprotocol/conformance@0.2.0-alpha.12
claude=@anthropic-ai/claude-code@2.1.326
codex=@openai/codex@0.169.0
# Some clients need Node 22. If the installed one is older, this version is added.
node=24.21.0

wanted="$inspector $conformance $claude $codex $node $(cat "$here/requirements.txt" "$here/constraints.txt")"
if [ "$(cat "$folder/installed" 2>/dev/null)" = "$wanted" ]; then
    exit 0
fi
for program in python3 npm; do
    command -v "$program" >/dev/null || { echo "$program is missing; make test-clients installs with it" >&2; exit 1; }
done

rm -rf "$folder"
mkdir -p "$folder/bin"
python3 -m venv "$folder/python"
"$folder/python/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: \
    --requirement "$here/requirements.txt" --constraint "$here/constraints.txt"
if [ "$(node -p 'process.versions.node.split(".")[0]')" -ge 22 ]; then
    runtime=
else
    [ "$(uname)" = Linux ] || { echo "node is older than 22; make test-clients needs a newer one" >&2; exit 1; }
    runtime="node-$(node -p 'process.platform + "-" + process.arch')@$node"
fi
# shellcheck disable=SC2086
npm install --prefix "$folder" --no-audit --no-fund --ignore-scripts --loglevel error --save-exact \
    "$inspector" "$conformance" "$claude" "$codex" $runtime
if [ -n "$runtime" ]; then
    ln -s "$folder/node_modules/${runtime%@*}/bin/node" "$folder/bin/node"
fi
# The install script of the package would create this link, but scripts are disabled.
ln -s "$folder/node_modules/@anthropic-ai/claude-code-$(node -p 'process.platform + "-" + process.arch')/claude" "$folder/bin/claude"
for program in codex conformance mcp-inspector; do
    ln -s "$folder/node_modules/.bin/$program" "$folder/bin/$program"
done
echo "$wanted" >"$folder/installed"
