"""Follows the first task of README.md and the curl and SQL sections of docs/connect.md verbatim.

Only the ports differ, because the default ports may be taken.
"""

import json
import re

import psycopg
import pytest
from processes import ADJUTANT, Process, ScriptModel, run
from snippets import CONNECT, HERE, README, block, section

FIRST_TASK = section(README, "A first delegated task")
MODEL = "http://127.0.0.1:9000/v1"


@pytest.fixture(scope="module")
def processes_of_readme(tmp_path_factory):
    """The processes that README.md starts: a model, and everything else in one process."""
    folder = tmp_path_factory.mktemp("readme")
    install, enter, example, start = block(FIRST_TASK, "sh", "--example").splitlines()
    assert (install, enter) == ("cargo install --locked --path crates/adjutant", "mkdir hello && cd hello")
    assert start.startswith("adjutant script-model --script script.toml ")
    run("sh", "-ec", example, folder=folder)
    with ScriptModel(folder, (folder / "script.toml").read_text()) as model:
        config = block(FIRST_TASK, "toml", "[models.script]")
        assert MODEL in config
        (folder / "adjutant.toml").write_text(config.replace(MODEL, model.openai))
        enter, check, up = block(FIRST_TASK, "sh", "config check").splitlines()
        assert enter == "cd hello"
        run("sh", "-ec", check, folder=folder)
        command = up.split("#")[0].split()
        assert command[0] == "adjutant"
        with Process(folder, *command[1:], "--listen", "127.0.0.1:0") as process:
            yield folder, process.ready


def test_the_command_line_answers_as_it_is_shown(processes_of_readme):
    folder, ready = processes_of_readme
    shown = re.split(r"^\$ ", block(FIRST_TASK, "", "adjutant spawn"), flags=re.MULTILINE)[1:]
    assert len(shown) == 2
    for command, *answer in (text.splitlines() for text in shown):
        printed = run("sh", "-ec", f"{command} 2>&1", folder=folder, ADJUTANT_URL=ready["url"])
        # On a terminal this is the progress line, which is cleared at the end.
        kept = [line for line in printed.splitlines() if "try 2 of 8" not in line]
        assert kept == answer, command


def test_curl_answers_as_it_is_shown(processes_of_readme):
    folder, ready = processes_of_readme
    curl = section(CONNECT, "curl")
    lines = block(curl, "sh", "curl -s $H").replace(HERE, ready["url"])
    # The last command streams until it is stopped.
    assert lines.count("curl -sN") == 1
    printed = run("sh", "-c", lines.replace("curl -sN", "curl -sN --max-time 3"), folder=folder, code=28)
    answers = [json.loads(text) for text in re.findall(r"\{.*?\}(?=\n|\{|$)", printed.split("event: ")[0])]
    spawned, collected = (json.loads(text) for text in re.findall(r"\{.*?\}", block(curl, "json", "poll_after_ms"), re.DOTALL))
    assert set(answers[1]) == set(spawned) and answers[1]["task_id"] == spawned["task_id"], answers[1]
    assert set(answers[3]) == set(collected) and answers[3]["result"] == collected["result"], answers[3]
    assert "event: " in printed and "data: " in printed


def test_the_sql_views_exist(processes_of_readme):
    _, ready = processes_of_readme
    task_history, violations = (line for line in block(section(CONNECT, "SQL"), "sql", "task_history").splitlines() if line)
    with psycopg.connect(ready["database_url"]) as database:
        assert database.execute(task_history).description[0].name == "task_id"
        assert database.execute(violations).fetchall() == []


def test_a_config_of_all_settings_is_printed_and_understood(tmp_path):
    (tmp_path / "adjutant.toml").write_text(run(ADJUTANT, "config", "example", folder=tmp_path))
    run(ADJUTANT, "config", "check", folder=tmp_path, ANTHROPIC_API_KEY="none")
