//! spawn and status.

use adjutant_agent::{ErrorCode, SessionId, TaskId};
use adjutant_store::{NewSession, NewWorker};
use serde_json::{Value, json};

use crate::dialects::spec::over_every_wire;
use crate::support::orchestrator::{Orchestrator, assert_has, assert_lacks};
use crate::support::world::{race, turn};

over_every_wire! {
    row_0_14_a_spawn_answers_at_once_and_counts_its_tasks,
    row_0_15_a_task_is_given_its_agent_and_its_assignment,
    row_0_16_a_status_never_has_the_result,
    row_0_21_a_task_has_4003_characters_at_most,
    row_0_22_the_sixth_is_refused_and_the_uncollected_do_not_count,
    row_0_28_each_unknown_thing_has_its_own_code,
    row_g_2_a_queued_task_has_a_queue_position,
    row_g_2_a_delayed_task_says_when_to_poll_again,
    row_g_3_with_queue_the_sixth_waits,
    row_g_3_beyond_max_queued_the_next_is_refused_again,
    row_g_23_after_t_99_comes_t_100,
    row_g_6_turns_are_counted_while_the_task_runs,
    row_g_26_a_spawn_may_say_its_own_limits,
    row_g_31_a_task_starts_after_what_it_depends_on,
    row_g_32_the_same_key_spawns_one_task,
    row_g_32_a_refusal_is_never_frozen,
    row_i_1_a_spawn_may_have_a_webhook,
    a_task_runs_in_the_pool_that_its_spawn_names,
}

fn spawn(more: Value) -> Value {
    let mut arguments = json!({"action": "spawn", "agent": "writer", "task": "Do it."});
    arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    arguments
}

async fn row_0_14_a_spawn_answers_at_once_and_counts_its_tasks(orchestrator: Orchestrator) {
    for number in ["t_01", "t_02", "t_03"] {
        let answer = orchestrator.call(spawn(json!({"label": "é"}))).await;
        assert_has(
            &answer,
            json!({"task_id": number, "agent": "writer", "status": "running", "phase": "queued", "label": "é"}),
        );
        let id: uuid::Uuid = answer["id"].as_str().unwrap().parse().unwrap();
        assert_eq!(id.get_version_num(), 7);
        assert_lacks(&answer, &["result", "error", "turns_used"]);
    }
}

async fn row_0_15_a_task_is_given_its_agent_and_its_assignment(orchestrator: Orchestrator) {
    let metadata = json!({"ticket": 7});
    let answer = orchestrator
        .call(spawn(
            json!({"agent": "researcher", "task": "Look: \u{1f980}", "metadata": metadata, "priority": 3}),
        ))
        .await;
    let claim = orchestrator.claim().await;
    assert_eq!(claim.assignment.text, "Look: \u{1f980}");
    assert_eq!(
        claim.assignment.config,
        json!({"system_prompt": "You are researcher.", "tools": ["fetch", "shared_context"], "model": "main", "max_turns": 10})
    );
    let (label, stored, priority): (Option<String>, Value, i16) =
        sqlx::query_as("select label, metadata, priority from task where id = $1::uuid")
            .bind(answer["id"].as_str().unwrap())
            .fetch_one(&orchestrator.world.sql)
            .await
            .unwrap();
    assert_eq!((label, stored, priority), (None, metadata, 3));
}

async fn row_0_16_a_status_never_has_the_result(orchestrator: Orchestrator) {
    let done = orchestrator.completed("The result.").await;
    let status = orchestrator.status(&done).await;
    assert_has(
        &status,
        json!({"task_id": "t_01", "agent": "writer", "status": "completed", "turns_used": 0, "input_tokens": 0, "cost_usd": 0.0}),
    );
    assert_lacks(
        &status,
        &["result", "error", "phase", "queue_position", "poll_after_ms", "failure"],
    );
    let failed = orchestrator.failed(Some("Half.")).await;
    let status = orchestrator.status(&failed).await;
    assert_has(
        &status,
        json!({"status": "failed", "failure": "max_turns",
            "error": "Max turns exceeded without producing a final response"}),
    );
    assert_lacks(&status, &["result", "phase"]);
    let running = orchestrator.spawn("x").await;
    let status = orchestrator.status(&running).await;
    assert_has(
        &status,
        json!({"status": "running", "turns_used": 0, "phase": "queued", "queue_position": 0}),
    );
    assert_lacks(&status, &["result", "error", "completed_at"]);
    for field in ["last_activity_at", "created_at"] {
        assert!(status[field].as_str().unwrap().ends_with('Z'), "{status}");
    }
    assert!(status["poll_after_ms"].as_i64().unwrap() > 0);
}

