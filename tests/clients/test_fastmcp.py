"""The client of FastMCP over both transports, and with its extension for MCP tasks."""

import pytest
from fastmcp import Client
from fastmcp.client import extension_hooks
from fastmcp.client.transports import StdioTransport
from fastmcp.exceptions import ToolError

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["stdio", "http"])
def connect(request, deployment):
    def connect():
        command, *arguments = deployment.stdio
        over_stdio = StdioTransport(command=command, args=arguments, keep_alive=False)
        return Client(over_stdio if request.param == "stdio" else deployment.mcp, timeout=60)

    return connect


@pytest.fixture
def with_tasks():
    """Enables the tasks extension for one test; importing the package enables it for all."""
    import fastmcp_tasks

    factories = extension_hooks._internal_client_extension_factories
    before = list(factories)
    fastmcp_tasks.register_internal_client_extension_factory(fastmcp_tasks._build_tasks_client_extension)
    yield fastmcp_tasks
    factories[:] = [one for one in before if one is not fastmcp_tasks._build_tasks_client_extension]


async def spawn(client, task):
    """The names of a new session and of its first task."""
    spawn = {"action": "spawn", "agent": "clerk", "task": task}
    spawned = (await client.call_tool("subagent", spawn)).structured_content
    return spawned["session_id"], spawned["task_id"]


async def test_a_task_is_delegated(connect):
    async with connect() as client:
        assert {tool.name for tool in await client.list_tools()} == {"subagent", "shared_context"}
        session, task = await spawn(client, "Say hello")
        here = {"session_id": session}
        waited = await client.call_tool("subagent", {**here, "action": "wait", "task_ids": [task]})
        # FastMCP parses the result into a class that it generates from the output schema.
        assert (waited.data.timed_out, waited.data.tasks[0].status) == (False, "completed")
        collected = await client.call_tool("subagent", {**here, "action": "collect", "task_id": task})
        assert collected.data.result == "Hello from the clerk."


async def test_a_refusal_is_a_tool_error(connect):
    async with connect() as client:
        with pytest.raises(ToolError, match="AGENT_NOT_FOUND"):
            await client.call_tool("subagent", {"action": "spawn", "agent": "nobody", "task": "x"})


async def test_prompts_and_resources_are_read(connect):
    async with connect() as client:
        assert "clerk" in (await client.get_prompt("orchestrator")).messages[0].content.text
        noted = await client.call_tool("shared_context", {"action": "write", "key": "a", "value": "noted"})
        session = noted.structured_content["session_id"]
        read = await client.read_resource(f"adjutant://sessions/{session}/context/a")
        assert read[0].text == "noted"


async def test_progress_is_received(connect):
    async with connect() as client:
        heard = []

        async def progress(done, total, message):
            heard.append(done)

        session, task = await spawn(client, "Work for ever")
        waiting = {"action": "wait", "task_ids": [task], "timeout_s": 5, "session_id": session}
        waited = await client.call_tool("subagent", waiting, progress_handler=progress)
        assert waited.data.timed_out is True
        assert heard and heard == sorted(heard), heard
        await client.call_tool("subagent", {"action": "cancel", "task_id": task, "session_id": session})


async def test_a_wait_is_a_task_that_completes(connect, with_tasks):
    async with connect() as client:
        session, task = await spawn(client, "Take a second")
        wait = {"action": "wait", "task_ids": [task], "session_id": session}
        handle = await with_tasks.call_tool_task(client, "subagent", wait)
        assert handle.create_result.status == "working"
        done = await handle.result()
        assert done.structured_content["tasks"][0]["status"] == "completed"
        # A wait for a task that has ended is answered at once, without an MCP task.
        at_once = await client.call_tool("subagent", wait)
        assert at_once.structured_content == done.structured_content


async def test_cancelling_an_mcp_task_cancels_the_task(connect, with_tasks):
    async with connect() as client:
        session, task = await spawn(client, "Work for ever")
        wait = {"action": "wait", "task_ids": [task], "session_id": session}
        handle = await with_tasks.call_tool_task(client, "subagent", wait)
        await handle.cancel()
        assert (await handle.wait(timeout=30)).status == "cancelled"
        status = {"action": "status", "task_id": task, "session_id": session}
        assert (await client.call_tool("subagent", status)).structured_content["error"] == "Task cancelled"


async def test_an_mcp_task_whose_tasks_fail_is_an_error(connect, with_tasks):
    async with connect() as client:
        session, task = await spawn(client, "Please fail after a second")
        wait = {"action": "wait", "task_ids": [task], "session_id": session}
        with pytest.raises(ToolError, match="Model API error"):
            await client.call_tool("subagent", wait)
