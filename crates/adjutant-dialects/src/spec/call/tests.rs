//! Every field of every action: what it takes, and what it does not.

use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use adjutant_agent::{Budget, TaskNumber, WaitMode, Webhook, WebhookEvent};

/// The least that each action needs.
fn least(action: SubagentAction) -> Value {
    match action {
        SubagentAction::ListAgents => json!({"action": "list_agents"}),
        SubagentAction::Define => {
            json!({"action": "define", "name": "a", "description": "A.", "system_prompt": "You are a."})
        }
        SubagentAction::Spawn => json!({"action": "spawn", "agent": "a", "task": "Do it."}),
        SubagentAction::Status => json!({"action": "status", "task_id": "t_01"}),
        SubagentAction::Collect => json!({"action": "collect", "task_id": "t_01"}),
        SubagentAction::Wait => json!({"action": "wait"}),
        SubagentAction::Read => json!({"action": "read", "task_id": "t_01"}),
        SubagentAction::Cancel => json!({"action": "cancel", "task_id": "t_01"}),
        SubagentAction::Continue => {
            json!({"action": "continue", "task_id": "t_01", "task": "Go on."})
        }
        SubagentAction::Batch => {
            json!({"action": "batch", "tasks": [{"agent": "a", "task": "Do it."}]})
        }
    }
}

fn with(action: SubagentAction, field: &str, value: Value) -> Value {
    let mut arguments = least(action);
    arguments[field] = value;
    arguments
}

fn refused(arguments: &Value) -> Refusal {
    match SubagentCall::parse(arguments) {
        Err(refusal) => refusal,
        Ok(call) => panic!("{arguments} was read as {call:?}"),
    }
}

#[track_caller]
fn assert_refused(arguments: &Value, code: ErrorCode, field: &str) {
    let refusal = refused(arguments);
    assert_eq!(refusal.code, code, "{arguments}: {refusal}");
    assert!(refusal.message.starts_with(&format!("{field}: ")), "{arguments}: {refusal}");
}

/// The fields of each action, with what they must be.
const FIELDS: [(SubagentAction, &[(&str, Kind)]); 10] = {
    use Kind::{Flag, Number, Object, Text, Texts, Whole};
    use SubagentAction::*;
    const OPTIONS: [(&str, Kind); 11] = [
        ("queue", Flag),
        ("priority", Whole),
        ("delay_s", Number),
        ("timeout_s", Number),
        ("max_input_tokens", Whole),
        ("max_output_tokens", Whole),
        ("max_cost_usd", Number),
        ("summary_prompt", Text),
        ("label", Text),
        ("metadata", Object),
        ("webhook", Object),
    ];
    const SPAWN: [(&str, Kind); 15] = joined(
        OPTIONS,
        [("agent", Text), ("task", Text), ("depends_on", Texts), ("idempotency_key", Text)],
    );
    const CONTINUE: [(&str, Kind); 14] =
        joined(OPTIONS, [("task_id", Text), ("task", Text), ("idempotency_key", Text)]);
    [
        (ListAgents, &[]),
        (
            Define,
            &[
                ("name", Text),
                ("description", Text),
                ("system_prompt", Text),
                ("extends", Text),
                ("system_prompt_append", Text),
                ("tools", Texts),
                ("model", Text),
                ("max_turns", Whole),
                ("summary_prompt", Text),
                ("timeout_s", Number),
                ("max_input_tokens", Whole),
                ("max_output_tokens", Whole),
                ("max_cost_usd", Number),
                ("on_worker_loss", Text),
                ("may_delegate", Flag),
                ("replace", Flag),
            ],
        ),
        (Spawn, &SPAWN),
        (Status, &[("task_id", Text)]),
        (Collect, &[("task_id", Text), ("idempotency_key", Text)]),
        (Wait, &[("task_ids", Texts), ("mode", Text), ("timeout_s", Number)]),
        (Read, &[("task_id", Text), ("offset", Whole), ("limit", Whole)]),
        (Cancel, &[("task_id", Text)]),
        (Continue, &CONTINUE),
        (Batch, &[("tasks", Kind::Items), ("queue", Flag), ("idempotency_key", Text)]),
    ]
};

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Text,
    Texts,
    Whole,
    Number,
    Flag,
    Object,
    Items,
}

