//! The values of fields: limits and defaults.

use std::time::Duration;

use super::*;

#[test]
fn values_at_a_limit_are_accepted_and_values_above_it_refused() {
    use ErrorCode::{InvalidArgument, PromptTooLarge, TaskTooLarge};
    use SubagentAction::{Batch, Collect, Continue, Read, Spawn, Wait};
    let chars = |count| json!("é".repeat(count));
    let ids = |count| json!(vec!["t_01"; count]);
    let items = |count| json!(vec![json!({"agent": "a", "task": "x"}); count]);
    // `{"a":""}` is 8 bytes, and é two.
    let metadata = |letters: usize| json!({"a": "é".repeat(letters)});
    for (action, field, good, bad, code) in [
        (Spawn, "task", chars(4_003), chars(4_004), TaskTooLarge),
        (Continue, "task", chars(4_003), chars(4_004), TaskTooLarge),
        (Spawn, "summary_prompt", chars(16_003), chars(16_004), PromptTooLarge),
        (Spawn, "label", chars(200), chars(201), InvalidArgument),
        (Spawn, "label", chars(1), chars(0), InvalidArgument),
        (Spawn, "metadata", metadata(8_188), metadata(8_189), InvalidArgument),
        (Spawn, "idempotency_key", chars(300), chars(301), InvalidArgument),
        (Spawn, "idempotency_key", chars(1), chars(0), InvalidArgument),
        (Collect, "idempotency_key", chars(300), chars(301), InvalidArgument),
        (Spawn, "depends_on", ids(100), ids(101), InvalidArgument),
        (Spawn, "priority", json!(100), json!(101), InvalidArgument),
        (Spawn, "priority", json!(-100), json!(-101), InvalidArgument),
        (Spawn, "priority", json!(0), json!(70_000), InvalidArgument),
        (Spawn, "pool", json!("x".repeat(64)), json!("x".repeat(65)), InvalidArgument),
        (Spawn, "pool", json!("GPU-large_2.b"), json!("a b"), InvalidArgument),
        (Continue, "pool", json!("gpu"), json!(""), InvalidArgument),
        (Spawn, "delay_s", json!(0), json!(-0.5), InvalidArgument),
        (Spawn, "delay_s", json!(31_622_400), json!(31_622_400.5), InvalidArgument),
        (Spawn, "timeout_s", json!(0.001), json!(0), InvalidArgument),
        (Spawn, "timeout_s", json!(31_622_400), json!(1e300), InvalidArgument),
        (Spawn, "max_input_tokens", json!(0), json!(-1), InvalidArgument),
        (Spawn, "max_output_tokens", json!(i64::MAX), json!(u64::MAX), InvalidArgument),
        (Spawn, "max_cost_usd", json!(0), json!(-0.01), InvalidArgument),
        (Spawn, "max_cost_usd", json!(9e9), json!(1e10), InvalidArgument),
        (Wait, "task_ids", ids(100), ids(101), InvalidArgument),
        (Wait, "task_ids", ids(1), ids(0), InvalidArgument),
        (Wait, "mode", json!("all"), json!("some"), InvalidArgument),
        (Wait, "timeout_s", json!(0), json!(-1), InvalidArgument),
        (Read, "offset", json!(i64::MAX), json!(-1), InvalidArgument),
        (Read, "limit", json!(1), json!(0), InvalidArgument),
        (Batch, "tasks", items(100), items(101), InvalidArgument),
        (Batch, "tasks", items(1), items(0), InvalidArgument),
    ] {
        let arguments = with(action, field, good);
        assert!(parse(&arguments).is_ok(), "{action} {field}: {:?}", refused(&arguments));
        assert_refused(&with(action, field, bad), code, field);
    }
}

#[test]
fn a_wait_is_30_seconds_by_default_and_45_at_most() {
    let wait = |arguments| match parse(&arguments) {
        Ok(SubagentCall::Wait(call)) => call,
        other => panic!("{other:?}"),
    };
    let plain = wait(least(SubagentAction::Wait));
    assert_eq!(
        plain,
        WaitCall { task_ids: None, mode: WaitMode::Any, timeout: Duration::from_secs(30) }
    );
    for (requested, given) in [
        (json!(0), 0.0),
        (json!(1.5), 1.5),
        (json!(45), 45.0),
        (json!(46), 45.0),
        (json!(1e300), 45.0),
    ] {
        assert_eq!(
            wait(with(SubagentAction::Wait, "timeout_s", requested)).timeout.as_secs_f64(),
            given
        );
    }
    let named = wait(with(SubagentAction::Wait, "task_ids", json!(["t_02", "t_01", "t_02"])));
    assert_eq!(named.task_ids, Some(vec![TaskNumber(1), TaskNumber(2)]));
}

