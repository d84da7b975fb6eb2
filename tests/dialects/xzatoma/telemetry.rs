//! Row 3.16 with servers and workers as processes: the process that stores the end of a subagent
//! logs it, once.

use std::sync::Arc;

use adjutant_script::{Script, Usage, When, status, text, tool_call};
use adjutant_server::Dialect;
use serde_json::{Value, json};

use crate::support::blocking_orchestrator::SESSION;
use crate::support::fleet::{Fleet, model_config};
use crate::support::test_server::TestServer;
use crate::support::tool_client::{ToolClient, Transport};
use crate::support::worker_process::WorkerProcess;
use crate::support::world::until;

struct Setup {
    fleet: Fleet,
    servers: [Arc<TestServer>; 2],
    workers: Vec<WorkerProcess>,
}

impl Setup {
    /// Two servers whose calls time out soon, and no worker.
    async fn of(script: Script, more: &str) -> Self {
        let fleet = Fleet::new(script).await;
        let model = model_config("openai", "openai", &fleet.model, "");
        let config =
            format!("default_model = \"openai\"\n{model}[dialects]\nlongest_wait_s = 0.1\n{more}");
        let servers = [(); 2].map(|()| Arc::new(TestServer::of(&fleet.world, &config)));
        servers[0].post("/v1/sessions", &json!({"session_id": SESSION}).to_string()).await.ok(201);
        Self { fleet, servers, workers: Vec::new() }
    }

    async fn call(&self, server: usize, arguments: Value) -> Value {
        ToolClient::connect(
            self.servers[server].clone(),
            Transport::Http,
            Dialect::Xzatoma,
            None,
            SESSION,
        )
        .await
        .delegate(arguments)
        .await
    }

    async fn give(&self, label: &str, task_prompt: &str) -> String {
        let given =
            self.call(0, json!({"label": label, "task_prompt": task_prompt, "max_turns": 2})).await;
        given["metadata"]["task_id"].as_str().unwrap().to_owned()
    }

    fn works(&mut self, fault: Option<&str>) {
        let mut work = self.fleet.work();
        self.workers
            .push(WorkerProcess::start(work.envs(fault.map(|fault| ("ADJUTANT_FAULT", fault)))));
    }

    /// The logged events of the subagents with this label, and the processes that logged them.
    fn events_of(&self, label: &str) -> Vec<(String, Value)> {
        let servers = self
            .servers
            .iter()
            .zip(1..)
            .map(|(server, nth)| (format!("server {nth}"), server.stderr()));
        let workers = self
            .workers
            .iter()
            .zip(1..)
            .map(|(worker, nth)| (format!("worker {nth}"), worker.stderr()));
        let mut logged = Vec::new();
        for (who, said) in servers.chain(workers) {
            let events =
                events_in(&said).into_iter().filter(|event| event["subagent.label"] == label);
            logged.extend(events.map(|event| (who.clone(), event)));
        }
        logged
    }

    /// The names of the events, as soon as the last of them is this one.
    async fn told_until(&self, label: &str, last: &str) -> Vec<String> {
        let names = || -> Vec<String> {
            self.events_of(label).iter().map(|(_, event)| name_of(event)).collect()
        };
        until(&format!("{last} of {label}"), async || {
            names().last().is_some_and(|name| name == last)
        })
        .await;
        names()
    }
}

/// The lines of a log that are events of subagents.
pub fn events_in(said: &str) -> Vec<Value> {
    let lines = said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.filter(|line| line["subagent.event"].is_string()).collect()
}

pub fn name_of(event: &Value) -> String {
    event["subagent.event"].as_str().unwrap().to_owned()
}

fn script() -> Script {
    let usage = Usage { input_tokens: 10, output_tokens: 2, ..Usage::default() };
    let list = tool_call("shared_context", json!({"action": "list"}));
    Script::new()
        .on(When::last("Summarize").and(When::assignment("Talk")))
        .answer(text("x".repeat(5_000)).with_usage(usage))
        .on(When::assignment("Talk"))
        .answer(text("All of it.").with_usage(usage))
        .on(When::assignment("Dawdle"))
        .answer(list)
        .on(When::assignment("Stumble"))
        .answer(status(400).with_error("invalid_request_error", "the secret"))
}

