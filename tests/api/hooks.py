"""Rules of the server that an OpenAPI document cannot express."""

import json

import schemathesis

# The tools of a fleet change, so the document does not list them.
TOOLS = ["shared_context", "subagent"]


@schemathesis.hook
def before_load_schema(context, raw_schema):
    call = raw_schema["paths"]["/v1/sessions/{session}/tools/subagent"]["post"]
    for action in call["requestBody"]["content"]["application/json"]["schema"]["oneOf"]:
        if "tools" in action["properties"] and "action" in action["properties"]:
            action["properties"]["tools"]["items"] = {"enum": TOOLS}
    for path, method in [("/v1/sessions", "post"), ("/v1/sessions/{session}", "patch")]:
        session = raw_schema["paths"][path][method]["requestBody"]["content"]["application/json"]["schema"]
        session = raw_schema["components"]["schemas"][session["$ref"].rsplit("/", 1)[1]]
        session["properties"]["tools"]["items"] = {"enum": TOOLS}
    # Clients ignore unknown fields, so the document allows them; the server must not send any.
    for schema in raw_schema["components"]["schemas"].values():
        if "properties" in schema:
            schema.setdefault("additionalProperties", False)


# The states of the tasks that a cancel and a retry of many tasks take.
BULK_STATES = {
    "/v1/tasks/cancel": {None, "queued", "running", "waiting"},
    "/v1/tasks/retry": {None, "failed", "cancelled"},
}


def is_possible_bulk(path, body):
    """There is a filter, or all tasks are meant; and the filter can match tasks of the action."""
    if not isinstance(body, dict) or not isinstance(body.get("filter") or {}, dict):
        return True
    fields = {name: value for name, value in (body.get("filter") or {}).items() if value is not None}
    if bool(fields) == (body.get("all") is True):
        return False
    state = fields.get("state")
    has_failure = path == "/v1/tasks/cancel" and "failure" in fields
    return not has_failure and (not isinstance(state, str | None) or state in BULK_STATES[path])


@schemathesis.hook
def filter_case(context, case):
    """Leaves out requests that are invalid by rules that no schema can express.

    Tasks of a batch must not depend on each other in a circle, a call has one idempotency key, and the
    dialect determines the body. Other dialects answer errors with 200; tests/dialects tests them.
    """
    body = case.body
    if case.path in BULK_STATES and not is_possible_bulk(case.path, body):
        return False
    if case.path.startswith("/v1/sessions/{session}/tools/"):
        dialect = (case.query or {}).get("dialect", "spec")
        if dialect != "spec" or (isinstance(body, dict) and "action" not in body):
            return False
    keys = [(case.headers or {}).get("Idempotency-Key"), body.get("idempotency_key") if isinstance(body, dict) else None]
    if all(keys) and keys[0] != keys[1]:
        return False
    tasks = body.get("tasks") if isinstance(body, dict) else None
    tasks = [task for task in tasks if isinstance(task, dict)] if isinstance(tasks, list) else []
    # A schema cannot forbid NUL at every depth.
    if "\\u0000" in json.dumps([holder.get("metadata") for holder in [body, *tasks] if isinstance(holder, dict)]):
        return False
    names = [task.get("name") for task in tasks if isinstance(task.get("name"), str)]
    waits_for = [name for task in tasks for name in task.get("depends_on") or []]
    return len(names) == len(set(names)) and not set(names) & {name for name in waits_for if isinstance(name, str)}
