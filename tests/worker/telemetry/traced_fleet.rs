//! Workers that send spans to a collector, with a scripted model of their own.

use std::path::Path;
use std::process::Command;

use adjutant_agent::{SessionId, TaskNumber, TaskState};
use adjutant_script::{Script, ScriptServer};
use adjutant_store::NewTask;
use serde_json::json;
use tempfile::TempDir;

use crate::support::world::{World, task, until};

pub struct TracedFleet {
    pub world: World,
    pub model: ScriptServer,
    pub dir: TempDir,
    pub session: SessionId,
}

impl TracedFleet {
    pub async fn new(script: Script) -> Self {
        let world = World::new().await;
        let session = world.session_with(|new| new.name = "review".to_owned()).await;
        let model = ScriptServer::start(script).await.unwrap();
        let fleet = Self { world, model, dir: TempDir::new().unwrap(), session };
        fleet.configure("");
        fleet
    }

    /// Writes the config; `more` has settings that are in no table.
    pub fn configure(&self, more: &str) {
        let (url, files) = (self.model.openai_base_url(), self.file("files"));
        std::fs::create_dir_all(&files).unwrap();
        let config = format!(
            "{more}\n[models.main]\nwire = 'openai'\nbase_url = '{url}'\nmodel = 'gpt-test'\napi_key_env = 'TEST_KEY'\n\
             [tools.files]\nroot = '{}'\n",
            files.display()
        );
        std::fs::write(self.config(), config).unwrap();
    }

    /// Adds tables to the config.
    pub fn configure_also(&self, tables: &str) {
        let before = std::fs::read_to_string(self.config()).unwrap();
        std::fs::write(self.config(), before + tables).unwrap();
    }

    pub fn config(&self) -> std::path::PathBuf {
        self.file("adjutant.toml")
    }

    pub fn file(&self, name: impl AsRef<Path>) -> std::path::PathBuf {
        self.dir.path().join(name)
    }

    /// A worker that exports its spans at once.
    pub fn work(&self, collector: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_adjutant"));
        command
            .args(["work", "--database-url", self.world.url(), "--config"])
            .arg(self.config())
            .env("TEST_KEY", "sk-0123456789")
            .env("ADJUTANT_LEASE_SECONDS", "2")
            .env("OTEL_EXPORTER_OTLP_ENDPOINT", collector)
            .env("OTEL_BSP_SCHEDULE_DELAY", "20");
        command
    }

    pub async fn spawn(&self, new: NewTask) -> TaskNumber {
        self.world.spawn_one(self.session, new).await.number
    }

    pub async fn until_ended(&self, number: TaskNumber, state: TaskState) {
        until(&format!("{number} is {state}"), async || {
            self.world.state(self.session, number).await == state
        })
        .await;
    }
}

/// A task of an agent with these tools.
pub fn agent(assignment: &str, tools: &[&str]) -> NewTask {
    let config = json!({"model": "main", "tools": tools, "system_prompt": "You are a tester."});
    NewTask {
        agent: "researcher".to_owned(),
        assignment: assignment.to_owned(),
        config: config.as_object().cloned().unwrap(),
        ..task()
    }
}
