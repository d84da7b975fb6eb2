//! The past: lists by filter, records, turns and sums, of one tenant each.

use adjutant_agent::{
    Answer, Arguments, Block, ErrorCode, FailureKind, SessionId, TaskId, TaskState, ToolResult,
    ToolUse, Turn,
};
use adjutant_store::{Cursor, NewTask, Spawned, TaskFilter, TaskRecord};
use chrono::{TimeDelta, Utc};
use serde_json::json;

use crate::support::world::{World, assert_refused, queued, turn};

fn all(tenant: &str) -> TaskFilter {
    TaskFilter { tenant: tenant.to_owned(), ..TaskFilter::default() }
}

async fn listed(world: &World, filter: TaskFilter) -> Vec<TaskId> {
    let page = world.store.tasks(&filter, None, 100).await.unwrap();
    page.tasks.into_iter().map(|entry| entry.task.id).collect()
}

async fn tenant_session(world: &World, tenant: &str) -> SessionId {
    world.session_with(|session| session.tenant = tenant.to_owned()).await
}

fn ids(spawned: &[&Spawned]) -> Vec<TaskId> {
    spawned.iter().map(|spawned| spawned.id).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_have_every_task_once_and_the_newest_first() {
    let world = World::new().await;
    let (one, other) = (tenant_session(&world, "a").await, tenant_session(&world, "a").await);
    let mut spawned = Vec::new();
    for session in [one, other, one, other, one] {
        spawned.extend(world.spawn(session, 5).await);
        world.spawn(tenant_session(&world, "b").await, 1).await;
    }
    let (mut seen, mut cursor) = (Vec::new(), None::<Cursor>);
    loop {
        let page = world.store.tasks(&all("a"), cursor.as_ref(), 4).await.unwrap();
        seen.extend(page.tasks.iter().map(|entry| entry.task.id));
        // What is spawned meanwhile is newer than every page to come.
        world.spawn(one, 1).await;
        match page.next_cursor {
            Some(next) => cursor = Some(next.parse().unwrap()),
            None => break,
        }
    }
    spawned.reverse();
    assert_eq!(seen, spawned.iter().map(|task| task.id).collect::<Vec<_>>());
    let whole = world.store.tasks(&all("b"), None, 5).await.unwrap();
    assert_eq!(
        (whole.tasks.len(), whole.next_cursor),
        (5, None),
        "a full page that is the last one"
    );
    for wrong in ["", "x", "12345678"] {
        let refusal = wrong.parse::<Cursor>().unwrap_err();
        assert!(refusal.message.starts_with("cursor"), "{refusal}");
    }
}

fn filter(change: &dyn Fn(&mut TaskFilter)) -> TaskFilter {
    let mut filter = all("a");
    change(&mut filter);
    filter
}

#[tokio::test(flavor = "multi_thread")]
async fn each_filter_finds_its_tasks() {
    let world = World::new().await;
    let session =
        world.session_with(|new| (new.tenant, new.name) = ("a".to_owned(), "s".to_owned())).await;
    let of = |agent: &str, model: &str, label: Option<&str>| NewTask {
        agent: agent.to_owned(),
        label: label.map(str::to_owned),
        config: json!({"model": model}).as_object().unwrap().clone(),
        ..queued()
    };
    let tasks = [
        of("scout", "main", None),
        of("scout", "other", Some("Größe 50%")),
        of("writer", "main", None),
    ];
    let [failed, completed, cancelled]: [Spawned; 3] =
        world.store.spawn(session, &tasks, None).await.unwrap().try_into().unwrap();
    let worker = world.worker().await;
    world.store.cancel(cancelled.id).await.unwrap();
    let claims = worker.claim(2).await.unwrap();
    for claim in claims {
        let ending = if claim.lease.task() == failed.id {
            claim.lease.fail(FailureKind::Model, "no".to_owned(), None)
        } else {
            claim.lease.complete("done".to_owned(), None)
        };
        ending.write().await.unwrap();
    }
    world.spawn(session, 1).await;
    let running = world.claim_one(&worker).await.lease.task();
    let waiting = world.spawn(session, 1).await.remove(0);
    let there = tenant_session(&world, "b").await;
    world.store.spawn(there, &tasks, None).await.unwrap();

    let now = Utc::now();
    let cases: Vec<(TaskFilter, Vec<TaskId>)> = vec![
        (filter(&|f| f.state = Some(TaskState::Failed)), ids(&[&failed])),
        (filter(&|f| f.state = Some(TaskState::Completed)), ids(&[&completed])),
        (filter(&|f| f.state = Some(TaskState::Cancelled)), ids(&[&cancelled])),
        (filter(&|f| f.state = Some(TaskState::Running)), vec![running]),
        (filter(&|f| f.state = Some(TaskState::Queued)), ids(&[&waiting])),
        (filter(&|f| f.state = Some(TaskState::Waiting)), vec![]),
        (filter(&|f| f.failure = Some(FailureKind::Model)), ids(&[&failed])),
        (filter(&|f| f.failure = Some(FailureKind::Lost)), vec![]),
        (filter(&|f| f.agent = Some("scout".into())), ids(&[&completed, &failed])),
        (filter(&|f| f.agent = Some("scou".into())), vec![]),
        (filter(&|f| f.model = Some("other".into())), ids(&[&completed])),
        (filter(&|f| f.session = Some("no such".into())), vec![]),
        (
            filter(&|f| (f.agent, f.session) = (Some("writer".into()), Some("s".into()))),
            ids(&[&cancelled]),
        ),
        (filter(&|f| f.since = Some(now + TimeDelta::hours(1))), vec![]),
        (filter(&|f| f.until = Some(now - TimeDelta::hours(1))), vec![]),
        (
            filter(&|f| {
                f.agent = Some("writer".into());
                f.since = Some(now - TimeDelta::hours(1));
                f.until = Some(now + TimeDelta::hours(1));
            }),
            ids(&[&cancelled]),
        ),
        (filter(&|f| f.q = Some("WRIT".into())), ids(&[&cancelled])),
        (filter(&|f| f.q = Some("größe 50%".into())), ids(&[&completed])),
        (filter(&|f| f.q = Some("%".into())), ids(&[&completed])),
        (filter(&|f| f.q = Some("_".into())), vec![]),
        (filter(&|f| f.q = Some("t_03".into())), ids(&[&cancelled])),
        (filter(&|f| f.q = Some(failed.id.to_string())), ids(&[&failed])),
        (filter(&|f| f.q = Some(failed.id.to_string().to_uppercase())), ids(&[&failed])),
    ];
    for (filter, expected) in cases {
        assert_eq!(listed(&world, filter.clone()).await, expected, "{filter:?}");
    }
    let whole = filter(&|f| f.q = Some(failed.id.to_string()[..8].to_owned()));
    assert!(listed(&world, whole).await.contains(&failed.id), "the start of an id");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_for_a_nul_is_refused() {
    let world = World::new().await;
    let nul = TaskFilter { q: Some("\0".into()), ..all("a") };
    assert_refused(world.store.tasks(&nul, None, 1).await, ErrorCode::InvalidArgument);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_uses_the_names_of_the_wire() {
    let world = World::new().await;
    let session = world.session_with(|session| session.name = "s".to_owned()).await;
    let config =
        json!({"model": "main", "timeout_s": 2.5, "system_prompt": "Secret.", "max_turns": 3});
    let task = NewTask { config: config.as_object().unwrap().clone(), ..queued() };
    let spawned = world.spawn_one(session, task).await;
    let mut claim = world.claim_one(&world.worker().await).await;
    claim.lease.checkpoint(&turn("So far.")).await.unwrap();
    let page = world.store.tasks(&all("tenant"), None, 10).await.unwrap();
    let entry = serde_json::to_value(&page).unwrap()["tasks"][0].clone();
    assert_eq!(
        (
            &entry["state"],
            &entry["session_id"],
            &entry["task_id"],
            &entry["model"],
            &entry["turns_used"]
        ),
        (&json!("running"), &json!("s"), &json!("t_01"), &json!("main"), &json!(1))
    );
    assert_eq!(entry["cost_usd"], json!(3e-8));
    assert_eq!(entry["id"], json!(spawned.id.to_string()));
    assert!(entry["created_at"].as_str().unwrap().ends_with('Z'), "{entry}");
    assert!(entry.get("assignment").is_none() && entry.get("result").is_none(), "{entry}");

    claim
        .lease
        .fail(FailureKind::Tool, "broken".to_owned(), Some("So far.".to_owned()))
        .write()
        .await
        .unwrap();
    let record = world.store.task("tenant", spawned.id).await.unwrap();
    let record = serde_json::to_value(record).unwrap();
    assert_eq!(
        record["config"],
        json!({"model": "main", "timeout_s": 2.5, "max_turns": 3}),
        "no system prompt"
    );
    assert_eq!(
        (
            &record["state"],
            &record["failure"],
            &record["error"],
            &record["partial_result"],
            &record["timeout_s"]
        ),
        (&json!("failed"), &json!("tool"), &json!("broken"), &json!("So far."), &json!(2.5))
    );
    assert_eq!(record["attempts"][0]["outcome"], "failed");
    assert_eq!(record["attempts"][0]["worker_name"], "test");
    assert_eq!(record["assignment"], "Test it.");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_has_its_worker_its_dependencies_and_its_queue_position() {
    let world = World::new().await;
    let session = world.session_with(|session| session.max_active = Some(1)).await;
    let worker = world.worker().await;
    let tasks = world.spawn(session, 3).await;
    let record = async |place: usize| -> TaskRecord {
        world.store.task("tenant", tasks[place].id).await.unwrap()
    };
    world.claim_one(&worker).await.lease.release().write().await.unwrap();
    let running = world.claim_one(&worker).await;
    assert_eq!(running.lease.task(), tasks[0].id);
    let first = record(0).await;
    let outcomes: Vec<_> =
        first.attempts.iter().map(|attempt| attempt.outcome.as_deref()).collect();
    assert_eq!(outcomes, [Some("released"), None], "the one that runs it is there too");
    assert!(first.attempts.iter().all(|attempt| attempt.worker == worker.id()));
    assert_eq!((first.entry.task.state, first.queue_position), (TaskState::Running, None));
    assert_eq!(record(2).await.queue_position, Some(1));
    let depending =
        NewTask { depends_on: vec![adjutant_store::Dependency::Task(tasks[1].number)], ..queued() };
    let depending = world.spawn_one(session, depending).await;
    let depending = world.store.task("tenant", depending.id).await.unwrap();
    assert_eq!(depending.depends_on, ["t_02"]);
    assert_eq!(depending.waiting_for.as_deref(), Some("dependencies"));
}

#[tokio::test(flavor = "multi_thread")]
async fn another_tenants_task_is_unknown() {
    let world = World::new().await;
    let theirs = world.spawn(tenant_session(&world, "b").await, 1).await.remove(0).id;
    let never = TaskId::new();
    let (mut known, mut unknown) = (Vec::new(), Vec::new());
    for (task, messages) in [(theirs, &mut known), (never, &mut unknown)] {
        let store = &world.store;
        messages.push(assert_refused(store.task("a", task).await, ErrorCode::TaskNotFound));
        messages.push(assert_refused(store.find_task("a", task).await, ErrorCode::TaskNotFound));
        messages.push(assert_refused(
            store.task_turns("a", task, None, 10).await,
            ErrorCode::TaskNotFound,
        ));
        messages
            .push(assert_refused(store.retry_task("a", task, None).await, ErrorCode::TaskNotFound));
        for message in messages {
            *message = message.replace(&task.to_string(), "it");
        }
    }
    assert_eq!(known, unknown);
    let found = TaskFilter { q: Some(theirs.to_string()), ..all("a") };
    assert_eq!(listed(&world, found).await, []);
    let nothing = world.store.stats("a", None).await.unwrap();
    assert_eq!((nothing.total.tasks, nothing.queue.queued, nothing.agents.len()), (0, 0, 0));
    world.store.task("b", theirs).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn turns_are_paged_with_their_calls_and_results() {
    let world = World::new().await;
    let (_, _, mut claim) = world.one_running().await;
    let call =
        |id: &str, arguments| ToolUse { id: id.to_owned(), name: "look".to_owned(), arguments };
    let mut calling = turn("Looking.");
    calling.answer.content.extend([
        Block::ToolUse(call("one", Arguments::Json(json!({"q": 1})))),
        Block::ToolUse(call("two", Arguments::Malformed("{oops".to_owned()))),
    ]);
    claim.lease.checkpoint(&calling).await.unwrap();
    let result = ToolResult {
        call: "one".to_owned(),
        content: "Found.".to_owned(),
        ..ToolResult::default()
    };
    claim.lease.tool_result(None, &result).await.unwrap();
    let empty =
        Turn { answer: Answer::default(), model: Some("main".to_owned()), ..Turn::default() };
    claim.lease.checkpoint(&empty).await.unwrap();
    claim.lease.checkpoint(&turn("The end.")).await.unwrap();
    let task = claim.lease.task();
    let first = world.store.task_turns("tenant", task, None, 2).await.unwrap();
    assert_eq!(first.next_cursor.as_deref(), Some("2"));
    let [looking, nothing] = &first.turns[..] else { panic!("{first:?}") };
    assert_eq!((looking.text.as_deref(), looking.input_tokens), (Some("Looking."), 10));
    let results: Vec<_> =
        looking.tool_calls.iter().map(|call| (&call.arguments, call.result.is_some())).collect();
    assert_eq!(results, [(&json!({"q": 1}), true), (&json!("{oops"), false)]);
    assert_eq!(looking.tool_calls[0].result.as_ref().unwrap().content, "Found.");
    assert_eq!((nothing.text.as_deref(), nothing.model.as_deref()), (None, Some("main")));
    let second =
        world.store.task_turns("tenant", task, first.next_cursor.as_deref(), 2).await.unwrap();
    assert_eq!((second.turns.len(), second.next_cursor), (1, None));
    assert_refused(
        world.store.task_turns("tenant", task, Some("x"), 2).await,
        ErrorCode::InvalidArgument,
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn stats_are_the_sums_of_one_tenants_tasks() {
    let world = World::new().await;
    world.store.set_cap(7).await.unwrap();
    let worker = world.worker().await;
    let (session, other) = (tenant_session(&world, "a").await, tenant_session(&world, "b").await);
    world.spawn(session, 3).await;
    let mut claims = worker.claim(3).await.unwrap();
    for claim in &mut claims {
        claim.lease.checkpoint(&turn("So far.")).await.unwrap();
    }
    claims.remove(0).lease.complete("done".to_owned(), None).write().await.unwrap();
    claims
        .remove(0)
        .lease
        .fail(FailureKind::Budget, "poor".to_owned(), None)
        .write()
        .await
        .unwrap();
    world.spawn(session, 2).await;
    world.spawn(other, 4).await;
    let stats = world.store.stats("a", None).await.unwrap();
    assert_eq!((stats.total.tasks, stats.total.completed, stats.total.failed), (5, 1, 1));
    assert_eq!(
        (stats.total.turns, stats.total.input_tokens),
        (3, 30),
        "the one that runs is in it"
    );
    assert!((stats.total.cost_usd - 9e-8).abs() < 1e-15);
    assert_eq!(
        (stats.states["queued"], stats.states["running"], stats.states["waiting"]),
        (2, 1, 0)
    );
    assert_eq!((stats.failures["budget"], stats.failures["lost"]), (1, 0));
    assert_eq!((stats.agents["tester"].tasks, stats.models[""].tasks), (5, 5));
    assert_eq!(
        (stats.queue.queued, stats.slots.used, stats.slots.cap, stats.workers_alive),
        (2, 1, 7, 1)
    );
    assert!(stats.queue.oldest_s.unwrap() >= 0.0);
    let none = world.store.stats("a", Some(Utc::now() + TimeDelta::hours(1))).await.unwrap();
    assert_eq!((none.total.tasks, none.queue.queued), (0, 2), "the queue is as it is now");
    let json = serde_json::to_value(&stats).unwrap();
    assert_eq!(json["tasks"], 5, "the sums are at the top: {json}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_column_that_people_see_has_a_comment() {
    let world = World::new().await;
    let silent: Vec<String> = sqlx::query_scalar(
        "select format('%s.%s', c.relname, a.attname)
         from pg_class c
         join pg_attribute a on a.attrelid = c.oid
         where c.relnamespace = 'public'::regnamespace and c.relkind = 'v' and a.attnum > 0
             and c.relname not in ('living_worker', 'task_status', 'task_view', 'task_entry', 'usage_so_far', 'invariant_violation')
             and col_description(a.attrelid, a.attnum) is null",
    )
    .fetch_all(&world.sql)
    .await
    .unwrap();
    assert_eq!(silent, [""; 0]);
}
