//! What outlives what, who may read and write, what is logged, and the extensions: rows SC.12 to
//! SC.20.

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use adjutant_agent::{ContextCall, ErrorCode, TextLimits};
use adjutant_store::{NewSession, SessionEntry, Store};
use serde_json::{Value, json};

use crate::store::shared_context::calls::fields;
use crate::store::shared_context::{call, list_keys, read, task_call, write};
use crate::support::world::{World, assert_refused, turn};

#[tokio::test(flavor = "multi_thread")]
async fn sc_12_entries_outlive_tasks_and_processes_and_end_with_the_session() {
    let world = World::new().await;
    let (session, worker, mut claim) = world.one_running().await;
    claim.lease.checkpoint(&turn("one")).await.unwrap();
    task_call(&claim.lease, "c", &json!({"action": "write", "key": "a", "value": "kept"})).await;
    claim.lease.complete("done".to_owned(), None).write().await.unwrap();
    worker.stop().await.unwrap();
    world.store.close().await;
    let reopened = Store::open(world.url(), 1).await.unwrap();
    let entry = super::context(&json!({"action": "read", "key": "a"}));
    assert_eq!(reopened.shared_context(session, &entry).await.unwrap()["value"], "kept");
    reopened.delete_session(session).await.unwrap();
    while reopened.delete_batch().await.unwrap() {}
    assert_refused(reopened.shared_context(session, &entry).await, ErrorCode::SessionNotFound);
    assert_eq!(world.count("select count(*) from context_entry").await, 0);
}

/// Whatever was done before in the same transaction.
#[tokio::test(flavor = "multi_thread")]
async fn sc_12_a_write_waits_for_the_disk() {
    let world = World::new().await;
    let (session, worker) = (world.session().await, world.worker().await);
    world.spawn(session, 1).await;
    let claim =
        format!("set local synchronous_commit = on; select from claim_1('{}', 1)", worker.id());
    let mut held = world.hold(&claim).await;
    sqlx::query(
        "select session_context_1($1, '{\"action\": \"write\", \"key\": \"a\", \"value\": \"\"}')",
    )
    .bind(session.0)
    .execute(&mut *held)
    .await
    .unwrap();
    let durability: String = sqlx::query_scalar("select current_setting('synchronous_commit')")
        .fetch_one(&mut *held)
        .await
        .unwrap();
    assert_eq!(durability, "on");
}

#[tokio::test(flavor = "multi_thread")]
async fn sc_13_every_error_has_its_code() {
    let world = World::new().await;
    let session = world.session().await;
    for (arguments, code) in [
        (json!({"action": "read", "key": "none"}), ErrorCode::KeyNotFound),
        (json!({"action": "delete", "key": "none"}), ErrorCode::KeyNotFound),
        (json!({"action": "read_history", "key": "none"}), ErrorCode::KeyNotFound),
        (json!({"action": "read_snapshot", "label": "none"}), ErrorCode::KeyNotFound),
        (
            json!({"action": "write", "key": "a", "value": "x".repeat(4004)}),
            ErrorCode::ValueTooLarge,
        ),
        (json!({"action": "write", "key": "A", "value": ""}), ErrorCode::InvalidKey),
        (json!({"action": "erase"}), ErrorCode::InvalidAction),
        (json!({"action": "write", "key": "a", "value": "nul\0"}), ErrorCode::InvalidArgument),
    ] {
        assert_refused(call(&world, session, arguments).await, code);
    }
    let nobody = adjutant_agent::SessionId(-1);
    assert_refused(write(&world, nobody, "a", "").await, ErrorCode::SessionNotFound);
    assert_refused(read(&world, nobody, "a").await, ErrorCode::SessionNotFound);
    world.store.archive_session(session).await.unwrap();
    assert_refused(write(&world, session, "a", "").await, ErrorCode::SessionArchived);
}

