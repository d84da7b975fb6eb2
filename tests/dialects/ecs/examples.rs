//! The source's own published examples, as they are written there, against a server, a worker and a
//! scripted model.

use adjutant_script::{Script, When, text, tool_call};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::fleet::Fleet;
use crate::support::test_server::TestServer;

const MORE: &str = "
[agents.researcher]
description = 'Research specialist'
system_prompt = 'You are a research specialist.'
max_turns = 10
[agents.analyst]
description = 'Analyses'
system_prompt = \"You analyse.\\n\\n## My Tools\\n${_installed_tools}\"
tools = ['read_file', 'lookup']
[skills.web_search]
description = 'Searches the web'
instructions = 'Search twice.'
tools = ['lookup']
[dialects.ecs.inheritance]
inherit_tools = ['lookup', 'read_file']
";

async fn opened(script: Script) -> (Fleet, TestServer) {
    opened_with(script, "").await
}

/// With these settings at the start of the config.
async fn opened_with(script: Script, settings: &str) -> (Fleet, TestServer) {
    let fleet = Fleet::with(script, |_| MORE.to_owned()).await;
    let config = std::fs::read_to_string(fleet.file("adjutant.toml")).unwrap();
    std::fs::write(fleet.file("adjutant.toml"), format!("{settings}{config}")).unwrap();
    let server = fleet.server();
    (fleet, server)
}

