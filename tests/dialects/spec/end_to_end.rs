//! Delegation from end to end: an orchestrator at the service, a worker process, and a scripted
//! model.

use adjutant_script::{Script, When, text, tool_call};
use adjutant_server::{Dialect, Hub, Policy, ToolService};
use adjutant_store::{NewSession, Operator};
use serde_json::{Value, json};

use crate::support::fleet::Fleet;
use crate::support::orchestrator::{assert_has, assert_lacks, ids};
use crate::support::tool_client::ToolClient;

async fn call(client: &ToolClient, tool: &str, arguments: Value) -> Value {
    let reply = client.call(tool, arguments).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.value
}

#[tokio::test(flavor = "multi_thread")]
async fn row_0_34_the_cycle_of_the_source_from_the_first_note_to_the_report() {
    let finding =
        json!({"action": "write", "key": "findings_summary", "value": "Pool reduced to 20."});
    let script = Script::new()
        .on(When::assignment("Investigate"))
        .then(tool_call("shared_context", json!({"action": "read", "key": "problem_summary"})))
        .then(tool_call("shared_context", finding))
        .then(text("Root cause found."))
        .on(When::assignment("Draft"))
        .then(text("é".repeat(4_100)));
    let fleet = Fleet::new(script).await;
    let new = NewSession {
        tenant: "tenant".to_owned(),
        name: "incident".to_owned(),
        ..NewSession::default()
    };
    fleet.world.store.create_session(&new).await.unwrap();
    let operator = Operator { default_model: "openai".to_owned(), ..Operator::default() };
    let policy = Policy { operator, models: vec!["openai".to_owned()], ..Policy::default() };
    let service = ToolService::new(
        fleet.world.store.clone(),
        Hub::start(fleet.world.store.clone(), fleet.world.url().to_owned()),
        policy,
    );
    let client = ToolClient::of_service(service, Dialect::Spec, "incident");
    let _worker = fleet.worker();

    let note = json!({"action": "write", "key": "problem_summary", "value": "Throughput dropped."});
    call(&client, "shared_context", note).await;
    let define = json!({"action": "define", "name": "reporter", "description": "Reports",
        "system_prompt": "You report.", "tools": ["shared_context", "lookup", "subagent"]});
    call(&client, "subagent", define).await;
    let spawned = call(
        &client,
        "subagent",
        json!({"action": "batch", "tasks": [
            {"name": "look", "agent": "clerk", "task": "Investigate the problem."},
            {"agent": "reporter", "task": "Draft a report.", "depends_on": ["look"]},
        ]}),
    )
    .await;
    assert_eq!(ids(&spawned), ["t_01", "t_02"]);
    let ended =
        call(&client, "subagent", json!({"action": "wait", "mode": "all", "timeout_s": 45})).await;
    assert_eq!((ids(&ended), &ended["timed_out"]), (vec!["t_01", "t_02"], &json!(false)));
    let collected =
        call(&client, "subagent", json!({"action": "collect", "task_id": "t_01"})).await;
    assert_has(
        &collected,
        json!({"status": "completed", "result": "Root cause found.", "turns_used": 3, "agent": "clerk"}),
    );
    assert_lacks(&collected, &["error"]);
    let found =
        call(&client, "shared_context", json!({"action": "read", "key": "findings_summary"})).await;
    assert_has(
        &found,
        json!({"value": "Pool reduced to 20.", "written_by": "subagent:clerk:t_01"}),
    );
    let report = call(&client, "subagent", json!({"action": "collect", "task_id": "t_02"})).await;
    assert_has(&report, json!({"truncated": true, "result_chars": 4_100, "turns_used": 1}));
    let rest =
        call(&client, "subagent", json!({"action": "read", "task_id": "t_02", "offset": 4_000}))
            .await;
    assert_has(&rest, json!({"text": "é".repeat(100), "next_offset": null}));
    fleet.close().await;
}
