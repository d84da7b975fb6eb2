"""Runs every snippet of docs/connect.md verbatim, with the real client if it can be installed."""

import json
import time

import anyio
import pytest
from codex import Codex
from fastmcp import Client as FastClient
from fleet import Fleet
from mcp import Client, StdioServerParameters
from processes import ADJUTANT, CLIENTS, Process, environment, run
from snippets import CONNECT, pasted, snippets

AGENTS = """
[agents.researcher]
description = "Finds out why"
system_prompt = "You are a researcher."
"""

CALLS = """[
  {{ call = "{tool}", arguments = {{ action = "spawn", agent = "researcher", task = "Look into it"{session} }} }},
  {{ call = "{tool}", arguments = {{ action = "wait", task_ids = ["t_01"]{session} }} }},
  {{ call = "{tool}", arguments = {{ action = "collect", task_id = "t_01"{session} }} }},
  "The researcher says: {{last}}",
]
"""

SCRIPT = f"""
[[rule]]
name = "researcher"
when = {{ system = "You are a researcher." }}
answer = "It is the deploy of 14:02."

[[rule]]
name = "claude"
when = {{ assignment = "Ask the researcher here" }}
turns = {CALLS.format(tool="mcp__adjutant__subagent", session="")}

[[rule]]
name = "claude in a session"
when = {{ assignment = "Ask the researcher in session shop" }}
turns = {CALLS.format(tool="mcp__adjutant__subagent", session=', session_id = "shop"')}

[[rule]]
name = "loop"
when = {{ assignment = "Why is the checkout slow" }}
turns = {CALLS.format(tool="subagent", session="")}
"""

FOUND = "It is the deploy of 14:02."


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    with Fleet(tmp_path_factory.mktemp("fleet"), SCRIPT, AGENTS) as fleet:
        yield fleet


@pytest.fixture
def own(fleet, tmp_path):
    """The config of a new user, in an empty folder, with a free port to listen on."""
    config = tmp_path / "adjutant.toml"
    config.write_text(fleet.config.read_text() + '\n[server]\nlisten = "127.0.0.1:0"\n')
    return config


@pytest.fixture(scope="module")
def open_server(fleet, tmp_path_factory):
    """The URL of `adjutant up` on this machine, which needs no key."""
    folder = tmp_path_factory.mktemp("open")
    with Process(folder, "up", "--config", fleet.config, "--data-dir", folder / "data", "--listen", "127.0.0.1:0") as up:
        yield up.ready["url"]


def keys(fleet):
    """The environment of a client whose model is the scripted one."""
    return {
        "OPENAI_BASE_URL": fleet.model.openai,
        "OPENAI_API_KEY": "none",
        "ANTHROPIC_BASE_URL": fleet.model.anthropic,
        "ANTHROPIC_API_KEY": "none",
        "ADJUTANT_API_KEY": fleet.key,
    }


@pytest.mark.parametrize("where", [0, 1], ids=["on this machine", "elsewhere"])
def test_claude_code_delegates(fleet, own, where):
    [lines] = snippets(CONNECT, "Claude Code")
    folder = own.parent
    quiet = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"}
    variables = {**keys(fleet), **quiet}
    # The key is on the command line.
    del variables["ADJUTANT_API_KEY"]
    run("sh", "-ec", pasted(lines.splitlines()[where], own, fleet.url, fleet.key), folder=folder, **variables)
    listed = run("claude", "mcp", "list", folder=folder, **variables)
    assert "adjutant" in listed and "Connected" in listed, listed
    # Over HTTP, Claude Code uses a revision without sessions, so its model names the session, as
    # the descriptions of the tools ask.
    place = "in session shop" if where else "here"
    if where:
        call = [ADJUTANT, "sessions", "create", "shop", "--url", fleet.url]
        run(*call, folder=folder, ADJUTANT_API_KEY=fleet.key)
    words = ["-p", f"Ask the researcher {place}", "--allowedTools", "mcp__adjutant__subagent"]
    assert FOUND in run("claude", *words, folder=folder, seconds=100, **variables)


