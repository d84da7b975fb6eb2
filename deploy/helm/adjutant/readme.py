"""Writes README.md from values.yaml: `python3 readme.py > README.md`."""

import pathlib
import re
import sys

HERE = pathlib.Path(__file__).parent

HEAD = """# Adjutant on Kubernetes

Servers and workers of [Adjutant](../../../README.md) on a PostgreSQL of yours (15 or newer). The
chart has no database of its own: [examples](examples) has a managed PostgreSQL, CloudNativePG and
PgBouncer.

```sh
docker build --file deploy/Dockerfile --tag registry.example.com/adjutant:0.1.0 . # and push it
kubectl create secret generic adjutant-database --from-literal=url='postgres://...'
helm install adjutant deploy/helm/adjutant \\
  --set image.repository=registry.example.com/adjutant \\
  --set database.existingSecret=adjutant-database --set-file config=adjutant.toml
```

The notes that Helm prints say how to create the first API key, without which servers do not start.

- **Migrations** run in a job before each install and upgrade; servers and workers of the release
  before keep running. With `migrate.plainJob` the job has no Helm hooks, for Argo CD and Flux.
- **Workers** have a deployment for each pool. A worker that stops hands its tasks over at their
  next turn, within `drainSeconds`, and another one continues them at once.
- **Autoscaling of workers** (`workerDefaults.autoscaling`) needs KEDA. It follows the SQL view
  `worker_demand`: tasks that run and tasks that could start within the caps, so it scales from
  zero, and not for what a cap or a rate limit holds back.
- **Probes.** `/readyz` asks the database and `/healthz` does not. Workers have no endpoint: one
  that hangs loses its leases after 30 s, and others continue its tasks.
- **Security.** Pods run as user 10001 with a read-only root file system, no capabilities, and no
  token for the API of Kubernetes.
- **Metrics** need an API key of scope `admin` in a secret (`serviceMonitor.keySecret`).

`ci/` has examples of values. [values.schema.json](values.schema.json) refuses unknown names and
wrong types.

## Values

| value | default | what it is |
|---|---|---|
"""


def rows(text):
    path, about = [], []
    for line in text.splitlines():
        found = re.match(r"( *)([A-Za-z]+):(?: (.*))?$", line)
        comment = re.match(r" *# ?(-- )?(.*)$", line)
        if found:
            depth = len(found[1]) // 2
            path[depth:] = [found[2]]
            if about:
                default = found[3] or ""
                shown = f"`{default}`" if default and default != "|" else ""
                yield f"| `{'.'.join(path)}` | {shown} | {' '.join(about).replace('|', chr(92) + '|')} |"
            about = []
        elif comment and comment[1]:
            about = [comment[2]]
        elif comment and about:
            about.append(comment[2])
        elif not line.strip():
            about = []


sys.stdout.write(HEAD + "\n".join(rows((HERE / "values.yaml").read_text())) + "\n")
