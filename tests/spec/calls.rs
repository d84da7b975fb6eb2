//! What holds for every call: tools, sessions, strictness, trace.

use adjutant_agent::ErrorCode;
use adjutant_server::ToolCall;
use serde_json::{Value, json};

use super::office::{Office, SESSION, assert_has};
use super::over_every_wire;

over_every_wire! {
    row_0_30_an_unknown_action_lists_the_valid_ones,
    row_g_25_arguments_are_read_strictly,
    row_g_34_a_task_goes_on_where_another_one_ended,
    row_g_25_an_unknown_session_or_tool_is_not_found,
    row_g_35_a_session_that_is_made_again_is_empty,
    row_g_archived_what_is_readable_stays_readable,
    row_g_32_a_key_may_come_with_the_wire,
    row_0_36_a_task_is_in_the_trace_of_its_spawn,
}

async fn row_0_30_an_unknown_action_lists_the_valid_ones(office: Office) {
    let message = office.refused(json!({"action": "annihilate"}), ErrorCode::InvalidAction).await;
    for action in ["list_agents", "define", "spawn", "status", "collect"] {
        assert!(message.contains(action), "{message}");
    }
}

async fn row_g_25_arguments_are_read_strictly(office: Office) {
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
        (json!({"action": "batch", "tasks": [{"agent": "writer", "prompt": "x"}]}), "tasks[0].prompt"),
    ] {
        let message = office.refused(arguments, ErrorCode::InvalidArgument).await;
        assert!(message.starts_with(&format!("{field}: ")), "{message}");
    }
    let spawn =
        json!({"action": "spawn", "agent": "writer", "task": "x", "depends_on": ["t_01", "nonsense"]});
    let message = office.refused(spawn, ErrorCode::TaskNotFound).await;
    assert_eq!(message, "depends_on[1]: task not found: nonsense");
    let every_field = json!({"action": "spawn", "agent": "writer", "task": "x", "task_id": null, "name": null,
        "nonsense": null, "queue": null, "depends_on": null});
    office.call(every_field).await;
}

async fn row_g_34_a_task_goes_on_where_another_one_ended(office: Office) {
    let go_on =
        |task: &str| json!({"action": "continue", "task_id": task, "task": "And then?", "label": "more"});
    office.refused(go_on("t_01"), ErrorCode::TaskNotFound).await;
    let running = office.spawn("x").await;
    office.refused(go_on(&running), ErrorCode::TaskNotReady).await;
    office.claim().await.lease.complete("done".to_owned(), None).write().await.unwrap();
    office.collect(&running).await;
    let answer = office.call(go_on(&running)).await;
    assert_has(&answer, json!({"task_id": "t_02", "agent": "writer", "status": "running", "label": "more"}));
    let claim = office.claim().await;
    assert_eq!(claim.assignment.text, "And then?");
    assert!(claim.assignment.config["continues"].is_string(), "it knows what it continues");
    let too_long = json!({"action": "continue", "task_id": running, "task": "x".repeat(4_004)});
    office.refused(too_long, ErrorCode::TaskTooLarge).await;
}

async fn row_g_25_an_unknown_session_or_tool_is_not_found(office: Office) {
    nowhere(&office, "nowhere").await;
    office.refused_in(SESSION, "AgentTool", json!({"prompt": "x"}), ErrorCode::ToolNotFound).await;
}

/// Over HTTP there is no route to them.
#[tokio::test(flavor = "multi_thread")]
async fn row_g_25_a_name_that_no_session_has_is_not_found_at_the_desk() {
    let office = Office::at_the_desk().await;
    for session in ["", "nul\0"] {
        nowhere(&office, session).await;
    }
}

async fn nowhere(office: &Office, session: &str) {
    for arguments in [
        json!({"action": "list_agents"}),
        json!({"action": "spawn", "agent": "writer", "task": "x"}),
        json!({"action": "status", "task_id": "t_01"}),
        json!({"action": "collect", "task_id": "t_01"}),
        json!({"action": "cancel", "task_id": "t_01"}),
        json!({"action": "read", "task_id": "t_01"}),
        json!({"action": "wait"}),
    ] {
        office.refused_in(session, "subagent", arguments, ErrorCode::SessionNotFound).await;
    }
    let list = json!({"action": "list_keys"});
    office.refused_in(session, "shared_context", list, ErrorCode::SessionNotFound).await;
}

async fn row_g_35_a_session_that_is_made_again_is_empty(office: Office) {
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
        office.spawn("x").await;
        office.world.store.delete_session(office.session_id().await).await.unwrap();
        office.refused(call.clone(), ErrorCode::SessionNotFound).await;
        office.open(SESSION).await;
        let (status, answer) = office.raw(SESSION, "subagent", call).await;
        assert!(status == 200 || answer["error"] == "TASK_NOT_FOUND", "{answer}");
        assert_eq!(office.spawn("x").await, "t_01");
        office.world.store.delete_session(office.session_id().await).await.unwrap();
        office.open(SESSION).await;
        assert_eq!(office.spawn("x").await, "t_01", "the process knew the old one");
        office.world.store.delete_session(office.session_id().await).await.unwrap();
        office.open(SESSION).await;
    }
}

async fn row_g_archived_what_is_readable_stays_readable(office: Office) {
    office.context(json!({"action": "write", "key": "k", "value": "v"})).await;
    let done = office.completed("done").await;
    let running = office.spawn("x").await;
    office.world.store.archive_session(office.session_id().await).await.unwrap();
    for (tool, arguments) in [
        ("subagent", json!({"action": "spawn", "agent": "writer", "task": "x"})),
        ("subagent", json!({"action": "batch", "tasks": [{"agent": "writer", "task": "x"}]})),
        ("subagent", json!({"action": "continue", "task_id": done, "task": "x"})),
        ("subagent", json!({"action": "define", "name": "a", "description": "A", "system_prompt": "A"})),
        ("shared_context", json!({"action": "write", "key": "k", "value": "w"})),
        ("shared_context", json!({"action": "delete", "key": "k"})),
    ] {
        office.refused_in(SESSION, tool, arguments, ErrorCode::SessionArchived).await;
    }
    office.call(json!({"action": "list_agents"})).await;
    office.status(&running).await;
    office.collect(&done).await;
    office.call(json!({"action": "read", "task_id": done})).await;
    assert_has(&office.context(json!({"action": "read", "key": "k"})).await, json!({"value": "v"}));
    let cancelled = office.call(json!({"action": "cancel", "task_id": running})).await;
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

async fn row_g_32_a_key_may_come_with_the_wire(office: Office) {
    let call = with_headers(json!({"action": "spawn", "agent": "writer", "task": "x"}));
    for _ in 0..2 {
        let (status, answer) = (office.wire)(SESSION.to_owned(), call.clone()).await;
        assert_eq!((status, &answer["task_id"]), (200, &json!("t_01")));
    }
    let other =
        with_headers(json!({"action": "spawn", "agent": "writer", "task": "x", "idempotency_key": "k"}));
    assert_eq!((office.wire)(SESSION.to_owned(), other).await.0, 400);
}

async fn row_0_36_a_task_is_in_the_trace_of_its_spawn(office: Office) {
    let call = with_headers(json!({"action": "spawn", "agent": "writer", "task": "x"}));
    let trace = call.traceparent.clone();
    (office.wire)(SESSION.to_owned(), call).await;
    let stored: Option<String> =
        sqlx::query_scalar("select traceparent from task").fetch_one(&office.world.sql).await.unwrap();
    assert_eq!(stored, trace);
}
