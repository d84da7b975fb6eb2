//! The log of a worker.

use adjutant_script::{Script, When, status, text, tool_call};
use serde_json::{Value, json};

use crate::support::fleet::{CLERK, Fleet, KEY, WIRES};
use crate::support::process::Process;
use crate::support::worker_process::WorkerProcess;
use crate::support::world::until;

#[tokio::test(flavor = "multi_thread")]
async fn no_key_and_no_payload_is_logged_at_any_level() {
    let repeats = format!("You sent ASSIGNMENT-WORDS with {KEY}, and I repeat it: BODY-WORDS");
    let script = Script::new()
        .on(When::assignment("refused"))
        .then(status(400).with_error("invalid_request_error", &repeats))
        .on(When::assignment("limited"))
        .then([
            status(429).retry_after(0.1).with_error("rate_limit_error", &repeats),
            text("ANSWER-WORDS"),
        ])
        .on(When::any())
        .then(text("ANSWER-WORDS").and_call("lookup", json!({"word": "ARGUMENT-WORDS"})))
        .then(tool_call(
            "shared_context",
            json!({"action": "write", "key": "k", "value": "VALUE-WORDS"}),
        ))
        .then(
            tool_call("lookup", json!({"word": "ARGUMENT-WORDS"}))
                .and_call("broken", json!({"word": "ARGUMENT-WORDS"})),
        )
        .then(text("RESULT-WORDS"));
    let fleet = Fleet::with(script, |_| {
        "[agents.secretive]\ndescription = \"DESCRIPTION-WORDS\"\nsystem_prompt = \"PROMPT-WORDS\"\ntools = [\"lookup\", \"broken\", \"shared_context\"]\n".to_owned()
    })
    .await;
    let worker = WorkerProcess::start(fleet.work().args(["--log", "trace"]));
    for done in fleet.run_on_both("secretive", "ASSIGNMENT-WORDS").await {
        done.assert_completed("RESULT-WORDS");
        assert!(done.requests.iter().all(|request| request.has_key(KEY)), "the key is sent");
    }
    for done in fleet.run_on_both(CLERK, "ASSIGNMENT-WORDS to be limited").await {
        done.assert_completed("ANSWER-WORDS");
    }
    let refused = fleet.run_on_both(CLERK, "ASSIGNMENT-WORDS to be refused").await;
    for (done, model) in refused.into_iter().zip(WIRES) {
        let said = repeats.replace(KEY, "***");
        done.assert_model_failed(&fleet, model, &format!("400 invalid_request_error: {said}"));
        worker.until_logged(&format!("model call for task {} failed, giving up", done.task)).await;
    }
    worker.until_logged("called lookup").await;
    let said = worker.stderr();
    let spoken = said.lines().find(|line| line.contains("-WORDS") || line.contains(KEY));
    assert_eq!(spoken, None);
    assert!(said.contains("400 invalid_request_error"), "what failed is said");
    fleet.close().await;
}

/// A worker with the log that operators have.
fn with_default_log(fleet: &Fleet, more: &[&str]) -> WorkerProcess {
    WorkerProcess::start(fleet.work().env_remove("ADJUTANT_LOG").args(more))
}