#[test]
fn a_page_is_4000_characters_by_default_and_20000_at_most() {
    let read = |arguments| match parse(&arguments) {
        Ok(SubagentCall::Read(call)) => (call.offset, call.limit),
        other => panic!("{other:?}"),
    };
    assert_eq!(read(least(SubagentAction::Read)), (0, 4_000));
    assert_eq!(read(with(SubagentAction::Read, "limit", json!(20_000))), (0, 20_000));
    assert_eq!(read(with(SubagentAction::Read, "limit", json!(20_001))), (0, 20_000));
}

#[test]
fn a_spawn_has_every_given_field() {
    let call = parse(&json!({
        "action": "spawn", "agent": "a", "task": "Do it.", "depends_on": ["t_02", "t_100"], "queue": true, "priority": -3,
        "delay_s": 1.5, "timeout_s": 60, "max_input_tokens": 1, "max_output_tokens": 2, "max_cost_usd": 0.25, "on_budget": "pause",
        "summary_prompt": "In short?", "label": "First", "metadata": {"ticket": [1, null]}, "idempotency_key": "k",
        "webhook": {"url": "https://example.com/ended", "events": ["task.failed"]}, "pool": "gpu",
    }));
    let options = TaskOptions {
        queue: true,
        priority: -3,
        delay: Some(Duration::from_millis(1_500)),
        timeout_s: Some(60.0),
        budget: Budget {
            max_input_tokens: Some(1),
            max_output_tokens: Some(2),
            max_cost_nanousd: Some(250_000_000),
        },
        on_budget: Some(OnBudget::Pause),
        summary_prompt: Some("In short?".to_owned()),
        label: Some("First".to_owned()),
        metadata: json!({"ticket": [1, null]}).as_object().unwrap().clone(),
        webhook: Some(Webhook {
            url: "https://example.com/ended".to_owned(),
            events: vec![WebhookEvent::Failed],
        }),
        pool: Some("gpu".to_owned()),
    };
    let spawn = SpawnCall {
        agent: "a".to_owned(),
        task: "Do it.".to_owned(),
        depends_on: vec![TaskNumber(2), TaskNumber(100)],
        options,
        idempotency_key: Some("k".to_owned()),
    };
    assert_eq!(call, Ok(SubagentCall::Spawn(Box::new(spawn))));
}

#[test]
fn tasks_of_a_batch_depend_on_each_other_by_name() {
    let call = parse(&json!({"action": "batch", "queue": true, "tasks": [
        {"agent": "writer", "task": "Write.", "depends_on": ["look", "t_07"]},
        {"name": "look", "agent": "researcher", "task": "Look.", "queue": null},
    ]}));
    let Ok(SubagentCall::Batch(batch)) = call else { panic!("{call:?}") };
    assert_eq!(
        batch.tasks[0].depends_on,
        [ItemDependency::Item(1), ItemDependency::Task(TaskNumber(7))]
    );
    assert!(batch.tasks.iter().all(|task| task.options.queue), "the batch's word counts for all");

    let with_item = |field: &str, value: Value| {
        let mut item = json!({"name": "b", "agent": "a", "task": "x"});
        item[field.trim_end_matches("[0]")] = value;
        refused(
            &json!({"action": "batch", "tasks": [{"name": "a", "agent": "a", "task": "x"}, item]}),
        )
    };
    for (field, value, code) in [
        ("name", json!("a"), ErrorCode::InvalidArgument),
        ("name", json!("t_01"), ErrorCode::InvalidArgument),
        ("name", json!("B"), ErrorCode::InvalidArgument),
        ("name", json!(""), ErrorCode::InvalidArgument),
        ("agent", json!(""), ErrorCode::InvalidArgument),
        ("task", Value::Null, ErrorCode::InvalidArgument),
        ("task", json!("x".repeat(4_004)), ErrorCode::TaskTooLarge),
        ("depends_on[0]", json!(["nobody"]), ErrorCode::TaskNotFound),
        ("depends_on", json!("a"), ErrorCode::InvalidArgument),
        ("idempotency_key", json!("k"), ErrorCode::InvalidArgument),
        ("webhook", json!("https://example.com"), ErrorCode::InvalidArgument),
        ("colour", json!("red"), ErrorCode::InvalidArgument),
    ] {
        let refusal = with_item(field, value);
        assert_eq!(refusal.code, code, "{refusal}");
        assert!(refusal.message.starts_with(&format!("tasks[1].{field}: ")), "{refusal}");
    }
    let refusal = refused(&json!({"action": "batch", "tasks": [1]}));
    assert_eq!(refusal.message, "tasks[0]: must be an object");
}
