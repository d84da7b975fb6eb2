"""A client that the test kills. It delegates a task and prints "waiting" when it waits for it.

Its arguments are a session and the URL or the command of a server.
"""

import asyncio
import sys

from mcp import Client, StdioServerParameters


async def main(session, *server):
    url = len(server) == 1
    target = server[0] if url else StdioServerParameters(command=server[0], args=[*server[1:], "--session", session])
    here = {"session_id": session} if url else {}
    async with Client(target) as client:
        spawn = {"action": "spawn", "agent": "clerk", "task": f"Take six seconds in {session}", "idempotency_key": "once"}
        await client.call_tool("subagent", {**here, **spawn})

        async def waits(done, total, message):
            print("waiting", flush=True)

        wait = {**here, "action": "wait", "timeout_s": 45}
        await client.call_tool("subagent", wait, progress_callback=waits)
        print("answered", flush=True)


asyncio.run(main(*sys.argv[1:]))
