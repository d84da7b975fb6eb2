//! shared_context as the orchestrator calls it. What the store makes of the calls is tested row by row in `shared_context`.

use adjutant_agent::ErrorCode;
use serde_json::json;

use super::office::{Office, SESSION, assert_has};
use super::over_every_wire;

over_every_wire! {
    row_sc_4_to_7_notes_are_written_listed_read_and_deleted,
    row_sc_13_errors_have_their_codes,
}

async fn row_sc_4_to_7_notes_are_written_listed_read_and_deleted(office: Office) {
    for version in 1..=2 {
        let written = office.context(json!({"action": "write", "key": "findings", "value": "é"})).await;
        assert_has(&written, json!({"key": "findings", "version": version, "written_by": "orchestrator"}));
    }
    let listed = office.context(json!({"action": "list_keys", "key": null})).await;
    assert_has(&listed["keys"][0], json!({"key": "findings", "version": 2, "value_size_tokens": 1}));
    assert!(listed["keys"][0].get("value").is_none());
    let read = office.context(json!({"action": "read", "key": "findings"})).await;
    assert_has(&read, json!({"key": "findings", "value": "é", "version": 2, "written_by": "orchestrator"}));
    let deleted = office.context(json!({"action": "delete", "key": "findings"})).await;
    assert_has(&deleted, json!({"deleted": "findings", "previous_version": 2}));
}

async fn row_sc_13_errors_have_their_codes(office: Office) {
    for (arguments, code) in [
        (json!({"action": "read", "key": "nothing"}), ErrorCode::KeyNotFound),
        (json!({"action": "read", "key": "a-b"}), ErrorCode::InvalidKey),
        (json!({"action": "write", "key": "k", "value": "x".repeat(4_004)}), ErrorCode::ValueTooLarge),
        (json!({"action": "append", "key": "k"}), ErrorCode::InvalidAction),
        (json!({"action": "write", "key": "k"}), ErrorCode::InvalidArgument),
        (json!({"action": "read", "key": "k", "task_id": "t_01"}), ErrorCode::InvalidArgument),
    ] {
        office.refused_in(SESSION, "shared_context", arguments, code).await;
    }
    for key in 0..10 {
        let key = format!("k{key}");
        office.context(json!({"action": "write", "key": key, "value": "x".repeat(4_000)})).await;
    }
    let more = json!({"action": "write", "key": "one_more", "value": "x"});
    office.refused_in(SESSION, "shared_context", more, ErrorCode::StoreFull).await;
}
