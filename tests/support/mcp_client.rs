//! MCP clients. Messages are written by hand, so that tests can also send wrong ones.

use std::collections::HashMap;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use adjutant_server::{Dialect, ToolCall};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::{OnceCell, oneshot};

use crate::support::http_client::Answer;
use crate::support::json_schema::assert_fits;
use crate::support::test_server::TestServer;
use crate::support::world::until;

/// The MCP extension for tasks.
pub const TASKS: &str = "io.modelcontextprotocol/tasks";

/// The newest revision of the protocol.
pub const NEWEST: &str = "2026-07-28";

/// The command `adjutant mcp`, without settings from the environment.
pub fn mcp() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_adjutant"));
    for name in
        ["ADJUTANT_URL", "ADJUTANT_API_KEY", "ADJUTANT_SESSION", "ADJUTANT_CONFIG", "DATABASE_URL"]
    {
        command.env_remove(name);
    }
    command.arg("mcp");
    command
}

/// The params of the request of a tool call.
pub fn params(session: Option<&str>, call: &ToolCall) -> Value {
    let mut arguments = call.arguments.clone();
    if let (Some(session), Some(fields)) = (session, arguments.as_object_mut()) {
        fields.insert("session_id".to_owned(), json!(session));
    }
    let mut meta = json!({});
    if let Some(key) = &call.idempotency_key {
        meta["adjutant/idempotency-key"] = json!(key);
    }
    if let Some(parent) = &call.traceparent {
        meta["traceparent"] = json!(parent);
    }
    json!({"name": call.tool, "arguments": arguments, "_meta": meta})
}

pub fn tool_call(tool: &str, arguments: Value) -> ToolCall {
    ToolCall { tool: tool.to_owned(), arguments, idempotency_key: None, traceparent: None }
}

/// Starts `adjutant mcp` and is its client over stdio.
pub struct McpStdioClient {
    child: Mutex<Child>,
    input: tokio::sync::Mutex<Option<ChildStdin>>,
    waiting: Arc<Mutex<HashMap<String, oneshot::Sender<Value>>>>,
    /// Messages that answer no request.
    notifications: Arc<Mutex<Vec<Value>>>,
    ids: AtomicU64,
    tools: OnceCell<Value>,
    stderr: tempfile::NamedTempFile,
}

impl McpStdioClient {
    pub fn start(mut command: Command) -> Self {
        let stderr = tempfile::NamedTempFile::new().unwrap();
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(stderr.reopen().unwrap())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take(), child.stdout.take().unwrap());
        let waiting: Arc<Mutex<HashMap<String, oneshot::Sender<Value>>>> = Arc::default();
        let notifications: Arc<Mutex<Vec<Value>>> = Arc::default();
        let (answers, others) = (waiting.clone(), notifications.clone());
        tokio::spawn(async move {
            let mut lines = BufReader::new(output).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                // Standard output has only messages; anything else fails the test that reads it.
                let message: Value =
                    serde_json::from_str(&line).unwrap_or_else(|_| json!({"not JSON": line}));
                let sender = answers.lock().unwrap().remove(&message["id"].to_string());
                match sender {
                    Some(sender) => drop(sender.send(message)),
                    None => others.lock().unwrap().push(message),
                }
            }
            answers.lock().unwrap().clear();
        });
        Self {
            child: Mutex::new(child),
            input: tokio::sync::Mutex::new(input),
            waiting,
            notifications,
            ids: AtomicU64::new(1),
            tools: OnceCell::new(),
            stderr,
        }
    }

    pub async fn initialize(&self, version: &str) -> Value {
        let client = json!({"name": "test", "version": "1"});
        let params = json!({"protocolVersion": version, "capabilities": {}, "clientInfo": client});
        let answer = self.request("initialize", params).await;
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string())
            .await;
        answer["result"].clone()
    }

    pub async fn send(&self, line: &str) {
        let mut input = self.input.lock().await;
        input.as_mut().unwrap().write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    /// Sends a request, and returns its id and a receiver of its answer.
    pub async fn start_request(
        &self,
        method: &str,
        params: Value,
    ) -> (u64, oneshot::Receiver<Value>) {
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        let (sender, answer) = oneshot::channel();
        self.waiting.lock().unwrap().insert(id.to_string(), sender);
        self.send(
            &json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string(),
        )
        .await;
        (id, answer)
    }

    pub async fn request(&self, method: &str, params: Value) -> Value {
        let (_, answer) = self.start_request(method, params).await;
        answer.await.unwrap_or_else(|_| panic!("no answer: {}", self.stderr()))
    }

    /// The result of a tool call.
    pub async fn call_in(&self, session: &str, call: &ToolCall) -> Value {
        self.called(params(Some(session), call)).await
    }

    /// The structured content of a call in the connection's own session.
    pub async fn call(&self, tool: &str, arguments: Value) -> Value {
        let result = self.called(params(None, &tool_call(tool, arguments))).await;
        assert_eq!(result["isError"], false, "{result}");
        result["structuredContent"].clone()
    }

    async fn called(&self, params: Value) -> Value {
        let answer = self.request("tools/call", params.clone()).await;
        let result = &answer["result"];
        assert!(result.is_object(), "a JSON-RPC error: {answer}");
        let tools = self.tools.get_or_init(async || {
            let listed = self.request("tools/list", json!({})).await;
            listed["result"]["tools"].clone()
        });
        assert_fits(tools.await, params["name"].as_str().unwrap(), result);
        result.clone()
    }

    /// The messages so far that answer no request.
    pub fn notifications(&self) -> Vec<Value> {
        self.notifications.lock().unwrap().clone()
    }

    /// Closes its input, as a client that exits does.
    pub async fn close_input(&self) {
        *self.input.lock().await = None;
    }

    pub fn pid(&self) -> u32 {
        self.child.lock().unwrap().id().unwrap()
    }

    /// Waits for the process to exit, and returns its exit code.
    pub async fn exited(&self) -> Option<i32> {
        until("adjutant mcp has exited", async || {
            self.child.lock().unwrap().try_wait().unwrap().is_some()
        })
        .await;
        self.child.lock().unwrap().try_wait().unwrap().unwrap().code()
    }

    pub async fn kill(&self) {
        self.child.lock().unwrap().start_kill().unwrap();
        self.exited().await;
    }

    pub fn stderr(&self) -> String {
        std::fs::read_to_string(self.stderr.path()).unwrap()
    }
}

