//! shared_context as orchestrators call it. `store/shared_context` tests the store's part.

use adjutant_agent::{ContextCall, ErrorCode, TextLimits};
use serde_json::{Value, json};

use crate::dialects::spec::over_every_wire;
use crate::support::orchestrator::{Orchestrator, SESSION, assert_has, assert_lacks};
use crate::support::world::{race, turn};

over_every_wire! {
    row_sc_1_only_the_action_is_required,
    row_sc_2_a_session_sees_no_other,
    row_sc_3_a_note_has_its_writer_its_time_and_its_version,
    row_sc_4_to_7_notes_are_written_listed_read_and_deleted,
    row_sc_6_a_large_value_is_written_with_a_warning,
    row_sc_8_a_key_has_up_to_64_letters_digits_and_underscores,
    row_sc_9_a_value_has_4003_characters_at_most,
    row_sc_10_all_values_together_have_10000_tokens,
    row_sc_11_the_last_write_wins_and_each_has_its_version,
    row_sc_14_an_archived_session_is_read_and_not_written,
    row_sc_16_the_writer_is_set_by_the_system,
    row_sc_17_a_size_is_a_quarter_of_the_characters,
    row_sc_20_a_full_store_is_quick,
    row_sc_13_errors_have_their_codes,
}

async fn row_sc_4_to_7_notes_are_written_listed_read_and_deleted(orchestrator: Orchestrator) {
    for version in 1..=2 {
        let written =
            orchestrator.context(json!({"action": "write", "key": "findings", "value": "é"})).await;
        assert_has(
            &written,
            json!({"key": "findings", "version": version, "written_by": "orchestrator"}),
        );
    }
    let listed = orchestrator.context(json!({"action": "list_keys", "key": null})).await;
    assert_has(
        &listed["keys"][0],
        json!({"key": "findings", "version": 2, "value_size_tokens": 1}),
    );
    assert!(listed["keys"][0].get("value").is_none());
    let read = orchestrator.context(json!({"action": "read", "key": "findings"})).await;
    assert_has(
        &read,
        json!({"key": "findings", "value": "é", "version": 2, "written_by": "orchestrator"}),
    );
    let deleted = orchestrator.context(json!({"action": "delete", "key": "findings"})).await;
    assert_has(&deleted, json!({"deleted": "findings", "previous_version": 2}));
}

fn write(key: &str, value: &str) -> Value {
    json!({"action": "write", "key": key, "value": value})
}

async fn refused(orchestrator: &Orchestrator, arguments: Value, code: ErrorCode) -> String {
    orchestrator.refused_in(SESSION, "shared_context", arguments, code).await
}

async fn row_sc_1_only_the_action_is_required(orchestrator: Orchestrator) {
    let empty =
        orchestrator.context(json!({"action": "list_keys", "key": null, "value": null})).await;
    assert_eq!(empty, json!({"keys": [], "total_size_tokens": 0}));
    refused(&orchestrator, json!({"key": "a"}), ErrorCode::InvalidArgument).await;
    let message =
        refused(&orchestrator, json!({"action": "append"}), ErrorCode::InvalidAction).await;
    for action in ["list_keys", "read", "write", "delete"] {
        assert!(message.contains(action), "{message}");
    }
}

async fn row_sc_2_a_session_sees_no_other(orchestrator: Orchestrator) {
    orchestrator.open("another").await;
    orchestrator.context(write("plan", "of one")).await;
    let read = json!({"action": "read", "key": "plan"});
    orchestrator
        .refused_in("another", "shared_context", read.clone(), ErrorCode::KeyNotFound)
        .await;
    assert_eq!(
        orchestrator.raw("another", "shared_context", write("plan", "of another")).await.1["version"],
        1
    );
    assert_has(&orchestrator.context(read).await, json!({"value": "of one"}));
}

