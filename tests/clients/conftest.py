"""The fixture of most tests: `adjutant up` with a scripted model."""

import pytest
from processes import ADJUTANT, CLIENTS, Process, ScriptModel

SCRIPT = """
[[rule]]
name = "quick"
when = { assignment = "hello" }
answer = "Hello from the clerk."

[[rule]]
name = "long"
when = { assignment = "at length" }
answer = "%s"

[[rule]]
name = "refused later"
when = { assignment = "fail after a second" }
answer = { status = 400, message = "no such model", delay_ms = 1000 }

[[rule]]
name = "refused"
when = { assignment = "fail" }
answer = { status = 400, message = "no such model" }

[[rule]]
name = "endless"
when = { assignment = "for ever" }
answer = { fault = "hang_before_headers" }

[[rule]]
name = "six seconds"
when = { assignment = "six seconds" }
answer = { text = "Those were six seconds.", delay_ms = 6000 }

[[rule]]
name = "a second"
when = { assignment = "a second" }
answer = { text = "That was a second.", delay_ms = 1000 }
""" % ("All of it. " * 1000)

CONFIG = """
default_model = "script"

[models.script]
wire = "openai"
base_url = "{url}"

[agents.clerk]
description = "Does what it is told"
system_prompt = "You are a clerk."
tools = ["shared_context"]
"""


@pytest.fixture(scope="session")
def anyio_backend():
    return "asyncio"


@pytest.fixture(autouse=True, scope="session")
def installed():
    assert (CLIENTS / "installed").exists(), "make test-clients installs what these tests run"


class Deployment:
    """A server that needs no key, a worker, and a scripted model."""

    def __init__(self, folder, model):
        config = folder / "adjutant.toml"
        config.write_text(CONFIG.format(url=model.openai))
        self.folder, self.model, self.config = folder, model, config
        self.process = Process(
            folder, "up", "--config", config, "--data-dir", folder / "data", "--listen", "127.0.0.1:0",
            "--grace-seconds", 1,
        )
        self.url = self.process.ready["url"]
        self.mcp = f"{self.url}/mcp"
        self.stdio = [ADJUTANT, "mcp", "--url", self.url]


@pytest.fixture(scope="session")
def deployment(tmp_path_factory):
    folder = tmp_path_factory.mktemp("deployment")
    with ScriptModel(folder, SCRIPT) as model:
        deployment = Deployment(folder, model)
        with deployment.process:
            yield deployment
