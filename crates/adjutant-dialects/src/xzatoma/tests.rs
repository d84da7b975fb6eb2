use adjutant_agent::{Depth, EndedTask, FailureKind, Outcome, Spent, TaskNumber};
use adjutant_store::Quota;
use serde::Deserialize;
use serde_json::{Value, json};

use super::events::{Event, of_end};
use super::telemetry::Telemetry;
use super::{Call, Settings, answers, tool};
use crate::task_handle::tests::arguments_in;

fn ended(outcome: Outcome) -> EndedTask {
    EndedTask {
        number: TaskNumber(1),
        agent: "subagent".to_owned(),
        label: Some("look".to_owned()),
        depth: Depth(2),
        metadata: serde_json::Map::new(),
        outcome,
        turns_used: 3,
        answers: 5,
        spent: Spent { input_tokens: 100, output_tokens: 20, cost_nanousd: 0 },
    }
}

#[test]
fn a_nested_subagent_reports_its_depth() {
    let task = ended(Outcome::Completed { result: "all".to_owned(), summary: None });
    let metadata = answers::ended(&task, &Settings::default()).value["metadata"].clone();
    assert_eq!((&metadata["recursion_depth"], &metadata["turns_used"]), (&json!("2"), &json!("3")));
}

#[test]
fn the_end_of_a_subagent_is_one_event_by_its_kind() {
    let events = |outcome| {
        let telemetry = Settings::default().telemetry().unwrap();
        of_end(&ended(outcome), 8, &Telemetry::deserialize(telemetry).unwrap())
    };
    let complete =
        |status| Event::Complete { depth: Depth(2), turns_used: 3, tokens_consumed: 120, status };
    let long = "x".repeat(4_097);
    assert_eq!(
        events(Outcome::Completed { result: long, summary: Some("short".to_owned()) }),
        [complete("complete")],
        "what is not shown is not cut"
    );
    let out_of_turns = Outcome::Failed {
        failure: FailureKind::MaxTurns,
        error: "x".to_owned(),
        partial_result: None,
    };
    assert_eq!(
        events(out_of_turns),
        [Event::MaxTurnsExceeded { depth: Depth(2), max_turns: 8 }, complete("incomplete")]
    );
    let failed = Outcome::Failed {
        failure: FailureKind::Model,
        error: "secret".to_owned(),
        partial_result: None,
    };
    assert_eq!(events(failed), [Event::Error { depth: Depth(2), error: "model" }]);
    assert_eq!(
        events(Outcome::Cancelled { partial_result: None }),
        [Event::Error { depth: Depth(2), error: "cancelled" }]
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

/// The schema and the parser have the same fields.
#[test]
fn every_field_of_the_schema_is_read_and_null_is_absent() {
    let mut arguments = json!({"label": "x", "task_prompt": "x"});
    for field in tool::tool().input_schema["properties"].as_object().unwrap().keys() {
        if arguments.get(field).is_none() {
            arguments[field] = Value::Null;
        }
    }
    assert!(Call::parse(&arguments).is_ok(), "{arguments}");
}

#[test]
fn the_words_of_a_handle_are_a_call_that_the_schema_allows_and_that_waits_again() {
    for label in [None, Some("look")] {
        let answer = answers::still_running(TaskNumber(7), label);
        let output = answer.value["output"].as_str().unwrap();
        let arguments = arguments_in(output, &tool::tool());
        assert_eq!(Call::parse(&arguments), Ok(Call::WaitAgain(TaskNumber(7))));
    }
}