async fn row_0_21_a_task_has_4003_characters_at_most(orchestrator: Orchestrator) {
    let task = |chars| spawn(json!({"task": "é".repeat(chars)}));
    let message = orchestrator.refused(task(4_004), ErrorCode::TaskTooLarge).await;
    for said in [
        "task: has 4004 characters, which are 1001 tokens",
        "1000 tokens, 4003 characters (limits.max_task_tokens)",
        "the tool shared_context: write it in several notes of up to 4003 characters",
        "Read the keys input_1 and input_2",
        "10000 tokens (limits.max_store_tokens)",
    ] {
        assert!(message.contains(said), "{said}: {message}");
    }
    orchestrator.call(task(4_003)).await;
}

async fn row_0_22_the_sixth_is_refused_and_the_uncollected_do_not_count(
    orchestrator: Orchestrator,
) {
    for _ in 0..3 {
        orchestrator.completed("done").await;
    }
    for _ in 0..5 {
        orchestrator.call(spawn(json!({}))).await;
    }
    orchestrator.refused(spawn(json!({})), ErrorCode::MaxTasksExceeded).await;
    orchestrator.claim().await.lease.complete("done".to_owned(), None).write().await.unwrap();
    orchestrator.call(spawn(json!({}))).await;
}

async fn row_0_28_each_unknown_thing_has_its_own_code(orchestrator: Orchestrator) {
    for agent in ["nobody", "Nobody", "é"] {
        let message =
            orchestrator.refused(spawn(json!({"agent": agent})), ErrorCode::AgentNotFound).await;
        assert!(message.contains(agent), "{message}");
    }
    for action in ["status", "collect", "cancel", "read"] {
        for id in ["t_01", "t_99", "nonsense"] {
            orchestrator
                .refused(json!({"action": action, "task_id": id}), ErrorCode::TaskNotFound)
                .await;
        }
    }
}

async fn row_g_2_a_queued_task_has_a_queue_position(orchestrator: Orchestrator) {
    for before in 0..3 {
        assert_has(
            &orchestrator.call(spawn(json!({}))).await,
            json!({"phase": "queued", "queue_position": before}),
        );
    }
    let _running = orchestrator.claim().await;
    assert_has(
        &orchestrator.status("t_01").await,
        json!({"phase": "running", "status": "running"}),
    );
    assert_lacks(&orchestrator.status("t_01").await, &["queue_position"]);
    assert_has(&orchestrator.status("t_03").await, json!({"phase": "queued", "queue_position": 1}));
}

async fn row_g_3_with_queue_the_sixth_waits(orchestrator: Orchestrator) {
    for _ in 0..5 {
        orchestrator.call(spawn(json!({}))).await;
    }
    let sixth = orchestrator.call(spawn(json!({"queue": true}))).await;
    assert_has(
        &sixth,
        json!({"task_id": "t_06", "status": "running", "phase": "queued", "queue_position": 5}),
    );
    orchestrator.refused(spawn(json!({"queue": false})), ErrorCode::MaxTasksExceeded).await;
}

async fn row_g_3_beyond_max_queued_the_next_is_refused_again(orchestrator: Orchestrator) {
    let new = NewSession {
        tenant: "tenant".to_owned(),
        name: "small".to_owned(),
        max_active: Some(1),
        max_queued: Some(3),
        ..NewSession::default()
    };
    orchestrator.world.store.create_session(&new).await.unwrap();
    for _ in 0..3 {
        assert_eq!(
            orchestrator.raw("small", "subagent", spawn(json!({"queue": true}))).await.0,
            200
        );
    }
    for more in [json!({"queue": true}), json!({})] {
        orchestrator
            .refused_in("small", "subagent", spawn(more), ErrorCode::MaxTasksExceeded)
            .await;
    }
}

async fn row_g_23_after_t_99_comes_t_100(orchestrator: Orchestrator) {
    sqlx::query("update session set next_number = 99")
        .execute(&orchestrator.world.sql)
        .await
        .unwrap();
    for number in ["t_99", "t_100", "t_101"] {
        assert_eq!(orchestrator.spawn("x").await, number);
        assert_has(&orchestrator.status(number).await, json!({"task_id": number}));
    }
}