async fn call(server: &TestServer, tool: &str, arguments: Value) -> Value {
    let path = format!("/v1/sessions/s/tools/{tool}?dialect=ecs");
    server.post(&path, &arguments.to_string()).await.ok(200)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sources_workflow_runs_as_it_is_written() {
    let envelope = "<subagent_background_result>\n<summary>Brief summary of the work performed.</summary>\n<full_result>The complete, detailed output.</full_result>\n</subagent_background_result>";
    let script = Script::new()
        .on(When::assignment("Explain quantum entanglement"))
        .then(text(envelope))
        .on(When::assignment("Research AI safety concerns"))
        .then(text("Concerns."));
    let (fleet, server) = opened(script).await;
    let _worker = fleet.worker();
    let session = json!({"session_id": "s", "system_prompt": "You are a collaborative agent. Always verify sources."});
    server.post("/v1/sessions", &session.to_string()).await.ok(201);
    let launched = call(
        &server,
        "subagent",
        json!({"category": "researcher", "prompt": "Explain quantum entanglement", "load_skills": ["web_search"],
            "background": true, "timeout": 30.0}),
    )
    .await;
    assert_eq!(
        launched,
        json!({"session_id": "t_01", "status": "queued", "category": "researcher", "lifecycle_status": "queued", "timeout": 30.0})
    );
    let logged = call(&server, "subagent_wait", json!({})).await;
    assert_eq!(
        logged,
        json!(
            "Background subagent updates:\n- t_01 succeeded. Call subagent_result(session_id=\"t_01\") for the full result or subagent_result(session_id=\"t_01\", read_method=\"summary\") for the cached summary."
        )
    );
    let summary =
        call(&server, "subagent_result", json!({"session_id": "t_01", "read_method": "summary"}))
            .await;
    assert_eq!(summary["inline_content"], "Brief summary of the work performed.");
    let full = call(
        &server,
        "subagent_result",
        json!({"session_id": "t_01", "read_method": "full", "timeout": 10.0}),
    )
    .await;
    assert_eq!(
        (&full["status"], &full["inline_content"]),
        (&json!("success"), &json!("The complete, detailed output."))
    );
    let sync = call(
        &server,
        "subagent",
        json!({"category": "researcher", "prompt": "Research AI safety concerns"}),
    )
    .await;
    assert_eq!(sync, json!("Concerns."));

    let request = &fleet.model.requests_of("Explain quantum entanglement")[0];
    let system = request.body.as_ref().unwrap()["messages"][0]["content"].as_str().unwrap();
    assert!(
        system.starts_with("You are a research specialist.\n\nYou are a collaborative agent. Always verify sources.\n\n## Available Tools\n- lookup\n\n## Available Skills\n### web_search\n"),
        "rows 2.33 and 2.34: {system}"
    );
    assert!(system.contains("<subagent_background_result>"), "{system}");
    let request = &fleet.model.requests_of("Research AI safety concerns")[0];
    let system = request.body.as_ref().unwrap()["messages"][0]["content"].as_str().unwrap();
    assert!(
        !system.contains("<subagent_background_result>"),
        "only what works in the background is told of it: {system}"
    );
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn row_2_34_the_prompt_of_a_session_names_its_subagents() {
    let (_place, server) = opened(Script::new()).await;
    let session = json!({"session_id": "s", "system_prompt": "You lead.\n${_installed_subagents}"});
    server.post("/v1/sessions", &session.to_string()).await.ok(201);
    let prompt = server.get("/v1/sessions/s/prompt?dialect=ecs").await;
    let expected = "You lead.\n- analyst: Analyses\n- clerk: Does what it is told\n- researcher: Research specialist";
    assert_eq!((prompt.status, prompt.text.as_str()), (200, expected));
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_2_33_and_2_34_an_agent_uses_inherited_tools_and_its_prompt_lists_them() {
    let script = Script::new()
        .on(When::assignment("Analyse"))
        .then(
            tool_call("lookup", json!({"word": "x"}))
                .and_call("read_file", json!({"path": "notes.txt"})),
        )
        .then(text("Analysed."));
    let (fleet, server) = opened(script).await;
    let _worker = fleet.worker();
    until_tools(&fleet).await;
    let session = json!({"session_id": "s", "tools": ["lookup", "read_file", "fetch"], "permissions": {"deny": ["read_*"]}});
    server.post("/v1/sessions", &session.to_string()).await.ok(201);
    let said =
        call(&server, "subagent", json!({"category": "analyst", "prompt": "Analyse it."})).await;
    assert_eq!(said, json!("Analysed."));
    let request = fleet.model.requests_of("Analyse it.");
    let system = request[0].body.as_ref().unwrap()["messages"][0]["content"].as_str().unwrap();
    assert!(
        system.starts_with(
            "You analyse.\n\n## My Tools\n- lookup\n\n## Available Skills\n(none)\n\n"
        ),
        "{system}"
    );
    let tools: Vec<&str> = request[0].body.as_ref().unwrap()["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["function"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(tools, ["lookup"], "what the session does not permit is not there");
    let results: Vec<&str> = request[1].body.as_ref().unwrap()["messages"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|message| message["role"] == "tool")
        .map(|message| message["content"].as_str().unwrap())
        .collect();
    assert!(
        results[1].contains("There is no tool \"read_file\""),
        "nor can it be called: {results:?}"
    );
    fleet.close().await;
}

async fn until_tools(fleet: &Fleet) {
    crate::support::world::until("the worker's tools are known", async || {
        fleet
            .world
            .count("select count(*) from tool where name in ('lookup', 'read_file', 'fetch')")
            .await
            == 3
    })
    .await;
}

/// The stream of a task ends with it.
async fn events_of(server: &TestServer, task: uuid::Uuid) -> Vec<Value> {
    let mut stream = TcpStream::connect(&server.address).await.unwrap();
    let head = format!(
        "GET /v1/tasks/{task}/events HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
        server.address
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).await.unwrap();
    let data = said.lines().filter_map(|line| line.strip_prefix("data: "));
    data.map(|data| serde_json::from_str(data).unwrap()).collect()
}

/// A delegation of `TASK`, from its call to its end: the events of its stream and of the worker's
/// log, by their names.
struct Delegation {
    id: uuid::Uuid,
    traceparent: String,
    streamed: Vec<Value>,
    logged: Vec<Value>,
    fleet: Fleet,
}

const TASK: &str = "Secret words.";
const RESULT: &str = "Sécret answer.";

impl Delegation {
    async fn run(more: &str) -> Self {
        let (fleet, server) =
            opened_with(Script::new().on(When::any()).then(text(RESULT)), more).await;
        let worker = fleet.worker();
        server.post("/v1/sessions", r#"{"session_id": "s"}"#).await.ok(201);
        call(&server, "subagent", json!({"category": "researcher", "prompt": TASK})).await;
        let (id, traceparent): (uuid::Uuid, String) =
            sqlx::query_as("select id, traceparent from task")
                .fetch_one(&fleet.world.sql)
                .await
                .unwrap();
        worker.until_logged("delegation.completed").await;
        let lines = worker.stderr();
        let logged = lines.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        Self { id, traceparent, streamed: events_of(&server, id).await, logged, fleet }
    }

    fn streamed(&self, kind: &str) -> &Value {
        self.streamed.iter().find(|event| event["kind"] == kind).unwrap()
    }

    fn logged(&self, name: &str) -> &Value {
        self.logged.iter().find(|event| event["event.name"] == name).unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn row_2_35_both_ends_of_a_delegation_have_the_same_ids_and_the_notification_is_stored_first()
{
    let delegation = Delegation::run("").await;
    let (id, traceparent) = (json!(delegation.id), json!(delegation.traceparent));
    for kind in ["started", "completed"] {
        let event = delegation.streamed(kind);
        assert_eq!(
            (&event["correlation_id"], &event["traceparent"], &event["agent"]),
            (&id, &traceparent, &json!("researcher")),
            "{event}"
        );
        let event = delegation.logged(&format!("delegation.{kind}"));
        assert_eq!(
            (&event["correlation.id"], &event["traceparent"], &event["agent.name"]),
            (&id, &traceparent, &json!("researcher")),
            "{event}"
        );
    }
    let stored_first: bool = sqlx::query_scalar(
        "select n.created_at <= e.at from notification n join event e on e.task = n.task and e.kind = 'completed'",
    )
    .fetch_one(&delegation.fleet.world.sql)
    .await
    .unwrap();
    assert!(stored_first, "the notification is of the transaction that stores the end");
}

#[tokio::test(flavor = "multi_thread")]
async fn row_2_35_events_have_the_ids_and_sizes_of_the_task_and_the_result() {
    let delegation = Delegation::run("").await;
    let reference = |text: &str| json!({"id": delegation.id, "bytes": text.len()});
    let (started, completed) = (delegation.streamed("started"), delegation.streamed("completed"));
    assert_eq!((&started["task"], started.get("result")), (&reference(TASK), None));
    assert_eq!((&completed["task"], &completed["result"]), (&reference(TASK), &reference(RESULT)));
    for name in ["delegation.started", "delegation.completed"] {
        let event = delegation.logged(name);
        assert_eq!(
            (&event["delegation.task.id"], &event["delegation.task.bytes"]),
            (&json!(delegation.id), &json!(TASK.len())),
            "{event}"
        );
    }
    let completed = delegation.logged("delegation.completed");
    assert_eq!(
        (&completed["delegation.result.id"], &completed["delegation.result.bytes"]),
        (&json!(delegation.id), &json!(RESULT.len())),
        "{completed}"
    );
    let everything = json!([delegation.streamed, delegation.logged]).to_string();
    assert!(!everything.contains(TASK) && !everything.contains(RESULT), "{everything}");
}

#[tokio::test(flavor = "multi_thread")]
async fn row_2_35_events_have_the_texts_if_payloads_are_logged() {
    let delegation = Delegation::run("log_payloads = true\n").await;
    let (started, completed) = (delegation.streamed("started"), delegation.streamed("completed"));
    assert_eq!((&started["task"]["text"], started.get("result")), (&json!(TASK), None));
    assert_eq!(
        (&completed["task"]["text"], &completed["result"]["text"]),
        (&json!(TASK), &json!(RESULT))
    );
    let started = delegation.logged("delegation.started");
    assert_eq!(started["delegation.task.text"], TASK, "{started}");
    let completed = delegation.logged("delegation.completed");
    assert_eq!(
        (&completed["delegation.task.text"], &completed["delegation.result.text"]),
        (&json!(TASK), &json!(RESULT)),
        "{completed}"
    );
}