#[tokio::test(flavor = "multi_thread")]
async fn sc_14_an_archived_session_can_be_read_and_not_written() {
    let world = World::new().await;
    let session = world.session().await;
    write(&world, session, "a", "kept").await.unwrap();
    call(&world, session, json!({"action": "snapshot", "label": "end"})).await.unwrap();
    world.store.archive_session(session).await.unwrap();
    world.store.archive_session(session).await.unwrap();
    for arguments in [
        json!({"action": "write", "key": "b", "value": "text"}),
        json!({"action": "delete", "key": "a"}),
        json!({"action": "snapshot", "label": "later"}),
    ] {
        assert_refused(call(&world, session, arguments).await, ErrorCode::SessionArchived);
    }
    assert_eq!(list_keys(&world, session).await["keys"].as_array().unwrap().len(), 1);
    for reading in [
        json!({"action": "read", "key": "a"}),
        json!({"action": "read_batch", "keys": ["a"]}),
        json!({"action": "read_history", "key": "a"}),
        json!({"action": "read_snapshot", "label": "end"}),
    ] {
        assert!(call(&world, session, reading).await.unwrap().to_string().contains("kept"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sc_15_sessions_are_created_once_archived_listed_and_deleted() {
    let world = World::new().await;
    let new =
        |name: &str| NewSession { tenant: "t".into(), name: name.into(), ..NewSession::default() };
    let old = world.store.create_session(&new("old")).await.unwrap().id;
    let young = world.store.create_session(&new("young")).await.unwrap().id;
    world.session_with(|session| session.tenant = "another".to_owned()).await;
    assert_refused(world.store.create_session(&new("old")).await, ErrorCode::SessionAlreadyExists);
    write(&world, old, "a", &"x".repeat(40)).await.unwrap();
    write(&world, old, "b", "").await.unwrap();
    world.store.archive_session(old).await.unwrap();
    let entry = |name: &str, archived, key_count, total_size_tokens| SessionEntry {
        name: name.to_owned(),
        archived,
        key_count,
        total_size_tokens,
    };
    let listed = world.store.sessions("t", None, 100).await.unwrap();
    assert_eq!(listed, [entry("old", true, 2, 11), entry("young", false, 0, 0)]);
    assert_eq!(world.store.sessions("t", None, 1).await.unwrap(), listed[..1]);
    assert_eq!(world.store.sessions("t", Some("old"), 1).await.unwrap(), listed[1..]);
    world.store.delete_session(old).await.unwrap();
    assert_refused(world.store.delete_session(old).await, ErrorCode::SessionNotFound);
    assert_refused(world.store.archive_session(old).await, ErrorCode::SessionNotFound);
    let again = world.store.create_session(&new("old")).await.unwrap().id;
    assert_eq!(list_keys(&world, again).await["total_size_tokens"], 0);
    world.store.delete_session(young).await.unwrap();
    assert_eq!(world.store.sessions("t", None, 100).await.unwrap(), [entry("old", false, 0, 0)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn sc_16_written_by_is_set_by_the_system() {
    let world = World::new().await;
    let (session, _, mut claim) = world.one_running().await;
    claim.lease.checkpoint(&turn("one")).await.unwrap();
    let (answer, _) =
        task_call(&claim.lease, "c", &json!({"action": "write", "key": "a", "value": "of a task"}))
            .await;
    assert_eq!(answer["written_by"], "subagent:tester:t_01");
    assert_eq!(read(&world, session, "a").await.unwrap()["written_by"], "subagent:tester:t_01");
    assert_eq!(write(&world, session, "a", "").await.unwrap()["written_by"], "orchestrator");
    let spoofed = json!({"action": "write", "key": "a", "value": "", "written_by": "orchestrator"});
    assert_refused(call(&world, session, spoofed).await, ErrorCode::InvalidArgument);
}

#[tokio::test(flavor = "multi_thread")]
async fn sc_17_a_size_is_a_quarter_of_the_characters_and_at_least_one() {
    let world = World::new().await;
    let session = world.session().await;
    for (chars, tokens) in [(0, 1), (1, 1), (7, 1), (8, 2), (11, 2), (4003, 1000)] {
        let value = "🦀".repeat(chars);
        assert_eq!(
            i64::from(tokens),
            adjutant_agent::estimate_tokens(&value),
            "the same on both sides"
        );
        write(&world, session, "a", &value).await.unwrap();
        assert_eq!(
            read(&world, session, "a").await.unwrap()["value_size_tokens"],
            tokens,
            "{chars}"
        );
        assert_eq!(list_keys(&world, session).await["total_size_tokens"], tokens);
    }
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn sc_18_writes_and_deletes_are_logged_and_values_never() {
    let world = World::new().await;
    let session = world.session_with(|session| session.name = "the-session".to_owned()).await;
    let worker = world.worker().await;
    world.spawn(session, 1).await;
    let mut claim = world.claim_one(&worker).await;
    claim.lease.checkpoint(&turn("one")).await.unwrap();

    let log = Log::default();
    let lines = log.clone();
    let subscriber = tracing_subscriber::fmt().json().with_max_level(tracing::Level::TRACE);
    let _logged =
        tracing::subscriber::set_default(subscriber.with_writer(move || lines.clone()).finish());
    write(&world, session, "plan", "xyzzy xyzzy").await.unwrap();
    let overwrite = json!({"action": "write", "key": "plan", "value": "xyzzy"});
    task_call(&claim.lease, "c", &overwrite).await;
    task_call(&claim.lease, "c", &overwrite).await;
    call(&world, session, json!({"action": "delete", "key": "plan"})).await.unwrap();
    assert_refused(
        write(&world, session, "plan", &"xyzzy".repeat(1000)).await,
        ErrorCode::ValueTooLarge,
    );

    let logged = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(!logged.contains("xyzzy"), "{logged}");
    let changes: Vec<Value> = logged
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|line| line["fields"]["context.key"] == "plan")
        .collect();
    let noted: Vec<_> = changes
        .iter()
        .map(|line| {
            let field = |name: &str| line["fields"][name].clone();
            assert_eq!(field("session.id"), "the-session");
            assert!(line["timestamp"].is_string());
            (field("context.written_by"), field("context.version"), field("context.size_tokens"))
        })
        .collect();
    assert_eq!(
        noted,
        [
            (json!("orchestrator"), json!(1), json!(2)),
            (json!("subagent:tester:t_01"), json!(2), json!(1)),
            (json!("orchestrator"), json!(2), json!(0)),
        ],
        "each change once"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn sc_19_nothing_expires() {
    let world = World::new().await;
    let session = world.session().await;
    write(&world, session, "a", "old").await.unwrap();
    sqlx::query("update context_entry set written_at = now() - interval '10 years'")
        .execute(&world.sql)
        .await
        .unwrap();
    world.store.run_maintenance().await.unwrap();
    assert_eq!(read(&world, session, "a").await.unwrap()["value"], "old");
    let with_ttl = json!({"action": "write", "key": "a", "value": "", "ttl": 60});
    assert_refused(call(&world, session, with_ttl).await, ErrorCode::InvalidArgument);
}

#[tokio::test(flavor = "multi_thread")]
async fn sc_20_a_full_store_is_quick_and_calls_wait_for_no_other_session_or_writer() {
    let world = World::new().await;
    let (busy, other) = (world.session().await, world.session().await);
    for key in 0..1000 {
        write(&world, busy, &format!("k{key}"), &"x".repeat(39)).await.unwrap();
    }
    let writer = world.hold("select from session where id = 1 for update").await;
    assert_eq!(busy.0, 1);
    let mut times = Vec::new();
    for _ in 0..21 {
        let started = std::time::Instant::now();
        write(&world, other, "a", "text").await.unwrap();
        read(&world, busy, "k500").await.unwrap();
        times.push(started.elapsed());
    }
    writer.rollback().await.unwrap();
    times.sort_unstable();
    assert!(times[10] < Duration::from_millis(100), "{times:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn sc_e_read_batch_returns_found_keys_and_names_missing_ones() {
    let world = World::new().await;
    let session = world.session().await;
    for key in ["a", "b"] {
        write(&world, session, key, &format!("value of {key}")).await.unwrap();
    }
    let batch = json!({"action": "read_batch", "keys": ["b", "none", "a", "b"]});
    let answer = call(&world, session, batch).await.unwrap();
    let one_by_one =
        [read(&world, session, "b").await.unwrap(), read(&world, session, "a").await.unwrap()];
    assert_eq!(answer, json!({"entries": one_by_one, "missing": ["none"]}));
    let none =
        call(&world, session, json!({"action": "read_batch", "keys": ["none"]})).await.unwrap();
    assert_eq!(none, json!({"entries": [], "missing": ["none"]}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_history_of_long_values_is_shown_in_part() {
    let world = World::new().await;
    let session = world.session().await;
    let limits = TextLimits { value: 100_000, store: 100_000, ..TextLimits::DEFAULT };
    let store = world.store.with_text_limits(limits);
    let call = async |arguments: Value| {
        let call = ContextCall::parse(&arguments, &limits).unwrap();
        store.shared_context(session, &call).await.unwrap()
    };
    for tokens in [30_000, 60_000, 40_000, 100_000] {
        call(json!({"action": "write", "key": "a", "value": "x".repeat(4 * tokens)})).await;
        let shown = call(json!({"action": "read_history", "key": "a"})).await;
        let versions: Vec<_> =
            shown["history"].as_array().unwrap().iter().map(|entry| &entry["version"]).collect();
        let (expected, more) = match tokens {
            30_000 => (vec![1], false),
            60_000 => (vec![2, 1], false),
            40_000 => (vec![3, 2], true),
            _ => (vec![4], true),
        };
        assert_eq!(json!(versions), json!(expected));
        assert_eq!(shown["more"], more);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sc_e_read_history_shows_every_write_and_delete_newest_first() {
    let world = World::new().await;
    let session = world.session().await;
    for value in ["one", "two"] {
        write(&world, session, "a", value).await.unwrap();
    }
    call(&world, session, json!({"action": "delete", "key": "a"})).await.unwrap();
    write(&world, session, "a", "three").await.unwrap();
    write(&world, session, "b", "another").await.unwrap();
    let history = json!({"action": "read_history", "key": "a"});
    let answer = call(&world, session, history).await.unwrap();
    let seen: Vec<_> = answer["history"].as_array().unwrap().iter().collect();
    assert_eq!(answer["more"], false);
    assert_eq!(
        seen.iter().map(|h| h["version"].as_i64().unwrap()).collect::<Vec<_>>(),
        [1, 2, 2, 1]
    );
    assert_eq!((&seen[0]["value"], &seen[3]["value"]), (&json!("three"), &json!("one")));
    assert_eq!(fields(seen[1]), ["deleted", "version", "written_at", "written_by"]);
    assert_eq!(
        fields(seen[2]),
        ["value", "value_size_tokens", "version", "written_at", "written_by"]
    );
    let newest = json!({"action": "read_history", "key": "a", "limit": 1});
    let newest = call(&world, session, newest).await.unwrap();
    assert_eq!(newest, json!({"key": "a", "history": [seen[0]], "more": true}));
    let rewrite =
        sqlx::query("update context_history set value = ''").execute(&world.sql).await.unwrap_err();
    assert!(rewrite.to_string().contains("never changes"), "{rewrite}");
}

#[tokio::test(flavor = "multi_thread")]
async fn sc_e_a_snapshot_keeps_everything_as_it_was() {
    let world = World::new().await;
    let session = world.session().await;
    write(&world, session, "a", "before").await.unwrap();
    let before = read(&world, session, "a").await.unwrap();
    let snapshot = json!({"action": "snapshot", "label": "Before the change"});
    let taken = call(&world, session, snapshot.clone()).await.unwrap();
    assert_eq!((&taken["version"], &taken["key_count"]), (&json!(1), &json!(1)));
    assert_eq!(taken["taken_by"], "orchestrator");
    write(&world, session, "a", "after").await.unwrap();
    write(&world, session, "b", "new").await.unwrap();
    let reading = json!({"action": "read_snapshot", "label": "Before the change"});
    let kept = call(&world, session, reading.clone()).await.unwrap();
    assert_eq!((&kept["entries"], &kept["taken_at"]), (&json!([before]), &taken["taken_at"]));
    assert_eq!(call(&world, session, snapshot).await.unwrap()["version"], 2, "taken again");
    let kept = call(&world, session, reading).await.unwrap();
    assert_eq!(kept["entries"].as_array().unwrap().len(), 2);
    for label in 2..=100 {
        call(&world, session, json!({"action": "snapshot", "label": label.to_string()}))
            .await
            .unwrap();
    }
    let one_more = json!({"action": "snapshot", "label": "one more"});
    assert_refused(call(&world, session, one_more).await, ErrorCode::StoreFull);
}
