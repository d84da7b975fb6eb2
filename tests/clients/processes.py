"""Real processes of Adjutant, for clients to talk to: started, waited for, ended whatever happens."""

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

# For a process to be ready, and for one that is told to end.
START = 60
END = 30


def until(what, look, seconds=60):
    """Looks until there is something, and returns it."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := look():
            return found
        time.sleep(0.02)
    raise AssertionError(f"not in {seconds} s: {what}")


def environment(folder, **more):
    """That of a user whose home is the folder, with the clients on the path and nothing of ours in it."""
    ours = ("ADJUTANT_", "DATABASE_URL", "CLAUDE", "ANTHROPIC_", "OPENAI_", "CODEX_", "XDG_", "VIRTUAL_ENV")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    path = os.pathsep.join([str(CLIENTS / "bin"), str(Path(ADJUTANT).parent), os.environ["PATH"]])
    return {**kept, "HOME": str(folder), "PATH": path, **more}


class Process:
    """One that says a line of JSON when it is ready; what it logs is in a file beside its data."""

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
        """As `kill -9` does."""
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
    """A model that plays a script, and remembers what it was asked."""

    def __init__(self, folder, script):
        path = Path(folder) / "script.toml"
        path.write_text(script)
        super().__init__(folder, "script-model", "--script", path, "--listen", "127.0.0.1:0")
        self.openai = self.ready["openai_base_url"]
        self.anthropic = self.ready["anthropic_base_url"]

    def _told(self, what):
        with urllib.request.urlopen(f"{self.anthropic}/script/{what}", timeout=10) as answer:
            return json.load(answer)

    def requests(self):
        return self._told("requests")

    def counts(self):
        return self._told("counts")

    def unexpected(self):
        return self._told("unexpected")


def run(*command, folder, seconds=60, code=0, **variables):
    """Runs a program to its end and returns what it printed."""
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
