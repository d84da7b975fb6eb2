//! Rules of every call: tools, sessions, strict arguments, traces.

use adjutant_agent::ErrorCode;
use adjutant_server::ToolCall;
use serde_json::{Value, json};

use crate::dialects::spec::over_every_wire;
use crate::support::orchestrator::{Orchestrator, SESSION, assert_has};

over_every_wire! {
    row_0_30_an_unknown_action_lists_the_valid_ones,
    row_g_25_arguments_are_read_strictly,
    row_g_34_a_task_continues_where_another_ended,
    row_g_25_an_unknown_session_or_tool_is_not_found,
    row_g_35_a_recreated_session_is_empty,
    row_g_archived_what_is_readable_stays_readable,
    row_g_32_a_key_may_be_a_header,
    row_0_36_a_task_is_in_the_trace_of_its_spawn,
}

async fn row_0_30_an_unknown_action_lists_the_valid_ones(orchestrator: Orchestrator) {
    let message =
        orchestrator.refused(json!({"action": "annihilate"}), ErrorCode::InvalidAction).await;
    for action in ["list_agents", "define", "spawn", "status", "collect"] {
        assert!(message.contains(action), "{message}");
    }
}

async fn row_g_25_arguments_are_read_strictly(orchestrator: Orchestrator) {
    for (arguments, field) in [
        (json!({}), "action"),
        (json!([]), "arguments"),
        (json!({"action": "spawn", "agent": "writer"}), "task"),
        (json!({"action": "spawn", "agent": "writer", "task": ""}), "task"),
        (json!({"action": "spawn", "agent": "writer", "task": "a\0b"}), "task"),
        (json!({"action": "spawn", "agent": "writer", "task": 7}), "task"),
        (json!({"action": "spawn", "agent": "writer", "task": "x", "task_id": "t_01"}), "task_id"),
        (json!({"action": "status"}), "task_id"),
        (json!({"action": "continue", "task_id": "t_01", "message": "go on"}), "message"),
        (json!({"action": "spawn", "agent": "writer", "prompt": "x"}), "prompt"),
        (
            json!({"action": "spawn", "agent": "writer", "task": "x", "depends_on": ["t_01", 2]}),
            "depends_on[1]",
        ),
        (
            json!({"action": "batch", "tasks": [{"agent": "writer", "prompt": "x"}]}),
            "tasks[0].prompt",
        ),
    ] {
        let message = orchestrator.refused(arguments, ErrorCode::InvalidArgument).await;
        assert!(message.starts_with(&format!("{field}: ")), "{message}");
    }
    let spawn = json!({"action": "spawn", "agent": "writer", "task": "x", "depends_on": ["t_01", "nonsense"]});
    let message = orchestrator.refused(spawn, ErrorCode::TaskNotFound).await;
    assert_eq!(message, "depends_on[1]: task not found: nonsense");
    let every_field = json!({"action": "spawn", "agent": "writer", "task": "x", "task_id": null, "name": null,
        "nonsense": null, "queue": null, "depends_on": null});
    orchestrator.call(every_field).await;
}

async fn row_g_34_a_task_continues_where_another_ended(orchestrator: Orchestrator) {
    let continue_ = |task: &str| json!({"action": "continue", "task_id": task, "task": "And then?", "label": "more"});
    orchestrator.refused(continue_("t_01"), ErrorCode::TaskNotFound).await;
    let running = orchestrator.spawn("x").await;
    orchestrator.refused(continue_(&running), ErrorCode::TaskNotReady).await;
    orchestrator.claim().await.lease.complete("done".to_owned(), None).write().await.unwrap();
    orchestrator.collect(&running).await;
    let answer = orchestrator.call(continue_(&running)).await;
    assert_has(
        &answer,
        json!({"task_id": "t_02", "agent": "writer", "status": "running", "label": "more"}),
    );
    let claim = orchestrator.claim().await;
    assert_eq!(claim.assignment.text, "And then?");
    assert!(claim.assignment.config["continues"].is_string(), "it knows what it continues");
    let too_long = json!({"action": "continue", "task_id": running, "task": "x".repeat(4_004)});
    orchestrator.refused(too_long, ErrorCode::TaskTooLarge).await;
}

async fn row_g_25_an_unknown_session_or_tool_is_not_found(orchestrator: Orchestrator) {
    nowhere(&orchestrator, "nowhere").await;
    orchestrator
        .refused_in(SESSION, "AgentTool", json!({"prompt": "x"}), ErrorCode::ToolNotFound)
        .await;
}

/// HTTP has no route to them.
#[tokio::test(flavor = "multi_thread")]
async fn row_g_25_a_name_that_no_session_has_is_not_found_in_process() {
    let orchestrator = Orchestrator::in_process().await;
    for session in ["", "nul\0"] {
        nowhere(&orchestrator, session).await;
    }
}

