//! Every field of every action: what it takes, and what it does not.

mod values;

use serde_json::{Value, json};

use super::*;
use adjutant_agent::{Budget, OnBudget, TaskNumber, TextLimits, WaitMode, Webhook, WebhookEvent};

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
        SubagentAction::Raise => {
            json!({"action": "raise", "task_id": "t_01", "max_cost_usd": 2})
        }
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

fn parse(arguments: &Value) -> Result<SubagentCall, Refusal> {
    SubagentCall::parse(arguments, &TextLimits::DEFAULT)
}

fn refused(arguments: &Value) -> Refusal {
    match parse(arguments) {
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
const FIELDS: [(SubagentAction, &[(&str, Kind)]); 11] = {
    use Kind::{Flag, Number, Object, Text, Texts, Whole};
    use SubagentAction::*;
    const OPTIONS: [(&str, Kind); 13] = [
        ("queue", Flag),
        ("priority", Whole),
        ("delay_s", Number),
        ("timeout_s", Number),
        ("max_input_tokens", Whole),
        ("max_output_tokens", Whole),
        ("max_cost_usd", Number),
        ("on_budget", Text),
        ("summary_prompt", Text),
        ("label", Text),
        ("metadata", Object),
        ("webhook", Object),
        ("pool", Text),
    ];
    const SPAWN: [(&str, Kind); 17] = joined(
        OPTIONS,
        [("agent", Text), ("task", Text), ("depends_on", Texts), ("idempotency_key", Text)],
    );
    const CONTINUE: [(&str, Kind); 16] =
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
                ("on_budget", Text),
                ("on_worker_loss", Text),
                ("extra_body", Object),
                ("compaction", Text),
                ("may_delegate", Flag),
                ("missing_tools", Text),
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
        (
            Raise,
            &[
                ("task_id", Text),
                ("max_input_tokens", Whole),
                ("max_output_tokens", Whole),
                ("max_cost_usd", Number),
            ],
        ),
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
fn every_action_is_parsed_with_its_required_fields_only() {
    for action in SubagentAction::ALL {
        let call = parse(&least(*action)).unwrap();
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
            let said = format!("{field}: is not a field of this action, whose fields are: ");
            assert!(refusal.message.starts_with(&said), "{refusal}");
            let call = parse(&with(action, field, Value::Null));
            assert_eq!(call, parse(&least(action)), "{field}");
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
                parse(&with(action, field, Value::Null)),
                parse(&absent),
                "{action} {field}"
            );
        }
    }
}

#[test]
fn a_missing_or_empty_required_field_is_refused_by_its_name() {
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
    assert_refused(
        &with(SubagentAction::Raise, "max_cost_usd", Value::Null),
        ErrorCode::InvalidArgument,
        "max_cost_usd",
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
    assert!(parse(&with(SubagentAction::Define, "name", json!("x".repeat(64)))).is_ok());
}

#[test]
fn a_text_that_is_no_task_id_names_no_task() {
    for id in
        ["t_1", "t_001", "T_01", "t_01 ", "nonsense", "é", "0197a0c0-0000-7000-8000-000000000000"]
    {
        for action in [
            SubagentAction::Status,
            SubagentAction::Collect,
            SubagentAction::Cancel,
            SubagentAction::Raise,
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
fn the_schema_has_every_field_and_no_other() {
    let schema = crate::spec::subagent_tool(&TextLimits::DEFAULT).input_schema;
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
