//! A database, a scripted model, HTTP tools, and a config that names them; workers and servers run
//! on it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use adjutant_agent::{FailureKind, SessionId, StoredTurn, TaskId, TaskState};
use adjutant_script::{RecordedRequest, Script, ScriptServer};
use adjutant_store::{NewDelegation, NewTask, Operator};
use sqlx::Row;
use tempfile::TempDir;

use crate::support::test_server::TestServer;
use crate::support::tool_server::ToolServer;
use crate::support::worker_process::{WorkerProcess, work};
use crate::support::world::{World, until_within};

/// The models of the config, by the names of their wires.
pub const WIRES: [&str; 2] = ["openai", "anthropic"];

/// How long a task may take; after the death of a worker it waits for a lease to expire.
const PATIENCE: Duration = Duration::from_secs(60);

/// The agent that may use every tool.
pub const CLERK: &str = "clerk";

pub struct Fleet {
    pub world: World,
    pub model: ScriptServer,
    pub tools: ToolServer,
    folder: TempDir,
}

impl Fleet {
    pub async fn new(script: Script) -> Self {
        Self::with(script, |_| String::new()).await
    }

    /// With additional config, which may use the address of the model.
    pub async fn with(script: Script, more: impl FnOnce(&ScriptServer) -> String) -> Self {
        let world = World::new().await;
        world.store.set_cap(30).await.unwrap();
        let model = ScriptServer::start(script).await.unwrap();
        let tools = ToolServer::start().await;
        let folder = TempDir::new().unwrap();
        std::fs::create_dir(folder.path().join("data")).unwrap();
        std::fs::write(folder.path().join("data/notes.txt"), "What the notes say.\n").unwrap();
        let models = WIRES.map(|wire| model_config(wire, wire, &model, "")).concat();
        let config = format!(
            "{}{models}{AGENTS}{}{}",
            "default_model = \"openai\"\n",
            tools.config(),
            more(&model)
        );
        std::fs::write(folder.path().join("adjutant.toml"), config).unwrap();
        Self { world, model, tools, folder }
    }

    pub fn file(&self, name: impl AsRef<Path>) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The command of a worker with this config, a short lease and a concurrency of 30.
    pub fn work(&self) -> Command {
        self.work_at(self.world.url())
    }

    /// The same command with another URL of the database.
    pub fn work_at(&self, url: &str) -> Command {
        let mut command = work(url);
        command.arg("--config").arg(self.file("adjutant.toml"));
        command.env("ADJUTANT_CONCURRENCY", "30").env("MODEL_KEY", KEY);
        command
    }

    /// A server with the same config as the workers.
    pub fn server(&self) -> TestServer {
        let config = std::fs::read_to_string(self.file("adjutant.toml")).unwrap();
        TestServer::of(&self.world, &config)
    }

    /// As [`Fleet::server`], with the log that operators have.
    pub fn server_with_default_log(&self) -> TestServer {
        let config = std::fs::read_to_string(self.file("adjutant.toml")).unwrap();
        TestServer::with_default_log(self.world.url(), &config)
    }

    pub fn worker(&self) -> WorkerProcess {
        WorkerProcess::start(&mut self.work())
    }

    /// A worker that takes only the tasks of one pool, one at a time, and dies at a fault point.
    pub fn doomed(&self, pool: &str, fault: &str) -> WorkerProcess {
        let mut work = self.work();
        WorkerProcess::start(
            work.args(["--pool", pool, "--concurrency", "1"]).env("ADJUTANT_FAULT", fault),
        )
    }

    /// A session whose agents use this model.
    pub async fn session(&self, model: &str) -> SessionId {
        self.world.session_with(|session| session.model = Some(model.to_owned())).await
    }

    /// Spawns a task for an agent, in a session of its own.
    pub async fn give(&self, model: &str, agent: &str, assignment: &str) -> TaskId {
        self.delegate(self.session(model).await, to(agent, assignment)).await
    }

    /// Spawns one task on each wire, in the order of [`WIRES`]. The assignment names the wire,
    /// because the script tells conversations apart by their first message.
    pub async fn give_on_both(&self, agent: &str, assignment: &str) -> [TaskId; 2] {
        let [one, other] = WIRES.map(|wire| (wire, format!("{assignment} ({wire})")));
        [self.give(one.0, agent, &one.1).await, self.give(other.0, agent, &other.1).await]
    }

    pub async fn delegate(&self, session: SessionId, new: NewDelegation) -> TaskId {
        // The config of the fleet has its own ceiling.
        let operator = Operator { max_turns_ceiling: 1000, ..Operator::default() };
        self.world.store.delegate(session, &new, &operator, None).await.unwrap().id
    }

    pub async fn run_on_both(&self, agent: &str, assignment: &str) -> [Done; 2] {
        let [one, other] = self.give_on_both(agent, assignment).await;
        [self.done(one).await, self.done(other).await]
    }

