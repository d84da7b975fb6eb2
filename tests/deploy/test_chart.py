"""The Helm chart and the plain manifests: `make test-deploy`."""

import os
import pathlib
import subprocess

import kubernetes_validate
import pytest
import yaml

ROOT = pathlib.Path(__file__).parents[2]
CHART = ROOT / "deploy/helm/adjutant"
TOOLS = pathlib.Path(os.environ["ADJUTANT_DEPLOY_TOOLS"])
EXAMPLES = sorted((CHART / "ci").glob("*-values.yaml"))
# Their schemas belong to operators, not to Kubernetes.
OPERATORS = {"ScaledObject", "TriggerAuthentication", "ServiceMonitor", "PrometheusRule", "HTTPRoute"}


def helm(*arguments):
    return subprocess.run(
        [TOOLS / "bin/helm", *arguments], capture_output=True, text=True, timeout=60, check=False
    )


def template(*arguments):
    done = helm("template", "adjutant", str(CHART), "--namespace", "adjutant", *arguments)
    assert done.returncode == 0, done.stderr
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def refused(*settings):
    done = helm("template", "adjutant", str(CHART), *settings)
    assert done.returncode != 0, f"{settings} should be refused"
    return done.stderr


def of_kind(documents, kind):
    return [document for document in documents if document["kind"] == kind]


def pods(documents):
    for document in documents:
        if document["kind"] == "Pod":
            yield document["metadata"]["name"], document["spec"]
        elif document["kind"] in ("Deployment", "Job"):
            yield document["metadata"]["name"], document["spec"]["template"]["spec"]


@pytest.fixture(params=EXAMPLES, ids=lambda path: path.stem)
def rendered(request):
    return template("--values", str(request.param))


@pytest.mark.parametrize("values", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_passes_lint(values):
    done = helm("lint", "--strict", str(CHART), "--values", str(values))
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_object_fits_the_schemas_of_kubernetes(rendered):
    for document in rendered:
        if document["kind"] not in OPERATORS:
            kubernetes_validate.validate(document, "1.37", strict=True)


def test_no_two_objects_have_one_name(rendered):
    names = [(document["kind"], document["metadata"]["name"]) for document in rendered]
    assert len(names) == len(set(names))
    for _, name in names:
        assert len(name) <= 63 and name == name.lower(), name


def test_every_pod_is_restricted(rendered):
    for name, pod in pods(rendered):
        assert pod["automountServiceAccountToken"] is False, name
        assert pod["securityContext"]["runAsNonRoot"] is True, name
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
        for container in pod["containers"]:
            context = container["securityContext"]
            assert context["readOnlyRootFilesystem"] is True, name
            assert context["allowPrivilegeEscalation"] is False, name
            assert context["capabilities"] == {"drop": ["ALL"]}, name
            assert container["resources"]["requests"] and container["resources"]["limits"]["memory"], name


def test_selectors_match_their_pods_and_no_others(rendered):
    labels = {d["metadata"]["name"]: d["spec"]["template"]["metadata"]["labels"] for d in of_kind(rendered, "Deployment")}

    def chosen(selector):
        return {name for name, own in labels.items() if selector.items() <= own.items()}

    for deployment in of_kind(rendered, "Deployment"):
        name = deployment["metadata"]["name"]
        assert chosen(deployment["spec"]["selector"]["matchLabels"]) == {name}
    for service in of_kind(rendered, "Service"):
        assert len(chosen(service["spec"]["selector"])) == 1, service["metadata"]["name"]
    for budget in of_kind(rendered, "PodDisruptionBudget"):
        assert chosen(budget["spec"]["selector"]["matchLabels"]) == {budget["metadata"]["name"]}


def test_what_scales_has_no_number_of_replicas(rendered):
    targets = {
        scaler["spec"]["scaleTargetRef"]["name"]
        for kind in ("ScaledObject", "HorizontalPodAutoscaler")
        for scaler in of_kind(rendered, kind)
    }
    for deployment in of_kind(rendered, "Deployment"):
        scales = deployment["metadata"]["name"] in targets
        assert scales == ("replicas" not in deployment["spec"]), deployment["metadata"]["name"]


def test_pods_get_more_time_to_stop_than_they_take(rendered):
    for deployment in of_kind(rendered, "Deployment"):
        pod = deployment["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        if container["name"] == "worker":
            drain = int(container["args"][container["args"].index("--grace-seconds") + 1])
            assert pod["terminationGracePeriodSeconds"] >= drain + 5
        elif container["name"] == "server":
            pause = container["lifecycle"]["preStop"]["sleep"]["seconds"]
            assert pod["terminationGracePeriodSeconds"] >= pause + 30


def test_a_pool_has_its_own_deployment_with_the_defaults_for_the_rest():
    documents = template("--values", str(CHART / "ci/production-values.yaml"))
    workers = {
        d["spec"]["template"]["metadata"]["labels"]["adjutant/pool"]: d
        for d in of_kind(documents, "Deployment")
        if "adjutant/pool" in d["metadata"]["labels"]
    }
    assert set(workers) == {"default", "Gpu_A.1"}
    arguments = {pool: d["spec"]["template"]["spec"]["containers"][0]["args"] for pool, d in workers.items()}
    assert arguments["Gpu_A.1"] == ["work", "--pool", "Gpu_A.1", "--concurrency", "2", "--grace-seconds", "25"]
    assert "20" in arguments["default"]
    (gpu,) = [s for s in of_kind(documents, "ScaledObject") if "gpu" in s["metadata"]["name"]]
    (trigger,) = gpu["spec"]["triggers"]
    assert "where pool = 'Gpu_A.1'" in trigger["metadata"]["query"]
    assert trigger["metadata"]["targetQueryValue"] == "2"


def test_a_changed_config_restarts_the_pods():
    def checksums(*settings):
        documents = template("--set", "database.existingSecret=db", *settings)
        return [
            d["spec"]["template"]["metadata"]["annotations"]["checksum/config"] for d in of_kind(documents, "Deployment")
        ]

    first = checksums()
    assert first == checksums()
    assert all(a != b for a, b in zip(first, checksums("--set", "config=[limits]")))


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ([], "existingSecret"),
        (["--set", "database.existingSecret=db", "--set", "database.url=postgres://x"], "remove one"),
        (["--set", "database.url=mysql://x"], "/database/url"),
        (["--set", "database.existingSecret=db", "--set", "server.replica=3"], "replica"),
        (["--set", "database.existingSecret=db", "--set", "workerDefaults.concurrency=0"], "concurrency"),
        (["--set", "database.existingSecret=db", "--set", "workerPools.x.foo=1"], "/workerPools/x"),
        (["--set", "database.existingSecret=db", "--set", "workerPools.a b.replicas=1"], "no name of a pool"),
        (["--set", "database.existingSecret=db", "--set", "serviceMonitor.enabled=true"], "keySecret"),
        (["--set", "database.existingSecret=db", "--set", "httpRoute.enabled=true"], "parentRefs"),
        (["--set", "database.existingSecret=db", "--set", "image.pullPolicy=Sometimes"], "pullPolicy"),
    ],
)
def test_a_bad_value_is_refused_by_name(settings, named):
    assert named in refused(*settings)


