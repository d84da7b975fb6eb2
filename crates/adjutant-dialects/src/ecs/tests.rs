use std::time::Duration;

use adjutant_agent::{ErrorCode, FailureKind, Refusal, TaskId, TaskNumber, TaskState};
use serde_json::{Value, json};
use uuid::Uuid;

use super::call::{Delegation, ReadMethod, form};
use super::lists::*;
use super::record::*;
use super::tools::tools;
use super::*;

fn parse(tool: &str, arguments: Value) -> Result<Call, Refusal> {
    Call::parse(tool, &arguments)
}

fn record(lifecycle: Lifecycle) -> Record {
    Record {
        id: TaskId(Uuid::from_u128(0x0123_4567_89ab_7def_8123_4567_89ab_cdef)),
        number: TaskNumber(7),
        category: "researcher".to_owned(),
        lifecycle,
        queue_position: None,
        timeout_s: None,
        result: (lifecycle == Lifecycle::Succeeded).then(|| "Found it.".to_owned()),
        summary: None,
        error: None,
        not_resumed: false,
    }
}

#[test]
fn row_2_2_the_sources_own_call_is_read_as_written() {
    let call = parse(
        "subagent",
        json!({"category": "researcher", "prompt": "Explain quantum entanglement", "load_skills": ["web_search"],
            "background": true, "timeout": 30.0}),
    );
    let expected = Delegation {
        category: "researcher".to_owned(),
        prompt: "Explain quantum entanglement".to_owned(),
        load_skills: vec!["web_search".to_owned()],
        background: true,
        timeout_s: Some(30.0),
    };
    assert_eq!(call, Ok(Call::Subagent(expected)));
    let least =
        parse("subagent", json!({"category": "a", "prompt": "b", "timeout": null, "stream": true}));
    let Ok(Call::Subagent(least)) = least else { panic!("{least:?}") };
    assert_eq!((least.background, least.timeout_s, least.load_skills), (false, None, Vec::new()));
}

#[test]
fn row_2_30_an_invalid_field_is_refused_by_its_name() {
    let sessions: Vec<String> = (0..=100).map(|number| format!("t_{number}")).collect();
    for (tool, arguments, field) in [
        ("subagent", json!([]), "arguments"),
        ("subagent", json!({"prompt": "x"}), "category"),
        ("subagent", json!({"category": " ", "prompt": "x"}), "category"),
        ("subagent", json!({"category": 1, "prompt": "x"}), "category"),
        ("subagent", json!({"category": "a"}), "prompt"),
        ("subagent", json!({"category": "a", "prompt": ""}), "prompt"),
        ("subagent", json!({"category": "a", "prompt": "a\0"}), "prompt"),
        ("subagent", json!({"category": "a", "prompt": "x", "load_skills": "sql"}), "load_skills"),
        ("subagent", json!({"category": "a", "prompt": "x", "load_skills": [1]}), "load_skills[0]"),
        (
            "subagent",
            json!({"category": "a", "prompt": "x", "load_skills": sessions}),
            "load_skills",
        ),
        ("subagent", json!({"category": "a", "prompt": "x", "background": "yes"}), "background"),
        ("subagent", json!({"category": "a", "prompt": "x", "timeout": 0}), "timeout"),
        ("subagent", json!({"category": "a", "prompt": "x", "timeout": -1}), "timeout"),
        ("subagent", json!({"category": "a", "prompt": "x", "timeout": "30"}), "timeout"),
        ("subagent", json!({"category": "a", "prompt": "x", "timeout": 1e12}), "timeout"),
        ("subagent", json!({"category": "a", "prompt": "x", "stream": 1}), "stream"),
        ("subagent", json!({"category": "a", "prompt": "x", "task": "y"}), "task"),
        ("subagent_status", json!({"session_id": 7}), "session_id"),
        ("subagent_status", json!({"timeout": 7}), "timeout"),
        ("subagent_result", json!({}), "session_id"),
        ("subagent_result", json!({"session_id": ""}), "session_id"),
        ("subagent_result", json!({"session_id": "t_01", "read_method": 1}), "read_method"),
        ("subagent_result", json!({"session_id": "t_01", "timeout": -0.5}), "timeout"),
        ("subagent_result", json!({"session_id": "t_01", "timeout": 1e300}), "timeout"),
        ("subagent_wait", json!({"session_ids": "t_01"}), "session_ids"),
        ("subagent_wait", json!({"session_ids": []}), "session_ids"),
        ("subagent_wait", json!({"session_ids": ["t_01", null]}), "session_ids[1]"),
        ("subagent_wait", json!({"session_ids": sessions}), "session_ids"),
        ("subagent_wait", json!({"timeout": "1"}), "timeout"),
        ("subagent_cancel", json!({}), "session_id"),
        ("subagent_cancel", json!({"session_id": "t_01", "force": true}), "force"),
    ] {
        let refusal = parse(tool, arguments.clone()).unwrap_err();
        assert_eq!(refusal.code, ErrorCode::InvalidArgument, "{tool} {arguments}");
        assert!(
            refusal.message.starts_with(&format!("{field}: ")),
            "{tool} {arguments}: {refusal}"
        );
    }
}

