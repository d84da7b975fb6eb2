//! Conversations that near the context window of their model: they are summed up and go on.

use adjutant_agent::{FailureKind, StoredTurn, TurnKind, prompts};
use adjutant_script::{Answer, RecordedRequest, Script, When, status, text, tool_call};
use adjutant_store::{NewDelegation, NewTask};
use serde_json::{Value, json};

use crate::support::fleet::{Done, Fleet, WIRES, model_config, to};
use crate::support::worker_process::WorkerProcess;

/// A part of the message that asks for a summary.
const NEARS: &str = "nears the limit of its length";

const RUNNER: &str = "
[agents.runner]
description = \"Runs for long\"
system_prompt = \"You run.\"
tools = [\"lookup\", \"long\"]
max_turns = 400

[agents.stubborn]
description = \"Sums nothing up\"
system_prompt = \"You run.\"
tools = [\"long\"]
compaction = \"off\"

[limits]
max_turns_ceiling = 400
";

/// Looks things up, and ends some turns after its third summary.
fn marathon() -> Script {
    let nears = |assignment: &str| When::last(NEARS).and(When::assignment(assignment));
    let lookup = || tool_call("lookup", json!({"word": "{turn}"}));
    Script::new()
        .on(nears("[second]"))
        .answer(text("[third]"))
        .on(nears("[first]"))
        .answer(text("[second]"))
        .on(When::last(NEARS))
        .answer(text("[first]"))
        .on(When::assignment("[third]"))
        .answer(lookup())
        .turn(15, text("Arrived."))
        .on(When::any())
        .answer(lookup())
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_turns_over_three_compactions_and_two_kills_make_the_same_requests() {
    let small = "context_window = 5200\nmax_tokens = 100";
    let models = |model: &_| {
        WIRES.map(|wire| model_config(&format!("{wire}_small"), wire, model, small)).concat()
    };
    let fleet = Fleet::with(marathon(), |model| models(model) + RUNNER).await;
    let _worker = fleet.worker();
    let calm = fleet.give("openai_small", "runner", "Run to the end, calm.").await;
    let other = fleet.give("anthropic_small", "runner", "Run to the end, far.").await;
    let calm = fleet.done(calm).await;
    assert_ran(&fleet, &calm).await;
    assert_ran(&fleet, &fleet.done(other).await).await;

    let places = compactions(&calm.turns);
    let session = fleet.session("openai_small").await;
    let pool = "risky";
    let task = NewTask { pool: pool.to_owned(), ..to("runner", "Run to the end, hurt.").task };
    // The first worker dies when it has stored the first summary, the next one before it asks for
    // the second.
    let first = format!("checkpointed:kill:{}", places[0]);
    let second = format!("calling:kill:{}", places[1] - places[0]);
    let mut doomed = fleet.doomed(pool, &first);
    let hurt = fleet.delegate(session, NewDelegation { task, ..NewDelegation::default() }).await;
    doomed.killed_itself().await;
    fleet.doomed(pool, &second).killed_itself().await;
    let _rescuer = WorkerProcess::start(fleet.work().args(["--pool", pool]));
    let hurt = fleet.done(hurt).await;
    assert_ran(&fleet, &hurt).await;
    assert_eq!(hurt.attempt, 3);
    let (calm, hurt) = (bodies(&calm), bodies(&hurt));
    assert_eq!(calm.len(), hurt.len());
    for (place, (calm, hurt)) in calm.iter().zip(&hurt).enumerate() {
        assert_eq!(calm, hurt, "request {place}");
    }
    fleet.close().await;
}

/// The numbers of the turns that sum up.
fn compactions(turns: &[StoredTurn]) -> Vec<i32> {
    let compactions = turns.iter().filter(|stored| stored.turn.kind == TurnKind::Compaction);
    compactions.map(|stored| stored.number).collect()
}

async fn assert_ran(fleet: &Fleet, done: &Done) {
    done.assert_completed("Arrived.");
    assert!(done.turns_used >= 200, "{}", done.turns_used);
    assert_eq!(compactions(&done.turns).len(), 3);
    assert_eq!(
        done.turns.len(),
        usize::try_from(done.turns_used).unwrap() + 3,
        "they are no turns"
    );
    assert_eq!(done.requests.len(), done.turns.len(), "each answer was requested once");
    let used: i64 = done.turns.iter().map(|stored| stored.turn.usage.input_tokens).sum();
    let counted: i64 = sqlx::query_scalar("select input_tokens from task_history where id = $1")
        .bind(done.task.0)
        .fetch_one(&fleet.world.sql)
        .await
        .unwrap();
    assert_eq!(counted, used, "compactions cost");
    let mut compacted = 0;
    for two in done.requests.windows(2) {
        let [(before, start), (after, whole)] = [parts(&two[0]), parts(&two[1])];
        assert_eq!(before, after, "system prompt and tools stay");
        if two[0].parsed.as_ref().unwrap().conversation
            != two[1].parsed.as_ref().unwrap().conversation
        {
            compacted += 1;
        } else {
            assert_eq!(start[..], whole[..start.len()], "a request begins as the one before");
        }
    }
    assert_eq!(compacted, 3);
}

/// What comes before the messages, and the messages, without the marks of the cache.
fn parts(request: &RecordedRequest) -> (Value, Vec<Value>) {
    let mut body = (**request.body.as_ref().unwrap()).clone();
    unmark(&mut body);
    let Value::Array(messages) = body["messages"].take() else { panic!("{body}") };
    (body, messages)
}

fn unmark(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.remove("cache_control");
            fields.values_mut().for_each(unmark);
        }
        Value::Array(items) => items.iter_mut().for_each(unmark),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The bodies of all requests, without the assignment and the ids that follow from it.
fn bodies(done: &Done) -> Vec<String> {
    let body = |request: &RecordedRequest| {
        let id = request.parsed.as_ref().unwrap().conversation.id;
        let body = request.body.as_ref().unwrap().to_string();
        body.replace(&format!("{id:016x}"), "ID").replace(&done.assignment, "TASK")
    };
    done.requests.iter().map(body).collect()
}

fn too_long() -> Answer {
    status(400).with_error(
        "invalid_request_error",
        "prompt is too long: this model's maximum context length is 8192 tokens",
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_the_provider_finds_too_long_is_summed_up_once() {
    let read = |word: &str| tool_call("long", json!({"word": word}));
    let script = Script::new()
        .on(When::last(NEARS))
        .answer(text("[sum]"))
        .on(When::assignment("[sum]"))
        .then(read("c"))
        .then(text("Read."))
        .on(When::any())
        .then(read("a"))
        .then(read("b"))
        .then(too_long());
    let fleet = Fleet::with(script, |_| RUNNER.to_owned()).await;
    let _worker = fleet.worker();
    for done in fleet.run_on_both("runner", "Read it all").await {
        done.assert_completed("Read.");
        let kinds: Vec<_> = done.turns.iter().map(|stored| stored.turn.kind).collect();
        use TurnKind::{Compaction, Turn};
        assert_eq!(kinds, [Turn, Turn, Compaction, Turn, Turn]);
        let request = done.requests[3].body.as_ref().unwrap().to_string();
        assert!(request.contains(prompts::COMPACT));
        let refused = done.requests[2].body.as_ref().unwrap().to_string();
        assert!(request.len() < refused.len(), "{} {}", request.len(), refused.len());
    }
    for done in fleet.run_on_both("stubborn", "Read it all, too").await {
        assert_eq!((done.failure, done.requests.len()), (Some(FailureKind::Model), 3));
        let error = done.error.unwrap();
        assert!(error.contains("prompt is too long"), "{error}");
    }
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_stays_too_long_fails_after_one_summary() {
    let script = Script::new()
        .on(When::last(NEARS))
        .answer(text("[sum]"))
        .on(When::assignment("[sum]"))
        .answer(too_long())
        .on(When::any())
        .then(tool_call("long", json!({"word": "a"})))
        .then(too_long());
    let fleet = Fleet::with(script, |_| RUNNER.to_owned()).await;
    let _worker = fleet.worker();
    for done in fleet.run_on_both("runner", "Stay too long").await {
        assert_eq!((done.failure, done.requests.len()), (Some(FailureKind::Model), 4));
        let kinds: Vec<_> = done.turns.iter().map(|stored| stored.turn.kind).collect();
        assert_eq!(kinds, [TurnKind::Turn, TurnKind::Compaction]);
        assert!(done.error.unwrap().contains("prompt is too long"));
    }
    fleet.close().await;
}