@pytest.mark.parametrize("where", [0, 1], ids=["on this machine", "elsewhere"])
def test_codex_delegates(fleet, own, where):
    [lines] = snippets(CONNECT, "Codex")
    folder = own.parent
    (folder / ".codex").mkdir()
    run("sh", "-ec", pasted(lines.splitlines()[where], own, fleet.url), folder=folder)
    variables = environment(folder, ADJUTANT_API_KEY=fleet.key) if where else environment(folder)
    with Codex(folder, variables) as codex:
        [server] = codex.request("mcpServerStatus/list")["data"]
        assert server["serverInfo"]["name"] == "adjutant" and set(server["tools"]) == {"subagent", "shared_context"}
        spawned = codex.call("subagent", action="spawn", agent="researcher", task="Look into it")
        here = {"task_id": spawned["task_id"], "session_id": spawned["session_id"]}
        codex.call("subagent", action="wait", session_id=here["session_id"], task_ids=[here["task_id"]])
        assert codex.call("subagent", action="collect", **here)["result"] == FOUND


async def delegate(client):
    """Delegates a task with a connected client, and returns its result."""

    async def call(**arguments):
        answer = (await client.call_tool("subagent", {**here, **arguments})).structured_content
        here.update({"session_id": answer["session_id"]} if "session_id" in answer else {})
        return answer

    here = {}
    task = (await call(action="spawn", agent="researcher", task="Look into it"))["task_id"]
    await call(action="wait", task_ids=[task])
    return (await call(action="collect", task_id=task))["result"]


async def first_answer(line, config, home):
    """Seconds from the start of a client to its first result, in an empty home."""
    [server] = next(iter(json.loads(pasted(line, config)).values())).values()
    home.mkdir()
    started = time.monotonic()
    with anyio.fail_after(60):
        line = StdioServerParameters(command=server["command"], args=server["args"], env=environment(home), cwd=home)
        async with Client(line) as client:
            assert await delegate(client) == FOUND
            return time.monotonic() - started


@pytest.mark.timeout(200)
@pytest.mark.anyio
@pytest.mark.parametrize("editor", ["VS Code", "Cursor"])
async def test_an_editors_file_gives_a_first_answer_within_10_seconds(own, editor, capsys):
    # Up to three attempts, because the machine may be busy.
    for attempt in range(3):
        seconds = await first_answer(snippets(CONNECT, editor)[0], own, own.parent / f"home-{attempt}")
        with capsys.disabled():
            print(f" {editor}: from nothing to the first delegated answer in {seconds:.1f} s ", end="")
        if seconds < 10:
            return
    raise AssertionError(f"{seconds:.1f} s are more than 10")


@pytest.mark.anyio
@pytest.mark.parametrize("editor", ["VS Code", "Cursor"])
async def test_an_editors_file_names_a_server_elsewhere(fleet, editor):
    config = json.loads(pasted(snippets(CONNECT, editor)[1], server=fleet.url, key=fleet.key))
    [server] = next(iter(config.values())).values()
    # FastMCP reads the same format.
    async with FastClient({"mcpServers": {"adjutant": server}}) as client:
        assert await delegate(client) == FOUND


def python(fleet, code, folder, key):
    """Runs a program that a reader would paste into a file."""
    (folder / "pasted.py").write_text(code)
    variables = keys(fleet) if key else {name: key for name, key in keys(fleet).items() if name != "ADJUTANT_API_KEY"}
    return run(CLIENTS / "python/bin/python", "pasted.py", folder=folder, seconds=100, **variables)


@pytest.mark.parametrize("title", ["A loop of your own on the OpenAI API", "The same on the Anthropic API", "Pydantic AI"])
def test_a_loop_with_an_mcp_client_delegates(fleet, own, title):
    [code] = snippets(CONNECT, title)
    assert FOUND in python(fleet, code, own.parent, key=False)


def test_openais_agents_sdk_delegates(fleet, own):
    [code] = snippets(CONNECT, "OpenAI's agents SDK")
    # The scripted model has the Chat Completions API, not the Responses API.
    chat = "import agents\nagents.set_default_openai_api('chat_completions')\nagents.set_tracing_disabled(True)\n"
    assert FOUND in python(fleet, chat + code, own.parent, key=False)


@pytest.mark.parametrize("title", ["A loop on the OpenAI API", "A loop on the Anthropic API"])
def test_a_loop_over_plain_http_delegates(open_server, fleet, title, tmp_path):
    [code] = snippets(CONNECT, title)
    assert FOUND in python(fleet, pasted(code, server=open_server), tmp_path, key=False)


def test_no_snippet_names_a_model_that_does_not_exist():
    assert "-test" not in CONNECT.read_text()
