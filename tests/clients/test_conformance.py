"""The conformance suite of the MCP project, against a real server.

conformance.md lists the checks that do not apply, and why. A check that fails and is not listed fails the
run, and so does a check that passes and is listed.
"""

import json
import re
from pathlib import Path

import pytest
from renaming_proxy import RenamingProxy
from processes import run

TABLES = Path(__file__).with_name("conformance.md").read_text()
SETS = {
    "2025-06-18": ["--suite", "all", "--spec-version", "2025-06-18"],
    "2025-11-25": ["--requirements", "2025-11-25"],
    "2026-07-28": ["--requirements", "2026-07-28"],
}
# Seconds for a run of the suite, which runs its scenarios one by one. Some wait for tasks.
LIMIT = 150


def listed(heading):
    """The checks that the table under a heading names."""
    section = TABLES.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| `")]
    rows = [[cell.strip() for cell in line] for line in lines]
    assert all(len(row) == 3 and row[2] for row in rows), rows
    return {(row[0].strip("`"), check) for row in rows for check in re.findall("`([^`]+)`", row[1])}


def checks(url, words, folder):
    """Runs a set of scenarios, and returns for each check whether it passed."""
    results = folder / "results"
    # The suite exits with 1 if any check failed, also one that does not apply.
    suite = ["sh", "-c", 'conformance server "$@" || true', "sh", "--url", url, *words, "-o", results]
    printed = run(*suite, folder=folder, seconds=LIMIT)
    found = {}
    for path in results.glob("server-*/checks.json"):
        scenario = re.fullmatch(r"server-(.*)-\d{4}-\d\d-\d\dT[\d-]+Z", path.parent.name)[1]
        for check in json.loads(path.read_text()):
            passed = check["status"] in ("SUCCESS", "INFO")
            name = (scenario, check["id"])
            found[name] = found.get(name, True) and passed
            if not passed:
                print(f"{check['status']}: {scenario} {check['id']}: {check.get('errorMessage')}")
    assert "=== SUMMARY ===" in printed, printed
    return found


def compare(found, expected):
    failed = {name for name, passed in found.items() if not passed}
    passed = {name for name, passed in found.items() if passed}
    print(f"{len(passed)} checks passed, {len(failed)} did not, as conformance.md expects")
    assert failed <= expected, f"these fail and are not in conformance.md: {sorted(failed - expected)}"
    assert not passed & expected, f"these pass and are in conformance.md: {sorted(passed & expected)}"


@pytest.fixture(scope="module")
def renaming_proxy(deployment):
    with RenamingProxy(deployment) as renaming_proxy:
        yield renaming_proxy


@pytest.fixture(scope="module")
def seen():
    """The checks of all runs."""
    return set()


@pytest.mark.timeout(LIMIT + 30)
@pytest.mark.parametrize("revision", SETS)
def test_a_server_conforms(deployment, revision, tmp_path, seen):
    found = checks(deployment.mcp, SETS[revision], tmp_path)
    seen.update(found)
    compare(found, listed("Not ours") | listed("Ours by another name"))


@pytest.mark.timeout(LIMIT + 30)
@pytest.mark.parametrize("revision", SETS)
def test_a_server_conforms_with_our_names_in_the_requests(renaming_proxy, revision, tmp_path, seen):
    found = checks(renaming_proxy.url, SETS[revision], tmp_path)
    # This scenario tests the host of the URL, which is the proxy here.
    found = {name: passed for name, passed in found.items() if name[0] != "dns-rebinding-protection"}
    seen.update(found)
    compare(found, listed("Not ours"))


def test_every_check_that_conformance_md_names_was_run(seen):
    if len(seen) < 100:
        pytest.skip("only after all runs")
    missing = (listed("Not ours") | listed("Ours by another name")) - seen
    assert not missing, f"no such check: {sorted(missing)}"
