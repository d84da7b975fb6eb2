//! The MCP project's own servers; one has a tool for every feature of the protocol. The scripted
//! model calls their tools.

use std::process::Command;

use adjutant_agent::TaskState;
use adjutant_script::{Answer, Script, ScriptServer, When, text, tool_call};
use serde_json::json;

use crate::real::program::{EVERYTHING, FILESYSTEM, Program, free_port, installed, node};
use crate::real::site::Site;
use crate::support::process::{is_alive, signal, succeed};
use crate::support::worker_process::WorkerProcess;
use crate::support::world::until;

/// A secret in the worker's environment that its tools must not see.
const SECRET: &str = "a-secret-of-the-worker";

/// A config with these `tools`, an agent that may use all of them, and the scripted model.
async fn site(script: &ScriptServer, agent_tools: &[&str], tools: &str) -> Site {
    let site = Site::new(&format!(
        r#"
[models.script]
wire = "openai"
base_url = "{}"

[agents.agent]
model = "script"
description = "Uses tools"
system_prompt = "Use tools."
tools = {agent_tools:?}

{tools}
"#,
        script.openai_base_url(),
    ))
    .await;
    std::fs::create_dir(site.folder().join("data")).unwrap();
    std::fs::write(site.folder().join("data/hello.txt"), "hello\nworld\n").unwrap();
    std::fs::write(site.folder().join("outside.txt"), "not for tools").unwrap();
    site
}

fn everything(name: &str) -> String {
    format!(
        "[tools.mcp.{name}]\ncommand = ['node', '{}', 'stdio']\n",
        installed(EVERYTHING).display()
    )
}

fn filesystem(name: &str) -> String {
    let server = installed(FILESYSTEM);
    format!(
        "[tools.mcp.{name}]\ncommand = ['node', '{}', '{{folder}}/data']\ncwd = '{{folder}}/data'\n",
        server.display()
    )
}

/// The config of a server over HTTP.
async fn everything_on(port: u16) -> Program {
    Program::start(node(EVERYTHING).arg("streamableHttp").env("PORT", port.to_string())).await
}

fn at(port: u16, name: &str) -> String {
    format!("[tools.mcp.{name}]\nurl = 'http://127.0.0.1:{port}/mcp'\n")
}

/// The child processes of a process that have these words in their command line.
fn children(of: u32, words: &str) -> Vec<u32> {
    let listed = succeed(Command::new("ps").args(["-A", "-o", "ppid=,pid=,args="])).unwrap();
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let pid = |line: &str| {
        let mut columns = line.split_whitespace();
        let parent: u32 = columns.next()?.parse().ok()?;
        (parent == of && line.contains(words)).then(|| columns.next()?.parse().ok())?
    };
    listed.lines().filter_map(pid).collect()
}

/// A model that makes these tool calls and then completes.
async fn script(calls: Answer) -> ScriptServer {
    ScriptServer::start(Script::new().on(When::any()).then(calls).then(text("Done.")))
        .await
        .unwrap()
}

/// Checks the tool results of a task.
#[track_caller]
fn assert_given(
    results: &[(String, Result<String, String>)],
    expected: &[(&str, Result<&str, &str>)],
) {
    let results: Vec<_> = results
        .iter()
        .map(|(name, result)| (name.as_str(), result.as_deref().map_err(String::as_str)))
        .collect();
    assert_eq!(results, expected);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "make test-real"]
async fn tools_of_real_servers_are_in_the_catalogue_and_have_their_server_in_front_when_names_collide()
 {
    let script = ScriptServer::start(Script::new()).await.unwrap();
    let port = free_port();
    let _server = everything_on(port).await;
    let own = "[tools.files]\nroot = '{folder}/data'\n";
    let tools = [own, &everything("near"), &at(port, "far"), &filesystem("disk")].concat();
    let site = site(&script, &[], &tools).await;
    let _worker = site.worker();
    let names = site.tools(&["near__echo", "far__echo", "disk__read_file"]).await;
    for name in ["near__get-sum", "far__get-sum", "read_file", "search_files", "disk__search_files"]
    {
        assert!(names.iter().any(|has| has == name), "{name} is not in {names:?}");
    }
    for name in ["read_text_file", "write_file", "list_directory", "shared_context", "fetch"] {
        assert!(names.iter().any(|has| has == name), "{name} is not in {names:?}");
    }
    assert!(!names.iter().any(|name| name == "echo" || name == "get-sum"), "{names:?}");
    println!("{} tools: {}", names.len(), names.join(" "));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "make test-real"]