    /// Waits until a task has ended, and returns its row, its turns and its model requests.
    pub async fn done(&self, task: TaskId) -> Done {
        until_within(PATIENCE, &format!("task {task} has ended"), async || {
            self.state(task).await.is_terminal()
        })
        .await;
        self.look_at(task).await
    }

    pub async fn state(&self, task: TaskId) -> TaskState {
        let state: String = sqlx::query_scalar("select state from task_history where id = $1")
            .bind(task.0)
            .fetch_one(&self.world.sql)
            .await
            .unwrap();
        state.parse().unwrap()
    }

    pub async fn look_at(&self, task: TaskId) -> Done {
        let row = sqlx::query("select * from task_history where id = $1")
            .bind(task.0)
            .fetch_one(&self.world.sql)
            .await
            .unwrap();
        let assignment: String = row.get("assignment");
        let (state, failure): (String, Option<String>) = (row.get("state"), row.get("failure"));
        Done {
            task,
            state: state.parse().unwrap(),
            failure: failure.map(|failure| failure.parse().unwrap()),
            error: row.get("error"),
            result: row.get("result"),
            summary: row.get("summary"),
            partial_result: row.get("partial_result"),
            turns_used: row.get("turns_used"),
            attempt: row.get("attempt"),
            turns: self.world.store.turns(task).await.unwrap(),
            requests: self.model.requests_of(&assignment),
            assignment,
        }
    }

    /// Checks that the script had an answer to every request, that no request was made again after
    /// its answer, and that every task ended once.
    pub async fn close(self) {
        self.world.assert_ended_once().await;
        self.model.assert_nothing_answered_twice();
        self.model.finish();
    }
}

/// A task with its turns and the requests to its model.
#[derive(Debug)]
pub struct Done {
    pub task: TaskId,
    pub assignment: String,
    pub state: TaskState,
    pub failure: Option<FailureKind>,
    pub error: Option<String>,
    pub result: Option<String>,
    pub summary: Option<String>,
    pub partial_result: Option<String>,
    pub turns_used: i32,
    pub attempt: i32,
    pub turns: Vec<StoredTurn>,
    pub requests: Vec<RecordedRequest>,
}

impl Done {
    #[track_caller]
    pub fn assert_completed(&self, result: &str) {
        assert_eq!(
            (self.state, self.result.as_deref()),
            (TaskState::Completed, Some(result)),
            "{self:#?}"
        );
    }

    #[track_caller]
    pub fn assert_failed(&self, failure: FailureKind, error: &str) {
        assert_eq!(
            (self.state, self.failure, self.error.as_deref()),
            (TaskState::Failed, Some(failure), Some(error)),
            "{self:#?}"
        );
    }

    /// It failed because of this model of the script; the error names it and its host.
    #[track_caller]
    pub fn assert_model_failed(&self, fleet: &Fleet, model: &str, details: &str) {
        let host = fleet.model.address();
        let error = format!("Model API error: model `{model}` at {host}: {details}");
        self.assert_failed(FailureKind::Model, &error);
    }

    /// The tool results of a turn, in the order of the calls. Errors start with `error: `.
    pub fn results_of(&self, turn: usize) -> Vec<String> {
        let stored = &self.turns[turn - 1];
        let of = |id: &str| stored.tool_results.iter().find(|result| result.call == id);
        let calls = stored.turn.answer.tool_uses();
        calls
            .map(|call| match of(&call.id) {
                Some(result) if result.is_error => format!("error: {}", result.content),
                Some(result) => result.content.clone(),
                None => "nothing".to_owned(),
            })
            .collect()
    }
}

/// The key that models are called with.
pub const KEY: &str = "sk-none-of-your-business-4711";

/// A model of this wire under this name.
pub fn model_config(name: &str, wire: &str, server: &ScriptServer, more: &str) -> String {
    let base_url = match wire {
        "openai" => server.openai_base_url(),
        _ => server.anthropic_base_url(),
    };
    format!(
        "[models.{name}]\nwire = \"{wire}\"\nbase_url = \"{base_url}\"\napi_key_env = \"MODEL_KEY\"\nmodel = \"{name}-test\"\n{more}\n"
    )
}

pub fn to(agent: &str, assignment: &str) -> NewDelegation {
    let task = NewTask {
        agent: agent.to_owned(),
        assignment: assignment.to_owned(),
        ..NewTask::default()
    };
    NewDelegation { task, ..NewDelegation::default() }
}

const AGENTS: &str = r#"
[agents.clerk]
description = "Does what it is told"
system_prompt = "You are a clerk."
tools = ["shared_context", "fetch", "read_file", "lookup", "meet", "long", "pay", "held", "broken"]
max_turns = 25

[tools.files]
root = "./data"
"#;

/// The name of a pool for the worker that dies at this fault point.
pub fn pool_of(fault: &str) -> String {
    fault.replace(':', ".")
}