const fn joined<const N: usize, const M: usize, const S: usize>(
    some: [(&'static str, Kind); N],
    more: [(&'static str, Kind); M],
) -> [(&'static str, Kind); S] {
    let mut all = [("", Kind::Text); S];
    let mut at = 0;
    while at < S {
        all[at] = if at < N { some[at] } else { more[at - N] };
        at += 1;
    }
    all
}

#[test]
fn every_action_is_read_with_the_least_that_it_needs() {
    for action in SubagentAction::ALL {
        let call = SubagentCall::parse(&least(*action)).unwrap();
        assert_eq!(call.action(), *action);
    }
    assert_eq!(FIELDS.map(|(action, _)| action), SubagentAction::ALL);
}

#[test]
fn a_field_of_another_type_is_refused_by_its_name() {
    for (action, fields) in FIELDS {
        for (field, kind) in fields {
            for (fits, value) in [
                (kind == &Kind::Text, json!("")),
                (kind == &Kind::Texts || kind == &Kind::Items, json!([])),
                (kind == &Kind::Whole || kind == &Kind::Number, json!(1)),
                (kind == &Kind::Number, json!(1.5)),
                (kind == &Kind::Flag, json!(true)),
                (kind == &Kind::Object, json!({})),
                (false, json!([[1]])),
            ] {
                if !fits {
                    let arguments = with(action, field, value);
                    let refusal = refused(&arguments);
                    assert_eq!(refusal.code, ErrorCode::InvalidArgument, "{arguments}");
                    assert!(refusal.message.starts_with(field), "{arguments}: {refusal}");
                }
            }
            if kind == &Kind::Text {
                let nul = with(action, field, json!("a\0b"));
                let code = if *field == "name" {
                    ErrorCode::InvalidAgentName
                } else {
                    ErrorCode::InvalidArgument
                };
                assert_refused(&nul, code, field);
            }
            if kind == &Kind::Texts {
                let second = format!("{field}[1]");
                assert_refused(
                    &with(action, field, json!(["a", "a\0b"])),
                    ErrorCode::InvalidArgument,
                    &second,
                );
                let refusal = refused(&with(action, field, json!(["a", null])));
                assert_eq!(refusal.code, ErrorCode::InvalidArgument);
                assert!(refusal.message.starts_with(field), "{refusal}");
            }
        }
    }
}

#[test]
fn a_field_of_another_action_is_unknown_unless_it_is_null() {
    for (action, own) in FIELDS {
        let others = FIELDS.iter().flat_map(|(_, fields)| fields.iter().map(|(field, _)| *field));
        for field in others.chain(["colour", "Action", "schnörkel"]) {
            if own.iter().any(|(known, _)| *known == field) {
                continue;
            }
            let refusal = refused(&with(action, field, json!("text")));
            assert_eq!(refusal.message, format!("{field}: is not a field of this action"));
            let call = SubagentCall::parse(&with(action, field, Value::Null));
            assert_eq!(call, SubagentCall::parse(&least(action)), "{field}");
        }
    }
}

#[test]
fn null_is_absent() {
    for (action, fields) in FIELDS {
        for (field, _) in fields {
            let mut absent = least(action);
            absent.as_object_mut().unwrap().remove(*field);
            assert_eq!(
                SubagentCall::parse(&with(action, field, Value::Null)),
                SubagentCall::parse(&absent),
                "{action} {field}"
            );
        }
    }
}

#[test]
fn what_is_required_is_missed_by_name_and_an_empty_one_too() {
    use SubagentAction::{Cancel, Collect, Continue, Read, Spawn, Status};
    for (action, field) in [
        (Spawn, "agent"),
        (Spawn, "task"),
        (Status, "task_id"),
        (Collect, "task_id"),
        (Read, "task_id"),
        (Cancel, "task_id"),
        (Continue, "task_id"),
        (Continue, "task"),
    ] {
        for value in [Value::Null, json!(""), json!(" \n")] {
            assert_refused(&with(action, field, value), ErrorCode::InvalidArgument, field);
        }
    }
    assert_refused(
        &with(SubagentAction::Define, "name", Value::Null),
        ErrorCode::InvalidArgument,
        "name",
    );
    assert_refused(
        &with(SubagentAction::Batch, "tasks", Value::Null),
        ErrorCode::InvalidArgument,
        "tasks",
    );
    for arguments in [json!([]), json!("spawn"), Value::Null] {
        assert_refused(&arguments, ErrorCode::InvalidArgument, "arguments");
    }
    for arguments in
        [json!({}), json!({"action": null}), json!({"action": 1}), json!({"action": "a\0"})]
    {
        assert_refused(&arguments, ErrorCode::InvalidArgument, "action");
    }
}

#[test]
fn an_unknown_action_is_refused_and_the_valid_ones_are_listed() {
    for word in ["", "Spawn", "spawn ", "annihilate", &"x".repeat(10_000)] {
        let refusal = refused(&json!({"action": word, "nonsense": 1}));
        assert_eq!(refusal.code, ErrorCode::InvalidAction);
        assert!(refusal.message.len() < 400, "{refusal}");
        for action in SubagentAction::ALL {
            assert!(refusal.message.contains(action.as_str()), "{refusal}");
        }
    }
}

#[test]
fn a_malformed_name_has_its_own_code() {
    for name in ["", "A", "a b", "a\n", "a\0", "ä", &"x".repeat(65)] {
        assert_refused(
            &with(SubagentAction::Define, "name", json!(name)),
            ErrorCode::InvalidAgentName,
            "name",
        );
    }
    assert!(
        SubagentCall::parse(&with(SubagentAction::Define, "name", json!("x".repeat(64)))).is_ok()
    );
}

#[test]
fn what_is_no_task_id_names_no_task() {
    for id in
        ["t_1", "t_001", "T_01", "t_01 ", "nonsense", "é", "0197a0c0-0000-7000-8000-000000000000"]
    {
        for action in [
            SubagentAction::Status,
            SubagentAction::Collect,
            SubagentAction::Cancel,
            SubagentAction::Read,
        ] {
            let refusal = refused(&with(action, "task_id", json!(id)));
            assert_eq!(refusal.code, ErrorCode::TaskNotFound, "{id}");
        }
        let refusal = refused(&with(SubagentAction::Wait, "task_ids", json!(["t_01", id])));
        assert_eq!(refusal.code, ErrorCode::TaskNotFound, "{id}");
        let refusal = refused(&with(SubagentAction::Spawn, "depends_on", json!([id])));
        assert_eq!(refusal.code, ErrorCode::TaskNotFound, "{id}");
    }
}

#[test]
fn limits_hold_at_the_limit_and_not_one_over() {
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
        assert!(
            SubagentCall::parse(&arguments).is_ok(),
            "{action} {field}: {:?}",
            refused(&arguments)
        );
        assert_refused(&with(action, field, bad), code, field);
    }
}

#[test]
fn a_wait_is_45_seconds_at_most_and_30_unless_told() {
    let wait = |arguments| match SubagentCall::parse(&arguments) {
        Ok(SubagentCall::Wait(call)) => call,
        other => panic!("{other:?}"),
    };
    let plain = wait(least(SubagentAction::Wait));
    assert_eq!(
        plain,
        WaitCall { task_ids: None, mode: WaitMode::Any, timeout: Duration::from_secs(30) }
    );
    for (asked, given) in [
        (json!(0), 0.0),
        (json!(1.5), 1.5),
        (json!(45), 45.0),
        (json!(46), 45.0),
        (json!(1e300), 45.0),
    ] {
        assert_eq!(
            wait(with(SubagentAction::Wait, "timeout_s", asked)).timeout.as_secs_f64(),
            given
        );
    }
    let named = wait(with(SubagentAction::Wait, "task_ids", json!(["t_02", "t_01", "t_02"])));
    assert_eq!(named.task_ids, Some(vec![TaskNumber(1), TaskNumber(2)]));
}

#[test]
fn a_page_is_4000_characters_unless_told_and_20000_at_most() {
    let read = |arguments| match SubagentCall::parse(&arguments) {
        Ok(SubagentCall::Read(call)) => (call.offset, call.limit),
        other => panic!("{other:?}"),
    };
    assert_eq!(read(least(SubagentAction::Read)), (0, 4_000));
    assert_eq!(read(with(SubagentAction::Read, "limit", json!(20_000))), (0, 20_000));
    assert_eq!(read(with(SubagentAction::Read, "limit", json!(20_001))), (0, 20_000));
}

#[test]
fn a_spawn_has_all_that_was_said() {
    let call = SubagentCall::parse(&json!({
        "action": "spawn", "agent": "a", "task": "Do it.", "depends_on": ["t_02", "t_100"], "queue": true, "priority": -3,
        "delay_s": 1.5, "timeout_s": 60, "max_input_tokens": 1, "max_output_tokens": 2, "max_cost_usd": 0.25,
        "summary_prompt": "In short?", "label": "First", "metadata": {"ticket": [1, null]}, "idempotency_key": "k",
        "webhook": {"url": "https://example.com/ended", "events": ["task.failed"]},
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
        summary_prompt: Some("In short?".to_owned()),
        label: Some("First".to_owned()),
        metadata: json!({"ticket": [1, null]}).as_object().unwrap().clone(),
        webhook: Some(Webhook {
            url: "https://example.com/ended".to_owned(),
            events: vec![WebhookEvent::Failed],
        }),
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
    let call = SubagentCall::parse(&json!({"action": "batch", "queue": true, "tasks": [
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

#[test]
fn the_schema_has_every_field_and_no_other() {
    let schema = crate::spec::subagent_tool().input_schema;
    let described: std::collections::BTreeSet<_> =
        schema["properties"].as_object().unwrap().keys().map(String::as_str).collect();
    let read = FIELDS
        .iter()
        .flat_map(|(_, fields)| fields.iter().map(|(field, _)| *field))
        .chain(["action"]);
    assert_eq!(described, read.collect());
    let item = &schema["properties"]["tasks"]["items"]["properties"];
    let described: std::collections::BTreeSet<_> =
        item.as_object().unwrap().keys().map(String::as_str).collect();
    let spawn = FIELDS.iter().find(|(action, _)| *action == SubagentAction::Spawn).unwrap().1;
    let read = spawn.iter().map(|(field, _)| *field).filter(|field| *field != "idempotency_key");
    assert_eq!(described, read.chain(["name"]).collect());
}
