use std::sync::{Arc, Mutex};

use adjutant_agent::{FailureKind, TaskState};
use adjutant_worker::{
    AttemptInfo, End, Handler, Hooked, Hooks, Settings, Stop, Stopped, Task, Worker,
};

use crate::support::world::{World, queued, until};

/// The behaviour of a hook after it has recorded its call.
#[derive(Clone, Copy)]
enum HookBehaviour {
    Good,
    Fails,
    Panics,
    Hangs,
}

/// The number of the attempt, and how it stopped if it is a `stopped` hook.
type Call = (i32, Option<Stopped>);

#[derive(Clone)]
struct RecordingHooks {
    calls: Arc<Mutex<Vec<Call>>>,
    behaviour: HookBehaviour,
}

impl RecordingHooks {
    fn with(behaviour: HookBehaviour) -> Self {
        Self { calls: Arc::default(), behaviour }
    }

    fn calls(&self) -> Vec<Call> {
        self.calls.lock().unwrap().clone()
    }

    async fn note(&self, attempt: &AttemptInfo, how: Option<Stopped>) -> Result<(), String> {
        self.calls.lock().unwrap().push((attempt.attempt, how));
        match self.behaviour {
            HookBehaviour::Good => Ok(()),
            HookBehaviour::Fails => Err("no".to_owned()),
            HookBehaviour::Panics => panic!("a hook that panics"),
            HookBehaviour::Hangs => std::future::pending().await,
        }
    }
}

impl Hooks for RecordingHooks {
    async fn started(&self, attempt: &AttemptInfo) -> Result<(), String> {
        self.note(attempt, None).await
    }

    async fn stopped(&self, attempt: &AttemptInfo, how: Stopped) -> Result<(), String> {
        self.note(attempt, Some(how)).await
    }
}

/// Ends a task as its assignment says.
struct ScriptedHandler;

impl Handler for ScriptedHandler {
    async fn run(&self, task: &mut Task) -> Result<End, Stop> {
        match task.assignment().text.as_str() {
            "fail" => Ok(End::Failed {
                failure: FailureKind::Tool,
                error: "as scripted".to_owned(),
                partial_result: None,
            }),
            "hand over" if task.attempt() == 1 => Ok(End::Released { delay: None }),
            "panic" => panic!("as scripted"),
            "hang" => std::future::pending().await,
            _ => Ok(End::Completed { result: "done".to_owned(), summary: None }),
        }
    }
}

async fn start(world: &World, hooks: &RecordingHooks) -> Worker {
    let settings = Settings::new(world.url(), "embedded");
    Worker::start(settings, Hooked::new(ScriptedHandler, hooks.clone())).await.unwrap()
}

/// Runs one task to its end and returns its state.
async fn run(world: &World, assignment: &str) -> TaskState {
    let session = world.session().await;
    let task = adjutant_store::NewTask { assignment: assignment.to_owned(), ..queued() };
    let spawned = world.spawn_one(session, task).await;
    until("the task has ended", async || world.state(session, spawned.number).await.is_terminal())
        .await;
    world.state(session, spawned.number).await
}

#[tokio::test(flavor = "multi_thread")]
async fn row_1_13_hooks_are_called_around_every_attempt() {
    let world = World::new().await;
    let hooks = RecordingHooks::with(HookBehaviour::Good);
    let _worker = start(&world, &hooks).await;
    for (assignment, state, calls) in [
        ("complete", TaskState::Completed, vec![(1, None), (1, Some(Stopped::Completed))]),
        ("fail", TaskState::Failed, vec![(1, None), (1, Some(Stopped::Failed(FailureKind::Tool)))]),
        (
            "hand over",
            TaskState::Completed,
            vec![
                (1, None),
                (1, Some(Stopped::Interrupted)),
                (2, None),
                (2, Some(Stopped::Completed)),
            ],
        ),
    ] {
        hooks.calls.lock().unwrap().clear();
        assert_eq!(run(&world, assignment).await, state);
        assert_eq!(hooks.calls(), calls, "{assignment}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn row_1_13_a_hook_that_fails_panics_or_hangs_harms_no_task() {
    for behaviour in [HookBehaviour::Fails, HookBehaviour::Panics, HookBehaviour::Hangs] {
        let world = World::new().await;
        let hooks = RecordingHooks::with(behaviour);
        let _worker = start(&world, &hooks).await;
        assert_eq!(run(&world, "complete").await, TaskState::Completed);
        assert_eq!(hooks.calls(), [(1, None), (1, Some(Stopped::Completed))]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hook_is_called_when_a_task_is_taken_from_its_handler() {
    let world = World::new().await;
    let hooks = RecordingHooks::with(HookBehaviour::Good);
    let _worker = start(&world, &hooks).await;
    let session = world.session().await;
    let hanging = adjutant_store::NewTask { assignment: "hang".to_owned(), ..queued() };
    let hanging = world.spawn_one(session, hanging).await;
    until("it runs", async || hooks.calls() == [(1, None)]).await;
    world.store.cancel(hanging.id).await.unwrap();
    let cut_off = (1, Some(Stopped::CutOff));
    until("its end is told", async || hooks.calls() == [(1, None), cut_off]).await;
    assert_eq!(run(&world, "panic").await, TaskState::Failed);
    until("the panic is told", async || hooks.calls()[2..] == [(1, None), cut_off]).await;
}
