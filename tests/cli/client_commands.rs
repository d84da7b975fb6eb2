//! The commands that call a server, against canned answers.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::support::canned_server::{CannedServer, Reply};
use crate::support::process::{assert_says, signal, wait_until};

const SUBAGENT: &str = "POST /v1/sessions/default/tools/subagent";

/// A command with the URL of a server, and without settings from the environment.
pub fn adjutant(url: &str, line: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_adjutant"));
    for name in
        ["ADJUTANT_URL", "ADJUTANT_API_KEY", "ADJUTANT_SESSION", "ADJUTANT_CONFIG", "DATABASE_URL"]
    {
        command.env_remove(name);
    }
    command.env("ADJUTANT_URL", url).args(line).stdin(Stdio::null());
    command
}

pub fn says(status: u16, body: Value) -> Reply {
    Reply::Json(status, body.to_string())
}

pub fn refuses(status: u16, code: &str) -> Reply {
    says(status, json!({"error": code, "message": "No."}))
}

fn spawned() -> Reply {
    says(
        200,
        json!({"task_id": "t_03", "agent": "clerk", "status": "running", "phase": "queued", "queue_position": 0}),
    )
}

fn ended(status: &str) -> Value {
    json!({"task_id": "t_03", "agent": "clerk", "status": status, "turns_used": 2})
}

pub fn waited(status: &str) -> Reply {
    says(200, json!({"tasks": [ended(status)], "timed_out": false}))
}

fn collected(result: &str) -> Reply {
    let mut answer = ended("completed");
    answer["result"] = json!(result);
    says(200, answer)
}

