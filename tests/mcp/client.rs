//! As much MCP as a test needs: what goes over the wire is written here, so that it can also be wrong.

use std::collections::HashMap;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use adjutant_server::ToolCall;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::{OnceCell, oneshot};

use super::schemas::assert_fits;
use crate::http::client::Answer;
use crate::http::server::Server;
use crate::world::until;

/// Those in the headers of a request in the newest revision.
pub const NEWEST: &str = "2026-07-28";

/// `adjutant mcp`, with nothing from the environment.
pub fn mcp() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_adjutant"));
    for name in ["ADJUTANT_URL", "ADJUTANT_API_KEY", "ADJUTANT_SESSION", "ADJUTANT_CONFIG", "DATABASE_URL"] {
        command.env_remove(name);
    }
    command.arg("mcp");
    command
}

/// The params of a tool call as a client makes it.
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

pub fn call(tool: &str, arguments: Value) -> ToolCall {
    ToolCall { tool: tool.to_owned(), arguments, idempotency_key: None, traceparent: None }
}

/// A client that starts its server itself.
pub struct StdioClient {
    child: Mutex<Child>,
    input: tokio::sync::Mutex<Option<ChildStdin>>,
    waiting: Arc<Mutex<HashMap<String, oneshot::Sender<Value>>>>,
    /// What came without having been asked for.
    heard: Arc<Mutex<Vec<Value>>>,
    ids: AtomicU64,
    tools: OnceCell<Value>,
    said: tempfile::NamedTempFile,
}

impl StdioClient {
    pub fn start(mut command: Command) -> Self {
        let said = tempfile::NamedTempFile::new().unwrap();
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(said.reopen().unwrap())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take(), child.stdout.take().unwrap());
        let waiting: Arc<Mutex<HashMap<String, oneshot::Sender<Value>>>> = Arc::default();
        let heard: Arc<Mutex<Vec<Value>>> = Arc::default();
        let (answers, others) = (waiting.clone(), heard.clone());
        tokio::spawn(async move {
            let mut lines = BufReader::new(output).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                // Nothing else is ever on standard output.
                let message: Value =
                    serde_json::from_str(&line).unwrap_or_else(|_| json!({"not JSON": line}));
                let asked = answers.lock().unwrap().remove(&message["id"].to_string());
                match asked {
                    Some(asked) => drop(asked.send(message)),
                    None => others.lock().unwrap().push(message),
                }
            }
            answers.lock().unwrap().clear();
        });
        Self {
            child: Mutex::new(child),
            input: tokio::sync::Mutex::new(input),
            waiting,
            heard,
            ids: AtomicU64::new(1),
            tools: OnceCell::new(),
            said,
        }
    }

    pub async fn initialize(&self, version: &str) -> Value {
        let client = json!({"name": "test", "version": "1"});
        let params = json!({"protocolVersion": version, "capabilities": {}, "clientInfo": client});
        let answer = self.request("initialize", params).await;
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string()).await;
        answer["result"].clone()
    }

    pub async fn send(&self, line: &str) {
        let mut input = self.input.lock().await;
        input.as_mut().unwrap().write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    /// Sends a request, and gives its id and what will be its answer.
    pub async fn begin(&self, method: &str, params: Value) -> (u64, oneshot::Receiver<Value>) {
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        let (asked, answer) = oneshot::channel();
        self.waiting.lock().unwrap().insert(id.to_string(), asked);
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()).await;
        (id, answer)
    }

    pub async fn request(&self, method: &str, params: Value) -> Value {
        let (_, answer) = self.begin(method, params).await;
        answer.await.unwrap_or_else(|_| panic!("no answer: {}", self.said()))
    }

    /// The result of a tool call.
    pub async fn call_in(&self, session: &str, call: &ToolCall) -> Value {
        self.called(params(Some(session), call)).await
    }

    /// What a tool answers in the connection's own session.
    pub async fn call(&self, tool: &str, arguments: Value) -> Value {
        let result = self.called(params(None, &call(tool, arguments))).await;
        assert_eq!(result["isError"], false, "{result}");
        result["structuredContent"].clone()
    }

    async fn called(&self, params: Value) -> Value {
        let answer = self.request("tools/call", params.clone()).await;
        let result = &answer["result"];
        assert!(result.is_object(), "a fault of the protocol: {answer}");
        let tools = self.tools.get_or_init(async || {
            let listed = self.request("tools/list", json!({})).await;
            listed["result"]["tools"].clone()
        });
        assert_fits(tools.await, params["name"].as_str().unwrap(), result);
        result.clone()
    }

    /// What came without having been asked for, so far.
    pub fn heard(&self) -> Vec<Value> {
        self.heard.lock().unwrap().clone()
    }

    /// Says nothing more, as a client that ends does.
    pub async fn hang_up(&self) {
        *self.input.lock().await = None;
    }

    pub fn pid(&self) -> u32 {
        self.child.lock().unwrap().id().unwrap()
    }

    /// Returns when it has ended, with its exit code.
    pub async fn ended(&self) -> Option<i32> {
        until("adjutant mcp has ended", async || self.child.lock().unwrap().try_wait().unwrap().is_some())
            .await;
        self.child.lock().unwrap().try_wait().unwrap().unwrap().code()
    }

    pub async fn kill(&self) {
        self.child.lock().unwrap().start_kill().unwrap();
        self.ended().await;
    }

    pub fn said(&self) -> String {
        std::fs::read_to_string(self.said.path()).unwrap()
    }
}

