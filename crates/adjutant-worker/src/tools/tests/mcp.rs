use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use adjutant_agent::Replay;
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{KEY, call, serve, toolbox};
use crate::lease_table::lock;
use crate::tools::Toolbox;

const PATIENCE: Duration = Duration::from_secs(20);

/// The test server with a folder in which it leaves notes.
fn table(name: &str, folder: &Path, mode: &str, settings: &str) -> String {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/src/tools/tests/server.py");
    format!(
        "[mcp.{name}]\ncommand = ['python3', '{script}', '{}', '{mode}']\n{settings}\n",
        folder.display()
    )
}

async fn start(mode: &str, settings: &str) -> (TempDir, Toolbox) {
    let folder = tempfile::tempdir().unwrap();
    let toolbox = toolbox(&table("py", folder.path(), mode, settings));
    toolbox.settled(PATIENCE).await;
    (folder, toolbox)
}

async fn call_tool(toolbox: &Toolbox, tool: &str, arguments: Value) -> Result<String, String> {
    toolbox.call(tool, call(&arguments)).await
}

fn notes(folder: &TempDir, name: &str) -> Vec<String> {
    let text = std::fs::read_to_string(folder.path().join(name)).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Polls for effects of other processes.
async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "{what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn lives(pid: &str) -> bool {
    // A process that has ended and was not waited for yet is a zombie, and not alive.
    let status = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    status
        .rsplit(')')
        .next()
        .is_some_and(|rest| !rest.is_empty() && !rest.trim_start().starts_with('Z'))
}

#[tokio::test]
async fn every_tool_of_a_server_is_there_under_its_name_on_all_pages() {
    let (_folder, toolbox) = start("", "").await;
    let definitions = toolbox.all_definitions();
    let names: Vec<_> = definitions.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(
        names.join(" "),
        "die die_once echo env fail fetch get_it grow hang py__fetch refuse",
        "the built-in `fetch` keeps its name"
    );
    let replays =
        toolbox.definitions(["echo", "die_once", "die"], None).into_iter().map(|tool| tool.replay);
    assert_eq!(replays.collect::<Vec<_>>(), [Replay::Safe, Replay::Safe, Replay::Unsafe]);
    let by_server = toolbox.definitions(["py__echo", "get_it"], None);
    assert_eq!(
        (by_server[0].name.as_str(), by_server[0].description.as_str()),
        ("py__echo", "does echo")
    );
    assert_eq!(by_server[1].input_schema, json!({ "type": "object" }));
    let said = call_tool(&toolbox, "py__echo", json!({ "a": [1] })).await.unwrap();
    assert_eq!(
        serde_json::from_str::<Value>(&said).unwrap(),
        json!({ "arguments": { "a": [1] }, "key": KEY })
    );
    assert_eq!(call_tool(&toolbox, "get_it", json!({})).await.as_deref(), Ok("done"));
}

#[tokio::test]
async fn the_operator_has_the_last_word_on_names_replay_and_environment() {
    let settings = "replay = 'unsafe'\nallow = ['echo', 'env', 'die']\ndeny = ['die']\nenv = { GIVEN = 'yes' }";
    let (_folder, toolbox) = start("", settings).await;
    let definitions = toolbox.all_definitions();
    let names: Vec<_> = definitions.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["echo", "env", "fetch"]);
    assert_eq!(toolbox.definitions(["echo"], None)[0].replay, Replay::Unsafe);
    let env: Value =
        serde_json::from_str(&call_tool(&toolbox, "env", json!({})).await.unwrap()).unwrap();
    assert_eq!(env["GIVEN"], "yes");
    assert!(env["PATH"].is_string() && env["CARGO_MANIFEST_DIR"].is_null(), "{env}");
}

#[tokio::test]
async fn servers_with_the_same_tools_have_their_names_in_front() {
    let folder = tempfile::tempdir().unwrap();
    let both = ["a", "b"].map(|name| table(name, folder.path(), "", "allow = ['echo']")).concat();
    let toolbox = toolbox(&both);
    toolbox.settled(PATIENCE).await;
    let definitions = toolbox.all_definitions();
    let names: Vec<_> = definitions.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["a__echo", "b__echo", "fetch"]);
}