async fn row_g_2_a_delayed_task_says_when_to_poll_again(orchestrator: Orchestrator) {
    for (delay_s, most) in [(60, 61_000), (86_400, 3_600_000)] {
        let answer = orchestrator.call(spawn(json!({"delay_s": delay_s}))).await;
        let status = orchestrator.status(answer["task_id"].as_str().unwrap()).await;
        for answer in [&answer, &status] {
            assert_has(answer, json!({"status": "running", "phase": "queued"}));
            let after_ms = answer["poll_after_ms"].as_i64().unwrap();
            assert!((most / 2..=most).contains(&after_ms), "{answer}");
        }
    }
    let now = orchestrator.call(spawn(json!({"delay_s": 0}))).await;
    assert!(now["poll_after_ms"].as_i64().unwrap() <= 10_000, "{now}");
}

async fn row_g_6_turns_are_counted_while_the_task_runs(orchestrator: Orchestrator) {
    orchestrator.call(spawn(json!({}))).await;
    let mut claim = orchestrator.claim().await;
    for turns in 1..=2 {
        claim.lease.checkpoint(&turn("Thinking.")).await.unwrap();
        assert_has(
            &orchestrator.status("t_01").await,
            json!({"turns_used": turns, "input_tokens": 10 * turns, "output_tokens": 2 * turns, "phase": "running"}),
        );
    }
    claim.lease.complete("done".to_owned(), None).write().await.unwrap();
    assert_has(&orchestrator.collect("t_01").await, json!({"turns_used": 2, "cost_usd": 6e-8}));
}

async fn row_g_26_a_spawn_may_say_its_own_limits(orchestrator: Orchestrator) {
    let limits = json!({"timeout_s": 60, "max_input_tokens": 50_000, "max_output_tokens": 5_000, "max_cost_usd": 0.25,
        "summary_prompt": "In short?"});
    orchestrator.call(spawn(limits)).await;
    let config = orchestrator.claim().await.assignment.config;
    assert_eq!(config["timeout_s"].as_f64(), Some(60.0));
    assert_eq!(config["summary_prompt"], "In short?");
    assert_eq!(
        config["budget"],
        json!({"max_input_tokens": 50_000, "max_output_tokens": 5_000, "max_cost_nanousd": 250_000_000})
    );
    let delayed = orchestrator.call(spawn(json!({"delay_s": 3600}))).await;
    assert_has(&delayed, json!({"status": "running", "phase": "queued"}));
    assert!(orchestrator.worker.claim(1).await.unwrap().is_empty(), "it is not yet time");
}

async fn row_g_31_a_task_starts_after_what_it_depends_on(orchestrator: Orchestrator) {
    orchestrator.spawn("first").await;
    orchestrator.spawn("second").await;
    let third = orchestrator.call(spawn(json!({"depends_on": ["t_01", "t_02", "t_01"]}))).await;
    assert_has(&third, json!({"status": "running", "phase": "waiting"}));
    assert_lacks(&third, &["queue_position"]);
    orchestrator.refused(spawn(json!({"depends_on": ["t_09"]})), ErrorCode::TaskNotFound).await;
    let fourth = orchestrator.spawn_with(spawn(json!({"depends_on": ["t_03"]}))).await;
    orchestrator.claim().await.lease.complete("done".to_owned(), None).write().await.unwrap();
    orchestrator.collect("t_01").await;
    orchestrator.call(json!({"action": "cancel", "task_id": "t_02"})).await;
    for (task, error) in
        [("t_03", "Dependency t_02 cancelled"), (fourth.as_str(), "Dependency t_03 failed")]
    {
        assert_has(
            &orchestrator.status(task).await,
            json!({"status": "failed", "failure": "dependency", "error": error}),
        );
    }
    let fifth = orchestrator.call(spawn(json!({"depends_on": ["t_01"]}))).await;
    assert_has(&fifth, json!({"phase": "queued"}));
}

