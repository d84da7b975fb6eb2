"""A proxy that lets the conformance suite use our names instead of those of its own test server.

Only requests are rewritten: a tool, a prompt or a resource that only the suite's server has becomes
one of ours that does the same, in a session that has data. Status, headers and body of a response
are forwarded unchanged.
"""

import http.client
import json
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

SESSION = "conformance"
RESOURCES = {
    "test://static-text": f"adjutant://sessions/{SESSION}/context/note",
    "test://template/123/data": f"adjutant://sessions/{SESSION}/context/note_123",
}
PROMPTS = {"test_simple_prompt": "orchestrator"}
TASKS = {0: "Say hello", 1: "Take a second", 2: "Take a second", 60: "Work for ever"}


class RenamingProxy(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, deployment):
        super().__init__(("127.0.0.1", 0), _Request)
        self.deployment, self.upstream = deployment, urlsplit(deployment.url)
        self.url = f"http://127.0.0.1:{self.server_address[1]}/mcp"
        self.post("/v1/sessions", {"session_id": SESSION})
        for key in ("note", "note_123"):
            self.post(f"/v1/sessions/{SESSION}/tools/shared_context", {"action": "write", "key": key, "value": f"The {key}."})

    def __enter__(self):
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()

    def post(self, path, body):
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self.deployment.url + path, json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def waiting_for(self, task, **more):
        """The arguments of a call that waits for a new task, in a new session."""
        session = self.post("/v1/sessions", {})["session_id"]
        spawn = {"action": "spawn", "agent": "clerk", "task": task}
        spawned = self.post(f"/v1/sessions/{session}/tools/subagent", spawn)
        return {"action": "wait", "task_ids": [spawned["task_id"]], "session_id": session, **more}

    def translate(self, message):
        """The message with our names for those of the suite's server."""
        method, params = message.get("method"), message.get("params") or {}
        name = params.get("name")
        if method == "prompts/get" and name in PROMPTS:
            params["name"] = PROMPTS[name]
        elif method == "resources/read" and params.get("uri") in RESOURCES:
            params["uri"] = RESOURCES[params["uri"]]
        elif method == "tools/call" and (arguments := self.arguments(name, params.get("arguments") or {})):
            params["name"], params["arguments"] = "subagent", arguments
        return message

    def arguments(self, tool, given):
        if tool in ("test_simple_text", "greet"):
            return {"action": "list_agents"}
        if tool == "test_error_handling":
            return {"action": "spawn", "agent": "nobody", "task": "x"}
        if tool == "test_tool_with_progress":
            # Long enough for three progress notifications.
            return self.waiting_for("Work for ever", timeout_s=8)
        if tool == "slow_compute":
            return self.waiting_for(TASKS[given["seconds"]])
        if tool == "failing_job":
            return self.waiting_for("Please fail after a second")
        return None


class _Request(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        # http.client sets both.
        headers = {name: value for name, value in self.headers.items() if name.lower() not in ("host", "content-length")}
        try:
            message = json.loads(body)
        except ValueError:
            message = None
        if isinstance(message, dict):
            before = dict(message.get("params") or {})
            message = self.server.translate(message)
            self.rename(headers, before, message.get("params") or {})
            headers["Adjutant-Session"] = SESSION
            body = json.dumps(message).encode()
        upstream = http.client.HTTPConnection(self.server.upstream.netloc, timeout=60)
        try:
            upstream.request(self.command, self.path, body or None, headers)
            self.forward(upstream.getresponse())
        finally:
            upstream.close()

    @staticmethod
    def rename(headers, before, after):
        """Replaces the name in the header too: the newest revision repeats it there."""
        for name in list(headers):
            for field in ("name", "uri"):
                if name.lower() == "mcp-name" and headers[name] == before.get(field):
                    headers[name] = after[field]

    def forward(self, answer):
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("transfer-encoding", "content-length", "date", "server", "connection"):
                self.send_header(name, value)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        while part := answer.read1(65536):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")

    def handle(self):
        try:
            super().handle()
        except ConnectionError:
            # The suite closes connections before the end of a stream.
            self.close_connection = True

    do_POST = do_GET = do_DELETE = do_OPTIONS = answer

    def log_message(self, *_):
        pass