async fn a_loop_calls_tools_of_a_real_server_and_reads_what_they_give() {
    let calls = tool_call("echo", json!({"message": "ä🦀"}))
        .and_call("get-sum", json!({"a": 1.5, "b": -2}))
        .and_call("get-structured-content", json!({"location": "Chicago"}))
        .and_call("get-tiny-image", json!({}))
        .and_call("get-resource-reference", json!({"resourceType": "Blob", "resourceId": 1}))
        .and_call("get-sum", json!({"a": "one", "b": 2}));
    let script = script(calls).await;
    let tools =
        ["echo", "get-sum", "get-structured-content", "get-tiny-image", "get-resource-reference"];
    let site = site(&script, &tools, &everything("everything")).await;
    let _worker = site.worker();
    site.tools(&tools).await;
    let task = site.delegate("agent", "Call them all.").await;
    assert_eq!(site.completed(&task).await.1, "Done.");
    let image = "Here's the image you requested:\n[image, image/png, 4033 bytes: not shown]\nThe image above is the MCP logo.";
    let resource = "Returning resource reference for Resource 1:\n\
        [resource demo://resource/dynamic/blob/1, text/plain, 55 bytes: not shown]\n\
        You can access this resource using the URI: demo://resource/dynamic/blob/1";
    let mut results = site.tool_results(&task).await;
    let (_, refused) = results.pop().unwrap();
    assert!(refused.unwrap_err().contains("expected number"));
    // The resource contains the time of day, whose hour has one digit or two.
    for text in results.iter_mut().filter_map(|(_, result)| result.as_mut().ok()) {
        *text = text.replace(" 56 bytes", " 55 bytes");
    }
    assert_given(
        &results,
        &[
            ("echo", Ok("Echo: ä🦀")),
            ("get-sum", Ok("The sum of 1.5 and -2 is -0.5.")),
            (
                "get-structured-content",
                Ok(r#"{"temperature":36,"conditions":"Light rain / drizzle","humidity":82}"#),
            ),
            ("get-tiny-image", Ok(image)),
            ("get-resource-reference", Ok(resource)),
        ],
    );
    script.finish();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "make test-real"]
async fn a_real_server_sees_nothing_of_our_environment_and_what_it_says_is_not_in_our_logs() {
    let calls = tool_call("get-env", json!({})).and_call("echo", json!({"message": SECRET}));
    let script = script(calls).await;
    let site = site(&script, &["get-env", "echo"], &everything("everything")).await;
    let worker =
        WorkerProcess::start(site.work().args(["--log", "debug"]).env("A_VARIABLE", SECRET));
    site.tools(&["get-env", "echo"]).await;
    let task = site.delegate("agent", "Look around.").await;
    assert_eq!(site.completed(&task).await.1, "Done.");
    let results = site.tool_results(&task).await;
    let env = results[0].1.as_deref().unwrap();
    assert!(
        env.contains("PATH") && !env.contains("A_VARIABLE") && !env.contains("ADJUTANT"),
        "{env}"
    );
    let said = worker.stderr();
    assert!(said.contains("MCP server everything is there"));
    // The latter is in the instructions that the server sends on connection.
    assert!(!said.contains(SECRET) && !said.contains("Easter Egg"));
    script.finish();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "make test-real"]
async fn a_loop_reads_and_writes_files_of_a_real_server_and_nothing_outside_of_its_folder() {
    let calls = tool_call("read_text_file", json!({"path": "hello.txt"}))
        .and_call("write_file", json!({"path": "new.txt", "content": "größer"}))
        .and_call("read_text_file", json!({"path": "../outside.txt"}))
        .and_call("read_text_file", json!({"path": "nowhere.txt"}));
    let script = script(calls).await;
    let tools = ["read_text_file", "write_file"];
    let site = site(&script, &tools, &filesystem("disk")).await;
    let _worker = site.worker();
    site.tools(&tools).await;
    let task = site.delegate("agent", "Call them all.").await;
    assert_eq!(site.completed(&task).await.1, "Done.");
    let mut results = site.tool_results(&task).await;
    let refused: Vec<_> = results.drain(2..).map(|(_, result)| result.unwrap_err()).collect();
    assert!(
        refused[0].starts_with("Access denied") && refused[1].starts_with("ENOENT"),
        "{refused:?}"
    );
    assert_given(
        &results,
        &[
            ("read_text_file", Ok("hello\nworld\n")),
            ("write_file", Ok("Successfully wrote to new.txt")),
        ],
    );
    assert_eq!(std::fs::read_to_string(site.folder().join("data/new.txt")).unwrap(), "größer");
    script.finish();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "make test-real"]
async fn a_task_waits_for_the_tools_of_a_real_server_that_takes_longer_to_start_than_the_worker() {
    let script = script(tool_call("echo", json!({"message": "there"}))).await;
    let server = installed(EVERYTHING);
    let slow = format!(
        "[tools.mcp.slow]\ncommand = ['sh', '-c', 'until [ -e go ]; do sleep 0.1; done; exec node {}']\ncwd = '{{folder}}'\n",
        server.display()
    );
    let site = site(&script, &["echo"], &slow).await;
    let _worker = site.worker();
    let task = site.delegate("agent", "The first.").await;
    until("it runs", async || site.status(&task).await.state == TaskState::Running).await;
    std::fs::write(site.folder().join("go"), "").unwrap();
    assert_eq!(site.completed(&task).await.1, "Done.");
    assert_given(&site.tool_results(&task).await, &[("echo", Ok("Echo: there"))]);
    script.finish();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "make test-real"]
async fn a_real_server_that_is_killed_is_started_again_for_the_next_call() {
    let script = script(tool_call("echo", json!({"message": "there"}))).await;
    let site = site(&script, &["echo"], &everything("everything")).await;
    let worker = site.worker();
    site.tools(&["echo"]).await;
    let mut servers = Vec::new();
    for round in ["The first.", "The second.", "The third."] {
        let task = site.delegate("agent", round).await;
        assert_eq!(site.completed(&task).await.1, "Done.");
        assert_given(&site.tool_results(&task).await, &[("echo", Ok("Echo: there"))]);
        let server = children(worker.pid(), "server-everything");
        assert_eq!(server.len(), 1, "{server:?}");
        assert!(!servers.contains(&server[0]));
        servers.push(server[0]);
        signal("KILL", server[0]).unwrap();
    }
    script.finish();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "make test-real"]
async fn a_real_server_over_http_that_is_replaced_and_knows_no_session_any_more_is_connected_to_again()
 {
    let script = script(tool_call("echo", json!({"message": "there"}))).await;
    let port = free_port();
    let mut server = everything_on(port).await;
    let site = site(&script, &["echo"], &at(port, "far")).await;
    let _worker = site.worker();
    site.tools(&["echo"]).await;
    for round in ["The first.", "The second.", "The third."] {
        let task = site.delegate("agent", round).await;
        assert_eq!(site.completed(&task).await.1, "Done.");
        assert_given(&site.tool_results(&task).await, &[("echo", Ok("Echo: there"))]);
        drop(server);
        server = everything_on(port).await;
    }
    script.finish();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "make test-real"]
async fn a_real_server_ends_with_its_worker_however_that_ends() {
    let script = script(text("Unused.")).await;
    let site = site(&script, &[], &everything("everything")).await;
    for name in ["TERM", "KILL"] {
        let mut worker = site.worker();
        site.tools(&["echo"]).await;
        let server = children(worker.pid(), "server-everything");
        assert_eq!(server.len(), 1, "{server:?}");
        worker.signal(name);
        worker.exited().await;
        until("the server ends too", async || !is_alive(server[0])).await;
    }
}