impl Drop for StdioClient {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- mcp\n{}", self.said());
        }
    }
}

/// A client of the newest revision over HTTP, where every request says all that is to be known.
pub struct Modern {
    pub server: Server,
    key: Option<String>,
    capabilities: Value,
    tools: OnceCell<Value>,
    pub headers: Vec<String>,
}

impl Modern {
    pub fn new(server: Server, secret: &str) -> Self {
        Self { key: Some(secret.to_owned()), ..Self::without_key(server) }
    }

    /// Where no key is needed.
    pub fn without_key(server: Server) -> Self {
        Self { server, key: None, capabilities: json!({}), tools: OnceCell::new(), headers: Vec::new() }
    }

    pub fn knowing_tasks(mut self) -> Self {
        self.capabilities = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
        self
    }

    pub async fn post(&self, method: &str, params: Value) -> Answer {
        let (mut headers, body) = modern(method, params, &self.capabilities);
        headers.extend(self.headers.iter().cloned());
        post(&self.server, self.key.as_deref(), &headers, &body).await
    }

    /// The answer to a request, a result or a fault.
    pub async fn request(&self, method: &str, params: Value) -> Value {
        self.post(method, params).await.json()
    }

    pub async fn call_in(&self, session: &str, call: &ToolCall) -> Value {
        self.called(params(Some(session), call)).await
    }

    /// The result of a tool call that names no session.
    pub async fn call(&self, tool: &str, arguments: Value) -> Value {
        self.called(params(None, &call(tool, arguments))).await
    }

    async fn called(&self, params: Value) -> Value {
        let answer = self.request("tools/call", params.clone()).await;
        let result = &answer["result"];
        assert!(result.is_object(), "a fault of the protocol: {answer}");
        if result["resultType"] == "complete" {
            let tools = self.tools.get_or_init(async || {
                let listed = self.request("tools/list", json!({})).await;
                listed["result"]["tools"].clone()
            });
            assert_fits(tools.await, params["name"].as_str().unwrap(), result);
        }
        result.clone()
    }
}

/// A request of the newest revision: the headers that only it has, and its body.
pub fn modern(method: &str, mut params: Value, capabilities: &Value) -> (Vec<String>, String) {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": NEWEST,
        "io.modelcontextprotocol/clientCapabilities": capabilities,
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    });
    for (name, value) in meta.as_object().unwrap() {
        params["_meta"][name] = value.clone();
    }
    let name = ["name", "uri", "taskId"].iter().find_map(|name| params[*name].as_str());
    let mut headers = vec![format!("MCP-Protocol-Version: {NEWEST}"), format!("Mcp-Method: {method}")];
    headers.extend(name.map(|name| format!("Mcp-Name: {name}")));
    (headers, json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string())
}

/// One message, with these headers and those that all have.
pub async fn post(server: &Server, key: Option<&str>, headers: &[String], body: &str) -> Answer {
    post_to(server, "/mcp", key, headers, body).await
}

/// As [`post`], at this path.
pub async fn post_to(
    server: &Server,
    path: &str,
    key: Option<&str>,
    headers: &[String],
    body: &str,
) -> Answer {
    let key = key.map(|key| format!("Authorization: Bearer {key}"));
    let mut all = vec!["Content-Type: application/json", "Accept: application/json, text/event-stream"];
    all.extend(key.as_deref());
    all.extend(headers.iter().map(String::as_str));
    server.request("POST", path, &all, body).await
}