fn lines(process: &Process) -> Vec<Value> {
    process.stderr().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn messages(lines: &[Value]) -> Vec<&str> {
    lines.iter().map(|line| line["message"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_good_day_is_one_line_for_each_start_and_each_end() {
    let calls = tool_call("lookup", json!({"word": "x"}));
    let fleet = Fleet::new(Script::new().on(When::any()).then(calls).then(text("Done."))).await;
    let server = fleet.server_with_default_log();
    let worker = with_default_log(&fleet, &[]);
    let session = json!({"session_id": "s", "model": "openai"});
    server.post("/v1/sessions", &session.to_string()).await.ok(201);
    let path = "/v1/sessions/s/tools/subagent";
    for number in 1..=10 {
        let call = json!({"action": "spawn", "agent": CLERK, "task": format!("Do {number}."), "queue": true});
        server.post(path, &call.to_string()).await.ok(200);
        let status = json!({"action": "status", "task_id": format!("t_{number:02}")});
        server.post(path, &status.to_string()).await.ok(200);
    }
    server
        .post(path, r#"{"action": "status", "task_id": "t_99"}"#)
        .await
        .refused(404, "TASK_NOT_FOUND");
    let completed = |worker: &WorkerProcess| worker.stderr().matches(" completed\"").count();
    until("all have ended", async || completed(&worker) == 10).await;

    let of_server = lines(&server);
    assert_eq!(of_server.len(), 2, "start and ready: {:?}", messages(&of_server));
    let of_worker = lines(&worker);
    assert_eq!(of_worker.len(), 22, "start, ready, and two a task: {:?}", messages(&of_worker));
    for line in of_server.iter().chain(&of_worker) {
        assert_eq!(line["level"], "INFO", "{line}");
    }
    assert!(of_worker[0]["message"].as_str().unwrap().contains("work starts: config"));
    for number in 1..=10 {
        let number = format!("t_{number:02}");
        let of_task: Vec<_> =
            of_worker.iter().filter(|line| line["task.number"] == number).collect();
        let actions: Vec<_> = of_task.iter().map(|line| &line["action"]).collect();
        assert_eq!(actions, ["start", "end"], "{number}");
        for line in of_task {
            let ids = ["tenant", "session.id", "agent.name", "worker.id"].map(|id| &line[id]);
            let worker = json!(worker.id.to_string());
            assert_eq!(ids, [&json!("default"), &json!("s"), &json!(CLERK), &worker], "{line}");
            assert!(line["task.id"].is_string() && line["worker.name"].is_string(), "{line}");
        }
    }
    fleet.close().await;
}

/// Clears a screen.
const EVIL: &str = "\u{1b}[2J\u{202e}\nforged";

fn troubles() -> Script {
    Script::new()
        .on(When::assignment("refused"))
        .then(status(400).with_error("invalid_request_error", EVIL))
        .on(When::any())
        .then(tool_call("broken", json!({})).and_call("broken", json!({"again": EVIL})))
        .then(text("Done."))
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_tasks_and_failed_tools_are_warnings_with_their_kind() {
    let fleet = Fleet::new(troubles()).await;
    let worker = with_default_log(&fleet, &[]);
    for assignment in ["Use a tool.", "Be refused."] {
        let task = fleet.give("openai", CLERK, assignment).await;
        fleet.done(task).await;
    }
    worker.until_logged(" failed (model)").await;
    let lines = lines(&worker);
    let warnings: Vec<_> = lines.iter().filter(|line| line["level"] == "WARN").collect();
    assert_eq!(warnings.len(), 3, "{:?}", messages(&lines));
    let (tool, call, end) = (warnings[0], warnings[1], warnings[2]);
    assert_eq!((&tool["tool.name"], &tool["error.type"]), (&json!("broken"), &json!("http_5xx")));
    assert!(call["message"].as_str().unwrap().contains("giving up"), "{call}");
    assert_eq!((&end["action"], &end["task.failure"]), (&json!("end"), &json!("model")), "{end}");
    for line in warnings {
        assert!(line["task.id"].is_string() && line["worker.id"].is_string(), "{line}");
        assert_eq!(
            (&line["tenant"], &line["agent.name"]),
            (&json!("tenant"), &json!(CLERK)),
            "{line}"
        );
        assert!(line["session.id"].is_string(), "{line}");
    }
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_log_has_ids_and_is_escaped() {
    let fleet = Fleet::with(troubles(), |_| {
        "[agents.evil]\ndescription = \"x\"\nsystem_prompt = \"a\\u001B[2J\\nforged\"\n".to_owned()
    })
    .await;
    let mut work = fleet.work();
    work.env_remove("ADJUTANT_LOG").env("ADJUTANT_LOG_PAYLOADS", "true");
    let worker = WorkerProcess::start(work.args(["--log-format", "text"]));
    let refused = fleet.give("openai", "evil", &format!("Be refused. {EVIL}")).await;
    fleet.done(refused).await;
    worker.until_logged(" failed (model)").await;
    let said = worker.stderr();
    let has_control = |c: char| c.is_control() && c != '\n' || c == '\u{202e}';
    assert!(!said.contains(has_control), "{said:?}");
    assert!(said.lines().all(|line| !line.starts_with("forged")), "{said}");
    for escaped in ["a\\x1b[2J\\nforged", "\\u{202e}"] {
        assert!(said.contains(escaped), "{escaped} in {said}");
    }
    let end = said.lines().find(|line| line.contains("failed (model)")).unwrap();
    for id in ["worker=", "tenant=tenant", "session=", "task=t_01", "agent=evil"] {
        assert!(end.contains(id), "{id} in {end}");
    }
    fleet.close().await;
}