#[tokio::test(flavor = "multi_thread")]
async fn row_3_16_an_end_without_a_waiting_caller_is_logged_once_by_its_worker() {
    let mut setup = Setup::of(script(), "").await;
    let mut tasks = Vec::new();
    for (label, prompt) in [("wordy", "Talk."), ("slow", "Dawdle."), ("clumsy", "Stumble.")] {
        tasks.push(setup.give(label, prompt).await);
    }
    setup.works(None);
    setup.works(None);
    let ends = [
        ("wordy", &["spawn", "truncation", "complete"][..]),
        ("slow", &["spawn", "max_turns_exceeded", "complete"]),
        ("clumsy", &["spawn", "error"]),
    ];
    for (label, events) in ends {
        assert_eq!(setup.told_until(label, events.last().unwrap()).await, events);
        let logged = setup.events_of(label);
        let tellers: Vec<&str> = logged.iter().map(|(who, _)| who.as_str()).collect();
        assert_eq!(tellers[0], "server 1");
        assert!(
            tellers[1].starts_with("worker") && tellers[1..].iter().all(|who| *who == tellers[1]),
            "{logged:?}"
        );
    }
    let fields = |label: &str, nth: usize, fields: Value| {
        for (field, value) in fields.as_object().unwrap() {
            let logged = &setup.events_of(label)[nth].1;
            assert_eq!(&logged[format!("subagent.{field}")], value, "{field} of {logged}");
        }
    };
    fields("wordy", 1, json!({"original_size": 5_000, "truncated_size": 4_096}));
    fields(
        "wordy",
        2,
        json!({"depth": 1, "turns_used": 2, "tokens_consumed": 24, "status": "complete"}),
    );
    fields("slow", 1, json!({"depth": 1, "max_turns": 2}));
    fields("slow", 2, json!({"depth": 1, "status": "incomplete"}));
    fields("clumsy", 1, json!({"depth": 1, "error": "model"}));

    // Reading the answer again, at either server, logs nothing more.
    for server in [0, 1, 0, 1] {
        for (task, success) in tasks.iter().zip([true, true, false]) {
            let shown = setup.call(server, json!({"task_id": task})).await;
            assert_eq!(shown["success"], success, "{shown}");
        }
    }
    for (label, events) in ends {
        assert_eq!(setup.events_of(label).len(), events.len());
    }
    let said: String = setup.workers.iter().map(|worker| worker.stderr()).collect();
    assert!(!said.contains("the secret") && !said.contains("Dawdle"), "{said}");
    setup.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn row_3_16_an_end_is_not_logged_if_the_callers_telemetry_is_off() {
    let mut setup = Setup::of(script(), "[dialects.xzatoma]\ntelemetry_enabled = false\n").await;
    setup.give("wordy", "Talk.").await;
    setup.works(None);
    setup.workers[0].until_logged("delegation.completed").await;
    setup.workers[0].signal("TERM");
    setup.workers[0].exited().await;
    assert!(setup.events_of("wordy").is_empty());
    setup.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn row_3_16_an_end_that_uses_up_the_tokens_logs_that_too() {
    let mut setup = Setup::of(script(), "[dialects.xzatoma]\nmax_total_tokens = 23\n").await;
    let task = setup.give("wordy", "Talk.").await;
    setup.works(None);
    let logged = setup.told_until("wordy", "quota_exceeded").await;
    assert_eq!(logged, ["spawn", "truncation", "complete", "quota_exceeded"]);
    for server in [0, 1] {
        assert_eq!(setup.call(server, json!({"task_id": task})).await["success"], false);
    }
    assert_eq!(setup.events_of("wordy").len(), 4);
    setup.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn row_3_16_a_worker_that_lost_its_lease_logs_no_end() {
    let mut setup = Setup::of(script(), "").await;
    // The lease is lost right after the last turn, before the end.
    let lose = "create function lose() returns trigger language plpgsql as $$
        begin update slot set lease = gen_random_uuid() where task = new.task; return null; end $$";
    let when = "create trigger lose after insert on turn for each row when (new.kind = 'summary') execute function lose()";
    for statement in [lose, when] {
        sqlx::query(statement).execute(&setup.fleet.world.sql).await.unwrap();
    }
    setup.give("wordy", "Talk.").await;
    setup.works(None);
    assert_eq!(setup.told_until("wordy", "complete").await, ["spawn", "truncation", "complete"]);
    let said = setup.workers[0].stderr();
    assert_eq!(said.matches("wordy").count(), 2, "{said}");
    assert_eq!(said.matches("delegation.started").count(), 2, "{said}");
    assert_eq!(said.matches("delegation.completed").count(), 1, "{said}");
    setup.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn row_3_16_a_subagent_lost_with_its_worker_is_logged_by_the_sweeper() {
    let mut setup = Setup::of(script(), "").await;
    setup.works(Some("claimed:kill"));
    setup.give("wordy", "Talk.").await;
    setup.workers[0].killed_itself().await;
    sqlx::query("update task set max_failures = 1").execute(&setup.fleet.world.sql).await.unwrap();
    setup.works(None);
    assert_eq!(setup.told_until("wordy", "error").await, ["spawn", "error"]);
    let (who, error) = setup.events_of("wordy").remove(1);
    assert_eq!((who.as_str(), &error["subagent.error"]), ("worker 2", &json!("lost")));
    setup.fleet.close().await;
}
