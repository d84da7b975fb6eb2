"""The conformance suite of MCP's makers, against a real server. conformance.md says what does not apply, check by check, and why: a
check that fails and is not there fails the run, and so does one that is there and passes."""

import json
import re
from pathlib import Path

import pytest
from interpreter import Interpreter
from processes import run

TABLES = Path(__file__).with_name("conformance.md").read_text()
SETS = {
    "2025-06-18": ["--suite", "all", "--spec-version", "2025-06-18"],
    "2025-11-25": ["--requirements", "2025-11-25"],
    "2026-07-28": ["--requirements", "2026-07-28"],
}
# Each process of the suite takes its scenarios one by one; all are quick but those that wait for
# tasks.
LIMIT = 150


def listed(heading):
    """The checks that the table under a heading names."""
    section = TABLES.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| `")]
    rows = [[cell.strip() for cell in line] for line in lines]
    assert all(len(row) == 3 and row[2] for row in rows), rows
    return {(row[0].strip("`"), check) for row in rows for check in re.findall("`([^`]+)`", row[1])}


def checks(url, words, folder):
    """How each check of a set of scenarios ended."""
    results = folder / "results"
    # It ends with 1 if anything failed; what may, we know better.
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
    print(f"{len(passed)} checks passed, {len(failed)} did not, as conformance.md has it")
    assert failed <= expected, f"these fail and are not in conformance.md: {sorted(failed - expected)}"
    assert not passed & expected, f"these pass and are in conformance.md: {sorted(passed & expected)}"


@pytest.fixture(scope="module")
def interpreter(house):
    with Interpreter(house) as interpreter:
        yield interpreter


@pytest.fixture(scope="module")
def seen():
    """Every check that any of the runs made."""
    return set()


@pytest.mark.timeout(LIMIT + 30)
@pytest.mark.parametrize("revision", SETS)
def test_a_server_conforms(house, revision, tmp_path, seen):
    found = checks(house.mcp, SETS[revision], tmp_path)
    seen.update(found)
    compare(found, listed("Not ours") | listed("Ours by another name"))


@pytest.mark.timeout(LIMIT + 30)
@pytest.mark.parametrize("revision", SETS)
def test_a_server_conforms_where_the_suite_says_our_names(interpreter, revision, tmp_path, seen):
    found = checks(interpreter.url, SETS[revision], tmp_path)
    # About the host that is spoken to, which is the interpreter here.
    found = {name: passed for name, passed in found.items() if name[0] != "dns-rebinding-protection"}
    seen.update(found)
    compare(found, listed("Not ours"))


def test_whatever_conformance_md_names_was_run(seen):
    if len(seen) < 100:
        pytest.skip("only after all runs")
    missing = (listed("Not ours") | listed("Ours by another name")) - seen
    assert not missing, f"no such check: {sorted(missing)}"
