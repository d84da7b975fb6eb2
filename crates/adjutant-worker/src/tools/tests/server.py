"""A small MCP server over stdio that does what it is told, also what no server should do."""

import json
import os
import sys
import time

FOLDER = sys.argv[1]
MODE = sys.argv[2] if len(sys.argv) > 2 else ""


def tool(name, **more):
    return {"name": name, "description": "does " + name, "inputSchema": {"type": "object"}, **more}


PAGES = [
    [tool("echo", annotations={"readOnlyHint": True}), tool("fetch")],
    [tool("die"), tool("die_once", annotations={"idempotentHint": True}), tool("hang")],
    [tool("fail"), tool("grow"), tool("env"), tool("get.it", inputSchema={}), tool("refuse")],
]


def send(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def text(said, **more):
    return {"content": [{"type": "text", "text": said}], **more}


def note(name):
    """Leaves a line for the test to read, and says how many there are."""
    with open(os.path.join(FOLDER, name), "a+") as file:
        file.write(f"{os.getpid()}\n")
        file.flush()
        file.seek(0)
        return len(file.readlines())


def call(params):
    name, arguments = params["name"], params.get("arguments")
    if name == "echo":
        return text(json.dumps({"arguments": arguments, "key": params["_meta"].get("adjutant/idempotency-key")}))
    if name == "die" or name == "die_once" and note("died") == 1:
        os._exit(1)
    if name == "hang":
        return None
    if name == "fail":
        return text("it failed", isError=True)
    if name == "grow":
        PAGES[0].append(tool("grown"))
        send({"method": "notifications/tools/list_changed"})
    if name == "env":
        return text(json.dumps(dict(os.environ)))
    return text("done")


def answer(message):
    method, params = message["method"], message.get("params") or {}
    if method == "initialize":
        capabilities = {"tools": {"listChanged": True}}
        info = {"name": "test", "version": "1"}
        return {"protocolVersion": params["protocolVersion"], "capabilities": capabilities, "serverInfo": info}
    if method == "tools/list":
        page = int(params.get("cursor") or 0)
        more = {"nextCursor": str(page + 1)} if page + 1 < len(PAGES) else {}
        return {"tools": PAGES[page], **more}
    if method == "tools/call":
        return call(params)
    return {}


starts = note("starts")
if MODE == "dies_at_first" and starts < 3:
    sys.exit("not yet")
if MODE == "silent":
    time.sleep(1000)
sys.stderr.write("started\n" + "x" * 100_000 + "\n")
sys.stderr.flush()
for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") == "notifications/cancelled":
        note("cancelled")
    if "id" not in message:
        continue
    if message["method"] == "tools/call" and message["params"]["name"] == "refuse":
        send({"id": message["id"], "error": {"code": -32602, "message": "bad arguments"}})
        continue
    result = answer(message)
    if result is not None:
        send({"id": message["id"], "result": result})
if MODE == "stays":
    time.sleep(1000)
note("ended")