pub fn code(output: &Output) -> Option<i32> {
    output.status.code()
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_spawn_prints_the_id_and_creates_the_session_that_it_needs() -> Result<()> {
    let server = CannedServer::new([
        refuses(404, "SESSION_NOT_FOUND"),
        says(201, json!({"session_id": "default"})),
        spawned(),
    ]);
    let output = adjutant(&server.url(), &["spawn", "clerk", "count"]).output()?;
    assert_eq!((code(&output), stdout(&output).as_str()), (Some(0), "t_03\n"), "{output:?}");
    assert_says(&stderr(&output), &["adjutant collect t_03 --wait", &server.url()]);
    let requests = server.assert_requests(&[SUBAGENT, "POST /v1/sessions", SUBAGENT]);
    assert_eq!(requests[1].body, json!({"session_id": "default"}));
    assert_eq!(
        (&requests[0].body["agent"], &requests[0].body["task"]),
        (&json!("clerk"), &json!("count"))
    );
    assert_eq!(requests[0].body, requests[2].body);
    Ok(())
}

#[test]
fn a_spawn_whose_answer_is_lost_is_retried_with_the_same_key() -> Result<()> {
    let server = CannedServer::new([Reply::CutOff, spawned()]);
    let output = adjutant(&server.url(), &["spawn", "clerk", "count"]).output()?;
    assert_eq!((code(&output), stdout(&output).as_str()), (Some(0), "t_03\n"), "{output:?}");
    assert_says(&stderr(&output), &["does not answer", "retrying", "the server is back"]);
    let requests = server.assert_requests(&[SUBAGENT, SUBAGENT]);
    assert!(requests[0].body["idempotency_key"].is_string());
    assert_eq!(requests[0].body, requests[1].body);
    Ok(())
}

#[test]
fn a_result_whose_answer_is_lost_is_requested_again_with_the_same_key() -> Result<()> {
    let server = CannedServer::new([Reply::CutOff, collected("42")]);
    let output = adjutant(&server.url(), &["collect", "t_03"]).output()?;
    assert_eq!((code(&output), stdout(&output).as_str()), (Some(0), "42\n"), "{output:?}");
    let requests = server.assert_requests(&[SUBAGENT, SUBAGENT]);
    assert!(requests[0].body["idempotency_key"].is_string());
    assert_eq!(requests[0].body, requests[1].body);
    Ok(())
}

#[test]
fn a_task_is_read_from_a_pipe() -> Result<()> {
    for line in [&["spawn", "clerk"][..], &["spawn", "clerk", "-"]] {
        let server = CannedServer::new([spawned()]);
        let mut child =
            adjutant(&server.url(), line).stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;
        child.stdin.take().context("no stdin")?.write_all("zähle\nbis drei\n".as_bytes())?;
        ensure!(child.wait()?.success());
        assert_eq!(server.requests()[0].body["task"], "zähle\nbis drei");
    }
    Ok(())
}

#[test]
fn spawn_and_wait_prints_the_whole_result_and_nothing_else() -> Result<()> {
    let mut cut: Value = ended("completed");
    cut["result"] = json!("all of\n[truncated]");
    cut["truncated"] = json!(true);
    let page = |text: &str, next: Value| {
        says(200, json!({"task_id": "t_03", "text": text, "next_offset": next}))
    };
    let server = CannedServer::new([
        spawned(),
        says(200, json!({"tasks": [], "timed_out": true})),
        waited("completed"),
        says(200, cut),
        page("all of ", json!(7)),
        page("it", Value::Null),
    ]);
    let output = adjutant(&server.url(), &["spawn", "clerk", "count", "--wait"]).output()?;
    assert_eq!((code(&output), stdout(&output).as_str()), (Some(0), "all of it\n"), "{output:?}");
    assert_says(&stderr(&output), &["t_03 clerk completed after 2 turns"]);
    let requests = server.assert_requests(&[SUBAGENT; 6]);
    let actions: Vec<&str> =
        requests.iter().filter_map(|requests| requests.body["action"].as_str()).collect();
    assert_eq!(actions, ["spawn", "wait", "wait", "collect", "read", "read"]);
    assert_eq!(
        requests[1].body,
        json!({"action": "wait", "mode": "all", "task_ids": ["t_03"], "timeout_s": 45.0})
    );
    assert_eq!(requests[5].body["offset"], 7);
    Ok(())
}

#[test]
fn a_failed_task_leaves_nothing_on_standard_output() -> Result<()> {
    let mut failed = ended("failed");
    failed["error"] = json!("Max turns exceeded without producing a final response");
    failed["partial_result"] = json!("half of it");
    let server = CannedServer::new([says(200, failed)]);
    let output = adjutant(&server.url(), &["collect", "t_03"]).output()?;
    assert_eq!((code(&output), stdout(&output).as_str()), (Some(3), ""), "{output:?}");
    assert_says(&stderr(&output), &["Max turns exceeded", "half of it"]);
    Ok(())
}

#[test]
fn a_wait_resumes_when_the_server_is_back() -> Result<()> {
    let mut server = CannedServer::new([Reply::Never, waited("completed")]);
    let child = adjutant(&server.url(), &["wait", "t_03"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    wait_until("the command waits", || !server.requests().is_empty())?;
    server.stop();
    server.restart();
    let output = child.wait_with_output()?;
    assert_eq!(code(&output), Some(0), "{output:?}");
    assert_eq!(stdout(&output), "t_03 clerk completed after 2 turns\n");
    assert_says(&stderr(&output), &["retrying"]);
    Ok(())
}

#[test]
fn a_wait_that_times_out_says_how_to_continue() -> Result<()> {
    // A server that is stopping answers early; the command must wait again.
    let timed_out = || says(200, json!({"tasks": [], "timed_out": true}));
    let server = CannedServer::new(std::iter::repeat_with(timed_out).take(20));
    let output = adjutant(&server.url(), &["wait", "t_03", "--timeout", "0.5", "--session", "s"])
        .output()?;
    assert!((2..20).contains(&server.requests().len()));
    assert_eq!(code(&output), Some(4), "{output:?}");
    assert_says(&stderr(&output), &["adjutant wait t_03 --session 's'"]);
    Ok(())
}

/// Runs `spawn --wait`, interrupts the wait, and returns the output.
fn interrupted(server: &CannedServer, more: &[&str]) -> Result<Output> {
    let mut command = adjutant(&server.url(), &["spawn", "clerk", "count", "--wait"]);
    let child = command.args(more).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    wait_until("the command waits", || server.requests().len() >= 2)?;
    signal("INT", child.id())?;
    Ok(child.wait_with_output()?)
}

#[test]
fn an_interrupted_wait_leaves_the_task_running_and_says_how_to_continue() -> Result<()> {
    let server = CannedServer::new([spawned(), Reply::Never]);
    let output = interrupted(&server, &[])?;
    assert_eq!((code(&output), stdout(&output).as_str()), (Some(130), ""), "{output:?}");
    assert_says(&stderr(&output), &["continues", "adjutant wait t_03"]);
    server.assert_requests(&[SUBAGENT, SUBAGENT]);
    Ok(())
}

#[test]
fn an_interrupted_wait_cancels_only_with_the_flag() -> Result<()> {
    let server = CannedServer::new([spawned(), Reply::Never, says(200, ended("failed"))]);
    let output = interrupted(&server, &["--cancel-on-interrupt"])?;
    assert_eq!(code(&output), Some(130), "{output:?}");
    assert_says(&stderr(&output), &["t_03 was cancelled"]);
    assert_eq!(server.requests()[2].body, json!({"action": "cancel", "task_id": "t_03"}));
    Ok(())
}

#[test]
fn each_outcome_of_a_task_has_its_exit_code() -> Result<()> {
    for (reply, expected) in [
        (refuses(400, "INVALID_ARGUMENT"), 2),
        (refuses(401, "UNAUTHENTICATED"), 6),
        (refuses(403, "FORBIDDEN"), 6),
        (refuses(404, "TASK_NOT_FOUND"), 5),
        (refuses(409, "TASK_NOT_READY"), 4),
        (refuses(409, "SESSION_ARCHIVED"), 6),
        (refuses(500, "INTERNAL"), 1),
        (Reply::Json(200, "<html>".to_owned()), 1),
        (Reply::Json(404, "<html>".to_owned()), 1),
        (waited("completed"), 0),
        (waited("failed"), 3),
    ] {
        let server = CannedServer::new([reply.clone()]);
        let output = adjutant(&server.url(), &["wait", "t_03"]).output()?;
        assert_eq!(code(&output), Some(expected), "{reply:?}: {output:?}");
        assert!(!stderr(&output).contains("panicked"), "{output:?}");
    }
    let output = adjutant("http://127.0.0.1:1", &["wait", "t_03"]).output()?;
    assert_eq!(code(&output), Some(7), "{output:?}");
    assert_says(&stderr(&output), &["127.0.0.1:1", "adjutant up", "--url"]);
    Ok(())
}

#[test]
fn json_output_is_the_unchanged_answer_of_the_server() -> Result<()> {
    let odd = "{\"z\":  1, \"task_id\": \"t_03\", \"a\": 1e3}";
    let server = CannedServer::new([Reply::Json(200, odd.to_owned())]);
    let output = adjutant(&server.url(), &["status", "t_03", "--json"]).output()?;
    assert_eq!(stdout(&output), format!("{odd}\n"));
    let refusal = r#"{"message": "Task not found: t_03", "error": "TASK_NOT_FOUND", "more": true}"#;
    let server = CannedServer::new([Reply::Json(404, refusal.to_owned())]);
    let output = adjutant(&server.url(), &["status", "t_03", "--json"]).output()?;
    assert_eq!((code(&output), stdout(&output)), (Some(5), format!("{refusal}\n")));
    Ok(())
}

#[test]
fn the_key_goes_to_the_server_and_nowhere_else() -> Result<()> {
    let server = CannedServer::new([refuses(401, "UNAUTHENTICATED")]);
    let output =
        adjutant(&server.url(), &["agents"]).env("ADJUTANT_API_KEY", "adj_secret").output()?;
    assert_eq!(server.requests()[0].authorization.as_deref(), Some("Bearer adj_secret"));
    let help = adjutant(&server.url(), &["agents", "--help"])
        .env("ADJUTANT_API_KEY", "adj_secret")
        .output()?;
    for text in [stdout(&output), stderr(&output), stdout(&help)] {
        assert!(!text.contains("adj_secret"), "{text}");
    }
    Ok(())
}

#[test]
fn a_task_of_the_history_is_found_by_its_id_in_a_session() -> Result<()> {
    let entry = |id: &str, name: &str| json!({"id": id, "task_id": name, "session_id": "s", "state": "failed"});
    let server = CannedServer::new([
        says(200, json!({"tasks": [], "next_cursor": "c"})),
        says(200, json!({"tasks": [entry("u-3", "t_03")], "next_cursor": null})),
        says(200, json!({"id": "u-4", "task_id": "t_04", "retry_of": "u-3"})),
        says(200, json!({"tasks": [], "next_cursor": null})),
    ]);
    let output = adjutant(&server.url(), &["tasks", "retry", "t_03", "--session", "s"]).output()?;
    assert_eq!((code(&output), stdout(&output).as_str()), (Some(0), "t_04\n"), "{output:?}");
    let output = adjutant(&server.url(), &["tasks", "show", "t_03"]).output()?;
    assert_eq!(code(&output), Some(5), "{output:?}");
    server.assert_requests(&[
        "GET /v1/tasks?session=s&q=t_03&limit=1",
        "GET /v1/tasks?session=s&q=t_03&cursor=c&limit=1",
        "POST /v1/tasks/u-3/retry",
        "GET /v1/tasks?session=default&q=t_03&limit=1",
    ]);
    Ok(())
}

#[test]
fn more_tasks_than_a_page_has_are_requested_page_by_page() -> Result<()> {
    let page = |tasks: usize, next: Option<&str>| {
        let tasks = vec![json!({"id": "u", "task_id": "t_01", "session_id": "s"}); tasks];
        says(200, json!({"tasks": tasks, "next_cursor": next}))
    };
    let server = CannedServer::new([page(500, Some("c")), page(100, Some("d"))]);
    let output = adjutant(&server.url(), &["tasks", "--json", "--limit", "600"]).output()?;
    assert_eq!(code(&output), Some(0), "{output:?}");
    let answer: serde_json::Value = serde_json::from_str(&stdout(&output))?;
    assert_eq!(answer["tasks"].as_array().map(Vec::len), Some(600));
    assert_eq!(answer["next_cursor"], "d");
    server.assert_requests(&["GET /v1/tasks?limit=500", "GET /v1/tasks?cursor=c&limit=100"]);
    Ok(())
}

#[test]
fn a_session_is_deleted_only_after_a_confirmation() -> Result<()> {
    let server = CannedServer::new([Reply::Json(204, String::new())]);
    let output = adjutant(&server.url(), &["sessions", "delete", "a/b"]).output()?;
    assert_eq!(code(&output), Some(2), "{output:?}");
    assert_says(&stderr(&output), &["--yes"]);
    let output = adjutant(&server.url(), &["sessions", "delete", "a/b", "--yes"]).output()?;
    assert_eq!(code(&output), Some(0), "{output:?}");
    server.assert_requests(&["DELETE /v1/sessions/a%2Fb"]);
    Ok(())
}

#[test]
fn the_shared_context_is_read_and_written_unchanged() -> Result<()> {
    let server = CannedServer::new([
        says(
            200,
            json!({"key": "k", "version": 1, "written_by": "orchestrator", "warning": "It is nearly full"}),
        ),
        says(200, json!({"key": "k", "value": "a\nb", "version": 1})),
    ]);
    let output = adjutant(&server.url(), &["context", "write", "k", ""]).output()?;
    assert_eq!(
        (code(&output), stdout(&output).as_str()),
        (Some(0), "k is now at version 1.\n"),
        "{output:?}"
    );
    assert_says(&stderr(&output), &["It is nearly full"]);
    let output = adjutant(&server.url(), &["context", "read", "k"]).output()?;
    assert_eq!(stdout(&output), "a\nb\n");
    let requests = server.assert_requests(&["POST /v1/sessions/default/tools/shared_context"; 2]);
    assert_eq!(requests[0].body, json!({"action": "write", "key": "k", "value": ""}));
    Ok(())
}

#[test]
fn a_watch_without_a_terminal_prints_a_line_for_each_change() -> Result<()> {
    let stats = || says(200, json!({"workers_alive": 1, "slots": {"used": 1, "cap": 5}}));
    let tasks = |tasks: &[(&str, u64)]| {
        let task = |(state, turns): &(&str, u64)| {
            json!({"id": "u-3", "session_id": "s", "task_id": "t_03", "agent": "clerk", "state": state, "turns_used": turns,
                "created_at": "2026-07-01T00:00:00Z", "last_activity_at": "2026-07-01T00:00:01Z"})
        };
        says(200, json!({"tasks": tasks.iter().map(task).collect::<Vec<_>>(), "next_cursor": null}))
    };
    let mut server = CannedServer::new([
        stats(),
        tasks(&[("running", 1)]),
        tasks(&[("running", 1)]),
        stats(),
        tasks(&[]),
        tasks(&[("completed", 2)]),
    ]);
    let mut child = adjutant(&server.url(), &["watch", "--every", "0.05"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let mut lines = BufReader::new(child.stdout.take().context("no stdout")?).lines();
    let mut line = || lines.next().context("the command ended").and_then(|line| Ok(line?));
    assert_eq!(line()?, "2026-07-01T00:00:01Z  s/t_03  clerk  running, 1 turn");
    assert_eq!(line()?, "2026-07-01T00:00:01Z  s/t_03  clerk  completed, 2 turns");
    server.stop();
    signal("INT", child.id())?;
    ensure!(child.wait()?.success());
    Ok(())
}

#[test]
fn help_lists_groups_examples_exit_codes_and_a_way_to_pass_long_input() -> Result<()> {
    let output = adjutant("", &["--help"]).output()?;
    assert_says(
        &stdout(&output),
        &["Running:", "Delegating:", "Inspecting:", "Operating:", "First steps:", "  spawn  "],
    );
    for command in [
        "agents", "spawn", "status", "wait", "collect", "read", "cancel", "tasks", "sessions",
        "context", "watch",
    ] {
        let help = stdout(&adjutant("", &[command, "--help"]).output()?);
        assert_says(&help, &["Examples:", "Exit codes:", "7  the server is not reachable"]);
    }
    let spawn = stdout(&adjutant("", &["spawn", "--help"]).output()?);
    assert_says(
        &spawn,
        &["4003 characters", "adjutant context write diff --file -", "tools.files.root"],
    );
    assert!(!spawn.contains("git diff | adjutant spawn"), "a diff may be too long for a task");
    for line in
        [&["context", "keys", "--help"][..], &["spawn", "--help"], &["tasks", "show", "--help"]]
    {
        let help = stdout(&adjutant("", line).output()?);
        assert_says(&help, &["Exit codes:", "--json", "--url", "--api-key"]);
    }
    Ok(())
}

#[test]
fn an_invalid_command_line_is_a_usage_error() -> Result<()> {
    for (line, words) in [
        (&["spawn"][..], &["AGENT"][..]),
        (&["spawn", "clerk", "x", "--timeout", "soon"], &["--timeout", "15m"]),
        (&["spawn", "clerk", "x", "--cancel-on-interrupt"], &["--wait"]),
        (&["spawn", "clerk", "x", "--metadata", "k"], &["key=value"]),
        (&["collect", "t_03", "--timeout", "5"], &["--wait"]),
        (&["cancel"], &["TASK_ID"]),
        (&["tasks", "--state", "done"], &["completed"]),
        (&["tasks", "--since", "yesterday"], &["--since", "2h"]),
        (&["agents", "define"], &["NAME"]),
        (&["agents", "--url", "nonsense"], &["--url", "http://"]),
        (&["context"], &["Usage"]),
    ] {
        let output = adjutant("http://127.0.0.1:1", line).output()?;
        assert_eq!(code(&output), Some(2), "{line:?}: {output:?}");
        assert_says(&stderr(&output), words);
    }
    Ok(())
}
