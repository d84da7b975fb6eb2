use serde_json::{Value, json};

use super::xzatoma::{self, Event, Quota, Settings, Wrong};
use super::{DELEGATION_TOOLS, EndedTask, caliban};
use crate::{FailureKind, Outcome, Spent, TaskNumber};

fn ended(outcome: Outcome) -> EndedTask {
    EndedTask {
        number: TaskNumber(1),
        agent: "subagent".to_owned(),
        label: Some("look".to_owned()),
        depth: 1,
        metadata: serde_json::Map::new(),
        outcome,
        turns_used: 3,
        answers: 5,
        spent: Spent { input_tokens: 100, output_tokens: 20, cost_nanousd: 0 },
    }
}

#[test]
fn row_3_7_who_is_as_deep_as_allowed_is_told_so_in_the_sources_words() {
    for (current, most) in [(0, 1), (2, 3), (9, 10)] {
        assert_eq!(xzatoma::check_depth(current, most), Ok(()));
    }
    let said =
        "Maximum subagent recursion depth (3) exceeded. Current depth: 3. Cannot spawn nested subagent.";
    assert_eq!(xzatoma::check_depth(3, 3), Err(Wrong(said.to_owned())));
    assert!(xzatoma::check_depth(4, 3).is_err());
    assert!(xzatoma::check_depth(1, 1).is_err());
}

#[test]
fn a_subagent_of_a_subagent_says_how_deep_it_is() {
    let task = ended(Outcome::Completed { result: "all".to_owned(), summary: None });
    let metadata = xzatoma::ended(&task, &Settings::default()).value["metadata"].clone();
    assert_eq!((&metadata["recursion_depth"], &metadata["turns_used"]), (&json!("2"), &json!("3")));
}

#[test]
fn what_ends_is_told_once_and_by_its_kind() {
    let events = |outcome| xzatoma::of_end(&ended(outcome), 8, &Settings::default().telemetry().unwrap());
    let complete = |status| Event::Complete { depth: 2, turns_used: 3, tokens_consumed: 120, status };
    let long = "x".repeat(4_097);
    assert_eq!(
        events(Outcome::Completed { result: long, summary: Some("short".to_owned()) }),
        [complete("complete")],
        "what is not shown is not cut"
    );
    let out_of_turns =
        Outcome::Failed { failure: FailureKind::MaxTurns, error: "x".to_owned(), partial_result: None };
    assert_eq!(
        events(out_of_turns),
        [Event::MaxTurnsExceeded { depth: 2, max_turns: 8 }, complete("incomplete")]
    );
    let failed =
        Outcome::Failed { failure: FailureKind::Model, error: "secret".to_owned(), partial_result: None };
    assert_eq!(events(failed), [Event::Error { depth: 2, error: "model" }]);
    assert_eq!(
        events(Outcome::Cancelled { partial_result: None }),
        [Event::Error { depth: 2, error: "cancelled" }]
    );
}

#[test]
fn a_quota_of_tokens_is_exceeded_from_one_more_on() {
    let quota = Quota { max_total_tokens: Some(100), ..Quota::default() };
    assert_eq!(quota.check_tokens(100), Ok(()));
    assert!(quota.check_tokens(101).is_err());
    assert_eq!(Quota::default().check_tokens(i64::MAX), Ok(()));
    assert_eq!((Quota::default().if_any(), quota.if_any()), (None, Some(quota)));
}

#[test]
fn every_tool_of_every_dialect_that_delegates_is_known_as_one() {
    for tool in [caliban::tool(), xzatoma::tool(), crate::subagent_tool()] {
        assert!(DELEGATION_TOOLS.contains(&tool.name.as_str()), "{}", tool.name);
    }
}

/// What schemas say and what is read are the same fields.
#[test]
fn every_field_of_a_schema_is_read_and_null_is_absent() {
    for (tool, call) in [
        (caliban::tool(), json!({"prompt": "x"})),
        (xzatoma::tool(), json!({"label": "x", "task_prompt": "x"})),
    ] {
        let mut arguments = call;
        for field in tool.input_schema["properties"].as_object().unwrap().keys() {
            if arguments.get(field).is_none() {
                arguments[field] = Value::Null;
            }
        }
        let is_read = match tool.name.as_str() {
            caliban::AGENT_TOOL => caliban::Call::parse(&arguments).is_ok(),
            _ => xzatoma::Call::parse(&arguments).is_ok(),
        };
        assert!(is_read, "{arguments}");
    }
}
