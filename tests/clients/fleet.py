"""A server and two workers as separate processes, with a PostgreSQL and an API key."""

from contextlib import ExitStack

import psycopg
from processes import ADJUTANT, Process, ScriptModel, run, until

CONFIG = """
default_model = "script"

[models.script]
wire = "openai"
base_url = "{url}"

[lease]
seconds = 2

{agents}
"""


class Fleet:
    def __init__(self, folder, script, agents):
        self.folder, self.open = folder, ExitStack()
        with ExitStack() as started:
            self.model = started.enter_context(ScriptModel(folder, script))
            self.config = folder / "adjutant.toml"
            self.config.write_text(CONFIG.format(url=self.model.openai, agents=agents))
            postgres = started.enter_context(Process(folder, "postgres", "--throwaway"))
            self.variables = {"DATABASE_URL": postgres.ready["database_url"]}
            run(ADJUTANT, "migrate", folder=folder, **self.variables)
            self.key = run(ADJUTANT, "keys", "create", "test", "--quiet", folder=folder, **self.variables).strip()
            server = Process(folder, "serve", "--config", self.config, "--listen", "127.0.0.1:0", **self.variables)
            self.url = started.enter_context(server).ready["url"]
            self.workers = {}
            started.callback(lambda: [worker.end() for worker in self.workers.values()])
            self.start_worker()
            self.start_worker()
            self.open = started.pop_all()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.open.close()

    def start_worker(self):
        worker = Process(self.folder, "work", "--config", self.config, "--grace-seconds", 1, **self.variables)
        self.workers[worker.ready["worker"]] = worker

    def query(self, sql, *values):
        """Runs a query and returns its rows."""
        with psycopg.connect(self.variables["DATABASE_URL"], connect_timeout=10) as database:
            return database.execute(sql, values).fetchall()

    def kill_worker_during_call(self, rule, turn):
        """Kills the worker whose model call hangs in this turn, and starts another worker."""

        def hangs():
            return any(
                (request["rule"], request["turn"], request["end"]) == (rule, turn, None) for request in self.model.requests()
            )

        until(f"turn {turn} of {rule} is requested", hangs)
        query = "select slot.worker::text from slot join task on task.id = slot.task where task.assignment::text like %s"
        [(worker,)] = self.query(query, f"%{rule}%")
        self.workers.pop(worker).kill()
        self.start_worker()