#[tokio::test]
async fn errors_of_a_server_are_read_by_the_child() {
    let (folder, toolbox) = start("", "timeout_s = 0.3").await;
    assert_eq!(call_tool(&toolbox, "fail", json!({})).await, Err("it failed".to_owned()));
    let refused = call_tool(&toolbox, "refuse", json!({})).await;
    assert_eq!(
        refused,
        Err("The MCP server of the tool returned an error: bad arguments (-32602)".to_owned())
    );
    let hung = call_tool(&toolbox, "hang", json!({})).await;
    assert_eq!(
        hung,
        Err("The tool did not answer within 0.3 s. Whether it had an effect is not known."
            .to_owned())
    );
    until("the server gets the cancellation", || !notes(&folder, "cancelled").is_empty()).await;
    assert!(call_tool(&toolbox, "echo", json!({})).await.is_ok(), "and the server continues");
}

#[tokio::test]
async fn a_server_that_dies_is_started_again_and_calls_wait_for_it() {
    let (folder, toolbox) = start("", "").await;
    let died = call_tool(&toolbox, "die", json!({})).await.unwrap_err();
    assert_eq!(
        died,
        "The MCP server of the tool disconnected during the call. Whether the call had an effect is not known."
    );
    assert!(call_tool(&toolbox, "echo", json!({})).await.is_ok());
    assert_eq!(notes(&folder, "starts").len(), 2);
    let repeated = call_tool(&toolbox, "die_once", json!({})).await;
    assert_eq!(repeated.as_deref(), Ok("done"), "what may be repeated is");
    assert_eq!(notes(&folder, "starts").len(), 3);
}

#[tokio::test]
async fn a_server_that_does_not_start_delays_no_call_and_is_retried() {
    let folder = tempfile::tempdir().unwrap();
    let late = table("late", folder.path(), "dies_at_first", "");
    let never = "[mcp.never]\ncommand = ['/no/such/program']\n";
    let silent = table("silent", folder.path(), "silent", "start_timeout_s = 0.3");
    let toolbox = toolbox(&(late + never + &silent));
    assert_eq!(toolbox.all_definitions().len(), 1);
    let mut catalogue = toolbox.watch();
    toolbox.settled(PATIENCE).await;
    let has_echo =
        |tools: &Arc<crate::tools::Catalogue>| tools.definitions().any(|tool| tool.name == "echo");
    tokio::time::timeout(PATIENCE, catalogue.wait_for(has_echo)).await.unwrap().unwrap();
    assert!(call_tool(&toolbox, "echo", json!({})).await.is_ok());
}

#[tokio::test]
async fn tools_of_a_slow_server_are_awaited_until_it_has_started_or_failed() {
    let folder = tempfile::tempdir().unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/src/tools/tests/server.py");
    let path = folder.path().display();
    let slow = format!(
        "[mcp.slow]\ncommand = ['sh', '-c', 'until [ -e {path}/go ]; do sleep 0.05; done; exec python3 {script} {path}']\n"
    );
    let toolbox = toolbox(&slow);
    let nothing_is_missing = toolbox.ready_for(["fetch"]);
    tokio::time::timeout(PATIENCE, nothing_is_missing).await.unwrap();
    let mut waiting = std::pin::pin!(toolbox.ready_for(["fetch", "echo"]));
    assert!(futures::poll!(&mut waiting).is_pending());
    std::fs::write(folder.path().join("go"), "").unwrap();
    tokio::time::timeout(PATIENCE, waiting).await.unwrap();
    assert_eq!(toolbox.definitions(["echo"], None).len(), 1);
    let unknown = toolbox.ready_for(["no_such_tool"]);
    tokio::time::timeout(PATIENCE, unknown).await.expect("there is nothing left to wait for");
}

#[tokio::test]
async fn a_call_to_a_server_that_stays_away_is_an_error_before_its_time_is_up() {
    let (folder, toolbox) = start("", "timeout_s = 0.5").await;
    std::fs::remove_dir_all(folder.path()).unwrap();
    assert!(call_tool(&toolbox, "die", json!({})).await.is_err());
    let error = call_tool(&toolbox, "echo", json!({})).await.unwrap_err();
    assert_eq!(error, "The MCP server of the tool is not running; it is being restarted.");
}

