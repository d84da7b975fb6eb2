"""Codex without its model: its app server starts the configured MCP servers, and calls their tools
on request."""

import json
import subprocess


class Codex:
    def __init__(self, folder, variables):
        self.last_id = 0
        self.child = subprocess.Popen(
            ["codex", "app-server"],
            cwd=folder,
            env=variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def __enter__(self):
        try:
            self.request("initialize", clientInfo={"name": "test", "title": "Test", "version": "1"})
            self.send({"method": "initialized"})
            self.thread = self.request("thread/start")["thread"]["id"]
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.child.kill()
        self.child.wait(10)

    def send(self, message):
        self.child.stdin.write(json.dumps(message) + "\n")
        self.child.stdin.flush()

    def request(self, method, **params):
        self.last_id += 1
        self.send({"id": self.last_id, "method": method, "params": params})
        answer = next(answer for answer in map(json.loads, self.child.stdout) if answer.get("id") == self.last_id)
        assert "result" in answer, answer
        return answer["result"]

    def call(self, tool, **arguments):
        """Calls a tool and returns the structured content of its result."""
        where = {"threadId": self.thread, "server": "adjutant"}
        answer = self.request("mcpServer/tool/call", **where, tool=tool, arguments=arguments)
        assert not answer["isError"], answer
        return answer["structuredContent"]
