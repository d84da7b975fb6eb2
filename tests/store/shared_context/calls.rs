//! Each call and its limits: rows SC.1 to SC.11.

use adjutant_agent::ErrorCode;
use chrono::{DateTime, Utc};
use serde_json::{Value, json};

use crate::store::shared_context::{call, list_keys, read, write};
use crate::support::world::{World, assert_refused, race};

/// The fields that an answer has.
pub fn fields(answer: &Value) -> Vec<&str> {
    answer.as_object().unwrap().keys().map(String::as_str).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn sc_01_only_the_action_is_required_and_an_unknown_one_lists_the_valid() {
    let world = World::new().await;
    let session = world.session().await;
    call(&world, session, json!({"action": "list_keys", "key": null, "value": null}))
        .await
        .unwrap();
    assert_refused(call(&world, session, json!({"key": "a"})).await, ErrorCode::InvalidArgument);
    let unknown = call(&world, session, json!({"action": "append", "key": "a"})).await;
    let message = assert_refused(unknown, ErrorCode::InvalidAction);
    for action in ["list_keys", "read", "write", "delete"] {
        assert!(message.contains(action), "{message}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sc_02_a_session_is_one_store_and_sees_no_other() {
    let world = World::new().await;
    let (one, other) = (world.session().await, world.session().await);
    write(&world, one, "plan", "of one").await.unwrap();
    assert_refused(read(&world, other, "plan").await, ErrorCode::KeyNotFound);
    write(&world, other, "plan", "of other").await.unwrap();
    assert_eq!(read(&world, one, "plan").await.unwrap()["value"], "of one");
    assert_eq!(list_keys(&world, other).await["keys"].as_array().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn sc_03_an_entry_is_a_text_with_its_writer_its_time_and_a_version_that_counts_its_writes() {
    let world = World::new().await;
    let session = world.session().await;
    for version in 1..=3 {
        let value = format!("{{\"attempt\": {version}}}");
        let before = Utc::now() - chrono::Duration::seconds(1);
        assert_eq!(write(&world, session, "state", &value).await.unwrap()["version"], version);
        let entry = read(&world, session, "state").await.unwrap();
        assert_eq!(entry["value"], value, "JSON is a text like any other");
        assert_eq!(
            (&entry["version"], &entry["written_by"]),
            (&json!(version), &json!("orchestrator"))
        );
        let written_at = entry["written_at"].as_str().unwrap();
        assert!(written_at.ends_with('Z'), "{written_at} is not UTC");
        let written_at: DateTime<Utc> = written_at.parse().unwrap();
        assert!((before..Utc::now() + chrono::Duration::seconds(1)).contains(&written_at));
    }
    let not_text = json!({"action": "write", "key": "state", "value": {"attempt": 4}});
    assert_refused(call(&world, session, not_text).await, ErrorCode::InvalidArgument);
}

#[tokio::test(flavor = "multi_thread")]
async fn sc_04_list_keys_shows_sizes_and_the_total_and_never_values() {
    let world = World::new().await;
    let session = world.session().await;
    assert_eq!(list_keys(&world, session).await, json!({"keys": [], "total_size_tokens": 0}));
    write(&world, session, "b", &"secret".repeat(100)).await.unwrap();
    write(&world, session, "a", "").await.unwrap();
    let answer = list_keys(&world, session).await;
    assert!(!answer.to_string().contains("secret"));
    assert_eq!(answer["total_size_tokens"], 151);
    let keys = answer["keys"].as_array().unwrap();
    assert_eq!((&keys[0]["key"], &keys[1]["key"]), (&json!("a"), &json!("b")));
    assert_eq!(keys[1]["value_size_tokens"], 150);
    assert_eq!(
        fields(&keys[1]),
        ["key", "value_size_tokens", "version", "written_at", "written_by"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn sc_05_read_answers_the_whole_entry() {
    let world = World::new().await;
    let session = world.session().await;
    let written = write(&world, session, "a", "text").await.unwrap();
    assert_eq!(
        read(&world, session, "a").await.unwrap(),
        json!({
            "key": "a", "value": "text", "written_by": "orchestrator", "written_at": written["written_at"], "version": 1,
            "value_size_tokens": 1
        })
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn sc_06_write_creates_or_overwrites_and_warns_from_800_tokens_on() {
    let world = World::new().await;
    let session = world.session().await;
    let plain = write(&world, session, "a", &"x".repeat(3199)).await.unwrap();
    assert_eq!(fields(&plain), ["key", "version", "written_at", "written_by"]);
    assert_eq!((&plain["key"], &plain["version"]), (&json!("a"), &json!(1)));
    let large = write(&world, session, "a", &"x".repeat(3200)).await.unwrap();
    assert_eq!(large["version"], 2);
    assert!(large["warning"].as_str().unwrap().contains("800"), "{large}");
    assert_eq!(write(&world, session, "a", "").await.unwrap()["version"], 3);
    assert_eq!(read(&world, session, "a").await.unwrap()["value"], "", "an empty value is a value");
}

#[tokio::test(flavor = "multi_thread")]
async fn sc_07_delete_answers_the_previous_version_and_a_new_entry_starts_at_1() {
    let world = World::new().await;
    let session = world.session().await;
    for _ in 0..3 {
        write(&world, session, "a", "text").await.unwrap();
    }
    let delete = json!({"action": "delete", "key": "a"});
    let answer = call(&world, session, delete.clone()).await.unwrap();
    assert_eq!(answer, json!({"deleted": "a", "previous_version": 3}));
    assert_refused(read(&world, session, "a").await, ErrorCode::KeyNotFound);
    assert_refused(call(&world, session, delete).await, ErrorCode::KeyNotFound);
    assert_eq!(write(&world, session, "a", "again").await.unwrap()["version"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn sc_08_a_key_has_up_to_64_lower_case_letters_digits_and_underscores() {
    let world = World::new().await;
    let session = world.session().await;
    for key in ["a", "0", "_", "q3_2026_findings", &"k".repeat(64)] {
        assert_eq!(write(&world, session, key, "text").await.unwrap()["key"], key);
    }
    for key in ["", "A", "a-b", "a.b", "a/b", "a b", "a\n", "ä", &"k".repeat(65)] {
        assert_refused(write(&world, session, key, "text").await, ErrorCode::InvalidKey);
        assert_refused(read(&world, session, key).await, ErrorCode::InvalidKey);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sc_09_a_value_of_4003_characters_passes_and_one_of_4004_does_not() {
    let world = World::new().await;
    let session = world.session().await;
    write(&world, session, "a", &"é".repeat(4003)).await.unwrap();
    assert_refused(write(&world, session, "a", &"é".repeat(4004)).await, ErrorCode::ValueTooLarge);
    assert_eq!(read(&world, session, "a").await.unwrap()["version"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn sc_10_all_values_together_have_10000_tokens_and_an_overwritten_one_does_not_count() {
    let world = World::new().await;
    let session = world.session().await;
    for k in 0..10 {
        write(&world, session, &format!("k{k}"), &"x".repeat(4003)).await.unwrap();
    }
    let message = assert_refused(write(&world, session, "more", "").await, ErrorCode::StoreFull);
    assert!(message.contains("10001"), "{message}");
    assert_eq!(write(&world, session, "k0", &"y".repeat(4003)).await.unwrap()["version"], 2);
    assert_eq!(list_keys(&world, session).await["total_size_tokens"], 10_000);
    assert_refused(read(&world, session, "more").await, ErrorCode::KeyNotFound);
    write(&world, session, "k0", &"y".repeat(3999)).await.unwrap();
    write(&world, session, "more", "").await.unwrap();
    assert_refused(write(&world, session, "k0", &"y".repeat(4000)).await, ErrorCode::StoreFull);
    assert_eq!(
        read(&world, session, "k0").await.unwrap()["version"],
        3,
        "a refused write leaves no trace"
    );
    let history =
        world.count("select count(*) from context_history where key in ('k0', 'more')").await;
    assert_eq!(history, 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn sc_11_the_last_write_wins_and_its_version_counts_the_writes() {
    let world = World::new().await;
    let session = world.session().await;
    let writers = (0..8).map(|writer| {
        let store = world.store.clone();
        let arguments = json!({"action": "write", "key": "a", "value": format!("of {writer}")});
        async move {
            (writer, store.shared_context(session, &super::context(&arguments)).await.unwrap())
        }
    });
    let mut answers = race(writers.collect()).await;
    answers.sort_by_key(|(_, answer)| answer["version"].as_i64());
    let versions: Vec<_> =
        answers.iter().map(|(_, answer)| answer["version"].as_i64().unwrap()).collect();
    assert_eq!(versions, [1, 2, 3, 4, 5, 6, 7, 8]);
    let times: Vec<_> =
        answers.iter().map(|(_, answer)| answer["written_at"].as_str().unwrap()).collect();
    assert!(times.is_sorted(), "{times:?}");
    let entry = read(&world, session, "a").await.unwrap();
    assert_eq!(entry["value"], format!("of {}", answers[7].0));
}
