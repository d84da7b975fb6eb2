"""The Python SDK of MCP over both transports, in the newest revision and with `initialize`."""

import json

import anyio
import jsonschema
import pytest
from mcp import Client, MCPError, StdioServerParameters

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["stdio", "http"])
def transport(request):
    return request.param


@pytest.fixture(params=["auto", "legacy"])
def mode(request):
    return request.param


@pytest.fixture
def connect(deployment, transport, mode):
    def connect(session=None):
        command, *arguments = deployment.stdio
        arguments += ["--session", session] if session else []
        server = StdioServerParameters(command=command, args=arguments) if transport == "stdio" else deployment.mcp
        return Client(server, mode=mode)

    return connect


class SessionClient:
    """Calls tools in the session that the first result names."""

    def __init__(self, client):
        self.client, self.session = client, {}

    async def call(self, tool, **arguments):
        answer = await self.client.call_tool(tool, {**self.session, **arguments})
        assert not answer.is_error, answer
        structured = answer.structured_content
        assert json.loads(answer.content[0].text) == structured
        if "session_id" in structured:
            self.session = {"session_id": structured["session_id"]}
        return structured

    async def spawn(self, task):
        return (await self.call("subagent", action="spawn", agent="clerk", task=task))["task_id"]


async def test_the_tools_have_schemas_and_annotations(connect, mode):
    async with connect() as client:
        assert client.server_info.name == "adjutant"
        assert client.protocol_version == ("2026-07-28" if mode == "auto" else "2025-11-25")
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == {"subagent", "shared_context"}
        for tool in tools.values():
            for schema in (tool.input_schema, tool.output_schema):
                jsonschema.Draft202012Validator.check_schema(schema)
            assert tool.input_schema["required"] == ["action"]
            assert tool.title and tool.annotations.destructive_hint is False
        assert "Delegate" in client.instructions


async def test_a_task_is_spawned_waited_for_and_collected(connect):
    async with connect() as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        session_client = SessionClient(client)
        agents = await session_client.call("subagent", action="list_agents")
        assert [agent["name"] for agent in agents["agents"]] == ["clerk"]
        spawned = await session_client.call("subagent", action="spawn", agent="clerk", task="Say hello")
        assert (spawned["task_id"], spawned["status"]) == ("t_01", "running")
        waited = await session_client.call("subagent", action="wait", task_ids=["t_01"])
        assert waited["tasks"][0]["status"] == "completed" and not waited["timed_out"]
        collected = await session_client.call("subagent", action="collect", task_id="t_01")
        assert collected["result"] == "Hello from the clerk."
        for answer in (agents, spawned, waited, collected):
            jsonschema.validate(answer, tools["subagent"].output_schema)


async def test_an_entry_of_the_shared_context_is_read_back(connect):
    async with connect() as client:
        session_client = SessionClient(client)
        written = await session_client.call("shared_context", action="write", key="findings", value="Slow since 14:02.")
        assert (written["version"], written["written_by"]) == (1, "orchestrator")
        assert (await session_client.call("shared_context", action="read", key="findings"))["value"] == "Slow since 14:02."


async def test_a_refused_call_is_a_result_with_is_error(connect):
    async with connect() as client:
        for arguments, code in [
            ({"action": "spawn", "agent": "nobody", "task": "x"}, "AGENT_NOT_FOUND"),
            ({"action": "dance"}, "INVALID_ACTION"),
            ({"action": "spawn", "agent": "clerk"}, "INVALID_ARGUMENT"),
            ({"action": "spawn", "agent": "clerk", "task": "a\0b"}, "INVALID_ARGUMENT"),
            ({"action": "list_agents", "session_id": "no such session"}, "SESSION_NOT_FOUND"),
        ]:
            answer = await client.call_tool("subagent", arguments)
            assert answer.is_error and answer.structured_content["error"] == code, answer
            assert json.loads(answer.content[0].text) == answer.structured_content


async def test_a_task_that_fails_says_why(connect):
    async with connect() as client:
        session_client = SessionClient(client)
        task = await session_client.spawn("Please fail")
        await session_client.call("subagent", action="wait", task_ids=[task])
        collected = await session_client.call("subagent", action="collect", task_id=task)
        assert collected["status"] == "failed" and collected["error"].startswith("Model API error:"), collected
        assert "result" not in collected


async def test_the_prompt_names_the_agents(connect):
    async with connect() as client:
        assert [prompt.name for prompt in (await client.list_prompts()).prompts] == ["orchestrator"]
        prompt = (await client.get_prompt("orchestrator")).messages[0].content.text
        assert "clerk" in prompt and "Does what it is told" in prompt
        with pytest.raises(MCPError):
            await client.get_prompt("nobody")


async def test_a_whole_result_and_the_notes_are_resources(connect):
    async with connect() as client:
        session_client = SessionClient(client)
        task = await session_client.spawn("Tell me at length")
        await session_client.call("subagent", action="wait", task_ids=[task])
        collected = await session_client.call("subagent", action="collect", task_id=task)
        assert collected["truncated"] is True
        await session_client.call("shared_context", action="write", key="a_note", value="noted")
        base = f"adjutant://sessions/{session_client.session['session_id']}"
        templates = (await client.list_resource_templates()).resource_templates
        assert "adjutant://sessions/{session_id}/tasks/{task_id}/result" in {t.uri_template for t in templates}
        read = await client.read_resource(f"{base}/tasks/{task}/result")
        assert read.contents[0].text == "All of it. " * 1000
        assert (await client.read_resource(f"{base}/context/a_note")).contents[0].text == "noted"
        with pytest.raises(MCPError):
            await client.read_resource(f"{base}/context/nothing")


async def test_the_resources_of_its_session_are_listed(connect, transport, mode):
    async with connect() as client:
        session_client = SessionClient(client)
        task = await session_client.spawn("Say hello")
        await session_client.call("subagent", action="wait", task_ids=[task])
        uris = [str(resource.uri) for resource in (await client.list_resources()).resources]
        base = f"adjutant://sessions/{session_client.session['session_id']}"
        # Over HTTP the newest revision has no connections, so the client has no session of its own.
        has_own = transport == "stdio" or mode == "legacy"
        assert uris == ([f"{base}/context", f"{base}/tasks/{task}/result"] if has_own else [])


async def test_a_waiting_client_receives_progress(connect):
    async with connect() as client:
        session_client, received = SessionClient(client), []
        task = await session_client.spawn("Work for ever")
        twice = anyio.Event()

        async def progress(done, total, message):
            received.append((done, message))
            if len(received) == 2:
                twice.set()

        async def stop():
            await twice.wait()
            await session_client.call("subagent", action="cancel", task_id=task)

        with anyio.fail_after(30):
            async with anyio.create_task_group() as group:
                group.start_soon(stop)
                waiting = {**session_client.session, "action": "wait", "task_ids": [task], "timeout_s": 45}
                answer = await client.call_tool("subagent", waiting, progress_callback=progress)
        assert answer.structured_content["tasks"][0]["error"] == "Task cancelled"
        assert received[0][0] < received[1][0] and "Waiting" in received[0][1], received