def test_the_plain_manifests_are_the_chart():
    done = helm(
        "template", "adjutant", str(CHART), "--namespace", "adjutant", "--values",
        str(ROOT / "deploy/kubernetes/values.yaml"),
    )
    plain = (ROOT / "deploy/kubernetes/adjutant.yaml").read_text()
    assert plain == done.stdout, "run `make manifests`"


def test_the_page_of_the_chart_is_made_of_its_values():
    made = subprocess.run(["python3", CHART / "readme.py"], capture_output=True, text=True, check=True)
    assert (CHART / "README.md").read_text() == made.stdout, "run `make manifests`"


def test_checkov_finds_nothing_that_is_not_explained(tmp_path):
    explained = {
        "CKV_K8S_8": "the migration is a job, and a worker that hangs loses its leases",
        "CKV_K8S_9": "nobody calls a worker or the job",
        "CKV_K8S_11": "a CPU limit only slows a pod down",
        "CKV_K8S_15": "images with a version do not change; image.pullPolicy can say Always",
        "CKV_K8S_35": "URLs and keys of models are environment variables, as all settings are",
        "CKV_K8S_43": "only those who build the image know its digest",
        "CKV2_K8S_6": "the pod of the migration is called by nobody, and gone within minutes",
    }
    rendered = tmp_path / "rendered.yaml"
    documents = template("--values", str(CHART / "ci/production-values.yaml"))
    rendered.write_text(yaml.safe_dump_all(documents))
    done = subprocess.run(
        [TOOLS / "checkov/bin/checkov", "--file", rendered, "--framework", "kubernetes", "--compact", "--quiet",
         "--skip-check", ",".join(explained), "--skip-download"],
        capture_output=True, text=True, timeout=300, check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