async fn row_g_32_the_same_key_spawns_one_task(orchestrator: Orchestrator) {
    let keyed = |task: &str| spawn(json!({"task": task, "idempotency_key": "k", "label": null}));
    let racers = (0..8).map(|_| {
        let (client, arguments) = (orchestrator.client.clone(), keyed("x"));
        async move { client.call("subagent", arguments).await }
    });
    for reply in race(racers.collect()).await {
        assert_eq!((reply.status, &reply.value["task_id"]), (200, &json!("t_01")));
    }
    orchestrator.refused(keyed("y"), ErrorCode::IdempotencyConflict).await;
    assert_eq!(orchestrator.world.count("select count(*) from task").await, 1);
    // A later change of the agent has no effect.
    let gone = "update agent set gone_at = now()";
    sqlx::query(gone).execute(&orchestrator.world.sql).await.unwrap();
    assert_has(&orchestrator.call(keyed("x")).await, json!({"task_id": "t_01", "agent": "writer"}));
    let age = "update idempotency set created_at = now() - interval '25 hours'";
    sqlx::query(age).execute(&orchestrator.world.sql).await.unwrap();
    orchestrator.refused(keyed("x"), ErrorCode::AgentNotFound).await;
}

async fn row_g_32_a_refusal_is_never_frozen(orchestrator: Orchestrator) {
    for _ in 0..5 {
        orchestrator.call(spawn(json!({}))).await;
    }
    let keyed = spawn(json!({"idempotency_key": "k"}));
    orchestrator.refused(keyed.clone(), ErrorCode::MaxTasksExceeded).await;
    orchestrator.claim().await.lease.complete("done".to_owned(), None).write().await.unwrap();
    assert_eq!(orchestrator.call(keyed).await["task_id"], "t_06");
    assert!(orchestrator.session_id().await > SessionId(0));
}

async fn row_i_1_a_spawn_may_have_a_webhook(orchestrator: Orchestrator) {
    let notified =
        spawn(json!({"webhook": {"url": "https://example.com/ended", "events": ["task.failed"]}}));
    orchestrator.refused(notified.clone(), ErrorCode::WebhookSecretNotFound).await;
    let secret = orchestrator.world.secret().await;
    let answer = orchestrator.call(notified).await;
    let record = orchestrator
        .world
        .store
        .task("tenant", answer["id"].as_str().unwrap().parse().map(TaskId).unwrap())
        .await;
    let webhook = serde_json::to_value(record.unwrap().webhook).unwrap();
    assert_eq!(webhook, json!({"url": "https://example.com/ended", "events": ["task.failed"]}));
    assert!(!answer.to_string().contains(&secret));
    for (webhook, field) in [
        (json!({"url": "http://example.com/"}), "webhook.url"),
        (json!({"url": "https://10.0.0.1/"}), "webhook.url"),
        (json!({"url": "https://example.com/", "events": ["ended"]}), "webhook.events[0]"),
    ] {
        let said = orchestrator
            .refused(spawn(json!({"webhook": webhook})), ErrorCode::InvalidArgument)
            .await;
        assert!(said.starts_with(&format!("{field}: ")), "{said}");
    }
}

async fn a_task_runs_in_the_pool_that_its_spawn_names(orchestrator: Orchestrator) {
    orchestrator.refused(spawn(json!({"pool": "g p u"})), ErrorCode::InvalidArgument).await;
    let first = orchestrator.call(spawn(json!({"pool": "gpu"}))).await;
    let item = json!({"agent": "writer", "task": "Do it.", "pool": "gpu"});
    orchestrator.call(json!({"action": "batch", "tasks": [item]})).await;
    orchestrator.call(spawn(json!({}))).await;
    let new = NewWorker { pool: "gpu".to_owned(), ..NewWorker::default() };
    let worker = orchestrator.world.store.register(&new).await.unwrap();
    let claims = worker.claim(5).await.unwrap();
    let numbers: Vec<i32> = claims.iter().map(|claim| claim.assignment.number.0).collect();
    assert_eq!(numbers, [1, 2]);
    for claim in claims {
        claim.lease.complete("done".to_owned(), None).write().await.unwrap();
    }
    // The new task stays in the pool, unless it names another one.
    let continued = |more: Value| {
        let mut arguments =
            json!({"action": "continue", "task_id": first["task_id"], "task": "Go on."});
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        arguments
    };
    orchestrator.call(continued(json!({}))).await;
    orchestrator.call(continued(json!({"pool": "default"}))).await;
    assert_eq!(worker.claim(5).await.unwrap().len(), 1);
    assert_eq!(orchestrator.worker.claim(5).await.unwrap().len(), 2);
}
