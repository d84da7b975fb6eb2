"""Codex without its model: its app server starts the MCP servers that it was told of, and calls their tools on request."""

import json
import subprocess


class Codex:
    def __init__(self, folder, variables):
        self.asked = 0
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
            self.ask("initialize", clientInfo={"name": "test", "title": "Test", "version": "1"})
            self.send({"method": "initialized"})
            self.thread = self.ask("thread/start")["thread"]["id"]
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

    def ask(self, method, **params):
        self.asked += 1
        self.send({"id": self.asked, "method": method, "params": params})
        answer = next(answer for answer in map(json.loads, self.child.stdout) if answer.get("id") == self.asked)
        assert "result" in answer, answer
        return answer["result"]

    def call(self, tool, **arguments):
        """The structured content of a tool's answer."""
        where = {"threadId": self.thread, "server": "adjutant"}
        answer = self.ask("mcpServer/tool/call", **where, tool=tool, arguments=arguments)
        assert not answer["isError"], answer
        return answer["structuredContent"]
