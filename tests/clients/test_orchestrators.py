"""Orchestrators of other projects' frameworks delegate over MCP and get their results, although a
worker is killed during a model call. The orchestrator's model is scripted too.
"""

import anyio
import pytest
from agents import Agent, ModelSettings, OpenAIChatCompletionsModel, Runner, set_tracing_disabled
from agents.mcp import MCPServerStdio, MCPServerStreamableHttp
from fastmcp.client.transports import StdioTransport
from fleet import Fleet
from openai import AsyncOpenAI
from processes import ADJUTANT, environment
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

pytestmark = pytest.mark.anyio
set_tracing_disabled(True)

AGENTS = """
[agents.counter]
description = "Counts what is in a warehouse"
system_prompt = "You are a counter."
tools = ["shared_context"]
"""

# The script of each loop, with its name: the orchestrator and its two subagents. The first call of
# the subagent "north" hangs.
RULES = """
[[rule]]
name = "{loop}"
when = {{ assignment = "stock of {loop}" }}
turns = [
  {{ calls = [
    {{ name = "subagent", arguments = {{ action = "spawn", agent = "counter", task = "Count {loop}-north" }} }},
    {{ name = "subagent", arguments = {{ action = "spawn", agent = "counter", task = "Count {loop}-south" }} }},
  ] }},
  {{ call = "subagent", arguments = {{ action = "wait", task_ids = ["t_01", "t_02"], mode = "all", timeout_s = 45 }} }},
  {{ calls = [
    {{ name = "subagent", arguments = {{ action = "collect", task_id = "t_01" }} }},
    {{ name = "subagent", arguments = {{ action = "collect", task_id = "t_02" }} }},
  ] }},
  "Counted. {{last}}",
]

[[rule]]
name = "{loop}-north"
when = {{ assignment = "{loop}-north" }}
turns = [
  {{ call = "shared_context", arguments = {{ action = "write", key = "north", value = "12 pallets" }} }},
  [ {{ fault = "hang_before_headers" }}, "12 pallets in the north." ],
]

[[rule]]
name = "{loop}-south"
when = {{ assignment = "{loop}-south" }}
answer = "7 pallets in the south."
"""

LOOPS = [f"{maker}-{transport}" for maker in ("openai", "pydantic") for transport in ("stdio", "http")]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    with Fleet(tmp_path_factory.mktemp("fleet"), "".join(RULES.format(loop=loop) for loop in LOOPS), AGENTS) as fleet:
        yield fleet


def bridge(fleet, session):
    """The command and the environment of `adjutant mcp` for a client over stdio."""
    variables = environment(fleet.folder, ADJUTANT_API_KEY=fleet.key)
    return ADJUTANT, ["mcp", "--url", fleet.url, "--session", session], variables


def headers(fleet, session):
    return {"Authorization": f"Bearer {fleet.key}", "Adjutant-Session": session}


async def openai_agents(fleet, loop, transport, model):
    if transport == "stdio":
        command, arguments, variables = bridge(fleet, loop)
        server = MCPServerStdio({"command": command, "args": arguments, "env": variables}, client_session_timeout_seconds=60)
    else:
        server = MCPServerStreamableHttp(
            {"url": f"{fleet.url}/mcp", "headers": headers(fleet, loop), "timeout": 60}, client_session_timeout_seconds=60
        )
    async with server:
        agent = Agent(
            name="Orchestrator",
            instructions="You are the orchestrator.",
            mcp_servers=[server],
            model=OpenAIChatCompletionsModel("gpt-test", model),
            model_settings=ModelSettings(parallel_tool_calls=True),
        )
        return (await Runner.run(agent, f"Report the stock of {loop}")).final_output


async def pydantic_ai(fleet, loop, transport, model):
    if transport == "stdio":
        command, arguments, variables = bridge(fleet, loop)
        tools = MCPToolset(StdioTransport(command, arguments, env=variables), read_timeout=60, init_timeout=60)
    else:
        tools = MCPToolset(f"{fleet.url}/mcp", headers=headers(fleet, loop), read_timeout=60, init_timeout=60)
    script = OpenAIChatModel("gpt-test", provider=OpenAIProvider(openai_client=model))
    agent = PydanticAgent(script, instructions="You are the orchestrator.", toolsets=[tools])
    async with agent:
        return (await agent.run(f"Report the stock of {loop}")).output


@pytest.mark.parametrize("loop", LOOPS)
async def test_an_orchestrator_gets_its_results_though_a_worker_dies(fleet, loop):
    run = openai_agents if loop.startswith("openai") else pydantic_ai
    said = []
    with anyio.fail_after(90):
        async with anyio.create_task_group() as group:

            async def orchestrate():
                # The HTTP client has to be closed in the event loop that opened it.
                async with AsyncOpenAI(base_url=fleet.model.openai, api_key="none", max_retries=0) as model:
                    said.append(await run(fleet, loop, loop.split("-")[1], model))

            group.start_soon(orchestrate)
            await anyio.to_thread.run_sync(fleet.kill_worker_during_call, f"{loop}-north", 2)
    assert "12 pallets in the north." in said[0] and "7 pallets in the south." in said[0], said
    query = """select task.assignment, task.state, task.attempt from task join session on session.id = task.session
        where session.name = %s order by task.assignment"""
    north, south = fleet.query(query, loop)
    assert north == (f"Count {loop}-north", "completed", 2)
    # The killed worker may have had both tasks.
    assert south[:2] == (f"Count {loop}-south", "completed")
    # Turns that were answered before the kill were not requested again; only the interrupted call
    # was made twice.
    turns = {(turn["rule"], turn["turn"]): (turn["requested"], turn["answered"]) for turn in fleet.model.counts()["turns"]}
    assert turns[f"{loop}-north", 1] == (1, 1) and turns[f"{loop}-north", 2] == (2, 1), turns
    assert [turns[loop, turn] for turn in (1, 2, 3, 4)] == [(1, 1)] * 4, turns
    assert fleet.model.unexpected() == []
    assert fleet.query("select * from invariant_violation") == []