async fn row_sc_3_a_note_has_its_writer_its_time_and_its_version(orchestrator: Orchestrator) {
    for version in 1..=3 {
        let value = format!("{{\"attempt\": {version}}}");
        let written = orchestrator.context(write("state", &value)).await;
        let note = orchestrator.context(json!({"action": "read", "key": "state"})).await;
        assert_has(
            &note,
            json!({"value": value, "version": version, "written_by": "orchestrator"}),
        );
        assert_eq!(note["written_at"], written["written_at"]);
        assert!(note["written_at"].as_str().unwrap().ends_with('Z'), "{note}");
    }
    let not_text = json!({"action": "write", "key": "state", "value": {"attempt": 4}});
    refused(&orchestrator, not_text, ErrorCode::InvalidArgument).await;
}

async fn row_sc_6_a_large_value_is_written_with_a_warning(orchestrator: Orchestrator) {
    assert_lacks(&orchestrator.context(write("a", &"x".repeat(3_199))).await, &["warning"]);
    let large = orchestrator.context(write("a", &"x".repeat(3_200))).await;
    assert!(large["warning"].as_str().unwrap().contains("800"), "{large}");
    assert_has(&orchestrator.context(write("a", "")).await, json!({"version": 3}));
    orchestrator.context(json!({"action": "delete", "key": "a"})).await;
    assert_has(&orchestrator.context(write("a", "again")).await, json!({"version": 1}));
}

async fn row_sc_8_a_key_has_up_to_64_letters_digits_and_underscores(orchestrator: Orchestrator) {
    for key in ["a", "0", "_", "q3_2026_findings", &"k".repeat(64)] {
        assert_has(&orchestrator.context(write(key, "text")).await, json!({"key": key}));
    }
    for key in ["", "A", "a-b", "a.b", "a/b", "a b", "a\n", "ä", &"k".repeat(65)] {
        refused(&orchestrator, write(key, "text"), ErrorCode::InvalidKey).await;
    }
}

async fn row_sc_9_a_value_has_4003_characters_at_most(orchestrator: Orchestrator) {
    orchestrator.context(write("a", &"é".repeat(4_003))).await;
    refused(&orchestrator, write("a", &"é".repeat(4_004)), ErrorCode::ValueTooLarge).await;
    assert_has(
        &orchestrator.context(json!({"action": "read", "key": "a"})).await,
        json!({"version": 1}),
    );
}

async fn row_sc_10_all_values_together_have_10000_tokens(orchestrator: Orchestrator) {
    for key in 0..10 {
        orchestrator.context(write(&format!("k{key}"), &"x".repeat(4_003))).await;
    }
    assert_has(
        &orchestrator.context(json!({"action": "list_keys"})).await,
        json!({"total_size_tokens": 10_000}),
    );
    refused(&orchestrator, write("more", ""), ErrorCode::StoreFull).await;
    orchestrator.context(write("k0", &"y".repeat(3_999))).await;
    orchestrator.context(write("more", "")).await;
    refused(&orchestrator, write("k0", &"y".repeat(4_000)), ErrorCode::StoreFull).await;
}

async fn row_sc_11_the_last_write_wins_and_each_has_its_version(orchestrator: Orchestrator) {
    let writers = (0..8).map(|writer| {
        let (client, arguments) =
            (orchestrator.client.clone(), write("a", &format!("of {writer}")));
        async move { (writer, client.call("shared_context", arguments).await.value) }
    });
    let mut answers = race(writers.collect()).await;
    answers.sort_by_key(|(_, answer)| answer["version"].as_i64());
    let versions: Vec<_> =
        answers.iter().map(|(_, answer)| answer["version"].as_i64().unwrap()).collect();
    assert_eq!(versions, [1, 2, 3, 4, 5, 6, 7, 8]);
    let last = orchestrator.context(json!({"action": "read", "key": "a"})).await;
    assert_has(&last, json!({"value": format!("of {}", answers[7].0), "version": 8}));
}