#[test]
fn the_schemas_have_every_field_and_no_other() {
    for tool in tools() {
        let form = form(&tool.name);
        let mut known: Vec<&str> = form.required.iter().chain(form.optional).copied().collect();
        known.sort_unstable();
        let properties = tool.input_schema["properties"].as_object().unwrap();
        let mut shown: Vec<&str> = properties.keys().map(String::as_str).collect();
        shown.sort_unstable();
        assert_eq!(shown, known, "{}", tool.name);
        assert_eq!(tool.input_schema["required"], json!(form.required), "{}", tool.name);
    }
}

#[test]
fn row_g_map_states_have_the_words_of_the_source() {
    for (state, failure, attempt, word) in [
        (TaskState::Queued, None, 0, "queued"),
        (TaskState::Waiting, None, 0, "queued"),
        (TaskState::Queued, None, 1, "running"),
        (TaskState::Waiting, None, 2, "running"),
        (TaskState::Running, None, 1, "running"),
        (TaskState::Completed, None, 1, "succeeded"),
        (TaskState::Failed, Some(FailureKind::Timeout), 1, "timed_out"),
        (TaskState::Failed, Some(FailureKind::MaxTurns), 1, "failed"),
        (TaskState::Failed, Some(FailureKind::Lost), 1, "failed"),
        (TaskState::Cancelled, None, 0, "cancelled"),
    ] {
        assert_eq!(Lifecycle::of(state, failure, attempt).as_str(), word);
    }
}

#[test]
fn row_2_4_a_launch_answers_with_its_session_and_the_status_queued() {
    let launched =
        Launched { number: TaskNumber(7), category: "researcher", timeout_s: Some(30.0) };
    assert_eq!(
        launched.answer(&[]).value,
        json!({"session_id": "t_07", "status": "queued", "category": "researcher", "lifecycle_status": "queued",
            "timeout": 30.0})
    );
    let missing = Launched { timeout_s: None, ..launched }.answer(&["cooking".to_owned()]).value;
    assert_eq!((&missing["missing_skills"], missing.get("timeout")), (&json!(["cooking"]), None));
}

#[test]
fn row_2_12_a_result_has_the_fields_of_the_source() {
    let full = record(Lifecycle::Succeeded).result(ReadMethod::Full);
    assert_eq!(
        full.value,
        json!({"status": "success", "session_id": "t_07", "category": "researcher", "lifecycle_status": "succeeded",
            "read_method": "full", "artifact_id": "subagent_0123456789ab7def81234567",
            "record_path": "scratchbook/records/subagent/subagent_0123456789ab7def81234567",
            "inline_content": "Found it.", "error": null})
    );
    assert!(!full.is_error);
    let failed = Record { error: Some("It broke".to_owned()), ..record(Lifecycle::Failed) }
        .result(ReadMethod::Full);
    assert_eq!(
        failed.value,
        json!({"status": "error", "session_id": "t_07", "category": "researcher", "lifecycle_status": "failed",
            "read_method": "full", "artifact_id": null, "record_path": null, "inline_content": null,
            "error": "It broke"})
    );
    let queued = Record { queue_position: Some(0), ..record(Lifecycle::Queued) };
    let queued = queued.not_ready(ReadMethod::Full, Duration::from_millis(500));
    assert_eq!(queued.value["queue_position"], 0);
    assert_eq!(queued.value["error"], "Timeout waiting for session result after 0.5s");
    assert!(queued.still_running);
}

