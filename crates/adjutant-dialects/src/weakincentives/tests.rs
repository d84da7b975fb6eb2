use adjutant_agent::{
    AgentConfig, Depth, EndedTask, FailureKind, Outcome, Refusal, Spent, TaskNumber,
};
use serde_json::json;

use super::answers::*;
use super::call::*;
use super::snapshot::SnapshotKey;
use super::*;
use crate::task_handle::tests::arguments_in;

fn with(field: &str, value: Value) -> Value {
    let mut arguments = json!({
        "mode": "ad_hoc", "prompt_ns": "research", "prompt_key": "logs", "instructions": "Read the logs.",
    });
    arguments[field] = value;
    arguments
}

#[track_caller]
fn granted(arguments: &Value) -> Dispatch {
    match Call::parse(arguments) {
        Ok(Call::New(new)) => *new,
        other => panic!("{arguments}: {other:?}"),
    }
}

#[track_caller]
fn refused_for(arguments: &Value, field: &str) {
    let refusal = Call::parse(arguments).expect_err(field);
    assert!(refusal.message.starts_with(&format!("{field}: ")), "{arguments}: {refusal}");
}

#[test]
fn row_4_1_a_call_has_four_fields_that_are_needed_and_three_that_are_not() {
    let plain = granted(&with("plan_step_id", Value::Null));
    assert_eq!((plain.mode, plain.agent().as_str()), (Mode::AdHoc, "research--logs"));
    assert_eq!((plain.expected_artifacts, plain.plan_step_id), (vec![], None));
    for field in ["mode", "prompt_ns", "prompt_key", "instructions"] {
        for missing in
            [Value::Null, json!(""), json!(" "), json!(7), json!(["x"]), json!({}), json!("a\0b")]
        {
            refused_for(&with(field, missing), field);
        }
    }
    refused_for(&with("mode", json!("Ad_Hoc")), "mode");
    for wrong in [json!(1), json!({}), json!("a"), json!([1])] {
        assert!(Call::parse(&with("expected_artifacts", wrong)).is_err());
    }
    refused_for(&with("plan_step_id", json!(3)), "plan_step_id");
    refused_for(&with("snapshot_version", json!(1)), "snapshot_version");
    refused_for(&with("task_id", json!(7)), "task_id");
    refused_for(&with("model", json!("main")), "model");
    for none in [json!(null), json!([]), json!("call")] {
        assert!(Call::parse(&none).is_err());
    }
}

#[test]
fn row_4_2_instructions_are_trimmed_and_have_1_to_2000_ascii_characters() {
    let text = |length: usize| json!(format!(" \n{}\t ", "x".repeat(length)));
    for length in [1, 2_000] {
        assert_eq!(granted(&with("instructions", text(length))).instructions, "x".repeat(length));
    }
    for wrong in [text(0), text(2_001), json!("naïve"), json!("\u{2014}")] {
        refused_for(&with("instructions", wrong), "instructions");
    }
}

#[test]
fn row_4_3_an_artifact_has_1_to_160_ascii_characters() {
    let labels = json!([" report.md ", "x", "y".repeat(160)]);
    let new = granted(&with("expected_artifacts", labels));
    assert_eq!(new.expected_artifacts, ["report.md".to_owned(), "x".to_owned(), "y".repeat(160)]);
    for wrong in [json!(""), json!("  "), json!("y".repeat(161)), json!("é"), json!(1), Value::Null]
    {
        refused_for(&with("expected_artifacts", json!(["fine", wrong])), "expected_artifacts[1]");
    }
    assert_eq!(
        granted(&with("expected_artifacts", json!(vec!["x"; 100]))).expected_artifacts.len(),
        100
    );
    refused_for(&with("expected_artifacts", json!(vec!["x"; 101])), "expected_artifacts");
}

#[test]
fn row_4_4_a_step_of_a_plan_needs_its_id() {
    let mut arguments = with("mode", json!("plan_step"));
    refused_for(&arguments, "plan_step_id");
    for (step, kept) in [(json!("3"), "3".to_owned()), (json!("x".repeat(200)), "x".repeat(200))] {
        arguments["plan_step_id"] = step;
        assert_eq!(granted(&arguments).plan_step_id, Some(kept));
    }
    for wrong in [json!(" "), json!("é"), json!("x".repeat(201))] {
        arguments["plan_step_id"] = wrong;
        refused_for(&arguments, "plan_step_id");
    }
    assert_eq!(
        granted(&with("plan_step_id", json!("3"))).plan_step_id,
        None,
        "it is for steps of plans"
    );
}

#[test]
fn row_4_6_a_snapshot_of_another_version_is_refused() {
    for compatible in [Value::Null, json!(SNAPSHOT_VERSION)] {
        granted(&with("snapshot_version", compatible));
    }
    for other in ["", "0", "2", "1 ", "1.0"] {
        refused_for(&with("snapshot_version", json!(other)), "snapshot_version");
    }
}