async fn row_sc_14_an_archived_session_is_read_and_not_written(orchestrator: Orchestrator) {
    orchestrator.context(write("a", "kept")).await;
    orchestrator.context(json!({"action": "snapshot", "label": "end"})).await;
    orchestrator.world.store.archive_session(orchestrator.session_id().await).await.unwrap();
    for change in [
        write("b", "x"),
        json!({"action": "delete", "key": "a"}),
        json!({"action": "snapshot", "label": "x"}),
    ] {
        refused(&orchestrator, change, ErrorCode::SessionArchived).await;
    }
    assert_has(
        &orchestrator.context(json!({"action": "list_keys"})).await["keys"][0],
        json!({"key": "a"}),
    );
    for reading in [
        json!({"action": "read", "key": "a"}),
        json!({"action": "read_batch", "keys": ["a"]}),
        json!({"action": "read_history", "key": "a"}),
        json!({"action": "read_snapshot", "label": "end"}),
    ] {
        assert!(orchestrator.context(reading).await.to_string().contains("kept"));
    }
}

async fn row_sc_16_the_writer_is_set_by_the_system(orchestrator: Orchestrator) {
    let mut spoofed = write("a", "x");
    spoofed["written_by"] = json!("subagent:writer");
    refused(&orchestrator, spoofed, ErrorCode::InvalidArgument).await;
    orchestrator.spawn("x").await;
    let mut claim = orchestrator.claim().await;
    claim.lease.checkpoint(&turn("Writing.")).await.unwrap();
    let call = ContextCall::parse(&write("a", "of a task"), &TextLimits::DEFAULT).unwrap();
    claim.lease.shared_context("c", &call).await.unwrap();
    let note = orchestrator.context(json!({"action": "read", "key": "a"})).await;
    assert_has(&note, json!({"value": "of a task", "written_by": "subagent:writer:t_01"}));
    assert_has(&orchestrator.context(write("a", "x")).await, json!({"written_by": "orchestrator"}));
}

async fn row_sc_17_a_size_is_a_quarter_of_the_characters(orchestrator: Orchestrator) {
    for (chars, tokens) in [(0, 1), (7, 1), (8, 2), (11, 2), (4_003, 1_000)] {
        orchestrator.context(write("a", &"\u{1f980}".repeat(chars))).await;
        let listed = orchestrator.context(json!({"action": "list_keys"})).await;
        assert_has(&listed, json!({"total_size_tokens": tokens}));
        assert_has(&listed["keys"][0], json!({"value_size_tokens": tokens}));
    }
}

/// A writer of one session does not block other sessions.
async fn row_sc_20_a_full_store_is_quick(orchestrator: Orchestrator) {
    for key in 0..10 {
        orchestrator.context(write(&format!("k{key}"), &"x".repeat(3_900))).await;
    }
    orchestrator.open("another").await;
    let writer =
        orchestrator.world.hold("select from session where name = 'another' for update").await;
    let mut times = Vec::new();
    for _ in 0..11 {
        let started = std::time::Instant::now();
        orchestrator.context(write("k0", "text")).await;
        orchestrator.context(json!({"action": "read", "key": "k5"})).await;
        times.push(started.elapsed());
    }
    writer.rollback().await.unwrap();
    times.sort_unstable();
    assert!(times[5] < std::time::Duration::from_millis(200), "{times:?}");
}

async fn row_sc_13_errors_have_their_codes(orchestrator: Orchestrator) {
    for (arguments, code) in [
        (json!({"action": "read", "key": "nothing"}), ErrorCode::KeyNotFound),
        (json!({"action": "read", "key": "a-b"}), ErrorCode::InvalidKey),
        (
            json!({"action": "write", "key": "k", "value": "x".repeat(4_004)}),
            ErrorCode::ValueTooLarge,
        ),
        (json!({"action": "append", "key": "k"}), ErrorCode::InvalidAction),
        (json!({"action": "write", "key": "k"}), ErrorCode::InvalidArgument),
        (json!({"action": "read", "key": "k", "task_id": "t_01"}), ErrorCode::InvalidArgument),
    ] {
        orchestrator.refused_in(SESSION, "shared_context", arguments, code).await;
    }
    for key in 0..10 {
        let key = format!("k{key}");
        orchestrator
            .context(json!({"action": "write", "key": key, "value": "x".repeat(4_000)}))
            .await;
    }
    let more = json!({"action": "write", "key": "one_more", "value": "x"});
    orchestrator.refused_in(SESSION, "shared_context", more, ErrorCode::StoreFull).await;
}
