"""Processes of Adjutant for the clients under test. They are stopped at the end of a test."""

import json
import os
import select
import signal
import subprocess
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ADJUTANT = str(Path(os.environ.get("ADJUTANT_BIN", ROOT / "target/debug/adjutant")).resolve())
CLIENTS = Path(os.environ.get("ADJUTANT_CLIENTS", ROOT / "target/clients")).resolve()

# Seconds until a process has to be ready, and until it has to exit after SIGTERM.
START = 60
END = 30


def until(what, poll, seconds=60):
    """Polls until `poll` returns something, and returns that."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := poll():
            return found
        time.sleep(0.02)
    raise AssertionError(f"timed out after {seconds} s waiting until {what}")


def environment(folder, **more):
    """The environment of a user with this home: the clients are on the path, settings are unset."""
    ours = ("ADJUTANT_", "DATABASE_URL", "CLAUDE", "ANTHROPIC_", "OPENAI_", "CODEX_", "XDG_", "VIRTUAL_ENV")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    path = os.pathsep.join([str(CLIENTS / "bin"), str(Path(ADJUTANT).parent), os.environ["PATH"]])
    return {**kept, "HOME": str(folder), "PATH": path, **more}


class Process:
    """A process that prints a line of JSON when it is ready. Its log is a file in the folder."""

    def __init__(self, folder, *arguments, **variables):
        self.log = Path(folder) / f"{arguments[0]}-{time.monotonic_ns()}.log"
        self.child = subprocess.Popen(
            [ADJUTANT, *map(str, arguments), "--json"],
            cwd=folder,
            env=environment(folder, **variables),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self.log.open("w"),
        )
        try:
            self.ready = json.loads(self._first_line())
        except BaseException:
            self.kill()
            raise

    def _first_line(self):
        readable, _, _ = select.select([self.child.stdout], [], [], START)
        line = self.child.stdout.readline() if readable else b""
        assert line, f"{self.child.args[1:]} is not ready: {self.log.read_text()}"
        return line

    def kill(self):
        """Sends SIGKILL."""
        self.child.kill()
        self.child.wait(END)

    def end(self):
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGTERM)
            try:
                self.child.wait(END)
            except subprocess.TimeoutExpired:
                self.kill()
                raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()


class ScriptModel(Process):
    """A model server that plays a script and records the requests."""

    def __init__(self, folder, script):
        path = Path(folder) / "script.toml"
        path.write_text(script)
        super().__init__(folder, "script-model", "--script", path, "--listen", "127.0.0.1:0")
        self.openai = self.ready["openai_base_url"]
        self.anthropic = self.ready["anthropic_base_url"]

    def _read(self, what):
        with urllib.request.urlopen(f"{self.anthropic}/script/{what}", timeout=10) as answer:
            return json.load(answer)

    def requests(self):
        return self._read("requests")

    def counts(self):
        return self._read("counts")

    def unexpected(self):
        return self._read("unexpected")


def run(*command, folder, seconds=60, code=0, **variables):
    """Runs a program, checks its exit code, and returns its standard output."""
    ended = subprocess.run(
        list(map(str, command)),
        cwd=folder,
        env=environment(folder, **variables),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=seconds,
    )
    assert ended.returncode == code, f"{command} ended with {ended.returncode}\n{ended.stdout}\n{ended.stderr}"
    return ended.stdout
