use serde_json::{Value, json};

use super::{Call, answers, tool};
use crate::task_handle::tests::arguments_in;
use adjutant_agent::TaskNumber;

/// The schema and the parser have the same fields.
#[test]
fn every_field_of_the_schema_is_read_and_null_is_absent() {
    let mut arguments = json!({"prompt": "x"});
    for field in tool::tool().input_schema["properties"].as_object().unwrap().keys() {
        if arguments.get(field).is_none() {
            arguments[field] = Value::Null;
        }
    }
    assert!(Call::parse(&arguments).is_ok(), "{arguments}");
}

#[test]
fn the_words_of_a_handle_are_a_call_that_the_schema_allows_and_that_waits_again() {
    let answer = answers::still_running(TaskNumber(7));
    let arguments = arguments_in(&answer.text, &tool::tool());
    assert_eq!(Call::parse(&arguments), Ok(Call::WaitAgain(TaskNumber(7))));
}