async fn nowhere(orchestrator: &Orchestrator, session: &str) {
    for arguments in [
        json!({"action": "list_agents"}),
        json!({"action": "spawn", "agent": "writer", "task": "x"}),
        json!({"action": "status", "task_id": "t_01"}),
        json!({"action": "collect", "task_id": "t_01"}),
        json!({"action": "cancel", "task_id": "t_01"}),
        json!({"action": "read", "task_id": "t_01"}),
        json!({"action": "wait"}),
    ] {
        orchestrator.refused_in(session, "subagent", arguments, ErrorCode::SessionNotFound).await;
    }
    let list = json!({"action": "list_keys"});
    orchestrator.refused_in(session, "shared_context", list, ErrorCode::SessionNotFound).await;
}

async fn row_g_35_a_recreated_session_is_empty(orchestrator: Orchestrator) {
    let calls = [
        json!({"action": "status", "task_id": "t_01"}),
        json!({"action": "wait", "task_ids": ["t_01"]}),
        json!({"action": "wait"}),
        json!({"action": "cancel", "task_id": "t_01"}),
        json!({"action": "read", "task_id": "t_01"}),
        json!({"action": "collect", "task_id": "t_01"}),
        json!({"action": "list_agents"}),
    ];
    for call in calls {
        orchestrator.spawn("x").await;
        orchestrator.world.store.delete_session(orchestrator.session_id().await).await.unwrap();
        orchestrator.refused(call.clone(), ErrorCode::SessionNotFound).await;
        orchestrator.open(SESSION).await;
        let (status, answer) = orchestrator.raw(SESSION, "subagent", call).await;
        assert!(status == 200 || answer["error"] == "TASK_NOT_FOUND", "{answer}");
        assert_eq!(orchestrator.spawn("x").await, "t_01");
        orchestrator.world.store.delete_session(orchestrator.session_id().await).await.unwrap();
        orchestrator.open(SESSION).await;
        assert_eq!(orchestrator.spawn("x").await, "t_01", "the process knew the old one");
        orchestrator.world.store.delete_session(orchestrator.session_id().await).await.unwrap();
        orchestrator.open(SESSION).await;
    }
}

async fn row_g_archived_what_is_readable_stays_readable(orchestrator: Orchestrator) {
    orchestrator.context(json!({"action": "write", "key": "k", "value": "v"})).await;
    let done = orchestrator.completed("done").await;
    let running = orchestrator.spawn("x").await;
    orchestrator.world.store.archive_session(orchestrator.session_id().await).await.unwrap();
    for (tool, arguments) in [
        ("subagent", json!({"action": "spawn", "agent": "writer", "task": "x"})),
        ("subagent", json!({"action": "batch", "tasks": [{"agent": "writer", "task": "x"}]})),
        ("subagent", json!({"action": "continue", "task_id": done, "task": "x"})),
        (
            "subagent",
            json!({"action": "define", "name": "a", "description": "A", "system_prompt": "A"}),
        ),
        ("shared_context", json!({"action": "write", "key": "k", "value": "w"})),
        ("shared_context", json!({"action": "delete", "key": "k"})),
    ] {
        orchestrator.refused_in(SESSION, tool, arguments, ErrorCode::SessionArchived).await;
    }
    orchestrator.call(json!({"action": "list_agents"})).await;
    orchestrator.status(&running).await;
    orchestrator.collect(&done).await;
    orchestrator.call(json!({"action": "read", "task_id": done})).await;
    assert_has(
        &orchestrator.context(json!({"action": "read", "key": "k"})).await,
        json!({"value": "v"}),
    );
    let cancelled = orchestrator.call(json!({"action": "cancel", "task_id": running})).await;
    assert_has(&cancelled, json!({"cancelled": true}));
}

fn with_headers(arguments: Value) -> ToolCall {
    ToolCall {
        tool: "subagent".to_owned(),
        arguments,
        idempotency_key: Some("from the header".to_owned()),
        traceparent: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned()),
    }
}

async fn row_g_32_a_key_may_be_a_header(orchestrator: Orchestrator) {
    let call = with_headers(json!({"action": "spawn", "agent": "writer", "task": "x"}));
    for _ in 0..2 {
        let reply = orchestrator.client.send(call.clone()).await;
        assert_eq!((reply.status, &reply.value["task_id"]), (200, &json!("t_01")));
    }
    let other = with_headers(
        json!({"action": "spawn", "agent": "writer", "task": "x", "idempotency_key": "k"}),
    );
    assert_eq!(orchestrator.client.send(other).await.status, 400);
}

async fn row_0_36_a_task_is_in_the_trace_of_its_spawn(orchestrator: Orchestrator) {
    let call = with_headers(json!({"action": "spawn", "agent": "writer", "task": "x"}));
    let trace = call.traceparent.clone();
    orchestrator.client.send(call).await;
    let stored: Option<String> = sqlx::query_scalar("select traceparent from task")
        .fetch_one(&orchestrator.world.sql)
        .await
        .unwrap();
    assert_eq!(stored, trace);
}
