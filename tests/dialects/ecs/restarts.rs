//! A restart of everything between any two calls changes no answer.

use adjutant_script::{Script, ScriptServer, When, text};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::private_postgres::PostgresServer;
use crate::support::test_server::TestServer;
use crate::support::worker_process::{WorkerProcess, work};
use crate::support::world::{World, until};

/// All processes of an installation, which can be killed and started again.
struct Installation {
    database: PostgresServer,
    world: World,
    config: String,
    folder: TempDir,
    running: Option<(TestServer, WorkerProcess)>,
}

impl Installation {
    async fn start(config: String) -> Self {
        let database = PostgresServer::start();
        let world = database.world().await;
        let folder = TempDir::new().unwrap();
        std::fs::write(folder.path().join("adjutant.toml"), &config).unwrap();
        let mut installation = Self { database, world, config, folder, running: None };
        installation.begin();
        installation
    }

    fn begin(&mut self) {
        let server = TestServer::of(&self.world, &self.config);
        let mut work = work(self.world.url());
        let worker = WorkerProcess::start(
            work.arg("--config").arg(self.folder.path().join("adjutant.toml")),
        );
        self.running = Some((server, worker));
    }

    /// Kills server and worker, stops the database, and starts all three again.
    fn restart(&mut self) {
        drop(self.running.take());
        self.database.stop();
        self.database.restart();
        self.begin();
    }

    async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.restart();
        let path = format!("/v1/sessions/s/tools/{tool}?dialect=ecs");
        let (server, _) = self.running.as_ref().unwrap();
        server.post(&path, &arguments.to_string()).await.ok(200)
    }

    async fn set_cap(&self, cap: i32) {
        until("the cap is set", async || self.world.store.set_cap(cap).await.is_ok()).await;
    }
}

fn script() -> Script {
    let envelope = "<subagent_background_result><summary>Short.</summary><full_result>Long.</full_result></subagent_background_result>";
    Script::new()
        .on(When::assignment("First"))
        .then(text(envelope))
        .on(When::assignment("Second"))
        .then(text("Plain."))
        .on(When::assignment("Last"))
        .then(text("At once."))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_of_every_process_between_any_two_calls_changes_no_answer() {
    let model = ScriptServer::start(script()).await.unwrap();
    let config = format!(
        "[models.main]\nwire = 'openai'\nbase_url = '{}'\n[agents.researcher]\ndescription = 'R'\nsystem_prompt = 'You research.'\n",
        model.openai_base_url()
    );
    let mut all = Installation::start(config).await;
    all.set_cap(0).await;
    all.running.as_ref().unwrap().0.post("/v1/sessions", r#"{"session_id": "s"}"#).await.ok(201);

    for (prompt, session) in [("First", "t_01"), ("Second", "t_02"), ("Third", "t_03")] {
        let launched = all
            .call(
                "subagent",
                json!({"category": "researcher", "prompt": prompt, "background": true}),
            )
            .await;
        let expected = json!({"session_id": session, "status": "queued", "category": "researcher", "lifecycle_status": "queued"});
        assert_eq!(launched, expected);
    }
    let second = all.call("subagent_status", json!({"session_id": "t_02"})).await;
    assert_eq!(
        (&second["lifecycle_status"], &second["queue_position"]),
        (&json!("queued"), &json!(1))
    );
    let cancelled = all.call("subagent_cancel", json!({"session_id": "t_03"})).await;
    assert_eq!(
        cancelled,
        json!({"status": "cancelled", "session_id": "t_03", "lifecycle_status": "cancelled"})
    );
    let still = all.call("subagent_status", json!({"session_id": "t_02"})).await;
    assert_eq!(still, second);
    all.set_cap(1).await;
    let first = all.call("subagent_result", json!({"session_id": "t_01"})).await;
    assert_eq!(
        (&first["lifecycle_status"], &first["inline_content"]),
        (&json!("succeeded"), &json!("Long."))
    );
    let missing =
        all.call("subagent_result", json!({"session_id": "t_02", "read_method": "summary"})).await;
    assert_eq!(
        missing["error"],
        "Summary not available for this session. Retry with read_method=\"full\"."
    );
    let reply = all.call("subagent_wait", json!({})).await;
    assert_eq!(
        reply,
        json!(
            "Background subagent updates:\n- t_01 succeeded. Call subagent_result(session_id=\"t_01\") for the full result or subagent_result(session_id=\"t_01\", read_method=\"summary\") for the cached summary.\n- t_02 succeeded. Call subagent_result(session_id=\"t_02\") for the full result."
        )
    );
    let again = all.call("subagent_wait", json!({})).await;
    assert!(
        again.as_str().unwrap().starts_with("There is nothing to wait for"),
        "told once: {again}"
    );
    assert_eq!(
        all.call("subagent_result", json!({"session_id": "t_01"})).await,
        first,
        "also its artifact's name"
    );
    let summary =
        all.call("subagent_result", json!({"session_id": "t_01", "read_method": "summary"})).await;
    assert_eq!(summary["inline_content"], "Short.");
    let table = all.call("subagent_status", json!({})).await;
    assert_eq!(
        table["summary_table"],
        "Session ID | Category | Status\nt_02 | researcher | succeeded\nt_01 | researcher | succeeded\nt_03 | researcher | cancelled"
    );
    let sync = all.call("subagent", json!({"category": "researcher", "prompt": "Last"})).await;
    assert_eq!(sync, json!("At once."));
    drop(all.running.take());
    model.finish();
}
