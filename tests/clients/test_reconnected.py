"""A client is killed during a wait; the next one gets the same answer, and nothing runs twice."""

import json
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_client_that_reconnects_gets_the_same_answer(deployment, transport):
    session = f"killed-{transport}"
    request = urllib.request.Request(
        f"{deployment.url}/v1/sessions", json.dumps({"session_id": session}).encode(), {"Content-Type": "application/json"}
    )
    urllib.request.urlopen(request, timeout=10).close()
    server = deployment.stdio if transport == "stdio" else [deployment.mcp]
    script = Path(__file__).with_name("killed_client.py")
    client = subprocess.Popen([sys.executable, script, session, *server], stdout=subprocess.PIPE)
    try:
        assert client.stdout.readline() == b"waiting\n"
    finally:
        client.kill()
        client.wait(10)

    command, *arguments = deployment.stdio
    target = StdioServerParameters(command=command, args=[*arguments, "--session", session])
    here = {} if transport == "stdio" else {"session_id": session}
    async with Client(target if transport == "stdio" else deployment.mcp) as client:

        async def call(**arguments):
            return (await client.call_tool("subagent", {**here, **arguments})).structured_content

        waited = await call(action="wait", timeout_s=45)
        assert [(task["task_id"], task["status"]) for task in waited["tasks"]] == [("t_01", "completed")], waited
        # This answer may be lost too, so the client repeats the wait, the spawn and the collect.
        assert (await call(action="wait", task_ids=["t_01"]))["tasks"] == waited["tasks"]
        spawn = {"agent": "clerk", "task": f"Take six seconds in {session}", "idempotency_key": "once"}
        assert (await call(action="spawn", **spawn))["task_id"] == "t_01"
        for _ in range(2):
            collected = await call(action="collect", task_id="t_01", idempotency_key="collected")
            assert collected["result"] == "Those were six seconds."
    turns = [turn for turn in deployment.model.counts()["turns"] if session in turn["assignment"]]
    assert [(turn["requested"], turn["answered"]) for turn in turns] == [(1, 1)], turns
