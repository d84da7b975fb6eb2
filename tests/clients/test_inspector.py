"""The Inspector of the MCP project in its CLI mode, over both transports."""

import json

import pytest
from processes import run


@pytest.fixture(params=["stdio", "http"])
def inspect(request, deployment, tmp_path):
    target = deployment.stdio if request.param == "stdio" else [deployment.mcp]

    def inspect(method, *more, code=0):
        printed = run("mcp-inspector", "--cli", *target, "--method", method, *more, folder=tmp_path, code=code)
        return json.loads(printed)

    return inspect


def call(inspect, tool, code=0, **arguments):
    pairs = [f"{name}={value if isinstance(value, str) else json.dumps(value)}" for name, value in arguments.items()]
    words = [word for pair in pairs for word in ("--tool-arg", pair)]
    answer = inspect("tools/call", "--tool-name", tool, *words, code=code)
    return answer.get("isError", False), answer["structuredContent"]


def test_the_inspector_finds_no_fault_in_the_tools(inspect):
    tools = inspect("tools/list", "--strict")["tools"]
    assert {tool["name"] for tool in tools} == {"subagent", "shared_context"}


def test_the_inspector_delegates_a_task(inspect):
    failed, spawned = call(inspect, "subagent", action="spawn", agent="clerk", task="Say hello")
    assert not failed, spawned
    here = {"session_id": spawned["session_id"]}
    _, waited = call(inspect, "subagent", action="wait", task_ids=["t_01"], **here)
    assert waited["tasks"][0]["status"] == "completed"
    _, collected = call(inspect, "subagent", action="collect", task_id="t_01", **here)
    assert collected["result"] == "Hello from the clerk."


def test_the_inspector_shows_a_refusal(inspect):
    failed, refused = call(inspect, "subagent", code=5, action="spawn", agent="nobody", task="x")
    assert failed and refused["error"] == "AGENT_NOT_FOUND"


def test_the_inspector_reads_prompts_and_resources(inspect):
    assert inspect("prompts/list")["prompts"][0]["name"] == "orchestrator"
    prompt = inspect("prompts/get", "--prompt-name", "orchestrator")
    assert "clerk" in prompt["messages"][0]["content"]["text"]
    _, written = call(inspect, "shared_context", action="write", key="a", value="noted")
    uri = f"adjutant://sessions/{written['session_id']}/context/a"
    assert inspect("resources/read", "--uri", uri)["contents"][0]["text"] == "noted"
    assert len(inspect("resources/templates/list")["resourceTemplates"]) == 3
