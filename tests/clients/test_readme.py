"""The five minutes of the README, line by line, as they stand there: only ports are others, since this machine has other users."""

import json
import re

import psycopg
import pytest
from processes import ADJUTANT, Process, ScriptModel, run
from snippets import HERE, README

SECTION = README.read_text().split("\n## In five minutes\n")[1].split("\n## ")[0]
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```", SECTION, flags=re.MULTILINE | re.DOTALL)
MODEL = "http://127.0.0.1:9000/v1"


def block(kind, words):
    """The one block of this kind with these words in it."""
    [found] = [text for name, text in BLOCKS if name == kind and words in text]
    return found


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """What the first lines start: a model, and everything in one process."""
    folder = tmp_path_factory.mktemp("shop")
    first, second = block("sh", "--example").splitlines()
    assert second.startswith("adjutant script-model --script script.toml ")
    run("sh", "-ec", first, folder=folder)
    with ScriptModel(folder, (folder / "script.toml").read_text()) as model:
        config = block("toml", "[models.script]")
        assert MODEL in config
        (folder / "adjutant.toml").write_text(config.replace(MODEL, model.openai))
        check, up = block("sh", "config check").splitlines()
        run("sh", "-ec", check, folder=folder)
        command = up.split("#")[0].split()
        assert command[0] == "adjutant"
        with Process(folder, *command[1:], "--listen", "127.0.0.1:0") as process:
            yield folder, process.ready


def test_the_command_line_answers_as_it_is_shown(shop):
    folder, ready = shop
    shown = re.split(r"^\$ ", block("", "adjutant spawn"), flags=re.MULTILINE)[1:]
    assert len(shown) == 2
    for command, *answer in (text.splitlines() for text in shown):
        printed = run("sh", "-ec", f"{command} 2>&1", folder=folder, ADJUTANT_URL=ready["url"])
        assert printed.splitlines() == answer, command


def test_curl_answers_as_it_is_shown(shop):
    folder, ready = shop
    lines = block("sh", "curl -s $H").replace(HERE, ready["url"])
    # The last one looks on for as long as one likes.
    assert lines.count("curl -sN") == 1
    printed = run("sh", "-c", lines.replace("curl -sN", "curl -sN --max-time 3"), folder=folder, code=28)
    # Only the calls end their lines.
    answers = [json.loads(text) for text in re.findall(r"\{.*?\}(?=\n|\{|$)", printed.split("event: ")[0])]
    spawned, collected = map(json.loads, block("json", "poll_after_ms").splitlines())
    assert set(answers[1]) == set(spawned) and answers[1]["task_id"] == spawned["task_id"], answers[1]
    assert set(answers[3]) == set(collected) and answers[3]["result"] == collected["result"], answers[3]
    assert "event: " in printed and "data: " in printed


def test_the_views_are_there(shop):
    _, ready = shop
    task_history, violations = (line for line in block("sql", "task_history").splitlines() if line)
    with psycopg.connect(ready["database_url"]) as database:
        assert database.execute(task_history).description[0].name == "task_id"
        assert database.execute(violations).fetchall() == []


def test_a_config_of_all_settings_is_printed_and_understood(tmp_path):
    (tmp_path / "adjutant.toml").write_text(run(ADJUTANT, "config", "example", folder=tmp_path))
    run(ADJUTANT, "config", "check", folder=tmp_path, ANTHROPIC_API_KEY="none")