#[test]
fn a_call_that_waits_again_needs_only_the_task_id() {
    assert_eq!(Call::parse(&json!({"task_id": "t_07"})), Ok(Call::WaitAgain(TaskNumber(7))));
    assert_eq!(Call::parse(&with("task_id", json!("t_07"))), Ok(Call::WaitAgain(TaskNumber(7))));
}

#[test]
fn the_prompt_of_a_child_has_its_step_its_snapshot_and_its_deliverables() {
    let mut arguments = with("mode", json!("plan_step"));
    arguments["plan_step_id"] = json!("step-3");
    arguments["expected_artifacts"] = json!(["report.md", "notes.txt"]);
    let agent = AgentConfig {
        system_prompt: "You read.\n".to_owned(),
        tools: vec!["own".to_owned()],
        ..AgentConfig::default()
    };
    let key = |key: &str, tokens| SnapshotKey { key: key.to_owned(), value_size_tokens: tokens };
    let snapshot =
        SnapshotSummary { keys: vec![key("plan", 12), key("scope", 3)], total_size_tokens: 15 };
    let config = granted(&arguments).agent_config(
        agent,
        vec!["fetch".to_owned()],
        "main".to_owned(),
        &snapshot,
    );
    let prompt = &config.system_prompt;
    assert!(prompt.starts_with("You read.\n\nYou work on step step-3 of a plan.\n\n"), "{prompt}");
    assert!(
        prompt.contains("a snapshot (version 1)") && prompt.contains("- report.md\n- notes.txt\n"),
        "{prompt}"
    );
    let summary =
        "Its keys are 2, with 15 tokens in total:\n- plan (12 tokens)\n- scope (3 tokens)\n";
    assert!(prompt.contains(summary), "{prompt}");
    assert!(config.private_context, "findings belong into its answer");
    assert_eq!((config.tools, config.model.as_str()), (vec!["fetch".to_owned()], "main"));
}

#[test]
fn a_summary_of_a_snapshot_is_bounded() {
    assert_eq!(SnapshotSummary::default().to_string(), "It has no keys.");
    let key = |n| SnapshotKey { key: format!("k{n}"), value_size_tokens: 1 };
    let many = SnapshotSummary { keys: (0..53).map(key).collect(), total_size_tokens: 53 };
    assert!(many.to_string().ends_with("\n- k49 (1 tokens)\n(3 more)"), "{many}");
}

fn task(outcome: Outcome) -> EndedTask {
    EndedTask {
        number: TaskNumber(1),
        agent: "research--logs".to_owned(),
        label: None,
        depth: Depth::TOP,
        metadata: granted(&with("plan_step_id", Value::Null)).metadata(),
        outcome,
        turns_used: 1,
        answers: 1,
        spent: Spent::default(),
    }
}

#[test]
fn row_4_9_the_message_is_the_summary() {
    let result = "All is well.\n\nArtifacts:\n- report.md".to_owned();
    let done = ended(
        &task(Outcome::Completed { result: result.clone(), summary: None }),
        &["fetch".to_owned()],
    );
    let expected = json!({
        "success": true, "message": "All is well.", "prompt_ns": "research", "prompt_key": "logs",
        "message_summary": "All is well.", "artifacts": ["report.md"], "tools_used": ["fetch"],
    });
    assert_eq!(done, Answer { value: expected, ..Answer::plain("All is well.") });
    let summary = Some("Well.".to_owned());
    let summed_up = ended(&task(Outcome::Completed { result, summary }), &[]);
    assert_eq!(
        (&summed_up.value["message_summary"], summed_up.text.as_str()),
        (&json!("Well."), "Well.")
    );
    assert_eq!(summed_up.value["artifacts"], json!(["report.md"]));
}

#[test]
fn row_4_10_a_failure_is_a_message_without_a_result() {
    let failed = Outcome::Failed {
        failure: FailureKind::Model,
        error: "Model API error: 500".to_owned(),
        partial_result: Some("half".to_owned()),
    };
    for (outcome, message) in [
        (failed, "Subagent execution failed: Model API error: 500"),
        (Outcome::Cancelled { partial_result: None }, "Subagent execution failed: Task cancelled"),
    ] {
        let answer = ended(&task(outcome), &["fetch".to_owned()]);
        let value = json!({"success": false, "error": "DispatchSubagentError", "message": message});
        assert_eq!(answer, Answer { value, ..Answer::plain(message) }.as_error());
    }
    let refusal = Refusal::invalid("mode", "is required");
    let value =
        json!({"success": false, "error": "ToolValidationError", "message": "mode: is required"});
    assert_eq!(
        invalid(&refusal),
        Answer { value, ..Answer::plain("mode: is required") }.as_error()
    );
}

#[test]
fn the_words_of_a_handle_are_a_call_that_the_schema_allows_and_that_waits_again() {
    let answer = still_running(TaskNumber(7), "research--logs");
    let arguments = arguments_in(&answer.text, &tool::tool());
    assert_eq!(Call::parse(&arguments), Ok(Call::WaitAgain(TaskNumber(7))));
    assert_eq!(
        (&arguments["prompt_ns"], &arguments["prompt_key"]),
        (&json!("research"), &json!("logs"))
    );
}