impl Drop for McpStdioClient {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- mcp\n{}", self.stderr());
        }
    }
}

/// A client of the newest revision over HTTP, which has no connection state.
#[derive(Clone)]
pub struct McpClient {
    pub server: Arc<TestServer>,
    api_key: Option<String>,
    dialect: Dialect,
    pub capabilities: Value,
    tools: Arc<OnceCell<Value>>,
    pub headers: Vec<String>,
}

impl McpClient {
    pub fn new(server: impl Into<Arc<TestServer>>, secret: &str) -> Self {
        Self::of(server, Some(secret))
    }

    /// For a server that needs no key.
    pub fn without_key(server: impl Into<Arc<TestServer>>) -> Self {
        Self::of(server, None)
    }

    pub fn of(server: impl Into<Arc<TestServer>>, api_key: Option<&str>) -> Self {
        Self {
            server: server.into(),
            api_key: api_key.map(str::to_owned),
            dialect: Dialect::Spec,
            capabilities: json!({}),
            tools: Arc::default(),
            headers: Vec::new(),
        }
    }

    pub fn speaking(self, dialect: Dialect) -> Self {
        Self { dialect, ..self }
    }

    pub fn with_tasks(self) -> Self {
        Self { capabilities: json!({"extensions": {TASKS: {}}}), ..self }
    }

    pub async fn post(&self, method: &str, params: Value) -> Answer {
        let (mut headers, body) = newest_request(method, params, &self.capabilities);
        headers.extend(self.headers.iter().cloned());
        let path = format!("/mcp?dialect={}", self.dialect.as_str());
        post_to(&self.server, &path, self.api_key.as_deref(), &headers, &body).await
    }

    /// The answer to a request: a result or a JSON-RPC error.
    pub async fn request(&self, method: &str, params: Value) -> Value {
        self.post(method, params).await.json()
    }

    pub async fn call_in(&self, session: &str, call: &ToolCall) -> Value {
        self.called(params(Some(session), call)).await
    }

    /// The result of a tool call that names no session.
    pub async fn call(&self, tool: &str, arguments: Value) -> Value {
        self.called(params(None, &tool_call(tool, arguments))).await
    }

    async fn called(&self, params: Value) -> Value {
        let answer = self.request("tools/call", params.clone()).await;
        let result = &answer["result"];
        assert!(result.is_object(), "a JSON-RPC error: {answer}");
        if result["resultType"] == "complete" && self.dialect == Dialect::Spec {
            let tools = self.tools.get_or_init(async || {
                let listed = self.request("tools/list", json!({})).await;
                listed["result"]["tools"].clone()
            });
            assert_fits(tools.await, params["name"].as_str().unwrap(), result);
        }
        result.clone()
    }
}

/// The body of a request of the newest revision, and the headers that only this revision has.
pub fn newest_request(
    method: &str,
    mut params: Value,
    capabilities: &Value,
) -> (Vec<String>, String) {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": NEWEST,
        "io.modelcontextprotocol/clientCapabilities": capabilities,
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    });
    for (name, value) in meta.as_object().unwrap() {
        params["_meta"][name] = value.clone();
    }
    let name = ["name", "uri", "taskId"].iter().find_map(|name| params[*name].as_str());
    let mut headers =
        vec![format!("MCP-Protocol-Version: {NEWEST}"), format!("Mcp-Method: {method}")];
    headers.extend(name.map(|name| format!("Mcp-Name: {name}")));
    (headers, json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string())
}

/// Posts a message with the headers that every client sends, and these.
pub async fn post(
    server: &TestServer,
    key: Option<&str>,
    headers: &[String],
    body: &str,
) -> Answer {
    post_to(server, "/mcp", key, headers, body).await
}

/// As [`post`], at this path.
pub async fn post_to(
    server: &TestServer,
    path: &str,
    key: Option<&str>,
    headers: &[String],
    body: &str,
) -> Answer {
    let key = key.map(|key| format!("Authorization: Bearer {key}"));
    let mut all =
        vec!["Content-Type: application/json", "Accept: application/json, text/event-stream"];
    all.extend(key.as_deref());
    all.extend(headers.iter().map(String::as_str));
    server.request("POST", path, &all, body).await
}