#[tokio::test]
async fn a_changed_list_of_tools_is_read_again_and_published() {
    let (_folder, toolbox) = start("", "").await;
    let mut catalogue = toolbox.watch();
    assert!(toolbox.definitions(["grown"], None).is_empty());
    call_tool(&toolbox, "grow", json!({})).await.unwrap();
    let has_grown =
        |tools: &Arc<crate::tools::Catalogue>| tools.definitions().any(|tool| tool.name == "grown");
    tokio::time::timeout(PATIENCE, catalogue.wait_for(has_grown)).await.unwrap().unwrap();
    assert_eq!(call_tool(&toolbox, "grown", json!({})).await.as_deref(), Ok("done"));
}

#[tokio::test]
async fn a_server_ends_with_the_toolbox_even_if_it_ignores_the_signal() {
    for mode in ["", "stays"] {
        let (folder, toolbox) = start(mode, "").await;
        let pid = notes(&folder, "starts").remove(0);
        assert!(lives(&pid));
        drop(toolbox);
        until("it ends", || !lives(&pid)).await;
        assert_eq!(
            notes(&folder, "ended").len(),
            usize::from(mode.is_empty()),
            "it gets a signal before it is killed"
        );
    }
}

/// An MCP server over HTTP, whose sessions can be forgotten.
#[derive(Clone, Default)]
struct Http {
    session: Arc<Mutex<usize>>,
    /// The answer to an unknown session.
    refusal: &'static str,
}

async fn answer(State(http): State<Http>, headers: HeaderMap, body: String) -> Response {
    if headers.get("authorization").is_none_or(|value| value != "Bearer hush") {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    let message: Value = serde_json::from_str(&body).unwrap();
    let session = lock(&http.session).to_string();
    let is_known =
        headers.get("mcp-session-id").is_some_and(|id| id.as_bytes() == session.as_bytes());
    let result = match message["method"].as_str().unwrap() {
        "initialize" => json!({
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": { "tools": {} },
            "serverInfo": { "name": "http", "version": "1" },
        }),
        _ if !is_known => {
            return (StatusCode::BAD_REQUEST, [("content-type", "application/json")], http.refusal)
                .into_response();
        }
        "tools/list" => {
            json!({ "tools": [{ "name": "far", "inputSchema": { "type": "object" } }] })
        }
        "tools/call" => {
            json!({ "content": [{ "type": "text", "text": format!("session {session}") }] })
        }
        _ => return StatusCode::ACCEPTED.into_response(),
    };
    let answer = json!({ "jsonrpc": "2.0", "id": message["id"], "result": result }).to_string();
    ([("content-type", "application/json"), ("mcp-session-id", &session)], answer).into_response()
}

#[tokio::test]
async fn a_server_over_http_gets_its_headers_and_a_new_session_after_it_lost_ours() {
    let http = Http::default();
    let address = serve(Router::new().route("/mcp", post(answer)).with_state(http.clone())).await;
    let toolbox = toolbox(&format!(
        "[mcp.far]\nurl = 'http://{address}/mcp'\nheaders = {{ authorization = 'Bearer hush' }}\nreplay = 'safe'"
    ));
    toolbox.settled(PATIENCE).await;
    assert_eq!(call_tool(&toolbox, "far", json!({})).await.as_deref(), Ok("session 0"));
    *lock(&http.session) += 1;
    let mut again = call_tool(&toolbox, "far", json!({})).await;
    for _ in 0..100 {
        if again.is_ok() {
            break;
        }
        again = call_tool(&toolbox, "far", json!({})).await;
    }
    assert_eq!(again.as_deref(), Ok("session 1"));
}

#[tokio::test]
async fn a_server_over_http_that_refuses_our_session_without_a_request_id_gets_a_new_one() {
    for refusal in [
        r#"{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session ID provided"}}"#,
        r#"{"jsonrpc":"2.0","error":{"code":-32000,"message":"Session not found"},"id":null}"#,
    ] {
        let http = Http { refusal, ..Http::default() };
        let address =
            serve(Router::new().route("/mcp", post(answer)).with_state(http.clone())).await;
        let toolbox = toolbox(&format!(
            "[mcp.far]\nurl = 'http://{address}/mcp'\nheaders = {{ authorization = 'Bearer hush' }}\ntimeout_s = 10"
        ));
        toolbox.settled(PATIENCE).await;
        assert_eq!(call_tool(&toolbox, "far", json!({})).await.as_deref(), Ok("session 0"));
        *lock(&http.session) += 1;
        assert_eq!(
            call_tool(&toolbox, "far", json!({})).await.as_deref(),
            Ok("session 1"),
            "{refusal}"
        );
    }
}