#[test]
fn row_2_14_a_result_of_8192_bytes_is_inline_and_one_more_is_not() {
    let of = |bytes: usize| {
        let record = Record {
            result: Some("é".repeat(bytes / 2) + &"x".repeat(bytes % 2)),
            ..record(Lifecycle::Succeeded)
        };
        record.result(ReadMethod::Full).value["inline_content"].as_str().unwrap().to_owned()
    };
    assert_eq!(of(8192).len(), 8192);
    let path = "scratchbook/records/subagent/subagent_0123456789ab7def81234567";
    assert_eq!(of(8193), format!("Result persisted to {path}"));
}

#[test]
fn row_2_17_a_result_has_its_summary_or_an_error_without_one() {
    let with = Record { summary: Some("Short.".to_owned()), ..record(Lifecycle::Succeeded) };
    let read = with.result(ReadMethod::Summary).value;
    assert_eq!(
        (&read["inline_content"], &read["read_method"]),
        (&json!("Short."), &json!("summary"))
    );
    let without = record(Lifecycle::Succeeded).result(ReadMethod::Summary);
    assert_eq!(
        without.value["error"],
        "Summary not available for this session. Retry with read_method=\"full\"."
    );
    assert_eq!(
        (&without.value["status"], &without.value["inline_content"]),
        (&json!("error"), &Value::Null)
    );
    assert_eq!(
        bad_read_method("t_07", "x").value,
        json!({"status": "error", "session_id": "t_07", "error": "Invalid read_method 'x'. Expected one of: full, summary"})
    );
}

#[test]
fn row_2_24_each_notification_is_one_line() {
    let with = Record { summary: Some("Short.".to_owned()), ..record(Lifecycle::Succeeded) };
    let failed = Record { error: Some("It broke".to_owned()), ..record(Lifecycle::Failed) };
    let timed_out = Record { timeout_s: Some(0.5), ..record(Lifecycle::TimedOut) };
    let all = [with, record(Lifecycle::Succeeded), failed, timed_out, record(Lifecycle::Cancelled)];
    assert_eq!(
        notification(&all).text,
        "Background subagent updates:\n\
         - t_07 succeeded. Call subagent_result(session_id=\"t_07\") for the full result or subagent_result(session_id=\"t_07\", read_method=\"summary\") for the cached summary.\n\
         - t_07 succeeded. Call subagent_result(session_id=\"t_07\") for the full result.\n\
         - t_07 failed: It broke. Call subagent_result(session_id=\"t_07\") for details.\n\
         - t_07 timed_out: Error: Subagent timeout after 0.5s. Call subagent_result(session_id=\"t_07\") for details.\n\
         - t_07 cancelled. Call subagent_result(session_id=\"t_07\") for details."
    );
}

#[test]
fn rows_2_3_2_25_and_2_31_a_foreground_call_answers_with_the_text_or_the_error() {
    let said = |record: Record| (record.ended().value, record.ended().is_error);
    assert_eq!(said(record(Lifecycle::Succeeded)), (json!("Found it."), false));
    let failed = Record { error: Some("It broke".to_owned()), ..record(Lifecycle::Failed) };
    assert_eq!(said(failed), (json!("Error: Subagent 'researcher' failed: It broke"), true));
    let timed_out = Record { timeout_s: Some(30.0), ..record(Lifecycle::TimedOut) };
    assert_eq!(said(timed_out), (json!("Error: Subagent timeout after 30s"), true));
    let lost =
        Record { not_resumed: true, error: Some("lost".to_owned()), ..record(Lifecycle::Failed) };
    assert_eq!(lost.result(ReadMethod::Full).value["error"], "restored_without_live_task_handle");
}

#[test]
fn row_2_10_all_sessions_are_a_count_and_a_table_without_times() {
    let answer = sessions(3, &[record(Lifecycle::Running), record(Lifecycle::Cancelled)]).value;
    assert_eq!(
        answer,
        json!({"status": "ok", "session_count": 3,
            "summary_table": "Session ID | Category | Status\nt_07 | researcher | running\nt_07 | researcher | cancelled\n(1 more)"})
    );
    assert_eq!(sessions(0, &[]).value["session_count"], 0);
}

#[test]
fn rows_2_19_and_2_20_errors_are_in_the_answer() {
    assert_eq!(
        record(Lifecycle::Succeeded).already_terminal().value,
        json!({"status": "error", "session_id": "t_07", "category": "researcher", "lifecycle_status": "succeeded",
            "error": "Session already terminal: succeeded"})
    );
    assert_eq!(
        no_session("nope").value,
        json!({"status": "error", "session_id": "nope", "error": "Session not found: nope"})
    );
    assert_eq!(refused("subagent", None, "It cannot be.").value, "Error: It cannot be.");
}
